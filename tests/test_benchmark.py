"""scripts/benchmark: the smallest workload from end to end, what keeps a system from being timed, and what the numbers are made of."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onnxgrad

ROOT = Path(__file__).parents[1]


def start(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "scripts/benchmark"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def run(*arguments):
    done = start(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def suite(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")


@pytest.mark.process
@pytest.mark.exhaustive
def test_a_workload_is_timed_against_itself_twice(tmp_path):
    file = tmp_path / "found.json"
    quick = ("--rounds", "2", "--seconds", "0.01", "--repeat", "2", "--json", str(file))
    # A Python that says nothing stands for a system that is not installed.
    shown = run("--only", "W6", "--systems", "onnxgrad,torch", "--python", f"torch={shutil.which('false')}", *quick)
    assert shown.count("W6: embedding, fc") == 2
    assert "left out: torch: its Python cannot tell what is installed" in shown
    assert re.search(r"; 2 threads; load [\d., ]+ when it began; numpy ", shown.splitlines()[-1])
    found = json.loads(file.read_text())
    assert len(found["runs"]) == 2
    for run_ in found["runs"]:
        assert run_["W6"]["failed"] == {}
        of_onnxgrad = run_["W6"]["systems"]["onnxgrad"]
        assert of_onnxgrad["ratio"] == 1.0
        assert of_onnxgrad["memory"] > 0
        assert 0 < of_onnxgrad["share"] < 1
    assert found["machine"]["threads"] == 2
    assert "onnxruntime" in " ".join(found["machine"]["versions"]["onnxgrad"])


@pytest.mark.process
def test_the_first_steps_lower_the_loss():
    answer = run("--serve", "onnxgrad", "W1a", "--threads", "1")
    losses = json.loads(answer.strip().removeprefix("@"))["losses"]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)
    assert losses[4] < 0.99 * losses[0]


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments, reason",
    [
        (("--only", "W1a,W99"), "there is no workload 'W99'"),
        (("--systems", "torch,flame"), "there is no system 'flame'"),
        (("--python", "flame=python"), "there is no system 'flame'"),
        (("--python", "torch=/no/such/python"), "'/no/such/python' is no program"),
        (("--rounds", "0"), "--rounds is at least 1"),
        (("--device", "tpu"), "invalid choice: 'tpu'"),
        (("--device", "cuda", "--systems", "jax"), "no system can run on cuda"),
    ],
)
def test_a_wrong_argument_is_named(arguments, reason):
    done = start(*arguments)
    assert done.returncode != 0
    assert reason in done.stderr.splitlines()[-1]


@pytest.mark.process
@pytest.mark.skipif(onnxgrad.is_compiled_with_cuda(), reason="this onnxruntime has CUDA")
def test_a_device_that_is_missing_is_named():
    done = start("--device", "cuda", "--systems", "onnxgrad")
    assert done.returncode != 0
    reason = "benchmark: error: no system can run on cuda. onnxgrad: this onnxruntime has no CUDA provider"
    assert done.stderr.splitlines() == [reason]


BY_HAND = {
    # Multiplications; the gradient of each operand takes as many again, but data have none.
    "W1a": [64 * (2 * 784 * 512 + 3 * 512 * 512 + 3 * 512 * 10)],
    "W2": [64 * (2 * 20 * 24 * 24 * 25 + 3 * 50 * 8 * 8 * 20 * 25 + 3 * 800 * 500 + 3 * 500 * 10)],
    "W4": [3 * (4 * (1024 * (4 * 256 * 256 + 2 * 256 * 1024) + 2 * 8 * 4 * 128 * 128 * 64) + 1024 * 256 * 16)],
    "W7": [2 * 64 * 32 * 128 * 1024 + 3 * 64 * 32 * 256 * 1024 + 3 * 32 * 256 * 10],
    "W10a": [n * (2 * 20 * 24 * 24 * 25 + 3 * 50 * 8 * 8 * 20 * 25 + 3 * 800 * 500 + 3 * 500 * 10) for n in (64, 48, 17, 56)],
}


@pytest.mark.parametrize("name", BY_HAND)
def test_operations_are_those_counted_by_hand(name):
    from benchmark_suite.operations import operations
    from benchmark_suite.workloads import WORKLOADS

    assert operations(WORKLOADS[name]()) == [2 * n for n in BY_HAND[name]]


def test_operations_of_a_depthwise_convolution_with_stride():
    from benchmark_suite.operations import Layers

    layers = Layers({"x": np.zeros((8, 32, 48, 48))})
    y = layers.conv(layers.input("x"), "depth", 32, 32, 3, stride=2, pad=1, groups=32)
    assert y.dims == (8, 32, 24, 24)
    assert layers.operations == 2 * 2 * 8 * 32 * 24 * 24 * 9


def test_operations_of_a_transposed_convolution():
    from benchmark_suite.operations import Layers

    layers = Layers({"x": np.zeros((8, 32, 24, 24))})
    y = layers.up(layers.relu6(layers.input("x")), "up", 32, 16)
    assert layers.concat(y, y).dims == (8, 32, 48, 48)
    assert layers.operations == 2 * 2 * 8 * 24 * 24 * 32 * 16 * 4


def test_operations_of_every_workload_of_layers_are_counted():
    from benchmark_suite.operations import operations
    from benchmark_suite.workloads import WORKLOADS

    for make in WORKLOADS.values():
        workload = make()
        counted = operations(workload)
        if workload.shipped is not None:
            assert counted == []
            continue
        assert len(counted) == len(workload.feeds)
        assert min(counted) > 0


def test_the_rate_counts_each_step_with_the_feed_it_had():
    from benchmark_suite.results import rate

    # Five checked steps come first, so a round starts with the second of two feeds.
    assert rate([[3.0, 1.0], [3.0, 1.0]], [20, 60]) == 20.0


class Timed:
    """What a process has measured"""

    start, memory = 1.0, 10.0

    def __init__(self, system, *rounds):
        self.system, self.seconds = system, [list(each) for each in rounds]


def test_each_system_is_compared_with_the_best_form_of_torch_of_its_type():
    from benchmark_suite.results import results
    from benchmark_suite.workloads import WORKLOADS

    workers = [
        Timed("onnxgrad", [3.0, 3.0], [2.0, 3.0]),
        Timed("onnxgrad openvino bf16", [1.0, 1.5], [1.0, 1.1]),
        Timed("torch", [4.0, 4.0], [4.0, 4.0]),
        Timed("torch fused", [2.5, 3.0], [3.0, 3.0]),
        Timed("torch autocast", [0.5, 0.5], [0.5, 0.5]),
    ]
    found = results(workers, WORKLOADS["MLP"](), 0.0)
    assert {name: row["best"] for name, row in found.items()} == {
        "onnxgrad": 2.0 / 2.5,
        "onnxgrad openvino bf16": 2.0,
        "torch": 4.0 / 2.5,
        "torch fused": 1.0,
        "torch autocast": 1.0,
    }
    assert {name for name, row in found.items() if row["disturbed"]} == {"onnxgrad"}
    alone = results(workers[1:3], WORKLOADS["MLP"](), 0.0)
    assert alone["onnxgrad openvino bf16"]["best"] is None


def test_steps_of_feeds_of_other_sizes_are_no_disturbance():
    from benchmark_suite.results import disturbed

    assert disturbed([[1.0, 4.0, 1.0, 4.0]], 2) is None
    assert disturbed([[1.0, 4.0, 1.6, 4.0, 1.6, 4.0]], 2) == 1.6


def test_the_mean_needs_all_nets(capsys):
    from benchmark_suite.report import show_mean

    runs = {name: {"systems": {"onnxgrad": {"best": best}}} for name, best in {"A": 1.0, "B": 1.5}.items()}
    runs["A"]["systems"]["jax"] = {"best": 2.0}
    show_mean(runs, ("A", "B"))
    assert capsys.readouterr().out == "mean of 2 over torch's best form: onnxgrad 1.25\n"


def test_processes_keep_their_memory_between_steps(monkeypatch):
    from benchmark_suite import worker

    monkeypatch.setattr(worker.subprocess, "Popen", lambda command, **options: options["env"])
    environment = worker.start("python", [], 1, "cpu")
    assert int(environment["MALLOC_MMAP_THRESHOLD_"]) == int(environment["MALLOC_TRIM_THRESHOLD_"]) > 2**30


def test_workloads_are_left_out_with_a_reason():
    from benchmark_suite.systems import SYSTEMS
    from benchmark_suite.workloads import WORKLOADS

    def without(system):
        return [name for name, make in WORKLOADS.items() if SYSTEMS[system].refuses(make())]

    assert without("torch channels-last") == [
        "W1a",
        "W1b",
        "W4",
        "W5",
        "W6",
        "W7",
        "W9",
        "W10b",
        "BERT",
        "GPT2",
        "MLP",
        "L256",
        "LSTM2x512",
        "S2",
        "S3",
        "S4",
    ]
    files = ["S1", "S2", "S3", "S4"]
    assert without("onnxruntime-training") == ["W2", "W3", "W8", "W10a", "R18", "R50", "MBV2", "UNET", "MBV2b8", "UNETb4", *files]
    assert without("jax") == without("paddle") == files
    assert without("onnxgrad") == without("torch") == []


@pytest.mark.process
def test_a_system_that_does_not_start_in_time_is_left_out():
    shown = run("--only", "W6", "--systems", "onnxgrad", "--patience", "0.01")
    assert "left out: it was not ready within 0.01 s" in shown


def test_a_file_whose_package_is_not_installed_says_what_to_install(monkeypatch):

    from benchmark_suite import shipped

    monkeypatch.setattr(shipped.importlib.util, "find_spec", lambda name: None)
    absent = shipped.Shipped("rapidocr", "*.onnx", "y")
    assert absent.path() is None
    assert absent.missing() == 'the package rapidocr is not installed: pip install "onnxgrad[shipped]"'


def test_a_file_is_found_inside_a_package(tmp_path, monkeypatch):
    from benchmark_suite.shipped import Shipped

    (tmp_path / "some_package" / "models").mkdir(parents=True)
    (tmp_path / "some_package" / "__init__.py").write_text("raise RuntimeError('it is not imported')")
    (tmp_path / "some_package" / "models" / "a_v2.onnx").write_bytes(b"")
    monkeypatch.syspath_prepend(tmp_path)
    found = Shipped("some_package", "a_*.onnx", "y")
    assert found.path() == tmp_path / "some_package" / "models" / "a_v2.onnx" and found.missing() is None


def test_files_are_refused_by_the_systems_that_build_layers():
    from benchmark_suite.systems import SYSTEMS
    from benchmark_suite.workloads import WORKLOADS

    files = [name for name, make in WORKLOADS.items() if make().shipped is not None]
    assert files == ["S1", "S2", "S3", "S4"]
    for name in files:
        able = {system.family for system in SYSTEMS.values() if system.refuses(WORKLOADS[name]()) is None}
        assert able == {"onnxgrad", "torch"}
