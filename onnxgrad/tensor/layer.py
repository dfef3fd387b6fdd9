"""Helpers of every layer and tensor function: find its block, name its results as Paddle does, create parameters.

Tests: tests/tensor/test_math.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, cast, get_args

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.defaults import default_main_program, default_startup_program
from onnxgrad.core.ir.opset import OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.passes.lift import has_form_of_21, lift
from onnxgrad.dtypes import DType
from onnxgrad.eager.record import BUILDER, EAGER, record
from onnxgrad.errors import ArgumentError, ArgumentTypeError, IllTyped, NotAVariable
from onnxgrad.internal import state
from onnxgrad.tensor.accepted import check_operands

if TYPE_CHECKING:
    from onnxgrad.eager.tensor import Tensor as EagerTensor
    from onnxgrad.tensor.initializer import Initializer
    from onnxgrad.tensor.param_attr import WeightNormParamAttr

ActivationName: TypeAlias = Literal[
    "abs", "elu", "exp", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "relu", "selu", "sigmoid", "softmax", "softplus",
    "sqrt", "tanh",
]  # fmt: skip
"""What layers of a static program apply to their result."""

__all__ = [
    "ActivationName",
    "LayerHelper",
    "in_place_result",
    "is_variable",
    "open_layer",
    "present_operands",
    "program_of",
    "require_variables",
    "variables_in",
]


def is_variable(item: Any) -> TypeGuard[Variable]:
    """Whether functions take ``item`` as a tensor rather than as a number, a list or an array."""
    return isinstance(item, Variable)


def require_variables(function: str, *items: Any) -> None:
    """Refuse anything that is not a Variable, naming the function."""
    for item in items:
        if not isinstance(item, Variable):
            raise NotAVariable(f"{function} takes Variables, not {type(item).__name__}.")


def in_place_result(function: str, x: Any, result: Variable, reshapes: bool = False) -> Variable:
    """The result of an in-place function, which has another shape only where it ``reshapes``.

    A program's variables are never overwritten: their result is a new one, as in Paddle.
    """
    if isinstance(x, Variable) and x.is_eager:
        return cast("EagerTensor", x).become(cast("EagerTensor", result), reshapes)
    plain = function.removesuffix("_")
    warnings.warn(f"In a program, {function}() is the same as {plain}() and overwrites nothing.", stacklevel=3)
    return result


def program_of(variables: Sequence[Variable], static: bool = False) -> Program:
    """Return the program to which a function appends: that of its first static Variable, else EAGER, which computes at once.

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


class _LayerBuilder(Builder):
    """Writes operators as in opset 21; a program in an older opset stays there as long as that has the operator in this form."""

    __slots__ = ()

    def emit(self, op_type: str, args: Any, kwargs: dict[str, Any], outputs: Any = 1, key: str = "", domain: str = "") -> Any:
        program = self.block.program
        if program.updates or program.overwritten:
            args = [_present(program, one) for one in args]
            kwargs = {name: _present(program, one) for name, one in kwargs.items()}
        version = program.opset_version() or OLDEST_WITH_RULES
        if version < OLDEST_WITH_RULES:
            if domain == "" and has_form_of_21(op_type, version):
                with suppress(IllTyped):  # 21 may admit the element type
                    return super().emit(op_type, args, kwargs, outputs, key, domain)
            with transaction(program):
                lift(program)
                return super().emit(op_type, args, kwargs, outputs, key, domain)
        return super().emit(op_type, args, kwargs, outputs, key, domain)


def _present(program: Program, operand: Any) -> Any:
    """An operand as it is at this point of its program; anything else as it is."""
    return program.present(operand) if isinstance(operand, Variable) and operand.block.program is program else operand


class LayerHelper:
    """One use of a layer: counts its name, then its results ``<name>.tmp_0`` and parameters ``<name>.w_0``, ``<name>.b_0``."""

    def __init__(self, layer_name: str, *variables: Any, name: str | None = None, static: bool = False) -> None:
        require_variables(layer_name, *variables)
        check_operands(layer_name, variables)
        if name is not None and not isinstance(name, str):
            raise ArgumentTypeError(f"{layer_name}: name is a str, not {type(name).__name__}.")
        self.program: Program = program_of(variables, static)
        if self.program is EAGER:
            self.name = layer_name
            self.op: Builder = BUILDER
            return
        self.name = name if name is not None else state.generate_name(layer_name)
        self.op = _LayerBuilder(self.program.current_block(), key=f"{self.name}.inner")

    def result(self, op_type: str, *args: Any, **kwargs: Any) -> Variable:
        """Append the operator that computes the next result of this layer; it has one output."""
        if self.program is EAGER:
            return record(op_type, args, kwargs)
        return self.op.emit(op_type, args, kwargs, 1, f"{self.name}.tmp")

    def results(self, count: int, op_type: str, *args: Any, **kwargs: Any) -> list[Variable]:
        """The ``count`` outputs of an operator, as the next results of this layer."""
        outputs = self.op.emit(op_type, args, kwargs, outputs=count, key=f"{self.name}.tmp")
        return list(outputs) if isinstance(outputs, tuple) else [outputs]

    def skip_names(self, count: int) -> None:
        """Count names of results that Paddle computes in between and ONNX does not, so that the next result has Paddle's name."""
        for _ in range(count):
            state.generate_name(f"{self.name}.tmp")

    def activate(self, x: Variable, activation: str | None) -> Variable:
        """Apply an activation by its Paddle name."""
        if activation is None:
            return x
        if activation not in _ACTIVATIONS:
            raise ArgumentError(f"there is no activation {activation!r}. Use one of {list(_ACTIVATIONS)}.")
        return self.result(activation.title().replace("_", ""), x)

    def parameter(
        self, attr: Any, suffix: str, shape: list[int], dtype: DType, default: Initializer, trainable: bool = True
    ) -> Parameter | None:
        """A parameter of this layer; None when ``attr`` is False. A name that exists is shared."""
        from onnxgrad.tensor.initializer import global_initializer
        from onnxgrad.tensor.param_attr import ParamAttr, WeightNormParamAttr

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
        name = attr.name_in(self.name, suffix, self.program.generate_name)
        parameter = block.create_parameter(name, shape, dtype, attr.trainable and trainable)
        attr.describe(parameter)
        _initialise(self.program, parameter, attr.initializer or global_initializer(suffix) or default)
        return parameter

    def _normalised(self, attr: WeightNormParamAttr, suffix: str, shape: list[int], dtype: DType, default: Initializer) -> Variable:
        """g * v / |v|, for parameters v and g, where g starts as |v|, so that the product starts as v."""
        from onnxgrad.tensor.initializer import NormOf

        name = attr.name_in(self.name, suffix, self.program.generate_name)
        v = self.parameter(attr.under(f"{name}_v"), suffix, shape, dtype, default)
        assert v is not None
        axes = [i for i in range(len(shape)) if attr.dim is None or i != attr.dim % len(shape)]
        sizes = [1 if i in axes else size for i, size in enumerate(shape)]
        g = self.parameter(attr.under(f"{name}_g", NormOf(v.name, axes)), suffix, sizes, dtype, default)
        length = self.op.ReduceL2(v, axes, keepdims=1)
        return self.op.Mul(v, self.op.Div(g, length))


def open_layer(layer_name: str, *operands: Any, name: str | None = None) -> tuple[LayerHelper, Builder]:
    """A layer on tensors, and what appends operators to it."""
    layer = LayerHelper(layer_name, *operands, name=name)
    return layer, layer.op


def present_operands(*optional: Any) -> list[Any]:
    """Drop the optional operands of a function that are None."""
    return [operand for operand in optional if operand is not None]


def variables_in(*arguments: Any) -> list[Variable]:
    """Pick the Variables among the arguments of a function that takes numbers too."""
    return [argument for argument in arguments if isinstance(argument, Variable)]


def _initialise(program: Program, parameter: Parameter, initializer: Initializer) -> None:
    """Append the initialisation to the startup program; a loaded program gets the value at once, in its own scope."""
    startup = Program() if program.scope is not None else default_startup_program()
    startup.random_seed = startup.random_seed or program.random_seed
    block = startup.global_block()
    if parameter.name in block.vars:
        return
    shape = parameter.static_shape
    assert shape is not None
    copy = block.create_parameter(parameter.name, shape, parameter.dtype, parameter.trainable)
    build = Builder(block, key=f"{parameter.name}.init")
    startup.updates[copy] = initializer.append(build, list(shape), parameter.dtype)
    if program.scope is not None:
        # Not above: eager tensors and programs that are built here alone open no executor.
        from onnxgrad.core.runtime.executor import Executor
        from onnxgrad.core.runtime.places import CPUPlace
        from onnxgrad.core.state.scope import Scope

        scope = Scope()
        Executor(CPUPlace()).run(startup, scope=scope)
        parameter.value = TensorValue.of(scope.get(parameter.name))


# Paddle's names of operators; those of ONNX are written in capitals instead: leaky_relu is LeakyRelu.
_ACTIVATIONS = get_args(ActivationName)
