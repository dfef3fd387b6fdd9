"""Random programs: broadcasts, zero and rank-0 dimensions, branches, loops and scans inside each other, shared operands, odd names.

The same number gives the same program, in float64 for the reference engine and in float32 for onnxruntime. The shape of each value is
known beside the program, by arithmetic of its own; dimensions that the program declares as unknown have a size here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from onnxgrad import static
from onnxgrad.core.ir.bodies import write_body
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import BOOL_SCALAR, INDEX, TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.internal import state
from onnxgrad.static.nn.control_flow import _inside

__all__ = ["Case", "Value", "case"]

_NAMES = (
    "x",
    "x@GRAD",
    "a/b",
    "1",
    "x y",
    "grad",
    "tmp_0",
    "é",
    "x:0",
    "w.lora_A",
    "cond",
    "_generated_var_0",
    "x.grad",
    "",
    "loss",
)
_SMOOTH = ("Tanh", "Sin", "Cos", "Sigmoid", "Softplus", "Erf", "Neg", "Identity", "Atan", "Softsign", "Gelu", "Mish")
_KINKED = ("Relu", "Abs", "LeakyRelu", "HardSwish", "Floor")


class Value(NamedTuple):
    """A variable and its shape when the program runs."""

    v: Variable
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


class Case(NamedTuple):
    """A program, what to feed, its outputs, what to differentiate, and whether all of its functions are smooth."""

    program: static.Program
    feeds: dict[str, Any]
    outputs: list[Value]
    sources: list[Value]
    smooth: bool


def case(number: int, dtype: str, steps: int | None = None) -> Case:
    """Program ``number`` with values of an element type; ``steps`` cuts it short, which helps to find what is wrong in it."""
    with state.isolated():
        writer = _Writer(number, dtype)
        with static.program_guard(writer.program, static.Program()):
            return writer.write(steps)


class _Writer:
    def __init__(self, number: int, dtype: str) -> None:
        self.draw = random.Random(f"programs/{number}")
        self.dtype = dtype_of(dtype)
        self.program = static.Program()
        self.program.is_oracle = dtype == "float64"
        self.program.scope = static.Scope()
        self.build = self.program.global_block().build
        self.feeds: dict[str, Any] = {}
        self.pool: list[Value] = []
        self.sources: list[Value] = []
        self.smooth = True
        self.depth = 0
        self.names = self.draw.sample(_NAMES, len(_NAMES))
        self.sizes = [self.draw.choice((2, 3, 4)) for _ in range(3)]
        self.flag: Variable | None = None
        self.count: Variable | None = None

    def write(self, steps: int | None) -> Case:
        draw = self.draw
        for _ in range(draw.choice((1, 2, 3))):
            self._source(weight=False)
        if draw.random() < 0.5:
            self._source(weight=True)
        for _ in range(draw.choice((2, 4, 7, 11)) if steps is None else steps):
            self.step()
        outputs = [self.pool[-1], *draw.sample(self.pool, min(len(self.pool), draw.choice((0, 0, 1, 3))))]
        outputs = list({value.v.name: value for value in outputs if not value.v.is_leaf}.values())
        if not outputs:
            outputs = [self.keep("Tanh", self.pool[-1], self.pool[-1].shape)]
        self.program.global_block().outputs = [value.v for value in outputs]
        return Case(self.program, self.feeds, outputs, self.sources, self.smooth)

    # Values ----------------------------------------------------------------------------------------------------------

    def name(self, prefix: str) -> str:
        found = self.names.pop() if self.names and self.draw.random() < 0.7 else prefix
        return found if found and found not in self.program.global_block().vars else self.program.fresh_name(found or prefix)

    def array(self, shape: tuple[int, ...]) -> Any:
        size = int(np.prod(shape, dtype=int))
        found = np.array([self.draw.uniform(-1.5, 1.5) for _ in range(size)]).reshape(shape)
        return found.astype(np.float32).astype(self.dtype.numpy)  # the same numbers in both types

    def constant(self, shape: tuple[int, ...]) -> Value:
        return Value(self.program.constant(self.array(shape)), shape)

    def shape(self) -> tuple[int, ...]:
        """Of an input: some of the sizes of this program, often with ones, sometimes 0, sometimes none at all"""
        draw = self.draw
        rank = draw.choice((0, 1, 2, 2, 3, 3))
        dims = [1 if draw.random() < 0.25 else size for size in self.sizes[3 - rank :]] if rank else []
        if dims and draw.random() < 0.07:
            dims[draw.randrange(rank)] = 0
        return tuple(dims)

    def _source(self, weight: bool) -> None:
        shape = (self.sizes[2], self.draw.choice((1, 2, 3))) if weight else self.shape()
        array = self.array(shape)
        if weight:
            v: Variable = self.program.global_block().create_parameter(
                self.name("w"), shape, self.dtype, value=TensorValue.of(array)
            )
        else:
            v = static.data(self.name("x"), [None if self.draw.random() < 0.3 else d for d in shape], self.dtype.name)
            v.stop_gradient = False
        self.feeds[v.name] = array
        self.sources.append(Value(v, shape))
        self.pool.append(self.sources[-1])

    def predicate(self) -> Variable:
        """A condition that no small change of an input turns"""
        way = self.draw.randrange(4)
        if way == 0:
            return self.program.constant(np.array(self.draw.random() < 0.5))
        if way == 1:
            total = self.build.ReduceSum(self.draw.choice(self.pool).v, keepdims=0)
            return self.build.Less(self.build.Tanh(total), self.draw.choice((-2.0, 2.0)))
        if self.flag is None:
            self.flag = static.data("flag", [], "bool")
            self.feeds["flag"] = np.array(self.draw.random() < 0.5)
        return self.flag if way == 2 else self.build.Not(self.flag)

    def times(self) -> Any:
        """How often a loop runs: a constant, or a number that is fed"""
        if self.draw.random() < 0.5:
            return np.array(self.draw.choice((0, 1, 2, 3)))
        if self.count is None:
            self.count = static.data("count", [], "int64")
            self.feeds["count"] = np.array(self.draw.choice((0, 1, 2, 3)))
        return self.count

    def pick(self, fits: Callable[[Value], bool] = lambda value: True) -> Value | None:
        """One of the values, a late one more often than an early one"""
        fitting = [value for value in self.pool if fits(value)]
        if not fitting:
            return None
        return fitting[-1] if self.draw.random() < 0.4 else self.draw.choice(fitting)

    def keep(self, kind: str, x: Value, shape: tuple[int, ...], *others: Any, **attrs: Any) -> Value:
        value = Value(self.build.emit(kind, (x.v, *others), attrs), tuple(shape))
        self.pool.append(value)
        return value

    def like(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Something of this shape that depends on the value"""
        if value.shape == shape:
            return self.keep("Identity", value, shape)
        total = self.build.Tanh(self.build.ReduceSum(value.v, keepdims=0))
        base = self.pick(lambda other: other.shape == shape) or self.constant(shape)
        return self.keep("Add", base, shape, total)

    # Steps -----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        before = len(self.pool)
        while len(self.pool) == before:
            ways = _WAYS if self.depth < 2 else _PLAIN
            self.draw.choice(ways)(self)

    def unary(self) -> None:
        x = self.pick()
        assert x is not None
        way = self.draw.random()
        if way < 0.2:
            self.smooth = False
            self.keep(self.draw.choice(_KINKED), x, x.shape)
        elif way < 0.3:
            self.keep("Exp", Value(self.build.Tanh(x.v), x.shape), x.shape)
        elif way < 0.4:
            square = self.build.Add(self.build.Mul(x.v, x.v), 1.0)
            self.keep(self.draw.choice(("Sqrt", "Log", "Reciprocal")), Value(square, x.shape), x.shape)
        else:
            self.keep(self.draw.choice(_SMOOTH), x, x.shape)

    def binary(self) -> None:
        x = self.pick()
        assert x is not None
        shape: tuple[int, ...] | None = None
        for _ in range(5):
            y = self.draw.choice([*self.pool, self.constant(x.shape[self.draw.randrange(len(x.shape) + 1) :])])
            try:
                shape = np.broadcast_shapes(x.shape, y.shape)
                break
            except ValueError:
                continue
        if shape is None:
            return
        kind = self.draw.choice(("Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Pow", "Where"))
        if kind in ("Div", "Pow"):
            safe = self.build.Add(self.build.Mul(y.v, y.v), 0.5)
            if kind == "Div":
                self.keep("Div", x, shape, safe)
            else:
                self.keep("Pow", Value(safe, y.shape), shape, self.build.Tanh(x.v))
        elif kind == "Where":
            mask = self.program.constant(np.array([self.draw.random() < 0.5 for _ in range(x.size)], bool).reshape(x.shape))
            self.pool.append(Value(self.build.Where(mask, x.v, y.v), shape))
        elif kind in ("Sum", "Mean"):
            self.keep(kind, x, shape, y.v, *([x.v] if self.draw.random() < 0.5 else []))
        else:
            self.smooth &= kind not in ("Max", "Min")
            self.keep(kind, x, shape, y.v)

    def reduce(self) -> None:
        x = self.pick()
        assert x is not None
        rank = len(x.shape)
        axes = sorted(self.draw.sample(range(rank), self.draw.randrange(rank + 1)))
        reduced = axes or list(range(rank))
        keepdims = self.draw.randrange(2)
        shape = [1 if i in reduced else d for i, d in enumerate(x.shape) if keepdims or i not in reduced]
        size = int(np.prod([x.shape[i] for i in reduced], dtype=int))
        kinds = ["ReduceSum", "ReduceSumSquare"]
        if size:
            kinds += ["ReduceMean", "ReduceLogSumExp", "ReduceProd", "ReduceMax", "ReduceMin"]
        kind = self.draw.choice(kinds)
        self.smooth &= kind not in ("ReduceMax", "ReduceMin")
        given = [a - rank if self.draw.random() < 0.3 else a for a in axes]
        self.keep(kind, x, tuple(shape), *([np.array(given)] if given else []), keepdims=keepdims)

    def reshape(self) -> None:
        x = self.pick()
        assert x is not None
        way = self.draw.randrange(4)
        if way == 0:
            other = self.pick(lambda value: value.size == x.size)
            assert other is not None
            self.keep("Reshape", x, other.shape, self.build.Shape(other.v), allowzero=1)
        elif way == 1:
            self.keep("Reshape", x, (x.size,), np.array([-1 if x.size else 0]), allowzero=0 if x.size else 1)
        elif way == 2:
            axis = self.draw.randrange(len(x.shape) + 1)
            shape = int(np.prod(x.shape[:axis], dtype=int)), int(np.prod(x.shape[axis:], dtype=int))
            self.keep("Flatten", x, shape, axis=axis)
        elif x.shape:
            target = [0, *x.shape[1:]]
            target[-1] = -1 if x.size and len(target) > 1 else target[-1]
            self.keep("Reshape", x, x.shape, np.array(target))

    def move(self) -> None:
        x = self.pick(lambda value: len(value.shape) > 0)
        if x is None:
            return
        rank = len(x.shape)
        way = self.draw.randrange(4)
        if way == 0:
            perm = self.draw.sample(range(rank), rank)
            self.keep("Transpose", x, tuple(x.shape[i] for i in perm), perm=perm)
        elif way == 1 and rank < 4:
            axis = self.draw.randrange(rank + 1)
            self.keep("Unsqueeze", x, (*x.shape[:axis], 1, *x.shape[axis:]), np.array([axis]))
        elif way == 2 and 1 in x.shape:
            axis = x.shape.index(1)
            self.keep("Squeeze", x, (*x.shape[:axis], *x.shape[axis + 1 :]), np.array([axis - rank]))
        elif way == 3:
            shape = tuple(self.draw.choice((2, 3)) if d == 1 else d for d in x.shape)
            lead = (2,) if rank < 3 and self.draw.random() < 0.4 else ()
            self.keep("Expand", x, (*lead, *shape), np.array([*lead, *shape], np.int64))

    def cut(self) -> None:
        """Slice, Split, Gather, Pad, Tile, Concat along one axis"""
        x = self.pick(lambda value: len(value.shape) > 0)
        if x is None:
            return
        draw = self.draw
        axis = draw.randrange(len(x.shape))
        size = x.shape[axis]

        def of(n: int) -> tuple[int, ...]:
            return (*x.shape[:axis], n, *x.shape[axis + 1 :])

        way = draw.randrange(7)
        if way == 0:
            start, end, step = draw.choice((0, 1, -2, size)), draw.choice((size, -1, 9, 0)), draw.choice((1, 1, 2, -1))
            if step < 0:
                start, end = draw.choice((-1, size, 9)), draw.choice((-99, 0))
            count = len(range(size)[start : None if end == -99 else end : step])
            self.keep("Slice", x, of(count), *(np.array([n]) for n in (start, end, axis, step)))
        elif way == 1 and size:
            part = draw.randrange(size + 1)
            parts = self.build.emit("Split", (x.v, np.array([part, size - part])), {"axis": axis}, 2)
            self.pool += [Value(v, of(n)) for v, n in zip(parts, (part, size - part), strict=True)]
        elif way == 2 and size:
            chosen = [draw.randrange(-size, size) for _ in range(draw.choice((0, 1, 2, 4)))]
            index: Any = np.array(chosen, np.int64)
            if chosen and draw.random() < 0.3:
                index = np.array(chosen[0])
            self.keep("Gather", x, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), index, axis=axis)
        elif way == 3:
            before, after = draw.choice((0, 1, 2)), draw.choice((0, 1, -1 if size > 1 else 0))
            mode = draw.choice(("constant", "edge", "reflect")) if size > 2 and after >= 0 else "constant"
            self.keep("Pad", x, of(size + before + after), np.array([before, after]), None, np.array([axis]), mode=mode)
        elif way == 4:
            times = [draw.choice((1, 1, 2)) for _ in x.shape]
            self.keep("Tile", x, tuple(d * n for d, n in zip(x.shape, times, strict=True)), np.array(times, np.int64))
        elif way == 5:
            other = self.pick(
                lambda value: (
                    len(value.shape) == len(x.shape)
                    and all(a == b or i == axis for i, (a, b) in enumerate(zip(value.shape, x.shape, strict=True)))
                )
            )
            assert other is not None
            self.keep("Concat", x, of(size + other.shape[axis] + size), other.v, x.v, axis=axis - len(x.shape))
        elif size:
            index = np.array([draw.randrange(size) for _ in range(x.size)], np.int64).reshape(x.shape)
            if draw.random() < 0.5:
                self.keep("GatherElements", x, x.shape, index, axis=axis)
            else:
                self.pool.append(
                    Value(self.build.ScatterElements(x.v, index, self.build.Sin(x.v), axis=axis, reduction="add"), x.shape)
                )

    def rows(self) -> None:
        """Softmax, normalisation and sums along an axis"""
        x = self.pick(lambda value: len(value.shape) > 0 and value.size > 0)
        if x is None:
            return
        kind = self.draw.choice(("Softmax", "LogSoftmax", "LayerNormalization", "CumSum", "Trilu"))
        axis = self.draw.randrange(-len(x.shape), len(x.shape))
        if kind == "LayerNormalization":
            scale = self.constant(x.shape[axis:])
            self.keep(kind, x, x.shape, scale.v, axis=axis)
        elif kind == "CumSum":
            self.keep(kind, x, x.shape, np.array(axis), exclusive=self.draw.randrange(2), reverse=self.draw.randrange(2))
        elif kind == "Trilu" and len(x.shape) > 1:
            self.keep(kind, x, x.shape, np.array(self.draw.choice((-1, 0, 1))), upper=self.draw.randrange(2))
        elif kind != "Trilu":
            self.keep(kind, x, x.shape, axis=axis)

    def product(self) -> None:
        x = self.pick(lambda value: len(value.shape) > 1)
        if x is None:
            return
        fitting = [v for v in self.sources if len(v.shape) == 2 and v.shape[0] == x.shape[-1]]
        y = self.draw.choice(fitting) if fitting and self.draw.random() < 0.7 else self.constant((x.shape[-1], 2))
        way = self.draw.randrange(4)
        if way == 0 and len(x.shape) == 2:
            bias = self.pick(lambda value: value.shape in ((), (y.shape[1],), (1, y.shape[1]), (x.shape[0], 1)))
            self.keep("Gemm", x, (x.shape[0], y.shape[1]), y.v, *([bias.v] if bias else []), alpha=0.5, beta=-1.5)
        elif way == 1:
            self.pool.append(
                Value(self.build.Einsum(x.v, y.v, equation="...ij,jk->...ki"), (*x.shape[:-2], y.shape[1], x.shape[-2]))
            )
        elif way == 2:
            turned = self.build.Transpose(x.v, perm=[*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2])
            self.keep("MatMul", x, (*x.shape[:-1], x.shape[-2]), turned)
        else:
            self.keep("MatMul", x, (*x.shape[:-1], y.shape[1]), y.v)

    def window(self) -> None:
        """A convolution or a pool over the last axis"""
        x = self.pick(lambda value: len(value.shape) == 3 and value.size > 0)
        if x is None:
            return
        draw, (n, channels, length) = self.draw, x.shape
        kernel, stride, pads = draw.choice((1, 2, 3)), draw.choice((1, 2)), [draw.randrange(2), draw.randrange(2)]
        dilation = draw.choice((1, 1, 2))
        out = (length + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1
        if out < 1 or kernel <= max(pads):
            return
        attrs = {"kernel_shape": [kernel], "strides": [stride], "pads": pads, "dilations": [dilation]}
        if draw.random() < 0.6:
            groups = draw.choice((1, channels))
            weight = self.constant((2 * groups, channels // groups, kernel))
            self.keep("Conv", x, (n, 2 * groups, out), weight.v, group=groups, **attrs)
        elif draw.random() < 0.5:
            self.keep("AveragePool", x, (n, channels, out), count_include_pad=draw.randrange(2), **attrs)
        else:
            self.smooth = False
            self.keep("MaxPool", x, (n, channels, out), **attrs)

    def pieces(self) -> None:
        """Largest elements; a sequence of pieces and one of them"""
        x = self.pick(lambda value: len(value.shape) > 0 and value.size > 0)
        if x is None:
            return
        axis = self.draw.randrange(len(x.shape))
        size = x.shape[axis]
        if self.draw.random() < 0.5:
            self.smooth = False
            k = self.draw.randrange(1, size + 1)
            best, _ = self.build.emit("TopK", (x.v, np.array([k])), {"axis": axis, "largest": self.draw.randrange(2)}, 2)
            self.pool.append(Value(best, (*x.shape[:axis], k, *x.shape[axis + 1 :])))
            return
        parts = self.build.SplitToSequence(x.v, axis=axis, keepdims=0)
        at = self.draw.randrange(-size, size)
        self.pool.append(Value(self.build.SequenceAt(parts, np.array(at)), (*x.shape[:axis], *x.shape[axis + 1 :])))
        if self.draw.random() < 0.5:
            self.pool.append(Value(self.build.ConcatFromSequence(parts, axis=axis, new_axis=1), x.shape))

    # Control flow ----------------------------------------------------------------------------------------------------

    @contextmanager
    def inside(self, build: Any, *values: Value) -> Any:
        """Write into a body, whose values nobody outside sees"""
        kept, self.pool, self.build = (self.pool, self.build), [*self.pool, *values], build
        self.depth += 1
        try:
            with _inside(self.program, build.block):
                yield
        finally:
            self.pool, self.build = kept
            self.depth -= 1

    def some_steps(self) -> None:
        for _ in range(self.draw.choice((1, 2, 3))):
            self.step()

    def branch(self) -> None:
        shapes = [value.shape for value in (self.pick(), self.pick())[: self.draw.choice((1, 2))] if value is not None]
        predicate = self.predicate()

        def written() -> list[Variable]:
            with self.inside(self.program.current_block().build):
                if self.draw.random() < 0.9:
                    self.some_steps()
                return [self.like(self.pool[-1 - i], shape).v for i, shape in enumerate(shapes)]

        found = static.nn.cond(predicate, written, written)
        self.pool += [Value(v, shape) for v, shape in zip(found, shapes, strict=True)]

    def repeat(self) -> None:
        """while_loop, or a Loop that also stacks"""
        states = [value for value in (self.pick(), self.pick())[: self.draw.choice((1, 2))] if value is not None]
        if self.draw.random() < 0.5:
            limit = self.times()
            limit = limit if isinstance(limit, Variable) else self.program.constant(limit)

            def step(i: Variable, *old: Variable) -> list[Variable]:
                build = self.program.current_block().build
                with self.inside(build, *(Value(v, s.shape) for v, s in zip(old, states, strict=True))):
                    self.some_steps()
                    return [build.Add(i, 1), *(self.like(self.pool[-1 - k], s.shape).v for k, s in enumerate(states))]

            start = self.build.Identity(self.program.constant(np.array(0)))
            found = static.nn.while_loop(lambda i, *_: i < limit, step, [start, *(s.v for s in states)])
            self.pool += [Value(v, s.shape) for v, s in zip(found[1:], states, strict=True)]
            return
        times = self.times()
        runs = int(self.feeds["count"]) if isinstance(times, Variable) else int(times)
        # What is stacked no time has a shape only where that is declared.
        stacked = self.draw.randrange(2) if runs else 0

        def body(build: Any, i: Variable, going: Variable, *old: Variable) -> tuple[Variable, ...]:
            with self.inside(build, *(Value(v, s.shape) for v, s in zip(old, states, strict=True))):
                self.some_steps()
                new = [self.like(self.pool[-1 - k], s.shape).v for k, s in enumerate(states)]
                extra = [self.like(self.pool[-1], states[0].shape).v] if stacked else []
                return (build.Identity(going), *new, *extra)

        types = [("i", INDEX), ("going", BOOL_SCALAR), *((f"s{k}", self.type_of(s)) for k, s in enumerate(states))]
        attrs = {"body": write_body(self.build, self.program.fresh_name("turn"), types, body)}
        results = self.build.emit("Loop", (times, None, *(s.v for s in states)), attrs, len(states) + stacked)
        results = results if isinstance(results, tuple) else (results,)
        self.pool += [Value(v, s.shape) for v, s in zip(results, states, strict=False)]
        if stacked:
            self.pool.append(Value(results[-1], (runs, *states[0].shape)))

    def type_of(self, value: Value) -> TensorType:
        return value.v.type if isinstance(value.v.type, TensorType) else TensorType(self.dtype, None)

    def scan(self) -> None:
        x = self.pick(lambda value: len(value.shape) > 0 and value.shape[0] > 0)
        first = self.pick()
        if x is None or first is None:
            return
        xs = [x, x] if self.draw.random() < 0.3 else [x]
        row = x.shape[1:]
        types = [("s", self.type_of(first))]
        types += [(f"r{k}", TensorType(self.dtype, (x.v.dims or (None,))[1:] if x.v.dims else None)) for k in range(len(xs))]

        def body(build: Any, old: Variable, *rows: Variable) -> tuple[Variable, ...]:
            with self.inside(build, Value(old, first.shape), *(Value(v, row) for v in rows)):
                self.some_steps()
                return self.like(self.pool[-1], first.shape).v, self.like(self.pool[-2], row).v

        backwards = self.draw.randrange(2)
        attrs = {"num_scan_inputs": len(xs)}
        attrs["body"] = write_body(self.build, self.program.fresh_name("scan"), types, body)
        if backwards:
            attrs["scan_input_directions"] = [1] * len(xs)
            attrs["scan_output_directions"] = [self.draw.randrange(2)]
        last, all_of_them = self.build.emit("Scan", (first.v, *(v.v for v in xs)), attrs, 2)
        self.pool += [Value(last, first.shape), Value(all_of_them, (x.shape[0], *row))]


_PLAIN = [
    *[_Writer.unary] * 3,
    *[_Writer.binary] * 5,
    *[_Writer.reduce] * 2,
    _Writer.reshape,
    *[_Writer.move] * 2,
    *[_Writer.cut] * 3,
    _Writer.rows,
    *[_Writer.product] * 2,
    _Writer.window,
    _Writer.pieces,
]
_WAYS = [*_PLAIN, *[_Writer.branch] * 2, *[_Writer.repeat] * 2, _Writer.scan]
