"""Grad-CAM: where in its last map of features the network finds the predicted class.

The gradient of the score, averaged over each channel of the map, weighs the channels. Selvaraju et al., "Grad-CAM", 2017.
Usage: python models/explain/grad_cam.py [grad_cam.png]
"""

import sys
from pathlib import Path

import numpy as np
from trained import draw, trained_classifier

import onnxgrad

model, images, _ = trained_classifier()
shown = images[:8]
features = next(op for op in model.global_block().ops if op.type == "MaxPool").inputs[0].name
score = onnxgrad.func.vjp(model, outputs=["logits", features], wrt=[features])
values, _ = onnxgrad.func.value_and_grad(model, outputs=["logits", features], wrt=["image"])({"image": shown})
predicted, maps = values["logits"].argmax(axis=1), values[features]
cotangents = {"logits": np.eye(10, dtype=np.float32)[predicted], features: np.zeros_like(maps)}
_, slopes = score({"image": shown}, cotangents)
weights = slopes[features].mean(axis=(2, 3), keepdims=True)
heat = np.maximum((weights * maps).sum(axis=1), 0)
out = Path(sys.argv[1] if len(sys.argv) > 1 else "grad_cam.png")
draw(out, [(shown[:, 0], "gray"), (heat, "inferno")], [f"is a {digit}" for digit in predicted])
