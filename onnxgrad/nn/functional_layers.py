"""Layers without parameters: each is a function of nn.functional whose options are passed when it is made.

Written by `scripts/write_layers` from the functions; do not edit.

Tests: tests/paddle_suite/test_layers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

from onnxgrad import tensor
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked_with_words
from onnxgrad.nn import functional as F
from onnxgrad.nn.layers import Border, FunctionLayer
from onnxgrad.nn.types import (
    AnyTensor,
    DropoutMode,
    Layout,
    Layout1D,
    Layout2D,
    Layout3D,
    Numbers,
    Padding,
    PadMode,
    Reduction,
    ResizeMode,
    Sizes,
    SumOrMean,
)
from onnxgrad.tensor.common import Shape, positive

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D", "AdaptiveMaxPool3D", "AlphaDropout", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BCELoss",
    "BCEWithLogitsLoss", "CTCLoss", "ChannelShuffle", "CircularPad1D", "CircularPad2D", "CircularPad3D", "ConstantPad1D",
    "ConstantPad2D", "ConstantPad3D", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "Dropout", "Dropout2D",
    "Dropout3D", "FeatureAlphaDropout", "Flatten", "Fold", "GaussianNLLLoss", "Hardshrink", "Hardsigmoid", "Hardswish",
    "Hardtanh", "HingeEmbeddingLoss", "KLDivLoss", "L1Loss", "LPPool1D", "LPPool2D", "LeakyReLU", "LocalResponseNorm",
    "LogSigmoid", "LogSoftmax", "MSELoss", "MarginRankingLoss", "MaxPool1D", "MaxPool2D", "MaxPool3D", "MaxUnPool1D",
    "MaxUnPool2D", "MaxUnPool3D", "Maxout", "Mish", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "NLLLoss", "Pad1D", "Pad2D", "Pad3D", "PairwiseDistance", "PixelShuffle", "PixelUnshuffle", "PoissonNLLLoss", "RReLU",
    "ReLU", "ReLU6", "ReflectionPad1D", "ReflectionPad2D", "ReflectionPad3D", "ReplicationPad1D", "ReplicationPad2D",
    "ReplicationPad3D", "Sigmoid", "Silu", "SmoothL1Loss", "SoftMarginLoss", "Softmax", "Softplus", "Softshrink", "Softsign",
    "Swish", "Tanh", "Tanhshrink", "ThresholdedReLU", "TripletMarginLoss", "TripletMarginWithDistanceLoss", "Unflatten",
    "Unfold", "Upsample", "UpsamplingBilinear2D", "UpsamplingNearest2D", "ZeroPad1D", "ZeroPad2D", "ZeroPad3D",
]  # fmt: skip


class CELU(FunctionLayer):
    """Compute x where positive, else alpha (exp(x / alpha) - 1). Barron 2017.

    The layer of ``nn.functional.celu``.

    Args:
        alpha: minus the limit on the left; not 0.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.CELU()(paddle.to_tensor([0.0, 4.0])).tolist()
        [0.0, 4.0]
    """

    _shown = ("alpha",)

    @checked_with_words
    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__()
        self.alpha = alpha
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``celu``.

        Args:
            x: numbers of any shape; integers are computed as float32.

        Raises:
            ArgumentError: for alpha = 0.
        """
        return F.celu(x, alpha=self.alpha, name=self._user_name)


class ELU(FunctionLayer):
    """Compute x where positive, else alpha (exp(x) - 1). Clevert et al. 2015.

    The layer of ``nn.functional.elu``.

    Args:
        alpha: minus the limit on the left.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.ELU()(paddle.to_tensor([0.0, 4.0])).tolist()
        [0.0, 4.0]
    """

    _shown = ("alpha",)

    @checked_with_words
    def __init__(self, alpha: float = 1.0, name: str | None = None) -> None:
        super().__init__()
        self.alpha = alpha
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``elu``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.elu(x, alpha=self.alpha, name=self._user_name)


class GELU(FunctionLayer):
    """Multiply x by the normal distribution function of x, exact or by tanh. Hendrycks and Gimpel 2016.

    The layer of ``nn.functional.gelu``.

    Args:
        approximate: True for the form with tanh, False for the exact one.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.GELU()(paddle.zeros([2])).tolist()
        [0.0, 0.0]
    """

    _shown = ("approximate",)

    @checked_with_words
    def __init__(self, approximate: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.approximate = approximate
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``gelu``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.gelu(x, approximate=self.approximate, name=self._user_name)


class GLU(FunctionLayer):
    """Multiply the first half of ``x`` along ``axis`` by the sigmoid of the second. Dauphin et al. 2016.

    The layer of ``nn.functional.glu``.

    Args:
        axis: the axis that is halved.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.GLU()(paddle.to_tensor([4.0, 0.0])).tolist()
        [2.0]
    """

    _shown = ("axis",)

    @checked_with_words
    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self.axis = axis
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``glu``.

        Args:
            x: floats with an even size along ``axis``.
        """
        return F.glu(x, axis=self.axis, name=self._user_name)


class Hardshrink(FunctionLayer):
    """Keep x where its size is above the threshold, else 0.

    The layer of ``nn.functional.hardshrink``.

    Args:
        threshold: from this size on, numbers stay as they are.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Hardshrink()(paddle.to_tensor([-2.0, 0.0, 4.0])).tolist()
        [-2.0, 0.0, 4.0]
    """

    _shown = ("threshold",)

    @checked_with_words
    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.threshold = threshold
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``hardshrink``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.hardshrink(x, threshold=self.threshold, name=self._user_name)


class Hardsigmoid(FunctionLayer):
    """Compute slope x + offset, limited to [0, 1].

    The layer of ``nn.functional.hardsigmoid``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Hardsigmoid()(paddle.to_tensor([0.0, 4.0])).tolist()
        [0.5, 1.0]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``hardsigmoid``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.hardsigmoid(x, name=self._user_name)


class Hardswish(FunctionLayer):
    """Compute x times x / 6 + 1 / 2, the latter limited to [0, 1]. Howard et al. 2019.

    The layer of ``nn.functional.hardswish``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Hardswish()(paddle.to_tensor([0.0, 4.0])).tolist()
        [0.0, 4.0]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``hardswish``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.hardswish(x, name=self._user_name)


class Hardtanh(FunctionLayer):
    """Limit x to [min, max]; the gradient is 0 at both ends.

    The layer of ``nn.functional.hardtanh``.

    Args:
        min: the least result.
        max: the largest result.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Hardtanh()(paddle.to_tensor([-2.0, 0.0, 4.0])).tolist()
        [-1.0, 0.0, 1.0]
    """

    _shown = ("min", "max")

    @checked_with_words
    def __init__(self, min: float = -1.0, max: float = 1.0, name: str | None = None) -> None:
        super().__init__()
        self.min = min
        self.max = max
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``hardtanh``.

        Args:
            x: floats of any shape.
        """
        return F.hardtanh(x, min=self.min, max=self.max, name=self._user_name)


class LeakyReLU(FunctionLayer):
    """Compute x where positive, else ``negative_slope * x``. Maas et al. 2013.

    The layer of ``nn.functional.leaky_relu``.

    Args:
        negative_slope: the slope on the left of 0.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.LeakyReLU(0.5)(paddle.to_tensor([-2.0, 0.0, 4.0])).tolist()
        [-1.0, 0.0, 4.0]
    """

    _shown = ("negative_slope",)

    @checked_with_words
    def __init__(self, negative_slope: float = 0.01, name: str | None = None) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``leaky_relu``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.leaky_relu(x, negative_slope=self.negative_slope, name=self._user_name)


class LogSigmoid(FunctionLayer):
    """Compute the logarithm of ``sigmoid``: -softplus(-x).

    The layer of ``nn.functional.log_sigmoid``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.LogSigmoid()(paddle.zeros([1])).shape
        [1]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``log_sigmoid``.

        Args:
            x: numbers of any shape.
        """
        return F.log_sigmoid(x, name=self._user_name)


class LogSoftmax(FunctionLayer):
    """Compute the logarithm of ``softmax``, stably.

    The layer of ``nn.functional.log_softmax``.

    Args:
        axis: along which the exponentials of the results add up to 1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.LogSoftmax()(paddle.zeros([1, 1])).tolist()
        [[0.0]]
    """

    _shown = ("axis",)

    @checked_with_words
    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self.axis = axis
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``log_softmax``.

        Args:
            x: floats of any shape, or integers with a ``dtype``.

        Raises:
            IllTyped: for integers without a ``dtype``.
        """
        return F.log_softmax(x, axis=self.axis, name=self._user_name)


class Maxout(FunctionLayer):
    """Take the largest of each ``groups`` neighbouring channels. Goodfellow et al. 2013.

    The layer of ``nn.functional.maxout``.

    Args:
        groups: how many neighbouring channels lead to one.
        axis: the axis of the channels: 1, 3 or -1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Maxout(2)(paddle.ones([1, 4, 3, 3])).shape
        [1, 2, 3, 3]
    """

    _shown = ("groups", "axis")

    @checked_with_words
    def __init__(self, groups: int, axis: int = 1, name: str | None = None) -> None:
        super().__init__()
        self.groups = groups
        self.axis = axis
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``maxout``.

        Args:
            x: floats with a known number of channels.

        Raises:
            ArgumentError: if ``groups`` does not divide the number of channels, or these are on another axis.
        """
        return F.maxout(x, groups=self.groups, axis=self.axis, name=self._user_name)


class Mish(FunctionLayer):
    """Compute x tanh(softplus(x)). Misra 2019.

    The layer of ``nn.functional.mish``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Mish()(paddle.zeros([2])).tolist()
        [0.0, 0.0]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``mish``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.mish(x, name=self._user_name)


class ReLU(FunctionLayer):
    """Compute max(x, 0); the gradient at 0 is 0.

    The layer of ``nn.functional.relu``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.ReLU()(paddle.to_tensor([-2.0, 0.0, 4.0])).tolist()
        [0.0, 0.0, 4.0]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``relu``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.relu(x, name=self._user_name)


class ReLU6(FunctionLayer):
    """Compute min(max(x, 0), 6); the gradient is 0 at 0 and at 6.

    The layer of ``nn.functional.relu6``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.ReLU6()(paddle.to_tensor([-2.0, 0.0, 4.0])).tolist()
        [0.0, 0.0, 4.0]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``relu6``.

        Args:
            x: floats of any shape.
        """
        return F.relu6(x, name=self._user_name)


class RReLU(FunctionLayer):
    """Keep x where positive, else multiply it by a slope: random for each element in training, else the mean slope. Xu et al. 2015.

    The layer of ``nn.functional.rrelu``.

    Args:
        lower: the least slope, a float of at least 0.
        upper: the largest slope, a float of at most 1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.RReLU()(paddle.to_tensor([0.0, 4.0])).tolist()
        [0.0, 4.0]
    """

    _shown = ("lower", "upper")

    @checked_with_words
    def __init__(self, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, name: str | None = None) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``rrelu``.

        Args:
            x: floats of any shape.

        Raises:
            ArgumentTypeError: if a slope is no float.
            ArgumentError: if not 0 <= lower <= upper <= 1.
        """
        return F.rrelu(x, lower=self.lower, upper=self.upper, training=self.training, name=self._user_name)


class SELU(FunctionLayer):
    """Compute scale times x where positive, else scale alpha (exp(x) - 1). Klambauer et al. 2017.

    The layer of ``nn.functional.selu``.

    Args:
        scale: factor of all; above 1.
        alpha: minus the limit on the left, before ``scale``; at least 0.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.SELU()(paddle.zeros([2])).tolist()
        [0.0, 0.0]
    """

    _shown = ("scale", "alpha")

    @checked_with_words
    def __init__(self, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772, name: str | None = None) -> None:
        super().__init__()
        self.scale = scale
        self.alpha = alpha
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``selu``.

        Args:
            x: numbers of any shape; integers are computed as float32.

        Raises:
            ArgumentError: if scale is not above 1, or alpha is negative.
        """
        return F.selu(x, scale=self.scale, alpha=self.alpha, name=self._user_name)


class Sigmoid(FunctionLayer):
    """Compute 1 / (1 + exp(-x)).

    The layer of ``nn.functional.sigmoid``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Sigmoid()(paddle.zeros([2])).tolist()
        [0.5, 0.5]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``sigmoid``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.sigmoid(x, name=self._user_name)


class Silu(FunctionLayer):
    """Compute x sigmoid(x). Elfwing et al. 2017.

    The layer of ``nn.functional.silu``.

    Args:
        inplace: write the result into an eager ``x``.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Silu()(paddle.zeros([2])).tolist()
        [0.0, 0.0]
    """

    _shown = ("inplace",)

    @checked_with_words
    def __init__(self, inplace: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.inplace = inplace
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``silu``.

        Args:
            x: numbers of any shape.
        """
        return F.silu(x, inplace=self.inplace, name=self._user_name)


class Softmax(FunctionLayer):
    """Compute exp(x) divided by its sum over ``axis``.

    The layer of ``nn.functional.softmax``.

    Args:
        axis: along which the results add up to 1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Softmax()(paddle.zeros([2])).tolist()
        [0.5, 0.5]
    """

    _shown = ("axis",)

    @checked_with_words
    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self.axis = axis
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``softmax``.

        Args:
            x: floats of any shape, or integers with a ``dtype``.

        Raises:
            IllTyped: for integers without a ``dtype``.
        """
        return F.softmax(x, axis=self.axis, name=self._user_name)


class Softplus(FunctionLayer):
    """Compute log(1 + exp(beta x)) / beta, and ``x`` itself where beta x is above the threshold.

    The layer of ``nn.functional.softplus``.

    Args:
        beta: how sharp the bend is.
        threshold: where beta x is above, the function counts as linear.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Softplus()(paddle.to_tensor([40.0])).tolist()
        [40.0]
    """

    _shown = ("beta", "threshold")

    @checked_with_words
    def __init__(self, beta: float = 1, threshold: float = 20, name: str | None = None) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``softplus``.

        Args:
            x: floats of any shape.
        """
        return F.softplus(x, beta=self.beta, threshold=self.threshold, name=self._user_name)


class Softshrink(FunctionLayer):
    """Move x towards 0 by the threshold, to 0 within it.

    The layer of ``nn.functional.softshrink``.

    Args:
        threshold: by how much numbers move; at least 0.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Softshrink()(paddle.to_tensor([-2.0, 0.0, 4.0])).tolist()
        [-1.5, 0.0, 3.5]
    """

    _shown = ("threshold",)

    @checked_with_words
    def __init__(self, threshold: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.threshold = threshold
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``softshrink``.

        Args:
            x: numbers of any shape; integers are computed as float32.

        Raises:
            ArgumentError: for a negative threshold.
        """
        return F.softshrink(x, threshold=self.threshold, name=self._user_name)


class Softsign(FunctionLayer):
    """Compute x / (1 + |x|).

    The layer of ``nn.functional.softsign``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Softsign()(paddle.to_tensor([1.0, -1.0])).tolist()
        [0.5, -0.5]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``softsign``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.softsign(x, name=self._user_name)


class Swish(FunctionLayer):
    """Compute x sigmoid(x). Ramachandran et al. 2017.

    The layer of ``nn.functional.swish``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Swish()(paddle.zeros([2])).tolist()
        [0.0, 0.0]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``swish``.

        Args:
            x: numbers of any shape.
        """
        return F.swish(x, name=self._user_name)


class Tanh(FunctionLayer):
    """Compute the hyperbolic tangent.

    The layer of ``nn.functional.tanh``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Tanh()(paddle.zeros([2])).tolist()
        [0.0, 0.0]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``tanh``.

        Args:
            x: numbers of any shape; integers are computed as float32.
        """
        return F.tanh(x, name=self._user_name)


class Tanhshrink(FunctionLayer):
    """Compute x - tanh(x).

    The layer of ``nn.functional.tanhshrink``.

    Args:
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Tanhshrink()(paddle.zeros([2])).tolist()
        [0.0, 0.0]
    """

    @checked_with_words
    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``tanhshrink``.

        Args:
            x: numbers of any shape.
        """
        return F.tanhshrink(x, name=self._user_name)


class ThresholdedReLU(FunctionLayer):
    """Keep x where above the threshold, else ``value``.

    The layer of ``nn.functional.thresholded_relu``.

    Args:
        threshold: above it, numbers stay as they are.
        value: the result elsewhere.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.ThresholdedReLU()(paddle.to_tensor([-2.0, 0.0, 4.0])).tolist()
        [0.0, 0.0, 4.0]
    """

    _shown = ("threshold", "value")

    @checked_with_words
    def __init__(self, threshold: float = 1.0, value: float = 0.0, name: str | None = None) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``thresholded_relu``.

        Args:
            x: floats of any shape.
        """
        return F.thresholded_relu(x, threshold=self.threshold, value=self.value, name=self._user_name)


class Dropout(FunctionLayer):
    """Zero each element with probability ``p`` in training and scale the rest by 1 / (1 - p). Srivastava et al. 2014.

    The layer of ``nn.functional.dropout``.

    Args:
        p: the probability of a zero, from 0 to 1: a number, or a Variable of one element.
        inplace: write the result into an eager ``x``.
        axis: zero whole slices: one sample for each index along these axes; each element unless given.
        mode: 'upscale_in_train', or 'downscale_in_infer', which does not scale in training but multiplies by 1 - p in
            inference.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.Dropout(0.0)(paddle.ones([2])).tolist()
        [1.0, 1.0]
    """

    _shown = ("p", "axis", "mode", "inplace")

    @checked_with_words
    def __init__(
        self,
        p: float | Variable = 0.5,
        inplace: bool = False,
        axis: int | Sequence[int] | None = None,
        mode: DropoutMode = "upscale_in_train",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p = p
        self.inplace = inplace
        self.axis = axis
        self.mode = mode
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``dropout``.

        Args:
            x: floats of any shape.

        Raises:
            ArgumentError: if ``p`` is outside [0, 1], or the mode is unknown.
        """
        return F.dropout(
            x,
            p=self.p,
            inplace=self.inplace,
            axis=self.axis,
            mode=self.mode,
            training=self.training,
            name=self._user_name,
        )


class Dropout2D(FunctionLayer):
    """Zero whole channels of images, as ``dropout`` does elements. Tompson et al. 2014.

    The layer of ``nn.functional.dropout2d``.

    Args:
        p: the probability of a zero, from 0 to 1.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.Dropout2D()(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 8, 8]
    """

    _shown = ("p", "data_format")

    @checked_with_words
    def __init__(self, p: float = 0.5, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self.p = p
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``dropout2d``.

        Args:
            x: floats [N, C, H, W].

        Raises:
            ArgumentError: if ``p`` is outside [0, 1].
        """
        return F.dropout2d(x, p=self.p, data_format=self.data_format, training=self.training, name=self._user_name)


class Dropout3D(FunctionLayer):
    """Zero whole channels of volumes, as ``dropout`` does elements. Tompson et al. 2014.

    The layer of ``nn.functional.dropout3d``.

    Args:
        p: the probability of a zero, from 0 to 1.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.Dropout3D()(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 8, 8, 8]
    """

    _shown = ("p", "data_format")

    @checked_with_words
    def __init__(self, p: float = 0.5, data_format: Layout3D = "NCDHW", name: str | None = None) -> None:
        super().__init__()
        self.p = p
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``dropout3d``.

        Args:
            x: floats [N, C, D, H, W].

        Raises:
            ArgumentError: if ``p`` is outside [0, 1].
        """
        return F.dropout3d(x, p=self.p, data_format=self.data_format, training=self.training, name=self._user_name)


class AlphaDropout(FunctionLayer):
    """Drop elements so that mean and deviation of the output of ``selu`` stay. Klambauer et al. 2017.

    The layer of ``nn.functional.alpha_dropout``.

    Args:
        p: the probability of a dropped element, from 0 to 1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.AlphaDropout(0.0)(paddle.ones([2])).tolist()
        [1.0, 1.0]
    """

    _shown = ("p",)

    @checked_with_words
    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.p = p
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``alpha_dropout``.

        Args:
            x: floats of any shape.

        Raises:
            ArgumentError: if ``p`` is outside [0, 1].
        """
        return F.alpha_dropout(x, p=self.p, training=self.training, name=self._user_name)


class FeatureAlphaDropout(FunctionLayer):
    """Drop whole channels, as ``alpha_dropout`` does elements.

    The layer of ``nn.functional.feature_alpha_dropout``.

    Args:
        p: the probability of a dropped channel, from 0 to 1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.FeatureAlphaDropout()(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 8, 8]
    """

    _shown = ("p",)

    @checked_with_words
    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.p = p
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``feature_alpha_dropout``.

        Args:
            x: floats [N, C, ...].

        Raises:
            ArgumentError: if ``p`` is outside [0, 1].
        """
        return F.feature_alpha_dropout(x, p=self.p, training=self.training, name=self._user_name)


class AvgPool1D(FunctionLayer):
    """Average each window of a sequence.

    The layer of ``nn.functional.avg_pool1d``.

    Args:
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [start, end], pairs for all three axes, 'SAME'
            or 'VALID'.
        exclusive: leave padding out of the mean.
        ceil_mode: let windows reach over the end, so that no element is left out.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.AvgPool1D(2)(paddle.ones([2, 3, 8])).shape
        [2, 3, 4]
    """

    _shown = ("kernel_size", "stride", "padding")

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Padding = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.exclusive = exclusive
        self.ceil_mode = ceil_mode
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``avg_pool1d``.

        Args:
            x: floats [N, C, L].

        Raises:
            ArgumentError: if an argument has the wrong number of entries.
        """
        return F.avg_pool1d(
            x,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            exclusive=self.exclusive,
            ceil_mode=self.ceil_mode,
            name=self._user_name,
        )


class AvgPool2D(FunctionLayer):
    """Average each window of an image.

    The layer of ``nn.functional.avg_pool2d``.

    Args:
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [top, bottom, left, right], pairs for all four
            axes, 'SAME' or 'VALID'.
        ceil_mode: let windows reach over the end, so that no element is left out.
        exclusive: leave padding out of the mean.
        divisor_override: divide the sum by this number, rather than by that of the elements.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.AvgPool2D(2)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 4, 4]
    """

    _shown = ("kernel_size", "stride", "padding")
    _layout = "NCHW"

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: int | None = None,
        data_format: Layout2D = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.exclusive = exclusive
        self.divisor_override = divisor_override
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``avg_pool2d``.

        Args:
            x: floats [N, C, H, W].

        Raises:
            ArgumentError: if an argument has the wrong number of entries.
            NotOffered: for ``divisor_override`` with ``ceil_mode``, where windows hold fewer elements at the end.
        """
        return F.avg_pool2d(
            x,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            exclusive=self.exclusive,
            divisor_override=self.divisor_override,
            data_format=self.data_format,
            name=self._user_name,
        )


class AvgPool3D(FunctionLayer):
    """Average each window of a volume.

    The layer of ``nn.functional.avg_pool3d``.

    Args:
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [front, back, top, bottom, left, right], pairs
            for all five axes, 'SAME' or 'VALID'.
        ceil_mode: let windows reach over the end, so that no element is left out.
        exclusive: leave padding out of the mean.
        divisor_override: divide the sum by this number, rather than by that of the elements.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.AvgPool3D(2)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 4, 4, 4]
    """

    _shown = ("kernel_size", "stride", "padding")
    _layout = "NCDHW"

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: int | None = None,
        data_format: Layout3D = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.exclusive = exclusive
        self.divisor_override = divisor_override
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``avg_pool3d``.

        Args:
            x: floats [N, C, D, H, W].

        Raises:
            ArgumentError: if an argument has the wrong number of entries.
            NotOffered: for ``divisor_override`` with ``ceil_mode``, where windows hold fewer elements at the end.
        """
        return F.avg_pool3d(
            x,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            exclusive=self.exclusive,
            divisor_override=self.divisor_override,
            data_format=self.data_format,
            name=self._user_name,
        )


class MaxPool1D(FunctionLayer):
    """Take the largest element of each window of a sequence.

    The layer of ``nn.functional.max_pool1d``.

    Args:
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [start, end], pairs for all three axes, 'SAME'
            or 'VALID'.
        return_mask: also give the position of each element, counted through its plane.
        ceil_mode: let windows reach over the end, so that no element is left out.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.MaxPool1D(2)(paddle.ones([2, 3, 8])).shape
        [2, 3, 4]
    """

    _shown = ("kernel_size", "stride", "padding")

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Padding = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.return_mask = return_mask
        self.ceil_mode = ceil_mode
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``max_pool1d``.

        Args:
            x: [N, C, L], of any real element type.

        Returns:
            A tensor of the pooled sizes; with ``return_mask``, a tuple of it and of int32 positions.

        Raises:
            ArgumentError: if an argument has the wrong number of entries.
        """
        result: Any = F.max_pool1d(
            x,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            return_mask=self.return_mask,
            ceil_mode=self.ceil_mode,
            name=self._user_name,
        )
        return cast(AnyTensor, result)


class MaxPool2D(FunctionLayer):
    """Take the largest element of each window of an image.

    The layer of ``nn.functional.max_pool2d``.

    Args:
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [top, bottom, left, right], pairs for all four
            axes, 'SAME' or 'VALID'.
        return_mask: also give the position of each element, counted through its plane. Needs channels first.
        ceil_mode: let windows reach over the end, so that no element is left out.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MaxPool2D(2)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 4, 4]
    """

    _shown = ("kernel_size", "stride", "padding")
    _layout = "NCHW"

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Padding = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: Layout2D = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.return_mask = return_mask
        self.ceil_mode = ceil_mode
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``max_pool2d``.

        Args:
            x: [N, C, H, W], of any real element type.

        Returns:
            A tensor of the pooled sizes; with ``return_mask``, a tuple of it and of int32 positions.

        Raises:
            ArgumentError: if an argument has the wrong number of entries, or ``return_mask`` is asked for with channels last.
        """
        result: Any = F.max_pool2d(
            x,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            return_mask=self.return_mask,
            ceil_mode=self.ceil_mode,
            data_format=self.data_format,
            name=self._user_name,
        )
        return cast(AnyTensor, result)


class MaxPool3D(FunctionLayer):
    """Take the largest element of each window of a volume.

    The layer of ``nn.functional.max_pool3d``.

    Args:
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [front, back, top, bottom, left, right], pairs
            for all five axes, 'SAME' or 'VALID'.
        return_mask: also give the position of each element, counted through its plane. Needs channels first.
        ceil_mode: let windows reach over the end, so that no element is left out.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MaxPool3D(2)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 4, 4, 4]
    """

    _shown = ("kernel_size", "stride", "padding")
    _layout = "NCDHW"

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Padding = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: Layout3D = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.return_mask = return_mask
        self.ceil_mode = ceil_mode
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``max_pool3d``.

        Args:
            x: [N, C, D, H, W], of any real element type.

        Returns:
            A tensor of the pooled sizes; with ``return_mask``, a tuple of it and of int32 positions.

        Raises:
            ArgumentError: if an argument has the wrong number of entries, or ``return_mask`` is asked for with channels last.
        """
        result: Any = F.max_pool3d(
            x,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            return_mask=self.return_mask,
            ceil_mode=self.ceil_mode,
            data_format=self.data_format,
            name=self._user_name,
        )
        return cast(AnyTensor, result)


class LPPool1D(FunctionLayer):
    """Compute (sum of x^p)^(1/p) over each window of a sequence.

    The layer of ``nn.functional.lp_pool1d``.

    Args:
        norm_type: the power p; infinity for the largest element.
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [start, end], pairs for all three axes, 'SAME'
            or 'VALID'.
        ceil_mode: let windows reach over the end; only for p = infinity.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.LPPool1D(2, 2)(paddle.ones([2, 3, 8])).shape
        [2, 3, 4]
    """

    _shown = ("norm_type", "kernel_size", "stride", "padding")
    _layout = "NCL"

    @checked_with_words
    def __init__(
        self,
        norm_type: float,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        data_format: Layout1D = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``lp_pool1d``.

        Args:
            x: floats [N, C, L].

        Raises:
            NotOffered: with ``ceil_mode``, where windows hold fewer elements at the end.
        """
        return F.lp_pool1d(
            x,
            norm_type=self.norm_type,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            data_format=self.data_format,
            name=self._user_name,
        )


class LPPool2D(FunctionLayer):
    """Compute (sum of x^p)^(1/p) over each window of an image.

    The layer of ``nn.functional.lp_pool2d``.

    Args:
        norm_type: the power p; infinity for the largest element.
        kernel_size: size of the windows: one number, or one for each spatial axis.
        stride: steps between windows, in the same form; the kernel size unless given.
        padding: border around the input: one number, one for each spatial axis, [top, bottom, left, right], pairs for all four
            axes, 'SAME' or 'VALID'.
        ceil_mode: let windows reach over the end; only for p = infinity.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.LPPool2D(2, 2)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 4, 4]
    """

    _shown = ("norm_type", "kernel_size", "stride", "padding")
    _layout = "NCHW"

    @checked_with_words
    def __init__(
        self,
        norm_type: float,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        data_format: Layout2D = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``lp_pool2d``.

        Args:
            x: floats [N, C, H, W].

        Raises:
            NotOffered: with ``ceil_mode``, where windows hold fewer elements at the end.
        """
        return F.lp_pool2d(
            x,
            norm_type=self.norm_type,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            data_format=self.data_format,
            name=self._user_name,
        )


class AdaptiveAvgPool1D(FunctionLayer):
    """Average windows of a sequence that lead to a given size: window i of m reaches from floor(i n / m) to ceil((i + 1) n / m).

    The layer of ``nn.functional.adaptive_avg_pool1d``.

    Args:
        output_size: sizes of the result: one number, or one for each spatial axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.AdaptiveAvgPool1D(3)(paddle.ones([2, 3, 8])).shape
        [2, 3, 3]
    """

    _shown = ("output_size",)

    @checked_with_words
    def __init__(self, output_size: int | Sequence[int], name: str | None = None) -> None:
        super().__init__()
        self.output_size = output_size
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``adaptive_avg_pool1d``.

        Args:
            x: floats [N, C, L]; the sizes must be known, except for a result of size 1.

        Raises:
            ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.
        """
        return F.adaptive_avg_pool1d(x, output_size=self.output_size, name=self._user_name)


class AdaptiveAvgPool2D(FunctionLayer):
    """Average windows of an image that lead to a given size: window i of m reaches from floor(i n / m) to ceil((i + 1) n / m).

    The layer of ``nn.functional.adaptive_avg_pool2d``.

    Args:
        output_size: sizes of the result: one number, or one for each spatial axis; None keeps the size of an axis.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.AdaptiveAvgPool2D(3)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 3, 3]
    """

    _shown = ("output_size", "data_format")
    _layout = "NCHW"

    @checked_with_words
    def __init__(
        self,
        output_size: int | Sequence[int | None] | None,
        data_format: Layout2D = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``adaptive_avg_pool2d``.

        Args:
            x: floats [N, C, H, W]; the sizes must be known, except for a result of size 1.

        Raises:
            ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.
        """
        return F.adaptive_avg_pool2d(x, output_size=self.output_size, data_format=self.data_format, name=self._user_name)


class AdaptiveAvgPool3D(FunctionLayer):
    """Average windows of a volume that lead to a given size: window i of m reaches from floor(i n / m) to ceil((i + 1) n / m).

    The layer of ``nn.functional.adaptive_avg_pool3d``.

    Args:
        output_size: sizes of the result: one number, or one for each spatial axis; None keeps the size of an axis.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.AdaptiveAvgPool3D(3)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 3, 3, 3]
    """

    _shown = ("output_size", "data_format")
    _layout = "NCDHW"

    @checked_with_words
    def __init__(
        self,
        output_size: int | Sequence[int | None] | None,
        data_format: Layout3D = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``adaptive_avg_pool3d``.

        Args:
            x: floats [N, C, D, H, W]; the sizes must be known, except for a result of size 1.

        Raises:
            ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.
        """
        return F.adaptive_avg_pool3d(x, output_size=self.output_size, data_format=self.data_format, name=self._user_name)


class AdaptiveMaxPool1D(FunctionLayer):
    """Take the largest elements of windows of a sequence that lead to a given size, as in ``adaptive_avg_pool1d``.

    The layer of ``nn.functional.adaptive_max_pool1d``.

    Args:
        output_size: sizes of the result: one number, or one for each spatial axis.
        return_mask: also give the position of each element, counted through its plane.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.AdaptiveMaxPool1D(3)(paddle.ones([2, 3, 8])).shape
        [2, 3, 3]
    """

    _shown = ("output_size", "return_mask")

    @checked_with_words
    def __init__(self, output_size: int | Sequence[int], return_mask: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_mask = return_mask
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``adaptive_max_pool1d``.

        Args:
            x: [N, C, L] of known spatial sizes.

        Returns:
            A tensor of the pooled sizes; with ``return_mask``, a tuple of it and of int32 positions.

        Raises:
            ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.
        """
        result: Any = F.adaptive_max_pool1d(
            x,
            output_size=self.output_size,
            return_mask=self.return_mask,
            name=self._user_name,
        )
        return cast(AnyTensor, result)


class AdaptiveMaxPool2D(FunctionLayer):
    """Take the largest elements of windows of an image that lead to a given size, as in ``adaptive_avg_pool2d``.

    The layer of ``nn.functional.adaptive_max_pool2d``.

    Args:
        output_size: sizes of the result: one number, or one for each spatial axis; None keeps the size of an axis.
        return_mask: also give the position of each element, counted through its plane.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.AdaptiveMaxPool2D(3)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 3, 3]
    """

    _shown = ("output_size", "return_mask")

    @checked_with_words
    def __init__(self, output_size: int | Sequence[int | None] | None, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_mask = return_mask
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``adaptive_max_pool2d``.

        Args:
            x: [N, C, H, W] of known spatial sizes.

        Returns:
            A tensor of the pooled sizes; with ``return_mask``, a tuple of it and of int32 positions.

        Raises:
            ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.
        """
        result: Any = F.adaptive_max_pool2d(
            x,
            output_size=self.output_size,
            return_mask=self.return_mask,
            name=self._user_name,
        )
        return cast(AnyTensor, result)


class AdaptiveMaxPool3D(FunctionLayer):
    """Take the largest elements of windows of a volume that lead to a given size, as in ``adaptive_avg_pool3d``.

    The layer of ``nn.functional.adaptive_max_pool3d``.

    Args:
        output_size: sizes of the result: one number, or one for each spatial axis; None keeps the size of an axis.
        return_mask: also give the position of each element, counted through its plane.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.AdaptiveMaxPool3D(3)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 3, 3, 3]
    """

    _shown = ("output_size", "return_mask")

    @checked_with_words
    def __init__(self, output_size: int | Sequence[int | None] | None, return_mask: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_mask = return_mask
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``adaptive_max_pool3d``.

        Args:
            x: [N, C, D, H, W] of known spatial sizes.

        Returns:
            A tensor of the pooled sizes; with ``return_mask``, a tuple of it and of int32 positions.

        Raises:
            ArgumentError: if ``output_size`` has the wrong number of entries, or a size is not known.
        """
        result: Any = F.adaptive_max_pool3d(
            x,
            output_size=self.output_size,
            return_mask=self.return_mask,
            name=self._user_name,
        )
        return cast(AnyTensor, result)


class MaxUnPool1D(FunctionLayer):
    """Put the elements of a pooled sequence back to their positions, among zeros.

    The layer of ``nn.functional.max_unpool1d``.

    Args:
        kernel_size: size of the pool's windows: one number, or one for each spatial axis.
        stride: that of the pool, in the same form; the kernel size unless given.
        padding: that of the pool, in the same form.
        data_format: 'NCL': the channels are first.
        output_size: the sizes of the spatial axes before the pool; computed from the windows unless given.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MaxUnPool1D(2)(paddle.ones([1, 1, 2]), paddle.zeros([1, 1, 2], "int32")).shape
        [1, 1, 4]
    """

    _shown = ("output_size",)
    _layout = "NCL"

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        data_format: Layout1D = "NCL",
        output_size: Sequence[int] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.data_format = data_format
        self.output_size = output_size
        self._user_name = name

    def forward(self, x: AnyTensor, indices: AnyTensor) -> AnyTensor:
        """Apply ``max_unpool1d``.

        Args:
            x: what ``max_pool1d`` gave: [N, C, L] of known sizes.
            indices: its mask: integers of the same shape.

        Raises:
            ArgumentError: if channels are last, the indices have another shape, or a size is not known.
        """
        return F.max_unpool1d(
            x,
            indices,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            data_format=self.data_format,
            output_size=self.output_size,
            name=self._user_name,
        )


class MaxUnPool2D(FunctionLayer):
    """Put the elements of a pooled image back to their positions, among zeros.

    The layer of ``nn.functional.max_unpool2d``.

    Args:
        kernel_size: size of the pool's windows: one number, or one for each spatial axis.
        stride: that of the pool, in the same form; the kernel size unless given.
        padding: that of the pool, in the same form.
        data_format: 'NCHW': the channels are first.
        output_size: the sizes of the spatial axes before the pool; computed from the windows unless given.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MaxUnPool2D(2)(paddle.ones([1, 1, 2, 2]), paddle.zeros([1, 1, 2, 2], "int32")).shape
        [1, 1, 4, 4]
    """

    _shown = ("output_size",)
    _layout = "NCHW"

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        data_format: Layout2D = "NCHW",
        output_size: Sequence[int] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.data_format = data_format
        self.output_size = output_size
        self._user_name = name

    def forward(self, x: AnyTensor, indices: AnyTensor) -> AnyTensor:
        """Apply ``max_unpool2d``.

        Args:
            x: what ``max_pool2d`` gave: [N, C, H, W] of known sizes.
            indices: its mask: integers of the same shape.

        Raises:
            ArgumentError: if channels are last, the indices have another shape, or a size is not known.
        """
        return F.max_unpool2d(
            x,
            indices,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            data_format=self.data_format,
            output_size=self.output_size,
            name=self._user_name,
        )


class MaxUnPool3D(FunctionLayer):
    """Put the elements of a pooled volume back to their positions, among zeros.

    The layer of ``nn.functional.max_unpool3d``.

    Args:
        kernel_size: size of the pool's windows: one number, or one for each spatial axis.
        stride: that of the pool, in the same form; the kernel size unless given.
        padding: that of the pool, in the same form.
        data_format: 'NCDHW': the channels are first.
        output_size: the sizes of the spatial axes before the pool; computed from the windows unless given.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MaxUnPool3D(2)(paddle.ones([1, 1, 2, 2, 2]), paddle.zeros([1, 1, 2, 2, 2], "int32")).shape
        [1, 1, 4, 4, 4]
    """

    _shown = ("output_size",)
    _layout = "NCDHW"

    @checked_with_words
    def __init__(
        self,
        kernel_size: Numbers,
        stride: Numbers | None = None,
        padding: Numbers = 0,
        data_format: Layout3D = "NCDHW",
        output_size: Sequence[int] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.data_format = data_format
        self.output_size = output_size
        self._user_name = name

    def forward(self, x: AnyTensor, indices: AnyTensor) -> AnyTensor:
        """Apply ``max_unpool3d``.

        Args:
            x: what ``max_pool3d`` gave: [N, C, D, H, W] of known sizes.
            indices: its mask: integers of the same shape.

        Raises:
            ArgumentError: if channels are last, the indices have another shape, or a size is not known.
        """
        return F.max_unpool3d(
            x,
            indices,
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            data_format=self.data_format,
            output_size=self.output_size,
            name=self._user_name,
        )


class LocalResponseNorm(FunctionLayer):
    """Divide by (k + alpha times the mean of squares over ``size`` neighbouring channels)^beta. Krizhevsky et al. 2012.

    The layer of ``nn.functional.local_response_norm``.

    Args:
        size: how many neighbouring channels count.
        alpha: factor of the mean of squares.
        beta: the power of the divisor.
        k: added before the power.
        data_format: channels are on axis 1 if its second letter is C, else on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.LocalResponseNorm(3)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 8, 8]
    """

    _shown = ("size", "alpha", "beta", "k", "data_format")
    _layout = "NCHW"

    @checked_with_words
    def __init__(
        self,
        size: int,
        alpha: float = 0.0001,
        beta: float = 0.75,
        k: float = 1.0,
        data_format: Layout = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``local_response_norm``.

        Args:
            x: floats [N, C, ...] of rank 3 to 5.
        """
        return F.local_response_norm(
            x,
            size=self.size,
            alpha=self.alpha,
            beta=self.beta,
            k=self.k,
            data_format=self.data_format,
            name=self._user_name,
        )


class Upsample(FunctionLayer):
    """Resize images.

    The layer of ``nn.functional.interpolate``.

    Args:
        size: sizes of the spatial axes of the result: ints, an integer Variable, or a list that mixes both.
        scale_factor: factors on the sizes, in place of ``size``: one, one for each axis, or a Variable.
        mode: 'nearest', 'linear', 'bilinear', 'trilinear', 'bicubic' or 'area' (means).
        align_corners: let the centres of the corner elements coincide, rather than the outer edges.
        align_mode: for the linear modes without ``align_corners``: 0 counts from element centres, 1 from the first element.
        data_format: channels are on axis 1 if its second letter is C (the default), else on the last axis.
        recompute_scale_factor: True to take the ratio of the sizes, which are rounded down, in place of ``scale_factor``.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.Upsample(scale_factor=2)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 16, 16]
    """

    _shown = ("size", "scale_factor", "mode", "align_corners", "align_mode", "data_format")

    @checked_with_words
    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Variable | Sequence[float] | None = None,
        mode: ResizeMode = "nearest",
        align_corners: bool = False,
        align_mode: Literal[0, 1] = 0,
        data_format: Layout | None = None,
        recompute_scale_factor: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.align_mode = align_mode
        self.data_format = data_format
        self.recompute_scale_factor = recompute_scale_factor
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``interpolate``.

        Args:
            x: [N, C, ...] of rank 3 (linear), 4 (bilinear, bicubic) or 5 (trilinear); any of them for 'nearest' and 'area'.

        Raises:
            ArgumentError: if the mode does not fit the rank, or not exactly one of ``size`` and ``scale_factor`` is given.
        """
        return F.interpolate(
            x,
            size=self.size,
            scale_factor=self.scale_factor,
            mode=self.mode,
            align_corners=self.align_corners,
            align_mode=self.align_mode,
            data_format=self.data_format,
            recompute_scale_factor=self.recompute_scale_factor,
            name=self._user_name,
        )


class UpsamplingNearest2D(FunctionLayer):
    """Resize images by nearest elements.

    The layer of ``nn.functional.interpolate``.

    Args:
        size: sizes of the spatial axes of the result: ints, an integer Variable, or a list that mixes both.
        scale_factor: factors on the sizes, in place of ``size``: one, one for each axis, or a Variable.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.UpsamplingNearest2D(scale_factor=2)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 16, 16]
    """

    _shown = ("size", "scale_factor", "data_format")

    @checked_with_words
    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Variable | Sequence[float] | None = None,
        data_format: Layout2D = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``interpolate``.

        Args:
            x: [N, C, ...] of rank 3 (linear), 4 (bilinear, bicubic) or 5 (trilinear); any of them for 'nearest' and 'area'.

        Raises:
            ArgumentError: if the mode does not fit the rank, or not exactly one of ``size`` and ``scale_factor`` is given.
        """
        return F.interpolate(x, size=self.size, scale_factor=self.scale_factor, data_format=self.data_format, name=self._user_name)


class UpsamplingBilinear2D(FunctionLayer):
    """Resize images by bilinear interpolation; the centres of the corner elements coincide.

    The layer of ``nn.functional.interpolate``.

    Args:
        size: sizes of the spatial axes of the result: ints, an integer Variable, or a list that mixes both.
        scale_factor: factors on the sizes, in place of ``size``: one, one for each axis, or a Variable.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.UpsamplingBilinear2D(scale_factor=2)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 16, 16]
    """

    _shown = ("size", "scale_factor", "data_format")

    @checked_with_words
    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Variable | Sequence[float] | None = None,
        data_format: Layout2D = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``interpolate``.

        Args:
            x: [N, C, ...] of rank 3 (linear), 4 (bilinear, bicubic) or 5 (trilinear); any of them for 'nearest' and 'area'.

        Raises:
            ArgumentError: if the mode does not fit the rank, or not exactly one of ``size`` and ``scale_factor`` is given.
        """
        return F.interpolate(
            x,
            size=self.size,
            scale_factor=self.scale_factor,
            data_format=self.data_format,
            mode="bilinear",
            align_corners=True,
            name=self._user_name,
        )


class PixelShuffle(FunctionLayer):
    """Spread channels over squares of r by r elements: [N, C r r, H, W] becomes [N, C, H r, W r]. Shi et al. 2016.

    The layer of ``nn.functional.pixel_shuffle``.

    Args:
        upscale_factor: r: by how much height and width grow.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.
        ArgumentError: if ``upscale_factor`` is below 1.

    Example:
        >>> paddle.nn.PixelShuffle(2)(paddle.ones([1, 4, 4, 4])).shape
        [1, 1, 8, 8]
    """

    _shown = ("upscale_factor", "data_format")
    _layout = "NCHW"

    @checked_with_words
    def __init__(self, upscale_factor: int, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        positive(upscale_factor, "PixelShuffle", "upscale_factor")
        self.upscale_factor = upscale_factor
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pixel_shuffle``.

        Args:
            x: [N, C r r, H, W].

        Raises:
            ArgumentError: if the factor is below 1.
            ArgumentTypeError: if it is no int.
        """
        return F.pixel_shuffle(x, upscale_factor=self.upscale_factor, data_format=self.data_format, name=self._user_name)


class PixelUnshuffle(FunctionLayer):
    """Collect squares of r by r elements into channels: [N, C, H r, W r] becomes [N, C r r, H, W]. Shi et al. 2016.

    The layer of ``nn.functional.pixel_unshuffle``.

    Args:
        downscale_factor: r: by how much height and width shrink.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.
        ArgumentError: if ``downscale_factor`` is below 1.

    Example:
        >>> paddle.nn.PixelUnshuffle(2)(paddle.ones([1, 2, 4, 4])).shape
        [1, 8, 2, 2]
    """

    _shown = ("downscale_factor", "data_format")
    _layout = "NCHW"

    @checked_with_words
    def __init__(self, downscale_factor: int, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        positive(downscale_factor, "PixelUnshuffle", "downscale_factor")
        self.downscale_factor = downscale_factor
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pixel_unshuffle``.

        Args:
            x: [N, C, H r, W r] with a known C.

        Raises:
            ArgumentError: if the factor is below 1.
            ArgumentTypeError: if it is no int.
        """
        return F.pixel_unshuffle(x, downscale_factor=self.downscale_factor, data_format=self.data_format, name=self._user_name)


class ChannelShuffle(FunctionLayer):
    """Take channels from each of ``groups`` groups in turn. Zhang et al. 2017.

    The layer of ``nn.functional.channel_shuffle``.

    Args:
        groups: into how many groups the channels are cut.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.
        ArgumentError: if ``groups`` is below 1.

    Example:
        >>> paddle.nn.ChannelShuffle(2)(paddle.ones([1, 6, 4, 4])).shape
        [1, 6, 4, 4]
    """

    _shown = ("groups", "data_format")
    _layout = "NCHW"

    @checked_with_words
    def __init__(self, groups: int, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        positive(groups, "ChannelShuffle", "groups")
        self.groups = groups
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``channel_shuffle``.

        Args:
            x: [N, C, H, W] with a known C.

        Raises:
            ArgumentError: if ``groups`` does not divide the number of channels.
        """
        return F.channel_shuffle(x, groups=self.groups, data_format=self.data_format, name=self._user_name)


class ZeroPad2D(Border):
    """Put zeros around images.

    The layer of ``nn.functional.zeropad2d``.

    Args:
        padding: one number, or [left, right, top, bottom].
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ZeroPad2D(1)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 10, 10]
    """

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``zeropad2d``.

        Args:
            x: [N, C, H, W].
        """
        return F.zeropad2d(x, padding=self.padding, data_format=self.data_format, name=self._user_name)


class Flatten(FunctionLayer):
    """Merge neighbouring axes into one.

    The layer of ``paddle.flatten``.

    Args:
        start_axis: the first axis that is merged.
        stop_axis: the last one.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Flatten()(paddle.ones([2, 3, 8, 8])).shape
        [2, 192]
    """

    @checked_with_words
    def __init__(self, start_axis: int = 1, stop_axis: int = -1, name: str | None = None) -> None:
        super().__init__()
        self.start_axis = start_axis
        self.stop_axis = stop_axis
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``flatten``.

        Args:
            x: variable of any shape.

        Raises:
            ArgumentError: if there is no such axis, or they stand in the wrong order.
        """
        return tensor.flatten(x, start_axis=self.start_axis, stop_axis=self.stop_axis, name=self._user_name)


class Unflatten(FunctionLayer):
    """Cut one axis into several.

    The layer of ``paddle.unflatten``.

    Args:
        axis: the axis that is cut.
        shape: the sizes it is cut into; one may be -1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Unflatten(2, [4, -1])(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 4, 2, 8]
    """

    _shown = ("axis", "shape")

    @checked_with_words
    def __init__(self, axis: int, shape: Shape, name: str | None = None) -> None:
        super().__init__()
        self.axis = axis
        self.shape = shape
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``unflatten``.

        Args:
            x: variable of any shape.
        """
        return tensor.unflatten(x, axis=self.axis, shape=self.shape, name=self._user_name)


class Unfold(FunctionLayer):
    """Write the windows of an image as columns, of shape [N, C * height * width of a window, windows].

    The layer of ``nn.functional.unfold``.

    Args:
        kernel_sizes: height and width of the windows, or one number for both.
        dilations: distance between the elements of a window, in the form of ``kernel_sizes``.
        paddings: border of zeros: one number, one for each axis, or [top, left, bottom, right].
        strides: steps between windows, in the same form.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Unfold(2)(paddle.ones([2, 3, 8, 8])).shape
        [2, 12, 49]
    """

    _shown = ("kernel_sizes", "dilations", "paddings", "strides")
    _printed = ("kernel_size", "dilation", "padding", "stride")

    @checked_with_words
    def __init__(
        self,
        kernel_sizes: Numbers,
        dilations: Numbers = 1,
        paddings: Numbers = 0,
        strides: Numbers = 1,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_sizes = kernel_sizes
        self.dilations = dilations
        self.paddings = paddings
        self.strides = strides
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``unfold``.

        Args:
            x: [N, C, H, W] with a known C.

        Raises:
            ArgumentError: if C is not known.
        """
        return F.unfold(
            x,
            kernel_sizes=self.kernel_sizes,
            dilations=self.dilations,
            paddings=self.paddings,
            strides=self.strides,
            name=self._user_name,
        )


class Fold(FunctionLayer):
    """Add columns back to the windows of an image: the transpose of ``unfold``.

    The layer of ``nn.functional.fold``.

    Args:
        output_sizes: height and width of the image, or one number for both.
        kernel_sizes: height and width of the windows, or one number for both.
        dilations: distance between the elements of a window, in the form of ``kernel_sizes``.
        paddings: border that is cut off: one number, one for each axis, or [top, left, bottom, right].
        strides: steps between windows, in the same form.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.Fold([4, 4], 2)(paddle.ones([2, 12, 9])).shape
        [2, 3, 4, 4]
    """

    _shown = ("kernel_sizes", "dilations", "paddings", "strides")
    _printed = ("kernel_size", "dilation", "padding", "stride")

    @checked_with_words
    def __init__(
        self,
        output_sizes: Numbers,
        kernel_sizes: Numbers,
        dilations: Numbers = 1,
        paddings: Numbers = 0,
        strides: Numbers = 1,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.output_sizes = output_sizes
        self.kernel_sizes = kernel_sizes
        self.dilations = dilations
        self.paddings = paddings
        self.strides = strides
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``fold``.

        Args:
            x: [N, C * height * width of a window, windows].

        Raises:
            ArgumentError: if the windows do not fit the image.
        """
        return F.fold(
            x,
            output_sizes=self.output_sizes,
            kernel_sizes=self.kernel_sizes,
            dilations=self.dilations,
            paddings=self.paddings,
            strides=self.strides,
            name=self._user_name,
        )


class Pad1D(Border):
    """Put a border around sequences.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right], or an integer Variable.
        mode: what the border holds: 'constant' a value, 'reflect' the mirrored input, 'replicate' its outermost elements,
            'circular' its other end.
        value: of a constant border.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.Pad1D(1)(paddle.ones([2, 3, 8])).shape
        [2, 3, 10]
    """

    @checked_with_words
    def __init__(
        self,
        padding: Sizes,
        mode: PadMode = "constant",
        value: float = 0.0,
        data_format: Layout1D = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.padding = padding
        self.mode = mode
        self.value = value
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, mode=self.mode, value=self.value, data_format=self.data_format, name=self._user_name)


class Pad2D(Border):
    """Put a border around images.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom], or an integer Variable.
        mode: what the border holds: 'constant' a value, 'reflect' the mirrored input, 'replicate' its outermost elements,
            'circular' its other end.
        value: of a constant border.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.Pad2D(1)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 10, 10]
    """

    @checked_with_words
    def __init__(
        self,
        padding: Sizes,
        mode: PadMode = "constant",
        value: float = 0.0,
        data_format: Layout2D = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.padding = padding
        self.mode = mode
        self.value = value
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, mode=self.mode, value=self.value, data_format=self.data_format, name=self._user_name)


class Pad3D(Border):
    """Put a border around volumes.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom, front, back], or an integer Variable.
        mode: what the border holds: 'constant' a value, 'reflect' the mirrored input, 'replicate' its outermost elements,
            'circular' its other end.
        value: of a constant border.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.Pad3D(1)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 10, 10, 10]
    """

    @checked_with_words
    def __init__(
        self,
        padding: Sizes,
        mode: PadMode = "constant",
        value: float = 0.0,
        data_format: Layout3D = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.padding = padding
        self.mode = mode
        self.value = value
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, mode=self.mode, value=self.value, data_format=self.data_format, name=self._user_name)


class ZeroPad1D(Border):
    """Put zeros around sequences.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right], or an integer Variable.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ZeroPad1D(1)(paddle.ones([2, 3, 8])).shape
        [2, 3, 10]
    """

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout1D = "NCL", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, name=self._user_name)


class ZeroPad3D(Border):
    """Put zeros around volumes.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom, front, back], or an integer Variable.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ZeroPad3D(1)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 10, 10, 10]
    """

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout3D = "NCDHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, name=self._user_name)


class ConstantPad1D(Border):
    """Put one value around sequences.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right], or an integer Variable.
        value: of a constant border.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ConstantPad1D(1, 0.5)(paddle.ones([2, 3, 8])).shape
        [2, 3, 10]
    """

    @checked_with_words
    def __init__(self, padding: Sizes, value: float = 0.0, data_format: Layout1D = "NCL", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.value = value
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, value=self.value, data_format=self.data_format, name=self._user_name)


class ConstantPad2D(Border):
    """Put one value around images.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom], or an integer Variable.
        value: of a constant border.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ConstantPad2D(1, 0.5)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 10, 10]
    """

    @checked_with_words
    def __init__(self, padding: Sizes, value: float = 0.0, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.value = value
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, value=self.value, data_format=self.data_format, name=self._user_name)


class ConstantPad3D(Border):
    """Put one value around volumes.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom, front, back], or an integer Variable.
        value: of a constant border.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ConstantPad3D(1, 0.5)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 10, 10, 10]
    """

    @checked_with_words
    def __init__(self, padding: Sizes, value: float = 0.0, data_format: Layout3D = "NCDHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.value = value
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, value=self.value, data_format=self.data_format, name=self._user_name)


class ReflectionPad1D(Border):
    """Put the mirrored input around sequences.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right], or an integer Variable.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ReflectionPad1D(1)(paddle.ones([2, 3, 8])).shape
        [2, 3, 10]
    """

    _mode = "reflect"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout1D = "NCL", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="reflect", name=self._user_name)


class ReflectionPad2D(Border):
    """Put the mirrored input around images.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom], or an integer Variable.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ReflectionPad2D(1)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 10, 10]
    """

    _mode = "reflect"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="reflect", name=self._user_name)


class ReflectionPad3D(Border):
    """Put the mirrored input around volumes.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom, front, back], or an integer Variable.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ReflectionPad3D(1)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 10, 10, 10]
    """

    _mode = "reflect"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout3D = "NCDHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="reflect", name=self._user_name)


class ReplicationPad1D(Border):
    """Put the outermost elements around sequences.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right], or an integer Variable.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ReplicationPad1D(1)(paddle.ones([2, 3, 8])).shape
        [2, 3, 10]
    """

    _mode = "replicate"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout1D = "NCL", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="replicate", name=self._user_name)


class ReplicationPad2D(Border):
    """Put the outermost elements around images.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom], or an integer Variable.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ReplicationPad2D(1)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 10, 10]
    """

    _mode = "replicate"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="replicate", name=self._user_name)


class ReplicationPad3D(Border):
    """Put the outermost elements around volumes.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom, front, back], or an integer Variable.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.ReplicationPad3D(1)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 10, 10, 10]
    """

    _mode = "replicate"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout3D = "NCDHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="replicate", name=self._user_name)


class CircularPad1D(Border):
    """Put the other end of the input around sequences.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right], or an integer Variable.
        data_format: 'NCL', or 'NLC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.CircularPad1D(1)(paddle.ones([2, 3, 8])).shape
        [2, 3, 10]
    """

    _mode = "circular"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout1D = "NCL", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="circular", name=self._user_name)


class CircularPad2D(Border):
    """Put the other end of the input around images.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom], or an integer Variable.
        data_format: 'NCHW', or 'NHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.CircularPad2D(1)(paddle.ones([2, 3, 8, 8])).shape
        [2, 3, 10, 10]
    """

    _mode = "circular"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout2D = "NCHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="circular", name=self._user_name)


class CircularPad3D(Border):
    """Put the other end of the input around volumes.

    The layer of ``nn.functional.pad``.

    Args:
        padding: one number, [left, right, top, bottom, front, back], or an integer Variable.
        data_format: 'NCDHW', or 'NDHWC' for channels on the last axis.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.CircularPad3D(1)(paddle.ones([2, 3, 8, 8, 8])).shape
        [2, 3, 10, 10, 10]
    """

    _mode = "circular"

    @checked_with_words
    def __init__(self, padding: Sizes, data_format: Layout3D = "NCDHW", name: str | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.data_format = data_format
        self._user_name = name

    def forward(self, x: AnyTensor) -> AnyTensor:
        """Apply ``pad``.

        Args:
            x: variable of any rank for a list of two numbers per axis, else of rank 3 to 5.

        Raises:
            ArgumentError: if the mode is unknown or the numbers do not fit.
        """
        return F.pad(x, pad=self.padding, data_format=self.data_format, mode="circular", name=self._user_name)


class BCELoss(FunctionLayer):
    """Compute -label log(input) - (1 - label) log(1 - input), for probabilities; a logarithm counts as -100 at least.

    The layer of ``nn.functional.binary_cross_entropy``.

    Args:
        weight: a factor for each element; 1 unless given.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.BCELoss()(paddle.ones([2, 3]), paddle.zeros([2, 3])).item()
        100.0
    """

    @checked_with_words
    def __init__(self, weight: Variable | None = None, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.weight = weight
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``binary_cross_entropy``.

        Args:
            input: probabilities of any shape.
            label: targets from 0 to 1, of that shape.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.binary_cross_entropy(input, label, weight=self.weight, reduction=self.reduction, name=self._user_name)


class BCEWithLogitsLoss(FunctionLayer):
    """Compute the ``binary_cross_entropy`` of the sigmoid of ``logit``, stably.

    The layer of ``nn.functional.binary_cross_entropy_with_logits``.

    Args:
        weight: a factor for each element; 1 unless given.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        pos_weight: a factor for the part of positive labels; 1 unless given.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.BCEWithLogitsLoss()(paddle.ones([2, 3]), paddle.zeros([2, 3])).shape
        []
    """

    @checked_with_words
    def __init__(
        self,
        weight: Variable | None = None,
        reduction: Reduction = "mean",
        pos_weight: Variable | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.weight = weight
        self.reduction = reduction
        self.pos_weight = pos_weight
        self._user_name = name

    def forward(self, logit: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``binary_cross_entropy_with_logits``.

        Args:
            logit: scores of any shape; the sigmoid is applied here.
            label: targets from 0 to 1, of that shape.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.binary_cross_entropy_with_logits(
            logit,
            label,
            weight=self.weight,
            reduction=self.reduction,
            pos_weight=self.pos_weight,
            name=self._user_name,
        )


class CrossEntropyLoss(FunctionLayer):
    """Compute the cross-entropy between ``input`` and ``label``.

    The layer of ``nn.functional.cross_entropy``.

    Args:
        weight: one factor for each class; 1 unless given.
        ignore_index: rows of this label count for nothing.
        reduction: 'mean' (over the weight of the rows that count; 0 if there are none), 'sum' or 'none'. As in Paddle, a
            negative ``ignore_index`` without weights leaves ignored rows in the divisor of the mean.
        soft_label: whether labels are distributions.
        axis: the class axis.
        use_softmax: False if ``input`` holds probabilities already.
        label_smoothing: the part of the uniform distribution that is mixed into the labels, from 0 to 1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.CrossEntropyLoss()(paddle.ones([2, 3]), paddle.to_tensor([0, 2])).shape
        []
    """

    @checked_with_words
    def __init__(
        self,
        weight: Variable | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.weight = weight
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.soft_label = soft_label
        self.axis = axis
        self.use_softmax = use_softmax
        self.label_smoothing = label_smoothing
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``cross_entropy``.

        Args:
            input: logits (or probabilities if ``use_softmax`` is False), classes along ``axis``: [N, classes] or [N, classes, ...].
            label: integer classes, of input's shape without ``axis`` or with 1 there; with ``soft_label``, probabilities of input's
                shape.

        Raises:
            ArgumentError: if the reduction is unknown, or the rank of ``label`` does not fit.
        """
        return F.cross_entropy(
            input,
            label,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            soft_label=self.soft_label,
            axis=self.axis,
            use_softmax=self.use_softmax,
            label_smoothing=self.label_smoothing,
            name=self._user_name,
        )


class HingeEmbeddingLoss(FunctionLayer):
    """Compute ``input`` where the label is 1, max(0, margin - input) where it is -1.

    The layer of ``nn.functional.hinge_embedding_loss``.

    Args:
        margin: from this distance on, a pair of label -1 costs nothing.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.HingeEmbeddingLoss()(paddle.ones([2, 3]), paddle.zeros([2, 3])).item()
        0.0
    """

    @checked_with_words
    def __init__(self, margin: float = 1.0, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.margin = margin
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``hinge_embedding_loss``.

        Args:
            input: distances of any shape.
            label: 1 or -1 for each.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.hinge_embedding_loss(input, label, margin=self.margin, reduction=self.reduction, name=self._user_name)


class KLDivLoss(FunctionLayer):
    """Compute label (log(label) - input), where ``input`` holds logarithms of probabilities; 0 where the label is not positive.

    The layer of ``nn.functional.kl_div``.

    Args:
        reduction: 'mean' over all elements, 'batchmean' for the sum divided by the first size, 'sum' or 'none'.
        log_target: the label holds logarithms too.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.KLDivLoss("batchmean")(paddle.zeros([2, 3]), paddle.ones([2, 3])).item()
        0.0
    """

    @checked_with_words
    def __init__(self, reduction: SumOrMean = "mean", log_target: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.reduction = reduction
        self.log_target = log_target
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``kl_div``.

        Args:
            input: logarithms of probabilities, of any shape.
            label: probabilities of that shape.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.kl_div(input, label, reduction=self.reduction, log_target=self.log_target, name=self._user_name)


class L1Loss(FunctionLayer):
    """Compute the absolute difference.

    The layer of ``nn.functional.l1_loss``.

    Args:
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.L1Loss()(paddle.ones([2, 3]), paddle.zeros([2, 3])).item()
        1.0
    """

    @checked_with_words
    def __init__(self, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``l1_loss``.

        Args:
            input: predictions of any shape.
            label: targets of that shape.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.l1_loss(input, label, reduction=self.reduction, name=self._user_name)


class MSELoss(FunctionLayer):
    """Compute the squared difference.

    The layer of ``nn.functional.mse_loss``.

    Args:
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MSELoss()(paddle.ones([2, 3]), paddle.zeros([2, 3])).item()
        1.0
    """

    @checked_with_words
    def __init__(self, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``mse_loss``.

        Args:
            input: predictions of any shape.
            label: targets of that shape.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.mse_loss(input, label, reduction=self.reduction, name=self._user_name)


class MultiMarginLoss(FunctionLayer):
    """Average max(0, margin - right + wrong)^p over the wrong classes; NaN for a label that is not a class.

    The layer of ``nn.functional.multi_margin_loss``.

    Args:
        p: the power.
        margin: by how much the right score should be larger.
        weight: a factor for each class, inside the power; 1 unless given.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MultiMarginLoss()(paddle.to_tensor([[0.0, 4.0]]), paddle.to_tensor([1])).item()
        0.0
    """

    @checked_with_words
    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Variable | None = None,
        reduction: Reduction = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p = p
        self.margin = margin
        self.weight = weight
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``multi_margin_loss``.

        Args:
            input: scores [N, classes].
            label: integer classes [N].

        Raises:
            ArgumentError: for another reduction, or if the number of classes is not known.
        """
        return F.multi_margin_loss(
            input,
            label,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
            name=self._user_name,
        )


class MultiLabelMarginLoss(FunctionLayer):
    """Sum max(0, 1 - right + wrong) / classes over all pairs of a right and a wrong class; NaN for a label that is not a class.

    The layer of ``nn.functional.multi_label_margin_loss``.

    Args:
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MultiLabelMarginLoss()(paddle.to_tensor([[0.0, 4.0]]), paddle.to_tensor([[1, -1]])).item()
        0.0
    """

    @checked_with_words
    def __init__(self, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``multi_label_margin_loss``.

        Args:
            input: scores [N, classes].
            label: integers [N, classes]: the right classes of each row, and -1 behind the last one.

        Raises:
            ArgumentError: for another reduction, or if the number of classes is not known.
        """
        return F.multi_label_margin_loss(input, label, reduction=self.reduction, name=self._user_name)


class MultiLabelSoftMarginLoss(FunctionLayer):
    """Average the logistic loss over the classes.

    The layer of ``nn.functional.multi_label_soft_margin_loss``.

    Args:
        weight: a factor for each class; 1 unless given.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MultiLabelSoftMarginLoss()(paddle.ones([2, 3]), paddle.zeros([2, 3])).shape
        []
    """

    @checked_with_words
    def __init__(self, weight: Variable | None = None, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.weight = weight
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``multi_label_soft_margin_loss``.

        Args:
            input: scores [N, classes].
            label: 0 or 1 for each.

        Raises:
            ArgumentError: for another reduction, or different shapes.
        """
        return F.multi_label_soft_margin_loss(input, label, weight=self.weight, reduction=self.reduction, name=self._user_name)


class NLLLoss(FunctionLayer):
    """Take -input at the class of the label, for logarithms of probabilities.

    The layer of ``nn.functional.nll_loss``.

    Args:
        weight: one factor for each class; the mean divides by the sum of the factors that count, and is 0 where none does.
        ignore_index: rows of this label count for nothing.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.NLLLoss()(paddle.to_tensor([[-1.0, -2.0]]), paddle.to_tensor([1])).item()
        2.0
    """

    @checked_with_words
    def __init__(
        self,
        weight: Variable | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.weight = weight
        self.ignore_index = ignore_index
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``nll_loss``.

        Args:
            input: logarithms of probabilities: [N, classes] or [N, classes, ...].
            label: integer classes: [N] or [N, ...].

        Raises:
            ArgumentError: for another reduction.
        """
        return F.nll_loss(
            input,
            label,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            name=self._user_name,
        )


class PoissonNLLLoss(FunctionLayer):
    """Compute exp(input) - label input, or input - label log(input + epsilon) if ``log_input`` is False.

    The layer of ``nn.functional.poisson_nll_loss``.

    Args:
        log_input: whether ``input`` holds logarithms.
        full: add Stirling's term where the label is above 1.
        epsilon: added to ``input`` under the logarithm.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.PoissonNLLLoss()(paddle.zeros([2, 3]), paddle.ones([2, 3])).item()
        1.0
    """

    @checked_with_words
    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        epsilon: float = 1e-08,
        reduction: Reduction = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.log_input = log_input
        self.full = full
        self.epsilon = epsilon
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``poisson_nll_loss``.

        Args:
            input: expected counts, or their logarithms, of any shape.
            label: counts of that shape.

        Raises:
            ArgumentError: for another reduction, or if ``epsilon`` is not positive.
        """
        return F.poisson_nll_loss(
            input,
            label,
            log_input=self.log_input,
            full=self.full,
            epsilon=self.epsilon,
            reduction=self.reduction,
            name=self._user_name,
        )


class SmoothL1Loss(FunctionLayer):
    """Compute half the squared difference where it is below ``delta``, else delta (|difference| - delta / 2). Huber 1964.

    The layer of ``nn.functional.smooth_l1_loss``.

    Args:
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        delta: from this difference on, the loss grows linearly.
        is_huber: False to divide by ``delta``.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.SmoothL1Loss()(paddle.ones([2, 3]), paddle.zeros([2, 3])).item()
        0.5
    """

    @checked_with_words
    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0, is_huber: bool = True, name: str | None = None) -> None:
        super().__init__()
        self.reduction = reduction
        self.delta = delta
        self.is_huber = is_huber
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``smooth_l1_loss``.

        Args:
            input: predictions of any shape.
            label: targets of that shape.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.smooth_l1_loss(
            input,
            label,
            reduction=self.reduction,
            delta=self.delta,
            is_huber=self.is_huber,
            name=self._user_name,
        )


class SoftMarginLoss(FunctionLayer):
    """Compute log(1 + exp(-label input)), for labels 1 and -1.

    The layer of ``nn.functional.soft_margin_loss``.

    Args:
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.SoftMarginLoss()(paddle.ones([2]), paddle.ones([2])).shape
        []
    """

    @checked_with_words
    def __init__(self, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``soft_margin_loss``.

        Args:
            input: scores of any shape.
            label: 1 or -1 for each.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.soft_margin_loss(input, label, reduction=self.reduction, name=self._user_name)


class CosineSimilarity(FunctionLayer):
    """Compute the cosine of the angle between vectors along ``axis``.

    The layer of ``nn.functional.cosine_similarity``.

    Args:
        axis: the axis of the vectors; it is reduced.
        eps: what the product of the lengths counts as at least.
        name: shown in the printed form.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.CosineSimilarity()(paddle.ones([2, 4]), paddle.ones([2, 4])).tolist()
        [1.0, 1.0]
    """

    _shown = ("axis", "eps")

    @checked_with_words
    def __init__(self, axis: int = 1, eps: float = 1e-08, name: str | None = None) -> None:
        super().__init__()
        self.axis = axis
        self.eps = eps
        self._user_name = name

    def forward(self, x1: AnyTensor, x2: AnyTensor) -> AnyTensor:
        """Apply ``cosine_similarity``.

        Args:
            x1: vectors along ``axis``.
            x2: vectors to compare with, of that shape or one that broadcasts.
        """
        return F.cosine_similarity(x1, x2, axis=self.axis, eps=self.eps)


class PairwiseDistance(FunctionLayer):
    """Compute the p-norm of ``x - y + epsilon`` along the last axis.

    The layer of ``nn.functional.pairwise_distance``.

    Args:
        p: the p of the p-norm.
        epsilon: added to each difference.
        keepdim: keep the reduced axis with size 1.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> paddle.nn.PairwiseDistance()(paddle.ones([2, 3]), paddle.zeros([2, 3])).shape
        [2]
    """

    _shown = ("p",)

    @checked_with_words
    def __init__(self, p: float = 2.0, epsilon: float = 1e-06, keepdim: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.p = p
        self.epsilon = epsilon
        self.keepdim = keepdim
        self._user_name = name

    def forward(self, x: AnyTensor, y: AnyTensor) -> AnyTensor:
        """Apply ``pairwise_distance``.

        Args:
            x: vectors [N, features] or [features].
            y: vectors of that shape.
        """
        return F.pairwise_distance(x, y, p=self.p, epsilon=self.epsilon, keepdim=self.keepdim, name=self._user_name)


class CosineEmbeddingLoss(FunctionLayer):
    """Compute 1 - cos of two vectors for label 1, max(0, cos - margin) for label -1.

    The layer of ``nn.functional.cosine_embedding_loss``.

    Args:
        margin: up to this cosine, a pair of label -1 costs nothing.
        reduction: 'mean' or 'sum' of all pairs, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.
        ArgumentError: if the margin lies outside [-1, 1].

    Example:
        >>> paddle.nn.CosineEmbeddingLoss()(paddle.ones([2, 3]), paddle.ones([2, 3]), paddle.ones([2])).shape
        []
    """

    @checked_with_words
    def __init__(self, margin: float = 0, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        if not -1 <= margin <= 1:
            raise ArgumentError(f"CosineEmbeddingLoss: the margin lies in [-1, 1], not {margin}.")
        self.margin = margin
        self.reduction = reduction
        self._user_name = name

    def forward(self, input1: AnyTensor, input2: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``cosine_embedding_loss``.

        Args:
            input1: vectors along the last axis: [N, features], or [features] for one pair.
            input2: vectors to compare with, of that shape.
            label: 1 or -1 for each pair, [N].

        Raises:
            ArgumentError: for another reduction, if the inputs have different shapes, or the label does not have one axis less.
        """
        return F.cosine_embedding_loss(input1, input2, label, margin=self.margin, reduction=self.reduction, name=self._user_name)


class GaussianNLLLoss(FunctionLayer):
    """Compute (log v + (input - label)^2 / v) / 2, where v is the variance or, if larger, epsilon. Nix and Weigend 1994.

    The layer of ``nn.functional.gaussian_nll_loss``.

    Args:
        full: add log(2 pi) / 2.
        epsilon: the least variance.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.GaussianNLLLoss()(paddle.ones([2]), paddle.zeros([2]), paddle.ones([2])).item()
        0.5
    """

    @checked_with_words
    def __init__(self, full: bool = False, epsilon: float = 1e-06, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.full = full
        self.epsilon = epsilon
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, label: AnyTensor, variance: AnyTensor) -> AnyTensor:
        """Apply ``gaussian_nll_loss``.

        Args:
            input: expected values of any shape.
            label: targets of that shape.
            variance: of the shape of ``input``, or without its last axis, or with 1 there.

        Raises:
            ArgumentError: for another reduction, or if a variance that is known is negative.
        """
        return F.gaussian_nll_loss(
            input,
            label,
            variance,
            full=self.full,
            epsilon=self.epsilon,
            reduction=self.reduction,
            name=self._user_name,
        )


class MarginRankingLoss(FunctionLayer):
    """Compute max(0, margin - label (input - other)): ``input`` should be larger for label 1, smaller for -1.

    The layer of ``nn.functional.margin_ranking_loss``.

    Args:
        margin: by how much the scores should differ.
        reduction: 'mean' or 'sum' of all elements, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.MarginRankingLoss(0.5)(paddle.ones([2]), paddle.zeros([2]), -paddle.ones([2])).item()
        1.5
    """

    @checked_with_words
    def __init__(self, margin: float = 0.0, reduction: Reduction = "mean", name: str | None = None) -> None:
        super().__init__()
        self.margin = margin
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, other: AnyTensor, label: AnyTensor) -> AnyTensor:
        """Apply ``margin_ranking_loss``.

        Args:
            input: scores of any shape.
            other: scores to compare with, of that shape.
            label: 1 or -1 for each pair.

        Raises:
            ArgumentError: for another reduction.
        """
        return F.margin_ranking_loss(input, other, label, margin=self.margin, reduction=self.reduction, name=self._user_name)


class TripletMarginLoss(FunctionLayer):
    """Compute max(0, margin + the distance to ``positive`` - the distance to ``negative``). Balntas et al. 2016.

    The layer of ``nn.functional.triplet_margin_loss``.

    Args:
        margin: by how much farther these should be; at least 0.
        p: distances are p-norms of the difference.
        epsilon: added to each difference.
        swap: take the distance between ``positive`` and ``negative`` if it is the smaller one.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.TripletMarginLoss()(paddle.ones([2, 3]), paddle.ones([2, 3]), paddle.ones([2, 3])).item()
        1.0
    """

    @checked_with_words
    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        epsilon: float = 1e-06,
        swap: bool = False,
        reduction: Reduction = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.margin = margin
        self.p = p
        self.epsilon = epsilon
        self.swap = swap
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, positive: AnyTensor, negative: AnyTensor) -> AnyTensor:
        """Apply ``triplet_margin_loss``.

        Args:
            input: anchors [N, features].
            positive: vectors that should be near, of that shape.
            negative: vectors that should be far, of that shape.

        Raises:
            ArgumentError: for another reduction, a negative margin, or different shapes.
        """
        return F.triplet_margin_loss(
            input,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            epsilon=self.epsilon,
            swap=self.swap,
            reduction=self.reduction,
            name=self._user_name,
        )


class TripletMarginWithDistanceLoss(FunctionLayer):
    """Compute ``triplet_margin_loss`` with any distance of two variables.

    The layer of ``nn.functional.triplet_margin_with_distance_loss``.

    Args:
        distance_function: gives one distance [N] for each row of two variables; Euclid's unless given.
        margin: by how much farther these should be; at least 0.
        swap: take the distance between ``positive`` and ``negative`` if it is the smaller one.
        reduction: 'mean' or 'sum' of all rows, or 'none' for a value of each.
        name: shown in the printed form, and prefix of the names of the results in a program.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.TripletMarginWithDistanceLoss()(paddle.ones([2, 3]), paddle.ones([2, 3]), paddle.ones([2, 3])).item()
        1.0
    """

    @checked_with_words
    def __init__(
        self,
        distance_function: Callable[[Variable, Variable], Variable] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: Reduction = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap
        self.reduction = reduction
        self._user_name = name

    def forward(self, input: AnyTensor, positive: AnyTensor, negative: AnyTensor) -> AnyTensor:
        """Apply ``triplet_margin_with_distance_loss``.

        Args:
            input: anchors [N, features].
            positive: vectors that should be near, of that shape.
            negative: vectors that should be far, of that shape.

        Raises:
            ArgumentError: for another reduction, a negative margin, or different shapes.
        """
        return F.triplet_margin_with_distance_loss(
            input,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
            name=self._user_name,
        )


class CTCLoss(FunctionLayer):
    """Compute -log of the summed probability of all alignments of the labels with the steps, 0 if none fits. Graves et al. 2006.

    The layer of ``nn.functional.ctc_loss``.

    Args:
        blank: the class of the blank.
        reduction: 'mean' of the losses divided by their label lengths, 'sum' or 'none'.
        zero_infinity: accepted for compatibility: the loss is 0 always where no alignment fits.
        name: shown in the printed form.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word.

    Example:
        >>> paddle.nn.CTCLoss()(paddle.ones([5, 1, 4]), *(paddle.to_tensor(v) for v in ([[1, 2]], [5], [2]))).shape
        []
    """

    @checked_with_words
    def __init__(self, blank: int = 0, reduction: Reduction = "mean", zero_infinity: bool = False, name: str | None = None) -> None:
        super().__init__()
        self.blank = blank
        self.reduction = reduction
        self.zero_infinity = zero_infinity
        self._user_name = name

    def forward(
        self,
        log_probs: AnyTensor,
        labels: AnyTensor,
        input_lengths: AnyTensor,
        label_lengths: AnyTensor,
        norm_by_times: bool = False,
    ) -> AnyTensor:
        """Apply ``ctc_loss``.

        Args:
            log_probs: logits [steps, batch, classes]; softmax is applied here.
            labels: classes [batch, labels].
            input_lengths: how many steps of each row count, integers [batch].
            label_lengths: how many labels of each row count, integers [batch].
            norm_by_times: divide the gradient, not the loss, by the number of steps.

        Raises:
            ArgumentError: for another reduction, a blank that is no class, or missing lengths.
        """
        return F.ctc_loss(
            log_probs,
            labels,
            input_lengths,
            label_lengths,
            blank=self.blank,
            reduction=self.reduction,
            zero_infinity=self.zero_infinity,
            norm_by_times=norm_by_times,
        )
