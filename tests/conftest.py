import pytest

from onnxgrad import state


@pytest.fixture(autouse=True)
def fresh_state():
    """Every test starts with new default programs, names, scope and seed."""
    outer, state.current = state.current, state.State()
    yield
    state.current = outer
