"""Learning-rate schedules: ``scheduler()`` is the rate of the next run, ``step()`` moves on."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from onnxgrad.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "CosineAnnealingDecay", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialDecay", "InverseTimeDecay", "LRScheduler",
    "LambdaDecay", "LinearLR", "LinearWarmup", "MultiStepDecay", "MultiplicativeDecay", "NaturalExpDecay", "NoamDecay",
    "OneCycleLR", "PiecewiseDecay", "PolynomialDecay", "ReduceOnPlateau", "StepDecay",
]  # fmt: skip


class LRScheduler:
    """Base: subclasses give ``get_lr`` from ``base_lr`` and ``last_epoch``, which starts at 0.

    Args:
        learning_rate: the rate to start from.
        last_epoch: where to continue; -1 for the start.
        verbose: print the rate at each step.

    With ``steps_by_itself`` the Executor moves on after each run.
    """

    _keys: tuple[str, ...] = ("last_epoch", "last_lr")
    steps_by_itself = False

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(learning_rate, (int, float)):
            raise ArgumentTypeError(f"the learning rate is a number, not {type(learning_rate).__name__}.")
        if learning_rate < 0:
            raise ArgumentError(f"the learning rate is at least 0, not {learning_rate}.")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Move to the next step, or to a given one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = float(self.get_lr())
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def get_lr(self) -> float:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """What is needed to continue: the step and the last rate."""
        return {key: getattr(self, key) for key in self._keys}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what ``state_dict`` gave.

        Raises:
            ArgumentError: if an entry is missing.
        """
        for key in self._keys:
            if key not in state_dict:
                raise ArgumentError(f"the state of {type(self).__name__} lacks {key!r}.")
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict


class NoamDecay(LRScheduler):
    """d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), 0 at step 0. Vaswani et al. 2017."""

    def __init__(
        self, d_model: int, warmup_steps: int, learning_rate: float = 1.0, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if d_model <= 0:
            raise ArgumentError(f"NoamDecay: d_model is positive, not {d_model}.")
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        first = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        return float(self.base_lr * self.d_model**-0.5 * min(first, self.warmup_steps**-1.5 * self.last_epoch))


class PiecewiseDecay(LRScheduler):
    """``values[i]`` until step ``boundaries[i]``."""

    def __init__(self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False) -> None:
        if len(values) != len(boundaries) + 1:
            raise ArgumentError(f"PiecewiseDecay: {len(boundaries)} boundaries need {len(boundaries) + 1} values.")
        self.boundaries, self.values = list(boundaries), list(values)
        super().__init__(values[0], last_epoch, verbose)

    def get_lr(self) -> float:
        return self.values[bisect_right(self.boundaries, self.last_epoch)]


class NaturalExpDecay(LRScheduler):
    """rate * exp(-gamma * step)."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """rate / (1 + gamma * step)."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """From the start to ``end_lr`` along (1 - step / decay_steps)^power; ``cycle`` stretches ``decay_steps`` again and again."""

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        steps, at = float(self.decay_steps), self.last_epoch
        if self.cycle:
            steps *= max(1, math.ceil(at / steps))
        left = 1 - min(at, steps) / steps
        return float((self.base_lr - self.end_lr) * left**self.power + self.end_lr)


class LinearWarmup(LRScheduler):
    """From ``start_lr`` to ``end_lr`` over ``warmup_steps`` steps, then another rate or schedule."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(learning_rate, (int, float, LRScheduler)):
            raise ArgumentTypeError(f"LinearWarmup: learning_rate is a number or a schedule, not {type(learning_rate).__name__}.")
        if end_lr < start_lr:
            raise ArgumentError(f"LinearWarmup: end_lr {end_lr} is below start_lr {start_lr}.")
        self.learning_rate, self.warmup_steps, self.start_lr, self.end_lr = learning_rate, warmup_steps, start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return float(self.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        found = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            found["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return found

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])


class ExponentialDecay(LRScheduler):
    """Multiply by ``gamma`` at every step."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        if not 0.0 < gamma < 1.0:
            raise ArgumentError(f"ExponentialDecay: gamma lies between 0 and 1, not {gamma}.")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma**self.last_epoch


class MultiStepDecay(LRScheduler):
    """Multiply by ``gamma`` at each of the ``milestones``."""

    def __init__(
        self, learning_rate: float, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(milestones, (list, tuple)):
            raise ArgumentTypeError(f"MultiStepDecay: milestones is a list or tuple, not {type(milestones).__name__}.")
        if sorted(set(milestones)) != list(milestones):
            raise ArgumentError(f"MultiStepDecay: the milestones must increase: {list(milestones)}.")
        if gamma >= 1.0:
            raise ArgumentError(f"MultiStepDecay: gamma is below 1, not {gamma}.")
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** bisect_right(self.milestones, self.last_epoch)


class StepDecay(LRScheduler):
    """Multiply by ``gamma`` every ``step_size`` steps."""

    def __init__(
        self, learning_rate: float, step_size: int, gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(step_size, int):
            raise ArgumentTypeError(f"StepDecay: step_size is an int, not {type(step_size).__name__}.")
        if gamma >= 1.0:
            raise ArgumentError(f"StepDecay: gamma is below 1, not {gamma}.")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class _OfFunction(LRScheduler):
    """Base of those that multiply the rate by what a function of the step gives."""

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not callable(lr_lambda):
            raise ArgumentTypeError(f"{type(self).__name__}: lr_lambda is a function, not {type(lr_lambda).__name__}.")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)


class LambdaDecay(_OfFunction):
    """rate * lr_lambda(step)."""

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(_OfFunction):
    """rate * lr_lambda(1) * ... * lr_lambda(step)."""

    def get_lr(self) -> float:
        return self.base_lr * math.prod(self.lr_lambda(epoch) for epoch in range(1, self.last_epoch + 1))


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
    """

    _keys = ("cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr")

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        if mode.lower() not in ("min", "max") or threshold_mode.lower() not in ("rel", "abs"):
            raise ArgumentError("ReduceOnPlateau: mode is 'min' or 'max', threshold_mode is 'rel' or 'abs'.")
        if factor >= 1.0:
            raise ArgumentError(f"ReduceOnPlateau: factor is below 1, not {factor}.")
        if not isinstance(learning_rate, (int, float)):
            raise ArgumentTypeError(f"ReduceOnPlateau: the learning rate is a number, not {type(learning_rate).__name__}.")
        self.mode, self.factor, self.patience = mode.lower(), factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode.lower()
        self.cooldown, self.min_lr, self.epsilon, self.verbose = cooldown, min_lr, epsilon, verbose
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best: float | None = None
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Tell the metric of a step, a number or an array of one element."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        value = float(metrics if isinstance(metrics, (int, float)) else metrics.item())
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
        return value < best - margin if self.mode == "min" else value > best + margin


class CosineAnnealingDecay(LRScheduler):
    """From the start to ``eta_min`` along half a cosine of ``T_max`` steps. Loshchilov and Hutter 2017."""

    def __init__(
        self,
        learning_rate: float,
        T_max: int,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(T_max, int):
            raise ArgumentTypeError(f"CosineAnnealingDecay: T_max is an int, not {type(T_max).__name__}.")
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of T_0, T_0 * T_mult, ... steps, each from the start to ``eta_min``. Loshchilov and Hutter 2017."""

    def __init__(
        self,
        learning_rate: float,
        T_0: int,  # noqa: N803
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if T_0 <= 0 or T_mult < 1 or not (isinstance(T_0, int) and isinstance(T_mult, int)):
            raise ArgumentError(f"CosineAnnealingWarmRestarts: T_0 is an int above 0, T_mult one above 0, not {T_0} and {T_mult}.")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        length, at = self.T_0, self.last_epoch
        while at >= length:
            at -= length
            length *= self.T_mult
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * at / length)) / 2


class OneCycleLR(LRScheduler):
    """Up to ``max_learning_rate`` and down again within ``total_steps`` steps. Smith and Topin 2018.

    Args:
        max_learning_rate: the rate at the top.
        total_steps: length of the cycle.
        divide_factor: the cycle starts at ``max_learning_rate / divide_factor``.
        end_learning_rate: rate at the end.
        phase_pct: share of the steps that go up.
        anneal_strategy: 'cos' or 'linear'.
        three_phase: down to the start first, as fast as it went up, and then to the end.
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(max_learning_rate, (int, float)) or not isinstance(total_steps, int):
            raise ArgumentTypeError("OneCycleLR: max_learning_rate is a number and total_steps an int.")
        if max_learning_rate < 0 or end_learning_rate < 0 or total_steps <= 0 or not 0 <= phase_pct <= 1:
            raise ArgumentError("OneCycleLR: rates are not negative, total_steps is positive, phase_pct lies in [0, 1].")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"OneCycleLR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}.")
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        start, top, end = max_learning_rate / float(divide_factor), float(max_learning_rate), float(end_learning_rate)
        if three_phase:
            if phase_pct >= 0.5:
                raise ArgumentError(f"OneCycleLR: phase_pct is below 0.5 with three phases, not {phase_pct}.")
            points = [0, phase_pct * total_steps - 1, 2 * phase_pct * total_steps - 2, total_steps - 1, total_steps - 1]
            rates = [start, top, start, end]
        else:
            points = [0, phase_pct * total_steps - 1, total_steps - 1, total_steps - 1]
            rates = [start, top, end]
        self._points, self._rates = [float(point) for point in points], rates
        super().__init__(start, last_epoch, verbose)

    def get_lr(self) -> float:
        at = self.last_epoch
        if at > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {at} is beyond total_steps={self.total_steps}.")
        for i in range(len(self._rates) - 1):
            begin, end = self._points[i], self._points[i + 1]
            if at <= end or i == len(self._rates) - 2:
                return self._between(self._rates[i], self._rates[i + 1], (at - begin) / (end - begin))
        raise AssertionError

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


class CyclicLR(LRScheduler):
    """Up from ``base_learning_rate`` to ``max_learning_rate`` and down again, over and over. Smith 2017.

    Args:
        base_learning_rate, max_learning_rate: the lower and the upper end.
        step_size_up, step_size_down: steps up and down (as many as up unless given).
        mode: 'triangular', 'triangular2' (the height halves with each cycle) or 'exp_range' (times exp_gamma^step).
        exp_gamma: for 'exp_range'.
        scale_fn: a height of one's own, in place of ``mode``.
        scale_mode: whether ``scale_fn`` takes the number of the 'cycle' or of the step ('iterations').
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(max_learning_rate, (int, float)):
            raise ArgumentTypeError(f"CyclicLR: max_learning_rate is a number, not {max_learning_rate!r}.")
        if not (isinstance(step_size_up, int) and isinstance(step_size_down, int | None)):
            raise ArgumentTypeError(f"CyclicLR: step sizes are ints, not {step_size_up!r} and {step_size_down!r}.")
        if max_learning_rate < 0:
            raise ArgumentError(f"CyclicLR: max_learning_rate is at least 0, not {max_learning_rate}.")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ArgumentError(f"CyclicLR: mode is 'triangular', 'triangular2' or 'exp_range', not {mode!r}.")
        if scale_mode not in ("cycle", "iterations"):
            raise ArgumentError(f"CyclicLR: scale_mode is 'cycle' or 'iterations', not {scale_mode!r}.")
        down = step_size_up if step_size_down is None else step_size_down
        if step_size_up <= 0 or down <= 0:
            raise ArgumentError("CyclicLR: step_size_up and step_size_down are positive.")
        self.cycle_size = float(step_size_up + down)
        self.step_up_pct = step_size_up / self.cycle_size
        self.max_lr, self.mode, self.exp_gamma = float(max_learning_rate), mode, exp_gamma
        self.scale_fn, self.scale_mode = scale_fn, scale_mode
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        cycle = 1 + self.last_epoch // self.cycle_size
        at = 1.0 + self.last_epoch / self.cycle_size - cycle
        height = at / self.step_up_pct if at <= self.step_up_pct else (1 - at) / (1 - self.step_up_pct)
        return self.base_lr + (self.max_lr - self.base_lr) * height * self._scale(cycle)

    def _scale(self, cycle: float) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "triangular2":
            return float(1 / 2.0 ** (cycle - 1))
        return float(self.exp_gamma**self.last_epoch) if self.mode == "exp_range" else 1.0


class LinearLR(LRScheduler):
    """rate times a factor that moves from ``start_factor`` to ``end_factor`` within ``total_steps`` steps."""

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not 0 < start_factor <= 1.0 or not 0 <= end_factor <= 1.0:
            raise ArgumentError("LinearLR: start_factor lies in (0, 1], end_factor in [0, 1].")
        if total_steps <= 0:
            raise ArgumentError(f"LinearLR: total_steps is positive, not {total_steps}.")
        self.total_steps, self.start_factor, self.end_factor = total_steps, start_factor, end_factor
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        share = min(self.last_epoch, self.total_steps) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share)
