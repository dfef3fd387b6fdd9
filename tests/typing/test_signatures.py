"""Signatures of all that is public: what a checker reads of them, and what a person does.

What checkers read of tensor functions and methods stands in stubs, of the rest in the sources.
"""

import ast
import importlib
import inspect
import re
import types
import typing
from pathlib import Path

import pytest

import onnxgrad
from onnxgrad.internal import refusals
from tests.typing.test_names import LISTED

ROOT = Path(onnxgrad.__file__).parent
STUBS = {"tensor": "tensor/__init__.pyi", "nn.functional": "nn/functional/__init__.pyi", "methods": "core/ir/tensor_methods.pyi"}
CALLED = {"__init__", "__call__", "__getitem__", "__iter__", "__len__", "__enter__"}

WHY = {
    "own": "a class of the user's own says it: its forward, its hooks, its metric",
    "element": "the type of an element is known when it runs; numpy says the same",
    "state": "numbers, arrays and states of what is within, by name",
    "file": "what a file holds is known when it is read",
    "row": "numbers and texts by name, as the losses and metrics of a run say them",
    "sample": "a batch has the structure of the samples",
    "given on": "handed on to a function that the user chose",
    "states of cells": "a tensor or a tuple of them, as the cell says",
    "checked": "whatever it is, which is what the function finds out",
}
ALLOWED: dict[str, str] = {}


def public():
    """Names and what they are, once each."""
    seen = set()
    for module in ["", *LISTED]:
        home = importlib.import_module(f"onnxgrad.{module}" if module else "onnxgrad")
        for name in home.__all__:
            value = getattr(home, name)
            if isinstance(value, types.ModuleType) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{module}.{name}".removeprefix("."), value


def callables():
    """Names and functions: public ones, and the public methods of public classes, once each."""
    done = set()
    for name, value in public():
        if not inspect.isclass(value):
            if callable(value) and str(getattr(value, "__module__", "")).startswith("onnxgrad") and value not in done:
                done.add(value)
                yield name, value
            continue
        for base in value.__mro__:
            if not base.__module__.startswith("onnxgrad"):
                continue
            for member, found in vars(base).items():
                function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
                function = function.fget if isinstance(function, property) else function
                if not inspect.isfunction(function) or function in done or (member.startswith("_") and member not in CALLED):
                    continue
                done.add(function)
                yield f"{name}.{member}", function


def of_stub(function):
    """Whether checkers read another text than that of the source."""
    home = function.__module__ or ""
    return home.startswith(("onnxgrad.tensor", "onnxgrad.nn.functional.")) or home == refusals.__name__


def _says_nothing(text):
    """Whether a type has an ``Any`` besides those of element types, which are known when it runs."""
    plain = re.sub(r"\b(np\.)?(ndarray|NDArray|dtype|integer|number|slice|type)\[[^\[\]]*\bAny\b[^\[\]]*\]", "", text)
    return bool(re.search(r"\bAny\b", plain))


def aliases():
    """Names of types that have an ``Any`` within, of all modules."""
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            value = getattr(node, "value", None)
            if isinstance(targets[0], ast.Name) and targets[0].id[:1].isupper() and not isinstance(value, (ast.Call, type(None))):
                if _says_nothing(ast.unparse(value)):
                    yield targets[0].id


def _without_classes(text, home):
    """A type without the names that are classes or type variables in its module, though aliases in another."""
    return re.sub(r"\w+", lambda word: "_" if word[0] != "Any" and isinstance(home.get(word[0]), (type, typing.TypeVar)) else word[0], text)


def types_in_sources():
    """(name, parameter or result, text of the type) of each public signature, its overloads where it has some."""
    for name, function in callables():
        if of_stub(function):
            continue
        home = vars(importlib.import_module(function.__module__))
        for form in typing.get_overloads(function) or [function]:
            own = inspect.signature(form)
            for one in own.parameters.values():
                yield name, one.name, _without_classes(str(one.annotation), home)
            yield name, "return", _without_classes(str(own.return_annotation), home)


def types_in_stubs():
    """The same of stubs."""
    for module, path in STUBS.items():
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.FunctionDef):
                for one in ast.walk(node.args):
                    if isinstance(one, ast.arg) and one.annotation is not None:
                        yield f"{module}.{node.name}", one.arg, ast.unparse(one.annotation)
                yield f"{module}.{node.name}", "return", ast.unparse(node.returns)


def without_meaning():
    hidden = set(aliases())
    for name, what, text in [*types_in_sources(), *types_in_stubs()]:
        if _says_nothing(text) or hidden & set(re.findall(r"\w+", text)):
            yield f"{name}({what})", text


if __name__ == "__main__":
    for found in without_meaning():
        print(*found)
