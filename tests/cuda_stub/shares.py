"""Where exchanged steps, shards, stages of a pipeline and federated workers run on a CUDAPlace: a line of JSON for each.

    python -m tests.cuda_stub.shares STUB

Two ranks are two threads. Runs over the stub, whose folder is the first argument, so nothing that needs cuDNN, and no number means
anything.
"""

import ctypes
import json
import sys

import numpy as np
import onnxruntime

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.distributed import Strategy, run_local
from onnxgrad.distributed.exchange import distribute
from onnxgrad.distributed.pipeline import PipelineStep
from onnxgrad.distributed.sharded import ShardedStep
from onnxgrad.federated.worker import Worker

FEED = {"x": np.ones((16, 32), np.float32), "y": np.ones((16, 4), np.float32)}


def net():
    """(loss, hidden) of two layers with Adam."""
    x, y = static.data("x", [None, 32]), static.data("y", [None, 4])
    hidden = F.relu(static.nn.fc(x, 64))
    loss = paddle.mean(paddle.square(static.nn.fc(hidden, 4) - y))
    paddle.optimizer.Adam(1e-3).minimize(loss)
    static.Executor(static.CPUPlace()).run(static.default_startup_program())
    return loss, hidden


def main(folder):
    runtime = ctypes.CDLL(f"{folder}/libcudart.so.13")
    runtime.stub_launches.restype = ctypes.c_longlong
    opened, original = [], onnxruntime.InferenceSession

    def note(*arguments, **named):
        session = original(*arguments, **named)
        opened.append(session.get_providers()[0])
        return session

    onnxruntime.InferenceSession = note
    loss, hidden = net()
    program, place = loss.block.program, static.CUDAPlace(0)

    def ranks(transport, **options):
        copy, twins = program.clone_with_variables()
        distribute(copy, twins[loss], transport, Strategy(**options))
        static.Executor(place).run(copy, FEED, [twins[loss]], scope=program.active_scope().copy())

    def overlapped(transport):
        ranks(transport, overlap=2)

    def shards(transport):
        ShardedStep(program, [loss], transport, place=place).run(FEED)

    def shares_of_gradients(transport):
        ShardedStep(program, [loss], transport, shards="gradients", place=place).run(FEED)

    def stages(transport):
        PipelineStep(program, loss, [hidden], transport, micro_batches=2, place=place).run(FEED)

    def worker(transport):
        Worker(program, loss=loss, place=place).fit(FEED, batch_size=8)

    for way in (ranks, overlapped, shards, shares_of_gradients, stages, worker):
        opened.clear()
        runtime.stub_reset()
        run_local(1 if way is worker else 2, way)
        print(json.dumps({"way": way.__name__, "providers": sorted(set(opened)), "launches": runtime.stub_launches()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
