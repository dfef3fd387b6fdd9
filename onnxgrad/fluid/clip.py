"""fluid.clip: gradient clipping."""

# Tests: tests/fluid/test_fluid.py.

from onnxgrad.internal.refusals import absence_hooks, refused
from onnxgrad.optimizer.clip import (
    ClipGradByGlobalNorm as GradientClipByGlobalNorm,
    ClipGradByNorm as GradientClipByNorm,
    ClipGradByValue as GradientClipByValue,
)

__all__ = ["ErrorClipByValue", "GradientClipByGlobalNorm", "GradientClipByNorm", "GradientClipByValue", "set_gradient_clip"]


def __dir__() -> list[str]:
    return __all__


set_gradient_clip = refused("fluid.clip.set_gradient_clip", "Paddle withdrew it", "Pass grad_clip to the optimizer.")
ErrorClipByValue = refused(
    "fluid.clip.ErrorClipByValue", "the backward pass is standard operators", "Pass grad_clip to the optimizer."
)


globals().update(absence_hooks(__name__))
