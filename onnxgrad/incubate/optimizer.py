"""paddle.incubate.optimizer.

Tests: tests/test_incubate.py.
"""

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.optimizer import LBFGS

__all__ = ["LBFGS"]


def __dir__() -> list[str]:
    return __all__


globals().update(absence_hooks(__name__))
