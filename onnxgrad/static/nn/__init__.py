"""Layers with parameters, branches and loops, for static graphs."""

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.static.nn.common import bilinear_tensor_product, embedding, fc, prelu, row_conv
from onnxgrad.static.nn.control_flow import case, cond, switch_case, while_loop
from onnxgrad.static.nn.conv import conv2d, conv2d_transpose, conv3d, conv3d_transpose, deform_conv2d
from onnxgrad.static.nn.norm import batch_norm, data_norm, group_norm, instance_norm, layer_norm, spectral_norm
from onnxgrad.static.nn.refused import (
    nce,
    py_func,
    sequence_conv,
    sequence_expand,
    sequence_first_step,
    sequence_last_step,
    sequence_pool,
    sequence_softmax,
    sparse_embedding,
    static_pylayer,
)

__all__ = [
    "batch_norm", "bilinear_tensor_product", "case", "cond", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose",
    "data_norm", "deform_conv2d", "embedding", "fc", "group_norm", "instance_norm", "layer_norm", "nce", "prelu", "py_func",
    "row_conv", "sequence_conv", "sequence_expand", "sequence_first_step", "sequence_last_step", "sequence_pool",
    "sequence_softmax", "sparse_embedding", "spectral_norm", "static_pylayer", "switch_case", "while_loop",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


globals().update(absence_hooks(__name__))
