"""The losses that fit an output, by the operator that produced it and by its shape.

Tests: tests/cli/test_data.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, OnnxGradError
from onnxgrad.training.data.derived_inputs import EMBEDDED, TOKENS
from onnxgrad.training.losses.word_scores import check_word_scores
from onnxgrad.training.surgery.activations import Activation, argmax_before

__all__ = ["fitting_losses"]

_NUMBERS = ("mse", "l1", "smooth_l1")


def fitting_losses(y: Variable, program: Program) -> list[str]:
    """Names of the losses that an output is likely made for, the likeliest first; none where it takes no gradient.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 5] x) => (float[N, 5] y) { y = Softmax(x) }'
        >>> program = onnxgrad.from_onnx(parser.parse_model(text))
        >>> fitting_losses(program.outputs[0], program)
        ['cross_entropy', 'kl']
    """
    if not y.is_float and argmax_before(y) is not None:
        return ["cross_entropy"]
    if not y.is_float or y.name.startswith("present") or y.rank in (None, 0):
        return []
    try:
        activation = Activation(y).kind
    except OnnxGradError:
        return []
    last = y.dims[-1] if y.dims else None
    takes_tokens = any(v.name in (EMBEDDED, TOKENS) for v in program.inputs)
    if activation == "Sigmoid":
        return ["bce_with_logits", "focal", *(["dice"] if y.rank == 4 else [])]
    if activation:
        return [*(["ctc"] if y.rank == 3 else []), "cross_entropy", *(["dice"] if y.rank == 4 else []), "kl"]
    if y.rank == 1 or last == 1:
        return [*_NUMBERS, "bce_with_logits"]
    if y.rank == 2:
        return ["cross_entropy", "bce_with_logits", *_NUMBERS, "cosine", "triplet", "info_nce", "kl"]
    if y.rank == 3:
        return [*(["causal_lm"] if takes_tokens and _scores_words(y) else []), "cross_entropy", "ctc", *_NUMBERS]
    return ["cross_entropy", "bce_with_logits", "dice", *_NUMBERS]


def _scores_words(y: Variable) -> bool:
    try:
        check_word_scores(y)
    except ArgumentError:
        return False
    return True
