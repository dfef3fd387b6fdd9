"""Jacobians, Hessians and their products with vectors, of tensors as they are computed.

``incubate.autograd`` offers these too. Of a program's variables they are appended by ``core.autodiff.transforms``
(``onnxgrad.jvp``, ...), which also serves whole models in ``onnxgrad.func``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from onnxgrad.autograd.backward_mode import grad
from onnxgrad.core.ir.arithmetic import Index
from onnxgrad.eager.record import record
from onnxgrad.eager.tensor import Tensor, full_like, leaf
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal.arguments import checked

__all__ = ["Hessian", "Jacobian", "hessian", "jacobian", "jvp", "vjp"]


def __dir__() -> list[str]:
    return __all__


Function: TypeAlias = Callable[..., "Tensor | Sequence[Tensor]"]
_Outputs = TypeVar("_Outputs")


@overload
def jacobian(ys: Tensor, xs: Tensor, batch_axis: int | None = None) -> Tensor: ...
@overload
def jacobian(ys: Tensor, xs: Sequence[Tensor], batch_axis: int | None = None) -> tuple[Tensor, ...]: ...
@overload
def jacobian(ys: Sequence[Tensor], xs: Tensor, batch_axis: int | None = None) -> tuple[Tensor, ...]: ...
@overload
def jacobian(ys: Sequence[Tensor], xs: Sequence[Tensor], batch_axis: int | None = None) -> tuple[tuple[Tensor, ...], ...]: ...
@checked
def jacobian(ys: Tensor | Sequence[Tensor], xs: Tensor | Sequence[Tensor], batch_axis: int | None = None) -> Any:
    """The derivative of each element of ``ys`` by each element of ``xs``.

    Args:
        ys: tensors of rank 0 or 1, or with ``batch_axis`` rank 1 or 2, computed from ``xs``.
        xs: tensors likewise.
        batch_axis: None, or 0 if the first axis of all of them counts independent examples.

    Returns:
        A tensor of shape ``[*ys.shape, *xs.shape]`` (with the batch first and once). For a sequence of xs a tuple of them,
        for a sequence of ys a tuple of these.

    Raises:
        ArgumentError: if a rank or ``batch_axis`` does not fit.

    Example:
        >>> x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> paddle.autograd.jacobian(x * x, x).numpy()
        array([[2., 0.],
               [0., 4.]], dtype=float32)
    """
    if batch_axis not in (None, 0):
        raise ArgumentError(f"jacobian: batch_axis is None or 0, not {batch_axis!r}.")
    if isinstance(ys, (list, tuple)):
        return tuple(jacobian(y, xs, batch_axis) for y in ys)
    y: Any = ys
    sources = _listed(xs)
    lead = 0 if batch_axis is None else 1
    for item in (y, *sources):
        if not lead <= item.ndim <= lead + 1:
            raise ArgumentError(f"jacobian: a tensor of shape {item.shape} has the wrong rank. Flatten it first.")
    results = _rows(y, sources, lead)
    return tuple(results) if isinstance(xs, (list, tuple)) else results[0]


def _rows(y: Tensor, sources: list[Tensor], lead: int) -> list[Any]:
    """The Jacobian of ``y`` by each source: one backward pass for each index along its axis ``lead``, before which are examples"""
    if y.ndim == lead:
        return _pulled([y], sources)
    rows = []
    for unit in np.eye(y.shape[lead], dtype=y.dtype.numpy):
        rows.append(_pulled([y], sources, [leaf(np.broadcast_to(unit, y.dims).copy())]))
    return [_concat([record("Unsqueeze", (row[at], [lead]), {}) for row in rows], lead) for at in range(len(sources))]


def _pulled(targets: list[Tensor], sources: list[Tensor], seeds: list[Tensor] | None = None) -> list[Tensor]:
    """Gradients that can be differentiated themselves, and zeros where a source has none"""
    grads = grad(targets, sources, seeds, create_graph=True, allow_unused=True)
    return [g if g is not None else full_like(x, 0) for g, x in zip(grads, sources, strict=True)]


def _listed(items: Any) -> list[Any]:
    return list(items) if isinstance(items, (list, tuple)) else [items]


@overload
def hessian(ys: Tensor, xs: Tensor, batch_axis: int | None = None) -> Tensor: ...
@overload
def hessian(ys: Tensor, xs: Sequence[Tensor], batch_axis: int | None = None) -> tuple[tuple[Tensor, ...], ...]: ...
@checked
def hessian(ys: Tensor, xs: Tensor | Sequence[Tensor], batch_axis: int | None = None) -> Any:
    """The second derivatives of a scalar (one per example with ``batch_axis=0``).

    Args:
        ys: a tensor of one element, or of shape [batch] or [batch, 1].
        xs: one tensor or several, as for ``jacobian``.
        batch_axis: None or 0.

    Returns:
        A tensor of shape ``[n, n]`` (``[batch, n, n]``); for a sequence of xs a tuple of tuples of them.

    Raises:
        ArgumentError: if ``ys`` is not a scalar.

    Example:
        >>> x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> paddle.autograd.hessian(paddle.sum(x * x * x), x).numpy()
        array([[ 6.,  0.],
               [ 0., 12.]], dtype=float32)
    """
    size = ys.size if batch_axis is None else ys.size // max(ys.shape[0], 1)
    if size != 1:
        raise ArgumentError(f"hessian: ys has shape {ys.shape}; it must be one number (per example). Take its mean or sum.")
    y: Any = _reshape(ys, [] if batch_axis is None else [-1])
    first = jacobian(y, _listed(xs), batch_axis)
    second = jacobian(first, xs, batch_axis)
    return second if isinstance(xs, (list, tuple)) else second[0]


@overload
def vjp(func: Callable[..., _Outputs], xs: Tensor, v: Tensor | Sequence[Tensor] | None = None) -> tuple[_Outputs, Tensor]: ...
@overload
def vjp(
    func: Callable[..., _Outputs], xs: Sequence[Tensor], v: Tensor | Sequence[Tensor] | None = None
) -> tuple[_Outputs, tuple[Tensor, ...]]: ...
@checked
def vjp(
    func: Callable[..., _Outputs], xs: Tensor | Sequence[Tensor], v: Tensor | Sequence[Tensor] | None = None
) -> tuple[_Outputs, Any]:
    """``func(*xs)`` and the product of ``v`` with its Jacobian.

    Args:
        func: a function of tensors that returns a tensor or several.
        xs: where to evaluate it.
        v: one tensor per output, of its shape; ones by default.

    Returns:
        (outputs, one product per member of ``xs``).

    Example:
        >>> outputs, product = paddle.autograd.vjp(lambda x: x * x, paddle.to_tensor([1.0, 2.0]))
        >>> product.numpy()
        array([2., 4.], dtype=float32)
    """
    sources, outputs, targets = _applied(func, xs)
    results = _pulled(targets, sources, None if v is None else _listed(v))
    return outputs, tuple(results) if isinstance(xs, (list, tuple)) else results[0]


@checked
def jvp(
    func: Callable[..., _Outputs], xs: Tensor | Sequence[Tensor], v: Tensor | Sequence[Tensor] | None = None
) -> tuple[_Outputs, _Outputs]:
    """``func(*xs)`` and the product of its Jacobian with ``v``: the derivative along ``v``.

    The product of a vector with the Jacobian is linear in the vector; its own derivative is the other product.

    Args:
        func: a function of tensors that returns a tensor or several.
        xs: where to evaluate it.
        v: one tensor per member of ``xs``, of its shape; ones by default.

    Returns:
        (outputs, one product per output).

    Example:
        >>> outputs, product = paddle.autograd.jvp(lambda x: x * x, paddle.to_tensor([1.0, 2.0]))
        >>> product.numpy()
        array([2., 4.], dtype=float32)
    """
    sources, outputs, targets = _applied(func, xs)
    along = None if v is None else _listed(v)
    probes = [full_like(y, 1, stop_gradient=False) for y in targets]
    grads = grad(targets, sources, probes, create_graph=True, allow_unused=True)
    used = [at for at, g in enumerate(grads) if g is not None and not g.stop_gradient]
    pulled = [g for g in (grads[at] for at in used) if g is not None]
    weights = None if along is None else [along[at] for at in used]
    results = _pulled(pulled, probes, weights) if used else [full_like(y, 0) for y in targets]
    products: Any = type(outputs)(results) if isinstance(outputs, (list, tuple)) else results[0]
    return outputs, products


def _applied(func: Callable[..., _Outputs], xs: Tensor | Sequence[Tensor]) -> tuple[list[Tensor], _Outputs, list[Tensor]]:
    """Fresh copies of ``xs`` that gradients start from, and what the function makes of them."""
    inputs = _listed(xs)
    for x in inputs:
        if not isinstance(x, Tensor):
            raise ArgumentTypeError(f"xs holds {type(x).__name__}; every member must be a Tensor.")
    sources = [x.clone() if not x.stop_gradient else _opened(x) for x in inputs]
    outputs = func(*sources)
    return sources, outputs, _listed(outputs)


def _opened(x: Tensor) -> Tensor:
    copy = x.detach()
    copy.stop_gradient = False
    return copy


class Jacobian:
    """The Jacobian of a function as one matrix: all outputs and all inputs flattened and joined.

    Args:
        func: a function of tensors.
        xs: where to evaluate it.
        is_batched: keep the first axis, which counts independent examples.

    Example:
        >>> J = paddle.incubate.autograd.Jacobian(lambda x: x * x, paddle.to_tensor([1.0, 2.0]))
        >>> J[:, 0].numpy()
        array([2., 0.], dtype=float32)
    """

    @checked
    def __init__(self, func: Function, xs: Tensor | Sequence[Tensor], is_batched: bool = False) -> None:
        sources, _, targets = _applied(func, xs)
        self._matrix = _joined_jacobian(targets, sources, is_batched)

    @property
    def shape(self) -> list[int]:
        """``[outputs, inputs]``, with the batch first if there is one."""
        return list(self._matrix.shape)

    def __getitem__(self, item: Index) -> Tensor:
        return self._matrix[item]


class Hessian(Jacobian):
    """The Hessian of a function of one output, as one matrix.

    Args:
        func: a function of tensors that gives one number (per example).
        xs: where to evaluate it.
        is_batched: keep the first axis, which counts independent examples.

    Example:
        >>> H = paddle.incubate.autograd.Hessian(lambda x: paddle.sum(x * x), paddle.to_tensor([1.0, 2.0]))
        >>> H[:].numpy()
        array([[2., 0.],
               [0., 2.]], dtype=float32)
    """

    @checked
    def __init__(self, func: Function, xs: Tensor | Sequence[Tensor], is_batched: bool = False) -> None:
        sources, _, targets = _applied(func, xs)
        if len(targets) != 1 or targets[0].size != (sources[0].shape[0] if is_batched else 1):
            raise ArgumentError("Hessian: the function must return one number (per example). Take its mean or sum.")
        first = _pulled(targets[:1], sources)
        self._matrix = _joined_jacobian(first, sources, is_batched)


def _joined_jacobian(targets: list[Tensor], sources: list[Tensor], is_batched: bool) -> Tensor:
    axis = 1 if is_batched else 0
    flat = [_reshape(y, [*y.shape[:axis], -1]) for y in targets]
    joined: Any = flat[0] if len(flat) == 1 else _concat(flat, axis)
    columns = []
    for x in sources:
        rows = _rows(joined, [x], axis)[0]
        columns.append(_reshape(rows, [*joined.shape, int(np.prod(x.dims[axis:], dtype=np.int64))]))
    return columns[0] if len(columns) == 1 else _concat(columns, axis + 1)


def _reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    return record("Reshape", (x, np.array(shape, np.int64)), {})


def _concat(items: Sequence[Tensor], axis: int) -> Tensor:
    return record("Concat", tuple(items), {"axis": axis})
