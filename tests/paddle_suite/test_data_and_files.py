"""paddle.io, metric, save and load, jit."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import errors, io, metric, nn, static

ROOT = Path(__file__).parents[2]


class Squares(io.Dataset):
    def __getitem__(self, index):
        return {"x": np.array([index], np.float32), "y": index**2, "name": str(index)}

    def __len__(self):
        return 7


class Numbers(io.IterableDataset):
    def __iter__(self):
        worker = io.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(np.float32(n) for n in range(first, 9, step))


@pytest.mark.parametrize("workers", [0, 3])
def test_batches_come_in_order(workers):
    started = []
    loader = io.DataLoader(Squares(), batch_size=3, num_workers=workers, worker_init_fn=started.append)
    batches = list(loader)
    assert [batch["y"].tolist() for batch in batches] == [[0, 1, 4], [9, 16, 25], [36]]
    assert batches[0]["name"] == ["0", "1", "2"]
    assert isinstance(batches[0]["x"], paddle.Tensor)
    assert len(loader) == 3
    assert len(list(io.DataLoader(Squares(), batch_size=3, drop_last=True, num_workers=workers))) == 2
    assert set(started) <= set(range(workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_streams_are_shared_among_workers(workers):
    found = [n for batch in io.DataLoader(Numbers(), batch_size=2, num_workers=workers) for n in batch.tolist()]
    assert sorted(found) == list(range(9))


def test_an_error_in_a_worker_is_the_callers():
    class Broken(Squares):
        def __getitem__(self, index):
            raise KeyError(f"sample {index}")

    with pytest.raises(KeyError, match="sample 0"):
        list(io.DataLoader(Broken(), num_workers=2))


_HANGS = """
import threading
from onnxgrad import errors, io

class Stuck(KIND):
    def __getitem__(self, index):
        threading.Event().wait()
    def __iter__(self):
        threading.Event().wait()
    def __len__(self):
        return 7

try:
    next(iter(io.DataLoader(Stuck(), num_workers=2, timeout=0.2)))
except errors.DataError as error:
    print(error, flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize("kind", ["io.Dataset", "io.IterableDataset"])
def test_a_worker_that_hangs_is_not_waited_for(kind):
    """Neither by the loop nor by the end of the process"""
    done = subprocess.run(
        [sys.executable, "-c", _HANGS.replace("KIND", kind)], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    assert done.stdout.startswith("DataLoader: a batch has not come within 0.2 seconds.")


def test_a_timeout_of_the_data_itself_is_the_callers():
    class Late(Squares):
        def __getitem__(self, index):
            raise TimeoutError(f"sample {index}")

    with pytest.raises(TimeoutError, match="sample 0"):
        list(io.DataLoader(Late(), num_workers=2, timeout=60))
    with pytest.raises(errors.ArgumentError, match="timeout is at least 0, not -1"):
        io.DataLoader(Squares(), timeout=-1)


def test_orders():
    paddle.seed(3)
    assert sorted(io.RandomSampler(range(6))) == list(range(6))
    assert len(list(io.RandomSampler(range(6), replacement=True, num_samples=20))) == 20
    assert set(io.WeightedRandomSampler([0.0, 1.0, 2.0], 50)) == {1, 2}
    assert sorted(io.SubsetRandomSampler([5, 7])) == [5, 7]
    assert list(io.BatchSampler(range(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    parts = io.random_split(Squares(), [5, 2])
    assert sorted([*parts[0].indices, *parts[1].indices]) == list(range(7))
    with pytest.raises(ValueError):
        io.random_split(Squares(), [5, 5])


def test_data_sets_of_data_sets():
    rows = io.TensorDataset([np.arange(4), paddle.arange(4)])
    assert len(rows) == 4
    both = io.ConcatDataset([rows, rows])
    assert (len(both), int(both[5][0])) == (8, 1)
    assert len(io.ComposeDataset([rows, rows])[0]) == 4
    assert len(list(io.ChainDataset([Numbers(), Numbers()]))) == 18


def test_metrics():
    scores, labels = np.array([0.1, 0.6, 0.8, 0.4]), np.array([0, 1, 0, 1])
    precision, recall, auc = metric.Precision(), metric.Recall(), metric.Auc()
    for one in (precision, recall):
        one.update(scores, labels)
    auc.update(np.stack([1 - scores, scores], 1), labels)
    assert (precision.accumulate(), recall.accumulate(), auc.accumulate()) == (0.5, 0.5, 0.5)
    best = metric.Accuracy(topk=(1, 2))
    best.update(best.compute(paddle.to_tensor([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), paddle.to_tensor([2, 0])))
    assert best.accumulate() == [0.5, 1.0]
    assert best.name() == ["acc_top1", "acc_top2"]


def test_anything_of_tensors_can_be_saved(tmp_path):
    import ml_dtypes

    given = {"a": [paddle.ones([2]), (np.arange(3), None)], "step": 3, 7: "seven", "half": np.ones(2, ml_dtypes.bfloat16)}
    paddle.save(given, tmp_path / "file")
    found = paddle.load(tmp_path / "file")
    assert isinstance(found["a"][0], paddle.Tensor)
    assert found["a"][1][0].tolist() == [0, 1, 2]
    assert (found["step"], found[7], found["a"][1][1]) == (3, "seven", None)
    assert found["half"].dtype == ml_dtypes.bfloat16
    assert isinstance(paddle.load(tmp_path / "file", return_numpy=True)["a"][0], np.ndarray)
    with pytest.raises(TypeError, match=r"a\.0"):
        paddle.save({"a": [object()]}, tmp_path / "file")
    assert paddle.load(tmp_path / "file")["step"] == 3


def test_open_files_are_written_and_read():
    file = BytesIO()
    paddle.save({"w": paddle.ones([2]), "step": 3}, file)
    for as_numpy, kind in ((False, paddle.Tensor), (True, np.ndarray)):
        file.seek(0)
        loaded = paddle.load(file, return_numpy=as_numpy)
        assert isinstance(loaded["w"], kind) and loaded["w"].tolist() == [1.0, 1.0] and loaded["step"] == 3


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "file"
    paddle.save({"w": paddle.ones([4])}, path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.ModelError, match="checksum"):
        paddle.load(path)
    path.write_bytes(b"something else")
    with pytest.raises(errors.ModelError):
        paddle.load(path)


def test_a_traced_layer_has_its_present_weights(tmp_path):
    layer, spec = nn.Linear(2, 3), [static.InputSpec([None, 2], "float32", "x")]
    paddle.jit.save(layer, str(tmp_path / "a" / "net"), input_spec=spec)
    layer.weight.set_value(np.zeros((2, 3), np.float32))
    paddle.jit.save(layer, str(tmp_path / "b.onnx"), input_spec=spec)
    x = paddle.ones([1, 2])
    assert np.abs(paddle.jit.load(str(tmp_path / "a" / "net"))(x).numpy()).max() > 0
    np.testing.assert_array_equal(paddle.jit.load(str(tmp_path / "b"))(x).numpy(), layer(x).numpy())
    with pytest.raises(ValueError, match="input_spec"):
        paddle.jit.save(layer, str(tmp_path / "c"))


def test_a_loaded_layer_trains(tmp_path):
    paddle.jit.save(nn.Linear(2, 1), str(tmp_path / "net"), input_spec=[static.InputSpec([None, 2], "float32")])
    layer = paddle.jit.load(str(tmp_path / "net"))
    opt = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    losses = []
    for _ in range(5):
        loss = (layer(paddle.ones([3, 2])) ** 2).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < losses[0]


class Recurrent(nn.Layer):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.rnn(x)[0].mean(axis=1))


def test_gradients_of_a_loaded_recurrent_layer_are_its_own(tmp_path):
    """Their operators have expansions, which the backward pass computes once more."""
    net = Recurrent()
    paddle.jit.save(net, str(tmp_path / "net"), input_spec=[static.InputSpec([None, None, 3], "float32", "x")])
    loaded, slopes = paddle.jit.load(str(tmp_path / "net")), []
    for layer in (net, loaded):
        x = paddle.to_tensor(np.linspace(-1, 1, 30).reshape(2, 5, 3).astype("float32"), stop_gradient=False)
        (layer(x) ** 2).sum().backward()
        slopes.append(x.grad.numpy())
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-5)
    assert all(p.grad is not None for p in loaded.parameters())


class Traced(nn.Linear):
    @paddle.jit.to_static
    def forward(self, input):
        return super().forward(input)


@pytest.mark.parametrize("make", [lambda: paddle.jit.to_static(nn.Linear(4, 1)), lambda: Traced(4, 1)], ids=["layer", "method"])
def test_a_layer_that_was_called_is_saved_for_such_inputs(tmp_path, make):
    layer = make()
    with pytest.raises(ValueError, match="the shapes and types of the inputs are not known"):
        paddle.jit.save(layer, f"{tmp_path}/early")
    x = paddle.ones([3, 4])
    expected = layer(x)
    paddle.jit.save(layer, f"{tmp_path}/called")
    np.testing.assert_allclose(paddle.jit.load(f"{tmp_path}/called")(x).numpy(), expected.numpy(), rtol=1e-6)
