"""fluid.initializer: initial values, under the names of Paddle 1.

Tests: tests/fluid/test_fluid.py.
"""

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.tensor import initializer
from onnxgrad.tensor.initializer import Assign, Bilinear, Constant, Initializer, set_global_initializer

__all__ = [
    "MSRA", "Bilinear", "BilinearInitializer", "Constant", "ConstantInitializer", "MSRAInitializer", "Normal", "NormalInitializer",
    "NumpyArrayInitializer", "TruncatedNormal", "TruncatedNormalInitializer", "Uniform", "UniformInitializer", "Xavier",
    "XavierInitializer", "set_global_initializer",
]  # fmt: skip


class Normal(initializer.Normal):
    """Draw from a normal distribution. The seed is that of the program.

    Args:
        loc: the mean.
        scale: the standard deviation.
        seed: accepted for compatibility.
    """

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(loc, scale)


class TruncatedNormal(initializer.TruncatedNormal):
    """Draw from a normal distribution cut off two ``scale`` around ``loc``. The seed is that of the program.

    Args:
        loc: the mean.
        scale: the standard deviation before the cut.
        seed: accepted for compatibility.
    """

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(loc, scale)


class Uniform(initializer.Uniform):
    """Draw from the uniform distribution on [low, high). The seed is that of the program.

    Args:
        low: the lower limit.
        high: the upper limit.
        seed: accepted for compatibility.
    """

    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0) -> None:
        super().__init__(low, high)


def Xavier(  # noqa: N802
    uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
) -> Initializer:
    """XavierUniform, or XavierNormal.

    Args:
        uniform: whether it is the uniform one.
        fan_in: inputs of a unit; those of the shape unless given.
        fan_out: outputs of a unit; those of the shape unless given.
        seed: accepted for compatibility.
    """
    return (initializer.XavierUniform if uniform else initializer.XavierNormal)(fan_in, fan_out)


def MSRA(uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> Initializer:  # noqa: N802
    """KaimingUniform, or KaimingNormal.

    Args:
        uniform: whether it is the uniform one.
        fan_in: inputs of a unit; those of the shape unless given.
        seed: accepted for compatibility.
    """
    return (initializer.KaimingUniform if uniform else initializer.KaimingNormal)(fan_in)


BilinearInitializer, ConstantInitializer, NumpyArrayInitializer = Bilinear, Constant, Assign
NormalInitializer, TruncatedNormalInitializer, UniformInitializer = Normal, TruncatedNormal, Uniform
XavierInitializer, MSRAInitializer = Xavier, MSRA


globals().update(absence_hooks(__name__))
