"""Write models/sounds/words: one word and others, spoken by the voices of eSpeak NG, at 16,000 Hz.

    pip install espeakng-loader soundfile soxr
    python models/sounds/write_words.py [FOLDER]
    python models/sounds/write_words.py --speech MINUTES FOLDER

``train`` and ``held_out`` have a folder ``word`` (the word alone, somewhere in two seconds) and a folder ``other`` (other words, of
which some sound alike, and sentences). Voices, speeds, pitches and sentences of held_out are not those of train. The second form
writes sentences of held-out voices alone, which are not committed: in some minutes of speech false accepts can be counted.

Samples are rounded to 12 bits, so that files are half as large. Some voices draw their breath at random: written again, files sound
the same and differ in their samples.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import soundfile
import soxr

RATE, SECONDS = 16_000, 2.0
WORD = "computer"
ALIKE = ("commuter", "computing", "compute", "come here", "companion", "composer", "commuted", "her tutor", "permuter", "comfort")
OTHERS = ("water", "kitchen light", "seven", "Monday", "open the door", "music", "banana", "what time is it", "louder", "stop")
VOICES = {
    "train": (
        *("en-us", "en-us+f2", "en-us+m3", "en-us+f5", "en", "en+f4", "en+m7", "en-gb-x-rp+m1"),
        *("en-gb-scotland+m2", "en-gb-x-gbcwmd+m8", "en-gb-x-gbclan+f2", "en-us-nyc+f1", "en-029+m4"),
    ),
    "held_out": ("en-gb-scotland", "en-gb-scotland+f3", "en-gb-x-gbclan+m4", "en-gb-x-gbcwmd+f1", "en-us+m5", "en-gb-x-rp+f2"),
}
SPEEDS = {"train": (130, 160, 190), "held_out": (145, 175)}
PITCHES = {"train": (35, 50, 65), "held_out": (42, 58)}
SENTENCES = {
    "train": (
        "The train to the coast leaves at seven, and nobody has bought a ticket.",
        "Please put the cups back into the kitchen before you go to bed.",
        "It rained the whole of Monday, so we stayed inside and listened.",
        "Can you turn the light down a little, it is too bright to read.",
        "My uncle repairs old clocks, and never sends anybody a bill.",
        "Two of the windows are open, and the cat is on the roof again.",
    ),
    "held_out": (
        "Her brother composed a song about companies that compete for comfort.",
        "Most commuters complain, but the bus has never been on time in winter.",
        "The doctor said that a banana every morning would do no harm.",
        "When the water boils, add salt, and then count to three hundred.",
        "They painted the garden gate green, which suits the old brick wall.",
        "A letter came from Portugal, with a stamp that shows a lighthouse.",
    ),
}
_WAVE, _UTF8, _ENGLISH_SPEED, _PITCH = 2, 1, 1, 3


class Speaker:
    """The library eSpeak NG, which is in the wheel of espeakng-loader."""

    def __init__(self) -> None:
        import espeakng_loader

        self.library = ctypes.CDLL(espeakng_loader.get_library_path())
        folder = str(Path(espeakng_loader.get_data_path()).parent).encode()
        self.rate = self.library.espeak_Initialize(_WAVE, 0, folder, 0)
        self.pieces: list[np.ndarray] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self.callback = kind(self._take)
        self.library.espeak_SetSynthCallback(self.callback)

    def _take(self, samples, count, events) -> int:
        if samples and count > 0:
            self.pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def say(self, text: str, voice: str, speed: int, pitch: int) -> np.ndarray:
        """Samples of a text, without the silence around it, from -1 to 1."""
        self.pieces.clear()
        if self.library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SystemExit(f"eSpeak NG has no voice {voice}.")
        self.library.espeak_SetParameter(_ENGLISH_SPEED, speed, 0)
        self.library.espeak_SetParameter(_PITCH, pitch, 0)
        content = text.encode()
        self.library.espeak_Synth(content, len(content) + 1, 0, 0, 0, _UTF8, None, None)
        self.library.espeak_Synchronize()
        samples = soxr.resample(np.concatenate(self.pieces) / 32768.0, self.rate, RATE)
        loud = np.flatnonzero(np.abs(samples) > 0.01)
        return np.asarray(samples[loud[0] : loud[-1] + 1])


def placed(samples: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Samples somewhere in two seconds of silence, at some loudness."""
    room = int(SECONDS * RATE) - len(samples)
    before = int(draw.integers(max(1, room)))
    level = draw.uniform(0.2, 0.8) / np.abs(samples).max()
    return np.pad(samples * level, (before, max(0, room - before)))[: int(SECONDS * RATE)]


def write(path: Path, samples: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, (samples * 2047).round().astype(np.int16) * 16, RATE, subtype="PCM_16")


def speech(speaker: Speaker, part: str, seconds: float, draw: np.random.Generator) -> np.ndarray:
    """Sentences by the voices of a part, one after the other."""
    pieces: list[np.ndarray] = []
    while sum(map(len, pieces)) < seconds * RATE:
        how = (str(draw.choice(VOICES[part])), int(draw.choice(SPEEDS[part])), int(draw.choice(PITCHES[part])))
        said = speaker.say(str(draw.choice(SENTENCES[part])), *how)
        pieces += [said * draw.uniform(0.2, 0.8) / np.abs(said).max(), np.zeros(RATE // 2)]
    return np.concatenate(pieces)[: int(seconds * RATE)]


def main(folder: Path) -> None:
    speaker, draw = Speaker(), np.random.default_rng(0)
    for part in ("train", "held_out"):
        ways = [(voice, speed, pitch) for voice in VOICES[part] for speed in SPEEDS[part] for pitch in PITCHES[part]]
        chosen = [ways[i] for i in draw.permutation(len(ways))[: 90 if part == "train" else 24]]
        for number, way in enumerate(chosen):
            write(folder / part / "word" / f"{number:02}.flac", placed(speaker.say(WORD, *way), draw))
        words = [*ALIKE, *OTHERS] * (3 if part == "train" else 1)
        for number, word in enumerate(words):
            way = ways[int(draw.integers(len(ways)))]
            write(folder / part / "other" / f"{number:02}.flac", placed(speaker.say(word, *way), draw))
        for number in range(6 if part == "train" else 1):
            seconds = 8 if part == "train" else 30
            write(folder / part / "other" / f"sentences{number}.flac", speech(speaker, part, seconds, draw))
    total = sum(file.stat().st_size for file in folder.rglob("*.flac"))
    print(f"wrote {len(list(folder.rglob('*.flac')))} files of {total / 1e6:.2f} MB to {folder}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--speech"]:
        minutes, out = int(sys.argv[2]), Path(sys.argv[3])
        speaker, draw = Speaker(), np.random.default_rng(1)
        for number in range(minutes):
            write(out / "other" / f"{number:03}.flac", speech(speaker, "held_out", 60, draw))
    else:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "words")
