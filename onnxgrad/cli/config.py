"""Options of a command from a file, .json or .toml: what the command line says as well overrules it."""

# Tests: tests/cli/test_config.py.

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from onnxgrad.errors import ArgumentError
from onnxgrad.internal.files import read_whole

__all__ = ["read_config", "set_defaults"]

OPTION = "--config"
_OF_A_RUN = ("classes", "batch_norm_mode")
"""What a run's own settings.json holds besides options."""


def set_defaults(command: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Set the defaults of a command by the file that --config names on its command line.

    Raises:
        ArgumentError: as ``read_config`` does.
    """
    for position, word in enumerate(words):
        following = words[position + 1] if word == OPTION and position + 1 < len(words) else None
        path = word.partition("=")[2] if word.startswith(f"{OPTION}=") else following
        if path is not None and OPTION in command._option_string_actions:
            command.set_defaults(**read_config(path, command))


def read_config(path: str, command: argparse.ArgumentParser) -> dict[str, Any]:
    """Return the options that a file sets, by the names that the parser stores them under.

    Args:
        path: of a .toml or .json file; a run's settings.json is one. Names are those of the options, with ``-`` or ``_``.
        command: the parser of the command.

    Raises:
        ArgumentError: if the file cannot be read, an option is unknown, or a value is of another kind than the option's.
    """
    file = Path(path)
    if file.suffix not in (".json", ".toml"):
        raise ArgumentError(f"--config takes a .toml or .json file, not {path!r}.")
    if not file.is_file():
        raise ArgumentError(f"there is no file {path!r}. Name the settings with --config FILE.")
    try:
        text = read_whole(file).decode()
        entries = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{path!r} is not valid {file.suffix[1:].upper()}: {error}.") from error
    if not isinstance(entries, dict):
        raise ArgumentError(f"{path!r} holds no options by name. Write them as name = value.")
    actions = {action.dest: action for action in command._actions if action.dest not in ("help", "config", "debug")}
    values: dict[str, Any] = {}
    for name, value in entries.items():
        option = name.replace("-", "_")
        if option in _OF_A_RUN or value is None or (file.name == "settings.json" and option == "debug"):
            continue
        if option not in actions:
            nearest = get_close_matches(option, actions, n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise ArgumentError(f"{path!r}: there is no option {name!r}.{hint}")
        values[option] = _checked(actions[option], value, f"{path!r}: {name}")
    return values


def _checked(action: argparse.Action, value: Any, where: str) -> Any:
    """Return a value as the parser would store it, or refuse it"""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ArgumentError(f"{where} is true or false, not {value!r}.")
        return value
    if isinstance(action, argparse._AppendAction):
        if not isinstance(value, list):
            raise ArgumentError(f"{where} is a list, not {value!r}.")
        return [_list_of(action, entry, where) if action.nargs else _single(action, entry, where) for entry in value]
    if action.nargs in ("+", "*") or isinstance(action.nargs, int):
        return _list_of(action, value, where)
    return _single(action, value, where)


def _list_of(action: argparse.Action, value: Any, where: str) -> list[Any]:
    entries = value if isinstance(value, list) else [value]
    if isinstance(action.nargs, int) and len(entries) != action.nargs:
        raise ArgumentError(f"{where} has {action.nargs} entries, not {len(entries)}.")
    return [_single(action, entry, where) for entry in entries]


def _single(action: argparse.Action, value: Any, where: str) -> Any:
    """One value, converted by the option's own type"""
    if isinstance(value, (list, dict, bool)):
        raise ArgumentError(f"{where} is one value, not {value!r}.")
    convert: Any = action.type or str
    try:
        stored = convert(value) if convert in (int, float) and not isinstance(value, str) else convert(str(value))
    except (ValueError, TypeError, OverflowError, argparse.ArgumentTypeError) as error:
        raise ArgumentError(f"{where} cannot be {value!r}: {error}.") from error
    if convert is int and stored != value and not isinstance(value, str):
        raise ArgumentError(f"{where} is a whole number, not {value!r}.")
    if action.choices is not None and stored not in action.choices:
        raise ArgumentError(f"{where} is one of {', '.join(map(str, action.choices))}, not {value!r}.")
    return stored
