"""Gradients of a converted model by torch: what the adapters of converters to PyTorch share."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from scoreboard_tools.shared import is_float

torch.set_num_threads(1)


def gradients_of(
    module: Any, model: onnx.ModelProto, inputs: dict[str, Any], cotangents: dict[str, Any], weights: list[str]
) -> Any:
    """Call a converted module with the inputs in the order of the graph, and differentiate its outputs.

    Converters drop the names of initializers: a weight is found among the parameters and buffers by its numbers, also transposed.
    All weights of a case differ. Where a converter has made several copies of one, their gradients are added up.
    """
    module.eval()
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    values = {name: _tensor(value) for name, value in inputs.items()}
    leaves: list[tuple[str, Any, bool]] = []
    for name, value in inputs.items():
        if isinstance(value, np.ndarray) and is_float(value):
            leaves.append((name, values[name].requires_grad_(True), False))
    tensors = [*module.parameters(), *module.buffers()] if weights else []
    for name in weights:
        for tensor in tensors:
            flipped = _matches(tensor, held[name])
            if flipped is not None:
                leaves.append((name, tensor.requires_grad_(True), flipped))
    outputs = module(*[values[info.name] for info in model.graph.input if info.name in values])
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    named = dict(zip([info.name for info in model.graph.output], outputs, strict=False))
    pairs = [(named[name], _tensor(seed)) for name, seed in cotangents.items()]
    roots = [(y, seed.to(y.dtype)) for y, seed in pairs if y.requires_grad]
    if not roots:
        raise RuntimeError("no output depends on an input in a way that torch differentiates")
    found = torch.autograd.grad([y for y, _ in roots], [x for _, x, _ in leaves], [seed for _, seed in roots], allow_unused=True)
    grads: dict[str, Any] = {}
    for (name, _, flipped), grad in zip(leaves, found, strict=True):
        if grad is not None:
            array = grad.detach().to(torch.float64).numpy()
            array = array.T if flipped else array
            grads[name] = grads[name] + array if name in grads else array
    return grads


def _tensor(value: Any) -> Any:
    if isinstance(value, list):
        return [_tensor(item) for item in value]
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.array(value))


def _matches(tensor: Any, weight: np.ndarray) -> bool | None:
    """Whether a tensor holds a weight transposed (True) or as it is (False); None if it is another."""
    if tensor.numel() != weight.size or not tensor.is_floating_point():
        return None
    array = tensor.detach().to(torch.float64).numpy()
    weight = weight.astype(np.float64)
    if array.shape == weight.shape and np.array_equal(array, weight):
        return False
    if array.ndim == 2 and array.T.shape == weight.shape and np.array_equal(array.T, weight):
        return True
    return None
