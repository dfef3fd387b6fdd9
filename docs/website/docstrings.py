"""Our docstrings as the builder of the reference reads them: sections of Google's style, and one name for each entry."""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"(Args|Returns|Raises|Example):$")
_ENTRY = re.compile(r"    (\*{0,2}\w+(?:, \*{0,2}\w+)*)(: .*)$")


def as_google(text: str) -> str:
    """The docstring with "Examples:", an entry for each of several arguments, and a class for every error."""
    lines: list[str] = []
    section = ""
    names: list[str] = []
    entry: list[str] = []

    def end_entry() -> None:
        lines.extend(line for name in names for line in (f"    {name}{entry[0]}", *entry[1:]))
        names.clear()

    for line in text.splitlines():
        found = _ENTRY.match(line) if section == "Args" else None
        if names and line.startswith("     "):
            entry.append(line)
            continue
        end_entry()
        if found:
            names[:], entry[:] = found[1].split(", "), [found[2]]
            continue
        if line and not line.startswith(" "):
            heading = _SECTION.match(line)
            section = heading[1] if heading else ""
        if section == "Raises" and re.match(r"    (?! )(?!\w+: )", line):
            line = f"    OnnxGradError: {line.strip()}"
        lines.append("Examples:" if line == "Example:" else line)
    end_entry()
    return "\n".join(lines)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_google(obj.docstring.value)
