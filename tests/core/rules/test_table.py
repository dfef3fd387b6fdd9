"""The rule table is complete and closed."""

import itertools

import pytest

from onnxgrad import errors
from onnxgrad.core.ir.opset import CONTRIB_DOMAIN, all_operators
from onnxgrad.core.rules.registry import TABLE, gradient
from onnxgrad.testing import Draw, Sample, gradient_model
from tests.core.rules.samples import DECLARED, all_samples


def test_every_operator_of_onnx_has_exactly_one_state():
    assert set(all_operators()) == {key for key in TABLE if not key[0].startswith(CONTRIB_DOMAIN)}
    assert all(entry.state in ("rule", "expands", "stops", "unsupported") for entries in TABLE.values() for entry in entries)


def test_every_operator_without_a_rule_gives_its_reason():
    for (_, name), entries in TABLE.items():
        for entry in entries:
            assert entry.formula, name


def test_every_rule_has_samples():
    all_samples()  # reads the modules that declare some
    written = {name for (domain, name), entries in TABLE.items() if not domain and entries[0].state in ("rule", "expands")}
    assert written - set(DECLARED) == set()


def test_entering_an_operator_twice_is_refused():
    with pytest.raises(errors.ArgumentError, match="Relu is in the rule table already"):
        gradient("Relu")(lambda op, node, gy: gy)


def test_numbers_drawn_apart_have_no_ties():
    sampled = sorted(Draw().real(20, apart=0.05).tolist())
    assert min(b - a for a, b in itertools.pairwise(sampled)) > 0.05


@pytest.mark.parametrize("form", [{"dilations": [2]}, {"strides": [4]}])
def test_pooling_windows_on_which_runtimes_disagree_are_refused(form):
    sample = Sample(Draw().real(1, 1, 7), kernel_shape=[2], auto_pad="SAME_UPPER", **form)
    sample.op_type = "AveragePool"
    with pytest.raises(errors.UnsupportedGradient, match="Write the pads out"):
        gradient_model(sample, "float32")
