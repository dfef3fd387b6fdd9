"""Checkpoints as safetensors files: weights, optimizer state, running statistics and counters of a program.

Tests: tests/training/test_checkpoints.py.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import view_of
from onnxgrad.errors import TrainingError, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.tensor_file import SHARDS, ShardedTensor, TensorFile, read_tensors, shard_files, write_ranges, write_tensors
from onnxgrad.training.surgery.lora_targets import KEY

__all__ = [
    "check_tensors",
    "drop_shares",
    "graph_hash",
    "load_checkpoint",
    "save_checkpoint",
    "set_tensors",
    "shared_of",
    "write_manifest",
    "write_shares",
]

Programs: TypeAlias = "Program | Sequence[Program]"

_REST = "rest of "
"""In front of the name of a gradient: what an exchange between ranks has kept of it."""

_SHARD = ".shard"
"""The end of the names of files with ranges of tensors."""

_SUM = re.compile(r"rank (\d+) of (.+)", re.DOTALL)
"""Names of sums of gradients, and of residuals, of one rank; under the name alone are those of all, for other numbers of ranks."""


@checked
def save_checkpoint(
    program: Programs, path: str | Path, scope: Scope | None = None, metadata: dict[str, str] | None = None
) -> None:
    """Write every persistable variable of a program to a safetensors file, under a temporary name first.

    Of a program with LoRA branches the frozen weights are left out: they are those of the model, which belongs to the checkpoint.

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


def write_shares(program: Program, path: str | Path, token: int) -> list[str]:
    """Write this rank's ranges of the optimizer's state to a file beside a checkpoint; gives the names of the files of all ranks.

    Args:
        program: whose state ranks share out.
        path: of the checkpoint, which ``write_manifest`` writes when all ranks have written theirs.
        token: a number that no other checkpoint of this name has, the same on all ranks.

    Raises:
        TrainingError: if the file cannot be written.
    """
    shared, path = shared_of(program), Path(path)
    assert shared is not None
    rank, count = shared.transport.rank, shared.transport.world_size
    names = [f"{path.name}.{token:08x}-{number}-of-{count}{_SHARD}" for number in range(count)]
    rows = {v.name: own for v, own in shared.own_rows(program.active_scope()).items()}
    starts = {name: start for name, (start, _) in rows.items()}
    write_ranges(path.with_name(names[rank]), {name: row for name, (_, row) in rows.items()}, starts)
    return names


def write_manifest(program: Program, path: str | Path, files: Sequence[str], metadata: dict[str, str]) -> None:
    """Write a checkpoint whose other files all ranks have written, and delete those that none beside it names any more.

    Until its name is there, a checkpoint of this name is the old one, whole.

    Args:
        program: whose state ranks share out.
        path: of the checkpoint.
        files: the names that ``write_shares`` gives.
        metadata: further strings to store.

    Raises:
        TrainingError: if the file cannot be written.
    """
    shared, path = shared_of(program), Path(path)
    assert shared is not None
    held = {v.name: [v.dtype.name, v.static_shape] for v in shared.shared_out()}
    entry = json.dumps({"files": list(files), "tensors": held})
    values = _Values(program, None)
    write_tensors(path, values.without(held), {**metadata, SHARDS: entry})
    drop_shares(path.parent, f"{path.name}.", files)


def drop_shares(folder: Path, prefix: str, kept: Collection[str] = ()) -> None:
    """Delete the files with ranges whose names begin so, but those of some names and what a checkpoint of a folder names."""
    named = {*kept} | {name for path in folder.glob("*.safetensors") for name in shard_files(path)}
    for path in folder.glob(f"*{_SHARD}"):
        if path.name.startswith(prefix) and path.name not in named:
            path.unlink(missing_ok=True)


def shared_of(program: Programs) -> Any:
    """The state of which ranks hold ranges (``distributed.shared_state.SharedState``); None where each holds all."""
    return next((one.shared for one in _exchanges(program) if getattr(one, "shared", None) is not None), None)


class _Values(Mapping[str, "np.ndarray[Any, Any]"]):
    """The values of a program's state as they are now, each read when it is asked for, and not kept."""

    def __init__(self, program: Programs, scope: Scope | None) -> None:
        self._state = {v.name: v for v in _state(program)}
        self._rests = {_REST + name: rest for one in _exchanges(program) for name, rest in one.rests().items()}
        for one in _exchanges(program):
            for rank, rests in enumerate(one.rests_of_ranks() if len(one.rests_of_ranks()) > 1 else ()):
                self._rests |= {f"rank {rank} of {_REST}{name}": rest for name, rest in rests.items()}
        of_ranks = [sums for one in _summing(program) for sums in one.sums_of_ranks()]
        self._sums = {f"rank {rank} of {name}": sums[name] for rank, sums in enumerate(of_ranks) for name in sums}
        self._totals = {name: [sums[name] for sums in of_ranks] for name in (of_ranks[0] if of_ranks else ())}
        self._now = (scope or _as_list(program)[0].active_scope()).copy()

    def without(self, names: Collection[str]) -> _Values:
        """The same without the state of some names."""
        self._state = {name: v for name, v in self._state.items() if name not in names}
        return self

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        if name in self._totals:
            return np.asarray(np.sum(self._totals[name], axis=0, dtype=self._totals[name][0].dtype))
        if name in self._rests:
            return np.asarray(self._rests[name])
        if name in self._sums:
            return np.asarray(self._sums[name])
        value = np.asarray(self._state[name].get_value(self._now))
        if self._state[name].static_shape not in (None, value.shape):
            raise TrainingError(f"this rank has its range of {name} alone. Let all ranks call Trainer.save, or gather before.")
        return value

    def __iter__(self) -> Iterator[str]:
        return iter([*self._state, *self._rests, *self._sums])

    def __len__(self) -> int:
        return len(self._state) + len(self._rests) + len(self._sums)


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
    beside = {name for name in file.arrays if name.startswith(_REST) or _is_sum(name, file)}
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
    rests = {name.removeprefix(_REST): array for name, array in file.arrays.items() if name.startswith(_REST)}
    of_ranks = [
        {name.removeprefix(_REST): array for name, array in own.items() if name.startswith(_REST)} for own in _of_ranks(file)
    ]
    for exchange in _exchanges(program):
        exchange.set_rests(rests, [own for own in of_ranks if own])
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
        """Set all values, then the sums of gradients that each rank has of its own."""
        shared = shared_of(self._program)
        for v in _state(self._program):
            array, buffer = self._file.arrays[v.name], self._scope.stored(v.name)
            self.has_begun = True
            if isinstance(array, ShardedTensor):
                if shared is not None and shared.put_range(v, array.range, self._scope):
                    continue
                array = np.asarray(array)
            fits = isinstance(buffer, Buffer) and tuple(buffer.value.shape()) == array.shape
            if fits and isinstance(buffer, Buffer) and buffer.is_held_by(1) and buffer.value.device_name() == "cpu":
                # Where steps have run, their bindings keep the memory of the state anyway.
                buffer.origin = None
                np.copyto(view_of(buffer.value), array)
            else:
                self._scope.set(v.name, array, v)
        of_ranks = [{name: array for name, array in own.items() if not name.startswith(_REST)} for own in _of_ranks(self._file)]
        for exchange in _summing(self._program):
            exchange.set_sums([own for own in of_ranks if own], self._scope)


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


def _exchanges(program: Programs) -> list[Any]:
    exchanges = [one.plan.exchange_of(phase) for one in _as_list(program) for phase in ("run", "apply")]
    return [exchange for exchange in exchanges if hasattr(exchange, "rests")]


def _summing(program: Programs) -> list[Any]:
    return [exchange for exchange in _exchanges(program) if hasattr(exchange, "set_sums")]


def _is_sum(name: str, file: TensorFile) -> bool:
    """Whether a tensor is a sum of gradients, or a residual, of one rank: like that of all, which the file holds too"""
    match = _SUM.fullmatch(name)
    total = None if match is None else file.arrays.get(match[2])
    return total is not None and (total.shape, total.dtype) == (file.arrays[name].shape, file.arrays[name].dtype)


def _of_ranks(file: TensorFile) -> list[dict[str, Any]]:
    """The sums and residuals of each rank, by the names under which those of all stand"""
    of_ranks: dict[int, dict[str, Any]] = {}
    for name, array in file.arrays.items():
        if _is_sum(name, file):
            rank, own = _SUM.fullmatch(name).groups()  # type: ignore[union-attr]
            of_ranks.setdefault(int(rank), {})[own] = array
    return [of_ranks[rank] for rank in sorted(of_ranks)]


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
