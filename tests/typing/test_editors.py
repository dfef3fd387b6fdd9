"""What an editor shows, by jedi: the parameters of a written list of names, and where a definition is found."""

import re
from pathlib import Path

import pytest

import onnxgrad
from tests.typing.test_names import MODULES, module_at

jedi = pytest.importorskip("jedi")
HERE = jedi.api.environment.InterpreterEnvironment()
ROOT = Path(onnxgrad.__file__).parents[1]
PARAMETERS = (Path(__file__).parent / "parameters.txt").read_text().splitlines()
"""A name of the surface and its parameters, as they are meant to be: ``nn.Linear(in_features, out_features, ...)``."""


def script(expression):
    source = (
        f"import onnxgrad as og\nx = og.to_tensor([1.0])\nv = og.static.data('v', [2])\nt = og.training.Trainer('m')\n{expression}"
    )
    return jedi.Script(source, project=jedi.Project(ROOT), environment=HERE), source.count("\n") + 1


def line_of(place):
    return Path(place.module_path).read_text().splitlines()[place.line - 1]


def of_package(expression):
    return expression if expression.partition(".")[0] in ("x", "v", "t") else f"og.{expression}"


@pytest.mark.parametrize("line", PARAMETERS, ids=lambda line: line.partition("(")[0])
def test_parameters_are_shown_and_the_definition_is_source(line):
    name, names = re.fullmatch(r"([\w.]+)\((.*)\)", line).groups()
    asked, last = script(f"{of_package(name)}(")
    (signature, *_) = asked.get_signatures(last)
    shown = [parameter.description.removeprefix("param ").partition("=")[0].partition(":")[0] for parameter in signature.params]
    assert [one.strip() for one in shown] == [one.strip() for one in names.split(",")]
    asked, last = script(of_package(name))
    written = re.compile(rf"\s*(def|class) {name.rpartition('.')[2]}\b")
    # Functions that are made from a table have no def but that of the stub, where editors go that prefer those.
    assert any(
        all(written.match(line_of(place)) for place in places)
        for prefer_stubs in (False, True)
        if (places := asked.goto(last, follow_imports=True, prefer_stubs=prefer_stubs))
    )


@pytest.mark.parametrize("name", ["sin", "floor", "amax", "greater_than", "tensor.sin"])
def test_functions_of_a_table_are_defined_in_the_stub(name):
    asked, last = script(f"og.{name}")
    (place,) = asked.goto(last, follow_imports=True, prefer_stubs=True)
    assert Path(place.module_path) == ROOT / "onnxgrad/tensor/__init__.pyi"
    assert line_of(place).startswith(f"def {name.rpartition('.')[2]}(")


def test_the_list_goes_over_the_whole_surface():
    assert len(PARAMETERS) == len({line.partition("(")[0] for line in PARAMETERS}) >= 80
    homes = {line.partition("(")[0].rpartition(".")[0] for line in PARAMETERS}
    assert {"", "x", "v", "t", "nn", "nn.functional", "nn.initializer", "optimizer", "optimizer.lr", "static", "static.nn"} <= homes
    assert homes <= {"", "x", "v", "t", "training", *MODULES}


@pytest.mark.parametrize("module", ["nn", "optimizer", "nn.functional", "optimizer.lr", "static", "training"])
def test_completion_shows_the_names_of_a_module(module):
    asked, last = script(f"og.{module}.")
    assert {name.name for name in asked.complete(last)} >= set(module_at(module).__all__)


@pytest.mark.parametrize("module", ["nn", "func", "linalg", "regularizer", "training", "distributed", "static", "amp", "autograd"])
def test_completion_shows_nothing_that_a_module_imports_for_itself(module):
    asked, last = script(f"og.{module}.")
    shown = {name.name for name in asked.complete(last)}
    assert shown and shown & {"annotations", "Any", "Array", "ArgumentError", "Callable", "FeedError", "Sequence", "np"} == set()


def test_completing_a_module_reads_little():
    """Files, never time: that of typing, which costs most, is not among them"""
    from parso.cache import parser_cache

    parser_cache.clear()
    for module in ("nn", "optimizer", "static", "distributed", "amp", "autograd"):
        source = f"import onnxgrad as og\nog.{module}."
        assert len(jedi.Script(source, project=jedi.Project(ROOT), environment=HERE).complete(2)) > 3
    read = {str(path) for cached in parser_cache.values() for path in cached}
    assert {path for path in read if path.endswith(("typing.py", "typing.pyi", "builtins.pyi"))} == set()
