"""Runs of detectors: the classes that one gets from its data.

Tests: tests/cli/test_detectors.py.
"""

from __future__ import annotations

from typing import Any

from onnxgrad.cli.settings import model_of
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.words import DETECTION
from onnxgrad.training.data.annotated.formats import PARTS, format_at
from onnxgrad.training.data.images import Images
from onnxgrad.training.data.opening import source_at
from onnxgrad.training.detection.classes import class_names
from onnxgrad.training.detection.heads import DetectorHead, require_head

__all__ = ["choose_classes"]


def choose_classes(settings: dict[str, Any]) -> None:
    """Enter the classes of the data into the settings of a new run of a detector, where one of them is new to it.

    Raises:
        ArgumentError: if classes are given for another loss.
    """
    if settings["loss"] != DETECTION:
        if settings.get("detector_classes"):
            raise ArgumentError("--classes is for detectors (--task detect). For a classifier, give --head NUMBER.")
        return
    program = model_of(settings, None)
    head = require_head(program)
    if settings.get("detector_classes") is not None or not isinstance(head, DetectorHead):
        return
    source = source_at(settings["data"])
    part = settings.get("part") or PARTS[0]
    form = format_at(source.path, part) if isinstance(source, Images) else None
    names = [] if form is None or form.kind == "mask" else list(form.read(None).classes)
    own = class_names(program)
    if not names or (own is None and len(names) == head.classes) or (own is not None and set(names) <= set(own)):
        return
    settings["detector_classes"] = names
