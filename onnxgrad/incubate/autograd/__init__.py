"""The functional forms of automatic differentiation, under the names that Paddle has here."""

from onnxgrad.autograd.functional import Hessian, Jacobian, jvp, vjp

__all__ = ["Hessian", "Jacobian", "jvp", "vjp"]


def __dir__() -> list[str]:
    return __all__
