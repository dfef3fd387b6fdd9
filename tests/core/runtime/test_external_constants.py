"""Constants in external files are read from beside the model, wherever the process stands."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as paddle


@pytest.fixture
def quantised(tmp_path):
    """A file whose int8 weight lies in quantised.data"""
    folder = tmp_path / "model"
    folder.mkdir()
    weight = np.arange(-64, 64, dtype=np.int8).reshape(32, 4)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["real"]),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    initializers = [
        numpy_helper.from_array(weight, "w"),
        numpy_helper.from_array(np.float32(0.5), "scale"),
        numpy_helper.from_array(np.int8(3), "zero"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 32), ("y", 4)))
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="quantised.data", size_threshold=16)
    return folder / "model.onnx", (weight.astype(np.float32) - 3) * 0.5


def test_from_another_folder(quantised, tmp_path, monkeypatch):
    path, real = quantised
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(paddle.Executor().run(paddle.from_onnx(path), {}, ["real"])[0], real)


def test_a_file_of_that_name_elsewhere_is_not_read(quantised, tmp_path, monkeypatch):
    path, real = quantised
    (tmp_path / "quantised.data").write_bytes(bytes(4096))
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    program = paddle.from_onnx(path)
    y = program.find("y")
    for v in program.inputs:
        v.stop_gradient = False
    (gx,) = paddle.gradients([y], program.inputs)
    found, gradient = paddle.Executor().run(program, {"x": x}, [y, gx])
    np.testing.assert_allclose(found, x @ real, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, np.tile(real.sum(1), (3, 1)), rtol=1e-5, atol=1e-5)
