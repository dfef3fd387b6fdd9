"""Forms of a training graph that onnxruntime's CPU provider runs faster. Measured with scripts/benchmark.

Tests: tests/core/compile/test_corpus.py.
"""

from __future__ import annotations

from onnxgrad.core.graph.contract import GraphPass
from onnxgrad.core.providers.layouts.batch_norm import BATCH_NORM
from onnxgrad.core.providers.layouts.chwn import CHWN
from onnxgrad.core.providers.layouts.filter_gradient import FILTER_GRADIENT
from onnxgrad.core.providers.layouts.hwnc import HWNC
from onnxgrad.core.providers.layouts.im2col import IM2COL
from onnxgrad.core.providers.losses.embedding_gradients import EMBEDDING_GRADIENTS
from onnxgrad.core.providers.losses.rows import CROSS_ENTROPY_ROWS, SCATTERED_ROWS
from onnxgrad.core.providers.losses.vocabulary import VOCABULARY
from onnxgrad.core.providers.products.attention import ATTENTION
from onnxgrad.core.providers.products.elementwise import (
    CLIP_MASK,
    EQUAL_RANKS,
    REDUCE_AS_MATMUL,
    RELU_MASK_AS_HARDSIGMOID,
    SOFTMAX_OVER_CHANNELS,
)
from onnxgrad.core.providers.products.fold_alpha import FOLD_ALPHA
from onnxgrad.core.providers.products.head_transposes import HEAD_TRANSPOSES
from onnxgrad.core.providers.products.hoist_transposes import HOIST_TRANSPOSES
from onnxgrad.core.providers.products.small_m import SWAP_GEMM_OPERANDS

__all__ = ["PASSES"]

PASSES: list[GraphPass] = [
    # The layouts first: the forms after them are written for what they leave.
    HWNC,
    CHWN,
    BATCH_NORM,
    ATTENTION,
    HEAD_TRANSPOSES,
    VOCABULARY,
    CLIP_MASK,
    RELU_MASK_AS_HARDSIGMOID,
    FILTER_GRADIENT,
    IM2COL,
    SOFTMAX_OVER_CHANNELS,
    REDUCE_AS_MATMUL,
    SCATTERED_ROWS,
    CROSS_ENTROPY_ROWS,
    EQUAL_RANKS,
    EMBEDDING_GRADIENTS,
    FOLD_ALPHA,
    SWAP_GEMM_OPERANDS,
    HOIST_TRANSPOSES,
]
