"""Say which versions, providers and extras are here, and try in a few seconds whether training works.

exit code: 1 if the self-test fails, else 0

examples:
  onnxgrad doctor
  onnxgrad doctor --json
"""

# Tests: tests/cli/test_commands.py.

from __future__ import annotations

import argparse

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-test", action="store_true", help="skip the self-test")
    parser.add_argument("--json", action="store_true", help="print JSON")
