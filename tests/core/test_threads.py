"""Threads build, differentiate, run and set guards side by side: each gets what it would get alone."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static

ROUNDS = 40
THREADS = 6


@pytest.fixture(autouse=True)
def frequent_switches():
    """Threads take turns as often as they can, so that a race shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work, count=THREADS):
    """What ``work(number)`` returns in each of several threads that start at the same moment."""
    start = threading.Barrier(count)

    def begin(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return [done.result() for done in [pool.submit(begin, number) for number in range(count)]]


def regression():
    """A program that trains a line, and its start; weights start as zeros"""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x, y = static.data("x", [None, 8]), static.data("y", [None, 1])
        zeros = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.0))
        loss = paddle.nn.functional.mse_loss(static.nn.fc(x, 1, weight_attr=zeros), y)
        paddle.optimizer.Momentum(0.05, 0.9).minimize(loss)
    return main, startup, loss


def losses_of(executor, main, startup, loss, number, steps, batch=16):
    """The losses of one scope with data that depend on ``number``"""
    scope, draw = static.Scope(), np.random.default_rng(number)
    executor.run(startup, scope=scope)
    found = []
    for _ in range(steps):
        x = draw.normal(size=(batch, 8)).astype(np.float32)
        feed = {"x": x, "y": x.sum(1, keepdims=True) * (1 + number)}
        found.append(float(executor.run(main, feed, [loss], scope=scope)[0]))
    return found


def test_one_executor_trains_in_several_scopes():
    program = regression()
    alone = [losses_of(static.Executor(threads=1), *program, number, ROUNDS) for number in range(THREADS)]
    executor = static.Executor(threads=1)
    assert together(lambda number: losses_of(executor, *program, number, ROUNDS)) == alone


def test_executors_train_one_program_with_different_batches():
    def images():
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup), paddle.utils.unique_name.guard():
            x = static.data("x", [None, 3, 8, 8])
            start = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.05))
            y = static.nn.batch_norm(static.nn.conv2d(x, 4, 3, param_attr=start), act="relu")
            loss = paddle.mean(paddle.square(y - 0.3))
            paddle.optimizer.SGD(0.1).minimize(loss)
        return main, startup, loss

    def work(number):
        scope, draw = static.Scope(), np.random.default_rng(number)
        executor = static.Executor(threads=1)
        executor.run(startup, scope=scope)
        feeds = [{"x": draw.normal(size=(4 + number, 3, 8, 8)).astype(np.float32)} for _ in range(5)]
        return [float(executor.run(main, feed, [loss], scope=scope)[0]) for feed in feeds]

    main, startup, loss = images()
    alone = [work(number) for number in range(4)]
    for _ in range(3):
        main, startup, loss = images()
        assert together(work, 4) == alone


def test_one_scope_counts_every_step():
    main, startup, loss = regression()
    with static.program_guard(main):
        steps = static.create_global_var([1], 0, "int64", persistable=True, name="steps")
        main.updates[steps] = steps + 1
    executor, scope = static.Executor(threads=1), static.Scope()
    executor.run(startup, scope=scope)
    scope.set("steps", np.zeros(1, np.int64))
    feed = {"x": np.ones((4, 8), np.float32), "y": np.ones((4, 1), np.float32)}
    together(lambda number: [executor.run(main, feed, [loss], scope=scope) for _ in range(ROUNDS)])
    assert int(scope.get("steps")[0]) == THREADS * ROUNDS


def test_evaluation_beside_training_sees_whole_steps():
    """Both weights are equal after every step; a run that reads one of before and one of after would see it"""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        weights = [static.create_global_var([20000], 0.0, "float32", persistable=True, name=name) for name in "ab"]
        for w in weights:
            main.updates[w] = w + 1.0
    test = static.Program()
    with static.program_guard(test):
        copies = [static.create_global_var([20000], 0.0, "float32", persistable=True, name=name) for name in "ab"]
        spread = paddle.max(copies[0]) - paddle.min(copies[1])
    executor, scope = static.Executor(threads=1), static.Scope()
    for name in "ab":
        scope.set(name, np.zeros(20000, np.float32))
    done = threading.Event()

    def work(number):
        if number == 0:
            for _ in range(200):
                executor.run(main, scope=scope)
            done.set()
            return 0.0
        worst = 0.0
        while not done.is_set():
            worst = max(worst, abs(float(executor.run(test, {}, [spread], scope=scope)[0])))
        return worst

    assert together(work, 3) == [0.0, 0.0, 0.0]
    assert float(scope.get("a")[0]) == 200.0


def test_guards_hold_for_their_thread():
    outside = static.default_main_program()

    def work(number):
        main = static.Program()
        for round in range(ROUNDS):
            with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard(f"t{number}_"):
                h = static.data(f"x{round}", [None, number + 1])
                static.nn.fc(h, 2)
            with static.scope_guard(static.Scope()):
                static.global_scope().set("mine", np.array(number))
                assert int(static.global_scope().get("mine")) == number
            assert static.default_main_program() is outside
        return main

    for number, main in enumerate(together(work)):
        assert len(main.inputs) == ROUNDS
        assert all(v.shape == (-1, number + 1) for v in main.inputs)
        assert [p.name for p in main.parameters][:2] == [f"t{number}_t{number}_fc_0.{kind}_0" for kind in "wb"]
    assert not outside.global_block().ops


def test_gradient_modes_hold_for_their_thread():
    def work(number):
        for _ in range(ROUNDS * 3):
            x = paddle.to_tensor(np.full(3, number, np.float32), stop_gradient=False)
            if number % 2:
                with paddle.no_grad():
                    assert (x * 2.0).stop_gradient
                    assert not paddle.is_grad_enabled()
            else:
                paddle.sum(x * x).backward()
                np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0 * number))
                assert paddle.is_grad_enabled()
        return True

    assert all(together(work))
    assert paddle.is_grad_enabled()


def test_mixed_precision_holds_for_its_thread():
    def work(number):
        for _ in range(ROUNDS):
            a = paddle.to_tensor(np.ones((2, 2), np.float32))
            if number % 2:
                with paddle.amp.auto_cast():
                    assert paddle.matmul(a, a).dtype == "float16" or str(paddle.matmul(a, a).dtype).endswith("float16")
            else:
                assert paddle.matmul(a, a).numpy().dtype == np.float32
        return True

    assert all(together(work))


def test_the_default_program_is_made_once():
    found = together(lambda number: static.default_main_program(), 8)
    assert all(program is found[0] for program in found)


def test_names_are_counted_once():
    names = together(lambda number: [paddle.utils.unique_name.generate("k") for _ in range(500)])
    assert len({name for part in names for name in part}) == 500 * THREADS
