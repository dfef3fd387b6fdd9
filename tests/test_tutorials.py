"""The notebooks of docs/tutorials run from their first cell to their last, and leave nothing behind."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "tutorials"
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
SCRIPT_NAMES = runpy.run_path(str(SCRIPT))


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path):
    lacking = SCRIPT_NAMES["missing"](path)
    if lacking:
        pytest.skip(f"{path.stem} needs {', '.join(lacking)}, which is not installed: it was not run")
    before = set(path.parent.iterdir())
    done = subprocess.run([sys.executable, SCRIPT, "--check", path.stem], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(path.parent.iterdir()) == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_as_it_was_run(path):
    """Each cell that prints has its output, no error is stored, and the file stays small."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert kinds and "error" not in kinds
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert path.stat().st_size < 200_000
    assert "/tmp/" not in path.read_text() and str(Path.home()) not in path.read_text()


def test_failing_command_of_a_notebook_fails(tmp_path):
    names = {}
    exec(SCRIPT_NAMES["PRELUDE"], names)
    with pytest.raises(RuntimeError, match="ended with"):
        exec(SCRIPT_NAMES["plain"](f"x = 1\n!{sys.executable} -c 'raise SystemExit(3)'"), names)
