"""Layers as objects: members, state, modes, and a small network that learns."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import nn
from onnxgrad.eager import evaluate


class Network(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2D(4)
        self.body = nn.Sequential(nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(), nn.Dropout(0.1))
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.body(self.norm(self.conv(x))))


def test_members_and_names():
    model = Network()
    statistics = ["norm._mean", "norm._variance"]
    names = ["conv.weight", "conv.bias", "norm.weight", "norm.bias", *statistics, "head.weight", "head.bias"]
    assert [name for name, _ in model.named_parameters()] == names
    assert [name for name, p in model.named_parameters() if p.stop_gradient] == statistics
    assert list(model.state_dict()) == names
    assert [type(layer).__name__ for layer in model.children()] == ["Conv2D", "BatchNorm2D", "Sequential", "Linear"]
    assert model.head.weight.name == "linear_0.w_0"
    assert model.head.bias.name == "linear_0.b_0"
    assert len(model.sublayers()) == 8
    model.head = nn.Linear(16, 3)
    assert model.head.weight.shape == [16, 3]
    assert len(model.parameters()) == 8
    assert nn.Linear(2, 2, bias_attr=False).bias is None
    with pytest.raises(AttributeError, match="no attribute 'tail'"):
        _ = model.tail


def test_state_moves_between_models():
    first, second = Network(), Network()
    missing, unexpected = second.set_state_dict({**first.state_dict(), "extra": np.zeros(1)})
    assert (missing, unexpected) == ([], ["extra"])
    x = paddle.to_tensor(np.random.default_rng(0).normal(size=(3, 1, 4, 4)).astype(np.float32))
    np.testing.assert_array_equal(first.eval()(x).numpy(), second.eval()(x).numpy())


def test_modes_reach_all_layers():
    model = Network()
    assert all(layer.training for layer in model.sublayers(include_self=True))
    assert not any(layer.training for layer in model.eval().sublayers(include_self=True))


def test_a_network_learns_and_builds_each_session_once():
    paddle.seed(1)
    draw = np.random.default_rng(0)
    images = draw.normal(size=(64, 1, 4, 4)).astype(np.float32)
    labels = (images.mean(axis=(1, 2, 3)) > 0).astype(np.int64)
    model, loss_of = Network(), nn.CrossEntropyLoss()
    optimizer = paddle.optimizer.Adam(0.01, parameters=model.parameters())
    losses, built = [], []
    for _ in range(40):
        loss = loss_of(model(paddle.to_tensor(images)), paddle.to_tensor(labels))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
        built.append((evaluate.counts["sessions"], evaluate.counts["backward"]))
    assert losses[-1] < 0.5 * losses[0]
    assert built[3] == built[-1]
    model.eval()
    predicted = model(paddle.to_tensor(images)).numpy().argmax(axis=1)
    assert (predicted == labels).mean() > 0.9


def test_sequential_and_lists():
    stack = nn.LayerList([nn.Linear(2, 2), nn.Linear(2, 2)])
    assert len(stack) == 2
    assert len(list(stack)) == 2
    assert stack[1].full_name() == "linear_1"
    named = nn.Sequential(("first", nn.Linear(2, 3)), ("second", nn.Tanh()))
    assert named.first is named[0]
    assert "first" in repr(named)
    assert "in_features=2" in repr(named)


def test_weights_in_another_element_type():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1D(3))
    before = {name: value.numpy() for name, value in model.state_dict().items()}
    assert model.to(dtype="float64") is model
    assert {value.dtype.name for value in model.state_dict().values()} == {"float64"}
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    out = model(paddle.to_tensor(np.eye(4, 2)))
    out.sum().backward()
    assert (out.dtype, model[0].weight.grad.dtype) == (paddle.float64, paddle.float64)
    assert model.float()[0].weight.dtype == paddle.float32
    assert model.astype("float16")[1]._mean.dtype == paddle.float16
    model.bfloat16(excluded_layers=nn.BatchNorm1D)
    assert (model[0].weight.dtype, model[1].weight.dtype) == (paddle.bfloat16, paddle.float16)
    assert model.float16([nn.BatchNorm1D])[0].weight.dtype == paddle.float16
    with pytest.raises(ValueError, match="'float23' is not an ONNX element type"):
        model.astype("float23")
    assert model[0].weight.dtype == paddle.float16


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.functional.conv2d(paddle.ones([1, 3, 5, 5]), paddle.ones([2, 4, 3, 3])),
        lambda: nn.LayerNorm(3)(paddle.ones([2, 4])),
        lambda: nn.LSTM(3, 4)(paddle.ones([2, 5, 2])),
        lambda: paddle.ones([2, 3]).reshape([4, 2]),
        lambda: paddle.ones([2, 3]).reshape([4, -1]),
    ],
)
def test_sizes_that_do_not_fit_are_refused_where_they_are_written(call):
    with pytest.raises(ValueError):
        call()


def test_a_member_keeps_its_kind():
    layer = nn.Sequential(nn.Linear(2, 2))
    layer.register_buffer("steps", paddle.zeros([1]))
    for name, value in (("0", 3), ("0", paddle.ones([1])), ("steps", "many")):
        with pytest.raises(TypeError, match="or None"):
            setattr(layer, name, value)
    with pytest.raises(TypeError, match="a parameter or None"):
        layer[0].weight = paddle.ones([2, 2])
    layer[0].bias = None
    assert [name for name, _ in layer.named_parameters()] == ["0.weight"]


def test_a_scalar_formats_as_its_number():
    assert f"{paddle.to_tensor(1.5)} {paddle.to_tensor(2):>3} {paddle.to_tensor([0.25]):.1f}" == "1.5   2 0.2"
    assert f"{paddle.to_tensor([1])}" == str(paddle.to_tensor([1]))


def test_a_layer_that_is_held_twice_is_in_the_state_twice_and_missing_once_is_no_loss():
    class Twice(nn.Layer):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(1, 1)
            self.again = self.first

    layer = Twice()
    assert list(layer.state_dict()) == ["first.weight", "first.bias", "again.weight", "again.bias"]
    assert [name for name, _ in layer.named_parameters()] == ["first.weight", "first.bias"]
    given = {"first.weight": np.array([[2.0]], np.float32), "first.bias": np.zeros(1, np.float32)}
    assert layer.set_state_dict(given) == ([], []) and layer.again.weight.item() == 2.0
