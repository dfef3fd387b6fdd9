"""The models that are damaged: hand-made ones with bodies, functions, sparse and external data, real ones, onnx's own cases, and
operators of onnxruntime."""

import json
import pkgutil
import warnings
import zlib
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

import onnxgrad as og
from onnxgrad.internal import state
from onnxgrad.training import add_lora, fold_batch_norm, insert_batch_norm, insert_dropout
from tests.core.rules import test_contrib, test_contrib_forms, test_contrib_quantized
from tests.real_models import ALL

_LARGEST = 16_000

_TEXTS = {
    "branch": """<ir_version: 8, opset_import: ["": 17]> branch (float[N, 3] x, bool c) => (float[N, 2] y)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
        y = If (c) <then_branch = t () => (float[N, 2] a) { a = MatMul(x, w) },
                    else_branch = e () => (float[N, 2] b) { m = MatMul(x, w)  b = Tanh(m) }> }""",
    "counted": """<ir_version: 8, opset_import: ["": 17]> counted (float[2] x) => (float[2] y, float[K, 2] all) {
        n = Constant <value_int = 3> ()  go = Constant <value = bool {1}> ()
        y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] r)
            { d = Identity(c)  t = Sin(s)  r = Mul(t, x) }> }""",
    "scan": """<ir_version: 8, opset_import: ["": 17]> scan (float[4, 2] x) => (float[2] last, float[4, 2] all)
        <float[2] start = {0.5, 1}> {
        last, all = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] e) => (float[2] t, float[2] r)
            { t = Add(s, e)  r = Exp(s) }> (start, x) }""",
    "functions": """<ir_version: 8, opset_import: ["": 17, "own": 1]> functions (float[N, 4] x) => (float[N, 4] y) {
        a = own.outer <scale: float = 2.0> (x)  y = own.inner <slope = 0.5> (a) }
        <domain: "own", opset_import: ["": 17, "own": 1]> outer <scale> (x) => (y) {
            k = Constant <value_float: float = @scale> ()  h = own.inner <slope = 0.1> (x)  y = Mul(h, k) }
        <domain: "own", opset_import: ["": 17]> inner <slope> (x) => (y) { y = LeakyRelu <alpha: float = @slope> (x) }""",
    "shapes": """<ir_version: 8, opset_import: ["": 17]> shapes (float[N, 3, 8] x) => (float[M, K] y, float[P, Q] z)
        <int64[1] one = {1}, int64[2] target = {0, -1}, int64[2] reps = {2, 3}, int64[4] pads = {0, 1, 0, 1}, int64[1] starts = {1},
         int64[1] ends = {9}> {
        s = Shape(x)  n = Gather <axis = 0> (s, one)  r = Reshape(x, target)  t = Tile(r, reps)
        p = Pad(t, pads)  y = Slice(p, starts, ends, one, one)
        c = ConstantOfShape <value = float[1] {2}> (reps)  e = Expand(one, n)  q = Cast <to = 1> (e)  z = Add(c, q) }""",
    "picks": """<ir_version: 8, opset_import: ["": 17]> picks (float[4, 5] x, int64[3] i) => (float[2, 5] a, float[3, 5] b, float[4, 2] c)
        <int64[1] k = {2}, int64[2] parts = {2, 2}> {
        a, rest = Split <axis = 0> (x, parts)  b = Gather(x, i)  c, at = TopK <axis = 1> (x, k)
        z = Neg(x)  m = Greater(x, z)  w = Where(m, x, z) }""",
    "image": """<ir_version: 8, opset_import: ["": 17]> image (float[N, 2, 8, 8] x) => (float[N, 5] y)
        <float[3, 2, 3, 3] w, float[3] b, float[3] s, float[3] o, float[3] m, float[3] v, float[12, 5] f, float[4] scales = {1, 1, 0.5, 0.5}> {
        c = Conv <pads = [1, 1, 1, 1], strides = [2, 2], kernel_shape = [3, 3]> (x, w, b)
        n = BatchNormalization <epsilon = 0.001> (c, s, o, m, v)  r = Relu(n)  d = Dropout(r)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (d)
        u = Resize <mode = "linear"> (r, , scales)  a = AveragePool <kernel_shape = [1, 1]> (u)
        j = Add(p, a)  g = Flatten(j)  y = Gemm <transB = 0, alpha = 0.5> (g, f) }""",
    "recurrent": """<ir_version: 8, opset_import: ["": 17]> recurrent (float[T, 2, 3] x) => (float[T, 1, 2, 4] y)
        <float[1, 16, 3] w, float[1, 16, 4] r, float[1, 32] b> {
        y, h, c = LSTM <hidden_size = 4, direction = "forward", activations = ["Sigmoid", "Tanh", "Tanh"]> (x, w, r, b) }""",
    "norms": """<ir_version: 8, opset_import: ["": 18]> norms (float[2, 6, 4] x, int64[2, 6] t) => (float l, float[2, 6, 6] e)
        <float[4] s, float[4] b, int64[1] axes = {-1}> {
        n = LayerNormalization <axis = -1> (x, s, b)  m = ReduceMean <keepdims = 1> (n, axes)  d = Sub(n, m)
        e = Einsum <equation = "bij,bkj->bik"> (d, x)  p = LogSoftmax <axis = 1> (e)
        o = Transpose <perm = [0, 2, 1]> (d)  l = SoftmaxCrossEntropyLoss <reduction = "mean"> (o, t) }""",
    "quantized": """<ir_version: 8, opset_import: ["": 17]> quantized (float[N, 3] x) => (float[N, 2] y)
        <float scale = {0.1}, uint8 zero = {128}, int8[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0, 0}> {
        q = QuantizeLinear(x, scale, zero)  d = DequantizeLinear(q, scale, zero)  v = DequantizeLinear <axis = 1> (w, ws, wz)
        y = MatMul(d, v) }""",
    "sequences": """<ir_version: 8, opset_import: ["": 17]> sequences (float[4, 2] x) => (float[4, 2] y, float[2] z) {
        s = SplitToSequence <axis = 0, keepdims = 0> (x)  i = Constant <value_int = 1> ()  z = SequenceAt(s, i)
        e = SequenceEmpty <dtype = 1> ()  f = SequenceInsert(e, x)  y = ConcatFromSequence <axis = 0> (f) }""",
    "fused": """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> fused (float[N, 4] x) => (float[N, 4] y) <float[4, 4] w, float[4] b> {
        g = com.microsoft.FusedGemm <activation = "Relu"> (x, w, b)  y = com.microsoft.Gelu(g) }""",
    "old": """<ir_version: 3, opset_import: ["": 6]> old (float[2, 3] x, float[2, 3] w, float[3] b) => (float[2, 3] y)
        <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[3] b = {1, 2, 3}> {
        a = Add <broadcast = 1, axis = 1> (x, b)  m = Mul <broadcast = 0> (a, w)  d, k = Dropout <is_test = 1> (m)
        s = Softmax <axis = 1> (d)  u = Unsqueeze <axes = [0]> (s)  y = Squeeze <axes = [0]> (u) }""",
    "marked": """<ir_version: 10, opset_import: ["": 21], metadata_props: ["onnxgrad.frozen": "w"]>
        marked (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { m = MatMul(x, w)  p = Constant <value_float = 2.0> ()  y = Pow(m, p) }""",
}


def hand_made() -> dict[str, onnx.ModelProto]:
    """Models that between them have every kind of message in them."""
    found = {name: hand_made_text(name) for name in _TEXTS}
    _mark(found["marked"])
    found["sparse"] = _sparse()
    found["external"] = _external()
    found["training"] = _training()
    found["trained"] = _trained()
    found["surgery"] = _surgery()
    found["bytes"] = onnx.ModelProto.FromString(_built()[0].serialize_to_string())
    return found


def hand_made_text(name: str) -> onnx.ModelProto:
    model = parser.parse_model(_TEXTS[name])
    _fill(model)
    return model


def _fill(model: onnx.ModelProto) -> None:
    """Values for the weights that the text only declares"""
    draw = np.random.default_rng(0)
    for info in model.graph.value_info:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        value = np.abs(draw.normal(size=shape)).astype(np.float32) * 0.3
        model.graph.initializer.append(numpy_helper.from_array(value, info.name))
    del model.graph.value_info[:]


def _mark(model: onnx.ModelProto) -> None:
    for node, role in zip(model.graph.node, ("forward", "backward", "optimize"), strict=False):
        node.metadata_props.add(key="onnxgrad.role", value=role)


def _sparse() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", 3), ("y", 4)))
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.0])
    indices = helper.make_tensor("wi", TensorProto.INT64, [2], [1, 7])
    weight = helper.make_sparse_tensor(values, indices, [3, 4])
    pairs = helper.make_tensor("ci", TensorProto.INT64, [2, 2], [0, 1, 0, 3])
    constant = helper.make_sparse_tensor(helper.make_tensor("cv", TensorProto.FLOAT, [2], [1.0, 2.0]), pairs, [1, 4])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Constant", [], ["c"], sparse_value=constant),
        helper.make_node("Add", ["m", "c"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "sparse", [x], [y], sparse_initializer=[weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


EXTERNAL = "weights.bin"
EXTERNAL_BYTES = np.arange(64, dtype=np.float32).tobytes()


def _external() -> onnx.ModelProto:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> external (float[N, 4] x) => (float[N, 4] y) <float[4, 4] w, float[4] b>'
        "{ m = MatMul(x, w)  y = Add(m, b) }"
    )
    _fill(model)
    for tensor, offset in zip(model.graph.initializer, (0, 64), strict=True):
        dims = list(tensor.dims)
        tensor.Clear()
        tensor.name, tensor.data_type, tensor.data_location = "wb"[offset // 64], TensorProto.FLOAT, TensorProto.EXTERNAL
        tensor.dims.extend(dims)
        for key, value in (("location", EXTERNAL), ("offset", str(offset)), ("length", str(4 * int(np.prod(dims))))):
            tensor.external_data.add(key=key, value=value)
    return model


def _training() -> onnx.ModelProto:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> inference (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}>'
        "{ y = MatMul(x, w) }"
    )
    info = model.training_info.add()
    step = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> step (float[N, 2] t) => (float[2, 2] v, float l) <float r = {0.1}>'
        "{ d = Sub(y, t)  q = Mul(d, d)  l = ReduceSum <keepdims = 0> (q)  z = Transpose(x)  g = MatMul(z, d)"
        "u = Mul(g, r)  v = Sub(w, u) }"
    )
    info.algorithm.CopyFrom(step.graph)
    info.update_binding.add(key="w", value="v")
    start = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> start () => (float[2, 2] i) { i = RandomNormal <shape = [2, 2]> () }'
    )
    info.initialization.CopyFrom(start.graph)
    info.initialization_binding.add(key="w", value="i")
    return model


def _built() -> tuple[og.static.Program, og.static.Program, og.static.Variable]:
    """A small program with an optimizer, and its startup program"""
    program, startup = og.static.Program(), og.static.Program()
    with state.isolated(), og.static.program_guard(program, startup):
        x = og.static.data("x", [None, 2])
        loss = (og.static.nn.fc(x, 2, activation="tanh", name="layer") ** 2).mean()
        og.optimizer.Adam(0.1).minimize(loss)
    return program, startup, loss


def _trained() -> onnx.ModelProto:
    program, startup, loss = _built()
    og.Executor().run(startup)
    return og.to_training_info(program, [loss], outputs=[loss], startup=startup)


def _surgery() -> onnx.ModelProto:
    """LoRA on a MatMul, a Gemm and a Conv, and layers that were put in"""
    program = og.from_onnx(hand_made_text("image"))
    data = {"x": np.random.default_rng(0).normal(size=(4, 2, 8, 8)).astype(np.float32)}
    insert_dropout(program, ["r"], 0.25)
    fold = fold_batch_norm(program)
    insert_batch_norm(fold, None, data)
    add_lora(fold, rank=2)
    return og.to_onnx(fold)


def official() -> dict[str, onnx.ModelProto]:
    """The single-operator cases inside the onnx package: one of each operator and every fourth of the rest."""
    import onnx.backend.test.case.node as cases

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for module in pkgutil.iter_modules(cases.__path__):
            if not module.ispkg:
                import_module(f"{cases.__name__}.{module.name}")
    seen: set[str] = set()
    found = {}
    for case in cases._NodeTestCases:
        kinds = {node.op_type for node in case.model.graph.node}
        if kinds - seen or zlib.crc32(case.name.encode()) % 4 == 0:
            found[case.name] = case.model
        seen |= kinds
    return {name: model for name, model in found.items() if model.ByteSize() < _LARGEST}


def contrib() -> dict[str, onnx.ModelProto]:
    """Operators of onnxruntime, as the tests of their gradients have them."""
    modules = {"float": test_contrib, "form": test_contrib_forms, "quantized": test_contrib_quantized}
    return {f"{label}-{case}": module.model_of(case)[0] for label, module in modules.items() for case in module.CASES}


def write_seeds(folder: Path, *, with_official: bool) -> list[str]:
    """Write them as ``<name>.onnx``, and which group each belongs to; returns the names."""
    groups = {"hand": hand_made()}
    small = [f for f in ALL if (f / "model.onnx").stat().st_size < _LARGEST]
    groups["real"] = {f.name: onnx.load(f / "model.onnx") for f in small}
    if with_official:
        groups["official"] = official()
        groups["contrib"] = contrib()
    for models in groups.values():
        for name, model in models.items():
            (folder / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (folder / "groups.json").write_text(json.dumps({group: list(models) for group, models in groups.items()}))
    return [name for models in groups.values() for name in models]
