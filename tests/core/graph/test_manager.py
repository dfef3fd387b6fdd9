"""Passes run in the order that they declare, are counted, logged and verified."""

from math import inf

import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.contract import ORDER, Pass, Target
from onnxgrad.core.graph.manager import in_order_of_passes, run_passes
from onnxgrad.core.graph.verify import GraphError
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.providers.registry import PROVIDERS


def graph_of(function, shape=(3,)):
    """A plain graph of a function of x."""
    x = static.data("x", list(shape))
    return compile(x.block.program, [function(x)])


def named(name, **options):
    return Pass(name, options.pop("run", lambda graph, target: 0), **options)


def twice(build, op):
    """x + x as 2 x"""
    x, y = op.inputs
    return [build.Mul(x, 2.0)] if x is y else None


def test_passes_keep_their_order_but_for_what_they_follow():
    passes = [named("c", after=("a",)), named("b"), named("a"), named("d", after=("absent",))]
    assert [each.name for each in in_order_of_passes(passes)] == ["b", "a", "c", "d"]


def test_passes_that_wait_for_each_other_are_refused():
    with pytest.raises(ValueError, match=r"wait for each other: \['a', 'b'\]"):
        in_order_of_passes([named("a", after=("b",)), named("b", after=("a",))])


def test_two_passes_of_one_name_are_refused():
    with pytest.raises(ValueError, match="'a'"):
        in_order_of_passes([named("a"), named("a")])


def test_a_pass_has_either_a_function_or_forms():
    for options in ({}, {"run": lambda graph, target: 0, "forms": {}}):
        with pytest.raises(TypeError, match="'both'"):
            Pass("both", **options)


def test_what_was_rewritten_is_counted_and_logged(monkeypatch, capsys):
    monkeypatch.setenv("ONNXGRAD_LOG", "passes")
    graph = graph_of(lambda x: paddle.exp(x + x) + (x + x))
    run_passes(graph, [Pass("twice", forms={"Add": twice}), named("nothing")], Target())
    assert [(each.name, each.places) for each in graph.rewrites] == [("twice", 2)]
    assert sorted(op.type for op in graph.operators) == ["Add", "Exp", "Mul", "Mul"]
    assert capsys.readouterr().err == "onnxgrad: twice: 2 places, as many operators\n"


def test_forms_of_neighbours_are_joined_and_counted_one_by_one():
    walks = []

    def watched(name, form):
        def forms(graph):
            walks.append((name, len(graph.rewrites)))
            return {"Add": form}

        return Pass(name, forms=forms)

    graph = graph_of(lambda x: (x + x) + 1.0)
    second = watched("second", lambda build, op: [build.Sub(op.inputs[0], build.Neg(op.inputs[1]))])
    run_passes(graph, [watched("first", twice), second], Target())
    assert walks == [("first", 0), ("second", 0)]  # asked for their forms before the one walk that both have
    assert [(each.name, each.places) for each in graph.rewrites] == [("first", 1), ("second", 1)]


def test_operators_of_a_walk_are_counted_by_the_first_pass_that_wrote_some():
    longer = Pass("longer", forms={"Add": lambda build, op: [build.Sub(op.inputs[0], build.Neg(op.inputs[1]))]})
    graph = graph_of(lambda x: x + 1.0)
    run_passes(graph, [Pass("none", forms={"Add": lambda build, op: None}), longer], Target())
    fewer = graph.rewrites[0].before - graph.rewrites[0].after
    assert [each.name for each in graph.rewrites] == ["longer"] and fewer == 1 - len(graph.operators) < 0


def test_a_pass_is_skipped_where_it_does_not_apply_and_refuses_what_it_needs():
    def needs(graph, target):
        raise ValueError("a provider is needed")

    graph = graph_of(lambda x: x + x)
    apart = Pass("apart", forms={"Add": twice}, when=lambda graph, target: target.fast, needs=needs)
    run_passes(graph, [apart], Target())
    assert [op.type for op in graph.operators] == ["Add"]
    with pytest.raises(ValueError, match="a provider is needed"):
        run_passes(graph, [apart], Target(fast=True))


def test_a_pass_that_repeats_runs_until_it_rewrites_nothing():
    graph = graph_of(lambda x: paddle.abs(paddle.abs(paddle.abs(x))))

    def one(graph, target):
        """Leave out the first Abs of an Abs"""
        for op in graph.operators:
            if op.type == "Abs" and op.inputs[0].op is not None and op.inputs[0].op.type == "Abs":
                graph.replace(op.inputs[0], op.inputs[0].op.inputs[0])
                return 1
        return 0

    run_passes(graph, [Pass("abs_of_abs", one, repeats=True)], Target())
    assert [op.type for op in graph.operators] == ["Abs"]
    assert graph.rewrites[0].places == 2
    assert str(graph.rewrites[0]) == "abs_of_abs: 2 places, 2 operators fewer"


# Verification ----------------------------------------------------------------------------------------------------------


def reads_what_is_not_there(graph, target):
    graph.operators = list(reversed(graph.operators))
    return 1


def computes_twice(graph, target):
    graph.operators = [*graph.operators, graph.operators[-1]]
    return 1


def renames_an_output(graph, target):
    graph.outputs = [("other", v) for _, v in graph.outputs]
    return 1


def claims_another_type(graph, target):
    v = graph.outputs[0][1]
    v.type = TensorType(v.type.dtype, (7,))
    return 1


def writes_an_unknown_attribute(graph, target):
    graph.operators[0].attrs["no_such"] = 1
    return 1


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        (reads_what_is_not_there, "which nothing before it computes"),
        (computes_twice, "which is there already"),
        (renames_an_output, "the outputs are"),
        (claims_another_type, "it is known as"),
        (writes_an_unknown_attribute, "no_such"),
    ],
)
def test_a_pass_that_breaks_a_graph_is_named(monkeypatch, breaks, says):
    graph = graph_of(lambda x: paddle.exp(paddle.abs(x + x)))
    passes = [Pass("twice", forms={"Add": twice}), Pass("broken", breaks)]
    with pytest.raises(GraphError, match=r"(?s)after the pass 'broken'.*Passes before it: twice") as caught:
        run_passes(graph, passes, Target())
    assert says in str(caught.value)
    monkeypatch.setenv("ONNXGRAD_VERIFY", "0")
    run_passes(graph_of(lambda x: paddle.exp(paddle.abs(x + x))), passes, Target())


def test_what_a_graph_fails_before_any_pass_is_no_fault_of_a_pass():
    """For that it is put back for a moment; then it is again what the passes left"""
    graph = graph_of(lambda x: paddle.exp(paddle.abs(x + x)))
    graph.operators[0].attrs["no_such"] = 1
    run_passes(graph, [Pass("abs", forms={"Abs": lambda build, op: [build.Neg(op.inputs[0])]}), named("nothing")], Target())
    assert [op.type for op in graph.operators] == ["Add", "Neg", "Exp"] and graph.operators[0].attrs == {"no_such": 1}
    with pytest.raises(GraphError, match=r"after the pass 'broken'.*it is known as"):
        run_passes(graph, [Pass("broken", claims_another_type)], Target())


def test_passes_of_every_provider_can_be_put_in_order_and_say_how_they_round():
    for passes in PROVIDERS.values():
        assert {each.name for each in in_order_of_passes(passes)} == {each.name for each in passes}
        assert {each.rounding for each in passes} <= {"none", "order", "fast"}
        assert all(each.most < inf for each in passes), "a pass over a graph that rounds fast states by how much"


def test_a_pass_states_a_bound_where_it_rounds_fast_alone():
    assert [named("x", rounding=r).most for r in ("none", "order", "fast")] == [0.0, ORDER, inf]
    assert named("x", rounding="fast", bound=64.0).most == 64.0
    with pytest.raises(TypeError, match="states no bound"):
        named("x", rounding="order", bound=64.0)
