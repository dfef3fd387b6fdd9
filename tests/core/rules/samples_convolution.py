import itertools

from onnxgrad.testing import Sample
from tests.core.rules.hiding import of_unknown_rank
from tests.core.rules.samples import samples


@samples("Conv")
def conv_without_kernel_shape(draw):
    # with unknown dimensions the filter's size is unknown too
    yield Sample(draw.real(2, 3, 5, 6), draw.real(4, 3, 3, 2), draw.real(4))
    yield Sample(draw.real(1, 2, 7, 6), draw.real(3, 2, 3, 3), strides=[2, 3], pads=[1, 0, 2, 1])
    yield Sample(draw.real(1, 4, 6, 6), draw.real(6, 2, 2, 2), group=2, strides=[2, 1], dilations=[1, 2])
    yield Sample(draw.real(1, 2, 4, 4, 5), draw.real(2, 1, 2, 3, 2), group=2, strides=[2, 1, 3])
    yield Sample(draw.real(0, 2, 5), draw.real(3, 2, 2))
    for mode, stride in itertools.product(("SAME_UPPER", "SAME_LOWER", "VALID"), (1, 2, 3)):
        yield Sample(draw.real(1, 2, 6, 5), draw.real(2, 2, 3, 2), auto_pad=mode, strides=[stride, stride])
    yield Sample(draw.real(1, 2, 7), draw.real(2, 2, 1), auto_pad="SAME_UPPER", strides=[3])


@samples("Conv")
def conv_of_unknown_rank(draw):
    x, w = draw.real(1, 4, 6), draw.real(6, 2, 2)
    yield Sample(
        x, w, draw.real(6), build=lambda op, x, w, b: op.Conv(of_unknown_rank(op, x), w, b, group=2, strides=[2], pads=[1, 0])
    )
    yield Sample(x, w, build=lambda op, x, w: op.Conv(x, of_unknown_rank(op, w), group=2, auto_pad="SAME_LOWER"))
    yield Sample(
        x,
        w,
        build=lambda op, x, w: op.Conv(of_unknown_rank(op, x), of_unknown_rank(op, w), group=2, kernel_shape=[2], dilations=[2]),
    )


@samples("ConvTranspose")
def conv_transpose_without_kernel_shape(draw):
    yield Sample(draw.real(2, 3, 3, 4), draw.real(3, 2, 3, 2), draw.real(2))
    yield Sample(draw.real(1, 4, 3, 3), draw.real(4, 2, 2, 2), group=2, strides=[2, 1], dilations=[1, 2], pads=[0, 1, 1, 0])
    yield Sample(draw.real(1, 2, 3, 2, 2), draw.real(2, 2, 2, 1, 2), strides=[2, 1, 2])
    yield Sample(draw.real(1, 2, 4), draw.real(2, 1, 3), strides=[3], output_padding=[2])
    # more output padding than the stride: the specification allows it up to the dilation, onnxruntime does not
    yield Sample(draw.real(1, 2, 4), draw.real(2, 1, 2), strides=[1], dilations=[3], output_padding=[2])
    for mode, stride in itertools.product(("SAME_UPPER", "SAME_LOWER", "VALID"), (1, 2, 3)):
        yield Sample(draw.real(1, 2, 3, 4), draw.real(2, 2, 3, 2), auto_pad=mode, strides=[stride, stride])


@samples("ConvTranspose")
def conv_transpose_to_a_size(draw):
    x, w = draw.real(1, 2, 3, 4), draw.real(2, 2, 3, 3)
    for mode in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        yield Sample(x, w, output_shape=[6, 8], strides=[2, 2], auto_pad=mode)
        yield Sample(x, w, output_shape=[8, 10], strides=[2, 2], auto_pad=mode)
        yield Sample(x, w, output_shape=[5, 7], strides=[2, 2], auto_pad=mode, output_padding=[1, 0], kernel_shape=[3, 3])
    yield Sample(
        draw.real(1, 2, 3), draw.real(2, 2, 3), build=lambda op, x, w: op.ConvTranspose(of_unknown_rank(op, x), w, strides=[2])
    )


@samples("Conv", "ConvTranspose")
def gradient_of_one_operand(draw):
    x, w = draw.real(1, 2, 5), draw.real(2, 2, 3)
    yield Sample(x, Sample.fixed(w), strides=[2])
    yield Sample(Sample.fixed(x), w, strides=[2])
    yield Sample(Sample.fixed(x), Sample.fixed(w), draw.real(2), strides=[2])


def _of_unknown_rank(name):
    @samples(name)
    def of_unknown(draw):
        attrs = {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}
        yield Sample(draw.real(1, 2, 5, 4, apart=0.02), build=lambda op, x: op.emit(name, [of_unknown_rank(op, x)], attrs))


for _name in ("AveragePool", "LpPool", "MaxPool"):
    _of_unknown_rank(_name)
