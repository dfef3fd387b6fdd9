"""Thresholds of time and memory on a processor, read once from ``providers/cpu_costs.json``.

The environment variable ONNXGRAD_CPU_COSTS names a JSON file that overrules some of them: by the same names, a number each, or an
entry as in ``cpu_costs.json``, of which the value counts. scripts/measure_cpu_costs writes one.

Tests: tests/core/providers/test_cpu_costs.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from onnxgrad.errors import ArgumentError, ArgumentTypeError, UnknownName
from onnxgrad.internal.files import read_whole

__all__ = ["COSTS", "VARIABLE", "Costs", "read_overruled"]

VARIABLE = "ONNXGRAD_CPU_COSTS"


class Costs:
    """The thresholds by name, as ``"plan.transpose"``.

    Args:
        overruled: by name, numbers that hold in place of those of ``cpu_costs.json``.

    Raises:
        UnknownName: naming what is no threshold.
        ArgumentTypeError: naming the threshold, if a number is not of its type.
        ArgumentError: naming the threshold, if a number is not above 0.

    Examples:
        >>> costs = Costs({"plan.transpose": 2.0})
        >>> costs.number("plan.transpose"), costs.count("small_m.fewest_rows")
        (2.0, 16)
    """

    __slots__ = ("_values",)

    def __init__(self, overruled: Mapping[str, Any] | None = None) -> None:
        table = json.loads(files(__package__).joinpath("providers", "cpu_costs.json").read_text("utf-8"))
        self._values: dict[str, int | float] = {name: entry["value"] for name, entry in table.items()}
        for name, value in (overruled or {}).items():
            self._values[name] = _checked(name, value, self._value(name))

    def count(self, name: str) -> int:
        """A threshold that is a whole number."""
        value = self._value(name)
        assert isinstance(value, int), name
        return value

    def number(self, name: str) -> float:
        """A threshold that may have a fraction."""
        value = self._value(name)
        assert isinstance(value, float), name
        return value

    def _value(self, name: str) -> int | float:
        if name not in self._values:
            raise UnknownName(
                f"there is no threshold {name!r}. {VARIABLE} takes the names of onnxgrad/core/providers/cpu_costs.json."
            )
        return self._values[name]


def _checked(name: str, value: Any, present: int | float) -> int | float:
    """A number that may stand in place of the present one."""
    allowed = (int,) if isinstance(present, int) else (int, float)
    if not isinstance(value, allowed) or isinstance(value, bool):
        wanted = "a whole number" if isinstance(present, int) else "a number"
        raise ArgumentTypeError(f"the threshold {name!r} is {wanted}, not {value!r}. Write one such as {present}.")
    if not 0 < value < 2**63:
        raise ArgumentError(f"the threshold {name!r} is above 0 and below 2^63, not {value!r}. Write one such as {present}.")
    return type(present)(value)


def read_overruled(path: Path) -> dict[str, Any]:
    """Read a file that overrules thresholds: its numbers by name.

    Raises:
        MissingFile: if there is none.
        ArgumentError: if it is not a JSON object of numbers and of entries with a value.
    """
    try:
        table = json.loads(read_whole(path))
        return {name: entry["value"] if isinstance(entry, dict) else entry for name, entry in table.items()}
    except KeyError as error:
        raise ArgumentError(f"{path}: an entry holds its number as 'value'. Write it so, or the number alone.") from error
    except (AttributeError, ValueError) as error:
        raise ArgumentError(f'{path} is not a JSON object. Write thresholds as {{"plan.transpose": 1.2}}.') from error


def _overruled() -> dict[str, Any]:
    path = os.environ.get(VARIABLE, "")
    return read_overruled(Path(path)) if path else {}


COSTS = Costs(_overruled())
"""Those of this process. What is overruled later changes nothing."""
