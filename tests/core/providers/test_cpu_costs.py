"""cpu_costs.json: thresholds of time and memory in one place, each read by one module, and overruled by a file."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from onnxgrad.core.costs import VARIABLE, Costs, read_overruled
from onnxgrad.errors import ArgumentError, ArgumentTypeError, MissingFile, UnknownName

ROOT = Path(__file__).parents[3]
FILE = ROOT / "onnxgrad" / "core" / "providers" / "cpu_costs.json"
TABLE = json.loads(FILE.read_text("utf-8"))


def reads():
    """(name, method, path) of every ``COSTS.count("...")`` and ``COSTS.number("...")`` of the engine."""
    for path in sorted((ROOT / "onnxgrad").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "COSTS":
                yield ast.literal_eval(node.args[0]), node.func.attr, path


def test_every_entry_is_read_once_by_the_module_that_its_name_begins_with():
    found = {name: (method, path.stem) for name, method, path in reads()}
    assert len(list(reads())) == len(found)
    kinds = {int: "count", float: "number"}
    assert found == {name: (kinds[type(entry["value"])], name.partition(".")[0]) for name, entry in TABLE.items()}


@pytest.mark.parametrize("name", TABLE)
def test_an_entry_says_what_it_decides_and_where_it_was_measured(name):
    entry = TABLE[name]
    assert list(entry) == ["value", "unit", "decides", "measured"]
    assert entry["value"] > 0 and entry["unit"] and entry["decides"].endswith(".")
    assert entry["measured"].startswith(("Intel Xeon", "AMD EPYC", "not measured", "measured, processor not recorded"))


def test_an_overruled_threshold_stands_for_that_of_the_file():
    costs = Costs({"plan.transpose": 2, "tile_updates.piece": 10})
    assert (costs.number("plan.transpose"), costs.count("tile_updates.piece")) == (2.0, 10)
    assert type(costs.number("plan.transpose")) is float
    assert costs.count("small_m.fewest_rows") == TABLE["small_m.fewest_rows"]["value"]


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("plan.tern", 1.0, UnknownName),
        ("tile_updates.piece", 0.5, ArgumentTypeError),
        ("tile_updates.piece", True, ArgumentTypeError),
        ("plan.transpose", "1.0", ArgumentTypeError),
        ("plan.transpose", None, ArgumentTypeError),
        ("plan.transpose", float("nan"), ArgumentError),
        ("plan.transpose", float("inf"), ArgumentError),
        ("tile_updates.piece", 0, ArgumentError),
        ("tile_updates.piece", -1, ArgumentError),
    ],
)
def test_a_wrong_value_is_refused_by_name(name, value, error):
    with pytest.raises(error, match=name):
        Costs({name: value})


def test_a_name_that_is_no_threshold_is_refused_where_it_is_read():
    with pytest.raises(UnknownName, match=r"plan\.tern"):
        Costs().number("plan.tern")


def test_a_file_holds_numbers_or_entries(tmp_path):
    path = tmp_path / "costs.json"
    path.write_text('{"plan.transpose": 2.5, "plan.gather": {"value": 0.5, "measured": "here"}}')
    assert read_overruled(path) == {"plan.transpose": 2.5, "plan.gather": 0.5}
    assert read_overruled(FILE) == {name: entry["value"] for name, entry in TABLE.items()}


@pytest.mark.parametrize("text", ["", "[1]", "3", '{"plan.transpose": {"unit": "nanoseconds"}}'])
def test_another_file_is_refused(tmp_path, text):
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=r"costs\.json"):
        read_overruled(path)
    with pytest.raises(MissingFile, match=r"none\.json"):
        read_overruled(tmp_path / "none.json")


STEP = """
import sys
import numpy as np
import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.compile import compile

x = static.data("x", [16, 64])
y = x.block.build.Gemm(x, static.create_parameter([64, 64], "float32", name="w"), transB=1)
loss = paddle.mean(y)
paddle.optimizer.SGD(0.1).minimize(loss)
graph = compile(x.block.program, [loss], "cpu", state_as_inputs=True)
print(sum(rewrite.places for rewrite in graph.rewrites if rewrite.name == "swap_gemm_operands"))
paddle.Executor().run(static.default_startup_program())
paddle.Executor(cache=sys.argv[1]).run(feed={"x": np.ones((16, 64), np.float32)}, fetch_list=[loss])
"""


def python(*arguments, costs=None):
    """A process with other thresholds, or with those of the package."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {} if costs is None else {VARIABLE: str(costs)}
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_a_process_takes_its_forms_by_the_file_that_the_environment_names(tmp_path):
    """Also of saved graphs: that of other thresholds is another file"""
    costs, folder = tmp_path / "costs.json", tmp_path / "graphs"
    costs.write_text('{"small_m.smallest_weight": 1}')
    for file, places, saved in ((None, "0", 1), (costs, "1", 2), (costs, "1", 2)):
        done = python("-c", STEP, str(folder), costs=file)
        assert (done.stdout.strip(), done.returncode) == (places, 0), done.stderr
        assert len(list(folder.iterdir())) == saved


@pytest.mark.process
def test_a_process_refuses_a_file_with_an_unknown_name(tmp_path):
    costs = tmp_path / "costs.json"
    costs.write_text('{"plan.tern": 1.0}')
    done = python("-c", "import onnxgrad.core", costs=costs)
    assert done.returncode == 1
    assert "UnknownName: there is no threshold 'plan.tern'" in done.stderr


@pytest.mark.process
def test_what_the_script_writes_can_overrule(tmp_path):
    path = tmp_path / "costs.json"
    done = python("scripts/measure_cpu_costs", "--only", "plan.transpose", "--rounds", "1", "--write", str(path))
    assert done.returncode == 0, done.stderr
    found = read_overruled(path)
    assert list(found) == ["plan.transpose"]
    assert Costs(found).number("plan.transpose") == found["plan.transpose"]
    assert "plan.transpose" in done.stdout
