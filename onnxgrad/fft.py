"""paddle.fft: the functions on real numbers; the transforms are refused, with the reason.

Tests: tests/tensor/test_linalg.py.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.tensor.common import Axes, axes_of, float_dtype, known_dim
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.manipulation import roll
from onnxgrad.tensor.options import Device, takes_options

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


_T = TypeVar("_T", bound=Variable)


@checked
@takes_options
def fftfreq(
    n: int,
    d: float = 1.0,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Variable:
    """The frequencies of a transform of ``n`` samples at distances ``d``.

    Args:
        n: how many samples.
        d: their distance.
        dtype: element type; the default floating-point type unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.

    Example:
        >>> paddle.fft.fftfreq(5, 0.5).shape
        [5]
    """
    return _frequencies(np.fft.fftfreq(n, d), dtype)


@checked
@takes_options
def rfftfreq(
    n: int,
    d: float = 1.0,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Variable:
    """The frequencies of a transform of ``n`` real samples at distances ``d``.

    Args:
        n: how many samples.
        d: their distance.
        dtype: element type; the default floating-point type unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
    """
    return _frequencies(np.fft.rfftfreq(n, d), dtype)


def _frequencies(values: np.ndarray[Any, Any], dtype: DTypeLike | None) -> Variable:
    layer = LayerHelper("fftfreq")
    return layer.result("Identity", layer.op.constant(values, float_dtype(dtype)))


@checked
def fftshift(x: _T, axes: Axes = None, name: str | None = None) -> _T:
    """The frequency 0 moved to the middle of the axes, whose sizes must be known.

    Args:
        x: variable of any shape.
        axes: one axis, several, or None for all.

    Example:
        >>> paddle.fft.fftshift(static.data("x", [5, 4])).shape
        (5, 4)
    """
    along = axes_of(axes) or list(range(max(x.ndim, 1)))
    return cast(_T, roll(x, [known_dim(x, a, "fftshift") // 2 for a in along], along, name))


@checked
def ifftshift(x: _T, axes: Axes = None, name: str | None = None) -> _T:
    """The opposite of ``fftshift``.

    Args:
        x: variable of any shape.
        axes: one axis, several, or None for all.
    """
    along = axes_of(axes) or list(range(max(x.ndim, 1)))
    return cast(_T, roll(x, [-(known_dim(x, a, "ifftshift") // 2) for a in along], along, name))


globals().update(absence_hooks(__name__))
