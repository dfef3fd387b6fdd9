"""scripts/scoreboard: what it measures, how it judges tools, and that its page is current."""

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.core.rules import official_cases

ROOT = Path(__file__).parents[1]
WRONG_TOOL = """
import os
import numpy as np
from scoreboard_tools import onnxgrad
from scoreboard_tools.shared import loading

REQUIREMENTS = []


def gradients(model_path, inputs, cotangents, weights):
    name = model_path.parent.name
    if name == "test_softmax_axis_0":
        os._exit(3)
    if name == "test_softmax_axis_1":
        raise NotImplementedError("no rule")
    with loading():
        assert name != "test_split_to_sequence_1", "no sequences"
    grads = onnxgrad.gradients(model_path, inputs, cotangents, weights)
    factor = 2 if name == "test_softmax_axis_2" else 1
    return {name: factor * g for name, g in grads.items() if name != "W"}
"""


@pytest.fixture(scope="module")
def scoreboard():
    return runpy.run_path(str(ROOT / "scripts" / "scoreboard"), run_name="scoreboard")


@pytest.fixture(scope="module")
def prepared(scoreboard, tmp_path_factory):
    wanted = {
        "node.softmax": ["test_softmax_axis_0", "test_softmax_axis_1", "test_softmax_axis_2", "test_softmax_negative_axis"],
        "node.conv": ["test_conv_with_strides_no_padding"],
        "node.splittosequence": ["test_split_to_sequence_1"],
        "node.relu": ["test_relu"],
        "node.argmax": ["test_argmax_default_axis_example"],
        "node.ceil": ["test_ceil"],
        "node.dropout": ["test_training_dropout"],
    }
    chosen = [case for group, names in wanted.items() for case in official_cases.cases_of(group) if case.name in names]
    folder = tmp_path_factory.mktemp("scoreboard") / "operands"
    folder.mkdir()
    left_out = scoreboard["prepare"]([scoreboard["_node_case"](case) for case in chosen], folder)
    (folder / "left_out.json").write_text(json.dumps(left_out))
    return folder


def names_in(folder):
    return sorted(path.parent.name for path in folder.glob("*/slopes.json"))


def test_cases_without_a_derivative_are_left_out_with_the_reason(prepared):
    assert json.loads((prepared / "left_out.json").read_text()) == {
        "test_argmax_default_axis_example": "no floating-point input that the schema calls differentiable",
        "test_ceil": "no floating-point input that the schema calls differentiable",
        "test_training_dropout": "draws random numbers",
    }
    assert len(names_in(prepared)) == 7


@pytest.mark.process
def test_this_library_is_right_with_all_inputs_fed_and_with_one(scoreboard, prepared):
    first = prepared.parent / "first"
    scoreboard["prepare_first"](prepared, first)
    python, _ = scoreboard["environment_of"]("onnxgrad", prepared.parent)
    for folder in (prepared, first):
        outcomes = scoreboard["run_tool"]("onnxgrad", python, folder, names_in(folder), 60)
        assert outcomes == dict.fromkeys(names_in(prepared), ("right", ""))


@pytest.mark.process
def test_each_failure_counts_for_its_own_case(scoreboard, prepared, tmp_path, monkeypatch):
    tools = tmp_path / "scoreboard_tools"
    shutil.copytree(scoreboard["TOOLS"], tools)
    (tools / "wrong_tool.py").write_text(WRONG_TOOL)
    monkeypatch.setitem(scoreboard["run_tool"].__globals__, "TOOLS", tools)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    python, _ = scoreboard["environment_of"]("onnxgrad", prepared.parent)
    outcomes = scoreboard["run_tool"]("wrong_tool", python, prepared, names_in(prepared), 60)
    assert {name: how for name, (how, _) in outcomes.items()} == {
        "test_conv_with_strides_no_padding": "wrong",
        "test_relu": "right",
        "test_softmax_axis_0": "crash",
        "test_softmax_axis_1": "refused",
        "test_softmax_axis_2": "wrong",
        "test_softmax_negative_axis": "right",
        "test_split_to_sequence_1": "cannot load",
    }
    assert "no gradient of W" in outcomes["test_conv_with_strides_no_padding"][1]
    assert outcomes["test_softmax_axis_1"][1].startswith("NotImplementedError: no rule")


@pytest.mark.process
def test_a_worker_that_waits_without_using_its_processor_is_stopped(scoreboard, tmp_path, monkeypatch):
    monkeypatch.setitem(scoreboard["_wait"].__globals__, "HANGS", 0.5)
    (tmp_path / "started").touch()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    assert scoreboard["_wait"](process, tmp_path, ["test_relu"], 1.0) == "too slow" and process.poll() not in (None, 0)


def test_values_of_all_types_come_back_from_their_file(scoreboard, tmp_path):
    import ml_dtypes

    shared = scoreboard["read_values"].__globals__
    values = {"a": np.arange(3.0), "b": [np.ones(2, ml_dtypes.bfloat16), np.zeros((), bool)], "c": None}
    shared["write_values"](tmp_path / "values.npz", values)
    back = shared["read_values"](tmp_path / "values.npz")
    assert back["c"] is None and back["b"][0].dtype == ml_dtypes.bfloat16 and back["b"][1].shape == ()
    np.testing.assert_array_equal(back["a"], values["a"])


def test_page_is_current_and_every_case_has_a_letter(scoreboard):
    data = scoreboard["read_data"]()
    text = scoreboard["PAGE"].read_text()
    assert text == scoreboard["page"](data, text)
    assert next(iter(data["tools"])) == "onnxgrad" and set(data["tools"]) <= set(scoreboard["tools"]())
    for entry in data["groups"].values():
        left_out = {name for names in entry["left out"].values() for name in names}
        assert entry["cases"] == sorted(entry["cases"]) and not set(entry["cases"]) & left_out
        for letters in entry["results"].values():
            assert len(letters) == len(entry["cases"]) and set(letters) <= set(scoreboard["LETTERS"].values())
    entries = data["groups"].values()
    failed = {name for e in entries for name, letter in zip(e["cases"], e["results"]["onnxgrad"], strict=True) if letter != "r"}
    assert set(scoreboard["NOTES"]) <= failed
