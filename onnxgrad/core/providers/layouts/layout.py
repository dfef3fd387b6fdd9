"""Orders of the axes of images, and writing the operators of a graph for one of them.

An operator is written for a layout by the form that its type has there. The forms that layouts share are in ``forms``; they read
the order of axes from the ``Layout``. Where layouts differ in more than that, the pass of each has a method or a form of its own.

Tests: tests/core/providers/test_chwn.py, tests/core/providers/test_hwnc.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, TypeAlias

from onnxgrad.core.graph.contract import Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import SWAPPED
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import inherit_origin
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.layouts.feature_maps import shape_of

__all__ = ["C", "Form", "H", "Layout", "LayoutPass", "N", "W"]

N, C, H, W = range(4)
"""The axes of images in the usual order."""

Axes: TypeAlias = "tuple[tuple[int, ...], ...]"
Form: TypeAlias = Callable[[Any, Operator], bool]
"""Writes an operator by the ``build`` of a LayoutPass, and returns whether it has."""


@dataclass(frozen=True)
class Layout:
    """Describe an order of the axes of images [N, C, H, W].

    Attributes:
        axes: for each axis of an image in the layout, the usual axes whose product it is: ``((H,), (W,), (N,), (C,))`` is
            [H, W, N, C], and ``((), (C,), (H,), (W, N))`` is [1, C, H, W * N].
        back: the shape, in the same notation, from which one Transpose leads back to [N, C, H, W].
        back_perm: the permutation of that Transpose.
    """

    axes: Axes
    back: Axes
    back_perm: tuple[int, ...]

    @property
    def perm(self) -> list[int]:
        """The permutation that leads from [N, C, H, W] to the layout."""
        return [axis for axes in self.axes for axis in axes]

    @property
    def channels(self) -> int:
        """The axis that the channels are."""
        return self.axes.index((C,))

    def shape(self, image: Sequence[int]) -> list[int]:
        """The shape in the layout of an image [N, C, H, W]."""
        return _merged(self.axes, image)

    def per_channel(self, channels: int) -> list[int]:
        """The shape in the layout of one number per channel, which broadcasts against images."""
        return self.shape([1, channels, 1, 1])

    def back_shape(self, image: Sequence[int]) -> list[int]:
        """The shape from which ``back_perm`` leads back to an image [N, C, H, W]."""
        return _merged(self.back, image)


def _merged(merged: Axes, image: Sequence[int]) -> list[int]:
    return [prod(image[axis] for axis in axes) for axes in merged]


class LayoutPass:
    """Write the operators of a graph, in order, that have a form for a layout.

    Attributes:
        held: by image, the same in the layout.
        deferred: what is not read yet in the usual order: its source, shape and the permutation of the Transpose.
        pooled: by MaxPool that is written along its axes, its maxima along the last one.
        fresh: images that the form of the present operator was the first to transpose.
        build: appends operators to what replaces the present one.
    """

    LAYOUT: ClassVar[Layout]
    FORMS: ClassVar[Mapping[str, Form]]
    """By type of operators of the standard domain."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.links = Links(graph)
        self.held: dict[Variable, Variable] = {}
        self.deferred: dict[Variable, tuple[Variable, Sequence[int], Sequence[int]]] = {}
        self.pooled: dict[Operator, Any] = {}
        self.fresh: list[Variable] = []
        self.build: Any = None

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
                    del self.held[v]
                self._transpose_back([v for v in op.operands() if v is not None])
            name_results(self.graph, self.build.stage, self.build.key)
            done.extend(self.build.stage)
            if is_kept:
                done.append(op)
        self.build = stage_builder(self.graph, None)
        self._transpose_back([v for _, v in self.graph.outputs])
        name_results(self.graph, self.build.stage, self.build.key)
        self.graph.operators = [*done, *self.build.stage]

    # What layouts differ in ----------------------------------------------------------------------------------------------

    def form_of(self, op: Operator) -> Form | None:
        """The form to write an operator by; None to leave it as it is."""
        return self.FORMS.get(op.type) if not op.domain else None

    def operand(self, v: Variable, image: Sequence[int]) -> Any:
        """``v``, which broadcasts against images of a shape, in the form that does so in the layout."""
        raise NotImplementedError

    def over_space(self, op_type: str, x: Variable | None) -> Any:
        """Reduce height and width of an image, to the numbers of [N, C]."""
        raise NotImplementedError

    def over_all_but_channels(self, op: Operator) -> Any:
        """Reduce all axes but the channels, as an operator does, to the numbers of [C]."""
        raise NotImplementedError

    # Images --------------------------------------------------------------------------------------------------------------

    def holds(self, v: Variable | None) -> bool:
        """Return whether an image is there in the layout."""
        return v is not None and v in self.held

    def image(self, v: Variable | None) -> Any:
        """The image ``v`` in the layout, transposed where it is not there yet."""
        assert v is not None
        if v not in self.held:
            self.held[v] = self.transposed(v)
            self.fresh.append(v)
        return self.held[v]

    def transposed(self, v: Variable) -> Any:
        """Transpose an image from the usual order to the layout."""
        return self.build.Reshape(self.permuted(v), self.LAYOUT.shape(shape_of(v)))

    def permuted(self, v: Variable) -> Any:
        """Transpose an image from the usual order, before axes become one."""
        return self.build.Transpose(self.build.Reshape(v, shape_of(v)), perm=self.LAYOUT.perm)

    def give(self, v: Variable | None, image: Any) -> bool:
        """Let ``v`` be an image that is computed in the layout; the usual order is made where somebody reads it."""
        assert v is not None
        inherit_origin(v, image)
        self.held[v] = image
        self.deferred[v] = (image, self.LAYOUT.back_shape(shape_of(v)), self.LAYOUT.back_perm)
        return True

    def replace(self, v: Variable | None, new: Variable) -> bool:
        """Let ``v`` be ``new``, which is in the usual order."""
        assert v is not None
        self.graph.replace(v, new)
        return True

    def _transpose_back(self, wanted: Sequence[Variable]) -> None:
        for v in wanted:
            source = self.deferred.pop(v, None)
            if source is not None:
                new, shape, perm = source
                back = self.build.Transpose(self.build.Reshape(new, shape), perm=list(perm))
                self.replace(v, back if len(perm) == v.rank else self.build.Reshape(back, list(shape_of(v))))

    # Gradients of filters ------------------------------------------------------------------------------------------------

    def give_filter(self, result: Variable, gradient: Any) -> bool:
        """``gradient`` [O, C, ...] is what the backward pass makes of ``result`` by swapping its first axes, and by cropping it."""
        target = self.cropped(result)
        if target is not None:
            return self.replace(target, gradient)
        self.deferred[result] = (gradient, gradient.static_shape, SWAPPED)
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
