"""Attribute a decision of a model to its inputs: saliency, integrated gradients, Grad-CAM, by gradients of the score of one class.

All take a model as ``onnxgrad.func`` does, and explain the score before a Softmax or Sigmoid at its end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from onnx import ModelProto

from onnxgrad import func
from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.core.ir.named import as_names
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.traverse import dependent_operators, substitute
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.errors import ArgumentError, UnknownName
from onnxgrad.internal.arguments import checked
from onnxgrad.training.surgery.activations import Activation
from onnxgrad.training.surgery.heads import insert_after

__all__ = ["Attribution", "grad_cam", "integrated_gradients", "saliency", "token_table"]


def __dir__() -> list[str]:
    return __all__


_Array = np.ndarray[Any, Any]
_Model: TypeAlias = "str | Path | bytes | ModelProto | Program"

_MAPS = ("Conv", "ConvTranspose", "FusedConv", "QLinearConv")
_KEEPS = (
    "BatchNormalization", "Relu", "LeakyRelu", "Clip", "Elu", "Sigmoid", "HardSigmoid", "HardSwish", "Mish", "Gelu", "PRelu", "Add",
    "Mul",
)  # fmt: skip


class Attribution(NamedTuple):
    """The contribution of each element to a score.

    Attributes:
        values: in the shape of what was asked about, [examples, ...]; of Grad-CAM a map of [examples, height, width].
        labels: the class of each example that is explained.
        scores: its score of each example.
        gap: of integrated gradients, how far the values of an example are from adding up to the change of the score, at most,
            relative to that; 0 for other methods.
        of: the tensor that was asked about.
    """

    values: _Array
    labels: list[int]
    scores: list[float]
    gap: float = 0.0
    of: str = ""


class _Score:
    """The score of one class as a function of an input or an inner tensor of a model.

    An inner tensor is moved by an input that is added to it.
    """

    def __init__(self, model: _Model, named: str | Variable, scores: str | Variable | None, position: int = -1) -> None:
        (about,) = as_names(model, [named], "about")
        output = None if scores is None else as_names(model, [scores], "output")[0]
        program = model.clone() if isinstance(model, Program) else from_onnx(model)
        lift(program)
        self._plain = program.clone()
        block = program.global_block()
        known = block.vars
        if about not in known:
            raise UnknownName(f"the model has nothing called {about!r} in its main graph.")
        y = self._output(program, output)
        activation = Activation(y)
        self.y = activation.before if activation.kind else y
        self.about, self.position = known[about], position
        self.delta: Variable | None = None
        if self.about.op is not None:
            self.delta = block.add_input(program.fresh_name(f"{about}@MOVED"), self.about.type)
            delta, v = self.delta, self.about
            total = insert_after(self.about.op, lambda build: build.Add(v, delta), f"{about}.moved")
            substitute([op for op in block.ops if op is not total.op], {v: total})
        self.program = program
        self.slope = func.vjp(program, [self.y.name], [(self.delta or self.about).name])
        self._shape: tuple[int, ...] | None = None

    @staticmethod
    def _output(program: Program, name: str | None) -> Variable:
        if name is not None:
            y = program.global_block().vars.get(name)
            if y is None:
                raise UnknownName(f"the model has no output {name!r}; it has {[v.name for v in program.outputs]}.")
            return y
        own = [v for v in program.outputs if v.is_float and not v.name.startswith("present")]
        if not own:
            raise ArgumentError("the model has no floating-point output to explain. Name a tensor in output=.")
        return next((v for v in own if v.name == "logits"), own[0])

    def start(self, feeds: dict[str, _Array]) -> _Array:
        """Return the value of the tensor for these inputs"""
        name = self.about.name
        return np.asarray(feeds[name] if self.delta is None else self._plainly(feeds, name))

    def __call__(self, feeds: dict[str, _Array], start: _Array, value: _Array, labels: list[int] | None) -> tuple[_Array, _Array]:
        """Scores [examples, classes], and the gradient where the tensor is ``value``; without labels there is none"""
        at = {self.about.name: value} if self.delta is None else {self.delta.name: value - start}
        if self._shape is None:
            self._shape = self._plainly(feeds, self.y.name).shape
        weights = np.zeros(self._shape, self.y.dtype.numpy)
        if labels is not None:
            for row, label in zip(self._classes(weights), labels, strict=True):
                row[label] = 1
        values, slopes = self.slope({**feeds, **at}, {self.y.name: weights})
        return self._classes(np.asarray(values[self.y.name])), np.asarray(slopes[(self.delta or self.about).name])

    def _plainly(self, feeds: dict[str, _Array], name: str) -> _Array:
        """A tensor as the model itself computes it"""
        return np.asarray(Executor().run(self._plain, feeds, [name])[0])

    def _classes(self, scores: _Array) -> _Array:
        """[examples, classes], as a view: of [examples, steps, classes] one position, of one score its only class"""
        if scores.ndim == 3:
            return scores[:, self.position]
        return scores.reshape(len(scores), -1) if scores.ndim != 2 else scores

    def labelled(self, scores: _Array, label: int | None) -> list[int]:
        if label is not None and not 0 <= label < scores.shape[1]:
            raise ArgumentError(f"{self.y.name} has the classes 0 to {scores.shape[1] - 1}, not {label}. Choose one of them.")
        return [label] * len(scores) if label is not None else [int(k) for k in scores.argmax(axis=1)]


@checked
def saliency(
    model: _Model,
    feeds: GivenByName,
    about: str | Variable,
    *,
    label: int | None = None,
    output: str | Variable | None = None,
    position: int = -1,
) -> Attribution:
    """How strongly the score depends on each element: the magnitude of its gradient (Simonyan, Vedaldi and Zisserman 2014).

    Args:
        model: path, bytes or message of an ONNX model, or a Program; it is not changed.
        feeds: inputs by name, with the examples along the first axis.
        about: the input, or inner tensor, that is asked about: its name, or the variable of the Program.
        label: the class; None for the predicted one of each example.
        output: the scores, [examples, classes] or one for each example; None for the first floating-point output.
        position: of scores [examples, steps, classes], the step.

    Raises:
        UnknownName: if the model has no such tensor, or a variable is of another program.
        ArgumentError: if there is no such class.
        UnsupportedGradient: if an operator on the path has no gradient.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, -4}>'
        >>> model = parser.parse_model(text + "{ y = MatMul(x, w) }")
        >>> saliency(model, {"x": np.ones((1, 2), np.float32)}, "x", label=1).values
        array([[2., 4.]], dtype=float32)
    """
    score, feeds, start, labels, values = _begin(model, feeds, about, label, output, position)
    _, slope = score(feeds, start, start, labels)
    return Attribution(np.abs(slope), labels, _of(values, labels), of=score.about.name)


@checked
def integrated_gradients(
    model: _Model,
    feeds: GivenByName,
    about: str | Variable,
    *,
    baseline: npt.ArrayLike = 0.0,
    steps: int = 32,
    label: int | None = None,
    output: str | Variable | None = None,
    position: int = -1,
) -> Attribution:
    """Compute how much each element adds to the score on the way from a baseline (Sundararajan, Taly and Yan 2017).

    The gradient is integrated along the straight line by Gauss and Legendre's rule. The values add up to the score less that of the
    baseline (completeness); ``gap`` says how nearly.

    Args, Raises: as for ``saliency``.

    Args:
        baseline: where the line begins, an array that can be broadcast.
        steps: gradients that are computed.

    Example:
        >>> from onnx import parser
        >>> text = '<ir_version: 8, opset_import: ["": 17]> f (float[N, 2] x) => (float[N, 1] y) '
        >>> model = parser.parse_model(text + "{ y = ReduceProd <axes = [1]> (x) }")
        >>> result = integrated_gradients(model, {"x": np.array([[3.0, 2.0]], np.float32)}, "x")
        >>> result.values.round(4)
        array([[3., 3.]], dtype=float32)
    """
    if steps < 1:
        raise ArgumentError(f"integrated gradients take at least 1 step, not {steps}.")
    score, feeds, start, labels, values = _begin(model, feeds, about, label, output, position)
    begin = np.broadcast_to(np.asarray(baseline, start.dtype), start.shape)
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total = np.zeros(start.shape, np.float64)
    for node, weight in zip(nodes, weights, strict=True):
        at = begin + np.asarray((node + 1) / 2, start.dtype) * (start - begin)
        total += weight / 2 * score(feeds, start, at, labels)[1]
    attributions = (total * (start.astype(np.float64) - begin)).astype(start.dtype)
    without, _ = score(feeds, start, np.array(begin), labels)
    changes = np.array(_of(values, labels)) - np.array(_of(without, labels))
    sums = attributions.reshape(len(attributions), -1).sum(axis=1, dtype=np.float64)
    gap = float(np.max(np.abs(sums - changes) / np.maximum(np.abs(changes), 1e-12)))
    return Attribution(attributions, labels, _of(values, labels), gap, score.about.name)


@checked
def grad_cam(
    model: _Model,
    feeds: GivenByName,
    *,
    layer: str | Variable | None = None,
    label: int | None = None,
    output: str | Variable | None = None,
) -> Attribution:
    """Map where a network sees the class: its last feature maps, weighted by their mean gradients (Selvaraju et al. 2017).

    Args, Raises: as for ``saliency``.

    Args:
        layer: the maps, [examples, channels, height, width]; None for those of the last convolution, behind its activation.

    Returns:
        Maps of the size of the layer, 0 or more.

    Raises:
        ArgumentError: if there is no convolution whose maps are larger than 1 x 1.
    """
    program = model.clone() if isinstance(model, Program) else from_onnx(model)
    scores = None if output is None else as_names(model, [output], "output")[0]
    name = as_names(model, [layer], "layer")[0] if layer is not None else _last_maps(program, feeds, scores)
    score, feeds, start, labels, values = _begin(program, feeds, name, label, scores, -1)
    if start.ndim != 4:
        raise ArgumentError(f"Grad-CAM needs maps of shape [examples, channels, height, width]; {name!r} has {list(start.shape)}.")
    _, slope = score(feeds, start, start, labels)
    weights = slope.mean(axis=(2, 3), keepdims=True)
    return Attribution(np.maximum((weights * start).sum(axis=1), 0), labels, _of(values, labels), of=name)


@checked
def token_table(program: Program, ids: str = "input_ids") -> str:
    """Find the tensor of token embeddings: the result of the first Gather of the ids.

    Args:
        program: of a language model.
        ids: name of the input that holds the tokens.

    Raises:
        ArgumentError: if no Gather of a table reads them.
    """
    known = {v.name: v for v in program.inputs}
    if ids in known:
        for op in dependent_operators(program.global_block().ops, [known[ids]]):
            y = op.outputs[0] if op.outputs else None
            if op.type in ("Gather", "GatherBlockQuantized", "EmbedLayerNormalization") and y is not None and y.is_float:
                return str(y.name)
    raise ArgumentError(f"no table of vectors is read by the input {ids!r}. Name the tensor of the token vectors (--tokens-at).")


def _begin(
    model: _Model,
    feeds: GivenByName,
    about: str | Variable,
    label: int | None,
    output: str | Variable | None,
    position: int,
) -> tuple[_Score, dict[str, _Array], _Array, list[int], _Array]:
    score = _Score(model, about, output, position)
    arrays = {name: np.asarray(array) for name, array in feeds.items()}
    start = score.start(arrays)
    values, _ = score(arrays, start, start, None)
    return score, arrays, start, score.labelled(values, label), values


def _of(scores: _Array, labels: list[int]) -> list[float]:
    return [float(row[label]) for row, label in zip(scores, labels, strict=True)]


def _last_maps(program: Program, feeds: GivenByName, output: str | None) -> str:
    """The result of the last convolution with maps larger than 1 x 1, behind what keeps its shape"""
    operators = program.global_block().ops
    feature_maps = [op.outputs[0] for op in operators if op.type in _MAPS and op.outputs[0] is not None]
    if feature_maps:
        shapes = [np.asarray(a).shape for a in Executor().run(program, dict(feeds), [v.name for v in feature_maps])]
        large = [v for v, shape in zip(feature_maps, shapes, strict=True) if len(shape) == 4 and min(shape[2:]) > 1]
        if large:
            at: Variable = large[-1]
            while True:
                readers = [op for op in operators if any(v is at for v in op.inputs)]
                if not readers or any(op.type not in _KEEPS or op.outputs[0] is None for op in readers):
                    return at.name
                last = readers[-1].outputs[0]
                assert last is not None
                at = last
    raise ArgumentError("the model has no convolution with maps larger than 1 x 1. Name the maps (--layer), or use another method.")
