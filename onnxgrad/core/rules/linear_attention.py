"""Attention and convolution that carry a state from step to step, and the gated unit used with them (opsets 27 and 28).

Tests: tests/core/rules/test_contrib.py, tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, require_ranks, size_along, zeros_of_shape
from onnxgrad.core.rules.registry import expansion

__all__ = ["causal_convolution", "linear_recurrence"]


@expansion("SwiGLU")
def swiglu(op, node):
    """y = a sigmoid(alpha a) b"""
    a, b = node.inputs
    return op.Mul(op.Mul(a, op.Sigmoid(op.Mul(a, float(node.attr("alpha"))))), b)


@expansion("CausalConvWithState")
def causal_conv_with_state(op, node):
    """y = activation(Conv per channel of [past state, x]);  present state = the last k - 1 columns"""
    x, weight, bias, past = [*node.inputs, None, None][:4]
    return causal_convolution(op, node, x, weight, bias, past, node.attr("activation") != "none")


def causal_convolution(op: Builder, node: Any, x: Any, weight: Any, bias: Any, past: Any, activated: bool) -> tuple[Any, Any]:
    """The values and the new state of CausalConvWithState along one axis"""
    require_ranks(node, x, weight)
    if past is None:
        carried = op.Sub(size_along(op, weight, 2), [1])
        past = zeros_of_shape(op, op.Concat(op.Shape(x, start=0, end=2), carried, axis=0), x)
    padded = op.Concat(past, x, axis=2)
    y = _conv_per_channel(op, padded, weight, bias, x)
    if activated:
        y = op.Mul(y, op.Sigmoid(y))
    return y, op.Slice(padded, size_along(op, x, 2), [2**31 - 1], [2])


def _conv_per_channel(op: Builder, padded: Variable, weight: Any, bias: Variable | None, x: Variable) -> Any:
    """A convolution with one kernel per channel; as a product of windows where the number of channels is unknown"""
    channels = weight.dims[0]
    if isinstance(channels, int):
        return op.Conv(padded, weight, bias, group=channels)
    starts = op.Unsqueeze(op.Range(0, op.Squeeze(size_along(op, x, 2), [0]), 1), [1])
    indices = op.Add(starts, op.Range(0, op.Squeeze(size_along(op, weight, 2), [0]), 1))
    windows = op.Gather(padded, indices, axis=2)
    y = op.Squeeze(op.MatMul(windows, op.Transpose(weight, perm=[0, 2, 1])), [3])
    return y if bias is None else op.Add(y, op.Unsqueeze(bias, [1]))


@expansion("LinearAttention")
def linear_attention(op, node):
    """a Scan of s' = exp(g) s;  s = s' + k^T beta (v - k s') or s' + k^T v;  y = scale q s"""
    inputs = [*node.inputs, *[None] * (6 - len(node.inputs))]
    return linear_recurrence(op, node, inputs, node.attr("q_num_heads"), node.attr("kv_num_heads"), float(node.attr("scale")))


def linear_recurrence(op: Builder, node: Any, inputs: list[Any], q_heads: int, heads: int, scale: Any) -> tuple[Any, Any]:
    """The values and the new state of LinearAttention; a scale of 0 stands for that of the size of a head"""
    dtype = inputs[0].dtype
    require_ranks(node, *inputs)
    q, k, v, past, decay, beta = (_widened(op, x) for x in inputs)
    q = _by_step(op, q, [heads, q_heads // heads])
    k, v = (_by_step(op, x, [heads, 1]) for x in (k, v))
    decay = None if decay is None else op.Exp(_per_key(op, decay, heads))
    beta = None if beta is None else _per_key(op, beta, None)
    state = past if past is not None else _no_state(op, q, v, heads)
    present, y = _scan_steps(op, state, {"q": q, "k": k, "v": v, "decay": decay, "beta": beta}, dtype)
    scale = scale or _reciprocal_root(op, q)
    y = op.Transpose(op.Mul(y, scale), perm=[1, 0, 2, 3, 4])
    size = v.dims[4] * q_heads if isinstance(v.dims[4], int) else -1
    kept = inputs[3].dtype if past is not None else dtype
    return op.Cast(op.Reshape(y, [0, 0, size]), to=dtype.number), op.Cast(present, to=kept.number)


def _widened(op: Builder, x: Variable | None) -> Variable | None:
    """The recurrence runs in float32 at least, as the specification computes it"""
    return op.Cast(x, to=1) if x is not None and x.dtype.name in ("float16", "bfloat16") else x


def _by_step(op: Builder, x: Any, heads: list[int]) -> Any:
    """[batch, steps, heads * size] as [steps, batch, *heads, size]"""
    width = x.dims[2]
    size = width // (heads[0] * heads[1]) if isinstance(width, int) else -1
    return op.Transpose(op.Reshape(x, [0, 0, *heads, size]), perm=[1, 0, 2, 3, 4])


def _per_key(op: Builder, x: Any, heads: int | None) -> Any:
    """A factor per head or per key entry as [steps, batch, heads, keys or 1, 1], which broadcasts against the state"""
    if heads is None:
        return op.Unsqueeze(op.Transpose(x, perm=[1, 0, 2]), [3, 4])
    width = x.dims[2]
    apart = op.Reshape(x, [0, 0, heads, width // heads if isinstance(width, int) else -1])
    return op.Unsqueeze(op.Transpose(apart, perm=[1, 0, 2, 3]), [4])


def _no_state(op: Builder, q: Variable, v: Variable, heads: int) -> Variable:
    shape = op.Concat(op.Shape(q, start=1, end=2), [heads], size_along(op, q, 4), size_along(op, v, 4), axis=0)
    return zeros_of_shape(op, shape, q)


def _reciprocal_root(op: Builder, q: Any) -> Any:
    size = q.dims[4]
    return float(size) ** -0.5 if isinstance(size, int) else op.Reciprocal(op.Sqrt(cast_like(op, size_along(op, q, 4), q)))


def _scan_steps(op: Builder, state: Variable, scanned: Any, dtype: Any) -> tuple[Variable, Variable]:
    """(last state, output of every step)"""
    program = op.block.program
    block = program.new_block(op.block, "linear_attention_step")

    def argument(name, type):
        v = Variable(block, program.fresh_name(f"{op.key}/{name}"), type)
        block.inputs.append(block.register(v))
        return v

    present = {name: v for name, v in scanned.items() if v is not None}
    old = argument("state", state.type)
    step = {name: argument(name, TensorType(v.dtype, None if v.dims is None else v.dims[1:])) for name, v in present.items()}
    build = Builder(block, key=f"{op.key}/step")
    decayed = build.Mul(old, step["decay"]) if "decay" in step else old
    written = step["v"]
    if "beta" in step:
        written = build.Mul(build.Sub(written, build.MatMul(step["k"], decayed)), step["beta"])
    new = build.Add(decayed, build.Mul(build.Transpose(step["k"], perm=[0, 1, 3, 2]), written))
    block.outputs = [new, build.MatMul(step["q"], new)]
    return op.Scan(state, *present.values(), outputs=2, body=block, num_scan_inputs=len(present))
