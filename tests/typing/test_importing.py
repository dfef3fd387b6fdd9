"""Both checkers know each name that a public module lists, as ``from onnxgrad.nn.initializer import XavierUniform`` reads it."""

import subprocess
import sys
from pathlib import Path

import pytest

from onnxgrad.internal.refusals import refused
from tests.typing.test_names import MODULES, module_at

ROOT = Path(__file__).parents[2]
# Homes that an import statement names, not other names of the same module.
HOMES = ["onnxgrad", *(f"onnxgrad.{name}" for name in MODULES if module_at(name).__name__ == f"onnxgrad.{name}")]
CHECKERS = {
    "mypy": ["mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "typing")],
    "pyright": ["pyright", "--pythonpath", sys.executable],
}


def imports():
    """A statement for each name that is offered."""
    for home in HOMES:
        module = sys.modules[home]
        prefix = home.replace(".", "_")
        for name in module.__all__:
            if not isinstance(getattr(module, name), refused):
                yield f"from {home} import {name} as name_{len(prefix)}_{prefix}_{name}"


@pytest.mark.process
@pytest.mark.parametrize("checker", CHECKERS)
def test_each_name_of_each_public_module_is_one_that_checkers_know(checker, tmp_path):
    pytest.importorskip(checker)
    statements = [*imports(), "from onnxgrad.nn import Nothing"]
    assert len(statements) > 1500
    file = tmp_path / "names.py"
    file.write_text("\n".join(statements) + "\n")
    command = [sys.executable, "-m", *CHECKERS[checker], str(file)]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = [line for line in text.splitlines() if " error: " in line or " - error: " in line]
    assert len(found) == 1 and "Nothing" in found[0], "\n".join(found)
