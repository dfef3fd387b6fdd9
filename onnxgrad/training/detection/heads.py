"""What the outputs of a detector or segmenter mean, found by walking back from them.

A family is recognised by its operators and by where constants enter, never by names of tensors: distributions of distances are a
Softmax whose expectation is taken with the weights 0, 1, 2, ...; anchors are boxes of several sizes at each cell, of which a layer
gives all numbers in a row; cells are four numbers, one and those of classes, joined; default boxes are scaled by Exp; queries are a
Sigmoid of four numbers beside classes of the same vectors. What follows the last layers with weights is the decoding: none of it
trains.

Tests: tests/training/detection/test_heads.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from onnxgrad.core.ir.known import known_ints
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traits import READS_SHAPES, VIEWS
from onnxgrad.core.ir.traverse import readers_in
from onnxgrad.core.ir.types import Dim, same_dim
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.errors import ArgumentError, OnnxGradError
from onnxgrad.training.detection.rounding import rounded_tensors, take_out_rounding
from onnxgrad.training.surgery.activations import Activation, argmax_before

__all__ = [
    "Bins",
    "Channels",
    "DetectorHead",
    "MapHead",
    "decoding_operators",
    "fixed_parameters",
    "freeze_decoding",
    "names_in_metadata",
    "recognise_head",
    "require_head",
    "set_anchors",
]

Array = np.ndarray[Any, Any]
Family: TypeAlias = Literal["distances", "anchors", "cells", "default boxes", "queries"]
Sides: TypeAlias = Literal["square", "exp"]
"""How sides of anchors grow where the file leaves that to its readers: anchor (2 sigmoid)^2 (YOLOv5), or anchor exp (YOLOv3)."""

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_PASSES_ON = VIEWS | {"Transpose", "Cast", "QuantizeLinear", "DequantizeLinear"}
_TITLES = {
    "distances": "like YOLOv8 and YOLO11: distributions of the distances to four sides",
    "anchors": "like YOLOv5: anchors, an objectness and classes",
    "cells": "like YOLOX: a box, an objectness and classes of each cell",
    "default boxes": "like SSD: offsets from default boxes",
    "queries": "like DETR: each query is a box or none",
}


class Channels(NamedTuple):
    """Some channels of a tensor [batch, ...]; its other axes, in their order, count anchors.

    Attributes:
        tensor: of any rank from 2 on; of rank 2 it holds the anchors of one picture.
        axis: of the channels.
        start, stop: the first channel, and the one behind the last.
        groups: of a map of rank 4, for how many anchors of a cell such channels stand one behind the other.
    """

    tensor: Variable
    axis: int
    start: int
    stop: int
    groups: int = 1


class Bins(NamedTuple):
    """Logits of distributions of distances.

    Attributes:
        tensor: [batch, ...] with these axes, one of anchors, or of a map [batch, sides * bins, height, width].
        bins_axis, sides_axis: of the bins and of the sides left, top, right, bottom; both 1 for a map.
        bins: how many there are.
    """

    tensor: Variable
    bins_axis: int
    sides_axis: int
    bins: int


@dataclass(frozen=True)
class DetectorHead:
    """Where a detector's classes and boxes lie in its program.

    Attributes:
        family: ``"distances"``, ``"anchors"``, ``"cells"``, ``"default boxes"`` or ``"queries"``.
        classes: how many, without a background.
        scores: class logits, of each level.
        activation: ``"Sigmoid"`` or ``"Softmax"``, which makes probabilities of them.
        background: the channel of ``scores`` that stands for no object; None where there is none.
        objectness: logits of there being an object, of each level; empty where there is none.
        boxes: the four numbers that the file decodes; None where it leaves them to whoever reads the maps.
        numbers: the four numbers that boxes are made of, of each level; of families without distances.
        bins: of the distances, of each level.
        anchors: widths and heights in pixels, a row for each level, the one of the smallest stride first; where the file leaves
            anchors to be decoded.
        sides: how these grow.
        probes: tensors that decide the boxes, and that are replaced to find out where the anchors lie.
        suppression: NonMaxSuppression in the file, which the loss stands before.
        layers: the last layers with weights, those of classes and of boxes.
    """

    family: Family
    classes: int
    scores: tuple[Channels, ...]
    activation: str = "Sigmoid"
    background: int | None = None
    objectness: tuple[Channels, ...] = ()
    boxes: Channels | None = None
    numbers: tuple[Channels, ...] = ()
    bins: tuple[Bins, ...] = ()
    anchors: tuple[tuple[tuple[float, float], ...], ...] = ()
    sides: Sides = "square"
    probes: tuple[Variable, ...] = ()
    suppression: Operator | None = None
    layers: tuple[Operator, ...] = field(default=(), repr=False)

    @property
    def description(self) -> str:
        """One line for people."""
        decoded = "decoded in the file" if self.boxes is not None else "not decoded: maps of each stride"
        nms = ", with NonMaxSuppression in the file" if self.suppression is not None else ""
        none = "" if self.background is None else " and a background"
        bins = f", {self.bins[0].bins} bins" if self.bins else ""
        return f"a detector {_TITLES[self.family]} ({self.classes} classes{none}{bins}; {decoded}{nms})"

    @property
    def loss_terms(self) -> str:
        """What the loss detection compares, for people."""
        return {
            "distances": "classes (task-aligned), boxes (CIoU), distributions of distances",
            "anchors": "objectness and classes (matched by the sides of anchors, as YOLOv5 does), boxes (CIoU)",
            "cells": "objectness and classes (task-aligned), boxes (CIoU)",
            "default boxes": "classes (matched by overlap), boxes (GIoU)",
            "queries": f"classes ({'cross-entropy' if self.background is not None else 'varifocal'}), boxes (L1 and GIoU), "
            "matched by the least cost",
        }[self.family]


@dataclass(frozen=True)
class MapHead:
    """A file whose output has a value or a class for each pixel.

    Attributes:
        output: of the program.
        logits: the scores before Sigmoid, Softmax and ArgMax: [batch, channels, height, width].
        through: the operators between, the first one first, such as ``("Softmax", "ArgMax")``.
        channels: how many, or None.
        thresholds, binary: of a text detector as it trains: the threshold of each pixel, and how far its probability is above that,
            from 0 to 1; None where the file has the probabilities alone.
    """

    output: Variable
    logits: Variable
    through: tuple[str, ...]
    channels: int | None
    thresholds: Variable | None = None
    binary: Variable | None = None

    @property
    def is_text_map(self) -> bool:
        """Whether it may be a map of text regions, as DBNet has it: one channel of probabilities."""
        return self.channels == 1 and self.through == ("Sigmoid",)

    @property
    def description(self) -> str:
        """One line for people."""
        behind = f" behind {' and '.join(self.through)}" if self.through else ""
        if self.thresholds is not None:
            return (
                "a text detector like DBNet as it trains: maps of probabilities, of thresholds, and of the approximate binary map"
            )
        if self.is_text_map:
            return "a map of probabilities for each pixel: a text detector like DBNet, or a mask of one class"
        return f"a segmenter: scores of {self.channels or 'unknown'} classes for each pixel{behind}"


class _Graph:
    """A program seen from its outputs: the operators behind the last layers with weights, and these layers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.block = program.global_block()
        self.data = _data_of(program)
        self.readers = readers_in(self.block.ops)
        self.position = {id(op): i for i, op in enumerate(self.block.ops)}
        seen: set[int] = set()
        self.layers: list[Operator] = []
        stack = [v.op for v in program.outputs if v.op is not None]
        tail: list[Operator] = []
        while stack:
            op = stack.pop()
            if id(op) in seen or id(op) not in self.position:
                continue
            seen.add(id(op))
            if self.is_layer(op):
                self.layers.append(op)
                continue
            tail.append(op)
            stack += [v.op for v in op.operands() if v is not None and v.op is not None and v in self.data]
        self.tail = sorted(tail, key=self._place)
        self.layers.sort(key=self._place)

    def _place(self, op: Operator) -> int:
        return self.position[id(op)]

    def is_layer(self, op: Operator) -> bool:
        """Whether an operator is a layer with weights, which an expectation over bins is not"""
        if op.domain != "" or op.type not in _LAYERS or len(op.inputs) < 2:
            return False
        x, weight = op.inputs[:2]
        if op.type == "MatMul" and x is not None and x not in self.data:
            x, weight = weight, x
        return x in self.data and weight not in self.data and _bins_in(op, self.data) is None

    def of_type(self, *types: str) -> list[Operator]:
        """The operators of these types behind the last layers, in order"""
        return [op for op in self.tail if op.domain == "" and op.type in types and op.inputs[0] in self.data]

    def closure(self, sources: Iterable[Variable]) -> list[Variable]:
        """What follows from these tensors and constants alone, in order"""
        reached = dict.fromkeys(sources)
        for op in self.tail:
            data = [v for v in op.operands() if v is not None and v in self.data]
            if data and all(v in reached for v in data):
                reached.update((v, None) for v in op.outputs if v is not None)
        return list(reached)


def _data_of(program: Program) -> set[Variable]:
    """The tensors whose values, not only shapes, follow from an input"""
    data = set(program.inputs)
    for op in program.global_block().ops:
        if op.type not in READS_SHAPES and any(v in data for v in op.operands() if v is not None):
            data.update(v for v in op.outputs if v is not None)
    return data


def array_of(v: Variable | None) -> Array | None:
    """The array of a constant, also of one in integers; None if it is computed from something else."""
    if v is None:
        return None
    if v.value is not None:
        return v.value.numpy()
    if v.op is None or v.op.domain != "":
        return None
    if v.op.type in ("Identity", "Cast"):
        return array_of(v.op.inputs[0])
    if v.op.type == "Constant" and "value" in v.op.attrs:
        constant: Array = v.op.attrs["value"].numpy()
        return constant
    if v.op.type == "DequantizeLinear":
        arrays = [array_of(x) for x in v.op.inputs]
        if arrays[0] is not None and arrays[1] is not None and arrays[1].size == 1:
            zero = 0 if len(arrays) < 3 or arrays[2] is None else arrays[2].astype(np.float32)
            whole: Array = (arrays[0].astype(np.float32) - zero) * arrays[1]
            return whole
    return None


def _bins_in(op: Operator, data: set[Variable]) -> int | None:
    """The number of bins that an operator takes the expectation over: the other operand of a product is 0, 1, 2, ..."""
    if op.domain != "" or op.type not in ("Conv", "MatMul", "Mul"):
        return None
    constants = [v for v in op.inputs[:2] if v is not None and v not in data]
    array = array_of(constants[0]) if len(constants) == 1 else None
    if array is None or array.size < 2 or max(array.shape) != array.size:
        return None
    steps = np.arange(array.size)
    return array.size if np.allclose(array.reshape(-1), steps, atol=0.02 * array.size) and array.reshape(-1)[0] == 0 else None


def _behind(graph: _Graph, v: Variable) -> tuple[Operator, Variable] | None:
    """The operator that takes the expectation of a distribution, and its result"""
    while True:
        readers = [op for op, _ in graph.readers.get(v, ()) if op.type not in READS_SHAPES]
        if len(readers) != 1 or not readers[0].outputs or readers[0].outputs[0] is None:
            return None
        op = readers[0]
        result = op.outputs[0]
        if result is None:
            return None
        if _bins_in(op, graph.data) is not None:
            if op.type != "Mul":
                return op, result
            sums = [reader.outputs[0] for reader, _ in graph.readers.get(result, ()) if reader.type == "ReduceSum"]
            return (op, sums[0]) if len(sums) == 1 and sums[0] is not None else None
        if op.type not in _PASSES_ON:
            return None
        v = result


def _size(dims: Sequence[Dim] | None) -> int | None:
    """The number of anchors behind the batch, where it is known"""
    known = [d for d in dims or (None,) if isinstance(d, int)]
    return int(np.prod(known)) if dims is not None and len(known) == len(dims) else None


def _may_equal(a: Dim, b: Dim) -> bool:
    """Whether sizes are not known to differ: tools that quantise name the same size differently at each operator"""
    return not (isinstance(a, int) and isinstance(b, int)) or a == b


def _decoded(variables: Sequence[Variable], anchors: Sequence[Dim] | None) -> Channels | None:
    """The last tensor of boxes: four numbers for each of the anchors"""
    for v in reversed(variables):
        dims = v.dims
        if dims is None or len(dims) not in (2, 3) or not v.is_float or 4 not in dims[-2:]:
            continue
        axis = len(dims) - 1 if dims[-1] == 4 else len(dims) - 2
        if len(dims) == 2 and axis == 0:
            continue
        other = dims[-1] if axis == len(dims) - 2 else dims[-2]
        if anchors is None or any(_may_equal(other, dim) for dim in anchors):
            return Channels(v, axis, 0, 4)
    return None


# Families -------------------------------------------------------------------------------------------------------------


def _distances(graph: _Graph) -> DetectorHead | None:
    """Distributions of distances, decoded by the expectation over bins"""
    bins, expected = [], []
    for op in graph.of_type("Softmax"):
        behind, logits = _behind(graph, op.outputs[0]) if op.outputs[0] is not None else None, op.inputs[0]
        if behind is None or logits is None or logits.dims is None:
            continue
        axis = int(op.attr("axis")) % len(logits.dims)
        count = _bins_in(behind[0], graph.data)
        sides = [i for i, dim in enumerate(logits.dims) if i and i != axis and dim == 4]
        if count is None or len(sides) != 1 or logits.dims[axis] != count:
            continue
        bins.append(Bins(logits, axis, sides[0], count))
        expected.append(behind[1])
    if not bins:
        return None
    follows = graph.closure(expected)
    inside = set(follows)
    activations = [op for op in graph.of_type("Sigmoid") if op.inputs[0] is not None and op.inputs[0] not in inside]
    scores = [channels for op in activations if (channels := _class_channels(op.inputs[0], len(activations))) is not None]
    if not scores or len({channels.stop for channels in scores}) != 1:
        return None
    sizes = [_size([d for i, d in enumerate(c.tensor.dims or ()) if i not in (0, c.axis)]) for c in scores]
    total = None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
    boxes = _decoded(follows, None if total is None else [total])
    if boxes is None:
        return None
    return DetectorHead(
        "distances", scores[0].stop, tuple(scores), boxes=boxes, bins=tuple(bins), probes=tuple(expected), **_common(graph)
    )


def _class_channels(logits: Variable | None, levels: int) -> Channels | None:
    """The classes among the axes of logits: those behind the batch of a map, the smaller axis of a list of anchors"""
    if logits is None or logits.dims is None or len(logits.dims) not in (3, 4):
        return None
    dims = logits.dims
    if len(dims) == 4:
        return Channels(logits, 1, 0, dims[1]) if isinstance(dims[1], int) else None
    known = [(dim, axis) for axis, dim in enumerate(dims) if axis and isinstance(dim, int)]
    if not known:
        return None
    dim, axis = min(known)
    return Channels(logits, axis, 0, dim)


def _maps(graph: _Graph) -> DetectorHead | None:
    """The same distributions left as maps of each stride, each beside the classes of its cells"""
    bins, scores = [], []
    for v in graph.program.outputs:
        op = v.op
        while op is not None and op.type in ("Identity", "Cast", "QuantizeLinear", "DequantizeLinear") and op.inputs[0] is not None:
            op = op.inputs[0].op
        parts = [] if op is None or op.type != "Concat" else [x for x in op.inputs if x is not None]
        if v.rank != 4 or len(parts) != 2 or int(op.attr("axis")) != 1:  # type: ignore[union-attr]
            return None
        widths = [x.dims[1] if x.dims else None for x in parts]
        first, second = widths
        if not isinstance(first, int) or not isinstance(second, int) or first % 4 or first < 8:
            return None
        joined = op.outputs[0]  # type: ignore[union-attr]
        assert joined is not None
        bins.append(Bins(joined, 1, 1, first // 4))
        scores.append(Channels(joined, 1, first, first + second))
    if len(bins) < 2 or len({(b.bins, s.stop) for b, s in zip(bins, scores, strict=True)}) != 1:
        return None
    return DetectorHead("distances", scores[0].stop - scores[0].start, tuple(scores), bins=tuple(bins), **_common(graph))


def _moved(graph: _Graph, layer: Operator) -> Variable | None:
    """The result of a layer, as far as it is only moved and reshaped"""
    v = layer.outputs[0]
    while v is not None:
        readers = [op for op, _ in graph.readers.get(v, ()) if op.type not in READS_SHAPES]
        if len(readers) != 1 or readers[0].type not in _PASSES_ON:
            return v
        v = readers[0].outputs[0]
    return None


def _decoded_rows(graph: _Graph, levels: Sequence[Sequence[Variable]], width: int) -> Variable | None:
    """The first tensor [batch, anchors, width], or with four numbers alone, that all levels go into and whose sides have grown"""
    sources = {v: {i} for i, level in enumerate(levels) for v in level}
    grown: set[Variable] = set()
    for v in graph.closure(sources):
        op = v.op
        if op is None or (v in sources and op not in graph.tail):
            continue
        operands = [x for x in op.operands() if x is not None and x in sources]
        sources[v] = sources.get(v, set()).union(*(sources[x] for x in operands))
        is_square = op.type in ("Pow", "Exp") or (op.type == "Mul" and op.inputs[0] is op.inputs[1])
        if is_square or any(x in grown for x in operands):
            grown.add(v)
        if v in grown and len(sources[v]) == len(levels) and v.dims is not None and len(v.dims) == 3 and v.dims[-1] in (4, width):
            return v
    return None


def _anchored(graph: _Graph) -> DetectorHead | None:
    """Anchors of each level, whose numbers stand in a row, joined behind the decoding"""
    raw = [v for v in (_moved(graph, layer) for layer in graph.layers) if v is not None and v.rank == 5]
    axis = _axis_of_width(raw)
    if axis is None:
        return None
    width = raw[0].dims[axis]  # type: ignore[index]
    assert isinstance(width, int)
    joined = _decoded_rows(graph, [[v] for v in raw], width)
    if joined is None or not graph.of_type("Sigmoid"):
        return None
    return _anchor_head(graph, [Channels(v, axis, 0, width) for v in raw], Channels(joined, 2, 0, 4))


def _axis_of_width(maps: Sequence[Variable]) -> int | None:
    """The axis of maps of rank 5 that has as many numbers in each of them: the last one, or that behind the anchors"""
    for axis in (4, 2):
        widths = {None if v.dims is None else v.dims[axis] for v in maps}
        width = next(iter(widths), None)
        if len(widths) == 1 and isinstance(width, int) and width > 5:
            return axis
    return None


def _anchor_head(graph: _Graph, levels: Sequence[Channels], boxes: Channels | None, **fields: Any) -> DetectorHead:
    width = levels[0].stop
    return DetectorHead(
        "anchors",
        width - 5,
        tuple(level._replace(start=5) for level in levels),
        objectness=tuple(level._replace(start=4, stop=5) for level in levels),
        boxes=boxes,
        numbers=tuple(level._replace(stop=4) for level in levels),
        probes=tuple(level.tensor for level in levels),
        **fields,
        **_common(graph),
    )


def _raw_maps(graph: _Graph) -> list[Variable]:
    """The outputs as maps of numbers that layers give, moved and reshaped, or behind a Sigmoid; empty if one is something else"""
    maps = []
    for v in graph.program.outputs:
        raw, before = v, v
        while before.op is not None and not graph.is_layer(before.op):
            op = before.op
            if op.domain != "" or op.type not in (*_PASSES_ON, "Sigmoid") or op.inputs[0] is None:
                return []
            before = op.inputs[0]
            raw = before if op.type == "Sigmoid" else raw
        if before.op is None or raw.rank not in (4, 5) or not raw.is_float:
            return []
        maps.append(raw)
    return maps


def _undecoded_anchors(graph: _Graph) -> DetectorHead | None:
    """Maps of anchors that the file leaves to be decoded, with the anchors that its metadata gives"""
    given = _anchors_in(graph.program)
    maps = _raw_maps(graph) if given is not None else []
    if given is None or not maps:
        return None
    count = len(maps)
    if given.size % (2 * count):
        raise ArgumentError(
            f"there are {given.size // 2} anchors for {count} maps. Give the same number for each map, the smallest stride first."
        )
    each = given.reshape(count, -1, 2)
    own = each.shape[1]
    if all(v.rank == 5 and v.dims is not None and v.dims[1] == own for v in maps):
        axis = _axis_of_width(maps)
        levels = [] if axis is None else [Channels(v, axis, 0, v.dims[axis]) for v in maps]  # type: ignore[index, arg-type]
    else:
        widths = {v.dims[1] if v.rank == 4 and v.dims is not None else None for v in maps}
        width = next(iter(widths))
        fits = len(widths) == 1 and isinstance(width, int) and width % own == 0 and width // own > 5
        levels = [Channels(v, 1, 0, width // own, own) for v in maps] if fits and isinstance(width, int) else []
    if not levels:
        shapes = ", ".join(f"{v.name} {_shape(v)}" for v in maps)
        raise ArgumentError(
            f"the maps {shapes} do not hold five numbers and the classes of {own} anchors for each cell. Give the anchors that the "
            "model was trained with."
        )
    form: Sides = "exp" if graph.program.metadata.get("anchor_sides") == "exp" else "square"
    anchors = tuple(tuple((float(w), float(h)) for w, h in level) for level in each)
    return _anchor_head(graph, levels, None, anchors=anchors, sides=form)


def _anchors_in(program: Program) -> Array | None:
    """The widths and heights in the metadata ``anchors``, flat; None where there are none

    Raises:
        ArgumentError: if they are not positive numbers in pairs.
    """
    text = program.metadata.get("anchors")
    if text is None:
        return None
    try:
        numbers = np.array(ast.literal_eval(text), np.float64).reshape(-1)
    except (ValueError, SyntaxError, TypeError):
        numbers = np.zeros(0)
    if not numbers.size or numbers.size % 2 or not (numbers > 0).all():
        raise ArgumentError(
            f"the metadata 'anchors' of the file is {text[:60]!r}, which are not widths and heights in pixels. Give such as "
            "[[10, 13, 16, 30, 33, 23], ...]."
        )
    return numbers


def set_anchors(program: Program, anchors: Any, sides: Sides = "square") -> None:
    """Give a detector whose maps are not decoded the anchors that it was trained with; its metadata keeps them.

    Args:
        program: a loaded detector; its metadata is changed.
        anchors: widths and heights in pixels: rows of each map, the one of the smallest stride first, in any nesting.
        sides: how they grow: ``"square"`` (YOLOv5 and later), or ``"exp"`` (YOLOv3).

    Raises:
        ArgumentError: if they are not positive numbers in pairs, or do not fit the maps.

    Example:
        >>> set_anchors(program, [[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119]])  # doctest: +SKIP
    """
    before = dict(program.metadata)
    program.metadata["anchors"] = str(np.array(anchors, np.float64).reshape(-1).tolist())
    program.metadata["anchor_sides"] = sides
    try:
        head = _undecoded_anchors(_Graph(program))
        if head is None:
            raise ArgumentError(
                "anchors are for a detector whose outputs are maps of anchors before their decoding, and this model's are not. "
                "Leave them out."
            )
    except ArgumentError:
        program.metadata.clear()
        program.metadata.update(before)
        raise


def _cells(graph: _Graph) -> DetectorHead | None:
    """Four numbers, one, and those of classes of each cell, joined"""
    numbers, objectness, scores, joins = [], [], [], []
    for op in graph.of_type("Concat"):
        parts = [_before_sigmoid(x) for x in op.inputs if x is not None]
        result = op.outputs[0]
        if len(parts) != 3 or result is None or result.dims is None or any(not p.dims or len(p.dims) not in (3, 4) for p in parts):
            continue
        axis = int(op.attr("axis")) % len(result.dims)
        widths = [p.dims[axis] for p in parts if p.dims is not None]
        if axis == 0 or widths[:2] != [4, 1] or not isinstance(widths[2], int):
            continue
        numbers.append(Channels(parts[0], axis, 0, 4))
        objectness.append(Channels(parts[1], axis, 0, 1))
        scores.append(Channels(parts[2], axis, 0, widths[2]))
        joins.append(result)
    if not joins or len({c.stop for c in scores}) != 1:
        return None
    classes = scores[0].stop
    levels = [[n.tensor, o.tensor, s.tensor] for n, o, s in zip(numbers, objectness, scores, strict=True)]
    joined = _decoded_rows(graph, levels, 5 + classes)
    if joined is None and graph.of_type("Exp", "Pow"):
        return None
    return DetectorHead(
        "cells",
        classes,
        tuple(scores),
        objectness=tuple(objectness),
        boxes=None if joined is None else Channels(joined, 2, 0, 4),
        numbers=tuple(numbers),
        probes=tuple(n.tensor for n in numbers),
        **_common(graph),
    )


def _before_sigmoid(v: Variable) -> Variable:
    """The operand of a Sigmoid that computes a tensor, else the tensor"""
    return v.op.inputs[0] if v.op is not None and v.op.type == "Sigmoid" and v.op.inputs[0] is not None else v


_ARITHMETIC = ("Mul", "Div", "Add", "Sub", "Clip", "Min", "Max", "Slice", "Split", "Gather")


def _default_boxes(graph: _Graph) -> DetectorHead | None:
    """Offsets from default boxes: sides grow by Exp"""
    offsets: Variable | None = None
    for op in graph.of_type("Exp"):
        v = op.inputs[0]
        while v is not None and not (v.dims is not None and len(v.dims) in (2, 3) and v.dims[-1] == 4):
            before = v.op
            if before is None or (before.type not in _ARITHMETIC and before.type not in _PASSES_ON):
                break
            data = [x for x in before.inputs if x is not None and x in graph.data]
            v = data[0] if len(data) == 1 else None
        if v is not None and v.dims is not None and v.dims[-1] == 4:
            offsets = v
            break
    if offsets is None:
        return None
    follows = graph.closure([offsets])
    assert offsets.dims is not None
    boxes = _decoded(follows, [offsets.dims[-2]])
    for op in graph.of_type("Softmax", "Sigmoid"):
        logits = op.inputs[0]
        if logits is None or logits in set(follows) or logits.dims is None or len(logits.dims) != 3:
            continue
        classes, axis = logits.dims[-1], len(logits.dims) - 1
        if (
            not isinstance(classes, int)
            or not _may_equal(logits.dims[1], offsets.dims[-2])
            or boxes is None
            or boxes.tensor is offsets
        ):
            continue
        background = None
        if op.type == "Softmax":
            background = _background(graph, op.outputs[0], classes, 0)
        count = classes - (background is not None)
        return DetectorHead(
            "default boxes",
            count,
            (Channels(logits, axis, 0, classes),),
            op.type,
            background,
            boxes=boxes,
            numbers=(Channels(offsets, len(offsets.dims) - 1, 0, 4),),
            probes=(offsets,),
            **_common(graph),
        )
    return None


def _background(graph: _Graph, v: Variable | None, classes: int, default: int) -> int:
    """The channel that readers of probabilities leave out, the first or the last one"""
    for op, _ in graph.readers.get(v, ()) if v is not None else ():
        if op.type == "Slice" and op.operand("starts") is not None:
            starts, ends = known_ints(op.operand("starts")), known_ints(op.operand("ends"))
            if starts == [1]:
                return 0
            if starts == [0] and ends in ([-1], [classes - 1]):
                return classes - 1
    return default


def _queries(graph: _Graph) -> DetectorHead | None:
    """A Sigmoid of four numbers, from the vectors that the classes are computed from; the last one, where boxes are refined"""
    for op in reversed(graph.of_type("Sigmoid")):
        box = op.outputs[0]
        if box is None or box.dims is None or len(box.dims) != 3 or box.dims[-1] != 4 or op.inputs[0] is None:
            continue
        vectors = dict.fromkeys(_vectors_behind(graph, op.inputs[0]))
        refines = any(v.op is not None and v.op.type == "Log" for v in vectors)
        for x in vectors:
            for layer, _ in graph.readers.get(x, ()):
                if layer.type not in ("MatMul", "Gemm") or not graph.is_layer(layer) or layer.outputs[0] in vectors:
                    continue
                logits = _biased(graph, layer.outputs[0])
                if logits.dims is None or len(logits.dims) != 3 or not isinstance(logits.dims[-1], int):
                    continue
                head = _query_head(graph, logits, box, refines)
                if head is not None:
                    return head
    return None


def _vectors_behind(graph: _Graph, v: Variable, most: int = 48) -> list[Variable]:
    """A tensor of boxes and the tensors that it is computed from, the nearest first"""
    reached = [v]
    for x in reached:
        operands = [] if x.op is None else [y for y in x.op.inputs if y is not None and y in graph.data]
        reached += [y for y in dict.fromkeys(operands) if not any(y is other for other in reached)]
        if len(reached) > most:
            break
    return reached


def _biased(graph: _Graph, v: Any) -> Variable:
    """The result of a layer with what only adds a bias or moves elements behind it"""
    while True:
        readers = [op for op, _ in graph.readers.get(v, ()) if op.type not in READS_SHAPES]
        adds = len(readers) == 1 and readers[0].type == "Add" and any(x is not v and x not in graph.data for x in readers[0].inputs)
        if len(readers) == 1 and readers[0].outputs[0] is not None and (adds or readers[0].type in _PASSES_ON):
            v = readers[0].outputs[0]
        else:
            result: Variable = v
            return result


def _query_head(graph: _Graph, logits: Variable, box: Variable, refines: bool) -> DetectorHead | None:
    assert logits.dims is not None and box.dims is not None
    count = logits.dims[-1]
    assert isinstance(count, int)
    kinds = {op.type for op, _ in graph.readers.get(logits, ())}
    is_output = any(v is logits for v in graph.program.outputs)
    if not same_dim(logits.dims[1], box.dims[1]) or not (kinds & {"Softmax", "Sigmoid"} or is_output):
        return None
    names = names_in_metadata(graph.program)
    # who refines boxes by the logarithm of the last ones has a Sigmoid for each class (Deformable DETR, RT-DETR)
    single = "Sigmoid" in kinds or ("Softmax" not in kinds and (refines or (names is not None and len(names) == count)))
    background = None
    if not single:
        soft = next((op for op, _ in graph.readers.get(logits, ()) if op.type == "Softmax"), None)
        background = _background(graph, None if soft is None else soft.outputs[0], count, count - 1)
    classes = count - (background is not None)
    activation = "Sigmoid" if single else "Softmax"
    return DetectorHead(
        "queries", classes, (Channels(logits, 2, 0, count),), activation, background, boxes=Channels(box, 2, 0, 4), **_common(graph)
    )


def _common(graph: _Graph) -> dict[str, Any]:
    suppression = next((op for op in graph.tail if op.type == "NonMaxSuppression"), None)
    return {"suppression": suppression, "layers": tuple(graph.layers)}


def recognise_map(output: Variable) -> MapHead | None:
    """What an output with a value or a class for each pixel is made of; None for another output.

    Args:
        output: [batch, channels, height, width] of floating point, or classes [batch, height, width] or [batch, 1, height, width].
    """
    through: list[str] = []
    argmax = argmax_before(output)
    v = output
    if argmax is not None and argmax.inputs[0] is not None:
        through.insert(0, "ArgMax")
        v = argmax.inputs[0]
        if v.rank is None or int(argmax.attr("axis")) % v.rank != 1:
            return None
    try:
        activation = Activation(v)
    except OnnxGradError:
        return None
    if activation.kind and not activation.parts:
        if activation.kind != "Sigmoid" and activation.runs_along(1) is False:
            return None
        through.insert(0, activation.kind)
        v = activation.before
    if v.rank != 4 or not v.is_float or v.dims is None or (not through and output.rank != 4):
        return None
    return MapHead(output, v, tuple(through), v.dims[1] if isinstance(v.dims[1], int) else None)


def _text_maps(graph: _Graph) -> MapHead | None:
    """Probabilities, thresholds, and a function of both: three outputs, or the three channels of one"""
    outputs = [v for v in graph.program.outputs if v is not None]
    parts = outputs
    if len(outputs) == 1 and outputs[0].rank == 4 and outputs[0].op is not None and outputs[0].op.type == "Concat":
        parts = [x for x in outputs[0].op.inputs if x is not None] if int(outputs[0].op.attr("axis")) in (1, -3) else []
    if len(parts) != 3 or any(v.rank != 4 or v.dims is None or v.dims[1] != 1 for v in parts):
        return None
    p, t, binary = parts
    logits = _before_sigmoid(p)
    alone = (graph.closure([p]), graph.closure([t]))
    follows = any(v is binary for v in graph.closure([p, t])) and not any(v is binary for own in alone for v in own)
    if logits is p or _before_sigmoid(t) is t or not follows:
        return None
    return MapHead(outputs[0], logits, ("Sigmoid",), 1, t, binary)


def recognise_head(program: Program) -> DetectorHead | MapHead | None:
    """Recognise what the outputs of a program mean; None where none of the families fits.

    Example:
        >>> recognise_head(onnxgrad.from_onnx("yolov8n.onnx")).description  # doctest: +SKIP
        'a detector like YOLOv8 and YOLO11: distributions of the distances to four sides (80 classes, 16 bins; decoded in the file)'
    """
    if not program.outputs:
        return None
    rounded = rounded_tensors(program)
    return _recognised(program) if not rounded else _recognised_behind_rounding(program, rounded)


def _recognised_behind_rounding(program: Program, rounded: dict[Variable, Variable]) -> DetectorHead | MapHead | None:
    """What a file in 8-bit integers is: recognised in a copy that rounds nothing, and said of the tensors that are rounded"""
    copy, copies = program.clone_with_variables(for_test=True)
    take_out_rounding(copy)
    head = _recognised(copy)
    if head is None:
        return None
    originals = {v: original for original, v in copies.items()}

    def back(value: Any) -> Any:
        if isinstance(value, Variable):
            v = originals[value]
            return rounded.get(v, v)
        if isinstance(value, Operator):
            return next(originals[v].op for v in value.outputs if v is not None)
        if isinstance(value, (Channels, Bins)):
            return value._replace(tensor=back(value.tensor))
        return tuple(back(part) for part in value) if isinstance(value, tuple) else value

    return replace(head, **{each.name: back(getattr(head, each.name)) for each in fields(head)})


def _recognised(program: Program) -> DetectorHead | MapHead | None:
    graph = _Graph(program)
    for recogniser in (_distances, _maps, _anchored, _cells, _default_boxes, _queries, _undecoded_anchors):
        head = recogniser(graph)
        if head is not None:
            return head
    maps = _text_maps(graph)
    if maps is not None:
        return maps
    own = [recognise_map(v) for v in program.outputs]
    return next((head for head in own if head is not None and (head.through or len(program.outputs) == 1)), None)


def require_head(program: Program) -> DetectorHead | MapHead:
    """Recognise a detector.

    Raises:
        ArgumentError: if its outputs fit no family; the message says what they are and what is missing.
    """
    head = recognise_head(program)
    if isinstance(head, DetectorHead) or (isinstance(head, MapHead) and head.is_text_map):
        return head
    outputs = ", ".join(f"{v.name} {_shape(v)}" for v in program.outputs)
    if isinstance(head, MapHead):
        raise ArgumentError(
            f"the outputs are not a detector's but {head.description}: {outputs}. Train it with cross_entropy and masks."
        )
    if program.outputs and (all(v.rank == 5 for v in program.outputs) or _are_levels(program)):
        raise ArgumentError(
            f"the outputs {outputs} look like YOLOv5 before decoding, and the file does not hold the anchors. "
            "Give them (set_anchors, --anchors), or export the model with its decoding."
        )
    raise ArgumentError(
        f"the outputs {outputs} are of no detector that is known here: distributions of distances (YOLOv8, YOLO11), anchors "
        "(YOLOv5), cells (YOLOX), default boxes (SSD), queries (DETR) or a map of text (DBNet). "
        "Give the loss as Term(function, output=TENSOR) of the tensors that hold class logits and boxes; see docs/use/detectors.md."
    )


def _are_levels(program: Program) -> bool:
    """Whether the outputs are maps that layers give, of as many channels each and of several sizes"""
    maps = _raw_maps(_Graph(program))
    dims = [v.dims for v in maps if v.dims is not None and v.rank == 4]
    return len(dims) == len(maps) > 1 and len({d[1] for d in dims}) == 1 and len({d[2:] for d in dims}) == len(dims)


def _shape(v: Variable) -> str:
    return "of unknown shape" if v.dims is None else "[" + ", ".join("?" if d is None else str(d) for d in v.dims) + "]"


def fixed_parameters(program: Program) -> list[Parameter]:
    """The constants of a detector's decoding that would count as weights: strides, anchors, the weights 0, 1, 2, ... of a mean.

    Example:
        >>> fixed_parameters(onnxgrad.from_onnx("yolov8n.onnx"))  # doctest: +SKIP
        [Parameter(model.22.dfl.conv.weight: float32[1, 16, 1, 1])]
    """
    head = recognise_head(program)
    if not isinstance(head, DetectorHead):
        return []
    graph = _Graph(program)
    layers = {id(op) for op in graph.layers}
    if head.family == "queries":
        # the decoder of a transformer has products without weights, so the walk back goes far: only what follows the boxes is fixed
        tail = {id(v.op) for v in graph.closure([head.boxes.tensor]) if v.op is not None} if head.boxes is not None else set()
    else:
        tail = {id(op) for op in graph.tail} - layers
    kept = []
    for p in program.parameters:
        readers = [op for op, _ in graph.readers.get(p, ())]
        while readers and all(op.type in _PASSES_ON and op.outputs[0] not in graph.data for op in readers):
            moved = [v for reader in readers for v in reader.outputs if v is not None]
            readers = [op for v in moved for op, _ in graph.readers.get(v, ())]
        if readers and all(id(op) in tail and not _adds_bias(op, layers) for op in readers):
            kept.append(p)
    return kept


def decoding_operators(program: Program) -> list[Operator]:
    """The operators of a detector behind its last layers with weights; none of another model."""
    head = recognise_head(program)
    if not isinstance(head, DetectorHead) or head.family == "queries":
        return []
    return _Graph(program).tail


def freeze_decoding(program: Program) -> None:
    """Keep the constants of a detector's decoding from being trained, unless they are named; ``decisions`` say why.

    Example:
        >>> freeze_decoding(onnxgrad.from_onnx("yolov8n.onnx"))  # doctest: +SKIP
    """
    for p in fixed_parameters(program):
        p.trainable, p.stop_gradient = False, True
        p.reason = "part of how the detector decodes boxes"
        program.decisions[p.name] = f"table: {p.reason}"


def _adds_bias(op: Operator, layers: set[int]) -> bool:
    """Whether an operator adds the bias to the result of a layer"""
    return op.type == "Add" and any(v is not None and v.op is not None and id(v.op) in layers for v in op.inputs)


def names_in_metadata(program: Program) -> list[str] | None:
    """The names of classes by number in the metadata ``names`` of a file, as exporters of detectors write it."""
    try:
        names = ast.literal_eval(program.metadata.get("names", ""))
    except (ValueError, SyntaxError):
        return None
    if isinstance(names, dict) and sorted(names) == list(range(len(names))):
        return [str(names[i]) for i in range(len(names))]
    return [str(name) for name in names] if isinstance(names, (list, tuple)) else None
