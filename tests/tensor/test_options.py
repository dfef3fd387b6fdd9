"""``out``, ``device``, ``requires_grad`` and ``pin_memory``; tests/paddle_suite/test_surface.py compares them with Paddle."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad.errors import ArgumentError, ArgumentTypeError, ProviderError, WrongKind
from onnxgrad.static import data


def test_what_was_computed_before_keeps_the_former_value_of_out():
    x = paddle.to_tensor([1.0, -2.0, 3.0], stop_gradient=False)
    squares = x * x
    powers = squares.exp()
    assert paddle.abs(x, out=squares) is squares
    powers.sum().backward()
    values = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), 2 * values * np.exp(values**2), rtol=1e-5)
    assert squares.tolist() == [1.0, 2.0, 3.0]


def test_out_is_a_tensor_of_the_same_kind():
    with pytest.raises(WrongKind, match="max: axis is an int, a list"):
        paddle.max(paddle.ones([2]), axis=2.5)
    with pytest.raises(ArgumentError, match="abs: out and the result are not in one program"):
        paddle.abs(data("x", [3]), out=paddle.ones([3]))
    with pytest.raises(ArgumentTypeError, match="abs: out is a Tensor, not str"):
        paddle.abs(paddle.ones([2]), out="o")
    with pytest.raises(ArgumentError, match="topk: out is a tuple of 2 tensors, not 1"):
        paddle.topk(paddle.ones([2]), 1, out=paddle.ones([1]))


def test_devices_are_checked_also_where_a_program_is_built():
    assert paddle.zeros([2], device=paddle.CPUPlace(), pin_memory=False).tolist() == [0.0, 0.0]
    for device in ("gpu", "cuda:0", "gpu:1", "xpu", paddle.CUDAPlace(0)):
        with pytest.raises(ProviderError, match="zeros: eager tensors are computed on the CPU"):
            paddle.zeros([2], device=device)
    with pytest.raises(ProviderError, match="Leave pin_memory out"):
        paddle.ones([2], pin_memory=True)
    with pytest.raises(ArgumentError, match="zeros_like: device is 'cpu' or CPUPlace"):
        paddle.zeros_like(data("x", [3]), device="nonsense")


def test_a_factor_that_no_int_holds_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"alpha is 1\.5, which no int64 holds"):
        paddle.add(paddle.to_tensor([1]), paddle.to_tensor([1]), alpha=1.5)


def test_options_are_no_part_of_forms_that_write_in_place():
    x = paddle.to_tensor([4, 6])
    assert x.bitwise_and_(paddle.to_tensor([4, 4]), "named").tolist() == [4, 4]
    with pytest.raises(TypeError):
        x.abs_(None, x)
