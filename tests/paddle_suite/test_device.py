"""paddle.device: what is there to run on."""

import pytest

from onnxgrad import device
from onnxgrad.errors import NotOffered


def test_the_kinds_of_devices_are_those_that_can_be_set():
    assert device.get_all_device_type() == (["cpu", "gpu"] if device.is_compiled_with_cuda() else ["cpu"])
    assert [name.partition(":")[0] for name in device.get_available_device()] == device.get_all_device_type()
    assert not device.is_compiled_with_rocm() and not device.is_compiled_with_distribute()


def test_what_onnxruntime_has_not_is_refused_with_a_reason():
    with pytest.raises((NotOffered, AttributeError), match="manages streams"):
        _ = device.current_stream
