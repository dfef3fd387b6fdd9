"""Other classes for a detector: its layers of classes get rows for new ones, and what its decoding knows of their number follows.

Tests: tests/training/detection/test_classes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.infer import infer_with_bodies
from onnxgrad.core.ir.known import entries_of, known_ints
from onnxgrad.core.ir.operator import Operator
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.traits import ELEMENTWISE, READS_SHAPES, REDUCES
from onnxgrad.core.ir.transaction import all_or_nothing
from onnxgrad.core.ir.traverse import all_operators_of, substitute
from onnxgrad.core.ir.types import Dim, TensorType
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.errors import ArgumentError, ExecutionError
from onnxgrad.training.data.kinds.placed import BoxesColumn
from onnxgrad.training.data.record import record_of, set_record
from onnxgrad.training.detection.geometry import Probe
from onnxgrad.training.detection.heads import DetectorHead, array_of, names_in_metadata, require_head

__all__ = ["class_names", "set_classes"]

Array = np.ndarray[Any, Any]
_RARE = -4.6
"""The logit of a new class at first: a probability of 0.01."""
_SAME = ELEMENTWISE | {"Sigmoid", "Softmax", "LogSoftmax", "Identity", "QuantizeLinear", "DequantizeLinear"}
_UNLIKELY = -1e4


class _Block(NamedTuple):
    """An axis on which the classes of each group of channels lie in a row: ``groups`` times ``width``, classes from ``start`` on"""

    axis: int
    groups: int
    width: int
    start: int


class _Layer(NamedTuple):
    """An operator whose operand of this index has the channels along an axis"""

    op: Operator
    operand: int
    axis: int
    block: _Block


def class_names(program: Program) -> list[str] | None:
    """The names of the classes of a detector by number: its metadata ``names``, or the record of the data that it was trained with.

    Example:
        >>> class_names(onnxgrad.from_onnx("yolov8n.onnx"))[:2]  # doctest: +SKIP
        ['person', 'bicycle']
    """
    names = names_in_metadata(program)
    placed = [column for column in record_of(program).columns.values() if isinstance(column, BoxesColumn) and column.classes]
    return list(placed[0].classes) if names is None and len(placed) == 1 else names


@all_or_nothing
def set_classes(program: Program, names: Sequence[str], *, seed: int = 0) -> list[str]:
    """Give a detector these classes: those that it has keep their weights, others get new ones, the rest goes.

    What the decoding and NonMaxSuppression of the file know of the number of classes follows; the names of its outputs stay.

    Args:
        program: a loaded detector without a backward pass; it is changed.
        names: of all classes that it is to have, by number. Those that the file names are recognised; where it names none, its own
            are called 0, 1, 2, ....
        seed: of new weights.

    Returns:
        Lines on what was kept and what is new.

    Raises:
        ArgumentError: if the outputs are of no detector that is known here, the names are not distinct, or an operator between the
            layers and the outputs is not understood.

    Example:
        >>> program = onnxgrad.from_onnx("yolov8n.onnx")  # doctest: +SKIP
        >>> set_classes(program, ["person", "forklift"])  # doctest: +SKIP
        ['of 80 classes 1 is kept, and 1 is new: forklift.']
    """
    head = require_head(program)
    if not isinstance(head, DetectorHead):
        raise ArgumentError(f"classes are for a detector, and the model is {head.description}. Leave them out.")
    if not names or len(set(names)) != len(names):
        raise ArgumentError("the classes of a detector are one name or more, each once.")
    old = class_names(program) or [str(i) for i in range(head.classes)]
    if len(old) != head.classes:
        raise ArgumentError(
            f"the file names {len(old)} classes, but its outputs have {head.classes}. Correct its metadata 'names'."
        )
    sources = [old.index(name) if name in old else None for name in names]
    before = _outputs_of(program, head) if sources[: len(old)] == list(range(len(old))) else None
    _Change(program, head, sources, seed).run()
    program.metadata["names"] = str(dict(enumerate(names)))
    record = record_of(program)
    set_record(program, record.without([name for name, column in record.columns.items() if isinstance(column, BoxesColumn)]))
    if before is not None:
        _check(program, before, head.classes)
    kept = sum(source is not None for source in sources)
    new = [name for name, source in zip(names, sources, strict=True) if source is None]
    return [
        f"of {head.classes} classes {kept} {'is' if kept == 1 else 'are'} kept, and {len(new)} new: {', '.join(new) or 'none'}."
    ]


class _Change:
    """Rows of classes replaced in the layers, and the change of their number carried on to the outputs"""

    def __init__(self, program: Program, head: DetectorHead, sources: Sequence[int | None], seed: int) -> None:
        self.program, self.head, self.sources = program, head, list(sources)
        self.rng = np.random.default_rng(seed)
        self.old, self.new = head.classes, len(sources)
        self.layers: list[_Layer] = []
        self.grown: dict[Variable, _Block] = {}
        self.pairs: set[Variable] = set()
        """Tensors whose last axis holds the classes of each query in a row: query * classes + class."""
        self.numbers: set[Variable] = set()
        """Numbers of such pairs, which a division by the number of classes takes apart."""
        self.replaced: list[Variable] = []
        self.made: dict[Variable, Parameter] = {}

    def run(self) -> None:
        for channels in self.head.scores:
            first = channels.start + (1 if self.head.background == 0 else 0)
            dims = channels.tensor.dims
            assert dims is not None and isinstance(dims[channels.axis], int)
            width = dims[channels.axis]
            assert isinstance(width, int)
            self._back(channels.tensor, _Block(channels.axis, 1, width, first))
        done: set[tuple[int, int]] = set()
        for layer in self.layers:
            key = (id(layer.op), layer.operand)
            if key not in done:
                done.add(key)
                self._replace_rows(layer)
        if self.old != self.new:
            self._forward()
        self._drop_replaced()

    # Backwards: which rows of which layers ------------------------------------------------------------------------------

    def _back(self, v: Variable, block: _Block) -> None:
        """Find the layers that compute the classes of a tensor"""
        op = v.op
        if op is None or op.domain != "" or v.dims is None:
            raise self._unknown(v, "nothing of the main graph computes it")
        axis = block.axis
        if op.type in ("Conv", "Gemm", "MatMul"):
            weight = 0 if op.type == "Conv" or (op.type == "Gemm" and op.attr("transB")) else 1
            if op.type == "Conv" and int(op.attr("group") or 1) != 1:
                raise self._unknown(v, "a grouped convolution computes it")
            self.layers.append(_Layer(op, 1, weight, block))
            if len(op.inputs) > 2 and op.inputs[2] is not None:
                self.layers.append(_Layer(op, 2, 0, block))
            self.grown[v] = block
            return
        x = op.inputs[0]
        assert x is not None
        if op.type == "Concat":
            self._back_concat(op, block)
        elif op.type == "Split":
            at = 0
            if int(op.attr("axis")) % len(v.dims) == axis:
                for part in op.outputs:
                    if part is v:
                        break
                    at += self._length(part, axis)
            whole = self._length(x, axis) if at or int(op.attr("axis")) % len(v.dims) == axis else block.width
            self._back(x, block._replace(width=whole, start=block.start + at))
        elif op.type == "Slice":
            axes, starts = known_ints(op.operand("axes")), known_ints(op.operand("starts"))
            steps = known_ints(op.operand("steps")) if op.operand("steps") is not None else None
            if axes is None or starts is None or (steps is not None and set(steps) != {1}):
                raise self._unknown(v, "a Slice with computed bounds computes it")
            own = dict(zip([a % len(v.dims) for a in axes], starts, strict=True)).get(axis, 0)
            whole = self._length(x, axis)
            self._back(x, block._replace(width=whole, start=block.start + own % whole))
        elif op.type == "Transpose":
            perm = list(op.attrs.get("perm") or range(len(v.dims))[::-1])
            self._back(x, block._replace(axis=perm[axis]))
        elif op.type == "Reshape":
            self._back(x, _reshaped(v.dims, x.dims, block) or self._refuse(v, "a Reshape mixes it with other axes"))
        elif op.type == "Add":
            data = [operand for operand in op.inputs if operand is not None and array_of(operand) is None]
            bias = next((i for i, operand in enumerate(op.inputs) if operand is not None and array_of(operand) is not None), None)
            if len(data) != 1 or bias is None:
                raise self._unknown(v, "an Add of two computed tensors computes it")
            operand = op.inputs[bias]
            assert operand is not None and operand.dims is not None
            if operand.dims and operand.dims[-1] != 1:
                self.layers.append(_Layer(op, bias, len(operand.dims) - 1, block))
            self._back(data[0], block)
        elif op.type in ("Identity", "Cast"):
            self._back(x, block)
        else:
            raise self._unknown(v, f"the operator {op.type} computes it")

    def _back_concat(self, op: Operator, block: _Block) -> None:
        result = op.outputs[0]
        assert result is not None and result.dims is not None
        if int(op.attr("axis")) % len(result.dims) != block.axis:
            for part in op.inputs:
                assert part is not None
                self._back(part, block)
            return
        at = 0
        for part in op.inputs:
            assert part is not None
            length = self._length(part, block.axis)
            if at <= block.start < at + length:
                self._back(part, block._replace(width=length, start=block.start - at))
                return
            at += length

    def _length(self, v: Variable | None, axis: int) -> int:
        length = None if v is None or v.dims is None else v.dims[axis]
        if not isinstance(length, int):
            raise self._unknown(v, "its size is not known")
        return length

    def _refuse(self, v: Variable, why: str) -> _Block:
        raise self._unknown(v, why)

    def _unknown(self, v: Variable | None, why: str) -> ArgumentError:
        name = "a tensor" if v is None else repr(v.name)
        return ArgumentError(
            f"the classes of this detector cannot be changed: they pass through {name}, and {why}. "
            "Train it with the classes that it has."
        )

    # The rows -----------------------------------------------------------------------------------------------------------

    def _replace_rows(self, layer: _Layer) -> None:
        op, index, axis, block = layer
        operand = op.inputs[index]
        array = array_of(operand)
        if operand is not None and operand in self.made:  # levels may share a layer
            op.inputs[index] = self.made[operand]
            if not any(v is operand for other in op.block.ops for v in other.inputs):
                self._take_over(operand, self.made[operand])
            return
        if operand is None or array is None or operand.value is None:
            raise self._unknown(operand, "its weights are not a floating-point tensor of the file")
        rows = np.moveaxis(array, axis, 0)
        rows = rows.reshape(block.groups, block.width, *rows.shape[1:])
        own = rows[:, block.start : block.start + self.old]
        is_bias = index == 2 or op.type == "Add"
        if is_bias:
            fresh = np.full(rows[:, :1].shape, _RARE, array.dtype) if self.head.background is None else own.mean(1, keepdims=True)
        else:
            features = int(np.prod(rows.shape[2:]))
            fresh = None
        parts = []
        for source in self.sources:
            if source is not None:
                parts.append(own[:, source : source + 1])
            elif fresh is not None:
                parts.append(fresh)
            else:
                parts.append(self.rng.uniform(-1, 1, rows[:, :1].shape).astype(array.dtype) / np.float32(np.sqrt(features)))
        whole = np.concatenate([rows[:, : block.start], *parts, rows[:, block.start + self.old :]], axis=1).astype(array.dtype)
        replaced = np.ascontiguousarray(np.moveaxis(whole.reshape(-1, *whole.shape[2:]), 0, axis))
        home = op.block
        name = operand.name
        if isinstance(operand, Parameter):
            fresh_name = self.program.fresh_name(name)
            parameter = home.create_parameter(fresh_name, replaced.shape, replaced.dtype, value=TensorValue.of(replaced))
            self.program.decisions[fresh_name] = "weight: of classes that were added"
            op.inputs[index] = self.made[operand] = parameter
            if not any(v is operand for other in home.ops for v in other.inputs):
                self._take_over(operand, parameter)
        else:
            op.inputs[index] = self.program.constant(replaced)

    def _take_over(self, old: Variable, parameter: Parameter) -> None:
        """Give a new parameter the name of the one that nothing reads any more"""
        assert isinstance(old, Parameter) and parameter.value is not None
        name, fresh_name = old.name, parameter.name
        self._forget(old)
        parameter.name = name
        parameter.set_value(parameter.value.numpy())
        self.program.decisions[name] = self.program.decisions.pop(fresh_name)

    def _forget(self, p: Parameter) -> None:
        block = p.block
        block.vars.pop(p.name, None)
        block.initializers = [v for v in block.initializers if v is not p]
        block.value_infos = [v for v in block.value_infos if v is not p]
        self.program.parameters = [v for v in self.program.parameters if v is not p]
        self.program.decisions.pop(p.name, None)
        self.program.names.discard(p.name) if isinstance(self.program.names, set) else self.program.names.pop(p.name, None)

    # Forwards: numbers that follow ----------------------------------------------------------------------------------------

    def _forward(self) -> None:
        program = self.program
        block = program.global_block()
        before: dict[Variable, tuple[Dim, ...] | None] = {v: v.dims for v in block.vars.values()}
        touched: set[Variable] = set()
        for op in list(block.ops):
            grown = [(i, v, self.grown[v]) for i, v in enumerate(op.inputs) if v is not None and v in self.grown]
            if grown and op.domain == "" and op.type not in READS_SHAPES:
                self._carry(op, grown, before)
            elif op.domain == "":
                self._carry_pairs(op)
            if any(v in touched or v in self.grown for v in op.operands() if v is not None) or any(
                v in self.grown for v in op.outputs if v is not None
            ):
                touched.update(v for v in op.outputs if v is not None)
                for v in op.outputs:
                    if v is not None and isinstance(v.type, TensorType):
                        v.declared, v.type, v.entries = None, TensorType(v.type.dtype, None), None
                infer_with_bodies(op)
        program.version += 1

    def _carry(self, op: Operator, grown: list[tuple[int, Variable, _Block]], before: dict[Variable, Any]) -> None:
        """Adapt the constants of an operator, and note which of its results have grown"""
        index, x, block = grown[0]
        dims = before[x]
        result = op.outputs[0]
        if result is None or dims is None:
            raise self._unknown(x, "the shape of a later tensor is not known")
        rank, axis = len(dims), block.axis
        if op.type in _SAME:
            longer = before[result]
            shift = 0 if longer is None else len(longer) - rank
            self.grown[result] = block._replace(axis=axis + shift)
        elif op.type == "Transpose":
            perm = list(op.attrs.get("perm") or range(rank)[::-1])
            self.grown[result] = block._replace(axis=perm.index(axis))
        elif op.type == "Concat":
            self._carry_concat(op, rank, before)
        elif op.type == "Split":
            self._carry_split(op, block, rank, before)
        elif op.type == "Slice":
            self._carry_slice(op, block, rank, before)
        elif op.type in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
            self._carry_view(op, x, block, before)
        elif op.type == "Gather" and index == 0:
            own = int(op.attr("axis")) % rank
            indices = op.inputs[1]
            gone = 1 - (indices.rank or 0) if indices is not None else 0
            if own == axis:
                raise self._unknown(x, "a Gather chooses among them")
            self.grown[result] = block._replace(axis=axis - gone if own < axis else axis)
        elif op.type in REDUCES or op.type in ("TopK", "NonMaxSuppression", "GatherND", "GatherElements"):
            self._carry_reduction(op, block, rank)
        else:
            raise self._unknown(x, f"{op.type} reads them")

    def _carry_pairs(self, op: Operator) -> None:
        """The best pairs of query and class, as DETR's descendants choose them"""
        x, other = (*op.inputs, None, None)[:2]
        result = op.outputs[0] if op.outputs else None
        if x in self.pairs and result is not None and op.type in _SAME:
            self.pairs.add(result)
        elif x in self.pairs and op.type == "TopK":
            self.numbers.update(v for v in op.outputs[1:] if v is not None)
        elif x in self.numbers and op.type in ("Div", "Mod") and other is not None:
            array = array_of(other)
            if array is not None and array.size == 1 and array.item() == self.old:
                self.replaced.append(other)
                op.inputs[1] = self.program.constant(np.full(array.shape, self.new, array.dtype))

    def _carry_reduction(self, op: Operator, block: _Block, rank: int) -> None:
        if op.type in ("NonMaxSuppression", "GatherND", "GatherElements"):
            return
        axes = [int(op.attr("axis"))] if op.type in ("ArgMax", "ArgMin", "TopK") else op.attrs.get("axes")
        if axes is None and op.operand("axes") is not None:
            axes = known_ints(op.operand("axes"))
        own = {a % rank for a in axes} if axes else set(range(rank))
        if block.axis in own:
            return
        gone = 0 if op.type == "TopK" or op.attr("keepdims") else sum(a < block.axis for a in own)
        for v in op.outputs:
            if v is not None:
                self.grown[v] = block._replace(axis=block.axis - gone)

    def _carry_concat(self, op: Operator, rank: int, before: dict[Variable, Any]) -> None:
        result = op.outputs[0]
        assert result is not None
        own, at, found = int(op.attr("axis")) % rank, 0, None
        for v in op.inputs:
            assert v is not None
            block = self.grown.get(v)
            if block is not None and block.axis != own:
                found = block
            elif block is not None:
                if found is not None or block.groups != 1:
                    raise self._unknown(v, "a Concat joins several parts of them")
                found = block._replace(start=block.start + at)
            dims = before[v]
            at += dims[own] if dims is not None and isinstance(dims[own], int) else 0
        assert found is not None
        self.grown[result] = found._replace(width=at) if found.axis == own else found

    def _carry_split(self, op: Operator, block: _Block, rank: int, before: dict[Variable, Any]) -> None:
        if int(op.attr("axis")) % rank != block.axis:
            self.grown.update({v: block for v in op.outputs if v is not None})
            return
        at, sizes, changed = 0, [], False
        for v in op.outputs:
            dims = None if v is None else before[v]
            if dims is None or not isinstance(dims[block.axis], int):
                raise self._unknown(v, "a Split of unknown sizes reads them")
            length = dims[block.axis]
            holds = at <= block.start < at + length
            if holds and block.start + self.old > at + length:
                raise self._unknown(v, "a Split divides them")
            sizes.append(length + (self.new - self.old if holds else 0))
            if holds and v is not None:
                self.grown[v] = block._replace(width=length, start=block.start - at)
                changed = True
            at += length
        if block.groups != 1 or not changed:
            raise self._unknown(op.inputs[0], "a Split divides them")
        if "split" in op.attrs:
            op.attrs["split"] = sizes
        else:
            op.attrs.pop("num_outputs", None)
            self.replaced += [v for v in op.inputs[1:] if v is not None]
            op.inputs = [op.inputs[0], self.program.constant(np.array(sizes, np.int64))]

    def _carry_slice(self, op: Operator, block: _Block, rank: int, before: dict[Variable, Any]) -> None:
        result, x = op.outputs[0], op.inputs[0]
        assert result is not None and x is not None
        bounds = {}
        for name in ("starts", "ends", "axes", "steps"):
            value = op.attrs.get(name)
            operand = None if value is not None else op.operand(name)
            bounds[name] = list(value) if value is not None else None if operand is None else known_ints(operand)
        axes = [a % rank for a in bounds["axes"]] if bounds["axes"] else list(range(len(bounds["starts"] or ())))
        if block.axis not in axes:
            self.grown[result] = block
            return
        at = axes.index(block.axis)
        starts, ends = bounds["starts"], bounds["ends"]
        if starts is None or ends is None or block.groups != 1 or (bounds["steps"] and bounds["steps"][at] != 1):
            raise self._unknown(x, "a Slice with computed bounds reads them")
        width = before[x][block.axis]
        first = starts[at] + width if starts[at] < 0 else starts[at]
        last = min(ends[at] + width if ends[at] < 0 else ends[at], width)
        moved = {"starts": starts, "ends": ends}
        for name, value in (("starts", starts[at]), ("ends", ends[at])):
            if value > width or value < 0:
                continue  # the end of the axis, wherever that is
            if block.start < value < block.start + self.old:
                raise self._unknown(x, "a Slice divides them")
            if value >= block.start + self.old:
                row = list(moved[name])
                row[at] = value + self.new - self.old
                self._set_ints(op, name, row)
        if first <= block.start and last >= block.start + self.old:
            self.grown[result] = block._replace(width=last - first, start=block.start - first)

    def _set_ints(self, op: Operator, name: str, row: Sequence[int]) -> None:
        if name in op.attrs:
            op.attrs[name] = list(row)
            return
        schema = op.schema
        index = [operand.name for operand in schema.inputs].index(name) if schema is not None else {"starts": 1, "ends": 2}[name]
        operand = op.inputs[index]
        dtype = np.int64 if operand is None else operand.dtype.numpy
        self.replaced += [] if operand is None else [operand]
        op.inputs[index] = self.program.constant(np.array(row, dtype))

    def _drop_replaced(self) -> None:
        """Take constants out that had the old number of classes, and that nothing reads any more"""
        block = self.program.global_block()
        read = {v for op in all_operators_of(block) for v in op.operands()} | set(block.outputs)
        gone = {v for v in self.replaced if v not in read}
        block.ops = [op for op in block.ops if not any(v in gone for v in op.outputs if v is not None)]
        block.initializers = [v for v in block.initializers if v not in gone]
        for v in gone:
            block.vars.pop(v.name, None)
        self.program.version += 1

    def _carry_view(self, op: Operator, x: Variable, block: _Block, before: dict[Variable, Any]) -> None:
        result = op.outputs[0]
        assert result is not None
        dims, shape = before[x], before[result]
        after = None if shape is None or dims is None else _reshaped_forward(dims, shape, block)
        if after is None:
            # joined with other axes by sizes that the file computes; a check of the results follows
            if dims is not None and block == _Block(len(dims) - 1, 1, self.old, 0):
                self.pairs.add(result)
                self._grow_pairs(op)
            return
        self.grown[result] = after
        if op.type != "Reshape":
            return
        own = after.groups * after.width
        target = op.inputs[1]
        entries = None if target is None else entries_of(target)
        entry = None if entries is None else entries[after.axis]
        if entry in (0, -1):
            return
        wanted = own + after.groups * (self.new - self.old)
        if isinstance(entry, int) and entry == own and target is not None:
            op.inputs[1] = self._with_entry(target, after.axis, wanted, entries)

    def _grow_pairs(self, op: Operator) -> None:
        """Adapt the number of pairs that a Reshape names"""
        target = op.inputs[1] if op.type == "Reshape" else None
        entries = None if target is None else entries_of(target)
        if target is None or not entries or not isinstance(entries[-1], int) or entries[-1] < 1:
            return
        if entries[-1] % self.old:
            raise self._unknown(op.inputs[0], "a Reshape mixes them with other axes")
        op.inputs[1] = self._with_entry(target, len(entries) - 1, entries[-1] // self.old * self.new, entries)

    def _with_entry(self, target: Variable, at: int, value: int, entries: Any) -> Variable:
        """A shape with another number at a place: a constant, or the same pieces joined with another one"""
        if all(isinstance(entry, int) for entry in entries) and array_of(target) is not None:
            row = [int(entry) for entry in entries]
            row[at] = value
            self.replaced.append(target)
            return self.program.constant(np.array(row, np.int64))
        op = target.op
        pieces = [] if op is None or op.type != "Concat" else list(op.inputs)
        position = 0
        for index, piece in enumerate(pieces):
            own = None if piece is None else entries_of(piece)
            if own is None:
                break
            if position <= at < position + len(own):
                assert op is not None and piece is not None
                op.inputs[index] = self._with_entry(piece, at - position, value, own)
                target.entries = None
                infer_with_bodies(op)
                return target
            position += len(own)
        raise self._unknown(target, "it computes their number")


def _reshaped(out: Sequence[Dim] | None, into: Sequence[Dim] | None, block: _Block) -> _Block | None:
    """The block on the axis of a Reshape's operand, for one of its result: the axes behind it have as many elements"""
    if out is None or into is None:
        return None
    behind, inner = list(out[block.axis + 1 :]), block.groups * block.width
    for axis in reversed(range(len(into))):
        length = into[axis]
        if _as_many(list(into[axis + 1 :]), behind) and isinstance(length, int) and length % inner == 0:
            groups = length // inner
            return block._replace(axis=axis, groups=block.groups * groups)
    return None


def _reshaped_forward(into: Sequence[Dim], out: Sequence[Dim], block: _Block) -> _Block | None:
    """The block on the axis of a Reshape's result, for one of its operand"""
    behind = list(into[block.axis + 1 :])
    for axis in reversed(range(len(out))):
        length = out[axis]
        if not _as_many(list(out[axis + 1 :]), behind) or not isinstance(length, int):
            continue
        if length == block.groups * block.width:
            return block._replace(axis=axis)
        if length == block.width:
            return block._replace(axis=axis, groups=1)
    return None


def _as_many(some: list[Dim], others: list[Dim]) -> bool:
    a, b = ([d for d in dims if not isinstance(d, int)] for dims in (some, others))
    products = [int(np.prod([d for d in dims if isinstance(d, int)])) for dims in (some, others)]
    return a == b and products[0] == products[1]


# The check --------------------------------------------------------------------------------------------------------------


def _outputs_of(program: Program, head: DetectorHead) -> tuple[list[Array], dict[str, Array]]:
    """What the file makes of one image"""
    executor = Executor()
    probe = Probe(program, head, executor)
    dims = probe.image.dims
    assert dims is not None
    size = tuple(d if isinstance(d, int) else 320 for d in (dims[2:] if probe.layout == "CHW" else dims[1:3]))
    rng = np.random.default_rng(0)
    feed = {name: probe._example(v, size) for name, v in probe.inputs.items()}  # type: ignore[arg-type]
    image: Array = np.asarray(rng.random(feed[probe.image.name].shape))
    feed[probe.image.name] = image.astype(probe.image.dtype.numpy)
    return executor.run(program.clone(for_test=True), feed, [v.name for v in program.outputs]), feed


def _check(program: Program, before: tuple[list[Array], dict[str, Array]], old: int) -> None:
    """Run the file with new classes that are never likely: what it gives is what it gave

    Raises:
        ArgumentError: if it is not.
    """
    expected, feed = before
    head = require_head(program)
    assert isinstance(head, DetectorHead)
    trial, copies = program.clone_with_variables(for_test=True)
    for channels in head.scores:
        v = copies[channels.tensor]
        block = trial.global_block()
        assert v.op is not None and v.dims is not None
        row = np.zeros(v.dims[channels.axis], np.float32)  # type: ignore[arg-type]
        first = channels.start + (1 if head.background == 0 else 0)
        row[first + old : first + head.classes] = _UNLIKELY
        shape = [1] * len(v.dims)
        shape[channels.axis] = len(row)
        at = v.op.idx + 1
        tail, block.ops = block.ops[at:], block.ops[:at]
        lowered = Builder(block, key="check").Add(v, row.reshape(shape).astype(v.dtype.numpy))
        added = block.ops[at:]
        block.ops += tail
        if any(v is out for out in block.outputs):
            block.outputs = [lowered if out is v else out for out in block.outputs]
        substitute([op for op in tail if op not in added], {v: lowered})
    try:
        outputs = Executor().run(trial, feed, list(trial.outputs))
    except ExecutionError as error:
        raise ArgumentError(
            "the classes of this detector cannot be changed: later operators depend on their number. "
            "Train it with the classes that it has."
        ) from error
    for v, was, now in zip(program.outputs, expected, outputs, strict=True):
        if was.shape == now.shape:
            same = np.allclose(was, now, atol=1e-3, rtol=1e-3)
        else:
            axes = [i for i in range(was.ndim) if i < now.ndim and was.shape[i] != now.shape[i]]
            same = was.ndim == now.ndim and len(axes) == 1 and _is_within(was, now, axes[0])
        if not same:
            raise ArgumentError(
                f"the classes of this detector cannot be changed: its output {v.name!r} does not follow. "
                "Train it with the classes that it has."
            )


def _is_within(was: Array, now: Array, axis: int) -> bool:
    """Whether all slices of an array along an axis are among those of another one, in their order"""
    mine, other = np.moveaxis(was, axis, 0), np.moveaxis(now, axis, 0)
    at = 0
    for row in mine:
        while at < len(other) and not np.allclose(row, other[at], atol=1e-3, rtol=1e-3):
            at += 1
        if at == len(other):
            return False
        at += 1
    return True
