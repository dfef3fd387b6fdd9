"""Weights written another way, gradients clipped by hand, and parameters as one vector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.tensor import Tensor, leaf
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.nn.layer import Layer
from onnxgrad.nn.weighted import SpectralNorm
from onnxgrad.tensor.joining import concat

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "remove_weight_norm", "spectral_norm",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip


AnyLayer = TypeVar("AnyLayer", bound=Layer)


@checked
def weight_norm(layer: AnyLayer, name: str = "weight", dim: int | None = 0) -> AnyLayer:
    """Write a layer's weight as g * v / |v|, with parameters ``<name>_g`` and ``<name>_v``. Salimans and Kingma 2016.

    Args:
        layer: the layer, which is changed.
        name: the parameter.
        dim: the axis along which g has one entry each; None (or -1) for one number.

    Returns:
        The layer.

    Raises:
        ArgumentError: if the layer has no such parameter, or it is written so already, or has no such axis.

    Example:
        >>> layer = paddle.nn.utils.weight_norm(paddle.nn.Linear(2, 3))
        >>> [name for name, _ in layer.named_parameters()]
        ['bias', 'weight_v', 'weight_g']
    """
    if hasattr(layer, f"{name}_v"):
        raise ArgumentError(f"weight_norm: {name!r} has one already. Call remove_weight_norm first.")
    weight = layer._parameters.get(name)
    if weight is None:
        raise ArgumentError(f"weight_norm: the layer has no parameter {name!r}.")
    if dim is not None and not -weight.ndim <= dim < weight.ndim:
        raise ArgumentError(f"weight_norm: axis {dim} is outside the {weight.ndim} axes of {name!r}.")
    kept = None if dim is None or dim == -1 else dim % weight.ndim
    axes = [axis for axis in range(weight.ndim) if axis != kept]
    sizes = [1 if axis in axes else size for axis, size in enumerate(weight.shape)]
    length = np.sqrt(np.sum(np.square(weight.numpy()), tuple(axes)))
    del layer._parameters[name]
    layer.add_parameter(f"{name}_v", EagerParameter(weight.numpy(), name=f"{weight.name}_v"))
    layer.add_parameter(f"{name}_g", EagerParameter(length.reshape([] if kept is None else [-1]), name=f"{weight.name}_g"))

    def compute(layer: Any, inputs: Any = None) -> None:
        g, v = getattr(layer, f"{name}_g"), getattr(layer, f"{name}_v")
        object.__setattr__(layer, name, v * (g.reshape(sizes) / (v * v).sum(axis=axes, keepdim=True).sqrt()))

    compute(layer)
    layer.__dict__.setdefault("_written", {})[name] = layer.register_forward_pre_hook(compute)
    return layer


@checked
def remove_weight_norm(layer: AnyLayer, name: str = "weight") -> AnyLayer:
    """Turn a weight that ``weight_norm`` wrote as a product into a parameter again.

    Args:
        layer: the layer, which is changed.
        name: the parameter.

    Returns:
        The layer.

    Raises:
        ArgumentError: if ``weight_norm`` has not written the parameter.

    Example:
        >>> layer = paddle.nn.utils.remove_weight_norm(paddle.nn.utils.weight_norm(paddle.nn.Linear(2, 3)))
        >>> [name for name, _ in layer.named_parameters()]
        ['bias', 'weight']
    """
    hook = layer.__dict__.get("_written", {}).pop(name, None)
    if hook is None:
        raise ArgumentError(f"remove_weight_norm: {name!r} has none.")
    hook.remove()
    value = getattr(layer, name).numpy()
    v = layer._parameters.pop(f"{name}_v")
    assert v is not None
    del layer._parameters[f"{name}_g"]
    object.__delattr__(layer, name)
    layer.add_parameter(name, EagerParameter(value, name=v.name.removesuffix("_v")))
    return layer


@checked
def spectral_norm(
    layer: AnyLayer, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> AnyLayer:
    """Divide a layer's weight by its largest singular value before each call. Miyato et al. 2018.

    Args:
        layer: the layer, which is changed.
        name: the parameter.
        n_power_iterations: steps of the power iteration per call in training.
        eps: added to the lengths of the vectors.
        dim: the axis of the rows; by default 1 for Linear and transposed convolutions, else 0.

    Returns:
        The layer.

    Raises:
        ArgumentError: if the layer has no such parameter, or there are no steps.

    Example:
        >>> layer = paddle.nn.utils.spectral_norm(paddle.nn.Linear(2, 3))
        >>> sorted(layer.state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    weight = layer._parameters.get(name)
    if weight is None:
        raise ArgumentError(f"spectral_norm: the layer has no parameter {name!r}.")
    if n_power_iterations <= 0:
        raise ArgumentError(f"spectral_norm: n_power_iterations is {n_power_iterations}; it is at least 1.")
    if dim is None:
        dim = 1 if type(layer).__name__ in ("Linear", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose") else 0
    norm = SpectralNorm(weight.shape, dim, n_power_iterations, eps)
    del layer._parameters[name]
    layer.add_parameter(f"{name}_orig", weight)
    layer.register_buffer(f"{name}_u", norm.weight_u)
    layer.register_buffer(f"{name}_v", norm.weight_v)

    def compute(layer: Any, inputs: Any = None) -> None:
        norm._power_iters = n_power_iterations if layer.training else 0
        object.__setattr__(layer, name, norm(getattr(layer, f"{name}_orig")))

    layer.register_forward_pre_hook(compute)
    object.__setattr__(layer, name, weight)
    return layer


@checked
def parameters_to_vector(parameters: Iterable[Tensor], name: str | None = None) -> Tensor:
    """Flatten and join parameters.

    Args:
        parameters: tensors of one element type.
        name: accepted as in Paddle.

    Example:
        >>> paddle.nn.utils.parameters_to_vector(paddle.nn.Linear(2, 3).parameters()).shape
        [9]
    """
    return cast(Tensor, concat([parameter.reshape([-1]) for parameter in parameters], 0))


@checked
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor], name: str | None = None) -> None:
    """Set parameters from the pieces of a vector.

    Args:
        vec: as many numbers as all parameters have.
        parameters: what is set, in the order of ``parameters_to_vector``.
        name: accepted as in Paddle.

    Example:
        >>> layer = paddle.nn.Linear(1, 1)
        >>> paddle.nn.utils.vector_to_parameters(paddle.to_tensor([2.0, 3.0]), layer.parameters())
        >>> layer.bias.tolist()
        [3.0]
    """
    array, at = vec.numpy(), 0
    for parameter in parameters:
        parameter.set_value(array[at : at + parameter.size].reshape(parameter.shape))
        at += parameter.size


@checked
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale gradients down, in place, so that the norm of all of them is at most ``max_norm``. Pascanu et al. 2013.

    Args:
        parameters: whose gradients; those without one are left out.
        max_norm: the largest norm.
        norm_type: the p of the p-norm: 0, 1, 2 or infinity.
        error_if_nonfinite: raise if the norm is not finite.

    Returns:
        The norm before, a tensor without axes.

    Raises:
        RuntimeError: if the norm is not finite and ``error_if_nonfinite``.
        ArgumentError: for an unknown norm.

    Example:
        >>> layer = paddle.nn.Linear(1, 1, bias_attr=False)
        >>> layer(paddle.to_tensor([[4.0]])).backward()
        >>> paddle.nn.utils.clip_grad_norm_(layer.parameters(), 1.0).item()
        4.0
    """
    listed = _with_gradient(parameters)
    if norm_type not in (0, 1, 2, float("inf")):
        raise ArgumentError(f"clip_grad_norm_: norm_type is 0, 1, 2 or inf, not {norm_type}.")
    if not listed:
        return leaf(np.array(0.0, np.float32))
    each = np.array([np.linalg.norm(p.grad.numpy().reshape(-1), norm_type) for p in listed])
    total = np.linalg.norm(each, norm_type)
    if error_if_nonfinite and not np.isfinite(total):
        raise RuntimeError(f"clip_grad_norm_: the norm of order {norm_type} of the gradients is {total}.")
    factor = min(float(max_norm) / (total + 1e-6), 1.0)
    for p in listed:
        p.grad = leaf(p.grad.numpy() * p.grad.dtype.numpy.type(factor))
    return leaf(np.array(total, np.float32))


@checked
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip every element of the gradients to [-clip_value, clip_value], in place.

    Args:
        parameters: whose gradients; those without one are left out.
        clip_value: the largest size of an element.

    Example:
        >>> layer = paddle.nn.Linear(1, 1, bias_attr=False)
        >>> layer(paddle.to_tensor([[4.0]])).backward()
        >>> paddle.nn.utils.clip_grad_value_(layer.parameters(), 1.0)
        >>> layer.weight.grad.tolist()
        [[1.0]]
    """
    for p in _with_gradient(parameters):
        p.grad = leaf(np.clip(p.grad.numpy(), -float(clip_value), float(clip_value)))


def _with_gradient(parameters: Tensor | Iterable[Tensor]) -> Sequence[Any]:
    return [p for p in ([parameters] if isinstance(parameters, Tensor) else parameters) if p.grad is not None]


globals().update(absence_hooks(__name__))
