"""Scores of words and their labels: which word follows, and a refusal of outputs that score none, as of a file without a head.

Tests: tests/training/test_parts_of_files.py.
"""

from __future__ import annotations

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError

__all__ = ["check_word_scores", "following_words", "other_part"]

_FEATURES = {"image_features": "pictures", "audio_features": "sounds", "audio_embeds": "sounds"}


def other_part(program: Program) -> str | None:
    """Say which part of a model in several files a program is, where it is not the one that scores words; None where it may be.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 8, 8] pixel_values) => (float[M, D] image_features)'
        >>> other_part(onnxgrad.from_onnx(parser.parse_model(text + " { image_features = Flatten(pixel_values) }")))
        'the part of a model in several files that makes image_features of pictures'
    """
    outputs = {v.name for v in program.outputs}
    if "inputs_embeds" in outputs:
        return "the part of a model in several files that embeds tokens, and puts features of pictures or sounds among them"
    named = next((name for name in _FEATURES if name in outputs), None)
    return None if named is None else f"the part of a model in several files that makes {named} of {_FEATURES[named]}"


def check_word_scores(y: Variable) -> None:
    """Check that an output can hold a score for each word at each position.

    Raises:
        ArgumentError: saying what the file is: one whose head is left out, or that scores the word behind the last one alone.
    """
    program = y.block.program
    other = other_part(program)
    if other is not None:
        raise ArgumentError(
            f"{y.name!r} is not logits over the vocabulary: this file is {other}. Train the part with logits, which "
            "takes inputs_embeds that this "
            "one gives (or its table of embeddings), or this one by another loss."
        )
    tokens = next((v for v in program.inputs if v.name == "input_ids"), None)
    if y.dims is None or len(y.dims) != 3:
        return
    steps = None if tokens is None or not tokens.dims or len(tokens.dims) != 2 else tokens.dims[1]
    if y.dims[1] == 1 and steps != 1:
        raise ArgumentError(
            f"{y.name!r} has logits of the next token alone, [batch, 1, vocabulary]: the head is cut for generation "
            "(prune_lm_head). Build the file with prune_lm_head=false to train it, and cut it again afterwards."
        )
    size = y.dims[2]
    words = _words(program.global_block(), tokens)
    if isinstance(size, int) and words is not None and words[1] == size != words[0]:
        raise ArgumentError(
            f"{y.name!r} has {size} features for each token, not logits over the {words[0]} tokens of the vocabulary: the head "
            "is left out (exclude_lm_head). Build the file with its head, or name the output that holds scores."
        )


def _words(block: object, tokens: Variable | None) -> tuple[int, int] | None:
    """How many words a table has that the tokens index, and the size of its rows"""
    for op in all_operators_of(block):  # type: ignore[arg-type]
        if op.type == "Gather" and len(op.inputs) > 1 and op.inputs[1] is tokens and tokens is not None:
            table = op.inputs[0]
            dims = None if table is None or not table.is_float else table.static_shape
            if dims is not None and len(dims) == 2:
                return dims[0], dims[1]
    return None


def following_words(op: Builder, label: Variable) -> Variable:
    """The token behind each position, and -100 behind the last one: integers [batch, steps], of labels of that shape.

    Their sizes are said to be those of the labels, which they are: the sum of a size less 1 and 1 has no name.
    """
    following = op.Pad(op.Slice(label, [1], [2**31 - 1], [1]), [0, 0, 0, 1], np.array(-100, label.dtype.numpy))
    shaped: Variable = op.Reshape(following, op.Shape(label), allowzero=1)
    return shaped
