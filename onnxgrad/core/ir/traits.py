"""What the standard operators are: one table for all that asks whether an operator may be looked through, moved or tiled.

Each set holds names of operators of the domain ''. Whoever needs fewer writes ``TRAIT - {exceptions}`` with the reason, and whoever
needs more ``TRAIT | {additions}``, so that a new operator of ONNX is entered here once. The test asks the table of every schema of
the installed onnx, and runs the samples of each operator to see that it does what its set says.

Tests: tests/core/ir/test_traits.py.
"""

from __future__ import annotations

__all__ = ["CASTS", "COMPARES", "CONTROL_FLOW", "ELEMENTWISE", "MOVES", "RANDOM", "READS_SHAPES", "REDUCES", "VIEWS", "WITHOUT"]

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
