"""What is recorded is found again, what is not is computed, and what is wrong is noticed."""

import json

import numpy as np
import pytest

from onnxgrad.internal import state
from onnxgrad.testing import GradientMismatch, Sample, check_gradient
from tests import oracle
from tests.oracle import Entries, OracleMismatch, Recorded, read_entries, write_entries


def check(array=(0.5, 2.0), **options):
    """The gradient of Log at some points, as a test of its own would check it."""
    sample = Sample(np.array(array))
    with state.isolated():
        check_gradient(sample, reference=Recorded("Log"), **{"op_type": "Log", **options})


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An empty store, and counts of its own."""
    monkeypatch.setattr(oracle, "OPENED", {})
    monkeypatch.setattr(oracle, "FOLDER", tmp_path)
    monkeypatch.setattr(oracle, "MODE", "")
    monkeypatch.setattr(oracle, "COUNTS", {"looked up": 0, "computed": 0, "checked": 0})
    return oracle


def test_arrays_come_back_from_a_file_as_they_were(tmp_path):
    entries = {"b": [np.array(2.5), np.zeros((0, 3), np.float32)], "a": [np.array([True, False]), np.arange(6).reshape(2, 3)]}
    write_entries(tmp_path / "x.npz", entries)
    found = read_entries(tmp_path / "x.npz")
    assert list(found) == ["a", "b"]
    for key, arrays in entries.items():
        for old, new in zip(arrays, found[key], strict=True):
            assert old.dtype == new.dtype and old.shape == new.shape and np.array_equal(old, new)


def test_what_is_missing_is_computed_once(store):
    check()
    computed = store.COUNTS["computed"]
    assert computed == 3 and store.COUNTS["looked up"] == 0  # the values, the gradient's values, the differences
    check()
    assert {"looked up": 3, "computed": computed, "checked": 0} == store.COUNTS


def test_known_and_unknown_dimensions_share_what_is_computed(store):
    for form in ("", "symbolic", "unranked"):
        check(form=form)
    assert store.COUNTS["computed"] == 3


def test_another_model_and_other_feeds_have_keys_of_their_own(store):
    for options in ({}, {"array": (0.5, 2.5)}, {"op_type": "Exp"}):
        check(**options)
    assert store.COUNTS == {"looked up": 0, "computed": 9, "checked": 0}


def test_a_wrong_rule_is_not_compared_with_what_an_older_one_gave(store, monkeypatch):
    from onnxgrad.core.rules.registry import TABLE

    check()
    (entry,) = TABLE["", "Log"]
    monkeypatch.setattr(entry, "function", lambda op, node, gy: op.Mul(gy, node.inputs[0]))
    with pytest.raises(GradientMismatch, match="Log-0"):
        check()


def test_a_record_that_is_wrong_is_noticed_where_it_is_computed_again(store, monkeypatch):
    check()
    for arrays in store.OPENED["Log"].arrays.values():
        arrays[0] = arrays[0] + 1e-3
    monkeypatch.setattr(store, "MODE", "check:all")
    with pytest.raises(OracleMismatch, match="scripts/write_oracle"):
        check()


def test_a_tenth_is_chosen_by_a_salt(monkeypatch):
    keys = [f"{number:024x}" for number in range(2000)]
    monkeypatch.setattr(oracle, "MODE", "check:7")
    seven = [key for key in keys if oracle.is_checked(key)]
    monkeypatch.setattr(oracle, "MODE", "check:8")
    eight = [key for key in keys if oracle.is_checked(key)]
    assert 150 < len(seven) < 250 and seven != eight


def test_what_is_recorded_was_computed_by_this_code():
    """Otherwise nothing of it is found, and each run computes all of it: a new docstring did that once."""
    recorded = json.loads((oracle.FOLDER / "of.json").read_text())
    assert recorded["code"] == oracle.made_of()["code"], "run scripts/write_oracle --anew"


def test_a_key_depends_on_what_is_computed_not_on_how_it_is_described():
    code = "class A:\n    def f(self, x):\n        return x + 1\n"
    described = (
        "class A:\n    'Words.'\n\n    def f(self, x: int) -> int:\n        'More.'\n        return (x  # one\n            + 1)\n"
    )
    assert oracle.code_of_text(code) == oracle.code_of_text(described)
    for other in ("x + 2", "x - 1", "None", "y + 1"):
        assert oracle.code_of_text(code) != oracle.code_of_text(code.replace("x + 1", other))


def test_every_file_of_the_store_can_be_read():
    paths = sorted(oracle.FOLDER.glob("*.npz"))
    assert len(paths) > 100
    assert all(Entries(path).arrays for path in paths)


def test_what_cannot_be_computed_is_not_used(store, tmp_path):
    def fails():
        raise RuntimeError

    reference = Recorded("Log")
    with pytest.raises(RuntimeError):
        reference.look_up("a", fails)
    reference.look_up("b", lambda: [np.zeros(2)])
    oracle.leave_used(tmp_path / "used")
    (path,) = (tmp_path / "used").glob("*/Log.npz")
    assert list(read_entries(path)) == ["b"]
