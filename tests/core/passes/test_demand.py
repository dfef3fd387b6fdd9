"""Selections move towards the inputs: values and gradients stay, fewer elements are computed, and what mixes slices stops it."""

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

CONSTANTS = """int64 zero = {0}, int64 last = {-1}, int64 two = {2}, int64[2] picks = {3, 1}, int64[4] heads = {0, 0, 4, 2},
    int64[3] joined = {0, 0, 8}, int64[2] flat = {-1, 8}, int64[2] words = {-1, 520}, int64[1] row = {-1}, int64[1] c0 = {0},
    int64[1] c1 = {1}, int64[1] c2 = {2}, int64[1] c3 = {3}, int64[1] c8 = {8}, int64[1] cm3 = {-3}, int64[1] cm2 = {-2}, int64[1] cm1 = {-1}, int64[1] end = {9223372036854775807},
    int64[2] from = {0, 2}, int64[2] to = {1, 4}, int64[2] ax12 = {1, 2}, int64[3] three = {2, 4, 2}, int64[2] halves = {4, 4},
    int64[3] grid = {0, 4, 2}, int64[3] rest = {0, 5, 8}, int64[4] wide = {0, 0, 1, 8}"""

SHAPES = {
    "w": (D, D), "u": (D, D), "vocabulary": (D, V), "b": (D,), "g": (D,), "vb": (V,), "p": (1, S, D), "k": (6, D, 1, 1), "kb": (6,),
    "table": (7, D), "m": (1, 1, S, S),
}  # fmt: skip


def model(body: str, inputs: str, outputs: str, opset: int = 21) -> onnx.ModelProto:
    """A model of float64, with weights that are drawn and the constants that it reads."""
    parsed = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]> f ({inputs}) => ({outputs}) <{CONSTANTS}> {{ {body} }}'
    )
    rng = np.random.default_rng(0)
    read = {name for node in parsed.graph.node for name in node.input}
    for tensor in [t for t in parsed.graph.initializer if t.name not in read]:
        parsed.graph.initializer.remove(tensor)
    for name, shape in SHAPES.items():
        if name in read:
            parsed.graph.initializer.append(numpy_helper.from_array(rng.normal(size=shape) / 2, name))
    for info in (*parsed.graph.input, *parsed.graph.output):
        if info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return parsed


def fed(parsed: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Random inputs: numbers, and integers below 7, of which some are -100 where they are labels."""
    rng = np.random.default_rng(1)
    feed = {}
    for info in parsed.graph.input:
        shape = [d.dim_value or sizes[d.dim_param] for d in info.type.tensor_type.shape.dim]
        if info.name == "kv":
            feed[info.name] = rng.uniform(0.5, 2.0, shape)
        elif info.type.tensor_type.elem_type == onnx.TensorProto.INT64 and info.name == "i" and len(shape) == 1:
            feed[info.name] = np.array([-1, -3][: shape[0]])
        elif info.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            labels = rng.integers(0, 7, shape)
            feed[info.name] = np.where(rng.random(shape) < 0.7, -100, labels) if info.name == "t" else labels
        else:
            feed[info.name] = rng.normal(size=shape)
    return feed


def results(parsed: onnx.ModelProto, feed: dict[str, np.ndarray], prunes: bool) -> tuple[list[np.ndarray], int, int]:
    """Outputs and the gradients of all weights and inputs; in how many places the pass rewrote, and the elements that are computed."""
    program = paddle.from_onnx(parsed)
    outputs = program.outputs
    places = run_program_pass(program, demand(outputs)) if prunes else 0
    rng = np.random.default_rng(2)
    shapes = [np.shape(y) for y in paddle.Executor().run(program, feed, outputs)]
    seeds = [program.constant(rng.normal(size=shape)) for shape in shapes]
    leaves = [*program.parameters, *(v for v in program.inputs if v.is_float)]
    for v in leaves:
        v.stop_gradient = False
    grads = [g for g in gradients(outputs, leaves, seeds) if g is not None]
    values = paddle.Executor().run(program, feed, [*outputs, *grads])
    return [np.asarray(value) for value in values], places, elements(program, [*outputs, *grads], feed)


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
    "two axes": ("c = MatMul (x, w) d = Tanh (c) y = Slice (d, from, to, ax12)", X, "float[N, 1, 2] y"),
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
}  # fmt: skip
"""A selection in each, which moves."""

SEVERAL = {
    "two readers of one position": (
        f"d = MatMul (x, w) y0 = Gather <axis = 1> (d, zero) y1 = Gather <axis = 1> (d, zero) y = Mul (y0, y1)", X, "float[N, 8] y",
    ),
    "two readers of channels": (
        "d = MatMul (x, w) y0 = Slice (d, c0, c2, c2) y1 = Slice (d, c1, c3, c2) y = Mul (y0, y1)", X, "float[N, S, 2] y",
    ),
    "positions and channels": (
        "c = MatMul (x, w) d = Gather <axis = 1> (c, zero) e = Tanh (d) y = Slice (e, c0, c2, c1)", X, "float[N, 2] y",
    ),
}  # fmt: skip
"""Two selections in each."""


@pytest.mark.parametrize("sizes", [{"N": 6, "S": 9}, {"N": 1, "S": 7}, {"N": 2, "S": 4}], ids=str)
@pytest.mark.parametrize("name", [*MOVES, *SEVERAL])
def test_values_and_gradients_stay_and_fewer_elements_are_computed(name, sizes):
    parsed = model(*{**MOVES, **SEVERAL}[name])
    feed = fed(parsed, sizes)
    plain, _, every = results(parsed, feed, prunes=False)
    pruned, places, fewer = results(parsed, feed, prunes=True)
    assert places == (1 if name in MOVES else 2)
    assert len(plain) == len(pruned)
    for expected, value in zip(plain, pruned, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    assert fewer < every or sizes["N"] < 6
