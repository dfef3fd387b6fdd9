"""Choosing what trains: heads, cuts, LoRA, ties, Dropout put back in."""

import itertools
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.training import (
    Trainer,
    add_lora,
    cut_at,
    find_ties,
    insert_dropout,
    load_adapters,
    merge_lora,
    replace_head,
    save_adapters,
    tie,
    untie,
)
from onnxgrad.training.surgery.lora import branches_of
from tests.real_models import FOLDER
from tests.training.small import data, line, model, weights

DIGITS = "models/digits/digits.onnx"


def run(path_or_model, feed):
    found = path_or_model if isinstance(path_or_model, (str, bytes)) else path_or_model.SerializeToString()
    return onnxruntime.InferenceSession(found).run(None, feed)


def of(program, feed):
    return run(og.to_onnx(program), feed)


class TestCut:
    def test_the_tensor_becomes_the_only_output_and_nothing_else_stays(self):
        program = cut_at(og.from_onnx(model()), "active")
        written = og.to_onnx(program)
        onnx.checker.check_model(written, full_check=True)
        assert [v.name for v in written.graph.output] == ["active"]
        assert [n.op_type for n in written.graph.node] == ["Gemm", "BatchNormalization", "Relu"]
        assert not any(i.name.startswith("head") for i in written.graph.initializer)
        assert [p.name for p in program.parameters] == ["body.weight", "body.bias", "body.scale", "body.shift"]
        (found,) = run(written, {"x": data()["x"]})
        assert found.shape == (40, 8) and (found >= 0).all()

    def test_several_tensors_become_the_outputs_in_their_order(self):
        written = og.to_onnx(cut_at(og.from_onnx(model()), ["active", "hidden"]))
        assert [v.name for v in written.graph.output] == ["active", "hidden"]
        assert [n.op_type for n in written.graph.node] == ["Gemm", "BatchNormalization", "Relu"]

    def test_an_unknown_tensor(self):
        with pytest.raises(UnknownName, match=r"no operator of the main graph computes 'act'. Name a tensor, such as active"):
            cut_at(og.from_onnx(model()), "act")
        with pytest.raises(UnknownName, match="computes 'x'"):
            cut_at(og.from_onnx(model()), "x")


class TestHead:
    def test_the_last_layer_is_found_and_replaced(self):
        program = replace_head(og.from_onnx(model()), classes=5)
        written = og.to_onnx(program)
        onnx.checker.check_model(written, full_check=True)
        assert [v.name for v in written.graph.output] == ["scores"]
        (found,) = run(written, {"x": data()["x"]})
        assert found.shape == (40, 5)
        assert {"head.weight", "head.bias"} <= {p.name.split("_")[0] for p in program.parameters}

    def test_a_new_head_alone_is_trained(self):
        program = replace_head(og.from_onnx(model()), at="active", classes=3, name="mine")
        t = Trainer(program, loss="cross_entropy", trainable="mine.*", learning_rate=0.1)
        rows = t.fit(data(), 15, batch_size=40)
        assert [p.name for p in t.trained] == ["mine.weight", "mine.bias"]
        assert rows[-1]["loss"] < 0.7 * rows[0]["loss"]

    def test_pictures_are_averaged_over_their_positions(self):
        program = og.from_onnx(DIGITS)
        pooled = next(op.outputs[0].name for op in program.global_block().ops if op.type == "MaxPool")
        (found,) = of(replace_head(program, at=pooled, classes=4), {"image": np.zeros((2, 1, 8, 8), "f4")})
        assert found.shape == (2, 4)

    @pytest.mark.parametrize("name", ["mobilenetv2-dyn18", "bert-dyn18", "timm_convnext-legacy17"])
    def test_real_files(self, name):
        folder = FOLDER / "torch" / name
        program = replace_head(og.from_onnx(folder / "model.onnx"), classes=7)
        feed = dict(np.load(folder / "feed.npz"))
        feed.pop("__target", None)
        found = of(program, feed)
        assert found[0].shape[-1] == 7

    def test_refusals(self):
        with pytest.raises(ArgumentError, match="at least 1"):
            replace_head(og.from_onnx(model()), classes=0)
        text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, M] x) => (float[N, M] y) { h = Exp (x) y = Neg(h) }'
        with pytest.raises(ArgumentError, match="no MatMul, Gemm or Conv is found"):
            replace_head(og.from_onnx(parse_model(text)))
        with pytest.raises(ArgumentError, match=r"last dimension of .* must be known"):
            replace_head(og.from_onnx(parse_model(text)), at="h")


LAYERS = {
    "MatMul": ("[N, 3, 4] x) => (float[N, 3, 5] y", "y = MatMul (x, w)", (4, 5)),
    "Gemm": ("[N, 4] x) => (float[N, 5] y", "y = Gemm (x, w)", (4, 5)),
    "Gemm transposed": ("[N, 4] x) => (float[N, 5] y", "y = Gemm <transB = 1, alpha = 0.5> (x, w)", (5, 4)),
    "Conv": (
        "[N, 4, 7, 7] x) => (float[N, 5, A, B] y",
        "y = Conv <strides = [2, 1], pads = [1, 1, 0, 1], dilations = [1, 2]> (x, w)",
        (5, 4, 3, 2),
    ),
    "Conv in groups": ("[N, 4, 7, 7] x) => (float[N, 6, A, B] y", "y = Conv <group = 2, strides = [2, 1]> (x, w)", (6, 2, 3, 2)),
    "Gemm with transposed rows": ("[4, N] x) => (float[N, 5] y", "y = Gemm <transA = 1, transB = 1, alpha = 2.0> (x, w)", (5, 4)),
    "Transpose": ("[N, 4] x) => (float[N, 5] y", "t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t)", (5, 4)),
}


def layer(name):
    types, text, shape = LAYERS[name]
    made = parse_model(f'<ir_version: 8, opset_import: ["": 17]> f (float{types}) {{ {text} }}')
    made.graph.initializer.append(numpy_helper.from_array(np.random.default_rng(0).normal(0, 1, shape).astype("f4"), "w"))
    dims = [d.dim_value or 2 for d in made.graph.input[0].type.tensor_type.shape.dim]
    return made, np.random.default_rng(1).normal(0, 1, dims).astype("f4")


class TestLora:
    @pytest.mark.parametrize("name", LAYERS)
    def test_branch_starts_silent_learns_and_is_merged(self, name, tmp_path):
        made, x = layer(name)
        program = og.from_onnx(made)
        assert add_lora(program, rank=2) == ["w.lora_A", "w.lora_B"]
        np.testing.assert_array_equal(of(program, {"x": x})[0], run(made, {"x": x})[0])
        target = np.random.default_rng(2).normal(0, 1, run(made, {"x": x})[0].shape).astype("f4")
        t = Trainer(program, loss="mse", learning_rate=0.05)
        before = weights(t)["w"]
        losses = [t.step({"x": x, "target": target})["loss"] for _ in range(20)]
        assert [p.name for p in t.trained] == ["w.lora_A", "w.lora_B"] and losses[-1] < 0.9 * losses[0]
        np.testing.assert_array_equal(weights(t)["w"], before)
        t.export(tmp_path / "m.onnx")
        after = onnx.load(tmp_path / "m.onnx")
        onnx.checker.check_model(after, full_check=True)
        assert [(n.op_type, *n.input, *n.output) for n in after.graph.node] == [
            (n.op_type, *n.input, *n.output) for n in made.graph.node
        ]
        assert [i.name for i in after.graph.initializer] == ["w"]
        assert list(after.metadata_props) == [] and og.from_onnx(after).parameters[0].trainable
        np.testing.assert_allclose(run(after, {"x": x})[0], t.predict({"x": x})["y"], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(weights(t)["w"], before)

    def test_weights_in_branches(self, tmp_path):
        text = """<ir_version: 8, opset_import: ["": 17]> f (bool c, float[N, 4] x) => (float[N, 3] y) {
            y = If (c) <then_branch = then () => (float[N, 3] a) { a = MatMul (x, w) },
                        else_branch = other () => (float[N, 3] b) { b = Gemm (x, v) }> }"""
        made = tied(text, w=np.random.default_rng(0).normal(0, 1, (4, 3)), v=np.random.default_rng(1).normal(0, 1, (4, 3)))
        program = og.from_onnx(made)
        assert add_lora(program, "*", rank=2) == ["w.lora_A", "w.lora_B", "v.lora_A", "v.lora_B"]
        t = Trainer(program, loss="mse", learning_rate=0.05)
        x, target = np.eye(4, dtype="f4"), np.ones((4, 3), "f4")
        for c in (True, False):
            losses = [t.step({"c": np.array(c), "x": x, "target": target})["loss"] for _ in range(20)]
            assert losses[-1] < 0.9 * losses[0]
        t.export(tmp_path / "m.onnx")
        after = onnx.load(tmp_path / "m.onnx")
        onnx.checker.check_model(after, full_check=True)
        assert sorted(i.name for i in after.graph.initializer) == ["v", "w"]
        assert [[n.op_type for n in a.g.node] for a in after.graph.node[0].attribute] == [["MatMul"], ["Gemm"]]
        for c in (True, False):
            feed = {"c": np.array(c), "x": x}
            np.testing.assert_allclose(run(after, feed)[0], t.executor.run(t.inference, feed, ["y"])[0], rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("transposed", [False, True])
    def test_a_weight_that_others_read_keeps_its_numbers_for_them(self, transposed, tmp_path):
        """Each layer that reads it gets a branch of its own, and a weight of its own when they are merged."""
        text = MERGED if not transposed else MERGED.replace("a = MatMul(x, w)", "t = Transpose(w) a = MatMul(x, t)")
        program = og.from_onnx(tied(text, w=np.random.default_rng(0).normal(0, 1, (4, 4))))
        assert len(add_lora(program, "w", rank=2)) == 4
        rng = np.random.default_rng(1)
        for p in program.parameters:
            if p.name != "w":
                p.set_value(rng.normal(0, 1, p.static_shape).astype("f4"))
        x = np.eye(4, dtype="f4")
        merged = merge_lora(program)
        assert sum("lora" in p.name for p in merged.parameters) == 0
        np.testing.assert_allclose(of(merged, {"x": x})[0], of(program, {"x": x})[0], rtol=1e-4, atol=1e-4)

    def test_scale_is_alpha_over_rank(self):
        made, x = layer("Gemm")
        program = og.from_onnx(made)
        add_lora(program, rank=2, alpha=6.0)
        a, b = np.ones((4, 2), "f4"), np.full((2, 5), 0.5, "f4")
        program.set_state_dict({"w.lora_A": a, "w.lora_B": b})
        w = numpy_helper.to_array(made.graph.initializer[0])
        np.testing.assert_allclose(of(program, {"x": x})[0], x @ (w + 3.0 * a @ b), rtol=1e-5)
        np.testing.assert_allclose(of(merge_lora(program), {"x": x})[0], x @ (w + 3.0 * a @ b), rtol=1e-5)

    def test_quantised_weights_stay_and_keep_their_branch(self, tmp_path):
        text = """<ir_version: 10, opset_import: ["": 21]> f (float[N, 4] x) => (float[N, 3] y)
            <int8[4, 3] q = {1, -2, 3, 4, 5, -6, 7, 8, 9, -10, 11, 12}, float s = {0.1}>
            { w = DequantizeLinear (q, s)  y = MatMul (x, w) }"""
        program = og.from_onnx(parse_model(text))
        assert add_lora(program, "q", rank=2) == ["q.lora_A", "q.lora_B"]
        t = Trainer(program, loss="mse", learning_rate=0.05)
        x, target = np.eye(4, dtype="f4"), np.ones((4, 3), "f4")
        losses = [t.step({"x": x, "target": target})["loss"] for _ in range(20)]
        assert losses[-1] < 0.8 * losses[0]
        t.export(tmp_path / "m.onnx")
        after = onnx.load(tmp_path / "m.onnx")
        stored = {i.name: numpy_helper.to_array(i) for i in after.graph.initializer}
        np.testing.assert_array_equal(stored["q"].reshape(-1)[:3], [1, -2, 3])
        np.testing.assert_allclose(run(after, {"x": x})[0], t.predict({"x": x})["y"], rtol=1e-5, atol=1e-6)
        assert losses[-1] > ((run(after, {"x": x})[0] - target) ** 2).mean()

    def test_adapters_alone_are_saved_and_loaded(self, tmp_path):
        def adapted():
            program = og.from_onnx(model())
            add_lora(program, "*.weight", rank=2)
            return Trainer(program, loss="cross_entropy", learning_rate=0.05)

        t = adapted()
        t.fit(data(), 2)
        save_adapters(t.program, tmp_path / "a.safetensors")
        fresh = og.from_onnx(model())
        add_lora(fresh, "*.weight", rank=2)
        load_adapters(fresh, tmp_path / "a.safetensors")
        for p in fresh.parameters:
            if "lora" in p.name:
                np.testing.assert_array_equal(p.get_value(), weights(t)[p.name])
        assert (tmp_path / "a.safetensors").stat().st_size < 1000
        other = og.from_onnx(model())
        add_lora(other, "*.weight", rank=3)
        with pytest.raises(UnknownName, match="belongs to other adapters"):
            load_adapters(other, tmp_path / "a.safetensors")
        with pytest.raises(ArgumentError, match="no LoRA branches"):
            save_adapters(og.from_onnx(model()), tmp_path / "b.safetensors")

    def test_an_export_that_was_not_merged_can_be_merged_later(self):
        made, x = layer("Conv")
        program = og.from_onnx(made)
        add_lora(program, rank=2)
        program.set_state_dict({"w.lora_B": np.ones((5, 2, 1, 1), "f4")})
        again = og.from_onnx(og.to_onnx(program))
        np.testing.assert_allclose(of(merge_lora(again), {"x": x})[0], of(program, {"x": x})[0], rtol=1e-4, atol=1e-5)
        assert len(og.to_onnx(merge_lora(again)).graph.node) == 1

    @pytest.mark.parametrize("name", ["bert-dyn21", "mobilenetv2-legacy13", "qwen3_sdpa-dyn18"])
    def test_real_files(self, name, tmp_path):
        folder = FOLDER / "torch" / name
        program = og.from_onnx(folder / "model.onnx")
        names = add_lora(program, rank=2)
        rng = np.random.default_rng(0)
        for p in program.parameters:
            if p.name.endswith("lora_B"):
                p.set_value(rng.normal(0, 0.05, p.static_shape))
        feed = dict(np.load(folder / "feed.npz"))
        feed.pop("__target", None)
        assert len(names) >= 4
        plain, merged = of(program, feed), of(merge_lora(program), feed)
        assert np.abs(plain[0] - run(onnx.load(folder / "model.onnx"), feed)[0]).max() > 1e-3
        np.testing.assert_allclose(merged[0], plain[0], rtol=2e-3, atol=2e-4)

    def test_refusals(self):
        with pytest.raises(UnknownName, match=r"'tail' fits no MatMul, Gemm, Conv or MatMulNBits weight. There are: body.weight"):
            add_lora(og.from_onnx(model()), "tail")
        with pytest.raises(ArgumentError, match="at least 1"):
            add_lora(og.from_onnx(model()), rank=0)


MERGED = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 4] y) { a = MatMul(x, w)  b = Relu(a)  y = MatMul(b, w) }"""
SPLIT = """<ir_version: 8, opset_import: ["": 17]> f (int64[N] i) => (float[N, 5] y) { e = Gather(table, i)  y = MatMul(e, out) }"""


def tied(text, **arrays):
    made = parse_model(text)
    made.graph.initializer.extend(numpy_helper.from_array(np.ascontiguousarray(a).astype("f4"), n) for n, a in arrays.items())
    return made


class TestTies:
    @pytest.fixture
    def merged(self):
        return og.from_onnx(tied(MERGED, w=np.random.default_rng(0).normal(0, 1, (4, 4))))

    @pytest.fixture
    def split(self):
        table = np.random.default_rng(0).normal(0, 1, (5, 4))
        return og.from_onnx(tied(SPLIT, table=table, out=table.T))

    def test_merged_weights_are_found_and_taken_apart(self, merged):
        assert [(name, len(readers)) for name, readers in find_ties(merged).merged] == [("w", 2)]
        before = of(merged, {"x": np.ones((1, 4), "f4")})[0]
        assert untie(merged, "w") == ["w", "w_1"]
        np.testing.assert_array_equal(of(merged, {"x": np.ones((1, 4), "f4")})[0], before)
        with pytest.warns(UserWarning, match=r"equal. If they were one tied weight, use tie"):
            t = Trainer(merged, loss="mse")
        t.step({"x": np.ones((2, 4), "f4"), "target": np.zeros((2, 4), "f4")})
        assert (weights(t)["w"] != weights(t)["w_1"]).any()

    def test_split_embeddings_are_found_and_tied(self, split):
        assert find_ties(split).split == [("table", "out", True)]
        before = of(split, {"i": np.array([0, 3])})[0]
        tie(split, "table", "out")
        written = og.to_onnx(split)
        onnx.checker.check_model(written, full_check=True)
        assert [i.name for i in written.graph.initializer] == ["table"]
        np.testing.assert_allclose(run(written, {"i": np.array([0, 3])})[0], before, rtol=1e-5)
        with pytest.warns(UserWarning, match="table is read by 2 operators"):
            t = Trainer(split, loss="cross_entropy", optimizer="sgd", learning_rate=0.5)
        table = weights(t)["table"]
        t.step({"i": np.array([1]), "target": np.array([2])})
        e, p = table[1], np.exp(table @ table[1]) / np.exp(table @ table[1]).sum()
        gradient = np.outer(p - np.eye(5)[2], e)
        gradient[1] += table.T @ (p - np.eye(5)[2])
        np.testing.assert_allclose(weights(t)["table"], table - 0.5 * gradient, rtol=1e-4, atol=1e-5)

    def test_the_trainer_warns(self, merged, split):
        with pytest.warns(UserWarning, match=r"w is read by 2 operators .* use untie"):
            Trainer(merged, loss="mse")
        with pytest.warns(UserWarning, match="table and out are equal but transposed"):
            Trainer(split, loss="cross_entropy")

    def test_nothing_is_found_where_there_is_nothing(self):
        assert find_ties(og.from_onnx(model())) == ([], [])

    def test_refusals(self, merged, split):
        with pytest.raises(ArgumentError, match="nothing to take apart"):
            untie(split, "out")
        with pytest.raises(UnknownName, match="no weight 'v'"):
            untie(merged, "v")
        with pytest.raises(ArgumentError, match="hold different numbers"):
            tie(og.from_onnx(model()), "body.weight", "head.weight")


class TestDropout:
    @pytest.mark.parametrize("after", ["h", "first"])
    def test_training_drops_inference_and_export_do_not(self, after, tmp_path):
        made = line("h = Relu(k)  m = Gemm(h, v)  y = Identity(m)")
        made.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1), "f4"), "v"))
        made.graph.node[1].name = "first"
        program = og.from_onnx(made)
        assert insert_dropout(program, after, 0.5) == ["h"]
        t = Trainer(program, loss="mse", optimizer="sgd", learning_rate=0.0)
        x = np.full((400, 2), 2.0, "f4")
        whole = t.predict({"x": x})["y"]
        seen = t.executor.run(t.program, {"x": x, "target": whole}, ["y"])[0]
        assert abs((seen == 0).mean() - 0.5) < 0.12
        np.testing.assert_allclose(seen[seen != 0], 2 * whole[seen != 0], rtol=1e-5)
        t.export(tmp_path / "m.onnx")
        after = onnx.load(tmp_path / "m.onnx")
        assert [(n.op_type, *n.input, *n.output) for n in after.graph.node] == [
            (n.op_type, *n.input, *n.output) for n in made.graph.node
        ]
        assert [i.name for i in after.graph.initializer] == [i.name for i in made.graph.initializer]

    def test_refusals(self):
        for name, ratio, error in (("nowhere", 0.1, UnknownName), ("scores", 0.1, ArgumentError), ("active", 1.0, ArgumentError)):
            with pytest.raises(error):
                insert_dropout(og.from_onnx(model()), name, ratio)


def test_surgery_in_any_order_exports_a_valid_model(tmp_path):
    for order in itertools.permutations(("head", "lora", "dropout")):
        program = og.from_onnx(model())
        for step in order:
            if step == "head":
                replace_head(program, at="active", classes=3, name="mine")
            elif step == "lora":
                add_lora(program, "body.weight", rank=2)
            else:
                insert_dropout(program, "normal", 0.2)
        t = Trainer(program, loss="cross_entropy", trainable=["mine.*", "*.lora_*"])
        t.fit(data(), 1)
        t.export(tmp_path / "m.onnx")
        onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
        (found,) = run(str(tmp_path / "m.onnx"), {"x": data()["x"]})
        np.testing.assert_allclose(found, t.predict({"x": data()["x"]})["scores"], rtol=1e-4, atol=1e-5)


class TestLoraOptions:
    def made(self, **options):
        rng = np.random.default_rng(3)
        text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 6] x) => (float[N, 4] y) <float[6, 4] w> { y = MatMul(x, w) }'
        model = onnx.parser.parse_model(text)
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=(6, 4)).astype(np.float32), "w"))
        program = og.from_onnx(model)
        for name in add_lora(program, rank=4, seed=1, **options):
            p = program.global_block().vars[name]
            p.set_value(rng.normal(size=p.static_shape).astype(np.float32))
        return program

    def test_alpha_is_divided_by_the_rank_or_its_root(self):
        factors = [
            branches_of(self.made(**options))[0].scale
            for options in ({}, {"alpha": 2.0}, {"alpha": 2.0, "scaling": "root"}, {"scaling": "root"})
        ]
        assert factors == [2.0, 0.5, 1.0, 2.0]
        with pytest.raises(og.errors.ArgumentError, match="the dropout of LoRA"):
            self.made(dropout=1.0)

    def test_dropout_is_for_the_steps_alone(self):
        x = np.random.default_rng(5).normal(size=(64, 6)).astype(np.float32)
        plain, dropped = self.made(), self.made(dropout=0.5)
        executor = og.static.Executor()
        (expected,), (found,) = (executor.run(p.clone(for_test=True), {"x": x}, ["y"]) for p in (plain, dropped))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        trainer = Trainer(self.made(dropout=0.5), loss="mse", target="t", optimizer="sgd", learning_rate=1e-9, seed=0)
        rows = trainer.fit({"x": x, "t": expected}, epochs=1, batch_size=64)
        assert rows[0]["loss"] > 1 and trainer.evaluate({"x": x, "t": expected})["loss"] < 1e-9
        merged = merge_lora(dropped)
        assert [op.type for op in merged.global_block().ops] == ["MatMul"]
        np.testing.assert_allclose(executor.run(merged, {"x": x}, ["y"])[0], expected, rtol=1e-4, atol=1e-5)
        branch = branches_of(dropped.clone(for_test=True))[0]
        assert branch.a.name == "w.lora_A"


MERGED_WITHIN_A_LIMIT = """
import resource, sys
from pathlib import Path
import numpy as np
import onnxgrad as og
from onnxgrad.training import add_lora, merge_lora
folder = Path(sys.argv[1])
program = og.from_onnx(folder / "m.onnx")
weights = [p.name for p in program.parameters]
for name in add_lora(program, "*", rank=2):
    if name.endswith("_B"):
        p = program.global_block().vars[name]
        p.set_value(np.full(p.static_shape, 0.5, np.float32))
a, b = (program.global_block().vars[f"{weights[-1]}.lora_{label}"].get_value() for label in "AB")
held = int(open("/proc/self/statm").read().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (held + int(sys.argv[2]), -1))
og.save_onnx(merge_lora(program), folder / "merged.onnx")
resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))
(merged,) = [p for p in og.from_onnx(folder / "merged.onnx").parameters if p.name == weights[-1]]
np.testing.assert_allclose(merged.get_value(), 2 * a @ b, rtol=1e-6)
assert merged.get_value().any()
"""


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit on anonymous memory is Linux's")
def test_a_merged_file_is_written_with_one_weight_in_memory(tmp_path):
    """16 weights of 8 MB, in half of their memory"""
    size, count = 4 * 1024 * 2048, 16
    sizes = [1024, 2048]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]) for i in range(count)],
        "g",
        [onnx.helper.make_tensor_value_info("h0", 1, ["N", 1024])],
        [onnx.helper.make_tensor_value_info(f"h{count}", 1, ["N", sizes[count % 2]])],
    )
    for i in range(count):
        t = graph.initializer.add(name=f"w{i}", data_type=1, dims=[sizes[i % 2], sizes[(i + 1) % 2]])
        t.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", i * size), ("length", size)):
            t.external_data.add(key=key, value=str(value))
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(count * size)  # zeros, which take no place
    try:
        done = subprocess.run(
            [sys.executable, "-c", MERGED_WITHIN_A_LIMIT, str(tmp_path), str(count * size // 2)],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    finally:
        (tmp_path / "merged.onnx").unlink(missing_ok=True)
