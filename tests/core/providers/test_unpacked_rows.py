"""The gradient of a packed head unpacks some rows of its weight at a time: the same numbers, and no tensor of the weight's size."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.providers.losses import unpacked_rows, vocabulary
from tests.core.providers.test_vocabulary import run
from tests.core.rules import test_contrib

WORDS, WIDTH, BLOCK = 192, 64, 32


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A vocabulary of 192 tokens is large, and so is its weight, of which 32 rows are unpacked at a time"""
    for name, value in {"_LARGE": 100, "_WIDE": 10, "_LEAST_ROWS": 4, "_MOST_ROWS": 6}.items():
        monkeypatch.setattr(vocabulary, name, value)
    monkeypatch.setattr(unpacked_rows, "_FEWEST", 64)
    monkeypatch.setattr(unpacked_rows, "_BLOCK", 32 * WIDTH)


def head(bits, zeros):
    """The loss of a packed head, its gradient by what enters it, and the packed parts"""
    packed, scales = test_contrib.packed(WORDS, WIDTH, bits, BLOCK)
    stored = {"w": packed, "s": 0.1 * scales}
    if zeros:
        count = WIDTH // BLOCK * bits // 8 or 1
        stored["z"] = np.random.default_rng(3).integers(0, 256, (WORDS, count)).astype(np.uint8)
    sizes = {"N": WORDS, "K": WIDTH, "block_size": BLOCK, "bits": bits}
    nodes = [
        helper.make_node("MatMulNBits", ["x", *stored], ["scores"], domain="com.microsoft", **sizes),
        helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "label"], ["loss"]),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, ["B", WIDTH]), helper.make_tensor_value_info("label", 7, ["B"])]
    weights = [numpy_helper.from_array(v, n) for n, v in stored.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("loss", 1, [])], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    program = paddle.from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    program.inputs[0].stop_gradient = False
    with static.program_guard(program):
        return program, [program.outputs[0], *static.gradients(program.outputs, program.inputs[:1])]


def numbers_of_floats(graph):
    """How many numbers each tensor of floats has that the graph computes outside bodies, without those of unknown size"""
    computed = [v for op in graph.operators for v in op.outputs if v is not None and v.is_float and v.static_shape is not None]
    return [int(np.prod(v.static_shape)) for v in computed]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_no_tensor_has_the_size_of_the_weight(bits, zeros):
    program, fetches = head(bits, zeros)
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(9, WIDTH)).astype(np.float32), "label": rng.integers(0, WORDS, 9)}
    plain, lowered = (compile(program, fetches, provider, shapes={"x": (9, WIDTH), "label": (9,)}) for provider in (None, "cpu"))
    products = WIDTH * bits // 8  # of one of the levels in a byte
    assert max(numbers_of_floats(plain)) >= WORDS * products
    assert max(numbers_of_floats(lowered)) < WORDS * products
    assert [op.type for op in lowered.operators].count("Scan") == 1
    for want, got in zip(run(plain, feed), run(lowered, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


def test_without_a_divisor_the_weight_is_unpacked_as_a_whole(monkeypatch):
    monkeypatch.setattr(unpacked_rows, "_BLOCK", 8 * WIDTH)  # 24 blocks of 8 rows: too few rows each
    program, fetches = head(4, False)
    lowered = compile(program, fetches, "cpu", shapes={"x": (9, WIDTH), "label": (9,)})
    assert WORDS * WIDTH // 2 in numbers_of_floats(lowered)
