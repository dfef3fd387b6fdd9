"""The functional forms of automatic differentiation, under the names that Paddle has here."""

from onnxgrad.autograd.functional import Hessian, Jacobian, jvp, vjp

__all__ = ["Hessian", "Jacobian", "jvp", "vjp"]
