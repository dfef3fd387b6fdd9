"""Learning-rate schedules: ``scheduler()`` is the rate of the next run, ``step()`` moves on."""

# Tests: tests/optimizer/test_schedules.py.

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import copy
from itertools import pairwise
from numbers import Real
from typing import Any, Literal

import numpy as np

from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError, Mismatch
from onnxgrad.internal.arguments import as_flag, as_function, as_int, as_number, as_numbers, as_word, wrong_kind

__all__ = [
    "CosineAnnealingDecay", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialDecay", "InverseTimeDecay", "LRScheduler",
    "LambdaDecay", "LinearLR", "LinearWarmup", "MultiStepDecay", "MultiplicativeDecay", "NaturalExpDecay", "NoamDecay",
    "OneCycleLR", "PiecewiseDecay", "PolynomialDecay", "ReduceOnPlateau", "StepDecay",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


class LRScheduler:
    """Base: subclasses give ``get_lr`` from ``base_lr`` and ``last_epoch``, which starts at 0.

    A subclass sets what its ``get_lr`` needs and then calls this constructor, which computes the first rate.
    With ``steps_by_itself`` the Executor moves on after each run.

    Args:
        learning_rate: the rate to start from, at least 0.
        last_epoch: the step to continue from; -1 for the start.
        verbose: print the rate at each step.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if the rate is below 0.

    Example:
        >>> class Halved(paddle.optimizer.lr.LRScheduler):
        ...     def get_lr(self):
        ...         return self.base_lr / 2**self.last_epoch
        >>> schedule = Halved(0.5)
        >>> schedule.step()
        >>> schedule()
        0.25
    """

    _keys: tuple[str, ...] = ("last_epoch", "last_lr")
    steps_by_itself = False

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False) -> None:
        rate = as_number(self, "learning_rate", learning_rate)
        if rate < 0:
            raise ArgumentError(f"{type(self).__name__}: the learning rate is at least 0, not {learning_rate}.")
        self.base_lr = rate
        self.last_lr = rate
        self.last_epoch = as_int(self, "last_epoch", last_epoch)
        self.verbose = as_flag(self, "verbose", verbose)
        self.step()

    def __call__(self) -> float:
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Move to the next step, or to a given one.

        Args:
            epoch: the number of the step; the next one unless given.
        """
        attributes = vars(self)
        before = attributes.copy()
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            self.last_lr = float(self.get_lr() if epoch is None else self._at_epoch())
        except BaseException:
            attributes.update(before)
            raise
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def _at_epoch(self) -> float:
        """The rate of ``last_epoch``, whatever it was before"""
        return self.get_lr()

    def moved(self, *arguments: Any) -> list[tuple[LRScheduler, dict[str, Any]]]:
        """The attributes that ``step`` would leave here and in schedules within, all of which stay as they are.

        Args:
            arguments: those of ``step``.
        """
        copies: dict[LRScheduler, LRScheduler] = {}
        _copy(self, copies).step(*arguments)
        originals = {id(other): scheduler for scheduler, other in copies.items()}
        return [
            (scheduler, {name: originals.get(id(value), value) for name, value in vars(other).items()})
            for scheduler, other in copies.items()
        ]

    def get_lr(self) -> float:
        """Compute the rate of step ``last_epoch``."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state to continue from: the step and the last rate."""
        return {key: getattr(self, key) for key in self._keys}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a result of ``state_dict``.

        Args:
            state_dict: what ``state_dict`` gave.

        Raises:
            ArgumentError: if an entry is missing.
        """
        for owner, attributes in self.attributes_of(state_dict):
            vars(owner).update(attributes)

    set_dict = set_state_dict

    def attributes_of(self, state_dict: dict[str, Any]) -> list[tuple[LRScheduler, dict[str, Any]]]:
        """What ``set_state_dict`` sets, here and in schedules within, once all of it is there

        Args:
            state_dict: what ``state_dict`` gave.
        """
        for key in self._keys:
            if key not in state_dict:
                raise ArgumentError(f"the state of {type(self).__name__} lacks {key!r}. Give the result of its state_dict.")
        return [(self, {key: state_dict[key] for key in self._keys})]


def _copy(scheduler: LRScheduler, copies: dict[LRScheduler, LRScheduler]) -> LRScheduler:
    """A copy with copies of the schedules within, all of which are noted"""
    other = copies[scheduler] = copy(scheduler)
    vars(other).update({k: _copy(v, copies) for k, v in vars(scheduler).items() if isinstance(v, LRScheduler)})
    return other


class NoamDecay(LRScheduler):
    """learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), 0 at step 0. Vaswani et al. 2017.

    Args:
        d_model: width of the model, above 0.
        warmup_steps: how many steps the rate rises, above 0.
        learning_rate: factor on the rate.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``d_model`` or ``warmup_steps`` is not positive.

    Example:
        >>> schedule = paddle.optimizer.lr.NoamDecay(d_model=4, warmup_steps=4)
        >>> schedule.step(4)
        >>> schedule()
        0.25
    """

    def __init__(
        self, d_model: float, warmup_steps: float, learning_rate: float = 1.0, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.d_model = as_number(self, "d_model", d_model)
        self.warmup_steps = as_number(self, "warmup_steps", warmup_steps)
        if self.d_model <= 0 or self.warmup_steps <= 0:
            raise ArgumentError(f"NoamDecay: d_model and warmup_steps are positive, not {d_model} and {warmup_steps}.")
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        first = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        return float(self.base_lr * self.d_model**-0.5 * min(first, self.warmup_steps**-1.5 * self.last_epoch))


class PiecewiseDecay(LRScheduler):
    """``values[i]`` until step ``boundaries[i]``, and the last value from the last of them on.

    Args:
        boundaries: the steps at which the rate changes, in rising order.
        values: the rates, one more than boundaries.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if there are not as many values, or the first is below 0.

    Example:
        >>> schedule = paddle.optimizer.lr.PiecewiseDecay([1, 2], [0.1, 0.05, 0.01])
        >>> schedule.step()
        >>> schedule()
        0.05
    """

    def __init__(self, boundaries: Sequence[float], values: Sequence[float], last_epoch: int = -1, verbose: bool = False) -> None:
        self.boundaries = as_numbers(self, "boundaries", boundaries)
        self.values = as_numbers(self, "values", values)
        count = len(self.boundaries) + 1
        if len(self.values) != count:
            raise ArgumentError(f"PiecewiseDecay: {count - 1} boundaries need {count} values.")
        super().__init__(self.values[0], last_epoch, verbose)

    def get_lr(self) -> float:
        return self.values[bisect_right(self.boundaries, self.last_epoch)]


class _ByGamma(LRScheduler):
    """A rate that falls as fast as ``gamma`` says."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = as_number(self, "gamma", gamma)
        super().__init__(learning_rate, last_epoch, verbose)


class NaturalExpDecay(_ByGamma):
    """learning_rate * exp(-gamma * step).

    Args:
        learning_rate: the rate to start from.
        gamma: how fast it falls.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> schedule = paddle.optimizer.lr.NaturalExpDecay(0.5, gamma=0.1)
        >>> schedule.step()
        >>> round(schedule(), 4)
        0.4524
    """

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(_ByGamma):
    """learning_rate / (1 + gamma * step).

    Args:
        learning_rate: the rate to start from.
        gamma: how fast it falls.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> schedule = paddle.optimizer.lr.InverseTimeDecay(0.5, gamma=1.0)
        >>> schedule.step()
        >>> schedule()
        0.25
    """

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """Move from the start to ``end_lr`` along (1 - step / decay_steps)^power.

    Args:
        learning_rate: the rate to start from.
        decay_steps: after how many steps ``end_lr`` is reached, above 0.
        end_lr: the rate to end with.
        power: exponent of the curve; 1 for a straight line.
        cycle: begin to fall again after ``decay_steps``, over a longer and longer time, rather than stay at ``end_lr``.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``decay_steps`` is not positive.

    Example:
        >>> schedule = paddle.optimizer.lr.PolynomialDecay(0.5, decay_steps=10, end_lr=0.0)
        >>> schedule.step(5)
        >>> schedule()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        decay_steps: float,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.decay_steps = as_number(self, "decay_steps", decay_steps)
        if self.decay_steps <= 0:
            raise ArgumentError(f"PolynomialDecay: decay_steps is positive, not {decay_steps}.")
        self.end_lr = as_number(self, "end_lr", end_lr)
        self.power = as_number(self, "power", power)
        self.cycle = as_flag(self, "cycle", cycle)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        steps, at = self.decay_steps, self.last_epoch
        if self.cycle:
            steps *= max(1, math.ceil(at / steps))
        left = 1 - min(at, steps) / steps
        return float((self.base_lr - self.end_lr) * left**self.power + self.end_lr)


class LinearWarmup(LRScheduler):
    """Rise from ``start_lr`` to ``end_lr`` over ``warmup_steps`` steps, then follow another rate or schedule.

    Args:
        learning_rate: the rate, or the schedule, that follows; the schedule begins at its step 0.
        warmup_steps: how many steps the rate rises.
        start_lr: the rate to start from.
        end_lr: the rate to rise to, at least ``start_lr``.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``end_lr`` is below ``start_lr``.

    Example:
        >>> schedule = paddle.optimizer.lr.LinearWarmup(0.5, warmup_steps=4, start_lr=0.0, end_lr=0.5)
        >>> schedule.step()
        >>> schedule()
        0.125
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: float,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(learning_rate, (Real, LRScheduler)):
            raise wrong_kind(self, "learning_rate", "a number or a schedule", learning_rate)
        self.learning_rate = learning_rate
        self.warmup_steps = as_number(self, "warmup_steps", warmup_steps)
        self.start_lr = as_number(self, "start_lr", start_lr)
        self.end_lr = as_number(self, "end_lr", end_lr)
        if self.end_lr < self.start_lr:
            raise Mismatch(f"LinearWarmup: end_lr {end_lr} is below start_lr {start_lr}.")
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(int(self.last_epoch - self.warmup_steps))
            return self.learning_rate()
        return float(self.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def attributes_of(self, state_dict: dict[str, Any]) -> list[tuple[LRScheduler, dict[str, Any]]]:
        pairs = super().attributes_of(state_dict)
        if not isinstance(self.learning_rate, LRScheduler):
            return pairs
        if "LinearWarmup_LR" not in state_dict:
            raise ArgumentError("the state of LinearWarmup lacks 'LinearWarmup_LR'. Give the result of its state_dict.")
        return [*self.learning_rate.attributes_of(state_dict["LinearWarmup_LR"]), *pairs]


class ExponentialDecay(_ByGamma):
    """Multiply by ``gamma`` at every step: learning_rate * gamma^step.

    Args:
        learning_rate: the rate to start from.
        gamma: the factor, between 0 and 1.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``gamma`` does not lie between 0 and 1.

    Example:
        >>> schedule = paddle.optimizer.lr.ExponentialDecay(0.5, gamma=0.5)
        >>> schedule.step()
        >>> schedule()
        0.25
    """

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        if not 0.0 < as_number(self, "gamma", gamma) < 1.0:
            raise ArgumentError(f"ExponentialDecay: gamma lies between 0 and 1, not {gamma}.")
        super().__init__(learning_rate, gamma, last_epoch, verbose)

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma**self.last_epoch)


class MultiStepDecay(LRScheduler):
    """Multiply by ``gamma`` at each of the ``milestones``.

    Args:
        learning_rate: the rate to start from.
        milestones: the steps at which it falls, in rising order.
        gamma: the factor, below 1.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if the milestones do not rise, or ``gamma`` is not below 1.

    Example:
        >>> schedule = paddle.optimizer.lr.MultiStepDecay(0.5, milestones=[1, 3], gamma=0.5)
        >>> schedule.step(3)
        >>> schedule()
        0.125
    """

    def __init__(
        self, learning_rate: float, milestones: Sequence[float], gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(milestones, (list, tuple)):
            raise wrong_kind(self, "milestones", "a list or tuple", milestones)
        self.milestones = as_numbers(self, "milestones", milestones)
        self.gamma = as_number(self, "gamma", gamma)
        if sorted(set(self.milestones)) != self.milestones:
            raise ArgumentError(f"MultiStepDecay: the milestones must increase: {list(milestones)}.")
        if self.gamma >= 1.0:
            raise ArgumentError(f"MultiStepDecay: gamma is below 1, not {gamma}.")
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma ** bisect_right(self.milestones, self.last_epoch))


class StepDecay(LRScheduler):
    """Multiply by ``gamma`` every ``step_size`` steps.

    Args:
        learning_rate: the rate to start from.
        step_size: after how many steps it falls, above 0.
        gamma: the factor, below 1.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``step_size`` is not positive, or ``gamma`` not below 1.

    Example:
        >>> schedule = paddle.optimizer.lr.StepDecay(0.5, step_size=2, gamma=0.5)
        >>> schedule.step(2)
        >>> schedule()
        0.25
    """

    def __init__(
        self, learning_rate: float, step_size: int, gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.step_size = as_int(self, "step_size", step_size)
        self.gamma = as_number(self, "gamma", gamma)
        if self.step_size <= 0:
            raise ArgumentError(f"StepDecay: step_size is positive, not {step_size}.")
        if self.gamma >= 1.0:
            raise ArgumentError(f"StepDecay: gamma is below 1, not {gamma}.")
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma ** (self.last_epoch // self.step_size))


class _ByFunction(LRScheduler):
    """A rate that a function of the step makes."""

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.lr_lambda = as_function(self, "lr_lambda", lr_lambda)
        super().__init__(learning_rate, last_epoch, verbose)


class LambdaDecay(_ByFunction):
    """learning_rate * lr_lambda(step).

    Args:
        learning_rate: the rate to start from.
        lr_lambda: takes the step, from 0, and returns a factor.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> schedule = paddle.optimizer.lr.LambdaDecay(0.5, lr_lambda=lambda step: 1 / (1 + step))
        >>> schedule.step()
        >>> schedule()
        0.25
    """

    def get_lr(self) -> float:
        return float(self.base_lr * self.lr_lambda(self.last_epoch))


class MultiplicativeDecay(_ByFunction):
    """learning_rate * lr_lambda(1) * ... * lr_lambda(step).

    Args:
        learning_rate: the rate to start from.
        lr_lambda: takes the step, from 1, and returns a factor.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> schedule = paddle.optimizer.lr.MultiplicativeDecay(0.5, lr_lambda=lambda step: 0.5)
        >>> schedule.step(2)
        >>> schedule()
        0.125
    """

    def get_lr(self) -> float:
        return float(self.base_lr * math.prod(self.lr_lambda(epoch) for epoch in range(1, self.last_epoch + 1)))


class ReduceOnPlateau(LRScheduler):
    """Multiply by ``factor`` when a metric has not improved for more than ``patience`` steps.

    Args:
        learning_rate: the rate to start from.
        mode: 'min' if the metric should fall, 'max' if it should rise.
        factor: below 1.
        patience: how many steps without improvement are allowed.
        threshold: how much counts as an improvement.
        threshold_mode: whether ``threshold`` is relative ('rel') or absolute ('abs').
        cooldown: steps after a reduction in which nothing is counted.
        min_lr: the rate never falls below it.
        epsilon: smaller reductions are not made.
        verbose: print the rate when it falls.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if a mode is another word, or ``factor`` is not below 1.

    Example:
        >>> schedule = paddle.optimizer.lr.ReduceOnPlateau(0.5, factor=0.5, patience=1)
        >>> for loss in (1.0, 1.0, 1.0):
        ...     schedule.step(loss)
        >>> schedule()
        0.25
    """

    _keys = ("cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr")

    def __init__(
        self,
        learning_rate: float,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 0.0001,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-08,
        verbose: bool = False,
    ) -> None:
        # Paddle takes these words in capitals, too.
        self.mode = as_word(self, "mode", mode.lower() if isinstance(mode, str) else mode, ("min", "max"))
        relative = threshold_mode.lower() if isinstance(threshold_mode, str) else threshold_mode
        self.threshold_mode = as_word(self, "threshold_mode", relative, ("rel", "abs"))
        self.factor = as_number(self, "factor", factor)
        if self.factor >= 1.0:
            raise ArgumentError(f"ReduceOnPlateau: factor is below 1, not {factor}.")
        self.patience = as_number(self, "patience", patience)
        self.threshold = as_number(self, "threshold", threshold)
        self.cooldown = as_int(self, "cooldown", cooldown)
        self.min_lr = as_number(self, "min_lr", min_lr)
        self.epsilon = as_number(self, "epsilon", epsilon)
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best: float | None = None
        # The rate falls by metrics, so there is no first step to compute.
        self.base_lr = self.last_lr = as_number(self, "learning_rate", learning_rate)
        self.last_epoch = 0
        self.verbose = as_flag(self, "verbose", verbose)

    def step(  # type: ignore[override]
        self, metrics: float | np.generic | np.ndarray[Any, Any] | Tensor, epoch: int | None = None
    ) -> None:
        """Tell the metric of a step, a number or an array of one element.

        Args:
            metrics: what should fall (or rise, with mode 'max'): a number, or a tensor or array of one element.
            epoch: the number of the step; the next one unless given.

        Raises:
            ArgumentTypeError: if it is something else.
        """
        if not isinstance(metrics, (Real, np.ndarray, np.generic, Tensor)):
            raise wrong_kind(self, "metrics", "a number or an array of one element", metrics)
        value = float(metrics if isinstance(metrics, Real) else np.asarray(metrics).item())
        attributes = vars(self)
        before = attributes.copy()
        try:
            self._tell(value, epoch)
        except BaseException:
            attributes.update(before)
            raise

    def _tell(self, value: float, epoch: int | None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self.best is None or self._better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            reduced = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - reduced > self.epsilon:
                self.last_lr = reduced
                if self.verbose:
                    print(f"Epoch {self.last_epoch}: ReduceOnPlateau set learning rate to {self.last_lr}.")

    def get_lr(self) -> float:
        return self.last_lr

    def _better(self, value: float, best: float) -> bool:
        margin = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return bool(value < best - margin if self.mode == "min" else value > best + margin)


class CosineAnnealingDecay(LRScheduler):
    """Move from the start to ``eta_min`` along half a cosine of ``T_max`` steps. Loshchilov and Hutter 2017.

    Args:
        learning_rate: the rate to start from.
        T_max: after how many steps ``eta_min`` is reached, above 0.
        eta_min: the lowest rate.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``T_max`` is not positive.

    Example:
        >>> schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.5, T_max=4)
        >>> schedule.step(2)
        >>> schedule()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        T_max: int,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.T_max = as_int(self, "T_max", T_max)
        self.eta_min = as_number(self, "eta_min", eta_min)
        if self.T_max <= 0:
            raise Mismatch(f"CosineAnnealingDecay: T_max is positive, not {T_max}.")
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """Compute the rate from that of the step before, as Paddle does: called by itself, it gives a rate nearer to the end."""
        before, span = self.last_epoch - 1, self.base_lr - self.eta_min
        if self.last_epoch == 0:
            return self.base_lr
        if (before - self.T_max) % (2 * self.T_max) == 0:
            return self.last_lr + span * (1 - math.cos(math.pi / self.T_max)) / 2
        factor = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / (1 + math.cos(math.pi * before / self.T_max))
        return factor * (self.last_lr - self.eta_min) + self.eta_min

    def _at_epoch(self) -> float:
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Move along half cosines of T_0, T_0 * T_mult, ... steps, each from the start to ``eta_min``. Loshchilov and Hutter 2017.

    Args:
        learning_rate: the rate to start from.
        T_0: steps of the first half cosine, above 0.
        T_mult: by which factor each is longer than the one before, an int from 1.
        eta_min: the lowest rate.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if ``T_0`` or ``T_mult`` is not an int above 0.

    Example:
        >>> schedule = paddle.optimizer.lr.CosineAnnealingWarmRestarts(0.5, T_0=4)
        >>> schedule.step(6)
        >>> schedule()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        T_0: int,  # noqa: N803
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        for argument, length in (("T_0", T_0), ("T_mult", T_mult)):
            if as_number(self, argument, length) < 1 or isinstance(length, float):
                raise ArgumentError(f"CosineAnnealingWarmRestarts: {argument} is an int above 0, not {length}.")
        self.T_0 = as_int(self, "T_0", T_0)
        self.T_mult = as_int(self, "T_mult", T_mult)
        self.eta_min = as_number(self, "eta_min", eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        length, at = self.T_0, self.last_epoch
        while at >= length:
            at -= length
            length *= self.T_mult
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * at / length)) / 2


class OneCycleLR(LRScheduler):
    """Rise to ``max_learning_rate`` and fall again within ``total_steps`` steps. Smith and Topin 2018.

    Args:
        max_learning_rate: the rate at the top.
        total_steps: length of the cycle, above 0.
        divide_factor: the cycle starts at ``max_learning_rate / divide_factor``.
        end_learning_rate: rate at the end.
        phase_pct: share of the steps that go up.
        anneal_strategy: 'cos' or 'linear'.
        three_phase: fall to the start first, as fast as it went up, and then to the end.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if a number makes no sense or ``anneal_strategy`` is another word; from ``step`` beyond ``total_steps``.

    Example:
        >>> schedule = paddle.optimizer.lr.OneCycleLR(0.5, total_steps=11, phase_pct=0.5)
        >>> schedule()
        0.02
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        top, end = as_number(self, "max_learning_rate", max_learning_rate), as_number(self, "end_learning_rate", end_learning_rate)
        divisor, share = as_number(self, "divide_factor", divide_factor), as_number(self, "phase_pct", phase_pct)
        self.total_steps = as_int(self, "total_steps", total_steps)
        if top < 0 or end < 0 or self.total_steps <= 0 or not 0 <= share <= 1:
            raise ArgumentError("OneCycleLR: rates are not negative, total_steps is positive, phase_pct lies in [0, 1].")
        if divisor <= 0:
            raise ArgumentError(f"OneCycleLR: divide_factor is positive, not {divide_factor}.")
        self.anneal_strategy = as_word(self, "anneal_strategy", anneal_strategy, ("cos", "linear"))
        start = top / divisor
        if as_flag(self, "three_phase", three_phase):
            if share >= 0.5:
                raise ArgumentError(f"OneCycleLR: phase_pct is below 0.5 with three phases, not {phase_pct}.")
            points = [0.0, share * total_steps - 1, 2 * share * total_steps - 2, total_steps - 1]
            rates = [start, top, start, end]
        else:
            points, rates = [0.0, share * total_steps - 1, total_steps - 1], [start, top, end]
        self._phases = list(zip(pairwise(points), pairwise(rates), strict=True))
        super().__init__(start, last_epoch, verbose)

    def get_lr(self) -> float:
        at = self.last_epoch
        if at > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {at} is beyond total_steps={self.total_steps}.")
        (begin, end), (first, last) = next((phase for phase in self._phases if at <= phase[0][1]), self._phases[-1])
        share = (at - begin) / (end - begin)
        share = share if self.anneal_strategy == "linear" else (1.0 - math.cos(math.pi * share)) / 2.0
        return first + (last - first) * share


class CyclicLR(LRScheduler):
    """Rise from ``base_learning_rate`` to ``max_learning_rate`` and fall again, over and over. Smith 2017.

    Args:
        base_learning_rate, max_learning_rate: the lower and the upper end.
        step_size_up, step_size_down: steps up and down (as many as up unless given), above 0.
        mode: 'triangular', 'triangular2' (the height halves with each cycle) or 'exp_range' (times exp_gamma^step).
        exp_gamma: for 'exp_range'.
        scale_fn: a height of one's own, in place of ``mode``.
        scale_mode: whether ``scale_fn`` takes the number of the 'cycle', from 1, or of the step ('iterations'), from 0.
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if a number makes no sense, or a mode is another word.

    Example:
        >>> schedule = paddle.optimizer.lr.CyclicLR(0.25, 0.5, step_size_up=2)
        >>> schedule.step(2)
        >>> schedule()
        0.5
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.max_lr = as_number(self, "max_learning_rate", max_learning_rate)
        if self.max_lr < 0:
            raise ArgumentError(f"CyclicLR: max_learning_rate is at least 0, not {max_learning_rate}.")
        self.scale_fn = None if scale_fn is None else as_function(self, "scale_fn", scale_fn)
        # With a function of one's own the mode does not count.
        self.mode = mode if scale_fn is not None else as_word(self, "mode", mode, ("triangular", "triangular2", "exp_range"))
        self.scale_mode = as_word(self, "scale_mode", scale_mode, ("cycle", "iterations"))
        self.exp_gamma = as_number(self, "exp_gamma", exp_gamma)
        up = as_int(self, "step_size_up", step_size_up)
        down = up if step_size_down is None else as_int(self, "step_size_down", step_size_down)
        if up <= 0 or down <= 0:
            raise ArgumentError("CyclicLR: step_size_up and step_size_down are positive.")
        self.cycle_size = float(up + down)
        self.step_up_pct = up / self.cycle_size
        super().__init__(as_number(self, "base_learning_rate", base_learning_rate), last_epoch, verbose)

    def get_lr(self) -> float:
        cycle = 1 + self.last_epoch // self.cycle_size
        at = 1.0 + self.last_epoch / self.cycle_size - cycle
        height = at / self.step_up_pct if at <= self.step_up_pct else (1 - at) / (1 - self.step_up_pct)
        return self.base_lr + (self.max_lr - self.base_lr) * height * self._scale(cycle)

    def _scale(self, cycle: float) -> float:
        if self.scale_fn is not None:
            return float(self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch))
        if self.mode == "triangular2":
            return float(1 / 2.0 ** (cycle - 1))
        return float(self.exp_gamma**self.last_epoch) if self.mode == "exp_range" else 1.0


class LinearLR(LRScheduler):
    """Multiply by a factor that moves from ``start_factor`` to ``end_factor`` within ``total_steps`` steps.

    Args:
        learning_rate: the rate that is multiplied.
        total_steps: after how many steps ``end_factor`` is reached, above 0.
        start_factor: the first factor, in (0, 1].
        end_factor: the last, in [0, 1].
        last_epoch, verbose: as in ``LRScheduler``.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if a factor lies elsewhere, or ``total_steps`` is not positive.

    Example:
        >>> schedule = paddle.optimizer.lr.LinearLR(0.5, total_steps=4, start_factor=0.5)
        >>> schedule()
        0.25
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: float,
        start_factor: float = 1.0 / 3.0,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.total_steps = as_number(self, "total_steps", total_steps)
        self.start_factor = as_number(self, "start_factor", start_factor)
        self.end_factor = as_number(self, "end_factor", end_factor)
        if not 0 < self.start_factor <= 1.0 or not 0 <= self.end_factor <= 1.0:
            raise ArgumentError("LinearLR: start_factor lies in (0, 1], end_factor in [0, 1].")
        if self.total_steps <= 0:
            raise ArgumentError(f"LinearLR: total_steps is positive, not {total_steps}.")
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        """Compute the rate from that of the step before, as Paddle does: called by itself, it gives that of a later step."""
        if self.last_epoch == 0:
            return self.base_lr * self.start_factor
        if self.last_epoch > self.total_steps:
            return self.last_lr
        change = self.end_factor - self.start_factor
        return self.last_lr * (1.0 + change / (self.total_steps * self.start_factor + (self.last_epoch - 1) * change))

    def _at_epoch(self) -> float:
        share = min(self.last_epoch, self.total_steps) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share)
