"""LoRA: a low-rank branch beside a frozen layer, y = f(x, W) + (alpha / rank) B A x.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021; on quantised weights: Dettmers et al., "QLoRA", 2023.
A branch is recognised by the metadata of its operators, also in a file that it was exported to.

Tests: tests/training/surgery/test_heads.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.passes.modes import ADDED
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import ArgumentError, ModelError, OutOfMemory
from onnxgrad.internal.arguments import checked
from onnxgrad.training.quantized.packed_weights import Rounding, float_weight, is_packed, requantise
from onnxgrad.training.surgery.dora import (
    Magnitude,
    check_single,
    columns_last,
    gain_of,
    insert_magnitude,
    magnitude_after,
    multiply_columns,
    remove_magnitude,
)
from onnxgrad.training.surgery.experts import adapt_experts, expert_branches, merge_experts
from onnxgrad.training.surgery.heads import insert_after, remove_unread_constants
from onnxgrad.training.surgery.lora_targets import KEY, LoraTarget, chosen_targets, matrix_of

__all__ = ["Branch", "add_lora", "branches_of", "merge_lora"]

Array = np.ndarray[Any, Any]


@checked
@all_or_nothing
def add_lora(
    program: Program,
    layers: str | Sequence[str] = "*",
    *,
    rank: int = 8,
    alpha: float | None = None,
    seed: int = 0,
    dropout: float = 0.0,
    scaling: Literal["rank", "root"] = "rank",
    dora: bool = False,
) -> list[str]:
    """Add a low-rank branch to MatMul, Gemm, Conv and MatMulNBits layers and freeze all other weights.

    Args:
        program: a loaded program without a backward pass; it is changed.
        layers: names or patterns of the weights to adapt or of their operators, also of those in branches and loops; or what they
            are for: ``"attention"``, ``"mlp"``, or ``"all"`` but the layer that makes the output and experts, which
            ``"experts"`` names (all experts of a MoE or QMoE; they take no dropout). Quantised ones count too, under
            the name of the integers that DequantizeLinear or MatMulNBits reads; they stay as they are. ``q_proj`` also names a
            packed ``qkv_proj``, with a warning, since the adapter is for all of it. A depthwise Conv is left alone.
        rank: of the branch.
        alpha: the branch is multiplied by alpha / rank; None for a factor of 2.
        seed: of A, sampled from a normal distribution; B starts at 0, so that nothing changes at first.
        dropout: share of the branch's inputs that a training step sets to 0; exports leave the Dropout out.
        scaling: ``"root"`` divides alpha by the square root of the rank instead (rsLoRA: Kalajdzievski, "A Rank Stabilization
            Scaling Factor for Fine-Tuning with LoRA", 2023), so that branches of a high rank learn as fast as those of a low one.
        dora: whether each column of the adapted weight also gets a size that trains (DoRA: Liu et al., "DoRA: Weight-Decomposed
            Low-Rank Adaptation", 2024): y = x (W + s A B) m / |W + s A B|, the norms being constants in the gradient.

    Returns:
        Names of the new parameters, ``<weight>.lora_A`` and ``<weight>.lora_B``, and with ``dora`` ``<weight>.lora_magnitude``
        [columns]; they alone are trainable until they are merged.

    Raises:
        UnknownName: if a pattern fits no such layer.
        ArgumentError: if the rank is not positive, dropout does not lie in [0, 1), or there is no such scaling; with ``dora`` if a
            layer is a Conv, or has an adapter already.
    """
    if not 0 <= dropout < 1:
        raise ArgumentError(f"the dropout of LoRA lies in [0, 1), not {dropout}.")
    if scaling not in ("rank", "root"):
        raise ArgumentError(f"branches are scaled by 'rank' or its 'root', not {scaling!r}.")
    if rank < 1:
        raise ArgumentError(f"the rank of LoRA is at least 1, not {rank}.")
    chosen = chosen_targets(program, layers)
    for target in chosen:
        check_single(target, dora)
    program.metadata.setdefault(KEY, "\n".join(p.name for p in program.parameters if p.stop_gradient))
    for p in program.parameters:
        p.trainable, p.stop_gradient = False, True
    scale = 2.0 if alpha is None else float(alpha) / (rank if scaling == "rank" else rank**0.5)
    rng = np.random.default_rng(seed)
    names: list[str] = []
    for target in chosen:
        if target.is_of_experts:
            names += adapt_experts(target, rank, scale, rng)
            continue
        names += _adapt(target, rank, scale, rng, dropout, dora)
    return names


def _adapt(target: LoraTarget, rank: int, scale: float, rng: np.random.Generator, dropout: float, dora: bool) -> list[str]:
    op, block = target.op, target.op.block.program.global_block()
    shape = target.shape
    if op.type == "Conv":
        shapes = (op.attr("group") * rank, *shape[1:]), (shape[0], rank, *(1 for _ in shape[2:]))
    else:
        rows, columns = reversed(shape) if op.type == "Gemm" and op.attr("transB") else shape
        shapes = (rows, rank), (rank, columns)
    spread = 1.0 / np.sqrt(max(1, int(np.prod(shapes[0][1:] if op.type == "Conv" else shapes[0][:1]))))
    try:
        values = rng.normal(0, spread, shapes[0]), np.zeros(shapes[1])
    except MemoryError as error:
        raise OutOfMemory(f"{op}: no memory for adapters of rank {rank} beside {list(shape)}. Choose a smaller rank.") from error
    pair = []
    for label, value in zip("AB", values, strict=True):
        name = block.program.fresh_name(f"{target.name}.lora_{label}")
        stored = TensorValue.of(value.astype(target.dtype.numpy))
        pair.append(block.create_parameter(name, value.shape, target.dtype, value=stored))
    add = _branch(target, pair[0], pair[1], scale, dropout)
    if dora:
        pair.append(insert_magnitude(target, add, pair[0], pair[1], scale))
    return [p.name for p in pair]


def _branch(target: LoraTarget, a: Parameter, b: Parameter, scale: float, dropout: float) -> Operator:
    """y = base + scale (x A) B, where y keeps its name and base is what the layer gave"""
    op = target.op
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None and y is not None
    block = op.block
    base = Variable(block, block.program.fresh_name(f"{y.name}/base"), y.type, op)
    block.register(base)
    op.outputs = [base]
    before = set(block.ops)

    def dropped(build: Builder, rows: Variable) -> Variable:
        return build.Dropout(rows, ratio=np.float32(dropout)) if dropout else rows

    def write(build: Builder) -> Variable:
        if op.type == "Conv":
            low = build.emit("Conv", [dropped(build, x), a], dict(op.attrs))
            up = build.Conv(low, b, group=op.attr("group"))
        else:
            rows = build.Transpose(x, perm=[1, 0]) if op.type == "Gemm" and op.attr("transA") else x
            up = build.MatMul(build.MatMul(dropped(build, rows), a), b)
        return build.Add(base, build.Mul(up, scale))

    total = insert_after(op, write, f"{target.name}.lora")
    added = total.op
    assert added is not None
    block.vars.pop(total.name)
    added.outputs, y.op = [y], added
    for other in block.ops:
        if other not in before:
            other.metadata = {KEY: target.name, **({ADDED: "dropout"} if other.type == "Dropout" else {})}
    return added


class Branch(NamedTuple):
    """A branch in a program: the operator that adds it, the adapted layer, its pieces, and the sizes behind it, if it has some."""

    add: Operator
    base: Operator
    a: Variable
    b: Variable
    scale: float
    magnitude: Magnitude | None = None

    def drop_scale(self) -> None:
        """Take out the factor; the caller multiplies one of the weights by it"""
        scaled = _operator_of(self.add.inputs[1])
        assert scaled is not None and scaled.outputs[0] is not None
        self.add.inputs = [self.add.inputs[0], scaled.inputs[0]]
        self.add.block.ops = [op for op in self.add.block.ops if op is not scaled]
        self.add.block.vars.pop(scaled.outputs[0].name, None)


def branches_of(program: Program) -> list[Branch]:
    """Raises ModelError where a mark, which a file may hold, is on anything but a branch."""
    reads = _reads(program)
    branches = []
    for add in all_operators_of(program.global_block()):
        if add.type == "Add" and not add.domain and KEY in (add.metadata or {}):
            branch = _branch_at(add, reads)
            if branch is None:
                raise ModelError(f"the LoRA branch at {add} is not as add_lora made it. Export it without merging.")
            branches.append(branch)
    return branches


def _reads(program: Program) -> Counter[Variable]:
    reads = Counter(v for op in all_operators_of(program.global_block()) for v in op.inputs if v is not None)
    reads.update(v for block in program.blocks for v in block.outputs)
    return reads


def _branch_at(add: Operator, reads: Counter[Variable]) -> Branch | None:
    """The branch that an Add ends, if what it reads computes base + scale (x A) B and nothing else reads what lies between"""
    base, scaled = _operator_of(add.inputs[0]), _operator_of(add.inputs[1])
    while base is not None and base.type == "Add" and KEY in (base.metadata or {}):
        base = _operator_of(base.inputs[0])  # another branch of the same layer
    op_type = None if base is None else _op_type_of(base)
    if base is None or scaled is None or scaled.type != "Mul" or op_type not in ("MatMul", "Conv"):
        return None
    up = _operator_of(scaled.inputs[0])
    low = _operator_of(up.inputs[0]) if up is not None and up.type == op_type else None
    if up is None or low is None or low.type != op_type or len(up.inputs) != 2 or len(low.inputs) != 2:
        return None
    between = [add.inputs[0], low.outputs[0], up.outputs[0], scaled.outputs[0]]
    marked = all(KEY in (op.metadata or {}) and not op.domain for op in (low, up, scaled))
    if not marked or any(v is None or reads[v] != 1 for v in between) or not _starts_beside(low, base):
        return None
    a, b, scale, weight = low.inputs[1], up.inputs[1], scaled.inputs[1], base.inputs[1]
    if not (isinstance(a, Parameter) and isinstance(b, Parameter)) or scale is None or scale.value is None or weight is None:
        return None
    if scale.value.size != 1 or not _fit(base, a, b, weight) or (op_type == "Conv" and not _has_same_geometry(base, low, up)):
        return None
    magnitude = magnitude_after(add)
    return None if magnitude is False else Branch(add, base, a, b, float(scale.get_value().reshape(())), magnitude)


def _op_type_of(base: Operator) -> str | None:
    """The operator that the branch of a layer consists of"""
    if base.domain:
        return "MatMul" if (base.domain, base.type) == ("com.microsoft", "MatMulNBits") else None
    return "MatMul" if base.type == "Gemm" else base.type


def _operator_of(v: Variable | None) -> Operator | None:
    return None if v is None or v.value is not None else v.op


def _starts_beside(low: Operator, base: Operator) -> bool:
    """Whether a branch reads the rows that its layer reads"""
    x, rows = base.inputs[0], low.inputs[0]
    dropout = _operator_of(rows)
    if dropout is not None and dropout.type == "Dropout" and KEY in (dropout.metadata or {}):
        rows = dropout.inputs[0]
    if base.type != "Gemm" or not base.attr("transA"):
        return x is rows
    transpose = _operator_of(rows)
    return (
        transpose is not None
        and transpose.type == "Transpose"
        and transpose.inputs[0] is x
        and list(transpose.attr("perm") or (1, 0)) == [1, 0]
    )


def _fit(base: Operator, a: Parameter, b: Parameter, weight: Variable) -> bool:
    """Return whether the product of A and B has the shape of the weight"""
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


def _has_same_geometry(base: Operator, low: Operator, up: Operator) -> bool:
    settings = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    return all(low.attr(name) == base.attr(name) for name in settings) and up.attrs == {"group": base.attr("group")}


@checked
def merge_lora(
    program: Program,
    quantised: Literal["branch", "float", "again"] = "branch",
    said: list[str] | None = None,
    scope: Scope | None = None,
) -> Program:
    """A copy of a program with the branches added to the weights they belong to.

    Args:
        program: with branches.
        quantised: what becomes of the branches of quantised weights: ``"branch"`` keeps them beside the layer; ``"float"`` makes
            the weight a float one, larger and slower; ``"again"`` adds them and rounds the sum to small integers as before
            (MatMulNBits only), of which the error is often larger than what was learnt.
        said: takes lines on the error of rounding.
        scope: where the weights are; None for the program's own.

    Returns:
        A program with a scope of its own; for inference, as ``clone(for_test=True)``. Its sums are computed when they are read, so
        that a file of any size is written with one of them in memory at a time.

    Raises:
        ArgumentError: if there is no such choice.
        ModelError: if the file marks as a branch what add_lora did not make, or a weight cannot be rounded again.
    """
    if quantised not in ("branch", "float", "again"):
        raise ArgumentError(f"quantised weights are merged as 'branch', 'float' or 'again', not {quantised!r}.")
    merged = program.clone(for_test=True)
    merged.scope = (scope or program.active_scope()).copy()
    block = merged.global_block()
    if quantised == "again" and any(b.weight.op is not None and b.weight.value is None for b in expert_branches(merged)):
        raise ModelError("weights of experts are not rounded again. Merge them into float weights, or keep their branches.")
    merge_experts(merged, quantised == "float")
    branches = branches_of(merged)
    for branch in branches:
        if branch.magnitude is not None:
            remove_magnitude(branch.add, branch.magnitude)
    reads = _reads(merged)
    rounded: list[Rounding] = []
    for branch in branches:
        stored = None if is_packed(branch.base) else _trail(branch.base.inputs[1])
        if stored is None:
            if quantised == "branch":
                _store_gain(branch)
            else:
                bias, roundings = _merge_quantised(branch, quantised == "again")
                rounded += roundings
                _remove(branch)
                _add_bias(branch.base, bias)
            continue
        weight, transposed = stored
        is_own = _is_read_once(branch.base.inputs[1], reads)
        value = _sum_later(branch, weight, transposed, is_turned=transposed and not is_own, scope=merged.scope)
        if is_own:
            weight.value = value
            if weight.name in merged.scope.values:
                del merged.scope.values[weight.name]
        else:
            branch.base.inputs = [*branch.base.inputs]
            branch.base.inputs[1] = _merged_parameter(weight, value)
        _remove(branch)
    before = {v for op in program.global_block().ops for v in op.operands()}
    used = {v for one in merged.blocks for op in one.ops for v in op.operands()}
    gone = {v for v in block.initializers if v not in used and program.global_block().vars.get(v.name) in before}
    merged.parameters = [p for p in merged.parameters if p not in gone]
    block.initializers = [v for v in block.initializers if v not in gone]
    block.vars = {name: v for name, v in block.vars.items() if v not in gone}
    remove_unread_constants(merged)
    if said is not None and rounded:
        said.append(_rounding_note(rounded))
    if KEY in merged.metadata and not branches_of(merged) and not expert_branches(merged):
        _thaw(merged)
    return merged


def _merge_quantised(branch: Branch, again: bool) -> tuple[Variable | None, list[Rounding]]:
    """Add a branch to the quantised weight of its layer; a bias that the layer has lost, and what it cost to round the sum"""
    base, block = branch.base, branch.base.block
    packed, x = is_packed(base), base.inputs[0]
    weight = base.inputs[1]
    assert weight is not None and x is not None
    before = float_weight(base)
    value = _changed(branch, before)
    if again:
        if not packed:
            raise ModelError(f"{base}: only weights of MatMulNBits are rounded again. Merge into float weights, or keep branches.")
        return None, [requantise(base, value, weight.name, value - before)]
    dtype = x.dtype
    name = block.program.fresh_name(f"{weight.name}.merged")
    if packed:
        layer = base.blank_copy(base.block, [*base.inputs])
        layer.attrs, scope = dict(base.attrs), block.program.active_scope()
        stored = TensorValue.computed(
            dtype, value.shape, lambda: _changed(branch._replace(base=layer), float_weight(layer), scope).astype(dtype.numpy)
        )
    else:
        stored = TensorValue.of(value.astype(dtype.numpy))
    bias = base.inputs[5] if packed and len(base.inputs) > 5 else None
    merged = block.program.global_block().create_parameter(name, value.shape, dtype, value=stored)
    base.inputs = [x, merged] if packed else [x, merged, *base.inputs[2:]]
    if packed:
        base.type, base.domain, base.attrs, base.attr_info = "MatMul", "", {}, None
    _drop_unread(weight)
    return bias, []


def _drop_unread(v: Variable | None) -> None:
    """Remove the operators that produced a weight, unless something else reads their outputs"""
    while v is not None and v.op is not None and v.value is None and not _reads(v.block.program)[v]:
        op = v.op
        op.block.ops = [other for other in op.block.ops if other is not op]
        op.block.vars.pop(v.name, None)
        v = op.inputs[0]


def _add_bias(base: Operator, bias: Variable | None) -> None:
    """y = product + bias, where y keeps its name"""
    y = base.outputs[0]
    if bias is None or y is None:
        return
    product = Variable(base.block, base.block.program.fresh_name(f"{y.name}/product"), y.type, base)
    base.block.register(product)
    base.outputs = [product]
    total = insert_after(base, lambda build: build.Add(product, bias), f"{y.name}/bias")
    assert total.op is not None
    base.block.vars.pop(total.name)
    total.op.outputs, y.op = [y], total.op


def _rounding_note(rounded: Sequence[Rounding]) -> str:
    error, weight, change = (sum(getattr(one, name) for one in rounded) for name in ("error", "weight", "change"))
    worst = max(rounded, key=lambda one: one.error / max(one.weight, 1e-300))
    average, largest = (np.sqrt(part) for part in (error / max(weight, 1e-300), worst.error / max(worst.weight, 1e-300)))
    ratio = np.sqrt(error / change) if change else np.inf
    many = f"{len(rounded)} weights are rounded" if len(rounded) > 1 else "1 weight is rounded"
    return (
        f"{many} to {worst.bits} bits again, with a relative error of {average:.3g} (at most {largest:.3g}, in {worst.name}): "
        f"{ratio:.3g} times the norm of the trained change."
    )


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
    """Return whether only one layer reads a stored weight and the tensors between the two"""
    while weight is not None and reads[weight] == 1:
        if weight.op is None or weight.value is not None:
            return True
        weight = weight.op.inputs[0]
    return False


def _merged_parameter(weight: Variable, value: TensorValue) -> Parameter:
    program = weight.block.program
    name = program.fresh_name(f"{weight.name}.merged")
    return program.global_block().create_parameter(name, value.shape, weight.dtype, value=value)


def _sum_later(branch: Branch, weight: Variable, transposed: bool, is_turned: bool, scope: Scope) -> TensorValue:
    """The sum of a weight and a branch, computed at each look, from the values that both have now.

    Args:
        transposed: whether the layer reads the weight transposed.
        is_turned: whether the sum is to lie as the layer reads it.
        scope: where the values are.
    """
    before, stored, shape = Scope(), scope.present(weight.name), weight.static_shape
    assert shape is not None
    if stored is None and weight.value is None:
        weight.get_value(scope)  # which says that there is none
    if stored is not None:
        before.put(weight.name, stored)
    first = weight.value

    def compute() -> Array:
        value = before.get(weight.name)
        if value is None and first is not None:
            value = first.numpy()
        assert value is not None
        total: Array = _changed(branch, value.T if transposed else value, scope).astype(weight.dtype.numpy)
        return total if is_turned or not transposed else total.T

    return TensorValue.computed(weight.dtype, shape[::-1] if is_turned else shape, compute)


def _changed(branch: Branch, weight: Array, scope: Scope | None = None) -> Array:
    """The weight of a layer, as the layer reads it, with a branch in it"""
    change = _change(branch, scope)
    whole: Array = np.add(weight, change, out=change)
    if branch.magnitude is not None:
        gain = gain_of(branch.base, branch.magnitude.sizes.get_value(scope), whole)
        columns_last(branch.base, whole)[...] *= gain
    return whole


def _store_gain(branch: Branch) -> None:
    """Multiply the columns of a quantised layer by numbers that are stored, where training computed them"""
    if branch.magnitude is None:
        return
    y = branch.add.outputs[0]
    assert y is not None
    whole = float_weight(branch.base) + _change(branch)
    gain = gain_of(branch.base, branch.magnitude.sizes.get_value(), whole).astype(y.dtype.numpy)
    block = branch.base.block.program.global_block()
    name = block.program.fresh_name(f"{branch.magnitude.sizes.name}.merged")
    stored = block.create_parameter(name, gain.shape, y.dtype, value=TensorValue.of(gain))
    multiply_columns(branch.base, branch.add, name, lambda build: stored)


def _change(branch: Branch, scope: Scope | None = None) -> Array:
    a, b = (np.asarray(v.get_value(scope), np.float64) for v in (branch.a, branch.b))
    if branch.base.type == "Conv":
        groups = branch.base.attr("group")
        low, up = a.reshape(groups, a.shape[0] // groups, -1), b.reshape(groups, b.shape[0] // groups, -1)
        product = (up @ low).reshape(b.shape[0], *a.shape[1:])
    else:
        product = a @ b
        if branch.base.type == "Gemm":
            product = product.T if branch.base.attr("transB") else product
            product /= branch.base.attr("alpha")
    product *= branch.scale
    return np.asarray(product)


def _remove(branch: Branch) -> None:
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
