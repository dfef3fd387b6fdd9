"""Names that Paddle 3.3 has for torch's authors; their values and gradients are compared with Paddle's in test_grid."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import ArgumentError
from onnxgrad.tensor import spellings


@pytest.mark.parametrize(("start", "length"), [(0, 5), (4, 1), (-2, 3), (-6, 1), (1, -1)])
def test_narrow_refuses_what_is_not_there(start, length):
    with pytest.raises(ArgumentError, match="are not in axis 1 of 4"):
        spellings.narrow(static.data("x", [None, 4]), 1, start, length)


@pytest.mark.parametrize(("start", "length"), [(0, 4), (1, 2), (-3, 2), (-2, 2), (4, 0), (2, 0)])
def test_narrow_is_a_slice(start, length):
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    first = start % 4 if start < 4 else 4
    np.testing.assert_array_equal(paddle.narrow(paddle.to_tensor(x), 1, start, length).numpy(), x[:, first : first + length])


def test_range_ends_with_its_bound_and_refuses_steps_that_lead_away():
    assert paddle.range(3).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert paddle.range(1, -1, -1, "int64").tolist() == [1, 0, -1]
    assert paddle.range(0, 1, 0.1).shape == [11]
    for wrong in ((0, 2, 0), (0, 2, -1)):
        with pytest.raises(ArgumentError, match="range:"):
            paddle.range(*wrong)


def test_swapdims_takes_two_axes_or_all():
    x = paddle.zeros([2, 3, 4])
    assert paddle.swapdims(x, 0, 2).shape == [4, 3, 2] == paddle.swapdims(x, [2, 1, 0]).shape
    for wrong in ((0,), ([2, 1, 0], 1)):
        with pytest.raises(ArgumentError, match="swapdims takes two axes"):
            paddle.swapdims(x, *wrong)


def test_random_numbers_have_the_shape_and_type_of_another_tensor():
    x = paddle.zeros([3, 5], "float64")
    for tensor in (paddle.rand_like(x), paddle.randn_like(x)):
        assert tensor.shape == [3, 5] and tensor.dtype == "float64" and len(np.unique(tensor.numpy())) == 15
    assert paddle.rand_like(x, dtype="float32").dtype == "float32"


def test_methods_that_cast_and_that_make_tensors():
    x = paddle.to_tensor([[0.0, 1.5]])
    types = {
        name: getattr(x, name)().dtype.name for name in ("half", "float", "double", "int", "long", "short", "char", "byte", "bool")
    }
    assert list(types.values()) == ["float16", "float32", "float64", "int32", "int64", "int16", "int8", "uint8", "bool"]
    assert x.new_zeros([2]).tolist() == [0.0, 0.0] and x.new_ones([1], "int64").dtype == "int64"
    assert x.new_full([2], 3.0, requires_grad=True).requires_grad
    assert x.double().new_empty([1]).dtype == "float64"
    with static.program_guard(static.Program()):
        assert static.data("x", [None, 3]).long().dtype == "int64"


def test_reductions_of_scatter_are_checked():
    x, i = paddle.zeros([2, 2]), paddle.zeros([2, 1], "int64")
    with pytest.raises(ArgumentError, match="reduce"):
        paddle.scatter_reduce(x, 1, i, paddle.ones([2, 1]), "median")


def test_constants_and_element_types():
    assert (paddle.pi, paddle.e, paddle.inf) == (np.pi, np.e, np.inf) and np.isnan(paddle.nan) and paddle.newaxis is None
    assert (paddle.double, paddle.float, paddle.half) == (paddle.float64, paddle.float32, paddle.float16)
    assert paddle.to_tensor([1, 2], dtype=paddle.float).dtype == "float32"


def test_tensors_under_torchs_names():
    x = paddle.as_tensor([1.0], requires_grad=True)
    assert x.requires_grad and not x.stop_gradient and not paddle.asarray([1]).requires_grad
    x.requires_grad = False
    assert x.stop_gradient and x.requires_grad_() is x and not x.stop_gradient
    assert paddle.from_numpy(np.ones(2)).dtype == "float64" and x.itemsize == 4 and x.get_device() == -1 and not x.is_cuda
    x.data = paddle.to_tensor([5.0])
    assert x.data.item() == 5.0
    with pytest.raises(ArgumentError, match="copy=False"):
        paddle.asarray([1], copy=False)
