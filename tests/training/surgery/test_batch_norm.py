"""BatchNormalization behind layers: put back as the identity, trained, folded again."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError, DataError, UnknownName
from onnxgrad.training import Trainer, add_lora, fold_batch_norm, insert_batch_norm
from tests import real_models
from tests.training.small import data, model

FOLDED, PLAIN = (real_models.FOLDER / "torch" / name / "model.onnx" for name in ("mobilenetv2-dyn18", "mobilenetv2-legacy13"))
IMAGES = np.random.default_rng(0).normal(0, 1, (24, 3, 32, 32)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 5, 24)


def run(program_or_file, feed):
    program = og.from_onnx(program_or_file) if not isinstance(program_or_file, og.static.Program) else program_or_file
    return og.static.Executor().run(program, feed, program.outputs)


def kinds(program):
    return [op.type for op in program.global_block().ops]


def layer(text, **arrays):
    """A file with one layer and BatchNormalization behind it; the statistics are those of nobody."""
    rng = np.random.default_rng(0)
    found = parse_model(text)
    channels = arrays.pop("channels", 4)
    arrays |= {name: rng.normal(0, 1, channels) for name in ("scale", "shift", "mean")} | {"var": rng.uniform(0.5, 2, channels)}
    for name, array in arrays.items():
        found.graph.initializer.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
    return found


def around(node, x):
    return f"""<ir_version: 8, opset_import: ["": 17]> f ({x} x) => ({"float[N, 4, H, W]" if "," in x[9:] else "float[N, 4]"} y) {{
        {node}
        y = BatchNormalization <epsilon = 0.01> (h, scale, shift, mean, var) }}"""


def normal(*shape):
    return np.random.default_rng(7).normal(0, 1, shape)


IMAGE, ROWS = "float[N, 6, 9, 9]", "float[N, 6]"
CASES = {
    "Conv": (around("h = Conv(x, w, b)", IMAGE), {"w": normal(4, 6, 3, 3), "b": normal(4)}),
    "Conv without bias": (around("h = Conv(x, w)", IMAGE), {"w": normal(4, 6, 3, 3)}),
    "Conv in groups": (
        around("h = Conv <group = 2, strides = [2, 2]> (x, w, b)", IMAGE),
        {"w": normal(4, 3, 3, 3), "b": normal(4)},
    ),
    "ConvTranspose": (around("h = ConvTranspose(x, w, b)", IMAGE), {"w": normal(6, 4, 3, 3), "b": normal(4)}),
    "ConvTranspose in groups": (around("h = ConvTranspose <group = 2> (x, w)", IMAGE), {"w": normal(6, 2, 3, 3)}),
    "Gemm": (around("h = Gemm <transB = 1, alpha = 0.5, beta = 3.0> (x, w, b)", ROWS), {"w": normal(4, 6), "b": normal(4)}),
    "Gemm with one bias for all": (around("h = Gemm(x, w, b)", ROWS), {"w": normal(6, 4), "b": normal(1, 1)}),
    "Gemm without bias": (around("h = Gemm(x, w)", ROWS), {"w": normal(6, 4)}),
}


class TestFolding:
    @pytest.mark.parametrize("case", CASES)
    def test_a_layer_gives_the_same_without_its_normalization(self, case):
        text, arrays = CASES[case]
        program = og.from_onnx(layer(text, **arrays))
        x = normal(3, *((6, 9, 9) if "Conv" in case else (6,))).astype(np.float32)
        folded = fold_batch_norm(program)
        assert len(kinds(folded)) == 1 and len(kinds(program)) == 2
        np.testing.assert_allclose(run(folded, {"x": x})[0], run(program, {"x": x})[0], rtol=1e-4, atol=1e-5)
        exported = og.to_onnx(folded)
        onnx.checker.check_model(exported, full_check=True)
        assert {i.name for i in exported.graph.initializer} == set(exported.graph.node[0].input) - {"x"}

    def test_a_weight_that_another_layer_reads_keeps_its_numbers_there(self):
        text = around("h = Conv(x, w, b)  z = Conv(x, w, b)", IMAGE).replace("W] y", "W] y, float[N, 4, A, B] z")
        program = og.from_onnx(layer(text, w=normal(4, 6, 3, 3), b=normal(4)))
        x = normal(3, 6, 9, 9).astype(np.float32)
        folded = fold_batch_norm(program)
        assert kinds(folded) == ["Conv", "Conv"]
        for found, wanted in zip(run(folded, {"x": x}), run(program, {"x": x}), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        "node, output",
        [
            ("k = Conv(x, w, b)  h = Relu(k)", ""),
            ("h = Conv(x, w, b)", ", float[N, 4, A, B] h"),
            ("h = Conv(x, w, b)  z = Relu(h)", ", float[N, 4, A, B] z"),
            ("v = Neg(w)  h = Conv(x, v, b)", ""),
            ("v = Neg(b)  h = Conv(x, w, v)", ""),
        ],
        ids=["not a layer", "an output", "read elsewhere", "a computed weight", "a computed bias"],
    )
    def test_what_cannot_be_folded_stays(self, node, output):
        text = around(node, IMAGE).replace("W] y", f"W] y{output}")
        program = og.from_onnx(layer(text, w=normal(4, 6, 3, 3), b=normal(4)))
        assert kinds(fold_batch_norm(program)) == kinds(program)

    def test_a_computed_scale_and_statistics_of_the_batch_stay(self):
        arrays = {"w": normal(4, 6, 3, 3), "b": normal(4)}
        text = around("h = Conv(x, w, b)  s = Abs(scale)", IMAGE).replace("(h, scale,", "(h, s,")
        program = og.from_onnx(layer(text, **arrays))
        assert kinds(fold_batch_norm(program)) == kinds(program)
        trains = around("h = Conv(x, w, b)", IMAGE).replace("epsilon = 0.01", "training_mode = 1")
        program = og.from_onnx(layer(trains.replace("y = Batch", "y, m, v = Batch"), **arrays))
        assert kinds(fold_batch_norm(program)) == kinds(program)

    def test_an_exporters_file_becomes_what_the_exporter_folds_itself(self):
        program, theirs = og.from_onnx(PLAIN), og.from_onnx(FOLDED)
        assert kinds(program).count("BatchNormalization") == 10
        folded = fold_batch_norm(program)
        ours, exporters = (
            [kind for kind in kinds(one) if kind in ("Conv", "BatchNormalization", "Gemm", "Add")] for one in (folded, theirs)
        )
        assert ours == exporters and all(len(op.inputs) == 3 for op in folded.global_block().ops if op.type == "Conv")
        np.testing.assert_allclose(run(folded, {"x": IMAGES})[0], run(program, {"x": IMAGES})[0], rtol=1e-3, atol=1e-5)

    def test_the_program_that_is_copied_keeps_its_weights(self):
        program = og.from_onnx(PLAIN)
        before = {p.name: p.get_value().copy() for p in program.parameters}
        fold_batch_norm(program)
        for p in program.parameters:
            np.testing.assert_array_equal(p.get_value(), before[p.name])


class TestInserting:
    def test_inference_is_as_before(self):
        program = og.from_onnx(FOLDED)
        (before,) = run(program, {"x": IMAGES})
        assert len(insert_batch_norm(program, data={"x": IMAGES})) == 10
        assert kinds(program).count("BatchNormalization") == 10
        np.testing.assert_allclose(run(program, {"x": IMAGES})[0], before, rtol=1e-4, atol=1e-5)

    def test_training_on_the_sample_data_begins_at_the_same_values(self):
        program = og.from_onnx(FOLDED)
        (before,) = run(program, {"x": IMAGES})
        insert_batch_norm(program, data={"x": IMAGES}, batch_size=5)
        np.testing.assert_allclose(run(program.train(), {"x": IMAGES})[0], before, rtol=1e-3, atol=1e-4)

    def test_statistics_are_those_of_the_data(self):
        program = og.from_onnx(
            layer(
                around("h = Gemm(x, w, b)", ROWS).replace("(h, scale", "(k, scale").replace("y = Batch", "k = Relu(h) y = Batch"),
                w=normal(6, 4),
                b=normal(4),
            )
        )
        x = normal(50, 6).astype(np.float32)
        assert insert_batch_norm(program, "h", {"x": x}, batch_size=7) == ["h"]
        h = x @ normal(6, 4) + normal(4)
        np.testing.assert_allclose(program.global_block().var("h.norm.mean").get_value(), h.mean(axis=0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(program.global_block().var("h.norm.var").get_value(), h.var(axis=0), rtol=1e-4)

    def test_a_trained_model_is_exported_with_the_nodes_of_its_file(self, tmp_path):
        program = og.from_onnx(FOLDED)
        insert_batch_norm(program, data={"x": IMAGES})
        t = Trainer(program, loss="cross_entropy", learning_rate=1e-2)
        t.fit({"x": IMAGES, "target": LABELS}, 3, batch_size=8, verbose=False)
        moved = [v for v in program.global_block().vars.values() if v.name.endswith(".norm.mean")]
        assert len(moved) == 10 and any(p.name.endswith(".norm.scale") for p in t.trained)
        t.export(tmp_path / "m.onnx")
        after, before = onnx.load(tmp_path / "m.onnx"), onnx.load(FOLDED)
        assert [(n.op_type, *n.input, *n.output) for n in after.graph.node] == [
            (n.op_type, *n.input, *n.output) for n in before.graph.node
        ]
        assert [i.name for i in after.graph.initializer] == [i.name for i in before.graph.initializer]
        (found,) = run(str(tmp_path / "m.onnx"), {"x": IMAGES})
        np.testing.assert_allclose(found, t.predict({"x": IMAGES})[program.outputs[0].name], rtol=1e-3, atol=1e-4)

    def test_with_lora_branches_around(self, tmp_path):
        for first in ("lora", "norm"):
            program = og.from_onnx(FOLDED)
            name = next(op.inputs[1].name for op in program.global_block().ops if op.type == "Conv" and op.attr("group") == 1)
            if first == "lora":
                add_lora(program, name, rank=2)
            insert_batch_norm(program, data={"x": IMAGES})
            if first == "norm":
                add_lora(program, name, rank=2)
            t = Trainer(program, loss="cross_entropy", learning_rate=1e-2)
            t.fit({"x": IMAGES, "target": LABELS}, 2, batch_size=8, verbose=False)
            t.export(tmp_path / "m.onnx")
            assert sorted(n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node) == sorted(kinds(og.from_onnx(FOLDED)))
            (found,) = run(str(tmp_path / "m.onnx"), {"x": IMAGES})
            np.testing.assert_allclose(found, t.predict({"x": IMAGES})[program.outputs[0].name], rtol=1e-3, atol=1e-4)

    def test_export_may_fold_the_models_own_too(self, tmp_path):
        t = Trainer(model(), loss="cross_entropy", learning_rate=1e-2)
        t.fit(data(), 2, verbose=False)
        t.export(tmp_path / "kept.onnx")
        t.export(tmp_path / "folded.onnx", fold=True)
        found = [[n.op_type for n in onnx.load(tmp_path / f"{name}.onnx").graph.node] for name in ("kept", "folded")]
        assert "BatchNormalization" in found[0] and found[1] == [kind for kind in found[0] if kind != "BatchNormalization"]
        x = {"x": data()["x"]}
        np.testing.assert_allclose(run(str(tmp_path / "folded.onnx"), x)[0], t.predict(x)["scores"], rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        "after, error, text",
        [
            ("nowhere", UnknownName, "Layers compute: hidden, scores"),
            ("active", ArgumentError, "is not the result of a Conv"),
            ("scores", ArgumentError, "is an output"),
            ("hidden", ArgumentError, "already"),
            (None, ArgumentError, "no Conv or ConvTranspose"),
        ],
    )
    def test_refusals(self, after, error, text):
        with pytest.raises(error, match=text):
            insert_batch_norm(og.from_onnx(model()), after, {"x": data()["x"]})

    def test_data_of_another_shape_is_refused(self):
        with pytest.raises(DataError, match="x"):
            insert_batch_norm(og.from_onnx(FOLDED), data={"x": IMAGES[:, :, 0]})


class TestMergedStatistics:
    """Exporters store equal tensors once: at first all means are 0 and all variances 1."""

    TEXT = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y)
        <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] t = {1, 1}, float[2] c = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}> {
        h = BatchNormalization (x, s, b, m, v)
        k = Add (h, x)
        y = BatchNormalization (k, t, c, m, v) }"""

    def test_each_learns_its_own(self, tmp_path):
        t = Trainer(parse_model(self.TEXT), loss="mse", optimizer="sgd", learning_rate=0.0)
        x = np.random.default_rng(0).normal(5, 2, (64, 2)).astype(np.float32)
        for _ in range(150):
            t.step({"x": x, "target": x})
        t.export(tmp_path / "m.onnx")
        stored = {i.name: numpy_helper.to_array(i) for i in onnx.load(tmp_path / "m.onnx").graph.initializer}
        first, second = onnx.load(tmp_path / "m.onnx").graph.node[0], onnx.load(tmp_path / "m.onnx").graph.node[2]
        k = (x - x.mean(axis=0)) / x.std(axis=0) + x
        np.testing.assert_allclose(stored[first.input[3]], x.mean(axis=0), rtol=1e-4)
        np.testing.assert_allclose(stored[second.input[4]], k.var(axis=0), rtol=1e-4)
        (found,) = run(str(tmp_path / "m.onnx"), {"x": x})
        np.testing.assert_allclose(found, t.predict({"x": x})["y"], rtol=1e-5)
        np.testing.assert_allclose(found, (k - k.mean(axis=0)) / k.std(axis=0), atol=1e-3)


class TestChoice:
    """What training does with the statistics of a file."""

    @staticmethod
    def file(stored=True):
        found = model()
        for tensor in found.graph.initializer:
            if stored and tensor.name in ("body.mean", "body.var"):
                start = np.linspace(0.1, 0.8, 8) + (tensor.name == "body.var")
                tensor.CopyFrom(numpy_helper.from_array(start.astype(np.float32), tensor.name))
            if tensor.name == "rate":
                tensor.CopyFrom(numpy_helper.from_array(np.array(0.0, np.float32), "rate"))
        return found

    @staticmethod
    def trained(found, **options):
        t = Trainer(found, loss="cross_entropy", learning_rate=0.02, **options)
        before = t.evaluate(data())["loss"]
        first = t.step(data())["loss"]
        t.fit(data(), 3, batch_size=8)
        return t, before, first, [t.program.global_block().vars[f"body.{n}"].get_value() for n in ("mean", "var")]

    @pytest.mark.parametrize("options", [{}, {"batch_norm": "frozen"}])
    def test_statistics_of_a_file_are_kept(self, options, tmp_path):
        t, before, first, (mean, var) = self.trained(self.file(), **options)
        assert first == pytest.approx(before, rel=1e-6), "a step sees what evaluation sees"
        start = np.linspace(0.1, 0.8, 8, dtype=np.float32)
        np.testing.assert_array_equal(mean, start)
        np.testing.assert_allclose(var, start + 1)
        assert [r for r in t.remarks if "BatchNormalization" in r] == [
            "BatchNormalization (1 operators) normalises by the statistics of the file (batch_norm 'frozen'); "
            "'train' normalises by batch and updates them."
        ]
        assert {"body.scale", "body.shift"} <= {p.name for p in t.trained}
        t.export(tmp_path / "tuned.onnx")
        held = {i.name: numpy_helper.to_array(i) for i in onnx.load(tmp_path / "tuned.onnx").graph.initializer}
        np.testing.assert_array_equal(held["body.mean"], start)

    def test_a_file_without_statistics_learns_them(self):
        t, before, first, (mean, _) = self.trained(self.file(stored=False))
        assert abs(first - before) > 1e-3 and (mean != 0).all()
        assert any("since the file has none of its own" in remark for remark in t.remarks)

    def test_statistics_are_learned_if_asked(self):
        t, before, first, (mean, _) = self.trained(self.file(), batch_norm="train")
        assert abs(first - before) > 1e-3 and (mean != np.linspace(0.1, 0.8, 8, dtype=np.float32)).all()
        assert any("updates the statistics (batch_norm 'train')" in remark for remark in t.remarks)

    def test_insert_is_insert_batch_norm(self):
        by_hand = og.from_onnx(FOLDED)
        insert_batch_norm(by_hand, None, (IMAGES,))
        a = Trainer(by_hand, loss="cross_entropy", seed=1)
        b = Trainer(FOLDED, loss="cross_entropy", seed=1, batch_norm="insert", sample=(IMAGES,))
        batch = {by_hand.inputs[0].name: IMAGES, "target": LABELS}
        assert a.step(batch)["loss"] == b.step(batch)["loss"]
        assert a.remarks == b.remarks and "that was inserted" in b.remarks[-1]

    def test_what_was_inserted_is_trained_beside_frozen_statistics(self):
        text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 2, 5] x) => (float[N, 2] y)
                  <float[2, 2, 1] w = {1, 2, -1, 1}, float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {1, 2}, float[2] v = {3, 4}>
                  { n = BatchNormalization (x, s, b, m, v)  h = Conv (n, w)  a = Relu (h)  g = GlobalAveragePool (a)  y = Flatten (g) }"""
        program = og.from_onnx(parse_model(text))
        x = np.random.default_rng(2).normal(0, 1, (16, 2, 5)).astype(np.float32)
        insert_batch_norm(program, None, (x,))
        t = Trainer(program, loss="mse")
        before = {name: t.program.global_block().vars[name].get_value() for name in ("m", "h.norm.mean")}
        t.step({"x": 2 * x, "target": np.zeros((16, 2), np.float32)})
        after = {name: t.program.global_block().vars[name].get_value() for name in before}
        np.testing.assert_array_equal(after["m"], before["m"])
        assert (after["h.norm.mean"] != before["h.norm.mean"]).all()

    @pytest.mark.parametrize(("options", "message"), [
        ({"batch_norm": "both"}, "batch_norm is 'frozen', 'train', 'insert' or None, not 'both'"),
        ({"batch_norm": "insert"}, "Give sample="),
    ])  # fmt: skip
    def test_wrong_arguments(self, options, message):
        with pytest.raises(ArgumentError, match=message):
            Trainer(self.file(), loss="cross_entropy", **options)
