"""Where indices repeat: what stands there in the end, and which of the values gets the gradient."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import ExecutionError

ROW = np.array([[10.0, 20.0, 30.0, 40.0]])
WEIGHT = np.array([[1.0, 10.0, 100.0, 1000.0]])
VALUES = np.array([[1.0, 50.0, 3.0]])
INDEX = np.array([[0, 0, 2]])

PUT = {
    # reduce, include_self: result, gradient of x, gradient of the values
    ("assign", True): ([50, 20, 3, 40], [0, 10, 0, 1000], [0, 1, 100]),
    ("assign", False): ([50, 20, 3, 40], [0, 10, 0, 1000], [0, 1, 100]),
    ("add", True): ([61, 20, 33, 40], [1, 10, 100, 1000], [1, 1, 100]),
    ("add", False): ([51, 20, 3, 40], [0, 10, 0, 1000], [1, 1, 100]),
    ("mul", True): ([500, 20, 90, 40], [50, 10, 300, 1000], [500, 10, 3000]),
    ("mul", False): ([50, 20, 3, 40], [0, 10, 0, 1000], [50, 1, 100]),
    ("amax", True): ([50, 20, 30, 40], [0, 10, 100, 1000], [0, 1, 0]),
    ("amax", False): ([50, 20, 3, 40], [0, 10, 0, 1000], [0, 1, 100]),
    ("amin", True): ([1, 20, 3, 40], [0, 10, 0, 1000], [1, 0, 100]),
    ("amin", False): ([1, 20, 3, 40], [0, 10, 0, 1000], [1, 0, 100]),
    ("mean", True): ([61 / 3, 20, 16.5, 40], [1 / 3, 10, 50, 1000], [1 / 3, 1 / 3, 50]),
    ("mean", False): ([25.5, 20, 3, 40], [0, 10, 0, 1000], [0.5, 0.5, 100]),
}


@pytest.mark.parametrize(("reduce", "include_self"), PUT)
def test_put_along_axis(reduce, include_self):
    x, v = (paddle.to_tensor(a, stop_gradient=False) for a in (ROW, VALUES))
    found = paddle.put_along_axis(x, paddle.to_tensor(INDEX), v, 1, reduce, include_self)
    (found * paddle.to_tensor(WEIGHT)).sum().backward()
    for actual, expected in zip((found, x.grad, v.grad), PUT[reduce, include_self], strict=True):
        np.testing.assert_allclose(actual.numpy()[0], expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize(("reduce", "expected"), [("amax", [50, 20, 3, 40]), ("amin", [1, 20, 3, 40])])
def test_put_along_axis_leaves_out_the_former_element_in_other_types(reduce, expected, dtype):
    x, v = (paddle.to_tensor(a.astype(dtype)) for a in (ROW, VALUES))
    found = paddle.put_along_axis(x, paddle.to_tensor(INDEX), v, 1, reduce, include_self=False)
    assert found.tolist() == [expected]


# One function per way to write, each with x [4, 2] and rows of values [3, 2] at the rows 1, 3, 1.
WRITTEN = {
    "scatter": lambda x, i, v: paddle.scatter(x, i % 4, v),  # it takes no negative numbers
    "index_put": lambda x, i, v: paddle.index_put(x, (i,), v),
    "put_along_axis": lambda x, i, v: paddle.put_along_axis(x, i.reshape([3, 1]).expand([3, 2]), v, 0, broadcast=False),
    "setitem": lambda x, i, v: static.setitem(x, i, v),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("order", [[1, 3, 1], [-3, 3, 1]])
def test_the_last_value_remains_and_gets_the_gradient(name, order):
    x, v = (paddle.to_tensor(a, stop_gradient=False) for a in (np.zeros((4, 2)), np.arange(6.0).reshape(3, 2)))
    found = WRITTEN[name](x, paddle.to_tensor(np.array(order)), v)
    assert found.tolist() == [[0, 0], [4, 5], [0, 0], [2, 3]]
    (found * paddle.to_tensor(np.arange(8.0).reshape(4, 2))).sum().backward()
    assert x.grad.tolist() == [[0, 1], [0, 0], [4, 5], [0, 0]]
    assert v.grad.tolist() == [[0, 0], [6, 7], [2, 3]]


def test_an_index_in_two_axes_that_repeats():
    x, v = (paddle.to_tensor(a, stop_gradient=False) for a in (np.zeros((2, 3)), np.array([1.0, 2.0, 3.0])))
    rows, columns = (paddle.to_tensor(np.array(i)) for i in ([1, 0, -1], [2, 0, -1]))
    found = paddle.index_put(x, (rows, columns), v)
    assert found.tolist() == [[2, 0, 0], [0, 0, 3]]
    found.sum().backward()
    assert v.grad.tolist() == [0, 1, 1]


def test_many_rows_at_one_place_give_the_last_one_each_time():
    x, v = (
        paddle.to_tensor(np.zeros((3, 64), np.float32)),
        paddle.to_tensor(np.arange(5000 * 64, dtype=np.float32).reshape(5000, 64)),
    )
    index = paddle.to_tensor(np.arange(5000) % 2)
    for _ in range(3):
        found = paddle.scatter(x, index, v).numpy()
        np.testing.assert_array_equal(found[:2], v.numpy()[-2:])


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("indices", [([4],), ([-5],), ([0], [2]), ([0], [-3]), ([1], [7])])
def test_an_index_outside_is_refused(indices, accumulate):
    x = paddle.to_tensor(np.zeros((4, 2)))
    found = paddle.index_put(
        x, tuple(paddle.to_tensor(np.array(i)) for i in indices), paddle.to_tensor(1.0).astype("float64"), accumulate
    )
    with pytest.raises(ExecutionError, match="bounds"):
        found.numpy()
