"""Arguments and attributes of layers and losses, as Paddle's own tests use them."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import nn, static

RANDOM = np.random.RandomState(2)


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 2, 3, 2)])
@pytest.mark.parametrize("size", [3, 4])
def test_local_response_norm_of_other_ranks_is_that_of_images(shape, size):
    x = RANDOM.randn(*shape).astype(np.float32)
    image = x.reshape(2, 6, -1, 1)
    found = F.local_response_norm(paddle.to_tensor(x), size, 0.5).numpy()
    np.testing.assert_allclose(
        found.reshape(image.shape), F.local_response_norm(paddle.to_tensor(image), size, 0.5).numpy(), rtol=1e-6
    )


def test_the_border_of_pad_may_be_a_tensor():
    x, border = RANDOM.randn(1, 2, 3, 4).astype(np.float32), np.array([1, 2, 0, 3], np.int32)
    wanted = np.pad(x, [(0, 0), (0, 0), (0, 3), (1, 2)])
    np.testing.assert_array_equal(F.pad(paddle.to_tensor(x), paddle.to_tensor(border)).numpy(), wanted)
    with static.program_guard(static.Program(), static.Program()):
        y = F.pad(static.data("x", [None, 2, 3, 4]), static.data("border", [4], "int32"))
        (found,) = static.Executor().run(feed={"x": x, "border": border}, fetch_list=[y])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_classes_are_smoothed_whatever_soft_label_says(weighted, reduction):
    scores, classes = paddle.to_tensor(RANDOM.randn(5, 3)), paddle.to_tensor(np.array([0, 2, 1, 1, 0]))
    weight = paddle.to_tensor(np.array([0.5, 1.0, 2.0])) if weighted else None
    options = {"weight": weight, "reduction": reduction, "label_smoothing": 0.1}
    hard, soft = (F.cross_entropy(scores, classes, soft_label=soft, **options) for soft in (False, True))
    np.testing.assert_array_equal(soft.numpy(), hard.numpy())


def test_spectral_norm_keeps_its_vectors_as_buffers():
    paddle.seed(1)  # 30 steps leave more than the tolerance where two singular values are nearly equal
    layer = nn.utils.spectral_norm(nn.Conv2D(2, 3, 3), n_power_iterations=30)
    layer(paddle.to_tensor(RANDOM.randn(1, 2, 4, 4).astype(np.float32)))
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    values = np.linalg.svd(layer.weight.numpy().reshape(3, -1), compute_uv=False)
    np.testing.assert_allclose(values[0], 1.0, rtol=1e-4)


def test_layers_in_a_set_are_left_out():
    shared, known = nn.ReLU(), {nn.Tanh()}
    model = nn.Sequential(nn.Linear(2, 2), shared, nn.Sequential(shared, nn.Linear(2, 1)))
    known.add(model[0])
    assert [name for name, _ in model.named_sublayers(layers_set=known)] == ["1", "2", "2.1"]
    assert {model, model[0], shared, model[2], model[2][1]} <= known and len(known) == 6


def test_what_a_layer_shows():
    assert nn.GLU(axis=0, name="test").extra_repr() == "axis=0, name=test"
    assert nn.PixelUnshuffle(3).extra_repr() == "downscale_factor=3"
    assert nn.ChannelShuffle(3, data_format="NHWC").extra_repr() == "groups=3, data_format=NHWC"
    assert nn.Softmax2D(name="test").extra_repr() == "name=test"


def test_betas_may_be_variables_and_are_checked():
    with static.program_guard(static.Program(), static.Program()):
        loss = paddle.mean(static.nn.fc(static.data("x", [2, 3]), 2))
        beta = static.create_global_var([1], 0.5, "float32", persistable=True)
        optimizer = paddle.optimizer.AdamW(beta1=beta)
        optimizer.minimize(loss)
        assert optimizer._beta1 == 0.5
    with pytest.raises(ValueError, match="epsilon"):
        paddle.optimizer.Adam(epsilon=-1.0)


def tensor(*shape, dtype="float32"):
    return paddle.to_tensor(np.ones(shape, dtype))


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: F.triplet_margin_loss(tensor(2, 2), tensor(1, 2), tensor(1, 2)), ValueError, "the same"),
        (lambda: F.triplet_margin_loss(*[tensor(2, 2)] * 3, margin=-0.5), ValueError, "margin"),
        (lambda: F.multi_label_soft_margin_loss(tensor(2, 2), tensor(1, 2)), ValueError, "the same"),
        (lambda: F.poisson_nll_loss(tensor(2), tensor(2), epsilon=-1), ValueError, "epsilon"),
        (lambda: nn.CosineEmbeddingLoss(margin=2), ValueError, "margin"),
        (lambda: nn.PixelShuffle(3.33), TypeError, "int"),
        (lambda: nn.PixelUnshuffle(0), ValueError, "at least 1"),
        (lambda: nn.ChannelShuffle(3, data_format="WOW"), ValueError, "WOW"),
        (lambda: nn.InstanceNorm1D(1)(tensor(2, 1, 3, 3)), ValueError, "2 or 3 axes"),
        (lambda: nn.InstanceNorm3D(1)(tensor(2, 1, 3, 3)), ValueError, "5 axes"),
        (lambda: F.max_pool2d(tensor(1, 1, 4, 4), 2, padding=[[0, 1], [0, 0], [0, 0], [0, 0]]), ValueError, "batch"),
        (lambda: F.avg_pool1d(tensor(1, 1, 4), 2, padding="VALID", ceil_mode=True), ValueError, "ceil_mode"),
        (lambda: F.maxout(tensor(2, 4, 6, 8), 2, 2), ValueError, "axis 1, 3 or -1"),
        (lambda: F.softmax_with_cross_entropy(tensor(), tensor(dtype="int64")), ValueError, "axes"),
        (lambda: paddle.io.RandomSampler(range(100), False, 120), ValueError, "replacement"),
        (lambda: paddle.optimizer.lr.CosineAnnealingWarmRestarts(0.5, 1.0), ValueError, "int"),
        (lambda: paddle.optimizer.lr.CyclicLR(0.5, "test", 10), TypeError, "number"),
        (lambda: paddle.optimizer.lr.CyclicLR(0.5, 1.0, 1.5), TypeError, "CyclicLR: step_size_up is an int, not float"),
        (lambda: paddle.optimizer.lr.CyclicLR(0.5, -1.0, 10), ValueError, "at least 0"),
    ],
)
def test_what_paddle_refuses_is_refused(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


def test_batch_norm_takes_float64_whatever_its_parameters_are():
    x = RANDOM.randn(6, 3)
    layer = nn.BatchNorm1D(3)
    y = layer(paddle.to_tensor(x))
    np.testing.assert_allclose(y.numpy(), (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-9)
    np.testing.assert_allclose(layer._mean.numpy(), 0.1 * x.mean(0), rtol=1e-5)


def test_kl_div_of_two_types_and_of_scalars():
    x, label = RANDOM.randn(3, 2), RANDOM.rand(3, 2).astype(np.float32)
    wanted = (label * (np.log(label) - x)).sum() / 3
    found = F.kl_div(paddle.to_tensor(x), paddle.to_tensor(label), "batchmean")
    assert found.dtype.name == "float64"
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    scalar = F.kl_div(paddle.to_tensor(x[0, 0]), paddle.to_tensor(label[0, 0]), "batchmean")
    np.testing.assert_allclose(scalar.numpy(), label[0, 0] * (np.log(label[0, 0]) - x[0, 0]), rtol=1e-6)


def test_attributes_of_a_transformer_in_a_list_of_one():
    model = nn.Transformer(4, 2, 1, 1, 8, weight_attr=[None], bias_attr=[False])
    y = model(tensor(1, 3, 4), tensor(1, 2, 4))
    assert y.shape == [1, 2, 4] and not any(name.endswith("linear1.bias") for name in model.state_dict())


def test_layers_have_the_default_element_type():
    paddle.set_default_dtype("float64")
    try:
        model = nn.Sequential(nn.Conv1D(2, 3, 1), nn.BatchNorm1D(3))
    finally:
        paddle.set_default_dtype("float32")
    assert {value.dtype.name for value in model.state_dict().values()} == {"float64"}
    assert model(tensor(4, 2, 5, dtype="float64")).dtype.name == "float64"
    assert nn.Linear(2, 2).weight.dtype.name == "float32"


def test_a_group_may_use_another_momentum_than_the_others():
    moved = []
    for nesterov in (False, True):
        w = paddle.create_parameter([1], "float32", is_bias=True)
        momentum = paddle.optimizer.Momentum(0.1, 0.5, parameters=[{"params": [w], "use_nesterov": nesterov}])
        (w * 2.0).backward()
        momentum.step()
        moved.append(w.item())
    assert moved == pytest.approx([-0.2, -0.3])


@pytest.mark.parametrize("kind", ["SimpleRNN", "LSTM", "GRU"])
def test_a_recurrent_layer_without_a_bias_is_its_cell_over_the_steps(kind):
    model = getattr(nn, kind)(3, 4, bias_ih_attr=False)
    x = tensor(2, 5, 3)
    wanted, _ = nn.RNN(model.sublayers()[1])(x)
    np.testing.assert_allclose(model(x)[0].numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
