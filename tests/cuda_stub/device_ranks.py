"""What the steps of a rank copy where gradients are exchanged on the device, and where they go by way of main memory.

    python -m tests.cuda_stub.device_ranks STUB

A line of JSON for each way, of the second of two steps, or updates: copies to the host and to the device with their bytes, in all and
from the first exchange on, what was exchanged, and where. There is one rank, as copies of all threads are counted together, and
nothing is added up, as no kernel runs. Runs over the stub, whose folder is the first argument, so nothing that needs cuDNN.
"""

import ctypes
import json
import sys
from contextlib import nullcontext
from math import prod

import numpy as np
import onnxruntime

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.operator import Role
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.step import cut
from onnxgrad.core.step.loss_terms import only_term
from onnxgrad.distributed import Alone, Strategy
from onnxgrad.distributed.exchange import distribute
from onnxgrad.training.accumulation import add_up
from tests.cuda_stub.shares import FEED

TO_DEVICE, TO_HOST = 1, 2


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLManagedTensor of DLPack"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("index", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_CUDA = 2
_TYPES = {"float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16), "bool": (6, 8)}
_KEPT = []
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Flat:
    """Elements on the device, as far as an exchange asks of a tensor; what would launch a kernel does nothing"""

    def __init__(self, owner, address, shape, dtype):
        self.owner, self.address, self.shape, self.dtype = owner, address, shape, np.dtype(dtype)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        start, stop, _ = key.indices(len(self))
        return Flat(self.owner, self.address + start * self.dtype.itemsize, (stop - start,), self.dtype)

    def __setitem__(self, key, value):
        pass

    def __imul__(self, factor):
        return self

    def __iadd__(self, other):
        return self

    def view(self, shape):
        return Flat(self.owner, self.address, shape, self.dtype)

    def clone(self):
        return new(prod(self.shape), self.dtype)

    def isfinite(self):
        return np.ones(1, bool)

    def value(self):
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        tensor = _Tensor(
            self.address,
            _CUDA,
            0,
            len(self.shape),
            _Type(*_TYPES[self.dtype.name], 1),
            shape,
            None,
            0,
            None,
            ctypes.cast(_DELETER, ctypes.c_void_p),
        )
        _KEPT.append((self, shape, tensor))
        return onnxruntime.OrtValue.from_dlpack(_capsule(ctypes.addressof(tensor), b"dltensor", None))


def new(size, dtype):
    value = static.CUDAPlace(0).room((size,), dtype)
    return Flat(value, value.data_ptr(), (size,), dtype)


class OnDevice(Alone):
    """A transport of one rank with memory on the device; it notes what is exchanged there"""

    device = ("cuda", 0)

    def __init__(self, stream, note):
        self.stream, self._note = stream, note

    def on_stream(self):
        return nullcontext()

    def wait(self):
        pass

    def room(self, size, dtype):
        return new(size, dtype)

    def value(self, flat):
        return flat.value()

    def view(self, value):
        dtype = {"tensor(float)": np.float32}[value.data_type()]
        return Flat(value, value.data_ptr(), (prod(value.shape()),), dtype)

    def all_reduce_(self, buffer, op="sum"):
        self._note("all_reduce", buffer)

    def reduce_scatter_(self, buffer):
        self._note("reduce_scatter", buffer)

    def all_gather_(self, buffer):
        self._note("all_gather", buffer)

    def all_to_all_(self, buffer):
        self._note("all_to_all", buffer)


def net(accumulate, clips):
    """The loss of two layers with Adam, whose gradients are added up over some runs, and clipped by the norm of all"""
    x, y = static.data("x", [None, 32]), static.data("y", [None, 4])
    loss = paddle.mean(paddle.square(static.nn.fc(F.relu(static.nn.fc(x, 64)), 4) - y))
    program = loss.block.program
    optimizer = paddle.optimizer.Adam(1e-3, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0) if clips else None)
    if accumulate == 1:
        optimizer.minimize(loss)
    else:
        pairs = static.append_backward(loss)
        term = only_term(loss, None, Builder(program.global_block(), role=Role.BACKWARD, key="loss_weight"))
        add_up(program, [term], [pairs], optimizer, accumulate)
    static.Executor(static.CPUPlace()).run(static.default_startup_program())
    return loss


WAYS = {
    "plain": ({}, 1, False),
    "sums": ({}, 2, False),
    "ranges": ({"sharding": 1}, 1, False),
    "ranges, clipped": ({"sharding": 1}, 1, True),
    "ranges of sums": ({"sharding": 1}, 2, False),
    "16 bits": ({"compress": "bfloat16"}, 1, False),
    "16 bits of ranges of sums": ({"sharding": 1, "compress": "float16"}, 2, False),
}


def main(folder):
    runtime = ctypes.CDLL(f"{folder}/libcudart.so.13")
    for name in ("stub_copies", "stub_bytes", "stub_launches", "stub_launches_on_stream"):
        getattr(runtime, name).restype = ctypes.c_longlong
    runtime.stub_watch.argtypes = [ctypes.c_void_p]
    stream = ctypes.c_void_p()
    runtime.cudaStreamCreate(ctypes.byref(stream))
    runtime.stub_watch(stream)

    def copies():
        return [
            runtime.stub_copies(TO_HOST),
            runtime.stub_bytes(TO_HOST),
            runtime.stub_copies(TO_DEVICE),
            runtime.stub_bytes(TO_DEVICE),
        ]

    def step(way, on_device):
        options, accumulate, clips = WAYS[way]
        with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
            loss = net(accumulate, clips)
            program, scope = loss.block.program, loss.block.program.active_scope()
            exchanged, before = [], []

            def note(kind, flat):
                if isinstance(flat, Flat):
                    exchanged.append([kind, len(flat) * flat.dtype.itemsize])
                    before.append(copies())

            distribute(program, loss, OnDevice(stream.value, note) if on_device else Alone(), Strategy(**options))
            executor = static.Executor(static.CUDAPlace(0))
            for _ in range(2):
                exchanged.clear(), before.clear()
                runtime.stub_reset()
                for _ in range(accumulate):
                    executor.run(program, FEED, [], scope=scope)
                if accumulate > 1:
                    executor.apply(program, scope)
            after = copies()
            launches = [runtime.stub_launches(), runtime.stub_launches_on_stream()]
            between = [new - old for new, old in zip(after, before[0], strict=True)] if before else None
            weights = sum(4 * p.get_value().size for p in program.parameters)
            state = [scope.present(v.name) for v in program.updates]
            places = sorted({v.value.device_name() if isinstance(v, Buffer) else "array" for v in state})
        return {
            "weights": weights,
            "copies": after,
            "after gradients": between,
            "exchanged": exchanged,
            "launches": launches,
            "places": places,
        }

    small = cut.SMALL
    for way in WAYS:
        cut.SMALL = small if way == "plain" else 16  # so that the matrices are shared out
        print(json.dumps({"way": way, "on device": True, **step(way, True)}), flush=True)
    cut.SMALL = small
    print(json.dumps({"way": "plain", "on device": False, **step("plain", False)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
