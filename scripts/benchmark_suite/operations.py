"""How many floating-point operations the matrix products and convolutions of a workload's training step take.

The workload is built once more, from layers that pass shapes on and count. A product of n multiplications takes 2 n operations,
and as many again for the gradient of each operand that has one: weights do, data do not. Taps on padding and the masked half
of causal attention count as if they were computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from benchmark_suite.workloads import Workload


@dataclass(frozen=True)
class Sized:
    """The shape of a value, and whether the step needs its gradient."""

    dims: tuple[int, ...]
    learns: bool = True


class Layers:
    """Layers from shapes to shapes."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self._inputs = inputs
        self.operations = 0

    def _product(self, multiplications: int, x: Sized, dims: tuple[int, ...]) -> Sized:
        """``x`` times something that learns."""
        self.operations += 2 * multiplications * (3 if x.learns else 2)
        return Sized(dims)

    def input(self, name: str) -> Sized:
        return Sized(self._inputs[name].shape, learns=False)

    def weight(self, name: str, shape: tuple[int, ...], deviation: float, shift: float = 0.0) -> Sized:
        return Sized(shape)

    def linear(self, x: Sized, name: str, wide: int, out: int, three: bool = False) -> Sized:
        return self._product(prod(x.dims) * out, x, (*x.dims[:-1], out))

    def times_transposed(self, x: Sized, table: Sized) -> Sized:
        return self._product(prod(x.dims) * table.dims[0], x, (*x.dims[:-1], table.dims[0]))

    def conv(
        self, x: Sized, name: str, wide: int, out: int, size: int, stride: int = 1, pad: int = 0, bias: bool = True, groups: int = 1
    ) -> Sized:
        dims = (x.dims[0], out, *_windows(x, size, stride, pad))
        return self._product(prod(dims) * size * size * (wide // groups), x, dims)

    def up(self, x: Sized, name: str, wide: int, out: int) -> Sized:
        dims = (x.dims[0], out, 2 * x.dims[2], 2 * x.dims[3])
        return self._product(prod(dims) * wide, x, dims)

    def batch_norm(self, x: Sized, name: str, width: int) -> Sized:
        return Sized(x.dims)

    def max_pool(self, x: Sized, size: int = 2, stride: int = 2, pad: int = 0) -> Sized:
        return Sized((*x.dims[:2], *_windows(x, size, stride, pad)), x.learns)

    def average_map(self, x: Sized) -> Sized:
        return Sized(x.dims[:2], x.learns)

    def relu(self, x: Sized) -> Sized:
        return x

    def relu6(self, x: Sized) -> Sized:
        return x

    def tanh(self, x: Sized) -> Sized:
        return x

    def gelu(self, x: Sized) -> Sized:
        return x

    def add(self, x: Sized, y: Sized) -> Sized:
        return Sized(max(x.dims, y.dims, key=len), x.learns or y.learns)

    def concat(self, x: Sized, y: Sized) -> Sized:
        return Sized((x.dims[0], x.dims[1] + y.dims[1], *x.dims[2:]), x.learns or y.learns)

    def flatten(self, x: Sized) -> Sized:
        return Sized((x.dims[0], prod(x.dims[1:])), x.learns)

    def rows(self, x: Sized, width: int) -> Sized:
        return Sized((prod(x.dims) // width, width), x.learns)

    def layer_norm(self, x: Sized, name: str, width: int) -> Sized:
        return Sized(x.dims)

    def embedding(self, ids: Sized, table: Sized) -> Sized:
        return Sized((*ids.dims, table.dims[1]))

    def split_heads(self, x: Sized, heads: int) -> Sized:
        batch, length, width = x.dims
        return Sized((batch, heads, length, width // heads), x.learns)

    def join_heads(self, x: Sized) -> Sized:
        batch, heads, length, wide = x.dims
        return Sized((batch, length, heads * wide), x.learns)

    def attention(self, q: Sized, k: Sized, v: Sized, wide: int, causal: bool) -> Sized:
        scores = self._product(prod(q.dims) * k.dims[2], q, (*q.dims[:3], k.dims[2]))
        return self._product(prod(scores.dims) * wide, scores, q.dims)

    def lstm(self, x: Sized, name: str, wide: int, hidden: int, whole: bool = False) -> Sized:
        steps, batch, _ = x.dims
        self._product(steps * batch * wide * 4 * hidden, x, (steps, batch, 4 * hidden))
        shape = (steps, batch, hidden) if whole else (batch, hidden)
        return self._product(steps * batch * hidden * 4 * hidden, Sized(shape), shape)

    def cross_entropy(self, scores: Sized, label: Sized) -> Sized:
        return Sized(())


def _windows(x: Sized, size: int, stride: int, pad: int) -> tuple[int, ...]:
    return tuple((n + 2 * pad - size) // stride + 1 for n in x.dims[2:])


def operations(workload: Workload) -> list[int]:
    """Of a step with each of the workload's feeds; none for a file, which nobody has counted."""
    counted: list[int] = []
    if workload.shipped is not None:
        return counted
    for feed in workload.feeds:
        layers = Layers(feed)
        workload.build(layers)
        counted.append(layers.operations)
    return counted
