"""Layers without parameters: each is a function of nn.functional whose options are given when it is made."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from onnxgrad.errors import ArgumentError, Mismatch
from onnxgrad.nn import functional as F
from onnxgrad.nn.functional.layout import channels_last
from onnxgrad.nn.layer import Layer, MadeLayer
from onnxgrad.tensor import manipulation
from onnxgrad.tensor.common import positive

_OF_ONE = """
CELU celu | ELU elu | GELU gelu | GLU glu | Hardshrink hardshrink | Hardsigmoid hardsigmoid : | Hardswish hardswish
Hardtanh hardtanh | LeakyReLU leaky_relu | LogSigmoid log_sigmoid | LogSoftmax log_softmax : axis | Maxout maxout | Mish mish
ReLU relu | ReLU6 relu6 | RReLU rrelu | SELU selu | Sigmoid sigmoid | Silu silu | Softmax softmax : axis | Softplus softplus
Softshrink softshrink | Softsign softsign | Swish swish | Tanh tanh | Tanhshrink tanhshrink | ThresholdedReLU thresholded_relu
Dropout dropout | Dropout2D dropout2d | Dropout3D dropout3d | AlphaDropout alpha_dropout
FeatureAlphaDropout feature_alpha_dropout
AvgPool1D avg_pool1d | AvgPool2D avg_pool2d | AvgPool3D avg_pool3d | MaxPool1D max_pool1d | MaxPool2D max_pool2d
MaxPool3D max_pool3d | LPPool1D lp_pool1d | LPPool2D lp_pool2d
AdaptiveAvgPool1D adaptive_avg_pool1d | AdaptiveAvgPool2D adaptive_avg_pool2d | AdaptiveAvgPool3D adaptive_avg_pool3d
AdaptiveMaxPool1D adaptive_max_pool1d | AdaptiveMaxPool2D adaptive_max_pool2d | AdaptiveMaxPool3D adaptive_max_pool3d
LocalResponseNorm local_response_norm | Upsample interpolate | PixelShuffle pixel_shuffle | PixelUnshuffle pixel_unshuffle
ChannelShuffle channel_shuffle | ZeroPad2D zeropad2d | Flatten flatten : start_axis=1 stop_axis | Unflatten unflatten
UpsamplingNearest2D interpolate : size scale_factor data_format='NCHW'
UpsamplingBilinear2D interpolate : size scale_factor data_format='NCHW' ; mode='bilinear' align_corners=True
Unfold unfold : kernel_sizes dilations paddings strides | Fold fold : output_sizes kernel_sizes dilations paddings strides
Pad1D pad : padding=pad mode value data_format='NCL' | Pad2D pad : padding=pad mode value data_format='NCHW'
Pad3D pad : padding=pad mode value data_format='NCDHW' | ZeroPad1D pad : padding=pad data_format='NCL'
ZeroPad3D pad : padding=pad data_format='NCDHW'
"""
_OF_TWO = """
BCELoss binary_cross_entropy | BCEWithLogitsLoss binary_cross_entropy_with_logits | CrossEntropyLoss cross_entropy
HingeEmbeddingLoss hinge_embedding_loss | KLDivLoss kl_div | L1Loss l1_loss | MSELoss mse_loss | MultiMarginLoss multi_margin_loss
MultiLabelSoftMarginLoss multi_label_soft_margin_loss | NLLLoss nll_loss | PoissonNLLLoss poisson_nll_loss
SmoothL1Loss smooth_l1_loss | SoftMarginLoss soft_margin_loss | CosineSimilarity cosine_similarity
PairwiseDistance pairwise_distance | MaxUnPool1D max_unpool1d | MaxUnPool2D max_unpool2d | MaxUnPool3D max_unpool3d
"""
_OF_THREE = """
CosineEmbeddingLoss cosine_embedding_loss | GaussianNLLLoss gaussian_nll_loss | MarginRankingLoss margin_ranking_loss
TripletMarginLoss triplet_margin_loss | TripletMarginWithDistanceLoss triplet_margin_with_distance_loss
"""
_OF_FOUR = "CTCLoss ctc_loss : blank reduction"


class _OfFunction(MadeLayer):
    """A function that takes ``_known``: behind the tensors ``_options``, attributes of the layer by name, and ``_fixed`` values."""

    _layer_name: str
    _function: Any
    _known: Any
    _options: ClassVar[dict[str, str]]
    _fixed: ClassVar[dict[str, Any]]
    _layout: str | None

    def _make(self, args: Any) -> None:
        name, options = self._layer_name, vars(args)
        self._user_name = options.pop("name")
        if options.get("reduction", "mean") not in ("mean", "sum", "none", "batchmean"):
            raise ArgumentError(f"{name}: the reduction is 'mean', 'sum' or 'none', not {options['reduction']!r}.")
        for option, value in options.items():
            setattr(self, option, value)
        _check(name, options)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        arguments = {argument: getattr(self, option) for option, argument in self._options.items()}
        if "training" in self._known:
            arguments["training"] = self.training
        if self._user_name is not None and "name" in self._known:
            arguments["name"] = self._user_name
        return self._function(*inputs, **arguments, **self._fixed, **kwargs)

    def extra_repr(self) -> str:
        shown = {option: getattr(self, option) for option in self._options}
        if shown.get("data_format") == self._layout:
            shown.pop("data_format", None)
        shown |= {} if self._user_name is None else {"name": self._user_name}
        return ", ".join(f"{option}={value}" for option, value in shown.items())


def _layer_class(entry: str, tensors: int) -> type[Layer]:
    """A class from ``Name function : options ; fixed``.

    Without a list its options are all arguments of the function behind the tensors. ``option=default`` has another default,
    ``option=argument`` another name.
    """
    head, _, fixed = entry.partition(";")
    head, listed, options = head.partition(":")
    name, function_name = head.split()
    function = getattr(F, function_name, None) or getattr(manipulation, function_name)
    known = inspect.signature(function).parameters
    arguments: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    for item in options.split() if listed else [key for key in list(known)[tensors:] if key not in ("training", "name")]:
        option, _, default = item.partition("=")
        arguments[option] = default if default in known else option
        defaults[option] = known[arguments[option]].default if default in known or not default else _literal(default)
    takes = [option if value is inspect.Parameter.empty else f"{option}={value!r}" for option, value in defaults.items()]
    body = {
        "__doc__": f"The layer of ``nn.functional.{function_name}``: {(function.__doc__ or '').splitlines()[0]}",
        "__module__": __name__,
        "takes": ", ".join([*takes, "name=None"]),
        "_layer_name": name,
        "_function": staticmethod(function),
        "_known": known,
        "_options": arguments,
        "_fixed": {key: _literal(value) for key, value in (item.split("=") for item in fixed.split())},
        "_layout": defaults.get("data_format"),
    }
    return type(name, (_OfFunction,), body)


def _check(name: str, options: dict[str, Any]) -> None:
    """Refuse at once what the function would refuse, or take, when the layer is called."""
    factor = next((options[key] for key in ("upscale_factor", "downscale_factor") if key in options), None)
    factor = options["groups"] if name == "ChannelShuffle" else factor
    if factor is not None:
        positive(factor, name, "its first argument")
        channels_last(options["data_format"], 2)
    if name in _PADS and options["data_format"] not in _PADS[name]:
        raise Mismatch(f"{name}: data_format is {' or '.join(_PADS[name])}, not {options['data_format']!r}.")
    if name == "CosineEmbeddingLoss" and not -1 <= options["margin"] <= 1:
        raise ArgumentError(f"{name}: the margin lies in [-1, 1], not {options['margin']}.")


_PADS = {"Pad1D": ("NCL", "NLC"), "Pad2D": ("NCHW", "NHWC"), "Pad3D": ("NCDHW", "NDHWC")}


def _literal(text: str) -> Any:
    return {"True": True, "1": 1}.get(text, text.strip("'"))


_MADE: dict[str, type[Layer]] = {}
for _tensors, _table in enumerate((_OF_ONE, _OF_TWO, _OF_THREE, _OF_FOUR), 1):
    for _entry in _table.replace("|", "\n").strip().splitlines():
        _class = _layer_class(_entry, _tensors)
        _MADE[_class.__name__] = _class


class Softmax2D(Layer):
    """softmax over the channels of [N, C, H, W] or [C, H, W]."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._user_name = name

    def extra_repr(self) -> str:
        return "" if self._user_name is None else f"name={self._user_name}"

    def forward(self, x: Any) -> Any:
        if x.ndim not in (3, 4):
            raise Mismatch(f"Softmax2D takes 3 or 4 axes, not {x.ndim}.")
        return F.softmax(x, axis=-3)


class Identity(Layer):
    """The identity; arguments of its constructor are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


globals().update(_MADE)
__all__ = ["Identity", "Softmax2D", *_MADE]
