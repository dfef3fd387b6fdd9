"""Checkpoints as safetensors files: weights, optimizer state, running statistics and counters of a program."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.scope import Scope
from onnxgrad.errors import UnknownName
from onnxgrad.training.tensor_file import TensorFile, read_tensors, write_tensors

__all__ = ["check_tensors", "graph_hash", "load_checkpoint", "save_checkpoint", "set_tensors"]

Programs: TypeAlias = "Program | Sequence[Program]"


def save_checkpoint(
    program: Programs, path: str | Path, scope: Scope | None = None, metadata: dict[str, str] | None = None
) -> None:
    """Write every persistable variable of a program to a safetensors file, under a temporary name first.

    Args:
        program: its parameters, optimizer state and statistics are saved by name; several share what has the same name.
        path: file to write.
        scope: where the values are; default the program's.
        metadata: further strings to store. ``checksums`` is taken.

    Raises:
        NotInitialized: if a variable has no value yet.
        TrainingError: if the file cannot be written; an old file of that name is then untouched.
    """
    write_tensors(path, _Values(program, scope), metadata)


class _Values(Mapping[str, "np.ndarray[Any, Any]"]):
    """The values of a program's state as they are now, each read when it is asked for, and not kept."""

    def __init__(self, program: Programs, scope: Scope | None) -> None:
        self._state = {v.name: v for v in _state(program)}
        self._now = (scope or _as_list(program)[0].active_scope()).copy()

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return np.asarray(self._state[name].get_value(self._now))

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


def load_checkpoint(program: Programs, path: str | Path, scope: Scope | None = None) -> None:
    """Set the persistable variables of a program from a file that ``save_checkpoint`` wrote.

    Raises:
        ModelError: if the file cannot be read, or is damaged.
        UnknownName: if it does not hold exactly the variables of this program. Nothing is changed in either case.
    """
    found = read_tensors(path)
    check_tensors(program, found)
    set_tensors(program, found, scope)


def check_tensors(program: Programs, found: TensorFile) -> None:
    """Raise UnknownName unless a file holds exactly the variables of a program, in their shapes and dtypes."""
    variables = {v.name: v for v in _state(program)}
    foreign = sorted(set(found.arrays) ^ set(variables))
    if foreign:
        raise UnknownName(f"{found.path!r} belongs to another program: {foreign[0]!r} is only on one side.")
    for name, v in variables.items():
        array = found.arrays[name]
        if tuple(array.shape) != v.static_shape:
            raise UnknownName(f"{found.path!r}: {name!r} has shape {list(array.shape)}, the program's is {v.static_shape}.")
        if array.dtype != v.dtype.numpy:
            raise UnknownName(f"{found.path!r}: {name!r} is {array.dtype.name}, the program's is {v.dtype.name}.")


def set_tensors(program: Programs, found: TensorFile, scope: Scope | None = None) -> None:
    """Set the variables of a program to what ``check_tensors`` has seen."""
    for v in _state(program):
        v.set_value(found.arrays[v.name], scope)


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
