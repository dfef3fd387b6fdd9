"""Runs of detectors and segmenters: the loss that a task has, and the classes that a detector gets from its data."""

# Tests: tests/cli/test_detectors.py.

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.annotated.formats import PARTS, format_at
from onnxgrad.training.data.images import Images
from onnxgrad.training.data.opening import source_at
from onnxgrad.training.detection.classes import class_names
from onnxgrad.training.detection.heads import DetectorHead, recognise_head, require_head
from onnxgrad.training.detection.objective import DETECTION
from onnxgrad.training.losses.terms import output_of
from onnxgrad.training.surgery.activations import argmax_before
from onnxgrad.training.tasks import Held, held_by, plan_task, task_line

__all__ = ["is_spared", "set_task"]


def is_spared(options: argparse.Namespace) -> bool:
    """Whether the command may leave out --loss: terms, a task, the model or the data say it."""
    return bool(options.term) or options.task is not None or _detector_in(options.model) or _held_by(options) is not None


def _detector_in(path: str | None) -> bool:
    return path is not None and Path(path).is_file() and isinstance(recognise_head(from_onnx(path)), DetectorHead)


def _held_by(options: argparse.Namespace) -> Held | None:
    return None if options.data is None or not Path(options.data).exists() else held_by(options.data, options.target)


def set_task(settings: dict[str, Any]) -> str | None:
    """Enter the loss and the metrics of a task into the settings of a new run, and the classes of a detector where those of its
    data are new to it; return a line that says what was chosen.

    Raises:
        ArgumentError: if the task does not fit the loss, the data or the model.
    """
    if settings.get("task") is not None and settings["loss"] is not None:
        raise ArgumentError("--task and --loss both say what is learned. Leave one out.")
    if settings["term"]:
        return None
    program: Program | None = None
    line = None
    if settings["loss"] is None:
        program = from_onnx(settings["model"], expand=settings["expand"])
        head = recognise_head(program)
        if isinstance(head, DetectorHead) and settings.get("task") in (None, "detect"):
            settings["loss"] = DETECTION
        else:
            output = output_of(program, settings["of"], [])
            argmax = argmax_before(output)
            scores = output if argmax is None or argmax.inputs[0] is None else argmax.inputs[0]
            plan = plan_task(held_by(settings["data"], settings["target"]), scores, settings.get("task"))
            settings["loss"], settings["metric"] = plan.loss, settings["metric"] or plan.metrics
            line = task_line(plan)
    if settings["loss"] != DETECTION:
        if settings.get("detector_classes"):
            raise ArgumentError("--classes is for detectors (--task detect). For a classifier, say --head NUMBER.")
        return line
    program = program or from_onnx(settings["model"], expand=settings["expand"])
    head = require_head(program)
    if settings.get("detector_classes") is None and isinstance(head, DetectorHead):
        settings["detector_classes"] = _new_classes(settings, program, head)
    return line


def _new_classes(settings: dict[str, Any], program: Program, head: DetectorHead) -> list[str] | None:
    """The classes of the data where one is new to the model, or None"""
    source = source_at(settings["data"])
    form = format_at(source.path, source.part or PARTS[0]) if isinstance(source, Images) else None
    names = [] if form is None or form.kind == "mask" else list(form.read(None).classes)
    own = class_names(program)
    if not names or (own is None and len(names) == head.classes):
        return None
    return None if own is not None and set(names) <= set(own) else names
