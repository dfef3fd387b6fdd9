"""For authors of gradient rules: describe inputs as samples, and check a rule against finite differences.

The oracle is onnx.reference in float64, an engine independent of the one that runs training. Where it is known to be wrong
(measured on onnx 1.23), a corrected operator from ``reference_ops`` is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from onnx import ModelProto, NodeProto, TensorProto
from onnx.reference.op_run import OpRun

from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.autodiff.transforms import jvp, vjp
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import NEWEST, OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import IllTyped, OnnxGradError

__all__ = ["Draw", "GradientMismatch", "Reference", "Sample", "check_adjointness", "check_gradient", "evaluate"]


def __dir__() -> list[str]:
    return __all__


Array = np.ndarray[Any, Any]


class GradientMismatch(OnnxGradError, AssertionError):
    """A gradient differs from finite differences."""


class Draw:
    """Random test inputs, reproducible.

    Args:
        seed: an int.
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)

    def real(self, *shape: int, low: float = -2.0, high: float = 2.0, apart: float = 0.0, spread: float | None = None) -> Array:
        """Uniform numbers; with ``apart``, all are at least so far from 0 and from each other (no ties, no kinks).

        Args:
            shape: the sizes.
            low: the least number.
            high: the bound.
            apart: whether all keep their distance.
            spread: whether they are spread out.
        """
        if spread is not None:
            low, high = -spread, spread
        size = int(np.prod(shape, dtype=int))
        if not apart:
            return self.rng.uniform(low, high, shape)
        steps = np.arange(size) - size / 2 + 0.5
        return (self.rng.permutation(steps) * max(apart * 2, (high - low) / max(size, 1))).reshape(shape)

    def positive(self, *shape: int, low: float = 0.5, high: float = 2.0) -> Array:
        """Uniform numbers above 0.

        Args:
            shape: the sizes.
            low: the least number.
            high: the bound, not included.
        """
        return self.rng.uniform(low, high, shape)

    def integers(self, *shape: int, low: int = 0, high: int) -> Array:
        """Uniform int64 numbers.

        Args:
            shape: the sizes.
            low: the least number.
            high: the bound, not included.
        """
        return self.rng.integers(low, high, shape, dtype=np.int64)


class Sample:
    """One use of an operator.

    Args:
        inputs: float arrays are differentiated, other arrays are constants, None is absent. A float array wrapped in
            ``Sample.fixed`` is a constant.
        outputs: number of outputs.
        opset: opset of the program.
        only: outputs whose gradient is asked for; None for all float ones.
        build: instead of one operator, a function ``(op, *variables)`` that builds the outputs.
        second: whether the second derivative exists and is checked.
        runs: whether onnxruntime has kernels for it in float32.
        tolerance: absolute and relative tolerance against finite differences.
        domain: domain of the operator.
        reference: for an operator that onnx does not have, what it computes: a subclass of ``onnx.reference.op_run.OpRun``.
        attrs: attributes.
    """

    def __init__(
        self,
        *inputs: ArrayLike | None,
        outputs: int = 1,
        opset: int = OLDEST_WITH_RULES,
        only: Sequence[int] | None = None,
        build: Callable[..., Variable | tuple[Variable, ...]] | None = None,
        second: bool = True,
        runs: bool = True,
        tolerance: float = 1e-5,
        domain: str = "",
        reference: type[OpRun] | None = None,
        **attrs: Any,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.opset = opset
        self.only = only
        self.build = build
        self.second = second
        self.runs = runs
        self.tolerance = tolerance
        self.domain = domain
        self.reference = reference
        self.attrs = attrs
        self.op_type = ""
        self.number = 0

    class fixed:  # noqa: N801
        """A float input that is not differentiated; float64 becomes the type of the others, float32 stays."""

        def __init__(self, array: Any) -> None:
            self.array = np.asarray(array)

    def __str__(self) -> str:
        return f"{self.op_type}-{self.number}"


class _Case:
    """A sample as a program: variables for its float inputs, outputs, cotangents."""

    def __init__(self, sample: Sample, dtype: str, form: str = "", rounded: str = "", opset: int = 0) -> None:
        self.dtype = dtype_of(dtype).numpy
        self.form = form
        self.rounded = dtype_of(rounded or dtype).numpy
        self.program = Program()
        opset = opset or sample.opset
        self.program.is_oracle = self.dtype == np.float64
        self.program.set_opset_version(opset)
        self.program.ir_version = 13 if opset > 21 else 10
        self.operators = [] if sample.reference is None else [sample.reference]
        self.feeds: dict[str, Array] = {}
        self.differentiated: list[Variable] = []
        operands: list[Any] = [self._operand(i, item) for i, item in enumerate(sample.inputs)]
        build = self.program.global_block().build
        if sample.build is not None:
            results = sample.build(build, *operands)
        else:
            while operands and operands[-1] is None:
                operands.pop()
            if sample.reference is not None:
                results = self._foreign(sample, operands)
            else:
                results = build.emit(sample.op_type, operands, dict(sample.attrs), outputs=sample.outputs, domain=sample.domain)
        self.all_outputs: list[Variable] = list(results) if isinstance(results, tuple) else [results]
        chosen = range(len(self.all_outputs)) if sample.only is None else sample.only
        self.outputs = [self.all_outputs[i] for i in chosen if self.all_outputs[i].is_float]

    def _foreign(self, sample: Sample, operands: list[Any]) -> tuple[Variable, ...]:
        """An operator without a schema: its reference says of what type the results are."""
        block = self.program.global_block()
        operator = Operator(block, sample.op_type, operands, [], dict(sample.attrs), sample.domain)
        names = (self.program.fresh_name(f"{sample.op_type}_{i}") for i in range(sample.outputs))
        outputs = [Variable(block, name, None, operator) for name in names]
        operator.outputs = [*outputs]
        block.append(operator)
        for v, value in zip(outputs, evaluate(to_onnx(self.program, outputs), self.feeds, self.operators), strict=True):
            v.type = TensorType(dtype_of(value.dtype), self._dims(value))
        return tuple(outputs)

    def _operand(self, i: int, item: Any) -> Any:
        if item is None:
            return None
        if isinstance(item, Sample.fixed):
            return self._fixed(i, self._cast(item.array) if item.array.dtype == np.float64 else item.array)
        array = np.asarray(item)
        if array.dtype.kind != "f":
            return self._fixed(i, array)
        v = self.add_input(f"x{i}", self._cast(array))
        v.stop_gradient = False
        self.differentiated.append(v)
        return v

    def _cast(self, array: Array) -> Array:
        return self._rounded(array).astype(self.dtype)

    def _rounded(self, array: Any) -> Array:
        return np.asarray(array).astype(self.rounded)

    def _fixed(self, i: int, array: Array) -> Variable:
        return self.add_input(f"x{i}", array) if self.form == "runtime" else self.program.constant(array)

    def add_input(self, name: str, array: Array) -> Variable:
        block = self.program.global_block()
        self.feeds[name] = array
        return block.add_input(name, TensorType(dtype_of(array.dtype), self._dims(array)))

    def _dims(self, array: Array) -> Any:
        if self.form == "unranked":
            return None
        return tuple(None for _ in array.shape) if self.form == "symbolic" else array.shape

    def cotangents(self, like: Sequence[Variable], values: Sequence[Array], prefix: str = "c") -> list[Variable]:
        rng = np.random.default_rng(99)
        return [
            self.add_input(f"{prefix}{i}", self._rounded(rng.uniform(-1, 1, value.shape)).astype(y.dtype.numpy))
            for i, (y, value) in enumerate(zip(like, values, strict=True))
        ]


def evaluate(model: ModelProto, feeds: dict[str, Array], operators: Sequence[type[OpRun]] = ()) -> list[Array]:
    """Run a model on the reference evaluator, with classes for operators that it does not have.

    Args:
        model: a message of ONNX.
        feeds: arrays by input name.
        operators: classes for operators that the evaluator does not have.
    """
    return _evaluator(model, operators)(feeds)


def _evaluator(model: ModelProto, operators: Sequence[type[OpRun]]) -> Callable[[dict[str, Array]], list[Array]]:
    """A model on the reference evaluator, as a function of its feeds."""
    from onnx.reference import ReferenceEvaluator

    from onnxgrad.testing.reference_ops import CORRECTED

    known: Any = [*CORRECTED, *operators]
    wanted = {v.name for v in model.graph.input}
    evaluator = ReferenceEvaluator(model, new_ops=known)

    def run(feeds: dict[str, Array]) -> list[Array]:
        with np.errstate(all="ignore"):
            results = evaluator.run(None, {name: array for name, array in feeds.items() if name in wanted})
        return [np.asarray(array) for array in results]

    return run


class Reference:
    """Computes the reference values of gradients, on the reference evaluator. A subclass may look it up instead."""

    def values(self, model: ModelProto, feeds: dict[str, Array], operators: Sequence[type[OpRun]] = ()) -> list[Array]:
        """The outputs of a model.

        Args:
            model: a message of ONNX.
            feeds: arrays by input name.
            operators: classes for operators that the evaluator does not have.
        """
        return evaluate(model, feeds, operators)

    def differences(
        self,
        model: ModelProto,
        feeds: dict[str, Array],
        name: str,
        weights: Sequence[Array],
        positions: Array,
        step: float,
        operators: Sequence[type[OpRun]] = (),
    ) -> Array:
        """Central differences of ``sum(outputs * weights)`` with respect to some elements of one input.

        Args:
            model: the function.
            feeds: where it is differentiated, in float64.
            name: the input that is moved.
            weights: one array for each output, of its shape.
            positions: flat indices of the elements that are moved, one at a time.
            step: by how much, in both directions.
            operators: classes for operators that the evaluator does not have.

        Returns:
            A vector with one difference for each position.
        """
        run = _evaluator(model, operators)
        result = np.empty(len(positions))
        for k, position in enumerate(positions):
            ends = []
            for sign in (1.0, -1.0):
                moved = feeds[name].copy()
                moved.reshape(-1)[position] += sign * step
                outputs = run({**feeds, name: moved})
                ends.append(sum(float((y * w).sum()) for y, w in zip(outputs, weights, strict=True)))
            result[k] = (ends[0] - ends[1]) / (2 * step)
        return result


def _compare(
    case: _Case,
    sample: Sample,
    forward: ModelProto,
    grads: list[Variable | None],
    weights: list[Array],
    order: str,
    reference: Reference,
) -> None:
    present = [(x, g) for x, g in zip(case.differentiated, grads, strict=True) if g is not None]
    model = to_onnx(case.program, [g for _, g in present]) if present else None
    values = iter(reference.values(model, case.feeds, case.operators) if model is not None else [])
    rng = np.random.default_rng(5)
    for x, g in zip(case.differentiated, grads, strict=True):
        array = case.feeds[x.name]
        positions = rng.permutation(array.size)[:_MOST_ELEMENTS]
        step = 1e-5 if order == "first" else 1e-4
        expected = reference.differences(forward, case.feeds, x.name, weights, positions, step, case.operators)
        got = next(values) if g is not None else np.zeros(array.shape)
        if got.shape != array.shape:
            raise GradientMismatch(f"{sample}: the {order} gradient of {x.name} has shape {got.shape}, not {array.shape}.")
        actual = got.reshape(-1)[positions]
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        tolerance = sample.tolerance * (1 if order == "first" else 20)
        if not np.all(np.abs(actual - expected) <= tolerance * scale):
            worst = int(np.nanargmax(np.where(np.isnan(actual), np.inf, np.abs(actual - expected))))
            raise GradientMismatch(
                f"{sample}: the {order} gradient of {x.name} at flat element {positions[worst]} is {actual[worst]:.9g}, "
                f"finite differences give {expected[worst]:.9g}."
            )


_MOST_ELEMENTS = 12


def check_gradient(
    sample: Sample,
    *,
    op_type: str | None = None,
    symbolic: bool = False,
    order: int = 1,
    form: Literal["", "symbolic", "unranked", "runtime"] = "",
    reference: Reference | None = None,
) -> None:
    """Compare the gradient of a sample with central differences in float64.

    Args:
        sample: what to check.
        op_type: its operator, if the sample does not name it yet.
        symbolic: declare every dimension of the inputs as unknown.
        order: 2 to check the gradient of the gradient too.
        form: ``"symbolic"`` too; ``"unranked"``: not even the ranks are known; ``"runtime"``: integer and fixed operands are
            graph inputs instead of constants.
        reference: computes the differences; None for onnx.reference.

    Raises:
        GradientMismatch: naming the sample, the input and the worst element.

    Example:
        >>> check_gradient(Sample(np.array([0.5, 2.0])), op_type="Log")

        An operator of your own, which stands in your models and has a kernel in your runtime:

        >>> @onnxgrad.core.rules.gradient("Wave", domain="my.domain")
        ... def wave(op, node, gy):
        ...     '''gx = gy * cos(rate * x) * rate'''
        ...     (x,) = node.inputs
        ...     rate = node.operator.attrs["rate"]
        ...     return op.Mul(gy, op.Mul(op.Cos(op.Mul(x, rate)), rate))
        >>> class Wave(OpRun):
        ...     op_domain = "my.domain"
        ...
        ...     def _run(self, x, rate=1.0):
        ...         return (np.sin(rate * x),)
        >>> sample = Sample(np.array([0.5, 2.0]), domain="my.domain", reference=Wave, rate=3.0)
        >>> check_gradient(sample, op_type="Wave", order=2)
    """
    if op_type is not None:
        sample.op_type = op_type
    reference = reference or Reference()
    case = _Case(sample, "float64", "symbolic" if symbolic else form)
    forward = to_onnx(case.program, case.outputs)
    values = reference.values(forward, case.feeds, case.operators)
    seeds = case.cotangents(case.outputs, values)
    weights = [case.feeds[c.name] for c in seeds]
    grads = gradients(case.outputs, case.differentiated, seeds)
    _compare(case, sample, forward, grads, weights, "first", reference)
    present = [g for g in grads if g is not None]
    if order < 2 or not sample.second or not present:
        return
    first = to_onnx(case.program, present)
    second_seeds = case.cotangents(present, reference.values(first, case.feeds, case.operators), "d")
    again = gradients(present, case.differentiated, second_seeds)
    _compare(case, sample, first, again, [case.feeds[c.name] for c in second_seeds], "second", reference)


def opset_with(sample: Sample, dtype: str) -> int | None:
    """The first opset from the sample's own on in which its operators take tensors of an element type; None if none does."""
    for opset in range(sample.opset, NEWEST + 1):
        try:
            _Case(sample, dtype, opset=opset)
        except IllTyped:
            continue
        return opset
    return None


def gradient_model(
    sample: Sample, dtype: str, rounded: str = "", opset: int = 0, reference: Reference | None = None
) -> tuple[ModelProto, dict[str, Array]]:
    """The gradients of a sample as a model, with its feeds, in a given element type.

    The feeds are ``rounded`` to another element type first, so that a narrow and a wide model see the same numbers.
    """
    case = _Case(sample, dtype, rounded=rounded, opset=opset)
    wide = _Case(sample, "float64")
    values = (reference or Reference()).values(to_onnx(wide.program, wide.outputs), wide.feeds)
    seeds = case.cotangents(case.outputs, values)
    grads = [g for g in gradients(case.outputs, case.differentiated, seeds) if g is not None]
    return to_onnx(case.program, grads), case.feeds


def check_adjointness(sample: Sample, *, op_type: str | None = None, symbolic: bool = False) -> ModelProto:
    """Check that ``<c, J t>`` from ``jvp`` is ``<J^T c, t>`` from ``vjp`` in float64, for random ``c`` and ``t``.

    Args:
        sample, op_type, symbolic: as in ``check_gradient``.

    Returns:
        The model that computes ``J^T c``, one output per differentiated input, then ``J t``.

    Raises:
        GradientMismatch: with both numbers.

    Example:
        >>> check_adjointness(Sample(np.array([0.5, 2.0])), op_type="Log").graph.output[0].name
        'x0@GRAD'
    """
    if op_type is not None:
        sample.op_type = op_type
    case = _Case(sample, "float64", "symbolic" if symbolic else "")
    values = evaluate(to_onnx(case.program, case.outputs), case.feeds, case.operators)
    cotangents = case.cotangents(case.outputs, values)
    tangents = case.cotangents(case.differentiated, [case.feeds[x.name] for x in case.differentiated], "t")
    pulled = vjp(case.outputs, case.differentiated, cotangents)
    pushed = jvp(case.outputs, case.differentiated, tangents)
    model = to_onnx(case.program, [*pulled, *pushed])
    results = evaluate(model, case.feeds, case.operators)
    for y, value, tangent in zip(case.outputs, values, results[len(pulled) :], strict=True):
        if tangent.shape != value.shape:
            raise GradientMismatch(f"{sample}: the tangent of {y.name} has shape {tangent.shape}, not {value.shape}.")
    backward = sum(float((g * case.feeds[t.name]).sum()) for g, t in zip(results, tangents, strict=False))
    forward = sum(float((y * case.feeds[c.name]).sum()) for y, c in zip(results[len(pulled) :], cotangents, strict=True))
    # Operators with a stash type compute in float32 inside.
    tolerance = 1e-6 if any(_casts_to_float32(node) for node in model.graph.node) else 1e-9
    if not abs(backward - forward) <= tolerance * max(1.0, abs(backward)):
        raise GradientMismatch(f"{sample}: <J^T c, t> is {backward:.12g}, <c, J t> is {forward:.12g}.")
    return model


def _casts_to_float32(node: NodeProto) -> bool:
    return node.op_type == "Cast" and node.attribute[0].i == TensorProto.FLOAT
