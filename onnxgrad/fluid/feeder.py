"""DataFeeder: rows of Python data as a feed.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.defaults import default_main_program
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.state.inputs import Given
from onnxgrad.errors import ArgumentError

__all__ = ["DataFeeder"]


class DataFeeder:
    """Stacks the entries of samples into arrays for the Executor.

    Args:
        feed_list: input variables or names, one for each entry of a sample.
        place: accepted for compatibility.
        program: where names are looked up; default the main program.

    Example:
        >>> x, y = fluid.layers.data("x", [2]), fluid.layers.data("y", [1], dtype="int64")
        >>> feed = fluid.DataFeeder([x, y], fluid.CPUPlace()).feed([([1.0, 2.0], 0), ([3.0, 4.0], 1)])
        >>> feed["x"].shape, feed["y"].shape
        ((2, 2), (2, 1))
    """

    def __init__(self, feed_list: Sequence[Variable | str], place: object = None, program: Program | None = None) -> None:
        program = program or default_main_program()
        self._inputs = [program.find(item) if isinstance(item, str) else item for item in feed_list]

    def feed(self, iterable: Iterable[Sequence[Given]]) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays by input name.

        Args:
            iterable: one sequence for each example, with a value for each variable.

        Raises:
            ArgumentError: if a sample has another number of entries.
        """
        samples = [list(sample) for sample in iterable]
        if any(len(sample) != len(self._inputs) for sample in samples):
            raise ArgumentError(f"DataFeeder: every sample has {len(self._inputs)} entries, one for each input.")
        arrays = {}
        for v, column in zip(self._inputs, zip(*samples, strict=True), strict=True):
            arrays[v.name] = np.asarray(column, v.dtype.numpy).reshape(len(samples), *v.shape[1:])
        return arrays
