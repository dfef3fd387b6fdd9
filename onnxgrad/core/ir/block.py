"""A list of operators with the variables they define: the main graph, or the body of an If, Loop or Scan.

Tests: tests/core/ir/test_builder.py, tests/core/ir/test_traverse.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.descriptions import BlockDesc
from onnxgrad.core.ir.infer import check_and_infer
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.printing import block_text
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import Dim, TensorType, Type, shown_type
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError, ArgumentTypeError, DuplicateName, IllTyped, ProgramError, UnknownName

if TYPE_CHECKING:
    from onnxgrad.core.ir.program import Program

__all__ = ["Block"]


class Block:
    """Operators in order, and the variables defined among them by name."""

    __slots__ = (
        "__weakref__",
        "doc",
        "forward_block_idx",
        "idx",
        "initializers",
        "inputs",
        "metadata",
        "name",
        "ops",
        "outputs",
        "parent",
        "program",
        "unread",
        "value_infos",
        "vars",
    )
    is_eager = False

    def __init__(self, program: Program, parent: Block | None = None, name: str = "main") -> None:
        self.program = program
        self.parent = parent
        self.name = name
        self.idx = -1
        self.forward_block_idx = -1
        self.ops: list[Operator] = []
        self.vars: dict[str, Variable] = {}
        self.inputs: list[Variable] = []
        self.outputs: list[Variable] = []
        self.initializers: list[Variable] = []
        self.value_infos: list[Variable] = []
        self.doc = ""
        self.metadata: dict[str, str] | None = None
        self.unread = b""

    @property
    def parent_idx(self) -> int:
        return -1 if self.parent is None else self.parent.idx

    @property
    def desc(self) -> BlockDesc:
        """Its operators as Paddle's callbacks read them, by number."""
        return BlockDesc(self)

    @property
    def build(self) -> Builder:
        """Appends operators to this block: ``block.build.Mul(x, y)``."""
        return Builder(self)

    def record(self, op_type: str, args: Any, kwargs: dict[str, Any], outputs: Any, domain: str) -> Any:
        """Compute an operator's results eagerly instead of appending it; only an eager block can."""
        raise NotImplementedError

    # Looking up ------------------------------------------------------------------------------------------------------

    def var(self, name: str) -> Variable:
        """The variable of this block called ``name``.

        Raises:
            UnknownName: if there is none.
            ArgumentTypeError: if ``name`` is not a str.
        """
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a variable is looked up by its name, a str, not {type(name).__name__}.")
        if name not in self.vars:
            raise UnknownName(f"block {self.idx} has no variable {name!r}.")
        return self.vars[name]

    def has_var(self, name: str) -> bool:
        return name in self.vars

    def find(self, name: str) -> Variable | None:
        """The variable called ``name`` in this block or one around it."""
        block: Block | None = self
        while block is not None:
            v = block.vars.get(name)
            if v is not None:
                return v
            block = block.parent
        return None

    def all_parameters(self) -> list[Parameter]:
        return [p for p in self.program.all_parameters() if p.block is self]

    # Changing --------------------------------------------------------------------------------------------------------

    def register(self, variable: Variable) -> Variable:
        """Enter a variable under its name.

        Raises:
            DuplicateName: if the name is taken.
        """
        name = variable._name
        if self.vars.get(name, variable) is not variable:
            raise DuplicateName(f"the name {name!r} is used twice in one block. Give one of the two another name.")
        self.vars[name] = variable
        self.program.names.setdefault(name, 0)
        self.program.version += 1
        return variable

    def add_input(self, name: str, type: Type | None) -> Variable:
        """Enter a variable that is fed, and append it to the inputs.

        Raises:
            DuplicateName: if the name is taken.
        """
        variable = Variable(self, name, type)
        variable.is_data = True
        self.inputs.append(self.register(variable))
        return variable

    def rename(self, variable: Variable, new: str) -> None:
        """Move a variable to another name."""
        if new in self.vars:
            raise DuplicateName(f"cannot rename {variable.name!r} to {new!r}: that name is taken.")
        entries = [(new if v is variable else name, v) for name, v in self.vars.items()]
        self.vars = dict(entries)
        self.program.names.setdefault(new, 0)
        self.program.version += 1

    def append(self, operator: Operator) -> Operator:
        """Append an operator whose types are known and register its outputs."""
        for variable in operator.outputs:
            if variable is not None:
                self.register(variable)
        operator.block = self
        self.ops.append(operator)
        self.program.version += 1
        return operator

    def append_op(
        self,
        type: str,
        inputs: dict[str, Any] | Sequence[Variable | str | None] | None = None,
        outputs: dict[str, Any] | Sequence[Variable | str] | None = None,
        attrs: dict[str, Any] | None = None,
        domain: str = "",
    ) -> Operator:
        """Append an ONNX node.

        Args:
            type: ONNX operator type, such as ``"Gemm"``.
            inputs: variables or names, as a list in ONNX order or a dict from slot name (``{"X": x}``).
            outputs: names or variables to define, likewise.
            attrs: attributes by ONNX name.
            domain: operator domain, '' for ai.onnx.

        Raises:
            ArgumentError: if the operator does not exist in the program's opset.
            UnknownName: if an input is not in the program.
            DuplicateName: if an output is computed by another operator.
            IllTyped: if the operator does not accept the operands or attributes.
        """
        if not isinstance(type, str):
            raise ArgumentError(f"an operator type is a str such as 'Relu', not {type!r}.")
        operator = Operator(self, type, [], [], dict(attrs or {}), domain)
        schema = operator.schema
        if schema is None:
            raise ArgumentError(
                f"there is no operator {type!r} in opset {self.program.opset_version(domain)} of domain {domain!r}. "
                "Programs consist of ONNX's operators, such as 'Relu' and 'Conv'; Paddle's operators are functions of "
                "paddle.nn.functional and paddle. Call one, or check the spelling against the ONNX operator list."
            )
        operator.inputs = [self._resolve(item, operator) for item in _in_order(inputs, schema.inputs, operator)]
        fresh: list[Variable] = []
        for item in _in_order(outputs, schema.outputs, operator):
            operator.outputs.append(None if item is None else self._new_output(item, operator, fresh))
        check_and_infer(operator)
        for variable in fresh:
            self.register(variable)
        self.ops.append(operator)
        self.program.version += 1
        return operator

    def _resolve(self, item: Variable | str | None, operator: Operator) -> Variable | None:
        if item is None or isinstance(item, Variable):
            return item
        v = self.find(item)
        if v is None:
            raise UnknownName(f"{operator.type}: its input {item!r} is not a variable of this program.")
        return v

    def _new_output(self, item: Variable | str, operator: Operator, fresh: list[Variable]) -> Variable:
        if isinstance(item, Variable):
            if item.op is not None or item.is_data or item.value is not None:
                raise DuplicateName(f"{operator.type}: {item.name!r} is computed already. Name a new variable.")
            item.op = operator
            return item
        if item in self.vars and (self.vars[item].op is not None or self.vars[item].is_leaf is False):
            raise DuplicateName(f"{operator.type}: {item!r} is computed already. Choose another output name.")
        variable = self.vars.get(item)
        if variable is None:
            variable = Variable(self, item)
            fresh.append(variable)
        variable.op = operator
        return variable

    def create_var(
        self,
        name: str | None = None,
        shape: Iterable[int | str | None] | None = None,
        dtype: Any = "float32",
        persistable: bool = False,
        stop_gradient: bool | None = None,
    ) -> Variable:
        """A variable that an operator will define later, or a persistable one that lives in the scope.

        Raises:
            DuplicateName: if a variable of that name has another shape or dtype.
        """
        name = name if name is not None else self.program.fresh_name("_generated_var_0")
        dims: tuple[Dim, ...] | None = None if shape is None else tuple(None if d == -1 else d for d in shape)
        wanted: Type = TensorType(dtype_of(dtype), dims)
        present = self.vars.get(name)
        if present is not None:
            if shown_type(present.type) != wanted:
                raise DuplicateName(f"{name!r} exists already as {present!r}. Choose another name.")
            return present
        variable = Variable(self, name, wanted)
        variable.persistable = persistable
        if stop_gradient is not None:
            variable._stop = stop_gradient
        return self.register(variable)

    def create_parameter(
        self, name: str, shape: Iterable[int], dtype: Any = "float32", trainable: bool = True, value: TensorValue | None = None
    ) -> Parameter:
        """A new weight; its value comes from ``value`` or from running the startup program.

        Raises:
            ArgumentError: if a dimension is not positive.
            DuplicateName: if the name exists with another shape or dtype.
        """
        dims = tuple(int(dim) for dim in shape)
        if any(dim <= 0 for dim in dims):
            raise ArgumentError(f"parameter {name!r} has shape {list(dims)}; every dimension must be positive.")
        wanted = TensorType(dtype_of(dtype), dims)
        present = self.vars.get(name)
        if present is not None:
            if not isinstance(present, Parameter) or shown_type(present.type) != wanted:
                raise DuplicateName(f"parameter {name!r} exists already as {present!r}. Choose another name.")
            return present
        parameter = Parameter(self, name, wanted, trainable)
        parameter.value = value
        self.register(parameter)
        self.initializers.append(parameter)
        self.program.parameters.append(parameter)
        return parameter

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            "a Block belongs to a program, and is neither copied nor pickled. Copy its program: Program.clone()."
        )

    def __str__(self) -> str:
        return block_text(self)

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """One operator a line; with details, also whether gradients stop at each variable."""
        return block_text(self, with_details)


def _in_order(operands: Any, declared: list[Any], operator: Operator) -> list[Any]:
    """Operands in ONNX order, from a list or a dict by slot name."""
    if operands is None:
        return []
    if not isinstance(operands, dict):
        return [operands] if isinstance(operands, (str, Variable)) else list(operands)
    ordered: list[Any] = []
    names = [operand.name for operand in declared]
    for slot in operands:
        if not any(slot == name for name in names):
            raise IllTyped(f"{operator.type} has no slot {slot!r}; it has {names}.")
    for operand in declared:
        value = operands.get(operand.name)
        if isinstance(value, (list, tuple)):
            ordered.extend(value)
        else:
            ordered.append(value)
    while ordered and ordered[-1] is None:
        ordered.pop()
    if not ordered and declared and not operator.schema:
        raise ProgramError(f"{operator.type} needs operands.")
    return ordered
