"""The functional forms of automatic differentiation, under the names that Paddle has here.

Tests: tests/test_incubate.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnxgrad.autograd.functional import Hessian, Jacobian, jvp, vjp
from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.autodiff.transforms import jvp as static_jvp
from onnxgrad.core.ir.variable import Variable
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.tensor.creation import ones_like

__all__ = ["Hessian", "Jacobian", "disable_prim", "enable_prim", "forward_grad", "grad", "jvp", "vjp"]


@checked
def forward_grad(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    grad_inputs: Variable | Sequence[Variable] | None = None,
) -> Variable | list[Variable]:
    """How the outputs of a static program change when its inputs move.

    Args:
        outputs: one variable or several.
        inputs: one variable or several.
        grad_inputs: the direction of each input, of its shape; ones unless given.

    Returns:
        A derivative for each output, of its shape; one alone for one output.

    Example:
        >>> x = static.data("x", [None, 3])
        >>> paddle.incubate.autograd.forward_grad(x * x, x).shape
        (-1, 3)
    """
    sources = [inputs] if isinstance(inputs, Variable) else list(inputs)
    directions = [ones_like(x) for x in sources] if grad_inputs is None else grad_inputs
    derivatives = static_jvp(outputs, sources, directions)
    return derivatives[0] if isinstance(outputs, Variable) else derivatives


@checked
def grad(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    grad_outputs: Variable | Sequence[Variable] | None = None,
) -> Variable | list[Variable | None] | None:
    """Gradients of a static program, as ``static.gradients`` appends them.

    Args:
        outputs: one variable or several; several are added up.
        inputs: one variable or several.
        grad_outputs: the cotangent of each output, of its shape; ones unless given.

    Returns:
        A gradient for each input; one alone for one input.
    """
    grads = gradients(outputs, inputs, grad_outputs)
    return grads[0] if isinstance(inputs, Variable) else grads


def enable_prim() -> None:
    """Nothing: every operator has a rule, and gradients of gradients need no other operators."""


def disable_prim() -> None:
    """Nothing: every operator has a rule, and gradients of gradients need no other operators."""


globals().update(absence_hooks(__name__))
