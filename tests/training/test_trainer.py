"""Trainer: steps, whole runs, what it refuses."""

import csv
import io
import json
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as og
from onnxgrad import static
from onnxgrad.errors import ArgumentError, DataError, TrainingError, UnknownName
from onnxgrad.nn import functional as F
from onnxgrad.training import Term, Trainer
from onnxgrad.training.optimizers import optimizer_names
from tests.training.small import assert_equal, data, line, model, weights


def trainer(**options):
    return Trainer(model(), **{"loss": "cross_entropy", "learning_rate": 0.02, "metrics": ["accuracy"], **options})


class TestLearning:
    def test_loss_falls_and_accuracy_rises(self):
        history = trainer().fit(data(200), 12, data(100, seed=2), batch_size=20)
        assert history[-1]["loss"] < 0.6 * history[0]["loss"]
        assert history[-1]["val_accuracy"] > max(0.7, history[0]["val_accuracy"])

    def test_history_has_one_row_an_epoch(self):
        rows = trainer().fit(data(), 2, data(10), batch_size=16)
        assert [row["epoch"] for row in rows] == [1, 2]
        assert [row["step"] for row in rows] == [3, 6]
        assert set(rows[0]) == {"epoch", "step", "learning_rate", "loss", "accuracy", "val_loss", "val_accuracy"}

    def test_two_trainers_with_one_seed_are_equal_to_the_bit(self):
        a, b = trainer(seed=3), trainer(seed=3)
        a.fit(data(), 2, batch_size=8)
        b.fit(data(), 2, batch_size=8, prefetch=0)
        assert_equal(weights(a), weights(b))

    def test_another_seed_gives_another_order_and_other_masks(self):
        a, b = trainer(seed=3), trainer(seed=4)
        a.fit(data(), 1, batch_size=40, shuffle=False)
        b.fit(data(), 1, batch_size=40, shuffle=False)
        assert (weights(a)["head.weight"] != weights(b)["head.weight"]).any()

    def test_sgd_step_is_the_formula(self):
        t = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=0.1)
        x, y = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32), np.array([[1.0], [0.0]], np.float32)
        w, b = weights(t)["w"], weights(t)["b"]
        error = x @ w + b - y
        assert t.step({"x": x, "target": y})["loss"] == pytest.approx(float((error**2).mean()))
        np.testing.assert_allclose(weights(t)["w"], w - 0.1 * x.T @ error, rtol=1e-5)
        np.testing.assert_allclose(weights(t)["b"], b - 0.1 * error.sum(0), rtol=1e-5)

    def test_recomputation_changes_nothing_but_memory(self):
        a, b = trainer(seed=3), trainer(seed=3, memory_budget=750_000, sizes={"batch": 4096})
        plan = b.program.memory_plan
        assert plan.cuts and plan.peak <= 750_000 < plan.peak_without
        a.fit(data(), 2, batch_size=8)
        b.fit(data(), 2, batch_size=8)
        for name, value in weights(a).items():
            np.testing.assert_allclose(weights(b)[name], value, rtol=1e-4, atol=1e-6, err_msg=name)

    def test_frozen_weights_stay(self):
        t = trainer(trainable="head.*", freeze=["*.bias"])
        before = weights(t)
        t.fit(data(), 1, batch_size=8)
        assert [p.name for p in t.trained] == ["head.weight"]
        changed = {p.name for p in t.program.parameters if (weights(t)[p.name] != before[p.name]).any()}
        assert changed == {"head.weight"}

    def test_clip_norm_limits_the_step(self):
        t = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=1.0, clip_norm=0.01)
        before = weights(t)
        t.step({"x": np.full((4, 2), 50, np.float32), "target": np.zeros((4, 1), np.float32)})
        moved = np.concatenate([(weights(t)[name] - before[name]).reshape(-1) for name in ("w", "b")])
        assert np.linalg.norm(moved) == pytest.approx(0.01, rel=1e-3)

    def test_program_built_here_is_trained(self):
        x = static.data("x", [None, 4])
        y = static.nn.fc(x, 3)
        program = y.block.program
        program.outputs.append(y)
        og.Executor().run(static.default_startup_program())
        t = Trainer(program, loss="cross_entropy", learning_rate=0.1)
        rows = t.fit(data(), 5, batch_size=40)
        assert rows[-1]["loss"] < rows[0]["loss"]


class TestAccumulation:
    @pytest.mark.parametrize("optimizer", ["sgd", "adam"])
    def test_micro_batches_equal_the_big_batch(self, optimizer):
        x, y = np.random.default_rng(0).normal(0, 1, (12, 2)).astype("f4"), np.ones((12, 1), "f4")
        big = Trainer(line(), loss="mse", optimizer=optimizer, learning_rate=0.1)
        small = Trainer(line(), loss="mse", optimizer=optimizer, learning_rate=0.1, accumulate=3)
        for _ in range(3):
            big.step({"x": x, "target": y})
            for part in range(3):
                small.step({"x": x[part * 4 : part * 4 + 4], "target": y[part * 4 : part * 4 + 4]})
        for name in ("w", "b"):
            np.testing.assert_allclose(weights(small)[name], weights(big)[name], rtol=2e-5, atol=1e-6)

    def test_nothing_moves_before_the_last_micro_batch(self):
        t = Trainer(line(), loss="mse", accumulate=2)
        before = weights(t)["w"]
        t.step({"x": np.ones((1, 2), "f4"), "target": np.ones((1, 1), "f4")})
        np.testing.assert_array_equal(weights(t)["w"], before)
        t.step({"x": np.ones((1, 2), "f4"), "target": np.ones((1, 1), "f4")})
        assert (weights(t)["w"] != before).all()


class TestExportedStep:
    @pytest.mark.one_in(3)
    @pytest.mark.parametrize("done", [0, 1, 2, 3])
    @pytest.mark.parametrize("count", [1, 3])
    def test_goes_on_as_the_trainer_does(self, count, done, tmp_path):
        """Dropout, running statistics, clipping, moments, averages and, where batches accumulate, the sums go along."""
        t = trainer(accumulate=count, clip_norm=0.5, ema=0.9, weight_decay=0.1, seed=2)
        batches = [{name: array[i * 4 : i * 4 + 4] for name, array in data().items()} for i in range(10)]
        for batch in batches[:done]:
            t.step(batch)
        manifest = t.save_training_step(tmp_path / "step")
        assert (count > 1) == ("micro_batch" in [entry["name"] for entry in manifest["state"]])
        assert len(manifest["learning_rate"]) == 1
        content = (tmp_path / "step.bin").read_bytes()
        state = {
            entry["name"]: np.frombuffer(content[entry["offset"] :][: entry["bytes"]], entry["dtype"]).reshape(entry["shape"])
            for entry in manifest["state"] + manifest["constants"]
        }
        session = onnxruntime.InferenceSession(tmp_path / "step.onnx")
        names = [output.name for output in session.get_outputs()]
        for batch in batches[done:]:
            results = dict(zip(names, session.run(None, {**batch, **state}), strict=True))
            state |= {entry["input"]: results[entry["output"]] for entry in manifest["state"]}
            np.testing.assert_allclose(results[manifest["fetches"][0]["name"]], t.step(batch)["loss"], rtol=1e-5)
            for name, value in weights(t).items():
                np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=1e-6, err_msg=name)

    def test_one_file_holds_the_present_state(self):
        t = trainer(accumulate=2)
        t.step(data())
        made, manifest = t.to_training_step()
        onnx.checker.check_model(made, full_check=True)
        session = onnxruntime.InferenceSession(made.SerializeToString())
        (entry,) = [entry for entry in manifest["state"] if entry["name"] == "head.weight"]
        (new,) = session.run([entry["output"]], data())
        t.step(data())
        np.testing.assert_allclose(new, weights(t)["head.weight"], rtol=1e-5)


def test_a_function_gets_its_target_in_the_type_and_shape_of_the_sample():
    """Class numbers came as float32 in the shape of the scores"""
    given = []

    def loss(scores, classes):
        given.append((classes.dtype.name, classes.shape))
        return og.mean(F.cross_entropy(scores, classes))

    columns = data()
    t = trainer(loss=loss, metrics=[], sample=columns)
    assert given == [("int64", (-1,))]
    rows = [t.fit(columns, 2, batch_size=8)[-1]["loss"], trainer(metrics=[]).fit(columns, 2, batch_size=8)[-1]["loss"]]
    assert rows[0] == pytest.approx(rows[1], rel=1e-5)
    term = Term(lambda y, t: og.mean((y - t) * (y - t)))
    trainer(loss=term, metrics=[], sample={"target": np.zeros((2, 1))})
    assert term.dtype is None and term.dims is None


def test_a_checkpoint_is_loaded_into_the_memory_of_the_state(tmp_path):
    """After a step its bindings keep that memory, so a second one made 3 copies of the state of 2; what others hold is not written to"""
    t, other = trainer(seed=3), trainer(seed=3)
    t.step(data())
    t.save(tmp_path / "c")
    saved = weights(t)
    t.step(data())
    scope = t.program.active_scope()
    before, held = weights(t), scope.copy()
    names = [name for name in before if scope.stored(name).__class__.__name__ == "Buffer"]
    first = scope.stored(names[0])
    t.load(tmp_path / "c")
    assert scope.stored(names[0]) is not first  # which the copy holds
    assert_equal({name: held.get(name) for name in before}, before)
    assert_equal(weights(t), saved)
    del held
    for number in range(2):  # either side of the bindings
        t.step(data(seed=number))
        buffers = {name: scope.stored(name) for name in names}
        t.load(tmp_path / "c")
        assert all(scope.stored(name) is buffer for name, buffer in buffers.items())
        assert_equal(weights(t), saved)
    other.load(tmp_path / "c")
    for one in (t, other):
        one.step(data())
    assert_equal(weights(t), weights(other))


def statistics(t):
    return {name: np.array(t.program.find(name).get_value()) for name in ("body.mean", "body.var")}


class TestAverage:
    @pytest.mark.parametrize("accumulate", [1, 2])
    def test_running_statistics_are_averaged_with_the_weights(self, accumulate):
        """Evaluation normalised by those of the last weights, which are not those of the average"""
        t = trainer(ema=0.5, accumulate=accumulate, batch_norm="train", metrics=[])
        columns, seen = data(), []
        for at in range(6):
            t.step({name: column[6 * at : 6 * at + 6] for name, column in columns.items()})
            seen.append(statistics(t))
        expected, updates = dict.fromkeys(seen[0], 0.0), seen[accumulate - 1 :: accumulate]
        for now in updates:
            expected = {name: 0.5 * value + 0.5 * now[name] for name, value in expected.items()}
        scope = t.averaged()
        inside = {name: np.array(t.program.find(name).get_value(scope)) for name in seen[0]}
        for name, value in inside.items():
            np.testing.assert_allclose(value, expected[name] / (1 - 0.5 ** len(updates)), rtol=1e-5, atol=1e-6, err_msg=name)
            assert np.abs(value - seen[-1][name]).max() > 1e-3
            np.testing.assert_array_equal(statistics(t)[name], seen[-1][name])

    def test_evaluation_and_export_use_the_average(self, tmp_path):
        t = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=0.1, ema=0.5)
        batch = {"x": np.ones((2, 2), "f4"), "target": np.ones((2, 1), "f4")}
        seen = []
        for _ in range(3):
            t.step(batch)
            seen.append(weights(t)["w"])
        expected = (0.125 * seen[0] + 0.25 * seen[1] + 0.5 * seen[2]) / 0.875
        now = weights(t)
        t.export(tmp_path / "m.onnx")
        stored = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(tmp_path / "m.onnx").graph.initializer}
        np.testing.assert_allclose(stored["w"], expected, rtol=1e-5)
        y = t.predict({"x": batch["x"]})["y"]
        np.testing.assert_allclose(y, batch["x"] @ stored["w"] + stored["b"], rtol=1e-5)
        assert_equal(weights(t), now)

    def test_before_the_first_step_the_weights_are_used(self):
        t = Trainer(line(), loss="mse", ema=0.9)
        x = np.ones((1, 2), "f4")
        np.testing.assert_allclose(t.predict({"x": x})["y"], x @ weights(t)["w"] + weights(t)["b"], rtol=1e-6)

    def test_frozen_weights_have_no_average(self):
        averages = {name for name in weights(trainer(trainable="head.*", ema=0.9)) if "body" in name and "ema" in name}
        assert averages == {"body.mean.ema_0", "body.var.ema_0"}  # statistics, which still move


class TestSchedule:
    def test_warmup_and_cosine_reach_zero_at_the_end(self):
        rates = []
        t = trainer(schedule="cosine", warmup=3, learning_rate=1e-3)
        t.fit(data(), 4, batch_size=10, callbacks=[lambda trainer, row: rates.append(row["learning_rate"])])
        assert weights(t)["learning_rate_0"] < 1e-4
        assert rates[0] > rates[1] > rates[2] > rates[3] == pytest.approx(0.0, abs=1e-9)

    def test_schedule_counts_updates_with_accumulation(self):
        schedule = og.optimizer.lr.StepDecay(0.1, step_size=2, gamma=0.1)
        t = trainer(learning_rate=schedule, accumulate=2)
        t.fit(data(), 1, batch_size=10)
        assert schedule.last_epoch == 2

    def test_a_stream_without_length_is_refused(self):
        with pytest.raises(ArgumentError, match="number of batches"):
            trainer(schedule="linear").fit(lambda epoch: iter([data()]), 1)

    def test_unknown_schedule(self):
        with pytest.raises(ArgumentError, match=r"schedule is .*, not 'square'"):
            trainer(schedule="square")


class TestRunning:
    def test_a_second_call_goes_on(self):
        whole, parts = trainer(seed=3), trainer(seed=3)
        whole.fit(data(), 3, batch_size=8)
        parts.fit(data(), 1, batch_size=8)
        parts.fit(data(), 1, batch_size=8)
        rows = parts.fit(data(), batch_size=8)
        assert [row["epoch"] for row in rows] == [1, 2, 3]
        assert_equal(weights(parts), weights(whole))

    def test_total_epochs_count_those_before(self):
        t = trainer()
        t.fit(data(), 2)
        assert len(t.fit(data(), total_epochs=3)) == 3
        with pytest.warns(UserWarning, match="the run has had 3 epochs, and total_epochs is 3. Pass epochs="):
            t.fit(data(), total_epochs=3)
        with pytest.raises(ArgumentError, match="epochs is the number of further epochs, total_epochs the total"):
            t.fit(data(), 1, total_epochs=3)

    def test_patience_begins_anew_with_each_call(self):
        t = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=0.0)
        rows = {"x": np.ones((4, 2), "f4"), "target": np.ones((4, 1), "f4")}
        assert len(t.fit(rows, 50, rows, patience=2)) == 3
        assert len(t.fit(rows, 50, rows, patience=2)) == 6

    def test_a_schedule_goes_over_all_epochs(self):
        t = trainer(schedule="linear", learning_rate=1.0, optimizer="sgd")
        t.fit(data(), 2, batch_size=40)
        rows = t.fit(data(), 2, batch_size=40)
        assert [row["learning_rate"] for row in rows] == pytest.approx([0.5, 0.0, 0.25, 0.0])

    def test_early_stop(self):
        rows = trainer(learning_rate=0.0).fit(data(), 20, data(), patience=2, batch_size=40)
        assert len(rows) <= 20 and len(rows) - 1 - int(np.argmin([r["val_loss"] for r in rows])) == 2

    def test_callback_ends_the_run(self):
        rows = trainer().fit(data(), 9, callbacks=[lambda t, row: row["epoch"] == 2])
        assert len(rows) == 2

    def test_history_files_and_curves(self, tmp_path):
        rows = trainer().fit(data(), 2, data(), out=tmp_path, curves=True)
        with (tmp_path / "history.csv").open() as file:
            assert [float(row["val_loss"]) for row in csv.DictReader(file)] == [row["val_loss"] for row in rows]
        assert [json.loads(text) for text in (tmp_path / "history.jsonl").read_text().splitlines()] == rows
        assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"

    def test_last_k_checkpoints_stay_and_best_is_the_best(self, tmp_path):
        t = trainer(learning_rate=0.5)
        rows = t.fit(data(), 6, data(), batch_size=20, out=tmp_path, keep=2)
        assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-00000010.safetensors", "step-00000012.safetensors"]
        other = trainer(learning_rate=0.5)
        other.load(tmp_path / "best.safetensors")
        assert other.evaluate(data())["loss"] == pytest.approx(min(row["val_loss"] for row in rows), rel=1e-6)

    def test_evaluate_is_the_mean_over_examples(self):
        t = trainer()
        assert t.evaluate(data(), batch_size=7)["loss"] == pytest.approx(t.evaluate(data(), batch_size=40)["loss"], rel=1e-5)

    def test_predict_is_onnxruntime_on_the_export(self, tmp_path):
        t = trainer()
        t.fit(data(), 2)
        t.export(tmp_path / "m.onnx")
        (expected,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": data()["x"]})
        np.testing.assert_allclose(t.predict({"x": data()["x"]}, batch_size=9)["scores"], expected, rtol=1e-5, atol=1e-6)

    def test_export_keeps_names_metadata_and_dynamic_dimensions(self, tmp_path):
        t = trainer()
        t.fit(data(), 1)
        t.export(tmp_path / "m.onnx")
        before, after = model(), onnx.load(tmp_path / "m.onnx")
        assert [(n.op_type, *n.input, *n.output) for n in after.graph.node] == [
            (n.op_type, *n.input, *n.output) for n in before.graph.node
        ]
        assert list(after.graph.input) == list(before.graph.input) and list(after.graph.output) == list(before.graph.output)
        assert after.producer_name == "someone" and {m.key: m.value for m in after.metadata_props}["licence"] == "free"
        assert after.opset_import == before.opset_import
        stored = {i.name: onnx.numpy_helper.to_array(i) for i in after.graph.initializer}
        assert (stored["body.mean"] != 0).all() and stored["rate"] == np.float32(0.25)


OPTIMIZERS = optimizer_names()


class TestOptimizers:
    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_each_trains_by_its_name(self, name):
        t = trainer(optimizer=name, weight_decay=None if name == "rprop" else 0.01)
        before = weights(t)
        t.fit(data(), 1, batch_size=20)
        assert all((weights(t)[p.name] != before[p.name]).any() for p in t.trained)

    def test_one_without_weight_decay_says_so(self):
        with pytest.raises(ArgumentError, match="'rprop' has no weight decay"):
            trainer(optimizer="rprop", weight_decay=0.1)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_shows_loss_metric_speed_and_time_left(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    trainer().fit(data(), 1, data(), batch_size=10)
    drawn = sys.stderr.getvalue().split("\r")
    assert "0%" in drawn[1] and "opening" in sys.stderr.getvalue().partition("loss=")[0]
    assert any("100%" in bar and "examples/s" in bar and "loss=" in bar for bar in drawn)
    row = next(line for text in drawn for line in text.split("\n") if line.startswith("epoch 1/1  "))
    assert all(f"  {name} " in row for name in ("loss", "accuracy", "val_loss"))


class TestData:
    @pytest.mark.filterwarnings("ignore:nothing reads the data's 'more'")
    def test_every_form_gives_the_same_weights(self, tmp_path):
        columns = data()
        np.savez(tmp_path / "d.npz", **columns, more=np.zeros(3))
        batches = [{k: v[i : i + 10] for k, v in columns.items()} for i in range(0, 40, 10)]
        forms = [
            columns,
            str(tmp_path / "d.npz"),
            (columns["x"], columns["target"]),
            batches,
            [(b["x"], b["target"]) for b in batches],
            lambda epoch: iter(batches),
        ]
        found = []
        for form in forms:
            t = trainer()
            t.fit(form, 2, batch_size=10, shuffle=False)
            found.append(weights(t))
        for other in found[1:]:
            assert_equal(found[0], other)

    def test_drop_last(self):
        t = trainer()
        t.fit(data(), 1, batch_size=30, drop_last=True)
        assert t.step_number == 1

    def test_error_of_the_source_comes_out(self):
        def source(epoch):
            yield data(4)
            raise OSError("the camera is gone")

        with pytest.raises(OSError, match="camera"):
            trainer().fit(source, 1)


BAD = {
    "missing": (lambda d: {"x": d["x"]}, "no column 'target'; it has .'x'."),
    "length": (lambda d: {**d, "x": d["x"][:5]}, "'target' has shape .40., but 'x' has 5 examples"),
    "shape": (lambda d: {**d, "x": d["x"][:, :3]}, r"column 'x' has shape \[32, 3\], the model takes \[any, 4\]"),
    "kind": (lambda d: {**d, "x": d["x"].astype(str)}, "column 'x' is <U"),
    "float labels": (lambda d: {**d, "target": d["target"] * 0.5}, "column 'target' is float64, the model takes int64"),
    "large label": (lambda d: {**d, "target": d["target"] + 1}, "the label 3; the output has classes 0 to 2"),
    "negative label": (lambda d: {**d, "target": d["target"] - 1}, "the label -1"),
    "nan": (lambda d: {**d, "x": np.where(np.arange(40)[:, None] == 7, np.nan, d["x"])}, "'x' holds a value that is not finite"),
    "empty": (lambda d: {k: v[:0] for k, v in d.items()}, "no examples"),
    "scalars": (lambda d: {k: v[0, 0] if v.ndim == 2 else v[0] for k, v in d.items()}, "no examples|has shape"),
    "empty stream": (lambda d: iter(()), "no batch in this epoch"),
    "short tuple": (lambda d: (d["x"],), "1 arrays are given for the columns"),
}


class TestBadInput:
    @pytest.mark.parametrize("case", BAD)
    def test_bad_data_is_a_line_that_says_what_to_do(self, case):
        change, message = BAD[case]
        with pytest.raises(DataError, match=message) as caught:
            trainer().fit(change(data()), 1)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("how", ["fit", "validation", "evaluate", "stream", "step"])
    def test_columns_that_nothing_reads_are_named_once(self, how):
        t, more = trainer(), {**data(), "weight": np.ones(40), "id": np.arange(40)}
        run = {
            "fit": lambda: t.fit(more),
            "validation": lambda: t.fit(data(), 1, more),
            "evaluate": lambda: t.evaluate(more),
            "stream": lambda: t.fit([more], prefetch=0),
            "step": lambda: t.step(more),
        }[how]
        with pytest.warns(UserWarning, match=r"nothing reads the data's 'id', 'weight': .*are \['x', 'target'\]") as caught:
            run()
        assert len(caught) == 1
        run()

    def test_predicting_needs_no_targets_and_minds_none(self):
        trainer().predict(data())

    def test_files_that_are_no_data(self, tmp_path):
        (tmp_path / "d.npz").write_text("nothing")
        with pytest.raises(DataError, match=r"not an \.npz file"):
            trainer().fit(tmp_path / "d.npz")
        with pytest.raises(DataError, match="there is no file"):
            trainer().fit(tmp_path / "none.npz")

    def test_labels_are_checked_where_the_model_hides_its_classes(self):
        t = trainer()
        t.outputs[0].type = t.outputs[0].type._replace(dims=(None, None))
        with pytest.raises(DataError, match="the label 7; the output has classes 0 to 2"):
            t.step({"x": data(2)["x"], "target": np.array([1, 7])})

    def test_label_minus_100_does_not_count(self):
        d = data(8)
        half = {"x": d["x"], "target": np.where(np.arange(8) < 4, d["target"], -100)}
        t = trainer(metrics=[])
        assert t.evaluate(half)["loss"] == pytest.approx(t.evaluate({k: v[:4] for k, v in d.items()})["loss"], rel=1e-5)

    def test_loss_that_is_not_a_number_names_step_batch_and_operator(self):
        t = Trainer(line("y = Log(k)"), loss="mse", learning_rate=0.01)
        good = {"x": np.array([[3.0, 0.0]], "f4"), "target": np.ones((1, 1), "f4")}
        t.step(good)
        before = weights(t)
        with pytest.raises(TrainingError, match=r"loss is nan at step 2 \(epoch 1, batch 1\); .* y, computed by Log \(-> y\)"):
            t.step({**good, "x": -good["x"]})
        assert_equal(weights(t), before)

    def test_a_diverged_weight_is_named_and_never_saved(self, tmp_path):
        t = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=3e38)
        batch = {"x": np.full((2, 2), 1e3, "f4"), "target": np.ones((2, 1), "f4")}
        t.save(tmp_path / "c.safetensors")
        kept = (tmp_path / "c.safetensors").read_bytes()
        t.step(batch)
        with pytest.raises(TrainingError, match=r"earlier update left \w+ not finite. Lower the learning rate"):
            t.step(batch)
        with pytest.raises(TrainingError, match="not finite after step 1"):
            t.save(tmp_path / "c.safetensors")
        assert (tmp_path / "c.safetensors").read_bytes() == kept

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"loss": "crossentropy"}, ArgumentError, "no loss 'crossentropy'"),
            ({"loss": []}, ArgumentError, "a loss is a name"),
            ({"loss": Term("mse", output="nowhere")}, UnknownName, r"no output 'nowhere'; it has \['scores'\]"),
            ({"loss": "cross_entropy", "target": "head.weight"}, ArgumentError, "name of another tensor"),
            ({"loss": "ctc"}, ArgumentError, r"\[batch, steps, classes\]"),
            ({"trainable": "tail.*"}, UnknownName, "'tail.*' fits no parameter. The model has body.weight"),
            ({"freeze": "*"}, ArgumentError, "no parameter that may be trained reaches the loss"),
            ({"loss": Term("mse", output="normal"), "trainable": "head.*"}, ArgumentError, "reaches the loss"),
            ({"metrics": ["f7"]}, ArgumentError, "no metric 'f7'"),
            ({"optimizer": "sdg"}, ArgumentError, "no optimizer 'sdg'"),
            ({"accumulate": 0}, ArgumentError, "at least 1"),
            ({"loss": lambda y, t: 3.0, "sample": data()}, ArgumentError, "the loss function returned float"),
        ],
    )
    def test_impossible_arguments(self, options, error, message):
        with pytest.raises(error, match=message):
            trainer(**options)


def test_input_that_the_loss_does_not_need_is_named_and_not_asked_for():
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        x, z = static.data("x", [None, 3]), static.data("z", [None, 3])
        program.global_block().outputs += [static.nn.fc(x, size=1, name="a"), x + z]
    static.Executor().run(startup)
    first, second = (v.name for v in program.outputs)
    trainer = Trainer(program, loss=Term("mse", first, "y"))
    assert any(text.startswith("the loss does not need the input 'z'") for text in trainer.remarks)
    data = {"x": np.ones((4, 3), np.float32), "y": np.zeros((4, 1), np.float32)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.fit(data, 1, batch_size=2, verbose=False)
        assert trainer.evaluate({**data, "z": data["x"]})["loss"] > 0  # no warning either where the data has it
    assert trainer.columns == ["x", "y"]
    assert set(trainer.predict({**data, "z": data["x"]})) == {first, second}
