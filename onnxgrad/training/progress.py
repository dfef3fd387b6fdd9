"""One line of progress on a terminal; silent elsewhere."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Progress"]


class Progress:
    """A tqdm line with loss, metrics, items per second and the time that is left; ``note`` is shown until the first of them."""

    def __init__(self, title: str, examples: int | None, done: int, verbose: bool, note: str = "") -> None:
        self._bar: Any = None
        if verbose and sys.stderr.isatty():
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(desc=title, total=examples, initial=done, unit=" examples", dynamic_ncols=True)
            self._bar.set_postfix_str(note)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self, examples: int, values: dict[str, float]) -> None:
        if self._bar is not None:
            self._bar.set_postfix({name: f"{value:.4g}" for name, value in values.items()}, refresh=False)
            self._bar.update(examples)

    def finish(self, row: dict[str, Any]) -> None:
        if self._bar is not None:
            shown = {name: value for name, value in row.items() if name not in ("epoch", "step")}
            self._bar.set_postfix({name: f"{value:.4g}" for name, value in shown.items()})
