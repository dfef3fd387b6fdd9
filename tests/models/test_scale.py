"""Ray, Dask and Spark over one worker come to the weights of one process; the pages show the programs that run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SCALE = ROOT / "models" / "scale"
sys.path.insert(0, str(SCALE))
import worker as scale  # noqa: E402

pytestmark = pytest.mark.process

sys.path.remove(str(SCALE))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("scale")
    scale.write_files(folder)
    return folder


@pytest.mark.parametrize("workers", [2, 3])
def test_shares_of_a_batch_make_its_step(files, workers):
    """Of unequal sizes: 100 examples for three"""
    members = [scale.Worker(files / "step.json") for _ in range(workers)]
    batches = [scale.batches(files, 6, number, workers) for number in range(workers)]
    for step in range(6):
        parts = [member.gradients(batches[number][step]) for number, member in enumerate(members)]
        losses = [member.apply(parts) for member in members]
        assert len(set(losses)) == 1
    for name, value in members[0].weights().items():
        np.testing.assert_array_equal(value, members[1].weights()[name])
    assert scale.difference(members[0].weights(), files, 6) < 5e-6


@pytest.mark.parametrize("engine", ["ray", "dask", "spark"])
def test_pages_show_the_programs(engine):
    page = (ROOT / "docs" / "use" / f"scale_{engine}.md").read_text()
    program = (SCALE / f"on_{engine}.py").read_text()
    assert f"```py\n{program}```" in page


@pytest.mark.exhaustive
@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("dask", "distributed"), ("spark", "pyspark")])
def test_engines_come_to_the_weights_of_one_process(files, engine, package):
    pytest.importorskip(package, reason=f"{package} is not installed: training on {engine} was not tried")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, SCALE / f"on_{engine}.py", files]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=files, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    (difference,) = re.findall(r"largest difference from one worker: (\S+)", done.stdout)
    assert float(difference) < 5e-6
    if engine == "spark":
        assert int(re.findall(r"right after training: (\d+) of 1797", done.stdout)[0]) > 1500
