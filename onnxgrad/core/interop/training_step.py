"""to_training_step, save_training_step: one step of training as a model that any onnxruntime runs, and its manifest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto

from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.interop.onnx_export import as_variables, write_model
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType, shown_type
from onnxgrad.core.ir.variable import LEARNING_RATE, Parameter, Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.files import make_folder, write_whole

__all__ = ["save_training_step", "to_training_step"]

Fetch: TypeAlias = "Sequence[Variable | str] | Variable | str"
Manifest: TypeAlias = "dict[str, Any]"
Values: TypeAlias = "dict[Variable, np.ndarray[Any, Any]]"

METADATA_KEY = "onnxgrad.training_step"


def to_training_step(
    program: Program, fetch: Fetch, scope: Any = None, *, lowering: str | None = None
) -> tuple[ModelProto, Manifest]:
    """One training step as a model: state in, state out.

    Weights, optimizer state, running statistics and the learning rate are graph inputs with their present value as default,
    and the new values of those that change are graph outputs, so any onnxruntime can train: feed each ``state`` output back
    into its input.

    Args:
        program: a program that ``minimize`` was called on (without it, the model just has no state outputs).
        fetch: what else to return, such as the loss.
        scope: where the present values are; default the program's.
        lowering: ``"cpu"`` or ``"cuda"`` for the forms that onnxruntime runs faster there; None for plain ones.

    Returns:
        (model, manifest). The manifest lists ``feeds`` and ``fetches`` (name, dtype, shape), ``state`` (input, output, dtype,
        shape, whether a parameter), ``constants`` (inputs that no step changes) and which of these is the
        ``learning_rate``. It is stored in the model under the metadata key ``onnxgrad.training_step``.

    Example:
        >>> model, manifest = to_training_step(program, [loss])  # doctest: +SKIP
    """
    graph, values = _planned(program, fetch, scope, lowering)
    graph.initializers += list(values)
    return _with_manifest(graph, values, describe(graph, values))


def save_training_step(
    program: Program, path: str | Path, fetch: Fetch, scope: Any = None, *, lowering: str | None = None
) -> Manifest:
    """Write one training step as ``<path>.onnx``, its manifest ``<path>.json`` and the first values ``<path>.bin``.

    The model holds no values: a caller reads them from the .bin file, where each begins at the ``offset`` and has the number of
    ``bytes`` that the manifest gives, row by row and with the lowest byte first.

    Args:
        program, fetch, scope, lowering: as for ``to_training_step``.
        path: of the three files; a suffix ``.onnx`` is dropped.

    Returns:
        The manifest.

    Raises:
        ArgumentError: if no lowering has this name.
        NotInitialized: if a weight has no value yet; FetchError if a fetch is not in the program.
        FileError: (an OSError) if a file cannot be written.

    Example:
        >>> manifest = save_training_step(program, "out/step", [loss])  # doctest: +SKIP
    """
    graph, values = _planned(program, fetch, scope, lowering)
    manifest = describe(graph, values)
    stem = stem_of(path)
    stored = locate([*manifest["state"], *manifest["constants"]], values)
    manifest["model"], manifest["values"] = f"{stem.name}.onnx", f"{stem.name}.bin"
    model, _ = _with_manifest(graph, values, manifest)
    make_folder(stem.parent)
    write_whole(Path(f"{stem}.bin"), stored)
    write_whole(Path(f"{stem}.onnx"), model.SerializeToString())
    write_whole(Path(f"{stem}.json"), (json.dumps(manifest, indent=1) + "\n").encode())
    return manifest


def _planned(program: Program, fetch: Fetch, scope: Any, lowering: str | None) -> tuple[Graph, Values]:
    graph = compile(program, as_variables(program, fetch), lowering, state_as_inputs=True, ordered=True)
    return graph, {v: v.get_value(scope or graph.scope) for v in graph.inputs if v.persistable}


def _with_manifest(graph: Graph, values: Values, manifest: Manifest) -> tuple[ModelProto, Manifest]:
    model = write_model(graph, values)
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA_KEY, json.dumps(manifest)
    return model, manifest


def stem_of(path: str | Path) -> Path:
    """The path of a step's files without their suffix."""
    path = Path(path)
    if not path.name:
        raise ArgumentError(f"{str(path)!r} names no file. Give a path such as 'out/step'.")
    return path.with_suffix("") if path.suffix == ".onnx" else path


# The manifest --------------------------------------------------------------------------------------------------------


def describe(graph: Graph, values: Values) -> Manifest:
    """What goes in and out of the model of ``graph``, and which input takes which output in the next step."""
    outputs = {v.name: name for name, v in graph.outputs}
    updated = {new.name: v for v in values if (new := graph.updates.get(v)) is not None and new.name in outputs}
    changed = set(updated.values())
    return {
        "feeds": [_entry(v.name, v) for v in graph.inputs if not v.persistable],
        "fetches": [_entry(name, v) for name, v in graph.outputs if v.name not in updated],
        "state": [
            {"input": v.name, "output": outputs[new], **_held(v, values[v]), "parameter": isinstance(v, Parameter)}
            for new, v in updated.items()
        ],
        "constants": [_held(v, value) for v, value in values.items() if v not in changed],
        "learning_rate": [v.name for v in values if v.doc == LEARNING_RATE],
    }


def _entry(name: str, v: Variable) -> dict[str, Any]:
    shown = shown_type(v.type)
    dims = shown.dims if isinstance(shown, TensorType) else None
    return {"name": name, "dtype": v.dtype.name, "shape": None if dims is None else list(dims)}


def _held(v: Variable, value: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"name": v.name, "dtype": v.dtype.name, "shape": list(value.shape)}


def locate(entries: list[dict[str, Any]], values: Values) -> bytes:
    """Give each entry the offset of its value in one file; returns the content of that file. A value is stored once."""
    named = {v.name: value for v, value in values.items()}
    content = bytearray()
    stored: dict[str, dict[str, int]] = {}
    for entry in entries:
        if entry["name"] not in stored:
            # At multiples of eight, so that a typed array of any language can lie on top.
            content.extend(bytes(-len(content) % 8))
            value = np.ascontiguousarray(named[entry["name"]])
            raw = value.astype(value.dtype.newbyteorder("<")).tobytes()
            stored[entry["name"]] = {"offset": len(content), "bytes": len(raw)}
            content += raw
        entry.update(stored[entry["name"]])
    return bytes(content)
