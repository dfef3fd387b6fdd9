"""Element types: their limits, the default one, and how arrays print."""

# Tests: tests/tensor/test_remaining.py.

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.eager.printing import set_options
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked

__all__ = ["finfo", "get_default_dtype", "iinfo", "set_default_dtype", "set_printoptions"]


class finfo:  # noqa: N801
    """Limits of a floating-point type: ``min``, ``max``, ``eps``, ``tiny``, ``smallest_normal``, ``resolution``, ``bits``.

    Args:
        dtype: a floating-point type.

    Raises:
        ArgumentTypeError: if it is no floating-point type.

    Example:
        >>> paddle.finfo("float32").max
        3.4028234663852886e+38
    """

    def __init__(self, dtype: DTypeLike) -> None:
        element = dtype_of(dtype)
        if not element.is_float:
            raise ArgumentTypeError(f"finfo takes a floating-point type, not {element.name}. Use iinfo.")
        limits: Any = ml_dtypes.finfo(element.numpy)  # type: ignore[no-untyped-call]
        self.dtype, self.bits = element.name, int(limits.bits)
        self.min, self.max = float(limits.min), float(limits.max)
        self.eps, self.resolution = float(limits.eps), float(limits.resolution)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)

    def __repr__(self) -> str:
        return (
            f"paddle.finfo(min={self.min:g}, max={self.max:g}, eps={self.eps:g}, resolution={self.resolution:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, bits={self.bits}, dtype={self.dtype})"
        )


class iinfo:  # noqa: N801
    """Limits of an integer type: ``min``, ``max`` and ``bits``.

    Args:
        dtype: an integer type.

    Raises:
        ArgumentTypeError: if it is no integer type.

    Example:
        >>> paddle.iinfo("int8").min
        -128
    """

    def __init__(self, dtype: DTypeLike) -> None:
        element = dtype_of(dtype)
        if not element.is_integer:
            raise ArgumentTypeError(f"iinfo takes an integer type, not {element.name}. Use finfo.")
        limits = np.iinfo(element.numpy)
        self.dtype, self.bits, self.min, self.max = element.name, int(limits.bits), int(limits.min), int(limits.max)

    def __repr__(self) -> str:
        return f"paddle.iinfo(min={self.min}, max={self.max}, bits={self.bits}, dtype={self.dtype})"


def set_default_dtype(d: DTypeLike) -> None:
    """Set the element type of layers' parameters and of floating-point tensors made without one.

    Args:
        d: float16, bfloat16, float32 or float64.

    Raises:
        ArgumentTypeError: if it is none of float16, bfloat16, float32, float64.
    """
    element = dtype_of(d)
    if element.name not in ("float16", "bfloat16", "float32", "float64"):
        raise ArgumentTypeError(f"the default type is float16, bfloat16, float32 or float64, not {element.name}.")
    state.current.default_dtype = element.name


def get_default_dtype() -> str:
    """Name of the default floating-point type.

    Example:
        >>> paddle.get_default_dtype()
        'float32'
    """
    return str(state.current.default_dtype)


@checked
def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """How eager tensors print; None leaves a setting as it is.

    Args:
        precision: digits after the point.
        threshold: elements beyond which the middle is left out.
        edgeitems: how many are shown at each end then.
        sci_mode: exponents always, or never.
        linewidth: characters in a line.
    """
    set_options(precision=precision, threshold=threshold, edgeitems=edgeitems, linewidth=linewidth, sci_mode=sci_mode)
