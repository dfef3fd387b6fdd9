"""Reductions over groups of rows, and messages along edges; values and gradients are compared with Paddle's in test_grid."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import geometric
from onnxgrad.errors import ArgumentError, NotOffered
from tests.function_cases import Case, check_derivatives, check_values, positive, real


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("message", ["add", "sub", "mul", "div"])
def test_gradients_of_messages(message, reduce):
    sources, targets = np.array([0, 1, 2, 0, 2]), np.array([1, 1, 0, 3, 1])
    combine = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[message]
    over = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}[reduce]

    def by_hand(x, y, *_):
        messages = combine(x[sources], y)
        return np.stack([over(messages[targets == i], axis=0) if (targets == i).any() else np.zeros(3) for i in range(4)])

    def function(x, y, i, j):
        return geometric.send_ue_recv(x, y, i, j, message, reduce)

    case = Case(f"send_ue_recv {message} {reduce}", function, [real(4, 3), positive(5, 3), sources, targets], by_hand)
    check_values(case, unknown=True)
    check_derivatives(case)


def test_no_rows_and_a_type_without_order():
    empty = geometric.segment_max(paddle.zeros([0, 2]), paddle.zeros([0], "int64"))
    assert empty.shape == [0, 2]
    assert geometric.segment_min(paddle.to_tensor([3, 1, 2]), paddle.to_tensor([1, 1, 3])).tolist() == [0, 1, 0, 2]


def test_words_and_samplers_are_refused():
    x, i = paddle.ones([2]), paddle.zeros([2], "int64")
    with pytest.raises(ArgumentError, match="message_op"):
        geometric.send_uv(x, x, i, i, "pow")
    with pytest.raises(ArgumentError, match="reduce_op"):
        geometric.send_u_recv(x, i, i, "median")
    with pytest.raises(NotOffered, match="neighbours"):
        geometric.sample_neighbors(i, i, i)
