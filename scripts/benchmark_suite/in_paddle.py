"""The workloads in Paddle's static graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import static

from benchmark_suite.systems import Setting
from benchmark_suite.workloads import Workload, initial_weight


class Layers:
    """Layers as Paddle's own functions. Weights get their values after the startup program."""

    def __init__(self, workload: Workload) -> None:
        self.values: dict[str, Any] = {}
        self._weights: dict[str, Any] = {}
        self._inputs = {
            name: static.data(name, [None if workload.dynamic else array.shape[0], *array.shape[1:]], str(array.dtype))
            for name, array in workload.feeds[0].items()
        }

    def input(self, name: str) -> Any:
        return self._inputs[name]

    def weight(self, name: str, shape: tuple[int, ...], deviation: float, shift: float = 0.0) -> Any:
        if name not in self._weights:
            self.values[name] = initial_weight(name, shape, deviation) + np.float32(shift)
            self._weights[name] = static.create_parameter(list(shape), "float32", name=name)
        return self._weights[name]

    def linear(self, x: Any, name: str, wide: int, out: int, three: bool = False) -> Any:
        return F.linear(x, self.weight(f"{name}.w", (wide, out), wide**-0.5), self.weight(f"{name}.b", (out,), 0.01))

    def times_transposed(self, x: Any, table: Any) -> Any:
        return paddle.matmul(x, table, transpose_y=True)

    def conv(
        self, x: Any, name: str, wide: int, out: int, size: int, stride: int = 1, pad: int = 0, bias: bool = True, groups: int = 1
    ) -> Any:
        inner = wide // groups
        w = self.weight(f"{name}.w", (out, inner, size, size), (inner * size * size / 2) ** -0.5)
        b = self.weight(f"{name}.b", (out,), 0.01) if bias else None
        return F.conv2d(x, w, b, stride=stride, padding=pad, groups=groups)

    def up(self, x: Any, name: str, wide: int, out: int) -> Any:
        w = self.weight(f"{name}.w", (wide, out, 2, 2), wide**-0.5)
        return F.conv2d_transpose(x, w, self.weight(f"{name}.b", (out,), 0.01), stride=2)

    def batch_norm(self, x: Any, name: str, width: int) -> Any:
        self.values[f"{name}.g"] = initial_weight(f"{name}.g", (width,), 0.1) + np.float32(1.0)
        self.values[f"{name}.b"] = initial_weight(f"{name}.b", (width,), 0.1)
        scale, shift = paddle.ParamAttr(name=f"{name}.g"), paddle.ParamAttr(name=f"{name}.b")
        return paddle.nn.BatchNorm2D(width, weight_attr=scale, bias_attr=shift)(x)

    def max_pool(self, x: Any, size: int = 2, stride: int = 2, pad: int = 0) -> Any:
        return F.max_pool2d(x, size, stride, pad)

    def average_map(self, x: Any) -> Any:
        return paddle.flatten(F.adaptive_avg_pool2d(x, 1), 1)

    def relu(self, x: Any) -> Any:
        return F.relu(x)

    def relu6(self, x: Any) -> Any:
        return F.relu6(x)

    def tanh(self, x: Any) -> Any:
        return paddle.tanh(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def concat(self, x: Any, y: Any) -> Any:
        return paddle.concat((x, y), 1)

    def flatten(self, x: Any) -> Any:
        return paddle.flatten(x, 1)

    def rows(self, x: Any, width: int) -> Any:
        return paddle.reshape(x, [-1, width])

    def gelu(self, x: Any) -> Any:
        return F.gelu(x)

    def layer_norm(self, x: Any, name: str, width: int) -> Any:
        scale, shift = self.weight(f"{name}.g", (width,), 0.1, 1.0), self.weight(f"{name}.b", (width,), 0.1)
        return F.layer_norm(x, [width], scale, shift)

    def embedding(self, ids: Any, table: Any) -> Any:
        return F.embedding(ids, table)

    def split_heads(self, x: Any, heads: int) -> Any:
        return paddle.reshape(x, [0, 0, heads, x.shape[-1] // heads])

    def join_heads(self, x: Any) -> Any:
        return paddle.reshape(x, [0, 0, x.shape[2] * x.shape[3]])

    def attention(self, q: Any, k: Any, v: Any, wide: int, causal: bool) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def lstm(self, x: Any, name: str, wide: int, hidden: int, whole: bool = False) -> Any:
        parts = {"w": (4 * hidden, wide), "r": (4 * hidden, hidden), "wb": (4 * hidden,), "rb": (4 * hidden,)}
        names = dict(zip(("weight_ih_attr", "weight_hh_attr", "bias_ih_attr", "bias_hh_attr"), parts, strict=True))
        attributes = {key: paddle.ParamAttr(name=f"{name}.{part}") for key, part in names.items()}
        for part, shape in parts.items():
            i, o, f, c = np.split(initial_weight(f"{name}.{part}", shape, hidden**-0.5), 4)
            self.values[f"{name}.{part}"] = np.concatenate([i, f, c, o])
        series, (last, _) = paddle.nn.LSTM(wide, hidden, time_major=True, **attributes)(x)
        return series if whole else last[0]

    def cross_entropy(self, scores: Any, label: Any) -> Any:
        return F.cross_entropy(scores, label, axis=1)


class Runner:
    """A training step by ``Executor.run``."""

    def __init__(self, workload: Workload, setting: Setting) -> None:
        paddle.enable_static()
        layers = Layers(workload)
        self._loss = workload.build(layers)
        name, rate = workload.optimizer
        getattr(paddle.optimizer, name)(learning_rate=rate).minimize(self._loss)
        place = paddle.CPUPlace()
        self._executor = static.Executor(place)
        self._executor.run(static.default_startup_program())
        for name, value in layers.values.items():
            static.global_scope().find_var(name).get_tensor().set(value, place)

    def step(self, feed: Any) -> Any:
        return self._executor.run(static.default_main_program(), feed, [self._loss])[0]

    def feed(self, arrays: dict[str, Any]) -> Any:
        return arrays
