"""Gradients where a function has none, or several: docs/use/conventions.md, checked on onnxruntime in float32."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad
from onnxgrad import static
from onnxgrad.testing import Sample, gradient_model

INF = np.inf


def gradients_and_cotangent(sample, op_type=""):
    sample.op_type = op_type
    model, feeds = gradient_model(sample, "float32")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {v.name: feeds[v.name] for v in session.get_inputs()}), feeds["c0"]


def check(op_type, x, slopes, *others, **attrs):
    """The first gradient is the cotangent, repeated to its shape, times ``slopes``"""
    (g, *_), c = gradients_and_cotangent(Sample(np.array(x, float), *others, **attrs), op_type)
    np.testing.assert_allclose(g, np.broadcast_to(c, g.shape) * np.array(slopes), rtol=1e-5, atol=1e-6)


class TestTies:
    @pytest.mark.parametrize("op_type", ["Max", "Min"])
    def test_operands_share_equally(self, op_type):
        (gx, gy), c = gradients_and_cotangent(Sample(np.array([2.0, 1.0]), np.array([2.0, 1.0])), op_type)
        np.testing.assert_allclose(gx, c / 2)
        np.testing.assert_allclose(gy, c / 2)

    @pytest.mark.parametrize(("op_type", "sign"), [("ReduceMax", 1), ("ReduceMin", -1)])
    def test_reduced_elements_share_equally(self, op_type, sign):
        check(op_type, np.array([[3.0, 3.0, 1.0]]) * sign, [[0.5, 0.5, 0.0]], np.array([1]))

    def test_global_maxima_share_equally(self):
        check("GlobalMaxPool", [[[3.0, 3.0, 1.0]]], [[[0.5, 0.5, 0.0]]])

    def test_the_first_maximum_of_a_window_takes_all(self):
        check("MaxPool", [[[1.0, 3.0, 3.0]]], [[[0.0, 1.0, 0.0]]], kernel_shape=[3])

    def test_the_first_of_the_largest_takes_all(self):
        check("TopK", [1.0, 3.0, 3.0], [0.0, 1.0, 0.0], np.array([1]), outputs=2, only=[0])


@pytest.mark.parametrize("op_type", ["Relu", "Abs", "Sqrt", "Log"])
def test_slope_at_zero_is_zero(op_type):
    check(op_type, [0.0], [0.0])


def test_bounds_of_clip_belong_to_the_inside():
    check("Clip", [-1.0, 2.0, 3.0], [1.0, 1.0, 0.0], Sample.fixed(-1.0), Sample.fixed(2.0))


@pytest.mark.parametrize(
    ("op_type", "shape", "attrs"),
    [
        ("ReduceL2", (3,), {}),
        ("LpNormalization", (3,), {"p": 1}),
        ("LpNormalization", (3,), {"p": 2}),
        ("LpPool", (1, 1, 4), {"kernel_shape": [2]}),
        ("LpPool", (1, 1, 4), {"kernel_shape": [2], "p": 3}),
        ("GlobalLpPool", (1, 1, 4), {}),
    ],
)
def test_norms_of_zeros_have_slope_zero(op_type, shape, attrs):
    (g,), _ = gradients_and_cotangent(Sample(np.zeros(shape), **attrs), op_type)
    np.testing.assert_array_equal(g, np.zeros(shape))


class TestPowersOfZero:
    EXPONENTS = np.array([0.0, 0.5, 1.0, 2.0])
    SLOPES = np.array([0.0, 0.0, 1.0, 0.0])

    def test_of_many_exponents(self):
        (gx, gy), c = gradients_and_cotangent(Sample(np.zeros(4), self.EXPONENTS), "Pow")
        np.testing.assert_array_equal(gx, c * self.SLOPES)
        np.testing.assert_array_equal(gy, np.zeros(4))

    @pytest.mark.parametrize(("exponent", "slope"), list(zip(EXPONENTS.tolist(), SLOPES.tolist(), strict=True)))
    def test_of_a_constant_exponent(self, exponent, slope):
        check("Pow", [0.0], [slope], Sample.fixed(exponent))


class TestLogarithmOfZero:
    def test_what_a_mask_keeps_out_gets_zero(self):
        sample = Sample(np.array([0.0, 2.0]), build=lambda op, x: op.Where(op.Greater(x, 0.0), op.Log(x), 0.0))
        (g,), c = gradients_and_cotangent(sample)
        np.testing.assert_allclose(g, c * [0.0, 0.5])

    def test_of_a_sum(self):
        def build(op, x):
            y = op.ReduceLogSum(x, [1])
            return op.Where(op.Equal(y, -INF), 0.0, y)

        (g,), c = gradients_and_cotangent(Sample(np.array([[0.0, 0.0], [1.0, 3.0]]), build=build))
        np.testing.assert_allclose(g, c * [[0.0, 0.0], [0.25, 0.25]], rtol=1e-6)


class TestMaskedLines:
    LINES = np.array([[-INF, -INF], [0.0, -INF]])

    def test_log_of_sum_of_exponentials(self):
        check("ReduceLogSumExp", self.LINES, [[0.0, 0.0], [1.0, 0.0]], np.array([1]))

    def test_softmax(self):
        (g,), _ = gradients_and_cotangent(Sample(self.LINES), "Softmax")
        np.testing.assert_array_equal(g, np.zeros((2, 2)))

    def test_softmax_whose_nan_is_replaced(self):
        def build(op, x, weight):
            p = op.Softmax(op.Mul(weight, x))
            return op.Where(op.IsNaN(p), 0.0, p)

        (g,), _ = gradients_and_cotangent(Sample(Sample.fixed(self.LINES), np.array([1.0]), build=build))
        assert np.isnan(g).all()  # 0 * -inf: the mask itself is scaled

        def masked(op, x, weight):
            p = op.Softmax(op.Add(op.Mul(weight, [[1.0, 2.0], [3.0, 1.0]]), x))
            return op.Where(op.IsNaN(p), 0.0, p)

        (g,), _ = gradients_and_cotangent(Sample(Sample.fixed(self.LINES), np.array([1.0]), build=masked))
        np.testing.assert_array_equal(g, [0.0])

    @pytest.mark.parametrize("mask", [[[0.0, -INF], [0.0, 0.0]], [[0.0, -INF], [-INF, -INF]], [-INF, 1.0], [[-INF], [0.0]]])
    def test_a_constant_mask_is_looked_at(self, mask):
        """Zeros are only put for NaN where one may stand."""

        def build(op, x):
            return op.Softmax(op.Add(op.Tanh(x), mask))

        sample = Sample(np.array([[1.0, 2.0], [3.0, 1.0]]), build=build)
        (g,), _ = gradients_and_cotangent(sample)
        whole = np.isinf(np.broadcast_to(mask, (2, 2))).all(-1)
        assert np.isfinite(g).all() and not g[whole].any()
        model, _ = gradient_model(sample, "float32")
        assert any(node.op_type == "IsNaN" for node in model.graph.node) == whole.any()

    def test_logarithm_of_softmax(self):
        def build(op, x):
            y = op.LogSoftmax(x)
            return op.Where(op.Greater(y, -100.0), y, 0.0)

        (g,), c = gradients_and_cotangent(Sample(np.array([[-INF, -INF], [1.0, 1.0]]), build=build))
        np.testing.assert_allclose(g, [[0.0, 0.0], c[1] - c[1].mean()], atol=1e-6)


class TestLargeNumbers:
    @pytest.mark.parametrize("op_type", ["Softplus", "Mish", "Gelu", "Elu", "Relu", "HardSwish"])
    def test_slopes_are_zero_on_the_left_and_one_on_the_right(self, op_type):
        check(op_type, [-1e4, 1e4], [0.0, 1.0], opset=21)

    def test_tanh_approximation_of_gelu(self):
        check("Gelu", [-1e4, 1e4], [0.0, 1.0], approximate="tanh")

    def test_swish(self):
        check("Swish", [-1e4, 1e4], [0.0, 1.0], opset=24)

    @pytest.mark.parametrize("op_type", ["Sigmoid", "Tanh", "Erf", "Softsign", "HardSigmoid"])
    def test_slopes_vanish_on_both_sides(self, op_type):
        check(op_type, [-1e4, 1e4], [0.0, 0.0])

    def test_softmax_of_large_scores(self):
        check("Softmax", [[1e4, -1e4, 0.0]], [[0.0, 0.0, 0.0]])

    def test_logarithm_of_softmax_of_large_scores(self):
        (g,), c = gradients_and_cotangent(Sample(np.array([[1e4, -1e4, 0.0]])), "LogSoftmax")
        np.testing.assert_allclose(g, c - c.sum() * np.array([[1.0, 0.0, 0.0]]), rtol=1e-5)

    def test_log_of_sum_of_exponentials_of_large_scores(self):
        check("ReduceLogSumExp", [1e4, 0.0, -1e4], [1.0, 0.0, 0.0])


SCATTERED = {
    "elements": ("ScatterElements", np.array([0, 0, 1])),
    "slices": ("ScatterND", np.array([[0], [0], [1]])),
}


@pytest.mark.parametrize("kind", SCATTERED)
@pytest.mark.parametrize("reduction", ["min", "max"])
def test_ties_of_a_scattered_extreme_share_equally(kind, reduction):
    op_type, indices = SCATTERED[kind]
    x, updates = static.data("x", [2], "float32"), static.data("u", [3], "float32")
    x.stop_gradient = updates.stop_gradient = False
    z = x.block.build.emit(op_type, (x, indices, updates), {"reduction": reduction})
    found = static.gradients(z, [x, updates])
    feed = {"x": np.full(2, 2.0, np.float32), "u": np.full(3, 2.0, np.float32)}
    gx, gupdates = onnxgrad.Executor().run(feed=feed, fetch_list=found)
    np.testing.assert_allclose(gx, [1 / 3, 1 / 2])
    np.testing.assert_allclose(gupdates, [1 / 3, 1 / 3, 1 / 2])
