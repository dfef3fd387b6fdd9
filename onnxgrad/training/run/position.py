"""The position of a run: kept as JSON in a checkpoint, and believed only if a run can have come there.

Tests: tests/training/test_checkpoints.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from onnxgrad.errors import ModelError, TrainingError
from onnxgrad.internal.tensor_file import SHARDS, damaged, read_metadata
from onnxgrad.optimizer.lr import LRScheduler
from onnxgrad.training.data.fingerprints import Fingerprints
from onnxgrad.training.run.plan import Row

__all__ = ["Position", "check_position", "check_schedule", "epochs_done", "position_of"]

ENTRIES = {"graph", "overlap", "place", "position", "targets"}
"""What a Trainer stores in the metadata of a checkpoint."""


@dataclass(frozen=True)
class Position:
    """The state of a run that a checkpoint holds besides tensors."""

    epoch: int
    batch: int
    step: int
    seed: int
    accumulate: int
    examples: int
    totals: dict[str, float]
    history: list[Row]
    before: Row | None = None
    best: float | None = None
    schedule: dict[str, Any] | None = None
    begun: int = 0
    files: Fingerprints = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


_COUNTS = ("epoch", "batch", "step", "accumulate", "examples", "begun")
_REQUIRED = ("epoch", "batch", "step", "seed", "accumulate", "examples", "totals", "history", "best", "schedule")


def position_of(metadata: Mapping[str, str], path: str | Path) -> Position:
    """The position in the metadata of a checkpoint.

    Raises:
        ModelError: if there is none, a field is missing or of another type, or no run can reach that position.
    """
    for name in sorted(metadata.keys() - ENTRIES):
        raise damaged(path, f"its metadata has an entry {name!r}, which no Trainer writes")
    if "position" not in metadata:
        raise ModelError(
            f"{str(path)!r} is not a checkpoint of a Trainer: its metadata holds no position. Name one that fit wrote."
        )
    try:
        state = json.loads(metadata["position"])
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its metadata entry 'position' is not JSON ({error})") from error
    wrong = _wrong(state)
    if wrong is not None:
        raise damaged(path, f"its position {wrong}")
    return Position(**state)


def check_position(position: Position, path: str | Path, batches: int | None, **settings: int) -> None:
    """Raise TrainingError unless a run with these settings, whose epochs have so many batches, can go on from there."""
    for name, now in settings.items():
        was = getattr(position, name)
        if was != now:
            raise TrainingError(f"{str(path)!r} was written with {name}={was}, this is {name}={now}.")
    if batches is not None and position.batch > batches:
        message = f"{str(path)!r} stands at batch {position.batch} of epoch {position.epoch + 1}, which has {batches} batches"
        raise TrainingError(f"{message}. Use the data and the batch size of the run.")


def check_schedule(schedule: LRScheduler | None, position: Position, path: str | Path) -> None:
    """Raise ModelError unless the state of a schedule has the fields that the Trainer's has, of the same kinds."""
    if schedule is None or position.schedule is None:
        return
    wrong = _unlike(schedule.state_dict(), position.schedule)
    if wrong is not None:
        raise damaged(path, f"its position lacks a proper {wrong!r} of the schedule {type(schedule).__name__}")


def _unlike(own: Mapping[str, Any], stored: Mapping[str, Any]) -> str | None:
    """Return the first field that the stored state lacks, or holds with another type"""
    for name, value in own.items():
        other = stored.get(name)
        if isinstance(value, dict):
            inner = _unlike(value, other) if isinstance(other, dict) else ""
            if inner is not None:
                return f"{name}.{inner}".removesuffix(".")
        elif name not in stored or not (_is_number(other) or (other is None and name not in LRScheduler._keys)):
            return name
    return None


def epochs_done(path: str | Path) -> int:
    """Return the number of epochs a run had finished when its Trainer wrote this checkpoint.

    Raises:
        ModelError: if the file cannot be read, or no Trainer wrote it.
    """
    metadata = read_metadata(path)
    metadata.pop(SHARDS, None)  # of a run on ranks
    return position_of(metadata, path).epoch


def _wrong(state: Any) -> str | None:
    """Describe the first invalid field of a position; None if all are valid"""
    if not isinstance(state, dict):
        return "is not an object with fields"
    missing = [name for name in _REQUIRED if name not in state]
    if missing:
        return f"lacks the field {missing[0]!r}"
    unknown = sorted(state.keys() - {known.name for known in fields(Position)})
    if unknown:
        return f"has a field {unknown[0]!r}, which no Trainer writes"
    for name, value in state.items():
        if not _fits(name, value):
            return f"has {name}={_short(value)}, which is not {_KINDS.get(name, 'a whole number of at least 0')}"
    return _unreachable(state)


_KINDS = {
    "seed": "a whole number",
    "totals": "a sum by name",
    "weights": "a sum by name",
    "history": "a list of rows",
    "before": "a row",
    "best": "a number",
    "schedule": "the state of a schedule",
    "files": "the size and sha256 of files",
}


def _fits(name: str, value: Any) -> bool:
    if name in _COUNTS:
        return _is_whole(value) and value >= (name == "accumulate")
    if name == "seed":
        return _is_whole(value)
    if name in ("totals", "weights"):
        return isinstance(value, dict) and all(map(_is_number, value.values()))
    if name == "history":
        return isinstance(value, list) and all(isinstance(row, dict) for row in value)
    if name == "best":
        return value is None or _is_number(value)
    if name == "files":
        return isinstance(value, dict) and all(
            isinstance(file, dict) and {"size", "sha256"} <= file.keys() for file in value.values()
        )
    return value is None or isinstance(value, dict)


def _is_fingerprint(file: Any) -> bool:
    return isinstance(file, dict) and _is_whole(file.get("size")) and isinstance(file.get("sha256"), str)


def _unreachable(state: dict[str, Any]) -> str | None:
    """Each epoch has a batch, and each batch is a step"""
    epoch, batch, step, begun = state["epoch"], state["batch"], state["step"], state.get("begun", 0)
    if step < epoch + batch:
        return f"has batch={batch} of epoch={epoch} after step={step}, which no run can reach"
    if begun > epoch:
        return f"has begun={begun}, later than epoch={epoch}"
    if len(state["history"]) != epoch:
        return f"has a history of {len(state['history'])} rows after epoch={epoch}"
    if not batch and (state["examples"] or state["totals"]):
        return f"has examples={state['examples']} in an epoch that has not begun"
    return None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
