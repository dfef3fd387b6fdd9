"""What ``onnxgrad predict`` does; its arguments are in ``options/predict.py``."""

# Tests: tests/cli/test_predict.py, tests/cli/test_commands.py.

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.cli.answers import answers_of, write_answers, write_boxes
from onnxgrad.cli.common import print_json, print_notes, say, skipped_line
from onnxgrad.cli.data import check_skipped, data_named, judged_settings, resolve_paths, skipped_file, unroll_stream
from onnxgrad.cli.drawn_answers import check_pictures, draw_answers, draw_detections, draw_segments
from onnxgrad.cli.evaluate import run_of
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import writing
from onnxgrad.training.data.annotated.writing import mask_classes, write_masks
from onnxgrad.training.data.broken import skip_broken
from onnxgrad.training.data.columns import TARGETS
from onnxgrad.training.data.kinds.picture import PictureColumn
from onnxgrad.training.data.kinds.placed import BoxesColumn, MaskColumn
from onnxgrad.training.data.open_batch import open_batch
from onnxgrad.training.data.record import DataRecord, record_of, set_record
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.detection.drawing import mask_names
from onnxgrad.training.detection.heads import DetectorHead, recognise_head
from onnxgrad.training.detection.objective import DetectionLoss
from onnxgrad.training.evaluation import detected, opened_inputs, predicted
from onnxgrad.training.losses.terms import output_of
from onnxgrad.training.model import Model
from onnxgrad.training.surgery.activations import score_kind, score_threshold

_TABLES = (".csv", ".json")


class _Predictor:
    """A model that answers: of a run, or of a file.

    Attributes:
        program: for inference.
        record: of the data that it was trained with.
        opened: data to answer.
        outputs: gives the outputs for all examples, by name.
        detector: the model with the loss of a detector, whose boxes are its answers; None for another.
        targets: by output, the target that its loss compared it with, as far as that is known.
        overlapping: whether several masks of an output do not exclude each other.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        arguments = vars(options)
        self.batch_size = options.batch_size
        self.targets: dict[str, str] = {}
        self.overlapping = False
        self.detector: Model | None = None
        self.scope: Scope | None = None
        if Path(options.model).is_dir():
            trainer, settings = run_of(options.model, options.checkpoint)
            if options.ignore_record:
                trainer.take_record(DataRecord())
            self.program, self.record, self.executor = trainer.inference, trainer.record, trainer.executor
            data = data_named(judged_settings(settings, arguments, self.record), "data", record=self.record)
            self.opened = trainer.opened(data, inputs_alone=True)
            self.outputs: Callable[[], dict[str, Any]] = partial(trainer.predict, self.opened, batch_size=options.batch_size)
            if settings.get("loss") == "detection":
                self.detector, self.scope = trainer.model, trainer.averaged()
            else:
                self.targets = {output_of(self.program, term.output, []).name: term.target for term in trainer.terms}
                self.overlapping = trainer.terms[0].loss in ("bce_with_logits", "focal")
            return
        self.program, self.executor = from_onnx(options.model), Executor()
        if options.ignore_record:
            set_record(self.program, DataRecord())
        self.record = record_of(self.program)
        unroll_stream(self.program, arguments)
        if self._is_detector():
            self.detector = self._with_head(from_onnx(options.model))
            known = any(isinstance(column, PictureColumn) for column in self.record.columns.values())
            if not known and options.image_fit is None:
                arguments["image_fit"] = "letterbox"  # as data with boxes is read
        data = data_named(arguments, "data", record=self.record)
        self.opened = opened_inputs(self.program, data, beside=[*TARGETS, *self.record.columns])
        self.outputs = partial(predicted, self.executor, self.program, self.opened, options.batch_size, beside=TARGETS)

    def _is_detector(self) -> bool:
        columns = self.record.columns.values()
        if any(isinstance(column, MaskColumn) for column in columns):
            return False
        return any(isinstance(column, BoxesColumn) for column in columns) or isinstance(recognise_head(self.program), DetectorHead)

    def _with_head(self, program: Program) -> Model:
        open_batch(program)
        program.train("frozen")
        inference = program.clone(for_test=True)
        detection = DetectionLoss(program, None, self.executor)
        return Model(program, inference, [detection.term], None, (), detection)

    @property
    def files(self) -> list[str]:
        """The files of pictures, by example, relative to the data; empty where examples have none"""
        rows = self.opened
        if not isinstance(rows, Rows) or not len(rows) or rows.file(0) is None:
            return []
        files = [rows.file(row) for row in range(len(rows))]
        folder = rows.path if rows.path is not None and rows.path.is_dir() else None
        return [
            "" if f is None else str(f.relative_to(folder) if folder is not None and f.is_relative_to(folder) else f.name)
            for f in files
        ]

    def boxes(self, least: float) -> tuple[list[np.ndarray[Any, Any]], Sequence[str] | None]:
        """Detections of each picture, and the names of their classes"""
        assert self.detector is not None and self.detector.detection is not None
        if not isinstance(self.opened, Rows):
            raise ArgumentError(
                "a detector's boxes are written for image files; the data comes in batches. Give images, or write an .npz file."
            )
        names = self.record.classes.get(self.detector.detection.column) or self.detector.detection.classes
        return detected(self.detector, self.opened, self.batch_size, self.executor, self.scope, least), names


def run(options: argparse.Namespace) -> int:
    out = None if options.out is None else Path(options.out)
    if out is None and options.draw is None:
        raise ArgumentError("predict needs --out FILE, --draw FOLDER or both. See onnxgrad predict --help.")
    if out is not None and out.suffix not in (*_TABLES, ".npz", ""):
        raise ArgumentError(f"--out is a .csv, .json or .npz file, or a folder for masks, not {options.out!r}.")
    if options.draw is not None and Path(options.draw).exists() and not Path(options.draw).is_dir():
        raise ArgumentError(f"--draw is a folder for images; {options.draw!r} is a file. Name another.")
    if options.data is None:
        raise ArgumentError("predict needs --data. See onnxgrad predict --help.")
    if options.batch_size < 1:
        raise ArgumentError(f"--batch-size is at least 1, not {options.batch_size}.")
    if not 0 <= options.least <= 1:
        raise ArgumentError(f"--least is a probability from 0 to 1, not {options.least:g}.")
    check_skipped(vars(options))
    resolve_paths(vars(options))
    with skip_broken(options.skip_broken) as broken:
        predictor = _Predictor(options)
    if options.skip_broken:
        broken.write(skipped_file(vars(options)))
    if options.draw is not None:
        check_pictures(predictor.opened, options.draw)
    if not options.json:
        print_notes(predictor.opened.remarks, everything=True)
        if broken:
            say(skipped_line(broken, skipped_file(vars(options))))
    if predictor.detector is not None and (out is None or out.suffix in _TABLES):
        count, summary = _boxes(predictor, out, options)
    else:
        count, summary = _outputs(predictor, out, options)
    written = [str(path) for path in (out, options.draw) if path is not None]
    if options.json:
        drawn = {"drawn": options.draw} if options.draw else {}
        left_out = {"skipped": len(broken)} if options.skip_broken else {}
        print_json({"written": written[0], **drawn, "examples": count, **left_out, **summary})
    else:
        listed = summary.get("outputs")
        said = f"{summary['boxes']:,} boxes" if listed is None else ", ".join(f"{name} {shape}" for name, shape in listed.items())
        say(f"wrote {count:,} examples to {' and '.join(written)}: {said}")
    return 0


def _boxes(predictor: _Predictor, out: Path | None, options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    pictures, names = predictor.boxes(options.least)
    if out is not None:
        write_boxes(out, pictures, names, predictor.files)
    if options.draw is not None:
        draw_detections(options.draw, check_pictures(predictor.opened, options.draw), pictures, names)
    return len(pictures), {"boxes": sum(map(len, pictures))}


def _outputs(predictor: _Predictor, out: Path | None, options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    outputs = predictor.outputs()
    if predictor.detector is not None and isinstance(predictor.opened, Rows):
        pictures = len(predictor.opened)
        uneven = next((name for name, array in outputs.items() if len(array) != pictures), None)
        if uneven is not None:
            raise ArgumentError(
                f"the output {uneven!r} has a row for each box, {len(outputs[uneven])} of {pictures} pictures, whose numbers "
                "begin anew in each batch. Write a .csv or .json file."
            )
    variables = {v.name: v for v in predictor.program.outputs}
    if out is not None and out.suffix == ".npz":
        with writing(out) as file:
            np.savez(file, **outputs)
    elif out is not None and out.suffix:
        write_answers(out, answers_of(outputs, predictor.record, variables, predictor.targets), predictor.files)
    elif out is not None:
        _write_masks(out, predictor.program, outputs, predictor.opened)
    if options.draw is not None:
        rows = check_pictures(predictor.opened, options.draw)
        if predictor.detector is not None:
            draw_detections(options.draw, rows, *predictor.boxes(options.least))
        else:
            _draw(options.draw, predictor, rows, outputs, variables)
    shapes = {name: list(array.shape) for name, array in outputs.items()}
    return len(next(iter(outputs.values()))), {"outputs": shapes}


def _masks_in(program: Program, outputs: dict[str, Any]) -> Variable | None:
    """The first output that has masks"""
    return next((v for v in program.outputs if outputs[v.name].ndim == 4 or (outputs[v.name].ndim == 3 and not v.is_float)), None)


def _write_masks(folder: Path, program: Program, outputs: dict[str, Any], rows: Rows | Stream) -> None:
    v = _masks_in(program, outputs)
    if v is None or not isinstance(rows, Rows):
        shapes = {name: list(array.shape) for name, array in outputs.items()}
        raise ArgumentError(
            f"the outputs {shapes} are not masks, and only masks are written to a folder. Write a .csv or .npz file."
        )
    write_masks(folder, mask_classes(outputs[v.name], score_threshold(score_kind(v))), rows)


def _draw(folder: str, predictor: _Predictor, rows: Rows, outputs: dict[str, Any], variables: dict[str, Variable]) -> None:
    v = _masks_in(predictor.program, outputs)
    if v is None:
        draw_answers(folder, rows, answers_of(outputs, predictor.record, variables, predictor.targets))
        return
    scores, kind = outputs[v.name], score_kind(v)
    column = next((c for c in predictor.record.columns.values() if isinstance(c, MaskColumn)), None)
    channels = scores.shape[1] if scores.ndim == 4 else None
    names = mask_names(None if column is None else column.classes, channels)
    if channels is not None and channels > 1 and (predictor.overlapping or kind in ("Sigmoid", "HardSigmoid")):
        draw_segments(folder, rows, scores > score_threshold(kind), names)
    else:
        draw_segments(folder, rows, mask_classes(scores, score_threshold(kind)), names)
