"""Training steps without denormal numbers: below 1.2e-38 a product takes a processor a hundred times as long.

Gradients that vanish along a recurrence reach that range. onnxruntime's option ``session.set_denormal_as_zero`` changes the mode of
its own threads, and that of the thread that opens a process's first session, for good. A run computes on the calling thread too, so
the mode of that one is set around the run and then put back.
"""

from __future__ import annotations

import ctypes
import platform
from typing import Any

__all__ = ["OPTION", "FloatingPointMode", "can_flush"]

OPTION = "session.set_denormal_as_zero"
# Of x86-64's MXCSR: flush to zero (bit 15), denormals are zero (bit 6). glibc's fenv_t ends with that register.
_FLUSH = 0x8040
_Environment = ctypes.c_uint32 * 8
_CONTROL = 7


def _library() -> Any:
    if platform.machine() not in ("x86_64", "AMD64") or platform.libc_ver()[0] != "glibc":
        return None
    try:
        # PyDLL does not give the interpreter's lock away, which would cost more than the calls.
        return ctypes.PyDLL("libm.so.6")
    except OSError:
        return None


_LIBM = _library()


def can_flush() -> bool:
    """Whether a thread's mode can be changed, and put back: on x86-64 with glibc."""
    return _LIBM is not None


class FloatingPointMode:
    """The thread's floating-point environment is put back afterwards; inside, denormal numbers are zero if ``flushes``.

    Where that cannot be put back nothing is changed.

    >>> import numpy as np
    >>> with FloatingPointMode(flushes=True):
    ...     inside = np.float32(1e-38) * np.float32(1e-3)
    >>> bool(inside == 0) == can_flush(), bool(np.float32(1e-38) * np.float32(1e-3) == 0)
    (True, False)
    """

    def __init__(self, *, flushes: bool) -> None:
        self._flushes = flushes
        self._before = _Environment()

    def __enter__(self) -> None:
        if _LIBM is None:
            return
        _LIBM.fegetenv(self._before)
        if self._flushes:
            now = _Environment.from_buffer_copy(self._before)
            now[_CONTROL] |= _FLUSH
            _LIBM.fesetenv(now)

    def __exit__(self, *error: object) -> None:
        if _LIBM is None:
            return
        try:
            _LIBM.fesetenv(self._before)
        except KeyboardInterrupt:
            _LIBM.fesetenv(self._before)
            raise
