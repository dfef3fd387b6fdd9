"""The walker: goes through a block's operators in reverse, asks the rule table for each, and does what is common to all.

Common to all: which operators matter, undoing broadcasting, adding up, naming, pruning. Rules only say the formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onnxgrad.core.autodiff.checkpoints import Recompute
from onnxgrad.core.autodiff.expand import expand_operator, write_beside
from onnxgrad.core.autodiff.node import Node
from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.bodies import drop_unread, map_sequence, reads_of
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_block
from onnxgrad.core.ir.forms import check_form, naming_operator
from onnxgrad.core.ir.infer import infer_leniently, infer_window_ranks
from onnxgrad.core.ir.operator import Expansion, Operator, Role
from onnxgrad.core.ir.origin import Origin
from onnxgrad.core.ir.traverse import captured_variables, needed_operators, substitute
from onnxgrad.core.ir.types import OptionalType, SequenceType, TensorType, merge_types
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.accumulate import add_up, conform, unbroadcast
from onnxgrad.core.rules.common import with_rank
from onnxgrad.core.rules.registry import Entry, find_entry
from onnxgrad.errors import RuleError, UnsupportedGradient

__all__ = ["Walk"]


class Walk:
    """One backward pass over one block. Everything is staged; nothing is appended to the block."""

    def __init__(self, block: Block, operators: list[Operator], blocked: Iterable[Variable] = ()) -> None:
        self.block = block
        self.operators = operators
        self.stage: list[Operator] = []
        self.blocked = set(blocked)
        self.contributions: dict[Variable, list[Variable]] = {}
        self.gradients: dict[Variable, Variable] = {}
        self.expansions: dict[Operator, Expansion] = {}
        self.tapes: dict[Operator, Any] = {}
        self.segmented: set[Block] = set()
        self.redirect: dict[Variable, Variable] = {}
        self.active: set[Variable] = set()
        self.quantized: set[Variable] = set()
        self.quantized_outside: set[Variable] = set()
        self.recompute: Recompute | None = None
        self.extended: list[Operator] = []
        self.spans: list[tuple[Operator, int, int]] = []
        """Which part of the stage belongs to which operator."""
        for op in operators:
            if op.expansion is not None:
                self._redirect(op, op.expansion)

    # What matters ----------------------------------------------------------------------------------------------------

    def key(self, v: Variable) -> Variable:
        """Return the variable that replaces ``v``: the expansion's result where its operator is expanded."""
        while v in self.redirect:
            v = self.redirect[v]
        return v

    def recomputed(self, v: Variable | None) -> Variable | None:
        return v if v is None or self.recompute is None else self.recompute.current.get(v, v)

    def builder(self, key: str = "", origin: Origin | None = None) -> Builder:
        return Builder(self.block, self.stage, Role.BACKWARD, key, origin)

    def is_blocked(self, v: Variable) -> bool:
        return v in self.blocked or v.cuts

    def find_active(self, sources: list[Variable]) -> None:
        """Mark every variable that depends on a source through operators that carry gradients."""
        self.active = {self.key(v) for v in sources if not self.is_blocked(v)}
        self.quantized = set(self.quantized_outside)
        for op in self.operators:
            if op in self.expansions or op.expansion is not None:
                continue
            if not any(v is not None and self.key(v) in self.active for v in op.operands()):
                continue
            entry = find_entry(op)
            if entry is not None and entry.state == "stops":
                continue
            passes_on = self._reads_quantized(op) or _quantizes(op, entry)
            for v in op.outputs:
                if v is None or self.is_blocked(v):
                    continue
                if _carries(v):
                    self.active.add(v)
                elif passes_on:
                    self.active.add(v)
                    self.quantized.add(v)

    def _reads_quantized(self, op: Operator) -> bool:
        """Return whether it reads integers that carry a gradient; if it cannot, its rule is refused when the gradient arrives"""
        return bool(self.quantized) and any(v is not None and self.key(v) in self.quantized for v in op.inputs)

    def prepare(self, sources: list[Variable], targets: list[Variable]) -> None:
        """Find what matters, and expand the operators on the path that are differentiated through a body."""
        while True:
            self.find_active(sources)
            todo = [op for op in self._path(targets) if op not in self.expansions and self._is_expanded(op)]
            if not todo:
                return
            done: dict[Operator, list[Operator]] = {}
            for op in todo:
                stage: list[Operator] = []
                builder = Builder(self.block, stage, Role.BACKWARD, _label(op))
                check_form(op)
                with naming_operator(op, "write it as others"):
                    expansion = expand_operator(op, builder, self.tapes, self.segmented)
                self.expansions[op] = expansion
                self._redirect(op, expansion)
                done[op] = stage
            self.operators = [inner for op in self.operators for inner in (op, *done.get(op, ()))]

    def _is_expanded(self, op: Operator) -> bool:
        entry = find_entry(op)
        if entry is not None and entry.prepare is not None:
            return op not in self.tapes
        if entry is not None:
            return entry.state == "expands" and not entry.beside
        return (op.domain, op.type, op.overload) in op.block.program.functions

    def _redirect(self, op: Operator, expansion: Expansion) -> None:
        for v, w in zip(op.outputs, expansion.outputs, strict=True):
            if v is not None and w is not None:
                self.redirect[v] = w

    def _path(self, targets: list[Variable]) -> list[Operator]:
        wanted = {self.key(v) for v in targets}
        path = []
        for op in reversed(self.operators):
            if op in self.expansions or op.expansion is not None:
                continue
            if not any(v is not None and v in wanted and v in self.active for v in op.outputs):
                continue
            operands = [self.key(v) for v in op.operands() if v is not None]
            if any(v in self.active for v in operands):
                path.append(op)
                wanted.update(operands)
        return path

    # Walking ---------------------------------------------------------------------------------------------------------

    def seed(self, target: Variable, value: Variable) -> None:
        if self.key(target) in self.active:
            self.contributions.setdefault(self.key(target), []).append(value)

    def run(self) -> None:
        """Walk back from the seeds; afterwards ``gradients`` holds one entry per variable that received something."""
        for op in reversed(self.operators):
            if op in self.expansions or op.expansion is not None:
                continue
            if not any(v is not None and v in self.contributions for v in op.outputs):
                continue
            start = len(self.stage)
            self._step(op)
            self.spans.append((op, start, len(self.stage)))
        for v in list(self.contributions):
            self._finish(v)

    def _finish(self, v: Variable) -> Variable | None:
        """Close the books on a variable: add up what arrived and name the sum."""
        contributions = self.contributions.pop(v, None)
        if contributions is None:
            return self.gradients.get(v)
        total = add_up(self.builder(v.grad_name), contributions)
        if total.name == "" and total.op is not None and total.block is self.block:
            total.type = _stamp(v, total)
            total._name = v.grad_name
        self.gradients[v] = total
        return total

    def _step(self, op: Operator) -> None:
        infer_window_ranks(op)
        gradients = [None if v is None else self._ranked(v, self._finish(v)) for v in op.outputs]
        captures = captured_variables(op) if any(True for _ in op.blocks()) else []
        operands: list[Variable | None] = [*op.inputs, *captures]
        wanted = [v is not None and self.key(v) in self.active and self._can_receive(v) for v in operands]
        if not any(wanted):
            return
        entry = find_entry(op)
        if entry is not None and entry.state == "stops":
            return  # Reached because the gradient of its own output is wanted.
        function = self._function(op, entry)
        touched = self._reads_quantized(op) or any(v is not None and v in self.quantized for v in op.outputs)
        if touched and not (entry is not None and (entry.moves or entry.quantizes)):
            raise UnsupportedGradient(
                f"{op}: no gradient is written through the integers of a quantised tensor here. "
                "Dequantise first (QuantizeLinear, DequantizeLinear, then the operator), or set stop_gradient on its inputs."
            )
        if self.recompute is not None:
            self.recompute.enter(op, self.builder, next(g for g in gradients if g is not None))
        label = _label(op)
        builder = self.builder(label, Origin(op.type, of=next((v for v in op.outputs if v is not None), None)))
        node = Node(op, self, wanted, captures, next(g for g in gradients if g is not None))
        check_form(op)
        with naming_operator(op, "write its gradient"):
            results = function(builder, node, *gradients)
        if not isinstance(results, (tuple, list)):
            results = (results,)
        if any(g is not None for g in results[len(operands) :]):
            raise RuleError(f"the rule of {op} returned {len(results)} gradients for {len(operands)} inputs.")
        broadcasts = entry.broadcasts if entry is not None else False
        for i, (v, g, is_wanted) in enumerate(zip(operands, results, wanted, strict=False)):
            if g is None or v is None or not is_wanted:
                continue
            like = self.recomputed(v)
            assert like is not None
            if broadcasts is True or (isinstance(broadcasts, tuple) and i in broadcasts):
                g = unbroadcast(builder, g, like)
            self._contribute(v, conform(builder, g, like, str(op)))

    def _can_receive(self, v: Variable) -> bool:
        return _carries(v) or self.key(v) in self.quantized

    def _contribute(self, v: Variable, g: Variable) -> None:
        self.contributions.setdefault(self.key(v), []).append(g)

    def _function(self, op: Operator, entry: Entry | None):  # type: ignore[no-untyped-def]
        if entry is None:
            domain = op.domain or "ai.onnx"
            raise UnsupportedGradient(
                f"{op}: no gradient rule is registered for {op.type} of domain {domain!r}. "
                "Register one with @onnxgrad.gradient, or set stop_gradient on its inputs."
            )
        if entry.state == "unsupported" or entry.function is None:
            raise UnsupportedGradient(f"{op}: no gradient, because {entry.because}. Set stop_gradient on its inputs to cut here.")
        if entry.beside:
            return self._differentiate_beside
        return entry.function

    def _differentiate_beside(self, op: Builder, node: Node, *gradients: Variable | None) -> list[Variable | None]:
        """Differentiate through the operator's expansion; of that, what is read is computed again, and the operator stays."""
        names = {g: g.name for g in gradients if g is not None}
        stage: list[Operator] = []
        results = write_beside(node, Builder(self.block, stage, Role.BACKWARD, op.key))
        for y, r, g in zip(node.outputs, results, gradients, strict=True):
            if g is not None and r is None:
                label = y.name if y is not None else "one"
                raise UnsupportedGradient(
                    f"{node}: no gradient is written of its output {label!r}. Do not use that output in the loss."
                )
        sources = dict.fromkeys(v for i, v in enumerate(node.inputs) if v is not None and node.wants(i))
        inner = Walk(self.block, stage)
        inner.blocked = self.blocked
        read = zip(node.inputs, node.operator.inputs, strict=True)
        inner.quantized_outside = {v for v, w in read if v is not None and w is not None and self.key(w) in self.quantized}
        inner.prepare(list(sources), [r for r, g in zip(results, gradients, strict=True) if r is not None and g is not None])
        for r, g in zip(results, gradients, strict=True):
            if r is not None and g is not None:
                if not _carries(r) and r not in inner.active:
                    raise RuleError(f"the expansion of {node} ends in integers that carry no gradient.")
                inner.seed(r, g)
        inner.run()
        written = [inside for inside in inner.operators if inside not in inner.expansions]
        substitute([*written, *inner.stage], {v: inner.key(v) for v in inner.redirect})
        # What the operator itself computes need not be computed again.
        known = {r: y for r, y in zip(results, node.outputs, strict=True) if r is not None and y is not None and _same_dtype(r, y)}
        substitute([*written, *inner.stage], known)
        for inside in inner.stage:
            for v in inside.outputs:
                if v is not None:
                    v._name = ""
        for g, name in names.items():
            g._name = name
        self.stage += written + inner.stage
        self.extended += inner.extended
        grads: list[Variable | None] = []
        for v in node.inputs:
            g = inner.gradients.get(inner.key(v)) if v is not None and v in sources else None
            grads.append(None if g is None else known.get(g, g))
            if v is not None:
                sources.pop(v, None)
        return grads

    def extend_outputs(self, op: Operator, index: int) -> Variable:
        """Let an operator declare one more output (of its recomputed copy, where there is one)."""
        if self.recompute is not None:
            op = self.recompute.copies.get(op, op)
        if op.declared_outputs is None:
            op.declared_outputs = len(op.outputs)
        self.extended.append(op)
        op.outputs.extend([None] * (index + 1 - len(op.outputs)))
        present = op.outputs[index]
        if present is not None:
            return present
        schema = op.schema
        assert schema is not None
        slot = schema.outputs[min(index, len(schema.outputs) - 1)].name
        first = next(v for v in op.outputs if v is not None)
        staged = not first.name or op.block.vars.get(first.name) is not first
        variable = Variable(op.block, "" if staged else op.block.program.fresh_name(f"{first.name}/{slot}"), None, op)
        op.outputs[index] = variable
        infer_leniently(op)
        if not staged:
            op.block.register(variable)
        return variable

    # Bodies ----------------------------------------------------------------------------------------------------------

    def differentiate_body(
        self,
        body: Block,
        parent: Block,
        seeds: list[Variable | None],
        sources: list[Variable],
        known: Mapping[Variable, Variable] | None = None,
    ) -> tuple[Block, list[Variable | None]]:
        """Copy ``body`` under ``parent``, append its backward pass and drop what it does not need.

        ``seeds`` are the gradients of the body's outputs; ``sources`` are outer variables or inputs of the body; ``known``
        holds values of the body that need not be recomputed. The outputs of the new block are left empty for the caller.
        """
        program = parent.program
        mapping: dict[Variable, Variable] = {}
        copy = copy_block(body, mapping, parent, lambda v: program.fresh_name(v.name))
        inner = Walk(copy, list(copy.ops))
        inner.blocked = self.blocked
        mapped = [mapping.get(v, v) for v in sources]
        inner.quantized_outside = {w for v, w in zip(sources, mapped, strict=True) if self.key(v) in self.quantized}
        outputs = copy.outputs
        inner.prepare(mapped, outputs)
        for v, g in zip(outputs, seeds, strict=True):
            if g is not None and _carries(v):
                inner.seed(v, inner.as_type_of(v, g))
        inner.run()
        grads = [inner.gradients.get(inner.key(v)) for v in mapped]
        if known:
            replaced = {mapping[v]: w for v, w in known.items() if v in mapping}
            substitute([*inner.operators, *inner.stage], replaced)
            grads = [None if g is None else replaced.get(g, g) for g in grads]
        inner.commit_into_body(grads)
        return copy, grads

    def drop_unread_tapes(self, read: set[Variable]) -> None:
        """Let taped operators record only what somebody reads, and compute what they replace."""
        aliases = set(self.redirect.values())
        for op in self.tapes:
            drop_unread(op, read | aliases)

    def _ranked(self, v: Variable, g: Variable | None) -> Variable | None:
        """A gradient that does not know its rank learns it from its variable"""
        if g is None or g.rank is not None or v.rank is None or not isinstance(v.type, TensorType):
            return g
        copy: Variable = self.builder(v.name).Identity(g)
        copy.type = v.type
        return copy

    def as_type_of(self, v: Variable, g: Variable) -> Variable:
        """``g`` with v's rank: the branches of an If may differ, and files declare wrong ones for the If itself."""
        if v.rank is None or v.rank == g.rank:
            return g
        builder = self.builder(v.name)
        copy = with_rank(builder, g, v.rank) if g.rank is None else builder.Identity(g)
        copy.type = v.type
        return copy

    def commit_into_body(self, roots: list[Variable | None]) -> None:
        """Make a body hold exactly the forward and backward operators that ``roots`` need, in order."""
        program = self.block.program
        operators = [op for op in self.operators if op not in self.expansions] + self.stage
        substitute(operators, {v: self.key(v) for v in self.redirect})
        kept = needed_operators(operators, roots)
        self.drop_unread_tapes(reads_of(kept) | {v for v in roots if v is not None})
        registered = set(self.block.vars.values())
        self.block.ops = []
        names = {v for op in kept for v in op.outputs}
        self.block.vars = {n: v for n, v in self.block.vars.items() if v.op is None or v in names}
        for op in kept:
            for v in op.outputs:
                if v is not None and v not in registered:
                    v._name = program.fresh_name(f"{self.block.name}/{v.name or f'{op.name}/{op.type}'}")
            op.name = next(v.name for v in op.outputs if v is not None)
            self.block.append(op)


def _carries(v: Variable) -> bool:
    """Return whether a value can have a gradient: floating-point tensors, and sequences or optionals of them."""
    type = v.type
    while isinstance(type, (SequenceType, OptionalType)):
        type = type.element
    return type is None or type.dtype.is_float


def _same_dtype(x: Variable, y: Variable) -> bool:
    return isinstance(x.type, TensorType) and isinstance(y.type, TensorType) and x.type.dtype == y.type.dtype


def _quantizes(op: Operator, entry: Entry | None) -> bool:
    """Return whether its integer outputs stand for real numbers; a function or a body may hold an operator of which this is true"""
    if entry is not None and entry.quantizes:
        return True
    function = op.block.program.functions.get((op.domain, op.type, op.overload)) if entry is None else None
    bodies = list(op.blocks()) if function is None else [function.body]
    return any(_quantizes(inner, find_entry(inner)) for body in bodies for inner in body.ops)


def _stamp(x: Variable, g: Variable):  # type: ignore[no-untyped-def]
    """A gradient has its primal's type, whatever inference could find.

    That of an optional is its element's, that of a quantised tensor a real number.
    """
    type = x.type.element if isinstance(x.type, OptionalType) else x.type
    if isinstance(type, TensorType) and isinstance(g.type, TensorType) and type.dtype != g.type.dtype:
        type = TensorType(g.type.dtype, type.dims)
    return merge_types(type, g.type)


def _label(op: Operator) -> str:
    """Return the prefix of the names created while differentiating an operator."""
    first = next((v.name for v in op.outputs if v is not None and v.name), op.type)
    return f"{first}@GRAD"


_LARGEST_ONES = COSTS.count("backward.largest_ones")


def ones_like(op: Builder, target: Variable) -> Variable:
    """The default cotangent."""
    if isinstance(target.type, SequenceType):
        return map_sequence(op, [target], ones_like)
    shape = target.static_shape
    if shape is not None and math.prod(shape) <= _LARGEST_ONES:
        return op.constant(np.ones(shape, target.dtype.numpy))
    one = op.constant(np.ones((), target.dtype.numpy))
    return op.Expand(one, op.Shape(target))
