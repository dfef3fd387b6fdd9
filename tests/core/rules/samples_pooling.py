from onnxgrad.testing import Sample
from tests.core.rules.hiding import of_unknown_rank
from tests.core.rules.samples import samples


@samples("AveragePool")
def average_pool_forms(draw):
    x = draw.real(1, 2, 7, 6)
    for include in (0, 1):
        yield Sample(x, kernel_shape=[3, 2], strides=[3, 2], pads=[1, 0, 0, 1], ceil_mode=1, count_include_pad=include)
        yield Sample(x, kernel_shape=[4, 3], strides=[4, 4], ceil_mode=1, count_include_pad=include)
        yield Sample(x, kernel_shape=[2, 2], dilations=[3, 2], pads=[1, 1, 2, 0], count_include_pad=include)
        for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            yield Sample(x, kernel_shape=[3, 4], strides=[2, 3], auto_pad=mode, count_include_pad=include)
    yield Sample(draw.real(2, 1, 8), kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1)
    yield Sample(draw.real(1, 2, 4, 3, 5), kernel_shape=[2, 2, 3], strides=[2, 1, 2], pads=[0, 1, 1, 1, 0, 1])
    yield Sample(draw.real(0, 2, 4, 4), kernel_shape=[2, 2])


@samples("AveragePool", "LpPool", "MaxPool")
def last_window_in_the_padding(draw):
    """With ceil_mode it is left out, which the inference of these opsets does not know"""
    ahead = {"kernel_shape": [2], "strides": [3], "pads": [1, 1], "ceil_mode": 1}
    yield Sample(draw.real(1, 2, 5, apart=0.02), **ahead)
    gap_and_overhang = {"kernel_shape": [1, 2], "strides": [2, 2], "ceil_mode": 1}
    yield Sample(draw.real(1, 1, 4, 5, apart=0.02), **gap_and_overhang)
    both = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    for attrs, shape in ((ahead, (1, 2, 5)), (both, (1, 1, 6, 5))):
        for kind in ("AveragePool", "LpPool", "MaxPool"):
            yield Sample(draw.real(*shape, apart=0.02), build=lambda op, x, k=kind, a=attrs: op.Sin(getattr(op, k)(x, **a)))
    yield Sample(draw.real(1, 1, 6, 5), build=lambda op, x: op.Sin(op.AveragePool(x, count_include_pad=1, **both)))
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        attrs = {"kernel_shape": [3, 4], "strides": [2, 3], "auto_pad": mode, "ceil_mode": 1}
        yield Sample(draw.real(1, 1, 7, 6, apart=0.02), **attrs)


@samples("MaxPool")
def max_pool_forms(draw):
    x = draw.real(1, 2, 7, 6, apart=0.02)
    yield Sample(x, kernel_shape=[3, 2], strides=[3, 2], pads=[1, 0, 0, 1], ceil_mode=1)
    yield Sample(x, kernel_shape=[4, 3], strides=[4, 4], ceil_mode=1)
    yield Sample(x, kernel_shape=[2, 2], dilations=[3, 2], pads=[1, 1, 1, 0])
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Sample(x, kernel_shape=[3, 4], strides=[2, 3], auto_pad=mode)
    y = draw.real(2, 2, 5, 4, apart=0.02)
    for order in (0, 1):
        yield Sample(y, kernel_shape=[3, 2], strides=[1, 2], outputs=2, only=[0], storage_order=order)
        yield Sample(draw.real(1, 2, 4, 3, 5, apart=0.02), kernel_shape=[2, 2, 3], outputs=2, only=[0], storage_order=order)
    yield Sample(draw.real(2, 1, 8, apart=0.02), kernel_shape=[3], strides=[2], pads=[1, 1], dilations=[2])
    yield Sample(draw.real(1, 2, 4, 3, 5, apart=0.02), kernel_shape=[2, 2, 3], strides=[2, 1, 2], pads=[0, 1, 1, 1, 0, 1])
    yield Sample(draw.real(0, 2, 4, 4), kernel_shape=[2, 2])


@samples("LpPool")
def lp_pool(draw):
    x = draw.real(1, 2, 7, 6, apart=0.02)
    for p in (1, 2, 3):
        yield Sample(x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], p=p)
    yield Sample(x, kernel_shape=[3, 2], strides=[3, 2], ceil_mode=1)
    yield Sample(x, kernel_shape=[2, 2], dilations=[3, 2], p=3)
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Sample(x, kernel_shape=[3, 4], strides=[2, 3], auto_pad=mode)
    yield Sample(draw.real(2, 1, 8, apart=0.02), kernel_shape=[3], strides=[2], pads=[1, 1])
    yield Sample(draw.real(1, 2, 4, 3, 5, apart=0.02), kernel_shape=[2, 2, 3], strides=[2, 1, 2])
    yield Sample(draw.real(1, 1, 4, 4, apart=0.02), kernel_shape=[2, 2], opset=22)


@samples("GlobalMaxPool", "GlobalAveragePool")
def global_pools(draw):
    yield Sample(draw.real(2, 3, 4, apart=0.02))
    yield Sample(draw.real(1, 2, 3, 2, 2, apart=0.02))


@samples("GlobalLpPool")
def global_lp_pool(draw):
    for p in (1, 2, 3):
        yield Sample(draw.real(2, 3, 4, 2, apart=0.02), p=p)
    yield Sample(draw.real(2, 3, 4, apart=0.02))


@samples("LRN")
def lrn(draw):
    for size in (1, 2, 3, 4, 7):
        yield Sample(draw.real(3, 5, 2, 2), size=size, alpha=0.8, beta=0.6, bias=1.5)
    yield Sample(draw.real(2, 4, 3, 1), size=3)
    yield Sample(draw.real(2, 4, 3), size=3, alpha=0.5, runs=False)
    yield Sample(draw.real(2, 4), size=2, alpha=0.5, runs=False)
    yield Sample(draw.real(2, 3, 2, 1, 2), size=3, alpha=0.5, runs=False)
    yield Sample(draw.real(2, 3, 2, 2), build=lambda op, x: op.LRN(of_unknown_rank(op, x), size=3, alpha=0.5))
    yield Sample(draw.real(0, 3, 2, 2), size=3)


@samples("LpNormalization")
def lp_normalization(draw):
    for p in (1, 2):
        for axis in (-1, 0, 1):
            yield Sample(draw.real(2, 3, 2, apart=0.05), axis=axis, p=p)
        yield Sample(draw.real(6, apart=0.05), opset=22, p=p)
        yield Sample(draw.real(2, 3, apart=0.05), build=lambda op, x, p=p: op.LpNormalization(of_unknown_rank(op, x), p=p))
