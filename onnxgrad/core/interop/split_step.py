"""to_split_training_step: one step as two models, gradients and their application, for training on several machines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from onnx import ModelProto

from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.compile.cut import exchanged, is_applied
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
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["save_split_training_step", "to_split_training_step"]


def to_split_training_step(
    program: Program, fetch: Fetch, scope: Any = None, *, lowering: str | None = None
) -> tuple[ModelProto, ModelProto, Manifest]:
    """One training step as two models, so that gradients may be averaged, summed or sent elsewhere in between.

    The first model computes gradients (and what running statistics become) from weights and a batch; the second applies gradients
    to weights and optimizer state. Clipping, decay and the learning rate belong to the second: they see the averaged gradient.

    Args:
        program, fetch, scope, lowering: as for ``to_training_step``; the fetches are outputs of the first model.

    Returns:
        (gradients, apply, manifest). ``manifest["gradients"]`` and ``manifest["apply"]`` each describe their model as
        ``to_training_step`` does; ``manifest["exchange"]`` pairs each ``gradient``, an output of the first and an input of the
        second model, with its ``parameter`` (None for what is no parameter's gradient).

    Raises:
        ArgumentError: if ``minimize`` was not called on the program.

    Example:
        >>> gradients, apply, manifest = to_split_training_step(program, [loss])  # doctest: +SKIP
    """
    first, second, values, manifest = _split(program, fetch, scope, lowering)
    for graph in (first, second):
        graph.initializers += [v for v in graph.inputs if v in values]
    models = [with_manifest(graph, values, manifest) for graph in (first, second)]
    return models[0], models[1], manifest


def save_split_training_step(
    program: Program, path: str | Path, fetch: Fetch, scope: Any = None, *, lowering: str | None = None
) -> Manifest:
    """Write ``<path>_gradients.onnx``, ``<path>_apply.onnx``, the manifest ``<path>.json`` and the first values ``<path>.bin``.

    Args:
        program, fetch, scope, lowering: as for ``to_split_training_step``.
        path: of the files; a suffix ``.onnx`` is dropped.

    Returns:
        The manifest, whose entries say where in the .bin file their value lies.

    Raises:
        ArgumentError: if ``minimize`` was not called; NotInitialized if a weight has no value; FileError if writing fails.

    Example:
        >>> manifest = save_split_training_step(program, "out/step", [loss])  # doctest: +SKIP
    """
    first, second, values, manifest = _split(program, fetch, scope, lowering)
    stem = stem_of(path)
    parts = [manifest["gradients"], manifest["apply"]]
    locate([entry for part in parts for entry in part["state"] + part["constants"]])
    manifest["values"] = f"{stem.name}.bin"
    for part, kind in zip(parts, ("gradients", "apply"), strict=True):
        part["model"] = f"{stem.name}_{kind}.onnx"
    save_step(stem, manifest, values, {part["model"]: graph for part, graph in zip(parts, (first, second), strict=True)})
    return manifest


def _split(program: Program, fetch: Fetch, scope: Any, lowering: str | None) -> tuple[Graph, Graph, Values, Manifest]:
    applied = [new for new in program.updates.values() if is_applied(new)]
    if not applied:
        raise ArgumentError("no optimizer updates this program. Call minimize on the loss first.")
    between_models = exchanged(program, applied)
    forward = [new for new in program.updates.values() if not is_applied(new)]
    fetched = as_variables(program, fetch)
    part = partial(compile, provider=lowering, state_as_inputs=True, updates=False, ordered=True)
    first = part(program, [*fetched, *between_models, *forward])
    second = part(program, applied, given=between_models)
    held = scope or first.scope
    described = describe(first, PresentValues(first.inputs, held))
    between = {first.name(v) for v in between_models} - {first.name(v) for v in fetched}
    described["fetches"] = [entry for entry in described["fetches"] if entry["name"] not in between]
    manifest = {
        "gradients": described,
        "apply": describe(second, PresentValues(second.inputs, held)),
        "exchange": [{"gradient": v.name, "parameter": _parameter_of(program, v)} for v in between_models],
    }
    return first, second, PresentValues([*first.inputs, *second.inputs], held), manifest


def _parameter_of(program: Program, gradient: Variable) -> str | None:
    named = [p.name for p in program.parameters if p.grad_name == gradient.name or gradient.name.endswith(f"/{p.grad_name}")]
    return named[0] if named else None
