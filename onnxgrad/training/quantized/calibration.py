"""From a float model to a QDQ file with calibrated scales, by onnxruntime's own quantizer; the Trainer then trains that."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from onnxgrad.core.interop.onnx_export import save_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ArgumentError, DataError, ModelError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.derived_inputs import DerivedInputs
from onnxgrad.training.data.feed import checked_batch
from onnxgrad.training.data.open_batch import open_batch
from onnxgrad.training.data.opening import open_data
from onnxgrad.training.data.rows import Data
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.detection.heads import decoding_operators
from onnxgrad.training.surgery.batch_norm import fold_batch_norm

__all__ = ["quantize"]

_OLDEST = 13
_IN_FLOAT = frozenset({"Softmax", "LayerNormalization", "InstanceNormalization", "EmbedLayerNormalization"})
"""Operators whose results 8 bits would spoil: probabilities and what is divided by a deviation"""


@checked
def quantize(
    model: str | Path | bytes | ModelProto | Program,
    path: str | Path,
    data: Data,
    *,
    examples: int = 256,
    per_channel: bool = True,
    beside: Sequence[str] = (),
) -> int:
    """Write a model with weights and activations in 8-bit integers, in QDQ form: scales of each channel for weights, of each tensor
    for activations, by the least and largest values that some data gives. BatchNormalization is folded before; Softmax and
    LayerNormalization stay in float, and so does the decoding of a detector, whose boxes 8 bits would move by several pixels.

    Args:
        model: path of an .onnx file, its bytes, a message or a Program, in float32.
        path: file to write. ``Trainer`` trains it straight through; its export is a QDQ file again.
        data: inputs, as for ``Trainer.predict``.
        examples: how many of these to look at.
        per_channel: whether each channel of a weight has a scale of its own; some accelerators take one for each tensor alone.
        beside: names of columns of the data that are no inputs.

    Returns:
        The number of tensors that are rounded.

    Raises:
        ArgumentError: if no example is asked for.
        DataError: if the data does not fit the model, or has no batch.
        ModelError: if onnxruntime cannot quantise the model, or finds nothing to quantise.
    """
    from onnxruntime import quantization
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    if examples < 1:
        raise ArgumentError(f"examples to calibrate with are at least 1, not {examples}.")
    program: Program = model.clone(for_test=True) if isinstance(model, Program) else from_onnx(model)
    open_batch(program)
    fold_batch_norm(program)
    excluded = _named(program, decoding_operators(program))
    following = DerivedInputs(program)
    opened = open_data(data, DataSpec.of(program.inputs, (), following.names, program, beside)).plain()

    def feeds() -> Iterator[dict[str, Any]]:
        seen = 0
        for batch in opened.batches(min(32, examples), shuffle=False):
            feed = checked_batch(following.complete(batch), program.inputs)
            yield feed
            seen += len(next(iter(feed.values())))
            if seen >= examples:
                return

    class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.feeds = feeds()

        def get_next(self) -> Any:
            return next(self.feeds, None)

    if next(feeds(), None) is None:
        raise DataError("there is nothing to calibrate with: the data has no batch.")
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "float.onnx"
        save_onnx(program, plain)
        level = logging.getLogger().level
        logging.getLogger().setLevel(logging.ERROR)  # the quantizer advises its own preprocessing
        try:
            quantization.quantize_static(
                str(plain),
                str(path),
                _Reader(),
                quant_format=quantization.QuantFormat.QDQ,
                per_channel=per_channel,
                activation_type=quantization.QuantType.QUInt8,
                weight_type=quantization.QuantType.QInt8,
                calibrate_method=quantization.CalibrationMethod.MinMax,
                nodes_to_exclude=excluded,
                op_types_to_quantize=sorted({*QDQRegistry, *QLinearOpsRegistry} - _IN_FLOAT),
            )
        except Exception as error:
            message = " ".join(str(error).split())[:200]
            raise ModelError(
                f"onnxruntime cannot quantise this model ({message}). Raise its opset to {_OLDEST} or more."
            ) from error
        finally:
            logging.getLogger().setLevel(level)
    rounded = sum(op.type == "DequantizeLinear" for op in from_onnx(path).global_block().ops)
    if not rounded:
        raise ModelError("onnxruntime's quantizer found nothing to quantise in this model. Train it as it is.")
    return rounded


def _named(program: Program, operators: Sequence[Operator]) -> list[str]:
    """The names of operators in the file that is quantised; those without one get one"""
    taken = {op.name for op in program.global_block().ops}
    for op in operators:
        if not op.name:
            op.name = next(name for i in count(len(taken)) if (name := f"decoding_{i}") not in taken)
            taken.add(op.name)
    return [op.name for op in operators]


def agreement(rows: dict[str, dict[str, float]]) -> str:
    """Rows of metrics as a table for people.

    Example:
        >>> print(agreement({"before": {"loss": 0.5, "accuracy": 0.9}, "after": {"loss": 0.25, "accuracy": 0.95}}))
                    loss  accuracy
        before       0.5       0.9
        after       0.25      0.95
    """
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    first = max(len(label) for label in rows)
    widths = [max(10, len(name) + 2) for name in names]
    lines = [" " * first + "".join(name.rjust(width) for name, width in zip(names, widths, strict=True))]
    for label, row in rows.items():
        cells = (f"{row.get(name, np.nan):.4g}".rjust(width) for name, width in zip(names, widths, strict=True))
        lines.append(label.ljust(first) + "".join(cells))
    return "\n".join(lines)
