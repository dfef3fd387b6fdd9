"""What callers give for an input: each kind of value, for each type, at each door, against what Python's own numbers say."""

import math

import ml_dtypes
import numpy as np
import pytest
from onnx import parser

import onnxgrad as paddle
from onnxgrad import errors, func, static
from onnxgrad.core.state.inputs import COLUMN, FEED, as_input
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of
from onnxgrad.dtypes import dtype_of
from onnxgrad.federated import Worker
from onnxgrad.training import Trainer

TYPES = (
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4e2m1"),
    *("bool", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)
NUMBERS = (
    *(-1, 0, 1, 2, 7, 8, 15, 16, 127, 128, 255, 256, 300, -129, 65504, 70000, 2**24 + 1, 2**31, 2**33 + 1, 2**63 - 1, 2**63),
    *(True, False, 0.0, 0.9, 1.0, -1.5, 448.0, 1e6, 3e38, 1e39, 1e300, math.inf, -math.inf, math.nan),
)
OTHERS = (None, "1", "False", "", b"1", 2**64, 1j, object(), {"a": 1}, {1.0})


class OnlyArray:
    """A tensor of another library that has ``__array__`` and nothing else."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array if dtype is None else self._array.astype(dtype)


class OnlyDLPack:
    """A tensor of another library that has ``__dlpack__`` and nothing else."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Unreadable:
    """A tensor that refuses to be read, as those of other libraries that record gradients do."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


FORMS = {
    "list": lambda v: [v],
    "tuple": lambda v: (v,),
    "array": lambda v: np.array([v]),
    "__array__": lambda v: OnlyArray(np.array([v])),
    "__dlpack__": lambda v: OnlyDLPack(np.array([v])),
    "swapped bytes": lambda v: np.array([v]).astype(np.array([v]).dtype.newbyteorder(">")),
}


def expected(number, dtype):
    """The number as the type has it, by Python's integers; None where the type does not hold it."""
    if dtype.name == "bool" or dtype.is_integer:
        if isinstance(number, float):
            return None
        low, high = (0, 1) if dtype.name == "bool" else (ml_dtypes.iinfo(dtype.numpy).min, ml_dtypes.iinfo(dtype.numpy).max)
        return int(number) if int(low) <= int(number) <= int(high) else None
    with np.errstate(all="ignore"):
        rounded = float(np.array(float(number)).astype(dtype.numpy).astype(np.float64))
    if dtype.name == "float4e2m1":
        return rounded if abs(number) <= 6 else None
    if math.isnan(number):
        return rounded
    if math.isinf(number):
        return rounded if math.isinf(rounded) else None
    return rounded if math.isfinite(rounded) else None


def check(give, number, dtype):
    """What a door makes of a number is what is expected, or a refusal that names the input."""
    wanted = expected(number, dtype)
    if wanted is None:
        with pytest.raises(errors.FeedError, match="'x'"):
            give()
        return
    array = give()
    assert array.dtype == dtype.numpy
    np.testing.assert_array_equal(array.reshape(-1).astype(object if dtype.is_integer else np.float64), [wanted])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_a_number_is_taken_as_it_is_or_refused(name, form):
    dtype, x = dtype_of(name), static.data("x", [None], name)
    for number in NUMBERS:
        value = FORMS[form](number)
        if form == "__dlpack__" and value._array.dtype.kind == "O":
            continue
        check(lambda value=value: as_input(x, value, COLUMN), number, dtype)


@pytest.mark.parametrize("door", [FEED, COLUMN], ids=["feed", "column"])
@pytest.mark.parametrize("name", TYPES)
def test_what_is_no_number_is_refused(name, door):
    x = static.data("x", [None], name)
    for other in (
        *OTHERS,
        [1, [2, 3]],
        [[1], 2],
        np.array(["1"]),
        np.array([None]),
        np.array(["2020-01-01"], "M8[D]"),
        Unreadable(),
        x,
    ):
        for value in (other, [other]):
            with pytest.raises(door.error, match="'x'"):
                as_input(x, value, door)


@pytest.mark.parametrize("name", TYPES)
def test_numpy_arrays_that_are_fed_have_the_type(name):
    x = static.data("x", [None], name)
    for source in TYPES:
        array = np.ones(2, dtype_of(source).numpy)
        if source == name:
            assert as_input(x, array) is array
        else:
            with pytest.raises(errors.FeedError, match="the program takes"):
                as_input(x, array)


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("name", TYPES)
def test_a_type_never_becomes_one_of_a_narrower_kind(name, source):
    x, old = static.data("x", [None], name), dtype_of(source)
    array = np.ones(2, old.numpy)
    if old.is_float and not x.dtype.is_float:
        with pytest.raises(errors.DataError, match="the model takes"):
            as_input(x, array, COLUMN)
    else:
        np.testing.assert_array_equal(as_input(x, array, COLUMN).astype(np.float64), [1, 1])


def test_masked_elements_have_no_value():
    x = static.data("x", [None])
    masked = np.ma.MaskedArray(np.ones(2, np.float32), [False, True])
    with pytest.raises(errors.FeedError, match="masked"):
        as_input(x, masked)
    np.testing.assert_array_equal(as_input(x, np.ma.MaskedArray(np.ones(2, np.float32))), [1, 1])


def test_strings_are_taken_for_strings_alone():
    x = static.data("x", [None], "string")
    for value in (["a", "b"], np.array(["a", "b"]), np.array(["a", "b"], object)):
        assert as_input(x, value).tolist() == ["a", "b"]
    for value in ([1, "b"], [None, "b"], np.ones(2), np.array([b"a"])):
        with pytest.raises(errors.FeedError, match="'x'"):
            as_input(x, value)


def test_the_shape_is_that_of_the_variable():
    x = static.data("x", [None, 2])
    for shape in ((2,), (2, 3), (1, 2, 2), ()):
        for value in (np.ones(shape, np.float32), value_of(np.ones(shape, np.float32)), np.ones(shape).tolist()):
            with pytest.raises(errors.FeedError, match="shape"):
                as_input(x, value)
    value = value_of(np.ones((3, 2), np.float32))
    assert as_input(x, value) is value
    turned = np.ones((2, 3), np.float32).T
    assert as_input(x, turned).flags.c_contiguous and not turned.flags.c_contiguous


# Doors ---------------------------------------------------------------------------------------------------------------


TEXT = """<ir_version: 10, opset_import: ["": 21]>
    net (TYPE[N,1] x) => (float[N,2] y) <float[1,2] w = {1, 1}> { c = Cast<to=1>(x)  y = MatMul(c, w) }"""
SPELLED = {"float32": "float", "float64": "double"}
DOORS = (
    "Executor",
    "func",
    "Trainer.predict",
    "Trainer.evaluate",
    "Trainer.step",
    "Trainer.fit",
    "Worker",
    "to_tensor",
    "set_value",
)
ONE = np.ones((1, 2), np.float32)


def door_of(door, name):
    """A function from a value of shape [1, 1] for ``x`` to what the model makes of it, or to None."""
    model = parser.parse_model(TEXT.replace("TYPE", SPELLED.get(name, name)))
    if door == "Executor":
        executor, program = static.Executor(), paddle.from_onnx(model)
        return lambda value: executor.run(program, {"x": value}, ["y"])[0][:, :1]
    if door == "func":
        function = func.value_and_grad(model, "y", "w")
        return lambda value: function({"x": value})[0]["y"][:, :1]
    if door == "to_tensor":
        return lambda value: named(lambda: paddle.to_tensor(value, name).numpy())
    if door == "set_value":
        variable, scope = static.data("x", [1, 1], name), Scope()
        return lambda value: named(lambda: variable.set_value(value, scope) or scope.get("x"))
    trainer = Trainer(model, loss="mse", optimizer="sgd", learning_rate=0.0, trainable="w")
    if door == "Trainer.predict":
        return lambda value: trainer.predict({"x": value})["y"][:, :1]
    if door == "Trainer.evaluate":
        return lambda value: trainer.evaluate({"x": value, "target": ONE}) and None
    if door == "Trainer.step":
        return lambda value: trainer.step({"x": value, "target": ONE}) and None
    if door == "Trainer.fit":
        return lambda value: trainer.fit([{"x": value, "target": ONE}], epochs=1, verbose=False) and None
    worker = Worker(trainer)
    return lambda value: worker.columns({"x": value, "target": ONE})[0]["x"]


def named(give):
    """What a door gives that has its own errors, and names for values"""
    try:
        return give()
    except (errors.ArgumentError, errors.ArgumentTypeError, errors.FeedError) as error:
        raise errors.FeedError(f"'x': {error}") from error


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_and_refuses_the_same(door, name):
    give, dtype = door_of(door, name), dtype_of(name)
    trains = door.startswith("Trainer")
    for number in NUMBERS:
        wanted = expected(number, dtype)
        if trains and wanted is not None and abs(wanted) > 1e15 and not math.isnan(wanted):
            continue  # its square is not finite in float32
        for form in ("list", "array", "__array__", "__dlpack__"):
            value = {"list": [[number]], "array": np.array([[number]])}.get(form)
            if value is None:
                value = {"__array__": OnlyArray, "__dlpack__": OnlyDLPack}[form](np.array([[number]]))
            typed = form == "array" and door in ("Executor", "func") and value.dtype != dtype.numpy
            finite = wanted is not None and (math.isfinite(wanted) or not trains)
            if wanted is None or typed or not finite:
                with pytest.raises(errors.FeedError, match="'x'"):
                    give(value)
                continue
            array = give(value)
            if array is not None:
                with np.errstate(over="ignore"):
                    np.testing.assert_array_equal(
                        np.asarray(array).astype(np.float32), np.float32([[wanted]]), err_msg=f"{number!r} as {form}"
                    )
    for other in (None, "1", "False", 2**64, 1j):
        with pytest.raises(errors.FeedError, match="'x'"):
            give([[other]])


def test_a_shape_of_a_step_for_known_shapes_is_read_at_the_same_door():
    images = static.data("x", [None, 3, 8, 8])
    loss = paddle.mean(static.nn.conv2d(images, 2, 3))
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    feed = np.ones((2, 3, 8, 8), np.float32)
    (first,) = executor.run(feed={"x": feed}, fetch_list=[loss])
    for value in (OnlyDLPack(feed), OnlyArray(feed), feed.tolist(), value_of(feed)):
        (again,) = executor.run(feed={"x": value}, fetch_list=[loss])
        assert again < first
    for value in ([[1], [1, 2]], Unreadable(), None, "1"):
        with pytest.raises(errors.FeedError, match="'x'"):
            executor.run(feed={"x": value}, fetch_list=[loss])
