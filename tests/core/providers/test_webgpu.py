"""The forms for WebGPU: the values of the plain graph in float64, and only operators that onnxruntime-web has kernels for."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.testing import evaluate

# docs/webgpu-operators.md of onnxruntime-web 1.30
_NAMES = """
    Abs Acos Acosh Add ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Cast Ceil Clip Concat Conv
    ConvTranspose Cos Cosh CumSum DFT DepthToSpace DequantizeLinear Div Einsum Elu Equal Erf Exp Expand Flatten Floor Gather
    GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample HardSigmoid HardSwish If
    InstanceNormalization LayerNormalization LeakyRelu Less LessOrEqual Log MatMul MaxPool Mul Neg Not Pad Pow Range Reciprocal
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape
    Resize ScatterND Shape Sigmoid Sin Sinh Slice Softmax Split Sqrt Squeeze Sub Tan Tanh ThresholdedRelu Tile Transpose Unsqueeze
    Where
"""
KERNELS = set(_NAMES.split())
BUFFERS = 8


def network(batch, dtype, train=True):
    """A convolutional network with all that WebGPU lacks: training statistics, pooling, labels, Adam on more than ten weights"""
    x, label = static.data("x", [batch, 1, 8, 8], dtype), static.data("label", [batch], "int64")
    build = x.block.build
    h = x
    for i, (wide, out) in enumerate([(1, 4), (4, 4)]):
        w = static.create_parameter([out, wide, 3, 3], dtype, name=f"w{i}")
        scale, shift = (static.create_parameter([out], dtype, name=f"{kind}{i}") for kind in ("scale", "shift"))
        h = build.Conv(h, w, pads=[1, 1, 1, 1])
        mean, var = np.zeros(out, dtype), np.ones(out, dtype)
        h = build.BatchNormalization(h, scale, shift, mean, var, training_mode=1, outputs=3)[0]
        h = F.max_pool2d(F.relu(h), 3 if i else 2, stride=2, padding=i)
    h = paddle.flatten(h, 1)
    for i, (wide, out) in enumerate([(16, 6), (6, 6), (6, 5)]):
        w, b = (static.create_parameter(shape, dtype, name=f"{kind}{i}") for kind, shape in (("fc", [wide, out]), ("b", [out])))
        h = build.Gemm(h, w, b)
    return F.cross_entropy(h, label)


@pytest.mark.parametrize("batch", [3, None])
def test_a_step_equals_the_plain_one(batch):
    loss = network(batch, "float64")
    paddle.optimizer.Adam(0.01).minimize(loss)
    program = static.default_main_program()
    plain, lowered = (compile(program, [loss], provider, state_as_inputs=True, ordered=True) for provider in (None, "webgpu"))
    draw = np.random.default_rng(0)
    state = [v for v in plain.inputs if v.persistable]
    feed = {v.name: np.abs(draw.normal(size=v.static_shape)).astype(v.dtype.numpy) for v in state}
    feed["x"], feed["label"] = draw.normal(size=(3, 1, 8, 8)), np.array([1, 0, 4])
    a, b = (dict(zip([n for n, _ in g.outputs], evaluate(write_model(g), feed), strict=True)) for g in (plain, lowered))
    assert a.keys() == b.keys() and len(a) > 30
    for name, value in a.items():
        np.testing.assert_allclose(b[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("batch", [3, None])
def test_only_operators_with_kernels_are_left(batch):
    loss = network(batch, "float32")
    paddle.optimizer.Adam(0.01).minimize(loss)
    program = static.default_main_program()
    plain, lowered = (compile(program, [loss], provider, state_as_inputs=True, ordered=True) for provider in (None, "webgpu"))
    assert {op.type for op in plain.operators} - KERNELS == {"Mod", "ScatterElements", "Size", "SoftmaxCrossEntropyLoss"} - (
        set() if batch is None else {"Size"}
    )
    assert {op.type for op in lowered.operators} - KERNELS == set()
    assert not any(op.type == "MaxPool" and len(op.outputs) > 1 for op in lowered.operators)
    assert not any(op.type == "BatchNormalization" and op.attr("training_mode") for op in lowered.operators)
    assert max(len(op.outputs) for op in plain.operators) >= BUFFERS > max(len(op.outputs) for op in lowered.operators)


def test_many_parts_are_split_in_their_order():
    x = static.data("x", [60, 2], "float64")
    parts = x.block.build.Split(x, [1, 2] * 20, axis=0, outputs=40)
    graph = compile(x.block.program, parts, "webgpu")
    assert max(len(op.outputs) for op in graph.operators) < BUFFERS
    data = np.random.default_rng(0).normal(size=(60, 2))
    for a, b in zip(evaluate(write_model(graph), {"x": data}), np.split(data, np.cumsum([1, 2] * 20)[:-1]), strict=True):
        np.testing.assert_array_equal(a, b)
