"""Probabilities that the branches of an If make: a loss that wants logits does not take them."""

import numpy as np
import pytest
from onnx.parser import parse_model

import onnxgrad
from onnxgrad.errors import ArgumentError
from onnxgrad.training import Trainer

BRANCHES = """
<ir_version: 10, opset_import: ["": 21]> f (float[1, 3] x) => (float[1, 1] y) <float[3, 1] w = {0.1, -0.2, 0.3}> {
    logit = MatMul(x, w)
    half = Constant<value = float {0.5}>()
    total = ReduceSum<keepdims = 0>(logit)
    is_low = Less(total, half)
    chosen = If(is_low) <
        then_branch = low () => (float[1, 1] a) { p = Sigmoid(logit) a = Identity(p) },
        else_branch = high () => (float[1, 1] b) { OTHER }
    >
    y = Reshape(chosen, shape)
}
"""


def model(other):
    text = BRANCHES.replace("OTHER", other).replace("half =", "shape = Constant<value_ints = [1, 1]>()\n    half =")
    return onnxgrad.from_onnx(parse_model(text))


@pytest.mark.parametrize("other", ["b = Sigmoid(logit)", "b = Tanh(logit)"])
def test_a_sigmoid_in_a_branch_is_no_logit(other):
    with pytest.raises(ArgumentError, match=r"y is the result of Sigmoid in the body of If, and bce_with_logits would take it"):
        Trainer(model(other), loss="bce_with_logits")


def test_other_losses_take_it():
    trainer = Trainer(model("b = Sigmoid(logit)"), loss="mse")
    data = {"x": np.ones((2, 3), np.float32), "target": np.ones((2, 1), np.float32)}
    losses = trainer.fit(data, epochs=2, batch_size=1)
    assert losses is not None
