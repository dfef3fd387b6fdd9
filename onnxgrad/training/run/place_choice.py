"""Time the first steps of a run on each provider that is installed, and keep the fastest: ``Trainer(place="auto")``.

The steps are real ones of the run's first batch, and are undone, so the run is that of the chosen provider from its first step on.
A provider whose losses differ from those of the CPU is refused. So are steps of ranks timed with and without overlap, where it is
asked for: ``Strategy(overlap=4)``.

Tests: tests/training/test_place_choice.py.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from onnxgrad.core.runtime.openvino import OpenVINOPlace
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace, Place, cuda_is_available
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import OnnxGradError, ProviderError

__all__ = [
    "NAMES",
    "TOLERANCE",
    "Timing",
    "choice",
    "described",
    "described_overlap",
    "installed_places",
    "keeps_overlap",
    "measured",
    "rehearsed",
    "timed",
]

NAMES = ("cpu", "openvino", "cuda")
"""The providers, in the order in which they are tried."""

TOLERANCE = 1e-3
"""By what part of the CPU's loss that of another provider may differ in any step of the trial. Steps in float32 that add in another
order are a hundred times closer; a provider that computes in 16 bits, or leaves something out, is not."""
_MARGIN = 0.95
"""A provider takes at most this part of the CPU's time, or the CPU is kept: less is the noise of two steps. So is overlap."""
_UNTIMED, _TIMED = 2, 2
"""Steps that open the session and make room for both copies of the state; steps of which the faster one counts."""


class Timing(NamedTuple):
    """What a trial found of a provider.

    Attributes:
        name: ``cpu``, ``openvino`` or ``cuda``.
        seconds: of a step.
        losses: of all steps of the trial.
        reason: why it is not taken, where it is not; empty otherwise.
    """

    name: str
    seconds: float = 0.0
    losses: tuple[float, ...] = ()
    reason: str = ""


def installed_places() -> dict[str, Place]:
    """The providers that are installed and start, by name; the CPU first.

    Example:
        >>> list(installed_places())[0]
        'cpu'
    """
    places: dict[str, Place] = {"cpu": CPUPlace()}
    makers: dict[str, Callable[[], Place]] = {"openvino": OpenVINOPlace}
    if cuda_is_available():
        makers["cuda"] = CUDAPlace
    for name, make in makers.items():
        try:
            places[name] = make()
        except ProviderError:
            continue  # it is not installed, or does not start here
    return places


class _Undone(Exception):
    """Ends a change of a scope, which then has not happened."""


def measured(
    step: Callable[[], float], scope: Scope, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, tuple[float, ...]]:
    """Take steps, time the last of them, and undo all.

    Args:
        step: takes a step, and returns its loss.
        scope: whose state steps replace.
        clock: gives the time in seconds.

    Returns:
        The seconds of a step, and the losses of all.

    Raises:
        OnnxGradError: whatever a step raises.
    """
    losses: list[float] = []
    seconds: list[float] = []

    def trial() -> None:
        for _ in range(_UNTIMED + _TIMED):
            begun = clock()
            losses.append(step())
            scope.finish()  # updates wait for the end of the change, or for who reads them
            seconds.append(clock() - begun)
        raise _Undone

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is not kept need not be known; the run says it again
            scope.change(trial)
    except _Undone:
        return min(seconds[_UNTIMED:]), tuple(losses)
    raise AssertionError


def timed(
    name: str,
    step: Callable[[], float],
    scope: Scope,
    clock: Callable[[], float] = time.perf_counter,
    is_alone: bool = True,
) -> Timing:
    """Measure the steps of a provider; one that fails is not taken, and the reason says why.

    Args:
        name: of the provider.
        step, scope, clock: as for ``measured``.
        is_alone: False where other ranks wait for each step, so that what fails must fail on all.

    Raises:
        OnnxGradError: whatever a step raises that others wait for.
    """
    try:
        return Timing(name, *measured(step, scope, clock))
    except OnnxGradError as error:
        if not is_alone:
            raise
        return Timing(name, reason=f"fails: {error}")


def rehearsed(step: Callable[[], None]) -> str:
    """Return why a rank alone cannot take a step on a provider, by the first line of the error; empty if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step()
    except OnnxGradError as error:
        return f"fails: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
    return ""


def keeps_overlap(overlapping: float, plain: float) -> bool:
    """Return whether overlap gains more than noise, by the seconds of a step with it and without.

    Example:
        >>> keeps_overlap(0.008, 0.009), keeps_overlap(0.009, 0.009)
        (True, False)
    """
    return overlapping <= _MARGIN * plain


def described_overlap(sessions: int, overlapping: float, plain: float) -> str:
    """One line on what was chosen, with the seconds of a step.

    Example:
        >>> described_overlap(4, 0.0121, 0.009)
        'overlap=4 is left out: a step takes 12.1 ms with it and 9 ms without, on the slowest rank.'
    """
    verb = "kept" if keeps_overlap(overlapping, plain) else "left out"
    figures = f"{overlapping * 1e3:.3g} ms with it and {plain * 1e3:.3g} ms without"
    return f"overlap={sessions} is {verb}: a step takes {figures}, on the slowest rank."


def choice(timings: Mapping[str, Timing]) -> tuple[str, dict[str, Timing]]:
    """The name of the provider to keep, and the timings with the reasons against those that are refused.

    Args:
        timings: by name, of the CPU first, which others are compared with.
    """
    first, *others = timings.values()
    judged = {first.name: first}
    for one in others:
        far = max((_distance(a, b) for a, b in zip(first.losses, one.losses, strict=False)), default=0.0)
        if not one.reason and not far <= TOLERANCE:
            one = one._replace(reason=f"refused: its losses differ by {far:.1e} of those on {first.name}, more than {TOLERANCE:g}")
        judged[one.name] = one
    allowed = [one for one in judged.values() if not one.reason]
    fastest = min(allowed, key=lambda one: one.seconds, default=first)
    return (fastest if fastest.seconds <= _MARGIN * first.seconds else first).name, judged


def described(chosen: str, timings: Mapping[str, Timing]) -> str:
    """One line on what was chosen, with the figures.

    Example:
        >>> described("cpu", {"cpu": Timing("cpu", 0.02), "openvino": Timing("openvino", 0.05)})
        "place 'auto' keeps cpu: a step takes 20 ms on cpu, 50 ms on openvino."
    """
    figures = [f"{one.seconds * 1e3:.3g} ms on {one.name}" for one in timings.values() if not one.reason]
    refused = [f"{one.name} {one.reason.rstrip('.')}" for one in timings.values() if one.reason]
    if len(timings) == 1:
        return f"place 'auto' keeps {chosen}: no other provider can take this step."
    steps = f"a step takes {', '.join(figures)}" if figures else ""
    return f"place 'auto' keeps {chosen}: {'; '.join([*filter(None, [steps]), *refused])}."


def _distance(expected: float, value: float) -> float:
    """By what part a loss differs from another; infinite where one of them is no number"""
    if not (np.isfinite(expected) and np.isfinite(value)):
        return float("inf")
    return abs(value - expected) / max(abs(expected), 1e-12)
