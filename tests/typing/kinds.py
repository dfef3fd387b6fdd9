"""Calls of public functions and constructors, as their examples write them, with one argument of a wrong kind."""

import contextlib
import doctest
import importlib
import inspect
import io
import types
import typing
from collections.abc import Sequence
from functools import cache, wraps

import numpy as np

import onnxgrad
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.internal.refusals import refused
from onnxgrad.internal.state import isolated
from tests.typing.test_names import module_at

MODULES = (
    *(
        "static",
        "static.nn",
        "static.amp",
        "nn",
        "nn.functional",
        "nn.utils",
        "nn.initializer",
        "tensor",
        "linalg",
        "fft",
        "optimizer",
    ),
    *("optimizer.lr", "metric", "distributed", "training", "amp", "io", "func", "autograd", "jit", "regularizer", "federated"),
    *("attribution", "device", "incubate.autograd", "utils"),
)
SETUP = {
    "onnxgrad": onnxgrad,
    "paddle": onnxgrad,
    "og": onnxgrad,
    "np": np,
    "static": static,
    "F": F,
    "draw_program": onnxgrad.utils.draw_program,
    "Executor": onnxgrad.Executor,
}
PLAIN = {int: "1.5", float: "much", bool: "perhaps", str: 3, Sequence[int]: "many"}
"""By kind, what is none of it."""


def callables():
    """Public functions and classes, by the name that users know."""
    known = set()
    for name in MODULES:
        module = module_at(name)
        for attribute in module.__all__:
            item = getattr(module, attribute)
            if callable(item) and not isinstance(item, refused) and id(item) not in known and "onnxgrad" in (item.__module__ or ""):
                known.add(id(item))
                yield f"{name}.{attribute}", item


def own_function(item):
    return item.__init__ if inspect.isclass(item) else item


@cache
def hints(item):
    function = inspect.unwrap(own_function(item))
    if not inspect.isfunction(function):
        return {}
    module = vars(importlib.import_module(function.__module__))
    lenient = dict(vars(typing)) | {"Sequence": Sequence} | module
    kinds = {}
    for name, text in inspect.get_annotations(function).items():
        with contextlib.suppress(Exception):
            kinds[name] = eval(text, lenient) if isinstance(text, str) else text
    return kinds


def wrong_for(kind):
    """What is of no kind that an annotation names, if all of them are plain; else nothing."""
    unions = (typing.Union, types.UnionType)
    kinds = typing.get_args(kind) if typing.get_origin(kind) in unions else (kind,)
    plain = [each for each in kinds if each is not type(None)]
    if not plain or not all(each in PLAIN for each in plain):
        return None
    wrongs = [PLAIN[each] for each in plain]
    return next(
        (
            wrong
            for wrong in (*wrongs, {"a": "set"})
            if not any(isinstance(wrong, each) for each in plain if isinstance(each, type))
        ),
        None,
    )


class Seen(BaseException):
    """The call that was waited for."""


def recorded_call(item, example):
    """The arguments of the first call of a function in its example, and what stands around it."""
    function = inspect.unwrap(own_function(item)) if not inspect.isclass(item) else own_function(item)
    calls = []
    code = function.__code__ if hasattr(function, "__code__") else None
    import sys

    def note(frame, event, argument):
        if event == "call" and frame.f_code is code and not calls:
            values = frame.f_locals
            calls.append(dict(values))

    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    finally:
        sys.setprofile(None)
    return calls[0] if calls else None
