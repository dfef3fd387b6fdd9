"""The weights of LoRA branches as files of their own.

Tests: tests/training/test_language_models.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from onnxgrad.core.interop.onnx_export import save_onnx
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Parameter, Variable, set_values
from onnxgrad.core.state.scope import Scope
from onnxgrad.core.state.values import value_of
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import write_whole, writing
from onnxgrad.internal.tensor_file import read_tensors, write_tensors
from onnxgrad.training.surgery.batch_norm import fold_added_batch_norm
from onnxgrad.training.surgery.experts import expert_branches
from onnxgrad.training.surgery.heads import remove_added_dropout
from onnxgrad.training.surgery.lora import branches_of
from onnxgrad.training.surgery.packing import unmask_packed_texts

__all__ = ["ADAPTER", "load_adapters", "save_adapters"]

ADAPTER = ".onnx_adapter"

Array = np.ndarray[Any, Any]


def _adapters(program: Program) -> dict[str, Parameter]:
    return {p.name: p for p in program.parameters if ".lora_" in p.name}


@checked
def save_adapters(program: Program, path: str | Path, scope: Scope | None = None) -> None:
    """Write only the weights of the branches.

    Args:
        program: with branches.
        path: of a ``.safetensors`` file, which ``load_adapters`` reads; or of an ``.onnx_adapter`` file, the format of onnxruntime
            (``RunOptions.add_active_adapter``), beside which the model that takes it is written under the same name with ``.onnx``.

            That model has the inputs ``<weight>.lora_A`` [rows, rank] and ``<weight>.lora_B`` [rank, columns], the latter
            multiplied by alpha / rank. Their rank is free, and 0 where no adapter is active: then it is the original.
        scope: where the weights are; None for the program's own.

    Raises:
        ArgumentError: if the program has no branches, or for onnxruntime one beside a Conv.
        TrainingError: if the file cannot be written.
    """
    if Path(path).suffix == ADAPTER:
        _save_for_runtime(program, Path(path), scope or program.active_scope())
        return
    tensors = {name: np.asarray(p.get_value(scope)) for name, p in _adapters(program).items()}
    if not tensors:
        raise ArgumentError("the program has no LoRA branches to save. Call add_lora first.")
    write_tensors(path, tensors)


@checked
def load_adapters(program: Program, path: str | Path) -> None:
    """Set the weights of the branches from a file that ``save_adapters`` wrote.

    Args:
        program: with the branches in it (``add_lora``).
        path: what ``save_adapters`` wrote.

    Raises:
        ModelError: if the file cannot be read, or is damaged.
        UnknownName: if it belongs to other branches; nothing is changed then.
    """
    values, own = read_tensors(path).arrays, _adapters(program)
    for name in sorted(values.keys() | own.keys()):
        array, p = values.get(name), own.get(name)
        if array is None or p is None or tuple(array.shape) != p.static_shape or array.dtype != p.dtype.numpy:
            raise UnknownName(f"{str(path)!r} belongs to other adapters: {name!r} does not fit. Use the same layers and rank.")
    set_values((p, values[name]) for name, p in own.items())


def _save_for_runtime(program: Program, path: Path, scope: Scope) -> None:
    clone = program.clone(for_test=True)
    clone.scope = scope.copy()
    weights: dict[str, Array] = {}
    if expert_branches(clone):
        raise ArgumentError("adapter files of onnxruntime are not written for experts. Merge the adapters instead.")
    for branch in branches_of(clone):
        if branch.base.type == "Conv":
            raise ArgumentError(f"{branch.base}: adapter files are for MatMul, Gemm and MatMulNBits. Merge the adapters instead.")
        if branch.magnitude is not None:
            raise ArgumentError(f"{branch.base}: adapter files of onnxruntime hold no sizes of DoRA. Merge the adapters instead.")
        weights[branch.a.name] = np.asarray(branch.a.get_value())
        weights[branch.b.name] = (branch.b.get_value().astype(np.float64) * branch.scale).astype(branch.b.dtype.numpy)
        branch.drop_scale()
    if not weights:
        raise ArgumentError("the program has no LoRA branches to save. Call add_lora first.")
    remove_added_dropout(clone)
    unmask_packed_texts(clone)
    fold_added_batch_norm(clone)
    model = path.with_suffix(".onnx")
    for name, value in weights.items():
        _empty(clone, name, 1 if name.endswith("A") else 0, value)
    save_onnx(clone, model)
    _take_as_inputs(model, weights)
    _write(path, weights)


def _empty(program: Program, name: str, axis: int, value: Array) -> None:
    """Put a constant of rank 0 in place of a weight"""
    block = program.global_block()
    old = block.vars.pop(name)
    assert isinstance(old, Parameter)
    shape = tuple(0 if at == axis else size for at, size in enumerate(value.shape))
    new = Variable(block, name, TensorType(old.dtype, shape))
    new.value = TensorValue.of(np.zeros(shape, value.dtype))
    block.vars[name] = new
    block.initializers = [new if v is old else v for v in block.initializers]
    program.parameters = [p for p in program.parameters if p is not old]
    for one in program.blocks:
        for op in one.ops:
            op.inputs = [new if v is old else v for v in op.inputs]


def _take_as_inputs(path: Path, weights: dict[str, Array]) -> None:
    """Declare the weights as inputs of the model, of which the initializers are the defaults"""
    model = onnx.load(path, load_external_data=False)
    for name, value in weights.items():
        dims = [value.shape[0], "rank"] if name.endswith("A") else ["rank", value.shape[1]]
        dtype = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, dtype, dims))
    write_whole(path, model.SerializeToString())


def _write(path: Path, weights: dict[str, Array]) -> None:
    adapter = onnxruntime.AdapterFormat()
    adapter.set_adapter_version(1)
    adapter.set_model_version(1)
    values = {name: value_of(value) for name, value in weights.items()}  # the adapter refers to their memory until it is written
    adapter.set_parameters(values)
    with writing(path) as file:
        adapter.export_adapter(file.name)
    del values
