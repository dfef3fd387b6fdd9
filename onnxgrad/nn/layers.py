"""The base of layers without parameters, which functional_layers.py holds, and those of them that no function stands for.

Tests: tests/paddle_suite/test_layers.py.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from onnxgrad.errors import Mismatch
from onnxgrad.internal.arguments import checked_with_words
from onnxgrad.nn import functional as F
from onnxgrad.nn.layer import Layer
from onnxgrad.nn.types import AnyTensor

__all__ = ["Border", "FunctionLayer", "Identity", "Softmax2D"]

Anything = TypeVar("Anything")


class FunctionLayer(Layer):
    """Base of the layers that are a function of nn.functional whose options are passed when they are made.

    Example:
        >>> paddle.nn.MaxPool2D(2, stride=1)
        MaxPool2D(kernel_size=2, stride=1, padding=0)
    """

    _shown: ClassVar[tuple[str, ...]] = ()
    """The options that the printed form names."""

    _printed: ClassVar[tuple[str, ...]] = ()
    """Their names there, where these are others."""

    _layout: ClassVar[str] = ""
    """The usual ``data_format``, which it leaves out."""

    _user_name: str | None

    def extra_repr(self) -> str:
        names = self._printed or self._shown
        shown = {name: getattr(self, option) for name, option in zip(names, self._shown, strict=True)}
        if "scale_factor" in shown:  # or the size
            del shown["scale_factor" if shown["scale_factor"] is None else "size"]
        if shown.get("data_format") == self._layout:
            del shown["data_format"]
        if self._user_name is not None:
            shown["name"] = self._user_name
        return ", ".join(f"{option}={value}" for option, value in shown.items())


class Border(FunctionLayer):
    """Base of the layers that put a border around their input."""

    _mode: ClassVar[str] = "constant"
    """What the border holds, where that is no option."""

    def extra_repr(self) -> str:
        own: Any = self  # the options are those of the kinds
        padding = [own.padding] * (2 * len(own.data_format) - 4) if isinstance(own.padding, int) else own.padding
        mode, value = getattr(self, "mode", self._mode), getattr(self, "value", 0.0)
        named = "" if self._user_name is None else f", name={self._user_name}"
        return f"padding={padding}, mode={mode}, value={value}, data_format={own.data_format}{named}"


class Softmax2D(FunctionLayer):
    """Compute the softmax over the channels of images.

    Args:
        name: shown in the printed form.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Softmax2D()(paddle.ones([1, 2, 1, 1])).flatten().tolist()
        [0.5, 0.5]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Compute the softmax over the channels.

        Args:
            x: floats [N, C, H, W] or [C, H, W].

        Returns:
            Floats of that shape.

        Raises:
            Mismatch: for another rank.
        """
        if x.ndim not in (3, 4):
            raise Mismatch(f"Softmax2D takes 3 or 4 axes, not {x.ndim}.")
        return F.softmax(x, axis=-3)


class Identity(Layer):
    """Return the input as it is.

    Args:
        args, kwargs: ignored, so that it can stand for any layer.

    Example:
        >>> paddle.nn.Identity(3, rate=0.5)(paddle.ones([2])).tolist()
        [1.0, 1.0]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Anything) -> Anything:
        """Return the input.

        Args:
            input: anything.
        """
        return input
