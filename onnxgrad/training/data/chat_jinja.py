"""Chat templates in Jinja, with the names and tags that templates of published models use.

Tests: tests/training/data/test_chat_template.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from onnxgrad.errors import DataError

__all__ = ["BEGIN", "END", "Compiled", "compile_template"]

BEGIN, END = "\ue0f0", "\ue0f1"
"""Characters of the private area that stand around what {% generation %} tags enclose."""


class Compiled(NamedTuple):
    """A template, ready to render.

    Attributes:
        render: gives the text of messages, of a generation prompt or none, and of further variables by name.
        tagged: whether it has {% generation %} tags.
        variables: names that it reads from outside.
        words: names and texts in it, so that what is in none of them cannot be a key that it reads.
    """

    render: Callable[[Sequence[Any], bool, Mapping[str, Any]], str]
    tagged: bool
    variables: frozenset[str]
    words: frozenset[str]


def compile_template(text: str, origin: str, specials: Mapping[str, str]) -> Compiled:
    """Compile a chat template in a sandbox.

    Args:
        text: the template.
        origin: name of its file, for messages.
        specials: values of ``bos_token`` and its like.

    Raises:
        DataError: if it is no template.
        ImportError: without the package jinja2.
    """
    import jinja2.ext
    import jinja2.meta
    import jinja2.nodes
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}  # noqa: RUF012 (as Jinja declares it)

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_enclosed"), [], [], body).set_lineno(line)

        def _enclosed(self, caller: Callable[[], str]) -> str:
            return f"{BEGIN}{caller()}{END}"

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    functions: dict[str, Any] = {"raise_exception": _refuse, "strftime_now": _now}
    environment.globals.update({**functions, **specials})
    try:
        tree = environment.parse(text)
        template = environment.from_string(text)
    except jinja2.TemplateError as error:
        raise DataError(f"the chat template in {origin} cannot be read ({error}). Correct or remove it.") from error

    def render(messages: Sequence[Any], prompts: bool, variables: Mapping[str, Any]) -> str:
        values = {"tools": None, "documents": None, **variables}
        return str(template.render(values, messages=list(messages), add_generation_prompt=prompts))

    names = frozenset(jinja2.meta.find_undeclared_variables(tree)) - functions.keys() - set(jinja2.defaults.DEFAULT_NAMESPACE)
    words = {str(node.attr) for node in tree.find_all(jinja2.nodes.Getattr)}
    words |= {node.value for node in tree.find_all(jinja2.nodes.Const) if isinstance(node.value, str)}
    tagged = any(getattr(node, "name", None) == "_enclosed" for node in tree.find_all(jinja2.nodes.ExtensionAttribute))
    return Compiled(render, tagged, names, frozenset(words))


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Write JSON as it is: Jinja's own filter escapes what HTML does not allow."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise DataError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
