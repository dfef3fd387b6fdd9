"""The default main and startup programs, and the guard that replaces them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onnxgrad import state
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.ir.program import Program

__all__ = ["default_main_program", "default_startup_program", "program_guard"]


def default_main_program() -> Program:
    """The program that layers append to."""
    if state.current.main_program is None:
        state.current.main_program = Program()
    found: Program = state.current.main_program
    return found


def default_startup_program() -> Program:
    """The program that gives parameters and accumulators their initial values when it runs."""
    if state.current.startup_program is None:
        state.current.startup_program = Program()
    found: Program = state.current.startup_program
    return found


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Let layers append to other programs inside a ``with`` block.

    Args:
        main_program: receives operators and parameters.
        startup_program: receives the initialisation of parameters; None for the present one.

    Raises:
        ArgumentTypeError: if one of them is not a Program.

    Example:
        >>> main = static.Program()
        >>> with static.program_guard(main):
        ...     x = static.data("x", [None, 2])
        >>> main.inputs
        [Variable(x: float32[?, 2])]
    """
    for program in (main_program, startup_program):
        if program is not None and not isinstance(program, Program):
            raise ArgumentTypeError(f"program_guard takes Programs, not {type(program).__name__}.")
    if main_program is None:
        raise ArgumentTypeError("program_guard needs a main program.")
    outer = state.current.main_program, state.current.startup_program
    state.current.main_program = main_program
    if startup_program is not None:
        state.current.startup_program = startup_program
    state.current.guards += 1
    try:
        yield
    finally:
        state.current.guards -= 1
        state.current.main_program, state.current.startup_program = outer
