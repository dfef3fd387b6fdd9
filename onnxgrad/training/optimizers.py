"""Optimizers by name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from onnxgrad import optimizer as available
from onnxgrad.core.ir.variable import Parameter
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.optimizer.clip import ClipGradByGlobalNorm, ClipGradByValue, GradientClip
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer

__all__ = ["clipping", "grouped", "make_optimizer", "optimizer_names"]


def _classes() -> dict[str, type[Optimizer]]:
    classes = {name: getattr(available, name) for name in available.__all__}
    return {
        name.lower(): cls
        for name, cls in classes.items()
        if inspect.isclass(cls) and issubclass(cls, Optimizer) and cls._update is not Optimizer._update
    }


def optimizer_names() -> list[str]:
    """Return the names that ``make_optimizer`` accepts."""
    return sorted(_classes())


def clipping(norm: float | None, value: float | None) -> GradientClip | None:
    """Gradient clipping by the global norm or by value.

    Raises:
        ArgumentError: if both are given, or a limit is not above 0.
    """
    if norm is not None and value is not None:
        raise ArgumentError("clip_norm limits the norm of all gradients, clip_value each element. Give one of them.")
    for name, limit in (("clip_norm", norm), ("clip_value", value)):
        if limit is not None and not 0 < limit < math.inf:
            raise ArgumentError(f"{name} is a limit above 0, not {limit}.")
    if norm is not None:
        return ClipGradByGlobalNorm(float(norm))
    return None if value is None else ClipGradByValue(float(value))


def grouped(parameters: Sequence[Parameter], groups: Mapping[str, Mapping[str, float]] | None) -> list[dict[str, Any]] | None:
    """Groups of parameters as optimizers take them; the first pattern that fits a name counts.

    Raises:
        UnknownName: if a pattern fits no parameter that is trained.
        ArgumentError: if an option is unknown, or a factor is negative.
    """
    if not groups:
        return None
    left = list(parameters)
    parameter_groups: list[dict[str, Any]] = []
    for pattern, options in groups.items():
        unknown = sorted(set(options) - {"learning_rate", "weight_decay"})
        if unknown or any(not 0 <= float(value) < math.inf for value in options.values()):
            message = f"the group {pattern!r} has {dict(options)}"
            raise ArgumentError(f"{message}; a group has learning_rate (a factor) and weight_decay, each at least 0.")
        chosen = [p for p in left if fnmatchcase(p.name, pattern)]
        if not chosen:
            raise UnknownName(f"no trained parameter that is left fits the pattern {pattern!r} of groups=. See onnxgrad info.")
        parameter_groups.append({"params": chosen, **options})
        left = [p for p in left if not fnmatchcase(p.name, pattern)]
    return [*parameter_groups, {"params": left}] if left else parameter_groups


def make_optimizer(
    optimizer: str | Optimizer,
    learning_rate: float | LRScheduler,
    weight_decay: float | None,
    clip: Any,
    groups: list[dict[str, Any]] | None = None,
) -> Optimizer:
    """Create an optimizer from its name; an optimizer object is returned as it is.

    Raises:
        ArgumentError: if there is none of that name, or it has no weight decay.
    """
    if isinstance(optimizer, Optimizer):
        if groups is not None or clip is not None or weight_decay is not None:
            message = "groups, clipping and weight decay are settings of the optimizer"
            raise ArgumentError(f"{message}; give them to {type(optimizer).__name__}, or name the optimizer: 'adamw'.")
        return optimizer
    if isinstance(learning_rate, (int, float)) and not 0 <= learning_rate < math.inf:
        raise ArgumentError(f"the learning rate is a number of at least 0, not {learning_rate}.")
    if weight_decay is not None and not 0 <= weight_decay < math.inf:
        raise ArgumentError(f"weight_decay is a number of at least 0, not {weight_decay}.")
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
    if groups is not None:
        settings["parameters"] = groups
    return cls(**settings)
