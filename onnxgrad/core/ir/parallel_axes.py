"""Which axes an operator computes slice by slice: the table that says what becomes of the examples of a batch.

Each rule names the axes of the operands and of the results. An axis of an operand and one of a result that have the same name go
together: slice i of the result is computed from the slices i of the operands that have the name, and it is what it would be if
these were the only slices. An axis without a name (None) mixes its slices, or picks them by their position. A name that no result
has is summed over where the rule says so, and mixed elsewhere.

Names count from the last axis (-1, -2, ...), so that operands that are broadcast to one shape name their axes alike; others are
strings. What changes the order or the number of axes by values (Reshape, Loop, ...) is in ``examples.py``.

Tests: tests/core/ir/test_examples.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from onnxgrad.core.ir.equation import parse_equation
from onnxgrad.core.ir.known import entries_of, known_ints
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN
from onnxgrad.core.ir.traits import COMPARES, ELEMENTWISE, REDUCES
from onnxgrad.core.ir.types import same_dim
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import UnknownName

__all__ = ["PARALLEL", "AxisNames", "NotKnown", "attribute_of", "axes_operand", "axis_names"]

Name: TypeAlias = "int | str | None"
Names: TypeAlias = "tuple[Name, ...]"
Ranks: TypeAlias = "Sequence[int | None]"


class AxisNames(NamedTuple):
    """The names of the axes of an operator.

    Attributes:
        inputs: of each operand; shorter than its rank, or absent, where the other axes have no name.
        outputs: of each result.
        sums: whether it adds up what the slices of a name give that no result has, or takes their mean.
        exact: whether slice i of an operand goes with slice i of another also where that has one slice only; elsewhere this one
            goes with all.
        complete: whether each axis of a result has an entry, so that their number is its rank.
    """

    inputs: Sequence[Names]
    outputs: Sequence[Names]
    sums: bool = False
    exact: bool = False
    complete: bool = True


class NotKnown(Exception):
    """A rank or an attribute that decides is not known before the program runs."""


def axis_names(operator: Operator, ranks: Ranks) -> AxisNames | None:
    """Name the axes of an operator's operands and results; None where the table or the ranks do not say.

    Args:
        operator: of any domain.
        ranks: of its operands, None for those that are absent or not known.
    """
    rule = PARALLEL.get((operator.domain, operator.type))
    if rule is None:
        return None
    try:
        return rule(operator, ranks)
    except (NotKnown, IndexError, ValueError):  # in a branch that is never taken, ranks may not fit the attributes
        return None


# Parts of rules -------------------------------------------------------------------------------------------------------


def _rank(ranks: Ranks, index: int = 0) -> int:
    rank = ranks[index] if index < len(ranks) else None
    if rank is None:
        raise NotKnown
    return rank


def _own(rank: int, without: Iterable[int] = ()) -> Names:
    """The axes of a tensor, counted from the last; those in ``without`` have no name"""
    left_out = {axis % rank for axis in without}
    return tuple(None if axis in left_out else axis - rank for axis in range(rank))


def _maybe(ranks: Ranks, index: int, without: Iterable[int] = ()) -> Names:
    """The same for an operand that may be absent"""
    rank = ranks[index] if index < len(ranks) else None
    return () if rank is None else _own(rank, [axis for axis in without if -rank <= axis < rank])


def attribute_of(operator: Operator, name: str, default: Any = None) -> Any:
    """An attribute, or the default of its schema, or the given one where there is no schema or no such attribute in it."""
    try:
        value = operator.attr(name)
    except UnknownName:
        return default
    return default if value is None else value


def _ints(value: Any) -> list[int]:
    """Integers of an attribute, or of an operand whose elements are known"""
    if isinstance(value, Variable):
        entries_of(value)
    numbers = known_ints(value)
    if numbers is None:
        raise NotKnown
    return numbers


def axes_operand(operator: Operator) -> list[int] | None:
    """The axes that an operator is told, None where it is told none, also of older opsets, where they are an attribute.

    Raises:
        NotKnown: if they are computed.
    """
    try:
        value = operator.operand("axes")
    except UnknownName:
        return None
    return None if value is None else _ints(value)


def _axis(operator: Operator, default: int) -> int:
    return int(attribute_of(operator, "axis", default))


def _each(operator: Operator, names: Names) -> list[Names]:
    return [names] * len(operator.outputs)


# Families -------------------------------------------------------------------------------------------------------------

_Rule: TypeAlias = "Callable[[Operator, Ranks], AxisNames]"


def _elementwise(operator: Operator, ranks: Ranks) -> AxisNames:
    """Operands broadcast to one shape"""
    inputs = [() if v is None else _own(_rank(ranks, i)) for i, v in enumerate(operator.inputs)]
    return AxisNames(inputs, _each(operator, _own(max(map(len, inputs), default=0))))


def _of_first(operator: Operator, ranks: Ranks) -> AxisNames:
    """Elements of the first operand; the others are numbers for all of them, or give a type"""
    own = _own(_rank(ranks))
    return AxisNames([own], _each(operator, own))


def _coupled(axes_of: Callable[[Operator, int], Iterable[int]]) -> _Rule:
    """A result of the shape of the first operand, whose slices along some axes read each other"""

    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        rank = _rank(ranks)
        own = _own(rank, axes_of(operator, rank)) if rank else ()
        return AxisNames([own], _each(operator, own))

    return rule


def _axis_of(default: int) -> Callable[[Operator, int], Iterable[int]]:
    return lambda operator, rank: [_axis(operator, default)]


def _softmax_axes(operator: Operator, rank: int) -> Iterable[int]:
    """Before opset 13, all axes from the given one on"""
    schema = operator.schema
    axis = _axis(operator, -1)
    return range(axis % rank, rank) if schema is not None and schema.since < 13 else [axis]


def _axis_operand(operator: Operator, rank: int) -> Iterable[int]:
    return _ints(operator.inputs[1])


def _normalised_axes(operator: Operator, rank: int) -> Iterable[int]:
    """All axes from the given one on"""
    return range(_axis(operator, -1) % rank, rank)


def _layer_normalised(operator: Operator, ranks: Ranks) -> AxisNames:
    """Scale and bias are broadcast to the operand"""
    rank = _rank(ranks)
    inside = [axis - rank for axis in _normalised_axes(operator, rank)]
    own = _own(rank, inside)
    return AxisNames([own, _maybe(ranks, 1, inside), _maybe(ranks, 2, inside)], _each(operator, own))


def _lrn(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks), [1])
    return AxisNames([own], [own])


def _reduced(operator: Operator, ranks: Ranks) -> AxisNames:
    rank = _rank(ranks)
    axes = axes_operand(operator) if operator.type.startswith("Reduce") else [_axis(operator, 0)]
    if axes is None or (axes == [] and operator.type.startswith("Reduce")):
        axes = [] if attribute_of(operator, "noop_with_empty_axes", 0) else list(range(rank))
    gone = {axis % rank for axis in axes} if rank else set()
    own = _own(rank)
    keeps = attribute_of(operator, "keepdims", 1)
    result = tuple(None if axis in gone else name for axis, name in enumerate(own) if keeps or axis not in gone)
    return AxisNames([own], [result], sums=operator.type in _SUMS)


_SUMS = ("ReduceL1", "ReduceMean", "ReduceSum", "ReduceSumSquare")
"""Sums or means of what each element gives by itself."""


def _per_image(operator: Operator, ranks: Ranks) -> AxisNames:
    """[examples, channels, ...] to the same, each channel by itself"""
    rank = _rank(ranks)
    names: Names = ("example", "channel", *(None,) * (rank - 2))
    return AxisNames([names], _each(operator, names))


def _convolution(
    filters: bool, data: int = 0, weight: int = 1, per_filter: Sequence[int] = (2,), beside: Sequence[int] = ()
) -> _Rule:
    """The operand at ``data`` has examples first, so have those ``beside`` it; the weight and its companions have filters first"""

    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        inputs: list[Names] = [()] * max(len(operator.inputs), data + 1, weight + 1)
        inputs[data] = ("example",)
        named = filters and attribute_of(operator, "group", 1) == 1
        for index in (weight, *per_filter) if named else ():
            if index < len(inputs):
                inputs[index] = ("filter",) if ranks[index] else ()
        for index in beside:
            if index < len(inputs):
                inputs[index] = ("example",)
        return AxisNames(inputs, [("example", "filter" if named else None, *(None,) * (_rank(ranks, data) - 2))])

    return rule


def _first_axis(*operands: int) -> _Rule:
    """Examples along the first axis of these operands and of all results; the others are shared"""

    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        inputs = [("example",) if i in operands and ranks[i] else () for i in range(len(operator.inputs))]
        return AxisNames(inputs, _each(operator, ("example",)), complete=False)

    return rule


def _matmul(a: int = 0, b: int = 1, per_row: Sequence[int] = (), per_column: Sequence[int] = ()) -> _Rule:
    """``per_row`` and ``per_column``: operands with a number for each row of the one, each column of the other matrix"""

    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        m, n = _rank(ranks, a), _rank(ranks, b)
        inputs: list[Names] = [()] * len(operator.inputs)
        inputs[a] = (*_own(m)[:-2], -2, "inner") if m > 1 else ("inner",)
        inputs[b] = (*_own(n)[:-2], "inner", -1) if n > 1 else ("inner",)
        for indices, name in ((per_row, -2), (per_column, -1)):
            for index in indices:
                if index < len(inputs):
                    inputs[index] = (name,) if ranks[index] == 1 else ()
        batch = _own(max(m, n))[:-2] if max(m, n) > 2 else ()
        rows: Names = (-2,) if m > 1 else ()
        columns: Names = (-1,) if n > 1 else ()
        return AxisNames(inputs, [(*batch, *rows, *columns)], sums=not operator.type.startswith("QLinear"))

    return rule


def _fused_matmul(operator: Operator, ranks: Ranks) -> AxisNames:
    names = [_transposed_names(operator, letter, _rank(ranks, i)) for i, letter in enumerate("AB")]
    batch = _own(max(_rank(ranks, 0), _rank(ranks, 1)))[:-2]
    return AxisNames(names, [(*batch, -2, -1)], sums=True)


def _transposed_names(operator: Operator, letter: str, rank: int) -> Names:
    """Axes as they are stored: transBatch moves the first behind the other batches, trans turns the matrix round"""
    if rank < 2:
        raise NotKnown
    axes = list(range(rank))
    if attribute_of(operator, f"transBatch{letter}", 0):
        axes = [*axes[1:-1], axes[0], axes[-1]]
    if attribute_of(operator, f"trans{letter}", 0):
        axes[-2:] = axes[:-3:-1]
    names = (*_own(rank)[:-2], *((-2, "inner") if letter == "A" else ("inner", -1)))
    return tuple(names[axes.index(axis)] for axis in range(rank))


def _gemm(b: int = 1, bias: int = 2) -> _Rule:
    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        inputs: list[Names] = [()] * len(operator.inputs)
        inputs[0] = ("inner", -2) if attribute_of(operator, "transA", 0) else (-2, "inner")
        inputs[b] = (-1, "inner") if attribute_of(operator, "transB", 0) else ("inner", -1)
        if bias < len(inputs):
            inputs[bias] = _maybe(ranks, bias)
        return AxisNames(inputs, [(-2, -1)], sums=not operator.has_attr("activation"))

    return rule


def _einsum(operator: Operator, ranks: Ranks) -> AxisNames:
    terms, output = parse_equation(operator.attrs["equation"], [_rank(ranks, i) for i in range(len(operator.inputs))])
    if "." in output:
        raise NotKnown
    # A letter that comes twice in a term takes the diagonal.
    twice = {letter for term in terms for letter in term if term.count(letter) > 1}
    inputs = [tuple(None if letter in twice else letter for letter in term) for term in terms]
    return AxisNames(inputs, [tuple(output)], sums=True)


def _quantized(operator: Operator, ranks: Ranks) -> AxisNames:
    """Scales and zero points: one number, one for each slice along the axis, or one for each block along it"""
    rank = _rank(ranks)
    axis = _axis(operator, 1)
    inputs = [_own(rank)]
    for index in (1, 2):
        other = ranks[index] if index < len(ranks) else None
        inputs.append((axis % rank - rank,) if other == 1 and rank else _own(rank, [axis]) if other == rank else ())
    result = _own(rank)
    if rank and any(ranks[index] == rank and rank > 1 for index in (1, 2) if index < len(ranks)):
        inputs[0] = result = _own(rank, [axis])
    return AxisNames(inputs, [result])


# Moving ---------------------------------------------------------------------------------------------------------------


def _transpose(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks))
    order = operator.attrs.get("perm")
    return AxisNames([own], [own[::-1] if order is None else tuple(own[axis] for axis in order)])


def _concat(operator: Operator, ranks: Ranks) -> AxisNames:
    axis = _axis(operator, 1)
    inputs = [_own(_rank(ranks, i), [axis]) for i in range(len(operator.inputs))]
    return AxisNames(inputs, [inputs[0]])


def _pad_axes(operator: Operator, rank: int) -> Iterable[int]:
    """All axes but those where nothing is added"""
    if operator.has_attr("pads") or operator.has_attr("paddings"):
        pads: Any = operator.attrs.get("pads") or operator.attrs.get("paddings")
    else:
        pads = entries_of(operator.inputs[1])
    told = axes_operand(operator)
    axes = list(range(rank)) if told is None else [axis % rank for axis in told]
    if pads is None:
        return axes
    half = len(pads) // 2
    return [axis for i, axis in enumerate(axes) if pads[i] != 0 or pads[half + i] != 0]


def _slice_axes(operator: Operator, rank: int) -> Iterable[int]:
    """All axes but those that stay whole"""
    starts, ends = (_entries(operator.operand(name)) for name in ("starts", "ends"))
    told = axes_operand(operator)
    axes = list(range(rank if starts is None else len(starts))) if told is None else [axis % rank for axis in told]
    if starts is None or ends is None:
        return axes
    steps = _entries(operator.operand("steps")) if "steps" in operator.input_names else None
    if steps is None and "steps" in operator.input_names and operator.operand("steps") is not None:
        return axes
    x = operator.inputs[0]
    dims = None if x is None else x.dims
    cut = []
    for i, axis in enumerate(axes):
        end = ends[i]
        whole = (isinstance(end, int) and end >= 2**31 - 1) or (dims is not None and same_dim(dims[axis], end))
        if starts[i] != 0 or not whole or (steps is not None and steps[i] != 1):
            cut.append(axis)
    return cut


def _entries(value: Any) -> Sequence[Any] | None:
    return entries_of(value) if isinstance(value, Variable) else value


def _crop_axes(operator: Operator, rank: int) -> Iterable[int]:
    told = attribute_of(operator, "axes")
    return range(rank) if told is None else told


def _resized_axes(operator: Operator, rank: int) -> Iterable[int]:
    """All axes but those that keep their size"""
    x, y = operator.inputs[0], operator.outputs[0]
    told = attribute_of(operator, "axes")
    if attribute_of(operator, "coordinate_transformation_mode") == "tf_crop_and_resize":
        return range(rank)
    axes = range(rank) if told is None else [axis % rank for axis in told]
    scales = attribute_of(operator, "scales")
    if scales is None:
        at = {1: None, 2: 1}.get(len(operator.inputs), 2)
        operand = None if at is None else operator.inputs[at]
        scales = None if operand is None or operand.value is None else operand.value.numpy().reshape(-1).tolist()
    if scales:
        return [axis for axis, scale in zip(axes, scales, strict=True) if scale != 1]
    if x is None or y is None or x.dims is None or y.dims is None:
        raise NotKnown
    return [axis for axis in axes if not same_dim(x.dims[axis], y.dims[axis])]


def _reversed_axes(operator: Operator, rank: int) -> Iterable[int]:
    return [attribute_of(operator, "time_axis", 0)]


def _reverse_sequence(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks), _reversed_axes(operator, _rank(ranks)))
    return AxisNames([own, (own[attribute_of(operator, "batch_axis", 1)],)], [own])


def _gather(operator: Operator, ranks: Ranks) -> AxisNames:
    axis = int(attribute_of(operator, "gather_axis" if operator.domain else "axis", 0))
    own = _own(_rank(ranks), [axis])
    axis %= len(own)
    index = _spelled("index", _rank(ranks, 1))
    # Scales and zero points of quantized rows have the axes of the rows.
    return AxisNames([own, index, *(own for _ in operator.inputs[2:])], [(*own[:axis], *index, *own[axis + 1 :])])


def _spelled(word: str, count: int) -> Names:
    return tuple(f"{word} {i}" for i in range(count))


def _gather_elements(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks))
    axis = _axis(operator, 0) % len(own)
    data = _own(len(own), [axis])
    index = (*data[:axis], "index", *data[axis + 1 :])
    return AxisNames([data, index], [index], exact=True)


def _scatter_elements(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks), [_axis(operator, 0)])
    return AxisNames([own, own, own], [own], exact=True)


def _gather_nd(operator: Operator, ranks: Ranks) -> AxisNames:
    rank, indices = _rank(ranks), _rank(ranks, 1)
    batch = attribute_of(operator, "batch_dims", 0)
    own, apart = _own(rank), _spelled("index", indices - 1 - batch)
    picked = batch + _last_size(operator, 1)
    data = (*own[:batch], *(None,) * (picked - batch), *own[picked:])
    return AxisNames([data, (*own[:batch], *apart, None)], [(*own[:batch], *apart, *own[picked:])])


def _scatter_nd(operator: Operator, ranks: Ranks) -> AxisNames:
    rank, indices = _rank(ranks), _rank(ranks, 1)
    picked = _last_size(operator, 1)
    rest = _own(rank)[picked:]
    data = (*(None,) * picked, *rest)
    return AxisNames([data, (None,) * indices, (*(None,) * (indices - 1), *rest)], [data])


def _last_size(operator: Operator, index: int) -> int:
    v = operator.inputs[index]
    size = v.dims[-1] if v is not None and v.dims else None
    if not isinstance(size, int):
        raise NotKnown
    return size


def _tensor_scatter(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks), [attribute_of(operator, "axis", -2)])
    return AxisNames([own, own, own[:1]], [own])


def _compress_axes(operator: Operator, rank: int) -> Iterable[int]:
    axis = attribute_of(operator, "axis")
    return range(rank) if axis is None else [axis]


def _compress(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks), _compress_axes(operator, _rank(ranks)))
    return AxisNames([own], [own if attribute_of(operator, "axis") is not None else (None,)])


def _one_hot(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks))
    axis = _axis(operator, -1) % (len(own) + 1)
    return AxisNames([own], [(*own[:axis], None, *own[axis:])])


def _last_two(operator: Operator, rank: int) -> Iterable[int]:
    return (-1, -2)


def _without_last(count: int, added: int = 0) -> _Rule:
    """Of the first operand the last ``count`` axes are consumed, and ``added`` new ones follow"""

    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        own = _own(_rank(ranks))
        kept = own[: len(own) - count]
        return AxisNames([(*kept, *(None,) * count)], [(*kept, *(None,) * added)] * len(operator.outputs))

    return rule


# Networks -------------------------------------------------------------------------------------------------------------


def _recurrent(operator: Operator, ranks: Ranks) -> AxisNames:
    """[time, examples, size], or with layout=1 [examples, time, size]; the states have an axis of directions first"""
    first = attribute_of(operator, "layout", 0)
    x: Names = ("example", None, None) if first else (None, "example", None)
    state: Names = ("example", None, None) if first else (None, "example", None)
    y: Names = ("example", None, None, None) if first else (None, None, "example", None)
    inputs: list[Names] = [x, (), (), (), ("example",), state, state][: len(operator.inputs)]
    return AxisNames(inputs, [y, state, state][: len(operator.outputs)])


def _attention(operator: Operator, ranks: Ranks) -> AxisNames:
    """A mask is broadcast to [examples, heads, queries, keys]"""
    example: Names = ("example",)
    mask = example if len(ranks) > 3 and ranks[3] == 4 else ()
    inputs: list[Names] = [example, example, example, mask, *[example] * 3]
    return AxisNames(inputs[: len(operator.inputs)], _each(operator, example), complete=False)


def _rotary(operator: Operator, ranks: Ranks) -> AxisNames:
    """Caches of rank 3 have a row for each example; those of rank 2 are looked up by positions"""
    caches: Names = ("example",) if len(ranks) > 1 and ranks[1] == 3 else ()
    return AxisNames([("example",), caches, caches, ("example",)][: len(operator.inputs)], [("example",)], complete=False)


def _contrib_rotary(operator: Operator, ranks: Ranks) -> AxisNames:
    """Positions of rank 1 are one offset for all examples"""
    return AxisNames([("example",), ("example",) if ranks[1] == 2 else ()], [("example",)], complete=False)


def _contrib_attention(past: int, mask: int) -> _Rule:
    """Input and mask have examples first; past and present keys and values, stacked, come second"""

    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        inputs: list[Names] = [()] * len(operator.inputs)
        inputs[0] = ("example",)
        v = operator.inputs[mask] if mask < len(inputs) else None
        if v is not None:
            inputs[mask] = ("example",)
        if past < len(inputs):
            inputs[past] = (None, "example")
        if mask == 3 and len(inputs) > 5 and operator.inputs[5] is not None:
            inputs[5] = ("example",)
        return AxisNames(inputs, [("example",), (None, "example")][: len(operator.outputs)], complete=False)

    return rule


def _labelled(operator: Operator, ranks: Ranks) -> AxisNames:
    """Scores [examples, classes, ...] and labels [examples, ...]; the second result has the shape of the scores"""
    rank = _rank(ranks)
    rows = ("example", *_spelled("place", rank - 2))
    scores = ("example", None, *rows[1:])
    each = attribute_of(operator, "reduction", "mean") == "none"
    return AxisNames([scores, rows], [rows if each else (), scores][: len(operator.outputs)], sums=True)


def _dft_axes(operator: Operator, rank: int) -> Iterable[int]:
    told = operator.inputs[2] if len(operator.inputs) > 2 else None
    axis = attribute_of(operator, "axis", -2 if operator.schema is not None and operator.schema.since >= 20 else 1)
    return [*(_ints(told) if told is not None else [axis]), -1]


def _grid_sample(operator: Operator, ranks: Ranks) -> AxisNames:
    rank = _rank(ranks)
    places = _spelled("place", rank - 2)
    return AxisNames([("example", "channel", *(None,) * (rank - 2)), ("example", *places, None)], [("example", "channel", *places)])


def _regions(operator: Operator, ranks: Ranks) -> AxisNames:
    """Regions of images that they name by position"""
    apart = operator.type == "RoiAlign"
    return AxisNames([(None, "channel"), ("region",), ("region",) if apart else ()], [("region", "channel", None, None)])


def _instance_normalised(operator: Operator, ranks: Ranks) -> AxisNames:
    names: Names = ("example", "channel", *(None,) * (_rank(ranks) - 2))
    return AxisNames([names, ("channel",), ("channel",)], [names])


def _batch_normalised(operator: Operator, ranks: Ranks) -> AxisNames:
    """By running statistics; with those of the batch it is in ``examples.py``"""
    rank = _rank(ranks)
    own: Names = _own(rank)
    channel: Names = (1 - rank,) if rank > 1 else ()
    return AxisNames([own, *[channel] * 4], [own])


def _mean_variance_axes(operator: Operator, rank: int) -> Iterable[int]:
    return [axis for axis in attribute_of(operator, "axes", [0, 2, 3]) if axis < rank]


def _text_vectors(operator: Operator, ranks: Ranks) -> AxisNames:
    return AxisNames([("example", None) if _rank(ranks) == 2 else (None,)], [("example", None) if _rank(ranks) == 2 else (None,)])


def _per_row(operator: Operator, ranks: Ranks) -> AxisNames:
    """[examples, features] to one row, or one number, for each example; a vector is one example"""
    if _rank(ranks) != 2:
        return _mixes(operator, ranks)
    if operator.type.endswith("Classifier"):
        return AxisNames([("example", None)], [("example",), ("example", None)][: len(operator.outputs)])
    return AxisNames([("example", None)], _each(operator, ("example", None)))


def _features(operator: Operator, ranks: Ranks) -> AxisNames:
    return AxisNames([("example",)] * len(operator.inputs), [("example", None)])


def _last_axis_indexed(operator: Operator, ranks: Ranks) -> AxisNames:
    own = _own(_rank(ranks), [-1])
    return AxisNames([own], [own if len(own) > 1 else (None, None)])


def _mixes(operator: Operator, ranks: Ranks) -> AxisNames:
    """Every result depends on all elements, or on their position"""
    return AxisNames([], _each(operator, ()), complete=False)


def _quantized_elementwise(*operands: int) -> _Rule:
    """Each of these operands is followed by its scale and zero point"""

    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        inputs: list[Names] = [()] * len(operator.inputs)
        for index in operands:
            inputs[index] = _own(_rank(ranks, index))
        return AxisNames(inputs, [_own(max(map(len, inputs)))])

    return rule


def _quantized_concat(operator: Operator, ranks: Ranks) -> AxisNames:
    inputs: list[Names] = [()] * len(operator.inputs)
    for index in range(2, len(inputs), 3):
        inputs[index] = _own(_rank(ranks, index), [_axis(operator, 0)])
    return AxisNames(inputs, [inputs[2]])


def _quantized_reduced(operator: Operator, ranks: Ranks) -> AxisNames:
    rank = _rank(ranks)
    gone = {axis % rank for axis in attribute_of(operator, "axes") or range(rank)}
    own = _own(rank, gone)
    keeps = attribute_of(operator, "keepdims", 1)
    return AxisNames([own], [own if keeps else tuple(name for axis, name in enumerate(own) if axis not in gone)])


def _rows_by(*more: int) -> _Rule:
    """A linear layer, or a norm, of each row of the first operand; those at ``more`` are broadcast to it"""

    def rule(operator: Operator, ranks: Ranks) -> AxisNames:
        own = _own(_rank(ranks), [-1])
        inputs: list[Names] = [own, *[()] * (len(operator.inputs) - 1)]
        for index in more:
            if index < len(inputs):
                inputs[index] = _maybe(ranks, index, [-1])
        return AxisNames(inputs, _each(operator, own))

    return rule


# The table ------------------------------------------------------------------------------------------------------------

_CONTRIB: Mapping[str, _Rule] = {
    **dict.fromkeys(("BiasAdd", "BiasGelu", "FastGelu", "Gelu", "QuickGelu"), _elementwise),
    "ScaledSiLU": _of_first,
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _rows_by(1)),
    **dict.fromkeys(("BiasSplitGelu", "MatMulBnb4", "MatMulFpQ4", "MatMulNBits", "SimplifiedLayerNormalization"), _rows_by()),
    "LayerNormalization": _layer_normalised,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantized),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _quantized_elementwise(0, 3)),
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid"), _quantized_elementwise(0)),
    "QLinearWhere": _quantized_elementwise(0, 1, 4),
    "QLinearSoftmax": _coupled(_axis_of(-1)),
    "QLinearConcat": _quantized_concat,
    "QLinearReduceMean": _quantized_reduced,
    "QLinearConv": _convolution(True, 0, 3, (4, 5, 8)),
    **dict.fromkeys(("QLinearAveragePool", "QLinearGlobalAveragePool", "NhwcMaxPool"), _first_axis(0)),
    **dict.fromkeys(("GroupNorm", "SkipGroupNorm"), _first_axis(0, 3)),
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv", "FusedConv"), _first_axis(0, 3)),
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), _fused_matmul),
    "FusedGemm": _gemm(),
    "QGemm": _gemm(3, 6),
    "MatMulIntegerToFloat": _matmul(0, 1, (2, 4), (3, 5, 6)),
    **dict.fromkeys(("DynamicQuantizeMatMul", "DynamicQuantizeLSTM"), _mixes),
    "Attention": _contrib_attention(4, 3),
    "QAttention": _contrib_attention(8, 5),
    "MultiHeadAttention": _first_axis(0, 1, 2, 4, 5, 6, 7),
    "GroupQueryAttention": _first_axis(0, 1, 2, 3, 4, 5, 9, 10),
    "RotaryEmbedding": _contrib_rotary,
    "MRotaryEmbedding": lambda operator, ranks: AxisNames([("example",), (None, "example")], [("example",)], complete=False),
    "GatedAdd": _first_axis(0, 1, 2),
    "GatedRMSNorm": _rows_by(2),
    "LinearAttentionGate": _first_axis(0, 3),
    "EmbedLayerNormalization": _first_axis(0, 1, 7, 8),
    "QEmbedLayerNormalization": _first_axis(0, 1, 7),
    "GatherBlockQuantized": _gather,
    **dict.fromkeys(("MoE", "QMoE"), _first_axis(0, 1)),
    "LinearAttention": _first_axis(0, 1, 2, 3, 4, 5),
    "CausalConvWithState": _first_axis(0, 3),
}

_LEARNING: Mapping[str, _Rule] = {
    **dict.fromkeys(("Binarizer", "CategoryMapper", "LabelEncoder"), _of_first),
    **dict.fromkeys(("Imputer", "Scaler"), _of_first),
    "OneHotEncoder": _without_last(0, 1),
    "Normalizer": _coupled(_axis_of(-1)),
    **dict.fromkeys(("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"), _per_row),
    **dict.fromkeys(("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"), _per_row),
    "FeatureVectorizer": _features,
    "ArrayFeatureExtractor": _last_axis_indexed,
    "ZipMap": _first_axis(0),
}

_STANDARD: Mapping[str, _Rule] = {
    **dict.fromkeys(ELEMENTWISE | COMPARES, _elementwise),
    **dict.fromkeys(("Bernoulli", "BitCast", "Cast", "CastLike", "Dropout", "RegexFullMatch"), _of_first),
    "StringConcat": _elementwise,
    "StringSplit": lambda operator, ranks: AxisNames([_own(_rank(ranks))], [(*_own(_rank(ranks)), None), _own(_rank(ranks))]),
    **dict.fromkeys((name for name in REDUCES if not name.startswith("Global")), _reduced),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), _per_image),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _per_image),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _coupled(_softmax_axes)),
    **dict.fromkeys(("LpNormalization", "TopK"), _coupled(_axis_of(-1))),
    **dict.fromkeys(("CumProd", "CumSum"), _coupled(_axis_operand)),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _layer_normalised),
    "GroupNormalization": lambda operator, ranks: AxisNames([("example",)], [("example", *(None,) * (_rank(ranks) - 1))]),
    "InstanceNormalization": _instance_normalised,
    "BatchNormalization": _batch_normalised,
    "MeanVarianceNormalization": _coupled(_mean_variance_axes),
    "LRN": _lrn,
    "MatMul": _matmul(),
    "MatMulInteger": _matmul(0, 1, (2,), (3,)),
    "QLinearMatMul": _matmul(0, 3, (1, 2), (4, 5)),
    "Gemm": _gemm(),
    "Einsum": _einsum,
    "Conv": _convolution(True),
    "ConvInteger": _convolution(True, 0, 1, (3,)),
    "QLinearConv": _convolution(True, 0, 3, (4, 5, 8)),
    "ConvTranspose": _convolution(False),
    "DeformConv": _convolution(True, 0, 1, (3,), (2, 4)),
    "Col2Im": lambda operator, ranks: AxisNames([("example",)], [("example",)], complete=False),
    "GridSample": _grid_sample,
    "AffineGrid": _first_axis(0),
    **dict.fromkeys(("MaxRoiPool", "RoiAlign"), _regions),
    **dict.fromkeys(("Resize", "Upsample"), _coupled(_resized_axes)),
    "DFT": _coupled(_dft_axes),
    "STFT": _first_axis(0),
    "Det": _without_last(2),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _first_axis(0)),
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _coupled(_axis_of(0)),
    "Pad": _coupled(_pad_axes),
    "Slice": _coupled(_slice_axes),
    "CenterCropPad": _coupled(_crop_axes),
    "Trilu": _coupled(_last_two),
    "ReverseSequence": _reverse_sequence,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    **dict.fromkeys(("Scatter", "ScatterElements"), _scatter_elements),
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "Compress": _compress,
    "OneHot": _one_hot,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantized),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    "Attention": _attention,
    "LinearAttention": _first_axis(0, 1, 2, 3, 4, 5),
    "CausalConvWithState": _first_axis(0, 3),
    "RotaryEmbedding": _rotary,
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _labelled),
    "Multinomial": _first_axis(0),
    "TfIdfVectorizer": _text_vectors,
    **dict.fromkeys(
        ("DynamicQuantizeLinear", "ImageDecoder", "MaxUnpool", "NonMaxSuppression", "NonZero", "StringNormalizer", "Unique"), _mixes
    ),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", "Range"), _mixes),
}

PARALLEL: Mapping[tuple[str, str], _Rule] = {
    **{("", name): rule for name, rule in _STANDARD.items()},
    **{("", name): _CONTRIB[name] for name in ("SimplifiedLayerNormalization",)},
    **{("ai.onnx.ml", name): rule for name, rule in _LEARNING.items()},
    **{(CONTRIB_DOMAIN, name): rule for name, rule in _CONTRIB.items()},
}
"""The rule of each operator, by domain and name."""
