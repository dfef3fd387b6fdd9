"""Let a language model go on with a text, or answer a chat, by onnxruntime alone.

The text streams to the terminal. Of a run, the model is what export --inference writes of its best checkpoint.

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
    what.add_argument("--prompt", metavar="TEXT", help="a text to go on with")
    what.add_argument(
        "--chat",
        metavar="TEXT",
        help="what the user says, written by the chat template; or a .jsonl file, whose first chat is meant",
    )
    parser.add_argument("--system", metavar="TEXT", help="with --chat TEXT: what the system says before")
    parser.add_argument(
        "--tokenizer", metavar="FILE.json", help="tokenizer.json of the model (default: that of the run, or beside the model)"
    )
    parser.add_argument("--max-tokens", type=int, default=256, help="tokens at most (default %(default)s)")
    parser.add_argument(
        "--temperature", type=float, default=0.0, help="0 takes the likeliest token, 1 draws by the shares (default 0)"
    )
    parser.add_argument(
        "--top-p", type=float, default=1.0, help="draw among the likeliest that have this share together (default 1)"
    )
    parser.add_argument("--stop", nargs="+", default=[], metavar="TEXT", help="texts that end it, besides the model's own marks")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON once it is whole")
    parser.set_defaults(expand=False)
