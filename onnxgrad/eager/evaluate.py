"""Computing recorded values: the pending part of a chain becomes one onnxruntime session, cached by structure.

Tests: tests/eager/test_tensors.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import count
from operator import attrgetter
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.compile import compile
from onnxgrad.core.graph.graph import FedLabel, Graph
from onnxgrad.core.graph_passes.label_range import LOSSES, drop_guards_of_rules, fed_label, has_labels
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import is_written_for
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue as Array
from onnxgrad.core.ir.traits import RANDOM
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.session import open_graph
from onnxgrad.core.state.inputs import Door, check_classes
from onnxgrad.eager.node import Call, Kind, TapeNode
from onnxgrad.eager.structures import Form, NeedsSizes, Structures
from onnxgrad.eager.threads import FixedRun, MeasuredRun
from onnxgrad.errors import FeedError, UnfitOperands

__all__ = ["OUTPUTS", "Writer", "counts", "evaluate", "require_classes"]

_BYTES = 1 << 30
"""What sessions may take in all, by the values that they compute."""
_LEAST = 1 << 18
"""What a session takes beside these."""


class _NoClass(FeedError, IndexError):
    """A label is no class, for which Paddle raises an IndexError."""


_LABELS = Door("the tensor", "the loss", _NoClass, casts=False)
_SMALL_WORK = 1 << 14
counts = {"sessions": 0, "runs": 0, "backward": 0}
"""How many sessions and backward passes were built, and how many runs there were; tests read it."""


class _Compiled(NamedTuple):
    """What runs a session, the names of its results, which leaves it takes, and which of these as float32.

    Labels of losses are checked: those among the leaves, and those that are computed, which are its last results.
    """

    session: FixedRun | MeasuredRun
    names: list[str]
    leaves: list[tuple[str, int]]
    widened: list[str]
    labels: list[FedLabel]
    computed: list[FedLabel]
    bytes: int


sessions: Structures[_Compiled] = Structures(_BYTES, lambda compiled: compiled.bytes)
_lock = RLock()


class Chain:
    """Pending calls in order, the leaves they read, which results are wanted, and the structural key of it all."""

    __slots__ = ("calls", "key", "leaves", "wanted")

    def __init__(self, targets: list[TapeNode]) -> None:
        mark = next(_marks)
        self.calls = calls = _pending(targets, mark)
        self.leaves: list[TapeNode] = []
        self.wanted: dict[int, list[TapeNode]] = {}
        key: list[Any] = []
        add = key.append
        for node in targets:
            node.mark = mark
        for at, call in enumerate(calls):
            call.offset = at * OUTPUTS
            add(call.signature.number)
            if call.others is not None:
                self._want_others(call.others, mark)
            for node in call.inputs:  # type: ignore[assignment]
                if node is None:
                    add(None)
                elif node.array is not None:
                    if node.mark != mark:
                        node.mark, node.offset = mark, -1 - len(self.leaves)
                        self.leaves.append(node)
                        add(node.kind)
                    add(node.offset)
                else:
                    add(node.call.offset + node.index)  # type: ignore[union-attr]
                    if node.mark != mark:
                        node.mark = mark
                        if node.handle is not None and node.handle() is not None:
                            self._want(node)
        for node in targets:
            self._want(node)
        key.extend(self.wanted)
        self.key = tuple(key)

    def form(self) -> Form:
        """The structure apart from sizes and constants, and the kinds of all results and leaves."""
        key: list[Any] = []
        kinds: list[Kind | None] = []
        for call in self.calls:
            key.append(call.signature.loose)
            kinds.extend(call.signature.kinds)
            for node in call.inputs:
                if node is None:
                    key.append(None)
                else:
                    key.append(node.offset if node.array is not None else node.call.offset + node.index)  # type: ignore[union-attr]
        key.extend(self.wanted)
        for leaf in self.leaves:
            key.append(leaf.kind.loose)
            kinds.append(leaf.kind)
        return Form(tuple(key), kinds)

    def _want(self, node: TapeNode) -> None:
        assert node.call is not None
        self.wanted.setdefault(node.call.offset + node.index, []).append(node)

    def _want_others(self, others: list[Any], mark: int) -> None:
        """Results that nobody in this chain reads, but the user holds: they come at no cost now."""
        for reference in others:
            node = reference()
            if node is not None and node.array is None and node.mark != mark:
                if node.handle is not None and node.handle() is not None:
                    node.mark = mark
                    self._want(node)

    def output_at(self, number: int) -> tuple[Call, int]:
        """The call and output that an entry of ``wanted`` means."""
        return self.calls[number // OUTPUTS], number % OUTPUTS


_marks = count(1)
OUTPUTS = 4096
"""More outputs than any operator has: a call's offset is so many times its position."""


def _pending(targets: list[TapeNode], mark: int) -> list[Call]:
    calls: list[Call] = []
    stack: list[Any] = [node.call for node in targets]
    while stack:
        call = stack.pop()
        if call.mark == mark:
            continue
        call.mark = mark
        calls.append(call)
        for node in call.inputs:
            if node is not None and node.array is None:
                producer = node.call
                if producer.mark != mark:
                    stack.append(producer)
    calls.sort(key=attrgetter("serial"))
    return calls


def evaluate(nodes: Iterable[TapeNode], forget: bool = True) -> None:
    """Compute these nodes, and every node on the way whose tensor the user still holds.

    Raises:
        ExecutionError: with onnxruntime's reason, if it refuses or fails.
        FeedError: if labels of a loss are no classes.
    """
    targets = [node for node in nodes if node.array is None]
    if not targets:
        return
    with _lock:
        _evaluate(targets, forget)


def _evaluate(targets: list[TapeNode], forget: bool) -> None:
    chain = Chain(targets)
    leaves = chain.leaves
    compiled = sessions.get(chain.key, chain.form, lambda kinds: _session(chain, kinds))
    try:
        feeds: dict[str, Any] = {name: leaves[at].array for name, at in compiled.leaves}
        for name in compiled.widened:
            feeds[name] = feeds[name].astype(np.float32)
        for label in compiled.labels:
            check_classes(feeds[label.name], label.name, label.classes, label.ignored, _LABELS)
        results = compiled.session.run(compiled.names, feeds, None)
        if compiled.computed:
            for label, value in zip(reversed(compiled.computed), reversed(results), strict=False):
                check_classes(value, label.name, label.classes, label.ignored, _LABELS)
    except FeedError:
        raise
    except Exception as error:
        raise UnfitOperands(f"onnxruntime failed while computing eager tensors: {error}") from error
    counts["runs"] += 1
    for array, nodes_of in zip(results, chain.wanted.values(), strict=not compiled.computed):
        for node in nodes_of:
            type = node.kind.type  # What a run returned may have another element type than the tensor.
            node.array = array.astype(type.dtype.numpy, copy=False) if isinstance(type, TensorType) else array
            node.depth = 0
            if node.stop and forget:
                node.call = None


def _session(chain: Chain, kinds: Sequence[Kind | None] | None) -> _Compiled:
    writer = Writer()
    if kinds is not None:
        writer.take_kinds(kinds, chain.calls, chain.leaves)
    feeds: list[tuple[str, int]] = []
    for at, node in enumerate(chain.leaves):
        if writer.kind_of_leaf(node).array is None:
            feeds.append((writer.feed(node).name, at))
        else:
            writer.constant(node)
    for call in chain.calls:
        writer.write(call)
    results = [writer.variables[chain.output_at(number)] for number in chain.wanted]
    outputs = [writer.block.build.Cast(v, to=1) if _is_odd(v.type) else v for v in results]
    drop_guards_of_rules(writer.block.ops)  # all labels are checked
    if kinds is not None:
        require_classes(writer.block.ops)
    computed = _computed_labels(writer)
    outputs += list(computed)
    graph = compile(writer.program, outputs, runs=True, checks_labels=True)
    session = _opened(graph, _largest(chain))
    counts["sessions"] += 1
    read = {v.name for v in graph.inputs}
    leaves = [(name, at) for name, at in feeds if name in read]
    widened = [name for name, at in leaves if _is_odd(chain.leaves[at].kind.type)]
    names = [v.name for v in outputs]
    return _Compiled(session, names, leaves, widened, graph.labels, list(computed.values()), _bytes(chain))


def _opened(graph: Graph, largest: int) -> FixedRun | MeasuredRun:
    """A session of a graph whose largest value has so many elements."""

    def opened(threads: int | None) -> Any:
        return open_graph(graph, CPUPlace(), threads, stops_spinning=threads != 1)._sess.run

    if largest <= _SMALL_WORK:
        return FixedRun(opened(1))
    # Each session draws a stream of its own.
    return FixedRun(opened(None)) if any(op.type in RANDOM for op in graph.operators) else MeasuredRun(opened)


def _computed_labels(writer: Writer) -> dict[Variable, FedLabel]:
    """Labels of losses that are results of other calls, and where gradients of losses take 1 from probabilities.

    Raises:
        FeedError: if one is a constant that is no class.
    """
    computed: dict[Variable, FedLabel] = {}
    inputs = set(writer.block.inputs)
    checked = {op.inputs[1] for op in writer.block.ops if has_labels(op)}
    for op in writer.block.ops:
        scores, label = op.inputs[:2] if len(op.inputs) > 1 else (None, None)
        classes = scores.dims[1] if scores is not None and scores.dims is not None and len(scores.dims) > 1 else None
        if label is None or not isinstance(classes, int):
            continue
        if op.type == "ScatterElements" and is_written_for(op, *LOSSES):
            # The loss itself need not be computed with its gradient. What does not count is 0 here.
            if _labels_behind(label) not in checked:
                computed[label] = FedLabel("label", classes, None)
        elif has_labels(op) and fed_label(op, inputs) is None:
            ignored = op.attr("ignore_index")
            if label.value is not None and label.op is None:
                check_classes(label.value.numpy(), "label", classes, ignored, _LABELS)
            else:
                computed[label] = FedLabel("label", classes, ignored)
    return computed


def require_classes(operators: Iterable[Operator]) -> None:
    """Check that the number of classes is known to each loss with labels, and to each gradient of one.

    Raises:
        NeedsSizes: if it is not, as labels are compared with it.
    """
    for op in operators:
        scores = op.inputs[0] if op.inputs else None
        is_symbol = scores is not None and scores.dims is not None and len(scores.dims) > 1 and isinstance(scores.dims[1], str)
        if is_symbol and (has_labels(op) or is_written_for(op, *LOSSES)):
            raise NeedsSizes(f"{op.type}: labels are compared with the number of classes.")


def _labels_behind(index: Variable) -> Variable:
    """The labels that the gradient of a loss made an index of, by its own operators"""
    while index.op is not None and index.op.inputs[0] is not None and is_written_for(index.op, *LOSSES):
        index = index.op.inputs[0]
    return index


def _is_odd(type: Any) -> bool:
    """Whether onnxruntime's Python interface cannot take or return values of this type: bfloat16 and 8-bit floats."""
    return isinstance(type, TensorType) and type.dtype.numpy.kind == "V"


def _largest(chain: Chain) -> int:
    """Elements of the largest value."""
    return max(map(_elements, _known_types(chain)), default=0)


def _bytes(chain: Chain) -> int:
    """What a session of these takes, about: all values of a run."""
    return _LEAST + sum(type.dtype.bits * _elements(type) // 8 for type in _known_types(chain))


def _elements(type: TensorType) -> int:
    dims: Any = type.dims
    return math.prod(dims)


def _known_types(chain: Chain) -> list[TensorType]:
    kinds = [kind for call in chain.calls for kind in call.signature.kinds if kind is not None]
    kinds += [node.kind for node in chain.leaves]
    return [kind.type for kind in kinds if isinstance(kind.type, TensorType) and kind.is_known]


class Writer:
    """Writes recorded calls into a program; ``variables`` maps (call, output) and leaf nodes to its variables."""

    def __init__(self) -> None:
        self.program = Program()
        self.block = self.program.global_block()
        self.variables: dict[Any, Variable] = {}
        self.operators: dict[Call, list[Operator]] = {}
        self._kinds: dict[Any, Kind | None] = {}
        self._count = 0

    def take_kinds(self, kinds: Sequence[Kind | None], calls: Sequence[Call], leaves: Sequence[TapeNode]) -> None:
        """Write values of these kinds instead of those that were recorded: all results of the calls, then the leaves."""
        given = iter(kinds)
        for call in calls:
            for index in range(len(call.signature.kinds)):
                self._kinds[call, index] = next(given)
        for node in leaves:
            self._kinds[node] = next(given)

    def kind_of_leaf(self, node: TapeNode) -> Kind:
        """The kind of a leaf as it is written, with an array where it is a constant."""
        return self._kinds.get(node) or node.kind

    def kinds_of(self, call: Call) -> list[Kind | None]:
        """The kinds of a call's results as they are written."""
        return [self._kinds.get((call, index)) or kind for index, kind in enumerate(call.signature.kinds)]

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _new(self, prefix: str, kind: Kind, op: Operator | None = None) -> Variable:
        v = Variable(self.block, self._name(prefix), kind.type, op)
        v.entries = kind.entries
        return v

    def feed(self, node: TapeNode, as_it_is: bool = False) -> Variable:
        """An input for a leaf; types that numpy lacks come in as float32, unless ``as_it_is``."""
        v: Variable = self._new("x", self.kind_of_leaf(node))
        v.entries = None
        v.is_data = True
        self.block.register(v)
        self.block.inputs.append(v)
        self.variables[node] = v
        dtype = v.dtype
        if _is_odd(v.type) and not as_it_is:
            v.type = TensorType(_FLOAT32, v.dims)
            self.variables[node] = self.block.build.Cast(v, to=dtype.number)
        return v

    def constant(self, node: TapeNode) -> Variable:
        variable = self.variables[node] = self.program.constant(node.kind.array)  # type: ignore[arg-type]
        return variable

    def read(self, node: TapeNode | None) -> Variable | None:
        if node is None:
            return None
        variable = self.variables.get(node)
        return self.variables[node.call, node.index] if variable is None else variable

    def write(self, call: Call) -> None:
        """Append what a call stands for."""
        signature = call.signature
        inputs = [self.read(node) for node in call.inputs]
        if signature.fragment is not None:
            self._write_fragment(call, inputs)
            return
        operator = Operator(self.block, signature.type, inputs, [], dict(signature.attrs), signature.domain)
        for index, kind in enumerate(self.kinds_of(call)):
            v = None if kind is None else self._new("y", kind, operator)
            operator.outputs.append(v)
            if v is not None:
                self.variables[call, index] = v
        self.block.append(operator)
        self.operators[call] = [operator]

    def _write_fragment(self, call: Call, inputs: list[Variable | None]) -> None:
        fragment = call.signature.fragment
        mapping = {mine: v for mine, v in zip(fragment.inputs, inputs, strict=True) if v is not None}
        for op in fragment.operators:
            for v in op.operands():
                if v is not None and v not in mapping and v.value is not None and v.op is None:
                    mapping[v] = self.program.constant(v.value.numpy())
        written = copy_operators(fragment.operators, mapping, self.block, lambda v: self._name("z"))
        for operator in written:
            self.block.append(operator)
            for inner in (operator, *(o for body in operator.blocks() for o in all_operators_of(body))):
                inner.name = ""
        self.operators[call] = written
        for index, v in enumerate(fragment.outputs):
            self.variables[call, index] = mapping.get(v, v)


_FLOAT32 = Array.of(np.zeros((), np.float32)).dtype
