"""The operators of a model, in the form in which builds of onnxruntime for phones take them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import AttributeProto, FunctionProto, ModelProto, TensorProto
from onnx.defs import SchemaError, get_schema
from onnx.helper import make_tensor_type_proto

__all__ = ["required_operators"]

_EXPANDED = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")


def required_operators(model: ModelProto) -> str:
    """One line ``domain;version;Operator,Operator`` for each version in which operators came to be as they are.

    The option --include_ops_by_config of onnxruntime's build script reads it. Fused operators, which the optimiser puts in
    when it opens the model, are not in it: convert the model to the .ort format, whose converter lists these too.

    Args:
        model: with operators in bodies and functions, which count too.

    Example:
        >>> print(required_operators(onnxgrad.to_onnx(program)))  # doctest: +SKIP
        ai.onnx;13;Gemm
        ai.onnx;14;Relu
    """
    imported = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    operators: dict[tuple[str, int], set[str]] = {}
    nodes = [node for graph in (model.graph, *model.functions) for node in _nodes(graph)]
    nodes += [part for node in nodes if node.op_type in _EXPANDED and not node.domain for part in _body(node, imported["ai.onnx"])]
    for node in nodes:
        domain = node.domain or "ai.onnx"
        version = imported.get(domain, 1)
        try:
            version = get_schema(node.op_type, version, node.domain).since_version
        except SchemaError:
            version = 1
        operators.setdefault((domain, version), set()).add(node.op_type)
    lines = [f"{domain};{version};{','.join(sorted(names))}" for (domain, version), names in sorted(operators.items())]
    return "\n".join(lines) + "\n"


def _body(node: Any, version: int) -> Iterator[Any]:
    """Yield the operators into which onnxruntime expands a loss of scores, labels and weights"""
    element = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT)[: len(node.input)]
    types = [make_tensor_type_proto(elem_type, None).SerializeToString() for elem_type in element]
    schema: Any = get_schema(node.op_type, version)
    of = max(v for v in schema.context_dependent_function_opset_versions if v <= version)
    written = schema.get_context_dependent_function_with_opset_version(of, node.SerializeToString(), types)
    function = FunctionProto.FromString(written)
    for part in _nodes(function):
        yield part
        if part.op_type in _EXPANDED and not part.domain:
            yield from _body(part, version)


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
                yield from _nodes(body)
