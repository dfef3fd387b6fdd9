"""The lowering for CUDA: each operator in element types that its provider has kernels for."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.traverse import all_operators_of
from onnxgrad.core.providers.cuda_kernels import has_kernel

EXCEPT = ("SoftmaxCrossEntropyLoss", "Concat", "Constant", "Gather", "ReduceProd", "Reshape", "Shape", "Size")
"""onnxruntime writes the loss out by its definition; constants become initializers; the others also compute shapes, which lie on the host."""


def lowered(program, fetches):
    return compile(program, fetches, "cuda", state_as_inputs=True, ordered=True)


def missing(graph):
    inner = [op for operator in graph.operators for body in operator.blocks() for op in all_operators_of(body)]
    return {op.type for op in [*graph.operators, *inner] if not op.domain and op.type not in EXCEPT and not has_kernel(op)}


def _program(text):
    return paddle.from_onnx(onnx.parser.parse_model(text))


@pytest.mark.parametrize("amp", [None, "float16", "bfloat16"])
def test_all_operators_of_a_step_have_kernels(amp):
    x = static.data("x", [None, 3, 16, 16])
    h = static.nn.batch_norm(static.nn.conv2d(x, 8, 3, padding=1), act="relu")
    h = F.max_pool2d(F.dropout(F.selu(F.pad(h, [1, 1, 1, 1])), 0.1), 2, 2)
    h = F.relu(static.nn.fc(paddle.clip(paddle.flatten(h, 1), -1.0, 1.0), 32))
    h = F.hardtanh(paddle.atan(static.nn.fc(h, 10)))
    loss = F.cross_entropy(h, static.data("label", [None, 1], "int64"))
    optimizer = paddle.optimizer.Adam(1e-3)
    if amp:
        optimizer = static.amp.decorate(optimizer, dtype=amp, level="O2")
    optimizer.minimize(loss)
    program = x.block.program
    assert not missing(lowered(program, [loss]))
    assert missing(compile(program, [loss], None, state_as_inputs=True)) >= {"Atan"}


LOWERED = {
    "Greater": "z = Greater (x, y)",
    "Equal": "z = Equal (x, y)",
    "Clip": "z = Clip (x, lo, hi)",
    "LogSoftmax": "z = LogSoftmax (x)",
    "Round": "z = Round (x)",
    "Einsum": 'z = Einsum <equation = "ij,kj->ik"> (x, y)',
    "ReduceMax": "z = ReduceMax (x)",
    "ReduceProd": "z = ReduceProd (x)",
    "Pad": "pads = Constant <value_ints = [1, 0, 0, 2]> () z = Pad (x, pads)",
    "Atan": "z = Atan (x)",
    "Selu": "z = Selu (x)",
    "Elu": "z = Elu (x)",
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float"])
@pytest.mark.parametrize("name", LOWERED)
def test_values_are_those_of_the_plain_form(name, dtype):
    result = "bool" if name in ("Greater", "Equal") else dtype
    text = f"""<ir_version: 10, opset_import: ["": 22]> g (float[N, 4] p, float[N, 4] q) => ({result}[A, B] z) {{
        l = Constant <value = float {{-1}}> () h = Constant <value = float {{1}}> ()
        x = Cast <to = {{0}}> (p) y = Cast <to = {{0}}> (q) lo = Cast <to = {{0}}> (l) hi = Cast <to = {{0}}> (h)
        {LOWERED[name]} }}"""
    number = {"bfloat16": 16, "float16": 10, "float": 1}[dtype]
    program = _program(text.replace("{0}", str(number)))
    graph = lowered(program, program.outputs)
    assert not missing(graph)
    draw = np.random.default_rng(0)
    feed = {v: (draw.normal(size=(3, 4)) * 2).astype(np.float32) for v in ("p", "q")}
    (found,) = ReferenceEvaluator(write_model(graph)).run(None, feed)
    (expected,) = ReferenceEvaluator(paddle.to_onnx(program)).run(None, feed)
    assert found.dtype == expected.dtype
    if result == "bool":
        np.testing.assert_array_equal(found, expected)
    else:
        # The plain form rounds within: a few steps of the type.
        spacing = {"bfloat16": 2.0**-6, "float16": 2.0**-9, "float": 2.0**-21}[dtype]
        np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=spacing, atol=spacing)


@pytest.mark.parametrize("function", [paddle.atan, paddle.sinh, paddle.tan])
def test_functions_without_a_kernel_are_exact_to_rounding(function):
    values = np.concatenate([np.linspace(-6, 6, 2001), [0.0, 1e-20, -1e-20, 1e-7]]).astype(np.float32)
    found = []
    for dtype, provider in (("float32", "cuda"), ("float64", "cpu")):
        program = static.Program()
        with static.program_guard(program):
            y = function(static.data("x", [None], dtype))
        graph = compile(program, [y], provider)
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        found += session.run(None, {"x": values.astype(dtype)})
    assert found[0].dtype == np.float32
    np.testing.assert_allclose(found[0], found[1], rtol=2e-7)


def test_operators_with_kernels_stay():
    x = static.data("x", [16, 8])
    loss = paddle.mean(F.relu(static.nn.fc(x, 4)))
    static.append_backward(loss)
    plain, cuda = (compile(x.block.program, [loss], provider, state_as_inputs=True) for provider in (None, "cuda"))
    assert [op.type for op in plain.operators] == [op.type for op in cuda.operators]


def test_bodies_are_lowered_too():
    x = static.data("x", [5, 2, 4])
    i, total = paddle.zeros([], "int64"), paddle.cast(paddle.zeros([2, 4]), "bfloat16")

    def step(i, total):
        return [i + 1, paddle.clip(total + paddle.cast(paddle.gather(x, i, axis=0), "bfloat16"), -1.0, 1.0)]

    _, total = static.nn.while_loop(lambda i, total: paddle.less_than(i, paddle.full([], 5, "int64")), step, [i, total])
    graph = lowered(x.block.program, [paddle.cast(total, "float32")])
    assert not missing(graph)
    assert missing(compile(x.block.program, [total], None)) >= {"Clip"}


@pytest.mark.parametrize("sizes", [[1] * 33, [2, 1] * 40, [1] * 1100])
def test_concat_and_split_take_at_most_32_parts(sizes):
    x = static.data("x", [sum(sizes), 2])
    parts = x.block.build.Split(x, np.array(sizes), axis=0, outputs=len(sizes))
    y = paddle.concat(parts[::-1], axis=0)
    graph = compile(x.block.program, [y], "cuda")
    assert max(max(len(op.inputs), len(op.outputs)) for op in graph.operators) <= 32
    given = np.arange(2 * sum(sizes), dtype=np.float32).reshape(-1, 2)
    wanted = np.concatenate(np.split(given, np.cumsum(sizes)[:-1])[::-1])
    session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": given})[0], wanted)
