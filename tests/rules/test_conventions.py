"""What finite differences cannot see: values at ties."""

import numpy as np
import pytest

import onnxgrad
from onnxgrad import static

TIES = {
    "elements": ("ScatterElements", np.array([0, 0, 1])),
    "slices": ("ScatterND", np.array([[0], [0], [1]])),
}


@pytest.mark.parametrize("kind", TIES)
@pytest.mark.parametrize("reduction", ["min", "max"])
def test_ties_of_a_scattered_extreme_share_equally(kind, reduction):
    op_type, indices = TIES[kind]
    x, updates = static.data("x", [2], "float32"), static.data("u", [3], "float32")
    x.stop_gradient = updates.stop_gradient = False
    z = x.block.build.emit(op_type, (x, indices, updates), {"reduction": reduction})
    found = static.gradients(z, [x, updates])
    feed = {"x": np.full(2, 2.0, np.float32), "u": np.full(3, 2.0, np.float32)}
    gx, gupdates = onnxgrad.Executor().run(feed=feed, fetch_list=found)
    np.testing.assert_allclose(gx, [1 / 3, 1 / 2])
    np.testing.assert_allclose(gupdates, [1 / 3, 1 / 3, 1 / 2])
