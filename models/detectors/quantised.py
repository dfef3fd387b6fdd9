"""Print what 8-bit integers cost a detector whose weights have one scale for each tensor, and what training wins back, by seed.

The float model is trained as long for comparison: it may not have been taught to its end.

python models/detectors/quantised.py tuned.onnx DATA [SEED ...]
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

from onnxgrad.training import Images, Trainer, quantize

EPOCHS, BATCH, RATE = 4, 16, 1e-3


def judged(trainer: Trainer, data: str) -> str:
    row = trainer.evaluate(Images(data, part="val"), batch_size=25)
    return f"map50 {row['map50']:.4f}  map {row['map']:.4f}"


def train(label: str, model: str | Path, data: str, seeds: list[int]) -> None:
    for seed in seeds:
        trainer = Trainer(model, loss="detection", learning_rate=RATE, schedule="cosine", seed=seed)
        trainer.fit(Images(data, flip=True), epochs=EPOCHS, batch_size=BATCH, verbose=False)
        print(f"{label}, seed {seed}  ", judged(trainer, data), flush=True)


def main(model: str, data: str, seeds: list[int]) -> None:
    warnings.simplefilter("ignore")
    print("float  ", judged(Trainer(model, loss="detection"), data), flush=True)
    train("float, trained as long", model, data, seeds)
    for per_channel, name in ((True, "int8, a scale for each channel"), (False, "int8, a scale for each tensor")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "int8.onnx"
            quantize(model, path, Images(data), per_channel=per_channel, beside=["boxes"])
            print(f"{name}  ", judged(Trainer(path, loss="detection"), data), flush=True)
            train(f"{name}, trained", path, data, [] if per_channel else seeds)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(text) for text in sys.argv[3:]] or [0, 1, 2])
