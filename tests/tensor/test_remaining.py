"""Element types and the rearrangements that numpy names otherwise."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import errors
from onnxgrad.eager.printing import current_options, set_options


def test_limits_of_types():
    assert paddle.finfo("float16").max == 65504.0 and paddle.finfo(paddle.bfloat16).bits == 16
    assert paddle.iinfo("uint8").max == 255 and paddle.iinfo(paddle.int64).bits == 64
    with pytest.raises(errors.ArgumentTypeError, match="iinfo"):
        paddle.finfo("int32")
    with pytest.raises(errors.ArgumentTypeError, match="finfo"):
        paddle.iinfo("float32")


def test_default_dtype_is_that_of_tensors_made_without_one():
    paddle.set_default_dtype("float64")
    assert paddle.get_default_dtype() == "float64"
    assert paddle.ones([2]).dtype == paddle.float64 and paddle.static.data("x", [2]).dtype == paddle.float64
    with pytest.raises(errors.ArgumentTypeError, match="int32"):
        paddle.set_default_dtype("int32")


def test_permute_and_ravel():
    x = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
    np.testing.assert_array_equal(paddle.permute(paddle.to_tensor(x), [2, 0, 1]).numpy(), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(paddle.to_tensor(x).permute(1, 2, 0).numpy(), x.transpose(1, 2, 0))
    np.testing.assert_array_equal(paddle.ravel(paddle.to_tensor(x)).numpy(), x.ravel())


@pytest.mark.parametrize("offset", [-1, 0, 2])
def test_diagonal_scatter_is_the_inverse_of_diagonal(offset):
    x = np.arange(24.0, dtype="float32").reshape(3, 2, 4)
    size = np.diagonal(x, offset, 0, 2).shape
    y = -np.ones(size, "float32") - np.arange(size[-1], dtype="float32")
    found = paddle.diagonal_scatter(paddle.to_tensor(x), paddle.to_tensor(y), offset, 0, 2).numpy()
    np.testing.assert_array_equal(np.diagonal(found, offset, 0, 2), y)
    assert (found != x).sum() == y.size


def test_pdist_is_the_upper_triangle_of_cdist():
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    apart = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
    np.testing.assert_allclose(paddle.pdist(paddle.to_tensor(x)).numpy(), apart[np.triu_indices(4, 1)], rtol=1e-5)


def test_to_changes_the_element_type_and_refuses_other_places():
    x = paddle.to_tensor([1.5, 2.5])
    assert x.to("float64").dtype == paddle.float64 and x.to("cpu", "int32").numpy().tolist() == [1, 2]
    with pytest.raises(errors.ProviderError, match=r"Executor\(CUDAPlace"):
        x.to("gpu:0")


def test_print_options_are_those_of_tensors_alone():
    outer = current_options()
    try:
        paddle.set_printoptions(precision=2, sci_mode=True)
        assert str(paddle.to_tensor([1 / 3])).endswith("[3.33e-01])") and str(np.array([1 / 3])) == "[0.33333333]"
        paddle.set_printoptions(threshold=4, edgeitems=1, sci_mode=False)
        assert str(paddle.to_tensor([1 / 3, 2.0, 2.0, 2.0, -1.0])).endswith("[ 0.33, ..., -1.  ])")
    finally:
        set_options(**vars(outer))
