"""Products, norms and solvers against numpy and finite differences; random numbers by their statistics; method forms."""

import importlib

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.internal.refusals import REFUSED
from onnxgrad.tensor.methods import METHODS
from tests.function_cases import Case, check_derivatives, check_values, real

A, B = real(3, 4), real(4, 2)
# The pivots of these are not the diagonal elements.
S = np.array([[0.1, 2.0, 1.0], [3.0, 0.2, -1.0], [0.5, 1.0, 0.3]])
BATCH = np.stack([S, S[::-1] + 0.3])
SPD = np.stack([S @ S.T + np.eye(3), 2 * np.eye(3) + 0.3])
L = np.linalg.cholesky(SPD)
Q = np.linalg


def p_norm(p, axis=None, keepdims=False):
    return lambda x: (np.abs(x) ** p).sum(axis=axis, keepdims=keepdims) ** (1 / p)


CASES = [
    Case("matmul", paddle.matmul, [A, B], np.matmul),
    Case("matmul-transposed", lambda x, y: paddle.matmul(x, y, True, True), [real(2, 4, 3), real(2, 4)], lambda x, y: x.swapaxes(1, 2) @ y.T),
    Case("mm", paddle.mm, [A, B], np.matmul),
    Case("bmm", paddle.bmm, [real(2, 3, 4), real(2, 4, 2)], np.matmul),
    Case("mv", paddle.mv, [A, real(4)], np.matmul),
    Case("dot", paddle.dot, [A, real(3, 4)], lambda x, y: (x * y).sum(-1)),
    Case("vecdot", lambda x, y: paddle.vecdot(x, y, 0), [A, real(3, 4)], lambda x, y: (x * y).sum(0)),
    Case("outer", paddle.outer, [A, real(2)], np.outer),
    Case("inner", paddle.inner, [A, real(2, 4)], np.inner),
    Case("tensordot", paddle.tensordot, [real(2, 3, 4), real(3, 4, 2)], np.tensordot),
    Case("tensordot-axes", lambda x, y: paddle.tensordot(x, y, [[1, 2], [1, 0]]), [real(2, 3, 4), real(4, 3)],
         lambda x, y: np.tensordot(x, y, [[1, 2], [1, 0]])),
    Case("einsum", lambda x, y: paddle.einsum("ij, jk -> ki", x, y), [A, B], lambda x, y: (x @ y).T),
    Case("multi_dot", lambda x, y, z: paddle.linalg.multi_dot([x, y, z]), [A, B, real(2, 5)], lambda x, y, z: x @ y @ z),
    Case("kron", paddle.kron, [A, real(2, 2)], np.kron),
    Case("kron-ranks", paddle.kron, [real(3), real(2, 2)], np.kron),
    Case("cross", paddle.cross, [real(3, 4), real(3, 4)], lambda x, y: np.cross(x, y, axis=0), unknown=False),
    Case("addmm", lambda c, x, y: paddle.addmm(c, x, y, 0.5, 2.0), [real(2), A, B], lambda c, x, y: 0.5 * c + 2 * x @ y),
    Case("baddbmm", lambda c, x, y: paddle.baddbmm(c, x, y, 0.5, 2.0), [real(2, 3, 2), real(2, 3, 4), real(2, 4, 2)], lambda c, x, y: 0.5 * c + 2 * x @ y),
    Case("matrix_transpose", paddle.matrix_transpose, [real(2, 3, 4)], lambda x: x.swapaxes(1, 2)),
    *(Case(f"norm-{p}", lambda x, p=p: paddle.norm(x, p, 1, True), [A], p_norm(p, 1, True)) for p in (1, 2, 3, 0.5)),
    Case("norm-fro", lambda x: paddle.norm(x, "fro", [0, 1]), [A], lambda x: Q.norm(x)),
    Case("norm-inf", lambda x: paddle.norm(x, float("inf")), [A], lambda x: np.abs(x).max()),
    Case("norm--inf", lambda x: paddle.norm(x, -float("inf"), 0), [A], lambda x: np.abs(x).min(0)),
    Case("norm-0", lambda x: paddle.linalg.vector_norm(x, 0), [np.array([0.0, 2.0, 3.0])], np.array(2.0), gradient=False),
    *(Case(f"matrix_norm-{p}", lambda x, p=p: paddle.linalg.matrix_norm(x, p), [A], lambda x, p=p: Q.norm(x, p))
      for p in ("fro", 1, -1, np.inf, -np.inf)),
    Case("dist", lambda x, y: paddle.dist(x, y, 3), [A, real(4)], lambda x, y: p_norm(3)(x - y)),
    Case("cdist", paddle.cdist, [A, real(2, 4)], lambda x, y: Q.norm(x[:, None] - y, axis=-1)),
    Case("renorm", lambda x: paddle.renorm(x, 2.0, 0, 1.9), [A],
         lambda x: x * np.minimum(1, 1.9 / Q.norm(x, axis=1, keepdims=True))),
    Case("cov", paddle.linalg.cov, [A], np.cov),
    Case("cov-weights", lambda x, f, a: paddle.linalg.cov(x, False, True, f, a), [A, np.array([1, 2, 1]), np.array([0.5, 1.0, 2.0])],
         lambda x, f, a: np.cov(x, rowvar=False, fweights=f, aweights=a), gradient=False),
    Case("corrcoef", paddle.linalg.corrcoef, [A], np.corrcoef, unknown=False),
    Case("det", paddle.linalg.det, [BATCH], Q.det, unknown=False),
    Case("slogdet", paddle.linalg.slogdet, [BATCH], lambda x: np.stack(Q.slogdet(x)), unknown=False),
    Case("inv", paddle.linalg.inv, [BATCH], Q.inv, unknown=False, second=True),
    Case("solve", paddle.linalg.solve, [S, real(3, 2)], Q.solve, unknown=False),
    Case("solve-vector", paddle.linalg.solve, [S, real(3)], Q.solve, unknown=False),
    Case("solve-broadcast", paddle.linalg.solve, [S, real(2, 3, 2)], Q.solve, unknown=False),
    Case("solve-right", lambda x, y: paddle.linalg.solve(x, y, left=False), [S, real(2, 3)], lambda x, y: y @ Q.inv(x), unknown=False),
    Case("cholesky", lambda x: paddle.linalg.cholesky(paddle.matmul(x, x, transpose_y=True)), [SPD], lambda x: Q.cholesky(x @ x.swapaxes(1, 2)), unknown=False),
    Case("cholesky-upper", lambda x: paddle.linalg.cholesky(x, upper=True), [SPD], lambda x: Q.cholesky(x).swapaxes(1, 2), unknown=False, gradient=False),
    Case("cholesky_solve", lambda b, x: paddle.linalg.cholesky_solve(b, x), [real(3, 2), L[0]], lambda b, x: Q.solve(x @ x.T, b), unknown=False),
    Case("cholesky_inverse", paddle.linalg.cholesky_inverse, [L[0]], lambda x: Q.inv(x @ x.T), unknown=False),
    Case("triangular", lambda x, y: paddle.linalg.triangular_solve(x, y), [S + 3 * np.eye(3), real(3, 2)], lambda x, y: Q.solve(np.triu(x), y), unknown=False),
    Case("triangular-unit", lambda x, y: paddle.linalg.triangular_solve(x, y, False, True, True), [S, real(3, 2)],
         lambda x, y: Q.solve((np.tril(x, -1) + np.eye(3)).T, y), unknown=False),
    *(Case(f"power-{n}", lambda x, n=n: paddle.linalg.matrix_power(x, n), [S], lambda x, n=n: Q.matrix_power(x, n), unknown=False, exact=2e-4) for n in (-2, 0, 1, 2, 5)),
    *(Case(f"qr-{x.shape}-{mode}", lambda x, m=mode: paddle.linalg.qr(x, m), [x], lambda x, m=mode: Q.qr(x, m), unknown=False)
      for x in (S, real(4, 3), real(2, 4)) for mode in ("reduced", "complete", "r")),
    Case("fftshift", paddle.fft.fftshift, [A], np.fft.fftshift, unknown=False),
    Case("ifftshift", lambda x: paddle.fft.ifftshift(x, 0), [A], lambda x: np.fft.ifftshift(x, 0), unknown=False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_values(case):
    check_values(case)


@pytest.mark.parametrize("case", [c for c in CASES if c.unknown], ids=repr)
def test_values_with_unknown_dimensions(case):
    check_values(case, unknown=True)


@pytest.mark.parametrize("case", [c for c in CASES if c.gradient], ids=repr)
def test_gradients(case):
    check_derivatives(case)


def test_householder_product_builds_the_factor_that_qr_stores():
    x = real(4, 3)
    stored, tau = np.linalg.qr(x, "raw")
    case = Case("householder_product", paddle.linalg.householder_product, [stored.T.copy(), tau], np.linalg.qr(x)[0])
    check_values(case)


def test_unknown_sizes_are_refused_where_steps_are_unrolled():
    with pytest.raises(ArgumentError, match="known size"):
        paddle.linalg.inv(static.data("x", [None, None]))
    with pytest.raises(ArgumentError, match="square"):
        paddle.linalg.inv(static.data("y", [2, 3]))
    with pytest.raises(ArgumentError, match="transposed"):
        paddle.linalg.matrix_transpose(static.data("v", [3]))


# Refused functions, methods, operators -------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", REFUSED)
def test_what_onnx_cannot_express_says_why(namespace):
    module = importlib.import_module(f"onnxgrad{namespace.removeprefix('paddle')}")
    for name, reason in REFUSED[namespace].items():
        with pytest.raises(NotOffered) as caught:
            getattr(module, name)(1)
        assert name in str(caught.value) and reason in str(caught.value)


def test_every_method_is_a_function_of_the_same_name():
    x = static.data("x", [None, 3])
    for name in METHODS:
        assert callable(getattr(x, name)), name
    assert x.mean(axis=0).shape == (3,) and x.reshape([3, -1]).shape == (3, -1)
    assert x.unsqueeze(0).astype("int64").sum().dtype == "int64"
    assert x.T.shape == (3, -1) and x.mT.shape == (3, -1) and x.size().shape == ()
    assert Variable.dim(x) == x.ndim == 2


def test_forms_in_place_warn_and_give_a_new_variable():
    x = static.data("x", [2])
    with pytest.warns(UserWarning, match=r"add_\(\) is the same as add\(\)"):
        y = x.add_(1.0)
    assert y is not x
    with pytest.warns(UserWarning):
        F.relu_(x)
    with pytest.warns(UserWarning):
        filled = paddle.zero_(x) + x.fill_(2.5)
    (found,) = paddle.Executor().run(feed={"x": np.ones(2, np.float32)}, fetch_list=[filled])
    np.testing.assert_array_equal(found, [2.5, 2.5])


def test_operators():
    x, n, b = static.data("x", [4]), static.data("n", [4], "int64"), static.data("b", [4], "bool")
    feeds = {
        "x": np.array([-1.5, 0.5, 2.0, 7.0], np.float32),
        "n": np.array([-7, 4, 5, 12]),
        "b": np.array([True, False, True, True]),
    }
    u, k, t = feeds.values()
    pairs = [
        (x % 2.0, u % 2), (2.0 // x, 2.0 // u), (n // 2, k // 2), (n % 3, k % 3), (7 % n, 7 % k), (n & 6, k & 6), (n | 1, k | 1),
        (n ^ 3, k ^ 3), (~n, ~k), (~b, ~t), (b & b, t & t), (b | ~b, t | ~t), (n << 2, k << 2), (n >> 1, k >> 1), (+x, u), (-x, -u),
        (abs(x), abs(u)), (x @ x, u @ u), (x == 0.5, u == 0.5), (x != 0.5, u != 0.5), (1 / n, (1 / k).astype(np.float32)), (n + 0.5, (k + 0.5).astype(np.float32)),
    ]  # fmt: skip
    found = paddle.Executor().run(feed=feeds, fetch_list=[v for v, _ in pairs])
    for got, (_, expected) in zip(found, pairs, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6)


# Random numbers ------------------------------------------------------------------------------------------------------


def sample(make):
    paddle.seed(5)
    return paddle.Executor().run(fetch_list=[make()])[0]


def test_uniform_and_normal_numbers_have_their_moments():
    paddle.enable_static()
    for make, mean, std in (
        (lambda: paddle.uniform([100, 100], min=1.0, max=3.0), 2.0, 2 / np.sqrt(12)),
        (lambda: paddle.rand([100, 100]), 0.5, 1 / np.sqrt(12)),
        (lambda: paddle.randn([100, 100]), 0.0, 1.0),
        (lambda: paddle.gaussian([100, 100], 2.0, 3.0), 2.0, 3.0),
        (lambda: paddle.normal(paddle.full([100, 100], 2.0), 0.5), 2.0, 0.5),
    ):
        found = sample(make)
        assert found.shape == (100, 100) and found.dtype == np.float32
        assert abs(found.mean() - mean) < 0.05 * max(std, 1) and abs(found.std() - std) < 0.05 * std


def test_integers_permutations_and_choices():
    paddle.enable_static()
    found = sample(lambda: paddle.randint(2, 6, [2000]))
    assert found.dtype == np.int64 and set(found) == {2, 3, 4, 5}
    assert sorted(sample(lambda: paddle.randperm(9))) == list(range(9))
    assert sorted(sample(lambda: paddle.shuffle(paddle.arange(7)))) == list(range(7))
    assert abs(sample(lambda: paddle.bernoulli(paddle.full([4000], 0.3))).mean() - 0.3) < 0.03
    assert abs(sample(lambda: paddle.binomial(paddle.full([4000], 10, "int64"), paddle.full([4000], 0.3))).mean() - 3) < 0.1
    weights = paddle.assign(np.array([0.0, 1.0, 3.0], np.float32))
    sampled = sample(lambda: paddle.multinomial(paddle.assign(np.array([0.0, 1.0, 3.0], np.float32)), 4000, True))
    assert 0 not in sampled and abs((sampled == 2).mean() - 0.75) < 0.03
    assert sorted(sample(lambda: paddle.multinomial(weights, 2))) == [1, 2]


def test_a_seed_makes_draws_reproducible():
    paddle.enable_static()
    first = sample(lambda: paddle.rand([8]))
    with static.program_guard(paddle.Program()):
        again = sample(lambda: paddle.rand([8]))
    np.testing.assert_array_equal(first, again)


def test_a_power_takes_as_few_products_as_repeated_squaring_needs():
    paddle.enable_static()
    paddle.linalg.matrix_power(static.data("x", [3, 3]), 5)
    assert [op.type for op in static.default_main_program().global_block().ops].count("MatMul") == 3
