"""fluid.optimizer: optimizers under the names and arguments of Paddle 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxgrad import optimizer
from onnxgrad.autodiff.api import append_backward
from onnxgrad.errors import ArgumentError
from onnxgrad.ir.operator import Operator
from onnxgrad.ir.program import Program
from onnxgrad.ir.variable import Variable
from onnxgrad.nn.clip import GradientClip
from onnxgrad.optimizer.optimizer import Optimizer, Parameters
from onnxgrad.refusals import refused
from onnxgrad.static.average import ExponentialMovingAverage

__all__ = [
    "SGD",
    "Adadelta",
    "AdadeltaOptimizer",
    "Adagrad",
    "AdagradOptimizer",
    "Adam",
    "AdamOptimizer",
    "Adamax",
    "AdamaxOptimizer",
    "DGCMomentumOptimizer",
    "DecayedAdagrad",
    "DecayedAdagradOptimizer",
    "Dpsgd",
    "DpsgdOptimizer",
    "ExponentialMovingAverage",
    "Ftrl",
    "FtrlOptimizer",
    "LambOptimizer",
    "LarsMomentum",
    "LarsMomentumOptimizer",
    "LookaheadOptimizer",
    "ModelAverage",
    "Momentum",
    "MomentumOptimizer",
    "PipelineOptimizer",
    "RMSPropOptimizer",
    "RecomputeOptimizer",
    "SGDOptimizer",
]

Rate = float | optimizer.lr.LRScheduler


class SGDOptimizer(optimizer.SGD):
    """p -= lr * g."""

    def __init__(
        self,
        learning_rate: Rate,
        parameter_list: Parameters = None,
        regularization: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name=name)


class MomentumOptimizer(optimizer.Momentum):
    """v = mu * v + g;  p -= lr * v."""

    def __init__(
        self,
        learning_rate: Rate,
        momentum: float,
        parameter_list: Parameters = None,
        use_nesterov: bool = False,
        regularization: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, momentum, parameter_list, use_nesterov, regularization, grad_clip, name=name)


class AdagradOptimizer(optimizer.Adagrad):
    """m += g^2;  p -= lr g / (sqrt(m) + eps)."""

    def __init__(
        self,
        learning_rate: Rate,
        epsilon: float = 1.0e-6,
        parameter_list: Parameters = None,
        regularization: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, epsilon, parameter_list, regularization, grad_clip, name, initial_accumulator_value)


class AdamOptimizer(optimizer.Adam):
    """Adam. Kingma and Ba 2015."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameter_list: Parameters = None,
        regularization: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, lazy_mode, name=name)


class AdamaxOptimizer(optimizer.Adamax):
    """Adamax. Kingma and Ba 2015."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameter_list: Parameters = None,
        regularization: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name)


class AdadeltaOptimizer(optimizer.Adadelta):
    """Adadelta. Zeiler 2012. As in Paddle 1, the learning rate has no effect."""

    def __init__(
        self,
        learning_rate: Rate,
        epsilon: float = 1.0e-6,
        rho: float = 0.95,
        parameter_list: Parameters = None,
        regularization: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(1.0, epsilon, rho, parameter_list, regularization, grad_clip, name)


class RMSPropOptimizer(optimizer.RMSProp):
    """RMSProp. Hinton 2012."""

    def __init__(
        self,
        learning_rate: Rate,
        rho: float = 0.95,
        epsilon: float = 1.0e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameter_list: Parameters = None,
        regularization: Any = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, rho, epsilon, momentum, centered, parameter_list, regularization, grad_clip, name)


class LambOptimizer(optimizer.Lamb):
    """Lamb. You et al. 2020."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameter_list: Parameters = None,
        regularization: Any = None,
        grad_clip: GradientClip | None = None,
        exclude_from_weight_decay_fn: Callable[[Variable], bool] | None = None,
        name: str | None = None,
    ) -> None:
        exclude = exclude_from_weight_decay_fn
        super().__init__(learning_rate, lamb_weight_decay, beta1, beta2, epsilon, parameter_list, grad_clip, exclude, name=name)


class RecomputeOptimizer:
    """Another optimizer whose backward pass computes again what lies between checkpoints.

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
DecayedAdagrad = DecayedAdagradOptimizer = refused("fluid.optimizer.DecayedAdagrad", _RARE, "Use RMSPropOptimizer.")
Ftrl = FtrlOptimizer = refused("fluid.optimizer.Ftrl", _RARE, "Use AdagradOptimizer with L1Decay.")
Dpsgd = DpsgdOptimizer = refused("fluid.optimizer.Dpsgd", _RARE, "Add noise to the gradients before apply_gradients.")
LarsMomentum = LarsMomentumOptimizer = refused("fluid.optimizer.LarsMomentum", _RARE, "Use LambOptimizer.")
LookaheadOptimizer = refused("fluid.optimizer.LookaheadOptimizer", _RARE, "Use ExponentialMovingAverage.")
ModelAverage = refused("fluid.optimizer.ModelAverage", _RARE, "Use ExponentialMovingAverage.")
DGCMomentumOptimizer = refused("fluid.optimizer.DGCMomentumOptimizer", "it needs Paddle's parameter servers", "Use Momentum.")
PipelineOptimizer = refused("fluid.optimizer.PipelineOptimizer", "it needs Paddle's fleet", "Use SGD on one device.")
SGD, Momentum, Adagrad, Adam = SGDOptimizer, MomentumOptimizer, AdagradOptimizer, AdamOptimizer
Adamax, Adadelta = AdamaxOptimizer, AdadeltaOptimizer
