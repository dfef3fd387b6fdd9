"""Helpers of the adapters: values in files, models with weights as inputs, running a model. Imports nothing of onnxgrad."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, version_converter


class CannotLoad(Exception):
    """A tool does not read or convert a model."""


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Count whatever goes wrong inside as "cannot load"."""
    try:
        yield
    except Exception as error:
        raise CannotLoad(f"{type(error).__name__}: {error}") from error


def convert_with(
    convert: Callable[[onnx.ModelProto], Any], model: onnx.ModelProto, opsets: tuple[int, ...] = (21, 17, 13)
) -> tuple[Any, onnx.ModelProto]:
    """Convert a model, at another opset where its own is refused, as users of such a tool do; the error is the first one."""
    try:
        return convert(model), model
    except Exception as error:
        for version in opsets:
            with contextlib.suppress(Exception):
                older = version_converter.convert_version(model, version)
                return convert(older), older
        raise error


def write_values(path: Path, values: dict[str, Any]) -> None:
    """Write arrays, lists of arrays and None by name; bfloat16 numbers as their bits."""
    layout: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}

    def add(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, (list, tuple)):
            return [add(item) for item in value]
        array = np.asarray(value)
        key = f"a{len(arrays)}"
        is_bfloat16 = array.dtype.name == "bfloat16"
        arrays[key] = array.view(np.uint16) if is_bfloat16 else array
        return {"key": key, "bfloat16": is_bfloat16}

    for name, value in values.items():
        layout[name] = add(value)
    np.savez(path, layout=np.frombuffer(json.dumps(layout).encode(), np.uint8), **arrays)


def read_values(path: Path) -> dict[str, Any]:
    """Read what ``write_values`` has written."""
    with np.load(path) as file:
        arrays = dict(file)

    def get(entry: Any) -> Any:
        if entry is None:
            return None
        if isinstance(entry, list):
            return [get(item) for item in entry]
        array = arrays[entry["key"]]
        if entry["bfloat16"]:
            import ml_dtypes

            array = array.view(ml_dtypes.bfloat16)
        return array

    return {name: get(entry) for name, entry in json.loads(arrays.pop("layout").tobytes()).items()}


def is_float(array: np.ndarray) -> bool:
    """Whether gradients by numbers of this type are asked for."""
    return array.dtype.name in ("float16", "bfloat16", "float32", "float64")


def floats_of(values: dict[str, Any]) -> list[str]:
    """List the names of the inputs that gradients are asked for."""
    leaves = {name: value[0] if isinstance(value, list) and value else value for name, value in values.items()}
    return [name for name, value in leaves.items() if isinstance(value, np.ndarray) and is_float(value)]


def weights_as_inputs(model: onnx.ModelProto, weights: list[str]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Copy a model, make graph inputs of the named initializers, and return the copy and their values."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = {info.name for info in copy.graph.input}
    values = {}
    for tensor in list(copy.graph.initializer):
        if tensor.name in weights:
            values[tensor.name] = numpy_helper.to_array(tensor)
            if tensor.name not in known:
                copy.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
            copy.graph.initializer.remove(tensor)
    return copy, values


def run(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Any]:
    """Run a model on onnxruntime, or on onnx.reference where onnxruntime refuses it, and return its outputs by name."""
    import onnxruntime

    names = [info.name for info in model.graph.output]
    feeds = {info.name: feeds[info.name] for info in model.graph.input if info.name in feeds}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        outputs = session.run(names, feeds)
    except Exception:
        from onnx.reference import ReferenceEvaluator

        outputs = ReferenceEvaluator(model).run(names, feeds)
    return dict(zip(names, outputs, strict=True))
