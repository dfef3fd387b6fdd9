"""The rim of Paddle's surface as Paddle gives it: options, state, constants, distributions, refusals."""

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest

import onnxgrad as paddle
from tests import paddle_surface as surface
from tests.paddle_suite.test_grid import assert_same

RECORD = json.loads((Path(__file__).parent.parent / "data" / "paddle_surface.json").read_text())

OTHERWISE: dict[str, str] = {}
"""Cases of which this library gives another result, with the reason."""


def _cases(section):
    return [(name, wanted) for name, wanted in RECORD[section]["results"].items() if not _otherwise(section, name)]


def _otherwise(section, name):
    return any(fnmatch(f"{section}: {name}", pattern) for pattern in OTHERWISE)


def _difference(section, name, wanted, own):
    """What is not as Paddle has it; of a refusal the class, of which ours may be derived."""
    result = surface.outcome(paddle, own[name])
    if isinstance(wanted, dict) and "error" in wanted:
        kinds = result.get("error", []) if isinstance(result, dict) else []
        return None if wanted["error"][0] in kinds else f"{section}: {name}: {result}, wanted {wanted}"
    try:
        _assert_same(result, wanted)
    except AssertionError as error:
        return f"{section}: {name}: {result}, wanted {wanted}: {str(error)[:200]}"
    return None


def _assert_same(result, wanted):
    if isinstance(wanted, list) and wanted and not isinstance(wanted[0], float) and isinstance(result, list):
        assert len(result) == len(wanted)
        for one, other in zip(result, wanted, strict=True):
            _assert_same(one, other)
    elif isinstance(wanted, dict) and isinstance(result, dict):
        assert result.keys() == wanted.keys()
        for key, value in wanted.items():
            _assert_same(result[key], value)
    else:
        assert_same(result, wanted)


@pytest.mark.parametrize("section", [section.__name__ for section in surface.SECTIONS])
def test_each_case_is_as_paddle_has_it(section):
    own = getattr(surface, section)(paddle)
    assert [what for name, wanted in _cases(section) if (what := _difference(section, name, wanted, own))] == []


def test_every_choice_of_another_result_is_needed():
    needed = set()
    for section in RECORD:
        own = getattr(surface, section)(paddle)
        for name, wanted in RECORD[section]["results"].items():
            key = f"{section}: {name}"
            chosen = [pattern for pattern in OTHERWISE if fnmatch(key, pattern)]
            if chosen and _difference(section, name, wanted, own):
                needed.update(chosen)
    assert needed == {*OTHERWISE}
