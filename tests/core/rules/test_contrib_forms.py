"""Operators of com.microsoft: what has no kernel on the CPU, what is refused, and what is read of the forward pass."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import onnxgrad
from onnxgrad import errors
from onnxgrad.core.rules.registry import TABLE
from tests.core.rules import test_contrib, test_contrib_quantized

RNG = np.random.default_rng(5)
MS = "com.microsoft"


def real(*shape):
    return RNG.normal(size=shape)


def normal_cdf(x):
    from math import erf

    return 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def group_norm(x, scale, bias, *, groups, last, silu, eps=1e-5):
    x = x if last else np.moveaxis(x, 1, -1)
    apart = x.reshape(*x.shape[:3], groups, -1)
    mean, variance = (f(apart, axis=(1, 2, 4), keepdims=True) for f in (np.mean, np.var))
    y = ((apart - mean) / np.sqrt(variance + eps)).reshape(x.shape) * scale + bias
    y = y / (1 + np.exp(-y)) if silu else y
    return y if last else np.moveaxis(y, -1, 1)


def conv_last(x, w, b, z=0.0):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    return np.einsum("nhwcij,ocij->nhwo", windows, w) + b + z


IMAGE, SKIP = real(2, 4, 4, 6), real(2, 6)
# name: (operator, operands, function that gives the outputs, attributes)
CASES = {
    "bias_add": ("BiasAdd", [real(2, 3, 4), real(4), real(2, 3, 4)], lambda x, b, s: [x + b + s], {}),
    "bias_split_gelu": (
        "BiasSplitGelu", [real(2, 3, 8), real(8)],
        lambda x, b: [(x + b)[..., :4] * (x + b)[..., 4:] * normal_cdf((x + b)[..., 4:])], {},
    ),
    "group_norm": (
        "GroupNorm", [IMAGE, real(6), real(6)], lambda x, s, b: [group_norm(x, s, b, groups=3, last=True, silu=True)],
        {"groups": 3, "activation": 1},
    ),
    "group_norm_first": (
        "GroupNorm", [np.moveaxis(IMAGE, -1, 1), real(6), real(6)],
        lambda x, s, b: [group_norm(x, s, b, groups=2, last=False, silu=False)], {"groups": 2, "activation": 0, "channels_last": 0},
    ),
    "skip_group_norm": (
        "SkipGroupNorm", [IMAGE, real(6), real(6), SKIP, real(6)],
        lambda x, s, b, k, c: [group_norm(x + k[:, None, None] + c, s, b, groups=3, last=True, silu=True), x + k[:, None, None] + c],
        {"groups": 3, "activation": 1},
    ),
    "nhwc_conv": ("NhwcConv", [IMAGE, real(3, 6, 3, 3), real(3)], lambda x, w, b: [conv_last(x, w, b)], {"kernel_shape": [3, 3]}),
    "nhwc_fused": (
        "NhwcFusedConv", [IMAGE, real(3, 6, 3, 3), real(3), real(2, 2, 2, 3)], lambda *v: [np.tanh(conv_last(*v))],
        {"activation": "Tanh"},
    ),
}  # fmt: skip


def model_of(case):
    """The model, and what is fed"""
    kind, operands, function, attrs = CASES[case]
    feeds = {f"x{i}": v.astype(np.float32) for i, v in enumerate(operands)}
    results = function(*(v.astype(np.float64) for v in feeds.values()))
    node = helper.make_node(kind, list(feeds), [f"y{i}" for i in range(len(results))], domain=MS, **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, 1, v.shape) for n, v in feeds.items()],
        [helper.make_tensor_value_info(n, 1, None) for n in node.output],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=8), feeds


@pytest.mark.parametrize("case", CASES)
def test_expansion_without_a_kernel_agrees_with_its_definition(case):
    kind, operands, function, _ = CASES[case]
    operands = [v.astype(np.float32).astype(np.float64) for v in operands]
    want = function(*operands)
    model, feeds = model_of(case)
    expanded = onnxgrad.to_onnx(onnxgrad.from_onnx(model, expand=MS))
    session = onnxruntime.InferenceSession(expanded.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(session.run(None, feeds), want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)

    program = onnxgrad.from_onnx(model, expand=MS if kind == "SkipGroupNorm" else None)  # its gradient reads its second output
    inputs = list(program.inputs)
    for v in inputs:
        v.stop_gradient = False
    weights = {f"c{i}": RNG.normal(size=y.shape).astype(np.float32) for i, y in enumerate(want)}
    with onnxgrad.static.program_guard(program):
        seeds = [onnxgrad.static.data(n, w.shape, "float32") for n, w in weights.items()]
        found = onnxgrad.gradients(list(program.outputs), inputs, seeds)
    # The operator itself has no kernel here; its expansion serves the gradient alone, so it is not needed.
    values = onnxgrad.Executor().run(program, {**feeds, **weights}, found)
    for i, g in enumerate(values):
        direction = RNG.normal(size=g.shape)
        ends = []
        for h in (1e-5, -1e-5):
            moved = [v + h * direction if j == i else v for j, v in enumerate(operands)]
            ends.append(sum(float((y * w).sum()) for y, w in zip(function(*moved), weights.values(), strict=True)))
        assert float((g * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-4)


def test_every_operator_with_an_expansion_is_checked():
    checked = {kind for kind, *_ in (*CASES.values(), *test_contrib.CASES.values())}
    checked |= {kind for _, kind, *_ in test_contrib_quantized.CASES.values()}
    written = {name for (domain, name), entries in TABLE.items() if domain == MS and entries[0].state == "expands"}
    assert written - checked == {
        "DynamicQuantizeMatMul",  # in test_contrib_quantized
        "LayerNormalization",  # in test_contrib, as onnxruntime writes them
        "SimplifiedLayerNormalization",
        "TransposeMatMul",  # the old name of FusedMatMul
        "QEmbedLayerNormalization",  # in test_contrib_quantized: integers alone
    }


def with_attributes(case, **attrs):
    model, feeds = test_contrib.model_of(case)
    node = model.graph.node[0]
    kept = [a for a in node.attribute if a.name not in attrs]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in attrs.items())])
    return model, feeds


@pytest.mark.parametrize(
    ("case", "attrs", "reason"),
    [
        ("grouped", {"k_quant_type": "PER_TENSOR"}, "GroupQueryAttention.*cache is quantised"),
        ("rotary", {"is_packed_batching": 1}, "RotaryEmbedding.*packed batches"),
        ("n_bits_4", {"weight_prepacked": 1}, "MatMulNBits.*packed for one machine"),
        ("n_bits_4", {"bits": 3}, "MatMulNBits.*3 bits"),
        ("causal_conv", {"dilation": 2}, "CausalConvWithState.*dilation"),
        ("experts_relu", {"activation_type": "relu2"}, "MoE.*relu2"),
        ("quantised_experts_4", {"normalize_routing_weights": 0}, "QMoE.*normalises routing weights"),
        ("quantised_experts_4", {"quant_type": "fp8"}, "QMoE.*fp8"),
        ("attention", {"do_rotary": 1}, "Attention.*do_rotary"),
    ],
)
def test_forms_that_are_not_written_are_refused_by_name(case, attrs, reason):
    model, feeds = with_attributes(case, **attrs)
    program = onnxgrad.from_onnx(model)
    inputs = test_contrib.differentiable(program, feeds)
    with pytest.raises(errors.UnsupportedGradient, match=reason):
        onnxgrad.gradients(program.outputs, inputs)
    with pytest.raises(errors.ModelError, match=reason):
        onnxgrad.from_onnx(model, expand=MS)


@pytest.mark.parametrize("kind", ["DecoderMaskedMultiHeadAttention", "BeamSearch", "MatMulBnb4", "PackedAttention"])
def test_operators_without_an_expansion_say_what_to_use(kind):
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], ["y"], domain=MS)], "g", [helper.make_tensor_value_info("x", 1, [2])],
        [helper.make_tensor_value_info("y", 1, [2])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=8)
    program = onnxgrad.from_onnx(model)
    program.inputs[0].stop_gradient = False
    with pytest.raises(errors.UnsupportedGradient, match=rf"{kind}.*(use|differentiate|export|quantise)"):
        onnxgrad.gradients(program.outputs, program.inputs)


def test_output_whose_gradient_is_not_written_is_refused():
    model, feeds = with_attributes("grouped", qk_output=1)
    model.graph.node[0].output.append("scores")
    model.graph.output.append(helper.make_tensor_value_info("scores", 1, None))
    program = onnxgrad.from_onnx(model)
    inputs = test_contrib.differentiable(program, feeds)
    assert onnxgrad.gradients(program.outputs[0], inputs)[0] is not None
    with pytest.raises(errors.UnsupportedGradient, match=r"GroupQueryAttention.*'scores'"):
        onnxgrad.gradients(program.outputs[3], inputs)


def small_block():
    """x -> SkipSimplifiedLayerNormalization -> MatMulNBits -> GroupQueryAttention, with a residual and a dynamic batch"""
    packed, scales = test_contrib.packed(64, 32, 4, 32)
    stored = {"g": RNG.uniform(0.5, 1.5, 32).astype(np.float32), "w": packed, "s": 0.02 * scales, "total": np.array(3, np.int32)}
    nodes = [
        helper.make_node("SkipSimplifiedLayerNormalization", ["x", "x", "g"], ["n", "", "", "r"], domain=MS, epsilon=1e-5),
        helper.make_node("MatMulNBits", ["n", "w", "s"], ["p"], domain=MS, N=64, K=32, block_size=32),
        helper.make_node("GroupQueryAttention", ["p", *[""] * 4, "k", "total"], ["a"], domain=MS, num_heads=2, kv_num_heads=1),
        helper.make_node("Add", ["a", "r"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", 1, ["B", "S", 32]), helper.make_tensor_value_info("k", 6, ["B"])]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, ["B", "S", 32])],
        [numpy_helper.from_array(v, n) for n, v in stored.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=8)
    return model, {"x": real(2, 3, 32).astype(np.float32), "k": np.array([2, 2], np.int32)}


def test_operand_given_twice_receives_its_gradient_once():
    model, feeds = small_block()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    program = onnxgrad.from_onnx(model)
    program.inputs[0].stop_gradient = False
    with onnxgrad.static.program_guard(program):
        (g,) = onnxgrad.gradients(program.outputs, program.inputs[:1])
    (found,) = onnxgrad.Executor().run(program, feeds, [g])
    direction = real(2, 3, 32).astype(np.float32)
    total = test_contrib.weighted_sums(session, ["y"], [np.ones((2, 3, 32), np.float32)])
    slope, error = test_contrib.slope_along(total, feeds, "x", direction / np.linalg.norm(direction))
    assert float((found * direction).sum() / np.linalg.norm(direction)) == pytest.approx(slope, rel=2e-3, abs=2 * error)


def test_recomputation_runs_the_operators_again_and_gives_the_same_gradient():
    found = []
    model, feeds = small_block()
    for checkpoints in (None, ["n"], ["p"]):
        program = onnxgrad.from_onnx(model)
        with onnxgrad.static.program_guard(program):
            loss = onnxgrad.mean(program.outputs[0])
            pairs = onnxgrad.static.append_backward(loss, checkpoints=checkpoints)
        assert [p.name for p, _ in pairs] == ["g"]
        found.append(onnxgrad.Executor().run(program, feeds, [pairs[0][1]])[0])
        count = sum(
            node.op_type == "SkipSimplifiedLayerNormalization" for node in onnxgrad.to_onnx(program, [pairs[0][1]]).graph.node
        )
        assert count == (1 if checkpoints is None else 2)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-5, atol=1e-7)


def test_second_derivative_goes_through_the_expansion():
    model, feeds = small_block()
    program = onnxgrad.from_onnx(model)
    x = program.inputs[0]
    x.stop_gradient = False
    direction = real(2, 3, 32).astype(np.float32)
    with onnxgrad.static.program_guard(program):
        c = onnxgrad.static.data("c", [2, 3, 32], "float32")
        y = program.outputs[0]
        (first,) = onnxgrad.gradients(onnxgrad.sum(y * y), [x])
        (second,) = onnxgrad.gradients(first, [x], [c])
    run = onnxgrad.Executor().run
    (found,) = run(program, {**feeds, "c": direction}, [second])
    ends = [run(program, {**feeds, "x": feeds["x"] + np.float32(h) * direction}, [first])[0] for h in (1e-2, -1e-2)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-2, rtol=3e-2, atol=3e-2 * np.abs(found).max())


def test_types_of_results_are_known_without_value_info():
    for case in ("grouped_past", "multi_head", "skip_simplified", "n_bits_4", "embed", "experts_relu", "gather_4", "fused_conv"):
        model, feeds = test_contrib.model_of(case)
        program = onnxgrad.from_onnx(model)
        values = test_contrib.session_of(model).run(None, feeds)
        for v, value in zip(program.outputs, values, strict=True):
            assert v.dtype.name == value.dtype.name and len(v.dims) == value.ndim, case
            known = [(a, b) for a, b in itertools.zip_longest(v.dims, value.shape) if isinstance(a, int)]
            assert known and all(a == b for a, b in known), case


def test_file_saved_for_one_processor_is_refused_with_the_way_out(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[1, 16, 8, 8] x) => (float[1, 16, 6, 6] y) { y = Conv (x, w) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(real(16, 16, 3, 3).astype(np.float32), "w"))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "all.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    program = onnxgrad.from_onnx(tmp_path / "all.onnx")
    if all(op.domain != "com.microsoft.nchwc" for op in program.global_block().ops):
        pytest.skip("this processor has no blocked form")
    program.inputs[0].stop_gradient = False
    with pytest.raises(errors.UnsupportedGradient, match=r"com\.microsoft\.nchwc.*ORT_ENABLE_EXTENDED"):
        onnxgrad.gradients(program.outputs, program.inputs)


def test_quantised_operators_are_explained_as_carrying_gradients():
    model, _ = test_contrib_quantized.dynamic("MatMulInteger")
    rows = {row.operator: row.state for row in onnxgrad.explain(model).rows}
    assert rows["MatMulInteger"] == rows["Cast"] == rows["DynamicQuantizeLinear"] == "gradient"


def in_float16(model, feeds):
    half = onnx.ModelProto()
    half.CopyFrom(model)
    for v in [*half.graph.input, *half.graph.output]:
        v.type.tensor_type.elem_type = 10
    for v in half.graph.initializer:
        if v.data_type == 1:
            v.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(v).astype(np.float16), v.name))
    return half, {name: v.astype(np.float16) for name, v in feeds.items()}


@pytest.mark.parametrize(
    "case", ["grouped_rotary", "grouped_past", "n_bits_4_zero", "skip_simplified", "multi_head", "attention", "experts_swiglu"]
)
def test_float16_gradients_are_those_of_float32(case):
    found = []
    for model, feeds in (test_contrib.model_of(case), in_float16(*test_contrib.model_of(case))):
        program = onnxgrad.from_onnx(model, parameters=[])
        inputs = test_contrib.differentiable(program, feeds)
        gradients = [g for g in onnxgrad.gradients(program.outputs[0], inputs) if g is not None]
        found.append(onnxgrad.Executor().run(program, feeds, gradients))
    for wide, narrow in zip(*found, strict=True):
        assert narrow.dtype == np.float16
        np.testing.assert_allclose(narrow.astype(np.float32), wide, atol=3e-3 * max(1e-3, np.abs(wide).max()))


@pytest.mark.parametrize("case", ["grouped_rotary", "skip_simplified", "n_bits_4"])
def test_forward_mode_agrees_with_differences_of_the_kernel(case):
    model, feeds = test_contrib.model_of(case)
    program = onnxgrad.from_onnx(model, parameters=[])
    inputs = test_contrib.differentiable(program, feeds)
    directions = {f"t_{v.name}": 0.1 * real(*feeds[v.name].shape).astype(np.float32) for v in inputs}
    with onnxgrad.static.program_guard(program):
        tangents = [onnxgrad.static.data(n, list(d.shape), "float32") for n, d in directions.items()]
        found = onnxgrad.jvp(program.outputs[0], inputs, tangents)
    found = found[0] if isinstance(found, (list, tuple)) else found
    (value,) = onnxgrad.Executor().run(program, {**feeds, **directions}, [found])
    kernel, ends = test_contrib.session_of(model), []
    for h in (1e-2, -1e-2):
        ends.append(kernel.run(None, {n: v + np.float32(h) * directions[f"t_{n}"] for n, v in feeds.items()})[0])
    np.testing.assert_allclose(value, (ends[0] - ends[1]) / 2e-2, atol=1e-4 * np.abs(value).max() + 1e-4)
    assert np.abs(value).max() > 0.1


BODIES = {
    "loop": """f (float[3, 4] x) => (float[3, 4] y) <int64 n = {3}, bool go = {1}>
        { y = Loop (n, go, x) <body = b (int64 i, bool c, float[3, 4] s) => (bool d, float[3, 4] t)
            { d = Identity (c) u = com.microsoft.QuickGelu <alpha = 1.3> (s) t = Add (u, x) }> }""",
    "branch": """f (float[3, 4] x) => (float[3, 4] y)
        { total = ReduceSum <keepdims = 0> (x) zero = Constant <value_float = 0.0> () c = Less (total, zero)
          y = If (c) <then_branch = t () => (float[3, 4] a) { a = Identity (x) },
                      else_branch = e () => (float[3, 4] b) { b = com.microsoft.QuickGelu <alpha = 1.3> (x) }> }""",
    "function": """f (float[3, 4] x) => (float[3, 4] y) { y = my.twice (x) }
        <domain: "my", opset_import: ["": 17, "com.microsoft": 1]>
        twice (v) => (w) { u = com.microsoft.QuickGelu <alpha = 1.3> (v) w = com.microsoft.QuickGelu <alpha = 1.3> (u) }""",
}


@pytest.mark.parametrize("case", BODIES)
def test_operators_inside_bodies_and_functions_have_gradients(case):
    header = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1, "my": 1]>'
    model = onnx.parser.parse_model(header + BODIES[case])
    feeds = {"x": np.abs(real(3, 4)).astype(np.float32)}
    program = onnxgrad.from_onnx(model, parameters=[])
    x = program.inputs[0]
    x.stop_gradient = False
    weights = real(3, 4).astype(np.float32)
    with onnxgrad.static.program_guard(program):
        c = onnxgrad.static.data("seed", [3, 4], "float32")
        (g,) = onnxgrad.gradients(program.outputs, [x], [c])
    (found,) = onnxgrad.Executor().run(program, {**feeds, "seed": weights}, [g])
    total = test_contrib.weighted_sums(test_contrib.session_of(model), ["y"], [weights])
    direction = real(3, 4).astype(np.float32)
    slope, error = test_contrib.slope_along(total, feeds, "x", direction / np.linalg.norm(direction))
    assert float((found * direction).sum() / np.linalg.norm(direction)) == pytest.approx(slope, rel=2e-3, abs=2 * error)
    assert abs(slope) > 1e-2
