"""Mixed precision in bfloat16 under the names that Paddle has for it.

Tests: tests/test_documentation.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onnxgrad.core.ir.program import Program
from onnxgrad.core.passes.mixed_precision import to_mixed_precision
from onnxgrad.core.passes.precision_lists import AutoMixedPrecisionLists
from onnxgrad.dtypes import dtype_of
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.optimizer.optimizer import Optimizer
from onnxgrad.static.amp.cast import cast_model_to_fp16, fp16_guard
from onnxgrad.static.amp.decorator import OptimizerWithMixedPrecision, decorate

__all__ = [
    "AutoMixedPrecisionListsBF16", "bf16_guard", "cast_model_to_bf16", "convert_float_to_uint16", "decorate_bf16",
    "rewrite_program_bf16",
]  # fmt: skip


class AutoMixedPrecisionListsBF16(AutoMixedPrecisionLists):
    """``AutoMixedPrecisionLists`` for bfloat16.

    Args:
        custom_bf16_list: operators that compute in bfloat16.
        custom_fp32_list: operators that do not.
        custom_fp32_varnames: names of variables whose operators do not.
    """

    def __init__(
        self,
        custom_bf16_list: Iterable[str] | None = None,
        custom_fp32_list: Iterable[str] | None = None,
        custom_fp32_varnames: Iterable[str] | None = None,
    ) -> None:
        super().__init__(custom_bf16_list, custom_fp32_list, custom_fp32_varnames, "bfloat16")


def rewrite_program_bf16(main_prog: Program, amp_lists: AutoMixedPrecisionLists | None = None) -> None:
    """Rewrite a forward program, in place, by the lists.

    Args:
        main_prog: the program, without gradients.
        amp_lists: which operators compute in which type; the default ones unless given.
    """
    to_mixed_precision(main_prog, "bfloat16", amp_lists)


@checked
def cast_model_to_bf16(
    program: Program,
    startup_prog: Program | None = None,
    amp_lists: AutoMixedPrecisionLists | None = None,
    use_bf16_guard: bool = True,
) -> set[str]:
    """Rewrite nearly all of a forward program in place; gives the names of the parameters that are read in bfloat16.

    Args:
        program: the program, without gradients.
        startup_prog: accepted for compatibility.
        amp_lists: which operators compute in which type; the default ones unless given.
        use_bf16_guard: whether only what ``bf16_guard`` made is rewritten.
    """
    return cast_model_to_fp16(program, amp_lists, use_bf16_guard, "bfloat16")


bf16_guard = fp16_guard


def convert_float_to_uint16(in_list: ArrayLike) -> np.ndarray[Any, Any]:
    """The bits of bfloat16 numbers, as uint16.

    Args:
        in_list: numbers, of any shape.

    Example:
        >>> static.amp.bf16.convert_float_to_uint16([1.0, -2.0])
        array([16256, 49152], dtype=uint16)
    """
    return np.asarray(in_list, np.float32).astype(dtype_of("bfloat16").numpy).view(np.uint16)


@checked
def decorate_bf16(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    use_pure_bf16: bool = False,
    use_bf16_guard: bool | None = None,
) -> OptimizerWithMixedPrecision:
    """``decorate`` for bfloat16, whose loss needs no scale.

    Args:
        optimizer: the optimizer.
        amp_lists: which operators compute in which type; the default ones unless given.
        use_pure_bf16: whether nearly all of the program computes in bfloat16.
        use_bf16_guard: whether only what ``bf16_guard`` made does; as ``use_pure_bf16`` unless given.
    """
    guard = use_pure_bf16 if use_bf16_guard is None else use_bf16_guard
    return decorate(optimizer, amp_lists, level="O2" if use_pure_bf16 else "O1", dtype="bfloat16", use_amp_guard=guard)


globals().update(absence_hooks(__name__))
