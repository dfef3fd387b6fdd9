"""Arguments of the Trainer that belong together, as one value each: weights, updates, recomputation, engine.

``Trainer`` takes them one by one, and hands them on as these.

Tests: tests/training/test_trainer.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onnxgrad.core.autodiff.api import Checkpoints
from onnxgrad.core.ir.sizes import SizesGiven
from onnxgrad.core.ir.variable import Parameter
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.places import CPUPlace, Place
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.words import ScheduleName
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.optimizer.optimizer import Optimizer
from onnxgrad.training.data.rows import Data
from onnxgrad.training.optimizers import clipping, grouped, make_optimizer
from onnxgrad.training.run.schedules import planned

__all__ = ["EngineOptions", "RecomputeOptions", "UpdateOptions", "WeightOptions"]


@dataclass(frozen=True)
class WeightOptions:
    """Which parameters train, and what becomes of normalisation and of quantised weights; see ``Trainer``."""

    trainable: str | Sequence[str] | None
    freeze: str | Sequence[str] | None
    batch_norm: Literal["frozen", "train", "insert"] | None
    sample: Data | None
    quantized: str | None
    frozen: str | None


@dataclass(frozen=True)
class UpdateOptions:
    """How gradients change parameters; see ``Trainer``.

    Raises:
        ArgumentError: if ``accumulate`` is below 1.
    """

    optimizer: str | Optimizer
    learning_rate: float | LRScheduler
    schedule: ScheduleName
    warmup: int
    weight_decay: float | None
    clip_norm: float | None
    clip_value: float | None
    groups: Mapping[str, Mapping[str, float]] | None
    accumulate: int
    loss_scale: float | None
    ema: float | None

    def __post_init__(self) -> None:
        if self.accumulate < 1:
            raise ArgumentError(f"accumulate counts micro-batches; it is at least 1, not {self.accumulate}.")

    def make_optimizer(self, parameters: Sequence[Parameter]) -> Optimizer:
        """Create the optimizer of these parameters, with its schedule, clipping and groups.

        Raises:
            ArgumentError: if an option does not fit the optimizer.
            UnknownName: if the pattern of a group fits no parameter.
        """
        rate = planned(self.learning_rate, self.schedule, self.warmup)
        clip = clipping(self.clip_norm, self.clip_value)
        return make_optimizer(self.optimizer, rate, self.weight_decay, clip, grouped(parameters, self.groups))


@dataclass(frozen=True)
class RecomputeOptions:
    """What the backward pass recomputes rather than keeps; see ``append_backward``."""

    checkpoints: Checkpoints
    memory_budget: int | None
    sizes: SizesGiven


@dataclass(frozen=True)
class EngineOptions:
    """Where and how onnxruntime runs the steps; see ``Executor``."""

    place: Place | Literal["auto"] | None
    threads: int | None
    memory: Literal["auto", "low"] | None
    precision: Literal["full", "fast"]

    @property
    def is_open(self) -> bool:
        """Whether the place is chosen by the first step."""
        return self.place == "auto"

    @property
    def first_place(self) -> Place | None:
        """The place until another one is chosen."""
        return CPUPlace() if isinstance(self.place, str) else self.place

    def make_executor(self, threads: int | None, place: Place | None = None) -> Executor:
        """Create the Executor; ``threads`` are those that ranks of one machine leave to this one.

        Args:
            place: the chosen one; None for the first.
        """
        return Executor(place or self.first_place, threads=threads, memory=self.memory, precision=self.precision)
