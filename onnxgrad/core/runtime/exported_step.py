"""A training step that was written to files, or to a message: its model, opened, with the values that go in and out of it.

Tests: tests/core/runtime/test_exported_step.py, tests/federated/test_worker.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, numpy_helper

from onnxgrad.core.runtime.denormals import FloatingPointMode
from onnxgrad.core.runtime.places import Place
from onnxgrad.core.runtime.session import open_model
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentTypeError, MissingFile, ModelError

__all__ = ["WrittenStep"]

Array: TypeAlias = "np.ndarray[Any, Any]"


class WrittenStep:
    """A step that ``save_training_step`` or ``to_training_step`` wrote.

    Args:
        source: the path of its manifest, or a pair of model and manifest.
        place: where it runs.
        threads: of onnxruntime within an operator; None for its choice.

    Attributes:
        manifest: what goes in and out.
        values: state and constants as numpy arrays, by the name of the input.

    Raises:
        FileError, ModelError: if a file is missing or is not what its manifest says.

    Example:
        >>> step = WrittenStep("out/step.json", CPUPlace(), None)  # doctest: +SKIP
        >>> loss, *_ = step.run({"x": images, "y": labels})  # doctest: +SKIP
    """

    def __init__(self, source: Any, place: Place, threads: int | None) -> None:
        model, self.manifest, self.values = _read(source)
        self._session = open_model(model, place, threads)
        self._outputs = [e["name"] for e in self.manifest["fetches"]] + [e["output"] for e in self.manifest["state"]]

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run once; returns the fetches, and new state takes the place of the old."""
        with FloatingPointMode(flushes=bool(self.manifest["state"])):
            results = self._session.run(self._outputs, {**feeds, **self.values})
        count = len(self.manifest["fetches"])
        self.values.update((e["input"], value) for e, value in zip(self.manifest["state"], results[count:], strict=True))
        return list(results[:count])


def _read(source: Any) -> tuple[Any, dict[str, Any], dict[str, Array]]:
    """Model, manifest and values of a step."""
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[0], ModelProto):
        model, manifest = source
        values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        names = [e["name"] for e in manifest["state"] + manifest["constants"]]
        return model.SerializeToString(), manifest, {name: values[name] for name in names}
    if not isinstance(source, (str, Path)):
        raise ArgumentTypeError(f"a step is the path of a manifest, or a pair of model and manifest, not {type(source).__name__}.")
    path = Path(source).with_suffix(".json")
    if not path.exists():
        raise MissingFile(f"{str(path)!r} does not exist. Name the manifest that save_training_step wrote.")
    manifest = json.loads(path.read_text())
    if "state" not in manifest or any("statistic" not in e for e in manifest["state"]):
        raise ModelError(f"{str(path)!r} does not say what travels: it is of two models, or old. Write it by save_training_step.")
    content = path.with_name(manifest["values"]).read_bytes()
    values = {}
    for e in manifest["state"] + manifest["constants"]:
        part = content[e["offset"] : e["offset"] + e["bytes"]]
        values[e["name"]] = np.frombuffer(part, dtype_of(e["dtype"]).numpy).reshape(e["shape"])
    return str(path.with_name(manifest["model"])), manifest, values
