"""Pools whose number of windows inference and runtimes find differently."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as og
from onnxgrad import errors

CASES = {
    "a last window in the padding": (11, [1, 2, 5], "kernel_shape=[2], strides=[3], pads=[1,1], ceil_mode=1"),
    "one in a gap": (13, [1, 2, 4], "kernel_shape=[1], strides=[2], ceil_mode=1"),
    "a gap beside an overhang": (17, [1, 1, 4, 5], "kernel_shape=[1,2], strides=[2,2], ceil_mode=1"),
    "padding beside an overhang": (19, [1, 1, 6, 5], "kernel_shape=[3,2], strides=[2,3], pads=[1,1,1,1], ceil_mode=1"),
    "auto_pad": (13, [1, 1, 7, 6], 'kernel_shape=[3,4], strides=[2,3], auto_pad="SAME_LOWER", ceil_mode=1'),
    "no padding at all": (13, [1, 1, 7, 6], 'kernel_shape=[3,1], strides=[2,3], auto_pad="VALID", ceil_mode=1'),
}


def model_of(kind, opset, shape, attrs):
    dims = ", ".join(map(str, shape))
    ir = 6 if opset < 15 else 8
    text = f'<ir_version: {ir}, opset_import: ["": {opset}]> f (float[{dims}] x) => (float y) {{ h = {kind} <{attrs}> (x) y = Exp (h) }}'
    return onnx.parser.parse_model(text)


def run(model, feed):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)


def gradient_of(model, x):
    """The gradient of sum(y * c), as run and as written, and c"""
    program = og.from_onnx(model)
    program.inputs[0].stop_gradient = False
    c = np.random.default_rng(1).uniform(-1, 1, run(model, {"x": x})[0].shape).astype(np.float32)
    with og.static.program_guard(program):
        loss = og.sum(program.outputs[0] * program.constant(c))
    (g,) = og.gradients([loss], program.inputs)
    onnx.checker.check_model(og.to_onnx(program, [g]), full_check=True)
    return og.Executor().run(program, {"x": x}, [g])[0], c


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool", "LpPool", "counting"])
def test_the_gradient_of_a_pool_with_ceil_mode_matches_differences(kind, case):
    opset, shape, attrs = CASES[case]
    if kind == "LpPool":
        opset = max(opset, 18)
    if kind == "counting":
        kind, attrs = "AveragePool", attrs + ", count_include_pad=1"
    model = model_of(kind, opset, shape, attrs)
    x = np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape).astype(np.float32) / 16 + 0.25
    found, c = gradient_of(model, x)
    for position in np.ndindex(*shape):
        step = np.zeros(shape, np.float32)
        step[position] = 1 / 128
        high, low = (run(model, {"x": x + sign * step})[0].astype(np.float64) for sign in (1, -1))
        np.testing.assert_allclose(found[position], ((high - low) * c).sum() * 64, rtol=2e-3, atol=1e-3)


def test_a_window_that_reads_only_padding_passes_nothing_on():
    attrs = "kernel_shape=[4], strides=[3], pads=[3,2], dilations=[2], ceil_mode=1"
    text = '<ir_version: 8, opset_import: ["": 17]> f (float[%s] x) => (float y) { y = MaxPool <' + attrs + "> (x) }"
    for dims in ("1, 2, 1", "n, 2, k"):
        program = og.from_onnx(onnx.parser.parse_model(text % dims))
        program.inputs[0].stop_gradient = False
        (g,) = og.gradients(program.outputs, program.inputs)
        y, found = og.Executor().run(program, {"x": np.ones((1, 2, 1), np.float32)}, [*program.outputs, g])
        assert (y < -1e38).all() and not found.any()


def test_a_window_larger_than_the_data_is_refused():
    program = og.from_onnx(model_of("AveragePool", 17, [1, 1, 2], "kernel_shape=[4], strides=[4]"))
    program.inputs[0].stop_gradient = False
    with pytest.raises(errors.UnsupportedGradient, match="larger than its input"):
        og.gradients(program.outputs, program.inputs)


def test_dilated_windows_with_auto_pad_are_refused():
    program = og.from_onnx(model_of("MaxPool", 17, [1, 1, 7], 'kernel_shape=[2], dilations=[2], auto_pad="SAME_UPPER"'))
    program.inputs[0].stop_gradient = False
    with pytest.raises(errors.UnsupportedGradient, match="auto_pad"):
        og.gradients(program.outputs, program.inputs)


def test_the_file_itself_is_written_as_it_was():
    model = model_of("MaxPool", 13, [1, 2, 5], "kernel_shape=[2], strides=[3], pads=[1,1], ceil_mode=1")
    program = og.from_onnx(model)
    assert og.to_onnx(program).graph.node[0].attribute == model.graph.node[0].attribute


@pytest.mark.damaged
def test_a_pool_whose_kernel_has_more_axes_than_its_operand_is_left_for_onnxruntime_to_refuse():
    program = og.from_onnx(model_of("AveragePool", 19, [1, 2, 5], "kernel_shape=[2,2], ceil_mode=1"))
    with pytest.raises(errors.OnnxGradError):
        og.Executor().run(program, {"x": np.ones((1, 2, 5), np.float32)}, program.outputs)
