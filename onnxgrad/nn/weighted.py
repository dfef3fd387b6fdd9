"""Layers with parameters, each a function of nn.functional with them.

Tests: tests/nn/test_layers_as_paddle.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnxgrad.eager.tensor import leaf
from onnxgrad.errors import ArgumentError
from onnxgrad.nn import functional as F
from onnxgrad.nn.functional.norm import divided_by_spectral_norm
from onnxgrad.nn.layer import Layer, MadeLayer
from onnxgrad.tensor.initializer import Constant, Normal

__all__ = [
    "BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "Bilinear", "Conv1D", "Conv1DTranspose", "Conv2D",
    "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Embedding", "GroupNorm", "InstanceNorm1D", "InstanceNorm2D",
    "InstanceNorm3D", "LayerNorm", "Linear", "PReLU", "SpectralNorm", "SyncBatchNorm",
]  # fmt: skip

_FORMATS = {1: "NCL", 2: "NCHW", 3: "NCDHW"}


class Linear(MadeLayer):
    """``x @ weight + bias`` with a weight of shape [in_features, out_features].

    Example:
        >>> paddle.nn.Linear(3, 4)(paddle.to_tensor(np.ones((2, 3), np.float32))).shape
        [2, 4]
    """

    takes = "in_features, out_features, weight_attr=None, bias_attr=None, name=None"

    def _make(self, args: Any) -> None:
        self.in_features, self.out_features = args.in_features, args.out_features
        self.weight = self.create_parameter([self.in_features, self.out_features], args.weight_attr)
        self.bias = self.create_parameter([self.out_features], args.bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._dtype}"


class _Conv(MadeLayer):
    """Convolution with filters of shape [out_channels, in_channels / groups, *kernel]."""

    axes = 2
    transposed = False

    takes = (
        "in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, padding_mode='zeros', "
        "weight_attr=None, bias_attr=None, data_format=None"
    )

    def _make(self, args: Any) -> None:
        if args.padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ArgumentError(f"padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', not {args.padding_mode!r}.")
        self._border = None if args.padding_mode == "zeros" else args.padding_mode
        self._filters(args, "stride padding dilation groups")

    def _filters(self, args: Any, options: str) -> None:
        """Filters, which start normal unless transposed, a bias, and the options of the function."""
        inputs, filters, size, groups = args.in_channels, args.out_channels, args.kernel_size, args.groups
        if groups < 1 or inputs % groups or filters % groups:
            raise ArgumentError(f"{inputs} and {filters} channels cannot be cut into {groups} groups.")
        kernel = [size] * self.axes if isinstance(size, int) else list(size)
        self._options = {key: getattr(args, key) for key in options.split()}
        self._options["data_format"] = args.data_format or _FORMATS[self.axes]
        normal = None if self.transposed else Normal(0.0, math.sqrt(2.0 / (math.prod(kernel) * inputs)))
        channels = [inputs, filters // groups] if self.transposed else [filters, inputs // groups]
        self.weight = self.create_parameter([*channels, *kernel], args.weight_attr, default_initializer=normal)
        self.bias = self.create_parameter([filters], args.bias_attr, is_bias=True)

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

    transposed = True
    takes = (
        "in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, dilation=1, groups=1, "
        "weight_attr=None, bias_attr=None, data_format=None"
    )

    def _make(self, args: Any) -> None:
        self._filters(args, "stride padding dilation groups output_padding")

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

    takes = (
        "in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, dilation=1, "
        "weight_attr=None, bias_attr=None, data_format='NCL'"
    )


class Embedding(MadeLayer):
    """Rows of an embedding, looked up by integer."""

    takes = (
        "num_embeddings, embedding_dim, padding_idx=None, sparse=False, weight_attr=None, name=None, *, "
        "max_norm=None, norm_type=2.0"
    )

    def _make(self, args: Any) -> None:
        count, at = args.num_embeddings, args.padding_idx
        if at is not None and not -count <= at < count:
            raise ArgumentError(f"Embedding: padding_idx {at} lies outside the {count} rows.")
        self._options = {"max_norm": args.max_norm, "norm_type": args.norm_type, "sparse": args.sparse}
        self._options["padding_idx"] = at if at is None else at % count
        self._sizes = (count, args.embedding_dim)
        self.weight = self.create_parameter(list(self._sizes), args.weight_attr)
        if at is not None:
            rows = self.weight.numpy()
            rows[at] = 0
            self.weight.set_value(rows)

    def forward(self, x: Any) -> Any:
        return F.embedding(x, self.weight, **self._options)

    def extra_repr(self) -> str:
        return f"{self._sizes[0]}, {self._sizes[1]}, sparse={self._options['sparse']}"


class Bilinear(MadeLayer):
    """``x1[b, i] weight[o, i, j] x2[b, j] + bias[o]``."""

    takes = "in1_features, in2_features, out_features, weight_attr=None, bias_attr=None, name=None"

    def _make(self, args: Any) -> None:
        shape = [args.out_features, args.in1_features, args.in2_features]
        self.weight = self.create_parameter(shape, args.weight_attr)
        self.bias = self.create_parameter([1, args.out_features], args.bias_attr, is_bias=True)

    def forward(self, x1: Any, x2: Any) -> Any:
        return F.bilinear(x1, x2, self.weight, self.bias)


class PReLU(MadeLayer):
    """max(x, 0) + weight * min(x, 0). He et al. 2015."""

    takes = "num_parameters=1, init=0.25, weight_attr=None, data_format='NCHW', name=None"

    def _make(self, args: Any) -> None:
        self._data_format, self._args, initial = args.data_format, args, Constant(args.init)
        self._weight = self.create_parameter([args.num_parameters], args.weight_attr, default_initializer=initial)

    def forward(self, x: Any) -> Any:
        return F.prelu(x, self._weight, data_format=self._data_format)

    def extra_repr(self) -> str:
        args, layout = self._args, self._data_format
        named = "" if args.name is None else f", name={args.name}"
        return f"num_parameters={args.num_parameters}, data_format={layout}, init={args.init}, dtype={self._dtype}{named}"


class LayerNorm(MadeLayer):
    """Normalise over the last axes, then scale and shift. Ba, Kiros and Hinton 2016."""

    takes = "normalized_shape, epsilon=1e-05, weight_attr=None, bias_attr=None, name=None"

    def _make(self, args: Any) -> None:
        shape = args.normalized_shape
        self._normalized_shape = [shape] if isinstance(shape, int) else list(shape)
        self._epsilon = args.epsilon
        self._scaled([math.prod(self._normalized_shape)], args)

    def _scaled(self, shape: list[int], args: Any, scale: str = "weight") -> None:
        """Make a scale that starts as 1 and a shift that starts as 0."""
        setattr(self, scale, self.create_parameter(shape, args.weight_attr, default_initializer=Constant(1.0)))
        self.bias = self.create_parameter(shape, args.bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class GroupNorm(LayerNorm):
    """Normalise each group of channels of each sample. Wu and He 2018."""

    takes = "num_groups, num_channels, epsilon=1e-05, weight_attr=None, bias_attr=None, data_format='NCHW', name=None"

    def _make(self, args: Any) -> None:
        self._num_groups, self._epsilon, self._data_format = args.num_groups, args.epsilon, args.data_format
        if args.num_groups < 1 or args.num_channels % args.num_groups:
            raise ArgumentError(f"GroupNorm: {args.num_channels} channels cannot be cut into {args.num_groups} groups.")
        self._scaled([args.num_channels], args)

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

    takes = (
        "num_features, momentum=0.9, epsilon=1e-05, weight_attr=None, bias_attr=None, data_format='NCHW', "
        "use_global_stats=None, name=None"
    )

    def _make(self, args: Any) -> None:
        count = args.num_features
        if str(self._dtype) == "float16":
            self.__dict__["_dtype"] = "float32"  # as in Paddle: squares of float16 overflow
        dtype = np.float64 if str(self._dtype) == "float64" else np.float32
        self._num_features = count
        self._options = {key: getattr(args, key) for key in ("momentum", "epsilon", "use_global_stats", "data_format")}
        self._scaled([count], args)
        self.register_buffer("_mean", leaf(np.zeros(count, dtype)))
        self.register_buffer("_variance", leaf(np.ones(count, dtype)))
        self._mean.name, self._variance.name = f"{self.full_name()}.w_1", f"{self.full_name()}.w_2"

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

    takes = (
        "num_channels, act=None, is_test=False, momentum=0.9, epsilon=1e-05, param_attr=None, bias_attr=None, dtype='float32', "
        "data_layout='NCHW', in_place=False, moving_mean_name=None, moving_variance_name=None, "
        "do_model_average_for_mean_and_var=True, use_global_stats=False, trainable_statistics=False"
    )

    def _make(self, args: Any) -> None:
        args.num_features, args.weight_attr, args.data_format = args.num_channels, args.param_attr, args.data_layout
        super()._make(args)
        self._act = args.act
        if args.is_test:
            self.eval()

    def forward(self, input: Any) -> Any:
        y = super().forward(input)
        return y if self._act is None else getattr(F, self._act)(y)


class _InstanceNorm(LayerNorm):
    """Normalise each channel of each sample by itself. Ulyanov, Vedaldi and Lempitsky 2016."""

    ranks: tuple[int, ...] = ()

    takes = "num_features, epsilon=1e-05, momentum=0.9, weight_attr=None, bias_attr=None, data_format='NCHW', name=None"

    def _make(self, args: Any) -> None:
        if (args.weight_attr is False) != (args.bias_attr is False):
            raise ArgumentError("weight_attr and bias_attr of an instance norm are both False, or neither is.")
        self._num_features = args.num_features
        self._options = {"eps": args.epsilon, "momentum": args.momentum, "data_format": args.data_format}
        self._scaled([args.num_features], args, "scale")

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


class SpectralNorm(MadeLayer):
    """A weight divided by its largest singular value, by power iteration. Miyato et al. 2018.

    Each call moves the two vectors by ``power_iters`` steps.
    """

    takes = "weight_shape, dim=0, power_iters=1, epsilon=1e-12, dtype='float32', name=None"

    def _make(self, args: Any) -> None:
        self._dtype, self._dim = args.dtype, args.dim
        self._power_iters, self._epsilon = args.power_iters, args.epsilon
        height, normal = args.weight_shape[args.dim], Normal(0.0, 1.0)
        self.weight_u = self.create_parameter([height], default_initializer=normal)
        self.weight_v = self.create_parameter([math.prod(args.weight_shape) // height], default_initializer=normal)
        self.weight_u.stop_gradient = self.weight_v.stop_gradient = True

    def forward(self, x: Any) -> Any:
        vectors = (self.weight_u, self.weight_v)
        y, u, v = divided_by_spectral_norm(x, *vectors, self._dim, self._power_iters, self._epsilon)
        if self._power_iters and x.is_eager:
            self.weight_u.set_value(u.detach())
            self.weight_v.set_value(v.detach())
        return y
