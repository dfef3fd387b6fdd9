"""Ranks that differ are refused before the first step, or in the step in which they begin to differ: on all of them, by name."""

import re

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad.distributed import PipelineStep, ShardedStep, Strategy, agreement, exchange, run_local
from onnxgrad.distributed.agreement import StepCheck, Subject, check_equal
from onnxgrad.distributed.environment import current
from onnxgrad.errors import TrainingError
from onnxgrad.training import Callback
from onnxgrad.training.data.changes import Changes
from onnxgrad.training.data.fingerprints import content_of, described
from onnxgrad.training.data.kinds.column import Reading
from onnxgrad.training.data.kinds.picture import LazyPictures, PictureColumn
from onnxgrad.training.data.kinds.words import WordsColumn
from onnxgrad.training.data.lazy_rows import LazyRows
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.data.rows import Columns, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.ranks import subjects
from onnxgrad.training.run.rate_finder import find_learning_rate
from tests.distributed import test_programs as programs
from tests.distributed.test_divisors import BESIDE, LABELS
from tests.distributed.test_trainer import on_ranks, trainer
from tests.training.small import assert_equal, data, weights

ODD = "rank 1 of 3 cannot train with rank 0: it has "


def refusals(work, count=3):
    """What each rank is refused with; ``work`` is given the transport, and whether this rank is the one that differs"""

    def one(transport):
        with pytest.raises(TrainingError) as refusal:
            work(transport, transport.rank == 1)
        return str(refusal.value)

    return on_ranks(count, one, timeout=20)


def assert_refused(work, message, count=3):
    for refusal in refusals(work, count):
        assert re.match(message, refusal), refusal


# Before the first step ------------------------------------------------------------------------------------------------


class Hears(Callback):
    def on_step(self, trainer, row):
        pass


def rows(change=False):
    columns = data()
    columns["x"][-1, -1] += change
    return columns


FIT = {
    "batch_size": (8, 5, r"another batch size \(5, not 8\). Pass the same batch_size to fit on all ranks"),
    "epochs": (2, 3, r"another number of epochs in all \(3, not 2\)"),
    "max_steps": (4, 3, r"another number of steps in all \(3, not 4\)"),
    "shuffle": (True, False, r"another order of the data: shuffle \(False, not True\)"),
    "drop_last": (False, True, r"another last batch: drop_last \(True, not False\)"),
    "patience": (None, 3, r"another patience \(3, not None\)"),
    "monitor": ("loss", "accuracy", r"another value to monitor \('?accuracy'?, not '?loss'?\)"),
    "evaluate_every": (2, None, r"other steps to evaluate at: evaluate_every \(None, not 2\)"),
    "checkpoint_every": (None, 2, r"other steps to write checkpoints at: checkpoint_every \(2, not None\)"),
    "callbacks": ((), (Hears(),), r"another choice of whether callbacks have on_step \(True, not False\)"),
    "validation": (0.25, data(10), r"other (training|validation) data \("),
    "data": (rows(), rows(change=True), r"other training data \(40 examples, CRC \w{8}, x float32.*, not 40 examples, CRC"),
}


@pytest.mark.parametrize("name", FIT)
def test_fit_refuses_other_data_and_another_plan(name):
    usual, odd, message = FIT[name]

    def work(transport, differs):
        options = {"data": rows(), "validation": data(10), "batch_size": 8, "epochs": 2, name: odd if differs else usual}
        trainer(distributed=True).fit(options.pop("data"), **options)

    assert_refused(work, ODD + message)


TRAINER = {
    "seed": (0, 1, r"another seed \(1, not 0\)"),
    "accumulate": (2, 3, r"another accumulate \(3, not 2\)"),
    "learning_rate": (0.02, 0.01, r"another learning rate \(0.01, not 0.02\)"),
    "schedule": ("linear", "cosine", r"another schedule \(Planned\(.*shape='cosine'.*, not Planned\(.*shape='linear'"),
    "warmup": (3, 4, r"another (learning rate|schedule) \("),
}


@pytest.mark.parametrize("way", ["fit", "step"])
@pytest.mark.parametrize("name", TRAINER)
def test_a_trainer_refuses_other_options(name, way):
    usual, odd, message = TRAINER[name]

    def work(transport, differs):
        t = trainer(distributed=True, **{name: odd if differs else usual})
        if way == "fit":
            t.fit(data(), 2, batch_size=8)
        else:
            t.step(data(4))

    assert_refused(work, ODD + message)


SWEEP = {
    "data": (rows(), rows(change=True), "other training data"),
    "batch_size": (8, 4, r"another batch size \(4, not 8\)"),
    "highest": (1.0, 0.5, r"other rates to try \(\[1e-07, 0.5, 20\], not \[1e-07, 1.0, 20\]\)"),
}


@pytest.mark.parametrize("name", SWEEP)
def test_a_sweep_over_rates_refuses_other_data_and_options(name):
    usual, odd, message = SWEEP[name]

    def work(transport, differs):
        options = {"data": rows(), "batch_size": 8, "steps": 20, name: odd if differs else usual}
        find_learning_rate(trainer(distributed=True), options.pop("data"), **options)

    assert_refused(work, ODD + message)


@pytest.mark.parametrize("way", ["fit", "step", "program"])
def test_other_versions_are_refused(monkeypatch, way):
    def versions():
        text = f"numpy {2 + (current().rank == 1)}.0"
        return {"other versions": Subject(text, "Install the same versions on all machines")}

    for module in (exchange, subjects):
        monkeypatch.setattr(module, "versions", versions)

    def work(transport, differs):
        if way == "program":
            programs.trained(transport)
            return
        t = trainer(distributed=True)
        t.step(data(4)) if way == "step" else t.fit(data(), 1)

    assert_refused(work, ODD + r"other versions \(numpy 3.0, not numpy 2.0\). Install the same versions")


def test_the_versions_name_what_decides_of_a_step():
    (subject,) = agreement.versions().values()
    assert re.fullmatch(r"onnxgrad \S+, onnx \S+, onnxruntime \S+, numpy \S+, python 3\.\d+", subject.value)


def test_a_folder_on_one_rank_alone_is_refused(tmp_path):
    def work(transport, differs):
        trainer(distributed=True).fit(data(), 1, out=tmp_path / "run" if differs else None)

    assert_refused(work, ODD + r"another choice of whether checkpoints are written \(True, not False\)")


def test_another_checkpoint_is_refused(tmp_path):
    for epochs in (1, 2):
        t = trainer()
        t.fit(data(), epochs, batch_size=8)
        t.save(tmp_path / f"{epochs}.safetensors")

    def work(transport, differs):
        t = trainer(distributed=True)
        t.load(tmp_path / f"{2 if differs else 1}.safetensors")
        t.fit(data(), total_epochs=3, batch_size=8)

    assert_refused(work, ODD + r"another place in the run \(step 10, batch 0 of epoch 3, .*, not step 5, batch 0 of epoch 2,")


def test_most_ranks_are_right_and_values_are_cut_and_escaped():
    def work(transport, differs):
        value = ["\x1b[31m" + "a" * 500, "b", "b", "c"][transport.rank]
        check_equal(transport, {"the same": Subject(1, "Nothing"), "another name": Subject(value, "Rename it")})

    message = r"ranks 0, 3 of 4 cannot train with rank 1: they have another name \(\\x1b\[31ma+\.\.\., not b\)\. Rename it\.$"
    assert_refused(work, message, 4)


def test_data_are_described_alike_only_if_they_are():
    x = np.arange(600_000, dtype=np.float32).reshape(-1, 3)
    same = [x, x.copy(), np.asfortranarray(x), np.concatenate([x, x])[: len(x)], np.repeat(x, 2, axis=0)[::2]]
    assert len({content_of({"x": array}) for array in same}) == 1
    others = [x, x[:-1], x.astype(np.float64), x.reshape(-1, 2), x[:, ::-1], np.where(x == x.max(), 0, x), np.where(x == 0, 1, x)]
    assert len({content_of({"x": array}) for array in others}) == len(others)
    words = [np.array(["a", "b"]), np.array(["a", "c"]), np.array(["a", "b"], object), np.array(["ab", ""], object)]
    assert len({content_of({"x": array}) for array in words}) == 4
    assert content_of({"x": np.zeros(())}) != content_of({"x": np.ones(())}) != content_of({"y": np.ones(())})
    columns = Columns({"x": x})
    parts = [columns, columns.select(np.arange(5)), columns.select(np.arange(5)[::-1])]
    assert len({described(part) for part in parts}) == 3
    named = Columns({"x": x})
    named.record = DataRecord({"x": WordsColumn((), ("cat", "dog"))})
    assert described(named) != described(columns)
    column = PictureColumn((), (4, 4), "CHW", "RGB", (0.0,) * 3, (1.0,) * 3)
    readings = [Reading(changes=Changes(flip)) for flip in (False, True)]
    lazy = [LazyPictures(lambda number: None, "x", column, DataSpec(["x"]), reading, "t.csv") for reading in readings]
    pictures = [LazyRows({"x": pictures}, {}, 5) for pictures in lazy]
    assert described(pictures[0]) != described(pictures[1])
    assert described(Stream([1, 2], ["x"]), None, 2) != described(Stream([1, 2, 3], ["x"]), None, 3)


def test_losses_that_are_exchanged_in_another_way_are_refused():
    """Before the weights of their terms are: those of two terms are 16 bytes, of one 8"""

    def work(transport, differs):
        trainer(loss=[LABELS, BESIDE][: 1 + differs], distributed=True).fit(data(), 1)

    assert_refused(work, ODD + "another program, or trains other parameters")


def test_layers_that_differ_are_refused():
    def work(transport, differs):
        with programs._BUILDING:
            layer = paddle.nn.Linear(3, 2 + differs)
        paddle.DataParallel(layer)

    assert_refused(work, ODD + r"other parameters \(.*\[3, 3\].*, not .*\[3, 2\]")


def test_a_schedule_is_described_by_its_options_without_addresses():
    lr = paddle.optimizer.lr
    warm = [lr.LinearWarmup(lr.StepDecay(0.1, step), 5, 0.0, 0.1) for step in (3, 3, 4)]
    texts = [subjects._described(schedule) for schedule in warm]
    assert texts[0] == texts[1] != texts[2]
    functions = [subjects._described(lr.LambdaDecay(0.1, lambda epoch: 0.9**epoch)) for _ in range(2)]
    assert functions[0] == functions[1] and "0x" not in functions[0]


# In each step --------------------------------------------------------------------------------------------------------

WAYS = {
    "plain": {},
    "overlap": {"distributed": Strategy(overlap=4)},
    "accumulation": {"accumulate": 3},
    "shares": {"distributed": Strategy(sharding=1)},
    "shares of gradients": {"distributed": Strategy(sharding=2)},
    "synchronised": {"distributed": Strategy(batch_norm="sync"), "batch_norm": "train"},
    "compressed": {"distributed": Strategy(compress="float16")},
    "a pipeline": {"distributed": Strategy(pipeline=3, micro_batches=2)},
    "low memory": {"memory": "low"},
    "scaled": {"loss_scale": 1024.0},
}


def changed_number(t):
    t.state.step += 1


def changed_rate(t):
    t.optimizer.set_lr(0.5)


def moved_schedule(t):
    t.schedule.step()


def trained_state(t):
    """All but the rate, which a schedule sets as a step begins"""
    return {name: value for name, value in weights(t).items() if not name.startswith("learning_rate")}


CHANGES = {
    "step number": (
        changed_number,
        {},
        r"another step number \(4, not 3\). One was interrupted, or took a step more: load the same",
    ),
    "rate": (changed_rate, {}, r"another learning rate \(\[0.5\], not \[0.01999"),
    "schedule": (moved_schedule, {"schedule": "linear", "warmup": 9}, r"another learning rate \(\[0.0"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_rank_that_differs_is_refused_at_its_next_step(change, way):
    act, options, message = CHANGES[change]
    options = {"distributed": True, **options, **WAYS[way]}

    def work(transport, differs):
        t = trainer(**options)
        if t.schedule is not None:
            t.schedule.plan(20)
        batch = data(6)
        for _ in range(2):
            t.step(batch)
        if differs:
            act(t)
        before = trained_state(t)
        with pytest.raises(TrainingError) as refusal:
            t.step(batch)
        assert_equal(trained_state(t), before)
        assert t.step_number == 2 + (differs and act is changed_number)
        with pytest.raises(TrainingError, match=re.escape(str(refusal.value))):
            t.step(batch)
        raise refusal.value

    assert_refused(work, ODD + message)


class Reversed(Columns):
    """The same examples in another order from some epoch on, on one rank"""

    def __init__(self, arrays, differs):
        super().__init__(arrays)
        self.differs = differs

    def numbers(self, batch_size, **order):
        for chosen in super().numbers(batch_size, **order):
            yield chosen[::-1] if self.differs and order["epoch"] == 1 else chosen


@pytest.mark.parametrize("way", WAYS)
def test_other_rows_are_refused_in_the_step_that_has_them(way):
    def work(transport, differs):
        t = trainer(**{"distributed": True, **WAYS[way]})
        try:
            t.fit(Reversed(data(), differs), 3, batch_size=10)
        finally:
            assert (t.step_number, t.epoch) == (4, 1)

    assert_refused(work, ODD + r"other rows in its batch. Give all ranks the same data in the same order\.$")


def batches(count, change=None):
    parts = [{name: array[8 * i : 8 * i + 8].copy() for name, array in data().items()} for i in range(count)]
    if change is not None:
        parts[change]["x"][-1, -1] += 1
    return lambda epoch: iter(parts)


@pytest.mark.parametrize("way", ["plain", "a pipeline", "accumulation"])
def test_other_batches_of_a_stream_are_refused(way):
    def work(transport, differs):
        t = trainer(**{"distributed": True, **WAYS[way]})
        try:
            t.fit(batches(4, 2 if differs else None), 1)
        finally:
            assert t.step_number == 2

    assert_refused(work, ODD + "other rows in its batch")


@pytest.mark.parametrize("way", ["plain", "a pipeline", "accumulation"])
@pytest.mark.parametrize(
    ("count", "message"),
    [(3, r"the stream \(ends after batch 3, not has a batch 4\)"), (5, r"the stream \(has a batch 5, not ends after batch 4\)")],
)
def test_a_stream_that_ends_on_one_rank_alone_is_refused(way, count, message):
    def work(transport, differs):
        t = trainer(**{"distributed": True, **WAYS[way]})
        t.fit(batches(count if differs else 4), 2)

    assert_refused(work, ODD + "another number of batches: " + message)


def test_stages_of_a_row_are_given_the_same_number_of_examples():
    def work(transport):
        t = trainer(distributed=Strategy(pipeline=2, micro_batches=2))
        with pytest.raises(
            TrainingError, match=r"rank 3 of 4 has 5 examples, and rank 2, the first stage of its row, 4\. Give all"
        ):
            t.step(data([6, 6, 4, 5][transport.rank]))

    on_ranks(4, work, timeout=20)


def took_one_more(check):
    check.number += 1


PROGRAM_CHANGES = {
    "step number": (
        lambda optimizer, program: took_one_more(program.exchange.step), r"another step number \(4, not 3\)",
    ),
    "rate": (lambda optimizer, program: optimizer.set_lr(0.5), r"another learning rate \(\[0.5\], not \[0.1"),
}  # fmt: skip


@pytest.mark.parametrize("strategy", programs.STRATEGIES.values(), ids=programs.STRATEGIES)
@pytest.mark.parametrize("change", PROGRAM_CHANGES)
def test_a_program_refuses_a_rank_that_differs(change, strategy):
    act, message = PROGRAM_CHANGES[change]

    def work(transport, differs):
        optimizers = []

        def chosen():
            optimizers.append(paddle.distributed.fleet.distributed_optimizer(paddle.optimizer.Adam(0.1), strategy))
            return optimizers[0]

        program, loss = programs.build("mean", chosen)
        executor = paddle.Executor(threads=1)
        sizes = [0, 3, 4, 8]
        mine = slice(sizes[transport.rank], sizes[transport.rank + 1])
        feed = {"x": programs.X[0][mine], "y": programs.Y[0][mine]}
        for _ in range(2):
            executor.run(program, feed, [loss])
        if differs:
            act(optimizers[0], program)
        state = {v.name: np.asarray(v.get_value()) for v in program.list_vars() if v.persistable}
        try:
            executor.run(program, feed, [loss])
        finally:
            for name, value in state.items():
                np.testing.assert_array_equal(program.global_block().vars[name].get_value(), value, name)

    assert_refused(work, ODD + message)


@pytest.mark.parametrize("kind", ["shards", "a pipeline"])
def test_a_step_without_a_trainer_refuses_a_rank_that_took_one_more(kind):
    def work(transport, differs):
        program, loss = programs.build("mean", lambda: paddle.optimizer.SGD(0.1))
        if kind == "shards":
            step = ShardedStep(program, [loss], transport, loss=loss)
            check = step.exchange.step
        else:
            step = PipelineStep(program, loss, 3, transport, micro_batches=2)
            check = step.check
        feed = {"x": programs.X[0], "y": programs.Y[0]}
        for _ in range(2):
            step.run(feed)
        if differs:
            took_one_more(check)
        step.run(feed)

    assert_refused(work, ODD + r"another step number \(4, not 3\)")


# What it costs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 3, 64, 4096, 8192])
def test_sums_of_marks_tell_any_difference(ranks):
    rng = np.random.default_rng(ranks)

    class Ranks:
        world_size = ranks

    def found(others):
        compared = []
        check = StepCheck()
        marks = np.zeros((ranks, 4))
        for rank in range(ranks):
            check._subjects = {"it": Subject(others.get(rank, 0), "")}
            marks[rank] = check.marks()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agreement, "check_equal", lambda *given: compared.append(given))
            check.check(Ranks(), marks.sum(axis=0).tolist())
        return bool(compared)

    assert not found({})
    for count in (1, 2, ranks // 2, ranks - 1):
        for _ in range(2):
            assert found({int(rank): int(rng.integers(1, 5)) for rank in rng.permutation(ranks)[:count]})


class Counting:
    """A transport that counts messages and their bytes"""

    def __init__(self, transport):
        self._transport, self.sizes = transport, []

    def all_reduce_(self, buffer, op="sum"):
        self.sizes.append(buffer.nbytes)
        self._transport.all_reduce_(buffer, op)

    def __getattr__(self, name):
        return getattr(self._transport, name)


def test_a_step_sends_32_bytes_more_in_no_message_more():
    """The weight of the whole batch; the weight, loss and whether it is bad (24 bytes before), and what is compared; gradients;
    metrics"""

    def work(transport):
        counting = Counting(transport)
        with paddle.distributed.environment.using(counting):
            t = trainer(distributed=True)
            sizes = []
            step = t.step

            def noted(batch):
                counting.sizes.clear()
                row = step(batch)
                sizes.append(list(counting.sizes))
                return row

            t.step = noted
            t.fit(data(), 2, batch_size=8)
        return sizes

    for sizes in run_local(2, work):
        assert sizes[1:] == [[8, 24 + 32, 512, 32]] * 9
