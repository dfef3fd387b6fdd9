"""What ``onnxgrad explain-image`` does; its arguments are in ``options/explain_image.py``."""

# Tests: tests/cli/test_commands.py, tests/test_attribution.py.

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.attribution import Attribution, grad_cam, integrated_gradients, saliency
from onnxgrad.cli.common import load, print_json
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import writing
from onnxgrad.training.data.kinds.picture import PictureColumn, picture_at
from onnxgrad.training.data.preparing import Preparation, preparation_of
from onnxgrad.training.data.record import DataRecord, record_of, set_record
from onnxgrad.training.run.progress import Working

Array = np.ndarray[Any, Any]

# Black, purple, red, yellow, white: dark is little, also in grey.
_COLOURS = np.array([[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]], np.float64)


def run(options: argparse.Namespace) -> int:
    output = options.output or f"{Path(options.picture).stem}.explained.png"
    with Working("reading the model", options.json) as working:
        program = load(options)
        if options.ignore_record:
            set_record(program, DataRecord())
        record = record_of(program)
        recorded = next((column for column in record.columns.values() if isinstance(column, PictureColumn)), None)
        image = picture_at(Path(options.picture), options.image_white or (None if recorded is None else recorded.white))
        size = None if options.image_size is None else _size(options.image_size)
        given = (size, options.image_mean, options.image_std, options.image_order)
        name, how, note = preparation_of(program, [image], *given, recorded)
        small = how.resized(image)
        feeds = {name: how.array(small)[None]}
        attributions: dict[str, Attribution] = {}
        for method in options.method:
            working.say(f"computing {method}")
            if method == "grad-cam":
                attributions[method] = grad_cam(program, feeds, layer=options.layer, label=options.label, output=options.of)
            elif method == "saliency":
                attributions[method] = saliency(program, feeds, name, label=options.label, output=options.of)
            else:
                attributions[method] = integrated_gradients(
                    program, feeds, name, baseline=_black(how, small), steps=options.steps, label=options.label, output=options.of
                )
    panels = [overlay(small, heat_of(a, how)) for a in attributions.values()]
    _save([np.asarray(small.convert("RGB")), *panels], output)
    first = next(iter(attributions.values()))
    class_name = record.class_name(first.labels[0])
    facts = {"file": output, "class": first.labels[0], "score": first.scores[0], "methods": list(attributions), "image": note}
    if "integrated" in attributions:
        facts["completeness_gap"] = attributions["integrated"].gap
    if class_name is not None:
        facts["class_name"] = class_name
    if options.json:
        print_json(facts)
        return 0
    print(f"note: {note}")
    print(f"class {first.labels[0]}{'' if class_name is None else f' ({class_name})'}, score {first.scores[0]:.4g}")
    if "integrated" in attributions:
        gap = attributions["integrated"].gap
        print(
            f"integrated gradients: the sum of attributions differs from the change of the score by {gap:.1%} (reduce "
            "it by more --steps)"
        )
    print(f"wrote {output}: the picture, {', '.join(attributions)}")
    return 0


def heat_of(attribution: Attribution, how: Preparation) -> Array:
    """A map of [height, width] between 0 and 1: magnitudes summed over channels, the brightest hundredth cut off"""
    heat = np.asarray(attribution.values[0], np.float64)
    if heat.ndim == 3:
        heat = np.abs(heat).sum(axis=0 if how.layout == "CHW" else -1)
    top = float(np.percentile(heat, 99)) or float(heat.max()) or 1.0
    return np.clip(heat / top, 0, 1)


def overlay(image: Any, heat: Array) -> Array:
    """Pixels [height, width, 3]: the picture in grey under the colours of a map, which is resized to it."""
    from PIL import Image

    grey = np.asarray(image.convert("L"), np.float64)[..., None]
    wide = Image.fromarray((heat * 255).round().astype(np.uint8)).resize(image.size, 2)
    level = np.asarray(wide, np.float64) / 255
    position = level * (len(_COLOURS) - 1)
    low = np.minimum(position.astype(int), len(_COLOURS) - 2)
    colours = _COLOURS[low] + (position - low)[..., None] * (_COLOURS[low + 1] - _COLOURS[low])
    strength = 0.25 + 0.6 * level[..., None]
    pixels: Array = ((1 - strength) * grey + strength * colours).round().astype(np.uint8)
    return pixels


def _black(how: Preparation, image: Any) -> Array:
    from PIL import Image

    return how.array(Image.new(image.mode, image.size))[None]


def _size(text: str) -> list[int]:
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdigit() for part in parts):
        raise ArgumentError(f"--image-size takes HxW, such as 48x192, not {text!r}.")
    return [int(part) for part in parts]


def _save(panels: list[Array], path: str) -> None:
    """Side by side, small pictures enlarged, with a white line between"""
    from PIL import Image

    height, width = panels[0].shape[:2]
    scale = max(1, 224 // max(height, width))
    large = [np.repeat(np.repeat(p, scale, axis=0), scale, axis=1) for p in panels]
    line = np.full((large[0].shape[0], 4, 3), 255, np.uint8)
    row = [part for p in large for part in (p, line)][:-1]
    with writing(Path(path)) as file:
        Image.fromarray(np.concatenate(row, axis=1)).save(file, format="png")
