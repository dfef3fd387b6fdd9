"""Programs that every pass is counted over: samples of rules, recorded real models, the nets of the benchmark, and small ones of ours.

``python -m tests.core.compile.corpus`` counts where each pass rewrites, and writes tests/data/pass_hits.json: by provider and pass
the number of places in all, and the smallest graphs that have some. Of each it says by how much the results then differ from the
plain graph's, relative to the largest number (``difference``), and from what the plain graph computes in float64, in eps times the
size of each element (``ratio``; ``rounding.py`` says what that is), with the number of elements that are not compared as they
follow from a decision within rounding (``undecided``). Where several passes rewrite a graph, all of this is of their forms
together. ``test_corpus.py`` compares these. Run it where a pass is added, or where a test says that a pass rewrites elsewhere. Five
minutes.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnxruntime

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.compile.door import GENERAL_PASSES
from onnxgrad.core.graph.contract import Pass
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.ir.opset import NEWEST
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.registry import PROVIDERS
from onnxgrad.errors import OnnxGradError
from onnxgrad.internal import state
from onnxgrad.testing import Reference, _Case, evaluate, opset_with
from tests.core.compile.rounding import UNDECIDED, Exact, evaluated
from tests.core.rules.samples import all_samples
from tests.real_models import REFUSED_BY_ONNXRUNTIME, WITH_REFERENCE, RealModel

ROOT = Path(__file__).parents[3]
FILE = ROOT / "tests" / "data" / "pass_hits.json"
BATCHES = ("known", "unknown")
EVERY = "every provider"
_KEPT = 3
"""Cases that are written down for a pass."""
_RATE = 1e4
"""Of the one step that is taken: the new weights are made of their gradients, whose rounding the old ones would hide."""


class Made(NamedTuple):
    """A program with its gradients, and what may be fed to it."""

    program: Program
    outputs: list[Variable]
    feed: dict[str, np.ndarray]
    is_step: bool = False


# Cases -----------------------------------------------------------------------------------------------------------------


def cases() -> dict[str, Callable[[], Made]]:
    """By name: a function that makes the program."""
    found: dict[str, Callable[[], Made]] = {}
    for sample in all_samples():
        if sample.runs and sample.second:
            found[f"sample {sample}"] = lambda sample=sample: _of_sample(sample)
    for folder in WITH_REFERENCE:
        if folder.name not in REFUSED_BY_ONNXRUNTIME:
            found[f"model {folder.name}"] = lambda folder=folder: _of_model(folder)
    for name in ("W1a", "W3", "W4", "W5", "W6", "W7"):
        found[f"net {name}"] = lambda name=name: _of_net(name)
    for sample in all_samples():
        if sample.number == 0 and sample.runs:
            found[f"float64 {sample}"] = lambda sample=sample: _of_sample(sample, "float64")
            found[f"bfloat16 {sample}"] = lambda sample=sample: _of_sample(sample, "bfloat16")
    found["quantised cnn"] = _quantised
    found["quantised pool"] = _quantised_pool
    found["quantised pool in half"] = lambda: _quantised_pool(is_half=True)
    found["split into nine"] = _split
    found["forty parts"] = _forty_parts
    found["products of products"] = _products
    found["few rows"] = _few_rows
    # Not Adam, which takes the sign of a gradient of nearly 0 for a whole step.
    found["few rows, momentum"] = lambda: _few_rows(lambda rate: paddle.optimizer.Momentum(rate, 0.9, use_nesterov=True))
    found["many words"] = _many_words
    found["many words, some ignored"] = lambda: _many_words(ignore_index=2, reduction="sum")
    found["many words with positions behind"] = _many_words_with_positions
    found["few images"] = _few_images
    found["few pixels"] = _few_pixels
    found["many queries"] = _many_queries
    found["a large table"] = _large_table
    found["few positions"] = _few_positions
    found["one column"] = _one_column
    found["a transposed weight"] = _transposed_weight
    found["an odd number of terms"] = _odd_terms
    found["a vocabulary in parts"] = _vocabulary_in_parts
    found["a wide loop"] = _wide_loop
    found["one image"] = _one_image
    found["newer than the runtime"] = _newer_than_the_runtime
    found["unknown to the runtime"] = _unknown_to_the_runtime
    return found


def _of_sample(sample: Any, dtype: str = "float32") -> Made:
    case = _Case(sample, dtype, opset=opset_with(sample, dtype) or 0)
    case.program.is_oracle = False
    values = Reference().values(*_forward(sample))
    seeds = case.cotangents(case.outputs, values)
    grads = [g for g in gradients(case.outputs, case.differentiated, seeds) if g is not None]
    return Made(case.program, [*case.outputs, *grads], case.feeds)


def _forward(sample: Any) -> Any:
    wide = _Case(sample, "float64")
    return paddle.to_onnx(wide.program, wide.outputs), wide.feeds


def _of_model(folder: Path) -> Made:
    model = RealModel(folder)
    return Made(*model.trained(), model.feed)


def _of_net(name: str) -> Made:
    """A step of the benchmark, of a few rows."""
    if str(ROOT / "scripts") not in sys.path:
        sys.path.insert(0, str(ROOT / "scripts"))
    from benchmark_suite.in_onnxgrad import Layers
    from benchmark_suite.workloads import WORKLOADS

    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        net = WORKLOADS[name]()
        layers = Layers(net)
        loss = net.build(layers)
        paddle.optimizer.SGD(_RATE).minimize(loss)
    paddle.Executor().run(startup)
    program.set_state_dict(layers.initial)
    return Made(program, [loss], net.feeds[0], is_step=True)


def _quantised() -> Made:
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[2, 3, 6, 6] x) => (float[2, 6, 3, 6] y) <float s = {0.05}, int8 z = {3}>
        { q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  t = Transpose <perm = [0, 2, 1, 3]> (d)  y = Mul (t, t) }"""
    program = paddle.from_onnx(onnx.parser.parse_model(text), parameters=[])
    program.inputs[0].stop_gradient = False
    feed = {"x": np.random.default_rng(0).uniform(-5, 5, (2, 3, 6, 6)).astype(np.float32)}
    return Made(program, [*program.outputs, *gradients(program.outputs, program.inputs)], feed)


def _quantised_pool(is_half: bool = False) -> Made:
    """Pooling of integers, and all else that moves them; of scales in float16 to numbers in float32"""
    scale, dequantised = ("h", "DequantizeLinear <output_dtype = 1> (q, h, z)") if is_half else ("s", "DequantizeLinear (q, s, z)")
    text = f"""<ir_version: 11, opset_import: ["": 23]> f (float[2, 3, 6, 6] x) => (float[3, 2, 1, 18] y) <float s = {{0.05}}, int8 z = {{3}},
        int64[4] shape = {{2, 3, 1, 18}}, int64[1] axis = {{2}}, int64[1] from = {{0}}, int64[1] to = {{3}}, int64[1] last = {{3}}>
        {{ h = Cast <to = 10> (s)  q = QuantizeLinear <precision = 1> (x, {scale}, z)  d = {dequantised}
           p = MaxPool <kernel_shape = [2, 1], strides = [1, 1], pads = [0, 0, 1, 0]> (d)  c = Slice (p, from, to, last)
           r = Reshape (c, shape)  v = Squeeze (r, axis)  u = Unsqueeze (v, axis)
           w = Transpose <perm = [1, 0, 2, 3]> (u)  e = Cast <to = 1> (w)  y = Mul (e, e) }}"""
    program = paddle.from_onnx(onnx.parser.parse_model(text), parameters=[])
    program.inputs[0].stop_gradient = False
    feed = {"x": np.random.default_rng(0).uniform(-5, 5, (2, 3, 6, 6)).astype(np.float32)}
    return Made(program, [*program.outputs, *gradients(program.outputs, program.inputs)], feed)


def _products() -> Made:
    """Products with numbers before, between and behind them"""
    program = static.Program()
    with static.program_guard(program):
        x, w, v = (static.data(name, shape) for name, shape in (("x", [4, 6]), ("w", [6, 5]), ("v", [5, 3])))
        build = program.global_block().build
        h = build.Mul(build.Gemm(build.Mul(x, 0.25), w), 2.0)
        y = build.Mul(build.Gemm(build.Mul(h, 3.0), build.Mul(v, 0.5), build.ReduceSum(v, [0], keepdims=0)), 0.75)
    draw = np.random.default_rng(0)
    feed = {name: draw.normal(size=shape).astype(np.float32) for name, shape in (("x", (4, 6)), ("w", (6, 5)), ("v", (5, 3)))}
    return Made(program, [y], feed)


def _newer_than_the_runtime() -> Made:
    program = static.Program()
    program.set_opset_version(NEWEST + 1)
    with static.program_guard(program):
        x = static.data("x", [2, 3])
        y = paddle.exp(x)
    return Made(program, [y], {"x": np.ones((2, 3), np.float32)})


def _unknown_to_the_runtime() -> Made:
    text = """<ir_version: 12, opset_import: ["": 24, "ai.onnx.preview": 1]>
    f (float[N, 4, 3, 8] q, float[N, 4, 5, 8] k, float[N, 4, 5, 8] v) => (float[N, 4, 3, 8] y) {
      y = ai.onnx.preview.FlexAttention (q, k, v) }"""
    rng = np.random.default_rng(0)
    feed = {name: rng.normal(size=(2, 4, size, 8)).astype(np.float32) for name, size in (("q", 3), ("k", 5), ("v", 5))}
    program = paddle.from_onnx(onnx.parser.parse_model(text))
    return Made(program, program.outputs, feed)


def _many_words(**options: Any) -> Made:
    """A loss over 32,768 words whose product reads the weight as it is"""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        x, label = static.data("x", [None, 8]), static.data("label", [None], "int64")
        w = static.create_parameter([8, 2**15], "float32", name="w")
        build = program.global_block().build
        loss = build.SoftmaxCrossEntropyLoss(build.MatMul(x, w), label, **options)
        paddle.optimizer.SGD(_RATE).minimize(loss)
    paddle.Executor().run(startup)
    draw = np.random.default_rng(0)
    program.set_state_dict({"w": draw.normal(size=(8, 2**15)).astype(np.float32)})
    return Made(program, [loss], {"x": draw.normal(size=(6, 8)).astype(np.float32), "label": np.arange(6)}, is_step=True)


def _many_words_with_positions() -> Made:
    """A loss over 32,768 words on axis 1, of a weight that is not trained and rows that are"""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        x, label = static.data("x", [None, 3, 4]), static.data("label", [None, 3], "int64")
        h = static.nn.fc(x, 8, num_flatten_dims=2, bias_attr=False, weight_attr="h", name="h")
        build, draw = program.global_block().build, np.random.default_rng(0)
        w = build.constant(draw.normal(size=(8, 2**15)).astype(np.float32))
        scores = build.Transpose(build.Mul(build.MatMul(h, w), 0.5), perm=[0, 2, 1])
        loss = build.SoftmaxCrossEntropyLoss(scores, label)
        paddle.optimizer.SGD(_RATE).minimize(loss)
    paddle.Executor().run(startup)
    return Made(
        program, [loss], {"x": draw.normal(size=(2, 3, 4)).astype(np.float32), "label": np.arange(6).reshape(2, 3)}, is_step=True
    )


def _few_images() -> Made:
    """Two convolutions of 32 channels with batch statistics, and one with a stride"""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        image = static.data("x", [None, 32, 12, 12])
        for number, stride in enumerate((1, 1, 2)):
            image = static.nn.conv2d(image, 32, 3, stride=stride, padding=1, name=f"conv{number}")
            image = static.nn.batch_norm(image, act="relu", name=f"norm{number}")
        loss = paddle.mean(paddle.square(image))
        paddle.optimizer.SGD(_RATE).minimize(loss)
    paddle.Executor().run(startup)
    draw = np.random.default_rng(0)
    weights = {name: v for name, v in program.state_dict().items() if np.ndim(v) == 4}
    program.set_state_dict({name: draw.normal(0, 0.1, np.shape(v)).astype(np.float32) for name, v in weights.items()})
    return Made(program, [loss], {"x": draw.normal(size=(4, 32, 12, 12)).astype(np.float32)}, is_step=True)


def _many_queries() -> Made:
    """Causal attention of 512 queries, of which later keys are hidden by a constant"""
    program = static.Program()
    with static.program_guard(program):
        q, k, v = (static.data(name, [1, 1, 512, 4]) for name in "qkv")
        for operand in (q, k, v):
            operand.stop_gradient = False
        build, draw = program.global_block().build, np.random.default_rng(0)
        scores = build.Mul(build.MatMul(q, build.Transpose(k, perm=[0, 1, 3, 2])), 0.5)
        p = build.Softmax(build.Add(scores, np.triu(np.full((512, 512), -np.inf, np.float32), 1)), axis=-1)
        y = build.MatMul(p, v)
        grads = gradients([paddle.sum(paddle.square(y))], [q, k, v])
    feed = {name: draw.normal(size=(1, 1, 512, 4)).astype(np.float32) for name in "qkv"}
    return Made(program, [y, *(g for g in grads if g is not None)], feed)


def _large_table() -> Made:
    """Rows of a table of 2 MB, which the last product reads too"""
    program = static.Program()
    with static.program_guard(program):
        ids, w = static.data("ids", [5], "int64"), static.data("w", [2**17, 4])
        w.stop_gradient = False
        build, draw = program.global_block().build, np.random.default_rng(0)
        y = build.ReduceSum(build.Mul(build.Gather(w, ids), build.ReduceMean(w, [0], keepdims=1)), keepdims=0)
        grads = gradients([y], [w])
    feed = {"ids": np.array([3, 1, 3, 2**17 - 1, 0]), "w": draw.normal(size=(2**17, 4)).astype(np.float32)}
    return Made(program, [y, *(g for g in grads if g is not None)], feed)


def _few_pixels() -> Made:
    """A convolution and one in groups, of few numbers, with all that lies between convolutions"""
    program = static.Program()
    with static.program_guard(program):
        x, build, draw = static.data("x", [4, 4, 5, 6]), program.global_block().build, np.random.default_rng(0)
        filters = [static.data(f"w{i}", shape) for i, shape in enumerate(([6, 4, 3, 3], [6, 1, 2, 2]))]
        for v in (x, *filters):
            v.stop_gradient = False
        h = build.Relu(build.Conv(x, filters[0], pads=[1, 1, 1, 1], strides=[2, 1]))
        h = build.Mul(h, build.Sigmoid(build.ReduceMean(h, [2, 3], keepdims=1)))
        y = build.Conv(build.Concat(h, h, axis=1), build.Concat(filters[1], filters[1], axis=0), group=12)
        total = paddle.sum(paddle.square(y))
        grads = gradients([total], [x, *filters])
    feed = {v.name: draw.normal(size=v.static_shape).astype(np.float32) for v in (x, *filters)}
    return Made(program, [total, *(g for g in grads if g is not None)], feed)


def _few_positions() -> Made:
    """A convolution of three taps and one of one tap with 32 channels on eight positions"""
    program = static.Program()
    with static.program_guard(program):
        x, build = static.data("x", [None, 32, 8]), program.global_block().build
        x.stop_gradient = False
        draw = np.random.default_rng(0)
        filters = [static.create_parameter([32, 32, k], "float32", name=f"w{k}") for k in (3, 1)]
        y = build.Conv(build.Conv(x, filters[0], pads=[1, 1]), filters[1])
        total = paddle.sum(paddle.square(y))
        found = gradients([total], [x, *filters])
    startup = {v.name: draw.normal(0, 0.1, v.static_shape).astype(np.float32) for v in filters}
    program.set_state_dict(startup)
    return Made(program, [total, *(g for g in found if g is not None)], {"x": draw.normal(size=(8, 32, 8)).astype(np.float32)})


def _one_column() -> Made:
    """A filter whose last axes have one element, times a number"""
    program = static.Program()
    with static.program_guard(program):
        w, build = static.data("w", [128, 128, 1, 1]), program.global_block().build
        y = build.Sub(w, build.Mul(w, build.ReduceMean(w, keepdims=0)))
    return Made(program, [y], {"w": np.random.default_rng(0).normal(size=(128, 128, 1, 1)).astype(np.float32)})


def _forty_parts() -> Made:
    """More than onnxruntime's kernels for CUDA take without a list of addresses."""
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [3, 100])
        x.stop_gradient = False
        sizes = [1, 2, 3, 4] * 10
        parts = program.global_block().build.Split(x, np.array(sizes), axis=1, outputs=40)
        y = paddle.concat([part * (number + 1.0) for number, part in enumerate(parts)], axis=1)
        (g,) = gradients([y], [x], [y])
    return Made(program, [y, g], {"x": np.random.default_rng(0).normal(size=(3, 100)).astype(np.float32)})


def _transposed_weight() -> Made:
    """A linear layer whose weight a file transposes before it multiplies"""
    program = static.Program()
    with static.program_guard(program):
        x, w, build = static.data("x", [None, 6]), static.data("w", [5, 6]), program.global_block().build
        w.stop_gradient = False
        total = paddle.sum(paddle.square(build.Gemm(x, build.Transpose(w, perm=[1, 0]))))
        found = gradients([total], [w])
    draw = np.random.default_rng(0)
    feed = {"x": draw.normal(size=(7, 6)).astype(np.float32), "w": draw.normal(size=(5, 6)).astype(np.float32)}
    return Made(program, [total, *(g for g in found if g is not None)], feed)


def _odd_terms() -> Made:
    program = static.Program()
    with static.program_guard(program):
        x, w, build = static.data("x", [None, 1025]), static.data("w", [1025, 3]), program.global_block().build
        y, z = build.MatMul(x, w), build.Gemm(x, w)
    draw = np.random.default_rng(0)
    feed = {"x": draw.normal(size=(4, 1025)).astype(np.float32), "w": draw.normal(size=(1025, 3)).astype(np.float32)}
    return Made(program, [y, z], feed)


def _vocabulary_in_parts() -> Made:
    """Both gradients of a product with 40,001 words"""
    shapes = {"g": [3, 40_001], "x": [3, 2], "w": [40_001, 2]}
    program = static.Program()
    with static.program_guard(program):
        (g, x, w), build = (static.data(name, shape) for name, shape in shapes.items()), program.global_block().build
        outputs = [build.Gemm(g, x, transA=1), build.Gemm(g, w)]
    draw = np.random.default_rng(0)
    return Made(program, outputs, {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})


def _wide_loop() -> Made:
    """A layer of 1,024 states over two steps, and its gradients"""
    shapes = {"x": [2, 16, 3], "w": [1, 1024, 3], "r": [1, 1024, 1024]}
    program = static.Program()
    with static.program_guard(program):
        inputs = [static.data(name, shape) for name, shape in shapes.items()]
        for v in inputs:
            v.stop_gradient = False
        _, last = program.global_block().build.RNN(*inputs, hidden_size=1024, outputs=2)
        outputs = [last, *gradients([last], inputs)]
    draw = np.random.default_rng(0)
    return Made(program, outputs, {name: 0.03 * draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})


def _one_image() -> Made:
    """A convolution of one tap over one image, and its gradients"""
    shapes = {"x": [1, 4, 5, 6], "w": [6, 4, 1, 1]}
    program = static.Program()
    with static.program_guard(program):
        x, w = (static.data(name, shape) for name, shape in shapes.items())
        x.stop_gradient = w.stop_gradient = False
        build = program.global_block().build
        y = build.Tanh(build.Conv(x, w))
        outputs = [y, *gradients([y], [x, w])]
    draw = np.random.default_rng(0)
    return Made(program, outputs, {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})


def _split() -> Made:
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [4, 18])
        parts = program.global_block().build.Split(x, [2] * 9, axis=1, outputs=9)
        total = paddle.add_n([paddle.exp(part) for part in parts])
    return Made(program, [total], {"x": np.linspace(-1, 1, 72, dtype=np.float32).reshape(4, 18)})


def _few_rows(optimizer: Callable[[float], Any] = paddle.optimizer.SGD) -> Made:
    """A linear layer with the weight that PyTorch's exporter writes, over 16 rows"""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        x = static.data("x", [16, 512])
        w = static.create_parameter([600, 512], "float32", name="w")
        loss = paddle.mean(paddle.square(program.global_block().build.Gemm(x, w, transB=1)))
        optimizer(_RATE).minimize(loss)
    paddle.Executor().run(startup)
    draw = np.random.default_rng(0)
    program.set_state_dict({"w": draw.normal(size=(600, 512)).astype(np.float32)})
    return Made(program, [loss], {"x": draw.normal(size=(16, 512)).astype(np.float32)}, is_step=True)


# Counting --------------------------------------------------------------------------------------------------------------


def lowered(made: Made, provider: str | None, batch: str) -> Graph:
    """The graph of a case in the forms of a provider; None for the passes of every provider."""
    shapes = {name: value.shape for name, value in made.feed.items()} if batch == "known" else None
    chunk = 2**10 if made.is_step and provider is None else 0
    return compile(
        made.program, made.outputs, provider, shapes, runs=True, ordered=True, fast=True, state_as_inputs=made.is_step, chunk=chunk
    )


def passes_of(provider: str) -> list[Pass]:
    return GENERAL_PASSES if provider == EVERY else PROVIDERS[provider]


def hits_of(
    case: Callable[[], Made], providers: Sequence[str] = (EVERY, *PROVIDERS), batches: Sequence[str] = BATCHES
) -> Iterator[tuple[str, str, str, int, int]]:
    """(provider, batch, pass, places, operators) of a case, with the passes of every provider too."""
    for provider in providers:
        for batch in batches:
            with state.isolated():
                try:
                    graph = lowered(case(), None if provider == EVERY else provider, batch)
                except OnnxGradError:
                    continue  # refused for a reason: float64 on OpenVINO, an opset without gradients
            size = len(graph.operators)
            yield from ((provider, batch, each.name, each.places, size) for each in graph.rewrites)


def count() -> dict[str, dict[str, Any]]:
    """By provider and pass: places in all, the largest ratio, and the smallest cases with their places and differences."""
    sized: dict[tuple[str, str], list[tuple[bool, int, str, str, int]]] = {}
    made = cases()
    for name, case in made.items():
        for provider, batch, each, places, size in hits_of(case):
            # The nets have few operators for their numbers.
            sized.setdefault((provider, each), []).append((name.startswith("net "), size, name, batch, places))
    table: dict[str, dict[str, Any]] = {}
    for provider in (EVERY, *PROVIDERS):
        table[provider] = {}
        for each in passes_of(provider):
            found = sorted(sized.get((provider, each.name), []))
            smallest = {f"{name}, {batch} batch": _row(made[name], provider, batch) for *_, name, batch, _ in found[:_KEPT]}
            table[provider][each.name] = {
                "rounding": each.rounding,
                "places": sum(places for *_, places in found),
                "ratio": max((case["ratio"] for case in smallest.values()), default=0.0),
                "cases": {title: {"places": case["all"][each.name], **case} for title, case in smallest.items()},
            }
            for case in table[provider][each.name]["cases"].values():
                del case["all"]
    return table


@cache
def _row(case: Callable[[], Made], provider: str, batch: str) -> dict[str, Any]:
    found = compared(case, provider, batch)
    return {"difference": found.difference, "ratio": round(found.ratio, 3), "undecided": found.undecided, "all": found.places}


# Comparing -------------------------------------------------------------------------------------------------------------


class Compared(NamedTuple):
    """How the results in the forms of a provider compare with those of the plain graph.

    Attributes:
        places: by pass, of those that rewrote something.
        most: the largest bound of these passes, in eps times the size of an element.
        ratio: the largest distance from the plain graph in float64, in the same units.
        undecided: elements that are not compared: further off than ``most``, and behind a decision that is within rounding.
        elements: how many there are.
        difference: from the plain graph as onnxruntime computes it, relative to the largest number of each result.
        same: whether they are the bits that it computes, where onnxruntime fuses nothing: it folds constants that a pass finds into
            products.
    """

    places: dict[str, int]
    most: float
    ratio: float
    undecided: int
    elements: int
    difference: float
    same: bool


def _drawn(case: Callable[[], Made]) -> Made:
    """A case with the same initial weights each time it is made"""
    state.seed(1)
    return case()


def compared(case: Callable[[], Made], provider: str, batch: str) -> Compared:
    """Compare a case in the forms of a provider with its plain graph, by onnxruntime and in float64."""
    with state.isolated():
        made = _drawn(case)
        graph = lowered(made, None if provider == EVERY else provider, batch)
        passes = {each.name: each for each in [*passes_of(EVERY), *passes_of(provider)]}
        places = {each.name: each.places for each in graph.rewrites}
        names, plain = _plain_results(case)
        found = _like(plain, _run(graph, made.feed, names))
        _, as_written = _plain_results(case, fuses=False)
        same = map(_same_bits, as_written, _like(as_written, _run(graph, made.feed, names, fuses=False)))
    most = max((passes[name].most for name in places), default=0.0)
    exact = _in_float64(case, False)
    ratios = [_ratios(exact.outputs[name], y, exact.eps) for name, y in zip(names, found, strict=True)]
    undecided = 0
    if any((ratio > most).any() for ratio in ratios) and most:
        marked = _in_float64(case, True)
        for name, ratio in zip(names, ratios, strict=True):
            lost = (ratio > most) & (marked.outputs[name].size >= UNDECIDED)
            undecided += int(lost.sum())
            ratio[lost] = 0.0
    undecided += sum(int((exact.outputs[name].size >= UNDECIDED).sum()) for name in names)
    return Compared(
        places,
        most,
        max((float(ratio.max(initial=0.0)) for ratio in ratios), default=0.0),
        undecided,
        sum(ratio.size for ratio in ratios),
        max((_difference(x, y) for x, y in zip(plain, found, strict=True)), default=0.0),
        all(same),
    )


def _like(plain: list[np.ndarray], found: list[np.ndarray]) -> list[np.ndarray]:
    """State may be held as rows"""
    return [y.reshape(x.shape) if x.size == y.size else y for x, y in zip(plain, found, strict=True)]


def _ratios(exact: Any, found: np.ndarray, eps: float) -> np.ndarray:
    """Distances from exact results in eps times the size of each; infinite where an infinity or no number is in one alone"""
    value, size = exact
    if found.shape != value.shape:
        return np.full(value.shape, np.inf)
    a, b = value.astype(np.float64), found.astype(np.float64)
    # Below the smallest normal number an element has no digits to round to.
    floor = 0.0 if found.dtype.kind in "iub" else float(ml_dtypes.finfo(found.dtype).tiny)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= floor)
        apart = np.abs(a - b) / (eps * size)
    return np.where(same, 0.0, np.nan_to_num(apart, nan=np.inf, posinf=np.inf))


@cache
def _plain_results(case: Callable[[], Made], fuses: bool = True) -> tuple[list[str], list[np.ndarray]]:
    """The results of the plain graph by onnxruntime, and their names; of a step the loss and the new state"""
    with state.isolated():
        made = _drawn(case)
        graph = compile(made.program, made.outputs, None, state_as_inputs=made.is_step)
        names = [name for name, _ in graph.outputs]
        return names, _run(graph, made.feed, names, fuses)


@cache
def _in_float64(case: Callable[[], Made], marks: bool) -> Exact:
    with state.isolated():
        made = _drawn(case)
        graph = compile(made.program, made.outputs, None, state_as_inputs=made.is_step)
        return evaluated(write_model(graph), _fed(graph, made.feed), marks)


def _same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    """Of what is no number, only that it is none in both"""
    missing = x != x
    if x.dtype != y.dtype or x.shape != y.shape or not np.array_equal(missing, y != y):
        return False
    return np.where(missing, x.dtype.type(0), x).tobytes() == np.where(missing, x.dtype.type(0), y).tobytes()


def _difference(plain: np.ndarray, found: np.ndarray) -> float:
    """By how much results differ, relative to the largest number"""
    if plain.shape != found.shape or plain.dtype != found.dtype:
        return float("inf")
    a, b = plain.astype(np.float64), found.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite & ~np.isnan(a)], b[~finite & ~np.isnan(b)]):
        return float("inf")
    scale = max(float(np.abs(a[finite]).max(initial=0.0)), 1e-3)
    return float(np.abs(a - b)[finite].max(initial=0.0)) / scale


def _fed(graph: Graph, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What is fed, and the state in the shape in which the graph takes it"""
    fed = {}
    for v in graph.inputs:
        fed[v.name] = feed[v.name] if v.name in feed else np.asarray(graph.scope.get(v.name)).reshape(v.static_shape or ())
    return fed


def _run(graph: Graph, feed: dict[str, np.ndarray], names: list[str], fuses: bool = True) -> list[np.ndarray]:
    """The outputs of a graph by onnxruntime on the CPU, or by onnx where that has no kernel for an element type."""
    fed, model = _fed(graph, feed), write_model(graph)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not fuses:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        read = {entry.name for entry in session.get_inputs()}
        found = session.run(names, {name: array for name, array in fed.items() if name in read})
    except Exception:
        by_name = dict(zip([v.name for v in model.graph.output], evaluate(model, fed), strict=True))
        found = [by_name[name] for name in names]
    return [np.asarray(value) for value in found]


if __name__ == "__main__":
    table = count()
    FILE.write_text(json.dumps(table, indent=1) + "\n")
    for provider, rows in table.items():
        for each, row in rows.items():
            shown = ", ".join(f"{name}: {case['difference']:.1e}" for name, case in row["cases"].items())
            print(f"{provider:14} {each:28} {row['rounding']:6} {row['places']:6} {row['ratio']:8.3f}  {shown}")
