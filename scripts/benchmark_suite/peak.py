"""The most operations a second that a float32 matrix product of this machine reaches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SIZES = (1024, 2048)


def measure(threads: int, device: str) -> float:
    """Operations a second of the fastest product, by numpy or torch; 0 where there is none on this device."""
    best = 0.0
    for size in SIZES:
        for multiply in _products(size, threads, device):
            best = max(best, 2 * size**3 / _fastest(multiply))
    return best


def _products(size: int, threads: int, device: str) -> Iterator[Callable[[], Any]]:
    a, b = np.random.default_rng(0).normal(size=(2, size, size)).astype(np.float32)
    if device == "cpu":
        c = np.empty_like(a)
        yield lambda: np.matmul(a, b, out=c)
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)
    x, y = torch.from_numpy(a).to(device), torch.from_numpy(b).to(device)
    z = torch.empty_like(x)

    def multiply() -> None:
        torch.mm(x, y, out=z)
        if device == "cuda":
            torch.cuda.synchronize()

    yield multiply


def _fastest(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of the calls of a second: other work on the machine comes and goes."""
    begin, fastest = time.perf_counter(), float("inf")
    while time.perf_counter() - begin < 1.0:
        start = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest
