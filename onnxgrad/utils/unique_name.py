"""paddle.utils.unique_name: counted names.

>>> unique_name.generate("fc"), unique_name.generate("fc")
('fc_0', 'fc_1')
>>> with unique_name.guard("left_"):
...     unique_name.generate("fc")
'left_fc_0'

Tests: tests/utils/test_utils.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_kind, checked
from onnxgrad.internal.state import NameCounters, fresh_names

__all__ = ["generate", "guard", "switch"]


def __dir__() -> list[str]:
    return __all__


@checked
def generate(key: str) -> str:
    """The next name for ``key``, such as ``fc_0``.

    Args:
        key: what the name begins with.
    """
    return state.generate_name(key)


def switch(new_generator: NameCounters | None = None) -> NameCounters:
    """Replace the counters, by new ones unless given; returns the old ones.

    Args:
        new_generator: the counters.
    """
    old: NameCounters = state.current.names
    state.current.names = new_generator if new_generator is not None else NameCounters()
    return old


def guard(new_generator: NameCounters | str | bytes | None = None) -> AbstractContextManager[None]:
    """Count anew inside a ``with`` block; a str is put before every name.

    Args:
        new_generator: what is put before every name, or counters to count with.

    Raises:
        ArgumentTypeError: if it is neither.
    """
    if isinstance(new_generator, NameCounters):
        return fresh_names(new_generator.prefix, new_generator)
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    return fresh_names(as_kind("unique_name.guard", "new_generator", new_generator, str | None) or "")
