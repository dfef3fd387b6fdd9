"""Say what a run or a command does, at least every two seconds: by a bar on a terminal, by plain lines elsewhere, or by JSON.

Tests: tests/training/run/test_callbacks.py.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Heartbeat", "Progress", "Working"]

SILENCE = 2.0
_BAR = "{l_bar}{bar}| {rate_fmt}{postfix}"
"""What fits into 80 columns: the share that is done, the speed, and of the values the loss alone."""
_EVERY = 0.85  # of the longest silence, so that a late thread does not exceed it


class Heartbeat:
    """Inside a ``with`` block, calls a function whenever ``beat`` was not called for so many seconds."""

    def __init__(self, speak: Callable[[], None], silence: float) -> None:
        self._speak, self._silence = speak, _EVERY * silence
        self._ended = threading.Event()
        self._last = time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="onnxgrad-progress")

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        self._thread.join()

    def beat(self) -> None:
        """Something was said just now."""
        self._last = time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(max(0.01, self._last + self._silence - time.monotonic())):
            if time.monotonic() - self._last >= self._silence:
                self.beat()
                self._speak()


class Progress:
    """Loss, metrics, examples per second and the time that is left of a run, during one epoch.

    Args:
        title: such as ``epoch 1/5``.
        examples: of the epoch, if they can be counted.
        done: of them, before.
        verbose: False for nothing, ``"json"`` for a line of JSON on stdout, True for a bar on a terminal (with tqdm) that the row
            of the epoch replaces, or elsewhere a line on stderr whenever nothing was said for two seconds.
        doing: what is done until the first ``update``.
        later: examples of the epochs after this one.
    """

    def __init__(
        self, title: str, examples: int | None, done: int, verbose: bool | str, doing: str = "", later: int | None = 0
    ) -> None:
        self._title, self._examples, self._done, self._verbose = title, examples, done, verbose
        self._doing, self._later = doing, later
        self._values: dict[str, float] = {}
        self._began = self._since = time.monotonic()
        self._first: tuple[float, int] | None = None  # the first step also opens the session, so speed counts from its end
        self._bar: Any = None
        if verbose and verbose != "json" and sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                pass
            else:
                width: dict[str, Any] = {"dynamic_ncols": True} if _has_width() else {"ncols": 80, "nrows": 20}
                self._bar = tqdm(desc=title, total=examples, initial=done, unit=" examples", leave=False, bar_format=_BAR, **width)
                self._bar.set_postfix_str(doing)
        self._heart = Heartbeat(self._speak, SILENCE)

    def __enter__(self) -> Progress:
        if self._verbose:
            self._heart.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._verbose:
            self._heart.__exit__()
        if self._bar is not None:
            self._bar.close()

    def say(self, doing: str) -> None:
        """From now on this is done, between two steps or behind the last one; an empty text for the steps themselves."""
        self._doing, self._since = doing, time.monotonic()

    def update(self, examples: int, values: dict[str, float]) -> None:
        """So many more were trained on; these are the means of loss and metrics by now."""
        self._done += examples
        self._values, self._doing = values, ""
        if self._first is None:
            self._first = time.monotonic(), self._done
        if self._bar is not None:
            self._bar.set_postfix_str(self._postfix(), refresh=False)
            if self._bar.update(examples):
                self._heart.beat()

    def finish(self, row: dict[str, Any]) -> None:
        """The epoch is over: its row is a line of its own, and the bar stays below."""
        self._values = {name: value for name, value in row.items() if name not in ("epoch", "step", "learning_rate")}
        if self._bar is not None:
            values = "  ".join(f"{name} {value:.4g}" for name, value in self._values.items())
            self._bar.write(f"{self._title}  {values}  ({_clock(time.monotonic() - self._began)})", file=sys.stderr)
            self._heart.beat()

    def _postfix(self) -> str:
        shown = [f"{name}={value:.4g}" for name, value in list(self._values.items())[:1]]
        left = self._seconds_left()
        return ", ".join([*shown, *([f"{_clock(left)} left"] if left is not None else [])])

    def _speed(self) -> float | None:
        """Examples per second"""
        if self._first is None or self._done == self._first[1]:
            return None
        return (self._done - self._first[1]) / max(1e-9, time.monotonic() - self._first[0])

    def _seconds_left(self) -> float | None:
        """Estimate the seconds until the run ends"""
        speed = self._speed()
        if speed is None or self._examples is None or self._later is None:
            return None
        return (max(0, self._examples - self._done) + self._later) / speed

    def _speak(self) -> None:
        waited = f"{self._doing}, {time.monotonic() - self._since:.0f} s" if self._doing else ""
        speed, left = self._speed(), self._seconds_left()
        if self._verbose == "json":
            entry: dict[str, Any] = {"event": "progress", "stage": self._title, "examples": self._done, "of": self._examples}
            entry.update(self._values, examples_per_second=speed, seconds_left=left, doing=self._doing)
            print(json.dumps(entry), flush=True)
        elif self._bar is not None:
            self._bar.set_postfix_str(", ".join(filter(None, [self._postfix(), waited])))
        else:
            counted = f"{self._done:,}" + (f" of {self._examples:,}" if self._examples is not None else "") + " examples"
            parts = [waited, counted, *(f"{name} {value:.4g}" for name, value in self._values.items())]
            parts += [f"{speed:.4g} examples/s"] if speed is not None else []
            parts += [f"{_clock(left)} left"] if left is not None else []
            print(f"{self._title}: {', '.join(filter(None, parts))}", file=sys.stderr, flush=True)


class Working:
    """Inside a ``with`` block, says what a command does whenever nothing was said for two seconds; with ``as_json`` on stdout."""

    def __init__(self, what: str, as_json: bool = False) -> None:
        self._text, self._total, self._done, self._json = what, 0, 0, as_json
        self._bar: Any = None
        self._began = time.monotonic()
        self._heart = Heartbeat(lambda: self._show(time.monotonic() - self._began), SILENCE)

    def __enter__(self) -> Working:
        self._heart.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._heart.__exit__()
        if self._bar is not None:
            self._bar.close()

    def say(self, what: str, done: int = 0, total: int = 0) -> None:
        """From now on this is done: step ``done`` of ``total``, if they can be counted."""
        self._text, self._done, self._total = what, done, total

    def _show(self, seconds: float) -> None:
        if self._json:
            print(json.dumps({"event": "progress", "doing": self._text, "seconds": round(seconds, 1)}), flush=True)
            return
        if self._bar is None and self._total and sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                pass
            else:
                self._bar = tqdm(total=self._total, file=sys.stderr)
        if self._bar is not None:
            self._bar.n = self._done
            self._bar.set_description(self._text)
            return
        counted = f" ({self._done} of {self._total})" if self._total else ""
        print(f"{self._text}{counted}, {seconds:.0f} s", file=sys.stderr, flush=True)


def _has_width() -> bool:
    """Return whether the terminal knows its width; terminals of containers often say 0"""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):
        return True


def _clock(seconds: float) -> str:
    """``1:05`` or ``2:00:10``"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
