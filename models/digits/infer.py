"""Accuracy of an exported classifier, with onnxruntime and numpy alone.

Usage: python infer.py inference.onnx test_images.npz
"""

import sys

import numpy as np
import onnxruntime

model, data = sys.argv[1:]
arrays = np.load(data)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
(logits,) = session.run(None, {session.get_inputs()[0].name: arrays["image"]})
print(f"{(logits.argmax(1) == arrays['label']).mean():.17f}")
