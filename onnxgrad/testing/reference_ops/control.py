"""Control flow and sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_loop import Loop as _PlainLoop
from onnx.reference.ops.op_scan import Scan as _PlainScan

from onnxgrad.testing.reference_ops.registry import corrected


@corrected
class Scan(_PlainScan):
    """Directions and axes are not implemented: flip the inputs and outputs instead."""

    def __init__(self, onnx_node: Any, run_params: Any) -> None:
        plain = NodeProto()
        plain.CopyFrom(onnx_node)
        del plain.attribute[:]
        self.layout: dict[str, list[int]] = {}
        for attribute in onnx_node.attribute:
            if attribute.name.startswith("scan_"):
                self.layout[attribute.name] = list(attribute.ints)
            else:
                plain.attribute.append(attribute)
        super().__init__(plain, run_params)

    def _flipped(self, x: Any, kind: str, index: int, back: bool) -> Any:
        axes, directions = (self.layout.get(f"scan_{kind}_{name}", []) for name in ("axes", "directions"))
        axis = axes[index] if index < len(axes) else 0
        x = x if back else np.moveaxis(x, axis, 0)
        x = np.flip(x, 0) if index < len(directions) and directions[index] else x
        return np.moveaxis(x, 0, axis) if back else x

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        for name in ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"):
            kwargs[name] = None
        states = len(args) - self.num_scan_inputs
        flipped = [self._flipped(x, "input", i, False) for i, x in enumerate(args[states:])]
        results = super()._run(*args[:states], *flipped, **kwargs)
        stacked = [self._flipped(y, "output", i, True) for i, y in enumerate(results[states:])]
        return (*results[:states], *stacked)


@corrected
class Loop(_PlainLoop):
    """An absent condition runs no iteration; stacked scalars get an axis too many; no iteration at all raises."""

    def _run(self, count, condition, *states, context=None, body=None, attributes=None, bindings=None):
        names, results = body.input_names, list(states)
        stacked: list[list[Any]] = [[] for _ in range(len(body.output_names) - 1 - len(states))]
        alive, i = condition is None or bool(condition), 0
        while alive and (count is None or i < int(np.asarray(count).item())):
            arguments = dict(zip(names, [np.array(i, np.int64), np.array(alive), *results], strict=True))
            again, *found = self._run_body({**(context or {}), **arguments}, attributes=attributes, bindings=bindings)
            results, alive, i = found[: len(states)], bool(again), i + 1
            for values, value in zip(stacked, found[len(states) :], strict=True):
                values.append(value)
        types = body.output_types[1 + len(states) :]
        return (*results, *(np.stack(v) if v else _no_rows(t) for v, t in zip(stacked, types, strict=True)))


def _no_rows(type: Any) -> Any:
    """What a stacked output is after no iteration."""
    tensor = type.tensor_type
    return np.zeros((0, *(dim.dim_value for dim in tensor.shape.dim)), tensor_dtype_to_np_dtype(tensor.elem_type))


@corrected
class SequenceInsert(OpRun):
    """A position at the end is taken for the front."""

    def _run(self, sequence, tensor, position=None):
        items = list(sequence)
        index = len(items) if position is None else int(np.asarray(position).item())
        items.insert(index, tensor)
        return (items,)


@corrected
class Optional(OpRun):
    """Wraps its value in a list, which the next operator takes for a sequence."""

    def _run(self, x=None, type=None):
        return (x,)


@corrected
class SequenceMap(OpRun):
    """The body does not see the values around it."""

    def need_context(self) -> bool:
        return True

    def _run(self, first, *others, body=None, context=None, attributes=None):
        results = []
        for i, element in enumerate(first):
            given = [element, *(other[i] if isinstance(other, list) else other for other in others)]
            feeds = {**(context or {}), **dict(zip(body.input_names, given, strict=True))}
            results.append(body.run(None, feeds, attributes=attributes or {}))
        return tuple([list(values) for values in zip(*results, strict=True)] if results else [[] for _ in body.output_names])
