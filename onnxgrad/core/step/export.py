"""to_training_step, save_training_step: one step of training as a model that any onnxruntime runs, and its manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto

from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.graph.contract import Lowering
from onnxgrad.core.graph.order import peak_of_run
from onnxgrad.core.interop.model_file import bytes_of_array
from onnxgrad.core.interop.onnx_export import Values, save_graph, write_model
from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.ir.named import as_variables
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.types import TensorType, shown_type
from onnxgrad.core.ir.variable import LEARNING_RATE, Parameter, Variable
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.accumulated import accumulated_step
from onnxgrad.core.step.cut import is_applied
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import make_folder, write_whole, writing

__all__ = ["save_training_step", "to_training_step"]

Fetch: TypeAlias = "Sequence[Variable | str] | Variable | str"
Manifest: TypeAlias = "dict[str, Any]"

METADATA_KEY = "onnxgrad.training_step"


@checked
def to_training_step(
    program: Program, fetch: Fetch, scope: Scope | None = None, *, lowering: Lowering | None = None
) -> tuple[ModelProto, Manifest]:
    """One training step as a model: state in, state out.

    Weights, optimizer state, running statistics and the learning rate are graph inputs with their present value as default,
    and the new values of those that change are graph outputs, so any onnxruntime can train: feed each ``state`` output back
    into its input.

    Of a program that adds gradients up the step counts its runs, and updates the weights in every so many-th. What lay in
    files beside the model that was loaded is in the message.

    Args:
        program: a program that ``minimize`` was called on (without it, the model just has no state outputs).
        fetch: what else to return, such as the loss.
        scope: where the present values are; default the program's.
        lowering: ``"cpu"``, ``"cuda"`` or another provider (``PROVIDERS``) for the forms that it needs or runs faster;
            None for plain ones.

    Returns:
        (model, manifest). The manifest lists ``feeds`` and ``fetches`` (name, dtype, shape), ``state`` (input, output, dtype,
        shape, whether a ``parameter``, and whether a running ``statistic`` of the data), ``constants`` (inputs that no step
        changes) and which of these is the ``learning_rate``; ``memory`` has bytes: of ``state`` and constants, and the most of
        ``results`` that live at once (None where a size is not known). It is stored in the model under the metadata key
        ``onnxgrad.training_step``.

    Example:
        >>> model, manifest = to_training_step(program, [loss])  # doctest: +SKIP
    """
    graph, values, manifest = _described(program, fetch, scope, lowering)
    graph.initializers += list(values)
    return with_manifest(graph, values, manifest), manifest


@checked
def save_training_step(
    program: Program, path: str | Path, fetch: Fetch, scope: Scope | None = None, *, lowering: Lowering | None = None
) -> Manifest:
    """Write one training step as ``<path>.onnx``, its manifest ``<path>.json`` and the first values ``<path>.bin``.

    Constants that lay in files beside the model that was loaded go to ``<path>.onnx.data``. The model holds no values of state:
    a caller reads them from the .bin file, where each begins at the ``offset`` and has the number of ``bytes`` that the manifest
    gives, row by row and with the lowest byte first.

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
    graph, values, manifest = _described(program, fetch, scope, lowering)
    stem = stem_of(path)
    locate([*manifest["state"], *manifest["constants"]])
    manifest["model"], manifest["values"] = f"{stem.name}.onnx", f"{stem.name}.bin"
    save_step(stem, manifest, values, {f"{stem.name}.onnx": graph})
    return manifest


def _described(program: Program, fetch: Fetch, scope: Scope | None, lowering: Lowering | None) -> tuple[Graph, Values, Manifest]:
    names = [v.name for v in as_variables(program, fetch)]
    program = accumulated_step(program)
    graph = compile(program, as_variables(program, names), lowering, state_as_inputs=True, ordered=True)
    values = PresentValues(graph.inputs, scope or graph.scope)
    return graph, values, _marked(describe(graph, values), program)


def _marked(manifest: Manifest, program: Program) -> Manifest:
    """Say which state is a running statistic: what an optimizer does not make, or BatchNormalization reads as one."""
    read = [v for op in all_operators_of(program.global_block()) if op.type == "BatchNormalization" for v in op.inputs[3:5]]
    names = {v.name for v in read if v is not None}
    names |= {v.name for v, new in program.updates.items() if v.is_float and not is_applied(new)}
    for entry in manifest["state"]:
        entry["statistic"] = entry["input"] in names and not entry["parameter"]
    return manifest


class PresentValues(Mapping[Variable, "np.ndarray[Any, Any]"]):
    """The values of state among variables, each read from the scope when it is asked for, and not kept."""

    def __init__(self, variables: Iterable[Variable], scope: Scope | None) -> None:
        self.scope = scope
        self._state = dict.fromkeys(v for v in variables if v.persistable)

    def __getitem__(self, v: Variable) -> np.ndarray[Any, Any]:
        if v not in self._state:
            raise KeyError(v)
        value: np.ndarray[Any, Any] = v.get_value(self.scope)
        return value

    def __contains__(self, v: object) -> bool:
        return v in self._state

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def with_manifest(graph: Graph, values: Values, manifest: Manifest) -> ModelProto:
    """The message of a graph, with the manifest in its metadata."""
    model = write_model(graph, values)
    model.metadata_props.add(key=METADATA_KEY, value=json.dumps(manifest))
    return model


def stem_of(path: str | Path) -> Path:
    """The path of a step's files without their suffix."""
    path = Path(path)
    if not path.name:
        raise ArgumentError(f"{str(path)!r} names no file. Give a path such as 'out/step'.")
    return path.with_suffix("") if path.suffix == ".onnx" else path


# The manifest --------------------------------------------------------------------------------------------------------


def describe(graph: Graph, values: Values) -> Manifest:
    """Describe the inputs and outputs of the model of ``graph``, and which input takes which output in the next step."""
    outputs = {v.name: name for name, v in graph.outputs}
    updated = {new.name: v for v in values if (new := graph.updates.get(v)) is not None and new.name in outputs}
    changed = set(updated.values())
    return {
        "feeds": [_entry(v.name, v) for v in graph.inputs if not v.persistable and v.default is None],
        "fetches": [_entry(name, v) for name, v in graph.outputs if v.name not in updated],
        "state": [
            {"input": v.name, "output": outputs[new], **_state_entry(v, values[v]), "parameter": isinstance(v, Parameter)}
            for new, v in updated.items()
        ],
        "constants": [_state_entry(v, value) for v, value in values.items() if v not in changed],
        "learning_rate": [v.name for v in values if v.doc == LEARNING_RATE],
        "memory": {
            "state": sum(bytes_needed(v.dtype, value.shape) for v, value in values.items()),
            "results": peak_of_run(graph.operators),
        },
    }


def _entry(name: str, v: Variable) -> dict[str, Any]:
    shown = shown_type(v.type)
    dims = shown.dims if isinstance(shown, TensorType) else None
    return {"name": name, "dtype": v.dtype.name, "shape": None if dims is None else list(dims)}


def _state_entry(v: Variable, value: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {"name": v.name, "dtype": v.dtype.name, "shape": list(value.shape)}


def locate(entries: list[dict[str, Any]]) -> None:
    """Give each entry the offset and the number of bytes of its value in one file. A value is stored once."""
    stored: dict[str, dict[str, int]] = {}
    end = 0
    for entry in entries:
        if entry["name"] not in stored:
            # At multiples of eight, so that a typed array of any language can lie on top.
            start = end + -end % 8
            size = bytes_needed(dtype_of(entry["dtype"]), entry["shape"])
            stored[entry["name"]] = {"offset": start, "bytes": size}
            end = start + size
        entry.update(stored[entry["name"]])


def save_step(stem: Path, manifest: Manifest, values: Values, graphs: Mapping[str, Graph]) -> None:
    """Write the first values, the graphs and the manifest; one value is in memory at a time.

    Args:
        stem: path of the files without suffix.
        manifest: as ``describe`` and ``locate`` made it, or several such under names.
        values: of the state of all graphs.
        graphs: by the name of their file.
    """
    parts = [manifest] if "state" in manifest else [part for part in manifest.values() if isinstance(part, dict)]
    locations = {entry["name"]: entry for part in parts for entry in part["state"] + part["constants"]}
    variables = {v.name: v for v in values}
    make_folder(stem.parent)
    with writing(Path(f"{stem}.bin")) as file:
        for name, entry in sorted(locations.items(), key=lambda item: item[1]["offset"]):
            file.write(bytes(entry["offset"] - file.tell()))
            file.write(bytes_of_array(values[variables[name]]))
    for name, graph in graphs.items():
        save_graph(graph, stem.with_name(name), values, {METADATA_KEY: json.dumps(manifest)}, copies=True)
    write_whole(Path(f"{stem}.json"), (json.dumps(manifest, indent=1) + "\n").encode())
