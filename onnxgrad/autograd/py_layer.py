"""PyLayer: an operator whose forward and backward are Python functions.

Tests: tests/eager/test_backward.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar

from onnxgrad.eager.evaluate import evaluate
from onnxgrad.eager.node import Call, Signature, TapeNode
from onnxgrad.eager.record import wrap
from onnxgrad.eager.tape import PYTHON
from onnxgrad.eager.tensor import Tensor, full_like
from onnxgrad.errors import ArgumentError
from onnxgrad.internal import state

__all__ = ["PyLayer", "PyLayerContext", "saved_tensors_hooks"]


class saved_tensors_hooks:  # noqa: N801
    """Change how ``PyLayerContext.save_for_backward`` keeps tensors, inside a ``with`` block.

    Operators themselves save nothing: what their gradients need is recomputed, or kept where somebody holds it.

    Args:
        pack_hook: called with each tensor that is saved; what it returns is kept.
        unpack_hook: called with that in the backward pass; returns the tensor.
    """

    active: ClassVar[list[saved_tensors_hooks]] = []

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        self.active.append(self)

    def __exit__(self, *error: Any) -> None:
        self.active.remove(self)


class PyLayerContext:
    """Carry values from the forward function of a PyLayer to its backward function. Other attributes may be set freely."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._unpack: Callable[[Any], Tensor] | None = None
        self._fixed: list[Tensor] = []
        self._apart: list[Tensor] = []
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors for ``saved_tensor``; once per forward.

        Args:
            tensors: of any shapes.
        """
        hooks = saved_tensors_hooks.active[-1] if saved_tensors_hooks.active else None
        if hooks is None:
            self._saved = tensors
        else:
            self._saved = tuple(hooks.pack_hook(item) for item in tensors)
            self._unpack = hooks.unpack_hook

    def saved_tensor(self) -> tuple[Tensor, ...]:
        """The tensors that ``save_for_backward`` kept."""
        return self._saved if self._unpack is None else tuple(self._unpack(item) for item in self._saved)

    def mark_not_inplace(self, *tensors: Tensor) -> None:
        """Let the result be another tensor where the forward function returns one of these as it is.

        Without the mark, a tensor that it was given and returns counts as changed in place.

        Args:
            tensors: what the forward function was given.
        """
        self._apart.extend(tensors)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Let gradients stop at these outputs.

        Args:
            tensors: outputs of the forward function.
        """
        self._fixed.extend(tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether the backward function gets zeros, rather than None, for outputs that received no gradient.

        Args:
            value: True for zeros.
        """
        self.materialize_grads = bool(value)


P = ParamSpec("P")
Result = TypeVar("Result", covariant=True)


class _HasForward(Protocol[P, Result]):
    """A PyLayer, as a checker sees it."""

    @property
    def forward(self) -> Callable[Concatenate[PyLayerContext, P], Result]: ...


class _Applied:
    """``apply`` of a PyLayer, as a checker sees it: what ``forward`` is, without the context."""

    def __get__(self, instance: object, owner: type[_HasForward[P, Result]]) -> Callable[P, Result]:
        raise NotImplementedError("only checkers read this")


class PyLayer:
    """Base of operators whose gradient is written in Python.

    Derive from it, write ``forward(ctx, ...)`` and ``backward(ctx, *gradients of the outputs)`` as static methods, and use
    it with ``apply``. ``backward`` returns one gradient per tensor that ``forward`` took, None for a gradient of zero.

    Example:
        >>> class Cube(paddle.autograd.PyLayer):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...     @staticmethod
        ...     def backward(ctx, gradient):
        ...         (x,) = ctx.saved_tensor()
        ...         return gradient * x * x * 3.0
        >>> x = paddle.to_tensor([2.0], stop_gradient=False)
        >>> Cube.apply(x).backward()
        >>> x.grad.numpy()
        array([12.], dtype=float32)
    """

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: a tensor, or a tuple that holds at least one.

        Args:
            ctx: carries what ``backward`` needs.
            args: the arguments of ``apply``.
            kwargs: those that it was given by name.
        """
        raise NotImplementedError("a PyLayer needs a static method forward(ctx, ...).")

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """Compute the gradients of the tensors that ``forward`` took from those of its outputs.

        Args:
            ctx: what ``forward`` had.
            args: one gradient for each tensor that ``forward`` returned.
            kwargs: none.
        """
        raise NotImplementedError("a PyLayer needs a static method backward(ctx, *gradients).")

    if TYPE_CHECKING:
        apply = _Applied()
        """Run ``forward`` and record it for backward passes; takes and gives what ``forward`` does, but for the context."""
    else:

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any:
            """Run ``forward`` and record it for backward passes.

            Args:
                args: the arguments of ``forward``, without the context.
                kwargs: likewise, by name.

            Raises:
                ArgumentError: if ``forward`` returns no tensor.
                InPlaceOnLeaf: if it returns a leaf that it was given, and that is not marked as not in place.
            """
            return _applied(cls, args, kwargs)


def _applied(cls: type[PyLayer], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ctx = PyLayerContext()
    with state.guard(gradients=False):
        returned = cls.forward(ctx, *args, **kwargs)
    outputs = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    tensors = [item for item in outputs if isinstance(item, Tensor)]
    if not tensors:
        raise ArgumentError(f"{cls.__name__}.forward returns no Tensor, but {type(returned).__name__}.")
    taken = [item for item in [*args, *kwargs.values()] if isinstance(item, Tensor)]
    if state.current.gradients and any(not item.stop_gradient for item in taken):
        call = _recorded(cls, ctx, taken, tensors)
        nodes = [TapeNode(item._node.kind, item._node.array, call, at, _is_in(ctx._fixed, item)) for at, item in enumerate(tensors)]
        results = [wrap(node) for node in nodes]
        kept = [_is_in(taken, item) and not _is_in(ctx._apart, item) for item in tensors]
        replaced = iter([old.become(new) if same else new for old, new, same in zip(tensors, results, kept, strict=True)])
        outputs = [next(replaced) if isinstance(item, Tensor) else item for item in outputs]
    return type(returned)(outputs) if isinstance(returned, (list, tuple)) else outputs[0]


def _is_in(tensors: list[Tensor], tensor: Tensor) -> bool:
    return any(tensor is one for one in tensors)


def _recorded(cls: type[PyLayer], ctx: PyLayerContext, taken: list[Tensor], tensors: list[Tensor]) -> Call:
    evaluate([item._node for item in tensors])
    kinds = [item._node.kind for item in tensors]

    def backward(call: Call, arrived: dict[int, Tensor]) -> list[tuple[TapeNode, Tensor | None]]:
        gradients = [arrived.get(at) for at in range(len(kinds))]
        if ctx.materialize_grads:
            gradients = [g if g is not None else full_like(kind.type, 0) for g, kind in zip(gradients, kinds, strict=True)]
        returned = cls.backward(ctx, *gradients)
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if len(results) != len(call.inputs):
            raise ArgumentError(f"{cls.__name__}.backward returns {len(results)} gradients for {len(call.inputs)} tensors.")
        return [(node, g if g is None else _checked(cls, node, g)) for node, g in zip(call.inputs, results, strict=True) if node]

    signature = Signature(PYTHON, "", {"backward": backward, "name": cls.__name__}, tuple(kinds))
    return Call(signature, tuple([item._node for item in taken]))


def _checked(cls: type[PyLayer], node: TapeNode, gradient: Any) -> Tensor:
    if not isinstance(gradient, Tensor):
        raise ArgumentError(f"{cls.__name__}.backward returns {type(gradient).__name__}; a gradient is a Tensor or None.")
    taken: Any = node.kind.type
    if gradient.dims != taken.dims and not node.stop:
        raise ArgumentError(
            f"{cls.__name__}.backward returns a gradient of shape {gradient.shape} for a tensor of shape {list(taken.dims)}."
        )
    return gradient if gradient.dtype == taken.dtype or node.stop else gradient.astype(taken.dtype)
