"""The inference model of a run: what an export holds of a model that was changed before it was trained.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from typing import Literal

from onnxgrad.core.ir.program import Program
from onnxgrad.core.state.scope import Scope
from onnxgrad.training.data.rows import Data
from onnxgrad.training.quantized.integers import observe_scales, store_integers
from onnxgrad.training.surgery.batch_norm import fold_added_batch_norm, fold_batch_norm
from onnxgrad.training.surgery.heads import remove_added_dropout
from onnxgrad.training.surgery.lora import merge_lora
from onnxgrad.training.surgery.packing import unmask_packed_texts
from onnxgrad.training.surgery.streams import roll_up

__all__ = ["as_inference"]


def as_inference(
    program: Program,
    fold: bool = False,
    observe: Data | None = None,
    quantised: Literal["branch", "float", "again"] = "branch",
    scope: Scope | None = None,
) -> tuple[Program, list[str]]:
    """Return a program with LoRA branches in their weights, without what training added, and with integers where the file had some.

    Args:
        program: for inference, as ``clone(for_test=True)``.
        fold: also fold BatchNormalization of the file.
        observe: data to set the scales of a QDQ file by.
        quantised: what becomes of LoRA branches beside quantised weights, as for ``merge_lora``.
        scope: where the weights are; None for the program's own.

    Returns:
        The program, and lines on what was rounded.
    """
    notes: list[str] = []
    program = roll_up(program)
    final = merge_lora(program, quantised, notes, scope)
    remove_added_dropout(final)
    unmask_packed_texts(final)
    fold_added_batch_norm(final)
    if fold:
        final = fold_batch_norm(final)
    if observe is not None:
        observe_scales(final, observe)
    store_integers(final)
    return final, notes
