"""ParamAttr: name, initial value and training options of a parameter."""

from __future__ import annotations

from typing import Any

from onnxgrad.errors import ArgumentTypeError
from onnxgrad.nn.initializer import Initializer

__all__ = ["ParamAttr"]


class ParamAttr:
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

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip

    @staticmethod
    def of(attr: Any) -> ParamAttr | None:
        """What a layer was given as ParamAttr: None for the default, a name, an initializer, or False for no parameter."""
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
