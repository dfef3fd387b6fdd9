"""Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), with Paddle's placing of epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.variable import Variable
from onnxgrad.nn.clip import GradientClip
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr c m / (sqrt(v) + eps r), r = sqrt(1 - b2^t), c = r / (1 - b1^t)."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Sequence[Variable | str] | None = None,
        weight_decay: Any = None,
        grad_clip: GradientClip | None = None,
        lazy_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        for label, beta in (("beta1", beta1), ("beta2", beta2)):
            if not 0 <= beta < 1:
                raise ArgumentError(f"{label} must lie in [0, 1), not {beta}.")
        self._beta1, self._beta2, self._epsilon = float(beta1), float(beta2), float(epsilon)

    def _update(self, op: Builder, p: Variable, g: Variable, rate: Variable) -> Variable:
        b1, b2 = self._beta1, self._beta2
        m, v = self._zeros(p, "moment1"), self._zeros(p, "moment2")
        power1 = self._accumulator(p, "beta1_pow_acc", np.array([b1], p.dtype.numpy))
        power2 = self._accumulator(p, "beta2_pow_acc", np.array([b2], p.dtype.numpy))
        new_m = op.Add(op.Mul(m, b1), op.Mul(g, 1.0 - b1))
        new_v = op.Add(op.Mul(v, b2), op.Mul(op.Mul(g, g), 1.0 - b2))
        root = op.Sqrt(op.Sub(1.0, power2))
        step = op.Div(op.Mul(rate, root), op.Sub(1.0, power1))
        denominator = op.Add(op.Sqrt(new_v), op.Mul(root, self._epsilon))
        for old, new in ((m, new_m), (v, new_v), (power1, op.Mul(power1, b1)), (power2, op.Mul(power2, b2))):
            self._replace(old, new)
        moved = op.Sub(self._shrunk(op, p, rate), op.Mul(op.Div(new_m, denominator), step))
        return moved if p.rank else op.Reshape(moved, np.zeros(0, np.int64))  # type: ignore[no-any-return]

    def _shrunk(self, op: Builder, p: Variable, rate: Variable) -> Variable:
        """The parameter before its step."""
        return p


class AdamW(Adam):
    """Adam with decoupled decay: p is first multiplied by 1 - lr * weight_decay.

    ``apply_decay_param_fun`` takes a parameter's name and says whether it decays.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Sequence[Variable | str] | None = None,
        weight_decay: float = 0.01,
        lr_ratio: Any = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: GradientClip | None = None,
        lazy_mode: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(weight_decay, (int, float)):
            raise ArgumentTypeError(f"AdamW: weight_decay is a number, not {type(weight_decay).__name__}.")
        super().__init__(learning_rate, beta1, beta2, epsilon, parameters, None, grad_clip, lazy_mode, name)
        self._coefficient = float(weight_decay)
        self._decays = apply_decay_param_fun

    def _decayed(self, op: Builder, p: Variable, g: Variable) -> Variable:
        return g

    def _shrunk(self, op: Builder, p: Variable, rate: Variable) -> Variable:
        if self._coefficient == 0.0 or (self._decays is not None and not self._decays(p.name)):
            return p
        return op.Mul(p, op.Sub(1.0, op.Mul(rate, self._coefficient)))  # type: ignore[no-any-return]
