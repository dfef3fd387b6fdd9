"""Functions that Paddle has and that cannot be offered here: each says why, and what to do instead."""

from __future__ import annotations

from typing import Any

from onnxgrad.errors import NotOffered

__all__ = ["Refused", "refused"]


class Refused:
    """Stands where Paddle has a function or class; calling it raises NotOffered."""

    def __init__(self, name: str, because: str, advice: str) -> None:
        self.__name__ = name
        self.because = because
        self.advice = advice
        self.__doc__ = f"Not offered: {because}. {advice}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse.

        Raises:
            NotOffered: always, with the reason.
        """
        raise NotOffered(f"{self.__name__} is not offered: {self.because}. {self.advice}")

    def __repr__(self) -> str:
        return f"<{self.__name__}: not offered>"


def refused(name: str, because: str, advice: str) -> Refused:
    """Declare a function of Paddle as refused.

    Args:
        name: how it is called, with its namespace.
        because: the reason, a clause without a full stop.
        advice: a sentence that says what to do instead.
    """
    return Refused(name, because, advice)
