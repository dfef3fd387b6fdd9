"""Variables of a program, meant by themselves or by their names.

Tests: tests/core/ir/test_variables.py, tests/test_func.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentTypeError, FetchError, OnnxGradError, UnknownName

if TYPE_CHECKING:
    from onnxgrad.core.ir.program import Program

__all__ = ["Named", "as_names", "as_variables"]

Named: TypeAlias = "Variable | str | Sequence[Variable | str]"
"""What users may give where variables of a program are meant."""


def as_variables(program: Program, items: Named, what: str = "outputs", error: type[OnnxGradError] = FetchError) -> list[Variable]:
    """Find the variables that are meant, in order.

    Args:
        program: whose main block has the names.
        items: a variable or a name, or several.
        what: how the caller calls them in messages.
        error: what is raised for a variable of another program, or a name that is none.

    Raises:
        ArgumentTypeError: if an item is neither a variable nor a name.
    """
    variables = []
    for item in _listed(items, what):
        v = item if isinstance(item, Variable) else program.global_block().vars.get(item)
        if v is None or v.block.program is not program:
            name = item if isinstance(item, str) else item.name
            raise error(f"{what}: the program has no variable {name!r} in its main block. Check the name, or the program.")
        variables.append(v)
    return variables


def as_names(model: object, items: Named, what: str) -> list[str]:
    """The names of what is meant, for a copy of the program; any other model knows names alone, which are not looked up.

    Raises:
        ArgumentTypeError: if an item is neither a variable nor a name.
        UnknownName: if a variable is not of this program.
    """
    names = []
    for item in _listed(items, what):
        if isinstance(item, Variable) and item.block.program is not model:
            raise UnknownName(f"{what}: the variable {item.name!r} is of another program. Name it, or give its program.")
        names.append(item.name if isinstance(item, Variable) else item)
    return names


def _listed(items: Named, what: str) -> Iterable[Variable | str]:
    several = [items] if isinstance(items, (Variable, str)) else items
    if not isinstance(several, Iterable):
        raise ArgumentTypeError(f"{what} are variables or names, not {type(several).__name__}.")
    for item in several:
        if not isinstance(item, (Variable, str)):
            raise ArgumentTypeError(f"{what} are variables or names, not {type(item).__name__}. Leave None out of gradients.")
        yield item
