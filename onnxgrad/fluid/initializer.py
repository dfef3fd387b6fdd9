"""fluid.initializer: initial values, under the names of Paddle 1."""

from __future__ import annotations

from onnxgrad.tensor.initializer import (
    Assign,
    Bilinear,
    Constant,
    Initializer,
    KaimingNormal,
    KaimingUniform,
    Normal as _Normal,
    TruncatedNormal as _TruncatedNormal,
    Uniform as _Uniform,
    XavierNormal,
    XavierUniform,
    set_global_initializer,
)

__all__ = [
    "MSRA",
    "Bilinear",
    "BilinearInitializer",
    "Constant",
    "ConstantInitializer",
    "MSRAInitializer",
    "Normal",
    "NormalInitializer",
    "NumpyArrayInitializer",
    "TruncatedNormal",
    "TruncatedNormalInitializer",
    "Uniform",
    "UniformInitializer",
    "Xavier",
    "XavierInitializer",
    "set_global_initializer",
]


class Normal(_Normal):
    """Normal with mean ``loc`` and standard deviation ``scale``."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(loc, scale)


class TruncatedNormal(_TruncatedNormal):
    """Normal, sampled again outside two standard deviations."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(loc, scale)


class Uniform(_Uniform):
    """Uniform on [low, high)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, seed: int = 0) -> None:
        super().__init__(low, high)


def Xavier(  # noqa: N802
    uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
) -> Initializer:
    """XavierUniform, or XavierNormal."""
    return (XavierUniform if uniform else XavierNormal)(fan_in, fan_out)


def MSRA(uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> Initializer:  # noqa: N802
    """KaimingUniform, or KaimingNormal."""
    return (KaimingUniform if uniform else KaimingNormal)(fan_in)


BilinearInitializer, ConstantInitializer, NumpyArrayInitializer = Bilinear, Constant, Assign
NormalInitializer, TruncatedNormalInitializer, UniformInitializer = Normal, TruncatedNormal, Uniform
XavierInitializer, MSRAInitializer = Xavier, MSRA
