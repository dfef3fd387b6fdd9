"""Learning-rate schedules against sequences recorded from Paddle."""

import json

import numpy as np
import pytest

from onnxgrad.optimizer import lr
from tests.paddle_cases import FOLDER

RECORDED = json.loads((FOLDER / "lr_schedules.json").read_text())["cases"]
FUNCTIONS = {"LambdaDecay": lambda epoch: 0.95**epoch, "MultiplicativeDecay": lambda epoch: 0.95}


def make(entry):
    arguments = dict(entry["kwargs"])
    if entry["scheduler"] in FUNCTIONS:
        arguments["lr_lambda"] = FUNCTIONS[entry["scheduler"]]
    if isinstance(arguments.get("learning_rate"), str):
        assert arguments["learning_rate"] == "StepDecay(0.5, step_size=2, gamma=0.5)"
        arguments["learning_rate"] = lr.StepDecay(0.5, step_size=2, gamma=0.5)
    return getattr(lr, entry["scheduler"])(**arguments)


def sequence(scheduler, entry, start, stop):
    found = []
    for i in range(start, stop):
        found.append(scheduler())
        scheduler.step(*([entry["metrics"][i]] if "metrics" in entry else []))
    return found


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: f"{entry['scheduler']}-{len(entry['kwargs'])}")
def test_agrees_with_paddle(entry):
    np.testing.assert_allclose(sequence(make(entry), entry, 0, len(entry["lr"])), entry["lr"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: f"{entry['scheduler']}-{len(entry['kwargs'])}")
def test_continues_from_its_state(entry):
    half = len(entry["lr"]) // 2
    first, second = make(entry), make(entry)
    sequence(first, entry, 0, half)
    second.set_state_dict(json.loads(json.dumps(first.state_dict())))
    np.testing.assert_allclose(sequence(second, entry, half, len(entry["lr"])), entry["lr"][half:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: lr.StepDecay("0.1", 2), TypeError),
        (lambda: lr.ExponentialDecay(0.1, 2.0), ValueError),
        (lambda: lr.PiecewiseDecay([1], [0.1]), ValueError),
        (lambda: lr.MultiStepDecay(0.1, [3, 2]), ValueError),
        (lambda: lr.LambdaDecay(0.1, 0.5), TypeError),
        (lambda: lr.OneCycleLR(1.0, 10, anneal_strategy="wave"), ValueError),
        (lambda: lr.CyclicLR(0.1, 1.0, 0), ValueError),
        (lambda: lr.LinearLR(0.1, 5, start_factor=0.0), ValueError),
        (lambda: lr.ReduceOnPlateau(0.1, factor=1.0), ValueError),
        (lambda: lr.NoamDecay(0, 5), ValueError),
    ],
)
def test_impossible_arguments(make, kind):
    with pytest.raises(kind):
        make()
