"""One ONNX node: type, operands, results, attributes.

Tests: tests/core/ir/test_builder.py.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from onnx import AttributeProto, SparseTensorProto, TypeProto

from onnxgrad.core.ir.descriptions import OpDesc
from onnxgrad.core.ir.opset import Schema, find_schema
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.traverse import captured_variables
from onnxgrad.errors import ArgumentTypeError, IllTyped, UnknownName

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block
    from onnxgrad.core.ir.origin import Origin
    from onnxgrad.core.ir.variable import Variable

__all__ = [
    "AttributeInfo", "AttributeReference", "Expansion", "Operator", "Role", "Unread", "as_stored", "has_attribute_type",
    "resolve_reference",
]  # fmt: skip


class Role(IntEnum):
    """The purpose of an operator; the numbers are Paddle's."""

    FORWARD = 0
    BACKWARD = 1
    OPTIMIZE = 2


class Unread(NamedTuple):
    """The fields of a node in a file that nobody here reads.

    Attributes:
        content: as bytes, to be merged into the node that is written.
        operands: how many of ``names`` are those of operands.
        names: of operands and results in the file, which such fields may name.
    """

    content: bytes
    operands: int
    names: tuple[str, ...]


class AttributeInfo(NamedTuple):
    """What a file says of an attribute besides its value: type, description, and fields that nobody here reads."""

    kind: int
    doc: str
    unread: bytes = b""


class AttributeReference:
    """Inside a function body: the value of an attribute of the call."""

    __slots__ = ("kind", "name")

    def __init__(self, name: str, kind: int) -> None:
        self.name = name
        self.kind = kind


_KINDS: dict[int, Any] = {
    AttributeProto.FLOAT: (int, float),
    AttributeProto.INT: int,
    AttributeProto.STRING: (str, bytes),
    AttributeProto.TENSOR: TensorValue,
    AttributeProto.SPARSE_TENSOR: SparseTensorProto,
    AttributeProto.TYPE_PROTO: TypeProto,
}
_LISTS: dict[int, int] = {
    AttributeProto.FLOATS: AttributeProto.FLOAT,
    AttributeProto.INTS: AttributeProto.INT,
    AttributeProto.STRINGS: AttributeProto.STRING,
    AttributeProto.TENSORS: AttributeProto.TENSOR,
}


def as_stored(value: Any) -> Any:
    """The value of an attribute as a file holds it: numbers in float32."""
    return float(np.float32(value)) if isinstance(value, float) else value


def has_attribute_type(value: Any, kind: int) -> bool:
    """Return whether a value may be an attribute of this ONNX type; True for kinds that are not told apart."""
    if kind in _LISTS:
        return isinstance(value, (list, tuple)) and all(has_attribute_type(entry, _LISTS[kind]) for entry in value)
    if kind == AttributeProto.GRAPH:
        return hasattr(value, "ops")
    return isinstance(value, _KINDS[kind]) if kind in _KINDS else True


def resolve_reference(value: Any, call: Operator, defaults: dict[str, Any]) -> Any:
    """An attribute inside a function body, for one call of the function; None where the call leaves it out."""
    if not isinstance(value, AttributeReference):
        return value
    if value.name in call.attrs:
        attribute = call.attrs[value.name]
        if not isinstance(attribute, AttributeReference) and not has_attribute_type(attribute, value.kind):
            raise IllTyped(f"{call}: the attribute {value.name!r} cannot be {attribute!r} in the function. Correct the call.")
        return attribute
    if value.name in defaults:
        return defaults[value.name]
    schema = call.schema
    return schema.defaults.get(value.name) if schema is not None else None


_PLAIN = (int, float, str, bytes)
"""Of attributes; far most have one of these types."""


class Expansion:
    """An operator written out in others.

    The operators are in the block right after their original. Whoever runs or exports the program uses either the
    original or, when something reads an inner value of the expansion, the expansion instead of it. One that says
    ``always`` (the training form of an operator) is used whenever the original would be.
    """

    __slots__ = ("always", "operators", "outputs")

    def __init__(self, operators: list[Operator], outputs: list[Variable | None], always: bool = False) -> None:
        self.operators = operators
        self.outputs = outputs
        self.always = always


class Operator:
    """A node of the program. ``inputs`` and ``outputs`` hold None where an optional operand is absent.

    Attributes:
        loaded: whether it came from a file, whose export keeps it even if nothing needs it.
        origin: which rule or layer wrote it; None for operators of files and of users.
        mode: ``"trained"`` where it is in a body and gets its training form with the If or Loop that it lies in.
        unread: fields of the file that nobody here reads.
        reduction: what ranks do with its result: ``"sum"`` of them all, or ``"any"`` that is not 0; empty for neither.
    """

    __slots__ = (
        "attr_info",
        "attrs",
        "block",
        "declared_outputs",
        "doc",
        "domain",
        "expansion",
        "inputs",
        "loaded",
        "metadata",
        "mode",
        "name",
        "origin",
        "outputs",
        "overload",
        "reduction",
        "replaces",
        "role",
        "type",
        "unread",
    )

    def __init__(
        self,
        block: Block,
        type: str,
        inputs: list[Variable | None],
        outputs: list[Variable | None],
        attrs: dict[str, Any] | None = None,
        domain: str = "",
    ) -> None:
        self.block = block
        self.type = type
        self.domain = domain
        self.overload = ""
        self.inputs = inputs
        self.outputs = outputs
        self.attrs: dict[str, Any] = {} if attrs is None else attrs
        self.attr_info: dict[str, AttributeInfo] | None = None
        self.name = ""
        self.doc = ""
        self.metadata: dict[str, str] | None = None
        self.role = Role.FORWARD
        self.declared_outputs: int | None = None
        self.expansion: Expansion | None = None
        self.replaces: Operator | None = None
        self.loaded = False
        self.unread: Unread | None = None
        self.origin: Origin | None = None
        self.mode: Literal["", "trained"] = ""
        self.reduction: Literal["", "sum", "any"] = ""

    def blank_copy(self, block: Block, inputs: list[Variable | None]) -> Operator:
        """An operator like this one in a block, on other operands, which has no attributes and results yet.

        This is the one list of what every copier keeps. Attributes may hold bodies, ``replaces`` and ``expansion`` other operators,
        and ``origin`` a variable, which the copier copies or leaves.
        """
        copy = Operator(block, self.type, inputs, [], {}, self.domain)
        copy.name, copy.doc, copy.overload, copy.role = self.name, self.doc, self.overload, self.role
        copy.metadata, copy.attr_info, copy.loaded = self.metadata, self.attr_info, self.loaded
        copy.origin, copy.mode, copy.reduction = self.origin, self.mode, self.reduction
        copy.declared_outputs, copy.unread = self.declared_outputs, self.unread
        return copy

    @property
    def schema(self) -> Schema | None:
        version = self.block.program.opset_version(self.domain)
        return None if version is None else find_schema(self.type, self.domain, version)

    def attr(self, name: str) -> Any:
        """Value of an attribute, or the default that the operator's schema gives (None where it gives none).

        Two are Paddle's: ``op_role``, 0 for what a program computes, 1 for its backward pass, 2 for updates; and ``op_role_var``,
        the names of parameters and their gradients that an operator of the backward pass gives.

        Raises:
            UnknownName: if this operator has no such attribute.
        """
        if name in self.attrs:
            return self.attrs[name]
        if name == "op_role":
            return int(self.role)
        if name == "op_role_var":
            return self._gradients_of_parameters()
        schema = self.schema
        if schema is not None and name in schema.attributes:
            return schema.defaults.get(name)
        more = ". Attributes are those of the ONNX operator" if schema is not None else ""
        raise UnknownName(f"{self} has no attribute {name!r}{more}.")

    def _gradients_of_parameters(self) -> list[str]:
        """Names of parameters, each before that of its gradient, for the gradients among the results"""
        if self.role is not Role.BACKWARD:
            return []
        names = {parameter.name for parameter in self.block.program.parameters}
        owners = ((name.partition("@GRAD")[0], name) for name in self.output_arg_names if "@GRAD" in name)
        return [each for owner, name in owners if owner in names for each in (owner, name)]

    @property
    def desc(self) -> OpDesc:
        """This operator as Paddle's callbacks read it, by methods."""
        return OpDesc(self)

    def operand(self, name: str) -> Any:
        """The input called ``name`` in the schema, or the attribute of that name; None where it is absent."""
        schema = self.schema
        declared = schema.input_named(name) if schema is not None else None
        if declared is not None:
            return self.inputs[declared.index] if declared.index < len(self.inputs) else None
        return self.attr(name)

    def has_attr(self, name: str) -> bool:
        return name in self.attrs or name in ("op_role", "op_role_var")

    @property
    def attr_names(self) -> list[str]:
        return list(self.attrs)

    def all_attrs(self) -> dict[str, Any]:
        return dict(self.attrs)

    @property
    def input_arg_names(self) -> list[str]:
        return [v.name for v in self.inputs if v is not None]

    @property
    def output_arg_names(self) -> list[str]:
        return [v.name for v in self.outputs if v is not None]

    @property
    def input_names(self) -> list[str]:
        return [operand.name for operand in self.schema.inputs] if self.schema else []

    @property
    def output_names(self) -> list[str]:
        return [operand.name for operand in self.schema.outputs] if self.schema else []

    def input(self, slot: str) -> list[str]:
        """Names of the variables in an input slot of the schema."""
        return self._slot(slot, self.inputs, self.schema.inputs if self.schema else [])

    def output(self, slot: str) -> list[str]:
        """Names of the variables in an output slot of the schema."""
        return self._slot(slot, self.outputs, self.schema.outputs if self.schema else [])

    def _slot(self, slot: str, variables: list[Variable | None], declared: list[Any]) -> list[str]:
        for operand in declared:
            if operand.name == slot:
                end = len(variables) if operand.variadic else operand.index + 1
                return [v.name for v in variables[operand.index : end] if v is not None]
        raise UnknownName(f"{self} has no slot {slot!r}; it has {[operand.name for operand in declared]}.")

    @property
    def idx(self) -> int:
        """Position in the block."""
        return next(i for i, op in enumerate(self.block.ops) if op is self)

    def blocks(self) -> list[Block]:
        """Bodies of If, Loop, Scan and SequenceMap."""
        bodies: list[Block] = []
        for value in self.attrs.values():
            if isinstance(value, _PLAIN):
                continue
            if isinstance(value, list):
                if value and hasattr(value[0], "ops"):
                    bodies += value
            elif hasattr(value, "ops"):
                bodies.append(value)
        return bodies

    def operands(self) -> list[Variable | None]:
        """Inputs, followed by the outer variables that its bodies read."""
        if not self.attrs or not self.blocks():
            return self.inputs
        return [*self.inputs, *captured_variables(self)]

    def __str__(self) -> str:
        """``Gemm 'fc1' (-> logits)``: enough to find it in the program."""
        label = f" {self.name!r}" if self.name else ""
        results = ", ".join(self.output_arg_names)
        prefix = f"{self.domain}:" if self.domain else ""
        return f"{prefix}{self.type}{label} (-> {results})"

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """One readable line: outputs, type, inputs, attributes sorted by name."""
        results = ", ".join(v.name if v is not None else "''" for v in self.outputs)
        operands = ", ".join(v.name if v is not None else "''" for v in self.inputs)
        attrs = "".join(f", {name} = {_short(self.attrs[name])}" for name in sorted(self.attrs))
        return f"{{{results}}} = {self.type}({operands}{attrs}, role = {self.role.name.lower()})"

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            "an Operator belongs to a program, and is neither copied nor pickled. Copy its program: Program.clone()."
        )

    def __repr__(self) -> str:
        return self.to_string()


def _short(value: Any) -> str:
    if hasattr(value, "ops"):
        return f"block[{value.idx}]"
    return repr(value)
