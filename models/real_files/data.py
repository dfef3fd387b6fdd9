"""Data for the files of docs/use/real_files.md: ``python models/real_files/data.py TASK FOLDER``.

Pages and lines are drawn with Pillow in the fonts of the system, sounds are added up from sines, all from one seed.
Tasks: pages, photos, lines, regions, notes, features, timers, jarvis, weather, patches.
"""

from __future__ import annotations

import csv
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

RATE = 16000
WORDS = "time year people way day man thing woman life child world school state family student group country problem hand part"


def font(rng, size):
    from PIL import ImageFont

    found = sorted(Path("/usr/share/fonts").rglob("DejaVuSans*.ttf"))
    return ImageFont.truetype(str(found[rng.integers(len(found))]), size) if found else ImageFont.load_default(size)


def sentence(rng, count):
    return " ".join(rng.choice(WORDS.split(), count))


def page(rng, kind, size=320):
    """A page of printed lines, or of bars and dots that stand upright the same way."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (size, size), tuple(int(v) for v in rng.integers(200, 256, 3)))
    draw = ImageDraw.Draw(image)
    if kind == "page":
        face = font(rng, int(rng.integers(14, 24)))
        for top in range(8, size - 20, int(rng.integers(24, 34))):
            draw.text(
                (8, top), sentence(rng, int(rng.integers(1, 6))), fill=tuple(int(v) for v in rng.integers(0, 90, 3)), font=face
            )
        return image
    ground = int(size * rng.uniform(0.7, 0.9))
    draw.rectangle((0, ground, size, size), fill=tuple(int(v) for v in rng.integers(60, 140, 3)))
    for _ in range(int(rng.integers(3, 8))):
        left, width, height = int(rng.integers(0, size)), int(rng.integers(10, 50)), int(rng.integers(30, 160))
        draw.rectangle((left, ground - height, left + width, ground), fill=tuple(int(v) for v in rng.integers(0, 256, 3)))
    return image


def turned(rng, folder, kind, count):
    """Folders 0, 90, 180, 270 of pictures turned so."""
    for number in range(count):
        angle = 90 * (number % 4)
        where = folder / f"{angle:03d}"
        where.mkdir(parents=True, exist_ok=True)
        page(rng, kind).rotate(angle).save(where / f"{number:04d}.png")


def lines(rng, folder, count):
    """Pictures of one light line on a dark, noisy ground, and a table of paths and texts."""
    from PIL import Image, ImageDraw

    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        text = sentence(rng, int(rng.integers(1, 3)))
        face = font(rng, 30)
        image = Image.new("RGB", (320, 48), (30, 30, 60))
        ImageDraw.Draw(image).text((6, 4), text, fill=(90, 80, 110), font=face)
        noisy = np.clip(np.asarray(image) + rng.normal(0, 22, (48, 320, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{number:04d}.png")
        rows.append([f"{number:04d}.png", text])
    with (folder / "lines.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["path", "text"], *rows])


def regions(rng, folder, count):
    """Pictures with outlined boxes; the map says which pixels lie in one. ImageNet's mean and deviation."""
    from PIL import Image, ImageDraw

    images, maps = [], []
    for _ in range(count):
        image = Image.fromarray(rng.integers(120, 200, (96, 96, 3), np.uint8))
        mask = Image.new("L", (96, 96))
        for _ in range(2):
            left, top = (int(v) for v in rng.integers(4, 56, 2))
            box = (left, top, left + int(rng.integers(16, 36)), top + int(rng.integers(16, 36)))
            ImageDraw.Draw(image).ellipse(box, fill=tuple(int(v) for v in rng.integers(0, 256, 3)))
            ImageDraw.Draw(mask).ellipse(box, fill=1)
        values = (np.asarray(image, np.float32) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        images.append(values.transpose(2, 0, 1).astype(np.float32))
        maps.append(np.asarray(mask, np.float32)[None])
    save(folder, x=np.stack(images), target=np.stack(maps))


def notes(rng, folder, count):
    """Two seconds at 22,050 Hz of hollow tones (odd harmonics), and which of 88 keys sounds in each of 172 frames."""
    time = np.arange(43844) / 22050
    waves, rolls = [], []
    for _ in range(count):
        wave, roll = np.zeros(43844), np.zeros((172, 88), np.float32)
        for _ in range(int(rng.integers(2, 5))):
            key, begin, length = int(rng.integers(20, 60)), rng.uniform(0, 1.4), rng.uniform(0.2, 0.6)
            sounds = (time >= begin) & (time < begin + length)
            hertz = 27.5 * 2 ** (key / 12)
            wave += sounds * sum(np.sin(2 * np.pi * hertz * k * time) / k for k in (1, 3, 5, 7))
            roll[int(begin * 86) : int((begin + length) * 86), key] = 1
        waves.append((0.2 * wave + rng.normal(0, 0.02, len(wave))).astype(np.float32)[:, None])
        rolls.append(roll)
    save(folder, **{"serving_default_input_2:0": np.stack(waves), "target": np.stack(rolls)})


def sound(rng, kind, seconds):
    """One of seven: rising, falling, steady, trill, clicks, noise, two tones."""
    time = np.arange(int(seconds * RATE)) / RATE
    low, span = rng.uniform(300, 900), rng.uniform(300, 1500)
    share = time / seconds
    hertz = [low + span * share, low + span * (1 - share), low + 0 * time, low + span * (np.sin(12 * np.pi * share) > 0)]
    if kind < 4:
        wave = np.sin(2 * np.pi * np.cumsum(hertz[kind]) / RATE)
    elif kind == 4:
        wave = (np.sin(2 * np.pi * rng.uniform(4, 9) * time) > 0.98) * rng.normal(0, 1, len(time))
    else:
        wave = rng.normal(0, 0.4, len(time)) if kind == 5 else sum(np.sin(2 * np.pi * f * time) for f in (low, low * 1.26)) / 2
    return 8000 * rng.uniform(0.3, 1) * wave + rng.normal(0, rng.uniform(20, 600), len(time))


def spectrogram(wave):
    """Bands of openWakeWord: its file, then x / 10 + 2, as the package does."""
    found = session("melspectrogram").run(None, {"input": wave[None].astype(np.float32)})[0]
    return found.squeeze() / 10 + 2


def session(name):
    import onnxruntime

    if name not in _SESSIONS:
        folder = Path(find_spec("openwakeword").origin).parent / "resources" / "models"
        _SESSIONS[name] = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"))
    return _SESSIONS[name]


_SESSIONS = {}


def patches(rng, folder, count):
    """Spectrograms of 76 frames, and which of seven sounds they are of."""
    kinds = np.arange(count) % 7
    bands = np.stack([spectrogram(sound(rng, kind, 1.0))[:76, :, None] for kind in kinds])
    save(folder, input_1=bands.astype(np.float32), target=kinds)


def features(rng, folder, count, frames=16, classes=2, name="onnx::Flatten_0"):
    """What openWakeWord's embedding says of ``frames`` windows, 80 ms apart."""
    kinds = np.arange(count) % classes
    found = []
    for kind in kinds:
        bands = spectrogram(sound(rng, kind, 0.1 + 0.08 * (frames + 9)))
        windows = np.stack([bands[8 * i : 8 * i + 76, :, None] for i in range(frames)])
        found.append(session("embedding_model").run(None, {"input_1": windows.astype(np.float32)})[0].reshape(frames, 96))
    target = kinds if classes > 2 else kinds.astype(np.float32)[:, None]
    save(folder, **{name: np.stack(found), "target": target})


def save(folder, **arrays):
    folder.parent.mkdir(parents=True, exist_ok=True)
    np.savez(folder.with_suffix(".npz"), **arrays)


TASKS = {
    "pages": lambda rng, folder, count: turned(rng, folder, "page", count),
    "photos": lambda rng, folder, count: turned(rng, folder, "photo", count),
    "lines": lines,
    "regions": regions,
    "notes": notes,
    "features": features,
    "timers": lambda rng, folder, count: features(rng, folder, count, frames=34, classes=7),
    "jarvis": lambda rng, folder, count: features(rng, folder, count, name="x.1"),
    "weather": lambda rng, folder, count: features(rng, folder, count, frames=22),
    "patches": patches,
}

if __name__ == "__main__":
    task, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 200
    TASKS[task](np.random.default_rng(0), folder, count)
