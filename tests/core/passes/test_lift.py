"""Lifting old opsets to 21 keeps what a program computes."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad
from onnxgrad.core.passes.lift import lift

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
IMAGE = np.random.default_rng(1).normal(size=(1, 2, 3, 4)).astype(np.float32)

# (opset, body, input): each is an operator whose form or meaning changed between that opset and 21.
OLD_FORMS = {
    "squeeze": (11, "y = Squeeze <axes = [0]> (x)", X[:1]),
    "unsqueeze": (11, "y = Unsqueeze <axes = [0, 2]> (x)", X),
    "reduce_sum": (11, "y = ReduceSum <axes = [1], keepdims = 0> (x)", X),
    "reduce_mean": (17, "y = ReduceMean <axes = [-1]> (x)", X),
    "reduce_l2_all": (13, "y = ReduceL2 <keepdims = 0> (x)", X),
    "split": (11, "y, z = Split <axis = 2, split = [1, 3]> (x)", X),
    "split_even": (13, "y, z = Split <axis = 2> (x)", X),
    "slice": (9, "y = Slice <starts = [1], ends = [3], axes = [2]> (x)", X),
    "clip": (10, "y = Clip <min = -0.5, max = 0.3> (x)", X),
    "clip_one_side": (7, "y = Clip <max = 0.3> (x)", X),
    "pad": (10, "y = Pad <pads = [0, 1, 0, 0, 0, 2], value = 0.7> (x)", X),
    "pad_reflect": (7, 'y = Pad <mode = "reflect", pads = [0, 1, 0, 0, 0, 2]> (x)', X),
    "dropout": (7, "y = Dropout <ratio = 0.4> (x)", X),
    "top_k": (9, "y, z = TopK <k = 2> (x)", X),
    "softmax_inner": (11, "y = Softmax <axis = 1> (x)", X),
    "softmax_last": (11, "y = Softmax <axis = 2> (x)", X),
    "log_softmax_default": (9, "y = LogSoftmax (x)", X),
    "upsample": (9, "s = Constant <value = float[4] {1, 1, 2, 2}> () y = Upsample (x, s)", IMAGE),
    "upsample_attribute": (7, 'y = Upsample <mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]> (x)', IMAGE),
    "resize": (10, "s = Constant <value = float[4] {1, 1, 2, 3}> () y = Resize (x, s)", IMAGE),
    "scatter": (
        9,
        "i = Constant <value = int64[1, 3, 1] {0, 1, 2}> () u = ReduceMax <axes = [0, 2]> (x) y = Scatter <axis = 2> (x, i, u)",
        X,
    ),
    "dft": (17, "u = Unsqueeze (x, a) y = DFT <axis = 1> (u)", X),
    "gemm": (
        9,
        "m = ReduceMax <axes = [0], keepdims = 0> (x) c = ReduceMax <axes = [0, 2], keepdims = 0> (x) y = Gemm <transB = 1> (m, m, c)",
        X,
    ),
    "grid_sample": (
        16,
        'g = Constant <value = float[1, 1, 2, 2] {0.1, 0.2, -0.3, 0.5}> () y = GridSample <mode = "bilinear"> (x, g)',
        IMAGE,
    ),
}


def model_of(opset, body, x):
    dims = ", ".join(str(n) for n in x.shape)
    outputs = "float[] y, float[] z" if "y, z" in body and "TopK" not in body else "float[] y"
    if "TopK" in body:
        outputs = "float[] y, int64[] z"
    text = f'<ir_version: 8, opset_import: ["": {opset}]> g (float[{dims}] x) => ({outputs}) <int64[1] a = {{3}}> {{ {body} }}'
    model = onnx.parser.parse_model(text)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model)


def run(model, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})


@pytest.mark.parametrize("name", OLD_FORMS)
def test_lifted_operator_computes_the_same(name):
    opset, body, x = OLD_FORMS[name]
    model = model_of(opset, body, x)
    program = onnxgrad.from_onnx(model)
    lift(program)
    lifted = onnxgrad.to_onnx(program)
    assert lifted.opset_import[0].version == 21
    onnx.checker.check_model(lifted, full_check=True)
    for before, after in zip(run(model, x), run(lifted, x), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Reshape <shape = [0, -1]> (x)", X.reshape(2, 12)),
        (
            "n = Constant <value = float {3}> () a = Constant <value = float {1}> () y = Tile (x, n, a)",
            np.concatenate([X, X, X], axis=1),
        ),
    ],
    ids=["Reshape", "Tile"],
)
def test_what_opset_1_says_of_shapes_is_an_operand_of_today(body, expected):
    dims = ", ".join(map(str, expected.shape))
    program = onnxgrad.from_onnx(
        onnx.parser.parse_model(f'<ir_version: 3, opset_import: ["": 1]> g (float[2, 3, 4] x) => (float[{dims}] y) {{ {body} }}')
    )
    lift(program)
    (found,) = onnxgrad.Executor().run(program, {"x": X}, program.outputs)
    np.testing.assert_array_equal(found, expected)


def test_old_broadcasting_is_written_out():
    text = """<ir_version: 3, opset_import: ["": 6]> g (float[2, 3, 4] x, float[3] w) => (float[2, 3, 4] y)
        { y = Add <broadcast = 1, axis = 1> (x, w) }"""
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    lift(program)
    w = np.arange(3, dtype=np.float32)
    (found,) = onnxgrad.Executor().run(program, {"x": X, "w": w}, program.outputs)
    np.testing.assert_allclose(found, X + w[:, None])


def test_old_training_batch_normalization_is_recognised():
    text = """<ir_version: 3, opset_import: ["": 7]> g (float[2, 3, 4] x, float[3] s, float[3] b, float[3] m, float[3] v)
        => (float[2, 3, 4] y) { y, om, ov, sm, sv = BatchNormalization (x, s, b, m, v) }"""
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    lift(program)
    (op,) = program.global_block().ops
    assert op.attr("training_mode") == 1
    assert len(op.outputs) == 3


def test_group_normalization_of_opset_18_has_one_scale_per_group():
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[2, 4, 3] x) => (float[2, 4, 3] y)
        <float[2] s = {1, 2}, float[2] b = {0, 1}> { y = GroupNormalization <num_groups = 2> (x, s, b) }"""
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    pairs = onnxgrad.append_backward(program.outputs[0])
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    shift = {p.name: g for p, g in pairs}["b"]
    y, g = onnxgrad.Executor().run(program, {"x": x}, [program.outputs[0], shift])
    np.testing.assert_allclose(y.reshape(2, 2, -1).mean(axis=2), [[0, 1], [0, 1]], atol=1e-5)
    np.testing.assert_allclose(g, [12.0, 12.0])


@pytest.mark.parametrize("stamp", [27, 28])
def test_newest_stamps_are_lowered_when_nothing_was_redefined(stamp):
    text = (
        f'<ir_version: 10, opset_import: ["": {stamp}]> g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Mul (x, w) }}'
    )
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    ((_, g),) = onnxgrad.append_backward(program.outputs[0])
    assert program.opset_version() == 26
    np.testing.assert_array_equal(onnxgrad.Executor().run(program, {"x": X[0, 0, :2]}, [g])[0], X[0, 0, :2])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('y = Einsum <equation = "ij->ji"> (x)', 26),
        ("c = Cast <to = 9> (x) d = ReduceMax <keepdims = 0> (x) y = Add (x, d)", 26),
        ("y = SwiGLU (x, x)", 28),
        ("y = Mod (x, x)", 26),
        ("y = Mod <fmod = 1> (x, x)", 26),
    ],
)
def test_opset_28_is_brought_down_where_26_has_a_form_of_everything(body, expected):
    text = f'<ir_version: 13, opset_import: ["": 28]> g (float[2, 3] x) => (float[M, N] y) {{ {body} }}'
    program = onnxgrad.from_onnx(onnx.parser.parse_model(text))
    lift(program)
    assert program.opset_version() == expected
