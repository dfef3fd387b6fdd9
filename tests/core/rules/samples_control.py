import numpy as np

from onnxgrad.core.ir.bodies import loop_times, map_sequence, write_body
from onnxgrad.core.ir.types import TensorType
from onnxgrad.dtypes import dtype_of
from onnxgrad.testing import Sample
from tests.core.rules.samples import samples

I64 = np.int64


@samples("SequenceConstruct", "SequenceAt")
def construct(draw):
    yield Sample(draw.real(2, 3), draw.real(1), build=lambda op, x, y: op.SequenceAt(op.SequenceConstruct(x, y), 0))
    yield Sample(draw.real(2), draw.real(2), build=lambda op, x, y: op.SequenceAt(op.SequenceConstruct(x, y, x), -1))

    def twice(op, x, y):
        s = op.SequenceConstruct(x, y)
        return op.Mul(op.SequenceAt(s, 1), op.Mul(op.SequenceAt(s, -1), op.SequenceAt(s, 0)))

    yield Sample(draw.real(3), draw.real(3), build=twice)


@samples("SequenceInsert", "SequenceErase")
def insert(draw):
    for position in (None, 0, 1, 2, -1, -2):

        def build(op, x, y, z, position=position):
            s = op.SequenceInsert(op.SequenceConstruct(x, y), z, position)
            return tuple(op.Mul(op.SequenceAt(s, i), float(i + 1)) for i in range(3))

        yield Sample(draw.real(2), draw.real(2), draw.real(2), build=build)

    for position in (None, 0, 2, -1, -2):

        def erase(op, x, y, z, position=position):
            s = op.SequenceErase(op.SequenceConstruct(x, y, z), position)
            return op.Sub(op.Mul(op.SequenceAt(s, 0), 3.0), op.SequenceAt(s, 1))

        yield Sample(draw.real(2), draw.real(2), draw.real(2), build=erase)


@samples("SplitToSequence", "ConcatFromSequence")
def split_and_join(draw):
    def parts(attrs, split=None):
        def build(op, x):
            s = op.SplitToSequence(x, split, **attrs)
            return op.Sub(op.SequenceAt(s, 0), op.SequenceAt(s, 1))

        return build

    yield Sample(draw.real(2, 3), build=parts({"axis": 0}))
    yield Sample(draw.real(2, 3), build=parts({"axis": 1, "keepdims": 0}))
    yield Sample(draw.real(4, 3), build=parts({"axis": 0}, np.array(2)))
    yield Sample(draw.real(3, 6), build=parts({"axis": -1}, np.array([2, 2, 2])))
    for axis in (0, 1, -1):
        yield Sample(
            draw.real(2, 2),
            draw.real(2, 2),
            build=lambda op, x, y, a=axis: op.ConcatFromSequence(op.SequenceConstruct(x, y, x), axis=a),
        )
        yield Sample(
            draw.real(2, 2),
            draw.real(2, 2),
            build=lambda op, x, y, a=axis: op.ConcatFromSequence(op.SequenceConstruct(x, y), axis=a, new_axis=1),
        )


@samples("SequenceMap")
def mapped(draw):
    def simple(op, x, w):
        s = op.SplitToSequence(x, axis=0)
        return op.ConcatFromSequence(map_sequence(op, [s, s], lambda b, e, f: b.Mul(b.Sin(e), b.Mul(f, w))), axis=0)

    yield Sample(draw.real(3, 2), draw.real(2), build=simple)

    def with_tensor(op, x, w):
        s = op.SplitToSequence(x, axis=0)
        element = s.type.element
        body = write_body(op, "map", [("e", element), ("t", w.type)], lambda b, e, t: (b.Mul(e, t), b.Exp(e)))
        first, second = op.SequenceMap(s, w, outputs=2, body=body)
        return op.ConcatFromSequence(first, axis=0), op.SequenceAt(second, 1)

    yield Sample(draw.real(3, 2), draw.real(2), build=with_tensor)
    yield Sample(draw.real(3, 2), draw.real(2), build=with_tensor, only=[1])


@samples("Optional", "OptionalGetElement")
def optional(draw):
    yield Sample(draw.real(3), build=lambda op, x: op.Sin(op.OptionalGetElement(op.Optional(op.Mul(x, x)))))


def times(n):
    return np.array(n, I64)


@samples("Loop")
def counted(draw):
    def power(op, x, w, count):
        (y,) = loop_times(op, count, [("x", x)], lambda b, i, x: b.Tanh(b.Mul(x, w)))
        return y

    for n in (0, 1, 3):
        yield Sample(draw.real(2, low=0.5, high=1.0), draw.real(2), times(n), build=power)

    def stacked(op, x, w, count):
        return loop_times(op, count, [("x", x)], lambda b, i, x: (b.Mul(x, w), b.Sin(x), b.Mul(w, w)))

    yield Sample(draw.real(2), draw.real(2), times(3), build=stacked)
    yield Sample(draw.real(2), draw.real(2), times(3), build=stacked, only=[1])
    yield Sample(draw.real(2), draw.real(2), times(3), build=stacked, only=[2])
    yield Sample(draw.real(2), draw.real(2), times(0), build=stacked, only=[0, 2])

    def reads_iteration(op, xs, start, count):
        (y,) = loop_times(op, count, [("y", start)], lambda b, i, y: b.Add(b.Mul(y, 0.5), b.Mul(b.Gather(xs, i, axis=0), y)))
        return y

    yield Sample(draw.real(4, 2), draw.real(2), times(3), build=reads_iteration)

    def reads_rows(op, xs, start, count):
        def step(b, i, y):
            row = b.Gather(xs, i, axis=1)
            return b.Mul(b.Gather(xs, i, axis=-1), b.Add(y, row)), b.Sin(row), b.ReduceSum(xs, keepdims=0)

        return loop_times(op, count, [("y", start)], step)

    for n in (0, 2, 3):
        yield Sample(draw.real(2, 3), draw.real(2), times(n), build=reads_rows)
    yield Sample(draw.real(2, 3), draw.real(2), times(2), build=reads_rows, only=[1])


@samples("Loop")
def conditional(draw):
    def while_below(op, x, w):
        def step(b, i, condition, x):
            new = b.Mul(x, w)
            return b.Less(b.ReduceSum(new, keepdims=0), 20.0), new, b.Mul(new, new)

        types = [("i", TensorType(dtype_of("int64"), ())), ("c", TensorType(dtype_of("bool"), ())), ("x", x.type)]
        return op.Loop(None, np.array(True), x, outputs=2, body=write_body(op, "while", types, step))

    yield Sample(draw.positive(2), np.array([1.8, 1.9]), build=while_below)
    yield Sample(draw.positive(2), np.array([1.8, 1.9]), build=while_below, only=[0])

    def never(op, x, w):
        types = [("i", TensorType(dtype_of("int64"), ())), ("c", TensorType(dtype_of("bool"), ())), ("x", x.type)]
        body = write_body(op, "never", types, lambda b, i, c, x: (c, b.Mul(x, w)))
        return op.Mul(op.Loop(np.array(5), np.array(False), x, body=body), w)

    yield Sample(draw.real(2), draw.real(2), build=never)


@samples("Loop")
def growing(draw):
    def double(op, x, w, count):
        (y,) = loop_times(op, count, [("x", x)], lambda b, i, x: b.Concat(x, b.Mul(b.Slice(x, [0], [2]), w), axis=0))
        return y

    yield Sample(draw.real(2), draw.real(2), times(3), build=double)

    def squares(op, x, w, count):
        (y,) = loop_times(op, count, [("x", x)], lambda b, i, x: b.Concat(b.Mul(x, x), w, axis=0))
        return y

    yield Sample(draw.real(2, low=0.5, high=0.9), draw.real(1), times(3), build=squares)
    yield Sample(draw.real(2, low=0.5, high=0.9), draw.real(1), times(0), build=squares)


@samples("Loop")
def over_sequences(draw):
    def collect(op, x, w, count):
        empty = op.SequenceEmpty(dtype=w.dtype.number)
        _, s = loop_times(op, count, [("x", x), ("s", empty)], lambda b, i, x, s: (b.Mul(x, w), b.SequenceInsert(s, b.Sin(x))))
        return op.ConcatFromSequence(s, axis=0)

    yield Sample(draw.real(2), draw.real(2), times(3), build=collect)

    def fibonacci(op, x, w, count):
        s = op.SequenceConstruct(x, w)

        def step(b, i, s):
            return b.SequenceInsert(s, b.Mul(b.SequenceAt(s, -1), b.SequenceAt(s, -2)))

        (s,) = loop_times(op, count, [("s", s)], step)
        return op.ConcatFromSequence(s, axis=0)

    yield Sample(draw.real(2), draw.real(2), times(3), build=fibonacci)


@samples("Loop")
def nested(draw):
    def grid(op, x, w, count):
        def row(b, i, x):
            (inner,) = loop_times(b, count, [("y", x)], lambda c, j, y: c.Sin(c.Mul(y, w)))
            return b.Add(inner, b.Mul(x, 0.5))

        (y,) = loop_times(op, count, [("x", x)], row)
        return y

    yield Sample(draw.real(2), draw.real(2), times(2), build=grid)

    def with_if(op, x, w, count):
        def step(b, i, x):
            then = write_body(b, "then", [], lambda c: c.Mul(x, w))
            other = write_body(b, "else", [], lambda c: c.Sin(x))
            return b.If(b.Equal(b.Mod(i, 2), 0), then_branch=then, else_branch=other)

        (y,) = loop_times(op, count, [("x", x)], step)
        return y

    yield Sample(draw.real(2), draw.real(2), times(3), build=with_if)

    def inside_if(op, x, w, count):
        then = write_body(op, "then", [], lambda c: loop_times(c, count, [("x", x)], lambda b, i, x: b.Mul(x, w)))
        other = write_body(op, "else", [], lambda c: c.Identity(w))
        return op.If(op.Greater(count, 1), then_branch=then, else_branch=other)

    yield Sample(draw.real(2), draw.real(2), times(3), build=inside_if)
