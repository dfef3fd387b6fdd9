"""Gradients through quantised tensors: the straight-through convention, against its definition."""

import numpy as np
import onnx
import pytest

import onnxgrad
from onnxgrad import errors, static

RNG = np.random.default_rng(3)
X = RNG.uniform(-30, 30, (4, 6)).astype(np.float32)
G = RNG.uniform(-1, 1, (4, 6)).astype(np.float32)
INT8, UINT8 = (-128, 127), (0, 255)


def variable(name, array):
    v = static.data(name, list(array.shape), array.dtype.name)
    v.stop_gradient = False
    return v


def run(outputs, feed):
    return onnxgrad.Executor().run(feed=feed, fetch_list=outputs)


def expected(x, g, scale, zero, bounds):
    """Gradients of x and scale (as wide as x): Esser et al., equations 3 and 5, with a zero point"""
    level = np.rint(x / scale) + zero
    inside = (level >= bounds[0]) & (level <= bounds[1])
    return g * inside, g * np.where(inside, np.rint(x / scale) - x / scale, np.clip(level, *bounds) - zero)


FORMS = {
    "tensor_int8": (np.float32(0.1), np.int8(3), {}, INT8, lambda v: v, (0, 1)),
    "tensor_uint8": (np.float32(0.1), np.uint8(130), {}, UINT8, lambda v: v, (0, 1)),
    "tensor_int4": (
        np.float32(1.5),
        onnx.numpy_helper.to_array(onnx.helper.make_tensor("z", 22, [], [1])),
        {},
        (-8, 7),
        lambda v: v,
        (0, 1),
    ),
    "axis": (
        RNG.uniform(0.05, 0.3, 4).astype(np.float32),
        np.arange(4).astype(np.int8),
        {"axis": 0},
        INT8,
        lambda v: v[:, None],
        1,
    ),
    "last_axis": (RNG.uniform(0.05, 0.3, 6).astype(np.float32), np.arange(6).astype(np.int8), {"axis": -1}, INT8, lambda v: v, 0),
    "blocks": (
        RNG.uniform(0.05, 0.3, (4, 2)).astype(np.float32),
        np.ones((4, 2), np.int8),
        {"block_size": 3},
        INT8,
        lambda v: np.repeat(v, 3, 1),
        "blocks",
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("known", [True, False])
def test_fake_quantisation_is_a_clipped_identity(form, known):
    scale, zero, attrs, bounds, wide, summed = FORMS[form]
    x = static.data("x", [4, 6] if known else [None, None], "float32")
    s, c = variable("s", scale), static.data("c", [4, 6], "float32")
    x.stop_gradient = False
    op = x.block.build
    zero_point = op.constant(zero)
    y = op.DequantizeLinear(op.QuantizeLinear(x, s, zero_point, **attrs), s, zero_point, **attrs)
    gx, gs = run(static.gradients(y, [x, s], c), {"x": X, "s": scale, "c": G})
    want_x, want_s = expected(X, G, wide(scale), wide(np.asarray(zero, np.float32)), bounds)
    want_s = want_s.reshape(4, 2, 3).sum(2) if summed == "blocks" else want_s.sum(summed)
    np.testing.assert_array_equal(gx == 0, want_x == 0)
    np.testing.assert_allclose(gx, want_x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gs, want_s, rtol=1e-3, atol=1e-2)
    assert (want_x == 0).any() and (want_x != 0).any()


def test_eight_bit_floats_saturate():
    x, s, c = variable("x", X), variable("s", np.float32(0.05)), static.data("c", [4, 6], "float32")
    op = x.block.build
    y = op.DequantizeLinear(op.QuantizeLinear(x, s, output_dtype=17), s)
    gx = static.gradients(y, x, c)
    (found,) = run(gx, {"x": X, "s": np.float32(0.05), "c": G})
    np.testing.assert_allclose(found, G * (np.abs(X / 0.05) <= 448), rtol=1e-5)


def test_dynamic_quantisation_is_an_identity_but_for_its_extremes():
    x, c = variable("x", X), static.data("c", [4, 6], "float32")
    op = x.block.build
    y, scale, zero = op.DynamicQuantizeLinear(x, outputs=3)
    (found,) = run(static.gradients(op.DequantizeLinear(y, scale, zero), x, c), {"x": X, "c": G})
    step = (X.max() - X.min()) / 255
    rounding = ((np.rint(X / step) - X / step) * G).sum() / 255
    want = G + rounding * ((X.max() == X).astype(np.float32) - (X.min() == X))
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


def test_integers_that_only_move_pass_the_gradient_on():
    x, c = variable("x", X), static.data("c", [3, 4], "float32")
    op = x.block.build
    scale, zero = op.constant(np.float32(0.5)), op.constant(np.int8(0))
    moved = op.Transpose(op.Split(op.QuantizeLinear(x, scale, zero), axis=1, num_outputs=2, outputs=2)[1], perm=[1, 0])
    y = op.DequantizeLinear(moved, scale, zero)
    (found,) = run(static.gradients(y, x, c), {"x": X, "c": G.reshape(2, 3, 4)[0]})
    np.testing.assert_allclose(found[:, 3:], G.reshape(2, 3, 4)[0].T)
    assert not found[:, :3].any()


def test_arithmetic_on_integers_is_refused():
    x = variable("x", X)
    op = x.block.build
    level = op.Cast(op.QuantizeLinear(x, 0.5, op.constant(np.int8(0))), to=6)
    y = op.Cast(op.Mul(level, level), to=1)
    with pytest.raises(errors.UnsupportedGradient, match=r"Mul.*quantised tensor.*Dequantise first"):
        static.gradients(y, x)


@pytest.mark.parametrize("kind", ["MatMulInteger", "QLinearMatMul"])
def test_integer_products_pass_the_gradient_of_the_form_that_dequantises_first(kind):
    x, c = variable("x", X), static.data("c", [4, 2], "float32")
    op = x.block.build
    scale, zero = op.constant(np.float32(0.5)), op.constant(np.int8(0))
    stored = RNG.integers(-9, 9, (6, 2)).astype(np.int8)
    level, weight = op.QuantizeLinear(x, scale, zero), op.constant(stored)
    if kind == "MatMulInteger":
        y = op.Mul(op.Cast(op.MatMulInteger(level, weight), to=1), 0.25)
    else:
        large = op.constant(np.float32(20))
        y = op.DequantizeLinear(op.QLinearMatMul(level, scale, zero, weight, scale, zero, large, zero), large, zero)
    plain = op.MatMul(op.DequantizeLinear(level, scale, zero), op.constant(stored.astype(np.float32) * 0.5))
    found = [run(static.gradients(v, x, c), {"x": X, "c": G[:, :2]})[0] for v in (y, plain)]
    assert np.abs(found[1]).max() > 1
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)


def test_a_scale_for_each_number_of_a_row_gets_the_gradient_of_its_number():
    level, scale = np.array([100, -7, 3], np.int8), np.array([0.1, 0.2, 0.3], np.float32)
    s, c = variable("s", scale), static.data("c", [3], "float32")
    op = s.block.build
    y = op.DequantizeLinear(op.constant(level), s, op.constant(np.array([1, 2, 3], np.int8)), axis=0)
    (found,) = run(static.gradients(y, s, c), {"s": scale, "c": G[0, :3]})
    np.testing.assert_allclose(found, G[0, :3] * [99, -9, 0], rtol=1e-6)


def test_convention_can_be_turned_off():
    x = variable("x", X)
    op = x.block.build
    scale, zero = op.constant(np.float32(0.5)), op.constant(np.int8(0))
    y = op.DequantizeLinear(op.QuantizeLinear(x, scale, zero), scale, zero)
    with onnxgrad.straight_through(False), pytest.raises(errors.UnsupportedGradient, match=r"QuantizeLinear.*straight-through"):
        static.gradients(y, x)
    assert static.gradients(y, x) is not None


def test_quantised_value_that_a_branch_reads_passes_the_gradient_on():
    x, c = variable("x", X), static.data("c", [4, 6], "float32")
    op = x.block.build
    scale, zero = op.constant(np.float32(0.5)), op.constant(np.int8(0))
    level = op.QuantizeLinear(x, scale, zero)
    bodies = []
    for factor in (2.0, 3.0):
        body = x.block.program.new_block(x.block, "branch")
        body.outputs = [body.build.Mul(body.build.DequantizeLinear(level, scale, zero), factor)]
        bodies.append(body)
    y = op.If(op.Greater(op.ReduceMax(x, keepdims=0), 0.0), then_branch=bodies[0], else_branch=bodies[1])
    (found,) = run(static.gradients(y, x, c), {"x": X, "c": G})
    np.testing.assert_allclose(found, 2 * G, rtol=1e-6)
