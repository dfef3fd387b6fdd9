"""The usual layers, each a function of nn.functional with its parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.eager.tensor import leaf
from onnxgrad.nn import functional as F
from onnxgrad.nn.layer import Layer
from onnxgrad.tensor.initializer import Constant, Normal
from onnxgrad.tensor.manipulation import flatten

__all__ = [
    "GELU",
    "AvgPool2D",
    "BatchNorm1D",
    "BatchNorm2D",
    "Conv2D",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "MaxPool2D",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
]


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
        return f"in_features={self.in_features}, out_features={self.out_features}"


class Conv2D(Layer):
    """Convolution of [N, C, H, W] with filters of shape [out_channels, in_channels / groups, height, width]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: Any = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        kernel = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
        self._options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "data_format": data_format}
        if padding_mode != "zeros":
            raise NotImplementedError(f"Conv2D: padding_mode {padding_mode!r} is not offered. Use F.pad before it.")
        normal = Normal(0.0, math.sqrt(2.0 / (math.prod(kernel) * in_channels)))
        self.weight = self.create_parameter([out_channels, in_channels // groups, *kernel], weight_attr, default_initializer=normal)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x: Any) -> Any:
        return F.conv2d(x, self.weight, self.bias, **self._options)


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
    ) -> None:
        super().__init__()
        self._padding, self._sparse = padding_idx, sparse
        self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr)

    def forward(self, x: Any) -> Any:
        return F.embedding(x, self.weight, padding_idx=self._padding, sparse=self._sparse)


class LayerNorm(Layer):
    """Normalise over the last axes, then scale and shift."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        epsilon: float = 1e-05,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self._epsilon = epsilon
        size = [math.prod(self._shape)]
        self.weight = self.create_parameter(size, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(size, bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self._shape, self.weight, self.bias, self._epsilon)


class _BatchNorm(Layer):
    """Normalise each channel: by the batch in training, which also moves the running statistics, else by these."""

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
        super().__init__()
        self._options: dict[str, Any] = {"momentum": momentum, "epsilon": epsilon, "use_global_stats": use_global_stats}
        self._options["data_format"] = data_format
        self.weight = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)
        self.register_buffer("_mean", leaf(np.zeros(num_features, np.float32)))
        self.register_buffer("_variance", leaf(np.ones(num_features, np.float32)))

    def forward(self, x: Any) -> Any:
        return F.batch_norm(x, self._mean, self._variance, self.weight, self.bias, self.training, **self._options)


class BatchNorm1D(_BatchNorm):
    """Batch normalisation of [N, C] or [N, C, L]. Ioffe and Szegedy 2015."""


class BatchNorm2D(_BatchNorm):
    """Batch normalisation of [N, C, H, W]. Ioffe and Szegedy 2015."""


class Dropout(Layer):
    """Zero elements at random in training."""

    def __init__(self, p: float = 0.5, axis: Any = None, mode: str = "upscale_in_train", name: str | None = None) -> None:
        super().__init__()
        self.p, self.axis, self.mode = p, axis, mode

    def forward(self, input: Any) -> Any:
        return F.dropout(input, self.p, axis=self.axis, training=self.training, mode=self.mode)


class Flatten(Layer):
    """Axes ``start_axis`` to ``stop_axis`` merged into one."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self._axes = (start_axis, stop_axis)

    def forward(self, input: Any) -> Any:
        return flatten(input, *self._axes)


class MaxPool2D(Layer):
    """Largest element of each window."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False) -> None:
        super().__init__()
        self._options = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode}
        self._kernel = kernel_size

    def forward(self, x: Any) -> Any:
        return F.max_pool2d(x, self._kernel, **self._options)


class AvgPool2D(Layer):
    """Mean of each window."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, exclusive: bool = True
    ) -> None:
        super().__init__()
        self._options = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode, "exclusive": exclusive}
        self._kernel = kernel_size

    def forward(self, x: Any) -> Any:
        return F.avg_pool2d(x, self._kernel, **self._options)


class ReLU(Layer):
    """max(x, 0)."""

    def forward(self, x: Any) -> Any:
        return F.relu(x)


class Sigmoid(Layer):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Any) -> Any:
        return F.sigmoid(x)


class Tanh(Layer):
    """Hyperbolic tangent."""

    def forward(self, x: Any) -> Any:
        return F.tanh(x)


class GELU(Layer):
    """x times the normal distribution function of x."""

    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__()
        self._approximate = approximate

    def forward(self, x: Any) -> Any:
        return F.gelu(x, self._approximate)


class Softmax(Layer):
    """exp(x) divided by its sum over ``axis``."""

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self._axis = axis

    def forward(self, x: Any) -> Any:
        return F.softmax(x, axis=self._axis)


class CrossEntropyLoss(Layer):
    """Cross-entropy between logits and labels."""

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {
            "ignore_index": ignore_index,
            "reduction": reduction,
            "soft_label": soft_label,
            "axis": axis,
            "use_softmax": use_softmax,
            "label_smoothing": label_smoothing,
        }
        self._weight = weight

    def forward(self, input: Any, label: Any) -> Any:
        return F.cross_entropy(input, label, weight=self._weight, **self._options)


class MSELoss(Layer):
    """Squared difference: its mean, its sum, or each element ('none')."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self._reduction = reduction

    def forward(self, input: Any, label: Any) -> Any:
        return F.mse_loss(input, label, self._reduction)
