"""Nodes and edges of graphs to draw, which draw_program, the dump of a backward pass and the page of a model write in their forms.

Tests: tests/utils/test_utils.py, tests/eager/test_backward.py, tests/pages/test_graph.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Variable

__all__ = ["Drawing", "DrawnBody", "DrawnEdge", "DrawnNode", "dot_label", "draw_nodes"]


class DrawnNode(NamedTuple):
    """A node of a drawing.

    Attributes:
        kind: ``operator``; ``leaf``, which no operator makes; of a program also ``input`` and ``output`` of a block, and ``unread``
            for a result that nothing reads.
        shown: the operator, call or value.
        body: number of the body that it stands in.
    """

    kind: str
    shown: Any
    body: int | None


class DrawnEdge(NamedTuple):
    """A value on its way from one node to another, by their numbers."""

    source: int
    target: int
    value: Any


class DrawnBody(NamedTuple):
    """A block that an operator holds: its node's number, the attribute and the block."""

    node: int
    attribute: str
    block: Block


@dataclass
class Drawing:
    """Collects nodes, edges and bodies; each refers to others by number.

    Attributes:
        makers: the node that a value, or whatever else ``connect`` is asked for, comes from.
        inside: the nodes of a body, None for those in none.
        held: the bodies of a node's operator.
    """

    nodes: list[DrawnNode] = field(default_factory=list)
    edges: list[DrawnEdge] = field(default_factory=list)
    bodies: list[DrawnBody] = field(default_factory=list)
    makers: dict[Any, int] = field(default_factory=dict)
    inside: dict[int | None, list[int]] = field(default_factory=dict)
    held: dict[int, list[int]] = field(default_factory=dict)

    def add(self, kind: str, shown: Any, body: int | None = None, makes: Iterable[Any] = ()) -> int:
        """Add a node, from which ``makes`` come, and return its number."""
        self.nodes.append(DrawnNode(kind, shown, body))
        number = len(self.nodes) - 1
        self.inside.setdefault(body, []).append(number)
        self.makers.update((value, number) for value in makes)
        return number

    def add_body(self, body: DrawnBody) -> int:
        """Add a body, which the operator of its node holds, and return its number."""
        self.bodies.append(body)
        number = len(self.bodies) - 1
        self.held.setdefault(body.node, []).append(number)
        return number

    def connect(self, source: Any, target: int, value: Any) -> None:
        """Add the edge of a value to node ``target``, if the drawing has the node that ``source`` comes from."""
        maker = self.makers.get(source)
        if maker is not None:
            self.edges.append(DrawnEdge(maker, target, value))


def draw_nodes(program: Program) -> Drawing:
    """Return the nodes, edges and bodies of a program, each body's behind the node of its operator.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { a = Exp(x)  y = Floor(a) }'
        >>> drawing = draw_nodes(onnxgrad.from_onnx(parser.parse_model(text)))
        >>> [node.kind for node in drawing.nodes], [(edge.source, edge.target) for edge in drawing.edges]
        (['input', 'operator', 'operator', 'unread', 'output'], [(0, 1), (1, 2), (2, 3), (2, 4)])
    """
    drawing = Drawing()
    _add_block(drawing, program.global_block(), None, program.outputs)
    return drawing


def _add_block(drawing: Drawing, block: Block, number: int | None, outputs: Iterable[Variable]) -> None:
    read: set[Variable] = set()
    for v in block.inputs:
        drawing.add("input", v, number, makes=[v])
    for op in block.ops:
        operands = [v for v in op.inputs if v is not None]
        for v in operands:
            if v not in drawing.makers and not _is_small_constant(v):
                drawing.add("leaf", v, number, makes=[v])
        node = drawing.add("operator", op, number)
        for v in operands:
            drawing.connect(v, node, v)
        read.update(operands)
        drawing.makers.update((v, node) for v in op.outputs if v is not None)
        for attribute, value in op.attrs.items():
            for body in value if isinstance(value, list) else [value]:
                if isinstance(body, Block):
                    _add_block(drawing, body, drawing.add_body(DrawnBody(node, attribute, body)), body.outputs)
    read.update(v for op in block.ops for body in op.blocks() for inner in body.ops for v in inner.inputs if v is not None)
    for op in block.ops:
        for output in op.outputs:
            if output is not None and output not in read:
                drawing.connect(output, drawing.add("unread", output, number), output)
    for result in outputs:
        drawing.connect(result, drawing.add("output", result, number), result)


def _is_small_constant(v: Variable) -> bool:
    return v.value is not None and not v.persistable and v.value.size <= 16


def dot_label(*lines: str) -> str:
    r"""Return the attribute that labels a node or an edge in the dot language, whatever is in its lines.

    Example:
        >>> print(dot_label('a "b"', "float32[2]"))
        label="a \"b\"\nfloat32[2]"
    """
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)
    return 'label="{}"'.format("\\n".join(escaped))
