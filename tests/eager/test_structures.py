"""A recorded structure is built once for all its sizes, and what was built for others gives the same values."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import nn
from onnxgrad.eager import evaluate, tape, threads
from onnxgrad.eager.structures import Form, NeedsSizes, Structures
from onnxgrad.errors import FeedError


def forget():
    evaluate.sessions.clear()
    tape.templates.clear()


def array(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def _attention(draw, n):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    return lambda x: layer(x), array(2, n, 8, seed=draw)


def _images(draw, n):
    layers = nn.Sequential(nn.Conv2D(3, 4, 3, padding=1), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(3, 2, 1), nn.Flatten())
    return lambda x: layers(x).mean(axis=1), array(n % 3 + 2, 3, n, n + 1, seed=draw)


def _recurrent(draw, n):
    layer = nn.GRU(4, 5)
    return lambda x: layer(x)[0], array(2, n, 4, seed=draw)


def _halves(draw, n):
    # 4 and 5 have the same half.
    return lambda x: paddle.concat([x[: x.shape[0] // 2] * 2.0, x.flip(0)[1:]]) / x.shape[0], array(n, 3, seed=draw)


def _two_sizes(draw, n):
    # Equal at first, and not always.
    other = paddle.to_tensor(array({4: 4, 5: 5}.get(n, n + 1), 3, seed=7))
    return lambda x: F.softmax(x @ other.t(), axis=-1) @ other, array(n, 3, seed=draw)


def _broadcast(draw, n):
    other = paddle.to_tensor(array(6, 3, seed=7))
    return lambda x: x * other + x, array(1 if n % 2 else 6, 3, seed=draw)


def _positions(draw, n):
    return lambda x: paddle.gather(x, paddle.arange(n - 1)) + x[n - 2] * paddle.argmax(x), array(n, 3, seed=draw)


CASES = {function.__name__: function for function in (_attention, _images, _recurrent, _halves, _two_sizes, _broadcast, _positions)}
SIZES = (4, 5, 7, 12, 6, 4)


def _values(case, n):
    """The result, and the gradients of its weighted sum by the input and all parameters of the layers."""
    paddle.seed(3)
    function, given = CASES[case](1, n)
    x = paddle.to_tensor(given, stop_gradient=False)
    y = function(x)
    (y * paddle.to_tensor(array(*y.shape, seed=5))).sum().backward()
    return [y.numpy(), x.grad.numpy()]


@pytest.mark.parametrize("case", CASES)
def test_sizes_that_were_not_seen_give_what_a_graph_of_their_own_gives(case):
    exact = []
    for n in SIZES:
        forget()
        exact.append(_values(case, n))
    forget()
    for n, wanted in zip(SIZES, exact, strict=True):
        for value, other in zip(_values(case, n), wanted, strict=True):
            np.testing.assert_allclose(value, other, rtol=2e-5, atol=1e-6)


def test_a_step_is_built_twice_for_any_number_of_lengths():
    paddle.seed(0)
    layer, table, head = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), nn.Embedding(20, 8), nn.Linear(8, 20)
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=[*layer.parameters(), *table.parameters(), *head.parameters()])
    draw = np.random.default_rng(0)
    built = []
    for length in (5, 5, 8, 8, 3, 11, 17, 2, 30):
        words = paddle.to_tensor(draw.integers(0, 20, (3, length)))
        loss = F.cross_entropy(head(layer(table(words))).reshape([-1, 20]), words.reshape([-1]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        built.append((evaluate.counts["sessions"], evaluate.counts["backward"]))
    # The first and second length have a backward pass and sessions, the third a session for this backward pass.
    assert built[5:] == [built[4]] * 4
    assert built[3][1] - built[0][1] == 1


def test_labels_are_compared_with_the_classes_of_each_size():
    for classes in (5, 7, 9, 6):
        scores = paddle.to_tensor(array(3, classes), stop_gradient=False)
        F.cross_entropy(scores, paddle.to_tensor(np.array([0, 2, classes - 1]))).backward()
        with pytest.raises(FeedError, match=str(classes)):
            F.cross_entropy(scores, paddle.to_tensor(np.array([0, 2, classes]))).numpy()


def _form(*kinds):
    return lambda: Form(("sum",), list(kinds))


def _kinds(*shapes):
    return [paddle.to_tensor(np.zeros(shape, np.float32))._node.kind for shape in shapes]


def test_what_is_used_least_is_dropped_when_bytes_are_spent():
    structures = Structures(100, len)
    built = []

    def build(kinds):
        built.append(kinds)
        return "x" * 40

    for key in ("a", "b", "a", "c", "a", "b"):
        structures.get((key,), lambda key=key: Form((key,), []), build)
    # The third takes the place of b, which is built again.
    assert len(built) == 4


def test_sizes_that_a_rule_must_know_are_built_one_by_one():
    structures = Structures(1000, len)
    built = []

    def build(kinds):
        built.append(kinds)
        if kinds is not None:
            raise NeedsSizes("a rule")
        return "x"

    for n in (2, 3, 4, 3):
        structures.get((n,), _form(*_kinds([n])), build)
    assert [kinds is None for kinds in built] == [True, False, True, True]


def test_equal_sizes_share_a_symbol_as_long_as_they_are_equal():
    structures = Structures(1000, len)
    built = []

    def build(kinds):
        built.append(kinds and [kind.type.dims for kind in kinds])
        return "x"

    for shapes in (((2, 3), (2,)), ((4, 3), (4,)), ((7, 3), (7,)), ((5, 3), (6,)), ((8, 3), (9,)), ((9, 3), (9,))):
        structures.get(shapes, _form(*_kinds(*shapes)), build)
    first, second, third = built
    assert first is None
    assert second[0][0] == second[1][0] and isinstance(second[0][0], str) and second[0][1] == 3
    assert third[0][0] != third[1][0] and third[0][1] == 3


@pytest.mark.parametrize(("seconds", "kept"), [((1e-3, 5e-4), 1), ((8e-3, 5e-3), None), ((8e-3, 9e-3), 1)])
def test_threads_are_kept_where_they_were_faster(seconds, kept, monkeypatch):
    clock = [0.0]
    opened = []

    def session(threads):
        def run(names, feeds, options):
            clock[0] += seconds[threads is None]
            return threads

        opened.append(threads)
        return run

    monkeypatch.setattr(threads.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(threads, "usable_cores", lambda: 4)
    measured = threads.MeasuredRun(session)
    results = [measured.run([], {}, None) for _ in range(20)]
    assert results[:2] == [1, 1] and set(results[14:]) == {kept}
    assert opened == ([1] if seconds[0] < 2e-3 else [1, None])


def _chain(n, w, held=False):
    h = paddle.to_tensor(array(3, 3))
    kept = []
    for _ in range(n // 2):
        h = paddle.tanh(h * w) + (h if held else 0.0)
        kept.append(h if held and len(kept) % 7 == 0 else None)
    return h.sum()


@pytest.mark.parametrize("held", [False, True])
def test_parts_of_a_long_chain_are_built_once(held):
    weights = [paddle.to_tensor(np.full((3, 3), value, np.float32), stop_gradient=False) for value in (1.0, 1.0, 1.01)]
    built = []
    for w in weights:
        before = dict(evaluate.counts)
        _chain(900, w, held).backward()
        built.append({name: evaluate.counts[name] - before[name] for name in before})
    # In numpy.
    for w in weights[1:]:
        h, slope = array(3, 3).astype(np.float64), np.zeros((3, 3))
        value = float(w.numpy()[0, 0])
        for _ in range(450):
            y = np.tanh(h * value)
            slope = (1 - y * y) * (h + value * slope) + held * slope
            h = y + held * h
        np.testing.assert_allclose(w.grad.numpy(), slope, rtol=1e-3)
    assert built[0]["sessions"] <= 10 and built[2]["sessions"] == 0
    assert built[0]["backward"] <= 8 and built[2]["backward"] == 0


def test_second_derivatives_of_a_long_chain():
    w = paddle.to_tensor(0.9, stop_gradient=False)
    h = w
    for _ in range(300):
        h = h * 1.001
    (first,) = paddle.grad(h * h, [w], create_graph=True)
    (second,) = paddle.grad(first, [w])
    np.testing.assert_allclose(float(second), 2 * 1.001**600, rtol=1e-4)


def test_a_gradient_takes_the_place_of_zeros_so_that_the_second_step_builds_nothing():
    forget()
    w = paddle.to_tensor(array(3), stop_gradient=False)
    values = []

    def step():
        (w * w).sum().backward()
        values.append(w.grad.numpy())

    step()
    built = evaluate.counts["sessions"]
    for _ in range(2):
        w.clear_gradient()
        zeros = w.grad
        assert zeros.tolist() == [0.0, 0.0, 0.0]
        step()
        assert zeros.tolist() == [0.0, 0.0, 0.0]
    assert evaluate.counts["sessions"] == built
    for value in values:
        np.testing.assert_array_equal(value, values[0])
    w.clear_gradient()
    w.grad.set_value([1.0, 2.0, 3.0])  # no zeros any more
    step()
    np.testing.assert_allclose(values[-1], values[0] + [1.0, 2.0, 3.0], rtol=1e-6)
    step()
    np.testing.assert_allclose(values[-1], 2 * values[0] + [1.0, 2.0, 3.0], rtol=1e-6)
