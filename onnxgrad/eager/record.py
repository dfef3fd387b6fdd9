"""Recording an operator: check and type it at once, compute nothing.

The same call on operands of the same kinds is answered from a memo; the first one goes through the Builder and onnx's
inference like any operator of a static program.

Tests: tests/eager/test_tensors.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import count
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue as Array
from onnxgrad.core.ir.traverse import captured_variables
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.eager.integers import carries_gradient
from onnxgrad.eager.node import Call, Kind, Signature, TapeNode, constant_node, kind_of, kind_of_array, signature_of, user_stack
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.internal import state

if TYPE_CHECKING:
    from onnxgrad.eager.tensor import Tensor

__all__ = [
    "BLOCK", "BUILDER", "EAGER", "Fragment", "Unhashable", "add_gradients", "hashable", "number_node", "plain_signatures", "record",
    "record_call", "record_one", "wrap",
]  # fmt: skip

_LONGEST_CHAIN = 400
"""Operators that are built as one session at most, about."""
_PART = 64
"""Operators of a part of a chain that repeats, so that one session computes all its parts."""
_SMALL = 1 << 12
"""Elements of values that take less time to compute again than their operators take to be built."""
_MEMO_LIMIT = 50_000


class Fragment(NamedTuple):
    """Operators that are recorded as one call: ``inputs`` stand for its operands, ``outputs`` for its results."""

    operators: list[Operator]
    inputs: list[Variable]
    outputs: list[Variable]


class _Recipe:
    """How a remembered call is recorded: ``sources`` are positions of tensor arguments, constants, or None.

    Integers that inference knows, such as a shape, are ``folded`` into a constant.
    """

    __slots__ = ("direct", "folded", "is_plain", "signature", "sources")

    def __init__(self, signature: Signature, sources: tuple[Any, ...], folded: TapeNode | None = None) -> None:
        self.signature = signature
        self.sources = sources
        self.folded = folded
        self.is_plain = signature.single is not None and None not in sources
        self.direct = sources == tuple(range(len(sources)))


_memo: dict[Any, _Recipe] = {}
plain_signatures: dict[tuple[Any, ...], Signature] = {}
"""Operators without attributes that were recorded on tensors alone, by type and kinds of operands."""


class EagerBlock(Block):
    """The block of all eager tensors: what is appended to it is recorded instead."""

    __slots__ = ()
    is_eager = True

    @property
    def build(self) -> Builder:
        return BUILDER

    def record(self, op_type: str, args: Any, kwargs: dict[str, Any], outputs: Any = 1, domain: str = "") -> Any:
        return record(op_type, args, kwargs, outputs, domain)


class EagerBuilder(Builder):
    """Records operators, and keeps its functions: ``op.Mul`` is made once."""

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def emit(*args: Any, outputs: int | Sequence[str] = 1, **kwargs: Any) -> Any:
            return record(op_type, args, kwargs, outputs)

        self.__dict__[op_type] = emit
        return emit

    def emit(self, op_type: str, args: Any, kwargs: dict[str, Any], outputs: Any = 1, key: str = "", domain: str = "") -> Any:
        return record(op_type, args, kwargs, outputs, domain)


class EagerProgram(Program):
    """Stands where functions expect the program of a variable; it holds nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [EagerBlock(self)]
        self._numbers = count()

    def current_block(self) -> Block:
        return self._current[-1] if self._current else self.blocks[0]

    def generate_name(self, key: str) -> str:
        return f"eager_{next(self._numbers)}"

    def fresh_name(self, wanted: str) -> str:
        return self.generate_name(wanted)

    def new_block(self, parent: Block | None, name: str) -> Block:
        return Block(self, parent, name)

    def constant(self, array: np.ndarray[Any, Any], register: bool = True) -> Any:
        return wrap(constant_node(array))


EAGER = EagerProgram()
BLOCK: Any = EAGER.blocks[0]
BUILDER = EagerBuilder(BLOCK)
_tensor_class: Any = None


def set_tensor_class(tensor_class: Any) -> None:
    """Say what ``wrap`` makes."""
    global _tensor_class
    _tensor_class = tensor_class


def wrap(node: TapeNode) -> Tensor:
    """The tensor that the user holds for a node; as long as it lives, a run that computes the node keeps its value."""
    tensor: Tensor = _tensor_class.__new__(_tensor_class)
    tensor._node = node
    node.handle = weakref.ref(tensor)
    return tensor


class Unhashable(Exception):
    """An argument that no memo should hold: a large array, a body."""


def hashable(item: Any) -> Any:
    """A hashable stand-in for a Python argument that tells 1, 1.0, True, 0.0 and -0.0 apart."""
    if item is None or isinstance(item, str):
        return item
    if isinstance(item, float):
        return ("f", item if item else str(item))
    if isinstance(item, (bool, int)):
        return (type(item), item)
    if isinstance(item, (list, tuple)):
        return tuple([hashable(entry) for entry in item])
    if isinstance(item, (np.ndarray, np.generic)) and item.size <= 64:
        return (item.dtype.str, item.shape, item.tobytes())
    raise Unhashable


@overload
def record(op_type: str, args: Any, kwargs: dict[str, Any], outputs: Literal[1] = 1, domain: str = "") -> Tensor: ...
@overload
def record(op_type: str, args: Any, kwargs: dict[str, Any], outputs: Any, domain: str = "") -> Any: ...
def record(op_type: str, args: Any, kwargs: dict[str, Any], outputs: Any = 1, domain: str = "") -> Any:
    """Record an operator and return its output, or a tuple of them."""
    if state.current.autocast is not None and domain == "":
        args, kwargs = state.current.autocast(op_type, args, kwargs)
    nodes: list[TapeNode] = []
    count_of = outputs if outputs.__class__ is int else len(outputs)
    key: list[Any] = [op_type, domain, count_of, len(args), *kwargs]
    try:
        for item in [*args, *kwargs.values()]:
            if isinstance(item, _tensor_class):
                node = item._node
                nodes.append(node)
                key.append(node.kind.number)
            else:
                key.append(hashable(item))
        frozen = tuple(key)
        recipe = _memo.get(frozen)
    except Unhashable:
        return _record_anew(op_type, args, kwargs, outputs, domain)
    if recipe is None:
        from onnxgrad.eager.random import SAMPLERS

        if op_type in SAMPLERS:
            return SAMPLERS[op_type](args, kwargs)
        recipe = _learn(op_type, args, kwargs, count_of, domain, frozen)
        on_tensors_alone = len(nodes) == len(args) and not kwargs and domain == ""
        if recipe.is_plain and recipe.direct and recipe.folded is None and on_tensors_alone:
            plain_signatures[op_type, *[node.kind for node in nodes]] = recipe.signature
    if recipe.folded is not None:
        return wrap(TapeNode(recipe.folded.kind, recipe.folded.array))
    inputs = tuple(nodes) if recipe.direct else tuple([nodes[s] if s.__class__ is int else s for s in recipe.sources])
    if recipe.is_plain and outputs.__class__ is int:
        return record_one(recipe.signature, inputs)
    created = record_call(recipe.signature, inputs)
    if count_of == 1 and outputs.__class__ is int:
        return wrap(created[0])
    return tuple([wrap(node) for node in created])


def record_call(signature: Signature, inputs: tuple[TapeNode | None, ...]) -> list[Any]:
    """Record a call whose kinds are known; one node per output."""
    stop, depth = True, 0
    for node in inputs:
        if node is not None:
            if not node.stop:
                stop = False
            if node.depth > depth:
                depth = node.depth
    if not state.current.gradients:
        stop = True
    if depth and depth % _PART == 0:
        depth = _shorten(inputs, depth)
    call = Call(signature, inputs)
    call.stack = () if stop else user_stack()
    nodes: list[Any] = [None] * len(signature.kinds)
    for index, kind in enumerate(signature.kinds):
        if kind is not None:
            ends = stop or not (kind.is_float or carries_gradient(signature, index, inputs))
            nodes[index] = TapeNode(kind, None, call, index, ends, depth + 1)
    if len(nodes) > 1:
        call.others = [_ref(node) for node in nodes if node is not None]
    if not all(kind is None or kind.is_known for kind in signature.kinds):
        _compute_now(call, nodes)
    return nodes


def record_one(signature: Signature, inputs: tuple[Any, ...]) -> Any:
    """The same for an operator with one output of known shape, as a tensor; the shortest way there is."""
    stop, depth = True, 0
    for node in inputs:
        if not node.stop:
            stop = False
        if node.depth > depth:
            depth = node.depth
    kind: Any = signature.single
    if not (stop or state.current.gradients):
        stop = True
    if depth and depth % _PART == 0:
        depth = _shorten(inputs, depth)
    call = Call(signature, inputs)
    call.stack = () if stop else user_stack()
    node = TapeNode(kind, None, call, 0, stop or not (kind.is_float or carries_gradient(signature, 0, inputs)), depth + 1)
    tensor = _new(_tensor_class)
    tensor._node = node
    node.handle = _ref(tensor)
    return tensor


_new, _ref = object.__new__, weakref.ref


def _shorten(inputs: tuple[TapeNode | None, ...], depth: int) -> int:
    """Compute the operands where the chain before them is long, or of small operators that repeat; the depth that is left."""
    from onnxgrad.eager.evaluate import evaluate

    left = 0
    if depth < _LONGEST_CHAIN:
        period = _period(max((node for node in inputs if node is not None), key=attrgetter("depth")))
        if period is None:
            return depth
        # The next part is as long as a multiple of the period, and so has the same structure.
        left = _PART % period
    evaluate([node for node in inputs if node is not None and node.array is None])
    return left


def _period(node: TapeNode) -> int | None:
    """After how many operators the chain before a value repeats; None where it does not, or where values are not small."""
    numbers: list[int] = []
    while node.call is not None and len(numbers) < _PART:
        kind = node.kind
        if not (kind.is_known and isinstance(kind.type, TensorType) and prod(kind.type.dims or ()) <= _SMALL):  # type: ignore[arg-type]
            return None
        numbers.append(node.call.signature.number)
        present = [operand for operand in node.call.inputs if operand is not None]
        if not present:
            break
        node = max(present, key=attrgetter("depth"))
    sizes = range(1, _PART // 2 + 1)
    return next((size for size in sizes if len(numbers) == _PART and numbers[size:] == numbers[:-size]), None)


def add_gradients(x: Tensor, y: Tensor) -> Tensor:
    """The sum of two gradients; of Booleans, whether either is True."""
    return record("Or" if x.dtype.name == "bool" else "Add", (x, y), {})


_number_nodes: dict[Any, TapeNode] = {}


def number_node(number: float, kind: Kind) -> TapeNode:
    """A number as a constant in the element type of a kind."""
    key = (number or repr(number), number.__class__, kind)  # 0.0 equals -0.0
    node = _number_nodes.get(key)
    if node is None:
        node = constant_node(np.asarray(number, kind.type.dtype.numpy))  # type: ignore[union-attr]
        if len(_number_nodes) < _MEMO_LIMIT:
            _number_nodes[key] = node
    return node


def _compute_now(call: Call, nodes: list[Any]) -> None:
    """The shape of a result depends on values: compute it, so that every tensor has a shape."""
    from onnxgrad.eager.evaluate import evaluate

    present = [node for node in nodes if node is not None]
    evaluate(present, forget=False)
    for node in present:
        node.kind = kind_of_array(node.array)
    call.signature = call.signature.with_outputs(tuple([None if node is None else node.kind for node in nodes]))
    for node in present:
        if node.stop:
            node.call = None


def _placeholder(node: TapeNode) -> Variable:
    """A static variable that inference treats as it would the node's value."""
    kind = node.kind
    v = Variable(_SCRATCH, "x", kind.type)
    v.entries = kind.entries
    if kind.array is not None:
        v.value = Array.of(kind.array)
    return v


_SCRATCH = Program().global_block()


def _built(
    op_type: str, args: Any, kwargs: dict[str, Any], count_of: int, domain: str
) -> tuple[Operator, dict[Variable, int], list[TapeNode]]:
    """The operator as the Builder makes it on placeholders, where its tensor arguments went, and their nodes."""
    stage: list[Operator] = []
    builder = Builder(Program().global_block(), stage)
    builder.simplify = False
    position: dict[Variable, int] = {}
    nodes: list[TapeNode] = []

    def stand_in(item: Any) -> Any:
        if not isinstance(item, _tensor_class):
            return item
        v = _placeholder(item._node)
        position[v] = len(nodes)
        nodes.append(item._node)
        return v

    operands = [stand_in(item) for item in args]
    named = {name: stand_in(item) for name, item in kwargs.items()}
    builder.emit(op_type, operands, named, [""] * count_of if count_of != 1 else 1, domain=domain)
    operator = stage[-1]
    return operator, position, nodes


def _learn(op_type: str, args: Any, kwargs: dict[str, Any], count_of: int, domain: str, frozen: Any) -> _Recipe:
    operator, position, _ = _built(op_type, args, kwargs, count_of, domain)
    operands: list[Any] = operator.inputs
    sources = tuple([None if v is None else position[v] if v in position else constant_node(v.value.numpy()) for v in operands])
    attrs = tuple((name, _frozen_attr(value)) for name, value in sorted(operator.attrs.items()))
    kinds = _kinds_of_outputs(operator)
    signature = signature_of(op_type, domain, operator.attrs, (attrs, len(sources)), kinds)
    recipe = _Recipe(signature, sources, _folded(kinds))
    if frozen is not None:
        if len(_memo) >= _MEMO_LIMIT:
            _memo.clear()
            plain_signatures.clear()
        _memo[frozen] = recipe
    return recipe


def _folded(kinds: tuple[Kind | None, ...]) -> TapeNode | None:
    kind = kinds[0] if len(kinds) == 1 else None
    if kind is None or kind.entries is None or not isinstance(kind.type, TensorType) or not kind.is_known:
        return None
    return constant_node(np.array(kind.entries, kind.type.dtype.numpy).reshape(kind.type.dims))


def _frozen_attr(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_frozen_attr(entry) for entry in value])
    if isinstance(value, (bool, int, float, str)):
        return (type(value), value)
    return id(value)


def _kinds_of_outputs(operator: Operator) -> tuple[Kind | None, ...]:
    kinds: list[Kind | None] = []
    for v in operator.outputs:
        if v is None:
            kinds.append(None)
            continue
        entries = v.entries if v.entries is not None and all(isinstance(entry, int) for entry in v.entries) else None
        kinds.append(kind_of(v.type if v.type is not None else TensorType(operator.inputs[0].dtype, None), entries))  # type: ignore[union-attr]
    return tuple(kinds)


def _record_anew(op_type: str, args: Any, kwargs: dict[str, Any], outputs: Any, domain: str) -> Any:
    """An operator with large arrays, tensors as attributes or bodies among its arguments: nothing of it is remembered."""
    for item in args:
        if isinstance(item, Variable) and not isinstance(item, _tensor_class):
            raise ArgumentTypeError(f"{op_type}: {item!r} of a static program has no value, so no eager tensor can meet it here.")
    operands = [wrap(constant_node(item)) if isinstance(item, np.ndarray) else item for item in args]
    named = {name: wrap(constant_node(item)) if isinstance(item, np.ndarray) else item for name, item in kwargs.items()}
    if op_type == "Constant" and "value" in kwargs:
        return named["value"] if isinstance(named["value"], _tensor_class) else wrap(constant_node(kwargs["value"].numpy()))
    count_of = outputs if isinstance(outputs, int) else len(outputs)
    if any(hasattr(item, "ops") for item in kwargs.values()):
        signature, inputs = _with_bodies(op_type, operands, named, count_of, domain)
    else:
        recipe = _learn(op_type, operands, named, count_of, domain, None)
        nodes = [item._node for item in [*operands, *named.values()] if isinstance(item, _tensor_class)]
        signature, inputs = recipe.signature, tuple([nodes[s] if isinstance(s, int) else s for s in recipe.sources])
    results = tuple([wrap(node) for node in record_call(signature, inputs)])
    return results[0] if outputs == 1 else results


def _with_bodies(op_type: str, args: Any, kwargs: Any, count_of: int, domain: str) -> tuple[Signature, tuple[TapeNode, ...]]:
    """An operator with bodies as a fragment, whose operands include the tensors that the bodies read."""
    operator, position, nodes = _built(op_type, args, kwargs, count_of, domain)
    outer = [v for v in captured_variables(operator) if isinstance(v, _tensor_class)]
    present = [v for v in operator.inputs if v is not None and v in position]
    inputs = tuple([nodes[position[v]] for v in present] + [v._node for v in outer])
    fragment = Fragment([operator], [*present, *outer], [v for v in operator.outputs if v is not None])
    return Signature(op_type, domain, {}, _kinds_of_outputs(operator), fragment), inputs
