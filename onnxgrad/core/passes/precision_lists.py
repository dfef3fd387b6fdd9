"""Which operators compute in 16 bits, which never do, and which follow their operands; by ONNX type or by Paddle's name.

Tests: tests/core/passes/test_mixed_precision.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal, TypeAlias

from onnxgrad.core.ir.opset import all_operators
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked

__all__ = ["AutoMixedPrecisionLists", "Level", "LowDtype", "low_dtype"]

LowDtype: TypeAlias = Literal["float16", "bfloat16"]
Level: TypeAlias = Literal["O0", "O1", "O2", "OD"]
"""``'O1'`` computes in 16 bits by the lists, ``'O2'`` nearly everywhere, ``'OD'`` on the white list alone, ``'O0'`` nowhere."""

_WHITE = {"Attention", "Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul"}
_LOOKUPS = {"QuantizeLinear", "DequantizeLinear", "Resize", "ScatterElements", "ScatterND", "TensorScatter"}
_BLACK = {
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan", "Exp", "Log", "Pow", "Reciprocal"),
    *("CumProd", "CumSum", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum"),
    *("ReduceSumSquare", "Mean", "Sum", "Sqrt", "Softmax", "LogSoftmax", "Softplus", "LpNormalization"),
    *("GroupNormalization", "InstanceNormalization", "LayerNormalization", "MeanVarianceNormalization", "RMSNormalization"),
    *("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
}
_GRAY = {
    *("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Neg", "Abs", "Sign", "Clip", "Where", "Identity", "Erf"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    *("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Gelu", "Swish", "Mish", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh"),
    *("ThresholdedRelu", "Softsign", "BatchNormalization", "Dropout"),
    *("AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool", "LRN", "ReduceMax", "ReduceMin", "TopK"),
    *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Pad", "Reshape", "Slice"),
    *("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze"),
}
_PADDLE_NAMES = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "depthwise_conv2d"), ("Conv",)),
    **dict.fromkeys(("conv2d_transpose", "conv3d_transpose", "depthwise_conv2d_transpose"), ("ConvTranspose",)),
    **dict.fromkeys(("matmul", "matmul_v2", "bmm", "mul", "fc", "linear", "fused_gemm_epilogue"), ("MatMul", "Gemm")),
    **dict.fromkeys(("reduce_sum", "sum"), ("ReduceSum", "Sum")),
    **dict.fromkeys(("reduce_mean", "mean"), ("ReduceMean", "Mean")),
    **dict.fromkeys(("softmax_with_cross_entropy", "c_softmax_with_cross_entropy"), ("LogSoftmax", "SoftmaxCrossEntropyLoss")),
    **dict.fromkeys(("cross_entropy", "cross_entropy2", "nll_loss"), ("LogSoftmax", "NegativeLogLikelihoodLoss")),
    **dict.fromkeys(("pool2d", "pool3d"), ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")),
    **dict.fromkeys(("max_pool2d_with_index", "max_pool3d_with_index"), ("MaxPool",)),
    **dict.fromkeys(("lookup_table", "lookup_table_v2", "gather", "embedding"), ("Gather",)),
    "gather_nd": ("GatherND",),
    "scatter": ("ScatterElements", "ScatterND"),
    **dict.fromkeys(
        ("linear_interp_v2", "nearest_interp_v2", "bilinear_interp_v2", "bicubic_interp_v2", "trilinear_interp_v2"), ("Resize",)
    ),
    "fused_attention": ("Attention",),
    "einsum": ("Einsum",),
    **{f"elementwise_{short}": (short.capitalize(),) for short in ("add", "sub", "mul", "div", "max", "min", "pow", "mod")},
    **{f"reduce_{short}": (f"Reduce{short.capitalize()}",) for short in ("max", "min", "prod")},
    **{f"{short}_norm": (f"{short.capitalize()}Normalization",) for short in ("batch", "layer", "group", "instance")},
    **{
        name.lower(): (name,)
        for name in ("Elu", "Selu", "Celu", "Mish", "Tan", "Acos", "Asin", "Atan", "Sin", "Cos", "Sinh", "Cosh")
    },
    **{name.lower(): (name,) for name in ("Exp", "Log", "Pow", "Sqrt", "Abs", "Sign", "Erf", "Relu", "PRelu", "Gelu", "Swish")},
    **{name.lower(): (name,) for name in ("Sigmoid", "Tanh", "Softmax", "Softplus", "Softsign", "Dropout", "Clip", "Where")},
    **{name.lower(): (name,) for name in ("Concat", "Split", "Slice", "Tile", "CumSum", "CumProd", "Atanh", "Acosh", "Asinh")},
    **{
        name.lower() + suffix: (name,)
        for name in ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten")
        for suffix in ("", "2")
    },
    "scale": ("Mul", "Add"),
    "square": ("Mul", "Pow"),
    "reciprocal": ("Reciprocal",),
    "leaky_relu": ("LeakyRelu",),
    "relu6": ("Clip",),
    "hard_sigmoid": ("HardSigmoid",),
    "hard_swish": ("HardSwish",),
    "log_softmax": ("LogSoftmax",),
    "top_k": ("TopK",),
    "top_k_v2": ("TopK",),
    "expand_v2": ("Expand",),
    "pad3d": ("Pad",),
    "stack": ("Concat", "Unsqueeze"),
}


def low_dtype(dtype: str) -> LowDtype:
    """The name of the 16-bit element type.

    Raises:
        ArgumentError: if it is another.
    """
    name = str(dtype).lower().rsplit(".", 1)[-1]
    if name == "float16":
        return "float16"
    if name == "bfloat16":
        return "bfloat16"
    raise ArgumentError(f"mixed precision computes in 'float16' or 'bfloat16', not {dtype!r}.")


class AutoMixedPrecisionLists:
    """Lists of the operators that compute in 16 bits.

    Those of the white list always do. Those of the black list never do. Those of the gray list do where an operand is the result
    of an operator that does, and none that of an operator that does not. All others compute in float32.

    Args:
        custom_white_list: operators to add to the white list, by ONNX type (``"Conv"``) or by Paddle's name (``"conv2d"``). A
            name of Paddle's means the ONNX operators that it consists of, wherever these occur.
        custom_black_list: operators to add to the black list, likewise.
        custom_black_varnames: names of variables; an operator that reads or computes one stays in float32.
        dtype: ``'float16'`` or ``'bfloat16'``.

    Raises:
        ArgumentError: if an operator is in both lists, or a name is none of ONNX's or Paddle's.

    Example:
        >>> lists = static.amp.AutoMixedPrecisionLists(custom_black_list=["conv2d"])
        >>> "Conv" in lists.black_list, "MatMul" in lists.white_list
        (True, True)
    """

    @checked
    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
        dtype: LowDtype = "float16",
    ) -> None:
        self.amp_dtype = low_dtype(dtype)
        white, black = _types(custom_white_list), _types(custom_black_list)
        if white & black:
            raise ArgumentError(f"custom_white_list and custom_black_list both have {sorted(white & black)}. Drop it from one.")
        self.custom_black_list = black
        self.white_list = (_WHITE | white) - black
        self.black_list = ((_BLACK | _LOOKUPS) - white) | black
        self.gray_list = _GRAY - white - black
        self.unsupported_list = (_LOOKUPS - white) | black
        names = [custom_black_varnames] if isinstance(custom_black_varnames, str) else custom_black_varnames
        self.black_varnames = set(names or ())


def _types(names: Iterable[str] | None) -> set[str]:
    """ONNX types for names of either kind"""
    known = {name for domain, name in all_operators() if domain == ""}
    op_types: set[str] = set()
    for name in [names] if isinstance(names, str) else names or ():
        if name in known:
            op_types.add(name)
        elif name in _PADDLE_NAMES:
            op_types.update(_PADDLE_NAMES[name])
        else:
            near = get_close_matches(str(name), [*known, *_PADDLE_NAMES], n=3)
            advice = f"Did you mean {' or '.join(near)}?" if near else "Use a type such as 'MatMul'."
            raise ArgumentError(f"{name!r} is neither an ONNX operator nor a name of Paddle's that is known here. {advice}")
    return op_types
