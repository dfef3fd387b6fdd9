"""fluid.nets: several layers in one call.

Tests: tests/fluid/test_fluid.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.variable import Variable
from onnxgrad.fluid.layers import dropout, pool2d, reshape
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.static.nn.common import Attr
from onnxgrad.tensor.layer import ActivationName

__all__ = ["glu", "img_conv_group", "scaled_dot_product_attention", "simple_img_conv_pool"]


def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    pool_size: int | Sequence[int],
    pool_stride: int | Sequence[int],
    pool_padding: int | Sequence[int] = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: int | Sequence[int] = 1,
    conv_padding: int | Sequence[int] = 0,
    conv_dilation: int | Sequence[int] = 1,
    conv_groups: int = 1,
    param_attr: Attr = None,
    bias_attr: Attr = None,
    act: ActivationName | None = None,
    use_cudnn: bool = True,
) -> Variable:
    """A convolution, an activation and a pooling.

    Args:
        input: [N, C, H, W].
        num_filters: channels of the convolution's result.
        filter_size: height and width of the kernel.
        pool_size: window of the pooling.
        pool_stride: its stride.
        pool_padding: its padding.
        pool_type: 'max' or 'avg'.
        global_pooling: whether the window is the whole plane.
        conv_stride: stride of the convolution.
        conv_padding: its padding.
        conv_dilation: its dilation.
        conv_groups: groups of channels.
        param_attr: name, initial value and other options of the weights.
        bias_attr: the same of the bias; False for none.
        act: activation of the convolution; None for none.
        use_cudnn: accepted for compatibility.

    Example:
        >>> image = fluid.layers.data("image", [1, 28, 28])
        >>> fluid.nets.simple_img_conv_pool(image, 20, 5, pool_size=2, pool_stride=2, act="relu").shape
        (-1, 20, 12, 12)
    """
    y = static.nn.conv2d(
        input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation, conv_groups, param_attr, bias_attr, act=act
    )
    return pool2d(y, pool_size, pool_type, pool_stride, pool_padding, global_pooling)


def img_conv_group(
    input: Variable,
    conv_num_filter: Sequence[int],
    pool_size: int | Sequence[int],
    conv_padding: int | Sequence[int] = 1,
    conv_filter_size: int | Sequence[int] = 3,
    conv_act: ActivationName | None = None,
    param_attr: Attr = None,
    conv_with_batchnorm: bool | Sequence[bool] = False,
    conv_batchnorm_drop_rate: float | Sequence[float] = 0.0,
    pool_stride: int | Sequence[int] = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Variable:
    """Several convolutions, each with batch normalisation and dropout if asked, and a pooling. Simonyan and Zisserman 2015.

    Args:
        input: [N, C, H, W].
        conv_num_filter: channels of each convolution's result.
        pool_size: window of the pooling.
        conv_padding: padding of the convolutions: one for all, or one each.
        conv_filter_size: height and width of the kernels, likewise.
        conv_act: activation of the convolutions; None for none.
        param_attr: name, initial value and other options of the weights.
        conv_with_batchnorm: whether they are normalised, likewise.
        conv_batchnorm_drop_rate: share of dropout behind the normalisation, likewise.
        pool_stride: stride of the pooling.
        pool_type: 'max' or 'avg'.
        use_cudnn: accepted for compatibility.
    """
    count = len(conv_num_filter)

    def each(value: Any) -> list[Any]:
        return list(value) if isinstance(value, (list, tuple)) else [value] * count

    y, options = input, (conv_num_filter, conv_filter_size, conv_padding, conv_with_batchnorm, conv_batchnorm_drop_rate)
    for filters, size, padding, normalised, rate in zip(*map(each, options), strict=True):
        y = static.nn.conv2d(y, filters, size, padding=padding, param_attr=param_attr, act=None if normalised else conv_act)
        if normalised:
            y = static.nn.batch_norm(y, act=conv_act)
            y = dropout(y, rate) if rate else y
    return pool2d(y, pool_size, pool_type, pool_stride)


def glu(input: Variable, dim: int = -1) -> Variable:
    """The first half along ``dim`` times the sigmoid of the second. Dauphin et al. 2017.

    Args:
        input: variable of any shape.
        dim: the axis, of even size.
    """
    return F.glu(input, dim)


def scaled_dot_product_attention(
    queries: Variable, keys: Variable, values: Variable, num_heads: int = 1, dropout_rate: float = 0.0
) -> Variable:
    """softmax(q k' / sqrt(d)) v over [N, T, C], in ``num_heads`` heads. Vaswani et al. 2017.

    Args:
        queries: [N, T, C].
        keys: [N, S, C].
        values: [N, S, D].
        num_heads: heads, which divide C and D.
        dropout_rate: share of attention that is dropped in training.
    """

    def heads(x: Variable) -> Variable:
        return reshape(x, [0, 0, num_heads, x.shape[-1] // num_heads])

    attention = F.scaled_dot_product_attention(heads(queries), heads(keys), heads(values), dropout_p=dropout_rate)
    # dropout of Paddle 1 scales by 1 - p in inference, not up in training.
    return reshape(attention * (1.0 - dropout_rate) if dropout_rate else attention, [0, 0, values.shape[-1]])


globals().update(absence_hooks(__name__))
