"""Grad-CAM: where in its last map of features the network finds the predicted class.

The gradient of the score, averaged over each channel of the map, weighs the channels. Selvaraju et al., "Grad-CAM", 2017.
Usage: python models/explain/grad_cam.py [grad_cam.png]
"""

import sys
from pathlib import Path

from trained import draw, trained_classifier

from onnxgrad.attribution import grad_cam

model, images, _ = trained_classifier()
found = grad_cam(model, {"image": images[:8]})
out = Path(sys.argv[1] if len(sys.argv) > 1 else "grad_cam.png")
draw(out, [(images[:8, 0], "gray"), (found.values, "inferno")], [f"is a {digit}" for digit in found.labels])
