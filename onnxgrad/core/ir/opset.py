"""Look up the schema of an operator in an opset: its operands, attributes and type constraints, cached.

Tests: tests/core/passes/test_lift.py.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx.defs
from onnx import helper

from onnxgrad.dtypes import DType, dtype_of

__all__ = ["CONTRIB_DOMAIN", "NEWEST", "NEWEST_IR", "OLDEST_WITH_RULES", "Schema", "all_operators", "find_schema"]

OLDEST_WITH_RULES = 21
"""Programs are lifted to this opset before they are differentiated; it is also what our own layers emit."""
NEWEST = 26
"""The newest opset that onnxruntime loads."""
NEWEST_IR = 13
"""The newest IR version that onnxruntime loads."""

CONTRIB_DOMAIN = "com.microsoft"
"""Where onnxruntime keeps operators of its own; onnx has no schemas for them."""

_Option = onnx.defs.OpSchema.FormalParameterOption
_NUMPY_NAMES = {"double": "float64", "float": "float32"}


class Operand:
    """One declared input or output."""

    __slots__ = ("index", "name", "optional", "typestr", "variadic")

    def __init__(self, parameter: Any, index: int) -> None:
        self.name: str = parameter.name
        self.index = index
        self.typestr: str = parameter.type_str
        self.optional: bool = parameter.option == _Option.Optional
        self.variadic: bool = parameter.option == _Option.Variadic


class Schema:
    """The declaration of one operator in one opset.

    Attributes:
        has_body: whether it says what the operator computes, as a function of others.
    """

    __slots__ = (
        "attributes",
        "defaults",
        "has_body",
        "inputs",
        "min_input",
        "min_output",
        "name",
        "outputs",
        "raw",
        "required",
        "since",
        "typestrs",
    )

    def __init__(self, raw: onnx.defs.OpSchema) -> None:
        self.raw = raw
        described: Any = raw  # onnx does not type these
        self.has_body = bool(described.has_function or described.has_context_dependent_function)
        self.name: str = raw.name
        self.since: int = raw.since_version
        self.inputs = [Operand(p, i) for i, p in enumerate(raw.inputs)]
        self.outputs = [Operand(p, i) for i, p in enumerate(raw.outputs)]
        self.min_input: int = raw.min_input
        self.min_output: int = raw.min_output
        self.attributes: dict[str, int] = {k: int(getattr(v.type, "value", 0)) for k, v in raw.attributes.items()}
        self.required = [k for k, v in raw.attributes.items() if v.required]
        self.defaults: dict[str, Any] = {
            k: helper.get_attribute_value(v.default_value) for k, v in raw.attributes.items() if v.default_value.name
        }
        self.typestrs: dict[str, frozenset[str]] = {t.type_param_str: frozenset(t.allowed_type_strs) for t in raw.type_constraints}
        for key, value in self.defaults.items():
            if isinstance(value, bytes):
                self.defaults[key] = value.decode()
            elif isinstance(value, list) and value and isinstance(value[0], bytes):
                self.defaults[key] = [entry.decode() for entry in value]

    def input_named(self, name: str) -> Operand | None:
        return next((operand for operand in self.inputs if operand.name == name), None)

    def input_at(self, index: int) -> Operand | None:
        """Declaration of the input at a position; a variadic one covers all further positions."""
        if index < len(self.inputs):
            return self.inputs[index]
        return self.inputs[-1] if self.inputs and self.inputs[-1].variadic else None

    def allows(self, typestr: str, dtype: DType) -> bool:
        """Whether a type variable (or a plain type name) of this operator admits tensors of ``dtype``."""
        allowed = self.typestrs.get(typestr, frozenset([typestr]))
        return any(_tensor_of(name) == dtype for name in allowed if name.startswith("tensor("))


@cache
def _tensor_of(type_name: str) -> DType | None:
    inner = type_name[len("tensor(") : -1].replace("float8e4m3fn", "float8_e4m3fn").replace("float8e5m2", "float8_e5m2")
    inner = inner.replace("float8e8m0", "float8_e8m0")
    return dtype_of(_NUMPY_NAMES.get(inner, inner))


@cache
def find_schema(name: str, domain: str, version: int) -> Schema | None:
    """Declaration of an operator as of opset ``version``, or None where it does not exist."""
    try:
        raw = onnx.defs.get_schema(name, min(version, onnx.defs.onnx_opset_version()) if domain == "" else version, domain)
    except onnx.defs.SchemaError:
        return None
    return None if raw.deprecated else Schema(raw)


@cache
def all_operators() -> tuple[tuple[str, str], ...]:
    """(domain, name) of every operator that the installed onnx declares and has not deprecated, sorted."""
    names = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas() if not schema.deprecated}
    return tuple(sorted(names))
