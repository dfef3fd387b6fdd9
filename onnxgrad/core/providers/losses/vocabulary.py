"""Cross-entropy over a large vocabulary by blocks of rows, so that the scores of all rows are never held at once.

A Scan takes the rows that enter the last product some hundreds at a time: their scores, their losses, and, where there is a
backward pass, p - onehot and its product with the weight (the fused linear cross-entropy of Hsu et al. 2024, arXiv:2410.10989).
Nothing is computed twice. A weight that is trained needs p - onehot of all rows for its own gradient; it is then the only tensor
of that size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

from onnxgrad.core.costs import COSTS
from onnxgrad.core.graph.contract import CPU_FORMS, Pass, Target
from onnxgrad.core.graph.graph import Graph
from onnxgrad.core.graph.matching import operand_of, producer_of
from onnxgrad.core.graph.order import in_order
from onnxgrad.core.graph.rewriting import Links, name_results, stage_builder
from onnxgrad.core.ir.block import Block
from onnxgrad.core.ir.bodies import write_body
from onnxgrad.core.ir.known import entries_of
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.origin import LESS_ONE_AT_LABEL, is_piece
from onnxgrad.core.ir.traverse import dependent_operators
from onnxgrad.core.ir.types import TensorType, same_dims
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.providers.losses.unpacked_rows import product_with_unpacked

__all__ = ["VOCABULARY", "Head", "Search", "sized_head", "vocabulary"]

_LARGE = COSTS.count("vocabulary.fewest_scores")
"""From so many scores on, if their number is known; else from ``_WIDE`` tokens on."""
_WIDE = COSTS.count("vocabulary.fewest_words")
_LEAST_ROWS = COSTS.count("vocabulary.fewest_rows_of_a_block")
_MOST_ROWS = COSTS.count("vocabulary.most_rows_of_a_block")
_ELEMENTWISE = ("Add", "Div", "Mul", "Sub", "Tanh", "Cast", "Neg")
"""Between a head and its loss: scales, caps and casts, as files have them. Blocks compute them twice: none that is dear."""


def vocabulary(graph: Graph, target: Target) -> int:
    """Rewrite the losses whose scores are large and read by nothing else."""
    count = 0
    for op in [op for op in graph.operators if op.type == "SoftmaxCrossEntropyLoss" and not op.domain]:
        head = sized_head(op)
        if head is not None and _is_large(head) and Search(graph).completes(head):
            _write(graph, head)
            graph.settle()
            count += 1
    return count


VOCABULARY = Pass("vocabulary", vocabulary, rounding="order", gain=CPU_FORMS)


@dataclass
class Head:
    """The last product, what follows it up to the loss, and what of the backward pass goes by rows.

    Attributes:
        alias: of tensors that are others with their rows in other axes, those others.
        forward, backward: operators that the body repeats, in order.
        change: the gradient of the scores, and ``factor`` what p - onehot is multiplied by for it.
        barriers: Reshapes of a gradient that others only wait for.
        results: products whose result goes out by rows.
        whole: gradients that others read as a whole.
    """

    loss: Operator
    words: int
    count: int | None
    alias: dict[Variable, Variable] = field(default_factory=dict)
    forward: list[Operator] = field(default_factory=list)
    change: Variable | None = None
    factor: Variable | None = None
    backward: list[Operator] = field(default_factory=list)
    barriers: list[Operator] = field(default_factory=list)
    results: list[Operator] = field(default_factory=list)
    whole: dict[Variable, None] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """The most rows of a block, whose scores are 2^25 numbers at most."""
        return max(_LEAST_ROWS, min(_MOST_ROWS, _LARGE // self.words))

    @property
    def blocks(self) -> tuple[int, int]:
        """The numbers of blocks and of rows in one, where the number of rows is known."""
        assert self.count is not None
        blocks = -(-self.count // self.most)
        return blocks, -(-self.count // max(blocks, 1))

    @property
    def product(self) -> Operator:
        return self.forward[0]

    def stacked(self) -> list[Variable | None]:
        """Return the outputs of the body besides the losses: products, and at most one gradient that is read as a whole."""
        return [*(op.outputs[0] for op in self.results), *dict.fromkeys(self.root(v) for v in self.whole)]

    def root(self, v: Variable | None) -> Variable | None:
        """The tensor in which the rows of ``v`` lie along one or two leading axes as they were computed."""
        while v in self.alias:
            v = self.alias[v]
        return v


def _is_large(head: Head) -> bool:
    if head.count is None:
        return head.words >= _WIDE
    return head.words * head.count >= _LARGE and head.most < head.count


def sized_head(loss: Operator) -> Head | None:
    """The head of a loss with its size alone, before anything of the graph is looked at; None where it has another form."""
    scores = loss.inputs[0]
    plain = len(loss.inputs) == 2 and loss.attr("reduction") in (None, "mean", "sum") and all(v is None for v in loss.outputs[1:])
    if not plain or scores is None or scores.dims is None or len(scores.dims) not in (2, 3) or scores.dtype.name != "float32":
        return None
    tokens, others = scores.dims[1], (scores.dims[0], *scores.dims[2:])
    known = [d for d in others if isinstance(d, int)]
    count = prod(known) if len(known) == len(others) else None
    return Head(loss, tokens, count) if isinstance(tokens, int) else None


class Search(Links):
    """Finds what belongs to a loss, and refuses what does not go by rows."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.rows: set[Variable] = set()
        self.inner: set[Operator] = set()

    def completes(self, head: Head) -> bool:
        """Find what belongs to a head, and return whether all of it goes by rows."""
        scores = head.loss.inputs[0]
        assert scores is not None
        if not self._forward(head, scores):
            return False
        self.inner |= {head.loss, *head.forward}
        return self._backward(head, scores) and self._is_closed(head)

    def _forward(self, head: Head, scores: Variable) -> bool:
        """Go back from the scores to the product that they come from."""
        v = scores
        while True:
            op = self.makers.get(v)
            self.rows.add(v)
            if op is None or not op.inputs:
                return False
            if _is_product(op, op.inputs[0]):
                head.forward.insert(0, op)
                width = op.inputs[0].dims[-1] if op.inputs[0] is not None and op.inputs[0].dims else None
                # Of three axes, the classes are the last one until they are turned.
                return (
                    isinstance(width, int)
                    and v.dims is not None
                    and v.dims[-1] == head.words
                    and (scores.rank == 2 or scores in head.alias)
                )
            moves = _regroups(op) or (v is scores and _turns(op, scores, op.inputs[0]))
            wide = [x for x in op.inputs[: 1 if moves else None] if x is not None and not _is_same_for_all_rows(x)]
            if len(wide) != 1 or not (moves or _is_elementwise(op)):
                return False
            if moves:
                head.alias[v] = wide[0]
            else:
                head.forward.insert(0, op)
            self.inner.add(op)
            v = wide[0]

    def _backward(self, head: Head, scores: Variable) -> bool:
        readers = [op for op in self.readers.get(scores, ()) if op not in self.inner]
        if not readers:
            return True
        p = readers[0].outputs[0]
        if len(readers) != 1 or readers[0].type != "Softmax" or readers[0].domain or readers[0].attr("axis") != 1 or p is None:
            return False
        less = self.readers.get(p, [])
        if len(less) != 1 or less[0].inputs[0] is not p or not self._takes_one_at_label(less[0], head.loss):
            return False
        head.change = less[0].outputs[0]
        assert head.change is not None
        self.inner |= {readers[0], less[0]}
        self.rows |= {p, head.change}
        after = self.readers.get(head.change, [])
        if len(after) == 1 and after[0].type == "Mul" and not after[0].domain and after[0].outputs[0] is not None:
            (head.factor,) = [v for v in after[0].inputs if v is not head.change] or [None]
            if head.factor is None or not _is_per_row(head.factor, head.change, head.loss.inputs[1]):
                return False
            self.inner.add(after[0])
            head.change = after[0].outputs[0]
            self.rows.add(head.change)
        return self._by_rows(head) and self._comes_before(head)

    def _takes_one_at_label(self, op: Operator, loss: Operator) -> bool:
        """Return whether the gradient of this loss wrote the operator, and it is what that gradient writes."""
        if not is_piece(op, LESS_ONE_AT_LABEL) or op.origin is None or op.origin.of is not loss.outputs[0]:
            return False
        if op.type != "ScatterElements" or op.domain or op.attr("reduction") != "add" or op.attr("axis") != 1:
            return False
        _, index, updates = op.inputs
        one, column = operand_of(updates, "Expand"), producer_of(index, "Unsqueeze")
        if one is None or one.value is None or one.persistable or one.value.numpy().tolist() not in (-1, [-1]):
            return False
        if column is None or entries_of(column.inputs[1]) != (1,):
            return False
        label, ignored = column.inputs[0], loss.attr("ignore_index")
        if ignored is not None:
            product = producer_of(label, "Mul")
            label = None if product is None or not _counts(product.inputs[1], product.inputs[0], ignored) else product.inputs[0]
        return label is not None and any(v is loss.inputs[1] for v in (label, operand_of(label, "Cast")))

    def _by_rows(self, head: Head) -> bool:
        """Follow what depends on the scores through what goes by rows."""
        forward = {head.root(v) for v in self.rows} - {head.change}
        turned = {head.change} if head.change is not None and head.change.rank == 3 else set()
        for op in dependent_operators(self.graph.operators, list(self.rows)):
            read = [v for v in op.operands() if v is not None and v in self.rows]
            out = op.outputs[0] if len(op.outputs) == 1 else None
            if not read or op in self.inner or out is None:
                head.whole.update(dict.fromkeys(read if op not in self.inner else ()))
                continue
            if (_regroups(op) or _turns(op, head.loss.inputs[0], out)) and op.inputs[0] in self.rows:
                head.alias[out] = read[0]
                self.rows.add(out)
            elif _is_elementwise(op) and all(self._is_operand(x, read[0] in turned) for x in op.inputs):
                head.backward.append(op)
                self.rows.add(out)
                turned |= {out} if read[0] in turned else set()
            elif _is_product(op, read[0]) and not op.domain and op.inputs[1] not in self.rows:
                head.results.append(op)
            elif self._is_barrier(op):
                head.barriers.append(op)
            elif op.type == "Shape":
                continue
            else:
                head.whole.update(dict.fromkeys(read))
                continue
            self.inner.add(op)
        roots = {head.root(v) for v in head.whole}
        return len(roots) <= 1 and not roots & forward and all(v.dims is not None and v.dims[-1] == head.words for v in head.whole)

    def _is_operand(self, x: Variable | None, is_turned: bool) -> bool:
        """Return whether an operand goes by rows, or is the same for all: one number where the classes are not the last axis"""
        if x is None or x in self.rows:
            return True
        return x.static_shape in ((), (1,)) if is_turned else _is_same_for_all_rows(x)

    def _is_barrier(self, op: Operator) -> bool:
        """Return whether a gradient is flattened so that others wait for it, and none of its numbers counts"""
        flat = op.outputs[0]
        return op.type == "Reshape" and not op.domain and flat is not None and flat.rank == 1 and self._only_waits(flat)

    def _only_waits(self, v: Variable | None) -> bool:
        """Return whether all that follows from a value is that it is not less than minus infinity, which no number is."""
        if v is None or v in self.returned:
            return False
        for reader in self.readers.get(v, ()):
            is_asked = reader.type == "Less" and reader.inputs[0] is v and _is_lowest(reader.inputs[1])
            follows = reader.type in ("Cast", "ReduceSum", "Slice") and reader.inputs[0] is v
            if reader.domain or not (is_asked or (follows and self._only_waits(reader.outputs[0]))):
                return False
        return True

    def _comes_before(self, head: Head) -> bool:
        """Return whether what the body reads from outside is known without what it computes."""
        inner = [v for op in self.inner - set(head.barriers) for v in op.outputs if v is not None]
        later = dependent_operators([op for op in self.graph.operators if op not in head.barriers], inner)
        after = {v for op in later for v in op.outputs} - self.rows
        read = [head.factor, *(v for op in (*head.forward, *head.backward, *head.results) for v in op.inputs)]
        return not any(v in after for v in read)

    def _is_closed(self, head: Head) -> bool:
        """Return whether nothing else reads, or returns, what is no longer computed."""
        results = {head.loss.outputs[0], *head.whole, *(op.outputs[0] for op in (*head.results, *head.barriers))}
        gone = {v for op in self.inner for v in op.outputs if v is not None} - results
        return not gone & self.returned and all(self._is_inner(op) for v in gone for op in self.readers.get(v, ()))

    def _is_inner(self, op: Operator) -> bool:
        """Return whether an operator is dropped: one of the head, or a Shape that only such operators read."""
        if op.type == "Shape" and op.outputs[0] is not None:
            return all(reader in self.inner for reader in self.readers.get(op.outputs[0], ()))
        return op in self.inner


def _is_per_row(factor: Variable, change: Variable, label: Variable | None) -> bool:
    """Return whether a factor of the gradient of scores is one number, or one for each row of classes, as each has a label."""
    if factor.static_shape is not None and prod(factor.static_shape) == 1:
        return True
    if factor.dims is None or change.dims is None or len(factor.dims) != len(change.dims) or factor.dims[1] != 1:
        return False
    labels = change.dims[:0] if label is None or label.dims is None else label.dims
    others = (*factor.dims[:1], *factor.dims[2:])
    return same_dims(others, (*change.dims[:1], *change.dims[2:])) or same_dims(others, labels)


def _is_lowest(v: Variable | None) -> bool:
    return v is not None and v.value is not None and not v.persistable and bool((v.value.numpy() == -inf).all())


def _counts(v: Variable | None, label: Variable | None, ignored: int) -> bool:
    """Return whether a tensor is 1 where a label is not the ignored one, and 0 where it is."""
    equal = producer_of(operand_of(operand_of(v, "Cast"), "Not"), "Equal")
    return equal is not None and equal.inputs[0] is label and entries_of(equal.inputs[1]) == (ignored,)


def _is_same_for_all_rows(x: Variable) -> bool:
    """Return whether an operand is a number, or has one for each column"""
    return x.rank is not None and x.rank <= 1


def _regroups(op: Operator) -> bool:
    """Return whether a Reshape or Flatten changes the axes before the last one only"""
    if op.type not in ("Reshape", "Flatten") or op.domain or op.inputs[0] is None:
        return False
    old, new = op.inputs[0].dims, op.outputs[0].dims  # type: ignore[union-attr]
    return bool(old and new and len(old) > 1 and len(new) > 1 and old[-1] == new[-1] and isinstance(old[-1], int))


def _turns(op: Operator, scores: Variable | None, other: Variable | None) -> bool:
    """Return whether it swaps the axis of the classes of three with that behind it, to scores of the loss or back to ``other``"""
    if op.type != "Transpose" or op.attr("perm") != [0, 2, 1] or scores is None or scores.dims is None or other is None:
        return False
    return other.dims is not None and other.dims[-1] == scores.dims[1]


def _is_elementwise(op: Operator) -> bool:
    return op.type in _ELEMENTWISE and not op.domain


def _is_product(op: Operator, rows: Variable | None) -> bool:
    """Return whether each row of the result is that row of the first operand times a matrix, and a bias"""
    if not op.inputs or op.inputs[0] is not rows or rows is None or len(op.outputs) != 1:
        return False
    if op.domain == "com.microsoft" and op.type == "MatMulNBits":
        return True
    second = op.inputs[1] if len(op.inputs) > 1 and not op.domain else None
    if second is None or second.rank != 2:
        return False
    if op.type == "Gemm":
        bias = op.inputs[2] if len(op.inputs) > 2 else None
        return not op.attr("transA") and (bias is None or bias.rank in (0, 1))
    return op.type == "MatMul" and rows.rank in (2, 3)


# Writing ---------------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes one Scan, and what brings its operands and results into blocks of rows and back.

    The rows are shared out evenly: ``ceil(rows / most)`` blocks of ``ceil(rows / blocks)``, so that few rows take few, and the last
    block is filled up with less than one row for each block.

    Attributes:
        shape: the numbers of blocks and of rows in one, as a tensor of two where the number of rows is known in the run alone.
        missing: how many rows are filled up, as that is.
    """

    def __init__(self, build: Any, head: Head) -> None:
        self.build, self.head = build, head
        h, self.labels = head.product.inputs[0], build.Reshape(head.loss.inputs[1], [-1])
        assert h is not None and h.dims is not None
        self.h, self.width = h, h.dims[-1]
        self.rows = build.Shape(self.labels)
        self.shape: Any
        self.missing: Any
        if head.count is not None:
            blocks, size = head.blocks
            self.shape, self.missing = [blocks, size], blocks * size - head.count
        else:
            # At least one row, as a Scan refuses none.
            blocks = build.Max(_divided_up(build, self.rows, build.constant([head.most], self.rows.dtype)), [1])
            size = build.Max(_divided_up(build, self.rows, blocks), [1])
            self.shape = build.Concat(blocks, size, axis=0)
            self.missing = build.Sub(build.Mul(blocks, size), self.rows)

    def blocks(self, v: Variable, width: list[Any]) -> Variable:
        """[rows, *width] as [blocks, rows of a block, *width], the last block filled up with zeros."""
        build, flat, none = self.build, self.build.Reshape(v, [-1, *width]), [0] * len(width)
        if isinstance(self.missing, int):
            if self.missing:
                flat = build.Pad(flat, [0, *none, self.missing, *none])
            return build.Reshape(flat, [*self.shape, *width])  # type: ignore[no-any-return]
        flat = build.Pad(flat, build.Concat([0, *none], self.missing, *([none] if none else []), axis=0))
        shape = build.Concat(self.shape, width, axis=0) if width else self.shape
        return build.Reshape(flat, shape, allowzero=1)  # type: ignore[no-any-return]

    def whole(self, v: Variable, like: Variable | None) -> Variable:
        """The rows of all blocks, in the shape of the tensor that they stand for."""
        build, width = self.build, [] if like is None else [like.dims[-1]]  # type: ignore[index]
        flat = build.Reshape(v, [-1, *width])
        if self.missing != 0:
            flat = build.Slice(flat, [0], self.rows, [0])
        if like is None or like.rank == 2:
            result: Variable = flat
        elif like.static_shape is not None:
            result = build.Reshape(flat, list(like.static_shape))
        else:
            result = build.Reshape(flat, build.Concat(build.Shape(self.h, end=-1), width, axis=0), allowzero=1)
        return result

    def write(self) -> list[tuple[Variable, Variable]]:
        """Write the loop over blocks of rows; return pairs of an old variable and the one that replaces it."""
        build, head = self.build, self.head
        ignored = head.loss.attr("ignore_index")
        operands = [self.blocks(self.h, [self.width]), self.blocks(build.Cast(self.labels, to=7), [])]
        factor = head.factor
        if factor is not None and factor.static_shape not in ((), (1,), (1, 1), (1, 1, 1)):
            operands.append(self.blocks(factor, [1]))
            factor = None
        size = None if head.count is None else head.blocks[1]
        types = [(f"rows_{i}", TensorType(v.dtype, (size, *(v.dims or ())[2:]))) for i, v in enumerate(operands)]

        def body(inner: Any, h: Variable, labels: Variable, *factors: Variable) -> tuple[Variable, ...]:
            return _body(inner, head, h, labels, factors[0] if factors else factor)

        block = write_body(build, "rows", types, body)
        count = len(block.outputs)
        stacked = build.Scan(*operands, body=block, num_scan_inputs=len(operands), outputs=count)
        losses, *others = stacked if count > 1 else (stacked,)
        total = build.ReduceSum(self.whole(losses, None), keepdims=0)
        if head.loss.attr("reduction") != "sum":
            kept = None if ignored is None else build.Cast(build.Not(build.Equal(self.labels, ignored)), to=1)
            size = build.Cast(build.Size(self.labels), to=1) if kept is None else build.ReduceSum(kept, keepdims=0)
            total = build.Div(total, float(head.count) if kept is None and head.count is not None else size)
        assert head.loss.outputs[0] is not None
        new = dict(zip(head.stacked(), others, strict=True))
        old = [v for v in (*(op.outputs[0] for op in head.results), *head.whole) if v is not None]
        pairs = [(head.loss.outputs[0], total), *((v, self.whole(new[head.root(v)], v)) for v in old)]
        return [*pairs, *((op.outputs[0], build.Reshape(self.h, [-1])) for op in head.barriers)]  # type: ignore[list-item]


def _divided_up(build: Any, number: Variable, by: Any) -> Any:
    """ceil(number / by), of numbers that are not negative"""
    return build.Div(build.Add(number, build.Sub(by, [1])), by)


def _body(build: Any, head: Head, h: Variable, labels: Variable, factor: Variable | None) -> tuple[Variable, ...]:
    """Losses of some rows, then the products with the gradient of their scores, then that gradient if it is read as a whole."""
    rows: dict[Variable | None, Variable | None] = {head.product.inputs[0]: h}
    for op in head.forward:
        _repeat(build.block, op, rows, head)
    scores = rows[head.root(head.loss.inputs[0])]
    ignored = head.loss.attr("ignore_index")
    kept = None if ignored is None else build.Not(build.Equal(labels, ignored))
    if kept is not None:
        labels = build.Mul(labels, build.Cast(kept, to=7))
    label = build.Unsqueeze(labels, [1])
    log = build.LogSoftmax(scores, axis=1)
    loss = build.Neg(build.Squeeze(build.GatherElements(log, label, axis=1), [1]))
    if kept is not None:
        loss = build.Mul(loss, build.Cast(kept, to=1))
    if head.change is None:
        return (loss,)
    less = build.Expand(build.constant(-1, scores.dtype), build.Shape(label))  # type: ignore[union-attr]
    change = build.ScatterElements(build.Exp(log), label, less, axis=1, reduction="add")
    rows[head.change] = change if factor is None else build.Mul(change, build.Reshape(factor, [-1, 1]))
    for op in head.backward:
        _repeat(build.block, op, rows, head)
    for op in head.results:
        x = rows.get(head.root(op.inputs[0]))
        product = None if x is None else product_with_unpacked(build, x, _weight_as_multiplied(op))
        if product is None:
            _repeat(build.block, op, rows, head)
        else:
            rows[op.outputs[0]] = product
    return (loss, *(rows[v] for v in head.stacked()))


def _repeat(block: Block, op: Operator, rows: dict[Variable | None, Variable | None], head: Head) -> None:
    """An operator of the graph in the body, where ``rows`` stand for its operands of many rows."""
    type, inputs, attrs = op.type, [rows.get(head.root(v), v) for v in op.inputs], dict(op.attrs)
    stored = _stored_weight(op)
    if stored is not None:
        type, inputs[1], attrs["transB"] = "Gemm", stored, 0 if attrs.get("transB") else 1
    copy = Operator(block, type, inputs, [], attrs, op.domain)
    copy.role = op.role
    out = op.outputs[0]
    assert out is not None and out.dims is not None
    name = block.program.fresh_name(f"{out.name}/rows")
    new = Variable(block, name, TensorType(out.dtype, (None if head.count is None else head.blocks[1], out.dims[-1])), copy)
    copy.outputs, copy.name = [block.register(new)], name
    block.append(copy)
    rows[out] = new


def _stored_weight(op: Operator) -> Variable | None:
    """Return the weight that a product reads transposed, so that no step writes it transposed: 544 MB of 151,936 words."""
    if op.type not in ("MatMul", "Gemm") or op.domain or len(op.inputs) < 2:
        return None
    transpose = producer_of(op.inputs[1], "Transpose")
    weight = None if transpose is None else transpose.inputs[0]
    return weight if weight is not None and weight.rank == 2 and weight.dtype.name == "float32" else None


def _weight_as_multiplied(op: Operator) -> Variable | None:
    """Return the matrix W of a product ``x @ W``, which a Gemm may read transposed twice; None for another product"""
    if op.type == "MatMul":
        return op.inputs[1]
    transpose = producer_of(op.inputs[1], "Transpose")
    is_plain = op.attr("transB") and len(op.inputs) == 2 and op.attr("alpha") in (None, 1.0)
    return transpose.inputs[0] if transpose is not None and is_plain else None


def _write(graph: Graph, head: Head) -> None:
    build = stage_builder(graph, head.loss)
    assert build.stage is not None
    pairs = _Writer(build, head).write()
    for old, new in pairs:
        graph.replace(old, new)
    name_results(graph, build.stage, build.key)
    graph.operators = in_order([*graph.operators, *build.stage], graph.resolve)
