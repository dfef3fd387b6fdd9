"""Print the loss and the metrics of a model on data.

For a run, the best checkpoint is evaluated, by the loss and the metrics of its training unless others are named.

examples:
  onnxgrad evaluate run/ --data test.csv
  onnxgrad evaluate run/ --data test_photos/ --metric f1 auc --json
  onnxgrad evaluate run/ --data chat.jsonl --compare 5
  onnxgrad evaluate m.onnx --data test.npz --loss cross_entropy --target y --metric accuracy
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
from typing import get_args

from onnxgrad.cli.options.shared import add_data
from onnxgrad.internal.words import DETECTION, LossName

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="folder of a run of onnxgrad train, or path of an .onnx file")
    parser.add_argument("--loss", choices=sorted([*get_args(LossName), DETECTION]), help="for an .onnx file: loss")
    parser.add_argument("--output", metavar="OUTPUT", help="for an .onnx file: output that loss and metrics read")
    parser.add_argument("--target", help="for an .onnx file: column with the targets")
    parser.add_argument("--metric", nargs="+", metavar="NAME", help="metrics, as for train (default: the metrics of the run)")
    parser.add_argument("--checkpoint", default="best", help="for a run: best (default), last, or the path of a checkpoint")
    parser.add_argument(
        "--compare",
        type=int,
        metavar="N",
        help="for a run on chats: show answers to the first N lines of --data before and after training, beside the answers "
        "of the data",
    )
    parser.add_argument("--batch-size", type=int, default=32, help="examples per batch (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_data(parser, validation=False)
