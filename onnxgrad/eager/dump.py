"""Writing what a backward pass goes through: two graphs in the dot language and the lines that called the operators.

Tests: tests/eager/test_backward.py.
"""

from __future__ import annotations

import datetime
from pathlib import Path

from onnxgrad.core.ir.types import TensorType
from onnxgrad.eager.node import Call, TapeNode
from onnxgrad.eager.tape import PYTHON, Backward
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import FileError
from onnxgrad.internal.drawing import Drawing, dot_label
from onnxgrad.internal.files import make_folder, write_whole

__all__ = ["dump"]

_LEAF, _GRADIENT, _HOOKED = "lightgoldenrod", "lightblue", "lightpink"


class _NotAFolder(FileError, NotADirectoryError):
    """A file stands where a folder belongs."""


def dump(targets: list[Tensor], path: str) -> None:
    """Write three files into the folder ``path``, named after the time.

    Raises:
        NotADirectoryError: if ``path`` is a file.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise _NotAFolder(f"dump_backward_graph_path: {path!r} is a file. Name a folder.")
    make_folder(folder)
    calls, _, leaves = Backward(create_graph=False)._collect([tensor._node for tensor in targets])
    calls.sort(key=lambda call: -call.serial)
    drawing = _draw_nodes(calls, leaves)
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H:%M:%S.%f")
    write_whole(folder / f"{stamp}_backward_graph.dot", _graph(drawing, "backward").encode())
    write_whole(folder / f"{stamp}_ref_forward_graph.dot", _graph(drawing, "forward").encode())
    write_whole(folder / f"{stamp}_call_stack.log", _call_stacks(calls).encode())


def _name(call: Call) -> str:
    return str(call.signature.attrs["name"]) if call.signature.type == PYTHON else call.signature.type


def _described(node: TapeNode) -> str:
    type = node.kind.type
    return f"{type.dtype.name}{list(type.dims or ())}" if isinstance(type, TensorType) else "sequence"


def _draw_nodes(calls: list[Call], leaves: list[TapeNode]) -> Drawing:
    """Return calls, then leaves, and the values that calls read of either."""
    drawing = Drawing()
    for call in calls:
        drawing.add("operator", call, makes=[call])
    for leaf in leaves:
        drawing.add("leaf", leaf, makes=[leaf])
    for number, call in enumerate(calls):
        for node in call.inputs:
            if node is not None and not node.stop:
                drawing.connect(node.call if node.call is not None else node, number, node)
    return drawing


def _line_of(call: Call) -> list[str]:
    """Return the line that called an operator, if it is known."""
    file, _, rest = next(iter(call.source_lines()), "").partition(":")
    return [f"{Path(file).name}:{rest}"] if rest else []


def _graph(drawing: Drawing, title: str) -> str:
    """Gradients flow from node_0, the last operator, to the leaves; forward, values flow from these to it."""
    backward = title == "backward"
    values = [edge.value for edge in drawing.edges]
    hooked = {node.call for node in values if node.meta is not None and node.meta.hooks}
    lines = [f"digraph {title} {{", '  node [shape=box, style="rounded,filled", fontname="sans-serif"];']
    for number, (kind, shown, _) in enumerate(drawing.nodes):
        if kind == "operator":
            label = dot_label(f"{_name(shown)}{'Grad' if backward else ''}", *_line_of(shown))
            colour = _HOOKED if shown in hooked else _GRADIENT
        else:
            name = shown.meta.name if shown.meta is not None and shown.meta.name else "leaf"
            label, colour = dot_label(f"{'accumulate into .grad of ' if backward else ''}{name}", _described(shown)), _LEAF
        lines.append(f"  node_{number} [{label}, fillcolor={colour}];")
    for source, reader, node in drawing.edges:
        ends = f"node_{reader} -> node_{source}" if backward else f"node_{source} -> node_{reader}"
        lines.append(f"  {ends} [{dot_label(*(['Place(cpu)'] if backward else []), _described(node))}];")
    return "\n".join([*lines, "}", ""])


def _call_stacks(calls: list[Call]) -> str:
    lines = ["Where each forward operator was called, innermost line first, in the order of the backward pass.", ""]
    for at, call in enumerate(calls):
        kinds = ", ".join(_described(TapeNode(kind, None)) for kind in call.signature.kinds if kind is not None)
        lines += [
            f"node_{at}: {_name(call)} -> {kinds}",
            *(f"    {line}" for line in call.source_lines() or ["(no line known)"]),
            "",
        ]
    return "\n".join(lines)
