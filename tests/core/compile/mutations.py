"""Change one thing at a time of a small model: an operand, an attribute, a constant, a type, who else reads a result.

What comes out may be no valid model: whoever runs it says so.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

_SIBLINGS = (
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    ("And", "Or", "Xor"),
    ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"),
    ("Softmax", "LogSoftmax"),
    ("MaxPool", "AveragePool"),
    ("GatherElements", "Gather"),
    ("Exp", "Neg", "Sqrt", "Reciprocal", "Log"),
    ("Relu", "Sigmoid", "Tanh"),
    ("Mod", "Div"),
    ("Expand", "Tile"),
    ("MatMul", "Mul"),
    ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"),
)
"""Operators that take the same operands."""
_WORDS = {
    "reduction": ("none", "add", "mul", "max", "min"),
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "mode": ("constant", "edge", "reflect", "wrap"),
}
_TYPES = ("to", "dtype", "output_dtype")
_TAKES_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32, TensorProto.INT8)
_FLAGS = {
    "allowzero", "ceil_mode", "count_include_pad", "exclusive", "keepdims", "largest", "noop_with_empty_axes", "reverse", "saturate",
    "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper",
}  # fmt: skip
"""0 or 1; other numbers have no meaning."""
_PER_AXIS = ("dilations", "kernel_shape", "output_padding", "strides")
_LARGE = 2**12
"""Numbers of a constant that are changed one by one in the message."""


class Mutation(NamedTuple):
    """A model that differs in one thing.

    Attributes:
        title: what differs.
        model: the model.
        feed: what is fed to it.
        parameters: initializers that are weights.
    """

    title: str
    model: ModelProto
    feed: dict[str, np.ndarray]
    parameters: tuple[str, ...] = ()


def mutations(model: ModelProto, feed: dict[str, np.ndarray], numbers: dict[str, np.ndarray]) -> Iterator[Mutation]:
    """Models that differ from one in one thing each.

    Args:
        model: nothing writes to it.
        feed: of its inputs.
        numbers: all tensors of its main graph.
    """
    writer = _Writer(model, feed, numbers)
    yield from writer.operators()
    yield from writer.constants()
    yield from writer.readers()
    yield from writer.types()
    yield from writer.sizes()


class _Writer:
    def __init__(self, model: ModelProto, feed: dict[str, np.ndarray], numbers: dict[str, np.ndarray]) -> None:
        self.model, self.feed, self.numbers = model, feed, numbers
        self.draw = np.random.default_rng(7)
        self.version = {entry.domain: entry.version for entry in model.opset_import}

    def copy(self) -> ModelProto:
        model = ModelProto()
        model.CopyFrom(self.model)
        return model

    def like(self, array: np.ndarray, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Other numbers of a kind that are still in the range of the first"""
        if shape is not None:
            array = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)
        if array.dtype == bool:
            return ~array
        if array.dtype.kind in "iu":
            return np.roll(array.reshape(-1), 1).reshape(array.shape)[..., ::-1].copy() if array.ndim else array
        return self.draw.normal(size=array.shape).astype(array.dtype)

    def operators(self) -> Iterator[Mutation]:
        for path in _paths(self.model.graph):
            node = _at(self.model.graph, path)
            yield from self.operands(path, node)
            yield from self.attributes(path, node)
            for group in _SIBLINGS:
                if node.op_type in group and not node.domain:
                    for other in group:
                        if other != node.op_type:
                            model = self.copy()
                            _at(model.graph, path).op_type = other
                            yield Mutation(f"{_title(node)} as {other}", model, self.feed)

    # Operands --------------------------------------------------------------------------------------------------------

    def operands(self, path: tuple[Any, ...], node: NodeProto) -> Iterator[Mutation]:
        schema = _schema(node, self.version)
        for i, name in enumerate(node.input):
            title = f"{_title(node)}, operand {i}"
            for j in range(i + 1, len(node.input)):
                if node.input[j] and node.input[j] != name:
                    yield self.with_operand(path, {i: node.input[j], j: name}, f"{title} and {j} swapped")
            for j in range(len(node.input)):
                if j != i and node.input[j] and node.input[j] != name:
                    yield self.with_operand(path, {i: node.input[j]}, f"{title} as operand {j}")
            if not name:
                continue
            if schema is not None and len(node.input) > schema.min_input:
                yield self.with_operand(path, {i: ""}, f"{title} left out")
            if name not in self.numbers:
                continue
            array = self.numbers[name]
            yield self.with_input(path, i, self.like(array), f"{title} as an input")
            for shape in _other_shapes(array.shape) if array.size <= _LARGE else ():
                other = self.with_input(path, i, self.like(array, shape), f"{title} as an input {list(shape)}")
                yield other
                yield other._replace(title=f"{other.title}, sizes unknown", model=_without_sizes(other.model))
            others = [
                other
                for other, value in self.numbers.items()
                if other != name and value.shape == array.shape and value.dtype == array.dtype and other in self.before(path)
            ]
            for other in others[:3]:
                yield self.with_operand(path, {i: other}, f"{title} as {other}")
            if array.dtype.kind == "f":
                for factor in (1.0, 2.0, 0.5):
                    yield self.with_factor(path, i, name, np.array(factor, array.dtype), f"{title} times {factor}")
        if schema is not None and len(node.input) < schema.max_input <= 8 and node.output[0] in self.numbers:
            result = self.numbers[node.output[0]]
            channels = (
                result.shape[1:2] if node.op_type in ("Conv", "ConvTranspose", "SoftmaxCrossEntropyLoss") else result.shape[-1:]
            )
            for array in (self.like(np.resize(result, channels)), np.array(0.5, result.dtype)):
                yield self.with_input(path, len(node.input), array, f"{_title(node)} with an operand {list(array.shape)} more")

    def before(self, path: tuple[Any, ...]) -> set[str]:
        """What is there before a node"""
        main = self.model.graph
        names = {*self.feed, *(tensor.name for tensor in main.initializer)}
        return names.union(*(node.output for node in list(main.node)[: path[0]]))

    def with_operand(self, path: tuple[Any, ...], operands: dict[int, str], title: str) -> Mutation:
        model = self.copy()
        node = _at(model.graph, path)
        for i, name in operands.items():
            node.input[i] = name
        while node.input and not node.input[-1]:
            del node.input[-1]
        return Mutation(title, model, self.feed)

    def with_input(self, path: tuple[Any, ...], i: int, array: np.ndarray, title: str) -> Mutation:
        model = self.copy()
        model.graph.input.append(_info("another", array))
        node = _at(model.graph, path)
        if i < len(node.input):
            node.input[i] = "another"
        else:
            node.input.append("another")
        return Mutation(title, model, {**self.feed, "another": array})

    def with_factor(self, path: tuple[Any, ...], i: int, name: str, factor: np.ndarray, title: str) -> Mutation:
        model = self.copy()
        model.graph.initializer.append(numpy_helper.from_array(factor, "factor"))
        _at(model.graph, path).input[i] = "scaled"
        model.graph.node.insert(path[0], helper.make_node("Mul", [name, "factor"], ["scaled"]))
        return Mutation(title, model, self.feed)

    # Attributes ------------------------------------------------------------------------------------------------------

    def attributes(self, path: tuple[Any, ...], node: NodeProto) -> Iterator[Mutation]:
        schema = _schema(node, self.version)
        own = {a.name: a for a in node.attribute}
        names = dict.fromkeys([*own, *(() if schema is None else schema.attributes)])
        for name in names:
            title = f"{_title(node)}, {name}"
            if name in own:
                model = self.copy()
                changed = _at(model.graph, path)
                kept = [a for a in changed.attribute if a.name != name]
                del changed.attribute[:]
                changed.attribute.extend(kept)
                yield Mutation(f"{title} left out", model, self.feed)
            for value in self.values(node, name, own.get(name), None if schema is None else schema.attributes.get(name)):
                model = self.copy()
                changed = _at(model.graph, path)
                kept = [a for a in changed.attribute if a.name != name]
                del changed.attribute[:]
                changed.attribute.extend(
                    [*kept, value if isinstance(value, AttributeProto) else helper.make_attribute(name, value)]
                )
                shown = value.t.name if isinstance(value, AttributeProto) else value
                yield Mutation(f"{title} as {shown}", model, self.feed)

    def values(self, node: NodeProto, name: str, own: AttributeProto | None, declared: Any) -> Iterator[Any]:
        """Other values of an attribute"""
        kind = own.type if own is not None else int(declared.type.value)
        default = declared.default_value if declared is not None and declared.default_value.type else None
        present = (
            helper.get_attribute_value(own if own is not None else default) if own is not None or default is not None else None
        )
        if name in _TYPES and kind == AttributeProto.INT:
            yield from (v for v in _TAKES_TYPES if v != present)
        elif name in _FLAGS:
            yield 0 if present else 1
        elif kind == AttributeProto.INT:
            near = (0, 1, -1, 2) if present is None else (present + 1, present - 1, 0, 1, -1, 2)
            yield from (v for v in dict.fromkeys(near) if v != present)
        elif kind == AttributeProto.FLOAT:
            near = (0.5, 2.0) if present is None else (2 * present + 0.5, 0.0, 1.0, -present)
            yield from (float(v) for v in dict.fromkeys(near) if v != present)
        elif kind == AttributeProto.STRING:
            words = ("none", "sum", "mean") if name == "reduction" and "Loss" in node.op_type else _WORDS.get(name, ())
            yield from (v for v in words if present is None or v != present.decode())
        elif kind == AttributeProto.INTS:
            yield from self.lists(node, name, None if present is None else list(present))
        elif kind == AttributeProto.TENSOR and own is not None:
            for title, array in self.arrays(numpy_helper.to_array(own.t)):
                yield helper.make_attribute(name, numpy_helper.from_array(array, title))

    def lists(self, node: NodeProto, name: str, present: list[int] | None) -> Iterator[list[int]]:
        if not present:
            first = self.numbers.get(node.input[0]) if node.input else None
            space = 0 if first is None else first.ndim - 2
            if name in _PER_AXIS and space > 0:
                present = [1 if name != "output_padding" else 0] * space
            elif name == "pads" and space > 0:
                present = [0] * 2 * space
            else:
                return
            yield present
        for i in range(len(present)):
            for step in (1, -1):
                yield [v + step * (j == i) for j, v in enumerate(present)]
        for i, j in pairwise(range(len(present))):
            if present[i] != present[j]:
                swapped = list(present)
                swapped[i], swapped[j] = swapped[j], swapped[i]
                yield swapped

    # Constants -------------------------------------------------------------------------------------------------------

    def constants(self) -> Iterator[Mutation]:
        for number, tensor in enumerate(self.model.graph.initializer):
            array = numpy_helper.to_array(tensor)
            if array.size > _LARGE:
                continue
            for title, other in self.arrays(array):
                model = self.copy()
                model.graph.initializer[number].CopyFrom(numpy_helper.from_array(other, tensor.name))
                yield Mutation(f"{tensor.name} {title}", model, self.feed)
            if array.dtype.kind == "f":
                yield Mutation(
                    f"{tensor.name} as a weight", self.copy(), {**self.feed, tensor.name: self.like(array)}, (tensor.name,)
                )

    def arrays(self, array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        one = array.dtype.type(1)
        if array.dtype == bool:
            yield "inverted", ~array
            return
        yield "plus 1", array + one
        yield "less 1", array - one
        if array.dtype.kind == "f":
            yield "inverted", -array
            for value in (0.0, 0.5, 1.0, 2.0):
                if (array != value).any():
                    yield f"all {value}", np.full_like(array, value)
            yield "times 0.75", array * array.dtype.type(0.75)
        else:
            yield "doubled", array * array.dtype.type(2)
        if array.size > 1:
            for i in sorted({0, array.size // 2, array.size - 1}):
                for step in (one, -one):
                    other = array.copy()
                    other.reshape(-1)[i] += step
                    yield f"plus {step} at {i}", other
            flat = array.reshape(-1)
            if flat[0] != flat[-1]:
                yield "in reverse", np.ascontiguousarray(flat[::-1]).reshape(array.shape)
        if array.ndim == 0 and array.dtype.kind == "f":
            yield "as a vector", array.reshape(1)
        if array.shape == (1,):
            yield "as a scalar", array.reshape(())
            yield "as a matrix", array.reshape(1, 1)
        if array.ndim and array.dtype.kind == "f":
            yield "with an axis more", array[None]

    # Readers ---------------------------------------------------------------------------------------------------------

    def readers(self) -> Iterator[Mutation]:
        """Results that are returned too, or read by another operator"""
        returned = {v.name for v in self.model.graph.output}
        for node in self.model.graph.node:
            for name in node.output:
                if not name or name in returned or name not in self.numbers:
                    continue
                model = self.copy()
                model.graph.output.append(_info(name, self.numbers[name], known=False))
                yield Mutation(f"{name} is returned", model, self.feed)
                model = self.copy()
                model.graph.node.append(helper.make_node("Identity", [name], ["read too"]))
                model.graph.output.append(_info("read too", self.numbers[name], known=False))
                yield Mutation(f"{name} is read by another", model, self.feed)

    # Types and sizes -------------------------------------------------------------------------------------------------

    def types(self) -> Iterator[Mutation]:
        for number, dtype in ((TensorProto.DOUBLE, np.float64), (TensorProto.FLOAT16, np.float16)):
            model = self.copy()
            for info in (*model.graph.input, *model.graph.output):
                if info.type.tensor_type.elem_type == TensorProto.FLOAT:
                    info.type.tensor_type.elem_type = number
            for tensor in model.graph.initializer:
                _retype(tensor, dtype)
            for path in _paths(model.graph):
                for a in _at(model.graph, path).attribute:
                    if a.name in _TYPES and a.i == TensorProto.FLOAT:
                        a.i = number
                    if a.type == AttributeProto.TENSOR:
                        _retype(a.t, dtype)
            feed = {name: array.astype(dtype) if array.dtype == np.float32 else array for name, array in self.feed.items()}
            yield Mutation(f"all in {np.dtype(dtype).name}", model, feed)

    def sizes(self) -> Iterator[Mutation]:
        yield Mutation("no size is known", _without_sizes(self.model, names=True), self.feed)
        yield Mutation("no size has a name", _without_sizes(self.model), self.feed)
        model = self.copy()
        for info in (*model.graph.input, *model.graph.output):
            dims = info.type.tensor_type.shape.dim
            if len(dims):
                dims[0].dim_param = f"{info.name}_0"
        yield Mutation("no first size is known", model, self.feed)


# Messages --------------------------------------------------------------------------------------------------------------


def _paths(graph: onnx.GraphProto) -> Iterator[tuple[Any, ...]]:
    """Where nodes are: an index, or an index, the name of a body, and where in that"""
    for i, node in enumerate(graph.node):
        yield (i,)
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH:
                for inner in _paths(a.g):
                    yield (i, a.name, *inner)


def _at(graph: onnx.GraphProto, path: tuple[Any, ...]) -> NodeProto:
    node = graph.node[path[0]]
    if len(path) == 1:
        return node
    return _at(next(a.g for a in node.attribute if a.name == path[1]), path[2:])


def _title(node: NodeProto) -> str:
    return f"{node.op_type} {node.output[0] if node.output else ''}"


def _schema(node: NodeProto, version: dict[str, int]) -> Any:
    try:
        return onnx.defs.get_schema(node.op_type, version.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return None


def _info(name: str, array: np.ndarray, known: bool = True) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape if known else [None] * array.ndim)


def _other_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Shapes that broadcast to one, or to which it broadcasts"""
    single = [tuple(1 if j == i else n for j, n in enumerate(shape)) for i in range(len(shape)) if shape[i] != 1]
    wider = [tuple(3 if j == i else n for j, n in enumerate(shape)) for i in range(len(shape)) if shape[i] == 1]
    return list(
        dict.fromkeys([*single, *wider, (), (1, *shape), (2, *shape), shape[1:] if shape else (1,), tuple(reversed(shape))])
        - {shape: 0}.keys()
    )


def _without_sizes(model: ModelProto, names: bool = False) -> ModelProto:
    """A model whose inputs and outputs have no known size, and each a name of its own, or none"""
    unsized = ModelProto()
    unsized.CopyFrom(model)
    for info in (*unsized.graph.input, *unsized.graph.output):
        for number, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.Clear()
            if names:
                dim.dim_param = f"{info.name}_{number}"
    return unsized


def _retype(tensor: TensorProto, dtype: Any) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(numpy_helper.to_array(tensor).astype(dtype)), tensor.name))
