"""Numbers at which formulas break, and rarer forms of elementwise operators and reductions."""

import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.hiding import at_run_time, of_unknown_rank
from tests.core.rules.samples import samples

INF = np.inf


@samples("Pow")
def powers(draw):
    # mixed element types, negative bases with whole exponents, zeros with large enough powers
    yield Sample(draw.positive(3), Sample.fixed(np.array([2.0, 0.5, -1.0], np.float32)))
    yield Sample(draw.positive(3), np.array([2, 0, -1], np.int32))
    yield Sample(np.array([-1.5, -0.5, 2.0]), Sample.fixed(np.array([3.0, -2.0, 2.5])))
    yield Sample(np.zeros(3), Sample.fixed(np.array([2.0, 3.0, 4.0])))
    yield Sample(Sample.fixed(np.array([0.0, 2.0, 1.0])), draw.positive(2, 3))
    yield Sample(
        draw.positive(2, 1), draw.real(3), build=lambda op, x, y: op.Pow(x, op.Cast(y, to=1)), tolerance=1e-1, second=False
    )


@samples("Mod")
def remainders(draw):
    yield Sample(np.array([5.3, -5.3, 0.4, -0.4]), np.array([2.1, 2.1, -1.0, 3.0]), fmod=1)
    yield Sample(np.array([[1.3], [-2.2]]), np.array([0.7, -0.9]), fmod=1)


@samples("Where")
def where_with_infinity(draw):
    yield Sample(np.array([True, False]), draw.real(2), Sample.fixed(np.array([INF, 1.0])))
    yield Sample(np.array([True, False]), Sample.fixed(np.array([1.0, -INF])), draw.real(2))


@samples("Softmax", "LogSoftmax")
def softmax_of_special_lines(draw):
    yield Sample(draw.real(3, spread=1000.0))
    yield Sample(draw.real(2, 0), axis=1)
    yield Sample(draw.real(2, 3), build=lambda op, x: op.Softmax(of_unknown_rank(op, x), axis=-1))


@samples("Softmax")
def softmax_behind_a_mask(draw):
    mask = np.array([[True, False, True], [True, True, False]])
    yield Sample(draw.real(2, 3), mask, build=lambda op, x, keep: op.Softmax(op.Where(keep, x, -INF)))


@samples("ReduceLogSumExp")
def log_sum_exp(draw):
    yield Sample(draw.real(2, 3, spread=1000.0), np.array([1]), keepdims=0)
    mask = np.array([[True, False, True], [False, False, False]])
    for keepdims in (0, 1):

        def build(op, x, keep, keepdims=keepdims):
            y = op.ReduceLogSumExp(op.Where(keep, x, -INF), [1], keepdims=keepdims)
            return op.Where(op.Equal(y, -INF), 0.0, y)

        yield Sample(draw.real(2, 3), mask, build=build)


@samples("ReduceL2")
def norms_of_zeros(draw):
    # finite differences of a norm at 0 vanish by symmetry
    yield Sample(np.array([[0.0, 0.0], [3.0, -4.0]]), np.array([1]), keepdims=0, second=False)


@samples("Sqrt")
def root_behind_a_mask(draw):
    # differences of second order would take the root of a negative number
    yield Sample(np.array([0.0, 2.0]), build=lambda op, x: op.Where(op.Greater(x, 0.1), op.Sqrt(x), 0.0), second=False)


@samples("Log")
def logarithm_behind_a_mask(draw):
    yield Sample(np.array([0.0, 2.0]), build=lambda op, x: op.Where(op.Greater(x, 0.1), op.Log(x), 0.0))


@samples("CumSum")
def cum_sum_told_at_run_time(draw):
    for exclusive in (0, 1):
        yield Sample(
            draw.real(2, 3),
            np.array(-1),
            build=lambda op, x, axis, e=exclusive: op.CumSum(of_unknown_rank(op, x), at_run_time(op, axis), exclusive=e, reverse=1),
        )
    yield Sample(draw.real(2, 0), np.array(1))


@samples("TopK")
def top_k_forms(draw):
    x = draw.real(3, 4, apart=0.05)
    for attrs in ({"axis": 0}, {"axis": -2}, {"largest": 0}, {"axis": 0, "largest": 0}):
        yield Sample(x, np.array([2]), outputs=2, only=[0], **attrs)
    # every engine has an order of its own for what need not be sorted: a sum does not see it
    yield Sample(x, np.array([2]), build=lambda op, x, k: op.ReduceSumSquare(op.TopK(x, k, outputs=2, sorted=0)[0], keepdims=0))
    yield Sample(x, np.array([0]), outputs=2, only=[0])
    yield Sample(x, np.array([3]), build=lambda op, x, k: op.TopK(of_unknown_rank(op, x), at_run_time(op, k), outputs=2)[0])


@samples("Clip")
def clip_at_run_time(draw):
    yield Sample(
        draw.real(3, 4, apart=0.05),
        np.array(-0.52),
        np.array(0.77),
        build=lambda op, x, a, b: op.Clip(of_unknown_rank(op, x), a, b),
    )
    yield Sample(draw.real(3, 0), np.array(-0.52), np.array(0.77))
    yield Sample(draw.real(apart=0.05) + 0.1)


REDUCTIONS = ("Max", "Min", "Sum", "Mean", "L1", "L2", "SumSquare", "LogSumExp", "LogSum")


def _reduction(name):
    @samples(f"Reduce{name}")
    def told_at_run_time(draw):
        x = draw.positive(2, 3, 2) if name == "LogSum" else draw.real(2, 3, 2, apart=0.05)
        for keepdims in (0, 1):
            for axes in ([0, -1], [1]):
                yield Sample(
                    x,
                    np.array(axes),
                    build=lambda op, x, axes, k=keepdims: op.emit(
                        f"Reduce{name}", [of_unknown_rank(op, x), at_run_time(op, axes)], {"keepdims": k}
                    ),
                )
        yield Sample(x, noop_with_empty_axes=1)
        yield Sample(x, keepdims=0)
        yield Sample(x.reshape(-1)[:1].reshape(()))


for _name in REDUCTIONS:
    _reduction(_name)
