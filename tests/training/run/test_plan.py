"""What decides how a run goes: metrics of all examples, what is monitored, steps, schedules, groups, clipping."""

import json

import numpy as np
import pytest

import onnxgrad as og
from onnxgrad.errors import ArgumentError, DataError, UnknownName
from onnxgrad.training import Planned, Trainer
from onnxgrad.training.metrics.epoch import EpochMetric
from tests.training.small import assert_equal, data, line, model, weights

sklearn = pytest.importorskip("sklearn.metrics")
RNG = np.random.default_rng(0)


def trainer(**options):
    return Trainer(model(), **{"loss": "cross_entropy", "learning_rate": 0.02, **options})


def in_batches(metric, y, target):
    for part in range(0, len(y), 7):
        metric.add(y[part : part + 7], target[part : part + 7])
    return metric.value()


class TestMetrics:
    """Streamed over batches, against scikit-learn over all."""

    @pytest.mark.parametrize(
        ("name", "function"),
        [
            ("precision", sklearn.precision_score),
            ("recall", sklearn.recall_score),
            ("f1", sklearn.f1_score),
            ("iou", sklearn.jaccard_score),
            ("dice", sklearn.f1_score),
        ],
    )
    def test_of_classes(self, name, function):
        y, target = RNG.normal(0, 1, (60, 4)), RNG.integers(0, 4, 60)
        found = in_batches(EpochMetric(name), y, target)
        assert found == pytest.approx(function(target, y.argmax(1), average="macro", zero_division=0))
        single, binary = RNG.normal(0, 1, (60, 1)), RNG.integers(0, 2, (60, 1)).astype("f4")
        assert in_batches(EpochMetric(name), single, binary) == pytest.approx(function(binary[:, 0], single[:, 0] > 0))
        probability = 1 / (1 + np.exp(-single))
        assert in_batches(EpochMetric(name, "Sigmoid"), probability, binary) == pytest.approx(
            function(binary[:, 0], single[:, 0] > 0)
        )

    def test_of_pixels_without_those_that_do_not_count(self):
        y, target = RNG.normal(0, 1, (9, 3, 4, 4)), RNG.integers(0, 3, (9, 4, 4))
        target[0] = -100
        said, truth = y.argmax(1)[1:].reshape(-1), target[1:].reshape(-1)
        assert in_batches(EpochMetric("iou"), y, target) == pytest.approx(sklearn.jaccard_score(truth, said, average="macro"))

    @pytest.mark.parametrize(
        ("name", "function"), [("auc", sklearn.roc_auc_score), ("average_precision", sklearn.average_precision_score)]
    )
    def test_of_scores(self, name, function):
        single, binary = RNG.normal(0, 1, (60, 1)), RNG.integers(0, 2, (60, 1)).astype("f4")
        assert in_batches(EpochMetric(name), single, binary) == pytest.approx(function(binary[:, 0], single[:, 0]))
        y, target = RNG.normal(0, 1, (60, 3)), RNG.integers(0, 3, 60)
        p = np.exp(y) / np.exp(y).sum(1, keepdims=True)
        wanted = function(target, p, multi_class="ovr") if name == "auc" else function(target[:, None] == np.arange(3), p)
        assert in_batches(EpochMetric(name), y, target) == pytest.approx(wanted)
        assert in_batches(EpochMetric(name, "Softmax"), p, target) == pytest.approx(wanted)
        with pytest.raises(DataError, match="is not defined for this data"):
            in_batches(EpochMetric(name), single, np.zeros((60, 1)))

    def test_of_numbers(self):
        y, target = RNG.normal(0, 1, (60, 2)), RNG.normal(0, 1, (60, 2))
        assert in_batches(EpochMetric("rmse"), y, target) == pytest.approx(np.sqrt(sklearn.mean_squared_error(target, y)))
        assert in_batches(EpochMetric("r2"), y[:, 0], target[:, 0]) == pytest.approx(sklearn.r2_score(target[:, 0], y[:, 0]))

    def test_perplexity_is_that_of_the_loss(self):
        t = trainer(metrics=["perplexity"])
        found = t.evaluate(data(50), batch_size=50)
        assert found["perplexity"] == pytest.approx(np.exp(found["loss"]), rel=1e-5)

    def test_of_sequences(self):
        """The best path 1 1 0 1 2 0 reads 1 1 2; 2 0 2 2 3 3 reads 2 2 3"""
        paths, labels = np.array([[1, 1, 0, 1, 2, 0], [2, 0, 2, 2, 3, 3]]), np.array([[1, 2, -1, -1], [2, 2, 3, 1]])
        y = np.eye(4)[paths]
        metric = EpochMetric("cer")
        metric.add(y, labels)
        assert metric.value() == pytest.approx((1 + 1) / 6)
        turned = EpochMetric("wer:2", steps_first=True)
        turned.add(y.transpose(1, 0, 2), labels)
        assert turned.value() == pytest.approx(((1) + 1) / 2)  # words (1 1) for (1); (3) for (3 1)
        with pytest.raises(ArgumentError, match="wer needs the label"):
            Trainer(model(), loss="cross_entropy", metrics=["wer"])

    def test_rows_have_them_of_validation_and_functions_too(self):
        def sure(y, target):
            return np.abs(y).max(axis=1)

        rows = trainer(metrics=["f1", "top2", sure]).fit(data(60), 1, data(30, seed=2))
        assert {"val_f1", "val_top2", "val_sure", "top2", "sure"} <= set(rows[0]) and "f1" not in rows[0]


class TestCourse:
    def test_what_is_monitored_decides_which_epoch_is_best(self, tmp_path):
        t = trainer(metrics=["accuracy"], learning_rate=0.05)
        rows = t.fit(data(80), 6, data(60, seed=2), monitor="val_accuracy", out=tmp_path)
        assert t.best == -max(row["val_accuracy"] for row in rows)
        first = next(row for row in rows if row["val_accuracy"] == -t.best)
        best = trainer(metrics=["accuracy"], learning_rate=0.05)
        best.load(tmp_path / "best.safetensors")
        assert best.step_number == first["step"]
        with pytest.raises(ArgumentError, match="nothing named 'val_f1' to monitor"):
            t.fit(data(), 1, data(), monitor="val_f1")

    def test_steps_end_a_run_within_an_epoch_and_are_those_of_a_longer_one(self, tmp_path):
        a, b = trainer(seed=3), trainer(seed=3)
        a.fit(data(80), validation=data(20), batch_size=8, max_steps=13, evaluate_every=5, out=tmp_path / "a")
        assert (a.step_number, a.epoch, a.batch) == (13, 1, 3)
        assert [row["step"] for row in a.evaluations] == [5, 10, 13]
        lines = [json.loads(text) for text in (tmp_path / "a" / "evaluations.jsonl").read_text().splitlines()]
        assert lines == a.evaluations and all("val_loss" in row for row in lines)
        a.fit(data(80), 2, batch_size=8, out=tmp_path / "a", resume=True)
        b.fit(data(80), 2, batch_size=8)
        assert_equal(weights(a), weights(b))

    @pytest.mark.parametrize("options", [{"max_steps": 0}, {"evaluate_every": 0, "validation": data()}, {"evaluate_every": 3}])
    def test_counts_that_are_none(self, options):
        with pytest.raises(ArgumentError, match=r"at least 1|needs validation"):
            trainer().fit(data(), 1, **options)

    def test_a_plateau_takes_a_tenth_and_resumes(self, tmp_path):
        t = trainer(schedule="plateau", optimizer="sgd", learning_rate=0.0)
        t.optimizer._learning_rate.last_lr = 0.4
        t.optimizer._learning_rate.factor = 0.1
        rates = []
        t.schedule.patience = 1
        for _ in range(4):
            t.schedule.step(1.0)
            rates.append(t.schedule())
        assert rates == pytest.approx([0.4, 0.4, 0.04, 0.04])
        a, b = (trainer(schedule="plateau", seed=1) for _ in range(2))
        a.fit(data(), 2, data(20, seed=2), out=tmp_path)
        b.fit(data(), 1, data(20, seed=2), out=tmp_path / "b")
        b.fit(data(), total_epochs=2, validation=data(20, seed=2), out=tmp_path / "b", resume=True)
        assert a.schedule.state_dict() == b.schedule.state_dict() and a.schedule.last_epoch == 2

    def test_shapes(self):
        def rates(shape, **options):
            schedule = Planned(1.0, shape, total=10, **options)
            found = []
            for _ in range(10):
                found.append(schedule())
                schedule.step()
            return found

        assert rates("step") == pytest.approx([1] * 5 + [0.1] * 3 + [0.01] * 2)
        cycle = rates("one-cycle")
        assert cycle[0] == pytest.approx(1 / 25) and max(cycle) == cycle[3] == 1.0 and cycle[-1] == pytest.approx(1 / 250_000)
        assert cycle[:4] == sorted(cycle[:4]) and cycle[3:] == sorted(cycle[3:], reverse=True)


class TestGroups:
    def test_factors_and_decay_by_pattern(self):
        plain = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=0.1)
        own = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=0.1, groups={"b": {"learning_rate": 3}})
        before, batch = weights(plain), {"x": np.ones((4, 2), "f4"), "target": np.zeros((4, 1), "f4")}
        plain.step(batch)
        own.step(batch)
        for name, factor in (("w", 1), ("b", 3)):
            np.testing.assert_allclose(weights(own)[name] - before[name], factor * (weights(plain)[name] - before[name]), rtol=1e-5)

    def test_decay_of_one_group_alone(self):
        t = Trainer(line(), loss="mse", optimizer="adamw", learning_rate=0.1, weight_decay=0.5, groups={"b": {"weight_decay": 0.0}})
        u = Trainer(line(), loss="mse", optimizer="adamw", learning_rate=0.1, weight_decay=0.0)
        batch = {"x": np.ones((4, 2), "f4"), "target": np.zeros((4, 1), "f4")}
        t.step(batch), u.step(batch)
        np.testing.assert_array_equal(weights(t)["b"], weights(u)["b"])
        assert (weights(t)["w"] != weights(u)["w"]).all()

    def test_what_is_refused(self):
        with pytest.raises(UnknownName, match=r"fits the pattern 'tail.\*' of groups="):
            trainer(groups={"tail.*": {"learning_rate": 2}})
        for options in ({"speed": 1}, {"learning_rate": -1}):
            with pytest.raises(ArgumentError, match=r"the group 'head.\*'"):
                trainer(groups={"head.*": options})

    def test_clipping_by_value(self):
        t = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=1.0, clip_value=0.01)
        before = weights(t)
        t.step({"x": np.full((4, 2), 50, "f4"), "target": np.zeros((4, 1), "f4")})
        for name in ("w", "b"):
            np.testing.assert_allclose(np.abs(weights(t)[name] - before[name]), 0.01, rtol=1e-4)

    @pytest.mark.parametrize(
        "options",
        [
            {"learning_rate": -1},
            {"learning_rate": float("nan")},
            {"weight_decay": -0.1},
            {"clip_norm": 0},
            {"clip_value": -1},
            {"clip_norm": 1, "clip_value": 1},
            {"learning_rate": -1, "schedule": "cosine"},
            {"schedule": "plateau", "warmup": 3},
        ],
    )
    def test_numbers_that_are_no_settings(self, options):
        with pytest.raises(ArgumentError):
            trainer(**options)

    def test_an_optimizer_of_its_own_has_its_settings_itself(self):
        with pytest.raises(ArgumentError, match="are settings of the optimizer"):
            trainer(optimizer=og.optimizer.SGD(0.1), clip_value=1.0)
