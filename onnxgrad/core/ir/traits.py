"""Classify the standard operators: one table that says whether an operator may be looked through, moved or tiled.

Each set holds names of operators of the domain ''. Whoever needs fewer writes ``TRAIT - {exceptions}`` with the reason, and whoever
needs more ``TRAIT | {additions}``, so that a new operator of ONNX is entered here once. The test asks the table of every schema of
the installed onnx, and runs the samples of each operator to see that it does what its set says.

Tests: tests/core/ir/test_traits.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

__all__ = [
    "CASTS", "COMPARES", "CONTROL_FLOW", "ELEMENTWISE", "LINEAR", "MOVES", "NOT_LINEAR", "RANDOM", "READS_SHAPES", "REDUCES",
    "VIEWS", "WITHOUT", "linear_in",
]  # fmt: skip

VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""The result has the elements of the first operand, in their order, in another shape."""

MOVES = VIEWS | frozenset({
    "CenterCropPad", "Compress", "Concat", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "Pad",
    "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split", "TensorScatter", "Tile",
    "Transpose", "Trilu",
})  # fmt: skip
"""Every element of a result is one of an operand, or a constant that fills up, unless ``reduction`` or ``mode`` says else."""

CASTS = frozenset({"Cast", "CastLike"})
"""The result has the elements of the first operand in another type, rounded."""

COMPARES = frozenset({"Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"})
"""Elementwise operators on numbers whose result is boolean."""

ELEMENTWISE = CASTS | COMPARES | frozenset({
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or",
    "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign",
    "Sqrt", "Sub", "Sum", "SwiGLU", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
})  # fmt: skip
"""An element of the result follows from the elements at its position alone, in the operands broadcast to one shape."""

REDUCES = frozenset({
    "ArgMax", "ArgMin", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
})  # fmt: skip
"""One number for all elements along some axes; their order does not matter but to ArgMax and ArgMin."""

RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Two runs on the same operands differ; of Dropout only those in training."""

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators with bodies."""

READS_SHAPES = frozenset({"EyeLike", "RandomNormalLike", "RandomUniformLike", "SequenceLength", "Shape", "Size"})
"""Nothing of a result depends on the values of the operands, only on their number, type or shape."""

WITHOUT = frozenset({
    "AffineGrid", "Attention", "AveragePool", "BatchNormalization", "BlackmanWindow", "CausalConvWithState", "Col2Im",
    "ConcatFromSequence", "Constant", "ConstantOfShape", "Conv", "ConvInteger", "ConvTranspose", "CumProd", "CumSum", "DFT",
    "DeformConv", "DequantizeLinear", "Det", "DynamicQuantizeLinear", "Einsum", "GRU", "Gemm", "GridSample",
    "GroupNormalization", "HammingWindow", "HannWindow", "Hardmax", "ImageDecoder", "InstanceNormalization", "LRN", "LSTM",
    "LayerNormalization", "LinearAttention", "LogSoftmax", "LpNormalization", "LpPool", "MatMul", "MatMulInteger", "MaxPool",
    "MaxRoiPool", "MaxUnpool", "MeanVarianceNormalization", "MelWeightMatrix", "NegativeLogLikelihoodLoss", "NonMaxSuppression",
    "NonZero", "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "QLinearConv", "QLinearMatMul",
    "QuantizeLinear", "RMSNormalization", "RNN", "Range", "RegexFullMatch", "Resize", "RoiAlign", "RotaryEmbedding", "STFT",
    "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "Softmax", "SoftmaxCrossEntropyLoss",
    "SplitToSequence", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer", "TopK", "Unique", "Upsample",
})  # fmt: skip
"""Operators that none of the sets holds. A schema that is in no set at all fails the test."""

# Linear in which operands ---------------------------------------------------------------------------------------------

Attributes: TypeAlias = Mapping[str, Any]
Groups: TypeAlias = "tuple[tuple[int, ...], ...]"


def _scatter(attrs: Attributes) -> Groups:
    """The products of data and updates are linear in the data alone, as an index may come twice"""
    return {"none": ((0, 2),), "add": ((0, 2),), "mul": ((0,),)}.get(attrs.get("reduction", "none"), ())


def _batch_normalization(attrs: Attributes) -> Groups:
    return ((1, 2),) if attrs.get("training_mode") else ((0, 2, 3), (1, 2))


def _linear_attention(attrs: Attributes) -> Groups:
    """What the delta rules write depends on the product of a key with the state, which has keys in it"""
    delta = attrs.get("update_rule", "gated_delta") in ("delta", "gated_delta")
    return ((0,), (2, 3)) if delta else ((0,), (1, 3), (2, 3))


def _resize(attrs: Attributes) -> Groups:
    crops = attrs.get("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    return () if crops and attrs.get("extrapolation_value", 0.0) else ((0,),)


_FIRST: Groups = ((0,),)
_PRODUCT_AND_BIAS: Groups = ((0, 2), (1, 2))

LINEAR: Mapping[str, Groups | Literal["all", "each"] | Callable[[Attributes], Groups]] = {
    **dict.fromkeys(VIEWS | CASTS, _FIRST),
    **dict.fromkeys(MOVES - VIEWS - {"Concat", "Pad", "Scatter", "ScatterElements", "ScatterND", "TensorScatter"}, _FIRST),
    **dict.fromkeys(("Add", "Concat", "Mean", "Sub", "Sum"), "all"),
    **dict.fromkeys(("Einsum", "MatMul", "Mul"), "each"),
    **dict.fromkeys(("AveragePool", "Col2Im", "CumSum", "DFT", "Div", "Dropout", "GlobalAveragePool", "GridSample"), _FIRST),
    **dict.fromkeys(("AffineGrid", "MaxUnpool", "Neg", "ReduceMean", "ReduceSum", "Upsample"), _FIRST),
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm"), _PRODUCT_AND_BIAS),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization", "LayerNormalization"), ((1, 2),)),
    **dict.fromkeys(("DequantizeLinear", "RMSNormalization", "SwiGLU"), ((1,),)),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), _scatter),
    "Attention": ((2, 5),),
    "BatchNormalization": _batch_normalization,
    "CausalConvWithState": lambda attrs: ((0, 2, 3), (1, 2)) if attrs.get("activation", "none") == "none" else (),
    "DeformConv": ((0, 3), (1, 3), (3, 4)),
    "LinearAttention": _linear_attention,
    "NegativeLogLikelihoodLoss": lambda attrs: ((0,),) if attrs.get("reduction", "mean") == "mean" else ((0,), (2,)),
    "OneHot": ((2,),),
    "Pad": ((0, 2),),
    "Resize": _resize,
    "RoiAlign": lambda attrs: ((0,),) if attrs.get("mode", "avg") == "avg" else (),
    # Where a part of each head is not turned, it goes into the result as it is.
    "RotaryEmbedding": lambda attrs: ((0,),) if attrs.get("rotary_embedding_dim") else ((0,), (1, 2)),
    "STFT": ((0,), (2,)),
    "SoftmaxCrossEntropyLoss": lambda attrs: () if attrs.get("reduction", "mean") == "mean" else ((2,),),
    "TensorScatter": ((0, 1),),
    "Where": ((1, 2),),
}
"""Operands of real numbers in which the first result is linear, of Split each result: groups of their indices.

In the operands of a group it is linear jointly, while the others are held fixed: all of them twice as large, it is twice as large.
A product has a group for each factor; a bias is in the group of each, so of a Gemm without one the groups are the factors alone.
``"all"``: in all operands jointly. ``"each"``: in each operand alone. A function says it where attributes decide.
"""


def linear_in(op_type: str, attrs: Attributes, operands: int) -> Groups:
    """Find the groups of operands in which a standard operator is linear; ``()`` where it is in none.

    Args:
        attrs: its attributes; those that are not there have their defaults.
        operands: how many it has, those left out at the end not counted.

    Example:
        >>> linear_in("Gemm", {}, 3)
        ((0, 2), (1, 2))
        >>> linear_in("Gemm", {}, 2)
        ((0,), (1,))
        >>> linear_in("Sub", {}, 2)
        ((0, 1),)
    """
    groups = LINEAR.get(op_type, ())
    if groups == "all":
        return (tuple(range(operands)),)
    if groups == "each":
        return tuple((index,) for index in range(operands))
    assert not isinstance(groups, str)
    index_groups = groups(attrs) if callable(groups) else groups
    present = (tuple(index for index in group if index < operands) for group in index_groups)
    return tuple(group for group in present if group)


NOT_LINEAR = frozenset({
    "Abs", "Acos", "Acosh", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "Bernoulli", "BitCast", "BitShift",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "BlackmanWindow", "Ceil", "Celu", "Clip", "ConcatFromSequence",
    "Constant", "ConstantOfShape", "ConvInteger", "Cos", "Cosh", "CumProd", "Det", "DynamicQuantizeLinear", "Elu", "Equal", "Erf",
    "Exp", "EyeLike", "Floor", "GRU", "Gelu", "GlobalLpPool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "HammingWindow",
    "HannWindow", "HardSigmoid", "HardSwish", "Hardmax", "If", "ImageDecoder", "IsInf", "IsNaN", "LRN", "LSTM", "LeakyRelu",
    "Less", "LessOrEqual", "Log", "LogSoftmax", "Loop", "LpNormalization", "LpPool", "MatMulInteger", "Max", "MaxPool",
    "MaxRoiPool", "MeanVarianceNormalization", "MelWeightMatrix", "Min", "Mish", "Mod", "Multinomial", "NonMaxSuppression",
    "NonZero", "Not", "Optional", "OptionalGetElement", "OptionalHasElement", "Or", "PRelu", "Pow", "QLinearConv",
    "QLinearMatMul", "QuantizeLinear", "RNN", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Range",
    "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceSumSquare", "RegexFullMatch", "Relu", "Round", "Scan", "Selu", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
    "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "Shape", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Size", "Softmax", "Softplus", "Softsign", "SplitToSequence", "Sqrt", "StringConcat", "StringNormalizer", "StringSplit",
    "Swish", "Tan", "Tanh", "TfIdfVectorizer", "ThresholdedRelu", "TopK", "Unique", "Xor",
})  # fmt: skip
"""Operators that are linear in no operand; those with bodies, and those on integers, booleans, texts or sequences alone, too."""
