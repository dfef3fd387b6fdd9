"""Learning-rate schedules: ``scheduler()`` is the rate of the next run, ``step()`` moves on."""

# Tests: tests/optimizer/test_schedules.py.

from __future__ import annotations

import math
from bisect import bisect_right
from copy import copy
from itertools import pairwise
from typing import Any

from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.signatures import Taken

__all__ = [
    "CosineAnnealingDecay", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialDecay", "InverseTimeDecay", "LRScheduler",
    "LambdaDecay", "LinearLR", "LinearWarmup", "MultiStepDecay", "MultiplicativeDecay", "NaturalExpDecay", "NoamDecay",
    "OneCycleLR", "PiecewiseDecay", "PolynomialDecay", "ReduceOnPlateau", "StepDecay",
]  # fmt: skip


class LRScheduler(Taken):
    """Base: subclasses give ``get_lr`` from ``base_lr`` and ``last_epoch``, which starts at 0.

    Args:
        learning_rate: the rate to start from.
        last_epoch: where to continue; -1 for the start.
        verbose: print the rate at each step.

    With ``steps_by_itself`` the Executor moves on after each run.
    """

    _keys: tuple[str, ...] = ("last_epoch", "last_lr")
    last_epoch: int
    steps_by_itself = False

    takes = "learning_rate=0.1, last_epoch=-1, verbose=False"

    def _begin(self, options: Any) -> None:
        vars(self).update(vars(options))
        learning_rate = self._start()
        if not isinstance(learning_rate, (int, float)):
            raise ArgumentTypeError(f"the learning rate is a number, not {type(learning_rate).__name__}.")
        if learning_rate < 0:
            raise ArgumentError(f"the learning rate is at least 0, not {learning_rate}.")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.step()

    def _start(self) -> float:
        """The rate to start from; here subclasses look whether their arguments make sense."""
        rate: float = self.learning_rate
        return rate

    def __call__(self) -> float:
        return self.last_lr

    def step(self, epoch: int | None = None) -> None:
        """Move to the next step, or to a given one."""
        attributes = vars(self)
        before = attributes.copy()
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            self.last_lr = float(self.get_lr())
        except BaseException:
            attributes.update(before)
            raise
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def moved(self, *arguments: Any) -> list[tuple[LRScheduler, dict[str, Any]]]:
        """The attributes that ``step`` would leave here and in schedules within, all of which stay as they are."""
        copies: dict[LRScheduler, LRScheduler] = {}
        _copy(self, copies).step(*arguments)
        originals = {id(other): scheduler for scheduler, other in copies.items()}
        return [
            (scheduler, {name: originals.get(id(value), value) for name, value in vars(other).items()})
            for scheduler, other in copies.items()
        ]

    def get_lr(self) -> float:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state to continue from: the step and the last rate."""
        return {key: getattr(self, key) for key in self._keys}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what ``state_dict`` gave.

        Raises:
            ArgumentError: if an entry is missing.
        """
        for owner, attributes in self.attributes_of(state_dict):
            vars(owner).update(attributes)

    set_dict = set_state_dict

    def attributes_of(self, state_dict: dict[str, Any]) -> list[tuple[LRScheduler, dict[str, Any]]]:
        """What ``set_state_dict`` sets, here and in schedules within, once all of it is there"""
        for key in self._keys:
            if key not in state_dict:
                raise ArgumentError(f"the state of {type(self).__name__} lacks {key!r}. Give what its state_dict gave.")
        return [(self, {key: state_dict[key] for key in self._keys})]


def _copy(scheduler: LRScheduler, copies: dict[LRScheduler, LRScheduler]) -> LRScheduler:
    """A copy with copies of the schedules within, all of which are noted"""
    other = copies[scheduler] = copy(scheduler)
    vars(other).update({k: _copy(v, copies) for k, v in vars(scheduler).items() if isinstance(v, LRScheduler)})
    return other


class NoamDecay(LRScheduler):
    """d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), 0 at step 0. Vaswani et al. 2017."""

    takes = "d_model, warmup_steps, learning_rate=1.0, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        if self.d_model <= 0:
            raise ArgumentError(f"NoamDecay: d_model is positive, not {self.d_model}.")
        return super()._start()

    def get_lr(self) -> float:
        first = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        return float(self.base_lr * self.d_model**-0.5 * min(first, self.warmup_steps**-1.5 * self.last_epoch))


class PiecewiseDecay(LRScheduler):
    """``values[i]`` until step ``boundaries[i]``."""

    takes = "boundaries, values, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        count = len(self.boundaries) + 1
        if len(self.values) != count:
            raise ArgumentError(f"PiecewiseDecay: {count - 1} boundaries need {count} values.")
        return float(self.values[0])

    def get_lr(self) -> float:
        return float(self.values[bisect_right(self.boundaries, self.last_epoch)])


class NaturalExpDecay(LRScheduler):
    """rate * exp(-gamma * step)."""

    takes = "learning_rate, gamma, last_epoch=-1, verbose=False"

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """rate / (1 + gamma * step)."""

    takes = "learning_rate, gamma, last_epoch=-1, verbose=False"

    def get_lr(self) -> float:
        return float(self.base_lr / (1 + self.gamma * self.last_epoch))


class PolynomialDecay(LRScheduler):
    """From the start to ``end_lr`` along (1 - step / decay_steps)^power; ``cycle`` stretches ``decay_steps`` again and again."""

    takes = "learning_rate, decay_steps, end_lr=0.0001, power=1.0, cycle=False, last_epoch=-1, verbose=False"

    def get_lr(self) -> float:
        steps, at = float(self.decay_steps), self.last_epoch
        if self.cycle:
            steps *= max(1, math.ceil(at / steps))
        left = 1 - min(at, steps) / steps
        return float((self.base_lr - self.end_lr) * left**self.power + self.end_lr)


class LinearWarmup(LRScheduler):
    """From ``start_lr`` to ``end_lr`` over ``warmup_steps`` steps, then another rate or schedule."""

    takes = "learning_rate, warmup_steps, start_lr, end_lr, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        if not isinstance(self.learning_rate, (int, float, LRScheduler)):
            type_name = type(self.learning_rate).__name__
            raise ArgumentTypeError(f"LinearWarmup: learning_rate is a number or a schedule, not {type_name}.")
        if self.end_lr < self.start_lr:
            raise ArgumentError(f"LinearWarmup: end_lr {self.end_lr} is below start_lr {self.start_lr}.")
        return float(self.start_lr)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return float((self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr)
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
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
            raise ArgumentError("the state of LinearWarmup lacks 'LinearWarmup_LR'. Give what its state_dict gave.")
        return [*self.learning_rate.attributes_of(state_dict["LinearWarmup_LR"]), *pairs]


class ExponentialDecay(LRScheduler):
    """Multiply by ``gamma`` at every step."""

    takes = "learning_rate, gamma, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        if not 0.0 < self.gamma < 1.0:
            raise ArgumentError(f"ExponentialDecay: gamma lies between 0 and 1, not {self.gamma}.")
        return super()._start()

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma**self.last_epoch)


class MultiStepDecay(LRScheduler):
    """Multiply by ``gamma`` at each of the ``milestones``."""

    takes = "learning_rate, milestones, gamma=0.1, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        milestones = self.milestones
        if not isinstance(milestones, (list, tuple)):
            raise ArgumentTypeError(f"MultiStepDecay: milestones is a list or tuple, not {type(milestones).__name__}.")
        if sorted(set(milestones)) != list(milestones):
            raise ArgumentError(f"MultiStepDecay: the milestones must increase: {list(milestones)}.")
        if self.gamma >= 1.0:
            raise ArgumentError(f"{type(self).__name__}: gamma is below 1, not {self.gamma}.")
        return super()._start()

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma ** bisect_right(self.milestones, self.last_epoch))


class StepDecay(LRScheduler):
    """Multiply by ``gamma`` every ``step_size`` steps."""

    takes = "learning_rate, step_size, gamma=0.1, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        if not isinstance(self.step_size, int):
            raise ArgumentTypeError(f"StepDecay: step_size is an int, not {type(self.step_size).__name__}.")
        if self.gamma >= 1.0:
            raise ArgumentError(f"{type(self).__name__}: gamma is below 1, not {self.gamma}.")
        return super()._start()

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma ** (self.last_epoch // self.step_size))


class _OfFunction(LRScheduler):
    """Base of the schedules that multiply the rate by a function of the step."""

    takes = "learning_rate, lr_lambda, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        if not callable(self.lr_lambda):
            raise ArgumentTypeError(f"{type(self).__name__}: lr_lambda is a function, not {type(self.lr_lambda).__name__}.")
        return super()._start()


class LambdaDecay(_OfFunction):
    """rate * lr_lambda(step)."""

    def get_lr(self) -> float:
        return float(self.base_lr * self.lr_lambda(self.last_epoch))


class MultiplicativeDecay(_OfFunction):
    """rate * lr_lambda(1) * ... * lr_lambda(step)."""

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
    """

    _keys = ("cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr")

    takes = (
        "learning_rate, mode='min', factor=0.1, patience=10, threshold=1e-4, threshold_mode='rel', cooldown=0, min_lr=0, "
        "epsilon=1e-8, verbose=False"
    )

    def _begin(self, options: Any) -> None:
        options.mode, options.threshold_mode = options.mode.lower(), options.threshold_mode.lower()
        if options.mode not in ("min", "max") or options.threshold_mode not in ("rel", "abs"):
            raise ArgumentError("ReduceOnPlateau: mode is 'min' or 'max', threshold_mode is 'rel' or 'abs'.")
        if options.factor >= 1.0:
            raise ArgumentError(f"ReduceOnPlateau: factor is below 1, not {options.factor}.")
        if not isinstance(options.learning_rate, (int, float)):
            raise ArgumentTypeError(f"ReduceOnPlateau: the learning rate is a number, not {type(options.learning_rate).__name__}.")
        vars(self).update(vars(options))
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best: float | None = None
        self.base_lr = self.last_lr = float(options.learning_rate)
        self.last_epoch = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Tell the metric of a step, a number or an array of one element."""
        value = float(metrics if isinstance(metrics, (int, float)) else metrics.item())
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
    """From the start to ``eta_min`` along half a cosine of ``T_max`` steps. Loshchilov and Hutter 2017."""

    takes = "learning_rate, T_max, eta_min=0.0, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        if not isinstance(self.T_max, int):
            raise ArgumentTypeError(f"CosineAnnealingDecay: T_max is an int, not {type(self.T_max).__name__}.")
        return super()._start()

    def get_lr(self) -> float:
        return float(self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of T_0, T_0 * T_mult, ... steps, each from the start to ``eta_min``. Loshchilov and Hutter 2017."""

    takes = "learning_rate, T_0, T_mult=1, eta_min=0.0, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        first, factor = self.T_0, self.T_mult
        if first <= 0 or factor < 1 or not (isinstance(first, int) and isinstance(factor, int)):
            raise ArgumentError(
                f"CosineAnnealingWarmRestarts: T_0 is an int above 0, T_mult one above 0, not {first} and {factor}."
            )
        return super()._start()

    def get_lr(self) -> float:
        length, at = self.T_0, self.last_epoch
        while at >= length:
            at -= length
            length *= self.T_mult
        return float(self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * at / length)) / 2)


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

    takes = (
        "max_learning_rate, total_steps, divide_factor=25.0, end_learning_rate=0.0001, phase_pct=0.3, anneal_strategy='cos', "
        "three_phase=False, last_epoch=-1, verbose=False"
    )

    def _start(self) -> float:
        total_steps, phase_pct, top, end = self.total_steps, self.phase_pct, self.max_learning_rate, self.end_learning_rate
        if not isinstance(top, (int, float)) or not isinstance(total_steps, int):
            raise ArgumentTypeError("OneCycleLR: max_learning_rate is a number and total_steps an int.")
        if top < 0 or end < 0 or total_steps <= 0 or not 0 <= phase_pct <= 1:
            raise ArgumentError("OneCycleLR: rates are not negative, total_steps is positive, phase_pct lies in [0, 1].")
        if self.anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"OneCycleLR: anneal_strategy is 'cos' or 'linear', not {self.anneal_strategy!r}.")
        start = top / float(self.divide_factor)
        if self.three_phase:
            if phase_pct >= 0.5:
                raise ArgumentError(f"OneCycleLR: phase_pct is below 0.5 with three phases, not {phase_pct}.")
            points = [0.0, phase_pct * total_steps - 1, 2 * phase_pct * total_steps - 2, total_steps - 1]
            rates = [start, top, start, end]
        else:
            points, rates = [0.0, phase_pct * total_steps - 1, total_steps - 1], [start, top, end]
        self._phases = list(zip(pairwise(points), pairwise(rates), strict=True))
        return start

    def get_lr(self) -> float:
        at = self.last_epoch
        if at > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {at} is beyond total_steps={self.total_steps}.")
        (begin, end), (first, last) = next((phase for phase in self._phases if at <= phase[0][1]), self._phases[-1])
        share = (at - begin) / (end - begin)
        share = share if self.anneal_strategy == "linear" else (1.0 - math.cos(math.pi * share)) / 2.0
        return float(first + (last - first) * share)


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

    takes = (
        "base_learning_rate, max_learning_rate, step_size_up, step_size_down=None, mode='triangular', exp_gamma=1.0, "
        "scale_fn=None, scale_mode='cycle', last_epoch=-1, verbose=False"
    )

    def _start(self) -> float:
        top, up, down = self.max_learning_rate, self.step_size_up, self.step_size_down
        if not isinstance(top, (int, float)):
            raise ArgumentTypeError(f"CyclicLR: max_learning_rate is a number, not {top!r}.")
        if not (isinstance(up, int) and isinstance(down, int | None)):
            raise ArgumentTypeError(f"CyclicLR: step sizes are ints, not {up!r} and {down!r}.")
        if top < 0:
            raise ArgumentError(f"CyclicLR: max_learning_rate is at least 0, not {top}.")
        if self.mode not in ("triangular", "triangular2", "exp_range") and self.scale_fn is None:
            raise ArgumentError(f"CyclicLR: mode is 'triangular', 'triangular2' or 'exp_range', not {self.mode!r}.")
        if self.scale_mode not in ("cycle", "iterations"):
            raise ArgumentError(f"CyclicLR: scale_mode is 'cycle' or 'iterations', not {self.scale_mode!r}.")
        down = up if down is None else down
        if up <= 0 or down <= 0:
            raise ArgumentError("CyclicLR: step_size_up and step_size_down are positive.")
        self.cycle_size = float(up + down)
        self.step_up_pct = up / self.cycle_size
        self.max_lr = float(top)
        rate: float = self.base_learning_rate
        return rate

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
    """rate times a factor that moves from ``start_factor`` to ``end_factor`` within ``total_steps`` steps."""

    takes = "learning_rate, total_steps, start_factor=0.3333333333333333, end_factor=1.0, last_epoch=-1, verbose=False"

    def _start(self) -> float:
        if not 0 < self.start_factor <= 1.0 or not 0 <= self.end_factor <= 1.0:
            raise ArgumentError("LinearLR: start_factor lies in (0, 1], end_factor in [0, 1].")
        if self.total_steps <= 0:
            raise ArgumentError(f"LinearLR: total_steps is positive, not {self.total_steps}.")
        return super()._start()

    def get_lr(self) -> float:
        share = min(self.last_epoch, self.total_steps) / self.total_steps
        return float(self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share))
