"""The cases recorded from Paddle's static gradients, run eagerly: same values."""

import numpy as np
import pytest

import onnxgrad as paddle
from tests import paddle_cases as cases
from tests.test_paddle_cases import DIFFERENT

STATIC_CALLS = ("nn.", "cond", "while_loop", "switch_case", "case", "gradients", "set_stop_gradient")


def runs_eagerly(case):
    calls = [op["call"] for op in case.spec["ops"]]
    return case.kind == "gradients" and not case.spec["params"] and not any(call.startswith(STATIC_CALLS) for call in calls)


def once(items):
    return [item for at, item in enumerate(items) if not any(item is earlier for earlier in items[:at])]


@pytest.mark.parametrize(
    "case", [case for case in cases.load().values() if runs_eagerly(case) and case.id not in DIFFERENT], ids=str
)
def test_agrees_with_paddle(case):
    spec = case.spec
    values = {}
    for entry in spec["data"]:
        array = case.arrays[f"in/{entry['name']}"]
        values[entry["name"]] = paddle.to_tensor(array, dtype=entry["dtype"], stop_gradient=entry["stop_gradient"])
    interpreter = cases.Interpreter(values)
    interpreter.run(spec["ops"])
    values = interpreter.values

    def named(key):
        return [None if name is None else values[name.removeprefix("$")] for name in spec.get(key) or ()]

    targets, inputs, blocked = named("targets"), named("inputs"), named("no_grad_set")
    seeds = named("target_gradients") or None
    if seeds is not None:
        seeds = [seeds[at] for at, target in enumerate(targets) if not any(target is t for t in targets[:at])]
    found = paddle.grad(once(targets), once(inputs), seeds, allow_unused=True, no_grad_vars=blocked)
    gradients = {id(x): g for x, g in zip(once(inputs), found, strict=True)}
    wanted = {f"grad/{name}": gradients[id(x)] for name, x in zip(spec["inputs"], inputs, strict=True)}
    wanted |= {f"out/{name}": v for name, v in values.items() if isinstance(v, paddle.Tensor)}
    for key, tensor in wanted.items():
        if key not in case.arrays:
            continue
        if tensor is None:
            # Where nothing but comparisons connects the two, Paddle gives zeros.
            assert not case.arrays[key].any()
        else:
            np.testing.assert_allclose(tensor.numpy(), case.arrays[key], rtol=1e-3, atol=1e-4, err_msg=key)
            assert tensor.numpy().dtype == case.arrays[key].dtype
