"""Generate text with a language model, from a prompt or a chat, by onnxruntime alone.

The text streams to the terminal. For a run, the model is the one that export --inference writes of its best checkpoint.

examples:
  onnxgrad generate run/ --chat "Who are you?"
  onnxgrad generate qwen/model.onnx --chat chat.jsonl --temperature 0.7 --top-p 0.9
  onnxgrad generate model.onnx --tokenizer tokenizer.json --prompt "Once upon a time" --max-tokens 100 --stop "The end"
"""

# Tests: tests/training/test_generation.py.

from __future__ import annotations

import argparse

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="folder of a run of onnxgrad train, or path of an .onnx file")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--prompt", metavar="TEXT", help="prompt to continue")
    what.add_argument(
        "--chat",
        metavar="TEXT",
        help="user message, formatted by the chat template; or a .jsonl file, whose first chat is used",
    )
    parser.add_argument("--system", metavar="TEXT", help="with --chat TEXT: system message")
    parser.add_argument(
        "--tokenizer", metavar="FILE.json", help="tokenizer.json of the model (default: the run's, or the one beside the model)"
    )
    parser.add_argument("--max-tokens", type=int, default=256, help="maximum number of new tokens (default %(default)s)")
    parser.add_argument(
        "--temperature", type=float, default=0.0, help="0 takes the most likely token, above 0 tokens are sampled (default 0)"
    )
    parser.add_argument(
        "--top-p", type=float, default=1.0, help="sample from the most likely tokens whose probabilities add up to this (default 1)"
    )
    parser.add_argument(
        "--stop", nargs="+", default=[], metavar="TEXT", help="strings that end the generation, besides the model's end tokens"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed of sampling (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON at the end")
    parser.set_defaults(expand=False)
