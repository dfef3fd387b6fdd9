"""What every layer and tensor function does: find its block, name its results as Paddle does, make parameters."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from onnxgrad import state
from onnxgrad.dtypes import DType
from onnxgrad.eager.record import BLOCK, EAGER
from onnxgrad.errors import ArgumentError, NotAVariable
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.defaults import default_main_program, default_startup_program
from onnxgrad.ir.program import Program
from onnxgrad.ir.tensor import Tensor
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.passes.lift import lift
from onnxgrad.runtime.places import CPUPlace
from onnxgrad.runtime.session_cache import prepare

if TYPE_CHECKING:
    from onnxgrad.nn.initializer import Initializer
    from onnxgrad.nn.param_attr import WeightNormParamAttr

__all__ = ["Layer", "is_variable", "overwritten", "program_of", "require_variables"]


def is_variable(item: Any) -> TypeGuard[Variable]:
    """Whether functions take ``item`` as a tensor rather than as a number, a list or an array."""
    return isinstance(item, Variable)


def require_variables(function: str, *items: Any) -> None:
    """Refuse anything that is not a Variable, naming the function."""
    for item in items:
        if not is_variable(item):
            raise NotAVariable(f"{function} takes Variables, not {type(item).__name__}.")


def overwritten(function: str, x: Any, result: Variable) -> Variable:
    """What an in-place function gives. A program's variables are never overwritten: their result is a new one, as in Paddle."""
    if isinstance(x, Variable) and x.is_eager:
        return x.become(result)  # type: ignore[attr-defined, no-any-return]
    plain = function.removesuffix("_")
    warnings.warn(f"In a program, {function}() is the same as {plain}() and overwrites nothing.", stacklevel=3)
    return result


def program_of(variables: Sequence[Variable], static: bool = False) -> Program:
    """Where a function appends: to the program of its first static Variable, else it computes eagerly.

    Without tensors the mode decides: static after ``enable_static``, inside ``program_guard``, or where ``static`` says so.
    """
    for v in variables:
        if not v.is_eager:
            return v.block.program
    if variables:
        return EAGER
    if static or state.current.static_mode or state.current.guards:
        return default_main_program()
    return EAGER


_EAGER_BUILDER = Builder(BLOCK)


class Layer:
    """One use of a layer: counts its name, then its results ``<name>.tmp_0`` and parameters ``<name>.w_0``, ``<name>.b_0``."""

    def __init__(self, kind: str, *variables: Any, name: str | None = None, static: bool = False) -> None:
        require_variables(kind, *variables)
        self.program: Program = program_of(variables, static)
        if self.program is EAGER:
            self.name, self.op = kind, _EAGER_BUILDER
            return
        lift(self.program)
        self.name = name if name is not None else state.generate_name(kind)
        self.op = Builder(self.program.current_block(), key=f"{self.name}.inner")

    def emit(self, op_type: str, *args: Any, **kwargs: Any) -> Any:
        """Append the operator that computes the next result of this layer."""
        return self.op.emit(op_type, args, kwargs, key=f"{self.name}.tmp")

    def result(self, op_type: str, *args: Any, **kwargs: Any) -> Variable:
        """What ``emit`` gives for an operator with one output."""
        found: Variable = self.emit(op_type, *args, **kwargs)
        return found

    def results(self, count: int, op_type: str, *args: Any, **kwargs: Any) -> list[Variable]:
        """The ``count`` outputs of an operator, as the next results of this layer."""
        found = self.op.emit(op_type, args, kwargs, outputs=count, key=f"{self.name}.tmp")
        return list(found) if count > 1 else [found]

    def activate(self, x: Variable, activation: str | None) -> Variable:
        """Apply an activation by its Paddle name."""
        if activation is None:
            return x
        op_type = _ACTIVATIONS.get(activation)
        if op_type is None:
            raise ArgumentError(f"there is no activation {activation!r}. Use one of {sorted(_ACTIVATIONS)}.")
        found: Variable = self.emit(op_type, x)
        return found

    def parameter(
        self, attr: Any, suffix: str, shape: list[int], dtype: DType, default: Initializer, trainable: bool = True
    ) -> Parameter | None:
        """A parameter of this layer; None when ``attr`` is False. A name that exists is shared."""
        from onnxgrad.nn.initializer import global_initializer
        from onnxgrad.nn.param_attr import ParamAttr, WeightNormParamAttr

        attr = ParamAttr.of(attr)
        if attr is None:
            return None
        if self.program is EAGER:
            raise ArgumentError(f"{self.name} makes parameters, which needs a static Variable. Use create_parameter here.")
        block = self.program.global_block()
        if isinstance(attr, WeightNormParamAttr):
            return self._normalised(attr, suffix, shape, dtype, default)  # type: ignore[return-value]
        if attr.name is not None and attr.name in block.vars:
            return block.create_parameter(attr.name, shape, dtype, trainable)
        name = attr.name if attr.name is not None else self.program.generate_name(f"{self.name}.{suffix}")
        parameter = block.create_parameter(name, shape, dtype, attr.trainable and trainable)
        parameter.optimize_attr = {"learning_rate": attr.learning_rate}
        parameter.regularizer, parameter.need_clip = attr.regularizer, attr.need_clip
        parameter.do_model_average = attr.do_model_average
        _initialise(self.program, parameter, attr.initializer or global_initializer(suffix) or default)
        return parameter

    def _normalised(self, attr: WeightNormParamAttr, suffix: str, shape: list[int], dtype: DType, default: Initializer) -> Variable:
        """g * v / |v|, for parameters v and g, where g starts as |v|, so that the product starts as v."""
        from onnxgrad.nn.initializer import NormOf

        name = attr.name if attr.name is not None else self.program.generate_name(f"{self.name}.{suffix}")
        v = self.parameter(attr.part(f"{name}_v"), suffix, shape, dtype, default)
        assert v is not None
        axes = [i for i in range(len(shape)) if attr.dim is None or i != attr.dim % len(shape)]
        sizes = [1 if i in axes else size for i, size in enumerate(shape)]
        g = self.parameter(attr.part(f"{name}_g", NormOf(v.name, axes)), suffix, sizes, dtype, default)
        length = self.op.ReduceL2(v, axes, keepdims=1)
        return self.op.Mul(v, self.op.Div(g, length))  # type: ignore[no-any-return]


def _initialise(program: Program, parameter: Parameter, initializer: Initializer) -> None:
    """Append the initialisation to the startup program; a loaded program gets the value at once, in its own scope."""
    startup = Program() if program.scope is not None else default_startup_program()
    startup.random_seed = startup.random_seed or program.random_seed
    block = startup.global_block()
    if parameter.name in block.vars:
        return
    shape = parameter.static_shape
    assert shape is not None
    twin = block.create_parameter(parameter.name, shape, parameter.dtype, parameter.trainable)
    build = Builder(block, key=f"{parameter.name}.init")
    startup.updates[twin] = initializer.append(build, list(shape), parameter.dtype)
    if program.scope is not None:
        prepared = prepare(startup, [], CPUPlace())
        (array,) = prepared.session.run(None, {})
        parameter.value = Tensor.of(np.asarray(array))


_ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softmax": "Softmax",
    "leaky_relu": "LeakyRelu",
    "gelu": "Gelu",
    "softplus": "Softplus",
    "elu": "Elu",
    "selu": "Selu",
    "hard_sigmoid": "HardSigmoid",
    "hard_swish": "HardSwish",
    "exp": "Exp",
    "abs": "Abs",
    "sqrt": "Sqrt",
}
