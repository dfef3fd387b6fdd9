"""What ``onnxgrad.func`` lists. It stands apart, so that completion there shows nothing else.

Tests: tests/test_func.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from onnx import ModelProto

from onnxgrad.core.autodiff import transforms
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.named import Named, as_names
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.summary import Summary, summarize
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.errors import ArgumentError, ArgumentTypeError, FeedError, UnknownName

__all__ = [
    "NumpyFunction", "grad", "hessian", "hvp", "jacobian", "jvp", "per_example_gradients", "value_and_grad", "vjp",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_Array = np.ndarray[Any, Any]
_Arrays: TypeAlias = "dict[str, _Array]"
_Result = TypeVar("_Result", covariant=True)
_Model: TypeAlias = "str | Path | bytes | ModelProto | Program"


class NumpyFunction(Generic[_Result]):
    """A derived model that is called with arrays.

    Attributes:
        program: the model with what was appended to it; a copy, so the one it came from stays as it was.
        inputs: names of what is fed.
        directions: names in the second argument of a call, if it has one (cotangents, tangents or vectors).
    """

    def __init__(
        self,
        setup: _Setup,
        fetches: list[Variable],
        arrange: Callable[[Iterator[_Array]], _Result],
        directions: dict[str, Variable] | None = None,
    ) -> None:
        self.program = setup.program
        self.directions = list(directions or ())
        self._fetches = fetches
        self._arrange = arrange
        self._direction_inputs = directions or {}
        extra = set(self._direction_inputs.values())
        self.inputs = [v.name for v in setup.program.inputs if v not in extra]
        self._executor = Executor(setup.place)
        self._model: ModelProto | None = None

    def __repr__(self) -> str:
        arguments = [*self.inputs, *(f"direction of {name}" for name in self.directions)]
        return f"NumpyFunction({', '.join(arguments)} -> {', '.join(v.name for v in self._fetches)})"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Summary:
        """Summarise the layers of the model, and the inputs and outputs of the function; print it."""
        return summarize(self.program, repr(self), state=0)

    @property
    def model(self) -> ModelProto:
        """The function as an ONNX model. Its inputs are the inputs of the original, then one for each direction."""
        if self._model is None:
            self._model = to_onnx(self.program, self._fetches)
        return self._model

    def __call__(self, feeds: GivenByName, directions: GivenByName | None = None) -> _Result:
        """Evaluate on arrays by name.

        Args:
            feeds: arrays by input name.
            directions: cotangents, tangents or vectors by name, of a function that takes them.

        Raises:
            FeedError: if a name is unknown or missing, or an array does not fit.
            ExecutionError: if onnxruntime fails.
        """
        feed = dict(_known(feeds, self.inputs, "feeds"))
        vectors = _known(directions or {}, self.directions, "directions")
        missing = [name for name in self.directions if name not in vectors]
        if missing:
            raise FeedError(f"the second argument lacks {missing}. Give one array for each of {self.directions}.")
        feed.update((self._direction_inputs[name].name, array) for name, array in vectors.items())
        return self._arrange(iter(self._executor.run(self.program, feed, self._fetches)))


def _known(arrays: Any, names: list[str], what: str) -> dict[str, Any]:
    if not isinstance(arrays, dict):
        raise ArgumentTypeError(f"{what} is a dict of arrays by name, not {type(arrays).__name__}.")
    for name in arrays:
        if name not in names:
            raise FeedError(f"{what} holds {name!r}, which the model does not take. It takes {names}.")
    return arrays


def value_and_grad(
    model: _Model, outputs: Named | None = None, wrt: Named | None = None, *, place: Place | None = None
) -> NumpyFunction[tuple[_Arrays, _Arrays]]:
    """A function that gives the outputs of a model and their gradients.

    Args:
        model: path, bytes or message of an ONNX model, or a Program.
        outputs: what to differentiate, by names or by variables of the Program; None for all outputs of floating-point type. Of
            several elements or several outputs, the gradient is that of their sum.
        wrt: inputs, weights or inner values to differentiate with respect to, likewise; None for all trainable weights, or all
            floating-point inputs where there are none.
        place: the device; default the CPU.

    Returns:
        ``f(feeds) -> (values, gradients)``, two dicts of arrays by name. What does not affect the outputs has gradient 0.

    Raises:
        UnknownName: if a name or variable is not of the model.
        ArgumentTypeError: if something is neither.
        ArgumentError: if there is nothing to differentiate.
        UnsupportedGradient: if an operator on the path has no gradient; ``onnxgrad.explain(model)`` lists all such.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { y = Mul(x, x) }'
        >>> f = value_and_grad(parser.parse_model(text))
        >>> f({"x": np.array([1, 2, 3], np.float32)})
        ({'y': array([1., 4., 9.], dtype=float32)}, {'x': array([2., 4., 6.], dtype=float32)})
        >>> [v.name for v in f.model.graph.output]
        ['y', 'x@GRAD']
    """
    setup = _Setup(model, outputs, wrt, place)
    grads = transforms.vjp(setup.outputs, setup.wrt)
    return NumpyFunction(setup, [*setup.outputs, *grads], lambda r: (_named(setup.output_names, r), _named(setup.wrt_names, r)))


def grad(
    model: _Model, outputs: Named | None = None, wrt: Named | None = None, *, place: Place | None = None
) -> NumpyFunction[_Arrays]:
    """``value_and_grad`` without the values: ``f(feeds) -> gradients``.

    Args, Raises: as for ``value_and_grad``.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { y = Mul(x, x) }'
        >>> grad(parser.parse_model(text))({"x": np.array([1, 2, 3], np.float32)})
        {'x': array([2., 4., 6.], dtype=float32)}
    """
    setup = _Setup(model, outputs, wrt, place)
    return NumpyFunction(setup, transforms.vjp(setup.outputs, setup.wrt), lambda r: _named(setup.wrt_names, r))


def vjp(
    model: _Model, outputs: Named | None = None, wrt: Named | None = None, *, place: Place | None = None
) -> NumpyFunction[tuple[_Arrays, _Arrays]]:
    """A function ``f(feeds, cotangents) -> (values, gradients)``; cotangents by the names of the outputs.

    Args, Raises: as for ``value_and_grad``.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { y = Mul(x, x) }'
        >>> f = vjp(parser.parse_model(text))
        >>> f({"x": np.ones(2, np.float32)}, {"y": np.array([1, 5], np.float32)})
        ({'y': array([1., 1.], dtype=float32)}, {'x': array([ 2., 10.], dtype=float32)})
    """
    setup = _Setup(model, outputs, wrt, place)
    cotangents = setup.more_inputs(setup.output_names, setup.outputs, "COTANGENT")
    grads = transforms.vjp(setup.outputs, setup.wrt, list(cotangents.values()))
    names = setup.output_names, setup.wrt_names
    return NumpyFunction(setup, [*setup.outputs, *grads], lambda r: (_named(names[0], r), _named(names[1], r)), cotangents)


def jvp(
    model: _Model, outputs: Named | None = None, wrt: Named | None = None, *, place: Place | None = None
) -> NumpyFunction[tuple[_Arrays, _Arrays]]:
    """A function ``f(feeds, tangents) -> (values, tangents of the outputs)``; tangents by the names in ``wrt``.

    Args, Raises: as for ``value_and_grad``.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { y = Mul(x, x) }'
        >>> f = jvp(parser.parse_model(text))
        >>> f({"x": np.ones(2, np.float32)}, {"x": np.array([1, 5], np.float32)})[1]
        {'y': array([ 2., 10.], dtype=float32)}
    """
    setup = _Setup(model, outputs, wrt, place)
    tangents = setup.more_inputs(setup.wrt_names, setup.wrt, "TANGENT")
    output_tangents = transforms.jvp(setup.outputs, setup.wrt, list(tangents.values()))
    names = setup.output_names
    return NumpyFunction(setup, [*setup.outputs, *output_tangents], lambda r: (_named(names, r), _named(names, r)), tangents)


def jacobian(
    model: _Model, outputs: Named | None = None, wrt: Named | None = None, *, place: Place | None = None
) -> NumpyFunction[dict[str, _Arrays]]:
    """A function ``f(feeds)`` that gives, for each output, a dict of Jacobians ``[*output.shape, *input.shape]`` by name.

    Args, Raises: as for ``value_and_grad``.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { y = Mul(x, x) }'
        >>> f = jacobian(parser.parse_model(text))
        >>> f({"x": np.array([1, 2], np.float32)})["y"]["x"]
        array([[2., 0.],
               [0., 4.]], dtype=float32)
    """
    setup = _Setup(model, outputs, wrt, place)
    jacobians = [j for y in setup.outputs for j in transforms.jacobian(y, setup.wrt)]
    return NumpyFunction(setup, jacobians, lambda r: {name: _named(setup.wrt_names, r) for name in setup.output_names})


def hessian(
    model: _Model, outputs: Named | None = None, wrt: Named | None = None, *, place: Place | None = None
) -> NumpyFunction[dict[str, _Arrays]]:
    """A function ``f(feeds)`` that gives ``hessian[a][b]``, the second derivatives ``[*a.shape, *b.shape]`` of the output's sum.

    Args, Raises: as for ``value_and_grad``, with one output.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { s = Mul(x, x) y = Mul(s, x) }'
        >>> f = hessian(parser.parse_model(text))
        >>> f({"x": np.array([1, 2], np.float32)})["x"]["x"]
        array([[ 6.,  0.],
               [ 0., 12.]], dtype=float32)
    """
    setup = _Setup(model, outputs, wrt, place)
    rows = [h for row in transforms.hessian(setup.only_output("hessian"), setup.wrt) for h in row]
    return NumpyFunction(setup, rows, lambda r: {name: _named(setup.wrt_names, r) for name in setup.wrt_names})


def hvp(
    model: _Model, outputs: Named | None = None, wrt: Named | None = None, *, place: Place | None = None
) -> NumpyFunction[_Arrays]:
    """A function ``f(feeds, vectors)`` that gives the Hessian of the output's sum times the vectors, by name.

    Args, Raises: as for ``value_and_grad``, with one output.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { s = Mul(x, x) y = Mul(s, x) }'
        >>> f = hvp(parser.parse_model(text))
        >>> f({"x": np.array([1, 2], np.float32)}, {"x": np.array([1, 10], np.float32)})
        {'x': array([  6., 120.], dtype=float32)}
    """
    setup = _Setup(model, outputs, wrt, place)
    vectors = setup.more_inputs(setup.wrt_names, setup.wrt, "VECTOR")
    products = transforms.hvp(setup.only_output("hvp"), setup.wrt, list(vectors.values()))
    return NumpyFunction(setup, products, lambda r: _named(setup.wrt_names, r), vectors)


def per_example_gradients(
    model: _Model, outputs: Named | None = None, wrt: Named | None = None, *, place: Place | None = None
) -> NumpyFunction[_Arrays]:
    """A function ``f(feeds)`` that gives, by name, the gradient of each example's loss: ``[examples, *input.shape]``.

    Args, Raises: as for ``value_and_grad``, with one output, a vector that holds one loss per example.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N] y) <float[2] w = {1, 2}>'
        >>> f = per_example_gradients(parser.parse_model(text + "{ y = MatMul(x, w) }"))
        >>> f({"x": np.array([[1, 2], [3, 4]], np.float32)})
        {'w': array([[1., 2.],
               [3., 4.]], dtype=float32)}
    """
    setup = _Setup(model, outputs, wrt, place)
    grads = transforms.per_example_gradients(setup.only_output("per_example_gradients"), setup.wrt)
    return NumpyFunction(setup, grads, lambda r: _named(setup.wrt_names, r))


def _named(names: list[str], results: Iterator[_Array]) -> dict[str, _Array]:
    return {name: next(results) for name in names}


class _Setup:
    """A private copy of the model's program, and the variables that are meant."""

    def __init__(self, model: _Model, outputs: Named | None, wrt: Named | None, place: Place | None) -> None:
        self.place = place
        self.program = model.clone() if isinstance(model, Program) else from_onnx(model)
        # A function has no side effects.
        self.program.updates, self.program.plan.schedulers = {}, []
        self.outputs = self._outputs(None if outputs is None else as_names(model, outputs, "outputs"))
        self.wrt = self._wrt(None if wrt is None else as_names(model, wrt, "wrt"))
        self.output_names = [v.name for v in self.outputs]
        self.wrt_names = [v.name for v in self.wrt]

    def _outputs(self, names: list[str] | None) -> list[Variable]:
        outputs = self._find(names, "outputs") if names is not None else [v for v in self.program.outputs if v.is_float]
        if not outputs:
            raise ArgumentError("the model has no floating-point output to differentiate. Name one in outputs=.")
        return outputs

    def _wrt(self, names: list[str] | None) -> list[Variable]:
        if names is not None:
            return self._find(names, "wrt")
        weights: list[Variable] = [p for p in self.program.parameters if p.trainable and not p.stop_gradient]
        sources = weights or [v for v in self.program.inputs if v.is_float]
        if not sources:
            raise ArgumentError("the model has neither weights nor floating-point inputs. Name something in wrt=.")
        return sources

    def _find(self, names: list[str], what: str) -> list[Variable]:
        variables = []
        for name in names:
            v = self.program.global_block().vars.get(name)
            v = v or next((p for p in self.program.parameters if p.name == name), None)
            if v is None:
                raise UnknownName(f"{what}: the model has nothing called {name!r} in its main graph.")
            variables.append(v)
        return variables

    def only_output(self, what: str) -> Variable:
        if len(self.outputs) != 1:
            raise ArgumentError(f"{what} takes one output, the model has {self.output_names}. Name one in outputs=.")
        return self.outputs[0]

    def more_inputs(self, names: list[str], like: list[Variable], suffix: str) -> dict[str, Variable]:
        """One more graph input for each variable, of its type."""
        block, inputs = self.program.global_block(), {}
        for name, v in zip(names, like, strict=True):
            inputs[name] = block.add_input(self.program.fresh_name(f"{name}@{suffix}"), v.type)
        return inputs
