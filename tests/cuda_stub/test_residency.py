"""Training steps on the real CUDA provider over a runtime without a device: sessions open, and nothing is copied.

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
    pytest.mark.process,
]
DECIDED = {"real/jax-cond", "real/cond_if-dyn18", "real/cond_if-dyn21-noopt", "real/while_loop-dyn18"}
"""Cases of If and Loop, whose condition is copied to the host: one byte."""
COPIED = {
    # A Loop that fills a sequence: SplitToSequence and SequenceInsert have kernels on the CPU alone.
    "real/dlrm-dyn18",
    # The axes of a sum, at most three, whose number is not known.
    "real/whisper-legacy14",
}
"""Cases in which something else is copied."""
UNKNOWN = {"real/bert-legacy14", "real/dlrm-dyn18", "real/gnn_scatter-legacy16", "real/whisper-legacy14"}
"""Steps without control flow some of whose sizes are not known even with those of the inputs."""


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
def test_steps_open_and_copy_nothing_but_conditions(stub, kind, amp):
    done = on_stub(stub, "-m", "tests.cuda_stub.residency", f"{kind}{amp}")
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert found
    assert not [case for case in found if "error" in case]
    copies = {case["case"]: case["copies"] for case in found if case["copies"]}
    assert set(copies) <= DECIDED | COPIED and (kind != "real" or set(copies) == DECIDED | COPIED)
    assert all(len(copies[name]) == 1 and copies[name][0][::2] == ["ToHost", 1] for name in set(copies) & DECIDED)


def test_steps_of_known_sizes_without_control_flow_are_captured(stub):
    done = on_stub(stub, "-m", "tests.cuda_stub.residency", "net:graph", "workload:graph", "real:graph")
    assert done.returncode == 0, done.stderr[-2000:]
    found = {case["case"]: case for case in map(json.loads, done.stdout.splitlines())}
    assert len(found) > 60 and not [case for case in found.values() if "error" in case]
    reasons = {name: case["reason"] for name, case in found.items() if case["reason"] is not None}
    plain = {name for name, reason in reasons.items() if "decides on the host" in reason}
    assert {name for name in plain if name.startswith("workload/")} == {"workload/W7", "workload/L256", "workload/LSTM2x512"}
    assert set(reasons) - plain == UNKNOWN


def test_a_step_copies_its_feeds_and_its_loss(stub):
    """Weights, moments and masks stay on the device; the loss comes back in one copy"""
    done = on_stub(stub, "-m", "tests.cuda_stub.steps", str(stub))
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["to_host"] == [1, 4]
    assert found["to_device"] == [2, 64 * 32 * 4 + 64 * 4 * 4]
    assert found["launches"] > 50
    assert found["captures"] == found["replays"] == 0


@pytest.mark.parametrize("name", ["W1a", "W4", "W5", "W6"])
def test_a_step_of_a_workload_copies_its_loss_to_the_host_once(stub, name):
    """Those that need no cuDNN, without which the rest does not run"""
    done = on_stub(stub, "-m", "tests.cuda_stub.steps", str(stub), name)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["to_host"] == [1, 4]


def test_bfloat16_values_cross_to_the_device_and_back(stub):
    done = on_stub(stub, "-m", "tests.cuda_stub.values")
    assert done.stdout.splitlines()[-1:] == ["3 shapes"], done.stderr[-2000:]


def test_state_that_is_read_on_the_host_is_that_of_the_last_run(stub):
    """onnxruntime copies such state when it is bound, and each side of a binding is bound once"""
    done = on_stub(stub, "-m", "tests.cuda_stub.host_state")
    assert done.stdout.splitlines()[-1:] == ["[2, 4, 8, 16, 32]"], done.stderr[-2000:]


def test_a_captured_step_is_one_launch(stub):
    """One graph for each side of the state; then a step is its feeds, a replay and its loss"""
    done = on_stub(stub, "-m", "tests.cuda_stub.steps", str(stub), "graph")
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["captures"] == 2 and found["replays"] == 1
    assert found["launches"] == 0 and found["within"] == [0, 0]
    assert found["to_host"] == [1, 4]
    assert found["to_device"] == [2, 64 * 32 * 4 + 64 * 4 * 4]


def test_gradients_of_a_rank_stay_on_the_device(stub):
    """Nothing is copied from the first exchange to the end of the step, and all kernels are launched on the exchange's stream"""
    done = on_stub(stub, "-m", "tests.cuda_stub.device_ranks", str(stub))
    assert done.returncode == 0, done.stderr[-2000:]
    there, *others, here = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert there["on device"] and there["exchanged"] == [["all_reduce", 9536]]
    assert there["after gradients"] == [0, 0, 0, 0]
    # To the host: the loss, what it is divided by, and its sum. To the device: the feeds.
    assert there["copies"] == [3, 12, 2, 16 * 32 * 4 + 16 * 4 * 4]
    assert there["launches"][0] == there["launches"][1] > 50
    # By way of main memory each gradient crosses twice.
    assert here["copies"][1] == there["copies"][1] + here["weights"] and here["copies"][3] == there["copies"][3] + here["weights"]
    assert here["launches"][1] == 0
    assert [(one["way"], [kind for kind, _ in one["exchanged"]]) for one in others] == [
        ("sums", ["all_reduce"] * 3),
        ("ranges", ["all_reduce", "reduce_scatter", "all_gather"]),
        ("ranges, clipped", ["all_reduce", "reduce_scatter", "all_gather"]),
        ("ranges of sums", ["all_reduce", "all_reduce", "reduce_scatter", "all_gather"]),
        ("16 bits", ["all_to_all", "all_gather"]),
        ("16 bits of ranges of sums", ["all_reduce", "all_to_all", "all_gather", "all_to_all", "all_gather"]),
    ]
    for one in others:
        # Of gradients, sums, moments and weights nothing crosses; of the norm of all three numbers go by the host, to be added up.
        runs, norms = 2 if "sums" in one["way"] else 1, 3 if "clipped" in one["way"] else 0
        assert one["after gradients"] == [norms, 4 * norms, norms, 4 * norms], one["way"]
        feeds = runs * (16 * 32 * 4 + 16 * 4 * 4)
        assert one["copies"] == [3 * runs + norms, 12 * runs + 4 * norms, 2 * runs + norms, feeds + 4 * norms], one["way"]
        assert one["places"] == ["cuda"], one["way"]
        assert one["launches"][0] == one["launches"][1] > 50, one["way"]


def test_ranks_shards_stages_and_workers_run_on_the_place_that_is_named(stub):
    """They named the CPU themselves, or refused any other place"""
    done = on_stub(stub, "-m", "tests.cuda_stub.shares", str(stub))
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [case["way"] for case in found] == ["ranks", "overlapped", "shards", "shares_of_gradients", "stages", "worker"]
    for case in found:
        assert case["providers"] == ["CUDAExecutionProvider"], case["way"]
        assert case["launches"] > 20, case["way"]
