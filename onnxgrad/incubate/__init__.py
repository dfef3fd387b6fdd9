"""Names that Paddle keeps under incubate."""

from typing import Literal, TypeVar, cast

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.geometric import ReduceName, segment_max, segment_mean, segment_min, segment_sum, send_u_recv
from onnxgrad.incubate import autograd, optimizer
from onnxgrad.incubate.optimizer import LookAhead, ModelAverage
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.tensor.layer import LayerHelper

__all__ = [
    "LookAhead", "ModelAverage", "autograd", "graph_send_recv", "identity_loss", "optimizer", "segment_max", "segment_mean",
    "segment_min", "segment_sum", "softmax_mask_fuse", "softmax_mask_fuse_upper_triangle",
]  # fmt: skip


_T = TypeVar("_T", bound=Variable)


@checked
def identity_loss(x: _T, reduction: Literal["sum", "mean", "none", 0, 1, 2] = "none") -> _T:
    """The variable that a program minimises: ``x`` itself, or what ``reduction`` makes of it.

    Args:
        x: a variable of float32 or float64.
        reduction: 'sum' or 0, 'mean' or 1, 'none' or 2.

    Example:
        >>> paddle.incubate.identity_loss(paddle.to_tensor([1.0, 3.0]), reduction="mean").item()
        2.0
    """
    forms = {0: "ReduceSum", "sum": "ReduceSum", 1: "ReduceMean", "mean": "ReduceMean", 2: "Identity", "none": "Identity"}
    if reduction not in forms:
        raise ArgumentError(f"identity_loss: reduction is 'sum', 'mean' or 'none', not {reduction!r}.")
    form = forms[reduction]
    layer = LayerHelper("identity_loss", x)
    return cast(_T, layer.result(form, x) if form == "Identity" else layer.result(form, x, keepdims=0))


@checked
def graph_send_recv(
    x: Variable,
    src_index: Variable,
    dst_index: Variable,
    pool_type: ReduceName = "sum",
    out_size: int | Variable | None = None,
    name: str | None = None,
) -> Variable:
    """``geometric.send_u_recv`` under its earlier name.

    Args:
        x: a row for each node, [N, ...].
        src_index: the node that each edge begins at, int32 or int64 [E].
        dst_index: the node that it ends at, [E].
        pool_type: how what arrives at one node is reduced.
        out_size: how many rows the result has; as many as ``x`` unless given.
    """
    return send_u_recv(x, src_index, dst_index, pool_type, out_size, name)


@checked
def softmax_mask_fuse(x: _T, mask: Variable, name: str | None = None) -> _T:
    """``softmax(x + mask)`` over the last axis.

    Args:
        x: floats [N, heads, rows, columns].
        mask: floats that broadcast with ``x``: 0 where attention is allowed, a large negative number elsewhere.

    Example:
        >>> paddle.incubate.softmax_mask_fuse(paddle.zeros([1, 1, 2, 2]), paddle.zeros([1, 1, 2, 2])).tolist()
        [[[[0.5, 0.5], [0.5, 0.5]]]]
    """
    layer = LayerHelper("fused_softmax_mask", x, mask, name=name)
    return cast(_T, layer.result("Softmax", layer.op.Add(x, mask), axis=-1))


@checked
def softmax_mask_fuse_upper_triangle(x: _T) -> _T:
    """Softmax over the last axis, in which a row does not see the columns behind its own number.

    Args:
        x: floats [N, heads, rows, columns].

    Example:
        >>> paddle.incubate.softmax_mask_fuse_upper_triangle(paddle.zeros([1, 1, 2, 2])).tolist()
        [[[[1.0, 0.0], [0.5, 0.5]]]]
    """
    layer = LayerHelper("fused_softmax_mask_upper_triangle", x)
    op = layer.op
    ones = op.Expand(op.constant(1.0, x.dtype), op.Shape(x))
    seen = op.Cast(op.Trilu(ones, upper=0), to=9)
    return cast(_T, layer.result("Softmax", op.Where(seen, x, op.constant(float("-inf"), x.dtype)), axis=-1))


globals().update(absence_hooks(__name__))
