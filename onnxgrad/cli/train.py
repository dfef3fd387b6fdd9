"""What ``onnxgrad train`` does; its arguments are in ``options/train.py``."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import json
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from onnxgrad.cli import quantized_run
from onnxgrad.cli.common import human, print_notes, say, skipped_line
from onnxgrad.cli.data import check_skipped, resolve_paths
from onnxgrad.cli.detector_run import choose_classes
from onnxgrad.cli.earlier_run import check_folder, take_run
from onnxgrad.cli.generate import compared, print_answers
from onnxgrad.cli.settings import choose_task, data_of, make_trainer, model_path, read_settings, write_settings
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.distributed.environment import init, is_launched, rank
from onnxgrad.distributed.job import job_of
from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.broken import skip_broken
from onnxgrad.training.data.text import Text
from onnxgrad.training.report.preview import write_preview
from onnxgrad.training.report.report import Report
from onnxgrad.training.run.callbacks import Callback
from onnxgrad.training.run.folder import LAST
from onnxgrad.training.run.loggers import loggers
from onnxgrad.training.run.plan import check_fit_options
from onnxgrad.training.run.position import epochs_done
from onnxgrad.training.run.progress import Working
from onnxgrad.training.run.rate_finder import find_learning_rate
from onnxgrad.training.surgery.peft import CONFIG
from onnxgrad.training.trainer import Trainer

_STAGES = {"pipeline", "micro_batches", "cuts"}
"""What may be another with --resume, as ranks may be more or fewer."""

_NOT_SETTINGS = (
    "command", "compare", "config", "explain", "find_lr", "preview", "resume", "json", "log", "more_epochs", "accept_changed_data",
    "named", "rank_timeout", "skipped",
)  # fmt: skip
_WITH_RESUME = {
    "resume", "epochs", "more_epochs", "accept_changed_data", "explain", "json", "log", "rank_timeout", "device", "debug",
}  # fmt: skip
"""What may be said with --resume."""


def run(options: argparse.Namespace) -> int:
    if is_launched():
        init(timeout=options.rank_timeout, backend=_backend(options))
    folder, settings = _settings(options)
    with TemporaryDirectory(prefix="onnxgrad-") as unkept:
        return _run(options, folder, settings, unkept)


def _backend(options: argparse.Namespace) -> str | None:
    """NCCL for ranks on GPUs that torch connects, whose gradients then stay there; None for the engine's choice"""
    job, device = job_of(), options.device
    if job.engine != "torch" or job.world_size == 1:
        return None
    if device is None and options.resume is not None:
        with suppress(ArgumentError):  # which the run says when its ranks have met
            device = read_settings(options.resume).get("device")
    return "nccl" if str(device).partition(":")[0] == "cuda" else None


def _run(options: argparse.Namespace, folder: str, settings: dict[str, Any], unkept: str) -> int:
    """Train, or show what would be trained; ``unkept`` is a folder for files that nobody wants later"""
    is_first, is_new = rank() == 0, not options.resume
    is_kept = options.find_lr is None and options.preview is None
    if is_new and is_kept and is_first:
        check_folder(folder)
    working = Working("reading the model and writing its gradient", options.json or not is_first)
    with working, warnings.catch_warnings(record=True) as caught, skip_broken(bool(settings.get("skip_broken"))) as broken:
        warnings.simplefilter("always", UserWarning)
        begun = take_run(settings, folder if is_kept else unkept, shared=is_kept) if is_new else None
        task = choose_task(settings) if is_new else None
        if is_new:
            choose_classes(settings)
        if settings.get("qat") and is_new:
            working.say("evaluating and quantising the model")
            quantized_run.begin(settings, folder)
        trainer = make_trainer(settings, None if is_new else folder)
        names = ("batch_size", "epochs", "patience", "checkpoint_every", "keep", "max_steps", "evaluate_every")
        check_fit_options(trainer, settings["val"], settings.get("monitor"), **{name: settings.get(name) for name in names})
        working.say("reading the data")
        data = trainer.open(data_of(settings, "data", trainer.record), data_of(settings, "val", trainer.record))
        if settings.get("qat") and is_new:
            working.say("evaluating the quantised model")
            quantized_run.measured(trainer, data[1], settings, folder)
    skipped = Path(options.skipped) if options.skipped else Path(folder) / "skipped.csv" if folder is not None else None
    if options.skipped and is_first:
        broken.write(Path(options.skipped))
    if not options.json and is_first:
        for line in (begun, task):
            if line is not None:
                say(line)
        read = [note for source in data if isinstance(source, Text) for note in source.remarks]
        print_notes([*(warning.message for warning in caught), *read, *trainer.remarks], options.explain)
        if broken:
            say(skipped_line(broken, skipped))
        count = sum(p.get_value().size for p in trainer.trained)
        plan = trainer.program.memory_plan
        if plan is not None:
            recomputed = f"{plan.recomputed} of {plan.operators} operators are recomputed"
            peak, without = human(plan.peak), human(plan.peak_without)
            say(f"activations and gradients take about {peak}, {without} without recomputation; {recomputed}")
        print(f"training {count:,} parameters in {len(trainer.trained)} of {len(trainer.program.parameters)} tensors")
    if options.preview is not None:
        shown = write_preview(trainer, data[0], options.preview, settings["batch_size"])
        print(
            json.dumps({"event": "preview", "file": options.preview, "examples": shown})
            if options.json
            else f"wrote {options.preview}: {shown} examples"
        )
        return 0
    if options.find_lr is not None:
        return _find_rate(trainer, data[0], settings, options)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        said: set[str] = set()
        warnings.showwarning = lambda message, *_: _say_once(str(message), said) if is_first else None
        report = None if settings.get("no_report") else Report(shlex.join(["onnxgrad", *sys.argv[1:]]))
        listed = skipped if settings.get("skip_broken") and not options.skipped else None
        try:
            history = _fit(
                trainer, data, settings, folder, options, report, lambda: None if listed is None else broken.write(listed)
            )
        except SystemExit:
            if is_first:
                _say_how_to_resume(trainer, folder)
            raise
    if settings.get("qat") and not trainer.interrupt.stops:
        table = quantized_run.finish(trainer, data[1], settings, folder)
        if report is not None:
            report.add("Quantisation", *quantized_run.as_rows(folder))
        print(json.dumps({"event": "quantization", "table": table}) if options.json else table)
    if options.compare is not None and is_first and not trainer.interrupt.stops:
        before = from_onnx(model_path(settings, folder if options.resume else None))
        answers = compared(before, trainer.to_inference(), settings, str(settings["data"]), options.compare)
        if report is not None:
            report.add("Answers before and after", *answers)
        if options.json:
            print(json.dumps({"event": "answers", "answers": [dict(zip(answers[0], row, strict=True)) for row in answers[1]]}))
        else:
            print_answers(*answers)
    if trainer.interrupt.stops and is_first:
        _say_how_to_resume(trainer, folder)
    if not options.json and history and is_first:
        say(f"the run is in {folder}; write the model with: onnxgrad export {folder} --inference FILE.onnx")
    return 0


def _say_how_to_resume(trainer: Trainer, folder: str) -> None:
    print(f"stopped at step {trainer.step_number}; resume with: onnxgrad train --resume {folder}", file=sys.stderr)


def _say_once(note: str, said: set[str]) -> None:
    if note not in said:
        said.add(note)
        print(f"note: {note}", file=sys.stderr)


def _find_rate(trainer: Trainer, data: Any, settings: dict[str, Any], options: argparse.Namespace) -> int:
    result = find_learning_rate(trainer, data, batch_size=settings["batch_size"])
    if options.find_lr:
        result.plot(options.find_lr)
    if options.json:
        print(json.dumps({"event": "rate", **result._asdict()}))
    else:
        drawn = f"; loss over rate is in {options.find_lr}" if options.find_lr else ""
        print(f"suggested learning rate: {result.suggestion:.2g} (--lr {result.suggestion:.2g}){drawn}")
    return 0


def _settings(options: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return folder and settings, from the command line or from the run to resume"""
    if options.resume is not None:
        settings = read_settings(options.resume)
        _check_named(options, settings)
        settings.update((name, getattr(options, name)) for name in _STAGES if _STAGES & options.named.keys())
        if options.device is not None:
            _check_device(settings.get("precision"), options.device)
            settings["device"] = options.device
        if options.epochs is not None and options.more_epochs is not None:
            raise ArgumentError(
                "--epochs is the total number of epochs, --more-epochs the number of further epochs. Give one of them."
            )
        if options.epochs is not None:
            settings["epochs"] = options.epochs
        if options.more_epochs is not None:
            settings["epochs"] = epochs_done(Path(options.resume) / LAST) + options.more_epochs
        return options.resume, settings
    check_skipped(vars(options))
    if options.accept_changed_data:
        raise ArgumentError("--accept-changed-data goes with --resume FOLDER. Leave it out for a new run.")
    if options.more_epochs is not None:
        raise ArgumentError("--more-epochs goes with --resume FOLDER. Give --epochs for a new run.")
    if options.term and (options.loss is not None or options.of is not None):
        raise ArgumentError("--term replaces --loss, --output and --target. Give one or the other.")
    for name in ("model", "data", "out"):
        spared = name == "out" and (options.find_lr, options.preview) != (None, None)
        if getattr(options, name) is None and not spared:
            raise ArgumentError(f"train needs {'a model' if name == 'model' else '--' + name}. See onnxgrad train --help.")
    contrasts = options.loss == "info_nce" or any(loss == "info_nce" for loss, *_ in options.term or ())
    is_old = options.temperature == 2.0 and "temperature" not in options.named  # as in settings of older runs
    if options.temperature is not None and not is_old and options.teacher is None and not contrasts:
        raise ArgumentError("--temperature is for a teacher (--teacher), and for the loss info_nce. Leave it out.")
    _check_device(options.precision, options.device or "cpu")
    if options.dropout and not options.dropout_after:
        raise ArgumentError("--dropout needs --dropout-after NAME: operators or tensors.")
    has_own = options.adapter is not None and (Path(options.adapter) / CONFIG).is_file()  # adapters of PEFT
    for option in ("alpha", "rslora", "dora", "lora_dropout", "adapter"):
        if getattr(options, option) and options.lora is None and not (has_own and option == "adapter"):
            raise ArgumentError(f"--{option.replace('_', '-')} is for adapters. Give --lora RANK too, or leave it out.")
    settings = _as_settings(options)
    settings["epochs"] = 5 if options.epochs is None else options.epochs
    return options.out, settings


def _as_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options as the settings of a run hold them"""
    settings = {name: value for name, value in vars(options).items() if name not in (*_NOT_SETTINGS, "out")}
    settings["device"] = options.device or "cpu"
    settings["lora_layers"] = [name for text in options.lora_layers for name in text.split(",") if name]
    resolve_paths(settings)
    return settings


def _check_named(options: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Refuse options that a resumed run cannot have, or has otherwise"""
    said = json.loads(json.dumps(_as_settings(options)))
    named = [name for name in options.named if name not in _WITH_RESUME | _STAGES]
    others = [name for name in named if name == "model" or name not in said or said[name] != settings.get(name)]
    if not others:
        return
    name = "model" if "model" in others else min(others)
    what = "the model" if name == "model" else options.named[name]
    was = settings.get(name)
    has = "" if name == "model" or name not in said else f", which has {'none' if was in (None, []) else was}"
    raise ArgumentError(f"--resume FOLDER continues that run with its settings; leave out {what}{has}.")


def _check_device(precision: str | None, device: str) -> None:
    """Refuse a precision that is computed on another device alone"""
    needed = {"bf16": "openvino", "fast": "cpu"}.get(precision or "f32", device)
    if device != needed:
        raise ArgumentError(f"--precision {precision} is for --device {needed}. Leave it out.")


class _Rows(Callback):
    """Prints the row of each epoch, and what validation gave before the first one."""

    def __init__(self, epochs: int, as_json: bool) -> None:
        self._epochs, self._json = epochs, as_json

    def on_evaluate(self, trainer: Trainer, row: dict[str, Any]) -> None:
        if row["epoch"] == 0:
            self._print("before", "before training", row)

    def on_epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self._print("epoch", f"epoch {row['epoch']}/{self._epochs}", row)

    def _print(self, event: str, title: str, row: dict[str, Any]) -> None:
        if self._json:
            print(json.dumps({"event": event, **row}), flush=True)
        elif not (sys.stderr.isatty() and sys.stdout.isatty() and find_spec("tqdm")):  # where the progress prints it
            values = "  ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in ("epoch", "step"))
            print(f"{title}  {values}", flush=True)


def _choose(trainer: Trainer, source: Any, settings: dict[str, Any], as_json: bool) -> None:
    """Let the first batch choose the device, which the settings of the run then name, and whether gradients overlap"""
    order = {"shuffle": not settings["no_shuffle"], "drop_last": settings["drop_last"], "seed": trainer.seed}
    batch = next(iter(trainer.ranks.source(source).batches(settings["batch_size"], **order)), None)
    if batch is None:
        return  # which fit refuses
    known, place = len(trainer.remarks), None
    if settings.get("device") == "auto":
        place = settings["device"] = trainer.choose_place(batch)
        settings["device_is_chosen"] = True
    overlaps = trainer.choose_overlap(batch)
    if not trainer.ranks.is_first:
        return
    lines = trainer.remarks[known:]
    if place is not None:
        line = lines.pop(0)
        print(json.dumps({"event": "place", "place": place, "note": line}) if as_json else line, flush=True)
    for line in lines:
        print(json.dumps({"event": "overlap", "overlaps": overlaps, "note": line}) if as_json else f"note: {line}", flush=True)


def _fit(
    trainer: Trainer,
    data: Sequence[Any],
    settings: dict[str, Any],
    folder: str,
    options: argparse.Namespace,
    report: Report | None,
    list_skipped: Callable[[], None],
) -> list[dict[str, Any]]:
    with trainer.ranks.folder(folder, settings["keep"]) as run:
        # A run that is resumed takes what its checkpoint says of overlap.
        if settings.get("device") == "auto" or (settings.get("overlap") and options.resume is None):
            _choose(trainer, data[0], settings, options.json)
        if options.resume is None and run is not None and trainer.ranks.is_first:
            write_settings(run, settings)
        if run is not None and trainer.ranks.is_first:
            list_skipped()
        return trainer.fit(
            data[0],
            validation=data[1],
            total_epochs=settings["epochs"],
            batch_size=settings["batch_size"],
            shuffle=not settings["no_shuffle"],
            drop_last=settings["drop_last"],
            out=run,
            resume=options.resume is not None,
            patience=settings["patience"],
            monitor=settings.get("monitor"),
            max_steps=settings.get("max_steps"),
            evaluate_every=settings.get("evaluate_every"),
            checkpoint_every=settings["checkpoint_every"],
            curves=settings["curves"],
            before=data[1] is not None,
            callbacks=[
                _Rows(settings["epochs"], options.json),
                *loggers(options.log, folder),
                *([] if report is None else [report]),
            ],
            verbose="json" if options.json else True,
            accept_changed_data=options.accept_changed_data,
        )
