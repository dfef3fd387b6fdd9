"""What the fine-tuning examples share: finding a file inside an installed package, and training it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
from tqdm import tqdm

import onnxgrad as og

Feeds = dict[str, np.ndarray]


@dataclass
class Task:
    """One file, what it is to learn, and how that is measured."""

    name: str
    package: str
    pattern: str  # of the file inside the package
    attach_loss: Callable[[og.Program], og.Variable]  # a loss, made of the file's outputs and labels
    batches: Callable[[], Iterable[Feeds]]
    measure: Callable[[onnxruntime.InferenceSession], dict[str, float]]
    learning_rate: float
    trainable: Callable[[og.Parameter], bool] = lambda parameter: True
    carries: dict[str, str] = field(default_factory=dict)  # outputs that are inputs of the next batch, unless it brings its own


def find(package: str, pattern: str) -> Path | None:
    """A file inside an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    folders = (found.submodule_search_locations or []) if found is not None else []
    return next((path for folder in folders for path in sorted(Path(folder).rglob(pattern))), None)


def fine_tune(task: Task, path: Path, out: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Train a copy of the file; returns its measures before and after, both taken with onnxruntime alone."""
    program = og.from_onnx(path)
    loss = task.attach_loss(program)
    chosen = [p for p in program.parameters if task.trainable(p)]
    # Adam without decay: a weight that no batch reaches, such as the other branch of an If, keeps its value.
    og.optimizer.Adam(task.learning_rate, parameters=chosen).minimize(loss)
    executor = og.Executor()
    carried: Feeds = {}
    batches = list(task.batches())
    with tqdm(batches, desc=task.name, unit="step") as bar:
        for batch in bar:
            value, *states = executor.run(program, carried | batch, [loss, *task.carries])
            carried = dict(zip(task.carries.values(), states, strict=True))
            bar.set_postfix(loss=f"{float(value):.4f}", refresh=False)
    tuned = out / f"{task.name}.onnx"
    og.save_onnx(program, tuned)
    return tuple(task.measure(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])) for model in (path, tuned))
