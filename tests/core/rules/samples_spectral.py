import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.hiding import at_run_time, of_unknown_rank
from tests.core.rules.samples import samples


@samples("DFT")
def dft(draw):
    for parts in (1, 2):
        x = draw.real(2, 5, 3, parts)
        for inverse in (0, 1):
            yield Sample(x, inverse=inverse)
            yield Sample(x, None, np.array(1), inverse=inverse)
            for length in (3, 5, 8):
                yield Sample(x, np.array(length), np.array(-3), inverse=inverse)
    yield Sample(draw.real(2, 5, 1), opset=17)
    yield Sample(draw.real(2, 5, 1), np.array(4), opset=17, axis=1, onesided=1)


@samples("DFT")
def dft_onesided(draw):
    for size in (4, 5):
        yield Sample(draw.real(2, size, 1), onesided=1)
        yield Sample(draw.real(size, 2, 1), np.array(6), np.array(0), onesided=1)
        yield Sample(draw.real(size, 2, 1), np.array(3), np.array(0), onesided=1)
        yield Sample(draw.real(2, size, 2), onesided=1, inverse=1)
        for length in (4, 6, 7, 11):
            yield Sample(draw.real(size, 2, 2), np.array(length), np.array(0), onesided=1, inverse=1)


@samples("DFT")
def dft_told_at_run_time(draw):
    def build(hide=lambda op, x: x, **attrs):
        return lambda op, x, n, axis: op.DFT(hide(op, x), at_run_time(op, n), at_run_time(op, axis), **attrs)

    for axis in (1, -2):
        yield Sample(draw.real(2, 5, 1), np.array(6), np.array(axis), build=build())
        yield Sample(draw.real(2, 5, 1), np.array(6), np.array(axis), build=build(onesided=1))
        yield Sample(draw.real(2, 4, 2), np.array(6), np.array(axis), build=build(onesided=1, inverse=1))
    yield Sample(draw.real(2, 5, 1), np.array(4), np.array(1), build=build(of_unknown_rank))
    yield Sample(draw.real(2, 4, 2), np.array(6), np.array(1), build=build(of_unknown_rank, onesided=1, inverse=1))


@samples("STFT")
def stft(draw):
    for parts, onesided in ((1, 0), (1, 1), (2, 0)):
        signal = draw.real(2, 9, parts)
        yield Sample(signal, np.array(2), draw.positive(4), onesided=onesided)
        yield Sample(signal, np.array(3), draw.positive(5), np.array(5), onesided=onesided)
        yield Sample(signal, np.array(2), None, np.array(4), onesided=onesided)
        yield Sample(signal, np.array(1), onesided=onesided)
    yield Sample(
        draw.real(1, 9, 1),
        np.array(2, np.int32),
        draw.positive(4),
        np.array(4, np.int32),
        build=lambda op, x, step, window, n: op.STFT(x, at_run_time(op, step), window, at_run_time(op, n)),
    )
