"""Inputs of a language model that follow from its tokens: an empty cache, the mask, the positions, the labels.

Exporters and generation libraries agree on the names: ``input_ids``, ``attention_mask``, ``position_ids``, ``past_key_values.*``;
the text part of a model that also sees takes ``inputs_embeds`` in place of tokens.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import needed_operators
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.inputs import COLUMN, as_array
from onnxgrad.errors import DataError
from onnxgrad.training.data.rows import Batch

__all__ = ["EMBEDDED", "TOKENS", "DerivedInputs", "advice_on_missing", "read_by_loss"]

Array = np.ndarray[Any, Any]
TOKENS, EMBEDDED, MASK, POSITIONS, PAST = "input_ids", "inputs_embeds", "attention_mask", "position_ids", "past"
SEGMENTS = "packed_text_ids"
"""Which text of a packed row each token belongs to."""
IGNORED = -100
"""The label of what does not count."""
_SHORT = 16


class DerivedInputs:
    """The inputs of a program that need not be fed, and how they are computed.

    Args:
        program: a program with its targets attached.
        labels: the target columns of causal_lm, which follow from the tokens too.

    Attributes:
        names: of the inputs that follow from others.
        follows: for each of these that the model has, what it is and from which input it follows.
        read: names of columns that are looked at where the data has them.
        remarks: a line on each kind of them.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids, int64[N, S] attention_mask) => '
        >>> program = onnxgrad.from_onnx(parser.parse_model(text + "(int64[N, S] y) { y = Mul(input_ids, attention_mask) }"))
        >>> DerivedInputs(program).complete({"input_ids": np.array([[7, 8]])})["attention_mask"]
        array([[1, 1]])
    """

    def __init__(self, program: Program, labels: Sequence[Variable] = ()) -> None:
        self._made: dict[str, Callable[[Batch], Array]] = {}
        self._windowed = False
        self._source, self._source_rank = TOKENS, 2
        self.follows: dict[str, str] = {}
        self.remarks: list[str] = []
        inputs = {v.name: v for v in program.inputs}
        tokens, embedded = inputs.get(TOKENS), inputs.get(EMBEDDED)
        if tokens is not None and tokens.rank == 2 and tokens.dtype.is_integer:
            self._source, self._source_rank = TOKENS, 2
        elif tokens is None and embedded is not None and embedded.rank == 3 and embedded.is_float:
            self._source, self._source_rank, labels = EMBEDDED, 3, ()
        else:
            return
        past = [v for v in inputs.values() if v.name.startswith(PAST) and v.is_float and v.dims and len(v.dims) > 1]
        mask, positions = inputs.get(MASK), inputs.get(POSITIONS)
        if past:
            self.remarks.append(f"{_together([v.name for v in past])} are fed as an empty cache unless the data has them.")
        self._made.update((v.name, _empty(v)) for v in past)
        self.follows.update((v.name, f"an empty cache, a row for each row of {self._source}") for v in past)
        if mask is not None and mask.rank == 2:
            self.remarks.append(f"{MASK} is 1 everywhere unless the data has it.")
            self._made[MASK] = _ones
            self.follows[MASK] = f"1 for each position of {self._source}"
        if positions is not None and positions.rank == 2:
            self.remarks.append(f"{POSITIONS} count the positions where {MASK} is 1 unless the data has them.")
            self._made[POSITIONS] = _positions
            self.follows[POSITIONS] = f"counted from {self._source if mask is None else MASK}"
        elif positions is not None and positions.rank == 3 and positions.dims is not None and positions.dims[0] == 3:
            self.remarks.append(
                f"{POSITIONS} in time, height and width are the positions of text: each counts the positions where "
                f"{MASK} is 1, unless "
                "the data has them."
            )
            self._made[POSITIONS] = _positions_of_text
            self.follows[POSITIONS] = f"counted from {self._source if mask is None else MASK}, three times, as for text"
        self._windowed = any(op.attrs.get("sliding_window_cache") for v in past for op in _readers(v))
        if self._windowed:
            self.remarks.append(f"{MASK} hides no padding on the right, which a window cache does not support and no token reads.")
        if SEGMENTS in inputs:
            self._made[SEGMENTS] = _one_text
        for v in labels:
            self.remarks.append(f"{v.name} are {TOKENS}, and -100 where {MASK} is 0, unless the data has them.")
            self._made[v.name] = _labels

    @property
    def names(self) -> list[str]:
        return list(self._made)

    @property
    def read(self) -> set[str]:
        return {*self._made, MASK} if self._made else set()

    def complete(self, batch: Batch) -> Batch:
        """The batch with what it lacks of these inputs.

        Raises:
            DataError: if the size of a cache is not known, or the tokens have not two axes.
        """
        missing = [name for name in self._made if name not in batch]
        if (not missing and not self._windowed) or self._source not in batch:
            return batch
        arrays = {name: as_array(array, name, COLUMN) for name, array in batch.items()}
        if arrays[self._source].ndim != self._source_rank:
            takes = "[batch, steps]" if self._source == TOKENS else "[batch, steps, size]"
            raise DataError(
                f"column {self._source!r} has shape {list(arrays[self._source].shape)}, the model takes {takes}. Reshape it."
            )
        for name in sorted(missing, key=lambda name: name.startswith(PAST)):  # a cache that is created here holds no tokens
            arrays[name] = self._made[name](arrays)
        if self._windowed and MASK in arrays and arrays[MASK].ndim == 2 and (np.diff(arrays[MASK], axis=1) <= 0).all():
            arrays[MASK] = np.ones_like(arrays[MASK])
        return arrays

    def short_row(self, feed: Batch) -> Batch:
        """The first example of a completed batch, of a text its first 16 tokens, with an empty cache."""
        tokens = feed.get(self._source)
        rows, steps = (None, None) if tokens is None or tokens.ndim != self._source_rank else tokens.shape[:2]
        row: Batch = {}
        for name, array in feed.items():
            if steps is not None and name in self._made and self._made[name] is not _labels:
                continue
            part = array[:1] if getattr(array, "ndim", 0) and rows in (None, len(array)) else array
            row[name] = part[:, :_SHORT] if steps is not None and part.ndim > 1 and part.shape[1] == steps else part
        return self.complete(row)


def read_by_loss(inputs: Sequence[Variable], loss: Variable) -> tuple[list[Variable], list[str]]:
    """The inputs that a loss reads, and the names of the others."""
    operators = needed_operators(list(loss.block.program.global_block().ops), [loss])
    read = {v for op in operators for v in op.operands()} | {loss}
    return [v for v in inputs if v in read], [v.name for v in inputs if v not in read]


def advice_on_missing(name: str) -> str:
    """Say what to do about an input that the data lacks."""
    if name == EMBEDDED:
        return (
            "Rename or add it: this part of a model reads embeddings, which another file of it computes; run that file on the "
            "tokens, and give its output beside labels, [rows, steps]"
        )
    return "Rename or add it"


def _together(names: Sequence[str]) -> str:
    """``past_key_values.* (4 inputs)``, or the name of a single one"""
    return names[0] if len(names) == 1 else f"{names[0].partition('.')[0]}.* ({len(names)} inputs)"


def _sizes(batch: Batch) -> tuple[int, int]:
    """Rows and steps"""
    rows, steps = batch[TOKENS if TOKENS in batch else EMBEDDED].shape[:2]
    return int(rows), int(steps)


def _mask(batch: Batch) -> Array:
    return batch[MASK] if MASK in batch else np.ones(_sizes(batch), np.int64)


def _past_steps(batch: Batch) -> int:
    """Return the number of tokens in the cache that the data feeds"""
    return max(0, int(_mask(batch).shape[1]) - _sizes(batch)[1])


def _ones(batch: Batch) -> Array:
    """Return a mask of ones, one for each token and for each token of a cache in the data"""
    past_steps = [v.shape[2] for name, v in batch.items() if name.startswith(PAST) and v.ndim == 4]
    rows, steps = _sizes(batch)
    return np.ones((rows, steps + max(past_steps, default=0)), np.int64)


def _one_text(batch: Batch) -> Array:
    return np.zeros_like(batch[TOKENS], np.int64)


def _positions(batch: Batch) -> Array:
    if SEGMENTS in batch:
        return _positions_in_texts(batch[SEGMENTS])
    counted = np.cumsum(_mask(batch), axis=1) - 1
    positions: Array = np.maximum(counted, 0)[:, _past_steps(batch) :].astype(np.int64)
    return positions


def _positions_of_text(batch: Batch) -> Array:
    """[3, rows, steps]"""
    return np.stack([_positions(batch)] * 3)


def _positions_in_texts(texts: Array) -> Array:
    """Count the tokens of each text of a row from 0; those of padding, -1, are all at 0"""
    steps = np.broadcast_to(np.arange(texts.shape[1]), texts.shape)
    begins = np.ones(texts.shape, bool)
    begins[:, 1:] = texts[:, 1:] != texts[:, :-1]
    positions = steps - np.maximum.accumulate(np.where(begins, steps, 0), axis=1)
    return np.where(texts < 0, 0, positions).astype(np.int64)


def _labels(batch: Batch) -> Array:
    shown = _mask(batch)[:, _past_steps(batch) :]
    return np.where(shown != 0, batch[TOKENS], IGNORED).astype(np.int64)


def _empty(v: Variable) -> Callable[[Batch], Array]:
    """Zeros of the shape of a cache that holds nothing: [rows, heads, 0, size of a head]; a state or window is all zeros"""
    assert v.dims is not None
    dims: list[Any] = list(v.dims)
    for axis in range(1, len(dims)):
        free = not isinstance(dims[axis], int)
        if free and len(dims) == 4 and axis == 2:
            dims[axis] = _capacity(v)
        elif free:
            dims[axis] = _size_of_head(v) if len(dims) == 4 and axis == 3 else None

    def make(batch: Batch) -> Array:
        if None in dims[1:]:
            raise DataError(f"the shape of {v.name!r}, {list(v.dims or ())}, does not give the size of the cache. Feed it by name.")
        rows = _sizes(batch)[0] if not isinstance(dims[0], int) else dims[0]
        return np.zeros((rows, *dims[1:]), v.dtype.numpy)

    return make


def _readers(cache: Variable) -> list[Operator]:
    return [op for op in cache.block.ops if any(v is cache for v in op.inputs)]


def _capacity(cache: Variable) -> int:
    """Steps of an empty cache: 0, and of one that holds a window of them as many as the window has"""
    for op in _readers(cache):
        if op.attrs.get("sliding_window_cache"):
            return max(0, int(op.attrs.get("local_window_size", 0)))
    return 0


def _size_of_head(cache: Variable) -> int | None:
    """Return the size of a head that the attention which reads a cache has: files often leave it open in the cache"""
    return next((size for size in map(_head_of, _readers(cache)) if size is not None), None)


def _head_of(op: Operator) -> int | None:
    together = op.outputs[0]
    if op.type == "Concat" and together is not None and together.rank == 4 and together.dims is not None:
        return together.dims[3] if isinstance(together.dims[3], int) else None
    query, key = (op.inputs[i] if len(op.inputs) > i else None for i in (0, 1))
    width = query.dims[-1] if query is not None and query.dims else None
    heads = op.attrs.get("num_heads")
    if not isinstance(width, int) or not isinstance(heads, int):
        return None
    if op.type == "GroupQueryAttention" and key is None:
        heads += 2 * int(op.attrs.get("kv_num_heads", heads))
    return width // heads
