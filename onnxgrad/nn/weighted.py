"""Layers with parameters, each a function of nn.functional with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.eager.tensor import leaf
from onnxgrad.errors import ArgumentError
from onnxgrad.nn import functional as F
from onnxgrad.nn.functional.norm import divided_by_spectral_norm
from onnxgrad.nn.layer import Layer
from onnxgrad.tensor.initializer import Constant, Normal

__all__ = [
    "BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "Bilinear", "Conv1D", "Conv1DTranspose", "Conv2D",
    "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Embedding", "GroupNorm", "InstanceNorm1D", "InstanceNorm2D",
    "InstanceNorm3D", "LayerNorm", "Linear", "PReLU", "SpectralNorm", "SyncBatchNorm",
]  # fmt: skip

_FORMATS = {1: "NCL", 2: "NCHW", 3: "NCDHW"}


class Linear(Layer):
    """``x @ weight + bias`` with a weight of shape [in_features, out_features].

    Example:
        >>> paddle.nn.Linear(3, 4)(paddle.to_tensor(np.ones((2, 3), np.float32))).shape
        [2, 4]
    """

    def __init__(
        self, in_features: int, out_features: int, weight_attr: Any = None, bias_attr: Any = None, name: str | None = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._dtype}"


class _Conv(Layer):
    """Convolution with filters of shape [out_channels, in_channels / groups, *kernel]."""

    axes = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
    ) -> None:
        super().__init__()
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ArgumentError(f"padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', not {padding_mode!r}.")
        kernel = self._kernel(in_channels, out_channels, kernel_size, groups)
        self._options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self._options["data_format"] = data_format or _FORMATS[self.axes]
        self._border = None if padding_mode == "zeros" else padding_mode
        normal = Normal(0.0, math.sqrt(2.0 / (math.prod(kernel) * in_channels)))
        self.weight = self.create_parameter([out_channels, in_channels // groups, *kernel], weight_attr, default_initializer=normal)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def _kernel(self, in_channels: int, out_channels: int, size: Any, groups: int) -> list[int]:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{in_channels} and {out_channels} channels cannot be cut into {groups} groups.")
        return [size] * self.axes if isinstance(size, int) else list(size)

    def forward(self, x: Any) -> Any:
        options = self._options
        if self._border is not None:
            sizes = options["padding"]
            sizes = [sizes] * self.axes if isinstance(sizes, int) else list(sizes)
            pairs = [n for size in reversed(sizes) for n in ((size, size) if isinstance(size, int) else size)]
            if len(sizes) == 2 * self.axes:
                pairs = [n for at in range(len(sizes) - 2, -1, -2) for n in sizes[at : at + 2]]
            x = F.pad(x, pairs, mode=self._border, data_format=options["data_format"])
            options = {**options, "padding": 0}
        return getattr(F, f"conv{self.axes}d")(x, self.weight, self.bias, **options)


class Conv1D(_Conv):
    """Convolution of [N, C, L]."""

    axes = 1


class Conv2D(_Conv):
    """Convolution of [N, C, H, W] with filters of shape [out_channels, in_channels / groups, height, width]."""


class Conv3D(_Conv):
    """Convolution of [N, C, D, H, W]."""

    axes = 3


class _ConvTranspose(_Conv):
    """Transposed convolution with filters of shape [in_channels, out_channels / groups, *kernel]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
    ) -> None:
        Layer.__init__(self)
        kernel = self._kernel(in_channels, out_channels, kernel_size, groups)
        self._options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self._options |= {"output_padding": output_padding, "data_format": data_format or _FORMATS[self.axes]}
        self.weight = self.create_parameter([in_channels, out_channels // groups, *kernel], weight_attr)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x: Any, output_size: Any = None) -> Any:
        options = self._options if output_size is None else {**self._options, "output_padding": 0, "output_size": output_size}
        return getattr(F, f"conv{self.axes}d_transpose")(x, self.weight, self.bias, **options)


class Conv2DTranspose(_ConvTranspose):
    """Transposed convolution of [N, C, H, W]."""


class Conv3DTranspose(_ConvTranspose):
    """Transposed convolution of [N, C, D, H, W]."""

    axes = 3


class Conv1DTranspose(_ConvTranspose):
    """Transposed convolution of [N, C, L]."""

    axes = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        given = (in_channels, out_channels, kernel_size, stride, padding, output_padding)
        super().__init__(*given, dilation, groups, weight_attr, bias_attr, data_format)


class Embedding(Layer):
    """Rows of an embedding, looked up by integer."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
        *,
        max_norm: float | None = None,
        norm_type: float = 2.0,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(f"Embedding: padding_idx {padding_idx} lies outside the {num_embeddings} rows.")
        self._options: dict[str, Any] = {"max_norm": max_norm, "norm_type": norm_type, "sparse": sparse}
        self._options["padding_idx"] = padding_idx if padding_idx is None else padding_idx % num_embeddings
        self._sizes = (num_embeddings, embedding_dim)
        self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr)
        if padding_idx is not None:
            rows = self.weight.numpy()
            rows[padding_idx] = 0
            self.weight.set_value(rows)

    def forward(self, x: Any) -> Any:
        return F.embedding(x, self.weight, **self._options)

    def extra_repr(self) -> str:
        return f"{self._sizes[0]}, {self._sizes[1]}, sparse={self._options['sparse']}"


class Bilinear(Layer):
    """``x1[b, i] weight[o, i, j] x2[b, j] + bias[o]``."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.weight = self.create_parameter([out_features, in1_features, in2_features], weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)

    def forward(self, x1: Any, x2: Any) -> Any:
        return F.bilinear(x1, x2, self.weight, self.bias)


class PReLU(Layer):
    """max(x, 0) + weight * min(x, 0). He et al. 2015."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._data_format = data_format
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(init))

    def forward(self, x: Any) -> Any:
        return F.prelu(x, self._weight, data_format=self._data_format)


class LayerNorm(Layer):
    """Normalise over the last axes, then scale and shift. Ba, Kiros and Hinton 2016."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._normalized_shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self._epsilon = epsilon
        self._scaled([math.prod(self._normalized_shape)], weight_attr, bias_attr)

    def _scaled(self, shape: list[int], weight_attr: Any, bias_attr: Any) -> None:
        """Make a scale that starts as 1 and a shift that starts as 0."""
        self.weight = self.create_parameter(shape, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(shape, bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class GroupNorm(LayerNorm):
    """Normalise each group of channels of each sample. Wu and He 2018."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        Layer.__init__(self)
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(f"GroupNorm: {num_channels} channels cannot be cut into {num_groups} groups.")
        self._num_groups, self._epsilon, self._data_format = num_groups, epsilon, data_format
        self._scaled([num_channels], weight_attr, bias_attr)

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self._num_groups, self._epsilon, self.weight, self.bias, self._data_format)

    def extra_repr(self) -> str:
        return f"num_groups={self._num_groups}, epsilon={self._epsilon}"


def _check_rank(layer: Any, input: Any) -> None:
    if layer.ranks and input.ndim not in layer.ranks:
        raise ArgumentError(f"{type(layer).__name__} takes {' or '.join(map(str, layer.ranks))} axes, not {input.ndim}.")


class _BatchNorm(LayerNorm):
    """Normalise each channel: by the batch in training, which also moves the running statistics, else by these."""

    ranks: tuple[int, ...] = ()
    """How many axes an input has; empty for any number."""

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        Layer.__init__(self)
        self._options: dict[str, Any] = {"momentum": momentum, "epsilon": epsilon, "use_global_stats": use_global_stats}
        self._options["data_format"] = data_format
        self._num_features = num_features
        self._scaled([num_features], weight_attr, bias_attr)
        kind = np.float64 if self._dtype == "float64" else np.float32
        self.register_buffer("_mean", leaf(np.zeros(num_features, kind)))
        self.register_buffer("_variance", leaf(np.ones(num_features, kind)))

    def forward(self, input: Any) -> Any:
        _check_rank(self, input)
        return F.batch_norm(input, self._mean, self._variance, self.weight, self.bias, self.training, **self._options)

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, momentum={self._options['momentum']}, epsilon={self._options['epsilon']}"


class BatchNorm1D(_BatchNorm):
    """Batch normalisation of [N, C] or [N, C, L]. Ioffe and Szegedy 2015."""

    ranks = (2, 3)


class BatchNorm2D(_BatchNorm):
    """Batch normalisation of [N, C, H, W]. Ioffe and Szegedy 2015."""

    ranks = (4,)


class BatchNorm3D(_BatchNorm):
    """Batch normalisation of [N, C, D, H, W]. Ioffe and Szegedy 2015."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation; in one process it is that of its batch."""

    @classmethod
    def convert_sync_batchnorm(cls, layer: Layer) -> Layer:
        """The layer itself."""
        return layer


class BatchNorm(_BatchNorm):
    """Batch normalisation of any number of axes, with Paddle 1's arguments, followed by an activation."""

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: str = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        super().__init__(num_channels, momentum, epsilon, param_attr, bias_attr, data_layout, use_global_stats)
        self._act = act
        if is_test:
            self.eval()

    def forward(self, input: Any) -> Any:
        y = super().forward(input)
        return y if self._act is None else getattr(F, self._act)(y)


class _InstanceNorm(LayerNorm):
    """Normalise each channel of each sample by itself. Ulyanov, Vedaldi and Lempitsky 2016."""

    ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-05,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        Layer.__init__(self)
        if (weight_attr is False) != (bias_attr is False):
            raise ArgumentError("weight_attr and bias_attr of an instance norm are both False, or neither is.")
        self._num_features = num_features
        self._options: dict[str, Any] = {"eps": epsilon, "momentum": momentum, "data_format": data_format}
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        _check_rank(self, input)
        return F.instance_norm(input, weight=self.scale, bias=self.bias, **self._options)

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, epsilon={self._options['eps']}"


class InstanceNorm1D(_InstanceNorm):
    """Instance normalisation of [N, C] or [N, C, L]."""

    ranks = (2, 3)


class InstanceNorm2D(_InstanceNorm):
    """Instance normalisation of [N, C, H, W]."""

    ranks = (4,)


class InstanceNorm3D(_InstanceNorm):
    """Instance normalisation of [N, C, D, H, W]."""

    ranks = (5,)


class SpectralNorm(Layer):
    """A weight divided by its largest singular value, by power iteration. Miyato et al. 2018.

    Each call moves the two vectors by ``power_iters`` steps.
    """

    def __init__(
        self,
        weight_shape: Sequence[int],
        dim: int = 0,
        power_iters: int = 1,
        epsilon: float = 1e-12,
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=dtype)
        self._dim, self._power_iters, self._epsilon = dim, power_iters, epsilon
        height = weight_shape[dim]
        normal = Normal(0.0, 1.0)
        self.weight_u = self.create_parameter([height], default_initializer=normal)
        self.weight_v = self.create_parameter([math.prod(weight_shape) // height], default_initializer=normal)
        self.weight_u.stop_gradient = self.weight_v.stop_gradient = True

    def forward(self, x: Any) -> Any:
        vectors = (self.weight_u, self.weight_v)
        y, u, v = divided_by_spectral_norm(x, *vectors, self._dim, self._power_iters, self._epsilon)
        if self._power_iters and x.is_eager:
            self.weight_u.set_value(u.detach())
            self.weight_v.set_value(v.detach())
        return y
