"""How a model wants its images: size, axes, channels and values, read from the file as far as it says.

Tests: tests/training/data/test_images.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training.data.views import FITS, view_of
from onnxgrad.training.detection.heads import DetectorHead, recognise_head

if TYPE_CHECKING:
    from onnxgrad.training.data.kinds.picture import PictureColumn

__all__ = ["AROUND", "Preparation", "image_input", "image_inputs", "preparation_of"]

Array = np.ndarray[Any, Any]
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_PLAIN = {"0 to 1": (0.0, 1.0), "-1 to 1": (0.5, 0.5), "0 to 255": (0.0, 1 / 255)}
_OPEN_SIZE, _DETECTED, _STRIDE = 224, 640, 32
_WHOLE = re.compile(r"[1-9]\d{0,3}")
AROUND = 114
"""Grey from 0 to 255 around a picture in a letterbox, as YOLO's exports have it."""
_EXPORTED = re.compile(r"\[\s*(\d{1,5}),\s*(\d{1,5})\s*\]")
"""What YOLO's exports write as ``imgsz`` into the file: height and width."""
_CLEARLY, _APART = 0.25, 0.05
"""BGR is taken if its distance from the statistics is less than this share of that of RGB, and so much less."""
_MOVES = ("Cast", "Transpose", "Identity", "Pad", "Resize")
"""What exporters write between an image and its first layer. Not all that moves elements: a Gather may reorder channels."""


@dataclass(frozen=True)
class Preparation:
    """The preprocessing of an image: resized, its values v / 255 less ``mean`` over ``std``, its axes in the order of ``layout``.

    Attributes:
        size: height and width.
        layout: ``"CHW"`` or ``"HWC"``.
        order: ``"RGB"``, ``"BGR"`` or ``"L"`` for one channel.
        mean, std: of each channel in that order.
        dtype: of the array; of integers the bytes are taken as they are.
        fit: how an image of another size gets into this one: one of ``views.FITS``.
        around: value, from 0 to 255, of what lies around such an image.
    """

    size: tuple[int, int]
    layout: str
    order: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: Any = np.float32
    fit: str = FITS[0]
    around: int = AROUND

    def ground(self, mode: str) -> Any:
        """What lies around an image of Pillow's mode L, RGB or F, as Pillow takes it."""
        return (self.around,) * 3 if mode == "RGB" else self.around

    def resized(self, image: Any) -> Any:
        """An image of Pillow in the model's size."""
        return view_of(image.size, self.size, self.fit).image(image, self.ground(image.mode), 2)

    def array(self, image: Any) -> Array:
        """An image of Pillow as an array; it is not resized."""
        if image.mode == "F":  # grey of more than 8 bits, from 0 to 255
            pixels = np.repeat(np.asarray(image)[:, :, None], len(self.mean), axis=2)
            pixels = pixels if np.dtype(self.dtype).kind == "f" else pixels.round().clip(0, 255)
        else:
            pixels = np.asarray(image.convert("L" if self.order == "L" else "RGB"))
            pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
        if self.order == "BGR":
            pixels = pixels[:, :, ::-1]
        if np.dtype(self.dtype).kind == "f":
            scale = np.asarray(self.std, np.float32) * 255
            pixels = (pixels / scale - np.asarray(self.mean, np.float32) * 255 / scale).astype(self.dtype)
        return np.ascontiguousarray((pixels.transpose(2, 0, 1) if self.layout == "CHW" else pixels).astype(self.dtype))

    def values(self) -> str:
        """``mean 0.485 0.456 0.406, std ...``"""
        plain = next((name for name, (m, s) in _PLAIN.items() if set(self.mean) == {m} and np.allclose(self.std, s)), None)
        if plain is not None:
            return f"values from {plain}"
        mean, std = (" ".join(f"{v:.4g}" for v in row) for row in (self.mean, self.std))
        return f"mean {mean}, std {std} (of 0 to 1)"


def image_input(inputs: Sequence[Variable]) -> tuple[Variable, str, int]:
    """The input that takes images, its layout and its number of channels.

    Raises:
        DataError: if there is none, or several.
    """
    candidates = _candidates(inputs)
    if len(candidates) != 1:
        what = "none" if not candidates else f"{len(candidates)}"
        raise DataError(
            f"images go into an input of rank 4 with 1 or 3 channels; the model has {what} of these: {list(inputs)}. Give arrays."
        )
    return candidates[0]


def image_inputs(inputs: Sequence[Variable]) -> list[Variable]:
    """The inputs that may take images: of rank 4 with 1 or 3 channels."""
    return [v for v, _, _ in _candidates(inputs)]


def _candidates(inputs: Sequence[Variable]) -> list[tuple[Variable, str, int]]:
    candidates = []
    for v in inputs:
        if v.dims is not None and len(v.dims) == 4:
            for axis, layout in ((1, "CHW"), (3, "HWC")):
                channels = v.dims[axis]
                if isinstance(channels, int) and channels in (1, 3):
                    candidates.append((v, layout, channels))
                    break
    return candidates


def preparation_of(
    program: Program,
    samples: Sequence[Any],
    size: Sequence[int] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    order: str | None = None,
    recorded: PictureColumn | None = None,
    fit: str | None = None,
) -> tuple[str, Preparation, str]:
    """The input for images, what is done with them, and a line that says it with the reasons.

    What is neither given nor recorded is guessed: values from arithmetic at the beginning of the graph, or by which of the usual
    ways brings the statistics of some images nearest to those that its BatchNormalization holds; without both they are from 0 to 1
    for detectors like YOLO, and those of ImageNet for others.

    Raises:
        ArgumentError: if what is given is no size, mean, std or order.
        DataError: if no input takes images, or the record is that of another input.
    """
    v, layout, channels = image_input(program.inputs)
    assert v.dims is not None
    declared = v.dims[1:3] if layout == "HWC" else v.dims[2:]
    if recorded is not None:
        return v.name, *_recorded(v, layout, channels, declared, (size, mean, std, order), fit, recorded)
    if fit is None and "stride" in program.metadata and program.metadata.get("task") != "classify":
        fit = "letterbox"  # a detector of YOLO, whatever its answers are now
    target_size, why_size = _size(declared, size, samples, program.metadata, fit)
    channel_order = _order(order, channels)
    base = Preparation(
        target_size, layout, channel_order or ("L" if channels == 1 else "RGB"), (0.0,) * channels, (1.0,) * channels
    )
    base = replace(base, fit=fit or FITS[0])
    if not v.dtype.is_float:
        return (
            v.name,
            replace(base, dtype=v.dtype.numpy),
            _note(v, base, why_size, "bytes as they are, as the input is of integers"),
        )
    base = replace(base, dtype=v.dtype.numpy)
    if mean is not None or std is not None:
        base = replace(base, mean=_channels(mean, channels, "mean", 0.0), std=_channels(std, channels, "std", 1.0))
        return v.name, base, _note(v, base, why_size, f"{base.values()}, as given")
    known = _from_graph(v)
    if known is None and (("imgsz" in program.metadata and "stride" in program.metadata) or _is_yolo(program)):
        base = replace(base, mean=(0.0,) * channels, std=(1.0,) * channels)
        return v.name, base, _note(v, base, why_size, f"{base.values()}, as detectors like YOLO take them")
    if known is not None:
        base = replace(base, mean=(_PLAIN[known][0],) * channels, std=(_PLAIN[known][1],) * channels)
        return v.name, base, _note(v, base, why_size, f"{base.values()}, which the graph itself normalises further")
    best = _by_statistics(program, v, base, samples, channel_order)
    if best is not None:
        how, doubt = best
        return v.name, how, _note(v, how, why_size, f"{how.values()}, which fits the statistics in the file best{doubt}")
    if channels == 3:
        base = replace(base, mean=_IMAGENET[0], std=_IMAGENET[1])
    why = f"{base.values()}, a guess, as the file does not specify it: see --image-mean, --image-std and --image-order"
    return v.name, base, _note(v, base, why_size, why)


def _is_yolo(program: Program) -> bool:
    head = recognise_head(program)
    return isinstance(head, DetectorHead) and head.family in ("distances", "anchors", "cells")


def _recorded(
    v: Variable,
    layout: str,
    channels: int,
    declared: Sequence[Any],
    given: Sequence[Any],
    fit: str | None,
    recorded: PictureColumn,
) -> tuple[Preparation, str]:
    """What a record says, but for what is given"""
    size, mean, std, order = given
    if (recorded.layout, len(recorded.mean)) != (layout, channels):
        then = f"{recorded.layout} with {len(recorded.mean)} channels"
        raise DataError(
            f"the input {v.name!r} takes images as {layout} with {channels} channels, and the record of the data has {then}. "
            "The record belongs to another model: ignore it (--ignore-record)."
        )
    if size is None and not all(want == have or not isinstance(want, int) for want, have in zip(declared, recorded.size)):
        raise DataError(
            f"the input {v.name!r} takes images of {list(declared)}, and the record of the data has {list(recorded.size)}. "
            "The record belongs to another model: ignore it (--ignore-record)."
        )
    target_size, why_size = (recorded.size, "recorded") if size is None else _size(declared, size, (), {}, fit)
    how = Preparation(
        target_size,
        layout,
        _order(order, channels) or recorded.order,
        recorded.mean if mean is None else _channels(mean, channels, "mean", 0.0),
        recorded.std if std is None else _channels(std, channels, "std", 1.0),
        v.dtype.numpy,
        fit or recorded.fit,
        recorded.around,
    )
    what = how.values() if v.dtype.is_float else "bytes as they are"
    names = [name for name in ("size", "mean", "std", "order") if getattr(how, name) != getattr(recorded, name)]
    instead = f", except the given {' and '.join(names)}" if names else ""
    return how, _note(v, how, why_size, f"{what}, as the model was trained{instead}")


def _note(v: Variable, preparation: Preparation, why_size: str, values: str) -> str:
    height, width = preparation.size
    channels = "grey" if preparation.order == "L" else preparation.order
    how = {"stretch": "", "letterbox": ", scaled by one factor between grey bars (letterbox)"}
    fitted = how.get(preparation.fit, ", scaled by one factor into the upper left corner")
    return f"images enter {v.name!r} as {preparation.layout}, {channels}, {height} x {width} ({why_size}){fitted}, {values}."


def _size(
    declared: Sequence[Any],
    size: Sequence[int] | None,
    samples: Sequence[Any],
    metadata: Mapping[str, str],
    fit: str | None,
) -> tuple[tuple[int, int], str]:
    stride = int(metadata["stride"]) if _WHOLE.fullmatch(metadata.get("stride", "")) else 0
    if size is not None:
        height, width = (int(size[0]), int(size[-1]))
        if min(height, width) < 1 or len(size) > 2:
            raise ArgumentError(f"the size of images is a height and a width of at least 1, not {list(size)}.")
        for want, have in zip(declared, (height, width), strict=True):
            if isinstance(want, int) and want != have:
                raise ArgumentError(f"the model takes images of {list(declared)}, not {height} x {width}. Leave the size out.")
        if stride and (height % stride or width % stride):
            raise ArgumentError(f"the model takes images of multiples of {stride} (stride in the file), not {height} x {width}.")
        return (height, width), "as given"
    if all(isinstance(d, int) for d in declared):
        return (int(declared[0]), int(declared[1])), "of the file"
    exported = _EXPORTED.fullmatch(metadata.get("imgsz", ""))
    if exported is not None and all(
        not isinstance(d, int) or str(d) == e for d, e in zip(declared, exported.groups(), strict=True)
    ):
        return (int(exported[1]), int(exported[2])), "imgsz in the file"
    sizes = {image.size for image in samples}
    (width, height), why = (
        (next(iter(sizes)), "the size of the images") if len(sizes) == 1 else ((_OPEN_SIZE,) * 2, "a guess: see --image-size")
    )
    if stride or fit not in (None, "stretch"):  # as a detector takes them: 640, or the images with bars up to a multiple
        stride = stride or _STRIDE
        width, height = ((_DETECTED,) * 2) if len(sizes) != 1 else (-(-side // stride) * stride for side in (width, height))
    fixed = [d if isinstance(d, int) else have for d, have in zip(declared, (height, width), strict=True)]
    return (int(fixed[0]), int(fixed[1])), why


def _order(requested: str | None, channels: int) -> str | None:
    if requested is None:
        return "L" if channels == 1 else None
    order = requested.upper()
    if order not in ("RGB", "BGR") or channels != 3:
        raise ArgumentError(
            f"the order of channels is rgb or bgr, for a model of 3 channels; this has {channels}, and {requested!r} is given."
        )
    return order


def _channels(statistic: Sequence[float] | None, channels: int, what: str, default: float) -> tuple[float, ...]:
    values = [default] if statistic is None else [float(v) for v in statistic]
    if len(values) not in (1, channels) or (what == "std" and min(values) <= 0):
        raise ArgumentError(
            f"{what} is one number or one for each of {channels} channels{', above 0' * (what == 'std')}, not {values}."
        )
    return tuple(values * channels if len(values) == 1 else values)


def _from_graph(v: Variable) -> str | None:
    """Describe the values the graph takes, if its first arithmetic is with constants: a factor of less than 1/20 is for bytes"""
    factor, at, met = 1.0, v, False
    while True:
        readers = [op for op in at.block.ops if any(x is at for x in op.inputs)]
        if len(readers) != 1:
            break
        op = readers[0]
        result = op.outputs[0]
        if (
            op.type in ("Sub", "Add", "Mul", "Div")
            and op.inputs[0] is at
            and op.inputs[1] is not None
            and op.inputs[1].value is not None
        ):
            constant = op.inputs[1].value.numpy().astype(np.float64)
            met = True
            if op.type in ("Mul", "Div") and constant.size and np.all(constant != 0):
                factor *= float(np.mean(np.abs(constant))) ** (1 if op.type == "Mul" else -1)
            elif constant.size and float(np.abs(constant).max()) > 3 * max(factor, 1e-9) and factor >= 1:
                factor = min(factor, 1 / 58)  # the means of bytes are taken off before anything is divided
        elif op.type not in _MOVES or op.inputs[0] is not at:
            break
        if result is None:
            break
        at = result
    if not met:
        return None
    return "0 to 255" if factor < 0.05 else "0 to 1"


def _by_statistics(
    program: Program, v: Variable, base: Preparation, samples: Sequence[Any], order: str | None
) -> tuple[Preparation, str] | None:
    """Choose the candidate for which the first normalised layer has the mean and variance nearest to the statistics in the file

    Pictures of other colours than those of the training fit in the wrong order, too: BGR is taken by a clear margin alone.
    """
    norm = next((op for op in program.global_block().ops if op.type == "BatchNormalization"), None)
    if norm is None or norm.inputs[0] is None or len(program.inputs) != 1 or not samples:
        return None
    mean, var = (None if x is None or x.value is None else x.value.numpy().astype(np.float64) for x in norm.inputs[3:5])
    if mean is None or var is None or (not mean.any() and (var == 1).all()):
        return None
    channels = len(base.mean)
    ways = [((m,) * channels, (s,) * channels) for m, s in _PLAIN.values()]
    if channels == 3:
        ways.insert(0, _IMAGENET)
    orders = [order] if order else ["RGB", "BGR"] if channels == 3 else [base.order]
    resized = [base.resized(image) for image in samples]
    executor = Executor()
    scored = []
    for way_index, (m, s) in enumerate(ways):
        for order_index, name in enumerate(orders):
            candidate = replace(base, mean=m, std=s, order=name)
            images = np.stack([candidate.array(image) for image in resized])
            (output,) = executor.run(program, {v.name: images}, [norm.inputs[0].name])
            x = np.asarray(output, np.float64)
            axes = (0, *range(2, x.ndim))
            spread = np.maximum(x.var(axis=axes), 1e-12) / np.maximum(var, 1e-12)
            off = (x.mean(axis=axes) - mean) ** 2 / np.maximum(var, 1e-12)
            scored.append(
                (float(np.mean(np.minimum(off, 100) + np.minimum(np.log(spread) ** 2, 100))), way_index, order_index, candidate)
            )
    nearest = min(scored, key=lambda entry: entry[:3])
    if nearest[2] == 0:
        return nearest[3], ""
    in_rgb = min((entry for entry in scored if entry[2] == 0), key=lambda entry: entry[:3])
    if nearest[0] < _CLEARLY * in_rgb[0] and in_rgb[0] - nearest[0] > _APART:
        return nearest[3], ""
    return in_rgb[3], "; BGR fits no less, but not by a clear margin: see --image-order"
