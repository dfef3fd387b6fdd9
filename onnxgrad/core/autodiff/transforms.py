"""vjp, jvp, jacobian, hessian, hvp and gradients per example, all made of the reverse rules.

Each takes variables of a program, appends operators to it and returns variables. A product with the Jacobian comes from the
transposed one: ``J^T c`` is linear in ``c``, so its own gradient with respect to ``c``, weighted with ``t``, is ``J t``, whatever
``c`` is. Whole Jacobians are a Loop over unit vectors whose body holds the backward pass alone and reads the forward values
from outside: it works for any size and keeps the graph small.

What does not affect an output has a derivative of zero, and zeros are what these functions return for it. ``gradients``, by
contrast, returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, overload

import numpy as np

from onnxgrad.core.autodiff.api import BackwardPass, variables_of
from onnxgrad.core.autodiff.linear import Appended, free_of, into_loop, sum_in_loop
from onnxgrad.core.graph.plan import Plan, make_plan
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.copying import copy_operators
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.traits import RANDOM, READS_SHAPES
from onnxgrad.core.ir.transaction import transaction
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError

__all__ = ["hessian", "hvp", "jacobian", "jvp", "per_example_gradients", "sum_over_examples", "vjp"]

Variables: TypeAlias = "Variable | Sequence[Variable]"


def vjp(outputs: Variables, inputs: Variables, cotangents: Variables | None = None) -> list[Variable]:
    """The transposed Jacobian of ``outputs`` times ``cotangents``: one gradient per input.

    Args:
        outputs: one variable or several, of floating-point type, in the main block.
        inputs: parameters, graph inputs or inner variables. Naming a leaf here asks for its gradient, whatever its
            ``stop_gradient`` says; the flag still cuts at inner variables.
        cotangents: one per output, of its shape; None for ones.

    Returns:
        One variable per input, of its shape; zeros where the input does not affect the outputs.

    Raises:
        ArgumentTypeError: if an argument is not a variable or a list of them.
        ArgumentError: if a variable is not floating-point, or numbers or shapes do not fit.
        UnsupportedGradient: if an operator on the path has no gradient. The program is then as it was.

    Example:
        >>> x = static.data("x", [None, 3], "float32")
        >>> c = static.data("c", [None, 3], "float32")
        >>> paddle.vjp(x * x, x, c)
        [Variable(x@GRAD: float32[?, 3])]
    """
    call = _Call(outputs, inputs)
    weights: list[Variable | None] = [None] * len(call.outputs)
    if cotangents is not None:
        weights = [*call.matching(call.outputs, cotangents, "cotangents")]
    with call.appending():
        grads, _ = call.pull(call.outputs, call.inputs, weights)
        return [call.or_zeros(g, v, v.grad_name) for g, v in zip(grads, call.inputs, strict=True)]


def jvp(outputs: Variables, inputs: Variables, tangents: Variables) -> list[Variable]:
    """The Jacobian of ``outputs`` times ``tangents``: how the outputs change when the inputs move that way.

    Args:
        outputs, inputs: as in ``vjp``.
        tangents: one per input, of its shape.

    Returns:
        One variable per output, of its shape; zeros where no input affects it.

    Raises:
        the errors of ``vjp``.

    Example:
        >>> x = static.data("x", [None, 3], "float32")
        >>> t = static.data("t", [None, 3], "float32")
        >>> paddle.jvp(paddle.tanh(x), x, t)
        [Variable(tanh_0.tmp_0@JVP: float32[?, 3])]
    """
    call = _Call(outputs, inputs)
    directions = call.matching(call.inputs, tangents, "tangents")
    with call.appending() as appended:
        free = [call.free(y) for y in call.outputs]
        pulled, primal_of = call.pull(call.outputs, call.inputs, [*free])
        pairs = [(g, t) for g, t in zip(pulled, directions, strict=True) if g is not None]
        derivatives: list[Variable | None] = [None] * len(free)
        if pairs:
            derivatives, _ = call.pull([g for g, _ in pairs], free, [t for _, t in pairs])
        results = [call.or_zeros(t, y, f"{y.name}@JVP") for t, y in zip(derivatives, call.outputs, strict=True)]
        primal_of.update(zip(free, call.outputs, strict=True))
        free_of(appended, free, primal_of, results)
        return results


@overload
def jacobian(output: Variable, input: Variable) -> Variable: ...
@overload
def jacobian(output: Variable, input: Sequence[Variable]) -> list[Variable]: ...
def jacobian(output: Variable, input: Variables) -> Variable | list[Variable]:
    """All derivatives of ``output``: one transposed product for each of its elements, in a Loop.

    Args:
        output: a floating-point variable of any shape, in the main block.
        input: one variable or several, as in ``vjp``.

    Returns:
        A variable of shape ``[*output.shape, *input.shape]``; for a list of inputs, a list.

    Raises:
        the errors of ``vjp``.

    Example:
        >>> x = static.data("x", [3], "float32")
        >>> paddle.jacobian(x * x, x)
        Variable(tmp_0@JACOBIAN/x: float32[3, 3])
    """
    call = _Call(output, input)
    with call.appending() as appended:
        results = _jacobian(call, appended, call.outputs[0])
    return results[0] if isinstance(input, Variable) else results


def hvp(output: Variable, inputs: Variables, vectors: Variables) -> list[Variable]:
    """The Hessian of ``output`` times ``vectors``, without forming the Hessian.

    Args:
        output: a floating-point variable; of several elements, the Hessian is that of their sum.
        inputs: as in ``vjp``.
        vectors: one per input, of its shape.

    Returns:
        One variable per input, of its shape.

    Raises:
        the errors of ``vjp``.

    Example:
        >>> x = static.data("x", [3], "float32")
        >>> v = static.data("v", [3], "float32")
        >>> paddle.hvp(paddle.sum(x * x * x), x, v)
        [Variable(x@HVP: float32[3])]
    """
    call = _Call(output, inputs)
    weights = call.matching(call.inputs, vectors, "vectors")
    with call.appending() as appended:
        first, _ = call.pull(call.outputs, call.inputs, [None])
        pairs = [(g, v) for g, v in zip(first, weights, strict=True) if g is not None]
        second: list[Variable | None] = [None] * len(call.inputs)
        if pairs:
            second, _ = call.pull([g for g, _ in pairs], call.inputs, [v for _, v in pairs])
        results = [call.or_zeros(h, v, f"{v.name}@HVP") for h, v in zip(second, call.inputs, strict=True)]
        appended.keep_only(results)
        return results


@overload
def hessian(output: Variable, input: Variable) -> Variable: ...
@overload
def hessian(output: Variable, input: Sequence[Variable]) -> list[list[Variable]]: ...
def hessian(output: Variable, input: Variables) -> Variable | list[list[Variable]]:
    """All second derivatives of ``output``: the Jacobian of its gradient, in a Loop.

    Args:
        output: a floating-point variable; of several elements, the Hessian is that of their sum.
        input: one variable or several, as in ``vjp``.

    Returns:
        A variable of shape ``[*input.shape, *input.shape]``. For a list of inputs, a list of lists: entry ``[i][j]`` has shape
        ``[*input[i].shape, *input[j].shape]``.

    Raises:
        the errors of ``vjp``.

    Example:
        >>> x = static.data("x", [3], "float32")
        >>> paddle.hessian(paddle.sum(x * x * x), x)
        Variable(x@HESSIAN/x: float32[3, 3])
    """
    call = _Call(output, input)
    rows = []
    with call.appending() as appended:
        first, _ = call.pull(call.outputs, call.inputs, [None])
        for v, g in zip(call.inputs, first, strict=True):
            rows.append(_jacobian(call, appended, v if g is None else g, f"{v.name}@HESSIAN", zero=g is None))
        appended.keep_only([h for row in rows for h in row])
    return rows[0][0] if isinstance(input, Variable) else rows


def per_example_gradients(loss_per_example: Variable, inputs: Variables) -> list[Variable]:
    """The gradient of each example's loss by itself with respect to shared variables.

    One backward pass per example, in a Loop, whatever couples the examples (batch statistics, for instance).

    Args:
        loss_per_example: a floating-point vector, one loss per example.
        inputs: parameters or other variables that the examples share, as in ``vjp``.

    Returns:
        One variable per input, of shape ``[examples, *input.shape]``.

    Raises:
        ArgumentError: if the loss is not a vector.
        and the errors of ``vjp``.

    Example:
        >>> x = static.data("x", [None, 3], "float32")
        >>> loss = paddle.sum(static.nn.fc(x, size=1, name="line"), axis=1)
        >>> paddle.per_example_gradients(loss, loss.block.program.parameters[:1])
        [Variable(line.w_0@PER_EXAMPLE: float32[?, 3, 1])]
    """
    call = _Call(loss_per_example, inputs)
    loss = call.outputs[0]
    if loss.rank not in (1, None):
        raise ArgumentError(f"{loss!r} is not a vector with one loss per example. Reduce every axis except the batch.")
    with call.appending() as appended:
        results = _jacobian(call, appended, loss)
    for g, v in zip(results, call.inputs, strict=True):
        g.name = call.program.fresh_name(f"{v.name}@PER_EXAMPLE")
    return results


def sum_over_examples(
    loss_per_example: Variable, inputs: Variables, weigh: Callable[[Builder, list[Variable]], list[Variable]]
) -> list[Variable]:
    """Sum over examples what ``weigh`` computes of each one's gradients, in a Loop that sees one example at a time.

    So a value that is not finite reaches the gradients of its own example alone. Examples are batches of one where their number is
    unknown and nothing is drawn at random. Elsewhere they are a batch of copies of one example, of which the loss in its own place
    counts: sizes stay as they are, and so do its masks; the time grows by the square of their number.

    Args:
        loss_per_example: a floating-point vector, one loss per example, computed from the rows of all that is fed, of which each
            loss reads its own alone.
        inputs: of known shape, as in ``vjp``.
        weigh: from the gradients of one example, for ``inputs`` in order, to what is added up, of the same shapes.

    Returns:
        One sum per input.
    """
    call = _Call(loss_per_example, inputs)
    loss, block = call.outputs[0], call.block
    with call.appending() as appended:
        op = call.builder
        forward = make_plan(call.program, [loss])
        rows = [x for x in call.program.inputs if x.value is None and x.dims != () and _dependents(forward, [x])]
        draws = any(inner.type in RANDOM for o in _dependents(forward, rows) for inner in _with_bodies([o.replaces or o]))
        is_whole = draws or not rows or any(x.dims is None or isinstance(x.dims[0], int) for x in rows)
        row = Variable(block, call.program.fresh_name(f"{loss.name}@ROW"), TensorType(dtype_of("int64"), ()))
        alone: dict[Variable, Variable] = {}
        for x in rows:
            # Inputs of another length than the first fail here.
            same = op.Reshape(x, op.Concat(op.Shape(rows[0], end=1), op.Shape(x, start=1), axis=0), allowzero=1)
            example = op.Gather(same, op.Unsqueeze(row, [0]), axis=0)
            alone[x] = op.Expand(example, op.Shape(x)) if is_whole else example
        _append_copies(call, forward, _dependents(forward, rows, but=READS_SHAPES if is_whole else frozenset()), alone)
        own = alone.get(forward.resolve(loss), loss)
        own = op.Gather(own, row, axis=0) if is_whole else op.Reshape(own, op.constant(np.zeros(0, np.int64)))  # one loss each
        grads, _ = call.pull([own], call.inputs, [None])
        zero = [op.constant(np.zeros(v.static_shape or (), v.dtype.numpy)) for v in call.inputs]
        gradients = [z if g is None else g for g, z in zip(grads, zero, strict=True)]
        count = op.Size(loss) if is_whole else op.Squeeze(op.Shape(rows[0], end=1), [0])
        return sum_in_loop(appended, row, count, weigh(op, gradients))


def _dependents(plan: Plan, sources: Iterable[Variable], but: Container[str] = ()) -> list[Operator]:
    """The operators of a plan, in order, that depend on the sources by others than those of the types ``but``"""
    reached = set(sources)
    dependents: list[Operator] = []
    for op in plan.operators:
        if any(v is not None and plan.resolve(v) in reached for v in op.operands()) and op.type not in but:
            dependents.append(op)
            reached.update(v for v in op.outputs if v is not None)
    return dependents


def _append_copies(call: _Call, plan: Plan, operators: Iterable[Operator], copies: dict[Variable, Variable]) -> None:
    """Append operators of a plan once more; what they read in place of others, and their results, are in ``copies``"""
    replaced: dict[Variable, list[Variable]] = {}
    for v in plan.aliases:
        replaced.setdefault(plan.resolve(v), []).append(v)
    for op in operators:
        (copy,) = copy_operators([op], copies, call.block, lambda known: call.program.fresh_name(f"{known.name}@ALONE"))
        call.block.append(copy)
        for result, own in zip(op.outputs, copy.outputs, strict=True):
            if result is not None and own is not None:
                call.block.register(own)
                copies.update(dict.fromkeys(replaced.get(result, ()), own))


def _with_bodies(operators: Iterable[Operator]) -> Iterator[Operator]:
    for op in operators:
        yield op
        for body in op.blocks():
            yield from all_operators_of(body)


def _jacobian(call: _Call, appended: Appended, y: Variable, label: str = "", zero: bool = False) -> list[Variable]:
    """The Jacobian of ``y`` with respect to each input of the call."""
    label = label or f"{y.name}@JACOBIAN"
    op = call.builder
    free = call.free(y)
    grads: list[Variable | None] = [None] * len(call.inputs)
    if not zero:
        grads, _ = call.pull([y], call.inputs, [free])
    live = [g for g in grads if g is not None]
    stacked = iter(into_loop(appended, free, y, live) if live else [])
    results = []
    for g, v in zip(grads, call.inputs, strict=True):
        shape = _joined_shape(op, y, v)
        if g is None:
            full = op.Expand(op.constant(0, v.dtype), shape)
        else:
            full = op.Reshape(next(stacked), shape, allowzero=1)
        results.append(call.own(full, f"{label}/{v.name}"))
    return results


def _joined_shape(op: Builder, y: Variable, v: Variable) -> Variable:
    if y.static_shape is not None and v.static_shape is not None:
        return op.constant(np.array([*y.static_shape, *v.static_shape], np.int64))
    return op.Concat(op.Shape(y), op.Shape(v), axis=0)


class _Call:
    """Checked arguments, and what every transformation does with them."""

    def __init__(self, outputs: Any, inputs: Any) -> None:
        self.outputs = _floats(outputs, "outputs")
        self.inputs = _floats(inputs, "inputs")
        first = self.outputs[0]
        self.program, self.block = first.block.program, first.block
        for v in [*self.outputs, *self.inputs]:
            self._check_home(v)
        if self.block is not self.program.global_block():
            raise ArgumentError(f"{first.name} is inside the body of an operator. Differentiate variables of the main block.")
        for y in self.outputs:
            if y.block is not self.block:
                raise ArgumentError(f"the outputs {first.name} and {y.name} are in different blocks.")

    def _check_home(self, v: Variable) -> None:
        if v.block.program is not self.program:
            raise ArgumentError(f"{v.name} belongs to another program than {self.outputs[0].name}.")

    @property
    def builder(self) -> Builder:
        return Builder(self.block, role=Role.BACKWARD, key="transform")

    def matching(self, like: list[Variable], items: Any, what: str) -> list[Variable]:
        """One variable for each of ``like``, of its type."""
        variables = _floats(items, what)
        if len(variables) != len(like):
            raise ArgumentError(f"{len(variables)} {what} are given for {len(like)} variables.")
        for v, x in zip(variables, like, strict=True):
            self._check_home(v)
            if isinstance(x.type, TensorType) and v.dtype != x.dtype:
                raise ArgumentError(f"{what}: {v!r} does not have the element type of {x!r}. Cast it.")
            if x.dims is not None and v.dims is not None and not _fits(x.dims, v.dims):
                raise ArgumentError(f"{what}: {v!r} does not have the shape of {x!r}.")
        return variables

    @contextmanager
    def appending(self) -> Iterator[Appended]:
        """Append within; a failure restores the program. Leaves named as inputs require gradients meanwhile."""
        with transaction(self.program):
            lift(self.program)
            flags = [(v, v._stop) for v in self.inputs if v.is_leaf]
            for v, _ in flags:
                v._stop = False
            yield Appended(self.block)
            for v, stop in flags:
                v._stop = stop

    def pull(
        self, outputs: list[Variable], inputs: list[Variable], cotangents: Sequence[Variable | None]
    ) -> tuple[list[Variable | None], dict[Variable, Variable]]:
        """Append one backward pass: the gradients, and for each gradient the variable it belongs to."""
        backward = BackwardPass(self.program, [], [], [])
        grads = backward.append(list(zip(outputs, cotangents, strict=True)), inputs, self.block)
        return [grads.get(v) for v in inputs], backward.primal_of

    def free(self, like: Variable) -> Variable:
        """A cotangent without a value."""
        return Variable(self.block, self.program.fresh_name(f"{like.name}@FREE"), like.type)

    def own(self, v: Variable, name: str) -> Variable:
        """``v`` under that name; a copy where it is somebody else's."""
        if v.op is None or v.value is not None or v.name.rpartition("/")[0] != "transform":
            v = self.builder.Identity(v)
        v.name = self.program.fresh_name(name)
        return v

    def or_zeros(self, v: Variable | None, like: Variable, name: str) -> Variable:
        if v is None:
            op = self.builder
            v = op.Expand(op.constant(0, like.dtype), op.Shape(like))
        elif v.name == name or (v.op is not None and v.name.endswith("@GRAD") and name.endswith("@GRAD")):
            return v
        else:
            v.name = self.program.fresh_name(name)
            return v
        return self.own(v, name)


def _fits(a: Sequence[Any], b: Sequence[Any]) -> bool:
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(not (isinstance(m, int) and isinstance(n, int)) or m == n for m, n in pairs)


def _floats(items: Any, what: str) -> list[Variable]:
    variables = variables_of(items, what)
    for v in variables:
        if v.type is not None and not v.is_float:
            raise ArgumentError(f"{what}: {v!r} is not a floating-point tensor, so it has no derivative.")
    if not variables:
        raise ArgumentError(f"{what} is empty; name at least one variable.")
    return variables
