"""The table of Paddle's names is current, and tells the truth."""

import re
from importlib import import_module
from operator import attrgetter

import pytest

import onnxgrad
from onnxgrad import compat
from onnxgrad.compat.names import NAMES, RECORD
from onnxgrad.internal.refusals import _MAPS, _REASONS, maps_to, refused, why_absent

ENTRIES = {entry.name: entry for entry in compat.entries()}


def test_names_are_listed_once():
    for namespace, names in NAMES.items():
        assert len(names) == len(set(names)), namespace


def test_all_names_that_paddle_lists_are_in_the_table():
    """2,124 in 3.3.1, which scripts/record_paddle reads from Paddle itself"""
    assert sum(map(len, RECORD.values())) == 2124
    for namespace, names in RECORD.items():
        assert set(names) <= set(NAMES[namespace])


def test_nothing_is_missing():
    assert not [entry.name for entry in ENTRIES.values() if entry.state == "missing"]


def test_no_name_of_paddle_gives_a_bare_error():
    """As an attribute, and where its home is a module as an import too"""
    holders = {"onnxgrad.Tensor": onnxgrad.to_tensor([1.0]), "onnxgrad.static.Variable": onnxgrad.static.data("x", [2])}
    for name, entry in ENTRIES.items():
        home, _, last = name.replace("paddle", "onnxgrad", 1).rpartition(".")
        if entry.state == "done" or compat._find(name) is not compat._ABSENT or name.startswith("paddle.static.Program"):
            continue
        notes = filter(None, (entry.note, why_absent(name.rpartition(".")[0])))  # that of the module where it has none itself
        expected = "|".join(re.escape(note.split(";")[0][:40]) for note in notes)
        with pytest.raises((AttributeError, ImportError), match=expected):
            getattr(holders[home], last) if home in holders else attrgetter(f"{home}.{last}".removeprefix("onnxgrad."))(onnxgrad)
        if not home.endswith((".Tensor", ".Variable")):
            with pytest.raises(ImportError, match=expected):
                exec(f"from {home} import {last}", {})


def test_every_refusal_has_a_reason_and_every_mapping_a_target():
    for entry in ENTRIES.values():
        assert bool(entry.note) == (entry.state in ("maps to", "refused")), entry


def test_what_is_done_can_be_called_or_read():
    for entry in ENTRIES.values():
        if entry.state == "done":
            assert not isinstance(compat._find(entry.name), refused), entry


def test_mappings_within_the_api_lead_somewhere():
    for target in _MAPS.values():
        if target in ENTRIES and ENTRIES[target].state == "maps to":
            raise AssertionError(f"{target} leads on to {maps_to(target)}")


def test_every_note_is_about_a_name_that_is_not_here():
    from fnmatch import fnmatchcase

    missing = [name for name in ENTRIES if compat._find(name) is compat._ABSENT]
    reasons = [f"paddle.{pattern}" for patterns in _REASONS.values() for pattern in patterns.split()]
    for patterns in ([*_MAPS], reasons):
        needed = {next((pattern for pattern in patterns if fnmatchcase(name, pattern)), None) for name in missing}
        # Of names that are written in place the list has only those that are here.
        assert {*patterns} - needed <= {"paddle.*.[a-z]*_", "paddle.[a-z]*_"}


@pytest.mark.parametrize(("name", "because"), [("frexp", "takes floating-point numbers apart"), ("svd", "iteration")])
def test_methods_give_the_reason_of_the_function(name, because):
    for tensor in (onnxgrad.static.data("x", [2]), onnxgrad.to_tensor([1.0])):
        with pytest.raises(AttributeError, match=because):
            getattr(tensor, name)


def test_unknown_names():
    with pytest.raises(KeyError, match="nonsense"):
        compat.state_of("paddle.nonsense")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("distribution", "densities"),
        ("signal", "complex numbers"),
        ("sysconfig", "nothing here is compiled"),
        ("cost_model", "profiler"),
        ("vision", "a package of its own"),
        ("vision.models", "a package of its own"),
        ("incubate.nn", "one vendor's kernels"),
        ("utils.cpp_extension", "nothing here is compiled"),
        ("distributed.rpc", "call other processes"),
        ("amp.debugging", "Paddle's own runtime"),
    ],
)
def test_a_module_that_is_not_here_gives_its_reason_as_attribute_and_as_import(name, words):
    with pytest.raises(AttributeError, match=words):
        attrgetter(name)(onnxgrad)
    with pytest.raises(ModuleNotFoundError, match=words):
        import_module(f"onnxgrad.{name}")
    home, _, last = f"onnxgrad.{name}".rpartition(".")
    with pytest.raises(ImportError, match=words):
        exec(f"from {home} import {last}", {})


def test_a_module_that_is_not_in_one_that_is_no_package_gives_its_reason_as_attribute():
    with pytest.raises(AttributeError, match="use set_device"):
        onnxgrad.device.cuda  # noqa: B018


def test_a_module_that_nobody_has_is_not_found_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'onnxgrad\.nothing'"):
        import_module("onnxgrad.nothing")
