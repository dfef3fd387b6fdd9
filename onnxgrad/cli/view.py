"""What ``onnxgrad view`` does; its arguments are in ``options/view.py``."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onnxgrad.cli.common import feeds_for, load, sizes_of
from onnxgrad.cli.settings import make_trainer, read_settings
from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.pages import view_program
from onnxgrad.training.run.progress import Working


def run(options: argparse.Namespace) -> int:
    path = Path(options.model)
    folder = path.is_dir()
    output = Path(options.output or (path / "graph.html" if folder else path.with_suffix(".html").name))
    with Working("reading the model") as working:
        program = _of_run(options.model) if folder else load(options)
        values = None
        if options.feeds is not None or options.random:
            working.say("running the model")
            values = _values(program, feeds_for(program, options.feeds, sizes_of(options.dim), options.seed))
        working.say("trying every rule")
        view_program(program, output, name=path.name, values=values)
    print(f"wrote {output}")
    return 0


def _of_run(folder: str) -> Program:
    trainer = make_trainer(read_settings(folder), folder)
    trained = {p.name for p in trainer.trained}
    for p in trainer.inference.parameters:
        p.trainable = p.name in trained
    return trainer.inference


def _values(program: Program, feeds: dict[str, Any]) -> dict[str, Any]:
    names = [v.name for op in program.global_block().ops for v in op.outputs if v is not None and v.value is None]
    fetched = Executor().run(program, feeds, names)
    return {**feeds, **{name: value for name, value in zip(names, fetched, strict=True) if hasattr(value, "shape")}}
