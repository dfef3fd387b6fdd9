"""What ``onnxgrad generate`` does, and answers before and after training; arguments are in ``options/generate.py``."""

# Tests: tests/training/test_generation.py.

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxgrad.cli.common import SETTINGS, load, print_json
from onnxgrad.cli.settings import read_settings
from onnxgrad.core.ir.program import Program
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.internal.files import read_whole
from onnxgrad.training.generation import Generator, questions_in

_TOKENS = 64
"""Tokens of an answer that is compared."""
_WIDTH = 100
"""Characters of a cell in the terminal."""


def run(options: argparse.Namespace) -> int:
    is_run = (Path(options.model) / SETTINGS).is_file()
    settings = read_settings(options.model) if is_run else {}
    model = Path(settings["model"]) if is_run else Path(options.model)
    tokenizer = options.tokenizer or settings.get("tokenizer") or model.parent / "tokenizer.json"
    if not Path(tokenizer).is_file():
        raise ArgumentError(f"there is no tokenizer {str(tokenizer)!r}. Give the model's: --tokenizer FILE.json.")
    generator = Generator(load(options), tokenizer, model.parent)
    drawn = {name: getattr(options, name) for name in ("max_tokens", "temperature", "top_p", "stop", "seed")}
    if options.prompt is not None:
        pieces = generator.go_on(options.prompt, **drawn)
    else:
        pieces = generator.answer(_chat(options), **drawn)
    text = ""
    for piece in pieces:
        text += piece
        if not options.json:
            print(piece, end="", flush=True)
    if options.json:
        print_json({"text": text})
    else:
        print(flush=True)
    return 0


def _chat(options: argparse.Namespace) -> dict[str, Any]:
    """The chat that --chat names: of a file, up to the assistant's last turn"""
    path = Path(options.chat)
    if path.suffix not in (".jsonl", ".json"):
        said = [] if options.system is None else [{"role": "system", "content": options.system}]
        return {"messages": [*said, {"role": "user", "content": options.chat}]}
    if options.system is not None:
        raise ArgumentError("--system is for --chat TEXT; a file has its own messages. Leave it out.")
    text = read_whole(path).decode()
    first = next((line for line in text.split("\n") if line.strip()), "")
    try:
        record = json.loads(text if path.suffix == ".json" else first)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{str(path)!r} is not valid JSON ({error}). Write an object with messages.") from error
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        raise DataError(f'{str(path)!r} holds no object with messages. Write {{"messages": [...]}}.')
    messages = record["messages"]
    while messages and isinstance(messages[-1], dict) and messages[-1].get("role") == "assistant":
        messages = messages[:-1]
    return {**record, "messages": messages}


def compared(before: Program, after: Program, settings: dict[str, Any], path: str, count: int) -> tuple[list[str], list[list[str]]]:
    """Answers of a model before and after training, beside what the data has, as a head and rows.

    Args:
        before, after: the model, for inference.
        settings: of the run, with its tokenizer.
        path: of a .jsonl file with chats, or with prompts and completions.
        count: questions at most.

    Raises:
        ArgumentError: if the run has no tokenizer, or the count is not positive.
        DataError: if the file has no question.
    """
    if settings.get("tokenizer") is None or Path(path).suffix != ".jsonl":
        raise ArgumentError("--compare is for chats, and for prompts with completions: --data FILE.jsonl and --tokenizer.")
    if count < 1:
        raise ArgumentError(f"--compare takes the number of questions, at least 1, not {count}.")
    questions = questions_in(path, count)
    folder = Path(settings["model"]).parent
    columns = []
    for program in (before, after):
        generator = Generator(program, settings["tokenizer"], folder)
        columns.append(
            [
                "".join(
                    generator.go_on(question.prompt, max_tokens=_TOKENS)
                    if question.record is None
                    else generator.answer(question.record, max_tokens=_TOKENS)
                )
                for question in questions
            ]
        )
    rows = [[question.prompt, question.expected, *answers] for question, *answers in zip(questions, *columns, strict=True)]
    return ["asked", "in the data", "before", "after"], rows


def print_answers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print answers below each other, each with its heading."""
    width = max(map(len, head))
    for row in rows:
        print("\n" + "\n".join(f"{name:>{width}}  {_line(cell)}" for name, cell in zip(head, row, strict=True)), file=sys.stdout)


def _line(text: str) -> str:
    flat = text.replace("\n", "\\n")
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 3] + "..."
