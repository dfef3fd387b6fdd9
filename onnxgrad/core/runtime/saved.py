"""Sessions opened from graphs that onnxruntime has optimised before."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from onnxgrad.core.interop.optimised import restore_order

__all__ = ["open_session"]


def open_session(message: bytes, options: Any, providers: list[Any], folder: Path, unsafe: list[str]) -> Any:
    """A session on ``message``, from the file that an earlier call left in ``folder`` if there is one.

    The file holds what the extended level of onnxruntime makes of the graph for these providers, which does not depend on the
    machine, and is opened without optimisation; ``unsafe`` passes are left out. Its name is a hash of the message, onnxruntime's
    version and the providers.
    """
    import onnxruntime

    key = hashlib.sha256("\0".join([onnxruntime.__version__, repr(providers), ""]).encode() + message).hexdigest()[:32]
    path = folder / f"{key}.onnx"
    levels = onnxruntime.GraphOptimizationLevel
    if path.is_file():
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
        try:
            return onnxruntime.InferenceSession(str(path), options, providers=providers)
        except Exception:
            path.unlink(missing_ok=True)
    options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            written = Path(scratch) / path.name
            options.optimized_model_filepath = str(written)
            session = onnxruntime.InferenceSession(message, options, providers=providers, disabled_optimizers=unsafe)
            restore_order(written)
            os.replace(written, path)
            return session
    except Exception:
        # Either onnxruntime refuses the graph, and says so again, or the folder cannot be written: then nothing is kept in it.
        options.optimized_model_filepath = ""
        return onnxruntime.InferenceSession(message, options, providers=providers, disabled_optimizers=unsafe)
