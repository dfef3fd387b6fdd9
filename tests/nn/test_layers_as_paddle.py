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
    layer = nn.utils.spectral_norm(nn.Conv2D(2, 3, 3), n_power_iterations=30)
    layer(paddle.to_tensor(RANDOM.randn(1, 2, 4, 4).astype(np.float32)))
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    values = np.linalg.svd(layer.weight.numpy().reshape(3, -1), compute_uv=False)
    np.testing.assert_allclose(values[0], 1.0, rtol=1e-4)


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
