"""draw_program: a program as a graph in the dot language of Graphviz.

Tests: tests/utils/test_utils.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.ir.printing import type_text
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.internal.files import write_whole

__all__ = ["draw_program"]

_COLOURS = {Role.FORWARD: "#dce9f7", Role.BACKWARD: "#f9e0d2", Role.OPTIMIZE: "#e2f0d9"}


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
    lines = [
        "digraph program {",
        '  rankdir=TB; node [fontname="Helvetica", fontsize=10]; edge [fontname="Helvetica", fontsize=8];',
    ]
    lines += _Drawing(program).lines()
    text = "\n".join([*lines, "}"])
    if path is not None:
        write_whole(Path(path), f"{text}\n".encode())
    return text


class _Drawing:
    """Numbers operators and values as they come up."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.makers: dict[Variable, str] = {}
        self.operators = 0
        self.values = 0

    def lines(self) -> Iterator[str]:
        yield from self._block(self.program.global_block(), "  ")
        for old, new in self.program.updates.items():
            if new in self.makers and old in self.makers:
                yield f'  {self.makers[new]} -> {self.makers[old]} [style=dashed, constraint=false, label="replaces"];'

    def _block(self, block: Block, indent: str) -> Iterator[str]:
        read: set[Variable] = set()
        for v in block.inputs:
            yield self._leaf(v, indent)
        for op in block.ops:
            operands = [v for v in op.inputs if v is not None]
            for v in operands:
                if v not in self.makers and not _is_small_constant(v):
                    yield self._leaf(v, indent)
            name = f"o{self.operators}"
            self.operators += 1
            colour = _COLOURS[op.role]
            yield f'{indent}{name} [label="{_escaped(op.type)}", shape=box, style=filled, fillcolor="{colour}"];'
            for v in operands:
                if v in self.makers:
                    read.add(v)
                    yield f"{indent}{self.makers[v]} -> {name}{self._label(v)};"
            self.makers.update((v, name) for v in op.outputs if v is not None)
            for number, body in enumerate(op.blocks()):
                yield f'{indent}subgraph cluster_{name}_{number} {{ label="{_escaped(op.type)}: {_escaped(body.name)}";'
                yield from self._block(body, indent + "  ")
                yield f"{indent}}}"
        inside = {v for op in block.ops for body in op.blocks() for inner in body.ops for v in inner.inputs}
        for op in block.ops:
            for result in op.outputs:
                if result is not None and result not in read and result not in inside:
                    maker, end = self.makers[result], f"v{self.values}"
                    self.values += 1
                    yield f'{indent}{end} [label="{_described(result)}", shape=plaintext];'
                    yield f"{indent}{maker} -> {end};"

    def _leaf(self, v: Variable, indent: str) -> str:
        name = self.makers[v] = f"v{self.values}"
        self.values += 1
        style = ", style=filled, fillcolor=lightgrey" if isinstance(v, Parameter) else ""
        return f'{indent}{name} [label="{_described(v)}", shape=ellipse{style}];'

    def _label(self, v: Variable) -> str:
        return "" if v.op is None or v.value is not None else f' [label="{_described(v)}"]'


def _is_small_constant(v: Variable) -> bool:
    return v.value is not None and not v.persistable and v.value.size <= 16


def _described(v: Variable) -> str:
    return f"{_escaped(v.name)}\\n{_escaped(type_text(v.type))}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
