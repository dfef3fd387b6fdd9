"""Layers with parameters, each a function of nn.functional with them.

Tests: tests/nn/test_layers_as_paddle.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType
from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError, Mismatch
from onnxgrad.internal.arguments import checked_with_words
from onnxgrad.nn import functional as F
from onnxgrad.nn.functional.conv import conv, conv_transpose
from onnxgrad.nn.functional.norm import divided_by_spectral_norm
from onnxgrad.nn.functional.windows import numbers
from onnxgrad.nn.layer import Layer
from onnxgrad.nn.types import (
    Activation,
    AnyTensor,
    BiasAttr,
    FloatName,
    Layout,
    Layout1D,
    Layout2D,
    Layout3D,
    Numbers,
    Padding,
    PaddingMode,
    WeightAttr,
)
from onnxgrad.tensor.initializer import Constant, Normal
from onnxgrad.tensor.options import Device
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = [
    "BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "Bilinear", "Conv1D", "Conv1DTranspose", "Conv2D",
    "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Embedding", "GroupNorm", "InstanceNorm1D", "InstanceNorm2D",
    "InstanceNorm3D", "LayerNorm", "Linear", "PReLU", "SpectralNorm", "SyncBatchNorm",
]  # fmt: skip

AnyLayer = TypeVar("AnyLayer", bound=Layer)


class Linear(Layer):
    """Compute ``x @ weight + bias`` with a weight of shape [in_features, out_features].

    Args:
        in_features: the last size of the input.
        out_features: the last size of the result.
        weight_attr: attributes of the weight, which starts as Xavier's (Glorot and Bengio 2010): a ParamAttr, an initializer or a
            name.
        bias_attr: the same for the bias, which starts at 0; False for none.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Linear(3, 4)(paddle.to_tensor(np.ones((2, 3), np.float32))).shape
        [2, 4]
    """

    @checked_with_words
    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = int(in_features), int(out_features)
        self.weight = self.create_parameter([self.in_features, self.out_features], weight_attr)
        self.bias = self.create_parameter([self.out_features], bias_attr, is_bias=True)

    def forward(self, input: AnyTensor) -> AnyTensor:
        """Multiply by the weight and add the bias.

        Args:
            input: floats [..., in_features].

        Returns:
            Floats [..., out_features].
        """
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._dtype}"


# Convolutions --------------------------------------------------------------------------------------------------------


class _Conv(Layer):
    """Base of convolutions and their transposes: options, filters and bias.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        window: sizes of the filters, stride, padding, dilation and groups.
        attrs: attributes of the filters, which start normal (He et al. 2015) unless transposed, and of the bias, which starts at 0.
        data_format: the layout; its length says how many spatial axes there are.
    """

    weight: EagerParameter
    bias: EagerParameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        window: tuple[Numbers, Numbers, Padding, Numbers, int],
        attrs: tuple[WeightAttr, BiasAttr],
        data_format: Layout,
        transposed: bool = False,
        padding_mode: PaddingMode = "zeros",
        output_padding: Numbers = 0,
        device: Device = None,
        dtype: FloatName | DType | None = None,
    ) -> None:
        super().__init__()
        self._make_in(device, dtype)
        kernel_size, stride, self._padding, dilation, self._groups = window
        self._data_format, self._padding_mode, self._output_padding = data_format, padding_mode, output_padding
        name, self._axes, self._channels = type(self).__name__, len(data_format) - 2, (in_channels, out_channels)
        if self._groups < 1 or in_channels % self._groups or out_channels % self._groups:
            raise ArgumentError(f"{name}: {in_channels} and {out_channels} channels cannot be cut into {self._groups} groups.")
        sizes = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation}
        listed = [numbers(size, self._axes, f"{name}: {what}") for what, size in sizes.items()]
        self._kernel_size, self._stride, self._dilation = listed
        normal = None if transposed else Normal(0.0, math.sqrt(2.0 / (math.prod(self._kernel_size) * in_channels)))
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = [first, second // self._groups, *self._kernel_size]
        self.weight = self.create_parameter(shape, attrs[0], default_initializer=normal)
        self.bias = self.create_parameter([out_channels], attrs[1], is_bias=True)

    def extra_repr(self) -> str:
        ones = [1] * self._axes
        usual = {"stride": ones, "padding": 0, "padding_mode": "zeros", "output_padding": 0, "dilation": ones, "groups": 1}
        shown = [f"{name}={value}" for name in usual if (value := getattr(self, f"_{name}")) != usual[name]]
        kernel = f"{self._channels[0]}, {self._channels[1]}, kernel_size={self._kernel_size}"
        return ", ".join([kernel, *shown, f"data_format={self._data_format}"])


class _Forwards(_Conv):
    """Base of convolutions."""

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Convolve ``x`` with the filters and add the bias.

        Args:
            x: floats [N, in_channels, *sizes], or [N, *sizes, in_channels] where the layout has channels last.

        Returns:
            Floats [N, out_channels, *sizes], in the same layout.
        """
        x, padding = self._bordered(x)
        window = self._stride, padding, self._dilation, self._groups
        return cast(AnyTensor, conv(self._axes, x, self.weight, self.bias, *window, self._data_format))

    def _bordered(self, x: AnyTensor) -> tuple[AnyTensor, Padding]:
        """``x`` and the padding that a convolution puts around it, or ``x`` with a border that is no zeros and no padding."""
        padding, axes = self._padding, self._axes
        if self._padding_mode == "zeros":
            return x, padding
        if isinstance(padding, str):
            raise ArgumentError(f"padding_mode {self._padding_mode!r} takes padding as numbers, not {padding!r}.")
        sizes: list[Any] = [padding] * axes if isinstance(padding, int) else list(padding)
        pairs = [n for size in reversed(sizes) for n in ((size, size) if isinstance(size, int) else size)]
        if len(sizes) == 2 * axes:
            pairs = [int(n) for at in range(len(sizes) - 2, -1, -2) for n in sizes[at : at + 2]]
        return F.pad(x, pairs, mode=self._padding_mode, data_format=self._data_format), 0


class _Transposed(_Conv):
    """Base of transposed convolutions."""

    def forward(self, x: AnyTensor, output_size: Numbers | None = None) -> AnyTensor:
        """Add a weighted filter for each element of ``x``, and the bias.

        Args:
            x: floats [N, in_channels, *sizes], or [N, *sizes, in_channels] where the layout has channels last.
            output_size: the sizes of the result, in place of ``output_padding``.

        Returns:
            Floats [N, out_channels, *sizes], in the same layout.
        """
        added = self._output_padding if output_size is None else 0
        window = self._stride, self._padding, added, self._dilation, self._groups, output_size
        return cast(AnyTensor, conv_transpose(self._axes, x, self.weight, self.bias, *window, self._data_format))


class Conv1D(_Forwards):
    """Convolve [N, C, L] with filters of shape [out_channels, in_channels / groups, length].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result: the number of filters.
        kernel_size: length of the filters.
        stride: steps between windows.
        padding: border around the input: one number, [start, end], pairs for all three axes, 'SAME' or 'VALID'.
        dilation: distance between the elements of a window.
        groups: channels and filters are cut into so many independent groups.
        bias: False for none, whatever ``bias_attr`` says.
        padding_mode: what the border holds: 'zeros', 'reflect' the mirrored input, 'replicate' its outermost elements, 'circular'
            its other end.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        dtype: element type of the filters and of the bias; the default one unless given.
        weight_attr: attributes of the filters, which start normal (He et al. 2015): a ParamAttr, an initializer or a name.
        bias_attr: the same for the bias, which starts at 0; False for none.
        data_format: 'NCL', or 'NLC' for channels on the last axis.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if ``groups`` does not divide the channels.

    Example:
        >>> paddle.nn.Conv1D(3, 4, 3, padding=1)(paddle.ones([2, 3, 8])).shape
        [2, 4, 8]
    """

    @checked_with_words
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Padding = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: Device = None,
        dtype: FloatName | DType | None = None,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout1D = "NCL",
    ) -> None:
        window = kernel_size, stride, padding, dilation, groups
        attrs = weight_attr, bias_attr if bias else False
        super().__init__(in_channels, out_channels, window, attrs, data_format, False, padding_mode, 0, device, dtype)


class Conv2D(_Forwards):
    """Convolve [N, C, H, W] with filters of shape [out_channels, in_channels / groups, height, width].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result: the number of filters.
        kernel_size: height and width of the filters, or one number for both.
        stride: steps between windows, in the same form.
        padding: border around the input: one number, one for each axis, [top, bottom, left, right], pairs for all four axes, 'SAME'
            or 'VALID'.
        dilation: distance between the elements of a window, in the form of ``kernel_size``.
        groups: channels and filters are cut into so many independent groups.
        bias: False for none, whatever ``bias_attr`` says.
        padding_mode: what the border holds: 'zeros', 'reflect' the mirrored input, 'replicate' its outermost elements, 'circular'
            its other end.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        dtype: element type of the filters and of the bias; the default one unless given.
        weight_attr: attributes of the filters, which start normal (He et al. 2015): a ParamAttr, an initializer or a name.
        bias_attr: the same for the bias, which starts at 0; False for none.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if ``groups`` does not divide the channels.

    Example:
        >>> paddle.nn.Conv2D(3, 4, 3, stride=2, padding=1)(paddle.ones([2, 3, 8, 8])).shape
        [2, 4, 4, 4]
    """

    @checked_with_words
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Padding = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: Device = None,
        dtype: FloatName | DType | None = None,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout2D = "NCHW",
    ) -> None:
        window = kernel_size, stride, padding, dilation, groups
        attrs = weight_attr, bias_attr if bias else False
        super().__init__(in_channels, out_channels, window, attrs, data_format, False, padding_mode, 0, device, dtype)


class Conv3D(_Forwards):
    """Convolve [N, C, D, H, W] with filters of shape [out_channels, in_channels / groups, depth, height, width].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result: the number of filters.
        kernel_size: depth, height and width of the filters, or one number for all.
        stride: steps between windows, in the same form.
        padding: border around the input: one number, one for each axis, [front, back, top, bottom, left, right], pairs for all five
            axes, 'SAME' or 'VALID'.
        dilation: distance between the elements of a window, in the form of ``kernel_size``.
        groups: channels and filters are cut into so many independent groups.
        bias: False for none, whatever ``bias_attr`` says.
        padding_mode: what the border holds: 'zeros', 'reflect' the mirrored input, 'replicate' its outermost elements, 'circular'
            its other end.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        dtype: element type of the filters and of the bias; the default one unless given.
        weight_attr: attributes of the filters, which start normal (He et al. 2015): a ParamAttr, an initializer or a name.
        bias_attr: the same for the bias, which starts at 0; False for none.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if ``groups`` does not divide the channels.

    Example:
        >>> paddle.nn.Conv3D(3, 4, 2)(paddle.ones([2, 3, 4, 4, 4])).shape
        [2, 4, 3, 3, 3]
    """

    @checked_with_words
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Padding = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: Device = None,
        dtype: FloatName | DType | None = None,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout3D = "NCDHW",
    ) -> None:
        window = kernel_size, stride, padding, dilation, groups
        attrs = weight_attr, bias_attr if bias else False
        super().__init__(in_channels, out_channels, window, attrs, data_format, False, padding_mode, 0, device, dtype)


class Conv1DTranspose(_Transposed):
    """Transpose a convolution of [N, C, L], with filters of shape [in_channels, out_channels / groups, length].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: length of the filters.
        stride: that of the convolution whose transpose this is.
        padding: its border: one number, [start, end], pairs for all three axes, 'SAME' or 'VALID'.
        output_padding: number added to the length of the result at its end.
        groups: channels are cut into so many independent groups.
        dilation: distance between the elements of a window.
        weight_attr: attributes of the filters, which start as Xavier's: a ParamAttr, an initializer or a name.
        bias_attr: the same for the bias, which starts at 0; False for none.
        data_format: 'NCL', or 'NLC' for channels on the last axis.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if ``groups`` does not divide the channels.

    Example:
        >>> paddle.nn.Conv1DTranspose(3, 4, 2, stride=2)(paddle.ones([2, 3, 4])).shape
        [2, 4, 8]
    """

    @checked_with_words
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Padding = 0,
        output_padding: Numbers = 0,
        groups: int = 1,
        dilation: Numbers = 1,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout1D = "NCL",
    ) -> None:
        window = kernel_size, stride, padding, dilation, groups
        attrs = weight_attr, bias_attr
        super().__init__(in_channels, out_channels, window, attrs, data_format, True, output_padding=output_padding)


class Conv2DTranspose(_Transposed):
    """Transpose a convolution of [N, C, H, W], with filters of shape [in_channels, out_channels / groups, height, width].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: height and width of the filters, or one number for both.
        stride: that of the convolution whose transpose this is, in the same form.
        padding: its border: one number, one for each axis, [top, bottom, left, right], pairs for all four axes, 'SAME' or 'VALID'.
        output_padding: numbers added to the sizes of the result at the end of each axis, in the form of ``kernel_size``.
        dilation: distance between the elements of a window, in the form of ``kernel_size``.
        groups: channels are cut into so many independent groups.
        weight_attr: attributes of the filters, which start as Xavier's: a ParamAttr, an initializer or a name.
        bias_attr: the same for the bias, which starts at 0; False for none.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if ``groups`` does not divide the channels.

    Example:
        >>> paddle.nn.Conv2DTranspose(3, 4, 2, stride=2)(paddle.ones([2, 3, 4, 4])).shape
        [2, 4, 8, 8]
    """

    @checked_with_words
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Padding = 0,
        output_padding: Numbers = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout2D = "NCHW",
    ) -> None:
        window = kernel_size, stride, padding, dilation, groups
        attrs = weight_attr, bias_attr
        super().__init__(in_channels, out_channels, window, attrs, data_format, True, output_padding=output_padding)


class Conv3DTranspose(_Transposed):
    """Transpose a convolution of [N, C, D, H, W], with filters of shape [in_channels, out_channels / groups, depth, height, width].

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: depth, height and width of the filters, or one number for all.
        stride: that of the convolution whose transpose this is, in the same form.
        padding: its border: one number, one for each axis, [front, back, top, bottom, left, right], pairs for all five axes, 'SAME'
            or 'VALID'.
        output_padding: numbers added to the sizes of the result at the end of each axis, in the form of ``kernel_size``.
        dilation: distance between the elements of a window, in the form of ``kernel_size``.
        groups: channels are cut into so many independent groups.
        weight_attr: attributes of the filters, which start as Xavier's: a ParamAttr, an initializer or a name.
        bias_attr: the same for the bias, which starts at 0; False for none.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or if ``groups`` does not divide the channels.

    Example:
        >>> paddle.nn.Conv3DTranspose(3, 4, 2, stride=2)(paddle.ones([2, 3, 2, 2, 2])).shape
        [2, 4, 4, 4, 4]
    """

    @checked_with_words
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Padding = 0,
        output_padding: Numbers = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout3D = "NCDHW",
    ) -> None:
        window = kernel_size, stride, padding, dilation, groups
        attrs = weight_attr, bias_attr
        super().__init__(in_channels, out_channels, window, attrs, data_format, True, output_padding=output_padding)


# Tables and products -------------------------------------------------------------------------------------------------


class Embedding(Layer):
    """Look up rows of an embedding by integer.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of a row.
        padding_idx: index whose row is 0 and receives no gradient; a negative one counts from the end.
        max_norm: rows read are scaled down to this norm; None for no limit.
        norm_type: the p of this p-norm.
        scale_grad_by_freq: accepted for compatibility: it changes no gradient in Paddle either.
        sparse: whether ``Adam(lazy_mode=True)`` leaves the rows alone that a batch does not look up.
        _weight: the embedding itself, in place of a new one.
        _freeze: True to compute no gradient of it.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        dtype: element type of the embedding; the default one unless given.
        weight_attr: attributes of the embedding, which starts as Xavier's: a ParamAttr, an initializer or a name.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: if ``padding_idx`` lies outside the rows.

    Example:
        >>> paddle.nn.Embedding(10, 4)(paddle.to_tensor([[1, 2, 9]])).shape
        [1, 3, 4]
    """

    @checked_with_words
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        *,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device = None,
        dtype: FloatName | DType | None = None,
        weight_attr: WeightAttr = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._make_in(device, dtype)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(f"Embedding: padding_idx {padding_idx} lies outside the {num_embeddings} rows.")
        self._num_embeddings, self._embedding_dim, self._sparse = num_embeddings, embedding_dim, sparse
        self._max_norm, self._norm_type = max_norm, norm_type
        self._padding_idx = padding_idx
        if _weight is not None and list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise Mismatch(f"Embedding: _weight has shape {_weight.shape}, not {[num_embeddings, embedding_dim]}.")
        if isinstance(_weight, EagerParameter):
            self.weight = _weight
        else:
            self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr)
            if _weight is not None:
                self.weight.set_value(_weight.astype(self.weight.dtype))
        if _freeze:
            self.weight.stop_gradient = True
        if self._padding_idx is not None:
            rows = self.weight.numpy()
            rows[self._padding_idx] = 0
            self.weight.set_value(rows)

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Look up a row for each index.

        Args:
            x: int32 or int64 indices of any shape.

        Returns:
            Floats [..., embedding_dim].
        """
        return F.embedding(x, self.weight, self._padding_idx, self._max_norm, self._norm_type, self._sparse)

    def extra_repr(self) -> str:
        padded = "" if self._padding_idx is None else f", padding_idx={self._padding_idx}"
        return f"{self._num_embeddings}, {self._embedding_dim}{padded}, sparse={self._sparse}, scale_grad_by_freq=False"


class Bilinear(Layer):
    """Compute ``x1[b, i] weight[o, i, j] x2[b, j] + bias[o]``.

    Args:
        in1_features: the size of a row of the first input.
        in2_features: that of the second.
        out_features: the size of a row of the result.
        weight_attr: attributes of the weight, which starts as Xavier's: a ParamAttr, an initializer or a name.
        bias_attr: the same for the bias, which starts at 0; False for none.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Bilinear(3, 4, 5)(paddle.ones([2, 3]), paddle.ones([2, 4])).shape
        [2, 5]
    """

    @checked_with_words
    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: WeightAttr = None,
        bias_attr: BiasAttr = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)
        self._features, self._user_name = (in1_features, in2_features, out_features), name

    def extra_repr(self) -> str:
        first, second, out = self._features
        named = "" if self._user_name is None else f", name={self._user_name}"
        return f"in1_features={first}, in2_features={second}, out_features={out}, dtype={self._dtype}{named}"

    def forward(self, x1: AnyTensor, x2: AnyTensor) -> AnyTensor:
        """Multiply two rows with the weight.

        Args:
            x1: floats [N, in1_features].
            x2: floats [N, in2_features].

        Returns:
            Floats [N, out_features].
        """
        return F.bilinear(x1, x2, self.weight, self.bias)


class PReLU(Layer):
    """Compute max(x, 0) + weight * min(x, 0). He et al. 2015.

    Args:
        num_parameters: 1 for one weight, or the number of channels.
        init: what the weights start with.
        weight_attr: attributes of the weights: a ParamAttr, an initializer or a name.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        name: shown in the printed form.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.PReLU()(paddle.to_tensor([-4.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    @checked_with_words
    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: WeightAttr = None,
        data_format: Layout = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_parameters, self._init, self._data_format, self._user_name = num_parameters, init, data_format, name
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(init))

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Multiply the negative elements by the weight.

        Args:
            x: floats of any shape; [N, channels, ...] for weights per channel.

        Returns:
            Floats of that shape.
        """
        return F.prelu(x, self._weight, data_format=self._data_format)

    def extra_repr(self) -> str:
        named = "" if self._user_name is None else f", name={self._user_name}"
        shown = f"num_parameters={self._num_parameters}, data_format={self._data_format}, init={self._init}"
        return f"{shown}, dtype={self._dtype}{named}"


# Normalisation -------------------------------------------------------------------------------------------------------


class LayerNorm(Layer):
    """Normalise over the last axes, then scale and shift. Ba, Kiros and Hinton 2016.

    Args:
        normalized_shape: sizes of the last axes, or that of the last one.
        epsilon: added to the variance.
        elementwise_affine: False for neither scale nor shift.
        bias: False for no shift.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        dtype: element type of scale and shift; the default one unless given.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.LayerNorm(4)(paddle.ones([2, 3, 4])).shape
        [2, 3, 4]
    """

    @checked_with_words
    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-05,
        *,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: FloatName | DType | None = None,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._make_in(device, dtype)
        self._normalized_shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self._epsilon = epsilon
        size = math.prod(self._normalized_shape)
        self.weight = self.create_parameter([size], weight_attr if elementwise_affine else False, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([size], bias_attr if elementwise_affine and bias else False, is_bias=True)

    def forward(self, input: AnyTensor) -> AnyTensor:
        """Normalise, scale and shift.

        Args:
            input: floats [..., *normalized_shape].

        Returns:
            Floats of that shape.
        """
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class GroupNorm(Layer):
    """Normalise each group of channels of each sample, then scale and shift each channel. Wu and He 2018.

    Args:
        num_groups: into how many groups the channels are cut.
        num_channels: channels of the input.
        epsilon: added to the variance.
        affine: False for neither scale nor shift.
        device: ``"cpu"``, ``CPUPlace()`` or None.
        dtype: element type of scale and shift; the default one unless given.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: if the groups do not divide the channels.

    Example:
        >>> paddle.nn.GroupNorm(2, 4)(paddle.ones([2, 4, 3, 3])).shape
        [2, 4, 3, 3]
    """

    @checked_with_words
    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-05,
        *,
        affine: bool = True,
        device: Device = None,
        dtype: FloatName | DType | None = None,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._make_in(device, dtype)
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: {num_channels} channels cannot be cut into {num_groups} groups.")
        self._num_groups, self._num_channels = num_groups, num_channels
        self._epsilon, self._data_format = epsilon, data_format
        self.weight = self.create_parameter([num_channels], weight_attr if affine else False, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr if affine else False, is_bias=True)

    def forward(self, input: AnyTensor) -> AnyTensor:
        """Normalise, scale and shift.

        Args:
            input: floats [N, num_channels, ...], or channels last.

        Returns:
            Floats of that shape.
        """
        return F.group_norm(input, self._num_groups, self._epsilon, self.weight, self.bias, self._data_format)

    def extra_repr(self) -> str:
        return f"num_groups={self._num_groups}, num_channels={self._num_channels}, epsilon={self._epsilon}"


class _OfChannels(Layer):
    """Base of normalisations of each channel."""

    ranks: tuple[int, ...] = ()
    """How many axes an input has; empty for any number."""

    def _check_rank(self, input: Variable) -> None:
        if self.ranks and input.ndim not in self.ranks:
            raise ArgumentError(f"{type(self).__name__} takes {' or '.join(map(str, self.ranks))} axes, not {input.ndim}.")


class _BatchNorm(_OfChannels):
    """Base of batch normalisations: by the batch in training, which also moves the running statistics, else by these."""

    _mean: Tensor
    _variance: Tensor

    def __init__(
        self,
        num_features: int,
        momentum: float,
        epsilon: float,
        weight_attr: BiasAttr,
        bias_attr: BiasAttr,
        data_format: Layout,
        use_global_stats: bool | None,
        name: str | None,
    ) -> None:
        super().__init__()
        if self._dtype == "float16":
            self.__dict__["_dtype"] = "float32"  # as in Paddle: squares of float16 overflow
        dtype: FloatName = "float64" if self._dtype == "float64" else "float32"
        zeros, ones = (ParamAttr(initializer=Constant(value), trainable=False) for value in (0.0, 1.0))
        self._num_features, self._momentum, self._epsilon, self._user_name = num_features, momentum, epsilon, name
        self._data_format, self._use_global_stats = data_format, use_global_stats
        self.weight = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)
        # Parameters that no optimizer moves, as in Paddle: what goes over ``parameters()`` finds the statistics too.
        self._mean = self.create_parameter([num_features], zeros, dtype)
        self._variance = self.create_parameter([num_features], ones, dtype)

    def forward(self, input: AnyTensor) -> AnyTensor:
        """Normalise, scale and shift.

        Args:
            input: floats [N, num_features, ...], or channels last.

        Returns:
            Floats of that shape.
        """
        self._check_rank(input)
        tensors = self._mean, self._variance, self.weight, self.bias
        options = self._momentum, self._epsilon, self._data_format, self._use_global_stats
        return F.batch_norm(input, *tensors, self.training, *options)

    def extra_repr(self) -> str:
        layout = "" if self._data_format == "NCHW" else f", data_format={self._data_format}"
        named = "" if self._user_name is None else f", name={self._user_name}"
        return f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}{layout}{named}"


class BatchNorm1D(_BatchNorm):
    """Normalise each channel of [N, C] or [N, C, L]: by the batch in training, else by running statistics. Ioffe and Szegedy 2015.

    Args:
        num_features: channels of the input.
        momentum: the part of the running statistics that a step keeps.
        epsilon: added to the variance.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        use_global_stats: True for the running statistics in training too.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.BatchNorm1D(3)(paddle.ones([2, 3, 4])).shape
        [2, 3, 4]
    """

    ranks = (2, 3)

    @checked_with_words
    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout = "NCL",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class BatchNorm2D(_BatchNorm):
    """Normalise each channel of [N, C, H, W]: by the batch in training, else by running statistics. Ioffe and Szegedy 2015.

    Args:
        num_features: channels of the input.
        momentum: the part of the running statistics that a step keeps.
        epsilon: added to the variance.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        use_global_stats: True for the running statistics in training too.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.BatchNorm2D(3)(paddle.ones([2, 3, 4, 4])).shape
        [2, 3, 4, 4]
    """

    ranks = (4,)

    @checked_with_words
    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class BatchNorm3D(_BatchNorm):
    """Normalise each channel of [N, C, D, H, W]: by the batch in training, else by running statistics. Ioffe and Szegedy 2015.

    Args:
        num_features: channels of the input.
        momentum: the part of the running statistics that a step keeps.
        epsilon: added to the variance.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        use_global_stats: True for the running statistics in training too.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.BatchNorm3D(3)(paddle.ones([2, 3, 2, 4, 4])).shape
        [2, 3, 2, 4, 4]
    """

    ranks = (5,)

    @checked_with_words
    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout = "NCDHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)


class SyncBatchNorm(_BatchNorm):
    """Normalise each channel by the batch of all processes. In one process it normalises by its batch.

    Args:
        num_features: channels of the input.
        momentum: the part of the running statistics that a step keeps.
        epsilon: added to the variance.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        use_global_stats: True for the running statistics in training too.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.SyncBatchNorm(3)(paddle.ones([2, 3, 4])).shape
        [2, 3, 4]
    """

    @checked_with_words
    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name)

    @classmethod
    def convert_sync_batchnorm(cls, layer: AnyLayer) -> AnyLayer:
        """Return the layer itself: an eager layer lives in one process.

        Args:
            layer: any layer.
        """
        return layer


class BatchNorm(_BatchNorm):
    """Normalise each channel of any number of axes, with Paddle 1's arguments, then apply an activation.

    Args:
        num_channels: channels of the input.
        act: a function of ``nn.functional`` that is applied last, such as 'relu'; None for none.
        is_test: start in inference.
        momentum: the part of the running statistics that a step keeps.
        epsilon: added to the variance.
        param_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0.
        dtype: accepted as in Paddle.
        data_layout: channels are on axis 1 if its second letter is C, else on the last axis.
        in_place, moving_mean_name, moving_variance_name: accepted as in Paddle.
        do_model_average_for_mean_and_var, trainable_statistics: accepted as in Paddle.
        use_global_stats: True for the running statistics in training too.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.BatchNorm(3, act="relu")(paddle.ones([2, 3, 4])).shape
        [2, 3, 4]
    """

    @checked_with_words
    def __init__(
        self,
        num_channels: int,
        act: Activation | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        dtype: FloatName = "float32",
        data_layout: Layout = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool | None = False,
        trainable_statistics: bool = False,
    ) -> None:
        super().__init__(num_channels, momentum, epsilon, param_attr, bias_attr, data_layout, use_global_stats, None)
        self._act = act
        if is_test:
            self.eval()

    def forward(self, input: AnyTensor) -> AnyTensor:
        """Normalise, scale and shift, and apply the activation.

        Args:
            input: floats [N, num_channels, ...], or channels last.

        Returns:
            Floats of that shape.
        """
        y = super().forward(input)
        return y if self._act is None else cast(AnyTensor, getattr(F, self._act)(y))

    def extra_repr(self) -> str:
        return ""


class _InstanceNorm(_OfChannels):
    """Base of instance normalisations."""

    def __init__(
        self,
        num_features: int,
        epsilon: float,
        momentum: float,
        weight_attr: BiasAttr,
        bias_attr: BiasAttr,
        data_format: Layout,
    ) -> None:
        super().__init__()
        if (weight_attr is False) != (bias_attr is False):
            raise ArgumentError(f"{type(self).__name__}: weight_attr and bias_attr are both False, or neither is.")
        self._num_features, self._epsilon = num_features, epsilon
        self._momentum, self._data_format = momentum, data_format
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)

    def forward(self, input: AnyTensor) -> AnyTensor:
        """Normalise, scale and shift.

        Args:
            input: floats [N, num_features, ...].

        Returns:
            Floats of that shape.
        """
        self._check_rank(input)
        options = True, self._momentum, self._epsilon, self._data_format
        return F.instance_norm(input, None, None, self.scale, self.bias, *options)

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


class InstanceNorm1D(_InstanceNorm):
    """Normalise each channel of each sample of [N, C] or [N, C, L] by itself. Ulyanov, Vedaldi and Lempitsky 2016.

    Args:
        num_features: channels of the input.
        epsilon: added to the variance.
        momentum: accepted as in Paddle; there are no running statistics.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0; False for none, as ``weight_attr``.
        data_format: accepted as in Paddle; channels are on axis 1.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: if only one of scale and shift is False.

    Example:
        >>> paddle.nn.InstanceNorm1D(3)(paddle.ones([2, 3, 4])).shape
        [2, 3, 4]
    """

    ranks = (2, 3)

    @checked_with_words
    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format)


class InstanceNorm2D(_InstanceNorm):
    """Normalise each channel of each sample of [N, C, H, W] by itself. Ulyanov, Vedaldi and Lempitsky 2016.

    Args:
        num_features: channels of the input.
        epsilon: added to the variance.
        momentum: accepted as in Paddle; there are no running statistics.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0; False for none, as ``weight_attr``.
        data_format: accepted as in Paddle; channels are on axis 1.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: if only one of scale and shift is False.

    Example:
        >>> paddle.nn.InstanceNorm2D(3)(paddle.ones([2, 3, 4, 4])).shape
        [2, 3, 4, 4]
    """

    ranks = (4,)

    @checked_with_words
    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format)


class InstanceNorm3D(_InstanceNorm):
    """Normalise each channel of each sample of [N, C, D, H, W] by itself. Ulyanov, Vedaldi and Lempitsky 2016.

    Args:
        num_features: channels of the input.
        epsilon: added to the variance.
        momentum: accepted as in Paddle; there are no running statistics.
        weight_attr: attributes of the scale, which starts at 1: a ParamAttr, an initializer or a name; False for none.
        bias_attr: the same for the shift, which starts at 0; False for none, as ``weight_attr``.
        data_format: accepted as in Paddle; channels are on axis 1.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: if only one of scale and shift is False.

    Example:
        >>> paddle.nn.InstanceNorm3D(3)(paddle.ones([2, 3, 2, 4, 4])).shape
        [2, 3, 2, 4, 4]
    """

    ranks = (5,)

    @checked_with_words
    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: BiasAttr = None,
        bias_attr: BiasAttr = None,
        data_format: Layout = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(num_features, epsilon, momentum, weight_attr, bias_attr, data_format)


class SpectralNorm(Layer):
    """Divide a weight by its largest singular value, by power iteration. Miyato et al. 2018.

    Each call moves the two vectors by ``power_iters`` steps.

    Args:
        weight_shape: the sizes of the weight.
        dim: the axis whose entries are the rows of the matrix.
        power_iters: steps of the iteration in each call.
        eps: added to the lengths of the vectors.
        dtype: element type of the vectors.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.SpectralNorm([2, 3], power_iters=2)(paddle.ones([2, 3])).shape
        [2, 3]
    """

    @checked_with_words
    def __init__(
        self,
        weight_shape: Sequence[int],
        dim: int = 0,
        power_iters: int = 1,
        eps: float = 1e-12,
        dtype: FloatName = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=dtype)
        self._dim, self._power_iters, self._epsilon = dim, power_iters, eps
        height, normal = weight_shape[dim], Normal(0.0, 1.0)
        self.weight_u = self.create_parameter([height], default_initializer=normal)
        self.weight_v = self.create_parameter([math.prod(weight_shape) // height], default_initializer=normal)
        self.weight_u.stop_gradient = self.weight_v.stop_gradient = True

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Divide a weight by its largest singular value.

        Args:
            x: floats of shape ``weight_shape``.

        Returns:
            Floats of that shape.
        """
        vectors = (self.weight_u, self.weight_v)
        y, u, v = divided_by_spectral_norm(x, *vectors, self._dim, self._power_iters, self._epsilon)
        if self._power_iters and x.is_eager:
            self.weight_u.set_value(cast(Tensor, u.detach()))
            self.weight_v.set_value(cast(Tensor, v.detach()))
        return cast(AnyTensor, y)
