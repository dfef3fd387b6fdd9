"""Types, shapes and small known values of an operator's outputs, inferred as it is appended.

onnx's own inference does the work, memoised by operator, attributes and operand types. It loses what a backward pass
needs in one place: a shape that is computed at run time. So small integer tensors remember what is known of their
entries, and the operators that read shapes use them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper, shape_inference

from onnxgrad.core.ir.equation import is_equation
from onnxgrad.core.ir.known import READS_NUMBERS, entries_of, numbers_of, propagate_entries
from onnxgrad.core.ir.operator import AttributeReference, Operator, resolve_reference
from onnxgrad.core.ir.opset import Schema
from onnxgrad.core.ir.shapes import FROM_ENTRIES, OVERRULES
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import (
    BOOL_SCALAR,
    INDEX,
    Dim,
    Entries,
    OptionalType,
    SequenceType,
    TensorType,
    Type,
    join_types,
    merge_types,
)
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DType, dtype_of, from_onnx_number
from onnxgrad.errors import IllTyped

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block

__all__ = [
    "FOREIGN",
    "Found",
    "attribute_type",
    "check_and_infer",
    "fill_attribute",
    "fill_type",
    "infer_again",
    "infer_leniently",
    "infer_window_ranks",
    "infer_with_bodies",
    "inferred_types",
    "read_type",
    "reason_against",
]

Found = list[tuple["Type | None", "Entries | None"]]
"""Type and known entries of each output."""
FOREIGN: dict[str, Callable[[Operator], Found]] = {}
"""By domain: infers operators for which onnx has no schema."""
_memo: dict[Any, Found] = {}
_MEMO_LIMIT = 100_000
_IR_VERSION = 10
_FLOAT32, _FLOAT64 = dtype_of("float32"), dtype_of("float64")
_READS_FLOAT_VALUES = ("OneHot", "Range", "Resize", "Upsample")


def check_and_infer(operator: Operator) -> None:
    """Set the types of an operator's outputs.

    Raises:
        IllTyped: naming the operator, when operands or attributes do not fit its schema.
    """
    for variable, (type, entries) in zip(operator.outputs, _memoised(operator, strict=True), strict=False):
        if variable is not None:
            variable.type = type if variable.type is None else merge_types(type, variable.type)
            variable.entries = entries


def infer_leniently(operator: Operator) -> None:
    """Set the output types as far as they can be inferred; used on import, where onnxruntime may accept more than inference."""
    for variable, (type, entries) in zip(operator.outputs, _memoised(operator, strict=False), strict=False):
        if variable is not None:
            variable.type = merge_types(type, variable.type)
            variable.entries = entries


def inferred_types(operator: Operator) -> list[Type | None]:
    """Infer the types of an operator's outputs from its operands alone; nothing is set."""
    return [type for type, _ in _memoised(operator, strict=False)]


def reason_against(operator: Operator) -> str | None:
    """Why strict inference refuses the operator; None if it does not."""
    try:
        _infer(operator, strict=True)
    except IllTyped as error:
        return str(error)
    return None


def infer_again(block: Block, trusted: dict[Variable, Variable]) -> None:
    """Find the types in a body anew after the types of its inputs changed.

    ``trusted`` maps originals to the variables of the body; what the original's file declares is kept.
    """
    for original, v in trusted.items():
        if v.op is not None and v.value is None:
            v.type = read_type(original.declared.type) if original.declared is not None else None
    _infer_block(block)


def _infer_block(block: Block) -> None:
    for op in block.ops:
        infer_with_bodies(op)


def infer_with_bodies(op: Operator) -> None:
    """Infer the types inside the bodies of an operator from its operands, then the types of its outputs."""
    if op.domain == "" and op.type in ("Loop", "Scan"):
        _pass_types_to_body(op)
    for body in op.blocks():
        _infer_block(body)
    infer_leniently(op)


def _pass_types_to_body(op: Operator) -> None:
    formals, scanned = op.attrs["body"].inputs, op.attrs.get("num_scan_inputs") or 0
    first = 0
    if op.type == "Loop":
        formals[0].type, formals[1].type = INDEX, BOOL_SCALAR
        first = 2
    states = len(op.inputs) - first - scanned
    for v, start in zip(formals[first : first + states], op.inputs[first:], strict=False):
        if start is not None:
            v.type = start.type if v.type is None else join_types(v.type, start.type)
    axes = op.attrs.get("scan_input_axes") or [0] * scanned
    for v, x, axis in zip(formals[first + states :], op.inputs[first + states :], axes, strict=False):
        if v.type is None and x is not None and isinstance(x.type, TensorType):
            dims = x.type.dims
            v.type = TensorType(x.type.dtype, None if dims is None else _without_axis(dims, axis))


def _without_axis(dims: tuple[Dim, ...], axis: int) -> tuple[Dim, ...]:
    return tuple(dim for i, dim in enumerate(dims) if i != (axis if axis >= 0 else axis + len(dims)))


def infer_window_ranks(operator: Operator) -> None:
    """Set the rank of a window operator's operands from its attributes, also where nothing else is known of them."""
    if operator.type not in _WINDOWS or operator.domain != "":
        return
    lengths = [len(operator.attrs.get(name) or ()) for name in ("kernel_shape", "strides", "dilations", "output_padding")]
    axes = max(*lengths, len(operator.attrs.get("pads") or ()) // 2)
    for v in (*operator.inputs[: 2 if operator.type.startswith("Conv") else 1], *operator.outputs):
        if axes and v is not None and isinstance(v.type, TensorType) and v.type.dims is None:
            v.type = TensorType(v.type.dtype, (None,) * (axes + 2))


_WINDOWS = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "MaxUnpool")


def _memoised(operator: Operator, strict: bool) -> Found:
    called = (operator.domain, operator.type, operator.overload)
    if operator.schema is None and (operator.domain not in FOREIGN or called in operator.block.program.functions):
        return _infer_call(operator)
    key = _memo_key(operator)
    if key is None:
        return _infer(operator, strict)
    results = _memo.get(key)
    if results is None:
        results = _infer(operator, strict)
        if len(_memo) >= _MEMO_LIMIT:
            _memo.clear()
        _memo[key] = results
    return results


def _infer_call(call: Operator) -> Found:
    """Infer the types of a function's results by giving its body the types of the operands"""
    function = call.block.program.functions.get((call.domain, call.type, call.overload))
    if function is None:
        return [(None, None)] * len(call.outputs)
    formals = function.body.inputs
    for formal, actual in zip(formals, [*call.inputs, *[None] * len(formals)], strict=False):
        formal.type, formal.entries = (None, None) if actual is None else (actual.type, actual.entries)
    _infer_function_body(function.body, call, function.attribute_defaults)
    return [(v.type, v.entries) for v in function.body.outputs[: len(call.outputs)]]


def _infer_function_body(block: Block, call: Operator, defaults: dict[str, Any]) -> None:
    for op in block.ops:
        written = op.attrs
        op.attrs = {name: resolve_reference(value, call, defaults) for name, value in written.items()}
        op.attrs = {name: value for name, value in op.attrs.items() if value is not None}
        for v in op.outputs:
            if v is not None and v.value is None:
                v.type = v.entries = None
        if op.domain == "" and op.type in ("Loop", "Scan"):
            _pass_types_to_body(op)
        for body in op.blocks():
            _infer_function_body(body, call, defaults)
        infer_leniently(op)
        op.attrs = written


def _memo_key(operator: Operator) -> Any:
    attrs: tuple[Any, ...] = ()
    if operator.attrs:
        parts: list[Any] = []
        for name, value in operator.attrs.items():
            if isinstance(value, (int, float, str)):
                parts.append((name, value))
            elif isinstance(value, list) and (not value or isinstance(value[0], (int, float, str))):
                parts.append((name, tuple(value)))
            else:
                return None
        attrs = tuple(parts)
    operands = tuple([_operand_key(v) for v in operator.inputs])
    version = operator.block.program.opset_version(operator.domain)
    outputs = tuple([v is not None for v in operator.outputs])
    key = (operator.type, operator.domain, version, attrs, operands, outputs, operator.block.program.is_oracle)
    if operator.type in READS_NUMBERS:
        return (*key, tuple([numbers_of(v) for v in operator.inputs]))
    if operator.type in _READS_FLOAT_VALUES:
        values = tuple(
            v.value.numpy().tobytes() if v is not None and v.value is not None and v.value.size < 65 else None
            for v in operator.inputs
        )
        return (*key, values)
    return key


def _operand_key(v: Variable | None) -> Any:
    """Return the part of an operand that inference may depend on; known entries only exist for integers and booleans."""
    if v is None or not isinstance(v.type, TensorType) or v.type.dtype.is_float:
        return None if v is None else v.type or "unknown"
    return (v.type, entries_of(v))  # those of a constant too, which are read when they are asked for


def _infer(operator: Operator, strict: bool) -> Found:
    schema = operator.schema
    unknown: Found = [(None, None)] * len(operator.outputs)
    if schema is None:
        return FOREIGN[operator.domain](operator) if operator.domain in FOREIGN else unknown
    if strict:
        _check(operator, schema)
    if operator.type in _BODIES and operator.domain == "":
        try:
            return _BODIES[operator.type](operator)
        except (IndexError, KeyError, ValueError) as error:
            if not strict:
                return unknown
            raise IllTyped(f"{operator}: its body does not fit its operands ({error}). Correct its attributes.") from error
    if any(True for _ in operator.blocks()) or any(isinstance(value, AttributeReference) for value in operator.attrs.values()):
        return unknown
    node, types, data = _as_node(operator)
    if operator.type == "Resize":
        _complete_sizes(operator, types)
    if any(v is not None and not _is_known(v.type) for v in operator.inputs):
        return unknown
    as_float32 = operator.block.program.is_oracle and any(_only_as_float32(schema, i, v) for i, v in enumerate(operator.inputs))
    if as_float32:
        for proto in types.values():
            if proto.tensor_type.elem_type == _FLOAT64.number:
                proto.tensor_type.elem_type = _FLOAT32.number
    opsets = [helper.make_opsetid(operator.domain, schema.since)]
    try:
        _check_safe(operator)
        types_of_outputs = shape_inference.infer_node_outputs(schema.raw, node, types, data, None, opsets, _IR_VERSION)
        return _described(operator, types_of_outputs, as_float32)
    except Exception as error:
        if not strict:
            return unknown
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise IllTyped(f"{operator}: {reason}. Operands: {_operand_text(operator)}.") from error


def _check_safe(operator: Operator) -> None:
    """Raise ValueError for what onnx's inference would not survive, or not end on."""
    attrs = operator.attrs
    if operator.type == "Einsum" and not is_equation(attrs["equation"]):
        raise ValueError(f"{attrs['equation']!r} is not an equation")
    if abs(attrs.get("axis", 0)) >= 2**31:
        raise ValueError(f"there is no axis {attrs['axis']}")
    if operator.type == "Split" and attrs.get("num_outputs", len(operator.outputs)) != len(operator.outputs):
        raise ValueError(f"num_outputs is {attrs['num_outputs']}, but there are {len(operator.outputs)}")


def _described(operator: Operator, protos: dict[str, TypeProto], as_float32: bool) -> Found:
    """Merge the types from onnx's inference with those from our own arithmetic; fails where operands contradict each other"""
    invents = _may_invent_zeros(operator)
    results: Found = []
    for i, v in enumerate(operator.outputs):
        described = None if v is None else read_type(protos.get(f"y{i}"))
        if as_float32:
            described = _as_float64(described)
        results.append((_without_zeros(described) if invents else described, None))
    if operator.domain == "" and results:
        first, _ = results[0]
        if operator.type in FROM_ENTRIES and isinstance(first, TensorType):
            dims = FROM_ENTRIES[operator.type](operator)
            if dims is not None:
                ours = TensorType(first.dtype, tuple(None if isinstance(dim, int) and dim < 0 else dim for dim in dims))
                first = ours if operator.type in OVERRULES else merge_types(ours, first)
        results[0] = (first, propagate_entries(operator, first))
    return results


def _complete_sizes(operator: Operator, types: dict[str, TypeProto]) -> None:
    """There is one size (and one scale) for each axis; onnx's inference refuses a Resize that does not say so"""
    x, axes = operator.inputs[0], operator.attrs.get("axes")
    count = len(axes) if axes else None if x is None else x.rank
    if count is None:
        return
    for name in ("x2", "x3"):
        shape = types[name].tensor_type.shape if name in types else None
        if shape is not None and len(shape.dim) == 1 and not shape.dim[0].HasField("dim_value"):
            shape.dim[0].dim_value = count


def _may_invent_zeros(operator: Operator) -> bool:
    """onnx's inference of Attention and others takes an unknown size for 0: a 0 counts only where an operand has one"""
    dims: list[Dim] = []
    for v in operator.inputs:
        if v is not None and isinstance(v.type, TensorType):
            dims += [*(v.type.dims or (None,)), *(v.entries or () if v.type.dtype.is_integer else ())]
    return 0 not in dims and any(not isinstance(dim, int) for dim in dims)


def _without_zeros(type: Type | None) -> Type | None:
    if not isinstance(type, TensorType) or type.dims is None:
        return type
    return TensorType(type.dtype, tuple(None if dim == 0 else dim for dim in type.dims))


def _is_known(type: Type | None) -> bool:
    return isinstance(type, TensorType) or (type is not None and _is_known(type.element))


def _only_as_float32(schema: Schema, index: int, v: Variable | None) -> bool:
    """Return whether a float64 operand is in a slot where an oracle accepts it and the schema only float32"""
    declared = schema.input_at(index)
    if declared is None or v is None or not isinstance(v.type, TensorType) or v.type.dtype != _FLOAT64:
        return False
    return not schema.allows(declared.typestr, _FLOAT64) and schema.allows(declared.typestr, _FLOAT32)


def _as_float64(type: Type | None) -> Type | None:
    return TensorType(_FLOAT64, type.dims) if isinstance(type, TensorType) and type.dtype == _FLOAT32 else type


def _as_node(operator: Operator) -> tuple[NodeProto, dict[str, TypeProto], dict[str, TensorProto]]:
    node = NodeProto(op_type=operator.type, domain=operator.domain)
    types: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for i, v in enumerate(operator.inputs):
        name = "" if v is None else f"x{i}"
        node.input.append(name)
        if v is None or v.type is None:
            continue
        types[name] = fill_type(TypeProto(), v.type)
        constant = _small_constant(v)
        if constant is not None:
            data[name] = numpy_helper.from_array(constant, name)
    node.output.extend("" if v is None else f"y{i}" for i, v in enumerate(operator.outputs))
    for key, value in operator.attrs.items():
        if not isinstance(value, AttributeReference):
            fill_attribute(node.attribute.add(), key, value, attribute_type(operator, key, value))
    return node, types, data


def _small_constant(v: Variable) -> np.ndarray[Any, Any] | None:
    if v.value is not None and not v.persistable and v.value.size <= 64 and v.value.dtype.name != "string":
        return v.value.numpy()
    if v.entries is not None and isinstance(v.type, TensorType) and all(isinstance(entry, int) for entry in v.entries):
        return np.array(v.entries, v.type.dtype.numpy).reshape(v.static_shape or ())
    return None


def _operand_text(operator: Operator) -> str:
    return ", ".join("absent" if v is None else repr(v) for v in operator.inputs)


def _check(operator: Operator, schema: Schema) -> None:
    """Operand count, attribute names, and one element type per type variable."""
    if operator.domain == "" and operator.attrs:
        for name in operator.attrs:
            if name not in schema.attributes:
                raise IllTyped(f"{operator}: there is no attribute {name!r}; it has {sorted(schema.attributes)}.")
    for name in schema.required:
        if name not in operator.attrs:
            raise IllTyped(f"{operator}: the attribute {name!r} is required.")
    present = len(operator.inputs)
    if present < schema.min_input or (present > len(schema.inputs) and not (schema.inputs and schema.inputs[-1].variadic)):
        raise IllTyped(f"{operator}: {present} operands given; its inputs are {[o.name for o in schema.inputs]}.")
    bound: dict[str, DType] = {}
    for index, v in enumerate(operator.inputs):
        declared = schema.input_at(index)
        if declared is None:
            continue
        if v is None:
            if not declared.optional and not declared.variadic:
                raise IllTyped(f"{operator}: the input {declared.name!r} is missing.")
            continue
        if not isinstance(v.type, TensorType):
            continue
        dtype = v.type.dtype
        if operator.block.program.is_oracle and _only_as_float32(schema, index, v):
            dtype = _FLOAT32
        if not schema.allows(declared.typestr, dtype) and "seq" not in declared.typestr.lower():
            if not any(name.startswith(("seq(", "optional(")) for name in schema.typestrs.get(declared.typestr, ())):
                raise IllTyped(f"{operator}: {declared.name!r} cannot be {dtype.name} ({v!r}). Cast it first.")
        homogeneous = not (declared.variadic and not schema.raw.inputs[declared.index].is_homogeneous)
        if declared.typestr in schema.typestrs and homogeneous:
            first = bound.setdefault(declared.typestr, dtype)
            if first != dtype:
                raise IllTyped(
                    f"{operator}: {declared.name!r} is {dtype.name} but must be {first.name} like the others "
                    f"({_operand_text(operator)}). Cast one of them."
                )


# Bodies ------------------------------------------------------------------------------------------------------------


def _infer_if(operator: Operator) -> Found:
    then, other = operator.attrs["then_branch"], operator.attrs["else_branch"]
    if len(then.outputs) != len(other.outputs):
        raise IllTyped(f"{operator}: the branches return {len(then.outputs)} and {len(other.outputs)} values.")
    return [(join_types(a.type, b.type), None) for a, b in zip(then.outputs, other.outputs, strict=True)]


def _prepend(length: Dim, type: Type | None, axis: int = 0) -> Type | None:
    if not isinstance(type, TensorType) or type.dims is None:
        return type
    dims = list(type.dims)
    dims.insert(axis if axis >= 0 else len(dims) + 1 + axis, length)
    return TensorType(type.dtype, tuple(dims))


def _infer_loop(operator: Operator) -> Found:
    body = operator.attrs["body"]
    carried = len(operator.inputs) - 2
    states = [join_types(v.type, w.type) for v, w in zip(body.inputs[2:], body.outputs[1 : 1 + carried], strict=True)]
    limit, condition = operator.inputs[:2]
    length: Dim = None
    never_stops = _is_true(body.outputs[0]) and (condition is None or _is_true(condition))
    if limit is not None and limit.entries is not None and never_stops:
        length = limit.entries[0]
    results: Found = [(t, None) for t in states]
    return results + [(_prepend(length, v.type), None) for v in body.outputs[1 + carried :]]


def _is_true(v: Variable) -> bool:
    """Whether a condition is a constant that holds"""
    return v.op is None and v.value is not None and not v.persistable and bool(v.value.numpy().all())


def _infer_scan(operator: Operator) -> Found:
    body, scanned = operator.attrs["body"], operator.attrs["num_scan_inputs"]
    if operator.schema is not None and operator.schema.since < 9:
        return [(None, None)] * len(operator.outputs)
    states = len(operator.inputs) - scanned
    results: Found = [(join_types(v.type, w.type), None) for v, w in zip(body.inputs[:states], body.outputs[:states], strict=True)]
    axes = operator.attrs.get("scan_output_axes") or [0] * (len(body.outputs) - states)
    length: Dim = None
    in_axes = operator.attrs.get("scan_input_axes") or [0] * scanned
    for v, axis in zip(operator.inputs[states:], in_axes, strict=True):
        if v is not None and v.dims is not None and length is None:
            length = v.dims[axis]
    for v, axis in zip(body.outputs[states:], axes, strict=True):
        results.append((_prepend(length, v.type, axis), None))
    return results


def _infer_sequence_map(operator: Operator) -> Found:
    return [(SequenceType(v.type), None) for v in operator.attrs["body"].outputs]


_BODIES = {"If": _infer_if, "Loop": _infer_loop, "Scan": _infer_scan, "SequenceMap": _infer_sequence_map}


# Messages ----------------------------------------------------------------------------------------------------------


def read_type(proto: TypeProto | None) -> Type | None:
    """Our description of an ONNX type; None for what we do not describe (maps, sparse tensors)."""
    if proto is None:
        return None
    type_case = proto.WhichOneof("value")
    if type_case == "tensor_type":
        tensor = proto.tensor_type
        if tensor.elem_type == 0:
            return None
        dims: tuple[Dim, ...] | None = None
        if tensor.HasField("shape"):
            dims = tuple(_read_dim(d) for d in tensor.shape.dim)
        return TensorType(from_onnx_number(tensor.elem_type), dims)
    if type_case == "sequence_type":
        return SequenceType(read_type(proto.sequence_type.elem_type))
    if type_case == "optional_type":
        return OptionalType(read_type(proto.optional_type.elem_type))
    return None


def _read_dim(proto: Any) -> Dim:
    """A number, a symbol, or None; some exporters write an unknown dimension as -1."""
    if proto.HasField("dim_value"):
        return proto.dim_value if proto.dim_value >= 0 else None
    return proto.dim_param or None


def fill_type(proto: TypeProto, type: Type) -> TypeProto:
    """Write our description into an ONNX message."""
    if isinstance(type, TensorType):
        proto.tensor_type.elem_type = type.dtype.number
        if type.dims is not None:
            shape = proto.tensor_type.shape
            shape.ClearField("dim")
            for dim in type.dims:
                entry = shape.dim.add()
                if isinstance(dim, int):
                    entry.dim_value = dim
                elif dim is not None:
                    entry.dim_param = dim
    elif isinstance(type, SequenceType):
        proto.sequence_type.SetInParent()
        if type.element is not None:
            fill_type(proto.sequence_type.elem_type, type.element)
    else:
        proto.optional_type.SetInParent()
        if type.element is not None:
            fill_type(proto.optional_type.elem_type, type.element)
    return proto


def attribute_type(operator: Operator, name: str, value: Any) -> int:
    """ONNX attribute type of a value; the schema or the imported file decides where the value does not."""
    if operator.attr_info is not None and name in operator.attr_info:
        return operator.attr_info[name].kind
    schema = operator.schema
    if schema is not None and name in schema.attributes:
        return schema.attributes[name]
    if isinstance(value, AttributeReference):
        return value.kind
    sample = value[0] if isinstance(value, list) and value else value
    attr_types: dict[type, int] = {int: 2, float: 1, str: 3, bytes: 3, TensorValue: 4}
    attr_type = attr_types.get(type(sample), 5 if hasattr(sample, "ops") else 2)
    return attr_type + 5 if isinstance(value, list) else attr_type


def fill_attribute(proto: AttributeProto, name: str, value: Any, kind: int) -> None:
    """Write an attribute that holds no sub-graph."""
    proto.name = name
    proto.type = kind  # type: ignore[assignment]
    if kind == AttributeProto.FLOAT:
        proto.f = float(value)
    elif kind == AttributeProto.INT:
        proto.i = int(value)
    elif kind == AttributeProto.STRING:
        proto.s = value if isinstance(value, bytes) else str(value).encode()
    elif kind == AttributeProto.TENSOR:
        proto.t.CopyFrom(_tensor_proto(value))
    elif kind == AttributeProto.FLOATS:
        proto.floats.extend(float(v) for v in value)
    elif kind == AttributeProto.INTS:
        proto.ints.extend(int(v) for v in value)
    elif kind == AttributeProto.STRINGS:
        proto.strings.extend(v if isinstance(v, bytes) else str(v).encode() for v in value)
    elif kind == AttributeProto.TENSORS:
        proto.tensors.extend(_tensor_proto(v) for v in value)
    elif kind == AttributeProto.TYPE_PROTO:
        proto.tp.CopyFrom(value if isinstance(value, TypeProto) else fill_type(TypeProto(), value))
    elif kind == AttributeProto.SPARSE_TENSOR:
        proto.sparse_tensor.CopyFrom(value)
    else:
        raise IllTyped(f"attribute {name!r} has a kind ({kind}) that cannot be written.")


def _tensor_proto(tensor: TensorValue) -> TensorProto:
    return tensor.origin if tensor.origin is not None else numpy_helper.from_array(tensor.numpy())


assert onnx.__version__
