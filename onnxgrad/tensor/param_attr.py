"""ParamAttr: name, initial value and training options of a parameter.

Tests: tests/static/test_initializers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgrad.errors import ArgumentTypeError
from onnxgrad.internal import state
from onnxgrad.internal.signatures import Taken
from onnxgrad.tensor.initializer import Initializer

__all__ = ["ParamAttr", "WeightNormParamAttr"]


class ParamAttr(Taken):
    """How to make a parameter.

    Args:
        name: its name; one that exists is shared. None to count one.
        initializer: None for the layer's own.
        learning_rate: factor on the optimizer's learning rate.
        regularizer: ``L1Decay`` or ``L2Decay``; replaces the optimizer's.
        trainable: whether it receives gradients.
        do_model_average: kept for compatibility.
        need_clip: whether gradient clipping applies to it.
    """

    takes = (
        "name=None, initializer=None, learning_rate=1.0, regularizer=None, trainable=True, do_model_average=True, need_clip=True"
    )

    def _begin(self, options: Any) -> None:
        vars(self).update(vars(options))

    @staticmethod
    def of(attr: Any) -> ParamAttr | None:
        """Read the ParamAttr of a layer: None for the default, a name, an initializer, or False for no parameter."""
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
        raise ArgumentTypeError(
            f"a parameter attribute is a ParamAttr, a name, an initializer or False, not {type(attr).__name__}."
        )

    def name_in(self, layer: str, suffix: str, generate: Callable[[str], str] = state.generate_name) -> str:
        """The name given, or else the next of the layer, such as ``fc_0.w_0``."""
        name: str = self.name if self.name is not None else generate(f"{layer}.{suffix}")
        return name

    def under(self, name: str, initializer: Initializer | None = None) -> ParamAttr:
        """The same attributes under another name, and with another initializer if one is given."""
        attr = ParamAttr()
        vars(attr).update({**vars(self), "name": name, "initializer": initializer or self.initializer})
        return attr

    def describe(self, parameter: Any) -> None:
        """Let a parameter know how it is to be trained."""
        parameter.optimize_attr = {"learning_rate": self.learning_rate}
        parameter.regularizer, parameter.need_clip = self.regularizer, self.need_clip
        parameter.do_model_average = self.do_model_average


class WeightNormParamAttr(ParamAttr):
    """A weight made as g * v / |v| from two parameters, ``<name>_g`` and ``<name>_v``. Salimans and Kingma 2016.

    Args:
        dim: the axis along which g has one entry each; None for one number g.
        name, initializer, learning_rate, regularizer, trainable, do_model_average, need_clip: as in ParamAttr; the initializer
            is that of v.

    Example:
        >>> x = static.data("x", [None, 3])
        >>> y = static.nn.fc(x, 4, weight_attr=static.WeightNormParamAttr(dim=1, name="line"), bias_attr=False)
        >>> [(p.name, p.shape) for p in static.default_main_program().all_parameters()]
        [('line_v', (3, 4)), ('line_g', (1, 4))]
    """

    takes = (
        "dim=None, name=None, initializer=None, learning_rate=1.0, regularizer=None, trainable=True, do_model_average=False, "
        "need_clip=True"
    )
