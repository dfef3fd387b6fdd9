"""What mypy --strict and pyright say of programs that users write: nothing of right ones, which also run, and each mistake on its line.

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
FILES = sorted(path for path in HERE.glob("*.py") if not path.stem.startswith(("__init__", "test_")))
RIGHT = [path for path in FILES if not path.stem.startswith("mistakes_")]


NAMES = [path.relative_to(ROOT).as_posix() for path in FILES]
COMMANDS = {
    "mypy": ["mypy", "--strict", "--cache-dir", ".mypy_cache/typing", *NAMES],
    "pyright": ["pyright", "--pythonpath", sys.executable, *NAMES],
}


@pytest.fixture(scope="module", params=COMMANDS)
def errors(request):
    """By file, the lines on which a checker finds an error."""
    pytest.importorskip(request.param)
    run = [sys.executable, "-m", *COMMANDS[request.param]]
    text = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert re.search(r"^(Found )?\d+ errors?\b", text, re.MULTILINE), text
    lines = {name: set() for name in NAMES}
    for name, line in re.findall(r"(tests/typing/\w+\.py):(\d+)(?::\d+ -|:) error", text):
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
