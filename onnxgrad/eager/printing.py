"""How eager tensors print: as Paddle prints them, every element to the same width, floats to a fixed number of digits.

Tests: tests/paddle_suite/test_grid.py, tests/tensor/test_remaining.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnxgrad.internal import state

__all__ = ["PrintOptions", "current_options", "format_array", "set_options"]

INDENT = " " * 7
"""In front of each line of values, which stand behind those of ``Tensor(``."""


@dataclass(frozen=True)
class PrintOptions:
    """How values print.

    Attributes:
        precision: digits after the point.
        threshold: elements beyond which the middle is left out.
        edgeitems: how many are shown at each end then.
        linewidth: characters in a line.
        sci_mode: exponents always.
    """

    precision: int = 8
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool = False


_USUAL = PrintOptions()


def current_options() -> PrintOptions:
    """The options in use."""
    options: PrintOptions | None = state.current.print_options
    return _USUAL if options is None else options


def set_options(**options: Any) -> None:
    """Change options; None leaves one as it is.

    Args:
        options: fields of ``PrintOptions``.
    """
    state.current.print_options = replace(
        current_options(), **{name: value for name, value in options.items() if value is not None}
    )


def format_array(array: np.ndarray[Any, Any]) -> str:
    """The values of an array as text, without the indent of the first line.

    Args:
        array: of any shape.
    """
    if array.dtype.kind == "V":  # bfloat16
        array = array.astype(np.float32)
    if not array.size:
        return _format_empty(array.shape)
    options = current_options()
    texts = [_format_element(value, options) for value in _shown(array, options).reshape(-1)]
    has_sign = any(text.startswith("-") for text in texts)
    width = max(map(len, texts if not has_sign else [_signed(text) for text in texts]))

    def padded(value: Any) -> str:
        text = _format_element(value, options)
        return (_signed(text) if has_sign else text).ljust(width)

    if array.ndim == 0:
        return _format_element(array[()], options)
    return np.array2string(
        array,
        separator=", ",
        prefix=INDENT,
        threshold=options.threshold,
        edgeitems=options.edgeitems,
        max_line_width=options.linewidth,
        formatter={"all": padded},
    )


def _signed(text: str) -> str:
    return text if text.startswith("-") else f" {text}"


def _format_element(value: Any, options: PrintOptions) -> str:
    if isinstance(value, (complex, np.complexfloating)):
        form = f".{options.precision}{'e' if options.sci_mode else 'f'}"
        return f"({value.real:{form}}{value.imag:+{form}}j)"
    if not isinstance(value, (float, np.floating)):
        return str(value)
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf." if value > 0 else "-inf."
    if options.sci_mode:
        return f"{value:.{options.precision}e}"
    return f"{value:.0f}." if value == np.floor(value) else f"{value:.{options.precision}f}"


def _shown(array: np.ndarray[Any, Any], options: PrintOptions) -> np.ndarray[Any, Any]:
    """The elements that print; of a long axis those at both ends"""
    if array.size <= options.threshold:
        return array
    for axis, size in enumerate(array.shape):
        if size > 2 * options.edgeitems:
            ends = [*range(options.edgeitems), *range(size - options.edgeitems, size)]
            array = array.take(ends, axis)
    return array


def _format_empty(shape: tuple[int, ...], depth: int = 1) -> str:
    """Brackets down to the first axis without elements"""
    if shape[0] == 0:
        return "[]"
    inner = _format_empty(shape[1:], depth + 1)
    between = "," + "\n" * (len(shape) - 1) + INDENT + " " * depth
    return f"[{between.join([inner] * shape[0])}]"
