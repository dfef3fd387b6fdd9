"""Sums with a scaled tensor as one operator: x + s y, for tensors of one row, is Gemm([[s]], y, x).

An optimizer's chain is bound by how often it goes over memory. Mul and Add go over it twice; onnxruntime's product of one number
by a row copies x and adds to the copy, which takes three quarters of their time. On x86 it multiplies and adds in two roundings,
as they do, so that results are equal to the bit; other processors may round once.

Tests: tests/core/graph_passes/test_scaled_sums.py.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.rewriting import Links, rewrite_operators
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable

__all__ = ["SCALED_SUMS", "is_single", "number_of", "read_twice", "scaled_addend"]


def is_single(v: Variable) -> bool:
    """Return whether a variable is one number that broadcasts"""
    return v.static_shape in ((), (1,))


def scaled_addend(op: Operator, needed: Collection[Variable]) -> tuple[Variable, Variable, Variable] | None:
    """The number s, the tensor y and the other operand x of a sum x + s y, or of a difference x - s y; None for any other operator.

    Args:
        needed: variables that are read elsewhere, so that s y has to be computed anyway.
    """
    if op.type not in ("Add", "Sub") or op.domain:
        return None
    x, scaled = op.inputs
    for other, product in ((x, scaled), (scaled, x))[: 1 if op.type == "Sub" else 2]:
        made = None if product is None else product.op
        if product is None or other is None or made is None or made.type != "Mul" or made.domain or product in needed:
            continue
        a, b = made.inputs
        if a is None or b is None or other.dtype.name != "float32" or is_single(other) or is_single(a) == is_single(b):
            continue
        return (a, b, other) if is_single(a) else (b, a, other)
    return None


def read_twice(links: Links) -> set[Variable]:
    """The variables that are read more than once, or returned."""
    return {v for v, readers in links.readers.items() if len(readers) > 1} | links.returned


def number_of(build: Builder, op: Operator, s: Variable) -> Variable:
    """The factor of a scaled addend as a matrix of one element, negative for a difference."""
    if s.value is not None and not s.persistable:
        number = s.value.numpy().reshape(1, 1)
        return build.constant(-number if op.type == "Sub" else number)
    computed = build.Reshape(s, [1, 1])
    return build.Neg(computed) if op.type == "Sub" else computed


def _write_sums(graph: Graph, target: Target) -> int:
    """Write the sums of a graph whose tensors are numbers and tensors of one shape as products, and these tensors as one row."""
    links = Links(graph)
    needed = read_twice(links)
    if not any(scaled_addend(op, needed) for op in graph.operators):
        return 0
    bound = {*graph.inputs, *links.returned}
    for v in dict.fromkeys([*graph.inputs, *(v for op in graph.operators for v in op.outputs if v is not None)]):
        shape = v.static_shape
        if shape is not None and not is_single(v):
            if v in bound:
                graph.own_shapes[v] = shape
            v.type, v.declared = TensorType(v.dtype, (1, prod(shape))), None

    def product(build: Any, op: Operator) -> list[Variable | None] | None:
        addend = scaled_addend(op, needed)
        if addend is None:
            return None
        s, y, x = addend
        return [build.Gemm(number_of(build, op, s), y, x)]

    return rewrite_operators(graph, {"Add": product, "Sub": product})


SCALED_SUMS = Pass("scaled_sums", _write_sums, rounding="order", gain=CPU_FORMS)
"""For a graph that is run a piece of its tensors at a time."""
