"""Operators of onnxruntime that its CPU provider has no kernel for run there in other forms, and files keep them."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxgrad as og

RNG = np.random.default_rng(3)
BATCH, LENGTH, HEADS, KV, SIZE = 2, 5, 4, 2, 16
WIDTH = (HEADS + 2 * KV) * SIZE
MS = "com.microsoft"
ANGLES = RNG.uniform(0, 6, (8, SIZE // 2))
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
CASES = {
    "apart": {},
    "packed": {"packed": True},
    "rotary": {"rotary": True},
    "packed, with a cache": {"packed": True, "rotary": True, "past": 3},
    "its own epsilons": {"q_norm_epsilon": 0.3, "k_norm_epsilon": 0.2},
    "one epsilon": {"qk_norm_epsilon": 0.25},
}


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32) * 0.5


WEIGHTS = {"q_norm": 1 + numbers(SIZE), "k_norm": 1 + numbers(SIZE)}


def attention(packed=False, rotary=False, past=None, normalises=True, dtype="float32", **epsilons):
    """A model of one GroupQueryAttention over x, and its feed; queries and keys are normalised inside, or come normalised"""
    constants = dict(WEIGHTS if normalises else {})
    constants |= {"cos": np.cos(ANGLES), "sin": np.sin(ANGLES)} if rotary else {}
    seen = LENGTH + (past or 0)
    integers = {"seen": np.full(BATCH if past is None else 1, seen - 1, np.int32), "total": np.array(seen, np.int32)}
    batch = BATCH if past is None else 1
    parts = [HEADS * SIZE, KV * SIZE, KV * SIZE]
    feed = {"x": numbers(batch, LENGTH, WIDTH)} if packed else {f"x{i}": numbers(batch, LENGTH, n) for i, n in enumerate(parts)}
    cache = {} if past is None else {f"past{i}": numbers(batch, KV, past, SIZE) for i in range(2)}
    names = [*feed, *[""] * (2 if packed else 0), *(cache or ["", ""]), *integers, *(["cos", "sin"] if rotary else ["", ""])]
    names += [*[""] * 5, "q_norm", "k_norm"] if normalises else []
    feed |= cache
    held = [numpy_helper.from_array(v, n) for n, v in integers.items()]
    as_type = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    for name, value in constants.items():
        raw = np.asarray(value).astype(as_type)
        held.append(helper.make_tensor(name, TYPES[dtype], raw.shape, raw.tobytes(), raw=True))
    inputs = [helper.make_tensor_value_info(n, TYPES[dtype], v.shape) for n, v in feed.items()]
    outputs = [helper.make_tensor_value_info("y", TYPES[dtype], [batch, LENGTH, HEADS * SIZE])]
    # Without places for the cache after it, the kernel's results depend on what its memory held.
    present = [] if past is None else ["present0", "present1"]
    outputs += [helper.make_tensor_value_info(n, TYPES[dtype], [batch, KV, seen, SIZE]) for n in present]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["y", *present],
        "attention",
        domain=MS,
        num_heads=HEADS,
        kv_num_heads=KV,
        do_rotary=int(rotary),
        **epsilons,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    graph = helper.make_graph([node], "g", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=imports, ir_version=10), {n: v.astype(as_type) for n, v in feed.items()}


def normalised(x, weight, epsilon):
    apart = x.astype(np.float64).reshape(*x.shape[:2], -1, SIZE)
    return (apart / np.sqrt((apart**2).mean(-1, keepdims=True) + epsilon) * weight).reshape(x.shape)


def expected(feed, case):
    """What the kernel gives for queries and keys that were normalised by numpy in float64"""
    plain, _ = attention(normalises=False, **{k: v for k, v in case.items() if k in ("rotary", "past")})
    wide = {n: v.astype(np.float32) for n, v in feed.items()}
    if "x" in wide:
        cuts = [HEADS * SIZE, (HEADS + KV) * SIZE]
        wide |= {f"x{i}": part for i, part in enumerate(np.split(wide.pop("x"), cuts, axis=2))}
    both = case.get("qk_norm_epsilon", 1e-6)
    wide["x0"] = normalised(wide["x0"], WEIGHTS["q_norm"], case.get("q_norm_epsilon", both)).astype(np.float32)
    wide["x1"] = normalised(wide["x1"], WEIGHTS["k_norm"], case.get("k_norm_epsilon", both)).astype(np.float32)
    session = onnxruntime.InferenceSession(plain.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], wide)[0]


@pytest.mark.parametrize("case", CASES)
def test_attention_that_normalises_queries_and_keys(case):
    model, feed = attention(**CASES[case])
    with pytest.raises(Exception, match="q_norm_weight / k_norm_weight inputs are not supported"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
    program = og.from_onnx(model)
    y, *present = og.Executor().run(program, feed, program.outputs)
    np.testing.assert_allclose(y, expected(feed, CASES[case]), rtol=1e-5, atol=1e-6)
    written = og.from_onnx(model, expand=MS)
    for out, kept in zip(og.Executor().run(written, feed, written.outputs), [y, *present], strict=True):
        np.testing.assert_allclose(out, kept, rtol=1e-5, atol=1e-6)
    assert og.to_onnx(program).graph.node[0] == model.graph.node[0]


@pytest.mark.parametrize("case", CASES)
def test_its_gradients_are_those_of_the_written_attention(case):
    """Slopes along a direction, by differences in float64 on onnx's reference evaluator over what it is written out in"""
    model, feed = attention(**CASES[case])
    program = og.from_onnx(model, parameters=["q_norm", "k_norm"])
    names = [n for n in feed if n.startswith("x")]
    for v in program.inputs:
        v.stop_gradient = v.name not in names
    y = program.outputs[0]
    weight = numbers(*y.shape)
    with og.static.program_guard(program):
        loss = og.sum(y * og.to_tensor(weight))
    wanted = [*[program.find(n) for n in names], *program.parameters]
    grads = og.Executor().run(program, feed, og.gradients([loss], wanted))
    plain = og.to_onnx(og.from_onnx(model, expand=MS))
    total = in_float64(plain, weight)
    values = {n: feed[n].astype(np.float64) for n in names} | {n: WEIGHTS[n].astype(np.float64) for n in WEIGHTS}
    others = {n: v.astype(np.float64) for n, v in feed.items() if n not in names}
    for v, grad in zip(wanted, grads, strict=True):
        direction = RNG.normal(size=grad.shape)
        slope = differences(lambda at, n=v.name, d=direction: total({**others, **values, n: values[n] + at * d}))
        np.testing.assert_allclose((grad * direction).sum(), slope, rtol=1e-4, atol=1e-5)


def differences(function, step=1e-3):
    """Central differences in two steps, extrapolated"""
    near, far = ((function(s) - function(-s)) / (2 * s) for s in (step, 2 * step))
    return (4 * near - far) / 3


def in_float64(model, weight):
    """The weighted sum of a model's output in float64, as a function of inputs and constants"""
    from onnx.reference import ReferenceEvaluator

    model = onnx.ModelProto.FromString(model.SerializeToString())
    for v in [*model.graph.input, *model.graph.output]:
        if v.type.tensor_type.elem_type == TensorProto.FLOAT:
            v.type.tensor_type.elem_type = TensorProto.DOUBLE
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    del model.graph.initializer[:]
    for node in model.graph.node:
        for a in node.attribute:
            if node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.DOUBLE
            if a.name == "value" and a.t.data_type == TensorProto.FLOAT:
                a.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(a.t).astype(np.float64), a.t.name))
    held = {n: v.astype(np.float64) if v.dtype == np.float32 else v for n, v in held.items()}
    known = {v.name for v in model.graph.input}
    for name, value in held.items():
        if name not in known:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            model.graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
    evaluator = ReferenceEvaluator(model)

    def total(values):
        (y,) = evaluator.run([model.graph.output[0].name], {**held, **values})
        return float((y * weight).sum())

    return total


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits(dtype):
    """A file for GPUs in bfloat16 has no kernel of any operator here"""
    model, feed = attention(rotary=True, dtype=dtype)
    program = og.from_onnx(model)
    (y,) = og.Executor().run(program, feed, program.outputs)
    assert str(y.dtype) == dtype
    np.testing.assert_allclose(
        y.astype(np.float32), expected(feed, CASES["rotary"]), rtol=0, atol=0.02 if dtype == "bfloat16" else 2e-3
    )


def test_a_gate_that_is_a_projection():
    """onnxruntime has it on CUDA in bfloat16 alone"""
    shapes = {"x": [2, 3, 8], "y": [2, 3, 8], "g": [2, 3, 6], "w": [6, 1]}
    node = helper.make_node("GatedAdd", list(shapes), ["z"], domain=MS)
    infos = [helper.make_tensor_value_info(n, TensorProto.BFLOAT16, s) for n, s in shapes.items()]
    z = helper.make_tensor_value_info("z", TensorProto.BFLOAT16, [2, 3, 8])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    model = helper.make_model(helper.make_graph([node], "g", infos, [z]), opset_imports=imports, ir_version=10)
    feed = {n: numbers(*s).astype(ml_dtypes.bfloat16) for n, s in shapes.items()}
    program = og.from_onnx(model)
    (found,) = og.Executor().run(program, feed, program.outputs)
    x, y, g, w = (feed[n].astype(np.float64) for n in "xygw")
    np.testing.assert_allclose(found.astype(np.float64), x + y / (1 + np.exp(-(g @ w))), atol=0.02)


LEVELS = RNG.integers(0, 256, (48, 2, 16), dtype=np.uint8)
SCALES = RNG.uniform(0.01, 0.1, 96).astype(np.float16)
ZEROS = RNG.integers(0, 256, (48, 1), dtype=np.uint8)


def product(dtype, scales="stored", zeros="stored"):
    """x between two identities and a MatMulNBits of level 4, what is fed, and the product of the dequantised weight in float64"""
    as_type = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[dtype]
    feed = {"x": numbers(5, 64).astype(as_type)}
    held = [numpy_helper.from_array(LEVELS, "levels")]
    for name, size in (("before", 64), ("after", 48)):
        raw = np.eye(size).astype(as_type)
        held.append(helper.make_tensor(name, TYPES[dtype], raw.shape, raw.tobytes(), raw=True))
    nodes = [helper.make_node("MatMul", ["x", "before"], ["a"])]
    if scales == "cast":
        held.append(numpy_helper.from_array(SCALES, "narrow"))
        nodes.append(helper.make_node("Cast", ["narrow"], ["scales"], to=TYPES[dtype]))
    elif scales == "fed":
        feed["scales"] = SCALES.astype(as_type)
    else:
        raw = SCALES.astype(as_type)
        held.append(helper.make_tensor("scales", TYPES[dtype], raw.shape, raw.tobytes(), raw=True))
    if zeros == "fed":
        feed["zeros"] = ZEROS
    else:
        held.append(numpy_helper.from_array(ZEROS, "zeros"))
    attrs = {"K": 64, "N": 48, "bits": 4, "block_size": 32, "accuracy_level": 4}
    nodes += [
        helper.make_node("MatMulNBits", ["a", "levels", "scales", "zeros"], ["b"], domain=MS, **attrs),
        helper.make_node("MatMul", ["b", "after"], ["y"]),
    ]
    infos = [
        helper.make_tensor_value_info(n, TYPES[dtype] if n != "zeros" else TensorProto.UINT8, v.shape) for n, v in feed.items()
    ]
    y = helper.make_tensor_value_info("y", TYPES[dtype], [5, 48])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", infos, [y], held), opset_imports=imports, ir_version=10)
    level, zero = (np.stack([v & 15, v >> 4], -1).reshape(48, -1).astype(float) for v in (LEVELS, ZEROS))
    at = np.arange(64) // 32
    exact = SCALES.astype(as_type).astype(np.float64).reshape(48, 2)
    return model, feed, feed["x"].astype(np.float64) @ ((level - zero[:, at]) * exact[:, at]).T


@pytest.mark.parametrize(
    ("dtype", "scales", "zeros"),
    [
        ("float32", "fed", "stored"), ("float32", "cast", "stored"), ("float32", "stored", "fed"), ("float16", "stored", "stored"),
        ("float16", "fed", "stored"), ("bfloat16", "stored", "stored"),
    ],
)  # fmt: skip
def test_a_coarse_product_whose_scales_are_not_stored_is_no_zero(dtype, scales, zeros):
    """onnxruntime's CPU provider gives zeros for accuracy_level 4 there, which training took for the file's values"""
    model, feed, wanted = product(dtype, scales, zeros)
    program = og.from_onnx(model)
    (y,) = og.Executor().run(program, feed, program.outputs)
    tolerance = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), wanted, atol=tolerance * abs(wanted).max())
    kept = next(n for n in og.to_onnx(program).graph.node if n.op_type == "MatMulNBits")
    assert {a.name: a.i for a in kept.attribute}["accuracy_level"] == 4


def test_a_coarse_product_that_onnxruntime_computes_keeps_its_level():
    """Where scales are stored in float32 it rounds to 8 bits, as the file says"""
    model, feed, wanted = product("float32")
    program = og.from_onnx(model)
    (y,) = og.Executor().run(program, feed, program.outputs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(y, session.run(None, feed)[0])
    assert 1e-4 < abs(y - wanted).max() / abs(wanted).max() < 0.02
