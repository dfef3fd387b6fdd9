"""What one step of a small net with Dropout copies: a line of JSON. Runs over the stub, whose folder is the argument."""

import ctypes
import json
import sys

import numpy as np

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static


def main(folder):
    x, y = static.data("x", [64, 32]), static.data("y", [64, 4])
    hidden = F.dropout(F.relu(static.nn.fc(x, 64)), 0.1)
    loss = paddle.mean(paddle.square(static.nn.fc(hidden, 4) - y))
    paddle.optimizer.Adam(1e-3).minimize(loss)
    executor = static.Executor(static.CUDAPlace(0))
    executor.run(static.default_startup_program())
    feed = {"x": np.ones((64, 32), np.float32), "y": np.ones((64, 4), np.float32)}
    runtime = ctypes.CDLL(f"{folder}/libcudart.so.13")
    for name in ("stub_copies", "stub_bytes", "stub_launches"):
        getattr(runtime, name).restype = ctypes.c_longlong
    for _ in range(4):
        runtime.stub_reset()
        executor.run(feed=feed, fetch_list=[loss])
    counts = {name: [runtime.stub_copies(k), runtime.stub_bytes(k)] for name, k in (("to_device", 1), ("to_host", 2))}
    print(json.dumps({**counts, "within": [runtime.stub_copies(3), runtime.stub_bytes(3)], "launches": runtime.stub_launches()}))


if __name__ == "__main__":
    main(sys.argv[1])
