"""cond, case, switch_case and while_loop: values, gradients, errors."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]], np.float32)


def run(fetches, **feed):
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return executor.run(feed=feed, fetch_list=fetches)


def integer(value):
    return paddle.full([1], value, "int64")


class TestCond:
    @pytest.mark.parametrize("sign", [1, -1])
    def test_takes_one_branch_and_its_gradient(self, sign):
        x = static.data("x", [2, 3])
        x.stop_gradient = False
        y = static.nn.cond(paddle.mean(x) > 0.0, lambda: x * 2.0, lambda: paddle.exp(x))
        (g,) = static.gradients([y], [x])
        found, grad = run([y, g], x=sign * X)
        np.testing.assert_allclose(found, 2 * X if sign > 0 else np.exp(-X), rtol=1e-6)
        np.testing.assert_allclose(grad, np.full_like(X, 2) if sign > 0 else np.exp(-X), rtol=1e-6)

    def test_nested_structures_and_numbers(self):
        x = static.data("x", [2, 3])
        flag = paddle.mean(x) > 0.0
        found = static.nn.cond(flag, lambda: {"a": [x, 1.5], "b": None}, lambda: {"a": [x + 1.0, x[0, 0]], "b": None})
        assert sorted(found) == ["a", "b"] and found["b"] is None
        a, b = run(found["a"], x=X)
        np.testing.assert_allclose(a, X)
        assert b == 1.5

    def test_parameters_made_in_a_branch_are_trained(self):
        x = static.data("x", [2, 3])
        y = static.nn.cond(paddle.mean(x) > 0.0, lambda: static.nn.fc(x, 2), lambda: static.nn.fc(x, 2))
        pairs = static.append_backward(paddle.mean(y))
        assert [p.name for p, _ in pairs] == ["fc_0.w_0", "fc_0.b_0", "fc_1.w_0", "fc_1.b_0"]
        grads = run([g for _, g in pairs], x=X)
        np.testing.assert_allclose(grads[1], [0.5, 0.5])
        assert not grads[2].any() and not grads[3].any()

    def test_nothing_returned_is_none(self):
        x = static.data("x", [2, 3])
        assert static.nn.cond(paddle.mean(x) > 0.0, lambda: None) is None
        assert static.default_main_program().num_blocks == 1

    def test_training_dropout_inside_is_refused(self):
        x = static.data("x", [2, 3])
        with pytest.raises(ValueError, match="branch"):
            static.nn.cond(paddle.mean(x) > 0.0, lambda: paddle.nn.functional.dropout(x), lambda: x)

    @pytest.mark.parametrize(
        ("make", "kind"),
        [
            (lambda x: static.nn.cond(True, lambda: x, lambda: x), TypeError),
            (lambda x: static.nn.cond(x > 0.0, lambda: x, lambda: x), TypeError),
            (lambda x: static.nn.cond(paddle.mean(x) > 0.0, x, lambda: x), TypeError),
            (lambda x: static.nn.cond(paddle.mean(x) > 0.0, lambda: x, lambda: [x, x]), ValueError),
            (lambda x: static.nn.cond(paddle.mean(x) > 0.0, lambda: x), ValueError),
            (lambda x: static.nn.cond(paddle.mean(x) > 0.0, lambda: x, lambda: x > 0.0), ValueError),
        ],
    )
    def test_wrong_arguments(self, make, kind):
        with pytest.raises(kind):
            make(static.data("x", [2, 3]))


class TestSwitch:
    @pytest.mark.parametrize(("value", "factor"), [(1, 10.0), (3, 30.0), (7, 30.0), (-1, 30.0)])
    def test_without_default_the_largest_number_is_taken(self, value, factor):
        x = static.data("x", [2, 3])
        y = static.nn.switch_case(integer(value), [(3, lambda: x * 30.0), (1, lambda: x * 10.0)])
        np.testing.assert_allclose(run([y], x=X)[0], X * factor, rtol=1e-6)

    @pytest.mark.parametrize(("value", "factor"), [(0, 1.0), (1, 2.0), (2, 5.0)])
    def test_list_of_functions_and_default(self, value, factor):
        x = static.data("x", [2, 3])
        y = static.nn.switch_case(integer(value), [lambda: x * 1.0, lambda: x * 2.0], default=lambda: x * 5.0)
        np.testing.assert_allclose(run([y], x=X)[0], X * factor, rtol=1e-6)

    @pytest.mark.parametrize(("limit", "factor"), [(-9.0, 1.0), (0.9, 2.0), (9.0, 3.0)])
    def test_case_takes_the_first_that_holds(self, limit, factor):
        x = static.data("x", [2, 3])
        mean = paddle.mean(x)
        pairs = [(mean > limit, lambda: x * 1.0), (mean > limit - 1.0, lambda: x * 2.0)]
        y = static.nn.case(pairs, default=lambda: x * 3.0)
        np.testing.assert_allclose(run([y], x=X)[0], X * factor, rtol=1e-6)

    def test_case_without_default_ends_with_the_last(self):
        x = static.data("x", [2, 3])
        mean = paddle.mean(x)
        y = static.nn.case([(mean > 9.0, lambda: x), (mean > 8.0, lambda: x * 2.0)])
        np.testing.assert_allclose(run([y], x=X)[0], X * 2, rtol=1e-6)

    @pytest.mark.parametrize(
        ("make", "kind"),
        [
            (lambda x: static.nn.switch_case(x, [lambda: x]), TypeError),
            (lambda x: static.nn.switch_case(integer(0), "ab"), TypeError),
            (lambda x: static.nn.switch_case(integer(0), [(0, lambda: x), (0, lambda: x)]), ValueError),
            (lambda x: static.nn.case([]), ValueError),
            (lambda x: static.nn.case([paddle.mean(x) > 0.0]), TypeError),
        ],
    )
    def test_wrong_arguments(self, make, kind):
        with pytest.raises(kind):
            make(static.data("x", [2, 3]))


class TestWhile:
    @pytest.mark.parametrize("steps", [0, 1, 4])
    def test_values_and_gradients(self, steps):
        x = static.data("x", [2, 3])
        x.stop_gradient = False
        _, y = static.nn.while_loop(lambda i, y: i < steps, lambda i, y: (i + 1, y * x), [integer(0), x])
        (g,) = static.gradients([y], [x])
        found, grad = run([y, g], x=X)
        np.testing.assert_allclose(found, X ** (steps + 1), rtol=1e-5)
        np.testing.assert_allclose(grad, (steps + 1) * X**steps, rtol=1e-5)

    def test_growing_variable(self):
        x = static.data("x", [2, 3])
        body = lambda i, y: [i + 1, paddle.concat([y, x])]  # noqa: E731
        _, y = static.nn.while_loop(lambda i, y: i < 2, body, [integer(0), x])
        assert y.shape == (-1, 3)
        np.testing.assert_allclose(run([y], x=X)[0], np.concatenate([X] * 3))

    def test_nested_structure_and_one_variable(self):
        x = static.data("x", [2, 3])
        (y,) = static.nn.while_loop(lambda y: paddle.max(y) < 100.0, lambda y: y * 3.0, [x])
        _, pair = static.nn.while_loop(lambda i, p: i < 3, lambda i, p: [i + 1, [p[1], p[0]]], [integer(0), [x, y]])
        found = run([y, pair[0], pair[1]], x=X)
        np.testing.assert_allclose(found[0], X * 81, rtol=1e-5)
        np.testing.assert_allclose(found[1], found[0])
        np.testing.assert_allclose(found[2], X)

    def test_loop_in_a_branch(self):
        x = static.data("x", [2, 3])
        loop = lambda: static.nn.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y + x], [integer(0), x])[1]  # noqa: E731
        y = static.nn.cond(paddle.mean(x) > 0.0, loop, lambda: x)
        np.testing.assert_allclose(run([y], x=X)[0], 4 * X, rtol=1e-6)

    @pytest.mark.parametrize(
        ("make", "kind"),
        [
            (lambda x: static.nn.while_loop(lambda: True, lambda: None, []), ValueError),
            (lambda x: static.nn.while_loop(x, lambda x: x, [x]), TypeError),
            (lambda x: static.nn.while_loop(lambda x: x, lambda x: x, x), TypeError),
            (lambda x: static.nn.while_loop(lambda x: x, lambda x: x, [x]), TypeError),
            (lambda x: static.nn.while_loop(lambda x: True, lambda x: x, [x]), TypeError),
            (lambda x: static.nn.while_loop(lambda x: paddle.max(x) < 1.0, lambda x: [x, x], [x]), ValueError),
            (lambda x: static.nn.while_loop(lambda x: paddle.max(x) < 1.0, lambda x: x > 0.0, [x]), ValueError),
        ],
    )
    def test_wrong_arguments(self, make, kind):
        with pytest.raises(kind):
            make(static.data("x", [2, 3]))
