"""Names of public modules: literal lists, which tools read that run nothing, and what completion shows."""

import ast
import importlib
import types
from pathlib import Path

import pytest

import onnxgrad

ROOT = Path(onnxgrad.__file__).parent
MODULES = (
    *(
        "amp",
        "attribution",
        "autograd",
        "device",
        "distributed",
        "dtypes",
        "errors",
        "federated",
        "fft",
        "fluid",
        "func",
        "incubate",
    ),
    *("incubate.autograd", "io", "jit", "linalg", "onnx", "regularizer", "static", "static.amp", "static.nn", "tensor", "testing"),
    *("training", "training.data", "utils"),
)
LISTED = [*(name for name in MODULES if name != "tensor"), "metric", "nn", "nn.functional", "optimizer", "optimizer.lr"]


def lists_of(name):
    """What is assigned to ``__all__`` in the source of a module, or added to it."""
    path = ROOT.joinpath(*name.split("."))
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    for statement in ast.parse(source).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            yield statement.value


@pytest.mark.parametrize("name", LISTED)
def test_lists_are_literal_and_name_what_is_there(name):
    (names,) = map(ast.literal_eval, lists_of(name))
    module = importlib.import_module(f"onnxgrad.{name}")
    assert module.__all__ == names and len(set(names)) == len(names)
    assert [one for one in names if not hasattr(module, one)] == []


def test_the_stub_of_tensor_functions_has_what_the_module_has():
    """It is the list that tools read there; what is refused is in none."""
    stub = ast.parse((ROOT / "tensor" / "__init__.pyi").read_text())
    defined = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    defined |= {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names if alias.asname}
    tensor = importlib.import_module("onnxgrad.tensor")
    assert defined == set(tensor.__all__) - set(tensor.REFUSED["paddle"])


@pytest.mark.parametrize("name", MODULES)
def test_completion_shows_no_name_that_is_not_the_modules_own(name):
    module = importlib.import_module(f"onnxgrad.{name}")
    shown = {one for one in dir(module) if not one.startswith("_")} - set(module.__all__)
    strange = {one for one in shown if not isinstance(getattr(module, one), types.ModuleType)}
    strange |= {one for one in shown - strange if getattr(module, one).__name__ != f"{module.__name__}.{one}"}
    assert strange == set()
