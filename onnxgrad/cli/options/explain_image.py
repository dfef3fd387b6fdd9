"""Explain a model's score for an image: saliency, Grad-CAM and integrated gradients, drawn over the image.

saliency: gradient of the score by each pixel (Simonyan et al. 2014); grad-cam: the last feature maps, weighted by their gradients
(Selvaraju et al. 2017); integrated: gradients along the path from a black image (Sundararajan et al. 2017). The preprocessing
of images is read from the file where it can be, and printed.

examples:
  onnxgrad explain-image m.onnx cat.jpg
  onnxgrad explain-image m.onnx cat.jpg --method grad-cam --class 281 -o cat.png
  onnxgrad explain-image m.onnx cat.jpg --image-size 224x224 --image-mean 0.5 --image-std 0.5
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_model

__all__ = ["add_arguments"]

_METHODS = ("grad-cam", "integrated", "saliency")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("picture", help="an image file")
    parser.add_argument("--method", nargs="+", choices=_METHODS, default=list(_METHODS), help="methods to show (default: all)")
    parser.add_argument("--class", dest="label", type=int, metavar="K", help="class to explain (default: the predicted one)")
    parser.add_argument("--of", metavar="OUTPUT", help="scores to explain (default: the first floating-point output)")
    parser.add_argument("--layer", metavar="TENSOR", help="feature maps for grad-cam (default: of the last convolution)")
    parser.add_argument("--steps", type=int, default=32, help="steps of integrated gradients (default %(default)s)")
    parser.add_argument("--image-size", metavar="HxW", help="height and width of images, where the model has no fixed size")
    parser.add_argument("--image-mean", type=float, nargs="+", metavar="M", help="mean of values from 0 to 1, of each channel")
    parser.add_argument(
        "--image-std", type=float, nargs="+", metavar="S", help="standard deviation of values from 0 to 1, of each channel"
    )
    parser.add_argument("--image-order", choices=("rgb", "bgr"), help="order of the channels (default: read from the file)")
    parser.add_argument("--image-white", type=float, metavar="V", help="value of white in images of more than 8 bits")
    parser.add_argument(
        "--ignore-record", action="store_true", help="ignore the data record of the training, and detect the preprocessing again"
    )
    parser.add_argument("-o", "--output", metavar="FILE.png", help="image to write (default: the image's name, .explained.png)")
    parser.add_argument("--json", action="store_true", help="print JSON")
