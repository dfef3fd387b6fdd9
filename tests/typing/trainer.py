"""A program of somebody who trains a file: accepted by type checkers, and run."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import onnxgrad as og
from onnxgrad import training
from tests.training import small


def squared(output: og.Variable, target: og.Variable) -> og.Variable:
    return ((output - target) ** 2).mean()


class Watch(training.Callback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_epoch(self, trainer: training.Trainer, row: dict[str, Any]) -> bool | None:
        self.losses.append(row["loss"])
        return None


def main() -> None:
    data: dict[str, Any] = small.data()  # type: ignore[no-untyped-call]
    model: bytes = small.model().SerializeToString()  # type: ignore[no-untyped-call]
    trainer = training.Trainer(
        model, loss="cross_entropy", optimizer="adamw", schedule="cosine", warmup=2, metrics=["accuracy"], memory="auto"
    )
    watch = Watch()
    history = trainer.fit(data, epochs=2, validation=0.25, batch_size=8, callbacks=[watch], verbose=False)
    assert len(history) == len(watch.losses) == 2
    row: dict[str, Any] = trainer.evaluate(data)
    predicted: dict[str, Any] = trainer.predict({"x": data["x"]})
    assert row["accuracy"] >= 0 and np.shape(predicted["scores"]) == (40, 3)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tuned.onnx"
        notes: list[str] = trainer.export(path)
        assert notes == [] and og.from_onnx(path).outputs[0].name == "scores"
    term = training.Term(squared, target="wanted", dtype="float32", shape=[None, 3], weight=0.5)
    training.Trainer(model, loss=[training.Term("cross_entropy"), term], accumulate=2)


if __name__ == "__main__":
    main()
