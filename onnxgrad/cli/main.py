"""Reading the arguments of the command ``onnxgrad`` and turning errors into one line and an exit code.

0: done; 1: the answer is no, or the work failed; 2: wrong usage. A traceback is shown only with --debug, or where the environment
variable ONNXGRAD_DEBUG is set.
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import os
import re
import select
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from onnxgrad.errors import ArgumentError, ArgumentTypeError, OnnxGradError, UnknownName, escaped
from onnxgrad.version import __version__

__all__ = ["main"]

_BROKEN_PIPE = 141
"""The exit code of a program that SIGPIPE ends, as a shell gives it."""

_COMMANDS = (
    *(
        "info",
        "check",
        "view",
        "explain-image",
        "explain-text",
        "grad",
        "train",
        "evaluate",
        "predict",
        "generate",
        "export",
        "plan",
        "doctor",
    ),
)


_CONFIG = "--config"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: what is wrong, the nearest option, and where help is.

    Attributes:
        command: the parser of the command that was chosen.
    """

    command: _Parser | None = None

    def error(self, message: str) -> NoReturn:
        unknown = re.fullmatch(r"unrecognized arguments: (--[\w-]+).*", message)
        options = [option for action in self._actions for option in action.option_strings]
        nearest = get_close_matches(unknown[1], options, n=1) if unknown is not None else []
        hint = f" Did you mean {nearest[0]}?" if nearest else ""
        self.exit(2, escaped(f"error: {message}.{hint} See {self.prog} --help.") + "\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and let the chosen command's own parser name what it does not know."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            (self.command or self).error(f"unrecognized arguments: {' '.join(unknown)}")
        return options


def parser(chosen: str | None, words: Sequence[str] = ()) -> _Parser:
    """Build the parser of all commands; only the chosen one gets its arguments.

    Args:
        chosen: name of the command.
        words: of the command line, whose --config sets defaults.

    Raises:
        ArgumentError: if that file is not sound.
    """
    main_parser = _Parser(
        prog="onnxgrad",
        description="Inspect, differentiate, train and export .onnx files.",
        epilog="onnxgrad COMMAND --help shows examples. Exit codes: 0 success, 1 check or command failed, 2 wrong usage.",
    )
    main_parser.add_argument("--version", action="version", version=f"onnxgrad {__version__}")
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in _COMMANDS:
        summary = _summary(name)
        command = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == chosen:
            module: Any = import_module(f"onnxgrad.cli.options.{_stem(name)}")
            command.epilog = (module.__doc__ or "").partition("\n\n")[2].strip()
            module.add_arguments(command)
            command.add_argument("--debug", action="store_true", help="show where an error comes from")
            if any(word == _CONFIG or word.startswith(f"{_CONFIG}=") for word in words):
                # Late: --help reads no file.
                from onnxgrad.cli.config import set_defaults

                set_defaults(command, words)
            main_parser.command = command
    return main_parser


def _stem(command: str) -> str:
    return command.replace("-", "_")


def _summary(command: str) -> str:
    """The first line on a command's arguments"""
    with (Path(__file__).parent / "options" / f"{_stem(command)}.py").open(encoding="utf-8") as source:
        return source.readline().strip().strip('"')


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        chosen = next((word for word in words if not word.startswith("-")), None)
        main_parser = parser(chosen, words)
        options: Any = main_parser.parse_args(words)
        options.named = _named(main_parser.command, words[words.index(options.command) + 1 :])
    except ArgumentError as error:
        return _say(error, 2)
    # Late: --help and wrong usage compute nothing.
    command: Any = import_module(f"onnxgrad.cli.{_stem(options.command)}")
    warnings.simplefilter("ignore", UserWarning)
    shown: Any = _Shown(sys.stdout), _Shown(sys.stderr)
    with redirect_stdout(shown[0]), redirect_stderr(shown[1]):
        return _run(command.run, options)


def _named(command: argparse.ArgumentParser | None, words: Sequence[str]) -> dict[str, str]:
    """The options that the words name, also with the values that they have anyway, by the names they are stored under"""
    if command is None:
        return {}
    before = [(action, action.default) for action in command._actions], command._defaults
    command._defaults = {}
    for action in command._actions:
        action.default = argparse.SUPPRESS
    try:
        stored = vars(command.parse_known_args(words)[0])
        return {action.dest: [*action.option_strings, action.dest][0] for action in command._actions if action.dest in stored}
    finally:
        command._defaults = before[1]
        for action, default in before[0]:
            action.default = default


class _Shown:
    """A stream that shows control characters escaped; progress goes back to the start of its line."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(escaped(text, keeps="\r")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _run(run: Callable[[Any], Any], options: Any) -> int:
    if options.debug or os.environ.get("ONNXGRAD_DEBUG"):
        return int(run(options))
    try:
        code = int(run(options))
        sys.stdout.flush()
        return code
    except (ArgumentError, ArgumentTypeError, UnknownName) as error:
        return _say(error, 2)
    except OnnxGradError as error:
        return _say(error, 1)
    except BrokenPipeError as error:
        if _reader_has_gone():
            return _BROKEN_PIPE
        return _say(f"a connection broke: {error.strerror or error}.", 1)
    except OSError as error:
        name = str(error.filename or "a file").removesuffix(".partial")
        return _say(f"cannot use {name!r}: {error.strerror or error}.", 1)
    except KeyboardInterrupt:
        return _say("interrupted.", 1)
    except Exception as error:
        # No file may lead here: this is an error of onnxgrad itself.
        message = f"{type(error).__name__}: {error}"
        return _say(f"onnxgrad failed ({message}). Run it again with --debug, and report the traceback.", 1)


def _reader_has_gone() -> bool:
    """Whether nobody reads the output any more, as behind ``| head``. Then what is left of it goes nowhere."""
    try:
        output = sys.stdout.fileno()
        waiting = select.poll()
    except (AttributeError, OSError):  # a stream without a file, or a system without poll
        return False
    waiting.register(output, select.POLLOUT)
    if not any(event & (select.POLLERR | select.POLLHUP) for _, event in waiting.poll(0)):
        return False
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), output)
    return True


def _say(error: object, code: int) -> int:
    # Late: --help and wrong usage have no ranks.
    from onnxgrad.distributed.environment import fail

    if fail(str(error)):
        return code
    print("error:", " ".join(str(error).split()), file=sys.stderr)
    return code
