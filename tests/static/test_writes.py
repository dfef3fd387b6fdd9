"""Programs that write to variables: tests/paddle_programs/static_writes.py has the record of Paddle, here is what it does not show."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.ir.plan import LossTerm
from onnxgrad.errors import ArgumentError, NotOffered
from onnxgrad.static import Executor
from onnxgrad.training.accumulation import add_up


def state(name, value):
    return static.default_main_program().create_global_var(name, np.asarray(value, np.float32))


def test_a_gradient_adds_up_those_of_all_values_of_a_parameter_and_goes_through_no_update():
    """Paddle 3.3.1 has 0.12960 and 0.18662 after two runs, and -0.4 for the parameter that is doubled."""
    executor, ones = Executor(), np.ones((2, 2), np.float32)
    x, w = static.data("x", [2, 2]), static.create_parameter([2, 1], "float32", "w")
    doubled = static.create_parameter([2, 1], "float32", "doubled")
    losses = []
    for _ in range(2):
        losses.append(paddle.mean(paddle.matmul(x, w) ** 2))
        paddle.optimizer.SGD(0.1, parameters=[w]).minimize(losses[-1])
    paddle.assign(doubled * 2.0, output=doubled)
    paddle.optimizer.SGD(0.1, parameters=[doubled]).minimize(paddle.mean(paddle.matmul(x, doubled) ** 2))
    w.set_value(np.ones((2, 1), np.float32))
    doubled.set_value(np.ones((2, 1), np.float32))
    executor.run(feed={"x": ones}, fetch_list=[])
    np.testing.assert_allclose(doubled.get_value(), [[-0.4], [-0.4]], rtol=1e-5)
    found = executor.run(feed={"x": ones}, fetch_list=losses)
    np.testing.assert_allclose(found, [0.51840, 0.18662], rtol=1e-4)
    np.testing.assert_allclose(w.get_value(), [[0.12960], [0.12960]], rtol=1e-4)


def test_loop_variables_are_written_and_what_lies_outside_is_refused():
    count, outside = paddle.full([1], 0, "int64"), paddle.full([1], 1.0)

    def step(i, total):
        paddle.increment(i)
        return [i, total + paddle.cast(i, "float32")]

    i, total = static.nn.while_loop(lambda i, total: i < 3, step, [count, paddle.zeros([1])])
    assert [v.tolist() for v in Executor().run(fetch_list=[i, total])] == [[3], [6.0]]
    with pytest.raises(NotOffered, match=r"inside a branch or a loop\. Return its new value"):
        static.nn.cond(paddle.mean(outside) > 0.0, lambda: paddle.increment(outside), lambda: outside)


def test_state_keeps_its_type_and_a_value_may_not():
    counter, local = state("counter", [0.0]), paddle.zeros([1])
    for value in (paddle.ones([1], "int64"), paddle.ones([3])):
        with pytest.raises(ArgumentError, match="state keeps its element type and shape"):
            paddle.assign(value, output=counter)
    paddle.assign(paddle.ones([3], "int64"), output=local)
    assert Executor().run(fetch_list=[local])[0].tolist() == [1, 1, 1]
    assert counter.get_value().tolist() == [0.0]


def test_copies_write_too():
    counter = state("counter", [0.0])
    paddle.increment(counter)
    later = counter * 10.0
    program = static.default_main_program()
    for copy in (program, program.clone(), program.clone(for_test=True)):
        paddle.assign(copy.global_block().var(later.name) + 1.0, output=copy.global_block().var("counter"))
    runs = [program, program.clone(), program.clone(for_test=True), static.Program.parse_from_string(program.serialize_to_string())]
    values = [Executor().run(one, fetch_list=[later.name])[0].tolist() for one in runs]
    assert values == [[10.0], [120.0], [1220.0], [12220.0]]


def test_where_runs_add_gradients_up_state_is_written_before():
    x, w = static.data("x", [2, 2]), static.create_parameter([2, 1], "float32", "w")
    counter = state("counter", [0.0])
    paddle.increment(counter)
    loss = paddle.mean(paddle.matmul(x, w))
    add_up(loss.block.program, [LossTerm(loss, "sum")], [static.append_backward(loss)], paddle.optimizer.SGD(0.1), 2)
    with pytest.raises(NotOffered, match="w is read behind its update, which several runs precede"):
        paddle.max(w)
    with pytest.raises(NotOffered, match="counter is overwritten where gradients are added up"):
        paddle.increment(counter)


def test_a_step_that_overflows_keeps_what_the_user_wrote():
    x, w = static.data("x", [2, 2]), static.create_parameter([2, 1], "float32", "w")
    counter = state("counter", [0.0])
    paddle.increment(counter)
    w.set_value(np.ones((2, 1), np.float32))
    static.amp.decorate(paddle.optimizer.SGD(0.1), init_loss_scaling=4.0).minimize(paddle.mean(paddle.matmul(x, w)))
    executor = Executor()
    for scale in (np.inf, 1.0):
        executor.run(feed={"x": np.full((2, 2), scale, np.float32)}, fetch_list=[])
        assert np.isfinite(w.get_value()).all()
    assert counter.get_value().tolist() == [2.0]


def test_exports_and_gradients_are_of_the_last_value(tmp_path):
    x = static.data("x", [1, 2])
    x.stop_gradient = False
    y = x * 1.0
    paddle.assign(y * 3.0, output=y)
    (gradient,) = static.gradients(y, x)
    executor, ones = Executor(), np.ones((1, 2), np.float32)
    assert executor.run(feed={"x": ones}, fetch_list=[gradient])[0].tolist() == [[3.0, 3.0]]
    static.save_inference_model(str(tmp_path / "model"), [x], [y], executor)
    program, _, fetches = static.load_inference_model(str(tmp_path / "model"), executor)
    assert executor.run(program, feed={"x": ones}, fetch_list=fetches)[0].tolist() == [[3.0, 3.0]]


def test_an_update_itself_has_a_gradient():
    """As a file has that holds a training step, whose operators say that they are an optimizer's"""
    w = static.create_parameter([2], "float32", "w")
    paddle.optimizer.SGD(0.1, parameters=[w]).minimize(paddle.mean(w * w))
    (slope,) = static.gradients([static.default_main_program().updates[w]], [w])
    Executor().run(static.default_startup_program())
    np.testing.assert_allclose(Executor().run(fetch_list=[slope])[0], [0.9, 0.9], rtol=1e-6)  # of w - 0.1 * 2 w / 2
