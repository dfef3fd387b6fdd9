"""Options of optimizers, names of layers, default types and what gradients are asked for: the whole grid as Paddle gives it."""

import functools
import json
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import onnxgrad as paddle
from tests import paddle_grid as grid

RECORD = json.loads((Path(__file__).parent.parent / "data" / "paddle_grid.json").read_text())

OTHERWISE = {
    "eager_tables: Adam* lazy / sparse / *": "documented: an eager table is updated as a whole",
    "*_default_types: * / assign float": "documented as float32",
    "*_default_types: * / assign list": "documented as float32",
    "*_default_types: bfloat16 / to_tensor complex*": "twice as wide as the default would be complex32, not complex128",
    "*_default_types: bfloat16 / BatchNorm1D mean": "statistics are float32 at least, as they are for float16",
    "static_default_types: * / to_tensor complex*": "Paddle's programs leave out the default type here, its eager mode does not",
    "static_default_types: * / to_tensor list of tensors": "a program's variables are no values; stack joins them",
    "static_asked: gradients / loss": "the gradient of a target with respect to itself is 1, in Paddle's other modes too",
    "static_asked: [mo]* / data": "a minimize that updates nothing is refused",
    "static_asked: [mo]* / frozen parameter": "likewise",
    "static_asked: [mo]* / stopped *": "likewise",
    "layer_printing: [Ll][Pp]*": "norm_type is an int where it is given as one, and stride is None until it is given",
    "layer_printing: RReLU": "training is not an option of it",
    "eager_spellings: div floor": "a rounded quotient has the gradient 0, Paddle's has none",
    "eager_spellings: div trunc": "likewise",
}


def recorded(section):
    """Paddle's results by case; of programs that it cannot run, those of its eager mode."""
    eager = RECORD.get(section.replace("static", "eager"), {"results": {}})["results"]
    results = RECORD[section]["results"]
    return {name: eager.get(name, result) if result == grid.REFUSED else result for name, result in results.items()}


@functools.cache
def own_cases(section):
    """Functions by the name of the case; listing them all takes as long as computing one."""
    return getattr(grid, section)(paddle)


def cases(*sections):
    """The section, the name of the case and its result, where Paddle gives one and this library is to give the same."""
    chosen = []
    for section in sections:
        own = own_cases(section)
        for name, wanted in recorded(section).items():
            key = f"{section}: {name}"
            if wanted != grid.REFUSED and name in own and not any(fnmatch(key, pattern) for pattern in OTHERWISE):
                chosen.append(pytest.param(section, name, wanted, id=key))
    return chosen


def computed(section, name):
    return grid.outcome(paddle, own_cases(section)[name])


def assert_same(result, wanted):
    if isinstance(wanted, dict) and isinstance(result, dict):
        assert result.keys() == wanted.keys()
        for key, value in wanted.items():
            assert_same(result[key], value)
    elif isinstance(wanted, list) and wanted and isinstance(wanted[0], float) and isinstance(result, list):
        np.testing.assert_allclose(result, wanted, rtol=2e-4, atol=2e-6)
    else:
        assert result == wanted


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("section", "name", "wanted"), cases("eager_options", "static_options", "eager_groups"))
def test_every_optimizer_with_every_option_of_a_parameter_and_of_a_group(section, name, wanted):
    assert_same(computed(section, name), wanted)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("section", "name", "wanted"), cases("eager_tables", "static_tables"))
def test_every_optimizer_on_tables_of_every_width(section, name, wanted):
    assert_same(computed(section, name), wanted)


@pytest.mark.parametrize(("section", "name", "wanted"), cases("eager_printing", "layer_printing"))
def test_tensors_and_layers_print_as_paddles_do(section, name, wanted):
    assert computed(section, name) == wanted


@pytest.mark.parametrize(("section", "name", "wanted"), cases("eager_spellings"))
def test_the_names_that_paddle_has_for_authors_of_torch_and_messages_of_graphs(section, name, wanted):
    assert_same(computed(section, name), wanted)


@pytest.mark.parametrize(("section", "name", "wanted"), cases("eager_resumed", "eager_state_names", "static_averages"))
def test_state_that_is_set_before_the_first_step_and_averages(section, name, wanted):
    assert_same(computed(section, name), wanted)


@pytest.mark.parametrize(("section", "name", "wanted"), cases("layer_names"))
def test_names_of_layers_and_their_parameters(section, name, wanted):
    assert_same(computed(section, name), wanted)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("section", "name", "wanted"), cases("eager_default_types", "static_default_types"))
def test_the_default_type_of_whatever_makes_tensors(section, name, wanted):
    assert_same(computed(section, name), wanted)


@pytest.mark.parametrize(("section", "name", "wanted"), cases("static_asked"))
def test_what_gradients_may_be_asked_for(section, name, wanted):
    assert_same(computed(section, name), wanted)


def test_what_paddle_refuses_of_an_optimizer_is_refused():
    for section in ("eager_options", "eager_groups"):
        own = own_cases(section)
        refused = [name for name, result in RECORD[section]["results"].items() if result == grid.REFUSED]
        assert refused and [name for name in refused if grid.outcome(paddle, own[name]) != grid.REFUSED] == []


def test_every_choice_of_another_result_is_needed():
    keys = [f"{section}: {name}" for section in RECORD for name in RECORD[section]["results"]]
    assert [pattern for pattern in OTHERWISE if not any(fnmatch(key, pattern) for key in keys)] == []
