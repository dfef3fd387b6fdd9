"""Saliency: which pixels the score of the predicted class depends on.

Simonyan, Vedaldi and Zisserman, "Deep Inside Convolutional Networks", 2014.
Usage: python models/explain/saliency.py [saliency.png]
"""

import sys
from pathlib import Path

import numpy as np
from trained import draw, trained_classifier

import onnxgrad

model, images, _ = trained_classifier()
shown = images[:8]
score = onnxgrad.func.vjp(model, outputs=["logits"], wrt=["image"])
logits = score({"image": shown}, {"logits": np.zeros((8, 10), np.float32)})[0]["logits"]
predicted = logits.argmax(axis=1)
_, slopes = score({"image": shown}, {"logits": np.eye(10, dtype=np.float32)[predicted]})
out = Path(sys.argv[1] if len(sys.argv) > 1 else "saliency.png")
draw(out, [(shown[:, 0], "gray"), (np.abs(slopes["image"][:, 0]), "magma")], [f"is a {digit}" for digit in predicted])
