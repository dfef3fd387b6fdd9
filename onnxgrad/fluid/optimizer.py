"""fluid.optimizer: optimizers under the names and arguments of Paddle 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxgrad import optimizer
from onnxgrad.core.autodiff.api import append_backward
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.fluid.renamed import renamed
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.optimizer.clip import GradientClip
from onnxgrad.optimizer.optimizer import Optimizer, Parameters
from onnxgrad.refusals import refused

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


def _initialiser(new: type[Optimizer], arguments: str) -> Callable[..., None]:
    """``__init__`` of an optimizer, with the arguments of Paddle 1"""
    signature = f"__init__(self, {arguments})"
    return renamed(signature, new.__init__, parameters="parameter_list", weight_decay="regularization")


class SGDOptimizer(optimizer.SGD):
    """p -= lr * g."""

    __init__ = _initialiser(optimizer.SGD, "learning_rate, parameter_list=None, regularization=None, grad_clip=None, name=None")


class MomentumOptimizer(optimizer.Momentum):
    """v = mu * v + g;  p -= lr * v."""

    __init__ = _initialiser(
        optimizer.Momentum,
        "learning_rate, momentum, parameter_list=None, use_nesterov=False, regularization=None, grad_clip=None, name=None",
    )


class AdagradOptimizer(optimizer.Adagrad):
    """m += g^2;  p -= lr g / (sqrt(m) + eps)."""

    __init__ = _initialiser(
        optimizer.Adagrad,
        "learning_rate, epsilon=1e-06, parameter_list=None, regularization=None, grad_clip=None, name=None, "
        "initial_accumulator_value=0.0",
    )


class AdamOptimizer(optimizer.Adam):
    """Adam. Kingma and Ba 2015."""

    __init__ = _initialiser(
        optimizer.Adam,
        "learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, parameter_list=None, regularization=None, "
        "grad_clip=None, name=None, lazy_mode=False",
    )


class AdamaxOptimizer(optimizer.Adamax):
    """Adamax. Kingma and Ba 2015."""

    __init__ = _initialiser(
        optimizer.Adamax,
        "learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, parameter_list=None, regularization=None, "
        "grad_clip=None, name=None",
    )


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

    __init__ = _initialiser(
        optimizer.RMSProp,
        "learning_rate, rho=0.95, epsilon=1e-06, momentum=0.0, centered=False, parameter_list=None, regularization=None, "
        "grad_clip=None, name=None",
    )


class LambOptimizer(optimizer.Lamb):
    """Lamb. You et al. 2020."""

    # The regularization is accepted and left out: the decay of Lamb is its own.
    __init__ = renamed(
        "__init__(self, learning_rate=0.001, lamb_weight_decay=0.01, beta1=0.9, beta2=0.999, epsilon=1e-06, parameter_list=None, "
        "regularization=None, grad_clip=None, exclude_from_weight_decay_fn=None, name=None)",
        optimizer.Lamb.__init__,
        parameters="parameter_list",
    )


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
