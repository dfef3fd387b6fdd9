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


def statistics():
    program = static.default_main_program()
    return {name: v.get_value() for name, v in program.global_block().vars.items() if name in ("m", "v")}


def normalised(x):
    return static.nn.batch_norm(x, moving_mean_name="m", moving_variance_name="v", epsilon=0.1)


def weighted(y):
    """A loss whose gradient differs from element to element"""
    return paddle.mean(y * y * paddle.to_tensor(np.arange(24).reshape(8, 3).astype("float32") - 7.0))


def loss_and_gradient(make, **feeds):
    """Loss, gradient with respect to x, and statistics after two steps"""
    x = static.data("x", [8, 3])
    x.stop_gradient = False
    loss = weighted(make(x))
    (g,) = static.gradients([loss], [x])
    executor = static.Executor()
    executor.run(static.default_startup_program())
    for _ in range(2):
        found = executor.run(feed={"x": NOISE, **feeds}, fetch_list=[loss, g])
    return [*found, statistics()]


NOISE = np.random.RandomState(3).randn(8, 3).astype(np.float32)


class TestTrainingInBodies:
    @pytest.mark.parametrize("taken", [True, False])
    def test_batch_norm_in_a_branch_is_as_outside_where_the_branch_is_taken(self, taken):
        with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
            flag = static.data("flag", [1], "bool")
            found = loss_and_gradient(
                lambda x: static.nn.cond(flag, lambda: normalised(x), lambda: paddle.exp(x)), flag=np.array([taken])
            )
        with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
            plain = loss_and_gradient(lambda x: normalised(x) if taken else normalised(x) * 0.0 + paddle.exp(x))
        for a, b in zip(found[:2], plain[:2], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        untouched = {"m": np.zeros(3), "v": np.ones(3)}
        for name, value in (plain[2] if taken else untouched).items():
            np.testing.assert_allclose(found[2][name], value, rtol=1e-6)

    def test_gradient_of_a_branch_matches_finite_differences(self):
        x = static.data("x", [8, 3])
        x.stop_gradient = False
        flag = static.data("flag", [1], "bool")

        def inner():
            return static.nn.cond(paddle.mean(x) > 10.0, lambda: x, lambda: paddle.nn.functional.dropout(normalised(x), 0.5))

        loss = weighted(static.nn.cond(flag, inner, lambda: x))
        (g,) = static.gradients([loss], [x])
        program, executor = static.default_main_program(), static.Executor()
        executor.run(static.default_startup_program())

        def run_at(array, fetches):
            program.global_block().var("dropout_step").set_value(np.array(0))
            return executor.run(feed={"x": array, "flag": np.array([True])}, fetch_list=fetches)

        (gradient,) = run_at(NOISE, [g])
        for at in ((0, 0), (3, 1), (7, 2)):
            step = np.zeros_like(NOISE)
            step[at] = 1e-2
            (high,), (low,) = run_at(NOISE + step, [loss]), run_at(NOISE - step, [loss])
            assert abs((high - low) / 2e-2 - gradient[at]) < 2e-3 * (1 + abs(gradient[at]))
        assert not np.allclose(statistics()["m"], 0.0)

    def test_the_test_clone_holds_no_training_form(self):
        x = static.data("x", [8, 3])
        y = static.nn.cond(paddle.mean(x) > 10.0, lambda: x, lambda: paddle.nn.functional.dropout(normalised(x), 0.5))
        static.append_backward(paddle.mean(y))
        clone = static.default_main_program().clone(for_test=True)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        (found,) = executor.run(clone, feed={"x": NOISE}, fetch_list=[y.name])
        np.testing.assert_allclose(found, NOISE / np.sqrt(1.1), rtol=1e-5)
        assert not clone.updates and clone.num_blocks == 3

    def test_training_can_be_switched_off_and_on(self):
        x = static.data("x", [8, 3])
        y = static.nn.cond(paddle.mean(x) > 10.0, lambda: x, lambda: paddle.nn.functional.dropout(normalised(x), 0.5))
        program, executor = static.default_main_program(), static.Executor()
        executor.run(static.default_startup_program())
        (first,) = executor.run(feed={"x": NOISE}, fetch_list=[y])
        program.eval()
        assert not program.updates and program.num_blocks == 3
        (fixed,) = executor.run(feed={"x": NOISE}, fetch_list=[y])
        assert fixed.all() and not first.all()
        program.train()
        program.global_block().var("dropout_step").set_value(np.array(0))
        (again,) = executor.run(feed={"x": NOISE}, fetch_list=[y])
        np.testing.assert_array_equal(again, first)

    def test_statistics_go_through_the_rounds_of_a_loop(self):
        x = static.data("x", [8, 3])
        i = integer(0)
        i, y = static.nn.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, normalised(y) + 1.0], [i, x])
        (found,) = run([y], x=NOISE)
        mean, value, m, v = 0.0, NOISE.astype(np.float64), np.zeros(3), np.ones(3)
        for _ in range(3):
            mean, variance = value.mean(0), value.var(0)
            m, v = 0.9 * m + 0.1 * mean, 0.9 * v + 0.1 * variance
            value = (value - mean) / np.sqrt(variance + 0.1) + 1.0
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(statistics()["m"], m, rtol=1e-5)
        np.testing.assert_allclose(statistics()["v"], v, rtol=1e-5)

    def test_gradient_through_the_rounds_of_a_loop(self):
        def rounds(x):
            return static.nn.while_loop(lambda i, y: i < 2, lambda i, y: [i + 1, normalised(y) + x], [integer(0), x])[1]

        with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
            found = loss_and_gradient(rounds)
        with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
            plain = loss_and_gradient(lambda x: normalised(normalised(x) + x) + x)
        for a, b in zip(found[:2], plain[:2], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)

    def test_masks_of_a_loop_differ_from_round_to_round(self):
        x = static.data("x", [64, 32])
        make = lambda i, y: [i + 1, paddle.nn.functional.dropout(y, 0.5)]  # noqa: E731
        _, y = static.nn.while_loop(lambda i, y: i < 3, make, [integer(0), x])
        (found,) = run([y], x=np.ones((64, 32), np.float32))
        assert set(np.unique(found)) == {0.0, 8.0}
        assert abs((found > 0).mean() - 0.125) < 0.03

    def test_dropout_in_a_loop_in_a_loop_is_refused(self):
        def inner(i, y):
            make = lambda j, z: [j + 1, paddle.nn.functional.dropout(z)]  # noqa: E731
            return [i + 1, static.nn.while_loop(lambda j, z: j < 2, make, [integer(0), y])[1]]

        with pytest.raises(ValueError, match="loop inside a loop"):
            static.nn.while_loop(lambda i, y: i < 2, inner, [integer(0), static.data("x", [2, 3])])
