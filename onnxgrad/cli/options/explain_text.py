"""Show what a decision about a text rests on: what each token adds to the score.

Integrated gradients (Sundararajan et al. 2017) of the token vectors, from vectors of zeros, added up for each token; they add up to
the change of the score. Of a language model the word that it would write next is explained.

examples:
  onnxgrad explain-text m.onnx "a fine film" --tokenizer tokenizer.json
  onnxgrad explain-text m.onnx "a fine film" --tokenizer tokenizer.json --class 0 -o film.html
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

from onnxgrad.cli.options.shared import add_model

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("text", help="the text")
    parser.add_argument("--tokenizer", required=True, metavar="FILE.json", help="tokenizer.json of the model")
    parser.add_argument("--class", dest="label", type=int, metavar="K", help="class to explain (default: the predicted one)")
    parser.add_argument("--of", metavar="OUTPUT", help="scores to explain (default: the first floating-point output)")
    parser.add_argument("--tokens-at", metavar="TENSOR", help="the token vectors (default: what the table makes of input_ids)")
    parser.add_argument("--steps", type=int, default=32, help="gradients to compute (default %(default)s)")
    parser.add_argument("-o", "--output", metavar="FILE.html", help="write a page with the coloured text, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
