"""Unpack the files of openWakeWord 0.4.0 that models/sounds/README.md trains with: two feature extractors, and a head.

    pip download --no-deps openwakeword==0.4.0
    python models/sounds/wake_files.py openwakeword-0.4.0-py3-none-any.whl FOLDER

openWakeWord (Apache 2.0; the models are licensed CC BY-NC-SA 4.0) computes x / 10 + 2 of the spectrogram in Python. Here these two
operators are added to the extractor's file, mel.onnx, so that the next file takes what it gives.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import onnx
from onnx import helper

INSIDE = "openwakeword/resources/models/"


def unpack(wheel: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as files:
        for name, inside in (("embedding", "embedding_model"), ("alexa", "alexa_v0.1")):
            (folder / f"{name}.onnx").write_bytes(files.read(f"{INSIDE}{inside}.onnx"))
        onnx.save(scaled(onnx.load_from_string(files.read(f"{INSIDE}melspectrogram.onnx"))), folder / "mel.onnx")


def scaled(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with x / 10 + 2 behind its output."""
    (output,) = model.graph.output
    for node in model.graph.node:
        node.output[:] = ["unscaled" if name == output.name else name for name in node.output]
    model.graph.initializer.extend(helper.make_tensor(name, 1, [], [value]) for name, value in (("ten", 10.0), ("two", 2.0)))
    model.graph.node.append(helper.make_node("Div", ["unscaled", "ten"], ["tenth"]))
    model.graph.node.append(helper.make_node("Add", ["tenth", "two"], [output.name]))
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
