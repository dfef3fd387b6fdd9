"""Checkpoints as safetensors files: weights, optimizer state, running statistics and counters of a program."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.scope import Scope
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ModelError, OnnxGradError, UnknownName
from onnxgrad.training.folder import write_atomically

__all__ = ["epochs_done", "graph_hash", "load_checkpoint", "read_metadata", "save_checkpoint"]

Programs: TypeAlias = "Program | Sequence[Program]"


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise OnnxGradError("checkpoints need the package safetensors. Install onnxgrad[training].") from error
    return safetensors.numpy


_ELEMENTS = {
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"{kind}{bits}": f"{name}{bits}" for kind, name in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)},
    "BOOL": "bool",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
"""Element types by their names in a file; safetensors itself reads no bfloat16 into numpy."""


def _arrays(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    _safetensors()
    import safetensors

    found = {}
    for name, held in safetensors.deserialize(data):  # type: ignore[no-untyped-call]
        elements = np.frombuffer(held["data"], dtype_of(_ELEMENTS[held["dtype"]]).numpy)
        found[name] = elements.reshape(held["shape"]).copy()
    return found


def save_checkpoint(
    program: Programs, path: str | Path, scope: Scope | None = None, metadata: dict[str, str] | None = None
) -> None:
    """Write every persistable variable of a program to a safetensors file, under a temporary name first.

    Args:
        program: its parameters, optimizer state and statistics are saved by name; several share what has the same name.
        path: file to write.
        scope: where the values are; default the program's.
        metadata: further strings to store.

    Raises:
        NotInitialized: if a variable has no value yet.
        TrainingError: if the file cannot be written; an old file of that name is then untouched.
    """
    found = {v.name: np.ascontiguousarray(v.get_value(scope)) if v.dims else np.array(v.get_value(scope)) for v in _state(program)}
    write_atomically(Path(path), _safetensors().save(found, metadata))


def load_checkpoint(program: Programs, path: str | Path, scope: Scope | None = None) -> None:
    """Set the persistable variables of a program from a file that ``save_checkpoint`` wrote.

    Raises:
        ModelError: if the file cannot be read.
        UnknownName: if it does not hold exactly the variables of this program; nothing is changed then.
    """
    try:
        values = _arrays(Path(path).read_bytes())
    except OnnxGradError:
        raise
    except Exception as error:
        raise ModelError(f"{str(path)!r} is not a readable checkpoint: {error}") from error
    variables = {v.name: v for v in _state(program)}
    foreign = sorted(set(values) ^ set(variables))
    if foreign:
        raise UnknownName(f"{str(path)!r} belongs to another program: {foreign[0]!r} is only on one side.")
    for name, v in variables.items():
        if tuple(values[name].shape) != v.static_shape:
            raise UnknownName(f"{str(path)!r}: {name!r} has shape {list(values[name].shape)}, the program's is {v.static_shape}.")
    for name, v in variables.items():
        v.set_value(values[name], scope)


def read_metadata(path: str | Path) -> dict[str, str]:
    """The strings stored in a checkpoint.

    Raises:
        ModelError: if the file cannot be read.
    """
    _safetensors()
    from safetensors import safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            return dict(file.metadata() or {})
    except Exception as error:
        raise ModelError(f"{str(path)!r} is not a readable checkpoint: {error}") from error


def epochs_done(path: str | Path) -> int:
    """How many epochs a run had finished when its Trainer wrote this checkpoint.

    Raises:
        ModelError: if the file cannot be read, or no Trainer wrote it.
    """
    try:
        return int(json.loads(read_metadata(path)["position"])["epoch"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{str(path)!r} is no checkpoint of a Trainer: it holds no position.") from error


def graph_hash(program: Programs) -> str:
    """A hash of the forward operators and the shapes of the state: equal for programs that can share a checkpoint."""
    digest = hashlib.sha256()
    for op in _as_list(program)[0].global_block().ops:
        if op.role is Role.FORWARD and op.replaces is None:
            parts = [op.domain, op.type, *(v.name if v is not None else "" for v in [*op.inputs, *op.outputs])]
            digest.update("\0".join(parts).encode() + b"\n")
    for v in sorted(_state(program), key=lambda v: v.name):
        digest.update(f"{v.name} {v.dtype.name} {v.static_shape}\n".encode())
    return digest.hexdigest()


def _as_list(program: Programs) -> list[Program]:
    return [program] if isinstance(program, Program) else list(program)


def _state(program: Programs) -> list[Any]:
    found = {v.name: v for one in reversed(_as_list(program)) for v in [*one.list_vars(), *one.parameters] if v.persistable}
    return list(found.values())
