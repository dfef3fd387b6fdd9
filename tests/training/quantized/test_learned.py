"""Files that onnxruntime.quantization made, trained: what they store in integers learns, and the export stores integers again."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad import static
from onnxgrad.errors import ArgumentError, ModelError, UnknownName, UnsupportedGradient
from onnxgrad.training import Trainer, train_quantized
from tests.training import quantised

ALL_OPTIMISATIONS = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL


def trained(path, kind, steps=20, **options):
    """A trainer after some steps, and the losses"""
    t = Trainer(path, **{"loss": "cross_entropy", "learning_rate": 0.005, **options})
    data = quantised.data(kind)
    return t, [t.step(data)["loss"] for _ in range(steps)]


def stored(model):
    return {i.name: i for i in model.graph.initializer}


def nodes(model):
    return Counter((node.domain, node.op_type) for node in model.graph.node)


def scores(path, kind):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": quantised.data(kind)["x"]})[0]


def loss_of(path, kind):
    """Mean cross entropy of a file in onnxruntime"""
    z = scores(path, kind).astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), quantised.data(kind)["target"]]))


def assert_same_form(after, before):
    """The same operators, and tensors of the same names, types and shapes"""
    assert nodes(after) == nodes(before)
    described = [{(i.name, i.data_type, tuple(i.dims)) for i in model.graph.initializer} for model in (after, before)]
    assert described[0] == described[1]


FORMS = {
    "8 bits": {},
    "8 bits per channel": {"per_channel": True},
    "4 bits per channel": {"bits": 4, "per_channel": True},
    "16 bits": {"bits": 16},
    "16 bits of onnxruntime": {"bits": 16, "opset": 18, "extra_options": {"UseQDQContribOps": True}},
    "zero points of weights": {"extra_options": {"WeightSymmetric": False, "ActivationSymmetric": True}},
    "float weights behind QuantizeLinear": {"extra_options": {"AddQDQPairToWeight": True, "DedicatedQDQPair": True}},
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", quantised.NETS)
def test_training_lowers_the_loss_and_the_export_is_quantised_as_before(kind, form, tmp_path):
    path = quantised.static(kind, tmp_path, **FORMS[form])
    before, out = onnx.load(path), tmp_path / "out.onnx"
    t, losses = trained(path, kind, 40)
    assert losses[-1] < 0.9 * losses[0]
    t.export(out)
    after = onnx.load(out)
    if "com.microsoft" not in {o.domain for o in after.opset_import}:
        onnx.checker.check_model(after, full_check=True)
    assert_same_form(after, before)
    assert loss_of(out, kind) < 0.92 * loss_of(path, kind)
    assert abs(loss_of(out, kind) - t.evaluate(quantised.data(kind), batch_size=48)["loss"]) < 0.02


@pytest.mark.parametrize("kind", quantised.NETS)
@pytest.mark.parametrize("form", FORMS)
def test_an_export_without_a_step_holds_the_same_integers(kind, form, tmp_path):
    path = quantised.static(kind, tmp_path, **FORMS[form])
    t = Trainer(path, loss="cross_entropy")
    t.export(tmp_path / "out.onnx")
    before, after = (stored(onnx.load(p)) for p in (path, tmp_path / "out.onnx"))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        old, new = numpy_helper.to_array(tensor), numpy_helper.to_array(after[name])
        # Integers of 32 bits pass through float32, which holds 24 of them.
        np.testing.assert_allclose(new.astype(float), old.astype(float), rtol=1e-6 if old.dtype.itemsize == 4 else 0, err_msg=name)


def test_a_master_weight_gets_the_gradient_of_a_plain_weight_and_a_scale_that_of_its_definition():
    text = """<ir_version: 10, opset_import: ["": 21]> f (float[N, 3] x) => (float[N, 2] y)
        <int8[3, 2] w = {100, -128, 3, 127, -5, 60}, float[2] s = {0.01, 0.02}, int8[2] z = {0, 1}>
        { r = DequantizeLinear <axis = 1> (w, s, z)  y = MatMul (x, r) }"""
    program = og.from_onnx(parse_model(text))
    assert train_quantized(program) == ["w.float", "s.log"]
    rng = np.random.default_rng(0)
    x, w = rng.normal(0, 1, (5, 3)).astype("f4"), rng.normal(0, 1.5, (3, 2)).astype("f4")
    program.set_state_dict({"w.float": w, "s.log": np.array([0.1, -0.2], "f4")})
    master, log = (program.global_block().vars[name] for name in ("w.float", "s.log"))
    gw, gs = static.gradients(program.outputs[0], [master, log])
    found_w, found_s = og.Executor().run(program, {"x": x}, [gw, gs])
    scale, zero = np.array([0.01, 0.02]) * np.exp([0.1, -0.2]), np.array([0, 1])
    level = np.rint(w / scale) + zero
    inside = (level >= -128) & (level <= 127)
    arriving = np.repeat(x.sum(axis=0)[:, None], 2, axis=1)
    np.testing.assert_allclose(found_w, arriving * inside, rtol=1e-5)
    by_scale = np.where(inside, np.rint(w / scale) - w / scale, np.clip(level, -128, 127) - zero)
    np.testing.assert_allclose(found_s, (arriving * by_scale).sum(axis=0) * scale, rtol=1e-3, atol=1e-5)
    assert inside.any() and not inside.all()


def test_learned_scales_follow_their_gradient_and_fixed_ones_stay(tmp_path):
    path = quantised.static("perceptron", tmp_path)
    before = stored(onnx.load(path))
    scales = [name for name in before if name.endswith("_scale") and name != "b2_quantized_scale"]
    for mode in ("learned", "fixed"):
        t, _ = trained(path, "perceptron", quantized=mode)
        assert any(p.name.endswith(".log") for p in t.trained) == (mode == "learned")
        t.export(tmp_path / "out.onnx")
        after = stored(onnx.load(tmp_path / "out.onnx"))
        moved = [not np.array_equal(*(numpy_helper.to_array(s[name]) for s in (before, after))) for name in scales]
        assert all(moved) if mode == "learned" else not any(moved)


@pytest.mark.parametrize("per_channel", [False, True])
def test_observed_scales_are_those_that_quantising_the_trained_weights_gives(per_channel, tmp_path):
    t, _ = trained(quantised.static("perceptron", tmp_path, per_channel=per_channel), "perceptron")
    t.export(tmp_path / "out.onnx", observe={"x": quantised.data("perceptron")["x"]})
    t.export(tmp_path / "learned.onnx")
    assert_same_form(onnx.load(tmp_path / "out.onnx"), onnx.load(tmp_path / "quantised.onnx"))
    plain = onnx.load(tmp_path / "plain.onnx")
    masters = {p.name.removesuffix(".float").removesuffix("_quantized"): p.get_value() for p in t.trained if ".float" in p.name}
    for tensor in plain.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(masters[tensor.name], tensor.name))
    again = quantised.static(plain, tmp_path, per_channel=per_channel, rows="perceptron")
    found, wanted, learned = (
        {name: numpy_helper.to_array(i) for name, i in stored(onnx.load(p)).items()}
        for p in (tmp_path / "out.onnx", again, tmp_path / "learned.onnx")
    )
    for name in ("x", "m1", "h1", "t1", "w1", "w2", "w3", "b1"):
        np.testing.assert_allclose(found[f"{name}_scale"], wanted[f"{name}_scale"], rtol=1e-5, err_msg=name)
        np.testing.assert_array_equal(found[f"{name}_zero_point"], wanted[f"{name}_zero_point"], err_msg=name)
    # The quantiser behind Relu may stand for a Clip as well, so its range does not grow.
    assert wanted["r2_scale"] > learned["r2_scale"] and learned["r2_zero_point"] == found["r2_zero_point"] == 0
    np.testing.assert_allclose(found["r2_scale"], learned["r2_scale"], rtol=1e-5)
    assert loss_of(tmp_path / "out.onnx", "perceptron") < loss_of(tmp_path / "quantised.onnx", "perceptron")


def test_relu_that_a_quantiser_stands_for_is_observed_too(tmp_path):
    path = quantised.static("convolutional", tmp_path, per_channel=True)
    assert nodes(onnx.load(path))["", "Relu"] == 0
    t, losses = trained(path, "convolutional", 40)
    t.export(tmp_path / "out.onnx", observe=quantised.data("convolutional"))
    assert_same_form(onnx.load(tmp_path / "out.onnx"), onnx.load(path))
    assert abs(loss_of(tmp_path / "out.onnx", "convolutional") - losses[-1]) < 0.1


@pytest.mark.parametrize("kind", quantised.NETS)
@pytest.mark.parametrize("made", ["dynamic", "operators"])
def test_weights_of_products_on_integers_learn_where_that_is_asked_for(kind, made, tmp_path):
    path = quantised.dynamic(kind, tmp_path) if made == "dynamic" else quantised.static(kind, tmp_path, qdq=False)
    before = onnx.load(path)
    t, losses = trained(path, kind, 25, quantized="integers")
    assert losses[-1] < 0.85 * losses[0]
    t.export(tmp_path / "out.onnx")
    after = onnx.load(tmp_path / "out.onnx")
    assert_same_form(after, before)
    assert loss_of(tmp_path / "out.onnx", kind) < 0.9 * loss_of(path, kind)
    old, new = stored(before), stored(after)
    weights = [name for name, i in old.items() if i.data_type == onnx.TensorProto.INT8 and len(i.dims) > 1]
    assert len(weights) >= 3
    for name in weights:
        assert not np.array_equal(numpy_helper.to_array(old[name]), numpy_helper.to_array(new[name]))


@pytest.mark.parametrize("kind", quantised.NETS)
def test_what_is_still_float_beside_products_on_integers_learns(kind, tmp_path):
    path = quantised.dynamic(kind, tmp_path)
    before = stored(onnx.load(path))
    t, losses = trained(path, kind, learning_rate=0.02)
    assert losses[-1] < 0.97 * losses[0]
    t.export(tmp_path / "out.onnx")
    after = stored(onnx.load(tmp_path / "out.onnx"))
    changed = {name for name in before if not np.array_equal(*(numpy_helper.to_array(s[name]) for s in (before, after)))}
    assert changed == {p.name for p in t.trained} and all(before[name].data_type == onnx.TensorProto.FLOAT for name in changed)


def test_a_file_of_integers_alone_says_how_they_can_be_trained(tmp_path):
    path = quantised.static("convolutional", tmp_path, qdq=False)
    with pytest.raises(ArgumentError, match=r"--quantized integers"):
        Trainer(path, loss="cross_entropy")


def test_blocks_of_four_bits(tmp_path):
    path = quantised.in_blocks("transformer", tmp_path)
    before = onnx.load(path)
    assert nodes(before)["", "DequantizeLinear"] == 7
    t, losses = trained(path, "transformer")
    assert sum(p.name.endswith(".float") for p in t.trained) == 7 and losses[-1] < 0.6 * losses[0]
    t.export(tmp_path / "out.onnx")
    assert_same_form(onnx.load(tmp_path / "out.onnx"), before)
    t.export(tmp_path / "observed.onnx", observe={"x": quantised.data("transformer")["x"]})
    for name in ("out.onnx", "observed.onnx"):
        assert loss_of(tmp_path / name, "transformer") < 0.7 * loss_of(path, "transformer")


X, Y = np.random.default_rng(0).normal(0, 1, (6, 4)).astype("f4"), np.random.default_rng(1).normal(0, 1, (6, 3)).astype("f4")
W = np.random.default_rng(2).integers(-100, 100, (4, 3)).astype(np.int8)
PLACES = {
    "float16": ("float16[N, 4] x", "float16[N, 3] y", "r = DequantizeLinear <axis = 1> (w, s) y = MatMul (x, r)", np.full(3, 0.01, "f2")),
    "constant": (
        "float[N, 4] x", "float[N, 3] y",
        "v = Constant <value = int8[4, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> () r = DequantizeLinear (v, s) y = MatMul (x, r)", 0.01,
    ),
    "twice": (
        "float[N, 4] x", "float[N, 3] y",
        "r = DequantizeLinear (w, s) a = MatMul (x, r) t = DequantizeLinear (w, s) b = MatMul (x, t) y = Add (a, b)", 0.01,
    ),
    "rows": ("int64[N] x", "float[N, 3] y", "g = Gather (w, x) y = DequantizeLinear (g, s)", 0.01),
    "turned": ("float[N, 3] x", "float[N, 4] y", "t = Transpose (w) r = DequantizeLinear (t, s) y = MatMul (x, r)", 0.01),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_places_where_a_weight_is_read(place, tmp_path):
    x, y, body, scale = PLACES[place]
    made = parse_model(f'<ir_version: 10, opset_import: ["": 21]> f ({x}) => ({y}) {{ {body} }}')
    made.graph.initializer.append(numpy_helper.from_array(np.asarray(scale, np.float16 if place == "float16" else "f4"), "s"))
    if place != "constant":
        made.graph.initializer.append(numpy_helper.from_array(W, "w"))
    feed = {"rows": np.arange(6) % 4, "turned": Y}.get(place, X)
    target = X if place == "turned" else Y
    kind = np.float16 if place == "float16" else np.float32
    feed, target = feed if place == "rows" else feed.astype(kind), target.astype(kind)
    t = Trainer(made, loss="mse", learning_rate=0.02)
    assert {p.name for p in t.trained} == {"s.log", "v.float" if place == "constant" else "w.float"}
    losses = [t.step({"x": feed, "target": target})["loss"] for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]
    t.export(tmp_path / "m.onnx")
    after = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(after, full_check=True)
    assert [node.op_type for node in after.graph.node] == [n.op_type for n in made.graph.node if n.op_type != "Constant"]
    session = onnxruntime.InferenceSession(after.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": feed})[0].astype(np.float64)
    assert ((found - target) ** 2).mean() < losses[-2]


class TestWhatWasAdded:
    TEXT = """<ir_version: 10, opset_import: ["": 21]> f (float[N, 2] x) => (float[N, 2] y)
        <int8[2, 2] w = {1, 2, 3, 4}, float s = {0.5}> { r = DequantizeLinear (w, s)  y = MatMul (x, r) }"""

    def test_a_run_that_is_resumed_is_the_same(self, tmp_path):
        path = quantised.static("perceptron", tmp_path, per_channel=True)
        whole, _ = trained(path, "perceptron", 8)
        first, _ = trained(path, "perceptron", 4)
        first.save(tmp_path / "c.safetensors")
        second = Trainer(path, loss="cross_entropy", learning_rate=0.005)
        second.load(tmp_path / "c.safetensors")
        for _ in range(4):
            second.step(quantised.data("perceptron"))
        for a, b in zip(whole.trained, second.trained, strict=True):
            np.testing.assert_array_equal(a.get_value(), b.get_value())

    def test_a_file_exported_with_float_masters_goes_on(self, tmp_path):
        program = og.from_onnx(parse_model(self.TEXT))
        train_quantized(program)
        again = Trainer(og.from_onnx(og.to_onnx(program)), loss="mse", learning_rate=0.05)
        assert {p.name for p in again.trained} == {"s.log", "w.float"}
        again.step({"x": np.eye(2, dtype="f4"), "target": np.zeros((2, 2), "f4")})
        again.export(tmp_path / "m.onnx")
        after = onnx.load(tmp_path / "m.onnx")
        assert [node.op_type for node in after.graph.node] == ["DequantizeLinear", "MatMul"]
        assert stored(after)["w"].data_type == onnx.TensorProto.INT8

    @pytest.mark.parametrize("mark", ["{", "[]", '{"kind": "weight"}', '{"kind": "bias", "name": 3}', '{"kind": "none"}'])
    def test_marks_on_something_else_are_refused(self, mark, tmp_path):
        made = parse_model(self.TEXT)
        made.graph.node[1].metadata_props.add(key="onnxgrad.quantized", value=mark)
        t = Trainer(made, loss="mse")
        with pytest.raises(ModelError, match=r"MatMul.*marked by onnxgrad\.quantized"):
            t.export(tmp_path / "m.onnx")

    def test_names_and_modes_that_do_not_exist(self):
        program = og.from_onnx(parse_model(self.TEXT))
        with pytest.raises(UnknownName, match=r"'v' fits no tensor of integers.*There are: w"):
            train_quantized(program, "v")
        with pytest.raises(ArgumentError, match="'learned' or 'fixed'"):
            train_quantized(program, scales="observed")
        with pytest.raises(ArgumentError, match=r"quantized is 'learned', 'fixed', .*, not 'all'"):
            Trainer(parse_model(self.TEXT), loss="mse", quantized="all")
        assert [op.type for op in program.global_block().ops] == ["DequantizeLinear", "MatMul"]

    def test_a_weight_that_an_operator_reads_as_integers_stays(self):
        text = self.TEXT.replace("(float[N, 2] y)", "(float[N, 2] y, int32[2, 2] i)").replace("r = ", "i = Cast <to = 6> (w) r = ")
        with pytest.raises(UnknownName, match="There are: none"):
            train_quantized(og.from_onnx(parse_model(text)), "w")

    def test_without_the_convention_it_is_refused(self):
        with og.straight_through(False), pytest.raises(UnsupportedGradient, match="straight-through"):
            Trainer(parse_model(self.TEXT), loss="mse")


@pytest.mark.parametrize("made", ["float", "QDQ", "dynamic"])
@pytest.mark.parametrize("kind", quantised.NETS)
def test_files_that_onnxruntime_optimised_and_saved_train_or_are_refused_by_name(kind, made, tmp_path):
    if made == "float":
        path = tmp_path / "plain.onnx"
        onnx.save(quantised.NETS[kind](), path)
    else:
        path = quantised.static(kind, tmp_path) if made == "QDQ" else quantised.dynamic(kind, tmp_path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = ALL_OPTIMISATIONS, 3
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    if any(node.domain == "com.microsoft.nchwc" for node in onnx.load(tmp_path / "optimised.onnx").graph.node):
        with pytest.raises(UnsupportedGradient, match=r"com\.microsoft\.nchwc.*use the file it was made from.*ORT_ENABLE_EXTENDED"):
            Trainer(tmp_path / "optimised.onnx", loss="cross_entropy")
        return
    t, losses = trained(tmp_path / "optimised.onnx", kind, quantized="integers")
    assert losses[-1] < 0.95 * losses[0]
    t.export(tmp_path / "out.onnx")
    assert loss_of(tmp_path / "out.onnx", kind) < 0.97 * loss_of(path, kind)
