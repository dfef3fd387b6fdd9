"""What all transports do alike."""

import ml_dtypes
import numpy as np
import pytest

from onnxgrad.distributed import Alone, run_local
from onnxgrad.distributed.transport import all_gather_by_pairs, all_to_all_by_pairs, own_range, reduce_scatter_by_pairs
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


class Sends:
    """What an engine without collectives of ranges has"""

    def __init__(self, transport):
        self.rank, self.world_size = transport.rank, transport.world_size
        self.send, self.receive_ = transport.send, transport.receive_

    reduce_scatter_, all_gather_, all_to_all_ = reduce_scatter_by_pairs, all_gather_by_pairs, all_to_all_by_pairs


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int64, np.uint8])
def test_ranges_of_a_buffer_are_added_up_gathered_and_exchanged(dtype):
    def work(transport):
        answers = []
        for engine in (transport, Sends(transport)):
            for name in ("reduce_scatter_", "all_gather_", "all_to_all_"):
                buffer = np.arange(6).astype(dtype) + np.array(10 * transport.rank, dtype)
                getattr(engine, name)(buffer)
                answers.append((own_range(transport, buffer) if name == "reduce_scatter_" else buffer).tolist())
        assert answers[:3] == answers[3:]
        return answers[:3]

    for rank, (total, gathered, exchanged) in enumerate(run_local(3, work)):
        assert total == [30 + 6 * rank, 33 + 6 * rank]
        assert gathered == [0, 1, 12, 13, 24, 25]
        assert exchanged == [10 * other + 2 * rank + number for other in range(3) for number in range(2)]


def test_a_buffer_without_equal_ranges_is_refused():
    for name in ("reduce_scatter_", "all_gather_", "all_to_all_"):
        with pytest.raises(ArgumentError, match="5 elements are no equal ranges of 2 ranks"):
            run_local(2, lambda transport, name=name: getattr(transport, name)(np.zeros(5)))


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


def test_what_is_sent_arrives_in_order_and_may_be_written_over():
    def run(transport):
        after, before = (transport.rank + 1) % 3, (transport.rank - 1) % 3
        buffer = np.zeros(2)
        for number in range(4):
            buffer[:] = 10 * transport.rank + number
            transport.send(buffer, after)
        found = []
        for _ in range(4):
            transport.receive_(buffer, before)
            found.append(buffer[0])
        return found

    assert run_local(3, run) == [[20, 21, 22, 23], [0, 1, 2, 3], [10, 11, 12, 13]]


def test_a_rank_that_waits_for_one_that_failed_ends():
    def run(transport):
        if transport.rank:
            raise ValueError("the first error")
        transport.receive_(np.zeros(2), 1)

    with pytest.raises(ValueError, match="the first error"):
        run_local(2, run)


def test_buffers_that_differ_are_refused():
    def run(transport):
        if transport.rank:
            transport.send(np.zeros(3), 0)
        else:
            transport.receive_(np.zeros(2), 1)

    with pytest.raises(ArgumentError, match="rank 1 sent"):
        run_local(2, run)
