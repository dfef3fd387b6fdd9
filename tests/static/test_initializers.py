"""Initial values: their distributions, their order of precedence, WeightNormParamAttr."""

import math

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static

init = paddle.nn.initializer


def value(initializer, *shape, dtype="float32"):
    paddle.seed(11)
    p = static.create_parameter(shape, dtype, default_initializer=initializer)
    static.Executor().run(static.default_startup_program())
    return p.get_value()


def test_truncated_normal_has_the_moments_of_its_distribution():
    found = value(init.TruncatedNormal(1.0, 0.5), 400, 500)
    assert found.min() >= 0.0 and found.max() <= 2.0
    density = math.exp(-2.0) / math.sqrt(2 * math.pi)
    share = math.erf(2 / math.sqrt(2))
    assert abs(found.mean() - 1.0) < 0.005
    assert abs(found.std() - 0.5 * math.sqrt(1 - 4 * density / share)) < 0.005
    # The distribution function at one standard deviation.
    assert abs(np.mean(np.abs(found - 1.0) < 0.5) - math.erf(1 / math.sqrt(2)) / share) < 0.005


@pytest.mark.parametrize(
    ("initializer", "std"),
    [
        (init.XavierNormal(), math.sqrt(2 / 900)),
        (init.XavierNormal(100, 100, gain=2.0), 2 * math.sqrt(2 / 200)),
        (init.XavierUniform(), math.sqrt(2 / 900)),
        (init.KaimingNormal(), math.sqrt(2 / 400)),
        (init.KaimingUniform(negative_slope=0.5, nonlinearity="leaky_relu"), math.sqrt(2 / 1.25 / 400)),
        (init.Normal(0.0, 0.3), 0.3),
        (init.Uniform(-1.0, 1.0), math.sqrt(1 / 3)),
    ],
)
def test_spread(initializer, std):
    found = value(initializer, 400, 500)
    assert abs(found.mean()) < 0.02 * std
    assert abs(found.std() - std) < 0.01 * std


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (4, 3, 2)])
def test_orthogonal(shape):
    matrix = value(init.Orthogonal(gain=2.0), *shape).reshape(shape[0], -1)
    small = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_dirac_passes_channels_on():
    w = value(init.Dirac(groups=2), 4, 3, 5)
    wanted = np.zeros((4, 3, 5))
    wanted[[0, 1, 2, 3], [0, 1, 0, 1], 2] = 1
    np.testing.assert_array_equal(w, wanted)


def test_bilinear_enlarges_a_constant_to_a_constant():
    w = value(init.Bilinear(), 1, 1, 4, 4)
    np.testing.assert_allclose(w[0, 0, 0], np.array([0.25, 0.75, 0.75, 0.25]) * 0.25)


def test_assign_and_constant_in_other_types():
    np.testing.assert_array_equal(value(init.Assign([[1, 2]]), 1, 2, dtype="float64"), [[1.0, 2.0]])
    assert value(init.Constant(0.5), 2, dtype="float16").dtype == np.float16


def test_global_initializer_yields_to_a_param_attr():
    x = static.data("x", [None, 3])
    init.set_global_initializer(init.Constant(2.0), init.Constant(3.0))
    static.nn.fc(x, 2)
    static.nn.fc(x, 2, weight_attr=init.Constant(5.0))
    init.set_global_initializer(None)
    static.nn.fc(x, 2, bias_attr=paddle.ParamAttr())
    static.Executor().run(static.default_startup_program())
    values = [p.get_value().reshape(-1)[0] for p in static.default_main_program().all_parameters()]
    assert [*values[:4], values[5]] == [2.0, 3.0, 5.0, 3.0, 0.0]


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_weight_norm_starts_as_its_direction_and_trains_length_and_direction(dim):
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(2, 3)).astype(np.float32)
    attr = static.WeightNormParamAttr(dim, "line", init.Assign(w))
    y = static.nn.fc(static.data("x", [None, 3]), 4, weight_attr=attr, bias_attr=False)
    pairs = static.append_backward(paddle.sum(y * y))
    executor = static.Executor()
    executor.run(static.default_startup_program())
    found, *grads = executor.run(feed={"x": x}, fetch_list=[y, *(g for _, g in pairs)])
    np.testing.assert_allclose(found, x @ w, rtol=1e-5)
    assert [p.name for p, _ in pairs] == ["line_v", "line_g"]
    axes = tuple(i for i in range(2) if dim is None or i != dim)
    gw = 2 * x.T @ (x @ w)
    length = np.sqrt((w * w).sum(axes, keepdims=True))
    along = (gw * w).sum(axes, keepdims=True) / length
    np.testing.assert_allclose(grads[1], along, rtol=1e-4)
    np.testing.assert_allclose(grads[0], gw - along * w / length, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: init.calculate_gain("wave"), ValueError),
        (lambda: init.set_global_initializer(0.1), TypeError),
        (lambda: init.Dirac(0), ValueError),
        (lambda: value(init.Orthogonal(), 3), ValueError),
        (lambda: value(init.Bilinear(), 3, 3), ValueError),
        (lambda: value(init.Assign([1.0]), 3), ValueError),
    ],
)
def test_wrong_arguments(make, kind):
    with pytest.raises(kind):
        make()
