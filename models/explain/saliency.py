"""Saliency and integrated gradients: which pixels the score of the predicted class depends on.

Simonyan, Vedaldi and Zisserman, "Deep Inside Convolutional Networks", 2014; Sundararajan, Taly and Yan, "Axiomatic Attribution for
Deep Networks", 2017.
Usage: python models/explain/saliency.py [saliency.png]
"""

import sys
from pathlib import Path

import numpy as np
from trained import draw, trained_classifier

from onnxgrad.attribution import integrated_gradients, saliency

model, images, _ = trained_classifier()
shown = {"image": images[:8]}
slopes = saliency(model, shown, "image")
added = integrated_gradients(model, shown, "image")
print(f"integrated gradients: the sum of attributions differs from the change of the score by {added.gap:.2%}")
out = Path(sys.argv[1] if len(sys.argv) > 1 else "saliency.png")
rows = [(images[:8, 0], "gray"), (slopes.values[:, 0], "magma"), (np.abs(added.values[:, 0]), "magma")]
draw(out, rows, [f"is a {digit}" for digit in slopes.labels])
