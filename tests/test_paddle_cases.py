"""Values, names and order against cases recorded from real Paddle."""

import pytest

from tests.paddle_cases import Disagreement, MissingFunction, check, load

# Cases that cannot agree: the reason, and a part of the message that says so.
DIFFERENT = {
    "gr_unaffected_single": (
        "gradients returns one entry per input, as documented; Paddle returns [] here",
        r"\[None\], recorded \[\]",
    ),
    "ew_heaviside_same": ("x decides by its sign alone, which is no path for gradients; Paddle makes zeros", r"\[None, 'y@GRAD'\]"),
}

# Temporary, until the functions of all branches are together: emptied at the merge.
WAITING = {"red_prod_ax1", "red_prod_zero", "local_response_norm"}
FUNCTIONS_ARE_BEING_WRITTEN = True


@pytest.mark.parametrize("case", load().values(), ids=str)
def test_agrees_with_paddle(case):
    if case.id in DIFFERENT:
        with pytest.raises(Disagreement, match=DIFFERENT[case.id][1]):
            check(case)
        return
    try:
        check(case)
    except MissingFunction as error:
        if FUNCTIONS_ARE_BEING_WRITTEN:
            pytest.xfail(f"{error} is missing")
        raise
    except Exception:
        if case.id in WAITING:
            pytest.xfail("waits for its function to be completed")
        raise


def test_nearly_all_cases_agree():
    assert len(DIFFERENT) <= 0.01 * len(load())
