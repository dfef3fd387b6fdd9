"""fluid.initializer: initial values, under the names of Paddle 1.

Tests: tests/fluid/test_fluid.py.
"""

from onnxgrad.fluid.renamed import renamed
from onnxgrad.tensor import initializer
from onnxgrad.tensor.initializer import Assign, Bilinear, Constant, Initializer, set_global_initializer

__all__ = ["MSRA", "Bilinear", "BilinearInitializer", "Constant", "ConstantInitializer", "MSRAInitializer", "Normal"]
__all__ += ["NormalInitializer", "NumpyArrayInitializer", "TruncatedNormal", "TruncatedNormalInitializer", "Uniform"]
__all__ += ["UniformInitializer", "Xavier", "XavierInitializer", "set_global_initializer"]


def __dir__() -> list[str]:
    return __all__


BilinearInitializer, ConstantInitializer, NumpyArrayInitializer = Bilinear, Constant, Assign
Normal = NormalInitializer = renamed("Normal(loc=0.0, scale=1.0, seed=0)", initializer.Normal, mean="loc", std="scale")
TruncatedNormal = TruncatedNormalInitializer = renamed(
    "TruncatedNormal(loc=0.0, scale=1.0, seed=0)", initializer.TruncatedNormal, mean="loc", std="scale"
)
Uniform = UniformInitializer = renamed("Uniform(low=-1.0, high=1.0, seed=0)", initializer.Uniform)


def Xavier(  # noqa: N802
    uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
) -> Initializer:
    """XavierUniform, or XavierNormal."""
    return (initializer.XavierUniform if uniform else initializer.XavierNormal)(fan_in, fan_out)


def MSRA(uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> Initializer:  # noqa: N802
    """KaimingUniform, or KaimingNormal."""
    return (initializer.KaimingUniform if uniform else initializer.KaimingNormal)(fan_in)


XavierInitializer, MSRAInitializer = Xavier, MSRA
