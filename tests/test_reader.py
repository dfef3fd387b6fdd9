"""Readers of Paddle 1: what the examples of onnxgrad.reader do not show."""

import random

import pytest

import onnxgrad as paddle
from onnxgrad.errors import ArgumentError


def test_readers_begin_anew_with_each_call():
    random.seed(3)
    reads = []

    def read():
        reads.append(len(reads))
        yield from range(7)

    kept = paddle.reader.cache(read)
    batches = paddle.batch(paddle.reader.shuffle(kept, buf_size=4), batch_size=3, drop_last=True)
    epochs = [list(batches()), list(batches())]
    assert [len(epoch) for epoch in epochs] == [2, 2] and epochs[0] != epochs[1] and reads == [0]
    blocks = [sample for epoch in epochs for group in epoch for sample in group[:3]]
    assert set(blocks) <= set(range(7)) and sorted([*epochs[0][0], epochs[0][1][0]]) == [0, 1, 2, 3]


def test_readers_of_other_lengths_are_not_composed():
    pair = [lambda: [1, 2], lambda: [3]]
    assert list(paddle.reader.compose(*pair, check_alignment=False)()) == [(1, 3)]
    with pytest.raises(ArgumentError, match="fewer samples"):
        list(paddle.reader.compose(*pair)())
    with pytest.raises(ArgumentError, match="at least 1"):
        paddle.batch(pair[0], 0)


def test_readers_that_work_ahead_keep_the_order():
    doubled = paddle.reader.xmap_readers(lambda x: 2 * x, lambda: range(4), process_num=2, buffer_size=2)
    assert list(paddle.reader.buffered(doubled, 8)()) == [0, 2, 4, 6] == list(doubled())
