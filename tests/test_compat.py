"""The table of Paddle's names is current, and tells the truth."""

import pytest

from onnxgrad import compat
from onnxgrad.compat.names import NAMES
from onnxgrad.reasons import _MAPS, _REASONS, maps_to
from onnxgrad.refusals import Refused

ENTRIES = {entry.name: entry for entry in compat.entries()}


def test_names_are_listed_once():
    for namespace, names in NAMES.items():
        assert len(names) == len(set(names)), namespace


@pytest.mark.parametrize("namespace", ["paddle.static.Program", "paddle.static.nn", "paddle.nn.initializer", "paddle.optimizer.lr"])
def test_nothing_is_missing(namespace):
    assert not [e.name for e in ENTRIES.values() if e.name.rpartition(".")[0] == namespace and e.state == "missing"]


def test_every_refusal_has_a_reason_and_every_mapping_a_target():
    for entry in ENTRIES.values():
        assert bool(entry.note) == (entry.state in ("maps to", "refused")), entry


def test_what_is_done_can_be_called_or_read():
    for entry in ENTRIES.values():
        if entry.state == "done":
            assert not isinstance(compat._find(entry.name), Refused), entry


def test_mappings_within_the_api_lead_somewhere():
    for target in _MAPS.values():
        if target in ENTRIES and ENTRIES[target].state == "maps to":
            raise AssertionError(f"{target} leads on to {maps_to(target)}")


def test_no_note_is_about_nothing():
    from fnmatch import fnmatchcase

    for pattern in [*_MAPS, *(pattern for pattern, _ in _REASONS)]:
        assert any(fnmatchcase(name, pattern) for name in ENTRIES), pattern


def test_unknown_names():
    with pytest.raises(KeyError, match="nonsense"):
        compat.state_of("paddle.nonsense")
