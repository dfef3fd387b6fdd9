"""Names that Paddle keeps under incubate."""

from typing import Literal, TypeVar, cast

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.incubate import autograd
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import says_why_absent
from onnxgrad.tensor.layer import LayerHelper

__all__ = ["autograd", "identity_loss"]


def __dir__() -> list[str]:
    return __all__


_T = TypeVar("_T", bound=Variable)


@checked
def identity_loss(x: _T, reduction: Literal["sum", "mean", "none", 0, 1, 2] = "none") -> _T:
    """The variable that a program minimises: ``x`` itself, or what ``reduction`` makes of it.

    Args:
        x: a variable of float32 or float64.
        reduction: 'sum' or 0, 'mean' or 1, 'none' or 2.

    Example:
        >>> paddle.incubate.identity_loss(paddle.to_tensor([1.0, 3.0]), reduction="mean").item()
        2.0
    """
    forms = {0: "ReduceSum", "sum": "ReduceSum", 1: "ReduceMean", "mean": "ReduceMean", 2: "Identity", "none": "Identity"}
    if reduction not in forms:
        raise ArgumentError(f"identity_loss: reduction is 'sum', 'mean' or 'none', not {reduction!r}.")
    form = forms[reduction]
    layer = LayerHelper("identity_loss", x)
    return cast(_T, layer.result(form, x) if form == "Identity" else layer.result(form, x, keepdims=0))


globals().update(__getattr__=says_why_absent(__name__))
