"""The garbage collector rests while programs are built, and only then."""

import gc
import importlib
import sys

import numpy as np
import pytest

import onnxgrad
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.graph.graph import Graph
from onnxgrad.internal.collector import collector_paused, imported_live_on


@pytest.fixture(autouse=True)
def collector_as_it_was():
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_it_is_off_inside_and_on_again_after_an_error():
    gc.enable()
    with pytest.raises(ValueError), collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_it_stays_off_where_the_caller_has_turned_it_off():
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_what_an_import_defines_is_old_at_once_and_what_was_frozen_stays_so(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("first_of_two", "second_of_two"):
        (tmp_path / f"{name}.py").write_text("defined = [[]]\n")
        monkeypatch.delitem(sys.modules, name, raising=False)

    def is_old(module):
        return any(one is module.defined for one in gc.get_objects(generation=2))

    gc.enable()
    with imported_live_on():
        module = importlib.import_module("first_of_two")
    assert is_old(module) and gc.get_freeze_count() == 0 and gc.isenabled()
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        with imported_live_on():
            module = importlib.import_module("second_of_two")
        assert not is_old(module) and abs(gc.get_freeze_count() - frozen) < frozen // 2
    finally:
        gc.unfreeze()


def test_graphs_are_made_without_it(monkeypatch):
    gc.enable()
    program = static.Program()
    with static.program_guard(program):
        x = static.data("x", [2])
        y = x.block.build.Mul(x, np.ones(2, np.float32))
    seen = []
    original = Graph.__init__
    monkeypatch.setattr(Graph, "__init__", lambda *args, **named: (seen.append(gc.isenabled()), original(*args, **named))[1])
    compile(program, [y], "cpu")
    onnxgrad.to_onnx(program, [y])
    assert seen == [False, False] and gc.isenabled()
