"""backward and grad: gradients of eager tensors.

Tests: tests/eager/test_backward.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from onnxgrad.eager.dump import dump
from onnxgrad.eager.node import TapeNode
from onnxgrad.eager.tape import Backward, backward as run_backward
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentError, BadBackward, NotAVariable, RepeatedTensor
from onnxgrad.internal.arguments import checked

__all__ = ["backward", "grad"]

Tensors = Tensor | Sequence[Tensor]


def backward(
    tensors: Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
    *,
    dump_backward_graph_path: str | None = None,
) -> None:
    """Add the gradients of ``sum(tensors * grad_tensors)`` to ``.grad`` of the leaves behind the tensors.

    Args:
        tensors: one tensor, or several different ones. Those that stop gradients count for nothing.
        grad_tensors: what to multiply each with, of its shape; None for ones.
        retain_graph: keep the recorded graph for another backward pass.
        dump_backward_graph_path: a folder, made where it is missing, that receives two graphs in the dot language, of the
            backward and of the forward operators, and the lines of code that called the forward operators.

    Raises:
        NotAVariable: (an AssertionError) if a member is not a Tensor.
        BadBackward: (an AssertionError) if a tensor is given twice, or the number or a shape of grad_tensors does not fit.
        FreedGraph: (a SystemError) if an earlier pass went through the same graph without ``retain_graph``.
        NotADirectoryError: if ``dump_backward_graph_path`` is a file.

    Example:
        >>> x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
        >>> y = paddle.to_tensor([[3.0, 2.0], [3.0, 4.0]])
        >>> seed = paddle.to_tensor([[1.0, 2.0], [2.0, 3.0]])
        >>> paddle.autograd.backward([paddle.matmul(x, y), paddle.matmul(x, y)], [seed, None])
        >>> x.grad
        Tensor(shape=[2, 2], dtype=float32, place=Place(cpu), stop_gradient=False,
               [[12., 18.],
                [17., 25.]])
    """
    targets = _tensors(tensors, "tensors", "backward")
    if len(set(targets)) < len(targets):
        raise BadBackward("backward: the same tensor is given twice. Give it once, with twice its grad_tensor.")
    seeds = _seeds(targets, grad_tensors, "backward", "grad_tensors")
    if not isinstance(retain_graph, bool):
        raise BadBackward(f"backward: retain_graph is True or False, not {type(retain_graph).__name__}.")
    if dump_backward_graph_path is not None and not isinstance(dump_backward_graph_path, str):
        raise BadBackward(f"backward: dump_backward_graph_path is a str, not {type(dump_backward_graph_path).__name__}.")
    if dump_backward_graph_path is not None:
        dump(targets, dump_backward_graph_path)
    run_backward(targets, seeds, retain_graph)


@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] = False,
    no_grad_vars: Tensor | Sequence[Tensor] | set[Tensor] | None = None,
    dump_backward_graph_path: str | None = None,
) -> list[Tensor]: ...
@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    *,
    allow_unused: bool,
    no_grad_vars: Tensor | Sequence[Tensor] | set[Tensor] | None = None,
    dump_backward_graph_path: str | None = None,
) -> list[Tensor | None]: ...
@checked
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Tensor | Sequence[Tensor] | set[Tensor] | None = None,
    dump_backward_graph_path: str | None = None,
) -> Any:
    """Gradients of ``sum(outputs * grad_outputs)`` with respect to ``inputs``; no ``.grad`` changes.

    Args:
        outputs: one tensor or several.
        inputs: one tensor or several, leaves or computed ones.
        grad_outputs: what to multiply each output with; None for ones.
        retain_graph: keep the recorded graph; the same as ``create_graph`` unless given.
        create_graph: record the backward pass, so that the gradients can be differentiated.
        only_inputs: must be True.
        allow_unused: give None for an input that the outputs do not depend on, instead of an error.
        no_grad_vars: tensors that gradients do not flow through.
        dump_backward_graph_path: a folder that receives pictures of both graphs, as of ``backward``.

    Returns:
        One gradient per input.

    Raises:
        ArgumentError: if an input does not affect the outputs, or stops gradients, and ``allow_unused`` is False.
        RepeatedTensor: (a RuntimeError) if outputs or inputs hold a tensor twice.
        BadBackward: (an AssertionError) if ``grad_outputs`` does not fit, or ``only_inputs`` is False.

    Example:
        >>> x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> (slope,) = paddle.grad(x * x * x, x, create_graph=True)
        >>> (curvature,) = paddle.grad(slope, x)
        >>> curvature.numpy()
        array([ 6., 12.], dtype=float32)
    """
    targets, sources = _tensors(outputs, "outputs", "grad"), _tensors(inputs, "inputs", "grad")
    for what, items in (("outputs", targets), ("inputs", sources)):
        if len(set(items)) < len(items):
            raise RepeatedTensor(f"grad: {what} holds a tensor twice.")
    if not only_inputs:
        raise BadBackward("grad: only_inputs must be True. Use backward() to fill .grad of all leaves.")
    seeds = _seeds(targets, grad_outputs, "grad", "grad_outputs")
    if dump_backward_graph_path is not None:
        dump(targets, dump_backward_graph_path)
    if isinstance(no_grad_vars, (set, frozenset)):
        no_grad_vars = list(no_grad_vars)
    blocked = [] if no_grad_vars is None or no_grad_vars == [] else _tensors(no_grad_vars, "no_grad_vars", "grad")
    engine = Backward(create_graph, [tensor._node for tensor in blocked])
    grads = engine.run([tensor._node for tensor in targets], seeds, [tensor._node for tensor in sources])
    by_node: dict[TapeNode, Tensor] = dict(grads)
    results = [by_node.get(tensor._node) for tensor in sources]
    for tensor, gradient in zip(sources, results, strict=True):
        if gradient is None and not allow_unused:
            reason = "stops gradients" if tensor.stop_gradient else "does not affect the outputs"
            raise ArgumentError(f"grad: an input of shape {tensor.shape} {reason}. Pass allow_unused=True to get None for it.")
    if not (create_graph if retain_graph is None else retain_graph):
        engine.free()
    return results


def _tensors(items: Any, what: str, function: str) -> list[Tensor]:
    tensors = [items] if isinstance(items, Tensor) else items
    if not isinstance(tensors, (list, tuple)) or not tensors:
        raise NotAVariable(f"{function}: {what} is a Tensor or a list of at least one, not {items!r}.")
    for item in tensors:
        if not isinstance(item, Tensor):
            raise NotAVariable(f"{function}: {what} holds {type(item).__name__}; every member must be a Tensor.")
    return list(tensors)


def _seeds(targets: list[Tensor], cotangents: Any, function: str, what: str) -> list[Tensor | None]:
    if cotangents is None:
        return [None] * len(targets)
    seeds = [cotangents] if isinstance(cotangents, Tensor) else cotangents
    if not isinstance(seeds, (list, tuple)):
        raise NotAVariable(f"{function}: {what} is a Tensor, a list of Tensors and None, or None, not {type(cotangents).__name__}.")
    if len(seeds) != len(targets):
        raise BadBackward(f"{function}: {len(seeds)} {what} are given for {len(targets)} tensors.")
    for target, seed in zip(targets, seeds, strict=True):
        if seed is not None and not isinstance(seed, Tensor):
            raise NotAVariable(f"{function}: {what} holds {type(seed).__name__}; every member must be a Tensor or None.")
        if seed is not None and (seed.dims != target.dims or seed.dtype != target.dtype):
            raise BadBackward(
                f"{function}: {what} holds {seed.dtype.name}{list(seed.dims)} "
                f"for a tensor of {target.dtype.name}{list(target.dims)}. "
                "Give it the same shape and element type."
            )
    return list(seeds)
