"""How the training step of a program is laid out on stages of a pipeline.

Tests: tests/distributed/test_pipeline.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.graph.contract import Lowering
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.named import as_variables
from onnxgrad.core.ir.origin import SCALED_LOSS, is_piece
from onnxgrad.core.ir.plan import LossTerm
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import dependent_operators
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.step.cut import exchanged_gradients, is_applied
from onnxgrad.core.step.loss_terms import only_term
from onnxgrad.core.step.pipeline import PipelineStage, make_pipeline
from onnxgrad.core.step.pipeline_cuts import choose_stages
from onnxgrad.errors import ArgumentError

__all__ = ["Cuts", "PipelinePlan", "plan_pipeline"]

Cuts: TypeAlias = "int | Sequence[Variable | str | Sequence[Variable | str]]"
"""What each stage but the last hands on, or how many stages there are."""


class PipelinePlan(NamedTuple):
    """The stages of a step, and what of the graph that they were cut from flows in and out of them.

    Attributes:
        stages: in order.
        term: how the losses of parts add up.
        loss, weight: in that graph; the weight is None where losses are sums.
        updates: new state of the graph that depends on the data, and the state's name.
        weigh: computes the weight from what is fed alone, if it can be.
        still: computes what depends on no data: ``counters``, new state by its name, ``constant``, what optimizers read, and
            ``scale``, the gradient that the loss's backward pass begins with, by their names in it.
        fetched: in that graph.
        names: of the loss and of what is fetched.
        takes_parts: whether the program is told which part of the batch is fed.
        flags: what says which rows of a table a batch looks up, bool [rows], and what the optimizer reads of it in the program.
    """

    stages: list[PipelineStage]
    term: LossTerm
    loss: Variable
    weight: Variable | None
    updates: dict[Variable, str]
    weigh: Graph | None
    still: Graph | None
    counters: dict[str, str]
    constant: dict[Variable, str]
    scale: str | None
    fetched: list[Variable]
    names: list[str]
    takes_parts: bool
    flags: dict[Variable, Variable]


class _Steady(NamedTuple):
    """The values computed from state alone, by one graph; ``moving`` is new state that depends on the data, and its name;
    ``flags`` are truth values that optimizers read and that depend on the data."""

    graph: Graph | None
    moving: dict[Variable, str]
    counters: dict[str, str]
    constant: dict[Variable, str]
    scale: str | None
    flags: list[Variable]


def _is_of(v: Variable | None, loss: Variable) -> bool:
    """Whether a value is the loss, perhaps in another element type"""
    return v is loss or (v is not None and v.op is not None and v.op.type == "Cast" and v.op.inputs[0] is loss)


def _steady(
    original: Program, program: Program, copies: Mapping[Variable, Variable], loss: Variable, lowering: Lowering | None
) -> _Steady:
    new = {update: v.name for v, update in original.updates.items() if not is_applied(update)}
    gradients = {p.grad_name for p in original.parameters}
    applied = [update for update in original.updates.values() if is_applied(update)]
    read = [v for v in exchanged_gradients(original, applied) if v.name.rpartition("/")[2] not in gradients]
    marked = [op for op in original.global_block().ops if is_piece(op, SCALED_LOSS) and _is_of(op.inputs[0], loss)]
    scales = [scale for op in marked if (scale := op.inputs[1]) is not None]
    wanted = list(dict.fromkeys([*new, *read, *scales]))
    if not wanted:
        return _Steady(None, {}, {}, {}, None, [])
    whole = compile(program, [copies[v] for v in wanted], state_as_inputs=True, updates=False)
    fed = [v for v in whole.inputs if not v.persistable]
    moving = {v for op in dependent_operators(whole.operators, fed) for v in op.outputs}
    steady = dict.fromkeys(v for v in wanted if whole.of(copies[v]) not in moving)
    if any(v not in steady for v in scales):
        raise ArgumentError(f"the scale of {loss.name} depends on the data. Name the loss that minimize was called on.")
    options: dict[str, Any] = {"state_as_inputs": True, "updates": False, "ordered": True}
    graph = compile(program, [copies[v] for v in steady], lowering, **options) if steady else None
    names = {} if graph is None else {v: graph.name(copies[v]) for v in steady}
    return _Steady(
        graph,
        {v: name for v, name in new.items() if v not in names},
        {name: names[v] for v, name in new.items() if v in names},
        {v: names[v] for v in read if v in names},
        names[scales[0]] if scales else None,
        [v for v in read if v not in names and v.dtype.name == "bool"],
    )


def plan_pipeline(
    original: Program,
    loss: Variable | str,
    cuts: Cuts,
    fetch: Sequence[Variable | str],
    loss_weight: Variable | str | None,
    lowering: Lowering | None,
) -> PipelinePlan:
    program, copies = original.clone_with_variables()
    (minimized,) = as_variables(original, loss)
    target = copies[minimized]
    behind = [] if isinstance(cuts, int) else [[copies[v] for v in as_variables(original, cut)] for cut in cuts]
    fetched = [copies[v] for one in fetch for v in as_variables(original, one) if v is not minimized]
    weighed = copies[loss_weight] if isinstance(loss_weight, Variable) else loss_weight
    term = only_term(target, weighed, Builder(program.global_block(), key="loss_weight"))
    takes_parts = PART in program.global_block().vars
    still = _steady(original, program, copies, minimized, lowering)
    weights = [] if term.weight is None else [term.weight]
    new = {copies[v]: name for v, name in still.moving.items()}
    flags = {copies[v]: v for v in still.flags}
    wanted = [target, *weights, *new, *flags, *fetched, *(v for cut in behind for v in cut)]
    graph = compile(program, list(dict.fromkeys(wanted)), state_as_inputs=True, updates=False)
    updated = {v for v, update in program.updates.items() if is_applied(update)}
    read = set(graph.inputs)
    trained = [graph.of(p) for p in program.parameters if p in updated and graph.of(p) in read]
    weight = None if term.weight is None else graph.of(term.weight)
    if isinstance(cuts, int):
        chosen = choose_stages(graph, graph.of(target), cuts)
    else:
        chosen = [[graph.of(v) for v in cut] for cut in behind]
    on_cuts = dependent_operators(graph.operators, [v for cut in chosen for v in cut])
    computed = {v for op in on_cuts for v in op.outputs} if chosen else {v for op in graph.operators for v in op.outputs}
    results = [graph.of(v) for v in (*new, *flags, *fetched)] + ([weight] if weight is not None and weight in computed else [])
    stages = make_pipeline(graph, graph.of(target), list(dict.fromkeys(results)), chosen, trained, lowering)
    weigh = None
    if weight is not None and weight not in computed:
        weigh = compile(graph.program, [weight], lowering, state_as_inputs=True, updates=False, ordered=True)
    sources = {**stages[-1].takes, **stages[-1].results}
    for v in fetched:
        if graph.of(v) not in sources:
            raise ArgumentError(f"{v.name} does not reach the last stage of the pipeline, where results are fetched. Leave it out.")
    if still.constant and not takes_parts:
        raise ArgumentError(
            "an optimizer that scales the loss sees the number of the step, by which Dropout draws, once a step. Call "
            "core.passes.modes.take_parts before minimize, for the masks of the whole batch."
        )
    return PipelinePlan(
        stages,
        term,
        graph.of(target),
        weight,
        {graph.of(v): name for v, name in new.items()},
        weigh,
        still.graph,
        still.counters,
        still.constant,
        still.scale,
        [graph.of(v) for v in fetched],
        [minimized.name, *(v.name for v in fetched)],
        takes_parts,
        {graph.of(v): flag for v, flag in flags.items()},
    )
