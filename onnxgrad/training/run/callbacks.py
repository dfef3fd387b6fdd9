"""Call callbacks during a run: after steps, epochs and evaluations, and when a checkpoint is written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgrad.training.run.plan import Row

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["Callback", "Callbacks"]


class Callback:
    """The methods that ``Trainer.fit(callbacks=[...])`` calls, to be overridden. True from the first three ends the run.

    A function is called as ``on_epoch``. Of several ranks all are given the same callbacks, and the first one calls them.

    Attributes:
        watches_gradients: whether it reads ``trainer.gradient_norms``.

    Example:
        >>> class Stop(Callback):
        ...     def on_step(self, trainer, row):
        ...         return row["step"] >= 100
    """

    watches_gradients = False

    def on_begin(self, trainer: Trainer, plan: dict[str, Any]) -> None:
        """Before the first step of a call of ``fit``: ``epochs`` in all, ``batch_size``, ``out`` (a path or None), and the
        ``validation`` data as it was opened, or None.

        Args:
            trainer: that runs.
            plan: what is to be done: numbers and texts by name.
        """

    def on_step(self, trainer: Trainer, row: Row) -> bool | None:
        """After a step on a batch: ``step``, ``epoch``, ``learning_rate``, ``examples`` of the batch, its loss and metrics.

        Args:
            trainer: that runs.
            row: what was measured, by name.
        """

    def on_evaluate(self, trainer: Trainer, row: Row) -> bool | None:
        """After an evaluation on the validation data: ``step``, ``epoch`` and the means, whose names begin with ``val_``.

        Args:
            trainer: that runs.
            row: what was measured, by name.
        """

    def on_epoch(self, trainer: Trainer, row: Row) -> bool | None:
        """After an epoch: its row of the history.

        Args:
            trainer: that runs.
            row: what was measured, by name.
        """

    def on_checkpoint(self, trainer: Trainer, path: Path) -> None:
        """A checkpoint was written.

        Args:
            trainer: that runs.
            path: of the file.
        """

    def on_end(self, trainer: Trainer, row: Row) -> None:
        """The call of ``fit`` ends, also by an error: the last row of the history, empty where no epoch has ended.

        What it raises is a note to the error that ended the run, if there is one; all other callbacks are told as well.

        Args:
            trainer: that ran.
            row: the last row; empty if there is none.
        """


class Callbacks:
    """Several callbacks as one."""

    def __init__(self, given: Sequence[Callback | Callable[..., Any]]) -> None:
        self._callbacks = list(given)

    def hear(self, event: str) -> bool:
        """Return whether any callback handles this event."""
        own = getattr(Callback, event)
        return any(self._method(one, event) is not None and getattr(type(one), event, None) is not own for one in self._callbacks)

    def tell(self, event: str, *what: Any) -> bool:
        """Tell all of them; True if one of them ends the run."""
        methods = [self._method(one, event) for one in self._callbacks]
        answers = [method(*what) for method in methods if method is not None]
        return any(answer is True for answer in answers)

    def end(self, trainer: Trainer, row: Row, error: BaseException | None) -> None:
        """Tell all of them that the run ends, by ``error`` or well, also where one of them fails.

        Raises:
            the first error of a callback, if the run ended well; errors behind the first are notes to it.
        """
        first = error
        for one in self._callbacks:
            method = self._method(one, "on_end")
            try:
                if method is not None:
                    _end(method, trainer, row)
            except Exception as failure:
                if first is None:
                    first = failure
                else:
                    first.add_note(f"on_end of {type(one).__name__} failed as well: {type(failure).__name__}: {failure}")
        if error is None and first is not None:
            raise first

    @staticmethod
    def _method(one: Any, event: str) -> Callable[..., Any] | None:
        if any(hasattr(one, name) for name in _EVENTS):
            method: Callable[..., Any] | None = getattr(one, event, None)
            return method
        return one if event == "on_epoch" else None


def _end(method: Callable[..., Any], trainer: Trainer, row: Row) -> None:
    """Call ``on_end``; one that was written for earlier versions takes the trainer alone."""
    try:
        inspect.signature(method).bind(trainer, row)
    except TypeError:
        method(trainer)
    else:
        method(trainer, row)


_EVENTS = ("on_begin", "on_step", "on_evaluate", "on_epoch", "on_checkpoint", "on_end")
