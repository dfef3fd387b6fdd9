"""A detector like RetinaNet: two levels share the layers of classes and of boxes, and each class has a Sigmoid of its own."""

import numpy as np
from onnx import numpy_helper
from onnx.parser import parse_model

TEXT = """<ir_version: 8, opset_import: ["": 17]>
retina (float[N, 3, 16, 16] images) => (float[N, 20, 2] scores, float[N, 20, 4] boxes) {
  fine = Conv <strides = [4, 4]> (images, w1)
  f1 = Relu (fine)
  coarse = Conv <strides = [2, 2]> (f1, w2)
  f2 = Relu (coarse)
  c1 = Conv (f1, classes_weight, classes_bias)
  c2 = Conv (f2, classes_weight, classes_bias)
  t1 = Transpose <perm = [0, 2, 3, 1]> (c1)
  t2 = Transpose <perm = [0, 2, 3, 1]> (c2)
  r1 = Reshape (t1, rows2)
  r2 = Reshape (t2, rows2)
  logits = Concat <axis = 1> (r1, r2)
  scores = Sigmoid (logits)
  b1 = Conv (f1, boxes_weight, boxes_bias)
  b2 = Conv (f2, boxes_weight, boxes_bias)
  u1 = Transpose <perm = [0, 2, 3, 1]> (b1)
  u2 = Transpose <perm = [0, 2, 3, 1]> (b2)
  s1 = Reshape (u1, rows4)
  s2 = Reshape (u2, rows4)
  offsets = Concat <axis = 1> (s1, s2)
  move, grow = Split <axis = 2> (offsets)
  shift = Mul (move, sides)
  middle = Add (shift, centres)
  factor = Exp (grow)
  size = Mul (factor, sides)
  half = Mul (size, one_half)
  low = Sub (middle, half)
  high = Add (middle, half)
  boxes = Concat <axis = 2> (low, high)
}"""


def retina():
    rng = np.random.default_rng(0)
    centres, sides = [], []
    for stride in (4, 8):
        y, x = np.mgrid[: 16 // stride, : 16 // stride] + 0.5
        centres.append(np.stack([x, y], -1).reshape(-1, 2) * stride)
        sides.append(np.full((x.size, 2), 2.0 * stride))
    arrays = {
        "w1": rng.normal(0, 0.3, (6, 3, 4, 4)),
        "w2": rng.normal(0, 0.3, (6, 6, 2, 2)),
        "classes_weight": rng.normal(0, 0.3, (2, 6, 1, 1)),
        "classes_bias": np.full(2, -2.0),
        "boxes_weight": rng.normal(0, 0.1, (4, 6, 1, 1)),
        "boxes_bias": np.zeros(4),
        "centres": np.concatenate(centres),
        "sides": np.concatenate(sides),
        "one_half": np.array(0.5),
    }
    model = parse_model(TEXT)
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
    for name, width in (("rows2", 2), ("rows4", 4)):
        model.graph.initializer.append(numpy_helper.from_array(np.array([0, -1, width], np.int64), name))
    return model
