"""A training step that was written to files, or to a message: its model, opened, with the values that go in and out of it.

Tests: tests/core/runtime/test_exported_step.py, tests/federated/test_worker.py.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, numpy_helper

from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.runtime.denormals import FloatingPointMode
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.session import open_model
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentTypeError, ExecutionError, MissingFile, ModelError
from onnxgrad.internal.files import is_file, read_whole

__all__ = ["WrittenStep"]

Array: TypeAlias = "np.ndarray[Any, Any]"


class WrittenStep:
    """A step that ``save_training_step`` or ``to_training_step`` wrote.

    Args:
        source: the path of its manifest, or a pair of model and manifest.
        place: where it runs.
        threads: of onnxruntime within an operator; None for its choice.

    Attributes:
        manifest: what goes in and out.
        values: state and constants as numpy arrays, by the name of the input.

    Raises:
        FileError, ModelError: if a file is missing or is not what its manifest says.

    Example:
        >>> step = WrittenStep("out/step.json", CPUPlace(), None)  # doctest: +SKIP
        >>> loss, *_ = step.run({"x": images, "y": labels})  # doctest: +SKIP
    """

    def __init__(self, source: Any, place: Place, threads: int | None) -> None:
        model, self.manifest, self.values = _read(source)
        self._session = open_model(model, place, threads)
        self._outputs = [e["name"] for e in self.manifest["fetches"]] + [e["output"] for e in self.manifest["state"]]
        fed = {e["name"] for e in self.manifest["feeds"]} | self.values.keys()
        needed = {v.name for v in self._session.get_inputs()}
        taken = needed | {v.name for v in self._session.get_overridable_initializers()}
        given = {v.name for v in self._session.get_outputs()}
        for name in sorted((fed - taken) | (needed - fed) | (set(self._outputs) - given)):
            raise ModelError(f"{name!r} is an input or output by the manifest of a step, or by its model, alone. {_ADVICE}")

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run once; returns the fetches, and new state takes the place of the old.

        Raises:
            ExecutionError: with onnxruntime's reason, if it fails.
        """
        try:
            with FloatingPointMode(flushes=bool(self.manifest["state"])):
                results = self._session.run(self._outputs, {**feeds, **self.values})
        except Exception as error:
            raise ExecutionError(f"onnxruntime failed while running the step: {error}. {_ADVICE}") from error
        count = len(self.manifest["fetches"])
        self.values.update((e["input"], value) for e, value in zip(self.manifest["state"], results[count:], strict=True))
        return list(results[:count])


def _read(source: Any) -> tuple[Any, dict[str, Any], dict[str, Array]]:
    """Model, manifest and values of a step."""
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], ModelProto):
        model, manifest = source
        _check(manifest, "the manifest")
        initializers = {t.name: t for t in model.graph.initializer}
        held = [e["name"] for e in manifest["state"] + manifest["constants"]]
        absent = [name for name in held if name not in initializers]
        if absent:
            raise ModelError(f"the model has no value of {absent[0]!r}, which its manifest names. Give the pair of one step.")
        return model.SerializeToString(), manifest, {name: numpy_helper.to_array(initializers[name]) for name in held}
    if not isinstance(source, (str, Path)):
        raise ArgumentTypeError(f"a step is the path of a manifest, or a pair of model and manifest, not {type(source).__name__}.")
    path = Path(source).with_suffix(".json")
    where = repr(str(path))
    if not is_file(path):
        raise MissingFile(f"{where} does not exist. Name the manifest that save_training_step wrote.")
    try:
        manifest = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{where} is not valid JSON ({error}). {_ADVICE}") from error
    if isinstance(manifest, dict) and "state" not in manifest:
        raise ModelError(f"{where} does not list parameters and statistics: it describes two models, or is old. {_ADVICE}")
    _check(manifest, where)
    for name in ("model", "values"):
        if not isinstance(manifest.get(name), str) or not _FILE_NAME.fullmatch(manifest[name]):
            raise ModelError(f"{where} names no file as its {name!r}, but {manifest.get(name)!r}. {_ADVICE}")
    content = read_whole(path.with_name(manifest["values"]))
    held = manifest["state"] + manifest["constants"]
    values = {e["name"]: _value_of(e, content, where) for e in held}
    return str(path.with_name(manifest["model"])), manifest, values


_ADVICE = "Write it by save_training_step."
_FILE_NAME = re.compile(r"(?!\.+$)[^/\\\0:]{1,255}")
"""A name within a folder: no path, which could lead out of it."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_open_shape(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(d is None or isinstance(d, str) or _is_count(d) for d in value))


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


_FED = {"name": _is_text, "dtype": _is_text, "shape": _is_open_shape}
_HELD = {"name": _is_text, "dtype": _is_text, "shape": _is_shape}
_ENTRIES = {
    "feeds": _FED,
    "fetches": _FED,
    "state": {**_HELD, "input": _is_text, "output": _is_text, "parameter": _is_switch, "statistic": _is_switch},
    "constants": _HELD,
}


def _check(manifest: Any, where: str) -> None:
    """Refuse a manifest that lacks a field, or has one of another kind.

    Raises:
        ModelError: naming the field.
    """
    if not isinstance(manifest, dict):
        raise ModelError(f"{where} is not an object with the fields of a step. {_ADVICE}")
    for part, fields in _ENTRIES.items():
        entries = manifest.get(part)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ModelError(f"{where}: {part!r} is not a list of objects. {_ADVICE}")
        for at, entry in enumerate(entries):
            for field, is_sound in fields.items():
                if field not in entry or not is_sound(entry[field]):
                    raise ModelError(f"{where}: entry {at + 1} of {part!r} has {entry.get(field)!r} as its {field!r}. {_ADVICE}")
            try:
                dtype_of(entry["dtype"])
            except ArgumentTypeError as error:
                raise ModelError(f"{where}: entry {at + 1} of {part!r} has no dtype that exists: {error}") from error
    if any(entry["name"] != entry["input"] for entry in manifest["state"]):
        raise ModelError(f"{where}: an entry of 'state' has another name than its input. {_ADVICE}")
    for what, names in (
        ("fed", [entry["name"] for part in ("feeds", "state", "constants") for entry in manifest[part]]),
        ("fetched", [entry["name"] for entry in manifest["fetches"]] + [entry["output"] for entry in manifest["state"]]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                raise ModelError(f"{where}: {name!r} is {what} twice. {_ADVICE}")
    held = {entry["name"] for part in ("state", "constants") for entry in manifest[part]}
    rates = manifest.get("learning_rate")
    if not isinstance(rates, list) or not all(isinstance(name, str) and name in held for name in rates):
        raise ModelError(f"{where}: 'learning_rate' is not a list of names of state or constants. {_ADVICE}")


def _value_of(entry: dict[str, Any], content: bytes, where: str) -> Array:
    """The first value of state or a constant, of the file that holds them all"""
    start, size, dtype = entry.get("offset"), entry.get("bytes"), dtype_of(entry["dtype"])
    if not _is_count(start) or size != bytes_needed(dtype, entry["shape"]) or start + size > len(content):
        raise ModelError(f"{where}: the value of {entry['name']!r} does not lie in the file of {len(content)} bytes. {_ADVICE}")
    return np.frombuffer(content[start : start + size], dtype.numpy).reshape(entry["shape"])
