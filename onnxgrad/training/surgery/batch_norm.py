"""BatchNormalization that an exporter folded into its layer: put back for training, folded again for inference.

Exporters multiply the scale of a BatchNormalization into the weight of the layer before it. The numbers stay the same, but what
training would normalise is gone. One that begins as the identity, by the statistics of sample data, brings it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import all_operators_of, substitute
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.passes.modes import ADDED, is_added
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError, NotInitialized, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data import open_data
from onnxgrad.training.data.feed import checked_batch
from onnxgrad.training.data.rows import Data
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.surgery.heads import insert_after
from onnxgrad.training.surgery.lora_targets import KEY as LORA

__all__ = [
    "MODES",
    "fold_added_batch_norm",
    "fold_batch_norm",
    "has_statistics",
    "insert_batch_norm",
    "leave_training_mode",
    "prepare_batch_norm",
]

Array = np.ndarray[Any, Any]
_LAYERS = ("Conv", "ConvTranspose", "Gemm")
_KIND = "batch_norm"


# Choosing what training does with it -----------------------------------------------------------------------------------

MODES = ("frozen", "train", "insert")


def prepare_batch_norm(
    program: Program, mode: Literal["frozen", "train", "insert"] | None, sample: Data | None
) -> tuple[Literal["train", "frozen"], list[str]]:
    """Choose how BatchNormalization is trained, and insert it if that is asked for.

    Args:
        program: a loaded program without a backward pass.
        mode: one of ``MODES``; None to choose "frozen" for a program that holds statistics of the data it was trained on, and
            "train" where all means are 0 and all variances 1.
        sample: for "insert", inputs that the statistics are computed from.

    Returns:
        What to tell ``program.train``, and what to say of it.

    Raises:
        ArgumentError: if there is no such mode, or the sample is missing.
    """
    if mode is not None and mode not in MODES:
        raise ArgumentError(f"batch_norm is one of {', '.join(map(repr, MODES))}, not {mode!r}.")
    was_training = leave_training_mode(program)
    if mode == "insert":
        if sample is None:
            raise ArgumentError("batch_norm='insert' computes statistics. Give sample=..., inputs of the model as for predict.")
        insert_batch_norm(program, None, sample)
        mode = "train"
    norms = _norms(program)
    own = [op for op in norms if not is_added(op)]
    notes = [f"BatchNormalization that was inserted ({len(norms) - len(own)} operators) normalises by batch."] * (
        len(own) < len(norms)
    )
    if not own:
        return mode or "train", notes
    stored = has_statistics(program)
    chosen = mode or ("frozen" if stored and not was_training else "train")
    if chosen == "frozen":
        text = "normalises by the statistics of the file (batch_norm 'frozen'); 'train' normalises by batch and updates them."
    else:
        why = ", as the file says, which was exported in training mode" if was_training and mode is None else ""
        why = why if stored or why else ", since the file has none of its own"
        text = f"normalises by batch and updates the statistics{why} (batch_norm 'train'); 'frozen' keeps the file's statistics."
    return chosen, [f"BatchNormalization ({len(own)} operators) {text}", *notes]


def leave_training_mode(program: Program) -> bool:
    """Let operators of a file that was exported in training mode do what they do in inference; ``Program.train`` trains them.

    ``torch.onnx.export(training=TRAINING)`` writes such files. As they stand, an answer depends on the other examples of its batch.

    Returns:
        Whether BatchNormalization was among them.
    """
    read = {v for op in all_operators_of(program.global_block()) for v in op.operands()} | set(program.outputs)
    changed = False
    for op in all_operators_of(program.global_block()):
        if op.domain or op.replaces is not None or program.imported is None:
            continue
        if op.type == "Dropout" and len(op.inputs) > 2:
            op.inputs = op.inputs[:2]
        elif op.type == "BatchNormalization" and (op.attrs.get("training_mode") or len(op.outputs) > 1):
            statistics = {v for v in op.outputs[1:] if v is not None}
            if not statistics & read:
                op.attrs.pop("training_mode", None)
                op.outputs = op.outputs[:1]
                op.block.vars = {name: v for name, v in op.block.vars.items() if v not in statistics}
                changed = True
    return changed


def has_statistics(program: Program) -> bool:
    """Whether some BatchNormalization of the program's own has means other than 0, variances other than 1, or computes them."""
    return any(_differs(op.inputs[3], 0.0) or _differs(op.inputs[4], 1.0) for op in _norms(program) if not is_added(op))


def _norms(program: Program) -> list[Operator]:
    """The BatchNormalization operators of the main graph"""
    ops = program.global_block().ops
    return [op for op in ops if op.type == "BatchNormalization" and not op.domain and op.replaces is None]


def _differs(v: Variable | None, start: float) -> bool:
    try:
        return v is not None and (not v.is_leaf or bool((np.asarray(v.get_value()) != start).any()))
    except NotInitialized:
        return False


# Putting it back -----------------------------------------------------------------------------------------------------


@checked
@all_or_nothing
def insert_batch_norm(
    program: Program,
    after: str | Iterable[str] | None = None,
    data: Data | None = None,
    *,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    batch_size: int = 32,
) -> list[str]:
    """Put BatchNormalization behind layers, beginning as the identity. Exports for inference fold it into the layer again.

    Its statistics are those of ``data`` at that point, its scale and bias undo them. So inference gives what it gave before, and
    training normalises by batch around the same values.

    Args:
        program: a loaded program without a backward pass; it is changed.
        after: names of Conv, ConvTranspose or Gemm operators, or of tensors that these compute; None for all Conv and
            ConvTranspose of the main graph whose result is no output.
        data: inputs of the model, as for ``Trainer.predict``, that the statistics are computed from. None for mean 0 and
            variance 1: right only if the state is loaded afterwards.
        momentum, epsilon: of the new operators.
        batch_size: for data given as arrays.

    Returns:
        Names of the tensors behind which there is a BatchNormalization now. For the tensor ``t`` its weights are called
        ``t.norm.scale`` and ``t.norm.shift``, its statistics ``t.norm.mean`` and ``t.norm.var``.

    Raises:
        UnknownName: if there is no such operator or tensor.
        ArgumentError: if a tensor is not computed by such a layer, is an output, is normalised already, or its number of channels
            is unknown.
        DataError: if the data does not fit the model.
    """
    points = _points(program, [after] if isinstance(after, str) else after)
    statistics = {} if data is None else _statistics(program, points, data, batch_size)
    for v in points:
        channels = _channels(v)
        mean, var = statistics.get(v.name, (np.zeros(channels), np.ones(channels)))
        _normalise(v, mean, var, momentum, epsilon)
    return [v.name for v in points]


def _points(program: Program, after: Iterable[str] | None) -> list[Variable]:
    block = program.global_block()
    outputs = set(block.outputs)
    producers = {v.name: op for op in block.ops for v in op.outputs[:1] if v is not None and op.replaces is None}
    if after is None:
        points = [v for v in _convolved(block.ops) if v not in outputs]
    else:
        by_operator = {op.name: name for name, op in producers.items() if op.name}
        names = [by_operator.get(name, name) for name in after]
        unknown = [name for name in names if name not in producers]
        if unknown:
            known = ", ".join([name for name, op in producers.items() if op.type in _LAYERS][:6]) or "none"
            raise UnknownName(f"no operator of the main graph computes {unknown[0]!r}. Layers compute: {known}.")
        points = [block.vars[name] for name in names]
    readers = {v: op for op in block.ops for v in op.inputs[:1] if op.type == "BatchNormalization"}
    for v in points:
        op = v.op
        if op is None or _layer_of(op) is None:
            raise ArgumentError(f"insert_batch_norm: {v.name!r} is not the result of a Conv, ConvTranspose or Gemm. Name one.")
        if v in outputs:
            raise ArgumentError(f"insert_batch_norm: {v.name!r} is an output of the program. Name a tensor before it.")
        if v in readers and after is not None:
            raise ArgumentError(f"insert_batch_norm: {readers[v]} follows {v.name!r} already. Leave it out.")
        _channels(v)
    points = [v for v in points if v not in readers]
    if not points:
        raise ArgumentError("insert_batch_norm: no Conv or ConvTranspose of the main graph is without BatchNormalization.")
    return points


def _convolved(ops: list[Operator]) -> list[Variable]:
    """Results of the Conv and ConvTranspose of a model, behind their LoRA branches"""
    total = {op.inputs[0]: op.outputs[0] for op in ops if op.type == "Add" and LORA in (op.metadata or {})}
    outputs = [op.outputs[0] for op in ops if op.type in _LAYERS[:2] and not op.domain and LORA not in (op.metadata or {})]
    return [v for v in (total.get(v, v) for v in outputs) if v is not None]


def _layer_of(op: Operator) -> Operator | None:
    """The layer that this operator is, or whose LoRA branch it adds"""
    if op.type == "Add" and LORA in (op.metadata or {}):
        return op.inputs[0].op if op.inputs[0] is not None else None
    return op if op.type in _LAYERS and not op.domain else None


def _channels(v: Variable) -> int:
    size = v.dims[1] if v.dims is not None and len(v.dims) > 1 else None
    if not isinstance(size, int):
        raise ArgumentError(f"insert_batch_norm: the number of channels of {v!r} must be known, in its second dimension.")
    return size


def _statistics(program: Program, points: Sequence[Variable], data: Data, batch_size: int) -> dict[str, tuple[Array, Array]]:
    """Mean and variance of each channel"""
    plain, executor = program.clone(for_test=True), Executor()
    count = {v.name: 0 for v in points}
    totals = {v.name: np.zeros((2, _channels(v))) for v in points}
    inputs = program.inputs
    for batch in open_data(data, DataSpec.of(inputs, program=plain)).plain().batches(batch_size, shuffle=False):
        for name, value in zip(count, executor.run(plain, checked_batch(batch, inputs), list(count)), strict=True):
            rows = np.moveaxis(value.astype(np.float64), 1, 0).reshape(value.shape[1], -1)
            count[name] += rows.shape[1]
            totals[name] += rows.sum(axis=1), np.square(rows).sum(axis=1)
    empty = [name for name, seen in count.items() if not seen]
    if empty:
        raise ArgumentError(f"insert_batch_norm: the data gives {empty[0]!r} no values. Give more examples.")
    means = {name: total / count[name] for name, total in totals.items()}
    return {name: (mean, np.maximum(square - mean**2, 0.0)) for name, (mean, square) in means.items()}


def _normalise(v: Variable, mean: Array, var: Array, momentum: float, epsilon: float) -> None:
    block, program, dtype = v.block, v.block.program, v.dtype
    assert v.op is not None

    def weight(label: str, value: Array) -> Parameter:
        name = program.fresh_name(f"{v.name}.norm.{label}")
        program.decisions[name] = "weight: added"
        return block.create_parameter(name, value.shape, dtype, value=TensorValue.of(value.astype(dtype.numpy)))

    state = [program.create_global_var(f"{v.name}.norm.{n}", a.astype(dtype.numpy)) for n, a in (("mean", mean), ("var", var))]
    operands = [v, weight("scale", np.sqrt(var + epsilon)), weight("shift", mean), *state]

    def write(build: Builder) -> Variable:
        attrs = {"epsilon": float(epsilon), "momentum": float(momentum)}
        return build.emit("BatchNormalization", operands, attrs, outputs=1)

    normal = insert_after(v.op, write, f"{v.name}/norm")
    assert normal.op is not None
    normal.op.metadata = {ADDED: _KIND}
    substitute([op for op in block.ops if op is not normal.op], {v: normal})


# Folding -------------------------------------------------------------------------------------------------------------


class _Fold(NamedTuple):
    """A BatchNormalization, the layer before it, and the layer's weight and bias."""

    norm: Operator
    layer: Operator
    weight: Parameter
    bias: Variable | None


def fold_batch_norm(program: Program) -> Program:
    """A copy of a program with BatchNormalization multiplied into the Conv, ConvTranspose or Gemm before it, for inference.

    Only where the weight is stored as numbers, and the layer's result goes nowhere else; other BatchNormalization stays.

    Args:
        program: for inference, changed in place.

    Returns:
        A program with a scope of its own, as ``clone(for_test=True)``; its results are the same within rounding.
    """
    folded = program.clone(for_test=True)
    folded.scope = program.active_scope().copy()
    _fold_all(folded, [op for op in folded.global_block().ops if op.type == "BatchNormalization" and not op.domain])
    return folded


def fold_added_batch_norm(program: Program) -> None:
    """Fold, in place, what ``insert_batch_norm`` put in."""
    _fold_all(program, [op for op in program.global_block().ops if (op.metadata or {}).get(ADDED) == _KIND])


def _fold_all(program: Program, norms: list[Operator]) -> None:
    block = program.global_block()
    reads = Counter(v for op in all_operators_of(block) for v in op.inputs if v is not None)
    reads.update(v for one in program.blocks for v in one.outputs)
    gone: set[Operator | Variable] = set()
    renamed: dict[Variable, Variable] = {}
    for norm in norms:
        fold = _foldable(norm, reads)
        if fold is not None:
            _fold(fold, reads)
            reads.subtract(v for v in norm.inputs if v is not None)
            unread = [v for v in [*norm.inputs[1:], fold.weight, fold.bias] if v is not None and reads[v] == 0]
            gone |= {norm, _join(fold, renamed), *unread}
    substitute(block.ops, renamed)
    block.ops = [op for op in block.ops if op not in gone]
    block.initializers = [v for v in block.initializers if v not in gone]
    block.value_infos = [v for v in block.value_infos if v not in gone]
    block.vars = {name: v for name, v in block.vars.items() if v not in gone}
    program.parameters = [p for p in program.parameters if p not in gone]
    program._constants = {key: v for key, v in program._constants.items() if v not in gone}
    program.version += 1


def _foldable(norm: Operator, reads: Counter[Variable]) -> _Fold | None:
    if norm.type != "BatchNormalization" or norm.domain or len(norm.inputs) != 5:
        return None  # a mark in a file may stand anywhere
    x = norm.inputs[0]
    layer = x.op if x is not None else None
    if x is None or layer is None or layer.type not in _LAYERS or layer.domain or reads[x] != 1:
        return None
    trains = norm.attrs.get("training_mode") or sum(v is not None for v in norm.outputs) > 1 or norm.attrs.get("spatial") == 0
    state = [_is_stored(v) for v in norm.inputs[1:5]]
    weight, bias = layer.inputs[1], layer.inputs[2] if len(layer.inputs) > 2 else None
    if trains or not all(state) or not isinstance(weight, Parameter) or not (bias is None or _is_stored(bias)):
        return None
    channels = _channels_of(layer, weight)
    if any(v is None or v.static_shape != (channels,) for v in norm.inputs[1:5]):
        return None
    if layer.type == "Gemm":
        rows = 1 if bias is None or bias.static_shape is None or len(bias.static_shape) < 2 else bias.static_shape[0]
        if not layer.attr("alpha") or not layer.attr("beta") or rows != 1:
            return None
    return _Fold(norm, layer, weight, bias)


def _channels_of(layer: Operator, weight: Parameter) -> int | None:
    """Output channels of a layer"""
    shape = weight.static_shape
    if shape is None or len(shape) < 2:
        return None
    if layer.type == "Gemm":
        return shape[0] if layer.attr("transB") else shape[1]
    return shape[0] if layer.type == "Conv" else shape[1] * int(layer.attr("group"))


def _is_stored(v: Variable | None) -> bool:
    return v is not None and v.is_leaf and v.static_shape is not None and not v.is_data


def _fold(fold: _Fold, reads: Counter[Variable]) -> None:
    """y = (W x + b - mean) f + shift with f = scale / sqrt(var + epsilon): the weight f W, the bias f (b - mean) + shift"""
    norm, layer = fold.norm, fold.layer
    scale, shift, mean, var = (np.asarray(v.get_value(), np.float64) for v in norm.inputs[1:5] if v is not None)
    factor = scale / np.sqrt(var + norm.attr("epsilon"))
    beta = layer.attr("beta") if layer.type == "Gemm" else 1.0
    before = 0.0 if fold.bias is None else np.asarray(fold.bias.get_value(), np.float64)
    bias = before * factor + (shift - mean * factor) / beta
    weight = np.asarray(fold.weight.get_value(), np.float64) * _spread(factor, layer, fold.weight)
    operands = [
        _store(fold, fold.weight, fold.weight.name, weight, reads),
        _store(fold, fold.bias, f"{fold.weight.name}.bias", bias, reads),
    ]
    layer.inputs = [layer.inputs[0], *operands]


def _join(fold: _Fold, renamed: dict[Variable, Variable]) -> Variable:
    """Let the layer give what the BatchNormalization gave; returns the variable that is no more."""
    x, y = fold.layer.outputs[0], fold.norm.outputs[0]
    assert x is not None and y is not None
    if (fold.norm.metadata or {}).get(ADDED) == _KIND and not any(y is v for v in y.block.outputs):
        renamed[y] = x
        return y
    fold.layer.outputs, y.op = [y], fold.layer
    return x


def _spread(factor: Array, layer: Operator, weight: Parameter) -> Array:
    """The factor of each output channel, shaped to multiply the weight"""
    shape = weight.static_shape
    assert shape is not None
    if layer.type == "Gemm":
        return factor[:, None] if layer.attr("transB") else factor
    if layer.type == "Conv":
        return factor.reshape(-1, *(1 for _ in shape[1:]))
    # Of ConvTranspose each group of input channels has its own output channels, in the second dimension.
    groups = layer.attr("group")
    rows = np.repeat(factor.reshape(groups, -1), shape[0] // groups, axis=0)
    return rows.reshape(*rows.shape, *(1 for _ in shape[2:]))


def _store(fold: _Fold, old: Variable | None, name: str, value: Array, reads: Counter[Variable]) -> Parameter:
    """The parameter with its new value; a new one if there was none, others read it, or its shape changes"""
    dtype = fold.weight.dtype
    stored = np.asarray(value, dtype.numpy)
    if isinstance(old, Parameter) and reads[old] == 1 and old.static_shape == stored.shape:
        old.set_value(stored)
        return old
    block = fold.layer.block
    if old is not None:
        reads[old] -= 1
    parameter = block.create_parameter(block.program.fresh_name(name), stored.shape, dtype, value=TensorValue.of(stored))
    reads[parameter] = 1
    return parameter
