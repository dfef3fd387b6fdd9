"""How a chat is written as one text: by the template of a tokenizer, or by that of ChatML.

Tests: tests/training/data/test_text.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onnxgrad.errors import DataError

__all__ = ["ChatTemplate"]

_ENDS = ("<|endoftext|>", "<|im_end|>", "<|end_of_text|>", "<|eot_id|>", "</s>", "<eos>")
"""Marks that end a text, for tokenizers that do not say which does."""


class ChatTemplate:
    """The template that belongs to a ``tokenizer.json``.

    Where ``tokenizer_config.json`` or ``chat_template.jinja`` beside it has one and jinja2 is installed, it is that. Otherwise it
    is that of ChatML: for each message ``<|im_start|>role``, a line break, the content, ``<|im_end|>`` and a line break.

    Args:
        tokenizer: its path; the other files lie beside it.
        number_of: gives the number of a word, or None.

    Attributes:
        remark: a line that says which template it is.
        end: the mark that ends a text, or nothing.
    """

    def __init__(self, tokenizer: Path, number_of: Callable[[str], int | None]) -> None:
        folder = tokenizer.parent
        self._config = _object_in(folder / "tokenizer_config.json")
        self.end = self._special("eos_token") or next((mark for mark in _ENDS if number_of(mark) is not None), "")
        text, origin = self._own(folder)
        self._render: Callable[[Sequence[Any], bool], str] = _chat_ml
        self.remark = "chats are written as ChatML has it: <|im_start|>role, the content, <|im_end|>."
        if number_of("<|im_start|>") is None or number_of("<|im_end|>") is None:
            self.remark += " The tokenizer has no words of its own for these marks."
        if text is None:
            return
        try:
            import jinja2.sandbox
        except ImportError:
            self.remark += f" The template in {origin} needs the package jinja2."
            return
        self.remark = f"chats are written by the template in {origin}."
        self._render = self._compiled(jinja2, text, origin)

    def written(self, messages: Any, where: str) -> tuple[str, list[tuple[int, int]]]:
        """A chat as a text, and the stretches of characters that the assistant writes, with the mark that ends its turn.

        Raises:
            DataError: if the messages are none, or the template writes earlier messages in another way once others follow.
        """
        kept = isinstance(messages, list) and all(
            isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str) for m in messages
        )
        if not kept or not messages:
            raise DataError(f"{where}: messages are a list of objects with role and content, both text. Correct it.")
        whole, counted = self._try(messages, False, where), []
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                before = self._try(messages[:at], True, where)
                upto = self._try(messages[: at + 1], False, where)
                if not whole.startswith(upto) or not upto.startswith(before):
                    problem = f"{where}: the template writes message {at + 1} in another way once others follow"
                    raise DataError(f"{problem}, so it cannot be told what counts. Write the example as prompt and completion.")
                counted.append((len(before), len(upto)))
        return whole, counted

    def _try(self, messages: Sequence[Any], prompts: bool, where: str) -> str:
        try:
            return self._render(messages, prompts)
        except Exception as error:
            message = f"{where}: the template refuses the chat ({error})"
            raise DataError(f"{message}. Change the messages, or write prompt and completion.") from error

    def _special(self, name: str) -> str:
        token = self._config.get(name)
        if isinstance(token, dict):
            token = token.get("content")
        return token if isinstance(token, str) else ""

    def _own(self, folder: Path) -> tuple[str | None, str]:
        """The template that lies beside the tokenizer, and in which file"""
        path = folder / "chat_template.jinja"
        if path.is_file():
            try:
                return path.read_text(encoding="utf-8"), path.name
            except (OSError, UnicodeDecodeError) as error:
                raise DataError(f"{str(path)!r} cannot be read ({error}). Correct or remove it.") from error
        template = self._config.get("chat_template")
        if isinstance(template, list):
            named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
            template = named.get("default")
        return template if isinstance(template, str) else None, "tokenizer_config.json"

    def _compiled(self, jinja2: Any, text: str, origin: str) -> Callable[[Sequence[Any], bool], str]:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)

        def refuse(message: str) -> None:
            raise DataError(message)

        names = ("bos_token", "eos_token", "pad_token", "unk_token")
        environment.globals.update({"raise_exception": refuse, **{name: self._special(name) for name in names}})
        try:
            template = environment.from_string(text)
        except jinja2.TemplateError as error:
            raise DataError(f"the chat template in {origin} cannot be read ({error}). Correct or remove it.") from error

        def render(messages: Sequence[Any], prompts: bool) -> str:
            return str(template.render(messages=list(messages), add_generation_prompt=prompts))

        return render


def _chat_ml(messages: Sequence[Any], prompts: bool) -> str:
    turns = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages]
    return "".join(turns) + ("<|im_start|>assistant\n" if prompts else "")


def _object_in(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise DataError(f"{str(path)!r} cannot be read ({error}). Correct or remove it.") from error
    return content if isinstance(content, dict) else {}
