"""Every case of the function tests, computed eagerly: numpy's values, and the gradients of the static program."""

import importlib
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import UnsupportedGradient
from tests.function_cases import Case, as_list

FOLDER = Path(__file__).parents[1]


def collect():
    found = {}
    for path in sorted([*(FOLDER / "tensor").glob("test_*.py"), *(FOLDER / "nn").glob("test_*.py")]):
        module = importlib.import_module(f"tests.{path.parent.name}.{path.stem}")
        for value in vars(module).values():
            if isinstance(value, list):
                found.update({id(item): item for item in value if isinstance(item, Case)})
    return list(found.values())


CASES = collect()
REFUSED_BY_ONNXRUNTIME = ("interpolate-nhwc",)


def arrays(case):
    return [a.astype(np.float32) if a.dtype == np.float64 else a for a in case.inputs]


def eager(case):
    inputs = [paddle.to_tensor(a, stop_gradient=a.dtype.kind != "f") for a in arrays(case)]
    return inputs, as_list(case.function(*inputs))


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_values(case):
    if case.name in REFUSED_BY_ONNXRUNTIME:
        pytest.xfail("onnxruntime moves a Transpose through Resize and loses its sizes, in static programs too")
    _, results = eager(case)
    wanted = case.wanted()
    assert len(results) == len(wanted)
    for found, expected in zip(results, map(np.asarray, wanted), strict=True):
        assert isinstance(found, paddle.Tensor)
        assert found.shape == list(expected.shape)
        np.testing.assert_allclose(found.numpy(), expected, rtol=case.exact, atol=case.exact)


def floats(variables):
    return [v for v in variables if v.dtype.is_float]


def has_gradient(case):
    wanted = [np.asarray(item).dtype.kind for item in case.wanted()]
    return case.gradient and "f" in wanted and "f" in [a.dtype.kind for a in case.inputs]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "case", [case for case in CASES if has_gradient(case) and case.name not in REFUSED_BY_ONNXRUNTIME], ids=repr
)
def test_gradients(case):
    inputs, outputs = eager(case)
    draw = np.random.default_rng(0)
    seeds = [draw.normal(size=y.shape).astype(y.dtype.numpy) for y in floats(outputs)]
    feed = {f"x{i}": a for i, a in enumerate(arrays(case))} | {f"seed{i}": a for i, a in enumerate(seeds)}
    with static.program_guard(static.Program(), static.Program()):
        variables = [static.data(f"x{i}", list(a.shape), a.dtype.name) for i, a in enumerate(arrays(case))]
        for v in variables:
            v.stop_gradient = False
        targets = floats(as_list(case.function(*variables)))
        cotangents = [static.data(f"seed{i}", list(a.shape), a.dtype.name) for i, a in enumerate(seeds)]
        try:
            wanted = static.gradients(targets, floats(variables), cotangents)
        except UnsupportedGradient as error:
            pytest.xfail(str(error))
        values = paddle.Executor().run(feed=feed, fetch_list=[g for g in wanted if g is not None])
    found = paddle.grad(floats(outputs), floats(inputs), [paddle.to_tensor(a) for a in seeds], allow_unused=True)
    remaining = iter(values)
    for mine, static_gradient in zip(found, wanted, strict=True):
        if static_gradient is None:
            assert mine is None or not mine.numpy().any()
        else:
            np.testing.assert_allclose(mine.numpy(), next(remaining), rtol=1e-4, atol=1e-5)
