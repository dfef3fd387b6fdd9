"""Tools on programs: names, pictures, a check of the installation."""

from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.utils import unique_name
from onnxgrad.utils.compatible import deprecated, require_version, try_import
from onnxgrad.utils.draw import draw_program
from onnxgrad.utils.run_check import run_check

__all__ = ["deprecated", "draw_program", "require_version", "run_check", "try_import", "unique_name"]


globals().update(absence_hooks(__name__))
