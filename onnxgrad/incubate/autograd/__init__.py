"""The functional forms of automatic differentiation, at the place where Paddle has them."""

from onnxgrad.autograd.functional import Hessian, Jacobian, jvp, vjp

__all__ = ["Hessian", "Jacobian", "jvp", "vjp"]
