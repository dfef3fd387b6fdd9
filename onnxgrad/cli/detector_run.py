"""Runs of detectors and segmenters: the loss that a task has, and the classes that a detector gets from its data."""

# Tests: tests/cli/test_detectors.py.

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ArgumentError
from onnxgrad.training.data.images import Images
from onnxgrad.training.data.opening import source_at
from onnxgrad.training.detection.heads import DetectorHead, MapHead, class_names, recognise_head, require_head
from onnxgrad.training.detection.objective import DETECTION

__all__ = ["TASKS", "is_spared", "set_task"]

TASKS = ("detect", "segment")


def is_spared(options: argparse.Namespace) -> bool:
    """Whether the command may leave out --loss: a task or the model says it."""
    if options.term or options.task is not None:
        return True
    if options.model is None or not Path(options.model).is_file():
        return False
    return isinstance(recognise_head(from_onnx(options.model)), DetectorHead)


def set_task(settings: dict[str, Any]) -> None:
    """Enter the loss of a task into the settings of a new run, and the classes of a detector that its data has and it has not.

    Raises:
        ArgumentError: if the task does not fit the loss or the model.
    """
    if settings.get("task") is not None and settings["loss"] is not None:
        raise ArgumentError("--task and --loss both say what is learned. Leave one out.")
    if settings["term"]:
        return
    if settings["loss"] is None:
        program = from_onnx(settings["model"], expand=settings["expand"])
        settings["loss"] = _segment(program) if settings.get("task") == "segment" else DETECTION
    if settings["loss"] != DETECTION:
        if settings.get("detector_classes"):
            raise ArgumentError("--classes is for detectors (--task detect). For a classifier, say --head NUMBER.")
        return
    program = from_onnx(settings["model"], expand=settings["expand"])
    head = require_head(program)
    if settings.get("detector_classes") is None and isinstance(head, DetectorHead):
        settings["detector_classes"] = _new_classes(settings, program, head)


def _segment(program: Program) -> str:
    """The loss of masks for the outputs of a model"""
    head = recognise_head(program)
    if not isinstance(head, MapHead):
        outputs = ", ".join(v.name for v in program.outputs)
        raise ArgumentError(f"--task segment: none of the outputs {outputs} has a score for each pixel. Name one in --output, and a --loss.")
    return "bce_with_logits" if head.through[:1] == ("Sigmoid",) or head.channels == 1 else "cross_entropy"


def _new_classes(settings: dict[str, Any], program: Program, head: DetectorHead) -> list[str] | None:
    """The classes of the data where one is new to the model, or None"""
    source = source_at(settings["data"])
    listing = source.annotated() if isinstance(source, Images) else None
    if listing is None or not listing.classes:
        return None
    names, own = list(listing.classes), class_names(program)
    if own is None and len(names) == head.classes:
        return None
    return None if own is not None and set(names) <= set(own) else names
