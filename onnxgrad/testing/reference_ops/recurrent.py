"""Corrected RNN, GRU and LSTM for onnx.reference: the specification's equations, one sequence and one step at a time."""

from __future__ import annotations

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgrad.testing.reference_ops.registry import corrected

__all__ = ["GRU", "LSTM", "RNN"]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


_FUNCTIONS = {
    "Relu": (lambda x: np.maximum(x, 0), ()),
    "Tanh": (np.tanh, ()),
    "Sigmoid": (_sigmoid, ()),
    "Softsign": (lambda x: x / (1 + np.abs(x)), ()),
    "Softplus": (lambda x: np.log1p(np.exp(x)), ()),
    "LeakyRelu": (lambda x, a: np.where(x >= 0, x, a * x), (0.01,)),
    "ThresholdedRelu": (lambda x, a: np.where(x >= a, x, 0), (1.0,)),
    "Elu": (lambda x, a: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))), (1.0,)),
    "Affine": (lambda x, a, b: a * x + b, (1.0, 0.0)),
    "ScaledTanh": (lambda x, a, b: a * np.tanh(b * x), (1.0, 1.0)),
    "HardSigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), (0.2, 0.5)),
}


class _Recurrent(OpRun):
    """Ignored by onnx 1.23: sequence_lens, clip, input_forget, activations, their parameters, and two directions of layout 1."""

    gates: int
    states: int
    default: tuple[str, ...]

    def _run(
        self, x, w, r, b=None, sequence_lens=None, *more, activation_alpha=None, activation_beta=None, activations=None,
        clip=None, direction=None, hidden_size=None, layout=None, **attributes,
    ):  # fmt: skip
        initial = [*more[: self.states], *[None] * (self.states - len(more))]
        initial = [v if v is None or not layout else np.swapaxes(v, 0, 1) for v in initial]
        peepholes = more[self.states] if len(more) > self.states else None
        x = np.swapaxes(x, 0, 1) if layout else x
        steps, batch, _ = x.shape
        directions, hidden = len(w), r.shape[2]
        functions = self._functions(activations or self.default * directions, activation_alpha, activation_beta)
        y = np.zeros((steps, directions, batch, hidden), x.dtype)
        last = [np.zeros((directions, batch, hidden), x.dtype) for _ in range(self.states)]
        for d, n in np.ndindex(directions, batch):
            length = steps if sequence_lens is None else int(sequence_lens[n])
            backwards = direction == "reverse" or d == 1
            state = [
                np.zeros(hidden, x.dtype) if len(initial) <= i or initial[i] is None else initial[i][d, n]
                for i in range(self.states)
            ]
            bias = np.zeros(2 * self.gates * hidden, x.dtype) if b is None else b[d]
            peephole = np.zeros(3 * hidden, x.dtype) if peepholes is None else peepholes[d]
            own = functions[d * len(self.default) : (d + 1) * len(self.default)]
            for t in range(length)[:: -1 if backwards else 1]:
                state = self.step(x[t, n], state, w[d], r[d], np.split(bias, 2), peephole, own, clip, **attributes)
                y[t, d, n] = state[0]
            for kept, value in zip(last, state, strict=True):
                kept[d, n] = value
        if layout:
            y, last = y.transpose(2, 0, 1, 3), [np.swapaxes(v, 0, 1) for v in last]
        return (y, *last)

    @staticmethod
    def _functions(names, alphas, betas):
        alphas, betas, found = list(alphas or []), list(betas or []), []
        for name in names:
            function, defaults = _FUNCTIONS[name]
            given = [stock.pop(0) if stock else value for stock, value in zip((alphas, betas), defaults, strict=False)]
            found.append(lambda x, function=function, given=given: function(x, *given))
        return found


def _clipped(x, clip):
    return x if not clip else np.clip(x, -clip, clip)


@corrected
class RNN(_Recurrent):
    gates, states, default = 1, 1, ("Tanh",)

    def step(self, x, state, w, r, bias, peephole, functions, clip):
        return [functions[0](_clipped(w @ x + r @ state[0] + bias[0] + bias[1], clip))]


@corrected
class GRU(_Recurrent):
    gates, states, default = 3, 1, ("Sigmoid", "Tanh")

    def step(self, x, state, w, r, bias, peephole, functions, clip, linear_before_reset=None):
        (h,) = state
        f, g = functions
        wz, wr, wh = np.split(w @ x + bias[0], 3)
        rz, rr, rh = np.split(r, 3)
        bz, br, bh = np.split(bias[1], 3)
        z, reset = f(_clipped(wz + rz @ h + bz, clip)), f(_clipped(wr + rr @ h + br, clip))
        inner = reset * (rh @ h + bh) if linear_before_reset else rh @ (reset * h) + bh
        return [(1 - z) * g(_clipped(wh + inner, clip)) + z * h]


@corrected
class LSTM(_Recurrent):
    """Like onnxruntime, it does not clip the cell on its way to the output."""

    gates, states, default = 4, 2, ("Sigmoid", "Tanh", "Tanh")

    def step(self, x, state, w, r, bias, peephole, functions, clip, input_forget=None):
        h, c = state
        f, g, out = functions
        i_gate, o_gate, f_gate, cell = np.split(w @ x + r @ h + bias[0] + bias[1], 4)
        pi, po, pf = np.split(peephole, 3)
        i = f(_clipped(i_gate + pi * c, clip))
        forget = 1 - i if input_forget else f(_clipped(f_gate + pf * c, clip))
        new = forget * c + i * g(_clipped(cell, clip))
        return [f(_clipped(o_gate + po * new, clip)) * out(new), new]
