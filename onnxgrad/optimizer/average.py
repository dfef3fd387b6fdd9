"""ExponentialMovingAverage: averages of the parameters, for evaluation."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.defaults import create_global_var, default_main_program
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable, set_values
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.step.cut import is_applied
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import as_kind, as_number, as_text
from onnxgrad.optimizer.master import is_narrow, master_of

__all__ = ["ExponentialMovingAverage"]


class ExponentialMovingAverage:
    """ema = decay * ema + (1 - decay) * parameter, and ema / (1 - decay^t) in place of the parameter when asked.

    So are the running statistics of BatchNormalization averaged: those of other weights would not fit the averaged ones. What has
    ``do_model_average`` False, and what training does not change, is left as it is.

    Args:
        decay: how much of the average a step keeps, in [0, 1) and close to 1.
        thres_steps: a variable that counts steps; the decay is then at most (1 + steps) / (10 + steps).
        name: put before the names of the averages.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``decay`` lies elsewhere.

    Example:
        >>> loss = paddle.mean(static.nn.fc(static.data("x", [None, 2]), 1))
        >>> operators, pairs = paddle.optimizer.SGD(0.1).minimize(loss)
        >>> ema = static.ExponentialMovingAverage(0.999)
        >>> ema.update()
        >>> executor = Executor()
        >>> executor.run(static.default_startup_program())
        []
        >>> losses = executor.run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[loss])
        >>> with ema.apply(executor):
        ...     evaluated = executor.run(feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[loss])
    """

    def __init__(self, decay: float = 0.999, thres_steps: Variable | None = None, name: str | None = None) -> None:
        self._decay = as_number(self, "decay", decay, least=0, below=1)
        self._threshold = as_kind(self, "thres_steps", thres_steps, Variable | None)
        self._prefix = as_text(self, "name", name) or ""
        self._averages: list[tuple[Variable, Variable]] = []
        self._steps: Variable | None = None
        self._rate: Variable | None = None
        self._kept: _Kept | None = None
        self._blocks: WeakSet[_Applied] = WeakSet()

    @property
    def names(self) -> list[str]:
        """Names of the averages."""
        return [average.name for _, average in self._averages]

    def update(self) -> None:
        """Append the update of the averages to the main program; call it once, after ``minimize``."""
        program = default_main_program()
        op = Builder(program.global_block(), role=Role.OPTIMIZE, key=f"{self._prefix}ema")
        # Close to 1 a float32 holds 1 - decay to three digits only, so it is never computed from decay.
        fresh: Any = 1.0 - self._decay
        if self._threshold is not None:
            steps = op.Cast(op.Reshape(self._threshold, np.zeros(0, np.int64)), to=1)
            fresh = op.Max(op.Div(op.constant(9.0, steps.dtype), op.Add(steps, 10.0)), fresh)
            self._rate = self._state("decay", [], self._decay, "float32")
            program.updates[self._rate] = op.Sub(op.constant(1.0, steps.dtype), fresh)
        self._steps = self._state("step", [], 0, "int64")
        program.updates[self._steps] = op.Add(self._steps, np.array(1))
        for p in _changed_by_training(program):
            dtype = dtype_of("float32") if is_narrow(p) else p.dtype
            average = self._state(f"{p.name}.ema", list(p.static_shape or ()), 0.0, dtype)
            own = op.Cast(fresh, to=dtype.number) if isinstance(fresh, Variable) else fresh
            program.updates[average] = op.Add(average, op.Mul(op.Sub(self._present(op, p), average), own))
            self._averages.append((p, average))
        program.version += 1

    @staticmethod
    def _present(op: Builder, p: Variable) -> Variable:
        """The parameter after its update; of a 16-bit one the master weight, if an optimizer has made one"""
        program = p.block.program
        updates = program.updates
        if p in updates and not is_applied(updates[p]) and program.plan.accumulation is not None:
            return p  # the runs before have replaced this statistic when their sums are applied
        master = master_of(p) if is_narrow(p) else None
        value = updates.get(p, p) if master is None else updates.get(master, master)
        wide: Variable = op.Cast(value, to=1) if is_narrow(value) else value
        return wide

    def _state(self, name: str, shape: list[int], value: float, dtype: Any) -> Variable:
        return create_global_var(shape, value, dtype, persistable=True, name=f"{self._prefix}{name}_0")

    def apply(self, executor: Executor | None = None, need_restore: bool = True) -> AbstractContextManager[None]:
        """Put the averages in place of the parameters inside a ``with`` block. A block within another one changes nothing.

        Args:
            executor: accepted for compatibility.
            need_restore: put the parameters back at the end; if False, call ``restore``.

        Raises:
            ArgumentError: if ``update`` was not called.
        """
        self._check_updated()
        return _Applied(self, need_restore)

    def restore(self, executor: Executor | None = None) -> None:
        """Put the parameters back.

        Args:
            executor: accepted for compatibility.
        """
        if self._kept is not None:
            set_values((p, self._kept.weights[p]) for p in self._kept.weights)
            self._kept = None

    def averaged(self, scope: Scope) -> Scope:
        """A copy of a scope with the averages in place of the parameters; no other memory is copied.

        Args:
            scope: where the averages are; the program's own unless given.

        Raises:
            ArgumentError: if ``update`` was not called.
        """
        self._check_updated()
        copy = scope.copy()
        set_values(self._values(copy), copy)
        return copy

    def _check_updated(self) -> None:
        if self._steps is None:
            raise ArgumentError("ExponentialMovingAverage: call update() while the program is built.")

    def _values(self, scope: Scope | None = None) -> list[tuple[Variable, Any]]:
        """What takes the place of each parameter"""
        assert self._steps is not None
        steps = int(self._steps.get_value(scope))
        decay = self._decay if self._rate is None else float(self._rate.get_value(scope))
        if np.float32(decay) == np.float32(self._decay):
            decay = self._decay
        correction = 1.0 - decay**steps if steps else 1.0
        return [(p, np.asarray(average.get_value(scope) / correction, p.dtype.numpy)) for p, average in self._averages]

    def _put(self) -> None:
        """Keep the parameters and put the averages in their place; where they are there already, the parameters are kept."""
        if self._kept is not None and self._kept.is_applied():
            return
        averages = self._values()
        # Kept first: were it interrupted here, this would be of no use, as the averages are not in place.
        self._kept = _Kept({p: np.array(p.get_value()) for p, _ in self._averages}, dict(averages))
        set_values(averages)


class _Kept(NamedTuple):
    """Variables whose place averages have taken, by variable.

    Attributes:
        weights: what was there before.
        averages: what was put.
    """

    weights: dict[Variable, Any]
    averages: dict[Variable, Any]

    def is_applied(self) -> bool:
        """Whether the averages are in place."""
        return all(p.get_value().tobytes() == average.tobytes() for p, average in self.averages.items())


class _Applied(AbstractContextManager[None]):
    """The block of ``ExponentialMovingAverage.apply``."""

    def __init__(self, average: ExponentialMovingAverage, restores: bool) -> None:
        self._average, self._restores = average, restores

    def __enter__(self) -> None:
        blocks = self._average._blocks
        try:
            blocks.add(self)
            self._average._put()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._leave()
        except KeyboardInterrupt:
            self._leave()
            raise

    def _leave(self) -> None:
        self._average._blocks.discard(self)
        if self._restores and not self._average._blocks:
            self._average.restore()


def _changed_by_training(program: Program) -> list[Variable]:
    """The weights that are trained, and the running statistics: floats that the forward pass replaces."""
    trained: list[Variable] = [p for p in program.all_parameters() if p.trainable and not p.stop_gradient and p.do_model_average]
    replaced = [v for v, new in program.updates.items() if v.is_float and not is_applied(new) and v not in program.overwritten]
    running = [v for v in replaced if getattr(v, "do_model_average", True)]
    return trained + [v for v in running if not any(v is p for p in trained)]
