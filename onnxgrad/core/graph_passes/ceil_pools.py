"""Write pools with ceil_mode in a form whose output shape onnxruntime infers as it computes it."""

from __future__ import annotations

from onnxgrad.core.graph.contract import Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import Dim, TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["CEIL_POOLS", "write_ceil_pools"]

_POOLS = ("AveragePool", "LpPool", "MaxPool")


def write_ceil_pools(graph: Graph, target: Target) -> int:
    """Write the pools with ceil_mode of a graph and its bodies."""
    rewrites = _write_pools(graph.program.global_block())
    if rewrites:
        graph.take_constants()
    return rewrites


CEIL_POOLS = Pass("ceil_pools", write_ceil_pools, when=lambda graph, target: not graph.is_whole)


def _write_pools(block: Block) -> int:
    """Write pools that leave a last window out so that their number of windows follows from their pads.

    With ceil_mode no window starts behind the data. The inference of forms before opset 22, in onnx and in onnxruntime, counts
    such a window all the same, and contradicts a gradient of the true shape. Values stay as they are.
    """
    written: list[Operator] = []
    rewrites = 0
    for op in block.ops:
        for body in op.blocks():
            rewrites += _write_pools(body)
        if op.type in _POOLS and not op.domain and op.attrs.get("ceil_mode"):
            before = dict(op.attrs)
            written += (crop := _count_from_pads(op))
            if crop or op.attrs != before:
                rewrites += 1
                _type_indices(op)
        written.append(op)
    block.ops = written
    return rewrites


def _count_from_pads(op: Operator) -> list[Operator]:
    """Change attributes of a pool; operators that go before it"""
    mode = op.attrs.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if all(dilation == 1 for dilation in op.attrs.get("dilations") or ()):
            op.attrs["ceil_mode"] = 0
        return []
    rank = len(op.attrs["kernel_shape"])
    pads = list((op.attrs.get("pads") if mode == "NOTSET" else None) or [0] * 2 * rank)
    begin, end = pads[:rank], pads[rank:]
    # What lies beyond the pads counts for no average.
    extends = not any(pads) or not op.attrs.get("count_include_pad")
    end_pads = [_end_pads(op, i, begin[i], end[i], extends) for i in range(rank)]
    rounded_up, rounded_down = [pad for pad, _ in end_pads], [pad for _, pad in end_pads]
    if rounded_up == end:
        return []
    if all(pad >= 0 for pad in rounded_up):
        op.attrs.update(auto_pad="NOTSET", pads=[*begin, *rounded_up])
    elif None not in rounded_down:
        op.attrs["ceil_mode"] = 0
        if rounded_down != end:
            op.attrs.update(auto_pad="NOTSET", pads=[*begin, *rounded_down])
            op.attrs.pop("count_include_pad", None)
    elif len(op.outputs) == 1:
        op.attrs.update(auto_pad="NOTSET", pads=[*begin, *(max(pad, 0) for pad in rounded_up)])
        return _crop(op, [max(-pad, 0) for pad in rounded_up])
    return []


def _type_indices(op: Operator) -> None:
    """The Indices of a MaxPool have the shape of its maxima, also where inference counted another window"""
    maxima, indices = op.outputs[0], op.outputs[1] if len(op.outputs) > 1 else None
    if indices is not None and maxima is not None and maxima.dims is not None:
        indices.type = TensorType(indices.dtype, maxima.dims)


def _end_pads(op: Operator, i: int, begin: int, end: int, extends: bool) -> tuple[int, int | None]:
    """Padding behind one axis with which inference finds the true number of windows, with ceil_mode and without it"""
    size, windows = (_size_of_axis(v, 2 + i) for v in (op.inputs[0], op.outputs[0]))
    if not isinstance(size, int) or not isinstance(windows, int):
        return end, None
    kernel, stride, dilation = (_of_axis(op, name, i) for name in ("kernel_shape", "strides", "dilations"))
    extent = dilation * (kernel - 1) + 1
    fitting = (windows - 1) * stride + extent - size - begin
    between = size + begin + end - extent
    rounded_up = end if -(-between // stride) + 1 == windows else fitting
    if between // stride + 1 == windows:
        return rounded_up, end
    return rounded_up, fitting if extends and 0 <= fitting < kernel else None


def _size_of_axis(value: Variable | None, axis: int) -> Dim | None:
    """None where it is unknown, also in a damaged file whose pool has fewer axes than its kernel says"""
    dims = value.dims if value is not None else None
    return dims[axis] if dims is not None and axis < len(dims) else None


def _of_axis(op: Operator, name: str, i: int) -> int:
    values: list[int] | None = op.attrs.get(name)
    return values[i] if values else 1


def _crop(op: Operator, unread: list[int]) -> list[Operator]:
    """Let a pool read its operand without the elements behind its last windows"""
    x, stage = op.inputs[0], list[Operator]()
    axes = [2 + i for i, count in enumerate(unread) if count]
    build = Builder(op.block, stage, op.role, key=f"{op.name or op.type}/read")
    op.inputs[0] = part = build.Slice(x, [0] * len(axes), [-unread[axis - 2] for axis in axes], axes)
    part._name = op.block.program.fresh_name(f"{build.key}/Slice")
    op.block.register(part)
    return stage
