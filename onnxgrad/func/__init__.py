"""Derivatives of a model as functions of numpy arrays.

``value_and_grad``, ``grad``, ``vjp``, ``jvp``, ``jacobian``, ``hessian``, ``hvp`` and ``per_example_gradients`` take a model and
return a ``NumpyFunction``: call it with a dict of arrays, or take its ``.model``, an ordinary ONNX model that stock onnxruntime
runs.
Under the same names at the top of the package stand the functions that append to a program (``onnxgrad.jvp``, ...).
"""

from onnxgrad.func.derived_functions import (
    NumpyFunction,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    per_example_gradients,
    value_and_grad,
    vjp,
)

__all__ = [
    "NumpyFunction", "grad", "hessian", "hvp", "jacobian", "jvp", "per_example_gradients", "value_and_grad", "vjp",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
