"""Tools on programs: names, pictures, a check of the installation."""

from onnxgrad.internal.refusals import says_why_absent
from onnxgrad.utils import unique_name
from onnxgrad.utils.draw import draw_program
from onnxgrad.utils.run_check import run_check

__all__ = ["draw_program", "run_check", "unique_name"]


def __dir__() -> list[str]:
    return __all__


globals().update(__getattr__=says_why_absent(__name__))
