"""onnxgrad: training for every ONNX model.

Take a forward program, built here or loaded from an .onnx file, append its backward pass and an optimizer as standard ONNX
operators, and run it with stock onnxruntime.

Names are imported from their homes when they are first used; ``__init__.pyi`` beside this file says which those are.
"""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from onnxgrad.internal import late
from onnxgrad.internal.collector import imported_live_on
from onnxgrad.internal.refusals import AbsentModules, absent
from onnxgrad.version import __version__ as __version__


@cache
def _homes() -> dict[str, tuple[str, str]]:
    """Module and name there, for each name of the stub."""
    import ast  # not where only help is printed

    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name != "*"
    }


_ROOMS = ("onnxgrad", "onnxgrad.core", "onnxgrad.internal")
"""Whose names are modules."""
# Behind all others: it is asked for what none of them has.
sys.meta_path.append(AbsentModules())
late.add_loader(lambda: import_module("onnxgrad.tensor.methods"))


def __getattr__(name: str) -> Any:
    with imported_live_on():
        if name == "__all__":
            return sorted({*_homes(), *import_module("onnxgrad.tensor").__all__})
        if name in _homes():
            home, there = _homes()[name]
            attribute = import_module(f"{home}.{there}") if home in _ROOMS else getattr(import_module(home), there)
        elif not name.startswith("_") and name in import_module("onnxgrad.tensor").__all__:
            attribute = getattr(import_module("onnxgrad.tensor"), name)
        else:
            raise absent("onnxgrad", name)
        if name == "Tensor":
            late.load_methods()  # Code asks the class which methods there are.
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
