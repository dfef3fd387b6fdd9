"""Saving and loading: parameters and optimizer state, inference models, and programs as bytes.

``.pdparams`` and ``.pdopt`` files are those of Paddle: pickled dictionaries of arrays by name. Programs are ONNX.

Tests: tests/static/test_static.py.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.interop.onnx_export import save_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.interop.program_bytes import parse_program, write_program
from onnxgrad.core.ir.defaults import default_main_program
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import needed_operators
from onnxgrad.core.ir.variable import Parameter, Variable, set_values
from onnxgrad.core.passes.demand import demand
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError, ModelError, NotAVariable
from onnxgrad.internal.arguments import as_kind, checked
from onnxgrad.internal.files import make_folder, read_whole, reading, write_whole, writing
from onnxgrad.internal.pickled import read_pickle

__all__ = [
    "deserialize_persistables", "deserialize_program", "load", "load_from_file", "load_inference_model", "load_program_state",
    "normalize_program", "prune_unread", "save", "save_inference_model", "save_to_file", "serialize_persistables",
    "serialize_program", "set_program_state",
]  # fmt: skip

# Parameters and optimizer state -------------------------------------------------------------------------------------------


@checked
def save(program: Program, model_path: str, protocol: int = 4, **configs: object) -> None:
    """Write ``<model_path>.pdparams``, ``.pdopt`` (accumulators, learning rates, statistics) and ``.pdmodel`` (the program).

    Args:
        program: its values are taken from the scope.
        model_path: a folder and a prefix; the folder is made.
        protocol: of pickle, 2 to 4; ``pickle_protocol`` says it too.

    Raises:
        ArgumentError: if the prefix is empty or the protocol is not 2 to 4.
        NotInitialized: if a parameter has no value yet.
    """
    _check_prefix("save", model_path)
    chosen = configs.get("pickle_protocol", protocol)
    if not isinstance(chosen, int) or not 2 <= chosen <= 4:
        raise ArgumentError(f"save: the protocol is 2, 3 or 4, not {chosen!r}.")
    parameters = {p.name: p for p in program.all_parameters()}
    others = {v.name: v for v in _persistable(program) if not isinstance(v, Parameter)}
    scope = program.active_scope()
    for v in [*parameters.values(), *others.values()]:
        if v.value is None and scope.find_var(v.name) is None:
            v.get_value()
    make_folder(Path(model_path).parent)
    with ExitStack() as stack:
        # All are there before the first gets its name.
        files = {ending: stack.enter_context(writing(Path(model_path + ending))) for ending in (".pdmodel", ".pdopt", ".pdparams")}
        _VariablePickler(files[".pdparams"], protocol).dump(parameters)
        _VariablePickler(files[".pdopt"], protocol).dump(others)
        files[".pdmodel"].write(write_program(program))


class _VariablePickler(pickle.Pickler):
    """Writes a variable as the array that it holds; one is in memory at a time."""

    def __init__(self, file: BinaryIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.fast = True  # what is written is not kept, for nothing refers to it again

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Variable):
            return NotImplemented
        with obj.block.program.active_scope().viewed(obj.name) as stored:
            return np.asarray(obj.get_value() if stored is None else stored).__reduce__()


@checked
def load(program: Program, model_path: str, executor: Executor | None = None, var_list: Sequence[Variable] | None = None) -> None:
    """Set the values of a program from the files that ``save`` wrote; Paddle's own are read too.

    Args:
        program: variables that the files do not name keep their values.
        model_path: the prefix, with or without ``.pdparams``.
        executor: accepted for compatibility.
        var_list: set only these.

    Raises:
        MissingFile: (a FileNotFoundError) if there is no ``.pdparams`` file.
        ModelError: if a file holds anything but arrays.
        ArgumentError: if an array does not have its variable's shape; nothing is changed then.
    """
    set_program_state(program, load_program_state(model_path, var_list))


@checked
def load_program_state(model_path: str, var_list: Sequence[Variable] | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of the files that ``save`` wrote, by name.

    Args:
        model_path: what ``save`` was given, or one of its files.
        var_list: the variables that are wanted; all unless given.
    """
    prefix = model_path.removesuffix(".pdparams").removesuffix(".pdopt").removesuffix(".pdmodel")
    values = _read_arrays(Path(prefix + ".pdparams"))
    if Path(prefix + ".pdopt").is_file():
        values |= _read_arrays(Path(prefix + ".pdopt"))
    if var_list is None:
        return values
    wanted = {v.name for v in var_list}
    return {name: value for name, value in values.items() if name in wanted}


def set_program_state(program: Program, state_dict: dict[str, np.ndarray[Any, Any]]) -> None:
    """Set the variables that a dictionary names; names the program does not have are ignored.

    Args:
        program: whose variables are set.
        state_dict: arrays by name.

    Raises:
        ArgumentError: if an array does not have its variable's shape, or holds no numbers; nothing is changed then.
    """
    set_values((v, state_dict[v.name]) for v in _persistable(program) if v.name in state_dict)


def _read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with reading(path) as file:
        values = _arrays_of(file, str(path))
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def _arrays_of(file: BinaryIO, what: str) -> dict[str, Any]:
    values = read_pickle(file, what)
    if not isinstance(values, dict):
        raise ModelError(f"{what} holds {type(values).__name__}, not a dictionary of arrays.")
    return values


def _persistable(program: Program) -> list[Variable]:
    return list(dict.fromkeys(v for v in [*program.all_parameters(), *program.list_vars()] if v.persistable))


def _check_prefix(function: str, path: str) -> None:
    if not isinstance(path, str) or os.path.basename(path) == "":
        raise ArgumentError(f"{function}: the path is a folder and a prefix, such as 'models/digits', not {path!r}.")


# Inference models ---------------------------------------------------------------------------------------------------------


@checked
def normalize_program(
    program: Program, feed_vars: Variable | Sequence[Variable], fetch_vars: Variable | Sequence[Variable]
) -> Program:
    """A copy that computes ``fetch_vars`` from ``feed_vars`` and holds nothing else, in inference mode.

    Args:
        program: what is copied.
        feed_vars: what the program takes, one variable or several.
        fetch_vars: what it gives, one variable or several.

    Raises:
        ArgumentTypeError: if something is not a Variable.
        ArgumentError: if the fetches need an input that is not among ``feed_vars``.
    """
    as_kind("normalize_program", "program", program, Program)
    feeds, fetches = _variables("feed_vars", feed_vars), _variables("fetch_vars", fetch_vars)
    copy = program.clone(for_test=True)
    block = copy.global_block()
    outputs = [block.program.last(block.var(v.name)) for v in fetches]
    inputs = [block.var(v.name) for v in feeds]
    block.ops = needed_operators(block.ops, outputs)
    read = {v for op in block.ops for v in op.operands()} | set(outputs)
    fed = set(inputs)
    missing = [v.name for v in block.inputs if v in read and v not in fed and v.value is None and v.default is None]
    if missing:
        raise ArgumentError(f"normalize_program: the fetches need {missing[0]!r} too. Add it to feed_vars.")
    useless = [v.name for v in inputs if v not in read]
    if useless:
        raise ArgumentError(
            f"normalize_program: {useless[0]!r} is not involved in the target_vars calculation. Leave it out of feed_vars."
        )
    _hold_only(copy, [*inputs, *(v for v in block.inputs if v in read - fed and v.default is not None)], outputs)
    copy.plan.printers = []
    return copy


def _pruned(
    program: Program | None, feed_vars: Variable | Sequence[Variable], fetch_vars: Variable | Sequence[Variable]
) -> Program:
    """What is needed of a program, or else of that of the fetches"""
    fetches = _variables("fetch_vars", fetch_vars)
    program = program or (fetches[0].block.program if fetches else default_main_program())
    return normalize_program(program, feed_vars, fetches)


def _hold_only(program: Program, inputs: list[Variable], outputs: list[Variable]) -> None:
    """Let the main block hold these inputs and outputs, and what its operators compute and read"""
    block = program.global_block()
    read = {v for op in block.ops for v in op.operands()} | set(outputs)
    computed = {v for op in block.ops for v in op.outputs}
    block.vars = {name: v for name, v in block.vars.items() if v in read | set(inputs) | computed}
    block.inputs, block.outputs = inputs, outputs
    block.initializers = [v for v in block.initializers if v in read]
    program.parameters = [p for p in program.parameters if p in read]


@checked
def prune_unread(program: Program, fetch_vars: Variable | Sequence[Variable]) -> Program:
    """Copy a program so that it computes of each tensor only the positions, rows and channels that ``fetch_vars`` read.

    A selection (``x[:, 0]``, the last position, some channels, one part of a split) moves towards the inputs through operators that
    compute slice by slice, and a loss over 128 classes or more is computed of the rows whose label counts (``ignore_index``).
    Values and gradients are those of the program, to rounding. Call it before ``minimize``, so that the backward pass is as small.
    A ``Trainer`` does this by itself.

    Args:
        program: without a backward pass. It is not changed.
        fetch_vars: the loss, and whatever else will be fetched; other results are left out of the copy, new state is not.

    Returns:
        A program with the inputs of this one, and variables of the same names.

    Raises:
        NotAVariable: if something else is given as a variable.
        ArgumentError: if the program has a backward pass, or another program computes ``fetch_vars``.

    Example:
        >>> x = static.data("x", [None, 128, 16], "float32")
        >>> y = paddle.tanh(x)[:, 0]
        >>> pruned = static.prune_unread(static.default_main_program(), y)
        >>> [op.type for op in pruned.global_block().ops]
        ['Slice', 'Tanh', 'Squeeze']
    """
    fetches = _variables("fetch_vars", fetch_vars)
    if any(op.role is not Role.FORWARD for op in program.global_block().ops):
        raise ArgumentError(
            "prune_unread: the program has a backward pass, which needs all operators. Call prune_unread before minimize."
        )
    copy, copies = program.clone_with_variables()
    other = next((v.name for v in fetches if v not in copies), None)
    if other is not None:
        raise ArgumentError(f"prune_unread: {other!r} is not a variable of the program. Give one that it computes.")
    outputs = [copy.last(copies[v]) for v in fetches]
    run_program_pass(copy, demand(outputs))
    block = copy.global_block()
    block.ops = needed_operators(block.ops, [*outputs, *copy.updates.values()])
    _hold_only(copy, block.inputs, outputs)
    return copy


@checked
def save_inference_model(
    path_prefix: str,
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    executor: Executor | None = None,
    program: Program | None = None,
    clip_extra: bool = True,
    legacy_format: bool = False,
) -> None:
    """Write ``<path_prefix>.onnx``: the part of a program that computes ``fetch_vars`` from ``feed_vars``, with its weights.

    Any ONNX runtime can run the file; Paddle's own format is not written.

    Args:
        path_prefix: a folder and a prefix; the folder is made.
        feed_vars, fetch_vars: inputs and outputs, in this order.
        executor, clip_extra, legacy_format: accepted for compatibility.
        program: None for that of the fetches.

    Raises:
        ArgumentError: if ``feed_vars`` or ``fetch_vars`` are not Variables, or an input is missing.
        NotInitialized: if a weight has no value yet.
    """
    _check_prefix("save_inference_model", path_prefix)
    pruned = _pruned(program, feed_vars, fetch_vars)
    make_folder(Path(path_prefix).parent)
    save_onnx(pruned, path_prefix + ".onnx")


@checked
def load_inference_model(
    path_prefix: str, executor: Executor | None = None, model_filename: str | None = None, params_filename: str | None = None
) -> tuple[Program, list[str], list[Variable]]:
    """Load a model that ``save_inference_model`` wrote, or any ``<path_prefix>.onnx``.

    Args:
        path_prefix: the file, with or without ``.onnx``.
        executor: accepted for compatibility.
        model_filename: accepted for compatibility.
        params_filename: accepted for compatibility.

    Returns:
        (program, names of its inputs, its output variables).

    Raises:
        ModelError: if there is no such file or it is not ONNX.
    """
    path = path_prefix if path_prefix.endswith(".onnx") else path_prefix + ".onnx"
    program = from_onnx(path)
    # Paddle gives a list, whose entries a checker could not tell apart.
    return cast("tuple[Program, list[str], list[Variable]]", [program, [v.name for v in program.inputs], list(program.outputs)])


def _variables(what: str, variables: Variable | Sequence[Variable]) -> list[Variable]:
    items = [variables] if isinstance(variables, Variable) else variables
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, Variable) for item in items):
        raise NotAVariable(f"{what} is a Variable or a list of Variables, not {variables!r}.")
    return list(items)


# Programs as bytes --------------------------------------------------------------------------------------------------------


@checked
def serialize_program(
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    program: Program | None = None,
    legacy_format: bool = False,
) -> bytes:
    """The part of a program that computes ``fetch_vars`` from ``feed_vars``, as bytes without weights.

    Args:
        feed_vars: what the program takes, one variable or several.
        fetch_vars: what it gives, one variable or several.
        program: theirs unless given.
        legacy_format: accepted for compatibility.
    """
    return write_program(_pruned(program, feed_vars, fetch_vars))


def deserialize_program(data: bytes) -> Program:
    """The program of ``serialize_program``.

    Args:
        data: the bytes.

    Raises:
        ModelError: if the bytes are not a program.
    """
    return parse_program(data)


@checked
def serialize_persistables(
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    executor: Executor | None = None,
    program: Program | None = None,
    legacy_format: bool = False,
) -> bytes:
    """The weights that ``fetch_vars`` need, as bytes.

    Args:
        feed_vars: what the program takes, one variable or several.
        fetch_vars: what it gives, one variable or several.
        executor: accepted for compatibility.
        program: theirs unless given.
        legacy_format: accepted for compatibility.
    """
    pruned = _pruned(program, feed_vars, fetch_vars)
    return pickle.dumps({v.name: np.asarray(v.get_value()) for v in _persistable(pruned)}, 4)


def deserialize_persistables(program: Program, data: bytes, executor: Executor | None = None) -> None:
    """Set the weights of a program from the bytes of ``serialize_persistables``.

    Args:
        program: whose weights are set.
        data: the bytes.
        executor: accepted for compatibility.

    Raises:
        ModelError: if the bytes hold anything but arrays.
        ArgumentError: if an array does not have its variable's shape.
    """
    set_program_state(program, _arrays_of(io.BytesIO(data), "the given bytes"))


@checked
def save_to_file(path: str, content: bytes) -> None:
    """Write bytes to a file.

    Args:
        path: of the file.
        content: the bytes.

    Raises:
        ArgumentTypeError: if the content is not bytes.
    """
    write_whole(Path(path), as_kind("save_to_file", "content", content, bytes))


@checked
def load_from_file(path: str) -> bytes:
    """The bytes of a file.

    Args:
        path: of the file.
    """
    return read_whole(Path(path))
