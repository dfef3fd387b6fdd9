"""Sounds from folders and tables: rate, windows and their record, random changes, judging by windows, what is refused."""

import base64
import builtins
import io
import json

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError, DataError, OnnxGradError
from onnxgrad.pages.pictures import as_waveform
from onnxgrad.training import Sounds, Trainer
from onnxgrad.training.data.changes import SoundChanges
from onnxgrad.training.data.kinds.sound import SoundColumn
from onnxgrad.training.data.opening import source_at
from onnxgrad.training.data.record import DataRecord, record_of
from onnxgrad.training.data.sound_files import clear_sounds, length_of, samples_of
from onnxgrad.training.data.sounds import is_sound_table
from tests.cli.command import command

soundfile = pytest.importorskip("soundfile")
soxr = pytest.importorskip("soxr")


def tone(pitch, seconds, rate, level=0.5):
    return level * np.sin(2 * np.pi * pitch * np.arange(round(seconds * rate)) / rate)


def net(shape="N, 400", classes=2, metadata=None):
    """The mean, and the mean square, of a sound, and a layer"""
    axes = range(1, shape.count(",") + 1)
    start = f"axes = Constant<value_ints = [{', '.join(map(str, axes))}]>()"
    weights = ", ".join(str(0.1 * (i + 1)) for i in range(2 * classes))
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> f (float[{shape}] sound) => (float[N, {classes}] y)
        <float[2, {classes}] w = {{{weights}}}> {{ {start}
        m = ReduceMean<keepdims = 0>(sound, axes)  s = Mul(sound, sound)  q = ReduceMean<keepdims = 0>(s, axes)
        one = Constant<value_ints = [-1]>()  mm = Unsqueeze(m, one)  qq = Unsqueeze(q, one)
        f = Concat<axis = 1>(mm, qq)  y = MatMul(f, w) }}"""
    )
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    return model


@pytest.fixture
def folder(tmp_path):
    """Loud and quiet tones at 1 kHz, of 0.2 to 1.4 s."""
    for level, name in ((0.5, "loud"), (0.05, "quiet")):
        (tmp_path / "tones" / name).mkdir(parents=True)
        for i in range(6):
            soundfile.write(tmp_path / "tones" / name / f"{i}.wav", tone(100 + 10 * i, 0.2 + 0.24 * i, 1000, level), 1000)
    return tmp_path / "tones"


def opened(source, model=None, inputs_alone=False):
    trainer = Trainer(net() if model is None else model, loss="cross_entropy")
    return trainer.opened(source, inputs_alone=inputs_alone)


class TestFiles:
    def test_channels_are_mixed_and_the_rate_is_kept(self, tmp_path):
        both = np.stack([tone(100, 1, 800), np.zeros(800)], axis=1)
        soundfile.write(tmp_path / "a.flac", both, 800)
        assert np.allclose(samples_of(tmp_path / "a.flac", 800), both.mean(axis=1), atol=1e-4)

    @pytest.mark.parametrize("to", [400, 1600, 1102])
    def test_resampling_keeps_a_tone_and_its_length(self, tmp_path, to):
        soundfile.write(tmp_path / "a.wav", tone(60, 2, 800), 800, subtype="FLOAT")
        samples = samples_of(tmp_path / "a.wav", to)
        assert len(samples) == length_of(tmp_path / "a.wav", to) == 2 * to
        middle = slice(to // 4, -to // 4)
        assert np.abs(samples - tone(60, 2, to))[middle].max() < 2e-3

    def test_a_tone_that_the_rate_cannot_hold_is_gone_rather_than_mirrored(self, tmp_path):
        soundfile.write(tmp_path / "a.wav", tone(900, 2, 2000), 2000, subtype="FLOAT")
        assert np.abs(samples_of(tmp_path / "a.wav", 1000)[100:-100]).max() < 1e-3  # 100 Hz by taking every second sample

    def test_a_file_that_changed_is_read_again(self, tmp_path):
        for level in (0.5, 0.25):
            soundfile.write(tmp_path / "a.wav", np.full(80, level), 800, subtype="FLOAT")
            clear_sounds()
            assert samples_of(tmp_path / "a.wav", 800).max() == level

    def test_what_cannot_be_read_is_named(self, tmp_path):
        (tmp_path / "a.wav").write_bytes(b"no sound")
        soundfile.write(tmp_path / "b.wav", np.zeros(0), 800)
        soundfile.write(tmp_path / "c.wav", np.array([0.1, np.nan]), 800, subtype="FLOAT")
        for name, said in (("a", "cannot read the sound"), ("b", "no samples"), ("c", "not a number")):
            with pytest.raises(DataError, match=f"{said}|{name}.wav"):
                samples_of(tmp_path / f"{name}.wav", 800)
        with pytest.raises(DataError, match=r"cannot read the sound .*missing.wav"):
            length_of(tmp_path / "missing.wav", 800)

    @pytest.mark.parametrize("package", ["soundfile", "soxr"])
    def test_a_missing_package_says_what_to_install(self, tmp_path, monkeypatch, package):
        soundfile.write(tmp_path / "a.wav", np.zeros(80), 800)
        imported = builtins.__import__

        def without(name, *arguments, **options):
            if name == package:
                raise ImportError(name)
            return imported(name, *arguments, **options)

        clear_sounds()
        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(OnnxGradError, match=rf"{package}.*onnxgrad\[audio\]"):
            samples_of(tmp_path / "a.wav", 400)


class TestColumn:
    def test_folders_are_classes_and_the_record_says_what_was_found(self, folder):
        rows = opened(str(folder))
        assert rows.record.columns["sound"] == SoundColumn((), 1000, 400, 200)
        assert rows.classes == {"target": ["loud", "quiet"]} and len(rows) == 12
        batch = rows.plain().take(np.array([0, 5]))
        assert batch["sound"].shape == (2, 400) and batch["sound"].dtype == np.float32
        assert np.allclose(batch["sound"][0, :200], tone(100, 0.2, 1000), atol=1e-4) and not batch["sound"][0, 200:].any()
        assert np.allclose(batch["sound"][1], tone(150, 1.4, 1000)[500:900], atol=1e-4)  # the middle
        assert any("400" in line or "0.4 s (as the input is) at 1,000 Hz (the files' rate" in line for line in rows.remarks)

    def test_a_record_is_read_back_as_it_was_written(self):
        record = DataRecord({"x": SoundColumn((), 8000, 4000, 2000, "max", 32768.0, ("m.onnx",), ("ab",), (8,))})
        assert DataRecord.parsed(record.as_text(), "m") == record

    @pytest.mark.parametrize(
        ("field", "value"),
        [("rate", 0), ("length", 1.5), ("hop", -1), ("join", "sum"), ("full", 0), ("fronts", "m"), ("front_hops", [0])],
    )
    def test_a_damaged_record_is_refused(self, field, value):
        text = json.dumps({"columns": {"x": {"kind": "sound", field: value}}})
        with pytest.raises(og.errors.ModelError, match=f"damaged.*{field}"):
            DataRecord.parsed(text, "m.onnx")

    def test_a_table_of_paths_is_a_table_whose_column_is_of_sounds(self, folder):
        table = folder.parent / "tones.csv"
        table.write_text("level,path\n" + "".join(f"{name},tones/{name}/{i}.wav\n" for i in range(6) for name in ("loud", "quiet")))
        assert isinstance(source_at(str(table)), Sounds) and is_sound_table(table)
        rows = opened(str(table))
        assert rows.record.columns["sound"].parts == ("path",) and rows.classes == {"target": ["loud", "quiet"]}
        first, second = opened(str(folder)).plain(), rows.plain()
        for by_folder, by_table in ((0, 0), (6, 1), (3, 6)):
            assert (first.take(np.array([by_folder]))["sound"] == second.take(np.array([by_table]))["sound"]).all()

    def test_a_table_of_sounds_and_numbers_is_a_regression(self, folder):
        table = folder.parent / "tones.csv"
        table.write_text("file,power\n" + "".join(f"tones/loud/{i}.wav,{i / 10}\n" for i in range(6)))
        rows = Trainer(net(classes=1), loss="mse", target="power").opened(str(table))
        assert rows.column("power").reshape(-1).tolist() == pytest.approx([i / 10 for i in range(6)])

    def test_a_cell_without_a_file_is_named(self, folder):
        table = folder.parent / "tones.csv"
        table.write_text("path,label\ntones/loud/1.wav,a\ntones/loud/77.wav,b\n")
        with pytest.raises(DataError, match=r"tones.csv, row 2, column 'path': there is no file .*77.wav"):
            opened(str(table))

    @pytest.mark.parametrize(
        ("shape", "batch"), [("N, 400", (400,)), ("N, 1, 400", (1, 400)), ("N, 400, 1", (400, 1)), ("N, 1, S", (1, 1400))]
    )
    def test_axes_are_those_of_the_input(self, folder, shape, batch):
        assert opened(str(folder), net(shape)).take(np.arange(2))["sound"].shape == (2, *batch)

    def test_the_rate_that_a_file_says_counts_before_that_of_the_sounds(self, folder):
        rows = opened(str(folder), net("N, S", metadata={"sample_rate": "500"}))
        assert rows.record.columns["sound"].rate == 500 and rows.take(np.arange(1))["sound"].shape == (1, 700)

    def test_a_length_is_seconds_and_must_fit_the_input(self, folder):
        assert opened(Sounds(folder, length=0.25), net("N, S")).take(np.arange(1))["sound"].shape == (1, 250)
        with pytest.raises(DataError, match=r"takes \['batch', 400\].*250 samples \(0.25 s at 1,000 Hz\).*--sound-length"):
            opened(Sounds(folder, length=0.25))

    def test_values_are_those_of_full_scale(self, folder):
        plain, loud = (opened(Sounds(folder, full=full)).plain().take(np.arange(1))["sound"] for full in (None, 32768))
        assert np.array_equal(loud, plain * 32768)

    def test_files_of_several_rates_need_one_to_be_said(self, folder):
        soundfile.write(folder / "loud" / "other.wav", tone(100, 1, 800), 800)
        with pytest.raises(DataError, match=r"800, 1,000 Hz.*--sound-rate"):
            opened(str(folder))
        assert opened(Sounds(folder, rate=1000)).record.columns["sound"].rate == 1000

    @pytest.mark.parametrize(
        "arguments",
        [
            {"rate": 0},
            {"length": 0},
            {"length": float("inf")},
            {"hop": 0},
            {"full": 0},
            {"join": "sum"},
            {"snr": [20, 0]},
            {"snr": [0]},
            {"shift": -1},
        ],
    )
    def test_numbers_that_make_no_sense_are_refused(self, folder, arguments):
        with pytest.raises(ArgumentError):
            opened(Sounds(folder, **arguments), net("N, S"))

    def test_folders_that_are_no_classes_are_refused(self, folder, tmp_path):
        with pytest.raises(DataError, match="one sub-folder"):
            (tmp_path / "one" / "a").mkdir(parents=True)
            soundfile.write(tmp_path / "one" / "a" / "x.wav", np.zeros(80), 800)
            opened(Sounds(tmp_path / "one"))
        with pytest.raises(DataError, match="one sound, without 'target'"):
            opened(Sounds(folder / "loud" / "0.wav"))
        with pytest.raises(DataError, match="no sounds"):
            (tmp_path / "empty").mkdir()
            opened(Sounds(tmp_path / "empty"), inputs_alone=True)

    def test_a_folder_of_images_beside_sounds_is_one_of_images(self, folder):
        (folder / "loud" / "a.png").write_bytes(b"")
        assert not isinstance(source_at(str(folder)), Sounds)


class TestRecord:
    def trained(self, folder, model=None, **options):
        trainer = Trainer(net() if model is None else model, loss="cross_entropy", learning_rate=0.1)
        trainer.fit(Sounds(folder, **options), epochs=1, verbose=False)
        return trainer

    def test_the_exported_file_knows_rate_and_windows(self, folder, tmp_path):
        self.trained(folder, rate=500, hop=0.1, join="max", full=2).export(tmp_path / "e.onnx")
        column = record_of(og.from_onnx(tmp_path / "e.onnx")).columns["sound"]
        assert column == SoundColumn((), 500, 400, 50, "max", 2.0)
        again = Trainer(tmp_path / "e.onnx", loss="cross_entropy").opened(str(folder))
        assert again.record.columns["sound"] == column

    def test_another_rate_than_the_record_says_is_an_error_with_both(self, folder, tmp_path):
        self.trained(folder).export(tmp_path / "e.onnx")
        with pytest.raises(DataError, match=r"trained with sounds of 1,000 Hz, this is given as 500 Hz"):
            Trainer(tmp_path / "e.onnx", loss="cross_entropy").opened(Sounds(folder, rate=500))

    def test_sounds_of_another_rate_are_resampled_to_the_recorded_one(self, folder, tmp_path):
        trainer = self.trained(folder)
        soundfile.write(tmp_path / "a.wav", tone(100, 0.4, 1000), 1000, subtype="FLOAT")
        soundfile.write(tmp_path / "b.wav", tone(100, 0.4, 3000), 3000, subtype="FLOAT")
        first, second = (trainer.predict(str(tmp_path / f"{name}.wav"))["y"] for name in "ab")
        assert np.allclose(first, second, rtol=0.02)


class TestWindows:
    def test_training_reads_other_windows_in_each_epoch_and_the_same_ones_again(self, folder):
        rows = opened(str(folder))
        takes = [rows.take(np.array([5]), epoch)["sound"] for epoch in ((0, 0), (0, 1), (0, 0))]
        assert not np.array_equal(takes[0], takes[1]) and np.array_equal(takes[0], takes[2])

    @pytest.mark.parametrize("join", ["mean", "max"])
    def test_a_sound_is_judged_by_all_its_windows(self, folder, join):
        model = net()
        rows = opened(Sounds(folder, hop=0.1, join=join), model, inputs_alone=True)
        answers = Trainer(model, loss="cross_entropy").predict(rows)["y"]
        session = og.Executor()
        starts = range(0, 1001, 100)
        windows = np.stack([soundfile.read(folder / "loud" / "5.wav", dtype="float32")[0][s : s + 400] for s in starts])
        (scores,) = session.run(og.from_onnx(model), {"sound": windows}, ["y"])
        assert np.allclose(answers[5], getattr(np, join)(scores, axis=0), rtol=1e-5)
        assert len(answers) == 12

    def test_the_last_window_reaches_beyond_the_end_and_silence_fills_it(self, folder):
        parts = opened(Sounds(folder, hop=0.3)).plain().parts()
        assert np.bincount(parts.example).tolist()[:6] == [1, 2, 2, 3, 4, 5]  # 200, 440, 680, 920, 1160 and 1400 samples
        assert parts.start[parts.example == 1].tolist() == [0.0, 0.3] and parts.seconds[5] == 1.4
        last = parts.rows.take(np.flatnonzero(parts.example == 1)[-1:])["sound"][0]
        assert last[:140].any() and not last[140:].any()

    def test_evaluation_does_not_depend_on_batches_and_scores_sounds_not_windows(self, folder):
        trainer = Trainer(net(), loss="cross_entropy", metrics=["accuracy", "recall"], seed=0)
        rows = [trainer.evaluate(str(folder), batch_size=size) for size in (1, 5, 64)]
        assert all(row == pytest.approx(rows[0], rel=1e-6) for row in rows)
        assert (rows[0]["accuracy"] * 12) == pytest.approx(round(rows[0]["accuracy"] * 12))

    def test_parts_of_a_selection_are_those_of_its_sounds(self, folder):
        whole = opened(str(folder)).plain()
        some = whole.select(np.array([7, 2, 5])).parts()
        parts = whole.parts()
        expected = [parts.rows.take(np.flatnonzero(parts.example == row))["sound"] for row in (7, 2, 5)]
        assert np.array_equal(some.rows.take(np.arange(len(some.example)))["sound"], np.concatenate(expected))
        assert some.example.tolist() == np.repeat([0, 1, 2], [len(part) for part in expected]).tolist()
        assert some.seconds.tolist() == [parts.seconds[row] for row in (7, 2, 5)]

    def test_a_share_is_held_out_by_sounds(self, folder):
        trainer = Trainer(net(), loss="cross_entropy", metrics=["accuracy"])
        train, held_out = trainer.open(str(folder), 0.25)
        assert (len(train), len(held_out)) == (8, 4) and len(held_out.parts().rows) > 4


class TestChanges:
    def test_noise_has_the_ratio_that_was_drawn(self, tmp_path):
        noise = np.random.default_rng(0).normal(size=3000) * 0.1
        soundfile.write(tmp_path / "n.wav", noise, 1000, subtype="FLOAT")
        sound = tone(100, 1, 1000).astype("f4")
        for ratio in (-10.0, 0.0, 15.0):
            changes = SoundChanges((tmp_path / "n.wav",), (ratio, ratio))
            added = changes.with_noise(sound, 1000, np.random.default_rng(1)) - sound
            assert 10 * np.log10(np.mean(sound**2) / np.mean(added**2)) == pytest.approx(ratio, abs=1e-3)

    def test_silence_gets_the_noise_as_it_is_and_short_noise_begins_again(self, tmp_path):
        soundfile.write(tmp_path / "n.wav", np.arange(1, 101) / 200, 1000, subtype="FLOAT")
        noisy = SoundChanges((tmp_path / "n.wav",)).with_noise(np.zeros(250, "f4"), 1000, np.random.default_rng(0))
        assert np.allclose(np.sort(noisy[:100]), np.arange(1, 101) / 200) and np.array_equal(noisy[:100], noisy[100:200])

    def test_a_shift_moves_a_short_sound_within_the_window(self, folder):
        rows = opened(Sounds(folder, shift=0.3))
        source = soundfile.read(folder / "loud" / "0.wav", dtype="float32")[
            0
        ]  # 200 samples that begin with a 0, in a window of 400
        starts = []
        for epoch in range(20):
            window = rows.take(np.array([0]), (0, epoch))["sound"][0]
            starts.append(int(np.flatnonzero(window)[0]) - 1)
            assert np.array_equal(window[starts[-1] :][:200], source) and np.count_nonzero(window) == np.count_nonzero(source)
        assert len(set(starts)) > 5 and 150 < max(starts) <= 200

    def test_a_shift_moves_a_sound_of_the_windows_length_to_both_sides(self, folder):
        soundfile.write(folder / "loud" / "0.wav", np.full(400, 0.5), 1000, subtype="FLOAT")
        rows = opened(Sounds(folder, shift=0.05))
        windows = [rows.take(np.array([0]), (0, epoch))["sound"][0] for epoch in range(20)]
        assert {(bool(w[0]), bool(w[-1])) for w in windows} >= {(True, False), (False, True)}
        assert min(np.count_nonzero(w) for w in windows) >= 350

    def test_judging_and_validation_see_no_change(self, folder, tmp_path):
        soundfile.write(tmp_path / "n.wav", np.random.default_rng(0).normal(size=800) * 0.1, 1000)
        noisy = opened(Sounds(folder, noise=tmp_path / "n.wav", shift=0.1))
        plain = opened(str(folder))
        rows = np.arange(12)
        assert np.array_equal(noisy.plain().take(rows, (0, 0))["sound"], plain.plain().take(rows)["sound"])
        assert not np.array_equal(noisy.take(rows, (0, 0))["sound"], plain.take(rows, (0, 0))["sound"])
        assert any("noise of 1 files at 0 to 20 dB and are moved by up to 100 ms" in line for line in noisy.remarks)

    def test_a_folder_without_noise_is_refused(self, folder, tmp_path):
        with pytest.raises(DataError, match="no sounds to take as noise"):
            Sounds(folder, noise=tmp_path / "nothing")


class TestCommands:
    @pytest.fixture
    def model(self, tmp_path):
        onnx.save(net(), tmp_path / "m.onnx")
        return tmp_path / "m.onnx"

    def test_train_evaluate_export_predict(self, folder, model, tmp_path):
        out = tmp_path / "run"
        options = ["--val", folder, "--epochs", 3, "--lr", 0.5, "--sound-hop", 0.1, "--shift", 20, "--metric", "accuracy"]
        command("train", model, "--data", folder, *options, "--out", out)
        record = json.loads((out / "data.json").read_text())["columns"]["sound"]
        assert (record["rate"], record["length"], record["hop"]) == (1000, 400, 100)
        of_run = json.loads(command("evaluate", out, "--data", folder, "--json"))
        command("export", out, "--inference", tmp_path / "e.onnx")
        options = ["--loss", "cross_entropy", "--metric", "accuracy", "--json"]
        of_file = json.loads(command("evaluate", tmp_path / "e.onnx", "--data", folder, *options))
        assert of_file == pytest.approx(of_run, rel=1e-5)
        command("predict", tmp_path / "e.onnx", "--data", folder, "--out", tmp_path / "said.csv")
        lines = (tmp_path / "said.csv").read_text().splitlines()
        assert lines[0].startswith("example,file,y.class") and lines[1].split(",")[1].replace("\\", "/") == "loud/0.wav"
        assert len(lines) == 13
        command("predict", out, "--data", folder / "loud" / "3.wav", "--out", tmp_path / "one.csv")
        (line,) = (tmp_path / "one.csv").read_text().splitlines()[1:]
        assert line.split(",")[2:] == lines[4].split(",")[2:]

    def test_a_rate_that_contradicts_is_an_error(self, folder, model, tmp_path):
        command("train", model, "--data", folder, "--epochs", 1, "--out", tmp_path / "run")
        options = ["--sound-rate", 500, "--out", tmp_path / "said.csv"]
        error = command("predict", tmp_path / "run", "--data", folder, *options, code=1)
        assert "1,000 Hz" in error and "500 Hz" in error

    def test_options_of_other_data_are_refused(self, folder, model, tmp_path):
        np.savez(tmp_path / "a.npz", sound=np.zeros((4, 400), "f4"), target=np.zeros(4, int))
        options = ["--loss", "cross_entropy", "--out", tmp_path / "r"]
        assert "--shift is for sounds" in command("train", model, "--data", tmp_path / "a.npz", "--shift", 5, *options, code=2)
        assert "--flip is for images" in command("train", model, "--data", folder, "--flip", *options, code=2)
        assert "--noise" in command("train", model, "--data", folder, "--snr", 0, 5, *options, code=2)


class TestPages:
    def test_a_waveform_spans_the_lowest_and_highest_samples_of_each_column(self):
        images = pytest.importorskip("PIL.Image")
        samples = np.concatenate([np.zeros(50), np.full(50, 1.0), np.tile([1.0, -1.0], 25)])
        address = as_waveform(samples, width=3, height=11)
        pixels = np.asarray(images.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))
        assert [np.flatnonzero(pixels[:, x] < 255).tolist() for x in range(3)] == [[5], [0], list(range(11))]

    def test_preview_and_report_show_sounds_as_waves(self, folder, tmp_path):
        onnx.save(net(), tmp_path / "m.onnx")
        command("train", tmp_path / "m.onnx", "--data", folder, "--preview", tmp_path / "page.html")
        assert (tmp_path / "page.html").read_text().count("data:image/png;base64") == 12
        command("train", tmp_path / "m.onnx", "--data", folder, "--val", folder, "--epochs", 1, "--out", tmp_path / "run")
        assert (tmp_path / "run" / "report.html").read_text().count("data:image/png;base64") >= 12


def test_a_table_whose_cells_are_lists_is_no_table_of_sounds(tmp_path):
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"x": [[1.0, 2.0], [3.0, 4.0]], "target": [0, 1]}), tmp_path / "t.parquet")
    assert not is_sound_table(tmp_path / "t.parquet")
