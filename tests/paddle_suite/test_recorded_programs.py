"""Whole programs print what Paddle printed, by the records of ``scripts/record_paddle programs``."""

import contextlib
import io
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "paddle_programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan)(?!\w)")
# Relative and absolute. Programs of half precision carry the rounding of other kernels along.
SINGLE, HALF = (5e-4, 2e-5), (2e-2, 1e-2)

# Programs that print something else than Paddle: the reason, and a part of the message that says so.
DIFFERENT = {
    "complex_numbers": ("onnxruntime computes no complex numbers", "complex is not offered"),
    "decompositions": ("no ONNX operator iterates to singular values and eigenvalues", "svd is not offered"),
    "signals": ("onnxruntime computes no complex numbers", "rfft is not offered"),
    "static_py_func": ("a program is run by stock onnxruntime, which calls no Python", "py_func is not offered"),
    "vision_models": ("networks and transforms of images are a package of their own", "vision is not offered"),
}


def ours(source):
    """The program with this library in place of Paddle, as a user changes it."""
    source = re.sub(r"^(\s*)import paddle$", r"\1import onnxgrad as paddle", source, flags=re.MULTILINE)
    return re.sub(r"^(\s*)(import|from) paddle(?=[. ])", r"\1\2 onnxgrad", source, flags=re.MULTILINE)


def printed(path):
    code = compile(ours(path.read_text()), str(path), "exec")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, {"__name__": "__main__", "__file__": str(path)})
    return output.getvalue()


def record_of(name):
    twin = FOLDER / f"{name.replace('fluid_', 'static_', 1)}.txt"
    return twin.read_text()


def compare(text, record, tolerance):
    """Raise where the words differ, or a number is further from the recorded one than the tolerance and its last printed place."""
    lines, recorded = (list(filter(None, map(str.strip, each.splitlines()))) for each in (text, record))
    for line, expected in zip(lines, recorded, strict=False):
        assert words(line) == words(expected), f"printed {line!r}, recorded {expected!r}"
        for number, value in zip(NUMBER.findall(line), NUMBER.findall(expected), strict=True):
            assert agree(number, value, tolerance), f"{number}, recorded {value}: printed {line!r}, recorded {expected!r}"
    assert len(lines) == len(recorded), (
        f"{len(lines)} lines, recorded {len(recorded)}: {(lines + recorded)[min(len(lines), len(recorded))]!r}"
    )


def words(line):
    line = re.sub(r"paddle\.Size\((\[[^]]*\])\)", r"\1", line)  # 3.3 alone; all releases before and the documents print a list
    return re.sub(r"\s+", "", NUMBER.sub("#", line))


def agree(number, value, tolerance):
    if re.fullmatch(r"[-+]?\d+", value):
        return number == value
    here, there = float(number), float(value)
    if here == there or (here != here and there != there):
        return True
    relative, absolute = tolerance
    return abs(here - there) <= relative * abs(there) + absolute + last_place(value)


def last_place(value):
    mantissa, _, exponent = value.lower().partition("e")
    places = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - places) if places > 2 else 0.0


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_what_paddle_prints(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tolerance = HALF if name.startswith("amp_") else SINGLE
    if name in DIFFERENT:
        with pytest.raises(Exception, match=DIFFERENT[name][1]):
            compare(printed(FOLDER / f"{name}.py"), record_of(name), tolerance)
        return
    compare(printed(FOLDER / f"{name}.py"), record_of(name), tolerance)


def test_comparison_sees_words_integers_and_decimals():
    compare("loss 0.50001 of  3", "loss 0.5 of 3\n", SINGLE)
    for text in ("loss 0.6 of 3", "loss 0.5 of 4", "cost 0.5 of 3", "loss 0.5 of 3\nmore", "loss nan of 3"):
        with pytest.raises(AssertionError):
            compare(text, "loss 0.5 of 3", SINGLE)
