"""Texts with labels: a table with a column of text, and a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.internal.arguments import checked
from onnxgrad.training.data.columns import Numbering, arrange_columns, class_notes, stack_columns
from onnxgrad.training.data.derived_inputs import MASK, TOKENS
from onnxgrad.training.data.rows import Batch, Columns
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import SEPARATORS, reader_of
from onnxgrad.training.data.text import bucket, decoder_of, is_unicode, open_tokenizer

__all__ = ["Texts"]

_NAMES = ("text", "sentence", "texts")
_PADS = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")


class Texts:
    """A .csv, .tsv, .parquet or .jsonl file with a column of text, for a classifier or a regression; others as in ``Table``.

    The column is called ``text`` or ``sentence``, or is the only one of words that is no target. Its words go into the model's
    integer input [batch, steps]; inputs whose names say so get the mask and the types. All rows are filled up to one length: that
    of the input if it is fixed, else of the longest text.

    Args:
        path: the file.
        tokenizer: path of a ``tokenizer.json``.
        max_length: tokens in a row at most; longer texts are cut.

    Raises:
        ArgumentError: if the suffix is another.
        DataError: if the tokenizer cannot be read.
        OnnxGradError: if the package tokenizers is not installed.

    Example:
        >>> trainer.fit(Texts("reviews.csv", "tokenizer.json", max_length=64), epochs=3)  # doctest: +SKIP
    """

    @checked
    def __init__(self, path: str | Path, tokenizer: str | Path, *, max_length: int = 512) -> None:
        self.path, self.max_length = Path(path), max_length
        if self.path.suffix not in SEPARATORS:
            raise ArgumentError(f"texts with labels are read from {', '.join(SEPARATORS)} files, not {str(path)!r}. Convert it.")
        if max_length < 1:
            raise ArgumentError(f"max_length is at least 1, not {max_length}.")
        self._tokenizer = open_tokenizer(Path(tokenizer))

    def opened(self, wanted: DataSpec, classes: Mapping[str, Sequence[str]] | None = None) -> Columns:
        """The data for a program; ``classes`` by target column have numbers already.

        Args:
            wanted: the columns that the program wants.
            classes: words by number, by target column.

        Raises:
            DataError: naming the file and what is missing in it, or the inputs if none takes tokens.
        """
        where = self.path.name
        if not self.path.is_file():
            raise DataError(f"there is no file {str(self.path)!r}.")
        tokens, mask, types = _inputs(wanted)
        reader = reader_of(self.path)
        tokenized = [name for name in (tokens, mask, types) if name is not None]
        names = [name for name in wanted.names if name not in tokenized]
        optional = [name for name in wanted.optional if name not in tokenized]
        text = _text_column(reader.header, reader.numeric, (*names, *wanted.beside), where)
        header = [name for name in reader.header if name != text]
        rest = DataSpec(names, wanted.variables, wanted.targets, optional, wanted.program, wanted.beside)
        plan = arrange_columns(header, reader.numeric, rest, where)
        columns = reader.columns([text, *plan.read])
        encodings = self._tokenizer.encode_batch([_written(cell, i, text, where) for i, cell in enumerate(columns[text])])
        numbering = Numbering(classes or {})
        filled, cut = self._filled(encodings, wanted.variables.get(tokens), tokens, mask, types)
        rows = Columns({**filled, **stack_columns(plan, columns, rest, numbering, where)})
        rows.classes, rows.unused = numbering.classes, plan.unused
        size = filled[tokens].shape[1]
        notes = [f"the column {text!r} of {where} becomes {size} words in {tokens!r}."]
        if cut:
            notes.append(f"{cut:,} of {len(encodings):,} texts of {where} are cut to {size} words.")
        if mask is None and any(len(e.ids) < size for e in encodings):
            notes.append("the model takes no mask: it reads what fills up shorter texts, too.")
        rows.remarks = [*notes, *plan.remarks, *class_notes(numbering.classes)]
        rows.decoders = {tokens: decoder_of(self._tokenizer)}
        return rows

    def _filled(
        self, encodings: Sequence[Any], v: Variable | None, tokens: str, mask: str | None, types: str | None
    ) -> tuple[Batch, int]:
        """Token ids, mask and types as arrays of one length, and the number of texts that are cut"""
        fixed = None if v is None or v.dims is None or len(v.dims) < 2 else v.dims[1]
        longest = max((len(e.ids) for e in encodings), default=1)
        size = fixed if isinstance(fixed, int) else min(bucket(longest, self.max_length), self.max_length)
        cut = sum(len(e.ids) > size for e in encodings)
        for encoding in encodings:
            encoding.truncate(size)
        pad = next((n for n in map(self._tokenizer.token_to_id, _PADS) if n is not None), 0)
        for encoding in encodings:
            encoding.pad(size, pad_id=pad)
        batch = {tokens: np.array([e.ids for e in encodings], np.int64).reshape(-1, size)}
        if mask is not None:
            batch[mask] = np.array([e.attention_mask for e in encodings], np.int64).reshape(-1, size)
        if types is not None:
            batch[types] = np.array([e.type_ids for e in encodings], np.int64).reshape(-1, size)
        return batch, cut


def _inputs(wanted: DataSpec) -> tuple[str, str | None, str | None]:
    """Names of the inputs for token ids, mask and types"""
    every = [*wanted.names, *wanted.optional]
    variables = {name: wanted.variables.get(name) for name in every if name not in wanted.targets}
    integers = [name for name, v in variables.items() if v is not None and v.dtype.is_integer and v.rank == 2]
    mask = next((name for name in integers if "mask" in name.lower()), MASK if MASK in every else None)
    types = next((name for name in integers if "type" in name.lower() or "segment" in name.lower()), None)
    left = [name for name in integers if name not in (mask, types) and "position" not in name.lower()]
    tokens = TOKENS if TOKENS in left else left[0] if len(left) == 1 else None
    if tokens is None:
        raise DataError(
            f"no input is found that takes words, an integer [batch, steps]: the inputs are {list(variables)}. Feed arrays by name."
        )
    return tokens, mask, types


def _text_column(header: Sequence[str], numeric: Sequence[str], others: Sequence[str], where: str) -> str:
    candidates = [name for name in header if name not in numeric]
    named = [name for name in _NAMES if name in candidates]
    left = [name for name in candidates if name not in others]
    if not named and len(left) != 1:
        raise DataError(f"which column of {where} is the text? It has {list(header)}. Call it 'text'.")
    return named[0] if named else left[0]


def _written(cell: Any, row: int, column: str, where: str) -> str:
    if not isinstance(cell, str) or not cell.strip() or not is_unicode(cell):
        raise DataError(
            f"{where}, row {row + 1}, column {column!r} holds {cell!r}, which is no text. Fill it in, or leave the row out."
        )
    return cell
