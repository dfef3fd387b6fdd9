"""Values of types that onnxruntime's Python interface does not hand over: state is read and set, tensors are fed and fetched."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import Executor, static
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import array_of, value_of

BFLOAT16 = ml_dtypes.bfloat16
TYPES = [BFLOAT16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (1,)])
@pytest.mark.parametrize("dtype", [*TYPES, np.float32, np.int64])
def test_an_array_comes_back_as_it_was(dtype, shape):
    array = np.random.default_rng(0).normal(size=shape).astype(dtype)
    value = value_of(array)
    expected = array.copy()
    array[...] = 0
    found = array_of(value)
    assert found.dtype == expected.dtype and found.shape == shape
    assert found.tobytes() == expected.tobytes()
    found[...] = 0
    assert array_of(value).tobytes() == expected.tobytes()


def trained(steps=2):
    """loss = mean((x w)^2) with a bfloat16 parameter"""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 7
    with static.program_guard(main, startup):
        x = static.data("x", [None, 2])
        w = paddle.create_parameter([2, 2], "bfloat16", default_initializer=paddle.nn.initializer.Constant(0.5))
        loss = paddle.mean(paddle.square(paddle.matmul(x, w.astype("float32"))))
        paddle.optimizer.Adam(0.1).minimize(loss)
    executor, scope = Executor(), Scope()
    executor.run(startup, scope=scope)
    for _ in range(steps):
        (last,) = executor.run(main, feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[loss], scope=scope)
    return main, loss, w, executor, scope, last


def test_state_is_read_from_the_scope_and_fetched():
    main, loss, w, executor, scope, _ = trained()
    found = scope.get(w.name)
    assert found.dtype == BFLOAT16 and found.shape == (2, 2)
    np.testing.assert_allclose(found.astype(np.float32), 0.3, rtol=1e-2)
    views = [
        w.get_value(scope),
        np.array(scope.find_var(w.name).get_tensor()),
        main.state_dict(scope=scope)[w.name],
        executor.run(main.clone(for_test=True), feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[w.name], scope=scope)[0],
    ]
    assert all(view.dtype == BFLOAT16 and view.tobytes() == found.tobytes() for view in views)
    fetched = executor.run(main, feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[loss, w], scope=scope)[1]
    assert fetched.tobytes() == scope.get(w.name).tobytes() != found.tobytes()


def test_state_that_is_set_is_trained_on():
    main, loss, w, executor, scope, _ = trained(steps=1)
    feed = {"x": np.ones((1, 2), np.float32)}
    for given in (np.full((2, 2), 2.0, BFLOAT16), np.full((2, 2), 3.0, np.float32)):
        scope.set(w.name, given, w)
        before, after = (executor.run(main, feed=feed, fetch_list=[loss], scope=scope)[0] for _ in range(2))
        assert before == (2 * float(given[0, 0])) ** 2 and after < before
        assert (scope.get(w.name) < given.astype(BFLOAT16)).all()


def test_a_run_goes_on_as_before_after_its_state_was_read_and_put_back():
    *_, last = trained(steps=4)
    main, loss, _, executor, scope, _ = trained(steps=2)
    state = {name: scope.get(name) for name in scope.local_var_names()}
    other = Scope()
    for name, value in state.items():
        other.set(name, value)
    for _ in range(2):
        (again,) = executor.run(main, feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[loss], scope=other)
    assert again == last


def test_tensors_are_fed_and_fetched():
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [None], "bfloat16")
        y = paddle.reshape(x, [-1, 1])
        z = x.astype("float32") * 2.0
    given = np.array([1.5, -2.0, 3e37], BFLOAT16)
    column, doubled = Executor().run(program, feed={"x": given}, fetch_list=[y, z])
    assert column.dtype == BFLOAT16 and column.tobytes() == given.tobytes() and column.shape == (3, 1)
    np.testing.assert_array_equal(doubled, given.astype(np.float32) * 2)


def test_files_hold_the_trained_values():
    main, _, w, _, scope, _ = trained()
    main.scope = scope
    model = paddle.to_onnx(main.clone(for_test=True), [main.global_block().ops[0].outputs[0].name])
    held = {t.name: t for t in model.graph.initializer}[w.name]
    assert held.raw_data == scope.get(w.name).tobytes()


def narrow_net(steps=6, place=None):
    """A net whose data, weights and moments' gradients are bfloat16, and the losses of its first steps"""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 5
    with paddle.state.fresh_names(), static.program_guard(main, startup):
        x, y = static.data("x", [8, 4], "bfloat16"), static.data("y", [8, 1], "int64")
        w, v = paddle.create_parameter([4, 16], "bfloat16"), paddle.create_parameter([16, 3], "bfloat16")
        hidden = F.relu(paddle.matmul(x, w))
        loss = F.cross_entropy(paddle.matmul(F.dropout(hidden, 0.1), v), y)
        paddle.optimizer.Adam(0.05).minimize(loss)
    executor, scope = Executor(place), Scope()
    executor.run(startup, scope=scope)
    draw = np.random.default_rng(0)
    for name, shape in ((w.name, (4, 16)), (v.name, (16, 3))):
        scope.set(name, draw.normal(size=shape).astype(BFLOAT16))
    feed = {"x": draw.normal(size=(8, 4)).astype(BFLOAT16), "y": draw.integers(0, 3, (8, 1))}
    before = scope.get(w.name)
    found = [executor.run(main, feed, [loss, hidden], scope=scope) for _ in range(steps)]
    return feed, before, found, scope.get(w.name)


def test_operators_without_a_kernel_compute_in_float32_and_round():
    feed, w, found, _ = narrow_net(1)
    ((_, hidden),) = found
    product = (feed["x"].astype(np.float32) @ w.astype(np.float32)).astype(BFLOAT16)
    assert hidden.tobytes() == np.maximum(product, BFLOAT16(0)).tobytes()


def test_parameters_in_bfloat16_are_trained():
    _, before, found, after = narrow_net()
    losses = [float(loss) for loss, _ in found]
    assert found[0][0].dtype == BFLOAT16 and losses[-1] < 0.8 * losses[0]
    assert after.dtype == BFLOAT16 and (after != before).mean() > 0.5


@pytest.mark.process
def test_whoever_reads_values_can_read_them_from_a_device():
    """By a session, which values know nothing of: it is entered whatever is imported first"""
    code = "from onnxgrad.core.state import values; print(len(values._COPIERS))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
