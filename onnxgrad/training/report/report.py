"""Report: a callback that keeps one self-contained page on a run up to date."""

from __future__ import annotations

import json
import math
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxgrad.core.interop.weights import is_table
from onnxgrad.errors import OnnxGradError
from onnxgrad.internal.arguments import checked
from onnxgrad.internal.files import read_whole
from onnxgrad.internal.processors import usable_cores
from onnxgrad.pages.page import asset, page
from onnxgrad.training.report.examples import judge_examples
from onnxgrad.training.report.module_names import module_names
from onnxgrad.training.run.callbacks import Callback
from onnxgrad.training.run.folder import write_atomically
from onnxgrad.training.run.plan import Row, monitored_value
from onnxgrad.version import __version__

if TYPE_CHECKING:
    from onnxgrad.training.trainer import Trainer

__all__ = ["Report"]

_STEPS, _SAMPLES, _ELEMENTS, _LAYERS = 1200, 80, 1 << 16, 150
_PACKAGES = ("onnxruntime", "onnx", "numpy")
_BODY = """<header><h1></h1><p id="said" class="faint"></p><nav id="contents"></nav></header><main id="parts"></main>
"""


class Report(Callback):
    """Writes ``report.html`` (and ``report.json``, which a resumed run continues) into the folder of the run, after each epoch.

    The page has the curves, the learning rate, norms of gradients and sizes of updates by layer, the confusion matrix or the
    residuals, the worst and the best validation examples, what is frozen and why, the memory plan and the environment. Weights are
    what they would be without it.

    Args:
        command: what started the run; None for the command line of the process.

    Example:
        >>> trainer.fit(data, 5, validation, out="run", callbacks=[Report()])  # doctest: +SKIP
    """

    watches_gradients = True

    @checked
    def __init__(self, command: str | None = None) -> None:
        self.command = shlex.join(sys.argv) if command is None else command
        self.steps: list[Row] = []
        self.samples: list[dict[str, Any]] = []
        self._every_step, self._every_sample = 1, 1
        self._before: list[np.ndarray[Any, Any]] | None = None
        self._examples: dict[str, Any] | None = None
        self._seconds = 0.0
        self._found: dict[str, Any] = {}
        self._tables: list[dict[str, Any]] = []

    def on_begin(self, trainer: Trainer, plan: dict[str, Any]) -> None:
        self._plan, self._began = plan, time.monotonic()
        if plan["out"] is None:
            raise OnnxGradError("Report() has no folder to write to. Give fit out=.")
        self.folder = Path(plan["out"])
        self._resume(trainer.step_number)
        self._names = module_names(trainer.program)
        self._layers = _layers([self._names[p.name] for p in trainer.trained])
        self._look(trainer)

    def on_step(self, trainer: Trainer, row: Row) -> None:
        step = row["step"]
        if step % self._every_step == 0:
            self.steps.append({**row, "seconds": round(self._seconds + time.monotonic() - self._began, 5)})
            if len(self.steps) > _STEPS:
                self._every_step *= 2
                self.steps = [kept for kept in self.steps if kept["step"] % self._every_step == 0]
        updates = step // trainer.accumulate
        if self._before is not None and step % trainer.accumulate == 0:
            self._sample(trainer, step, self._before)
            self._before = None
            if len(self.samples) > _SAMPLES:
                self._every_sample *= 2
                self.samples = self.samples[1::2]
        if (updates + 1) % self._every_sample == 0 and step % trainer.accumulate == 0:
            self._look(trainer)

    def on_epoch(self, trainer: Trainer, row: Row) -> None:
        self.write(trainer)

    def on_end(self, trainer: Trainer, row: Row) -> None:
        failed = sys.exc_info()[0] is not None
        if not hasattr(self, "folder") or (failed and not trainer.history):
            return
        if self._plan["validation"] is not None and not failed:
            try:
                self._examples = judge_examples(trainer, self._plan["validation"], self._plan["batch_size"])
            except OnnxGradError as error:
                self._examples = {"why": str(error)}
        self.write(trainer)

    def write(self, trainer: Trainer) -> None:
        """Write both files as of now.

        Args:
            trainer: whose run is reported.
        """
        seconds = self._seconds + time.monotonic() - self._began
        kept = {"steps": self.steps, "samples": self.samples, "seconds": seconds, "every": [self._every_step, self._every_sample]}
        write_atomically(self.folder / "report.json", json.dumps(kept).encode())
        self._found = self._described(trainer, seconds)
        self._render()

    def add(self, title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Put a table under the curves of the page that was written last.

        Args:
            title: of the table.
            head: of the columns.
            rows: one value for each column.
        """
        self._tables.append({"title": title, "head": list(head), "rows": [list(row) for row in rows]})
        if self._found:
            self._render()

    def _render(self) -> None:
        contents = {**self._found, "tables": self._tables}
        text = page(f"{contents['name']}: report", _BODY, asset("report.css"), asset("report.js"), contents)
        write_atomically(self.folder / "report.html", text.encode())

    def _look(self, trainer: Trainer) -> None:
        self._before = [_some(p.get_value()) for p in trainer.trained]

    def _sample(self, trainer: Trainer, step: int, before: list[np.ndarray[Any, Any]]) -> None:
        """Norms of gradients, and how large the last update was for the weights, by layer"""
        if trainer.gradient_norms is None:
            return
        squares = {name: [0.0, 0.0, 0.0] for name in self._layers}
        norms = np.asarray(trainer.gradient_norms, np.float64)
        for p, old, norm in zip(trainer.trained, before, norms, strict=True):
            value = p.get_value()
            new, weight = _some(value), value.size / max(1, old.size)
            sums = squares[_layer_of(self._names[p.name], self._layers)]
            for k, term in enumerate((float(norm) ** 2, weight * float(((new - old) ** 2).sum()), weight * float((old**2).sum()))):
                sums[k] += term
        rows = [[math.sqrt(g), math.sqrt(u / w) if w > 0 else None] for g, u, w in squares.values()]
        self.samples.append({"step": step, "gradient": [g for g, _ in rows], "update": [u for _, u in rows]})

    def _resume(self, step: int) -> None:
        """Go on from what an earlier call left in the folder"""
        path = self.folder / "report.json"
        if step == 0 or not path.is_file():
            return
        try:
            stored = json.loads(read_whole(path))
            self.steps = [row for row in stored["steps"] if row["step"] <= step]
            self.samples = [row for row in stored["samples"] if row["step"] <= step]
            self._seconds, (self._every_step, self._every_sample) = float(stored["seconds"]), stored["every"]
        except (ValueError, KeyError, TypeError):
            self.steps, self.samples = [], []  # damaged: the curves begin here

    def _described(self, trainer: Trainer, seconds: float) -> dict[str, Any]:
        samples = [row for row in self.samples if len(row["gradient"]) == len(self._layers)]
        return {
            "name": self.folder.resolve().name,
            "history": list(trainer.history),
            "before": trainer.before,
            "kept": _kept_epoch(trainer.history, self._plan["monitor"]),
            "evaluations": list(trainer.evaluations),
            "steps": [_rounded(row) for row in self.steps],
            "layers": self._layers,
            "samples": [{k: _rounded(v) for k, v in row.items()} for row in samples],
            "epochs": self._plan["epochs"],
            "seconds": seconds,
            "examples": self._examples,
            "trained": [{"name": self._names[p.name], "shape": list(p.static_shape or ())} for p in trainer.trained],
            "frozen": _frozen(trainer, self._names),
            "remarks": list(dict.fromkeys(trainer.remarks)),
            "memory": _memory(trainer),
            "environment": _environment(trainer),
            "command": self.command,
        }


def _kept_epoch(history: Sequence[Row], monitor: str | None) -> int | None:
    """Return the epoch whose weights are exported: the first of the best ones"""
    return min(history, key=lambda row: monitored_value(row, monitor))["epoch"] if history else None


def _some(value: Any) -> np.ndarray[Any, Any]:
    """At most 65,536 elements, evenly spread, as a copy in float64"""
    flat = np.asarray(value).reshape(-1)
    return flat[:: max(1, len(flat) // _ELEMENTS)].astype(np.float64)


def _layers(names: Sequence[str]) -> list[str]:
    """Weights, or what their names have in common before the last dot or slash where there are many; the shorter list"""
    layers = list(dict.fromkeys(names))
    while len(layers) > _LAYERS:
        shorter = list(dict.fromkeys(_parent(name) for name in layers))
        if len(shorter) == len(layers):
            return [*layers[: _LAYERS - 1], "*"]
        layers = shorter
    return layers


def _parent(name: str) -> str:
    cut = max(name.rfind("."), name.rfind("/"))
    return name[:cut] if cut > 0 else name


def _layer_of(name: str, layers: Sequence[str]) -> str:
    known = set(layers)
    while name not in known:
        shorter = _parent(name)
        if shorter == name:
            return "*"
        name = shorter
    return name


def _rounded(value: Any) -> Any:
    """Six digits, so that the page stays small"""
    if isinstance(value, dict):
        return {name: _rounded(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value


def _frozen(trainer: Trainer, names: dict[str, str]) -> list[dict[str, Any]]:
    trained = {p.name for p in trainer.trained}
    rows = []
    for p in trainer.program.parameters:
        if p.name not in trained and not any(fnmatchcase(p.name, f"*{end}") for end in ("@MASTER", "@ACCUMULATED")):
            chosen = any(p is one for one in trainer.chosen)
            why = "no gradient reaches it" if chosen else p.reason if is_table(p) else "it was not chosen (trainable=, freeze=)"
            rows.append({"name": names.get(p.name, p.name), "shape": list(p.static_shape or ()), "why": why})
    return rows


def _memory(trainer: Trainer) -> list[list[Any]]:
    def bytes_of(variables: Any) -> int:
        return sum(math.prod(v.static_shape or (0,)) * int(v.dtype.numpy.itemsize) for v in variables)

    parameters = list(trainer.program.parameters)
    state = [v for v in trainer.program.list_vars() if v.persistable and v not in set(parameters)]
    rows: list[list[Any]] = [["weights", bytes_of(parameters)], ["of them trained", bytes_of(trainer.trained)]]
    rows += [["state of the optimizer and statistics", bytes_of(state)]]
    plan = trainer.program.memory_plan
    if plan is None:
        rows += [["activations and gradients", "nothing is recomputed; turn it on by --recompute or --memory-budget"]]
    else:
        rows += [["activations and gradients at the peak", plan.peak], ["without recomputation", plan.peak_without]]
        rows += [["operators that run twice", f"{plan.recomputed} of {plan.operators}"]]
    return rows


def _environment(trainer: Trainer) -> list[list[str]]:
    def installed(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not found"

    place = trainer.executor.place
    rows = [["onnxgrad", __version__], *([name, installed(name)] for name in _PACKAGES)]
    rows += [["Python", platform.python_version()], ["system", f"{platform.system()} {platform.release()}, {platform.machine()}"]]
    rows += [["processors", str(usable_cores())], ["device", str(place)], ["seed", str(trainer.seed)]]
    return [*rows, ["optimizer", type(trainer.optimizer).__name__]]
