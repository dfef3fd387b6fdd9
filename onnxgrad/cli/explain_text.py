"""What ``onnxgrad explain-text`` does; its arguments are in ``options/explain_text.py``."""

# Tests: tests/cli/test_commands.py, tests/test_attribution.py.

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from onnxgrad.attribution import integrated_gradients, token_table
from onnxgrad.cli.common import load, print_json
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import write_whole
from onnxgrad.pages.page import asset, page
from onnxgrad.training.data.derived_inputs import DerivedInputs
from onnxgrad.training.data.kinds.text import TextColumn, TokenizerFile
from onnxgrad.training.data.record import record_of
from onnxgrad.training.run.progress import Working


def run(options: argparse.Namespace) -> int:
    with Working("reading the model", options.json) as working:
        program = load(options)
        record = record_of(program)
        file = TokenizerFile(options.tokenizer)
        for column in record.columns.values():
            if isinstance(column, TextColumn):
                file.check(column)
        encoding = file.tokenizer.encode(options.text)
        if not encoding.ids:
            raise ArgumentError("the text has no tokens. Give a longer text.")
        feeds = _feeds(program, encoding)
        about = options.tokens_at or token_table(program)
        working.say("computing gradients")
        attribution = integrated_gradients(program, feeds, about, steps=options.steps, label=options.label, output=options.of)
    if attribution.values.ndim != 3 or attribution.values.shape[1] != len(encoding.ids):
        raise ArgumentError(
            f"{about!r} holds {list(attribution.values.shape)}, not [1, tokens, size]. Name the token vectors (--tokens-at)."
        )
    tokens = [{"token": t, "adds": float(v)} for t, v in zip(encoding.tokens, attribution.values[0].sum(axis=-1), strict=True)]
    facts: dict[str, Any] = {
        "class": attribution.labels[0],
        "score": attribution.scores[0],
        "completeness_gap": attribution.gap,
        "tokens": tokens,
    }
    class_name = record.class_name(attribution.labels[0])
    if class_name is not None:
        facts["class_name"] = class_name
    label = f"class {attribution.labels[0]}{'' if class_name is None else f' ({class_name})'}"
    if options.output is not None:
        title = f"{label}, score {attribution.scores[0]:.4g}"
        text = page(
            f"{title}: tokens", '<main id="parts"></main>', asset("tokens.css"), asset("tokens.js"), {**facts, "title": title}
        )
        write_whole(Path(options.output), text.encode())
    if options.json:
        print_json(facts)
        return 0
    print(
        f"{label}, score {attribution.scores[0]:.4g}; the sum of contributions differs from the change of the score by "
        f"{attribution.gap:.1%}"
    )
    most = max(max(abs(t["adds"]) for t in tokens), 1e-30)
    for t in tokens:
        print(f"  {t['adds']:>+9.4f}  {('+' if t['adds'] > 0 else '-') * round(20 * abs(t['adds']) / most):<20}  {t['token']}")
    if options.output is not None:
        print(f"wrote {options.output}")
    return 0


def _feeds(program: Any, encoding: Any) -> dict[str, Any]:
    """The model's inputs: token ids, and the inputs derived from them"""
    inputs = {v.name: v for v in program.inputs}
    if "input_ids" not in inputs:
        raise ArgumentError(
            f"the model has no input 'input_ids'; it has {list(inputs)}. Only models that read token ids are explained."
        )
    feeds = {"input_ids": np.array([encoding.ids], inputs["input_ids"].dtype.numpy)}
    if "token_type_ids" in inputs:
        feeds["token_type_ids"] = np.array([encoding.type_ids], inputs["token_type_ids"].dtype.numpy)
    feeds = DerivedInputs(program).complete(feeds)
    missing = [name for name in inputs if name not in feeds]
    if missing:
        raise ArgumentError(
            f"the model also needs the input {missing[0]!r}, which cannot be computed from the text. Use a model that "
            "reads the text alone."
        )
    return feeds
