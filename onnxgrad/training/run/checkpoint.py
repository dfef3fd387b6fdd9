"""Checkpoints as safetensors files: weights, optimizer state, running statistics and counters of a program.

Tests: tests/training/test_checkpoints.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import view_of
from onnxgrad.distributed.agreement import Subject, check_equal
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import TrainingError, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.tensor_file import (
    SHARDS,
    ShardedTensor,
    TensorFile,
    read_tensors,
    shard_files,
    sum_of,
    write_ranges,
    write_tensors,
)
from onnxgrad.training.surgery.lora_targets import KEY

__all__ = [
    "check_tensors",
    "drop_shares",
    "exchanges_of",
    "graph_hash",
    "load_checkpoint",
    "save_checkpoint",
    "set_tensors",
    "shared_of",
]

Programs: TypeAlias = "Program | Sequence[Program]"

_REST = "rest of "
"""In front of the name of a gradient: what an exchange between ranks has kept of it."""

_SHARD = ".shard"
"""The end of the names of files with ranges of tensors."""

_TERM = re.compile(r"rank (\d+) of (.+)", re.DOTALL)
"""Names of sums of gradients, and of residuals, of one rank in files that one wrote for all; under the name alone is the sum."""

_TOGETHER = "Let all ranks call save_checkpoint(together=True), or Trainer.save"


@checked
def save_checkpoint(
    program: Programs,
    path: str | Path,
    scope: Scope | None = None,
    metadata: dict[str, str] | None = None,
    together: bool = False,
) -> None:
    """Write every persistable variable of a program to a safetensors file, under a temporary name first.

    Of a program with LoRA branches the frozen weights are left out: they are those of the model, which belongs to the checkpoint.

    Args:
        program: its parameters, optimizer state and statistics are saved by name; several share what has the same name.
        path: file to write.
        scope: where the values are; default the program's.
        metadata: further strings to store. ``checksums`` is taken; where ranks write together those of rank 0 are stored.
        together: whether all ranks call this, with one name in a folder that all see. Each writes what it alone has to a file
            beside it: ranges of the optimizer's state, what compression has kept, sums over micro-batches.

    Raises:
        NotInitialized: if a variable has no value yet.
        TrainingError: if the file cannot be written, which then is as before, or if this rank alone has something and
            ``together=False``.
    """
    if together and exchanges_of(program):
        _write_together(program, Path(path), metadata or {})
        return
    if scope is None:
        kept = [name for one in exchanges_of(program) for name in [*one.rests(), *_own_sums(one)]]
        if kept:
            raise TrainingError(f"ranks have different values of what is kept of {kept[0]}. {_TOGETHER}.")
    write_tensors(path, _Values(program, scope), metadata)


def _write_together(program: Programs, path: Path, metadata: Mapping[str, str]) -> None:
    """Write what each rank alone has, then on rank 0 the checkpoint that names these files, and delete those that none names"""
    exchanges = exchanges_of(program)
    transport = exchanges[0].transport
    rank, count = transport.rank, transport.world_size
    scope = _as_list(program)[0].active_scope()
    check_equal(transport, {"another checkpoint to write": Subject(path.name, "Give all ranks one name")})
    rows: dict[str, np.ndarray[Any, Any]] = {}
    starts: dict[str, int] = {}
    layouts: dict[str, dict[str, Any]] = {"tensors": {}, "sums": {}}
    shared = shared_of(program)
    for v, (start, row) in ({} if shared is None else shared.own_rows(scope)).items():
        rows[v.name], starts[v.name] = row, start
    for v in () if shared is None else shared.shared_out():
        layouts["tensors"][v.name] = [v.dtype.name, v.static_shape]
    for one in exchanges:
        for name, term in {**{_REST + name: rest for name, rest in one.rests().items()}, **one.own_sums(scope)}.items():
            rows[name], starts[name] = term.reshape(-1), 0
            layouts["sums"][name] = [dtype_of(term.dtype).name, term.shape]
    names = {name for layout in layouts.values() for name in layout}
    files: list[str] = []
    if names:
        # No other checkpoint of this name has it.
        token = np.frombuffer(os.urandom(4), np.uint8).copy()
        transport.broadcast_(token)
        files = [f"{path.name}.{token.tobytes().hex()}-{number}-of-{count}{_SHARD}" for number in range(count)]
        _on_all(transport, path, partial(write_ranges, path.with_name(files[rank]), rows, starts))
        metadata = {**metadata, SHARDS: json.dumps({"files": files, **layouts})}
    # Until its name is there, a checkpoint of this name is the old one, whole.
    write = partial(write_tensors, path, _Values(program, None).without(names), metadata)
    _on_all(transport, path, write if rank == 0 else None)
    if rank == 0:
        drop_shares(path.parent, f"{path.name}.", files)


def _on_all(transport: Any, path: Path, write: Callable[[], None] | None) -> None:
    """Write a file on the ranks that have one; where one rank cannot, all end"""
    failure = None
    try:
        if write is not None:
            write()
    except TrainingError as error:
        failure = error
    has_failed = np.array([failure is not None], np.uint8)
    transport.all_reduce_(has_failed, "max")
    if has_failed[0]:
        raise failure or TrainingError(f"another rank cannot write its part of the checkpoint, {path.name!r}. See its message.")


def drop_shares(folder: Path, prefix: str, kept: Collection[str] = ()) -> None:
    """Delete the files with ranges whose names begin so, but those of some names and what a checkpoint of a folder names."""
    named = {*kept} | {name for path in folder.glob("*.safetensors") for name in shard_files(path)}
    for path in folder.glob(f"*{_SHARD}"):
        if path.name.startswith(prefix) and path.name not in named:
            path.unlink(missing_ok=True)


def shared_of(program: Programs) -> Any:
    """The state of which ranks hold ranges (``distributed.shared_state.SharedState``); None where each holds all."""
    return next((one.shared for one in exchanges_of(program) if getattr(one, "shared", None) is not None), None)


class _Values(Mapping[str, "np.ndarray[Any, Any]"]):
    """The values of a program's state as they are now, each read when it is asked for, and not kept."""

    def __init__(self, program: Programs, scope: Scope | None) -> None:
        self._state = {v.name: v for v in _state(program)}
        self._now = (scope or _as_list(program)[0].active_scope()).copy()

    def without(self, names: Collection[str]) -> _Values:
        """The same without the state of some names."""
        self._state = {name: v for name, v in self._state.items() if name not in names}
        return self

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        value = np.asarray(self._state[name].get_value(self._now))
        if self._state[name].static_shape not in (None, value.shape):
            raise TrainingError(f"this rank has its range of {name} alone. {_TOGETHER}, or gather before.")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


@checked
def load_checkpoint(program: Programs, path: str | Path, scope: Scope | None = None) -> None:
    """Set the persistable variables of a program from a file that ``save_checkpoint`` wrote.

    Args:
        program: of the run that goes on.
        path: of the checkpoint.
        scope: where the state is set; the program's own unless given.

    Raises:
        ModelError: if the file cannot be read, or is damaged.
        UnknownName: if it does not hold exactly the variables of this program. Nothing is changed in either case.
    """
    tensors = read_tensors(path)
    check_tensors(program, tensors)
    set_tensors(program, tensors, scope)


def check_tensors(program: Programs, file: TensorFile) -> None:
    """Raise UnknownName unless a file holds exactly the variables of a program, in their shapes and dtypes."""
    variables = {v.name: v for v in _state(program)}
    beside = {name for name in file.arrays if name.startswith(_REST) or _is_of_rank(name, file)}
    foreign = sorted((file.arrays.keys() - beside) ^ variables.keys())
    if foreign:
        raise UnknownName(f"{file.path!r} belongs to another program: {foreign[0]!r} is only on one side.")
    for name, v in variables.items():
        array = file.arrays[name]
        if tuple(array.shape) != v.static_shape:
            raise UnknownName(f"{file.path!r}: {name!r} has shape {list(array.shape)}, the program's is {v.static_shape}.")
        if array.dtype != v.dtype.numpy:
            raise UnknownName(f"{file.path!r}: {name!r} is {array.dtype.name}, the program's is {v.dtype.name}.")


def set_tensors(program: Programs, file: TensorFile, scope: Scope | None = None) -> None:
    """Set the variables of a program to what ``check_tensors`` has seen, all of them also where this is interrupted."""
    for exchange in exchanges_of(program):
        if exchange.compresses:
            rests = {name: _own_terms(exchange.transport, name, file) for name in file.arrays if name.startswith(_REST)}
            exchange.set_rests({name.removeprefix(_REST): rest for name, rest in rests.items()})
    where = scope or _as_list(program)[0].active_scope()
    where.defer(_Loaded(where, program, file))
    if not where.changes:
        where.finish()


class _Loaded:
    """Tensors of a file that take the place of present values one after the other, so that no second copy of all is held.

    What was interrupted is gone on with before anybody reads the scope.
    """

    def __init__(self, scope: Scope, program: Programs, file: TensorFile) -> None:
        self._scope, self._program, self._file = scope, program, file
        self.has_begun = False

    def finish(self) -> None:
        """Set all values; of sums of gradients that of this rank."""
        shared = shared_of(self._program)
        adding = {v.name: one.transport for one in exchanges_of(self._program) for v in one.sums}
        for v in _state(self._program):
            array, buffer = self._file.arrays[v.name], self._scope.stored(v.name)
            self.has_begun = True
            if v.name in adding:
                array = _own_terms(adding[v.name], v.name, self._file)
            elif isinstance(array, ShardedTensor):
                if shared is not None and shared.keep_own(v, array.range, self._scope):
                    continue
                array = np.asarray(array)
            fits = isinstance(buffer, Buffer) and tuple(buffer.value.shape()) == array.shape
            if fits and isinstance(buffer, Buffer) and buffer.is_held_by(1) and buffer.value.device_name() == "cpu":
                # Where steps have run, their bindings keep the memory of the state anyway.
                buffer.origin = None
                np.copyto(view_of(buffer.value), array)
            else:
                self._scope.set(v.name, array, v)


def graph_hash(program: Programs) -> str:
    """A hash of the forward operators, the state's shapes and what a checkpoint leaves out: equal where one can be shared."""
    digest = hashlib.sha256()
    for op in _as_list(program)[0].global_block().ops:
        if op.role is Role.FORWARD and op.replaces is None:
            parts = [op.domain, op.type, *(v.name if v is not None else "" for v in [*op.inputs, *op.outputs])]
            digest.update("\0".join(parts).encode("utf-8", "surrogatepass") + b"\n")
    for v in sorted(_state(program), key=lambda v: v.name):
        digest.update(f"{v.name} {v.dtype.name} {v.static_shape}\n".encode("utf-8", "surrogatepass"))
    for v in _left_out(program):
        digest.update(f"{v.name} {_contents(v)}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _as_list(program: Programs) -> list[Program]:
    return [program] if isinstance(program, Program) else list(program)


def exchanges_of(program: Programs) -> list[Any]:
    """What ranks exchange by (``distributed.exchange``): gradients, and sums of them."""
    exchanges = [one.plan.exchange_of(phase) for one in _as_list(program) for phase in ("run", "apply")]
    return [exchange for exchange in exchanges if hasattr(exchange, "rests")]


def _own_sums(exchange: Any) -> list[str]:
    """The names of sums in which this rank has begun"""
    return [v.name for v in exchange.sums if v.get_value().any()]


def _is_of_rank(name: str, file: TensorFile) -> bool:
    """Whether a tensor is a term of one that a file in one piece holds too"""
    match = _TERM.fullmatch(name)
    total = None if match is None else file.arrays.get(match[2])
    return total is not None and (total.shape, total.dtype) == (file.arrays[name].shape, file.arrays[name].dtype)


def _own_terms(transport: Any, name: str, file: TensorFile) -> np.ndarray[Any, Any]:
    """What this rank has of a sum over ranks: its own term, or where there were more or fewer ranks every so many-th, or 0, so that
    the sum stays the same."""
    total = file.arrays[name]
    if not isinstance(total, ShardedTensor):
        matches = [match for other in file.arrays if (match := _TERM.fullmatch(other)) and match[2] == name]
        terms = {int(match[1]): file.arrays[match[0]] for match in matches}
        total = sum_of(name, [terms[rank] for rank in sorted(terms)] or [total])
    own = range(transport.rank, len(total.terms), transport.world_size)
    return total.range(0, prod(total.shape), own).reshape(total.shape)


def _state(program: Programs) -> list[Any]:
    left_out = {v.name for v in _left_out(program)}
    variables = {v.name: v for one in reversed(_as_list(program)) for v in [*one.list_vars(), *one.parameters] if v.persistable}
    return [v for name, v in variables.items() if name not in left_out]


def _left_out(program: Programs) -> list[Any]:
    """The weights that nothing changes, beside LoRA branches"""
    first = _as_list(program)[0]
    if KEY not in first.metadata:
        return []
    updated = {v.name for one in _as_list(program) for v in one.updates}
    return [p for p in first.parameters if p.stop_gradient and not p.trainable and p.name not in updated]


_DIGESTS: WeakKeyDictionary[Program, dict[str, tuple[Any, str]]] = WeakKeyDictionary()
"""By program and name, what was hashed and its hash. A weak reference to a variable would compare it, which appends an operator."""


def _contents(v: Any) -> str:
    """A hash of the value of a weight, taken again when another value was set"""
    value = v.block.program.active_scope().present(v.name)
    value = v.value if value is None else value
    digests = _DIGESTS.setdefault(v.block.program, {})
    known = digests.get(v.name)
    if known is not None and known[0] is value:
        return known[1]
    digest = hashlib.sha256(np.ascontiguousarray(v.get_value()).view(np.uint8).data).hexdigest()
    digests[v.name] = (value, digest)
    return digest
