"""LoRA: a low-rank branch beside a frozen layer, y = f(x, W) + (alpha / rank) B A x.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021; on quantised weights: Dettmers et al., "QLoRA", 2023.
A branch is found again by the metadata of its operators, also in a file that it was exported to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import Tensor
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ArgumentError, ModelError, UnknownName
from onnxgrad.training.lora_targets import KEY, Target, chosen_targets, matrix_of
from onnxgrad.training.surgery import insert_after, remove_unread_constants
from onnxgrad.training.tensor_file import read_tensors, write_tensors

__all__ = ["add_lora", "load_adapters", "merge_lora", "save_adapters"]

Array = np.ndarray[Any, Any]


@all_or_nothing
def add_lora(
    program: Program, layers: str | Sequence[str] = "*", *, rank: int = 8, alpha: float | None = None, seed: int = 0
) -> list[str]:
    """Add a low-rank branch to MatMul, Gemm, Conv and MatMulNBits layers and freeze all other weights.

    Args:
        program: a loaded program without a backward pass; it is changed.
        layers: names or patterns of the weights to adapt or of their operators, also of those in branches and loops; or what they
            are for: ``"attention"``, ``"mlp"``, or ``"all"`` but the layer that makes the output. Quantised ones count too, under
            the name of the integers that DequantizeLinear or MatMulNBits reads; they stay as they are. ``q_proj`` also names a
            packed ``qkv_proj``, with a warning, since the adapter is for all of it. A depthwise Conv is left alone.
        rank: of the branch.
        alpha: the branch is multiplied by alpha / rank; None for 2 * rank.
        seed: of A, sampled from a normal distribution; B starts at 0, so that nothing changes at first.

    Returns:
        Names of the new parameters, ``<weight>.lora_A`` and ``<weight>.lora_B``; they alone are trainable until they are merged.

    Raises:
        UnknownName: if a pattern fits no such layer.
        ArgumentError: if the rank is not positive.
    """
    if rank < 1:
        raise ArgumentError(f"the rank of LoRA is at least 1, not {rank}.")
    chosen = chosen_targets(program, layers)
    program.metadata.setdefault(KEY, "\n".join(p.name for p in program.parameters if p.stop_gradient))
    for p in program.parameters:
        p.trainable, p.stop_gradient = False, True
    scale = (2.0 * rank if alpha is None else float(alpha)) / rank
    rng = np.random.default_rng(seed)
    names: list[str] = []
    for target in chosen:
        names += _adapt(target, rank, scale, rng)
    return names


def _adapt(target: Target, rank: int, scale: float, rng: np.random.Generator) -> list[str]:
    op, block = target.op, target.op.block.program.global_block()
    shape = target.shape
    if op.type == "Conv":
        shapes = (op.attr("group") * rank, *shape[1:]), (shape[0], rank, *(1 for _ in shape[2:]))
    else:
        rows, columns = reversed(shape) if op.type == "Gemm" and op.attr("transB") else shape
        shapes = (rows, rank), (rank, columns)
    spread = 1.0 / np.sqrt(max(1, int(np.prod(shapes[0][1:] if op.type == "Conv" else shapes[0][:1]))))
    values = rng.normal(0, spread, shapes[0]), np.zeros(shapes[1])
    pair = []
    for label, value in zip("AB", values, strict=True):
        name = block.program.fresh_name(f"{target.name}.lora_{label}")
        stored = Tensor.of(value.astype(target.dtype.numpy))
        pair.append(block.create_parameter(name, value.shape, target.dtype, value=stored))
    _branch(target, pair[0], pair[1], scale)
    return [p.name for p in pair]


def _branch(target: Target, a: Parameter, b: Parameter, scale: float) -> None:
    """y = base + scale (x A) B, where y keeps its name and base is what the layer gave"""
    op = target.op
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None and y is not None
    block = op.block
    base = Variable(block, block.program.fresh_name(f"{y.name}/base"), y.type, op)
    block.register(base)
    op.outputs = [base]
    before = set(block.ops)

    def write(build: Builder) -> Variable:
        if op.type == "Conv":
            low = build.emit("Conv", [x, a], dict(op.attrs))
            up = build.Conv(low, b, group=op.attr("group"))
        else:
            rows = build.Transpose(x, perm=[1, 0]) if op.type == "Gemm" and op.attr("transA") else x
            up = build.MatMul(build.MatMul(rows, a), b)
        return build.Add(base, build.Mul(up, scale))

    total = insert_after(op, write, f"{target.name}.lora")
    added = total.op
    assert added is not None
    block.vars.pop(total.name)
    added.outputs, y.op = [y], added
    for other in block.ops:
        if other not in before:
            other.metadata = {KEY: target.name}


class _Branch(NamedTuple):
    """A branch in a program: the operator that adds it, the adapted layer, and its pieces."""

    add: Operator
    base: Operator
    a: Variable
    b: Variable
    scale: float


def _branches(program: Program) -> list[_Branch]:
    """Raises ModelError where a mark, which a file may hold, is on anything but a branch."""
    reads = _reads(program)
    found = []
    for add in all_operators_of(program.global_block()):
        if add.type == "Add" and not add.domain and KEY in (add.metadata or {}):
            branch = _branch_at(add, reads)
            if branch is None:
                raise ModelError(f"the LoRA branch at {add} is not as add_lora made it. Export it without merging.")
            found.append(branch)
    return found


def _reads(program: Program) -> Counter[Variable]:
    reads = Counter(v for op in all_operators_of(program.global_block()) for v in op.inputs if v is not None)
    reads.update(v for block in program.blocks for v in block.outputs)
    return reads


def _branch_at(add: Operator, reads: Counter[Variable]) -> _Branch | None:
    """The branch that an Add ends, if what it reads computes base + scale (x A) B and nothing else reads what lies between"""
    base, scaled = _operator_of(add.inputs[0]), _operator_of(add.inputs[1])
    while base is not None and base.type == "Add" and KEY in (base.metadata or {}):
        base = _operator_of(base.inputs[0])  # another branch of the same layer
    kind = None if base is None else _kind_of(base)
    if base is None or scaled is None or scaled.type != "Mul" or kind not in ("MatMul", "Conv"):
        return None
    up = _operator_of(scaled.inputs[0])
    low = _operator_of(up.inputs[0]) if up is not None and up.type == kind else None
    if up is None or low is None or low.type != kind or len(up.inputs) != 2 or len(low.inputs) != 2:
        return None
    between = [add.inputs[0], low.outputs[0], up.outputs[0], scaled.outputs[0]]
    marked = all(KEY in (op.metadata or {}) and not op.domain for op in (low, up, scaled))
    if not marked or any(v is None or reads[v] != 1 for v in between) or not _starts_beside(low, base):
        return None
    a, b, scale, weight = low.inputs[1], up.inputs[1], scaled.inputs[1], base.inputs[1]
    if not (isinstance(a, Parameter) and isinstance(b, Parameter)) or scale is None or scale.value is None or weight is None:
        return None
    if scale.value.size != 1 or not _fit(base, a, b, weight) or (kind == "Conv" and not _convolve_alike(base, low, up)):
        return None
    return _Branch(add, base, a, b, float(scale.get_value().reshape(())))


def _kind_of(base: Operator) -> str | None:
    """The operator that the branch of a layer consists of"""
    if base.domain:
        return "MatMul" if (base.domain, base.type) == ("com.microsoft", "MatMulNBits") else None
    return "MatMul" if base.type == "Gemm" else base.type


def _operator_of(v: Variable | None) -> Operator | None:
    return None if v is None or v.value is not None else v.op


def _starts_beside(low: Operator, base: Operator) -> bool:
    """Whether a branch reads the rows that its layer reads"""
    x, rows = base.inputs[0], low.inputs[0]
    if base.type != "Gemm" or not base.attr("transA"):
        return x is rows
    turn = _operator_of(rows)
    return turn is not None and turn.type == "Transpose" and turn.inputs[0] is x and list(turn.attr("perm") or (1, 0)) == [1, 0]


def _fit(base: Operator, a: Parameter, b: Parameter, weight: Variable) -> bool:
    """Whether A and B have the shapes that make a change of the weight"""
    left, right, whole = a.static_shape, b.static_shape, matrix_of(base)
    x = base.inputs[0] if base.type == "MatMulNBits" else weight
    if left is None or right is None or whole is None or x is None or not (a.dtype is b.dtype is x.dtype):
        return False
    if base.type == "Gemm" and not base.attr("alpha"):
        return False
    if base.type != "Conv":
        rows = base.type == "Gemm" and base.attr("transB")
        product = (left[0], right[-1]) if len(left) == len(right) == 2 and left[1] == right[0] else None
        return product == (whole[::-1] if rows else whole)
    groups = base.attr("group")
    rank = left[0] // groups if groups > 0 and len(left) == len(whole) > 1 else 0
    return (
        rank > 0 == whole[0] % groups and left == (groups * rank, *whole[1:]) and right == (whole[0], rank, *(1 for _ in whole[2:]))
    )


def _convolve_alike(base: Operator, low: Operator, up: Operator) -> bool:
    settings = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return all(low.attr(name) == base.attr(name) for name in settings) and up.attrs == {"group": base.attr("group")}


def merge_lora(program: Program) -> Program:
    """A copy of a program with the branches added to the weights they belong to. Those of quantised weights stay branches.

    Returns:
        A program with a scope of its own; for inference, as ``clone(for_test=True)``.

    Raises:
        ModelError: if the file marks as a branch what add_lora did not make.
    """
    merged = program.clone(for_test=True)
    merged.scope = program.active_scope().copy()
    block = merged.global_block()
    reads = _reads(merged)
    for branch in _branches(merged):
        stored = _trail(branch.base.inputs[1])
        if stored is None:
            continue
        weight, transposed = stored
        change = _change(branch)
        if _is_read_once(branch.base.inputs[1], reads):
            weight.set_value(np.asarray(weight.get_value() + (change.T if transposed else change), weight.dtype.numpy))
        else:
            value = weight.get_value().T if transposed else weight.get_value()
            branch.base.inputs = [*branch.base.inputs]
            branch.base.inputs[1] = _twin(weight, np.asarray(value + change, weight.dtype.numpy))
        _remove(branch)
    used = {v for op in block.ops for v in op.operands()}
    gone = {p for p in merged.parameters if ".lora_" in p.name and p not in used}
    merged.parameters = [p for p in merged.parameters if p not in gone]
    block.initializers = [v for v in block.initializers if v not in gone]
    block.vars = {name: v for name, v in block.vars.items() if v not in gone}
    remove_unread_constants(merged)
    if KEY in merged.metadata and not _branches(merged):
        _thaw(merged)
    return merged


def _thaw(program: Program) -> None:
    """Frozen are again those weights that were before there were branches"""
    frozen = program.metadata.pop(KEY).split("\n")
    for p in program.parameters:
        p.trainable, p.stop_gradient = p.name not in frozen, p.name in frozen


def _trail(weight: Variable | None) -> tuple[Variable, bool] | None:
    """The stored float weight and whether the layer reads it transposed; None where it cannot be changed"""
    transposed = False
    while weight is not None and weight.op is not None and weight.value is None:
        if weight.op.type == "Transpose" and weight.rank == 2:
            transposed ^= list(weight.op.attr("perm") or (1, 0)) == [1, 0]
        elif weight.op.type != "Identity":
            return None
        weight = weight.op.inputs[0]
    return (weight, transposed) if isinstance(weight, Parameter) else None


def _is_read_once(weight: Variable | None, reads: Counter[Variable]) -> bool:
    """Whether nothing but one layer reads a stored weight, or what lies between the two"""
    while weight is not None and reads[weight] == 1:
        if weight.op is None or weight.value is not None:
            return True
        weight = weight.op.inputs[0]
    return False


def _twin(weight: Variable, value: Array) -> Parameter:
    program = weight.block.program
    name = program.fresh_name(f"{weight.name}.merged")
    return program.global_block().create_parameter(name, value.shape, weight.dtype, value=Tensor.of(value))


def _change(branch: _Branch) -> Array:
    a, b = (np.asarray(v.get_value(), np.float64) for v in (branch.a, branch.b))
    if branch.base.type == "Conv":
        groups = branch.base.attr("group")
        low, up = a.reshape(groups, a.shape[0] // groups, -1), b.reshape(groups, b.shape[0] // groups, -1)
        product = (up @ low).reshape(b.shape[0], *a.shape[1:])
    else:
        product = a @ b
        if branch.base.type == "Gemm":
            product = (product.T if branch.base.attr("transB") else product) / branch.base.attr("alpha")
    scaled: Array = branch.scale * product
    return scaled


def _remove(branch: _Branch) -> None:
    block = branch.add.block
    y, base = branch.add.outputs[0], branch.base.outputs[0]
    assert y is not None and base is not None
    scaled = branch.add.inputs[1]
    gone, v = [branch.add], scaled
    while v is not None and v.op is not None and KEY in (v.op.metadata or {}):
        gone.append(v.op)
        block.vars.pop(v.name, None)
        v = v.op.inputs[0]
    block.ops = [op for op in block.ops if not any(op is other for other in gone)]
    block.vars.pop(base.name, None)
    branch.base.outputs, y.op = [y], branch.base


def _adapters(program: Program) -> dict[str, Parameter]:
    return {p.name: p for p in program.parameters if ".lora_" in p.name}


def save_adapters(program: Program, path: str | Path) -> None:
    """Write only the weights of the branches, to a safetensors file.

    Raises:
        ArgumentError: if the program has no branches.
        TrainingError: if the file cannot be written.
    """
    found = {name: np.asarray(p.get_value()) for name, p in _adapters(program).items()}
    if not found:
        raise ArgumentError("the program has no LoRA branches to save. Call add_lora first.")
    write_tensors(path, found)


def load_adapters(program: Program, path: str | Path) -> None:
    """Set the weights of the branches from a file that ``save_adapters`` wrote.

    Raises:
        ModelError: if the file cannot be read, or is damaged.
        UnknownName: if it belongs to other branches; nothing is changed then.
    """
    values, own = read_tensors(path).arrays, _adapters(program)
    for name in sorted(values.keys() | own.keys()):
        array, p = values.get(name), own.get(name)
        if array is None or p is None or tuple(array.shape) != p.static_shape or array.dtype != p.dtype.numpy:
            raise UnknownName(f"{str(path)!r} belongs to other adapters: {name!r} does not fit. Use the same layers and rank.")
    for name, p in own.items():
        p.set_value(values[name])
