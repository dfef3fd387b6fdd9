"""Pairs of answers of which people prefer the first, for the losses ``dpo`` and ``bradley_terry``.

Tests: tests/training/data/test_preferences.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.by_rank import any_lacks, gathered, own_share, threads_of_share
from onnxgrad.training.data.derived_inputs import IGNORED, MASK, TOKENS, DerivedInputs
from onnxgrad.training.data.kinds.text import bucket
from onnxgrad.training.data.rows import Batch, Columns
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.text import END, Example, Passage, Text, TokenRow
from onnxgrad.training.losses.preferences import MARGIN, REFERENCE, log_probabilities_of_rows
from onnxgrad.training.losses.terms import output_of

__all__ = ["Preferences", "reference_log_probabilities"]

Array = np.ndarray[Any, Any]


class Preferences(Text):
    """Pairs of answers from a ``.jsonl`` file: each line becomes two rows that stay together, the preferred answer first.

    A line is ``{"prompt": ..., "chosen": ..., "rejected": ...}``, of texts, or of lists of messages, whose ``prompt`` may also be
    the beginning that ``chosen`` and ``rejected`` share. ``margin`` says by how much the first is better, 0 where it is left out.
    What counts of a chat is the last turn of the assistant, or all of them behind ``prompt``.

    Args:
        path: the file.
        tokenizer: path of a ``tokenizer.json``, as for ``Text``.
        max_length: tokens in a row at most; longer ones are cut. None for 512.
        reference: the model before training, without adapters: a path or a program. The loss ``dpo`` compares with the log
            probabilities that it gives, which are computed once, when the data is opened, and kept.
        batch_size: rows at a time for that.

    Attributes:
        remarks: lines on how the file was read.

    Raises:
        DataError: if a file cannot be read, naming the line, or holds no pair with tokens that count.
        ArgumentError: if the path has another suffix, or ``max_length`` is less than 2.
        OnnxGradError: if the package tokenizers is not installed.

    Example:
        >>> data = Preferences("pairs.jsonl", "tokenizer.json", reference="model.onnx")  # doctest: +SKIP
        >>> trainer = Trainer(program, loss="dpo", trainable=add_lora(program, "all"))  # doctest: +SKIP
        >>> trainer.fit(data, batch_size=8)  # doctest: +SKIP
    """

    @checked
    def __init__(
        self,
        path: str | Path,
        tokenizer: str | Path,
        *,
        max_length: int | None = None,
        reference: str | Path | ModelProto | Program | None = None,
        batch_size: int = 8,
    ) -> None:
        self._margins: Array = np.zeros(0)
        self._reference, self._batch_size = reference, batch_size
        self._measured: Array | None = None
        if Path(path).suffix != ".jsonl":
            raise ArgumentError(f"pairs of answers are read from .jsonl files, not {str(path)!r}. Convert it.")
        super().__init__(path, tokenizer, max_length=max_length)

    def opened(self, wanted: DataSpec) -> Columns:
        """The rows as columns: tokens, mask, and the inputs of the loss.

        Args:
            wanted: the columns that the program wants.

        Raises:
            DataError: if the loss compares with a reference, and none was given.
        """
        rows, steps = len(self.rows), int(self.lengths.max())
        arrays: dict[str, Array] = {name: np.zeros((rows, steps), np.int64) for name in (TOKENS, MASK)}
        arrays[self.label] = np.full((rows, steps), IGNORED, np.int64)
        for at, row in enumerate(self.rows):
            size = len(row.token_ids)
            arrays[TOKENS][at, :size], arrays[self.label][at, :size], arrays[MASK][at, :size] = row.token_ids, row.labels, 1
        if REFERENCE in wanted.names:
            if self._reference is None:
                raise DataError("dpo compares with the model before training. Give Preferences(reference=) its file.")
            if any_lacks(self._measured is None):
                program = self._reference if isinstance(self._reference, Program) else from_onnx(self._reference)
                self._measured = reference_log_probabilities(program, arrays, self._batch_size, self.label)
            assert self._measured is not None
            arrays[REFERENCE] = self._measured
        arrays[MARGIN] = np.repeat(self._margins.astype(np.float32), 2)
        read = {TOKENS, MASK, *wanted.names}
        columns = _Pairs({name: array for name, array in arrays.items() if name in read}, together=2)
        columns.record, columns.decoders, columns.path = self.record, self.decoders, self.path
        columns.remarks = [f"{rows // 2} pairs of answers; a batch of --batch-size rows holds half as many."]
        return columns

    def _examples(self) -> list[TokenRow]:
        rows, margins = self._of_lines()
        rows = self._cut(rows, "answers")
        useful = [at for at in range(len(margins)) if all((row.labels[1:] != IGNORED).any() for row in rows[2 * at : 2 * at + 2])]
        if not useful:
            raise DataError(f"{str(self.path)!r} holds no pair of answers with tokens that count, of {len(margins)} lines.")
        if len(useful) < len(margins):
            left = len(margins) - len(useful)
            self.remarks.append(
                f"{left} of {len(margins)} pairs of {self.path.name} have no token that counts in the loss, and are left out."
            )
        self._margins = margins[useful]
        return [rows[2 * at + side] for at in useful for side in (0, 1)]

    def _example(self, record: dict[str, Any], where: str) -> Example:
        return Example([self._answer(record, name, where) for name in ("chosen", "rejected")], _margin_of(record, where))

    def _answer(self, record: Mapping[str, Any], name: str, where: str) -> Passage:
        """The prompt with one of the answers"""
        prompt, answer = record.get("prompt"), record.get(name)
        if isinstance(answer, str) and isinstance(prompt, str | None):
            asked = prompt or ""
            return self._checked(Passage(asked + answer + self._template.end, [(len(asked), END)]), where)
        if not isinstance(answer, list) or not (prompt is None or isinstance(prompt, list)):
            raise DataError(
                f"{where}: {name!r} is {type(answer).__name__} and 'prompt' {type(prompt).__name__}; both are texts, or both lists "
                "of messages. Correct it."
            )
        more = {key: value for key, value in record.items() if key not in ("prompt", "chosen", "rejected", MARGIN)}
        messages = [*(prompt or ()), *answer]
        text, counted = self._template.written({**more, "messages": messages}, where)
        self._has_chats = True
        new = sum(isinstance(m, dict) and m.get("role") == "assistant" for m in answer) if prompt else 1
        return self._checked(Passage(text, counted[len(counted) - max(1, new) :] if counted else [], marked=False), where)


class _Pairs(Columns):
    """Rows of tokens that are as long as the longest of a batch"""

    def take(self, rows: Array, epoch: tuple[int, int] | None = None) -> Batch:
        batch = super().take(rows, epoch)
        whole = batch[MASK].shape[1]
        steps = min(whole, bucket(int(batch[MASK].sum(axis=1).max(initial=1)), whole))
        return {name: array[:, :steps] if array.ndim == 2 else array for name, array in batch.items()}


def _margin_of(record: Mapping[str, Any], where: str) -> float:
    margin = record.get(MARGIN, 0.0)
    if isinstance(margin, bool) or not isinstance(margin, (int, float)) or not np.isfinite(margin):
        raise DataError(f"{where}: margin is a number, not {margin!r}. Correct it.")
    return float(margin)


def reference_log_probabilities(program: Program, columns: Mapping[str, Any], batch_size: int = 8, label: str = "labels") -> Array:
    """Compute the log probability that a model gives to the tokens that count of each row, float32 [rows].

    Ranks that open data together each run a share of the batches, and all get the results of all.

    Args:
        program: a language model; it stays as it is.
        columns: ``input_ids``, ``attention_mask`` and labels, int64 [rows, steps]; -100 where nothing counts.
        batch_size: rows at a time.
        label: name of the column with the labels.

    Raises:
        ArgumentError: if the model has no scores of words.
        DataError: if it lacks inputs that do not follow from the tokens.

    Example:
        >>> reference_log_probabilities(program, columns).shape  # doctest: +SKIP
        (64,)
    """
    clone = program.clone(for_test=True)
    lift(clone)
    block = clone.global_block()
    scores = output_of(clone, None, [])
    labels = block.add_input(clone.fresh_name(label), TensorType(dtype_of("int64"), (None, None)))
    total = log_probabilities_of_rows(Builder(block, key="reference"), scores, labels)
    following, executor = DerivedInputs(clone), Executor(threads=threads_of_share())
    lengths = np.asarray(columns[MASK]).sum(axis=1)
    order = np.argsort(lengths, kind="stable")
    rows = _Pairs({name: columns[name] for name in (TOKENS, MASK, label)})
    wanted = [v.name for v in clone.inputs if v is not labels]
    numbers = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]

    def own() -> dict[str, Array]:
        share = own_share([len(chosen) * int(lengths[chosen[-1]]) for chosen in numbers])
        measured = [np.zeros(0, np.float32)]
        for chosen in numbers[share.start : share.stop]:
            batch = rows.take(chosen)
            feed = following.complete({name: batch[name] for name in (TOKENS, MASK)})
            missing = [name for name in wanted if name not in feed]
            if missing:
                raise DataError(
                    f"the reference reads the input {missing[0]!r}, which does not follow from the tokens. Use another file."
                )
            fed = {**{name: feed[name] for name in wanted}, labels.name: batch[label]}
            measured.append(executor.run(clone, fed, [total])[0])
        return {"measured": np.concatenate(measured)}

    result = np.empty(len(order), np.float32)
    result[order] = np.concatenate([share["measured"] for share in gathered(own)])
    return result
