"""to_onnx, save_onnx: a Program as an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from onnxgrad.errors import ArgumentError, ExternalDataError, FetchError, NotInitialized
from onnxgrad.interop.external_data import is_external, pack_external
from onnxgrad.interop.lowerings import lower
from onnxgrad.interop.onnx_import import FROZEN_KEY, ROLE_KEY, Imported
from onnxgrad.ir.block import Block
from onnxgrad.ir.infer import attribute_kind, fill_attribute, fill_type
from onnxgrad.ir.newest import fits_newest
from onnxgrad.ir.operator import AttributeReference, Operator, Role
from onnxgrad.ir.opset import NEWEST, NEWEST_IR
from onnxgrad.ir.plan import Plan, make_plan
from onnxgrad.ir.program import Function, Program
from onnxgrad.ir.traverse import needed_operators
from onnxgrad.ir.types import shown_type
from onnxgrad.ir.variable import Variable

__all__ = ["Graph", "as_variables", "build_graph", "save_onnx", "to_onnx", "write_model"]

_EXTERNAL_THRESHOLD = 1024
_LARGEST_MESSAGE = 2**31 - 2**20


class Graph:
    """A graph about to be written: operators, inputs, outputs, initializers, with the final names."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.operators: list[Operator] = []
        self.inputs: list[Variable] = []
        self.outputs: list[tuple[str, Variable]] = []
        self.initializers: list[Variable] = []
        self.hoisted: set[int] = set()
        self.plan: Plan | None = None
        self.names: dict[int, str] = {}
        self._renamed: list[Variable] = []
        self.hoists = False

    def rename(self, v: Variable, name: str) -> None:
        """Write a variable under another name. The graph holds it, as another object may get the identity of one that is gone."""
        self.names[id(v)] = name
        self._renamed.append(v)

    def name(self, v: Variable | None) -> str:
        """Name to write; an expansion's result takes the name of what it replaces."""
        if v is None:
            return ""
        if self.plan is not None:
            v = self.plan.resolve(v)
        return self.names.get(id(v), v.name)


def to_onnx(
    program: Program, outputs: Sequence[Variable | str] | Variable | str | None = None, *, lowering: str | None = None
) -> ModelProto:
    """Write a program as an ONNX model that runs as it is: newest weights as initializers.

    Args:
        program: any program.
        outputs: variables or names to compute; everything they do not need is left out. None for the program's own
            outputs, which keeps its forward operators exactly as they were loaded.
        lowering: ``"cpu"`` or ``"cuda"`` for the forms that onnxruntime runs faster there; None for plain ones.

    Returns:
        A model that passes ``onnx.checker`` whenever the one it came from did.

    Raises:
        ArgumentError: if ``outputs`` is None and the program has no outputs of its own, or no lowering has this name.
        FetchError: if an output is not in the program.
        NotInitialized: if a weight has no value yet.
    """
    graph = _inference_graph(program, outputs)
    lower(graph, lowering)
    return write_model(graph)


def save_onnx(
    program: Program,
    path: str | Path,
    outputs: Sequence[Variable | str] | Variable | str | None = None,
    *,
    lowering: str | None = None,
) -> None:
    """Write ``to_onnx(program, outputs, lowering=lowering)`` to a file, under a temporary name first.

    External weights that stay beside the file are referred to; others, and models above 2 GB, are packed into
    ``<path>.data``.

    Raises:
        the errors of ``to_onnx``; OSError if the file cannot be written.
    """
    path = Path(path)
    _write_file(to_onnx(program, outputs, lowering=lowering), path, program)


def build_graph(
    program: Program,
    outputs: list[Variable],
    state_as_inputs: bool = False,
    all_updates: bool = True,
    given: Sequence[Variable] = (),
) -> Graph:
    """Plan a pruned graph for ``outputs``, with state as inputs and outputs if asked; ``given`` are inputs, not computed."""
    updates = list(program.updates.values()) if state_as_inputs and all_updates else []
    graph = Graph(program)
    plan = make_plan(program, [*outputs, *updates], given)
    fed = {id(v) for v in given}
    graph.plan, graph.operators, graph.hoists = plan, plan.operators, True
    stand_ins = {id(v) for v in plan.aliases.values()}
    for original in plan.aliases:
        if id(original) not in stand_ins:
            graph.names[id(plan.resolve(original))] = original.name
    leaves = {id(v) for v in plan.leaves}
    graph.inputs = [v for v in program.global_block().inputs if id(v) in leaves and not v.persistable and v.value is None]
    known = {id(v) for v in graph.inputs}
    for v in plan.leaves:
        if id(v) in known or (v.block.idx != 0 and not v.persistable):
            continue
        if v.persistable and state_as_inputs:
            graph.inputs.append(v)
        elif v.persistable or (v.value is not None and v.op is None):
            graph.initializers.append(v)
        elif id(v) in fed or (v.op is None and v.block.idx == 0):
            graph.inputs.append(v)
        known.add(id(v))
        if v.persistable:
            graph.hoisted.add(id(v))
    taken: set[str] = set()
    for v in [*outputs, *updates]:
        name = graph.name(v)
        if name not in taken:
            taken.add(name)
            graph.outputs.append((name, v))
    return graph


def as_variables(program: Program, outputs: Sequence[Variable | str] | Variable | str) -> list[Variable]:
    items = [outputs] if isinstance(outputs, (Variable, str)) else list(outputs)
    found = []
    for item in items:
        v = item if isinstance(item, Variable) else program.global_block().vars.get(item)
        if v is None or v.block.program is not program:
            name = item if isinstance(item, str) else item.name
            raise FetchError(f"the program has no variable {name!r} in its main block. Check the name, or the program.")
        found.append(v)
    return found


def _inference_graph(program: Program, outputs: Sequence[Variable | str] | Variable | str | None) -> Graph:
    if outputs is not None:
        return build_graph(program, as_variables(program, outputs))
    if not program.outputs:
        raise ArgumentError("this program was built in Python and names no outputs. Pass outputs=[...].")
    block = program.global_block()
    if any(v.op is not None and v.op.role is not Role.FORWARD for v in block.outputs):
        # The file itself returns gradients or updates.
        graph = build_graph(program, block.outputs)
        graph.inputs = [v for v in block.inputs if v.value is None and not v.persistable]
        return graph
    graph = Graph(program)
    forward = [op for op in block.ops if op.role is Role.FORWARD and op.replaces is None]
    roots = [*block.outputs, *(v for op in forward if op.loaded for v in op.outputs)]
    graph.operators = needed_operators(forward, roots)
    used = {id(v) for op in graph.operators for v in op.operands()} | {id(v) for v in block.outputs}
    graph.inputs = [v for v in block.inputs if id(v) in used or v.declared is not None]
    graph.initializers = [v for v in block.initializers if v.op is None and (id(v) in used or _was_loaded(v))]
    graph.outputs = [(v.name, v) for v in block.outputs]
    return graph


def _was_loaded(v: Variable) -> bool:
    return v.value is not None and v.value.origin is not None


def write_model(graph: Graph, values: dict[Variable, np.ndarray[Any, Any]] | None = None) -> ModelProto:
    """The ONNX message of a planned graph."""
    program = graph.program
    model = ModelProto(ir_version=program.ir_version)
    _set_present(
        model,
        producer_name=program.producer[0],
        producer_version=program.producer[1],
        doc_string=program.doc,
        domain=program.domain,
        model_version=program.model_version,
    )
    _write_header(model, graph)
    block = program.global_block()
    model.graph.name = block.name or "main"
    _set_present(model.graph, doc_string=block.doc)
    _write_metadata(model.graph, block.metadata)
    _Writer(graph, values or {}).write_main(model.graph)
    for function in program.functions.values():
        model.functions.append(_write_function(function))
    return model


def _write_header(model: ModelProto, graph: Graph) -> None:
    program = graph.program
    imports = list(program.opset_imports)
    for domain in sorted({op.domain for op in graph.operators}):
        if all(domain != name for name, _ in imports) and not (domain == "" and any(n == "ai.onnx" for n, _ in imports)):
            imports.append((domain, 1))
    if graph.plan is not None and (program.opset_version() or 1) > NEWEST and fits_newest(graph.operators):
        # An expansion may have replaced the operator that kept the program in a newer opset.
        imports = [(domain, NEWEST if domain in ("", "ai.onnx") else version) for domain, version in imports]
        model.ir_version = min(model.ir_version, NEWEST_IR)
    for domain, version in imports:
        model.opset_import.add(domain=domain, version=version)
    metadata = dict(program.metadata)
    frozen = [p.name for p in program.parameters if p.stop_gradient]
    if frozen:
        metadata[FROZEN_KEY] = "\n".join(frozen)
    _write_metadata(model, metadata)
    if isinstance(program.imported, Imported):
        model.configuration.extend(program.imported.configuration)
        if graph.plan is None:
            model.training_info.extend(program.imported.training_info)
            model.graph.quantization_annotation.extend(program.imported.quantization_annotation)


def _collect_reads(operators: Iterable[Operator], read: set[int]) -> None:
    for op in operators:
        read.update(id(v) for v in op.inputs)
        for body in op.blocks():
            read.update(id(v) for v in body.outputs)
            _collect_reads(body.ops, read)


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
    def __init__(self, graph: Graph, values: dict[Variable, np.ndarray[Any, Any]]) -> None:
        self.graph = graph
        self.values = values
        self.program = graph.program
        self.read: set[int] | None = None

    def write_main(self, proto: GraphProto) -> None:
        graph = self.graph
        for v in graph.inputs:
            self._write_info(proto.input.add(), v, v.name)
        for name, v in graph.outputs:
            self._write_info(proto.output.add(), graph.plan.resolve(v) if graph.plan else v, name, declared=v)
        for v in graph.initializers:
            self._write_initializer(proto, v)
        for op in graph.operators:
            self._write_node(proto.node.add(), op)
        if graph.plan is None:
            for v in self.program.global_block().value_infos:
                proto.value_info.add().CopyFrom(v.declared)

    def _write_info(self, info: ValueInfoProto, v: Variable, name: str, declared: Variable | None = None) -> None:
        source = declared if declared is not None else v
        if source.declared is not None and source.declared.name == name:
            info.CopyFrom(source.declared)
            return
        info.name = name
        _set_present(info, doc_string=v.doc)
        shown = shown_type(v.type)
        if shown is not None:
            fill_type(info.type, shown)

    def _write_initializer(self, proto: GraphProto, v: Variable) -> None:
        array = self.values.get(v)
        if array is None and v.persistable:
            array = self.program.active_scope().get(v.name)
        if array is None and v.value is not None:
            origin = v.value.origin
            if isinstance(origin, SparseTensorProto) and self.graph.plan is None:
                proto.sparse_initializer.add().CopyFrom(origin)
                proto.sparse_initializer[-1].values.name = v.name
                return
            if isinstance(origin, TensorProto):
                proto.initializer.add().CopyFrom(origin)
                proto.initializer[-1].name = v.name
                return
            array = v.value.numpy()
        if array is None:
            raise NotInitialized(f"parameter {v.name} has no value yet. Run the startup program first.")
        proto.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), v.name))

    def _write_node(self, node: NodeProto, op: Operator) -> None:
        graph = self.graph
        node.op_type = op.type
        _set_present(node, domain=op.domain, name=op.name, doc_string=op.doc, overload=op.overload)
        node.input.extend(graph.name(v) for v in op.inputs)
        outputs = op.outputs if op.declared_outputs is None else self._outputs_in_use(op, op.declared_outputs)
        node.output.extend(graph.name(v) for v in outputs)
        for key, value in op.attrs.items():
            self._write_attribute(node.attribute.add(), op, key, value)
        _write_metadata(node, op.metadata)
        if op.role is not Role.FORWARD:
            _write_metadata(node, {ROLE_KEY: op.role.name.lower()})
        if op.type == "Constant" and op.outputs and op.outputs[0] is not None and op.outputs[0].persistable:
            self._write_trained_constant(node, op.outputs[0])

    def _outputs_in_use(self, op: Operator, declared: int) -> list[Variable | None]:
        """Without the outputs that a gradient rule added and that this graph does not read."""
        if self.read is None:
            self.read = {id(v) for _, v in self.graph.outputs}
            _collect_reads(self.graph.operators, self.read)
        kept = [v if i < declared or id(v) in self.read else None for i, v in enumerate(op.outputs)]
        while kept and kept[-1] is None and len(kept) > declared:
            kept.pop()
        return kept

    def _write_trained_constant(self, node: NodeProto, v: Variable) -> None:
        newest = self.program.active_scope().get(v.name)
        if newest is not None:
            del node.attribute[:]
            attribute = node.attribute.add()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(numpy_helper.from_array(newest))

    def _write_attribute(self, proto: AttributeProto, op: Operator, key: str, value: Any) -> None:
        kind = attribute_kind(op, key, value)
        if isinstance(value, AttributeReference):
            proto.name, proto.ref_attr_name, proto.type = key, value.name, kind  # type: ignore[assignment]
        elif isinstance(value, Block):
            proto.name, proto.type = key, AttributeProto.GRAPH
            self._write_body(proto.g, value)
        elif isinstance(value, list) and value and isinstance(value[0], Block):
            proto.name, proto.type = key, AttributeProto.GRAPHS
            for body in value:
                self._write_body(proto.graphs.add(), body)
        else:
            fill_attribute(proto, key, value, kind)
        if op.attr_info is not None and key in op.attr_info:
            _set_present(proto, doc_string=op.attr_info[key][1])

    def _write_body(self, proto: GraphProto, body: Block) -> None:
        graph = self.graph
        proto.name = body.name or "body"
        _set_present(proto, doc_string=body.doc)
        _write_metadata(proto, body.metadata)
        for v in body.inputs:
            self._write_info(proto.input.add(), v, v.name)
        hoisted = {id(v): self.program.fresh_name(f"{v.name}/out") for v in body.outputs if graph.hoists and v.persistable}
        for v in body.outputs:
            self._write_info(proto.output.add(), v, hoisted.get(id(v), graph.name(v)), declared=v)
        for v in body.initializers:
            if not (graph.hoists and v.persistable):
                self._write_initializer(proto, v)
        for op in body.ops:
            is_weight = op.type == "Constant" and op.outputs[0] is not None and op.outputs[0].persistable
            if not (graph.hoists and is_weight):
                self._write_node(proto.node.add(), op)
        # A body may not return a value from outside, where a weight of its own now lies.
        for v in body.outputs:
            if id(v) in hoisted:
                proto.node.add(op_type="Identity", input=[v.name], output=[hoisted[id(v)]])
        for v in body.value_infos:
            if not (graph.hoists and v.persistable):
                proto.value_info.add().CopyFrom(v.declared)


def _write_function(function: Function) -> Any:
    if function.origin is not None:
        return function.origin
    proto = onnx.FunctionProto(name=function.name, domain=function.domain, overload=function.overload, doc_string=function.doc)
    proto.input.extend(function.input_names)
    proto.output.extend(v.name for v in function.body.outputs)
    proto.attribute.extend(function.attribute_names)
    for domain, version in function.body.program.opset_imports:
        proto.opset_import.add(domain=domain, version=version)
    graph = Graph(function.body.program)
    writer = _Writer(graph, {})
    for v in function.body.initializers:
        if v.op is None and v.value is not None:
            proto.node.append(helper.make_node("Constant", [], [v.name], value=numpy_helper.from_array(v.value.numpy(), v.name)))
    for op in function.body.ops:
        writer._write_node(proto.node.add(), op)
    for key, value in function.attribute_defaults.items():
        fill_attribute(proto.attribute_proto.add(), key, value, attribute_kind(Operator(function.body, "", [], []), key, value))
    _write_metadata(proto, function.metadata)
    return proto


# Files -------------------------------------------------------------------------------------------------------------


def _tensors_of(graph: GraphProto) -> Iterable[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors_of(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors_of(inner)


def _write_file(model: ModelProto, path: Path, program: Program) -> None:
    source = program.imported.folder if isinstance(program.imported, Imported) else None
    tensors = list(_tensors_of(model.graph))
    external = [t for t in tensors if is_external(t)]
    moved = bool(external) and (source is None or source.resolve() != path.parent.resolve())
    if moved or model.ByteSize() > _LARGEST_MESSAGE:
        chosen = [t for t in tensors if is_external(t) or t.ByteSize() > _EXTERNAL_THRESHOLD]
        arrays = [_bytes_of(t, source) for t in chosen]
        location = path.name + ".data"
        partial = path.with_name(location + ".partial")
        pack_external(chosen, arrays, partial, location)
        os.replace(partial, path.with_name(location))
    temporary = path.with_name(path.name + ".partial")
    temporary.write_bytes(model.SerializeToString())
    os.replace(temporary, path)


def _bytes_of(tensor: TensorProto, folder: Path | None) -> bytes:
    if not is_external(tensor):
        return bytes(numpy_helper.to_array(tensor).tobytes() if not tensor.raw_data else tensor.raw_data)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if folder is None:
        raise ExternalDataError(f"tensor {tensor.name!r} is stored in a file whose folder is not known. Load the model by path.")
    with (folder / entries["location"]).open("rb") as file:
        file.seek(int(entries.get("offset", 0)))
        length = int(entries["length"]) if "length" in entries else -1
        data: bytes = file.read(length)
        return data
