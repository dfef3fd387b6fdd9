"""Every pass rewrites something in the corpus, and what it rewrites computes what the plain graph does, as its contract says.

``python -m tests.core.compile.corpus`` counts anew and writes the table that is read here.
"""

import json

import pytest

from onnxgrad.core.providers.registry import PROVIDERS
from tests.core.compile.corpus import EVERY, FILE, cases, compared, passes_of

TABLE = json.loads(FILE.read_text())
REFUSE_ONLY = {"refusals"}
"""Passes that raise or do nothing."""
FOREIGN = {"contrib_kernels"}
"""Rewrites what neither onnxruntime's CPU provider nor onnx's evaluator computes, so that there is no plain graph to compare with:
tests/core/graph_passes/test_contrib_kernels.py has definitions of its own."""


def hits():
    for provider, rows in TABLE.items():
        for name, row in rows.items():
            for number, case in enumerate(row["cases"]):
                marks = [pytest.mark.exhaustive] if number else []
                yield pytest.param(provider, name, case, id=f"{provider}, {name}, {case}", marks=marks)


@pytest.fixture(scope="module")
def corpus():
    return cases()


def test_the_table_has_every_pass_and_each_is_met():
    for provider in (EVERY, *PROVIDERS):
        assert list(TABLE[provider]) == [each.name for each in passes_of(provider)]
        unmet = {name for name, row in TABLE[provider].items() if not row["places"]}
        assert unmet <= REFUSE_ONLY | FOREIGN, f"{provider}: nothing in the corpus meets {sorted(unmet)}"
        assert {each.name: each.rounding for each in passes_of(provider)} == {
            n: row["rounding"] for n, row in TABLE[provider].items()
        }


def test_the_table_says_of_each_case_by_how_much_it_rounds():
    for provider in (EVERY, *PROVIDERS):
        for each in passes_of(provider):
            row = TABLE[provider][each.name]
            assert set(row) == {"rounding", "places", "ratio", "cases"}
            assert all(set(case) == {"places", "difference", "ratio", "undecided"} for case in row["cases"].values())
            assert row["ratio"] == max((case["ratio"] for case in row["cases"].values()), default=0.0)
            assert each.rounding != "fast" or each.bound is not None, f"{each.name} rounds fast and does not say by how much"


@pytest.mark.parametrize(("provider", "name", "case"), list(hits()))
def test_what_a_pass_rewrites_rounds_as_its_contract_says(corpus, provider, name, case):
    """Equal bits, or against float64 within so many eps times the size of each element; of a graph that several rewrite, the most"""
    title, _, batch = case.rpartition(", ")
    row, found = TABLE[provider][name]["cases"][case], compared(corpus[title], provider, batch.removesuffix(" batch"))
    assert found.places.get(name) == row["places"]
    if not found.most:
        assert found.same
    else:
        assert found.ratio <= found.most
        # In a deep net some masks of millions turn, and other ones by the kernels of another processor.
        allowed = max(row["undecided"], found.elements // 100) if row["undecided"] else 0
        assert found.undecided <= allowed, "further elements follow from a decision within rounding"
