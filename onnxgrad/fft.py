"""paddle.fft: what of it stays within real numbers; the transforms themselves are refused, with the reason.

Tests: tests/tensor/test_linalg.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.internal.refusals import REFUSED, refusals
from onnxgrad.tensor.common import Axes, axes_of, float_dtype, known_dim
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.manipulation import roll

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Variable:
    """The frequencies of a transform of ``n`` samples at distances ``d``.

    Example:
        >>> paddle.fft.fftfreq(5, 0.5).shape
        [5]
    """
    return _frequencies(np.fft.fftfreq(n, d), dtype)


def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, name: str | None = None) -> Variable:
    """The frequencies of a transform of ``n`` real samples at distances ``d``."""
    return _frequencies(np.fft.rfftfreq(n, d), dtype)


def _frequencies(values: Any, dtype: Any) -> Variable:
    layer = LayerHelper("fftfreq")
    return layer.result("Identity", layer.op.constant(values, float_dtype(dtype)))


def fftshift(x: Variable, axes: Axes = None, name: str | None = None) -> Variable:
    """The frequency 0 moved to the middle of the axes, whose sizes must be known.

    Example:
        >>> paddle.fft.fftshift(static.data("x", [5, 4])).shape
        (5, 4)
    """
    along = axes_of(axes) or list(range(max(x.ndim, 1)))
    return roll(x, [known_dim(x, a, "fftshift") // 2 for a in along], along, name)


def ifftshift(x: Variable, axes: Axes = None, name: str | None = None) -> Variable:
    """The opposite of ``fftshift``."""
    along = axes_of(axes) or list(range(max(x.ndim, 1)))
    return roll(x, [-(known_dim(x, a, "ifftshift") // 2) for a in along], along, name)


globals().update(refusals("paddle.fft", REFUSED["paddle.fft"]))
