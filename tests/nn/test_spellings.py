"""Names that Paddle 3.3 has for torch's authors are the layers themselves."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import nn
from onnxgrad.nn import spellings


@pytest.mark.parametrize("name", spellings.__all__)
def test_a_second_name_is_the_same_class(name):
    first = {"Module": "Layer", "ModuleDict": "LayerDict", "ModuleList": "LayerList", "SiLU": "Silu"}
    assert getattr(nn, name) is getattr(nn, first.get(name, name[:-1] + "D"))


def test_parameter_is_the_class_of_weights_and_takes_values():
    own = nn.Parameter(paddle.ones([2]))
    assert isinstance(nn.Linear(2, 3).weight, nn.Parameter)
    assert not own.stop_gradient and nn.Parameter(np.zeros(2), requires_grad=False).stop_gradient and own.name

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(paddle.to_tensor([2.0]))

        def forward(self, x):
            return x * self.factor

    layer = Scale()
    assert [name for name, _ in layer.named_parameters()] == ["factor"]
    layer(paddle.to_tensor([3.0])).backward()
    assert layer.factor.grad.tolist() == [3.0]


def test_a_label_that_is_no_class_makes_its_row_nan():
    scores, right = paddle.zeros([2, 3]), paddle.to_tensor([[0, -1, -1], [5, -1, -1]])
    losses = nn.functional.multi_label_margin_loss(scores, right, "none").numpy()
    assert np.isfinite(losses).tolist() == [True, False]


def test_dropout1d_zeroes_whole_channels():
    paddle.seed(3)
    result = nn.functional.dropout1d(paddle.ones([4, 8, 5]), 0.5).numpy()
    assert set(map(len, map(set, result.reshape(-1, 5).tolist()))) == {1} and {0.0, 2.0} == set(result.reshape(-1).tolist())
