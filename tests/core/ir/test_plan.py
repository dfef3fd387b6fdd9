"""What a run does besides its operators goes with clones, and a change that fails leaves it as it was."""

import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.ir.transaction import transaction


@pytest.fixture
def step():
    """A step with a schedule and a value that is printed."""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        x = static.data("x", [None, 2])
        loss = paddle.mean(static.nn.fc(static.Print(x), 1))
        paddle.optimizer.SGD(paddle.optimizer.lr.StepDecay(0.1, 3)).minimize(loss)
    return program


def test_a_clone_has_schedules_and_printers_of_its_own_variables(step):
    copy = step.clone()
    for kind in ("schedulers", "printers"):
        (found, function), (original, same) = getattr(copy.plan, kind)[0], getattr(step.plan, kind)[0]
        assert function is same and found.name == original.name
        assert found is not original and found.block.program is copy


def test_a_clone_for_inference_prints_and_follows_no_schedule(step):
    copy = step.clone(for_test=True)
    assert copy.plan.schedulers == [] and len(copy.plan.printers) == 1


def test_a_copy_exchanges_nothing_and_has_no_memory_plan(step):
    step.plan.exchange, step.plan.memory = object(), object()
    assert step.exchange is step.plan.exchange and step.memory_plan is step.plan.memory
    copy = step.clone()
    assert copy.exchange is None and copy.memory_plan is None


def test_a_change_that_fails_leaves_the_plan_as_it_was(step):
    before = (list(step.plan.schedulers), list(step.plan.printers))
    with pytest.raises(ValueError, match="midway"), transaction(step):
        step.plan.schedulers.append((step.inputs[0], None))
        step.plan.printers = []
        step.plan.exchange = object()
        raise ValueError("midway")
    assert (step.plan.schedulers, step.plan.printers, step.plan.exchange) == (*before, None)
