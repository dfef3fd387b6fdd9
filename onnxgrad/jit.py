"""Layers and functions as programs: ``to_static``, ``save`` and ``load``. A program is an .onnx file, which trains as any other.

A function is traced: it runs once on variables without values for each set of shapes and element types, so decisions that Python
takes on values are refused by the variables, and ``static.nn.cond`` and ``while_loop`` are to be written in their place.

Tests: tests/paddle_suite/test_data_and_files.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload

from onnxgrad.core.interop.onnx_export import save_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.defaults import program_guard
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.scope import Scope
from onnxgrad.eager.node import Signature, kind_of
from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.record import Fragment, record_call, wrap
from onnxgrad.eager.tensor import Tensor, leaf
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal import state
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.nn.layer import Layer
from onnxgrad.nn.summary import tensors_in
from onnxgrad.static.input import InputSpec, data
from onnxgrad.tensor.creation import assign

__all__ = [
    "InputSpec", "TranslatedLayer", "enable_to_static", "ignore_module", "load", "not_to_static", "save", "set_code_level",
    "set_verbosity", "to_static",
]  # fmt: skip


_P = ParamSpec("_P")
_R = TypeVar("_R")
_L = TypeVar("_L", bound=Layer)
_F = TypeVar("_F")


@overload
def to_static(
    function: None = None,
    input_spec: Sequence[InputSpec | Tensor] | None = None,
    build_strategy: object = None,
    backend: object = None,
    **kwargs: object,
) -> Callable[[Callable[_P, _R]], StaticFunction[_P, _R]]: ...
@overload
def to_static(  # type: ignore[overload-overlap]  # a Layer can be called too
    function: _L,
    input_spec: Sequence[InputSpec | Tensor] | None = None,
    build_strategy: object = None,
    backend: object = None,
    **kwargs: object,
) -> _L: ...
@overload
def to_static(
    function: Callable[_P, _R],
    input_spec: Sequence[InputSpec | Tensor] | None = None,
    build_strategy: object = None,
    backend: object = None,
    **kwargs: object,
) -> StaticFunction[_P, _R]: ...
@checked
def to_static(
    function: Any = None,
    input_spec: Sequence[InputSpec | Tensor] | None = None,
    build_strategy: object = None,
    backend: object = None,
    **kwargs: object,
) -> Any:
    """Mark a function or a Layer as one that ``save`` writes as a program; a call computes as before.

    Args:
        function: a function of tensors, or a Layer, whose ``forward`` is meant; None to use this as a decorator.
        input_spec: ``InputSpec`` or tensor for each input, for ``save`` and ``concrete_program``.
        build_strategy, backend: accepted for compatibility.

    Example:
        >>> layer = paddle.jit.to_static(paddle.nn.Linear(2, 3), input_spec=[static.InputSpec([None, 2], "float32", "x")])
        >>> layer.forward.main_program.inputs
        [Variable(x: float32[?, 2])]
    """
    if function is None:
        return lambda decorated: to_static(decorated, input_spec, build_strategy, backend, **kwargs)
    if isinstance(function, Layer):
        object.__setattr__(function, "forward", StaticFunction(function.forward, input_spec, function))
        return function
    if isinstance(function, StaticFunction):
        return function
    if not callable(function):
        raise ArgumentTypeError(f"to_static takes a function or a Layer, not {type(function).__name__}.")
    return StaticFunction(function, input_spec)


class StaticFunction(Generic[_P, _R]):
    """The static form of a function, from ``to_static``: called, it computes; asked for ``main_program``, it is traced."""

    def __init__(self, function: Callable[_P, _R], input_spec: Sequence[Any] | None = None, owner: Any = None) -> None:
        functools.update_wrapper(self, function)
        self.dygraph_function = function
        self.input_spec = input_spec
        self._owner = owner

    def __get__(self, owner: Any, owner_type: type | None = None) -> Any:
        return self if owner is None else StaticFunction(functools.partial(self.dygraph_function, owner), self.input_spec, owner)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        if args and all(isinstance(x, Tensor) for x in args):
            # With a Layer, since a method of a class is another StaticFunction each time that it is read.
            vars(self._owner if isinstance(self._owner, Layer) else self)["called_with"] = [
                InputSpec(x.shape, x.dtype) for x in args if isinstance(x, Tensor)
            ]
        return self.dygraph_function(*args, **kwargs)

    @property
    def main_program(self) -> Program:
        """The program of ``input_spec``, whose outputs are the results and whose weights are the layer's present ones."""
        return traced(self, self.input_spec)[0]

    @property
    def code(self) -> str:
        """The function's source."""
        return inspect.getsource(getattr(self.dygraph_function, "func", self.dygraph_function))


@overload
def not_to_static(func: None = None) -> Callable[[_F], _F]: ...
@overload
def not_to_static(func: _F) -> _F: ...
def not_to_static(func: Any = None) -> Any:
    """The function itself; tracing goes through every function.

    Args:
        func: a function; None to use this as a decorator.
    """
    return func if func is not None else not_to_static


@checked
def ignore_module(modules: Sequence[object]) -> None:
    """Nothing: tracing goes through every function.

    Args:
        modules: of no effect.
    """


@checked
def enable_to_static(enable_to_static_bool: bool) -> None:
    """Accept Paddle's switch, without effect: a function of ``to_static`` runs as it is written, and is traced when it is saved.

    Args:
        enable_to_static_bool: of no effect.
    """


@checked
def set_code_level(level: int = 100, also_to_stdout: bool = False) -> None:
    """Nothing: functions are traced, and their source is not changed.

    Args:
        level: of no effect.
        also_to_stdout: of no effect.
    """


@checked
def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """Nothing: functions are traced, and their source is not changed.

    Args:
        level: of no effect.
        also_to_stdout: of no effect.
    """


def traced(function: Any, input_spec: Sequence[Any] | None) -> tuple[Program, list[Variable]]:
    """A program that computes a function or Layer, with its own scope, which holds the weights; and its outputs.

    Raises:
        ArgumentError: if the inputs are not described, or nothing is returned.
    """
    owner = function if isinstance(function, Layer) else getattr(function, "_owner", None)
    marked = getattr(function, "forward", function)
    spec = input_spec if input_spec is not None else getattr(marked, "input_spec", None)
    spec = getattr(function if owner is None else owner, "called_with", None) if spec is None else spec
    if spec is None:
        raise ArgumentError(
            "the shapes and types of the inputs are not known. Pass input_spec=[static.InputSpec([None, 784], 'float32', 'x')]."
        )
    program = Program()
    program.scope = Scope()
    call = getattr(function, "dygraph_function", function)
    with program_guard(program, Program()), state.guard(static_mode=True):
        names = _input_names(call, owner)
        inputs = [_input(item, names[at] if at < len(names) else f"x{at}") for at, item in enumerate(spec)]
        results = tensors_in(call(*inputs))
        if not results:
            raise ArgumentError("the function returns no tensor, so there is nothing to save.")
        outputs = [v if not v.is_eager and v.op is not None else assign(v.enter(program) if v.is_eager else v) for v in results]
        program.global_block().outputs = list(outputs)
    return program, outputs


def _input(spec: Any, name: str) -> Any:
    if isinstance(spec, (InputSpec, Variable)):
        dims = [None if n == -1 else n for n in spec.shape]
        name_of_spec = spec.name if isinstance(spec, InputSpec) else None
        return data(name_of_spec or name, dims, spec.dtype)
    return spec


def _input_names(call: Any, owner: Any) -> list[str]:
    call = owner.forward if isinstance(call, Layer) else call
    try:
        parameters = inspect.signature(getattr(call, "dygraph_function", call)).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


@checked
def save(
    layer: Layer | Callable[..., object], path: str, input_spec: Sequence[InputSpec | Tensor] | None = None, **configs: object
) -> None:
    """Write ``<path>.onnx``: the program of a Layer's ``forward``, or of a function, with its weights.

    Args:
        layer: a Layer or function; it is traced as ``to_static`` says.
        path: a file, with or without ``.onnx``; folders are created.
        input_spec: what each input looks like; by default the one passed to ``to_static``, else the tensors of the last call.

    Example:
        >>> model = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.ReLU())
        >>> paddle.jit.save(model, "model", input_spec=[static.InputSpec([None, 2], "float32", "x")])
        >>> paddle.jit.load("model")(paddle.to_tensor([[1.0, 2.0]])).shape
        [1, 3]
    """
    program, outputs = traced(layer, input_spec)
    file = _file(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    chosen: Any = configs.get("output_spec")
    save_onnx(program, file, outputs if chosen is None else [outputs[at] for at in range(len(outputs)) if at < len(chosen)])


def _file(path: Any) -> Path:
    return Path(str(path) if str(path).endswith(".onnx") else f"{path}.onnx")


@checked
def load(path: str, **configs: object) -> TranslatedLayer:
    """A Layer that runs an .onnx file, and trains: ``<path>.onnx``, by ``save`` or any exporter.

    Args:
        path: a file, with or without ``.onnx``.
        configs: accepted for compatibility.
    """
    return TranslatedLayer(from_onnx(_file(path)))


class TranslatedLayer(Layer):
    """A program as a Layer: its weights are parameters, its inputs the arguments, in the order of the file, those with a default
    last.

    Dropout and BatchNormalization compute as in inference; ``program()`` gives the Program, whose ``train()`` says otherwise.

    Args:
        program: whose inputs, weights and outputs are taken.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._program = program
        for parameter in program.parameters:
            own = EagerParameter(parameter.get_value(), parameter.trainable, name=parameter.name)
            self._parameters[parameter.name.replace(".", "_")] = own
        operators, outputs = program.global_block().ops, program.outputs
        self._defaults = [v for v in program.global_block().inputs if v.default is not None and not v.persistable]
        fragment = Fragment(list(operators), [*program.inputs, *self._defaults, *program.parameters], list(outputs))
        output_kinds = tuple(None if v.type is None else kind_of(v.type, None) for v in outputs)
        self._signature = Signature("Program", "", {}, output_kinds, fragment)

    def program(self, method_name: str = "forward") -> Program:
        """The program.

        Args:
            method_name: accepted for compatibility.
        """
        return self._program

    def forward(self, *inputs: Any) -> Any:
        wanted = self._program.inputs
        if not len(wanted) <= len(inputs) <= len(wanted) + len(self._defaults):
            names = [v.name for v in [*wanted, *self._defaults]]
            raise ArgumentError(f"the program has {len(wanted)} inputs that must be given, of {names}, not {len(inputs)}.")
        absent = [v.default.numpy() for v in self._defaults[len(inputs) - len(wanted) :] if v.default is not None]
        args: list[Any] = [x if isinstance(x, Variable) else leaf(x) for x in [*inputs, *absent]]
        args += [parameter for parameter in self._parameters.values() if parameter is not None]
        programs = [x.block for x in args if not x.is_eager]
        if programs:
            outputs = self._written_in(programs[0], args)
        else:
            outputs = [wrap(node) for node in record_call(self._signature, tuple(x._node for x in args))]
        return outputs[0] if len(outputs) == 1 else outputs

    def _written_in(self, block: Block, args: list[Any]) -> list[Variable]:
        """The operators once more, in a program that is being written, such as that of ``save``"""
        program, fragment = block.program, self._signature.fragment
        mapping = {own: x.enter(program) if x.is_eager else x for own, x in zip(fragment.inputs, args, strict=True)}
        for op in fragment.operators:
            for v in op.operands():
                if v is not None and v not in mapping and v.value is not None and v.op is None:
                    mapping[v] = program.constant(v.value.numpy())
        for op in copy_operators(fragment.operators, mapping, block, lambda v: program.fresh_name(v.name)):
            block.append(op)
        return [mapping.get(v, v) for v in fragment.outputs]


globals().update(absence_hooks(__name__))
