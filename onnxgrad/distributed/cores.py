"""Share out the cores of a machine to its ranks: by binding and by quota, as each rank tells the others what it may use.

Tests: tests/distributed/test_cores.py.
"""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.distributed.transport import Transport
from onnxgrad.internal.processors import bound_cores, core_quota, group_of_process

__all__ = ["cores_of_rank", "cores_of_ranks"]

_HASH = 16
_MOST_CORES = 1024
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def cores_of_rank(transport: Transport) -> int:
    """Return how many threads of each rank can compute at a time while those of the others do; called by all ranks.

    It is one number for all ranks, the least share, as threads may add up in another order, and ranks are equal to the bit.

    Args:
        transport: between the ranks.
    """
    row = np.concatenate([_hash(_machine()), _hash(_machine() + socket.gethostname() + group_of_process()), _mask(bound_cores())])
    table = np.zeros((transport.world_size, row.size), np.uint8)
    table[transport.rank] = row
    transport.all_reduce_(table.reshape(-1))
    share = np.array([cores_of_ranks(table, transport.rank, core_quota())], np.int64)
    transport.all_reduce_(share, "min")
    return int(share[0])


def cores_of_ranks(table: np.ndarray[Any, Any], rank: int, quota: float | None) -> int:
    """Return a rank's share: a part of each core that it is bound to, as many as ranks are, and of the quota of its group.

    Args:
        table: for each rank the hash of its machine, that of its process group (16 bytes each), and a bit for each core that
            it is bound to, uint8 [ranks, 160].
        rank: whose share.
        quota: cores whose time its group may use; None for any.
    """
    own = table[rank]
    is_here = (table[:, :_HASH] == own[:_HASH]).all(axis=1)
    in_group = (table[:, _HASH : 2 * _HASH] == own[_HASH : 2 * _HASH]).all(axis=1)
    bound = np.unpackbits(table[is_here, 2 * _HASH :], axis=1).astype(np.int64)
    mine = np.unpackbits(own[2 * _HASH :]).astype(bool)
    share = float((1 / bound.sum(axis=0)[mine]).sum())
    if quota is not None:
        share = min(share, quota / in_group.sum())
    return max(1, int(share + 1e-6))


def _machine() -> str:
    """What containers on one machine have in common, and others have not"""
    try:
        return _BOOT.read_text()
    except OSError:
        return socket.gethostname()


def _hash(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(hashlib.sha256(text.encode()).digest()[:_HASH], np.uint8)


def _mask(cores: set[int]) -> np.ndarray[Any, Any]:
    """A bit for each core; those beyond the last one that there is room for are left out, as long as one is left"""
    bits = np.zeros(_MOST_CORES, np.uint8)
    bits[[core % _MOST_CORES for core in cores]] = 1
    return np.packbits(bits)
