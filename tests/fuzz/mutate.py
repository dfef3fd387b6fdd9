"""One mutant from a seed: a few fields of its message changed, or a few of its bytes. The same number gives the same mutant."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

__all__ = ["damaged_bytes", "mutant"]

_SMALL = (0, -1, 1, 2, 3, 5, 7, -2, 16, 64, 127, 255)
_LARGE = (2**15, 2**24, 2**31 - 1, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
_INTEGERS = (*_SMALL, *_LARGE)
_REALS = (0.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"), 0.5, 3.0)
_WORDS = ["x", "y", "no_such_name", "ai.onnx", "com.microsoft", "own", "NOTSET", "SAME_UPPER", "linear", "../x", "/etc/passwd", "é"]
_TEXTS = ("", "a" * 3000, "\0", *_WORDS)
_KEYS = ["onnxgrad.role", "onnxgrad.frozen", "onnxgrad.lora", "onnxgrad.added", "onnxgrad.program", "location", "offset", "length"]
_BAD = "\1\2BAD\3"
_REPEATED = 3


def mutant(data: bytes, seed: str) -> bytes:
    """The bytes of a damaged model."""
    draw = random.Random(seed)
    if draw.random() < 0.12:
        return damaged_bytes(bytearray(data), draw)
    model = ModelProto.FromString(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        draw.choice(_WAYS)(model, draw)
    changed: bytes = model.SerializeToString(deterministic=True)
    return changed.replace(_BAD.encode(), b"\xff\xfeBAD\xff")


def damaged_bytes(data: bytearray, draw: random.Random) -> bytes:
    for _ in range(draw.choice((1, 1, 2, 5, 20))):
        i = draw.randrange(len(data))
        way = draw.random()
        if way < 0.5:
            data[i] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256), data[i] ^ (1 << draw.randrange(8))))
        elif way < 0.65:
            del data[i : i + draw.choice((1, 2, 8, 64))]
        elif way < 0.8:
            data[i:i] = bytes(draw.randrange(256) for _ in range(draw.choice((1, 2, 8))))
        elif way < 0.9:
            j = draw.randrange(len(data))
            data[i:i] = data[j : j + draw.choice((4, 16, 64, 256))]
        else:
            del data[max(i, 4) :]
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


# Any field -----------------------------------------------------------------------------------------------------------


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.type == Field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _messages(inner)


def _any_field(model: ModelProto, draw: random.Random) -> None:
    messages = list(_messages(model))
    for _ in range(20):
        message = draw.choice(messages)
        present = [field for field, _ in message.ListFields()]
        field = draw.choice(present) if present and draw.random() < 0.8 else draw.choice(message.DESCRIPTOR.fields)
        if _change(model, message, field, draw, messages):
            return


def _change(model: ModelProto, message: Any, field: Any, draw: random.Random, messages: list[Any]) -> bool:
    if _is_repeated(message, field):
        return _change_list(model, message, field, draw, messages)
    if draw.random() < 0.25:
        message.ClearField(field.name)
        return True
    if field.type == Field.TYPE_MESSAGE:
        others = [m for m in messages if m.DESCRIPTOR is field.message_type and m is not message]
        if not others:
            getattr(message, field.name).SetInParent()
            return True
        copy = type(others[0])()
        copy.CopyFrom(draw.choice(others))
        getattr(message, field.name).CopyFrom(copy)
        return True
    value = _scalar(model, field, draw, getattr(message, field.name))
    return _set(lambda: setattr(message, field.name, value))


def _is_repeated(message: Any, field: Any) -> bool:
    return hasattr(getattr(message, field.name), "append")


def _change_list(model: ModelProto, message: Any, field: Any, draw: random.Random, messages: list[Any]) -> bool:
    items = getattr(message, field.name)
    way = draw.random()
    if len(items) and way < 0.3:
        del items[draw.randrange(len(items))]
    elif len(items) and way < 0.35:
        del items[:]
    elif field.type == Field.TYPE_MESSAGE:
        others = [m for m in messages if m.DESCRIPTOR is field.message_type]
        if not others:
            items.add()
            return True
        copy = type(others[0])()
        copy.CopyFrom(draw.choice(others))
        if len(items) and way < 0.6:
            items[draw.randrange(len(items))].CopyFrom(copy)
        else:
            items.add().CopyFrom(copy)
    elif len(items) and way < 0.75:
        i = draw.randrange(len(items))
        value = _scalar(model, field, draw, items[i])
        return _set(lambda: items.__setitem__(i, value))
    else:
        value = items[draw.randrange(len(items))] if len(items) and draw.random() < 0.5 else _scalar(model, field, draw, None)
        return _set(lambda: items.append(value))
    return True


def _set(action: Callable[[], None]) -> bool:
    """Whether the value fits the field's type"""
    try:
        action()
    except (ValueError, TypeError):
        return False
    return True


def _scalar(model: ModelProto, field: Any, draw: random.Random, old: Any) -> Any:
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return draw.choice(_REALS)
    if field.type == Field.TYPE_STRING:
        return _text(model, draw)
    if field.type == Field.TYPE_BYTES:
        return _bytes(old or b"", draw)
    if field.type == Field.TYPE_ENUM:
        return draw.choice([value.number for value in field.enum_type.values])
    if isinstance(old, int) and draw.random() < 0.4:
        return old + draw.choice((-1, 1, 2, 100))
    return draw.choice(_INTEGERS)


def _text(model: ModelProto, draw: random.Random) -> str:
    names = [name for node in model.graph.node for name in (*node.input, *node.output, node.op_type)]
    names += [v.name for v in (*model.graph.input, *model.graph.output)] + [f.name for f in model.functions]
    pool = draw.choice((names or _TEXTS, _TEXTS, _KEYS, (_BAD,)))
    return str(draw.choice(pool))


def _bytes(old: bytes, draw: random.Random) -> bytes:
    way = draw.randrange(5)
    if way == 0 or not old:
        return draw.choice((b"", b"\xff\xfe", b"reflect", b"tanh", b"SAME_LOWER", b"bij->i", b"\0" * 8))
    if way == 1:
        return old[: draw.randrange(len(old))]
    if way == 2:
        return old + old[: draw.randrange(len(old)) + 1]
    changed = bytearray(old)
    i = draw.randrange(len(old))
    if way == 3 and len(old) % 8 == 0:
        i -= i % 8
        changed[i : i + 8] = draw.choice(_INTEGERS).to_bytes(8, "little", signed=True)
    else:
        changed[i] = draw.choice((0, 0xFF, 0x80, changed[i] ^ (1 << draw.randrange(8))))
    return bytes(changed)


# What damages a model where it hurts ---------------------------------------------------------------------------------


def _graphs(model: ModelProto) -> list[GraphProto]:
    return [m for m in _messages(model) if isinstance(m, GraphProto)]


def _nodes(model: ModelProto) -> list[NodeProto]:
    return [m for m in _messages(model) if isinstance(m, NodeProto)]


def _operands(model: ModelProto, draw: random.Random) -> None:
    """Another, one more or one fewer operand or result"""
    nodes = _nodes(model)
    if not nodes:
        return
    node = draw.choice(nodes)
    names = draw.choice((node.input, node.input, node.output))
    way = draw.randrange(4)
    if way == 0 and len(names):
        del names[draw.randrange(len(names))]
    elif way == 1 and len(names):
        names[draw.randrange(len(names))] = draw.choice(("", _text(model, draw)))
    elif way == 2:
        names.append(_text(model, draw))
    elif len(names) > 1:
        names[0], names[-1] = names[-1], names[0]


def _attribute(model: ModelProto, draw: random.Random) -> None:
    """An attribute of another type, gone, of another name, or with other numbers"""
    found = [m for m in _messages(model) if isinstance(m, AttributeProto)]
    if not found:
        return
    attribute = draw.choice(found)
    way = draw.randrange(6)
    if way == 0:
        # Over a copy: the chosen one may stand inside this one.
        other = AttributeProto.FromString(draw.choice(found).SerializeToString())
        other.name = attribute.name
        attribute.CopyFrom(other)
    elif way == 1:
        attribute.type = draw.choice(AttributeProto.AttributeType.values())
    elif way == 2:
        attribute.ref_attr_name = _text(model, draw)
    elif attribute.ints:
        if way == 3:
            attribute.ints.append(draw.choice(_INTEGERS))
        else:
            attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice(_INTEGERS)
    elif attribute.HasField("i"):
        attribute.i = draw.choice(_INTEGERS)
    elif attribute.HasField("s"):
        attribute.s = _bytes(attribute.s, draw)
    elif attribute.HasField("f"):
        attribute.f = draw.choice(_REALS)


def _integers(model: ModelProto, draw: random.Random) -> None:
    """Other numbers in a tensor of integers: sizes, repeats, axes, positions"""
    found = [m for m in _messages(model) if isinstance(m, TensorProto) and m.data_type == TensorProto.INT64]
    if not found:
        return
    tensor = draw.choice(found)
    value = draw.choice(_INTEGERS)
    if tensor.int64_data:
        tensor.int64_data[draw.randrange(len(tensor.int64_data))] = value
    elif len(tensor.raw_data) >= 8:
        i = draw.randrange(len(tensor.raw_data) // 8) * 8
        tensor.raw_data = tensor.raw_data[:i] + value.to_bytes(8, "little", signed=True) + tensor.raw_data[i + 8 :]


def _dimensions(model: ModelProto, draw: random.Random) -> None:
    found = [m for m in _messages(model) if m.DESCRIPTOR.name in ("TensorProto", "SparseTensorProto") and len(m.dims)]
    if not found:
        return
    dims = draw.choice(found).dims
    way = draw.randrange(3)
    if way == 0:
        dims.append(draw.choice(_INTEGERS))
    elif way == 1:
        del dims[draw.randrange(len(dims))]
    else:
        dims[draw.randrange(len(dims))] = draw.choice(_INTEGERS)


def _kind(model: ModelProto, draw: random.Random) -> None:
    """Another operator, or the same of another opset"""
    nodes = _nodes(model)
    if draw.random() < 0.4 and model.opset_import:
        draw.choice(model.opset_import).version = draw.choice((1, 6, 7, 9, 11, 13, 17, 18, 21, 22, 24, 26, 30, *_INTEGERS))
    elif nodes:
        node, other = draw.choice(nodes), draw.choice(nodes)
        node.op_type = draw.choice((other.op_type, *_KINDS))
        if draw.random() < 0.3:
            node.domain = draw.choice((other.domain, "", "ai.onnx", "com.microsoft", "ai.onnx.ml", "own"))


_KINDS = [
    "Tile",
    "Expand",
    "Concat",
    "Gemm",
    "Conv",
    "Loop",
    "Scan",
    "If",
    "Softmax",
    "ReduceSum",
    "Slice",
    "TopK",
    "Einsum",
    "LSTM",
    "Cast",
    "Constant",
    "Range",
    "Upsample",
    "SequenceMap",
    "GridSample",
    "Attention",
]


def _functions(model: ModelProto, draw: random.Random) -> None:
    """Calls in circles, of functions that are not there, or often"""
    if not model.functions:
        return
    function, called = draw.choice(model.functions), draw.choice(model.functions)
    node = draw.choice((*model.graph.node, *function.node))
    way = draw.randrange(4)
    if way == 0:
        node.op_type, node.domain = called.name, called.domain
    elif way == 1:
        model.functions.append(function)
        model.functions[-1].name = draw.choice((function.name, function.name + "2"))
    elif way == 2 and function.node:
        function.node.append(NodeProto.FromString(draw.choice(function.node).SerializeToString()))
    else:
        function.attribute.append(draw.choice(("slope", "scale", "to", "")))


def _marks(model: ModelProto, draw: random.Random) -> None:
    """What metadata says, changed; or the same said of another node"""
    held = [m for m in _messages(model) if m.DESCRIPTOR.name == "StringStringEntryProto"]
    nodes = _nodes(model)
    if not held:
        return
    entry = draw.choice(held)
    way = draw.randrange(4)
    if way == 0 and nodes:
        draw.choice(nodes).metadata_props.add(key=entry.key, value=entry.value)
    elif way == 1:
        entry.key, entry.value = entry.key, draw.choice(held).value
    elif way == 2:
        entry.key = draw.choice(_KEYS)
    elif entry.value:
        i = draw.randrange(len(entry.value))
        entry.value = entry.value[:i] + draw.choice(("", "0", '"', "[", "9" * 400, "null", "\n", "é")) + entry.value[i + 1 :]


_WAYS: tuple[Callable[[ModelProto, random.Random], None], ...] = (
    *[_any_field] * 8,
    *[_operands] * 3,
    *[_attribute] * 3,
    *[_integers] * 2,
    _dimensions,
    _kind,
    _functions,
    _marks,
)
