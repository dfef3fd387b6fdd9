"""Ctrl-C at every line of what changes state: the old state is left or the new one, whole, and the run goes on as if nothing was."""

import copy
import pickle
import signal
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import distributed, static
from onnxgrad.core.runtime.denormals import FloatingPointMode
from onnxgrad.core.step import cut, make as making
from onnxgrad.distributed import Strategy, run_local
from onnxgrad.errors import ArgumentError, ArgumentTypeError, FeedError, TrainingError
from onnxgrad.training import Trainer, find_learning_rate
from tests.interrupting import interrupt, visits_of
from tests.training.small import data, model, weights

BATCH = data(8)


@pytest.fixture(autouse=True)
def floating_point_mode():
    """What is raised between the end of a run and what puts the mode back leaves it, in the thread of all later tests."""
    with FloatingPointMode(flushes=False):
        yield


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(cut, "SMALL", 4)
    monkeypatch.setattr(making, "PIECE", 10)


def trainer(**options):
    started = {"memory": None, "loss": "cross_entropy", "learning_rate": 0.02, "metrics": ["accuracy"], "threads": 1}
    t = Trainer(model(), **started | options)
    if t.schedule is not None and hasattr(t.schedule, "plan"):
        t.schedule.plan(20)
    return t


def state_of(t):
    """All that a checkpoint holds."""
    arrays = {name: value.tobytes() for name, value in weights(t).items()}
    return arrays, t.state.position(t.seed, t.accumulate, t.schedule)


class Case:
    """A call that is interrupted again and again, from one state.

    Attributes:
        begin: goes to the state before the call.
        call: the call.
        state: all that it may change.
        ends: whether it may have had its effect when it is interrupted.
    """

    def __init__(self, begin, call, state, ends=True):
        self.begin, self.call, self.state, self.ends = begin, call, state, ends
        begin()
        call()
        begin()
        self.old = state()

    def check(self, most, every):
        """Interrupt each line; gives how many lines there are."""
        visits, lines = visits_of(self.call, most, every)
        new = self.state()
        for number in visits:
            self.begin()
            where = interrupt(self.call, number)
            state = self.state()
            assert state == self.old or (self.ends and state == new), where
            if state == self.old:
                self.call()
                assert self.state() == new, where
        return lines


def saved(t, path, steps=3):
    """Go back to what is saved after some steps."""
    for _ in range(steps):
        t.step(BATCH)
    t.save(path)
    return lambda: t.load(path)


def step(path, **options):
    t = trainer(**options)
    return Case(saved(t, path), lambda: t.step(BATCH), lambda: state_of(t))


def evaluate(path):
    t = trainer(ema=0.9)
    return Case(saved(t, path), lambda: t.evaluate(BATCH), lambda: state_of(t), ends=False)


def predict(path):
    t = trainer(ema=0.9)
    return Case(saved(t, path), lambda: t.predict({"x": BATCH["x"]}), lambda: state_of(t), ends=False)


def export(path):
    t, file = trainer(ema=0.9), path.with_name("tuned.onnx")

    def begin():
        file.write_bytes(b"old")

    saved(t, path)
    return Case(begin, lambda: t.export(file), lambda: (state_of(t), file.read_bytes()))


def save(path):
    t, file = trainer(), path.with_name("again.safetensors")

    def begin():
        file.write_bytes(b"old")

    saved(t, path)
    return Case(begin, lambda: t.save(file), lambda: (state_of(t), file.read_bytes()))


def load(path):
    t, other = trainer(schedule="linear", warmup=1), path.with_name("other.safetensors")
    begin = saved(t, path)
    t.step(BATCH)
    t.save(other)
    return Case(begin, lambda: t.load(other), lambda: state_of(t))


def set_state_dict(path):
    t = trainer()
    begin = saved(t, path)
    other = {name: value + 1 for name, value in t.program.state_dict().items()}
    return Case(begin, lambda: t.program.set_state_dict(other), lambda: state_of(t))


def optimizer_set_state_dict(path):
    t = trainer(schedule="linear", warmup=1)
    begin = saved(t, path)
    other = {n: v if n == "LR_Scheduler" else v + 1 for n, v in t.optimizer.state_dict().items()}
    other["LR_Scheduler"] = {"last_epoch": 7, "last_lr": 0.5}
    return Case(begin, lambda: t.optimizer.set_state_dict(other), lambda: state_of(t))


def sweep(path):
    t = trainer()
    rows = data(64)  # batches of a few rows differ more than the loss falls in ten steps

    def call():
        find_learning_rate(t, rows, steps=10, batch_size=64)

    return Case(saved(t, path), call, lambda: (state_of(t), t.optimizer.get_lr(), t.program.plan.schedulers), ends=False)


def fit(path):
    t = trainer(ema=0.9)
    rows = {name: array[:12] for name, array in data(12).items()}

    def call():
        t.fit(rows, total_epochs=2, validation=rows, batch_size=6, prefetch=0, verbose=False)

    return t, saved(t, path, 1), call


CASES = {
    "step": step,
    "low": lambda path: step(path, memory="low"),
    "accumulated": lambda path: step(path, accumulate=2),
    "accumulated, low": lambda path: step(path, accumulate=2, memory="low"),
    "schedule, average": lambda path: step(path, schedule="cosine", warmup=2, ema=0.9),
    "evaluate": evaluate,
    "predict": predict,
    "export": export,
    "save": save,
    "load": load,
    "set_state_dict": set_state_dict,
    "set_state_dict of an optimizer": optimizer_set_state_dict,
    "find_learning_rate": sweep,
}


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_call_leaves_the_old_state_or_the_new_one(name, tmp_path):
    assert CASES[name](tmp_path / "begin.safetensors").check(most=1, every=29) > 10


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_a_call_may_be_interrupted_at_any_line(name, tmp_path):
    print(f"{name}: {CASES[name](tmp_path / 'begin.safetensors').check(most=1, every=1)} lines")


@pytest.mark.parametrize("every", [61, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_run_that_was_interrupted_ends_as_if_it_was_not(every, tmp_path):
    t, begin, call = fit(tmp_path / "begin.safetensors")
    begin()
    visits, _ = visits_of(call, 1, every)
    whole = state_of(t)
    for number in visits:
        begin()
        where = interrupt(call, number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where all was done, that nothing is trained
            call()
        t.go_to(replace(t.state, begun=whole[1].begun))
        assert state_of(t) == whole, where


def test_the_first_signal_ends_after_the_step_and_the_second_at_once():
    t, steps = trainer(), []

    def press(trainer, row):
        steps.append(row["step"])
        signal.raise_signal(signal.SIGINT)

    from onnxgrad.training import Callback

    class Presses(Callback):
        on_step = staticmethod(press)

    handler = signal.getsignal(signal.SIGINT)
    t.fit(data(), 2, batch_size=8, callbacks=[Presses()], verbose=False)
    assert steps == [1] and (t.step_number, t.batch) == (1, 1)

    class Twice(Callback):
        @staticmethod
        def on_step(trainer, row):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        t.fit(data(), total_epochs=2, batch_size=8, callbacks=[Twice()], verbose=False)
    assert (t.step_number, t.batch) == (2, 2) and signal.getsignal(signal.SIGINT) is handler
    t.fit(data(), total_epochs=2, batch_size=8, verbose=False)
    whole = trainer()
    whole.fit(data(), 2, batch_size=8, verbose=False)
    assert weights(t).keys() == weights(whole).keys()
    assert all((weights(t)[name] == value).all() for name, value in weights(whole).items())


# Averages in place ----------------------------------------------------------------------------------------------------


@pytest.fixture
def averaged():
    x = static.data("x", [None, 3])
    loss = paddle.mean(static.nn.fc(x, 2))
    paddle.optimizer.SGD(0.1).minimize(loss)
    ema = static.ExponentialMovingAverage(0.9)
    ema.update()
    executor = static.Executor(threads=1)
    executor.run(static.default_startup_program())
    for _ in range(3):
        executor.run(feed={"x": np.ones((2, 3), np.float32)})
    program = static.default_main_program()

    def values():
        return {p.name: p.get_value().tolist() for p in program.all_parameters()}

    return ema, executor, loss, values


def test_nested_blocks_of_averages_lose_no_weights(averaged):
    ema, _, _, values = averaged
    before = values()
    with ema.apply():
        inside = values()
        with ema.apply():
            assert values() == inside != before
        assert values() == inside
    assert values() == before
    with ema.apply(need_restore=False), ema.apply():
        pass
    assert values() == inside
    with ema.apply():
        assert values() == inside
    assert values() == before


@pytest.mark.parametrize("nested", [False, True])
def test_interrupted_averages_lose_no_weights(averaged, nested):
    ema, executor, loss, values = averaged
    feed, before = {"x": np.ones((2, 3), np.float32)}, values()
    program = loss.block.program.clone(for_test=True)

    def call():
        with ema.apply(executor):
            if nested:
                with ema.apply(executor):
                    executor.run(program, feed, [loss.name])
            executor.run(program, feed, [loss.name])

    call()
    for number in visits_of(call, 1)[0]:
        where = interrupt(call, number)
        if values() != before and where.startswith("/optimizer/average.py"):
            ema.restore()  # as __exit__ itself was not entered
        assert values() == before, where


# What is refused ------------------------------------------------------------------------------------------------------


def test_a_refused_run_has_not_stored_the_parameter_that_was_fed_with_it():
    x = static.data("x", [None, 3])
    w = static.create_parameter([3, 1], "float32", name="w")
    loss = paddle.mean(paddle.matmul(x, w))
    paddle.optimizer.SGD(0.1, parameters=[w]).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    before, new = w.get_value(), np.full((3, 1), 7, np.float32)
    for feed in ({"w": new}, {"w": new, "x": np.ones((2, 4), np.float32)}):
        with pytest.raises(FeedError):
            executor.run(feed=feed, fetch_list=[loss])
        assert (w.get_value() == before).all()
    executor.run(feed={"w": new, "x": np.ones((2, 3), np.float32)}, fetch_list=[loss])
    np.testing.assert_allclose(w.get_value(), new - 0.1, rtol=1e-6)


def program():
    t = trainer()
    return t.program.set_state_dict, t.program.state_dict(), lambda: state_of(t)


def optimizer():
    t = trainer(schedule="linear", warmup=1)
    t.step(BATCH)
    return t.optimizer.set_state_dict, t.optimizer.state_dict(), lambda: state_of(t)


@pytest.mark.parametrize("owner", [program, optimizer])  # a layer skips the entry with a warning, as in Paddle
def test_state_of_which_an_entry_does_not_fit_is_not_set(owner):
    set_state_dict, entries, state = owner()
    before = state()
    arrays = {n: np.asarray(v) + 1 for n, v in entries.items() if n != "LR_Scheduler"}
    for name in arrays:
        if arrays[name].shape:
            with pytest.raises(ArgumentError):
                set_state_dict({**arrays, name: np.zeros((5, 7), arrays[name].dtype)})
            assert state() == before
    if "LR_Scheduler" in entries:
        with pytest.raises(ArgumentError, match="lacks"):
            set_state_dict({**arrays, "LR_Scheduler": {"last_epoch": 3}})
        assert state() == before


def test_a_schedule_of_which_an_entry_is_missing_is_not_set():
    lr = paddle.optimizer.lr
    schedule = lr.LinearWarmup(lr.StepDecay(0.5, 2), 2, 0.0, 0.5)
    before = copy.deepcopy(schedule.state_dict())
    for entries in ({"last_epoch": 5}, {"last_epoch": 5, "last_lr": 0.1}, {**before, "LinearWarmup_LR": {"last_epoch": 4}}):
        with pytest.raises(ArgumentError, match="lacks"):
            schedule.set_state_dict(entries)
        assert schedule.state_dict() == before


# Copies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_what_is_copied_works_and_what_is_not_says_what_to_do():
    t = trainer()
    t.step(BATCH)
    variable, program = t.loss, t.program
    for owner in (t, program, variable, t.trained[0], variable.op, program.global_block(), program.active_scope(), t.optimizer):
        with pytest.raises(ArgumentTypeError, match=r"\. [A-Z]\w+ "):
            pickle.dumps(owner)
    for owner in (t, variable.op, program.global_block()):
        with pytest.raises(ArgumentTypeError, match=r"\. [A-Z]\w+ "):
            copy.deepcopy(owner)
    opened = t.executor.step(program, [variable])
    assert copy.deepcopy(opened) is opened
    for run in (copy.deepcopy(t.state), pickle.loads(pickle.dumps(t.state))):
        assert run.position(0, 1, None) == t.state.position(0, 1, None)
    for executor in (copy.deepcopy(t.executor), pickle.loads(pickle.dumps(t.executor))):
        assert executor.threads == 1 and executor.place == t.executor.place
        twin, loss = copy.deepcopy((program, variable))
        assert loss.block.program is twin and twin.scope is not program.scope
        before = state_of(t)
        feed = t.model.feed_of(BATCH, t.executor)
        (first,) = executor.run(twin, dict(feed), [loss])
        assert state_of(t) == before
    (second,) = t.executor.run(program, dict(feed), [variable])
    assert first == second
    assert all((v.get_value() == twin.find(v.name).get_value()).all() for v in program.list_vars() if v.persistable)


# Ranks ----------------------------------------------------------------------------------------------------------------


def on_ranks(work, count=2):
    def one(transport):
        with distributed.using(transport):
            return work(transport)

    return run_local(count, one)


def half(transport):
    rows = slice(transport.rank * 4, transport.rank * 4 + 4)
    return {name: array[rows] for name, array in BATCH.items()}


PIPELINES = {
    "plain": {"distributed": Strategy(pipeline=2, micro_batches=2)},
    "accumulated": {"distributed": Strategy(pipeline=2, micro_batches=2), "accumulate": 2},
    "averaged": {"distributed": Strategy(pipeline=2, micro_batches=3), "ema": 0.9, "schedule": "linear", "warmup": 1},
}


@pytest.mark.one_in(5)  # of 6 with few lines two
@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("options", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.parametrize("every", [53, pytest.param(7, marks=pytest.mark.exhaustive)])
def test_each_stage_of_a_pipeline_has_the_old_state_or_the_new_one(options, every, stage):
    interrupt_ranks(options, every, lambda transport: BATCH, stage)


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}], ids=str)
@pytest.mark.parametrize("every", [53, pytest.param(5, marks=pytest.mark.exhaustive)])
def test_each_rank_has_the_old_state_or_the_new_one(options, every):
    interrupt_ranks({"distributed": True, **options}, every, half, 1)


def interrupt_ranks(options, every, batch_of, interrupted):
    """Interrupt a step of one rank at some lines: each rank then has the old state or the new one"""

    def train(number, visits=None):
        warm = threading.Event()

        def work(transport):
            t = trainer(batch_norm="frozen", **options)
            batch = batch_of(transport)
            for _ in range(3):
                t.step(batch)
            states = [state_of(t)]
            if transport.rank != interrupted:
                warm.set()
            warm.wait()
            try:
                if transport.rank == interrupted and visits is not None:
                    visits.extend(visits_of(lambda: t.step(batch), 1, every)[0])
                elif transport.rank == interrupted and number is not None:
                    states.append(interrupt(lambda: t.step(batch), number))
                    transport._group.abort()
                else:
                    t.step(batch)
            except TrainingError:
                assert number is not None
            return [*states, state_of(t)]

        return on_ranks(work)

    visits = []
    reference = train(None, visits)
    assert len(visits) > 5
    for number in visits:
        for (old, *where, state), (known, new) in zip(train(number), reference, strict=True):
            assert old == known, [name for name in known[0] if known[0][name] != old[0][name]]
            assert state in (old, new), (where, [name for name in new[0] if state[0][name] not in (old[0][name], new[0][name])])


@pytest.mark.parametrize("strategy", [True, Strategy(pipeline=2, micro_batches=2)], ids=["ranks", "stages"])
def test_the_next_step_refuses_ranks_of_which_one_was_interrupted(strategy):
    def work(transport):
        t = trainer(distributed=strategy, batch_norm="frozen")
        t.step(half(transport) if strategy is True else BATCH)
        before = state_of(t)
        if transport.rank:
            t.go_to(replace(t.state, step=0))
            before = state_of(t)
        with pytest.raises(TrainingError, match=r"rank 1 of 2 cannot train with rank 0: it has another step number \(1, not 2\)"):
            t.step(half(transport) if strategy is True else BATCH)
        assert state_of(t) == before
        return True

    assert on_ranks(work) == [True, True]


@pytest.mark.parametrize("count", [2, 3])
def test_a_run_on_ranks_is_resumed_to_the_bit_within_an_accumulated_update(tmp_path, count):
    rows = data(18)
    run = {"epochs": 2, "batch_size": 6, "verbose": False}

    def whole(transport):
        t = trainer(distributed=True, batch_norm="frozen", accumulate=4)
        t.fit(rows, **run)
        return state_of(t)[0]

    def first(transport):
        t = trainer(distributed=True, batch_norm="frozen", accumulate=4)
        t.fit(rows, **run, max_steps=2, out=tmp_path)

    def rest(transport):
        t = trainer(distributed=True, batch_norm="frozen", accumulate=4)
        t.fit(rows, **run, out=tmp_path, resume=True)
        return state_of(t)[0]

    on_ranks(first, count)
    assert on_ranks(rest, count) == on_ranks(whole, count)
