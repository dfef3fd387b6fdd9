import pytest

from onnxgrad import state


@pytest.fixture(autouse=True)
def fresh_state():
    """Every test starts with new default programs, names, scope and seed."""
    with state.isolated():
        yield
