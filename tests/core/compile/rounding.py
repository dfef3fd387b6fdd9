"""What a graph computes in float64, and how large the terms of each result are: what the rounding of a pass is measured in.

A pass that adds in another order promises results within 16 eps times the sum of the absolute values of the terms. ``evaluated`` finds
both: it runs a graph node by node on the reference evaluator in float64, and carries for each tensor its numbers and their sizes. What
is put in is exact, of size 0. The size of a result has two parts. Its own is the sum of the absolute values of the terms of a linear
operator, and of another one the result and by how much it moves when an operand moves by all of itself, to first order. The other is
what the sizes of the operands come to in the result, by the absolute values of the factors or by the slope. Parts are put together as
the root of the sum of their squares, as rounding errors have either sign: added up, a net of twenty layers would be allowed any
result, each layer taking the errors of the one before times the number of its terms. So the bound is that of the contract for one
operator, and a stricter one for many.

Slopes are finite differences: by each operand for elementwise operators, by a few patterns of signs for others, which finds at most
what is there. Integers and booleans have no size, but may be undecided: a comparison of numbers closer than they may be rounded goes
either way, so what follows from it cannot be compared. Two numbers that are equal in float64 are taken for one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnxgrad.core.graph.contract import ORDER
from onnxgrad.core.ir import traits
from onnxgrad.testing.reference_ops import CORRECTED

Array = np.ndarray[Any, Any]
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
UNDECIDED = 1e120
"""The size of an element that follows from a decision within rounding; larger sizes than 1e100 are taken for it."""
_STEPS = (1e-7, 1e-4)
"""Least and most of its size that an operand is moved by to find a slope; between, it is by what it may be rounded."""
_PATTERNS = 3
"""Of random signs, and one of equal signs."""

_POSITIVE = {
    "Add", "AveragePool", "Col2Im", "Conv", "ConvTranspose", "CumSum", "DequantizeLinear", "Einsum", "Gemm", "GlobalAveragePool",
    "MatMul", "Mean", "Mul", "Neg", "ReduceMean", "ReduceSum", "Sub", "Sum",
}  # fmt: skip
"""Linear operators whose factors are other operands, or not negative; of Sub, Neg and DequantizeLinear after their sign is dropped."""
_SEQUENCES = {
    "ConcatFromSequence", "Optional", "OptionalGetElement", "SequenceAt", "SequenceConstruct", "SequenceErase", "SequenceInsert",
    "SplitToSequence",
}  # fmt: skip
"""What moves tensors into sequences and out of them."""
_JUMPS = {"Ceil", "Floor", "Hardmax", "Mod", "Round", "Shrink", "Sign", "ThresholdedRelu"}
"""Real numbers that jump where an operand passes a number; between, the slope is at most 1 or the quotient."""


class Sized(NamedTuple):
    """A tensor, or the tensors of a sequence, with the size of each element"""

    value: Any
    size: Any


class Exact(NamedTuple):
    """What a graph computes in float64.

    Attributes:
        outputs: by name.
        eps: of the coarsest type of real numbers in the graph.
    """

    outputs: dict[str, Sized]
    eps: float


# Evaluating ------------------------------------------------------------------------------------------------------------


def evaluated(model: ModelProto, feed: dict[str, Array], marks: bool = False) -> Exact:
    """Run a model in float64 and find the size of each element of its outputs.

    Args:
        marks: whether the size of what follows from a decision within rounding is ``UNDECIDED``, not that of the branch that is taken.
    """
    eps = _coarsest(model)
    known: Any = [*CORRECTED]
    evaluator = ReferenceEvaluator(_in_float64(model), new_ops=known)
    fed = {name: _leaf(_wide(np.asarray(array))) for name, array in feed.items()}
    with np.errstate(all="ignore"):
        outputs = _Walk(eps, marks).run(evaluator, fed)
    return Exact(dict(zip(evaluator.output_names, outputs, strict=True)), eps)


class _Walk:
    """Goes through graphs and their bodies."""

    def __init__(self, eps: float, marks: bool) -> None:
        self.marks = marks
        self.reach = ORDER * eps
        self.step = float(np.clip(self.reach, *_STEPS))
        self.draw = np.random.default_rng(3)

    def run(self, graph: Any, known: dict[str, Sized]) -> list[Sized]:
        results: dict[str, Any] = {"": None, **known}
        results.update((name, _leaf(array)) for name, array in graph.rt_inits_.items() if name not in known)
        for node in graph.rt_nodes_:
            operands = [results[name] for name in node.input]
            for name, result in zip(node.output, self.node(node, operands, results), strict=False):
                results[name] = result
        return [results[name] for name in graph.output_names]

    def node(self, node: Any, operands: list[Any], around: dict[str, Any]) -> Sequence[Sized]:
        kind = node.onnx_node.op_type if not node.onnx_node.domain else ""
        if kind == "If":
            return self.run(node.then_branch if bool(np.all(operands[0].value)) else node.else_branch, around)
        if kind == "Loop":
            return self.loop(node, operands, around)
        if kind == "Scan":
            return self.scan(node, operands, around)
        if kind == "SequenceMap":
            return self.map(node, operands, around)
        context = {name: x.value for name, x in around.items() if x is not None} if node.need_context() else None

        def compute(values: Sequence[Any]) -> Any:
            return node.run(*values) if context is None else node.run(*values, context=context)

        values = [None if x is None else x.value for x in operands]
        found = compute(values)
        if kind in _SEQUENCES or (kind == "Identity" and isinstance(values[0], list)):
            # Positions and lengths are read as they are.
            sized = [x if x is None or _is_index(kind, i) else x.size for i, x in enumerate(operands)]
            return list(map(Sized, found, compute([x.value if isinstance(x, Sized) else x for x in sized])))
        if any(isinstance(x, list) for x in (*values, *found)):
            return [Sized(y, _nothing(y)) for y in found]
        found = [np.asarray(y) for y in found]
        for y in found:
            assert y.dtype.kind != "f" or y.dtype == np.float64, f"{node.onnx_node.op_type} computes in {y.dtype}"
        sizes = self.sizes(kind, node, compute, operands, found)
        # Infinities and what is no number are compared as they are.
        return [
            Sized(y, np.where(np.isfinite(y) if y.dtype.kind == "f" else True, size, 0.0))
            for y, size in zip(found, sizes, strict=True)
        ]

    # Bodies

    def loop(self, node: Any, operands: list[Any], around: dict[str, Any]) -> list[Sized]:
        count, condition, *states = operands
        body = node.body
        stacked: list[list[Sized]] = [[] for _ in body.output_names[1 + len(states) :]]
        alive, i = condition is None or bool(np.all(condition.value)), 0
        while alive and (count is None or i < int(count.value.reshape(()))):
            arguments = [_leaf(np.array(i)), _leaf(np.array(alive)), *states]
            again, *found = self.run(body, {**around, **dict(zip(body.input_names, arguments, strict=True))})
            alive, states, i = bool(np.all(again.value)), found[: len(states)], i + 1
            for rows, row in zip(stacked, found[len(states) :], strict=True):
                rows.append(row)
        if not all(stacked):
            context = {name: x.value for name, x in around.items() if x is not None}
            rows_of = node.run(*(None if x is None else x.value for x in operands), context=context)[len(states) :]
            return [*states, *map(_leaf, rows_of)]
        return [*states, *map(_stack, stacked)]

    def scan(self, node: Any, operands: list[Any], around: dict[str, Any]) -> list[Sized]:
        body, number = node.body, node.num_scan_inputs
        states, read = operands[: len(operands) - number], operands[len(operands) - number :]
        read = [Sized(*(node._flipped(part, "input", i, False) for part in x)) for i, x in enumerate(read)]
        stacked: list[list[Sized]] = [[] for _ in body.output_names[len(states) :]]
        for i in range(len(read[0].value)):
            arguments = [*states, *(Sized(x.value[i], x.size[i]) for x in read)]
            found = self.run(body, {**around, **dict(zip(body.input_names, arguments, strict=True))})
            states = found[: len(states)]
            for rows, row in zip(stacked, found[len(states) :], strict=True):
                rows.append(row)
        results = map(_stack, stacked)
        return [*states, *(Sized(*(node._flipped(part, "output", i, True) for part in y)) for i, y in enumerate(results))]

    def map(self, node: Any, operands: list[Any], around: dict[str, Any]) -> list[Sized]:
        rows = []
        for i in range(len(operands[0].value)):
            arguments = [Sized(x.value[i], x.size[i]) if isinstance(x.value, list) else x for x in operands]
            rows.append(self.run(node.body, {**around, **dict(zip(node.body.input_names, arguments, strict=True))}))
        columns = list(zip(*rows, strict=True)) or [[] for _ in node.body.output_names]
        return [Sized([x.value for x in column], [x.size for x in column]) for column in columns]

    # Operators

    def sizes(self, kind: str, node: Any, compute: Any, operands: list[Any], found: list[Array]) -> list[Array]:
        """The size of each element of the results of a standard operator, or, without a kind, of another one"""
        present = [x for x in operands if x is not None]
        if kind in traits.RANDOM and not (kind == "Dropout" and np.array_equal(found[0], operands[0].value)):
            return [np.full(y.shape, UNDECIDED) for y in found]
        if kind in traits.READS_SHAPES or kind in ("Constant", "ConstantOfShape"):
            return [_nothing(y) for y in found]
        if not any(x.value.size and (_is_float(x) or x.size.any()) for x in present):
            return [_own(y) for y in found]
        if not self.marks and all(y.dtype.kind != "f" for y in found):
            return [_nothing(y) for y in found]
        if kind in traits.COMPARES:
            return [self.compared(kind, operands, found[0])]
        if kind == "Where":
            return [self.chosen(*operands)]
        attributes = self.attributes(node)
        groups = traits.linear_in(kind, attributes, len(operands))
        if kind in traits.MOVES and groups and attributes.get("reduction") != "mul":
            return self.moved(compute, operands, groups[0], found, adds=attributes.get("reduction") == "add")
        if kind in traits.ELEMENTWISE and kind not in _POSITIVE:
            return [self.elementwise(kind, compute, operands, found[0])]
        undecided = any((x.size >= UNDECIDED).any() for x in present if not _is_float(x))
        if undecided:
            if kind in traits.ELEMENTWISE:
                lost = _broadcast([x.size for x in present], found[0].shape)
                return [np.where(lost >= UNDECIDED, UNDECIDED, _own(found[0]))]
            return [np.full(y.shape, UNDECIDED) for y in found]
        if kind in _POSITIVE and groups and found[0].dtype.kind == "f":
            return [_clamped(self.added(kind, node, compute, operands, groups))]
        if kind in ("DFT", "STFT"):
            return [_clamped(self.transformed(kind, node, compute, operands, found[0]))]
        if kind in ("Resize", "Upsample"):
            # Where the result is read from is found as it stands, and so is its shape.
            places = [None if x is None else x.value for x in operands[1:]]
            return self.probed(lambda values: compute([values[0], *places]), operands, found)
        return self.probed(compute, operands, found)

    @staticmethod
    def attributes(node: Any) -> dict[str, Any]:
        return {a.name: helper.get_attribute_value(a) for a in node.onnx_node.attribute if a.type != AttributeProto.GRAPH} | {
            a.name: a.s.decode() for a in node.onnx_node.attribute if a.type == AttributeProto.STRING
        }

    def compared(self, kind: str, operands: list[Sized], found: Array) -> Array:
        """A comparison is undecided where the numbers differ by less than they may be rounded"""
        if len(operands) < 2:
            return _broadcast([np.where(x.size >= UNDECIDED, UNDECIDED, 0.0) for x in operands], found.shape)
        a, b = operands
        apart = np.abs(a.value.astype(np.float64) - b.value)
        close = (apart > 0) & (apart < self.reach * (a.size + b.size))
        return np.where(close | (np.maximum(a.size, b.size) >= UNDECIDED), UNDECIDED, 0.0)

    @staticmethod
    def chosen(condition: Sized, x: Sized, y: Sized) -> Array:
        size = np.where(condition.value, x.size, y.size)
        open_ = (condition.size >= UNDECIDED) & ((x.value != y.value) | (x.size != y.size))
        return np.where(open_, UNDECIDED, size)

    @staticmethod
    def moved(compute: Any, operands: list[Any], data: tuple[int, ...], found: list[Array], adds: bool) -> list[Array]:
        """Sizes are moved like numbers; those that are added to others have terms of their own"""
        if any((x.size >= UNDECIDED).any() for i, x in enumerate(operands) if x is not None and i not in data and not _is_float(x)):
            return [np.full(y.shape, UNDECIDED) for y in found]

        def of(part: Any) -> Any:
            return compute([None if x is None else part(x) if i in data else x.value for i, x in enumerate(operands)])

        sizes = [np.asarray(size, np.float64) for size in of(lambda x: x.size)]
        if adds:
            sizes = [np.hypot(size, own) for size, own in zip(sizes, of(lambda x: np.abs(x.value)), strict=True)]
        return [_clamped(size) for size in sizes]

    def elementwise(self, kind: str, compute: Any, operands: list[Any], found: Array) -> Array:
        """The result, and by how much it moves with each operand"""
        real = found.dtype.kind == "f"
        square, step = _own(found) ** 2, self.step if real else self.reach
        lost = np.zeros(found.shape, bool)
        values = [None if x is None else x.value for x in operands]

        def ends(i: int, step: float, by: Array) -> list[Array]:
            return [np.asarray(compute([*values[:i], values[i] + s * step * by, *values[i + 1 :]])[0]) for s in (1, -1)]

        for i, x in enumerate(operands):
            if x is None or (kind == "CastLike" and i):
                continue
            lost |= np.broadcast_to(x.size >= UNDECIDED, found.shape)
            if not _is_float(x):
                continue
            size = np.where(x.size >= UNDECIDED, 0.0, x.size)
            if kind == "Pow" and i == 1 and not size.any():
                continue  # An exact exponent; another one has no power of a negative number.
            if not real:
                up, down = ends(i, step, size)
                lost |= (up != found) | (down != found)
                continue
            square = square + _slope(ends(i, step, _all_of(x.value, size)), found, step) ** 2
            if kind in _JUMPS and self.marks:
                steepest = 1.0 if i == 0 else 2.0 + np.abs(values[0] / values[1])
                lost |= _slope(ends(i, self.reach, size), found, self.reach) > 2.0 * steepest * np.broadcast_to(size, found.shape)
        return _clamped(np.where(lost, UNDECIDED, np.sqrt(square)))

    @staticmethod
    def added(kind: str, node: Any, compute: Any, operands: list[Any], groups: traits.Groups) -> Array:
        """The sum of the absolute values of the terms, and the sizes of each factor times the others"""
        if kind == "Neg":
            return np.asarray(operands[0].size)
        if kind == "Sub":
            a, b = operands
            return _root(np.abs(a.value) + np.abs(b.value), a.size, b.size)
        signed = {name: getattr(node, name) for name in ("alpha", "beta") if kind == "Gemm"}

        def applied(power: int, sized: tuple[int, ...] = ()) -> Array:
            """To absolute values or their squares, in some operands of sizes"""
            for name, value in signed.items():
                setattr(node, name, abs(value) ** power)
            parts = [
                x if x is None else x.size if i in sized else np.abs(x.value) if _is_float(x) else x.value
                for i, x in enumerate(operands)
            ]
            powers = [x if x is None or not _is_float(operands[i]) else x**power for i, x in enumerate(parts)]
            # The numbers of DequantizeLinear, which are multiplied by the scale, may be negative.
            return np.abs(compute(powers)[0])

        total = applied(1) ** 2
        counted: set[int] = set()
        for group in groups:
            sized = tuple(i for i in group if operands[i] is not None)
            if any(operands[i].size.any() for i in sized):
                total = total + applied(2, sized)
            counted.update(group)
        for name, value in signed.items():
            setattr(node, name, value)
        return np.sqrt(total)

    def transformed(self, kind: str, node: Any, compute: Any, operands: list[Any], found: Array) -> Array:
        """Sums over frequency 0, as every other factor is a complex number of absolute value 1 too, rounded where it is 0"""
        sizes = [None if x is None else _all_of(x.value, x.size) if _is_float(x) else x.value for x in operands]
        if kind == "STFT":
            axis = 2
        else:
            given = operands[2] if len(operands) > 2 else None
            axis = (
                -2
                if given is None and getattr(node, "axis", None) is None
                else node.axis
                if given is None
                else int(given.value.reshape(()))
            )
            pair = sizes[0].shape[-1] == 2
            total = sizes[0].sum(axis=-1, keepdims=True)
            sizes[0] = np.concatenate([total, np.zeros_like(total)], axis=-1) if pair else total
        sums = np.abs(compute(sizes)[0])
        return np.broadcast_to(sums.max(axis=(axis % found.ndim, found.ndim - 1), keepdims=True), found.shape)

    def probed(self, compute: Any, operands: list[Any], found: list[Array]) -> list[Array]:
        """The results, and by how much they move when all operands move at once by patterns of signs"""
        if any((x.size >= UNDECIDED).any() for x in operands if x is not None):
            return [np.full(y.shape, UNDECIDED) for y in found]
        moves = [np.zeros(y.shape) for y in found]
        for pattern in range(1 + _PATTERNS):
            signs = [None if x is None else self.draw.choice((-1.0, 1.0), x.value.shape) if pattern else 1.0 for x in operands]
            ends = [self.moved_by(compute, operands, signs, step) for step in (self.step, -self.step)]
            far = [self.moved_by(compute, operands, signs, step) for step in (self.reach, -self.reach)] if self.marks else []
            for i, y in enumerate(found):
                if any(end[i].shape != y.shape for end in (*ends, *far)):
                    moves[i][...] = UNDECIDED
                elif y.dtype.kind == "f":
                    moves[i] = np.maximum(moves[i], _slope([end[i] for end in ends], y, self.step))
                elif far:
                    moves[i][(far[0][i] != y) | (far[1][i] != y)] = UNDECIDED
        return [_clamped(np.hypot(_own(y), move)) for y, move in zip(found, moves, strict=True)]

    @staticmethod
    def moved_by(compute: Any, operands: list[Any], signs: list[Any], step: float) -> list[Array]:
        pairs = zip(operands, signs, strict=True)
        moved = [
            None if x is None else x.value + s * step * _all_of(x.value, x.size) if _is_float(x) else x.value for x, s in pairs
        ]
        return [np.asarray(y) for y in compute(moved)]


def _is_float(x: Sized) -> bool:
    return not isinstance(x.value, list) and x.value.dtype == np.float64


def _is_index(kind: str, i: int) -> bool:
    return i == (2 if kind == "SequenceInsert" else 1) and kind != "SequenceConstruct"


def _nothing(y: Any) -> Any:
    """The size of what is exact"""
    return [_nothing(x) for x in y] if isinstance(y, list) else np.zeros(y.shape)


def _own(y: Array) -> Array:
    """The size of what is rounded once"""
    return np.abs(y) if y.dtype.kind == "f" else np.zeros(y.shape)


def _all_of(value: Array, size: Array) -> Array:
    """By what an operand is moved: by all of itself, and its size"""
    return np.where(np.isfinite(value), np.hypot(value, size), 0.0)


def _leaf(array: Any) -> Sized:
    return Sized(array, _nothing(array))


def _stack(rows: list[Sized]) -> Sized:
    return Sized(np.stack([x.value for x in rows]), np.stack([x.size for x in rows]))


def _root(*parts: Array) -> Array:
    return np.asarray(np.sqrt(sum(part**2 for part in parts)))


def _clamped(size: Array) -> Array:
    return np.where(size > 1e100, UNDECIDED, size)


def _broadcast(sizes: list[Array], shape: tuple[int, ...]) -> Array:
    total = np.zeros(shape)
    for size in sizes:
        total = np.maximum(total, np.broadcast_to(size, shape))
    return total


def _slope(ends: list[Array], found: Array, step: float) -> Array:
    """By how much a result moves, the larger of both directions; of a result that is no number on one side only the other counts"""
    moves = [np.where(end == found, 0.0, np.abs(end - found)) / step for end in ends]
    there = ~np.isnan(found)
    both_lost = np.isnan(moves[0]) & np.isnan(moves[1]) & there
    return np.where(both_lost, UNDECIDED, np.fmax(np.nan_to_num(moves[0]), np.nan_to_num(moves[1])))


# In float64 ------------------------------------------------------------------------------------------------------------


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16 else array


def _coarsest(model: ModelProto) -> float:
    """The eps of the coarsest type among inputs, constants and outputs, and of what is cast to"""
    kinds = {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)}
    kinds |= {t.data_type for t in model.graph.initializer}
    kinds |= {a.i for node in model.graph.node if node.op_type == "Cast" for a in node.attribute if a.name == "to"}
    eps = {
        TensorProto.DOUBLE: float(np.finfo(np.float64).eps),
        TensorProto.FLOAT: float(np.finfo(np.float32).eps),
        TensorProto.FLOAT16: float(np.finfo(np.float16).eps),
        TensorProto.BFLOAT16: float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps),
    }
    return max((eps[kind] for kind in kinds if kind in eps), default=eps[TensorProto.FLOAT])


def _in_float64(model: ModelProto) -> ModelProto:
    wide = ModelProto()
    wide.CopyFrom(model)
    _widen(wide.graph)
    for function in wide.functions:
        for node in function.node:
            _widen_node(node)
    return wide


def _widen(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type in FLOATS:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        _widen_node(node)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in FLOATS:
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(_wide(numpy_helper.to_array(tensor))), tensor.name))


def _widen_node(node: NodeProto) -> None:
    names = {a.name for a in node.attribute}
    if node.op_type == "ConstantOfShape" and not names:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    if node.op_type in ("BlackmanWindow", "HammingWindow", "HannWindow") and "output_datatype" not in names:
        node.attribute.append(helper.make_attribute("output_datatype", TensorProto.DOUBLE))
    for a in node.attribute:
        if a.name in ("to", "dtype", "softmax_precision", "output_dtype", "output_datatype") and a.i in FLOATS:
            a.i = TensorProto.DOUBLE
        elif a.type == AttributeProto.TENSOR:
            _widen_tensor(a.t)
        elif node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
            numbers = np.asarray(helper.get_attribute_value(a), np.float64)
            a.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(numbers)))
        elif a.type == AttributeProto.GRAPH:
            _widen(a.g)
