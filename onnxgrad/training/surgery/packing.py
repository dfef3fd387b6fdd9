"""Keep texts that share a row apart: each token sees those of its own text alone, and counts its position from the text's first.

On a prompt, GroupQueryAttention reads one position and counts on from it. So its rotation of q and k is written before it, by
positions that begin anew with each text: angles in tables are rounded, and a text elsewhere in a row would give another loss.

Tests: tests/training/test_packing.py.
"""

from __future__ import annotations

from onnxgrad.core.graph_passes.contrib_kernels import K_NORM, Q_NORM, normalised_heads, norms_of
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.modes import ADDED
from onnxgrad.core.rules.contrib.attention import per_head, rotated
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.errors import ModelError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.derived_inputs import SEGMENTS, TOKENS
from onnxgrad.training.surgery.heads import remove_unread_constants

__all__ = ["mask_packed_texts", "unmask_packed_texts"]

_PACKING = "packing"
_OPERANDS = "onnxgrad.packing"
"""Marks an attention whose q and k are rotated before it, with the names of what it read."""
_BIAS = 10
"""The operand of GroupQueryAttention that is added to its scores."""
_HIDDEN = -1e4
"""What is added to a score that must not count: its share is 0 in every type of float."""
_MIXING = (
    *("Attention", "MultiHeadAttention", "PackedMultiHeadAttention", "DecoderMaskedMultiHeadAttention", "FlexAttention", "Conv"),
    *("CausalConvWithState", "LinearAttention", "LSTM", "GRU", "RNN", "Scan", "Loop", "CumSum"),
)
"""Operators by which tokens of a row may reach each other, besides GroupQueryAttention."""


@checked
@all_or_nothing
def mask_packed_texts(program: Program) -> None:
    """Give a language model an input that says which text each token belongs to, and keep its attention within the texts.

    The input is ``packed_text_ids``, int64 [batch, steps]; it follows from the tokens, as one text, where data does not have it.
    ``Text(..., pack=True)`` has it, and positions that begin anew with each text. Exports for inference leave it out again.

    Args:
        program: a loaded program without a backward pass, whose attention is GroupQueryAttention; it is changed.

    Raises:
        ModelError: if tokens of a row reach each other by another operator, or the attention has a bias of its own.

    Example:
        >>> program = onnxgrad.from_onnx("model.onnx")  # doctest: +SKIP
        >>> mask_packed_texts(program)  # doctest: +SKIP
        >>> Trainer(program, loss="causal_lm").fit(Text("chat.jsonl", "tokenizer.json", pack=True))  # doctest: +SKIP
    """
    block = program.global_block()
    tokens = next((v for v in program.inputs if v.name == TOKENS), None)
    attentions = [op for op in block.ops if op.type == "GroupQueryAttention"]
    other = next((op for op in all_operators_of(block) if op.type in _MIXING), None)
    advice = "Train without packing (leave --pack out)."
    if other is not None:
        raise ModelError(f"{other}: tokens of a packed row would reach the texts before theirs by it. {advice}")
    if tokens is None or not attentions:
        lacking = f"input {TOKENS!r}" if tokens is None else "GroupQueryAttention"
        raise ModelError(f"the model has no {lacking}, so that texts packed into a row would not be kept apart. {advice}")
    biased = next((op for op in attentions if len(op.inputs) > _BIAS and op.inputs[_BIAS] is not None), None)
    if biased is not None:
        raise ModelError(f"{biased} has an attention_bias already, beside which texts are not kept apart. {advice}")
    texts = block.add_input(SEGMENTS, TensorType(dtype_of("int64"), tokens.dims))
    operators, block.ops = block.ops, []
    try:
        biases, positions = _biases(program, texts, attentions)
    finally:
        added, block.ops = block.ops, [*block.ops, *operators]
    for op in attentions:
        if op.attr("do_rotary"):
            added += _rotate_before(op, positions)
    for op in added:
        op.metadata = {ADDED: _PACKING}
    for op in attentions:
        query = op.inputs[0]
        assert query is not None
        op.inputs = [*op.inputs[:_BIAS], *[None] * (_BIAS - len(op.inputs)), biases[query.dtype], *op.inputs[_BIAS + 1 :]]
    program.version += 1


def _biases(program: Program, texts: Variable, attentions: list[Operator]) -> tuple[dict[DType, Variable], Variable]:
    """0 where two tokens belong to one text, [batch, 1, steps, steps], in each type of float that an attention computes in; and
    the position of each token in its text"""
    build = Builder(program.global_block(), key=_PACKING)
    same = build.Equal(build.Unsqueeze(texts, [1, 3]), build.Unsqueeze(texts, [1, 2]))
    steps = build.Range(0, build.Squeeze(build.Shape(texts, start=1, end=2), [0]), 1)
    earlier = build.And(build.Squeeze(same, [1]), build.Less(steps, build.Unsqueeze(steps, [1])))
    # Padding, -1, stays at position 0: there may be more of it than the model has positions.
    counted = build.And(earlier, build.Unsqueeze(build.GreaterOrEqual(texts, 0), [2]))
    positions = build.ReduceSum(build.Cast(counted, to=dtype_of("int64").number), [2], keepdims=0)
    types = dict.fromkeys(op.inputs[0].dtype for op in attentions if op.inputs[0] is not None)
    hidden = {dtype: build.Where(same, build.constant(0, dtype), build.constant(_HIDDEN, dtype)) for dtype in types}
    return hidden, positions


def _rotate_before(op: Operator, positions: Variable) -> list[Operator]:
    """Let operators before an attention rotate q and k, behind the normalisation that it does first; returns what was added"""
    block, heads, kv_heads = op.block, op.attr("num_heads"), op.attr("kv_num_heads")
    query, key, value, cosines, sines = (op.inputs[i] for i in (0, 1, 2, 7, 8))
    width = None if query is None or query.dims is None else query.dims[-1]
    if query is None or cosines is None or sines is None or not isinstance(width, int) or cosines.dims is None:
        raise ModelError(f"{op}: the width of its heads or of its table of angles is not known. Train without packing.")
    size = width // (heads if key is not None else heads + 2 * kv_heads)
    part = 0 if cosines.dims[1] == size // 2 else 2 * int(cosines.dims[1] or 0)
    at = op.idx
    tail, block.ops = block.ops[at:], block.ops[:at]
    try:
        build = Builder(block, key=f"{op.name}/{_PACKING}")
        parts: tuple[Variable, ...] = (query, key, value) if key is not None and value is not None else ()
        if not parts:
            parts = build.Split(query, [heads * size, kv_heads * size, kv_heads * size], axis=2, outputs=3)
        norms = norms_of(op)
        parts = (
            *(
                x if weight is None else normalised_heads(build, x, weight, count, epsilon)
                for x, count, (weight, epsilon) in zip(parts, (heads, kv_heads), norms, strict=False)
            ),
            parts[2],
        )
        cosine, sine = (build.Unsqueeze(build.Gather(table, positions), [1]) for table in (cosines, sines))
        interleaved = bool(op.attr("rotary_interleaved"))
        turned = [
            build.Reshape(
                build.Transpose(rotated(build, per_head(build, x, count), cosine, sine, interleaved, part), perm=[0, 2, 1, 3]),
                [0, 0, -1],
            )
            for x, count in ((parts[0], heads), (parts[1], kv_heads))
        ]
    finally:
        added, block.ops = block.ops[at:], [*block.ops, *tail]
    names = "\n".join("" if v is None else v.name for v in op.inputs)
    op.metadata = {**(op.metadata or {}), _OPERANDS: names}
    rest = [None if index in (Q_NORM, K_NORM) else v for index, v in enumerate(op.inputs)]
    op.inputs = [*turned, parts[2], *rest[3:7], None, None, *rest[9:]]  # a row may be longer than the table
    op.attrs = {**op.attrs, "do_rotary": 0}
    return added


def _rotate_within(op: Operator) -> None:
    """Take back what ``_rotate_before`` did"""
    metadata = dict(op.metadata or {})
    names = metadata.pop(_OPERANDS, None)
    if names is None:
        return
    operands = [op.block.vars.get(name) if name else None for name in names.split("\n")]
    if len(operands) < 9 or operands[0] is None:
        raise ModelError(f"{op} is marked as changed for packed texts, which is not so. Remove the mark.")
    op.metadata = metadata or None
    op.inputs = operands
    op.attrs = {**op.attrs, "do_rotary": 1}


def unmask_packed_texts(program: Program) -> None:
    """Take out what ``mask_packed_texts`` put in.

    Args:
        program: that is changed.

    Raises:
        ModelError: if the file marks something else as such.
    """
    block = program.global_block()
    added = [op for op in block.ops if (op.metadata or {}).get(ADDED) == _PACKING]
    results = {v for op in added for v in op.outputs if v is not None}
    for op in block.ops:
        if op.type == "GroupQueryAttention" and len(op.inputs) > _BIAS and op.inputs[_BIAS] in results:
            op.inputs = [*op.inputs[:_BIAS], None, *op.inputs[_BIAS + 1 :]]
            _rotate_within(op)
    if not added:
        return
    read = {v for op in block.ops if op not in added for v in op.operands()} | set(block.outputs)
    if results & read:
        raise ModelError(f"{added[0]} is marked as added for packed texts, which is not so. Remove the mark.")
    block.ops = [op for op in block.ops if op not in added]
    for v in [*results, *(v for v in block.inputs if v.name == SEGMENTS)]:
        block.vars.pop(v.name, None)
    block.inputs = [v for v in block.inputs if v.name != SEGMENTS]
    remove_unread_constants(program)
