"""paddle.nn.functional, one module per family.

Tests: tests/nn/test_functional.py.
"""

# Editors follow these imports from the stub to a function's source; each family lists its own.
# ruff: noqa: F405

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.nn.functional.activation import *  # noqa: F403
from onnxgrad.nn.functional.attention import *  # noqa: F403
from onnxgrad.nn.functional.classification import *  # noqa: F403
from onnxgrad.nn.functional.common import *  # noqa: F403
from onnxgrad.nn.functional.conv import *  # noqa: F403
from onnxgrad.nn.functional.inplace import *  # noqa: F403
from onnxgrad.nn.functional.loss import *  # noqa: F403
from onnxgrad.nn.functional.norm import *  # noqa: F403
from onnxgrad.nn.functional.pooling import *  # noqa: F403
from onnxgrad.nn.functional.vision import *  # noqa: F403
from onnxgrad.tensor.creation import diag_embed

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "channel_shuffle", "conv1d", "conv1d_transpose",
    "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "cosine_embedding_loss", "cosine_similarity", "cross_entropy",
    "ctc_loss", "diag_embed", "dice_loss", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "elu_", "embedding",
    "feature_alpha_dropout", "flash_attention", "fold", "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm",
    "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "hinge_embedding_loss",
    "instance_norm", "interpolate", "kl_div", "l1_loss", "label_smooth", "layer_norm", "leaky_relu", "leaky_relu_", "linear",
    "local_response_norm", "log_loss", "log_sigmoid", "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d",
    "margin_ranking_loss", "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d", "maxout",
    "mish", "mse_loss", "multi_label_margin_loss", "multi_label_soft_margin_loss", "multi_margin_loss", "nll_loss", "normalize",
    "npair_loss", "one_hot", "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss",
    "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu", "scaled_dot_product_attention", "selu", "sequence_mask", "sigmoid",
    "sigmoid_", "sigmoid_focal_loss", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmax_",
    "softmax_with_cross_entropy", "softplus", "softshrink", "softsign", "square_error_cost", "swiglu", "swish", "tanh", "tanh_",
    "tanhshrink", "temporal_shift", "thresholded_relu", "thresholded_relu_", "triplet_margin_loss",
    "triplet_margin_with_distance_loss", "unfold", "upsample", "zeropad2d",
]  # fmt: skip


globals().update(absence_hooks(__name__))
