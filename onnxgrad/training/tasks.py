"""What a model is trained for: what the data holds, what the output gives, and one line that says what follows.

Detectors are told apart in ``training/detection``; here they are the task whose data has boxes.

Tests: tests/training/test_tasks.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.internal.words import TaskName
from onnxgrad.training.data.annotated.box_table import box_columns
from onnxgrad.training.data.annotated.formats import format_at
from onnxgrad.training.data.columns import TARGETS
from onnxgrad.training.data.images import Images
from onnxgrad.training.data.kinds import kind_of
from onnxgrad.training.data.picture_files import images_in
from onnxgrad.training.data.readers import reader_of
from onnxgrad.training.data.sound_files import sounds_in
from onnxgrad.training.data.sounds import Sounds
from onnxgrad.training.data.tables import SEPARATORS, Table
from onnxgrad.training.surgery.activations import Activation

__all__ = ["TASKS", "Held", "TaskPlan", "held_by", "plan_task", "task_line"]

TASKS: tuple[TaskName, ...] = get_args(TaskName)
_TASK_OF: dict[str, TaskName] = {
    "class": "classify",
    "labels": "multilabel",
    "number": "regress",
    "numbers": "regress",
    "mask": "segment",
    "boxes": "detect",
    "outlines": "detect",
    "regions": "detect",
}
_METRICS: dict[TaskName, list[str]] = {
    "classify": ["accuracy"],
    "multilabel": ["f1"],
    "regress": ["r2"],
    "segment": ["iou"],
    "detect": [],
}
_FEW = 1000
"""Whole numbers below this, from 0 on, may be classes."""


class Held(NamedTuple):
    """The answers that data holds.

    Attributes:
        kind: ``"class"``, ``"labels"``, ``"number"``, ``"numbers"``, ``"mask"``, ``"boxes"``, ``"outlines"`` (boxes and masks) or
            ``"regions"``.
        what: the data and its answers, for people: ``"photos/ holds boxes (COCO)"``.
        may_be_class: whether a ``"number"`` may be the number of a class, as all are whole and small.
    """

    kind: str
    what: str
    may_be_class: bool = False

    @property
    def task(self) -> TaskName:
        """The task that such answers are for."""
        return _TASK_OF[self.kind]


class TaskPlan(NamedTuple):
    """A task, and what follows from it where the user says no more: the loss, the metrics, and a line for people.

    Attributes:
        loss: name of the loss; ``"detection"`` for a detector.
    """

    task: TaskName
    loss: str
    metrics: list[str]
    line: str


def held_by(data: Any, target: str | None = None) -> Held | None:
    """Look at which answers data holds, before any model is asked.

    Args:
        data: as ``Trainer.fit`` takes it.
        target: the column of the answers, where that has a name of its own.

    Returns:
        None where it does not show: batches that come one by one, texts, arrays without a target.

    Raises:
        DataError: if a file is damaged.

    Example:
        >>> held_by({"x": np.zeros((4, 3)), "target": np.array([0, 1, 2, 1])})
        Held(kind='number', what="the column 'target' holds whole numbers", may_be_class=True)
    """
    if isinstance(data, Mapping):
        return _of_arrays(data, target)
    path = Path(data) if isinstance(data, (str, Path)) else data.path if isinstance(data, (Images, Sounds, Table)) else None
    if path is None:
        return None
    if isinstance(data, (str, Path, Images)):
        colours = data.reading.colours if isinstance(data, Images) else None
        form = format_at(path, colours=colours)
        if form is not None:
            both = form.kind == "boxes" and format_at(path, kind="mask", colours=colours) is not None
            kind = "outlines" if both else form.kind
            return Held(kind, f"{path.name} holds {_plural(kind)} ({form.name})")
    if path.suffix in SEPARATORS and path.is_file():
        return _of_table(path, target)
    if path.is_dir():
        return _of_folder(path, target)
    if path.suffix == ".npz" and path.is_file():
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return _of_arrays({name: arrays[name] for name in arrays.files if _is_answer(name, target)}, target)
        except Exception as error:  # what numpy says of other files is about pickles
            raise DataError(f"{str(path)!r} is not an .npz file of plain arrays. Write it with numpy.savez.") from error
    return None


def plan_task(held: Held | None, output: Variable, task: str | None = None) -> TaskPlan:
    """Choose the task, and its loss, from what data holds and what an output is.

    Args:
        held: what ``held_by`` found; None where it is not known.
        output: that the loss is to read.
        task: what the user said, which counts; one of ``TASKS``.

    Raises:
        ArgumentError: if the task is none, does not fit the data, or cannot be told.
    """
    if task is not None and task not in TASKS:
        raise ArgumentError(f"there is no task {task!r}. Use one of {', '.join(TASKS)}.")
    if held is None and task is None:
        raise ArgumentError(f"the task is not known. Name the task (--task), one of {', '.join(TASKS)}, or a loss (--loss).")
    classes = _classes_of(output)
    given = [name for name in TASKS if name == task]
    chosen = given[0] if given else _recognised(held, output, classes)
    if held is not None and chosen not in _fitting(held):
        raise ArgumentError(f"{held.what}, which is for {held.task}, not for {chosen}. Leave out --task, or give other data.")
    loss = _loss_of(chosen, output, classes)
    why = "as given" if task is not None else f"as {held.what}" if held is not None else ""
    return TaskPlan(chosen, loss, list(_METRICS[chosen]), f"the task is {chosen}, {why}; the loss is {loss} of {output.name}.")


def task_line(plan: TaskPlan) -> str:
    """The line on a plan, with what overrules it."""
    return f"{plan.line[:-1]} (--task, --loss)."


def _fitting(held: Held) -> Sequence[TaskName]:
    """The tasks that answers of a kind can be for"""
    if held.kind == "class" or held.may_be_class:
        return ("classify", "multilabel", "regress") if held.kind == "number" else ("classify", "multilabel")
    if held.kind in ("labels", "numbers"):
        return ("multilabel", "regress")
    return ("detect", "segment") if held.kind in ("regions", "outlines") else (held.task,)


def _recognised(held: Held | None, output: Variable, classes: int | None) -> TaskName:
    assert held is not None
    if held.kind == "outlines" and output.rank == 4:
        return "segment"
    if held.may_be_class and (classes is None or classes > 1) and output.rank == 2:
        return "multilabel" if _kind(output) == "Sigmoid" else "classify"
    if held.kind == "class" and _kind(output) == "Sigmoid" and classes is not None and classes > 1 and output.rank == 2:
        return "multilabel"
    if held.may_be_class and _kind(output) == "Sigmoid":
        return "classify"
    return held.task


def _loss_of(task: TaskName, output: Variable, classes: int | None) -> str:
    """The loss of a task for an output"""
    single = classes == 1 or output.rank == 1
    if task == "detect":
        return "detection"
    if task == "regress":
        return "mse"
    if task == "multilabel" or single or _kind(output) == "Sigmoid":
        return "bce_with_logits"
    return "cross_entropy"


def _kind(output: Variable) -> str:
    """The activation before an output: Softmax, LogSoftmax, Sigmoid or none"""
    try:
        return Activation(output).kind
    except OnnxGradError:
        return ""


def _classes_of(output: Variable) -> int | None:
    dims = output.dims
    if dims is None or len(dims) < 2:
        return None if dims is None else 1
    return int(dims[1]) if isinstance(dims[1], int) else None


# What data holds -----------------------------------------------------------------------------------------------------


def _is_answer(name: str, target: str | None) -> bool:
    return name == target or (target is None and name in (*TARGETS, "boxes", "mask", "masks"))


def _of_arrays(arrays: Mapping[str, Any], target: str | None) -> Held | None:
    """What the array of answers is, by its name, type and shape"""
    name = next((str(name) for name in arrays if _is_answer(str(name), target)), None)
    if name is None:
        return None
    array, what = np.asarray(arrays[name]), f"the column {name!r} holds"
    whole = array.dtype.kind in "iub"
    if array.ndim == 3 and array.shape[2] == 5 and not whole:
        return Held("boxes", f"{what} boxes")
    if array.ndim >= 3:
        return Held("mask", f"{what} masks")
    if array.ndim == 2 and array.shape[1] > 1:
        both = set(np.unique(array).tolist()) <= {0, 1}
        return Held("labels" if both else "numbers", f"{what} {array.shape[1]} {'labels' if both else 'numbers'} each")
    few = whole and array.size > 0 and int(array.min()) >= 0 and int(array.max()) < _FEW
    return Held("number", f"{what} {'whole ' if whole else ''}numbers", few)


def _of_folder(path: Path, target: str | None) -> Held | None:
    """Class folders, a folder with one table, or .npy files"""
    named = [file for file in path.glob("*.npy") if _is_answer(file.stem, target)]
    if named:
        return _of_arrays({named[0].stem: np.load(named[0], mmap_mode="r", allow_pickle=False)}, target)
    folders = [entry for entry in path.iterdir() if entry.is_dir() and _holds_files(entry)]
    if folders:
        return Held("class", f"{path.name} holds a folder for each of {len(folders)} classes")
    tables = [file for file in path.iterdir() if file.suffix in SEPARATORS]
    return _of_table(tables[0], target) if len(tables) == 1 else None


def _holds_files(path: Path) -> bool:
    return any(next(iter(files), None) is not None for files in (images_in(path), sounds_in(path)))


def _of_table(path: Path, target: str | None) -> Held | None:
    """What the column of answers in a table is, by its first rows"""
    head = reader_of(path).head()
    kinds = {name: kind_of(cells) for name, cells in head.items()}
    pictures = [name for name, kind in kinds.items() if kind in ("picture", "sound")]
    if pictures and box_columns(list(head)) is not None:
        return Held("boxes", f"{path.name} holds boxes, one in each row")
    stems = (target,) if target is not None else TARGETS
    several = [name for name in head if any(name.startswith(f"{stem}.") and name[len(stem) + 1 :].isdecimal() for stem in stems)]
    if len(several) > 1:
        values = {str(cell).strip() for name in several for cell in head[name]}
        both = values <= {"0", "1", "0.0", "1.0", "True", "False"}
        return Held("labels" if both else "numbers", f"{path.name} holds {len(several)} {'labels' if both else 'numbers'} each")
    named = [name for stem in stems for name in head if name == stem]
    rest = [name for name in head if name not in pictures[:1]]
    column = named[0] if named else rest[0] if len(rest) == 1 and pictures else None
    if column is None:
        return None
    kind, what = kinds[column], f"the column {column!r} of {path.name} holds"
    if kind == "picture":
        return Held("mask", f"{what} paths of masks")
    if kind == "labels":
        return Held("labels", f"{what} several labels")
    if kind == "words":
        return Held("class", f"{what} classes")
    if kind == "numbers":
        return Held("numbers", f"{what} several numbers")
    values = {str(cell).strip() for cell in head[column] if cell is not None}
    few = all(value.isdecimal() and len(value) < 4 for value in values)
    return Held("number", f"{what} {'whole ' if few else ''}numbers", few)


def _plural(kind: str) -> str:
    return {"mask": "masks", "outlines": "boxes and outlines"}.get(kind, kind)
