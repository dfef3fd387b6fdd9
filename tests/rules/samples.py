"""Where samples are declared: ``@samples("Softmax")`` on a function that yields them."""

from collections.abc import Callable, Iterator

from onnxgrad.testing import Draw, Sample

DECLARED: dict[str, list[Callable[[Draw], Iterator[Sample]]]] = {}


def samples(*op_types: str):
    """Register a function ``(draw)`` that yields samples of one or several operators."""

    def enter(function):
        for op_type in op_types:
            DECLARED.setdefault(op_type, []).append(function)
        return function

    return enter


def all_samples() -> list[Sample]:
    """Every declared sample, numbered within its operator."""
    found = []
    for op_type in sorted(DECLARED):
        number = 0
        for function in DECLARED[op_type]:
            for sample in function(Draw(number)):
                sample.op_type, sample.number = op_type, number
                found.append(sample)
                number += 1
    return found
