"""paddle.autocast: auto_cast with the arguments that torch has.

Tests: tests/amp/test_eager.py.
"""

from __future__ import annotations

from onnxgrad.amp.auto_cast import auto_cast
from onnxgrad.core.passes.precision_lists import LowDtype
from onnxgrad.internal.arguments import checked

__all__ = ["autocast"]


class autocast(auto_cast):  # noqa: N801
    """``paddle.autocast``: ``auto_cast`` with the arguments that torch has.

    Args:
        device_type: 'cpu' or 'cuda'; eager tensors are computed on the CPU.
        dtype: ``'float16'``.
        enabled: False leaves all as it is.
        cache_enabled: accepted for compatibility.

    Example:
        >>> with paddle.autocast("cpu"):
        ...     paddle.amp.is_autocast_enabled()
        True
    """

    @checked
    def __init__(self, device_type: str, dtype: LowDtype = "float16", enabled: bool = True, cache_enabled: bool = True) -> None:
        super().__init__(enabled, dtype=dtype)
