"""A program, or a part of it, copied into another one: names, types, declarations and metadata included.

Tests: tests/core/ir/test_traverse.py, tests/core/compile/test_compile.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgrad.core.ir.operator import Expansion, Operator
from onnxgrad.core.ir.variable import Parameter, Variable

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block
    from onnxgrad.core.ir.program import Program

__all__ = ["Copy"]


class Copy:
    """Copies of variables, operators and blocks of one program in another.

    Attributes:
        home: the program that receives them.
        variables, operators: the copy of each original.
        hoists: whether weights that lie in bodies become weights of the main block, as state must be.
    """

    def __init__(self, home: Program, source: Program, hoists: bool = False) -> None:
        self.home = home
        self.hoists = hoists
        self.variables: dict[Variable, Variable] = {}
        self.operators: dict[Operator, Operator] = {}
        self._blocks: dict[Block, Block] = {source.global_block(): home.global_block()}
        self.header(source.global_block(), home.global_block())

    @staticmethod
    def header(block: Block, copy: Block) -> None:
        copy.name, copy.doc, copy.metadata, copy.forward_block_idx = block.name, block.doc, block.metadata, block.forward_block_idx

    def of(self, v: Variable | None) -> Variable | None:
        """The copy of a variable, made now if it is a leaf that nobody asked for before."""
        return None if v is None else self.variables.get(v) or self.variable(v)

    def leaf(self, v: Variable) -> Variable:
        """The copy of a variable that no operator of the copy computes."""
        return self.variables.get(v) or self.variable(v)

    def variable(self, v: Variable, name: str | None = None) -> Variable:
        """A new copy of a variable, entered into the copy of its block under its own name or another one."""
        block = self._blocks.get(v.block)
        if block is None or (self.hoists and v.persistable):
            block = self.home.global_block()
        name = v.name if name is None else name
        twin = Parameter(block, name, v.type, v.trainable) if isinstance(v, Parameter) else Variable(block, name, v.type)
        if isinstance(v, Parameter) and isinstance(twin, Parameter):
            twin.optimize_attr = dict(v.optimize_attr)
            twin.regularizer, twin.need_clip, twin.reason = v.regularizer, v.need_clip, v.reason
            twin.do_model_average = v.do_model_average
        twin.value, twin._stop, twin.persistable = v.value, v._stop, v.persistable
        twin.entries = None if v.persistable else v.entries  # a run may replace them
        twin.is_data, twin.declared, twin.doc, twin.metadata = v.is_data, v.declared, v.doc, v.metadata
        self.variables[v] = block.register(twin)
        return twin

    def operator(self, op: Operator, block: Block, names: dict[Variable, str] | None = None) -> Operator:
        """Append the copy of an operator to a block; ``names`` gives results other names."""
        twin = op.blank_copy(block, [self.of(v) for v in op.inputs])
        for key, value in op.attrs.items():
            if hasattr(value, "ops"):
                twin.attrs[key] = self.body(value, block)
            elif isinstance(value, list) and value and hasattr(value[0], "ops"):
                twin.attrs[key] = [self.body(body, block) for body in value]
            else:
                twin.attrs[key] = value
        if op.origin is not None and op.origin.of is not None:
            twin.origin = op.origin._replace(of=self.variables.get(op.origin.of))
        for v in op.outputs:
            made = None
            if v is not None:
                made = self.variables.get(v) or self.variable(v, None if names is None else names.get(v))
                made.op = twin if v.op is op else made.op
            twin.outputs.append(made)
        block.ops.append(twin)
        self.operators[op] = twin
        return twin

    def body(self, body: Block, parent: Block) -> Block:
        """The copy of a body under another block."""
        twin = self.home.new_block(parent, body.name)
        self._blocks[body] = twin
        self.header(body, twin)
        twin.inputs = [self.variable(v) for v in body.inputs]
        twin.initializers = [self.leaf(v) for v in body.initializers if not (self.hoists and v.persistable)]
        for op in body.ops:
            if not (self.hoists and _is_weight(op)):
                self.operator(op, twin)
        twin.outputs = [self._returned(v, twin) for v in body.outputs]
        twin.value_infos = [self.leaf(v) for v in body.value_infos if not (self.hoists and v.persistable)]
        return twin

    def _returned(self, v: Variable, body: Block) -> Variable:
        """A body may not return a value from outside, where a weight of its own now lies."""
        twin = self.leaf(v)
        if not (self.hoists and v.persistable):
            return twin
        identity = Operator(body, "Identity", [twin], [])
        returned = Variable(body, self.home.fresh_name(f"{v.name}/out"), v.type, identity)
        identity.outputs = [returned]
        body.append(identity)
        return returned

    def expansions(self) -> None:
        """Which copies stand in for which, as among the originals that were copied."""
        for op, twin in self.operators.items():
            if op.replaces is not None:
                twin.replaces = self.operators.get(op.replaces)
            if op.expansion is not None and all(inner in self.operators for inner in op.expansion.operators):
                inner_ops = [self.operators[inner] for inner in op.expansion.operators]
                outputs = [self.of(v) for v in op.expansion.outputs]
                twin.expansion = Expansion(inner_ops, outputs, op.expansion.always)


def _is_weight(op: Operator) -> bool:
    """Whether it is a Constant that holds a weight."""
    first = op.outputs[0] if op.outputs else None
    return first is not None and first.persistable and first.value is not None
