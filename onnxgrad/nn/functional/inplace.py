"""Activations whose names end in ``_``: they overwrite an eager tensor.

On a variable of a program each is the same as without ``_``, with a warning: nothing is overwritten there.

Tests: tests/eager/test_leaves.py, tests/eager/test_tensors.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.functional.activation import elu, hardtanh, leaky_relu, relu, sigmoid, softmax, tanh, thresholded_relu
from onnxgrad.tensor.layer import in_place_result

__all__ = ["elu_", "hardtanh_", "leaky_relu_", "relu_", "sigmoid_", "softmax_", "tanh_", "thresholded_relu_"]


@checked
def elu_(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """Compute ``elu`` in place of the numbers of ``x``.

    Args:
        x: numbers of any shape; integers are computed as float32.
        alpha: minus the limit on the left.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> F.elu_(x) is x
        True
    """
    return in_place_result("elu_", x, elu(x, alpha, name))


@checked
def hardtanh_(x: Variable, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Variable:
    """Compute ``hardtanh`` in place of the numbers of ``x``.

    Args:
        x: floats of any shape.
        min: the least result.
        max: the largest result.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> F.hardtanh_(x) is x
        True
    """
    return in_place_result("hardtanh_", x, hardtanh(x, min, max, name))


@checked
def leaky_relu_(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """Compute ``leaky_relu`` in place of the numbers of ``x``.

    Args:
        x: numbers of any shape; integers are computed as float32.
        negative_slope: the slope on the left of 0.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> F.leaky_relu_(x) is x
        True
    """
    return in_place_result("leaky_relu_", x, leaky_relu(x, negative_slope, name))


def relu_(x: Variable, name: str | None = None) -> Variable:
    """Compute ``relu`` in place of the numbers of ``x``.

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> F.relu_(x) is x
        True
    """
    return in_place_result("relu_", x, relu(x, name))


def sigmoid_(x: Variable, name: str | None = None) -> Variable:
    """Compute ``sigmoid`` in place of the numbers of ``x``.

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> F.sigmoid_(x) is x
        True
    """
    return in_place_result("sigmoid_", x, sigmoid(x, name))


@checked
def softmax_(x: Variable, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """Compute ``softmax`` in place of the numbers of ``x``.

    Args:
        x: floats of any shape, or integers with a ``dtype``.
        axis: along which the results add up to 1.
        dtype: element type to compute in; that of ``x`` unless given.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> F.softmax_(x) is x
        True
    """
    return in_place_result("softmax_", x, softmax(x, axis, dtype, name))


def tanh_(x: Variable, name: str | None = None) -> Variable:
    """Compute ``tanh`` in place of the numbers of ``x``.

    Args:
        x: numbers of any shape; integers are computed as float32.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> F.tanh_(x) is x
        True
    """
    return in_place_result("tanh_", x, tanh(x, name))


@checked
def thresholded_relu_(x: Variable, threshold: float = 1.0, value: float = 0.0, name: str | None = None) -> Variable:
    """Compute ``thresholded_relu`` in place of the numbers of ``x``.

    Args:
        x: floats of any shape.
        threshold: above it, numbers stay as they are.
        value: the result elsewhere.
        name: prefix of the names of the results in a program; None to count one.

    Example:
        >>> x = paddle.to_tensor([-1.0, 2.0])
        >>> F.thresholded_relu_(x) is x
        True
    """
    return in_place_result("thresholded_relu_", x, thresholded_relu(x, threshold, value, name))
