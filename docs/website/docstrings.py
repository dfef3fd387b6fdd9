"""Our docstrings as the builder of the reference reads them: sections of Google's style, and one name for each entry."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
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


# Arguments of the functions that tables make, by what makes them.
_MADE = {
    "of_one": "x, name",
    "of_two": "x, y, name",
    "_reduction": "x, axis, keepdim, name",
    "_of_bits": "x, y, out, name",
    "_of_one_bit": "x, out, name",
}


def made_function(attribute: griffe.Attribute) -> griffe.Function | None:
    """The function that a line of a table makes, with the sentence that stands there."""
    call = ast.parse(str(attribute.value or "None"), mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in _MADE:
        return None
    sentence = max((a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)), key=len)
    kind, optional = griffe.ParameterKind.positional_or_keyword, {"axis": "None", "keepdim": "False", "out": "None", "name": "None"}
    names = _MADE[call.func.id].split(", ")
    parameters = griffe.Parameters(*(griffe.Parameter(name, kind=kind, default=optional.get(name)) for name in names))
    made = griffe.Function(attribute.name, parameters=parameters, lineno=attribute.lineno, endlineno=attribute.endlineno)
    made.docstring = griffe.Docstring(sentence, parent=made)
    return made


def constructor(made: griffe.Class) -> griffe.Function | None:
    """The constructor of a class that lists its arguments in ``takes``; a default tells the type."""
    if "takes" not in made.members or "__init__" in made.members:
        return None
    signature = inspect.signature(getattr(import_module(made.module.path), made.name).__init__)
    parameters = []
    for given in signature.parameters.values():
        required = given.default is given.empty
        annotation = "Any" if required or given.default is None else type(given.default).__name__
        default = None if required else repr(given.default)
        kind = griffe.ParameterKind[given.kind.name.lower()]
        parameters.append(griffe.Parameter(given.name, kind=kind, annotation=annotation, default=default))
    return griffe.Function("__init__", parameters=griffe.Parameters(*parameters))


def take_parameters_of_forms(function: griffe.Function) -> None:
    """Give a function that has several forms the parameters of all, as its docstring describes them."""
    for form in function.overloads or ():
        for parameter in form.parameters:
            if parameter.name not in function.parameters:
                function.parameters.add(parameter)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed, and lines of tables as functions."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        made = constructor(cls)
        if made is not None:
            cls.set_member("__init__", made)

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        for name, member in list(mod.members.items()):
            made = made_function(member) if isinstance(member, griffe.Attribute) else None
            if made is not None:
                mod.set_member(name, made)

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if isinstance(obj, griffe.Function):
            take_parameters_of_forms(obj)
        if obj.docstring is not None:
            obj.docstring.value = as_google(obj.docstring.value)
