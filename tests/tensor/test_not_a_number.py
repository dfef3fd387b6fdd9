"""NaN and infinities where elements are ordered: as numpy has them, NaN behind all numbers."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import Executor, static
from onnxgrad.errors import ArgumentError

NAN, INF = np.nan, np.inf
DRAW = np.random.default_rng(0)


def rows(count, size, dtype):
    chosen = [NAN, INF, -INF, 0.0, 1.0, 2.0, -3.0, *DRAW.normal(size=5)]
    return DRAW.choice(chosen, size=(count, size)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 2, 7, 40, 300])
def test_argsort_and_sort_put_nan_behind_or_before_all_numbers(size, dtype):
    x = rows(5, size, dtype)
    order = np.argsort(x, axis=1, kind="stable")
    found = paddle.argsort(paddle.to_tensor(x), axis=1).numpy()
    np.testing.assert_array_equal(found, order)
    np.testing.assert_array_equal(paddle.sort(paddle.to_tensor(x), axis=1).numpy(), np.take_along_axis(x, order, 1))
    falling = paddle.argsort(paddle.to_tensor(x), axis=1, descending=True).numpy()
    expected = [
        sorted(range(size), key=lambda i, row=row: (not np.isnan(row[i]), 0 if np.isnan(row[i]) else -row[i], i)) for row in x
    ]
    np.testing.assert_array_equal(falling, expected)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("sequence", [[1.0, 2.0, 2.0, 3.0], [1.0, 2.0, INF], [1.0, INF, NAN, NAN], [NAN], [-INF, 0.0]])
def test_searchsorted_is_that_of_numpy(sequence, right):
    ordered, values = np.array(sequence), np.array([[0.5, 2.0, NAN], [INF, -INF, 3.0]])
    expected = np.searchsorted(ordered, values, side="right" if right else "left")
    found = paddle.searchsorted(paddle.to_tensor(ordered), paddle.to_tensor(values), right=right)
    np.testing.assert_array_equal(found.numpy(), expected)
    both = paddle.searchsorted(paddle.to_tensor(np.stack([ordered, ordered])), paddle.to_tensor(values), right=right)
    np.testing.assert_array_equal(both.numpy(), expected)
    for at in np.ndindex(values.shape):
        single = paddle.searchsorted(paddle.to_tensor(ordered), paddle.to_tensor(values[at]), right=right)
        assert single.shape == [] and single.item() == expected[at]
        assert paddle.bucketize(paddle.to_tensor(values[at]), paddle.to_tensor(ordered), right=right).item() == expected[at]


def test_searchsorted_of_a_scalar_in_a_program_and_of_integers():
    program = static.Program()
    with static.program_guard(program):
        s, v = static.data("s", [None], "int64"), static.data("v", [], "int64")
        found = paddle.searchsorted(s, v, out_int32=True)
    assert found.shape == ()
    (place,) = Executor().run(program, feed={"s": np.array([1, 3, 5]), "v": np.array(4)}, fetch_list=[found])
    assert place.shape == () and place == 2 and place.dtype == np.int32


LINES = np.array(
    [
        [3.0, NAN, 1.0, INF, 2.0],
        [NAN, 5.0, -INF, NAN, INF],
        [NAN, NAN, NAN, NAN, NAN],
        [7.0, NAN, NAN, NAN, NAN],
        [INF, INF, NAN, NAN, NAN],
        [1.0, INF, NAN, NAN, NAN],
    ]
)


def test_nanmedian_of_the_lower_middle_gives_its_index_too():
    middle, index = paddle.nanmedian(paddle.to_tensor(LINES), axis=1, mode="min")
    np.testing.assert_array_equal(middle.numpy(), [2, 5, NAN, 7, INF, 1])
    np.testing.assert_array_equal(index.numpy(), [4, 1, 0, 0, 0, 0])
    middle, index = paddle.nanmedian(paddle.to_tensor(LINES.T.copy()), axis=0, keepdim=True, mode="min")
    np.testing.assert_array_equal(middle.numpy(), [[2, 5, NAN, 7, INF, 1]])
    assert index.shape == [1, 6] and index.dtype == "int64"
    assert paddle.nanmedian(paddle.to_tensor(LINES), mode="min").item() == 5.0
    assert paddle.nanmedian(paddle.to_tensor(LINES), axis=[0, 1], mode="min").item() == 5.0


def test_nanmedian_of_both_middles():
    found = paddle.nanmedian(paddle.to_tensor(LINES), axis=1).numpy()
    np.testing.assert_array_equal(found, [2.5, 5, NAN, 7, INF, INF])
    with pytest.raises(ArgumentError, match="mode is 'avg' or 'min'"):
        paddle.nanmedian(paddle.to_tensor(LINES), mode="max")


def test_the_gradient_of_nanmedian_goes_to_the_middle_elements():
    for mode, expected in (("min", [0, 0, 0, 0, 1]), ("avg", [0.5, 0, 0, 0, 0.5])):
        x = paddle.to_tensor(LINES[:1], stop_gradient=False)
        found = paddle.nanmedian(x, axis=1, mode=mode)
        (found[0] if mode == "min" else found).sum().backward()
        assert x.grad.tolist() == [expected]


def test_nanquantile_beside_infinities():
    x = paddle.to_tensor(np.array([[1.0, INF, NAN], [INF, INF, NAN], [-INF, 2.0, 3.0]]))
    found = [paddle.nanquantile(x, 0.5, axis=1, interpolation=kind).tolist() for kind in ("lower", "higher", "linear")]
    assert found == [[1, INF, 2], [INF, INF, 2], [INF, INF, 2]]


@pytest.mark.parametrize("threshold", [0.2, 0.0, -0.2])
def test_hardshrink_keeps_what_lies_outside_the_threshold_also_a_negative_one(threshold):
    x = np.array([-1, -0.3, -0.1, 0.0, 0.1, 0.3, 1.0])
    kept = (x < -threshold) | (x > threshold)
    v = paddle.to_tensor(x, stop_gradient=False)
    found = paddle.nn.functional.hardshrink(v, threshold)
    np.testing.assert_array_equal(found.numpy(), np.where(kept, x, 0.0))
    found.sum().backward()
    np.testing.assert_array_equal(v.grad.numpy(), kept)
    program = static.Program()
    with static.program_guard(program):
        y = paddle.nn.functional.hardshrink(static.data("x", [None], "float64"), threshold)
    np.testing.assert_array_equal(Executor().run(program, feed={"x": x}, fetch_list=[y])[0], np.where(kept, x, 0.0))
