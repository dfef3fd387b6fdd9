import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples


@samples("Add", "Sub", "Mul")
def arithmetic(draw):
    yield Sample(draw.real(2, 3), draw.real(2, 3))
    yield Sample(draw.real(2, 3, 4), draw.real(3, 1))
    yield Sample(draw.real(1, 3), draw.real(2, 1))
    yield Sample(draw.real(3), draw.real())
    yield Sample(draw.real(2, 0), draw.real(1, 1))


@samples("Div")
def division(draw):
    yield Sample(draw.real(2, 3), draw.positive(2, 3))
    yield Sample(draw.real(3), -draw.positive(2, 1))


@samples("Pow")
def power(draw):
    yield Sample(draw.positive(2, 3), draw.real(2, 3))
    yield Sample(draw.positive(2, 3), draw.real(1))
    for exponent in (0.0, 1.0, 2.0, 3.0, -1.5):
        yield Sample(draw.positive(4), Sample.fixed(np.array(exponent)))
    yield Sample(draw.real(4), np.array(3, np.int64))
    yield Sample(np.array([-1.5, 0.0, 2.0]), Sample.fixed(np.array([2.0, 2.0, 0.0])))


@samples(
    "Neg",
    "Exp",
    "Sin",
    "Cos",
    "Tanh",
    "Sigmoid",
    "Softplus",
    "Erf",
    "Identity",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Mish",
    "Softsign",
)
def smooth(draw):
    yield Sample(draw.real(2, 3))
    yield Sample(draw.real())
    yield Sample(draw.real(3, 0))


@samples("Abs", "Relu", "LeakyRelu", "Elu", "Selu", "HardSwish")
def kink_at_zero(draw):
    yield Sample(draw.real(3, 4, apart=0.05))


@samples("LeakyRelu", "Elu")
def with_alpha(draw):
    yield Sample(draw.real(3, 4, apart=0.05), alpha=0.3)


@samples("Relu", "Abs")
def at_zero(draw):
    yield Sample(draw.real(2, 0))


@samples("Log", "Sqrt", "Reciprocal")
def positive(draw):
    yield Sample(draw.positive(2, 3))
    yield Sample(draw.positive())


@samples("Tan", "Asin", "Acos", "Atanh")
def inside_one(draw):
    yield Sample(draw.real(2, 3, spread=0.8))


@samples("Acosh")
def above_one(draw):
    yield Sample(draw.positive(2, 3) + 1.0)


@samples("HardSigmoid")
def hard_sigmoid(draw):
    yield Sample(draw.real(3, 4, low=-4, high=4, apart=0.11))
    yield Sample(draw.real(3, 4, low=-4, high=4, apart=0.11), alpha=0.3, beta=0.4)


@samples("Celu")
def celu(draw):
    yield Sample(draw.real(3, 4, apart=0.05), alpha=0.7, opset=28, runs=False)


@samples("ThresholdedRelu")
def thresholded_relu(draw):
    yield Sample(draw.real(3, 4, apart=0.05) + 0.01, alpha=0.5)


@samples("Shrink")
def shrink(draw):
    yield Sample(draw.real(3, 4, apart=0.05) + 0.01, lambd=0.6, bias=0.2)


@samples("PRelu")
def prelu(draw):
    yield Sample(draw.real(2, 3, 4, apart=0.05), draw.real(3, 1))
    yield Sample(draw.real(2, 3, apart=0.05), draw.real(1))


@samples("Gelu")
def gelu(draw):
    yield Sample(draw.real(2, 3))
    yield Sample(draw.real(2, 3), approximate="tanh")


@samples("Swish")
def swish(draw):
    yield Sample(draw.real(2, 3), opset=24, alpha=1.3)


@samples("Max", "Min")
def extremes(draw):
    yield Sample(draw.real(2, 3, apart=0.1), draw.real(2, 3, apart=0.13) + 0.03)
    yield Sample(draw.real(2, 3, apart=0.1), draw.real(3, apart=0.13) + 0.03, draw.real(2, 1, apart=0.17) + 0.07)
    yield Sample(draw.real(4))


@samples("Sum", "Mean")
def sums(draw):
    yield Sample(draw.real(2, 3), draw.real(3), draw.real(1, 1))
    yield Sample(draw.real(2, 3))


@samples("Mod")
def remainder(draw):
    yield Sample(draw.real(5, apart=0.3) + 0.1, np.array([0.7, -0.9, 1.1, 2.0, -3.0]), fmod=1)


@samples("Where")
def where(draw):
    yield Sample(np.array([[True], [False]]), draw.real(2, 3), draw.real(3))
    yield Sample(np.array([True, False, True]), draw.real(3), draw.real())


@samples("Clip")
def clip(draw):
    yield Sample(draw.real(3, 4, apart=0.05))
    yield Sample(draw.real(3, 4, apart=0.05), np.array(-0.52), np.array(0.77))
    yield Sample(draw.real(3, 4, apart=0.05), None, np.array(0.77))
    yield Sample(draw.real(3, 4, apart=0.05), np.array(-0.52))
    yield Sample(draw.real(3, apart=0.05), np.array(0.9), np.array(-0.3))


@samples("Cast")
def cast(draw):
    yield Sample(draw.real(2, 3), build=lambda op, x: op.Cast(op.Cast(x, to=1), to=11), tolerance=1e-1, second=False)


@samples("CastLike")
def cast_like(draw):
    yield Sample(draw.real(2, 3), Sample.fixed(np.zeros(1)))


@samples("Dropout")
def dropout(draw):
    yield Sample(draw.real(2, 3))
    yield Sample(draw.real(2, 3), Sample.fixed(np.array(0.4)), np.array(False))


@samples("Softmax", "LogSoftmax")
def softmax(draw):
    for axis in (-1, 0, 1):
        yield Sample(draw.real(2, 3, 4), axis=axis)
    yield Sample(draw.real(5, spread=30.0))


@samples("Mod")
def floored_mod(draw):
    """onnxruntime does not load opset 28"""
    yield Sample(np.array([5.3, -5.3, 4.1, -0.7]), np.array([2.0, 3.0, -1.5, -2.0]), opset=28, runs=False)
