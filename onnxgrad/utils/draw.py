"""draw_program: a program as a graph in the dot language of Graphviz.

Tests: tests/utils/test_utils.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.printing import type_text
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.drawing import DrawnEdge, DrawnNode, dot_label, draw_nodes
from onnxgrad.internal.files import write_whole

__all__ = ["draw_program"]

_COLOURS = {Role.FORWARD: "#dce9f7", Role.BACKWARD: "#f9e0d2", Role.OPTIMIZE: "#e2f0d9"}


@checked
def draw_program(program: Program, path: str | Path | None = None) -> str:
    """Boxes for operators (forward, backward and update in three colours), ellipses for inputs and parameters, arrows for values.

    Args:
        program: any program; the bodies of branches and loops are drawn as boxes around their operators.
        path: where to write the text; ``dot -Tsvg`` makes a picture of it.

    Returns:
        The text.

    Example:
        >>> x = static.data("x", [None, 2])
        >>> y = x * 2.0
        >>> print(draw_program(static.default_main_program()))
        digraph program {
          rankdir=TB; node [fontname="Helvetica", fontsize=10]; edge [fontname="Helvetica", fontsize=8];
          v0 [label="x\\nfloat32[?, 2]", shape=ellipse];
          o0 [label="Mul", shape=box, style=filled, fillcolor="#dce9f7"];
          v0 -> o0;
          v1 [label="tmp_0\\nfloat32[?, 2]", shape=plaintext];
          o0 -> v1;
        }
    """
    style = '  rankdir=TB; node [fontname="Helvetica", fontsize=10]; edge [fontname="Helvetica", fontsize=8];'
    text = "\n".join(["digraph program {", style, *_Dot(program).lines(), "}"])
    if path is not None:
        write_whole(Path(path), f"{text}\n".encode())
    return text


class _Dot:
    """The lines of a program in the dot language: each node with the edges that lead to it, behind it the bodies that it holds."""

    def __init__(self, program: Program) -> None:
        self.program, self.drawing = program, draw_nodes(program)
        counters = {"o": count(), "v": count()}
        self.names: dict[int, str] = {}
        for number, node in enumerate(self.drawing.nodes):
            if node.kind != "output":  # what they lead out is drawn where it is made
                letter = "o" if node.kind == "operator" else "v"
                self.names[number] = f"{letter}{next(counters[letter])}"
        self.edges: dict[int, list[DrawnEdge]] = defaultdict(list)
        for edge in self.drawing.edges:
            self.edges[edge.target].append(edge)

    def lines(self) -> Iterator[str]:
        yield from self._block(None, "  ")
        makers = self.drawing.makers
        for old, new in self.program.updates.items():
            if new in makers and old in makers:
                ends = f"{self.names[makers[new]]} -> {self.names[makers[old]]}"
                yield f'  {ends} [style=dashed, constraint=false, label="replaces"];'

    def _block(self, body: int | None, indent: str) -> Iterator[str]:
        for number in self.drawing.inside.get(body, ()):
            if number not in self.names:
                continue
            node, name = self.drawing.nodes[number], self.names[number]
            yield f"{indent}{name} [{_style(node)}];"
            for edge in self.edges[number]:
                label = "" if node.kind == "unread" else _edge_label(edge.value)
                yield f"{indent}{self.names[edge.source]} -> {name}{label};"
            for at, inner in enumerate(self.drawing.held.get(number, ())):
                label = dot_label(f"{node.shown.type}: {self.drawing.bodies[inner].block.name}")
                yield f"{indent}subgraph cluster_{name}_{at} {{ {label};"
                yield from self._block(inner, indent + "  ")
                yield f"{indent}}}"


def _style(node: DrawnNode) -> str:
    if node.kind == "operator":
        return f'{dot_label(node.shown.type)}, shape=box, style=filled, fillcolor="{_COLOURS[node.shown.role]}"'
    if node.kind == "unread":
        return f"{_label(node.shown)}, shape=plaintext"
    filling = ", style=filled, fillcolor=lightgrey" if isinstance(node.shown, Parameter) else ""
    return f"{_label(node.shown)}, shape=ellipse{filling}"


def _label(v: Variable) -> str:
    return dot_label(v.name, type_text(v.type))


def _edge_label(v: Variable) -> str:
    return "" if v.op is None or v.value is not None else f" [{_label(v)}]"
