"""lean_batch_norm: gradients through the statistics of the batch, in fewer passes, against the formulas in float64."""

import numpy as np
import onnx
import onnxruntime
import pytest

from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Target
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.providers.layouts.batch_norm import lean_batch_norm

CHANNELS = 3


def _program(declared, shapes_again=1, momentum=0.75):
    """BatchNormalization of x, ``shapes_again`` times with scales of their own but the same constants as old statistics"""
    main, draw = static.Program(), np.random.default_rng(0)
    with static.program_guard(main):
        x, weight = static.data("x", declared), static.data("weight", declared)
        x.stop_gradient = False
        op, block = x.block.build, x.block
        zero, one = np.zeros(CHANNELS, np.float32), np.ones(CHANNELS, np.float32)
        y, scales, statistics = x, [], []
        for i in range(shapes_again):
            scale, shift = (
                block.create_parameter(
                    f"{n}{i}", [CHANNELS], "float32", value=TensorValue.of(draw.normal(1, 0.3, CHANNELS).astype("f4"))
                )
                for n in ("scale", "shift")
            )
            y, mean, variance = op.BatchNormalization(y, scale, shift, zero, one, training_mode=1, momentum=momentum, outputs=3)
            y = op.Mul(op.Tanh(y), 3.0)
            scales += [scale, shift]
            statistics += [mean, variance]
        loss = op.ReduceSum(op.Mul(y, weight), keepdims=0)
        wanted = [*statistics, *static.gradients([loss], [x, *scales])]
    values = [v.value.numpy().astype(np.float64) for v in scales]
    return main, wanted, values


def _run(main, wanted, feed, lean):
    graph = compile(main, wanted)
    if lean:
        lean_batch_norm(graph, Target())
        graph.settle()
    model = write_model(graph)
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed), graph.operators


def _expected(x, weight, scales, momentum=0.75):
    """In float64: running statistics of each layer, and the gradients of x, scales and shifts"""
    axes = (0, *range(2, x.ndim))
    wide = (CHANNELS, *[1] * (x.ndim - 2))
    count, kept, statistics, y = x.size / CHANNELS, [], [], x
    for scale, shift in zip(scales[::2], scales[1::2], strict=True):
        mean, variance = y.mean(axes), y.var(axes)
        unit = (y - mean.reshape(wide)) / np.sqrt(variance.reshape(wide) + 1e-5)
        statistics += [(1 - momentum) * mean, momentum + (1 - momentum) * variance]
        y = 3 * np.tanh(unit * scale.reshape(wide) + shift.reshape(wide))
        kept.append((unit, variance, scale, y))
    g, gradients = weight, []
    for unit, variance, scale, y in kept[::-1]:
        g = g * 3 * (1 - (y / 3) ** 2)
        gscale, gshift = (g * unit).sum(axes), g.sum(axes)
        gradients = [gscale, gshift, *gradients]
        rest = g - (gshift / count).reshape(wide) - unit * (gscale / count).reshape(wide)
        g = rest * (scale / np.sqrt(variance + 1e-5)).reshape(wide)
    return [*statistics, g, *gradients]


def _feed(shape, around=0.0):
    draw = np.random.default_rng(1)
    return {"x": draw.normal(around, 1, shape).astype(np.float32), "weight": draw.normal(size=shape).astype(np.float32)}


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(
    "shape, declared",
    [
        ((1, CHANNELS, 20, 30), (1, CHANNELS, 20, 30)),
        ((4, CHANNELS, 20, 30), (4, CHANNELS, 20, 30)),
        ((4, CHANNELS, 20, 30), (None, CHANNELS, 20, 30)),
        ((4, CHANNELS, 300), (None, CHANNELS, 300)),
        ((2, CHANNELS, 7, 8, 9), (2, CHANNELS, 7, 8, 9)),
    ],
)
def test_the_same_as_in_float64(shape, declared, layers):
    main, wanted, scales = _program(declared, layers)
    feed = _feed(shape)
    found, operators = _run(main, wanted, feed, lean=True)
    expected = _expected(feed["x"].astype(np.float64), feed["weight"].astype(np.float64), scales)
    for ours, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=2e-5 * np.abs(exact).max())
    # Per layer the product with x, and what is subtracted.
    assert sum(op.type == "MatMul" for op in operators) == sum(op.type == "Conv" for op in operators) == layers
    assert not any(op.type == "ReduceMean" for op in operators)


def test_fewer_images_are_written():
    main, wanted, _ = _program((4, CHANNELS, 20, 30))
    images = []
    for lean in (False, True):
        _, operators = _run(main, wanted, _feed((4, CHANNELS, 20, 30)), lean)
        made = [v for op in operators for v in op.outputs if v is not None and v.static_shape is not None and op.type != "Reshape"]
        images.append(sum(np.prod(v.static_shape) == 4 * CHANNELS * 600 for v in made))
    # x - mean, its square, its product with the gradient, two differences and a product; now Transpose, Conv and Sub.
    assert images[1] == images[0] - 3


def test_where_the_mean_is_large_it_rounds_no_worse_than_the_operator():
    """At a mean of 100 deviations; y itself is x s + b there"""
    shape = (4, CHANNELS, 40, 40)
    main, wanted, scales = _program(shape)
    feed = _feed(shape, around=100.0)
    (*_, gx, gscale, gshift), _ = _run(main, wanted, feed, lean=True)
    *_, x_exact, scale_exact, shift_exact = _expected(feed["x"].astype(np.float64), feed["weight"].astype(np.float64), scales)
    for ours, exact in ((gx, x_exact), (gscale, scale_exact), (gshift, shift_exact)):
        assert np.abs(ours - exact).max() < 2e-4 * np.abs(exact).max()


@pytest.mark.parametrize("shape", [(4, CHANNELS, 5, 6), (40, CHANNELS)])
def test_small_ones_are_left(shape):
    main, wanted, _ = _program(shape)
    (_, before), (_, after) = (_run(main, wanted, _feed(shape), lean) for lean in (False, True))
    assert [op.type for op in before] == [op.type for op in after]


def test_no_images():
    shape = (None, CHANNELS, 20, 30)
    main, wanted, _ = _program(shape)
    found, _ = _run(main, wanted, _feed((0, CHANNELS, 20, 30)), lean=True)
    assert found[2].shape == (0, CHANNELS, 20, 30)
