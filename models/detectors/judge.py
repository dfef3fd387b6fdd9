"""Print the mean average precision of a file with NonMaxSuppression, by onnxruntime alone, over held-out pictures of shapes.

python models/detectors/judge.py FILE.onnx
"""

from __future__ import annotations

import sys

import onnxruntime
import shapes

from onnxgrad.training.metrics.detection import AveragePrecision

if __name__ == "__main__":
    image, boxes, _ = shapes.pictures(200, 100, kinds=(0, 1, 2, 3))
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    (rows,) = session.run(None, {"images": image})
    metric = AveragePrecision()
    for i, objects in enumerate(boxes):
        metric.add(rows[rows[:, 0] == i][:, [5, 6, 1, 2, 3, 4]], objects)
    of_classes = "  ".join(f"{shapes.NAMES[kind]} {value:.3f}" for kind, value in metric.of_classes(0.5).items())
    print(f"map50 {metric.value(0.5):.3f}  map {metric.value():.3f}  ({of_classes})")
