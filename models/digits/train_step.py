"""Train with step.onnx, step.json and step.bin, knowing only numpy and a runtime.

Usage: python train_step.py FOLDER [--steps 50] [--runtime onnxruntime | reference | openvino | tract]

FOLDER is what models/web/write_files.py wrote. Prints the loss of every step as JSON.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np


def by_onnxruntime(path: Path, outputs: list[str]) -> Callable:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(outputs, inputs)


def by_reference(path: Path, outputs: list[str]) -> Callable:
    """onnx's own evaluator, in numpy."""
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(str(path))
    return lambda inputs: session.run(outputs, inputs)


def by_openvino(path: Path, outputs: list[str]) -> Callable:
    """OpenVINO without onnxruntime."""
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    compiled = None

    def run(inputs: dict) -> list:
        nonlocal compiled
        if compiled is None:  # it wants to know the number of images
            model.reshape({name: list(value.shape) for name, value in inputs.items()})
            compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        results = compiled(inputs, share_inputs=False)
        return [np.array(results[name]) for name in outputs]

    return run


def by_tract(path: Path, outputs: list[str]) -> Callable:
    """tract, written in Rust."""
    import onnx
    import tract

    graph = onnx.load(path, load_external_data=False).graph
    position = {output.name: i for i, output in enumerate(graph.output)}
    model = None

    def run(inputs: dict) -> list:
        nonlocal model
        given = [inputs[entry.name] for entry in graph.input]
        if model is None:  # it wants to know the number of images
            loaded = tract.onnx().load(str(path))
            for i, value in enumerate(given):
                kind = {"f": "f", "i": "i"}[value.dtype.kind] + str(value.dtype.itemsize * 8)
                loaded.set_input_fact(i, ",".join([*map(str, value.shape), kind]))
            model = loaded.into_model().into_runnable()
        results = model.run(given)
        return [results[position[name]].to_numpy() for name in outputs]

    return run


RUNTIMES = {
    "onnxruntime": by_onnxruntime,
    "reference": by_reference,
    "openvino": by_openvino,
    "tract": by_tract,
}

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--runtime", choices=RUNTIMES, default="onnxruntime")
parser.add_argument("--manifest", default="step.json", help="of the step that is run (default %(default)s)")
options = parser.parse_args()


def arrays(entries: list, path: Path) -> dict:
    """The values in a .bin file, by name."""
    content = path.read_bytes()
    cut = {entry["name"]: content[entry["offset"] : entry["offset"] + entry["bytes"]] for entry in entries}
    return {entry["name"]: np.frombuffer(cut[entry["name"]], entry["dtype"]).reshape(entry["shape"]) for entry in entries}


data_entries = json.loads((options.folder / "data.json").read_text())
data = arrays([{"name": name, **entry} for name, entry in data_entries.items()], options.folder / "data.bin")
manifest = json.loads((options.folder / options.manifest).read_text())
state = arrays(manifest["state"] + manifest["constants"], options.folder / manifest["values"])
names = [entry["output"] for entry in manifest["state"]] + [entry["name"] for entry in manifest["fetches"]]
run = RUNTIMES[options.runtime](options.folder / manifest["model"], names)

losses = []
for batch in data["order"][: options.steps]:
    feeds = {"image": data["train_images"][batch], "label": data["train_labels"][batch]}
    results = dict(zip(names, run({**feeds, **state}), strict=True))
    state |= {entry["input"]: results[entry["output"]] for entry in manifest["state"]}
    losses.append(float(results[manifest["fetches"][0]["name"]]))
print(json.dumps(losses))
