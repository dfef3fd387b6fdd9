"""Layers with parameters, branches and loops, for static graphs."""

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.static.nn.common import bilinear_tensor_product, embedding, fc, prelu, row_conv
from onnxgrad.static.nn.control_flow import case, cond, switch_case, while_loop
from onnxgrad.static.nn.conv import conv2d, conv2d_transpose, conv3d, conv3d_transpose, deform_conv2d
from onnxgrad.static.nn.norm import batch_norm, data_norm, group_norm, instance_norm, layer_norm, spectral_norm

__all__ = [
    "batch_norm", "bilinear_tensor_product", "case", "cond", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose",
    "data_norm", "deform_conv2d", "embedding", "fc", "group_norm", "instance_norm", "layer_norm", "prelu", "row_conv",
    "spectral_norm", "switch_case", "while_loop",
]  # fmt: skip


globals().update(absence_hooks(__name__))
