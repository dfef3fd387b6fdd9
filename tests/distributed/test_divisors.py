"""Micro-batches and ranks train what one process trains on the whole batch, whatever the parts count."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.distributed.environment import using
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.distributed.transport import LocalTransport, run_local
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.training import Distillation, Term, Trainer
from tests.distributed.test_trainer import on_ranks
from tests.training import small

rng = np.random.default_rng(0)
EXAMPLES = 24
DATA = {
    "x": rng.normal(size=(EXAMPLES, 4)).astype(np.float32),
    "target": rng.integers(0, 3, EXAMPLES),
    "weight": np.where(np.arange(EXAMPLES) < 14, 0.1, rng.uniform(1, 3, EXAMPLES)).astype(np.float32),
}
UNEVEN = {**DATA, "target": np.where((np.arange(EXAMPLES) % 8 < 5) & (np.arange(EXAMPLES) > 5), -100, DATA["target"])}
"""Labels that count: six of the first six, and later none to three of eight."""
NONE = {**DATA, "target": np.where(np.arange(EXAMPLES) < 12, -100, DATA["target"])}
"""No label counts in the first half."""


def square(output, target):
    return paddle.mean(paddle.sum(output * output, axis=1))


def penalised(output, target):
    weights = [p for p in output.block.program.all_parameters() if p.name == "head.weight"]
    return paddle.mean(paddle.square(output)) + 0.1 * paddle.sum(paddle.square(weights[0]))


LABELS = Term("cross_entropy")
BESIDE = Term(square, dtype="int64", shape=[None], weight=0.3)
LOSSES = {
    "labels that count": LABELS,
    "smoothed": Term("cross_entropy", label_smoothing=0.1),
    "weights of examples": Term("cross_entropy", sample_weight="weight"),
    "weights of classes": Term("cross_entropy", class_weights=[1.0, 5.0, 0.2]),
    "two divisors": [LABELS, BESIDE],
    "a penalty": [LABELS, Term(penalised, dtype="int64", shape=[None], weight=0.2)],
}
SETTINGS = {"accumulation 4": (1, 4), "accumulation 3, 2 ranks": (2, 3), "2 ranks": (2, 1), "3 ranks": (3, 1), "7 ranks": (7, 1)}


PLAIN = small.TEXT.replace("Dropout (active, rate)", "Identity (active)")


def fitted(data, accumulate=1, batch_size=EXAMPLES, dtype=np.float32, text=PLAIN, **options):
    options = {"optimizer": "sgd", "learning_rate": 0.5, "batch_norm": "frozen", **options}
    trainer = Trainer(small.model(text, dtype), accumulate=accumulate, **options)
    used = {name: array for name, array in data.items() if name in trainer.columns}
    used["x"] = used["x"].astype(dtype)
    history = trainer.fit(used, 3, used, batch_size=batch_size // accumulate, shuffle=False, verbose=False)
    return history, {p.name: np.array(p.get_value()) for p in trainer.trained}


def assert_like_one_process(setting, data, rtol=2e-5, **options):
    ranks, accumulate = SETTINGS[setting]
    history, expected = fitted(data, **options)
    results = (
        [fitted(data, accumulate, **options)]
        if ranks == 1
        else on_ranks(ranks, lambda transport: fitted(data, accumulate, distributed=options.get("distributed", True), **options))
    )
    for rows, weights in results:
        for name, value in expected.items():
            np.testing.assert_allclose(weights[name], value, rtol=rtol, atol=2e-6, err_msg=name)
        for row, wanted in zip(rows, history, strict=True):
            assert row["val_loss"] == pytest.approx(wanted["val_loss"], rel=2e-5)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("data", [UNEVEN, NONE], ids=["uneven labels", "parts without labels"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_parts_train_what_one_process_trains(setting, data, loss):
    assert_like_one_process(setting, data, loss=loss)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("loss_scale", [0, 1024.0])
def test_a_teacher_and_a_scaled_loss(setting, loss_scale):
    teacher = Distillation(small.model(), temperature=2.0, weight=0.4)
    assert_like_one_process(setting, UNEVEN, loss="cross_entropy", teacher=teacher, loss_scale=loss_scale, clip_norm=0.5)


@pytest.mark.parametrize("data", [UNEVEN, NONE], ids=["uneven labels", "parts without labels"])
@pytest.mark.parametrize("loss", [LABELS, [LABELS, BESIDE]], ids=["one divisor", "two divisors"])
@pytest.mark.parametrize("setting", ["2 ranks", "3 ranks"])
def test_synchronised_statistics(setting, loss, data):
    ranks, _ = SETTINGS[setting]
    history, expected = fitted(data, loss=loss, batch_norm="train")
    strategy = Strategy(batch_norm="sync")
    for rows, weights in on_ranks(ranks, lambda transport: fitted(data, loss=loss, batch_norm="train", distributed=strategy)):
        for name, value in expected.items():
            np.testing.assert_allclose(weights[name], value, rtol=2e-4, atol=1e-5, err_msg=name)
        assert [row["val_loss"] for row in rows] == pytest.approx([row["val_loss"] for row in history], rel=2e-4)


def test_a_step_in_which_nothing_counts_on_any_rank_says_so():
    """As one process does: the loss is 0 / 0"""
    nothing = {**DATA, "target": np.full(EXAMPLES, -100)}
    for accumulate in (1, 2):
        history, _ = fitted(UNEVEN, accumulate, loss=LABELS)
        assert np.isfinite([row["loss"] for row in history]).all()
    for loss in (LABELS, [LABELS, BESIDE]):
        with pytest.raises(TrainingError, match="the loss is nan"):
            fitted(nothing, loss=loss)

        def work(transport, loss=loss):
            with pytest.raises(TrainingError, match="the loss is nan"):
                fitted(nothing, loss=loss, distributed=True)

        on_ranks(3, work)


@pytest.mark.parametrize("loss", [LABELS, [LABELS, BESIDE]], ids=["one divisor", "two divisors"])
@pytest.mark.parametrize("setting", ["accumulation 4", "accumulation 3, 2 ranks"])
def test_an_update_in_which_nothing_counts_is_that_of_a_batch_in_which_nothing_does(setting, loss):
    """Its loss is 0 / 0, so weights and moments stay as they are: decay, and moments that fade, would change them"""
    ranks, accumulate = SETTINGS[setting]
    some = {"x": DATA["x"][:6], "target": DATA["target"][:6]}
    none = {"x": DATA["x"][:6], "target": np.full(6, -100)}

    def work(transport=None, accumulate=accumulate):
        trainer = Trainer(
            small.model(PLAIN),
            loss=loss,
            optimizer="adamw",
            weight_decay=0.3,
            learning_rate=0.1,
            batch_norm="frozen",
            accumulate=accumulate,
            ema=0.5,
            distributed=transport is not None,
        )
        for _ in range(accumulate):
            trainer.step(some)
        sums = {v.name for v in trainer.program.plan.accumulation.sums} if accumulate > 1 else set()
        before = {name: value for name, value in small.weights(trainer).items() if name not in sums}
        with pytest.raises(TrainingError, match="the loss is nan at step"):
            for _ in range(accumulate):
                trainer.step(none)
        after = small.weights(trainer)
        small.assert_equal({name: after[name] for name in before}, before)
        return trainer.step(some)["loss"]  # and the run can go on

    work(accumulate=1)
    if ranks == 1:
        work()
    else:
        on_ranks(ranks, work)


def test_an_update_whose_micro_batches_all_overflow_is_left_out():
    trainer = Trainer(
        small.model(PLAIN), loss=LABELS, optimizer="adamw", weight_decay=0.3, accumulate=2, loss_scale=1e38, batch_norm="frozen"
    )
    before = {p.name: p.get_value() for p in trainer.trained}
    for _ in range(2):
        trainer.step({"x": DATA["x"] * 1e3, "target": DATA["target"]})
    small.assert_equal({p.name: p.get_value() for p in trainer.trained}, before)


@pytest.mark.parametrize("batch_size", [1, 5, 24])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_evaluation_does_not_depend_on_the_size_of_a_batch(loss, batch_size):
    trainer = Trainer(small.model(), loss=loss, metrics=["accuracy"])
    used = {name: array for name, array in UNEVEN.items() if name in trainer.columns}
    expected = trainer.evaluate(used, batch_size=EXAMPLES)
    assert trainer.evaluate(used, batch_size=batch_size) == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_is_no_mean_is_refused_where_there_are_parts():
    def root(output, target):
        return paddle.sqrt(paddle.mean(paddle.square(output)))

    term = Term(root, dtype="int64", shape=[None])
    with pytest.raises(ArgumentError, match="comes from Sqrt"):
        Trainer(small.model(), loss=term, accumulate=2)
    trainer = Trainer(small.model(), loss=term)
    assert any("whatever their size" in remark for remark in trainer.remarks)


def in_batch_negatives(output, target):
    """Each example against all others of the batch"""
    scores = paddle.matmul(output, output, transpose_y=True)
    return paddle.mean(F.cross_entropy(scores, target, reduction="none"))


def centred(output, target):
    return paddle.mean(paddle.square(output - paddle.mean(output, axis=0, keepdim=True)))


def softmax_over_the_batch(output, target):
    return paddle.mean(F.softmax(output, axis=0) * output)


def branch_by_a_mean(output, target):
    scale = static.nn.cond(paddle.mean(output) > 0, lambda: paddle.full([1], 1.0), lambda: paddle.full([1], 2.0))
    return paddle.mean(paddle.square(output) * scale)


def without_one_class(output, target):
    """Labels of class 2 do not count, as many as there are in a batch"""
    return F.cross_entropy(paddle.matmul(output, output, transpose_y=True), target, ignore_index=2)


def each_its_own_class(output, target):
    """Contrastive: labels are numbers of rows, of as many as the whole batch has"""
    op = output.block.build
    length = op.Sqrt(op.Add(op.ReduceSum(op.Mul(output, output), [1], keepdims=1), np.array(1e-3, output.dtype.numpy)))
    rows = op.Div(output, length)
    number = op.Squeeze(op.Shape(output, start=0, end=1), [0])
    return F.cross_entropy(op.MatMul(rows, op.Transpose(rows, perm=[1, 0])), op.Range(np.int64(0), number, np.int64(1)))


def by_a_weight(output, target):
    """The tail reads a weight that trains"""
    weight = next(p for p in output.block.program.all_parameters() if p.name == "head.weight")
    return paddle.mean(paddle.square(paddle.matmul(output - paddle.mean(output, axis=0, keepdim=True), weight)))


def over_the_size_of_the_scores(output, target):
    """The shape of what is mixed is that of the whole batch, too"""
    op = output.block.build
    scores = op.Tanh(op.MatMul(output, op.Transpose(output, perm=[1, 0])))
    return op.Div(op.ReduceSum(scores, keepdims=0), op.Cast(op.Size(scores), to=output.dtype.number))


def over_their_number(output, target):
    """Rows that are divided by how many there are: of a part these are fewer"""
    op = output.block.build
    number = op.Cast(op.Shape(output, start=0, end=1), to=output.dtype.number)
    return op.ReduceSum(op.Div(op.Mul(output, output), number), keepdims=0)


def root_of_a_mean(output, target):
    return paddle.sqrt(paddle.mean(paddle.square(output)))


MIXING = {
    "triplet": ("triplet", "MatMul"),
    "in-batch negatives": (in_batch_negatives, "MatMul"),
    "less the mean of the batch": (centred, "Sub"),
    "softmax over the batch": (softmax_over_the_batch, "Softmax"),
    "a branch by a mean": (branch_by_a_mean, "Greater|If"),
    "contrastive": (each_its_own_class, "MatMul"),
    "a weight behind the mean": (by_a_weight, "Sub"),
    "some labels": (without_one_class, "MatMul"),
    "over their number": (over_their_number, "Cast"),
}
GATHERED = {
    **{name: loss for name, (loss, _) in MIXING.items()},
    "root of a mean": root_of_a_mean,
    "by size": over_the_size_of_the_scores,
}


def as_term(loss):
    return Term(loss) if isinstance(loss, str) else Term(loss, dtype="int64", shape=[None])


@pytest.mark.parametrize(("loss", "operator"), MIXING.values(), ids=MIXING)
def test_a_loss_that_mixes_examples_is_refused_in_micro_batches_by_its_operator(loss, operator):
    """Each example would meet those of its micro-batch alone, and later ones are not known when the first goes back"""
    with pytest.raises(ArgumentError, match=f"cut into parts.*({operator}).*keep the batch whole"):
        Trainer(small.model(), loss=as_term(loss), accumulate=2, batch_norm="frozen")

    def work(transport):
        with pytest.raises(ArgumentError, match=f"cut into parts.*({operator}).*with accumulate=1"):
            Trainer(small.model(), loss=as_term(loss), accumulate=2, distributed=True, batch_norm="frozen")

    on_ranks(2, work)
    Trainer(small.model(), loss=as_term(loss), batch_norm="frozen")


EXACTLY = {"dtype": np.float64, "batch_size": 10}
"""Batches of 10, 10 and 4 examples: parts of a batch differ, and of seven ranks three have none of the last."""


def assert_gathered(setting, expected, rtol, **options):
    """Ranks train what one process trains, each with the same weights, and log the same losses and metrics"""
    ranks, _ = SETTINGS[setting]
    results = on_ranks(ranks, lambda transport: fitted(**{"distributed": True, **options}))
    for history, weights in results:
        for name, value in expected[1].items():
            np.testing.assert_allclose(weights[name], value, rtol=rtol, atol=rtol * 1e-2, err_msg=name)
            np.testing.assert_array_equal(weights[name], results[0][1][name])
        for row, wanted in zip(history, expected[0], strict=True):
            logged = {name: wanted[name] for name in wanted if "loss" in name or "accuracy" in name}
            assert {name: row[name] for name in logged} == pytest.approx(logged, rel=rtol)


@pytest.mark.parametrize("setting", ["2 ranks", "3 ranks", "7 ranks"])
@pytest.mark.parametrize("loss", GATHERED.values(), ids=GATHERED)
def test_ranks_gather_the_examples_that_a_loss_mixes(setting, loss):
    options = {"data": DATA, "loss": as_term(loss), **EXACTLY}
    assert_gathered(setting, fitted(**options), 1e-9, **options)


@pytest.mark.parametrize("setting", ["2 ranks", "3 ranks", "7 ranks"])
@pytest.mark.parametrize("loss", GATHERED.values(), ids=GATHERED)
def test_beside_a_term_that_mixes_none(setting, loss):
    """Which has a divisor of its own, and weights of its parts in float32"""
    options = {"data": UNEVEN, "loss": [as_term(loss), LABELS, BESIDE], **EXACTLY, "learning_rate": 0.1}
    if loss is without_one_class:
        options["data"] = {**UNEVEN, "target": np.where(UNEVEN["target"] < 0, 2, UNEVEN["target"])}  # others lie outside the batch
    assert_gathered(setting, fitted(**options), 1e-5, **options)


STEPS = {
    "sharding 1": {"distributed": Strategy(sharding=1), "optimizer": "adamw"},
    "sharding 2": {"distributed": Strategy(sharding=2), "optimizer": "adamw", "clip_norm": 0.5},
    "overlap": {"distributed": Strategy(overlap=4)},
    "recomputed": {"checkpoints": "auto"},
    "one copy of the state": {"memory": "low"},
    "a scaled loss": {"loss_scale": 1024.0, "clip_norm": 0.5},
    "averages": {"ema": 0.9},
    "metrics": {"metrics": ["accuracy"]},
    "synchronised": {"distributed": Strategy(batch_norm="sync"), "batch_norm": "train"},
    "synchronised, sharding 2": {"distributed": Strategy(batch_norm="sync", sharding=2), "batch_norm": "train"},
}


@pytest.mark.parametrize("setting", ["2 ranks", "3 ranks"])
@pytest.mark.parametrize("options", STEPS.values(), ids=STEPS)
def test_whatever_else_the_step_does(setting, options):
    loss = [as_term(in_batch_negatives), BESIDE]
    options = {"data": DATA, "loss": loss, **EXACTLY, "learning_rate": 0.1, **options}
    alone = {name: value for name, value in options.items() if name != "distributed"}
    assert_gathered(setting, fitted(**alone), 1e-5, **options)


@pytest.mark.parametrize("setting", ["2 ranks", "3 ranks", "7 ranks"])
@pytest.mark.parametrize("data", [DATA, UNEVEN], ids=["labels", "uneven labels"])
def test_a_model_that_mixes_examples_is_gathered_where_it_does(setting, data):
    """Behind it each rank computes the whole batch, of which metrics read the rank's rows"""
    text = PLAIN.replace("Relu (normal)", "Softmax <axis = 0> (normal)")
    options = {"data": data, "loss": LABELS, "text": text, "metrics": ["accuracy"], **EXACTLY}
    assert_gathered(setting, fitted(**options), 1e-9, **options)


def test_what_cannot_be_computed_of_gathered_rows_is_refused_by_its_operator():
    dropped = small.TEXT.replace("Relu (normal)", "Softmax <axis = 0> (normal)")
    normalised = PLAIN.replace("hidden = Gemm", "early = Gemm").replace(
        "normal = BatchNorm", "hidden = Softmax <axis = 0> (early)\n  normal = BatchNorm"
    )

    def work(transport):
        for text, batch_norm, operators in (
            (dropped, "frozen", "Softmax.*Dropout .* draws random numbers"),
            (normalised, "train", "Softmax.*BatchNormalization .* normalises by its batch"),
        ):
            strategy = Strategy(batch_norm="sync") if batch_norm == "train" else True
            with pytest.raises(ArgumentError, match=f"{operators}.*Let examples meet behind it"):
                Trainer(small.model(text), loss="cross_entropy", distributed=strategy, batch_norm=batch_norm)

    on_ranks(2, work)


def test_rows_of_another_size_are_refused_before_they_are_sent():
    text = """<ir_version: 8, opset_import: ["": 17]> sequences (double[batch, steps, 4] x) => (double[batch, steps, 8] y)
        { y = MatMul (x, body__weight) }"""
    file = small.model(text, np.float64)
    (weight,) = file.graph.initializer
    weight.dims[:] = weight.dims[::-1]
    x = rng.normal(size=(7, 5, 4))

    def stepped(rows, steps=5, **options):
        trainer = Trainer(file, loss=as_term(centred), **options)
        return trainer.step({"x": rows[:, :steps], "target": np.zeros(len(rows), np.int64)})["loss"]

    def refused(transport):
        with pytest.raises(TrainingError, match=r"rank 1 of 2 cannot train.*rows of another size.*\[4, 4\].* not .*\[5, 4\]"):
            stepped(x, 5 - transport.rank, distributed=True)

    on_ranks(2, refused)
    losses = on_ranks(2, lambda transport: stepped(x[:3] if transport.rank else x[3:], distributed=True))
    assert losses == pytest.approx([stepped(x)] * 2, rel=1e-12)


def test_what_travels_is_the_rows_that_meet_and_no_more():
    """Scores of 3 numbers and a label of 8 bytes for each example, once in a step"""

    class Counted(LocalTransport):
        bytes = 0

        def all_reduce_(self, buffer, op="sum"):
            self.bytes += buffer.nbytes
            super().all_reduce_(buffer, op)

    def sent(loss, examples):
        def work(transport):
            counted = Counted(transport.rank, transport._group)
            with using(counted):
                trainer = Trainer(small.model(PLAIN), loss=loss, distributed=True, batch_norm="frozen")
                batch = {"x": np.ones((examples, 4), np.float32), "target": np.arange(examples) % 2}
                trainer.step(batch)
                before = counted.bytes
                trainer.step(batch)
            return counted.bytes - before

        return run_local(2, work)[0]

    rows = sent("triplet", 30) - sent("triplet", 10)
    assert rows == 2 * (30 - 10) * (3 * 4 + 8)
    assert sent(LABELS, 30) == sent(LABELS, 10)
