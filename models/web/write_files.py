"""Write what the training loops of other languages need: the digits training step, data, and the losses to expect.

Usage: python models/web/write_files.py OUT [--epochs 20]

OUT/step.onnx, step.json, step.bin: the training step; OUT/step_webgpu.*: the same for WebGPU.
OUT/evaluate.*: logits in inference mode, weights as inputs.
OUT/data.json, data.bin: images, labels, and which images each step takes. OUT/expected.json: losses of the first 50 steps here.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import onnxgrad as paddle

sys.path.insert(0, str(Path(__file__).parents[1] / "digits"))
from train import HERE, Digits, Job

BATCH = 64
STEPS_COMPARED = 50
LEARNING_RATE = 1e-3


def batches(count: int, epochs: int) -> np.ndarray:
    """The images of every step, [steps, BATCH], shuffled anew in each epoch."""
    draw = np.random.default_rng(0)
    whole = count // BATCH * BATCH
    return np.concatenate([draw.permutation(count)[:whole].reshape(-1, BATCH) for _ in range(epochs)]).astype(np.int32)


def write_arrays(folder: Path, name: str, arrays: dict[str, np.ndarray]) -> None:
    """The arrays one after another in <name>.bin; <name>.json says where and what each is."""
    entries, offset = {}, 0
    for key, array in arrays.items():
        entries[key] = {"dtype": array.dtype.name, "shape": list(array.shape), "offset": offset, "bytes": array.nbytes}
        offset += array.nbytes
    (folder / f"{name}.bin").write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values()))
    (folder / f"{name}.json").write_text(json.dumps(entries, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    digits = Digits.load()
    job = Job(HERE / "digits.onnx", LEARNING_RATE)
    paddle.save_training_step(job.program, options.out / "step", [job.loss, job.logits])
    paddle.save_training_step(job.program, options.out / "step_webgpu", [job.loss, job.logits], lowering="webgpu")
    paddle.save_training_step(job.inference, options.out / "evaluate", ["logits"])
    order = batches(len(digits.train_labels), options.epochs)
    arrays = {  # int64 first: an array of eight-byte numbers begins at a multiple of eight
        "train_labels": digits.train_labels,
        "test_labels": digits.test_labels,
        "train_images": digits.train_images,
        "test_images": digits.test_images,
        "order": order,
    }
    write_arrays(options.out, "data", arrays)
    # One session for any batch, as in the exported step: where the batch is known, convolutions round otherwise, and after thirty
    # steps of Adam that is seen in the third digit.
    job.executor = paddle.Executor(shapes=0)
    losses = [job.step(digits.train_images[batch], digits.train_labels[batch])[0] for batch in order[:STEPS_COMPARED]]
    (options.out / "expected.json").write_text(json.dumps(losses) + "\n")


if __name__ == "__main__":
    main()
