"""Eager tensors in static programs: a layer's weight becomes a parameter, what was computed from weights is computed there too,
and any other value is a constant.

Tests: tests/eager/test_tensors.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from onnxgrad.core.ir.defaults import default_startup_program
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue as Array
from onnxgrad.core.ir.variable import Variable
from onnxgrad.eager.node import Meta, TapeNode, calls_behind
from onnxgrad.errors import ArgumentTypeError, DuplicateName

if TYPE_CHECKING:
    from onnxgrad.eager.tensor import Tensor

__all__ = ["enter"]


class _Entered(NamedTuple):
    """The variables that have entered a program: parameters by name, and results of calls."""

    parameters: dict[str, Meta]
    results: dict[tuple[Any, int], Variable]


_entered: WeakKeyDictionary[Program, _Entered] = WeakKeyDictionary()


def enter(tensor: Tensor, program: Program) -> Variable:
    """Create the variable that replaces a tensor in a program; see ``Tensor.enter``."""
    known = _entered.setdefault(program, _Entered({}, {}))
    for call in calls_behind([tensor._node], lambda node: not node.stop and (node.call, node.index) not in known.results):
        if call.freed or call.signature.fragment is not None or call.signature.type == "PyLayer":
            raise ArgumentTypeError(
                f"an eager tensor meets a static program, but was computed by {call.signature.type}, "
                "which cannot be written there. Pass its detach()."
            )
        inputs = [None if node is None else _entered_node(node, program, known) for node in call.inputs]
        count = len(call.signature.kinds)
        build = program.global_block().build
        outputs: Any = build.emit(call.signature.type, inputs, call.signature.attrs, count, domain=call.signature.domain)
        for index, v in enumerate(outputs if count > 1 else [outputs]):
            known.results[call, index] = v
    return _entered_node(tensor._node, program, known)


def _entered_node(node: TapeNode, program: Program, known: _Entered) -> Variable:
    if node.call is not None and not node.stop:
        return known.results[node.call, node.index]
    tensor: Any = None if node.handle is None else node.handle()
    array = np.array(node.array if node.array is not None else tensor._array())
    if node.meta is not None and node.meta.persistable:
        return _parameter(node, node.meta, tensor, array, program, known)
    if not node.stop:
        raise ArgumentTypeError(
            f"an eager tensor with stop_gradient=False meets a static program ({tensor!r}). "
            "Make it a parameter of the program, or pass its detach()."
        )
    return program.current_block().build.constant(array)


def _parameter(node: TapeNode, meta: Meta, tensor: Any, array: Any, program: Program, known: _Entered) -> Variable:
    block, name = program.global_block(), meta.name or tensor.name
    if known.parameters.setdefault(name, meta) is not meta:
        raise DuplicateName(f"two eager parameters named {name!r} meet in one program. Give one of them another name.")
    present = block.vars.get(name)
    if present is not None:
        return present
    dtype: Any = node.kind.type
    parameter = block.create_parameter(name, array.shape, dtype.dtype, trainable=not node.stop)
    for attribute in ("optimize_attr", "regularizer", "need_clip", "do_model_average"):
        if hasattr(tensor, attribute):
            setattr(parameter, attribute, getattr(tensor, attribute))
    if program.scope is not None:
        parameter.value = Array.of(array)
    else:
        startup = default_startup_program().global_block()
        initial = startup.create_parameter(name, array.shape, dtype.dtype)
        startup.program.updates[initial] = startup.build.constant(array)
    return parameter
