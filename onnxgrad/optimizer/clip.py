"""Gradient clipping: by value, by each tensor's norm, or by the norm of all of them together.

Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013.

Tests: tests/optimizer/test_optimizers.py.
"""

from __future__ import annotations

from typing import TypeAlias

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ArgumentError

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
        pairs = [(p, g) for p, g in params_grads if g is not None]
        if not pairs:
            return list(params_grads)
        clipped = dict(self.apply(pairs[0][1].block.build, pairs))
        return [(p, clipped.get(p, g)) for p, g in params_grads]

    def apply(self, op: Builder, pairs: Pairs) -> Pairs:
        return [(p, self.clip(op, g) if clips(p) else g) for p, g in pairs]

    def clip(self, op: Builder, g: Variable) -> Variable:
        raise NotImplementedError


class ClipGradByValue(GradientClip):
    """Each element limited to [min, max]; ``min`` is -max unless given."""

    def __init__(self, max: float, min: float | None = None) -> None:
        if min is None and not max > 0:
            raise ArgumentError(f"ClipGradByValue needs max > 0, not {max}.")
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def clip(self, op: Builder, g: Variable) -> Variable:
        return op.Clip(g, self.min, self.max)


class ClipGradByNorm(GradientClip):
    """Each gradient scaled down to norm ``clip_norm`` if it is longer: g * c / max(norm, c)."""

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = float(clip_norm)

    def clip(self, op: Builder, g: Variable) -> Variable:
        norm = op.Sqrt(op.ReduceSumSquare(g, keepdims=0))
        return op.Mul(g, op.Div(self.clip_norm, op.Max(norm, self.clip_norm)))


class ClipGradByGlobalNorm(GradientClip):
    """All gradients scaled by c / max(norm of all together, c). Parameters with ``need_clip=False`` stay out of it."""

    def __init__(self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False) -> None:
        self.clip_norm = float(clip_norm)

    def apply(self, op: Builder, pairs: Pairs) -> Pairs:
        squares = [op.Cast(op.ReduceSumSquare(g, keepdims=0), to=1) for p, g in pairs if clips(p)]
        if not squares:
            return pairs
        total = op.Sum(*squares) if len(squares) > 1 else squares[0]
        factor = op.Div(self.clip_norm, op.Max(op.Sqrt(total), self.clip_norm))
        return [(p, op.Mul(g, op.Cast(factor, to=g.dtype.number)) if clips(p) else g) for p, g in pairs]
