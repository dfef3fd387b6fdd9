"""Write predictions of a model to a .csv, .json or .npz file, masks to a folder, or images with the predictions drawn.

For a run, the best checkpoint predicts, and class names of the training data are written beside their scores.
Masks have the size of their images; for a detector, the table has a row for each box, in pixels of the image.

examples:
  onnxgrad predict run/ --data new_photos/ --out predictions.csv
  onnxgrad predict m.onnx --data new.csv --out predictions.npz
  onnxgrad predict run/ --data new_images/ --out masks/
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
        help="also draw the predictions: a .png file for each image, with boxes, masks or class names",
    )
    parser.add_argument(
        "--least", type=float, default=0.25, metavar="P", help="for a detector: smallest probability of a box (default %(default)s)"
    )
    parser.add_argument("--checkpoint", default="best", help="for a run: best (default), last, or the path of a checkpoint")
    parser.add_argument("--batch-size", type=int, default=32, help="examples per batch (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_data(parser, validation=False)
