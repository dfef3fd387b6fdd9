"""Write clips of speech in the noise of a machine, with a table that says when somebody speaks.

    python models/sounds/write_noisy.py FOLDER

``train.csv`` and ``held_out.csv`` list clips of four seconds and spans of speech. Speech is that of the sentences in words/ (train
voices for train, others for held_out), the noise is made here: a hum that changes its pitch and its loudness about as speech does,
with a hiss. held_out has another seed.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import soundfile

RATE, SECONDS = 16_000, 4.0
CHUNK = 512
COUNTS = {"train": 96, "held_out": 48}
WORDS = Path(__file__).parent / "words"


def machine(draw: np.random.Generator, samples: int) -> np.ndarray:
    """A hum of 90 to 220 Hz with the overtones of a motor, swelling three to six times a second, and a hiss."""
    time = np.arange(samples) / RATE
    wander = np.interp(time, np.linspace(0, time[-1], 12), draw.uniform(0.85, 1.15, 12))
    phase = np.cumsum(draw.uniform(90, 220) * wander) / RATE
    overtones = [draw.uniform(0.3, 1) / number**0.7 * np.sin(2 * np.pi * number * phase) for number in range(1, 25)]
    swell = 0.55 + 0.45 * np.sin(2 * np.pi * draw.uniform(3, 6) * time + draw.uniform(0, 6))
    return np.asarray(np.sum(overtones, axis=0) * swell + 0.3 * draw.normal(size=samples))


def spans_of(speech: np.ndarray, start: int) -> list[tuple[float, float]]:
    """Seconds from and to where speech that begins at a sample is louder than a hundredth of its peak, pauses of 0.2 s bridged."""
    chunks = np.abs(speech[: len(speech) // CHUNK * CHUNK]).reshape(-1, CHUNK).max(axis=1) > 0.03 * np.abs(speech).max()
    loud = np.flatnonzero(chunks)
    if not loud.size:
        return []
    ends = np.flatnonzero(np.diff(loud) > 0.2 * RATE / CHUNK)
    begins, lasts = loud[np.concatenate([[0], ends + 1])], loud[np.concatenate([ends, [len(loud) - 1]])]
    return [((start + CHUNK * a) / RATE, (start + CHUNK * (b + 1)) / RATE) for a, b in zip(begins, lasts, strict=True)]


def write_part(folder: Path, part: str, seed: int) -> None:
    draw, total = np.random.default_rng(seed), int(SECONDS * RATE)
    sentences = [soundfile.read(path)[0] for path in sorted((WORDS / part / "other").glob("sentences*.flac"))]
    (folder / part).mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(COUNTS[part]):
        clip, spans = np.zeros(total), []
        if number % 4:
            source = sentences[int(draw.integers(len(sentences)))]
            length = int(draw.uniform(1, 2.5) * RATE)
            first, start = int(draw.integers(len(source) - length)), int(draw.integers(total - length))
            speech = source[first : first + length]
            clip[start : start + length] = speech
            spans = spans_of(speech, start)
        noise = machine(draw, total)
        power = float(np.mean(clip[clip != 0] ** 2)) if clip.any() else 0.01
        ratio = 10 ** (draw.uniform(-3, 9) / 10)
        clip += noise * np.sqrt(power / ratio / np.mean(noise**2))
        name = f"{part}/{number:02}.wav"
        soundfile.write(folder / name, clip * 0.9 / max(0.9, np.abs(clip).max()), RATE, subtype="PCM_16")
        rows.append((name, ";".join(f"{a:.3f}-{b:.3f}" for a, b in spans)))
    with (folder / f"{part}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "speech"])
        writer.writerows(rows)


if __name__ == "__main__":
    for part, seed in (("train", 1), ("held_out", 2)):
        write_part(Path(sys.argv[1]), part, seed)
