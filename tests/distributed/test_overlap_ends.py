"""Gradients that are read while others travel, and steps that fail while gradients travel."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.runtime import applying, staged
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.step.stages import in_steps
from onnxgrad.distributed import Strategy, fleet
from onnxgrad.distributed.exchange import GradientExchange
from onnxgrad.errors import ExecutionError, TrainingError
from tests.distributed import test_programs
from tests.distributed.ranks import ROOT, answers, needs_mpi, run
from tests.distributed.test_programs import build, on_ranks, small_pieces, trained
from tests.peak_memory import PEAK

__all__ = ["small_pieces"]

F = paddle.nn.functional


def tied(transport, strategy):
    """A table that is read twice and used for scores, a parameter that the loss does not depend on, statistics of batches."""
    with test_programs._BUILDING:
        program, startup = static.Program(), static.Program()
        with static.program_guard(program, startup), paddle.utils.unique_name.guard():
            words, label = static.data("words", ["N", 3], "int64"), static.data("label", ["N"], "int64")
            table = static.create_parameter([11, 6], "float32", name="table")
            static.create_parameter([5, 5], "float32", name="unused")
            hidden = paddle.mean(F.embedding(words, table) + F.embedding(words * 2 % 11, table), axis=1)
            hidden = static.nn.batch_norm(static.nn.fc(hidden, 6, activation="tanh"))
            loss = F.cross_entropy(paddle.matmul(static.nn.fc(hidden, 6), table, transpose_y=True), label)
            fleet.distributed_optimizer(paddle.optimizer.Momentum(0.1, 0.9), strategy).minimize(loss)
        program.scope = startup.scope = paddle.Scope()
        static.Executor().run(startup)
    draw = np.random.default_rng(3)
    for p in program.all_parameters():
        p.set_value(draw.normal(0, 0.5, p.shape).astype(np.float32))
    rows = {"words": draw.integers(0, 11, (4, 6, 3)), "label": draw.integers(0, 11, (4, 6))}
    executor, mine = Executor(threads=1), slice(*([0, 4], [4, 6])[transport.rank])
    losses = [executor.run(program, {k: v[i, mine] for k, v in rows.items()}, [loss])[0].item() for i in range(4)]
    return losses, {v.name: np.asarray(v.get_value()) for v in program.list_vars() if v.persistable}


def test_a_gradient_that_is_read_later_is_not_written_over_before():
    """In three sessions the third read what the exchange had scaled and added up by then"""
    expected = on_ranks(2, lambda t: tied(t, Strategy(overlap=1, batch_norm="local")))
    for sessions in (2, 3, 5):
        found = on_ranks(2, lambda t, n=sessions: tied(t, Strategy(overlap=n, batch_norm="local")))
        for (losses, state), (wanted, other) in zip(found, expected, strict=True):
            assert losses == wanted
            for name, value in other.items():
                np.testing.assert_array_equal(state[name], value, name)


def test_no_later_graph_reads_the_outputs_of_a_step():
    """The second step is in the first then, and the number of the third says that the second is complete too"""
    x = static.data("x", [None, 4])
    first = paddle.tanh(x)
    second = first * 2.0
    third = paddle.exp(x)
    graph = compile(x.block.program, [first, second, third], state_as_inputs=True, ordered=True)
    found = in_steps(graph, [[graph.of(first)], [graph.of(second)]])
    assert list(found) == [0, 2]
    assert [[v.name for v in stage.inputs] for stage in found.values()] == [["x"], ["x"]]


def test_every_bucket_is_sent_once_whatever_the_sessions_are(monkeypatch):
    """A group that an earlier session has computed travels with the next one"""
    send, sent = GradientExchange.send, []
    reduce = GradientExchange._reduce_bucket
    monkeypatch.setattr(
        GradientExchange, "send", lambda self, number, fetched: send(self, number, fetched) if number != 1 else None
    )
    monkeypatch.setattr(
        GradientExchange, "_reduce_bucket", lambda self, number, factor: (sent.append(number), reduce(self, number, factor))[1]
    )
    expected = trained(formula="mean")
    (_, state, exchange), _ = on_ranks(2, lambda t: trained(t, strategy=Strategy(overlap=4)))
    assert sorted(sent) == sorted(list(range(len(exchange._buckets.flat))) * 5 * 2)
    for name, value in expected[1].items():
        np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


_PEAK = """
import sys
import numpy as np
import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.distributed import Alone, Strategy, agreement, distribute, exchange

class Two(Alone):
    world_size = 2

exchange.check_equal = lambda *given: None
agreement.StepCheck.check = lambda *given: None
program, startup = static.Program(), static.Program()
with static.program_guard(program, startup):
    h = static.data("x", [None, 3, 64, 64])
    for channels in (32, 32, 64, 64):
        h = static.nn.conv2d(h, channels, 3, padding=1, act="relu")
    loss = paddle.mean(paddle.square(h))
    paddle.optimizer.SGD(1e-4).minimize(loss)
distribute(program, loss, Two(), Strategy(overlap=int(sys.argv[1])))
executor = paddle.Executor(threads=1)
executor.run(startup)
before = peak()
for _ in range(3):
    executor.run(program, {"x": np.ones((16, 3, 64, 64), np.float32)}, [loss])
print(peak() - before)
"""


@pytest.mark.process
@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from Linux")
def test_sessions_take_turns_in_one_memory():
    """With memory of their own they took 1.5 times as much; what one reads for the last time is held until its end"""

    def peak(sessions):
        command = [sys.executable, "-c", PEAK + _PEAK, str(sessions)]
        return int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout)

    assert peak(4) < 1.25 * peak(1)


# Steps that fail -------------------------------------------------------------------------------------------------------


def step(strategy):
    """A program, and what makes one step of it"""
    program, loss = build("mean", lambda: fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy))
    executor, feed = Executor(threads=1), {"x": test_programs.X[0], "y": test_programs.Y[0]}
    return program, lambda: executor.run(program, feed, [loss])[0].item()


def weights(program):
    return [p.get_value().copy() for p in program.all_parameters()]


def test_an_exchange_that_fails_is_told_and_the_next_step_is_whole(monkeypatch):
    reduce, failures = GradientExchange._reduce_bucket, {}

    def fails(self, number, factor):
        if number == 1 and self.transport.rank not in failures:
            failures[self.transport.rank] = threading.current_thread().name
            raise TrainingError("the network is down")
        reduce(self, number, factor)

    def one(transport, fails_first=True):
        program, run = step(Strategy(overlap=3))
        if fails_first:
            before = weights(program)
            with pytest.raises(TrainingError, match="the network is down"):
                run()
            assert all(map(np.array_equal, weights(program), before))
        run()
        return weights(program)

    expected = on_ranks(2, lambda transport: one(transport, False))
    monkeypatch.setattr(GradientExchange, "_reduce_bucket", fails)
    for found, wanted in zip(on_ranks(2, one), expected, strict=True):
        assert all(map(np.array_equal, found, wanted))
    assert failures == {0: "onnxgrad-exchange", 1: "onnxgrad-exchange"}


def test_a_run_that_fails_leaves_nothing_on_its_way(monkeypatch):
    """The first bucket returns late; whoever catches the error finds the transport free"""
    broken, late = threading.Event(), threading.Event()

    class Failing:
        def __init__(self, session):
            self._session = session

        def __getattr__(self, name):
            return getattr(self._session, name)

        def run_with_iobinding(self, *given):
            if broken.is_set():
                late.set()
                raise RuntimeError("out of memory")
            self._session.run_with_iobinding(*given)

    class Staged(staged.StagedSession):
        def __init__(self, sessions, *given):
            super().__init__([sessions[0], Failing(sessions[1]), *sessions[2:]], *given)

    monkeypatch.setattr(applying, "StagedSession", Staged)
    reduce, done = GradientExchange._reduce_bucket, []

    def slow(self, number, factor):
        if broken.is_set():
            assert late.wait(20)
            done.append(number)
        reduce(self, number, factor)

    monkeypatch.setattr(GradientExchange, "_reduce_bucket", slow)

    def one(transport):
        program, run = step(Strategy(overlap=3))
        run()
        transport.barrier()
        broken.set()
        with pytest.raises(ExecutionError, match="out of memory"):
            run()
        assert program.exchange._under_way is None
        transport.barrier()
        broken.clear()
        transport.barrier()
        return run()

    first, second = on_ranks(2, one)
    assert first == second
    assert done == [0, 0]


# Real processes --------------------------------------------------------------------------------------------------------

_STEPS = """
import hashlib, os, signal, time
import numpy as np
from onnxgrad import distributed
from onnxgrad.distributed import Strategy
from onnxgrad.distributed.exchange import GradientExchange
from onnxgrad.training import Trainer
from tests.distributed.ranks import answer
from tests.training.small import data, model, weights
transport = distributed.init(timeout=2 if HOW == "hang" else 60)
send, calls = GradientExchange.send, []

def ending(self, number, fetched):
    calls.append(number)
    if HOW and len(calls) == 6 and self.transport.rank == 1:
        if HOW == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if HOW == "raise":
            raise KeyError("lost")
        time.sleep(600)
    send(self, number, fetched)

GradientExchange.send = ending

def digest(overlap):
    strategy = Strategy(overlap=overlap, bucket_megabytes=1e-6)
    t = Trainer(model(), loss="cross_entropy", learning_rate=0.02, batch_norm="frozen", distributed=strategy)
    t.fit(data(), 3, batch_size=9)
    return hashlib.sha256(b"".join(np.asarray(v).tobytes() for _, v in sorted(weights(t).items()))).hexdigest()

plain = digest(1)
assert not calls
answer({"rank": distributed.rank(), "plain": plain, "overlapped": digest(3), "groups": sorted(set(calls))})
"""


@pytest.mark.exhaustive
@pytest.mark.process
@needs_mpi
def test_ranks_of_mpi_take_the_same_steps():
    """A bucket for each gradient in both, as MPI may add up in an order that depends on the place in a buffer"""
    found = answers(4, _STEPS.replace("HOW", "None"))
    assert len({one[kind] for one in found for kind in ("plain", "overlapped")}) == 1
    assert all(one["groups"] == [0, 1] for one in found)


@pytest.mark.process
@pytest.mark.exhaustive
@needs_mpi
@pytest.mark.parametrize(
    ("how", "said"),
    [("kill", "rank 1 of 3 has died"), ("raise", "rank 1 of 3 has raised KeyError: 'lost'"), ("hang", "rank 1 of 3 hangs: rank ")],
)
def test_a_rank_that_ends_while_gradients_travel_ends_all_by_name(how, said):
    code, _, errors = run(3, "-c", _STEPS.replace("HOW", repr(how)), timeout=90)
    told = [line for line in errors.splitlines() if line.startswith("onnxgrad: ")]
    assert code != 0
    assert len(told) == 1 and told[0].startswith("onnxgrad: " + said), errors
