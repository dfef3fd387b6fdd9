"""Walk over the contents of ONNX messages, at any depth.

Tests: tests/core/interop/test_round_trip.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import AttributeProto, GraphProto, NodeProto

__all__ = ["bodies_of", "names_read"]


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
