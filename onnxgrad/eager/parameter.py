"""EagerParameter: a weight outside of any program.

Tests: tests/eager/test_layers.py.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.inputs import Given
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError
from onnxgrad.internal import state

__all__ = ["EagerParameter"]


class EagerParameter(Tensor):
    """A tensor that training changes: ``paddle.nn.Parameter``.

    Args:
        data: numbers, an array or a Tensor, which is copied.
        requires_grad: False to keep it as it is.
        name: by default a counted one.

    Attributes:
        updates: how many an optimizer has made.
    """

    is_distributed = False
    __slots__ = ("do_model_average", "need_clip", "optimize_attr", "regularizer", "updates")

    def __init__(self, data: Given | Variable, requires_grad: bool = True, *, name: str | None = None) -> None:
        super().__init__(data, stop_gradient=not requires_grad)
        self.name = state.generate_name("_eager_param_base") if name is None else name
        self.persistable = True
        self.optimize_attr: dict[str, Any] = {"learning_rate": 1.0}
        self.regularizer: Any = None
        self.need_clip = True
        self.do_model_average = True
        self.updates = 0

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    __str__ = __repr__

    def __deepcopy__(self, memo: Any) -> Tensor:
        copy = super().__deepcopy__(memo)
        copy.name, copy.persistable = self.name + state.generate_name("_deepcopy"), self.persistable
        for name in EagerParameter.__slots__:
            setattr(copy, name, deepcopy(getattr(self, name), memo))
        return copy

    @property
    def trainable(self) -> bool:
        """Whether training changes it."""
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        if not isinstance(trainable, bool):
            raise ArgumentError(f"trainable is True or False, not {trainable!r}.")
        self.stop_gradient = not trainable

    @property
    def is_parameter(self) -> bool:
        return True
