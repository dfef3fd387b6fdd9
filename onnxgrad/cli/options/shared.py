"""Arguments of several commands."""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse
import re
from typing import Any, get_args

from onnxgrad.internal.words import DataPart, ImageFit, Provider, SoundJoin

__all__ = ["add_data", "add_lowering", "add_model", "add_sizes", "parse_bytes"]


def add_model(
    parser: argparse.ArgumentParser, what: str = "path of an .onnx file, or folder of a run, for its best checkpoint"
) -> None:
    parser.add_argument("model", help=what)
    parser.add_argument(
        "--expand",
        choices=["com.microsoft"],
        help="rewrite onnxruntime's own operators as standard ones, for other runtimes; gradients do not need it",
    )


def add_sizes(parser: Any) -> None:
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="size of a dynamic dimension, by its name or as INPUT.AXIS; may be repeated",
    )


def add_lowering(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--lowering",
        choices=get_args(Provider),
        help=f"write {what} with operators in the forms that this execution provider runs fastest (default: plain operators)",
    )


def add_data(group: Any, validation: bool = True) -> None:
    group.add_argument(
        "--data",
        metavar="PATH",
        help="data: .npz, .npy, .csv, .tsv, .parquet; a folder with a sub-folder of images for each class, or a .csv of "
        "paths and labels; "
        "sounds (.wav, .flac) likewise; "
        "boxes (COCO .json, YOLO data.yaml, VOC folder, .csv), masks (images/ and masks/), regions of text (gt_*.txt, Label.txt); "
        "text, chats or numbers (.jsonl, .txt); FILE.py[:FUNCTION] that yields batches",
    )
    if validation:
        group.add_argument("--val", metavar="PATH", help="validation data, or the share of --data to hold out, such as 0.1")
        group.add_argument("--flip", action="store_true", help="mirror half of the images in training")
        group.add_argument("--crop", action="store_true", help="crop images at random in training")
        group.add_argument("--color", type=float, default=0.0, metavar="X", help="change colours in training, by up to 1 +- X")
        group.add_argument("--scale", type=float, default=0.0, metavar="X", help="scale images in training, by up to 1 +- X")
        group.add_argument(
            "--translate", type=float, default=0.0, metavar="X", help="move images in training, by up to X of the size"
        )
        group.add_argument(
            "--mosaic",
            type=float,
            default=0.0,
            metavar="PROBABILITY",
            help="join four images with boxes or masks in training, except in the last tenth of the epochs",
        )
        group.add_argument("--noise", metavar="FOLDER", help="add a random part of these sounds as noise in training")
        group.add_argument("--snr", type=float, nargs=2, metavar=("LOW", "HIGH"), help="signal-to-noise ratio in dB (default 0 20)")
        group.add_argument(
            "--shift", type=float, default=0.0, metavar="MS", help="move sounds in training by up to MS milliseconds"
        )
        group.add_argument(
            "--buffer", type=int, metavar="N", help="size in examples of the shuffle buffer for data that is read piece by piece"
        )
    group.add_argument("--image-size", metavar="HxW", help="height and width of images, where the model has no fixed size")
    group.add_argument("--image-mean", type=float, nargs="+", metavar="M", help="mean of values from 0 to 1, of each channel")
    group.add_argument(
        "--image-std", type=float, nargs="+", metavar="S", help="standard deviation of values from 0 to 1, of each channel"
    )
    group.add_argument("--image-order", choices=("rgb", "bgr"), help="order of the channels (default: read from the file)")
    group.add_argument(
        "--image-fit",
        choices=get_args(ImageFit),
        help="how images of another size are resized: stretched, with bars on both sides, or with bars on the right and below "
        "(default: letterbox with boxes, else stretch)",
    )
    group.add_argument(
        "--part",
        choices=get_args(DataPart),
        help="part of data that has several (default: train; val for --val and evaluate)",
    )
    group.add_argument("--colours", metavar="FILE.csv", help="table of name,red,green,blue for masks whose classes are colours")
    group.add_argument("--image-white", type=float, metavar="V", help="value of white in images of over 8 bits (default 65535)")
    _add_sounds(group)
    group.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="INPUT=A,B",
        help="columns of a table that form an input or target, in this order; may be repeated (default: as trained, else by name)",
    )
    group.add_argument("--fill", metavar="HOW", help="fill empty cells of inputs: median, mean (of training data) or a number")
    group.add_argument(
        "--decimal", choices=(".", ","), help="decimal separator of numbers in a table (default: read from the cells)"
    )
    group.add_argument(
        "--ignore-record",
        action="store_true",
        help="ignore the data record of the training, and detect columns and preprocessing again",
    )
    group.add_argument(
        "--skip-broken",
        action="store_true",
        help="skip images, masks and rows of tables that cannot be read, and list them with the reasons in a file",
    )
    group.add_argument(
        "--skipped",
        metavar="FILE.csv",
        help="with --skip-broken: file for the list (default: one in the run, else skipped.csv)",
    )
    group.add_argument("--tokenizer", metavar="FILE.json", help="tokenizer.json of the model, for text and chats")
    group.add_argument("--max-length", type=int, help="maximum number of tokens in a row (default: as trained, else 512)")
    group.add_argument("--pack", action="store_true", help="pack several short texts into one row")


def _add_sounds(group: Any) -> None:
    group.add_argument("--sound-rate", type=int, metavar="HZ", help="sample rate of the model's input")
    group.add_argument(
        "--sound-length", type=float, metavar="SECONDS", help="length of a window, where the model has no fixed length"
    )
    group.add_argument(
        "--sound-hop", type=float, metavar="SECONDS", help="distance between windows of a long sound in evaluation and prediction"
    )
    group.add_argument(
        "--sound-join", choices=get_args(SoundJoin), help="how outputs of the windows of one sound are combined (default: mean)"
    )
    group.add_argument(
        "--sound-full",
        type=float,
        metavar="V",
        help="full scale of a sample: 1 (default), or 32768 for models that read 16-bit samples",
    )
    group.add_argument(
        "--chunk",
        type=int,
        nargs="+",
        metavar="SAMPLES",
        help="for a streaming model, which passes a state from call to call: samples of a chunk, and samples before it that are "
        "read again; gradients flow through all chunks of a window",
    )
    group.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="IN=OUT",
        help="for a streaming model: names of the input and the output of a state",
    )
    group.add_argument(
        "--front",
        nargs="+",
        action="append",
        default=[],
        metavar="FILE.onnx",
        help="feature extractor that runs on each window before the model, and the steps between its own windows "
        "where it takes a fixed number of steps; may be repeated",
    )


def parse_bytes(text: str) -> int:
    """``"1.5GB"`` as a number of bytes; for argparse."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a size such as 800MB or 1.5GB: {text!r}")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kMGT".index(unit or " "))
