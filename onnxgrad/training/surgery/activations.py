"""The activation that produced an output, traced through operators that move elements and compute nothing.

Tests: tests/training/losses/test_terms.py, tests/training/test_hidden_activations.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.types import Dim, same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentError

__all__ = [
    "Activation", "activation_before", "argmax_before", "hidden_activation", "score_kind", "score_threshold",
]  # fmt: skip

_ACTIVATIONS = ("Softmax", "LogSoftmax", "Sigmoid")
_MOVES = VIEWS | {"Cast", "Transpose", "Dropout"}


def activation_before(y: Variable, kinds: Collection[str]) -> tuple[Operator | None, list[Operator]]:
    """The operator of one of these types that produced ``y``, if one did, and the operators that moved its elements since.

    Of several Sigmoids whose results a Concat joins it is the first one.
    """
    at, moves = _before_moves(y)
    joined = _joined_sigmoids(at)
    if joined and "Sigmoid" in kinds:
        return activation_before(joined[0], kinds)[0], moves
    return at if at is not None and at.domain == "" and at.type in kinds else None, moves


def score_kind(y: Variable) -> str:
    """The type of the activation that makes probabilities of scores, if one produced ``y``: Sigmoid, HardSigmoid, Softmax or
    LogSoftmax; empty for logits."""
    activation = activation_before(y, ("Sigmoid", "HardSigmoid", "Softmax", "LogSoftmax"))[0]
    return "" if activation is None else activation.type


def score_threshold(kind: str) -> float:
    """What a single score of a kind is above for a positive answer: one half for probabilities, 0 for logits."""
    return 0.5 if kind in ("Sigmoid", "HardSigmoid") else 0.0


def _before_moves(y: Variable) -> tuple[Operator | None, list[Operator]]:
    moves: list[Operator] = []
    at = _unrounded(y.op)
    while at is not None and at.domain == "" and at.type in _MOVES and _real(at.inputs[0]) and _real(at.outputs[0]):
        moves.insert(0, at)
        at = None if at.inputs[0] is None else _unrounded(at.inputs[0].op)
    return at, moves


def _joined_sigmoids(at: Operator | None) -> list[Variable]:
    """The operands of a Concat that Sigmoids produced, all of them; empty for anything else"""
    if at is None or at.domain != "" or at.type != "Concat":
        return []
    parts = [v for v in at.inputs if v is not None]
    return parts if all(activation_before(v, ("Sigmoid",))[0] is not None for v in parts) else []


def argmax_before(y: Variable) -> Operator | None:
    """The ArgMax that produced class numbers, if nothing but their type and shape changed since.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 5] x) => (int64[N] y) { y = ArgMax<axis=1, keepdims=0>(x) }'
        >>> argmax_before(onnxgrad.from_onnx(parser.parse_model(text)).outputs[0]).type
        'ArgMax'
    """
    at = y.op
    while at is not None and at.domain == "" and at.type in VIEWS | {"Cast"} and at.inputs[0] is not None:
        at = at.inputs[0].op
    return at if at is not None and at.domain == "" and at.type == "ArgMax" else None


def hidden_activation(y: Variable) -> tuple[Operator, str] | None:
    """The If, Loop or Scan that produced ``y``, and the type of the activation in its body; None if there is none."""
    at, moves = _before_moves(y)
    result = moves[0].inputs[0] if moves else y
    if at is None or result is None:
        return None
    index = next((i for i, v in enumerate(reversed(at.outputs)) if v is result), 0)
    for body in at.blocks():
        inner = body.outputs[-1 - index]
        activation = Activation(inner).kind
        if activation:
            return at, activation
        deeper = hidden_activation(inner)
        if deeper is not None:
            return at, deeper[1]
    return None


def _unrounded(at: Operator | None) -> Operator | None:
    """Skip QuantizeLinear and DequantizeLinear: return the operator that produced the values they round"""
    if at is None or at.domain != "" or at.type != "DequantizeLinear" or at.inputs[0] is None:
        return at
    before = at.inputs[0].op
    if before is None or before.domain != "" or before.type != "QuantizeLinear" or before.inputs[0] is None:
        return at
    return _unrounded(before.inputs[0].op)


class Activation:
    """The Softmax, LogSoftmax or Sigmoid that produced a tensor.

    Args:
        y: an output of a model.

    Attributes:
        kind: type of the operator; empty if there is none, and ``y`` is taken as logits.
    """

    def __init__(self, y: Variable) -> None:
        self.y = y
        self.operator, self.moves = activation_before(y, _ACTIVATIONS)
        concat, _ = _before_moves(y)
        self.parts = [Activation(v) for v in _joined_sigmoids(concat)]
        """Of a Concat that joins the results of Sigmoids: the activation of each."""
        self._concat = concat
        if self.operator is not None:
            self._refuse_dropout()
        self.kind = "" if self.operator is None else self.operator.type

    def _refuse_dropout(self) -> None:
        for move in self.moves:
            switched_on = len(move.inputs) > 2 and move.inputs[2] is not None
            if move.type == "Dropout" and (move.expansion is not None or switched_on):
                assert self.operator is not None
                raise ArgumentError(
                    f"{self.y.name} comes from {self.operator.type} through {move}, which drops probabilities while the model is "
                    f"trained. Give the loss the tensor before {self.operator.type}, {self.before.name!r}."
                )

    @property
    def before(self) -> Variable:
        """The input of the activation"""
        assert self.operator is not None and self.operator.inputs[0] is not None
        return self.operator.inputs[0]

    def logits(self, op: Builder) -> Variable:
        """The input of the activation, with its elements moved as in ``y``, in the element type of ``y``"""
        if self.parts:
            assert self._concat is not None
            return self._moved(op, op.Concat(*(part.logits(op) for part in self.parts), axis=self._concat.attr("axis")))
        return self._moved(op, self._cast(op, self.y.dtype))

    def log_probabilities(self, op: Builder, dtype: DType) -> Variable:
        """The logarithm of ``y`` in an element type, computed from what Softmax reads"""
        assert self.operator is not None
        return self._moved(op, op.LogSoftmax(self._cast(op, dtype), axis=int(self.operator.attr("axis"))))

    def _cast(self, op: Builder, dtype: DType) -> Variable:
        x: Variable = self.before if self.before.dtype == dtype else op.Cast(self.before, to=dtype.number)
        return x

    def _moved(self, op: Builder, x: Variable) -> Variable:
        for move in self.moves:
            if move.type not in ("Identity", "Dropout", "Cast"):
                x = op.emit(move.type, [x, *move.inputs[1:]], dict(move.attrs))
        return x

    def runs_along(self, axis: int) -> bool | None:
        """Whether the probabilities of one example lie along this axis of ``y``; None if that is not known"""
        assert self.operator is not None
        rank, last = self.before.rank, self.y.rank
        own_axis = int(self.operator.attr("axis"))
        if not self.moves and own_axis == axis:
            return True
        at = None if rank is None else own_axis % rank
        length = None if at is None or self.before.dims is None else self.before.dims[at]
        for move in self.moves:
            at = None if at is None else _axis_after(move, at)
        if at is not None and last is not None:
            return at == axis % last
        mine = self.y.dims[axis] if self.y.dims is not None else None
        return False if isinstance(length, int) and isinstance(mine, int) and length != mine else None


def _real(v: Variable | None) -> bool:
    return v is not None and v.is_float


def _axis_after(move: Operator, axis: int) -> int | None:
    """Return the position of an axis behind an operator that only moves elements; None if the axis is split, or not known"""
    x, y = move.inputs[0], move.outputs[0]
    if x is None or y is None or x.dims is None or y.dims is None:
        return None
    if move.type in ("Identity", "Cast", "Dropout"):
        return axis
    if move.type == "Transpose":
        perm = move.attrs.get("perm") or list(range(len(x.dims)))[::-1]
        return int(list(perm).index(axis))
    axes = known_ints(move.inputs[1]) if move.type in ("Squeeze", "Unsqueeze") and len(move.inputs) > 1 else None
    if axes and move.type == "Unsqueeze":
        return [i for i in range(len(y.dims)) if i not in {a % len(y.dims) for a in axes}][axis]
    if axes:
        kept = [i for i in range(len(x.dims)) if i not in {a % len(x.dims) for a in axes}]
        return kept.index(axis) if axis in kept else None
    for position, dim in enumerate(y.dims):
        if same_dim(x.dims[axis], dim) and (
            _as_many(x.dims[:axis], y.dims[:position]) or _as_many(x.dims[axis + 1 :], y.dims[position + 1 :])
        ):
            return position
    return None


def _as_many(some: tuple[Dim, ...], others: tuple[Dim, ...]) -> bool:
    """Return whether both lists of dimensions certainly have the same number of elements"""

    def rest(dims: tuple[Dim, ...]) -> tuple[int, list[Any]]:
        return math.prod(d for d in dims if isinstance(d, int)), [d for d in dims if not isinstance(d, int)]

    (a, unknown), (b, others_unknown) = rest(some), rest(others)
    if a != b or len(unknown) != len(others_unknown):
        return False
    return all(same_dim(x, y) for x, y in zip(unknown, others_unknown, strict=True))
