"""Let a language model go on with a text, by onnxruntime alone.

Tests: tests/training/test_generation.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.compile import compile
from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.runtime.session import open_graph
from onnxgrad.errors import ArgumentError, DataError, ModelError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import read_whole
from onnxgrad.training.data.chat_template import ChatTemplate
from onnxgrad.training.data.derived_inputs import MASK, PAST, TOKENS, DerivedInputs
from onnxgrad.training.data.kinds.text import TokenizerFile
from onnxgrad.training.data.positions import positions_for

__all__ = ["Generator", "Question", "questions_in"]

Array = np.ndarray[Any, Any]
_CONFIGS = ("genai_config.json", "generation_config.json", "config.json")
"""Files beside a model that say which tokens end a text."""
_HALF = "\ufffd"
"""What a tokenizer writes for bytes that are no whole character yet."""


class Generator:
    """A language model with its tokenizer, which continues a prompt or answers a chat.

    A model with a cache (``past_key_values.*`` in, ``present.*`` out) computes each token once; another one reads the whole text
    again for each token.

    Args:
        program: for inference, with the input ``input_ids``, int64 [batch, steps], and logits [batch, steps, vocabulary].
        tokenizer: path of its ``tokenizer.json``. Files beside it say how a chat is written, and which tokens end a text.
        folder: where the model lies, whose ``genai_config.json`` and ``generation_config.json`` name tokens that end a text, too.

    Attributes:
        template: how chats are written.
        is_cached: whether the model has a cache.

    Raises:
        ModelError: if the program is no such model.
        DataError: if a file cannot be read.

    Example:
        >>> generator = Generator(onnxgrad.from_onnx("model.onnx"), "tokenizer.json")  # doctest: +SKIP
        >>> print(*generator.answer({"messages": [{"role": "user", "content": "Hello!"}]}), sep="")  # doctest: +SKIP
    """

    @checked
    def __init__(self, program: Program, tokenizer: str | Path, folder: str | Path | None = None) -> None:
        self._file = TokenizerFile(tokenizer)
        self._tokenizer = self._file.tokenizer
        self.template = ChatTemplate(self._file.path, self._tokenizer.token_to_id, self._file.marks)
        self._program, self._derived = program, DerivedInputs(program)
        self._inputs = {v.name: v for v in program.inputs}
        outputs = {v.name: v for v in program.outputs}
        scores = [name for name, v in outputs.items() if v.is_float and v.rank in (None, 3)]
        self._scores = "logits" if "logits" in outputs else scores[0] if scores else ""
        if TOKENS not in self._derived.read and TOKENS not in self._inputs:
            raise ModelError(f"the model has no input {TOKENS!r}; it has {list(self._inputs)}. Name a language model.")
        if not self._scores:
            raise ModelError(
                f"the model has no output of logits [batch, steps, vocabulary]; it has {list(outputs)}. Name another file."
            )
        unknown = [name for name in self._inputs if name not in (TOKENS, *self._derived.names)]
        if unknown:
            raise ModelError(f"the model's input {unknown[0]!r} is not known. Generation feeds {TOKENS}, mask and cache.")
        past = [name for name in self._inputs if name.startswith(PAST)]
        self._caches = {name: present for name in past for present in [_present_of(name)] if present in outputs}
        self.is_cached = bool(past) and len(self._caches) == len(past)
        computed = [outputs[name] for name in (self._scores, *(self._caches.values() if self.is_cached else ()))]
        self._session = open_graph(compile(program, computed, runs=True), CPUPlace())
        self._read = {v.name for v in self._session.get_inputs()}
        self._ends = _ends_in([self._file.path.parent, *([] if folder is None else [Path(folder)])])
        self._ends |= {number for number in [self._number(self.template.end)] if number is not None}

    @checked
    def answer(
        self,
        record: Mapping[str, object],
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
    ) -> Iterator[str]:
        """Yield the next turn of the assistant, piece by piece.

        Args:
            record: an object with ``messages``, and what else the chat template reads, as a line of training data.
            max_tokens, temperature, top_p, stop, seed: as for ``go_on``. The mark that ends a turn stops it, too.

        Raises:
            DataError: if the template refuses the messages.
        """
        text, mark = self.template.prompt(record, "the chat"), self.template.turn_end()
        end = self._number(mark)
        ends = self._ends | ({end} if end is not None else set())
        stop = [*stop, *([mark] if mark and end is None else [])]
        token_ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return self._pieces(token_ids, ends, max_tokens, temperature, top_p, stop, seed)

    @checked
    def go_on(
        self,
        prompt: str,
        *,
        max_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
    ) -> Iterator[str]:
        """Yield the continuation of a prompt, piece by piece.

        Args:
            prompt: the text.
            max_tokens: tokens at most.
            temperature: what logits are divided by before a token is drawn; 0 takes the likeliest.
            top_p: tokens are drawn among the likeliest that have this share together.
            stop: texts that end it; they are not part of it.
            seed: of what is drawn.

        Raises:
            ArgumentError: if a number is out of its range, or the text has no token.
        """
        token_ids = self._tokenizer.encode(prompt).ids
        return self._pieces(token_ids, self._ends, max_tokens, temperature, top_p, stop, seed)

    def _number(self, word: str) -> int | None:
        number = self._tokenizer.token_to_id(word) if word else None
        return None if number is None else int(number)

    # Text --------------------------------------------------------------------------------------------------------------

    def _pieces(
        self,
        prompt: list[int],
        ends: set[int],
        max_tokens: int,
        temperature: float,
        top_p: float,
        stop: Sequence[str],
        seed: int,
    ) -> Iterator[str]:
        if temperature < 0 or not 0 < top_p <= 1 or max_tokens < 1:
            raise ArgumentError("temperature is at least 0, top_p lies in (0, 1], and max_tokens is at least 1.")
        if not prompt:
            raise ArgumentError("the prompt has no token. Give at least one.")
        if any(not text for text in stop):
            raise ArgumentError("a text that stops is empty. Leave it out.")
        wanted = len(prompt) + max_tokens
        limit = positions_for(self._program, TOKENS, wanted)
        if limit <= len(prompt):
            raise ArgumentError(f"the prompt has {len(prompt)} tokens, and the model has positions for {limit}. Shorten it.")
        tokens = self._tokens(prompt, limit - len(prompt), temperature, top_p, np.random.default_rng(seed))
        return self._written(tokens, ends, stop)

    def _written(self, tokens: Iterator[int], ends: set[int], stop: Sequence[str]) -> Iterator[str]:
        """Text of tokens up to a stop; what may be the beginning of one, or half a character, waits"""
        kept: list[int] = []
        told = 0
        for token in tokens:
            if token in ends:
                break
            kept.append(token)
            text = self._tokenizer.decode(kept, skip_special_tokens=True)
            at = min((text.find(word) for word in stop if word in text), default=-1)
            if at >= 0:
                if at > told:
                    yield text[told:at]
                return
            held = max((n for word in stop for n in range(1, len(word)) if text.endswith(word[:n])), default=0)
            safe = len(text.rstrip(_HALF)) if text.endswith(_HALF) else len(text) - held
            if safe > told:
                yield text[told:safe]
                told = safe
        text = self._tokenizer.decode(kept, skip_special_tokens=True)
        if len(text) > told:
            yield text[told:]

    # Tokens ------------------------------------------------------------------------------------------------------------

    def _tokens(self, prompt: list[int], count: int, temperature: float, top_p: float, rng: np.random.Generator) -> Iterator[int]:
        every = list(prompt)
        caches: dict[str, Array] = {}
        for step in range(count):
            new = every[-1:] if step and self.is_cached else every
            scores, caches = self._run(new, len(every), caches)
            every.append(_drawn(scores, temperature, top_p, rng))
            yield every[-1]

    def _run(self, new: list[int], total: int, caches: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
        """The logits of the last token, and the caches behind it"""
        batch: dict[str, Any] = {TOKENS: np.array([new], np.int64), MASK: np.ones((1, total), np.int64), **caches}
        arrays = self._derived.complete(batch)
        read = {name: v for name, v in self._inputs.items() if name in self._read}
        feed = {name: np.asarray(arrays[name]).astype(v.dtype.numpy, copy=False) for name, v in read.items()}
        names = [self._scores, *(self._caches.values() if self.is_cached else ())]
        values = self._session.run(names, feed)
        scores: Array = np.asarray(values[0])[0, -1].astype(np.float64)
        return scores, dict(zip(self._caches, values[1:], strict=True)) if self.is_cached else {}


def _drawn(scores: Array, temperature: float, top_p: float, rng: np.random.Generator) -> int:
    if temperature == 0:
        return int(scores.argmax())
    shares = np.exp((scores - scores.max()) / temperature)
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")
    before = np.cumsum(shares[order]) - shares[order]
    chosen = order[before < top_p]
    return int(rng.choice(chosen, p=shares[chosen] / shares[chosen].sum()))


def _present_of(past: str) -> str:
    """Name of the output that is fed as a cache in the next step"""
    return past.replace("past_key_values", "present", 1) if "past_key_values" in past else past.replace(PAST, "present", 1)


def _ends_in(folders: Sequence[Path]) -> set[int]:
    """Tokens that end a text, by the files in folders"""
    ends: set[int] = set()
    for path in dict.fromkeys(folder / name for folder in folders for name in _CONFIGS):
        if not path.is_file():
            continue
        try:
            content = json.loads(read_whole(path))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{str(path)!r} cannot be read ({error}). Correct or remove it.") from error
        if isinstance(content, dict) and isinstance(content.get("model"), dict):
            content = content["model"]
        named = content.get("eos_token_id") if isinstance(content, dict) else None
        ends |= {number for number in (named if isinstance(named, list) else [named]) if type(number) is int}
    return ends


class Question(NamedTuple):
    """A line of training data as a question: what is asked, as a chat or a text, how it is shown, and what the data answers."""

    record: dict[str, Any] | None
    prompt: str
    expected: str


def questions_in(path: str | Path, count: int) -> list[Question]:
    """The first chats that end with the assistant, and pairs of prompt and completion, of a .jsonl file.

    Args:
        path: of the file.
        count: how many at most.

    Raises:
        DataError: if a line is no JSON, or none of them is a question.
    """
    questions: list[Question] = []
    for number, line in enumerate(read_whole(Path(path)).decode().split("\n"), 1):
        if len(questions) == count:
            break
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"line {number} of {str(path)!r} is not valid JSON ({error}). Write one object on each line."
            ) from error
        messages = record.get("messages") if isinstance(record, dict) else None
        if isinstance(messages, list) and len(messages) > 1 and messages[-1].get("role") == "assistant":
            asked = messages[:-1]
            questions.append(Question({**record, "messages": asked}, _shown(asked[-1]), _shown(messages[-1])))
        elif isinstance(record, dict) and isinstance(record.get("prompt"), str) and isinstance(record.get("completion"), str):
            questions.append(Question(None, record["prompt"], record["completion"]))
    if not questions:
        raise DataError(f"{str(path)!r} has no chat that ends with the assistant, and no prompt with a completion to compare with.")
    return questions


def _shown(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str) and content:
        return content
    return json.dumps(content or message.get("tool_calls"), ensure_ascii=False)
