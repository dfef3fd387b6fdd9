"""Every pass rewrites something in the corpus, and what it rewrites computes what the plain graph does.

``python -m tests.core.compile.corpus`` counts anew and writes the table that is read here.
"""

import functools
import json

import pytest

from onnxgrad import state, static
from onnxgrad.core.providers.registry import PROVIDERS
from tests.core.compile.corpus import EVERY, FILE, cases, difference, lowered, passes_of, plain

TABLE = json.loads(FILE.read_text())
BOUNDS = {"none": 0.0, "order": 2e-5, "fast": 1e-2}
"""By how much results may differ, relative to the largest number of an output. Over the corpus, sums in another order differ by at most
5e-6, and a net with Winograd's products in their fast form by 3e-3."""
REFUSE_ONLY = {"refusals"}
"""Passes that raise or do nothing."""


def hits():
    for provider, rows in TABLE.items():
        for name, row in rows.items():
            for number, case in enumerate(row["cases"]):
                marks = [pytest.mark.exhaustive] if number else []
                yield pytest.param(provider, name, case, id=f"{provider}, {name}, {case}", marks=marks)


@pytest.fixture(scope="module")
def measured():
    """Places of each pass, and by how much results differ: once for a graph, also where several passes rewrite it."""
    corpus = cases()

    @functools.cache
    def made(title):
        with state.isolated():
            case = corpus[title]()
            return case, plain(case), static.global_scope()

    @functools.cache
    def measure(provider, title, batch):
        case, expected, scope = made(title)
        with static.scope_guard(scope):
            graph = lowered(case, provider, batch)
            return {each.name: each.places for each in graph.rewrites}, difference(graph, case.feed, expected)

    return measure


def test_the_table_has_every_pass_and_each_is_met():
    for provider in (EVERY, *PROVIDERS):
        assert list(TABLE[provider]) == [each.name for each in passes_of(provider)]
        unmet = {name for name, row in TABLE[provider].items() if not row["places"]}
        assert unmet <= REFUSE_ONLY, f"{provider}: nothing in the corpus meets {sorted(unmet)}"
        assert {each.name: each.rounding for each in passes_of(provider)} == {
            n: row["rounding"] for n, row in TABLE[provider].items()
        }


@pytest.mark.parametrize(("provider", "name", "case"), list(hits()))
def test_what_a_pass_rewrites_computes_the_same(measured, provider, name, case):
    title, _, batch = case.rpartition(", ")
    places, differs = measured(provider, title, batch.removesuffix(" batch"))
    assert places.get(name) == TABLE[provider][name]["cases"][case]["places"]
    roundings = {each.name: each.rounding for each in [*passes_of(EVERY), *passes_of(provider)]}
    assert differs <= max(BOUNDS[roundings[each]] for each in places)
