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
    """

    is_centred: bool
    unit: tuple[float, float]
    points: Array
    strides: Array
    defaults: Array


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
        self.names: list[tuple[str, str]] = []
        self.boxes = head.boxes
        for number, v in enumerate(head.probes):
            copy = copies[v]
            fed = Variable(block, self.program.fresh_name(f"probe.{number}"), TensorType(copy.dtype, copy.dims))
            fed.is_data = True
            block.inputs.append(block.register(fed))
            substitute(block.ops, {copy: fed})
            self.names.append((copy.name, fed.name))
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
            return Geometry(True, (1.0, 1.0), np.zeros((0, 2)), np.zeros(0), np.zeros((0, 4)))
        if head.boxes is None:
            return _of_maps(head, size)
        feed = {name: self._example(v, size) for name, v in self.inputs.items()}
        shapes = [v.shape for v in self.executor.run(self.program, feed, [name for name, _ in self.names])]
        boxes = {"distances": self._distances, "anchors": self._anchors, "default boxes": self._offsets}[head.family]
        is_centred, defaults, strides = boxes(feed, shapes)
        corners = corner_form(defaults) if is_centred else defaults
        points = (corners[:, :2] + corners[:, 2:]) / 2
        unit = (1.0, 1.0) if np.abs(points).max() <= 1.5 else (float(width), float(height))
        return Geometry(is_centred, unit, points, strides, corners)

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
        (decoded,) = self.executor.run(self.program, fed, [self.head.boxes.tensor.name])
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

    def _anchors(self, feed: dict[str, Array], shapes: list[tuple[int, ...]]) -> tuple[bool, Array, Array]:
        """Probabilities of one half, then larger ones of the sides"""
        dtype = self.head.probes[0].dtype.numpy
        middle = self._decode(feed, [np.full(shape, 0.5, dtype) for shape in shapes])
        larger = [np.full(shape, 0.5, dtype) for shape in shapes]
        for array in larger:
            array[..., 2:4] = 0.6
        grown = self._decode(feed, larger)
        if not np.allclose(middle[:, :2], grown[:, :2], atol=1e-3) or not (grown[:, 2:] > middle[:, 2:]).all():
            raise self._odd("the third and fourth number are not the sides of boxes")
        return True, middle, np.zeros(len(middle))

    def _offsets(self, feed: dict[str, Array], shapes: list[tuple[int, ...]]) -> tuple[bool, Array, Array]:
        """Offsets of 0, then larger sides"""
        dtype = self.head.probes[0].dtype.numpy
        plain = self._decode(feed, [np.zeros(shape, dtype) for shape in shapes])
        larger = [np.zeros(shape, dtype) for shape in shapes]
        for array in larger:
            array[..., 2:] = 1
        grown = self._decode(feed, larger)
        is_centred = bool(np.allclose(plain[:, :2], grown[:, :2], atol=1e-6))
        if not (grown[:, 2:] > plain[:, 2:]).all() or not (is_centred or (plain[:, 2:] >= plain[:, :2]).all()):
            raise self._odd("the third and fourth offset do not make boxes larger")
        return is_centred, plain, np.zeros(len(plain))

    def _odd(self, why: str) -> ArgumentError:
        assert self.head.boxes is not None
        return ArgumentError(
            f"the boxes {self.head.boxes.tensor.name!r} were taken for those of {self.head.description}, but {why}. "
            "Give the loss as Term(function, output=TENSOR) instead; see docs/detectors.md."
        )


def rows_of(array: Array, channels: Channels) -> Array:
    """Some channels of an array as [batch, anchors, channels]."""
    array = array[None] if array.ndim == 2 else array
    axis = channels.axis + 1 if channels.tensor.rank == 2 else channels.axis
    moved = np.moveaxis(array, axis, -1)[..., channels.start : channels.stop]
    return moved.reshape(len(moved), -1, channels.stop - channels.start)


def _of_maps(head: DetectorHead, size: tuple[int, int]) -> Geometry:
    """Cells of maps that the file leaves to its readers to decode: their centres, at the stride that the sizes give"""
    points, strides = [], []
    for bins in head.bins:
        dims = bins.tensor.dims
        rows, columns = (None, None) if dims is None else dims[2:]
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise ArgumentError(
                f"the size of the map {bins.tensor.name!r} is open, so its stride is not known. Export the model for a fixed size."
            )
        stride = size[0] / rows
        y, x = np.mgrid[:rows, :columns] + 0.5
        points.append(np.stack([x, y], -1).reshape(-1, 2) * stride)
        strides.append(np.full(rows * columns, stride))
    centres = np.concatenate(points)
    defaults = np.concatenate([centres, centres], axis=1)
    return Geometry(False, (float(size[1]), float(size[0])), centres, np.concatenate(strides), defaults)
