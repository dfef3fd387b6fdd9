"""auto_cast and GradScaler on eager tensors."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad.errors import ArgumentError, NotOffered


@pytest.fixture(autouse=True)
def eager():
    paddle.disable_static()


def tensors(seed=0):
    random = np.random.default_rng(seed)
    x = paddle.to_tensor(random.normal(size=(8, 6)).astype(np.float32))
    y = paddle.to_tensor(random.integers(0, 3, (8, 1)))
    return x, y


def model(seed=3):
    paddle.seed(seed)
    return paddle.nn.Sequential(paddle.nn.Linear(6, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 3))


def test_white_black_and_others():
    x = paddle.ones([2, 2])
    with paddle.amp.auto_cast():
        y = paddle.matmul(x, x)
        assert (y.dtype, F.relu(y).dtype, (y + y).dtype, F.softmax(y).dtype) == ("float16", "float16", "float16", "float32")
        assert (y + x).dtype == "float32" and F.relu(x).dtype == "float32"
        with paddle.amp.auto_cast(enable=False):
            assert paddle.matmul(x, x).dtype == "float32"
        assert paddle.matmul(x, x).dtype == "float16"
    assert paddle.matmul(x, x).dtype == "float32"


def test_lists_levels_and_decoration():
    x = paddle.ones([2, 2])
    with paddle.amp.auto_cast(custom_black_list=["matmul"], custom_white_list=["elementwise_add"]):
        assert (paddle.matmul(x, x).dtype, (x + x).dtype) == ("float32", "float16")
    with paddle.amp.auto_cast(level="O2", use_promote=False):
        assert (paddle.exp(x).dtype, F.relu(x).dtype) == ("float16", "float16")
    with paddle.amp.auto_cast(level="OD"):
        y = paddle.matmul(x, x)
        assert (y.dtype, F.relu(y).dtype) == ("float16", "float32")
    with paddle.amp.auto_cast(level="O0"):
        assert paddle.matmul(x, x).dtype == "float32"
    assert paddle.amp.auto_cast()(paddle.matmul)(x, x).dtype == "float16"
    assert paddle.matmul(x.astype("float64"), x.astype("float64")).dtype == "float64"


def test_values_are_rounded_and_weights_get_float32_gradients():
    x, w = paddle.to_tensor([[1.0, 1e-4]]), paddle.to_tensor([[1.0], [1.0]], stop_gradient=False)
    with paddle.amp.auto_cast():
        y = paddle.matmul(x, w)
        y.sum().backward()
    assert y.dtype == "float16" and w.grad.dtype == "float32"
    np.testing.assert_allclose(w.grad.numpy(), [[1.0], [1e-4]], rtol=1e-3)


def train(steps, scaler=None, **options):
    network, losses = model(), []
    optimizer = paddle.optimizer.Adam(0.05, parameters=network.parameters())
    for step in range(steps):
        x, y = tensors(step % 2)
        with paddle.amp.auto_cast(**options):
            loss = F.cross_entropy(network(x), y)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        optimizer.clear_grad()
        losses.append(loss.item())
    assert all(p.dtype == "float32" for p in network.parameters())
    return losses


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_losses_are_close_to_those_in_float32(level):
    wanted = train(20, enable=False)
    found = train(20, paddle.amp.GradScaler(init_loss_scaling=1024.0), level=level)
    assert wanted[-1] < 0.5 * wanted[0]
    np.testing.assert_allclose(found, wanted, atol=0.02, rtol=0.02)


def test_an_overflow_is_skipped_and_the_scale_adapts():
    w = paddle.create_parameter([2], "float32", is_bias=True)
    optimizer = paddle.optimizer.Momentum(0.1, 0.9, parameters=[w])
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0, decr_every_n_nan_or_inf=2, incr_every_n_steps=3)
    scales, values = [], []
    for factor in (1.0, np.inf, np.nan, 1.0, 1.0, 1.0):
        scaler.scale((w * float(factor)).sum()).backward()
        scaler.minimize(optimizer)
        optimizer.clear_grad()
        scales.append(scaler.state_dict()["scale"].item())
        values.append(w.numpy()[0])
    assert scales == [8.0, 8.0, 4.0, 4.0, 4.0, 8.0]
    assert values[0] == values[1] == values[2] != values[3]
    np.testing.assert_allclose(values[3], -0.1 - 0.19, rtol=1e-6)


def test_unscale_before_the_step():
    w = paddle.create_parameter([2], "float32", is_bias=True)
    optimizer = paddle.optimizer.SGD(0.5, parameters=[w])
    scaler = paddle.amp.GradScaler(init_loss_scaling=16.0)
    scaler.scale((w * 3.0).sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="unscale_"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert w.tolist() == [-1.5, -1.5]
    with pytest.raises(RuntimeError, match="step was called"):
        scaler.step(optimizer)


def test_the_state_of_a_scaler():
    scaler, other = paddle.amp.GradScaler(init_loss_scaling=32.0, incr_ratio=3.0), paddle.amp.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_incr_ratio() == 3.0
    off = paddle.amp.GradScaler(enable=False)
    loss = paddle.ones([1])
    assert off.scale(loss) is loss and off.state_dict() == {} and not off.is_enable()
    with pytest.raises(RuntimeError, match="empty"):
        scaler.load_state_dict({})


def test_arguments_are_checked():
    with paddle.amp.auto_cast(dtype="bfloat16"):  # as in Paddle on the CPU: nothing is cast
        assert paddle.matmul(paddle.ones([2, 3]), paddle.ones([3, 2])).dtype == "float32"
    with pytest.raises(ArgumentError, match="level"):
        paddle.amp.auto_cast(level="O5")
    with pytest.raises(AssertionError, match="incr_ratio"):
        paddle.amp.GradScaler(incr_ratio=1.0)
    network = model()
    assert paddle.amp.decorate(network, level="O2") is network
    with pytest.raises(NotOffered, match="save_dtype"):
        paddle.amp.decorate(network, save_dtype="float32")
    assert paddle.amp.is_float16_supported() and not paddle.amp.is_bfloat16_supported()
