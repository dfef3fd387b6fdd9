"""Functions in Python files, DataLoaders of torch and datasets of Hugging Face."""

import numpy as np
import pytest

from onnxgrad.errors import ArgumentError, DataError, TrainingError
from onnxgrad.training import Shuffled, Trainer
from tests.training.small import assert_equal, data, model, weights


def trainer(**options):
    return Trainer(model(), **{"loss": "cross_entropy", "learning_rate": 0.02, "seed": 4, **options})


def cut_off(source, folder, at, **options):
    """A trainer that resumed a run which ended after so many steps, and one that was not cut off."""
    whole, cut, resumed = trainer(), trainer(), trainer()
    whole.fit(source, 2, **options)
    step = cut.step

    def stops(batch):
        cut.interrupt.requested = cut.step_number == at - 1
        return step(batch)

    cut.step = stops
    cut.fit(source, 2, out=folder, **options)
    assert cut.step_number == at and cut.batch
    resumed.fit(source, 2, out=folder, resume=True, **options)
    return whole, resumed


class TestPythonFiles:
    def test_named_functions_with_and_without_an_epoch(self, tmp_path):
        (tmp_path / "own.py").write_text(
            "import numpy as np\nimport beside\ndef batches(epoch):\n    yield {'x': np.full((2, 4), epoch, 'f4'), 'target': beside.LABELS}\n"
            "def validation():\n    yield np.ones((2, 4), 'f4'), beside.LABELS\n"
        )
        (tmp_path / "beside.py").write_text("LABELS = [0, 1]\n")
        source, held_out = trainer().open(tmp_path / "own.py", f"{tmp_path / 'own.py'}:validation")
        assert next(source.batches(2, epoch=7))["x"][0, 0] == 7
        assert next(held_out.batches(2))["target"].tolist() == [0, 1]

    def test_what_is_refused(self, tmp_path):
        (tmp_path / "own.py").write_text("def batches(a, b):\n    yield a\n")
        (tmp_path / "bad.py").write_text("import a_module_that_is_not_there\n")
        with pytest.raises(ArgumentError, match=r"takes \['a', 'b'\]; it may take only the number of the epoch"):
            trainer().open(tmp_path / "own.py")
        with pytest.raises(DataError, match="has no function 'other'"):
            trainer().open(f"{tmp_path / 'own.py'}:other")
        with pytest.raises(DataError, match=r"bad.py' fails: ModuleNotFoundError"):
            trainer().open(tmp_path / "bad.py")
        with pytest.raises(DataError, match="there is no file"):
            trainer().open(tmp_path / "none.py")
        with pytest.raises(DataError, match="ready-made batches cannot be split"):
            trainer().open(lambda epoch: [], 0.1)

    def test_pieces_in_a_buffer_can_be_split(self):
        pieces = [{"x": data(20, seed=i)["x"], "target": data(20, seed=i)["target"]} for i in range(5)]
        rows = trainer().fit(Shuffled(pieces, buffer=40), 1, validation=0.3, batch_size=16)
        assert rows[0]["step"] in (4, 5) and "val_loss" in rows[0]


class TestTorch:
    torch = property(lambda self: pytest.importorskip("torch"))

    def loader(self, **options):
        arrays = data(50)
        tensors = [self.torch.from_numpy(arrays[name]) for name in ("x", "target")]
        return self.torch.utils.data.DataLoader(self.torch.utils.data.TensorDataset(*tensors), batch_size=8, **options)

    def test_batches_train_as_arrays_do(self):
        a, b = trainer(), trainer()
        a.fit(self.loader(), 1)
        b.fit(data(50), 1, batch_size=8, shuffle=False)
        assert_equal(weights(a), weights(b))

    def test_a_shuffled_run_goes_on_bitwise_the_same_and_leaves_torch_alone(self, tmp_path):
        self.torch.manual_seed(5)
        before = self.torch.random.get_rng_state()
        whole, resumed = cut_off(self.loader(shuffle=True), tmp_path, 10)
        assert_equal(weights(whole), weights(resumed))
        assert (self.torch.random.get_rng_state() == before).all()

    def test_a_generator_of_its_own_is_said_not_to_resume(self, tmp_path):
        loader = self.loader(shuffle=True, generator=self.torch.Generator())
        with pytest.raises(TrainingError, match="the DataLoader draws from a generator of its own"):
            cut_off(loader, tmp_path, 10)


class TestDatasets:
    datasets = property(lambda self: pytest.importorskip("datasets"))

    def dataset(self, count=50):
        features = self.datasets.Features(
            {
                "x": self.datasets.Sequence(self.datasets.Value("float32")),
                "label": self.datasets.ClassLabel(names=["low", "middle", "high"]),
                "id": self.datasets.Value("string"),
            }
        )
        arrays = data(count)
        rows = {"x": arrays["x"].tolist(), "label": arrays["target"].tolist(), "id": [str(i) for i in range(count)]}
        return self.datasets.Dataset.from_dict(rows, features=features)

    def test_columns_by_name_and_classes(self):
        t = trainer()
        source, held_out = t.open(self.dataset(), 0.2)
        assert source.classes == {"target": ["low", "middle", "high"]} and len(held_out) == 10
        a, b = trainer(), trainer()
        with pytest.warns(UserWarning, match="nothing reads the data's 'id'"):
            a.fit(self.dataset(), 1, batch_size=8)
        b.fit(data(50), 1, batch_size=8)
        assert_equal(weights(a), weights(b))

    def test_streams_go_on_bitwise_the_same(self, tmp_path):
        stream = self.dataset().remove_columns("id").to_iterable_dataset()
        whole, resumed = cut_off(stream, tmp_path, 10, batch_size=8)
        assert_equal(weights(whole), weights(resumed))

    def test_images(self):
        image = pytest.importorskip("PIL.Image")
        from tests.training.data.test_images import net

        pictures = [image.fromarray(np.full((6, 6, 3), 10 * i, np.uint8)) for i in range(10)]
        found = self.datasets.Dataset.from_dict({"image": pictures, "label": [0, 1] * 5})
        found = found.cast_column("image", self.datasets.Image())
        source, _ = Trainer(net(), loss="cross_entropy").open(found)
        batch = source.take(np.arange(3))
        assert batch["x"].shape == (3, 3, 8, 8) and batch["target"].tolist() == [0, 1, 0]

    def test_splits_must_be_named(self):
        with pytest.raises(DataError, match=r"a dict of the splits \['test', 'train'\]"):
            trainer().open(self.datasets.DatasetDict({"train": self.dataset(), "test": self.dataset()}))
