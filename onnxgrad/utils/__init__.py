"""Tools on programs: names, pictures, a check of the installation."""

from typing import TYPE_CHECKING

from onnxgrad.internal.refusals import says_why_absent
from onnxgrad.utils import unique_name
from onnxgrad.utils.draw import draw_program
from onnxgrad.utils.run_check import run_check

__all__ = ["draw_program", "run_check", "unique_name"]

if not TYPE_CHECKING:  # which would take every name for one
    __getattr__ = says_why_absent(__name__)
