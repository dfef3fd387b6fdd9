"""Einsum, every equation: the gradient of one operand is an Einsum of the incoming gradient with the other operands.

In terms, one character stands for one axis; '.' stands for an ellipsis whose number of axes is not known.

Tests: tests/core/rules/test_gradients.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.equation import parse_equation
from onnxgrad.core.ir.types import same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.registry import gradient


@gradient("Einsum", broadcasts=True)
def einsum(op, node, gz):
    """gx_i = Einsum of gz with the other operands, to the indices of x_i; only on the diagonal of repeated ones"""
    ranks = [x.rank for x in node.inputs]
    terms, output = parse_equation(node.attr("equation"), ranks, node.outputs[0].rank)
    return tuple(_of_operand(op, node, gz, terms, output, i) if node.wants(i) else None for i in range(len(terms)))


def _of_operand(op: Builder, node: Any, gz: Variable, terms: list[str], output: str, i: int) -> Variable:
    """The gradient of one operand"""
    x, term = node.inputs[i], terms[i]
    others = [(t, v) for j, (t, v) in enumerate(zip(terms, node.inputs, strict=True)) if j != i]
    sources = output + "".join(t for t, _ in others)
    kept = "".join(letter for letter in dict.fromkeys(term) if letter in sources)
    g = _product(op, [(output, gz), *others], kept)
    if "." in term and "." not in sources:
        before = sum(letter in kept for letter in dict.fromkeys(term[: term.index(".")]))
        g = op.Unsqueeze(g, op.Range(before, op.Add(_ellipsis_length(op, term, x), before), 1))
    absent = [p for p, letter in enumerate(term) if letter != "." and (letter not in sources or letter in term[:p])]
    if absent:
        g = op.Unsqueeze(g, _counted_from_end(term, absent))
    for position in absent:
        first = term.index(term[position])
        if first != position:
            g = op.Where(_diagonal(op, x, term, first, position), g, 0.0)
    lost = any(letter not in sources and term.count(letter) == 1 for letter in term)
    return op.Expand(g, op.Shape(x)) if lost or _may_be_narrow(x, term, output, others) else g


def _product(op: Builder, factors: Any, kept: str) -> Any:
    """Einsum of the factors to the indices ``kept``; an ellipsis that these lack is summed away"""
    inputs = [term for term, _ in factors]
    if inputs == [kept]:
        return factors[0][1]
    unwanted = "." if "." in "".join(inputs) and "." not in kept else ""
    equation = (",".join(inputs) + "->" + unwanted + kept).replace(".", "...")
    g = op.Einsum(*(v for _, v in factors), equation=equation)
    if not unwanted:
        return g
    lead = op.Range(0, op.Sub(op.Size(op.Shape(g)), len(kept)), 1)
    return op.ReduceSum(g, lead, keepdims=0, noop_with_empty_axes=1)


def _may_be_narrow(x: Variable, term: str, output: str, others: Any) -> bool:
    """Return whether x may be longer, along an index that is summed, than all operands that the gradient reads"""
    for position, letter in enumerate(term):
        if letter in output:
            continue
        if letter == ".":
            return True
        dim = x.dims[position - len(term)] if x.dims is not None and "." not in term[position:] else None
        rivals = [v.dims[t.index(letter)] if v.dims is not None and "." not in t else None for t, v in others if letter in t]
        if rivals and dim != 1 and not any(same_dim(dim, rival) or (isinstance(rival, int) and rival > 1) for rival in rivals):
            return True
    return False


def _diagonal(op: Builder, x: Variable, term: str, first: int, second: int) -> Variable:
    """Whether the indices along two axes of x are equal, shaped to broadcast against it"""
    behind = [len(term) - 1 - position for position in (first, second)]
    size = x.dims[second] if x.dims is not None and "." not in term else None
    if isinstance(size, int):
        columns, rows = (np.arange(size).reshape([-1] + [1] * count) for count in behind)
        return op.constant(columns == rows)
    axis = second - len(term) if "." in term[:second] else second
    positions = op.Range(0, op.Gather(op.Shape(x), axis), 1)
    return op.Equal(*(_followed_by_ones(op, positions, x, term[p + 1 :], term) for p in (first, second)))


def _followed_by_ones(op: Builder, positions: Variable, x: Variable, rest: str, term: str) -> Variable:
    """A vector with one axis of size 1 added for each index in ``rest``"""
    if "." not in rest:
        return op.Unsqueeze(positions, list(range(1, len(rest) + 1)))
    return op.Unsqueeze(positions, op.Range(1, op.Add(_ellipsis_length(op, term, x), len(rest)), 1))


def _ellipsis_length(op, term, x):
    """Number of axes for which the ellipsis of a term stands, a scalar"""
    return op.Sub(op.Size(op.Shape(x)), len(term) - 1)


def _counted_from_end(term: str, positions: list[int]) -> list[int]:
    """Axes as onnx counts them when an ellipsis of unknown length may come first"""
    ellipsis = term.find(".")
    return [p - len(term) if 0 <= ellipsis < p else p for p in positions]
