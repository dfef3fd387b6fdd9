"""A damaged checkpoint is refused with an error that names the file and the field, and changes nothing."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from onnxgrad.errors import ArgumentError, ModelError, OnnxGradError, TrainingError, UnknownName
from onnxgrad.internal.tensor_file import read_metadata, read_tensors, write_tensors
from onnxgrad.training import Trainer, add_lora, load_adapters, load_checkpoint, save_adapters, save_checkpoint
from onnxgrad.training.run.position import epochs_done
from tests.training.small import assert_equal, data, model, weights


def trainer(**options):
    return Trainer(model(), **{"loss": "cross_entropy", "learning_rate": 0.02, **options})


def snapshot(t):
    """All that loading may change."""
    schedule = None if t.schedule is None else t.schedule.state_dict()
    counters = (
        t.epoch,
        t.batch,
        t.step_number,
        t.best,
        t.state.begun,
        list(t.history),
        dict(t.state.means.totals),
        t.state.means.count,
    )
    return {name: value.copy() for name, value in weights(t).items()}, counters, schedule


def assert_unchanged(t, before):
    now = snapshot(t)
    assert_equal(now[0], before[0])
    assert now[1:] == before[1:]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A checkpoint in the middle of an epoch."""
    path = tmp_path_factory.mktemp("run") / "c.safetensors"
    t = trainer(schedule="cosine", warmup=2)
    t.fit(data(), 2, batch_size=8)
    t.state.batch, t.state.means.count = 1, 8
    t.step(data(8))
    t.save(path)
    return path


@pytest.fixture(scope="module")
def other():
    """A Trainer of the same kind that stands elsewhere; refused files leave it there."""
    t = trainer(schedule="cosine", warmup=2)
    t.fit(data(), 1, batch_size=20)
    return t


def as_older(path, target, change=lambda arrays, position: None):
    """The file as it was written before there were checksums, after a change."""
    found = read_tensors(path)
    arrays, position = {name: array.copy() for name, array in found.arrays.items()}, json.loads(found.metadata["position"])
    changed = change(arrays, position)
    text = json.dumps(position) if changed is None else changed
    save_file(arrays, target, {"graph": found.metadata["graph"], "position": text})
    return target


def offset_of_data(content):
    return 8 + struct.unpack("<Q", content[:8])[0]


class TestFlippedBits:
    @pytest.mark.parametrize("part", ["header", "data"])
    def test_anywhere(self, part, written, other, tmp_path):
        """Each of 300 flips in either part is refused, or (in what pads the header) changes nothing that is read."""
        content, path = written.read_bytes(), tmp_path / "c.safetensors"
        start = offset_of_data(content)
        low, high = (0, start) if part == "header" else (start, len(content))
        rng, before, refused = np.random.default_rng(0), snapshot(other), 0
        for place, bit in zip(rng.integers(low, high, 300), rng.integers(0, 8, 300), strict=True):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                read_tensors(path)
            except ModelError as error:
                assert str(path) in str(error) and "\n" not in str(error)
                with pytest.raises(ModelError):
                    other.load(path)
                refused += 1
            else:
                assert_equal(read_tensors(path).arrays, read_tensors(written).arrays)
                # Without its name, the entry of checksums is an entry that no Trainer writes.
                with pytest.raises(OnnxGradError):
                    other.load(path)
        assert_unchanged(other, before)
        assert refused >= (290 if part == "header" else 300)

    def test_the_metadata_alone_is_verified_too(self, written, tmp_path):
        content = bytearray(written.read_bytes())
        place = content.index(b"epoch")
        content[place : place + 5] = b"epocg"
        path = tmp_path / "c.safetensors"
        path.write_bytes(content)
        with pytest.raises(
            ModelError, match=r"c\.safetensors' is damaged: its metadata \(graph, position\) does not fit its checksum"
        ):
            epochs_done(path)

    def test_the_tensor_is_named(self, written, other, tmp_path):
        content = bytearray(written.read_bytes())
        content[offset_of_data(content)] ^= 1
        path = tmp_path / "c.safetensors"
        path.write_bytes(content)
        with pytest.raises(ModelError, match=r"damaged: the tensor '.+' does not fit its checksum\. Use another checkpoint"):
            other.load(path)

    def test_adapters(self, tmp_path):
        t = trainer()
        add_lora(t.inference, "head.weight", rank=2)
        path = tmp_path / "a.safetensors"
        save_adapters(t.inference, path)
        load_adapters(t.inference, path)
        content = bytearray(path.read_bytes())
        content[-1] ^= 128
        path.write_bytes(content)
        with pytest.raises(ModelError, match="does not fit its checksum"):
            load_adapters(t.inference, path)


class TestReplacedParts:
    """Parts of a checkpoint with those of another: each is whole, together they are not."""

    def test_tensors_that_another_step_wrote(self, written, other, tmp_path):
        mixed = load_file(written)
        mixed["head.bias"] = mixed["head.bias"] + np.float32(1)
        save_file(mixed, tmp_path / "c.safetensors", {**header(written), "checksums": header(written)["checksums"]})
        before = snapshot(other)
        with pytest.raises(ModelError, match=r"the tensor 'head\.bias' does not fit"):
            other.load(tmp_path / "c.safetensors")
        assert_unchanged(other, before)

    @pytest.mark.parametrize("name", ["head.bias", "more"])
    def test_tensors_too_few_or_too_many(self, name, written, other, tmp_path):
        mixed = load_file(written)
        mixed.pop(name, None) if name == "head.bias" else mixed.update(more=np.zeros(1))
        save_file(mixed, tmp_path / "c.safetensors", header(written))
        message = "'head.bias' is missing" if name == "head.bias" else "'more' has no checksum"
        with pytest.raises(ModelError, match=message):
            other.load(tmp_path / "c.safetensors")

    @pytest.mark.parametrize(
        "text", ["", "{}", "[]", "0", '{"tensors": 1, "metadata": 2}', '{"tensors": [1], "metadata": 2}', "[" * 9999]
    )
    def test_checksums_of_another_form(self, text, written, other, tmp_path):
        save_file(load_file(written), tmp_path / "c.safetensors", {**header(written), "checksums": text})
        with pytest.raises(ModelError, match="damaged: its "):
            other.load(tmp_path / "c.safetensors")

    def test_checksums_under_another_name(self, written, other, tmp_path):
        strings = header(written)
        strings["chfcksums"] = strings.pop("checksums")
        save_file(load_file(written), tmp_path / "c.safetensors", strings)
        with pytest.raises(ModelError, match="its metadata has an entry 'chfcksums', which no Trainer writes"):
            other.load(tmp_path / "c.safetensors")


def header(path):
    content = path.read_bytes()
    return json.loads(content[8 : offset_of_data(content)])["__metadata__"]


def setting(**values):
    return lambda arrays, position: position.update(values)


def nan_weight(arrays, position):
    arrays["head.weight"][0, 0] = np.nan


def infinite_statistics(arrays, position):
    arrays["body.var"][0] = np.inf


def as_double(arrays, position):
    arrays["head.bias"] = arrays["head.bias"].astype(np.float64)


def as_bits(arrays, position):
    arrays["head.bias"] = arrays["head.bias"].view(np.int32)


def without_a_tensor(arrays, position):
    del arrays["head.bias"]


def reshaped(arrays, position):
    arrays["head.weight"] = arrays["head.weight"].T.copy()


def lacking(name):
    return lambda arrays, position: (position.pop(name) and None) or None


class TestFilesWithoutChecksums:
    """As older versions wrote them: what is plainly wrong is refused all the same."""

    def test_they_load(self, written, tmp_path):
        again, same = trainer(schedule="cosine", warmup=2), trainer(schedule="cosine", warmup=2)
        again.load(as_older(written, tmp_path / "c.safetensors"))
        same.load(written)
        assert_unchanged(again, snapshot(same))
        assert epochs_done(tmp_path / "c.safetensors") == 2

    def test_a_position_without_its_first_epoch_loads(self, written, tmp_path):
        """``begun`` was added later than the rest."""
        again = trainer(schedule="cosine", warmup=2)
        again.load(as_older(written, tmp_path / "c.safetensors", lacking("begun")))
        assert again.state.begun == 0

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (nan_weight, "the tensor 'head.weight' is not finite"),
            (infinite_statistics, "the tensor 'body.var' is not finite"),
            (as_double, "'head.bias' is float64, the program's is float32"),
            (as_bits, "'head.bias' is int32, the program's is float32"),
            (without_a_tensor, "'head.bias' is only on one side"),
            (reshaped, "'head.weight' has shape"),
            (setting(batch=10**6), "batch=1000000 of epoch=2 after step=11, which no run can reach"),
            (setting(epoch=10**6), "batch=1 of epoch=1000000 after step=11"),
            (setting(step=0), "after step=0, which no run can reach"),
            (setting(begun=3), "begun=3, later than epoch=2"),
            (setting(batch=-1), "batch=-1, which is not a whole number of at least 0"),
            (setting(batch=1.5), "batch=1.5, which is not a whole number"),
            (setting(batch=True), "batch=True, which is not a whole number"),
            (setting(batch="1"), "batch='1', which is not a whole number"),
            (setting(batch=None), "batch=None, which is not a whole number"),
            (setting(accumulate=0), "accumulate=0, which is not a whole number"),
            (setting(seed="x"), "seed='x', which is not a whole number"),
            (setting(examples=-1), "examples=-1"),
            (setting(batch=0), "in an epoch that has not begun"),
            (setting(totals=[]), "totals=[], which is not a sum by name"),
            (setting(totals={"loss": "x"}), "which is not a sum by name"),
            (setting(history={}), "history={}, which is not a list of rows"),
            (setting(history=[1, 2]), "history=[1, 2], which is not a list of rows"),
            (setting(history=[]), "a history of 0 rows after epoch=2"),
            (setting(best="x"), "best='x', which is not a number"),
            (setting(schedule=[]), "schedule=[], which is not the state of a schedule"),
            (setting(schedule={}), "lacks a proper 'last_epoch' of the schedule Planned"),
            (setting(schedule={"last_epoch": 1, "last_lr": None}), "lacks a proper 'last_lr' of the schedule Planned"),
            (setting(surprise=1), "has a field 'surprise', which no Trainer writes"),
            *((lacking(name), f"lacks the field {name!r}") for name in ("epoch", "batch", "step", "seed", "accumulate")),
            *((lacking(name), f"lacks the field {name!r}") for name in ("schedule", "best", "history", "totals", "examples")),
            (lambda *_: "", "its metadata entry 'position' is not JSON"),
            (lambda *_: "{", "its metadata entry 'position' is not JSON"),
            (lambda *_: "[" * 99999, "its metadata entry 'position' is not JSON"),
            (lambda *_: "[]", "its position is not an object with fields"),
            (lambda *_: "null", "its position is not an object with fields"),
        ],
    )
    def test_what_cannot_be(self, change, message, written, other, tmp_path):
        path, before = as_older(written, tmp_path / "c.safetensors", change), snapshot(other)
        with pytest.raises((ModelError, UnknownName)) as caught:
            other.load(path)
        assert message in str(caught.value) and str(path) in str(caught.value)
        assert_unchanged(other, before)

    def test_no_position(self, written, other, tmp_path):
        save_file(load_file(written), tmp_path / "c.safetensors", {"graph": header(written)["graph"]})
        with pytest.raises(ModelError, match="not a checkpoint of a Trainer: its metadata holds no position"):
            other.load(tmp_path / "c.safetensors")
        with pytest.raises(ModelError, match="not a checkpoint of a Trainer: its metadata holds no position"):
            epochs_done(tmp_path / "c.safetensors")


class TestPosition:
    def test_a_batch_that_the_data_does_not_have(self, tmp_path):
        t = trainer()
        t.fit(data(), 1, batch_size=4, out=tmp_path)
        for _ in range(3):
            t.step(data(4))
        t.state.batch, t.state.means.count = 3, 12
        t.save(tmp_path / "last.safetensors")
        again = trainer()
        before = snapshot(again)
        with pytest.raises(
            TrainingError, match=r"stands at batch 3 of epoch 2, which has 2 batches\. Use the data and the batch size"
        ):
            again.fit(data(), 2, batch_size=20, out=tmp_path, resume=True)
        assert_unchanged(again, before)

    def test_what_is_not_finite_and_belongs_so_is_kept(self, tmp_path):
        """Also the position of a run whose metric was never a number."""

        def odd(output, target):
            return np.array(np.nan)

        t = trainer(metrics=[odd])
        t.fit(data(), 1)
        t.save(tmp_path / "c.safetensors")
        again = trainer()
        again.load(tmp_path / "c.safetensors")
        assert np.isnan(again.history[0]["odd"])


class TestFile:
    @pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float64", "int8", "uint64", "bool"])
    def test_every_type_comes_back(self, dtype, tmp_path):
        array = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, dtype, dtype))
        write_tensors(tmp_path / "t.safetensors", {"a": array, "scalar": array[1, 2], "empty": array[:0], "turned": array.T})
        found = read_tensors(tmp_path / "t.safetensors").arrays
        for name, expected in {"a": array, "scalar": array[1, 2], "empty": array[:0], "turned": array.T}.items():
            assert found[name].dtype == expected.dtype and found[name].shape == expected.shape
            np.testing.assert_array_equal(found[name], expected)

    def test_metadata_of_ones_own(self, tmp_path):
        t = trainer()
        save_checkpoint(t.program, tmp_path / "c.safetensors", metadata={"note": "é"})
        assert read_metadata(tmp_path / "c.safetensors") == {"note": "é"}
        load_checkpoint(t.program, tmp_path / "c.safetensors")
        with pytest.raises(ArgumentError, match="metadata cannot have an entry 'checksums'"):
            save_checkpoint(t.program, tmp_path / "c.safetensors", metadata={"checksums": ""})
