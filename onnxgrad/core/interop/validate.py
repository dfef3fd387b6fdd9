"""The door: what a message must be before anything else believes it.

It refuses what onnxruntime refuses too, and nothing that it runs: operands and attributes that the operator's schema does not
have, bodies that do not fit, tensors without their data, functions that call themselves, text that is not UTF-8. What lies
behind, the reader, inference, the passes and the gradient rules, need not look again.

Tests: tests/core/interop/test_damaged_files.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, TypeProto

from onnxgrad.core.interop.messages import bodies_of
from onnxgrad.core.ir.contrib_schemas import contrib_schema
from onnxgrad.core.ir.equation import is_equation
from onnxgrad.core.ir.limits import DEEPEST_CALL, bytes_needed, is_overgrown, largest_tensor, size_text
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN, Operand, Schema, find_schema
from onnxgrad.dtypes import DType, from_onnx_number
from onnxgrad.errors import ArgumentTypeError, ModelError

__all__ = ["ORIGIN_KEY", "REDUCTION_KEY", "ROLE_KEY", "check_dims", "check_model", "parsed_origin"]

ROLE_KEY = "onnxgrad.role"
ORIGIN_KEY = "onnxgrad.origin"
"""Which rule wrote a node, as which piece, and for which result, as a list of three texts in JSON."""
REDUCTION_KEY = "onnxgrad.reduction"


def parsed_origin(text: str) -> tuple[str, str, str] | None:
    """Rule, piece and the name of a result, which may be empty; None where the text is something else."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_origin = isinstance(fields, list) and len(fields) == 3 and all(isinstance(part, str) for part in fields)
    return (fields[0], fields[1], fields[2]) if is_origin else None


_LARGEST_OPSET = 2**31 - 1
_LARGEST_AXIS = 2**31
_SPARSE_BYTES, _SPARSE_GROWTH = 2**31, 1000
_FIELDS: dict[int, str] = {
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
}
_KINDS = AttributeProto.AttributeType
_ADVICE = "The model is damaged; fetch the file again."


def check_model(model: ModelProto) -> None:
    """Refuse a message that is not a well-formed model.

    Raises:
        ModelError: naming what is wrong, and where.
    """
    _check_text(model)
    imports = _imports(model.opset_import) or {"": 1}
    functions = {_key(f): f for f in model.functions}
    if len(functions) < len(model.functions):
        raise ModelError(f"two functions of the model have the same domain and name. {_ADVICE}")
    door = _Door(functions)
    door.check_graph(model.graph, imports, None)
    for function in model.functions:
        door.check_function(function, imports)
    _check_calls(model, functions)


# Text ----------------------------------------------------------------------------------------------------------------


def _check_text(message: Any) -> None:
    """Text that is not UTF-8 comes as bytes, or as an error, wherever it is read first: so all of it is read here."""
    parts: list[Any] = []
    texts: list[Any] = []
    try:
        if isinstance(message, TensorProto):
            # Not its data: reading that would copy it.
            texts = [message.name, message.doc_string]
            parts = [*message.external_data, *message.metadata_props]
        else:
            for field, value in message.ListFields():
                holds = _HOLDS.get(field) or _HOLDS.setdefault(field, _held_by(field, value))
                if holds == "texts":
                    texts += value
                elif holds == "text":
                    texts.append(value)
                elif holds == "entries":
                    for entry in value:
                        texts += (entry.key, entry.value)
                elif holds == "parts":
                    parts += value
                elif holds == "part":
                    parts.append(value)
        "".join(texts)
        readable = True
    except (TypeError, UnicodeDecodeError):
        readable = False
    if not readable:
        raise ModelError(f"a text in a {type(message).__name__} of the model is not UTF-8. {_ADVICE}")
    for part in parts:
        _check_text(part)


_HOLDS: dict[FieldDescriptor, str] = {}
"""By field of a message: what of it is looked at."""


def _held_by(field: FieldDescriptor, value: Any) -> str:
    """``"text"`` or ``"part"``, their plural for lists, ``"entries"`` for lists of metadata, or ``"numbers"``"""
    if field.type == FieldDescriptor.TYPE_STRING:
        return "text" if isinstance(value, (str, bytes)) else "texts"
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        return "numbers"
    if hasattr(value, "ListFields"):
        return "part"
    return "entries" if field.message_type.name == "StringStringEntryProto" else "parts"


def _imports(entries: Iterable[Any]) -> dict[str, int]:
    """Versions by domain; the first counts."""
    versions: dict[str, int] = {}
    for entry in entries:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if not 0 <= entry.version <= _LARGEST_OPSET or (domain == "" and entry.version == 0):
            raise ModelError(f"the opset version {entry.version} of domain {entry.domain!r} does not exist. {_ADVICE}")
        versions.setdefault(domain, entry.version)
    return versions


# Graphs and nodes ----------------------------------------------------------------------------------------------------


class _Door:
    """Checks graphs that may call ``functions``."""

    def __init__(self, functions: dict[tuple[str, str, str], FunctionProto]) -> None:
        self.functions = functions

    def check_function(self, function: FunctionProto, imports: dict[str, int]) -> None:
        label = f"the function {function.domain}:{function.name}"
        names = [*function.input, *function.attribute, *(a.name for a in function.attribute_proto)]
        if not function.name or not all([*names, *function.output]) or len(set(function.input)) < len(function.input):
            raise ModelError(f"{label} has an input, output or attribute without a name, or one twice. {_ADVICE}")
        versions = _imports(function.opset_import) or imports
        for attribute in function.attribute_proto:
            self._check_attribute(label, attribute, None, versions, None)
        for info in function.value_info:
            check_type(info.type, info.name)
        for node in function.node:
            self._check_node(node, versions, function)

    def check_graph(self, graph: GraphProto, imports: dict[str, int], function: FunctionProto | None) -> None:
        for info in (*graph.input, *graph.output):
            if not info.name:
                raise ModelError(f"an input or output of the graph {graph.name!r} has no name. {_ADVICE}")
        for info in (*graph.input, *graph.output, *graph.value_info):
            check_type(info.type, info.name)
        for tensor in graph.initializer:
            if not tensor.name:
                raise ModelError(f"an initializer of the graph {graph.name!r} has no name. {_ADVICE}")
            check_tensor(tensor)
        for sparse in graph.sparse_initializer:
            if not sparse.values.name:
                raise ModelError(f"a sparse initializer of the graph {graph.name!r} has no name. {_ADVICE}")
            check_sparse(sparse)
        for node in graph.node:
            self._check_node(node, imports, function)

    def _check_node(self, node: NodeProto, imports: dict[str, int], function: FunctionProto | None) -> None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        label = _Label(node)
        if domain == "" and "" not in imports:
            raise ModelError(f"{label}: the file imports no opset of the standard operators. {_ADVICE}")
        called = self.functions.get((node.domain, node.op_type, node.overload))
        schema = find_schema(node.op_type, domain, imports[domain]) if domain in imports else None
        if schema is None and called is None:
            schema = contrib_schema(node.op_type, domain, imports.get(""))
        present: set[str] = set()
        for attribute in node.attribute:
            if attribute.name in present:
                raise ModelError(f"{label}: the attribute {attribute.name!r} is given twice. {_ADVICE}")
            present.add(attribute.name)
            self._check_attribute(label, attribute, schema, imports, function)
        for entry in node.metadata_props:
            key = entry.key
            if key == ROLE_KEY and entry.value.upper() not in Role.__members__:
                raise ModelError(f"{label}: its role {entry.value!r} is none of {sorted(r.name.lower() for r in Role)}. {_ADVICE}")
            if key == REDUCTION_KEY and entry.value not in ("sum", "any"):
                raise ModelError(f"{label}: its reduction {entry.value!r} is neither 'sum' nor 'any'. {_ADVICE}")
            if key == ORIGIN_KEY and parsed_origin(entry.value) is None:
                raise ModelError(f"{label}: its origin {entry.value!r} is not a list of a rule, a piece and a name. {_ADVICE}")
        if schema is not None:
            _check_form(label, node, schema, present)
            if domain == "" and node.op_type == "Einsum":
                _check_equation(label, node)
            if domain == "" and node.op_type == "Split":
                _check_split(label, node)
            if domain == "" and node.op_type in _BODIES:
                _BODIES[node.op_type](label, node, schema)
            return
        if called is not None and (len(node.input) > len(called.input) or len(node.output) > len(called.output)):
            raise ModelError(
                f"{label}: the function takes {len(called.input)} operands and gives {len(called.output)} results, "
                f"the call has {len(node.input)} and {len(node.output)}. {_ADVICE}"
            )

    def _check_attribute(
        self,
        label: object,
        attribute: AttributeProto,
        schema: Schema | None,
        imports: dict[str, int],
        function: FunctionProto | None,
    ) -> None:
        attr_type, name = int(attribute.type), attribute.name
        if not name or attr_type == AttributeProto.UNDEFINED:
            raise ModelError(f"{label}: the attribute {name!r} has no {'type' if name else 'name'}. {_ADVICE}")
        if schema is not None and not name.startswith("__"):
            wanted = schema.attributes.get(name, attr_type if _grows(schema) else None)
            if wanted is None:
                raise ModelError(f"{label}: there is no attribute {name!r}; it has {sorted(schema.attributes)}. {_ADVICE}")
            if wanted != attr_type:
                raise ModelError(
                    f"{label}: the attribute {name!r} is {_KINDS.Name(attr_type)}, not {_KINDS.Name(wanted)}. {_ADVICE}"
                )
        if attribute.ref_attr_name:
            if function is None:
                raise ModelError(f"{label}: the attribute {name!r} refers to one of a function, but is in none. {_ADVICE}")
            if attr_type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                raise ModelError(f"{label}: a body that the caller of a function gives is not read. Write it into the function.")
            return
        if attr_type in _FIELDS and not attribute.HasField(_FIELDS[attr_type]):
            raise ModelError(f"{label}: the attribute {name!r} is empty. {_ADVICE}")
        if schema is not None and name == "axis" and abs(attribute.i) >= _LARGEST_AXIS:
            raise ModelError(f"{label}: there is no axis {attribute.i}. {_ADVICE}")
        if schema is not None and attr_type in (AttributeProto.STRING, AttributeProto.STRINGS):
            for text in (attribute.s, *attribute.strings):
                _decode(label, name, text)
        for tensor in [attribute.t] if attr_type == AttributeProto.TENSOR else attribute.tensors:
            check_tensor(tensor, f"{label}, attribute {name!r}")
        for sparse in [attribute.sparse_tensor] if attr_type == AttributeProto.SPARSE_TENSOR else attribute.sparse_tensors:
            check_sparse(sparse)
        for type in [attribute.tp] if attr_type == AttributeProto.TYPE_PROTO else attribute.type_protos:
            check_type(type, f"{label}, attribute {name!r}")
        for body in [attribute.g] if attr_type == AttributeProto.GRAPH else attribute.graphs:
            self.check_graph(body, imports, function)


class _Label:
    """A node as an Operator prints itself, written when it is printed"""

    __slots__ = ("node",)

    def __init__(self, node: NodeProto) -> None:
        self.node = node

    def __str__(self) -> str:
        node = self.node
        domain = f"{node.domain}:" if node.domain not in ("", "ai.onnx") else ""
        name = f" {node.name!r}" if node.name else ""
        return f"{domain}{node.op_type}{name} (-> {', '.join(filter(None, node.output))})"


def _decode(label: object, name: str, text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{label}: the text of the attribute {name!r} is not UTF-8. {_ADVICE}") from error


def _check_equation(label: object, node: NodeProto) -> None:
    for attribute in node.attribute:
        if not attribute.ref_attr_name and not is_equation(attribute.s.decode()):
            raise ModelError(f"{label}: {attribute.s.decode()!r} is not an equation. {_ADVICE}")


def _check_split(label: object, node: NodeProto) -> None:
    count = _attributes(node).get("num_outputs")
    if count is not None and not count.ref_attr_name and count.i != len(node.output):
        raise ModelError(f"{label}: num_outputs is {count.i}, but there are {len(node.output)}. {_ADVICE}")


def _check_form(label: object, node: NodeProto, schema: Schema, present: set[str]) -> None:
    """The operands and results that the schema asks for, and the attributes that must be there."""
    # consumed_inputs is a hint to memory planners that opset 6 dropped.
    absent = [name for name in schema.required if name not in present and name != "consumed_inputs"]
    if absent:
        raise ModelError(f"{label}: the attribute {', '.join(map(repr, absent))} is required. {_ADVICE}")
    inputs, outputs = _without_end(node.input), _without_end(node.output)
    _check_count(label, "operands", inputs, schema, schema.inputs, schema.min_input)
    _check_count(label, "results", outputs, schema, schema.outputs, 0)
    if not outputs or len(node.output) < schema.min_output:
        raise ModelError(f"{label}: none of its results has a name, or too few have. {_ADVICE}")
    if "" not in node.input:
        return  # so all that are required are there
    for operand in schema.inputs:
        # onnxruntime reads memory that is not there for an empty name among any number of operands, also at their end.
        operands = node.input[operand.index :] if operand.variadic else inputs[operand.index : operand.index + 1]
        if not operand.optional and (not all(operands) or not (operands or operand.variadic)):
            raise ModelError(f"{label}: the input {operand.name!r} is missing. {_ADVICE}")


def _without_end(names: Iterable[str]) -> list[str]:
    """Strip the empty names at the end, which say that optional operands are absent"""
    present = list(names)
    while present and not present[-1]:
        present.pop()
    return present


def _grows(schema: Schema) -> bool:
    """Return whether a newer onnxruntime may know more of an operator without another version of it."""
    return bool(schema.raw.domain == CONTRIB_DOMAIN)


def _check_count(label: object, what: str, names: list[str], schema: Schema, declared: list[Operand], least: int) -> None:
    if least <= len(names) <= len(declared):
        return
    most = math.inf if _grows(schema) or (declared and declared[-1].variadic) else len(declared)
    if not least <= len(names) <= most:
        raise ModelError(f"{label}: {len(names)} {what} given; its {what} are {[o.name for o in declared]}. {_ADVICE}")


# Bodies --------------------------------------------------------------------------------------------------------------


def _attributes(node: NodeProto) -> dict[str, AttributeProto]:
    return {attribute.name: attribute for attribute in node.attribute}


def _check_body(label: object, body: GraphProto, inputs: int, outputs: int, results: int) -> None:
    """Its inputs; ``outputs`` that it has at least; and at least as many as the node has results."""
    if len(body.input) != inputs or len(body.output) < max(outputs, results):
        raise ModelError(
            f"{label}: its body {body.name!r} has {len(body.input)} inputs and {len(body.output)} outputs where "
            f"{inputs} and {max(outputs, results)} belong. {_ADVICE}"
        )


def _check_if(label: object, node: NodeProto, schema: Schema) -> None:
    attributes = _attributes(node)
    then, other = attributes["then_branch"].g, attributes["else_branch"].g
    if len(then.output) != len(other.output):
        raise ModelError(f"{label}: the branches return {len(then.output)} and {len(other.output)} values. {_ADVICE}")
    for branch in (then, other):
        _check_body(label, branch, 0, 0, len(node.output))


def _check_loop(label: object, node: NodeProto, schema: Schema) -> None:
    carried = len(node.input) - 2
    _check_body(label, _attributes(node)["body"].g, 2 + carried, 1 + carried, 1 + len(node.output))


def _check_scan(label: object, node: NodeProto, schema: Schema) -> None:
    attributes = _attributes(node)
    body, scanned = attributes["body"].g, attributes["num_scan_inputs"].i
    operands = len(node.input) - (schema.since < 9)
    if not 1 <= scanned <= operands:
        raise ModelError(f"{label}: num_scan_inputs is {scanned}, of {operands} operands. {_ADVICE}")
    states = operands - scanned
    _check_body(label, body, operands, states, len(node.output))
    for name, count in (("scan_input", scanned), ("scan_output", len(body.output) - states)):
        for ending in ("axes", "directions"):
            attribute = attributes.get(f"{name}_{ending}")
            if attribute is not None and not attribute.ref_attr_name and attribute.ints and len(attribute.ints) != count:
                raise ModelError(f"{label}: {attribute.name} has {len(attribute.ints)} numbers for {count} tensors. {_ADVICE}")


def _check_sequence_map(label: object, node: NodeProto, schema: Schema) -> None:
    _check_body(label, _attributes(node)["body"].g, len(node.input), 0, len(node.output))


_BODIES = {"If": _check_if, "Loop": _check_loop, "Scan": _check_scan, "SequenceMap": _check_sequence_map}


# Types and tensors ---------------------------------------------------------------------------------------------------


def check_type(proto: TypeProto, name: str) -> None:
    """A declared type: elements that exist, and no more of them than fit into memory."""
    type_case = proto.WhichOneof("value")
    if type_case in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, type_case)
        if tensor.elem_type:
            sizes = [dim.dim_value for dim in tensor.shape.dim if dim.HasField("dim_value")]
            # Some exporters write an unknown dimension as -1.
            known = [0] if 0 in sizes else [size for size in sizes if size > 0]
            _check_size(name, _dtype(tensor.elem_type, name), known)
    elif type_case in ("sequence_type", "optional_type"):
        check_type(getattr(proto, type_case).elem_type, name)
    elif type_case == "map_type":
        check_type(proto.map_type.value_type, name)


def _dtype(number: int, name: str) -> DType:
    try:
        return from_onnx_number(number)
    except ArgumentTypeError as error:
        raise ModelError(f"tensor {name!r}: {error} {_ADVICE}") from error


def _check_size(name: str, dtype: DType, dims: Iterable[int]) -> int:
    needed = bytes_needed(dtype, dims)
    if needed > largest_tensor():
        raise ModelError(f"tensor {name!r} would take {size_text(needed)}, more than this machine has. {_ADVICE}")
    return needed


def check_dims(name: str, dims: Iterable[int]) -> tuple[int, ...]:
    """The dimensions of a tensor that holds values."""
    shape = tuple(dims)
    if any(dim < 0 for dim in shape):
        raise ModelError(f"tensor {name!r} has the shape {list(shape)}; a dimension cannot be negative. {_ADVICE}")
    return shape


_TYPED: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.COMPLEX64: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.COMPLEX128: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.STRING: "string_data",
}


def check_tensor(proto: TensorProto, place: str = "") -> None:
    """A tensor whose type exists, whose shape makes sense, and which holds as many elements as its shape says."""
    name = proto.name or place
    dtype = _dtype(proto.data_type, name)
    dims = check_dims(name, proto.dims)
    needed = _check_size(name, dtype, dims)
    if proto.HasField("segment"):
        raise ModelError(f"tensor {name!r} is stored in segments, which are not supported. Store it whole.")
    if proto.data_location == TensorProto.EXTERNAL:
        return
    if proto.HasField("raw_data"):
        if dtype.name == "string" or len(proto.raw_data) != needed:
            raise ModelError(f"tensor {name!r} holds {len(proto.raw_data)} bytes; its type and shape need {needed}. {_ADVICE}")
        return
    held = len(getattr(proto, _TYPED.get(proto.data_type, "int32_data")))
    elements = math.prod(dims)
    allowed = {elements * 2} if dtype.numpy.kind == "c" else {elements, needed} if dtype.bits < 8 else {elements}
    if held not in allowed:
        raise ModelError(f"tensor {name!r} holds {held} elements; its shape {list(dims)} needs {elements}. {_ADVICE}")


def check_sparse(proto: SparseTensorProto) -> None:
    """A sparse tensor whose positions are numbers, as many as values, and whose dense form is of sensible size."""
    name = proto.values.name
    dims = check_dims(name, proto.dims)
    check_tensor(proto.values)
    check_tensor(proto.indices, f"positions of {name!r}")
    held = tuple(proto.values.dims)
    fits = tuple(proto.indices.dims) in (held, (*held, len(dims)))
    if not dims:
        raise ModelError(f"sparse tensor {name!r} has no axes, in which its values would have positions. {_ADVICE}")
    if len(held) != 1 or proto.indices.data_type != TensorProto.INT64 or not fits:
        raise ModelError(f"sparse tensor {name!r}: its positions do not fit its values and its shape {list(dims)}. {_ADVICE}")
    needed = _check_size(name, _dtype(proto.values.data_type, name), dims)
    if needed > _SPARSE_BYTES and needed > _SPARSE_GROWTH * bytes_needed(_dtype(proto.values.data_type, name), held):
        raise ModelError(f"sparse tensor {name!r} of {held[0]} values would take {size_text(needed)} in dense form. Prune it.")


# Functions -----------------------------------------------------------------------------------------------------------


class _Call(NamedTuple):
    """How many nodes a function has once its calls are written out, and how deep they go."""

    nodes: int
    depth: int


def _key(function: FunctionProto) -> tuple[str, str, str]:
    return function.domain, function.name, function.overload


def _nodes_of(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    for node in nodes:
        yield node
        for body in bodies_of(*node.attribute):
            yield from _nodes_of(body.node)


def _check_calls(model: ModelProto, functions: dict[tuple[str, str, str], FunctionProto]) -> None:
    """Refuse functions that call themselves, and those that grow beyond bounds when they are written out."""
    if not functions:
        return
    calls: dict[tuple[str, str, str], _Call] = {}
    open_calls: list[tuple[str, str, str]] = []

    def measure(nodes: Iterable[NodeProto]) -> _Call:
        count = depth = 0
        for node in _nodes_of(nodes):
            key = (node.domain, node.op_type, node.overload)
            inner = call(key) if key in functions else _Call(1, 0)
            count, depth = count + inner.nodes, max(depth, inner.depth)
        return _Call(count, depth)

    def call(key: tuple[str, str, str]) -> _Call:
        if key in open_calls:
            raise ModelError(f"the function {key[0]}:{key[1]} calls itself. Write the repetition as a Loop.")
        if key not in calls:
            depth = len(open_calls)
            if depth < DEEPEST_CALL:
                open_calls.append(key)
                inner = measure(functions[key].node)
                open_calls.pop()
                calls[key] = _Call(inner.nodes, inner.depth + 1)
                depth = inner.depth
            if depth >= DEEPEST_CALL:
                raise ModelError(f"the functions of the model call each other more than {DEEPEST_CALL} deep. Inline some.")
        return calls[key]

    for key in functions:
        call(key)
    written = sum(1 for nodes in (model.graph.node, *(f.node for f in functions.values())) for _ in _nodes_of(nodes))
    whole = measure(model.graph.node).nodes
    if is_overgrown(written, whole):
        raise ModelError(f"the {written} nodes of the model would be {whole} with its functions written out. Simplify them.")
