"""The official single-operator cases of the onnx package: every gradient agrees with central differences."""

import pytest

from tests.core.rules.official_cases import (
    EXCEPTIONS,
    cases_of,
    check_case,
    groups,
    moves,
    out_of_scope,
    read_group,
    representative,
)


def problems_of(cases):
    """What is wrong with each case, in every setting; a stated refusal must really happen."""
    found = []
    for case in cases:
        for setting, outcome in check_case(case).items():
            if case.name in EXCEPTIONS:
                if not outcome.refused:
                    found.append(f"{case.name} [{setting}] is listed as refused but is not: {outcome.problem or 'it passes'}")
            elif outcome.problem:
                found.append(f"{case.name} [{setting}] {outcome.problem}")
    return found


def in_scope(group):
    return [case for case in cases_of(group) if not out_of_scope(case)]


def test_cases_are_found_also_where_somebody_read_them_before():
    first = [case.name for case in read_group("node.add")]
    assert "test_add" in first
    assert [case.name for case in read_group("node.add")] == first


SLOW = ("node.attention", "node.averagepool", "node.lppool", "node.maxpool")
"""Modules of onnx that take seconds to make their cases, of operators with many samples of ours."""


@pytest.mark.parametrize("group", [group for group in groups() if group not in SLOW])
def test_gradients_of_a_selection_agree_with_central_differences(group):
    assert problems_of([case for i, case in enumerate(in_scope(group)) if representative(case, i)]) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("group", groups())
def test_gradients_of_all_cases_agree_with_central_differences(group):
    assert problems_of(in_scope(group)) == []


@pytest.mark.exhaustive
def test_every_stated_refusal_belongs_to_a_case():
    assert set(EXCEPTIONS) - {case.name for group in groups() for case in in_scope(group)} == set()


@pytest.mark.exhaustive
@pytest.mark.parametrize("group", groups())
def test_cases_without_a_differentiable_path_have_a_zero_derivative(group):
    moving = [case.name for case in cases_of(group) if out_of_scope(case).startswith("no differentiable path") and moves(case)]
    assert moving == []
