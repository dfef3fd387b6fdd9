"""DP-SGD in the graph: the clipped sum of each example's gradients, and noise from a generator that is known."""

from types import SimpleNamespace

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.autodiff.transforms import per_example_gradients
from onnxgrad.core.ir.builder import Builder
from onnxgrad.errors import ArgumentError, ExecutionError
from onnxgrad.federated import Worker, flower, private_gradients
from onnxgrad.federated.privacy import threefry
from tests.federated.test_worker import points
from tests.training import small

HUGE = 1e9


def private(clip_norm=HUGE, noise_multiplier=0.0, optimizer=None, **options):
    """A line with a quadratic loss, its program and mean loss"""
    program = paddle.from_onnx(small.line())
    with static.program_guard(program):
        target = static.data("target", ["N", 1], "float32")
        losses = paddle.sum(F.mse_loss(program.outputs[0], target, reduction="none"), axis=1)
        loss = paddle.mean(losses)
        pairs = private_gradients(losses, clip_norm=clip_norm, noise_multiplier=noise_multiplier, **options)
    (optimizer or paddle.optimizer.SGD(0.1)).apply_gradients(pairs)
    return program, loss


def classifier(make):
    """A classifier with frozen statistics, trained by what ``make`` appends for a vector of losses"""
    program = paddle.from_onnx(small.model(small.TEXT.replace("Dropout (active, rate)", "Identity (active)")))
    program.train("frozen")
    with static.program_guard(program):
        target = static.data("target", ["batch"], "int64")
        losses = paddle.reshape(F.cross_entropy(program.outputs[0], target, reduction="none"), [-1])
        loss = paddle.mean(losses)
        make(losses, loss)
    return program, loss


def test_without_noise_and_bound_it_is_plain_gradient_descent():
    found = []
    for make in (
        lambda losses, loss: paddle.optimizer.Momentum(0.1).minimize(loss),
        lambda losses, loss: paddle.optimizer.Momentum(0.1).apply_gradients(
            private_gradients(losses, clip_norm=HUGE, noise_multiplier=0.0)
        ),
    ):
        program, loss = classifier(make)
        worker = Worker(program, loss=loss)
        worker.fit(small.data(), epochs=3, batch_size=7)
        found.append((worker.names, worker.get()))
    assert found[0][0] == found[1][0]
    for name, a, b in zip(found[0][0], found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("batch_size", [None, 5])
def test_each_example_is_clipped_by_the_norm_of_all_its_gradients(batch_size):
    """Against the formula in float64: the gradient of example i of (x w + b - t)^2 is 2 e_i (x_i, 1)"""
    program, loss = private(clip_norm=0.5, batch_size=batch_size)
    worker, data = Worker(program, loss=loss), points()
    order = {name: i for i, name in enumerate(worker.names)}
    w, b = (worker.get()[order[name]].astype(np.float64) for name in ("w", "b"))
    worker.fit(data, batch_size=12)
    error = 2 * (data["x"] @ w + b - data["target"])
    gradients = np.concatenate([error * data["x"], error], axis=1)
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    assert (norms > 0.5).any() and (norms < 0.5).any()
    mean = (gradients * np.minimum(1, 0.5 / norms)).sum(0) / (batch_size or 12)
    np.testing.assert_allclose(worker.get()[order["w"]][:, 0], w[:, 0] - 0.1 * mean[:2], rtol=1e-5)
    np.testing.assert_allclose(worker.get()[order["b"]], b - 0.1 * mean[2], rtol=1e-5)


def test_one_example_moves_weights_by_the_bound_at_most():
    """However far it lies"""
    program, loss = private(clip_norm=0.25, batch_size=1)
    worker = Worker(program, loss=loss)
    start = worker.get()
    worker.fit({"x": np.full((1, 2), 1e4, np.float32), "target": np.full((1, 1), -1e6, np.float32)}, batch_size=1)
    moved = np.sqrt(sum(((a.astype(np.float64) - b) ** 2).sum() for a, b in zip(start, worker.get(), strict=True)))
    assert moved == pytest.approx(0.1 * 0.25, rel=1e-4)


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_generator_gives_the_known_answers_of_its_authors(key, counter, expected):
    words = [static.data(name, [1], "int64") for name in ("k0", "k1", "c0", "c1")]
    program = words[0].block.program
    paddle.core.passes.lift.lift(program) if program.opset_version() < 18 else None
    found = threefry(Builder(program.global_block()), tuple(words[:2]), tuple(words[2:]))
    feeds = {v.name: np.array([value], np.int64) for v, value in zip(words, (*key, *counter), strict=True)}
    results = static.Executor().run(program, feeds, list(found))
    assert tuple(int(value[0]) for value in results) == expected


def noise(seed, steps=1, noise_multiplier=1.5, clip_norm=2.0, size=(40, 250), worker=None):
    """What the steps of a model of 10,000 weights that no example reaches add to it"""
    if worker is None:
        program = static.Program()
        with static.program_guard(program, static.Program()):
            x = static.data("x", [None, size[0]], "float32")
            layer = static.nn.fc(x, size=size[1], bias_attr=False)
            static.Executor().run(static.default_startup_program())
            losses = paddle.sum(layer, axis=1) * 0.0
            loss = paddle.mean(losses)
            pairs = private_gradients(losses, clip_norm=clip_norm, noise_multiplier=noise_multiplier, batch_size=1)
            paddle.optimizer.SGD(1.0).apply_gradients(pairs)
        worker = Worker(program, loss=loss)
    found = []
    for _ in range(steps):
        before = worker.get()[0].astype(np.float64)
        worker._step.begin(0, seed, 0.0, None)
        worker._step.run({"x": np.zeros((1, size[0]), np.float32)})
        found.append((before - worker.get()[0]).ravel())
    return worker, found


def test_noise_is_normal_with_the_deviation_that_was_asked_for():
    _, (first, second) = noise(7, steps=2)
    for z in (first / 3.0, second / 3.0):
        # Of 10,000: mean, deviation, skewness and excess within five standard errors.
        assert abs(z.mean()) < 0.05 and abs(z.std() - 1) < 0.036
        assert abs((z**3).mean()) < 0.2 and abs((z**4).mean() - 3) < 0.5
        assert abs((np.abs(z) < 1).mean() - 0.6827) < 0.024 and 3 < np.abs(z).max() < 6.8
        assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.05 and abs(np.corrcoef(z[:5000], z[5000:])[0, 1]) < 0.071
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05


def test_noise_follows_from_seed_and_step():
    worker, first = noise(7, steps=2)
    kept, again = noise(7)[1], noise(8)[1]
    np.testing.assert_allclose(first[0], kept[0], atol=1e-5)
    assert abs(np.corrcoef(first[0], again[0])[0, 1]) < 0.05
    # Another process that is given weights and local state goes on as this one does.
    state, weights = worker.local_state(), worker.get()
    assert state["noise_step"] == 2
    third = noise(7, worker=worker)[1][0]
    other, _ = noise(7, steps=0)
    other.set(weights)
    other.set_local_state(state)
    np.testing.assert_array_equal(noise(7, worker=other)[1][0], third)


def test_the_seed_is_drawn_anew_for_each_call():
    """Rounds that begin with the same state have other noise"""
    found = []
    for _ in range(2):
        program, loss = private(noise_multiplier=1.0, clip_norm=1.0)
        worker = Worker(program, loss=loss)
        worker.fit(points(), batch_size=12)
        found.append(np.concatenate([array.ravel() for array in worker.get()]))
    assert (np.abs(found[0] - found[1]) > 1e-5).all()


def test_an_empty_batch_is_noise_alone():
    program, loss = private(clip_norm=1.0, noise_multiplier=1.0, batch_size=4)
    worker = Worker(program, loss=loss)
    before = worker.get()
    worker._step.run({"x": np.zeros((0, 2), np.float32), "target": np.zeros((0, 1), np.float32)})
    moved = np.concatenate([(a - b).ravel() for a, b in zip(before, worker.get(), strict=True)])
    assert (moved != 0).all() and np.abs(moved).max() < 0.1 / 4 * 6.8


def test_examples_are_drawn_independently():
    program, loss = private(clip_norm=1.0, noise_multiplier=0.5, batch_size=2)
    worker, sizes = Worker(program, loss=loss), []
    run = worker._step.run
    worker._step.run = lambda feeds: (sizes.append(len(feeds["x"])), run(feeds))[1]
    worker.fit(points(), epochs=60, batch_size=2, sampling="poisson")
    assert len(sizes) == 360 and 0 in sizes and abs(np.mean(sizes) - 2) < 0.35 and abs(np.var(sizes) - 2 * 10 / 12) < 0.6
    with pytest.raises(ArgumentError, match="'shuffle' or 'poisson'"):
        worker.fit(points(), sampling="ordered")


def test_what_mixes_examples_is_refused():
    program = paddle.from_onnx(small.model())
    program.train("train")
    with static.program_guard(program):
        losses = paddle.sum(program.outputs[0], axis=1)
        with pytest.raises(ArgumentError, match="mixes the examples"):
            private_gradients(losses, clip_norm=1.0, noise_multiplier=1.0)


@pytest.mark.parametrize("wrong", [{"clip_norm": 0}, {"noise_multiplier": -1}, {"batch_size": 0}, {"seed": -1}], ids=str)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ArgumentError, match="clip_norm is above 0"):
        private(**{"clip_norm": 1.0, "noise_multiplier": 1.0, **wrong})


def written(kind):
    """A program, the losses of its examples, and what it is fed"""
    draw = np.random.default_rng(5)
    feed = {"y": draw.integers(0, 4, 5)}
    program = static.Program()
    with static.program_guard(program, static.Program()), paddle.utils.unique_name.guard():
        y = static.data("y", [None], "int64")
        if kind == "images":
            x, feed["x"] = static.data("x", [None, 2, 6, 6]), draw.normal(size=(5, 2, 6, 6)).astype("f4")
            h = F.max_pool2d(F.relu(static.nn.conv2d(x, 3, 3, padding=1)), 2, 2)
            z = static.nn.fc(static.nn.group_norm(h, 1), 4)
        elif kind == "words":  # a table that is read twice, once as weights
            x, feed["x"] = static.data("x", [None, 3], "int64"), draw.integers(0, 4, (5, 3))
            table = paddle.create_parameter([4, 6], "float32", name="table")
            h = F.embedding(x, table)
            z = paddle.matmul(paddle.tanh(paddle.mean(F.softmax(h @ h.transpose([0, 2, 1])) @ h, axis=1)), table, transpose_y=True)
        elif kind == "branches":
            x, feed["x"] = static.data("x", [None, 3]), draw.normal(size=(5, 3)).astype("f4")
            w = paddle.create_parameter([3, 4], "float32", name="w")
            z = static.nn.cond(paddle.sum(w) > 0, lambda: x @ w, lambda: paddle.sin(x @ w))
        elif kind == "dropped":
            x, feed["x"] = static.data("x", [None, 3]), draw.normal(size=(5, 3)).astype("f4")
            z = F.dropout(static.nn.fc(x, 4), 0.5)
        elif kind == "dropped in a branch":
            x, feed["x"] = static.data("x", [None, 3]), draw.normal(size=(5, 3)).astype("f4")
            h = static.nn.fc(x, 4)
            z = static.nn.cond(paddle.sum(program.parameters[0]) > -100, lambda: F.dropout(h, 0.5), lambda: h)
        elif kind == "drawn like":
            x, feed["x"] = static.data("x", [None, 3]), draw.normal(size=(5, 3)).astype("f4")
            noise = Builder(program.global_block()).RandomNormalLike(x, seed=1.0)
            z = static.nn.fc(x + noise, 4)
        else:
            feed["y"] = feed["y"][:2]
            x, feed["x"] = static.data("x", [2, 3]), draw.normal(size=(2, 3)).astype("f4")
            z = static.nn.fc(x, 4)
            if kind != "of a known number":
                z = paddle.reshape(paddle.reshape(z, [2, 2, 2]), [2, 4])
        losses = paddle.reshape(F.cross_entropy(z, y, reduction="none"), [-1])
    for at, p in enumerate(program.all_parameters()):
        p.set_value(np.random.default_rng(at).normal(0, 0.5, p.shape).astype("f4"))
    return program, losses, feed


KINDS = [
    "images",
    "words",
    "branches",
    "dropped",
    "dropped in a branch",
    "drawn like",
    "of a known number",
    "reshaped to a known number",
]


@pytest.mark.parametrize("kind", KINDS)
def test_one_example_at_a_time_gives_what_a_pass_over_the_batch_for_each_gives(kind):
    """The clipping is in force for some of them; masks are those of the forward pass"""
    program, losses, feed = written(kind)
    with static.program_guard(program):
        pairs = private_gradients(losses, clip_norm=0.7, noise_multiplier=0.0, batch_size=1)
        each = per_example_gradients(losses, [p for p, _ in pairs])
    found = paddle.Executor(threads=1).run(program, feed, [*(g for _, g in pairs), *each])
    sums, of_examples = found[: len(pairs)], found[len(pairs) :]
    norms = np.sqrt(sum(np.square(g).reshape(len(g), -1).sum(1) for g in of_examples))
    assert (norms > 0.7).any()
    factors = 0.7 / np.maximum(norms, 0.7)
    for g, every in zip(sums, of_examples, strict=True):
        np.testing.assert_allclose(g, np.einsum("n,n...->...", factors, every), rtol=1e-5, atol=1e-6)


def test_inputs_of_another_length_than_the_first_are_refused():
    with static.program_guard(static.Program()):
        x, y = static.data("x", [None, 2]), static.data("y", [None, 2])
        w = paddle.create_parameter([2], "float32", name="w")
        w.set_value(np.ones(2, "f4"))
        losses = paddle.sum(x * w, axis=1) * paddle.sum(y, axis=1)
        ((_, g),) = private_gradients(losses, clip_norm=1.0, noise_multiplier=0.0)
        with pytest.raises(ExecutionError):
            paddle.Executor().run(x.block.program, {"x": np.ones((2, 2), "f4"), "y": np.ones((5, 2), "f4")}, [g])


def test_more_losses_than_examples_are_refused():
    """Each word's gradient would be clipped, where an example is a row of words; also beside a Dropout"""
    for drops in (False, True):
        with static.program_guard(static.Program()):
            x = static.data("x", [None, 3])
            w = paddle.create_parameter([3], "float32", name="w")
            y = F.dropout(x * w, 0.5) if drops else x * w
            losses = paddle.reshape(y, [-1])
            before = str(x.block.program)
            with pytest.raises(ArgumentError, match="not a vector with one loss per example"):
                private_gradients(losses, clip_norm=1.0, noise_multiplier=0.0)
            assert str(x.block.program) == before


def contrastive(h, y):
    """Each example against all others of the batch"""
    return paddle.reshape(F.cross_entropy(paddle.matmul(h, h, transpose_y=True), y, reduction="none"), [-1])


def hardest_triplet(h, y):
    squares = paddle.sum(h * h, axis=1, keepdim=True)
    distances = squares + squares.transpose([1, 0]) - 2.0 * paddle.matmul(h, h, transpose_y=True)
    return paddle.max(distances, axis=1)


def quantized(h, y):
    integers, scale, zero = h.block.build.DynamicQuantizeLinear(h, outputs=3)
    return paddle.sum(h.block.build.DequantizeLinear(integers, scale, zero) * h, axis=1)


MIXING = {
    "MatMul": contrastive,
    "Add": hardest_triplet,
    "Softmax": lambda h, y: paddle.sum(F.softmax(h, axis=0) * h, axis=1),
    "Sub": lambda h, y: paddle.sum((h - paddle.mean(h, axis=0, keepdim=True)) ** 2, axis=1),
    "Max": lambda h, y: paddle.sum(h, axis=1) / paddle.max(h),
    "Greater": lambda h, y: paddle.sum(static.nn.cond(paddle.mean(h) > 0, lambda: h * h, lambda: paddle.sin(h)), axis=1),
    "DynamicQuantizeLinear": quantized,
    "CumSum": lambda h, y: paddle.sum(paddle.cumsum(h, axis=0), axis=1),
    "Slice": lambda h, y: paddle.sum(h * h[0], axis=1),
}
"""Losses in which an example depends on others, by the operator that mixes them first."""


@pytest.mark.parametrize("name", MIXING)
@pytest.mark.parametrize("drops", [False, True], ids=["", "dropped"])
def test_loss_that_mixes_examples_is_refused_by_the_operator(name, drops):
    """Dropout in it takes the way over one backward pass for each example"""
    with static.program_guard(static.Program(), static.Program()):
        x, y = static.data("x", [None, 3]), static.data("y", [None], "int64")
        h = static.nn.fc(x, 4)
        losses = MIXING[name](F.dropout(h, 0.5) if drops else h, y)
        with pytest.raises(
            ArgumentError, match=f"Differential privacy needs examples that do not depend .* (Reduce)?{name} .*alone"
        ):
            private_gradients(losses, clip_norm=1.0, noise_multiplier=1.0)


def test_loss_that_is_added_up_already_is_refused():
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 3])
        losses = paddle.reshape(paddle.mean(static.nn.fc(x, 4)), [1])
        with pytest.raises(ArgumentError, match=r"ReduceMean .* adds up the losses of the examples"):
            private_gradients(losses, clip_norm=1.0, noise_multiplier=1.0)


def test_fixed_number_of_rows_mixes_examples_as_a_free_one_does():
    with static.program_guard(static.Program(), static.Program()):
        x, y = static.data("x", [4, 3]), static.data("y", [None])
        losses = y * paddle.mean(static.nn.fc(x, 1))
        with pytest.raises(ArgumentError, match=r"Mul \(-> .* uses for each example a value of the whole batch"):
            private_gradients(losses, clip_norm=1.0, noise_multiplier=1.0)


@pytest.mark.parametrize("kind", ["images", "words", "branches"])
def test_one_replaced_example_moves_the_sum_by_twice_the_bound_at_most(kind):
    program, losses, feed = written(kind)
    with static.program_guard(program):
        pairs = private_gradients(losses, clip_norm=0.1, noise_multiplier=0.0, batch_size=1)
    executor, grads = paddle.Executor(threads=1), [g for _, g in pairs]
    before = executor.run(program, feed, grads)
    moved = []
    for row in range(5):
        other = {name: x.copy() for name, x in feed.items()}
        other["y"][row] = (other["y"][row] + 1) % 4
        other["x"][row] = (3 - other["x"][row]) if kind == "words" else 50.0 * other["x"][row]
        after = executor.run(program, other, grads)
        moved.append(np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(before, after, strict=True))))
    assert 0.02 < max(moved) <= 0.2 * 1.0001


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "words"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e30])
def test_an_example_that_is_not_finite_adds_nothing(value, kind):
    """A factor of C / inf is 0, and 0 * inf was NaN in every weight; with masks or a known number, others' gradients were NaN too"""
    program, losses, feed = written(kind)
    with static.program_guard(program):
        pairs = private_gradients(losses, clip_norm=0.7, noise_multiplier=0.0, batch_size=1)
        each = per_example_gradients(losses, [p for p, _ in pairs])
    results = [g for _, g in pairs]
    of_examples = paddle.Executor(threads=1).run(program, feed, each)
    for v in program.list_vars():
        if v.name.startswith("dropout_step"):
            v.set_value(np.array(0))  # the masks that were drawn
    norms = np.sqrt(sum(np.square(g).reshape(len(g), -1).sum(1) for g in of_examples))
    factors = 0.7 / np.maximum(norms, 0.7)
    factors[0] = 0.0
    wanted = [np.einsum("n,n...->...", factors, g) for g in of_examples]
    feed["x"] = feed["x"].copy()
    feed["x"][0].reshape(-1)[0] = value
    found = paddle.Executor(threads=1).run(program, feed, results)
    assert all(np.isfinite(g).all() for g in found)
    moved = np.sqrt(sum(np.square(a - b, dtype=np.float64).sum() for a, b in zip(found, wanted, strict=True)))
    assert moved <= 0.7 * 1.001
    if not np.isfinite(value) and kind != "images":  # Relu and pools of NaN may be 0
        assert moved <= 1e-5


def test_a_gradient_of_half_precision_is_clipped_where_its_squares_overflow():
    """300 * 300 is infinite in float16, and the example was left out"""
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 2], "float16")
        w = paddle.create_parameter([2], "float16", name="w")
        w.set_value(np.ones(2, "f2"))
        ((_, g),) = private_gradients(paddle.sum(x * w, axis=1), clip_norm=0.5, noise_multiplier=0.0, batch_size=1)
        (found,) = paddle.Executor().run(feed={"x": np.array([[300, 400], [0, 0.25]], "f2")}, fetch_list=[g])
    np.testing.assert_allclose(found, [0.3, 0.4 + 0.25], rtol=1e-3)


def batches(worker, **options):
    """The examples of each batch, by their first feature"""
    seen, run = [], worker._step.run
    worker._step.run = lambda feeds: (seen.append(feeds["x"][:, 0].tolist()), run(feeds))[1]
    worker.fit(points(), batch_size=4, **options)
    worker._step.run = run
    return seen


@pytest.mark.parametrize("sampling", ["shuffle", "poisson"])
def test_batches_of_a_private_step_are_drawn_from_the_system(sampling):
    """With a seed of 0, or the server's, everybody knows who is in which batch, and the stated epsilon does not hold"""
    program, loss = private(clip_norm=1.0, noise_multiplier=1.0, batch_size=4)
    worker = Worker(program, loss=loss)
    drawn = [batches(worker, epochs=20, sampling=sampling) for _ in range(2)]
    assert worker.is_private and drawn[0] != drawn[1]
    assert batches(worker, sampling=sampling, seed=3) == batches(worker, sampling=sampling, seed=3)
    open_program, open_loss = private(clip_norm=1.0)
    plain = Worker(open_program, loss=open_loss)
    assert not plain.is_private and batches(plain, sampling=sampling) == batches(plain, sampling=sampling, seed=0)


def test_noise_without_a_given_seed_is_drawn_from_the_system():
    seeds = []
    for _ in range(2):
        program, _ = private(clip_norm=1.0, noise_multiplier=1.0)
        seeds.append(int(program.find("noise_seed").get_value()))
    assert seeds[0] != seeds[1] and 0 not in seeds


def test_a_private_round_goes_on_where_an_example_is_not_finite():
    program, loss = private(clip_norm=1.0, noise_multiplier=1.0, batch_size=4)
    worker, data = Worker(program, loss=loss), points()
    data["x"] = data["x"].copy()
    data["x"][2] = np.inf
    worker.fit(data, batch_size=4)
    assert all(np.isfinite(array).all() for array in worker.get())


def test_a_private_client_sends_neither_loss_nor_metrics_and_takes_no_seed(monkeypatch):
    monkeypatch.setattr(flower, "_flower", lambda: None)
    program, loss = private(clip_norm=1.0, noise_multiplier=1.0, batch_size=4)
    worker = Worker(program, loss=loss)
    given, fit = [], worker.fit
    worker.fit = lambda columns, **options: (given.append(options["seed"]), fit(columns, **options))[1]
    node = flower._Node(worker, points(), None, False)
    context = SimpleNamespace(node_config={}, node_id=1, state={})
    _, row = node.train(worker.get(), {"seed": 5, "batch-size": 4}, context)
    assert row.keys() == {"examples"} and given == [None]
    assert node.evaluate(worker.get(), context).keys() == {"examples"}
