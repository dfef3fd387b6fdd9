"""3x3 convolutions on images [H, W, N, C] with fewer multiplications (Winograd; Lavin and Gray, arXiv:1509.09308).

Along one axis, a tile of results is ``A ((G w) * (B x))``: r products, where each result of three taps would take three. On images
both axes are transformed, and channels are summed before A, so a convolution is r * r matrix products over channels, one for each
frequency. In the layout [H, W, N, C] a pixel is a row of N * C numbers: tiles are gathered by rows, and B and A are products with
small constant matrices. The gradient of the image is the convolution of that of the result with the filter turned, or, with a
stride, an algorithm of its own; the gradient of the filter is ``G^T ((A^T gy) * (B x))``.

| stride, tile | products per output, both axes | of 9 taps | error of float32 |
|---|---|---|---|
| 1, 2 x 2 | 4 | 0.44 | that of the plain form, 2e-7 to 7e-7 |
| 1, 4 x 4 | 2.25 | 0.25 | 2e-6 to 8e-6 |
| 2, 2 x 2 | 6.25 | 0.69 | that of the plain form |
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable

__all__ = ["TAPS", "Tiles", "backwards", "convolution", "turned"]

TAPS = 3
_Array = np.ndarray[Any, Any]
Size = tuple[int, int]

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

    def filters(self, build: Any, w: Variable) -> Any:
        """A filter [O, C, 3, 3] per frequency, [F, O, C]; the product also brings the taps to the front"""
        out, channels = w.static_shape[:2]  # type: ignore[index]
        flat = build.Gemm(_float32(self._g), build.Reshape(w, [out * channels, TAPS * TAPS]), transB=1)
        return build.Reshape(flat, [self.frequencies, out, channels])

    def of_image(self, build: Any, x: Any, again: bool = False) -> Any:
        """B x of images [height, width, N, C], as [F, tiles * N, C].

        Args:
            again: in a form in which onnxruntime does not see that it has computed it before, which it would then hold all along.
        """
        *_, batch, channels = x.static_shape
        tiles = self._tiles(build, x, self._reads, again)
        return build.Reshape(build.MatMul(_float32(self._b), tiles), [self.frequencies, self.tiles * batch, channels])

    def of_result(self, build: Any, gy: Any) -> Any:
        """A^T gy of the gradient of results [rows, columns, N, O], as [F, O, tiles * N]; it is turned where it is smallest"""
        *_, batch, out = gy.static_shape
        tiles = build.Reshape(self._tiles(build, gy, self._writes), [len(self._writes), self.tiles * batch, out])
        tiles = build.Reshape(turned(build, tiles), [len(self._writes), -1])
        return build.Reshape(build.MatMul(_float32(self._a.T), tiles), [self.frequencies, out, self.tiles * batch])

    def result_of(self, build: Any, product: Any, batch: int) -> Any:
        """A m of products [F, tiles * N, O], as [rows, columns, N, O]"""
        channels, pixels = product.static_shape[-1], self._writes.reshape(-1)
        flat = build.MatMul(_float32(self._a), build.Reshape(product, [self.frequencies, self.tiles * batch * channels]))
        inside = np.flatnonzero(pixels < prod(self.result))
        order = inside[np.argsort(pixels[inside])]
        rows = build.Reshape(flat, [len(pixels), batch * channels])
        rows = rows if np.array_equal(order, np.arange(len(pixels))) else build.Gather(rows, order, axis=0)
        return build.Reshape(rows, [*self.result, batch, channels])

    def filter_of(self, build: Any, product: Any) -> Any:
        """G^T m of products [F, O, C], as [O, C, 3, 3]"""
        _, out, channels = product.static_shape
        flat = build.Gemm(build.Reshape(product, [self.frequencies, out * channels]), _float32(self._g), transA=1)
        return build.Reshape(flat, [out, channels, TAPS, TAPS])

    def _tiles(self, build: Any, x: Any, pixels: _Array, again: bool = False) -> Any:
        """The pixels of each tile as a row, zeros where there are none, [positions in a tile, tiles * N * C]"""
        height, width, batch, channels = x.static_shape
        rows, size = build.Reshape(x, [height * width, batch * channels]), height * width
        if (pixels == size).any():
            zeros = np.zeros((1, batch * channels), np.float32)
            rows = build.Concat(*((zeros, rows) if again else (rows, zeros)), axis=0)
            pixels = (pixels + 1) % (size + 1) if again else pixels
        return build.Reshape(build.Gather(rows, pixels.reshape(-1), axis=0), [len(pixels), -1])


def convolution(image: Size, result: Size, pads: Size, stride: int, is_fast: bool) -> Tiles:
    """Tiles of y = w * x: images [H, W, N, C], results [rows, columns, N, O]; ``pads`` at the top and at the left."""
    form = _STRIDED if stride == 2 else _F4 if is_fast else _F2
    return Tiles(image, result, form, stride * len(form[2]), (-pads[0], -pads[1]))


def backwards(image: Size, result: Size, pads: Size, stride: int, is_fast: bool) -> Tiles:
    """Tiles of the gradient of the image, which reads that of the result. With a stride of 2, pads are 1."""
    if stride == 2:
        assert pads == (1, 1)
        return Tiles(result, image, _SPREAD, 2, (0, 0))
    b, g, a = _F4 if is_fast else _F2
    return Tiles(result, image, (b, np.flip(np.array(g), 1), a), len(a), (pads[0] + 1 - TAPS, pads[1] + 1 - TAPS))


def turned(build: Any, x: Any) -> Any:
    """[F, a, b] as [F, b, a], which onnxruntime takes into the product that reads it"""
    return build.Transpose(x, perm=[0, 2, 1])


def _pixels(axes: list[_Array], image: Size) -> _Array:
    """[positions in a tile, tiles]: the pixel there, or the number of pixels where there is none"""
    (down, across), (height, width) = axes, image
    y, x = down[:, None, :, None], across[None, :, None, :]
    found = np.where((y >= 0) & (y < height) & (x >= 0) & (x < width), y * width + x, height * width)
    return found.reshape(down.shape[0] * across.shape[0], down.shape[1] * across.shape[1])


def _float32(matrix: _Array) -> _Array:
    return np.ascontiguousarray(matrix, np.float32)
