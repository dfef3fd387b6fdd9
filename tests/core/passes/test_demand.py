"""Selections move towards the inputs: values and gradients stay, fewer elements are computed, and what mixes slices stops it."""

from collections.abc import Callable
from math import prod

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import Pass
from onnxgrad.core.graph.manager import run_program_pass
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.examples import examples_of
from onnxgrad.core.ir.traverse import needed_operators
from onnxgrad.core.passes.demand import demand
from onnxgrad.errors import ArgumentError, NotAVariable
from tests.core.compile.by_hand import tried
from tests.core.compile.corpus import EVERY
from tests.core.compile.occurrences import Place, run

S, D, V = 5, 8, 520
"""Positions, features and words."""

CONSTANTS = """int64 zero = {0}, int64 last = {-1}, int64 two = {2}, int64 one = {1}, float half = {0.5}, bool true = {1}, int64[2] picks = {3, 1}, int64[4] heads = {0, 0, 4, 2},
    int64[3] joined = {0, 0, 8}, int64[2] flat = {-1, 8}, int64[2] words = {-1, 520}, int64[1] row = {-1}, int64[1] c0 = {0},
    int64[1] c1 = {1}, int64[1] c2 = {2}, int64[1] c3 = {3}, int64[1] c8 = {8}, int64[1] cm3 = {-3}, int64[1] cm2 = {-2}, int64[1] cm1 = {-1}, int64[1] end = {9223372036854775807},
    int64[2] from = {0, 2}, int64[2] to = {1, 4}, int64[2] ax12 = {1, 2}, int64[3] three = {2, 4, 2}, int64[2] halves = {4, 4},
    int64[3] back = {-1, 5, 8}, int64[4] back4 = {-1, 5, 2, 4}, int64[3] turned = {5, -1, 8}, int64[2] ax23 = {2, 3}, int64[2] thirds = {2, 4}, int64[4] wide = {0, 0, 1, 8}"""

SHAPES = {
    "w": (D, D), "u": (D, D), "vocabulary": (D, V), "b": (D,), "g": (D,), "vb": (V,), "p": (1, S, D), "k": (6, D, 1, 1), "kb": (6,), "wb": (D,),
    "table": (7, D), "m": (1, 1, S, S),
}  # fmt: skip


def model(body: str, inputs: str, outputs: str, opset: int = 21, dtype: type = np.float64) -> onnx.ModelProto:
    """A model of a type, with weights that are drawn and the constants that it reads."""
    parsed = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]> f ({inputs}) => ({outputs}) <{CONSTANTS}> {{ {body} }}'
    )
    rng = np.random.default_rng(0)
    read = {name for node in parsed.graph.node for name in node.input}
    for tensor in [t for t in parsed.graph.initializer if t.name not in read]:
        parsed.graph.initializer.remove(tensor)
    for name, shape in SHAPES.items():
        if name in read:
            parsed.graph.initializer.append(numpy_helper.from_array((rng.normal(size=shape) / 2).astype(dtype), name))
    for info in (*parsed.graph.input, *parsed.graph.output):
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return parsed


def fed(parsed: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random inputs: numbers, and integers below 7, of which some are -100 where they are labels."""
    rng = np.random.default_rng(1)
    feed = {}
    for info in parsed.graph.input:
        shape = [d.dim_value or sizes[d.dim_param] for d in info.type.tensor_type.shape.dim]
        if info.name == "kv":
            feed[info.name] = rng.uniform(0.5, 2.0, shape)
        elif info.name == "j":
            feed[info.name] = rng.integers(-4, 4, shape)
        elif info.type.tensor_type.elem_type == onnx.TensorProto.INT64 and info.name == "i" and len(shape) == 1:
            feed[info.name] = np.array([-1, -3][: shape[0]])
        elif info.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            labels = rng.integers(0, 7, shape)
            feed[info.name] = np.where(rng.random(shape) < 0.7, -100, labels) if info.name == "t" else labels
            if info.name == "t" and len(shape) > 1:
                feed[info.name][0, -1] = labels[0, -1]  # one at least counts
        else:
            feed[info.name] = rng.normal(size=shape)
    return feed


def results(
    parsed: onnx.ModelProto, feed: dict[str, np.ndarray], prunes: bool, count: Callable[..., int] | None = None
) -> tuple[list[np.ndarray], int, int]:
    """Outputs and the gradients of all weights and inputs; in how many places the pass rewrote, and the elements that are computed."""
    program, fetches, places = differentiated(parsed, feed, prunes)
    values = paddle.Executor().run(program, feed, fetches)
    return [np.asarray(value) for value in values], places, (count or elements)(program, fetches, feed)


def differentiated(parsed: onnx.ModelProto, feed: dict[str, np.ndarray], prunes: bool) -> tuple[static.Program, list, int]:
    """A program, its outputs with the gradients of all weights and inputs, and in how many places the pass rewrote."""
    program = paddle.from_onnx(parsed)
    outputs = program.outputs
    places = run_program_pass(program, demand(outputs)) if prunes else 0
    rng = np.random.default_rng(2)
    values = [np.asarray(y) for y in paddle.Executor().run(program, feed, outputs)]
    seeds = [program.constant(rng.normal(size=y.shape).astype(y.dtype)) for y in values]
    leaves = [*program.parameters, *(v for v in program.inputs if v.is_float)]
    for v in leaves:
        v.stop_gradient = False
    grads = [g for g in gradients(outputs, leaves, seeds) if g is not None]
    return program, [*outputs, *grads], places


def elements(program: static.Program, outputs: list, feed: dict[str, np.ndarray]) -> int:
    """The elements that the operators of a graph compute, of numbers with a fraction."""
    written = write_model(compile(program, outputs))
    shown = onnx.shape_inference.infer_shapes(written)
    del written.graph.output[:]
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    infos = {v.name: v for v in [*shown.graph.value_info, *shown.graph.output]}
    computed = [name for node in written.graph.node for name in node.output if name]
    written.graph.output.extend(infos[name] for name in computed if infos[name].type.tensor_type.elem_type in floats)
    return sum(y.size for y in run(written, feed))


X, X5 = "float[N, S, 8] x", "float[N, 5, 8] x"
IMAGE = "float[N, 8, 3, 3] z"
ATTENTION = """q0 = MatMul (x, w) q1 = Add (q0, b) q2 = Reshape (q1, heads) q = Transpose <perm = [0, 2, 1, 3]> (q2)
    k0 = MatMul (x, u) k2 = Reshape (k0, heads) k1 = Transpose <perm = [0, 2, 3, 1]> (k2) v = Transpose <perm = [0, 2, 1, 3]> (k2)
    s0 = MatMul (q, k1) s = Add (s0, m) p1 = Softmax (s) c = MatMul (p1, v) ct = Transpose <perm = [0, 2, 1, 3]> (c)
    cj = Reshape (ct, joined) a = Add (cj, x) l = LayerNormalization (a, g, b) """
"""A block of which the queries, the rows of the scores and what follows are computed where they are read."""
FLAT_LAYER = "f = Reshape (x, flat) c = MatMul (f, w) d = Add (c, b) t = Tanh (d) e = Add (t, f) h = MatMul (e, u)"
"""As TensorFlow writes a layer: products of the rows of all examples."""
FLAT_ATTENTION = """f = Reshape (x, flat) q0 = MatMul (f, w) q1 = Add (q0, b) q2 = Reshape (q1, back4) q = Transpose <perm = [0, 2, 1, 3]> (q2)
    k0 = MatMul (f, u) k2 = Reshape (k0, back4) k1 = Transpose <perm = [0, 2, 3, 1]> (k2) v = Transpose <perm = [0, 2, 1, 3]> (k2)
    s = MatMul (q, k1) p1 = Softmax (s) c = MatMul (p1, v) ct = Transpose <perm = [0, 2, 1, 3]> (c) cj = Reshape (ct, flat)
    a0 = MatMul (cj, w) a = Add (a0, f) l = LayerNormalization (a, g, b) r = Reshape (l, back) y = Gather <axis = 1> (r, zero)"""
MASKED = """h0 = MatMul (x, w) h1 = Tanh (h0) h2 = Add (h1, x) h3 = LayerNormalization (h2, g, b) o0 = MatMul (h3, vocabulary)
    o = Add (o0, vb) """
LABELLED = "float[N, S, 8] x, int64[N, S] t"
FLAT = "f = Reshape (o, words) r = Reshape (t, row) "
FIRST = "y = Gather <axis = 1> (d, zero)"

MOVES = {
    "first position behind attention": (f"{ATTENTION} y = Gather <axis = 1> (l, zero)", X5, "float[N, 8] y"),
    "first position": (f"a = Tanh (x) d = MatMul (a, w) {FIRST}", X, "float[N, 8] y"),
    "last position": ("a = Tanh (x) c = MatMul (a, w) y = Gather <axis = 1> (c, last)", X, "float[N, 8] y"),
    "last two positions": ("c = MatMul (x, w) y = Slice (c, cm2, end, c1)", X, "float[N, M, 8] y"),
    "some positions": ("c = MatMul (x, w) y = Gather <axis = 1> (c, picks)", X5, "float[N, 2, 8] y"),
    "positions backwards": ("c = MatMul (x, w) y = Slice (c, cm1, cm3, c1, cm1)", X, "float[N, M, 8] y"),
    "positions that are fed": ("c = MatMul (x, w) y = Gather <axis = 1> (c, i)", f"{X5}, int64[2] i", "float[N, 2, 8] y"),
    "a start that is fed": ("c = MatMul (x, w) y = Slice (c, i, end, c1)", f"{X}, int64[1] i", "float[N, M, 8] y"),
    "channels of a product": ("c = MatMul (x, w) d = Add (c, b) y = Slice (d, c1, c3, c2)", X, "float[N, S, 2] y"),
    "one part of a split": ("c = MatMul (x, w) d, e, y = Split <axis = 2> (c, three)", X, "float[N, S, 2] y"),
    "two parts of a split": ("c = MatMul (x, w) d, e, f = Split <axis = 2> (c, three) y = Mul (d, f)", X, "float[N, S, 2] y"),
    "channels of a convolution": ("c = Conv (z, k, kb) d = Relu (c) y = Slice (d, c1, c3, c1)", IMAGE, "float[N, 2, 3, 3] y"),
    "channels of joined heads": (
        "c = Conv (z, k, kb) d = Tanh (z) e = Concat <axis = 1> (c, d) y = Slice (e, c1, c3, c1)", IMAGE, "float[N, 2, 3, 3] y",
    ),
    "channels of two joined heads": (
        "c = Conv (z, k, kb) d = Sin (z) e = Concat <axis = 1> (c, d) f = Neg (e) y = Slice (f, c3, c8, c1)", IMAGE,
        "float[N, 5, 3, 3] y",
    ),
    "channels of normalised images": (
        "c = Conv (z, k, kb) d = BatchNormalization (c, kb, kb, kb, kv) y = Slice (d, c1, c3, c1)", f"{IMAGE}, float[6] kv",
        "float[N, 2, 3, 3] y",
    ),
    "a position behind a split": (
        f"c = MatMul (x, w) e, f = Split <axis = 2> (c, halves) d = Mul (e, f) {FIRST}", X, "float[N, 4] y",
    ),
    "views that keep the axis": (
        f"c = MatMul (x, w) c4 = Reshape (c, wide) e = Squeeze (c4, c2) f = Unsqueeze (e, c0) d = Squeeze (f, c0) {FIRST}", X,
        "float[N, 8] y",
    ),
    "one example": ("c = MatMul (x, w) y = Slice (c, c0, c1, c0)", X, "float[M, S, 8] y"),
    "words of a table": (f"c = Gather (table, i) e = Add (c, p) d = Tanh (e) {FIRST}", "int64[N, 5] i", "float[N, 8] y"),
    "a sum over features": (f"c = MatMul (x, w) d = ReduceSum <keepdims = 0> (c, c2) {FIRST}", X, "float[N] y"),
    "rows of Gemm": ("d = Reshape (x, flat) c = Gemm (d, w, b) y = Slice (c, c0, c2, c0)", X, "float[M, 8] y"),
    "Dropout in inference": (f"c = MatMul (x, w) d = Dropout (c) {FIRST}", X, "float[N, 8] y"),
    "Attention": (
        f"c = MatMul (x, w) d = Attention <q_num_heads = 4, kv_num_heads = 4> (c, x, x, m) {FIRST}", X5, "float[N, 8] y", 23,
    ),
    "labels that count": (f"{MASKED} {FLAT} y = SoftmaxCrossEntropyLoss <ignore_index = -100> (f, r)", LABELLED, "float y"),
    "labels that count, a sum": (
        f'{MASKED} {FLAT} y = SoftmaxCrossEntropyLoss <ignore_index = -100, reduction = "sum"> (f, r)', LABELLED, "float y",
    ),
    "labels that count, classes second": (
        f"{MASKED} f = Transpose <perm = [0, 2, 1]> (o) y = SoftmaxCrossEntropyLoss <ignore_index = -100> (f, t)", LABELLED, "float y",
    ),
    "labels that count, with weights": (
        f"{MASKED} o1 = LogSoftmax (o) f = Reshape (o1, words) r = Reshape (t, row) e = Exp (vb) "
        "y = NegativeLogLikelihoodLoss <ignore_index = -100> (f, r, e)", LABELLED, "float y",
    ),
    "labels that count behind attention": (
        f"{ATTENTION} o = MatMul (l, vocabulary) {FLAT} y = SoftmaxCrossEntropyLoss <ignore_index = -100> (f, r)",
        "float[N, 5, 8] x, int64[N, 5] t", "float y",
    ),
    "a row of each example": (
        "c = MatMul (x, w) d = Add (c, b) e = Add (d, x) h = LayerNormalization (e, g, b) y = GatherND <batch_dims = 1> (h, j)",
        f"{X}, int64[N, 1] j", "float[N, 8] y",
    ),
    "a row of each example by two indices": (
        f"{ATTENTION} n = Shape <start = 0, end = 1> (x) n0 = Squeeze (n, c0) all = Range (zero, n0, one) first = Unsqueeze (all, c1) "
        "pairs = Concat <axis = 1> (first, j) y = GatherND (l, pairs)", f"{X5}, int64[N, 1] j", "float[N, 8] y",
    ),
    "flat positions": (
        f"{FLAT_LAYER} size = Shape (x) r = Reshape (h, size) y = Gather <axis = 1> (r, zero)", X, "float[N, 8] y",
    ),
    "flat positions behind what mixes them": (
        "f = Reshape (x, flat) n = Softmax <axis = 0> (f) h = MatMul (n, w) size = Shape (x) r = Reshape (h, size) "
        "y = Gather <axis = 1> (r, zero)", X, "float[N, 8] y",
    ),
    "flat positions of two layers": (
        f"{FLAT_LAYER} r = Reshape (h, back) f2 = Reshape (r, flat) h2 = Gemm (f2, w, b) e2 = Add (h2, f2) "
        "r2 = Reshape (e2, back) y = Slice (r2, cm2, end, c1)", X5, "float[N, 2, 8] y",
    ),
    "flat positions behind attention": (FLAT_ATTENTION, X5, "float[N, 8] y"),
    "flat positions that are looked up": (
        "c0f = Reshape (i, row) e0 = Gather (table, c0f) f1 = MatMul (e0, w) f2 = Tanh (f1) size = Shape (i) "
        "size3 = Concat <axis = 0> (size, c8) r = Reshape (f2, size3) y = Gather <axis = 1> (r, last)", "int64[N, S] i", "float[N, 8] y",
    ),
    "labels of the next position": (
        f"{MASKED} o2 = Slice (o, c0, cm1, c1) t2 = Slice (t, c1, end, c1) f = Reshape (o2, words) r = Reshape (t2, row) "
        "y = SoftmaxCrossEntropyLoss <ignore_index = -100> (f, r)", LABELLED, "float y",
    ),
    "labels of the next position behind attention": (
        f"{ATTENTION} o = MatMul (l, vocabulary) o2 = Slice (o, c0, cm1, c1) t2 = Slice (t, c1, end, c1) f = Reshape (o2, words) "
        "r = Reshape (t2, row) y = SoftmaxCrossEntropyLoss <ignore_index = -100> (f, r)",
        "float[N, 5, 8] x, int64[N, 5] t", "float y",
    ),
}  # fmt: skip
"""A selection in each, which moves."""

SEVERAL = {
    "flat positions of two readers": (
        f"{FLAT_LAYER} r = Reshape (h, back) y0 = Gather <axis = 1> (r, zero) y1 = Gather <axis = 1> (r, two) y = Mul (y0, y1)", X5,
        "float[N, 8] y",
    ),
    "two axes": ("c = MatMul (x, w) d = Tanh (c) y = Slice (d, from, to, ax12)", X, "float[N, 1, 2] y"),
    "two readers of one position": (
        "d = MatMul (x, w) y0 = Gather <axis = 1> (d, zero) y1 = Gather <axis = 1> (d, zero) y = Mul (y0, y1)", X, "float[N, 8] y",
    ),
    "two readers of channels": (
        "d = MatMul (x, w) y0 = Slice (d, c0, c2, c2) y1 = Slice (d, c1, c3, c2) y = Mul (y0, y1)", X, "float[N, S, 2] y",
    ),
    "positions and channels": (
        "c = MatMul (x, w) d = Gather <axis = 1> (c, zero) e = Tanh (d) y = Slice (e, c0, c2, c1)", X, "float[N, 2] y",
    ),
}  # fmt: skip
"""Two selections or more in each, one of which may move further than another."""
COUNTS = {
    "labels of the next position behind attention": 2,
    "flat positions of two readers": 2,
    "two axes": 2,
    "two readers of one position": 2,
    "two readers of channels": 2,
    "positions and channels": 3,
}


@pytest.mark.parametrize("sizes", [{"N": 6, "S": 9}, {"N": 1, "S": 7}, {"N": 2, "S": 4}], ids=str)
@pytest.mark.parametrize("name", [*MOVES, *SEVERAL])
def test_values_and_gradients_stay_and_fewer_elements_are_computed(name, sizes):
    parsed = model(*{**MOVES, **SEVERAL}[name])
    feed = fed(parsed, sizes)
    plain, _, every = results(parsed, feed, prunes=False)
    pruned, places, fewer = results(parsed, feed, prunes=True)
    assert places == COUNTS.get(name, 1)
    assert len(plain) == len(pruned)
    for expected, value in zip(plain, pruned, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    assert fewer < every or sizes["N"] < 6


@pytest.mark.parametrize(
    "head", ["o = MatMul (h3, vocabulary)", "o = com.microsoft.MatMulNBits <%s> (h3, packed, scales)"], ids=["float", "int4"]
)
def test_rows_are_left_out_behind_operators_of_onnxruntime(head):
    """As files of language models have them: onnx knows no schema by which they could be written again"""
    body = f"""h0 = MatMul (x, w) h1 = com.microsoft.FastGelu (h0, b)
        h3, m1, v1, h2 = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-5> (h1, x, g)
        {head.replace("%s", f"N = {V}, K = {D}, bits = 4, block_size = 16")}
        {FLAT} y = SoftmaxCrossEntropyLoss <ignore_index = -100> (f, r)"""
    parsed = model(body, LABELLED, "float y", dtype=np.float32)
    rng = np.random.default_rng(0)
    if "MatMulNBits" in head:
        stored = {"packed": rng.integers(0, 256, (V, 1, 8)).astype(np.uint8), "scales": rng.normal(size=V).astype(np.float32)}
        parsed.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in stored.items())
    feed = {name: value.astype(np.float32) if name == "x" else value for name, value in fed(parsed, {"N": 4, "S": 9}).items()}
    plain, fetches, _ = differentiated(parsed, feed, prunes=False)
    pruned, selected, places = differentiated(parsed, feed, prunes=True)
    assert places == 1
    executor = paddle.Executor()
    for expected, value in zip(executor.run(plain, feed, fetches), executor.run(pruned, feed, selected), strict=True):
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6)


def declared(program: static.Program, outputs: list, feed: dict[str, np.ndarray]) -> int:
    """The elements that the operators of a graph compute, by the shapes that we infer: onnx knows none of kernels that it does not have"""
    operators = compile(program, outputs).operators
    dims = [v.dims or () for op in operators for v in op.outputs if v is not None and v.is_float]
    return sum(prod(size if isinstance(size, int) else len(feed["x"]) for size in each) for each in dims)


KERNELS = {
    "BiasGelu": "d = com.microsoft.BiasGelu (c, b)",
    "FastGelu": "d = com.microsoft.FastGelu (c, b)",
    "Gelu": "d = com.microsoft.Gelu (c)",
    "QuickGelu": "d = com.microsoft.QuickGelu <alpha = 1.5> (c)",
    "FusedMatMul": "d = com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (c, u)",
    "MatMulNBits": "d = com.microsoft.MatMulNBits <K = 8, N = 8, bits = 4, block_size = 16> (c, q4, scales)",
    "SimplifiedLayerNormalization": "d = SimplifiedLayerNormalization <axis = -1> (c, g)",
    "SkipLayerNormalization": "d = com.microsoft.SkipLayerNormalization (c, x, g, b)",
    "SkipLayerNormalization, its sum": "e, m0, v0, d0 = com.microsoft.SkipLayerNormalization (c, x, g, b) d = Mul (d0, e)",
    "SkipSimplifiedLayerNormalization": "d = com.microsoft.SkipSimplifiedLayerNormalization (c, x, g)",
    "MultiHeadAttention": "d = com.microsoft.MultiHeadAttention <num_heads = 2> (c, x, x)",
}
"""Operators of onnxruntime's own domain, in float32: its kernels have no other type."""


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_onnxruntime_compute_the_slices_that_are_read(name):
    parsed = model(f"c = MatMul (x, w) {KERNELS[name]} {FIRST}", X5, "float[N, 8] y", dtype=np.float32)
    rng = np.random.default_rng(0)
    if "q4" in KERNELS[name]:
        parsed.graph.initializer.append(numpy_helper.from_array(rng.integers(0, 256, (8, 1, 8), dtype=np.uint8), "q4"))
        parsed.graph.initializer.append(numpy_helper.from_array(rng.uniform(0.05, 0.1, 8).astype(np.float32), "scales"))
    feed = {"x": rng.normal(size=(6, S, D)).astype(np.float32)}
    plain, _, every = results(parsed, feed, False, declared)
    pruned, places, fewer = results(parsed, feed, True, declared)
    assert places == 1 and fewer < every
    for expected, value in zip(plain, pruned, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def test_a_kernel_of_other_providers_moves_too():
    program = paddle.from_onnx(model(f"c = MatMul (x, w) d = com.microsoft.BiasAdd (c, b, x) {FIRST}", X5, "float[N, 8] y"))
    assert run_program_pass(program, demand(program.outputs)) == 1
    needed = needed_operators(program.global_block().ops, program.outputs)
    assert [op.outputs[0].dims[1] for op in needed if op.type in ("MatMul", "BiasAdd")] == [1, 1]


# What stops it -----------------------------------------------------------------------------------------------------------

LOSS = "y = SoftmaxCrossEntropyLoss <ignore_index = -100> (f, r)"
STOPS = {
    "another reader": (f"d = MatMul (x, w) {FIRST} z = Tanh (d)", X, "float[N, 8] y, float[N, S, 8] z"),
    "it is fetched": (f"d = MatMul (x, w) {FIRST}", X, "float[N, 8] y, float[N, S, 8] d"),
    "two positions": ("d = MatMul (x, w) y = Gather <axis = 1> (d, zero) z = Gather <axis = 1> (d, last)", X, "float[N, 8] y, float[N, 8] z"),
    "all parts of a split": ("c = MatMul (x, w) d, e = Split <axis = 2> (c, halves) y = Mul (d, e)", X, "float[N, S, 4] y"),
    "most positions": ("c = MatMul (x, w) y = Slice (c, c0, cm1, c1)", X, "float[N, M, 8] y"),
    "nothing but views": (f"c = Reshape (x, wide) d = Squeeze (c, c2) {FIRST}", X, "float[N, 8] y"),
    "a softmax over positions": (f"d = Softmax <axis = 1> (x) {FIRST}", X, "float[N, 8] y"),
    "a norm over positions": (f"d = LayerNormalization <axis = 1> (x, pg) {FIRST}", f"{X5}, float[5, 8] pg", "float[N, 8] y"),
    "a sum of positions so far": (f"d = CumSum (x, one) {FIRST}", X, "float[N, 8] y"),
    "a sum over positions": ("c = MatMul (x, w) d = ReduceSum <keepdims = 1> (c, c1) y = Slice (d, c0, c1, c1)", X, "float[N, 1, 8] y"),
    "positions that may be repeated": (f"d = Add (x, q) {FIRST}", f"{X}, float[N, Q, 8] q", "float[N, 8] y"),
    "a flat view": ("c = MatMul (x, w) d = Reshape (c, row) y = Slice (d, c0, c3, c0)", X, "float[M] y"),
    "positions that are no axis of what was flat": (
        "f = Reshape (x, flat) c = MatMul (f, w) r = Reshape (c, turned) y = Gather <axis = 1> (r, zero)", X, "float[5, 8] y",
    ),
    "rows that may be more than the examples": (
        "d = MatMul (x, w) y = GatherND (d, j)", f"{X}, int64[K, 2] j", "float[K, 8] y",
    ),
    "causal attention": (f"d = Attention <is_causal = 1, q_num_heads = 4, kv_num_heads = 4> (x, x, x) {FIRST}", X, "float[N, 8] y", 23),
    "Dropout in training": (f"d = Dropout (x, half, true) {FIRST}", X, "float[N, 8] y"),
    "statistics of the batch": (
        "c = Conv (z, k, kb) d, m1, v1 = BatchNormalization <training_mode = 1> (c, kb, kb, kb, kv) y = Slice (d, c1, c3, c1)",
        f"{IMAGE}, float[6] kv", "float[N, 2, 3, 3] y",
    ),
    "channels of groups": ("c = Conv <group = 2> (z, k2, kb) y = Slice (c, c1, c3, c1)", f"{IMAGE}, float[6, 4, 1, 1] k2", "float[N, 2, 3, 3] y"),
    "labels that all count": (f"{MASKED} {FLAT} y = SoftmaxCrossEntropyLoss (f, r)", LABELLED, "float y"),
    "a loss for each row": (f'{MASKED} {FLAT} y = SoftmaxCrossEntropyLoss <ignore_index = -100, reduction = "none"> (f, r)', LABELLED, "float[M] y"),
    "scores that are fetched": (f"{MASKED} {FLAT} {LOSS}", LABELLED, "float y, float[N, S, 520] o"),
    "log-probabilities that are read": (
        f"{MASKED} {FLAT} y, z = SoftmaxCrossEntropyLoss <ignore_index = -100> (f, r)", LABELLED, "float y, float[M, 520] z",
    ),
    "few classes": (f"o = MatMul (x, w) f = Reshape (o, flat) r = Reshape (t, row) {LOSS}", LABELLED, "float y"),
    "labels without positions": ("o = MatMul (x2, vocabulary) y = SoftmaxCrossEntropyLoss <ignore_index = -100> (o, t)", "float[N, 8] x2, int64[N] t", "float y"),
    "scores that no product gives": (f"f0 = Tanh (s) f = Reshape (f0, words) r = Reshape (t, row) {LOSS}", "float[N, S, 520] s, int64[N, S] t", "float y"),
}  # fmt: skip


@pytest.mark.parametrize("name", STOPS)
def test_what_reads_other_slices_stops_it_and_leaves_the_program_as_it_was(name):
    program = paddle.from_onnx(model(*STOPS[name]))
    before = program.to_string(with_details=True), program.version, program.names.copy()
    assert run_program_pass(program, demand(program.outputs)) == 0
    assert before == (program.to_string(with_details=True), program.version, program.names)


@pytest.mark.parametrize("operator", ["Dropout", "BatchNormalization"])
def test_training_forms_stop_it(operator):
    body = f"c = MatMul (x, w) d = Dropout (c) {FIRST}"
    if operator == "BatchNormalization":
        body = "c = Conv (z, k, kb) d = BatchNormalization (c, kb, kb, kb, kv) y = Slice (d, c1, c3, c1)"
    inputs, outputs = (X, "float[N, 8] y") if operator == "Dropout" else (f"{IMAGE}, float[6] kv", "float[N, 2, 3, 3] y")
    program = paddle.from_onnx(model(body, inputs, outputs))
    program.train()
    assert run_program_pass(program, demand(program.outputs)) == 0
    program.eval()
    assert run_program_pass(program, demand(program.outputs)) == 1


def test_a_program_that_waits_for_its_training_forms_is_left_alone():
    old = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 11]> f (float[N, S, 8] x) => (float[N, 8] y) <int64 zero = {0}>
        { d = Dropout <ratio = 0.5> (x)  y = Gather <axis = 1> (d, zero) }"""
    )
    program = paddle.from_onnx(old)
    program.train()
    assert program.training_pending
    assert run_program_pass(program, demand(program.outputs)) == 0


def test_the_whole_of_a_tensor_can_still_be_fetched():
    program = paddle.from_onnx(model(*MOVES["first position"]))
    x = np.random.default_rng(0).normal(size=(3, S, D))
    before = paddle.Executor().run(program, {"x": x}, ["a", "d", "y"])
    assert run_program_pass(program, demand(program.outputs)) == 1
    for expected, value in zip(before, paddle.Executor().run(program, {"x": x}, ["a", "d", "y"]), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert "d" not in {v.name for op in needed_operators(program.global_block().ops, program.outputs) for v in op.outputs}


def test_unread_parts_of_a_split_can_still_be_fetched():
    program = paddle.from_onnx(model(*MOVES["one part of a split"]))
    x = np.random.default_rng(0).normal(size=(3, S, D))
    before = paddle.Executor().run(program, {"x": x}, ["d", "e", "y"])
    assert run_program_pass(program, demand(program.outputs)) == 1
    for expected, value in zip(before, paddle.Executor().run(program, {"x": x}, ["d", "e", "y"]), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_a_second_run_finds_nothing_more():
    for name, case in {**MOVES, **SEVERAL}.items():
        program = paddle.from_onnx(model(*case))
        run_program_pass(program, demand(program.outputs))
        before = program.to_string(with_details=True)
        assert run_program_pass(program, demand(program.outputs)) == 0, name
        assert before == program.to_string(with_details=True), name


# Random graphs -----------------------------------------------------------------------------------------------------------


def drawn(seed: int) -> onnx.ModelProto:
    """Operators on [N, S, 8] drawn at random, each on results before it, and one to three selections."""
    rng = np.random.default_rng(seed)
    pick = lambda names: str(rng.choice(names))  # noqa: E731
    names, lines = ["x"], []
    kinds = (
        "MatMul ({a}, w)", "Add ({a}, {b})", "Mul ({a}, {b})", "Tanh ({a})", "Softmax ({a})", "Softmax <axis = 1> ({a})", "Add ({a}, p)",
        "LayerNormalization ({a}, g, b)", "Add ({a}, b)", "Neg ({a})",
    )  # fmt: skip
    for i in range(int(rng.integers(3, 12))):
        kind = rng.integers(len(kinds) + 2)
        a, b, y = pick(names[-3:]), pick(names[-4:]), f"n{i}"
        if kind == len(kinds):
            lines.append(f"{y}a = Reshape ({a}, heads) {y}b = Transpose <perm = [0, 2, 1, 3]> ({y}a) {y}c = Sin ({y}b)")
            lines.append(f"{y}d = Transpose <perm = [0, 2, 1, 3]> ({y}c) {y} = Reshape ({y}d, joined)")
        elif kind == len(kinds) + 1:
            lines.append(f"{y}a, {y}b = Split <axis = 2> ({a}, halves) {y} = Concat <axis = 2> ({y}b, {y}a)")
        else:
            lines.append(f"{y} = {kinds[kind].format(a=a, b=b)}")
        names.append(y)
    outputs = []
    selections = (
        ("Gather <axis = 1> ({a}, zero)", "N, 8"), ("Slice ({a}, c1, c3, c1)", "N, 2, 8"), ("Slice ({a}, c0, c2, c2)", "N, 5, 2"),
        ("Gather <axis = 1> ({a}, last)", "N, 8"), ("Slice ({a}, from, to, ax12)", "N, 1, 2"), ("Gather <axis = 2> ({a}, picks)", "N, 5, 2"),
    )  # fmt: skip
    for i in range(int(rng.integers(1, 4))):
        form, shape = selections[rng.integers(len(selections))]
        lines.append(f"y{i} = {form.format(a=pick(names[-2:]))}")
        outputs.append(f"float[{shape}] y{i}")
    return model(" ".join(lines), X5, ", ".join(outputs))


def test_random_graphs_give_the_values_and_gradients_that_they_gave():
    moved = 0
    for seed in range(40):
        parsed = drawn(seed)
        feed = fed(parsed, {"N": 2, "S": S})
        plain, _, _ = results(parsed, feed, prunes=False)
        pruned, places, _ = results(parsed, feed, prunes=True)
        moved += bool(places)
        for expected, value in zip(plain, pruned, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-12, err_msg=f"seed {seed}")
    assert moved > 12


# Finite differences ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["first position behind attention", "labels that count behind attention", "last position"])
def test_gradients_are_finite_differences(name):
    parsed = model(*MOVES[name])
    feed = fed(parsed, {"N": 2, "S": S})
    program = paddle.from_onnx(parsed)
    assert run_program_pass(program, demand(program.outputs)) == 1
    x = next(v for v in program.inputs if v.name == "x")
    x.stop_gradient = False
    rng = np.random.default_rng(3)
    (y,) = program.outputs
    (value,) = paddle.Executor().run(program, feed, [y])
    seed, step = rng.normal(size=np.shape(value)), rng.normal(size=feed["x"].shape)
    (gx,) = gradients([y], [x], [program.constant(seed)])
    (gradient,) = paddle.Executor().run(program, feed, [gx])
    ends = [paddle.Executor().run(program, {**feed, "x": feed["x"] + h * step}, [y])[0] for h in (1e-5, -1e-5)]
    np.testing.assert_allclose(np.sum(gradient * step), np.sum((ends[0] - ends[1]) * seed) / 2e-5, rtol=1e-7)


# Places that differ in one thing -----------------------------------------------------------------------------------------


def _demanded(graph, target):
    outputs = [v for _, v in graph.outputs]
    places = run_program_pass(graph.program, demand(outputs))
    if places:
        graph.operators = needed_operators(graph.operators, outputs)
        graph.take_constants()
    return places


ON_GRAPHS = Pass("demand", _demanded, rounding="order")


def place_of(name: str) -> Place:
    body, inputs, outputs, *opset = {**MOVES, **SEVERAL}[name]
    parsed = model(body, inputs, outputs, *(opset or [21]), np.float32)
    feed = {key: x.astype(np.float32) if x.dtype.kind == "f" else x for key, x in fed(parsed, {"N": 2, "S": S}).items()}
    return Place(parsed, feed, {}, name)


OTHER_LABELS = "SoftmaxCrossEntropyLoss y, operand 1 as an input [2, 1]"
"""Labels of other sizes than the scores' make no ONNX program; onnxruntime reads past them. Where both are known, nothing moves."""


@pytest.mark.parametrize("name", [*MOVES, *SEVERAL])
def test_what_it_rewrites_is_what_was_written(name):
    """Operands, attributes, constants, readers and sizes that are changed one at a time: it sees the difference, or keeps the values"""
    result = tried(place_of(name), EVERY, ON_GRAPHS, 40)
    faults = [fault for fault in result.faults if not fault.startswith(OTHER_LABELS)]
    assert not faults, "\n".join(faults)
    assert result.counts["compared"] >= 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*MOVES, *SEVERAL])
def test_all_changes_of_what_it_rewrites(name):
    faults = [fault for fault in tried(place_of(name), EVERY, ON_GRAPHS).faults if not fault.startswith(OTHER_LABELS)]
    assert not faults, "\n".join(faults)


# Examples ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in MOVES if name.startswith(("labels", "first", "last", "flat", "a row"))])
def test_examples_are_still_known(name):
    program = paddle.from_onnx(model(*MOVES[name]))
    (y,) = program.outputs
    before = examples_of(program)
    said = before.mixed_by(y), before.unknown(y), before.axis(y), before.total_by(y) is not None
    assert run_program_pass(program, demand([y])) == COUNTS.get(name, 1)
    after = examples_of(program)
    assert said == (after.mixed_by(y), after.unknown(y), after.axis(y), after.total_by(y) is not None)


KEPT_ROWS = """<ir_version: 10, opset_import: ["": 21]> f (float[N, S, 2] x, int64[N, S] a, int64[N, S] b) => (float[M, 2] y, float[M, 2] z)
    <int64 zero = {0}, int64 one = {1}, int64[1] all = {-1}, int64[2] pairs = {-1, 2}, int64[1] axis = {0}> {
      size = Shape <start = 1, end = 2> (a)  last = Squeeze (size, axis)  places = Range (zero, last, one)  first = Equal (places, zero)
      ea = Equal (a, zero)  na = Not (ea)  oa = Or (na, first)  ka = Reshape (oa, all)
      eb = Equal (b, zero)  nb = Not (eb)  ob = Or (nb, first)  kb = Reshape (ob, all)
      rows = Reshape (x, pairs)  c = Compress <axis = 0> (rows, ka)  d = Compress <axis = 0> (rows, kb)
      e = Tanh (c)  y = Add (c, d)  z = Add (c, e) }"""


def test_rows_that_are_kept_by_two_different_rows_of_booleans_are_mixed():
    program = paddle.from_onnx(onnx.parser.parse_model(KEPT_ROWS))
    y, z = program.outputs
    examples = examples_of(program)
    assert examples.mixed_by(y).type == "Add" and examples.mixed_by(z) is None


def test_rows_that_are_kept_by_booleans_that_are_fed_are_mixed():
    """They may keep none of an example, so no position of the result is known to be one's"""
    program = paddle.from_onnx(
        onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["": 21]> f (float[N, 2] x, bool[N] a) => (float[M, 2] y)
            { y = Compress <axis = 0> (x, a) }"""
        )
    )
    assert examples_of(program).mixed_by(program.outputs[0]).type == "Compress"


# A program of the user ---------------------------------------------------------------------------------------------------


def test_prune_unread_gives_a_program_that_trains_the_same():
    def step(prunes):
        program, startup = static.Program(), static.Program()
        program.random_seed = startup.random_seed = 0
        with static.program_guard(program, startup):
            x = static.data("x", [None, 6, 4], "float64")
            h = paddle.tanh(static.nn.fc(x, 5, num_flatten_dims=2, weight_attr=static.ParamAttr(name="w"), bias_attr=False))
            loss = paddle.mean(h[:, 0] ** 2)
        text = program.to_string()
        if prunes:
            pruned = static.prune_unread(program, loss)
            assert program.to_string() == text
            assert len(pruned.global_block().ops) <= len(program.global_block().ops) and [v.name for v in pruned.inputs] == ["x"]
            program, loss = pruned, pruned.find(loss.name)
        with static.program_guard(program, startup):
            paddle.optimizer.SGD(0.5).minimize(loss)
        executor = paddle.Executor()
        executor.run(startup)
        w = np.random.default_rng(0).normal(size=(4, 5))
        program.set_state_dict({"w": w})
        feed = {"x": np.random.default_rng(1).normal(size=(3, 6, 4))}
        losses = [float(executor.run(program, feed, [loss])[0]) for _ in range(3)]
        return losses, np.asarray(program.state_dict()["w"])

    (plain, w), (pruned, other) = step(False), step(True)
    assert plain[0] > plain[-1]
    np.testing.assert_allclose(pruned, plain, rtol=1e-12)
    np.testing.assert_allclose(other, w, rtol=1e-12)


def test_prune_unread_refuses_what_it_cannot_do():
    x = static.data("x", [None, 4])
    x.stop_gradient = False
    loss = paddle.mean(paddle.tanh(x))
    program = static.default_main_program()
    with pytest.raises(NotAVariable, match="fetch_vars is a Variable"):
        static.prune_unread(program, ["loss"])
    with static.program_guard(static.Program()):
        other = paddle.tanh(static.data("x", [None, 4]))
    with pytest.raises(ArgumentError, match="is not a variable of the program"):
        static.prune_unread(program, other)
    static.gradients([loss], [x])
    with pytest.raises(ArgumentError, match="Call prune_unread before minimize"):
        static.prune_unread(program, loss)
