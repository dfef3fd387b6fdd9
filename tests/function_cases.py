"""A function, its inputs and what numpy says: checked on onnxruntime, with unknown dimensions, and by finite differences."""

import numpy as np

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.testing import Sample, check_gradient

RNG = np.random.default_rng(11)


def real(*shape, low=-2.0, high=2.0):
    """Numbers no two of which are close, none close to 0: neither ties nor kinks."""
    size = int(np.prod(shape, dtype=int))
    steps = np.linspace(low, high, size + 2)[1:-1]
    steps += 0.017 * (high - low) / (size + 1)  # no two of opposite signs and equal size
    steps += np.where(np.abs(steps) < 0.03, 0.07, 0.0)
    return RNG.permutation(steps).reshape(shape)


def positive(*shape, low=0.2, high=2.0):
    return real(*shape, low=low, high=high)


def distribution(*shape):
    p = RNG.uniform(0.1, 1.0, shape)
    return p / p.sum(-1, keepdims=True)


class Case:
    """One call.

    Args:
        name: its name in the test report.
        function: takes one variable per input.
        inputs: arrays; floating ones are differentiated.
        expected: the result or results, or a function of the inputs that computes them.
        unknown: whether the function works with no known dimension.
        gradient: whether finite differences apply.
        second: whether the second derivative is checked too.
        exact: compare to this relative and absolute precision.
    """

    def __init__(self, name, function, inputs, expected, unknown=True, gradient=True, second=False, exact=2e-5):
        self.name, self.function, self.inputs = name, function, [np.asarray(item) for item in inputs]
        self.expected = expected
        self.unknown, self.gradient, self.second, self.exact = unknown, gradient, second, exact

    def __repr__(self):
        return self.name

    def wanted(self):
        found = self.expected(*self.inputs) if callable(self.expected) else self.expected
        return list(found) if isinstance(found, (list, tuple)) else [found]


def as_list(found):
    return list(found) if isinstance(found, (list, tuple)) else [found]


def run(case, unknown=False):
    """The results on onnxruntime, floating inputs in float32."""
    feeds, variables = {}, []
    for i, array in enumerate(case.inputs):
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        shape = [None] * array.ndim if unknown else list(array.shape)
        variables.append(static.data(f"x{i}", shape, array.dtype.name))
        feeds[f"x{i}"] = array
    results = as_list(case.function(*variables))
    return results, paddle.Executor().run(feed=feeds, fetch_list=results)


def check_values(case, unknown=False):
    variables, found = run(case, unknown)
    wanted = case.wanted()
    assert len(found) == len(wanted)
    for v, got, expected in zip(variables, found, wanted, strict=True):
        expected = np.asarray(expected)
        assert got.shape == expected.shape
        assert v.dtype == got.dtype
        assert (got.dtype.kind == "f") == (expected.dtype.kind == "f")
        assert len(v.shape) == got.ndim and all(n in (-1, m) for n, m in zip(v.shape, got.shape, strict=True))
        np.testing.assert_allclose(got, expected, rtol=case.exact, atol=case.exact)


def check_derivatives(case):
    sample = Sample(*case.inputs, build=lambda op, *items: tuple(as_list(case.function(*items))), second=case.second)
    sample.op_type = case.name
    check_gradient(sample, order=2 if case.second else 1)
