"""Functions that Paddle has and that cannot be offered here: each says why, and what to do instead."""

from __future__ import annotations

from typing import Any

from onnxgrad.errors import NotOffered

__all__ = ["refusals", "refused"]


class refused:  # noqa: N801
    """Stands where Paddle has a function or class; calling it raises NotOffered.

    Args:
        name: how it is called, with its namespace.
        because: the reason, a clause without a full stop.
        advice: a sentence that says what to do instead.
    """

    def __init__(self, name: str, because: str, advice: str = "") -> None:
        self.__name__ = name
        self.reason = f"{because}. {advice}".strip()
        self.__doc__ = f"Not offered: {self.reason}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse.

        Raises:
            NotOffered: always, with the reason.
        """
        raise NotOffered(f"{self.__name__} is not offered: {self.reason}")

    def __repr__(self) -> str:
        return f"<{self.__name__}: not offered>"


def refusals(namespace: str, reasons: dict[str, str]) -> dict[str, refused]:
    """Refused functions of a namespace by name, from clauses that hold the reason and, if there is any, the advice."""
    return {name: refused(f"{namespace}.{name}", reason) for name, reason in reasons.items()}
