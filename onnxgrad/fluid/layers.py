"""fluid.layers: the functions of Paddle 1, with their old argument names.

A name is in one of three places: imported here, where its arguments are today's (``batch_norm``); a row of ``_RENAMED``, where a
function of today has other names (``fc`` is ``static.nn.fc``, whose ``x`` was ``input``); or a function in ``fluid.differing``, if
Paddle 2 dropped or changed it (``pool2d``). What is refused is in ``internal.refusals``. Types stand in layers.pyi, which
scripts/write_tensor_stubs writes.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.fluid.differing import (
    aligned,
    cos_sim,
    data,
    dropout,
    embedding,
    flatten,
    increment,
    l2_normalize,
    lrn,
    matmul,
    mul,
    one_hot,
    pool2d,
    reshape,
    shape,
    sigmoid_cross_entropy_with_logits,
    smooth_l1,
    sums,
    swish,
    unpromoted,
)
from onnxgrad.fluid.rates import (
    cosine_decay,
    exponential_decay,
    inverse_time_decay,
    linear_lr_warmup,
    natural_exp_decay,
    noam_decay,
    piecewise_decay,
    polynomial_decay,
)
from onnxgrad.fluid.renaming import REQUIRED, Argument, Row, renamed
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.nn.functional import elu, sigmoid, softmax_with_cross_entropy, softsign, square_error_cost
from onnxgrad.static import Print, accuracy, auc, create_global_var, create_parameter
from onnxgrad.static.nn import (
    batch_norm,
    bilinear_tensor_product,
    case,
    cond,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    data_norm,
    group_norm,
    instance_norm,
    layer_norm,
    prelu,
    row_conv,
    spectral_norm,
    switch_case,
    while_loop,
)
from onnxgrad.tensor import creation, elementwise, indexing, joining, logic, manipulation, math, search
from onnxgrad.tensor.joining import slice, stack
from onnxgrad.tensor.logic import logical_not
from onnxgrad.tensor.manipulation import cast, transpose
from onnxgrad.tensor.math import abs, ceil, cos, exp, floor, log, reciprocal, rsqrt, scale, sign, sin, sqrt, square, tanh
from onnxgrad.tensor.reduction import reduce

__all__ = [
    "Print", "abs", "accuracy", "argmax", "argmin", "assign", "auc", "batch_norm", "bilinear_tensor_product", "case", "cast",
    "ceil", "clip", "concat", "cond", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "cos", "cos_sim",
    "cosine_decay", "create_global_var", "create_parameter", "cross_entropy", "data", "data_norm", "dropout", "elementwise_add",
    "elementwise_div", "elementwise_floordiv", "elementwise_max", "elementwise_min", "elementwise_mod", "elementwise_mul",
    "elementwise_pow", "elementwise_sub", "elu", "embedding", "equal", "exp", "expand", "exponential_decay", "fc",
    "fill_constant", "flatten", "floor", "gather", "gelu", "greater_equal", "greater_than", "group_norm", "increment",
    "instance_norm", "inverse_time_decay", "l2_normalize", "label_smooth", "layer_norm", "leaky_relu", "less_equal",
    "less_than", "linear_lr_warmup", "log", "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor", "lrn",
    "matmul", "mean", "mse_loss", "mul", "natural_exp_decay", "noam_decay", "not_equal", "one_hot", "ones", "pad",
    "piecewise_decay", "polynomial_decay", "pool2d", "pow", "prelu", "reciprocal", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_sum", "relu", "relu6", "reshape", "round", "row_conv", "rsqrt", "scale", "shape", "sigmoid",
    "sigmoid_cross_entropy_with_logits", "sign", "sin", "slice", "smooth_l1", "softmax", "softmax_with_cross_entropy",
    "softplus", "softsign", "spectral_norm", "split", "sqrt", "square", "square_error_cost", "squeeze", "stack", "sum", "sums",
    "swish", "switch_case", "tanh", "topk", "transpose", "unsqueeze", "unstack", "while_loop", "zeros",
]  # fmt: skip


# Old name: the function of today, the old arguments in their order, and a first sentence where today's says something else.
# An argument is "as today", ("old", "today"), ("old", "today", another default), or ("old", None, default) if it has no effect.
# Behind them all take ``name`` whose functions do.
_ALIGNED: list[Argument] = ["x", "y", ("axis", "axis", -1), ("act", "act", None)]
_COMPARED: list[Argument] = ["x", "y", ("cond", "out", None)]
_REDUCED: list[Argument] = [("input", "x"), ("dim", "axis", None), ("keep_dim", "keepdim", False)]
_OVER = "over the axes ``dim``, or of all elements."

_ELEMENTWISE: dict[str, tuple[Callable[..., Any], str]] = {
    "elementwise_add": (elementwise.add, "x + y"),
    "elementwise_div": (partial(unpromoted, "", "Div"), "x / y, for integers without the fraction"),
    "elementwise_floordiv": (partial(unpromoted, "", "Div"), "x / y for integers, without the fraction"),
    "elementwise_max": (elementwise.maximum, "The larger of x and y"),
    "elementwise_min": (elementwise.minimum, "The smaller of x and y"),
    "elementwise_mod": (elementwise.remainder, "The remainder of x / y, with the sign of y"),
    "elementwise_mul": (elementwise.multiply, "x * y"),
    "elementwise_pow": (partial(unpromoted, "", "Pow"), "x to the power y"),
    "elementwise_sub": (elementwise.subtract, "x - y"),
}

_RENAMED: dict[str, Row] = {
    "argmax": (search.argmax, ["x", ("axis", "axis", 0)]),
    "argmin": (search.argmin, ["x", ("axis", "axis", 0)]),
    "assign": (creation.assign, [("input", "x"), "output"]),
    "clip": (math.clip, ["x", ("min", "min", REQUIRED), ("max", "max", REQUIRED)]),
    "concat": (joining.concat, [("input", "x"), "axis"]),
    "cross_entropy": (
        partial(F.cross_entropy, reduction="none", use_softmax=False),
        ["input", "label", "soft_label", "ignore_index"],
        "-log of the probability of the label, one value per row of shape [..., 1]. ``input`` holds probabilities, not logits.",
    ),
    **{
        old: (partial(aligned, old, function), _ALIGNED, f"{first}; y's axes are x's from ``axis`` on. ``act`` is applied last.")
        for old, (function, first) in _ELEMENTWISE.items()
    },
    "equal": (logic.equal, _COMPARED),
    "expand": (manipulation.tile, ["x", ("expand_times", "repeat_times")]),
    "fc": (
        static.nn.fc,
        [("input", "x"), "size", "num_flatten_dims", ("param_attr", "weight_attr"), "bias_attr", ("act", "activation")],
    ),
    "fill_constant": (
        creation.full,
        ["shape", ("dtype", "dtype", REQUIRED), ("value", "fill_value"), ("force_cpu", None, False), ("out", "out", None)],
    ),
    "gather": (indexing.gather, [("input", "x"), "index", ("overwrite", None, True)]),
    "gelu": (F.gelu, ["x", "approximate"]),
    "greater_equal": (logic.greater_equal, _COMPARED),
    "greater_than": (logic.greater_than, _COMPARED),
    "label_smooth": (F.label_smooth, ["label", "prior_dist", "epsilon", ("dtype", None, "float32")]),
    "leaky_relu": (F.leaky_relu, ["x", ("alpha", "negative_slope", 0.02)]),
    "less_equal": (logic.less_equal, _COMPARED),
    "less_than": (logic.less_than, _COMPARED),
    "log_softmax": (F.log_softmax, [("input", "x"), "axis", "dtype"]),
    "logical_and": (logic.logical_and, _COMPARED),
    "logical_or": (logic.logical_or, _COMPARED),
    "logical_xor": (logic.logical_xor, _COMPARED),
    "mean": (partial(reduce, "mean", "ReduceMean", axis=None, keepdim=False), ["x"], "The mean of all elements, without axes."),
    "mse_loss": (F.mse_loss, ["input", "label"]),
    "not_equal": (logic.not_equal, _COMPARED),
    "ones": (creation.ones, ["shape", ("dtype", "dtype", REQUIRED), ("force_cpu", None, False)]),
    "pad": (F.pad, ["x", ("paddings", "pad"), ("pad_value", "value")]),
    "pow": (partial(unpromoted, "pow", "Pow"), ["x", ("factor", "y", 1.0)], "x to the power ``factor``, in the element type of x."),
    "reduce_max": (partial(reduce, "reduce_max", "ReduceMax"), _REDUCED, f"The largest element {_OVER}"),
    "reduce_mean": (partial(reduce, "reduce_mean", "ReduceMean"), _REDUCED, f"The mean {_OVER}"),
    "reduce_min": (partial(reduce, "reduce_min", "ReduceMin"), _REDUCED, f"The smallest element {_OVER}"),
    "reduce_prod": (partial(reduce, "reduce_prod", "ReduceProd"), _REDUCED, f"The product {_OVER}"),
    "reduce_sum": (partial(reduce, "reduce_sum", "ReduceSum"), _REDUCED, f"The sum {_OVER}"),
    "relu": (partial(unpromoted, "relu", "Relu"), ["x"], "max(x, 0), in the element type of x."),
    "relu6": (partial(F.hardtanh, min=0.0), ["x", ("threshold", "max", 6.0)], "x limited to [0, threshold]."),
    "round": (math.round, ["x"]),
    "softmax": (F.softmax, [("input", "x"), ("use_cudnn", None, False), "name", "axis"]),
    "softplus": (F.softplus, ["x"]),
    "split": (joining.split, [("input", "x"), "num_or_sections", ("dim", "axis", -1)]),
    "squeeze": (manipulation.squeeze, [("input", "x"), ("axes", "axis", REQUIRED)]),
    "sum": (elementwise.add_n, [("x", "inputs")]),
    "topk": (search.topk, [("input", "x"), "k"]),
    "unsqueeze": (manipulation.unsqueeze, [("input", "x"), ("axes", "axis")]),
    "unstack": (joining.unstack, ["x", "axis", "num"]),
    "zeros": (creation.zeros, ["shape", ("dtype", "dtype", REQUIRED), ("force_cpu", None, False)]),
}
globals().update({old: renamed(__name__, old, *row) for old, row in _RENAMED.items()})


globals().update(absence_hooks(__name__))
