"""A command that is forked says and returns what one with an interpreter of its own does."""

import os
from pathlib import Path

import pytest

from tests.cli.command import Nursery, start

DIGITS = Path(__file__).parents[2] / "models" / "digits" / "digits.onnx"
pytestmark = [pytest.mark.process, pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")]


def alone(*arguments):
    process = start(*arguments)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_output_errors_codes_and_variables_are_those_of_a_process_of_its_own(monkeypatch):
    nursery = Nursery()
    try:
        for arguments, code in ((("info", DIGITS), 0), (("info", "no.onnx"), 1), (("info", "--no-such"), 2), (("--version",), 0)):
            forked = nursery.run(arguments)
            assert forked == alone(*arguments) and forked[0] == code
        monkeypatch.setenv("ONNXGRAD_DEBUG", "1")
        code, _, said = nursery.run(("info", "no.onnx"))
        assert code == 1 and "Traceback" in said
    finally:
        nursery.end()
