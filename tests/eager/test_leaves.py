"""Which tensors are leaves: all that no recorded gradient leads to, however they were made."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad.errors import InPlaceOnLeaf

ONES = np.ones(3, np.float32)

MADE = {
    "ones": lambda: paddle.ones([3]),
    "zeros": lambda: paddle.zeros([3]),
    "full": lambda: paddle.full([3], 2.0),
    "arange": lambda: paddle.arange(3, dtype="float32"),
    "linspace": lambda: paddle.linspace(0, 1, 3),
    "rand": lambda: paddle.rand([3]),
    "randn": lambda: paddle.randn([3]),
    "uniform": lambda: paddle.uniform([3]),
    "ones_like": lambda: paddle.ones_like(paddle.to_tensor(ONES)),
    "full_like": lambda: paddle.full_like(paddle.to_tensor(ONES), 2.0),
    "cast": lambda: paddle.cast(paddle.to_tensor(np.ones(3)), "float32"),
    "astype": lambda: paddle.to_tensor(np.ones(3)).astype("float32"),
    "astype of its own type": lambda: paddle.to_tensor(ONES).astype("float32"),
    "reshape": lambda: paddle.reshape(paddle.to_tensor(ONES), [3, 1]),
    "concat": lambda: paddle.concat([paddle.to_tensor(ONES), paddle.to_tensor(ONES)]),
    "assign": lambda: paddle.assign(paddle.to_tensor(ONES)),
    "an expression": lambda: paddle.to_tensor(ONES) * 2.0 + 1.0,
    "an element": lambda: paddle.to_tensor(np.ones((2, 3), np.float32))[0],
    "a part of several": lambda: paddle.split(paddle.to_tensor(np.ones(6, np.float32)), 2)[1],
    "clone": lambda: paddle.to_tensor(ONES).clone(),
    "diag": lambda: paddle.diag(paddle.to_tensor(ONES)),
    "meshgrid": lambda: paddle.meshgrid(paddle.to_tensor(ONES), paddle.to_tensor(ONES))[0],
    "to_tensor of a result": lambda: paddle.to_tensor(paddle.to_tensor(ONES) * 2.0),
}


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_a_tensor_made_of_constants_becomes_a_leaf(name, is_read):
    x = MADE[name]()
    value = x.numpy() if is_read else None
    assert x.is_leaf and x.stop_gradient
    x.stop_gradient = False
    assert x.is_leaf and not x.stop_gradient and x.grad is None
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy(), rtol=1e-6)
    if is_read:
        np.testing.assert_array_equal(x.numpy(), value)
    with pytest.raises(InPlaceOnLeaf):
        x.add_(paddle.ones_like(x))


def test_the_issue_of_a_cast_array():
    x = paddle.to_tensor(np.ones(3)).astype("float32")
    x.stop_gradient = False
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_result_without_gradients_is_a_leaf_of_its_own():
    for make in (lambda w: (w * 2.0).detach(), lambda w: w.detach() * 2.0, lambda w: paddle.no_grad()(lambda: w * 2.0)()):
        w = paddle.to_tensor(ONES, stop_gradient=False)
        y = make(w)
        y.stop_gradient = False
        (y * y).sum().backward()
        assert y.grad.tolist() == [4.0, 4.0, 4.0]
        assert w.grad is None


def test_a_result_that_gradients_lead_to_stays_one():
    w = paddle.to_tensor(ONES, stop_gradient=False)
    y = w * 2.0
    y.stop_gradient = False
    y.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0] and y.grad is None and not y.is_leaf


def test_gradients_flow_again_through_a_result_that_had_stopped_them():
    w = paddle.to_tensor(ONES, stop_gradient=False)
    y = w * 2.0
    y.stop_gradient = True
    y.stop_gradient = False
    y.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_what_was_computed_before_stays_cut_off():
    x = paddle.ones([3])
    before = x * 3.0
    x.stop_gradient = False
    (before * x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 3.0]


def test_hooks_and_names_are_those_of_the_leaf():
    x = paddle.ones([3]) * 2.0
    x.name = "weight"
    x.stop_gradient = False
    x.register_hook(lambda g: g * 10.0)
    (x * x).sum().backward()
    assert x.name == "weight" and x.grad.tolist() == [40.0, 40.0, 40.0]


def test_a_bfloat16_result_becomes_a_leaf():
    x = paddle.ones([3]).astype("bfloat16")
    x.stop_gradient = False
    wide = x.astype("float32")
    (wide * wide).sum().backward()
    assert x.grad.dtype == paddle.bfloat16 and x.grad.astype("float32").tolist() == [2.0, 2.0, 2.0]


def inner():
    """A leaf and a result of it"""
    x = paddle.to_tensor(ONES, stop_gradient=False)
    return x, x * 2.0


FILLED = {
    "fill_": (lambda y: y.fill_(3.0), [3, 3, 3]),
    "zero_": (lambda y: y.zero_(), [0, 0, 0]),
    "paddle.fill_": (lambda y: paddle.fill_(y, 3.0), [3, 3, 3]),
    "become a constant": (lambda y: y.become(paddle.full([3], 3.0)), [3, 3, 3]),
    "copy of a constant": (lambda y: y.__setitem__(slice(None), paddle.full([3], 3.0)), [3, 3, 3]),
}


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("name", FILLED)
def test_a_result_that_is_overwritten_stays_a_result_whose_gradient_is_zero(name, is_read):
    fill, expected = FILLED[name]
    x, y = inner()
    if is_read:
        y.numpy()
    fill(y)
    assert not y.is_leaf and not y.stop_gradient and y.tolist() == expected
    (y * y + x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1] and y.grad is None


def test_a_result_that_is_not_finite_is_overwritten():
    x = paddle.to_tensor(np.array([0.0, 1.0], np.float32), stop_gradient=False)
    y = paddle.log(x)
    y.fill_(2.0)
    y.sum().backward()
    assert y.tolist() == [2, 2] and x.grad.tolist()[1] == 0


def test_without_gradients_a_constant_is_filled():
    y = paddle.ones([3]) * 2.0
    assert y.fill_(4.0).tolist() == [4, 4, 4] and y.is_leaf and y.stop_gradient
    leaf = paddle.to_tensor(ONES, stop_gradient=False)
    with paddle.no_grad():
        leaf.fill_(5.0)
    (leaf * leaf).sum().backward()
    assert leaf.is_leaf and leaf.tolist() == [5, 5, 5] and leaf.grad.tolist() == [10, 10, 10]


class TestHooksAndRetainedGradients:
    """As in Paddle, retain_grads keeps what the gradient is then: after the hooks before it, before those that follow."""

    def through(self, arrange):
        x, y = inner()
        arrange(y)
        (y * 3.0).sum().backward()
        return y.grad.tolist()[0], x.grad.tolist()[0]

    def test_a_hook_after_it(self):
        def arrange(y):
            y.retain_grads()
            y.register_hook(lambda g: g * 10.0)

        assert self.through(arrange) == (3, 60)

    def test_a_hook_before_it(self):
        def arrange(y):
            y.register_hook(lambda g: g * 10.0)
            y.retain_grads()

        assert self.through(arrange) == (30, 60)

    def test_hooks_before_and_after_it(self):
        def arrange(y):
            y.register_hook(lambda g: g + 1.0)
            y.retain_grads()
            y.register_hook(lambda g: g * 10.0)
            y.retain_grads()

        assert self.through(arrange) == (4, 80)

    def test_a_removed_hook_does_not_count(self):
        def arrange(y):
            y.register_hook(lambda g: g * 100.0).remove()
            y.retain_grads()
            y.register_hook(lambda g: g * 10.0)

        assert self.through(arrange) == (3, 60)

    def test_gradients_asked_for_are_those_that_flow_on(self):
        x, y = inner()
        y.retain_grads()
        y.register_hook(lambda g: g * 10.0)
        (found,) = paddle.grad((y * 3.0).sum(), [y])
        assert found.tolist() == [30, 30, 30]
        assert x.grad is None
