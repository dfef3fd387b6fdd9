"""The examples that explain a classifier run and leave a picture."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

EXPLAIN = Path(__file__).parents[2] / "models" / "explain"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["saliency", "grad_cam", "fgsm"])
def test_example_writes_its_picture(name, tmp_path):
    picture = tmp_path / "picture.png"
    done = subprocess.run([sys.executable, EXPLAIN / f"{name}.py", picture], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    if name == "fgsm":
        before, after = (float(word.strip(",")) for word in done.stdout.split() if word.strip(",").replace(".", "").isdigit())
        assert before > 0.9 and after < before - 0.3
