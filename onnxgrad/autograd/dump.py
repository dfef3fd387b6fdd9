"""Writing what a backward pass goes through: two graphs in the dot language and the lines that called the operators.

Tests: tests/eager/test_backward.py.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from onnxgrad.core.ir.types import TensorType
from onnxgrad.eager.node import Call, TapeNode
from onnxgrad.eager.tape import PYTHON, Backward
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import FileError
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
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H:%M:%S.%f")
    write_whole(folder / f"{stamp}_backward_graph.dot", _graph(calls, leaves, "backward").encode())
    write_whole(folder / f"{stamp}_ref_forward_graph.dot", _graph(calls, leaves, "forward").encode())
    write_whole(folder / f"{stamp}_call_stack.log", _call_stacks(calls).encode())


def _name(call: Call) -> str:
    return str(call.signature.attrs["name"]) if call.signature.type == PYTHON else call.signature.type


def _described(node: TapeNode) -> str:
    type = node.kind.type
    return f"{type.dtype.name}{list(type.dims or ())}" if isinstance(type, TensorType) else "sequence"


def _edges(calls: list[Call], leaves: list[TapeNode]) -> list[tuple[int, Any, TapeNode]]:
    """(number of the call that reads, number of the call or leaf that is read, the value)."""
    numbers: dict[Any, int] = {call: at for at, call in enumerate(calls)}
    numbers.update({node: len(calls) + at for at, node in enumerate(leaves)})
    edges = []
    for call in calls:
        for node in call.inputs:
            if node is not None and not node.stop:
                source = numbers.get(node.call if node.call is not None else node)
                if source is not None:
                    edges.append((numbers[call], source, node))
    return edges


def _lines_of(call: Call) -> str:
    lines = call.source_lines()
    return f"\\n{Path(lines[0].split(':')[0]).name}:{lines[0].split(':', 1)[1]}" if lines else ""


def _graph(calls: list[Call], leaves: list[TapeNode], title: str) -> str:
    """Gradients flow from node_0, the last operator, to the leaves; forward, values flow from these to it."""
    backward = title == "backward"
    hooked = {node.call for call in calls for node in call.inputs if node is not None and node.meta is not None and node.meta.hooks}
    lines = [f"digraph {title} {{", '  node [shape=box, style="rounded,filled", fontname="sans-serif"];']
    for at, call in enumerate(calls):
        label = f"{_name(call)}{'Grad' if backward else ''}{_lines_of(call)}"
        lines.append(f'  node_{at} [label="{label}", fillcolor={_HOOKED if call in hooked else _GRADIENT}];')
    for at, node in enumerate(leaves, len(calls)):
        name = node.meta.name if node.meta is not None and node.meta.name else "leaf"
        label = f"{'accumulate into .grad of ' if backward else ''}{name}\\n{_described(node)}"
        lines.append(f'  node_{at} [label="{label}", fillcolor={_LEAF}];')
    for reader, source, node in _edges(calls, leaves):
        ends, place = (f"node_{reader} -> node_{source}", "Place(cpu)\\n") if backward else (f"node_{source} -> node_{reader}", "")
        lines.append(f'  {ends} [label="{place}{_described(node)}"];')
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
