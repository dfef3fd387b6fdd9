"""Which tests a change makes worth running, and that a faster suite is part of each slower one."""

import pytest

from tests import reach
from tests.reach import Selection, join


class Item:
    """A test as pytest collects it."""

    def __init__(self, file, name, markers=()):
        self.path = reach.ROOT / file
        self.nodeid = f"{file}::{name}"
        self.markers = markers

    def get_closest_marker(self, name):
        return name if name in self.markers else None


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Two test files, of which one executes core/ir/shapes.py, and both core/ir/program.py."""
    monkeypatch.setattr(reach, "FILE", tmp_path / "reach.json")
    files = {
        "tests/test_oracle.py": {"modules": ["core/ir/shapes.py"], "slow": ["test_long"]},
        "tests/test_reach.py": {"modules": ["cli/main.py"], "slow": []},
    }
    reach.write({"everywhere": ["core/ir/program.py"], "files": files})


def test_a_module_is_reached_by_the_files_that_execute_it(recorded):
    why = Selection(["onnxgrad/core/ir/shapes.py"]).why
    assert why == {"tests/test_oracle.py": "executes onnxgrad/core/ir/shapes.py"}


def test_a_module_that_is_executed_everywhere_is_reached_by_all(recorded):
    assert set(Selection(["onnxgrad/core/ir/program.py"]).why) == {"tests/test_oracle.py", "tests/test_reach.py"}


def test_a_table_that_nothing_executes_is_reached_through_those_who_name_it(recorded):
    why = Selection(["onnxgrad/version.py"]).why
    assert set(why) and all("names version" in reason for reason in why.values())


def test_a_test_file_is_in_when_it_or_what_it_imports_changed(recorded):
    assert Selection(["tests/test_reach.py"]).why == {"tests/test_reach.py": "changed itself"}
    assert Selection(["tests/oracle.py"]).why["tests/test_oracle.py"] == "imports tests/oracle.py"
    assert len(Selection(["pyproject.toml"]).why) > 150


def test_data_and_pages_are_in_by_their_names(recorded):
    assert "tests/test_tutorials.py" in Selection(["docs/tutorials/from_scikit_learn.ipynb"]).why
    assert "tests/test_documentation.py" in Selection(["docs/use/start.md"]).why
    assert "tests/core/rules/test_conventions.py" not in Selection(["docs/use/start.md"]).why


def test_quick_holds_one_case_of_each_function_that_is_fast_and_starts_nothing(recorded):
    file = "tests/test_oracle.py"
    cases = [Item(file, "test_a[1]"), Item(file, "test_a[2]"), Item(file, "test_long"), Item(file, "test_b", ("process",))]
    selection = Selection(None)
    assert [item.nodeid for item in cases if selection.keeps(item)] == [f"{file}::test_a[1]"]


def test_changed_holds_quick_and_all_of_what_is_reached(recorded):
    files = ["tests/test_oracle.py", "tests/test_reach.py"]
    cases = [Item(file, name, markers) for file in files for name, markers in (("t[1]", ()), ("t[2]", ()), ("p", ("process",)))]
    selection = Selection(["onnxgrad/core/ir/shapes.py"])
    kept = [item.nodeid for item in cases if selection.keeps(item)]
    assert kept == [f"{files[0]}::{name}" for name in ("t[1]", "t[2]", "p")] + [f"{files[1]}::t[1]"]


def test_what_processes_recorded_is_joined(tmp_path):
    rows = [
        '{"file": "tests/a.py", "modules": ["x.py", "y.py"], "seconds": {"test_slow": [2.0], "test_fast": [0.01, 0.3]}}',
        '{"file": "tests/b.py", "modules": ["x.py"], "seconds": {}}',
        '{"file": "tests/a.py", "modules": ["z.py"], "seconds": {}}',
    ]
    (tmp_path / "1.jsonl").write_text("\n".join(rows[:1]) + "\n")
    (tmp_path / "2.jsonl").write_text("\n".join(rows[1:]) + "\n")
    found = join(tmp_path)
    assert found["everywhere"] == ["x.py"]
    assert found["files"]["tests/a.py"] == {"modules": ["y.py", "z.py"], "slow": ["test_slow"]}


def test_every_recorded_file_exists():
    """Where this fails, run scripts/record_reach"""
    files = Selection(None).files
    assert [file for file in files if not (reach.ROOT / file).exists()] == []
