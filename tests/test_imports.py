"""The wall: every import points down, wherever it stands; a product loads no more of Paddle's surface than it names."""

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from onnxgrad.internal.late import late, load_methods

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "onnxgrad"

# Packages and modules, each allowed to use what stands before it. Those of one line may not use each other.
FLOORS = """
    errors  internal  internal.late  internal.processors  internal.trees  internal.words  version
    internal.arguments
    dtypes  internal.refusals  internal.state  internal.collector  internal.files  internal.text_table
    internal.tensor_file
    core.costs  core.state
    core.ir
    core.graph
    core.passes
    core.graph_passes
    core.providers
    core.compile
    core.interop
    core.rules
    core.autodiff
    core.step
    core.runtime
    core
    internal.losses  internal.drawing
    eager
    autograd
    tensor
    linalg  fft  geometric
    optimizer
    distributed
    regularizer  nn
    distribution  internal.pickled
    internal.saving
    static
    utils
    device  io  reader
    amp  fluid  incubate  jit  metric
    hapi  onnx
    func  pages
    training
    federated
    testing  compat  attribution
    cli
    __init__
    __main__
"""
FLOOR_OF = {name: floor for floor, line in enumerate(FLOORS.strip().splitlines()) for name in line.split()}
MODULES = sorted(PACKAGE.rglob("*.py")) + sorted(PACKAGE.rglob("*.pyi"))

# What looks at the whole package by name, as its purpose is to say what is there.
BY_NAME = {"compat/__init__.py": {"onnxgrad"}}


def place_of(module):
    """The package, or the module beside the packages, that a dotted name belongs to."""
    parts = module.split(".")[1:]
    if not parts:
        return "__init__"
    return ".".join(parts[:2]) if parts[0] in ("core", "internal") and len(parts) > 1 else parts[0]


def annotations(tree):
    """Imports that only type checkers read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from ast.walk(node)


def imports_of(path):
    """Modules of this package that a file imports: at its top, inside functions, and by strings."""
    tree = ast.parse(path.read_text())
    left_out = {id(node) for node in annotations(tree)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            if node.module in ("onnxgrad", "onnxgrad.core", "onnxgrad.internal"):
                yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
            elif node.module is not None and node.module.startswith("onnxgrad."):
                yield node.module, node.lineno
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name.partition(".")[0] == "onnxgrad")
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            for argument in node.args:
                text = ast.unparse(argument).removeprefix("f")[1:-1]
                if text.partition(".")[0] == "onnxgrad":
                    yield text, node.lineno


def own_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_imports_point_down():
    wrong = []
    for path in MODULES:
        own = "__init__" if path.parent == PACKAGE and path.stem == "__init__" else place_of(own_name(path))
        by_name = BY_NAME.get(str(path.relative_to(PACKAGE)), set())
        for module, line in imports_of(path):
            used = place_of(module)
            if used not in FLOOR_OF:
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {module}, which has no floor")
            elif not (used == own or FLOOR_OF[used] < FLOOR_OF[own] or module in by_name):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {own} may not use {module}")
    assert wrong == []


def test_no_files_of_the_engine_import_each_other_around():
    """Within a package too, in functions too. Annotations may: the classes of a program hold each other"""
    core = {own_name(path): path for path in MODULES if path.suffix == ".py" and PACKAGE / "core" in path.parents}
    arrows = {name: set(_core_modules(path, core)) - {name} for name, path in core.items()}
    while True:
        leaves = {name for name, used in arrows.items() if not used}
        if not leaves:
            break
        arrows = {name: used - leaves for name, used in arrows.items() if name not in leaves}
    assert arrows == {}


def _core_modules(path, core):
    for module, _ in imports_of(path):
        if module in core:
            yield module
    tree = ast.parse(path.read_text())
    left_out = {id(node) for node in annotations(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in left_out:
            yield from (name for alias in node.names if (name := f"{node.module}.{alias.name}") in core)


def test_one_module_opens_sessions_of_onnxruntime():
    """With all the switches, each with its reason"""
    opening = [
        str(path.relative_to(PACKAGE)) for path in MODULES if re.search(r"InferenceSession\(|SessionOptions\(", path.read_text())
    ]
    assert opening == ["core/runtime/session.py"]


def test_every_package_has_a_floor():
    present = {place_of(own_name(path)) for path in MODULES if path.stem != "__init__" or path.parent != PACKAGE}
    assert present | {"__init__"} == set(FLOOR_OF)


def order_of_packages():
    """The floors as docs/develop/layers.md shows them; ``python -m tests.test_imports`` writes them there."""
    lines = [", ".join(line.split()) for line in FLOORS.strip().splitlines()]
    return textwrap.fill(" | ".join(line for line in lines if not line.startswith("__")), 138)


def written(text):
    """A page with the order of packages between its marks."""
    before, rest = text.split("<!-- order of packages -->\n")
    after = rest.split("<!-- end of order -->")[1]
    return f"{before}<!-- order of packages -->\n```text\n{order_of_packages()}\n```\n<!-- end of order -->{after}"


def test_the_order_in_the_documents_is_the_one_that_is_checked():
    page = (ROOT / "docs" / "develop" / "layers.md").read_text()
    assert written(page) == page, "run python -m tests.test_imports"


def test_the_wall_sees_imports_in_functions_and_strings(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "from onnxgrad import state\n"
        "if TYPE_CHECKING:\n    from onnxgrad.cli import main\n"
        "def f():\n    import onnxgrad.nn.functional\n    import_module('onnxgrad.static')\n    import_module(f'onnxgrad.{x}')\n"
    )
    found = [module for module, _ in imports_of(file)]
    assert found == ["onnxgrad.state", "onnxgrad.nn.functional", "onnxgrad.static", "onnxgrad.{x}"]


@pytest.mark.one_in(3)
@pytest.mark.process
@pytest.mark.parametrize(
    ("product", "named"),
    [("training", set()), ("func", set()), ("testing", set()), ("core", set()), ("cli.main", set())],
)
def test_a_product_loads_only_what_it_names_of_the_surface(product, named):
    surface = {"tensor", "nn", "static", "autograd", "amp", "fluid", "linalg", "fft", "incubate", "compat", "utils"}
    code = f"import sys, onnxgrad.{product}; print(*{{m.split('.')[1] for m in sys.modules if m.startswith('onnxgrad.')}})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & surface == named


@pytest.mark.one_in(3)
@pytest.mark.process
@pytest.mark.parametrize(
    "code",
    [
        "p = onnxgrad.Program(); p.train(); p.eval(); p.serialize_to_string",
        "p = onnxgrad.from_onnx('models/digits/digits.onnx'); p.train(); p.eval(); p.parse_from_string(p.serialize_to_string())",
        "y = onnxgrad.from_onnx('models/digits/digits.onnx').outputs[0]; y // 2, y.mean(), y[:, 0], y.mT, y.astype('float64')",
        "onnxgrad.ones([3]).numpy(); assert hasattr(onnxgrad.Tensor, 'long') and onnxgrad.Tensor.mean and 'var' in dir(onnxgrad.Tensor)",
        "import sys; onnxgrad.tanh(onnxgrad.to_tensor(1.0)).sum(); assert 'onnxgrad.tensor.linalg' not in sys.modules",
        "onnxgrad.rand([3]) + onnxgrad.arange(3)",
        "from onnxgrad import *; Executor, mean, training, testing, bool",
        "import onnxgrad.training; onnxgrad.training.Trainer, onnxgrad.testing.Sample, onnxgrad.nn.functional.relu",
        "import onnxgrad.nn.functional as F, onnxgrad.static.nn, onnxgrad.optimizer.lr, onnxgrad.nn.initializer, onnxgrad.regularizer",
        "assert all(hasattr(onnxgrad, name) for name in dir(onnxgrad)); assert not hasattr(onnxgrad, 'nothing')",
    ],
)
def test_names_and_methods_are_there_in_a_new_process(code):
    """Whatever is used first, what it needs of the packages above is loaded"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import onnxgrad\n{code}"], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_modules_without_tests_of_their_name_name_those_that_cover_them():
    """``Tests: tests/core/x.py.`` ends the docstring of a module, or stands below it in a comment where users are shown the docstring.

    A module without functions is a table that others read.
    """
    names = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    silent, wrong = [], []
    for path in MODULES:
        name = path.relative_to(PACKAGE).as_posix()
        text = path.read_text()
        has_functions = any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(text)))
        # Recorded values are found by the text of the reference operators: tests/oracle.py, tests/core/rules/test_official_gradients.py.
        left_out = name.startswith("testing/reference_ops/") or path.stem == "__init__" or not has_functions
        if left_out or f"test_{path.stem}" in names:
            continue
        named = re.search(r"^(?:# )?Tests: (.*)\.$", text, re.MULTILINE)
        if named is None:
            silent.append(name)
        else:
            wrong += [file for file in named[1].split(", ") if not (ROOT / file).is_file()]
    assert silent == [] and wrong == []


def test_every_late_function_that_is_asked_for_is_provided():
    """A name that nobody provides would be found at run time alone"""
    asked = re.compile(r"\b(?:late\(|_call\()\s*['\"]([\w.]+)['\"]")
    names = {name for path in MODULES for name in asked.findall(path.read_text()) if path.stem != "late"}
    assert {"Program.train", "getitem", "Variable.why_absent"} <= names
    load_methods()
    for name in sorted(names):
        assert callable(late(name)), name


def test_steps_are_cut_and_state_is_gathered_in_the_engine_alone():
    """Ranks, micro-batches, exports and workers take what they need from a step"""
    inner = ("core/step/", "core/runtime/")
    cutters = re.compile(
        r"\b(cut_step|cut_exchanged|make_stages|in_steps|make_pipeline|make_step|sums_over_shares|synchronised_graph)\("
    )
    found = []
    for path in sorted((ROOT / "onnxgrad").rglob("*.py")):
        name = path.relative_to(ROOT / "onnxgrad").as_posix()
        if not name.startswith(inner) and cutters.search(path.read_text()):
            found.append(name)
    assert found == []


if __name__ == "__main__":
    layers = ROOT / "docs" / "develop" / "layers.md"
    layers.write_text(written(layers.read_text()))
