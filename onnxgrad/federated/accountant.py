"""Account for the privacy that DP-SGD has spent: the accountant is the package dp-accounting."""

from __future__ import annotations

from onnxgrad.errors import ArgumentError, OnnxGradError
from onnxgrad.internal.arguments import checked

__all__ = ["epsilon"]


@checked
def epsilon(*, noise_multiplier: float, sampling: float, steps: int, delta: float) -> float:
    """The epsilon that a run of ``private_gradients`` has spent at a delta.

    Every step adds normal noise to a sum over a batch that each example enters with the same probability, by itself, which is
    ``Worker.fit(sampling="poisson")``; batches of a shuffled epoch are not drawn so, and no bound is given for them. Neighbours
    differ by one example more or less. Renyi differential privacy of the sampled Gaussian mechanism, composed over the steps:
    Mironov, Talwar and Zhang, "Renyi differential privacy of the sampled Gaussian mechanism", 2019; computed by dp-accounting.

    Args:
        noise_multiplier: as for ``private_gradients``, above 0.
        sampling: the probability with which an example enters a batch: the mean batch over the number of examples.
        steps: updates in all, over all rounds.
        delta: the probability with which epsilon may not hold; below 1 over the number of examples.

    Returns:
        An upper bound; infinity where none is found.

    Raises:
        ArgumentError: if a number is out of range.
        OnnxGradError: if dp-accounting is not installed.

    Example:
        >>> epsilon(noise_multiplier=1.1, sampling=256 / 60_000, steps=3510, delta=1e-5)  # doctest: +SKIP
        1.2803655751530596
    """
    if not (noise_multiplier > 0 and 0 < sampling <= 1 and steps >= 1 and 0 < delta < 1):
        raise ArgumentError(
            "noise_multiplier is above 0, sampling above 0 and at most 1, steps at least 1 and delta between 0 and 1; given are "
            f"{noise_multiplier}, {sampling}, {steps} and {delta}."
        )
    try:
        from dp_accounting import dp_event
        from dp_accounting.rdp import RdpAccountant
    except ImportError as error:
        raise OnnxGradError("epsilon is computed by the package dp-accounting. Install onnxgrad[privacy].") from error
    step = dp_event.PoissonSampledDpEvent(sampling, dp_event.GaussianDpEvent(noise_multiplier))
    return float(RdpAccountant().compose(step, steps).get_epsilon(delta))
