"""How many tokens of a row a model has positions for.

A table of positions is read by indices that count the tokens, or is cut to their number; behind its end onnxruntime fails in the
middle of a run, or reads what is not there.

Tests: tests/training/data/test_positions.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import dependent_operators
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import OnnxGradError
from onnxgrad.training.data.derived_inputs import DerivedInputs

__all__ = ["positions_for"]

_CACHES = {"GroupQueryAttention": 7, "RotaryEmbedding": 2}
"""The operand of these operators that holds a row of cosines for each position."""
_TOKEN = 3
"""A token that fills nothing up: RoBERTa numbers those alone."""


def positions_for(program: Program, tokens: str, steps: int) -> int:
    """Return how many of so many tokens of a row have a position: ``steps`` if all have, or if the file does not tell.

    Args:
        program: for inference.
        tokens: the input of token ids, [batch, steps].
        steps: tokens in a row.

    Example:
        >>> from onnx import parser
        >>> text = '''<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids) => (float[N, S, 1] y)
        ...     <float[4, 1] words = {0, 1, 2, 3}, float[3, 1] places = {0, 1, 2}, int64 zero = {0}, int64 one = {1}>
        ...     { a = Gather(words, input_ids) d = Shape(input_ids) s = Gather(d, one) r = Range(zero, s, one)
        ...       p = Gather(places, r) y = Add(a, p) }'''
        >>> program = onnxgrad.from_onnx(parser.parse_model(text))
        >>> positions_for(program, "input_ids", 2), positions_for(program, "input_ids", 8)
        (2, 3)
    """
    operators = program.global_block().ops
    limit = steps
    for op in operators:
        at = _CACHES.get(op.type)
        cache = op.inputs[at] if at is not None and op.domain and len(op.inputs) > at else None
        if cache is not None and cache.dims and isinstance(cache.dims[0], int) and cache.value is not None:
            limit = min(limit, cache.dims[0])
    source = next((v for v in program.inputs if v.name == tokens), None)
    if source is None:
        return limit
    derived = DerivedInputs(program)
    counted = [v for v in program.inputs if v is source or v.name in derived.names]
    lookups = [op for op in dependent_operators(operators, counted) if _is_lookup(op)]
    while lookups and limit > 1:
        try:
            found = [
                (_fitting(op, v, limit), op) for op, v in zip(lookups, _computed(program, source, lookups, limit), strict=True)
            ]
            fitting, op = min(found, key=lambda entry: entry[0])
            if not 0 < fitting < limit:
                return limit
            (fewer,) = _computed(program, source, [op], max(1, fitting - 1))
        except OnnxGradError:
            return limit  # what computes them has a limit of its own, which is said where it fails
        if max(1, fitting - 1) in fewer.shape:
            limit = fitting
        else:
            lookups.remove(op)  # it reads as many rows of any text
    return limit


def _is_lookup(op: Operator) -> bool:
    """Whether an operator reads rows of a table, or cuts it"""
    table = op.inputs[0] if op.inputs else None
    if table is None or table.value is None or not table.dims or not isinstance(table.dims[0], int) or op.domain:
        return False
    if op.type == "Gather":
        return table.is_float and not op.attrs.get("axis", 0)
    return op.type == "Slice" and len(table.dims) > 1 and len(op.inputs) > 2


def _computed(program: Program, tokens: Variable, lookups: list[Operator], steps: int) -> list[Any]:
    """The indices of tables, or what is cut from them, for a row of so many tokens"""
    derived = DerivedInputs(program)
    feed: dict[str, Any] = {tokens.name: np.full((1, steps), _TOKEN, np.int64)}
    for v in program.inputs:
        if v is not tokens and v.name not in derived.names and v.rank == 2 and v.dtype.is_integer:
            feed[v.name] = np.full((1, steps), int("mask" in v.name.lower()), np.int64)
    arrays = derived.complete(feed)
    feed = {v.name: np.asarray(arrays[v.name]).astype(v.dtype.numpy) for v in program.inputs if v.name in arrays}
    wanted = [_read_by(op) for op in lookups]
    computed = list(dict.fromkeys(v.name for v in wanted if v.name not in feed))
    values = {**feed, **dict(zip(computed, Executor().run(program, feed, computed) if computed else (), strict=True))}
    return [np.asarray(values[v.name]) for v in wanted]


def _read_by(op: Operator) -> Variable:
    v = op.inputs[1] if op.type == "Gather" else op.outputs[0]
    assert v is not None
    return v


def _fitting(op: Operator, value: Any, steps: int) -> int:
    """How many of these steps a table has a row for"""
    table = op.inputs[0]
    assert table is not None and table.dims is not None
    if op.type == "Slice":
        cut = [axis for axis, size in enumerate(value.shape) if size == table.dims[axis] and 1 < size < steps]
        changed = [axis for axis in cut if axis in _axes(op)]
        return min((int(value.shape[axis]) for axis in changed), default=steps)
    rows = int(table.dims[0])  # type: ignore[arg-type]
    if value.ndim and 1 < value.shape[-1] < steps and value.ndim <= 2:
        return int(value.shape[-1])
    over = int(value.max()) - rows + 1 if value.size else 0
    counts = value.ndim > 0 and value.shape[-1] == steps and bool((np.diff(value.reshape(-1)) > 0).all())
    return steps - over if over > 0 and counts else steps


def _axes(op: Operator) -> list[int]:
    axes = op.inputs[3] if len(op.inputs) > 3 else None
    if axes is None or axes.value is None:
        starts = op.inputs[1]
        count = starts.dims[0] if starts is not None and starts.dims else 0
        return list(range(count)) if isinstance(count, int) else []
    return [int(axis) for axis in np.asarray(axes.value.numpy()).reshape(-1)]
