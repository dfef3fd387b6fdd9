"""Data is decoded on the rank that uses it alone, and metrics of a whole set are computed once: both are those of one process."""

import threading
from collections import Counter

import numpy as np
import pytest
from onnx.parser import parse_model

from onnxgrad.distributed import run_local
from onnxgrad.distributed.environment import current, using
from onnxgrad.errors import DataError
from onnxgrad.training import Trainer
from onnxgrad.training.data.lazy_rows import LazyRows
from onnxgrad.training.metrics.epoch import EpochMetric
from tests.training.detection.pictures import file, shapes
from tests.training.small import data, model, weights

_BUILDING = threading.Lock()
PICTURES = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 3, 4, 4] x) => (float[N, 2] y)
              <float[2, 3] w = {0.1, 0.2, -0.3, 0.4, 0.1, -0.2}> { m = GlobalAveragePool(x)  f = Flatten(m)  y = Gemm<transB = 1>(f, w) }"""


def on_ranks(count, work):
    def one(transport):
        with using(transport):
            return work(transport)

    return run_local(count, one)


def trainer(source, ranks, **options):
    with _BUILDING:
        return Trainer(source, learning_rate=0.05, threads=1, distributed=ranks, **options)


@pytest.fixture
def pictures(tmp_path):
    """Folders of 12 pictures to train on and of 7 to judge, each of two classes."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(3)
    for folder, count in (("train", 12), ("val", 7)):
        for number in range(count):
            path = tmp_path / folder / ("dark", "light")[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            level = 60 + 90 * (number % 2)
            image.fromarray(rng.integers(level - 50, level + 50, (4, 4, 3)).astype(np.uint8)).save(path)
    return tmp_path


@pytest.mark.parametrize("count", [2, 3])
def test_a_picture_is_decoded_by_the_rank_that_has_it(pictures, count, monkeypatch):
    """Two epochs of 12 pictures in batches of 4, and evaluations of 7; before the first step each rank looks at an example, and at
    two batches of what is held out"""
    decoded = Counter()
    take = LazyRows.take

    def counted(self, rows, epoch=None):
        decoded[current().rank, self.length] += len(rows)
        return take(self, rows, epoch)

    monkeypatch.setattr(LazyRows, "take", counted)

    def work(transport=None):
        t = trainer(parse_model(PICTURES), transport is not None, loss="cross_entropy", metrics=["accuracy"])
        source, held_out = (t.opened(str(pictures / name)) for name in ("train", "val"))
        history = t.fit(source, 2, held_out, batch_size=4, prefetch=0, verbose=False)
        t.evaluate(held_out, batch_size=2)
        return history, weights(t)

    history, state = work()
    looked_at, looked_at_held_out = decoded[0, 12] - 2 * 12, 7
    held_out = decoded[0, 7] - looked_at_held_out
    assert looked_at <= 2
    decoded.clear()
    for found, found_state in on_ranks(count, work):
        assert [row["val_accuracy"] for row in found] == [row["val_accuracy"] for row in history]
        for name, value in state.items():
            np.testing.assert_allclose(found_state[name], value, rtol=1e-4, atol=1e-6)
    parts = [2 * sum(len(part) for part in np.array_split(np.arange(4), count)[rank : rank + 1]) * 3 for rank in range(count)]
    assert [decoded[rank, 12] - looked_at for rank in range(count)] == parts
    assert sum(decoded[rank, 7] - looked_at_held_out for rank in range(count)) == held_out


METRICS = ["f1", "precision", "recall", "perplexity", "mean_iou"]


@pytest.mark.parametrize("count", [2, 3])
def test_metrics_of_a_whole_set_are_computed_once(count, monkeypatch):
    """Also of two classes, and of as few batches as one"""
    computed = Counter()
    value = EpochMetric.value

    def counted(self):
        computed[current().rank] += 1
        return value(self)

    def work(transport=None):
        t = trainer(model(), transport is not None, loss="cross_entropy", metrics=METRICS, batch_norm="frozen", seed=2)
        rows = data(50)
        return [t.evaluate((rows["x"][:size], rows["target"][:size]), batch_size=7) for size in (50, 5)]

    def binary(transport=None):
        t = trainer(parse_model(BINARY), transport is not None, loss="bce_with_logits", metrics=["auc", "average_precision", "f1"])
        rows = data(40)
        return [t.evaluate((rows["x"], (rows["target"] > 0).astype(np.float32)[:, None]), batch_size=6)]

    alone = [work(), binary()]
    monkeypatch.setattr(EpochMetric, "value", counted)
    for expected, evaluate in zip(alone, (work, binary), strict=True):
        for rows in on_ranks(count, evaluate):
            for row, wanted in zip(rows, expected, strict=True):
                assert row == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert computed == {0: 2 * len(METRICS) + 3}


BINARY = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 4] x) => (float[N, 1] y)
            <float[4, 1] w = {0.5, 0.3, -0.2, 0.1}> { y = MatMul(x, w) }"""


@pytest.mark.filterwarnings("ignore:.*read by several operators:UserWarning")
def test_the_precision_of_detections_is_that_of_one_process():
    images, boxes, _ = shapes.pictures(3, 5)

    def work(transport=None):
        return trainer(file("cells"), transport is not None, loss="detection").evaluate(
            {"images": images, "boxes": boxes}, batch_size=3
        )

    alone = work()
    assert {"map", "map50"} <= set(alone) and alone["map50"] > 0
    for row in on_ranks(2, work):
        assert row == pytest.approx(alone, rel=1e-12)


def test_what_the_first_rank_cannot_compute_is_an_error_on_all():
    def work(transport):
        t = trainer(parse_model(BINARY), True, loss="bce_with_logits", metrics=["auc"])
        with pytest.raises(DataError, match="auc is not defined for this data") as caught:
            t.evaluate((data(12)["x"], np.ones((12, 1), np.float32)), batch_size=4)
        return type(caught.value), str(caught.value)

    assert len(set(on_ranks(3, work))) == 1


def test_windows_of_sounds_are_shared_and_joined_on_the_first_rank(tmp_path, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    from tests.training.data.test_sounds import net, tone

    for level, name in ((0.5, "loud"), (0.05, "quiet")):
        (tmp_path / name).mkdir()
        for i in range(4):
            soundfile.write(tmp_path / name / f"{i}.wav", tone(100 + 10 * i, 0.2 + 0.34 * i, 1000, level), 1000)
    read = Counter()
    take = LazyRows.take
    monkeypatch.setattr(
        LazyRows, "take", lambda self, rows, epoch=None: read.update({current().rank: len(rows)}) or take(self, rows, epoch)
    )

    def work(transport=None):
        t = trainer(net(), transport is not None, loss="cross_entropy", metrics=["accuracy", "recall", "f1"], seed=0)
        opened = t.opened(str(tmp_path))
        before = read[current().rank]
        return t.evaluate(opened, batch_size=3), read[current().rank] - before

    alone, windows = work()
    for count in (2, 3):
        ranks = on_ranks(count, work)
        for row, own in ranks:
            assert row == pytest.approx(alone, rel=1e-12) and own <= -(-windows // count) + 3
        assert sum(own for _, own in ranks) == windows
