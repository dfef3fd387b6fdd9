"""What a private run has spent, against published figures and the exact curve of one Gaussian step."""

import sys
from math import exp, sqrt
from statistics import NormalDist

import pytest

from onnxgrad.errors import ArgumentError, OnnxGradError
from onnxgrad.federated import epsilon

GIVEN = {"noise_multiplier": 1.1, "sampling": 0.01, "steps": 100, "delta": 1e-5}


@pytest.mark.parametrize(
    ("given", "published"),
    [
        # Abadi et al., CCS 2016, section 3.2 and figure 2: 1.26 by the moments accountant.
        ({"noise_multiplier": 4.0, "sampling": 0.01, "steps": 10_000, "delta": 1e-5}, 1.26),
        # The example of TensorFlow Privacy: 60 epochs of MNIST in batches of 256, 2.92 by Renyi privacy as of 2017.
        ({"noise_multiplier": 1.12, "sampling": 256 / 60_000, "steps": 14_063, "delta": 1e-5}, 2.92),
    ],
    ids=["Abadi", "MNIST"],
)
def test_the_bound_is_that_of_the_sources_or_the_little_that_conversion_has_gained_since(given, published):
    pytest.importorskip("dp_accounting")
    assert 0.8 * published < epsilon(**given) <= published


@pytest.mark.parametrize("noise", [0.7, 1.0, 3.0])
def test_one_step_of_all_examples_costs_no_less_than_exactly(noise):
    """Balle and Wang, ICML 2018, theorem 8, is the delta of an epsilon"""
    pytest.importorskip("dp_accounting")
    found, cdf = epsilon(noise_multiplier=noise, sampling=1.0, steps=1, delta=1e-5), NormalDist().cdf

    def delta(eps):
        return cdf(1 / (2 * noise) - eps * noise) - exp(eps) * cdf(-1 / (2 * noise) - eps * noise)

    assert delta(found) <= 1e-5 < delta(0.8 * found)


def test_steps_sampling_and_noise_count():
    pytest.importorskip("dp_accounting")
    at = epsilon(**GIVEN)
    assert epsilon(**{**GIVEN, "steps": 400}) > at > epsilon(**{**GIVEN, "noise_multiplier": 2.0})
    assert epsilon(**{**GIVEN, "sampling": 0.04}) > at * sqrt(2)


@pytest.mark.parametrize("wrong", [{"noise_multiplier": 0.0}, {"sampling": 1.5}, {"steps": 0}, {"delta": 0.0}], ids=str)
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ArgumentError, match="noise_multiplier is above 0, sampling above 0"):
        epsilon(**{**GIVEN, **wrong})


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(OnnxGradError, match=r"Install onnxgrad\[privacy\]"):
        epsilon(**GIVEN)
