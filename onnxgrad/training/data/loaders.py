"""Loaders of other libraries: DataLoader of torch, datasets of Hugging Face, functions in Python files."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.training.data.columns import Arrangement, arrange_columns, found_columns, read_columns
from onnxgrad.training.data.images import opened_pictures
from onnxgrad.training.data.kinds.column import Cells, Column, Reading, cell_array, contradiction
from onnxgrad.training.data.kinds.numbers import NumberColumn
from onnxgrad.training.data.kinds.words import WordsColumn
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.data.rows import Batch, Columns, Rows, Stream
from onnxgrad.training.data.shuffled import Shuffled
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import column_lines

__all__ = ["DatasetRows", "LoaderStream", "function_in", "is_dataset", "is_loader", "opened_dataset"]

_PIECE = 256
_LARGE = 1_000_000_000
_WHERE = "the dataset"
_EXAMPLE, _NUMBER = "example", "number of the example"


def is_loader(data: Any) -> bool:
    """Return whether the data is a DataLoader of torch."""
    return any(cls.__module__.startswith("torch.utils.data") and cls.__name__ == "DataLoader" for cls in type(data).__mro__)


def is_dataset(data: Any) -> bool:
    """Return whether the data is a dataset of Hugging Face."""
    return any(cls.__module__.startswith("datasets.") for cls in type(data).__mro__)


class LoaderStream(Stream):
    """Batches of a DataLoader; the order that it draws without a generator of its own follows from the seed and the epoch.

    Torch's global generator is put back after each batch.
    """

    def __init__(self, loader: Any, names: Sequence[str]) -> None:
        super().__init__(loader, names)
        own = getattr(loader, "generator", None) is not None or getattr(loader.sampler, "generator", None) is not None
        if own:
            self.resumes = "the DataLoader draws from a generator of its own, whose state is not in the checkpoint"

    def batches(
        self, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, seed: int = 0, epoch: int = 0, skip: int = 0
    ) -> Iterator[Batch]:
        import torch

        state = torch.Generator().manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])).get_state()
        if hasattr(self.source.sampler, "set_epoch"):
            self.source.sampler.set_epoch(epoch)
        items: Any = None
        number = 0
        while True:
            before = torch.random.get_rng_state()
            torch.random.set_rng_state(state)
            try:
                items = iter(self.source) if items is None else items
                item = next(items, None)
                state = torch.random.get_rng_state()
            finally:
                torch.random.set_rng_state(before)
            if item is None:
                return
            if number >= skip:
                yield self._as_batch(_arrays(item))
            number += 1


def _arrays(item: Any) -> Any:
    """Tensors as arrays"""
    if isinstance(item, dict):
        return {name: _arrays(value) for name, value in item.items()}
    if isinstance(item, (list, tuple)) and any(hasattr(value, "detach") for value in item):
        return [_arrays(value) for value in item]
    return item.detach().cpu().numpy() if hasattr(item, "detach") else item


def opened_dataset(data: Any, wanted: DataSpec) -> Rows | Stream:
    """The data of a Hugging Face dataset for a program: its columns by name, images as the model takes them.

    Raises:
        DataError: if it is a dict of splits, or a column is missing or no number.
    """
    if isinstance(data, dict):
        raise DataError(f"the data is a dict of the splits {sorted(data)}. Give one of them: data={sorted(data)[0]!r} ...")
    features = dict(data.features or {})
    pictures = [name for name, feature in features.items() if type(feature).__name__ == "Image"]
    if pictures and hasattr(data, "__len__"):
        return _dataset_pictures(data, wanted, pictures[0], features)
    kinds = {name: _kind(feature) for name, feature in features.items()} or dict.fromkeys(next(iter(data)), "number")
    reading = Reading()
    remarks: list[str] = []
    plan = arrange_columns(kinds, wanted, _WHERE, reading)
    listed = hasattr(data, "__len__")
    seen = list(data.with_format(None)[:_PIECE].items()) if listed else []
    whole = [plan.parts[name][0] for name, kind in plan.kinds.items() if kind == WordsColumn.kind]
    values = {**dict(seen), **{name: _listed(data, name) for name in whole if listed}}
    first = Cells(_WHERE, values) if listed else Cells(_WHERE, _transposed(list(islice(data, _PIECE)), plan.read))
    named = {name: getattr(features.get(plan.parts[name][0]), "names", None) for name in wanted.targets if name in plan.parts}
    classes = {name: _named_classes(name, plan.parts[name], names, wanted) for name, names in named.items() if names}
    plan.kinds.update(dict.fromkeys(classes, NumberColumn.kind))
    found = {**found_columns(plan, first, wanted, reading, remarks), **classes}
    rows: Rows | Stream
    if listed:
        rows = DatasetRows(data, plan, found, wanted, reading)
        if (data.data.nbytes or 0) < _LARGE:
            rows = Columns(rows.take(np.arange(len(data))))
    else:
        rows = Shuffled(_examples(data), decode=partial(_decoded, plan, found, wanted, reading))
        rows.rows_at_once = _PIECE
    rows.record, rows.unused = DataRecord(found), plan.unused
    rows.remarks = [*plan.remarks, *remarks, *column_lines(found)]
    return rows


def _kind(feature: Any) -> str:
    """The kind of a column of a dataset"""
    name, dtype = type(feature).__name__, str(getattr(feature, "dtype", ""))
    if name in ("ClassLabel",) or (name == "Value" and dtype.startswith(("int", "uint", "float", "bool"))):
        return "number"
    return "words" if name == "Value" else "numbers"


def _named_classes(name: str, parts: Sequence[str], names: Sequence[str], wanted: DataSpec) -> WordsColumn:
    """The classes of a target that the dataset names"""
    recorded = wanted.record.classes.get(name)
    if recorded is not None and list(recorded) != list(names):
        now = f"one with {', '.join(names[:10])}"
        raise contradiction(_WHERE, f"the classes {', '.join(recorded[:10])}", now, "Number its classes as those.")
    return WordsColumn(tuple(parts), tuple(names))


def _listed(data: Any, column: str) -> list[Any]:
    return list(data.with_format(None)[column])


def _transposed(examples: list[dict[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [example.get(name) for example in examples] for name in names}


class DatasetRows(Rows):
    """Examples of a dataset that stay on the disk."""

    def __init__(self, data: Any, plan: Arrangement, found: Mapping[str, Column], wanted: DataSpec, reading: Reading) -> None:
        self.data, self.plan, self.found, self.wanted, self.reading = data.with_format(None), plan, found, wanted, reading
        self.length = len(data)

    def take(self, rows: Any, epoch: tuple[int, int] | None = None) -> Batch:
        examples = self.data[[int(row) for row in rows]]
        return _read(
            self.plan, self.found, Cells(_WHERE, {name: examples[name] for name in self.plan.read}), self.wanted, self.reading
        )

    def column(self, name: str) -> Any:
        parts = self.plan.parts.get(name, [])
        if name not in self.wanted.targets or len(parts) != 1:
            return None
        found = {name: self.found[name]}
        return _read(self.plan, found, Cells(_WHERE, {parts[0]: list(self.data[parts[0]])}), self.wanted, self.reading)[name]


def _read(plan: Arrangement, found: Mapping[str, Column], cells: Cells, wanted: DataSpec, reading: Reading) -> Batch:
    """Cells of a dataset as arrays; classes that it names come as numbers"""
    columns = {
        name: NumberColumn(column.parts) if plan.kinds[name] == NumberColumn.kind else column for name, column in found.items()
    }
    arrays = read_columns(plan, columns, cells, wanted, reading, [])
    return {name: np.asarray(array) for name, array in arrays.items()}


def _dataset_pictures(data: Any, wanted: DataSpec, column: str, features: dict[str, Any]) -> Rows:
    plain = data.with_format(None)
    targets = [name for name in wanted.names if name in wanted.targets]
    others = [name for name in features if name != column]
    labels: dict[str, Any] = {}
    classes: dict[str, Column] = {}
    used = [column]
    for name in targets:
        source = (
            name
            if name in features
            else next((other for other in ("label", "labels", "target", "class") if other in features), None)
        )
        source = others[0] if source is None and len(others) == 1 else source
        if source is None:
            raise DataError(f"the dataset has no column {name!r}; it has {list(features)}. Rename or add it.")
        labels[name] = np.asarray(plain[source][:] if not isinstance(plain[source], list) else plain[source])
        if getattr(features[source], "names", None):
            classes[name] = _named_classes(name, [source], features[source].names, wanted)
        used.append(source)
    rows = opened_pictures(lambda row: plain[row][column], len(data), labels, classes, wanted, Reading(), _WHERE)
    rows.unused = [name for name in features if name not in used]
    return rows


def _examples(data: Any) -> Callable[[int], Iterator[dict[str, Any]]]:
    """Pieces of an iterable dataset for each epoch: its examples and their numbers"""

    def pieces(epoch: int) -> Iterator[dict[str, Any]]:
        if hasattr(data, "set_epoch"):
            data.set_epoch(epoch)
        first = 0
        examples = iter(data)
        while piece := list(islice(examples, _PIECE)):
            yield {_EXAMPLE: cell_array(piece), _NUMBER: np.arange(first, first + len(piece))}
            first += len(piece)

    return pieces


def _decoded(
    plan: Arrangement, found: Mapping[str, Column], wanted: DataSpec, reading: Reading, examples: Mapping[str, Any]
) -> Batch:
    """Inputs and targets of some examples of an iterable dataset"""
    values = _transposed(list(examples[_EXAMPLE]), plan.read)
    return _read(plan, found, Cells(_WHERE, values, numbers=examples[_NUMBER]), wanted, reading)


def function_in(text: str) -> Callable[[int], Any]:
    """The function that ``file.py`` (``batches``) or ``file.py:name`` names, as one of the epoch number.

    Raises:
        DataError: if there is no such file or function, or the file fails.
        ArgumentError: if the function takes more than an epoch.
    """
    file, _, name = text.rpartition(":") if ".py:" in text else (text, "", "")
    path, name = Path(file), name or "batches"
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}.")
    spec = importlib.util.spec_from_file_location(f"onnxgrad_data_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except OnnxGradError:
        raise
    except Exception as error:
        raise DataError(f"{str(path)!r} fails: {type(error).__name__}: {error}.") from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    function = getattr(module, name, None)
    if not callable(function):
        raise DataError(f"{str(path)!r} has no function {name!r} that yields batches. Add it, or name it: {path.name}:NAME.")
    wanted = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if len(wanted) > 1:
        raise ArgumentError(f"{name} in {str(path)!r} takes {[p.name for p in wanted]}; it may take only the number of the epoch.")
    source: Callable[[int], Any] = function if wanted else lambda epoch: function()
    return source
