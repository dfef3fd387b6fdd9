"""What a command does for longer than two seconds is said: a bar on a terminal with tqdm, a line now and then, or JSON."""

# Tests: tests/training/run/test_callbacks.py.

from __future__ import annotations

import json
import sys
import time
from typing import Any

from onnxgrad.training.run.progress import Heartbeat

__all__ = ["Working"]

SILENCE = 2.0


class Working:
    """Inside a ``with`` block, says what is being done whenever nothing was said for two seconds; with ``as_json`` on stdout."""

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
