"""Outputs bent for a loss: ``logits.transpose(1, 0, 2)[:, 0].softmax(-1)`` over the name of any tensor in a file.

The text is parsed and compared with a list of methods; nothing of it is evaluated.

Tests: tests/training/losses/test_terms.py.
"""

from __future__ import annotations

import ast

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, OnnxGradError, UnknownName
from onnxgrad.training.surgery.pooling import at_last_token

__all__ = ["append_expression"]

METHODS = ("argmax", "last", "logit", "mean", "reshape", "softmax", "squeeze", "transpose")
_END = 2**62
_LEAST = 1e-6
"""Probabilities nearer to 0 or 1 count as this, so that their logits are finite."""


def append_expression(program: Program, text: str) -> Variable:
    """The tensor that an expression names; its operators are appended to the program.

    Args:
        program: whose tensors are named.
        text: a name, followed by ``.transpose(axes)``, ``.reshape(sizes)``, ``.squeeze(axes)``, ``.softmax(axis)``,
            ``.argmax(axis)``, ``.mean(axis)``, ``.logit()`` of probabilities whose Sigmoid cannot be reached, and slices
            ``[a:b, i]``, any number of them. ``.mean(mask)``, with the name of an input [batch, steps] of ones and
            zeros, is the mean over the steps of a tensor [batch, steps, size] that count; ``.last(mask)`` is the last of them.

    Raises:
        UnknownName: if the text begins with no tensor of the program that an operator makes.
        ArgumentError: if what follows is something else, or does not fit the tensor.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 5] x) => (float[N, 3, 5] y) { y = Relu(x) }'
        >>> append_expression(onnxgrad.from_onnx(parser.parse_model(text)), "y.transpose(2, 0, 1)[0]").dims
        ('N', 3)
    """
    names = program.global_block().vars
    name = text if text in names else max((n for n in names if text.startswith((f"{n}.", f"{n}["))), key=len, default="")
    tensor = names.get(name)
    if tensor is None or tensor.is_leaf:
        raise UnknownName(f"the program has no output {text!r}; it has {[v.name for v in program.outputs]}.")
    if name == text:
        return tensor
    try:
        tree = ast.parse("_" + text[len(name) :], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArgumentError(f"{text!r} is not an expression ({error}). Write {name}.transpose(1, 0, 2) or {name}[:, 0].") from error
    op = Builder(program.global_block(), key="bent")
    try:
        return _value(op, tree, tensor, text)
    except OnnxGradError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{text!r} does not fit {tensor!r}: {error}") from error


def _value(op: Builder, tree: ast.expr, start: Variable, text: str) -> Variable:
    if isinstance(tree, ast.Name) and tree.id == "_":
        return start
    if isinstance(tree, ast.Subscript):
        return _sliced(op, _value(op, tree.value, start, text), tree.slice, text)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute) and tree.func.attr in METHODS:
        x = _value(op, tree.func.value, start, text)
        if tree.func.attr == "mean" and len(tree.args) == 1 and isinstance(tree.args[0], ast.Name) and not tree.keywords:
            return _mean_of_steps(op, x, tree.args[0].id, text)
        if tree.func.attr == "last":
            if len(tree.args) != 1 or not isinstance(tree.args[0], ast.Name) or tree.keywords:
                raise ArgumentError(f"{text!r}: last takes the name of an input [batch, steps] that masks the steps.")
            return at_last_token(op, x, tree.args[0].id)
        return _called(op, x, tree.func.attr, _arguments(tree, text), text)
    raise ArgumentError(
        f"{text!r}: after the name of a tensor only slices and .{', .'.join(f'{name}(...)' for name in METHODS)} are known, "
        f"not {ast.unparse(tree)[1:40]!r}."
    )


def _mean_of_steps(op: Builder, x: Variable, name: str, text: str) -> Variable:
    """The mean over axis 1 of the rows for which the mask is not 0; of a row without any it is 0"""
    program = op.block.program
    mask = next((v for v in program.inputs if v.name == name), None)
    if mask is None or mask.rank not in (None, 2) or x.rank != 3:
        raise ArgumentError(
            f"{text!r}: mean takes an axis, or for a tensor [batch, steps, size], which {x!r} {'is' if x.rank == 3 else 'is not'}, "
            f"an input [batch, steps] that masks the steps; the inputs are {[v.name for v in program.inputs]}."
        )
    counts = op.Unsqueeze(op.Cast(op.Cast(mask, to=dtype_of("bool").number), to=x.dtype.number), [2])
    total = op.ReduceSum(op.Mul(x, counts), [1], keepdims=0)
    mean: Variable = op.Div(total, op.Max(op.ReduceSum(counts, [1], keepdims=0), 1.0))
    return mean


def _arguments(tree: ast.Call, text: str) -> list[int]:
    arguments: list[ast.expr] = [*tree.args, *(keyword.value for keyword in tree.keywords if keyword.arg in ("axis", "axes"))]
    if len(arguments) != len(tree.args) + len(tree.keywords):
        raise ArgumentError(f"{text!r}: the only keyword is axis=.")
    if len(arguments) == 1 and isinstance(arguments[0], (ast.Tuple, ast.List)):
        arguments = arguments[0].elts
    return [_integer(entry, text) for entry in arguments]


def _integer(tree: ast.expr, text: str) -> int:
    negative = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub)
    inner = tree.operand if isinstance(tree, ast.UnaryOp) and negative else tree
    if not isinstance(inner, ast.Constant) or type(inner.value) is not int or abs(inner.value) >= _END:
        raise ArgumentError(f"{text!r}: arguments are whole numbers, not {ast.unparse(tree)[:40]!r}.")
    return -inner.value if negative else inner.value


def _axis(x: Variable, axis: int, text: str) -> int:
    if x.rank is None or not -x.rank <= axis < x.rank:
        raise ArgumentError(f"{text!r}: {x!r} has no axis {axis}.")
    return axis % x.rank


def _called(op: Builder, x: Variable, method: str, arguments: list[int], text: str) -> Variable:
    if method == "transpose":
        if x.rank is None or sorted(_axis(x, axis, text) for axis in arguments) != list(range(x.rank)):
            raise ArgumentError(f"{text!r}: transpose takes each axis of {x!r} once, not {arguments}.")
        result: Variable = op.Transpose(x, perm=[axis % x.rank for axis in arguments])
    elif method == "reshape":
        if arguments.count(-1) > 1 or not arguments or min(arguments) < -1:
            raise ArgumentError(f"{text!r}: reshape takes sizes, one of which may be -1, not {arguments}.")
        result = op.Reshape(x, arguments, allowzero=1)
    elif method == "squeeze":
        axes = [_axis(x, axis, text) for axis in arguments]
        wrong = [axis for axis in axes if x.dims is not None and isinstance(x.dims[axis], int) and x.dims[axis] != 1]
        if wrong or not axes:
            raise ArgumentError(f"{text!r}: squeeze takes axes of length 1 of {x!r}, not {arguments}.")
        result = op.Squeeze(x, axes)
    elif method == "logit":
        if arguments or not x.is_float:
            raise ArgumentError(f"{text!r}: logit takes probabilities, and no axis.")
        p = op.Clip(x, np.array(_LEAST, x.dtype.numpy), np.array(1 - _LEAST, x.dtype.numpy))
        result = op.Sub(op.Log(p), op.Log(op.Sub(1.0, p)))
    else:
        if len(arguments) != 1:
            raise ArgumentError(f"{text!r}: {method} takes one axis, not {arguments}.")
        axis = _axis(x, arguments[0], text)
        if method == "mean":
            result = op.ReduceMean(x, [axis], keepdims=0)
        else:
            result = op.Softmax(x, axis=axis) if method == "softmax" else op.ArgMax(x, axis=axis, keepdims=0)
    return result


def _sliced(op: Builder, x: Variable, tree: ast.expr, text: str) -> Variable:
    entries = list(tree.elts) if isinstance(tree, ast.Tuple) else [tree]
    rank = x.rank
    if rank is None:
        raise ArgumentError(f"{text!r}: the rank of {x!r} is not known, so it cannot be sliced.")
    dots = [i for i, entry in enumerate(entries) if isinstance(entry, ast.Constant) and entry.value is ...]
    if len(dots) > 1:
        raise ArgumentError(f"{text!r}: '...' stands once at most.")
    if dots:
        full = [ast.Slice() for _ in range(rank - len(entries) + 1)]
        entries = [*entries[: dots[0]], *full, *entries[dots[0] + 1 :]]
    if len(entries) > rank:
        raise ArgumentError(f"{text!r}: {len(entries)} indices for {x!r}.")
    rows: list[tuple[int, int, int, int]] = []
    dropped = []
    for axis, entry in enumerate(entries):
        if isinstance(entry, ast.Slice):
            begin, end, step = (None if part is None else _integer(part, text) for part in (entry.lower, entry.upper, entry.step))
            if (begin, end, step) == (None, None, None):
                continue
            step = 1 if step is None else step
            if step == 0:
                raise ArgumentError(f"{text!r}: a slice has no step 0.")
            first, last = (0, _END) if step > 0 else (_END, -_END)
            rows.append((first if begin is None else begin, last if end is None else end, axis, step))
        else:
            index, size = _integer(entry, text), x.dims[axis] if x.dims else None
            if isinstance(size, int) and not -size <= index < size:
                raise ArgumentError(f"{text!r}: {index} is not an index of axis {axis} of {x!r}.")
            rows.append((index, index + 1 if index != -1 else _END, axis, 1))
            dropped.append(axis)
    if rows:
        begins, ends, axes, steps = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        x = op.Slice(x, begins, ends, axes, steps)
    result: Variable = op.Squeeze(x, dropped) if dropped else x
    return result
