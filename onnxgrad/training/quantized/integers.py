"""Integers for what was trained: exports of quantised files, and scales that are observed anew."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np

from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.program import Program, unshare
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.traverse import all_operators_of, readers_in, substitute
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import DataError, ModelError
from onnxgrad.training.data import open_data
from onnxgrad.training.data.feed import checked_batch
from onnxgrad.training.data.rows import Data
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.quantized.learned import KEY, drop_unread, spread
from onnxgrad.training.surgery.heads import insert_after

__all__ = ["observe_scales", "store_integers"]

Array = np.ndarray[Any, Any]


def _marked(program: Program) -> list[tuple[Operator, dict[str, Any]]]:
    marked = []
    for op in all_operators_of(program.global_block()):
        text = (op.metadata or {}).get(KEY)
        if text is not None:
            try:
                what = json.loads(text)
                op_type = _KINDS[what["kind"]]
                fits = op.type == op_type and not op.domain and all(isinstance(what.get(key, t()), t) for key, t in _FIELDS.items())
                fits = fits and (op_type != "Identity" or {"scale", "rank", "zero_rank"} <= what.keys())
            except (ValueError, TypeError, KeyError, RecursionError):
                fits = False
            if not fits:
                raise ModelError(f"{op} is marked by {KEY} and is not as train_quantized makes it. Remove the mark.")
            marked.append((op, what))
    return marked


_KINDS = {"scale": "Mul", "weight": "QuantizeLinear", "bias": "Identity"}
_FIELDS: dict[str, type] = {"name": str, "scale": str, "rank": int, "zero_rank": int, "levels": float}


def store_integers(program: Program) -> None:
    """Write what ``train_quantized`` added as stored integers and scales again, in place; for a program with a scope of its own.

    Raises:
        ModelError: if a file marks something else as such.
    """
    marked = _marked(program)
    for role in ("scale", "weight", "bias"):  # a weight is rounded by the final scale, and a bias has the product of two
        for op, what in marked:
            if what["kind"] == role:
                _STORE[role](program, op, what)


def _scale_of(v: Variable | None) -> tuple[Variable, Variable | None]:
    """The stored scale, and the logarithm of what it is multiplied by"""
    mul = None if v is None or v.value is not None else v.op
    if mul is not None and KEY in (mul.metadata or {}):
        base, exp = mul.inputs[0], mul.inputs[1].op if mul.inputs[1] is not None else None
        if exp is not None and exp.type == "Exp" and base is not None and base.value is not None:
            log = exp.inputs[0]
            if log is not None and log.is_leaf and log.static_shape == base.static_shape:
                return base, log
    elif v is not None and v.value is not None:
        return v, None
    raise ModelError(f"the scale {v!r} is marked by {KEY} and is not as train_quantized makes it. Remove the mark.")


def _store_scale(program: Program, op: Operator, _: dict[str, Any]) -> None:
    base, log = _scale_of(op.outputs[0])
    assert log is not None and op.inputs[1] is not None and op.inputs[1].op is not None and op.outputs[0] is not None
    width = base.get_value().astype(np.float64) * np.exp(log.get_value().astype(np.float64))
    _set_constant(program, base, width)
    substitute(program.global_block().ops, {op.outputs[0]: base})
    _remove(program, [op, op.inputs[1].op])


def _store_weight(program: Program, op: Operator, what: dict[str, Any]) -> None:
    master, scale, zero, *_ = [*op.inputs, None]
    y = op.outputs[0]
    stored = all(v is not None and v.is_leaf and v.static_shape is not None for v in (master, scale, zero))
    if not stored or master is None or scale is None or zero is None or y is None:
        raise ModelError(f"{op} is marked by {KEY} and is not as train_quantized makes it. Remove the mark.")
    axis, block = op.attr("axis"), op.attrs.get("block_size") or 0
    real, shape = master.get_value(), master.get_value().shape
    level = np.rint(real / spread(scale.get_value().astype(real.dtype), shape, axis, block)).astype(np.float64)
    level += spread(zero.get_value().astype(np.float64), shape, axis, block)
    integers = _new_constant(program, what["name"], np.clip(level, *_bounds(zero)).astype(zero.dtype.numpy))
    substitute(program.global_block().ops, {y: integers})
    _remove(program, [op])


def _bounds(zero: Variable) -> tuple[int, int]:
    low = -(2 ** (zero.dtype.bits - 1)) if zero.dtype.name.startswith("int") else 0
    return low, low + 2**zero.dtype.bits - 1


def _store_bias(program: Program, op: Operator, what: dict[str, Any]) -> None:
    """Store a bias with the scale that onnxruntime assumes, the product of the scales of the layer's data and its weight"""
    master, y = op.inputs[0], op.outputs[0]
    if not isinstance(master, Parameter) or y is None or master.static_shape is None:
        raise ModelError(f"{op} is marked by {KEY} and is not as train_quantized makes it. Remove the mark.")
    real = master.get_value().astype(np.float64)
    width = _product_of_scales(program, y)
    if width is None or width.size not in (1, real.size):
        width = np.array(float(np.abs(real).max()) / 2**30 or 1.0)
    if width.size == 1:
        width = width.reshape([1] * min(int(what["rank"]), 1))
    level = np.rint(real / width)
    if not np.all(np.abs(level) < 2**31):
        substitute(program.global_block().ops, {y: master})  # no 32 bits hold it: it stays a float number
        return _remove(program, [op])
    constants = [_new_constant(program, what["name"], level.astype(np.int32))]
    constants.append(_new_constant(program, what["scale"], width.astype(master.dtype.numpy)))
    if what.get("zero") is not None:
        shape = width.shape if width.size > 1 or what["zero_rank"] else ()
        constants.append(_new_constant(program, what["zero"], np.zeros(shape, np.int32)))
    op.domain = CONTRIB_DOMAIN if what.get("domain") == CONTRIB_DOMAIN else ""
    op.type, op.inputs, op.attrs = "DequantizeLinear", list(constants), {"axis": 0} if width.size > 1 else {}
    op.metadata = {key: value for key, value in (op.metadata or {}).items() if key != KEY} or None
    drop_unread(program, [master])


def _product_of_scales(program: Program, bias: Variable) -> Array | None:
    for op in all_operators_of(program.global_block()):
        if any(v is bias for v in op.inputs[2:3]):
            producers = [None if v is None or v.value is not None else v.op for v in op.inputs[:2]]
            scales = [m.inputs[1] for m in producers if m is not None and m.type == "DequantizeLinear"]
            values = [v.get_value().astype(np.float64) for v in scales if v is not None and v.is_leaf]
            if len(values) == 2 and values[0].size == 1 and values[1].ndim < 2:
                product: Array = values[1] * values[0].reshape(())
                return product
    return None


_STORE = {"scale": _store_scale, "weight": _store_weight, "bias": _store_bias}


def _set_constant(program: Program, v: Variable, value: Array) -> None:
    unshare(program, v)
    v.value = TensorValue.of(value.astype(v.dtype.numpy))
    program.version += 1


def _new_constant(program: Program, wanted: str, value: Array) -> Variable:
    block = program.global_block()
    tensor = TensorValue.of(value)
    name = wanted if wanted and block.find(wanted) is None else program.fresh_name(wanted or "integers")
    constant = Variable(block, name, TensorType(tensor.dtype, tensor.shape))
    constant.value = tensor
    block.initializers.append(block.register(constant))
    return constant


def _remove(program: Program, ops: list[Operator]) -> None:
    block = program.global_block()
    block.ops = [op for op in block.ops if not any(op is gone for gone in ops)]
    for op in ops:
        for v in op.outputs:
            if v is not None:
                block.vars.pop(v.name, None)
    drop_unread(program, [v for op in ops for v in op.inputs if v is not None])


# Observing -------------------------------------------------------------------------------------------------------------


def observe_scales(program: Program, data: Data, batch_size: int = 32) -> None:
    """Set the scales of a QDQ program anew, by the largest values: of trained weights, and of what the data makes of activations.

    Args:
        program: with a scope of its own; it is changed. Its activations are observed unrounded, as calibration does.
        data: as for ``Trainer.predict``.
        batch_size: rows at a time.

    Raises:
        DataError: if the data does not fit the model, or has no rows.
    """
    weights, activations = _quantizers(program)
    levels = {op: what.get("levels") for op, what in _marked(program)}
    for op in weights:
        assert op.inputs[0] is not None
        real = np.asarray(op.inputs[0].get_value(), np.float64)
        _observe([op], *_extremes(op, real), levels.get(op))
    for scale, ranges in _ranges(program, activations, data, batch_size).items():
        ops = [op for op in activations if op.inputs[1] is scale]
        _observe(ops, np.min([low for low, _ in ranges], axis=0), np.max([high for _, high in ranges], axis=0), None)


def _quantizers(program: Program) -> tuple[list[Operator], list[Operator]]:
    """QuantizeLinear of weights and of activations in the main graph, of those whose scale is stored and known to it alone"""
    block = program.global_block()
    readers = readers_in(all_operators_of(block))
    quantizers: tuple[list[Operator], list[Operator]] = ([], [])
    for op in block.ops:
        if op.type != "QuantizeLinear" or op.inputs[1] is None or op.inputs[0] is None or op.outputs[0] is None:
            continue
        alone = all(index == 1 and r.type in ("QuantizeLinear", "DequantizeLinear") for r, index in readers[op.inputs[1]])
        dequantized = all(r.type == "DequantizeLinear" for r, _ in readers[op.outputs[0]])
        if alone and dequantized:
            quantizers[not isinstance(op.inputs[0], Parameter)].append(op)
    return quantizers


def _extremes(op: Operator, x: Array) -> tuple[Array, Array]:
    """Smallest and largest value that each scale serves"""
    scale, axis = op.inputs[1], op.attr("axis")
    assert scale is not None and scale.static_shape is not None
    block = op.attrs.get("block_size") or 0
    if block:
        starts = np.arange(0, x.shape[axis], block)
        return np.minimum.reduceat(x, starts, axis), np.maximum.reduceat(x, starts, axis)
    axes = tuple(i for i in range(x.ndim) if i != axis % x.ndim) if int(np.prod(scale.static_shape)) > 1 else None
    shape = scale.static_shape
    return np.asarray(x.min(axis=axes)).reshape(shape), np.asarray(x.max(axis=axes)).reshape(shape)


def _ranges(program: Program, ops: list[Operator], data: Data, batch_size: int) -> dict[Variable, list[tuple[Array, Array]]]:
    """Per scale, the extremes of each batch of what is quantised by it, in the program without any rounding"""
    plain = program.clone(for_test=True)
    plain.scope = program.active_scope()
    block = plain.global_block()
    quantizers: dict[Variable | None, Variable] = {}
    for op in list(block.ops):
        if op.type == "QuantizeLinear" and op.outputs[0] is not None:
            quantizers[op.outputs[0]] = _unrounded(op)
        elif op.type == "DequantizeLinear" and op.inputs[0] in quantizers and op.outputs[0] is not None:
            substitute(block.ops, {op.outputs[0]: quantizers[op.inputs[0]]})
    names = [quantizers[block.vars[op.outputs[0].name]] for op in ops if op.outputs[0] is not None]
    ranges: dict[Variable, list[tuple[Array, Array]]] = defaultdict(list)
    executor, inputs = Executor(), program.inputs
    for batch in open_data(data, DataSpec.of(inputs, program=program)).plain().batches(batch_size, shuffle=False):
        feed = checked_batch(batch, inputs)
        for op, value in zip(ops, executor.run(plain, feed, names) if ops else [], strict=True):
            assert op.inputs[1] is not None
            if not op.attrs.get("block_size"):
                ranges[op.inputs[1]].append(_extremes(op, np.asarray(value, np.float64)))
    if ops and not ranges:
        raise DataError("there is nothing to observe: the data has no batch. Give some rows of the model's inputs.")
    return ranges


def _unrounded(op: Operator) -> Variable:
    """Return the tensor that is quantised, clipped to its range if 0 is the smallest level: the file has no Relu before it then"""
    x, scale, zero, *_ = [*op.inputs, None]
    assert x is not None and scale is not None
    bottom, top = (0, 255) if zero is None else _bounds(zero)
    if (zero is not None and (zero.value is None or zero.value.size != 1 or int(zero.get_value().reshape(())) != bottom)) or (
        scale.static_shape not in ((), (1,)) or isinstance(x, Parameter)
    ):
        return x
    base, log = _scale_of(scale)
    width = float(base.get_value().reshape(())) * float(np.exp(0 if log is None else log.get_value().reshape(())))
    return insert_after(op, lambda build: build.Clip(x, 0.0, width * (top - bottom)), f"{x.name}/clipped")


def _observe(ops: list[Operator], low: Array, high: Array, levels: float | None) -> None:
    """Give these QuantizeLinear, and what reads the same scale, a scale and zero point for values from low to high"""
    scale, zero = ops[0].inputs[1], ops[0].inputs[2] if len(ops[0].inputs) > 2 else None
    program = ops[0].block.program
    base, log = _scale_of(scale)
    bits = 8 if zero is None else zero.dtype.bits
    bottom, top = (0, 255) if zero is None else _bounds(zero)
    now = np.zeros((), np.int64) if zero is None else zero.get_value().astype(np.int64)
    symmetric = bottom < 0 and not now.any()
    if symmetric:
        width = np.maximum(np.abs(low), np.abs(high)) / (levels or 2 ** (bits - 1) - 1)
    else:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        width = (high - low) / (top - bottom)
    old = base.get_value().astype(np.float64)
    width = np.where(width > 0, width, old)
    if not symmetric:
        now = np.clip(np.rint(bottom - low / width), bottom, top)
    _set_constant(program, base, width)
    if log is not None:
        log.set_value(np.zeros_like(log.get_value()))
    if zero is not None and not np.array_equal(now, zero.get_value()):
        everybody = [op for op in all_operators_of(program.global_block()) if any(v is zero for v in op.inputs)]
        readers = [op for op in everybody if op.inputs[1] is scale]
        shifts = np.broadcast_to(now, width.shape if width.size > 1 else zero.static_shape or ())
        if len(readers) == len(everybody):
            return _set_constant(program, zero, shifts)
        constant = _new_constant(program, zero.name, shifts.astype(zero.dtype.numpy))
        for op in readers:
            op.inputs = [*op.inputs[:2], constant]
