"""accuracy by what the output holds: probabilities are compared with one half, logits with zero."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxgrad.training import Trainer
from onnxgrad.training.metrics.batch import METRICS

X = np.array([[-3.0], [-1.0], [1.0], [3.0]], np.float32)
LABEL = np.array([[0.0], [0.0], [1.0], [1.0]], np.float32)


def model(*tail, outputs=1):
    """y = tail(w x), with w = 1"""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t0"])]
    for i, (op_type, extra, attrs) in enumerate(tail):
        nodes.append(helper.make_node(op_type, [f"t{i}", *extra], [f"t{i + 1}"], **attrs))
    nodes[-1].output[0] = "y"
    weight = numpy_helper.from_array(np.ones((1, outputs), np.float32), "w")
    shape = numpy_helper.from_array(np.array([-1, outputs]), "shape")
    ratio = numpy_helper.from_array(np.float32(0.5), "ratio")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, n]) for name, n in (("x", 1), ("y", outputs))]
    used = {name for node in nodes for name in node.input}
    held = [t for t in (weight, shape, ratio) if t.name in used]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


SIGMOID = ("Sigmoid", [], {})
TAILS = {
    "sigmoid": [SIGMOID],
    "sigmoid and reshape": [SIGMOID, ("Reshape", ["shape"], {})],
    "sigmoid, cast and identity": [SIGMOID, ("Cast", [], {"to": 11}), ("Cast", [], {"to": 1}), ("Identity", [], {})],
    "sigmoid and dropout": [SIGMOID, ("Dropout", ["ratio"], {})],
    "hard sigmoid": [("HardSigmoid", [], {})],
    "logits": [],
    "logits moved": [("Identity", [], {})],
}


@pytest.mark.parametrize("loss", ["bce_with_logits", "mse"])
@pytest.mark.parametrize("name", TAILS)
def test_accuracy_of_one_score(name, loss):
    if loss == "bce_with_logits" and name in ("hard sigmoid", "sigmoid and dropout"):
        pytest.skip("the loss is for logits, or refuses it")
    trainer = Trainer(model(*TAILS[name]), loss=loss, metrics=["accuracy"], learning_rate=0.0)
    assert trainer.evaluate({"x": X, "target": LABEL})["accuracy"] == 1.0
    assert trainer.evaluate({"x": X, "target": 1 - LABEL})["accuracy"] == 0.0
    half = np.array([[0.0], [1.0], [0.0], [1.0]], np.float32)
    assert trainer.evaluate({"x": X, "target": half})["accuracy"] == 0.5
    if name != "sigmoid and dropout":
        assert trainer.step({"x": X, "target": LABEL})["accuracy"] == 1.0


def test_a_column_of_scores_against_a_vector_is_not_taken_for_one_class():
    scores, vector = np.array([[-1.0], [2.0]]), np.array([0.0, 1.0])
    assert METRICS["accuracy"](scores, vector).tolist() == [1, 1]
    assert METRICS["accuracy"](scores, 1 - vector).tolist() == [0, 0]


@pytest.mark.parametrize("activation", ["Softmax", "LogSoftmax"])
def test_distributions_are_right_where_the_largest_elements_are_the_same(activation):
    trainer = Trainer(model((activation, [], {"axis": 1}), outputs=3), loss="kl", metrics=["accuracy"], learning_rate=0.0)
    trainer.program.active_scope().set("w", np.array([[1.0, 0.0, -1.0]], np.float32))
    target = np.array([[0.2, 0.2, 0.6], [0.5, 0.3, 0.2], [0.4, 0.35, 0.25], [0.1, 0.8, 0.1]], np.float32)
    assert trainer.evaluate({"x": X, "target": target})["accuracy"] == 0.5
