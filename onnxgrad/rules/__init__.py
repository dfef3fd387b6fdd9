"""Gradient rules, one module per operator family. Importing this package fills the rule table."""

from __future__ import annotations

import importlib
import pkgutil

__all__ = [module.name for module in pkgutil.iter_modules(__path__)]

for _name in __all__:
    importlib.import_module(f"{__name__}.{_name}")
