"""What all transports do alike."""

import ml_dtypes
import numpy as np
import pytest

from onnxgrad.distributed import Alone, run_local
from onnxgrad.errors import ArgumentError, TrainingError


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int64, np.uint8])
def test_all_ranks_get_the_sum_the_maximum_and_the_minimum(dtype):
    def work(transport):
        found = {}
        for op in ("sum", "max", "min"):
            found[op] = np.array([transport.rank, 1, 3 - transport.rank], dtype)
            transport.all_reduce_(found[op], op)
        return {op: value.tolist() for op, value in found.items()}

    assert run_local(3, work) == [{"sum": [3, 3, 6], "max": [2, 1, 3], "min": [0, 1, 1]}] * 3


def test_a_broadcast_gives_what_the_root_has():
    def work(transport):
        mine = np.full(4, transport.rank)
        transport.broadcast_(mine, root=1)
        transport.barrier()
        return mine.tolist()

    assert run_local(3, work) == [[1] * 4] * 3


def test_a_rank_that_fails_ends_the_others_and_its_error_is_the_one_that_is_raised():
    ended = []

    def work(transport):
        if transport.rank == 1:
            raise KeyError("lost")
        try:
            transport.barrier()
        except TrainingError:
            ended.append(transport.rank)
            raise

    with pytest.raises(KeyError, match="lost"):
        run_local(3, work)
    assert sorted(ended) == [0, 2]


def test_ranks_with_different_buffers_are_refused():
    with pytest.raises(ArgumentError, match=r"ranks reduce float64\[1\] and float64\[2\]"):
        run_local(2, lambda transport: transport.all_reduce_(np.zeros(transport.rank + 1)))


@pytest.mark.parametrize("buffer", [np.zeros((2, 2)), np.zeros(4)[::2], np.broadcast_to(np.zeros(1), (3,))])
def test_what_cannot_be_reduced_in_place_is_refused(buffer):
    with pytest.raises(ArgumentError, match="in place"):
        Alone().all_reduce_(buffer)
    with pytest.raises(ArgumentError, match="op is one of sum, max, min"):
        Alone().all_reduce_(np.zeros(1), "mean")
