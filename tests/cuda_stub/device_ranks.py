"""What the step of a rank copies where gradients are exchanged on the device, and where they go by way of main memory.

    python -m tests.cuda_stub.device_ranks STUB

A line of JSON for each way, of the second of two steps: copies to the host and to the device with their bytes, in all and from the
first exchange on. There is one rank, as copies of all threads are counted together, and nothing is added up, as no kernel runs.
Runs over the stub, whose folder is the first argument, so nothing that needs cuDNN.
"""

import ctypes
import json
import sys

from onnxgrad import static
from onnxgrad.distributed import Alone
from onnxgrad.distributed.exchange import distribute
from tests.cuda_stub.shares import FEED, net

TO_DEVICE, TO_HOST = 1, 2


class OnDevice(Alone):
    """A transport of one rank with memory on the device; it notes what is exchanged there"""

    device = ("cuda", 0)

    def __init__(self, stream, note):
        self.stream, self._note = stream, note

    def room(self, shapes, dtype, alignment):
        values = [static.CUDAPlace(0).room(shape, dtype) for shape in shapes]
        return values, values

    def all_reduce_room_(self, flat, factor, op="sum"):
        self._note(flat)


def main(folder):
    runtime = ctypes.CDLL(f"{folder}/libcudart.so.13")
    for name in ("stub_copies", "stub_bytes", "stub_launches", "stub_launches_on_stream"):
        getattr(runtime, name).restype = ctypes.c_longlong
    runtime.stub_watch.argtypes = [ctypes.c_void_p]
    stream = ctypes.c_void_p()
    runtime.cudaStreamCreate(ctypes.byref(stream))
    runtime.stub_watch(stream)
    loss, _ = net()
    program = loss.block.program
    weights = sum(4 * p.get_value().size for p in program.parameters)

    def copies():
        return [
            runtime.stub_copies(TO_HOST),
            runtime.stub_bytes(TO_HOST),
            runtime.stub_copies(TO_DEVICE),
            runtime.stub_bytes(TO_DEVICE),
        ]

    def step(on_device):
        exchanged, before = [], []

        def note(values):
            exchanged.extend(value.device_name() for value in values)
            before.append(copies())

        copy, twins = program.clone_with_variables()
        distribute(copy, twins[loss], OnDevice(stream.value, note) if on_device else Alone())
        executor, scope = static.Executor(static.CUDAPlace(0)), program.active_scope().copy()
        for _ in range(2):
            exchanged.clear(), before.clear()
            runtime.stub_reset()
            executor.run(copy, FEED, [], scope=scope)
            after = copies()
        launches = [runtime.stub_launches(), runtime.stub_launches_on_stream()]
        between = [new - old for new, old in zip(after, before[0], strict=True)] if before else None
        return {"copies": after, "after gradients": between, "exchanged": exchanged, "launches": launches}

    for on_device in (True, False):
        print(json.dumps({"on device": on_device, "weights": weights, **step(on_device)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
