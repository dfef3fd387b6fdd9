"""fluid.layers: the functions of Paddle 1, with their old argument names.

Written by `scripts/write_tensor_stubs` from the functions' own signatures; do not edit.

Tests: tests/typing/test_typing.py.
"""

from collections.abc import Sequence
from typing import TypeVar

from numpy.typing import ArrayLike

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.fluid.differing import (
    cos_sim as cos_sim,
    data as data,
    dropout as dropout,
    embedding as embedding,
    flatten as flatten,
    increment as increment,
    l2_normalize as l2_normalize,
    lrn as lrn,
    matmul as matmul,
    mul as mul,
    one_hot as one_hot,
    pool2d as pool2d,
    pow as pow,
    relu as relu,
    reshape as reshape,
    shape as shape,
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
    smooth_l1 as smooth_l1,
    sums as sums,
    swish as swish,
)
from onnxgrad.fluid.rates import (
    cosine_decay as cosine_decay,
    exponential_decay as exponential_decay,
    inverse_time_decay as inverse_time_decay,
    linear_lr_warmup as linear_lr_warmup,
    natural_exp_decay as natural_exp_decay,
    noam_decay as noam_decay,
    piecewise_decay as piecewise_decay,
    polynomial_decay as polynomial_decay,
)
from onnxgrad.nn.functional import (
    elu as elu,
    sigmoid as sigmoid,
    softmax_with_cross_entropy as softmax_with_cross_entropy,
    softsign as softsign,
    square_error_cost as square_error_cost,
)
from onnxgrad.nn.types import Sizes
from onnxgrad.static import (
    Print as Print,
    accuracy as accuracy,
    auc as auc,
    create_global_var as create_global_var,
    create_parameter as create_parameter,
)
from onnxgrad.static.nn import (
    batch_norm as batch_norm,
    bilinear_tensor_product as bilinear_tensor_product,
    case as case,
    cond as cond,
    conv2d as conv2d,
    conv2d_transpose as conv2d_transpose,
    conv3d as conv3d,
    conv3d_transpose as conv3d_transpose,
    data_norm as data_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    nce as nce,
    prelu as prelu,
    py_func as py_func,
    row_conv as row_conv,
    sequence_conv as sequence_conv,
    sequence_expand as sequence_expand,
    sequence_first_step as sequence_first_step,
    sequence_last_step as sequence_last_step,
    sequence_pool as sequence_pool,
    sequence_softmax as sequence_softmax,
    spectral_norm as spectral_norm,
    switch_case as switch_case,
    while_loop as while_loop,
)
from onnxgrad.static.nn.common import Attr
from onnxgrad.tensor.common import Axes, Integers, Number, Shape
from onnxgrad.tensor.joining import slice as slice, stack as stack
from onnxgrad.tensor.layer import ActivationName
from onnxgrad.tensor.logic import logical_not as logical_not
from onnxgrad.tensor.manipulation import cast as cast, transpose as transpose
from onnxgrad.tensor.math import (
    abs as abs,
    ceil as ceil,
    cos as cos,
    exp as exp,
    floor as floor,
    log as log,
    reciprocal as reciprocal,
    rsqrt as rsqrt,
    scale as scale,
    sign as sign,
    sin as sin,
    sqrt as sqrt,
    square as square,
    tanh as tanh,
)

T = TypeVar("T", bound=Variable)

def argmax(x: T, axis: int | None = 0) -> T: ...
def argmin(x: T, axis: int | None = 0) -> T: ...
def assign(input: T | ArrayLike, output: T | None = None) -> T: ...
def clip(x: T, min: Number | None, max: Number | None, name: str | None = None) -> T: ...
def concat(input: Sequence[T], axis: int | T = 0, name: str | None = None) -> T: ...
def cross_entropy(input: T, label: T, soft_label: bool = False, ignore_index: int = -100) -> T: ...
def elementwise_add(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def elementwise_div(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def elementwise_floordiv(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def elementwise_max(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def elementwise_min(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def elementwise_mod(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def elementwise_mul(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def elementwise_pow(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def elementwise_sub(x: T, y: T, axis: int = -1, act: ActivationName | None = None, name: str | None = None) -> T: ...
def equal(x: T, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def expand(x: T, expand_times: Integers, name: str | None = None) -> T: ...
def fc(
    input: T | Sequence[T],
    size: int,
    num_flatten_dims: int = 1,
    param_attr: Attr | Sequence[Attr] = None,
    bias_attr: Attr = None,
    act: ActivationName | None = None,
    name: str | None = None,
) -> T: ...
def fill_constant(
    shape: Shape,
    dtype: DTypeLike | None,
    value: Number,
    force_cpu: bool = False,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable: ...
def gather(input: T, index: T, overwrite: bool = True) -> T: ...
def gelu(x: T, approximate: bool = False) -> T: ...
def greater_equal(x: T | float, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def greater_than(x: T | float, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def label_smooth(
    label: T, prior_dist: Variable | None = None, epsilon: float = 0.1, dtype: str = "float32", name: str | None = None
) -> T: ...
def leaky_relu(x: T, alpha: float = 0.02, name: str | None = None) -> T: ...
def less_equal(x: T | float, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def less_than(x: T | float, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def log_softmax(input: T, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None) -> T: ...
def logical_and(x: T | float, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def logical_or(x: T | float, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def logical_xor(x: T | float, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def mean(x: T, name: str | None = None) -> T: ...
def mse_loss(input: T, label: T) -> T: ...
def not_equal(x: T | float, y: T | float, cond: T | None = None, name: str | None = None) -> T: ...
def ones(shape: Shape, dtype: DTypeLike | None, force_cpu: bool = False) -> Variable: ...
def pad(x: T, paddings: Sizes, pad_value: float = 0.0, name: str | None = None) -> T: ...
def reduce_max(input: T, dim: Axes = None, keep_dim: bool = False, name: str | None = None) -> T: ...
def reduce_mean(input: T, dim: Axes = None, keep_dim: bool = False, name: str | None = None) -> T: ...
def reduce_min(input: T, dim: Axes = None, keep_dim: bool = False, name: str | None = None) -> T: ...
def reduce_prod(input: T, dim: Axes = None, keep_dim: bool = False, name: str | None = None) -> T: ...
def reduce_sum(input: T, dim: Axes = None, keep_dim: bool = False, name: str | None = None) -> T: ...
def relu6(x: T, threshold: float = 6.0, name: str | None = None) -> T: ...
def round(x: T, name: str | None = None) -> T: ...
def softmax(input: T, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> T: ...
def softplus(x: T, name: str | None = None) -> T: ...
def split(input: T, num_or_sections: int | Sequence[int], dim: int | T = -1, name: str | None = None) -> list[T]: ...
def squeeze(input: T, axes: Axes, name: str | None = None) -> T: ...
def sum(x: T | Sequence[T]) -> T: ...
def topk(input: T, k: int | T, name: str | None = None) -> tuple[T, T]: ...
def unsqueeze(input: T, axes: Integers, name: str | None = None) -> T: ...
def unstack(x: T, axis: int = 0, num: int | None = None) -> list[T]: ...
def zeros(shape: Shape, dtype: DTypeLike | None, force_cpu: bool = False, name: str | None = None) -> Variable: ...
