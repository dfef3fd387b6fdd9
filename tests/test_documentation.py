"""Examples in docstrings and README run; generated files are current; imports point one way; modules stay short."""

import ast
import doctest
import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx.reference.op_run import OpRun

import onnxgrad
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.autodiff.registry import TABLE
from onnxgrad.testing import Sample, check_adjointness, check_gradient

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "onnxgrad"
MODULES = sorted(module.name for module in pkgutil.walk_packages([str(PACKAGE)], "onnxgrad."))
SETUP = {
    "OpRun": OpRun,
    "onnxgrad": onnxgrad,
    "np": np,
    "paddle": onnxgrad,
    "static": static,
    "fluid": onnxgrad.fluid,
    "draw_program": onnxgrad.utils.draw_program,
    "unique_name": onnxgrad.utils.unique_name,
    "state_of": importlib.import_module("onnxgrad.compat").state_of,
    "F": F,
    "Sample": Sample,
    "check_adjointness": check_adjointness,
    "check_gradient": check_gradient,
    "Executor": onnxgrad.Executor,
}

# Each layer may use itself and what stands before it.
LAYERS = [
    {"state", "errors", "dtypes", "refusals"},
    {"ir"},
    {"interop", "passes"},
    {"autodiff.registry", "autodiff.accumulate"},
    {"rules"},
    {"autodiff"},
    {"lowering", "runtime"},
    {"eager"},
    {"tensor", "fft", "linalg", "static", "nn", "optimizer", "regularizer", "autograd", "incubate", "amp"},
    {"utils"},
    {"fluid"},
    {"training", "testing", "reference_ops", "func", "compat"},
    {"cli"},
    {"__main__"},
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    declared = set(TABLE)
    module = importlib.import_module(name)
    for found in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=SETUP):
        onnxgrad.state.current = onnxgrad.state.State()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(found)
        for key in set(TABLE) - declared:
            del TABLE[key]
        assert runner.failures == 0, found.name


def test_readme_examples_run(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        code = block.replace("models/digits", str(ROOT / "models" / "digits")).replace('"tuned.onnx"', f'"{tmp_path}/tuned.onnx"')
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr


def test_readme_commands_run(tmp_path):
    (text,) = (
        block for block in re.findall(r"```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL) if "onnxgrad info" in block
    )
    (tmp_path / "models").symlink_to(ROOT / "models")
    for name in ("train", "val"):
        np.savez(tmp_path / f"{name}.npz", image=np.random.rand(70, 1, 8, 8), label=np.arange(70) % 10)
    for line in text.replace("\\\n", " ").splitlines():
        arguments = shlex.split(line, comments=True)
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0, line + done.stderr


def test_operator_table_is_current():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "write_operator_table", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_compatibility_table_is_current():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "write_compatibility_table", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


def layer_of(module):
    name = module.removeprefix("onnxgrad.")
    for level in range(len(LAYERS) - 1, -1, -1):
        if name in LAYERS[level]:
            return level
    first = name.split(".")[0]
    return next((level for level, members in enumerate(LAYERS) if first in members), None)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    if path.name == "__init__.py" and path.parent == PACKAGE:
        return
    own = layer_of(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("onnxgrad."):
            used = layer_of(node.module)
            assert used is not None and used <= own, f"{path.name} imports {node.module}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_are_short(path):
    assert len(path.read_text().splitlines()) <= 600


def test_import_is_quick_and_opens_no_thread():
    code = "import threading, sys, onnxgrad; assert threading.active_count() == 1; assert 'onnxruntime' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
