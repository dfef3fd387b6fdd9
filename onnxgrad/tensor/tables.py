"""Functions that are made from a table: one line each, of an operator or a formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from onnxgrad.core.ir.variable import Variable
from onnxgrad.tensor.common import floating, open_layer_for, promote_operands
from onnxgrad.tensor.layer import LayerHelper, open_layer
from onnxgrad.tensor.options import takes_options
from onnxgrad.tensor.remembered import remembers

__all__ = ["INTO_OUT", "OF_ANY", "OF_FLOATS", "OfOne", "OfTwo", "named_function", "of_one", "of_two"]

OF_ANY = "x: variable of any shape."
INTO_OUT = "out: a Tensor that becomes the result, of any shape; None for a new one."
OF_FLOATS = "x: floats of any shape; integers count as float32."

Function = TypeVar("Function", bound=Callable[..., Any])


class OfOne(Protocol):
    """A function of one tensor, element by element."""

    __name__: str

    def __call__(self, x: Variable, name: str | None = None, out: Variable | None = None) -> Variable: ...


def of_one(
    name: str, formula: str | Callable[[LayerHelper, Variable], Variable], doc: str, floats: bool = True, layer_name: str = ""
) -> OfOne:
    """A function of one operand: an operator, or what a formula appends to a layer; integers computed as float32 if ``floats``."""

    @remembers
    @takes_options
    def function(x: Variable, name: str | None = None, out: Variable | None = None) -> Variable:
        layer = LayerHelper(layer_name, x, name=name)
        operand = floating(layer.op, x) if floats else x
        return layer.result(formula, operand) if isinstance(formula, str) else formula(layer, operand)

    layer_name = layer_name or name
    return named_function(function, name, doc, OF_FLOATS if floats else OF_ANY, INTO_OUT)


class OfTwo(Protocol):
    """A function of two tensors that broadcast, or of one and a number, element by element."""

    __name__: str

    def __call__(self, x: Variable, y: Variable | float, name: str | None = None, out: Variable | None = None) -> Variable: ...


def of_two(
    name: str,
    formula: str | Callable[[LayerHelper, Variable, Variable], Variable],
    doc: str,
    layer_name: str = "",
    floats: bool = False,
    numbers: bool = True,
) -> OfTwo:
    """The same of two operands, which are promoted to one element type; one of them may be a number if ``numbers``."""

    @remembers
    @takes_options
    def function(x: Variable | float, y: Variable | float, name: str | None = None, out: Variable | None = None) -> Variable:
        layer, op = (open_layer_for if numbers else open_layer)(layer_name, x, y, name=name)
        a, b = promote_operands(op, x, y)
        if floats:
            a, b = floating(op, a), floating(op, b)
        return layer.result(formula, a, b) if isinstance(formula, str) else formula(layer, a, b)

    layer_name = layer_name or name
    count = "variables that broadcast to one shape" + (", or one of them a number" if numbers else "")
    operands = f"x, y: {count}" + ("; integers count as float32." if floats else ".")
    return named_function(function, name, doc, operands, INTO_OUT)


def named_function(function: Function, name: str, doc: str, *arguments: str) -> Function:
    """A function that was made from a table, under its name; a line on each of its arguments follows its first sentence."""
    head, _, rest = doc.partition("\n")
    listed = "".join(f"\n    {line}" for line in arguments)
    named: Any = function
    while named is not None:  # what is wrapped names itself in messages
        named.__name__ = named.__qualname__ = name
        named = vars(named).get("__wrapped__")
    function.__doc__ = f"{head}\n\nArgs:{listed}\n{rest}".rstrip()
    return function
