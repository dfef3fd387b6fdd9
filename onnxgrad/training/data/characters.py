"""Text as targets of ``ctc``: the numbers of its characters, by the list that the model's file holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.errors import DataError

__all__ = ["KEY", "PADDING", "characters", "encode_characters"]

Array = np.ndarray[Any, Any]
KEY = "character"
"""Metadata of a file that lists the characters, one on a line, as PaddleOCR's files do; the blank, class 0, is not among them."""
PADDING = -1
"""What fills up label sequences of unequal length; ``ctc`` does not count it."""


def characters(program: Program | None) -> list[str] | None:
    """The characters of the classes from 1 on; None if the program's metadata does not list them.

    A list that is one short of the classes of an output goes without the space, which is then the last class.

    Example:
        >>> import onnx
        >>> from onnxgrad import from_onnx
        >>> program = from_onnx(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> m (float[1] x) => (x) {}'))
        >>> program.metadata["character"] = "a\\nb"
        >>> characters(program)
        ['a', 'b']
    """
    listed = None if program is None else program.metadata.get(KEY)
    if program is None or not listed:
        return None
    symbols = listed.removesuffix("\n").split("\n")
    classes = {v.dims[-1] for v in program.outputs if v.dims and len(v.dims) == 3}
    return [*symbols, " "] if len(symbols) + 2 in classes and " " not in symbols else symbols


def encode_characters(program: Program | None, name: str, texts: Sequence[str], where: str) -> tuple[Array, str]:
    """Rows of class numbers, filled up with ``PADDING``, and a line that says by what they were numbered.

    Raises:
        DataError: if the program lists no characters, or not all of these.
    """
    known = characters(program)
    if known is None:
        raise DataError(
            f"column {name!r} of {where} holds text, and the model's file does not list its characters. Name a file that has "
            "one on each line, in the order of the classes from 1 on (--characters FILE), or give numbers."
        )
    number = {character: i for i, character in enumerate(known, 1)}
    for row, text in enumerate(texts, 1):
        strange = next((character for character in text if character not in number), None)
        if strange is not None:
            raise DataError(
                f"{where}, row {row}, column {name!r}: the model has no class for {strange!r}, in {text[:40]!r}. "
                "Replace it, or leave the row out."
            )
    labels = np.full((len(texts), max(map(len, texts), default=0)), PADDING, np.int64)
    for row, text in enumerate(texts):
        labels[row, : len(text)] = [number[character] for character in text]
    return labels, f"text of {name!r} is spelled in the {len(known)} characters that the model's file lists."
