"""The table of traits knows every schema, and the samples of each operator do what its sets say."""

from itertools import chain, combinations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.ir import traits
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.testing import Sample, _Case, _evaluator, evaluate
from tests.core.rules.samples import all_samples

SETS = {name: getattr(traits, name) for name in traits.__all__ if name not in ("LINEAR", "NOT_LINEAR", "linear_in")}
SCHEMAS = {schema.name: schema for schema in onnx.defs.get_all_schemas() if schema.domain == ""}


@pytest.fixture(scope="module")
def samples():
    """The first samples of each standard operator, with a part of its operands in the model and others fed"""
    return [sample for sample in all_samples() if sample.number < 4 and not sample.domain and sample.build is None]


def evaluated(samples, names):
    """(sample, its feeds, its operands, a function of feeds that computes its first result) of the operators in a set"""
    for sample in samples:
        if sample.op_type not in names:
            continue
        case = _Case(sample, "float64")
        model = to_onnx(case.program, case.all_outputs)

        def compute(feeds, model=model):
            return np.asarray(evaluate(model, feeds)[0])

        yield sample, case.feeds, [np.asarray(x) for x in operands_of(sample)], compute


def operands_of(sample):
    return [getattr(x, "array", x) for x in sample.inputs if x is not None]


def test_every_schema_is_in_a_set_or_said_to_be_in_none():
    held = set(chain.from_iterable(names for name, names in SETS.items() if name != "WITHOUT"))
    assert set(SCHEMAS) <= held | traits.WITHOUT, "enter new operators into onnxgrad/core/ir/traits.py"
    assert not held & traits.WITHOUT
    assert held | traits.WITHOUT <= set(SCHEMAS)


def test_operators_with_bodies_are_those_that_have_a_graph_as_attribute():
    graph = onnx.defs.OpSchema.AttrType.GRAPH
    assert {name for name, s in SCHEMAS.items() if any(a.type == graph for a in s.attributes.values())} == traits.CONTROL_FLOW


def test_random_operators_are_those_that_onnx_calls_not_deterministic():
    kind = onnx.defs.OpSchema.NodeDeterminism.NonDeterministic
    said = {name for name, s in SCHEMAS.items() if s.node_determinism == kind}
    # onnx says so of operators with bodies, and of these functions, which sample nothing.
    functions = {"AffineGrid", "CausalConvWithState", "DepthToSpace", "LinearAttention", "SpaceToDepth"}
    assert said - traits.CONTROL_FLOW - functions == traits.RANDOM


def test_comparisons_are_the_elementwise_operators_that_make_booleans_of_numbers():
    makes_booleans = {name for name, s in SCHEMAS.items() if name in traits.ELEMENTWISE and is_boolean(s, s.outputs[0])}
    assert {name for name in makes_booleans if not is_boolean(SCHEMAS[name], SCHEMAS[name].inputs[0])} == traits.COMPARES


def is_boolean(schema, slot):
    """Whether an operand or a result is of booleans and nothing else"""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return set(allowed.get(slot.type_str, [slot.type_str])) == {"tensor(bool)"}


@pytest.mark.parametrize("name", sorted(traits.READS_SHAPES - traits.RANDOM - {"SequenceLength"}))
def test_what_reads_shapes_does_not_read_values(name):
    dtype = "float" if name == "EyeLike" else "int64"
    text = f"""<ir_version: 9, opset_import: ["": 18]> g (float[2, 3] x) => ({dtype} y) {{ y = {name} (x) }}"""
    model = onnx.parser.parse_model(text)
    zeros, sevens = (evaluate(model, {"x": np.full((2, 3), x, np.float32)})[0] for x in (0, 7))
    np.testing.assert_array_equal(zeros, sevens)


def test_rules_that_broadcast_are_of_elementwise_operators():
    broadcasting = {name for (domain, name), entries in TABLE.items() if not domain and any(e.broadcasts is True for e in entries)}
    # Einsum and MatMul broadcast the axes in front of what they sum over, and Expand takes a shape.
    assert broadcasting - {"Einsum", "Expand", "MatMul"} <= traits.ELEMENTWISE


def test_rules_that_pass_integers_on_are_of_operators_that_move_or_cast():
    moving = {name for (domain, name), entries in TABLE.items() if not domain and any(e.moves for e in entries)}
    # A pool chooses elements, and DequantizeLinear makes real numbers of integers.
    assert moving <= traits.MOVES | traits.CASTS | {"DequantizeLinear", "MaxPool"}


def test_elementwise_operators_read_the_position_that_they_write(samples):
    seen = set()
    for sample, feeds, operands, compute in evaluated(samples, traits.ELEMENTWISE):
        if not feeds:
            continue
        before = compute(feeds)
        first = next(iter(feeds))
        if sample.op_type != "CastLike":  # the second operand only gives a type
            assert before.shape == np.broadcast_shapes(*(x.shape for x in operands)), sample
        if feeds[first].size < 2:
            continue
        changed = feeds[first].copy()
        changed.flat[0] *= 0.75
        touched = np.zeros(changed.shape, bool)
        touched.flat[0] = True
        same = ~np.broadcast_to(touched, before.shape)
        after = compute({**feeds, first: changed})
        np.testing.assert_allclose(after[same], before[same], rtol=1e-14, err_msg=str(sample))
        seen.add(sample.op_type)
    assert len(seen) > 40


def test_moving_operators_compute_no_new_number(samples):
    seen = set()
    for sample, feeds, operands, compute in evaluated(samples, traits.MOVES):
        if sample.attrs.get("reduction", "none") != "none":
            continue
        numbers = np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in operands if x.dtype.kind in "fiub"] + [np.zeros(1)])
        assert np.isin(compute(feeds), numbers).all(), sample
        seen.add(sample.op_type)
    assert len(seen) > 20


def test_views_keep_the_order(samples):
    seen = set()
    for sample, feeds, operands, compute in evaluated(samples, traits.VIEWS):
        np.testing.assert_array_equal(np.ravel(compute(feeds)), np.ravel(operands[0]), err_msg=str(sample))
        seen.add(sample.op_type)
    assert seen == traits.VIEWS


def test_reductions_do_not_read_the_order(samples):
    """Reversed along all axes, the operand has the same reductions, reversed; ArgMax and ArgMin give positions instead."""
    seen = set()
    for sample, feeds, _, compute in evaluated(samples, traits.REDUCES - {"ArgMax", "ArgMin"}):
        x = feeds.get("x0")
        if x is None or x.ndim == 0:
            continue
        np.testing.assert_allclose(
            compute({**feeds, "x0": np.flip(x)}), np.flip(compute(feeds)), rtol=1e-12, atol=1e-12, err_msg=str(sample)
        )
        assert compute(feeds).size <= x.size
        seen.add(sample.op_type)
    assert len(seen) > 5


def test_every_schema_is_linear_in_an_operand_or_said_to_be_in_none():
    assert set(traits.LINEAR) | traits.NOT_LINEAR == set(SCHEMAS), "enter new operators into onnxgrad/core/ir/traits.py"
    assert not set(traits.LINEAR) & traits.NOT_LINEAR


def test_linear_operators_add_and_scale(linearity):
    """Of all samples, for each group of operands that the table gives: f(a + b) = f(a) + f(b), f(c a) = c f(a)"""
    wrong = [f"{s} in {group}" for s, groups, linear in linearity for group in groups if group in linear and not linear[group]]
    assert not wrong
    met = {s.op_type for s, groups, linear in linearity if any(group in linear for group in groups)}
    # Older forms of ScatterElements and Resize, which programs are lifted to.
    assert set(traits.LINEAR) - met == {"Scatter", "Upsample"}


def test_operands_in_which_all_samples_are_linear_are_in_the_table(linearity):
    missing = set()
    for name in {s.op_type for s, _, _ in linearity}:
        of_it = [(s, groups, linear) for s, groups, linear in linearity if s.op_type == name]
        for chosen in set(chain.from_iterable(linear for _, _, linear in of_it)):
            having = [(groups, linear) for _, groups, linear in of_it if chosen in linear]
            if all(linear[chosen] for _, linear in having) and not any(chosen in groups for groups, _ in having):
                missing.add((name, chosen))
    assert not missing


@pytest.fixture(scope="module")
def linearity():
    """(sample, groups of the table, by every set of its operands of real numbers that the result depends on: is it linear in them)"""
    found = []
    cast = Sample(np.linspace(-1, 1, 6), to=TensorProto.DOUBLE)  # those of its rule are of builds
    cast.op_type = "Cast"
    for sample in [*all_samples(), cast]:
        if sample.domain or sample.build is not None:
            continue
        groups = [group_of(sample, group) for group in traits.linear_in(sample.op_type, sample.attrs, len(sample.inputs))]
        found.append((sample, [group for group in groups if group], linear_sets(sample)))
    return found


def group_of(sample, group):
    return tuple(index for index in group if sample.inputs[index] is not None)


def linear_sets(sample):
    case = _Case(sample, "float64", "runtime")
    run = _evaluator(to_onnx(case.program, case.all_outputs[: None if sample.op_type == "Split" else 1]), ())
    draw = np.random.default_rng(7)

    def compute(values):
        results = run({**case.feeds, **{f"x{index}": value for index, value in values.items()}})
        return results[0] if len(results) == 1 else np.concatenate([np.ravel(y) for y in results])

    a = {int(name[1:]): x for name, x in case.feeds.items() if x.dtype == np.float64}
    b = {index: draw.uniform(0.5, 1.5, x.shape) for index, x in a.items()}
    first = compute(a)
    if first.dtype != np.float64:
        return {}
    read = [index for index in a if not same(compute({**a, index: b[index]}), first)]
    sets = chain.from_iterable(combinations(read, size) for size in range(1, len(read) + 1))
    return {chosen: is_linear(compute, a, {index: b[index] for index in chosen}, first) for chosen in sets}


def is_linear(compute, a, b, first):
    scaled = compute({**a, **{index: -1.7 * a[index] for index in b}})
    if not same(scaled, -1.7 * first):
        return False
    together = compute({**a, **{index: a[index] + b[index] for index in b}})
    return same(together, first + compute({**a, **b}))


def same(x, y):
    scale = max(1.0, float(np.abs(y).max(initial=0.0)))
    return x.shape == y.shape and np.allclose(x, y, rtol=0, atol=1e-9 * scale, equal_nan=True)
