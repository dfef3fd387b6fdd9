"""from_onnx: an ONNX model as a Program, with everything the file says kept for writing it back.

Tests: tests/core/interop/test_round_trip.py, tests/core/interop/test_odd_files.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TypeProto

from onnxgrad.core.interop.external_data import sparse_tensor, stored_tensor
from onnxgrad.core.interop.messages import unread
from onnxgrad.core.interop.validate import ORIGIN_KEY, REDUCTION_KEY, ROLE_KEY, check_model, parsed_origin
from onnxgrad.core.interop.weights import Choice, decide
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.infer import infer_leniently, infer_with_bodies, read_type
from onnxgrad.core.ir.known import entries_of
from onnxgrad.core.ir.limits import bytes_needed, largest_tensor, size_text
from onnxgrad.core.ir.operator import AttributeInfo, AttributeReference, Operator, Role, Unread
from onnxgrad.core.ir.origin import Origin
from onnxgrad.core.ir.program import Function, Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.passes.domains import EXPANSIONS
from onnxgrad.core.state.scope import Scope
from onnxgrad.errors import ArgumentError, ArgumentTypeError, ModelError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.collector import collector_paused
from onnxgrad.internal.files import is_file, read_whole

__all__ = ["FREE_INITIALIZERS", "Imported", "checked_model", "from_onnx", "read_model", "read_program"]

FROZEN_KEY = "onnxgrad.frozen"
FREE_INITIALIZERS = 4
"""The first version of the format that does not want every initializer among the inputs: one that is there may be fed."""


class Imported:
    """The parts of a file beyond the program: written back as they were."""

    def __init__(self, model: ModelProto, folder: Path | None) -> None:
        self.folder = folder
        self.training_info = list(model.training_info)
        self.quantization_annotation = list(model.graph.quantization_annotation)
        self.configuration = list(model.configuration)
        self.opset_imports = [(entry.domain, entry.version) for entry in model.opset_import]
        self.unread = unread(model)


@checked
def from_onnx(
    source: str | Path | bytes | ModelProto,
    *,
    parameters: Choice | None = None,
    expand: Literal["com.microsoft", "ai.onnx.preview.training"] | None = None,
) -> Program:
    """Load an ONNX model.

    Float weights become Parameters wherever they sit: initializers, Constant nodes, bodies of If, Loop and Scan. Running
    statistics, scalar constants and settings such as Resize scales do not; ``explain_parameters`` says what was decided.

    Args:
        source: path of a file, its bytes, or a message. Only a path can refer to external data.
        parameters: which constants are weights: names, a pattern (``"head.*"``) or a predicate; None to decide by use.
        expand: ``"com.microsoft"`` to replace onnxruntime's own operators by standard ones, for other runtimes; no gradient needs
            it. Weights of MatMulNBits stay quantised. ``"ai.onnx.preview.training"`` to write Gradient, Adam, Adagrad and
            Momentum, which no runtime has, as standard operators.

    Returns:
        A Program that owns a scope. ``program.inputs`` and ``program.outputs`` are in the file's order.

    Raises:
        ModelError: if this is not a readable ONNX model, or an operator has no expansion for its form.
        ArgumentError: if ``expand`` is another domain.
        ExternalDataError: if a weight file is missing, too short or outside the model's folder.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }'
        >>> model = parser.parse_model(text)
        >>> from_onnx(model).inputs
        [Variable(x: float32[N, 2])]
    """
    with collector_paused():
        return read_program(*read_model(source), parameters=parameters, expand=expand)


def read_program(
    model: ModelProto,
    folder: Path | None,
    *,
    parameters: Choice | None,
    expand: Literal["com.microsoft", "ai.onnx.preview.training"] | None,
) -> Program:
    """The program of a checked message, whose external data lies in ``folder``."""
    if expand is not None and expand not in EXPANSIONS:
        raise ArgumentError(f"expand takes {' or '.join(map(repr, EXPANSIONS))} or None, not {expand!r}.")
    program = Program()
    program.imported = Imported(model, folder)
    program.scope = Scope()
    program.ir_version = model.ir_version
    program.opset_imports = [(entry.domain, entry.version) for entry in model.opset_import] or [("", 1)]
    program.metadata = {entry.key: entry.value for entry in model.metadata_props}
    program.doc, program.domain, program.model_version = model.doc_string, model.domain, model.model_version
    program.producer = (model.producer_name, model.producer_version)
    reader = _Reader(program, folder)
    for proto in model.functions:
        function = read_function(proto, program)
        program.functions[(function.domain, function.name, function.overload)] = function
    reader.read_graph(model.graph, program.global_block())
    _check_sizes(program)
    _make_parameters(program, reader.constants, parameters)
    for v in reader.constants:
        if v.default is not None:
            v.value = None  # that a weight is chosen by
    _keep_running_statistics(program)
    if expand is not None:
        EXPANSIONS[expand](program)
    return program


def read_model(source: str | Path | bytes | ModelProto) -> tuple[ModelProto, Path | None]:
    """The message of a model, and the folder that its external data lies in."""
    if isinstance(source, ModelProto):
        model = ModelProto()
        try:
            model.CopyFrom(source)
        except (DecodeError, EncodeError) as error:
            raise ModelError("the message cannot be copied: its bodies are nested too deep, or it is too large.") from error
        return checked_model(model, "the message"), None
    if isinstance(source, bytes):
        return checked_model(_parse(source, "the given bytes"), "the given bytes"), None
    if not isinstance(source, (str, Path)):
        raise ArgumentTypeError(f"from_onnx takes a path, bytes or a ModelProto, not {type(source).__name__}.")
    path = Path(source)
    if not is_file(path):
        if os.path.isdir(source):
            raise ModelError(f"{str(source)!r} is a folder. Name an .onnx file.")
        raise ModelError(f"there is no file {str(source)!r}.")
    return checked_model(_parse(read_whole(path), str(source)), str(source)), path.parent


def _parse(data: bytes, what: str) -> ModelProto:
    try:
        model: ModelProto = onnx.ModelProto.FromString(data)
        return model
    except DecodeError as error:
        raise ModelError(f"{what} is not an ONNX model, or it is cut off. Fetch the file again.") from error


def checked_model(model: ModelProto, what: str) -> ModelProto:
    """The message, if the door lets it in."""
    if not model.HasField("graph") or model.ir_version <= 0:
        raise ModelError(f"{what} holds no ONNX graph. Is it an ONNX model?")
    check_model(model)
    return model


class _Reader:
    """Turns graph messages into blocks. A function body may be ``partial``: not every output need be computed."""

    def __init__(self, program: Program, folder: Path | None, partial: bool = False) -> None:
        self.partial = partial
        self.program = program
        self.folder = folder
        self.constants: list[Variable] = []

    def read_graph(self, graph: GraphProto, block: Block) -> None:
        block.name, block.doc = graph.name, graph.doc_string
        block.metadata = {entry.key: entry.value for entry in graph.metadata_props} or None
        block.unread = unread(graph)
        declared = {info.name: info for info in graph.value_info}
        for info in graph.output:
            declared.setdefault(info.name, info)
        for info in graph.input:
            variable = self._new_variable(block, info.name, {info.name: info})
            variable.is_data = True
            block.inputs.append(variable)
        for proto in graph.initializer:
            self._read_initializer(block, proto.name, stored_tensor(proto, self.folder))
        for sparse in graph.sparse_initializer:
            self._read_initializer(block, sparse.values.name, sparse_tensor(sparse, self.folder))
        for node in graph.node:
            self._read_node(node, block, declared)
        for info in graph.output:
            v = block.find(info.name)
            if v is None and self.partial:
                v = Variable(block, info.name)
            if v is None:
                raise ModelError(f"graph output {info.name!r} is computed by no node. The model is damaged.")
            if v.declared is None or not v.is_data:
                v.declared = info
            if v.type is None:
                v.type = read_type(info.type)
            block.outputs.append(v)
        for info in graph.value_info:
            v = block.vars.get(info.name)
            if v is not None:
                v.declared = v.declared or info
                block.value_infos.append(v)

    def _new_variable(self, block: Block, name: str, declared: dict[str, Any]) -> Variable:
        variable = Variable(block, name)
        info = declared.get(name)
        if info is not None:
            variable.declared = info
            variable.doc = info.doc_string
            variable.type = read_type(info.type)
        return _register(block, variable)

    def _read_initializer(self, block: Block, name: str, tensor: TensorValue) -> None:
        variable = block.vars.get(name)
        if variable is None:
            variable = _register(block, Variable(block, name))
        block.initializers.append(variable)
        if variable.is_data and block is self.program.global_block() and self.program.ir_version >= FREE_INITIALIZERS:
            variable.default = tensor
            self.constants.append(variable)
            return
        variable.type = TensorType(tensor.dtype, tensor.shape)
        self._hold(variable, tensor)

    def _hold(self, variable: Variable, tensor: TensorValue) -> None:
        variable.value = tensor
        entries_of(variable)
        self.constants.append(variable)

    def _read_node(self, node: NodeProto, block: Block, declared: dict[str, Any]) -> None:
        operator = Operator(block, node.op_type, [], [], {}, "" if node.domain == "ai.onnx" else node.domain)
        operator.name, operator.doc, operator.overload = node.name, node.doc_string, node.overload
        operator.loaded = True
        rest = unread(node)
        if rest:
            operator.unread = Unread(rest, len(node.input), (*node.input, *node.output))
        if node.metadata_props:
            operator.metadata = {entry.key: entry.value for entry in node.metadata_props}
            role = operator.metadata.pop(ROLE_KEY, None)
            if role is not None:
                operator.role = Role[role.upper()]
            operator.reduction = operator.metadata.pop(REDUCTION_KEY, "")  # type: ignore[assignment]
            origin = parsed_origin(operator.metadata.pop(ORIGIN_KEY, ""))
            if origin is not None:
                rule, piece, of = origin
                operator.origin = Origin(rule, piece, block.find(of) if of else None)
        for name in node.input:
            operator.inputs.append(self._find(block, name, node) if name else None)
        for attribute in node.attribute:
            self._read_attribute(operator, attribute)
        for name in node.output:
            variable = self._new_variable(block, name, declared) if name else None
            if variable is not None:
                variable.op = operator
            operator.outputs.append(variable)
        block.ops.append(operator)
        if node.op_type == "Constant" and not operator.domain and operator.outputs and operator.outputs[0] is not None:
            tensor = constant_value(operator)
            if tensor is not None:
                operator.outputs[0].type = TensorType(tensor.dtype, tensor.shape)
                self._hold(operator.outputs[0], tensor)
                return
        if any(v.type is None for body in operator.blocks() for v in body.inputs):
            infer_with_bodies(operator)
        else:
            infer_leniently(operator)

    def _find(self, block: Block, name: str, node: NodeProto) -> Variable:
        v = block.find(name)
        if v is None:
            raise ModelError(
                f"node {node.op_type} {node.name!r} reads {name!r}, which nothing before it computes. "
                "The model is damaged or its nodes are not in order."
            )
        return v

    def _read_attribute(self, operator: Operator, proto: AttributeProto) -> None:
        value: Any
        attr_type = int(proto.type)
        if proto.ref_attr_name:
            value = AttributeReference(proto.ref_attr_name, attr_type)
        elif attr_type == AttributeProto.GRAPH:
            value = self._body(operator.block, proto.g)
        elif attr_type == AttributeProto.GRAPHS:
            value = [self._body(operator.block, graph) for graph in proto.graphs]
        elif attr_type == AttributeProto.TENSOR:
            value = stored_tensor(proto.t, self.folder)
        elif attr_type == AttributeProto.TENSORS:
            value = [stored_tensor(tensor, self.folder) for tensor in proto.tensors]
        elif attr_type == AttributeProto.TYPE_PROTO:
            value = TypeProto()
            value.CopyFrom(proto.tp)
        elif attr_type == AttributeProto.STRING:
            value = _text(proto.s)
        elif attr_type == AttributeProto.STRINGS:
            value = [_text(entry) for entry in proto.strings]
        elif attr_type in (AttributeProto.FLOATS, AttributeProto.INTS):
            value = list(proto.floats if attr_type == AttributeProto.FLOATS else proto.ints)
        else:
            value = onnx.helper.get_attribute_value(proto)
        operator.attrs[proto.name] = value
        if operator.attr_info is None:
            operator.attr_info = {}
        operator.attr_info[proto.name] = AttributeInfo(attr_type, proto.doc_string, unread(proto))

    def _body(self, parent: Block, graph: GraphProto) -> Block:
        body = self.program.new_block(parent, graph.name)
        self.read_graph(graph, body)
        return body


def _register(block: Block, variable: Variable) -> Variable:
    """Enter an imported variable; a duplicate is the file's fault."""
    if variable.name in block.vars:
        raise ModelError(f"the name {variable.name!r} is defined twice. The model is damaged.")
    return block.register(variable)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def constant_value(operator: Operator) -> TensorValue | None:
    """The tensor of a Constant node, whichever attribute holds it."""
    for name, value in operator.attrs.items():
        if isinstance(value, AttributeReference):
            continue
        if isinstance(value, TensorValue):
            return value
        if isinstance(value, SparseTensorProto):
            return TensorValue.of(sparse_tensor(value, None).numpy())
        if name in ("value_float", "value_floats"):
            return TensorValue.of(np.asarray(value, "float32"))
        if name in ("value_int", "value_ints"):
            return TensorValue.of(np.asarray(value, "int64"))
    return None


def _check_sizes(program: Program) -> None:
    """Refuse a result that no machine holds, such as a Tile by a constant of 2^40: what a graph says is not what it asks for"""
    for block in program.blocks:
        for op in block.ops:
            for v in op.outputs:
                shape = None if v is None else v.static_shape
                if v is not None and shape is not None and bytes_needed(v.dtype, shape) > largest_tensor():
                    needed = size_text(bytes_needed(v.dtype, shape))
                    raise ModelError(f"{op}: {v.name!r} would take {needed}, more than this machine has. Correct its operands.")


def read_function(proto: FunctionProto, program: Program) -> Function:
    inner = Program()
    inner.opset_imports = [(entry.domain, entry.version) for entry in proto.opset_import] or list(program.opset_imports)
    inner.functions = program.functions
    body = inner.global_block()
    reader = _Reader(inner, None, partial=True)
    graph = GraphProto(name=proto.name)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in proto.input)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in proto.output)
    graph.node.extend(proto.node)
    graph.value_info.extend(proto.value_info)
    reader.read_graph(graph, body)
    function = Function(proto.domain, proto.name, proto.overload, body)
    function.origin, function.unread = proto, unread(proto)
    function.input_names = list(proto.input)
    function.attribute_names = list(proto.attribute)
    for attribute in proto.attribute_proto:
        carrier = Operator(body, "", [], [])
        reader._read_attribute(carrier, attribute)
        function.attribute_defaults.update(carrier.attrs)
    function.doc = proto.doc_string
    function.metadata = {entry.key: entry.value for entry in proto.metadata_props} or None
    return function


def _make_parameters(program: Program, constants: list[Variable], choice: Choice | None) -> None:
    """Replace the constants that are weights by Parameters, everywhere they are used."""
    frozen = set(filter(None, program.metadata.get(FROZEN_KEY, "").split("\n")))
    parameters: dict[Variable, Parameter] = {}
    for v in constants:
        v.value = v.value or v.default
    for v, (role, reason) in decide(constants, program.global_block(), choice).items():
        program.decisions[v.name] = f"{role}: {reason}"
        if role == "constant":
            continue
        parameter = Parameter(v.block, v.name, v.type, trainable=v.name not in frozen and role == "weight")
        parameter.value, parameter.entries, parameter.op, parameter.reason = v.value, v.entries, v.op, reason
        if v.default is not None:
            parameter.type = TensorType(v.default.dtype, v.default.shape)
        parameter.is_data, parameter.declared, parameter.doc = v.is_data, v.declared, v.doc
        v.block.vars[v.name] = parameter
        parameters[v] = parameter
    if not parameters:
        return
    for block in program.blocks:
        for op in block.ops:
            op.inputs = [v if v is None else parameters.get(v, v) for v in op.inputs]
            op.outputs = [v if v is None else parameters.get(v, v) for v in op.outputs]
        for field in ("inputs", "outputs", "initializers", "value_infos"):
            setattr(block, field, [parameters.get(v, v) for v in getattr(block, field)])
    taken: set[str] = set()
    for parameter in parameters.values():
        if parameter.name in taken:
            parameter.name = program.fresh_name(parameter.name)
        taken.add(parameter.name)
        program.parameters.append(parameter)


def _keep_running_statistics(program: Program) -> None:
    """Mean and variance of BatchNormalization are state: training replaces them, every copy of the program sees them."""
    for block in program.blocks:
        for op in block.ops:
            if op.type == "BatchNormalization" and op.domain == "":
                for v in op.inputs[3:5]:
                    if v is not None and v.value is not None:
                        v.persistable = True


def explain_parameters(program: Program) -> str:
    """One line per constant of a loaded model: whether it is trained, and why.

    Args:
        program: loaded by ``from_onnx``.
    """
    return "\n".join(f"{name}: {decision}" for name, decision in program.decisions.items())
