"""The inference model of a run, without what training has put in."""

from __future__ import annotations

from pathlib import Path

from onnxgrad.core.interop.onnx_export import save_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.training.batch_norm import fold_added_batch_norm, fold_batch_norm
from onnxgrad.training.lora import merge_lora
from onnxgrad.training.surgery import remove_added_dropout

__all__ = ["save_inference"]


def save_inference(program: Program, path: str | Path, fold: bool = False, quantised: str = "branch") -> list[str]:
    """Write a program with LoRA branches merged as ``merge_lora`` has it, and added Dropout and BatchNormalization taken out.

    Returns:
        Lines on what was rounded.
    """
    said: list[str] = []
    final = merge_lora(program, quantised, said)
    remove_added_dropout(final)
    fold_added_batch_norm(final)
    save_onnx(fold_batch_norm(final) if fold else final, path)
    return said
