"""3x3 convolutions on images [H, W, N, C] with fewer multiplications (Winograd; Lavin and Gray, arXiv:1509.09308).

Along one axis, a tile of results is ``A ((G w) * (B x))``: r products, where each result of three taps would take three. On images
both axes are transformed, and channels are summed before A, so a convolution is r * r matrix products over channels, one for each
frequency. In the layout [H, W, N, C] a pixel is a row of N * C numbers: tiles are gathered by rows, and B and A are products with
small constant matrices. The gradient of the image is the convolution of that of the result with the filter turned, or, with a
stride, an algorithm of its own; the gradient of the filter is ``G^T ((A^T gy) * (B x))``.

Large images go through a Scan in strips of rows of tiles, so that what is transformed stays in the processor's cache: 0.5 to 0.8
of the time, and less memory.

| stride, tile | products per output, both axes | of 9 taps | error of float32 |
|---|---|---|---|
| 1, 2 x 2 | 4 | 0.44 | that of the plain form, 2e-7 to 7e-7 |
| 1, 4 x 4 | 2.25 | 0.25 | 2e-6 to 8e-6 |
| 2, 2 x 2 | 6.25 | 0.69 | that of the plain form |

Tests: tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.bodies import write_body
from onnxgrad.core.ir.types import INDEX, TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["TAPS", "Tiles", "convolution", "image_gradient_tiles", "swap_filter_axes"]

TAPS = 3
_Array = np.ndarray[Any, Any]
Size = tuple[int, int]
_WORTH_STRIPS = COSTS.count("winograd.smallest_in_strips")
"""Numbers in the transformed image, or gradient, of a convolution that is computed in strips: 20 MB."""
_STRIP = COSTS.count("winograd.numbers_of_a_strip")
"""Numbers of these in a strip, about: 1 MB."""


_F2 = (
    [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
    [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    [[1, 1, 1, 0], [0, 1, -1, -1]],
)
_F4 = (
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    [
        *([1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6]),
        *([1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]),
    ],
    [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
)
_STRIDED = (
    [[1, 0, -1, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, -1], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0]],
    [[1, 0, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0], [0, 1, 0]],
    [[1, 1, 0, 1, 0], [0, 1, -1, 0, 1]],
)
"""With stride 2 the outer taps see every other pixel, as F(2, 2), and the middle tap the pixels between."""
_SPREAD = (
    [[1, -1, 0], [0, 1, 0], [0, 1, -1], [1, 0, 0], [0, 1, 0]],
    [[0, 0, 1], [1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 1, 0]],
    [[0, 0, 0, 1, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 1, -1, 0, 0]],
)
"""Backwards: four pixels of the image from three of the result."""


class Tiles:
    """One convolution by tiles: the filter, images and results per frequency, and back.

    Args:
        image, result: height and width of what is read and of what comes out.
        form: B, G and A.
        step: pixels from tile to tile of what is read.
        first: the pixel that the first tile reads first, in each axis.
    """

    def __init__(self, image: Size, result: Size, form: Any, step: int, first: Size) -> None:
        b, g, a = (np.array(m, np.float64) for m in form)
        self.image, self.result = image, result
        self._b, self._g, self._a = (np.kron(m, m) for m in (b, g, a))
        self.frequencies, counts = len(self._b), [-(-size // len(a)) for size in result]
        self.tiles = prod(counts)
        reads = [start + np.arange(n) * step + np.arange(b.shape[1])[:, None] for n, start in zip(counts, first, strict=True)]
        writes = [np.arange(n) * len(a) + np.arange(len(a))[:, None] for n in counts]
        self._reads, self._writes = _pixels(reads, image), _pixels(writes, result)
        self._rows = counts[0]
        self._fits = result[0] == len(a) * self._rows

    def filters(self, build: Any, w: Variable) -> Any:
        """A filter [O, C, 3, 3] per frequency, [F, O, C]; the product also brings the taps to the front"""
        out, channels = w.static_shape[:2]  # type: ignore[index]
        flat = build.Gemm(_float32(self._g), build.Reshape(w, [out * channels, TAPS * TAPS]), transB=1)
        return build.Reshape(flat, [self.frequencies, out, channels])

    def image_gradient(self, build: Any, x: Any, filters: Any) -> Any:
        """A ((B x) filters) of images [height, width, N, C] and filters [F, C, O]: results [rows, columns, N, O]"""
        *_, batch, channels = x.static_shape
        out = filters.static_shape[2]
        # A strip gives whole rows of the result.
        number = self._strips(batch * max(channels, out)) if self._fits else 1
        rows, pixels = _pixel_rows(build, x, self._reads)
        reads, order = _by_strip(pixels, number), self._order(number)
        columns = self.tiles // number * batch

        def strip(build: Any, read: Any) -> Any:
            product = build.MatMul(self._of_image(build, rows, read, columns, channels), filters)
            flat = build.MatMul(_float32(self._a), build.Reshape(product, [self.frequencies, columns * out]))
            flat = build.Reshape(flat, [len(self._writes) * self.tiles // number, batch * out])
            return flat if np.array_equal(order, np.arange(flat.static_shape[0])) else build.Gather(flat, order, axis=0)

        if number == 1:
            result = strip(build, reads[0])
        else:
            body = write_body(build, "strip", [_read_by("pixels", reads)], strip)
            result = build.Scan(reads, body=body, num_scan_inputs=1)
        return build.Reshape(result, [*self.result, batch, out])

    def filter_of(self, build: Any, x: Any, gy: Any) -> Any:
        """G^T ((A^T gy) (B x)) of images [height, width, N, C] and gradients [rows, columns, N, O], as [O, C, 3, 3]"""
        (*_, batch, channels), out = x.static_shape, gy.static_shape[-1]
        number = self._strips(batch * max(channels, out))
        x_rows, pixels = _pixel_rows(build, x, self._reads, again=True)
        gy_rows, positions = _pixel_rows(build, gy, self._writes)
        reads, writes = _by_strip(pixels, number), _by_strip(positions, number)
        columns = self.tiles // number * batch

        def product(build: Any, read: Any, write: Any) -> Any:
            tiles = build.Reshape(build.Gather(gy_rows, write, axis=0), [len(positions), columns, out])
            # It is transposed where it is smallest.
            tiles = build.Reshape(swap_filter_axes(build, tiles), [len(positions), out * columns])
            of_result = build.Reshape(build.MatMul(_float32(self._a.T), tiles), [self.frequencies, out, columns])
            return build.MatMul(of_result, self._of_image(build, x_rows, read, columns, channels))

        if number == 1:
            summed = product(build, reads[0], writes[0])
        else:
            zeros = build.Expand(np.zeros((), np.float32), [self.frequencies, out, channels])
            types = [("sum", zeros.type), _read_by("pixels", reads), _read_by("places", writes)]
            body = write_body(build, "strip", types, lambda build, sum, *read: build.Add(sum, product(build, *read)))
            summed = build.Scan(zeros, reads, writes, body=body, num_scan_inputs=2)
        flat = build.Gemm(build.Reshape(summed, [self.frequencies, out * channels]), _float32(self._g), transA=1)
        return build.Reshape(flat, [out, channels, TAPS, TAPS])

    def _of_image(self, build: Any, rows: Any, read: Any, columns: int, channels: int) -> Any:
        """B x of the pixels that are read, as [F, columns, C]"""
        tiles = build.Reshape(build.Gather(rows, read, axis=0), [len(self._reads), columns * channels])
        return build.Reshape(build.MatMul(_float32(self._b), tiles), [self.frequencies, columns, channels])

    def _strips(self, width: int) -> int:
        """The number of strips of rows of tiles, so that what a product reads stays in the processor's cache

        Args:
            width: numbers per frequency and tile.
        """
        numbers = self.frequencies * self.tiles * width
        if numbers < _WORTH_STRIPS:
            return 1
        return next(n for n in range(1, self._rows + 1) if self._rows % n == 0 and (numbers <= n * _STRIP or n == self._rows))

    def _order(self, number: int) -> _Array:
        """Return the index of each pixel of a strip's result among the pixels of its tiles."""
        pixels = _by_strip(self._writes, number)[0]
        inside = np.flatnonzero(pixels < prod(self.result) // number)
        order: _Array = inside[np.argsort(pixels[inside])]
        return order


def convolution(image: Size, result: Size, pads: Size, stride: int, is_fast: bool) -> Tiles:
    """Tiles of y = w * x: images [H, W, N, C], results [rows, columns, N, O]; ``pads`` at the top and at the left."""
    form = _STRIDED if stride == 2 else _F4 if is_fast else _F2
    return Tiles(image, result, form, stride * len(form[2]), (-pads[0], -pads[1]))


def image_gradient_tiles(image: Size, result: Size, pads: Size, stride: int, is_fast: bool) -> Tiles:
    """Return the tiles of the gradient of the image, which reads the gradient of the result. With a stride of 2, pads are 1."""
    if stride == 2:
        assert pads == (1, 1)
        return Tiles(result, image, _SPREAD, 2, (0, 0))
    b, g, a = _F4 if is_fast else _F2
    return Tiles(result, image, (b, np.flip(np.array(g), 1), a), len(a), (pads[0] + 1 - TAPS, pads[1] + 1 - TAPS))


def swap_filter_axes(build: Any, x: Any) -> Any:
    """[F, a, b] as [F, b, a], which onnxruntime takes into the product that reads it"""
    return build.Transpose(x, perm=[0, 2, 1])


def _pixels(axes: list[_Array], image: Size) -> _Array:
    """[positions in a tile, tiles]: the pixel there, or the number of pixels where there is none"""
    (down, across), (height, width) = axes, image
    y, x = down[:, None, :, None], across[None, :, None, :]
    pixels = np.where((y >= 0) & (y < height) & (x >= 0) & (x < width), y * width + x, height * width)
    return pixels.reshape(down.shape[0] * across.shape[0], down.shape[1] * across.shape[1])


def _pixel_rows(build: Any, x: Any, pixels: _Array, again: bool = False) -> tuple[Any, _Array]:
    """An image [height, width, N, C] with a row for each pixel, with zeros where pixels outside are read, and their numbers in it

    Args:
        again: in a form in which onnxruntime does not see that it has computed it before, which it would then hold all along.
    """
    height, width, batch, channels = x.static_shape
    size, rows = height * width, build.Reshape(x, [height * width, batch * channels])
    if not (pixels == size).any():
        return rows, pixels
    zeros = np.zeros((1, batch * channels), np.float32)
    if again:
        return build.Concat(zeros, rows, axis=0), (pixels + 1) % (size + 1)
    return build.Concat(rows, zeros, axis=0), pixels


def _by_strip(pixels: _Array, number: int) -> _Array:
    """[positions in a tile, tiles] as [strips, positions of all tiles of one]"""
    return np.ascontiguousarray(pixels.reshape(len(pixels), number, -1).swapaxes(0, 1)).reshape(number, -1)


def _read_by(name: str, reads: _Array) -> tuple[str, TensorType]:
    return name, TensorType(INDEX.dtype, reads.shape[1:])


def _float32(matrix: _Array) -> _Array:
    return np.ascontiguousarray(matrix, np.float32)
