"""Shape arithmetic: what is known of dimensions that are only partly known, and of shapes that are computed at run time."""

import numpy as np
import pytest

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.shapes import broadcast_dims, entries_of


@pytest.fixture
def op():
    return Program().global_block().build


def given(op, name, dims, dtype="float32"):
    return op.block.create_var(name, dims, dtype)


def shape_of(op, *dims):
    return op.Shape(op.block.create_var(None, dims))


def ints(*numbers, dtype=np.int64):
    return np.array(numbers, dtype)


# Entries -------------------------------------------------------------------------------------------------------------


def test_a_shape_knows_numbers_and_symbols_and_not_the_rest(op):
    assert shape_of(op, "N", 4, None).entries == ("N", 4, None)


@pytest.mark.parametrize("start, end, expected", [(1, None, (4, 5)), (0, 2, ("N", 4)), (-1, None, (5,)), (0, -2, ("N",))])
def test_a_part_of_a_shape_has_that_part_of_the_dimensions(op, start, end, expected):
    assert op.Shape(given(op, "x", ("N", 4, 5)), start=start, end=end).entries == expected


def test_the_shape_of_an_unknown_rank_is_unknown(op):
    assert op.Shape(given(op, "x", None)).entries is None


def test_the_size_is_known_where_all_dimensions_are(op):
    assert op.Size(given(op, "x", (2, 3, 4))).entries == (24,)
    assert op.Size(given(op, "y", ("N", 3))).entries is None


@pytest.mark.parametrize(
    "index, expected",
    [(0, ("N",)), (-1, (5,)), ([2, 0], (5, "N")), ([3], (None,)), ([-4], (None,)), ([-3], ("N",))],
)
def test_gather_takes_entries_and_nothing_from_outside(op, index, expected):
    assert op.Gather(shape_of(op, "N", 4, 5), index).entries == expected


def test_what_is_gathered_from_unknown_places_is_unknown(op):
    assert op.Gather(shape_of(op, "N", 4), given(op, "i", (2,), "int64")).entries is None


def test_concat_keeps_what_its_parts_know(op):
    unknown = given(op, "s", (2,), "int64")
    assert op.Concat(shape_of(op, "N", 4), unknown, [7], axis=0).entries == ("N", 4, None, None, 7)


def test_concat_with_a_part_of_unknown_length_is_unknown(op):
    assert op.Concat([7], given(op, "s", (None,), "int64"), axis=0).entries is None


@pytest.mark.parametrize(
    "start, end, step",
    [(1, 3, 1), (0, 2**63 - 1, 1), (-2, 9, 1), (0, -1, 2), (-1, -(2**63), -1), (4, 0, -2), (-1, -5, -1), (3, 1, 1), (-99, 2, 1)],
)
def test_slice_takes_the_entries_that_numpy_takes(op, start, end, step):
    dims = ("N", 4, "M", 6, 7)
    taken = op.Slice(shape_of(op, *dims), [start], [end], [0], [step])
    stop = None if step < 0 and end < -len(dims) else end
    assert taken.entries == tuple(np.array(dims, object)[start:stop:step])


def test_a_slice_with_an_unknown_bound_is_unknown(op):
    assert op.Slice(shape_of(op, "N", 4, 5), [0], given(op, "e", (1,), "int64")).entries is None


@pytest.mark.parametrize(
    "operator, x, y, expected",
    [
        ("Add", (2, "N", None), (5, 0, 0), (7, "N", None)),
        ("Add", (0, 1), ("N", "M"), ("N", None)),
        ("Sub", (2, "N"), (5, 0), (-3, "N")),
        ("Sub", (0, 0), ("N", 4), (None, -4)),
        ("Mul", (3, "N", "M"), (4, 1, 2), (12, "N", None)),
        ("Mul", (1,), ("N", 6), ("N", 6)),
        ("Div", (7, "N", 8), (2, 1, "N"), (3, "N", None)),
        ("Div", (1, 1), ("N", "M"), (None, None)),
        ("Div", (9, 6, 5), (3,), (3, 2, 1)),
    ],
)
def test_arithmetic_is_done_on_what_is_known(op, operator, x, y, expected):
    x, y = (op.Shape(given(op, name, dims)) if None in dims or "N" in dims else ints(*dims) for name, dims in (("x", x), ("y", y)))
    assert op.emit(operator, [x, y], {}).entries == expected


def test_division_rounds_towards_zero_as_the_operator_does(op):
    quotient = op.Div(ints(7, -7, 7, -7, 0), ints(2, 2, -2, -2, -3))
    assert quotient.entries == (3, -3, -3, 3, 0)


def test_division_by_zero_is_unknown(op):
    assert op.Div(ints(7, 8), ints(0, 2)).entries == (None, 4)


@pytest.mark.parametrize(
    "dtype, x, y, expected",
    [
        (np.int32, 2**31 - 2, 1, 2**31 - 1),
        (np.int32, 2**31 - 1, 1, None),
        (np.int32, -(2**31), -1, None),
        (np.int32, -(2**31) + 1, -1, -(2**31)),
        (np.uint8, 200, 55, 255),
        (np.uint8, 200, 56, None),
        (np.int64, 2**63 - 1, 1, None),
    ],
)
def test_what_wraps_around_is_unknown(op, dtype, x, y, expected):
    total = op.Add(ints(x, dtype=dtype), ints(y, dtype=dtype))
    assert total.entries == (expected,)


def test_a_difference_below_zero_of_unsigned_numbers_is_unknown(op):
    assert op.Sub(ints(3, 3, dtype=np.uint8), ints(3, 4, dtype=np.uint8)).entries == (0, None)


def test_entries_survive_a_change_of_form(op):
    n = op.Gather(shape_of(op, "N", 300), [1])
    assert op.Cast(n, to=6).entries == op.Squeeze(n).entries == op.Identity(n).entries == (300,)
    assert op.Cast(n, to=2).entries == (None,)  # uint8
    assert op.Expand(n, [3]).entries == (300, 300, 300)


def test_floats_have_no_entries(op):
    assert op.Cast(shape_of(op, 2, 3), to=1).entries is None


def test_a_matrix_has_entries_row_by_row(op):
    row = op.Unsqueeze(shape_of(op, "N", 3), [0])
    assert row.entries == ("N", 3)
    assert op.Concat(row, row, axis=0).entries == ("N", 3, "N", 3)


def test_long_vectors_are_not_remembered(op):
    x = op.Shape(given(op, "x", tuple(range(40))))
    assert len(op.Concat(x, np.arange(24), axis=0).entries) == 64
    assert op.Concat(x, np.arange(25), axis=0).entries is None


def test_elements_of_a_weight_are_not_taken_for_known(op):
    program = op.block.program
    assert entries_of(program.constant(ints(2, 3))) == (2, 3)
    assert entries_of(program.create_global_var("counts", ints(2, 3))) is None


# Dimensions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ((3, 1), (4,), (3, 4)),
        (("N", 4), (1, 4), ("N", 4)),
        (("N",), ("N",), ("N",)),
        (("N",), ("M",), (None,)),
        (("N",), (5,), (5,)),
        ((None, 7), (1,), (None, 7)),
        ((), (2, "N"), (2, "N")),
        ((0,), (1,), (0,)),
    ],
)
def test_broadcasting_keeps_what_is_certain(a, b, expected):
    assert broadcast_dims(a, b) == expected
    assert broadcast_dims(b, a) == expected


@pytest.mark.parametrize(
    "dims, target, expected",
    [
        (("N", 4), (0, 2, -1), ("N", 2, 2)),
        (("N", "M", 6), (0, 0, 3, -1), ("N", "M", 3, 2)),
        (("N", 4), (4, -1), (4, "N")),
        (("N", 4), (2, -1), (2, None)),
        (("N", "M"), (-1,), (None,)),
        ((4, 6), (3, -1), (3, 8)),
        ((None, 6), (2, -1), (2, None)),
    ],
)
def test_reshape_finds_what_its_target_leaves_open(op, dims, target, expected):
    assert op.Reshape(given(op, "x", dims), list(target)).dims == expected


def test_reshape_to_a_computed_shape_keeps_its_symbols(op):
    x = given(op, "x", ("N", "T", 12))
    head = op.Shape(x, start=0, end=2)
    assert op.Reshape(x, op.Concat(head, [3, -1], axis=0)).dims == ("N", "T", 3, 4)
    empty = given(op, "empty", ("N", 0, 3))
    assert op.Reshape(empty, op.Concat(op.Shape(empty, end=2), [-1], axis=0)).dims == ("N", 0, 3)


def test_a_zero_in_the_target_copies_a_dimension_unless_it_is_allowed(op):
    target = op.Concat(shape_of(op, "N"), [0], axis=0)
    assert op.Reshape(given(op, "x", ("N", 5)), target).dims == ("N", 5)
    assert op.Reshape(given(op, "y", ("N", 5, 0)), target, allowzero=1).dims == ("N", 0)


def test_shapes_that_are_computed_give_their_results_dimensions(op):
    x = given(op, "x", ("N", 1))
    n = op.Gather(op.Shape(x), 0)
    assert op.Expand(x, op.Concat([5], op.Shape(x, end=1), [3], axis=0)).dims == (5, "N", 3)
    assert op.ConstantOfShape(op.Shape(x)).dims == ("N", 1)
    assert op.Range(0, n, 1).dims == ("N",)
    assert op.Range(1, n, 1).dims == (None,)
    assert op.Tile(given(op, "y", ("N", 1, 3)), op.Concat([1], op.Shape(x, end=1), [2], axis=0)).dims == ("N", "N", 6)
    assert op.Tile(x, [2, 2]).dims == (None, 2)


@pytest.mark.parametrize(
    "start, end, step, expected",
    [
        (0, 2**63 - 1, 1, ("N", 8)),
        (0, 5, 1, (None, 8)),
        (1, 2**63 - 1, 1, (None, 8)),
        (0, 2**63 - 1, 2, (None, 8)),
    ],
)
def test_slices_along_a_symbol_keep_it_only_whole(op, start, end, step, expected):
    assert op.Slice(given(op, "x", ("N", 8)), [start], [end], [0], [step]).dims == expected


def test_an_axis_that_is_not_sliced_stays(op):
    x = given(op, "x", ("N", 8))
    assert op.Slice(x, given(op, "s", (1,), "int64"), given(op, "e", (1,), "int64"), [1]).dims == ("N", None)
    assert op.Slice(x, [0], op.Shape(x, end=1), [0]).dims == ("N", 8)
    assert op.Slice(x, [-1], [-(2**63)], [-1], [-3]).dims == ("N", 3)


@pytest.mark.parametrize(
    "size, kernel, stride, pad, expected", [(7, 3, 2, 0, 3), (8, 3, 2, 0, 4), (4, 1, 2, 0, 2), (5, 2, 3, 1, 2)]
)
def test_a_window_that_would_start_behind_the_data_is_left_out(op, size, kernel, stride, pad, expected):
    pooled = op.MaxPool(given(op, "x", ("N", 2, size)), kernel_shape=[kernel], strides=[stride], pads=[pad, pad], ceil_mode=1)
    starts = [i for i in range(0, size + pad, stride) if i == 0 or i - stride + kernel < size + 2 * pad]
    assert pooled.dims == ("N", 2, expected) == ("N", 2, len(starts))


def test_einsum_repeats_sizes_of_one(op):
    x, y = given(op, "x", (1, 3)), given(op, "y", (5, 3))
    assert op.Einsum(x, y, equation="ij,ij->ji").dims == (3, 5)
    assert op.Einsum(x, given(op, "z", ("N", 3)), equation="ij,kj->ki").dims == ("N", 1)


@pytest.mark.parametrize("onesided, frequencies", [(1, 9), (0, 16)])
def test_half_of_the_frequencies_are_left_out(op, onesided, frequencies):
    found = op.STFT(given(op, "x", ("N", 64, 1)), 8, given(op, "w", (16,)), onesided=onesided)
    assert found.dims[2:] == (frequencies, 2)
