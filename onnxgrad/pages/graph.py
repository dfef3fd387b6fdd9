"""view_program: a program as a page on which one can look around, with what becomes of gradients in colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from onnxgrad.core.autodiff.explain import Fate, fates, key_of
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.operator import Operator, Role
from onnxgrad.core.ir.printing import type_text
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.internal.drawing import Drawing, draw_nodes
from onnxgrad.internal.files import write_whole
from onnxgrad.pages.page import asset, page
from onnxgrad.pages.repeats import Repeat, repeats_in

__all__ = ["view_program"]

Array = np.ndarray[Any, Any]
Model = str | Path | bytes | ModelProto | Program

_STATES = {"gradient": "carries", "stops": "stops", "refused": "refuses"}
_LORA = "onnxgrad.lora"
_FEW, _LONGEST, _READ = 16, 200, 1 << 24
_BODY = """<header><h1></h1><input id="search" type="search" placeholder="Search operators, tensors, shapes" autocomplete="off"
 aria-label="Search"><div id="buttons"></div></header>
<ul id="found" hidden></ul>
<main><canvas id="graph" tabindex="0" aria-label="Graph of the model; the panel describes what is selected"></canvas>
<aside id="panel" hidden></aside></main>
<footer id="legend"></footer>
"""


def view_program(model: Model, path: str | Path | None = None, *, values: Mapping[str, Array] | None = None, name: str = "") -> str:
    """A page with the graph of a model: zoom, search, folded repetitions, and types, values and gradient at a click.

    An operator carries gradient, stops it or refuses it (as ``onnxgrad.explain`` says); it is ``frozen`` where it would carry it
    to weights that are not trained, and ``LoRA`` in an adapter.

    Args:
        model: path, bytes or message of an ONNX model, or a Program; it is not changed.
        path: where to write the page.
        values: results to show the range and the first elements of, by name.
        name: what the page is called; default the file's name.

    Returns:
        The page, one HTML document that loads nothing else.

    Raises:
        ModelError: if this is not a readable ONNX model.
        FileError: if the page cannot be written.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N] x) => (float[N] y) { a = Exp(x)  y = Floor(a) }'
        >>> page = view_program(parser.parse_model(text))
        >>> "the derivative is zero almost everywhere" in page
        True
    """
    program = model if isinstance(model, Program) else from_onnx(model)
    name = name or (Path(model).name if isinstance(model, (str, Path)) else "program")
    text = page(
        f"{name}: graph", _BODY, asset("graph.css"), asset("layout.js") + asset("graph.js"), describe(program, name, values)
    )
    if path is not None:
        write_whole(Path(path), text.encode())
    return text


def describe(program: Program, name: str, values: Mapping[str, Array] | None = None) -> dict[str, Any]:
    """Return the contents of the page: lists of operators, tensors and groups that refer to each other by position."""
    description = _Description(draw_nodes(program), fates(program), values or {})
    description.block(None, None, ())
    weights = sum(int(np.prod(p.static_shape or (0,))) for p in program.parameters)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in program.opset_imports)
    counts = Counter(node["state"] for node in description.nodes if node["kind"] == "operator")
    summary = [
        f"{sum(counts.values()):,} operators",
        f"{len(program.parameters):,} weights, {weights:,} elements",
        f"opset {opsets}",
    ]
    return {"name": name, "said": summary, "nodes": description.nodes, "tensors": description.tensors, "groups": description.groups}


class _Description:
    """Numbers operators, tensors and groups of a drawing as they come up."""

    def __init__(self, drawing: Drawing, states: dict[tuple[str, ...], Fate], values: Mapping[str, Array]) -> None:
        self.drawing, self.states, self.values = drawing, states, values
        self.nodes: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self._numbers: dict[Variable, int] = {}
        self._read = 0

    def block(self, body: int | None, group: int | None, around: tuple[str, ...]) -> None:
        """Add the nodes of a body, None for the program's own; ``around`` are the keys of the operators that it lies in."""
        entries = [(number, self.drawing.nodes[number]) for number in self.drawing.inside.get(body, ())]
        for _, (kind, v, _) in entries:
            if kind == "input" and v.value is None:
                self._node("input", v.name, group, results=[self._tensor(v, "input", len(self.nodes))])
        numbers = [number for number, node in entries if node.kind == "operator" and node.shown.replaces is None]
        operators = [self.drawing.nodes[number].shown for number in numbers]
        homes: list[int | None] = [group] * len(operators)
        self._fold(repeats_in([_kind(op) for op in operators], _crossing(operators)), 0, group, homes)
        for number, op, home in zip(numbers, operators, homes, strict=True):
            self._operator(number, op, home, around)
        for _, (kind, v, _) in entries:
            if kind == "output":
                self._node("output", v.name, group, operands=[self._tensor(v, "result", None)])

    def _fold(self, repeats: list[Repeat] | tuple[Repeat, ...], offset: int, group: int | None, homes: list[int | None]) -> None:
        for repeat in repeats:
            for i in range(repeat.times):
                start = offset + repeat.start + i * repeat.length
                number = self._group(f"{i + 1} of {repeat.times}", group, "part")
                homes[start : start + repeat.length] = [number] * repeat.length
                self._fold(repeat.inner, start, number, homes)

    def _group(self, title: str, parent: int | None, kind: str, node: int | None = None) -> int:
        self.groups.append({"title": title, "parent": parent, "kind": kind, "node": node})
        return len(self.groups) - 1

    def _node(self, kind: str, title: str, group: int | None, **more: Any) -> int:
        entry = {"kind": kind, "title": title, "group": group, "state": "", "operands": [], "results": [], **more}
        self.nodes.append(entry)
        return len(self.nodes) - 1

    def _operator(self, drawn: int, op: Operator, group: int | None, around: tuple[str, ...]) -> None:
        key = (*around, key_of(op))
        fate = self.states.get(key)
        state, reason = _state(op, fate)
        number = self._node("operator", op.type, group, state=state, reason=reason, name=op.name, domain=op.domain)
        node = self.nodes[number]
        node["advice"] = fate.advice if fate is not None else ""
        node["unreached"] = fate is not None and not fate.matters
        bodies = sorted(self.drawing.held.get(drawn, ()), key=lambda body: self.drawing.bodies[body].attribute)
        held = {self.drawing.bodies[body].attribute for body in bodies}
        node["attributes"] = [[name, _short(value)] for name, value in sorted(op.attrs.items()) if name not in held]
        node["operands"] = [None if v is None else self._tensor(v, "result", None) for v in op.inputs]
        node["results"] = [None if v is None else self._tensor(v, "result", number) for v in op.outputs]
        outer = self._group(op.type, group, "body", number) if bodies else None
        for body in bodies:
            inner = self._group(self.drawing.bodies[body].attribute, outer, "body") if len(bodies) > 1 else outer
            self.block(body, inner, key)

    def _tensor(self, v: Variable, kind: str, maker: int | None) -> int:
        number = self._numbers.get(v)
        if number is None:
            number = self._numbers[v] = len(self.tensors)
            entry: dict[str, Any] = {"name": v.name, "type": type_text(v.type), "kind": kind, "maker": None}
            if isinstance(v, Parameter):
                entry.update(kind="weight", note=f"{'trained' if v.trainable else 'frozen'}: {v.reason}" if v.reason else "")
            elif v.value is not None:
                entry["kind"] = "constant"
            array = self._array(v)
            if array is not None:
                entry["values"] = _numbers_of(array)
            self.tensors.append(entry)
        if maker is not None:
            self.tensors[number]["maker"] = maker
        return number

    def _array(self, v: Variable) -> Array | None:
        """The elements, as long as not too many have been read"""
        if v.name in self.values:
            return np.asarray(self.values[v.name])
        if v.value is None or v.value.size + self._read > _READ:
            return None
        self._read += v.value.size
        return np.asarray(v.get_value() if isinstance(v, Parameter) else v.value.numpy())


def _state(op: Operator, fate: Fate | None) -> tuple[str, str]:
    if op.metadata is not None and _LORA in op.metadata:
        return "LoRA", f"adapter of {op.metadata[_LORA]}"
    if op.role is not Role.FORWARD or fate is None:
        return "step", "of the training step"
    weights = [v for v in op.inputs if isinstance(v, Parameter) and v.is_float]
    if fate.state == "gradient" and weights and not any(p.trainable for p in weights):
        return "frozen", f"its weights are not trained: {weights[0].reason or 'frozen'}"
    return _STATES[fate.state], fate.reason


def _kind(op: Operator) -> str:
    return f"{op.domain}:{op.type}:{len(op.inputs)}"


def _crossing(operators: list[Operator]) -> Any:
    """Count the tensors that are produced before a position and read behind it"""
    positions = {v: i for i, op in enumerate(operators) for v in op.outputs if v is not None}
    last: dict[Variable, int] = {}
    for i, op in enumerate(operators):
        last.update((v, i) for v in op.operands() if v is not None and v in positions)
    change = np.zeros(len(operators) + 2, np.int64)
    for v, end in last.items():
        change[positions[v] + 1] += 1
        change[end + 1] -= 1
    alive = np.cumsum(change)
    return lambda at: int(alive[at])


def _short(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _numbers_of(array: Array) -> dict[str, Any]:
    """Range, mean and first elements"""
    first = [_short(e) if isinstance(e, (str, bytes)) else f"{e:.6g}" for e in array.reshape(-1)[:_FEW].tolist()]
    summary: dict[str, Any] = {"shape": list(array.shape), "first": first, "size": int(array.size)}
    if array.size and array.dtype.kind not in "OSUc":
        wide = array.astype(np.float64)
        whole = np.isfinite(wide)
        summary["not_finite"] = int(array.size - whole.sum())
        if whole.any():
            kept = wide[whole]
            summary["range"] = [f"{x:.6g}" for x in (kept.min(), kept.max(), kept.mean(), kept.std())]
            summary["histogram"] = np.histogram(kept, 24)[0].tolist() if array.size > _FEW else []
    return summary
