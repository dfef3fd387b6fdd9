"""bfloat16 arrays to the device and back, over the stub: prints how many came back as they were."""

import ml_dtypes
import numpy as np

from onnxgrad.core.state.values import array_of, copy_into, device_of, value_of


def main():
    draw = np.random.default_rng(0)
    for shape in ((2, 3), (), (5,)):
        array, other = (draw.normal(size=shape).astype(ml_dtypes.bfloat16) for _ in range(2))
        value = value_of(array, "cuda")
        assert device_of(value) == ("cuda", 0)
        found = array_of(value)
        assert found.dtype == array.dtype and found.shape == shape and found.tobytes() == array.tobytes()
        copy_into(value, other)
        assert array_of(value).tobytes() == other.tobytes()
    print("3 shapes")


if __name__ == "__main__":
    main()
