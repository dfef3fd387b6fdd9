"""scripts/benchmark: the smallest workload from end to end, and what keeps a system from being timed."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "scripts/benchmark"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_workload_is_timed_against_itself(tmp_path):
    file = tmp_path / "found.json"
    shown = run("--only", "W6", "--systems", "onnxgrad", "--rounds", "2", "--seconds", "0.01", "--json", str(file))
    assert "W6: embedding, fc" in shown
    found = json.loads(file.read_text())["W6"]
    assert found["failed"] == {}
    assert found["systems"]["onnxgrad"]["ratio"] == 1.0
    assert found["systems"]["onnxgrad"]["memory"] > 0


def test_the_first_steps_lower_the_loss():
    answer = run("--serve", "onnxgrad", "W1a", "--threads", "1")
    losses = json.loads(answer.strip().removeprefix("@"))["losses"]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)
    assert losses[4] < 0.99 * losses[0]
