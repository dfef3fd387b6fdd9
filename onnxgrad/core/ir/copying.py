"""Operators, variables and bodies copied: a program into another one, or some operators once more within a program.

What a copy of an operator keeps is listed once (``Operator.blank_copy``), and so is that of a variable (``Variable.blank_copy``).
The two copiers differ in where a copy lies, what it is called, and in what they read that was not copied.

Tests: tests/core/ir/test_copying.py, tests/core/ir/test_traverse.py, tests/core/compile/test_compile.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from onnxgrad.core.ir.operator import Expansion, Operator
from onnxgrad.core.ir.variable import Variable

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block
    from onnxgrad.core.ir.program import Program

__all__ = ["Copy", "copy_block", "copy_operators"]


class _Copier:
    """Copies operators with the bodies inside them.

    Attributes:
        variables: the copy of each variable, or its replacement.
    """

    def __init__(self, variables: dict[Variable, Variable]) -> None:
        self.variables = variables

    # What a kind of copier decides -----------------------------------------------------------------------------------

    def read(self, v: Variable) -> Variable:
        """Return the variable that copies read in place of ``v``."""
        raise NotImplementedError

    def computed(self, v: Variable, op: Operator, copy: Operator, block: Block) -> Variable:
        """The copy of a result of ``op``, which ``copy`` computes in a block."""
        raise NotImplementedError

    def owned(self, v: Variable, body: Block) -> Variable:
        """The copy of an input or a constant of a body."""
        raise NotImplementedError

    def leaves_out(self, v: Variable) -> bool:
        """Return whether a constant or weight of a body is left out of the copy of that body."""
        raise NotImplementedError

    def returned(self, v: Variable, body: Block) -> Variable:
        """Return the output of the copy of a body in place of ``v``."""
        return self.read(v)

    def origin_of(self, v: Variable) -> Variable | None:
        """The result that the origin of a copy names."""
        return self.variables.get(v)

    def enter(self, body: Block, copy: Block) -> None:
        """Note the copy of a body before anything in it is copied."""

    # What all copiers do ---------------------------------------------------------------------------------------------

    def operator(self, op: Operator, block: Block) -> Operator:
        """A copy of an operator for a block, to which it is not appended."""
        known = self.variables
        copy = op.blank_copy(block, [None if v is None else known.get(v) or self.read(v) for v in op.inputs])
        if op.attrs:
            copy.attrs = {key: self._attribute(value, block) for key, value in op.attrs.items()}
        if op.origin is not None and op.origin.of is not None:
            copy.origin = op.origin._replace(of=self.origin_of(op.origin.of))
        for v in op.outputs:
            copy.outputs.append(None if v is None else self.computed(v, op, copy, block))
        return copy

    def _attribute(self, value: Any, block: Block) -> Any:
        if hasattr(value, "ops"):
            return self.body(value, block)
        if isinstance(value, list) and value and hasattr(value[0], "ops"):
            return [self.body(body, block) for body in value]
        return value

    def body(self, body: Block, parent: Block) -> Block:
        """A copy of a body under another block."""
        copy = parent.program.new_block(parent, body.name)
        self.enter(body, copy)
        copy_header(body, copy)
        copy.inputs = [self.owned(v, copy) for v in body.inputs]
        copy.initializers = [self.owned(v, copy) for v in body.initializers if not self.leaves_out(v)]
        for op in body.ops:
            weight = _weight_of(op)
            if weight is None or not self.leaves_out(weight):
                copy.append(self.operator(op, copy))
        copy.outputs = [self.returned(v, copy) for v in body.outputs]
        return copy


def copy_header(block: Block, copy: Block) -> None:
    """Copy what a block has besides operators and variables."""
    copy.name, copy.doc, copy.metadata, copy.unread = block.name, block.doc, block.metadata, block.unread
    copy.forward_block_idx = block.forward_block_idx


def _weight_of(op: Operator) -> Variable | None:
    """The weight that a Constant holds"""
    first = op.outputs[0] if op.outputs else None
    return first if first is not None and first.persistable and first.value is not None else None


# Into another program --------------------------------------------------------------------------------------------------


class Copy(_Copier):
    """Copies of variables, operators and blocks of one program in another, under their names.

    Attributes:
        home: the program that receives them.
        variables, operators: the copy of each original.
        names: of variables that get another name than their own.
        hoists: whether weights that lie in bodies become weights of the main block, as state must be.
    """

    def __init__(self, home: Program, source: Program, hoists: bool = False) -> None:
        super().__init__({})
        self.home = home
        self.hoists = hoists
        self.operators: dict[Operator, Operator] = {}
        self.names: dict[Variable, str] = {}
        self._blocks: dict[Block, Block] = {source.global_block(): home.global_block()}
        copy_header(source.global_block(), home.global_block())

    def append(self, op: Operator, block: Block) -> Operator:
        """Append the copy of an operator to a block."""
        copy = self.operator(op, block)
        block.ops.append(copy)
        return copy

    def operator(self, op: Operator, block: Block) -> Operator:
        copy = self.operators[op] = super().operator(op, block)
        return copy

    def read(self, v: Variable) -> Variable:
        """The copy of a variable, created now if it is a leaf that nobody asked for before."""
        return self.variables.get(v) or self._variable(v)

    def computed(self, v: Variable, op: Operator, copy: Operator, block: Block) -> Variable:
        copied = self.variables.get(v) or self._variable(v)
        if v.op is op:
            copied.op = copy
        return copied

    def owned(self, v: Variable, body: Block) -> Variable:
        return self.read(v)

    def leaves_out(self, v: Variable) -> bool:
        return self.hoists and v.persistable

    def body(self, body: Block, parent: Block) -> Block:
        copy = super().body(body, parent)
        copy.value_infos = [self.read(v) for v in body.value_infos if not self.leaves_out(v)]
        return copy

    def enter(self, body: Block, copy: Block) -> None:
        self._blocks[body] = copy

    def _variable(self, v: Variable) -> Variable:
        """A new copy of a variable, entered into the copy of its block"""
        block = self._blocks.get(v.block)
        if block is None or (self.hoists and v._persistable):
            block = self.home.global_block()
        copy = v.blank_copy(block, self.names.get(v, v._name))
        if v._persistable:
            copy.entries = None  # a run may replace them
        self.variables[v] = block.register(copy)
        return copy

    def returned(self, v: Variable, body: Block) -> Variable:
        """A body may not return a value from outside, where a weight of its own now lies."""
        copy = self.read(v)
        if not self.leaves_out(v):
            return copy
        identity = Operator(body, "Identity", [copy], [])
        returned = Variable(body, self.home.fresh_name(f"{v.name}/out"), v.type, identity)
        identity.outputs = [returned]
        body.append(identity)
        return returned

    def expansions(self) -> None:
        """Set which copies replace which, as among the originals that were copied."""
        for op, copy in self.operators.items():
            if op.replaces is not None:
                copy.replaces = self.operators.get(op.replaces)
            if op.expansion is not None and all(inner in self.operators for inner in op.expansion.operators):
                inner_ops = [self.operators[inner] for inner in op.expansion.operators]
                outputs = [None if v is None else self.read(v) for v in op.expansion.outputs]
                copy.expansion = Expansion(inner_ops, outputs, op.expansion.always, op.expansion.number)


# Within a program ------------------------------------------------------------------------------------------------------


def copy_operators(
    operators: Iterable[Operator], mapping: dict[Variable, Variable], block: Block, name_of: Callable[[Variable], str]
) -> list[Operator]:
    """Copies that read ``mapping[v]`` instead of ``v``. New outputs are entered into ``mapping``; nothing is appended."""
    copier = _Again(mapping, name_of)
    return [copier.operator(op, block) for op in operators]


def copy_block(block: Block, mapping: dict[Variable, Variable], parent: Block, name_of: Callable[[Variable], str]) -> Block:
    """A body copied under another parent block, with every inner name from ``name_of``."""
    return _Again(mapping, name_of).body(block, parent)


class _Again(_Copier):
    """Operators once more in their program, under new names; weights, and what is not copied, are read as they are.

    What a file declares of the values inside a body is of that body alone.
    """

    def __init__(self, variables: dict[Variable, Variable], name_of: Callable[[Variable], str]) -> None:
        super().__init__(variables)
        self.name_of = name_of

    def read(self, v: Variable) -> Variable:
        return self.variables.get(v, v)

    def computed(self, v: Variable, op: Operator, copy: Operator, block: Block) -> Variable:
        if v.persistable:
            return v
        copied = self.variables[v] = v.blank_copy(block, self.name_of(v))
        copied.op = copy
        return copied

    def owned(self, v: Variable, body: Block) -> Variable:
        copy = self.variables[v] = body.register(v.blank_copy(body, self.name_of(v)))
        return copy

    def leaves_out(self, v: Variable) -> bool:
        return v.persistable or v in self.variables

    def origin_of(self, v: Variable) -> Variable | None:
        return self.read(v)
