"""Text and chats as data for a language model, through the package ``tokenizers``.

A ``.txt`` file is one text, cut into pieces. A ``.jsonl`` file has an object on each line: ``{"text": ...}``; ``{"prompt": ...,
"completion": ...}``, of which the completion counts; or ``{"messages": [{"role": ..., "content": ...}, ...]}``, of which the turns
of the assistant count.
"""

from __future__ import annotations

import bisect
import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, FileError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import read_whole
from onnxgrad.training.data.by_rank import any_lacks, gathered, has_ranks, own_share
from onnxgrad.training.data.chat_template import ChatTemplate
from onnxgrad.training.data.derived_inputs import IGNORED, MASK, SEGMENTS, TOKENS
from onnxgrad.training.data.kinds.text import LONGEST, TextColumn, TokenizerFile, bucket, decoder_of, is_unicode
from onnxgrad.training.data.positions import positions_for
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.data.rows import Batch, Stream
from onnxgrad.training.data.spec import DataSpec

__all__ = ["END", "Example", "Passage", "Text", "TokenRow", "record_of_line"]

Array = np.ndarray[Any, Any]
SUFFIXES = (".jsonl", ".txt")
END = 2**62
"""Behind every character."""


class TokenRow(NamedTuple):
    """Words and their labels, both int32, and the number of words in each text of the row"""

    token_ids: Array
    labels: Array
    sizes: Sequence[int] = ()


class Passage(NamedTuple):
    """A text, the stretches of characters that count, and whether the tokenizer adds its own marks"""

    text: str
    counted: Sequence[tuple[int, int]]
    marked: bool = True


class Example(NamedTuple):
    """The passages of a line, and of a pair of answers by how much the first is better"""

    passages: Sequence[Passage]
    margin: float = 0.0


class Text(Stream):
    """Rows of tokens from a file, as batches of ``input_ids``, ``attention_mask`` and labels, all int64 [rows, steps].

    Rows of similar length go into one batch. Each batch is padded on the right to one of a few lengths: 8, 12, 16, 24, 32, 48, ...

    Of several ranks each tokenises its share of the lines when a Trainer opens the data, and all get the tokens of all.

    Args:
        path: a ``.txt`` or ``.jsonl`` file.
        tokenizer: path of a ``tokenizer.json``. A ``tokenizer_config.json`` beside it says which word ends a text, and how a chat
            is written: by its template where the package jinja2 is installed, else by that of ChatML; ``remarks`` says which.
        max_length: tokens in a row at most; longer examples are cut. None for 512.
        pack: put several short examples into one row, for a model with ``mask_packed_texts``: each example sees itself alone.
        label: name of the column with the labels; -100 stands where nothing counts.

    Attributes:
        remarks: lines on how the file was read; on several ranks there are none before it is.

    Raises:
        DataError: if a file cannot be read, naming the line, or holds nothing to learn.
        OnnxGradError: if the package tokenizers is not installed.
        ArgumentError: if the path has another suffix, or ``max_length`` is less than 2.

    Example:
        >>> data = Text("chat.jsonl", "tokenizer.json", max_length=256)  # doctest: +SKIP
        >>> trainer.fit(data, epochs=3)  # doctest: +SKIP
    """

    path: Path

    @checked
    def __init__(
        self,
        path: str | Path,
        tokenizer: str | Path,
        *,
        max_length: int | None = None,
        pack: bool = False,
        label: str = "labels",
    ) -> None:
        max_length = LONGEST if max_length is None else max_length
        if max_length < 2:
            raise ArgumentError(f"max_length is at least 2, a token and the next one, not {max_length}.")
        self.path, self.max_length, self.label = Path(path), max_length, label
        self.remarks: list[str] = []
        self.tokenizer_file = TokenizerFile(tokenizer)
        self._tokenizer = self.tokenizer_file.tokenizer
        self._template = ChatTemplate(Path(tokenizer), self._tokenizer.token_to_id, self.tokenizer_file.marks)
        self._has_chats = False
        if self.path.suffix not in SUFFIXES:
            raise ArgumentError(f"text is read from {' or '.join(SUFFIXES)} files, not {str(path)!r}. Rename or convert it.")
        self.pack = pack
        self._rows: list[TokenRow] | None = None
        self._lengths: Array = np.zeros(0, np.int64)
        super().__init__((), [TOKENS, MASK, *([SEGMENTS] if pack else []), label])
        file = self.tokenizer_file
        self.record = DataRecord({TOKENS: TextColumn((), file.path.name, file.sha256, max_length, MASK)})
        self.decoders = dict.fromkeys((TOKENS, label), decoder_of(self._tokenizer))
        if not has_ranks():
            self.read()

    def read(self) -> None:
        """Tokenise the file, unless that is done; ranks that open data together each do a share of it."""
        if any_lacks(self._rows is None):
            self.remarks.clear()
            self._template.seen = [{}, {}]
            rows = self._pieces() if self.path.suffix == ".txt" else self._examples()
            self._rows = _packed(rows, self.max_length) if self.pack else rows
            self._lengths = np.array([bucket(len(row.token_ids), self.max_length) for row in self._rows])

    @property
    def rows(self) -> list[TokenRow]:
        """Words and labels of each row."""
        if self._rows is None:
            self.read()
        return self._rows or []

    @property
    def lengths(self) -> Array:
        """How long each row is when it is filled up, int64 [rows]."""
        if self._rows is None:
            self.read()
        return self._lengths

    def __len__(self) -> int:
        return len(self.rows)

    def count(self, batch_size: int, drop_last: bool = False) -> int:
        """Batches in an epoch.

        Args:
            batch_size: examples in a batch.
            drop_last: whether a last batch of fewer is left out.
        """
        return len(self) // batch_size if drop_last else -(-len(self) // batch_size)

    def examples(self, batch_size: int, drop_last: bool = False) -> int:
        """Rows in an epoch.

        Args:
            batch_size: examples in a batch.
            drop_last: whether a last batch of fewer is left out.
        """
        return len(self) - len(self) % batch_size if drop_last else len(self)

    def batches(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        """The batches of one epoch, each of rows of similar length; ``skip`` leaves out the first ones.

        Args:
            batch_size: examples in a batch.
            shuffle: whether their order is random.
            drop_last: whether a last batch of fewer is left out.
            seed: of the order.
            epoch: its number, from 0, of which the order depends too.
            skip: how many batches at the front are left out.
        """
        rng = np.random.default_rng([seed, epoch])
        rows = rng.permutation(len(self)) if shuffle else np.arange(len(self))
        rows = rows[np.argsort(self.lengths[rows], kind="stable")]
        count = self.count(batch_size, drop_last)
        for number in (rng.permutation(count) if shuffle else np.arange(count))[skip:]:
            yield self._batch(rows[number * batch_size : (number + 1) * batch_size])

    def check(self, wanted: DataSpec) -> None:
        """Check that the tokenizer is the one of the record, and that the model has positions for the rows.

        Args:
            wanted: the columns that the program wants, with the record.

        Raises:
            DataError: if not.
        """
        recorded = wanted.record.columns.get(TOKENS)
        if isinstance(recorded, TextColumn):
            self.tokenizer_file.check(recorded)
        inputs = [] if wanted.program is None else [v.name for v in wanted.program.inputs]
        if self.pack and inputs and SEGMENTS not in inputs:
            raise DataError(
                f"{self.path.name} is packed, and the model would let a text see those before it in its row. "
                "Call training.mask_packed_texts(program) first (train --pack does), or read it without pack."
            )
        longest = max(map(int, self.lengths), default=0)
        if self.pack:  # positions begin anew with each text
            longest = max((int(size) for row in self.rows for size in row.sizes), default=0)
        fitting = longest if wanted.program is None else positions_for(wanted.program, TOKENS, longest)
        if fitting < longest:
            raise DataError(
                f"{self.path.name} has rows of {longest} tokens, and the model has positions for {fitting}. "
                f"Give max_length={fitting} (--max-length {fitting})."
            )

    def select(self, rows: Array) -> Text:
        """The rows of these numbers as data of its own.

        Args:
            rows: numbers of rows.
        """
        selected = copy.copy(self)
        selected._rows, selected._lengths = [self.rows[int(row)] for row in rows], self.lengths[rows]
        return selected

    def _batch(self, chosen: Array) -> Batch:
        steps = int(self.lengths[chosen].max())
        token_ids, mask = np.zeros((2, len(chosen), steps), np.int64)
        labels = np.full((len(chosen), steps), IGNORED, np.int64)
        for at, index in enumerate(chosen):
            row = self.rows[index]
            token_ids[at, : len(row.token_ids)] = row.token_ids
            labels[at, : len(row.token_ids)] = row.labels
            mask[at, : len(row.token_ids)] = 1
        batch = {TOKENS: token_ids, MASK: mask, self.label: labels}
        if self.pack:
            batch[SEGMENTS] = np.full((len(chosen), steps), -1, np.int64)
            for at, index in enumerate(chosen):
                sizes = self.rows[index].sizes
                batch[SEGMENTS][at, : sum(sizes)] = np.repeat(np.arange(len(sizes)), sizes)
        return batch

    # Reading -----------------------------------------------------------------------------------------------------------

    def _pieces(self) -> list[TokenRow]:
        text = _read(self.path)
        ((row,), _) = self._encoded([text], lambda number: Example([Passage(text, [(0, END)])]))
        size = self.max_length
        cuts = [at for at in range(0, len(row.token_ids), size) if len(row.token_ids) - at > 1]
        if not cuts:
            raise DataError(f"{str(self.path)!r} holds no token to learn: it has {len(row.token_ids)} in all.")
        return [TokenRow(row.token_ids[at : at + size], row.labels[at : at + size]) for at in cuts]

    def _examples(self) -> list[TokenRow]:
        rows, _ = self._of_lines()
        rows = self._cut(rows, "examples")
        useful = [row for row in rows if (row.labels[1:] != IGNORED).any()]
        if not useful:
            raise DataError(f"{str(self.path)!r} holds no token to learn: {len(rows)} examples, none with tokens that count.")
        if len(useful) < len(rows):
            left = len(rows) - len(useful)
            self.remarks.append(
                f"{left} of {len(rows)} examples of {self.path.name} have no token that counts in the loss, and are left out."
            )
        return useful

    def _cut(self, rows: list[TokenRow], what: str) -> list[TokenRow]:
        """Rows of no more than the largest number of tokens, with remarks on what was read"""
        if self._has_chats:
            self.remarks += self._template.remarks
        long = sum(len(row.token_ids) > self.max_length for row in rows)
        if long:
            self.remarks.append(f"{long} of {len(rows)} {what} of {self.path.name} are cut to {self.max_length} tokens.")
        return [TokenRow(row.token_ids[: self.max_length], row.labels[: self.max_length]) for row in rows]

    def _of_lines(self) -> tuple[list[TokenRow], Array]:
        """The tokens of the passages of all lines, and the margin of each line"""
        lines = [(number, line) for number, line in enumerate(_read(self.path).split("\n"), 1) if line.strip()]
        where = [f"line {number} of {str(self.path)!r}" for number, _ in lines]

        def example(number: int) -> Example:
            return self._example(record_of_line(lines[number][1], where[number]), where[number])

        return self._encoded([line for _, line in lines], example)

    def _example(self, record: dict[str, Any], where: str) -> Example:
        return Example([self._checked(self._passage_of(record, where), where)])

    def _checked(self, passage: Passage, where: str) -> Passage:
        if not is_unicode(passage.text):
            raise DataError(f"{where} has half a character (a lone surrogate), which no token encodes. Correct it.")
        return passage

    def _passage_of(self, record: dict[str, Any], where: str) -> Passage:
        if "messages" in record:
            text, counted = self._template.written(record, where)
            self._has_chats = True
            return Passage(text, counted, marked=False)
        parts = [record.get(name) for name in (("text",) if "text" in record else ("prompt", "completion"))]
        if not all(isinstance(part, str) for part in parts):
            raise DataError(
                f"{where} has neither text, nor prompt and completion, nor messages; it has {sorted(map(str, record))}."
            )
        text = "".join(part for part in parts if part is not None)
        return Passage(text + self._template.end, [(len(str(parts[0])) if len(parts) == 2 else 0, END)])

    def _encoded(self, items: Sequence[str], example: Callable[[int], Example]) -> tuple[list[TokenRow], Array]:
        """Tokens of the passages of all items in their order, and the margins of the items; of ranks each reads some items

        Args:
            items: as the file has them.
            example: makes the passages of the item of a number.
        """

        def own() -> dict[str, Array]:
            examples = [example(number) for number in own_share([len(item) for item in items])]
            passages = [passage for one in examples for passage in one.passages]
            encodings: dict[int, Any] = {}
            for marked in (True, False):
                chosen = [at for at, passage in enumerate(passages) if passage.marked is marked]
                texts = [passages[at].text for at in chosen]
                encodings.update(zip(chosen, self._tokenizer.encode_batch(texts, add_special_tokens=marked), strict=True))
            rows = [_row(encodings[at], passage) for at, passage in enumerate(passages)]
            token_ids = np.concatenate([np.zeros(0, np.int32), *(row.token_ids for row in rows)])
            labels = np.concatenate([np.zeros(0, np.int32), *(row.labels for row in rows)])
            return {
                "sizes": np.array([len(row.token_ids) for row in rows], np.int64),
                "token_ids": token_ids,
                "counted": labels != IGNORED,
                "margins": np.array([one.margin for one in examples], np.float64),
                "has_chats": np.array([self._has_chats]),
                "seen": np.frombuffer(json.dumps(self._template.seen).encode(), np.uint8),
            }

        rows: list[TokenRow] = []
        shares = gathered(own)
        for share in shares:
            token_ids = share["token_ids"]
            labels = np.where(share["counted"], token_ids, np.int32(IGNORED))
            ends = np.cumsum(share["sizes"])
            rows += [
                TokenRow(token_ids[end - size : end], labels[end - size : end])
                for size, end in zip(share["sizes"], ends, strict=True)
            ]
        self._has_chats = any(share["has_chats"][0] for share in shares)
        seen = [json.loads(share["seen"].tobytes()) for share in shares]
        self._template.seen = [sum(map(Counter, counts), Counter()) for counts in zip(*seen, strict=True)]
        return rows, np.concatenate([share["margins"] for share in shares])


def record_of_line(line: str, where: str) -> dict[str, Any]:
    """An object of JSON; ``where`` names it for messages."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not valid JSON ({error}). Write one object on each line.") from error
    if not isinstance(record, dict):
        raise DataError(f"{where} is not an object. Write {{...}} with text, prompt and completion, or messages.")
    return record


def _row(encoding: Any, passage: Passage) -> TokenRow:
    """Return the tokens of a passage, with labels for the tokens that hold something of a span that counts"""
    token_ids = np.array(encoding.ids, np.int32)
    begin, end = np.array(encoding.offsets, np.int64).reshape(-1, 2).T
    counts = np.zeros(len(token_ids), bool)
    for first, last in passage.counted:
        counts |= (begin < last) & (end > first) & (end > begin)
    return TokenRow(token_ids, np.where(counts, token_ids, np.int32(IGNORED)))


def _packed(rows: Sequence[TokenRow], size: int) -> list[TokenRow]:
    """Pack the longest first, each into the fullest row with the capacity for it; the first token of an example has no label"""
    free: list[tuple[int, int]] = []
    bins: list[list[TokenRow]] = []
    for row in sorted(rows, key=lambda row: -len(row.token_ids)):
        at = bisect.bisect_left(free, (len(row.token_ids), -1))
        capacity, into = free.pop(at) if at < len(free) else (size, len(bins))
        if into == len(bins):
            bins.append([])
        labels = np.concatenate([[np.int32(IGNORED)], row.labels[1:]])
        bins[into].append(TokenRow(row.token_ids, labels, (len(row.token_ids),)))
        bisect.insort(free, (capacity - len(row.token_ids), into))
    packed = []
    for members in bins:
        token_ids, labels = (np.concatenate([row[part] for row in members]) for part in (0, 1))
        packed.append(TokenRow(token_ids, labels, [size for row in members for size in row.sizes]))
    return packed


def _read(path: Path) -> str:
    try:
        return read_whole(path).decode()
    except FileError as error:
        raise DataError(str(error)) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} is not written in UTF-8 ({error}). Convert it.") from error
