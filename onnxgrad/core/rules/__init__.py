"""Gradient rules, one module per operator family. Importing this package fills the rule table.

Rules of your own are declared with the same decorators, from anywhere: ``@onnxgrad.gradient("MyOp", domain="my.domain")``.
"""

from __future__ import annotations

import importlib
import pkgutil

from onnxgrad.core.rules.registry import expansion, gradient, stops_gradient, unsupported

__all__ = ["expansion", "gradient", "stops_gradient", "unsupported"]


def __dir__() -> list[str]:
    return __all__


for _name in [module.name for module in pkgutil.iter_modules(__path__)]:
    importlib.import_module(f"{__name__}.{_name}")
