"""Names of public modules: literal lists, which tools read that run nothing, and what completion shows."""

import ast
import importlib
import types
from pathlib import Path

import pytest

import onnxgrad

ROOT = Path(onnxgrad.__file__).parent
BESIDE = ("attribution", "dtypes", "federated", "training.data")
"""Public modules that no other lists."""


def public_modules():
    """Below the package, the modules that a user comes to by the names of another."""
    names = list(BESIDE)
    for name in names:
        yield name
    waiting = [("", onnxgrad)]
    while waiting:
        prefix, module = waiting.pop()
        for name in module.__all__:
            inner = getattr(module, name)
            if isinstance(inner, types.ModuleType) and f"{prefix}{name}" not in names:
                names.append(f"{prefix}{name}")
                yield names[-1]
                waiting.append((f"{names[-1]}.", inner))


MODULES = sorted(public_modules())
# What they list stands in a stub beside them, and elsewhere.
LISTED = [name for name in MODULES if name not in ("tensor", "rules", "state", "fluid.unique_name")]


def test_public_modules_are_all_found():
    assert len(MODULES) > 40 and {"nn.functional", "optimizer.lr", "fluid.layers", "static.amp.bf16"} <= set(MODULES)


def module_at(name):
    module = onnxgrad
    for part in name.split("."):
        module = getattr(module, part, None) or importlib.import_module(f"{module.__name__}.{part}")
    return module


def lists_of(name):
    """What is assigned to ``__all__`` in the source of a module, or added to it."""
    source = Path(module_at(name).__file__).read_text()
    for statement in ast.parse(source).body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            yield statement.value


@pytest.mark.parametrize("name", LISTED)
def test_lists_are_literal_and_name_what_is_there(name):
    (names,) = map(ast.literal_eval, lists_of(name))
    module = module_at(name)
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
    module = module_at(name)
    assert sorted(dir(module)) == sorted(module.__all__)
