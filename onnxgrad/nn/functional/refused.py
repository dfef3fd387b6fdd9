"""Functions of paddle.nn.functional that ONNX cannot express or that name one vendor's kernel, each with the reason."""

from __future__ import annotations

__all__ = ["FUNCTIONAL"]

_TRELLIS = "it sums over all alignments of two sequences, for which no ONNX operator exists; compute the loss outside"
_KERNEL = "it names one vendor's kernel; use scaled_dot_product_attention"

FUNCTIONAL: dict[str, str] = {
    "rnnt_loss": _TRELLIS,
    **dict.fromkeys(
        ("flash_attn_qkvpacked", "flash_attn_varlen_qkvpacked", "flash_attn_unpadded", "flashmask_attention", "sparse_attention"),
        _KERNEL,
    ),
    **dict.fromkeys(
        ("fractional_max_pool2d", "fractional_max_pool3d"), "its windows are sampled anew in every run; use adaptive_max_pool"
    ),
    "adaptive_log_softmax_with_loss": "each sample takes another branch; use cross_entropy, or a hierarchy of your own",
    "class_center_sample": "the number of sampled classes depends on the data and the devices",
    "gather_tree": "it walks back through beams; decode outside the program",
    "hsigmoid_loss": "each sample takes another path through a tree; use cross_entropy",
    "margin_cross_entropy": "it spreads classes over devices; use cross_entropy on logits with a margin",
}
