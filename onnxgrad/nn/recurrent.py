"""Recurrent layers: cells, which compute one step, and whole sequences by ONNX's RNN, LSTM and GRU.

Gates of a weight stand in Paddle's order: input, forget, cell, output of an LSTM; reset, update, candidate of a GRU.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from onnxgrad.errors import ArgumentError
from onnxgrad.nn import functional as F
from onnxgrad.nn.layer import Layer, MadeLayer
from onnxgrad.tensor.creation import full, zeros
from onnxgrad.tensor.initializer import Uniform
from onnxgrad.tensor.joining import concat, split, stack
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.search import where

__all__ = ["GRU", "LSTM", "RNN", "BiRNN", "GRUCell", "LSTMCell", "RNNCellBase", "SimpleRNN", "SimpleRNNCell"]


_ATTRS = "weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None, name=None"
_CELL = f"input_size, hidden_size, {_ATTRS}"
_LAYERS = f"input_size, hidden_size, num_layers=1, direction='forward', time_major=False, dropout=0.0, {_ATTRS}"


def _known_activation(layer: Layer, activation: str) -> str:
    if activation not in ("tanh", "relu"):
        raise ArgumentError(f"{type(layer).__name__}: the activation is 'tanh' or 'relu', not {activation!r}.")
    return activation


class RNNCellBase(Layer):
    """Base of cells: ``cell(inputs, states)`` gives the outputs of a step and the states after it."""

    state_shape: Any = None

    def get_initial_states(
        self, batch_ref: Any, shape: Any = None, dtype: Any = None, init_value: float = 0.0, batch_dim_idx: int = 0
    ) -> Any:
        """States filled with one number for the batch of ``batch_ref``, of the shapes that ``state_shape`` or ``shape`` says."""
        while isinstance(batch_ref, (list, tuple)):
            batch_ref = batch_ref[0]
        shapes = self.state_shape if shape is None else shape
        if isinstance(shapes, (list, tuple)) and shapes and isinstance(shapes[0], (list, tuple)):
            return tuple(self.get_initial_states(batch_ref, one, dtype, init_value, batch_dim_idx) for one in shapes)
        size = batch_ref.shape[batch_dim_idx]
        rest = [n for n in shapes if n != -1]
        if size >= 0:
            return full([size, *rest], init_value, dtype or batch_ref.dtype)
        op = LayerHelper("initial_state", batch_ref).op
        sizes = op.Concat(op.Shape(batch_ref, start=batch_dim_idx, end=batch_dim_idx + 1), np.array(rest), axis=0)
        return op.Expand(op.constant(np.array(init_value), batch_ref.dtype), sizes)


class _Cell(MadeLayer, RNNCellBase):
    """A cell with ``gates`` gates on [batch, hidden_size] states."""

    gates = 1

    takes = _CELL

    def _make(self, args: Any) -> None:
        size, hidden = args.input_size, args.hidden_size
        if hidden <= 0:
            raise ArgumentError(f"{type(self).__name__}: hidden_size is {hidden}; it is at least 1.")
        self.input_size, self.hidden_size = size, hidden
        bound, rows = Uniform(-1 / math.sqrt(hidden), 1 / math.sqrt(hidden)), self.gates * hidden
        self.weight_ih = self.create_parameter([rows, size], args.weight_ih_attr, default_initializer=bound)
        self.weight_hh = self.create_parameter([rows, hidden], args.weight_hh_attr, default_initializer=bound)
        self.bias_ih = self.create_parameter([rows], args.bias_ih_attr, is_bias=True, default_initializer=bound)
        self.bias_hh = self.create_parameter([rows], args.bias_hh_attr, is_bias=True, default_initializer=bound)

    @property
    def state_shape(self) -> Any:
        return (self.hidden_size,)

    def _products(self, x: Any, h: Any) -> tuple[Any, Any]:
        a, b = x.matmul(self.weight_ih, transpose_y=True), h.matmul(self.weight_hh, transpose_y=True)
        return a if self.bias_ih is None else a + self.bias_ih, b if self.bias_hh is None else b + self.bias_hh

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(_Cell):
    """h = act(W x + U h + b). Elman 1990."""

    takes = _CELL.replace("hidden_size", "hidden_size, activation='tanh'")

    def _make(self, args: Any) -> None:
        super()._make(args)
        self.activation = _known_activation(self, args.activation)

    def forward(self, inputs: Any, states: Any = None) -> tuple[Any, Any]:
        h = self.get_initial_states(inputs) if states is None else states
        a, b = self._products(inputs, h)
        h = getattr(F, self.activation)(a + b)
        return h, h


class LSTMCell(_Cell):
    """Long short-term memory. Hochreiter and Schmidhuber 1997."""

    gates = 4

    @property
    def state_shape(self) -> Any:
        return ((self.hidden_size,), (self.hidden_size,))

    def forward(self, inputs: Any, states: Any = None) -> tuple[Any, Any]:
        h, c = self.get_initial_states(inputs) if states is None else states
        a, b = self._products(inputs, h)
        i, f, g, o = split(a + b, 4, -1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
        h = F.sigmoid(o) * F.tanh(c)
        return h, (h, c)


class GRUCell(_Cell):
    """Gated recurrent unit. Cho et al. 2014, with the reset gate after the product."""

    gates = 3

    def forward(self, inputs: Any, states: Any = None) -> tuple[Any, Any]:
        h = self.get_initial_states(inputs) if states is None else states
        a, b = self._products(inputs, h)
        (xr, xz, xc), (hr, hz, hc) = split(a, 3, -1), split(b, 3, -1)
        z = F.sigmoid(xz + hz)
        c = F.tanh(xc + F.sigmoid(xr + hr) * hc)
        h = (h - c) * z + c
        return h, h


class RNN(Layer):
    """A cell over the steps of [batch, steps, ...], or [steps, batch, ...] if ``time_major``; their number must be known."""

    def __init__(self, cell: RNNCellBase, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        axis = 0 if self.time_major else 1
        steps = inputs.shape[axis]
        if steps < 0:
            raise ArgumentError(
                "RNN: the number of steps must be known for a cell of your own. Declare it, or use LSTM, GRU, SimpleRNN."
            )
        states = self.cell.get_initial_states(inputs, batch_dim_idx=1 - axis) if initial_states is None else initial_states
        outputs = []
        for t in reversed(range(steps)) if self.is_reverse else range(steps):
            x = inputs[t] if self.time_major else inputs[:, t]
            y, new = self.cell(x, states, **kwargs)
            if sequence_length is not None:
                alive = sequence_length > t
                y, new = _where_alive(alive, y, y * 0.0), _where_alive(alive, new, states)
            states = new
            outputs.append(y)
        return stack(outputs[::-1] if self.is_reverse else outputs, axis), states


def _where_alive(alive: Any, new: Any, old: Any) -> Any:
    if isinstance(new, (list, tuple)):
        return tuple(_where_alive(alive, a, b) for a, b in zip(new, old, strict=True))
    return where(alive.reshape([-1] + [1] * (new.ndim - 1)), new, old)


class BiRNN(Layer):
    """One cell forwards and one backwards; the outputs are joined along the last axis."""

    def __init__(self, cell_fw: RNNCellBase, cell_bw: RNNCellBase, time_major: bool = False) -> None:
        super().__init__()
        self.cell_fw, self.cell_bw = cell_fw, cell_bw
        # In a tuple, so that the cells are members once, under Paddle's paths.
        self._directions = RNN(cell_fw, False, time_major), RNN(cell_bw, True, time_major)

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        first, second = (None, None) if initial_states is None else initial_states
        ahead, last = self._directions[0](inputs, first, sequence_length, **kwargs)
        back, begin = self._directions[1](inputs, second, sequence_length, **kwargs)
        return concat([ahead, back], -1), (last, begin)


class _Recurrent(MadeLayer):
    """Layers of one kind over a whole sequence, by ONNX's operator."""

    cell: Any = None
    op_type = ""
    order: tuple[int, ...] = ()
    """The gates of ONNX's weights, by their number in Paddle's."""
    attributes: ClassVar[dict[str, Any]] = {}
    """Further ones of the operator."""

    takes = _LAYERS

    def _make(self, args: Any) -> None:
        if args.direction not in ("forward", "bidirect", "bidirectional"):
            raise ArgumentError(f"{type(self).__name__}: the direction is 'forward' or 'bidirect', not {args.direction!r}.")
        self.input_size, self.hidden_size, self.num_layers = args.input_size, args.hidden_size, args.num_layers
        self.time_major, self.dropout = args.time_major, args.dropout
        self.num_directions = 1 if args.direction == "forward" else 2
        attrs = {key: value for key, value in vars(args).items() if key.endswith("_attr")}
        for layer in range(self.num_layers):
            size = self.input_size if layer == 0 else self.hidden_size * self.num_directions
            for suffix in ("", "_reverse")[: self.num_directions]:
                cell = self.cell(size, self.hidden_size, **attrs)
                for parameter_name, parameter in cell._parameters.items():
                    self._parameters[f"{parameter_name}_l{layer}{suffix}"] = parameter

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None) -> tuple[Any, Any]:
        """Outputs [batch, steps, directions * hidden_size] (steps first if ``time_major``) and the last states.

        Args:
            inputs: [batch, steps, input_size], or steps first.
            initial_states: [layers * directions, batch, hidden_size], two of them for an LSTM; None for zeros.
            sequence_length: integers [batch]: later steps give zeros and leave the states.
        """
        x = inputs if self.time_major else inputs.transpose([1, 0, 2])
        names = ("initial_h", "initial_c")[: 2 if self.op_type == "LSTM" else 1]
        initial = [] if initial_states is None else list(initial_states) if len(names) == 2 else [initial_states]
        lengths = None if sequence_length is None else sequence_length.astype("int32")
        last: list[list[Any]] = [[] for _ in names]
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, training=self.training)
            at = slice(layer * self.num_directions, (layer + 1) * self.num_directions)
            states = dict(zip(names, (state[at] for state in initial), strict=False))
            x, *ends = self._layer(x, layer, states, lengths)
            for collected, end in zip(last, ends, strict=True):
                collected.append(end)
        finals = [ends[0] if len(ends) == 1 else concat(ends, 0) for ends in last]
        return (x if self.time_major else x.transpose([1, 0, 2])), (tuple(finals) if len(finals) == 2 else finals[0])

    def _layer(self, x: Any, layer: int, states: dict[str, Any], lengths: Any) -> list[Any]:
        op = LayerHelper(self.op_type.lower(), x).op
        w, r, b = ([] for _ in range(3))
        for suffix in ("", "_reverse")[: self.num_directions]:
            own = {
                parameter_name: self._parameters[f"{parameter_name}_l{layer}{suffix}"]
                for parameter_name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            }
            w.append(self._ordered(op, own["weight_ih"]))
            r.append(self._ordered(op, own["weight_hh"]))
            blank = zeros([len(self.order) * self.hidden_size], self._dtype)
            biases = [blank if own[parameter_name] is None else own[parameter_name] for parameter_name in ("bias_ih", "bias_hh")]
            b.append(concat([self._ordered(op, bias) for bias in biases], 0))
        attrs = {"hidden_size": self.hidden_size, "direction": "bidirectional" if len(w) == 2 else "forward", **self.attributes}
        operands = [x, stack(w, 0), stack(r, 0), stack(b, 0), lengths, states.get("initial_h"), states.get("initial_c")]
        count = 3 if self.op_type == "LSTM" else 2
        y, *ends = op.emit(self.op_type, operands[: count + 4], attrs, outputs=count)
        y = op.Transpose(y, perm=[0, 2, 1, 3])
        return [op.Reshape(y, np.array([0, 0, len(w) * self.hidden_size])), *ends]

    def _ordered(self, op: Any, weight: Any) -> Any:
        if self.order == tuple(range(len(self.order))):
            return weight
        gates = split(weight, len(self.order), 0)
        return concat([gates[at] for at in self.order], 0)

    def extra_repr(self) -> str:
        more = "" if self.num_layers == 1 else f", num_layers={self.num_layers}"
        return f"{self.input_size}, {self.hidden_size}{more}"


class SimpleRNN(_Recurrent):
    """h = act(W x + U h + b) over a sequence. Elman 1990."""

    cell, op_type, order = SimpleRNNCell, "RNN", (0,)

    takes = _LAYERS.replace("dropout=0.0", "dropout=0.0, activation='tanh'")

    def _make(self, args: Any) -> None:
        super()._make(args)
        self.attributes = {"activations": [_known_activation(self, args.activation).capitalize()] * self.num_directions}  # type: ignore[misc]


class LSTM(_Recurrent):
    """Long short-term memory over a sequence. Hochreiter and Schmidhuber 1997.

    Example:
        >>> y, (h, c) = paddle.nn.LSTM(3, 4, direction="bidirect")(paddle.to_tensor(np.ones((2, 5, 3), np.float32)))
        >>> y.shape, h.shape
        ([2, 5, 8], [2, 2, 4])
    """

    cell, op_type, order = LSTMCell, "LSTM", (0, 3, 1, 2)


class GRU(_Recurrent):
    """Gated recurrent units over a sequence. Cho et al. 2014."""

    cell, op_type, order = GRUCell, "GRU", (1, 0, 2)
    attributes: ClassVar[dict[str, Any]] = {"linear_before_reset": 1}
