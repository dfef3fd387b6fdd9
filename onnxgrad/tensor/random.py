"""Random tensors. A run samples anew; ``seed`` makes what a new session samples reproducible."""

# Tests: tests/eager/test_tensors.py.

from __future__ import annotations

import random
from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType, DTypeLike, dtype_of
from onnxgrad.errors import ArgumentError, IllTyped
from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked
from onnxgrad.tensor.common import Number, Shape, as_dtype, float_dtype, index_dtype, shape_of, shape_operand, sizes_of
from onnxgrad.tensor.layer import LayerHelper, is_variable, open_layer, variables_in
from onnxgrad.tensor.options import Device, takes_options

__all__ = [
    "bernoulli", "binomial", "gaussian", "log_normal", "multinomial", "normal", "rand", "randint", "randint_like", "randn",
    "randperm", "shuffle", "standard_normal", "uniform",
]  # fmt: skip


def next_seed(op: Builder) -> float:
    """A seed for one random operator: counted from the program's or the global seed, else from the system; 0 in eager mode."""
    if op.block.is_eager:
        return 0.0
    base = op.block.program.random_seed or state.current.seed
    if base is None or (base == 0 and state.current.seed is None):
        return float(random.SystemRandom().randrange(1, 2**24))
    state.current.count("seeds_given")
    earlier = sum(1 for other in op.block.ops if other.type.startswith("Random"))
    return float(np.random.SeedSequence([base, earlier]).generate_state(1)[0] % (2**24 - 1) + 1)


def sampled(op: Builder, op_type: str, shape: Any, seed: int = 0, **attrs: Any) -> Variable:
    """float32 numbers of a shape that is known now or at run time"""
    attrs.update(seed=float(seed) if seed else next_seed(op), dtype=1)
    size = shape if isinstance(shape, np.ndarray) else shape_operand(op, shape)
    if isinstance(size, np.ndarray) and size.size and (size > 0).all():
        return op.emit(op_type, (), {"shape": size.tolist(), **attrs})
    return op.emit(f"{op_type}Like", (op.Expand(np.float32(0.0), size),), attrs)


def gumbel(op: Builder, shape: Any) -> Variable:
    """-log(-log(u)) of numbers u in (0, 1), in float32: the largest of logits plus these is a sample of their classes."""
    numbers = op.Min(sampled(op, "RandomUniform", shape, low=1e-20, high=1.0), np.float32(1.0 - 2.0**-24))
    return op.Neg(op.Log(op.Neg(op.Log(numbers))))


def _open(layer_name: str, shape: Any, name: str | None, *others: Any) -> tuple[LayerHelper, Builder]:
    return open_layer(layer_name, *variables_in(*sizes_of(layer_name, shape), *others), name=name)


@checked
@takes_options
def uniform(
    shape: Shape,
    dtype: DTypeLike | None = None,
    min: float = 0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Variable:
    """Numbers equally likely anywhere in [min, max).

    Args:
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        dtype: element type, default float32.
        min, max: the range.
        seed: 0 to take the next one of the program's or of ``paddle.seed``.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.

    Example:
        >>> paddle.uniform([2, 3]).shape
        [2, 3]
    """
    (layer, op), element = _open("uniform_random", shape, name), float_dtype(dtype, "uniform")
    numbers = sampled(op, "RandomUniform", shape, seed, low=float(min), high=float(max))
    return layer.result("Cast", numbers, to=element.number)


@checked
@takes_options
def rand(
    shape: Shape,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """Numbers equally likely anywhere in [0, 1).

    Args:
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        dtype: a floating-point type; the default one unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return uniform(shape, dtype, 0.0, 1.0, name=name)


@checked
def gaussian(
    shape: Shape, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """Normally distributed numbers.

    Args:
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        mean: the mean.
        std: the deviation.
        seed: 0 for other numbers each time.
        dtype: a floating-point type; the default one unless given.
    """
    (layer, op), element = _open("gaussian", shape, name), float_dtype(dtype, "gaussian")
    numbers = sampled(op, "RandomNormal", shape, seed, mean=float(mean), scale=float(std))
    return layer.result("Cast", numbers, to=element.number)


@checked
@takes_options
def standard_normal(
    shape: Shape,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """Normally distributed numbers with mean 0 and deviation 1.

    Args:
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        dtype: a floating-point type; the default one unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.
    """
    return gaussian(shape, dtype=dtype, name=name)


randn = standard_normal


@checked
@takes_options
def normal(
    mean: Number = 0.0, std: Number = 1.0, shape: Shape | None = None, name: str | None = None, out: Variable | None = None
) -> Variable:
    """Normally distributed numbers; ``mean`` and ``std`` may be variables, whose shape the result takes.

    Args:
        mean: a number or a variable of any shape.
        std: a number or a variable of that shape.
        shape: of the result where both are numbers; [1] unless given.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.normal(mean=static.data("m", [None, 3])).shape
        (-1, 3)
    """
    if not is_variable(mean) and not is_variable(std):
        return gaussian([1] if shape is None else shape, mean, std, name=name)  # type: ignore[arg-type]
    layer, op = _open("normal", [], name, mean, std)
    like: Any = mean if is_variable(mean) else std
    noise = as_dtype(op, sampled(op, "RandomNormal", shape_of(op, like)), like.dtype)
    return layer.result("Add", op.Mul(noise, std), mean)


@checked
def log_normal(
    mean: Number = 1.0, std: Number = 2.0, shape: Shape | None = None, name: str | None = None, dtype: DTypeLike | None = None
) -> Variable:
    """Exponentials of normally distributed numbers.

    Args:
        mean: of the logarithms, a number or a variable.
        std: their deviation.
        shape: of the result where both are numbers; [1] unless given.
        dtype: a floating-point type; the default one unless given.
    """
    sample = normal(mean, std, shape)
    layer = LayerHelper("log_normal", sample, name=name)
    return layer.result("Exp", as_dtype(layer.op, sample, dtype))


@checked
def randint(
    low: int = 0, high: int | None = None, shape: Shape = (1,), dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """Integers equally likely in [low, high), in [0, low) if only one bound is given.

    Args:
        low: the least integer, or with no ``high`` the bound.
        high: the bound, not included.
        shape: ints, an integer variable, or a list that mixes ints and variables of one element.
        dtype: int32 or int64, which it is unless given.

    Raises:
        ArgumentError: if the range is empty, or wider than 2^24 numbers, which float32 samples cannot tell apart.

    Example:
        >>> paddle.randint(0, 10, [2, 3]).dtype
        onnxgrad.int64
    """
    return _integers(low, high, shape, index_dtype("int64" if dtype is None else dtype, "randint"), name)


def _integers(low: int, high: int | None, shape: Any, element: DType, name: str | None) -> Variable:
    low, high = (0, low) if high is None else (low, high)
    if not 0 < high - low <= 2**24:
        raise ArgumentError(f"randint: the range [{low}, {high}) must hold 1 to 2^24 integers.")
    layer, op = _open("randint", shape, name)
    numbers = op.Floor(sampled(op, "RandomUniform", shape, low=0.0, high=float(high - low)))
    whole = op.Min(op.Cast(numbers, to=7), np.array(high - low - 1))
    return layer.result("Cast", op.Add(whole, np.array(low)), to=element.number)


@checked
def randint_like(
    x: Variable, low: int = 0, high: int | None = None, dtype: DTypeLike | None = None, name: str | None = None
) -> Variable:
    """``randint`` in the shape and, unless given, the dtype of ``x``.

    Args:
        x: variable of any shape.
        low: the least integer, or with no ``high`` the bound.
        high: the bound, not included.
        dtype: element type; that of ``x`` unless given.
    """
    op = LayerHelper("randint_like", x, name=name).op
    size = shape_of(op, x)
    shape = size.tolist() if isinstance(size, np.ndarray) else size
    return _integers(low, high, shape, x.dtype if dtype is None else dtype_of(dtype), name)


@checked
@takes_options
def randperm(
    n: int,
    dtype: DTypeLike = "int64",
    name: str | None = None,
    out: Variable | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Variable:
    """The integers from 0 up to, and without, ``n`` in random order.

    Args:
        n: how many integers.
        dtype: element type.
        out: a Tensor that becomes the result, of any shape; None for a new one.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        requires_grad: True to compute gradients with respect to it.
        pin_memory: False; memory of the CPU is not pinned.

    Example:
        >>> paddle.randperm(5).shape
        [5]
    """
    layer, op = open_layer("randperm", name=name)
    if n < 1:
        raise ArgumentError(f"randperm: n is {n}; it is at least 1.")
    if (element := dtype_of(dtype)).name not in ("int32", "int64", "float32", "float64"):
        raise IllTyped(f"randperm: dtype is int32, int64, float32 or float64, not {element.name}.")
    _, order = op.emit("TopK", (sampled(op, "RandomUniform", [n]), np.array([n])), {}, outputs=2)
    return layer.result("Cast", order, to=element.number)


def shuffle(x: Variable, name: str | None = None) -> Variable:
    """The slices along the first axis in random order.

    Args:
        x: of one axis or more.
    """
    layer, op = open_layer("shuffle", x, name=name)
    length = op.Shape(x, start=0, end=1)
    _, order = op.emit("TopK", (sampled(op, "RandomUniform", length), length), {}, outputs=2)
    return layer.result("Gather", x, order)


@checked
def bernoulli(x: Variable, p: float | None = None, name: str | None = None) -> Variable:
    """1 with probability ``x`` (or ``p``), else 0, in the shape of ``x``.

    Args:
        x: floats of any shape, between 0 and 1.
        p: one probability for all instead.
    """
    layer, op = open_layer("bernoulli", x, name=name)
    numbers = as_dtype(op, sampled(op, "RandomUniform", shape_of(op, x), low=0.0, high=1.0), x.dtype)
    return layer.result("Cast", op.Less(numbers, x if p is None else op.constant(p, x.dtype)), to=x.dtype.number)


def binomial(count: Variable, prob: Variable, name: str | None = None) -> Variable:
    """How many of ``count`` (constant, equal everywhere) trials succeed with probability ``prob``.

    Args:
        count: integers of any shape, the same everywhere.
        prob: floats of that shape, between 0 and 1.
    """
    layer, op = open_layer("binomial", count, prob, name=name)
    most = op.ReduceMax(as_dtype(op, count, "int64"), keepdims=0)
    both = op.Add(op.Mul(as_dtype(op, count, prob.dtype), 0.0), prob)
    shape = op.Concat(op.Reshape(most, np.array([1])), op.Shape(both), axis=0)
    success = op.Less(as_dtype(op, sampled(op, "RandomUniform", shape, low=0.0, high=1.0), prob.dtype), prob)
    number = op.Range(np.array(0), most, np.array(1))
    column = op.Reshape(number, op.Concat(np.array([-1]), op.Expand(np.array(1), op.Shape(op.Shape(both))), axis=0))
    tried = op.And(success, op.Less(column, as_dtype(op, count, "int64")))
    return layer.result("ReduceSum", op.Cast(tried, to=7), [0], keepdims=0)


@checked
@takes_options
def multinomial(
    x: Variable, num_samples: int = 1, replacement: bool = False, name: str | None = None, out: Variable | None = None
) -> Variable:
    """Indices sampled with probabilities in proportion to each row of ``x``.

    Without replacement the largest of log(x) plus Gumbel noise are taken.

    Args:
        x: floats [n] or [rows, n], not negative.
        num_samples: how many indices of each row.
        replacement: whether an index may be sampled again.
        out: a Tensor that becomes the result, of any shape; None for a new one.

    Example:
        >>> paddle.multinomial(static.data("p", [None, 4]), 2).shape
        (-1, 2)
    """
    layer, op = open_layer("multinomial", x, name=name)
    if replacement:
        rows = op.Unsqueeze(x, [0]) if x.ndim == 1 else x
        attrs = {"sample_size": num_samples, "dtype": 7, "seed": next_seed(op)}
        samples = op.emit("Multinomial", (op.Log(as_dtype(op, rows, "float32")),), attrs)
        return layer.result("Squeeze", samples, [0]) if x.ndim == 1 else layer.result("Identity", samples)
    noisy = op.Add(op.Log(as_dtype(op, x, "float32")), gumbel(op, shape_of(op, x)))
    return layer.results(2, "TopK", noisy, np.array([num_samples]))[1]
