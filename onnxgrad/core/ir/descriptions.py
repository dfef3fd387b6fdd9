"""Operators and blocks as the callbacks of Paddle's backward passes read them: by methods where ours have attributes.

Tests: tests/paddle_suite/test_programs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block
    from onnxgrad.core.ir.operator import Operator

__all__ = ["BlockDesc", "OpDesc"]


class OpDesc:
    """Read an operator: ``op.desc``. Types, slots and attributes are ONNX's, which is what programs consist of.

    Args:
        op: the operator.
    """

    __slots__ = ("_op",)

    def __init__(self, op: Operator) -> None:
        self._op = op

    def type(self) -> str:
        """Its type."""
        return self._op.type

    def input_names(self) -> list[str]:
        """The slots of its operands."""
        return self._op.input_names

    def output_names(self) -> list[str]:
        """The slots of its results."""
        return self._op.output_names

    def input_arg_names(self) -> list[str]:
        """The names of its operands."""
        return self._op.input_arg_names

    def output_arg_names(self) -> list[str]:
        """The names of its results."""
        return self._op.output_arg_names

    def input(self, name: str) -> list[str]:
        """The names of the operands in a slot."""
        return self._op.input(name)

    def output(self, name: str) -> list[str]:
        """The names of the results in a slot."""
        return self._op.output(name)

    def attr_names(self) -> list[str]:
        """The names of its attributes."""
        return [*self._op.attrs, "op_role", "op_role_var"]

    def has_attr(self, name: str) -> bool:
        """Whether it has an attribute."""
        return self._op.has_attr(name)

    def attr(self, name: str) -> Any:
        """The value of an attribute."""
        return self._op.attr(name)


class BlockDesc:
    """Read the operators of a block by number: ``block.desc``.

    Args:
        block: the block.
    """

    __slots__ = ("_block",)

    def __init__(self, block: Block) -> None:
        self._block = block

    def op_size(self) -> int:
        """How many there are."""
        return len(self._block.ops)

    def op(self, index: int) -> OpDesc:
        """One of them."""
        return OpDesc(self._block.ops[index])
