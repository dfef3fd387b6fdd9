"""The workloads in torch: eager with its default optimizer loop, with the fused optimizer, and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmark_suite.workloads import Workload, initial_weight


class Layers:
    """Layers as torch's own functions."""

    def __init__(self) -> None:
        self.weights: dict[str, torch.Tensor] = {}
        self.inputs: dict[str, torch.Tensor] = {}

    def input(self, name: str) -> Any:
        return self.inputs[name]

    def _stored(self, name: str, array: Any) -> Any:
        self.weights[name] = torch.from_numpy(np.ascontiguousarray(array)).requires_grad_()
        return self.weights[name]

    def weight(self, name: str, shape: tuple[int, ...], deviation: float, shift: float = 0.0) -> Any:
        found = self.weights.get(name)
        return self._stored(name, initial_weight(name, shape, deviation) + np.float32(shift)) if found is None else found

    def linear(self, x: Any, name: str, wide: int, out: int, three: bool = False) -> Any:
        w = self.weights.get(f"{name}.w")
        if w is None:
            w = self._stored(f"{name}.w", initial_weight(f"{name}.w", (wide, out), wide**-0.5).T)
        return F.linear(x, w, self.weight(f"{name}.b", (out,), 0.01))

    def times_transposed(self, x: Any, table: Any) -> Any:
        return F.linear(x, table)

    def conv(
        self, x: Any, name: str, wide: int, out: int, size: int, stride: int = 1, pad: int = 0, bias: bool = True, groups: int = 1
    ) -> Any:
        inner = wide // groups
        w = self.weight(f"{name}.w", (out, inner, size, size), (inner * size * size / 2) ** -0.5)
        b = self.weight(f"{name}.b", (out,), 0.01) if bias else None
        return F.conv2d(x, w, b, stride=stride, padding=pad, groups=groups)

    def batch_norm(self, x: Any, name: str, width: int) -> Any:
        scale, shift = self.weight(f"{name}.g", (width,), 0.1, 1.0), self.weight(f"{name}.b", (width,), 0.1)
        return F.batch_norm(x, None, None, scale, shift, training=True)

    def max_pool(self, x: Any, size: int = 2, stride: int = 2, pad: int = 0) -> Any:
        return F.max_pool2d(x, size, stride, pad)

    def average_map(self, x: Any) -> Any:
        return x.mean((2, 3))

    def relu(self, x: Any) -> Any:
        return F.relu(x)

    def tanh(self, x: Any) -> Any:
        return torch.tanh(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def flatten(self, x: Any) -> Any:
        return x.flatten(1)

    def rows(self, x: Any, width: int) -> Any:
        return x.reshape(-1, width)

    def gelu(self, x: Any) -> Any:
        return F.gelu(x)

    def layer_norm(self, x: Any, name: str, width: int) -> Any:
        scale, shift = self.weight(f"{name}.g", (width,), 0.1, 1.0), self.weight(f"{name}.b", (width,), 0.1)
        return F.layer_norm(x, (width,), scale, shift)

    def embedding(self, ids: Any, table: Any) -> Any:
        return F.embedding(ids, table)

    def split_heads(self, x: Any, heads: int) -> Any:
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)

    def join_heads(self, x: Any) -> Any:
        return x.transpose(1, 2).flatten(2)

    def attention(self, q: Any, k: Any, v: Any, wide: int, causal: bool) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def lstm(self, x: Any, name: str, wide: int, hidden: int) -> Any:
        parts = {"w": (4 * hidden, wide), "r": (4 * hidden, hidden), "wb": (4 * hidden,), "rb": (4 * hidden,)}
        for part, shape in parts.items():
            if f"{name}.{part}" not in self.weights:
                i, o, f, c = np.split(initial_weight(f"{name}.{part}", shape, hidden**-0.5), 4)
                self._stored(f"{name}.{part}", np.concatenate([i, f, c, o]))
        zero = torch.zeros(1, x.shape[1], hidden)
        weights = [self.weights[f"{name}.{part}"] for part in parts]
        return torch.lstm(x, (zero, zero), weights, True, 1, 0.0, True, False, False)[1][0]

    def cross_entropy(self, scores: Any, label: Any) -> Any:
        return F.cross_entropy(scores, label)


class Runner:
    """A training step as in torch's own examples; ``form`` is eager, fused or compile."""

    def __init__(self, workload: Workload, threads: int, form: str) -> None:
        torch.set_num_threads(threads)
        self._layers = Layers()
        self._layers.inputs = self.feed(workload.feeds[0])
        workload.build(self._layers)
        name, rate = workload.optimizer
        weights = list(self._layers.weights.values())
        fused = form != "eager"
        if name == "Adam":
            self._optimizer: Any = torch.optim.Adam(weights, rate, fused=fused)
        else:
            self._optimizer = torch.optim.SGD(weights, rate, 0.9 if name == "Momentum" else 0.0, fused=fused)

        def loss() -> Any:
            return workload.build(self._layers)

        self._loss = torch.compile(loss, dynamic=workload.dynamic) if form == "compile" else loss

    def step(self, feed: Any) -> Any:
        self._layers.inputs = feed
        self._optimizer.zero_grad()
        loss = self._loss()
        loss.backward()
        self._optimizer.step()
        return loss.item()

    def feed(self, arrays: dict[str, Any]) -> Any:
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
