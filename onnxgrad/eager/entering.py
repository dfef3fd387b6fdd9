"""Eager tensors in static programs: a layer's weight becomes a parameter, any other value a constant."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

import numpy as np

from onnxgrad.core.ir.defaults import default_startup_program
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import Tensor as Array
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentTypeError, DuplicateName

if TYPE_CHECKING:
    from onnxgrad.eager.tensor import Tensor

__all__ = ["enter"]

_entered: WeakKeyDictionary[Program, dict[str, ref[Tensor]]] = WeakKeyDictionary()


def enter(tensor: Tensor, program: Program) -> Variable:
    """What stands for a tensor in a program; see ``Tensor.enter``."""
    block = program.global_block()
    if not tensor.persistable and not tensor.stop_gradient:
        raise ArgumentTypeError(
            f"an eager tensor with stop_gradient=False meets a static program ({tensor!r}). "
            "Make it a parameter of the program, or pass its detach()."
        )
    array = tensor.numpy()
    if not tensor.persistable:
        return program.current_block().build.constant(array)
    known = _entered.setdefault(program, {})
    present = known.get(tensor.name)
    if present is not None and present() is not tensor:
        raise DuplicateName(f"two eager parameters named {tensor.name!r} meet in one program. Give one of them another name.")
    if present is not None:
        return block.vars[tensor.name]
    parameter = block.create_parameter(tensor.name, array.shape, tensor.dtype, trainable=not tensor.stop_gradient)
    for attribute in ("optimize_attr", "regularizer", "need_clip", "do_model_average"):
        if hasattr(tensor, attribute):
            setattr(parameter, attribute, getattr(tensor, attribute))
    if program.scope is not None:
        parameter.value = Array.of(array)
    else:
        startup = default_startup_program().global_block()
        twin = startup.create_parameter(tensor.name, array.shape, tensor.dtype)
        startup.program.updates[twin] = startup.build.constant(np.array(array))
    known[tensor.name] = ref(tensor)
    return parameter
