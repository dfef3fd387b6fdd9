"""Raise KeyboardInterrupt at any line of the package, as the handler of SIGINT does, which Python calls between two operations."""

import dis
import sys
from functools import cache
from pathlib import Path

import onnxgrad

PACKAGE = str(Path(onnxgrad.__file__).parent)
FINALIZERS = ("__del__", "release")
"""What is raised in these, and in what they call, Python swallows."""


class Lines:
    """Follow the lines of the package that a call visits on one thread, and interrupt one of them.

    Args:
        at: the line's number in the order of the visits; None to follow them alone.

    Attributes:
        visited: file and line of each visit.
    """

    def __init__(self, at=None):
        self.at, self.visited, self.interrupted = at, [], None

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *error):
        sys.settrace(self._before)

    def _called(self, frame, event, argument):
        inside = frame.f_code.co_filename.startswith(PACKAGE) and not _is_finalizing(frame)
        return self._line if inside else None

    def _line(self, frame, event, argument):
        if event == "line" and frame.f_lasti not in _leaving(frame.f_code):
            if self.at == len(self.visited):
                self.interrupted = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"
                self.at = None
                raise KeyboardInterrupt
            self.visited.append((frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_lineno))
        return self._line


def _is_finalizing(frame):
    for _ in range(4):
        if frame is None or frame.f_code.co_name in FINALIZERS:
            return frame is not None
        frame = frame.f_back
    return False


@cache
def _leaving(code):
    """Where a ``with`` block is left: a line for the debugger, but Python looks for signals only when ``__exit__`` was called."""
    nothing = [each.offset if (each.opname, each.argval) == ("LOAD_CONST", None) else None for each in dis.get_instructions(code)]
    return {a for a, b, c in zip(nothing, nothing[1:], nothing[2:], strict=False) if None not in (a, b, c)}


def visits_of(call, most=None, every=1):
    """Numbers of the visits to interrupt: of each line the first ``most`` and the last one, of these each ``every``-th."""
    with Lines() as lines:
        call()
    counts, last = {}, {line: number for number, line in enumerate(lines.visited)}
    chosen = []
    for number, line in enumerate(lines.visited):
        counts[line] = counts.get(line, 0) + 1
        if most is None or counts[line] <= most or last[line] == number:
            chosen.append(number)
    return chosen[::every], len(last)


def interrupt(call, at):
    """Call a function and interrupt it; gives the line, or None where it ended before."""
    with Lines(at) as lines:
        try:
            call()
        except KeyboardInterrupt:
            assert lines.interrupted is not None
        except BaseException as error:
            if lines.interrupted is None:
                raise
            raise AssertionError(f"interrupted at {lines.interrupted}, it raised {error!r}") from error
    return lines.interrupted


__all__ = ["Lines", "interrupt", "visits_of"]
