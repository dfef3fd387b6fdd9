"""What the processor of this machine has."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

__all__ = ["has_integer_products"]


@cache
def has_integer_products() -> bool:
    """Whether products of bytes are summed in 32 bits (VNNI, or another kind of processor than x86). False where nobody says."""
    if platform.machine().lower() not in ("x86_64", "amd64", "x86", "i686"):
        return True
    try:
        said = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
    return "avx512_vnni" in said or "avx_vnni" in said
