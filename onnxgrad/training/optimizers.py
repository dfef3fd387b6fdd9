"""Optimizers by name."""

from __future__ import annotations

import inspect
from typing import Any

from onnxgrad import optimizer as available
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["make_optimizer", "optimizer_names"]


def _classes() -> dict[str, type[Optimizer]]:
    found = {name: getattr(available, name) for name in available.__all__}
    return {
        name.lower(): cls
        for name, cls in found.items()
        if inspect.isclass(cls) and issubclass(cls, Optimizer) and cls is not Optimizer
    }


def optimizer_names() -> list[str]:
    """What ``make_optimizer`` knows."""
    return sorted(_classes())


def make_optimizer(
    optimizer: str | Optimizer, learning_rate: float | LRScheduler, weight_decay: float | None, clip: Any
) -> Optimizer:
    """An optimizer from its name; one that is an object already is given back.

    Raises:
        ArgumentError: if there is none of that name, or it has no weight decay.
    """
    if isinstance(optimizer, Optimizer):
        return optimizer
    cls = _classes().get(str(optimizer).lower())
    if cls is None:
        raise ArgumentError(f"there is no optimizer {optimizer!r}. Use one of {optimizer_names()}.")
    settings: dict[str, Any] = {"learning_rate": learning_rate, "grad_clip": clip}
    if weight_decay is not None:
        known = inspect.signature(cls).parameters
        name = next((name for name in ("weight_decay", f"{optimizer}_weight_decay".lower()) if name in known), None)
        if name is None:
            raise ArgumentError(f"the optimizer {optimizer!r} has no weight decay. Leave it away, or choose another.")
        settings[name] = weight_decay
    return cls(**settings)
