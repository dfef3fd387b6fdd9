"""Functions that remember the operators that they record, and calls that must not be remembered."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.nn import functional as F
from onnxgrad.tensor import math, reduction
from onnxgrad.tensor.layer import in_place_result
from onnxgrad.tensor.remembered import remembers


def tensor(*numbers, **named):
    return paddle.to_tensor(np.array(numbers, np.float32), **named)


def counted(formula):
    """A function that remembers, and the list of its calls that ran."""
    calls = []

    def function(*args, **kwargs):
        calls.append(args)
        return formula(*args, **kwargs)

    return remembers(function), calls


def test_a_call_of_the_same_kinds_runs_no_function_and_gives_what_it_would():
    function, calls = counted(lambda x, y, power=2: paddle.tanh(x) * y + x**power - 0.5)
    for scale in (1.0, 2.0, 3.0):
        x, y = tensor(0.1 * scale, -0.2), tensor(scale, 4.0)
        assert np.allclose(function(x, y).numpy(), np.tanh(x.numpy()) * y.numpy() + x.numpy() ** 2 - 0.5)
    assert len(calls) == 1
    assert np.allclose(function(x, y, power=3).numpy(), np.tanh(x.numpy()) * y.numpy() + x.numpy() ** 3 - 0.5)
    assert function(tensor([1.0, 2.0], [3.0, 4.0]), y).shape == [2, 2]
    assert function(x.astype("float64"), y.astype("float64")).dtype == "float64"
    assert len(calls) == 4


def test_gradients_flow_through_what_is_remembered():
    function, calls = counted(lambda x, y: paddle.tanh(x) * y)
    for _ in range(3):
        x, y = tensor(0.5, -1.0, stop_gradient=False), tensor(2.0, 3.0)
        function(x, y).sum().backward()
        assert np.allclose(x.grad.numpy(), (1 - np.tanh(x.numpy()) ** 2) * y.numpy()) and y.grad is None
    with paddle.no_grad():
        assert function(x, y).stop_gradient
    assert not function(x, y).stop_gradient and function(y, y * 1.0).stop_gradient
    assert len(calls) == 3  # one for each way in which gradients flow


def test_numbers_that_are_equal_but_not_the_same_are_told_apart():
    function, calls = counted(lambda x, number: paddle.full_like(x, 1.0) / number if number == 0 else x * number)
    x = tensor(1.0)
    assert function(x, 0.0).item() == np.inf and function(x, -0.0).item() == -np.inf
    assert [function(x, number).item() for number in (1, 1.0, True)] == [1.0, 1.0, 1.0] and len(calls) == 5
    kept, calls = counted(lambda x, flag: x if flag is True else x + flag)
    assert kept(x, 1).item() == 2.0 and kept(x, True).item() == 1.0
    assert (x + 0.0).item() == 1.0 and [str((tensor(-0.0) * 1.0 + zero).item()) for zero in (-0.0, 0.0, -0.0)] == [
        "-0.0",
        "0.0",
        "-0.0",
    ]


def test_slices_and_lists_are_part_of_a_call():
    x = paddle.to_tensor(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    for _ in range(2):
        for item in (0, -1, slice(1, None), (slice(None), 2), (slice(None), slice(0, 4, 2)), (..., None)):
            assert np.array_equal(x[item].numpy(), x.numpy()[item])
        for shape in ([4, 3], [2, 6], (12,), [-1, 1]):
            assert np.array_equal(x.reshape(shape).numpy(), x.numpy().reshape(shape))
        assert np.array_equal(paddle.concat([x, x + 1.0]).numpy(), np.concatenate([x.numpy(), x.numpy() + 1]))
        assert np.array_equal(paddle.concat([x, x]).numpy(), np.concatenate([x.numpy(), x.numpy()]))
    with pytest.raises(IndexError):
        x[3]


def test_one_tensor_in_two_places_is_not_taken_for_two():
    function, calls = counted(lambda x, y: x - y)
    x, y = tensor(5.0), tensor(3.0)
    assert [function(*pair).item() for pair in ((x, x), (x, y), (y, x), (x, x))] == [0.0, 2.0, -2.0, 0.0]
    assert len(calls) == 2


def test_what_depends_on_values_is_not_remembered():
    function, calls = counted(lambda x, axis: reduction.sum(x, axis))
    x = paddle.to_tensor(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    for axis in (0, 1, 0):
        assert np.array_equal(function(x, paddle.to_tensor(axis)).numpy(), x.numpy().sum(axis))
    scaled, runs = counted(lambda x: x * float(x.sum()))
    assert [scaled(tensor(number)).item() for number in (2.0, 3.0)] == [4.0, 9.0]
    assert len(calls) == 3 and len(runs) == 2


def test_what_stops_gradients_or_writes_is_not_remembered():
    detached, calls = counted(lambda x: x * paddle.tanh(x).detach())
    both, _ = counted(lambda x, y: x * paddle.tanh(y).detach())
    silu, runs = counted(lambda x: in_place_result("silu", x, x * math.sigmoid(x)))
    for _ in range(2):
        x = tensor(0.5, stop_gradient=False)
        with paddle.no_grad():
            detached(x)
        detached(x).backward()
        assert both(x.detach(), x.detach()).stop_gradient
        both(tensor(2.0), x).backward()  # adds nothing
        assert np.allclose(x.grad.numpy(), np.tanh(0.5))
        y = tensor(0.5)
        assert silu(y) is y and np.allclose(y.numpy(), 0.5 / (1 + np.exp(-0.5)))
        out = tensor(9.0)
        assert paddle.exp(y, out=out) is out and np.allclose(out.numpy(), np.exp(y.numpy()))
        z = tensor(0.5)
        assert F.silu(z, inplace=True) is z and np.allclose(z.numpy(), y.numpy())
    assert len(calls) == 3 and len(runs) == 2


def test_what_an_operand_was_computed_from_is_not_remembered():
    function, _ = counted(lambda x, z: x.detach() * z + x)
    z = tensor(2.0)
    assert function(z * z, z).item() == 12.0 and function(tensor(3.0), z).item() == 9.0


def test_what_draws_numbers_is_not_remembered():
    paddle.seed(1)
    noisy, calls = counted(lambda x: x + paddle.rand([4]))
    x = tensor(0.0, 0.0, 0.0, 0.0)
    assert not np.array_equal(noisy(x).numpy(), noisy(x).numpy()) and len(calls) == 2


def test_autocast_and_programs_are_computed_as_they_are_written():
    x = tensor([1.0, 2.0], [3.0, 4.0])
    assert paddle.matmul(x, x * 1.0).dtype == "float32"
    with paddle.amp.auto_cast():
        assert paddle.matmul(x, x * 1.0).dtype == "float16" and (x @ (x * 1.0)).dtype == "float16"
    assert paddle.matmul(x, x * 1.0).dtype == "float32"
    program = static.Program()
    with static.program_guard(program):
        v = static.data("v", [None, 2])
        assert [paddle.tanh(v).name, paddle.tanh(v).name] == ["tanh_0.tmp_0", "tanh_1.tmp_0"]
