"""What the steps of a small net with Dropout copy: a line of JSON for the last of six steps, and what is captured in all.

    python -m tests.cuda_stub.steps STUB [graph | WORKLOAD]

With ``graph`` they are replayed as CUDA graphs; a workload of scripts/benchmark takes the place of the net. Runs over the stub, whose
folder is the first argument, so nothing that needs cuDNN.
"""

import ctypes
import json
import sys
from pathlib import Path

import numpy as np

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))


def net(rows):
    x, y = static.data("x", [rows, 32]), static.data("y", [rows, 4])
    hidden = F.dropout(F.relu(static.nn.fc(x, 64)), 0.1)
    loss = paddle.mean(paddle.square(static.nn.fc(hidden, 4) - y))
    return loss, {"x": np.ones((64, 32), np.float32), "y": np.ones((64, 4), np.float32)}, {}


def workload(name):
    from benchmark_suite.in_onnxgrad import Layers
    from benchmark_suite.workloads import WORKLOADS

    found = WORKLOADS[name]()
    layers = Layers(found)
    return found.build(layers), found.feeds[0], layers.initial


def main(folder, case=""):
    captures = case == "graph"
    # Of an unknown number of rows where they are captured: a session knows that of its feed.
    loss, feed, weights = workload(case) if case.startswith("W") else net(None if captures else 64)
    paddle.optimizer.Adam(1e-3).minimize(loss)
    executor = static.Executor(static.CUDAPlace(0, enable_cuda_graph=captures))
    executor.run(static.default_startup_program())
    static.default_main_program().set_state_dict(weights)
    runtime = ctypes.CDLL(f"{folder}/libcudart.so.13")
    for name in ("stub_copies", "stub_bytes", "stub_launches", "stub_captures", "stub_replays"):
        getattr(runtime, name).restype = ctypes.c_longlong
    captured = 0
    for _ in range(6):
        runtime.stub_reset()
        executor.run(feed=feed, fetch_list=[loss])
        captured += runtime.stub_captures()
    counts = {
        name: [runtime.stub_copies(k), runtime.stub_bytes(k)] for name, k in (("to_device", 1), ("to_host", 2), ("within", 3))
    }
    counts.update(launches=runtime.stub_launches(), replays=runtime.stub_replays(), captures=captured)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
