"""The table of Paddle's names is current, and tells the truth."""

import inspect
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


SIGNATURES = {
    "a decorator of Paddle's takes dim0 and dim1 too, which its signature hides": {
        "paddle.swapaxes": "lacks perm, needs axis0, needs axis1", "paddle.Tensor.swapaxes": "lacks perm, needs axis0, needs axis1",
        "paddle.swapdims": "lacks perm, needs dim0", "paddle.Tensor.swapdims": "lacks perm, needs dim0",
    },
    "it takes several numbers too, as a decorator of Paddle's does": {
        "paddle.permute": "other order", "paddle.Tensor.permute": "other order", "paddle.Tensor.repeat": "other order",
    },
    "what is written to is the first argument": {
        f"{home}.bitwise_{side}_shift_": "lacks out" for home in ("paddle", "paddle.Tensor") for side in ("left", "right")
    },
    "None is the default type of the time when the layer is made": {
        "paddle.nn.Layer": "dtype", "paddle.nn.Module": "dtype", "paddle.nn.RNNCellBase": "dtype",
    },
    "a layer's containers are filled by one rule": {"paddle.nn.ParameterDict": "lacks parameters"},
    "it is BatchNorm, which has use_global_stats before name": {"paddle.nn.SyncBatchNorm": "other order"},
    "variables are made by data, create_parameter and operators": {
        "paddle.static.Variable": "name, lacks shape, lacks dtype, lacks lod_level, lacks capacity, lacks persistable, "
        "lacks error_clip, lacks stop_gradient, lacks is_data, lacks need_check_feed, lacks belong_to_optimizer",
        "paddle.jit.TranslatedLayer": "lacks programs, lacks persistable_vars, needs program",
    },
    "there is no CINN": {"paddle.jit.to_static": "backend"},
    "operations are words, which ReduceOp names": {"paddle.distributed.all_reduce": "op"},
    "ranks are joined by a transport of ours": {"paddle.distributed.init_parallel_env": "lacks nccl_config"},
    "its settings are arguments": {"paddle.distributed.Strategy": "lacks config"},
}  # fmt: skip
"""Names whose calls are not those of Paddle's signature, by the reason, with what differs."""


def _parsed(signature: str) -> list[inspect.Parameter]:
    scope: dict = {}
    exec(f"def function{signature.replace('=...', '=Ellipsis')}: pass", scope)
    return list(inspect.signature(scope["function"]).parameters.values())


def _equal(theirs, ours):
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)):
        return [*theirs] == [*ours]
    return theirs is Ellipsis or theirs is ours or (type(theirs) in (int, float, str, bool) and theirs == ours)


def _difference(theirs: list[inspect.Parameter], ours: list[inspect.Parameter]) -> str:
    """What keeps a call of Paddle's signature from having the same meaning by ours; we may have more arguments."""
    plain, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    theirs = [p for p in theirs if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if theirs and ours and {theirs[0].name, ours[0].name} <= {"self", "var", "x"}:
        theirs, ours = theirs[1:], ours[1:]  # what a method is called on
    named = {p.name: p for p in ours}
    lacking = [f"lacks {p.name}" for p in theirs if p.name not in named and p.kind != p.POSITIONAL_ONLY]
    kept = [(p, named[p.name]) for p in theirs if p.name in named]
    defaults = [p.name for p, o in kept if not (p.default is empty and o.default is not empty) and not _equal(p.default, o.default)]
    needed = [
        f"needs {p.name}" for p in ours if p.default is empty and p.kind == plain and all(p.name != other.name for other in theirs)
    ]
    places, own = ([p.name for p in several if p.kind == plain] for several in (theirs, ours))
    order = [] if lacking or own[: len(places)] == places else ["other order"]
    return ", ".join([*defaults, *lacking, *needed, *order])


def test_each_call_that_a_signature_of_paddle_allows_is_allowed_here():
    """Or stands in SIGNATURES with its reason; of signatures that Paddle shows, of names that are here"""
    differences, compared = {}, 0
    for namespace, names in RECORD.items():
        for name, record in names.items():
            full = f"{namespace}.{name}"
            signature = record.get("signature", "(*args, **kwargs)")
            if signature == "(*args, **kwargs)" or ENTRIES[full].state != "done":
                continue
            try:
                ours = inspect.signature(compat._find(full)).parameters.values()
            except (TypeError, ValueError):
                continue  # a property here
            compared += 1
            if difference := _difference(_parsed(signature), list(ours)):
                differences[full] = difference
    assert differences == {name: what for names in SIGNATURES.values() for name, what in names.items()}
    assert compared > 1390


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
