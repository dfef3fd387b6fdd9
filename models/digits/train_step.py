"""Train with step.onnx, step.json and step.bin, knowing only onnxruntime and numpy.

Usage: python train_step.py FOLDER [--steps 50]

FOLDER is what models/web/write_files.py wrote. Prints the loss of every step as JSON.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--steps", type=int, default=50)
options = parser.parse_args()


def arrays(entries: list, path: Path) -> dict:
    """The values in a .bin file, by name."""
    content = path.read_bytes()
    cut = {entry["name"]: content[entry["offset"] : entry["offset"] + entry["bytes"]] for entry in entries}
    return {entry["name"]: np.frombuffer(cut[entry["name"]], entry["dtype"]).reshape(entry["shape"]) for entry in entries}


data_entries = json.loads((options.folder / "data.json").read_text())
data = arrays([{"name": name, **entry} for name, entry in data_entries.items()], options.folder / "data.bin")
manifest = json.loads((options.folder / "step.json").read_text())
state = arrays(manifest["state"] + manifest["constants"], options.folder / manifest["values"])
session = onnxruntime.InferenceSession(options.folder / manifest["model"], providers=["CPUExecutionProvider"])
names = [output.name for output in session.get_outputs()]

losses = []
for batch in data["order"][: options.steps]:
    feeds = {"image": data["train_images"][batch], "label": data["train_labels"][batch]}
    results = dict(zip(names, session.run(None, {**feeds, **state}), strict=True))
    state |= {entry["input"]: results[entry["output"]] for entry in manifest["state"]}
    losses.append(float(results[manifest["fetches"][0]["name"]]))
print(json.dumps(losses))
