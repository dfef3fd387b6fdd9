"""Columns of text, which a tokenizer reads: token ids, mask and types of one length.

Tests: tests/training/data/test_texts.py, tests/training/data/test_kinds.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from onnxgrad.errors import DataError, FileError, OnnxGradError
from onnxgrad.internal.files import read_whole
from onnxgrad.training.data.broken import flaws_in
from onnxgrad.training.data.by_rank import gathered, own_share
from onnxgrad.training.data.derived_inputs import MASK, TOKENS
from onnxgrad.training.data.kinds.column import Cells, Column, LazyColumn, Reading, contradiction, is_name, is_whole
from onnxgrad.training.data.positions import positions_for
from onnxgrad.training.data.rows import Batch

if TYPE_CHECKING:
    from onnxgrad.training.data.spec import DataSpec

__all__ = ["LONGEST", "TextColumn", "TokenizerFile", "bucket", "decoder_of", "is_unicode", "text_inputs"]

Array = np.ndarray[Any, Any]
LONGEST = 512
"""Tokens in a row where nothing says how many."""
_PADS = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")


@dataclass(frozen=True)
class TextColumn(Column):
    """A text in each cell, for the inputs that token ids, their mask and their types go into; it stands under the first.

    Several columns are texts that stay together, such as pairs: a row of the table becomes as many rows, which follow each other.

    Attributes:
        tokenizer: name of the file of the tokenizer.
        sha256: of that file.
        length: tokens in a row at most.
        mask, types: names of the other inputs.
    """

    tokenizer: str = ""
    sha256: str = ""
    length: int = LONGEST
    mask: str | None = None
    types: str | None = None

    kind: ClassVar[str] = "text"
    checks: ClassVar[Mapping[str, Callable[[Any], bool]]] = {
        "tokenizer": is_name,
        "sha256": is_name,
        "length": is_whole,
        "mask": is_name,
        "types": is_name,
    }

    @classmethod
    def found(
        cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None, remarks: list[str]
    ) -> TextColumn:
        _, mask, types = text_inputs(wanted)
        file: TokenizerFile = reading.tokenizer
        recorded = known if isinstance(known, TextColumn) else None
        if recorded is not None:
            file.check(recorded)
        v = wanted.variables.get(name)
        fixed = None if v is None or v.dims is None or len(v.dims) < 2 else v.dims[1]
        limit = reading.max_length or (LONGEST if recorded is None else recorded.length)
        length = fixed if isinstance(fixed, int) else limit
        return cls(tuple(cells.values), file.path.name, file.sha256, length, mask, types)

    @classmethod
    def flaws(cls, name: str, cells: Cells, wanted: DataSpec, reading: Reading, known: Column | None) -> dict[int, str]:
        flaws: dict[int, str] = {}
        for part in cells.values:
            listed = cells.listed(part)

            def read(rows: Array, part: str = part, listed: Sequence[Any] = listed) -> object:
                return [_written(listed[row], cells.at(int(row), part)) for row in rows]

            flaws = {**flaws_in(read, cells.count), **flaws}
        return flaws

    def read(
        self, name: str, cells: Cells, wanted: DataSpec, reading: Reading, remarks: list[str]
    ) -> Mapping[str, Array | LazyColumn]:
        file: TokenizerFile = reading.tokenizer
        values = [cells.values[part] for part in self.parts]
        listed = [column.to_pylist() if hasattr(column, "to_pylist") else column for column in values]
        texts = [
            _written(cell, cells.at(row, part))
            for row, texts_of_row in enumerate(zip(*listed, strict=True))
            for part, cell in zip(self.parts, texts_of_row, strict=True)
        ]
        encodings = _encoded(texts, file)
        v = wanted.variables.get(name)
        is_fixed = v is not None and v.dims is not None and len(v.dims) > 1 and isinstance(v.dims[1], int)
        lengths = [len(e.ids) for e in encodings]
        size = self.length if is_fixed else min(bucket(max(lengths, default=1), self.length), self.length)
        fitting = size if wanted.program is None or is_fixed else positions_for(wanted.program, name, size)
        if fitting < size:
            size = fitting
            remarks.append(f"the model has positions for {size} tokens: longer texts are cut (--max-length).")
        columns, becomes = ("column", "becomes") if len(self.parts) == 1 else ("columns", "become")
        remarks.append(f"the {columns} {', '.join(map(repr, self.parts))} of {cells.where} {becomes} {size} tokens in {name!r}.")
        cut = sum(length > size for length in lengths)
        if cut:
            remarks.append(f"{cut:,} of {len(lengths):,} texts of {cells.where} are cut to {size} tokens.")
        if self.mask is None and any(length < size for length in lengths):
            remarks.append("the model has no attention_mask: it also reads the padding of shorter texts.")
        return self.filled(name, encodings, size, file)

    def filled(self, name: str, encodings: Sequence[_Encoding], size: int, file: TokenizerFile) -> Batch:
        """Token ids, mask and types as arrays of one length, by name of their input."""
        pad = next((n for n in map(file.tokenizer.token_to_id, _PADS) if n is not None), 0)
        batch = {name: np.full((len(encodings), size), pad, np.int64)}
        for other in (self.mask, self.types):
            if other is not None:
                batch[other] = np.zeros((len(encodings), size), np.int64)
        for row, encoding in enumerate(encodings):
            count = min(size, len(encoding.ids))
            batch[name][row, :count] = encoding.ids[:count]
            if self.mask is not None:
                batch[self.mask][row, :count] = 1
            if self.types is not None:
                batch[self.types][row, :count] = encoding.types[:count]
        return batch


class _Encoding(NamedTuple):
    """The tokens of a text and their types, int32"""

    ids: Array
    types: Array


def _encoded(texts: Sequence[str], file: TokenizerFile) -> list[_Encoding]:
    """The tokens of texts; ranks that open data together each tokenise a share"""

    def own() -> dict[str, Array]:
        share = own_share([len(text) for text in texts])
        encodings = file.tokenizer.encode_batch(texts[share.start : share.stop])
        empty = np.zeros(0, np.int32)
        return {
            "sizes": np.array([len(e.ids) for e in encodings], np.int64),
            "ids": np.concatenate([empty, *(np.array(e.ids, np.int32) for e in encodings)]),
            "types": np.concatenate([empty, *(np.array(e.type_ids, np.int32) for e in encodings)]),
        }

    encodings: list[_Encoding] = []
    for share in gathered(own):
        ends = np.cumsum(share["sizes"])[:-1]
        parts = zip(np.split(share["ids"], ends), np.split(share["types"], ends), strict=True)
        encodings += [_Encoding(*part) for part in parts][: len(share["sizes"])]
    return encodings


class TokenizerFile:
    """A ``tokenizer.json``, opened.

    Raises:
        DataError: if it cannot be read.
        OnnxGradError: if the package tokenizers is not installed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise OnnxGradError("text needs the package tokenizers. Install onnxgrad[text].") from error
        try:
            content = read_whole(self.path)
        except FileError as error:
            raise DataError(str(error)) from error
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{str(path)!r} is not written in UTF-8 ({error}). Convert it.") from error
        try:
            self.tokenizer: Any = Tokenizer.from_str(_with_whole_offsets(text))
        except Exception as error:
            raise DataError(f"{str(path)!r} is not a tokenizer ({error}). Name the tokenizer.json of the model.") from error
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self._content = content

    @cached_property
    def marks(self) -> list[str]:
        """Tokens that stand for themselves in a text, such as ``<|im_end|>``."""
        return [str(token.content) for token in self.tokenizer.get_added_tokens_decoder().values()]

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self._content).hexdigest()

    def check(self, recorded: TextColumn) -> None:
        """Raise DataError unless it is the tokenizer that a record names."""
        if recorded.sha256 and recorded.sha256 != self.sha256:
            then = f"the tokenizer {recorded.tokenizer!r} (sha256 {recorded.sha256[:12]})"
            raise contradiction(str(self.path), then, f"sha256 {self.sha256[:12]}", "Name that file (--tokenizer).")


def _with_whole_offsets(text: str) -> str:
    """A ``tokenizer.json`` whose tokens reach over the spaces in them, which say what counts of an answer.

    Byte-level tokenizers such as that of GPT-NeoX may be set to trim them off; the token ids are the same.
    """
    return re.sub(r'("trim_offsets"\s*:\s*)true', r"\1false", text)


def bucket(length: int, limit: int) -> int:
    """The next of 8, 12, 16, 24, 32, 48, ... or the limit"""
    size = 8
    while size < length:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return min(size, limit)


def decoder_of(tokenizer: Any) -> Callable[[Array], str]:
    """A function from word numbers to text, without what fills up and what does not count (less than 0)"""

    def decoded(ids: Array) -> str:
        kept = [int(i) for i in np.asarray(ids).reshape(-1) if i >= 0]
        return str(tokenizer.decode(kept, skip_special_tokens=True))

    return decoded


def is_unicode(text: str) -> bool:
    """Return whether a text has whole characters alone; JSON can write halves of them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def text_inputs(wanted: DataSpec) -> tuple[str, str | None, str | None]:
    """Names of the inputs for token ids, mask and types.

    Raises:
        DataError: if no input takes tokens.
    """
    every = [*wanted.names, *wanted.optional]
    variables = {name: wanted.variables.get(name) for name in every if name not in wanted.targets}
    integers = [name for name, v in variables.items() if v is not None and v.dtype.is_integer and v.rank == 2]
    mask = next((name for name in integers if "mask" in name.lower()), MASK if MASK in every else None)
    types = next((name for name in integers if "type" in name.lower() or "segment" in name.lower()), None)
    left = [name for name in integers if name not in (mask, types) and "position" not in name.lower()]
    tokens = TOKENS if TOKENS in left else left[0] if len(left) == 1 else None
    if tokens is None:
        raise DataError(
            f"no input is found that takes tokens, an integer [batch, steps]: the inputs are {list(variables)}. Feed arrays."
        )
    return tokens, mask, types


def _written(cell: Any, at: str) -> str:
    if not isinstance(cell, str) or not cell.strip() or not is_unicode(cell):
        raise DataError(f"{at} holds {cell!r}, which is not text. Fill it in, or leave the row out.")
    return cell
