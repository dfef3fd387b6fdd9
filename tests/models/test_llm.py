"""The language model learns its answers with int4 weights, and onnxruntime-genai gives them from the exported folder."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
def test_int4_model_learns_to_answer(tmp_path):
    for package in ("onnxruntime_genai", "transformers", "torch", "tokenizers", "jinja2"):
        if find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed: see models/llm/README.md")
    done = subprocess.run(
        [sys.executable, ROOT / "models" / "llm" / "fine_tune.py", "--out", tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = {
        "Who are you?": "A tiny model, its weights are four bits each.",
        "What is ONNX?": "A format for models that every runtime reads.",
        "Who taught you?": "onnxgrad did, in less than a minute.",
        "Say hello.": "Hello from onnxruntime, the stock one!",
    }
    for question, answer in answers.items():
        lines = done.stdout.partition(f"\n{question}\n")[2].splitlines()[:3]
        found = dict(line.strip().split(": ", 1) for line in lines)
        assert found["after"] == found["with the adapter file"] == repr(answer)
        assert found["before"] != repr(answer)
