"""Programs that every pass is counted over: samples of rules, recorded real models, the nets of the benchmark, and small ones of ours.

``python -m tests.core.compile.corpus`` counts where each pass rewrites, and writes tests/data/pass_hits.json: by provider and pass the
number of places in all, and the smallest graphs that have some, with by how much their results then differ from the plain graph's.
``test_corpus.py`` compares these. Run it where a pass is added, or where a test says that a pass rewrites elsewhere. Two minutes.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.parser
import onnxruntime

import onnxgrad as paddle
from onnxgrad import state, static
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
from onnxgrad.testing import Reference, _Case, evaluate, opset_with
from tests.core.rules.samples import all_samples
from tests.real_models import REFUSED_BY_ONNXRUNTIME, WITH_REFERENCE, RealModel

ROOT = Path(__file__).parents[3]
FILE = ROOT / "tests" / "data" / "pass_hits.json"
BATCHES = ("known", "unknown")
EVERY = "every provider"
_KEPT = 3
"""Cases that are written down for a pass."""


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
    found["split into nine"] = _split
    found["few rows"] = _few_rows
    # Not Adam, which takes the sign of a gradient of nearly 0 for a whole step.
    found["few rows, momentum"] = lambda: _few_rows(lambda rate: paddle.optimizer.Momentum(rate, 0.9, use_nesterov=True))
    found["many words"] = _many_words
    found["newer than the runtime"] = _newer_than_the_runtime
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
        paddle.optimizer.SGD(0.1).minimize(loss)
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


def _newer_than_the_runtime() -> Made:
    program = static.Program()
    program.set_opset_version(NEWEST + 1)
    with static.program_guard(program):
        x = static.data("x", [2, 3])
        y = paddle.exp(x)
    return Made(program, [y], {"x": np.ones((2, 3), np.float32)})


def _many_words() -> Made:
    """A loss over 32,768 words whose product reads the weight as it is"""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        x, label = static.data("x", [None, 8]), static.data("label", [None], "int64")
        w = static.create_parameter([8, 2**15], "float32", name="w")
        build = program.global_block().build
        loss = build.SoftmaxCrossEntropyLoss(build.MatMul(x, w), label)
        paddle.optimizer.SGD(0.1).minimize(loss)
    paddle.Executor().run(startup)
    draw = np.random.default_rng(0)
    program.set_state_dict({"w": draw.normal(size=(8, 2**15)).astype(np.float32)})
    return Made(program, [loss], {"x": draw.normal(size=(6, 8)).astype(np.float32), "label": np.arange(6)}, is_step=True)


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
        optimizer(0.1).minimize(loss)
    paddle.Executor().run(startup)
    draw = np.random.default_rng(0)
    program.set_state_dict({"w": draw.normal(size=(600, 512)).astype(np.float32)})
    return Made(program, [loss], {"x": draw.normal(size=(16, 512)).astype(np.float32)}, is_step=True)


# Counting --------------------------------------------------------------------------------------------------------------


def lowered(made: Made, provider: str, batch: str) -> Graph:
    """The graph of a case in the forms of a provider, or after the passes of every provider."""
    form = None if provider == EVERY else provider
    shapes = {name: value.shape for name, value in made.feed.items()} if batch == "known" else None
    chunk = 2**10 if made.is_step and form is None else 0
    return compile(
        made.program, made.outputs, form, shapes, runs=True, ordered=True, fast=True, state_as_inputs=made.is_step, chunk=chunk
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
                    graph = lowered(case(), provider, batch)
                except OnnxGradError:
                    continue  # refused for a reason: float64 on OpenVINO, an opset without gradients
            size = len(graph.operators)
            yield from ((provider, batch, each.name, each.places, size) for each in graph.rewrites)


def count() -> dict[str, dict[str, Any]]:
    """By provider and pass: places in all, and the smallest cases with their places and differences."""
    sized: dict[tuple[str, str], list[tuple[int, str, str, int]]] = {}
    made = cases()
    for name, case in made.items():
        for provider, batch, each, places, size in hits_of(case):
            sized.setdefault((provider, each), []).append((size, name, batch, places))
    table: dict[str, dict[str, Any]] = {}
    for provider in (EVERY, *PROVIDERS):
        table[provider] = {}
        for each in passes_of(provider):
            found = sorted(sized.get((provider, each.name), []))
            smallest = {}
            for _, name, batch, places in found[:_KEPT]:
                with state.isolated():
                    case = made[name]()
                    differs = difference(lowered(case, provider, batch), case.feed, plain(case))
                smallest[f"{name}, {batch} batch"] = {"places": places, "difference": differs}
            table[provider][each.name] = {
                "rounding": each.rounding,
                "places": sum(places for *_, places in found),
                "cases": smallest,
            }
    return table


# Comparing -------------------------------------------------------------------------------------------------------------


def plain(made: Made) -> dict[str, np.ndarray]:
    """The results of a program without passes: of a step the loss and the new state, which one session gives and takes."""
    graph = compile(made.program, made.outputs, None, state_as_inputs=made.is_step)
    names = [name for name, _ in graph.outputs]
    return dict(zip(names, _run(graph, made.feed, names), strict=True))


def difference(graph: Graph, feed: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """By how much the results of a graph differ from the plain ones, relative to the largest number of each."""
    results = expected.values(), _run(graph, feed, list(expected))
    worst = 0.0
    for old, new in zip(*results, strict=True):
        if old.size != new.size or old.dtype != new.dtype:
            return float("inf")
        a, b = old.astype(np.float64), new.astype(np.float64).reshape(old.shape)  # state may be held as rows
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            return float("inf")
        finite = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(a[~finite & ~np.isnan(a)], b[~finite & ~np.isnan(b)]):
            return float("inf")
        scale = max(float(np.abs(a[finite]).max(initial=0.0)), 1e-3)
        worst = max(worst, float(np.abs(a - b)[finite].max(initial=0.0)) / scale)
    return worst


def _run(graph: Graph, feed: dict[str, np.ndarray], names: list[str]) -> list[np.ndarray]:
    """The outputs of a graph by onnxruntime on the CPU, or by onnx where that has no kernel for an element type."""
    values = {v.name: v for v in graph.inputs}
    fed = {}
    for name, v in values.items():
        array = feed[name] if name in feed else np.asarray(graph.scope.get(name))
        fed[name] = array if name in feed else array.reshape(v.static_shape or ())
    model = write_model(graph)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
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
            print(f"{provider:14} {each:28} {row['rounding']:6} {row['places']:6}  {shown}")
