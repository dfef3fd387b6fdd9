"""Train the classifier in digits.onnx on scikit-learn's handwritten digits, with onnxruntime.

Usage: python models/digits/train.py [--epochs 15] [--batch-size 64] [--out out]

Writes training_step.onnx, inference.onnx, checkpoint.safetensors, history.csv and loss.png into the output folder, then lets
infer.py, which knows only onnxruntime and numpy, confirm the accuracy in a process of its own.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.training import save_checkpoint

HERE = Path(__file__).parent
SPLIT_SEED = 0


@dataclass
class Digits:
    """Images [n, 1, 8, 8] in 0..1 and labels [n], split 80/20 with every digit in the same proportion."""

    train_images: np.ndarray
    test_images: np.ndarray
    train_labels: np.ndarray
    test_labels: np.ndarray

    @classmethod
    def load(cls) -> Digits:
        images, labels = load_digits(return_X_y=True)
        images = (images / 16.0).astype(np.float32).reshape(-1, 1, 8, 8)
        return cls(*train_test_split(images, labels.astype(np.int64), test_size=0.2, stratify=labels, random_state=SPLIT_SEED))


class Job:
    """The loaded classifier with loss and optimizer attached."""

    def __init__(self, model: Path, learning_rate: paddle.optimizer.lr.LRScheduler) -> None:
        self.program = paddle.from_onnx(model)
        self.inference = self.program.clone(for_test=True)
        (self.image,), (logits,) = self.program.inputs, self.program.outputs
        self.program.train()
        with static.program_guard(self.program):
            label = static.data("label", ["batch"], "int64")
            self.loss = F.cross_entropy(logits, label)
        self.optimizer = paddle.optimizer.AdamW(learning_rate, weight_decay=0.01)
        self.optimizer.minimize(self.loss)
        self.logits = logits
        self.executor = static.Executor(static.CPUPlace())

    def step(self, images: np.ndarray, labels: np.ndarray) -> tuple[float, int]:
        """One update; returns (mean loss, number of right answers)."""
        loss, logits = self.executor.run(self.program, {"image": images, "label": labels}, [self.loss, self.logits])
        return float(loss), int((logits.argmax(1) == labels).sum())

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Share of right answers with the present weights, in inference mode."""
        (logits,) = self.executor.run(self.inference, {"image": images}, ["logits"])
        return float((logits.argmax(1) == labels).mean())


def train(job: Job, digits: Digits, epochs: int, batch_size: int, schedule: paddle.optimizer.lr.LRScheduler) -> list[dict]:
    """Run all epochs with one progress bar each; returns a row per epoch."""
    order, rows = np.random.default_rng(SPLIT_SEED), []
    for epoch in range(1, epochs + 1):
        total = right = seen = 0
        with tqdm(total=len(digits.train_labels), desc=f"epoch {epoch:2d}/{epochs}", unit="img") as bar:
            for batch in np.array_split(order.permutation(len(digits.train_labels)), len(digits.train_labels) // batch_size):
                loss, correct = job.step(digits.train_images[batch], digits.train_labels[batch])
                schedule.step()
                total, right, seen = total + loss * len(batch), right + correct, seen + len(batch)
                bar.set_postfix(loss=f"{total / seen:.4f}", accuracy=f"{right / seen:.4f}", refresh=False)
                bar.update(len(batch))
            test = job.accuracy(digits.test_images, digits.test_labels)
            bar.set_postfix(loss=f"{total / seen:.4f}", accuracy=f"{right / seen:.4f}", test=f"{test:.4f}")
        rows.append({"epoch": epoch, "loss": total / seen, "accuracy": right / seen, "test_accuracy": test})
    return rows


def write_results(job: Job, digits: Digits, history: list[dict], out: Path) -> None:
    """Everything somebody may want to look at or take along."""
    out.mkdir(parents=True, exist_ok=True)
    model, manifest = paddle.to_training_step(job.program, [job.loss])
    (out / "training_step.onnx").write_bytes(model.SerializeToString())
    (out / "training_step.json").write_text(json.dumps(manifest, indent=1))
    paddle.save_onnx(job.program, out / "inference.onnx")
    save_checkpoint(job.program, out / "checkpoint.safetensors")
    np.savez(out / "test_images.npz", image=digits.test_images, label=digits.test_labels)
    with (out / "history.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(history[0]))
        writer.writeheader()
        writer.writerows(history)
    plot(history, out / "loss.png")


def plot(history: list[dict], path: Path) -> None:
    """Loss and accuracies over the epochs."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    epochs = [row["epoch"] for row in history]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    left.plot(epochs, [row["loss"] for row in history])
    left.set(title="training loss", xlabel="epoch", yscale="log")
    right.plot(epochs, [row["accuracy"] for row in history], label="training")
    right.plot(epochs, [row["test_accuracy"] for row in history], label="test")
    right.set(title="accuracy", xlabel="epoch")
    right.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    digits = Digits.load()
    steps = options.epochs * (len(digits.train_labels) // options.batch_size)
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(3e-3, steps)
    job = Job(HERE / "digits.onnx", schedule)
    history = train(job, digits, options.epochs, options.batch_size, schedule)
    write_results(job, digits, history, options.out)
    final = history[-1]["test_accuracy"]
    print(f"test accuracy in training process:       {final:.4f}", flush=True)
    answer = subprocess.run(
        [sys.executable, HERE / "infer.py", options.out / "inference.onnx", options.out / "test_images.npz"],
        check=True,
        capture_output=True,
        text=True,
    )
    apart = float(answer.stdout)
    print(f"test accuracy with onnxruntime and numpy: {apart:.4f}")
    print(f"results are in {options.out}/")
    return 0 if f"{apart:.10f}" == f"{final:.10f}" else 1


if __name__ == "__main__":
    sys.exit(main())
