"""What is fetched is nobody else's memory: not what was fed, not what is in the scope, not what the next run writes."""

import numpy as np
import pytest
from onnx import parser

import onnxgrad as paddle
from onnxgrad import func, static
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.state.values import array_of, copy_into, value_on
from onnxgrad.dtypes import dtype_of
from onnxgrad.federated import Worker
from onnxgrad.training import Term, Trainer

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")

OUTPUTS = {
    "the input itself": lambda op, x: x,
    "Identity": lambda op, x: op.Identity(x),
    "Reshape": lambda op, x: op.Reshape(x, [-1]),
    "Flatten": lambda op, x: op.Flatten(x),
    "Squeeze and Unsqueeze": lambda op, x: op.Squeeze(op.Unsqueeze(x, [0]), [0]),
    "Cast to its type": lambda op, x: op.Cast(x, to=x.dtype.number),
    "Dropout that drops nothing": lambda op, x: op.Dropout(x) if x.is_float else op.Identity(x),
    "Slice of all": lambda op, x: op.Slice(x, [0], [100], [0]),
    "one part of Split": lambda op, x: op.Split(x, num_outputs=1, axis=0),
    "Transpose of an axis of 1": lambda op, x: op.Transpose(op.Reshape(x, [1, -1]), perm=[1, 0]),
    "Concat of one": lambda op, x: op.Concat(x, axis=0),
    "Expand to its shape": lambda op, x: op.Expand(x, op.Shape(x)),
}


def numbers(name, size=6):
    return np.arange(size).astype(np.float32).reshape(2, -1).astype(dtype_of(name).numpy)


def check_own(result, given, again=None):
    """Neither shares memory with the other: both keep their elements when the other's are written over."""
    assert not np.shares_memory(result, given)
    kept, held = result.copy(), given.copy()
    given.reshape(-1)[...] = np.zeros((), given.dtype)
    np.testing.assert_array_equal(result, kept)
    given[...] = held
    if again is not None:
        again()
        np.testing.assert_array_equal(result, kept)
    result[...] = np.zeros((), result.dtype)
    np.testing.assert_array_equal(given, held)


@pytest.mark.parametrize("fed", ["array", "OrtValue"])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_an_executor_gives_no_alias_of_a_feed(output, name, trains, fed):
    op = Builder(static.default_main_program().global_block())
    x = static.data("x", [None, 3], name)
    y = OUTPUTS[output](op, x)
    if trains:
        loss = paddle.mean(static.nn.fc(paddle.cast(x, "float32"), 2))
        paddle.optimizer.Momentum(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    array = numbers(name)
    given = value_on(array) if fed == "OrtValue" else array
    fetches = [y] if y is x else [x, y]
    results = executor.run(feed={"x": given}, fetch_list=fetches)
    other = numbers(name)[::-1].copy()
    for result in results:
        assert result.reshape(-1).tolist() == array.reshape(-1).tolist()
        check_own(result, array, lambda: executor.run(feed={"x": other}, fetch_list=fetches))
    if fed == "OrtValue":
        (handle,) = executor.run(feed={"x": given}, fetch_list=[y], return_numpy=False)
        kept = array.reshape(-1).tolist()
        copy_into(given, other)
        assert array_of(handle).reshape(-1).tolist() == kept


@pytest.mark.parametrize("memory", ["low", "auto", None])
@pytest.mark.parametrize("optimizer", ["SGD", "Momentum", "Adam"])
def test_state_that_was_fetched_or_read_stays_as_it_was(optimizer, memory):
    x = static.data("x", [None, 3])
    y = static.nn.fc(x, 2, name="line")
    getattr(paddle.optimizer, optimizer)(learning_rate=0.1).minimize(paddle.mean(y * y))
    executor = static.Executor(memory=memory)
    executor.run(static.default_startup_program())
    states = [v for v in static.default_main_program().list_vars() if v.persistable]
    scope = static.global_scope()
    feed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    held = []
    for _ in range(4):
        fetched = executor.run(feed=feed, fetch_list=states)
        lent = executor.run(feed=feed, fetch_list=[y], return_numpy=False)
        lent += [scope.values[v.name] for v in states if not isinstance(scope.values[v.name], np.ndarray)]
        read = [v.get_value() for v in states]
        tensors = [np.array(scope.find_var(v.name).get_tensor()) for v in states]
        for value in (*fetched, *read, *tensors):
            held.append((value, value.copy()))
        held += [(value, array_of(value)) for value in lent]
        for value, kept in held:
            np.testing.assert_array_equal(array_of(value) if not isinstance(value, np.ndarray) else value, kept)
    before = [v.get_value() for v in states]
    for value, _ in held:
        if isinstance(value, np.ndarray):
            value[...] = 0
    for v, kept in zip(states, before, strict=True):
        np.testing.assert_array_equal(v.get_value(), kept)


def test_what_is_set_is_copied():
    v = static.create_parameter([3], "float32", name="w")
    given = np.ones(3, np.float32)
    for give in (
        v.set_value,
        lambda value: static.global_scope().set("w", value),
        lambda value: static.global_scope().var("w").get_tensor().set(value),
    ):
        give(given)
        check_own(v.get_value(), given)
        given[...] = 5
        np.testing.assert_array_equal(v.get_value(), [1, 1, 1])
        given[...] = 1


TEXT = """<ir_version: 10, opset_import: ["": 21]>
    net (float[N,3] x) => (float[N,3] y, float[M] z, float[N,3] p) <float[3,3] w = {1,0,0,0,1,0,0,0,1}>
    { y = Identity(x)  shape = Constant<value = int64[1] {-1}>()  z = Reshape(x, shape)  p = MatMul(x, w) }"""


def array():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_functions_give_no_alias():
    given = array()
    f = func.value_and_grad(parser.parse_model(TEXT), ["y", "z", "p"], "x")
    values, gradients = f({"x": given})
    for result in (*values.values(), *gradients.values()):
        check_own(result, given, lambda: f({"x": given * 2}))


def test_a_program_that_was_loaded_gives_no_alias():
    given, program = array(), paddle.from_onnx(parser.parse_model(TEXT))
    executor = static.Executor()
    for result in executor.run(program, {"x": given}, ["x", "y", "z", "p"]):
        check_own(result, given, lambda: executor.run(program, {"x": given * 2}, ["x", "y", "z", "p"]))


def test_weights_that_are_fetched_or_exported_are_copies():
    program = paddle.from_onnx(parser.parse_model(TEXT))
    (weight,) = static.Executor().run(program, {"x": array()}, ["w"])
    weight[...] = 0
    np.testing.assert_array_equal(static.Executor().run(program, {"x": array()}, ["p"])[0], array())


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_predictions_are_no_aliases(batch_size):
    given = array()
    model = parser.parse_model(TEXT.replace("float[M] z, ", "").replace("z = Reshape(x, shape)", ""))
    trainer = Trainer(model, loss=Term("mse", output="p"), optimizer="sgd")
    results = trainer.predict({"x": given}, batch_size=batch_size)
    for result in results.values():
        check_own(result, given, lambda: trainer.predict({"x": given * 2}, batch_size=batch_size))


def test_the_weights_of_a_worker_are_copies():
    model = parser.parse_model(TEXT.replace("float[M] z, ", "").replace("z = Reshape(x, shape)", ""))
    worker = Worker(Trainer(model, loss=Term("mse", output="p"), optimizer="sgd"))
    (weight,) = worker.get()
    kept = weight.copy()
    sent = [weight.copy()]
    worker.set(sent)
    sent[0][...] = 7
    weight[...] = 9
    np.testing.assert_array_equal(worker.get()[0], kept)
    state = worker.local_state()
    for value in state.values():
        value[...] = 3
    worker.set_local_state(None)
    np.testing.assert_array_equal(worker.get()[0], kept)


EAGER = {
    "to_tensor": lambda t: t,
    "reshape": lambda t: t.reshape([-1]),
    "cast": lambda t: t.astype(t.dtype),
    "clone": lambda t: t.clone(),
    "detach": lambda t: t.detach(),
    "assign": lambda t: paddle.assign(t),
    "squeeze": lambda t: paddle.squeeze(paddle.unsqueeze(t, 0), 0),
    "slice": lambda t: t[:],
    "transpose": lambda t: paddle.transpose(t, [0, 1]),
}


@pytest.mark.parametrize("name", ["float32", "float64", "int64", "uint8", "bool", "bfloat16"])
@pytest.mark.parametrize("function", EAGER)
def test_eager_tensors_give_no_alias(function, name):
    given = numbers(name)
    paddle.disable_static()
    try:
        tensor = paddle.to_tensor(given)
        result = EAGER[function](tensor)
        for read in (
            result.numpy,
            result.__array__,
            lambda: np.asarray(result),
            lambda: result.get_value(),
            lambda: np.array(result),
        ):
            check_own(read(), given, lambda: tensor.numpy())
            again = read()
            assert again.reshape(-1).tolist() == given.reshape(-1).tolist()
    finally:
        paddle.enable_static()


def test_an_eager_tensor_that_is_changed_in_place_leaves_what_was_read():
    paddle.disable_static()
    try:
        tensor = paddle.to_tensor(array())
        first, view = tensor.numpy(), tensor.reshape([-1])
        tensor.add_(paddle.ones([2, 3]))
        tensor[0] = 7.0
        tensor.set_value(array() * 3)
        np.testing.assert_array_equal(first, array())
        np.testing.assert_array_equal(view.numpy(), array().reshape(-1))
        given = array()
        tensor.set_value(given)
        given[...] = 0
        np.testing.assert_array_equal(tensor.numpy(), array())
    finally:
        paddle.enable_static()
