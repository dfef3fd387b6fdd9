"""Google's file-type detector Magika (in the wheel magika) learns a format of our own without forgetting the others.

Chosen: only the last layer trains (weights 512 x 214 and bias), so that what the network sees in a file stays the same; half of
each batch are Python sources with the file's own answer as label, so that it does not forget; the new format takes the place of
a label that we do not need, "hlp". The file returns probabilities, so the loss is the logarithm of them.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
from common import Feeds, Task, find

import onnxgrad as og
import onnxgrad.nn.functional as F
from onnxgrad import static

PACKAGE, PATTERN, NEW = "magika", "model.onnx", "hlp"
SIDE, PADDING = 1024, 256
STEPS, BATCH, HELD_OUT = 40, 16, 64


def features(content: bytes) -> np.ndarray:
    """First and last 1024 bytes without white space at the ends, as Magika takes them."""
    head, tail = content.lstrip()[:SIDE], content.rstrip()[-SIDE:]
    row = np.full(2 * SIDE, PADDING, np.int32)
    row[: len(head)] = np.frombuffer(head, np.uint8)
    row[2 * SIDE - len(tail) :] = np.frombuffer(tail, np.uint8)
    return row


def field_notes(draw: np.random.Generator) -> bytes:
    """A file of the new format: notes of a bird watcher."""
    birds = ["wren", "heron", "siskin", "dunnock", "nuthatch", "redstart", "plover", "lapwing"]
    rows = [f"@walk {draw.integers(2000, 2030)}~{draw.integers(1, 13)}~{draw.integers(1, 29)}"]
    for _ in range(draw.integers(5, 60)):
        rows.append(f"{draw.choice(birds)} => {draw.integers(1, 40)} | {'near' if draw.random() < 0.5 else 'far'} ;;")
    return "\n".join([*rows, "@home"]).encode()


@cache
def sources() -> tuple[np.ndarray, np.ndarray]:
    """Features of Python's own library, and what the shipped file says of them."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[: 2 * HELD_OUT]
    rows = np.stack([features(path.read_bytes()) for path in paths])
    session = onnxruntime.InferenceSession(find(PACKAGE, PATTERN), providers=["CPUExecutionProvider"])
    return rows, session.run(None, {"bytes": rows})[0].argmax(1)


def new_label() -> int:
    configuration = json.loads(find(PACKAGE, "config.min.json").read_text())
    return configuration["target_labels_space"].index(NEW)


def batches() -> Iterator[Feeds]:
    draw = np.random.default_rng(0)
    rows, answers = sources()
    for _ in range(STEPS):
        notes = np.stack([features(field_notes(draw)) for _ in range(BATCH // 2)])
        known = draw.integers(0, HELD_OUT, BATCH // 2)
        labels = np.concatenate([np.full(len(notes), new_label()), answers[known]])
        yield {"bytes": np.concatenate([notes, rows[known]]), "label": labels}


def attach_loss(program: og.Program) -> og.Variable:
    with static.program_guard(program):
        label = static.data("label", ["N"], "int64")
        return F.nll_loss(og.log(program.outputs[0] + 1e-7), label)


def measure(session) -> dict[str, float]:
    draw = np.random.default_rng(1)
    rows, answers = sources()
    notes = np.stack([features(field_notes(draw)) for _ in range(HELD_OUT)])
    said = [session.run(None, {"bytes": given})[0].argmax(1) for given in (notes, rows[HELD_OUT:])]
    return {
        "new format right": float((said[0] == new_label()).mean()),
        "others as before": float((said[1] == answers[HELD_OUT:]).mean()),
    }


TASK = Task(
    "file_type",
    PACKAGE,
    PATTERN,
    attach_loss,
    batches,
    measure,
    learning_rate=1e-3,
    trainable=lambda parameter: parameter.shape[-1] == 214,
)
