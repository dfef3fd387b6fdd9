"""The backward pass of recorded calls: the path becomes a Program, whose gradients are appended by the rule table.

What is appended is kept by the structure of the path and recorded as one call, so a second identical step builds nothing.
Its operands are values of the forward pass: those that were read are there already, the others are computed with it.

Tests: tests/eager/test_backward.py, tests/eager/test_leaves.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.graph.plan import make_plan
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.traverse import needed_operators, substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.eager.evaluate import OUTPUTS, Writer, counts, evaluate, require_classes
from onnxgrad.eager.integers import OpenWriter, cast_gradient
from onnxgrad.eager.node import FREED, Call, Kind, Meta, Signature, TapeNode, calls_behind, kind_of
from onnxgrad.eager.record import Fragment, add_gradients, record_call, wrap
from onnxgrad.eager.structures import Form, Structures
from onnxgrad.eager.tensor import Tensor, full_like
from onnxgrad.errors import ArgumentTypeError, FreedGraph
from onnxgrad.internal import state

__all__ = ["Backward", "backward"]

_PASSES = 512
"""Backward passes that are kept."""
PYTHON = "PyLayer"
"""The type of calls whose gradient is a Python function."""


def backward(tensors: Sequence[Tensor], seeds: Sequence[Tensor | None] | None, retain_graph: bool) -> Backward:
    """Add gradients to ``.grad`` of the leaves and of the tensors that retain theirs; returns the finished pass."""
    engine = Backward(create_graph=False)
    targets = [tensor._node for tensor in tensors]
    grads = engine.run(targets, list(seeds) if seeds is not None else [None] * len(targets), None)
    with state.guard(gradients=False):
        stored = [_accumulate(node, gradient) for node, gradient in grads]
        evaluate([tensor._node for tensor in stored] + targets)
    for tensor in stored:
        tensor._node.call, tensor._node.stop = None, False
    if not retain_graph:
        engine.free()
    return engine


def _accumulate(node: TapeNode, gradient: Tensor) -> Tensor:
    meta = node.meta
    if meta is None:
        meta = node.meta = Meta()
    held: Tensor | None = meta.grad
    if held is not None and held._node is meta.cleared and held.dtype is gradient.dtype:
        held = None  # zeros
    grad = meta.grad = gradient.detach() if held is None else add_gradients(held, gradient)
    return grad


def _key(node: TapeNode) -> Any:
    """The key of a value: the output of a call, or the leaf itself."""
    return node if node.call is None or node.stop else (node.call, node.index)


class Backward:
    """One backward pass. It goes in stages where Python has a say: at hooked tensors and at PyLayers.

    Attributes:
        calls: the forward calls it went through.
    """

    def __init__(self, create_graph: bool, blocked: Sequence[TapeNode] = ()) -> None:
        self.create_graph = create_graph
        self.calls: list[Call] = []
        self.leaves: list[TapeNode] = []
        self._blocked = {_key(node) for node in blocked}
        self._found: dict[Any, tuple[TapeNode, Tensor]] = {}
        self._arrived: dict[Any, tuple[TapeNode, Tensor]] = {}
        self._cuts: dict[Any, TapeNode] = {}
        self._joints: dict[Any, TapeNode] = {}
        self._absent: set[Any] = set()
        self._stores = False
        """Whether gradients are stored in tensors, and not returned."""

    def run(
        self, targets: list[TapeNode], seeds: list[Tensor | None], wanted: list[TapeNode] | None
    ) -> list[tuple[TapeNode, Tensor]]:
        """Compute the gradients of ``wanted``, or of all leaves and retaining tensors, without tensors that receive nothing."""
        self.calls, inner, self.leaves = self._collect(targets)
        self._cuts = {_key(n): n for n in inner if _is_cut(n)}
        if wanted is None:
            wanted = self.leaves + [n for n in inner if n.meta is not None and n.meta.retain is not None]
            self._stores = True
        sought = {_key(node): node for node in wanted}
        self._joints = joints(self.calls, targets, [*self._cuts, *sought]) if len(self.calls) > _LONG else {}
        self._cuts.update(self._joints)
        sought.update(self._cuts)
        with state.guard(gradients=self.create_graph):
            plain: list[tuple[TapeNode, Tensor | None]] = []
            for node, seed in zip(targets, seeds, strict=True):
                if _key(node) in self._cuts:
                    self._arrive(node, seed if seed is not None else full_like(node.kind.type, 1.0))
                elif not node.stop:
                    plain.append((node, seed))
            self._stage(plain, sought)
            while self._arrived:
                self._pass_cut(sought)
            reached = {_key(node) for node in (wanted if self._stores else [*inner, *self.leaves])}
            reached -= {key for key in self._absent if key not in self._found and isinstance(key, TapeNode)}
            return [(node, self._gradient(node)) for node in wanted if _key(node) in reached]

    def free(self) -> None:
        """Give up the recorded graph: another backward pass through it is an error."""
        for call in self.calls:
            call.freed = True
            for node in call.inputs:
                if node is not None and node.array is not None and node.call is not None and node.call.freed:
                    node.call = FREED

    def _collect(self, targets: list[TapeNode]) -> tuple[list[Call], list[TapeNode], list[TapeNode]]:
        """Calls, inner nodes and leaves that gradients can reach."""
        mark = next(_marks)
        calls: list[Call] = []
        inner: dict[Any, TapeNode] = {}
        leaves: list[TapeNode] = []
        stack = [node for node in targets if not node.stop]
        while stack:
            node = stack.pop()
            if node.mark == mark:
                continue
            node.mark = mark
            call = node.call
            if self._blocked and _key(node) in self._blocked:
                continue
            if call is None:
                leaves.append(node)
                continue
            inner.setdefault((call, node.index), node)
            if call.freed:
                raise FreedGraph(
                    f"{call.signature.type}: this part of the graph was freed by an earlier backward pass. "
                    "Call that one with retain_graph=True."
                )
            if call.mark != mark:
                call.mark = mark
                calls.append(call)
                stack.extend([n for n in call.inputs if n is not None and not n.stop])
        calls.sort(key=attrgetter("serial"))
        return calls, list(inner.values()), leaves

    def _arrive(self, node: TapeNode, gradient: Tensor) -> None:
        store = self._arrived if _key(node) in self._cuts else self._found
        present = store.get(_key(node))
        total = gradient if present is None else add_gradients(present[1], gradient)
        store[_key(node)] = (node, total)

    def _gradient(self, node: TapeNode) -> Tensor:
        """A node's gradient, after hooks; zeros where operators on every path, such as Floor, are constant almost everywhere."""
        # The hooks of inner tensors were called on the way.
        entry = self._found.get(_key(node))
        gradient = full_like(node.kind.type, 0) if entry is None else entry[1]
        return gradient if _key(node) in self._cuts else _call_hooks(node, gradient)[1]

    def _pass_cut(self, sought: dict[Any, TapeNode]) -> None:
        """Let hooks or a PyLayer see the gradient that is complete, which is the latest call's, and go on from there."""
        call = max((node.call for node, _ in self._arrived.values() if node.call is not None), key=attrgetter("serial"))
        outputs: dict[int, Tensor] = {}
        for key in [key for key in self._arrived if key[0] is call]:
            node, gradient = self._arrived.pop(key)
            kept, gradient = _call_hooks(node, gradient)
            if key in self._joints:
                # Part by part, so that one session computes those that are alike.
                evaluate([gradient._node, *(found._node for _, found in self._found.values())])
            else:
                self._found[key] = (node, kept if self._stores else gradient)
            outputs[node.index] = gradient
            if call.signature.type != PYTHON:
                self._stage([(node, gradient)], sought)
        if call.signature.type == PYTHON:
            onward: list[tuple[TapeNode, Tensor | None]] = []
            for node, gradient in call.signature.attrs["backward"](call, outputs):
                if gradient is None:
                    self._absent.add(_key(node))
                elif _key(node) in self._cuts:
                    self._arrive(node, gradient)
                else:
                    onward.append((node, gradient))
            self._stage(onward, sought)

    def _stage(self, seeds: list[tuple[TapeNode, Tensor | None]], sought: dict[Any, TapeNode]) -> None:
        """The gradients that reach ``sought`` from ``seeds`` without passing a cut."""
        inner: list[tuple[TapeNode, Tensor | None]] = []
        for node, seed in seeds:
            if node.stop or _key(node) in self._blocked:
                continue
            if node.call is None:
                if node in sought:
                    self._arrive(node, seed if seed is not None else full_like(node.kind.type, 1.0))
            else:
                inner.append((node, seed))
        if not inner:
            return
        ends = {key for key in self._cuts if not any(_key(node) == key for node, _ in inner)} | self._blocked
        # A seed that is a cut arrived when its gradient was taken.
        wanted = sought if not self._cuts else {key: node for key, node in sought.items() if key not in self._cuts or key in ends}
        path = _Path(inner, wanted, ends, None if self._cuts or self._blocked else self.calls)
        if not path.calls:
            return
        for node, gradient in path.differentiate():
            self._arrive(node, gradient)


def joints(calls: Sequence[Call], targets: Sequence[TapeNode], others: Sequence[Any]) -> dict[Any, TapeNode]:
    """Find computed values that all gradients pass from what follows to what is before, by their keys.

    Args:
        calls: of the path, in recording order.
        targets: what is differentiated.
        others: keys of values that are no joints.
    """
    positions = {call: at for at, call in enumerate(calls)}
    last: dict[Any, int] = {_key(node): len(calls) for node in targets if not node.stop}
    nodes: dict[Any, TapeNode] = {}
    for at, call in enumerate(calls):
        for node in call.inputs:
            if node is not None and not node.stop and node.call in positions:
                key = (node.call, node.index)
                nodes[key] = node
                last[key] = max(last.get(key, 0), at)
    # How many values are made before a call and read by it or later ones.
    change = [0] * (len(calls) + 1)
    for key, at in last.items():
        if isinstance(key, tuple) and key[0] in positions:
            change[positions[key[0]] + 1] += 1
            if at < len(calls):
                change[at + 1] -= 1
    alive, counts_alive = 0, []
    for step in change:
        alive += step
        counts_alive.append(alive)
    excluded = set(others) | {_key(node) for node in targets}
    return {
        key: node
        for key, node in nodes.items()
        if node.array is not None and key not in excluded and counts_alive[positions[key[0]] + 1] == 1
    }


_LONG = 64
"""Calls of a path that is differentiated in parts where it has joints."""
_marks = count(1 << 40)


def _is_cut(node: TapeNode) -> bool:
    """Whether Python has a say in the gradient."""
    return bool(node.meta is not None and node.meta.hooks) or (node.call is not None and node.call.signature.type == PYTHON)


def _call_hooks(node: TapeNode, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient that the tensor retains, and the one that flows on: later hooks change the latter alone."""
    kept, meta = gradient, node.meta
    for number, hook in list(meta.hooks.items()) if meta is not None else ():
        result = hook(gradient)
        if result is not None and not isinstance(result, Tensor):
            raise ArgumentTypeError(f"a hook returns a Tensor or None, not {type(result).__name__}.")
        gradient = gradient if result is None else result
        if meta is not None and meta.retain is not None and number in meta.retain:
            kept = gradient
    return kept, gradient


class _Template(NamedTuple):
    """A backward pass for one structure: a fragment, where its operands come from, and which of the sought it gives."""

    signature: Signature | None
    sources: list[tuple[str, int, int]]
    present: list[int]
    extensions: list[tuple[int, int, Kind]]


templates: Structures[_Template] = Structures(_PASSES, lambda template: 1)


class _Path:
    """The calls between seeds and what is sought, numbered for a structural key."""

    def __init__(
        self,
        seeds: list[tuple[TapeNode, Tensor | None]],
        sought: dict[Any, TapeNode],
        ends: set[Any],
        calls: list[Call] | None,
    ) -> None:
        self.seeds = seeds
        self.ends = ends
        self.results: dict[int, TapeNode] = {}
        """Values by the position of the call that computes them and their index."""
        self.calls = calls_behind([node for node, _ in seeds], self._is_passed) if calls is None else calls
        self.positions: dict[Call | None, int] = {call: at for at, call in enumerate(self.calls)}
        self.leaves: list[TapeNode] = []
        self.wanted: list[tuple[TapeNode, int, int]] = []
        self.key = self._key_of(sought, is_loose=False)
        self._sought = sought

    def form(self) -> Form:
        """The structure apart from sizes and constants, and the kinds of all results, leaves and seeds."""
        key = self._key_of(self._sought, is_loose=True)
        kinds: list[Kind | None] = [kind for call in self.calls for kind in call.signature.kinds]
        kinds += [node.kind for node in self.leaves]
        kinds += [seed._node.kind for _, seed in self.seeds if seed is not None]
        return Form(key, kinds)

    def _key_of(self, sought: dict[Any, TapeNode], is_loose: bool) -> tuple[Any, ...]:
        """Number leaves and what is wanted of ``sought``; a key of it all, with or without sizes and constants."""
        self.leaves = []
        numbers: dict[TapeNode, int] = {}
        reached: dict[Any, tuple[TapeNode, int, int]] = {}
        key: list[Any] = []
        for call in self.calls:
            key.append(call.signature.loose if is_loose else call.signature.number)
            for node in call.inputs:
                if node is None:
                    key.append(None)
                    continue
                position = self.positions.get(node.call)
                if position is not None:
                    self.results[position * OUTPUTS + node.index] = node
                if position is not None and not node.stop and not (self.ends and _key(node) in self.ends):
                    at, index = position, node.index
                    key.append(at * OUTPUTS + index)
                else:
                    if node not in numbers:
                        numbers[node] = len(self.leaves)
                        self.leaves.append(node)
                        key.append(node.kind.loose if is_loose else node.kind)
                    at, index = -1, numbers[node]
                    key.append(-1 - index)
                if not node.stop:
                    wanted = _key(node)
                    if wanted in sought and wanted not in reached:
                        reached[wanted] = node, at, index
        for node, _ in self.seeds:  # One that is sought itself.
            if _key(node) in sought and _key(node) not in self.ends:
                reached.setdefault(_key(node), (node, self.positions[node.call], node.index))
        self.wanted = list(reached.values())
        key.append("wanted")
        key.extend((at, index) for _, at, index in self.wanted)
        key.append("seeds")
        for node, seed in self.seeds:
            self.results[self.positions[node.call] * OUTPUTS + node.index] = node
            kind = None if seed is None else seed._node.kind
            key.append((self.positions[node.call], node.index, kind and (kind.loose if is_loose else kind.type)))
        return tuple(key)

    def _is_passed(self, node: TapeNode) -> bool:
        call: Any = node.call
        return not node.stop and call.signature.type != PYTHON and _key(node) not in self.ends

    def differentiate(self) -> list[tuple[TapeNode, Tensor]]:
        """Record the backward pass; the gradients of ``wanted`` that there are."""
        if not self.wanted:
            return []
        template = templates.get(self.key, self.form, self._template)
        if template.signature is None:
            return []
        signature = template.signature.with_outputs(tuple([kind_of(self.wanted[at][0].kind.type) for at in template.present]))
        for at, _, kind in template.extensions:
            forward = self.calls[at].signature
            self.calls[at].signature = forward.with_outputs((*forward.kinds, kind))
        nodes = record_call(signature, tuple([self._source(*source) for source in template.sources]))
        return [(self.wanted[at][0], wrap(node)) for at, node in zip(template.present, nodes, strict=True)]

    def _source(self, sort: str, at: int, index: int) -> TapeNode:
        if sort == "leaf":
            return self.leaves[index]
        if sort == "seed":
            seed: TapeNode = self.seeds[index][1]._node  # type: ignore[union-attr]
            return seed
        call = self.calls[at]
        kind = call.signature.kinds[index]
        assert kind is not None
        return self.results.get(at * OUTPUTS + index) or TapeNode(kind, None, call, index, depth=1)

    # Building ------------------------------------------------------------------------------------------------------

    def _template(self, kinds: Sequence[Kind | None] | None) -> _Template:
        counts["backward"] += 1
        writer = OpenWriter([node for call in self.calls for node in call.inputs] + [node for node, _ in self.seeds])
        kinds_of_seeds = [seed._node.kind for _, seed in self.seeds if seed is not None]
        if kinds is not None:
            writer.take_kinds(kinds, self.calls, self.leaves)
            kinds_of_seeds = list(kinds[len(kinds) - len(kinds_of_seeds) :])  # type: ignore[arg-type]
        for node in self.leaves:
            if writer.kind_of_leaf(node).array is None:
                writer.feed(node, as_it_is=True)
            else:
                writer.constant(node)
        for call in self.calls:
            writer.write(call)
        variables = [
            writer.differentiable(node, writer.variables[self.leaves[index]] if at < 0 else writer.variables[self.calls[at], index])
            for node, at, index in self.wanted
        ]
        for v in variables:
            if v.is_leaf:
                v._stop = False
        targets = [writer.differentiable(node, writer.variables[node.call, node.index]) for node, _ in self.seeds]
        given = iter(kinds_of_seeds)
        seeds = [
            None if seed is None else writer.feed(TapeNode(kind_of(next(given).type), None), as_it_is=True)
            for _, seed in self.seeds
        ]
        cotangents = [
            None if g is None else cast_gradient(writer.block.build, g, v.dtype) for g, v in zip(seeds, targets, strict=True)
        ]
        with state.fresh_names():  # Names made while differentiating do not count in the user's name counters.
            grads = gradients(targets, variables, cotangents)
        if kinds is not None:
            require_classes(writer.block.ops)
        return self._fragment(writer, grads, seeds)

    def _fragment(self, writer: Writer, grads: list[Variable | None], seeds: list[Variable | None]) -> _Template:
        present = [at for at, g in enumerate(grads) if g is not None]
        if not present:
            return _Template(None, [], [], [])
        origin: dict[Variable, tuple[str, int, int]] = {writer.variables[n]: ("leaf", -1, i) for i, n in enumerate(self.leaves)}
        origin.update({v: ("seed", -1, i) for i, v in enumerate(seeds) if v is not None})
        extensions: list[tuple[int, int, Kind]] = []
        for at, call in enumerate(self.calls):
            for index in range(len(call.signature.kinds)):
                if call.signature.kinds[index] is not None:
                    origin[writer.variables[call, index]] = ("call", at, index)
            if call.signature.fragment is None:
                extensions += self._extensions(writer.operators[call][0], at, origin)
        outputs = [self._own(writer, grads[at], self.wanted[at][0].kind, origin) for at in present]  # type: ignore[arg-type]
        plan = make_plan(writer.program, outputs)
        # An operator within a program that was loaded is computed again, by its expansion where it has one.
        substitute(plan.operators, {v: plan.resolve(v) for v in plan.aliases if v not in origin})
        operators = needed_operators(plan.operators, outputs, known=origin)
        inside = {v for op in operators for v in op.outputs if v is not None}
        read: dict[Variable, None] = {}
        for op in operators:
            read.update(dict.fromkeys(v for v in op.operands() if v is not None and v in origin and v not in inside))
        inputs = [v for v in read if not (v.value is not None and v.op is None)]
        kinds = tuple([kind_of(self.wanted[at][0].kind.type) for at in present])
        signature = Signature("Backward", "", {}, kinds, Fragment(operators, inputs, outputs))
        return _Template(signature, [origin[v] for v in inputs], present, extensions)

    def _extensions(self, op: Operator, at: int, origin: dict[Variable, tuple[str, int, int]]) -> list[tuple[int, int, Kind]]:
        """Outputs that rules asked a forward operator for; the recorded call will declare them too."""
        added: list[tuple[int, int, Kind]] = []
        for index in range(op.declared_outputs or len(op.outputs), len(op.outputs)):
            v = op.outputs[index]
            assert v is None or v.type is not None
            added.append((at, index, None if v is None else kind_of(v.type)))  # type: ignore[arg-type]
            if v is not None:
                origin[v] = ("call", at, index)
        return added

    def _own(self, writer: Writer, g: Variable, kind: Kind, origin: dict[Variable, Any]) -> Variable:
        """A gradient that an operator of the backward pass computes, in the element type of the value."""
        if isinstance(kind.type, TensorType):
            g = cast_gradient(writer.block.build, g, kind.type.dtype)
        if g in origin or g.op is None:
            return writer.block.build.Identity(g)
        return g
