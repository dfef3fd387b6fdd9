"""Texts with labels, and pairs of texts: a table with columns of text, and a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.kinds.text import TextColumn, TokenizerFile, decoder_of
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import SEPARATORS, Table

__all__ = ["Texts"]


class Texts(Table):
    """A table with a column of text, for a classifier or a regression; other columns as in ``Table``.

    The column is called ``text`` or ``sentence``, or is the only one of words that is no target. Its words go into the model's
    integer input [batch, steps]; inputs whose names say so get the mask and the types. All rows are filled up to one length: that
    of the input if it is fixed, else of the longest text.

    For ``info_nce`` and ``triplet`` the table may hold pairs that mean the same (``anchor`` or ``query``, ``positive`` or
    ``document``), and a ``negative`` that does not; for ``cosine_pairs`` pairs (``sentence1``, ``sentence2``) and their ``score``
    from -1 to 1. Other names are given by ``columns={"input_ids": ["a", "b"]}``. Each text becomes a row; rows of a pair stay
    together in all batches.

    Args:
        path: the file.
        tokenizer: path of a ``tokenizer.json``.
        max_length: tokens in a row at most; longer texts are cut. None for as many as the model was trained with, or 512.
        columns, fill, decimal: see ``Table``.

    Raises:
        ArgumentError: if the suffix is another.
        DataError: if the tokenizer cannot be read.
        OnnxGradError: if the package tokenizers is not installed.

    Example:
        >>> trainer.fit(Texts("reviews.csv", "tokenizer.json", max_length=64), epochs=3)  # doctest: +SKIP
    """

    @checked
    def __init__(
        self,
        path: str | Path,
        tokenizer: str | Path,
        *,
        max_length: int | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        fill: str | float | None = None,
        decimal: str | None = None,
    ) -> None:
        if Path(path).suffix not in SEPARATORS:
            raise ArgumentError(f"texts with labels are read from {', '.join(SEPARATORS)} files, not {str(path)!r}. Convert it.")
        if max_length is not None and max_length < 1:
            raise ArgumentError(f"max_length is at least 1, not {max_length}.")
        super().__init__(path, stream=False, columns=columns, fill=fill, decimal=decimal)
        self.file = TokenizerFile(tokenizer)
        self.reading = replace(self.reading, tokenizer=self.file, max_length=max_length)

    def opened(self, wanted: DataSpec) -> Rows | Stream:
        rows = super().opened(wanted)
        found = {} if rows.record is None else rows.record.columns
        tokens = [name for name, column in found.items() if isinstance(column, TextColumn)]
        rows.decoders = dict.fromkeys(tokens, decoder_of(self.file.tokenizer))
        return rows
