"""Where the anchors of a detector lie, found out by running its own decoding on known numbers.

What a file decodes is right by definition, whatever operators it writes and whatever size of image makes its anchors. So distances
of 0 and 1 are put in place of what the network gives, and the boxes say where the cells are, how large a step is, and in which
form the file holds boxes.

Tests: tests/training/detection/test_objective.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.preparing import image_input
from onnxgrad.training.detection.boxes import corner_form
from onnxgrad.training.detection.heads import Channels, DetectorHead
from onnxgrad.training.detection.rounding import rounded_tensors, take_out_rounding

__all__ = ["Geometry", "Probe"]

Array = np.ndarray[Any, Any]
_OPEN_SIZE = 320
"""Height and width that a file is tried with where it leaves them open: a multiple of all usual strides."""


class Geometry(NamedTuple):
    """Anchors of an image of some size.

    Attributes:
        is_centred: whether the file holds boxes as centre and sides, not as corners.
        unit: width and height of the image in the unit of the file's boxes: pixels, or 1.
        points: float64 [anchors, 2], centres in that unit; none for queries.
        strides: float64 [anchors], the length of a distance of 1; zeros where there are no distances.
        defaults: float64 [anchors, 4], left, top, right, bottom of the boxes that the network changes by nothing.
        cells: float64 [anchors, 2], width and height of the cell of an anchor; zeros where there are none.
        reaches: whether an anchor's centre can lie in the cells beside its own.
    """

    is_centred: bool
    unit: tuple[float, float]
    points: Array
    strides: Array
    defaults: Array
    cells: Array
    reaches: bool = True


class Probe:
    """Runs the decoding of a detector.

    Args:
        program: of the detector, for inference.
        head: that was recognised in it.
        executor: that runs it.
    """

    def __init__(self, program: Program, head: DetectorHead, executor: Executor) -> None:
        self.head, self.executor = head, executor
        self.image, self.layout, _ = image_input(program.inputs)
        self.inputs = {v.name: v for v in program.inputs}
        self.program, copies = program.clone_with_variables(for_test=True)
        block = self.program.global_block()
        plain = {v: x for x, v in rounded_tensors(self.program).items()}
        self.names: list[tuple[str, str]] = []
        self.boxes = head.boxes
        for number, v in enumerate(head.probes):
            copy = copies[v]
            fed = block.add_input(self.program.fresh_name(f"probe.{number}"), TensorType(copy.dtype, copy.dims))
            substitute(block.ops, {copy: fed})
            self.names.append((plain.get(copy, copy).name, fed.name))
        take_out_rounding(self.program)
        self.decoded = "" if head.boxes is None else plain.get(copies[head.boxes.tensor], copies[head.boxes.tensor]).name
        self._known: dict[tuple[int, int], Geometry] = {}

    def geometry(self, size: tuple[int, int] | None = None) -> Geometry:
        """The anchors of an image of some height and width; of the file's own size, or one that is tried, where that is None.

        Raises:
            ArgumentError: if the decoding does not do what its family does.
        """
        dims = self.image.dims
        assert dims is not None
        axes = (2, 3) if self.layout == "CHW" else (1, 2)
        if size is None:
            size = tuple(dims[axis] if isinstance(dims[axis], int) else _OPEN_SIZE for axis in axes)  # type: ignore[assignment]
        assert size is not None
        if size not in self._known:
            self._known[size] = self._found(size)
        return self._known[size]

    def _found(self, size: tuple[int, int]) -> Geometry:
        height, width = size
        head = self.head
        if head.family == "queries":
            return Geometry(True, (1.0, 1.0), np.zeros((0, 2)), np.zeros(0), np.zeros((0, 4)), np.zeros((0, 2)))
        if head.boxes is None:
            return _of_maps(head, size)
        feed = {name: self._example(v, size) for name, v in self.inputs.items()}
        shapes = [v.shape for v in self.executor.run(self.program, feed, [name for name, _ in self.names])]
        if head.family == "distances":
            is_centred, defaults, strides = self._distances(feed, shapes)
        else:
            is_centred, defaults = self._numbers(feed, shapes)
            strides = np.zeros(len(defaults))
        corners = corner_form(defaults) if is_centred else defaults
        points = (corners[:, :2] + corners[:, 2:]) / 2
        unit = (1.0, 1.0) if np.abs(points).max() <= 1.5 else (float(width), float(height))
        cells, reaches = np.zeros_like(points), True
        if head.family in ("anchors", "cells"):
            cells, points = self._cells(shapes, corners)
            reaches = self._reaches(feed, shapes, defaults, cells)
        return Geometry(is_centred, unit, points, strides, corners, cells, reaches)

    def _example(self, v: Variable, size: tuple[int, int]) -> Array:
        assert v.dims is not None
        shape = [d if isinstance(d, int) else 1 for d in v.dims]
        if v is self.image:
            for axis, length in zip((2, 3) if self.layout == "CHW" else (1, 2), size, strict=True):
                shape[axis] = length
        return np.zeros(shape, v.dtype.numpy)

    def _decode(self, feed: dict[str, Array], values: list[Array]) -> Array:
        """The four numbers of each anchor that the file makes of some values"""
        assert self.head.boxes is not None
        fed = {**feed, **{name: value for (_, name), value in zip(self.names, values, strict=True)}}
        (decoded,) = self.executor.run(self.program, fed, [self.decoded])
        boxes: Array = rows_of(decoded, self.head.boxes)[0]
        return boxes

    def _distances(self, feed: dict[str, Array], shapes: list[tuple[int, ...]]) -> tuple[bool, Array, Array]:
        """Distances of 0, then of 1 to all sides, then to the left alone"""
        dtype = self.head.probes[0].dtype.numpy
        zero = self._decode(feed, [np.zeros(shape, dtype) for shape in shapes])
        one = self._decode(feed, [np.ones(shape, dtype) for shape in shapes])
        left = []
        for shape in shapes:
            array = np.zeros(shape, dtype)
            axis = next((i for i in range(1, len(shape)) if shape[i] == 4), None)
            if axis is None:
                raise self._odd("no axis of four sides is found")
            np.moveaxis(array, axis, 0)[0] = 1
            left.append(array)
        moved = self._decode(feed, left)
        is_centred = bool(np.allclose(zero[:, 2:], 0, atol=1e-3)) and not np.allclose(zero[:, :2], 0)
        if not is_centred and not np.allclose(zero[:, :2], zero[:, 2:], atol=1e-3):
            raise self._odd("distances of 0 do not give boxes without extent")
        step = one[:, 2] / 2 if is_centred else (one[:, 2] - one[:, 0]) / 2
        expected = zero.copy()
        expected[:, 0] -= step / 2 if is_centred else step
        if is_centred:
            expected[:, 2] += step
        if not (step > 0).all() or not np.allclose(moved, expected, atol=1e-2 * step.max()):
            raise self._odd("the distances are not those to left, top, right and bottom in steps of a stride")
        return is_centred, zero, step

    def _filled(self, shapes: list[tuple[int, ...]], first: int, last: int, value: float) -> list[Array]:
        """Zeros, and a value for some of the four numbers of each box"""
        arrays = []
        for shape, numbers in zip(shapes, self.head.numbers, strict=True):
            array = np.zeros(shape, numbers.tensor.dtype.numpy)
            np.moveaxis(array, numbers.axis, 0)[numbers.start + first : numbers.start + last] = value
            arrays.append(array)
        return arrays

    def _numbers(self, feed: dict[str, Array], shapes: list[tuple[int, ...]]) -> tuple[bool, Array]:
        """Numbers of 0, then larger ones of the sides"""
        plain = self._decode(feed, self._filled(shapes, 0, 4, 0.0))
        grown = self._decode(feed, self._filled(shapes, 2, 4, 1.0))
        is_centred = bool(np.allclose(plain[:, :2], grown[:, :2], atol=1e-6))
        if not (grown[:, 2:] > plain[:, 2:]).all() or not (is_centred or (plain[:, 2:] >= plain[:, :2]).all()):
            raise self._odd("the third and fourth number do not make boxes larger")
        return is_centred, plain

    def _cells(self, shapes: list[tuple[int, ...]], corners: Array) -> tuple[Array, Array]:
        """The cell of each anchor, and its centre"""
        middles, sides = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        if self.head.family == "cells":  # the box of numbers that are 0 is as large as a cell, and lies around its corner
            cells, centres = sides, middles + sides / 2
            counts = [len(cells)]
        else:
            counts = [int(np.prod(shape)) // (shape[0] * shape[n.axis]) for shape, n in zip(shapes, self.head.numbers, strict=True)]
            levels = np.split(middles, np.cumsum(counts)[:-1])
            steps = [[_step(np.unique(own[:, axis].round(6))) for axis in (0, 1)] for own in levels]
            cells, centres = np.repeat(np.array(steps), counts, axis=0), middles
        offsets = centres / cells % 1
        if sum(counts) != len(cells) or not np.allclose(offsets, 0.5, atol=1e-2):
            raise self._odd("the anchors do not lie in cells")
        return cells, centres

    def _reaches(self, feed: dict[str, Array], shapes: list[tuple[int, ...]], defaults: Array, cells: Array) -> bool:
        """Whether large numbers move a centre by more than half a cell"""
        if self.head.family == "cells":
            return True
        moved = self._decode(feed, self._filled(shapes, 0, 2, 20.0))
        return bool((np.abs(moved[:, :2] - defaults[:, :2]) > 0.75 * cells).any())

    def _odd(self, why: str) -> ArgumentError:
        assert self.head.boxes is not None
        return ArgumentError(
            f"the boxes {self.head.boxes.tensor.name!r} were taken for the boxes of {self.head.description}, but {why}. "
            "Give the loss as Term(function, output=TENSOR) instead; see docs/use/detectors.md."
        )


def rows_of(array: Array, channels: Channels) -> Array:
    """Some channels of an array as [batch, anchors, channels]."""
    array = array[None] if array.ndim == 2 else array
    axis = channels.axis + 1 if channels.tensor.rank == 2 else channels.axis
    moved = np.moveaxis(array, axis, -1)[..., channels.start : channels.stop]
    return moved.reshape(len(moved), -1, channels.stop - channels.start)


def _step(places: Array) -> float:
    """The distance of neighbours; of a single one, twice its own"""
    return float(np.diff(places).min()) if len(places) > 1 else 2 * float(places[0])


def _of_maps(head: DetectorHead, size: tuple[int, int]) -> Geometry:
    """Cells of maps that the file leaves to its readers to decode: their centres, at the stride that the sizes give"""
    levels = []
    maps = [(bins.tensor, 1) for bins in head.bins] or [(numbers.tensor, numbers.axis) for numbers in head.numbers]
    for tensor, axis in maps:
        dims = tensor.dims
        rows, columns = (None, None) if dims is None else [d for i, d in enumerate(dims) if i != axis][-2:]
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise ArgumentError(
                f"the size of the map {tensor.name!r} is open, so its stride is not known. Export the model for a fixed size."
            )
        stride = size[0] / rows
        y, x = np.mgrid[:rows, :columns] + 0.5
        levels.append((stride, np.stack([x, y], -1).reshape(-1, 2) * stride))
    order = sorted({stride for stride, _ in levels})
    points, strides, sides = [], [], []
    for stride, centres in levels:
        own = np.array(head.anchors[order.index(stride)] if head.anchors else [(0.0, 0.0) if head.bins else (stride, stride)])
        points.append(np.tile(centres, (len(own), 1)))
        sides.append(np.repeat(own, len(centres), axis=0))
        strides.append(np.full(len(own) * len(centres), stride))
    centres, extent, strides_ = np.concatenate(points), np.concatenate(sides), np.concatenate(strides)
    defaults = np.concatenate([centres - extent / 2, centres + extent / 2], axis=1)
    cells = np.repeat(strides_[:, None], 2, axis=1)
    reaches = head.family != "anchors" or head.sides == "square"
    return Geometry(not head.bins, (float(size[1]), float(size[0])), centres, strides_, defaults, cells, reaches)
