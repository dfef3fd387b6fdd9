"""Sounds for models of a stream: chunks with their context, spans as targets, from the command line to the exported file."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Sounds, Term, Trainer, unroll
from onnxgrad.training.data.kinds.spans import SpansColumn
from onnxgrad.training.data.record import DataRecord
from tests.cli.command import command

soundfile = pytest.importorskip("soundfile")


def listener():
    """A cell that hears 12 samples, of which 2 are of the chunk before: h' = h / 2 + mean square, y = sigmoid(a h' + b)"""
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 18]> f (float[N, 12] x, float[N, 1] h) => (float[N, 1] y, float[N, 1] h_out) {
        axes = Constant<value_ints = [1]>()  half = Constant<value_float = 0.5>()  q = Mul(x, x)  m = ReduceMean(q, axes)
        k = Mul(h, half)  h_out = Add(k, m)  s = Gemm(h_out, a, b)  y = Sigmoid(s) }"""
    )
    for name, value in (("a", [[1.0]]), ("b", [0.0])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, "f4"), name))
    return model


@pytest.fixture
def table(tmp_path):
    """Noise of 0.1 s at 1000 Hz that is loud from 30 to 70 ms, and a quiet one."""
    rng = np.random.default_rng(0)
    rows = ["path,heard"]
    for i in range(8):
        sound = 0.01 * rng.normal(size=100)
        sound[30:70] += (i % 2) * 0.3 * rng.normal(size=40)
        soundfile.write(tmp_path / f"{i}.wav", sound, 1000, subtype="FLOAT")
        rows.append(f"{i}.wav,{'0.03-0.07' if i % 2 else ''}")
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "t.csv"


def trainer():
    program = og.from_onnx(listener())
    unroll(program)
    return Trainer(program, loss=Term("bce_with_logits", "y.logit()", "heard"), learning_rate=0.2, metrics=["accuracy"])


def test_chunks_begin_with_the_samples_before_them_and_spans_say_what_is_heard_in_each(table):
    rows = trainer().opened(Sounds(table, chunk=(10, 2)))
    batch = rows.take(np.array([1]))
    source = np.concatenate([[0, 0], soundfile.read(table.parent / "1.wav", dtype="float32")[0]])
    assert batch["x"].shape == (1, 10, 12)
    assert all(np.array_equal(batch["x"][0, i], source[10 * i : 10 * i + 12].astype("f4")) for i in range(10))
    assert batch["heard"][0].tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0, 0]
    assert rows.take(np.array([0]))["heard"].sum() == 0
    column = rows.record.columns["x"]
    assert (column.chunk, column.context, column.states) == (10, 2, ("h=h_out",))
    assert DataRecord.parsed(rows.record.as_text(), "m") == rows.record


def test_spans_follow_the_window_that_is_drawn(table):
    rows = trainer().opened(Sounds(table, chunk=(10, 2), length=0.04, shift=0.01))
    plain = soundfile.read(table.parent / "1.wav", dtype="float32")[0]
    for epoch in range(10):
        batch = rows.take(np.array([1]), (0, epoch))
        new = batch["x"][0, :, 2:].reshape(-1)
        first = new[np.flatnonzero(new)[0]]
        start = int(np.flatnonzero(plain == first)[0]) - int(np.flatnonzero(new)[0])
        begins = start + 10 * np.arange(4)
        covered = np.clip(np.minimum(begins + 10, 70) - np.maximum(begins, 30), 0, None)
        assert batch["heard"][0].tolist() == (covered >= 5).astype(float).tolist()


def test_a_sound_is_filled_up_to_whole_chunks(table):
    rows = trainer().opened(Sounds(table, chunk=(11, 1)))
    assert rows.take(np.array([0]))["x"].shape == (1, 10, 12)  # 100 samples in chunks of 11


def test_a_longer_sound_is_not_judged_by_its_middle(table):
    with pytest.raises(DataError, match=r"wav' is 0.1 s long, and a stream is judged as a whole.*--sound-length"):
        trainer().evaluate(Sounds(table, chunk=(10, 2), length=0.04))


def test_chunks_that_do_not_fit_are_refused(table):
    with pytest.raises(DataError, match=r"takes \['batch', 'any', 12\], which chunks of 10 samples and 3 before them"):
        trainer().opened(Sounds(table, chunk=(10, 3)))
    with pytest.raises(ArgumentError, match="--chunk"):
        trainer().opened(Sounds(table))
    with pytest.raises(ArgumentError, match="chunk"):
        Sounds(table, chunk=())
    with pytest.raises(ArgumentError, match="a sample at least"):
        trainer().opened(Sounds(table, chunk=(0, 12)))
    for chunk in (None, (10, 2)):
        with pytest.raises(ArgumentError, match=r"'h' gets 'h_out' of the call before.*--chunk"):
            Trainer(listener(), loss="mse").opened(Sounds(table, chunk=chunk))


@pytest.mark.parametrize("cell", ["0.1", "0.2-0.1", "a-b", "0.1-0.2,0.3-0.4"])
def test_a_cell_that_is_no_span_is_named(table, cell):
    table.write_text(f'path,heard\n0.wav,\n1.wav,"{cell}"\n')
    with pytest.raises(DataError, match=r"t.csv, row 2, column 'heard' holds .*0.2-1.75;3-3.5"):
        trainer().opened(Sounds(table, chunk=(10, 2)))


def test_the_kind_is_recorded():
    record = DataRecord({"heard": SpansColumn(("when",))})
    assert DataRecord.parsed(record.as_text(), "m") == record


def test_a_stream_is_trained_exported_and_judged_from_the_command_line(table, tmp_path):
    onnx.save(listener(), tmp_path / "m.onnx")
    options = ["--chunk", 10, 2, "--output", "y.logit()", "--loss", "bce_with_logits", "--target", "heard", "--metric", "accuracy"]
    run, file = tmp_path / "run", tmp_path / "e.onnx"
    command(
        "train",
        tmp_path / "m.onnx",
        "--data",
        table,
        "--val",
        table,
        *options,
        "--epochs",
        30,
        "--lr",
        0.3,
        "--batch-size",
        2,
        "--out",
        run,
    )
    of_run = json.loads(command("evaluate", run, "--data", table, "--json"))
    assert of_run["accuracy"] > 0.85
    command("export", run, "--inference", file)
    assert [v.name for v in onnx.load(file).graph.input] == ["x", "h"]
    of_file = json.loads(command("evaluate", file, "--data", table, *options[3:], "--json"))
    assert of_file == pytest.approx(of_run, rel=1e-4)
    command("predict", file, "--data", tmp_path / "1.wav", "--out", tmp_path / "said.npz")
    assert np.load(tmp_path / "said.npz")["y"].shape == (1, 10, 1)


def test_states_go_with_chunks(table, tmp_path):
    onnx.save(listener(), tmp_path / "m.onnx")
    options = ["--data", table, "--loss", "bce_with_logits", "--target", "heard", "--out", tmp_path / "run"]
    assert "--chunk" in command("train", tmp_path / "m.onnx", "--state", "h=h_out", *options, code=2)
    assert "--state takes IN=OUT" in command("train", tmp_path / "m.onnx", "--chunk", 10, 2, "--state", "h", *options, code=2)
