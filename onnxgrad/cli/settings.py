"""The settings of a run: written into its folder, so that it can be resumed and exported by naming the folder alone."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from onnxgrad.cli.common import SETTINGS, sizes_of
from onnxgrad.cli.data import data_named, opened_inputs, unroll_stream
from onnxgrad.cli.options.train import LARGE, MANY
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.sizes import BATCH
from onnxgrad.core.passes.mixed_precision import to_mixed_precision
from onnxgrad.core.runtime.openvino import place_by_name
from onnxgrad.core.runtime.places import Place
from onnxgrad.distributed.environment import current
from onnxgrad.distributed.job import device_number, job_of
from onnxgrad.distributed.strategy import Strategy
from onnxgrad.errors import ArgumentError, ModelError, ProviderError, TrainingError
from onnxgrad.internal.files import read_whole
from onnxgrad.internal.words import DETECTION
from onnxgrad.training.data.characters import KEY
from onnxgrad.training.data.kinds.words import WordsColumn
from onnxgrad.training.data.record import DataRecord, record_in, set_record
from onnxgrad.training.data.rows import Rows
from onnxgrad.training.detection.classes import set_classes
from onnxgrad.training.detection.heads import DetectorHead, recognise_head, set_anchors
from onnxgrad.training.detection.objective import BOXES
from onnxgrad.training.losses.distillation import Distillation
from onnxgrad.training.losses.terms import Term, output_of
from onnxgrad.training.run.folder import BEST, LAST, RunFolder, write_atomically
from onnxgrad.training.surgery.activations import argmax_before
from onnxgrad.training.surgery.adapters import load_adapters
from onnxgrad.training.surgery.batch_norm import MODES, has_statistics, insert_batch_norm
from onnxgrad.training.surgery.heads import insert_dropout, replace_head
from onnxgrad.training.surgery.lora import add_lora
from onnxgrad.training.surgery.packing import mask_packed_texts
from onnxgrad.training.surgery.peft import CONFIG, load_peft
from onnxgrad.training.surgery.ties import tie, untie
from onnxgrad.training.tasks import held_by, plan_task, task_line
from onnxgrad.training.trainer import Trainer

__all__ = [
    "checkpoint_of",
    "choose_task",
    "data_of",
    "loss_terms",
    "make_trainer",
    "model_of",
    "model_path",
    "read_settings",
    "target_columns",
    "write_settings",
]

MODEL = "model.onnx"
_EXAMPLES = 1024
_LAID_OUT = ("ctc", "cross_entropy")


def read_settings(folder: str) -> dict[str, Any]:
    """The settings of a run.

    Raises:
        ArgumentError: if the folder holds none.
    """
    path = Path(folder) / SETTINGS
    if not path.is_file():
        raise ArgumentError(f"there is no {SETTINGS} in {folder!r}. Name the folder that was given to train --out.")
    try:
        settings = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{str(path)!r} is damaged: {error}.") from error
    if not isinstance(settings, dict) or not isinstance(settings.get("model"), str):
        raise ArgumentError(f"{str(path)!r} is damaged: it does not hold the settings of a run.")
    for names, is_sound in _KINDS:
        wrong = [name for name in names if settings.get(name) is not None and not is_sound(settings[name])]
        if wrong:
            value = repr(settings[wrong[0]])[:40]
            raise ArgumentError(
                f"{str(path)!r} is damaged: the setting {wrong[0]!r} cannot be {value}. Correct it, or start a new run."
            )
    return _Settings(settings)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _list_of(is_sound: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_sound, value))


def _texts_of(length: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) == length and all(map(_is_text, value))


def _are_classes(value: Any) -> bool:
    return isinstance(value, dict) and all(_list_of(_is_text)(names) for names in value.values())


_TEXTS = (
    "model", "expand", "device", "precision", "amp", "memory", "data", "image_size", "image_order", "tokenizer", "fill",
    "image_fit", "part", "colours", "task",
    "decimal", "target", "loss", "of", "layout", "characters", "sample_weight", "optimizer", "schedule", "teacher", "head_at",
    "noise", "sound_join", "quantized", "frozen", "qat", "adapter", "monitor", "compress", "rank_batch_norm", "batch_norm_mode",
    "anchor_sides", "pool",
)  # fmt: skip
_WHOLE = (
    "threads", "memory_budget", "buffer", "max_length", "batch_size", "warmup", "accumulate", "lora", "head", "epochs",
    "patience", "max_steps", "evaluate_every", "checkpoint_every", "keep", "seed", "sharding", "overlap", "pipeline",
    "micro_batches", "sound_rate",
)  # fmt: skip
_NUMBERS = (
    "image_white", "color", "label_smoothing", "lr", "weight_decay", "clip_norm", "clip_value", "loss_scale", "temperature",
    "distill", "beta", "ema", "dropout", "alpha", "lora_dropout", "scale", "translate", "mosaic", "sound_length", "sound_hop",
    "sound_full", "shift",
)  # fmt: skip
_SWITCHES = (
    "ignore_record", "skip_broken", "recompute", "flip", "crop", "pack", "rslora", "dora", "drop_last", "no_shuffle", "no_report",
    "curves", "debug",
)  # fmt: skip
_LISTS = (
    "columns", "dim", "class_weights", "metric", "train", "freeze", "untie", "lora_layers", "batch_norm", "dropout_after", "cuts",
    "detector_classes", "anchors", "state",
)  # fmt: skip
_KINDS: tuple[tuple[tuple[str, ...], Callable[[Any], bool]], ...] = (
    (_TEXTS, _is_text),
    (_WHOLE, _is_whole),
    (_NUMBERS, _is_number),
    (_SWITCHES, lambda value: isinstance(value, bool)),
    (_LISTS, _list_of(_is_text)),
    (("tie", "rate"), _list_of(_texts_of(2))),
    (("term",), _list_of(_texts_of(4))),
    (("image_mean", "image_std", "snr"), _list_of(_is_number)),
    (("chunk",), _list_of(_is_whole)),
    (("front",), _list_of(_list_of(_is_text))),
    (("val",), lambda value: _is_text(value) or _is_number(value)),
    (("classes",), _are_classes),
)
"""What settings may be besides null, as the command writes them."""


class _Settings(dict[str, Any]):
    """Settings that say what they lack."""

    def __missing__(self, name: str) -> Any:
        raise ArgumentError(f"the {SETTINGS} of the run has no entry {name!r}. It is damaged, or of another version of onnxgrad.")


def write_settings(run: RunFolder, settings: dict[str, Any]) -> None:
    """Write the settings, and the model beside them unless its weights lie in other files; the folder is the caller's meanwhile.

    Raises:
        TrainingError: if a run is in it.
    """
    program = from_onnx(settings["model"])
    origins = [v.value.origin for v in program.list_vars() if v.value is not None]
    run.check_new()
    if not any(getattr(origin, "external_data", None) for origin in origins):
        write_atomically(run.path / MODEL, read_whole(Path(settings["model"])))
    write_atomically(run.path / SETTINGS, json.dumps(settings, indent=1).encode())


def model_path(settings: dict[str, Any], folder: str | None) -> Path:
    copied = Path(folder) / MODEL if folder is not None else Path(settings["model"])
    path = copied if copied.is_file() else Path(settings["model"])
    if not path.is_file():
        started = "; the run was started with it. Put it back." if folder is not None else ". Name an .onnx file."
        raise ModelError(f"there is no file {str(path)!r}{started}")
    return path


def checkpoint_of(folder: Path, name: str) -> Path:
    """The best or last checkpoint of a run, or one that a path names.

    Raises:
        TrainingError: if there is none.
    """
    path = {"best": folder / BEST, "last": folder / LAST}.get(name, Path(name))
    if name == "best" and not path.is_file():
        path = folder / LAST
    if not path.is_file():
        raise TrainingError(f"there is no checkpoint {str(path)!r}. Has the run written one yet?")
    return path


def _go_on_from(settings: dict[str, Any], program: Program) -> None:
    """Set new adapters to those of a file, or of the best checkpoint of another run"""
    path = Path(settings["adapter"])
    if (path / CONFIG).is_file():
        raise ArgumentError(f"--adapter {path}: adapters of PEFT have a rank and layers of their own. Leave --lora and --on out.")
    if not path.is_dir():
        load_adapters(program, path)
        return
    other = read_settings(str(path))
    for name, option in (("lora", "--lora"), ("alpha", "--alpha"), ("rslora", "--rslora"), ("dora", "--dora")):
        if (other.get(name) or None) != (settings.get(name) or None):
            raise ArgumentError(
                f"--adapter {path}: that run has {option} {other.get(name) or 'unset'}, this one {settings.get(name) or 'unset'}: "
                "the adapters would adapt other weights. Give the same."
            )
    trainer = make_trainer(other, str(path))
    trainer.load(checkpoint_of(path, "best"))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "adapters.safetensors"
        trainer.save_adapters(file)
        load_adapters(program, file)


def make_trainer(settings: dict[str, Any], folder: str | None) -> Trainer:
    """The trainer that the settings describe."""
    program = model_of(settings, folder)
    set_known_record(settings, program, folder)
    if settings.get("characters") is not None:
        program.metadata[KEY] = _characters(Path(settings["characters"]))
    chosen = settings["train"]
    for name in settings["untie"]:
        untie(program, name)
    for kept, replaced in settings["tie"]:
        tie(program, kept, replaced)
    if settings.get("detector_classes"):
        set_classes(program, settings["detector_classes"], seed=settings["seed"])
    if settings["head"] is not None:
        replace_head(program, settings["head_at"], settings["head"], seed=settings["seed"], pool=settings.get("pool"))
    mode, after = _batch_norm(settings, program, folder)
    if mode == "insert":
        # The checkpoint of a run that is resumed or exported holds the statistics.
        sample = None if folder is not None else _sample(settings, program)
        insert_batch_norm(program, after or None, sample)
    if settings["dropout"]:
        insert_dropout(program, settings["dropout_after"], settings["dropout"])
    if settings["lora"] is not None:
        adapters = add_lora(
            program,
            settings["lora_layers"],
            rank=settings["lora"],
            alpha=settings.get("alpha"),
            seed=settings["seed"],
            dropout=settings.get("lora_dropout") or 0.0,
            scaling="root" if settings.get("rslora") else "rank",
            dora=bool(settings.get("dora")),
        )
        if settings.get("adapter") is not None and folder is None:  # a checkpoint holds them later
            _go_on_from(settings, program)
        chosen = [*(chosen or (["head.*"] if settings["head"] is not None else [])), *adapters]
    elif settings.get("adapter") is not None:
        if not (Path(settings["adapter"]) / CONFIG).is_file():
            raise ArgumentError(
                f"--adapter {settings['adapter']} goes with the --lora, --on and --alpha that made it. Give them too."
            )
        adapters = load_peft(program, settings["adapter"])
        chosen = [*(chosen or (["head.*"] if settings["head"] is not None else [])), *adapters]
    if settings.get("pack") and settings.get("tokenizer") is not None:
        mask_packed_texts(program)
    stages = settings.get("pipeline") or 1
    precision = settings.get("precision") or "f32"
    device = settings.get("device") or "cpu"
    place = _place_of(device, "bf16" if precision == "bf16" else "f32", settings, folder is not None)
    if settings.get("amp"):
        if place == "auto" or place.device == "cpu":
            raise ArgumentError("--amp bf16: onnxruntime's CPU provider does not compute in bfloat16. Give --device cuda:0 too.")
        to_mixed_precision(program, "bfloat16")
    unroll_stream(program, settings)
    return Trainer(
        program,
        loss="detection" if settings["loss"] == DETECTION else loss_terms(settings),
        target=settings["target"],
        optimizer=settings["optimizer"],
        learning_rate=settings["lr"],
        schedule=settings["schedule"],
        warmup=settings["warmup"],
        weight_decay=settings["weight_decay"],
        trainable=chosen,
        freeze=settings["freeze"],
        metrics=settings["metric"],
        clip_norm=settings["clip_norm"],
        clip_value=settings.get("clip_value"),
        groups=_groups(settings),
        accumulate=settings["accumulate"],
        loss_scale=settings.get("loss_scale"),
        ema=settings["ema"],
        teacher=_teacher(settings),
        batch_norm="train" if mode == "insert" else mode,
        quantized=settings.get("quantized", "frozen"),  # what runs of older versions did
        frozen=settings.get("frozen"),
        seed=settings["seed"],
        checkpoints="auto" if settings.get("recompute") else None,
        memory_budget=settings.get("memory_budget"),
        sizes=_sizes(program, settings) if settings.get("recompute") or settings.get("memory_budget") else None,
        memory=settings.get("memory"),
        precision="fast" if precision == "fast" else "full",
        threads=settings["threads"],
        place=place,
        distributed=Strategy(
            compress=settings.get("compress"),
            batch_norm=settings.get("rank_batch_norm"),
            sharding=settings.get("sharding") or 0,
            overlap=settings.get("overlap"),
            pipeline=stages,
            micro_batches=settings.get("micro_batches") or (2 * stages if stages > 1 else 1),
            cuts=tuple(settings.get("cuts") or ()),
        ),
    )


def _place_of(device: str, precision: Literal["f32", "bf16"], settings: dict[str, Any], is_run: bool) -> Place | Literal["auto"]:
    """The place of a device; where the first steps of a run chose it and it is not here, they choose again"""
    if device == "auto":
        return "auto"
    place: Place | None = None
    failure: ProviderError | None = None
    try:
        # Ranks of one machine have a GPU each.
        place = place_by_name(f"cuda:{device_number(job_of())}" if device == "cuda" else device, precision)
    except ProviderError as error:
        failure = error
    if settings.get("device_is_chosen"):
        lacking = np.array([place is None], np.uint8)
        current().all_reduce_(lacking, "max")  # ranks choose again together, or none does
        if lacking[0]:
            return "auto"
    if failure is not None and is_run:
        raise ProviderError(f"{failure} Continue the run without it by train --resume FOLDER --device cpu.") from failure
    if place is None:
        raise failure or AssertionError
    return place


def model_of(settings: dict[str, Any], folder: str | None) -> Program:
    """The program of a run's model as its file has it, with anchors that the file lacks

    Raises:
        ArgumentError: if anchors are given that do not fit it.
    """
    program: Program = from_onnx(model_path(settings, folder), expand=settings["expand"])
    anchors = settings.get("anchors")
    if anchors:
        try:
            numbers = [float(part) for pair in anchors for part in pair.split(",")]
        except ValueError as error:
            raise ArgumentError(f"--anchors {' '.join(anchors)!r} are not numbers ({error}). Give such as 10,13 16,30.") from error
        set_anchors(program, numbers, settings.get("anchor_sides") or "square")
    return program


def choose_task(settings: dict[str, Any]) -> str | None:
    """Let data and model say the task where no loss is named: the settings get it, its loss and its metrics.

    Returns:
        A line that says so; None where a loss is named.

    Raises:
        ArgumentError: if they do not say it, or do not fit each other.
    """
    if settings.get("loss") or settings.get("term"):
        return None
    program = model_of(settings, None)
    if settings["head"] is not None:
        replace_head(program, settings["head_at"], settings["head"], pool=settings.get("pool"))
    data = settings["data"] if settings.get("tokenizer") is None else None
    output = output_of(program, settings["of"], [])
    argmax = argmax_before(output)
    scores = output if argmax is None or argmax.inputs[0] is None else argmax.inputs[0]
    held, task = held_by(data, settings["target"]), settings.get("task")
    is_open = held is None or held.kind == "outlines"  # which may be masks
    if is_open and task is None and isinstance(recognise_head(program), DetectorHead):
        task = "detect"
    plan = plan_task(held, scores, task)
    settings.update(task=plan.task, loss=plan.loss, metric=settings["metric"] or plan.metrics)
    return task_line(plan)


def set_known_record(settings: dict[str, Any], program: Program, folder: str | None) -> None:
    """Put the record of a run into its program, for which older runs noted classes alone, or take out what is to be ignored"""
    if settings.get("ignore_record"):
        set_record(program, DataRecord())
    if folder is None:
        return
    record = record_in(Path(folder))
    if record is None and settings.get("classes"):
        record = DataRecord({name: WordsColumn((), tuple(names)) for name, names in settings["classes"].items()})
    if record is not None:
        set_record(program, record)


def _characters(path: Path) -> str:
    try:
        return read_whole(path).decode()
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{str(path)!r} is not written in UTF-8 ({error}). Convert it.") from error


def data_of(settings: dict[str, Any], name: str, record: DataRecord | None = None) -> Any:
    """The data or validation data of a run; ``record`` is of data that the model was trained with before."""
    return data_named(settings, name, target_columns(settings)[0], record)


def target_columns(settings: dict[str, Any]) -> list[str]:
    """The columns of the data that the loss reads besides the inputs."""
    if settings["loss"] == DETECTION:
        return [settings["target"] or BOXES]
    return [term.target for term in loss_terms(settings)]


def _batch_norm(
    settings: dict[str, Any], program: Program, folder: str | None
) -> tuple[Literal["frozen", "train", "insert"], list[str]]:
    """Return the mode of BatchNormalization and the layers it is inserted behind; the settings of a new run get them too"""
    setting = settings["batch_norm"]
    if setting is None:
        # Runs of older versions always trained the statistics.
        mode: Any = settings.get("batch_norm_mode") or ("train" if folder is not None else _default_mode(settings, program))
        settings["batch_norm_mode"] = mode
        return mode, []
    mode, after = (setting[0], setting[1:]) if setting and setting[0] in MODES else ("insert", setting)
    if after and mode != "insert":
        raise ArgumentError(f"--batch-norm {mode} takes no names; {after[0]!r} follows it.")
    return mode, after


def _default_mode(settings: dict[str, Any], program: Program) -> Literal["frozen", "train"]:
    if not has_statistics(program):
        return "train"
    if settings.get("tokenizer") is not None or settings.get("chunk"):
        return "frozen"
    columns = opened_inputs(settings, program, target_columns(settings))
    many = isinstance(columns, Rows) and len(columns) >= MANY and settings["batch_size"] >= LARGE
    return "train" if many else "frozen"


def _sizes(program: Program, settings: dict[str, Any]) -> dict[str, int]:
    """Return the sizes of unknown dimensions: the first ones are the batch, others are set by name"""
    first = {v.dims[0] for v in program.inputs if v.dims and isinstance(v.dims[0], str)}
    return {**dict.fromkeys([BATCH, *sorted(first)], settings["batch_size"]), **sizes_of(settings["dim"])}


def _sample(settings: dict[str, Any], program: Program) -> Any:
    """The first examples of the data, for statistics"""
    rows = opened_inputs(settings, program, target_columns(settings))
    if isinstance(rows, Rows):
        return rows.take(np.arange(min(len(rows), _EXAMPLES)))
    return list(itertools.islice(rows.batches(settings["batch_size"], shuffle=False), _EXAMPLES // settings["batch_size"] + 1))


def _teacher(settings: dict[str, Any]) -> Distillation | None:
    if settings.get("teacher") is None:
        return None
    temperature = settings["temperature"]
    return Distillation(settings["teacher"], 2.0 if temperature is None else temperature, settings["distill"])


def _groups(settings: dict[str, Any]) -> dict[str, dict[str, float]]:
    rates = settings.get("rate") or []
    return {pattern: {"learning_rate": _number(text, "--rate takes PATTERN FACTOR")} for pattern, text in rates}


def loss_terms(settings: dict[str, Any]) -> list[Term]:
    entries = settings["term"] or [(settings["loss"], settings["of"], settings["target"], "1")]
    layout = settings.get("layout")
    if layout is not None and not any(loss in _LAID_OUT for loss, *_ in entries):
        raise ArgumentError("--layout is for the losses ctc and cross_entropy. Leave it out.")
    weights = settings.get("class_weights")
    if weights is not None and weights != ["balanced"]:
        weights = [_number(text, "--class-weights takes balanced, or a number for each class") for text in weights]
    more: dict[str, Any] = {
        "label_smoothing": settings.get("label_smoothing") or 0.0,
        "class_weights": "balanced" if weights == ["balanced"] else weights,
        "sample_weight": settings.get("sample_weight"),
    }
    # Settings of older runs have a temperature for a teacher, where there is none.
    temperature = None if settings.get("teacher") is not None else settings.get("temperature")
    return [
        Term(
            loss,
            output,
            target,
            _number(weight),
            layout=layout if loss in _LAID_OUT else None,
            temperature=temperature if loss == "info_nce" else None,
            beta=settings.get("beta") if loss == "dpo" else None,
            **more,
        )
        for loss, output, target, weight in entries
    ]


def _number(text: str, what: str = "--term ends with a weight (LOSS OUTPUT TARGET WEIGHT)") -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ArgumentError(f"{what}, not {text!r}.") from error
