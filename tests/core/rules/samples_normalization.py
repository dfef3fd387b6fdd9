import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.hiding import of_unknown_rank
from tests.core.rules.samples import samples


@samples("BatchNormalization")
def batch_normalization_forms(draw):
    def operands(*shape):
        c = shape[1]
        return draw.real(*shape), draw.real(c), draw.real(c), draw.real(c), draw.positive(c)

    for shape in ((4, 3), (4, 2, 3), (2, 2, 2, 1, 2)):
        for only in ([0], [1], [2], [1, 2]):
            yield Sample(*operands(*shape), outputs=3, only=only, training_mode=1, momentum=0.6, epsilon=1e-2)
        yield Sample(*operands(*shape), epsilon=1e-2)
    for training in (0, 1):
        yield Sample(
            *operands(4, 2, 3),
            build=lambda op, x, *rest, t=training: op.BatchNormalization(
                of_unknown_rank(op, x), *rest, outputs=1 + 2 * t, training_mode=t, epsilon=1e-2
            ),
        )


@samples("LayerNormalization")
def layer_normalization_outputs(draw):
    for axis, tail in ((-1, (4,)), (1, (3, 4)), (0, (2, 3, 4)), (-2, (3, 4))):
        for only in ([1], [2], [0, 1, 2]):
            yield Sample(draw.real(2, 3, 4), draw.real(*tail), draw.real(*tail), outputs=3, only=only, axis=axis, epsilon=1e-2)
    yield Sample(draw.real(2, 3, 4), draw.real(1), draw.real(3, 1), epsilon=1e-2)
    for axis in (-1, 1):
        yield Sample(
            draw.real(2, 3, 4),
            draw.real(4),
            build=lambda op, x, scale, axis=axis: op.LayerNormalization(of_unknown_rank(op, x), scale, axis=axis, epsilon=1e-2),
        )


@samples("RMSNormalization")
def rms_normalization_forms(draw):
    for axis, tail in ((-1, (4,)), (1, (3, 4)), (0, (2, 3, 4)), (-2, (4,))):
        yield Sample(draw.real(2, 3, 4), draw.real(*tail), axis=axis, epsilon=1e-2, opset=23)
    yield Sample(draw.real(2, 3, 4), Sample.fixed(np.ones(4)), epsilon=1e-2, opset=23)
    yield Sample(
        draw.real(2, 3, 4),
        draw.real(4),
        opset=24,
        build=lambda op, x, scale: op.RMSNormalization(of_unknown_rank(op, x), scale, axis=-2, epsilon=1e-2),
    )


@samples("InstanceNormalization")
def instance_normalization_forms(draw):
    yield Sample(draw.real(2, 3, 4), draw.real(3), draw.real(3), epsilon=1e-2)
    yield Sample(draw.real(1, 2, 2, 3, 2), draw.real(2), draw.real(2), epsilon=1e-2, opset=22)
    yield Sample(
        draw.real(2, 3, 4),
        draw.real(3),
        draw.real(3),
        build=lambda op, x, *rest: op.InstanceNormalization(of_unknown_rank(op, x), *rest, epsilon=1e-2),
    )


@samples("GroupNormalization")
def group_normalization_forms(draw):
    for groups in (1, 2, 4):
        yield Sample(draw.real(2, 4, 3), draw.real(4), draw.real(4), num_groups=groups, epsilon=1e-2)
    yield Sample(draw.real(1, 4, 2, 1, 2), draw.real(4), draw.real(4), num_groups=2, epsilon=1e-2)
    yield Sample(
        draw.real(2, 4, 3),
        draw.real(4),
        draw.real(4),
        build=lambda op, x, *rest: op.GroupNormalization(of_unknown_rank(op, x), *rest, num_groups=2, epsilon=1e-2),
    )


@samples("MeanVarianceNormalization")
def mean_variance_normalization_forms(draw):
    # onnx.checker refuses the operator itself without axes, although they have a default
    yield Sample(draw.real(2, 3, 2, 2), runs=False)
    yield Sample(draw.real(2, 3, 4), axes=[-1])
    yield Sample(draw.real(2, 3, 4), build=lambda op, x: op.MeanVarianceNormalization(of_unknown_rank(op, x), axes=[0, 2]))
