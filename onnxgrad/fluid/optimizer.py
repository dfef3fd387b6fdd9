"""fluid.optimizer: optimizers under the names and arguments of Paddle 1.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnxgrad import optimizer
from onnxgrad.core.autodiff.api import Callback, Names, append_backward
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.refusals import absence_hooks
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


class _Fluid(Optimizer):
    """The methods whose arguments have other names in Paddle 1."""

    def minimize(  # type: ignore[override]
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Variable | str] | None = None,
        no_grad_set: Names = None,
    ) -> tuple[list[Operator], list[tuple[Variable, Variable]]]:
        """Append the backward pass of ``loss`` and the update of the parameters.

        Args:
            loss: of one element.
            startup_program: the program that sets first values; the default one unless given.
            parameter_list: those to train, or their names; those of the optimizer unless given.
            no_grad_set: variables, or their names, that receive no gradient.

        Returns:
            The operators of the update, and (parameter, gradient) pairs.
        """
        return super().minimize(loss, startup_program, parameter_list, no_grad_set)


class SGDOptimizer(_Fluid, optimizer.SGD):
    """p -= lr * g.

    Args:
        learning_rate: a number, or a schedule.
        parameter_list: parameters that it updates; all that are trainable unless given.
        regularization: weight decay: a number or a regularizer; None for none.
        grad_clip: how gradients are clipped; None for not at all.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameter_list: Parameters = None,
        regularization: float | WeightDecay | None = None,
        grad_clip: GradientClip | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name=name)


class MomentumOptimizer(_Fluid, optimizer.Momentum):
    """v = mu * v + g;  p -= lr * v, or with Nesterov p -= lr * (g + mu * v). Sutskever et al. 2013.

    Args:
        learning_rate: a number, or a schedule.
        momentum: mu.
        parameter_list: parameters that it updates; all that are trainable unless given.
        use_nesterov: whether by Nesterov.
        regularization: weight decay: a number or a regularizer; None for none.
        grad_clip: how gradients are clipped; None for not at all.
    """

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


class AdagradOptimizer(_Fluid, optimizer.Adagrad):
    """m += g^2;  p -= lr g / (sqrt(m) + eps). Duchi, Hazan and Singer 2011.

    Args:
        learning_rate: a number, or a schedule.
        epsilon: what keeps the divisor from 0.
        parameter_list: parameters that it updates; all that are trainable unless given.
        regularization: weight decay: a number or a regularizer; None for none.
        grad_clip: how gradients are clipped; None for not at all.
        initial_accumulator_value: the first m.
    """

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


class AdamOptimizer(_Fluid, optimizer.Adam):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr c m / (sqrt(v) + eps r), r = sqrt(1 - b2^t), c = r / (1 - b1^t).
    Kingma and Ba 2015.

    Args:
        learning_rate: a number, or a schedule.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of their squares.
        epsilon: what keeps the divisor from 0.
        parameter_list: parameters that it updates; all that are trainable unless given.
        regularization: weight decay: a number or a regularizer; None for none.
        grad_clip: how gradients are clipped; None for not at all.
        lazy_mode: accepted for compatibility.
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


class AdamaxOptimizer(_Fluid, optimizer.Adamax):
    """m = b1 m + (1 - b1) g;  u = max(|g|, b2 u + eps);  p -= lr / (1 - b1^t) * m / u. Kingma and Ba 2015.

    Args:
        learning_rate: a number, or a schedule.
        beta1: decay of the mean of gradients.
        beta2: decay of the largest of them.
        epsilon: what keeps the divisor from 0.
        parameter_list: parameters that it updates; all that are trainable unless given.
        regularization: weight decay: a number or a regularizer; None for none.
        grad_clip: how gradients are clipped; None for not at all.
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
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name)


class AdadeltaOptimizer(_Fluid, optimizer.Adadelta):
    """a = rho a + (1 - rho) g^2;  u = sqrt((d + eps) / (a + eps)) g;  d = rho d + (1 - rho) u^2;  p -= u. Zeiler 2012.

    As in Paddle 1, the learning rate has no effect.

    Args:
        learning_rate: accepted for compatibility.
        epsilon: what keeps the divisor from 0.
        rho: decay of both means.
        parameter_list: parameters that it updates; all that are trainable unless given.
        regularization: weight decay: a number or a regularizer; None for none.
        grad_clip: how gradients are clipped; None for not at all.
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


class RMSPropOptimizer(_Fluid, optimizer.RMSProp):
    """s = rho s + (1 - rho) g^2;  v = mu v + lr g / sqrt(s + eps);  p -= v. Hinton 2012.

    Args:
        learning_rate: a number, or a schedule.
        rho: decay of the mean of squares.
        epsilon: what keeps the divisor from 0.
        momentum: mu.
        centered: whether the squared mean of the gradients is taken off s.
        parameter_list: parameters that it updates; all that are trainable unless given.
        regularization: weight decay: a number or a regularizer; None for none.
        grad_clip: how gradients are clipped; None for not at all.
    """

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


class LambOptimizer(_Fluid, optimizer.Lamb):
    """r = mhat / (sqrt(vhat) + eps) + decay p;  p -= lr |p| / |r| r. You et al. 2020.

    The regularization is accepted and left out: the decay is Lamb's own.

    Args:
        learning_rate: a number, or a schedule.
        lamb_weight_decay: the decay.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of their squares.
        epsilon: what keeps the divisor from 0.
        parameter_list: parameters that it updates; all that are trainable unless given.
        regularization: accepted for compatibility.
        grad_clip: how gradients are clipped; None for not at all.
        exclude_from_weight_decay_fn: whether a parameter does not decay.
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
        excludes = exclude_from_weight_decay_fn
        super().__init__(learning_rate, lamb_weight_decay, beta1, beta2, epsilon, parameter_list, grad_clip, excludes, name=name)


SGD, Momentum, Adagrad, Adam = SGDOptimizer, MomentumOptimizer, AdagradOptimizer, AdamOptimizer
Adamax, Adadelta = AdamaxOptimizer, AdadeltaOptimizer


class RecomputeOptimizer:
    """Another optimizer whose backward pass recomputes what lies between checkpoints.

    Args:
        optimizer: the other one.

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
        no_grad_set: Names = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> list[tuple[Variable, Variable]]:
        """The pairs of parameter and gradient.

        Args:
            loss: what is minimized.
            startup_program: accepted for compatibility.
            parameter_list: parameters that get a gradient; all that are trainable unless given.
            no_grad_set: variables that gradients stop at.
            callbacks: each is called after every appended operator, as ``append_backward`` says.

        Raises:
            ArgumentError: if no checkpoints were set.
        """
        if self._checkpoints is None:
            raise ArgumentError("RecomputeOptimizer: call _set_checkpoints([...]) first.")
        return append_backward(loss, parameter_list, no_grad_set, callbacks, self._checkpoints)

    def apply_gradients(self, params_grads: list[tuple[Variable, Variable]]) -> list[Operator]:
        """Append the update.

        Args:
            params_grads: pairs of parameter and gradient.
        """
        return self._optimizer.apply_gradients(params_grads)

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Variable | str] | None = None,
        no_grad_set: Names = None,
    ) -> tuple[list[Operator], list[tuple[Variable, Variable]]]:
        """Append the backward pass and the update.

        Args:
            loss: what is minimized.
            startup_program: receives the initialisation of the optimizer's state; None for the default one.
            parameter_list: parameters that get a gradient; all that are trainable unless given.
            no_grad_set: variables that gradients stop at.
        """
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self._optimizer.apply_gradients(pairs, startup_program), pairs


globals().update(absence_hooks(__name__))
