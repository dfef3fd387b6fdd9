"""Boxes and masks drawn over a picture, with class names and probabilities, by pillow (extra ``images``).

Tests: tests/training/detection/test_drawing.py.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.errors import ArgumentError, OnnxGradError
from onnxgrad.training.detection.boxes import objects_of

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

__all__ = [
    "background_of",
    "beside",
    "colour_of",
    "draw_boxes",
    "draw_masks",
    "draw_text",
    "jpeg_address",
    "mask_names",
    "share_text",
]

Array = np.ndarray[Any, Any]
Colour = tuple[int, int, int]
Names = Sequence[str] | Mapping[int, str] | None

_COLOURS: tuple[Colour, ...] = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (213, 94, 0), (204, 121, 167), (0, 114, 178), (170, 225, 110),
    (148, 103, 189), (255, 127, 150), (120, 240, 230), (190, 150, 110),
)  # fmt: skip
_LIGHT, _DARK = (255, 255, 255), (20, 20, 20)
_BACKGROUNDS = ("background", "none", "void", "unlabeled", "unlabelled", "_background_", "0")


def colour_of(kind: int) -> Colour:
    """Return the colour of a class: the first ones as Okabe and Ito chose them, to be told apart by everybody.

    Example:
        >>> colour_of(0)
        (230, 159, 0)
    """
    return _COLOURS[kind % len(_COLOURS)]


def draw_boxes(
    picture: Array, detections: Array, objects: Array | None = None, names: Names = None, least: float = 0.0, smallest: int = 480
) -> Image.Image:
    """Draw detections over a picture, with class and probability, and the true boxes as dashed lines.

    Args:
        picture: uint8 [height, width] or [height, width, 3], red, green, blue.
        detections: [D, 6], class, score, left, top, right, bottom in pixels of the picture; a class below 0 fills up.
        objects: [M, 5], class, left, top, right, bottom; None to draw none.
        names: of classes; a class without one is drawn as ``class 3``.
        least: the smallest score that is drawn.
        smallest: a picture whose longer side has fewer pixels is enlarged to this, so that labels can be read.

    Raises:
        ArgumentError: if the picture or the rows have another form.
        OnnxGradError: if pillow is missing.

    Example:
        >>> image = draw_boxes(np.zeros((60, 80, 3), np.uint8), np.array([[0, 0.9, 8, 8, 50, 40]]), names=["cat"])
        >>> image.size
        (480, 360)
    """
    image, scale = _canvas(picture, smallest)
    rows = np.asarray(detections, np.float64)
    if rows.size and (rows.ndim != 2 or rows.shape[1] != 6):
        raise ArgumentError(f"detections are rows of class, score, left, top, right, bottom; not of shape {list(rows.shape)}.")
    rows = rows.reshape(-1, 6)
    rows = rows[(rows[:, 0] >= 0) & (rows[:, 1] >= least)]
    pen = _Pen(image)
    for row in objects_of(np.zeros((0, 5)) if objects is None else objects):
        pen.dashed((row[1:] * scale).tolist())
    order = np.argsort(rows[:, 1], kind="stable")  # the surest ones on top
    for _, _, *box in rows[order]:
        pen.outline([v * scale for v in box], _DARK, pen.width + 2)
    for kind, _, *box in rows[order]:
        pen.outline([v * scale for v in box], colour_of(int(kind)), pen.width)
    for kind, score, *box in rows[order[::-1]]:
        pen.label(f"{_name(int(kind), names)} {score:.2f}", [v * scale for v in box], colour_of(int(kind)))
    return image


def draw_masks(
    picture: Array, masks: Array, names: Names = None, background: int | None = 0, opacity: float = 0.45, smallest: int = 480
) -> Image.Image:
    """Draw the classes of pixels over a picture, with an outline each, and a line of their names and shares below it.

    Args:
        picture: uint8 [height, width] or [height, width, 3], red, green, blue.
        masks: integer classes [height, width], where a negative one is none; or bool [classes, height, width], which may overlap. A
            height and width other than the picture's are stretched to it.
        names: of classes; a class without one is drawn as ``class 3``.
        background: the class of integer masks that is not painted; None to paint all.
        opacity: of the paint, from 0 to 1.
        smallest: a picture whose longer side has fewer pixels is enlarged to this.

    Raises:
        ArgumentError: if picture or masks have another form.
        OnnxGradError: if pillow is missing.

    Example:
        >>> masks = np.zeros((60, 80), int)
        >>> masks[10:30, 20:60] = 1
        >>> draw_masks(np.zeros((60, 80, 3), np.uint8), masks, names=["none", "cat"]).size
        (480, 394)
    """
    image, _ = _canvas(picture, smallest)
    width, height = image.size
    layers = [(kind, _stretched(mask, height, width)) for kind, mask in _layers(np.asarray(masks), background)]
    layers = [(kind, mask) for kind, mask in layers if mask.any()]
    pixels = np.asarray(image).astype(np.float64)
    for kind, mask in layers:
        pixels[mask] = (1 - opacity) * pixels[mask] + opacity * np.array(colour_of(kind))
    for kind, mask in layers:
        pixels[_edge(mask)] = colour_of(kind)
    shown = [(kind, f"{_name(kind, names)} {share_text(mask.mean())}") for kind, mask in layers]
    return _with_legend(_image(pixels.round().astype(np.uint8)), shown)


def draw_text(picture: Array, lines: Sequence[str], smallest: int = 480) -> Image.Image:
    """Draw lines of text below a picture, such as its class and probability; what is wider than the picture is broken at spaces.

    Args:
        picture: uint8 [height, width] or [height, width, 3], red, green, blue.
        lines: of text; none leaves the picture alone.
        smallest: a picture whose longer side has fewer pixels is enlarged to this, so that the text can be read.

    Raises:
        ArgumentError: if the picture has another form.
        OnnxGradError: if pillow is missing.

    Example:
        >>> draw_text(np.zeros((60, 80, 3), np.uint8), ["cat 0.93"]).size
        (480, 389)
    """
    image, _ = _canvas(picture, smallest)
    font = _text(image.width)
    draw = _pillow().ImageDraw.Draw(image)
    shown = [part for line in lines for part in _broken(line, lambda text: draw.textlength(text, font) <= image.width - 8)]
    if not shown:
        return image
    height = round(1.6 * font.size)
    page: Image.Image = _pillow().Image.new("RGB", (image.width, image.height + height * len(shown)), _LIGHT)
    page.paste(image, (0, 0))
    draw = _pillow().ImageDraw.Draw(page)
    for number, line in enumerate(shown):
        draw.text((4, image.height + height * (number + 0.5)), line, _DARK, font, anchor="lm")
    return page


def background_of(names: Names) -> int | None:
    """Return the class of masks that stands for no thing: 0, unless its name says that it is one.

    Example:
        >>> background_of(["background", "cat"]), background_of(["road", "sky"]), background_of(None)
        (0, None, 0)
    """
    return 0 if not names or _name(0, names).lower() in _BACKGROUNDS else None


def mask_names(names: Sequence[str] | None, channels: int | None) -> Sequence[str] | None:
    """Return the names of the classes of integer masks; those of a single mask are 0, its background, and 1.

    Args:
        names: of the classes of the data, if it has some.
        channels: of the output.

    Example:
        >>> mask_names(["road"], 1), mask_names(["none", "road"], 1), mask_names(None, 1), mask_names(None, 3)
        (['background', 'road'], ['none', 'road'], ['background', 'mask'], None)
    """
    if channels != 1:
        return names or None
    return list(names) if names and len(names) == 2 else ["background", names[0] if names else "mask"]


def beside(titled: Sequence[tuple[str, Image.Image]]) -> Image.Image:
    """Put pictures side by side, each below its title.

    Example:
        >>> cat = draw_masks(np.zeros((60, 80), np.uint8), np.zeros((60, 80), int))
        >>> beside([("true", cat), ("predicted", cat)]).size
        (968, 389)
    """
    pillow = _pillow()
    font = _text(max(image.width for _, image in titled))
    gap, line = 8, round(1.6 * font.size)
    page: Image.Image
    width = sum(image.width for _, image in titled) + gap * (len(titled) - 1)
    page = pillow.Image.new("RGB", (width, line + max(image.height for _, image in titled)), _LIGHT)
    draw, left = pillow.ImageDraw.Draw(page), 0
    for title, image in titled:
        draw.text((left + 2, line / 2), title, _DARK, font, anchor="lm")
        page.paste(image, (left, line))
        left += image.width + gap
    return page


def jpeg_address(image: Image.Image) -> str:
    """Return a picture as the address of a JPEG file in itself, for a page.

    Example:
        >>> jpeg_address(draw_boxes(np.zeros((60, 80), np.uint8), np.zeros((0, 6))))[:23]
        'data:image/jpeg;base64,'
    """
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


# Parts ---------------------------------------------------------------------------------------------------------------


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise OnnxGradError("drawing needs the package pillow. Install onnxgrad[images].") from error
    return PIL


def _text(width: int) -> Any:
    """The font for lines beside a picture of this width"""
    return _pillow().ImageFont.load_default(max(15, round(width / 26)))


def _broken(line: str, fits: Callable[[str], bool]) -> list[str]:
    """A line as several that fit, broken at spaces"""
    parts: list[str] = []
    for word in line.split(" "):
        if parts and fits(f"{parts[-1]} {word}"):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts


def _image(pixels: Array) -> Image.Image:
    image: Image.Image = _pillow().Image.fromarray(np.ascontiguousarray(pixels)).convert("RGB")
    return image


def _canvas(picture: Array, smallest: int) -> tuple[Image.Image, float]:
    """The picture in colour, enlarged where it is small, and by how much"""
    pixels = np.asarray(picture)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3) or not pixels.size:
        form = f"{pixels.dtype} {list(pixels.shape)}"
        raise ArgumentError(f"a picture to draw on is uint8 [height, width] or [height, width, 3], not {form}. Convert it.")
    image, scale = _image(pixels), max(1.0, smallest / max(pixels.shape[:2]))
    if scale > 1:
        size = (round(pixels.shape[1] * scale), round(pixels.shape[0] * scale))
        image = image.resize(size, _pillow().Image.Resampling.BICUBIC)
    return image, scale


def _name(kind: int, names: Names) -> str:
    if isinstance(names, Mapping):
        return str(names.get(kind, f"class {kind}"))
    return str(names[kind]) if names is not None and kind < len(names) else f"class {kind}"


def share_text(share: float) -> str:
    """Return a share of a picture as people read it.

    Example:
        >>> share_text(0.113), share_text(0.002)
        ('11%', '<1%')
    """
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


class _Pen:
    """Draws boxes and labels, which do not cover each other as long as there is room."""

    def __init__(self, image: Image.Image) -> None:
        pillow = _pillow()
        self.draw: ImageDraw.ImageDraw = pillow.ImageDraw.Draw(image)
        self.size = image.size
        longer = max(image.size)
        self.width = max(2, round(longer / 160))
        self.font = pillow.ImageFont.load_default(max(15, round(longer / 28)))
        self.taken: list[list[float]] = []

    def outline(self, box: Sequence[float], colour: Colour, width: int) -> None:
        left, top, right, bottom = box
        half = width // 2
        corners = [min(left, right) - half, min(top, bottom) - half, max(left, right) + half, max(top, bottom) + half]
        self.draw.rectangle(corners, outline=colour, width=width)

    def dashed(self, box: Sequence[float]) -> None:
        """A box of white dashes on dark ones"""
        left, top, right, bottom = box
        dash = 4.0 * self.width
        for start, end in (
            ((left, top), (right, top)),
            ((right, top), (right, bottom)),
            ((left, bottom), (right, bottom)),
            ((left, top), (left, bottom)),
        ):
            self.draw.line([start, end], fill=_DARK, width=self.width + 2)
            length = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
            for at in np.arange(0, length, 2 * dash):
                ends = [tuple(a + (b - a) * min(1.0, s / length) for a, b in zip(start, end, strict=True)) for s in (at, at + dash)]
                self.draw.line(ends, fill=_LIGHT, width=self.width)

    def label(self, text: str, box: Sequence[float], colour: Colour) -> None:
        """A label above the box, else within it or below it: where it is on the picture and covers no other"""
        left, top, bottom = min(box[0], box[2]), min(box[1], box[3]), max(box[1], box[3])
        pad = self.width + 1
        width = self.draw.textlength(text, self.font) + 2 * pad
        height = sum(self.font.getmetrics()) + pad
        x = max(0.0, min(left - 1, self.size[0] - width))
        places = [top - height, top, bottom, bottom - height, *(top + k * height for k in range(1, 6))]
        inside = [y for y in places if 0 <= y <= self.size[1] - height] or [max(0.0, min(top, self.size[1] - height))]
        at = next((y for y in inside if self._is_free([x, y, x + width, y + height])), inside[0])
        self.taken.append([x, at, x + width, at + height])
        self.draw.rectangle(self.taken[-1], fill=colour)
        self.draw.text((x + pad, at + height / 2), text, _on(colour), self.font, anchor="lm")

    def _is_free(self, place: list[float]) -> bool:
        left, top, right, bottom = place
        return all(right <= t[0] or t[2] <= left or bottom <= t[1] or t[3] <= top for t in self.taken)


def _on(colour: Colour) -> Colour:
    """Dark or light, whatever is read better on a colour"""
    return _DARK if 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 110 else _LIGHT


def _layers(masks: Array, background: int | None) -> list[tuple[int, Array]]:
    if masks.ndim == 3:
        return [(k, masks[k] > 0.5 if masks.dtype != bool else masks[k]) for k in range(len(masks))]
    if masks.ndim != 2 or masks.dtype.kind not in "iu":
        form = f"{masks.dtype} {list(masks.shape)}"
        raise ArgumentError(
            f"masks are integer classes [height, width] or bool [classes, height, width], not {form}. Convert them."
        )
    kinds = [k for k in np.unique(masks).tolist() if k >= 0 and k != background]
    return [(k, masks == k) for k in kinds]


def _stretched(mask: Array, height: int, width: int) -> Array:
    rows = (np.arange(height) + 0.5) * mask.shape[0] / height
    columns = (np.arange(width) + 0.5) * mask.shape[1] / width
    stretched: Array = mask[rows.astype(int)[:, None], columns.astype(int)]
    return stretched


def _edge(mask: Array) -> Array:
    """The pixels of a mask, two wide, that lie at its edge"""
    inner = mask
    for _ in range(2):
        wide = np.pad(inner, 1, mode="edge")
        inner = inner & wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:]
    return mask & ~inner


def _with_legend(image: Image.Image, shown: Sequence[tuple[int, str]]) -> Image.Image:
    """The picture with colours and names of classes below it"""
    if not shown:
        return image
    pillow = _pillow()
    font = _text(image.width)
    line, gap, square = round(1.6 * font.size), font.size, round(0.9 * font.size)
    measure = pillow.ImageDraw.Draw(image)
    places: list[tuple[float, int, int, str]] = []
    x, row = 4.0, 0
    for kind, text in shown:
        width = square + 6 + measure.textlength(text, font)
        if x > 4 and x + width > image.width:
            x, row = 4.0, row + 1
        places.append((x, row, kind, text))
        x += width + gap
    page: Image.Image = pillow.Image.new("RGB", (image.width, image.height + line * (row + 1) + 5), _LIGHT)
    page.paste(image, (0, 0))
    draw = pillow.ImageDraw.Draw(page)
    for x, row, kind, text in places:
        middle = image.height + line * row + line / 2 + 2
        draw.rectangle([x, middle - square / 2, x + square, middle + square / 2], fill=colour_of(kind))
        draw.text((x + square + 6, middle), text, _DARK, font, anchor="lm")
    return page
