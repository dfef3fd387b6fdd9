"""A scale of the loss for files in float16, whose gradients would vanish.

It halves when they overflow, and grows when they have not for long. A step that overflows changes nothing but the scale.

Tests: tests/training/test_float16.py.
"""

from __future__ import annotations

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.optimizer.optimizer import Optimizer, Pairs
from onnxgrad.optimizer.scaling import LossScaler, ScalePolicy

__all__ = ["LossScale"]

_START = 2.0**15  # the largest that float16 itself holds
_POLICY = ScalePolicy(2000, 1, 2.0, 0.5)


class LossScale:
    """The scale of one program, as operators of its step; nothing where it is not needed.

    Args:
        program: what is trained.
        optimizer: what updates it.
        start: the first scale; None for 32768 where a weight is float16, 0 for none.
        parts: runs whose gradients are added up.

    Attributes:
        scale: the state variable that holds it, [1]; None where there is none.
        remarks: a line that says so, if the loss is scaled without having been asked for.

    Raises:
        ArgumentError: if the start is negative.
    """

    def __init__(self, program: Program, optimizer: Optimizer, start: float | None, parts: int = 1) -> None:
        if start is not None and start < 0:
            raise ArgumentError(f"the loss scale begins with a positive number, or 0 for none; not {start}.")
        half = any(p.dtype.name == "float16" for p in program.parameters)
        self.start = start if start is not None else _START if half else 0.0
        self.remarks: list[str] = []
        if self.start and start is None:
            self.remarks.append(
                f"the file is in float16: weights that train have float32 copies, and the loss is scaled, by {_START:g} at first."
            )
        self.program, self.optimizer = program, optimizer
        self._scaler = LossScaler(optimizer, self.start, _POLICY, parts=parts)
        self.scale: Variable | None = None

    def of(self, loss: Variable) -> Variable:
        """The loss, or a term of it, times the scale, in float32."""
        if not self.start:
            return loss
        if self.scale is None:
            self.scale = self._scaler.begin(self.program)
        return self._scaler.scaled(loss)

    def apply(self, pairs: Pairs) -> None:
        """Append the update from gradients of the scaled loss."""
        if self.scale is None:
            self.optimizer.apply_gradients(pairs)
        else:
            self._scaler.apply(pairs)

    def finite(self, pairs: Pairs) -> Pairs:
        """Gradients of the loss itself, to be added up over micro-batches: those of one that overflows are 0."""
        return pairs if self.scale is None else self._scaler.finite(pairs)

    @property
    def overflows(self) -> Variable | None:
        """Whether a gradient of this run is not finite; None where the loss is not scaled, or before ``finite``."""
        return self._scaler.found_inf
