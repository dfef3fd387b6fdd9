"""The report of a run: what it holds agrees with the run, it changes nothing, and it opens in a browser."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from onnx.parser import parse_model

from onnxgrad.errors import OnnxGradError
from onnxgrad.pages.pictures import as_picture, png
from onnxgrad.training import Report, Term, Trainer
from onnxgrad.training.data.opening import open_data
from onnxgrad.training.report.examples import judge_examples
from tests.browser import open_page  # noqa: F401
from tests.training.small import data, line, model
from tests.training.test_trainer import trainer

ROOT = Path(__file__).parents[3]
HOSTILE = "</script><script>window.broken=1</script><img src=x onerror=window.broken=2>"


def held(folder):
    """The data of the page in a folder"""
    return json.loads(re.search(r'id="data">(.*?)</script>', (folder / "report.html").read_text())[1])


def run(folder, t=None, epochs=2, **more):
    t = t or trainer()
    t.fit(
        data(80), epochs, data(40, seed=2), batch_size=20, out=folder, callbacks=[Report("onnxgrad train")], verbose=False, **more
    )
    return t


class TestContents:
    def test_layers_are_named_after_modules(self, tmp_path):
        file = ROOT / "tests/data/real_models/torch/convnext_block-legacy17"
        t = Trainer(str(file / "model.onnx"), loss="mse", trainable="*")
        inputs = {v.name: np.load(file / "feed.npz")[v.name] for v in t.inference.inputs}
        y = t.predict(inputs)
        t.fit({**inputs, "target": next(iter(y.values()))}, 1, out=tmp_path, callbacks=[Report()], verbose=False)
        assert {"p1.weight", "p2.weight"} <= set(held(tmp_path)["layers"]) and "onnx::" not in str(held(tmp_path)["layers"])

    def test_the_epoch_of_the_large_numbers_is_the_exported_one(self, tmp_path):
        t = run(tmp_path, trainer(learning_rate=0.3), epochs=4, monitor="val_accuracy")
        best = max(row["val_accuracy"] for row in t.history)
        assert held(tmp_path)["kept"] == next(row["epoch"] for row in t.history if row["val_accuracy"] == best)

    def test_history_steps_and_settings_are_those_of_the_run(self, tmp_path):
        t = run(tmp_path, trainer(freeze="body.bias"))
        found = held(tmp_path)
        assert found["history"] == t.history and [row["step"] for row in found["steps"]] == list(range(1, 9))
        assert found["kept"] == min(t.history, key=lambda row: row["val_loss"])["epoch"] and found["before"] is None
        assert [p["name"] for p in found["trained"]] == [p.name for p in t.trained]
        assert [(p["name"], p["why"]) for p in found["frozen"]] == [("body.bias", "it was not chosen (trainable=, freeze=)")]
        assert found["command"] == "onnxgrad train" and dict(found["environment"])["optimizer"] == "AdamW"
        assert dict(found["memory"])["of them trained"] == 4 * sum(p.get_value().size for p in t.trained)

    @pytest.mark.parametrize("more", [{}, {"accumulate": 2}, {"memory": "low"}, {"clip_norm": 0.01}, {"ema": 0.9}], ids=str)
    def test_weights_are_bitwise_what_they_are_without_it(self, tmp_path, more):
        watched, plain = run(tmp_path, trainer(**more)), trainer(**more)
        plain.fit(data(80), 2, data(40, seed=2), batch_size=20, verbose=False)
        assert watched.history == plain.history
        for p in plain.trained:
            np.testing.assert_array_equal(watched.program.find(p.name).get_value(), p.get_value())

    def test_gradient_norms_are_those_of_the_gradients(self):
        t = Trainer(line(), loss="mse", optimizer="sgd", learning_rate=0.1)
        t.watch_gradients()
        rng = np.random.default_rng(0)
        x, target = (rng.normal(size=shape).astype(np.float32) for shape in ((8, 2), (8, 1)))
        before = {p.name: p.get_value().astype(np.float64) for p in t.trained}
        t.step({"x": x, "target": target})
        moved = [np.linalg.norm((before[p.name] - p.get_value()) / 0.1) for p in t.trained]
        np.testing.assert_allclose(t.gradient_norms, moved, rtol=1e-4)
        w, b = before["w"], before["b"]
        error = x @ w + b - target
        np.testing.assert_allclose(
            t.gradient_norms[[p.name for p in t.trained].index("w")], np.linalg.norm(x.T @ error / 4), rtol=1e-5
        )

    def test_norms_do_not_hold_the_scale_of_the_loss(self):
        x, target = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
        found = []
        for scale in (None, 1024.0):
            t = Trainer(line(), loss="mse", optimizer="sgd", loss_scale=scale)
            t.watch_gradients()
            t.step({"x": x, "target": target})
            found.append(t.gradient_norms)
        np.testing.assert_allclose(*found, rtol=1e-5)

    def test_update_ratios_are_those_of_the_weights(self, tmp_path):
        t = trainer()
        before = {p.name: p.get_value().astype(np.float64) for p in t.trained}
        t.fit(data(20), 1, batch_size=20, out=tmp_path, callbacks=[Report()], verbose=False)
        (sample,) = held(tmp_path)["samples"]
        for name, ratio in zip(held(tmp_path)["layers"], sample["update"], strict=True):
            old, new = before[name], t.program.find(name).get_value()
            norm = np.linalg.norm(old)
            assert ratio == (None if norm == 0 else pytest.approx(np.linalg.norm(new - old) / norm, rel=1e-4))

    def test_a_resumed_run_goes_on_with_its_curves(self, tmp_path):
        run(tmp_path, epochs=1)
        t = trainer()
        t.fit(data(80), total_epochs=2, validation=data(40, seed=2), batch_size=20, out=tmp_path, resume=True,
              callbacks=[Report()], verbose=False)  # fmt: skip
        assert [row["step"] for row in held(tmp_path)["steps"]] == list(range(1, 9)) and len(held(tmp_path)["history"]) == 2

    def test_long_runs_are_thinned(self, tmp_path):
        t = trainer()
        t.fit(data(1300), 1, batch_size=1, out=tmp_path, callbacks=[Report()], verbose=False)
        found = held(tmp_path)
        assert 500 < len(found["steps"]) <= 1200 and found["steps"][-1]["step"] == 1300
        assert 20 < len(found["samples"]) <= 80 and found["samples"][-1]["step"] > 1200

    def test_evaluations_within_an_epoch_and_tables_are_there(self, tmp_path):
        report = Report()
        t = trainer()
        t.fit(data(80), 1, data(40, seed=2), batch_size=20, evaluate_every=2, out=tmp_path, callbacks=[report], verbose=False)
        report.add("Quantisation", ["", "accuracy"], [["before", 0.5], ["after", 0.25]])
        found = held(tmp_path)
        assert found["evaluations"] == t.evaluations and [row["step"] for row in found["evaluations"]] == [2, 4]
        assert found["history"] == t.history and found["tables"][0]["rows"] == [["before", 0.5], ["after", 0.25]]

    def test_it_needs_a_folder(self):
        with pytest.raises(OnnxGradError, match="no folder to write to"):
            trainer().fit(data(), callbacks=[Report()], verbose=False)


class TestExamples:
    def test_confusion_and_losses_are_those_of_the_predictions(self, tmp_path):
        t = run(tmp_path)
        found, columns = held(tmp_path)["examples"], data(40, seed=2)
        scores = t.predict({"x": columns["x"]})["scores"].astype(np.float64)
        losses = np.log(np.exp(scores).sum(1)) - scores[np.arange(40), columns["target"]]
        assert found["count"] == 40 and [e["number"] for e in found["worst"]] == np.argsort(-losses)[:12].tolist()
        np.testing.assert_allclose([e["loss"] for e in found["best"]], np.sort(losses)[:12], rtol=1e-4)
        counts = np.zeros((3, 3), int)
        np.add.at(counts, (columns["target"], scores.argmax(1)), 1)
        assert found["confusion"]["counts"] == counts.tolist()
        assert found["confusion"]["right"] == (scores.argmax(1) == columns["target"]).sum()
        first = found["worst"][0]
        assert first["row"][0][0] == "x" and first["predicted"] == str(scores[first["number"]].argmax())

    @pytest.mark.parametrize("activation", ["Identity", "Sigmoid"])
    @pytest.mark.parametrize("loss", ["bce_with_logits", "focal"])
    def test_single_scores_are_compared_with_the_threshold_of_their_activation(self, loss, activation):
        text = f"""<ir_version: 10, opset_import: ["": 21]> f (float[N, 1] x) => (float[N, 1] y) <float[1, 1] w = {{1.0}}, float[1] b = {{0.0}}>
        {{ p = MatMul(x, w)  z = Add(p, b)  y = {activation}(z) }}"""
        columns = {"x": np.array([[-2.0], [-1], [1], [2]], np.float32), "target": np.array([[0.0], [1], [1], [1]], np.float32)}
        t = Trainer(parse_model(text), loss=loss, trainable="*")
        summary = judge_examples(t, open_data(columns, t.model.spec), 4)
        assert summary["confusion"]["counts"] == [[1, 0], [1, 2]]

    def test_classes_have_the_names_of_the_data(self, tmp_path):
        columns = data(40, seed=2)
        rows = [{"x": x.tolist(), "target": "xyz"[k]} for x, k in zip(columns["x"], columns["target"], strict=True)]
        (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
        t = trainer()
        t.fit(str(tmp_path / "d.jsonl"), 1, str(tmp_path / "d.jsonl"), out=tmp_path / "run", callbacks=[Report()], verbose=False)
        found = held(tmp_path / "run")["examples"]
        assert found["confusion"]["classes"] == ["x", "y", "z"]
        assert found["worst"][0]["target"] == "xyz"[columns["target"][found["worst"][0]["number"]]]

    def test_residuals_of_a_regression(self, tmp_path):
        rng = np.random.default_rng(0)
        columns = {"x": rng.normal(size=(30, 2)).astype(np.float32)}
        columns["target"] = columns["x"].sum(1, keepdims=True)
        t = Trainer(line(), loss="mse", learning_rate=0.01)
        t.fit(columns, 1, columns, out=tmp_path, callbacks=[Report()], verbose=False)
        y = t.predict({"x": columns["x"]})["y"].astype(np.float64)
        found = held(tmp_path)["examples"]["residuals"]
        np.testing.assert_allclose(found["pairs"], np.hstack([columns["target"], y]), rtol=1e-5)
        spread = ((columns["target"] - columns["target"].mean()) ** 2).sum()
        assert sum(found["counts"]) == 30 and found["r2"] == pytest.approx(
            1 - ((y - columns["target"]) ** 2).sum() / spread, rel=1e-4
        )

    def test_a_loss_without_a_formula_here_is_taken_of_each_example_alone(self, tmp_path):
        t = trainer(loss=[Term("cross_entropy", weight=0.5), Term("cross_entropy", weight=0.25)])
        run(tmp_path, t)
        found, columns = held(tmp_path)["examples"], data(40, seed=2)
        scores = t.predict({"x": columns["x"]})["scores"].astype(np.float64)
        losses = 0.75 * (np.log(np.exp(scores).sum(1)) - scores[np.arange(40), columns["target"]])
        np.testing.assert_allclose([e["loss"] for e in found["worst"]], np.sort(losses)[::-1][:12], rtol=1e-4)

    @pytest.mark.parametrize("shape", [(1, 8, 9), (3, 8, 9), (8, 9, 3), (8, 9, 1), (8, 9)])
    def test_pictures_hold_the_pixels(self, shape):
        image = pytest.importorskip("PIL.Image")
        array = np.random.default_rng(0).random(shape)
        address = as_picture(array)
        import base64
        import io

        with image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))) as picture:
            pixels = np.asarray(picture)
        plain = np.moveaxis(array, 0, -1) if shape[0] in (1, 3) else array
        expected = np.round((plain - array.min()) / (array.max() - array.min()) * 255)
        np.testing.assert_array_equal(pixels.reshape(expected.shape), expected)

    def test_what_is_no_picture_is_none(self):
        assert as_picture(np.zeros(4)) is None and as_picture(np.zeros((2, 2))) is None and as_picture(np.zeros((4, 9, 9))) is None
        assert png(np.zeros((2, 2), np.uint8)).startswith(b"\x89PNG")


# In a browser --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 400)])
def test_the_page_opens_with_all_its_parts(open_page, tmp_path, scheme, width):  # noqa: F811
    run(tmp_path)
    with open_page(tmp_path / "report.html", scheme, width) as page:
        titles = page.locator("section h2").all_inner_texts()
        expected = [
            "Curves",
            "Confusion",
            "Validation examples",
            "Gradients and updates",
            "Weights",
            "Memory",
            "Environment",
            "Command",
        ]
        assert titles == expected
        assert page.locator("#curves svg path").count() >= 5 and page.locator("#confusion td").count() == 9
        assert page.locator(".example").count() == 24
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        chart = page.locator("#curves svg").first
        chart.scroll_into_view_if_needed()
        chart.hover()
        assert re.search(r"step \d\ntraining \d", page.locator("#tip").inner_text())
        page.locator("nav a", has_text="Memory").click()
        assert page.evaluate("location.hash") == "#memory"


def test_names_of_a_file_are_text(open_page, tmp_path):  # noqa: F811
    hostile = model()
    for node in hostile.graph.node:
        node.input[:] = [HOSTILE if name == "body.bias" else name for name in node.input]
    for tensor in hostile.graph.initializer:
        tensor.name = HOSTILE if tensor.name == "body.bias" else tensor.name
    run(tmp_path, Trainer(hostile, loss="cross_entropy"))
    assert HOSTILE not in (tmp_path / "report.html").read_text()
    with open_page(tmp_path / "report.html") as page:
        assert HOSTILE in page.locator("#weights").inner_text() and page.evaluate("window.broken === undefined")
