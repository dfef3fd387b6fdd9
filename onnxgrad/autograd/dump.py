"""Writing what a backward pass goes through: two graphs in the dot language and the lines that called the operators."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from onnxgrad.core.ir.types import TensorType
from onnxgrad.eager.node import Call, Node
from onnxgrad.eager.tape import Backward
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import FileError
from onnxgrad.files import make_folder, write_whole

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
    write_whole(folder / f"{stamp}_backward_graph.dot", _backward_graph(calls, leaves).encode())
    write_whole(folder / f"{stamp}_ref_forward_graph.dot", _forward_graph(calls, leaves).encode())
    write_whole(folder / f"{stamp}_call_stack.log", _call_stacks(calls).encode())


def _name(call: Call) -> str:
    return str(call.signature.attrs.get("name", call.signature.type)) if call.signature.type == "PyLayer" else call.signature.type


def _described(node: Node) -> str:
    type = node.kind.type
    return f"{type.dtype.name}{list(type.dims or ())}" if isinstance(type, TensorType) else "sequence"


def _leaf_name(node: Node) -> str:
    return node.meta.name if node.meta is not None and node.meta.name else "leaf"


def _edges(calls: list[Call], leaves: list[Node]) -> list[tuple[int, Any, Node]]:
    """(number of the call that reads, number of the call or leaf that is read, the value)."""
    numbers: dict[Any, int] = {call: at for at, call in enumerate(calls)}
    numbers.update({node: len(calls) + at for at, node in enumerate(leaves)})
    found = []
    for call in calls:
        for node in call.inputs:
            if node is not None and not node.stop:
                source = numbers.get(node.call if node.call is not None else node)
                if source is not None:
                    found.append((numbers[call], source, node))
    return found


def _lines_of(call: Call) -> str:
    lines = call.source_lines()
    return f"\\n{Path(lines[0].split(':')[0]).name}:{lines[0].split(':', 1)[1]}" if lines else ""


def _graph(title: str, boxes: list[str], edges: list[str]) -> str:
    lines = [f"digraph {title} {{", '  node [shape=box, style="rounded,filled", fontname="sans-serif"];', *boxes, *edges, "}", ""]
    return "\n".join(lines)


def _boxes(calls: list[Call], leaves: list[Node], suffix: str, leaf_label: str) -> list[str]:
    hooked = {node.call for call in calls for node in call.inputs if node is not None and node.meta is not None and node.meta.hooks}
    boxes = []
    for at, call in enumerate(calls):
        colour = _HOOKED if call in hooked else _GRADIENT
        boxes.append(f'  node_{at} [label="{_name(call)}{suffix}{_lines_of(call)}", fillcolor={colour}];')
    for at, node in enumerate(leaves, len(calls)):
        boxes.append(f'  node_{at} [label="{leaf_label}{_leaf_name(node)}\\n{_described(node)}", fillcolor={_LEAF}];')
    return boxes


def _backward_graph(calls: list[Call], leaves: list[Node]) -> str:
    """Gradients flow from node_0, the last operator, to the leaves."""
    edges = [f'  node_{a} -> node_{b} [label="Place(cpu)\\n{_described(node)}"];' for a, b, node in _edges(calls, leaves)]
    return _graph("backward", _boxes(calls, leaves, "Grad", "accumulate into .grad of "), edges)


def _forward_graph(calls: list[Call], leaves: list[Node]) -> str:
    edges = [f'  node_{b} -> node_{a} [label="{_described(node)}"];' for a, b, node in _edges(calls, leaves)]
    return _graph("forward", _boxes(calls, leaves, "", ""), edges)


def _call_stacks(calls: list[Call]) -> str:
    lines = ["Where each forward operator was called, innermost line first, in the order of the backward pass.", ""]
    for at, call in enumerate(calls):
        kinds = ", ".join(_described(Node(kind, None)) for kind in call.signature.kinds if kind is not None)
        lines += [
            f"node_{at}: {_name(call)} -> {kinds}",
            *(f"    {line}" for line in call.source_lines() or ["(no line known)"]),
            "",
        ]
    return "\n".join(lines)
