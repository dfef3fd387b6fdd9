"""The workloads in torch: eager, with the fused optimizer, compiled, channels-last, and as a CUDA graph."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmark_suite.shipped import of_torch
from benchmark_suite.systems import Setting
from benchmark_suite.workloads import Workload, initial_weight


class Layers:
    """Layers as torch's own functions."""

    def __init__(self, device: str, order: torch.memory_format) -> None:
        self._device, self._order = device, order
        self.weights: dict[str, torch.Tensor] = {}
        self.inputs: dict[str, torch.Tensor] = {}

    def input(self, name: str) -> Any:
        return self.inputs[name]

    def _stored(self, name: str, array: Any) -> Any:
        value = _ordered(torch.from_numpy(np.ascontiguousarray(array)), self._order)
        self.weights[name] = value.to(self._device).requires_grad_()
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

    def up(self, x: Any, name: str, wide: int, out: int) -> Any:
        w = self.weight(f"{name}.w", (wide, out, 2, 2), wide**-0.5)
        return F.conv_transpose2d(x, w, self.weight(f"{name}.b", (out,), 0.01), stride=2)

    def batch_norm(self, x: Any, name: str, width: int) -> Any:
        scale, shift = self.weight(f"{name}.g", (width,), 0.1, 1.0), self.weight(f"{name}.b", (width,), 0.1)
        return F.batch_norm(x, None, None, scale, shift, training=True)

    def max_pool(self, x: Any, size: int = 2, stride: int = 2, pad: int = 0) -> Any:
        return F.max_pool2d(x, size, stride, pad)

    def average_map(self, x: Any) -> Any:
        return x.mean((2, 3))

    def relu(self, x: Any) -> Any:
        return F.relu(x)

    def relu6(self, x: Any) -> Any:
        return F.relu6(x)

    def tanh(self, x: Any) -> Any:
        return torch.tanh(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def concat(self, x: Any, y: Any) -> Any:
        return torch.cat((x, y), 1)

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

    def lstm(self, x: Any, name: str, wide: int, hidden: int, whole: bool = False) -> Any:
        parts = {"w": (4 * hidden, wide), "r": (4 * hidden, hidden), "wb": (4 * hidden,), "rb": (4 * hidden,)}
        if f"{name}.w" not in self.weights:
            # A module's weights lie side by side in memory, as the GPU's kernel wants them.
            flat = torch.nn.LSTM(wide, hidden, device=self._device)._flat_weights
            for (part, shape), weight in zip(parts.items(), flat, strict=True):
                i, o, f, c = np.split(initial_weight(f"{name}.{part}", shape, hidden**-0.5), 4)
                weight.data.copy_(torch.from_numpy(np.concatenate([i, f, c, o])))
                self.weights[f"{name}.{part}"] = weight
        zero = x.new_zeros(1, x.shape[1], hidden)
        weights = [self.weights[f"{name}.{part}"] for part in parts]
        series, last, _ = torch.lstm(x, (zero, zero), weights, True, 1, 0.0, True, False, False)
        return series if whole else last[0]

    def cross_entropy(self, scores: Any, label: Any) -> Any:
        return F.cross_entropy(scores, label)


class Runner:
    """A training step as in torch's own examples; the form is eager, fused, compile, channels-last, autocast or graph."""

    def __init__(self, workload: Workload, setting: Setting) -> None:
        torch.set_num_threads(setting.threads)
        sys.setrecursionlimit(100_000)  # the compiler recurses over the longest chain of operators
        self._device = setting.device
        self._order = torch.channels_last if setting.form in ("channels-last", "autocast") else torch.preserve_format
        self._layers = Layers(self._device, self._order)
        self._layers.inputs = self._on_device(self.feed(workload.feeds[0]))
        build = workload.build if workload.shipped is None else self._of_file(workload)
        build(self._layers)
        name, rate = workload.optimizer
        weights = list(self._layers.weights.values())
        fused, captured = setting.form in ("fused", "compile", "autocast", "graph"), setting.form == "graph"
        if name == "Adam":
            self._optimizer: Any = torch.optim.Adam(weights, rate, fused=fused or None, capturable=captured)
        else:
            self._optimizer = torch.optim.SGD(weights, rate, 0.9 if name == "Momentum" else 0.0, fused=fused or None)

        def loss() -> Any:
            with torch.autocast("cpu", torch.bfloat16, enabled=setting.form == "autocast"):
                return build(self._layers)

        self._loss = torch.compile(loss, dynamic=workload.dynamic) if setting.form == "compile" else loss
        self._graph = self._captured(weights) if captured else None

    def _of_file(self, workload: Workload) -> Any:
        assert workload.shipped is not None
        module = of_torch(workload.shipped, workload.feeds[0]).to(self._device)
        self._layers.weights = {name: v for name, v in module.named_parameters() if v.requires_grad}

        def loss(layers: Layers) -> Any:
            found = module(*(v for name, v in layers.inputs.items() if name != "target"))
            return F.mse_loss(found, layers.inputs["target"])

        return loss

    def step(self, feed: Any) -> Any:
        if self._graph is not None:
            for name, value in feed.items():
                self._layers.inputs[name].copy_(value)
            self._graph.replay()
            return self._result.item()
        self._layers.inputs = self._on_device(feed)
        return self._whole_step().item()

    def _whole_step(self) -> Any:
        self._optimizer.zero_grad()
        loss = self._loss()
        loss.backward()
        self._optimizer.step()
        return loss

    def _captured(self, weights: list[Any]) -> Any:
        """The step as a CUDA graph, after three steps on a stream of their own, which are taken back."""
        start = [weight.detach().clone() for weight in weights]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._whole_step()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            for weight, value in zip(weights, start, strict=True):
                weight.copy_(value)
            for state in self._optimizer.state.values():
                for value in state.values():
                    if value is not None:
                        value.zero_()
        self._optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._result = self._whole_step()
        return graph

    def feed(self, arrays: dict[str, Any]) -> Any:
        found = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return {name: _ordered(value, self._order) for name, value in found.items()}

    def _on_device(self, feed: Any) -> Any:
        """On a GPU the data are copied in every step, as from a loader, and as onnxgrad does."""
        return feed if self._device == "cpu" else {name: value.to(self._device) for name, value in feed.items()}


def _ordered(value: Any, order: Any) -> Any:
    return value.to(memory_format=order) if value.ndim == 4 else value
