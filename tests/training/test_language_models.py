"""Language models in the Trainer: their loss, and inputs that follow from the words."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.core.providers.losses import vocabulary
from onnxgrad.testing import evaluate
from onnxgrad.training import Term, Trainer, add_lora, merge_lora
from onnxgrad.training.data.derived_inputs import DerivedInputs
from onnxgrad.training.losses.terms import attach
from onnxgrad.training.quantized.packed_weights import float_weight, requantise

FOLDER = Path(__file__).parents[1] / "data" / "llm_models"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
RNG = np.random.default_rng(3)


def batch_of(name, rows=slice(None)):
    with np.load(FOLDER / f"{name}.npz") as file:
        return {key: value[rows] for key, value in file.items()}


def log_softmax(y):
    shifted = y - y.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def causal(y, labels):
    """The loss in numpy, position by position"""
    found = [
        -log_softmax(y[row, at])[labels[row, at + 1]]
        for row in range(y.shape[0])
        for at in range(y.shape[1] - 1)
        if labels[row, at + 1] != -100
    ]
    return np.mean(found)


def scores(text, dims="N, S, 5", extra=""):
    made = parse_model(f'<ir_version: 8, opset_import: ["": 17]> f (double[{dims}] x{extra}) => (double[{dims}] y) {{ {text} }}')
    program = og.from_onnx(made)
    program.is_oracle = True
    program.inputs[0].stop_gradient = False
    return program


def slopes_agree(program, loss, feed, name="x"):
    """Whether the gradient in float64 is that of central differences"""
    (gradient,) = og.gradients([loss], [next(v for v in program.inputs if v.name == name)])
    model = og.to_onnx(program, [loss, gradient])
    value, found = evaluate(model, feed)
    step = 1e-5
    for index in np.ndindex(feed[name].shape):
        up, down = (feed[name].copy() for _ in range(2))
        up[index] += step
        down[index] -= step
        slope = (evaluate(model, {**feed, name: up})[0] - evaluate(model, {**feed, name: down})[0]) / (2 * step)
        assert found[index] == pytest.approx(float(slope), abs=1e-8)
    return float(value)


class TestCausalLoss:
    @pytest.mark.parametrize("dims", ["N, S, 5", "2, 4, 5", "N, S, V"])
    @pytest.mark.parametrize("text", ["y = Identity (x)", "y = Softmax <axis = -1> (x)", "y = LogSoftmax <axis = 2> (x)"])
    def test_value_and_gradient(self, text, dims):
        program = scores(text, dims)
        attached = attach(program, [Term("causal_lm")])
        assert [v.name for v in attached.targets] == ["labels"]
        labels = np.array([[-100, -100, 2, 4], [1, 0, 3, -100]])
        x = RNG.normal(0, 1, (2, 4, 5))
        assert slopes_agree(program, attached.loss, {"x": x, "labels": labels}) == pytest.approx(causal(x, labels), rel=1e-9)

    def test_no_score_is_moved_or_copied(self):
        program = scores("y = MatMul (x, w)", extra=", double[5, 5] w")
        attached = attach(program, [Term("causal_lm")])
        made = og.to_onnx(program, [attached.loss])
        reads = [n.op_type for n in made.graph.node if "y" in n.input]
        loss = next(n for n in made.graph.node if n.op_type == "SoftmaxCrossEntropyLoss")
        assert reads == ["Reshape"]
        assert next(n for n in made.graph.node if n.output[0] == loss.input[0]).op_type == "Reshape"

    def test_half_precision_scores_are_compared_in_float32(self):
        text = '<ir_version: 8, opset_import: ["": 17]> f (float16[N, S, 5] x) => (float16[N, S, 5] y) { y = Identity (x) }'
        program = og.from_onnx(parse_model(text))
        attached = attach(program, [Term("causal_lm")])
        assert attached.loss.dtype.name == "float32"
        x = RNG.normal(0, 1, (2, 3, 5)).astype(np.float16)
        labels = np.array([[1, 2, 3], [0, -100, 4]])
        (value,) = og.Executor().run(program, {"x": x, "labels": labels}, [attached.loss])
        assert float(value) == pytest.approx(causal(x.astype(np.float64), labels), rel=1e-5)

    def test_scores_of_another_rank_are_refused(self):
        with pytest.raises(og.errors.ArgumentError, match=r"causal_lm needs scores of shape \[batch, steps, vocabulary\]"):
            attach(scores("y = Identity (x)", "N, 5"), [Term("causal_lm")])
        with pytest.raises(og.errors.ArgumentError, match="each token has a probability of its own"):
            attach(scores("y = Sigmoid (x)"), [Term("causal_lm")])


class TestClassAxis:
    def cross_entropy(self, program, x, labels, axis, **options):
        attached = attach(program, [Term("cross_entropy", target="labels", **options)])
        moved = np.moveaxis(x, axis, -1)
        wanted = -np.take_along_axis(log_softmax(moved), np.maximum(labels, 0)[..., None], -1)[..., 0][labels != -100].mean()
        assert slopes_agree(program, attached.loss, {"x": x, "labels": labels}) == pytest.approx(wanted, rel=1e-9)
        return attached.remarks

    def test_the_axis_of_known_length_has_the_classes(self):
        said = self.cross_entropy(scores("y = Identity (x)"), RNG.normal(0, 1, (2, 4, 5)), RNG.integers(0, 5, (2, 4)), -1)
        assert any("lie along the last axis" in text and "--layout NCT" in text for text in said)

    def test_axis_1_where_all_are_known(self):
        said = self.cross_entropy(scores("y = Identity (x)", "2, 3, 4"), RNG.normal(0, 1, (2, 3, 4)), RNG.integers(0, 3, (2, 4)), 1)
        assert any("lie along axis 1" in text and "--layout NTC" in text for text in said)

    def test_a_layout_decides(self):
        labels = np.array([[0, 3, -100], [1, 2, 0]])
        self.cross_entropy(scores("y = Identity (x)", "2, 3, 4"), RNG.normal(0, 1, (2, 3, 4)), labels, -1, layout="NTC")
        with pytest.raises(og.errors.ArgumentError, match="three axes"):
            self.cross_entropy(scores("y = Identity (x)", "2, 3"), RNG.normal(0, 1, (2, 3)), labels, -1, layout="NTC")

    def test_softmax_decides(self):
        labels = RNG.integers(0, 4, (2, 3))
        said = self.cross_entropy(scores("y = Softmax (x)", "2, 3, 4"), RNG.normal(0, 1, (2, 3, 4)), labels, -1)
        assert not any("axis" in text for text in said)

    def test_accuracy_of_positions(self):
        made = parse_model(
            '<ir_version: 8, opset_import: ["": 17]> f (float[N, S, 3] x) => (float[N, S, 3] y) <float[3] w = {9, 9, 9}> { y = Mul (x, w) }'
        )
        x = np.eye(3, dtype=np.float32)[[[0, 1, 2, 1], [2, 2, 0, 0]]]
        labels = np.array([[0, 1, 0, -100], [2, 2, 0, 0]])
        trainer = Trainer(made, loss="cross_entropy", target="labels", metrics=["accuracy"], learning_rate=0.0)
        assert trainer.step({"x": x, "labels": labels})["accuracy"] == pytest.approx(6 / 7)
        trainer = Trainer(made, loss="causal_lm", metrics=["accuracy"], learning_rate=0.0)
        # What is compared is each position with the word behind it.
        assert trainer.step({"x": x, "labels": labels})["accuracy"] == pytest.approx(2 / 5)


def tuned(name, **options):
    program = og.from_onnx(FOLDER / f"{name}.onnx" if isinstance(name, str) else name or FOLDER / "llama-fp32.onnx")
    options.setdefault("trainable", "*layernorm.weight" if name == "qwen2-fp32" else None)  # its table is its head
    return Trainer(program, loss="causal_lm", **options)


class TestFollowingInputs:
    @pytest.mark.parametrize("name", ["llama-fp32", "llama-int4", "qwen2-fp32"])
    def test_words_are_enough(self, name):
        whole = batch_of(name)
        trainer = tuned(name, learning_rate=0.0)
        assert trainer.columns == ["input_ids"]
        alone = trainer.step({"input_ids": whole["input_ids"]})["loss"]
        assert alone == pytest.approx(EXPECTED[name]["loss"], rel=1e-5)
        assert trainer.step({**whole, "labels": whole["input_ids"]})["loss"] == pytest.approx(alone, rel=1e-6)

    def test_each_is_said_in_one_line(self):
        said = tuned("llama-fp32").remarks
        for text in (
            "past_key_values.* (4 inputs) are fed as an empty cache unless the data has them.",
            "attention_mask is 1 everywhere unless the data has it.",
            "labels are input_ids, and -100 where attention_mask is 0, unless the data has them.",
            "the loss reads logits; the other 4 outputs are parts of a cache.",
        ):
            assert said.count(text) == 1

    def test_padding_changes_nothing(self):
        """A row that is padded counts as much as it does alone"""
        words = batch_of("llama-fp32", slice(0, 1))["input_ids"]
        trainer = tuned("llama-fp32", learning_rate=0.0)
        short = trainer.step({"input_ids": words[:, :5]})["loss"]
        padded = trainer.step({"input_ids": words, "attention_mask": (np.arange(words.shape[1]) < 5)[None].astype(np.int64)})[
            "loss"
        ]
        assert padded == pytest.approx(short, rel=1e-5)

    def test_data_as_arrays_may_have_the_mask(self):
        words = batch_of("llama-fp32")["input_ids"]
        mask = np.ones_like(words)
        mask[:, 6:] = 0
        trainer = tuned("llama-fp32", learning_rate=0.0)
        rows = [
            trainer.fit(data, batch_size=2)[-1]["loss"]
            for data in ({"input_ids": words}, {"input_ids": words, "attention_mask": mask})
        ]
        assert rows[0] != pytest.approx(rows[1], rel=1e-4)
        assert rows[1] == pytest.approx(trainer.evaluate({"input_ids": words[:, :6]}, batch_size=2)["loss"], rel=1e-5)

    def test_a_cache_in_the_data_is_fed(self):
        """Two halves, the second with the cache of the first, give the words that one run gives"""
        words = batch_of("llama-fp32", slice(0, 1))["input_ids"]
        trainer = tuned("llama-fp32")
        whole = trainer.predict({"input_ids": words})
        half = trainer.predict({"input_ids": words[:, :4]})
        cache = {name.replace("present", "past_key_values"): value for name, value in half.items() if name != "logits"}
        rest = trainer.predict({"input_ids": words[:, 4:5], **cache})
        np.testing.assert_allclose(rest["logits"], whole["logits"][:, 4:5], rtol=1e-4, atol=1e-5)

    def test_layers_with_a_window_get_the_buffer_that_they_take_for_a_cache(self):
        words = batch_of("llama-fp32")["input_ids"]
        losses = []
        for buffered in (0, 1):
            made = onnx.load(FOLDER / "llama-fp32.onnx")
            for node in made.graph.node:
                if node.op_type == "GroupQueryAttention":
                    kept = [a for a in node.attribute if a.name != "local_window_size"]
                    del node.attribute[:]
                    window = {"local_window_size": 3, "sliding_window_cache": buffered}
                    node.attribute.extend([*kept, *(helper.make_attribute(*pair) for pair in window.items())])
            trainer = Trainer(made, loss="causal_lm", learning_rate=0.0)
            losses.append([trainer.step({"input_ids": words})["loss"], trainer.step({"input_ids": words[:, :2]})["loss"]])
        assert losses[1] == pytest.approx(losses[0], rel=1e-5)
        assert losses[0][0] != pytest.approx(EXPECTED["llama-fp32"]["loss"], rel=1e-4)

    def test_positions(self):
        text = '<ir_version: 8, opset_import: ["": 17]> f (int64[N, S] input_ids, int64[N, T] attention_mask, int64[N, S] position_ids) => (float[N, S, 4] y) <float[4] w = {1, 1, 1, 1}> { o = OneHot (position_ids, four, ends) y = Mul (o, w) }'
        made = parse_model(text)
        made.graph.initializer.extend(
            [numpy_helper.from_array(np.array(4), "four"), numpy_helper.from_array(np.array([0, 1], np.float32), "ends")]
        )
        trainer = Trainer(made, loss="causal_lm", learning_rate=0.0)
        found = trainer.predict({"input_ids": np.ones((1, 4), np.int64), "attention_mask": np.array([[0, 1, 1, 1]])})
        assert found["y"].argmax(-1).tolist() == [[0, 0, 1, 2]]

    def test_a_cache_that_is_joined_to_what_is_new(self):
        """As files without an operator for attention have it"""
        text = """<ir_version: 8, opset_import: ["": 17]>
            f (int64[N, S] input_ids, float[N, 2, P, D] past_key_values.0.key, float[N, 2] past_key_values.0.state) => (float[N, S, 4] logits)
            { o = OneHot (input_ids, four, ends)  m = MatMul (o, w)  k = Reshape (m, shape)  h = Transpose <perm = [0, 2, 1, 3]> (k)
              j = Concat <axis = 2> (past_key_values.0.key, h)  s = ReduceSum (j, axes)  t = ReduceSum (past_key_values.0.state)
              u = Add (m, t)  logits = Add (u, s) }""".replace("past_key_values.0.", "past__")
        made = parse_model(text)
        for v in made.graph.input:
            v.name = v.name.replace("past__", "past_key_values.0.")
        for node in made.graph.node:
            node.input[:] = [name.replace("past__", "past_key_values.0.") for name in node.input]
        arrays = {
            "four": np.array(4),
            "ends": np.array([0, 1], np.float32),
            "w": np.eye(4, dtype=np.float32),
            "shape": np.array([0, 0, 2, 2]),
            "axes": np.array([1, 2, 3]),
        }
        made.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in arrays.items())
        found = DerivedInputs(og.from_onnx(made)).complete({"input_ids": np.ones((3, 5), np.int64)})
        assert found["past_key_values.0.key"].shape == (3, 2, 0, 2)
        assert found["past_key_values.0.state"].tolist() == [[0, 0]] * 3

    def test_a_window_cache_is_as_long_as_its_window_and_takes_no_padding(self):
        made = onnx.load(FOLDER / "llama-fp32.onnx")
        for node in made.graph.node:
            if node.op_type == "GroupQueryAttention":
                node.attribute.append(onnx.helper.make_attribute("sliding_window_cache", 1))
                next(a for a in node.attribute if a.name == "local_window_size").i = 64
        words = batch_of("llama-fp32")["input_ids"]
        mask = (np.arange(words.shape[1])[None] < np.arange(len(words))[:, None] % 4 + 4).astype(np.int64)
        found = DerivedInputs(og.from_onnx(made)).complete({"input_ids": words, "attention_mask": mask})
        assert found["past_key_values.0.key"].shape == (len(words), 2, 64, 16) and (found["attention_mask"] == 1).all()
        labels = np.where(mask == 1, words, -100)
        losses = [
            tuned(model, learning_rate=0.0).step({"input_ids": words, "attention_mask": mask, "labels": labels})["loss"]
            for model in (made, None)
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)

    def test_labels_that_are_all_ignored_are_refused(self):
        words = batch_of("llama-fp32")["input_ids"]
        with pytest.raises(og.errors.DataError, match="holds no token to predict"):
            tuned("llama-fp32").step({"input_ids": words, "labels": np.full_like(words, -100)})

    def test_a_cache_of_unknown_size_is_named(self):
        made = onnx.load(FOLDER / "llama-fp32.onnx")
        for v in made.graph.input:
            if v.name == "past_key_values.0.key":
                v.type.tensor_type.shape.dim[1].dim_param = "heads"
        trainer = Trainer(made, loss="causal_lm")
        with pytest.raises(og.errors.DataError, match=r"'past_key_values.0.key'.* does not give the size of the cache"):
            trainer.step({"input_ids": batch_of("llama-fp32")["input_ids"]})


def test_the_outputs_are_not_fetched_where_nothing_reads_them(monkeypatch):
    """The scores of a large vocabulary would decide the memory"""
    trainer = tuned("llama-fp32")
    run, fetched = trainer.executor.run, []

    def spy(program, feed=None, fetch_list=None, **options):
        fetched.append(len(fetch_list or []))
        return run(program, feed, fetch_list, **options)

    monkeypatch.setattr(trainer.executor, "run", spy)
    trainer.step({"input_ids": batch_of("llama-fp32")["input_ids"]})
    assert fetched == [2]  # the loss, and how many tokens it counts


def test_adapters_lower_the_loss():
    program = og.from_onnx(FOLDER / "llama-fp32.onnx")
    add_lora(program, "*attn*", rank=4)
    trainer = Trainer(program, loss="causal_lm", learning_rate=0.01)
    words = batch_of("llama-fp32")["input_ids"]
    rows = trainer.fit({"input_ids": words}, epochs=8, batch_size=4)
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.1


def test_the_loss_of_a_large_vocabulary_goes_by_blocks(monkeypatch):
    """The form that is written is the one that core.providers.losses.vocabulary looks for"""
    monkeypatch.setattr(vocabulary, "_LARGE", 1)
    monkeypatch.setattr(vocabulary, "_WIDE", 1)
    for name in ("llama-fp32", "llama-int4", "qwen2-fp32"):
        program = og.from_onnx(FOLDER / f"{name}.onnx")
        add_lora(program, "all", rank=2)
        trainer = Trainer(program, loss="causal_lm")
        kinds = Counter(n.op_type for n in og.to_onnx(trainer.program, [trainer.loss], lowering="cpu").graph.node)
        assert kinds["Scan"] == 1 and not kinds["SoftmaxCrossEntropyLoss"], name


class TestTargets:
    def adapted(self, layers, name="llama-int4"):
        program = og.from_onnx(FOLDER / f"{name}.onnx")
        names = add_lora(program, layers, rank=2)
        return [name.removesuffix(".lora_A").removeprefix("model.layers.") for name in names if name.endswith(".lora_A")]

    def test_by_the_name_of_the_weight_or_of_the_operator(self):
        found = ["0.mlp.up_proj.MatMul.weight_Q4", "1.mlp.up_proj.MatMul.weight_Q4"]
        assert self.adapted("*up_proj*") == self.adapted("/model/layers.*/mlp/up_proj/*") == found
        assert self.adapted(["*0.mlp.up_proj*", "*1.mlp.up_proj*", "*up_proj*"]) == found

    def test_by_kind(self):
        attention, mlp = self.adapted("attention"), self.adapted("mlp")
        assert [name.split(".")[2] for name in attention] == ["qkv_proj", "o_proj"] * 2
        assert [name.split(".")[2] for name in mlp] == ["gate_proj", "up_proj", "down_proj"] * 2
        assert set(self.adapted("all")) == {*attention, *mlp}
        assert "lm_head.MatMul.weight_Q4" in self.adapted("*")
        assert self.adapted("all", "bert-fused")[-1] != "classifier.weight"

    def test_a_part_of_a_packed_weight_is_said(self):
        with pytest.warns(
            UserWarning, match=r"'\*q_proj\*' names a part of .*qkv_proj.* and 1 more, which the file holds in one weight"
        ):
            found = self.adapted(["*q_proj*", "*v_proj*"])
        assert [name.split(".")[2] for name in found] == ["qkv_proj", "qkv_proj"]

    def test_what_fits_nothing_is_refused(self):
        with pytest.raises(og.errors.UnknownName, match=r"'\*x_proj\*' fits no .* a kind: attention, mlp, all"):
            self.adapted("*x_proj*")

    def test_gradients_of_adapters_beside_packed_weights(self):
        """Against central differences of onnxruntime's own runs"""
        program = og.from_onnx(FOLDER / "llama-int4.onnx")
        for op in program.global_block().ops:
            if op.type == "MatMulNBits":
                op.attrs["accuracy_level"] = 0  # what rounds to 8 bits has no slope of its own
        names = add_lora(program, "*0.attn.qkv_proj*", rank=2)
        for p in program.parameters:
            if p.name in names:
                p.set_value(RNG.normal(0, 0.1, p.static_shape).astype(np.float32))
        trainer = Trainer(program, loss="causal_lm", optimizer="sgd", learning_rate=1.0)
        words = batch_of("llama-int4")["input_ids"]
        for p in trainer.trained:
            start = p.get_value()
            direction = RNG.normal(0, 1, start.shape).astype(np.float32)
            step, losses = 3e-3, []
            for sign in (1, -1):
                p.set_value(start + sign * step * direction)
                losses.append(trainer.evaluate({"input_ids": words}, batch_size=len(words))["loss"])
            p.set_value(start)
            before = {q: q.get_value() for q in trainer.trained}
            trainer.step({"input_ids": words})
            gradient = start - p.get_value()
            for q, value in before.items():
                q.set_value(value)
            # onnxruntime computes in float32: the loss has seven digits, its difference three.
            assert float((gradient * direction).sum()) == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-2, abs=2e-4)


@pytest.mark.parametrize("name", ["llama-int4", "llama-fp32"])
def test_adapters_stay_in_the_file_or_go_into_its_weights(name, tmp_path):
    program = og.from_onnx(FOLDER / f"{name}.onnx")
    add_lora(program, "all", rank=2)
    trainer = Trainer(program, loss="causal_lm", learning_rate=0.01)
    feed = batch_of(name)
    rows = trainer.fit({"input_ids": feed["input_ids"]}, epochs=3, batch_size=4)
    assert rows[-1]["loss"] < rows[0]["loss"]
    trainer.export(tmp_path / "tuned.onnx")
    before, after = (
        Counter(n.op_type for n in onnx.load(p).graph.node) for p in (FOLDER / f"{name}.onnx", tmp_path / "tuned.onnx")
    )
    extra = after - before
    assert not before - after
    assert extra == (Counter(MatMul=20, Mul=10, Add=10) if name == "llama-int4" else Counter())
    session = onnxruntime.InferenceSession(tmp_path / "tuned.onnx", providers=["CPUExecutionProvider"])
    scores = session.run(["logits"], feed)[0]
    np.testing.assert_allclose(scores, trainer.predict(feed)["logits"], rtol=1e-4, atol=1e-4)


def adapted(name, layers="all", seed=5):
    """A trainer whose adapters have numbers, as after training"""
    program = og.from_onnx(FOLDER / f"{name}.onnx")
    names = add_lora(program, layers, rank=2)
    rng = np.random.default_rng(seed)
    for p in program.parameters:
        if p.name in names:
            p.set_value(rng.normal(0, 0.1, p.static_shape).astype(np.float32))
    return Trainer(program, loss="causal_lm")


def runtime(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it says that defaults of inputs are not folded
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class TestExports:
    def scores(self, path, feed, options=None):
        return runtime(path).run(["logits"], feed, options)[0]

    def test_packed_weights_become_float_ones(self, tmp_path):
        trainer, feed = adapted("llama-int4"), batch_of("llama-int4")
        assert trainer.export(tmp_path / "merged.onnx", quantised="float") == []
        trainer.export(tmp_path / "branches.onnx")
        kinds = Counter(n.op_type for n in onnx.load(tmp_path / "merged.onnx").graph.node)
        assert kinds["MatMul"] == 10 and kinds["MatMulNBits"] == 1 and kinds["GroupQueryAttention"] == 2
        names = {i.name for i in onnx.load(tmp_path / "merged.onnx").graph.initializer}
        assert not any(".lora_" in name for name in names) and sum(name.endswith("_Q4") for name in names) == 1
        exact = og.to_onnx(og.from_onnx(tmp_path / "branches.onnx", expand="com.microsoft"))
        wanted = onnxruntime.InferenceSession(exact.SerializeToString(), providers=["CPUExecutionProvider"]).run(["logits"], feed)[
            0
        ]
        # The head is still rounded: accuracy_level 4.
        np.testing.assert_allclose(self.scores(tmp_path / "merged.onnx", feed), wanted, atol=0.02 * np.abs(wanted).max())

    def test_packed_weights_are_rounded_again_on_request(self, tmp_path):
        trainer = adapted("llama-int4", "*o_proj*")
        (said,) = trainer.export(tmp_path / "again.onnx", quantised="again")
        assert (
            said.startswith("2 weights are rounded to 4 bits again, with a relative error of 0.0")
            and "of the trained change" in said
        )
        before, after = (
            Counter(n.op_type for n in onnx.load(p).graph.node) for p in (FOLDER / "llama-int4.onnx", tmp_path / "again.onnx")
        )
        assert before == after
        assert (tmp_path / "again.onnx").stat().st_size < 1.02 * (FOLDER / "llama-int4.onnx").stat().st_size
        trainer.export(tmp_path / "float.onnx", quantised="float")
        feed = batch_of("llama-int4")
        a, b = self.scores(tmp_path / "again.onnx", feed), self.scores(tmp_path / "float.onnx", feed)
        base = self.scores(FOLDER / "llama-int4.onnx", feed)
        assert np.linalg.norm(a - b) < 0.5 * np.linalg.norm(b - base)

    def test_float_weights_take_their_adapters_in_every_form(self, tmp_path):
        trainer, feed = adapted("llama-fp32"), batch_of("llama-fp32")
        for quantised in ("branch", "float", "again"):
            assert trainer.export(tmp_path / f"{quantised}.onnx", quantised=quantised) == []
            np.testing.assert_allclose(
                self.scores(tmp_path / f"{quantised}.onnx", feed), trainer.predict(feed)["logits"], rtol=1e-4, atol=1e-4
            )
        with pytest.raises(og.errors.ArgumentError, match="'branch', 'float' or 'again', not 'all'"):
            trainer.export(tmp_path / "x.onnx", quantised="all")

    @pytest.mark.parametrize("name", ["llama-int4", "llama-fp32"])
    def test_adapters_in_the_format_of_onnxruntime(self, name, tmp_path):
        """The model beside them computes what the original does, and with them what the Trainer does; other ranks fit too"""
        trainer, other, feed = adapted(name), adapted(name, "attention", seed=6), batch_of(name)
        trainer.save_adapters(tmp_path / "a.onnx_adapter")
        (tmp_path / "other").mkdir()
        other.save_adapters(tmp_path / "other" / "b.onnx_adapter")
        base = self.scores(FOLDER / f"{name}.onnx", feed)
        np.testing.assert_array_equal(self.scores(tmp_path / "a.onnx", feed), base)
        for path, own in ((tmp_path / "a.onnx_adapter", trainer), (tmp_path / "other" / "b.onnx_adapter", other)):
            adapter, options = onnxruntime.LoraAdapter(), onnxruntime.RunOptions()
            adapter.Load(str(path))
            options.add_active_adapter(adapter)
            wanted = own.predict(feed)["logits"]
            assert np.abs(wanted - base).max() > 0.1
            np.testing.assert_allclose(self.scores(tmp_path / "a.onnx", feed, options), wanted, rtol=1e-4, atol=1e-4)

    def test_a_program_without_branches_has_no_adapters(self, tmp_path):
        with pytest.raises(og.errors.ArgumentError, match="has no LoRA branches to save"):
            tuned("llama-fp32").save_adapters(tmp_path / "a.onnx_adapter")


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_packed_numbers_are_those_of_the_operator(bits, zeros):
    """Against what MatMulNBits is written out in; and how far they are from it when they are rounded again"""
    rows, length, block = 3, 40, 16
    count, each = -(-length // block), 8 // bits
    rng = np.random.default_rng(bits)
    packed = rng.integers(0, 256, (rows, count, block // each)).astype(np.uint8)
    scales = rng.uniform(0.5, 1.5, rows * count).astype(np.float32)
    points = rng.integers(0, 256, rows * -(-count // each)).astype(np.uint8)
    text = f"""<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> f (float[N, {length}] x) => (float[N, {rows}] y)
        {{ y = com.microsoft.MatMulNBits <K = {length}, N = {rows}, bits = {bits}, block_size = {block}> (x, b, s{", z" if zeros else ""}) }}"""
    made = parse_model(text)
    arrays = {"b": packed, "s": scales, **({"z": points} if zeros else {})}
    made.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in arrays.items())
    op = og.from_onnx(made).global_block().ops[-1]
    numbers = float_weight(op)
    plain = og.to_onnx(og.from_onnx(made, expand="com.microsoft"))
    wanted = onnxruntime.InferenceSession(plain.SerializeToString()).run(None, {"x": np.eye(length, dtype=np.float32)})[0]
    np.testing.assert_allclose(numbers, wanted, rtol=1e-6, atol=1e-6)
    first = requantise(op, numbers, "b", numbers)
    again = requantise(op, float_weight(op), "b", numbers)
    # Without zero points the largest number keeps its level, and so do all others; a zero point is rounded itself.
    assert again.error < ({2: 0.1, 4: 1e-3, 8: 1e-5}[bits] if zeros else 1e-10) * again.weight and first.bits == bits
    assert first.error < {2: 0.2, 4: 0.01, 8: 1e-4}[bits] * first.weight


QUANTISED = {
    "MatMulNBits with a bias": ("y = com.microsoft.MatMulNBits <K = 32, N = 4, bits = 4, block_size = 16> (x, b, s, , , c)", "b"),
    "DequantizeLinear": ("w = DequantizeLinear <axis = 1> (q, t) y = MatMul (x, w)", "q"),
}


@pytest.mark.parametrize("kind", QUANTISED)
def test_adapters_of_quantised_layers_are_merged(kind, tmp_path):
    text, name = QUANTISED[kind]
    rng = np.random.default_rng(1)
    arrays = {
        "b": rng.integers(0, 256, (4, 2, 8)).astype(np.uint8),
        "s": rng.uniform(0.1, 0.2, 8).astype(np.float32),
        "c": rng.normal(0, 1, 4).astype(np.float32),
        "q": rng.integers(-127, 128, (32, 4)).astype(np.int8),
        "t": rng.uniform(0.01, 0.02, 4).astype(np.float32),
    }
    made = parse_model(
        f'<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> f (float[N, 32] x) => (float[N, 4] y) {{ {text} }}'
    )
    used = {i for n in made.graph.node for i in n.input}
    made.graph.initializer.extend(numpy_helper.from_array(value, key) for key, value in arrays.items() if key in used)
    program = og.from_onnx(made)
    names = add_lora(program, rank=2)
    assert names == [f"{name}.lora_A", f"{name}.lora_B"]
    for p in program.parameters:
        if p.name in names:
            p.set_value(rng.normal(0, 1, p.static_shape).astype(np.float32))
    x = {"x": rng.normal(0, 1, (3, 32)).astype(np.float32)}

    def result(program):
        model = og.to_onnx(program)
        return model, onnxruntime.InferenceSession(model.SerializeToString()).run(None, x)[0]

    merged, value = result(merge_lora(program, "float"))
    np.testing.assert_allclose(value, result(program)[1], rtol=1e-4, atol=1e-4)
    assert [n.op_type for n in merged.graph.node] == (["MatMul", "Add"] if "bias" in kind else ["MatMul"])
    assert [n.op_type for n in result(program)[0].graph.node][-3:] == ["MatMul", "Mul", "Add"]
    if kind == "DequantizeLinear":
        with pytest.raises(og.errors.ModelError, match="only weights of MatMulNBits are rounded again"):
            merge_lora(program, "again")


def test_packed_weights_of_another_size_are_refused():
    text = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> f (float[N, 32] x) => (float[N, 4] y)
        { y = com.microsoft.MatMulNBits <K = 32, N = 4, bits = 4, block_size = 16> (x, b, s) }"""
    made = parse_model(text)
    made.graph.initializer.append(numpy_helper.from_array(np.zeros((4, 2, 8), np.uint8), "b"))
    made.graph.initializer.append(numpy_helper.from_array(np.zeros(7, np.float32), "s"))
    program = og.from_onnx(made)
    add_lora(program, rank=2)
    with pytest.raises(og.errors.ModelError, match="the sizes of its operands do not match its attributes"):
        merge_lora(program, "float")


class TestCheckpoints:
    def trainer(self, path=FOLDER / "llama-fp32.onnx"):
        program = og.from_onnx(path)
        add_lora(program, "attention", rank=2)
        return Trainer(program, loss="causal_lm", learning_rate=0.01)

    def test_frozen_weights_are_not_stored_with_each_checkpoint(self, tmp_path):
        words = batch_of("llama-fp32")["input_ids"]
        one, two = self.trainer(), self.trainer()
        one.step({"input_ids": words})
        one.save(tmp_path / "c.safetensors")
        assert (tmp_path / "c.safetensors").stat().st_size < 0.2 * (FOLDER / "llama-fp32.onnx").stat().st_size
        two.load(tmp_path / "c.safetensors")
        assert one.step({"input_ids": words}) == two.step({"input_ids": words})

    def test_a_checkpoint_beside_other_frozen_weights_is_refused(self, tmp_path):
        self.trainer().save(tmp_path / "c.safetensors")
        other = onnx.load(FOLDER / "llama-fp32.onnx")
        weight = next(i for i in other.graph.initializer if i.name == "model.layers.1.mlp.up_proj.MatMul.weight")
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.001), weight.name))
        onnx.save(other, tmp_path / "other.onnx")
        with pytest.raises(og.errors.TrainingError, match="was written for another model"):
            self.trainer(tmp_path / "other.onnx").load(tmp_path / "c.safetensors")
        trainer = self.trainer()
        operators = len(trainer.program.global_block().ops)
        trainer.load(tmp_path / "c.safetensors")
        trainer.save(tmp_path / "d.safetensors")
        assert len(trainer.program.global_block().ops) == operators
