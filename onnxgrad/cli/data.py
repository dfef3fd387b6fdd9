"""The options that say what the data is, and the data that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ArgumentError
from onnxgrad.training.data import Images, Shuffled, Table, Texts, open_data
from onnxgrad.training.data.opening import source_at
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import SEPARATORS
from onnxgrad.training.data.text import Text

__all__ = ["PATHS", "data_named", "opened_inputs", "resolve_paths"]

PATHS = ("model", "data", "val", "tokenizer", "teacher", "characters")
_IMAGES = ("image_size", "image_mean", "image_std", "image_order", "flip", "crop", "color")


def data_named(settings: dict[str, Any], name: str, label: str = "labels") -> Any:
    """The data that a setting names: a path, ``Images``, ``Table``, ``Text`` or ``Texts`` for a tokenizer, or a share.

    Raises:
        ArgumentError: if options do not fit it.
        DataError: if there is nothing there.
    """
    path = settings[name]
    if path is None or isinstance(path, float):
        return path
    if settings.get("tokenizer") is not None and _has_labels(Path(path), settings):
        return Texts(path, settings["tokenizer"], max_length=settings["max_length"])
    if settings.get("tokenizer") is not None:
        return Text(path, settings["tokenizer"], max_length=settings["max_length"], pack=settings["pack"], label=label)
    source = source_at(path)
    image_options = [option for option in _IMAGES if settings.get(option)]
    buffer = settings.get("buffer")
    if isinstance(source, Images):
        changes = {option: settings.get(option) or False for option in ("flip", "crop")} if name == "data" else {}
        return Images(
            path,
            size=_size(settings.get("image_size")),
            mean=settings.get("image_mean"),
            std=settings.get("image_std"),
            order=settings.get("image_order"),
            color=(settings.get("color") or 0.0) if name == "data" else 0.0,
            **changes,
        )
    if image_options and name == "data":
        raise ArgumentError(f"--{image_options[0].replace('_', '-')} is for images; {path!r} holds none. Leave it out.")
    if buffer is not None and isinstance(source, Table):
        return Table(path, stream=True, buffer=buffer)
    if buffer is not None and callable(source):
        return Shuffled(source, buffer=buffer)
    return path


def _has_labels(path: Path, settings: dict[str, Any]) -> bool:
    """Return whether text is a column of a table beside labels; JSON lines are, unless a language model is trained"""
    losses = [settings.get("loss"), *(term[0] for term in settings.get("term") or ())]
    has_labels = any(losses) and "causal_lm" not in losses
    return path.suffix in SEPARATORS and (path.suffix != ".jsonl" or has_labels)


def _size(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdigit() for part in parts):
        raise ArgumentError(f"--image-size takes HxW, such as 48x192, not {text!r}.")
    return [int(part) for part in parts]


def resolve_paths(settings: dict[str, Any]) -> None:
    """Paths of the settings made absolute; a share of the data becomes a number."""
    for name in PATHS:
        value = settings.get(name)
        if value is None:
            continue
        fraction = _fraction_of(value) if name == "val" else None
        settings[name] = str(Path(value).resolve()) if fraction is None else fraction


def _fraction_of(text: str) -> float | None:
    try:
        fraction = float(text)
    except ValueError:
        return None
    if Path(text).exists():
        return None
    if not 0 < fraction < 1:
        raise ArgumentError(f"--val takes a path, or a share of the data between 0 and 1, not {text}.")
    return fraction


def opened_inputs(settings: dict[str, Any], program: Program, targets: list[str]) -> Rows | Stream:
    """The inputs alone of the training data, for statistics."""
    wanted = DataSpec([v.name for v in program.inputs], {v.name: v for v in program.inputs}, program=program, beside=targets)
    return open_data(data_named(settings, "data"), wanted).plain()
