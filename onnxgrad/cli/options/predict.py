"""Write what a model says of data to a .csv, .json or .npz file, masks to a folder, or pictures with the answers drawn.

Of a run, the best checkpoint answers, and names of classes and labels that the training data had are written beside their scores.
Masks have the size of their pictures; of a detector, a table has a row for each box, in pixels of the picture.

examples:
  onnxgrad predict run/ --data new_photos/ --out said.csv
  onnxgrad predict m.onnx --data new.csv --out said.npz
  onnxgrad predict run/ --data new_pictures/ --out masks/
  onnxgrad predict detector.onnx --data new_photos/ --out boxes.csv --draw drawn/
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_data

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="folder of a run of onnxgrad train, or path of an .onnx file")
    parser.add_argument("--out", metavar="FILE", help="file to write: .csv, .json or .npz; a folder for masks")
    parser.add_argument(
        "--draw",
        metavar="FOLDER",
        help="also draw the answers: a .png file for each picture, of its name, with boxes, masks or words",
    )
    parser.add_argument(
        "--least", type=float, default=0.25, metavar="P", help="of a detector: smallest probability of a box (default %(default)s)"
    )
    parser.add_argument("--checkpoint", default="best", help="of a run: best (default), last, or the path of a checkpoint")
    parser.add_argument("--batch-size", type=int, default=32, help="examples per batch (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_data(parser, validation=False)
