"""Check before the first step that all ranks train the same, from the same weights.

Tests: tests/distributed/test_programs.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.scope import Scope
from onnxgrad.distributed.transport import Transport
from onnxgrad.errors import TrainingError

__all__ = ["broadcast_state", "check_equal", "fingerprint"]

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


def broadcast_state(transport: Transport, state: Iterable[Variable], scope: Scope) -> None:
    """Give all ranks the values that rank 0 has."""
    for v in state:
        value = np.array(v.get_value(scope), order="C")
        before = value.copy() if transport.rank else value
        flat = value.reshape(-1).view(np.uint8) if value.dtype.kind not in "SUO" else None
        if flat is None:
            continue
        transport.broadcast_(flat)
        if transport.rank and before.tobytes() != value.tobytes():
            v.set_value(value, scope)
