"""A worker of data-parallel training: one split step, onnxruntime and numpy alone. Ray, Dask and Spark each run several.

`python worker.py FOLDER` writes what they need: the digits' step in two models, images and labels.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

Part = tuple[float, float, list[np.ndarray]]


class Worker:
    """Weights and optimizer state of one machine; all machines hold the same.

    A part is what a worker computes from its share of a batch: its weight, its loss, and gradients with running statistics.
    """

    def __init__(self, manifest: str | Path) -> None:
        manifest = Path(manifest)
        self.manifest = json.loads(manifest.read_text())
        values = manifest.with_name(self.manifest["values"]).read_bytes()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.state, self.sessions = {}, {}
        for name in ("gradients", "apply"):
            described = self.manifest[name]
            for entry in described["state"] + described["constants"]:
                content = values[entry["offset"] : entry["offset"] + entry["bytes"]]
                self.state[entry["name"]] = np.frombuffer(content, entry["dtype"]).reshape(entry["shape"])
            path = manifest.with_name(described["model"])
            self.sessions[name] = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.exchanged = [entry["gradient"] for entry in self.manifest["exchange"]]
        own = self.manifest["gradients"]["state"]
        self.statistics = [entry for entry in own if entry["statistic"]]
        self.counters = [entry for entry in own if not entry["statistic"]]

    def _run(self, name: str, given: dict) -> dict:
        session = self.sessions[name]
        held = {i.name: self.state[i.name] for i in session.get_inputs() if i.name in self.state}
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, {**held, **given}), strict=True))

    def gradients(self, batch: dict[str, np.ndarray]) -> Part:
        """The part of this worker."""
        found = self._run("gradients", batch)
        self.state |= {entry["input"]: found[entry["output"]] for entry in self.counters}
        weight = self.manifest["weight"]
        loss = float(found[self.manifest["gradients"]["fetches"][0]["name"]])
        arrays = [found[name] for name in self.exchanged] + [found[entry["output"]] for entry in self.statistics]
        return 1.0 if weight is None else float(found[weight]), loss, arrays

    def apply(self, parts: list[Part]) -> float:
        """Take the step of the whole batch, from the parts of all workers in one order; returns its loss."""
        counted = [part for part in parts if part[0] > 0]  # gradients of a part that weighs nothing may be NaN
        total = sum(weight for weight, _, _ in counted)
        mean = [sum(weight * arrays[i] for weight, _, arrays in counted) / total for i in range(len(counted[0][2]))]
        loss = sum(weight * loss for weight, loss, _ in counted) / total
        count = len(self.exchanged)
        summed = len(counted) if self.manifest["reduction"] == "sum" else 1  # then all weights are 1
        given = {name: np.asarray(summed * g, g.dtype) for name, g in zip(self.exchanged, mean, strict=False)}
        self.state |= {e["input"]: np.asarray(s, e["dtype"]) for e, s in zip(self.statistics, mean[count:], strict=True)}
        found = self._run("apply", given)
        self.state |= {entry["input"]: found[entry["output"]] for entry in self.manifest["apply"]["state"]}
        return summed * loss

    def weights(self) -> dict[str, np.ndarray]:
        """Those that train, by name."""
        return {entry["input"]: self.state[entry["input"]] for entry in self.manifest["apply"]["state"] if entry["parameter"]}


def batches(folder: str | Path, steps: int, worker: int = 0, workers: int = 1, size: int = 100) -> list[dict[str, np.ndarray]]:
    """The share of one worker in each of the first batches."""
    data = np.load(Path(folder) / "digits.npz")
    share = slice(worker * size // workers, (worker + 1) * size // workers)
    order = np.random.default_rng(0).permutation(len(data["label"]))
    return [{name: data[name][np.roll(order, -step * size)[:size][share]] for name in ("image", "label")} for step in range(steps)]


def alone(folder: str | Path, steps: int) -> Worker:
    """One worker that computes every batch by itself."""
    worker = Worker(Path(folder) / "step.json")
    for batch in batches(folder, steps):
        worker.apply([worker.gradients(batch)])
    return worker


def difference(weights: dict[str, np.ndarray], folder: str | Path, steps: int) -> float:
    """The largest between these weights and those of one worker alone."""
    expected = alone(folder, steps).weights()
    return max(float(np.abs(expected[name] - value).max()) for name, value in weights.items())


def write_files(folder: str | Path) -> None:
    """The step of the digits' model, and its data."""
    from sklearn.datasets import load_digits

    import onnxgrad
    import onnxgrad.nn.functional as F
    from onnxgrad import static

    program = onnxgrad.from_onnx(Path(__file__).parents[1] / "digits" / "digits.onnx")
    with static.program_guard(program):
        label = static.data("label", ["batch"], "int64")
        loss = F.cross_entropy(program.outputs[0], label)
    onnxgrad.optimizer.AdamW(1e-3).minimize(loss)
    onnxgrad.save_split_training_step(program, Path(folder) / "step", [loss])
    onnxgrad.save_onnx(program.clone(for_test=True), Path(folder) / "model.onnx", ["logits"])
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
    np.savez(Path(folder) / "digits.npz", image=images, label=labels.astype(np.int64))


if __name__ == "__main__":
    write_files(sys.argv[1])
