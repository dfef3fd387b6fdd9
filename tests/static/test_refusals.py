"""Arguments that make no sense are refused by a typed error when the program is built."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import errors, static


def operands():
    return static.data("a", [2, 3, 4]), static.data("b", [3, 4, 5]), static.data("image", [2, 4, 6, 6])


def weight():
    return static.create_parameter([4, 4, 3, 3], "float32")


SECTIONS = {
    "split": lambda a, b, image, n: paddle.split(a, n, axis=2),
    "chunk": lambda a, b, image, n: paddle.chunk(a, n, axis=2),
    "tensor_split": lambda a, b, image, n: paddle.tensor_split(a, n, axis=2),
    "hsplit": lambda a, b, image, n: paddle.hsplit(a, n),
    "vsplit": lambda a, b, image, n: paddle.vsplit(a, n),
    "channel_shuffle": lambda a, b, image, n: F.channel_shuffle(image, n),
    "pixel_shuffle": lambda a, b, image, n: F.pixel_shuffle(image, n),
    "pixel_unshuffle": lambda a, b, image, n: F.pixel_unshuffle(image, n),
    "maxout": lambda a, b, image, n: F.maxout(image, n),
    "F.group_norm": lambda a, b, image, n: F.group_norm(image, n),
    "static.nn.group_norm": lambda a, b, image, n: static.nn.group_norm(image, n),
    "F.conv2d": lambda a, b, image, n: F.conv2d(image, weight(), groups=n),
    "F.conv2d_transpose": lambda a, b, image, n: F.conv2d_transpose(image, weight(), groups=n),
    "static.nn.conv2d": lambda a, b, image, n: static.nn.conv2d(image, 4, 3, groups=n),
    "static.nn.conv2d_transpose": lambda a, b, image, n: static.nn.conv2d_transpose(image, 4, filter_size=3, groups=n),
}


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("function", SECTIONS)
def test_zero_groups_or_sections(function, number):
    with pytest.raises(errors.ArgumentError, match="at least 1"):
        SECTIONS[function](*operands(), number)


@pytest.mark.parametrize("function", ["split", "tensor_split", "channel_shuffle", "maxout", "F.conv2d", "F.group_norm"])
def test_groups_that_are_no_number(function):
    with pytest.raises((errors.ArgumentTypeError, errors.ArgumentError)):
        SECTIONS[function](*operands(), None)


@pytest.mark.parametrize("sizes", [[], [-1, -1], [-2, 6], [1, 1]])
def test_sizes_of_parts_that_do_not_fit(sizes):
    a, _, _ = operands()
    with pytest.raises((errors.ArgumentError, errors.IllTyped)):
        paddle.split(a, sizes, axis=2)


@pytest.mark.parametrize("axes", [[[0], [0], [0]], [[0, 0], [0, 1]], [[5], [0]], 7, -1, "ab", 1.5, None])
def test_axes_of_tensordot(axes):
    a, b, _ = operands()
    with pytest.raises((errors.ArgumentError, errors.ArgumentTypeError)):
        paddle.tensordot(a, b, axes=axes)


@pytest.mark.parametrize("cotangent", [["x"], "x", [np.ones((2, 2), np.float32)], [3]])
def test_target_gradients_are_variables(cotangent):
    x = static.data("x", [2, 2])
    x.stop_gradient = False
    with pytest.raises(errors.NotAVariable, match="target_gradients"):
        static.gradients([x * x], [x], target_gradients=cotangent)


def test_persistable_changes_nothing_of_what_is_computed_or_fed():
    """Paddle 1 keeps such values for fetching; here any value can be fetched"""
    x = static.data("x", [None, 3])
    h = static.nn.fc(x, 2)
    loss = paddle.mean(h * h)
    h.persistable = x.persistable = loss.persistable = True
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feed = {"x": np.ones((2, 3), np.float32)}
    before, value, fed = executor.run(feed=feed, fetch_list=[loss, h, x])
    np.testing.assert_allclose(before, (value**2).mean(), rtol=1e-6)
    np.testing.assert_array_equal(fed, feed["x"])
    assert executor.run(feed=feed, fetch_list=[loss])[0] < before
    model = paddle.to_onnx(static.default_main_program(), [loss])
    onnxruntime.InferenceSession(model.SerializeToString())


@pytest.mark.parametrize("opset", [7, 9])
def test_a_file_of_format_3_is_written_with_what_it_computes(opset):
    """That version wants every initializer among the inputs"""
    text = f"""<ir_version: 3, opset_import: ["": {opset}]> f (float[2, 3] x, float[3, 2] w) => (float[2, 2] y)
      <float[3, 2] w = {{1, 2, 3, 4, 5, 6}}> {{ h = MatMul (x, w) y = Relu (h) }}"""
    model = onnx.parser.parse_model(text)
    program = paddle.from_onnx(model)
    assert paddle.to_onnx(program).ir_version == 3
    with static.program_guard(program):
        more = program.outputs[0] * 2.0
    for outputs in (["h"], ["y"], [more]):
        written = paddle.to_onnx(program, outputs)
        onnx.checker.check_model(written, full_check=True)
        session = onnxruntime.InferenceSession(written.SerializeToString())
        assert [v.name for v in session.get_inputs()] == ["x"] and written.ir_version == 4
