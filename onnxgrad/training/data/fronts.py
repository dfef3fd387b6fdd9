"""Feature extractors before a model: .onnx files that each window of a sound runs through, one after the other.

Tests: tests/training/data/test_fronts.py.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.session import open_graph
from onnxgrad.errors import ArgumentError, DataError, ModelError
from onnxgrad.internal.files import is_file, read_whole
from onnxgrad.training.surgery.streams import RATES

__all__ = ["Front", "FrontFile", "Fronts"]

Array = np.ndarray[Any, Any]
_KEPT = 256_000_000
"""Bytes of features that are kept."""


class FrontFile(NamedTuple):
    """A feature extractor as the user names it.

    Attributes:
        path: of the .onnx file.
        hop: steps from one of its windows to the next, where it takes a fixed number of steps; None for windows side by side.
    """

    path: Path
    hop: int | None = None


class Front:
    """A feature extractor, opened: an .onnx file with one input of numbers, of whose outputs the first counts.

    Axes of length 1 do not count, nor does the first one, of the batch. What is left of the input is steps, and features as the
    extractor before it gives them; a fixed number of steps is a window, of which a sound has several.

    Args:
        path: of the file.
        hop: steps from one of its windows to the next; None for windows that do not overlap.

    Raises:
        ModelError: if there is no such file, or it is none that has one such input.
        ArgumentError: if ``hop`` is not positive, or the file takes any number of steps at once.
    """

    def __init__(self, path: str | Path, hop: int | None = None) -> None:
        self.path = Path(path)
        if not is_file(self.path):
            raise ModelError(f"there is no feature extractor {str(path)!r}. Name an .onnx file (--front).")
        self.name = self.path.name
        self.sha256 = hashlib.sha256(read_whole(self.path)).hexdigest()
        program = from_onnx(self.path)
        self.rates = [v.name for v in program.inputs if v.name in RATES and v.dtype.is_integer and v.rank in (0, 1)]
        inputs = [v for v in program.inputs if v.name not in self.rates]
        if len(inputs) != 1 or not inputs[0].is_float or not inputs[0].dims:
            raise ModelError(
                f"the feature extractor {str(path)!r} takes {list(program.inputs)}; it must take one input of numbers."
            )
        self.input: Variable = inputs[0]
        dims = list(inputs[0].dims or ())[1:]
        if len(dims) == 0:
            raise ModelError(f"the feature extractor {str(path)!r} takes one number of each example. Name another (--front).")
        self.dims = [dim for dim in dims if dim != 1] or dims[:1]
        self.window = self.dims[0] if isinstance(self.dims[0], int) else None
        if hop is not None and hop < 1:
            raise ArgumentError(f"the steps from one window of {self.name!r} to the next are at least 1, not {hop}.")
        if hop is not None and self.window is None:
            raise ArgumentError(f"{self.name!r} takes any number of steps at once, so there is no hop. Leave {hop} out (--front).")
        self.hop = hop if hop is not None else (self.window or 1)
        self.one_by_one = inputs[0].dims is not None and inputs[0].dims[0] == 1
        self._session = open_graph(compile(program, None), CPUPlace())
        self._output = program.outputs[0].name

    def __call__(self, steps: Array, rate: int) -> Array:
        """The features of steps [steps, *features of the front before], as [steps, *features].

        Raises:
            DataError: if the steps do not fit its input.
        """
        wanted, features = self.dims[1:], steps.shape[1:]
        fits = len(wanted) == len(features) and all(not isinstance(w, int) or w == f for w, f in zip(wanted, features))
        if not fits or (self.window is not None and len(steps) < self.window):
            raise DataError(
                f"the feature extractor {self.name!r} takes {list(self.input.dims or ())}, and gets {list(steps.shape)} of each "
                "sound. Give longer windows (--sound-length), or fronts in another order (--front)."
            )
        if self.window is None:
            windows = steps[None]
        else:
            starts = range(0, len(steps) - self.window + 1, self.hop)
            windows = np.stack([steps[start : start + self.window] for start in starts])
        rows = [windows[i : i + 1] for i in range(len(windows))] if self.one_by_one else [windows]
        features_of_rows = np.concatenate([self._run(self._shaped(row), rate) for row in rows])
        if len(features_of_rows) != len(windows):
            raise DataError(f"the feature extractor {self.name!r} gives {list(features_of_rows.shape)} for {len(windows)} windows.")
        return _without_ones(features_of_rows[0], 0) if self.window is None else _without_ones(features_of_rows, 1)

    def _run(self, array: Array, rate: int) -> Array:
        kinds = {self.input.name: array.astype(self.input.dtype.numpy)}
        feed = {**kinds, **{name: np.array(rate, np.int64) for name in self.rates}}
        (output,) = self._session.run([self._output], feed)
        return np.asarray(output)

    def _shaped(self, rows: Array) -> Array:
        """Rows [rows, steps, *features] with the axes of length 1 that the input has"""
        sizes = iter(rows.shape[1:])
        dims = list(self.input.dims or ())[1:]
        if len(dims) == rows.ndim - 1:
            return rows
        return rows.reshape(len(rows), *(1 if dim == 1 else next(sizes) for dim in dims))


class Fronts:
    """Feature extractors in a row, whose outputs are kept by the content of their input.

    Args:
        files: in the order in which they run.
    """

    def __init__(self, files: Sequence[FrontFile] = ()) -> None:
        self.fronts = [Front(file.path, file.hop) for file in files]
        self._kept: OrderedDict[bytes, Array] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __bool__(self) -> bool:
        return bool(self.fronts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(front.name for front in self.fronts)

    @property
    def digests(self) -> tuple[str, ...]:
        return tuple(front.sha256 for front in self.fronts)

    @property
    def hops(self) -> tuple[int, ...]:
        return tuple(front.hop for front in self.fronts)

    def __call__(self, samples: Array, rate: int) -> Array:
        """The features of a window [samples] of a sound, as the last front gives them.

        Raises:
            DataError: if they do not fit a front.
        """
        key = hashlib.blake2b(np.ascontiguousarray(samples).tobytes() + str(rate).encode(), digest_size=16).digest()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        features = samples
        for front in self.fronts:
            features = front(features, rate)
        features = np.ascontiguousarray(features)
        features.flags.writeable = False
        with self._lock:
            if key not in self._kept:
                self._kept[key] = features
                self._bytes += features.nbytes
            while self._bytes > _KEPT and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return features


def _without_ones(array: Array, keep: int) -> Array:
    """The array without axes of length 1, but for the first ones"""
    return array.reshape(*array.shape[:keep], *(size for size in array.shape[keep:] if size != 1))
