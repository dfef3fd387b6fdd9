"""Names that Paddle keeps under incubate."""

import numpy as np

import onnxgrad as paddle
from onnxgrad import incubate, static
from tests.function_cases import Case, check_derivatives, check_values, real


def test_a_row_of_attention_sees_no_column_behind_its_own():
    mask = np.where(np.tri(4, dtype=bool), 0.0, -1e9)

    def by_hand(x, *_):
        weights = np.exp(x + mask)
        return weights / weights.sum(-1, keepdims=True)

    x = real(2, 1, 4, 4)
    mask = np.where(np.tri(4, dtype=bool), 0.0, -1e9)
    fused = Case("softmax_mask_fuse", incubate.softmax_mask_fuse, [x, np.broadcast_to(mask, x.shape)], by_hand, gradient=False)
    triangle = Case("softmax_mask_fuse_upper_triangle", incubate.softmax_mask_fuse_upper_triangle, [x], by_hand)
    for case in (fused, triangle):
        with static.program_guard(static.Program()):
            check_values(case, unknown=True)
    check_derivatives(triangle)


def test_directions_and_gradients_of_a_static_program():
    with static.program_guard(static.Program()):
        x, t = static.data("x", [3], "float64"), static.data("t", [3], "float64")
        x.stop_gradient = False
        y = paddle.sin(x) * x
        derivative = incubate.autograd.forward_grad(y, x, t)
        ones = incubate.autograd.forward_grad([y], [x])
        gradient = incubate.autograd.grad(y, x)
        feed = {"x": np.array([0.5, 1.0, 2.0]), "t": np.array([1.0, -2.0, 0.5])}
        found, alone, pulled = paddle.Executor().run(feed=feed, fetch_list=[derivative, ones[0], gradient])
    slope = np.cos(feed["x"]) * feed["x"] + np.sin(feed["x"])
    np.testing.assert_allclose(found, slope * feed["t"], rtol=1e-12)
    np.testing.assert_allclose(alone, slope, rtol=1e-12)
    np.testing.assert_allclose(pulled, slope, rtol=1e-12)
    incubate.autograd.enable_prim()
    incubate.autograd.disable_prim()


def test_lbfgs_is_that_of_optimizer():
    assert incubate.optimizer.LBFGS is paddle.optimizer.LBFGS
