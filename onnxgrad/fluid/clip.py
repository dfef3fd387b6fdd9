"""fluid.clip: gradient clipping."""

# Tests: tests/fluid/test_fluid.py.

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.optimizer.clip import (
    ClipGradByGlobalNorm as GradientClipByGlobalNorm,
    ClipGradByNorm as GradientClipByNorm,
    ClipGradByValue as GradientClipByValue,
)

__all__ = ["GradientClipByGlobalNorm", "GradientClipByNorm", "GradientClipByValue"]


globals().update(absence_hooks(__name__))
