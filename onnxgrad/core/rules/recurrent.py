"""LSTM, GRU and RNN as a Scan over time steps, which has a gradient of its own.

onnxruntime runs this Scan as fast as its LSTM kernel (7.1 against 9.1 for a forward pass of 64 steps), so nothing is lost by
replacing the operator where gradients are computed. Equations: the ONNX specification of each operator; Hochreiter and
Schmidhuber 1997 with the forget gate of Gers et al. 2000; Cho et al. 2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgrad.core.costs import COSTS
from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.types import Dims, TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.rules.common import cast_like, zeros_of_shape
from onnxgrad.core.rules.registry import expansion
from onnxgrad.errors import UnsupportedGradient

_WEIGHTS_FIRST = range(COSTS.count("recurrent.smallest_batch"), COSTS.count("recurrent.largest_batch") + 1)
"""Batches for which a step computes R h of h as [hidden, batch] instead of h R^T.

onnxruntime packs the second operand of a product anew in each step: 0.65 of the time for 32 columns. With fewer than 16 the vectors
of its kernels are not full; with many, packing is a small part. An unknown batch is taken to be of such a size.
"""

_DEFAULT_ALPHA = {"LeakyRelu": 0.01, "HardSigmoid": 0.2, "Elu": 1.0, "ThresholdedRelu": 1.0, "Affine": 1.0, "ScaledTanh": 1.0}
_DEFAULT_BETA = {"HardSigmoid": 0.5, "Affine": 0.0, "ScaledTanh": 1.0}


class _Cell:
    """The common part of the three operators: operands, directions, masks, activations, and the Scan itself."""

    def __init__(self, op: Builder, node: Any, gates: int, states: Any, default_activations: list[str]) -> None:
        self.op, self.node = op, node
        self.gates, self.states = gates, states
        self.x, self.w, self.r = node.inputs[:3]
        self.hidden = node.attr("hidden_size") or self.r.dims[2]
        if not isinstance(self.hidden, int):
            raise UnsupportedGradient(f"{node}: hidden_size is unknown. Set the attribute.")
        self.b, self.lengths = node.operand("B"), node.operand("sequence_lens")
        self.batch_first = bool(node.attr("layout"))
        direction = node.attr("direction")
        self.reversed = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.clip = node.attr("clip")
        batch = None if self.x.dims is None else self.x.dims[1 - int(self.batch_first)]
        self.weights_first = not isinstance(batch, int) or batch in _WEIGHTS_FIRST
        self._read_activations(default_activations)

    def _read_activations(self, defaults: list[str]) -> None:
        names = list(self.node.attr("activations") or defaults * len(self.reversed))
        alphas, betas = (list(self.node.attr(f"activation_{k}") or []) for k in ("alpha", "beta"))
        functions = []
        for name in names:
            name = next((known for known in _ACTIVATIONS if known.lower() == str(name).lower()), name)
            if name not in _ACTIVATIONS:
                raise UnsupportedGradient(f"{self.node}: no gradient is written for the activation {name!r}.")
            alpha = alphas.pop(0) if name in _DEFAULT_ALPHA and alphas else _DEFAULT_ALPHA.get(name)
            beta = betas.pop(0) if name in _DEFAULT_BETA and betas else _DEFAULT_BETA.get(name)
            functions.append((name, alpha, beta))
        self.activations = functions

    def part(self, tensor: Variable, direction: int, axis: int = 0) -> Variable:
        """One direction of a weight, without the direction axis"""
        several = len(self.reversed) > 1
        return self.op.Squeeze(self.op.Slice(tensor, [direction], [direction + 1], [axis]) if several else tensor, [axis])

    def step_layout(self, v: Variable, rank: int) -> Variable:
        """Between [..., batch, features] and the layout of the steps"""
        order = [*range(rank - 2), rank - 1, rank - 2]
        return self.op.Transpose(v, perm=order) if self.weights_first else v

    def column(self, bias: Variable) -> Variable:
        """A vector over the features as it is added in a step"""
        return self.op.Unsqueeze(bias, [1]) if self.weights_first else bias

    def run(self, step: Any) -> Any:
        """Scan both directions; ``step(body, cell, direction, x_t, *states, weights)`` returns the new states, h first"""
        op = self.op
        x = self.step_layout(op.Transpose(self.x, perm=[1, 0, 2]) if self.batch_first else self.x, 3)
        ys, finals = [], []
        for direction, backwards in enumerate(self.reversed):
            y, final = self._scan(step, x, direction, backwards)
            ys.append(op.Unsqueeze(self.step_layout(y, 3), [1]))
            finals.append([op.Unsqueeze(self.step_layout(state, 2), [0]) for state in final])
        y = op.Concat(*ys, axis=1) if len(ys) > 1 else ys[0]
        last = [op.Concat(*parts, axis=0) if len(parts) > 1 else parts[0] for parts in zip(*finals, strict=True)]
        if self.batch_first:
            y = op.Transpose(y, perm=[2, 0, 1, 3])
            last = [op.Transpose(state, perm=[1, 0, 2]) for state in last]
        return (y, *last)

    def _scan(self, step: Any, x: Variable, direction: int, backwards: bool) -> Any:
        op = self.op
        # As it is stored: Gemm transposes it in every step as fast, and its gradient needs no transposing back.
        weights = {"w": self.part(self.w, direction), "r": self.part(self.r, direction)}
        if self.b is not None:
            size = self.gates * self.hidden
            bias = self.part(self.b, direction)
            of_x, of_h = op.Slice(bias, [0], [size], [0]), op.Slice(bias, [size], [2 * size], [0])
            weights["b"] = self.column(op.Add(of_x, self.bias_of_x(of_h, weights)))
        self.divide(weights)
        if self.node.type == "LSTM" and self.node.operand("P") is not None:
            weights["p"] = self.column(self.part(self.node.operand("P"), direction))
        if not self.weights_first:
            x = op.MatMul(x, op.Transpose(weights["w"], perm=[1, 0]))
            x = op.Add(x, weights["b"]) if "b" in weights else x
        starts = [self._start(name, direction) for name in self.states]
        body = self._body(step, x, starts, direction, weights)
        scans = [x]
        if self.lengths is not None:
            steps = op.Range(
                op.constant(0, self.lengths.dtype),
                cast_like(op, op.Squeeze(op.Shape(x, start=0, end=1), [0]), self.lengths),
                op.constant(1, self.lengths.dtype),
            )
            scans.append(steps)
        flag = int(backwards)
        *final, y = op.Scan(
            *starts,
            *scans,
            outputs=len(starts) + 1,
            body=body,
            num_scan_inputs=len(scans),
            scan_input_directions=[flag] * len(scans),
            scan_output_directions=[flag],
        )
        return y, final

    def bias_of_x(self, of_h: Variable, weights: Any) -> Variable:
        """The part of the bias on h that can be added to that on x; the rest goes to ``weights``"""
        return of_h

    def divide(self, weights: Any) -> None:
        """Cut weights into what the step reads"""

    def _start(self, name: str, direction: int) -> Variable:
        initial = self.node.operand(name)
        if initial is not None:
            return self.step_layout(self.part(initial, direction, int(self.batch_first)), 2)
        axis = 1 - int(self.batch_first)
        shape: list[Any] = [self.op.Shape(self.x, start=axis, end=axis + 1), [self.hidden]]
        return zeros_of_shape(self.op, self.op.Concat(*(shape[::-1] if self.weights_first else shape), axis=0), self.x)

    def _body(self, step: Any, x: Variable, starts: list[Variable], direction: int, weights: Any) -> Any:
        program = self.op.block.program
        block = program.new_block(self.op.block, f"{self.node.type.lower()}_step")

        def argument(name, type):
            v = Variable(block, program.fresh_name(f"{self.op.key}/{name}"), type)
            block.inputs.append(block.register(v))
            return v

        # onnxruntime runs a Scan only if the rank of all its results is known: here it is, also where that of the inputs is not.
        hidden: Dims = (self.hidden, None) if self.weights_first else (None, self.hidden)
        shapes = [hidden if start.dims is None else start.dims for start in starts]
        types = [TensorType(start.dtype, shape) for start, shape in zip(starts, shapes, strict=True)]
        olds = [argument(f"{name}_in", type) for name, type in zip(self.states, types, strict=True)]
        xt = argument("x_step", TensorType(x.dtype, (None, None) if x.dims is None else x.dims[1:]))
        build = Builder(block, key=f"{self.op.key}/step")
        news = list(step(build, self, direction, xt, *olds, weights=weights))
        y = news[0]
        if self.lengths is not None:
            t = argument("t", TensorType(self.lengths.dtype, ()))
            alive = build.Less(t, self.lengths)
            alive = alive if self.weights_first else build.Unsqueeze(alive, [1])
            news = [build.Where(alive, new, old) for new, old in zip(news, olds, strict=True)]
            y = build.Where(alive, y, 0.0)
        block.outputs = [*news, build.Identity(y)]
        return block

    def of_x(self, build: Builder, weights: Any, xt: Variable) -> Any:
        """W x + b of a step"""
        return build.Gemm(weights["w"], xt, weights.get("b")) if self.weights_first else xt

    def product(self, build: Builder, weight: Variable, v: Variable, added: Variable | None) -> Any:
        """weight v + added"""
        return build.Gemm(weight, v, added) if self.weights_first else build.Gemm(v, weight, added, transB=1)

    def activate(self, build: Builder, direction: int, number: int, x: Variable) -> Any:
        name, alpha, beta = self.activations[direction * (len(self.activations) // len(self.reversed)) + number]
        return _ACTIVATIONS[name](build, x, alpha, beta)

    def clipped(self, build: Builder, x: Variable) -> Variable:
        return x if self.clip is None else build.Clip(x, -float(self.clip), float(self.clip))

    def split(self, build: Builder, x: Variable, *counts: int) -> Any:
        """Parts that are so many times as wide as a state"""
        axis = 0 if self.weights_first else -1
        return build.Split(x, np.array([count * self.hidden for count in counts]), axis=axis, outputs=len(counts))


_ACTIVATIONS = {
    "Relu": lambda b, x, alpha, beta: b.Relu(x),
    "Tanh": lambda b, x, alpha, beta: b.Tanh(x),
    "Sigmoid": lambda b, x, alpha, beta: b.Sigmoid(x),
    "Softsign": lambda b, x, alpha, beta: b.Softsign(x),
    "Softplus": lambda b, x, alpha, beta: b.Softplus(x),
    "LeakyRelu": lambda b, x, alpha, beta: b.LeakyRelu(x, alpha=float(alpha)),
    "ThresholdedRelu": lambda b, x, alpha, beta: b.ThresholdedRelu(x, alpha=float(alpha)),
    "Elu": lambda b, x, alpha, beta: b.Elu(x, alpha=float(alpha)),
    "HardSigmoid": lambda b, x, alpha, beta: b.HardSigmoid(x, alpha=float(alpha), beta=float(beta)),
    "Affine": lambda b, x, alpha, beta: b.Add(b.Mul(x, float(alpha)), float(beta)),
    "ScaledTanh": lambda b, x, alpha, beta: b.Mul(b.Tanh(b.Mul(x, float(beta))), float(alpha)),
}


@expansion("LSTM")
def lstm(op, node):
    """a Scan of i, o, f, c = split(W x + R h + b);  c' = f c + i g(c);  h' = o h(c')"""
    cell = _Cell(op, node, 4, ("initial_h", "initial_c"), ["Sigmoid", "Tanh", "Tanh"])
    coupled = node.attr("input_forget")

    def step(build, cell, direction, xt, h, c, weights):
        z = cell.product(build, weights["r"], h, cell.of_x(build, weights, xt))
        if coupled or "p" in weights:
            i, o, f, g = cell.split(build, z, 1, 1, 1, 1)
            if "p" in weights:
                pi, po, pf = cell.split(build, weights["p"], 1, 1, 1)
                i, f = build.Add(i, build.Mul(pi, c)), build.Add(f, build.Mul(pf, c))
            i = cell.activate(build, direction, 0, cell.clipped(build, i))
            f = build.Sub(1.0, i) if coupled else cell.activate(build, direction, 0, cell.clipped(build, f))
        else:
            # Three gates at once: a step has fewer operators, each on more numbers.
            gates, g = cell.split(build, z, 3, 1)
            i, o, f = cell.split(build, cell.activate(build, direction, 0, cell.clipped(build, gates)), 1, 1, 1)
        g = cell.activate(build, direction, 1, cell.clipped(build, g))
        new_c = build.Add(build.Mul(f, c), build.Mul(i, g))
        if "p" in weights:
            o = build.Add(o, build.Mul(po, new_c))
        if coupled or "p" in weights:
            o = cell.activate(build, direction, 0, cell.clipped(build, o))
        return build.Mul(o, cell.activate(build, direction, 2, new_c)), new_c

    return cell.run(step)


class _GruCell(_Cell):
    """With ``linear_before_reset`` the bias of the new state is inside r * (...)."""

    def bias_of_x(self, of_h: Variable, weights: Any) -> Variable:
        if not self.node.attr("linear_before_reset"):
            return of_h
        gates, new = self.op.Split(of_h, np.array([2 * self.hidden, self.hidden]), outputs=2)
        weights["new_bias"] = self.column(new)
        return self.op.Pad(gates, [0, self.hidden])

    def divide(self, weights: Any) -> None:
        sizes = np.array([2 * self.hidden, self.hidden])
        weights["r_gates"], weights["r_new"] = self.op.Split(weights["r"], sizes, axis=0, outputs=2)


@expansion("GRU")
def gru(op, node):
    """a Scan of z, r = gates(W x, h);  n = g(W x + R (r h));  h' = (1 - z) n + z h"""
    cell = _GruCell(op, node, 3, ("initial_h",), ["Sigmoid", "Tanh"])
    reset_after = node.attr("linear_before_reset")

    def step(build, cell, direction, xt, h, weights):
        x_gates, x_new = cell.split(build, cell.of_x(build, weights, xt), 2, 1)
        gates = cell.product(build, weights["r_gates"], h, x_gates)
        z, r = cell.split(build, cell.activate(build, direction, 0, cell.clipped(build, gates)), 1, 1)
        if reset_after:
            inner = cell.product(build, weights["r_new"], h, weights.get("new_bias"))
            inner = build.Add(x_new, build.Mul(r, inner))
        else:
            inner = cell.product(build, weights["r_new"], build.Mul(r, h), x_new)
        new = cell.activate(build, direction, 1, cell.clipped(build, inner))
        return (build.Add(new, build.Mul(z, build.Sub(h, new))),)

    return cell.run(step)


@expansion("RNN")
def rnn(op, node):
    """a Scan of h' = f(W x + R h + b)"""
    cell = _Cell(op, node, 1, ("initial_h",), ["Tanh"])

    def step(build, cell, direction, xt, h, weights):
        z = cell.product(build, weights["r"], h, cell.of_x(build, weights, xt))
        return (cell.activate(build, direction, 0, cell.clipped(build, z)),)

    return cell.run(step)
