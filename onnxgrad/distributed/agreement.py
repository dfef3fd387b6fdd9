"""Check before the first step that all ranks train the same, from the same weights.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.scope import Scope
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import TrainingError

__all__ = ["broadcast_state", "check_equal", "check_numbers", "fingerprint", "refuse_numbers"]

_WORDS = 4


def fingerprint(program: Program, gradients: Sequence[Variable], *others: object) -> bytes:
    """A hash of a program's operators, of the gradients that are exchanged in their order, and of what else shall be alike."""
    digest = hashlib.sha256(str(program).encode())
    for v in gradients:
        digest.update(f"\0{v.name} {v.dtype.name} {v.static_shape}".encode())
    digest.update(repr(others).encode())
    return digest.digest()


def check_equal(transport: Transport, mine: bytes, what: str) -> None:
    """Raise TrainingError on all ranks, naming the ranks that differ from most, unless all have the same hash."""
    table = np.zeros((transport.world_size, _WORDS), np.int64)
    table[transport.rank] = np.frombuffer(mine, np.int64, _WORDS)
    transport.all_reduce_(table.reshape(-1))
    ranks_of: dict[bytes, list[int]] = {}
    for rank, row in enumerate(table):
        ranks_of.setdefault(row.tobytes(), []).append(rank)
    if len(ranks_of) == 1:
        return
    most = max(ranks_of.values(), key=len)
    others = sorted(rank for ranks in ranks_of.values() if ranks is not most for rank in ranks)
    named = f"rank {others[0]}" if len(others) == 1 else f"ranks {', '.join(map(str, others))}"
    advice = "Start all ranks with the same model and options"
    raise TrainingError(f"{named} of {transport.world_size} cannot train with rank {most[0]}: {what}. {advice}.")


def check_numbers(transport: Transport, number: int) -> None:
    """Raise TrainingError on all ranks, unless all have taken the same number of steps."""
    numbers = np.zeros(transport.world_size)
    numbers[transport.rank] = number
    transport.all_reduce_(numbers)
    refuse_numbers(numbers)


def refuse_numbers(numbers: np.ndarray[Any, Any]) -> None:
    """Raise TrainingError, unless all ranks have taken the same number of steps; ``numbers`` are those by rank."""
    if (numbers != numbers[0]).any():
        other = int((numbers != numbers[0]).argmax())
        message = f"rank {other} has taken {int(numbers[other])} steps, rank 0 has taken {int(numbers[0])}"
        raise TrainingError(f"{message}: one was interrupted. Load the same checkpoint on all ranks.")


def broadcast_state(transport: Transport, state: Iterable[Variable], scope: Scope) -> None:
    """Give all ranks the values that rank 0 has: a rank has all of them, or goes on with its own."""
    values: dict[str, np.ndarray[Any, Any]] = {}
    for v in state:
        value = np.array(v.get_value(scope), order="C")
        before = value.copy() if transport.rank else value
        flat = value.reshape(-1).view(np.uint8) if value.dtype.kind not in "SUO" else None
        if flat is None:
            continue
        transport.broadcast_(flat)
        if transport.rank and before.tobytes() != value.tobytes():
            values[v.name] = value
    scope.put_all(values)
