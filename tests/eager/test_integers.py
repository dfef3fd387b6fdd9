"""Gradients of integers and Booleans: those of the same function in float64, in the tensor's own type."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad.errors import UnsupportedGradient

X = np.array([[3, 1, 4], [1, 5, 9]])
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]

FUNCTIONS = {
    "add": lambda x: x + x + 2,
    "sub": lambda x: 7 - x,
    "mul": lambda x: x * x * 3,
    "pow": lambda x: x**3,
    "pow of two": lambda x: paddle.pow(x, x - 2),
    "matmul": lambda x: paddle.matmul(x, x.T),
    "sum": lambda x: (x * x).sum(axis=1),
    "prod": lambda x: paddle.prod(x, axis=0),
    "max": lambda x: paddle.max(x, axis=1),
    "cumsum": lambda x: paddle.cumsum(x * x, axis=1),
    "clip": lambda x: paddle.clip(x, 2, 5),
    "sort": lambda x: paddle.sort(x, axis=0) * x,
    "topk": lambda x: paddle.topk(x, 2)[0],
    "index": lambda x: x[1, 1:] * 2,
    "gather": lambda x: paddle.gather(x, paddle.to_tensor([1, 1])),
    "concat and split": lambda x: paddle.split(paddle.concat([x, x * 2], 1), 3, 1)[1],
    "where": lambda x: paddle.where(x > 3, x * x, x),
    "pad": lambda x: paddle.nn.functional.pad(x, [1, 0, 0, 1], value=2) * 3,
    "abs": lambda x: paddle.abs(x - 4),
    "einsum": lambda x: paddle.einsum("ij,kj->ik", x, x),
    "flip and roll": lambda x: paddle.roll(paddle.flip(x, [0]), 1) * x,
    "expand": lambda x: paddle.expand(x[:1], [4, 3]) * 2,
    "widened": lambda x: x.astype("int64") * x.astype("int64"),
    "assigned in place": lambda x: _assigned(x),
}


def _assigned(x):
    y = x * 2
    y[0, 1] = 10
    return y * x


def gradient(function, value, dtype):
    x = paddle.to_tensor(value).astype(dtype)
    x.stop_gradient = False
    result = function(x)
    assert not result.stop_gradient
    result.backward()
    assert x.grad.dtype == x.dtype
    return x.grad.numpy()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers_have_the_gradients_of_float64(name, dtype):
    expected = np.trunc(gradient(FUNCTIONS[name], X, "float64"))
    assert np.abs(expected).max() > 0
    np.testing.assert_array_equal(gradient(FUNCTIONS[name], X, dtype), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_each_integer_type_has_its_own_and_wraps(dtype):
    given = paddle.to_tensor(np.array([1, 2], dtype))
    given.stop_gradient = False
    (found,) = paddle.grad((given * 100) * 5, given)
    np.testing.assert_array_equal(found.numpy(), np.full(2, 500).astype(dtype))


def test_booleans_have_booleans():
    x = paddle.to_tensor([True, False])
    x.stop_gradient = False
    y = x * 123
    assert y.dtype == paddle.int64
    (found,) = paddle.grad(y, x)
    assert found.dtype == paddle.bool
    np.testing.assert_array_equal(found.numpy(), [True, True])
    (x * 0).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [False, False])
    (x * paddle.to_tensor([0, 3])).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [False, True])
    x.clear_grad()
    np.testing.assert_array_equal(x.grad.numpy(), [False, False])


def test_roundings_of_the_true_gradient_are_towards_zero():
    x, y = paddle.to_tensor([1, 3, 6]), paddle.to_tensor([1, 1, 1])
    x.stop_gradient = y.stop_gradient = False
    (x**y).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1, 1])
    np.testing.assert_array_equal(y.grad.numpy(), (np.log([1, 3, 6]) * [1, 3, 6]).astype(np.int64))


def test_what_a_user_casts_carries_gradients_with_the_values_it_was_rounded_to():
    x = paddle.to_tensor([2.5, -3.7, 0.4], stop_gradient=False)
    whole = x.astype("int32")
    whole.retain_grads()
    (whole.astype("float32") ** 2 * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [4 + 2 * 2 * 2.5, 9 + 2 * -3 * -3.7, 0.0], rtol=1e-6)
    np.testing.assert_array_equal(whole.grad.numpy(), [10, 22, 0])
    x.clear_gradient(False)
    (paddle.cast(x, "bool").astype("float32") * 5).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5, 5, 5])


def test_casts_inside_functions_do_not():
    x = paddle.to_tensor([2.5, -3.75], stop_gradient=False)
    paddle.frac(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1])


def test_integers_and_floats_meet():
    weight = paddle.to_tensor(np.arange(12.0).reshape(4, 3), stop_gradient=False)
    rows = paddle.to_tensor([1, 3])
    rows.stop_gradient = False
    (paddle.gather(weight, rows) * rows.astype("float64").unsqueeze(1)).sum().backward()
    np.testing.assert_array_equal(rows.grad.numpy(), weight.numpy()[[1, 3]].sum(1).astype(int))
    np.testing.assert_array_equal(weight.grad.numpy(), [[0] * 3, [1] * 3, [0] * 3, [3] * 3])


def test_gradients_add_up_and_hooks_see_them():
    x = paddle.to_tensor([1, 2])
    x.stop_gradient = False
    seen = []
    y = x * 3
    y.register_hook(lambda g: seen.append(g.dtype) or g * 2)
    y.backward()
    (x * 5).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [11, 11])
    assert seen == [paddle.int64]


@pytest.mark.parametrize("function", [lambda x: x // 2, lambda x: x == 3, lambda x: paddle.argmax(x), lambda x: x & 1])
def test_quotients_comparisons_and_bits_stop_them(function):
    x = paddle.to_tensor([3, 4])
    x.stop_gradient = False
    assert function(x).stop_gradient


def test_counts_of_booleans_stop_them():
    x = paddle.to_tensor([True, False])
    x.stop_gradient = False
    assert paddle.all(x).stop_gradient and paddle.any(x).stop_gradient and paddle.count_nonzero(x).stop_gradient
    assert not (x + 1).stop_gradient and not x.astype("int32").stop_gradient


def test_integers_that_stop_gradients_record_none():
    x = paddle.to_tensor([3, 4])
    assert (x * x).stop_gradient
    assert (x * x + x).is_leaf


def test_second_derivatives():
    w = paddle.to_tensor([2.0, 3.0], stop_gradient=False)
    x = paddle.to_tensor([3, 4])
    x.stop_gradient = False
    y = w * x.astype("float32")
    (slope,) = paddle.grad(y * y, w, create_graph=True)
    slope.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [18, 32])
    np.testing.assert_array_equal(x.grad.numpy(), [24, 48])


def test_second_derivatives_through_values_that_were_rounded_are_refused():
    x = paddle.to_tensor([2.5, -3.7], stop_gradient=False)
    whole = x.astype("int32")
    (slope,) = paddle.grad((whole * whole).astype("float32"), x, create_graph=True)
    np.testing.assert_array_equal(slope.numpy(), [4, -6])
    with pytest.raises(UnsupportedGradient, match="second derivatives go through a tensor of integers"):
        slope.sum().backward()


def test_a_py_layer_may_return_integers():
    class Whole(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x, dtype):
            return paddle.cast(x, dtype)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    for dtype in ["bool", "uint8", "int32", "float64"]:
        x = paddle.to_tensor([1.5, 2.5], stop_gradient=False)
        (Whole.apply(x, dtype).astype("float32") * 3).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), [1, 1] if dtype == "bool" else [3, 3])


def test_a_py_layer_may_return_no_gradient():
    class Silent(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return None

    x = paddle.to_tensor([1.5], stop_gradient=False)
    Silent.apply(x).backward()
    assert x.grad is None
