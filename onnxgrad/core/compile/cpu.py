"""Forms of a training graph that onnxruntime's CPU provider runs faster. Measured with scripts/benchmark."""

from __future__ import annotations

from onnxgrad.core.compile.attention import attention
from onnxgrad.core.compile.batch_norm import lean_batch_norm
from onnxgrad.core.compile.chwn import use_chwn_layout
from onnxgrad.core.compile.cpu_elementwise import ELEMENTWISE, inside, normalised, step, sum_of_rows, with_equal_ranks
from onnxgrad.core.compile.cpu_rows import cross_entropy, scatter
from onnxgrad.core.compile.cpu_scales import fold_scales
from onnxgrad.core.compile.few_rows import put_weights_first
from onnxgrad.core.compile.filter_gradient import filter_gradient
from onnxgrad.core.compile.graph import Graph
from onnxgrad.core.compile.heads import turn_in_products
from onnxgrad.core.compile.hwnc import use_hwnc_layout
from onnxgrad.core.compile.loop_weights import turn_loop_weights
from onnxgrad.core.compile.rewriting import Form, rewrite_operators
from onnxgrad.core.compile.small_maps import convolution, transposed_convolution
from onnxgrad.core.compile.table_gradients import lean_table_gradients
from onnxgrad.core.compile.vocabulary import vocabulary
from onnxgrad.core.compile.words import cut_words

__all__ = ["PASSES"]

_FORMS: dict[str, Form] = {
    "And": inside,
    "Cast": step,
    "Conv": lambda build, op: filter_gradient(build, op) or convolution(build, op),
    "ConvTranspose": transposed_convolution,
    "LogSoftmax": normalised,
    "ReduceSum": sum_of_rows,
    "ScatterElements": scatter,
    "Softmax": normalised,
    "SoftmaxCrossEntropyLoss": cross_entropy,
    **dict.fromkeys(ELEMENTWISE, with_equal_ranks),
}


def _rewrite(graph: Graph) -> None:
    """Other convolutions of small feature maps as one matrix product, and small things shorter."""
    rewrite_operators(graph, _FORMS)


PASSES = [
    use_hwnc_layout,
    use_chwn_layout,
    lean_batch_norm,
    attention,
    turn_in_products,
    vocabulary,
    cut_words,
    _rewrite,
    lean_table_gradients,
    fold_scales,
    put_weights_first,
    turn_loop_weights,
]
"""In this order: the layouts first, as the other forms see what it leaves."""
