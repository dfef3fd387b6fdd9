import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.samples import samples


@samples("Range")
def range_(draw):
    yield Sample(np.array(0.5), np.array(4.2), np.array(0.7))
    yield Sample(np.array(3.0), np.array(-1.1), np.array(-0.9))
    yield Sample(np.array(1.0), np.array(0.3), np.array(0.5))  # nothing in it
    yield Sample(np.array(0.5), Sample.fixed(np.array(4.2)), Sample.fixed(np.array(0.7)))
