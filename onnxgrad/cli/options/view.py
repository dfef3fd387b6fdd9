"""Draw the graph of a model on a web page: gradient states in colour, shapes, values, repeated blocks folded.

The page is one file that needs no network. Click an operator for its types, weights and neighbours, a block to fold or unfold it.

examples:
  onnxgrad view m.onnx
  onnxgrad view m.onnx -o graph.html --feeds inputs.npz
  onnxgrad view run/
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_model, add_sizes

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser, "path of an .onnx file, or folder of a run, whose frozen weights and adapters are shown")
    add_sizes(parser)
    parser.add_argument("-o", "--output", metavar="FILE.html", help="page to write (default: beside the model, .html)")
    parser.add_argument("--feeds", metavar="FILE.npz", help="run the model on these inputs and show the values of all results")
    parser.add_argument("--random", action="store_true", help="run the model on random inputs and show the values of all results")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the inputs (default %(default)s)")
