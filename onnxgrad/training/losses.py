"""Losses by name, attached to the outputs of a program that has none.

A loss function takes the output and the target column and returns one number, the mean over the batch. Sources are named
in each docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.ir.builder import Builder
from onnxgrad.ir.program import Program
from onnxgrad.ir.types import Dim, TensorType
from onnxgrad.ir.variable import Variable

__all__ = ["LOSSES", "Attached", "Term", "attach"]


class Term:
    """One term of a loss.

    Args:
        loss: a name in ``LOSSES``, or a function ``(output, target) -> Variable`` that uses the static API.
        output: name of the program's output; None for its only or first one.
        target: name of the data column; None for ``target``.
        weight: factor of this term in the sum.
    """

    def __init__(
        self, loss: str | Callable[..., Variable], output: str | None = None, target: str | None = None, weight: float = 1.0
    ) -> None:
        if isinstance(loss, str) and loss not in LOSSES:
            raise ArgumentError(f"there is no loss {loss!r}. Use one of {sorted(LOSSES)}, or a function.")
        self.loss = loss
        self.output = output
        self.target = target
        self.weight = float(weight)

    @property
    def label(self) -> str:
        return self.loss if isinstance(self.loss, str) else getattr(self.loss, "__name__", "loss")


class Attached:
    """What was attached: the loss, the target inputs, and remarks for people."""

    def __init__(self, loss: Variable, targets: list[Variable], outputs: list[Variable], remarks: list[str]) -> None:
        self.loss = loss
        self.targets = targets
        self.outputs = outputs
        self.remarks = remarks


def attach(program: Program, terms: Sequence[Term]) -> Attached:
    """Append a weighted sum of losses to a program, with one input per target column.

    Raises:
        UnknownName: if the program has no such output.
        ArgumentError: if a loss does not fit the output.
    """
    from onnxgrad.ir.defaults import program_guard

    remarks: list[str] = []
    targets: dict[str, Variable] = {}
    total: Variable | None = None
    outputs = []
    with program_guard(program):
        op = Builder(program.global_block(), key="loss")
        for term in terms:
            output = _output(program, term.output)
            outputs.append(output)
            name = term.target or "target"
            if callable(term.loss):
                target = targets.get(name) or _new_target(program, name, output.dtype, output.dims)
                value = term.loss(output, target)
            else:
                dtype, dims = _target_type(term.loss, output)
                target = targets.get(name) or _new_target(program, name, dtype, dims)
                value = LOSSES[term.loss](op, output, target, remarks)
            targets[name] = target
            value = value if value.rank == 0 else op.ReduceMean(value, keepdims=0)
            value = value if term.weight == 1.0 else op.Mul(value, term.weight)
            total = value if total is None else op.Add(total, value)
    if total is None:
        raise ArgumentError("a loss has at least one term.")
    return Attached(total, list(targets.values()), outputs, remarks)


def _output(program: Program, name: str | None) -> Variable:
    if name is None:
        if not program.outputs:
            raise ArgumentError("the program has no outputs to attach a loss to. Name one.")
        return program.outputs[0]
    found = program.global_block().vars.get(name)
    if found is None:
        raise UnknownName(f"the program has no output {name!r}; it has {[v.name for v in program.outputs]}.")
    return found


def _target_type(loss: str, output: Variable) -> tuple[DType, tuple[Dim, ...] | None]:
    """Element type and dimensions of the target column of a loss"""
    dims = output.dims
    if loss == "cross_entropy":
        return dtype_of("int64"), None if dims is None else (*dims[:1], *dims[2:])
    if loss == "ctc":
        return dtype_of("int64"), None if dims is None else (dims[0], None)
    if loss == "triplet":
        return dtype_of("int64"), None if dims is None else dims[:1]
    return output.dtype, dims


def _new_target(program: Program, name: str, dtype: DType, dims: tuple[Dim, ...] | None) -> Variable:
    block = program.global_block()
    if name in block.vars:
        raise ArgumentError(f"the target column {name!r} has the name of another tensor of the program. Choose another name.")
    v = Variable(block, name, TensorType(dtype, dims))
    v.is_data = True
    block.inputs.append(block.register(v))
    return v


# The losses ----------------------------------------------------------------------------------------------------------


def _cross_entropy(op: Builder, y: Variable, label: Variable, remarks: list[str]) -> Variable:
    """-log p of the label, p = softmax of the logits over axis 1; an output of Softmax or LogSoftmax is taken as it is."""
    kind = _producer(y)
    if y.rank == 1:
        raise ArgumentError(f"cross_entropy needs class scores of rank 2 or more; {y!r} has rank 1. Use bce_with_logits.")
    if kind == "Softmax":
        logits = y.op.inputs[0] if y.op is not None else None
        remarks.append(f"{y.name} holds probabilities (it comes from Softmax); the loss uses the logits before it.")
        if logits is not None and _softmax_axis(y) in (1, -1 if y.rank == 2 else 1):
            return op.SoftmaxCrossEntropyLoss(logits, label)  # type: ignore[no-any-return]
        return op.NegativeLogLikelihoodLoss(op.Log(op.Clip(y, 1e-12)), label)  # type: ignore[no-any-return]
    if kind == "LogSoftmax":
        remarks.append(f"{y.name} holds log-probabilities (it comes from LogSoftmax).")
        return op.NegativeLogLikelihoodLoss(y, label)  # type: ignore[no-any-return]
    remarks.append(f"{y.name} is taken as logits: the loss applies softmax.")
    return op.SoftmaxCrossEntropyLoss(y, label)  # type: ignore[no-any-return]


def _producer(y: Variable) -> str:
    op = y.op
    while op is not None and op.type in ("Identity", "Cast") and op.inputs[0] is not None:
        op = op.inputs[0].op
    return "" if op is None else op.type


def _softmax_axis(y: Variable) -> int:
    return -1 if y.op is None else int(y.op.attr("axis"))


def _bce_with_logits(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """max(x, 0) - x t + log(1 + exp(-|x|)), the binary cross-entropy that cannot overflow"""
    if _producer(y) == "Sigmoid" and y.op is not None and y.op.inputs[0] is not None:
        remarks.append(f"{y.name} holds probabilities (it comes from Sigmoid); the loss uses the logits before it.")
        y = y.op.inputs[0]
    stable = op.Softplus(op.Neg(op.Abs(y)))
    return op.Add(op.Sub(op.Relu(y), op.Mul(y, target)), stable)  # type: ignore[no-any-return]


def _mse(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """(y - t)^2"""
    difference = op.Sub(y, target)
    return op.Mul(difference, difference)  # type: ignore[no-any-return]


def _l1(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """|y - t|"""
    return op.Abs(op.Sub(y, target))  # type: ignore[no-any-return]


def _smooth_l1(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """c (|d| - c / 2) with c = min(|d|, 1): d^2/2 near 0, |d| - 1/2 beyond 1 (Huber 1964; Girshick, "Fast R-CNN", 2015)"""
    size = op.Abs(op.Sub(y, target))
    inner = op.Min(size, 1.0)
    return op.Mul(inner, op.Sub(size, op.Mul(inner, 0.5)))  # type: ignore[no-any-return]


def _kl(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """sum of t (log t - log p) over the last axis, p = softmax of the output; 0 log 0 = 0 (Kullback and Leibler 1951)"""
    kind = _producer(y)
    log = y if kind == "LogSoftmax" else op.Log(op.Clip(y, 1e-12)) if kind == "Softmax" else op.LogSoftmax(y, axis=-1)
    remarks.append(
        f"{y.name} is taken as {'log-probabilities' if kind == 'LogSoftmax' else 'probabilities' if kind else 'logits'}."
    )
    entropy = op.Mul(target, op.Log(op.Clip(target, 1e-12)))
    return op.ReduceSum(op.Sub(entropy, op.Mul(target, log)), [-1], keepdims=0)  # type: ignore[no-any-return]


def _cosine(op: Builder, y: Variable, target: Variable, remarks: list[str]) -> Variable:
    """1 - cosine of the angle between output and target along the last axis"""
    return op.Sub(1.0, op.ReduceSum(op.Mul(_unit(op, y), _unit(op, target)), [-1], keepdims=0))  # type: ignore[no-any-return]


def _unit(op: Builder, x: Variable) -> Variable:
    square = op.ReduceSum(op.Mul(x, x), [-1], keepdims=1)
    return op.Div(x, op.Sqrt(op.Max(square, 1e-12)))  # type: ignore[no-any-return]


def _triplet(op: Builder, y: Variable, label: Variable, remarks: list[str]) -> Variable:
    """Batch-hard triplets with soft margin: log(1 + exp(farthest of the class - nearest of another))

    Hermans et al., "In Defense of the Triplet Loss", 2017.
    """
    if y.rank != 2:
        raise ArgumentError(f"triplet needs embeddings of shape [batch, size], not {y!r}.")
    square = op.ReduceSum(op.Mul(y, y), [1], keepdims=1)
    product = op.MatMul(y, op.Transpose(y, perm=[1, 0]))
    apart = op.Add(op.Sub(square, op.Mul(product, 2.0)), op.Transpose(square, perm=[1, 0]))
    distance = op.Sqrt(op.Max(apart, 1e-12))
    same = op.Cast(op.Equal(op.Unsqueeze(label, [1]), op.Unsqueeze(label, [0])), to=y.dtype.number)
    farthest = op.ReduceMax(op.Mul(distance, same), [1], keepdims=0)
    nearest = op.ReduceMin(op.Add(distance, op.Mul(same, 1e6)), [1], keepdims=0)
    return op.Softplus(op.Sub(farthest, nearest))  # type: ignore[no-any-return]


LOSSES: dict[str, Callable[[Builder, Variable, Variable, list[str]], Variable]] = {
    "bce_with_logits": _bce_with_logits,
    "cosine": _cosine,
    "cross_entropy": _cross_entropy,
    "huber": _smooth_l1,
    "kl": _kl,
    "l1": _l1,
    "mse": _mse,
    "smooth_l1": _smooth_l1,
    "triplet": _triplet,
}
