"""Optimizers against their formulas in numpy."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer import lr

START = np.array([[0.5, -1.0], [2.0, 0.1]], np.float32)
FEED = np.array([[1.0, -2.0], [0.3, 0.7]], np.float32)
STEPS = 4


def train(optimizer, attr=None, steps=STEPS, before=None):
    """Values of a parameter p after each step on loss = sum(x * p * p) / 2, whose gradient is x * p."""
    x = static.data("x", [2, 2])
    chosen = attr or paddle.ParamAttr()
    chosen.initializer = paddle.nn.initializer.Assign(START)
    p = static.create_parameter([2, 2], "float32", name="p", attr=chosen)
    loss = paddle.sum(x * p * p) * 0.5
    optimizer.minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    values = []
    for step in range(steps):
        if before is not None:
            before(step)
        values.append(executor.run(feed={"x": FEED}, fetch_list=[p])[0])
    return values


def expected(update, steps=STEPS):
    p, values = START.astype(np.float64), []
    for t in range(1, steps + 1):
        p = update(p, FEED * p, t)
        values.append(p)
    return values


def agree(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_sgd():
    agree(train(paddle.optimizer.SGD(0.1)), expected(lambda p, g, t: p - 0.1 * g))


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum(nesterov):
    velocity = [np.zeros((2, 2))]

    def update(p, g, t):
        velocity[0] = 0.8 * velocity[0] + g
        return p - 0.1 * (g + 0.8 * velocity[0] if nesterov else velocity[0])

    agree(train(paddle.optimizer.Momentum(0.1, 0.8, use_nesterov=nesterov)), expected(update))


def adam(decay=0.0, rate=0.1, b1=0.9, b2=0.99, epsilon=1e-3):
    state = {"m": 0.0, "v": 0.0}

    def update(p, g, t):
        state["m"] = b1 * state["m"] + (1 - b1) * g
        state["v"] = b2 * state["v"] + (1 - b2) * g * g
        root = np.sqrt(1 - b2**t)
        return p * (1 - rate * decay) - rate * root / (1 - b1**t) * state["m"] / (np.sqrt(state["v"]) + epsilon * root)

    return update


def test_adam():
    agree(train(paddle.optimizer.Adam(0.1, 0.9, 0.99, 1e-3)), expected(adam()))


def test_adamw():
    agree(train(paddle.optimizer.AdamW(0.1, 0.9, 0.99, 1e-3, weight_decay=0.2)), expected(adam(0.2)))


def test_adamw_asks_whether_a_parameter_decays():
    optimizer = paddle.optimizer.AdamW(0.1, 0.9, 0.99, 1e-3, weight_decay=0.2, apply_decay_param_fun=lambda name: name != "p")
    agree(train(optimizer), expected(adam(0.0)))


def test_accumulators_have_paddles_names():
    train(paddle.optimizer.Adam(0.1))
    kinds = ("moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc")
    assert {f"p_{kind}_0" for kind in kinds} | {"learning_rate_0"} <= set(static.global_scope().local_var_names())


@pytest.mark.parametrize(
    ("decay", "term"),
    [
        (0.3, lambda p: 0.3 * p),
        (paddle.regularizer.L2Decay(0.3), lambda p: 0.3 * p),
        (paddle.regularizer.L1Decay(0.3), lambda p: 0.3 * np.sign(p)),
    ],
)
def test_decay_is_added_to_the_gradient(decay, term):
    agree(train(paddle.optimizer.SGD(0.1, weight_decay=decay)), expected(lambda p, g, t: p - 0.1 * (g + term(p))))


def test_own_regularizer_replaces_the_optimizers():
    attr = paddle.ParamAttr(regularizer=paddle.regularizer.L1Decay(0.3))
    found = train(paddle.optimizer.SGD(0.1, weight_decay=5.0), attr)
    agree(found, expected(lambda p, g, t: p - 0.1 * (g + 0.3 * np.sign(p))))


def test_learning_rate_of_a_parameter_is_a_factor():
    agree(train(paddle.optimizer.SGD(0.1), paddle.ParamAttr(learning_rate=0.5)), expected(lambda p, g, t: p - 0.05 * g))


class TestClipping:
    def test_by_value(self):
        found = train(paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByValue(0.6)))
        agree(found, expected(lambda p, g, t: p - 0.1 * np.clip(g, -0.6, 0.6)))

    @pytest.mark.parametrize("clip", [paddle.nn.ClipGradByNorm, paddle.nn.ClipGradByGlobalNorm])
    def test_by_norm(self, clip):
        found = train(paddle.optimizer.SGD(0.1, grad_clip=clip(0.7)))
        agree(found, expected(lambda p, g, t: p - 0.1 * g * 0.7 / max(np.linalg.norm(g), 0.7)))

    def test_comes_before_decay(self):
        found = train(paddle.optimizer.SGD(0.1, weight_decay=0.3, grad_clip=paddle.nn.ClipGradByValue(0.6)))
        agree(found, expected(lambda p, g, t: p - 0.1 * (np.clip(g, -0.6, 0.6) + 0.3 * p)))

    def test_global_norm_covers_all_and_leaves_out_those_that_ask(self):
        x = static.data("x", [3])
        names = ("a", "b", "c")
        ones = paddle.nn.initializer.Constant(1.0)
        parameters = [
            static.create_parameter([3], "float32", name=n, attr=paddle.ParamAttr(initializer=ones, need_clip=n != "c"))
            for n in names
        ]
        loss = paddle.sum(x * parameters[0] + x * parameters[1] * 2.0 + x * parameters[2])
        paddle.optimizer.SGD(1.0, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)).minimize(loss)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        found = executor.run(feed={"x": np.ones(3, np.float32)}, fetch_list=list(names))
        factor = 1 / np.sqrt(3 + 12)
        for value, step in zip(found, (factor, 2 * factor, 1.0), strict=True):
            np.testing.assert_allclose(value, np.full(3, 1 - step), rtol=1e-5)

    def test_value_must_be_positive(self):
        with pytest.raises(ValueError, match="max > 0"):
            paddle.nn.ClipGradByValue(-1.0)


class TestLearningRate:
    def test_scheduler_is_followed_without_a_new_session(self, monkeypatch):
        import onnxruntime

        schedule = lr.StepDecay(0.1, step_size=2, gamma=0.1)
        opened = []
        real = onnxruntime.InferenceSession
        monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *a, **k: opened.append(1) or real(*a, **k))
        found = train(paddle.optimizer.SGD(schedule), before=lambda step: step and schedule.step())
        rates = [0.1, 0.1, 0.01, 0.01]
        agree(found, expected(lambda p, g, t: p - rates[t - 1] * g))
        assert len(opened) == 2  # startup and main

    def test_can_be_set(self):
        optimizer = paddle.optimizer.SGD(0.1)
        found = train(optimizer, before=lambda step: optimizer.set_lr(0.1 / (step + 1)))
        agree(found, expected(lambda p, g, t: p - 0.1 / t * g))
        assert optimizer.get_lr() == 0.1 / STEPS

    def test_schedules(self):
        assert [lr.NoamDecay(4, 2)() for _ in range(1)] == [0.0]
        warm = lr.LinearWarmup(0.5, 4, 0.0, 0.4)
        values = []
        for _ in range(6):
            values.append(warm())
            warm.step()
        np.testing.assert_allclose(values, [0.0, 0.1, 0.2, 0.3, 0.5, 0.5])
        cosine = lr.CosineAnnealingDecay(1.0, 4)
        cosine.step(2)
        assert cosine() == pytest.approx(0.5)
        pieces = lr.PiecewiseDecay([1, 3], [0.3, 0.2, 0.1])
        assert [pieces.step(epoch) or pieces() for epoch in (0, 1, 2, 3)] == [0.3, 0.2, 0.2, 0.1]
        exponential = lr.ExponentialDecay(1.0, 0.5)
        exponential.step()
        assert exponential() == 0.5


class TestArguments:
    def test_loss_must_have_one_element(self):
        x = static.data("x", [None, 2])
        y = static.nn.fc(x, 2)
        with pytest.raises(AssertionError, match="one element"):
            paddle.optimizer.SGD(0.1).minimize(y)
        with pytest.raises(ValueError, match=r"fc_0\.tmp_1"):
            paddle.optimizer.SGD(0.1).minimize(y)

    def test_loss_must_be_a_variable(self):
        with pytest.raises(AssertionError):
            paddle.optimizer.SGD(0.1).minimize(1.0)

    @pytest.mark.parametrize(
        ("arguments", "kind"),
        [({"learning_rate": None}, ValueError), ({"learning_rate": "0.1"}, TypeError), ({"grad_clip": 1.0}, TypeError)],
    )
    def test_impossible_arguments(self, arguments, kind):
        with pytest.raises(kind):
            paddle.optimizer.SGD(**arguments)

    def test_betas(self):
        with pytest.raises(ValueError, match="beta2"):
            paddle.optimizer.Adam(beta2=1.0)

    def test_nothing_to_update(self):
        x = static.data("x", [2])
        with pytest.raises(ValueError, match="nothing to update"):
            paddle.optimizer.SGD(0.1).minimize(paddle.sum(x * 2.0))


def test_second_optimizer_continues_where_the_first_left_a_parameter():
    x = static.data("x", [2, 2])
    attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(START))
    p = static.create_parameter([2, 2], "float32", name="p", attr=attr)
    first, second = paddle.sum(x * p * p) * 0.5, paddle.sum(x * p)
    paddle.optimizer.Momentum(0.1, 0.5).minimize(first)
    paddle.optimizer.Momentum(0.2, 0.5, weight_decay=0.3).minimize(second)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    value, v, w = START.astype(np.float64), 0.0, 0.0
    for _ in range(3):
        (found,) = executor.run(feed={"x": FEED}, fetch_list=[p])
        v = 0.5 * v + FEED * value
        value = value - 0.1 * v
        w = 0.5 * w + FEED + 0.3 * value
        value = value - 0.2 * w
        np.testing.assert_allclose(found, value, rtol=2e-5, atol=1e-6)
    assert {"p_velocity_0", "p_velocity_1", "learning_rate_0", "learning_rate_1"} <= set(static.global_scope().local_var_names())


def test_pairs_keep_program_order():
    x = static.data("x", [2, 3])
    _, pairs = paddle.optimizer.SGD(0.1).minimize(paddle.mean(static.nn.fc(x, 2)))
    assert [p.name for p, _ in pairs] == ["fc_0.w_0", "fc_0.b_0"]


def test_clone_for_test_drops_backward_and_update():
    x = static.data("x", [2, 3])
    loss = paddle.mean(static.nn.fc(x, 2))
    forward = [op.type for op in loss.block.ops]
    paddle.optimizer.Adam(0.1).minimize(loss)
    program = loss.block.program
    assert [op.type for op in program.clone(for_test=True).global_block().ops] == forward
    assert len(program.clone().global_block().ops) == len(program.global_block().ops)


def test_exported_training_step_trains_by_itself():
    import onnx
    import onnxruntime

    x = static.data("x", ["N", 2])
    loss = paddle.mean(paddle.square(static.nn.fc(x, 1) - 1.0))
    paddle.optimizer.Adam(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    model, manifest = paddle.to_training_step(loss.block.program, [loss])
    onnx.checker.check_model(model, full_check=True)
    assert [feed["name"] for feed in manifest["feeds"]] == ["x"]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feed = {"x": np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)}
    names = [output.name for output in session.get_outputs()]
    state = {}
    for _ in range(5):
        results = dict(zip(names, session.run(None, {**feed, **state}), strict=True))
        state = {entry["input"]: results[entry["output"]] for entry in manifest["state"]}
        (ours,) = executor.run(feed=feed, fetch_list=[loss])
        np.testing.assert_allclose(results[manifest["fetches"][0]["name"]], ours, rtol=1e-5)


def test_a_program_starts_with_the_state_that_was_set_before_minimize():
    def run(state=None, steps=1):
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup), paddle.utils.unique_name.guard(), static.scope_guard(static.Scope()):
            x = static.data("x", [2])
            w = paddle.create_parameter([2], "float32", attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(1.0)))
            optimizer = paddle.optimizer.Adam(0.1)
            if state is not None:
                optimizer.set_state_dict(state)
            optimizer.minimize(paddle.sum(w * x))
            executor = static.Executor()
            executor.run(startup)
            for _ in range(steps):
                executor.run(main, feed={"x": np.array([1.0, -2.0], np.float32)}, fetch_list=[])
            return optimizer.state_dict()

    once, twice = run(), run(steps=2)
    resumed = run({name: np.array(value) for name, value in once.items()})
    assert resumed.keys() == twice.keys() and len(twice) == 4
    for name, value in twice.items():
        np.testing.assert_array_equal(resumed[name], value, err_msg=name)


def test_only_parameters_are_updated():
    x = static.data("x", [2])
    x.stop_gradient = False
    with pytest.raises(ArgumentError, match="x is not a parameter"):
        paddle.optimizer.SGD(0.1).minimize(paddle.sum(x * x), parameters=[x])
