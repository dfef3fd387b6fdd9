"""Each argument of a plain kind that is of another is refused where it is passed: by all functions, classes and Trainer methods.

Calls are those of the examples in docstrings; where there is none that runs, each required argument is of a kind that is taken.
"""

import contextlib
import doctest
import inspect
import io
import sys
import types
import typing
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import onnxgrad
from onnxgrad.errors import OnnxGradError
from onnxgrad.internal.refusals import refused
from onnxgrad.internal.state import isolated
from tests.test_documentation import SETUP
from tests.typing.test_names import MODULES, module_at

ROOT = Path(onnxgrad.__file__).parents[1]
PLAIN = {int: "1.5", float: "much", bool: "perhaps", str: 3, Sequence[int]: "many", Sequence[float]: "many", Sequence[str]: 3}
"""By kind, what is none of it."""
RIGHT = {"int": 1, "float": 0.5, "bool": True, "str": "a", "Sequence[int": [1, 1], "Sequence[str": ["a"]}
"""By how an annotation starts, what it takes."""
# Inner ones that users come to by no name of their own, and what a rule, a test or a container says of itself.
LEFT_OUT = {"compat", "rules", "state", "testing", "errors", "fluid"}
LEFT_OUT_NAMES = {
    *("Variable", "Parameter", "DType", "dtype", "Tensor", "Part"),
    *("expansion", "gradient", "stops_gradient", "unsupported"),
}
# Where an operand is of another element type or shape than elsewhere.
INTEGERS = {operand: np.array([4, 6]) for operand in ("x", "y")}
OPERANDS = {"gcd": INTEGERS, "gcd_": INTEGERS, "lcm": INTEGERS, "lcm_": INTEGERS, "mv": {"vec": np.ones(2, "float32")}}


def public_callables():
    """Functions, classes and the methods of a Trainer, each once."""
    known = set()
    for module_name in ("", *MODULES):
        if module_name.partition(".")[0] in LEFT_OUT:
            continue
        module = module_at(module_name) if module_name else onnxgrad
        for name in module.__all__:
            item = getattr(module, name)
            if not callable(item) or isinstance(item, refused) or name in LEFT_OUT_NAMES or id(item) in known:
                continue
            known.add(id(item))
            if inspect.isclass(item) and issubclass(item, tuple):
                continue  # a record, which holds what is put in
            yield f"{module_name}.{name}".lstrip("."), item
    for name, method in inspect.getmembers(onnxgrad.training.Trainer, inspect.isfunction):
        if not name.startswith("_"):
            yield f"training.Trainer.{name}", method


def written(item):
    """The function that a person has written, below what checks it."""
    return inspect.unwrap(item.__init__ if inspect.isclass(item) else item)


def wrong_values(item):
    """For each parameter of plain kinds, a value of none of them."""
    function = written(item)
    if not inspect.isfunction(function):
        return {}
    names = vars(sys.modules[function.__module__])
    wrong = {}
    for parameter, text in inspect.get_annotations(function).items():
        with contextlib.suppress(NameError, TypeError):  # what only checkers read
            kind = eval(text, names) if isinstance(text, str) else text
            union = typing.get_origin(kind) in (typing.Union, types.UnionType)
            kinds = [each for each in (typing.get_args(kind) if union else (kind,)) if each is not type(None)]
            if parameter != "return" and kinds and all(each in PLAIN for each in kinds):
                wrong[parameter] = 3j if len(kinds) > 1 else PLAIN[kinds[0]]
    return wrong


CASES = {name: item for name, item in public_callables() if wrong_values(item)}


def recorded_arguments(name, item):
    """The arguments of the first call in the example of a function."""
    found = doctest.DocTestFinder(recurse=False).find(item, name, module=False, globs=dict(SETUP), extraglobs=SETUP)
    calls = []

    def note(frame, event, argument):
        if event == "call" and frame.f_code is written(item).__code__ and not calls:
            calls.append(dict(frame.f_locals))

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for example in found:
                example.globs |= vars(sys.modules[item.__module__]) | SETUP
                doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, clear_globs=False)
    finally:
        sys.setprofile(previous)
    return calls[0] if calls else None


def right_value(parameter):
    """A value of a kind that a required parameter takes."""
    text = str(parameter.annotation)
    return next((value for start, value in RIGHT.items() if text.startswith(start)), None) or onnxgrad.ones([2, 2])


def call(item, arguments, parameter, value):
    """Call a function with one argument replaced."""
    signature = inspect.signature(written(item))
    positional, keywords = [], {}
    for each in signature.parameters.values():
        if each.name == "self" and inspect.isclass(item):
            continue
        passed = value if each.name == parameter else arguments.get(each.name, each.default)
        if each.kind is each.VAR_POSITIONAL:
            positional += [value] if each.name == parameter else list(arguments.get(each.name, ()))
        elif each.kind is each.VAR_KEYWORD:
            keywords |= arguments.get(each.name, {})
        elif each.kind is each.KEYWORD_ONLY:
            keywords[each.name] = passed
        else:
            positional.append(passed)
    with contextlib.redirect_stdout(io.StringIO()):
        item(*positional, **keywords)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_each_argument_of_a_wrong_kind_is_refused_with_its_name(name, tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    item = CASES[name]
    with isolated():
        arguments = recorded_arguments(name, item)
        if arguments is None:
            required = inspect.signature(written(item)).parameters.values()
            arguments = {
                each.name: right_value(each) for each in required if each.default is each.empty and each.kind.name[:3] != "VAR"
            }
            arguments |= {key: onnxgrad.to_tensor(array) for key, array in OPERANDS.get(name, {}).items()}
        silent = {}
        for parameter, value in wrong_values(item).items():
            try:
                call(item, arguments, parameter, value)
            except OnnxGradError as error:
                if not isinstance(error, (TypeError, ValueError)) or parameter not in str(error):
                    silent[parameter] = repr(error)
            except Exception as error:
                silent[parameter] = repr(error)
            else:
                silent[parameter] = "passes"
    assert silent == {}


def test_nearly_all_public_functions_are_called():
    assert len(CASES) > 600 and {"static.nn.fc", "nn.functional.relu", "training.Trainer", "optimizer.Adam"} <= set(CASES)
