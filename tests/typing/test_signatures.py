"""Signatures of all that is public: what a checker reads of them, and what a person does.

What checkers read of tensor functions and methods stands in stubs, of the rest in the sources.
"""

import ast
import fnmatch
import importlib
import inspect
import re
import types
import typing
from pathlib import Path

import onnxgrad
from onnxgrad import reader
from onnxgrad.internal import refusals
from tests.typing.test_names import LISTED

ROOT = Path(onnxgrad.__file__).parent
STUBS = {"tensor": "tensor/__init__.pyi", "nn.functional": "nn/functional/__init__.pyi", "methods": "core/ir/tensor_methods.pyi"}
CALLED = {"__init__", "__call__", "__getitem__", "__iter__", "__len__", "__enter__"}

WORDS = {
    "act", "activation", "batch_norm", "compress", "compute_mode", "data_format", "direction", "expand", "external_data", "interpolation",
    "level", "lowering", "memory", "mode", "norm", "op", "padding_mode", "precision", "quantised", "quantized", "reduce", "reduction",
    "sampling", "scales", "schedule",
}  # fmt: skip
"""Parameters that take one of a few words wherever they stand."""

SHARED = {"Manifest", "Parameters", "Row"}
"""Aliases, each with a comment in its module: JSON of an exported step, groups of an optimizer, what a run measured."""

WHY = {
    "element": "the type of an element is known when it runs; numpy says the same",
    "file": "what a file holds is known when it is read",
    "forwarded": "handed on to a function that the user chose, whose arguments and result these are",
    "own": "a class of the user's own says it: its forward, its hooks, its metric",
    "row": "numbers and texts by name",
    "sample": "a batch has the structure of the samples",
    "state": "numbers, arrays and the states of what is within, by name",
    "cell": "a tensor or a tuple of them, as the cell or the arguments say",
}
"""Why a signature may say ``Any``."""

ALLOWED = {
    "Tensor.item(return)": "element",
    "Tensor.tolist(return)": "element",
    "dtypes.dtype_of(value)": "element",
    "load(return)": "file",
    "jit.TranslatedLayer.forward(*)": "file",
    "*.state_dict(return)": "state",
    "*.load_state_dict(state_dict)": "state",
    "*.set_state_dict(state_dict)": "state",
    "*.attributes_of(*)": "state",
    "*.moved(*)": "state",
    "autograd.Function.*": "own",  # PyLayer too, of which it is another name
    "autograd.saved_tensors_hooks.__init__(*)": "own",
    "jit.TranslatedLayer.register_forward_*(hook)": "own",
    "metric.Accuracy.*": "own",
    "io.*.__getitem__(return)": "sample",
    "*io.DataLoader.*": "sample",
    "Model.*": "sample",
    "batch(*)": "sample",
    **{f"fluid.io.{name}(*)": "sample" for name in reader.__all__ if name != "batch"},
    "incubate.LookAhead.minimize(return)": "state",
    "distribution.*Transform.__call__(*)": "own",
    "distribution.*Transform.inverse*(return)": "own",
    "distributed.fleet.utils.recompute(*)": "forwarded",
    "federated.strategy(more)": "forwarded",
    "nn.Sequential.forward(*)": "forwarded",
    "nn.RNN.forward(kwargs)": "forwarded",
    "nn.BiRNN.forward(kwargs)": "forwarded",
    "testing.Sample.__init__(attrs)": "forwarded",
    "training.*.on_begin(plan)": "row",
    "nn.*RNN.forward(*)": "cell",
    "nn.GRUCell.get_initial_states(return)": "cell",
    "nn.MultiHeadAttention.forward(return)": "cell",
}
"""Patterns of names, and the reason."""


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
    return re.sub(
        r"\w+", lambda word: "_" if word[0] != "Any" and isinstance(home.get(word[0]), (type, typing.TypeVar)) else word[0], text
    )


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


def unlisted():
    """Public functions, methods and classes with arguments that their docstring, or that of the class, does not list."""
    classes = {name: value for name, value in public() if inspect.isclass(value)}
    for name, function in callables():
        owner, _, member = name.rpartition(".")
        arguments = {one.name for one in inspect.signature(function).parameters.values()} - {"self", "cls", "name"}
        if not arguments or function.__module__ in (refusals.__name__, "typing") or (member in CALLED and member != "__init__"):
            continue
        text = inspect.getdoc(function) or ""
        if owner in classes:  # whose methods have the text of the class they override
            text += (
                inspect.getdoc(classes[owner]) if member == "__init__" else inspect.getdoc(getattr(classes[owner], member))
            ) or ""
        if not re.search(r"^Args\b.*:", text, re.MULTILINE):
            yield name


def plain_words():
    """Parameters that take one of a few words, typed as any text."""
    for name, what, text in [*types_in_sources(), *types_in_stubs()]:
        if what in WORDS and re.search(r"\bstr\b", text):
            yield f"{name}({what})"


def test_any_stands_only_where_nothing_more_is_known():
    unknown = {name: text for name, text in without_meaning() if not any(fnmatch.fnmatchcase(name, one) for one in ALLOWED)}
    unknown = {name: text for name, text in unknown.items() if not SHARED & set(re.findall(r"\w+", text))}
    assert unknown == {}


def test_what_is_allowed_is_needed():
    found = [name for name, _ in without_meaning()]
    assert [one for one in ALLOWED if not fnmatch.filter(found, one)] == []
    assert set(ALLOWED.values()) <= set(WHY) and len(found) > 20


def test_every_argument_is_listed():
    assert set(unlisted()) == {"func.NumpyFunction.__init__"}  # made by functions of this package alone
    assert len(list(callables())) > 1200


def test_words_are_literal():
    assert set(plain_words()) == set()


if __name__ == "__main__":
    for found in without_meaning():
        print(*found)
