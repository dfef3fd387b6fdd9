"""What an export for inference holds of a model that was changed before it was trained."""

from __future__ import annotations

from onnxgrad.core.ir.program import Program
from onnxgrad.training.batch_norm import fold_added_batch_norm, fold_batch_norm
from onnxgrad.training.data import Data
from onnxgrad.training.integers import observe_scales, store_integers
from onnxgrad.training.lora import merge_lora
from onnxgrad.training.surgery import remove_added_dropout

__all__ = ["inference_model"]


def inference_model(program: Program, fold: bool = False, observe: Data | None = None) -> Program:
    """A copy with LoRA branches in their weights, without what was added for training, and with integers where the file had some.

    Args:
        program: for inference, as ``clone(for_test=True)``.
        fold: also fold BatchNormalization of the file.
        observe: data to set the scales of a QDQ file by.
    """
    final = merge_lora(program)
    remove_added_dropout(final)
    fold_added_batch_norm(final)
    if fold:
        final = fold_batch_norm(final)
    if observe is not None:
        observe_scales(final, observe)
    store_integers(final)
    return final
