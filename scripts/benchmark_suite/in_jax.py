"""The workloads in JAX: one jitted function of the state and the data, whose state is donated; images are channels-last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmark_suite.systems import Setting
from benchmark_suite.workloads import Workload, initial_weight


class Layers:
    """Layers as functions of ``weights``, which the first use of each layer adds to."""

    def __init__(self, weights: dict[str, Any], inputs: dict[str, Any]) -> None:
        self.weights = weights
        self._inputs = inputs

    def input(self, name: str) -> Any:
        x = self._inputs[name]
        return x.transpose(0, 2, 3, 1) if x.ndim == 4 else x

    def _stored(self, name: str, array: Any) -> Any:
        return self.weights.setdefault(name, np.ascontiguousarray(array))

    def weight(self, name: str, shape: tuple[int, ...], deviation: float, shift: float = 0.0) -> Any:
        found = self.weights.get(name)
        return self._stored(name, initial_weight(name, shape, deviation) + np.float32(shift)) if found is None else found

    def linear(self, x: Any, name: str, wide: int, out: int, three: bool = False) -> Any:
        return x @ self.weight(f"{name}.w", (wide, out), wide**-0.5) + self.weight(f"{name}.b", (out,), 0.01)

    def times_transposed(self, x: Any, table: Any) -> Any:
        return x @ table.T

    def conv(
        self, x: Any, name: str, wide: int, out: int, size: int, stride: int = 1, pad: int = 0, bias: bool = True, groups: int = 1
    ) -> Any:
        inner = wide // groups
        w = self.weights.get(f"{name}.w")
        if w is None:
            start = initial_weight(f"{name}.w", (out, inner, size, size), (inner * size * size / 2) ** -0.5)
            w = self._stored(f"{name}.w", start.transpose(2, 3, 1, 0))
        y = lax.conv_general_dilated(
            x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
        )
        return y + self.weight(f"{name}.b", (out,), 0.01) if bias else y

    def up(self, x: Any, name: str, wide: int, out: int) -> Any:
        batch, height, width, _ = x.shape
        y = jnp.einsum("nhwi,ioab->nhawbo", x, self.weight(f"{name}.w", (wide, out, 2, 2), wide**-0.5))
        return y.reshape(batch, 2 * height, 2 * width, out) + self.weight(f"{name}.b", (out,), 0.01)

    def batch_norm(self, x: Any, name: str, width: int) -> Any:
        scale, shift = self.weight(f"{name}.g", (width,), 0.1, 1.0), self.weight(f"{name}.b", (width,), 0.1)
        return _normalized(x, (0, 1, 2)) * scale + shift

    def max_pool(self, x: Any, size: int = 2, stride: int = 2, pad: int = 0) -> Any:
        padding = ((0, 0), (pad, pad), (pad, pad), (0, 0))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), padding)

    def average_map(self, x: Any) -> Any:
        return x.mean((1, 2))

    def relu(self, x: Any) -> Any:
        return jax.nn.relu(x)

    def relu6(self, x: Any) -> Any:
        return jax.nn.relu6(x)

    def tanh(self, x: Any) -> Any:
        return jnp.tanh(x)

    def add(self, x: Any, y: Any) -> Any:
        return x + y

    def concat(self, x: Any, y: Any) -> Any:
        return jnp.concatenate((x, y), -1)

    def flatten(self, x: Any) -> Any:
        return (x.transpose(0, 3, 1, 2) if x.ndim == 4 else x).reshape(x.shape[0], -1)

    def rows(self, x: Any, width: int) -> Any:
        return x.reshape(-1, width)

    def gelu(self, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False)

    def layer_norm(self, x: Any, name: str, width: int) -> Any:
        scale, shift = self.weight(f"{name}.g", (width,), 0.1, 1.0), self.weight(f"{name}.b", (width,), 0.1)
        return _normalized(x, -1) * scale + shift

    def embedding(self, ids: Any, table: Any) -> Any:
        return jnp.take(table, ids, axis=0)

    def split_heads(self, x: Any, heads: int) -> Any:
        return x.reshape(*x.shape[:2], heads, -1)

    def join_heads(self, x: Any) -> Any:
        return x.reshape(*x.shape[:2], -1)

    def attention(self, q: Any, k: Any, v: Any, wide: int, causal: bool) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal)

    def lstm(self, x: Any, name: str, wide: int, hidden: int, whole: bool = False) -> Any:
        """A scan over time; the products with the data are one before it."""
        parts = {"w": (4 * hidden, wide), "r": (4 * hidden, hidden), "wb": (4 * hidden,), "rb": (4 * hidden,)}
        w, r, wb, rb = (self.weight(f"{name}.{part}", shape, hidden**-0.5) for part, shape in parts.items())

        def step(state: Any, from_data: Any) -> Any:
            h, c = state
            i, o, f, new = jnp.split(from_data + h @ r.T, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(new)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h if whole else None

        zero = jnp.zeros((x.shape[1], hidden))
        (last, _), series = lax.scan(step, (zero, zero), x @ w.T + (wb + rb))
        return series if whole else last

    def cross_entropy(self, scores: Any, label: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), label[..., None], axis=-1).mean()


def _normalized(x: Any, axes: Any) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(axes, keepdims=True) + 1e-5)


def _updated(rule: str, rate: float, state: Any, gradients: Any) -> Any:
    """The state after a step: the weights, the averages of the gradients, and how many steps there were."""
    weights, averages, count = state
    count = count + 1
    if rule == "SGD":
        return jax.tree.map(lambda w, g: w - rate * g, weights, gradients), averages, count
    if rule == "Momentum":
        averages = jax.tree.map(lambda m, g: 0.9 * m + g, averages, gradients)
        return jax.tree.map(lambda w, m: w - rate * m, weights, averages), averages, count
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, averages[0], gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, averages[1], gradients)
    size, root = rate / (1 - 0.9**count), (1 - 0.999**count) ** 0.5
    weights = jax.tree.map(lambda w, m, v: w - size * m / (jnp.sqrt(v) / root + 1e-8), weights, first, second)
    return weights, (first, second), count


class Runner:
    """A training step as one compiled function."""

    def __init__(self, workload: Workload, setting: Setting) -> None:
        rule, rate = workload.optimizer

        def loss(weights: Any, inputs: Any) -> Any:
            return workload.build(Layers(weights, inputs))

        def step(state: Any, inputs: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(state[0], inputs)
            return _updated(rule, rate, state, gradients), value

        weights: dict[str, Any] = {}
        jax.eval_shape(lambda: loss(weights, self.feed(workload.feeds[0])))
        weights = jax.tree.map(jnp.array, weights)
        averages: Any = {"SGD": (), "Momentum": _zeros(weights), "Adam": (_zeros(weights), _zeros(weights))}[rule]
        self._state = (weights, averages, jnp.zeros(()))
        self._step = jax.jit(step, donate_argnums=0)

    def step(self, feed: Any) -> Any:
        self._state, loss = self._step(self._state, feed)
        return float(loss)

    def feed(self, arrays: dict[str, Any]) -> Any:
        return {name: jnp.asarray(array) for name, array in arrays.items()}


def _zeros(weights: Any) -> Any:
    return jax.tree.map(lambda w: jnp.zeros(w.shape), weights)
