"""checkpoints="auto": the same gradients, a smaller peak, and as little recomputation as the budget asks for."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import errors, static
from onnxgrad.core.autodiff.memory import _overlaps, _tabulate, _within, choose_cuts, measure, smallest_peak
from onnxgrad.core.ir.sizes import Sizes, bytes_of, know_sizes
from tests.core.autodiff.test_real_models import attach_loss
from tests.peak_memory import PEAK
from tests.real_models import REFUSED_BY_ONNXRUNTIME, WITH_REFERENCE, RealModel

ROOT = Path(__file__).parents[3]


# Networks ------------------------------------------------------------------------------------------------------------


def deep(batch="batch"):
    h = static.data("x", [batch, 16])
    for i in range(9):
        h = F.gelu(static.nn.fc(h, 16, name=f"layer{i}"))
    return paddle.mean(h * h), {"x": (5, 16)}


def residual():
    """Skip connections, and running statistics that a copy must not move. No bias before a norm: its gradient is rounding alone."""
    h = static.data("x", [6, 4, 8, 8])
    for i in range(4):
        conv = static.nn.conv2d(h, 4, 3, padding=1, bias_attr=False, name=f"conv{i}")
        inner = F.relu(static.nn.batch_norm(conv, name=f"norm{i}"))
        h = h + static.nn.conv2d(inner, 4, 3, padding=1, name=f"back{i}")
    return paddle.mean(h * h), {"x": (6, 4, 8, 8)}


def dropped():
    # Wide enough that the peak is not in the tables that all masks of a step share.
    h = static.data("x", [512, 64])
    for i in range(6):
        h = F.dropout(paddle.tanh(static.nn.fc(h, 64, name=f"layer{i}")), 0.4)
    return paddle.mean(h * h), {"x": (512, 64)}


def two_towers():
    """Two long branches that meet at the end: no single tensor cuts both."""
    x = static.data("x", ["batch", 8])
    towers = []
    for side in "ab":
        h = x
        for i in range(5):
            h = paddle.tanh(static.nn.fc(h, 8, name=f"{side}{i}"))
        towers.append(h)
    return paddle.mean(towers[0] * towers[1]), {"x": (4, 8)}


NETWORKS = {f.__name__: f for f in (deep, residual, dropped, two_towers)}


def trained(build, **arguments):
    """Losses of four steps, gradients of the first, state after the last, and the program."""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 7
    with paddle.state.fresh_names(), static.program_guard(main, startup), static.scope_guard(static.Scope()):
        loss, shapes = build()
        pairs = static.append_backward(loss, **arguments)
        paddle.optimizer.Adam(0.01).apply_gradients(pairs)
        executor = static.Executor()
        executor.run(startup)
        draw = np.random.default_rng(0)
        for p in main.all_parameters():
            if not p.get_value().any():
                p.set_value(draw.normal(size=p.shape).astype(np.float32) * 0.1)
        feed = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        runs = [executor.run(main, feed, [loss, *(g for _, g in pairs)]) for _ in range(4)]
        state = {v.name: v.get_value() for v in main.list_vars() if v.persistable}
    return [float(run[0]) for run in runs], dict(zip([p.name for p, _ in pairs], runs[0][1:], strict=True)), state, main


@pytest.mark.parametrize("network", NETWORKS)
def test_training_is_the_same(network):
    losses, gradients, state, _ = trained(NETWORKS[network])
    again = trained(NETWORKS[network], checkpoints="auto")
    plan = again[3].memory_plan
    assert plan.cuts and plan.peak < plan.peak_without
    np.testing.assert_allclose(again[0], losses, rtol=1e-6)
    assert list(again[1]) == list(gradients)
    for name, g in gradients.items():
        np.testing.assert_allclose(again[1][name], g, rtol=1e-5, atol=1e-7, err_msg=name)
    assert list(again[2]) == list(state)
    for name in state:
        if "norm" in name and ".w_" in name and state[name].ndim:
            np.testing.assert_allclose(again[2][name], state[name], rtol=1e-5, err_msg=name)


def test_masks_are_kept_and_not_drawn_again():
    """As booleans, instead of the integer operators that sample them."""
    *_, main = trained(dropped, checkpoints="auto")
    copies = [op for op in main.global_block().ops if any(".subprog_" in v.name for v in op.outputs if v is not None)]
    assert copies
    assert not [op for op in copies if op.type in ("GreaterOrEqual", "Range")]
    assert [op for op in main.global_block().ops if op.type == "Or"]


# onnxruntime refuses the forward pass of some; without recomputation their expanded form runs instead.
RUNNABLE = [folder for folder in WITH_REFERENCE if folder.name not in REFUSED_BY_ONNXRUNTIME]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("folder", RUNNABLE, ids=lambda folder: folder.name)
def test_gradients_of_real_models_are_the_same(folder):
    model = RealModel(folder)
    found = []
    for checkpoints in (None, "auto"):
        program = paddle.from_onnx(model.path)
        if folder.name.endswith("-train"):
            program.train()
        loss = attach_loss(program, model)
        pairs = static.append_backward(loss, checkpoints=checkpoints)
        fetches = [loss, *(g for _, g in pairs)]
        onnx.checker.check_model(paddle.to_onnx(program, fetches), full_check=True)
        found.append(static.Executor().run(program, model.feed, fetches))
    largest = max([float(np.abs(g).max()) for g in found[0][1:] if g.size], default=0.0)
    for plain, again in zip(*found, strict=True):
        np.testing.assert_allclose(again, plain, rtol=1e-4, atol=1e-5 * largest + 1e-7)


@pytest.mark.parametrize("automatic", [False, True])
def test_second_derivatives_where_the_gradient_is_zero(automatic):
    """The barrier is made of the gradient's first element; where that is zero it must pass nothing on."""
    found = []
    for checkpoints in (False, True):
        main = static.Program()
        with static.program_guard(main, static.Program()):
            x = static.data("x", [3])
            x.stop_gradient = False
            h = paddle.tanh(x)
            h2 = paddle.tanh(h * h * h + x)
            h3 = paddle.tanh(h2 + x * x)
            chosen = "auto" if automatic else [h, h2, h3]
            ((_, g),) = static.append_backward(paddle.sum(h3 * h3), [x], checkpoints=chosen if checkpoints else None)
            (gg,) = static.gradients([paddle.sum(g * g)], [x])
            found.append(static.Executor().run(main, {"x": np.array([0.0, 0.7, 0.9], np.float32)}, [g, gg]))
    for plain, again in zip(*found, strict=True):
        np.testing.assert_allclose(again, plain, rtol=1e-5)


# Budgets -------------------------------------------------------------------------------------------------------------


def planned(budget=None, **arguments):
    main = static.Program()
    with static.program_guard(main, static.Program()):
        loss, _ = deep()
        static.append_backward(loss, **({"memory_budget": budget} if budget else {"checkpoints": "auto"}), **arguments)
    return main.memory_plan


def test_as_little_is_recomputed_as_the_budget_asks_for():
    least = planned(sizes=1000)
    plans = [planned(int(least.peak + share * (least.peak_without - least.peak)), sizes=1000) for share in (0, 0.25, 0.5, 0.75, 1)]
    for share, plan in zip((0, 0.25, 0.5, 0.75, 1), plans, strict=True):
        assert plan.peak <= least.peak + share * (least.peak_without - least.peak) + 1
    counts = [plan.recomputed for plan in plans]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0 and plans[-1].cuts == ()
    assert counts[0] > counts[2] > 0


def test_an_impossible_budget_names_the_smallest_peak():
    with pytest.raises(errors.MemoryBudgetError, match="smallest peak within reach is") as raised:
        planned(1000, sizes={"batch": 1000})
    smallest = int(str(raised.value).split("within reach is ")[1].split()[0])
    assert planned(smallest + 1, sizes={"batch": 1000}).peak <= smallest + 1


def test_the_program_is_as_it_was_after_an_impossible_budget():
    main = static.Program()
    with static.program_guard(main, static.Program()):
        loss, _ = deep()
        before = str(main), dict(main.names)
        with pytest.raises(errors.MemoryBudgetError):
            static.append_backward(loss, memory_budget=1, sizes=8)
    assert (str(main), main.names) == before


REFUSED = {
    "size of the batch": ({"memory_budget": 10**9}, errors.ArgumentError, "batch is not given"),
    "wrong name": ({"memory_budget": 10**9, "sizes": {"batch": 1, "rows": 2}}, errors.ArgumentError, "'rows'"),
    "no size": ({"checkpoints": "auto", "sizes": {"batch": 0}}, errors.ArgumentError, "positive"),
    "both": ({"memory_budget": 10**9, "checkpoints": []}, errors.ArgumentError, "Leave checkpoints out"),
    "other word": ({"checkpoints": "all"}, errors.ArgumentError, "'auto'"),
    "text": ({"memory_budget": "2GB"}, errors.ArgumentTypeError, "memory_budget is an int or None, not str"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    arguments, kind, message = REFUSED[case]
    with static.program_guard(static.Program(), static.Program()):
        loss, _ = deep()
        with pytest.raises(kind, match=message):
            static.append_backward(loss, **arguments)


def test_nothing_to_gain_is_no_recomputation():
    main = static.Program()
    with static.program_guard(main, static.Program()):
        static.append_backward(paddle.mean(static.nn.fc(static.data("x", [4, 3]), 1)), checkpoints="auto")
    assert main.memory_plan.cuts == ()
    assert not [op for op in main.global_block().ops if op.type == "Floor"]


def test_through_minimize():
    main = static.Program()
    with static.program_guard(main, static.Program()):
        loss, _ = deep()
        paddle.optimizer.SGD(0.1).minimize(loss, memory_budget=700_000, sizes=1000)
    assert 0 < main.memory_plan.peak <= 700_000 < main.memory_plan.peak_without
    main = static.Program()
    with static.program_guard(main, static.Program()):
        loss, _ = deep(None)
        static.amp.decorate(paddle.optimizer.SGD(0.1)).minimize(loss, checkpoints="auto", sizes={"batch": 64})
    assert main.memory_plan.cuts


# The model -----------------------------------------------------------------------------------------------------------


def test_sizes_of_what_is_computed_follow():
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", ["batch", None, 3])
        y = paddle.reshape(paddle.tanh(x), [-1, 3])
    sizes = Sizes({"batch": 5})
    know_sizes(main.global_block().ops, lambda v: sizes.of(v.dims))
    assert (bytes_of(x), bytes_of(y)) == (5 * 64 * 3 * 4, 5 * 64 * 3 * 4)
    assert sizes.assumed == {"?"}


def test_types_are_as_before_after_sizes_were_tried():
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", ["batch", 7, 3])
        loss = paddle.mean(paddle.tanh(static.nn.fc(paddle.tanh(x), 4, num_flatten_dims=2)))
        forward = list(main.list_vars())
        static.append_backward(loss, checkpoints="auto", sizes={"batch": 64})
    assert {v.shape[0] for v in forward if v.rank == 3} == {-1}


def peak_of(recompute, hold, rest, path):
    """The peak with these cuts, from the definition"""
    held, peak, i = 0.0, 0.0, 0
    for j in path:
        peak = max(peak, held + recompute[i, j])
        held, i = held + hold[i, j], j
    return max(peak, held + rest[i])


@pytest.mark.parametrize("seed", range(20))
def test_cuts_are_the_best_of_all(seed):
    draw = np.random.default_rng(seed)
    main = static.Program()
    with static.program_guard(main, static.Program()):
        h = static.data("x", [2, 3])
        skip = None
        for i in range(6):
            width = int(draw.integers(1, 40))
            wide = paddle.tanh(static.nn.fc(h, width))
            h = static.nn.fc(wide if skip is None or draw.random() < 0.5 else paddle.concat([wide, skip], 1), 3)
            skip = h if i == 2 else skip
        loss = paddle.mean(h)
        found = capture_costs(loss)
    table = _tabulate(found)
    points = range(1, len(table.points))
    # All sets of up to four cuts; the program's choice may use more, and is then no worse.
    every = [p for n in range(4) for p in itertools.combinations(points, n)]
    peaks = {p: peak_of(table.recompute, table.hold, table.rest, p) for p in every}
    best = min(peaks.values())
    assert best * 0.999 <= smallest_peak(found) <= best * 1.006 + 1
    assert choose_cuts(found).peak <= max(best * 1.06, table.rest[0] if best > 0.85 * table.rest[0] else 0) + 1
    for budget in np.linspace(best, table.rest[0], 5):
        path, peak = _within(table, budget)
        assert peak == pytest.approx(peak_of(table.recompute, table.hold, table.rest, path)) and peak <= budget
        within = [p[-1] if p else 0 for p, size in peaks.items() if size <= budget]
        assert (path[-1] if path else 0) <= min(within)


def test_what_crosses_two_cuts_is_the_bytes_that_are_made_before_the_first_and_read_behind_the_second():
    crossing = np.array(
        [[made, read, 2.0 ** (8 * made + read)] for made, read in itertools.combinations_with_replacement(range(7), 2)]
    )
    points = np.array([0, 2, 3, 6])
    found = _overlaps(crossing, points)
    for i, j in itertools.combinations_with_replacement(range(4), 2):
        assert found[i, j] == sum(size for made, read, size in crossing if made < points[i] and points[j] <= read)


def capture_costs(loss):
    found = []

    def keep(*arguments, **named):
        found.append(measure(*arguments, **named))
        return found[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnxgrad.core.autodiff.api.measure", keep)
        static.append_backward(loss, checkpoints="auto")
    return found[0]


STEP = """
import sys
import numpy as np
import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static

ROWS, WIDTH = 4096, 256
h = x = static.data("x", ["batch", WIDTH])
for i in range(24):
    h = F.gelu(paddle.tanh(static.nn.fc(h, WIDTH)))
arguments = eval(sys.argv[1])
pairs = static.append_backward(paddle.mean(h * h), **arguments)
paddle.optimizer.SGD(0.1).apply_gradients(pairs)
executor = static.Executor(threads=1)
executor.run(static.default_startup_program())
feed = {"x": np.ones((ROWS, WIDTH), np.float32)}
executor.run(feed={"x": feed["x"][:1]})  # what onnxruntime holds for the graph itself
before = peak()
executor.run(feed=feed)
executor.run(feed=feed)
print((peak() - before) * 1024)
"""


def peak_in_a_process(**arguments):
    done = subprocess.run(
        [sys.executable, "-c", PEAK + STEP, repr(arguments)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return int(done.stdout)


@pytest.mark.process
@pytest.mark.exhaustive
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_process_takes_less_memory():
    """Measured: 64 results of a layer's size without recomputation, 16 with it, about 30 with a budget of half the peak."""
    plain = peak_in_a_process()
    auto = peak_in_a_process(checkpoints="auto")
    budget = 110_000_000
    half = peak_in_a_process(memory_budget=budget, sizes={"batch": 4096})
    assert auto < 0.4 * plain
    assert auto < half < 0.7 * plain
    # The feed, and what onnxruntime holds besides.
    assert half < budget + 30_000_000
