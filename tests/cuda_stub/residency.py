"""Where the nodes of training steps lie on the CUDA provider, and what is copied: one line of JSON for each case.

    LD_LIBRARY_PATH=STUB python -m tests.cuda_stub.residency [CASE ...]

A case is how names of ``cases()`` begin, and behind a colon ``float16`` or ``bfloat16``: ``workload/W1a:bfloat16``; or ``graph``:
then the line says why the step cannot be replayed as a CUDA graph once its sizes are known (``null``: it can).
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.compile import compile
from onnxgrad.core.interop.onnx_export import write_model
from onnxgrad.core.passes.mixed_precision import to_mixed_precision
from onnxgrad.core.runtime.session_cache import _open_captured
from tests.real_models import REFUSED_BY_ONNXRUNTIME, WITH_REFERENCE

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from benchmark_suite import in_onnxgrad
from benchmark_suite.in_onnxgrad import Layers
from benchmark_suite.workloads import WORKLOADS

# Weights are inputs of these graphs, and nothing is run: their values are not asked for, and drawing them takes long.
in_onnxgrad.initial_weight = lambda name, shape, deviation: np.zeros(shape, np.float32)

REAL = {f"real/{folder.name}": folder for folder in WITH_REFERENCE if folder.name not in REFUSED_BY_ONNXRUNTIME}
# What is built many times, and files of packages.
_OTHERS = {"W9", "S1", "S2", "S3", "S4"}
NETS = ("dropout", "dropout4", "unknown_batch", "convolution", "bfloat16")


def cases():
    return [*(f"net/{name}" for name in NETS), *(f"workload/{name}" for name in WORKLOADS if name not in _OTHERS), *REAL]


def _net(name):
    if name == "bfloat16":
        x = static.data("x", [64, 32], "bfloat16")
        w, v = paddle.create_parameter([32, 512], "bfloat16"), paddle.create_parameter([512, 10], "bfloat16")
        h = F.layer_norm(F.dropout(F.gelu(F.relu(paddle.matmul(x, w))), 0.1), [512])
        return F.cross_entropy(paddle.matmul(h, v), static.data("label", [64, 1], "int64"))
    x = static.data("x", [None if name == "unknown_batch" else 64, 3, 16, 16])
    if name == "convolution":
        h = static.nn.batch_norm(static.nn.conv2d(x, 8, 3, padding=1), act="relu")
        h = F.max_pool2d(F.selu(F.dropout(h, 0.1)), 2, 2)
    else:
        h = F.relu(static.nn.fc(x, 512))
        for _ in range({"dropout": 1, "dropout4": 4}.get(name, 1)):
            h = F.dropout(h, 0.1)
    return F.cross_entropy(static.nn.fc(h, 10), static.data("label", [-1 if name == "unknown_batch" else 64, 1], "int64"))


def program_of(name, amp=None):
    """The program of a case, its loss and what a step fetches."""
    kind, _, rest = name.partition("/")
    if kind == "real":
        program = paddle.from_onnx(REAL[name] / "model.onnx")
        program.train()
        if amp:
            to_mixed_precision(program, amp)
        with static.program_guard(program):
            loss = paddle.add_n([paddle.cast(paddle.mean(y * y), "float32") for y in program.outputs if y.is_float])
            pairs = static.append_backward(loss)
        return program, [loss, *(g for _, g in pairs)]
    program = static.Program()
    with static.program_guard(program, static.Program()):
        if kind == "net":
            loss = _net(rest)
        else:
            workload = WORKLOADS[rest]()
            loss = workload.build(Layers(workload))
        optimizer = paddle.optimizer.Adam(1e-3)
        if amp:
            optimizer = static.amp.decorate(optimizer, dtype=amp)
        optimizer.minimize(loss)
    return program, [loss]


def residency(name, amp=None):
    """Nodes by provider, and what is copied in a run."""
    program, fetches = program_of(name, amp)
    graph = compile(program, fetches, "cuda", state_as_inputs=True, ordered=True)
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.optimized_model_filepath = f"{folder}/step.onnx"
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        providers = [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"]
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString(), options, providers=providers)
        model = onnx.load(options.optimized_model_filepath, load_external_data=False)
    assert session.get_providers()[0] == "CUDAExecutionProvider"
    host, count = Counter(), 0
    for part in session.get_provider_graph_assignment_info():
        types = [node.op_type for node in part.get_nodes()]
        count += len(types)
        host.update(types if part.ep_name == "CPUExecutionProvider" else ())
    known = {v.name: v for op in graph.operators for v in op.outputs if v is not None} | {v.name: v for v in graph.inputs}
    copies = []
    for node in model.graph.node:
        if node.op_type.startswith("Memcpy"):
            v = known.get(node.input[0].removesuffix("_CUDAExecutionProvider"))
            shape = None if v is None else v.static_shape
            size = None if shape is None else int(np.prod(shape)) * max(v.dtype.bits // 8, 1)
            copies.append([node.op_type[6:], node.input[0], size])
    return {"case": name, "amp": amp, "nodes": count, "host": dict(host), "copies": copies}


def captured(name):
    """Why a step with known sizes is not replayed as a CUDA graph."""
    program, fetches = program_of(name)
    feed = WORKLOADS[name.partition("/")[2]]().feeds[0] if name.startswith("workload/") else {}
    sizes = {v.name: tuple(d if isinstance(d, int) else 8 for d in v.dims) for v in program.inputs}
    sizes |= {entry: array.shape for entry, array in feed.items()}
    graph = compile(program, fetches, "cuda", sizes, state_as_inputs=True, ordered=True)
    found = _open_captured(graph, static.CUDAPlace(0, enable_cuda_graph=True), None)
    return {"case": name, "reason": found if isinstance(found, str) else None}


def main(arguments):
    wanted = [(kind, amp) for kind, _, amp in (argument.partition(":") for argument in arguments or [""])]
    for name, amp in ((case, amp) for kind, amp in wanted for case in cases() if case.startswith(kind)):
        try:
            with paddle.state.fresh_names(), static.scope_guard(static.Scope()):
                found = captured(name) if amp == "graph" else residency(name, amp or None)
        except Exception as error:
            found = {"case": name, "amp": amp or None, "error": f"{type(error).__name__}: {error}"[:600]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
