"""Helpers of several commands: loading a model, sizes, inputs for it, printing."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import numpy as np

from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import is_nameless
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError, DataError, FileError, ModelError
from onnxgrad.internal.files import read_arrays
from onnxgrad.training.data.broken import Broken
from onnxgrad.training.data.derived_inputs import DerivedInputs

__all__ = [
    "SETTINGS",
    "assumed_sizes",
    "feeds_for",
    "human",
    "load",
    "print_json",
    "print_notes",
    "say",
    "shape_text",
    "sizes_of",
    "skipped_line",
]

Array = np.ndarray[Any, Any]

SETTINGS = "settings.json"
"""What makes a folder that of a run."""
_NOTES = 3
"""Lines of notes, unless all are asked for."""


def load(options: argparse.Namespace) -> Program:
    """The program of an .onnx file, or what ``export --inference`` writes of a run's best checkpoint.

    Raises:
        ArgumentError: if --expand is given with a run.
    """
    if (Path(options.model) / SETTINGS).is_file():
        # Late: only a run needs the Trainer.
        from onnxgrad.cli.evaluate import run_of

        if getattr(options, "expand", None):
            raise ArgumentError("a run was started with or without --expand. Leave it out.")
        return run_of(options.model, "best")[0].to_inference()
    return from_onnx(options.model, expand=options.expand)


def sizes_of(entries: Sequence[str]) -> dict[str, int]:
    """``["batch=4"]`` as a dict.

    Raises:
        ArgumentError: if an entry has another form.
    """
    sizes = {}
    for text in entries:
        name, _, size = text.partition("=")
        if not name or not size.isdigit():
            raise ArgumentError(f"--dim takes NAME=SIZE, not {text!r}.")
        sizes[name] = int(size)
    return sizes


def _assumed(program: Program, sizes: dict[str, int]) -> dict[str, int]:
    """A size for each unknown dimension: 2 for one that is first in any input, 8 for others, unless it is given."""
    names: dict[str, int] = {}
    for v in program.inputs:
        for axis, dim in enumerate(v.dims or ()):
            if not isinstance(dim, int):
                name = _dim_name(v, axis)
                names[name] = sizes.get(name, 2 if axis == 0 else names.get(name, 8))
    return names


def _shape(v: Variable, sizes: dict[str, int]) -> tuple[int, ...]:
    if v.dims is None:
        raise DataError(f"the input {v.name!r} has no declared rank. Give --feeds FILE.npz.")
    return tuple(d if isinstance(d, int) else sizes[_dim_name(v, i)] for i, d in enumerate(v.dims))


def _dim_name(v: Variable, axis: int) -> str:
    """The name of an unknown dimension of an input; ``x.1`` where the file gives it none"""
    dim = (v.dims or ())[axis]
    return dim if isinstance(dim, str) and not is_nameless(dim) else f"{v.name}.{axis}"


def assumed_sizes(program: Program, feeds: dict[str, Array], sizes: dict[str, int]) -> dict[str, int]:
    """Sizes that ``feeds_for`` has taken for dynamic dimensions that were not given, by name."""
    assumed: dict[str, int] = {}
    for v in program.inputs:
        for axis, size in enumerate(feeds[v.name].shape):
            if not isinstance((v.dims or ())[axis], int) and _dim_name(v, axis) not in sizes:
                assumed.setdefault(_dim_name(v, axis), size)
    return assumed


def feeds_for(program: Program, path: str | None, sizes: dict[str, int], seed: int) -> dict[str, Array]:
    """Inputs from a file, or random ones: normal numbers, small integers, coin flips.

    What follows from the tokens of a language model, such as its mask, positions and empty cache, is made from these; a cache holds
    random numbers where ``sizes`` has its dimension.

    Raises:
        DataError: if the file lacks an input, or an input cannot be made up.
        ArgumentError: if a size is given to a dimension that no input has.
    """
    if path is not None:
        try:
            arrays = read_arrays(Path(path))
        except (FileError, ModelError) as error:
            raise DataError(str(error)) from error
        missing = [v.name for v in program.inputs if v.name not in arrays]
        if missing:
            raise DataError(f"{path!r} has no array {missing[0]!r}; it has {sorted(arrays)}.")
        return {v.name: _as_input(v, arrays[v.name], path) for v in program.inputs}
    assumed = _assumed(program, sizes)
    for name in sizes.keys() - assumed.keys():
        raise ArgumentError(f"--dim {name}: the inputs have the dynamic dimensions {[*assumed]}. Name one of them.")
    rng = np.random.default_rng(seed)
    derived = DerivedInputs(program)
    feeds: dict[str, Any] = {v.name: _random(v, _shape(v, assumed), rng) for v in program.inputs if v.name not in derived.names}
    empty = derived.complete(feeds)
    for v in program.inputs:
        if v.is_float and v.name in derived.names:
            shape = [sizes.get(_dim_name(v, axis), size) for axis, size in enumerate(np.shape(empty[v.name]))]
            if tuple(shape) != np.shape(empty[v.name]):
                feeds[v.name] = _random(v, shape, rng)
    completed = derived.complete(feeds)
    return {v.name: np.asarray(completed[v.name], v.dtype.numpy) for v in program.inputs}


def _random(v: Variable, shape: Sequence[int], rng: np.random.Generator) -> Array:
    if v.dtype.is_float:
        return rng.normal(0, 1, shape).astype(v.dtype.numpy)
    if v.dtype.is_integer or v.dtype.name == "bool":
        return rng.integers(0, 2, shape).astype(v.dtype.numpy)
    raise DataError(f"cannot draw random values for the input {v.name!r} of type {v.dtype.name}. Give --feeds FILE.npz.")


def _as_input(v: Variable, array: Array, path: str) -> Array:
    try:
        return array.astype(v.dtype.numpy, copy=False)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path!r} has {array.dtype} for {v.name!r}, the model takes {v.dtype.name}. Convert it.") from error


def shape_text(v: Variable) -> str:
    """``float32[batch, 10]``"""
    return repr(v).partition(": ")[2].removesuffix(")")


def human(size: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def print_notes(notes: Sequence[object], everything: bool) -> None:
    """Print each note once; the first three, unless all are wanted."""
    lines = list(dict.fromkeys(map(str, notes)))
    shown = lines if everything or len(lines) <= _NOTES else lines[: _NOTES - 1]
    for line in shown:
        say(f"note: {line}")
    if len(lines) > len(shown):
        say(f"note: {len(lines) - len(shown)} more notes on how model and data are interpreted (--explain)")


def say(line: str) -> None:
    """Print a line; on a terminal it is broken at spaces, not within words."""
    if sys.stdout.isatty():
        width = max(20, get_terminal_size().columns)
        line = fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    print(line)


def skipped_line(broken: Broken, path: Path | None) -> str:
    """The line on examples that were left out, and the file that lists them."""
    count = len(broken)
    listed = "name a file for the list: --skipped FILE.csv" if path is None else f"listed in {path}"
    return f"left out {count:,} example{'s' if count > 1 else ''} that cannot be read; {listed}"


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, default=str))
