"""A program as stages of a pipeline: each has a part of the forward pass, and the backward pass of that part alone.

Huang et al., "GPipe", 2019. ``distributed.PipelineStep`` runs one forward, one backward, as Narayanan et al., "PipeDream", 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.graph.plan import make_plan
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.step.stages import crossing_variables, stage_numbers
from onnxgrad.core.step.step import Feed, Phase, Send, bytes_of_all, phase_of
from onnxgrad.errors import ArgumentError

__all__ = ["PipelineStage", "make_pipeline"]


class PipelineStage(NamedTuple):
    """One stage. What travels is named as the program names it.

    Attributes:
        forward: computes what later stages and its own backward pass read; in the last stage the loss.
        backward: computes gradients of parameters and of what entered; None if nothing is trained up to here.
        takes, gives: what enters from the stage before and goes to the one behind, and the names of these in the graphs.
        returns, receives: of these, the gradients that go back and come back, and their names in ``backward``.
        kept: outputs of ``forward``, and the inputs of ``backward`` that take them.
        parameters: the names of gradients in ``backward``, by parameter.
        results: of the loss and the results that this stage computes, the outputs of ``forward``.
        seed: the input of ``backward`` that takes the gradient of the loss, in the last stage.
    """

    forward: Graph
    backward: Graph | None
    takes: dict[Variable, str]
    gives: dict[Variable, str]
    returns: dict[Variable, str]
    receives: dict[Variable, str]
    kept: dict[str, str]
    parameters: dict[str, str]
    results: dict[Variable, str]
    seed: str | None

    def phases(self, number: int) -> list[Phase]:
        """The phases of a stage for each micro-batch: forward, and if anything is trained up to here backward."""
        received = dict.fromkeys(self.takes.values())
        forward = phase_of("forward", self.forward, part_inputs=[PART])
        feeds: dict[str, Feed] = {name: "stage before" if name in received else who for name, who in forward.feeds.items()}
        sent = [Send(tuple(self.gives.values()), number + 1, bytes_of_all(self.gives))] if self.gives else []
        hands = tuple(self.kept)
        phases = [replace(forward, feeds=feeds, hands=hands, runs="per micro-batch", then=tuple(sent))]
        if self.backward is None:
            return phases
        backward = phase_of("backward", self.backward, part_inputs=[PART])
        entering = {taken: ("forward", output) for output, taken in self.kept.items()}
        coming: dict[str, Feed] = dict.fromkeys(self.receives.values(), "stage after")
        coming |= {} if self.seed is None else {self.seed: "exchange"}
        feeds = {name: coming.get(name, feeds.get(name, who)) for name, who in backward.feeds.items() if name not in entering}
        sent = [Send(tuple(self.returns.values()), number - 1, bytes_of_all(self.returns))] if self.returns else []
        hands = tuple(self.parameters.values())
        return [*phases, replace(backward, feeds=feeds, takes=entering, hands=hands, runs="per micro-batch", then=tuple(sent))]


def make_pipeline(
    graph: Graph,
    loss: Variable,
    results: Sequence[Variable],
    cuts: Sequence[Sequence[Variable]],
    trained: Sequence[Variable],
    provider: str | None = None,
) -> list[PipelineStage]:
    """Cut a forward graph behind some of its values, and append the backward pass of each part to it.

    Nothing is computed twice: what the backward pass of a stage reads of its forward pass is an output of that.

    Args:
        graph: plain forward operators, with state as inputs. It is not changed.
        loss: of the graph, a scalar.
        results: further results of the graph that are wanted: new state, the loss's weight. Each is of the stage that computes it.
        cuts: behind what each stage but the last ends. Whatever else a later stage reads crosses as well.
        trained: the state to differentiate with respect to. Of what several stages read each has its part of the gradient.
        provider: whose forms the graphs take.

    Raises:
        ArgumentError: if a cut is not behind the one before it.
    """
    level = _numbered(graph, loss, results, cuts)
    crossings: dict[int, list[Variable]] = {}
    for number in range(len(cuts)):
        for v in crossing_variables(graph.operators, level, number):
            last = max(_number(level, op) for op in graph.operators if any(w is v for w in op.operands()))
            for behind in range(number, last):
                crossings.setdefault(behind, []).append(v)
    readers: dict[Variable, set[int]] = {v: set() for v in trained}
    for op in graph.operators:
        for operand in op.operands():
            if operand is not None and operand in readers:
                readers[operand].add(_number(level, op))
    stages: list[PipelineStage] = []
    back: set[Variable] = set()
    for number in reversed(range(len(cuts) + 1)):
        ends = [v for v in results if level.get(v, 0) == number]
        own = [v for v in trained if number in readers[v]]
        stage = _stage(
            graph, level, number, crossings.get(number - 1, []), crossings.get(number, []), ends, own, back, loss, provider
        )
        back = set(stage.returns)
        stages.insert(0, stage)
    return stages


def _number(level: Mapping[Variable, int], op: object) -> int:
    return next(level[v] for v in op.outputs if v is not None)  # type: ignore[attr-defined]


def _numbered(graph: Graph, loss: Variable, results: Sequence[Variable], cuts: Sequence[Sequence[Variable]]) -> dict[Variable, int]:
    steps = {v for cut in cuts for v in cut}
    level = stage_numbers(graph.operators, steps, {loss, *results})
    for number, cut in enumerate(cuts):
        for v in cut:
            if level.get(v) != number:
                raise ArgumentError(
                    f"{v.name} cannot end stage {number} of the pipeline: {level.get(v, 'no')} of the other cuts lie before it. "
                    "Name the cuts in order, each computed from the one before it."
                )
    if level[loss] != len(cuts):
        raise ArgumentError(f"{loss.name} does not depend on the last cut, {cuts[-1][0].name}. Cut where the loss comes from.")
    return level


def _stage(
    graph: Graph,
    level: Mapping[Variable, int],
    number: int,
    entering: Sequence[Variable],
    leaving: Sequence[Variable],
    ends: Sequence[Variable],
    trained: Sequence[Variable],
    back: set[Variable],
    loss: Variable,
    provider: str | None,
) -> PipelineStage:
    """One stage, where the one behind it returns the gradients of ``back``"""
    is_last = level[loss] == number
    produced = [v for v in leaving if level[v] == number]
    outputs = list(dict.fromkeys([*([loss] if is_last else []), *produced, *ends]))
    part = compile(graph.program, outputs, inputs=entering, state_as_inputs=True, updates=False)
    program, of = part.program, part.of
    main = program.global_block()
    main.inputs = [v for v in part.inputs if not v.persistable]
    sources = [v for v in entering if v.is_float]
    for v in sources:
        if of(v).block is program.global_block():
            of(v).stop_gradient = False
    present = set(part.inputs)
    targets = [v for v in ([loss] if is_last else produced) if v is loss or v in back]
    cotangents = {v: _fed(program, f"{v.name}@ARRIVING", of(v)) for v in targets}
    wanted = [v for v in [*trained, *sources] if of(v) in present]
    grads = gradients([of(v) for v in targets], [of(v) for v in wanted], list(cotangents.values())) if targets and wanted else []
    own = {v: g for v, g in zip(wanted, grads, strict=True) if g is not None} if grads else {}
    relayed = {v: _fed(program, f"{v.name}@ARRIVING", v) for v in sources if v in back and any(v is w for w in leaving)}
    build = Builder(main, role=Role.BACKWARD, key="relayed")
    arriving = {**cotangents, **relayed}
    for v, g in relayed.items():
        own[v] = build.Add(g, own[v]) if v in own else build.Identity(g)
    final = list(own.values())
    kept: list[Variable] = []
    if final:
        plan = make_plan(program, final)
        read = [plan.resolve(v) for op in plan.operators if op.role is Role.BACKWARD for v in op.operands() if v is not None]
        forward = {v for op in plan.operators if op.role is Role.FORWARD for v in op.outputs if v is not None}
        kept = list(dict.fromkeys(v for v in read if v in forward))
    wholes = [*(of(v) for v in outputs), *kept]
    ahead = compile(program, list(dict.fromkeys(wholes)), provider, state_as_inputs=True, updates=False, ordered=True)
    behind = None
    if final:
        behind = compile(program, final, provider, inputs=kept, state_as_inputs=True, updates=False, ordered=True)
    inputs = {v.name for v in ahead.inputs} | ({v.name for v in behind.inputs} if behind is not None else set())
    return PipelineStage(
        ahead,
        behind,
        {v: of(v).name for v in entering},
        {v: ahead.name(of(v)) for v in leaving},
        {} if behind is None else {v: behind.name(own[v]) for v in sources if v in own},
        {v: arriving[v].name for v in leaving if v in arriving},
        {} if behind is None else {ahead.name(v): behind.name(v) for v in kept},
        {} if behind is None else {v.name: behind.name(own[v]) for v in trained if v in own},
        {v: ahead.name(of(v)) for v in [*([loss] if is_last else []), *ends]},
        cotangents[loss].name if is_last and cotangents and cotangents[loss].name in inputs else None,
    )


def _fed(program: Program, name: str, like: Variable) -> Variable:
    """An input of the type of a variable"""
    main = program.global_block()
    v = main.register(Variable(main, program.fresh_name(name), like.type))
    main.inputs.append(v)
    return v
