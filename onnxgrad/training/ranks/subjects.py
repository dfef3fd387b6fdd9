"""List what ranks compare before the first step: data, plan, seed, schedule, place in the run and versions.

Tests: tests/distributed/test_agreement.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnxgrad.distributed.agreement import Subject, fingerprint, versions
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.training.data.fingerprints import described
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.run.callbacks import Callbacks
from onnxgrad.training.run.plan import FitPlan

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["fit_subjects", "sweep_subjects", "trainer_subjects"]

_SAME_DATA = "Give all ranks the same data"

_PLAN = {
    "batch_size": "another batch size",
    "epochs": "another number of epochs in all",
    "max_steps": "another number of steps in all",
    "shuffle": "another order of the data: shuffle",
    "drop_last": "another last batch: drop_last",
    "patience": "another patience",
    "monitor": "another value to monitor",
    "evaluate_every": "other steps to evaluate at: evaluate_every",
    "checkpoint_every": "other steps to write checkpoints at: checkpoint_every",
}


def trainer_subjects(trainer: Trainer) -> dict[str, Subject]:
    """List what a Trainer compares before its first step, by what a rank that differs has."""
    state, rate = trainer.state, trainer.optimizer.get_lr()
    place = f"step {state.step}, batch {state.batch} of epoch {state.epoch + 1}, run begun in epoch {state.begun + 1}"
    return {
        **versions(),
        "another seed": Subject(trainer.seed, "Pass the same seed to the Trainer on all ranks"),
        "another accumulate": Subject(trainer.accumulate, "Pass the same accumulate to the Trainer on all ranks"),
        "another place in the run": Subject(place, "Load, or resume from, the same checkpoint on all ranks"),
        "another learning rate": Subject(rate, "Set the same learning rate on all ranks"),
        "another schedule": Subject(_described(trainer.schedule), "Pass the same schedule to the Trainer on all ranks"),
        **fingerprint(trainer.program, [], trainer.ranks.strategy),
    }


def fit_subjects(
    trainer: Trainer, source: Rows | Stream, held_out: Rows | Stream | None, writes: bool, plan: FitPlan
) -> dict[str, Subject]:
    """List what ranks compare before ``fit`` takes its first step, by what a rank that differs has.

    Args:
        trainer: that fits.
        source, held_out: training and validation data, opened.
        writes: whether there is a folder for checkpoints.
        plan: of the run.
    """
    files = trainer.state.files
    count = source.count(plan.batch_size, plan.drop_last) if isinstance(source, Stream) else None
    heard = Callbacks(plan.callbacks).hear("on_step")
    return {
        **trainer_subjects(trainer),
        "other training data": Subject(described(source, files.get("data"), count), _SAME_DATA),
        "other validation data": Subject(described(held_out, files.get("validation")), _SAME_DATA),
        **{words: Subject(getattr(plan, name), f"Pass the same {name} to fit on all ranks") for name, words in _PLAN.items()},
        "another choice of whether checkpoints are written": Subject(writes, "Pass out= on all ranks, or on none"),
        "another choice of whether callbacks have on_step": Subject(heard, "Pass the same callbacks on all ranks"),
    }


def sweep_subjects(trainer: Trainer, source: Rows | Stream, batch_size: int, rates: Sequence[float]) -> dict[str, Subject]:
    """List what ranks compare before ``find_learning_rate`` takes its first step, by what a rank that differs has.

    Args:
        trainer: whose model is trained.
        source: training data, opened.
        batch_size: examples in a batch.
        rates: the lowest and the highest rate, and the number of steps.
    """
    return {
        **trainer_subjects(trainer),
        "other training data": Subject(described(source), _SAME_DATA),
        "another batch size": Subject(batch_size, "Pass the same batch_size on all ranks"),
        "other rates to try": Subject(list(rates), "Pass the same lowest, highest and steps on all ranks"),
    }


def _described(value: Any) -> str:
    """A schedule and its options, without addresses in memory"""
    if isinstance(value, LRScheduler):
        return f"{type(value).__name__}({_described(vars(value))})"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_described(one)}" for name, one in sorted(value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_described, value))}]"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return str(getattr(value, "__qualname__", type(value).__name__))
