"""The state of every public name of Paddle's API here: done, mapped to another name, refused with a reason, or missing.

>>> state_of("paddle.nn.functional.relu").state
'done'
>>> print(state_of("paddle.static.py_func"))
paddle.static.py_func: refused, because a program is run by stock onnxruntime, which cannot call Python. Write ...
"""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any, NamedTuple

from onnxgrad.compat.names import NAMES
from onnxgrad.core.ir.program import Program
from onnxgrad.errors import UnknownName
from onnxgrad.internal.refusals import maps_to, why_absent

__all__ = ["Entry", "counts", "entries", "state_of", "table"]


def __dir__() -> list[str]:
    return __all__


_ABSENT = object()
_REFUSES = "Not offered:"


class Entry(NamedTuple):
    """One name: ``state`` is 'done', 'maps to', 'refused' or 'missing'; ``note`` is the other name or the reason."""

    name: str
    state: str
    note: str

    def __str__(self) -> str:
        if self.state == "maps to":
            return f"{self.name}: maps to {self.note}"
        return f"{self.name}: {self.state}" + (f", because {self.note}" if self.note else "")


def state_of(name: str) -> Entry:
    """The state of a full name such as ``paddle.static.data``.

    Raises:
        UnknownName: if Paddle's API has no such name.
    """
    namespace, _, last = name.rpartition(".")
    if last not in NAMES.get(namespace, ()):
        raise UnknownName(f"{name!r} is not in Paddle's documented API as listed in onnxgrad.compat.names.")
    value = _find(name)
    if value is not _ABSENT:
        because = _refusal(value)
        return Entry(name, "done" if because is None else "refused", because or "")
    target, because = maps_to(name), why_absent(name)
    if target is not None:
        return Entry(name, "maps to", target)
    return Entry(name, "missing" if because is None else "refused", because or "")


def _find(name: str) -> Any:
    """Look up the object that this package has under a name of Paddle."""
    namespace, _, last = name.rpartition(".")
    if namespace == "paddle.static.Program":
        return getattr(Program(), last, _ABSENT)
    value: Any = importlib.import_module("onnxgrad")
    for part in name.split(".")[1:]:
        home, value = value, getattr(value, part, _ABSENT)
        if value is _ABSENT:
            value = _submodule(home, part)
        if value is _ABSENT:
            return value
    return value


def _submodule(home: Any, name: str) -> Any:
    """The module of that name in a package, which it has as an attribute once it is imported"""
    if not getattr(home, "__path__", None):
        return _ABSENT
    try:
        return importlib.import_module(f"{home.__name__}.{name}")
    except ImportError:
        return _ABSENT


def _refusal(value: Any) -> str | None:
    """Return the reason in the docstring of a function that only raises NotOffered."""
    doc = getattr(value, "__doc__", None) or ""
    return doc.removeprefix(_REFUSES).strip().rstrip(".") if doc.startswith(_REFUSES) else None


def entries() -> list[Entry]:
    """All names, by namespace."""
    return [state_of(f"{namespace}.{name}") for namespace, names in NAMES.items() for name in names]


def counts() -> dict[str, int]:
    """Count the names in each state."""
    by_state = Counter(entry.state for entry in entries())
    return {state: by_state[state] for state in ("done", "maps to", "refused", "missing")}


def table() -> str:
    """Write the text of COMPATIBILITY.md: the state of every name of Paddle's, by module."""
    total = counts()
    lines = [
        "# Paddle's names",
        "",
        "Written by `scripts/write_compatibility_table`. A name that is done is found under the name that Paddle gives it, with",
        "`import onnxgrad as paddle`.",
        "",
        "Of {} names {} are done, {} have another name here, {} are refused with a reason, {} are missing.".format(
            sum(total.values()), *total.values()
        ),
    ]
    for namespace, names in NAMES.items():
        states = [state_of(f"{namespace}.{name}") for name in names]
        lines += ["", f"## {namespace}", ""]
        for state, heading in (("done", "Done"), ("missing", "Missing")):
            chosen = [entry.name.rpartition(".")[2] for entry in states if entry.state == state]
            if chosen:
                lines += [f"{heading} ({len(chosen)}): {', '.join(chosen)}", ""]
        others: dict[str, list[str]] = {}
        for entry in states:
            if entry.state in ("maps to", "refused"):
                others.setdefault(_cell(entry), []).append(entry.name.rpartition(".")[2])
        if others:
            lines += ["| | names |", "|---|---|"]
            lines += [f"| {cause} | {', '.join(names)} |" for cause, names in others.items()]
        elif lines[-1] == "":
            lines.pop()
    return "\n".join(lines) + "\n"


def _cell(entry: Entry) -> str:
    return f"use {entry.note}" if entry.state == "maps to" else f"refused: {entry.note}"
