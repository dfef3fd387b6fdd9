"""GradScaler: loss scaling of eager training loops.

Tests: tests/amp/test_eager.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.eager.tensor import Tensor, leaf
from onnxgrad.errors import ArgumentError, NotAVariable
from onnxgrad.internal.arguments import as_flag, as_int, as_number
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["AmpScaler", "GradScaler"]

_SMALLEST_SCALE = 1.0


class GradScaler:
    """Scales a loss, divides the gradients, skips steps that overflow, and adapts the scale.

    Args:
        enable: False lets every method do what it would without scaling.
        init_loss_scaling: the first scale.
        incr_ratio, decr_ratio: factors of the scale.
        incr_every_n_steps: finite steps until it grows.
        decr_every_n_nan_or_inf: overflows until it shrinks.
        use_dynamic_loss_scaling: False for a constant scale.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.
        ArgumentError: if a ratio lies elsewhere.

    Example:
        >>> w = paddle.create_parameter([1], "float32", is_bias=True)
        >>> sgd = paddle.optimizer.SGD(0.1, parameters=[w])
        >>> scaler = paddle.amp.GradScaler(init_loss_scaling=8.0)
        >>> scaler.scale((w * 2.0).sum()).backward()
        >>> w.grad.tolist()
        [16.0]
        >>> scaler.step(sgd)
        >>> scaler.update()
        >>> w.tolist()
        [-0.20000000298023224]
    """

    _scale: float

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 65536.0,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        self._enable = as_flag(self, "enable", enable)
        self._dynamic = as_flag(self, "use_dynamic_loss_scaling", use_dynamic_loss_scaling) and self._enable
        self.set_incr_ratio(incr_ratio)
        self.set_decr_ratio(decr_ratio)
        self.set_init_loss_scaling(init_loss_scaling)
        if not self._enable:
            self.set_init_loss_scaling(1.0)
        self.set_incr_every_n_steps(incr_every_n_steps)
        self.set_decr_every_n_nan_or_inf(decr_every_n_nan_or_inf)
        self._good = self._bad = 0
        self._unscaled: set[Optimizer] = set()
        self._stepped: set[Optimizer] = set()
        self._overflowed: set[Optimizer] = set()

    # Training ----------------------------------------------------------------------------------------------------------

    def scale(self, var: Variable) -> Tensor:
        """The loss times the scale.

        Args:
            var: a loss.

        Raises:
            NotAVariable: if it is not a tensor.
        """
        if not isinstance(var, Tensor):
            raise NotAVariable(f"scale takes an eager tensor, not {type(var).__name__}.")
        if not self._enable:
            return var
        scaled = (var.astype("float32") if var.dtype == "float16" else var) * self._scale
        assert isinstance(scaled, Tensor)
        return scaled

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, to clip or look at them before ``step``.

        Args:
            optimizer: the gradients of whose parameters are divided.

        Raises:
            ArgumentError: (a RuntimeError) if that was done already since the last ``update``.
        """
        if not self._enable:
            return
        if optimizer in self._unscaled | self._stepped:
            raise _OutOfOrder("unscale_ was called already, or step, since the last update(). Call it once, before step.")
        self._unscaled.add(optimizer)
        inverse = np.float32(1.0 / self._scale)
        for p in optimizer._eager_parameters():
            if p.grad is None:
                continue
            array = np.asarray(p.grad.numpy())
            if not np.isfinite(array).all():
                self._overflowed.add(optimizer)
                continue
            p.grad = leaf((array * inverse).astype(array.dtype))

    def step(self, optimizer: Optimizer) -> None:
        """``optimizer.step()`` with unscaled gradients, or nothing if one of them is infinite or NaN.

        Args:
            optimizer: whose step is taken unless a gradient has overflowed.

        Raises:
            ArgumentError: (a RuntimeError) if it is the second since the last ``update``.
        """
        if not self._enable:
            optimizer.step()
            return
        if optimizer in self._stepped:
            raise _OutOfOrder("step was called already since the last update(). Call update after each step.")
        if optimizer not in self._unscaled:
            self.unscale_(optimizer)
        self._stepped.add(optimizer)
        if optimizer not in self._overflowed:
            optimizer.step()

    def update(self) -> None:
        """Adapt the scale to how the steps since the last ``update`` went."""
        if self._dynamic and self._unscaled:
            self._adapt(bool(self._overflowed))
        self._unscaled, self._stepped, self._overflowed = set(), set(), set()

    def minimize(self, optimizer: Optimizer, *args: object, **kwargs: object) -> None:
        """``step`` and ``update``; arguments of ``optimizer.minimize`` are not needed.

        Args:
            optimizer: of the parameters.
            args: accepted for compatibility, as the optimizer's ``minimize`` has them.
            kwargs: likewise.
        """
        self.step(optimizer)
        self.update()

    def _adapt(self, overflowed: bool) -> None:
        self._good, self._bad = (0, self._bad + 1) if overflowed else (self._good + 1, 0)
        if self._bad >= self._decr_every:
            self._scale, self._bad = max(self._scale * self._decr_ratio, _SMALLEST_SCALE), 0
        if self._good >= self._incr_every:
            larger = self._scale * self._incr_ratio
            self._scale, self._good = larger if larger <= np.finfo(np.float32).max else self._scale, 0

    # Reading and setting -----------------------------------------------------------------------------------------------

    def is_enable(self) -> bool:
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        return self._dynamic

    def get_init_loss_scaling(self) -> float:
        return self._initial

    def set_init_loss_scaling(self, new_init_loss_scaling: float) -> None:
        """Start again from this scale.

        Args:
            new_init_loss_scaling: the scale.
        """
        self._initial: float = as_number(self, "init_loss_scaling", new_init_loss_scaling)
        self._scale = self._initial

    def get_incr_ratio(self) -> float:
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio: float) -> None:
        """The factor above 1 by which the scale grows.

        Args:
            new_incr_ratio: the factor by which the scale rises, above 1.
        """
        self._incr_ratio = as_number(self, "incr_ratio", new_incr_ratio, above=1)

    def get_decr_ratio(self) -> float:
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio: float) -> None:
        """The factor below 1 by which the scale shrinks.

        Args:
            new_decr_ratio: the factor by which the scale falls, between 0 and 1.
        """
        self._decr_ratio = as_number(self, "decr_ratio", new_decr_ratio, above=0, below=1)

    def get_incr_every_n_steps(self) -> int:
        return self._incr_every

    def set_incr_every_n_steps(self, new_incr_every_n_steps: int) -> None:
        """After how many finite steps the scale grows.

        Args:
            new_incr_every_n_steps: how many steps in a row without overflow make the scale rise.
        """
        self._incr_every = as_int(self, "incr_every_n_steps", new_incr_every_n_steps)

    def get_decr_every_n_nan_or_inf(self) -> int:
        return self._decr_every

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf: int) -> None:
        """After how many overflows it shrinks.

        Args:
            new_decr_every_n_nan_or_inf: how many steps in a row must overflow before the scale falls.
        """
        self._decr_every = as_int(self, "decr_every_n_nan_or_inf", new_decr_every_n_nan_or_inf)

    def state_dict(self) -> dict[str, Any]:
        """The scale, its rules and its counters; empty if scaling is off."""
        if not self._enable:
            return {}
        return {
            "scale": np.array([self._scale], np.float32),
            "incr_ratio": self._incr_ratio,
            "decr_ratio": self._decr_ratio,
            "incr_every_n_steps": self._incr_every,
            "decr_every_n_nan_or_inf": self._decr_every,
            "incr_count": self._good,
            "decr_count": self._bad,
            "use_dynamic_loss_scaling": self._dynamic,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a result of ``state_dict``.

        Args:
            state_dict: what ``state_dict`` gave.

        Raises:
            ArgumentError: (a RuntimeError) if it is empty, while scaling is on.
        """
        if not self._enable:
            return
        if not state_dict:
            raise _OutOfOrder("this state_dict is empty: it comes from a GradScaler that is off. Make this one so too.")
        self._scale = float(np.asarray(state_dict["scale"]).reshape(-1)[0])
        self._incr_ratio, self._decr_ratio = state_dict["incr_ratio"], state_dict["decr_ratio"]
        self._incr_every, self._decr_every = state_dict["incr_every_n_steps"], state_dict["decr_every_n_nan_or_inf"]
        self._good, self._bad = state_dict["incr_count"], state_dict["decr_count"]
        self._dynamic = state_dict["use_dynamic_loss_scaling"]


AmpScaler = GradScaler


class _OutOfOrder(ArgumentError, RuntimeError):
    """Methods are called in an order that makes no sense; a RuntimeError too, as Paddle has it."""
