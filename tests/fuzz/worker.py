"""The process that tries mutants: ``python -m tests.fuzz.worker SEEDS KEY FIRST STOP SECONDS MEGABYTES``.

It says what it begins and how each ended, a line of JSON each. What takes longer than it may ends the process with a traceback.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import onnxgrad as og
from onnxgrad.cli.info import describe
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.errors import OnnxGradError, RuleError
from onnxgrad.internal import state
from onnxgrad.training import add_lora, merge_lora
from onnxgrad.training.surgery.batch_norm import fold_added_batch_norm
from onnxgrad.training.surgery.heads import remove_added_dropout
from tests.fuzz.mutate import mutant
from tests.fuzz.seeds import EXTERNAL, EXTERNAL_BYTES

_ROOT = str(Path(og.__file__).parent)


def read_seeds(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads((folder / "groups.json").read_text())
    return found


def make(folder: Path, groups: dict[str, list[str]], key: str, number: int) -> tuple[str, bytes]:
    """The seed of mutant ``number``, and its bytes."""
    draw = random.Random(f"{key}/{number}")
    group = draw.choice(list(groups))
    name = draw.choice(groups[group])
    return name, mutant((folder / f"{name}.onnx").read_bytes(), f"{key}/{number}")


class Outcome:
    """How far a mutant came, and what was wrong on the way."""

    def __init__(self) -> None:
        self.stages: dict[str, str] = {}
        self.problem: dict[str, str] | None = None
        self.rule = ""

    def attempt(self, stage: str, action: Callable[[], Any]) -> Any:
        """The result, or None where it was refused; what is refused without a type of ours is a finding."""
        try:
            with state.isolated(), np.errstate(all="ignore"):
                found = action()
            self.stages[stage] = "ok"
            return found
        except OnnxGradError as error:
            self.stages[stage] = type(error).__name__
            if isinstance(error, RuleError):
                self.rule = str(error)
        except (Exception, RecursionError, MemoryError) as error:
            self.stages[stage] = "untyped"
            if self.problem is None:
                self.problem = {"stage": stage, "type": type(error).__name__, "at": _where(error), "text": str(error)[:200]}
        return None


def _where(error: BaseException) -> str:
    """The innermost line of ours"""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(_ROOT)]
    last = frames[-1]
    return f"{last.filename.removeprefix(_ROOT + '/')}:{last.lineno} {last.name}"


def attempt(path: Path) -> Outcome:
    """Everything that a user would do with a file."""
    outcome = Outcome()
    program = outcome.attempt("from_onnx", lambda: og.from_onnx(path))
    if program is None:
        return outcome
    outcome.attempt("info", lambda: describe(program, {}))
    outcome.attempt("explain", lambda: str(og.explain(program)))
    outcome.attempt("to_onnx", lambda: og.to_onnx(program).SerializeToString())
    outcome.attempt("run", lambda: _run(program, program.outputs))
    found = outcome.attempt("gradients", lambda: _gradients(program)) or []
    if found:
        outcome.attempt("to_onnx of gradients", lambda: og.to_onnx(program, found).SerializeToString())
        outcome.attempt("run of gradients", lambda: _run(program, found))
    outcome.attempt("lora", lambda: _adapt(og.from_onnx(path)))
    outcome.attempt("what was added", lambda: _take_out(og.from_onnx(path)))
    outcome.attempt("a step", lambda: _step(og.from_onnx(path)))
    outcome.attempt("bytes", lambda: _as_bytes(path))
    if program.imported is not None and program.imported.training_info:
        outcome.attempt("training_info", lambda: _train_on(path))
    return outcome


def _adapt(program: Program) -> None:
    add_lora(program, rank=2)
    _run(merge_lora(program), merge_lora(program).outputs)


def _take_out(program: Program) -> None:
    merged = merge_lora(program)
    remove_added_dropout(merged)
    fold_added_batch_norm(merged)
    _run(merged, merged.outputs)


def _step(program: Program) -> None:
    program.train()
    found = next((v for v in program.outputs if v.is_float), None)
    if found is None or not program.parameters:
        return
    with og.static.program_guard(program, og.static.Program()):
        loss = (found * found).mean()
        og.optimizer.Adam(0.01).minimize(loss)
    _run(program, [loss])
    og.to_training_step(program, [loss])


def _as_bytes(path: Path) -> None:
    written = og.static.Program.parse_from_string(path.read_bytes()).serialize_to_string()
    og.static.Program.parse_from_string(written).serialize_to_string()


def _train_on(path: Path) -> None:
    training = og.from_training_info(path)
    executor = og.Executor(threads=1)
    executor.run(training.startup, {}, [])
    _run(training.program, training.fetches)


def _gradients(program: Program) -> list[Variable]:
    targets = [v for v in program.outputs if v.is_float and not v.is_leaf]
    sources = [v for v in [*program.inputs, *program.parameters] if v.is_float]
    for v in sources:
        v.stop_gradient = False
    if not targets or not sources:
        return []
    return [g for g in og.gradients(targets, sources) if g is not None]


def _run(program: Program, fetches: list[Variable]) -> None:
    feed = {v.name: _value(v) for v in program.inputs}
    og.Executor(threads=1).run(program, feed, fetches)


def _value(v: Variable) -> Any:
    dims = v.type.dims if isinstance(v.type, TensorType) else None
    shape = tuple(min(d, 1000) if isinstance(d, int) else 2 for d in dims or ())
    if int(np.prod(shape, dtype=float)) > 10**6:
        shape = tuple(min(d, 2) for d in shape)
    if v.is_float:
        return np.full(shape, 0.5, v.dtype.numpy)
    return np.ones(shape, v.dtype.numpy)


def serve(numbers: range, attempts: Callable[[int], tuple[str, Callable[[], Outcome]]], seconds: float, megabytes: int) -> None:
    """Try numbers one after the other: say what each is, and how it ended. Ends the process.

    Args:
        numbers: to be tried.
        attempts: gives what a number is, and what tries it.
        seconds: that one may take.
        megabytes: of address space of this process.
    """
    os.environ["ONNXGRAD_VERIFY"] = "0"  # onnx.checker may end the process over a damaged graph
    limit = megabytes << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What libraries print must not mix with what is said to the driver.
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    for number in numbers:
        name, attempt_it = attempts(number)
        print(json.dumps({"begin": number, "seed": name}), file=said)
        faulthandler.dump_traceback_later(seconds, exit=True)
        started = time.perf_counter()
        outcome = attempt_it()
        faulthandler.cancel_dump_traceback_later()
        took = time.perf_counter() - started
        line = {"end": number, "took": took, "stages": outcome.stages, "problem": outcome.problem, "rule": outcome.rule}
        print(json.dumps(line), file=said)
    os._exit(0)  # not the destructors of a runtime that was fed nonsense


def main(arguments: list[str]) -> None:
    folder, key, first, stop, seconds, megabytes = arguments
    groups = read_seeds(Path(folder))
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / EXTERNAL).write_bytes(EXTERNAL_BYTES)
        path = Path(place) / "model.onnx"

        def attempts(number: int) -> tuple[str, Callable[[], Outcome]]:
            name, data = make(Path(folder), groups, key, number)
            path.write_bytes(data)
            return name, lambda: attempt(path)

        serve(range(int(first), int(stop)), attempts, float(seconds), int(megabytes))


if __name__ == "__main__":
    main(sys.argv[1:])
