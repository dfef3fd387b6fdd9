"""paddle.nn.initializer: the initial values of parameters."""

# Tests: tests/typing/test_names.py.

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.tensor.initializer import (
    Assign,
    Bilinear,
    Constant,
    Dirac,
    Initializer,
    KaimingNormal,
    KaimingUniform,
    Normal,
    NormOf,
    Orthogonal,
    TruncatedNormal,
    Uniform,
    XavierNormal,
    XavierUniform,
    calculate_gain,
    global_initializer,
    set_global_initializer,
)

__all__ = [
    "Assign", "Bilinear", "Constant", "Dirac", "Initializer", "KaimingNormal", "KaimingUniform", "NormOf", "Normal",
    "Orthogonal", "TruncatedNormal", "Uniform", "XavierNormal", "XavierUniform", "calculate_gain", "global_initializer",
    "set_global_initializer",
]  # fmt: skip


globals().update(absence_hooks(__name__))
