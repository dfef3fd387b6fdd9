"""Write the graph of a model as a web page: what carries, stops or refuses gradients, shapes, values, folded repetitions.

The page is one file that needs no network. Click an operator for its types, weights and neighbours, a block to fold or unfold it.

examples:
  onnxgrad view m.onnx
  onnxgrad view m.onnx -o graph.html --feeds inputs.npz
  onnxgrad view run/
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onnxgrad.cli.common import add_model, add_sizes, feeds_for, load, sizes_of
from onnxgrad.cli.settings import make_trainer, read_settings
from onnxgrad.core.ir.program import Program
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.pages import view_program
from onnxgrad.training.run.progress import Working


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "path of an .onnx file, or folder of a run, whose frozen weights and adapters are shown")
    add_sizes(parser)
    parser.add_argument("-o", "--output", metavar="FILE.html", help="page to write (default: beside the model, .html)")
    parser.add_argument("--feeds", metavar="FILE.npz", help="run the model on these inputs and show the values of all results")
    parser.add_argument("--random", action="store_true", help="the same on random inputs")
    parser.add_argument("--seed", type=int, default=0, help="random seed of these inputs (default %(default)s)")


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
