"""What mypy --strict says of programs that users write: nothing of right ones, which also run, and each mistake on its line.

``NAME.py`` is a right program with a ``main``; ``mistakes_NAME.py`` has a mistake on each line that ends in ``# error``.
"""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILES = sorted(path for path in HERE.glob("*.py") if path.stem not in ("__init__", Path(__file__).stem))
RIGHT = [path for path in FILES if not path.stem.startswith("mistakes_")]


@pytest.fixture(scope="module")
def errors():
    """By file, the lines on which mypy finds an error."""
    pytest.importorskip("mypy")
    names = [path.relative_to(ROOT).as_posix() for path in FILES]
    run = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".mypy_cache/typing", *names]
    text = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    lines = {name: set() for name in names}
    for name, line in re.findall(r"^(\S+\.py):(\d+): error", text, re.MULTILINE):
        lines[name].add(int(line))
    return lines


@pytest.mark.process
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_mistakes_are_found_where_they_are(path, errors):
    text = path.read_text().split("\n")
    marked = {number for number, line in enumerate(text, 1) if line.endswith("# error")}
    assert bool(marked) == path.stem.startswith("mistakes_")
    found = errors[path.relative_to(ROOT).as_posix()]
    assert {text[number - 1] for number in marked - found} == set()
    assert {text[number - 1] for number in found - marked} == set()


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_right_programs_run(path):
    importlib.import_module(f"tests.typing.{path.stem}").main()
