"""Write a model that computes the outputs of a model and their gradients.

Probabilities that come from Softmax add up to 1, so the gradient of their sum is 0: that of the logits before it is written.

examples:
  onnxgrad grad m.onnx -o g.onnx                              gradients of the summed outputs by all weights
  onnxgrad grad m.onnx --of logits --wrt image -o saliency.onnx
  onnxgrad grad m.onnx --class 3 --wrt image -o saliency.onnx  of one class of each output
  onnxgrad grad m.onnx --of score --wrt features --cotangent -o vjp.onnx    a vector-Jacobian product
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_lowering, add_model

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--of", nargs="+", metavar="OUTPUT", help="outputs or inner tensors to differentiate (default: all floating-point outputs)"
    )
    parser.add_argument(
        "--wrt", nargs="+", metavar="NAME", help="inputs, weights or inner tensors to differentiate by (default: all weights)"
    )
    parser.add_argument(
        "--cotangent",
        action="store_true",
        help="take cotangents (the weights of the sum of the outputs) as further inputs: a vector-Jacobian product",
    )
    parser.add_argument(
        "--class",
        dest="label",
        type=int,
        metavar="K",
        help="differentiate class K of the outputs instead of the sum of all classes",
    )
    add_lowering(parser, "the file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.onnx", help="file to write")
    parser.add_argument("--json", action="store_true", help="print JSON")
