"""Functions that remember which operators they record: the same call on tensors of the same kinds records these at once.

A function checks its arguments and appends operators by what it knows of its operands: their types and sizes, and its other
arguments. Of eager tensors that is a key. Remembered is what the operators before the result are then; the function stays the only
place that says how it is computed.

Tests: tests/tensor/test_remembered.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from types import EllipsisType
from typing import Any, NamedTuple, TypeVar, cast

from onnxgrad.eager.evaluate import counts
from onnxgrad.eager.integers import carries_gradient
from onnxgrad.eager.node import Call, Signature, TapeNode, next_serial
from onnxgrad.eager.record import Unhashable, hashable, record_one
from onnxgrad.eager.tensor import Tensor
from onnxgrad.internal import state

__all__ = ["remembers"]

Function = TypeVar("Function", bound=Callable[..., Any])
_MOST_KEYS = 4096
_MOST_STEPS = 8
_HASHED = {int, bool, str, type(None), EllipsisType}
"""Types whose equal values are one argument."""
_LISTS = {list, tuple}


class _Step(NamedTuple):
    """An operator of a remembered call.

    ``sources`` are its operands: constants, and numbers of tensors, those of the call first and then results; None for all so far.
    """

    signature: Signature
    sources: tuple[int | TapeNode, ...] | None


def remembers(function: Function) -> Function:
    """Remember the operators of a function whose first argument is a tensor or a list of them, and whose result is a new one.

    Args:
        function: depends on the types and sizes of tensors, not on their values, and on no setting but that of gradients. Calls
            that return several tensors, draw numbers, write to an argument or stop gradients are seen, and run each time.
    """
    recipes: dict[Any, list[_Step]] = {}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        is_tensor = isinstance(first, Tensor)
        if not (is_tensor or first.__class__ in _LISTS) or state.current.autocast is not None:
            return function(*args, **kwargs)
        if is_tensor and len(args) == 1 and not kwargs:
            node: TapeNode = first._node  # type: ignore[union-attr]
            key: Any = node.kind
            nodes, flows = [node], not node.stop
        else:
            try:
                nodes, key, flows = _operands_and_key(args, kwargs)
            except Unhashable:
                return function(*args, **kwargs)
        flows = flows and state.current.gradients
        if flows:
            key = (key,)  # Where no gradients flow there is no seeing whether a function stops them.
        recipe = recipes.get(key)
        if not recipe:
            if recipe is not None:
                return function(*args, **kwargs)
            runs, serial = counts["runs"], next_serial()
            result = function(*args, **kwargs)
            # Of one tensor in two places there would be no telling which is meant.
            if len(recipes) < _MOST_KEYS and counts["runs"] == runs and len({*nodes}) == len(nodes):
                recipes[key] = [] if any(result is item for item in args) else _steps_to(result, nodes, serial, flows)
            return result
        for signature, sources in recipe:
            inputs = tuple(nodes) if sources is None else tuple([nodes[s] if s.__class__ is int else s for s in sources])
            result = record_one(signature, inputs)
            nodes.append(result._node)
        return result

    return cast(Function, call)


def _operands_and_key(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[TapeNode], Any, bool]:
    """The tensors among the arguments of a call, its key, and whether one of them carries gradients.

    Raises:
        Unhashable: if an argument is none that a key can have.
    """
    nodes: list[TapeNode] = []
    key: list[Any] = []
    flows = False
    for item in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(item, Tensor):
            node = item._node
            nodes.append(node)
            key += (node.kind, node.stop)
            if not node.stop:
                flows = True
        elif (kind := item.__class__) in _HASHED:
            key += (kind, item)
        elif kind in _LISTS and item and isinstance(item[0], Tensor):
            inner, kinds, inner_flow = _operands_and_key(item, {})
            nodes += inner
            key += (kind, kinds)
            flows = flows or inner_flow
        else:
            key.append(_key_of(item))
    return nodes, (*key, *kwargs), flows


def _key_of(item: Any) -> Any:
    """A hashable stand-in for an argument that is no tensor."""
    kind = item.__class__
    if kind in _HASHED:
        return (kind, item)
    if kind is slice:
        return (slice, _key_of(item.start), _key_of(item.stop), _key_of(item.step))
    if kind not in _LISTS:
        return hashable(item)
    kinds = (*map(type, item),)
    return (kind, kinds, *item) if _HASHED.issuperset(kinds) else (kind, *map(_key_of, item))


def _steps_to(result: Any, operands: Sequence[TapeNode], first: int, flows: bool) -> list[_Step]:
    """The operators between operands and a result, of those recorded since ``first``; none where they do not decide it alone."""
    outputs = _outputs_before(result._node, operands, first, flows) if isinstance(result, Tensor) else []
    numbers: dict[TapeNode, int] = {}
    for number, node in enumerate([*operands, *outputs]):
        numbers.setdefault(node, number)
    read: set[Any] = set()
    steps: list[_Step] = []
    for output in outputs:
        call: Any = output.call
        read.update(call.inputs)
        sources = tuple([numbers.get(node, node) for node in call.inputs])
        steps.append(_Step(call.signature, None if sources == (*range(len(operands) + len(steps)),) else sources))
    # A tensor that no operator reads was read by Python, for its value.
    return steps if read.issuperset(operands) else []


def _outputs_before(result: TapeNode, operands: Sequence[TapeNode], first: int, flows: bool) -> list[TapeNode]:
    """The results of operators since ``first`` that lead from operands and constants to a result, in order.

    There are none if others lead to it.
    """
    outputs: dict[Call, TapeNode] = {}
    stack: list[TapeNode | None] = [result]
    while stack:
        node = stack.pop()
        if node is None:
            return []
        if node in operands or node.kind.array is not None:
            continue
        call = node.call
        if call is None or call.serial < first or call.signature.single is None:
            return []
        if outputs.setdefault(call, node) is not node or len(outputs) > _MOST_STEPS:
            return []  # The same result twice: once detached.
        if flows and node.stop != _stops(call):
            return []
        stack.extend(call.inputs)
    return sorted(outputs.values(), key=attrgetter("call.serial"))


def _stops(call: Call) -> bool:
    """Whether no gradient flows from the result of a call to its operands, unless a function says so."""
    kind = call.signature.single
    inputs = [node for node in call.inputs if node is not None]
    assert kind is not None
    return all(node.stop for node in inputs) or not (kind.is_float or carries_gradient(call.signature, 0, inputs))
