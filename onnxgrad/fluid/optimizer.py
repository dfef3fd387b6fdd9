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
from onnxgrad.fluid.renamed import renamed
from onnxgrad.internal.refusals import refusals
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.optimizer.optimizer import Optimizer

_SHARED = "parameter_list=None, regularization=None, grad_clip=None, name=None"
_ARGUMENTS = {
    "SGD": f"learning_rate, {_SHARED}",
    "Momentum": "learning_rate, momentum, parameter_list=None, use_nesterov=False, regularization=None, grad_clip=None, name=None",
    "Adagrad": f"learning_rate, epsilon=1e-06, {_SHARED}, initial_accumulator_value=0.0",
    "Adam": f"learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, {_SHARED}, lazy_mode=False",
    "Adamax": f"learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, {_SHARED}",
    "Adadelta": f"learning_rate, epsilon=1e-06, rho=0.95, {_SHARED}",
    "RMSProp": f"learning_rate, rho=0.95, epsilon=1e-06, momentum=0.0, centered=False, {_SHARED}",
    "Lamb": (
        "learning_rate=0.001, lamb_weight_decay=0.01, beta1=0.9, beta2=0.999, epsilon=1e-06, parameter_list=None, "
        "regularization=None, grad_clip=None, exclude_from_weight_decay_fn=None, name=None"
    ),
}


def _adadelta(self: Any, epsilon: float, rho: float, parameters: Any, weight_decay: Any, grad_clip: Any, name: Any) -> None:
    """As in Paddle 1, the learning rate has no effect."""
    optimizer.Adadelta.__init__(self, 1.0, epsilon, rho, parameters, weight_decay, grad_clip, name)


def _paddle_1_class(class_name: str, arguments: str) -> type[Optimizer]:
    """Create the class ``<name>Optimizer``: the current optimizer with the arguments of Paddle 1."""
    new = getattr(optimizer, class_name)
    initialise = _adadelta if class_name == "Adadelta" else new.__init__
    # Lamb accepts the regularization and leaves it out: its decay is its own.
    names = {"parameters": "parameter_list"} | ({} if class_name == "Lamb" else {"weight_decay": "regularization"})
    body = {"__init__": renamed(f"__init__(self, {arguments})", initialise, **names), "__module__": __name__}
    return type(f"{class_name}Optimizer", (new,), body | {"__doc__": (new.__doc__ or "").partition("\n\n")[0]})


_CLASSES = {f"{class_name}Optimizer": _paddle_1_class(class_name, arguments) for class_name, arguments in _ARGUMENTS.items()}
_CLASSES |= {class_name: _CLASSES[f"{class_name}Optimizer"] for class_name in _ARGUMENTS if class_name not in ("RMSProp", "Lamb")}


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
globals().update(_CLASSES | _REFUSED)
__all__ = ["ExponentialMovingAverage", "RecomputeOptimizer", *_CLASSES, *_REFUSED]


def __dir__() -> list[str]:
    return __all__
