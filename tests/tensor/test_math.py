"""Element-wise functions, reductions, running ones, statistics and comparisons against numpy and finite differences."""

import math

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import ArgumentError, ArgumentTypeError, NotAVariable
from tests.function_cases import Case, check_derivatives, check_values, positive, real

V = np.vectorize
X, Y = real(3, 4), real(4)
P = positive(3, 4)
UNIT = real(3, 4, low=-0.9, high=0.9)
NANS = np.array([[1.0, np.nan, 3.0, 2.0], [np.nan, np.nan, 5.0, 4.5], [0.5, 1.5, -1.0, 2.5]])
INTS, OTHERS = np.array([[7, -7, 12], [0, 9, -4]]), np.array([3, -2, 5])
BITS, MORE = np.array([[5, 12, 9]]), np.array([3, 10, 6])
TRUE = np.array([[True, False, True], [False, False, True]])


def digamma(x):
    h = 1e-5
    return (math.lgamma(x + h) - math.lgamma(x - h)) / (2 * h)


def running(combine):
    return lambda x: combine.accumulate(x, axis=1)


def last_index(x, reduce):
    best = reduce.accumulate(x, axis=1)
    index = np.where(x == best, np.arange(x.shape[1]), -1)
    return best, np.maximum.accumulate(index, axis=1)


UNARY = [
    ("exp", np.exp, X), ("log", np.log, P), ("log2", np.log2, P), ("log10", np.log10, P), ("log1p", np.log1p, P),
    ("expm1", np.expm1, X), ("sqrt", np.sqrt, P), ("rsqrt", lambda x: 1 / np.sqrt(x), P), ("square", np.square, X),
    ("reciprocal", lambda x: 1 / x, P), ("abs", np.abs, X), ("neg", np.negative, X), ("negative", np.negative, X),
    ("positive", np.positive, X), ("sin", np.sin, X), ("cos", np.cos, X), ("tan", np.tan, UNIT), ("asin", np.arcsin, UNIT),
    ("acos", np.arccos, UNIT), ("atan", np.arctan, X), ("sinh", np.sinh, X), ("cosh", np.cosh, X), ("tanh", np.tanh, X),
    ("asinh", np.arcsinh, X), ("acosh", np.arccosh, P + 1), ("atanh", np.arctanh, UNIT),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), X), ("erf", V(math.erf), X), ("sinc", np.sinc, X),
    ("stanh", lambda x: 1.7159 * np.tanh(0.67 * x), X), ("logit", lambda x: np.log(x / (1 - x)), P / 3),
    ("frac", lambda x: x - np.trunc(x), X), ("rad2deg", np.rad2deg, X), ("deg2rad", np.deg2rad, X),
    ("lgamma", V(math.lgamma), X * 2.3), ("gammaln", V(math.lgamma), P * 8), ("digamma", V(digamma), X * 2.3),
]  # fmt: skip
STEPS = [
    ("floor", np.floor, X), ("ceil", np.ceil, X), ("round", np.round, np.array([-0.5, 0.5, 1.5, 2.4, -2.6])), ("trunc", np.trunc, X),
    ("sign", np.sign, X), ("angle", np.angle, X), ("real", np.real, X), ("conj", np.conj, X), ("sgn", np.sign, X), ("signbit", np.signbit, np.array([-0.0, 0.0, -2.0, 3.0])), ("isnan", np.isnan, NANS),
    ("isfinite", np.isfinite, NANS), ("isinf", np.isinf, np.array([1.0, np.inf, -np.inf])),
    ("isposinf", np.isposinf, np.array([1.0, np.inf, -np.inf])), ("isneginf", np.isneginf, np.array([1.0, np.inf, -np.inf])),
    ("logical_not", np.logical_not, TRUE), ("bitwise_not", np.invert, BITS), ("isreal", np.isreal, X), ("trunc", np.trunc, INTS),
    ("isnan", np.isnan, INTS), ("isfinite", np.isfinite, INTS), ("nan_to_num", np.nan_to_num, np.array([np.nan, 2.0])),
    ("all", np.all, TRUE), ("any", np.any, TRUE), ("count_nonzero", np.count_nonzero, INTS), ("sum", np.sum, INTS),
    ("prod", np.prod, INTS), ("max", np.max, INTS), ("exp", np.exp, np.array([1, 2], np.int32)),
    ("numel", np.size, X), ("is_empty", lambda x: np.array(x.size == 0), X), ("square", np.square, INTS),
]  # fmt: skip
BINARY = [
    ("add", np.add, X, Y), ("subtract", np.subtract, X, Y), ("multiply", np.multiply, X, Y), ("divide", np.divide, X, positive(4)),
    ("pow", np.power, P, Y), ("maximum", np.maximum, X, Y + 0.01), ("minimum", np.minimum, X, Y + 0.01),
    ("fmax", np.fmax, X, Y + 0.01), ("fmin", np.fmin, X, Y + 0.01), ("atan2", np.arctan2, X, real(3, 4)), ("hypot", np.hypot, X, Y),
    ("logaddexp", np.logaddexp, X, Y), ("remainder", np.mod, X, positive(4, low=0.7)), ("mod", np.mod, X, -positive(4, low=0.7)),
    ("copysign", np.copysign, X, Y), ("ldexp", lambda x, y: x * 2.0**y, X, Y),
]  # fmt: skip
INTEGER = [
    ("floor_divide", np.floor_divide, INTS, OTHERS), ("remainder", np.mod, INTS, OTHERS), ("divide", np.divide, INTS, OTHERS),
    ("floor_divide", np.floor_divide, X, Y), ("gcd", np.gcd, INTS, OTHERS), ("lcm", np.lcm, INTS, OTHERS),
    ("bitwise_and", np.bitwise_and, BITS, MORE), ("bitwise_or", np.bitwise_or, BITS, MORE), ("bitwise_xor", np.bitwise_xor, BITS, MORE),
    ("bitwise_and", np.bitwise_and, TRUE, TRUE[::-1]), ("bitwise_left_shift", np.left_shift, BITS, np.array([1, 2, 3])),
    ("bitwise_right_shift", np.right_shift, INTS, np.array([1, 2, 3])), ("equal", np.equal, X, X[1]), ("not_equal", np.not_equal, X, X[1]),
    ("less_than", np.less, X, Y), ("less_equal", np.less_equal, X, X[1]), ("greater_than", np.greater, INTS, OTHERS),
    ("greater_equal", np.greater_equal, X, X[1]), ("logical_and", np.logical_and, TRUE, TRUE[::-1]),
    ("logical_or", np.logical_or, TRUE, TRUE[::-1]), ("logical_xor", np.logical_xor, INTS, TRUE),
    ("equal_all", np.array_equal, X, X), ("isclose", np.isclose, X, X + 1e-9), ("allclose", np.allclose, X, X + 1.0),
    ("isin", np.isin, INTS, OTHERS), ("heaviside", np.heaviside, np.array([-1.0, 0.0, 2.0]), np.array([0.3, 0.4, 0.5])),
    ("fmax", np.fmax, NANS, np.full(4, 2.2)), ("fmin", np.fmin, np.full(4, 2.2), NANS), ("maximum", np.maximum, INTS, OTHERS),
]  # fmt: skip
AXES = [
    ("sum", np.sum, X), ("mean", np.mean, X), ("max", np.max, X), ("min", np.min, X), ("amax", np.max, X), ("amin", np.min, X),
    ("prod", np.prod, X), ("logsumexp", lambda x, **k: np.log(np.exp(x).sum(**k)), X),
    ("var", lambda x, **k: np.var(x, ddof=1, **k), X), ("std", lambda x, **k: np.std(x, ddof=1, **k), X),
]  # fmt: skip

DIFFERENTIABLE = [Case(name, getattr(paddle, name), [x], formula) for name, formula, x in UNARY]
DIFFERENTIABLE += [Case(name, getattr(paddle, name), [x, y], formula) for name, formula, x, y in BINARY]
for _name, _formula, _x in AXES:
    _function = getattr(paddle, _name)
    DIFFERENTIABLE += [
        Case(_name, _function, [_x], _formula),
        Case(f"{_name}-1", lambda x, f=_function: f(x, axis=1), [_x], lambda x, f=_formula: f(x, axis=1)),
        Case(
            f"{_name}-keep", lambda x, f=_function: f(x, axis=[0, -1], keepdim=True), [_x],
            lambda x, f=_formula: f(x, axis=(0, 1), keepdims=True),
        ),
    ]  # fmt: skip
DIFFERENTIABLE += [
    Case("erfinv", lambda x: paddle.erf(paddle.erfinv(x)), [UNIT], lambda x: x),
    Case("erfinv-slope", paddle.erfinv, [UNIT], lambda x: paddle_erfinv(x)),
    Case("polygamma", lambda x: paddle.polygamma(x, 1), [P], V(lambda x: (digamma(x + 1e-4) - digamma(x - 1e-4)) / 2e-4), exact=2e-3),
    Case("multigammaln", lambda x: paddle.multigammaln(x, 2), [P + 2], V(lambda x: math.lgamma(x) + math.lgamma(x - 0.5) + 0.5 * math.log(math.pi))),
    Case("logit-eps", lambda x: paddle.logit(x, 0.2), [P / 3], lambda x: np.log(np.clip(x, 0.2, 0.8) / (1 - np.clip(x, 0.2, 0.8)))),
    Case("scale", lambda x: paddle.scale(x, 2.0, 0.5), [X], lambda x: 2 * x + 0.5),
    Case("scale-first", lambda x: paddle.scale(x, 2.0, 0.5, bias_after_scale=False, act="tanh"), [X], lambda x: np.tanh(2 * (x + 0.5))),
    Case("clip", lambda x: paddle.clip(x, -0.55, 0.85), [X], lambda x: np.clip(x, -0.55, 0.85)),
    Case("clip-variables", lambda x, low: paddle.clip(x, min=low), [X, np.array([-0.55])], lambda x, low: np.maximum(x, low)),
    Case("lerp", lambda x, y: paddle.lerp(x, y, 0.3), [X, Y], lambda x, y: x + 0.3 * (y - x)),
    Case("add_n", lambda x, y: paddle.add_n([x, y, x]), [X, real(3, 4)], lambda x, y: 2 * x + y),
    Case("round-decimals", lambda x: x + paddle.round(x, 1), [X], lambda x: x + np.round(x, 1)),
    Case("multiplex", lambda x, y, i: paddle.multiplex([x, y], i), [X, X + 1, np.array([[1], [0], [1]], np.int32)],
         lambda x, y, i: np.stack([y[0], x[1], y[2]]), unknown=False),
    Case("nansum", lambda x: paddle.nansum(x, axis=1), [NANS], lambda x: np.nansum(x, axis=1), gradient=False),
    Case("nanmean", lambda x: paddle.nanmean(x, axis=0), [NANS], lambda x: np.nanmean(x, axis=0), gradient=False),
    Case("reduce_as", paddle.reduce_as, [real(5, 3, 4), real(3, 1)], lambda x, y: x.sum((0, 2)).reshape(3, 1), unknown=False),
    Case("cumsum", lambda x: paddle.cumsum(x, 1), [X], lambda x: np.cumsum(x, 1)),
    Case("cumsum-flat", paddle.cumsum, [X], lambda x: np.cumsum(x)),
    Case("cumprod", lambda x: paddle.cumprod(x, 1), [real(3, 5)], lambda x: np.cumprod(x, 1), unknown=False),
    Case("logcumsumexp", lambda x: paddle.logcumsumexp(x, 1), [real(3, 5)], running(np.logaddexp), unknown=False),
    Case("cummax", lambda x: paddle.cummax(x, 1), [real(3, 5)], lambda x: last_index(x, np.maximum), unknown=False),
    Case("cummin", lambda x: paddle.cummin(x, 1), [real(3, 5)], lambda x: last_index(x, np.minimum), unknown=False),
    Case("diff", lambda x: paddle.diff(x, 2), [X], lambda x: np.diff(x, 2)),
    Case("diff-joined", lambda x, y: paddle.diff(x, axis=0, prepend=y), [X, real(1, 4)], lambda x, y: np.diff(x, axis=0, prepend=y)),
    Case("var-biased", lambda x: paddle.var(x, 0, unbiased=False), [X], lambda x: np.var(x, 0)),
    Case("median", paddle.median, [X], np.median, unknown=False),
    Case("median-axis", lambda x: paddle.median(x, 1, keepdim=True), [real(3, 5)], lambda x: np.median(x, 1, keepdims=True), unknown=False),
    Case("median-min", lambda x: paddle.median(x, 1, mode="min"), [X],
         lambda x: (np.sort(x, 1)[:, 1], np.argsort(x, 1)[:, 1]), unknown=False),
    Case("nanmedian", lambda x: paddle.nanmedian(x, 1), [NANS], lambda x: np.nanmedian(x, 1), unknown=False, gradient=False),
    Case("median-nan", lambda x: paddle.median(x, 1), [NANS], lambda x: np.median(x, 1), unknown=False, gradient=False),
    Case("quantile", lambda x: paddle.quantile(x, [0.3, 0.9], 1), [real(3, 5)], lambda x: np.quantile(x, [0.3, 0.9], 1), unknown=False),
    Case("quantile-axes", lambda x: paddle.quantile(x, 0.4, [0, 2], True), [real(2, 3, 2)],
         lambda x: np.quantile(x, 0.4, axis=(0, 2), keepdims=True), unknown=False),
    Case("nanquantile", lambda x: paddle.nanquantile(x, 0.3, 1), [NANS], lambda x: np.nanquantile(x, 0.3, 1), unknown=False, gradient=False),
    Case("trapezoid", lambda y, x: paddle.trapezoid(y, x), [X, np.array([0.0, 1.0, 1.5, 3.0])], lambda y, x: np.trapezoid(y, x), unknown=False),
    Case("trapezoid-dx", lambda y: paddle.trapezoid(y, dx=0.5, axis=0), [X], lambda y: np.trapezoid(y, dx=0.5, axis=0)),
    Case("cumulative_trapezoid", lambda y: paddle.cumulative_trapezoid(y), [X], lambda y: np.cumsum((y[:, 1:] + y[:, :-1]) / 2, 1)),
]  # fmt: skip
for _kind in ("lower", "higher", "midpoint", "nearest"):
    DIFFERENTIABLE.append(
        Case(f"quantile-{_kind}", lambda x, k=_kind: paddle.quantile(x, 0.3, 1, interpolation=k), [real(3, 5)],
             lambda x, k=_kind: np.quantile(x, 0.3, 1, method=k), unknown=False)
    )  # fmt: skip

PLAIN = [Case(name, getattr(paddle, name), [x], formula, gradient=False) for name, formula, x in STEPS]
PLAIN += [Case(name, getattr(paddle, name), [x, y], formula, gradient=False) for name, formula, x, y in INTEGER]
PLAIN += [
    Case("all-axis", lambda x: paddle.all(x, axis=0), [TRUE], lambda x: x.all(0)),
    Case("any-axis", lambda x: paddle.any(x, axis=1, keepdim=True), [TRUE], lambda x: x.any(1, keepdims=True)),
    Case("count_nonzero-axis", lambda x: paddle.count_nonzero(x, axis=0), [INTS], lambda x: np.count_nonzero(x, axis=0)),
    Case("sum-dtype", lambda x: paddle.sum(x, dtype="float64"), [X], np.sum),
    Case("increment", lambda x: paddle.increment(x, 3), [np.array([4])], lambda x: x + 3),
    Case("histogram", lambda x: paddle.histogram(x, 4, -2, 2), [X], lambda x: np.histogram(x, 4, (-2, 2))[0]),
    Case("histogram-own", lambda x: paddle.histogram(x, 5), [X], lambda x: np.histogram(x, 5)[0]),
    Case("histogram-density", lambda x: paddle.histogram(x, 4, -2, 2, density=True), [X], lambda x: np.histogram(x, 4, (-2, 2), density=True)[0]),
    Case("bincount", lambda x: paddle.bincount(x, minlength=8), [np.array([1, 3, 1, 5])], lambda x: np.bincount(x, minlength=8)),
    Case("bincount-weights", paddle.bincount, [np.array([1, 3, 1]), np.array([0.5, 1.0, 2.0])], lambda x, w: np.bincount(x, w)),
    Case("rank", paddle.rank, [X], np.array(2, np.int32)),
    Case("shape", paddle.shape, [X], np.array([3, 4])),
]  # fmt: skip


def paddle_erfinv(x):
    """By bisection."""
    low, high = np.full(x.shape, -6.0), np.full(x.shape, 6.0)
    for _ in range(80):
        middle = (low + high) / 2
        below = V(math.erf)(middle) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


@pytest.mark.parametrize("case", DIFFERENTIABLE + PLAIN, ids=repr)
def test_values(case):
    check_values(case)


@pytest.mark.parametrize("case", [c for c in DIFFERENTIABLE + PLAIN if c.unknown], ids=repr)
def test_values_with_unknown_dimensions(case):
    check_values(case, unknown=True)


@pytest.mark.parametrize("case", [c for c in DIFFERENTIABLE if c.gradient], ids=repr)
def test_gradients(case):
    check_derivatives(case)


def values(found, **feeds):
    return paddle.Executor().run(feed=feeds, fetch_list=[found])[0]


def test_the_mean_of_integers_is_one_rounded_towards_zero():
    paddle.enable_static()
    x = static.data("x", [None, 3], "int32")
    fetched = [paddle.mean(x), paddle.mean(x, axis=1), paddle.mean(x, axis=0, keepdim=True), paddle.mean(x, dtype="float64")]
    assert [v.dtype.name for v in fetched] == ["int32", "int32", "int32", "float64"]
    values = static.Executor().run(feed={"x": np.array([[1, 2, 4], [-3, -5, 7]], "int32")}, fetch_list=fetched)
    assert [v.tolist() for v in values] == [1, [2, 0], [[-1, -1, 5]], 1.0]


def test_a_number_takes_the_type_of_the_tensor_and_a_float_makes_integers_float():
    x = static.data("x", [2], "int64")
    assert paddle.add(x, 1).dtype == "int64"
    assert paddle.add(x, 0.5).dtype == "float32"
    assert paddle.multiply(x, static.data("y", [2], "float64")).dtype == "float64"


@pytest.mark.parametrize("function", [np.log1p, np.expm1])
def test_functions_for_small_numbers_keep_their_precision(function):
    x = np.array([1e-7, -3e-6, 1e-4, 0.5, 3.0, 1e6 if function is np.log1p else 20.0], np.float32)
    found = values(getattr(paddle, function.__name__)(static.data("x", [6])), x=x)
    np.testing.assert_allclose(found, function(x.astype(np.float64)), rtol=1e-6)


def test_erfinv_is_infinite_at_the_ends_and_undefined_beyond():
    found = values(paddle.erfinv(static.data("x", [3])), x=np.array([1, -1, 2], np.float32))
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan])


def test_atan2_knows_all_quadrants_and_axes():
    angles = np.array([(a, b) for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)], np.float32)
    found = values(paddle.atan2(static.data("x", [9]), static.data("y", [9])), x=angles[:, 0], y=angles[:, 1])
    np.testing.assert_allclose(found, np.arctan2(angles[:, 0], angles[:, 1]), atol=1e-6)


def test_errors_name_the_function():
    x = static.data("x", [2, 3])
    with pytest.raises(ArgumentError, match="mean: axis 2"):
        paddle.mean(x, axis=2)
    with pytest.raises(NotAVariable, match="exp"):
        paddle.exp(3.0)
    with pytest.raises(ArgumentTypeError, match="add"):
        paddle.add(1, 2)
    with pytest.raises(ArgumentError, match="known size"):
        paddle.cumprod(static.data("n", [None]), 0)
