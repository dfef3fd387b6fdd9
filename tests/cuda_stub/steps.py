"""What the steps of a small net with Dropout copy: a line of JSON for the last of six steps, and what is captured in all.

    python -m tests.cuda_stub.steps STUB [graph]

With ``graph`` they are replayed as CUDA graphs. Runs over the stub, whose folder is the first argument.
"""

import ctypes
import json
import sys

import numpy as np

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static


def main(folder, graph=""):
    # Of an unknown number of rows where they are captured: a session knows that of its feed.
    rows = None if graph else 64
    x, y = static.data("x", [rows, 32]), static.data("y", [rows, 4])
    hidden = F.dropout(F.relu(static.nn.fc(x, 64)), 0.1)
    loss = paddle.mean(paddle.square(static.nn.fc(hidden, 4) - y))
    paddle.optimizer.Adam(1e-3).minimize(loss)
    executor = static.Executor(static.CUDAPlace(0, enable_cuda_graph=bool(graph)))
    executor.run(static.default_startup_program())
    feed = {"x": np.ones((64, 32), np.float32), "y": np.ones((64, 4), np.float32)}
    runtime = ctypes.CDLL(f"{folder}/libcudart.so.13")
    for name in ("stub_copies", "stub_bytes", "stub_launches", "stub_captures", "stub_replays"):
        getattr(runtime, name).restype = ctypes.c_longlong
    captures = 0
    for _ in range(6):
        runtime.stub_reset()
        executor.run(feed=feed, fetch_list=[loss])
        captures += runtime.stub_captures()
    counts = {
        name: [runtime.stub_copies(k), runtime.stub_bytes(k)] for name, k in (("to_device", 1), ("to_host", 2), ("within", 3))
    }
    counts.update(launches=runtime.stub_launches(), replays=runtime.stub_replays(), captures=captures)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
