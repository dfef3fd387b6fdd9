"""Gradient clipping: by value, by each tensor's norm, or by the norm of all of them together.

Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from typing import TypeAlias

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import as_number, checked

__all__ = ["ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue", "GradientClip"]

Pairs: TypeAlias = "list[tuple[Variable, Variable]]"


def clips(p: Variable) -> bool:
    return bool(getattr(p, "need_clip", True)) if p.is_eager else not isinstance(p, Parameter) or p.need_clip


class GradientClip:
    """Base: ``apply`` returns the pairs with clipped gradients, and so does a call, for eager and static pairs.

    Example:
        >>> p = paddle.create_parameter([2], "float32")
        >>> ((_, g),) = paddle.nn.ClipGradByNorm(1.0)([(p, paddle.to_tensor([3.0, 4.0]))])
        >>> np.round(g.numpy(), 4).tolist()
        [0.6000000238418579, 0.800000011920929]
    """

    def __call__(self, params_grads: Pairs) -> Pairs:
        """Clip gradients; pairs without one stay as they are.

        Args:
            params_grads: (parameter, gradient) for each.
        """
        pairs = [(p, g) for p, g in params_grads if g is not None]
        if not pairs:
            return list(params_grads)
        clipped = dict(self.apply(pairs[0][1].block.build, pairs))
        return [(p, clipped.get(p, g)) for p, g in params_grads]

    def apply(self, op: Builder, pairs: Pairs) -> Pairs:
        """Append the clipping of gradients; gradients of parameters with ``need_clip=False`` stay as they are.

        Args:
            op: builder of operators.
            pairs: (parameter, gradient) for each.
        """
        return [(p, self.clip(op, g) if clips(p) else g) for p, g in pairs]

    def clip(self, op: Builder, g: Variable) -> Variable:
        """Append the clipping of one gradient.

        Args:
            op: builder of operators.
            g: the gradient, of any shape.
        """
        raise NotImplementedError


class ClipGradByValue(GradientClip):
    """Limit each element to [min, max].

    Args:
        max: the upper limit, above 0 where ``min`` is not given.
        min: the lower limit; None for -max.

    Raises:
        ArgumentTypeError: if a limit is not a number.
        ArgumentError: if ``max`` is not above 0 and there is no ``min``.

    Example:
        >>> p = paddle.create_parameter([2], "float32")
        >>> ((_, g),) = paddle.nn.ClipGradByValue(1.0)([(p, paddle.to_tensor([0.5, -4.0]))])
        >>> g.tolist()
        [0.5, -1.0]
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = as_number(self, "max", max)
        self.min = -self.max if min is None else as_number(self, "min", min)
        if min is None and not self.max > 0:
            raise ArgumentError(f"ClipGradByValue needs max > 0, not {max}.")

    def __str__(self) -> str:
        return f"Clip Gradient By Value, min = {self.min:f}, max={self.max:f}"

    def clip(self, op: Builder, g: Variable) -> Variable:
        return op.Clip(g, self.min, self.max)


class ClipGradByNorm(GradientClip):
    """Scale each gradient down to norm c if it is longer: g * c / max(norm, c).

    Args:
        clip_norm: the norm c, at least 0.

    Raises:
        ArgumentTypeError: if it is not a number.
        ArgumentError: if it is below 0.

    Example:
        >>> p = paddle.create_parameter([2], "float32")
        >>> ((_, g),) = paddle.nn.ClipGradByNorm(2.5)([(p, paddle.to_tensor([3.0, 4.0]))])
        >>> g.tolist()
        [1.5, 2.0]
    """

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = as_number(self, "clip_norm", clip_norm, least=0)

    def __str__(self) -> str:
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"

    def clip(self, op: Builder, g: Variable) -> Variable:
        norm = op.Sqrt(op.ReduceSumSquare(g, keepdims=0))
        return op.Mul(g, op.Div(self.clip_norm, op.Max(norm, self.clip_norm)))


class ClipGradByGlobalNorm(GradientClip):
    """Scale all gradients by c / max(norm of all together, c). Parameters with ``need_clip=False`` stay out of it.

    Args:
        clip_norm: the norm c, at least 0.
        group_name, auto_skip_clip: accepted for compatibility.

    Raises:
        ArgumentTypeError: if ``clip_norm`` is not a number.
        ArgumentError: if it is below 0.

    Example:
        >>> p, q = paddle.create_parameter([1], "float32"), paddle.create_parameter([1], "float32")
        >>> pairs = [(p, paddle.to_tensor([3.0])), (q, paddle.to_tensor([4.0]))]
        >>> [g.tolist() for _, g in paddle.nn.ClipGradByGlobalNorm(2.5)(pairs)]
        [[1.5], [2.0]]
    """

    @checked
    def __init__(self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False) -> None:
        self.clip_norm = as_number(self, "clip_norm", clip_norm, least=0)

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"

    def apply(self, op: Builder, pairs: Pairs) -> Pairs:
        squares = [op.Cast(op.ReduceSumSquare(g, keepdims=0), to=1) for p, g in pairs if clips(p)]
        if not squares:
            return pairs
        total = op.Sum(*squares) if len(squares) > 1 else squares[0]
        factor = op.Div(self.clip_norm, op.Max(op.Sqrt(total), self.clip_norm))
        return [(p, op.Mul(g, op.Cast(factor, to=g.dtype.number)) if clips(p) else g) for p, g in pairs]
