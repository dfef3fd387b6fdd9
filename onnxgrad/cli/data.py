"""The options that say what the data is, and the data that they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ArgumentError
from onnxgrad.training.data import Images, Shuffled, Sounds, Table, Texts, open_data
from onnxgrad.training.data.kinds.sound import SoundColumn
from onnxgrad.training.data.kinds.text import TextColumn
from onnxgrad.training.data.opening import source_at
from onnxgrad.training.data.preferences import Preferences
from onnxgrad.training.data.record import DataRecord, record_of
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import SEPARATORS
from onnxgrad.training.data.text import Text
from onnxgrad.training.losses.preferences import OF_ANSWERS
from onnxgrad.training.surgery.streams import unroll

__all__ = [
    "PATHS",
    "check_skipped",
    "data_named",
    "judged_settings",
    "opened_inputs",
    "resolve_paths",
    "skipped_file",
    "unroll_stream",
]

PATHS = ("model", "data", "val", "tokenizer", "adapter", "teacher", "characters", "colours", "noise")
_CHANGES = ("flip", "crop", "color", "scale", "translate", "mosaic")
_IMAGES = (
    *("image_size", "image_mean", "image_std", "image_order", "image_white", "image_fit", "part", "colours"),
    *_CHANGES,
)
_SOUND_CHANGES = ("noise", "snr", "shift")
_SOUNDS = ("sound_rate", "sound_length", "sound_hop", "sound_join", "sound_full", "front", "chunk", "state", *_SOUND_CHANGES)
_RECORDED = (
    *("image_size", "image_mean", "image_std", "image_order", "image_white", "image_fit", "colours"),
    *("sound_rate", "sound_length", "sound_hop", "sound_join", "sound_full", "chunk"),
    *("columns", "fill", "max_length"),
)
"""Settings whose effect is in the record of the data."""


def data_named(settings: dict[str, Any], name: str, label: str = "labels", record: DataRecord | None = None) -> Any:
    """The data that a setting names: a path, ``Images``, ``Sounds``, ``Table``, ``Text`` or ``Texts`` for a tokenizer, or a share.

    ``record`` says how long texts are where the settings do not.

    Raises:
        ArgumentError: if options do not fit it.
        DataError: if there is nothing there.
    """
    path = settings[name]
    if path is None or isinstance(path, float):
        return path
    of_tables: dict[str, Any] = {
        "columns": _columns(settings.get("columns") or []),
        "fill": _fill(settings.get("fill")) if name == "data" else None,  # as training data is filled
        "decimal": settings.get("decimal"),
    }
    losses = [settings.get("loss"), *(term[0] for term in settings.get("term") or ())]
    if any(loss in OF_ANSWERS for loss in losses):
        if settings.get("tokenizer") is None:
            raise ArgumentError("pairs of answers are text, which needs a tokenizer. Give --tokenizer FILE.json.")
        if settings.get("pack"):
            raise ArgumentError("--pack puts texts into one row, and a pair of answers is two. Leave it out.")
        reference = settings["model"] if "dpo" in losses else None
        return Preferences(path, settings["tokenizer"], max_length=settings["max_length"], reference=reference)
    if settings.get("tokenizer") is not None and _has_labels(Path(path), settings):
        return Texts(path, settings["tokenizer"], max_length=settings["max_length"], **of_tables)
    if settings.get("tokenizer") is not None:
        recorded = () if record is None else record.columns.values()
        lengths = [settings["max_length"], *(column.length for column in recorded if isinstance(column, TextColumn))]
        length = next((length for length in lengths if length is not None), None)
        return Text(path, settings["tokenizer"], max_length=length, pack=settings["pack"], label=label)
    source = source_at(path)
    image_options = [option for option in _IMAGES if settings.get(option)]
    buffer = settings.get("buffer")
    if isinstance(source, Images):
        is_training = name == "data"
        _check_sound_options(path, settings)
        return Images(
            path,
            size=_size(settings.get("image_size")),
            mean=settings.get("image_mean"),
            std=settings.get("image_std"),
            order=settings.get("image_order"),
            white=settings.get("image_white"),
            fit=settings.get("image_fit"),
            part=settings.get("part") if is_training else None,
            colours=settings.get("colours"),
            flip=is_training and bool(settings.get("flip")),
            crop=is_training and bool(settings.get("crop")),
            color=(settings.get("color") or 0.0) if is_training else 0.0,
            scale=(settings.get("scale") or 0.0) if is_training else 0.0,
            translate=(settings.get("translate") or 0.0) if is_training else 0.0,
            mosaic=(settings.get("mosaic") or 0.0) if is_training else 0.0,
            mosaic_epochs=_mosaic_epochs(settings) if is_training else None,
            **of_tables,
        )
    if isinstance(source, Sounds):
        return _sounds(path, settings, name == "data", of_tables)
    if name == "data":
        _check_sound_options(path, settings)
    if image_options and name == "data":
        raise ArgumentError(f"--{image_options[0].replace('_', '-')} is for images; {path!r} has none. Leave it out.")
    if isinstance(source, Table):
        return Table(path, **of_tables) if buffer is None else Table(path, stream=True, buffer=buffer, **of_tables)
    given = [option for option, value in of_tables.items() if value]
    if given and name == "data":
        raise ArgumentError(f"--{given[0]} is for tables; {path!r} is not a table. Leave it out.")
    if buffer is not None and callable(source):
        return Shuffled(source, buffer=buffer)
    return path


def _mosaic_epochs(settings: dict[str, Any]) -> int | None:
    """All epochs but the last tenth, which shows images as they will be judged"""
    epochs = settings.get("epochs")
    return int(epochs) - int(epochs) // 10 if settings.get("mosaic") and epochs else None


def check_skipped(options: dict[str, Any]) -> None:
    """Raise ArgumentError if a file is named for examples that are not left out."""
    if options.get("skipped") and not options.get("skip_broken"):
        raise ArgumentError("--skipped names the list of examples that --skip-broken leaves out. Add --skip-broken.")


def skipped_file(options: dict[str, Any]) -> Path:
    """The file that lists what an evaluation or a prediction left out: the one that is named, in the run, or in this folder."""
    if options.get("skipped"):
        return Path(options["skipped"])
    run = Path(options["model"])
    return run / f"skipped_{options['command']}.csv" if run.is_dir() else Path("skipped.csv")


def _check_sound_options(path: Any, settings: dict[str, Any]) -> None:
    given = [option for option in _SOUNDS if settings.get(option)]
    if given:
        raise ArgumentError(f"--{given[0].replace('_', '-')} is for sounds; {path!r} has none. Leave it out.")


def _sounds(path: Any, settings: dict[str, Any], is_training: bool, of_tables: dict[str, Any]) -> Sounds:
    given = [option for option in _IMAGES if settings.get(option)]
    if given and is_training:
        raise ArgumentError(f"--{given[0].replace('_', '-')} is for images; {path!r} holds sounds. Leave it out.")
    if settings.get("snr") and not settings.get("noise"):
        raise ArgumentError("--snr is the signal-to-noise ratio of --noise. Give --noise too, or leave --snr out.")
    changes: dict[str, Any] = {}
    if is_training:
        changes = {"noise": settings.get("noise"), "shift": (settings.get("shift") or 0.0) / 1000}
        changes.update({"snr": settings["snr"]} if settings.get("snr") else {})
    return Sounds(
        path,
        rate=settings.get("sound_rate"),
        length=settings.get("sound_length"),
        hop=settings.get("sound_hop"),
        join=settings.get("sound_join"),
        full=settings.get("sound_full"),
        chunk=settings.get("chunk"),
        fronts=[(file, _whole(hop[0]) if hop else None) for file, *hop in settings.get("front") or ()],
        **changes,
        **of_tables,
    )


def unroll_stream(program: Program, settings: dict[str, Any]) -> list[str]:
    """Let a model of a stream take all chunks at once, where the settings or the record of the data say that it is one."""
    columns = record_of(program).columns.values()
    recorded = next((column for column in columns if isinstance(column, SoundColumn) and column.chunk), None)
    entries = list(settings.get("state") or (() if recorded is None else recorded.states))
    wrong = [entry for entry in entries if not all(entry.partition("="))]
    if wrong:
        raise ArgumentError(f"--state takes IN=OUT, the input and the output of a state, not {wrong[0]!r}.")
    if not settings.get("chunk") and recorded is None:
        if entries:
            raise ArgumentError("--state needs --chunk, the samples of a chunk. Give both.")
        return []
    rate = settings.get("sound_rate") or (None if recorded is None else recorded.rate)
    states = {entry.partition("=")[0]: entry.partition("=")[2] for entry in entries}
    return unroll(program, states or None, rate)


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise ArgumentError(f"--front takes FILE.onnx, and the steps from one of its windows to the next, not {text!r}.")
    return int(text)


def _columns(entries: Sequence[str]) -> dict[str, list[str]]:
    """``["x=a,b"]`` as a dict"""
    columns = {}
    for text in entries:
        name, _, names = text.partition("=")
        if not name or not all(names.split(",")):
            raise ArgumentError(f"--columns takes INPUT=A,B, such as x=length,width, not {text!r}.")
        columns[name] = names.split(",")
    return columns


def _fill(text: str | None) -> str | float | None:
    if text is None or text in ("median", "mean"):
        return text
    try:
        return float(text)
    except ValueError as error:
        raise ArgumentError(f"--fill takes median, mean or a number, not {text!r}.") from error


def judged_settings(settings: dict[str, Any], options: dict[str, Any], record: DataRecord) -> dict[str, Any]:
    """Settings of a run for data to judge: what the command says counts first, then the record, then the settings of the run."""
    known = {name: value for name, value in settings.items() if not (record.columns and name in _RECORDED)}
    unset = dict.fromkeys(_RECORDED)
    said = {name: options[name] for name in (*settings, *_RECORDED, "decimal") if options.get(name) not in (None, [])}
    return {**unset, **known, **said, **dict.fromkeys(_CHANGES, 0), **dict.fromkeys(_SOUND_CHANGES)}


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
    if settings.get("front"):
        settings["front"] = [_front_of(entry) for entry in settings["front"]]


def _front_of(entry: Sequence[str]) -> list[str]:
    if not 0 < len(entry) < 3:
        raise ArgumentError(f"--front takes FILE.onnx, and the steps from one of its windows to the next, not {' '.join(entry)}.")
    return [str(Path(entry[0]).resolve()), *entry[1:]]


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
    wanted = DataSpec.of(program.inputs, program=program, beside=targets)
    return open_data(data_named(settings, "data"), wanted).plain()
