"""Moving averages of parameters against their sums in float64."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static


def averages(decay, steps, dtype="float32", thres=False):
    """The value that takes the place of a parameter that moves by -2^-13, which is exact, in each step, and its values after each."""
    x = static.data("x", [2])
    p = static.create_parameter([2], dtype, name="p", attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(1.0)))
    paddle.optimizer.SGD(2.0**-13).minimize(paddle.sum(x * paddle.cast(p, "float32")))
    count = None
    if thres:
        count = static.create_global_var([1], 0, "float32", persistable=True, name="count")
        static.default_main_program().updates[count] = count + 1.0
    ema = static.ExponentialMovingAverage(decay, thres_steps=count)
    ema.update()
    executor = static.Executor()
    executor.run(static.default_startup_program())
    for _ in range(steps):
        executor.run(feed={"x": np.ones(2, np.float32)}, fetch_list=[])
    with ema.apply(executor):
        return p.get_value().astype(np.float64), 1.0 - 2.0**-13 * np.arange(1, steps + 1)


@pytest.mark.parametrize("decay", [0.5, 0.999, 0.99999, 0.9999999])
def test_a_decay_close_to_1_is_not_rounded(decay):
    found, values = averages(decay, 300)
    weights = decay ** np.arange(299, -1, -1, dtype=np.float64)
    np.testing.assert_allclose(found, (weights * values).sum() / weights.sum(), rtol=1e-6)


def test_a_float16_parameter_is_averaged_in_float32():
    found, values = averages(0.99, 300, "float16")
    weights = 0.99 ** np.arange(299, -1, -1, dtype=np.float64)
    np.testing.assert_array_equal(found, np.float16((weights * values).sum() / weights.sum()))


def test_the_decay_follows_the_steps():
    found, values = averages(0.99999, 50, thres=True)
    average = 0.0
    for step, value in enumerate(values):
        decay = min((1 + step) / (10 + step), 0.99999)
        average = decay * average + (1 - decay) * value
    np.testing.assert_allclose(found, average / (1 - decay**50), rtol=1e-5)
