"""Train quantized files: integer weights are rounded float weights in each step, and integers again in the export.

A weight that is stored in integers gets a float master, ``W -> DequantizeLinear`` becomes ``master -> QuantizeLinear ->
DequantizeLinear``, and the gradient goes straight through (``onnxgrad.straight_through``). Scales learn as in Esser et al.,
"Learned Step Size Quantization", 2020, by their logarithm, as in Jain et al., "Trained Quantization Thresholds", 2019: they stay
positive, and a step of an optimizer changes each by a share of itself. The added operators are recognised by the metadata of its
operators; ``integers`` takes it out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN, OLDEST_WITH_RULES
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.traits import VIEWS
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import all_operators_of, readers_in
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.words import QuantizedMode
from onnxgrad.training.surgery.lora_targets import KEY as LORA

__all__ = ["KEY", "MODES", "drop_unread", "prepare_quantized", "spread", "train_quantized"]

KEY = "onnxgrad.quantized"
MODES: tuple[QuantizedMode, ...] = get_args(QuantizedMode)
Array = np.ndarray[Any, Any]
# Where operators on integers read a weight, its scale (None: in a Mul behind) and zero point, and the axis of its scales.
_PRODUCTS: dict[str, tuple[int, int | None, int, int]] = {
    "MatMulInteger": (1, None, 3, -1),
    "ConvInteger": (1, None, 3, 0),
    "QLinearConv": (3, 4, 5, 0),
    "QLinearMatMul": (3, 4, 5, -1),
    "QGemm": (3, 4, 5, 1),
    "DynamicQuantizeMatMul": (1, 2, 3, -1),
    "MatMulIntegerToFloat": (1, 3, 5, -1),
}
_MOVES = VIEWS | {"Gather", "Slice", "Transpose"}


class _Site(NamedTuple):
    """An operator that reads a stored integer tensor: scale, zero point (None for 0), axis, size of blocks."""

    op: Operator
    scale: Variable
    zero: Variable | None
    axis: int
    block: int


def prepare_quantized(program: Program, mode: str | None) -> list[str]:
    """Prepare integer weights for the Trainer; returns a note on it.

    Args:
        program: a loaded program without a backward pass; it is changed.
        mode: one of ``MODES``; None for ``learned``, or for ``frozen`` where there are LoRA branches.

    Raises:
        ArgumentError: if there is no such mode.
    """
    mode = mode or ("frozen" if LORA in program.metadata else "learned")
    if mode not in MODES:
        raise ArgumentError(f"quantized is one of {', '.join(MODES)}, not {mode!r}.")
    if mode == "frozen" or not _sites(program, mode == "integers"):
        if not program.parameters and _sites(program, True):
            raise ArgumentError(
                "the file holds no float weights: products on integers read them all. Give quantized='integers' (--quantized "
                "integers) to train these straight through."
            )
        return []
    names = train_quantized(program, scales="learned" if mode == "learned" else "fixed", integers=mode == "integers")
    return [f"{len(names)} quantised weights, biases and scales are trained as float numbers, and rounded again in the export"]


@checked
@all_or_nothing
def train_quantized(
    program: Program, layers: str | Sequence[str] = "*", *, scales: Literal["learned", "fixed"] = "learned", integers: bool = False
) -> list[str]:
    """Train the integer weights of a quantised file (quantisation-aware training).

    Args:
        program: a loaded program without a backward pass; it is changed.
        layers: names or patterns of the stored integer tensors. Those of a QDQ file count: weights that DequantizeLinear reads, of
            4 to 16 bits, per tensor, per channel or by blocks, and 32-bit biases, which are trained as float numbers.
        scales: ``"learned"`` to train the scales of these weights and of all activations too, ``"fixed"`` to leave them.
        integers: also weights that products on integers read (MatMulInteger, QLinearConv, QGemm ...); their scales stay.

    Returns:
        Names of the new parameters: ``<weight>.float``, and ``<scale>.log``, by which e^log each scale is multiplied.

    Raises:
        UnknownName: if a pattern fits no such tensor.
        ArgumentError: if ``scales`` is something else.

    Example:
        >>> from onnx import parser
        >>> text = '''<ir_version: 10, opset_import: ["": 21]> f (float[N, 2] x) => (float[N, 2] y)
        ...     <int8[2, 2] w = {1, 2, 3, 4}, float s = {0.5}> { r = DequantizeLinear(w, s) y = MatMul(x, r) }'''
        >>> program = onnxgrad.from_onnx(parser.parse_model(text))
        >>> train_quantized(program)
        ['w.float', 's.log']
    """
    if scales not in ("learned", "fixed"):
        raise ArgumentError(f"scales is 'learned' or 'fixed', not {scales!r}.")
    by_tensor = _sites(program, integers)
    chosen = {v: by_tensor[v] for v in _matching(by_tensor, layers)}
    if any(_needs_newer(v, sites) for v, sites in chosen.items()) and (program.opset_version() or 1) < OLDEST_WITH_RULES:
        lift(program)
    block = program.global_block()
    rest, block.ops = block.ops, []
    learned = _learn_scales(program, rest, [sites[0].scale for sites in chosen.values()]) if scales == "learned" else {}
    names = [_with_master(program, v, sites, learned) for v, sites in chosen.items()]
    names += [f"{scale.name}.log" for scale in learned]
    block.ops += rest
    replaced = [v for stored, sites in chosen.items() for v in (stored, sites[0].scale, sites[0].zero)]
    drop_unread(program, [v for v in replaced if v is not None])
    return names


def _matching(sites: dict[Variable, list[_Site]], layers: str | Sequence[str]) -> list[Variable]:
    chosen: dict[Variable, None] = {}
    for pattern in [layers] if isinstance(layers, str) else layers:
        fitting = [v for v in sites if fnmatchcase(v.name, pattern)]
        if not fitting:
            known = ", ".join(v.name for v in list(sites)[:6]) or "none"
            raise UnknownName(f"train_quantized: {pattern!r} fits no tensor of integers that can be trained. There are: {known}.")
        chosen.update(dict.fromkeys(fitting))
    return list(chosen)


def _needs_newer(v: Variable, sites: list[_Site]) -> bool:
    return v.dtype.bits != 8 or sites[0].block > 0 or sites[0].scale.dtype.name != "float32"


# Finding ---------------------------------------------------------------------------------------------------------------


def _sites(program: Program, integers: bool) -> dict[Variable, list[_Site]]:
    """The integer tensors of the main graph that can be trained, with their readers, which all read them in one way"""
    block = program.global_block()
    readers = readers_in(all_operators_of(block))
    returned = {v for one in program.blocks for v in one.outputs}
    by_tensor = {}
    for v, slots in readers.items():
        if v.block is not block or v.value is None or v.is_data or v in returned or not v.dtype.is_integer:
            continue
        sites = [_site(op, index, readers, integers) for op, index in slots]
        kept = [site for site in sites if site is not None]
        if len(kept) == len(sites) and v.value.size and len({site[1:] for site in kept}) == 1 and _is_weight(v, kept):
            by_tensor[v] = kept
    return by_tensor


def _is_weight(v: Variable, sites: list[_Site]) -> bool:
    if v.dtype.name == "int32":
        return all(site.op.type == "DequantizeLinear" and site.op.block is v.block and not site.block for site in sites)
    return v.dtype.name.lstrip("u") in ("int4", "int8", "int16")


def _site(op: Operator, index: int, readers: Any, integers: bool) -> _Site | None:
    """Return how an operator dequantises the integer tensor at this slot, None where that is not known"""
    if op.domain not in ("", CONTRIB_DOMAIN):
        return None
    if op.type == "DequantizeLinear" and index == 0:
        default = 1 if op.domain else op.attr("axis")
        return _read_by(op, 1, 2, op.attrs.get("axis", default), op.attrs.get("block_size") or 0)
    if op.type in _MOVES and not op.domain and index == 0:
        return _site_behind(op, readers)
    if not integers or op.type not in _PRODUCTS or op.domain != (CONTRIB_DOMAIN if op.schema is None else ""):
        return None
    slot, scale, zero, axis = _PRODUCTS[op.type]
    if index != slot:
        return None
    if op.type == "QGemm" and op.attrs.get("transB"):
        axis = 0
    return _read_by(op, scale, zero, axis, 0) if scale is not None else _scaled_behind(op, zero, axis, readers)


def _site_behind(op: Operator, readers: Any) -> _Site | None:
    """Return how the operator behind moved integers dequantises them, if they have one scale"""
    behind = [_site(reader, at, {}, False) if reader.type == "DequantizeLinear" else None for reader, at in readers[op.outputs[0]]]
    kept = [site for site in behind if site is not None]
    if not kept or len(kept) < len(behind) or len({site[1:] for site in kept}) > 1:
        return None
    return kept[0]._replace(op=op, axis=0) if kept[0].scale.static_shape in ((), (1,)) and not kept[0].block else None


def _read_by(op: Operator, scale: int, zero: int, axis: int, block: int) -> _Site | None:
    return _known(op, op.inputs[scale], op.inputs[zero] if zero < len(op.inputs) else None, axis, block)


def _known(op: Operator, scale: Variable | None, zero: Variable | None, axis: int, block: int) -> _Site | None:
    stored = scale is not None and scale.value is not None and scale.is_float and not isinstance(scale, Parameter)
    if scale is None or not stored or (zero is not None and zero.value is None):
        return None
    return _Site(op, scale, zero, axis, block)


def _scaled_behind(op: Operator, zero: int, axis: int, readers: Any) -> _Site | None:
    """A product on integers as quantize_dynamic writes it: Cast, then Mul by the product of both scales"""
    zero_point = op.inputs[zero] if zero < len(op.inputs) else None
    for cast, _ in readers[op.outputs[0]] if len(readers[op.outputs[0]]) == 1 else ():
        for mul, index in readers[cast.outputs[0]] if cast.type == "Cast" else ():
            both = mul.inputs[1 - index].op if mul.type == "Mul" and mul.inputs[1 - index] is not None else None
            if both is not None and both.type == "Mul":
                dynamic = [v is not None and v.op is not None and v.op.type == "DynamicQuantizeLinear" for v in both.inputs]
                if sum(dynamic) == 1:
                    return _known(op, both.inputs[dynamic.index(False)], zero_point, axis, 0)
    return None


# Adding ----------------------------------------------------------------------------------------------------------------


def spread(array: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """Scales or zero points as something that broadcasts against a tensor of this shape"""
    if array.size == 1:
        return array.reshape(())
    if block:
        return np.repeat(array, block, axis).take(np.arange(shape[axis]), axis)
    return array.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def _mark(op: Operator, what: dict[str, Any]) -> None:
    op.metadata = {**(op.metadata or {}), KEY: json.dumps(what)}


def _learn_scales(program: Program, ops: list[Operator], chosen: list[Variable]) -> dict[Variable, Variable]:
    """Scales of the chosen weights and of what is quantised while the program runs, times e to a parameter that starts at 0"""
    block = program.global_block()
    readers = readers_in(op for one in program.blocks for op in (ops if one is block else one.ops))
    wanted, learned = set(chosen), {}
    for scale, slots in readers.items():
        if scale.value is None or not scale.is_float or isinstance(scale, Parameter) or scale.block is not block:
            continue
        op_types = {op.type if index == 1 else "" for op, index in slots if not _dequantizes_bias(op)}
        if (
            not op_types
            or op_types - {"QuantizeLinear", "DequantizeLinear"}
            or not (scale in wanted or "QuantizeLinear" in op_types)
        ):
            continue
        shape = scale.value.shape
        name = program.fresh_name(f"{scale.name}.log")
        log = block.create_parameter(name, shape, scale.dtype, value=TensorValue.of(np.zeros(shape, scale.dtype.numpy)))
        program.decisions[name] = "weight: logarithm of the factor of a scale"
        build = Builder(block, key=name)
        learned[scale] = product = build.Mul(scale, build.Exp(log))
        assert product.op is not None
        _mark(product.op, {"kind": "scale"})
        for op, _ in slots:
            if not _dequantizes_bias(op):
                op.inputs = [op.inputs[0], learned[scale], *op.inputs[2:]]
    return learned


def _dequantizes_bias(op: Operator) -> bool:
    x = op.inputs[0]
    return op.type == "DequantizeLinear" and x is not None and x.type is not None and x.dtype.bits == 32


def _with_master(program: Program, v: Variable, sites: list[_Site], learned: dict[Variable, Variable]) -> str:
    """A float parameter in the place of stored integers, behind QuantizeLinear; a bias without it"""
    first = sites[0]
    assert v.value is not None and first.scale.value is not None
    block, dtype = program.global_block(), first.scale.dtype
    level, width = v.value.numpy().astype(np.float64), first.scale.value.numpy()
    shift = np.zeros((), v.dtype.numpy) if first.zero is None or first.zero.value is None else first.zero.value.numpy()
    level = level - spread(shift.astype(np.float64), level.shape, first.axis, first.block)
    real = level * spread(width.astype(np.float64), level.shape, first.axis, first.block)
    name = program.fresh_name(f"{v.name}.float")
    master = block.create_parameter(name, real.shape, dtype, value=TensorValue.of(real.astype(dtype.numpy)))
    program.decisions[name] = f"weight: stored as {v.dtype.name}"
    what = {"name": v.name, "levels": float(np.abs(level).max())}
    if v.dtype.bits == 32:
        for site in sites:
            names = {"scale": site.scale.name, "zero": None if site.zero is None else site.zero.name}
            ranks = {"rank": width.ndim, "zero_rank": shift.ndim}
            _mark(site.op, {"kind": "bias", "domain": site.op.domain, **names, **ranks, **what})
            site.op.type, site.op.domain, site.op.inputs, site.op.attrs = "Identity", "", [master], {}
        return name
    build = Builder(block, key=name)
    zero = first.zero
    if zero is None or zero.static_shape != first.scale.static_shape:
        zero = build.constant(np.array(np.broadcast_to(shift, width.shape)))
    attrs = ({"axis": first.axis} if width.size > 1 else {}) | ({"block_size": first.block} if first.block else {})
    rounded = build.QuantizeLinear(master, learned.get(first.scale, first.scale), zero, **attrs)
    assert rounded.op is not None
    _mark(rounded.op, {"kind": "weight", **what})
    for site in sites:
        site.op.inputs = [rounded if other is v else other for other in site.op.inputs]
    return name


def drop_unread(program: Program, candidates: list[Variable]) -> None:
    """Drop stored tensors that nothing reads any more"""
    block = program.global_block()
    read = {v for op in all_operators_of(block) for v in op.inputs} | {v for one in program.blocks for v in one.outputs}
    gone = {v for v in candidates if v not in read and v.value is not None and v.block is block}
    block.ops = [op for op in block.ops if not (op.type == "Constant" and op.outputs[0] in gone)]
    block.initializers = [v for v in block.initializers if v not in gone]
    block.value_infos = [v for v in block.value_infos if v not in gone]
    block.vars = {name: v for name, v in block.vars.items() if v not in gone}
    program.parameters = [p for p in program.parameters if p not in gone]
    program._constants = {key: v for key, v in program._constants.items() if v not in gone}
    program.version += 1
