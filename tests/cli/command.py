"""The command line as a user types it, in this process or in one of its own."""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

from onnxgrad.cli.main import main
from onnxgrad.internal import state

ROOT = Path(__file__).parents[2]
IN_PROCESSES = os.environ.get("ONNXGRAD_TEST_COMMANDS") == "processes"
"""Whether each command has a process of its own, as in scripts/test --all."""


def start(*arguments):
    """A command in a process of its own, running."""
    return subprocess.Popen(
        [sys.executable, "-m", "onnxgrad", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
    )


def command(*arguments, code=0):
    """Standard output of a command that ends with this code; for another than 0, its error."""
    ended, out, err = run_in_process(arguments) if IN_PROCESSES else run_here(arguments)
    assert ended == code, out + err
    return err if code else out


def run_in_process(arguments):
    process = start(*arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def run_here(arguments):
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
        state.isolated(),
    ):
        warnings.resetwarnings()
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()
