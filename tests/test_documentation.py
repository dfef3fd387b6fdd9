"""Examples in docstrings and pages run; generated files are current."""

import contextlib
import doctest
import importlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest
from onnx.defs import onnx_opset_version
from onnx.reference.op_run import OpRun

import onnxgrad
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.opset import NEWEST
from onnxgrad.core.rules.registry import TABLE
from onnxgrad.testing import Sample, check_adjointness, check_gradient

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "onnxgrad"
TOUR = ROOT / "docs" / "develop" / "tour.md"
"""Shows what its code prints, which is compared."""
PAGES = [
    page
    for page in (ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```python" in page.read_text() and page != TOUR
]
# What the code of a page takes for granted.
GIVEN = {
    "docs/develop/add_operator.md": "from onnxgrad.core.rules.registry import TABLE; del TABLE['', 'Softsign']",
}
WITH_EXAMPLES = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()]
SETUP = {
    "OpRun": OpRun,
    "onnxgrad": onnxgrad,
    "np": np,
    "paddle": onnxgrad,
    "static": static,
    "fluid": onnxgrad.fluid,
    "draw_program": onnxgrad.utils.draw_program,
    "unique_name": onnxgrad.utils.unique_name,
    "state_of": importlib.import_module("onnxgrad.compat").state_of,
    "F": F,
    "Sample": Sample,
    "check_adjointness": check_adjointness,
    "check_gradient": check_gradient,
    "Executor": onnxgrad.Executor,
}


def module_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=module_name)
def test_examples_run(path, tmp_path, monkeypatch):
    link_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    declared = set(TABLE)
    module = importlib.import_module(module_name(path))
    examples = doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=SETUP)
    assert examples
    for found in examples:
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        with onnxgrad.internal.state.isolated():
            runner.run(found)
        for key in set(TABLE) - declared:
            del TABLE[key]
        assert runner.failures == 0, found.name


def link_files(folder):
    """The models and the test files of this repository, as examples name them."""
    (folder / "models").symlink_to(ROOT / "models")
    (folder / "tests").mkdir()
    (folder / "tests" / "data").symlink_to(ROOT / "tests" / "data")


def python_blocks(page):
    """The code of a page, also where it stands in a list."""
    return [textwrap.dedent(code) for code in re.findall(r"^ *```python\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE)]


def run_python(code, folder):
    """Run code where the models of this repository are, in a folder of its own."""
    link_files(folder)
    (folder / "out").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


@pytest.mark.process
@pytest.mark.parametrize("number", range(4))
def test_readme_examples_run(number, tmp_path):
    blocks = python_blocks(ROOT / "README.md")
    assert len(blocks) == 4
    done = run_python(blocks[number], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_pages_run_one_after_the_other(page, tmp_path):
    given = GIVEN.get(str(page.relative_to(ROOT)), "")
    done = run_python("\n".join([given, *python_blocks(page)]), tmp_path)
    assert done.returncode == 0, done.stderr


def with_outputs(page, folder):
    """The text of a page whose blocks of code are each followed by the output that they print now."""

    def shown(found):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(found[1], names)
        output = out.getvalue()
        return f"```python\n{found[1]}```\n" + (f"\n```text\n{output}```\n" if output else "")

    names = {}
    (folder / "out").mkdir()
    with contextlib.chdir(folder), onnxgrad.internal.state.isolated():
        return re.sub(r"```python\n(.*?)```\n(?:\n```text\n.*?```\n)?", shown, page.read_text(), flags=re.DOTALL)


def test_the_tour_shows_what_its_code_prints(tmp_path):
    assert with_outputs(TOUR, tmp_path) == TOUR.read_text(), "run python -m tests.test_documentation and read the page again"


def test_the_page_on_stability_is_true():
    text = (ROOT / "docs" / "stability.md").read_text()
    stable, _, unstable = text.partition("## Not stable")
    listed = {name for row in re.findall(r"^\| (`onnxgrad.*?) \|", stable, re.MULTILINE) for name in re.findall(r"`([\w.]+)`", row)}
    assert len(listed) > 25
    for name in listed:
        assert importlib.import_module(name).__all__, name
    for name in re.findall(r"`(onnxgrad\.\w+)`", unstable.partition(" and all names")[0]):
        importlib.import_module(name)
        assert name not in listed
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    read = set(re.findall(r"\bONNXGRAD_[A-Z_]+", "\n".join(sources)))
    assert read == set(re.findall(r"\bONNXGRAD_[A-Z_]+", stable))
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    offered = set(re.findall(r"^# (onnxgrad[\w.]*)$", pages, re.MULTILINE))
    assert len(offered) > 40
    assert {name for name in offered if f"`{name}`" not in text and not name.startswith("onnxgrad.fluid.")} == set()
    # Each place that warns, but for the decorator, which users apply to functions of their own.
    warns = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^ *@(?:\w+\.)*deprecated\(|\bDeprecationWarning,", path.read_text(), re.MULTILINE)
    ]
    assert sorted(warns) == ["distributed/environment.py", "utils/compatible.py"]
    rows = stable.partition("| deprecated |")[2].partition("\n\n")[0].splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ['`distributed.init("gloo")`']


@pytest.mark.process
@pytest.mark.exhaustive
def test_readme_commands_run(tmp_path):
    (text,) = (
        block for block in re.findall(r"```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL) if "onnxgrad info" in block
    )
    (tmp_path / "models").symlink_to(ROOT / "models")
    for line in text.replace("\\\n", " ").splitlines():
        arguments = shlex.split(line, comments=True)
        arguments = arguments[1:] if arguments[0] == "python" else ["-m", *arguments]
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        assert done.returncode == 0, line + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models", "out"]  # which git ignores


@pytest.mark.process
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            "write_builder_stub",
            marks=pytest.mark.skipif(onnx_opset_version() < NEWEST, reason="this onnx declares older operators only"),
        ),
        "write_compatibility_table",
        "write_documentation_index",
        "write_figures",
        "write_layers",
        "write_operator_table",
    ],
)
def test_generated_files_are_current(script):
    done = subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_reference_names_every_public_name_with_a_sentence():
    written = runpy.run_path(str(ROOT / "scripts" / "write_reference"))
    texts = written["pages"]()
    assert {page.name for page in texts} == {page.name for page in (ROOT / "docs" / "reference").glob("*.md")}
    stale = [page.name for page, text in texts.items() if page.read_text(encoding="utf-8") != text]
    assert not stale, f"run scripts/write_reference: {stale}"
    assert written["without_sentence"]() == []
    menu = (ROOT / "docs" / "website" / "mkdocs.yml").read_text()
    assert [page.name for page in texts if f"reference/{page.name}" not in menu] == []


def test_website_puts_the_reference_in_the_place_of_names():
    pytest.importorskip("mkdocs")
    hooks = runpy.run_path(str(ROOT / "docs" / "website" / "hooks.py"))
    page = (ROOT / "docs" / "reference" / "onnxgrad.md").read_text()
    whole = hooks["with_whole_reference"](page)
    assert "::: onnxgrad.core.interop.onnx_import.from_onnx" in whole and "<!--" not in whole


@pytest.mark.process
def test_import_is_quick_and_opens_no_thread():
    code = "import threading, sys, onnxgrad; assert threading.active_count() == 1; assert 'onnxruntime' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        TOUR.write_text(with_outputs(TOUR, Path(folder)))
