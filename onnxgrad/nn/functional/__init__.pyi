"""paddle.nn.functional: each function gives a tensor of the class that it takes.

Written by `scripts/write_tensor_stubs` from the functions' own signatures; do not edit.

Tests: tests/typing/test_typing.py.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar, overload

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.nn.types import (
    DropoutMode,
    Layout,
    Layout1D,
    Layout2D,
    Layout3D,
    Numbers,
    Padding,
    PadMode,
    Reduction,
    ResizeMode,
    Sizes,
    SumOrMean,
)

T = TypeVar("T", bound=Variable)

def adaptive_avg_pool1d(x: T, output_size: int | Sequence[int], name: str | None = None) -> T: ...
def adaptive_avg_pool2d(
    x: T, output_size: int | Sequence[int | None] | None, data_format: Layout2D = "NCHW", name: str | None = None
) -> T: ...
def adaptive_avg_pool3d(
    x: T, output_size: int | Sequence[int | None] | None, data_format: Layout3D = "NCDHW", name: str | None = None
) -> T: ...
@overload
def adaptive_max_pool1d(
    x: T, output_size: int | Sequence[int], return_mask: Literal[False] = False, name: str | None = None
) -> T: ...
@overload
def adaptive_max_pool1d(
    x: T, output_size: int | Sequence[int], return_mask: Literal[True], name: str | None = None
) -> tuple[T, T]: ...
@overload
def adaptive_max_pool1d(
    x: T, output_size: int | Sequence[int], return_mask: bool = False, name: str | None = None
) -> T | tuple[T, T]: ...
@overload
def adaptive_max_pool2d(
    x: T, output_size: int | Sequence[int | None] | None, return_mask: Literal[False] = False, name: str | None = None
) -> T: ...
@overload
def adaptive_max_pool2d(
    x: T, output_size: int | Sequence[int | None] | None, return_mask: Literal[True], name: str | None = None
) -> tuple[T, T]: ...
@overload
def adaptive_max_pool2d(
    x: T, output_size: int | Sequence[int | None] | None, return_mask: bool = False, name: str | None = None
) -> T | tuple[T, T]: ...
@overload
def adaptive_max_pool3d(
    x: T, output_size: int | Sequence[int | None] | None, return_mask: Literal[False] = False, name: str | None = None
) -> T: ...
@overload
def adaptive_max_pool3d(
    x: T, output_size: int | Sequence[int | None] | None, return_mask: Literal[True], name: str | None = None
) -> tuple[T, T]: ...
@overload
def adaptive_max_pool3d(
    x: T, output_size: int | Sequence[int | None] | None, return_mask: bool = False, name: str | None = None
) -> T | tuple[T, T]: ...
def affine_grid(theta: T, out_shape: Sizes, align_corners: bool = True, name: str | None = None) -> T: ...
def alpha_dropout(x: T, p: float = 0.5, training: bool = True, name: str | None = None) -> T: ...
def avg_pool1d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> T: ...
def avg_pool2d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> T: ...
def avg_pool3d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> T: ...
def batch_norm(
    x: T,
    running_mean: Variable,
    running_var: Variable,
    weight: Variable | None = None,
    bias: Variable | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: Layout = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> T: ...
def bilinear(x1: T, x2: T, weight: Variable, bias: Variable | None = None, name: str | None = None) -> T: ...
def binary_cross_entropy(
    input: T, label: T, weight: Variable | None = None, reduction: Reduction = "mean", name: str | None = None
) -> T: ...
def binary_cross_entropy_with_logits(
    logit: T,
    label: T,
    weight: Variable | None = None,
    reduction: Reduction = "mean",
    pos_weight: Variable | None = None,
    name: str | None = None,
) -> T: ...
def celu(x: T, alpha: float = 1.0, name: str | None = None) -> T: ...
def channel_shuffle(x: T, groups: int, data_format: Layout2D = "NCHW", name: str | None = None) -> T: ...
def conv1d(
    x: T,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    data_format: Layout1D = "NCL",
    name: str | None = None,
) -> T: ...
def conv1d_transpose(
    x: T,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    output_size: Numbers | None = None,
    data_format: Layout1D = "NCL",
    name: str | None = None,
) -> T: ...
def conv2d(
    x: T,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> T: ...
def conv2d_transpose(
    x: T,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    output_size: Numbers | None = None,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> T: ...
def conv3d(
    x: T,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> T: ...
def conv3d_transpose(
    x: T,
    weight: Variable,
    bias: Variable | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
    output_size: Numbers | None = None,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> T: ...
def cosine_embedding_loss(
    input1: T, input2: T, label: T, margin: float = 0, reduction: Reduction = "mean", name: str | None = None
) -> T: ...
def cosine_similarity(x1: T, x2: T, axis: int = 1, eps: float = 1e-08) -> T: ...
def cross_entropy(
    input: T,
    label: T,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> T: ...
def ctc_loss(
    log_probs: T,
    labels: T,
    input_lengths: T,
    label_lengths: T,
    blank: int = 0,
    reduction: Reduction = "mean",
    norm_by_times: bool = False,
    zero_infinity: bool = False,
) -> T: ...
def diag_embed(input: T, offset: int = 0, dim1: int = -2, dim2: int = -1) -> T: ...
def dice_loss(input: T, label: T, epsilon: float = 1e-05, name: str | None = None) -> T: ...
def dropout(
    x: T,
    p: float | Variable = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    inplace: bool = False,
    mode: DropoutMode = "upscale_in_train",
    name: str | None = None,
) -> T: ...
def dropout1d(input: T, p: float = 0.5, training: bool = True, inplace: bool = False) -> T: ...
def dropout2d(x: T, p: float = 0.5, training: bool = True, data_format: Layout2D = "NCHW", name: str | None = None) -> T: ...
def dropout3d(x: T, p: float = 0.5, training: bool = True, data_format: Layout3D = "NCDHW", name: str | None = None) -> T: ...
def elu(x: T, alpha: float = 1.0, name: str | None = None) -> T: ...
def elu_(x: T, alpha: float = 1.0, name: str | None = None) -> T: ...
def embedding(
    x: T,
    weight: Variable,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    sparse: bool = False,
    scale_grad_by_freq: bool = False,
    name: str | None = None,
) -> T: ...
def feature_alpha_dropout(x: T, p: float = 0.5, training: bool = True, name: str | None = None) -> T: ...
def flash_attention(
    query: T,
    key: T,
    value: T,
    dropout: float = 0.0,
    causal: bool = False,
    return_softmax: bool = False,
    *,
    training: bool = True,
    name: str | None = None,
) -> tuple[T, None]: ...
def fold(
    x: T,
    output_sizes: Numbers,
    kernel_sizes: Numbers,
    strides: Numbers = 1,
    paddings: Numbers = 0,
    dilations: Numbers = 1,
    name: str | None = None,
) -> T: ...
def gaussian_nll_loss(
    input: T,
    label: T,
    variance: T,
    full: bool = False,
    epsilon: float = 1e-06,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> T: ...
def gelu(x: T, approximate: bool = False, name: str | None = None) -> T: ...
def glu(x: T, axis: int = -1, name: str | None = None) -> T: ...
def grid_sample(
    x: T,
    grid: T,
    mode: Literal["bilinear", "nearest"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> T: ...
def group_norm(
    x: T,
    num_groups: int,
    epsilon: float = 1e-05,
    weight: Variable | None = None,
    bias: Variable | None = None,
    data_format: Layout = "NCHW",
    name: str | None = None,
) -> T: ...
def gumbel_softmax(x: T, temperature: float = 1.0, hard: bool = False, axis: int = -1, name: str | None = None) -> T: ...
def hardshrink(x: T, threshold: float = 0.5, name: str | None = None) -> T: ...
def hardsigmoid(x: T, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None) -> T: ...
def hardswish(x: T, name: str | None = None) -> T: ...
def hardtanh(x: T, min: float = -1.0, max: float = 1.0, name: str | None = None) -> T: ...
def hardtanh_(x: T, min: float = -1.0, max: float = 1.0, name: str | None = None) -> T: ...
def hinge_embedding_loss(input: T, label: T, margin: float = 1.0, reduction: Reduction = "mean", name: str | None = None) -> T: ...
def instance_norm(
    x: T,
    running_mean: Variable | None = None,
    running_var: Variable | None = None,
    weight: Variable | None = None,
    bias: Variable | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: Layout = "NCHW",
    name: str | None = None,
) -> T: ...
def interpolate(
    x: T,
    size: Sizes | None = None,
    scale_factor: float | Variable | Sequence[float] | None = None,
    mode: ResizeMode = "nearest",
    align_corners: bool = False,
    align_mode: Literal[0, 1] = 0,
    data_format: Layout | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    name: str | None = None,
) -> T: ...
def kl_div(input: T, label: T, reduction: SumOrMean = "mean", log_target: bool = False, name: str | None = None) -> T: ...
def l1_loss(input: T, label: T, reduction: Reduction = "mean", name: str | None = None) -> T: ...
def label_smooth(label: T, prior_dist: Variable | None = None, epsilon: float = 0.1, name: str | None = None) -> T: ...
def layer_norm(
    x: T,
    normalized_shape: int | Sequence[int],
    weight: Variable | None = None,
    bias: Variable | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> T: ...
def leaky_relu(x: T, negative_slope: float = 0.01, name: str | None = None) -> T: ...
def leaky_relu_(x: T, negative_slope: float = 0.01, name: str | None = None) -> T: ...
def linear(x: T, weight: Variable, bias: Variable | None = None, name: str | None = None) -> T: ...
def local_response_norm(
    x: T,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: Layout = "NCHW",
    name: str | None = None,
) -> T: ...
def log_loss(input: T, label: T, epsilon: float = 0.0001, name: str | None = None) -> T: ...
def log_sigmoid(x: T, name: str | None = None) -> T: ...
def log_softmax(x: T, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None) -> T: ...
def logsigmoid(x: T, name: str | None = None) -> T: ...
def lp_pool1d(
    x: T,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    data_format: Layout1D = "NCL",
    name: str | None = None,
) -> T: ...
def lp_pool2d(
    x: T,
    norm_type: float,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> T: ...
def margin_ranking_loss(
    input: T, other: T, label: T, margin: float = 0.0, reduction: Reduction = "mean", name: str | None = None
) -> T: ...
@overload
def max_pool1d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: Literal[False] = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> T: ...
@overload
def max_pool1d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    *,
    return_mask: Literal[True],
    ceil_mode: bool = False,
    name: str | None = None,
) -> tuple[T, T]: ...
@overload
def max_pool1d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> T | tuple[T, T]: ...
@overload
def max_pool2d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: Literal[False] = False,
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> T: ...
@overload
def max_pool2d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    *,
    return_mask: Literal[True],
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> tuple[T, T]: ...
@overload
def max_pool2d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: Layout2D = "NCHW",
    name: str | None = None,
) -> T | tuple[T, T]: ...
@overload
def max_pool3d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: Literal[False] = False,
    ceil_mode: bool = False,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> T: ...
@overload
def max_pool3d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    *,
    return_mask: Literal[True],
    ceil_mode: bool = False,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> tuple[T, T]: ...
@overload
def max_pool3d(
    x: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: Layout3D = "NCDHW",
    name: str | None = None,
) -> T | tuple[T, T]: ...
def max_unpool1d(
    x: T,
    indices: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    data_format: Layout1D = "NCL",
    output_size: Sequence[int] | None = None,
    name: str | None = None,
) -> T: ...
def max_unpool2d(
    x: T,
    indices: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    data_format: Layout2D = "NCHW",
    output_size: Sequence[int] | None = None,
    name: str | None = None,
) -> T: ...
def max_unpool3d(
    x: T,
    indices: T,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    data_format: Layout3D = "NCDHW",
    output_size: Sequence[int] | None = None,
    name: str | None = None,
) -> T: ...
def maxout(x: T, groups: int, axis: int = 1, name: str | None = None) -> T: ...
def mish(x: T, name: str | None = None) -> T: ...
def mse_loss(input: T, label: T, reduction: Reduction = "mean", name: str | None = None) -> T: ...
def multi_label_margin_loss(input: T, label: T, reduction: Reduction = "mean", name: str | None = None) -> T: ...
def multi_label_soft_margin_loss(
    input: T, label: T, weight: Variable | None = None, reduction: Reduction = "mean", name: str | None = None
) -> T: ...
def multi_margin_loss(
    input: T,
    label: T,
    p: int = 1,
    margin: float = 1.0,
    weight: Variable | None = None,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> T: ...
def nll_loss(
    input: T,
    label: T,
    weight: Variable | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> T: ...
def normalize(
    x: T, p: float = 2, axis: int = 1, epsilon: float = 1e-12, out: Variable | None = None, name: str | None = None
) -> T: ...
def npair_loss(anchor: T, positive: T, labels: T, l2_reg: float = 0.002) -> T: ...
def one_hot(x: T, num_classes: int | Variable = -1, name: str | None = None) -> T: ...
def pad(
    x: T,
    pad: Sizes,
    mode: PadMode = "constant",
    value: float = 0.0,
    data_format: Layout | None = None,
    pad_from_left_axis: bool = True,
    name: str | None = None,
) -> T: ...
def pairwise_distance(x: T, y: T, p: float = 2.0, epsilon: float = 1e-06, keepdim: bool = False, name: str | None = None) -> T: ...
def pdist(x: T, p: float = 2.0, name: str | None = None) -> T: ...
def pixel_shuffle(x: T, upscale_factor: int, data_format: Layout2D = "NCHW", name: str | None = None) -> T: ...
def pixel_unshuffle(x: T, downscale_factor: int, data_format: Layout2D = "NCHW", name: str | None = None) -> T: ...
def poisson_nll_loss(
    input: T,
    label: T,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-08,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> T: ...
def prelu(x: T, weight: Variable, data_format: Layout = "NCHW", name: str | None = None) -> T: ...
def relu(x: T, name: str | None = None) -> T: ...
def relu6(x: T, name: str | None = None) -> T: ...
def relu_(x: T, name: str | None = None) -> T: ...
def rms_norm(
    input: T, normalized_shape: int | Sequence[int], weight: Variable | None = None, eps: float = 1e-05, name: str | None = None
) -> T: ...
def rrelu(x: T, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = True, name: str | None = None) -> T: ...
def scaled_dot_product_attention(
    query: T,
    key: T,
    value: T,
    attn_mask: Variable | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    backend: str | None = None,
    scale: float | None = None,
    enable_gqa: bool = True,
    name: str | None = None,
) -> T: ...
def selu(x: T, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772, name: str | None = None) -> T: ...
def sequence_mask(x: T, maxlen: int | Variable | None = None, dtype: DTypeLike = "int64", name: str | None = None) -> T: ...
def sigmoid(x: T, name: str | None = None, out: Variable | None = None) -> T: ...
def sigmoid_(x: T, name: str | None = None) -> T: ...
def sigmoid_focal_loss(
    logit: T,
    label: T,
    normalizer: Variable | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: Reduction = "sum",
    name: str | None = None,
) -> T: ...
def silu(x: T, inplace: bool = False, name: str | None = None) -> T: ...
def smooth_l1_loss(
    input: T, label: T, reduction: Reduction = "mean", delta: float = 1.0, is_huber: bool = True, name: str | None = None
) -> T: ...
def soft_margin_loss(input: T, label: T, reduction: Reduction = "mean", name: str | None = None) -> T: ...
def softmax(x: T, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None, out: Variable | None = None) -> T: ...
def softmax_(x: T, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None) -> T: ...
@overload
def softmax_with_cross_entropy(
    logits: T,
    label: T,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: Literal[False] = False,
    axis: int = -1,
) -> T: ...
@overload
def softmax_with_cross_entropy(
    logits: T,
    label: T,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    *,
    return_softmax: Literal[True],
    axis: int = -1,
) -> tuple[T, T]: ...
@overload
def softmax_with_cross_entropy(
    logits: T,
    label: T,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> T | tuple[T, T]: ...
def softplus(x: T, beta: float = 1, threshold: float = 20, name: str | None = None) -> T: ...
def softshrink(x: T, threshold: float = 0.5, name: str | None = None) -> T: ...
def softsign(x: T, name: str | None = None) -> T: ...
def square_error_cost(input: T, label: T) -> T: ...
def swiglu(x: T, y: T | None = None, name: str | None = None) -> T: ...
def swish(x: T, name: str | None = None) -> T: ...
def tanh(x: T, name: str | None = None, out: Variable | None = None) -> T: ...
def tanh_(x: T, name: str | None = None) -> T: ...
def tanhshrink(x: T, name: str | None = None) -> T: ...
def temporal_shift(x: T, seg_num: int, shift_ratio: float = 0.25, name: str | None = None, data_format: Layout2D = "NCHW") -> T: ...
def thresholded_relu(x: T, threshold: float = 1.0, value: float = 0.0, name: str | None = None) -> T: ...
def thresholded_relu_(x: T, threshold: float = 1.0, value: float = 0.0, name: str | None = None) -> T: ...
def triplet_margin_loss(
    input: T,
    positive: T,
    negative: T,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-06,
    swap: bool = False,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> T: ...
def triplet_margin_with_distance_loss(
    input: T,
    positive: T,
    negative: T,
    distance_function: Callable[[Variable, Variable], Variable] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: Reduction = "mean",
    name: str | None = None,
) -> T: ...
def unfold(
    x: T, kernel_sizes: Numbers, strides: Numbers = 1, paddings: Numbers = 0, dilations: Numbers = 1, name: str | None = None
) -> T: ...
def upsample(
    x: T,
    size: Sizes | None = None,
    scale_factor: float | Variable | Sequence[float] | None = None,
    mode: ResizeMode = "nearest",
    align_corners: bool = False,
    align_mode: Literal[0, 1] = 0,
    data_format: Layout | None = None,
    name: str | None = None,
) -> T: ...
def zeropad2d(x: T, padding: Sizes, data_format: Layout2D = "NCHW", name: str | None = None) -> T: ...
