"""The command line as a user types it, in this process or in one of its own.

A process of its own is a new interpreter for the first use of each subcommand, and forked by one of two nurseries after it
(``tests/cli/nursery.py``): imports are four fifths of what most commands compute. Two, since hashes of strings differ between
them: what depends on the order of a set then differs from one command to the next.
"""

import atexit
import contextlib
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
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
    subcommand = next(iter(arguments), "")
    if subcommand in _STARTED and hasattr(os, "fork"):
        return next(_NURSERIES).run(arguments)
    _STARTED.add(subcommand)
    process = start(*arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


_STARTED = set()
"""Subcommands that have had an interpreter of their own."""


class Nursery:
    """A process that has imported what commands import, and forks one of its own for each; it starts with the first."""

    def __init__(self):
        self.process = None

    def run(self, arguments):
        """Exit code, output and errors of a command."""
        if self.process is None:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.nursery"], **pipes, cwd=ROOT, env=environment, start_new_session=True
            )
            atexit.register(self.end)
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
            request = {"arguments": list(map(str, arguments)), "variables": variables, "out": str(out), "err": str(err)}
            try:
                self.process.stdin.write(json.dumps(request) + "\n")
                self.process.stdin.flush()
                code = int(self.process.stdout.readline())
            except BaseException:  # a test that is ended leaves no command behind
                self.end()
                raise
            return code, out.read_text(), err.read_text()

    def end(self):
        atexit.unregister(self.end)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        self.process = None


_NURSERIES = itertools.cycle([Nursery(), Nursery()])


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
