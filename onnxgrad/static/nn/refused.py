"""Layers of Paddle that are not offered, with what to do instead."""

from __future__ import annotations

from onnxgrad.internal.refusals import refused

__all__ = [
    "nce", "py_func", "sequence_conv", "sequence_expand", "sequence_first_step", "sequence_last_step", "sequence_pool",
    "sequence_softmax", "sparse_embedding", "static_pylayer",
]  # fmt: skip

_LOD = "ONNX tensors have no levels of detail (LoD)"

nce = refused("static.nn.nce", "its negative sampling runs on the host", "Use functional.cross_entropy on all classes.")
py_func = refused(
    "static.py_func",
    "a program is run by stock onnxruntime, which cannot call Python",
    "Write the function with tensor functions, or fetch its input and feed its result.",
)
static_pylayer = refused(
    "static.nn.static_pylayer",
    "the backward pass comes from the rule of each operator",
    "Register a rule for an operator or function of your own with @onnxgrad.gradient.",
)
sparse_embedding = refused("static.nn.sparse_embedding", "it needs a parameter server", "Use static.nn.embedding.")
sequence_conv = refused("static.nn.sequence_conv", _LOD, "Pad to [N, T, C] and use functional.conv1d.")
sequence_expand = refused("static.nn.sequence_expand", _LOD, "Use paddle.gather with the row of each copy.")
sequence_first_step = refused("static.nn.sequence_first_step", _LOD, "Pad to [N, T, C] and take x[:, 0].")
sequence_last_step = refused("static.nn.sequence_last_step", _LOD, "Pad to [N, T, C] and gather the last row of each sequence.")
sequence_pool = refused("static.nn.sequence_pool", _LOD, "Pad to [N, T, C] and reduce over axis 1 under a mask.")
sequence_softmax = refused("static.nn.sequence_softmax", _LOD, "Pad, add a large negative number under a mask, and use softmax.")
