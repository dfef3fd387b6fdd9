"""A step is a value: its phases hand on what they say, write each state once, and open nothing."""

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.session_cache import Narrower, open_step, prepare
from onnxgrad.core.step import cut, make as making
from onnxgrad.core.step.cut import cut_step
from onnxgrad.core.step.make import StepTarget, make_applying, make_step
from onnxgrad.core.step.step import Pieces

FEED = {"x": np.ones((4, 6), np.float32), "y": np.zeros((4, 3), np.float32)}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Weights of more than eight elements are large, and are updated in pieces of ten."""
    monkeypatch.setattr(cut, "SMALL", 8)
    monkeypatch.setattr(making, "PIECE", 10)


@pytest.fixture
def net():
    """(program, loss) of two layers with Adam and a norm of all gradients."""
    x, y = static.data("x", [None, 6]), static.data("y", [None, 3])
    loss = paddle.mean(paddle.square(static.nn.fc(static.nn.fc(x, 5, activation="tanh"), 3) - y))
    paddle.optimizer.Adam(0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)).minimize(loss)
    paddle.Executor().run(static.default_startup_program())
    return loss.block.program, loss


class Travelling:
    """Two groups of gradients, of which the first travels while the second is computed."""

    sends = True
    synchronises = None
    sharding = 0

    def __init__(self, loss):
        self.reads = [loss]

    def groups(self, gradients):
        return [gradients[:2], gradients[2:]]


def applying_of(program):
    return make_applying(program, cut_step(program, always=True), StepTarget("cpu", threads=2))


def low(net, exchange=None):
    program, loss = net
    applying = applying_of(program)._replace(exchange=exchange)
    return make_step(program, [loss], StepTarget("cpu", threads=2), applying)


def check(step, program, loss):
    """What holds of every step."""
    assert len({phase.name for phase in step.phases}) == len(step.phases)
    done = {}
    for phase in step.phases:
        inputs = {v.name for v in phase.graph.inputs}
        assert inputs == {*phase.feeds, *phase.reads, *phase.takes}
        outputs = {name for name, _ in phase.graph.outputs}
        assert outputs.issuperset([*phase.writes.values(), *phase.hands])
        for source, output in phase.takes.values():
            assert output in done[source].hands or output in {name for name, _ in done[source].graph.outputs}
        done[phase.name] = phase
    assert all(output in {name for name, _ in done[source].graph.outputs} for source, output in step.fetches)
    written = [name for phase in step.phases for name in phase.writes]
    assert sorted(written) == sorted(v.name for v in program.updates)
    assert {name for name, state in step.state.items() if state.is_replaced} == set(written)


def test_a_plain_step_is_one_phase(net):
    program, loss = net
    before = program.to_string(with_details=True)
    step = make_step(program, [loss], StepTarget("cpu"))
    check(step, program, loss)
    assert [phase.name for phase in step.phases] == ["step"]
    assert step.fetches == (("step", loss.name),)
    assert dict(step.phases[0].feeds) == {"x": "caller", "y": "caller"}
    assert program.to_string(with_details=True) == before


def test_a_step_that_is_cut_has_gradients_what_is_shared_and_parts(net):
    program, loss = net
    step = low(net)
    check(step, program, loss)
    gradients, shared, *parts = step.phases
    assert (gradients.name, shared.name) == ("gradients", "shared")
    assert not gradients.then and set(gradients.hands) == {f"{p.name}@GRAD" for p in program.parameters}
    weights = [p for p in program.parameters if len(p.shape) == 2]
    assert [part.runs for part in parts] == [Pieces(np.prod(w.shape), 10) for w in weights]
    assert {source for part in parts for source, _ in part.takes.values()} == {"gradients", "shared"}


def test_gradients_that_travel_on_the_way_are_phases_of_their_own(net):
    program, loss = net
    step = low(net, Travelling(loss))
    check(step, program, loss)
    first, second = step.phases[:2]
    assert [phase.name for phase in step.phases[:3]] == ["gradients 1", "gradients 2", "shared"]
    assert [reduce.group for phase in (first, second) for reduce in phase.then] == [0, 1]
    assert set(first.then[0].values) | set(second.then[0].values) == {f"{p.name}@GRAD" for p in program.parameters}
    assert loss.name in {name for name, _ in first.graph.outputs}
    sizes = [sum(4 * np.prod(program.find(name).static_shape) for name in phase.then[0].values) for phase in (first, second)]
    assert [phase.then[0].bytes for phase in (first, second)] == sizes


def test_gradients_that_are_weighed_alone_are_not_added_up(net):
    exchange = Travelling(net[1])
    exchange.sends, exchange.groups = False, lambda gradients: []
    assert low(net, exchange).phases[0].then == ()


def test_making_a_step_opens_nothing(net, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a session")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    low(net)


def test_a_step_reads_well(net):
    text = str(low(net))
    assert text.startswith("4 phases, fetches ")
    assert "state that is replaced: 20 of all ranks alike, " in text
    assert "apply 1: 12 operators in 3 pieces of 10 elements\n" in text
    assert "takes " in text and " of gradients" in text and " of shared" in text


def test_the_sum_over_ranks_is_named_with_its_bytes(net):
    program, loss = net
    assert "then all ranks add up 4 values, 212 bytes" in str(
        make_step(program, [loss], StepTarget("cpu"), applying_of(program)._replace(exchange=_one_group(loss)))
    )


def _one_group(loss):
    exchange = Travelling(loss)
    exchange.groups = lambda gradients: [gradients]
    return exchange


# Opening ---------------------------------------------------------------------------------------------------------------


class LeavesTanh(CPUPlace):
    """A place that leaves programs with a Tanh to the CPU."""

    leaves = ("Tanh",)

    def __repr__(self):
        return "Place(odd)"


def test_a_place_that_does_not_take_a_step_names_a_narrower_one(net):
    program, loss = net
    step = make_step(program, [loss], StepTarget("cpu"))
    found = open_step(step, [loss], LeavesTanh(), None, None, None, stops_spinning=False)
    assert isinstance(found, Narrower)
    assert type(found.place) is CPUPlace and "leaves programs with Tanh" in found.reason
    with pytest.warns(UserWarning, match="leaves programs with Tanh"):
        prepared = prepare(program, [loss], LeavesTanh())
    assert type(prepared.place) is CPUPlace


def test_an_executor_says_what_it_has_opened(net):
    program, loss = net
    executor = paddle.Executor(memory="low", threads=1)
    assert executor.debug_string() == ""
    executor.run(program, FEED, [loss])
    text = executor.debug_string()
    assert text.startswith("on Place(cpu): 4 phases, fetches ")
    assert "\napply 2: " in text
    executor.close()
    assert executor.debug_string() == ""


def test_passes_of_a_step_are_told(net):
    x = static.data("z", [4, 6])
    hidden = static.nn.fc(x, 5, activation="relu")
    loss = paddle.mean(hidden)
    paddle.optimizer.SGD(0.1).minimize(loss)
    paddle.Executor().run(static.default_startup_program())
    executor = paddle.Executor(memory=None)
    executor.run(loss.block.program, {**FEED, "z": FEED["x"]}, [loss])
    assert "\n    pass step: relu_mask_as_hardsigmoid: 1 place, " in executor.debug_string()
