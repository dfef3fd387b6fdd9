"""Base of all optimizers: learning rate, clipping, decay, state, and appending the update.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, TypeAlias

import numpy as np

from onnxgrad.core.autodiff.api import Checkpoints, Names, append_backward
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.defaults import default_startup_program
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import SizesGiven
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.variable import LEARNING_RATE, Parameter, Variable, set_values
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import ArgumentError, Mismatch, NotAVariable
from onnxgrad.internal.arguments import as_flag, as_int, as_kind, as_number, as_text
from onnxgrad.internal.collector import collector_paused
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.eager import EagerSteps
from onnxgrad.optimizer.groups import Group, Parameters, as_clip, own_group, read_groups
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.master import MASTER, Master, float32_gradients, is_narrow, master_of, master_value
from onnxgrad.optimizer.regularizer import WeightDecay, as_decay

__all__ = ["Optimizer", "Pairs", "Parameters", "int_option", "number_option"]

Pairs: TypeAlias = "list[tuple[Variable, Variable]]"
_OF_A_GROUP = " of a group"


def number_option(owner: Optimizer, argument: str, value: float | Variable) -> float:
    """Read a number of an optimizer; a Variable counts with the value that it has now.

    Raises:
        Mismatch: if it lies outside the limits that the optimizer's class gives.
        WrongKind: if it is not a number.
    """
    return as_number(owner, argument, _present_value(value), **_limits_of(owner, argument))


def int_option(owner: Optimizer, argument: str, value: int | Variable) -> int:
    """Read an integer of an optimizer; a Variable counts with the value that it has now.

    Raises:
        Mismatch: if it lies outside the limits that the optimizer's class gives.
        WrongKind: if it is not an integer.
    """
    return as_int(owner, argument, _present_value(value), **_limits_of(owner, argument))


def _limits_of(owner: Optimizer, argument: str) -> dict[str, float]:
    return owner._limits.get(argument.removesuffix(_OF_A_GROUP), {})


def _present_value(value: float | Variable) -> object:
    return value.get_value().item() if isinstance(value, Variable) else value


class _Scheduled(ArgumentError, RuntimeError):
    """Paddle raises a RuntimeError for a rate that a scheduler decides."""


class Optimizer(EagerSteps):
    """Base of the optimizers.

    A subclass keeps its options as attributes, such as ``_beta1``, before it calls this constructor: those that a parameter group
    has of its own are then of the same kinds, and hold in their place while its parameters are updated.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        parameters: which parameters to train (variables or names); None for all trainable ones. Or groups: dicts with
            ``params`` and, for these alone, ``learning_rate`` (a factor), ``weight_decay``, ``grad_clip`` and options of the
            optimizer such as ``beta1``.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``; a parameter's own regularizer replaces it.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``; clipping comes before decay.
        name: kept as an attribute.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if the learning rate is None, or a group has an option that this optimizer has not.

    Example:
        >>> first, second = (paddle.to_tensor([1.0], stop_gradient=False) for _ in range(2))
        >>> groups = [{"params": [first]}, {"params": [second], "learning_rate": 0.5}]
        >>> sgd = paddle.optimizer.SGD(1.0, parameters=groups)
        >>> (first + second).sum().backward()
        >>> sgd.step()
        >>> first.tolist(), second.tolist()
        ([0.0], [0.5])
    """

    _limits: ClassVar[dict[str, dict[str, float]]] = {}
    """Between which numbers options lie, by name, as for ``as_number``."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Parameters = None,
        weight_decay: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        self._learning_rate = as_kind(self, "learning_rate", learning_rate, float | LRScheduler)
        self._decay = as_decay(self, weight_decay)
        self._clip = as_clip(self, grad_clip)
        self._parameters, self._groups = read_groups(self, parameters, self._decay, self._clip, self._own_options())
        for group in self._groups:
            group.options.update(self._of_same_kinds(group.options))
        self._rates: dict[Program, Variable] = {}
        self._accumulators: dict[Program, list[Variable]] = {}
        self._masters: dict[Variable, Master] = {}
        self._unclipped: dict[Variable, Variable] = {}
        self._awaited: dict[str, Any] = {}
        self._awaited_by_others = False
        self.in_transaction = False
        self._startup: Program | None = None
        self.name = as_text(self, "name", name)

    def _of_same_kinds(self, options: dict[str, Any]) -> dict[str, Any]:
        """Check the options of a group, such as ``_beta1``, by the kinds of this optimizer's own."""
        checked: dict[str, Any] = {}
        for key, value in options.items():
            usual, argument = getattr(self, key, None), f"{key.removeprefix('_')}{_OF_A_GROUP}"
            if isinstance(usual, bool):
                checked[key] = as_flag(self, argument, value)
            elif isinstance(usual, int):
                checked[key] = int_option(self, argument, value)
            elif isinstance(usual, float):
                checked[key] = number_option(self, argument, value)
        return checked

    # Learning rate -----------------------------------------------------------------------------------------------------

    def get_lr(self) -> float:
        """The present learning rate."""
        return float(self._learning_rate() if isinstance(self._learning_rate, LRScheduler) else self._learning_rate)

    def set_lr(self, value: float) -> None:
        """Change the learning rate of the next runs; no session is rebuilt.

        Args:
            value: the rate.

        Raises:
            ArgumentError: if a scheduler decides it.
        """
        if isinstance(self._learning_rate, LRScheduler):
            raise _Scheduled("a scheduler decides this learning rate. Change the scheduler.")
        self._learning_rate = float(value)
        for program, variable in self._rates.items():
            program.active_scope().set(variable.name, np.float32(value))

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Let a scheduler decide the learning rate of the next runs.

        Args:
            scheduler: that gives the rate from now on.

        Raises:
            ArgumentTypeError: if it is not one.
        """
        self._learning_rate = as_kind("set_lr_scheduler", "scheduler", scheduler, LRScheduler)
        for program, variable in self._rates.items():
            others = [entry for entry in program.plan.schedulers if entry[0] is not variable]
            program.plan.schedulers = [*others, (variable, scheduler)]

    def _rate(self, program: Program) -> Variable:
        rate = self._rates.get(program)
        if rate is None:
            rate = self._state(program, "learning_rate", np.array(self.get_lr(), np.float32))
            rate.doc = LEARNING_RATE
            self._rates[program] = rate
            if isinstance(self._learning_rate, LRScheduler):
                program.plan.schedulers.append((rate, self._learning_rate))
        return rate

    # Minimising --------------------------------------------------------------------------------------------------------

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Variable | str] | None = None,
        no_grad_set: Names = None,
        *,
        checkpoints: Checkpoints = None,
        memory_budget: int | None = None,
        sizes: SizesGiven = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward pass of ``loss`` and the update of the parameters.

        Of an eager loss, whose ``backward`` was called, this is ``step``.

        Args:
            loss: variable of one element.
            startup_program: receives the initialisation of the optimizer's state; None for the default one.
            parameters: which to train; None for those given to the constructor, or all.
            no_grad_set, checkpoints, memory_budget, sizes: passed to ``append_backward``.

        Returns:
            (operators of the update, pairs of parameter and gradient in program order). A parameter that another optimizer
            updates already is updated by both in turn, the second from where the first left it.

        Raises:
            NotAVariable: (an AssertionError) if ``loss`` is not a Variable.
            ArgumentError: if it does not have exactly one element.
        """
        if isinstance(loss, Variable) and loss.is_eager:
            self.step()
            return [], [(p, p.grad) for p in self._eager_parameters() if p.grad is not None]
        with self._changing(loss, startup_program):
            pairs = self.backward(
                loss, startup_program, parameters, no_grad_set, checkpoints=checkpoints, memory_budget=memory_budget, sizes=sizes
            )
            return self.apply_gradients(pairs, startup_program), pairs

    def _changing(self, v: Any, startup_program: Program | None) -> AbstractContextManager[None]:
        """A failure leaves the programs and this optimizer as they were."""
        programs = [v.block.program] if isinstance(v, Variable) else []
        return transaction(*programs, startup_program or default_startup_program(), self)

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Variable | str] | None = None,
        no_grad_set: Names = None,
        callbacks: Sequence[Callable[..., object]] | None = None,
        *,
        checkpoints: Checkpoints = None,
        memory_budget: int | None = None,
        sizes: SizesGiven = None,
    ) -> Pairs:
        """The pairs of parameter and gradient, without an update.

        Args:
            loss: of one element.
            startup_program: accepted for compatibility.
            parameters: variables or names; those of the optimizer unless given.
            no_grad_set: variables or names that gradients do not flow through.
            callbacks: functions ``(block, context)``, called with each operator that is appended.
            checkpoints: as for ``append_backward``.
            memory_budget: bytes, as for ``append_backward``.
            sizes: of open dimensions, as for ``append_backward``.
        """
        if not isinstance(loss, Variable):
            raise NotAVariable(f"minimize needs a Variable as loss, not {type(loss).__name__}.")
        if loss.static_shape is None or int(np.prod(loss.static_shape)) != 1:
            raise Mismatch(f"minimize needs a loss of one element; {loss!r} is not known to have one. Take its mean or sum.")
        chosen = parameters if parameters is not None else self._parameters
        listed = None if chosen is None else list(chosen)
        return append_backward(loss, listed, no_grad_set, callbacks, checkpoints, memory_budget=memory_budget, sizes=sizes)

    def apply_gradients(self, params_grads: Pairs, startup_program: Program | None = None) -> list[Operator]:
        """Append clipping, decay and the update for these pairs; returns the appended operators.

        Args:
            params_grads: (parameter, gradient) for each.
            startup_program: that initialises the state; the default one unless given.

        Raises:
            ArgumentError: if there are no pairs, or one is of a variable that is no state.
        """
        if not params_grads:
            raise ArgumentError("there is nothing to update: no parameter has a gradient. Check the loss and stop_gradient.")
        for p, _ in params_grads:
            if not p.persistable:
                raise ArgumentError(f"{p.name} is not a parameter: it is computed or fed in each run. Leave it out of parameters.")
        program = params_grads[0][0].block.program
        block = program.global_block()
        before = len(block.ops)
        with collector_paused(), self._changing(params_grads[0][0], startup_program):
            self._startup = startup_program
            op = Builder(block, role=Role.OPTIMIZE, key=f"{type(self).__name__.lower()}")
            pairs = self._clipped(op, float32_gradients(op, sorted(params_grads, key=lambda pair: pair[0].name)))
            rate = self._rate(program)
            own_options = [group for group in self._groups if group.options]
            for group in [None, *own_options]:
                members = [pair for pair in pairs if own_group(own_options, pair[0]) is group]
                with self._with_options({} if group is None else group.options):
                    self._append_updates(op, members, rate)
            if self._awaited_by_others and self._accumulators.get(program):
                given, here = next(iter(self._awaited)), self._accumulators[program][0].name
                raise ArgumentError(
                    f"the state of set_state_dict belongs to other parameters: it has {given}, not {here}. "
                    "Make the model under utils.unique_name.guard(), so that its names equal the names in the state."
                )
        return block.ops[before:]

    def _append_updates(self, op: Builder, pairs: Pairs, rate: Variable) -> None:
        updated = [self._updated(op, p) for p, _ in pairs]
        for own, (p, g), scale in zip(updated, pairs, self._scales(op, updated, rate), strict=True):
            op.key = f"{p.name}@UPDATE"
            new = self._update(op, own, self._decayed(op, own, g), scale)
            self._replace(own, new)
            if own is not p:
                self._replace(p, op.Cast(new, to=p.dtype.number))

    def _own_options(self) -> set[str]:
        """Return the numbers that only this optimizer's constructor takes, such as ``beta1``."""
        return set(inspect.signature(type(self).__init__).parameters) - set(inspect.signature(Optimizer.__init__).parameters)

    @contextmanager
    def _with_options(self, options: dict[str, Any]) -> Iterator[None]:
        """Let the options of a group hold, such as ``_beta1``."""
        before = {key: getattr(self, key) for key in options}
        vars(self).update(options)
        try:
            yield
        finally:
            vars(self).update(before)

    def _updated(self, op: Builder, p: Variable) -> Variable:
        """Return the variable that the optimizer's formula updates: the parameter, or of a 16-bit one its float32 master weight."""
        if not is_narrow(p):
            return p
        master = master_of(p)
        if master is None:
            assert p.static_shape is not None
            master = self._state(p.block.program, f"{p.name}{MASTER}", np.zeros(p.static_shape, np.float32), restores=True)
        self._accumulators.setdefault(p.block.program, []).append(master)
        op.key = f"{p.name}@UPDATE"
        self._masters[master] = Master(p, master_value(op, p, master))
        return master

    def _owner(self, p: Variable) -> Variable:
        """The parameter that a master weight belongs to; a parameter itself."""
        return self._masters[p].parameter if p in self._masters else p

    def _clipped(self, op: Builder, pairs: Pairs) -> Pairs:
        """Pairs with clipped gradients: those of each group together, and the others."""
        pairs_of: dict[Variable, tuple[Variable, Variable]] = {}
        self._unclipped = {}
        for group in [*self._groups, None]:
            members = [(p, g) for p, g in pairs if own_group(self._groups, p) is group]
            clip = self._clip if group is None else group.clip
            clipped = clip.apply(op, members) if clip is not None and members else members
            for (p, g), (_, unclipped) in zip(clipped, members, strict=True):
                pairs_of[p] = (p, g)
                self._unclipped[g] = unclipped
        return [pairs_of[p] for p, _ in pairs]

    def _decayed(self, op: Builder, p: Variable, g: Variable) -> Variable:
        own = self._own_decay(p)
        decay = own if own is not None else self._common_decay(p)
        return g if decay is None else decay.apply(op, self._present(p), g)

    def _own_decay(self, p: Variable) -> Any:
        """The regularizer that the parameter was made with."""
        owner = self._owner(p)
        return owner.regularizer if isinstance(owner, Parameter) else None

    def _common_decay(self, p: Variable) -> Any:
        """The decay of the parameter's group, or of the optimizer."""
        group = self._group(p)
        return self._decay if group is None else group.decay

    def _scales(self, op: Builder, parameters: list[Variable], rate: Variable) -> list[Any]:
        """Return an argument of ``_update`` for each parameter besides its gradient: here the learning rate in its type."""
        scales: dict[Any, Variable] = {}
        for p in parameters:
            key = (p.dtype, self._factor(p))
            if key not in scales:
                scaled = op.Cast(rate, to=p.dtype.number)
                scales[key] = scaled if key[1] == 1.0 else op.Mul(scaled, key[1])
        return [scales[p.dtype, self._factor(p)] for p in parameters]

    def _factor(self, p: Variable) -> float:
        """Return the factor on the learning rate of this parameter."""
        group, owner = self._group(p), self._owner(p)
        own = owner.optimize_attr["learning_rate"] if isinstance(owner, Parameter) else 1.0
        return float(own) * (1.0 if group is None else group.rate)

    def _group(self, p: Variable) -> Group | None:
        return own_group(self._groups, self._owner(p))

    def _update(self, op: Builder, p: Variable, g: Variable, scale: Any) -> Variable:
        """Append the update of one parameter and return its new value; ``_present(p)`` is the value to start from."""
        name = type(self).__name__
        raise ArgumentError(f"{name} evaluates the loss many times in a step, which no program does. Use another optimizer.")

    # State -------------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The accumulators by name, tensors or numpy of a program's, and the schedule's state under ``LR_Scheduler``."""
        entries = dict(self._awaited)
        entries.update({v.name: v.get_value() for state in self._accumulators.values() for v in state})
        entries = self._as_tensors(entries)
        if isinstance(self._learning_rate, LRScheduler):
            entries["LR_Scheduler"] = self._learning_rate.state_dict()
        return entries

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the accumulators that ``state_dict`` names, and the schedule.

        Accumulators that do not exist yet, as before the first step, begin with these values when they are made.

        Args:
            state_dict: what ``state_dict`` gave.

        Raises:
            ArgumentError: if a value does not have the accumulator's shape, or the schedule's state lacks an entry; then nothing is
                set. From the first step or ``minimize`` if the state names none of the accumulators that it makes.
        """
        schedule = self._learning_rate if "LR_Scheduler" in state_dict else None
        attributes = schedule.attributes_of(state_dict["LR_Scheduler"]) if isinstance(schedule, LRScheduler) else []
        held = {v.name: v for state in self._accumulators.values() for v in state}
        values = [(v, state_dict[name]) for name, v in held.items() if name in state_dict]
        later = {name: np.array(value) for name, value in state_dict.items() if name not in held and name != "LR_Scheduler"}
        scope = values[0][0].block.program.active_scope() if values else Scope()

        def set_all() -> None:
            set_values(values)
            scope.follow(self, _awaited=later, _awaited_by_others=bool(later) and not values)
            for owner, entries in attributes:
                scope.follow(owner, **entries)

        scope.change(set_all)

    def _present(self, p: Variable) -> Variable:
        """The value of ``p`` at this point of the program: as earlier updates left it."""
        return self._masters[p].value if p in self._masters else p.block.program.updates.get(p, p)

    def _accumulator(self, p: Variable, role: str, value: np.ndarray[Any, Any]) -> Variable:
        """A state variable of one parameter, ``<parameter>_<role>_0``."""
        variable = self._state(p.block.program, f"{p.name}_{role}", value, restores=True)
        self._accumulators.setdefault(p.block.program, []).append(variable)
        return variable

    def _filled(self, p: Variable, role: str, value: float = 0.0) -> Variable:
        """An accumulator of the parameter's shape."""
        shape = p.static_shape
        assert shape is not None
        # Zeros that nobody touches take no memory.
        start = np.full(shape, value, p.dtype.numpy) if value else np.zeros(shape, p.dtype.numpy)
        return self._accumulator(p, role, start)

    def _number(self, p: Variable, role: str, value: float) -> Variable:
        """An accumulator of one element."""
        return self._accumulator(p, role, np.array([value], p.dtype.numpy))

    def _state(self, program: Program, key: str, value: np.ndarray[Any, Any], restores: bool = False) -> Variable:
        """State ``<key>_N`` with a start value, which the startup program sets again whenever it runs.

        With ``restores`` it starts with what ``set_state_dict`` gave under its name, if anything.
        """
        name = program.generate_name(key)
        program.names.pop(name)
        if restores and name in self._awaited:
            value = self._taken(name, value)
        variable = program.create_global_var(name, value)
        startup = self._startup if self._startup is not None else default_startup_program()
        initial = startup.create_global_var(variable.name, value)
        build = Builder(startup.global_block(), key=f"{variable.name}.init")
        first = value.reshape(-1)[0] if value.size else np.zeros((), value.dtype)
        if value.size and (value != first).any():
            startup.updates[initial] = build.Identity(build.constant(value))
        else:
            startup.updates[initial] = build.Expand(build.constant(first), np.array(value.shape, np.int64))
        return variable

    def _taken(self, name: str, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What ``set_state_dict`` gave under a name, which is now in place"""
        restored: np.ndarray[Any, Any] = self._awaited[name]
        if restored.shape != like.shape:
            raise ArgumentError(
                f"{name} has shape {list(like.shape)}, its state {list(restored.shape)}. Use the state of this model."
            )
        del self._awaited[name]
        self._awaited_by_others = False
        return restored.astype(like.dtype)

    def _replace(self, old: Variable, new: Variable) -> None:
        """Record that a run replaces ``old`` by ``new``."""
        old.block.program.updates[old] = new
        old.block.program.version += 1
