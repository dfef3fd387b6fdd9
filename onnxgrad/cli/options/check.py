"""Report which operators of a model propagate, stop or refuse gradients, then check its gradients numerically.

The numerical check compares directional derivatives of a randomly weighted sum of the outputs with finite differences, for one
weight or input at a time: in float64 where onnxruntime can, over several steps that are extrapolated, with an estimate of their
error. A gradient is WRONG where it differs by more than that estimate can explain; where that cannot tell, the reason is said.

exit code: 1 if a gradient is wrong or cannot be written, else 0

examples:
  onnxgrad check m.onnx
  onnxgrad check m.onnx --feeds inputs.npz --wrt 'head.*'
  onnxgrad check m.onnx --no-numeric --json
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_model, add_sizes

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_sizes(parser)
    parser.add_argument("--feeds", metavar="FILE.npz", help="inputs for the numerical check (default: random ones)")
    parser.add_argument("--wrt", nargs="+", metavar="NAME", help="weights and inputs to check, by name or pattern (default: all)")
    parser.add_argument("--tolerance", type=float, default=0.05, help="relative difference accepted (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of inputs and directions (default %(default)s)")
    parser.add_argument("--no-numeric", action="store_true", help="skip the numerical check")
    parser.add_argument("--json", action="store_true", help="print JSON")
