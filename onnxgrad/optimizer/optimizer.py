"""What all optimizers share: learning rate, clipping, decay, state, and appending the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from onnxgrad.autodiff.api import append_backward
from onnxgrad.errors import ArgumentError, ArgumentTypeError, NotAVariable
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.defaults import default_startup_program
from onnxgrad.ir.operator import Operator, Role
from onnxgrad.ir.program import Program
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.nn.clip import GradientClip
from onnxgrad.optimizer.eager import EagerSteps
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.regularizer import L2Decay

__all__ = ["Optimizer"]

Pairs: TypeAlias = "list[tuple[Variable, Variable]]"


class Optimizer(EagerSteps):
    """Base of the optimizers.

    Args:
        learning_rate: a number, or a scheduler whose present value every run uses.
        parameters: which parameters to train (variables or names); None for all trainable ones.
        weight_decay: a number (L2), ``L1Decay`` or ``L2Decay``; a parameter's own regularizer replaces it.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm``; clipping comes before decay.

    Raises:
        ArgumentError, ArgumentTypeError: if an argument makes no sense.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Sequence[Variable | str] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        if learning_rate is None:
            raise ArgumentError("the learning rate is missing. Give a number or a scheduler.")
        if not isinstance(learning_rate, (int, float, LRScheduler)):
            raise ArgumentTypeError(f"the learning rate is a number or a scheduler, not {type(learning_rate).__name__}.")
        if grad_clip is not None and not isinstance(grad_clip, GradientClip):
            raise ArgumentTypeError(f"grad_clip is a ClipGradBy... object, not {type(grad_clip).__name__}.")
        self._learning_rate = learning_rate
        self._parameters = None if parameters is None else list(parameters)
        self._decay = L2Decay(weight_decay) if isinstance(weight_decay, (int, float)) else weight_decay
        self._clip = grad_clip
        self._rates: dict[Program, Variable] = {}
        self.name = name

    # Learning rate -----------------------------------------------------------------------------------------------------

    def get_lr(self) -> float:
        """The present learning rate."""
        if isinstance(self._learning_rate, LRScheduler):
            return float(self._learning_rate())
        return float(self._learning_rate)

    def set_lr(self, value: float) -> None:
        """Change the learning rate of the next runs; no session is rebuilt.

        Raises:
            ArgumentError: if a scheduler decides it.
        """
        if isinstance(self._learning_rate, LRScheduler):
            raise ArgumentError("a scheduler decides this learning rate. Change the scheduler.")
        self._learning_rate = float(value)
        for program, variable in self._rates.items():
            program.active_scope().set(variable.name, np.float32(value))

    def _rate(self, program: Program) -> Variable:
        found = self._rates.get(program)
        if found is None:
            name = program.generate_name("learning_rate")
            program.names.pop(name)
            found = self._state(program, name, np.array(self.get_lr(), np.float32))
            self._rates[program] = found
            if isinstance(self._learning_rate, LRScheduler):
                program.schedulers.append((found, self._learning_rate))
        return found

    # Minimising --------------------------------------------------------------------------------------------------------

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Variable | str] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward pass of ``loss`` and the update of the parameters.

        Of an eager loss, whose ``backward`` was called, this is ``step``.

        Args:
            loss: variable of one element.
            startup_program: receives the initialisation of the optimizer's state; None for the default one.
            parameters: which to train; None for those given to the constructor, or all.
            no_grad_set: passed to ``append_backward``.

        Returns:
            (operators of the update, pairs of parameter and gradient in program order).

        Raises:
            NotAVariable: (an AssertionError) if ``loss`` is not a Variable.
            ArgumentError: if it does not have exactly one element.
        """
        if isinstance(loss, Variable) and loss.is_eager:
            self.step()
            return [], [(p, p.grad) for p in self._eager_parameters() if p.grad is not None]
        pairs = self.backward(loss, startup_program, parameters, no_grad_set)
        return self.apply_gradients(pairs, startup_program), pairs

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Sequence[Variable | str] | None = None,
        no_grad_set: Any = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
    ) -> Pairs:
        """The pairs of parameter and gradient, without an update."""
        if not isinstance(loss, Variable):
            raise NotAVariable(f"minimize needs a Variable as loss, not {type(loss).__name__}.")
        if loss.static_shape is None or int(np.prod(loss.static_shape)) != 1:
            raise _NotScalar(f"minimize needs a loss of one element; {loss!r} is not known to have one. Take its mean or sum.")
        chosen = parameters if parameters is not None else self._parameters
        return append_backward(loss, None if chosen is None else list(chosen), no_grad_set, callbacks)

    def apply_gradients(self, params_grads: Pairs, startup_program: Program | None = None) -> list[Operator]:
        """Append clipping, decay and the update for these pairs; returns the appended operators.

        Raises:
            ArgumentError: if there are no pairs, or another optimizer updates one of the parameters already.
        """
        if not params_grads:
            raise ArgumentError("there is nothing to update: no parameter has a gradient. Check the loss and stop_gradient.")
        program = params_grads[0][0].block.program
        taken = next((p for p, _ in params_grads if p in program.updates), None)
        if taken is not None:
            raise ArgumentError(f"{taken.name} is updated by another optimizer of this program. Give each its own parameters=.")
        block = program.global_block()
        before = len(block.ops)
        self._startup = startup_program
        op = Builder(block, role=Role.OPTIMIZE, key=f"{type(self).__name__.lower()}")
        pairs = sorted(params_grads, key=lambda pair: pair[0].name)
        if self._clip is not None:
            pairs = self._clip.apply(op, pairs)
        rate = self._rate(program)
        for p, g in pairs:
            op.key = f"{p.name}@UPDATE"
            self._replace(p, self._update(op, p, self._decayed(op, p, g), self._rate_of(op, p, rate)))
        return block.ops[before:]

    def _decayed(self, op: Builder, p: Variable, g: Variable) -> Variable:
        own = p.regularizer if isinstance(p, Parameter) else None
        decay = own if own is not None else self._decay
        return g if decay is None else decay.apply(op, p, g)

    def _rate_of(self, op: Builder, p: Variable, rate: Variable) -> Variable:
        factor = p.optimize_attr["learning_rate"] if isinstance(p, Parameter) else 1.0
        scaled: Variable = op.Cast(rate, to=p.dtype.number)
        return scaled if factor == 1.0 else op.Mul(scaled, float(factor))

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        """Append the update of one parameter and return its new value."""
        raise NotImplementedError

    # State -------------------------------------------------------------------------------------------------------------

    def _accumulator(self, p: Variable, kind: str, value: np.ndarray[Any, Any]) -> Variable:
        """A state variable of one parameter, ``<parameter>_<kind>_0``."""
        return self._state(p.block.program, f"{p.name}_{kind}_0", value)

    def _zeros(self, p: Variable, kind: str) -> Variable:
        shape = p.static_shape
        assert shape is not None
        return self._accumulator(p, kind, np.zeros(shape, p.dtype.numpy))

    def _state(self, program: Program, name: str, value: np.ndarray[Any, Any]) -> Variable:
        """A persistable variable with a start value, which the startup program sets again whenever it runs."""
        variable = program.create_global_var(name, value)
        startup = self._startup if self._startup is not None else default_startup_program()
        twin = startup.create_global_var(variable.name, value)
        build = Builder(startup.global_block(), key=f"{variable.name}.init")
        fill = build.constant(value.reshape(-1)[0]) if value.size else build.constant(np.zeros((), value.dtype))
        startup.updates[twin] = build.Expand(fill, np.array(value.shape, np.int64))
        return variable

    _startup: Program | None = None

    def _replace(self, old: Variable, new: Variable) -> None:
        """Record that a run replaces ``old`` by ``new``."""
        old.block.program.updates[old] = new
        old.block.program.version += 1


class _NotScalar(ArgumentError, AssertionError):
    """A loss that is not one number; an AssertionError too, as Paddle has it."""
