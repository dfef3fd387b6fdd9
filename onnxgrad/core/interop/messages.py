"""Walk over the contents of ONNX messages, at any depth; keep fields that nobody here reads, to write them back.

Tests: tests/core/interop/test_round_trip.py, tests/core/interop/test_unread.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import AttributeProto, GraphProto, NodeProto

__all__ = ["bodies_of", "names_read", "renamed_devices", "unread"]


def bodies_of(*attributes: AttributeProto) -> Iterable[GraphProto]:
    """The graphs that attributes hold."""
    for attribute in attributes:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def names_read(node: NodeProto) -> Iterable[str]:
    """Names that a node or a body in it reads; those defined in the body are not told apart, and name nothing outside."""
    yield from node.input
    for body in bodies_of(*node.attribute):
        yield from (v.name for v in body.output)
        for inner in body.node:
            yield from names_read(inner)


# What nobody here reads -----------------------------------------------------------------------------------------------

_TENSOR = (
    "dims", "data_type", "segment", "float_data", "int32_data", "string_data", "int64_data", "name", "raw_data", "external_data",
    "data_location", "double_data", "uint64_data",
)  # fmt: skip
_READ: dict[str, frozenset[str]] = {
    "ModelProto": frozenset([
        "ir_version", "opset_import", "producer_name", "producer_version", "domain", "model_version", "doc_string", "graph",
        "metadata_props", "training_info", "functions", "configuration",
    ]),
    "GraphProto": frozenset([
        "node", "name", "initializer", "sparse_initializer", "doc_string", "input", "output", "value_info", "metadata_props",
    ]),
    "NodeProto": frozenset([
        "input", "output", "name", "op_type", "domain", "overload", "attribute", "doc_string", "metadata_props",
    ]),
    "AttributeProto": frozenset(field.name for field in AttributeProto.DESCRIPTOR.fields),
    "FunctionProto": frozenset([
        "name", "input", "output", "attribute", "attribute_proto", "node", "doc_string", "opset_import", "domain", "overload",
        "value_info", "metadata_props",
    ]),
    "ValueInfoProto": frozenset(["name", "type", "doc_string"]),
    "TensorProto": frozenset(_TENSOR),
}  # fmt: skip
"""The fields that a program has places for, by message; a newer ONNX may have others."""


@cache
def _others(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in kind.fields_by_name if name not in _READ[kind.name])


def unread(message: Any) -> bytes:
    """The fields of a message that a program has no place for, and those that this onnx does not know, as bytes to be merged."""
    rest = b""
    for name in _others(message.DESCRIPTOR):
        value = getattr(message, name)
        if len(value) if hasattr(value, "append") else message.HasField(name):
            carrier = type(message)()
            held = getattr(carrier, name)
            if hasattr(held, "append"):
                held.extend(value)
            elif hasattr(held, "CopyFrom"):
                held.CopyFrom(value)
            else:
                setattr(carrier, name, value)
            rest += carrier.SerializeToString()
    unknown = UnknownFieldSet(message)
    return rest + _encoded(unknown) if len(unknown) else rest


_VARINT, _EIGHT_BYTES, _LENGTH, _GROUP, _END, _FOUR_BYTES = range(6)
"""How the wire format writes a value (protobuf's encoding)."""


def _encoded(fields: Any) -> bytes:
    """Unknown fields as they came"""
    written = b""
    for field in fields:
        number, way = field.field_number << 3, field.wire_type
        written += _varint(number | way)
        if way == _VARINT:
            written += _varint(field.data)
        elif way in (_EIGHT_BYTES, _FOUR_BYTES):
            written += field.data.to_bytes(8 if way == _EIGHT_BYTES else 4, "little")
        elif way == _LENGTH:
            written += _varint(len(field.data)) + field.data
        else:
            written += _encoded(field.data) + _varint(number | _END)
    return written


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def renamed_devices(node: NodeProto, present: Mapping[str, str]) -> None:
    """Let the device configurations of a node name its tensors as they are called now.

    Args:
        node: with the configurations of the file.
        present: the names of operands and results, by those that they had there; others have no configuration any more.
    """
    for configuration in node.device_configurations:
        kept = [spec for spec in configuration.sharding_spec if not spec.tensor_name or present.get(spec.tensor_name)]
        for spec in kept:
            spec.tensor_name = present.get(spec.tensor_name, "")
        if len(kept) < len(configuration.sharding_spec):
            copies = [type(spec).FromString(spec.SerializeToString()) for spec in kept]
            del configuration.sharding_spec[:]
            configuration.sharding_spec.extend(copies)
