"""How a chat is written as one text, by the template of a tokenizer or by that of ChatML, and which of it the model wrote.

Tests: tests/training/data/test_chat_template.py.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from onnxgrad.errors import DataError
from onnxgrad.training.data.chat_jinja import BEGIN, END, Compiled, compile_template

__all__ = ["ChatTemplate"]

_ENDS = ("<|endoftext|>", "<|im_end|>", "<|end_of_text|>", "<|eot_id|>", "</s>", "<eos>")
"""Marks that end a text, for tokenizers that do not say which does."""
_REASONING = ("reasoning_content", "thinking", "reasoning")
"""Keys under which a message holds what the model thought; templates read the one or the other."""
_SPECIALS = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")
_LEADS = ("\ua000", "\U00013000", "\U00010000", "\ua500")
"""Letters without case or width of their own, of scripts that chats seldom hold; one that a chat has not begins the marks."""
_DIGITS = 0x2801
"""The first of 250 characters that number a mark; they only count behind its first letter."""
_MARK = re.compile(r"<[^\s<>]+>")
"""What looks like a mark, for tokenizers without tokens of their own for marks."""
_BEGUN = re.compile(r"[<\[{(][^\s<>\[\]{}()]*$")
"""A mark that has begun and not ended."""

_NAMED = re.compile(r"assistant[^\w\s<]*\n*", re.IGNORECASE)
"""The header of a turn, where the template does not write it as a generation prompt."""


class ChatTemplate:
    """The template that belongs to a ``tokenizer.json``.

    Where ``tokenizer_config.json`` or ``chat_template.jinja`` beside it has one and jinja2 is installed, it is that. Otherwise it
    is that of ChatML: for each message ``<|im_start|>role``, a line break, the content, ``<|im_end|>`` and a line break.

    What the model wrote is what the template's {% generation %} tags enclose. Where it has none, each content of each message is
    rendered with marks around it, which shows where it stands. A turn of the assistant begins behind the generation prompt before
    its first mark, and reaches over what the template writes behind its last one if nothing follows.

    Args:
        tokenizer: its path; the other files lie beside it.
        number_of: gives the number of a word, or None.
        marks: tokens that are not made of letters, such as ``<|im_end|>``, of which none is cut into.

    Attributes:
        remark: a line that says which template it is.
        end: the mark that ends a text, or nothing.
    """

    def __init__(self, tokenizer: Path, number_of: Callable[[str], int | None], marks: Sequence[str] = ()) -> None:
        folder = tokenizer.parent
        self._config = _object_in(folder / "tokenizer_config.json")
        self._marks = re.compile("|".join(re.escape(mark) for mark in sorted(filter(None, marks), key=len, reverse=True)) or "(?!)")
        self.end = self._special("eos_token") or next((mark for mark in _ENDS if number_of(mark) is not None), "")
        self._unread: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        text, origin = self._own(folder)
        self._template = Compiled(_chat_ml, False, frozenset(), frozenset({"role", "content"}))
        self._name = "ChatML"
        self.remark = "chats are formatted as ChatML: <|im_start|>role, the content, <|im_end|>."
        if number_of("<|im_start|>") is None or number_of("<|im_end|>") is None:
            self.remark += " The tokenizer has no special tokens for these marks."
        if text is not None:
            try:
                self._template = compile_template(text, origin, {name: self._special(name) for name in _SPECIALS})
            except ImportError:
                self.remark += f" The template in {origin} needs the package jinja2."
            else:
                self._name = f"the template in {origin}"
                self.remark = f"chats are formatted by {self._name}."
        self._takes_text, self._takes_parts = self._forms()

    @property
    def remarks(self) -> list[str]:
        """Lines on the chats so far: the template, keys that it does not read, and what of the assistant it leaves out."""
        lines = [self.remark]
        if self._unread:
            lines.append(f"{self._name} reads none of the keys {_counted(self._unread)}.")
        if self._left_out:
            lines.append(f"{self._name} leaves out of the assistant's messages: {_counted(self._left_out)}.")
        return lines

    @property
    def seen(self) -> list[dict[str, int]]:
        """What ``remarks`` count: keys that the template does not read, and what of the assistant it leaves out."""
        return [dict(self._unread), dict(self._left_out)]

    @seen.setter
    def seen(self, counts: Sequence[Mapping[str, int]]) -> None:
        self._unread, self._left_out = map(Counter, counts)

    def written(self, record: Mapping[str, Any], where: str) -> tuple[str, list[tuple[int, int]]]:
        """A chat as a text, and the stretches of characters that the assistant writes, with the mark that ends its turn.

        Args:
            record: an object with ``messages``; its other keys and those in ``chat_template_kwargs`` go to the template.
            where: names it, for messages.

        Raises:
            DataError: if the messages are none, or the template refuses them.
        """
        messages, variables = self._read(record, where)
        chat = _Chat(self, messages, variables, where)
        return chat.text, chat.tagged() if self._template.tagged else chat.marked()

    def prompt(self, record: Mapping[str, Any], where: str) -> str:
        """A chat as the text that the next turn of the assistant follows.

        Args:
            record: as for ``written``.
            where: names it, for messages.

        Raises:
            DataError: if the messages are none, or the template refuses them.
        """
        messages, variables = self._read(record, where)
        return _plain(self._fitting(messages, variables, where, True)[1])

    def turn_end(self) -> str:
        """The mark that the assistant ends its turns with, or nothing."""
        content: list[Any] = [word if self._takes_text else [{"type": "text", "text": word}] for word in ("qaq", "wbw")]
        chat = [{"role": role, "content": c} for role, c in zip(("user", "assistant"), content, strict=True)]
        try:
            text, spans = self.written({"messages": chat}, "")
        except DataError:
            return ""
        closing = text[spans[-1][0] : spans[-1][1]].rpartition("wbw")[2].lstrip() if spans else ""
        mark = self._marks.match(closing) or _MARK.match(closing)
        return "" if mark is None else mark[0]

    def header(self, variables: Mapping[str, Any]) -> str:
        """What the template writes for the assistant to go on from.

        Args:
            variables: those of the chat.
        """
        content: Any = "qaq" if self._takes_text else [{"type": "text", "text": "qaq"}]
        try:
            asked, waiting = (
                _plain(self._template.render([{"role": "user", "content": content}], prompts, variables))
                for prompts in (True, False)
            )
        except Exception:
            return ""
        return asked[len(waiting) :] if asked.startswith(waiting) else asked.rpartition("qaq")[2]

    # Reading -----------------------------------------------------------------------------------------------------------

    def _read(self, record: Mapping[str, Any], where: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Messages in the form that the template takes, and the variables for it"""
        messages = record.get("messages")
        if not isinstance(messages, list) or not messages or not all(_is_message(m) for m in messages):
            raise DataError(
                f"{where}: messages are a list of objects with role and content, which is text, a list of parts of text, or null "
                "beside tool_calls. Correct it."
            )
        options = record.get("chat_template_kwargs") or {}
        if not isinstance(options, dict):
            raise DataError(f"{where}: chat_template_kwargs is an object of names and values. Correct it.")
        variables = {key: value for key, value in record.items() if key not in ("messages", "chat_template_kwargs")}
        known = self._template.variables
        self._unread.update(key for key in (*variables, *options) if key not in known)
        for message in messages:
            names = {"reasoning_content" if key in _REASONING else key for key, value in message.items() if value is not None}
            read = {"reasoning_content" if word in _REASONING else word for word in self._template.words}
            self._unread.update(sorted(names - read - {"role", "content", "tool_calls"}))
        variables = {key: value for key, value in {**variables, **options}.items() if key in known}
        return [self._message(message, where) for message in messages], variables

    def _message(self, message: Mapping[str, Any], where: str) -> dict[str, Any]:
        """A message without keys that are null, its content in the form and its reasoning under every name that templates read"""
        kept = {key: copy.deepcopy(value) for key, value in message.items() if value is not None}
        reasoning = next((kept[key] for key in _REASONING if key in kept), None)
        if reasoning is not None:
            kept = {"thinking": reasoning, **kept, "reasoning_content": reasoning}
        content = kept.get("content")
        if isinstance(content, list) and not self._takes_parts:
            kept["content"] = "".join(part if isinstance(part, str) else part["text"] for part in content)
        elif isinstance(content, list):
            kept["content"] = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
        elif isinstance(content, str) and not self._takes_text:
            kept["content"] = [{"type": "text", "text": content}] if content else []
        for function in _functions(kept):
            if isinstance(function.get("arguments"), str):
                function["arguments"] = _object_or_text(function["arguments"])
        if not isinstance(kept.get("tool_calls", []), list):
            raise DataError(f"{where}: tool_calls is a list. Correct it.")
        return kept

    def _fitting(
        self, messages: list[dict[str, Any]], variables: Mapping[str, Any], where: str, prompts: bool = False
    ) -> tuple[list[dict[str, Any]], str]:
        """The messages as the template takes them, and their text: it may want "" for an absent content, or arguments as text"""
        empty = "" if self._takes_text else []
        filled = [m if "content" in m else {**m, "content": empty} for m in messages]
        attempts = [messages, filled, _with_text_arguments(messages), _with_text_arguments(filled)]
        tried: list[list[dict[str, Any]]] = []
        for attempt in attempts:
            if attempt in tried:
                continue
            try:
                return attempt, self._template.render(attempt, prompts, variables)
            except Exception:
                tried.append(attempt)
        self._render(messages, prompts, variables, where)
        raise AssertionError("the template refused the same messages before")

    def _render(self, messages: Sequence[Any], prompts: bool, variables: Mapping[str, Any], where: str) -> str:
        try:
            return self._template.render(messages, prompts, variables)
        except Exception as error:
            message = f"{where}: the template refuses the chat ({error})"
            raise DataError(f"{message}. Change the messages, or write prompt and completion.") from error

    def _forms(self) -> tuple[bool, bool]:
        """Whether the template writes contents that are text, and such as are lists of parts"""

        def rendered(in_parts: bool) -> str:
            contents = [[{"type": "text", "text": word}] if in_parts else word for word in ("qaq", "wbw")]
            chat = [{"role": role, "content": c} for role, c in zip(("user", "assistant"), contents, strict=True)]
            try:
                text = _plain(self._template.render(chat, False, {}))
            except Exception:
                return ""
            return (
                text if all(word in text for word in ("qaq", "wbw")) and not re.search("""['"]type['"]: *['"]text""", text) else ""
            )

        text, parts = rendered(False), rendered(True)
        return bool(text) or not parts, bool(parts) and (not text or parts == text)

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


class _Leaf(NamedTuple):
    """A text in a message: number of the message, and the keys that lead to it"""

    message: int
    keys: tuple[Any, ...]


class _Point(NamedTuple):
    """Where a mark stood in a text, and which text it marked"""

    at: int
    leaf: _Leaf


class _Chat:
    """A chat that is rendered once, and the search for what the model wrote of it."""

    def __init__(self, template: ChatTemplate, messages: list[dict[str, Any]], variables: Mapping[str, Any], where: str) -> None:
        self._template, self._variables, self._where = template, variables, where
        self._messages, self._tagged = template._fitting(messages, variables, where)
        self.text = _plain(self._tagged)
        for at, message in enumerate(self._messages):
            if message["role"] == "assistant" and message.get("tool_calls") and not message.get("content"):
                self._check_calls(at)

    def _check_calls(self, at: int) -> None:
        without = [{k: v for k, v in m.items() if k != "tool_calls" or k_at != at} for k_at, m in enumerate(self._messages)]
        without[at].setdefault("content", "" if self._template._takes_text else [])
        try:
            same = _plain(self._template._template.render(without, False, self._variables)) == self.text
        except Exception:
            return
        if same:
            raise DataError(
                f"{self._where}: {self._template._name} writes no tool_calls, so that message {at + 1} would be empty. "
                "Write the call as content, or use a template with tools."
            )

    def tagged(self) -> list[tuple[int, int]]:
        """The stretches within {% generation %} tags"""
        spans: list[tuple[int, int]] = []
        length, depth, begun = 0, 0, 0
        for piece in re.split(f"([{BEGIN}{END}])", self._tagged):
            if piece == BEGIN:
                begun, depth = (length if depth == 0 else begun), depth + 1
            elif piece == END:
                depth -= 1
                if depth == 0:
                    spans.append((begun, length))
            else:
                length += len(piece)
        return _joined(spans)

    def marked(self) -> list[tuple[int, int]]:
        """The stretches of the assistant's turns, by marks in the contents"""
        lead = next((letter for letter in _LEADS if letter not in self.text), None)
        if lead is None:
            raise DataError(f"{self._where}: the chat uses letters of every script that could mark its contents. Shorten it.")
        self._lead = lead
        self._leaves, points = self._visible()
        for at in {leaf.message for leaf in self._leaves}:
            self._count_left_out(at, points)
        spans = []
        runs = _runs(points)
        begun: set[int] = set()
        for number, run in enumerate(runs):
            at, first = run[0].leaf.message, run[0].at
            if self._messages[at]["role"] != "assistant":
                continue
            if at not in begun:
                first = self._beginning(at, runs[number - 1][-1] if number else None, first, run[-1].at)
                begun.add(at)
            spans.append((first, self._end(at, run[-1], runs[number + 1][0].at if number + 1 < len(runs) else None)))
        return _joined(spans)

    # Marks -------------------------------------------------------------------------------------------------------------

    def _visible(self) -> tuple[list[_Leaf], list[_Point]]:
        """The texts that marks leave the rest of the chat as it is, and where their marks stand"""
        every = list(_leaves_of(self._messages))
        points = self._points(self._messages, every)
        if points is not None:
            return every, points
        chosen: list[_Leaf] = []
        for at in range(len(self._messages)):  # in turn, since a template may ask what a content begins with
            own = [leaf for leaf in every if leaf.message == at]
            chosen += own if self._points(self._messages, own) is not None else self._one_by_one(own)
        points = self._points(self._messages, chosen)
        if points is not None:
            return chosen, points
        single = [(leaf, self._points(self._messages, [leaf]) or []) for leaf in chosen]
        return chosen, sorted((point for _, listed in single for point in listed), key=lambda point: point.at)

    def _one_by_one(self, leaves: Sequence[_Leaf]) -> list[_Leaf]:
        return [leaf for leaf in leaves if self._points(self._messages, [leaf]) is not None]

    def _points(self, messages: Sequence[Any], leaves: Sequence[_Leaf]) -> list[_Point] | None:
        """Where the marks of these texts stand; None if they change more of the chat"""
        text, points = self._with_marks(messages, leaves, False)
        return points if text == self.text else None

    def _with_marks(self, messages: Sequence[Any], leaves: Sequence[_Leaf], prompts: bool) -> tuple[str | None, list[_Point]]:
        """The chat rendered with marks around these texts: without the marks, and where they stood"""
        marked = copy.deepcopy(list(messages))
        for number, leaf in enumerate(leaves):
            *keys, last = leaf.keys
            holder: Any = marked[leaf.message]
            for key in keys:
                holder = holder[key]
            mark = self._lead + chr(_DIGITS + number // 250) + chr(_DIGITS + number % 250)
            content = holder.get(last, "") if isinstance(holder, dict) else holder[last]
            holder[last] = _around(content, mark)
        try:
            rendered = _plain(self._template._template.render(marked, prompts, self._variables))
        except Exception:
            return None, []
        pieces = re.split(f"{self._lead}(..)", rendered, flags=re.DOTALL)
        text = pieces[0]
        points: list[_Point] = []
        for digits, piece in zip(pieces[1::2], pieces[2::2], strict=True):
            number = (ord(digits[0]) - _DIGITS) * 250 + ord(digits[1]) - _DIGITS
            if not 0 <= number < len(leaves):
                return None, []
            if sum(point.leaf is leaves[number] for point in points) < 2:  # a reply may repeat the name of its call
                points.append(_Point(len(text), leaves[number]))
            text += piece
        return text, points

    def _count_left_out(self, at: int, points: Sequence[_Point]) -> None:
        """Count what the template does not write of a message of the assistant"""
        if self._messages[at]["role"] != "assistant":
            return
        shown = {_kind(point.leaf.keys) for point in points if point.leaf.message == at}
        held = {_kind(leaf.keys) for leaf in self._leaves if leaf.message == at}
        self._template._left_out.update(sorted(held - shown))

    # Where a turn begins and ends --------------------------------------------------------------------------------------

    def _beginning(self, at: int, before: _Point | None, first: int, last: int) -> int:
        """Return where the turn of a message begins: behind the generation prompt, which may hold what a content begins with"""
        start = 0 if before is None else before.at
        gap = self.text[start:first]
        earlier = [leaf for leaf in self._leaves if leaf.message < at]
        text, points = self._with_marks(self._messages[:at], earlier, True) if at else (None, [])
        if text is not None:
            ends = [point.at for point in points if before is not None and point.leaf.message == before.leaf.message]
            if before is None or ends:
                common = self._common(self.text[start:last], text[max(ends, default=0) :])
                header = self._template.header(self._variables)
                again = gap.rfind(header, common) if header else -1
                begin = common if again < 0 else again + len(header)
                named = [match.end() for match in _NAMED.finditer(gap, min(begin, len(gap)))]
                return start + max([begin, *named])
        header = self._template.header(self._variables)
        for begin in range(len(header)):
            if header[begin:] in gap:
                return start + gap.rindex(header[begin:]) + len(header) - begin
        return first

    def _end(self, at: int, last: _Point, following: int | None) -> int:
        """Return where the turn of a message ends: behind what the template writes where nothing follows it"""
        if following is None and at == max(k for k, m in enumerate(self._messages) if m["role"] != "system"):
            gap = self.text[last.at :]
            return last.at + len(gap.rstrip(" ") if gap.strip() else gap)
        gap = self.text[last.at : following]
        text, points = self._with_marks(self._messages[: at + 1], [leaf for leaf in self._leaves if leaf.message <= at], False)
        ends = [point.at for point in points if point.leaf == last.leaf]
        closing = "" if text is None or not ends else text[max(ends) :]
        length = self._common(gap, closing)
        if gap[:length].strip():
            return last.at + len(gap[:length].rstrip(" "))
        return last.at + self._behind_mark(gap)

    def _behind_mark(self, gap: str) -> int:
        """How much of a text ends in a mark: it ends a turn where the template writes another at the end of a chat, or none"""
        blank = len(gap) - len(gap.lstrip())
        header = self._template.header(self._variables)
        if header and gap.startswith(header, blank):
            return 0
        mark = self._template._marks.match(gap, blank) or _MARK.match(gap, blank)
        return 0 if mark is None else mark.end()

    def _common(self, text: str, other: str) -> int:
        """How many characters two texts begin with in common, without a mark that only began so in both"""
        length = next((k for k, (x, y) in enumerate(zip(text, other, strict=False)) if x != y), min(len(text), len(other)))
        if length in (len(text), len(other)):
            return length
        for whole in (text, other):
            for mark in self._template._marks.finditer(whole):
                if mark.start() < length < mark.end():
                    length = mark.start()
        begun = _BEGUN.search(text[:length])
        return length if begun is None else begun.start()


def _leaves_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[_Leaf]:
    """Every text in the messages that a template may write; for a message of the assistant without any, the place of one"""
    for at, message in enumerate(messages):
        texts = [
            keys
            for key in ("content", *_REASONING, "tool_calls")
            for keys in _texts_in(message.get(key), (key,))
            if key != "tool_calls" or keys[-1] == "name" or "arguments" in keys
        ]
        if not texts and message["role"] == "assistant":
            texts = [("content",)] if not isinstance(message.get("content"), list) else []
        yield from (_Leaf(at, keys) for keys in texts)


def _texts_in(value: Any, keys: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str) and value.strip() and keys[-1] != "type":
        yield keys
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _texts_in(entry, (*keys, key))
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _texts_in(entry, (*keys, number))


def _around(text: str, mark: str) -> str:
    """A text with a mark before its first and behind its last letter, so that trimming finds the same white space"""
    core = text.strip()
    if not core:
        return mark
    begin = text.index(core)
    return f"{text[:begin]}{mark}{core}{mark}{text[begin + len(core) :]}"


def _kind(keys: tuple[Any, ...]) -> str:
    return "reasoning_content" if keys[0] in _REASONING else str(keys[0])


def _runs(points: Sequence[_Point]) -> list[list[_Point]]:
    """Points that follow each other and belong to one message"""
    runs: list[list[_Point]] = []
    for point in points:
        if runs and runs[-1][0].leaf.message == point.leaf.message:
            runs[-1].append(point)
        else:
            runs.append([point])
    return runs


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans without empty ones, and those that touch as one"""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(span for span in spans if span[0] < span[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _plain(text: str) -> str:
    """A text without the characters that stand for tags"""
    return text.replace(BEGIN, "").replace(END, "")


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(names.items()))


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    content = message.get("content")
    if content is None:
        return bool(message.get("tool_calls")) or any(message.get(key) for key in _REASONING)
    if isinstance(content, list):
        return all(isinstance(part, str) or (isinstance(part, dict) and isinstance(part.get("text"), str)) for part in content)
    return isinstance(content, str)


def _functions(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The functions that a message calls"""
    for call in message.get("tool_calls") or ():
        function = call.get("function", call) if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield function


def _object_or_text(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _with_text_arguments(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the arguments of calls as JSON, as some templates take them"""
    changed = [dict(copy.deepcopy(message)) for message in messages]
    for message in changed:
        for function in _functions(message):
            if isinstance(function.get("arguments"), dict):
                function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return changed


def _chat_ml(messages: Sequence[Any], prompts: bool, variables: Mapping[str, Any]) -> str:
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
