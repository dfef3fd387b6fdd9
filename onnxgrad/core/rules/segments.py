"""Loops in segments: a Loop over segments, each a Loop over its iterations.

The gradient of the outer Loop records one state per segment and that of the inner one computes a segment again, so that
about 2 sqrt(n) states are held instead of n, for one more forward pass (Chen et al., "Training Deep Nets with Sublinear
Memory Cost", 2016). Asked for by a checkpoint inside the body.

Tests: tests/core/autodiff/test_loops.py.
"""

from __future__ import annotations

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.bodies import as_tuple, loop_times, move_into, write_body
from onnxgrad.core.ir.copying import copy_block
from onnxgrad.core.ir.types import BOOL_SCALAR, INDEX

_STEPS_WITHOUT_LIMIT = COSTS.count("segments.steps_without_a_limit")


def loop_in_segments(op, node, segmented):
    """Loop as a Loop over segments; its outputs"""
    operator, body = node.operator, node.attr("body")
    limit, condition, *starts = operator.inputs
    count = None if limit is None else op.Reshape(limit, np.array([], np.int64))
    size = op.constant(np.int64(_STEPS_WITHOUT_LIMIT))
    if count is not None:
        size = op.Max(op.Cast(op.Ceil(op.Sqrt(op.Cast(count, to=1))), to=7), 1)
    states = [(f"state_{k}", v.type) for k, v in enumerate(starts)]

    def segment(build, number, _, *values):
        first = build.Mul(number, size)
        steps = size if count is None else build.Min(size, build.Sub(count, first))
        inner = write_body(build, "segment", [("j", INDEX), ("c", BOOL_SCALAR), *states, ("alive", BOOL_SCALAR)], iteration(first))
        alive = values[-2]
        results = as_tuple(build.Loop(steps, None, *values[:-2], alive, outputs=len(inner.outputs) - 1, body=inner))
        *news, alive = results[: len(starts) + 1]
        stacked = results[len(starts) + 1 :]
        total = values[-1]
        if stacked:
            total = build.Add(total, build.Squeeze(build.Shape(stacked[0], start=0, end=1), [0]))
        return alive, *news, alive, total, *(_filled_up(build, v, size) for v in stacked)

    def iteration(first):
        def write(build, j, condition, *values):
            copy = copy_block(body, {}, build.block, lambda v: op.block.program.fresh_name(v.name))
            replaced = move_into(build.block, copy, [build.Add(first, j), condition, *values[:-1]])
            again, *results = [replaced.get(v, v) for v in copy.outputs]
            return again, *results[: len(starts)], again, *results[len(starts) :]

        return write

    true = op.constant(True) if condition is None else condition
    types = [("number", INDEX), ("c", BOOL_SCALAR), *states, ("alive", BOOL_SCALAR), ("total", INDEX)]
    outer = write_body(op, "segments", types, segment)
    number = None if count is None else op.Div(op.Add(count, op.Sub(size, 1)), size)
    results = as_tuple(
        op.Loop(number, condition, *starts, true, op.constant(np.int64(0)), outputs=len(outer.outputs) - 1, body=outer)
    )
    total = op.Reshape(results[len(starts) + 1], [1])
    return [*results[: len(starts)], *(_joined(op, v, total) for v in results[len(starts) + 2 :])]


def _filled_up(build, stacked, size):
    """The rows of one segment, the last repeated, so that all segments have as many"""
    last = build.Sub(build.Shape(stacked, start=0, end=1), [1])
    return build.Gather(stacked, build.Min(build.Range(0, size, 1), last), axis=0)


def _joined(op, segments, total):
    """The rows of all segments without those filled in"""
    rows = op.Mul(op.Shape(segments, start=0, end=1), op.Shape(segments, start=1, end=2))
    flat = op.Reshape(segments, op.Concat(rows, op.Shape(segments, start=2), axis=0), allowzero=1)
    return op.Slice(flat, [0], total, [0])


def scan_in_segments(op, node, segmented):
    """Scan as a Loop that will be cut into segments; its outputs"""
    operator, body, scanned = node.operator, node.attr("body"), node.attr("num_scan_inputs")
    states = len(operator.inputs) - scanned
    starts, scans = operator.inputs[:states], operator.inputs[states:]
    in_axes = node.attr("scan_input_axes") or [0] * scanned
    in_directions = node.attr("scan_input_directions") or [0] * scanned
    stacked = len(body.outputs) - states
    scans = [_reversed(op, x, axis) if backwards else x for x, axis, backwards in zip(scans, in_axes, in_directions, strict=True)]
    end = {} if in_axes[0] == -1 else {"end": in_axes[0] + 1}
    length = op.Squeeze(op.Shape(scans[0], start=in_axes[0], **end), [0])

    def step(build, i, *values):
        elements = [build.Gather(x, i, axis=axis) for x, axis in zip(scans, in_axes, strict=True)]
        copy = copy_block(body, {}, build.block, lambda v: op.block.program.fresh_name(v.name))
        replaced = move_into(build.block, copy, [*values, *elements])
        return tuple(replaced.get(v, v) for v in copy.outputs)

    outputs = loop_times(op, length, [(f"state_{k}", v) for k, v in enumerate(starts)], step)
    assert outputs[0].op is not None
    segmented.add(outputs[0].op.attrs["body"])
    out_axes = node.attr("scan_output_axes") or [0] * stacked
    out_directions = node.attr("scan_output_directions") or [0] * stacked
    results = []
    for y, axis, backwards in zip(outputs[states:], out_axes, out_directions, strict=True):
        y = _reversed(op, y, 0) if backwards else y
        results.append(_first_axis_to(op, y, axis) if axis else y)
    return [*outputs[:states], *results]


def _reversed(op, x, axis):
    return op.Slice(x, [-1], [np.iinfo(np.int64).min], [axis], [-1])


def _first_axis_to(op, y, axis):
    order = list(range(1, y.rank))
    order.insert(axis % y.rank, 0)
    return op.Transpose(y, perm=order)
