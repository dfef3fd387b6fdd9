"""What the layouts of images share: which images are held in one, and turning those that somebody reads in the usual order.

Tests: tests/core/providers/test_chwn.py, tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import SWAPPED, operand_of
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir import traits
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import FILTER_GRADIENT, is_piece
from onnxgrad.core.ir.variable import Variable

__all__ = ["ELEMENTWISE", "REDUCTIONS", "LayoutPass", "Window", "filter_operands", "is_float32", "shape_of", "usual_pads"]

REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
ELEMENTWISE = traits.ELEMENTWISE - {"CastLike"}
"""The second operand of CastLike has a shape of its own."""


def shape_of(v: Variable | None) -> tuple[int, ...]:
    """The known shape, with ones in front up to rank 4; empty if it is not known or longer."""
    shape = None if v is None else v.static_shape
    return () if shape is None or len(shape) > 4 else (1,) * (4 - len(shape)) + tuple(shape)


def is_float32(v: Variable | None) -> bool:
    """Whether it is a tensor of four axes of known size, in float32."""
    return v is not None and v.static_shape is not None and len(v.static_shape) == 4 and v.dtype.name == "float32"


def usual_pads(op: Operator) -> bool:
    """Whether the pads of a convolution are written out, and not negative."""
    return op.attr("auto_pad") in (None, "NOTSET") and min(op.attr("pads") or [0]) >= 0


class Window:
    """Kernel, strides, dilations and pads of a convolution of images."""

    def __init__(self, op: Operator, kernel: Sequence[int]) -> None:
        self.kernel = tuple(kernel)
        self.strides = op.attr("strides") or [1, 1]
        self.dilations = op.attr("dilations") or [1, 1]
        self.pads = op.attr("pads") or [0, 0, 0, 0]
        self.group = op.attr("group") or 1

    @property
    def reach(self) -> list[int]:
        """How far the filter reaches beyond its first tap: the largest pads of a convolution that runs backwards."""
        return [d * (k - 1) for d, k in zip(self.dilations, self.kernel, strict=True)] * 2

    def wide(self, batch: int) -> dict[str, Any]:
        """The attributes for one image of width W * batch, without the stride along the width"""
        top, left, bottom, right = self.pads
        pads, dilations = [top, left * batch, bottom, right * batch], [self.dilations[0], self.dilations[1] * batch]
        return {"pads": pads, "dilations": dilations, "strides": [self.strides[0], 1], "group": self.group}


def filter_operands(op: Operator) -> tuple[Variable, Variable] | None:
    """x and gy, where a backward pass writes the gradient of a filter as Conv with batch and channels of both swapped."""
    if not is_piece(op, FILTER_GRADIENT):
        return None
    group = op.attr("group") or 1
    x = operand_of(op.inputs[0], "Transpose", SWAPPED)
    if group > 1:
        apart = operand_of(operand_of(op.inputs[0], "Reshape"), "Transpose", [2, 1, 0, 3, 4])
        x = operand_of(apart, "Reshape")
    gy = operand_of(op.inputs[1], "Transpose", SWAPPED)
    return None if x is None or gy is None else (x, gy)


class LayoutPass:
    """Goes through the operators in order and writes those that have a form for a layout.

    Attributes:
        twins: the images that there are in the layout.
        hidden: what is not computed in the usual order: from what, as which shape and by which Transpose it can be made.
        fresh: twins that the form of the present operator has made.
    """

    FORMS: ClassVar[Mapping[str, Callable[[Any, Operator], bool]]]
    """By type: writes an operator by ``build``, and returns whether it has."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.links = Links(graph)
        self.twins: dict[Variable, Variable] = {}
        self.hidden: dict[Variable, tuple[Variable, tuple[int, ...], list[int]]] = {}
        self.fresh: list[Variable] = []
        self.build: Any = None

    def form_of(self, op: Operator) -> Callable[[Any, Operator], bool] | None:
        return self.FORMS.get(op.type) if not op.domain else None

    def run(self) -> None:
        done: list[Operator] = []
        for op in self.graph.operators:
            self.build = stage_builder(self.graph, op)
            form = self.form_of(op)
            self.fresh.clear()
            is_kept = form is None or not form(self, op)
            if is_kept:
                self.build.stage.clear()
                for v in self.fresh:
                    del self.twins[v]
                self._transpose_back([v for v in op.operands() if v is not None])
            name_results(self.graph, self.build.stage, self.build.key)
            done.extend(self.build.stage)
            if is_kept:
                done.append(op)
        self.build = stage_builder(self.graph, None)
        self._transpose_back([v for _, v in self.graph.outputs])
        name_results(self.graph, self.build.stage, self.build.key)
        self.graph.operators = [*done, *self.build.stage]

    def has(self, v: Variable | None) -> bool:
        return v is not None and v in self.twins

    def twin(self, v: Variable) -> Variable:
        """The image ``v`` in the layout."""
        found = self.twins.get(v)
        if found is None:
            found = self.operand(v, shape_of(v))
            self.twins[v] = found
            self.fresh.append(v)
        return found

    def operand(self, v: Variable, image: tuple[int, ...]) -> Any:
        """``v``, which broadcasts against images of a shape, in the form that does so in the layout."""
        raise NotImplementedError

    def replace(self, v: Variable | None, new: Variable) -> bool:
        """``new`` stands for ``v`` in the usual order."""
        assert v is not None
        self.graph.replace(v, new)
        return True

    def cropped(self, result: Variable) -> Variable | None:
        """The filter's gradient itself, where a stride leaves a rest and the backward pass cuts it out of a larger result."""
        swapped = self._only_reader(result, "Transpose")
        cut = None if swapped is None or swapped.attr("perm") != SWAPPED else self._only_reader(swapped.outputs[0], "Slice")
        if cut is None or len(cut.inputs) != 4 or cut.outputs[0] is None or cut.outputs[0].static_shape is None:
            return None
        starts, _, axes = (None if v is None or v.value is None else v.value.numpy().tolist() for v in cut.inputs[1:])
        return cut.outputs[0] if (starts, axes) == ([0, 0], [2, 3]) else None

    def _only_reader(self, v: Variable | None, op_type: str) -> Operator | None:
        readers = [] if v is None or v in self.links.returned else self.links.readers.get(v, [])
        return readers[0] if len(readers) == 1 and readers[0].type == op_type and not readers[0].domain else None

    def give_filter(self, result: Variable, gradient: Any) -> bool:
        """``gradient`` [O, C, ...] is what the backward pass makes of ``result`` by swapping its first axes, and by cropping it."""
        target = self.cropped(result)
        if target is not None:
            return self.replace(target, gradient)
        self.hidden[result] = (gradient, tuple(gradient.static_shape), SWAPPED)
        return True

    def swap_back(self, op: Operator) -> bool:
        """A Transpose: what is held in the order that is asked for needs none"""
        source = None if op.inputs[0] is None else self.hidden.get(op.inputs[0])
        if source is None or source[2] != SWAPPED or op.attr("perm") != SWAPPED:
            return False
        return self.replace(op.outputs[0], source[0])

    def _transpose_back(self, wanted: Sequence[Variable]) -> None:
        for v in wanted:
            source = self.hidden.pop(v, None)
            if source is not None:
                new, shape, perm = source
                turned = self.build.Transpose(self.build.Reshape(new, shape), perm=perm)
                self.replace(v, turned if len(perm) == v.rank else self.build.Reshape(turned, list(shape_of(v))))
