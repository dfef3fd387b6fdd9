"""Show the inputs, outputs and weights of a model, and the memory that training takes.

examples:
  onnxgrad info m.onnx
  onnxgrad info m.onnx --all --dim batch=64
  onnxgrad info m.onnx --json
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_model, add_sizes

__all__ = ["SHOWN", "add_arguments"]

SHOWN = 20
"""Weights that are listed without ``--all``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_sizes(parser)
    parser.add_argument("--all", action="store_true", help=f"list all weights and constants, not only the first {SHOWN}")
    parser.add_argument("--json", action="store_true", help="print JSON")
