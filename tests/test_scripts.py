"""The scripts ask for names that exist: what no test runs is not left behind when a module is renamed."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = [
    *(
        path
        for path in (ROOT / "scripts").iterdir()
        if path.is_file() and path.read_text().startswith("#!") and "python" in path.read_text()[:40]
    ),
    *(ROOT / "scripts" / "benchmark_suite").glob("*.py"),
]
OURS = ("onnxgrad", "tests", "benchmark_suite")


def missing_names(path: Path) -> list[str]:
    """What a script imports of ours, or reads of a module of ours, that is not there."""
    tree = ast.parse(path.read_text())
    modules: dict[str, ModuleType] = {}
    missing = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] in OURS:
                    module = importlib.import_module(name.name)
                    modules[name.asname or name.name.partition(".")[0]] = (
                        module if name.asname else sys.modules[name.name.partition(".")[0]]
                    )
        if isinstance(node, ast.ImportFrom) and node.level == 0 and str(node.module).partition(".")[0] in OURS:
            module = importlib.import_module(str(node.module))
            for name in node.names:
                if not hasattr(module, name.name):
                    try:
                        importlib.import_module(f"{node.module}.{name.name}")
                    except ImportError:
                        missing.append(f"{node.module}.{name.name}")
                        continue
                value = getattr(module, name.name)
                if isinstance(value, ModuleType):
                    modules[name.asname or name.name] = value
    missing += [name for node in ast.walk(tree) if isinstance(node, ast.Attribute) and (name := _missing_name(node, modules))]
    return missing


def _missing_name(node: ast.Attribute, modules: dict[str, ModuleType]) -> str | None:
    """The name that ``module.name`` reads, where the module has none of that name."""
    module = _value_of(node.value, modules)
    if not isinstance(module, ModuleType) or hasattr(module, node.attr):
        return None
    return f"{module.__name__}.{node.attr}"


def _value_of(node: ast.expr, modules: dict[str, ModuleType]) -> object:
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    return getattr(_value_of(node.value, modules), node.attr, None) if isinstance(node, ast.Attribute) else None


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_all_names_of_a_script_exist(path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    assert missing_names(path) == []


def test_a_name_that_is_gone_is_found(tmp_path):
    script = tmp_path / "script"
    script.write_text(
        "from onnxgrad.core.ir import program\nfrom onnxgrad.core import gone\nprogram.Program()\nprogram.Programme()\n"
    )
    assert missing_names(script) == ["onnxgrad.core.gone", "onnxgrad.core.ir.program.Programme"]


@pytest.mark.process
def test_the_checks_of_a_device_run_without_one():
    command = [
        sys.executable,
        str(ROOT / "scripts" / "check_cuda"),
        "--device",
        "cpu",
        "--only",
        "precision",
        "determinism",
        "cuda_graph",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing failed" in done.stdout and "left out: capture needs a device" in done.stdout
