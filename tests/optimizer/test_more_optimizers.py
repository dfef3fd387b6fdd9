"""The optimizers that adapt their steps, parameter groups and saved state, against their formulas in numpy."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.optimizer import lr
from tests.optimizer.test_optimizers import FEED, START, agree, expected, train


def with_state(**start):
    """A decorator: the update function receives a dictionary that lives from step to step."""
    return lambda function: lambda p, g, t: function(start, p, g, t)


@with_state(m=0.0, u=0.0)
def adamax(s, p, g, t):
    s["m"] = 0.8 * s["m"] + 0.2 * g
    s["u"] = np.maximum(np.abs(g), 0.9 * s["u"] + 1e-3)
    return p - 0.1 / (1 - 0.8**t) * s["m"] / s["u"]


@with_state(m=0.0, v=0.0)
def lamb(s, p, g, t):
    s["m"], s["v"] = 0.8 * s["m"] + 0.2 * g, 0.9 * s["v"] + 0.1 * g * g
    r = s["m"] / (1 - 0.8**t) / (np.sqrt(s["v"] / (1 - 0.9**t)) + 1e-3) + 0.2 * p
    return p - 0.1 * np.linalg.norm(p) / np.linalg.norm(r) * r


@with_state(m=0.0, v=0.0, product=1.0)
def nadam(s, p, g, t):
    mu, later = (0.8 * (1 - 0.5 * 0.96 ** (0.05 * n)) for n in (t, t + 1))
    s["product"] *= mu
    s["m"], s["v"] = 0.8 * s["m"] + 0.2 * g, 0.9 * s["v"] + 0.1 * g * g
    ahead = later * s["m"] / (1 - s["product"] * later) + (1 - mu) * g / (1 - s["product"])
    return p - 0.1 * ahead / (np.sqrt(s["v"] / (1 - 0.9**t)) + 1e-3)


@with_state(m=0.0, v=0.0)
def radam(s, p, g, t):
    s["m"], s["v"] = 0.8 * s["m"] + 0.2 * g, 0.9 * s["v"] + 0.1 * g * g
    limit = 2 / 0.1 - 1
    rho = limit - 2 * t * 0.9**t / (1 - 0.9**t)
    step = s["m"] / (1 - 0.8**t)
    if rho > 5:
        r = np.sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho))
        step = step * r * np.sqrt(1 - 0.9**t) / (np.sqrt(s["v"]) + 1e-3)
    return p - 0.1 * step


@with_state(m=0.5)
def adagrad(s, p, g, t):
    s["m"] = s["m"] + g * g
    return p - 0.1 * g / (np.sqrt(s["m"]) + 1e-3)


@with_state(a=0.0, d=0.0)
def adadelta(s, p, g, t):
    s["a"] = 0.8 * s["a"] + 0.2 * g * g
    u = np.sqrt((s["d"] + 1e-3) / (s["a"] + 1e-3)) * g
    s["d"] = 0.8 * s["d"] + 0.2 * u * u
    return p - 0.1 * u


@with_state(s=0.0, w=0.0, v=0.0)
def rmsprop(s, p, g, t):
    s["s"], s["w"] = 0.8 * s["s"] + 0.2 * g * g, 0.8 * s["w"] + 0.2 * g
    s["v"] = 0.7 * s["v"] + 0.1 * g / np.sqrt(s["s"] - s["w"] ** 2 + 1e-3)
    return p - s["v"]


@with_state(previous=0.0, step=0.07)
def rprop(s, p, g, t):
    sign = g * s["previous"]
    s["step"] = np.clip(s["step"] * np.where(sign > 0, 1.2, np.where(sign < 0, 0.5, 1.0)), 0.04, 0.13)
    s["previous"] = np.where(sign < 0, 0.0, g)
    return p - np.sign(s["previous"]) * s["step"]


@with_state(d=0.0, seen={})
def asgd(s, p, g, t):
    slot = (t - 1) % 3
    s["d"] = s["d"] - s["seen"].get(slot, 0.0) + g
    s["seen"][slot] = g
    return p - 0.1 * s["d"] / min(t, 3)


@pytest.mark.parametrize(
    ("make", "update"),
    [
        (lambda: paddle.optimizer.Adamax(0.1, 0.8, 0.9, 1e-3), adamax),
        (lambda: paddle.optimizer.Lamb(0.1, 0.2, 0.8, 0.9, 1e-3), lamb),
        (lambda: paddle.optimizer.NAdam(0.1, 0.8, 0.9, 1e-3, 0.05), nadam),
        (lambda: paddle.optimizer.RAdam(0.1, 0.8, 0.9, 1e-3), radam),
        (lambda: paddle.optimizer.Adagrad(0.1, 1e-3, initial_accumulator_value=0.5), adagrad),
        (lambda: paddle.optimizer.Adadelta(0.1, 1e-3, 0.8), adadelta),
        (lambda: paddle.optimizer.RMSProp(0.1, 0.8, 1e-3, 0.7, True), rmsprop),
        (lambda: paddle.optimizer.Rprop(0.07, (0.04, 0.13)), rprop),
        (lambda: paddle.optimizer.ASGD(0.1, batch_num=3), asgd),
    ],
    ids=["Adamax", "Lamb", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSProp", "Rprop", "ASGD"],
)
def test_formula(make, update):
    agree(train(make(), steps=9), expected(update, steps=9))


def test_lamb_without_decay_takes_adams_step():
    excluded = paddle.optimizer.Lamb(0.1, 0.2, exclude_from_weight_decay_fn=lambda p: p.name == "p")
    found = train(excluded, steps=1)
    g = FEED * START
    agree(found, [START - 0.1 * g / (np.abs(g) + 1e-6)])


def test_groups_have_their_own_rate_decay_and_clipping():
    x = static.data("x", [2, 2])
    start = paddle.nn.initializer.Assign(START)
    a, b, c = (static.create_parameter([2, 2], "float32", name=n, default_initializer=start) for n in "abc")
    loss = paddle.sum(x * a) + paddle.sum(x * b) + paddle.sum(x * c)
    groups = [
        {"params": [a], "learning_rate": 0.5, "weight_decay": 0.1},
        {"params": ["b"], "grad_clip": paddle.nn.ClipGradByNorm(0.7)},
    ]
    paddle.optimizer.SGD(0.1, parameters=[*groups, c], weight_decay=0.2, grad_clip=paddle.nn.ClipGradByValue(0.4)).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    found = executor.run(feed={"x": FEED}, fetch_list=[a, b, c])
    clipped = np.clip(FEED, -0.4, 0.4)
    wanted = [
        START - 0.05 * (clipped + 0.1 * START),
        START - 0.1 * (FEED * 0.7 / np.linalg.norm(FEED) + 0.2 * START),
        START - 0.1 * (clipped + 0.2 * START),
    ]
    agree(found, wanted)


def test_unknown_key_of_a_group_is_refused():
    with pytest.raises(ValueError, match="momentum"):
        paddle.optimizer.SGD(0.1, parameters=[{"params": [], "momentum": 0.9}])


def test_state_can_be_saved_and_set():
    schedule = lr.StepDecay(0.1, 2)
    optimizer = paddle.optimizer.Adam(schedule)
    train(optimizer, steps=2)
    schedule.step()
    saved = optimizer.state_dict()
    assert sorted(saved) == ["LR_Scheduler", "p_beta1_pow_acc_0", "p_beta2_pow_acc_0", "p_moment1_0", "p_moment2_0"]
    schedule.step()
    static.global_scope().var("p_moment1_0").get_tensor().set(np.zeros((2, 2), np.float32))
    optimizer.set_state_dict(saved)
    assert schedule.last_epoch == 1
    np.testing.assert_array_equal(optimizer.state_dict()["p_moment1_0"], saved["p_moment1_0"])


def test_lr_ratio_is_a_factor_of_adamw():
    half = train(paddle.optimizer.AdamW(0.1, lr_ratio=lambda p: 0.5))
    paddle.state.current = paddle.state.State()
    agree(half, train(paddle.optimizer.AdamW(0.05)))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: paddle.optimizer.Rprop(0.1, (0.2, 0.3)), ValueError),
        (lambda: paddle.optimizer.RMSProp(0.1, rho=None), ValueError),
        (lambda: paddle.optimizer.ASGD(0.1, batch_num=0), ValueError),
        (lambda: paddle.optimizer.SGD(0.1, weight_decay="0.1"), TypeError),
        (lambda: paddle.optimizer.SGD(0.1, parameters="p"), TypeError),
        (lambda: paddle.optimizer.AdamW(0.1, weight_decay="0.1"), TypeError),
        (lambda: paddle.optimizer.SGD(0.1).set_lr_scheduler(0.1), TypeError),
    ],
)
def test_impossible_arguments(make, kind):
    with pytest.raises(kind):
        make()
