"""Branches and loops: functions that write the bodies of ONNX If and Loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.bodies import as_tuple, finish_body
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.defaults import default_main_program
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType, Type, join_types
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.passes.modes import attach_in_bodies
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_function, as_function_or_none, as_kind, checked
from onnxgrad.internal.trees import leaves, mapped

__all__ = ["case", "cond", "switch_case", "while_loop"]

Branch = Callable[[], Any]
LoopValue: TypeAlias = "Variable | float | Sequence[LoopValue] | Mapping[str, LoopValue]"
"""A variable or a number, or a list, tuple or dict of them."""

LoopState = TypeVar("LoopState", bound=LoopValue)
_Result = TypeVar("_Result")
_INT64, _BOOL = dtype_of("int64"), dtype_of("bool")


@checked
def cond(
    pred: Variable,
    true_fn: Callable[[], _Result] | None = None,
    false_fn: Callable[[], _Result] | None = None,
    name: str | None = None,
    return_names: Sequence[str] | None = None,
) -> _Result:
    """The result of ``true_fn`` where ``pred`` holds, else of ``false_fn``; only that branch is computed.

    Args:
        pred: bool variable of one element.
        true_fn, false_fn: functions without arguments that append operators and return variables, lists, tuples or dicts of
            them, or None; both return the same structure. None stands for a function that returns None.

    Returns:
        What the branches return. Parameters used in a branch that is not taken receive zero gradients.

    Raises:
        ArgumentTypeError: if ``pred`` is not a bool variable of one element, or a branch cannot be called.
        ArgumentError: if the branches return different structures or element types.

    Example:
        >>> x = static.data("x", [2, 3])
        >>> y = static.nn.cond(paddle.mean(x) > 0.0, lambda: x * 2.0, lambda: x - 1.0)
        >>> y.shape
        (2, 3)
    """
    _check_predicate("cond", pred)
    as_function_or_none("cond", "true_fn", true_fn)
    as_function_or_none("cond", "false_fn", false_fn)
    if pred.is_eager:
        taken = true_fn if bool(pred) else false_fn
        return cast(_Result, None) if taken is None else taken()
    program = pred.block.program
    lift(program)
    key = program.generate_name("cond")
    results: list[Any] = []
    blocks = []
    for label, fn in (("true", true_fn), ("false", false_fn)):
        block = program.new_block(program.current_block(), f"{key}/{label}")
        with _inside(program, block):
            results.append(fn() if fn is not None else None)
        blocks.append(block)
    true_values, false_values = map(_values, results)
    if _structure(results[0]) != _structure(results[1]):
        raise ArgumentError(f"cond: the branches return different structures: {results[0]!r} and {results[1]!r}.")
    if not true_values:
        program.blocks = [block for block in program.blocks if block not in blocks]
        return cast(_Result, results[1])
    for block, values, others in ((blocks[0], true_values, false_values), (blocks[1], false_values, true_values)):
        build = Builder(block, key=block.name)
        finish_body(block, [_as_variable(build, v, other) for v, other in zip(values, others, strict=True)], build)
    for a, b in zip(blocks[0].outputs, blocks[1].outputs, strict=True):
        if a.type is not None and b.type is not None and a.dtype != b.dtype:
            raise ArgumentError(f"cond: the branches return {a!r} and {b!r}. Cast one to the element type of the other.")
    names = [program.generate_name("_generated_var") for _ in blocks[0].outputs]
    attrs = {"then_branch": blocks[0], "else_branch": blocks[1]}
    outputs = as_tuple(program.current_block().build.emit("If", (pred,), attrs, outputs=names))
    attach_in_bodies(outputs[0].op)
    return cast(_Result, _rebuilt(results[1], outputs))


@checked
def case(
    pred_fn_pairs: Sequence[tuple[Variable, Callable[[], _Result]]],
    default: Callable[[], _Result] | None = None,
    name: str | None = None,
) -> _Result:
    """The result of the first function whose predicate holds; of ``default`` (or the last function) where none does.

    Args:
        pred_fn_pairs: (bool variable of one element, function) pairs.
        default: function without arguments.

    Raises:
        ArgumentTypeError: if a member is not such a pair.
        ArgumentError: if there are no pairs.
    """
    pairs = list(as_kind("case", "pred_fn_pairs", pred_fn_pairs, list | tuple))
    if not pairs:
        raise ArgumentError("case: there are no pairs of predicate and function.")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
            raise ArgumentTypeError(f"case: {pair!r} is not a (predicate, function) pair.")
        _check_predicate("case", pair[0])
    chosen = pairs.pop()[1] if default is None else as_function("case", "default", default)
    for pred, fn in reversed(pairs):
        chosen = partial(cond, pred, fn, chosen)
    return chosen()


@checked
def switch_case(
    branch_index: Variable,
    branch_fns: dict[int, Callable[[], _Result]] | Sequence[tuple[int, Callable[[], _Result]]] | Sequence[Callable[[], _Result]],
    default: Callable[[], _Result] | None = None,
    name: str | None = None,
) -> _Result:
    """The result of the function whose number is ``branch_index``; of ``default`` (or the one of the largest number) if none.

    Args:
        branch_index: integer variable of one element.
        branch_fns: functions by number: a dict, a list of (number, function) pairs, or a list of functions.
        default: function without arguments.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: if a number occurs twice, or there are no functions.
    """
    if not isinstance(branch_index, Variable) or not branch_index.dtype.is_integer:
        raise ArgumentTypeError(f"switch_case: branch_index is an integer Variable, not {branch_index!r}.")
    as_kind("switch_case", "branch_fns", branch_fns, dict | list | tuple)
    entries: list[Any] = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    if all(callable(entry) for entry in entries):
        entries = list(enumerate(entries))
    if not entries:
        raise ArgumentError("switch_case: there are no functions.")
    if any(not isinstance(e, tuple) or len(e) != 2 or not isinstance(e[0], int) or not callable(e[1]) for e in entries):
        raise ArgumentTypeError("switch_case: branch_fns holds functions or (number, function) pairs.")
    if len({number for number, _ in entries}) != len(entries):
        raise ArgumentError("switch_case: a number occurs twice.")
    entries.sort(key=lambda entry: entry[0])
    last: Callable[[], _Result] = entries.pop()[1] if default is None else default
    if not entries:
        return last()
    if branch_index.is_eager:
        chosen: Any = branch_index
        branches: dict[int, Callable[[], _Result]] = dict(entries)
        return branches.get(int(chosen), last)()
    return cast(_Result, case([(branch_index == number, fn) for number, fn in entries], last))


@checked
def while_loop(
    cond: Callable[..., Variable],
    body: Callable[..., LoopValue | Sequence[LoopValue]],
    loop_vars: Sequence[LoopState],
    is_test: bool = False,
    name: str | None = None,
) -> list[LoopState]:
    """Apply ``body`` to ``loop_vars`` as long as ``cond`` of them holds.

    Args:
        cond: takes the loop variables and returns a bool variable of one element.
        body: takes the loop variables and returns their new values, as many and in the same structure.
        loop_vars: variables, or lists, tuples and dicts of them.

    Returns:
        The final values, in a list.

    Raises:
        ArgumentTypeError: if ``cond`` or ``body`` cannot be called, ``loop_vars`` is not a list or tuple, or the condition is
            not a bool variable.
        ArgumentError: if ``loop_vars`` is empty, ``body`` returns another structure, or a variable changes its element type.

    Example:
        >>> paddle.enable_static()
        >>> i, n = paddle.full([1], 0, "int64"), paddle.full([1], 10, "int64")
        >>> i, x = static.nn.while_loop(lambda i, x: i < n, lambda i, x: [i + 1, x * 2.0], [i, paddle.full([2], 1.0)])
        >>> Executor().run(fetch_list=[x])
        [array([1024., 1024.], dtype=float32)]
    """
    as_function("while_loop", "cond", cond)
    as_function("while_loop", "body", body)
    tree = list(as_kind("while_loop", "loop_vars", loop_vars, list | tuple))
    if not tree:
        raise ArgumentError("while_loop: loop_vars is empty.")
    values = _values(tree)
    if any(isinstance(v, Variable) and v.is_eager for v in values):
        return _run_while(cond, body, tree)
    variables = [v for v in values if isinstance(v, Variable)]
    program = variables[0].block.program if variables else default_main_program()
    lift(program)
    outer = program.current_block().build
    starts = [_as_variable(outer, v, v) for v in values]
    goes_on = _condition(outer, cond(*_rebuilt(tree, starts)))
    loop = _LoopWriter(program, cond, body, tree)
    types = [v.type for v in starts]
    inner = loop.write(types)
    joined = [join_types(t, v.type) for t, v in zip(types, inner.outputs[1:], strict=True)]
    if joined != types:
        # A shape changes from step to step: write the body again for what stays the same.
        inner = loop.write_again(joined)
    names = [program.generate_name("_generated_var") for _ in starts]
    outputs = as_tuple(outer.emit("Loop", (None, goes_on, *starts), {"body": inner}, outputs=names))
    attach_in_bodies(outputs[0].op)
    return list(_rebuilt(tree, outputs))


class _LoopWriter:
    """Writes the body of a Loop from two functions, a second time if its types turn out to be too narrow."""

    def __init__(self, program: Program, condition: Callable[..., Any], step: Callable[..., Any], tree: Any) -> None:
        self.program, self.condition, self.step, self.tree = program, condition, step, tree
        self.key = program.generate_name("while")
        self.before = (dict(program.names), list(program.blocks), dict(state.current.names.counts), len(program.parameters))

    def write(self, types: Sequence[Type | None]) -> Block:
        program = self.program
        block = program.new_block(program.current_block(), f"{self.key}/body")
        scalar = TensorType(_INT64, ()), TensorType(_BOOL, ())
        for label, type in zip(("step", "condition"), scalar, strict=True):
            block.inputs.append(block.register(Variable(block, program.fresh_name(f"{block.name}/{label}"), type)))
        for i, declared in enumerate(types):
            block.inputs.append(block.register(Variable(block, program.fresh_name(f"{block.name}/state_{i}"), declared)))
        build = Builder(block, key=block.name)
        with _inside(program, block):
            old = block.inputs[2:]
            results = self.step(*_rebuilt(self.tree, old))
            results = list(results) if isinstance(results, (list, tuple)) and len(self.tree) != 1 else [results]
            if len(self.tree) == 1 and isinstance(results[0], (list, tuple)) and not isinstance(self.tree[0], (list, tuple)):
                results = list(results[0])
            if _structure(results) != _structure(_rebuilt(self.tree, old)):
                raise ArgumentError(f"while_loop: body returns {results!r} for the loop variables {old!r}.")
            new = [_as_variable(build, v, like) for v, like in zip(_values(results), old, strict=True)]
            for a, b in zip(old, new, strict=True):
                if isinstance(a.type, TensorType) and isinstance(b.type, TensorType) and a.dtype != b.dtype:
                    raise ArgumentError(f"while_loop: a loop variable changes from {a.dtype.name} to {b.dtype.name}. Cast it back.")
            goes_on = _condition(build, self.condition(*_rebuilt(self.tree, new)))
            finish_body(block, [goes_on, *new], build)
        return block

    def write_again(self, types: Sequence[Type | None]) -> Block:
        program = self.program
        names, blocks, counts, parameters = self.before
        if len(program.parameters) != parameters:
            raise ArgumentError("while_loop: the body makes parameters and changes a shape. Make the parameters before the loop.")
        program.names, program.blocks = dict(names), list(blocks)
        for name in program.global_block().vars:
            program.names.setdefault(name, 0)  # constants of the first body
        state.current.names.counts.clear()
        state.current.names.counts.update(counts)
        return self.write(types)


def _run_while(cond: Callable[..., Any], body: Callable[..., Any], values: list[Any]) -> list[Any]:
    """The loop itself, for eager tensors"""
    while bool(cond(*values)):
        result = body(*values)
        values = list(result) if isinstance(result, (list, tuple)) else [result]
    return values


@contextmanager
def _inside(program: Program, block: Block) -> Iterator[None]:
    """Let layers append to a body."""
    program._current.append(block)
    try:
        yield
    finally:
        program._current.pop()


def _check_predicate(function: str, pred: Any) -> None:
    if not isinstance(pred, Variable) or pred.dtype.name != "bool":
        raise ArgumentTypeError(f"{function}: the predicate is a bool Variable, not {pred!r}.")
    shape = pred.static_shape
    if shape is not None and int(np.prod(shape)) != 1:
        raise ArgumentTypeError(f"{function}: the predicate {pred!r} must have one element.")


def _condition(build: Builder, pred: Any) -> Variable:
    """A predicate as Loop wants it, without axes."""
    _check_predicate("while_loop", pred)
    return pred if pred.rank == 0 else build.Reshape(pred, np.zeros(0, np.int64))


def _as_variable(build: Builder, value: Any, like: Any) -> Variable:
    """A value of a branch or loop; Python numbers become constants in the type of their counterpart."""
    if isinstance(value, Variable):
        return value if value.is_eager else value.block.program.present(value)
    if not isinstance(value, (bool, int, float, np.ndarray, np.generic)):
        raise ArgumentTypeError(f"branches and loops hold Variables and numbers, not {type(value).__name__}.")
    array = np.asarray(value)
    if array.dtype == np.float64 and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype(np.float32)
    return build.constant(array, like.dtype if isinstance(like, Variable) else None)


def _values(tree: Any) -> list[Any]:
    """The leaves of nested lists, tuples and dicts, which may be None in places that hold nothing"""
    return [leaf for leaf in leaves(tree) if leaf is not None]


def _rebuilt(tree: Any, values: Sequence[Any]) -> Any:
    """The same lists, tuples and dicts around other values"""
    following = iter(values)
    return mapped(tree, lambda leaf: None if leaf is None else next(following))


def _structure(tree: Any) -> Any:
    """Return the structure of two results that differ in their leaves only."""
    if isinstance(tree, (list, tuple)):
        return [_structure(item) for item in tree]
    if isinstance(tree, dict):
        return {key: _structure(item) for key, item in tree.items()}
    return tree is not None
