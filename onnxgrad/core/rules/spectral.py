"""Fourier transforms. They are linear: the gradient is the adjoint, which is the transform in the other direction, scaled.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like
from onnxgrad.core.rules.registry import expansion, gradient


@gradient("DFT")
def dft(op, node, gy):
    """gx = length * inverse DFT of gy; of an inverse DFT: DFT(gy) / length;  cut or filled to x, its real part where x is real"""
    x = node.inputs[0]
    inverse, onesided = node.attr("inverse"), node.attr("onesided")
    dft_length, axis = node.operand("dft_length"), node.operand("axis")
    axis = op.constant(-2) if axis is None else op.Cast(axis, to=7)
    length = _length(op, x, axis, dft_length, inverse and onesided)
    if inverse and onesided:
        spectrum = op.DFT(gy, None, axis, onesided=1)
        g = op.Div(op.Mul(spectrum, _weights(op, x, axis, length)), cast_like(op, length, x))
        return _fitted(op, g, x, axis)
    if inverse:
        return _fitted(op, op.Div(op.DFT(gy, None, axis), cast_like(op, length, x)), x, axis, dft_length is not None)
    back = op.DFT(gy, length if onesided else None, axis, inverse=1)
    return _fitted(op, op.Mul(back, cast_like(op, length, x)), x, axis, dft_length is not None or onesided)


def _length(op: Builder, x: Variable, axis: Variable, dft_length: Variable | None, from_half: int) -> Variable:
    """Number of transformed elements, a scalar"""
    if dft_length is not None:
        return op.Squeeze(op.Cast(dft_length, to=7))
    size = op.Gather(op.Shape(x), axis)
    return op.Mul(op.Sub(size, 1), 2) if from_half else size


def _weights(op: Builder, x: Variable, axis: Variable, length: Variable) -> Variable:
    """Return how often each bin of half a spectrum occurs in the full one: 2, or 1 for those that are their own mirror image"""
    bins = op.Range(0, op.Add(op.Div(length, 2), 1), 1)
    own_mirror = op.Equal(op.Mod(op.Mul(bins, 2), length), 0)
    weights = op.Sub(2.0, cast_like(op, own_mirror, x))
    number = known_ints(axis)
    if number is not None and x.rank is not None:
        return op.Unsqueeze(weights, list(range(1, x.rank - number[0] % x.rank)))
    rank = op.Size(op.Shape(x))
    behind = op.Mod(op.Sub(op.Sub(rank, axis), 1), rank)
    return op.Unsqueeze(weights, op.Range(1, op.Add(behind, 1), 1))


def _fitted(op: Builder, g: Variable, x: Variable, axis: Variable, resized: bool = True) -> Variable:
    """``g`` cut, or filled with zeros, to the size of x along the axis; without imaginary part where x has none"""
    if resized:
        difference = op.Sub(op.Gather(op.Shape(x), axis), op.Gather(op.Shape(g), axis))
        g = op.Pad(g, op.Concat([0], op.Reshape(difference, [1]), axis=0), None, op.Reshape(axis, [1]))
    parts = x.dims[-1] if x.dims is not None else None
    return g if parts == 2 else op.Slice(g, [0], [parts] if isinstance(parts, int) else op.Shape(x, start=-1), [-1])


@expansion("STFT")
def stft(op, node):
    """DFT of Gather(signal, frames) * window"""
    signal, step = node.inputs[0], op.Cast(node.inputs[1], to=7)
    window, frame_length = node.operand("window"), node.operand("frame_length")
    if frame_length is not None:
        length = op.Squeeze(op.Cast(frame_length, to=7))
    else:
        length = op.Gather(op.Shape(signal), 1) if window is None else op.Size(window)
    frames = op.Add(op.Div(op.Sub(op.Gather(op.Shape(signal), 1), length), op.Squeeze(step)), 1)
    starts = op.Mul(op.Range(0, frames, 1), op.Squeeze(step))
    framed = op.Gather(signal, op.Add(op.Unsqueeze(starts, [1]), op.Range(0, length, 1)), axis=1)
    if window is not None:
        framed = op.Mul(framed, op.Unsqueeze(window, [1]))
    if not node.attr("onesided"):
        return op.DFT(framed, None, 2)
    if signal.dims is not None and signal.dims[-1] == 1:
        return op.DFT(framed, None, 2, onesided=1)
    bins = op.Add(op.Div(op.Reshape(length, [1]), [2]), [1])
    return op.Slice(op.DFT(framed, None, 2), [0], bins, [2])
