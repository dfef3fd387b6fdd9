"""What is computed of the rows of all ranks; that ranks train the whole batch so is in tests/distributed/test_divisors.py."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.step.gather import ROWS, Gather
from onnxgrad.errors import ArgumentError

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def network(batch=None):
    x = static.data("x", [batch, 3])
    return x, static.nn.fc(x, 4)


def gather_of(v):
    return Gather(v.block.program, Builder(v.block, role=Role.BACKWARD, key="gathered"))


def run(*fetches, rows=(0, 5, 5)):
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return executor.run(feed={"x": X, ROWS: np.array(rows)}, fetch_list=list(fetches))


def against_others(h):
    scores = paddle.matmul(h, h, transpose_y=True)
    return paddle.mean(paddle.square(F.softmax(scores, axis=1)))


def test_one_process_computes_what_it_computes_without():
    _, h = network()
    loss = against_others(h)
    weight = h.block.program.all_parameters()[0]
    (plain,) = static.gradients(loss, [weight])
    gather = gather_of(loss)
    share = gather.loss(loss)
    (g,) = static.gradients(share, [weight])
    assert [v.name for v in gather.rows] == [h.name]
    expected, found, before, after = run(loss, share, plain, g)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(after, before)


def test_a_share_of_the_loss_has_all_of_the_gradient_of_its_rows():
    """Of the rows of others it has none: here they are zeros, as nobody adds up"""
    x, h = network()
    x.stop_gradient = False
    loss = against_others(h)
    gather = gather_of(loss)
    whole = gather.whole(loss)
    share = gather._shared(whole, is_shown=True)
    first, second = static.gradients(whole, [x])[0], static.gradients(share, [x])[0]
    all_of_it, found, a, b = run(whole, share, first, second, rows=(2, 5, 10))
    np.testing.assert_allclose(found, all_of_it / 2, rtol=1e-6)
    np.testing.assert_array_equal(a, b)


def test_a_rank_without_examples_sends_none():
    _, h = network()
    loss = against_others(h)
    (found,) = run(gather_of(loss).whole(loss), rows=(0, 0, 4))
    np.testing.assert_allclose(found, 1 / 16, rtol=1e-6)  # of rows that are all 0


def test_what_follows_from_gathered_rows_is_computed_and_not_sent():
    _, h = network()
    label = static.data("label", [None], "int64")
    square = paddle.sum(h * h, axis=1, keepdim=True)
    distance = square - 2 * paddle.matmul(h, h, transpose_y=True) + paddle.transpose(square, [1, 0])
    same = paddle.cast(paddle.equal(paddle.unsqueeze(label, 1), paddle.unsqueeze(label, 0)), "float32")
    loss = paddle.mean(distance * same)
    gather = gather_of(loss)
    gather.loss(loss)
    assert sorted(v.name for v in gather.rows) == sorted([h.name, "label"])


def test_a_fixed_batch_is_refused():
    loss = against_others(network(4)[1])
    with pytest.raises(ArgumentError, match="Leave the first dimension of its inputs open"):
        gather_of(loss).loss(loss)


def test_random_numbers_behind_the_rows_are_refused_by_their_operator():
    _, h = network()
    loss = paddle.mean(F.dropout(F.softmax(h, axis=0), 0.5))
    with pytest.raises(ArgumentError, match=r"Softmax .*ranks cannot gather their examples there: Dropout .* draws random numbers"):
        gather_of(loss).loss(loss)
