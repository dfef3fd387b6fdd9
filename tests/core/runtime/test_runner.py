"""Phases are run by name; sums over ranks enter under the names that later phases take."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.runner import OpenPhase, added_up
from onnxgrad.core.state.values import value_of, view_of
from onnxgrad.core.step.stages import make_stages, sum_over_ranks
from onnxgrad.core.step.step import phase_of
from onnxgrad.distributed import run_local
from onnxgrad.errors import ArgumentError


@pytest.fixture
def stages():
    """exp(sum over ranks of mean x) + x, cut at the sum, and the names of what is returned."""
    x = static.data("x", [3])
    mean = paddle.mean(x)
    total = sum_over_ranks(x.block.build, mean)
    result = paddle.exp(total) + x
    graph = compile(x.block.program, [result, mean])
    return make_stages(graph, [v for _, v in graph.outputs], name="part"), result.name, mean.name


def test_a_sum_enters_a_later_phase_under_its_own_name(stages):
    phases, result, mean = stages
    assert [phase.name for phase in phases] == ["part 1", "part 2"]
    (reduce,) = phases[0].then
    assert phases[1].takes[reduce.sums[0].name] == ("part 1", reduce.values[0])

    def work(transport):
        opened = [OpenPhase(phase, CPUPlace(), 1) for phase in phases]
        x = np.full(3, float(transport.rank + 1), np.float32)
        first = opened[0].run({"x": value_of(x)}, {})
        sums = added_up(reduce, first, transport)
        assert set(sums) == {reduce.sums[0].name}
        second = opened[1].run({"x": value_of(x), **first, **sums}, {})
        return np.array(view_of(first[mean])), np.array(view_of(second[result]))

    for rank, (own, total) in enumerate(run_local(2, work)):
        assert own == rank + 1
        np.testing.assert_allclose(total, np.exp(3.0) + rank + 1, rtol=1e-6)


def test_what_is_not_fed_is_named():
    x = static.data("x", [3])
    phase = OpenPhase(phase_of("only", compile(x.block.program, [paddle.exp(x)])), CPUPlace(), None)
    with pytest.raises(ArgumentError, match=r"the feed lacks 'x'\. Feed 'x'"):
        phase.run({}, {})


def test_new_state_is_what_the_phase_writes():
    x = static.data("x", [2])
    w = static.create_parameter([2], "float32", name="w")
    loss = paddle.sum(x * w)
    paddle.optimizer.SGD(0.5).minimize(loss)
    phase = OpenPhase(phase_of("step", compile(loss.block.program, [loss], state_as_inputs=True)), CPUPlace(), 1)
    assert "w" in phase.state and phase.inputs == ["x"]
    rate = next(name for name in phase.state if name != "w")
    state = {"w": value_of(np.array([1, 2], np.float32)), rate: value_of(np.array(0.5, np.float32))}
    results = phase.run({"x": value_of(np.array([3, 4], np.float32))}, state)
    np.testing.assert_array_equal(view_of(results[phase.phase.writes["w"]]), [1 - 1.5, 2 - 2.0])
