"""The suggested learning rate: before the least loss, never near the divergence, and good to train with on data of four kinds."""

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from onnxgrad.errors import TrainingError
from onnxgrad.training import Trainer, find_learning_rate
from onnxgrad.training.run.rate_finder import _suggested


def with_weights(text, **arrays):
    net = parse_model(text)
    for name, array in arrays.items():
        net.graph.initializer.append(numpy_helper.from_array(array.astype("f4"), name))
    return net


def hidden(rng, features, units, outputs):
    text = f"""<ir_version: 8, opset_import: ["": 17]> f (float[N, {features}] x) => (float[N, {outputs}] y) {{
        g = Gemm<transB = 1>(x, w1, b1)  r = Relu(g)  y = Gemm<transB = 1>(r, w2, b2) }}"""
    first, second = rng.normal(0, features**-0.5, (units, features)), rng.normal(0, units**-0.5, (outputs, units))
    return with_weights(text, w1=first, b1=np.zeros(units), w2=second, b2=np.zeros(outputs))


def groups(rng):
    """Five classes of points"""
    centres, target = rng.normal(0, 1.5, (5, 8)), rng.integers(0, 5, 600)
    return hidden(rng, 8, 32, 5), "cross_entropy", (centres[target] + rng.normal(0, 1, (600, 8)), target)


def prices(rng):
    """Numbers of tens, which the model begins far below"""
    x = rng.normal(0, 1, (600, 6))
    y = 30 + 10 * np.sin(x[:, 0]) + 5 * x[:, 1] * x[:, 2] + rng.normal(0, 1, 600)
    return hidden(rng, 6, 32, 1), "mse", (x, y[:, None].astype("f4"))


def marks(rng):
    """Images with a mark in one of four corners"""
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, 1, 8, 8] x) => (float[N, 4] y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, k, kb)  r = Relu(c)  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
        f = Flatten(p)  y = Gemm<transB = 1>(f, w, b) }"""
    arrays = {"k": rng.normal(0, 1 / 3, (8, 1, 3, 3)), "kb": np.zeros(8), "w": rng.normal(0, 128**-0.5, (4, 128)), "b": np.zeros(4)}
    target, x = rng.integers(0, 4, 600), rng.normal(0, 0.5, (600, 1, 8, 8))
    for i, corner in enumerate(target):
        row, column = divmod(int(corner), 2)
        x[i, 0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += np.eye(4) if column else 0.5
    return with_weights(text, **arrays), "cross_entropy", (x, target)


def flags(rng):
    """Coin flips that lean to one side, so that batches differ as much as the loss falls"""
    x = rng.normal(0, 1, (600, 10))
    chance = 1 / (1 + np.exp(-(2 * x[:, 0] - 2 * x[:, 1] - 1)))
    return hidden(rng, 10, 16, 1), "bce_with_logits", (x, (rng.random(600) < chance).astype("f4")[:, None])


@pytest.mark.one_in(20)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("kind", "share"), [(groups, 0.15), (prices, 0.05), (marks, 0.05), (flags, 0.6)], ids=lambda v: str(v)[:14]
)
def test_six_epochs_with_the_suggestion_bring_the_loss_down(kind, share, seed):
    """The shares are those of the best of 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1 and 0.3, and half as much again"""
    net, loss, (x, target) = kind(np.random.default_rng(seed))
    arrays = {"x": x.astype("f4"), "target": target}
    trainer = Trainer(net, loss=loss, seed=seed)
    before = trainer.evaluate(arrays)["loss"]
    sweep = find_learning_rate(trainer, arrays)
    assert sweep.suggestion <= sweep.rates[int(np.argmin(sweep.losses))] / 10 * (1 + 1e-9)
    again = Trainer(net, loss=loss, seed=seed, learning_rate=sweep.suggestion)
    again.fit(arrays, 6, verbose=False)
    assert again.evaluate(arrays)["loss"] < share * before


RATES = [10.0 ** (k / 10 - 6) for k in range(61)]


class TestSuggestion:
    def suggested(self, curve):
        found = _suggested(RATES, [float(curve(rate)) for rate in RATES], len(RATES))
        return None if found is None else found[0]

    def test_a_fall_behind_the_divergence_does_not_count(self):
        def curve(rate):  # falls to 0.01, diverges, and falls back from 0.1 to 0.2 steeply
            return 2 - np.clip(np.log10(rate) + 4, 0, 2) if rate < 0.01 else 9 if 0.02 < rate < 0.15 else 1

        assert 5e-5 < self.suggested(curve) <= 1.1e-3

    def test_it_is_a_tenth_of_the_rate_of_the_least_loss_at_most(self):
        assert self.suggested(lambda rate: 1 if rate < 0.05 else 0 if rate < 0.1 else 3) <= 0.01

    def test_a_loss_that_does_not_fall_gives_none(self):
        rng = np.random.default_rng(0)
        assert [self.suggested(lambda rate: 1 + rng.normal(0, 0.1)) for _ in range(20)].count(None) >= 19
        assert self.suggested(lambda rate: 1 + rate) is None

    def test_batches_that_differ_as_much_as_the_loss_falls_are_smoothed_more(self):
        rng = np.random.default_rng(0)

        def curve(rate):  # falls by 1 from 1e-3 to 0.1
            return 1 - np.clip((np.log10(rate) + 3) / 2, 0, 1) + rng.normal(0, 0.3)

        found = [self.suggested(curve) for _ in range(40)]
        assert found.count(None) == 0 and all(2e-4 < rate <= 0.1 for rate in found if rate is not None)

    def test_an_error_says_so(self):
        rng = np.random.default_rng(0)
        net, loss, (x, _) = groups(rng)
        trainer = Trainer(net, loss=loss, learning_rate=0.1)
        with pytest.raises(TrainingError, match="the loss falls at no rate"):
            find_learning_rate(trainer, {"x": np.zeros_like(x, "f4"), "target": np.arange(600) % 5}, lowest=1e-12, highest=1e-10)
