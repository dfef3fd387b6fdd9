"""paddle.regularizer: penalties on parameters."""

# Tests: tests/typing/test_names.py.

from onnxgrad.optimizer.regularizer import L1Decay, L2Decay, WeightDecay

__all__ = ["L1Decay", "L2Decay", "WeightDecay"]


def __dir__() -> list[str]:
    return __all__
