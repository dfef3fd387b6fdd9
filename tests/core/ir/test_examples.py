"""What is said of examples holds: numbers that change one example change no other, and the order of a batch does not matter."""

import os
from collections import Counter
from itertools import product

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import onnxgrad as og
from onnxgrad import nn, static
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir import parallel_axes, traits
from onnxgrad.core.ir.examples import _DIRECT, check_separate, examples_of
from onnxgrad.errors import ArgumentError
from onnxgrad.testing import _Case, _evaluator
from tests import real_models
from tests.core.ir.separation import compare
from tests.core.rules.official_cases import cases_of, groups
from tests.core.rules.samples import all_samples
from tests.core.rules.test_contrib import CASES, model_of

F = nn.functional
SCHEMAS = {(s.domain, s.name) for s in onnx.defs.get_all_schemas() if not s.deprecated}
NO_OPERANDS = {"Constant", "RandomNormal", "RandomUniform"}
NOT_KNOWN = {
    ("ai.onnx.ml", "CastMap"): "maps are no tensors",
    ("ai.onnx.ml", "DictVectorizer"): "maps are no tensors",
    ("ai.onnx.preview", "FlexAttention"): "its bodies may do anything to scores",
    ("ai.onnx.preview.training", "Adagrad"): "changes weights",
    ("ai.onnx.preview.training", "Adam"): "changes weights",
    ("ai.onnx.preview.training", "Gradient"): "stands for other operators",
    ("ai.onnx.preview.training", "Momentum"): "changes weights",
}
"""Operators for which a program is refused where it has to keep examples apart."""


def test_every_schema_is_in_the_table_or_said_not_to_be_known():
    standard = {("", name) for name in (*_DIRECT, *traits.READS_SHAPES, *NO_OPERANDS, "OptionalHasElement")}
    held = standard | set(parallel_axes.PARALLEL)
    assert not SCHEMAS - held - set(NOT_KNOWN), "enter new operators into onnxgrad/core/ir/parallel_axes.py"
    assert not held & set(NOT_KNOWN)
    older = {"Scatter", "SimplifiedLayerNormalization", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "Upsample"}
    assert {name for domain, name in held - SCHEMAS if domain in ("", "ai.onnx.ml")} == older


# The table against numbers --------------------------------------------------------------------------------------------


def judged(cases):
    """How often each is said of (name, program, outputs, function of feeds, feeds), and every word that numbers contradict"""
    counts, wrong = Counter(), []
    for name, program, outputs, run, feeds in cases:
        try:
            for _, _, said, separate in compare(program, outputs, run, feeds):
                counts[said] += 1
                counts["missed"] += separate and said != "separate"
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    return counts, wrong


def of_samples(form):
    for sample in all_samples():
        if sample.domain:
            continue
        case = _Case(sample, "float64", form)
        run = _evaluator(to_onnx(case.program, case.all_outputs), case.operators)
        yield f"{sample}", case.program, case.all_outputs, quietly(run), case.feeds


def quietly(run):
    """A function that returns None where it fails: values that index or count may be wrong after they were changed"""

    def compute(feeds):
        try:
            return run(feeds)
        except Exception:
            return None

    return compute


FLOORS = {"": (1250, 0.63), "symbolic": (1150, 0.6), "runtime": (1150, 0.55)}
"""By form of the samples: how often examples are said to be separate, and its share of all where numbers show that they are.

What is missed are mostly axes that count no examples in any network (heads of attention, channels of a transposed convolution),
constants that happen to be equal, and samples whose ranks or axes are not known before they run.
"""


@pytest.mark.parametrize(
    "form", ["", pytest.param("symbolic", marks=pytest.mark.exhaustive), pytest.param("runtime", marks=pytest.mark.exhaustive)]
)
def test_samples_of_all_operators_do_what_the_table_says(form):
    counts, wrong = judged(of_samples(form))
    assert not wrong
    separate, share = FLOORS[form]
    assert counts["separate"] >= separate, counts
    assert counts["separate"] / (counts["separate"] + counts["missed"]) >= share, counts
    assert counts["total"] >= 100


def of_onnx():
    """The cases that come with onnx, by onnxruntime; those of training draw at random"""
    for group in groups():
        for case in cases_of(group):
            arrays = [v for v in case.inputs.values() if isinstance(v, np.ndarray) and v.dtype.kind in "fiub" and v.size <= 3000]
            if len(arrays) < len(case.inputs) or "training_dropout" in case.name:
                continue
            try:
                session = session_of(case.model)
                program = from_onnx(case.model)
            except Exception:
                continue  # no kernel, or refused: other tests say which
            yield case.name, program, program.outputs, quietly(lambda feeds, s=session: s.run(None, feeds)), case.inputs


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.exhaustive
def test_cases_of_onnx_do_what_the_table_says():
    counts, wrong = judged(of_onnx())
    assert not wrong
    assert counts["separate"] > 2000


def of_contrib():
    """With integer operands in the model, and with all but packed weights as inputs"""
    for name, fed in product(CASES, (False, True)):
        model, feeds = model_of(name)
        feeds = dict(feeds)
        for tensor in list(model.graph.initializer):
            array = numpy_helper.to_array(tensor)
            if fed and array.dtype in (np.int32, np.int64):
                model.graph.initializer.remove(tensor)
                model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, array.shape))
                feeds[tensor.name] = array
        try:
            session = session_of(model)
        except Exception:
            continue
        program = from_onnx(model)
        yield name, program, program.outputs, quietly(lambda feeds, s=session: s.run(None, feeds)), feeds


def test_operators_of_onnxruntime_do_what_the_table_says():
    counts, wrong = judged(of_contrib())
    assert not wrong
    assert counts["separate"] >= 200
    assert not counts["unknown"]


# Models ---------------------------------------------------------------------------------------------------------------

LANGUAGE = sorted((real_models.FOLDER.parent / "llm_models").glob("*.onnx"))
FILES = [folder / "model.onnx" for folder in real_models.ALL] + [path for path in LANGUAGE if not path.name.endswith(".ref.onnx")]


def test_nothing_in_real_models_is_unknown():
    said = Counter()
    for path in FILES:
        program = og.from_onnx(path)
        examples = examples_of(program)
        for v in program.outputs:
            assert examples.unknown(v) is None, f"{path}: {examples.reason(v)}"
            said["separate" if examples.mixed_by(v) is None and examples.axis(v) == 0 else "mixed"] += 1
    assert said["separate"] >= 4 * said["mixed"], said


def test_real_models_that_are_said_to_be_separate_are():
    """By onnxruntime, of those with examples along the first axis of all that is fed"""
    tried = 0
    for folder in real_models.ALL:
        model = real_models.RealModel(folder)
        sizes = {np.shape(x)[:1] for x in model.feed.values()}
        if len(sizes) != 1 or folder.name in real_models.REFUSED_BY_ONNXRUNTIME or sizes == {(1,)}:
            continue
        program = og.from_onnx(model.path)
        session = onnxruntime.InferenceSession(str(model.path), providers=["CPUExecutionProvider"])
        names = [v.name for v in session.get_outputs()]
        outputs = [v for v in program.outputs if v.name in names]
        run = quietly(lambda feeds, s=session, names=[v.name for v in outputs]: s.run(names, feeds))
        feed = {name: np.asarray(x) for name, x in model.feed.items()}
        choices = [dict.fromkeys(feed, 0)]
        tried += sum(said == "separate" for _, _, said, _ in compare(program, outputs, run, feed, choices))
    assert tried >= 20


# By hand --------------------------------------------------------------------------------------------------------------


def described(examples, v):
    mixed, total, unknown = examples.mixed_by(v), examples.total_by(v), examples.unknown(v)
    return {
        "axis": examples.axis(v),
        **({"mixed": mixed.type} if mixed is not None else {}),
        **({"total": total.type} if total is not None else {}),
        **({"unknown": unknown.type} if unknown is not None else {}),
    }


def parsed(text, inputs="float[n, 3] x", outputs="float[n, 3] y", functions=""):
    """A program from the nodes of a graph"""
    header = '<ir_version: 9, opset_import: ["": 21, "custom": 1, "com.microsoft": 1]>'
    return og.from_onnx(onnx.parser.parse_model(f"{header} m ({inputs}) => ({outputs}) {{ {text} }} {functions}"))


RESHAPES = {
    "joined with time": ("float[b, t, 3] x", "s = Constant<value_ints=[-1, 3]>() y = Reshape(x, s)", {"axis": 0}),
    "joined and parted again": (
        "float[b, t, 3] x",
        "s = Constant<value_ints=[-1, 3]>() u = Reshape(x, s) v = Tanh(u) n = Shape(x) y = Reshape(v, n)",
        {"axis": 0},
    ),
    "heads": (
        "float[b, t, 8] x",
        """s = Constant<value_ints=[0, 0, 2, 4]>() u = Reshape(x, s) v = Transpose<perm=[0, 2, 1, 3]>(u)
        r = Constant<value_ints=[-1]>() n = Shape<start=1, end=2>(x) k = Constant<value_ints=[4]>() shape = Concat<axis=0>(r, n, k)
        y = Reshape(v, shape)""",
        {"axis": 0},
    ),
    "batch times heads, computed": (
        "float[b, t, 8] x",
        """s = Constant<value_ints=[0, 0, 2, 4]>() u = Reshape(x, s) v = Transpose<perm=[0, 2, 1, 3]>(u)
        h = Constant<value_ints=[2]>() n = Shape<end=1>(x) m = Mul(n, h) r = Constant<value_ints=[-1]>()
        k = Constant<value_ints=[4]>() shape = Concat<axis=0>(m, r, k) y = Reshape(v, shape)""",
        {"axis": 0},
    ),
    "time first": (
        "float[b, t, 3] x", "u = Transpose<perm=[1, 0, 2]>(x) s = Constant<value_ints=[-1, 3]>() y = Reshape(u, s)",
        {"axis": 1, "mixed": "Reshape"},
    ),
    "two examples in a row": ("float[b, 3] x", "s = Constant<value_ints=[-1, 6]>() y = Reshape(x, s)", {"axis": 0, "mixed": "Reshape"}),
    "flattened from the second": ("float[b, t, 3] x", "y = Flatten<axis=1>(x)", {"axis": 0}),
    "flattened from the third": ("float[b, t, 3] x", "y = Flatten<axis=2>(x)", {"axis": 0}),
    "flattened whole": ("float[b, t, 3] x", "y = Flatten<axis=0>(x)", {"axis": 1}),
    "one more axis": ("float[b, 3] x", "a = Constant<value_ints=[0]>() y = Unsqueeze(x, a)", {"axis": 1}),
    "windows": (
        "float[b, 4, 4, 3] x",
        """s = Constant<value_ints=[-1, 2, 2, 2, 2, 3]>() u = Reshape(x, s) v = Transpose<perm=[0, 1, 3, 2, 4, 5]>(u)
        r = Constant<value_ints=[-1, 4, 3]>() y = Reshape(v, r)""",
        {"axis": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RESHAPES)
def test_reshape_keeps_examples_where_their_rows_stay_together(case):
    inputs, text, expected = RESHAPES[case]
    program = parsed(text, inputs, "float[] y")
    assert described(examples_of(program), program.outputs[0]) == expected


MIXED = {
    "an outer product": ("float[b, 1] x", "t = Transpose(x) y = Mul(x, t)", "Mul"),
    "similarities of all pairs": ("float[b, 3] x", "t = Transpose(x) y = MatMul(x, t)", "MatMul"),
    "a softmax over the batch": ("float[b, 3] x", "y = Softmax<axis=0>(x)", "Softmax"),
    "the mean of the batch taken off": ("float[b, 3] x", "a = Constant<value_ints=[0]>() m = ReduceMean(x, a) y = Sub(x, m)", "Sub"),
    "a row number": (
        "float[b] x", "z = Constant<value_int=0>() o = Constant<value_int=1>() n = Size(x) r = Range(z, n, o) f = Cast<to=1>(r) y = Add(x, f)",
        "Add",
    ),
    "the first row": ("float[b, 3] x", "i = Constant<value_int=0>() f = Gather(x, i) y = Sub(x, f)", "Gather"),
    "a shuffled batch": ("float[b, 3] x", "k = Constant<value_ints=[1]>() y = ReverseSequence<time_axis=0, batch_axis=1>(x, n) m = Shape<start=1>(x) n = Expand(k, m)", "ReverseSequence"),
    "one scale for all": ("float[b, 3] x", "y, s, z = DynamicQuantizeLinear(x)", "DynamicQuantizeLinear"),
    "a branch by the mean": (
        "float[b, 3] x",
        """m = ReduceMean<keepdims=0>(x) z = Constant<value_float=0.0>() c = Greater(m, z)
        y = If<then_branch = t () => (float[b, 3] u) { u = Tanh(x) }, else_branch = e () => (float[b, 3] v) { v = Identity(x) }>(c)""",
        "Greater",
    ),
    "the square of a total": ("float[b, 3] x", "m = ReduceMean<keepdims=0>(x) y = Mul(m, m)", "Mul"),
    "positions within the batch of images": (
        "float[b, 2, 4, 4] x",
        """p, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x) k = Constant<value_int=64>() m = Mod(i, k) y = Cast<to=1>(m)""",
        "MaxPool",
    ),
    "a neighbour by its position in the flat batch": (
        "float[b, t] x",
        """z = Constant<value_int=0>() o = Constant<value_int=1>() a = Constant<value_ints=[0]>() l = Shape<end=1>(x)
        n = Squeeze(l, a) r = Range(z, n, o) last = Constant<value_ints=[-1]>() rows = Unsqueeze(r, last) k = Shape<start=1>(x)
        first = Mul(rows, k) steps = Squeeze(k, a) beyond = Add(steps, o) within = Range(z, beyond, o) i = Add(first, within)
        flat = Reshape(x, last) y = Gather(flat, i)""",
        "Gather",
    ),
    "the largest of the batch": ("float[b, 3] x", "y = ReduceMax<keepdims=0>(x)", "ReduceMax"),
    "a running sum": ("float[b, 3] x", "a = Constant<value_int=0>() y = CumSum(x, a)", "CumSum"),
    "a recurrence over the batch": (
        "float[b, 3] x, float[3] h",
        """s, y = Scan<num_scan_inputs=1, body = f (float[3] old, float[3] row) => (float[3] new, float[3] out)
        { new = Add(old, row) out = Identity(new) }>(h, x)""",
        "Scan",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
def test_what_mixes_examples_is_named(case):
    inputs, text, name = MIXED[case]
    program = parsed(sorted_nodes(text), inputs, "float[] y")
    x = program.inputs[0]
    examples = examples_of(program, {x: 0})
    (y,) = program.outputs
    assert examples.mixed_by(y).type == name
    with pytest.raises(ArgumentError, match=f"A rank needs examples .* {name} "):
        check_separate(examples, y, "A rank")


def sorted_nodes(text):
    """The one case that reads what comes later, in order"""
    if "n = Expand(k, m)" not in text:
        return text
    return (
        "k = Constant<value_ints=[1]>() m = Shape<start=1>(x) n = Expand(k, m) y = ReverseSequence<time_axis=0, batch_axis=1>(x, n)"
    )


SEPARATE = {
    "a mask of zeros": ("float[b, 3] x", "s = Shape(x) z = ConstantOfShape(s) y = Add(x, z)"),
    "positions of time": (
        "float[b, t, 3] x, float[9, 3] w",
        """z = Constant<value_int=0>() o = Constant<value_int=1>() l = Shape<start=1, end=2>(x) a = Constant<value_ints=[0]>()
        n = Squeeze(l, a) r = Range(z, n, o) p = Gather(w, r) y = Add(x, p)""",
    ),
    "an element by the example's number": (
        "float[b, t] x",
        """z = Constant<value_int=0>() o = Constant<value_int=1>() a = Constant<value_ints=[0]>() l = Shape<end=1>(x)
        n = Squeeze(l, a) r = Range(z, n, o) last = Constant<value_ints=[-1]>() rows = Unsqueeze(r, last)
        at = ArgMax<axis=1, keepdims=1>(x) i = Concat<axis=1>(rows, at) y = GatherND(x, i)""",
    ),
    "an element by its position in the flat batch": (
        "float[b, t] x",
        """z = Constant<value_int=0>() o = Constant<value_int=1>() a = Constant<value_ints=[0]>() l = Shape<end=1>(x)
        n = Squeeze(l, a) r = Range(z, n, o) last = Constant<value_ints=[-1]>() rows = Unsqueeze(r, last) k = Shape<start=1>(x)
        first = Mul(rows, k) steps = Squeeze(k, a) within = Range(z, steps, o) i = Add(first, within)
        flat = Reshape(x, last) y = Gather(flat, i)""",
    ),
    "an unpooling within each image": (
        "float[b, 2, 4, 4] x",
        """p, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x) y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(p, i)""",
    ),
    "positions within an image": (
        "float[b, 2, 4, 4] x",
        """p, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x) k = Constant<value_int=16>() m = Mod(i, k) y = Cast<to=1>(m)""",
    ),
    "an element by a flag of all": (
        "float[b, 3] x, bool flag",
        """y = If<then_branch = t () => (float[b, 3] u) { u = Tanh(x) }, else_branch = e () => (float[b, 3] v) { v = Identity(x) }>(flag)""",
    ),
    "steps in time": (
        "float[b, t, 3] x, float[3] w",
        """n = Shape<end=1>(x) k = Constant<value_ints=[3]>() s = Concat<axis=0>(n, k) h = ConstantOfShape(s)
        last, y = Scan<num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1], body = f (float[b, 3] old, float[b, 3] row) =>
        (float[b, 3] new, float[b, 3] out) { u = Mul(old, w) new = Add(u, row) out = Tanh(new) }>(h, x)""",
    ),
    "a loop of a fixed number of rounds": (
        "float[b, 3] x",
        """n = Constant<value_int=3>() c = Constant<value = bool {1}>()
        y = Loop<body = f (int64 i, bool go, float[b, 3] old) => (bool on, float[b, 3] new) { on = Identity(go) new = Sin(old) }>(n, c, x)""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SEPARATE)
def test_examples_stay_apart(case):
    inputs, text = SEPARATE[case]
    program = parsed(text, inputs, "float[] y")
    examples = examples_of(program, {program.inputs[0]: 0})
    assert described(examples, program.outputs[0]) == {"axis": 0}
    check_separate(examples, program.outputs[0], "A rank")


def test_rounds_of_a_loop_that_depend_on_examples_mix_them():
    program = parsed(
        """n = Constant<value_int=3>() c = Constant<value = bool {1}>()
        y = Loop<body = f (int64 i, bool go, float[b, 3] old) => (bool on, float[b, 3] new)
        { m = ReduceMax<keepdims=0>(old) z = Constant<value_float=0.0>() on = Greater(m, z) new = Sin(old) }>(n, c, x)""",
        "float[b, 3] x",
        "float[b, 3] y",
    )
    examples = examples_of(program)
    assert examples.mixed_by(program.outputs[0]).type == "ReduceMax"
    assert "lets an example depend on the others" in examples.reason(program.outputs[0])


TOTALS = {
    "a mean": ("y = ReduceMean<keepdims=0>(x)", "ReduceMean"),
    "the sum of the means of rows": (
        "a = Constant<value_ints=[1]>() m = ReduceMean(x, a) y = ReduceSum<keepdims=0>(m)",
        "ReduceSum",
    ),
    "a sum of squares, scaled": (
        "s = ReduceSumSquare<keepdims=0>(x) h = Constant<value_float=0.5>() y = Mul(s, h)",
        "ReduceSumSquare",
    ),
    "two terms": ("a = ReduceMean<keepdims=0>(x) e = Exp(x) b = ReduceSum<keepdims=0>(e) y = Add(a, b)", "ReduceMean"),
    "a product over the batch": ("t = Transpose(x) y = MatMul(t, x)", "MatMul"),
}


@pytest.mark.parametrize("case", TOTALS)
def test_totals_are_named_apart(case):
    text, name = TOTALS[case]
    program = parsed(text, "float[b, 3] x", "float[] y")
    assert described(examples_of(program), program.outputs[0]) == {"axis": None, "total": name}


def test_loss_of_labels_is_a_total_or_one_for_each_row():
    for reduction, expected in (("mean", {"axis": None, "total": "SoftmaxCrossEntropyLoss"}), ("none", {"axis": 0})):
        program = parsed(f'y = SoftmaxCrossEntropyLoss<reduction="{reduction}">(x, l)', "float[b, 3] x, int64[b] l", "float[] y")
        assert described(examples_of(program), program.outputs[0]) == expected


def test_custom_operator_is_unknown():
    program = parsed("h = custom.Thing(x) y = Tanh(h)")
    examples = examples_of(program)
    (y,) = program.outputs
    assert examples.unknown(y).type == "Thing"
    assert examples.mixed_by(y) is None
    with pytest.raises(ArgumentError, match=r"it is not known whether custom:Thing .* standard operators"):
        check_separate(examples, y, "A rank")


def test_functions_are_followed_and_named_by_their_call():
    functions = """
    <domain: "custom", opset_import: ["": 21]> rows (x) => (y) { y = Softmax<axis=1>(x) }
    <domain: "custom", opset_import: ["": 21]> over <axis>(x) => (y) { h = Tanh(x) y = Softmax<axis: int = @axis>(h) }"""
    program = parsed("y = custom.rows(x)", functions=functions)
    assert described(examples_of(program), program.outputs[0]) == {"axis": 0}
    program = parsed("h = custom.over<axis=1>(x) y = custom.over<axis=0>(h)", functions=functions)
    examples = examples_of(program)
    mixed = examples.mixed_by(program.outputs[0])
    assert (mixed.type, mixed.attrs) == ("over", {"axis": 0})
    assert "Softmax" in examples.reason(program.outputs[0])


def test_statistics_of_a_batch_are_named_apart():
    with static.program_guard(static.Program()):
        x = static.data("x", [None, 4], "float32")
        y = static.nn.batch_norm(x)
    program = y.block.program
    program.train()
    examples = examples_of(program)
    assert examples.mixed_by(y) is None
    assert examples.statistics_by(y).type == "BatchNormalization"
    program.train(batch_norm="frozen")
    assert examples_of(program).statistics_by(y) is None


def test_dropout_in_training_keeps_examples_apart():
    with static.program_guard(static.Program()):
        x = static.data("x", [None, 4], "float32")
        y = F.dropout(F.relu(x), 0.5)
        loss = (y * y).mean()
        x.stop_gradient = False
        program = y.block.program
        program.train()
        static.append_backward(loss, parameter_list=[x])
    examples = examples_of(program)
    assert described(examples, y) == {"axis": 0}
    assert described(examples, loss) == {"axis": None, "total": "ReduceMean"}


def test_inputs_hold_examples_along_their_first_free_axis():
    program = parsed("y = Add(x, w)", "float[b, 3] x, float[3] w", "float[] y")
    examples = examples_of(program)
    x, w = program.inputs
    assert (examples.axis(x), examples.axis(w)) == (0, None)
    fixed = parsed("y = Add(x, w)", "float[2, 3] x, float[2, 3] w", "float[] y")
    assert [examples_of(fixed).axis(v) for v in fixed.inputs] == [0, 0]
    other = examples_of(fixed, {fixed.inputs[0]: 1})
    assert [other.axis(v) for v in fixed.inputs] == [1, None]
    assert other.mixed_by(fixed.outputs[0]).type == "Add"


def test_analysis_changes_nothing():
    program = og.from_onnx(FILES[0])
    before = to_onnx(program, program.outputs).SerializeToString(deterministic=True)
    examples_of(program)
    assert to_onnx(program, program.outputs).SerializeToString(deterministic=True) == before
    assert os.path.exists(FILES[0])


def test_numbers_that_follow_from_how_many_examples_there_are():
    x = static.data("x", [None, "steps", 3])
    op = x.block.build
    shape = op.Shape(x)
    scores = op.MatMul(x, op.Transpose(x, perm=[0, 2, 1]))
    first, second, unknown = op.Gather(shape, [0]), op.Gather(shape, [1]), op.NonZero(shape)
    examples = examples_of(x.block.program)
    assert [examples.follows_batch(v) for v in (shape, first, second, unknown)] == [True, True, False, None]
    assert examples.lies_along(scores) == 0
