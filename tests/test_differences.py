"""Derivatives by differences: the error estimate holds the true derivative, for steep, kinked and noisy functions."""

import math

import numpy as np
import pytest

from onnxgrad.testing.differences import differentiate, kink_at_zero, noise_of

FUNCTIONS = {
    "a line": (lambda t: 3.0 * t + 1.0, 3.0),
    "steep": (lambda t: math.sin(1e3 * t), 1e3),
    "steeper than the first steps": (lambda t: math.sin(1e5 * t + 0.3), 1e5 * math.cos(0.3)),
    "curved": (lambda t: math.exp(5.0 * t), 5.0),
    "large beside its slope": (lambda t: 1e6 + t, 1.0),
    "kinks nearby": (lambda t: max(0.0, t + 1e-4) + max(0.0, 2.0 * t - 2e-4), 1.0),
    "steps nearby": (lambda t: t + math.floor(t * 50.0 + 0.5), 1.0),
    "small": (lambda t: 1e-9 * t, 1e-9),
    "constant": (lambda t: 2.0, 0.0),
    "odd powers": (lambda t: t + 40.0 * t**3 - 900.0 * t**5, 1.0),
    "not a number at first": (lambda t: math.nan if abs(t) > 1e-3 else 7.0 * t, 7.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("step", [1.0, 0.03, 3e-4])
def test_the_estimate_holds_the_derivative(name, step):
    f, true = FUNCTIONS[name]
    noise = noise_of(f, f(0.0), 1e-15 * step) + 1e-16 * abs(f(0.0))
    found = differentiate(f, step, noise)
    assert abs(found.value - true) <= found.error
    assert found.error <= 1e-3 * abs(true) + 20.0 * noise / found.step


@pytest.mark.parametrize("seed", range(20))
def test_rounding_is_measured_and_makes_the_estimate_wide(seed):
    """f as a computation in float32 gives it: the value depends on t, rounded at random."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 1, 2000), rng.normal(0, 1, 2000)

    def f(t):
        return float(np.sum(np.tanh(a.astype(np.float32) + np.float32(t) * b.astype(np.float32)), dtype=np.float32))

    true = float((b / np.cosh(a.astype(np.float32)) ** 2).sum())
    noise = noise_of(f, f(0.0), 1e-7)
    assert 1e-7 < noise < 1e-3
    found = differentiate(f, 0.03, noise)
    assert abs(found.value - true) <= found.error <= 0.05 * abs(true) + 0.05


@pytest.mark.parametrize("steepness", [1e7, 1e9, 1e11])
def test_a_claim_that_large_steps_cannot_tell_is_looked_at_with_small_ones(steepness):
    found = differentiate(lambda t: math.sin(steepness * t), 0.03, 1e-16, claimed=steepness)
    assert abs(found.value - steepness) <= found.error <= 0.01 * steepness


@pytest.mark.parametrize(("noise", "tiny"), [(0.1, 1e-15), (2.0, 1e-9)])
def test_a_claim_that_no_step_can_tell_is_not_refuted(noise, tiny):
    found = differentiate(lambda t: math.sin(1e12 * t), 0.03, noise, claimed=1e12, tiny=tiny)
    assert abs(found.value - 1e12) <= found.error


def test_a_claim_about_a_constant_is_refuted():
    found = differentiate(lambda t: 2.0, 0.03, 1e-16, claimed=5.0)
    assert found.value == 0.0 and found.error < 1e-9


def test_nothing_finite_is_no_estimate():
    assert differentiate(lambda t: math.nan, 1.0, 0.0).error == math.inf


@pytest.mark.parametrize("slopes", [(0.0, 1.0), (-3.0, 2.0), (1.0, 1.0)])
def test_a_kink_has_the_difference_of_its_slopes(slopes):
    left, right = slopes
    jump = kink_at_zero(lambda t: 5.0 + (right * t if t > 0 else left * t) + t * t, 5.0, 1e-4, 1e-16)
    assert jump == pytest.approx(right - left, abs=1e-7)


def test_a_smooth_function_has_no_kink():
    assert kink_at_zero(lambda t: math.exp(3.0 * t), 1.0, 1e-4, 2e-16) <= 1e-6
