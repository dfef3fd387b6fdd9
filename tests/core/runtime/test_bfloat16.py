"""Values of types that onnxruntime's Python interface does not hand over: state is read and set, tensors are fed and fetched."""

import ml_dtypes
import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import Executor, static
from onnxgrad.core.ir.memory import array_of, value_of
from onnxgrad.core.ir.scope import Scope

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
