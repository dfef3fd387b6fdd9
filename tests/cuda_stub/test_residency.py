"""Training steps on the real CUDA provider over a runtime without a device: sessions open, and nothing but scalars is copied.

ONNXGRAD_CUDA_PYTHON names the Python of an environment with onnxruntime-gpu; ``scripts/test --all`` makes one.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cuda_stub.build import LISTING, build, can_build

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("ONNXGRAD_CUDA_PYTHON", "")
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not PYTHON, reason="ONNXGRAD_CUDA_PYTHON is not set"),
    pytest.mark.skipif(not can_build(), reason="cc and nm are needed"),
]
SCALARS = 64
"""Bytes up to which a copy is one of scalars: counts, shapes, conditions."""
COPIED = {
    # SplitToSequence and SequenceInsert have kernels on the CPU alone.
    "real/dlrm-dyn18",
    # The axes of a sum, whose number is not known.
    "real/whisper-legacy14",
}
"""Cases in which more than scalars is copied."""


@pytest.fixture(scope="session")
def stub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stub")
    found = subprocess.run(
        [PYTHON, "-c", "import onnxruntime; print(onnxruntime.__file__)"], capture_output=True, text=True, check=True
    )
    build(Path(found.stdout.strip()).parent / "capi", folder)
    return folder


def on_stub(stub, *command, listing=False):
    path = f"{stub}:{stub / LISTING}" if listing else str(stub)
    given = {**os.environ, "LD_LIBRARY_PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run([PYTHON, *command], capture_output=True, text=True, cwd=ROOT, env=given, check=False)


def test_the_table_of_kernels_is_that_of_the_installed_package(stub):
    done = on_stub(stub, "scripts/write_cuda_kernels", "--check", listing=True)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("amp", ["", ":float16", ":bfloat16"])
@pytest.mark.parametrize("kind", ["net", "workload", "real"])
def test_steps_open_and_copy_scalars_alone(stub, kind, amp):
    done = on_stub(stub, "-m", "tests.cuda_stub.residency", f"{kind}{amp}")
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert found
    assert not [case for case in found if "error" in case]
    for case in found:
        large = [copy for copy in case["copies"] if copy[2] is None or copy[2] > SCALARS]
        assert bool(large) == (case["case"] in COPIED), (case["case"], large)
    if kind == "net" and not amp:
        assert all(not case["copies"] for case in found if case["case"] != "net/unknown_batch")


def test_a_step_copies_its_feeds_and_its_loss(stub):
    """Weights, moments and masks stay on the device; the loss comes back in one copy"""
    done = on_stub(stub, "-m", "tests.cuda_stub.steps", str(stub))
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["to_host"] == [1, 4]
    assert found["to_device"] == [2, 64 * 32 * 4 + 64 * 4 * 4]
    assert found["launches"] > 50
