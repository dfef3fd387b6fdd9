"""Sparse tensors in files: read as dense ones, written back as they were, trained as dense ones."""

import numpy as np
import onnx
import onnxruntime
import pytest

import onnxgrad
from onnxgrad import errors

DENSE = np.array([[0, 2, 0], [0, 0, -1.5]], np.float32)
POSITIONS = {"flat": np.array([1, 5]), "by axis": np.array([[0, 1], [1, 2]])}
X = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)


def sparse(positions):
    values = onnx.numpy_helper.from_array(np.array([2, -1.5], np.float32), "w")
    return onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(positions, "positions"), [2, 3])


def model_with(positions, as_constant=False):
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    if as_constant:
        nodes.insert(0, onnx.helper.make_node("Constant", [], ["w"], sparse_value=sparse(positions)))
    x, y = (onnx.helper.make_tensor_value_info(n, 1, ["N", m]) for n, m in (("x", 2), ("y", 3)))
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], sparse_initializer=[] if as_constant else [sparse(positions)])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("as_constant", [False, True])
@pytest.mark.parametrize("form", POSITIONS)
def test_sparse_weight_is_read_as_a_dense_one_and_written_back(form, as_constant):
    model = model_with(POSITIONS[form], as_constant)
    program = onnxgrad.from_onnx(model)
    np.testing.assert_array_equal(program.find("w").get_value(), DENSE)
    written = onnxgrad.to_onnx(program)
    assert list(written.graph.sparse_initializer) == list(model.graph.sparse_initializer)
    assert list(written.graph.node) == list(model.graph.node)
    onnx.checker.check_model(written)


@pytest.mark.parametrize("as_constant", [False, True])
def test_sparse_weight_has_a_dense_gradient(as_constant):
    program = onnxgrad.from_onnx(model_with(POSITIONS["flat"], as_constant))
    ((_, gradient),) = onnxgrad.append_backward(program.outputs[0])
    (found,) = onnxgrad.Executor().run(program, {"x": X}, [gradient])
    np.testing.assert_allclose(found, np.repeat(X.sum(0)[:, None], 3, 1), rtol=1e-5)
    # onnx's inference knows no sparse initializer, so the gradient model holds a dense one
    onnx.checker.check_model(onnxgrad.to_onnx(program, [gradient]), full_check=True)


def test_changed_sparse_weight_is_written_dense():
    program = onnxgrad.from_onnx(model_with(POSITIONS["flat"]))
    program.find("w").set_value(DENSE + 1)
    written = onnxgrad.to_onnx(program)
    assert not written.graph.sparse_initializer
    session = onnxruntime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": X})[0], X @ (DENSE + 1), rtol=1e-5)


def test_positions_outside_the_shape_are_refused():
    with pytest.raises(errors.ModelError, match="'w': its positions do not fit"):
        onnxgrad.from_onnx(model_with(np.array([1, 7])))
