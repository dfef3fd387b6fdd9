"""ParamAttr: name, initial value and training options of a parameter.

Tests: tests/static/test_initializers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_flag, as_int, as_number, as_text, wrong_kind
from onnxgrad.tensor.initializer import Initializer

if TYPE_CHECKING:
    from onnxgrad.eager.parameter import EagerParameter


__all__ = ["ParamAttr", "WeightNormParamAttr"]


@runtime_checkable
class Penalty(Protocol):
    """What a parameter's ``regularizer`` does: ``L1Decay``, ``L2Decay`` or one of the user's own."""

    def apply(self, op: Builder, p: Variable, g: Variable) -> Variable:
        """Add the penalty's gradient to the gradient ``g`` of the parameter ``p``."""


class ParamAttr:
    """Say how to make a parameter.

    Args:
        name: its name; one that exists is shared. None to count one.
        initializer: None for the layer's own.
        learning_rate: factor on the optimizer's learning rate.
        regularizer: ``L1Decay`` or ``L2Decay``; replaces the optimizer's.
        trainable: whether it receives gradients.
        do_model_average: whether ``ExponentialMovingAverage`` averages it.
        need_clip: whether gradient clipping applies to it.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> attr = paddle.ParamAttr(name="w", learning_rate=0.5, initializer=paddle.nn.initializer.Constant(2.0))
        >>> paddle.nn.Linear(2, 1, weight_attr=attr).weight.tolist()
        [[2.0], [2.0]]
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Penalty | None = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        self.name = as_text(self, "name", name)
        if initializer is not None and not callable(initializer):
            raise wrong_kind(self, "initializer", "an Initializer", initializer)
        self.initializer = initializer
        self.learning_rate = as_number(self, "learning_rate", learning_rate)
        if regularizer is not None and not isinstance(regularizer, Penalty):
            raise wrong_kind(self, "regularizer", "an L1Decay or an L2Decay", regularizer)
        self.regularizer = regularizer
        self.trainable = as_flag(self, "trainable", trainable)
        self.do_model_average = as_flag(self, "do_model_average", do_model_average)
        self.need_clip = as_flag(self, "need_clip", need_clip)

    @staticmethod
    def of(attr: ParamAttr | Initializer | str | bool | None) -> ParamAttr | None:
        """Read the ParamAttr of a layer: None for the default, a name, an initializer, or False for no parameter.

        Args:
            attr: a ParamAttr, a name, an initializer, None or True for the default, or False.
        """
        if attr is None or attr is True:
            return ParamAttr()
        if attr is False:
            return None
        if isinstance(attr, ParamAttr):
            return attr
        if isinstance(attr, str):
            return ParamAttr(name=attr)
        if isinstance(attr, Initializer):
            return ParamAttr(initializer=attr)
        raise ArgumentTypeError(f"an attr is a ParamAttr, a name, an initializer or False, not {type(attr).__name__}.")

    def name_in(self, layer: str, suffix: str, generate: Callable[[str], str] = state.generate_name) -> str:
        """The name given, or else the next of the layer, such as ``fc_0.w_0``.

        Args:
            layer: the name of the layer.
            suffix: what kind of parameter it is, ``w`` or ``b``.
            generate: makes a counted name of its stem.
        """
        return self.name if self.name is not None else generate(f"{layer}.{suffix}")

    def under(self, name: str, initializer: Initializer | None = None) -> ParamAttr:
        """The same attributes under another name, and with another initializer if one is given.

        Args:
            name: the other name.
            initializer: the other initializer; the same unless given.
        """
        attr = ParamAttr(name, initializer or self.initializer, self.learning_rate, self.regularizer, self.trainable)
        attr.do_model_average, attr.need_clip = self.do_model_average, self.need_clip
        return attr

    def describe(self, parameter: Parameter | EagerParameter) -> None:
        """Let a parameter know how it is to be trained.

        Args:
            parameter: what is to be trained by these attributes.
        """
        parameter.optimize_attr = {"learning_rate": self.learning_rate}
        parameter.regularizer, parameter.need_clip = self.regularizer, self.need_clip
        parameter.do_model_average = self.do_model_average


class WeightNormParamAttr(ParamAttr):
    """A weight made as g * v / |v| from two parameters, ``<name>_g`` and ``<name>_v``. Salimans and Kingma 2016.

    Args:
        dim: the axis along which g has one entry each; None for one number g.
        name, initializer, learning_rate, regularizer, trainable, do_model_average, need_clip: as in ParamAttr; the initializer
            is that of v.

    Raises:
        ArgumentTypeError: if an argument is of a wrong kind.

    Example:
        >>> x = static.data("x", [None, 3])
        >>> y = static.nn.fc(x, 4, weight_attr=static.WeightNormParamAttr(dim=1, name="line"), bias_attr=False)
        >>> [(p.name, p.shape) for p in static.default_main_program().all_parameters()]
        [('line_v', (3, 4)), ('line_g', (1, 4))]
    """

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Penalty | None = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
    ) -> None:
        self.dim = None if dim is None else as_int(self, "dim", dim)
        super().__init__(name, initializer, learning_rate, regularizer, trainable, do_model_average, need_clip)
