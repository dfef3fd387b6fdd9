"""Tools on programs: names, pictures."""

from onnxgrad.utils import unique_name
from onnxgrad.utils.draw import draw_program

__all__ = ["draw_program", "unique_name"]
