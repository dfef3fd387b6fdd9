"""Making, reshaping, joining, cutting, indexing and searching tensors, against numpy and finite differences."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import ArgumentError, ArgumentTypeError, NotOffered
from tests.function_cases import Case, check_derivatives, check_values, real

X, M, V = real(2, 3, 4), real(3, 4), real(5)
ROWS = np.array([2, 0, 2])
MASK = np.array([[True, False, True, False], [False] * 4, [True, True, False, True]])
TIES = np.array([[3.0, 1.0, 3.0, 2.0], [1.0, 1.0, 4.0, 0.5]])


def take_put(x, i, v, combine):
    found = x.copy()
    for r in range(i.shape[0]):
        for c in range(i.shape[1]):
            found[r, i[r, c]] = combine(found[r, i[r, c]], v[r, c])
    return found


def replaced(x, index, value):
    found = x.copy()
    found[index] = value
    return found


def added_at(x, index, value):
    found = x.copy()
    np.add.at(found, index, value)
    return found


SHAPES = [
    Case("reshape", lambda x: paddle.reshape(x, [0, -1]), [X], lambda x: x.reshape(2, 12)),
    Case("reshape-mixed", lambda x, n: paddle.reshape(x, [n, 3, -1]), [X, np.array([2])], lambda x, n: x, unknown=False),
    Case("view_as", paddle.view_as, [X, real(4, 6)], lambda x, y: x.reshape(4, 6)),
    Case("flatten", paddle.flatten, [X], lambda x: x.reshape(-1)),
    Case("flatten-1", lambda x: paddle.flatten(x, 1), [X], lambda x: x.reshape(2, 12)),
    Case("flatten-01", lambda x: paddle.flatten(x, 0, 1), [X], lambda x: x.reshape(6, 4)),
    Case("flatten-scalar", paddle.flatten, [np.array(2.0)], lambda x: x.reshape(1)),
    Case("unflatten", lambda x: paddle.unflatten(x, 2, [2, -1]), [X], lambda x: x.reshape(2, 3, 2, 2)),
    Case("unflatten-1", lambda x: paddle.unflatten(x, 1, [3, -1]), [X], lambda x: x.reshape(2, 3, 1, 4)),
    Case("squeeze", lambda x: paddle.squeeze(x, [0, 2]), [real(1, 3, 1)], lambda x: x[0, :, 0]),
    Case("squeeze-other", lambda x: paddle.squeeze(x, [0, 1]), [real(1, 3, 1)], lambda x: x[0], unknown=False),
    Case("squeeze-all", paddle.squeeze, [real(1, 3, 1)], lambda x: x[0, :, 0], unknown=False),
    Case("unsqueeze", lambda x: paddle.unsqueeze(x, [0, -1]), [M], lambda x: x[None, ..., None]),
    Case("transpose", lambda x: paddle.transpose(x, [2, 0, 1]), [X], lambda x: x.transpose(2, 0, 1)),
    Case("t", paddle.t, [M], lambda x: x.T),
    Case("moveaxis", lambda x: paddle.moveaxis(x, [0, 1], [-1, 0]), [X], lambda x: np.moveaxis(x, [0, 1], [-1, 0])),
    Case("swapaxes", lambda x: paddle.swapaxes(x, 0, -1), [X], lambda x: x.swapaxes(0, -1)),
    Case("atleast_1d", paddle.atleast_1d, [np.array(2.0)], lambda x: x.reshape(1)),
    Case("atleast_2d", paddle.atleast_2d, [V], lambda x: x[None]),
    Case("atleast_3d", paddle.atleast_3d, [M], lambda x: x[..., None]),
    Case("concat", lambda x, y: paddle.concat([x, y], -1), [M, real(3, 2)], lambda x, y: np.concatenate([x, y], -1)),
    Case("stack", lambda x, y: paddle.stack([x, y], 1), [M, real(3, 4)], lambda x, y: np.stack([x, y], 1)),
    Case("hstack", lambda x, y: paddle.hstack([x, y]), [M, real(3, 2)], lambda x, y: np.hstack([x, y])),
    Case("vstack", lambda x, y: paddle.vstack([x, y]), [V, real(5)], lambda x, y: np.vstack([x, y])),
    Case("dstack", lambda x, y: paddle.dstack([x, y]), [M, real(3, 4)], lambda x, y: np.dstack([x, y])),
    Case("column_stack", lambda x, y: paddle.column_stack([x, y]), [V, real(5)], lambda x, y: np.column_stack([x, y])),
    Case("split", lambda x: paddle.split(x, 2, axis=-1), [X], lambda x: np.split(x, 2, -1)),
    Case("split-sizes", lambda x: paddle.split(x, [1, -1], axis=1), [X], lambda x: np.split(x, [1], 1), unknown=False),
    Case("chunk", lambda x: paddle.chunk(x, 3, axis=1), [X], lambda x: np.split(x, 3, 1)),
    Case("tensor_split", lambda x: paddle.tensor_split(x, 3), [V], lambda x: np.array_split(x, 3), unknown=False),
    Case("tensor_split-at", lambda x: paddle.tensor_split(x, [1, 3]), [V], lambda x: np.split(x, [1, 3]), unknown=False),
    Case("tensor_split-overlap", lambda x: paddle.tensor_split(x, [3, 1]), [V], lambda x: np.split(x, [3, 1]), unknown=False),
    Case("hsplit", lambda x: paddle.hsplit(x, 2), [M], lambda x: np.hsplit(x, 2), unknown=False),
    Case("vsplit", lambda x: paddle.vsplit(x, 3), [M], lambda x: np.vsplit(x, 3), unknown=False),
    Case("dsplit", lambda x: paddle.dsplit(x, 2), [X], lambda x: np.dsplit(x, 2), unknown=False),
    Case("unstack", lambda x: paddle.unstack(x, 1), [X], lambda x: list(np.moveaxis(x, 1, 0)), unknown=False),
    Case("unbind", paddle.unbind, [real(1, 3)], lambda x: [x[0]], unknown=False),
    Case("slice", lambda x: paddle.slice(x, [1, 2], [-2, 1], [3, 100]), [X], lambda x: x[:, -2:3, 1:]),
    Case("slice-variable", lambda x, i: paddle.slice(x, [0], [i], [3]), [M, np.array([1])], lambda x, i: x[1:3]),
    Case("strided_slice", lambda x: paddle.strided_slice(x, [2], [3], [0], [-2]), [X], lambda x: x[..., 3:0:-2]),
    Case("crop", lambda x: paddle.crop(x, [2, -1], [1, 1]), [M], lambda x: x[1:3, 1:]),
    Case("expand", lambda x: paddle.expand(x, [2, -1, 4]), [real(3, 1)], lambda x: np.broadcast_to(x, (2, 3, 4))),
    Case("expand_as", paddle.expand_as, [real(4), M], lambda x, y: np.broadcast_to(x, y.shape)),
    Case("broadcast_tensors", lambda x, y: paddle.broadcast_tensors([x, y]), [real(3, 1), real(4)], lambda x, y: np.broadcast_arrays(x, y)),
    Case("tile", lambda x: paddle.tile(x, [2, 1, 2]), [M], lambda x: np.tile(x, [2, 1, 2])),
    Case("tile-fewer", lambda x: paddle.tile(x, [2]), [M], lambda x: np.tile(x, 2)),
    Case("repeat", lambda x: paddle.repeat_interleave(x, 2, 1), [X], lambda x: x.repeat(2, 1)),
    Case("repeat-each", lambda x, n: paddle.repeat_interleave(x, n, 0), [M, np.array([2, 0, 1])], lambda x, n: x.repeat(n, 0)),
    Case("flip", lambda x: paddle.flip(x, [0, 2]), [X], lambda x: np.flip(x, (0, 2))),
    Case("roll", lambda x: paddle.roll(x, [1, -2], [0, 2]), [X], lambda x: np.roll(x, (1, -2), (0, 2))),
    Case("roll-flat", lambda x: paddle.roll(x, 5), [M], lambda x: np.roll(x, 5)),
    *(Case(f"rot90-{k}", lambda x, k=k: paddle.rot90(x, k), [M], lambda x, k=k: np.rot90(x, k)) for k in range(-1, 4)),
    Case("unfold", lambda x: paddle.unfold(x, 0, 3, 2), [real(5, 2)], lambda x: np.stack([x[0:3], x[2:5]]).transpose(0, 2, 1), unknown=False),
    Case("tril", lambda x: paddle.tril(x, -1), [M], lambda x: np.tril(x, -1)),
    Case("triu", lambda x: paddle.triu(x, 1), [X], lambda x: np.triu(x, 1)),
    *(Case(f"diag-{k}", lambda x, k=k: paddle.diag(x, k), [V], lambda x, k=k: np.diag(x, k)) for k in (-2, 0, 1)),
    *(Case(f"diagonal-{k}", lambda x, k=k: paddle.diagonal(x, k, 2, 0), [X], lambda x, k=k: np.diagonal(x, k, 2, 0)) for k in (-1, 0, 1)),
    Case("diag-padding", lambda x: paddle.diag(x, 1, 0.5), [V], lambda x: np.diag(x, 1) + 0.5 * (1 - np.eye(6, k=1))),
    Case("diagflat", lambda x: paddle.diagflat(x, -1), [real(2, 2)], lambda x: np.diagflat(x, -1)),
    Case("diag_embed", paddle.diag_embed, [M], lambda x: np.stack([np.diag(row) for row in x])),
    Case("diag_embed-axes", lambda x: paddle.diag_embed(x, -1, 0, 2), [M], lambda x: np.stack([np.diag(row, -1) for row in x], 1)),
    Case("trace", lambda x: paddle.trace(x, 1), [M], lambda x: np.trace(x, 1)),
    Case("block_diag", lambda x, y: paddle.block_diag([x, y]), [real(2, 3), real(2)],
         lambda x, y: np.block([[x, np.zeros((2, 2))], [np.zeros((1, 3)), y[None]]]), unknown=False),
    Case("meshgrid", lambda x, y: paddle.meshgrid(x, y), [V, real(2)], lambda x, y: np.meshgrid(x, y, indexing="ij")),
    Case("cartesian_prod", lambda x, y: paddle.cartesian_prod([x, y]), [real(3), real(2)],
         lambda x, y: np.array([(a, b) for a in x for b in y])),
    Case("combinations", lambda x: paddle.combinations(x), [real(3)], lambda x: np.array([x[[0, 1]], x[[0, 2]], x[[1, 2]]]), unknown=False),
    Case("vander", lambda x: paddle.vander(x, 3), [V], lambda x: np.vander(x, 3)),
    Case("vander-up", lambda x: paddle.vander(x, increasing=True), [V], lambda x: np.vander(x, increasing=True), unknown=False),
]  # fmt: skip
INDICES = np.array([[0, 2], [1, 1], [3, 0]])
PICKS = [
    Case("gather", lambda x, i: paddle.gather(x, i), [M, ROWS], lambda x, i: x[i]),
    Case("gather-1", lambda x, i: paddle.gather(x, i, 1), [M, ROWS], lambda x, i: x[:, i]),
    Case("gather_nd", paddle.gather_nd, [X, np.array([[1, 2], [0, 0]])], lambda x, i: x[[1, 0], [2, 0]], unknown=False),
    Case("index_select", lambda x, i: paddle.index_select(x, i, 2), [X, ROWS], lambda x, i: x[..., i]),
    Case("index_sample", paddle.index_sample, [M, INDICES], lambda x, i: np.take_along_axis(x, i, 1)),
    Case("take_along_axis", lambda x, i: paddle.take_along_axis(x, i, 1), [M, INDICES], lambda x, i: np.take_along_axis(x, i, 1)),
    Case("take_along_axis-wide", lambda x, i: paddle.take_along_axis(x, i, 0), [M, INDICES[:, :1].T.copy()[:, :1]], lambda x, i: np.take_along_axis(x, np.broadcast_to(i, (1, 4)), 0)),
    Case("put", lambda x, i, v: paddle.put_along_axis(x, i, v, 1), [M, INDICES[:, :1], real(3, 1)], lambda x, i, v: take_put(x, i, v, lambda a, b: b)),
    Case("put-number", lambda x, i: paddle.put_along_axis(x, i, 9.0, 1), [M, INDICES], lambda x, i: take_put(x, i, np.full(i.shape, 9.0), lambda a, b: b)),
    Case("put-add", lambda x, i, v: paddle.put_along_axis(x, i, v, 1, "add"), [M, INDICES, real(3, 2)], lambda x, i, v: take_put(x, i, v, np.add)),
    Case("put-mul", lambda x, i, v: paddle.put_along_axis(x, i, v, 1, "mul"), [M, INDICES[:, :1], real(3, 1)], lambda x, i, v: take_put(x, i, v, np.multiply)),
    Case("put-amax", lambda x, i, v: paddle.put_along_axis(x, i, v, 1, "amax"), [M, INDICES, real(3, 2)], lambda x, i, v: take_put(x, i, v, np.maximum), gradient=False),
    Case("put-mean", lambda x, i, v: paddle.put_along_axis(x, i, v, 1, "mean"), [M, INDICES[:, :1], real(3, 1)], lambda x, i, v: take_put(x, i, v, lambda a, b: (a + b) / 2)),
    Case("put-mean-alone", lambda x, i, v: paddle.put_along_axis(x, i, v, 1, "mean", include_self=False), [M, INDICES[:, :1], real(3, 1)],
         lambda x, i, v: take_put(x, i, v, lambda a, b: b)),
    Case("scatter", paddle.scatter, [M, np.array([2, 0]), real(2, 4)], lambda x, i, u: replaced(x, i, u), unknown=False),
    Case("scatter-add", lambda x, i, u: paddle.scatter(x, i, u, overwrite=False), [M, ROWS, real(3, 4)],
         lambda x, i, u: added_at(replaced(x, i, 0), i, u), unknown=False),
    Case("scatter_nd_add", paddle.scatter_nd_add, [X, np.array([[1, 2], [0, 0], [1, 2]]), real(3, 4)], lambda x, i, u: added_at(x, tuple(i.T), u), unknown=False),
    Case("scatter_nd", lambda i, u: paddle.scatter_nd(i, u, [3, 5]), [np.array([[1, 4], [0, 0], [1, 4]]), real(3)],
         lambda i, u: added_at(np.zeros((3, 5)), tuple(i.T), u), unknown=False),
    Case("index_add", lambda x, i, v: paddle.index_add(x, i, 1, v), [M, ROWS, real(3, 3)], lambda x, i, v: added_at(x, (slice(None), i), v)),
    Case("index_fill", lambda x, i: paddle.index_fill(x, i, 1, 0.5), [M, ROWS], lambda x, i: replaced(x, (slice(None), i), 0.5)),
    Case("index_put", lambda x, i, j, v: paddle.index_put(x, (i, j), v), [M, np.array([2, 0]), np.array([1, 3]), real(2)], lambda x, i, j, v: replaced(x, (i, j), v)),
    Case("index_put-add", lambda x, i, v: paddle.index_put(x, (i,), v, accumulate=True), [M, ROWS, real(4)], lambda x, i, v: added_at(x, i, v)),
    Case("index_put-mask", lambda x, m, v: paddle.index_put(x, (m,), v), [M, MASK, np.array([0.5])], lambda x, m, v: replaced(x, m, v)),
    *(Case(f"take-{mode}", lambda x, i, m=mode: paddle.take(x, i, m), [M, np.array([[0, 15], [-14, 3]])], lambda x, i, m=mode: np.take(x, i, mode=m)) for mode in ("wrap", "clip")),
    Case("masked_select", paddle.masked_select, [M, MASK], lambda x, m: x[m]),
    Case("masked_select-row", paddle.masked_select, [M, MASK[0]], lambda x, m: x[:, m].reshape(-1)),
    Case("masked_fill", lambda x, m: paddle.masked_fill(x, m, 0.5), [M, MASK], lambda x, m: np.where(m, 0.5, x)),
    Case("masked_scatter", paddle.masked_scatter, [M, MASK, real(9)], lambda x, m, v: replaced(x, m, v[: m.sum()])),
    Case("where", paddle.where, [MASK, M, real(4)], np.where),
    Case("where-number", lambda c, x: paddle.where(c, x, 0.0), [MASK, M], lambda c, x: np.where(c, x, 0)),
    Case("sort", lambda x: paddle.sort(x, 0), [M], lambda x: np.sort(x, 0)),
    Case("sort-down", lambda x: paddle.sort(x, descending=True), [M], lambda x: np.sort(x)[:, ::-1]),
    Case("topk", lambda x: paddle.topk(x, 2), [M], lambda x: (np.sort(x)[:, :-3:-1], np.argsort(x)[:, :-3:-1])),
    Case("topk-least", lambda x: paddle.topk(x, 2, 0, largest=False), [M], lambda x: (np.sort(x, 0)[:2], np.argsort(x, 0)[:2])),
    Case("kthvalue", lambda x: paddle.kthvalue(x, 2, 0, True), [M], lambda x: (np.sort(x, 0)[1:2], np.argsort(x, 0)[1:2])),
    Case("mode", paddle.mode, [TIES], (np.array([3.0, 1.0]), np.array([2, 1])), gradient=False),
    Case("slice_scatter", lambda x, v: paddle.slice_scatter(x, v, [1], [0], [4], [2]), [M, real(3, 2)], lambda x, v: replaced(x, (slice(None), slice(0, 4, 2)), v)),
    Case("select_scatter", lambda x, v: paddle.select_scatter(x, v, 1, 2), [M, real(3)], lambda x, v: replaced(x, (slice(None), 2), v)),
]  # fmt: skip
PLAIN = [
    Case("argmax", lambda x: paddle.argmax(x, 1), [TIES], lambda x: x.argmax(1)),
    Case("argmin-flat", lambda x: paddle.argmin(x, keepdim=True), [TIES], np.array([[7]])),
    Case("argmax-int32", lambda x: paddle.argmax(x, dtype="int32"), [TIES], np.array(6, np.int32)),
    Case("argsort", lambda x: paddle.argsort(x, 0), [M], lambda x: np.argsort(x, 0)),
    Case("nonzero", paddle.nonzero, [MASK], lambda x: np.argwhere(x)),
    Case("nonzero-tuple", lambda x: paddle.nonzero(x, True), [MASK], np.nonzero),
    Case("searchsorted", paddle.searchsorted, [np.array([1.0, 2.0, 2.0, 5.0]), np.array([[2.0, 0.0], [9.0, 3.0]])], lambda s, v: np.searchsorted(s, v)),
    Case("bucketize", lambda v, s: paddle.bucketize(v, s, right=True), [np.array([2.0, 0.0]), np.array([1.0, 2.0, 2.0])], lambda v, s: np.searchsorted(s, v, "right")),
    Case("unique", lambda x: paddle.unique(x, True, True, True), [np.array([3, 1, 3, 2])],
         lambda x: np.unique(x, True, True, True)),
    Case("unique-axis", lambda x: paddle.unique(x, axis=0), [TIES[[1, 0, 1]]], lambda x: np.unique(x, axis=0)),
    Case("unique_consecutive", lambda x: paddle.unique_consecutive(x, True, True), [np.array([1, 1, 2, 2, 2, 1])],
         (np.array([1, 2, 1]), np.array([0, 0, 1, 1, 1, 2]), np.array([2, 3, 1]))),
    Case("unique_consecutive-axis", lambda x: paddle.unique_consecutive(x, axis=0), [TIES[[1, 1, 0]]], TIES[[1, 0]]),
    Case("shard_index", lambda i: paddle.shard_index(i, 20, 2, 1), [np.array([[16], [1]])], np.array([[6], [-1]])),
    Case("zeros_like", paddle.zeros_like, [M], np.zeros_like), Case("ones_like", lambda x: paddle.ones_like(x, "int64"), [M], lambda x: np.ones(x.shape, np.int64)),
    Case("full_like", lambda x: paddle.full_like(x, 2.5), [M], lambda x: np.full(x.shape, 2.5)),
    Case("full-variable", lambda n: paddle.full([n, 2], 1.5), [np.array(3)], np.full((3, 2), 1.5)),
    Case("arange-variable", lambda n: paddle.arange(1, n, 2), [np.array(8)], np.arange(1, 8, 2)),
    Case("linspace-variable", lambda n: paddle.linspace(0, 1, n), [np.array(5)], np.linspace(0, 1, 5)),
    Case("cast", lambda x: paddle.cast(x, "int32"), [M], lambda x: x.astype(np.int32)),
]  # fmt: skip
MADE = {
    "full": (lambda: paddle.full([2, 3], 7, "int32"), np.full((2, 3), 7, np.int32)),
    "zeros": (lambda: paddle.zeros([2, 0]), np.zeros((2, 0), np.float32)),
    "ones": (lambda: paddle.ones([2]), np.ones(2, np.float32)),
    "empty": (lambda: paddle.empty([2]), np.zeros(2, np.float32)),
    "arange": (lambda: paddle.arange(5), np.arange(5)),
    "arange-float": (lambda: paddle.arange(1.0, 2.0, 0.25), np.arange(1.0, 2.0, 0.25, np.float32)),
    "linspace": (lambda: paddle.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
    "logspace": (lambda: paddle.logspace(0, 2, 3), np.array([1, 10, 100], np.float32)),
    "eye": (lambda: paddle.eye(2, 3), np.eye(2, 3, dtype=np.float32)),
    "tril_indices": (lambda: paddle.tril_indices(3, 4, 1), np.array(np.tril_indices(3, 1, 4))),
    "triu_indices": (lambda: paddle.triu_indices(3), np.array(np.triu_indices(3))),
    "assign": (lambda: paddle.assign([[1.0, 2.0]]), np.array([[1, 2]], np.float32)),
    "fftfreq": (lambda: paddle.fft.fftfreq(5, 0.5), np.fft.fftfreq(5, 0.5).astype(np.float32)),
    "rfftfreq": (lambda: paddle.fft.rfftfreq(5), np.fft.rfftfreq(5).astype(np.float32)),
}


@pytest.mark.parametrize("case", SHAPES + PICKS + PLAIN, ids=repr)
def test_values(case):
    check_values(case)


@pytest.mark.parametrize("case", [c for c in SHAPES + PICKS + PLAIN if c.unknown], ids=repr)
def test_values_with_unknown_dimensions(case):
    check_values(case, unknown=True)


@pytest.mark.parametrize("case", [c for c in SHAPES + PICKS if c.gradient], ids=repr)
def test_gradients(case):
    check_derivatives(case)


@pytest.mark.parametrize("name", MADE)
def test_made_tensors(name):
    make, expected = MADE[name]
    np.testing.assert_allclose(make().numpy(), expected, rtol=1e-6)
    paddle.enable_static()
    (found,) = paddle.Executor().run(fetch_list=[make()])
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# Index expressions ---------------------------------------------------------------------------------------------------

J, K = np.array([1, 0, -1]), np.array([[2, 0, 1]])
INDICES = [
    1, -1, slice(None), slice(1, None), slice(None, None, 2), slice(None, None, -1), slice(-1, 0, -2), Ellipsis, None, (0, 1), (0, 1, 2),
    (slice(None), 1), (Ellipsis, 1), (1, Ellipsis), (None, 1, None), (slice(None), None, slice(1, 3)), (Ellipsis, None, slice(None, None, 3)),
    [1, 0, 1], J, (slice(None), J), (Ellipsis, J), (J, J), (J, K), (slice(None), J, K), (J, slice(None), K), (0, slice(None), J),
    (slice(None), 1, J), (J, None, K), (None, J, J), (J, 1), (slice(0, 1), J, slice(None, None, 2)), (K % 2,), (1, J, K), (J, Ellipsis),
    (slice(None), slice(None), K), (slice(None), None, J), np.array([True, False]), (slice(None), np.array([True, False, True])),
    np.arange(6).reshape(2, 3) % 2 == 0, (1, np.array([True, False, True]), slice(1, 3)), np.zeros((2, 3, 4), bool), slice(2, 2), [],
]  # fmt: skip


def texts(index):
    return str(index).replace("\n", "").replace("slice", "")[:60]


@pytest.mark.parametrize("index", INDICES, ids=texts)
@pytest.mark.parametrize("unknown", [False, True])
def test_reading_by_index_is_numpys(index, unknown):
    x = static.data("x", [None] * 3 if unknown else [2, 3, 4])
    (found,) = paddle.Executor().run(feed={"x": X.astype(np.float32)}, fetch_list=[x[index]])
    expected = X.astype(np.float32)[index]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("index", INDICES, ids=texts)
def test_replacing_by_index_is_numpys(index):
    x = static.data("x", [None, 3, 4])
    (found,) = paddle.Executor().run(feed={"x": X.astype(np.float32)}, fetch_list=[static.setitem(x, index, 0.5)])
    np.testing.assert_array_equal(found, replaced(X.astype(np.float32), index, 0.5))


@pytest.mark.parametrize("index", [(slice(None), 1), (J, K), (slice(None, None, -1), J), np.arange(6).reshape(2, 3) > 2], ids=texts)
def test_gradients_of_reading_and_replacing(index):
    check_derivatives(Case("getitem", lambda x: x[index], [X], None))
    value = real(*X[index].shape)
    if not isinstance(index, tuple) or not any(i is J for i in index):
        check_derivatives(Case("setitem", lambda x, v: static.setitem(x, index, v), [X, value], None))


def test_variables_index_like_arrays():
    x, i, m = static.data("x", [2, 3, 4]), static.data("i", [3], "int32"), static.data("m", [2], "bool")
    k = static.data("k", [], "int64")
    feeds = {"x": X.astype(np.float32), "i": J.astype(np.int32), "m": np.array([False, True]), "k": np.array(2)}
    found = paddle.Executor().run(feed=feeds, fetch_list=[x[:, i], x[m], x[0, k], x[:, :k]])
    x = feeds["x"]
    for got, expected in zip(found, (x[:, J], x[[False, True]], x[0, 2], x[:, :2]), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_impossible_indices_are_refused():
    x = static.data("x", [2, 3])
    for index in (2, (0, 0, 0), (Ellipsis, Ellipsis), slice(None, None, 0)):
        with pytest.raises(ArgumentError):
            x[index]
    with pytest.raises(ArgumentTypeError):
        x["a"]
    with pytest.raises(RuntimeError, match="setitem"):
        x[0] = 1.0


def test_a_variable_iterates_over_a_known_first_dimension():
    assert [row.shape for row in static.data("x", [2, 3])] == [(3,), (3,)]
    with pytest.raises(ArgumentTypeError):
        iter(static.data("y", [None, 3]))


def test_errors_name_the_function():
    x = static.data("x", [2, 3])
    for call in (
        lambda: paddle.transpose(x, [0]),
        lambda: paddle.split(x, 2, axis=1),
        lambda: paddle.flatten(x, 1, 0),
        lambda: paddle.topk(x, 4),
        lambda: paddle.t(static.data("z", [1, 1, 1])),
        lambda: paddle.put_along_axis(x, x, x, 1, "other"),
        lambda: paddle.where(x, x),
    ):
        with pytest.raises(ArgumentError):
            call()
    with pytest.raises(NotOffered, match="complex"):
        paddle.complex(x, x)
