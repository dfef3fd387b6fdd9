"""summary: the layers of a network, what they take and give, and how many numbers they learn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onnxgrad.autograd.modes import no_grad
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.text_table import SummaryTable
from onnxgrad.nn.container import LayerList, Sequential
from onnxgrad.nn.layer import Layer
from onnxgrad.tensor.creation import zeros

if TYPE_CHECKING:
    from onnxgrad.static.input import InputSpec


__all__ = ["summary", "tensors_in"]


Size: TypeAlias = "Sequence[int | None] | InputSpec"
InputSizes: TypeAlias = "int | Size | Sequence[Size]"
Inputs: TypeAlias = "Variable | Sequence[Variable] | Mapping[str, Variable]"


def summary(
    net: Layer,
    input_size: InputSizes | None = None,
    dtypes: DTypeLike | Sequence[DTypeLike] | None = None,
    input: Inputs | None = None,
) -> dict[str, int]:
    """Print a table of the layers of a network in the order in which they are called; it computes once, in inference.

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
        Layer     Input   Output  Parameters
        Linear-1  [1, 4]  [1, 3]          15
        ReLU-1    [1, 3]  [1, 3]           0
        <BLANKLINE>
        15 parameters (0.0 MB), 15 of them trained; 0.0 MB of results
        {'total_params': 15, 'trainable_params': 15}
    """
    if not isinstance(net, Layer):
        raise ArgumentTypeError(f"summary takes a Layer, not {type(net).__name__}.")
    example = input if input is not None else [zeros(shape, dtype) for shape, dtype in _described(input_size, dtypes)]
    rows: list[tuple[str, str, str, int]] = []
    results = 0

    def note(layer: Layer, inputs: Any, output: Any) -> None:
        nonlocal results
        layer_name = type(layer).__name__
        number = 1 + sum(name.rpartition("-")[0] == layer_name for name, *_ in rows)
        outputs = tensors_in(output)
        results += sum(math.prod(x.shape) * x.dtype.numpy.itemsize for x in outputs)
        own = [x for x in (*layer._parameters.values(), *layer._buffers.values()) if x is not None]
        rows.append((f"{layer_name}-{number}", _shapes(tensors_in(inputs)), _shapes(outputs), _count(own)))

    leaves = [layer for layer in net.sublayers() if not isinstance(layer, (Sequential, LayerList))] or [net]
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
    weights = list({id(p): p for p in (*net.parameters(), *net.buffers())}.values())
    total, trained = _count(weights), _count([p for p in weights if not p.stop_gradient])
    size = sum(math.prod(p.shape) * p.dtype.numpy.itemsize for p in weights)
    print(SummaryTable(("Layer", "Input", "Output", "Parameters"), rows).text())
    print(f"\n{total:,} parameters ({size / 1e6:.1f} MB), {trained:,} of them trained; {results / 1e6:.1f} MB of results")
    return {"total_params": total, "trainable_params": trained}


def _described(sizes: Any, dtypes: Any) -> list[tuple[list[int], Any]]:
    """Shape and element type of each input"""
    if sizes is None:
        raise ArgumentError("summary: what does the network take? Pass input_size=(None, 3, 224, 224), or input=tensors.")
    single = hasattr(sizes, "shape") or all(n is None or isinstance(n, int) for n in sizes)
    shapes = [sizes] if single else list(sizes)
    types = list(dtypes) if isinstance(dtypes, Sequence) and not isinstance(dtypes, str) else [dtypes] * len(shapes)
    if len(types) != len(shapes):
        raise ArgumentError(f"summary has {len(types)} dtypes for {len(shapes)} inputs. Pass one for all, or one for each.")
    sizes = [[1 if n is None or n == -1 else n for n in getattr(shape, "shape", shape)] for shape in shapes]
    return [(size, dtype or getattr(shape, "dtype", "float32")) for size, shape, dtype in zip(sizes, shapes, types, strict=True)]


def _count(tensors: list[Tensor]) -> int:
    return sum(math.prod(x.shape) for x in tensors)


def _shapes(tensors: list[Tensor]) -> str:
    return ", ".join(str(list(x.shape)) for x in tensors)


def tensors_in(values: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(values, Variable):
        return [values]
    inner = values.values() if isinstance(values, dict) else values if isinstance(values, (list, tuple)) else []
    return [tensor for value in inner for tensor in tensors_in(value)]
