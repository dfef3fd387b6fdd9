"""to_split_training_step: one step as two models, gradients and their application, for training on several machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from onnx import ModelProto

from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Lowering, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.manager import run_passes
from onnxgrad.core.graph.rewriting import name_results, stage_builder
from onnxgrad.core.interop.onnx_export import Values
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.named import as_variables
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import WEIGHED_GRADIENT, is_piece
from onnxgrad.core.ir.plan import LossTerm
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of, substitute
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import PART
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.cut import exchanged_gradients, is_applied, is_graded
from onnxgrad.core.step.export import (
    Fetch,
    Manifest,
    PresentValues,
    describe,
    locate,
    save_step,
    stem_of,
    with_manifest,
)
from onnxgrad.core.step.lookups import share_lookups
from onnxgrad.core.step.loss_terms import loss_of, only_term
from onnxgrad.core.step.stages import make_stages, sum_over_ranks
from onnxgrad.core.step.step import AllReduce, Phase, phase_of
from onnxgrad.core.step.synchronise import RankShare, scale_outputs, share_of_rank, synchronise
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = [
    "Fetch",
    "Split",
    "Statistics",
    "check_batch_norm",
    "files_of",
    "save_split",
    "save_split_training_step",
    "split_step",
    "to_split_training_step",
]

Statistics: TypeAlias = Literal["local", "sync", "frozen"]
"""By what BatchNormalization in training normalises where examples are spread over parts."""


@checked
def to_split_training_step(
    program: Program,
    fetch: Fetch,
    scope: Scope | None = None,
    *,
    lowering: Lowering | None = None,
    loss: Variable | str | None = None,
    loss_weight: Variable | str | None = None,
    batch_norm: Statistics | None = None,
) -> tuple[ModelProto | list[ModelProto], ModelProto, Manifest]:
    """One training step as two models, so that gradients may be averaged, summed or sent elsewhere in between.

    The first model computes gradients (and what running statistics become) from weights and a batch; the second applies gradients
    to weights and optimizer state. Clipping, decay and the learning rate belong to the second: they see the averaged gradient.

    Args:
        program, fetch, scope, lowering: as for ``to_training_step``; the fetches are outputs of the first model.
        loss: what ``minimize`` was called on; None to find it.
        loss_weight: what the loss divides a sum over examples by, a scalar in the program that is computed from the data;
            ``"sum"`` if by nothing; None to read it from the formula of the loss.
        batch_norm: by what BatchNormalization in training, where there is one, normalises: ``"sync"`` by the statistics of all
            parts together, ``"local"`` each part by its own. ``"frozen"`` says that there is none.

    Returns:
        (gradients, apply, manifest). ``manifest["gradients"]`` and ``manifest["apply"]`` each describe their model as
        ``to_training_step`` does; ``manifest["exchange"]`` pairs each ``gradient``, an output of the first and an input of the
        second model, with its ``parameter`` (None for what is no parameter's gradient). ``manifest["reduction"]`` says how the
        gradients of parts make that of the whole batch, and likewise the loss: ``"mean"``, the sum of weight times gradient over
        the sum of the weights, where the first model's output ``manifest["weight"]`` is the weight; ``"sum"``, their sum. A part
        may weigh nothing; its gradients are then not to be counted, as they may be NaN. State with ``"statistic": true`` is to
        be averaged by the same weights. An entry of ``exchange`` that is no gradient may have a ``reduction`` of its own:
        ``"mean"`` by the weights, or ``"same"`` if all parts have the same value.

        With ``"sync"``, ``gradients`` is a list of models, described in order by ``manifest["gradients"]["stages"]``. Each takes
        the ``inputs`` that its stage names, from feeds, state and outputs of earlier ones. Then each output under ``reduce`` is
        added up over all parts, and the sum is what later models take by the name of its ``input``. Their gradients and the loss
        are each part's share of the whole, so ``manifest["reduction"]`` is ``"sum"``.

    Raises:
        ArgumentError: if ``minimize`` was not called on the program, the formula of the loss does not say how parts add up, or
            there is a BatchNormalization by batch statistics and ``batch_norm`` does not say what it is to do, or it says
            ``"sync"`` where the statistics cannot be cut out: inside a body, of a layer that is used twice, or in the loss.

    Example:
        >>> gradients, apply, manifest = to_split_training_step(program, [loss])  # doctest: +SKIP
    """
    split = split_step(program, fetch, scope, lowering, loss, loss_weight, batch_norm)
    graphs, values = [phase.graph for phase in split.phases], split.values
    for graph in graphs:
        graph.initializers += [v for v in graph.inputs if v.persistable]
    *first, second = [with_manifest(graph, values, split.manifest) for graph in graphs]
    return first[0] if len(first) == 1 else first, second, split.manifest


@checked
def save_split_training_step(
    program: Program,
    path: str | Path,
    fetch: Fetch,
    scope: Scope | None = None,
    *,
    lowering: Lowering | None = None,
    loss: Variable | str | None = None,
    loss_weight: Variable | str | None = None,
    batch_norm: Statistics | None = None,
) -> Manifest:
    """Write ``<path>_gradients.onnx``, ``<path>_apply.onnx``, the manifest ``<path>.json`` and the first values ``<path>.bin``.

    Constants that lay in files beside the model that was loaded go to ``<path>_gradients.onnx.data``.

    Args:
        program, fetch, scope, lowering, loss, loss_weight, batch_norm: as for ``to_split_training_step``.
        path: of the files; a suffix ``.onnx`` is dropped.

    Returns:
        The manifest, whose entries say where in the .bin file their value lies.

    Raises:
        ArgumentError: as for ``to_split_training_step``; NotInitialized if a weight has no value; FileError if writing fails.

    Example:
        >>> manifest = save_split_training_step(program, "out/step", [loss])  # doctest: +SKIP
    """
    return save_split(split_step(program, fetch, scope, lowering, loss, loss_weight, batch_norm), path)


def save_split(split: Split, path: str | Path) -> Manifest:
    """Write the graphs of a split step, its manifest and the first values."""
    stem, manifest = stem_of(path), split.manifest
    parts = [manifest["gradients"], manifest["apply"]]
    locate([entry for part in parts for entry in part["state"] + part["constants"]])
    manifest["values"] = f"{stem.name}.bin"
    names = ["gradients"] if len(split.first) == 1 else [f"gradients_{number}" for number in range(len(split.first))]
    *first, second = [f"{stem.name}_{name}.onnx" for name in (*names, "apply")]
    parts[1]["model"] = second
    for part, model in zip(parts[0].get("stages", parts[:1]), first, strict=True):
        part["model"] = model
    graphs = [phase.graph for phase in split.phases]
    save_step(stem, manifest, split.values, dict(zip([*first, second], graphs, strict=True)))
    return manifest


def files_of(manifest: Manifest) -> list[str]:
    """The files that a split step was written to, but for the manifest itself."""
    first = manifest["gradients"]
    return [*(part["model"] for part in first.get("stages", [first])), manifest["apply"]["model"], manifest["values"]]


class Split(NamedTuple):
    """A step in two parts: gradients, in stages between which values are reduced, and what applies them.

    Attributes:
        first: the phases of the first part.
        second: that of the second.
        values: of the state.
        manifest: what goes in and out.
    """

    first: list[Phase]
    second: Phase
    values: Values
    manifest: Manifest

    @property
    def phases(self) -> list[Phase]:
        """All of them, in the order in which they are written."""
        return [*self.first, self.second]


def split_step(
    original: Program,
    fetch: Fetch,
    scope: Scope | None = None,
    lowering: Lowering | None = None,
    loss: Variable | str | None = None,
    loss_weight: Variable | str | None = None,
    batch_norm: Statistics | None = None,
) -> Split:
    """The graphs and the manifest of ``to_split_training_step``."""
    program, copies = original.clone_with_variables()
    share_lookups(program, as_numbers=True)

    def copies_of(fetches: Fetch) -> list[Variable]:
        return [copies[v] for v in as_variables(original, fetches)]

    fetched = copies_of(fetch)
    named = None if loss is None else copies_of(loss)[0]
    is_sum = isinstance(loss_weight, str) and loss_weight == "sum"
    weight = loss_weight if loss_weight is None or is_sum else copies_of(loss_weight)[0]
    synchronised = check_batch_norm(program, batch_norm)
    known, term = _term(program, fetched, named, weight)
    accumulated = program.plan.accumulation
    cut = _cut(program)
    weights = [] if term.weight is None else [term.weight]
    staged = synchronised or (accumulated is not None and term.reduction == "mean")
    first = compile(
        program,
        [*fetched, *cut.between, *weights, *cut.kept],
        None if staged else lowering,
        state_as_inputs=True,
        updates=False,
        ordered=not staged,
    )
    second = compile(program, cut.applied, lowering, inputs=cut.entering, state_as_inputs=True, updates=False, ordered=True)
    graded = [first.of(v) for v in cut.between if is_graded(v)]
    if staged:
        least = None
        if term.weight is not None:
            share = share_of_rank(first, first.of(term.weight))
            least = share.least
            scale_outputs(first, [first.of(v) for v in fetched if v is known], share.exact, is_loss=True)
            scale_outputs(first, [] if accumulated else graded, least)
            if accumulated is not None and synchronised:
                _weigh_alike(first, share)
        if accumulated is not None:
            _reduce_flags(first)
        first.settle()
        if synchronised:
            run_passes(first, [synchronise(least)], Target())
    held = scope or first.scope
    _enter(first, second, cut)
    described = describe(first, PresentValues(first.inputs, held))
    inner = {first.name(v) for v in (*cut.between, *weights)} - {first.name(v) for v in fetched}
    described["fetches"] = [entry for entry in described["fetches"] if entry["name"] not in inner]
    sums = [] if accumulated is None else [total.name for total in accumulated.sums]
    running = {v.name for v, new in program.updates.items() if not is_applied(new)}
    for entry in described["state"]:
        entry["statistic"] = entry["dtype"].startswith(("float", "bfloat")) and entry["name"] in running
    applied = describe(second, PresentValues(second.inputs, held))
    statistics = {v.name for op in program.global_block().ops if _by_batch(op) for v in op.inputs[3:5] if v is not None} - running
    for entry in applied["state"]:
        entry["statistic"] = entry["name"] in statistics
    stages = [phase_of("gradients", first, part_inputs=[PART])]
    if staged:
        stages = make_stages(first, [v for _, v in first.outputs], lowering, "gradients")
    if len(stages) > 1:
        described["memory"]["results"] = None
        described["stages"] = [_stage_entry(stage) for stage in stages]
    manifest = {
        "gradients": described,
        "apply": applied,
        "exchange": [_exchanged(program, first, v, _parameter_of(program, cut, v), synchronised) for v in cut.between],
        "reduction": "sum" if staged else term.reduction,
        "weight": None if term.weight is None else first.name(term.weight),
        "loss": next((first.name(v) for v in fetched if v is known), None),
        "accumulate": 1 if accumulated is None else accumulated.runs,
        "accumulated": sorted(sums),
    }
    values = PresentValues([*first.inputs, *second.inputs], held)
    return Split(stages, phase_of("apply", second), values, manifest)


class _Cut(NamedTuple):
    """Which new values belong to the first part and are kept there, or go between, enter and leave the second."""

    between: list[Variable]
    entering: list[Variable]
    kept: list[Variable]
    applied: list[Variable]
    owners: dict[Variable, str]


def _cut(program: Program) -> _Cut:
    updates, accumulation = program.updates, program.plan.accumulation
    if accumulation is None:
        applied = [new for new in updates.values() if is_applied(new)]
        if not applied:
            raise ArgumentError("no optimizer updates this program. Call minimize on the loss first.")
        between = exchanged_gradients(program, applied)
        return _Cut(between, between, [new for new in updates.values() if not is_applied(new)], applied, {})
    sums = accumulation.sums
    between = [updates[total] for total in sums]
    kept = [new for v, new in updates.items() if v in accumulation.each and v not in accumulation.cleared]
    applied = [new for v, new in updates.items() if v not in accumulation.each]
    pairs = zip(between, sums, strict=True)
    owners = {new: total.name.rpartition("@")[0] for new, total in pairs if total not in accumulation.divisors}
    return _Cut(between, sums, kept, applied, owners)


def _enter(first: Graph, second: Graph, cut: _Cut) -> None:
    """Let what goes between the parts have one name in both"""
    for produced, held in zip(cut.between, cut.entering, strict=True):
        if produced is not held:
            v, entry = first.of(produced), second.of(held)
            v.name = first.program.fresh_name(f"{entry.name}/now")
            first.outputs = [(v.name if w is v else name, w) for name, w in first.outputs]
            entry.value, entry._persistable = None, False
            entry.name = v.name


def _weigh_alike(graph: Graph, share: RankShare) -> None:
    """Let gradients be added up as parts of the gradient of all ranks, times the weight of all: where statistics are those of all
    ranks, a part that weighs nothing passes on gradients of the others"""
    done: list[Operator] = []
    for op in graph.operators:
        done.append(op)
        if is_piece(op, WEIGHED_GRADIENT):
            assert op.origin is not None and op.origin.of is not None
            g, old = op.origin.of, op.outputs[0]
            assert old is not None
            build = stage_builder(graph, op)
            product = build.Mul(g, build.Cast(build.Mul(share.least, share.total), to=g.dtype.number))
            graph.replace(old, product)
            name_results(graph, build.stage or [], build.key)
            done[-1:] = build.stage or []
    graph.operators = done


def _reduce_flags(graph: Graph) -> None:
    """Let an overflow be that of any rank"""
    done: list[Operator] = []
    for op in graph.operators:
        done.append(op)
        if op.reduction == "any" and op.outputs[0] is not None:
            build = stage_builder(graph, op)
            flag = op.outputs[0]
            total = sum_over_ranks(build, flag)
            name_results(graph, build.stage or [], build.key)
            own = {total.op, *(build.stage or [])}
            substitute([other for other in graph.operators if other not in own], {flag: total})
            done += build.stage or []
    graph.operators = done


def _stage_entry(stage: Phase) -> dict[str, Any]:
    graph = stage.graph
    reduced = [pair for each in stage.then if isinstance(each, AllReduce) for pair in zip(each.values, each.sums, strict=True)]
    return {
        "inputs": [v.name for v in graph.inputs],
        "outputs": [name for name, _ in graph.outputs],
        "reduce": [
            {"output": name, "input": total.name, "dtype": total.dtype.name, "shape": [d if d >= 0 else None for d in total.shape]}
            for name, total in reduced
        ],
    }


def _exchanged(program: Program, graph: Graph, v: Variable, owner: str | None, synchronised: bool) -> dict[str, Any]:
    """How a value is put together; counters are the same everywhere, and so are statistics of the whole batch"""
    entry: dict[str, Any] = {"gradient": graph.name(v), "parameter": owner}
    if not is_graded(v):
        entry["reduction"] = "mean" if v.is_float and not synchronised else "same"
    return entry


def _by_batch(op: Operator) -> bool:
    return op.type == "BatchNormalization" and not op.domain and bool(op.attr("training_mode"))


def check_batch_norm(program: Program, chosen: str | None) -> bool:
    """Refuse to cut a step whose BatchNormalization sees the whole batch, unless it is said what it is to see."""
    if chosen not in (None, "sync", "frozen", "local"):
        raise ArgumentError(f"batch_norm is 'sync', 'frozen' or 'local', not {chosen!r}.")
    ops = [op for op in all_operators_of(program.global_block()) if _by_batch(op)]
    if ops and chosen in (None, "frozen"):
        raise ArgumentError(
            f"{ops[0]} normalises by the statistics of its batch, which parts of a batch do not have. Pass batch_norm='sync' to "
            "normalise by those of all parts together, batch_norm='local' if each part is to be normalised by its own, or freeze "
            "it before minimize: program.train(batch_norm='frozen')."
        )
    return bool(ops) and chosen == "sync"


def _term(
    program: Program, fetched: list[Variable], loss: Variable | None, weight: Variable | str | None
) -> tuple[Variable | None, LossTerm]:
    """The loss, if known, and how the losses of parts add up; a weight that must be computed becomes part of the program."""
    build = Builder(program.global_block(), key="loss_weight")
    if weight is None and loss is None:
        loss = loss_of(program, fetched)
    # Where the weight is named, which variable is the loss need not be known.
    return loss, only_term(build.constant(0.0) if loss is None else loss, weight, build)


def _parameter_of(program: Program, cut: _Cut, gradient: Variable) -> str | None:
    if gradient in cut.owners:
        return cut.owners[gradient]
    named = [p.name for p in program.parameters if p.grad_name == gradient.name or gradient.name.endswith(f"/{p.grad_name}")]
    return named[0] if named else None
