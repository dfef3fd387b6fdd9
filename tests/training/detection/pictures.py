"""Files of detectors that torch wrote, and pictures of what they were taught."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FILES = ROOT / "tests" / "data" / "detectors"


def module(name):
    """A module of models/detectors that needs numpy alone."""
    if f"detectors_{name}" not in sys.modules:
        if name == "data":
            sys.modules["shapes"] = module("shapes")
        specification = importlib.util.spec_from_file_location(f"detectors_{name}", ROOT / "models" / "detectors" / f"{name}.py")
        sys.modules[f"detectors_{name}"] = loaded = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(loaded)
    return sys.modules[f"detectors_{name}"]


shapes = module("shapes")


def file(name):
    return FILES / f"{name}.onnx"
