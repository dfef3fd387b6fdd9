"""Attaching a loss to the outputs of a program that has none: terms, targets, and the layouts of the outputs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Literal, NamedTuple

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.examples import examples_of
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.types import Dim, TensorType, same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.passes.lift import lift
from onnxgrad.core.state.inputs import COLUMN, as_array
from onnxgrad.dtypes import DType, DTypeLike, dtype_of
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.tensor_file import damaged
from onnxgrad.internal.words import LossName, OutputLayout
from onnxgrad.training.data.rows import Data
from onnxgrad.training.losses.class_weights import Weighing
from onnxgrad.training.losses.expressions import append_expression
from onnxgrad.training.losses.formulas import (
    LAYOUTS,
    LOSSES,
    TEMPERATURE,
    alignment_loss,
    class_loss,
    classes_exclude,
    contrastive_loss,
    takes_logits,
)
from onnxgrad.training.losses.preferences import BETA, MARGIN, OF_ANSWERS, REFERENCE, preference_loss
from onnxgrad.training.surgery.activations import Activation, argmax_before

__all__ = [
    "Attached",
    "Term",
    "as_terms",
    "attach",
    "distances_of",
    "output_of",
    "target_columns",
    "targets_to_json",
    "typed_by_json",
]


class Term:
    """One term of a loss.

    Args:
        loss: a name in ``LOSSES``, or a function ``(output, target) -> Variable`` that uses the static API.
        output: name of the program's output or of another tensor in it, which may be bent: ``"logits.transpose(1, 0, 2)[:, 0]"``,
            with ``transpose``, ``reshape``, ``squeeze``, ``softmax``, ``argmax`` and slices; what is exported stays as it was. None
            for its only or first output that is not part of a cache (``present.*``).
        target: name of the data column; None for ``target``, of ``causal_lm`` and ``dpo`` for ``labels``, of ``bradley_terry`` for
            ``margin``.
        weight: factor of this term in the sum.
        dtype, shape: of the target column, for a function; None for those of the data (see ``typed_by``).
        label_smoothing: share of a label that is spread over all classes; ``cross_entropy`` and ``bce_with_logits``.
        class_weights: of these losses, a number for each class (of ``bce_with_logits`` for 0 and 1), or ``"balanced"`` for
            n / (classes * count) in the training data. The loss is the weighted mean, of validation data too.
        sample_weight: name of a column with a weight for each example.
        layout: of the output, for ``ctc``: ``"NTC"`` for [batch, steps, classes], ``"TNC"`` for [steps, batch, classes]; None to
            find it out: the batch is the axis that the inputs have first, or the free one, and the first batch must agree.
            For ``cross_entropy`` of three axes: ``"NCT"`` for classes along axis 1, as ONNX has them, ``"NTC"`` for the last axis;
            None for the one that Softmax runs along or that alone has a known length, otherwise axis 1.
        temperature: of ``info_nce``, by which cosines are divided; None for 0.05.
        beta: of ``dpo``, how much a model that moves away from its reference pays; None for 0.1.
    """

    @checked
    def __init__(
        self,
        loss: LossName | Callable[[Variable, Variable], Variable],
        output: str | None = None,
        target: str | None = None,
        weight: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        shape: Sequence[int | str | None] | None = None,
        layout: OutputLayout | None = None,
        label_smoothing: float = 0.0,
        class_weights: Sequence[float] | Literal["balanced"] | None = None,
        sample_weight: str | None = None,
        temperature: float | None = None,
        beta: float | None = None,
    ) -> None:
        if isinstance(loss, str) and loss not in LOSSES:
            raise ArgumentError(f"there is no loss {loss!r}. Use one of {sorted(LOSSES)}, or a function.")
        known = {"ctc": LAYOUTS[:2], "cross_entropy": ("NTC", "NCT")}.get(loss if isinstance(loss, str) else "", ())
        if layout is not None and layout not in known:
            message = "layout is 'NTC' or 'TNC' for the loss ctc, 'NTC' or 'NCT' for cross_entropy, and for these only"
            raise ArgumentError(f"{message}; not {layout!r} for {loss!r}.")
        if temperature is not None and (loss != "info_nce" or not 0 < temperature < math.inf):
            raise ArgumentError(f"temperature is a number above 0 for the loss info_nce alone; not {temperature} for {loss!r}.")
        if beta is not None and (loss != "dpo" or not 0 < beta < math.inf):
            raise ArgumentError(f"beta is a number above 0 for the loss dpo alone; not {beta} for {loss!r}.")
        if sample_weight is not None and loss in ("info_nce", "cosine_pairs", *OF_ANSWERS):
            raise ArgumentError(f"{loss} has no value for each row that a sample_weight could weigh. Leave it out.")
        self.temperature = TEMPERATURE if temperature is None else float(temperature)
        self.beta = BETA if beta is None else float(beta)
        self.loss = loss
        self.output = output
        usual = {"causal_lm": "labels", "dpo": "labels", "bradley_terry": MARGIN}
        self.target = target or (usual.get(loss, "target") if isinstance(loss, str) else "target")
        self.layout = layout
        self.weight = float(weight)
        self.weighing = Weighing(loss, label_smoothing, class_weights, sample_weight)
        self.dtype = None if dtype is None else dtype_of(dtype)
        self.dims: tuple[Dim, ...] | None = None if shape is None else tuple(None if d == -1 else d for d in shape)
        self.column: _Column | None = None

    @property
    def awaits_data(self) -> bool:
        """Whether the type or the shape of the target depends on data that was not read yet."""
        return callable(self.loss) and self.column is None and (self.dtype is None or self.dims is None)

    def typed_by(self, columns: Data | None, any_sizes: bool = False) -> Term:
        """Give the function its target as a column of data has it: of its element type and number of axes, for any batch.

        Numbers with a fraction come in the type of the output, as arrays, tables and lists hold them in float64 whatever was
        meant. A type or shape that the term was given stays.

        Args:
            columns: arrays by name, as the data or a batch of it has them; None for nothing.
            any_sizes: whether another batch may have other sizes behind the first axis: then only those stay that the output has
                too, at the same axis.

        Returns:
            A copy with the type and shape; the term itself where these are known, or the columns lack its target.

        Raises:
            DataError: if the column is ragged, masked or holds no numbers.
        """
        if not self.awaits_data or not isinstance(columns, Mapping) or self.target not in columns:
            return self
        array, term = as_array(columns[self.target], self.target, COLUMN), copy(self)
        if array.dtype.kind in "OUSMm":
            raise DataError(f"column {self.target!r} holds {array.dtype}, and a loss that is a function takes numbers. Number it.")
        term.column = _Column(dtype_of(array.dtype), (None, *array.shape[1:]) if array.ndim else (), any_sizes)
        return term

    def target_type(self, output: Variable, layout: str | None) -> TensorType:
        """Type of the target column for this output

        Args:
            output: what the loss reads.
            layout: of the output, as for the Term.
        """
        if not callable(self.loss):
            return TensorType(*_target_type(self.loss, output, layout))
        dtype, dims = self.dtype, self.dims
        if self.column is not None:
            dtype, dims = dtype or self.column.dtype_for(output), self.column.dims_for(output) if dims is None else dims
        assert dtype is not None, "terms are typed before they are attached"
        return TensorType(dtype, dims)


class _Column(NamedTuple):
    """The type of a target column, as data has it"""

    dtype: DType
    dims: tuple[int | None, ...]
    any_sizes: bool

    def dtype_for(self, output: Variable) -> DType:
        return output.dtype if self.dtype.is_float and output.dtype.is_float else self.dtype

    def dims_for(self, output: Variable) -> tuple[Dim, ...]:
        if not self.any_sizes:
            return self.dims
        alike = dict(enumerate(output.dims or ()))
        return tuple(size if size == alike.get(axis) else None for axis, size in enumerate(self.dims))


def as_terms(loss: Any, target: str | None) -> list[Term]:
    """A loss as the user gave it, as terms.

    Raises:
        ArgumentError: if it is neither a name, a function, a Term nor a list of Terms.
    """
    if isinstance(loss, Term):
        return [loss]
    if isinstance(loss, str) or callable(loss):
        return [Term(loss, target=target)]
    terms = list(loss) if isinstance(loss, (list, tuple)) else []
    if not terms or not all(isinstance(term, Term) for term in terms):
        raise ArgumentError("a loss is a name, a function, a Term, or a list of Terms.")
    return terms


def distances_of(terms: Sequence[Term], term: Term) -> str | None:
    """The column that is computed of a term's target: signed distances for ``boundary``, where another loss reads its masks.

    None where the data holds the distances, or the loss is another.
    """
    has_masks = any(other.target == term.target and other.loss in ("cross_entropy", "dice") for other in terms)
    return f"{term.target}/distances" if term.loss == "boundary" and has_masks else None


def target_columns(terms: Sequence[Term]) -> list[str]:
    """The names of the columns that terms read beside the inputs: targets and weights of examples, each once."""
    columns = [(term.target, term.weighing.sample_weight, REFERENCE if term.loss == "dpo" else None) for term in terms]
    return list(dict.fromkeys(name for names in columns for name in names if name is not None))


def targets_to_json(terms: Sequence[Term]) -> str | None:
    """The types of the targets that data has told, for a checkpoint; None where there are none."""
    columns = {term.target: term.column for term in terms if term.column is not None}
    types = {name: {"dtype": c.dtype.name, "dims": c.dims, "any_sizes": c.any_sizes} for name, c in columns.items()}
    return json.dumps(types) if types else None


def typed_by_json(terms: Sequence[Term], text: str | None, path: str | Path) -> list[Term]:
    """The terms with the types of their targets that a checkpoint holds.

    Raises:
        ModelError: if the entry is damaged.
    """
    if text is None:
        return list(terms)
    typed = []
    try:
        types = dict(json.loads(text).items())
        for term in terms:
            if term.awaits_data and term.target in types:
                entry, term = types[term.target], copy(term)
                dims = tuple(None if size is None else int(size) for size in entry["dims"])
                term.column = _Column(dtype_of(entry["dtype"]), dims, bool(entry["any_sizes"]))
            typed.append(term)
    except (AttributeError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path, f"its metadata entry 'targets' holds no types of targets ({error})") from error
    return typed


class Attached:
    """A loss that was attached: the target inputs and remarks for people; and for each term its output, the layout of that if
    the loss has one, and whether it is taken for logits."""

    def __init__(self, loss: Variable, targets: list[Variable], terms: Sequence[_Understood], remarks: list[str]) -> None:
        self.loss = loss
        self.targets = targets
        self.outputs = [term.output for term in terms]
        self.layouts = [term.layout for term in terms]
        self.as_logits = [term.as_logits for term in terms]
        self.remarks = remarks


class _Understood(NamedTuple):
    """The output of one term, its layout, and whether it is taken as logits"""

    output: Variable
    layout: str | None
    as_logits: bool


@all_or_nothing
def attach(program: Program, terms: Sequence[Term]) -> Attached:
    """Append a weighted sum of losses to a program, with one input per target column.

    An output, or another tensor that an operator gives, of the name of a target column gets another name here.

    Raises:
        UnknownName: if the program has no such output.
        ArgumentError: if a loss does not fit the output.
    """
    from onnxgrad.core.ir.defaults import program_guard

    lift(program)
    inputs = list(program.inputs)
    notes: list[str] = []
    targets: dict[str, Variable] = {}
    total: Variable | None = None
    understood = []
    with program_guard(program):
        op = Builder(program.global_block(), key="loss")
        namesakes = [v for name in target_columns(terms) if (v := _namesake(program, name)) is not None]
        # Names are looked up before they are given away.
        known = [output_of(program, term.output, notes) for term in terms] if namesakes else []
        for v in namesakes:
            v.name = program.fresh_name(f"{v.name}/output")
        for number, term in enumerate(terms):
            output = _before_argmax(op, known[number] if namesakes else output_of(program, term.output, notes), notes)
            as_logits = isinstance(term.loss, str) and takes_logits(term.loss, output)
            understood.append(_Understood(output, _layout(term, output, inputs, notes), as_logits))
            value = _value(op, term, understood[-1], targets, notes, distances_of(terms, term))
            total = value if total is None else op.Add(total, value)
    if total is None:
        raise ArgumentError("a loss has at least one term.")
    return Attached(total, list(targets.values()), understood, notes)


def _before_argmax(op: Builder, output: Variable, notes: list[str]) -> Variable:
    """The scores that ArgMax chooses among, classes along axis 1"""
    argmax = argmax_before(output)
    if argmax is not None:
        scores = argmax.inputs[0]
        assert scores is not None
        notes.append(f"{output.name} holds class numbers (it comes from ArgMax); the loss uses the scores before it.")
        axis = int(argmax.attr("axis"))
        if scores.rank is None or scores.rank < 3 or axis % scores.rank == 1:
            return scores
        others = [i for i in range(1, scores.rank) if i != axis % scores.rank]
        moved: Variable = op.Transpose(scores, perm=[0, axis % scores.rank, *others])
        return moved
    return output


def _value(
    op: Builder, term: Term, resolved: _Understood, targets: dict[str, Variable], notes: list[str], column: str | None
) -> Variable:
    """The weighted mean of one term; a target column that is new becomes an input, of this name where it is computed"""
    name, output = column or term.target, resolved.output
    if name not in targets:
        targets[name] = _new_target(op.block.program, name, term.target_type(output, resolved.layout))
    weighing, weight = term.weighing, None
    if weighing.sample_weight is not None:
        column = weighing.sample_weight
        if column not in targets:
            targets[column] = _new_target(op.block.program, column, TensorType(dtype_of("float32"), (None,)))
        weight = targets[column]
    key = f"{term.target}.{output.name}"
    if callable(term.loss):
        value = term.loss(output, targets[name])
        if not isinstance(value, Variable):
            raise ArgumentError(f"the loss function returned {type(value).__name__}. Return a Variable of the program.")
        _check_kept_apart(term, output, targets[name], value)
    elif term.loss == "cross_entropy":
        axis = -1 if resolved.layout == "NTC" else 1
        value = class_loss(op, output, targets[name], notes, axis=axis, weighing=weighing, weight=weight, key=key)
        weight = None
    elif term.loss == "bce_with_logits" and not weighing.is_plain:
        target = targets[name]
        value = LOSSES[term.loss](op, output, weighing.smoothed(op, target), notes)
        value, weight = weighing.binary(op, value, target, weight, key), None
    elif term.loss == "ctc":
        assert resolved.layout is not None
        value = alignment_loss(op, output, targets[name], notes, resolved.layout)
    elif term.loss == "dpo":
        if REFERENCE not in targets:
            targets[REFERENCE] = _new_target(op.block.program, REFERENCE, TensorType(dtype_of("float32"), (None,)))
        value = preference_loss(op, output, targets[name], targets[REFERENCE], term.beta, weighing.smoothing)
    elif term.loss == "info_nce":
        value = contrastive_loss(op, output, targets[name], term.temperature)
    else:
        value = LOSSES[term.loss](op, output, targets[name], notes)
    value = weighing.mean(op, value, weight)
    return value if term.weight == 1.0 else op.Mul(value, term.weight)


def _check_kept_apart(term: Term, output: Variable, target: Variable, value: Variable) -> None:
    """Check that a function did not broadcast scores of shape [N, 1] and targets of shape [N] to [N, N]

    Raises:
        ArgumentError: if it did, or mixes examples otherwise where it could have; not where the user said the shape.
    """
    y, t = output.dims, target.dims
    if (
        term.column is None
        or term.dims is not None
        or y is None
        or t is None
        or len(y) == len(t)
        or not (y[1:] == (1,) or t[1:] == (1,))
    ):
        return
    examples = examples_of(output.block.program)
    if examples.mixed_by(value) is not None:
        raise ArgumentError(
            f"the loss function mixes examples: {examples.reason(value)}. Its output is {output!r}, its target {target!r}. Give "
            "the column the output's number of axes; if examples are to be mixed, give its type and shape: Term(dtype=, shape=)."
        )


def _layout(term: Term, output: Variable, inputs: Sequence[Variable], notes: list[str]) -> str | None:
    """Return the layout of the output of a ctc term: the batch axis is the first axis of the inputs, or the only free one

    Raises:
        ArgumentError: if the output has not three axes, or they cannot be told apart.
    """
    if term.loss == "cross_entropy":
        return _class_layout(term, output, notes)
    if term.loss != "ctc":
        return "NTC" if term.loss == "causal_lm" else None
    if output.dims is None or len(output.dims) != 3:
        raise ArgumentError(f"ctc needs scores of shape [batch, steps, classes] or [steps, batch, classes], not {output!r}.")
    if term.layout is not None:
        return term.layout
    ends = output.dims[:2]
    first = [any(v.dims and same_dim(v.dims[0], dim) for v in inputs) for dim in ends]
    free = [not isinstance(dim, int) for dim in ends]
    signs = first if first[0] != first[1] else free
    if ends[0] == ends[1] and not any(free):
        raise ArgumentError(
            f"ctc: which axis of {output!r} is the batch and which the steps cannot be told. "
            "Pass layout='NTC' or layout='TNC' (--layout)."
        )
    return LAYOUTS[1] if signs[1] and not signs[0] else LAYOUTS[0]


def _class_layout(term: Term, output: Variable, notes: list[str]) -> str | None:
    """Return the layout of the output of a cross_entropy term

    Raises:
        ArgumentError: if a layout is given for an output that has not three axes.
    """
    if output.rank != 3:
        if term.layout is not None:
            raise ArgumentError(f"a layout of cross_entropy is for scores of three axes, not {output!r}. Leave it out.")
        return None
    assert output.dims is not None
    activation = Activation(output)
    along = [activation.kind in ("Softmax", "LogSoftmax") and activation.runs_along(axis) is True for axis in (1, 2)]
    known = [isinstance(dim, int) for dim in output.dims[1:]]
    if term.layout is not None or along[0] != along[1]:
        return term.layout or ("NTC" if along[1] else "NCT")
    layout, other, where = ("NTC", "NCT", "the last axis") if known == [False, True] else ("NCT", "NTC", "axis 1")
    notes.append(f"the classes of {output.name} lie along {where}; if not, pass layout='{other}' (--layout {other}).")
    return layout


def output_of(program: Program, name: str | None, remarks: list[str]) -> Variable:
    """The tensor that a term reads: the one it names, or the first output that is no part of a cache."""
    if name is None:
        if not program.outputs:
            raise ArgumentError("the program has no outputs to attach a loss to. Name one.")
        own = [v for v in program.outputs if not v.name.startswith("present")]
        chosen = next((v for v in own if v.name == "logits"), (own or program.outputs)[0])
        if len(own) < len(program.outputs):
            remarks.append(f"the loss reads {chosen.name}; the other {len(program.outputs) - 1} outputs are parts of a cache.")
        return chosen
    return append_expression(program, name)


def _target_type(loss: str, output: Variable, layout: str | None) -> tuple[DType, tuple[Dim, ...] | None]:
    """Element type and dimensions of the target column of a loss"""
    dims = output.dims
    if (loss == "cross_entropy" and layout != "NTC") or (loss == "dice" and classes_exclude(output)):
        return dtype_of("int64"), None if dims is None else (*dims[:1], *dims[2:])
    if loss in ("cross_entropy", "causal_lm", "dpo"):
        return dtype_of("int64"), None if dims is None else dims[:-1]
    if loss == "ctc":
        return dtype_of("int64"), None if dims is None or layout is None else (dims[layout.index("N")], None)
    if loss in ("triplet", "info_nce"):
        return dtype_of("int64"), None if dims is None else dims[:1]
    if loss == "bradley_terry":
        return dtype_of("float32"), None if dims is None else dims[:1]
    if loss == "cosine_pairs":
        return output.dtype, None if dims is None else dims[:1]
    return output.dtype, dims


def _namesake(program: Program, name: str) -> Variable | None:
    """The tensor of this name that an operator of the program gives"""
    v = program.global_block().vars.get(name)
    return v if v is not None and v.op is not None else None


def _new_target(program: Program, name: str, type: TensorType) -> Variable:
    block = program.global_block()
    if name in block.vars:
        raise ArgumentError(f"the target column {name!r} has the name of another tensor of the program. Choose another name.")
    return block.add_input(name, type)
