"""summary and flops: the layers of a network, what they take and give, how many numbers they learn, how much they compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from onnxgrad.autograd.modes import no_grad
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.arguments import checked
from onnxgrad.nn.container import LayerList, Sequential
from onnxgrad.nn.layer import Layer
from onnxgrad.nn.recurrent import Recurrent
from onnxgrad.tensor.creation import zeros

if TYPE_CHECKING:
    from onnxgrad.static.input import InputSpec


__all__ = ["flops", "summary", "tensors_in"]


Size: TypeAlias = "Sequence[int | None] | InputSpec"
InputSizes: TypeAlias = "int | Size | Sequence[Size]"
Inputs: TypeAlias = "Variable | Sequence[Variable] | Mapping[str, Variable]"


def summary(
    net: Layer,
    input_size: InputSizes | None = None,
    dtypes: DTypeLike | Sequence[DTypeLike] | None = None,
    input: Inputs | None = None,
) -> dict[str, int]:
    """Print a table of the layers of a network in the order in which they are first called; it computes once, in inference.

    Args:
        net: the network.
        input_size: the shape of its input, or a list of shapes or ``InputSpec``; sizes that are None or -1 count as 1.
        dtypes: element type of each input; default float32, or that of the ``InputSpec``.
        input: tensors to compute with, in place of ``input_size``: one, or a list, or by argument.

    Returns:
        ``total_params`` and ``trainable_params``: numbers of elements, statistics among the first. What layers share counts once.

    Raises:
        ArgumentError: if neither ``input_size`` nor ``input`` says what the network takes.

    Example:
        >>> net = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.ReLU())
        >>> paddle.summary(net, (None, 4))
        ---------------------------------------------------------------------------
         Layer (type)       Input Shape          Output Shape         Param #
        ===========================================================================
           Linear-1           [[1, 4]]              [1, 3]              15
            ReLU-1            [[1, 3]]              [1, 3]               0
        ===========================================================================
        Total params: 15
        Trainable params: 15
        Non-trainable params: 0
        ---------------------------------------------------------------------------
        Input size (MB): 0.00
        Forward/backward pass size (MB): 0.00
        Params size (MB): 0.00
        Estimated Total Size (MB): 0.00
        ---------------------------------------------------------------------------
        <BLANKLINE>
        {'total_params': 15, 'trainable_params': 15}
    """
    if not isinstance(net, Layer):
        raise ArgumentTypeError(f"summary takes a Layer, not {type(net).__name__}.")
    example = input if input is not None else [zeros(shape, dtype) for shape, dtype in _described(input_size, dtypes)]
    rows: dict[str, _Row] = {}

    def note(layer: Layer, inputs: Any, output: Any) -> None:
        number = layer.full_name().rpartition("_")[2]
        key = f"{type(layer).__name__}-{int(number) + 1 if number.isdigit() else len(rows) + 1}"
        own = [x for x in (*layer._parameters.values(), *layer._buffers.values()) if x is not None]
        rows[key] = _Row(str(_shapes(inputs)), str(_shapes(output)), _count(own), _bytes(tensors_in(output)))

    leaves = [layer for layer in net.sublayers() if not isinstance(layer, (Sequential, LayerList))]
    if not leaves or isinstance(net, Recurrent):  # whose cells hold weights and are not called
        leaves = [net]
    _run_once(net, example, leaves, note)
    weights = list({id(p): p for p in (*net.parameters(), *net.buffers())}.values())
    total, trained = _count(weights), _count([p for p in weights if not p.stop_gradient])
    results = 2 * sum(row.result_bytes for row in rows.values())  # and their gradients
    sizes = [_bytes(tensors_in(example)) / 2**20, results / 2**20, _bytes(weights) / 2**20]
    print(_table(rows, total, trained, sizes))
    return {"total_params": total, "trainable_params": trained}


@checked
def flops(
    net: Layer,
    input_size: Sequence[int],
    custom_ops: Mapping[type[Layer], Callable[[Layer, tuple[Tensor, ...], Tensor], None]] | None = None,
    print_detail: bool = False,
) -> int:
    """Count the multiplications of the layers within a network, as Paddle counts them, and print the sum.

    Convolutions, Linear, BatchNorm, average pooling and LeakyReLU are counted, other layers count as 0, and the network itself does
    not count, as in Paddle.

    Args:
        net: the network, which computes once, in inference.
        input_size: the shape of its input.
        custom_ops: functions of a layer, its inputs and its output that add to ``total_ops`` of the layer, by its class.
        print_detail: whether a row is printed for each layer.

    Returns:
        The number; -1 if ``net`` is no Layer.

    Example:
        >>> paddle.flops(paddle.nn.Sequential(paddle.nn.Linear(3, 4)), [2, 3])
        <class 'onnxgrad.nn.weighted.Linear'>'s flops has been counted
        Total Flops: 24     Total Params: 16
        24
    """
    if not isinstance(net, Layer):
        return -1
    leaves = [layer for layer in net.sublayers(include_self=True) if not layer.sublayers()]
    rows: dict[Layer, tuple[str, ...]] = {}
    numbers: dict[Layer, tuple[int, int]] = {}

    def note(layer: Any, inputs: Any, output: Any) -> None:
        counts = (custom_ops or {}).get(type(layer))
        if counts is None:
            total = _multiplications(layer, inputs[0], output) if type(layer).__name__ in _COUNTED else 0
        else:
            layer.register_buffer("total_ops", zeros([1], "int64"))
            counts(layer, inputs, output)
            total = int(layer.total_ops.sum())
            del layer.total_ops
        numbers[layer] = _count(list(layer.parameters())), total
        rows[layer] = (layer.full_name(), *(str(_shapes(v)) for v in (inputs[0], output)), *map(str, numbers[layer]))

    for kind in dict.fromkeys(map(type, leaves)):
        if kind in (custom_ops or {}):
            print(f"Customize Function has been applied to {kind}")
        elif kind.__name__ in _COUNTED:
            print(f"{kind}'s flops has been counted")
        else:
            print(f"Cannot find suitable count function for {kind}. Treat it as zero FLOPs.")
    _run_once(net, zeros(input_size), leaves, note)
    inner = [layer for layer in leaves if layer is not net and layer in rows]
    if print_detail:
        print(_grid([("Layer Name", "Input Shape", "Output Shape", "Params", "Flops"), *(rows[layer] for layer in inner)]))
    weights, total = (sum(numbers[layer][at] for layer in inner) for at in (0, 1))
    print(f"Total Flops: {total}     Total Params: {weights}")
    return total


_COUNTED = {
    *("Linear", "LeakyReLU", "ReLU", "ReLU6", "Dropout", "BatchNorm"),
    *(f"{kind}{axes}D" for kind in ("Conv", "BatchNorm", "AvgPool", "AdaptiveAvgPool") for axes in (1, 2, 3)),
    *(f"Conv{axes}DTranspose" for axes in (1, 2, 3)),
}


def _multiplications(layer: Any, x: Any, y: Any) -> int:
    """Those that Paddle counts"""
    kind, size = type(layer).__name__, int(math.prod(y.shape))
    if kind.startswith("Conv"):
        products: int = x.shape[1] // layer._groups * math.prod(layer.weight.shape[2:])
        return size * (products + (layer.bias is not None))
    if kind.startswith("AdaptiveAvgPool"):
        cells: int = math.prod(wide // narrow for wide, narrow in zip(x.shape[2:], y.shape[2:], strict=True))
        return size * (1 + cells)
    factor: int = {"Linear": x.shape[-1], "LeakyReLU": 1, "AvgPool": 1, "BatchNorm": 2}.get(kind.rstrip("123D"), 0)
    return size * factor


def _grid(lines: list[tuple[str, ...]]) -> str:
    """Lines of centred cells in a frame."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    head, *rows = ["|".join(["", *(f" {c.center(width)} " for c, width in zip(line, widths, strict=True)), ""]) for line in lines]
    return "\n".join([rule, head, rule, *rows, rule])


def _run_once(net: Layer, example: Any, leaves: Iterable[Layer], note: Callable[[Layer, Any, Any], None]) -> None:
    """Compute a network in inference, and call ``note`` behind each of the leaves; its modes are then as before."""
    hooks = [layer.register_forward_post_hook(note) for layer in leaves]
    modes = [(layer, layer.training) for layer in net.sublayers(include_self=True)]
    try:
        net.eval()
        with no_grad():
            net(**example) if isinstance(example, dict) else net(*([example] if isinstance(example, Tensor) else example))
    finally:
        for hook in hooks:
            hook.remove()
        for layer, training in modes:
            layer.__dict__["training"] = training


class _Row(NamedTuple):
    """A layer: the shapes that it took and gave when it was called last, its own numbers, bytes of what it gave."""

    inputs: str
    outputs: str
    elements: int
    result_bytes: int


def _table(rows: dict[str, _Row], total: int, trained: int, sizes: list[float]) -> str:
    """The layout of Paddle: centred columns of these widths at least."""
    lines = [("Layer (type)", "Input Shape", "Output Shape", "Param #")]
    lines += [(name, row.inputs, row.outputs, f"{row.elements:,}") for name, row in rows.items()]
    widths = [max(least, *map(len, cells[1:])) for least, cells in zip((15, 20, 20, 15), zip(*lines, strict=True), strict=True)]
    head, *body = [" ".join(f"{cell:^{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    thin, thick = "-" * (sum(widths) + 5), "=" * (sum(widths) + 5)
    inputs, results, weights = sizes
    return "\n".join(
        [
            *(thin, head, thick, *body, thick),
            *(f"Total params: {total:,}", f"Trainable params: {trained:,}", f"Non-trainable params: {total - trained:,}", thin),
            *(f"Input size (MB): {inputs:.2f}", f"Forward/backward pass size (MB): {results:.2f}"),
            *(f"Params size (MB): {weights:.2f}", f"Estimated Total Size (MB): {inputs + results + weights:.2f}", thin, ""),
        ]
    )


def _described(sizes: Any, dtypes: Any) -> list[tuple[list[int], Any]]:
    """Shape and element type of each input"""
    if sizes is None:
        raise ArgumentError("summary: the shape of the input is not known. Pass input_size=(None, 3, 224, 224), or input=tensors.")
    single = hasattr(sizes, "shape") or all(n is None or isinstance(n, int) for n in sizes)
    shapes = [sizes] if single else list(sizes)
    types = list(dtypes) if isinstance(dtypes, Sequence) and not isinstance(dtypes, str) else [dtypes] * len(shapes)
    if len(types) != len(shapes):
        raise ArgumentError(f"summary has {len(types)} dtypes for {len(shapes)} inputs. Pass one for all, or one for each.")
    if any(n == 0 or (isinstance(n, int) and n < -1) for shape in shapes for n in getattr(shape, "shape", shape)):
        raise ArgumentError(f"summary: sizes are positive, unlike those in {sizes}.")
    sizes = [[1 if n is None or n == -1 else n for n in getattr(shape, "shape", shape)] for shape in shapes]
    return [(size, dtype or getattr(shape, "dtype", "float32")) for size, shape, dtype in zip(sizes, shapes, types, strict=True)]


def _count(tensors: list[Tensor]) -> int:
    return sum(math.prod(x.shape) for x in tensors)


def _bytes(tensors: list[Tensor]) -> int:
    return sum(math.prod(x.shape) * x.dtype.numpy.itemsize for x in tensors)


def _shapes(values: Any) -> list[Any] | None:
    """The shape of a tensor, or those in a list; None for None, nothing for anything else"""
    if isinstance(values, Variable):
        return [*values.shape]
    if values is None:
        return None
    return [_shapes(value) for value in values] if isinstance(values, (list, tuple)) else []


def tensors_in(values: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(values, Variable):
        return [values]
    inner = values.values() if isinstance(values, dict) else values if isinstance(values, (list, tuple)) else []
    return [tensor for value in inner for tensor in tensors_in(value)]
