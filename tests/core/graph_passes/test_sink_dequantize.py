"""Gradients of graphs whose int8 tensors are moved after they were dequantised load in onnxruntime on every processor."""

import numpy as np
import onnx
import pytest

import onnxgrad

TEXT = """<ir_version: 8, opset_import: ["": 17]> f (float[2, 3, 6, 6] x) => (float[N, M] y)
    <float s = {0.05}, int8 z = {3}, int64[1] i = {1}, int64[1] j = {3}, int64[1] axis = {1}, int64[2] shape = {2, -1}, int64[1] zero = {0}>
    { q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) %s v = Mul (t, t) y = Reshape (v, shape) }"""
MOVES = {
    "Transpose": ("t = Transpose <perm = [0, 2, 1, 3]> (d)", lambda x: x.transpose(0, 2, 1, 3)),
    "Reshape": ("t = Reshape (d, shape)", lambda x: x.reshape(2, -1)),
    "Slice": ("t = Slice (d, i, j, axis)", lambda x: x[:, 1:3]),
    "MaxPool": (
        "t = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)",
        lambda x: x.reshape(2, 3, 3, 2, 3, 2).max((3, 5)),
    ),
    "twice": (
        "a = Transpose <perm = [1, 0, 2, 3]> (d) u = Unsqueeze (a, zero) t = Squeeze (u, zero)",
        lambda x: x.transpose(1, 0, 2, 3),
    ),
}


@pytest.mark.parametrize("lowering", [None, "cpu"])
@pytest.mark.parametrize("case", MOVES)
def test_moves_of_dequantised_tensors_have_gradients_that_onnxruntime_loads(case, lowering):
    text, move = MOVES[case]
    program = onnxgrad.from_onnx(onnx.parser.parse_model(TEXT % text), parameters=[])
    x = program.inputs[0]
    x.stop_gradient = False
    value = np.random.default_rng(0).uniform(-5, 5, (2, 3, 6, 6)).astype(np.float32)
    (g,) = onnxgrad.gradients(program.outputs, [x])
    model = onnxgrad.to_onnx(program, [*program.outputs, g], lowering=lowering)
    y, found = onnxgrad.Executor().run(program, {"x": value}, [*program.outputs, g])
    moved = move((np.rint(value / np.float32(0.05))) * np.float32(0.05))
    np.testing.assert_allclose(y, (moved * moved).reshape(2, -1), rtol=1e-5)
    onnx.checker.check_model(model)
    made = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:  # nothing is left that onnxruntime would move, and fail on
        if node.op_type in ("Transpose", "Reshape", "Slice", "MaxPool", "Squeeze", "Unsqueeze"):
            assert node.input[0] not in made or made[node.input[0]].op_type != "DequantizeLinear"
    step = 1e-3
    real = np.rint(value / np.float32(0.05)).astype(np.float64) * 0.05
    base = (move(real) ** 2).sum()
    for index in [(0, 0, 0, 0), (0, 1, 2, 3), (1, 2, 5, 5), (1, 1, 0, 4)]:
        nudged = real.copy()
        nudged[index] += step
        slope = ((move(nudged) ** 2).sum() - base) / step
        assert found[index] == pytest.approx(slope, abs=3e-3 + 1e-3 * abs(slope))
    assert np.abs(found).max() > 1
