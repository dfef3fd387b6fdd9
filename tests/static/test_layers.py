"""Layers with parameters against numpy, onnxruntime's shapes and each other."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import NotOffered

RNG = np.random.default_rng(7)
assign = paddle.nn.initializer.Assign


def given(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def run(fetches, **feed):
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return executor.run(feed=feed, fetch_list=fetches)


def parameters():
    return {p.name: list(p.shape) for p in static.default_main_program().all_parameters()}


def attr(value):
    return paddle.ParamAttr(initializer=assign(value))


def correlate(x, w, stride=1, dilation=1):
    """Convolution of [N, C, H, W] without padding, element by element."""
    kh, kw = ((k - 1) * dilation + 1 for k in w.shape[2:])
    rows, columns = (x.shape[2] - kh) // stride + 1, (x.shape[3] - kw) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], rows, columns))
    for i in range(rows):
        for j in range(columns):
            patch = x[:, :, i * stride : i * stride + kh : dilation, j * stride : j * stride + kw : dilation]
            out[:, :, i, j] = np.einsum("ncij,ocij->no", patch, w)
    return out


class TestConvolution:
    @pytest.mark.parametrize(
        ("padding", "pads"),
        [
            (1, ((1, 1), (1, 1))),
            ([1, 2], ((1, 1), (2, 2))),
            ([1, 0, 2, 1], ((1, 0), (2, 1))),
            ([[0, 0], [0, 0], [1, 0], [2, 1]], ((1, 0), (2, 1))),
            ("VALID", ((0, 0), (0, 0))),
            ("SAME", ((0, 1), (0, 1))),
        ],
    )
    def test_padding(self, padding, pads):
        x, w = given(2, 3, 5, 5), given(4, 3, 2, 2)
        v = static.data("x", [None, 3, 5, 5])
        y = static.nn.conv2d(v, 4, 2, padding=padding, param_attr=attr(w), bias_attr=False)
        np.testing.assert_allclose(run([y], x=x)[0], correlate(np.pad(x, ((0, 0), (0, 0), *pads)), w), rtol=1e-4, atol=1e-5)

    def test_same_sets_the_dilation_to_one(self):
        v = static.data("x", [None, 3, 5, 5])
        y = static.nn.conv2d(v, 4, 3, padding="SAME", dilation=2)
        assert y.shape == (-1, 4, 5, 5)
        assert y.op.attr("dilations") == [1, 1]

    def test_channels_last(self):
        x, w = given(2, 5, 5, 3), given(4, 3, 2, 2)
        y = static.nn.conv2d(
            static.data("x", [None, 5, 5, 3]), 4, 2, param_attr=attr(w), bias_attr=False, data_format="NHWC", dilation=2
        )
        wanted = correlate(x.transpose(0, 3, 1, 2), w, dilation=2).transpose(0, 2, 3, 1)
        np.testing.assert_allclose(run([y], x=x)[0], wanted, rtol=1e-4, atol=1e-5)

    def test_transpose_is_the_adjoint(self):
        """<conv(x), y> = <x, conv_transpose(y)>"""
        x, w, y = given(1, 3, 7, 7), given(4, 3, 3, 3), given(1, 4, 3, 3)
        v = static.data("y", [None, 4, 3, 3])
        back = static.nn.conv2d_transpose(v, 3, filter_size=3, stride=2, param_attr=attr(w), bias_attr=False)
        np.testing.assert_allclose(np.sum(run([back], y=y)[0] * x), np.sum(correlate(x, w, stride=2) * y), rtol=1e-4)

    @pytest.mark.parametrize(
        ("arguments", "shape"),
        [
            ({"filter_size": 3, "stride": 2}, (-1, 2, 9, 9)),
            ({"filter_size": 3, "stride": 2, "output_size": 10}, (-1, 2, 10, 10)),
            ({"output_size": [8, 9], "stride": 2}, (-1, 2, 8, 9)),
            ({"filter_size": 3, "stride": 2, "padding": "SAME"}, (-1, 2, 8, 8)),
            ({"filter_size": 3, "padding": [1, 0]}, (-1, 2, 4, 6)),
            ({"filter_size": 3, "padding": "VALID"}, (-1, 2, 6, 6)),
        ],
    )
    def test_transpose_sizes(self, arguments, shape):
        assert static.nn.conv2d_transpose(static.data("x", [None, 4, 4, 4]), 2, **arguments).shape == shape

    def test_three_axes(self):
        x = static.data("x", [None, 4, 6, 6, 6])
        assert static.nn.conv3d(x, 2, [1, 2, 3], padding=[0, 1, 2], groups=2).shape == (-1, 2, 6, 7, 8)
        assert static.nn.conv3d_transpose(x, 2, filter_size=2, stride=2).shape == (-1, 2, 12, 12, 12)
        assert parameters() == {
            "conv3d_0.w_0": [2, 2, 1, 2, 3],
            "conv3d_0.b_0": [2],
            "conv3d_transpose_0.w_0": [4, 2, 2, 2, 2],
            "conv3d_transpose_0.b_0": [2],
        }

    def test_deformable_with_still_taps_is_a_convolution(self):
        x, w = given(2, 3, 5, 5), given(4, 3, 2, 2)
        v, offset, mask = static.data("x", [2, 3, 5, 5]), static.data("o", [2, 8, 4, 4]), static.data("m", [2, 4, 4, 4])
        y = static.nn.deform_conv2d(v, offset, mask, 4, 2, weight_attr=attr(w), bias_attr=False)
        found = run([y], x=x, o=np.zeros((2, 8, 4, 4), np.float32), m=np.ones((2, 4, 4, 4), np.float32))[0]
        np.testing.assert_allclose(found, correlate(x, w), rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize(
        ("make", "kind"),
        [
            (lambda x: static.nn.conv2d(x, 4, 3, padding="LEFT"), ValueError),
            (lambda x: static.nn.conv2d(x, 4, 3, padding=[1, 2, 3]), ValueError),
            (lambda x: static.nn.conv2d(x, 4, 3, groups=3), ValueError),
            (lambda x: static.nn.conv2d(x, 4, 3, data_format="CHWN"), ValueError),
            (lambda x: static.nn.conv2d_transpose(x, 4), ValueError),
            (lambda x: static.nn.conv2d_transpose(x, 4, output_size=90, filter_size=3), ValueError),
            (lambda x: static.nn.conv2d(static.data("z", [None, None, 4, 4]), 4, 3), ValueError),
        ],
    )
    def test_wrong_arguments(self, make, kind):
        with pytest.raises(kind):
            make(static.data("x", [None, 4, 4, 4]))


class TestNormalization:
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    def test_group_norm(self, layout):
        x, scale, shift = given(2, 6, 3, 4), given(6), given(6)
        fed = x if layout == "NCHW" else x.transpose(0, 2, 3, 1)
        v = static.data("x", [None, *fed.shape[1:]])
        y = static.nn.group_norm(v, 3, param_attr=attr(scale), bias_attr=attr(shift), data_layout=layout)
        parts = x.reshape(2, 3, -1)
        parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
        wanted = parts.reshape(x.shape) * scale[:, None, None] + shift[:, None, None]
        np.testing.assert_allclose(
            run([y], x=fed)[0], wanted if layout == "NCHW" else wanted.transpose(0, 2, 3, 1), rtol=1e-3, atol=1e-5
        )

    def test_group_and_instance_norm_make_parameters_only_when_asked(self):
        x = static.data("x", [None, 6, 4, 4])
        static.nn.instance_norm(static.nn.group_norm(x, 2))
        assert parameters() == {}
        static.nn.instance_norm(x, param_attr=paddle.ParamAttr(), bias_attr=paddle.ParamAttr())
        assert parameters() == {"instance_norm_1.w_0": [6], "instance_norm_1.b_0": [6]}

    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    def test_batch_norm_replaces_its_statistics(self, layout):
        x = given(4, 3, 2, 2)
        fed = x if layout == "NCHW" else x.transpose(0, 2, 3, 1)
        y = static.nn.batch_norm(static.data("x", [None, *fed.shape[1:]]), data_layout=layout, momentum=0.8)
        found, mean, variance = run([y, "batch_norm_0.w_1", "batch_norm_0.w_2"], x=fed)
        wanted = (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)
        np.testing.assert_allclose(found, wanted if layout == "NCHW" else wanted.transpose(0, 2, 3, 1), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(mean, 0.2 * x.mean((0, 2, 3)), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(variance, 0.8 + 0.2 * x.var((0, 2, 3)), rtol=1e-4)

    def test_data_norm_adds_up_what_it_sees(self):
        x = given(4, 3)
        start = {"batch_size": 10.0, "batch_sum": 5.0, "batch_square": 20.0}
        y = static.nn.data_norm(static.data("x", [None, 3]), param_attr=start, summary_decay_rate=0.5)
        found, size, total, squares = run([y, *(f"data_norm_0.batch_{k}" for k in ("size", "sum", "square_sum"))], x=x)
        np.testing.assert_allclose(found, (x - 0.5) * np.sqrt(0.5), rtol=1e-5)
        np.testing.assert_allclose(size, np.full(3, 9.0))
        np.testing.assert_allclose(total, 2.5 + x.sum(0), rtol=1e-5)
        np.testing.assert_allclose(squares, 10 + ((x - 0.5) ** 2).sum(0) + 4e-5, rtol=1e-5)
        assert not static.default_main_program().clone(for_test=True).updates

    def test_spectral_norm(self):
        w = given(4, 3, 2)
        v = static.create_parameter(w.shape, "float32", name="w", attr=attr(w))
        y = static.nn.spectral_norm(v, dim=1, power_iters=30)
        (g,) = static.gradients([y[0, 0, 0]], [v])
        found, grad = run([y, g])
        u, s, vt = np.linalg.svd(w.transpose(1, 0, 2).reshape(3, 8), full_matrices=False)
        np.testing.assert_allclose(found, w / s[0], rtol=1e-3)
        first = np.zeros_like(w)
        first[0, 0, 0] = 1
        outer = np.outer(u[:, 0], vt[0]).reshape(3, 4, 2).transpose(1, 0, 2)
        np.testing.assert_allclose(grad, first / s[0] - w[0, 0, 0] / s[0] ** 2 * outer, rtol=1e-2, atol=1e-4)


def test_prelu_has_one_slope_a_channel_or_an_element():
    x = given(2, 3, 4, 4)
    v = static.data("x", [None, 3, 4, 4])
    slopes = given(1, 3, 1, 1)
    shared, channel, element = static.nn.prelu(v, "all"), static.nn.prelu(v, "channel", attr(slopes)), static.nn.prelu(v, "element")
    assert parameters() == {"prelu_0.w_0": [1], "prelu_1.w_0": [1, 3, 1, 1], "prelu_2.w_0": [1, 3, 4, 4]}
    a, b, c = run([shared, channel, element], x=x)
    np.testing.assert_allclose(a, np.where(x > 0, x, 0.25 * x))
    np.testing.assert_allclose(b, np.where(x > 0, x, slopes * x), rtol=1e-6)
    np.testing.assert_allclose(c, a)


def test_bilinear_tensor_product():
    x, y, w = given(2, 3), given(2, 4), given(5, 3, 4)
    out = static.nn.bilinear_tensor_product(static.data("x", [None, 3]), static.data("y", [None, 4]), 5, param_attr=attr(w))
    assert parameters() == {"bilinear_tensor_product_0.w_0": [5, 3, 4], "bilinear_tensor_product_0.b_0": [1, 5]}
    np.testing.assert_allclose(run([out], x=x, y=y)[0], np.einsum("na,kab,nb->nk", x, w, y), rtol=1e-4, atol=1e-6)


def test_row_conv_looks_ahead():
    x, w = given(2, 5, 3), given(3, 3)
    y = static.nn.row_conv(static.data("x", [None, None, 3]), 2, param_attr=attr(w))
    padded = np.pad(x, ((0, 0), (0, 2), (0, 0)))
    np.testing.assert_allclose(run([y], x=x)[0], sum(padded[:, i : i + 5] * w[i] for i in range(3)), rtol=1e-4, atol=1e-6)


def test_refused_layers_say_what_to_do():
    with pytest.raises(NotOffered, match="cross_entropy"):
        static.nn.nce(1, label=2)


def test_results_have_paddles_names():
    x = static.data("x", [None, 4, 6, 6])
    assert static.nn.conv2d(x, 2, 3, bias_attr=False, act="relu").name == "conv2d_0.tmp_1"
    assert static.nn.conv2d(x, 2, 3, act="relu").name == "conv2d_1.tmp_2"
    assert static.nn.batch_norm(x).name == "batch_norm_0.tmp_3"
    assert static.nn.layer_norm(x).name == "layer_norm_0.tmp_2"
    assert static.nn.group_norm(x, 2, param_attr=paddle.ParamAttr()).name == "group_norm_0.tmp_2"
    assert static.nn.instance_norm(x).name == "instance_norm_0.tmp_2"
