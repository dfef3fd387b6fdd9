"""to_split_training_step: one step as two models, gradients and their application, for training on several machines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from onnx import ModelProto

from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.compile.cut import exchanged, is_applied
from onnxgrad.core.interop.loss_share import Share, share_of
from onnxgrad.core.interop.onnx_export import Values, as_variables
from onnxgrad.core.interop.training_step import (
    Fetch,
    Manifest,
    PresentValues,
    describe,
    locate,
    save_step,
    stem_of,
    with_manifest,
)
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["check_batch_norm", "save_split_training_step", "to_split_training_step"]


def to_split_training_step(
    program: Program,
    fetch: Fetch,
    scope: Any = None,
    *,
    lowering: str | None = None,
    loss: Variable | str | None = None,
    loss_weight: Variable | str | None = None,
    batch_norm: str | None = None,
) -> tuple[ModelProto, ModelProto, Manifest]:
    """One training step as two models, so that gradients may be averaged, summed or sent elsewhere in between.

    The first model computes gradients (and what running statistics become) from weights and a batch; the second applies gradients
    to weights and optimizer state. Clipping, decay and the learning rate belong to the second: they see the averaged gradient.

    Args:
        program, fetch, scope, lowering: as for ``to_training_step``; the fetches are outputs of the first model.
        loss: what ``minimize`` was called on; None to find it.
        loss_weight: what the loss divides a sum over examples by, a scalar in the program that is computed from the data;
            ``"sum"`` if by nothing; None to read it from the formula of the loss.
        batch_norm: ``"local"`` if BatchNormalization by batch statistics, where there is one, normalises each part by its own.

    Returns:
        (gradients, apply, manifest). ``manifest["gradients"]`` and ``manifest["apply"]`` each describe their model as
        ``to_training_step`` does; ``manifest["exchange"]`` pairs each ``gradient``, an output of the first and an input of the
        second model, with its ``parameter`` (None for what is no parameter's gradient). ``manifest["reduction"]`` says how the
        gradients of parts make that of the whole batch, and likewise the loss: ``"mean"``, the sum of weight times gradient over
        the sum of the weights, where the first model's output ``manifest["weight"]`` is the weight; ``"sum"``, their sum. A part
        may weigh nothing; its gradients are then not to be counted, as they may be NaN. State of the first model with
        ``"statistic": true`` is to be averaged by the same weights.

    Raises:
        ArgumentError: if ``minimize`` was not called on the program, the formula of the loss does not say how parts add up, or
            there is a BatchNormalization by batch statistics and ``batch_norm`` does not say what it is to do.

    Example:
        >>> gradients, apply, manifest = to_split_training_step(program, [loss])  # doctest: +SKIP
    """
    first, second, values, manifest = _split(program, fetch, scope, lowering, loss, loss_weight, batch_norm)
    for graph in (first, second):
        graph.initializers += [v for v in graph.inputs if v in values]
    models = [with_manifest(graph, values, manifest) for graph in (first, second)]
    return models[0], models[1], manifest


def save_split_training_step(
    program: Program,
    path: str | Path,
    fetch: Fetch,
    scope: Any = None,
    *,
    lowering: str | None = None,
    loss: Variable | str | None = None,
    loss_weight: Variable | str | None = None,
    batch_norm: str | None = None,
) -> Manifest:
    """Write ``<path>_gradients.onnx``, ``<path>_apply.onnx``, the manifest ``<path>.json`` and the first values ``<path>.bin``.

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
    first, second, values, manifest = _split(program, fetch, scope, lowering, loss, loss_weight, batch_norm)
    stem = stem_of(path)
    parts = [manifest["gradients"], manifest["apply"]]
    locate([entry for part in parts for entry in part["state"] + part["constants"]])
    manifest["values"] = f"{stem.name}.bin"
    for part, kind in zip(parts, ("gradients", "apply"), strict=True):
        part["model"] = f"{stem.name}_{kind}.onnx"
    save_step(stem, manifest, values, {part["model"]: graph for part, graph in zip(parts, (first, second), strict=True)})
    return manifest


def _split(
    original: Program,
    fetch: Fetch,
    scope: Any,
    lowering: str | None,
    loss: Variable | str | None,
    loss_weight: Variable | str | None,
    batch_norm: str | None,
) -> tuple[Graph, Graph, Values, Manifest]:
    program, twins = original.clone_with_variables()

    def copies(given: Fetch) -> list[Variable]:
        return [twins[v] for v in as_variables(original, given)]

    fetched = copies(fetch)
    loss = None if loss is None else copies(loss)[0]
    weight = loss_weight if loss_weight is None or _is_sum(loss_weight) else copies(loss_weight)[0]
    applied = [new for new in program.updates.values() if is_applied(new)]
    if not applied:
        raise ArgumentError("no optimizer updates this program. Call minimize on the loss first.")
    check_batch_norm(program, batch_norm)
    share = _share(program, fetched, loss, weight)
    between_models = exchanged(program, applied)
    forward = [new for new in program.updates.values() if not is_applied(new)]
    part = partial(compile, provider=lowering, state_as_inputs=True, updates=False, ordered=True)
    weights = [] if share.weight is None else [share.weight]
    first = part(program, [*fetched, *between_models, *weights, *forward])
    second = part(program, applied, given=between_models)
    held = scope or first.scope
    described = describe(first, PresentValues(first.inputs, held))
    between = {first.name(v) for v in (*between_models, *weights)} - {first.name(v) for v in fetched}
    described["fetches"] = [entry for entry in described["fetches"] if entry["name"] not in between]
    for entry in described["state"]:
        entry["statistic"] = entry["dtype"].startswith(("float", "bfloat"))
    manifest = {
        "gradients": described,
        "apply": describe(second, PresentValues(second.inputs, held)),
        "exchange": [{"gradient": v.name, "parameter": _parameter_of(program, v)} for v in between_models],
        "reduction": share.reduction,
        "weight": None if share.weight is None else first.name(share.weight),
    }
    return first, second, PresentValues([*first.inputs, *second.inputs], held), manifest


def check_batch_norm(program: Program, chosen: str | None) -> None:
    """Refuse to cut a step whose BatchNormalization sees the whole batch, unless it is said that it need not."""
    if chosen not in (None, "local"):
        raise ArgumentError(f"batch_norm is 'local' or None here, not {chosen!r}.")
    found = [op for op in all_operators_of(program.global_block()) if op.type == "BatchNormalization" and op.attr("training_mode")]
    if found and chosen is None:
        raise ArgumentError(
            f"{found[0]} normalises by the statistics of its batch, which parts of a batch do not have. Pass batch_norm='local' "
            "(ranks: Strategy(batch_norm='local')) if each part is to be normalised by its own, or freeze it before minimize: "
            "program.train(batch_norm='frozen')."
        )


def _is_sum(weight: Any) -> bool:
    return isinstance(weight, str) and weight == "sum"


def _share(program: Program, fetched: list[Variable], loss: Variable | None, weight: Variable | str | None) -> Share:
    """How the losses of parts add up; a weight that must be computed becomes part of the program."""
    if isinstance(weight, Variable):
        return Share("mean", weight)
    if weight is not None:
        return Share("sum")
    if loss is None:
        variables = program.global_block().vars
        made = [v for op in program.global_block().ops if op.role is Role.FORWARD for v in op.outputs if v is not None]
        seeds = {v: variables.get(v.grad_name) for v in made}
        found = [v for v, seed in seeds.items() if seed is not None and seed.op is None and seed.value is not None]
        found = found or [v for v in fetched if v.is_float and v.static_shape in ((), (1,))]
        if len(found) != 1:
            raise ArgumentError(f"{len(found)} variables may be the loss of this program. Say which by loss=.")
        (loss,) = found
    return share_of(loss, Builder(program.global_block(), key="loss_weight"))


def _parameter_of(program: Program, gradient: Variable) -> str | None:
    named = [p.name for p in program.parameters if p.grad_name == gradient.name or gradient.name.endswith(f"/{p.grad_name}")]
    return named[0] if named else None
