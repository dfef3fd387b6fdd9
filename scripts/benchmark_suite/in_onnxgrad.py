"""The workloads in onnxgrad: a plain forward model as an exporter would write it; minimize does the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime  # here, so that its size is not taken for that of the work
from onnx import TensorProto, helper

import onnxgrad as paddle
from benchmark_suite.systems import Setting
from benchmark_suite.workloads import WORKLOADS, Workload, initial_weight
from onnxgrad import static


class Layers:
    """Layers as the ONNX operators that exporters write for them."""

    def __init__(self, workload: Workload) -> None:
        self._block = static.default_main_program().global_block()
        self._op = self._block.build
        self._weights: dict[str, Any] = {}
        self.initial: dict[str, Any] = {}
        self._inputs = {
            name: static.data(name, [None if workload.dynamic else array.shape[0], *array.shape[1:]], str(array.dtype))
            for name, array in workload.feeds[0].items()
        }

    def input(self, name: str) -> Any:
        return self._inputs[name]

    def weight(self, name: str, shape: tuple[int, ...], deviation: float, shift: float = 0.0) -> Any:
        if name not in self._weights:
            self._weights[name] = self._parameter(name, initial_weight(name, shape, deviation) + np.float32(shift))
        return self._weights[name]

    def _parameter(self, name: str, array: Any) -> Any:
        self.initial[name] = array
        return self._block.create_parameter(name, array.shape, "float32")

    def linear(self, x: Any, name: str, wide: int, out: int, three: bool = False) -> Any:
        w, b = self.weight(f"{name}.w", (wide, out), wide**-0.5), self.weight(f"{name}.b", (out,), 0.01)
        return self._op.Gemm(x, w, b) if x.rank == 2 and not three else self._op.Add(self._op.MatMul(x, w), b)

    def times_transposed(self, x: Any, table: Any) -> Any:
        return self._op.MatMul(x, self._op.Transpose(table, perm=[1, 0]))

    def conv(
        self, x: Any, name: str, wide: int, out: int, size: int, stride: int = 1, pad: int = 0, bias: bool = True, groups: int = 1
    ) -> Any:
        inner = wide // groups
        w = self.weight(f"{name}.w", (out, inner, size, size), (inner * size * size / 2) ** -0.5)
        operands = [w, self.weight(f"{name}.b", (out,), 0.01)] if bias else [w]
        return self._op.Conv(x, *operands, strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def up(self, x: Any, name: str, wide: int, out: int) -> Any:
        w, b = self.weight(f"{name}.w", (wide, out, 2, 2), wide**-0.5), self.weight(f"{name}.b", (out,), 0.01)
        return self._op.ConvTranspose(x, w, b, strides=[2, 2])

    def batch_norm(self, x: Any, name: str, width: int) -> Any:
        scale, shift = self.weight(f"{name}.g", (width,), 0.1, 1.0), self.weight(f"{name}.b", (width,), 0.1)
        mean, var = np.zeros(width, np.float32), np.ones(width, np.float32)
        return self._op.BatchNormalization(x, scale, shift, mean, var, training_mode=1, outputs=3)[0]

    def max_pool(self, x: Any, size: int = 2, stride: int = 2, pad: int = 0) -> Any:
        return self._op.MaxPool(x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def average_map(self, x: Any) -> Any:
        return self._op.Flatten(self._op.GlobalAveragePool(x))

    def relu(self, x: Any) -> Any:
        return self._op.Relu(x)

    def relu6(self, x: Any) -> Any:
        return self._op.Clip(x, np.float32(0), np.float32(6))

    def tanh(self, x: Any) -> Any:
        return self._op.Tanh(x)

    def add(self, x: Any, y: Any) -> Any:
        return self._op.Add(x, y)

    def concat(self, x: Any, y: Any) -> Any:
        return self._op.Concat(x, y, axis=1)

    def flatten(self, x: Any) -> Any:
        return self._op.Flatten(x)

    def rows(self, x: Any, width: int) -> Any:
        return self._op.Reshape(x, [-1, width])

    def gelu(self, x: Any) -> Any:
        op = self._op
        return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, 2.0**0.5)), 1.0)), 0.5)

    def layer_norm(self, x: Any, name: str, width: int) -> Any:
        scale, shift = self.weight(f"{name}.g", (width,), 0.1, 1.0), self.weight(f"{name}.b", (width,), 0.1)
        return self._op.LayerNormalization(x, scale, shift)

    def embedding(self, ids: Any, table: Any) -> Any:
        return self._op.Gather(table, ids)

    def split_heads(self, x: Any, heads: int) -> Any:
        return self._op.Transpose(self._op.Reshape(x, [0, 0, heads, x.dims[-1] // heads]), perm=[0, 2, 1, 3])

    def join_heads(self, x: Any) -> Any:
        _, heads, _, wide = x.dims
        return self._op.Reshape(self._op.Transpose(x, perm=[0, 2, 1, 3]), [0, 0, heads * wide])

    def attention(self, q: Any, k: Any, v: Any, wide: int, causal: bool) -> Any:
        op = self._op
        scores = op.Mul(op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2])), wide**-0.5)
        if causal:
            length = q.dims[2]
            scores = op.Add(scores, np.triu(np.full((length, length), -np.inf, np.float32), 1))
        return op.MatMul(op.Softmax(scores), v)

    def lstm(self, x: Any, name: str, wide: int, hidden: int, whole: bool = False) -> Any:
        parts = {"w": (4 * hidden, wide), "r": (4 * hidden, hidden), "wb": (4 * hidden,), "rb": (4 * hidden,)}
        w, r, wb, rb = (initial_weight(f"{name}.{part}", shape, hidden**-0.5) for part, shape in parts.items())
        weight, recurrent = self._parameter(f"{name}.w", w[None]), self._parameter(f"{name}.r", r[None])
        bias = self._parameter(f"{name}.b", np.concatenate([wb, rb])[None])
        series, last = self._op.LSTM(x, weight, recurrent, bias, hidden_size=hidden, outputs=2)
        return self._op.Squeeze(series, [1]) if whole else self._op.Squeeze(last, [0])

    def cross_entropy(self, scores: Any, label: Any) -> Any:
        return self._op.SoftmaxCrossEntropyLoss(scores, label)


class Runner:
    """A training step by ``Executor.run``, as a user would write it."""

    def __init__(self, workload: Workload, setting: Setting) -> None:
        if setting.device == "cuda":
            onnxruntime.preload_dlls()
        if workload.shipped is not None:
            self._program, loss, initial = *_of_file(workload), None
        else:
            layers = Layers(workload)
            self._program, loss, initial = static.default_main_program(), workload.build(layers), layers.initial
        name, rate = workload.optimizer
        getattr(paddle.optimizer, name)(learning_rate=rate).minimize(loss)
        graph = setting.form == "graph"
        place: Any = static.CUDAPlace(0, enable_cuda_graph=graph) if setting.device == "cuda" else static.CPUPlace()
        if setting.form.startswith("openvino "):
            place = static.OpenVINOPlace(setting.form.removeprefix("openvino "))
        self._executor = static.Executor(place, threads=setting.threads)
        self._executor.run(static.default_startup_program())
        if initial is not None:
            self._program.set_state_dict(initial)
        self._loss = loss

    def step(self, feed: Any) -> Any:
        return self._executor.run(self._program, feed, [self._loss])[0]

    def feed(self, arrays: dict[str, Any]) -> Any:
        return arrays


def _of_file(workload: Workload) -> tuple[Any, Any]:
    """A file as a program in inference mode, and its loss."""
    shipped, feeds = workload.shipped, workload.feeds[0]
    assert shipped is not None
    if (reason := shipped.missing()) is not None:
        raise RuntimeError(reason)
    program = paddle.from_onnx(str(shipped.path()))
    output = next(v for v in program.outputs if v.name == shipped.output)
    with static.program_guard(program):
        target = static.data("target", feeds["target"].shape)
        return program, paddle.mean(paddle.square(output - target))


def write_model(name: str, path: str) -> None:
    """Write the forward model of a workload, its loss included, for systems that start from a file."""
    workload = WORKLOADS[name]()
    layers = Layers(workload)
    loss = workload.build(layers)
    static.default_main_program().set_state_dict(layers.initial)
    paddle.save_onnx(static.default_main_program(), path, [loss])


def reaches_gpu() -> bool:
    """Whether a session really opens on the GPU: where CUDA's libraries are missing, onnxruntime falls back without an error."""
    onnxruntime.preload_dlls()
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "tiny", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    return "CUDAExecutionProvider" in session.get_providers()
