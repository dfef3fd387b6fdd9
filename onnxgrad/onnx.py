"""paddle.onnx: a Layer as an .onnx file.

Tests: tests/paddle_suite/test_programs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnxgrad.eager.tensor import Tensor
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.jit import save
from onnxgrad.nn.layer import Layer
from onnxgrad.static.input import InputSpec

__all__ = ["export"]


@checked
def export(
    layer: Layer | Callable[..., object],
    path: str,
    input_spec: Sequence[InputSpec | Tensor] | None = None,
    opset_version: int = 9,
    **configs: object,
) -> None:
    """Write ``<path>.onnx``, as ``jit.save`` does.

    Args:
        opset_version: accepted for compatibility; the file has the opset that its operators need.
    """
    save(layer, path, input_spec, **configs)


globals().update(absence_hooks(__name__))
