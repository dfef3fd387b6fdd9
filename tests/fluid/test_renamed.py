"""The table of old arguments: signatures, what is left out, and what is refused."""

import inspect

import pytest

from onnxgrad import fluid
from onnxgrad.fluid.renamed import renamed


def multiply(x, factor, name=None):
    """The product.

    Further lines are about today's arguments.
    """
    return x * factor, name


def test_old_names_and_defaults_are_in_the_signature():
    function = renamed("scale(input, ratio=2, use_cudnn=True, name=None)", multiply, x="input", factor="ratio")
    assert str(inspect.signature(function)) == "(input, ratio=2, use_cudnn=True, name=None)"
    assert function.__name__ == "scale" and function.__doc__ == "The product."
    assert function(3) == (6, None) and function(input=3, ratio=3, name="a") == (9, "a") == function(3, 3, False, "a")


def test_new_names_are_refused():
    function = renamed("scale(input, ratio=2)", multiply, x="input", factor="ratio")
    for arguments in ({"x": 1}, {"input": 1, "factor": 2}, {}):
        with pytest.raises(TypeError, match="scale"):
            function(**arguments)


def test_a_name_that_is_in_no_signature_is_found_at_once():
    for names in ({"y": "input"}, {"x": "inputs"}):
        with pytest.raises(AssertionError, match="scale"):
            renamed("scale(input, ratio=2)", multiply, **names)


def test_everything_in_layers_says_what_it_is():
    for name in fluid.layers.__all__:
        found = getattr(fluid.layers, name)
        assert found.__doc__, name
        assert inspect.signature(found).parameters, name
