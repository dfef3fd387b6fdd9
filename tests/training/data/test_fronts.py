"""Feature extractors before a model: several in a row, their windows, what is kept, and what the record holds of them."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from onnxgrad.errors import ArgumentError, DataError, ModelError
from onnxgrad.training import Sounds, Trainer
from onnxgrad.training.data.fronts import Front, FrontFile, Fronts
from onnxgrad.training.data.kinds.sound import SoundColumn
from tests.cli.command import command

soundfile = pytest.importorskip("soundfile")


def frames(path, sizes="1, samples"):
    """Frames of 10 samples each, [1, 1, frames, 10], times 2"""
    text = f"""<ir_version: 8, opset_import: ["": 17]> f (float[{sizes}] wave) => (float[1, 1, frames, 10] y) {{
        shape = Constant<value_ints = [1, 1, -1, 10]>()  two = Constant<value_float = 2.0>()
        t = Mul(wave, two)  y = Reshape(t, shape) }}"""
    onnx.save(parse_model(text), path)
    return path


def means(path, batch="N", window=4):
    """Of windows of frames, [N, window, 10, 1], the mean frame [N, 1, 1, 10]"""
    text = f"""<ir_version: 8, opset_import: ["": 18]> f (float[{batch}, {window}, 10, 1] x) => (float[M, 1, 1, 10] y) {{
        axes = Constant<value_ints = [1]>()  m = ReduceMean(x, axes)  perm = Transpose<perm = [0, 1, 3, 2]>(m)  y = Identity(perm) }}"""
    onnx.save(parse_model(text), path)
    return path


def head(steps=5):
    text = f"""<ir_version: 8, opset_import: ["": 17]> f (float[N, {steps}, 10] x) => (float[N, 2] y) {{
        flat = Flatten(x)  y = Gemm(flat, w, b) }}"""
    model = parse_model(text)
    rng = np.random.default_rng(0)
    for name, shape in (("w", (10 * steps, 2)), ("b", (2,))):
        model.graph.initializer.append(onnx.numpy_helper.from_array((0.1 * rng.normal(size=shape)).astype("f4"), name))
    return model


@pytest.fixture
def files(tmp_path):
    return [FrontFile(frames(tmp_path / "frames.onnx")), FrontFile(means(tmp_path / "means.onnx"), 2)]


@pytest.fixture
def folder(tmp_path):
    for name, level in (("loud", 0.5), ("quiet", 0.05)):
        (tmp_path / "tones" / name).mkdir(parents=True)
        for i in range(4):
            sound = level * np.sin(np.arange(130 + 40 * i) * (0.1 + 0.02 * i))
            soundfile.write(tmp_path / "tones" / name / f"{i}.wav", sound, 1000)
    return tmp_path / "tones"


def expected(window):
    """What frames of 10, times 2, and means of 4 of them, 2 apart, give"""
    two = 2 * window.reshape(-1, 10)
    return np.stack([two[i : i + 4].mean(axis=0) for i in range(0, len(two) - 3, 2)])


class TestFronts:
    @pytest.mark.parametrize("batch", ["N", "1"])
    def test_fronts_run_in_a_row_over_windows_of_what_comes_before(self, tmp_path, batch):
        files = [FrontFile(frames(tmp_path / "frames.onnx")), FrontFile(means(tmp_path / "means.onnx", batch), 2)]
        window = np.random.default_rng(0).normal(size=120).astype("f4")
        features = Fronts(files)(window, 1000)
        assert features.shape == (5, 10) and np.allclose(features, expected(window), atol=1e-6)

    def test_windows_stand_side_by_side_where_no_hop_is_said(self, tmp_path):
        front = Front(means(tmp_path / "means.onnx"))
        steps = np.random.default_rng(0).normal(size=(13, 10)).astype("f4")
        assert front.hop == 4 and np.allclose(front(steps, 1), steps[:12].reshape(3, 4, 10).mean(axis=1), atol=1e-6)

    def test_what_was_computed_is_kept_by_content_and_not_written_to(self, files):
        fronts = Fronts(files)
        window = np.random.default_rng(0).normal(size=120).astype("f4")
        first = fronts(window, 1000)
        assert fronts(window.copy(), 1000) is first and not first.flags.writeable
        assert fronts(window + 1, 1000) is not first

    def test_what_is_kept_has_a_limit(self, files, monkeypatch):
        monkeypatch.setattr("onnxgrad.training.data.fronts._KEPT", 500)
        fronts = Fronts(files)
        windows = [np.full(120, i, "f4") for i in range(5)]
        results = [fronts(window, 1000) for window in windows]
        assert fronts(windows[4], 1000) is results[4] and fronts(windows[0], 1000) is not results[0]
        assert np.array_equal(fronts(windows[0], 1000), results[0])

    def test_a_front_that_reads_the_rate_gets_it(self, tmp_path):
        text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, samples] wave, int64 sr) => (float[N, samples] y) {
            f = Cast<to = 1>(sr)  y = Mul(wave, f) }"""
        onnx.save(parse_model(text), tmp_path / "m.onnx")
        assert Fronts([FrontFile(tmp_path / "m.onnx")])(np.ones(3, "f4"), 800).tolist() == [800.0] * 3

    def test_what_cannot_be_a_front_is_refused(self, tmp_path, files):
        with pytest.raises(ModelError, match=r"no feature extractor .*missing.onnx"):
            Front(tmp_path / "missing.onnx")
        with pytest.raises(ArgumentError, match="at least 1, not 0"):
            Front(files[1].path, 0)
        with pytest.raises(ArgumentError, match="any number of steps at once"):
            Front(files[0].path, 2)
        text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 3] a, float[N, 3] b) => (float[N, 3] y) { y = Add(a, b) }'
        onnx.save(parse_model(text), tmp_path / "two.onnx")
        with pytest.raises(ModelError, match="must take one input of numbers"):
            Front(tmp_path / "two.onnx")

    def test_steps_that_do_not_fit_are_refused_with_both_shapes(self, files):
        with pytest.raises(DataError, match=r"'means.onnx' takes \[.*4, 10, 1\], and gets \[3, 10\]"):
            Fronts(files)(np.zeros(30, "f4"), 1000)
        with pytest.raises(DataError, match=r"'means.onnx' takes .* and gets \[40\]"):
            Fronts(files[1:])(np.zeros(40, "f4"), 1000)


class TestSounds:
    def sounds(self, folder, files, **options):
        return Sounds(folder, length=0.12, fronts=[(f.path, f.hop) if f.hop else f.path for f in files], **options)

    def test_the_model_reads_what_the_last_front_gives(self, folder, files):
        rows = Trainer(head(), loss="cross_entropy").opened(self.sounds(folder, files, full=100))
        source = soundfile.read(folder / "loud" / "0.wav", dtype="float32")[0]
        batch = rows.plain().take(np.arange(1))["x"]
        assert batch.shape == (1, 5, 10) and np.allclose(batch[0], expected(100 * source[5:125]), atol=1e-4)
        assert rows.record.columns["x"].front_hops == (1, 2)

    def test_features_that_do_not_fit_are_named(self, folder, files):
        with pytest.raises(DataError, match=r"takes \['batch', 7, 10\], which the output of means.onnx for .*\[5, 10\]"):
            Trainer(head(7), loss="cross_entropy").opened(self.sounds(folder, files))

    def test_the_record_holds_the_fronts_and_another_one_is_a_contradiction(self, folder, files, tmp_path):
        trainer = Trainer(head(), loss="cross_entropy")
        trainer.fit(self.sounds(folder, files), epochs=1, verbose=False)
        trainer.export(tmp_path / "e.onnx")
        again = Trainer(tmp_path / "e.onnx", loss="cross_entropy")
        column = again.record.columns["x"]
        assert isinstance(column, SoundColumn) and column.fronts == ("frames.onnx", "means.onnx")
        assert np.allclose(again.predict(self.sounds(folder, files))["y"], trainer.predict(self.sounds(folder, files))["y"])
        with pytest.raises(DataError, match=r"trained with the feature extractors frames.onnx \(sha256 .*no feature extractor"):
            again.opened(Sounds(folder))
        with pytest.raises(DataError, match=r"hop 2\), this is read with .*hop 1\).*--front"):
            again.opened(self.sounds(folder, [files[0], FrontFile(files[1].path, 1)]))
        means(files[1].path, window=4)
        frames(files[0].path, "1, 120")
        with pytest.raises(DataError, match="--front"):
            again.opened(self.sounds(folder, files))

    def test_a_run_knows_its_fronts(self, folder, files, tmp_path):
        onnx.save(head(), tmp_path / "m.onnx")
        fronts = ["--front", files[0].path, "--front", files[1].path, 2]
        options = [
            "--sound-length",
            0.12,
            "--val",
            folder,
            "--epochs",
            2,
            "--lr",
            0.05,
            "--metric",
            "misses@0.5",
            "false_accepts@.5",
        ]
        command("train", tmp_path / "m.onnx", "--data", folder, *fronts, *options, "--out", tmp_path / "run")
        settings = json.loads((tmp_path / "run" / "settings.json").read_text())
        assert settings["front"] == [[str(Path(files[0].path).resolve())], [str(Path(files[1].path).resolve()), "2"]]
        of_run = json.loads(command("evaluate", tmp_path / "run", "--data", folder, "--json"))
        command("export", tmp_path / "run", "--inference", tmp_path / "e.onnx")
        options = ["--data", folder, "--loss", "cross_entropy", "--metric", "misses@0.5", "false_accepts@.5", "--json"]
        assert "--front" in command("evaluate", tmp_path / "e.onnx", *options, code=1)
        assert json.loads(command("evaluate", tmp_path / "e.onnx", *options, *fronts)) == pytest.approx(of_run, rel=1e-5)

    def test_more_than_a_file_and_a_number_is_refused(self, folder, files, tmp_path):
        onnx.save(head(), tmp_path / "m.onnx")
        for entry in (["a.onnx", "2", "3"], ["a.onnx", "two"]):
            error = command("train", tmp_path / "m.onnx", "--data", folder, "--front", *entry, "--out", tmp_path / "run", code=2)
            assert "--front takes FILE.onnx" in error
