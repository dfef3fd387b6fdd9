"""The default main and startup programs, and the guard that replaces them.

Tests: tests/static/test_static.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked

__all__ = ["create_global_var", "default_main_program", "default_startup_program", "program_guard"]


def default_main_program() -> Program:
    """The program that layers append to."""
    program: Program = state.current.make_once("main_program", Program)
    return program


def default_startup_program() -> Program:
    """The program that gives parameters and accumulators their initial values when it runs."""
    program: Program = state.current.make_once("startup_program", Program)
    return program


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
    startup = {} if startup_program is None else {"startup_program": startup_program}
    with state.guard(main_program=main_program, guards=state.current.guards + 1, **startup):
        yield


@checked
def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: DTypeLike,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """Create a variable filled with one value, which keeps its value from run to run.

    Args:
        shape: its dimensions.
        value: every element, whenever the startup program runs.
        dtype: element type.
        persistable: kept for compatibility; the variable always lives in the scope.
        force_cpu: accepted for compatibility.
        name: its name; default ``global_var_N``.

    Example:
        >>> static.create_global_var([1], 0.5, "float32", persistable=True, name="factor")
        Variable(factor: float32[1])
    """
    program, startup = default_main_program(), default_startup_program()
    array = np.full(tuple(shape), value, dtype_of(dtype).numpy)
    if name is None:
        name = program.generate_name("global_var")
        del program.names[name]
    variable = program.create_global_var(name, array)
    variable.stop_gradient = True
    copy = startup.create_global_var(variable.name, array)
    build = Builder(startup.global_block(), key=f"{variable.name}.init")
    startup.updates[copy] = build.Expand(build.constant(np.asarray(value), variable.dtype), np.array(array.shape, np.int64))
    return variable
