"""Compute what a step takes on many ranks: memory of each, bytes it sends, and seconds, from one step that is measured here.

The whole batch is cut over the ranks. Data parallel ranks hold everything; with shares (train --sharding 1 or 2) each updates a
range of the gradients' buffers; a pipeline (--pipeline K) has K stages in a row of ranks. The loss is the mean square of the
outputs, as any other takes about as long.

examples:
  onnxgrad plan m.onnx --ranks 64 --link 100Gbit --batch 4096
  onnxgrad plan m.onnx --ranks 64 --link 25Gbit --latency 2e-5 --batch 512 --seq 256 --pipeline 4
  onnxgrad plan m.onnx --ranks 1024 --link 400Gbit --step-seconds 0.25 --json
"""

# Tests: tests/cli/test_plan.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_model, add_sizes

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--ranks", type=int, required=True, metavar="N", help="how many processes train together")
    parser.add_argument(
        "--link", required=True, metavar="BANDWIDTH", help="of each rank in each direction: 100Gbit, 800Mbit, or 3GB, a second"
    )
    parser.add_argument(
        "--latency", type=float, default=5e-6, metavar="SECONDS", help="of a message besides its bytes (default %(default)s)"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="examples of the whole batch (default: 32 for each rank)")
    parser.add_argument("--seq", type=int, metavar="N", help="size of every dynamic dimension that is not the batch")
    add_sizes(parser)
    parser.add_argument("--optimizer", default="adamw", metavar="NAME", help="by name, as for train (default %(default)s)")
    parser.add_argument("--pipeline", type=int, default=0, metavar="STAGES", help="plan a pipeline of so many stages as well")
    parser.add_argument(
        "--micro-batches", type=int, default=0, metavar="N", help="of a pipeline: parts of a batch in flight (default: two a stage)"
    )
    parser.add_argument(
        "--step-seconds",
        type=float,
        metavar="SECONDS",
        help="what a rank computes in a step with its part of the batch, on another machine (default: measured here)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="of the step that is measured (default: all cores)")
    parser.add_argument("--json", action="store_true", help="print JSON")
