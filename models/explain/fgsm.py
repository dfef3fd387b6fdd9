"""FGSM: a small change of every pixel, against the slope of the loss, that misleads the network.

Goodfellow, Shlens and Szegedy, "Explaining and Harnessing Adversarial Examples", 2015.
Usage: python models/explain/fgsm.py [fgsm.png]
"""

import sys
from pathlib import Path

import numpy as np
from trained import draw, trained_classifier

import onnxgrad
import onnxgrad.nn.functional as F
from onnxgrad import static

STEP = 0.15

model, images, labels = trained_classifier()
with static.program_guard(model):
    label = static.data("label", ["batch"], "int64")
    loss = F.cross_entropy(model.outputs[0], label)
slope = onnxgrad.func.value_and_grad(model, outputs=[loss.name, "logits"], wrt=["image"])
attack = onnxgrad.func.value_and_grad(model, outputs=[loss.name], wrt=["image"])
misled = np.clip(images + STEP * np.sign(attack({"image": images, "label": labels})[1]["image"]), 0, 1).astype(np.float32)
before, after = (slope({"image": x, "label": labels})[0]["logits"].argmax(axis=1) for x in (images, misled))
print(f"accuracy {np.mean(before == labels):.3f}, after the change {np.mean(after == labels):.3f}")
out = Path(sys.argv[1] if len(sys.argv) > 1 else "fgsm.png")
titles = [f"{a} becomes {b}" for a, b in zip(before[:8], after[:8], strict=True)]
draw(out, [(images[:8, 0], "gray"), (misled[:8, 0], "gray")], titles)
