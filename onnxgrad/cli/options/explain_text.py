"""Explain a model's score for a text: the contribution of each token.

Integrated gradients (Sundararajan et al. 2017) of the token embeddings, from embeddings of zeros, are summed for each token; the
contributions sum to the change of the score. For a language model, the score is the logit of the next token.

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
    parser.add_argument("text", help="text to explain")
    parser.add_argument("--tokenizer", required=True, metavar="FILE.json", help="tokenizer.json of the model")
    parser.add_argument("--class", dest="label", type=int, metavar="K", help="class to explain (default: the predicted one)")
    parser.add_argument("--of", metavar="OUTPUT", help="scores to explain (default: the first floating-point output)")
    parser.add_argument(
        "--tokens-at", metavar="TENSOR", help="tensor of token embeddings (default: the rows that input_ids looks up)"
    )
    parser.add_argument("--steps", type=int, default=32, help="steps of integrated gradients (default %(default)s)")
    parser.add_argument("-o", "--output", metavar="FILE.html", help="also write a page with the coloured text")
    parser.add_argument("--json", action="store_true", help="print JSON")
