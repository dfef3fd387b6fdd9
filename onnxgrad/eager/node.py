"""The recorded graph: values (Node) computed by calls of operators (Call), described by interned kinds and signatures.

Everything that decides which graph is built is a small integer here, so that the key of a recorded chain costs one tuple.

Tests: tests/eager/test_tensors.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import count, islice
from operator import attrgetter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from onnxgrad.core.ir.types import Entries, TensorType, Type
from onnxgrad.dtypes import dtype_of

__all__ = [
    "FREED",
    "Call",
    "GradNode",
    "HookHandle",
    "Kind",
    "Meta",
    "Signature",
    "TapeNode",
    "calls_behind",
    "constant_node",
    "kind_of",
    "kind_of_array",
    "next_serial",
    "signature_of",
]  # fmt: skip

_FOLDER = str(Path(__file__).parents[1])
_SMALL = 64


class Kind:
    """The properties of a value that are known when it is recorded: its type, known entries, and the array of a constant.

    ``loose`` is what is left of it apart from sizes and numbers.
    """

    __slots__ = ("array", "entries", "is_float", "is_known", "loose", "number", "type")

    def __init__(self, type: Type, entries: Entries | None, array: np.ndarray[Any, Any] | None, number: int) -> None:
        self.type = type
        self.entries = entries
        self.array = array
        self.number = number
        self.is_float = isinstance(type, TensorType) and type.dtype.is_float
        self.is_known = not isinstance(type, TensorType) or (
            type.dims is not None and all(isinstance(dim, int) for dim in type.dims)
        )
        has_rank = isinstance(type, TensorType) and type.dims is not None
        self.loose: Any = (type.dtype, len(type.dims), array is None) if has_rank else type  # type: ignore[union-attr,arg-type]


_kinds: dict[Any, Kind] = {}
_kinds_of_arrays: dict[Any, Kind] = {}
_constants: dict[Any, TapeNode] = {}
_signatures: dict[Any, Signature] = {}
_loose_numbers: dict[Any, int] = {}
_numbers, _serials = count(), count()
_CONSTANT_LIMIT = 20_000


def kind_of(type: Type, entries: Entries | None = None) -> Kind:
    """The one Kind for a type and what is known of the entries."""
    key = (type, entries)
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds[key] = Kind(type, entries, None, next(_numbers))
    return kind


def kind_of_array(array: np.ndarray[Any, Any]) -> Kind:
    """The Kind of a value that is fed; its entries do not count as known."""
    key = (array.dtype, array.shape)
    kind = _kinds_of_arrays.get(key)
    if kind is None:
        kind = _kinds_of_arrays[key] = kind_of(TensorType(dtype_of(array.dtype), array.shape))
    return kind


class Signature:
    """An operator apart from its operands: type, domain, attributes, which outputs exist and of what kind.

    A signature with a ``fragment`` stands for several operators at once, such as a whole backward pass. ``base`` is equal for
    signatures that differ in their outputs alone.
    """

    __slots__ = ("_loose", "attrs", "base", "domain", "fragment", "kinds", "number", "single", "type")

    def __init__(
        self,
        type: str,
        domain: str,
        attrs: dict[str, Any],
        kinds: tuple[Kind | None, ...],
        fragment: Any = None,
        base: Any = None,
    ) -> None:
        self.type = type
        self.domain = domain
        self.attrs = attrs
        self.kinds = kinds
        self.fragment = fragment
        self.number = next(_numbers)
        self.base = self.number if base is None else base
        self._loose: int | None = None
        only = kinds[0] if len(kinds) == 1 else None
        self.single = only if only is not None and only.is_known else None

    @property
    def loose(self) -> int:
        """A number that is equal for signatures that differ in sizes alone."""
        if self._loose is None:
            key = (self.base, tuple([None if kind is None else kind.loose for kind in self.kinds]))
            self._loose = _loose_numbers.setdefault(key, len(_loose_numbers))
        return self._loose

    def with_outputs(self, kinds: tuple[Kind | None, ...]) -> Signature:
        """The same operator with other outputs."""
        key = (self.number, kinds)
        signature = _signatures.get(key)
        if signature is None:
            signature = _signatures[key] = Signature(self.type, self.domain, self.attrs, kinds, self.fragment, self.base)
        return signature


def signature_of(type: str, domain: str, attrs: dict[str, Any], frozen: Any, kinds: tuple[Kind | None, ...]) -> Signature:
    """The one Signature with these attributes; ``frozen`` is their hashable form."""
    key = (type, domain, frozen, kinds)
    signature = _signatures.get(key)
    if signature is None:
        signature = _signatures[key] = Signature(type, domain, attrs, kinds, base=(type, domain, frozen))
    return signature


def next_serial() -> int:
    """A number below those of all calls that will be recorded, and above those of all that are."""
    return next(_serials)


class Call:
    """One recorded use of an operator. ``serial`` grows in recording order, which is an order of execution.

    ``others`` are weak references to the nodes of a call with several outputs, which a run computes together. ``mark`` and
    ``offset`` belong to whoever walks the graph at the moment.
    """

    __slots__ = ("freed", "inputs", "mark", "offset", "others", "serial", "signature", "stack")

    def __init__(self, signature: Signature, inputs: tuple[TapeNode | None, ...]) -> None:
        self.signature = signature
        self.inputs = inputs
        self.serial = next(_serials)
        self.mark = 0
        self.offset = 0
        self.freed = False
        self.others: list[Any] | None = None
        self.stack: tuple[tuple[CodeType, int], ...] = ()

    def source_lines(self) -> list[str]:
        """Return the lines of user code that made this call, innermost first: ``file:line in function``."""
        frames = [(code, next(islice(code.co_positions(), at // 2, None))) for code, at in self.stack]
        return [f"{code.co_filename}:{line} in {code.co_qualname}" for code, (line, *_) in frames]


_our_files: set[str] = set()
_other_files: set[str] = set()


def user_stack() -> tuple[tuple[CodeType, int], ...]:
    """Code and position of the innermost frames outside this package; made into lines only when somebody asks."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _our_files:
            frame = frame.f_back
        elif file in _other_files:
            break
        else:
            (_our_files if file.startswith(_FOLDER) else _other_files).add(file)
    if frame is None:
        return ()
    outer = frame.f_back
    if outer is None:
        return ((frame.f_code, frame.f_lasti),)
    return ((frame.f_code, frame.f_lasti), (outer.f_code, outer.f_lasti))


FREED = Call(Signature("Freed", "", {}, ()), ())
FREED.freed = True


class Meta:
    """The properties of a tensor rather than of one value of it: its name, gradient and hooks, and whether a user cut it off.

    ``retain`` holds the numbers of the hooks that there were when the gradient was asked to be retained. A tensor that was changed
    in place keeps hooks and the retained gradient of what it was before, ``earlier``. ``cleared`` is the value of a gradient that
    was filled with zeros: as long as the gradient has it, the next one takes its place and is not added to it.
    """

    __slots__ = ("cleared", "cut", "earlier", "grad", "hooks", "name", "persistable", "retain")

    def __init__(self) -> None:
        self.name = ""
        self.earlier: Meta | None = None
        self.grad: Any = None
        self.cleared: TapeNode | None = None
        self.hooks: dict[int, Any] = {}
        self.retain: frozenset[int] | None = None
        self.cut = False
        self.persistable = False


class HookHandle:
    """Registers a hook of a tensor or layer, as the last one; what ``register_hook`` returns."""

    __slots__ = ("_hooks", "_key")

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks, self._key = hooks, next(_numbers)
        hooks[self._key] = hook

    def remove(self) -> bool:
        """Take the hook away; False if it was gone already."""
        return self._hooks.pop(self._key, None) is not None


class GradNode:
    """What Paddle shows of the gradient of a tensor: the operator that it goes through, under ONNX's name, and those behind it."""

    __slots__ = ("_node",)

    def __init__(self, node: TapeNode) -> None:
        self._node = node

    def name(self) -> str:
        """The type of the operator with ``GradNode`` behind it; ``GradNodeAccumulation`` of a leaf."""
        call = self._node.call
        return "GradNodeAccumulation" if call is None else f"{call.signature.type}GradNode"

    @property
    def next_functions(self) -> list[GradNode]:
        """Those of the operands that gradients flow to."""
        call = self._node.call
        return [] if call is None else [GradNode(node) for node in call.inputs if node is not None and not node.stop]


class TapeNode:
    """One value: an array, or output ``index`` of a call that has not been computed yet, or both while gradients may flow.

    ``depth`` is the length of the longest chain of calls to compute before it.
    """

    __slots__ = ("__weakref__", "array", "call", "depth", "handle", "index", "kind", "mark", "meta", "offset", "stop")

    def __init__(
        self,
        kind: Kind,
        array: np.ndarray[Any, Any] | None,
        call: Call | None = None,
        index: int = 0,
        stop: bool = True,
        depth: int = 0,
    ) -> None:
        self.kind = kind
        self.array = array
        self.call = call
        self.index = index
        self.stop = stop
        self.depth = depth
        self.mark = 0
        self.offset = 0
        self.handle: Any = None
        self.meta: Meta | None = None


def calls_behind(nodes: Iterable[TapeNode], enters: Callable[[TapeNode], bool]) -> list[Call]:
    """The calls that compute these nodes and what they were computed from, as far as ``enters`` admits, in recording order."""
    calls: set[Call] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.call is not None and node.call not in calls and enters(node):
            calls.add(node.call)
            stack.extend([n for n in node.call.inputs if n is not None])
    return sorted(calls, key=attrgetter("serial"))


def constant_node(array: np.ndarray[Any, Any]) -> TapeNode:
    """A value that is written into the graph. Large arrays are fed instead, so that no graph depends on them."""
    if array.size > _SMALL or array.dtype.kind not in "biufc":
        return TapeNode(kind_of_array(array), np.array(array, order="C"))
    key = (array.dtype, array.shape, array.tobytes())
    node = _constants.get(key)
    if node is None:
        if len(_constants) >= _CONSTANT_LIMIT:
            _constants.clear()
        array = np.array(array, order="C")
        type = TensorType(dtype_of(array.dtype), array.shape)
        entries = tuple(array.reshape(-1).tolist()) if array.dtype.kind in "iu" and array.ndim < 2 else None
        node = _constants[key] = TapeNode(Kind(type, entries, array, next(_numbers)), array)
    return node
