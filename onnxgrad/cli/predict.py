"""What ``onnxgrad predict`` does; its arguments are in ``options/predict.py``."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.cli.common import print_json, print_notes
from onnxgrad.cli.data import data_named, judged_settings, resolve_paths, unroll_stream
from onnxgrad.cli.evaluate import run_of
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import write_whole, writing
from onnxgrad.training.data.annotated.writing import labels_in, mask_classes, write_masks
from onnxgrad.training.data.columns import TARGETS
from onnxgrad.training.data.kinds.labels import LabelsColumn
from onnxgrad.training.data.record import DataRecord, record_of, set_record
from onnxgrad.training.data.rows import Rows, Stream
from onnxgrad.training.evaluation import opened_inputs, predicted
from onnxgrad.training.surgery.activations import score_kind, score_threshold

_WIDEST = 10_000


def run(options: argparse.Namespace) -> int:
    out = Path(options.out)
    if out.suffix not in (".csv", ".npz", ""):
        raise ArgumentError(f"--out is a .csv or .npz file, or a folder for masks, not {options.out!r}.")
    if options.data is None:
        raise ArgumentError("predict needs --data. See onnxgrad predict --help.")
    if options.batch_size < 1:
        raise ArgumentError(f"--batch-size is at least 1, not {options.batch_size}.")
    arguments = vars(options)
    resolve_paths(arguments)
    if Path(options.model).is_dir():
        trainer, settings = run_of(options.model, options.checkpoint)
        if options.ignore_record:
            trainer.take_record(DataRecord())
        program, record = trainer.inference, trainer.record
        data = data_named(judged_settings(settings, arguments, record), "data", record=record)
        opened = trainer.opened(data, inputs_alone=True)
        outputs = trainer.predict(opened, batch_size=options.batch_size)
    else:
        program = from_onnx(options.model)
        if options.ignore_record:
            set_record(program, DataRecord())
        record = record_of(program)
        unroll_stream(program, arguments)
        opened = opened_inputs(program, data_named(arguments, "data", record=record), beside=[*TARGETS, *record.columns])
        outputs = predicted(Executor(), program, opened, options.batch_size, beside=TARGETS)
    if not options.json:
        print_notes(opened.remarks, everything=True)
    if out.suffix:
        write_answers(out, outputs, record, {v.name: v for v in program.outputs}, _files_of(opened))
    else:
        _write_masks(out, program, outputs, opened)
    count = len(next(iter(outputs.values())))
    shapes = {name: list(array.shape) for name, array in outputs.items()}
    if options.json:
        print_json({"written": str(out), "examples": count, "outputs": shapes})
    else:
        print(f"wrote {count:,} examples to {out}: " + ", ".join(f"{name} {shape}" for name, shape in shapes.items()))
    return 0


def _write_masks(folder: Path, program: Program, outputs: dict[str, Any], rows: Rows | Stream) -> None:
    """The masks of the first output that has some"""
    v = next((v for v in program.outputs if outputs[v.name].ndim == 4 or (outputs[v.name].ndim == 3 and not v.is_float)), None)
    if v is None or not isinstance(rows, Rows):
        shapes = {name: list(array.shape) for name, array in outputs.items()}
        raise ArgumentError(f"the outputs {shapes} are no masks of pictures, which a folder is for. Write a .csv or .npz file.")
    write_masks(folder, mask_classes(outputs[v.name], score_threshold(score_kind(v))), rows)


def _files_of(rows: Rows | Stream) -> list[str]:
    """The files of pictures, by example, relative to the data; empty where examples have none"""
    if not isinstance(rows, Rows) or not len(rows) or rows.file(0) is None:
        return []
    files = [rows.file(row) for row in range(len(rows))]
    folder = rows.path if rows.path is not None and rows.path.is_dir() else None
    return [
        "" if file is None else str(file.relative_to(folder) if folder is not None and file.is_relative_to(folder) else file.name)
        for file in files
    ]


def _probabilities(scores: np.ndarray[Any, Any], output: Variable) -> np.ndarray[Any, Any]:
    """Probabilities of classes, of what an output says of them: logits are those of classes that exclude each other"""
    if score_kind(output) in ("Softmax", "Sigmoid", "HardSigmoid"):
        return scores
    values = np.asarray(scores, np.float64)
    exponentials = np.exp(values - values.max(axis=1, keepdims=True))
    probabilities: np.ndarray[Any, Any] = exponentials / exponentials.sum(axis=1, keepdims=True)
    return probabilities


def write_answers(
    path: Path, outputs: dict[str, Any], record: DataRecord, variables: dict[str, Variable], files: list[str]
) -> None:
    """Outputs as a table, or as arrays; with the files of pictures, and the names of classes and labels that the record has.

    Args:
        path: of a .csv or .npz file.
        outputs: by name.
        record: of the data that the model was trained with.
        variables: outputs of the program, by name.
        files: of pictures, one for each example; empty where there are none.

    Raises:
        ArgumentError: if a table would have too many columns, or outputs have unequal numbers of rows.
    """
    if path.suffix == ".npz":
        with writing(path) as file:
            np.savez(file, **outputs)
        return
    columns: dict[str, Any] = {"file": files} if files else {}
    labels = {name for name, column in record.columns.items() if isinstance(column, LabelsColumn)}
    target, classes = next(iter(record.classes.items()), ("", []))
    rows = {len(array) for array in outputs.values()}
    for name, array in outputs.items():
        flat = np.asarray(array).reshape(len(array), -1)
        if flat.shape[1] > _WIDEST or len(rows) > 1:
            raise ArgumentError(f"the output {name!r} has shape {list(np.shape(array))}, which is no table. Write an .npz file.")
        if flat.shape[1] == 1:
            columns[name] = flat[:, 0]
            continue
        if array.ndim == 2 and len(classes) == flat.shape[1] and target in labels:
            columns[f"{name}.labels"] = labels_in(flat, classes, score_threshold(score_kind(variables[name])))
        elif array.ndim == 2 and len(classes) == flat.shape[1]:
            columns[f"{name}.class"] = [classes[i] for i in flat.argmax(axis=1)]
            columns[f"{name}.probability"] = _probabilities(flat, variables[name]).max(axis=1)
        columns.update({f"{name}.{i}": flat[:, i] for i in range(flat.shape[1])})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["example", *columns])
    for number, row in enumerate(zip(*columns.values(), strict=True)):
        writer.writerow([number, *(f"{v:.9g}" if isinstance(v, np.floating) else v for v in row)])
    write_whole(path, text.getvalue().encode())
