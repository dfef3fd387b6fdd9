"""paddle.nn.functional against formulas in numpy and finite differences; recorded values of Paddle are checked elsewhere."""

import itertools
import math

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ArgumentError, NotOffered
from tests.function_cases import Case, check_derivatives, check_values, distribution, positive, real

X, Y = real(3, 4), real(3, 4) + 0.01
IMAGE, W = real(2, 4, 5, 6), real(3, 4, 2, 3)
PROB, TARGET = positive(3, 4, high=0.9), distribution(3, 4)
LABEL, SIGNS = np.array([2, 0, 3]), np.array([1.0, -1.0, 1.0])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def log_softmax(x, axis=-1):
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def windows(x, kernel, stride, pads=((0, 0), (0, 0)), value=0.0, dilation=1):
    """[N, C, oh, ow, kh, kw]"""
    x = np.pad(x, ((0, 0), (0, 0), *pads), constant_values=value)
    reach = [(k - 1) * dilation + 1 for k in kernel]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    return view[:, :, :: stride[0], :: stride[1], ::dilation, ::dilation]


def conv(x, w, stride=(1, 1), pads=((0, 0), (0, 0)), dilation=1):
    return np.einsum("nchwij,ocij->nohw", windows(x, w.shape[2:], stride, pads, dilation=dilation), w)


def conv_transposed(x, w, stride):
    n, _, h, v = x.shape
    kh, kw = w.shape[2:]
    y = np.zeros((n, w.shape[1], (h - 1) * stride + kh, (v - 1) * stride + kw))
    for i, j in itertools.product(range(h), range(v)):
        y[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw] += np.einsum("nc,cohw->nohw", x[:, :, i, j], w)
    return y


def adaptive(x, sizes, reduce):
    h, w = x.shape[2:]
    rows = [(i * h // sizes[0], -(-(i + 1) * h // sizes[0])) for i in range(sizes[0])]
    columns = [(i * w // sizes[1], -(-(i + 1) * w // sizes[1])) for i in range(sizes[1])]
    return np.stack([np.stack([reduce(x[:, :, a:b, c:d], axis=(2, 3)) for c, d in columns], -1) for a, b in rows], -2)


def normalised(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def attention(q, k, v, mask):
    scores = np.einsum("blhd,bmhd->bhlm", q, k) / math.sqrt(q.shape[-1]) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhlm,bmhd->blhd", weights / weights.sum(-1, keepdims=True), v)


selu_scale, selu_alpha = 1.0507009873554805, 1.6732632423543772
ACTIVATIONS = [
    ("relu", lambda x: np.maximum(x, 0)), ("relu6", lambda x: np.clip(x, 0, 6)), ("sigmoid", sigmoid), ("tanh", np.tanh),
    ("log_sigmoid", lambda x: -softplus(-x)), ("softplus", softplus), ("softsign", lambda x: x / (1 + np.abs(x))),
    ("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)), ("elu", lambda x: np.where(x > 0, x, np.expm1(x))),
    ("celu", lambda x: np.where(x > 0, x, np.expm1(x))), ("selu", lambda x: selu_scale * np.where(x > 0, x, selu_alpha * np.expm1(x))),
    ("gelu", lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))), ("silu", lambda x: x * sigmoid(x)),
    ("swish", lambda x: x * sigmoid(x)), ("mish", lambda x: x * np.tanh(softplus(x))), ("hardshrink", lambda x: x * (np.abs(x) > 0.5)),
    ("softshrink", lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)), ("tanhshrink", lambda x: x - np.tanh(x)),
    ("hardtanh", lambda x: np.clip(x, -1, 1)), ("hardsigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    ("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6), ("thresholded_relu", lambda x: x * (x > 1)),
    ("softmax", lambda x: np.exp(log_softmax(x))), ("log_softmax", log_softmax),
    ("glu", lambda x: x[:, :2] * sigmoid(x[:, 2:])), ("swiglu", lambda x: x[:, :2] * sigmoid(x[:, :2]) * x[:, 2:]),
]  # fmt: skip
CASES = [Case(name, getattr(F, name), [X], formula) for name, formula in ACTIVATIONS]
CASES += [
    Case("softplus-2", lambda x: F.softplus(x, 2.0, 3.0), [X], lambda x: np.where(2 * x > 3, x, softplus(2 * x) / 2)),
    Case("softmax-0", lambda x: F.softmax(x, 0), [X], lambda x: np.exp(log_softmax(x, 0))),
    Case("softmax-scalar", F.softmax, [np.array(2.0)], np.array(1.0)),
    Case("prelu", F.prelu, [IMAGE, positive(4)], lambda x, w: np.where(x > 0, x, x * w.reshape(4, 1, 1)), unknown=False),
    Case("prelu-last", lambda x, w: F.prelu(x, w, "NHWC"), [IMAGE, positive(6)], lambda x, w: np.where(x > 0, x, x * w), unknown=False),
    Case("rrelu", lambda x: F.rrelu(x, training=False), [X], lambda x: np.where(x > 0, x, x * 11 / 48)),
    Case("maxout", lambda x: F.maxout(x, 2), [IMAGE], lambda x: x.reshape(2, 2, 2, 5, 6).max(2), unknown=False),
    # convolutions
    Case("conv2d", F.conv2d, [IMAGE, W, real(3)], lambda x, w, b: conv(x, w) + b.reshape(3, 1, 1), unknown=False),
    Case("conv2d-options", lambda x, w: F.conv2d(x, w, None, [2, 1], [1, 0, 0, 2], 2), [IMAGE, W],
         lambda x, w: conv(x, w, (2, 1), ((1, 0), (0, 2)), 2), unknown=False),
    Case("conv2d-groups", lambda x, w: F.conv2d(x, w, groups=2), [IMAGE, real(4, 2, 2, 2)],
         lambda x, w: np.concatenate([conv(x[:, :2], w[:2]), conv(x[:, 2:], w[2:])], 1), unknown=False),
    Case("conv2d-nhwc", lambda x, w: F.conv2d(x, w, padding="VALID", data_format="NHWC"), [IMAGE.transpose(0, 2, 3, 1).copy(), W],
         lambda x, w: conv(x.transpose(0, 3, 1, 2), w).transpose(0, 2, 3, 1), unknown=False),
    Case("conv1d", F.conv1d, [real(2, 3, 6), real(4, 3, 2)], lambda x, w: conv(x[:, :, None], w[:, :, None])[:, :, 0], unknown=False),
    Case("conv3d", F.conv3d, [real(1, 2, 3, 3, 3), real(2, 2, 3, 1, 1)], lambda x, w: np.einsum("ncdhw,ocd->nohw", x, w[..., 0, 0])[:, :, None], unknown=False),
    Case("conv2d_transpose", lambda x, w: F.conv2d_transpose(x, w, stride=2), [real(2, 3, 3, 4), real(3, 2, 2, 3)], lambda x, w: conv_transposed(x, w, 2), unknown=False),
    Case("conv2d_transpose-size", lambda x, w: F.conv2d_transpose(x, w, stride=2, output_size=[7, 9]), [real(2, 3, 3, 4), real(3, 2, 2, 3)],
         lambda x, w: np.pad(conv_transposed(x, w, 2), ((0, 0), (0, 0), (0, 1), (0, 0))), unknown=False),
    Case("conv1d_transpose", F.conv1d_transpose, [real(2, 3, 4), real(3, 2, 3)],
         lambda x, w: conv_transposed(np.pad(x[:, :, None], 0), w[:, :, None], 1)[:, :, 0], unknown=False),
    # pools
    Case("max_pool2d", lambda x: F.max_pool2d(x, [2, 3], [1, 2], [1, 0]), [IMAGE],
         lambda x: windows(x, (2, 3), (1, 2), ((1, 1), (0, 0)), -np.inf).max((-1, -2))),
    Case("max_pool2d-same", lambda x: F.max_pool2d(x, 3, 2, "SAME"), [IMAGE],
         lambda x: windows(x, (3, 3), (2, 2), ((1, 1), (0, 1)), -np.inf).max((-1, -2))),
    Case("max_pool1d", lambda x: F.max_pool1d(x, 2), [real(2, 3, 6)], lambda x: x.reshape(2, 3, 3, 2).max(-1)),
    Case("max_pool3d", lambda x: F.max_pool3d(x, 2), [real(1, 2, 4, 2, 2)], lambda x: x.reshape(1, 2, 2, 2, 4).max((-1, -2))[..., None, None]),
    Case("max_pool2d-nhwc", lambda x: F.max_pool2d(x, 2, data_format="NHWC"), [real(1, 4, 4, 3)], lambda x: x.reshape(1, 2, 2, 2, 2, 3).max((2, 4))),
    Case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), [IMAGE],
         lambda x: np.nanmean(windows(x, (3, 3), (2, 2), ((1, 1), (1, 1)), np.nan), (-1, -2))),
    Case("avg_pool2d-all", lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False), [IMAGE], lambda x: windows(x, (3, 3), (2, 2), ((1, 1), (1, 1))).mean((-1, -2))),
    Case("avg_pool2d-divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3), [IMAGE], lambda x: windows(x, (2, 2), (2, 2)).sum((-1, -2)) / 3),
    Case("avg_pool1d", lambda x: F.avg_pool1d(x, 2), [real(2, 3, 6)], lambda x: x.reshape(2, 3, 3, 2).mean(-1)),
    Case("avg_pool3d", lambda x: F.avg_pool3d(x, 2), [real(1, 2, 4, 2, 2)], lambda x: x.reshape(1, 2, 2, 2, 4).mean((-1, -2))[..., None, None]),
    Case("lp_pool2d", lambda x: F.lp_pool2d(x, 3, 2), [positive(1, 2, 4, 4)], lambda x: (windows(x, (2, 2), (2, 2)) ** 3).sum((-1, -2)) ** (1 / 3)),
    *(Case(f"adaptive_avg-{s}", lambda x, s=s: F.adaptive_avg_pool2d(x, s), [IMAGE], lambda x, s=s: adaptive(x, s, np.mean), unknown=False)
      for s in ([1, 1], [3, 4], [5, 2], [7, 3])),
    *(Case(f"adaptive_max-{s}", lambda x, s=s: F.adaptive_max_pool2d(x, s), [IMAGE], lambda x, s=s: adaptive(x, s, np.max), unknown=False)
      for s in ([1, 1], [3, 4], [5, 2])),
    Case("adaptive_avg-all", lambda x: F.adaptive_avg_pool2d(x, 1), [IMAGE], lambda x: x.mean((2, 3), keepdims=True)),
    # normalisation
    Case("layer_norm", lambda x, w, b: F.layer_norm(x, 4, w, b), [X, positive(4), real(4)], lambda x, w, b: normalised(x, 1) * w + b, exact=1e-4),
    Case("layer_norm-plain", lambda x: F.layer_norm(x, [5, 6]), [IMAGE], lambda x: normalised(x, (2, 3)), exact=1e-4),
    Case("rms_norm", lambda x, w: F.rms_norm(x, 4, w), [X, positive(4)], lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w),
    Case("instance_norm", F.instance_norm, [IMAGE], lambda x: normalised(x, (2, 3)), exact=1e-4),
    Case("group_norm", lambda x, w, b: F.group_norm(x, 2, 1e-5, w, b), [IMAGE, positive(4), real(4)],
         lambda x, w, b: normalised(x.reshape(2, 2, 60), 2).reshape(x.shape) * w.reshape(4, 1, 1) + b.reshape(4, 1, 1), exact=1e-4),
    Case("group_norm-last", lambda x: F.group_norm(x, 3, data_format="NHWC"), [IMAGE],
         lambda x: normalised(x.reshape(2, 20, 3, 2), (1, 3)).reshape(x.shape), unknown=False, exact=1e-4),
    Case("batch_norm", F.batch_norm, [IMAGE, real(4), positive(4), positive(4), real(4)], lambda x, m, v, w, b: (
        x - m.reshape(4, 1, 1)) / np.sqrt(v + 1e-5).reshape(4, 1, 1) * w.reshape(4, 1, 1) + b.reshape(4, 1, 1)),
    Case("normalize", F.normalize, [X], lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)),
    Case("normalize-1", lambda x: F.normalize(x, 1, 0), [X], lambda x: x / np.abs(x).sum(0)),
    *(Case(f"lrn-{n}", lambda x, n=n: F.local_response_norm(x, n, 0.5), [IMAGE], lambda x, n=n: x / (1 + 0.5 * np.stack(
        [(x[:, max(c - n // 2, 0) : c + (n - 1) // 2 + 1] ** 2).sum(1) / n for c in range(4)], 1)) ** 0.75) for n in (2, 3)),
    # losses
    Case("square_error_cost", F.square_error_cost, [X, Y], lambda x, y: (x - y) ** 2),
    Case("mse", F.mse_loss, [X, Y], lambda x, y: ((x - y) ** 2).mean()),
    Case("l1", lambda x, y: F.l1_loss(x, y, "sum"), [X, real(3, 4)], lambda x, y: np.abs(x - y).sum()),
    Case("smooth_l1", lambda x, y: F.smooth_l1_loss(x, y, "none", 0.6), [X, real(3, 4)],
         lambda x, y: np.where(abs(x - y) < 0.6, 0.5 * (x - y) ** 2, 0.6 * (abs(x - y) - 0.3))),
    Case("bce", lambda p, t: F.binary_cross_entropy(p, t, reduction="none"), [PROB, TARGET], lambda p, t: -t * np.log(p) - (1 - t) * np.log(1 - p)),
    Case("bce-logits", lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, reduction="sum", pos_weight=w), [X, TARGET, positive(4)],
         lambda x, t, w: (w * t * softplus(-x) + (1 - t) * softplus(x)).sum()),
    Case("focal", F.sigmoid_focal_loss, [X, TARGET.round()], lambda x, t: np.where(
        t == 1, 0.25 * (1 - sigmoid(x)) ** 2 * softplus(-x), 0.75 * sigmoid(x) ** 2 * softplus(x)).sum(), gradient=False),
    Case("log_loss", F.log_loss, [PROB, TARGET], lambda p, t: -t * np.log(p + 1e-4) - (1 - t) * np.log(1 - p + 1e-4)),
    Case("soft_margin", F.soft_margin_loss, [real(3), SIGNS], lambda x, t: softplus(-t * x).mean()),
    Case("hinge", lambda x, t: F.hinge_embedding_loss(x, t, 0.7), [real(3), SIGNS], lambda x, t: np.where(t == 1, x, np.maximum(0.7 - x, 0)).mean(), gradient=False),
    Case("kl_div", lambda x, t: F.kl_div(x, t, "batchmean"), [np.log(PROB), TARGET], lambda x, t: (t * (np.log(t) - x)).sum() / 3),
    Case("kl_div-log", lambda x, t: F.kl_div(x, t, log_target=True), [np.log(PROB), np.log(TARGET)], lambda x, t: (np.exp(t) * (t - x)).mean()),
    Case("poisson", lambda x, t: F.poisson_nll_loss(x, t, False), [PROB, TARGET], lambda x, t: (x - t * np.log(x + 1e-8)).mean()),
    Case("poisson-full", lambda x, t: F.poisson_nll_loss(x, t, full=True), [X, 3 * PROB],
         lambda x, t: (np.exp(x) - t * x + np.where(t > 1, t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t), 0)).mean()),
    Case("gaussian", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True), [X, Y, PROB],
         lambda x, t, v: (0.5 * (np.log(v) + (x - t) ** 2 / v) + 0.5 * np.log(2 * np.pi)).mean()),
    Case("ranking", lambda x, y, t: F.margin_ranking_loss(x, y, t, 0.3), [real(3), real(3), SIGNS], lambda x, y, t: np.maximum(0, 0.3 - t * (x - y)).mean()),
    Case("cosine_embedding", lambda x, y, t: F.cosine_embedding_loss(x, y, t, 0.1), [X, real(3, 4), np.array([1, -1, 1])],
         lambda x, y, t: np.where(t == 1, 1 - cosine(x, y), np.maximum(0, cosine(x, y) - 0.1)).mean()),
    Case("triplet", lambda x, y, z: F.triplet_margin_loss(x, y, z, swap=True), [X, real(3, 4), real(3, 4)], lambda x, y, z: np.maximum(0, 1 + np.linalg.norm(
        x - y + 1e-6, axis=1) - np.minimum(np.linalg.norm(x - z + 1e-6, axis=1), np.linalg.norm(y - z + 1e-6, axis=1))).mean()),
    Case("triplet-distance", lambda x, y, z: F.triplet_margin_with_distance_loss(x, y, z, reduction="none"), [X, real(3, 4), real(3, 4)],
         lambda x, y, z: np.maximum(0, 1 + np.linalg.norm(x - y, axis=1) - np.linalg.norm(x - z, axis=1))),
    Case("multi_label", lambda x, t: F.multi_label_soft_margin_loss(x, t), [X, TARGET], lambda x, t: (t * softplus(-x) + (1 - t) * softplus(x)).mean()),
    Case("multi_margin", lambda x, t, w: F.multi_margin_loss(x, t, 2, 0.8, w), [X, LABEL, positive(4)], lambda x, t, w: np.mean([sum(
        max(0, w[k] * (0.8 - x[i, k] + x[i, j])) ** 2 for j in range(4) if j != k) / 4 for i, k in enumerate(t)]), unknown=False),
    Case("cross_entropy", F.cross_entropy, [X, LABEL], lambda x, t: -log_softmax(x)[np.arange(3), t].mean()),
    Case("cross_entropy-axis", lambda x, t: F.cross_entropy(x, t, axis=1, reduction="none"), [real(2, 4, 3), np.array([[[1, 0, 3]], [[2, 2, 0]]])],
         lambda x, t: -np.take_along_axis(log_softmax(x, 1), t, 1)),
    Case("cross_entropy-smooth", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.2), [X, LABEL],
         lambda x, t: -(0.8 * log_softmax(x)[np.arange(3), t] + 0.2 * log_softmax(x).mean(1)).mean(), unknown=False),
    Case("cross_entropy-ignored", lambda x, t: F.cross_entropy(x, t, ignore_index=0), [X, LABEL], lambda x, t: -log_softmax(x)[[0, 2], [2, 3]].mean()),
    Case("softmax_with_cross_entropy", lambda x, t: F.softmax_with_cross_entropy(x, t, return_softmax=True), [X, LABEL[:, None]],
         lambda x, t: (-np.take_along_axis(log_softmax(x), t, 1), np.exp(log_softmax(x)))),
    Case("nll", lambda x, t, w: F.nll_loss(x, t, w), [X, LABEL, positive(4)], lambda x, t, w: -(x[np.arange(3), t] * w[t]).sum() / w[t].sum(), gradient=False),
    Case("dice", F.dice_loss, [PROB, LABEL[:, None]], lambda p, t: (1 - 2 * p[np.arange(3), t[:, 0]] / (p.sum(1) + 1 + 1e-5)).mean(), unknown=False),
    # others
    Case("linear", F.linear, [X, real(4, 2), real(2)], lambda x, w, b: x @ w + b),
    Case("bilinear", F.bilinear, [X, real(3, 2), real(5, 4, 2), real(1, 5)], lambda x, y, w, b: np.einsum("bi,oij,bj->bo", x, w, y) + b),
    Case("label_smooth", lambda x, p: F.label_smooth(x, p, 0.3), [TARGET, distribution(1, 4)], lambda x, p: 0.7 * x + 0.3 * p),
    Case("cosine_similarity", F.cosine_similarity, [X, real(3, 4)], lambda x, y: cosine(x, y)),
    Case("pairwise_distance", lambda x, y: F.pairwise_distance(x, y, 3.0), [X, real(3, 4)], lambda x, y: (np.abs(x - y + 1e-6) ** 3).sum(1) ** (1 / 3)),
    Case("pdist", F.pdist, [X], lambda x: np.linalg.norm(x[[0, 0, 1]] - x[[1, 2, 2]], axis=1), unknown=False),
    Case("embedding", lambda w, i: F.embedding(i, w, padding_idx=-1), [real(5, 3), np.array([[0, 4], [2, 0]])], lambda w, i: w[i] * (i != 4)[..., None], unknown=False),
    Case("embedding-norm", lambda w, i: F.embedding(i, w, max_norm=1.5), [real(5, 3), np.array([0, 4])],
         lambda w, i: w[i] * np.minimum(1, 1.5 / np.linalg.norm(w[i], axis=1, keepdims=True))),
    Case("pad", lambda x: F.pad(x, [1, 2, 0, 1], value=0.5), [IMAGE], lambda x: np.pad(x, ((0, 0), (0, 0), (0, 1), (1, 2)), constant_values=0.5)),
    *(Case(f"pad-{m}", lambda x, m=m: F.pad(x, [1, 2], m, data_format="NLC"), [real(2, 4, 3)],
           lambda x, n=n: np.pad(x, ((0, 0), (1, 2), (0, 0)), n)) for m, n in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"))),
    Case("pad-all", lambda x: F.pad(x, [1, 0, 0, 2]), [X], lambda x: np.pad(x, ((1, 0), (0, 2)))),
    Case("zeropad2d", lambda x: F.zeropad2d(x, [1, 0, 0, 2]), [IMAGE], lambda x: np.pad(x, ((0, 0), (0, 0), (0, 2), (1, 0)))),
    Case("unfold", lambda x: F.unfold(x, [2, 3], 2, [1, 0]), [IMAGE],
         lambda x: windows(x, (2, 3), (2, 2), ((1, 1), (0, 0))).transpose(0, 1, 4, 5, 2, 3).reshape(2, 24, -1), unknown=False),
    Case("fold", lambda x: F.fold(x, [4, 4], 2, 2), [real(1, 8, 4)], lambda x: x.reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 4), unknown=False),
    Case("interpolate", lambda x: F.interpolate(x, scale_factor=2), [IMAGE], lambda x: x.repeat(2, 2).repeat(2, 3)),
    Case("interpolate-corners", lambda x: F.interpolate(x, [5], mode="linear", align_corners=True), [real(1, 2, 3)],
         lambda x: np.stack([x[..., 0], x[..., :2].mean(-1), x[..., 1], x[..., 1:].mean(-1), x[..., 2]], -1), unknown=False),
    Case("interpolate-area", lambda x: F.interpolate(x, [2, 4], mode="area"), [IMAGE], lambda x: adaptive(x, [2, 4], np.mean), unknown=False),
    Case("interpolate-nhwc", lambda x: F.interpolate(x, [4, 8], data_format="NHWC"), [real(1, 2, 4, 3)], lambda x: x.repeat(2, 1).repeat(2, 2), unknown=False),
    Case("grid_sample", F.grid_sample, [real(1, 2, 3, 3), np.array([[[[-1.0, -1.0], [0.5, 0.0]]]])],
         lambda x, g: np.stack([x[:, :, 0, 0], x[:, :, 1, 1:].mean(-1)], -1)[:, :, None], gradient=False),
    Case("affine_grid", lambda t: F.affine_grid(t, [2, 1, 3, 2]), [real(2, 2, 3)], lambda t: np.einsum(
        "nij,hwj->nhwi", t, np.stack([*np.meshgrid([-1, 1], [-1, 0, 1]), np.ones((3, 2))], -1)), unknown=False),
    Case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), [IMAGE], lambda x: x.reshape(2, 1, 2, 2, 5, 6).transpose(0, 1, 4, 2, 5, 3).reshape(2, 1, 10, 12)),
    Case("pixel_unshuffle", lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), [real(1, 8, 2, 3)], lambda x: x, unknown=False),
    Case("channel_shuffle", lambda x: F.channel_shuffle(x, 2), [IMAGE], lambda x: x[:, [0, 2, 1, 3]], unknown=False),
    Case("temporal_shift", lambda x: F.temporal_shift(x, 2, 0.25), [real(4, 4, 1, 2)], lambda x: np.concatenate(
        [np.stack([x[0, :1] * 0, x[0, :1], x[2, :1] * 0, x[2, :1]]), np.stack([x[1, 1:2], x[1, 1:2] * 0, x[3, 1:2], x[3, 1:2] * 0]), x[:, 2:]], 1), unknown=False),
    Case("attention", F.scaled_dot_product_attention, [real(2, 3, 2, 4), real(2, 5, 2, 4), real(2, 5, 2, 4)], lambda q, k, v: attention(q, k, v, 0), unknown=False),
    Case("attention-causal", lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), [real(1, 3, 2, 4)],
         lambda q: attention(q, q, q, np.triu(np.full((3, 3), -np.inf), 1)), unknown=False),
    Case("attention-mask", lambda q, m: F.scaled_dot_product_attention(q, q, q, m), [real(1, 3, 2, 4), np.tril(np.ones((3, 3))) > 0],
         lambda q, m: attention(q, q, q, np.where(m, 0, -np.inf)), unknown=False),
]  # fmt: skip
PLAIN = [
    Case("one_hot", lambda i: F.one_hot(i, 4), [LABEL], lambda i: np.eye(4)[i]),
    Case("one_hot-own", lambda i: F.one_hot(i, -1), [LABEL], lambda i: np.eye(4)[i]),
    Case("sequence_mask", lambda n: F.sequence_mask(n, 4), [LABEL], lambda n: (np.arange(4) < n[:, None]).astype(np.int64)),
    Case("sequence_mask-own", lambda n: F.sequence_mask(n, dtype="bool"), [LABEL], lambda n: np.arange(3) < n[:, None]),
    Case("max_pool2d-mask", lambda x: F.max_pool2d(x, 2, return_mask=True), [np.arange(32.0).reshape(1, 2, 4, 4)],
         lambda x: (x[:, :, 1::2, 1::2], np.tile(np.array([[5, 7], [13, 15]], np.int32), (1, 2, 1, 1)))),
    Case("adaptive_max-mask", lambda x: F.adaptive_max_pool2d(x, [2, 2], True), [np.arange(18.0).reshape(1, 2, 3, 3)],
         lambda x: (x[:, :, 1:, 1:], np.tile(np.array([[4, 5], [7, 8]], np.int32), (1, 2, 1, 1))), unknown=False),
    Case("max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_mask=True), 2), [np.arange(16.0).reshape(1, 1, 4, 4)],
         lambda x: x * np.isin(x, [5, 7, 13, 15]), unknown=False),
]  # fmt: skip


def cosine(x, y):
    return (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)


@pytest.mark.parametrize("case", CASES + PLAIN, ids=repr)
def test_values(case):
    check_values(case)


@pytest.mark.parametrize("case", [c for c in CASES + PLAIN if c.unknown], ids=repr)
def test_values_with_unknown_dimensions(case):
    check_values(case, unknown=True)


@pytest.mark.parametrize("case", [c for c in CASES if c.gradient], ids=repr)
def test_gradients(case):
    check_derivatives(case)


def run(found, **feeds):
    return paddle.Executor().run(feed=feeds, fetch_list=[found])[0]


@pytest.mark.parametrize(
    "make, kept", [(lambda x: F.dropout(x, 0.3), 1 / 0.7), (lambda x: F.dropout(x, 0.3, mode="downscale_in_infer"), 1.0)]
)
def test_dropout_zeroes_some_elements_and_scales_the_rest(make, kept):
    found = run(make(static.data("x", [100, 100])), x=np.ones((100, 100), np.float32))
    values = np.unique(found.round(5))
    np.testing.assert_allclose(values, [0, kept], rtol=1e-4)
    assert abs((found == 0).mean() - 0.3) < 0.02


def test_dropout_in_inference():
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(run(F.dropout(static.data("x", [2, 3]), 0.3, training=False), x=x), x)
    np.testing.assert_allclose(
        run(F.dropout(static.data("x", [2, 3]), 0.3, training=False, mode="downscale_in_infer"), x=x), 0.7 * x, rtol=1e-6
    )


def test_dropout2d_drops_whole_channels():
    found = run(F.dropout2d(static.data("x", [8, 50, 3, 3]), 0.5), x=np.ones((8, 50, 3, 3), np.float32))
    sums = found.sum((2, 3))
    assert set(np.unique(sums)) == {0.0, 18.0} and abs((sums == 0).mean() - 0.5) < 0.1


def test_alpha_dropout_keeps_mean_and_deviation():
    x = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    found = run(F.alpha_dropout(static.data("x", [200, 200]), 0.3), x=x)
    assert abs(found.mean()) < 0.03 and abs(found.std() - 1) < 0.03


def test_gumbel_softmax_draws_one_class_and_keeps_the_soft_gradient():
    x = static.data("x", [300, 3])
    x.stop_gradient = False
    y = F.gumbel_softmax(x, hard=True)
    (g,) = static.gradients(y[:, 0], x)
    feed = {"x": np.tile(np.log(np.array([0.1, 0.2, 0.7], np.float32)), (300, 1))}
    found, slope = paddle.Executor().run(feed=feed, fetch_list=[y, g])
    np.testing.assert_allclose(np.sort(found, 1), np.tile([0, 0, 1], (300, 1)), atol=1e-6)
    assert abs(found[:, 2].mean() - 0.7) < 0.1 and np.abs(slope).max() > 0


def test_batch_norm_in_training_normalises_by_the_batch():
    x = static.data("x", [2, 4, 5, 6])
    y = F.batch_norm(x, static.data("m", [4]), static.data("v", [4]), training=True)
    feeds = {"x": IMAGE.astype(np.float32), "m": np.zeros(4, np.float32), "v": np.ones(4, np.float32)}
    np.testing.assert_allclose(run(y, **feeds), normalised(IMAGE, (0, 2, 3)), atol=1e-4)


def test_binary_cross_entropy_is_finite_at_certainty():
    p, t = static.data("p", [2]), static.data("t", [2])
    p.stop_gradient = False
    loss = F.binary_cross_entropy(p, t, reduction="none")
    (g,) = static.gradients(loss, p)
    feeds = {"p": np.array([0, 1], np.float32), "t": np.array([1, 1], np.float32)}
    found, slope = paddle.Executor().run(feed=feeds, fetch_list=[loss, g])
    np.testing.assert_allclose(found, [100, 0])
    assert np.isfinite(slope).all()


def test_errors_name_the_function():
    x, image = static.data("x", [3, 4]), static.data("i", [1, 3, 4, 4])
    for call in (
        lambda: F.mse_loss(x, x, "other"),
        lambda: F.dropout(x, 1.5),
        lambda: F.interpolate(image),
        lambda: F.interpolate(image, [2, 2], mode="linear"),
        lambda: F.conv2d(image, static.data("w", [1, 3, 2, 2]), padding=[1, 2, 3]),
        lambda: F.pad(x, [1], "constant"),
        lambda: F.cross_entropy(x, static.data("l", [3, 1, 1], "int64")),
        lambda: F.max_pool2d(image, 2, return_mask=True, data_format="NHWC"),
        lambda: F.grid_sample(image, static.data("g", [1, 2, 2, 2]), mode="cubic"),
        lambda: F.celu(x, 0),
    ):
        with pytest.raises(ArgumentError):
            call()
    with pytest.raises(NotOffered):
        F.avg_pool2d(image, 3, ceil_mode=True, divisor_override=2)


SCORES = np.random.RandomState(0).randn(4, 3).astype(np.float32)
WEIGHTS = np.array([1.0, 2.0, 3.0], np.float32)


def _of_classes():
    x, weight = paddle.to_tensor(SCORES), paddle.to_tensor(WEIGHTS)
    log, p = F.log_softmax(x), F.softmax(x)
    return {
        "cross_entropy": lambda y: F.cross_entropy(x, y),
        "smoothed": lambda y: F.cross_entropy(x, y, label_smoothing=0.1),
        "smoothed, weighted": lambda y: F.cross_entropy(x, y, weight=weight, label_smoothing=0.1),
        "smoothed column": lambda y: F.cross_entropy(x, y.reshape([4, 1]), label_smoothing=0.1),
        "weighted": lambda y: F.cross_entropy(x, y, weight=weight),
        "ignored": lambda y: F.cross_entropy(x, y, ignore_index=1),
        "of probabilities": lambda y: F.cross_entropy(p, y, use_softmax=False),
        "softmax_with_cross_entropy": lambda y: F.softmax_with_cross_entropy(x, y.reshape([4, 1])),
        "nll_loss": lambda y: F.nll_loss(log, y),
        "nll_loss, weighted": lambda y: F.nll_loss(log, y, weight=weight),
        "dice_loss": lambda y: F.dice_loss(p, y.reshape([4, 1])),
        "one_hot": lambda y: F.one_hot(y, 3),
        "multi_margin_loss": lambda y: F.multi_margin_loss(x, y),
    }


@pytest.mark.parametrize("name", list(_of_classes()))
@pytest.mark.parametrize("dtype", ["int32", "int16", "int8", "uint8"])
def test_classes_of_every_integer_type_give_one_result(name, dtype):
    """onnxruntime has no OneHot of int32 beside an int64 depth, no Gather by int16, and -100 is no uint8"""
    classes, function = np.array([0, 1, 2, 1]), _of_classes()[name]
    wanted = function(paddle.to_tensor(classes)).numpy()
    np.testing.assert_array_equal(function(paddle.to_tensor(classes.astype(dtype))).numpy(), wanted)
