import pytest

import onnxgrad


@pytest.fixture(autouse=True)
def static_mode():
    """Functions without tensor arguments append to the default program."""
    onnxgrad.enable_static()
