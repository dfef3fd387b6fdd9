"""fluid.optimizer: optimizers under the names and arguments of Paddle 1.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxgrad import optimizer
from onnxgrad.core.autodiff.api import append_backward
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.refusals import refusals
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.groups import Parameters
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer
from onnxgrad.optimizer.regularizer import WeightDecay

__all__ = [
    "SGD", "Adadelta", "AdadeltaOptimizer", "Adagrad", "AdagradOptimizer", "Adam", "AdamOptimizer", "Adamax", "AdamaxOptimizer",
    "ExponentialMovingAverage", "LambOptimizer", "Momentum", "MomentumOptimizer", "RMSPropOptimizer", "RecomputeOptimizer",
    "SGDOptimizer",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


class SGDOptimizer(optimizer.SGD):
    """p -= lr * g."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameter_list: Parameters = None,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name=name)


class MomentumOptimizer(optimizer.Momentum):
    """v = mu * v + g;  p -= lr * v, or with Nesterov p -= lr * (g + mu * v). Sutskever et al. 2013."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        momentum: float | Variable,
        parameter_list: Parameters = None,
        use_nesterov: bool = False,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, momentum, parameter_list, use_nesterov, regularization, grad_clip, name=name)


class AdagradOptimizer(optimizer.Adagrad):
    """m += g^2;  p -= lr g / (sqrt(m) + eps). Duchi, Hazan and Singer 2011."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        epsilon: float | Variable = 1e-6,
        parameter_list: Parameters = None,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, epsilon, parameter_list, regularization, grad_clip, name, initial_accumulator_value)


class AdamOptimizer(optimizer.Adam):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr c m / (sqrt(v) + eps r), r = sqrt(1 - b2^t), c = r / (1 - b1^t).
    Kingma and Ba 2015.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float | Variable = 1e-8,
        parameter_list: Parameters = None,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, lazy_mode, name=name)


class AdamaxOptimizer(optimizer.Adamax):
    """m = b1 m + (1 - b1) g;  u = max(|g|, b2 u + eps);  p -= lr / (1 - b1^t) * m / u. Kingma and Ba 2015."""

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float | Variable = 1e-8,
        parameter_list: Parameters = None,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name)


class AdadeltaOptimizer(optimizer.Adadelta):
    """a = rho a + (1 - rho) g^2;  u = sqrt((d + eps) / (a + eps)) g;  d = rho d + (1 - rho) u^2;  p -= u. Zeiler 2012.

    As in Paddle 1, the learning rate has no effect.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        epsilon: float | Variable = 1e-6,
        rho: float | Variable = 0.95,
        parameter_list: Parameters = None,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(1.0, epsilon, rho, parameter_list, regularization, grad_clip, name)


class RMSPropOptimizer(optimizer.RMSProp):
    """s = rho s + (1 - rho) g^2;  v = mu v + lr g / sqrt(s + eps);  p -= v. Hinton 2012."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        rho: float | Variable = 0.95,
        epsilon: float | Variable = 1e-6,
        momentum: float | Variable = 0.0,
        centered: bool = False,
        parameter_list: Parameters = None,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, rho, epsilon, momentum, centered, parameter_list, regularization, grad_clip, name)


class LambOptimizer(optimizer.Lamb):
    """r = mhat / (sqrt(vhat) + eps) + decay p;  p -= lr |p| / |r| r. You et al. 2020.

    The regularization is accepted and left out: the decay is Lamb's own.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        lamb_weight_decay: float | Variable = 0.01,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float | Variable = 1e-6,
        parameter_list: Parameters = None,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        exclude_from_weight_decay_fn: Callable[[Variable], bool] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            lamb_weight_decay,
            beta1,
            beta2,
            epsilon,
            parameter_list,
            grad_clip,
            exclude_from_weight_decay_fn,
            name=name,
        )


SGD, Momentum, Adagrad, Adam = SGDOptimizer, MomentumOptimizer, AdagradOptimizer, AdamOptimizer
Adamax, Adadelta = AdamaxOptimizer, AdadeltaOptimizer


class RecomputeOptimizer:
    """Another optimizer whose backward pass recomputes what lies between checkpoints.

    Example:
        >>> x = fluid.layers.data("x", [8])
        >>> hidden = fluid.layers.fc(fluid.layers.fc(x, 8, act="tanh"), 8, act="tanh")
        >>> loss = fluid.layers.mean(fluid.layers.fc(hidden, 1))
        >>> optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGDOptimizer(0.1))
        >>> optimizer._set_checkpoints([hidden])
        >>> operators, pairs = optimizer.minimize(loss)
        >>> len(pairs)
        6
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._checkpoints: list[Variable | str] | str | None = None

    def _set_checkpoints(self, checkpoints: Sequence[Variable | str] | str) -> None:
        self._checkpoints = checkpoints if isinstance(checkpoints, str) else list(checkpoints)

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Variable | str] | None = None,
        no_grad_set: Any = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
    ) -> list[tuple[Variable, Variable]]:
        """The pairs of parameter and gradient.

        Raises:
            ArgumentError: if no checkpoints were set.
        """
        if self._checkpoints is None:
            raise ArgumentError("RecomputeOptimizer: call _set_checkpoints([...]) first.")
        return append_backward(loss, parameter_list, no_grad_set, callbacks, self._checkpoints)

    def apply_gradients(self, params_grads: list[tuple[Variable, Variable]]) -> list[Operator]:
        """Append the update."""
        return self._optimizer.apply_gradients(params_grads)

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Variable | str] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], list[tuple[Variable, Variable]]]:
        """Append the backward pass and the update."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self._optimizer.apply_gradients(pairs, startup_program), pairs


_RARE = "Paddle 2 withdrew it"
_REFUSED = refusals(
    "fluid.optimizer",
    {
        **dict.fromkeys(("DecayedAdagrad", "DecayedAdagradOptimizer"), f"{_RARE}. Use RMSPropOptimizer."),
        **dict.fromkeys(("Ftrl", "FtrlOptimizer"), f"{_RARE}. Use AdagradOptimizer with L1Decay."),
        **dict.fromkeys(("Dpsgd", "DpsgdOptimizer"), f"{_RARE}. Add noise to the gradients before apply_gradients."),
        **dict.fromkeys(("LarsMomentum", "LarsMomentumOptimizer"), f"{_RARE}. Use LambOptimizer."),
        **dict.fromkeys(("LookaheadOptimizer", "ModelAverage"), f"{_RARE}. Use ExponentialMovingAverage."),
        "DGCMomentumOptimizer": "it needs Paddle's parameter servers. Use Momentum.",
        "PipelineOptimizer": "it needs Paddle's fleet. Use SGD on one device.",
    },
)
globals().update(_REFUSED)
