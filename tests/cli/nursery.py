"""Forks a process for each command that it is asked to run, after the imports that all commands share.

Each has run nothing before, and has files, variables and an exit code of its own. ``tests/cli/command.py`` asks.
"""

import atexit
import json
import os
import runpy
import signal
import sys
import threading
import traceback
import warnings

_SECONDS = 120
"""What no command takes: one that does hangs, and is ended."""


def serve():
    """Return in each child, with what it is to run; the parent ends with its input."""
    import onnxgrad.cli.common  # noqa: F401
    from tests.waiting import sleep_between_runs

    sleep_between_runs()

    for line in sys.stdin:
        with warnings.catch_warnings(action="ignore"):  # a thread of numpy, which knows how to fork
            child = os.fork()
        if not child:
            return json.loads(line)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)


def become(request):
    """Take the files, variables and arguments of a command."""
    signal.alarm(_SECONDS)
    for number, path in enumerate((os.devnull, request["out"], request["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.argv = ["onnxgrad", *request["arguments"]]


def run():
    """The exit code of ``python -m onnxgrad``."""
    try:
        runpy.run_module("onnxgrad", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(code):
    """As an interpreter ends, but for onnxruntime: it would wait for a thread that was not forked."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    become(serve())
    end(run())
