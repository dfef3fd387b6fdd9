"""Operators without a float64 kernel, written out: values against Python's math and numpy, and against onnx.reference."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import onnxgrad
from onnxgrad import Executor, static
from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.graph_passes.float64 import AT_18, FORMS
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.errors import ExecutionError
from onnxgrad.testing import _Case, evaluate
from tests.core.rules.samples import thoroughly
from tests.core.rules.test_gradients import SAMPLES

DRAW = np.random.default_rng(0)
EXECUTOR = Executor(threads=1)


def single(value):
    """An attribute as a file holds it."""
    return float(np.float32(value))


def log1p_exp(v):
    return max(v, 0.0) + math.log1p(math.exp(-abs(v)))


def elu(v, alpha):
    return v if v >= 0 else alpha * math.expm1(v)


WIDE = np.concatenate([DRAW.uniform(-700, 700, 500), DRAW.uniform(-3, 3, 2000), [0.0, 1e-300, -1e-17, 0.66, 2.5, 1.0, -1.0, 6.0]])
INSIDE = np.concatenate([DRAW.uniform(-1, 1, 2000), 1 - 10 ** DRAW.uniform(-15, 0, 200), 10 ** DRAW.uniform(-300, -1, 200), [0.0]])
LARGE = np.concatenate([10 ** DRAW.uniform(-20, 300, 2000), -(10 ** DRAW.uniform(-20, 300, 500)), DRAW.uniform(-5, 5, 2000)])
FUNCTIONS = {
    "Acos": (math.acos, INSIDE, {}),
    "Acosh": (math.acosh, 1 + 10 ** DRAW.uniform(-15, 300, 3000), {}),
    "Asin": (math.asin, INSIDE, {}),
    "Asinh": (math.asinh, LARGE, {}),
    "Atan": (math.atan, LARGE, {}),
    "Atanh": (math.atanh, INSIDE, {}),
    "Cosh": (math.cosh, WIDE, {}),
    "Elu": (lambda v: elu(v, single(0.3)), WIDE, {"alpha": 0.3}),
    "Erf": (math.erf, np.concatenate([WIDE, DRAW.uniform(-7, 7, 3000)]), {}),
    "HardSigmoid": (lambda v: min(max(single(0.3) * v + single(0.4), 0.0), 1.0), WIDE, {"alpha": 0.3, "beta": 0.4}),
    "HardSwish": (lambda v: v * min(max(v / 6 + 0.5, 0.0), 1.0), WIDE, {}),
    "LeakyRelu": (lambda v: v if v >= 0 else single(0.3) * v, WIDE, {"alpha": 0.3}),
    "Mish": (lambda v: v * math.tanh(log1p_exp(v)), WIDE, {}),
    "Selu": (lambda v: single(1.1) * elu(v, single(0.3)), WIDE, {"alpha": 0.3, "gamma": 1.1}),
    "Shrink": (
        lambda v: v + single(0.1) if v < -single(0.3) else v - single(0.1) if v > single(0.3) else 0.0,
        WIDE,
        {"lambd": 0.3, "bias": 0.1},
    ),
    "Sinh": (math.sinh, np.concatenate([WIDE, [710.2, -710.2]]), {}),
    "Softplus": (log1p_exp, WIDE, {}),
    "Softsign": (lambda v: v / (1 + abs(v)), WIDE, {}),
    "Swish": (lambda v: v / (1 + math.exp(-single(0.7) * v)), DRAW.uniform(-30, 30, 2000), {"alpha": 0.7, "opset": 26}),
    "Tan": (math.tan, DRAW.uniform(-1.5, 1.5, 2000), {}),
    "ThresholdedRelu": (lambda v: v if v > single(0.3) else 0.0, WIDE, {"alpha": 0.3}),
}


def program_of(op_type, x, opset=21, **attrs):
    program = static.Program()
    program.set_opset_version(opset)
    with static.program_guard(program):
        v = static.data("x", [None], "float64")
        y = v.block.build.emit(op_type, [v], attrs)
    return program, y


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_functions_of_one_number_are_those_of_math(op_type):
    function, x, attrs = FUNCTIONS[op_type]
    program, y = program_of(op_type, x, **attrs)
    (found,) = EXECUTOR.run(program, feed={"x": x}, fetch_list=[y])
    expected = np.array([function(v) for v in x])
    assert found.dtype == np.float64
    # HardSwish cancels at -3, and onnxruntime's Sin is off by 1e-16 near multiples of pi.
    atol = 2e-16 if op_type in ("HardSwish", "Tan") else 1e-300
    np.testing.assert_allclose(found, expected, rtol=3e-15 if op_type != "Tan" else 1e-14, atol=atol)


def gelu(v):
    return 0.5 * v * (1 + math.erf(v / math.sqrt(2)))


def gelu_by_tanh(v):
    return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))


@pytest.mark.parametrize(("approximate", "function"), [("none", gelu), ("tanh", gelu_by_tanh)])
def test_gelu_is_exact(approximate, function):
    x = DRAW.uniform(-10, 10, 3000)
    program, y = program_of("Gelu", x, approximate=approximate)
    (found,) = EXECUTOR.run(program, feed={"x": x}, fetch_list=[y])
    # 1 + tanh and 1 + erf cancel below 0, in the formula too.
    np.testing.assert_allclose(found, [function(v) for v in x], rtol=1e-14, atol=5e-15)


SPECIAL = np.array([np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, 0.0])
AT_SPECIAL = {
    "Acos": [np.nan, np.nan, np.nan, 0, math.pi, np.nan, math.pi / 2],
    "Acosh": [np.inf, np.nan, np.nan, 0, np.nan, math.acosh(2), np.nan],
    "Asin": [np.nan, np.nan, np.nan, math.pi / 2, -math.pi / 2, np.nan, 0],
    "Asinh": [np.inf, -np.inf, np.nan, math.asinh(1), -math.asinh(1), math.asinh(2), 0],
    "Atan": [math.pi / 2, -math.pi / 2, np.nan, math.pi / 4, -math.pi / 4, math.atan(2), 0],
    "Atanh": [np.nan, np.nan, np.nan, np.inf, -np.inf, np.nan, 0],
    "Cosh": [np.inf, np.inf, np.nan, math.cosh(1), math.cosh(1), math.cosh(2), 1],
    "Elu": [np.inf, -1, np.nan, 1, math.expm1(-1), 2, 0],
    "Erf": [1, -1, np.nan, math.erf(1), -math.erf(1), math.erf(2), 0],
    "LeakyRelu": [np.inf, -np.inf, np.nan, 1, single(-0.01), 2, 0],
    "Sinh": [np.inf, -np.inf, np.nan, math.sinh(1), -math.sinh(1), math.sinh(2), 0],
    "Softplus": [np.inf, 0, np.nan, log1p_exp(1), log1p_exp(-1), log1p_exp(2), math.log(2)],
    "ThresholdedRelu": [np.inf, 0, np.nan, 0, 0, 2, 0],
}


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_hardmax_marks_the_first_of_the_largest(axis):
    x = static.data("x", [2, 3, 4], "float64")
    value = DRAW.integers(0, 3, (2, 3, 4)).astype(float)
    (found,) = EXECUTOR.run(feed={"x": value}, fetch_list=[x.block.build.Hardmax(x, axis=axis)])
    expected = np.zeros((2, 3, 4))
    np.put_along_axis(expected, np.expand_dims(value.argmax(axis), axis), 1.0, axis)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op_type", AT_SPECIAL)
def test_infinities_and_nan_are_kept(op_type):
    program, y = program_of(op_type, SPECIAL)
    (found,) = EXECUTOR.run(program, feed={"x": SPECIAL}, fetch_list=[y])
    np.testing.assert_allclose(found, AT_SPECIAL[op_type], rtol=1e-15, atol=0)


# Samples: forward and gradient -------------------------------------------------------------------------------------------------

# onnx.reference computes with attributes in float32, or onnxruntime reads an operand of MaxUnpool otherwise (samples_spatial.py).
ROUNDED = {"LRN": 5e-8, "HardSwish": 5e-8}


def is_comparable(sample):
    return sample.op_type in FORMS and (sample.op_type != "MaxUnpool" or sample.runs)


@pytest.mark.parametrize("form", ["", "symbolic"])
@pytest.mark.parametrize("sample", thoroughly(s for s in SAMPLES if is_comparable(s)))
def test_values_and_gradients_are_those_of_the_reference(sample, form):
    case = _Case(sample, "float64", form)
    values = evaluate(to_onnx(case.program, case.outputs), case.feeds, case.operators)
    seeds = case.cotangents(case.outputs, values)
    wanted = [*case.outputs, *(g for g in gradients(case.outputs, case.differentiated, seeds) if g is not None)]
    if not wanted:
        pytest.skip("has no floating-point result")
    expected = evaluate(to_onnx(case.program, wanted), case.feeds, case.operators)
    case.program.is_oracle = False
    if sample.op_type == "Det" and form == "symbolic":
        with pytest.raises(ExecutionError, match=r"Det .*does not compute Det in float64.*known ranks and sizes only"):
            EXECUTOR.run(case.program, feed=case.feeds, fetch_list=wanted)
        return
    found = EXECUTOR.run(case.program, feed=case.feeds, fetch_list=wanted)
    for actual, wide in zip(found, expected, strict=True):
        assert actual.shape == wide.shape
        scale = max(1.0, float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0)))
        tolerance = ROUNDED.get(sample.op_type, 1e-12)
        np.testing.assert_allclose(actual, wide, rtol=tolerance, atol=tolerance * scale)


def test_local_response_normalization_is_its_formula():
    x = DRAW.normal(size=(2, 5, 3))
    program = static.Program()
    with static.program_guard(program):
        v = static.data("x", [None, 5, None], "float64")
        y = v.block.build.LRN(v, size=3, alpha=0.3, beta=0.7, bias=1.5)
    (found,) = EXECUTOR.run(program, feed={"x": x}, fetch_list=[y])
    total = np.stack([(x[:, max(0, c - 1) : c + 2] ** 2).sum(axis=1) for c in range(5)], axis=1)
    np.testing.assert_allclose(found, x / (1.5 + single(0.3) / 3 * total) ** single(0.7), rtol=1e-14)


def test_determinants_up_to_64_rows_are_those_of_numpy():
    for size in (1, 2, 5, 64):
        x = DRAW.normal(size=(2, 3, size, size))
        x[0, 0, 0] = 0.0
        program = static.Program()
        with static.program_guard(program):
            v = static.data("x", [None, 3, size, size], "float64")
            y = v.block.build.Det(v)
        (found,) = EXECUTOR.run(program, feed={"x": x}, fetch_list=[y])
        np.testing.assert_allclose(found, np.linalg.det(x), rtol=1e-12)


# Where it is applied -----------------------------------------------------------------------------------------------------------


def model_of(op_type, opset, **attrs):
    """y = op(x), z = y * y"""
    operands = ["x", "s"] if op_type == "PRelu" else ["x"]
    nodes = [helper.make_node(op_type, operands, ["y"], **attrs), helper.make_node("Mul", ["y", "y"], ["z"])]
    x, z = (helper.make_tensor_value_info(name, TensorProto.DOUBLE, [None, 3]) for name in "xz")
    slope = [onnx.numpy_helper.from_array(np.array([0.1, 0.2, 0.3]), "s")] if op_type == "PRelu" else []
    graph = helper.make_graph(nodes, "g", [x], [z], slope)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(model, feed):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)


@pytest.mark.parametrize("op_type", sorted(AT_18))
def test_what_runs_at_opset_18_still_runs_after_a_gradient(op_type):
    x = np.array([[-1.5, 0.4, 2.2], [0.1, -0.3, -4.0]])
    original = model_of(op_type, 18)
    (before,) = run(original, {"x": x})
    program = from_onnx(original)
    program.find("x").stop_gradient = False
    (gx,) = gradients([program.find("z")], [program.find("x")])
    (z,), (again, slope) = run(to_onnx(program), {"x": x}), EXECUTOR.run(program, feed={"x": x}, fetch_list=["z", gx])
    (exported,) = run(to_onnx(program, [gx]), {"x": x})
    # HardSwish: onnxruntime's function has 1/6 in float32.
    rtol = 1e-7 if op_type == "HardSwish" else 1e-13
    for found in (z, again):
        np.testing.assert_allclose(found, before, rtol=rtol)
    np.testing.assert_array_equal(exported, slope)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = 1e-5
        high, low = (EXECUTOR.run(program, feed={"x": x + s}, fetch_list=["z"])[0].sum() for s in (step, -step))
        np.testing.assert_allclose(slope[at], (high - low) / 2e-5, rtol=1e-8, atol=1e-9)


def test_files_are_written_as_they_were_read():
    model = model_of("Softplus", 18)
    assert [node.op_type for node in to_onnx(from_onnx(model)).graph.node] == ["Softplus", "Mul"]
    newer = to_onnx(from_onnx(model_of("Softplus", 21)))
    assert [node.op_type for node in newer.graph.node] == ["Softplus", "Mul"]


def test_the_program_and_float32_stay_as_they_are():
    program, y = program_of("Erf", None)
    with static.program_guard(program):
        single_input = static.data("single", [None])
        z = single_input.block.build.Erf(single_input)
    EXECUTOR.run(program, feed={"x": np.ones(2), "single": np.ones(2, np.float32)}, fetch_list=[y, z])
    assert [op.type for op in program.global_block().ops] == ["Erf", "Erf"]
    graph = onnxgrad.core.compile.compile(program, [y, z], "cpu")
    assert sum(op.type == "Erf" for op in graph.operators) == 1
    assert [name for name, _ in graph.outputs] == [y.name, z.name]


def test_bodies_of_loops_are_written_out():
    body = helper.make_graph(
        [
            helper.make_node("Erf", ["h"], ["e"]),
            helper.make_node("Add", ["e", "x"], ["h2"]),
            helper.make_node("Identity", ["c"], ["c2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", TensorProto.DOUBLE, [3]),
        ],
        [
            helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h2", TensorProto.DOUBLE, [3]),
        ],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    x, y = (helper.make_tensor_value_info(name, TensorProto.DOUBLE, [3]) for name in "xy")
    graph = helper.make_graph([loop], "g", [x], [y], [onnx.numpy_helper.from_array(np.array(3), "n")])
    program = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8))
    feed = {"x": np.array([0.3, -1.2, 2.0])}
    expected, slope = feed["x"], np.ones(3)
    for _ in range(3):
        slope = slope * 2 / math.sqrt(math.pi) * np.exp(-(expected**2)) + 1
        expected = np.array([math.erf(v) for v in expected]) + feed["x"]
    np.testing.assert_allclose(EXECUTOR.run(program, feed=feed, fetch_list=["y"])[0], expected, rtol=1e-15)
    program.find("x").stop_gradient = False
    (gx,) = gradients([program.find("y")], [program.find("x")])
    np.testing.assert_allclose(EXECUTOR.run(program, feed=feed, fetch_list=[gx])[0], slope, rtol=1e-14)


def test_what_has_no_form_is_refused_by_name():
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [1, 1, 2, 2], "float64")
        y = x.block.build.Resize(x, None, None, np.array([1, 1, 4, 4]), mode="linear")
    with pytest.raises(ExecutionError, match=r"^Resize .*does not compute Resize in float64.*Cast its operands"):
        EXECUTOR.run(program, feed={"x": np.ones((1, 1, 2, 2))}, fetch_list=[y])


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_are_refused_by_name_and_their_gradients_run(op_type, gates):
    program = static.Program()
    with static.program_guard(program):
        x, w, r = (static.data(n, s, "float64") for n, s in (("x", [3, 2, 2]), ("w", [1, 3 * gates, 2]), ("r", [1, 3 * gates, 3])))
        y = program.global_block().build.emit(op_type, [x, w, r], {"hidden_size": 3})
    x.stop_gradient = False
    feed = {v.name: DRAW.normal(size=v.shape) for v in (x, w, r)}
    with pytest.raises(
        ExecutionError, match=f"{op_type}.*(does not support double|does not compute).*Cast its operands to float32"
    ):
        EXECUTOR.run(program, feed=feed, fetch_list=[y])
    (gx,) = gradients([y], [x])
    slope = EXECUTOR.run(program, feed=feed, fetch_list=[gx])[0]
    for at in np.ndindex(3, 2, 2):
        step = np.zeros((3, 2, 2))
        step[at] = 1e-5
        high, low = (EXECUTOR.run(program, feed={**feed, "x": feed["x"] + s}, fetch_list=[y, gx])[0].sum() for s in (step, -step))
        np.testing.assert_allclose(slope[at], (high - low) / 2e-5, rtol=1e-7, atol=1e-9)


def test_eager_tensors_compute_in_float64():
    x = onnxgrad.to_tensor(np.array([0.5, -0.25]), stop_gradient=False)
    y = onnxgrad.erf(x)
    y.sum().backward()
    np.testing.assert_allclose(np.asarray(y), [math.erf(0.5), math.erf(-0.25)], rtol=1e-15)
    np.testing.assert_allclose(np.asarray(x.grad), 2 / math.sqrt(math.pi) * np.exp(-np.array([0.25, 0.0625])), rtol=1e-15)
    image = onnxgrad.to_tensor(DRAW.normal(size=(1, 2, 4, 4)))
    weight = onnxgrad.to_tensor(DRAW.normal(size=(3, 2, 4, 4)))
    found = np.asarray(onnxgrad.nn.functional.conv2d(image, weight)).reshape(3)
    np.testing.assert_allclose(found, np.einsum("nchw,ochw->o", np.asarray(image), np.asarray(weight)), rtol=1e-13)


# What stands in the table ------------------------------------------------------------------------------------------------------

ATTRIBUTES = {
    "AveragePool": {"kernel_shape": [2, 2]},
    "LpPool": {"kernel_shape": [2, 2]},
    "LRN": {"size": 3},
    "MaxUnpool": {"kernel_shape": [2, 2], "strides": [2, 2]},
}
OPERANDS = {
    "Col2Im": [(1, 8, 4), np.array([3, 3]), np.array([2, 2])],
    "Conv": [(1, 2, 4, 4), (3, 2, 2, 2)],
    "ConvTranspose": [(1, 2, 4, 4), (2, 3, 2, 2)],
    "InstanceNormalization": [(1, 2, 3, 3), (2,), (2,)],
    "MaxUnpool": [(1, 1, 2, 2), np.array([[[[0, 2], [8, 10]]]])],
    "Mean": [(1, 2, 3, 3), (3,)],
    "OneHot": [np.array([0, 2]), np.array(3), (2,)],
    "PRelu": [(1, 2, 3, 3), (3,)],
}


@pytest.mark.parametrize("op_type", sorted(FORMS.keys() - {"Shrink"}))
def test_onnxruntime_has_no_kernel_for_what_is_written_out(op_type):
    arrays = [v if isinstance(v, np.ndarray) else np.ones(v) for v in OPERANDS.get(op_type, [(1, 2, 3, 3)])]
    types = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
    inputs = [helper.make_tensor_value_info(f"x{i}", t, a.shape) for i, (a, t) in enumerate(zip(arrays, types, strict=True))]
    node = helper.make_node(op_type, [v.name for v in inputs], ["y"], **ATTRIBUTES.get(op_type, {}))
    output = helper.make_tensor_value_info("y", TensorProto.INT64 if op_type == "NonZero" else TensorProto.DOUBLE, None)
    opset = 26 if op_type == "Swish" else 21
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inner = {"Gelu": "Erf", "HardSwish": "HardSigmoid", "Mish": "Softplus"}.get(op_type, op_type)
    with pytest.raises(Exception, match=f"NOT_IMPLEMENTED.*{inner}"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_onnxruntime_still_rounds_shrink_to_float32():
    x = np.array([0.1, 2 / 3])
    node = helper.make_node("Shrink", ["x"], ["y"], lambd=0.0)
    values = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    (found,) = run(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), {"x": x})
    np.testing.assert_array_equal(found, x.astype(np.float32))
