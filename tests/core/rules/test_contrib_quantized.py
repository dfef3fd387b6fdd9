"""Operators that compute in integers: the gradient is that of the same function of the real numbers that these stand for."""

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import onnxgrad
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.core.runtime.processor import has_integer_products

RNG = np.random.default_rng(11)
INT8, UINT8, UINT16 = np.int8, np.uint8, np.uint16


class Levels:
    """Real numbers in integers: values (None for an output), scale, zero point; ``fed`` if a gradient is asked for."""

    def __init__(self, values, scale, zero, *, fed=True):
        self.values, self.fed = values, fed
        self.scale, self.zero = np.asarray(scale, np.float32), np.asarray(zero)

    def wide(self, axis):
        shape = [1] * self.values.ndim
        if self.scale.ndim:
            shape[axis] = -1
        return self.scale.reshape(shape), self.zero.astype(np.float64).reshape(shape)

    def level(self, axis):
        scale, zero = self.wide(axis)
        bounds = np.iinfo(self.zero.dtype)
        level = np.rint(self.values / scale) + zero
        assert (level >= bounds.min).all() and (level <= bounds.max).all()
        return level.astype(self.zero.dtype)

    def real(self, axis):
        scale, zero = self.wide(axis)
        return (self.level(axis) - zero) * scale.astype(np.float64)


def real(*shape):
    return RNG.uniform(-1, 1, shape)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axes=(-1,)):
    e = np.exp(x)
    return e / e.sum(axes, keepdims=True)


def conv(x, w):
    """3x3 windows, no padding"""
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w)


def pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))


def max_pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def attention(x, w, b):
    q, k, v = np.split(x @ w + b, 3, axis=-1)
    q, k, v = (t.reshape(*t.shape[:2], 2, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
    y = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])) @ v
    return y.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[1], -1)


def first(x):
    return np.moveaxis(x, -1, 1)


A, B_ = Levels(np.sign(real(3, 4)) * RNG.uniform(0.1, 1, (3, 4)), 0.01, UINT8(120)), Levels(real(3, 4), 0.012, UINT8(130))
LEFT, RIGHT = Levels(real(2, 3, 4), 0.01, UINT8(128)), Levels(real(4, 5), 0.011, INT8(3), fed=False)
COLUMNS = Levels(real(4, 5), RNG.uniform(0.01, 0.02, 5), np.array([1, -2, 0, 3, 4], INT8), fed=False)
TABLE_Q = Levels(real(4, 24), 0.011, INT8(0), fed=False)
IMAGE, FILTERS = Levels(real(1, 2, 6, 6), 0.01, UINT8(128)), Levels(real(3, 2, 3, 3), 0.011, UINT8(125), fed=False)
PER_FILTER = Levels(real(3, 2, 3, 3), RNG.uniform(0.01, 0.02, 3), np.zeros(3, INT8), fed=False)
LAST = Levels(real(1, 6, 6, 2), 0.01, UINT8(128))
OUT, WIDE = Levels(None, 0.02, UINT8(127)), Levels(None, 0.06, UINT8(127))
SAME = Levels(None, 0.01, UINT8(128))
SMALL = Levels(None, 1 / 255, UINT8(0))
BIAS, BIAS32 = real(5).astype(np.float32), RNG.integers(-2000, 2000, 5).astype(np.int32)
C = RNG.random((3, 4)) < 0.5
ATTENTION_BIAS = real(24).astype(np.float32)

MS = "com.microsoft"
# name: (domain, operator, tensors by letter, operands, function of the real numbers, attributes)
CASES = {
    "add": (MS, "QLinearAdd", {"a": A, "b": B_, "y": OUT}, "a a.s a.z b b.s b.z y.s y.z", lambda a, b: a + b, {}),
    "mul": (MS, "QLinearMul", {"a": A, "b": B_, "y": OUT}, "a a.s a.z b b.s b.z y.s y.z", lambda a, b: a * b, {}),
    "leaky": (MS, "QLinearLeakyRelu", {"a": A, "y": OUT}, "a a.s a.z y.s y.z", lambda a: np.where(a < 0, 0.1 * a, a), {"alpha": 0.1}),
    "sigmoid": (MS, "QLinearSigmoid", {"a": A, "y": SMALL}, "a a.s a.z y.s y.z", sigmoid, {}),
    "softmax": (MS, "QLinearSoftmax", {"a": A, "y": SMALL}, "a a.s a.z y.s y.z", softmax, {"opset": 13, "axis": -1}),
    "softmax_old": (
        MS, "QLinearSoftmax", {"a": LEFT, "y": SMALL}, "a a.s a.z y.s y.z", lambda a: softmax(a, (1, 2)), {"opset": 12, "axis": 1},
    ),
    "pool": (
        MS, "QLinearAveragePool", {"a": IMAGE, "y": OUT}, "a a.s a.z y.s y.z", pool, {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "pool_last": (
        MS, "QLinearAveragePool", {"a": LAST, "y": OUT}, "a a.s a.z y.s y.z", lambda a: np.moveaxis(pool(first(a)), 1, -1),
        {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": 1},
    ),
    "global_pool": (
        MS, "QLinearGlobalAveragePool", {"a": IMAGE, "y": OUT}, "a a.s a.z y.s y.z", lambda a: a.mean((2, 3), keepdims=True), {},
    ),
    "reduce_mean": (
        MS, "QLinearReduceMean", {"a": LEFT, "y": OUT}, "a a.s a.z y.s y.z", lambda a: a.mean((0, 2), keepdims=True), {"axes": [0, 2]},
    ),
    "reduce_mean_flat": (
        MS, "QLinearReduceMean", {"a": LEFT, "y": OUT}, "a a.s a.z y.s y.z", lambda a: a.mean(1), {"axes": [1], "keepdims": 0},
    ),
    "max_pool": ("", "MaxPool", {"a": IMAGE, "y": SAME}, "a", max_pool, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "max_pool_last": (
        MS, "NhwcMaxPool", {"a": LAST, "y": SAME}, "a", lambda a: np.moveaxis(max_pool(first(a)), 1, -1),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "concat": (
        MS, "QLinearConcat", {"a": A, "b": B_, "y": OUT}, "y.s y.z a a.s a.z b b.s b.z", lambda a, b: np.concatenate([a, b]), {"axis": 0},
    ),
    "where": (
        MS, "QLinearWhere", {"c": C, "a": A, "b": B_, "y": OUT}, "c a a.s a.z b b.s b.z y.s y.z", lambda c, a, b: np.where(c, a, b), {},
    ),
    "conv_last": (
        MS, "QLinearConv", {"a": LAST, "w": FILTERS, "y": WIDE}, "a a.s a.z w w.s w.z y.s y.z",
        lambda a, w: np.moveaxis(conv(first(a), w), 1, -1), {"channels_last": 1, "kernel_shape": [3, 3]},
    ),
    "gemm": (MS, "QGemm", {"a": Levels(real(3, 4), 0.01, UINT8(120)), "w": RIGHT}, "a a.s a.z w w.s w.z", lambda a, w: a @ w, {}),
    "gemm_bias": (
        MS, "QGemm", {"a": A, "w": COLUMNS, "c": BIAS32, "y": WIDE}, "a a.s a.z w w.s w.z c y.s y.z",
        lambda a, w, c: a @ w + c * 0.01 * COLUMNS.scale, {},
    ),
    "gemm_turned": (
        MS, "QGemm", {"a": Levels(real(4, 3), 0.01, UINT8(120)), "w": Levels(real(5, 4), 0.011, UINT8(131), fed=False), "c": BIAS32},
        "a a.s a.z w w.s w.z c", lambda a, w, c: 0.5 * (a.T @ w.T + c * 0.01 * 0.011), {"transA": 1, "transB": 1, "alpha": 0.5},
    ),
    "integer_to_float": (
        MS, "MatMulIntegerToFloat", {"a": LEFT, "w": COLUMNS, "c": BIAS}, "a w a.s w.s a.z w.z c", lambda a, w, c: a @ w + c, {},
    ),
    "quantize": (MS, "QuantizeLinear", {"x": real(3, 4).astype(np.float32), "y": OUT}, "x y.s y.z", lambda x: x, {}),
    "quantize_16": (
        MS, "QuantizeLinear", {"x": real(3, 4).astype(np.float32), "y": Levels(None, 1e-4, UINT16(30000))}, "x y.s y.z", lambda x: x, {},
    ),
    "dequantize": (MS, "DequantizeLinear", {"a": A}, "a a.s a.z", lambda a: a, {}),
    "dequantize_16": (MS, "DequantizeLinear", {"a": Levels(real(3, 4), 1e-4, UINT16(30000))}, "a a.s a.z", lambda a: a, {}),
    "attention": (
        MS, "QAttention", {"a": LEFT, "w": TABLE_Q, "c": ATTENTION_BIAS}, "a w c a.s w.s - a.z w.z", attention, {"num_heads": 2},
    ),
    "mat_mul": ("", "QLinearMatMul", {"a": LEFT, "w": RIGHT, "y": WIDE}, "a a.s a.z w w.s w.z y.s y.z", lambda a, w: a @ w, {}),
    "mat_mul_columns": ("", "QLinearMatMul", {"a": LEFT, "w": COLUMNS, "y": WIDE}, "a a.s a.z w w.s w.z y.s y.z", lambda a, w: a @ w, {}),
    "conv": ("", "QLinearConv", {"a": IMAGE, "w": FILTERS, "y": WIDE}, "a a.s a.z w w.s w.z y.s y.z", conv, {}),
    "conv_bias": (
        "", "QLinearConv", {"a": IMAGE, "w": PER_FILTER, "y": WIDE, "c": BIAS32[:3]}, "a a.s a.z w w.s w.z y.s y.z c",
        lambda a, w, c: conv(a, w) + (c * 0.01 * PER_FILTER.scale)[None, :, None, None], {},
    ),
}  # fmt: skip
NO_KERNEL = ("QLinearReduceMean",)  # on the CPU: only what it is written out in runs
AXES = {"w": {"conv_bias": 0}}


def model_of(case):
    """The operator between QuantizeLinear and DequantizeLinear, and what is fed"""
    domain, kind, tensors, operands, _, attrs = CASES[case]
    nodes, inputs, constants, feeds = [], [], [], {}
    closed = "y" in tensors
    for name, v in tensors.items():
        if not isinstance(v, Levels):
            if v.dtype == np.float32 and name == "x":
                feeds[name] = v
            else:
                constants.append(numpy_helper.from_array(v, name))
            continue
        constants += [numpy_helper.from_array(v.scale, f"{name}.s"), numpy_helper.from_array(v.zero, f"{name}.z")]
        if v.values is not None and v.fed:
            feeds[f"{name}.real"] = v.values.astype(np.float32)
            nodes.append(helper.make_node("QuantizeLinear", [f"{name}.real", f"{name}.s", f"{name}.z"], [name]))
        elif v.values is not None:
            constants.append(numpy_helper.from_array(v.level(AXES.get(name, {}).get(case, -1)), name))
    names = ["" if name == "-" else name for name in operands.split()]
    nodes.append(helper.make_node(kind, names, ["y" if closed else "out"], domain=domain, **attrs))
    if closed:
        nodes.append(helper.make_node("DequantizeLinear", ["y", "y.s", "y.z"], ["out"]))
    inputs = [helper.make_tensor_value_info(n, 1, v.shape) for n, v in feeds.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("out", 1, None)], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def reals_of(case):
    """What the function takes: the numbers that the integers stand for"""
    tensors = CASES[case][2]
    found = {}
    for name, v in tensors.items():
        if not isinstance(v, Levels):
            found[name] = v.astype(np.float64) if v.dtype != bool else v
        elif v.values is not None:
            found[name] = v.real(AXES.get(name, {}).get(case, -1))
    return found


def run(model, feeds, optimised=True):
    options = onnxruntime.SessionOptions()
    if not has_integer_products():  # otherwise sums of bytes saturate
        options.add_session_config_entry("session.x64quantprecision", "1")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


@pytest.mark.parametrize("case", CASES)
def test_operator_and_expansion_compute_the_function_of_the_real_numbers(case):
    model, feeds = model_of(case)
    _, kind, tensors, _, function, _ = CASES[case]
    step = float(tensors["y"].scale) if "y" in tensors else 1e-5
    expanded = onnxgrad.to_onnx(onnxgrad.from_onnx(model, expand=MS))
    assert {node.domain for node in expanded.graph.node} == {""}
    want = function(*reals_of(case).values())
    if kind not in NO_KERNEL:
        np.testing.assert_allclose(run(model, feeds), want, atol=1.01 * step)
    np.testing.assert_allclose(run(expanded, feeds, optimised=False), want, atol=0.51 * step)  # or some are fused again


@pytest.mark.parametrize("case", CASES)
def test_gradient_is_that_of_the_function_of_the_real_numbers(case):
    model, feeds = model_of(case)
    domain, kind, _, _, function, _ = CASES[case]
    program = onnxgrad.from_onnx(model, parameters=[])
    inputs = [v for v in program.inputs if v.name in feeds]
    for v in inputs:
        v.stop_gradient = False
    reals = reals_of(case)
    weights = RNG.normal(size=function(*reals.values()).shape).astype(np.float32)
    with onnxgrad.static.program_guard(program):
        c = onnxgrad.static.data("weights", weights.shape, "float32")
        found = onnxgrad.gradients(program.outputs, inputs, c)
    kept = [node.op_type for node in onnxgrad.to_onnx(program, [*program.outputs, *found]).graph.node if node.domain == domain]
    assert kind in kept
    values = onnxgrad.Executor().run(program, {**feeds, "weights": weights}, found)
    for v, g in zip(inputs, values, strict=True):
        name = v.name.removesuffix(".real")
        direction = RNG.normal(size=g.shape)
        ends = [float((function(*{**reals, name: reals[name] + h * direction}.values()) * weights).sum()) for h in (1e-5, -1e-5)]
        assert float((g * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-4)
        assert np.abs(g).max() > 1e-3


def dynamic(kind, bias=True, right=RIGHT):
    """y = a w + c with a quantised on the way, in one operator or in several"""
    x, weight = real(3, 4).astype(np.float32), right.level(-1)
    constants = {"w": weight, "s": right.scale, "z": right.zero, "c": BIAS}
    if kind == "DynamicQuantizeMatMul":
        nodes = [helper.make_node(kind, ["x", "w", "s", "z", *["c"] * bias], ["y"], domain=MS)]
    else:
        nodes = [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
            helper.make_node("MatMulInteger", ["q", "w", "qz", "z"], ["i"]),
            helper.make_node("Cast", ["i"], ["f"], to=1),
            helper.make_node("Mul", ["qs", "s"], ["both"]),
            helper.make_node("Mul", ["f", "both"], ["p"]),
            helper.make_node("Add", ["p", "c"], ["y"]),
        ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [3, 4])], [helper.make_tensor_value_info("y", 1, [3, 5])],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), x


@pytest.mark.parametrize("kind", ["DynamicQuantizeMatMul", "MatMulInteger"])
def test_dynamic_quantisation_passes_the_gradient_of_the_float_product(kind):
    model, x = dynamic(kind)
    program = onnxgrad.from_onnx(model, parameters=[])
    program.inputs[0].stop_gradient = False
    weights = RNG.normal(size=(3, 5)).astype(np.float32)
    with onnxgrad.static.program_guard(program):
        c = onnxgrad.static.data("weights", [3, 5], "float32")
        (found,) = onnxgrad.gradients(program.outputs, program.inputs[:1], c)
    y, g = onnxgrad.Executor().run(program, {"x": x, "weights": weights}, [*program.outputs, found])
    np.testing.assert_array_equal(y, run(model, {"x": x}))
    want = weights @ RIGHT.real(-1).T
    inner = (x != x.max()) & (x != x.min())  # the extremes also receive what rounding leaves, by way of the scale
    np.testing.assert_allclose(g[inner], want[inner], rtol=1e-4, atol=1e-5)
    assert kind in [node.op_type for node in onnxgrad.to_onnx(program, [*program.outputs, found]).graph.node]


def test_dynamic_product_written_out_computes_the_same():
    model, x = dynamic("DynamicQuantizeMatMul")
    expanded = onnxgrad.to_onnx(onnxgrad.from_onnx(model, expand=MS))
    np.testing.assert_allclose(run(expanded, {"x": x}), run(model, {"x": x}), rtol=1e-4, atol=1e-5)


def embedding(masked):
    """QEmbedLayerNormalization of 8 words in 5 places, and its tables in real numbers"""
    sizes = {"word": (8, 6), "place": (5, 6), "segment": (2, 6), "gain": (6,), "shift": (6,)}
    tables = {name: Levels(real(*size), 0.01, INT8(i)) for i, (name, size) in enumerate(sizes.items())}
    held = [numpy_helper.from_array(v.level(-1), name) for name, v in tables.items()]
    held += [numpy_helper.from_array(v.scale, f"{name}.s") for name, v in tables.items()]
    held += [numpy_helper.from_array(v.zero, f"{name}.z") for name, v in tables.items()]
    operands = ["ids", "kinds", *tables, "mask" if masked else "", *(f"{t}.s" for t in tables), *(f"{t}.z" for t in tables)]
    node = helper.make_node("QEmbedLayerNormalization", operands, ["y", "rows"], domain=MS, epsilon=1e-5)
    inputs = [helper.make_tensor_value_info(name, 6, [2, 4]) for name in ("ids", "kinds", *["mask"] * masked)]
    outputs = [helper.make_tensor_value_info("y", 1, [2, 4, 6]), helper.make_tensor_value_info("rows", 6, [2])]
    graph = helper.make_graph([node], "g", inputs, outputs, held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), {name: v.real(-1) for name, v in tables.items()}


@pytest.mark.parametrize("masked", [True, False])
def test_quantised_embedding_written_out_computes_the_same(masked):
    """It reads integers alone, so nothing of it has a gradient: what is behind it trains"""
    model, tables = embedding(masked)
    feeds = {"ids": RNG.integers(0, 8, (2, 4)), "kinds": RNG.integers(0, 2, (2, 4)), "mask": np.array([[1, 1, 1, 0], [1, 1, 1, 1]])}
    feeds = {name: v.astype(np.int32) for name, v in feeds.items() if name != "mask" or masked}
    total = tables["word"][feeds["ids"]] + tables["place"][:4] + tables["segment"][feeds["kinds"]]
    normal = (total - total.mean(-1, keepdims=True)) / np.sqrt(total.var(-1, keepdims=True) + 1e-5)
    want = normal * tables["gain"] + tables["shift"]
    expanded = onnxgrad.to_onnx(onnxgrad.from_onnx(model, expand=MS))
    assert {node.domain for node in expanded.graph.node} == {""}
    for made in (model, expanded):
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        y, rows = session.run(None, feeds)
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
        assert rows.tolist() == ([3, 4] if masked else [0, 0])
    program = onnxgrad.from_onnx(model)
    with onnxgrad.static.program_guard(program):
        w = onnxgrad.static.create_parameter([6, 3], "float32", name="w")
        (found,) = onnxgrad.gradients(onnxgrad.matmul(program.outputs[0], w), w)
    program.global_block().vars["w"].set_value(np.zeros((6, 3), np.float32))
    (g,) = onnxgrad.Executor().run(program, feeds, [found])
    np.testing.assert_allclose(g, np.repeat(want.sum((0, 1))[:, None], 3, axis=1), rtol=1e-4, atol=1e-4)


def test_dilated_windows_of_integers_are_refused_where_one_may_hold_padding_alone():
    model, _ = model_of("max_pool")
    node = next(node for node in model.graph.node if node.op_type == "MaxPool")
    node.attribute.append(helper.make_attribute("dilations", [2, 2]))
    del model.graph.input[0].type.tensor_type.shape.dim[2:]
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_param = "h"
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_param = "w"
    program = onnxgrad.from_onnx(model, parameters=[])
    program.inputs[0].stop_gradient = False
    with pytest.raises(onnxgrad.errors.UnsupportedGradient, match=r"MaxPool.*among integers.*pool before QuantizeLinear"):
        onnxgrad.gradients(program.outputs, program.inputs[:1])


def test_convention_off_refuses_a_product_of_integers():
    model, _ = model_of("mat_mul")
    program = onnxgrad.from_onnx(model, parameters=[])
    program.inputs[0].stop_gradient = False
    with onnxgrad.straight_through(False), pytest.raises(onnxgrad.errors.UnsupportedGradient, match="straight-through"):
        onnxgrad.gradients(program.outputs, program.inputs[:1])


def test_every_quantised_operator_has_a_case():
    module = "onnxgrad.core.rules.contrib.quantized"
    written = {name for (d, name), entries in TABLE.items() if d == MS and getattr(entries[0].function, "__module__", "") == module}
    cases = {kind for _, kind, *_ in CASES.values()} | {"DynamicQuantizeMatMul"}
    assert written - cases == {"QEmbedLayerNormalization"}  # it reads integers only


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        (dynamic("MatMulInteger", right=COLUMNS)[0], ["c"]),
        (dynamic("DynamicQuantizeMatMul", right=COLUMNS)[0], ["c"]),
        (model_of("conv_bias")[0], []),
        (model_of("mat_mul_columns")[0], []),
        (model_of("gemm_bias")[0], []),
        (model_of("integer_to_float")[0], ["c"]),
    ],
)
def test_scales_of_quantised_products_are_no_weights(model, weights):
    assert [p.name for p in onnxgrad.from_onnx(model).parameters] == weights
