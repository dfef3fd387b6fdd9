"""to_onnx, save_onnx: a Program as an ONNX model.

Tests: tests/core/interop/test_round_trip.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from onnxgrad.core.compile import Graph, compile
from onnxgrad.core.graph import verify
from onnxgrad.core.graph.contract import Lowering
from onnxgrad.core.interop.external_data import embed, is_external
from onnxgrad.core.interop.messages import renamed_devices, unread
from onnxgrad.core.interop.model_file import Stored, bytes_of_array, fits_message, write_model_file
from onnxgrad.core.interop.onnx_import import FREE_INITIALIZERS, FROZEN_KEY, Imported
from onnxgrad.core.interop.validate import ORIGIN_KEY, REDUCTION_KEY, ROLE_KEY
from onnxgrad.core.interop.weights import is_table
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.infer import attribute_type, fill_attribute, fill_type
from onnxgrad.core.ir.limits import bytes_needed
from onnxgrad.core.ir.named import Named, as_variables
from onnxgrad.core.ir.newest import fits_newest
from onnxgrad.core.ir.operator import AttributeReference, Operator, Role
from onnxgrad.core.ir.opset import NEWEST, NEWEST_IR
from onnxgrad.core.ir.program import Function, Program
from onnxgrad.core.ir.types import shown_type
from onnxgrad.core.ir.variable import Variable, present_value
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import ArgumentError, ExternalDataError, NotInitialized
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.collector import collector_paused

__all__ = ["Values", "save_graph", "save_onnx", "to_onnx", "write_model"]

Values: TypeAlias = Mapping[Variable, np.ndarray[Any, Any]]


@checked
def to_onnx(program: Program, outputs: Named | None = None, *, lowering: Lowering | None = None) -> ModelProto:
    """Write a program as an ONNX model that runs as it is: newest weights as initializers.

    Args:
        program: any program.
        outputs: variables or names to compute; everything they do not need is left out. None for the program's own
            outputs, which keeps its forward operators exactly as they were loaded.
        lowering: ``"cpu"``, ``"cuda"`` or another provider (``PROVIDERS``) for the forms that it needs or runs faster;
            None for plain ones.

    Returns:
        A model that passes ``onnx.checker`` whenever the one it came from did.

    Raises:
        ArgumentError: if ``outputs`` is None and the program has no outputs of its own, or no lowering has this name.
        FetchError: if an output is not in the program.
        ArgumentTypeError: if an output is neither a variable nor a name.
        NotInitialized: if a weight has no value yet.
    """
    chosen = None if outputs is None else as_variables(program, outputs)
    return write_model(compile(program, chosen, lowering))


@checked
def save_onnx(
    program: Program,
    path: str | Path,
    outputs: Named | None = None,
    *,
    lowering: Lowering | None = None,
    external_data: Literal["keep"] | None = None,
) -> None:
    """Write ``to_onnx(program, outputs, lowering=lowering)`` to a file, under a temporary name first.

    External weights that stay beside the file are referred to; others, and models above 2 GB, are packed into
    ``<path>.data``. No more than one weight is copied at a time.

    Args:
        external_data: ``"keep"`` to leave weights that nothing has changed in the files that they were loaded from, whatever
            the size of the others; ``path`` must be in the folder of these files or above it.

    Raises:
        the errors of ``to_onnx``; FileError (an OSError) if the file cannot be written, ExternalDataError if a weight
            cannot be read, or not be kept where it is.
    """
    if external_data not in (None, "keep"):
        raise ArgumentError(f"external_data is 'keep' or None, not {external_data!r}.")
    chosen = None if outputs is None else as_variables(program, outputs)
    save_graph(compile(program, chosen, lowering), Path(path), keeps=external_data is not None)


def save_graph(
    graph: Graph,
    path: Path,
    values: Values | None = None,
    metadata: Mapping[str, str] | None = None,
    *,
    keeps: bool = False,
    copies: bool = False,
) -> None:
    """Write the message of a graph, with further metadata, to a file; no more than one weight is copied at a time.

    Args:
        keeps: whether weights that nothing has changed must be left in the files that they were loaded from.
        copies: whether they must not be, so that the model depends on no file but ``<path>.data``.

    Raises:
        FileError: if a file cannot be written, ExternalDataError if a weight cannot be read, NotInitialized if it has no value.
    """
    tensors: list[Stored] = []
    model = write_model(graph, values, stored=tensors)
    _write_metadata(model, dict(metadata or {}))
    imported = graph.source.imported
    write_model_file(model, tensors, path, imported.folder if isinstance(imported, Imported) else None, keeps=keeps, copies=copies)


def write_model(
    graph: Graph,
    values: Values | None = None,
    *,
    embeds: bool = False,
    apart: Sequence[Variable] = (),
    stored: list[Stored] | None = None,
) -> ModelProto:
    """The ONNX message of a graph.

    Args:
        graph: compiled from a program.
        values: of initializers, by variable of the graph, instead of what the scope holds.
        embeds: whether it is for a session, which is fed all inputs and does not ask who wrote an operator.
        apart: initializers that a session is given by other means; the message has their types.
        stored: a list that takes the initializers of the main graph instead of the message, to be written later. Without it
            what lies in external files comes into the message, which then needs no files.

    Raises:
        ExternalDataError: if external files hold more than a message can.
    """
    program = graph.source
    if stored is None and not embeds:
        _check_size(graph)
    model = ModelProto(ir_version=graph.program.ir_version)
    _set_present(
        model,
        producer_name=program.producer[0],
        producer_version=program.producer[1],
        doc_string=program.doc,
        domain=program.domain,
        model_version=program.model_version,
    )
    _write_header(model, graph)
    block = graph.program.global_block()
    model.graph.name = block.name or "main"
    model.graph.MergeFromString(block.unread)
    _set_present(model.graph, doc_string=block.doc)
    _write_metadata(model.graph, block.metadata)
    writer = _Writer(graph.scope, values or {}, as_loaded=graph.is_whole, embeds=embeds, apart=apart, reads_files=stored is None)
    with collector_paused():
        writer.write_main(model.graph, graph, stored)
        for function in graph.program.functions.values():
            model.functions.append(_write_function(function))
    if 0 < model.ir_version < FREE_INITIALIZERS and {v.name for v in graph.initializers} - {v.name for v in graph.inputs}:
        model.ir_version = FREE_INITIALIZERS
    return model


def _check_size(graph: Graph) -> None:
    """Refuse to read weights of external files into a message that cannot hold them"""
    sizes = {v: bytes_needed(v.dtype, v.static_shape or ()) for v in graph.initializers}
    if not fits_message(sum(sizes.values())):
        outside = next((v for v in sizes if v.value is not None and is_external(v.value.origin)), None)
        if outside is not None:
            message = f"tensor {outside.name!r} lies in a file, and with it the model takes {sum(sizes.values()) / 2**30:.1f} GB"
            raise ExternalDataError(
                f"{message}, more than one protobuf message may hold. Write files: save_onnx, or save_training_step."
            )


def _check_message(graph: Graph) -> None:
    """Let onnx check what would be written, between two passes; graphs of many weights would take long."""
    if sum(prod(v.static_shape or ()) for v in graph.initializers) <= _CHECKED:
        onnx.checker.check_model(write_model(graph), full_check=True)


_CHECKED = 2**20
verify.CHECKS.append(_check_message)


def _write_header(model: ModelProto, graph: Graph) -> None:
    program = graph.source
    imports = list(graph.program.opset_imports)
    for domain in sorted({op.domain for op in graph.operators}):
        if all(domain != name for name, _ in imports) and not (domain == "" and any(n == "ai.onnx" for n, _ in imports)):
            imports.append((domain, 1))
    if not graph.is_whole and (graph.program.opset_version() or 1) > NEWEST and fits_newest(graph.operators):
        # An expansion may have replaced the operator that kept the program in a newer opset.
        imports = [(domain, NEWEST if domain in ("", "ai.onnx") else version) for domain, version in imports]
        model.ir_version = min(model.ir_version, NEWEST_IR)
    for domain, version in imports:
        model.opset_import.add(domain=domain, version=version)
    metadata = dict(program.metadata)
    frozen = [p.name for p in program.parameters if p.stop_gradient and not is_table(p)]
    if frozen:
        metadata[FROZEN_KEY] = "\n".join(frozen)
    _write_metadata(model, metadata)
    if isinstance(program.imported, Imported):
        model.MergeFromString(program.imported.unread)
        model.configuration.extend(program.imported.configuration)
        if graph.is_whole:
            model.training_info.extend(program.imported.training_info)
            model.graph.quantization_annotation.extend(program.imported.quantization_annotation)


_ROLES = {role: role.name.lower() for role in Role}
_text = json.JSONEncoder(ensure_ascii=False).encode


def _set_present(message: Any, **fields: Any) -> None:
    """Set only what has a value, so that an absent field of the original stays absent."""
    for name, value in fields.items():
        if value:
            setattr(message, name, value)


def _write_metadata(message: Any, metadata: dict[str, str] | None) -> None:
    for key, value in (metadata or {}).items():
        entry = message.metadata_props.add()
        entry.key, entry.value = key, value


class _Writer:
    """Writes the blocks of a graph; weights have their newest value in a scope."""

    def __init__(
        self,
        scope: Scope,
        values: Values,
        as_loaded: bool = True,
        embeds: bool = False,
        apart: Sequence[Variable] = (),
        reads_files: bool = False,
    ) -> None:
        self.scope = scope
        self.values = values
        self.as_loaded = as_loaded
        self.embeds = embeds
        self.apart = set(apart)
        self.reads_files = reads_files

    def write_main(self, proto: GraphProto, graph: Graph, stored: list[Stored] | None) -> None:
        for v in graph.inputs:
            self._write_info(proto.input.add(), v, v.name)
        for name, v in graph.outputs:
            self._write_info(proto.output.add(), v, name)
        held = set(graph.initializers)
        # A session is fed all inputs.
        defaults = [] if self.embeds else [v for v in graph.inputs if v.default is not None and v not in held]
        for v in [*graph.initializers, *defaults]:
            if stored is None or not self._store(stored, v):
                self._write_initializer(proto, v)
                if stored is not None and proto.initializer:
                    stored.append(Stored(proto.initializer.pop()))
        for op in graph.operators:
            self._write_node(proto.node.add(), op)
        self._write_types(proto, graph.program.global_block())

    def _write_types(self, proto: GraphProto, block: Block) -> None:
        """Types of inner values that the file declares; a rewriting may have changed them."""
        for v in block.value_infos:
            if v.declared is not None or v.type is not None:
                self._write_info(proto.value_info.add(), v, v.name)

    def _write_info(self, info: ValueInfoProto, v: Variable, name: str) -> None:
        if v.declared is not None and v.declared.name == name:
            info.CopyFrom(v.declared)
            if not self.as_loaded:
                _open_negative_sizes(info.type)
            return
        if v.declared is not None:
            info.MergeFromString(unread(v.declared))
        info.name = name
        _set_present(info, doc_string=v.doc)
        shown = shown_type(v.type)
        if shown is not None:
            fill_type(info.type, shown)

    def _write_initializer(self, proto: GraphProto, v: Variable) -> None:
        if v in self.apart:
            shape = v.value.shape if v.value is not None else v.static_shape
            absent = proto.initializer.add(name=v.name, data_type=v.dtype.number, dims=shape)
            absent.data_location = TensorProto.EXTERNAL
            absent.external_data.add(key="location", value="given to the session")
            return
        array = self.values.get(v)
        if array is None and v.persistable:
            array = self.scope.get(v.name)
        value = v.value or v.default
        if array is None and value is not None:
            origin = value.origin
            if isinstance(origin, SparseTensorProto) and self.as_loaded and not (self.reads_files and is_external(origin)):
                proto.sparse_initializer.add().CopyFrom(origin)
                proto.sparse_initializer[-1].values.name = v.name
                return
            if isinstance(origin, TensorProto):
                proto.initializer.add().CopyFrom(origin)
                proto.initializer[-1].name = v.name
                if self.reads_files and is_external(origin):
                    embed(proto.initializer[-1], value)
                return
            array = value.numpy()
        if array is None:
            raise NotInitialized(f"parameter {v.name} has no value yet. Run the startup program first.")
        proto.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), v.name))
        proto.initializer[-1].MergeFromString(_unread_of(v))

    def _store(self, stored: list[Stored], v: Variable) -> bool:
        """Return whether an initializer could be left for later: as it was loaded, or a new value of a type with whole bytes"""
        if v in self.values:
            return False
        present = self.scope.present(v.name) if v.persistable else None
        if present is None or (isinstance(present, Buffer) and present.origin is not None and present.origin is v.value):
            if v.value is None:
                return False
            if isinstance(v.value.origin, TensorProto) and v.value.origin.name == v.name:
                stored.append(Stored(v.value.origin))
                return True
            if v.value.origin is not None:
                return False
        if v.dtype.bits < 8 or v.dtype.name == "string":
            return False
        if present is None:
            assert v.value is not None
            shape, read = list(v.value.shape), v.value.numpy
        else:
            shape = list(present.value.shape() if isinstance(present, Buffer) else present.shape)

            def read() -> np.ndarray[Any, Any]:
                return present_value(self.scope, v)

        header = TensorProto(name=v.name, data_type=v.dtype.number, dims=shape)
        header.MergeFromString(_unread_of(v))
        stored.append(Stored(header, bytes_needed(v.dtype, shape), lambda: bytes_of_array(read())))
        return True

    def _write_node(self, node: NodeProto, op: Operator) -> None:
        node.op_type = op.type
        if op.name:
            node.name = op.name
        if op.domain or op.doc or op.overload:
            _set_present(node, domain=op.domain, doc_string=op.doc, overload=op.overload)
        node.input.extend(["" if v is None else v._name for v in op.inputs])
        if self.embeds and op.schema is not None:
            # onnxruntime's LayerNormalization reads memory that is not there for an empty name at the end.
            while len(node.input) > op.schema.min_input and not node.input[-1]:
                del node.input[-1]
        node.output.extend(["" if v is None else v._name for v in op.outputs])
        for key, value in op.attrs.items():
            self._write_attribute(node.attribute.add(), op, key, value)
        if op.metadata:
            _write_metadata(node, op.metadata)
        if not self.embeds:
            self._write_provenance(node, op)
            self._write_unread(node, op)
        if op.type == "Constant" and op.outputs and op.outputs[0] is not None and op.outputs[0].persistable:
            self._write_trained_constant(node, op.outputs[0])

    def _write_provenance(self, node: NodeProto, op: Operator) -> None:
        """Say what wrote an operator and what ranks do with it; a session does not ask"""
        if op.role is not Role.FORWARD:
            entry = node.metadata_props.add()
            entry.key, entry.value = ROLE_KEY, _ROLES[op.role]
        if op.origin is not None:
            of = "" if op.origin.of is None else op.origin.of.name
            entry = node.metadata_props.add()
            entry.key, entry.value = ORIGIN_KEY, f"[{_text(op.origin.rule)}, {_text(op.origin.piece)}, {_text(of)}]"
        if op.reduction:
            _write_metadata(node, {REDUCTION_KEY: op.reduction})

    def _write_unread(self, node: NodeProto, op: Operator) -> None:
        """Fields of the file that nobody here reads; of operands that the operator has no more, nothing is said"""
        if op.unread is None:
            return
        node.MergeFromString(op.unread.content)
        if hasattr(node, "device_configurations"):
            operands, results = op.unread.names[: op.unread.operands], op.unread.names[op.unread.operands :]
            renamed_devices(node, dict(zip(operands, node.input)) | dict(zip(results, node.output)))

    def _write_trained_constant(self, node: NodeProto, v: Variable) -> None:
        newest = self.scope.get(v.name)
        if newest is not None:
            del node.attribute[:]
            attribute = node.attribute.add()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(numpy_helper.from_array(newest))
            attribute.t.MergeFromString(_unread_of(v))

    def _write_attribute(self, proto: AttributeProto, op: Operator, key: str, value: Any) -> None:
        attr_type = attribute_type(op, key, value)
        if isinstance(value, AttributeReference):
            proto.name, proto.ref_attr_name, proto.type = key, value.name, attr_type  # type: ignore[assignment]
        elif isinstance(value, Block):
            proto.name, proto.type = key, AttributeProto.GRAPH
            self._write_body(proto.g, value)
        elif isinstance(value, list) and value and isinstance(value[0], Block):
            proto.name, proto.type = key, AttributeProto.GRAPHS
            for body in value:
                self._write_body(proto.graphs.add(), body)
        else:
            fill_attribute(proto, key, value, attr_type)
            if self.reads_files and attr_type == AttributeProto.TENSOR and is_external(proto.t):
                embed(proto.t, value)
        if op.attr_info is not None and key in op.attr_info:
            _set_present(proto, doc_string=op.attr_info[key].doc)
            proto.MergeFromString(op.attr_info[key].unread)

    def _write_body(self, proto: GraphProto, body: Block) -> None:
        proto.MergeFromString(body.unread)
        proto.name = body.name or "body"
        _set_present(proto, doc_string=body.doc)
        _write_metadata(proto, body.metadata)
        for v in body.inputs:
            self._write_info(proto.input.add(), v, v.name)
        for v in body.outputs:
            self._write_info(proto.output.add(), v, v.name)
        for v in body.initializers:
            self._write_initializer(proto, v)
        for op in body.ops:
            self._write_node(proto.node.add(), op)
        self._write_types(proto, body)


def _unread_of(v: Variable) -> bytes:
    """Fields of the tensor that the file had for a weight, besides its value"""
    origin = None if v.value is None else v.value.origin
    return unread(origin) if isinstance(origin, TensorProto) else b""


def _open_negative_sizes(type: TypeProto) -> None:
    """Some exporters write an unknown size as -1, which onnx's inference takes for a number that a computed shape contradicts."""
    for dim in type.tensor_type.shape.dim if type.tensor_type.HasField("shape") else ():
        if dim.dim_value < 0:
            dim.ClearField("dim_value")


def _write_function(function: Function) -> Any:
    if function.origin is not None:
        return function.origin
    proto = onnx.FunctionProto(name=function.name, domain=function.domain, overload=function.overload, doc_string=function.doc)
    proto.input.extend(function.input_names)
    proto.output.extend(v.name for v in function.body.outputs)
    proto.attribute.extend(function.attribute_names)
    for domain, version in function.body.program.opset_imports:
        proto.opset_import.add(domain=domain, version=version)
    proto.MergeFromString(function.unread)
    writer = _Writer(Scope(), {})
    for v in function.body.initializers:
        if v.op is None and v.value is not None:
            proto.node.append(helper.make_node("Constant", [], [v.name], value=numpy_helper.from_array(v.value.numpy(), v.name)))
    for op in function.body.ops:
        writer._write_node(proto.node.add(), op)
    for key, value in function.attribute_defaults.items():
        fill_attribute(proto.attribute_proto.add(), key, value, attribute_type(Operator(function.body, "", [], []), key, value))
    _write_metadata(proto, function.metadata)
    return proto
