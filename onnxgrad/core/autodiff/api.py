"""append_backward and gradients: the public face of differentiation.

Tests: tests/core/autodiff/test_append_backward.py.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from onnxgrad.core.autodiff.backward import Walk, ones_like
from onnxgrad.core.autodiff.checkpoints import Recompute, crossing_variables, cuts_after
from onnxgrad.core.autodiff.memory import MemoryPlan, measure, plan_memory
from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.bodies import reads_of
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import Sizes, SizesGiven, know_sizes
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.transaction import Snapshot, transaction
from onnxgrad.core.ir.traverse import needed_operators
from onnxgrad.core.ir.types import TensorType, merge_types
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.passes.dimensions import NAME_DIMENSIONS
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.rules.common import zeros_like
from onnxgrad.core.rules.registry import find_entry
from onnxgrad.errors import ArgumentError, ArgumentTypeError, NotAVariable
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.collector import collector_paused

__all__ = ["Checkpoints", "append_backward", "gradients", "variables_of"]

Callback: TypeAlias = Callable[..., object]
Checkpoints: TypeAlias = "Sequence[Variable | str] | str | None"
Names: TypeAlias = "Iterable[Variable | str] | None"

_LARGEST_SEED = COSTS.count("api.largest_seed")


class Attaches(Protocol):
    """What lets ranks exchange the gradients of a loss, such as ``distributed.Strategy``."""

    def attach(self, loss: Variable, /) -> object: ...


@checked
def append_backward(
    loss: Variable,
    parameter_list: Names = None,
    no_grad_set: Names = None,
    callbacks: Sequence[Callback] | None = None,
    checkpoints: Checkpoints = None,
    distop_context: Attaches | None = None,
    *,
    memory_budget: int | None = None,
    sizes: SizesGiven = None,
) -> list[tuple[Variable, Variable]]:
    """Append the backward pass of ``loss`` to its program, as standard ONNX operators.

    Args:
        loss: the variable to differentiate; of several elements, the gradient is that of their sum.
        parameter_list: variables or names whose gradients to return; None for all trainable parameters. Names that are
            unknown, and variables that receive no gradient, such as data whose ``stop_gradient`` is True, are left out.
        no_grad_set: variables or names that gradients do not flow through.
        callbacks: each is called as ``cb(block=..., context=...)`` after every appended operator but the seed. ``context``
            maps gradient names to forward variables; ``context["__current_op_desc__"]`` is the new Operator.
        checkpoints: tensors to keep. Everything between them is recomputed in the backward pass, which takes less memory
            and more time. A tensor inside the body of a Loop or Scan lets that loop hold about 2 sqrt(n) of its n states.
            ``"auto"`` chooses them in the main graph, by a model of the memory whose peak becomes about as small as it can be.
        distop_context: how ranks exchange the gradients: a ``distributed.Strategy``, or any object whose ``attach(loss)`` is
            called when they are there.
        memory_budget: bytes that the results and gradients of one run may take at a time, weights and optimizer state not
            counted; as little as possible is recomputed. Implies ``checkpoints="auto"``.
        sizes: for the model of the memory: a number for every unknown dimension of the inputs, or a dict of them by the
            dimension's name, ``batch`` also for first ones without a name. What is not given is 1 for a first dimension and
            64 for others; a budget needs all of them.

    Returns:
        ``[(parameter, gradient), ...]`` in the order the parameters were created, or that of ``parameter_list``. The gradient of
        ``x`` is called ``x@GRAD``; a name that is taken gets Paddle's prefix ``grad/``.

    Raises:
        NotAVariable: (an AssertionError and a TypeError) if ``loss`` is not a Variable.
        ArgumentError: if no operator computes ``loss``, or a callback cannot be called.
        ArgumentTypeError: if another argument has the wrong type.
        UnsupportedGradient: if an operator on the path has no gradient. The program is then as it was.
        MemoryBudgetError: (an ArgumentError) if no choice keeps the budget; the message has the smallest peak.

    Example:
        >>> x = static.data("x", [None, 3], "float32")
        >>> loss = paddle.mean(static.nn.fc(x, size=1, name="line"))
        >>> [(p.name, g.name) for p, g in static.append_backward(loss)]
        [('line.w_0', 'line.w_0@GRAD'), ('line.b_0', 'line.b_0@GRAD')]

        Sixteen layers in about half the memory:

        >>> h = x = static.data("rows", ["batch", 256])
        >>> for _ in range(16):
        ...     h = F.gelu(static.nn.fc(h, 256))
        >>> pairs = static.append_backward(paddle.mean(h), checkpoints="auto", sizes={"batch": 4096})
        >>> plan = h.block.program.memory_plan
        >>> plan.peak < 0.6 * plan.peak_without
        True
    """
    if not isinstance(loss, Variable) or loss.is_eager:
        raise NotAVariable(f"append_backward needs a Variable as loss, not {type(loss).__name__}; a Tensor has backward().")
    loss = loss.block.program.present(loss)
    if loss.is_leaf:
        raise ArgumentError(f"no operator computes {loss.name}, so it has no gradient. Pass the result of an operator.")
    if not loss.is_float:
        raise ArgumentError(f"{loss.name} is not a floating-point tensor, so it has no gradient.")
    _check_callbacks(callbacks)
    if distop_context is not None and not callable(getattr(distop_context, "attach", None)):
        raise ArgumentTypeError(f"distop_context is a distributed.Strategy, not {type(distop_context).__name__}.")
    program = loss.block.program
    blocked = _variables(program, no_grad_set, "no_grad_set")
    listed = None if parameter_list is None else _variables(program, parameter_list, "parameter_list")
    auto = _automatic(checkpoints, memory_budget, sizes)
    kept = [] if auto is not None else _variables(program, checkpoints, "checkpoints")
    wanted: list[Variable]
    if listed is None:
        wanted = [p for p in program.parameters if p.trainable and not p.stop_gradient]
    else:
        wanted = [v for v in listed if not _stops(v)]
    open_leaves = [v for v in program.list_vars() if v._stop is False and _begins(v) and not isinstance(v, Parameter)]
    pass_ = BackwardPass(program, blocked, list(callbacks or ()), kept, auto)
    pass_.adds_zeros = True
    grads = pass_.append([(loss, None)], [*wanted, *open_leaves], loss.block)
    if distop_context is not None:
        distop_context.attach(loss)
    return [(v, grads[v]) for v in wanted if v in grads]


def _begins(v: Variable) -> bool:
    """Return whether no gradient leads further back: a leaf, or what constants and random numbers make, such as ``full``."""
    return v.is_leaf or (v.op is not None and all(operand is None or operand.stop_gradient for operand in v.op.inputs))


@checked
def gradients(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Variable | Sequence[Variable | None] | None = None,
    no_grad_set: Names = None,
) -> list[Variable | None]:
    """Gradients of ``sum(targets * target_gradients)`` with respect to ``inputs``, appended to the program.

    Args:
        targets: one variable or several; several are added up.
        inputs: one variable or several: parameters, graph inputs whose ``stop_gradient`` is False, or inner variables.
        target_gradients: the cotangent of each target, of its shape; None for ones.
        no_grad_set: variables or names that gradients do not flow through.

    Returns:
        One entry per input: its gradient, or None where the input does not affect the targets or its gradient is stopped.

    Raises:
        ArgumentTypeError: if targets or inputs are not variables.
        ArgumentError: if the number or a shape of ``target_gradients`` does not fit.
        UnsupportedGradient: if an operator on the path has no gradient. The program is then as it was.

    Example:
        >>> x = static.data("x", [None, 3], "float32")
        >>> x.stop_gradient = False
        >>> static.gradients([x * x], [x])
        [Variable(x@GRAD: float32[?, 3])]
    """
    target_list = [v if v.is_eager else v.block.program.last(v) for v in variables_of(targets, "targets")]
    input_list = variables_of(inputs, "inputs")
    cotangents: list[Variable | None] = [None] * len(target_list)
    if target_gradients is not None:
        cotangents = [target_gradients] if isinstance(target_gradients, (Variable, str)) else list(target_gradients)
        for cotangent in cotangents:
            if cotangent is not None and not isinstance(cotangent, Variable):
                raise NotAVariable(
                    f"target_gradients holds Variables and None, not {type(cotangent).__name__}. Use program.constant(array)."
                )
    if not target_list:
        raise ArgumentError("gradients needs at least one target.")
    if len(cotangents) != len(target_list):
        raise ArgumentError(f"{len(cotangents)} target_gradients are given for {len(target_list)} targets.")
    program, block = target_list[0].block.program, target_list[0].block
    for v in [*target_list, *input_list]:
        if v.block.program is not program:
            raise ArgumentError(f"{v.name} belongs to another program than {target_list[0].name}.")
    for target, cotangent in zip(target_list, cotangents, strict=True):
        if target.block is not block:
            raise ArgumentError(f"the targets {target_list[0].name} and {target.name} are in different blocks.")
        if cotangent is not None and _differ(target, cotangent):
            raise ArgumentError(f"target_gradients: {cotangent!r} does not have the shape of {target!r}.")
    blocked = _variables(program, no_grad_set, "no_grad_set")
    no_gradient = set(blocked)
    wanted = [v for v in input_list if v not in no_gradient and not _stops(v)]
    pass_ = BackwardPass(program, blocked, [], [])
    pass_.adds_zeros = True
    grads = pass_.append(list(zip(target_list, cotangents, strict=True)), wanted, block)
    return [grads.get(v) for v in input_list]


def _stops(v: Variable) -> bool:
    return v.stop_gradient if v.is_leaf else v.cuts


def _differ(a: Variable, b: Variable) -> bool:
    if a.dims is None or b.dims is None:
        return False
    return len(a.dims) != len(b.dims) or any(
        x != y for x, y in zip(a.dims, b.dims, strict=True) if isinstance(x, int) and isinstance(y, int)
    )


def variables_of(items: Any, what: str) -> list[Variable]:
    """One variable or several as a list.

    Raises:
        ArgumentTypeError: if they are anything else.
    """
    variables = [items] if isinstance(items, Variable) else items
    if not isinstance(variables, (list, tuple)):
        raise ArgumentTypeError(f"{what} is a Variable or a list of them, not {type(items).__name__}.")
    for item in variables:
        if not isinstance(item, Variable) or item.is_eager:
            raise ArgumentTypeError(f"{what} holds {type(item).__name__}; every member must be a Variable of a program.")
    return list(variables)


def _variables(program: Program, items: Names, what: str) -> list[Variable]:
    """Return the members that the program knows; unknown names are dropped, as Paddle does."""
    if items is None:
        return []
    if isinstance(items, (str, Variable)) or not isinstance(items, (list, tuple, set, frozenset)):
        raise ArgumentTypeError(f"{what} is a list, tuple or set of Variables and names, not {type(items).__name__}.")
    variables = []
    for item in items:
        if not isinstance(item, (Variable, str)):
            raise ArgumentTypeError(f"{what} holds {type(item).__name__}; every member must be a Variable or a name.")
        if isinstance(item, Variable) and not item.is_eager:
            variables.append(item)
        else:  # A layer's eager parameter is in the program under its name.
            name = item if isinstance(item, str) else item.name
            variables.extend(block.vars[name] for block in program.blocks if name in block.vars)
    return variables


def _check_callbacks(callbacks: Sequence[Callback] | None) -> None:
    if callbacks is None:
        return
    if not isinstance(callbacks, (list, tuple)):
        raise ArgumentTypeError(f"callbacks is a list or tuple of functions, not {type(callbacks).__name__}.")
    for callback in callbacks:
        if not callable(callback):
            raise ArgumentError(f"callbacks holds {callback!r}, which cannot be called.")


class Automatic(NamedTuple):
    """Checkpoints that are chosen by a model of the memory."""

    budget: int | None
    sizes: SizesGiven


def _automatic(checkpoints: Checkpoints, budget: int | None, sizes: SizesGiven) -> Automatic | None:
    """Return the mode by which checkpoints are chosen, or None where the user names them"""
    if isinstance(checkpoints, str) and checkpoints != "auto":
        raise ArgumentError(f"checkpoints is a list of tensors or 'auto', not {checkpoints!r}.")
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, (int, np.integer))):
        raise ArgumentTypeError(f"memory_budget is a number of bytes, an int, not {type(budget).__name__}.")
    if budget is None and not isinstance(checkpoints, str):
        return None
    if checkpoints is not None and not isinstance(checkpoints, str):
        raise ArgumentError("memory_budget chooses the checkpoints itself. Leave checkpoints out, or the budget.")
    return Automatic(budget, sizes)


class BackwardPass:
    """Stages a backward pass, prunes it, then commits it operator by operator. A failure leaves the program as it was."""

    def __init__(
        self,
        program: Program,
        blocked: list[Variable],
        callbacks: list[Callback],
        checkpoints: list[Variable],
        automatic: Automatic | None = None,
    ) -> None:
        self.program = program
        self.automatic = automatic
        self.cuts: tuple[int, ...] = ()
        self.blocked = blocked
        self.callbacks = callbacks
        self.checkpoints = checkpoints
        self.seeds: list[Operator] = []
        self.adds_zeros = False
        self.claimed: set[str] = set()
        self.reserved: set[str] = set()
        self.seed_of: dict[Variable, Variable] = {}
        self.primal_of: dict[Variable, Variable] = {}

    def append(
        self, targets: list[tuple[Variable, Variable | None]], wanted: list[Variable], block: Block
    ) -> dict[Variable, Variable]:
        with collector_paused(), transaction(self.program):
            lift(self.program)
            run_program_pass(self.program, NAME_DIMENSIONS)
            if self.automatic is not None:
                before = Snapshot(self.program)
                plan = self._choose(self.automatic, targets, wanted, block)
                before.restore()
                self.program.plan.memory, self.cuts = plan, plan.cuts
            self.program._appending_grad_times += 1
            grads = self._append(targets, wanted, block)
            self.program.gradient_names |= self.claimed
        return grads

    def _append(
        self, targets: list[tuple[Variable, Variable | None]], wanted: list[Variable], block: Block
    ) -> dict[Variable, Variable]:
        walk = self._stage(targets, wanted, block)
        grads = self._commit(walk, wanted, block)
        for name in self.reserved:
            del self.program.names[name]
        return grads

    def _choose(
        self, automatic: Automatic, targets: list[tuple[Variable, Variable | None]], wanted: list[Variable], block: Block
    ) -> MemoryPlan:
        """Stage the backward pass without recomputation, see what it takes, and choose where to cut; the caller undoes it."""
        walk = self._stage(targets, wanted, block)
        results = [walk.gradients[walk.key(v)] for v in wanted if walk.key(v) in walk.gradients]
        operators, staged = _before_expansion(walk), needed_operators(walk.stage, results)
        spans = [(op, set(walk.stage[a:b])) for op, a, b in walk.spans]
        sizes = Sizes(automatic.sizes)
        sizes.check(self.program.inputs)
        know_sizes([*operators, *staged], lambda v: sizes.of(v.dims or ()))
        kept = [walk.key(target) for target, _ in targets]
        costs = measure(operators, staged, spans, kept, results, counted=not sizes.assumed)
        return plan_memory(costs, automatic.budget, sizes)

    def _stage(self, targets: list[tuple[Variable, Variable | None]], wanted: list[Variable], block: Block) -> Walk:
        outputs = [target for target, _ in targets]
        # What reads a parameter behind its update depends on no update: its gradient is that of the values that were read.
        updated = {new for new in self.program.read_for if new.op is not None and new.op.role is Role.OPTIMIZE}
        operators = _reachable(block.ops, outputs, updated)
        versions = (
            {v: [new for new, old in self.program.read_for.items() if old is v] for v in wanted} if self.program.read_for else {}
        )
        starts = [*wanted, *(new for news in versions.values() for new in news)]
        walk = Walk(block, operators, self.blocked)
        on_path = _on_path(walk, outputs, starts=starts[len(wanted) :])
        self.claimed = {v.grad_name for v in on_path}
        self.seed_of = {}
        self._reserve(self.claimed | {v.grad_name for v in wanted})
        inside = [v for v in self.checkpoints if v.block is not block]
        walk.segmented = {v.block for v in inside}
        _check_inside(inside, operators)
        walk.prepare(starts, outputs)
        for target, cotangent in targets:
            seed = cotangent if cotangent is not None else self._seed(walk, target)
            if isinstance(target.type, TensorType) and isinstance(seed.type, TensorType):
                seed.type = merge_types(target.type._replace(dtype=seed.dtype), seed.type)
            walk.seed(target, seed)
            self.seed_of[seed] = target
        self.seeds = list(walk.stage)
        between = [v for v in self.checkpoints if v.block is block]
        operators = _before_expansion(walk)
        if self.cuts:
            walk.recompute = Recompute(operators, self.cuts, crossing_variables(operators, self.cuts), walk.stage)
        elif between:
            walk.recompute = Recompute(operators, cuts_after(operators, between), between, walk.stage)
        walk.run()
        for v, news in versions.items():
            parts = [walk.gradients[walk.key(one)] for one in (v, *news) if walk.key(one) in walk.gradients]
            if parts:
                walk.gradients[walk.key(v)] = reduce(walk.builder(v.grad_name).Add, parts)
        if self.adds_zeros:
            self._add_zeros(walk, _on_path(walk, outputs, through_bodies=False), wanted)
        return walk

    def _add_zeros(self, walk: Walk, on_path: list[Variable], wanted: list[Variable]) -> None:
        """Zeros for what the targets depend on only through steps, such as Floor: its gradient is zero, not absent."""
        reached = set(on_path)
        for v in wanted:
            if v in reached and walk.key(v) not in walk.gradients:
                zeros = zeros_like(walk.builder(v.grad_name), v)
                walk.gradients[walk.key(v)] = zeros

    def _reserve(self, names: set[str]) -> None:
        """Keep the names of gradients from the arguments of bodies, which are written first."""
        self.reserved = {name for name in names if name not in self.program.names and name not in self.program.gradient_names}
        self.program.names.update(dict.fromkeys(self.reserved, 0))

    def _seed(self, walk: Walk, target: Variable) -> Variable:
        """Ones: a constant called ``<target>@GRAD`` where the shape is known, else computed."""
        shape = target.static_shape
        if shape is None or prod(shape) > _LARGEST_SEED:
            return ones_like(walk.builder(target.grad_name), target)
        seed = Variable(self.program.global_block(), "", TensorType(target.dtype, shape))
        seed.value = TensorValue.of(np.ones(shape, target.dtype.numpy))
        return seed

    # Committing ------------------------------------------------------------------------------------------------------

    def _commit(self, walk: Walk, wanted: list[Variable], block: Block) -> dict[Variable, Variable]:
        grads = {v: walk.gradients[walk.key(v)] for v in wanted if walk.key(v) in walk.gradients}
        grads = self._give_own_variables(walk, grads)
        staged = needed_operators(walk.stage, grads.values())
        walk.drop_unread_tapes(reads_of(staged) | set(grads.values()))
        self._insert_expansions(walk, staged, block)
        self.primal_of = {g: v for v, g in walk.gradients.items()}
        forward_of = self.primal_of
        context: dict[str, Any] = {}
        for op in staged:
            for v in op.outputs:
                if v is not None:
                    self._name(v, op, forward_of.get(v))
            for v in op.operands():
                self._register_seed(v)
        for g in grads.values():
            self._register_seed(g)
        returned = set(grads.values())
        for v, g in walk.gradients.items():
            if (g.name and g.block.vars.get(g.name) is g) or g in returned:
                context[g.name] = v
        for op in staged:
            context.update({v.name: forward_of[v] for v in op.outputs if v is not None and v in forward_of})
        seeding = set(self.seeds)
        for op in staged:
            block.append(op)
            if op in seeding:
                continue
            for callback in self.callbacks:
                context["__current_op_desc__"] = op
                callback(block=block, context=context)
        return grads

    def _give_own_variables(self, walk: Walk, grads: dict[Variable, Variable]) -> dict[Variable, Variable]:
        """A gradient that is returned is called after its variable, also where a rule passed on somebody else's."""
        owners: set[Variable] = set()
        result: dict[Variable, Variable] = {}
        for v, g in grads.items():
            named = g.name in ("", walk.key(v).grad_name) and g.block.vars.get(g.name) is not g
            fresh = named and (g.op is not None or self.seed_of.get(g) is v)
            if not fresh or g in owners or g.block is not walk.block:
                builder = walk.builder(v.grad_name)
                copy = builder.Identity(g)
                copy._name = v.grad_name
                copy.type = v.type if copy.type is None else copy.type
                g = copy
                walk.gradients[walk.key(v)] = g
            elif walk.key(v) is not v:
                g._name = v.grad_name
            owners.add(g)
            result[v] = g
        return result

    def _insert_expansions(self, walk: Walk, staged: list[Operator], block: Block) -> None:
        """Put the expansions in use right behind the operators they replace."""
        if not walk.expansions:
            return
        read = reads_of(staged)
        live: dict[Operator, list[Operator]] = {}
        for op in reversed(list(walk.expansions)):
            inner = walk.expansions[op].operators
            if not any(v is not None and v in read for o in inner for v in o.outputs):
                continue
            op.expansion = walk.expansions[op]
            live[op] = inner
            read |= reads_of(inner)
        ordered: list[Operator] = []

        def append(op: Operator) -> None:
            ordered.append(op)
            for inner in live.get(op, ()):
                for v in inner.outputs:
                    if v is not None:
                        self._name(v, inner, None)
                        block.register(v)
                inner.block = block
                append(inner)

        for op in block.ops:
            append(op)
        block.ops = ordered

    def _name(self, v: Variable, op: Operator, forward: Variable | None) -> None:
        program = self.program
        label = op.name or "grad"
        if forward is not None or v.name.endswith("@GRAD"):
            v._name = self._gradient_name(v.name or (forward.grad_name if forward is not None else label))
            v._stop = False if v._stop is None else v._stop
        else:
            v._name = program.fresh_name(v.name or f"{label}/{op.type}")
        if v is next(w for w in op.outputs if w is not None):
            op.name = v.name

    def _gradient_name(self, wanted: str) -> str:
        program = self.program
        if wanted in self.reserved:
            self.reserved.remove(wanted)
            return wanted
        if wanted in program.names or wanted in program.gradient_names:
            wanted = "grad/" * program._appending_grad_times + wanted
        return program.fresh_name(wanted)

    def _register_seed(self, v: Variable | None) -> None:
        """Enter a constant seed that is used, as ``<target>@GRAD``."""
        if v is None or v.value is None or v.name:
            return
        v._name = self._gradient_name(self.seed_of[v].grad_name)
        block = self.program.global_block()
        block.register(v)
        block.initializers.append(v)


def _reachable(operators: list[Operator], outputs: list[Variable], known: Container[Variable]) -> list[Operator]:
    """The operators that outputs depend on, but for what only computes known values; an expanded operator brings its expansion."""
    wanted: set[Variable] = set()

    def want(v: Variable) -> None:
        wanted.add(v)
        expansion = v.op.expansion if v.op is not None else None
        if expansion is not None:
            wanted.update(w for w in expansion.outputs if w is not None)

    for v in outputs:
        want(v)
    kept: list[Operator] = []
    for op in reversed(operators):
        if any(v in wanted for v in op.outputs if v is not None):
            kept.append(op)
            for operand in op.operands():
                if operand is not None and operand not in known:
                    want(operand)
    kept.reverse()
    return kept


def _is_random_or_counts(op: Operator) -> bool:
    """Return whether the results are not functions of the operands' values, as those of EyeLike and RandomNormalLike."""
    entry = find_entry(op)
    return entry is not None and entry.state == "stops" and "derivative is zero" not in entry.because


def _on_path(walk: Walk, targets: list[Variable], through_bodies: bool = True, starts: Sequence[Variable] = ()) -> list[Variable]:
    """List the floating-point variables on a path from leaves that require a gradient to the targets.

    Paddle computes a gradient for each of these, also a zero one and one that nobody asked for. Of an operator with bodies it is
    not known which result depends on which operand.
    """
    varying: set[Variable] = set(starts)
    for op in walk.operators:
        operands = [v for v in op.operands() if v is not None]
        varying.update(v for v in operands if v.is_leaf and v._stop is False and not walk.is_blocked(v))
        passes = through_bodies or not any(True for _ in op.blocks())
        if passes and any(v in varying for v in operands) and not _is_random_or_counts(op):
            varying.update(v for v in op.outputs if v is not None and v.is_float and not walk.is_blocked(v))
    needed = set(targets)
    path: dict[Variable, None] = {}
    for op in reversed(walk.operators):
        if any(v is not None and v in needed and v in varying for v in op.outputs):
            reached = dict.fromkeys(v for v in op.operands() if v is not None and v in varying and v.is_float)
            path.update(reached)
            needed.update(reached)
    return list(path)


def _check_inside(checkpoints: list[Variable], operators: list[Operator]) -> None:
    """Refuse a checkpoint in a body that does not belong to a Loop or Scan of the main graph."""
    bodies = {body for op in operators if op.type in ("Loop", "Scan") for body in op.blocks()}
    for v in checkpoints:
        if v.block not in bodies:
            raise ArgumentError(f"the checkpoint {v.name} is not in the body of a Loop or Scan of the main graph. Leave it out.")


def _before_expansion(walk: Walk) -> list[Operator]:
    return [op for op in walk.operators if op.expansion is None and op not in walk.expansions]
