"""Which operators of a training step are written for [H, W, N, C]: the choice for which the whole step takes the least time.

Each convolution gains or loses by that layout, by the multiplications and the memory that its form there takes; what lies between
takes the same time in all. An image that is made in one layout and read in another is transposed. The best choice for all operators
together is a minimum cut between those that stay and those that go: an operator that gains is tied to one side by its gain, one
that loses to the other by its loss, and the operators that make and read an image to each other by the time of its transpose.

Times are in nanoseconds on one thread, measured on an Intel Xeon with AVX-512. Only their relations count.

Tests: tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf, prod
from typing import Any

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import MapWindow, filter_operands, is_float32, is_image, shape_of, usual_pads
from onnxgrad.core.providers.layouts.forms import REDUCTIONS, has_form

__all__ = ["best_tile", "minimum_cut", "operators_by_pixels"]

_PER_PRODUCT = COSTS.number("plan.product")
"""A multiplication and addition within a matrix product."""
_TURN = COSTS.number("plan.transpose")
"""The cost of transposing one number."""
_MOVED = COSTS.number("plan.gather")
"""A number of an im2col matrix, which is gathered."""
_BACKWARDS = COSTS.number("plan.conv_transpose")
"""How much longer a ConvTranspose takes than a Conv."""
_FEWEST_CHANNELS = COSTS.count("plan.fewest_channels")
_FEWEST_ROWS = COSTS.count("plan.fewest_tiles")
_SMALL_MAP = COSTS.count("plan.largest_map_without_tiles")
_TILE_GATHER = COSTS.number("plan.tile_gather")
_STRIDED_TILE_GATHER = COSTS.number("plan.strided_tile_gather")
_TILE_RESULT = COSTS.number("plan.tile_result")
_TILE_FILTER = COSTS.number("plan.tile_filter")


def operators_by_pixels(graph: Graph, is_fast: bool) -> set[Operator]:
    """The operators to write for [H, W, N, C]; none where no convolution gains by it."""
    if graph.types().isdisjoint(_CONVOLUTIONS) or all(op.role is Role.FORWARD for op in graph.operators):
        return set()
    plan = _Plan(graph, is_fast)
    return plan.choose() if any(gain > 0 for gain in plan.gains.values()) else set()


_CONVOLUTIONS = ("Conv", "ConvTranspose")


class _Plan:
    """``gains``: nanoseconds that the operators which have a form for [H, W, N, C] gain by it."""

    def __init__(self, graph: Graph, is_fast: bool) -> None:
        self.gains: dict[Operator, float] = {}
        self.stay: set[Operator] = set()
        self.readers: dict[Variable, list[Operator]] = {}
        self.makers: dict[Variable, Operator] = {}
        feature_maps: set[Variable] = set()
        for op in graph.operators:
            read = _maps_read(op)
            gain = None
            if op.domain == "" and (op.type in _CONVOLUTIONS or any(v in feature_maps for v in read)):
                gain = _gain(op, read, is_fast)
            if gain is not None:
                self.gains[op] = gain
            elif op.type not in _CONVOLUTIONS:
                continue
            else:
                self.stay.add(op)
            feature_maps.update(v for v in [*read, *_maps_written(op)] if is_image(v))
            for v in read:
                self.readers.setdefault(v, []).append(op)
            for v in _maps_written(op):
                self.makers[v] = op

    def choose(self) -> set[Operator]:
        """The operators on the side of [H, W, N, C] of the minimum cut."""
        number = {op: i + 2 for i, op in enumerate([*self.gains, *self.stay])}
        edges: list[tuple[int, int, float]] = []
        for op, gain in self.gains.items():
            edges.append((0, number[op], gain) if gain > 0 else (number[op], 1, -gain))
        edges.extend((number[op], 1, inf) for op in self.stay)
        nodes = len(number) + 2
        for v in {**self.readers, **self.makers}:
            ends = {number[op] for op in self.readers.get(v, [])} | ({number[self.makers[v]]} if v in self.makers else set())
            if len(ends) < 2:
                continue
            # One transpose serves all readers: the feature map has two nodes of its own, and its cost is the edge between them.
            cost = _TURN * prod(shape_of(v))
            edges.append((nodes, nodes + 1, cost))
            for end in ends:
                edges += [(end, nodes, inf), (nodes + 1, end, inf)]
            nodes += 2
        side = minimum_cut(nodes, edges)
        return {op for op in self.gains if number[op] in side}


def _maps_read(op: Operator) -> list[Variable]:
    """The images that an operator reads."""
    operands = filter_operands(op) if op.type == "Conv" else None
    if operands is not None:
        return list(operands)
    if op.type in ("Conv", "ConvTranspose", "BatchNormalization", "GlobalAveragePool", "Expand", "Split", *REDUCTIONS):
        return [v for v in op.inputs[:1] if v is not None and is_image(v)]
    return [v for v in op.inputs if v is not None and is_image(v)]


def _maps_written(op: Operator) -> list[Variable]:
    if op.type == "Conv" and filter_operands(op) is not None:
        return []
    return [v for v in op.outputs if v is not None and is_image(v)]


def _gain(op: Operator, read: list[Variable], is_fast: bool) -> float | None:
    """Nanoseconds that an operator takes less in [H, W, N, C]; None where it has no form there."""
    y = op.outputs[0]
    if y is None or not read:
        return None
    if op.type in _CONVOLUTIONS:
        return _gain_of_convolution(op, read, y, is_fast)
    if op.type == "Expand":
        return 0.0 if is_image(y) else None
    if op.type in ("BatchNormalization", "GlobalAveragePool", *REDUCTIONS) and not _sums_float32(op):
        return None
    return 0.0 if has_form(op, is_image) else None


def _sums_float32(op: Operator) -> bool:
    """Return whether the numbers that an operator sums are float32, as sums are products with rows of these there"""
    numbers = op.inputs if op.type == "BatchNormalization" else op.inputs[:1]
    return all(v is not None and v.dtype.name == "float32" for v in numbers)


def _gain_of_convolution(op: Operator, read: list[Variable], y: Variable, is_fast: bool) -> float | None:
    w, is_filter = op.inputs[1], len(read) == 2
    if not usual_pads(op) or (op.attr("group") or 1) != 1 or op.attrs.get("output_shape"):
        return None
    if not all(map(is_float32, [*read, w, y])):
        return None
    x, gy = read if is_filter else (read[0], y) if op.type == "Conv" else (y, read[0])
    kernel = shape_of(y if is_filter else w)[2:]
    window = MapWindow.of_filter(op, kernel) if is_filter else MapWindow(op, kernel)
    strides, dilations = window.strides, window.dilations
    if is_filter and max(kernel) <= max(strides) and strides != [1, 1] and not any(window.pads):
        # The taps beyond the first are cut away.
        kernel = (1, 1)
    if kernel == (1, 1) and not any(window.pads):
        return 0.0
    is_tiled = strides == [1, 1] or (strides == [2, 2] and window.pads[:2] == [1, 1])
    if kernel != (3, 3) or dilations != [1, 1] or not is_tiled:
        return None
    product = "filter" if is_filter else "result" if op.type == "Conv" else "image"
    (batch, channels, *image), (_, out, *positions) = shape_of(x), shape_of(gy)
    _, time = best_tile(product, batch, (channels, *image), (out, *positions), strides[0], is_fast)
    tiles = -(-positions[0] // 2) * -(-positions[1] // 2) * batch
    if min(channels, out) < _FEWEST_CHANNELS or tiles < _FEWEST_ROWS or min(positions) <= _SMALL_MAP:
        return None
    columns = 9 * channels * batch * prod(positions)
    products, gathers = _PER_PRODUCT * columns * out, is_filter or (product == "result" and strides != [1, 1])
    return products * (_BACKWARDS if product == "image" else 1) + (_MOVED * columns if gathers else 0) - time


def best_tile(
    product: str, batch: int, image: tuple[int, ...], result: tuple[int, ...], stride: int, is_fast: bool
) -> tuple[int, float]:
    """The size of tiles, and the time that a convolution takes with them.

    Args:
        product: what is computed: the ``"result"``, or the gradient of the ``"image"`` or of the ``"filter"``.
        image, result: channels, height and width.
    """
    channels, (out, rows, columns) = image[0], result
    times = {}
    for tile in (2, 4) if is_fast and stride == 1 else (2,):
        r = tile + 2 if stride == 1 else 5
        tiles = -(-rows // tile) * -(-columns // tile) * batch
        products = _PER_PRODUCT * r * r * tiles * channels * out
        read, written = (out, channels) if product == "image" else (channels, out)
        # Backwards, a tile of a strided convolution reads 3x3 positions and writes 4x4.
        gather = _STRIDED_TILE_GATHER if product == "image" and stride > 1 else _TILE_GATHER
        # Per frequency and tile, what is gathered and transformed and what is transformed back; per frequency, the filter.
        moved = tiles * (gather * read + _TILE_RESULT * written) + _TILE_FILTER * channels * out
        times[tile] = products + r * r * moved
    best = min(times, key=times.__getitem__)
    return best, times[best]


# The minimum cut ------------------------------------------------------------------------------------------------------------


def minimum_cut(nodes: int, edges: Iterable[tuple[int, int, float]]) -> set[int]:
    """The nodes on the side of node 0 of a cut between 0 and 1 that costs least (Dinic, 1970).

    Args:
        nodes: how many there are.
        edges: from, to, and what it costs to have the first on the side of 0 and the second on that of 1.

    Examples:
        >>> sorted(minimum_cut(4, [(0, 2, 5.0), (2, 3, 1.0), (3, 1, 4.0)]))
        [0, 2]
    """
    network: list[list[list[Any]]] = [[] for _ in range(nodes)]
    for start, end, capacity in edges:
        there: list[Any] = [end, capacity, None]
        back: list[Any] = [start, 0.0, there]
        there[2] = back
        network[start].append(there)
        network[end].append(back)
    while True:
        level = _levels(network)
        if level[1] < 0:
            return {node for node in range(nodes) if level[node] >= 0}
        unused = [list(out) for out in network]
        while _push(network, level, unused):
            pass


def _levels(network: list[list[list[Any]]]) -> list[int]:
    """Return the distance of each node from node 0 over edges with capacity left, -1 where there is no path."""
    level = [-1] * len(network)
    level[0], queue = 0, deque([0])
    while queue:
        node = queue.popleft()
        for end, capacity, _ in network[node]:
            if capacity > 0 and level[end] < 0:
                level[end] = level[node] + 1
                queue.append(end)
    return level


def _push(network: list[list[list[Any]]], level: list[int], unused: list[list[list[Any]]]) -> bool:
    """Find one path from 0 to 1 over growing levels, and use up its capacity; return whether there is one."""
    way: list[list[Any]] = []
    node = 0
    while node != 1:
        while unused[node] and not (unused[node][-1][1] > 0 and level[unused[node][-1][0]] == level[node] + 1):
            unused[node].pop()
        if unused[node]:
            way.append(unused[node][-1])
            node = way[-1][0]
        elif way:
            node = way.pop()[2][0]
            unused[node].pop()
        else:
            return False
    capacity = min(edge[1] for edge in way)
    for edge in way:
        edge[1] -= capacity
        edge[2][1] += capacity
    return True
