"""What a command does for longer than two seconds is said on stderr: a bar on a terminal with tqdm, else a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

__all__ = ["Working"]

SILENCE = 2.0


class Working:
    """Inside a ``with`` block, says what is being done whenever nothing was said for two seconds."""

    def __init__(self, what: str) -> None:
        self._text, self._total, self._done = what, 0, 0
        self._bar: Any = None
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="onnxgrad-progress")

    def __enter__(self) -> Working:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        self._thread.join()
        if self._bar is not None:
            self._bar.close()

    def say(self, what: str, done: int = 0, total: int = 0) -> None:
        """From now on this is done: step ``done`` of ``total``, if they can be counted."""
        self._text, self._done, self._total = what, done, total

    def _watch(self) -> None:
        while not self._ended.wait(SILENCE):
            self._show(time.monotonic() - self._began)

    def _show(self, seconds: float) -> None:
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
