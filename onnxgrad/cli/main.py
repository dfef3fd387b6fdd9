"""Reading the arguments of the command ``onnxgrad`` and turning errors into one line and an exit code.

0: done; 1: the answer is no, or the work failed; 2: wrong usage. A traceback is shown only with --debug, or where the environment
variable ONNXGRAD_DEBUG is set.
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from onnxgrad.cli import check, doctor, evaluate, explain_image, explain_text, export, grad, info, predict, train, view
from onnxgrad.distributed.environment import fail
from onnxgrad.errors import ArgumentError, ArgumentTypeError, OnnxGradError, UnknownName, escaped
from onnxgrad.version import __version__

__all__ = ["main"]

_COMMANDS = (info, check, view, explain_image, explain_text, grad, train, evaluate, predict, export, doctor)


def parser() -> argparse.ArgumentParser:
    """The arguments of all commands."""
    main_parser = argparse.ArgumentParser(
        prog="onnxgrad",
        description="Inspect, differentiate, train and export .onnx files.",
        epilog="onnxgrad COMMAND --help shows examples. Exit codes: 0 success, 1 check or command failed, 2 wrong usage.",
    )
    main_parser.add_argument("--version", action="version", version=f"onnxgrad {__version__}")
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        name, (summary, _, examples) = (
            module.__name__.rpartition(".")[2].replace("_", "-"),
            (module.__doc__ or "").partition("\n\n"),
        )
        command = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=summary,
            epilog=examples.strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.add_argument("--debug", action="store_true", help="show where an error comes from")
        command.set_defaults(run=module.run)
    return main_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options: Any = parser().parse_args(arguments)
    warnings.simplefilter("ignore", UserWarning)
    shown: Any = _Shown(sys.stdout), _Shown(sys.stderr)
    with redirect_stdout(shown[0]), redirect_stderr(shown[1]):
        return _run(options)


class _Shown:
    """A stream that shows control characters escaped; progress goes back to the start of its line."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._stream.write(escaped(text, keeps="\r")))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _run(options: Any) -> int:
    if options.debug or os.environ.get("ONNXGRAD_DEBUG"):
        return int(options.run(options))
    try:
        return int(options.run(options))
    except (ArgumentError, ArgumentTypeError, UnknownName) as error:
        return _say(error, 2)
    except OnnxGradError as error:
        return _say(error, 1)
    except OSError as error:
        name = str(error.filename or "a file").removesuffix(".partial")
        return _say(f"cannot use {name!r}: {error.strerror or error}.", 1)
    except KeyboardInterrupt:
        return _say("interrupted.", 1)
    except Exception as error:
        # No file may lead here: this is an error of onnxgrad itself.
        message = f"{type(error).__name__}: {error}"
        return _say(f"onnxgrad failed ({message}). Run it again with --debug, and report what it then shows.", 1)


def _say(error: object, code: int) -> int:
    if fail(str(error)):
        return code
    print("error:", " ".join(str(error).split()), file=sys.stderr)
    return code
