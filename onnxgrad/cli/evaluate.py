"""What ``onnxgrad evaluate`` does; its arguments are in ``options/evaluate.py``."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onnxgrad.cli.common import print_json, print_notes, say, skipped_line
from onnxgrad.cli.data import check_skipped, data_named, judged_settings, resolve_paths, skipped_file, unroll_stream
from onnxgrad.cli.generate import compared, print_answers
from onnxgrad.cli.settings import checkpoint_of, make_trainer, model_path, read_settings
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.words import DETECTION
from onnxgrad.training.data.broken import skip_broken
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.losses.terms import Term
from onnxgrad.training.surgery.packing import mask_packed_texts
from onnxgrad.training.trainer import Trainer


def run(options: argparse.Namespace) -> int:
    if options.data is None:
        raise ArgumentError("evaluate needs --data. See onnxgrad evaluate --help.")
    if options.batch_size < 1:
        raise ArgumentError(f"--batch-size is at least 1, not {options.batch_size}.")
    arguments = vars(options)
    check_skipped(arguments)
    resolve_paths(arguments)
    settings: dict[str, Any] = {}
    if Path(options.model).is_dir():
        if options.loss or options.output or options.target:
            raise ArgumentError("a run has its loss; --loss, --output and --target are for an .onnx file. Leave them out.")
        trainer, settings = run_of(options.model, options.checkpoint, options.metric)
        if options.ignore_record:
            trainer.take_record(DataRecord())
        arguments = judged_settings(settings, arguments, trainer.record)
    elif options.loss is None:
        raise ArgumentError("evaluate needs --loss for an .onnx file. See onnxgrad evaluate --help.")
    else:
        term = None if options.loss == DETECTION else Term(options.loss, options.output, options.target)
        program = from_onnx(options.model)
        if arguments["pack"] and arguments["tokenizer"] is not None:
            mask_packed_texts(program)
        unroll_stream(program, arguments)
        trainer = Trainer(program, loss=term or "detection", target=options.target, metrics=options.metric or ())
        if options.ignore_record:
            trainer.take_record(DataRecord())
    with skip_broken(options.skip_broken) as broken:
        opened = trainer.opened(data_named(arguments, "data", trainer.terms[0].target, trainer.record))
    if options.skip_broken:
        broken.write(skipped_file(vars(options)))
    metrics: dict[str, Any] = trainer.evaluate(opened, batch_size=options.batch_size)
    answers = None if options.compare is None else _answers(trainer, arguments, settings, options)
    if options.json:
        if options.skip_broken:
            metrics["skipped"] = len(broken)
        if answers is not None:
            metrics["answers"] = [dict(zip(answers[0], row, strict=True)) for row in answers[1]]
        print_json(metrics)
    else:
        print_notes(opened.remarks, everything=True)
        if broken:
            say(skipped_line(broken, skipped_file(vars(options))))
        print("  ".join(f"{name} {value:.4g}" for name, value in metrics.items()))
    if answers is not None and not options.json:
        print_answers(*answers)
    return 0


def _answers(
    trainer: Trainer, arguments: dict[str, Any], settings: dict[str, Any], options: argparse.Namespace
) -> tuple[list[str], list[list[str]]]:
    """Answers of the model that a run began with, and of what it is now"""
    if not settings:
        raise ArgumentError("--compare is for a run, which has a model before and after. Name its folder.")
    before = from_onnx(model_path(settings, options.model))
    return compared(before, trainer.to_inference(), {**settings, **arguments}, str(arguments["data"]), options.compare)


def run_of(folder: str, checkpoint: str, metrics: list[str] | None = None) -> tuple[Trainer, dict[str, Any]]:
    """The trainer of a run with the weights of a checkpoint, and the settings."""
    settings = read_settings(folder)
    if metrics is not None:
        settings["metric"] = metrics
    trainer = make_trainer(settings, folder)
    trainer.load(checkpoint_of(Path(folder), checkpoint))
    return trainer, settings
