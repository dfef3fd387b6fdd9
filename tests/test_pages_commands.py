"""The commands of the pages that a newcomer follows run as they are written, and leave nothing that git would see."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
# Made by git, pip and the shell, not by this package.
SETS_UP = ("git clone", "cd ", "python3 -m venv", ". .venv", "pip install")


def commands(page):
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line and not line.startswith(SETS_UP)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", ["use/start.md", "gallery.md"])
def test_commands_of_page_run_one_after_the_other(page, tmp_path):
    lacking = [name for name in ("PIL", "sklearn", "matplotlib") if find_spec(name) is None]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} is not installed: the commands were not run")
    (tmp_path / "models").symlink_to(ROOT / "models")
    for line in commands(page):
        name, *arguments = shlex.split(line, comments=True)
        start = ["-m", name] if name == "onnxgrad" else []
        assert name in ("onnxgrad", "python"), line
        done = subprocess.run(
            [sys.executable, *start, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0, line + done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "out"]
