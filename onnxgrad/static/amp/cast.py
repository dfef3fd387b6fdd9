"""The functions that rewrite a program for mixed precision by hand, and what Paddle's weights in float16 would need.

Tests: tests/amp/test_static.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from onnxgrad.core.ir.program import Program
from onnxgrad.core.passes.mixed_precision import precision_guard, to_mixed_precision
from onnxgrad.core.passes.precision_lists import AutoMixedPrecisionLists, Level, low_dtype
from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.internal.arguments import checked

__all__ = ["cast_model_to_fp16", "fp16_guard"]


def fp16_guard() -> AbstractContextManager[None]:
    """Mark what is built inside a ``with`` block as allowed in 16 bits; ``use_fp16_guard`` keeps all else in float32.

    Example:
        >>> x = static.data("x", [None, 4])
        >>> with static.amp.fp16_guard():
        ...     hidden = static.nn.fc(x, size=8)
        >>> loss = paddle.mean(static.nn.fc(hidden, size=2))
        >>> optimizer = static.amp.decorate(paddle.optimizer.SGD(0.1), use_pure_fp16=True)
        >>> operators, pairs = optimizer.minimize(loss)
        >>> hidden.dtype
        onnxgrad.float16
    """
    return precision_guard()


@checked
def cast_model_to_fp16(
    program: Program,
    amp_lists: AutoMixedPrecisionLists | None = None,
    use_fp16_guard: bool = True,
    dest_type: DTypeLike = "float16",
    level: Level = "O2",
    use_promote: bool = False,
) -> set[str]:
    """Rewrite a forward program in place; the weights stay in float32 and are cast where they are read.

    Args:
        program: a program without a backward pass.
        amp_lists: default ``AutoMixedPrecisionLists(dtype=dest_type)``.
        use_fp16_guard: only what was built inside ``fp16_guard``.
        dest_type: float16 or bfloat16.
        level: as in ``decorate``.
        use_promote: at O2, operators that read a float32 result compute in float32.

    Returns:
        Names of the parameters that are read in 16 bits.

    Raises:
        ArgumentError: if an argument makes no sense, or the program has a backward pass.
    """
    low = dtype_of(dest_type)
    to_mixed_precision(program, low_dtype(low.name), amp_lists, level, use_fp16_guard, use_promote)
    casts = [op for block in program.blocks for op in block.ops if op.type == "Cast" and op.attrs["to"] == low.number]
    return {v.name for op in casts for v in op.inputs if v is not None and v.is_parameter}
