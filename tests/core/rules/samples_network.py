import numpy as np

from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.testing import Sample
from tests.core.rules.samples import samples


@samples("MatMul")
def matmul(draw):
    yield Sample(draw.real(2, 3), draw.real(3, 4))
    yield Sample(draw.real(2, 2, 3), draw.real(3, 4))
    yield Sample(draw.real(3, 4), draw.real(2, 4, 2))
    yield Sample(draw.real(2, 1, 2, 3), draw.real(3, 3, 2))
    yield Sample(draw.real(3), draw.real(3))
    yield Sample(draw.real(3), draw.real(2, 3, 2))
    yield Sample(draw.real(2, 2, 3), draw.real(3))
    yield Sample(draw.real(2, 0), draw.real(0, 3))


@samples("Gemm")
def gemm(draw):
    for ta in (0, 1):
        for tb in (0, 1):
            a, b = draw.real(*((3, 2) if ta else (2, 3))), draw.real(*((4, 3) if tb else (3, 4)))
            yield Sample(a, b, draw.real(4), alpha=0.7, beta=1.3, transA=ta, transB=tb)
    yield Sample(draw.real(2, 3), draw.real(3, 4))
    yield Sample(draw.real(2, 3), draw.real(3, 4), draw.real(2, 1))


@samples("Einsum")
def einsum(draw):
    yield Sample(draw.real(2, 3), draw.real(3, 4), equation="ij,jk->ik")
    yield Sample(draw.real(2, 3, 4), draw.real(2, 4, 2), equation="bij,bjk->bik")
    yield Sample(draw.real(2, 3), draw.real(3), draw.real(2), equation="ij,j,i->")
    yield Sample(draw.real(2, 3), equation="ij->j")
    yield Sample(draw.real(2, 3), equation="ij->ji")
    yield Sample(draw.real(2, 3, 4), draw.real(4, 2), equation="...j,jk->...k")
    yield Sample(draw.real(2, 3), draw.real(3, 4), equation="ij,jk")


@samples("Conv")
def conv(draw):
    yield Sample(draw.real(2, 3, 5, 6), draw.real(4, 3, 3, 2), draw.real(4), kernel_shape=[3, 2])
    yield Sample(draw.real(1, 2, 7, 6), draw.real(3, 2, 3, 3), kernel_shape=[3, 3], strides=[2, 3], pads=[1, 0, 2, 1])
    yield Sample(draw.real(1, 4, 6, 6), draw.real(6, 2, 2, 2), kernel_shape=[2, 2], group=2, strides=[2, 1], dilations=[1, 2])
    yield Sample(draw.real(1, 3, 8, 5), draw.real(3, 1, 3, 2), kernel_shape=[3, 2], group=3, strides=[3, 2])
    yield Sample(draw.real(2, 2, 7), draw.real(3, 2, 3), draw.real(3), kernel_shape=[3], strides=[2], pads=[1, 1])
    yield Sample(draw.real(1, 2, 4, 4, 3), draw.real(2, 2, 2, 3, 2), kernel_shape=[2, 3, 2], strides=[2, 1, 1])
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Sample(draw.real(1, 2, 6, 5), draw.real(2, 2, 3, 2), kernel_shape=[3, 2], auto_pad=mode, strides=[2, 2])

    # without kernel_shape the size of the filter is known at run time only
    yield Sample(draw.real(1, 4, 7, 6), draw.real(6, 2, 3, 2), draw.real(6), group=2, strides=[2, 1], pads=[1, 0, 0, 1])
    yield Sample(draw.real(1, 2, 6, 5), draw.real(2, 2, 3, 2), auto_pad="SAME_LOWER", strides=[2, 2], dilations=[1, 2], runs=False)


@samples("ConvTranspose")
def conv_transpose(draw):
    yield Sample(draw.real(2, 3, 3, 4), draw.real(3, 2, 3, 2), draw.real(2), kernel_shape=[3, 2])
    yield Sample(
        draw.real(1, 2, 3, 3), draw.real(2, 3, 3, 3), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 1, 1], output_padding=[1, 1]
    )
    yield Sample(draw.real(1, 4, 3, 3), draw.real(4, 2, 2, 2), kernel_shape=[2, 2], group=2, strides=[2, 1], dilations=[1, 2])
    yield Sample(draw.real(2, 2, 4), draw.real(2, 3, 3), kernel_shape=[3], strides=[2])
    yield Sample(draw.real(1, 2, 4, 3), draw.real(2, 3, 3, 2), strides=[2, 3], dilations=[2, 1])
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        yield Sample(draw.real(1, 2, 3, 3), draw.real(2, 1, 4, 3), auto_pad=mode, strides=[2, 2])
        yield Sample(draw.real(1, 2, 3, 3), draw.real(2, 1, 4, 3), auto_pad=mode, output_shape=[7, 5], strides=[2, 2])
    yield Sample(draw.real(1, 2, 3, 3), draw.real(2, 1, 3, 3), output_shape=[6, 8], output_padding=[1, 1], strides=[3, 2])


@samples("MaxPool")
def max_pool(draw):
    x = draw.real(2, 2, 6, 5, apart=0.02)
    yield Sample(x, kernel_shape=[2, 2], strides=[2, 2])
    yield Sample(x, kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 1])
    yield Sample(x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    yield Sample(x, kernel_shape=[2, 2], dilations=[2, 1])
    yield Sample(draw.real(1, 2, 7, apart=0.02), kernel_shape=[3], strides=[2])


@samples("AveragePool")
def average_pool(draw):
    x = draw.real(2, 2, 6, 5)
    yield Sample(x, kernel_shape=[2, 2], strides=[2, 2])
    yield Sample(x, kernel_shape=[3, 2], strides=[1, 2], pads=[1, 0, 1, 1])
    yield Sample(x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], count_include_pad=1)
    yield Sample(x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    yield Sample(draw.real(1, 2, 7), kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER")


@samples("GlobalAveragePool")
def global_average_pool(draw):
    yield Sample(draw.real(2, 3, 4, 2))


@samples("GlobalMaxPool")
def global_max_pool(draw):
    yield Sample(draw.real(2, 3, 4, 2, apart=0.02))


@samples("BatchNormalization")
def batch_normalization(draw):
    for shape in ((4, 3, 2, 2), (4, 3)):
        c = shape[1]
        yield Sample(draw.real(*shape), draw.real(c), draw.real(c), draw.real(c), draw.positive(c), epsilon=1e-3)
    yield Sample(
        draw.real(4, 3, 2), draw.real(3), draw.real(3), draw.real(3), draw.positive(3), outputs=3, training_mode=1, momentum=0.7
    )


@samples("LayerNormalization")
def layer_normalization(draw):
    yield Sample(draw.real(2, 3, 4), draw.real(4), draw.real(4), tolerance=1e-4)
    yield Sample(draw.real(2, 3, 4), draw.real(3, 4), axis=1, epsilon=1e-3, tolerance=1e-4)


@samples("InstanceNormalization")
def instance_normalization(draw):
    yield Sample(draw.real(2, 3, 4, 2), draw.real(3), draw.real(3))


@samples("GroupNormalization")
def group_normalization(draw):
    yield Sample(draw.real(2, 4, 3, 2), draw.real(4), draw.real(4), num_groups=2)


@samples("RMSNormalization")
def rms_normalization(draw):
    yield Sample(draw.real(2, 3, 4), draw.real(4), opset=23, tolerance=1e-4)


@samples("MeanVarianceNormalization")
def mean_variance_normalization(draw):
    yield Sample(draw.real(2, 3, 2, 2), axes=[0, 2, 3])
    yield Sample(draw.real(2, 3, 4), axes=[1, 2])


@samples("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(draw):
    labels = np.array([0, 2, 1, 2])
    weights = Sample.fixed(np.array([0.5, 2.0, 1.0]))
    for reduction in ("mean", "sum", "none"):
        yield Sample(draw.real(4, 3), labels, reduction=reduction)
        yield Sample(draw.real(4, 3), labels, weights, reduction=reduction, ignore_index=1)
    yield Sample(draw.real(2, 3, 2), np.array([[0, 2], [1, -1]]), outputs=2, ignore_index=-1)


@samples("NegativeLogLikelihoodLoss")
def negative_log_likelihood(draw):
    for reduction in ("mean", "sum", "none"):
        yield Sample(draw.real(4, 3), np.array([0, 2, 1, 2]), reduction=reduction)
    yield Sample(draw.real(2, 3, 2), np.array([[0, 2], [1, 0]]), Sample.fixed(np.array([0.5, 2.0, 1.0])), ignore_index=0)


def _states(draw, directions, batch, hidden):
    return draw.real(directions, batch, hidden)


@samples("LSTM")
def lstm(draw):
    t, b, i, h = 3, 2, 2, 2
    for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        yield Sample(
            draw.real(t, b, i), draw.real(d, 4 * h, i), draw.real(d, 4 * h, h), draw.real(d, 8 * h), None,
            _states(draw, d, b, h), _states(draw, d, b, h), draw.real(d, 3 * h),
            outputs=3, hidden_size=h, direction=direction,
        )  # fmt: skip
    yield Sample(draw.real(t, b, i), draw.real(1, 4 * h, i), draw.real(1, 4 * h, h), outputs=1, hidden_size=h)


@samples("GRU")
def gru(draw):
    t, b, i, h = 3, 2, 2, 2
    for reset in (0, 1):
        yield Sample(
            draw.real(t, b, i), draw.real(1, 3 * h, i), draw.real(1, 3 * h, h), draw.real(1, 6 * h), None, _states(draw, 1, b, h),
            outputs=2, hidden_size=h, linear_before_reset=reset,
        )  # fmt: skip


@samples("RNN")
def rnn(draw):
    t, b, i, h = 3, 2, 2, 2
    yield Sample(
        draw.real(t, b, i), draw.real(1, h, i), draw.real(1, h, h), draw.real(1, 2 * h), None, _states(draw, 1, b, h),
        outputs=2, hidden_size=h,
    )  # fmt: skip


def _body(op, name, build):
    """A sub-graph without inputs whose outputs ``build`` makes"""
    block = op.block.program.new_block(op.block, name)
    found = build(block.build)
    block.outputs = list(found) if isinstance(found, tuple) else [found]
    return block


@samples("If")
def if_(draw):
    for condition in (True, False):

        def branches(op, x, y, condition):
            then = _body(op, "then", lambda b: (b.Mul(x, y), b.Identity(x)))
            other = _body(op, "else", lambda b: (b.Sin(y), b.Mul(x, 3.0)))
            return op.If(condition, outputs=2, then_branch=then, else_branch=other)

        yield Sample(draw.real(3), draw.real(3), np.array(condition), build=branches)
        yield Sample(draw.real(3), draw.real(3), np.array(condition), build=branches, only=[1])


@samples("Scan")
def scan(draw):
    def recurrence(directions):
        def build(op, start, xs, weight):
            block = op.block.program.new_block(op.block, "body")
            state, x = (Variable(block, name, TensorType(start.dtype, (2,))) for name in ("state", "x"))
            for v in (state, x):
                block.inputs.append(block.register(v))
            b = block.build
            new = b.Tanh(b.Add(b.Mul(state, weight), x))
            block.outputs = [new, b.Mul(new, new)]
            return op.Scan(start, xs, outputs=2, body=block, num_scan_inputs=1, **directions)

        return build

    for directions in ({}, {"scan_input_directions": [1]}, {"scan_output_directions": [1]}):
        yield Sample(draw.real(2), draw.real(4, 2), draw.real(2), build=recurrence(directions))
