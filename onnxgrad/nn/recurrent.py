"""Recurrent layers: cells, which compute one step, and whole sequences by ONNX's RNN, LSTM and GRU.

Gates of a weight stand in Paddle's order: input, forget, cell, output of an LSTM; reset, update, candidate of a GRU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import DTypeLike
from onnxgrad.errors import ArgumentError, Mismatch, NotOffered
from onnxgrad.internal.arguments import checked_with_words
from onnxgrad.nn import functional as F
from onnxgrad.nn.layer import Layer
from onnxgrad.nn.types import AnyTensor, BiasAttr, Direction, WeightAttr
from onnxgrad.tensor.creation import full, zeros
from onnxgrad.tensor.indexing import getitem
from onnxgrad.tensor.initializer import Uniform
from onnxgrad.tensor.joining import concat, split, stack
from onnxgrad.tensor.layer import LayerHelper
from onnxgrad.tensor.linalg import matmul
from onnxgrad.tensor.manipulation import cast, reshape, shape as sizes_of, transpose
from onnxgrad.tensor.search import where

__all__ = ["GRU", "LSTM", "RNN", "BiRNN", "GRUCell", "LSTMCell", "RNNCellBase", "SimpleRNN", "SimpleRNNCell"]


StateShape: TypeAlias = "Sequence[int] | Sequence[Sequence[int]]"
"""The sizes of a state without the batch, or those of several."""


CellAttrs: TypeAlias = tuple[WeightAttr, WeightAttr, BiasAttr, BiasAttr]
"""Those of the weights of inputs and states, and of their biases."""


class RNNCellBase(Layer):
    """Base of cells: ``cell(inputs, states)`` gives the outputs of a step and the states after it.

    Args:
        name_scope, dtype: those of ``Layer``.

    Example:
        >>> class Sum(paddle.nn.RNNCellBase):
        ...     state_shape = (3,)
        ...     def forward(self, inputs, states):
        ...         return inputs + states, inputs + states
        >>> paddle.nn.RNN(Sum())(paddle.ones([2, 4, 3]))[1].tolist()
        [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]
    """

    state_shape: StateShape | None = None
    """The shape of a state without the batch, or a tuple of such shapes."""

    def get_initial_states(
        self,
        batch_ref: Variable | Sequence[Variable],
        shape: StateShape | None = None,
        dtype: DTypeLike | None = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """Fill states with one number.

        Args:
            batch_ref: a tensor with the batch, or a list that begins with one.
            shape: the shape of a state without the batch, or a tuple of such shapes; ``state_shape`` unless given.
            dtype: element type of the states; that of ``batch_ref`` unless given.
            init_value: the number.
            batch_dim_idx: the axis of the batch in ``batch_ref``.

        Returns:
            A tensor [batch, *shape], or a tuple of them.
        """
        while isinstance(batch_ref, (list, tuple)):
            batch_ref = batch_ref[0]
        assert isinstance(batch_ref, Variable)
        shapes: Any = self.state_shape if shape is None else shape
        if isinstance(shapes, (list, tuple)) and shapes and isinstance(shapes[0], (list, tuple)):
            return tuple(self.get_initial_states(batch_ref, one, dtype, init_value, batch_dim_idx) for one in shapes)
        size: Any = batch_ref.shape[batch_dim_idx]
        if size < 0:
            size = getitem(sizes_of(batch_ref), batch_dim_idx)
        return full([size, *(n for n in shapes if n != -1)], init_value, dtype or batch_ref.dtype)


class _Cell(RNNCellBase):
    """Base of cells with ``gates`` gates on [batch, hidden_size] states."""

    gates = 1

    def __init__(self, input_size: int, hidden_size: int, attrs: CellAttrs) -> None:
        super().__init__()
        if hidden_size <= 0:
            raise ArgumentError(f"{type(self).__name__}: hidden_size is {hidden_size}; it is at least 1.")
        self.input_size, self.hidden_size = input_size, hidden_size
        bound, rows = Uniform(-1 / math.sqrt(hidden_size), 1 / math.sqrt(hidden_size)), self.gates * hidden_size
        self.weight_ih = self.create_parameter([rows, input_size], attrs[0], default_initializer=bound)
        self.weight_hh = self.create_parameter([rows, hidden_size], attrs[1], default_initializer=bound)
        self.bias_ih, self.bias_hh = (self.create_parameter([rows], attr, None, True, bound) for attr in attrs[2:])

    @property
    def state_shape(self) -> StateShape:  # type: ignore[override]
        """The shape of a state without the batch."""
        return (self.hidden_size,)

    def _products(self, x: Variable, h: Variable) -> tuple[Any, Any]:
        a, b = matmul(x, self.weight_ih, transpose_y=True), matmul(h, self.weight_hh, transpose_y=True)
        return a if self.bias_ih is None else a + self.bias_ih, b if self.bias_hh is None else b + self.bias_hh

    def extra_repr(self) -> str:
        activation = getattr(self, "activation", "tanh")
        more = "" if activation == "tanh" else f", activation={activation}"
        return f"{self.input_size}, {self.hidden_size}{more}"


class SimpleRNNCell(_Cell):
    """Compute a step of h = act(W x + U h + b). Elman 1990.

    Args:
        input_size: features of the input.
        hidden_size: features of the states.
        activation: 'tanh' or 'relu'.
        weight_ih_attr: attributes of the weight of the input, uniform in 1 / sqrt(hidden_size) at first: a ParamAttr, an
            initializer or a name.
        weight_hh_attr: the same for the weight of the states.
        bias_ih_attr: the same for the bias of the input; False for none.
        bias_hh_attr: the same for the bias of the states; False for none.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or a hidden size below 1.

    Example:
        >>> y, h = paddle.nn.SimpleRNNCell(3, 4)(paddle.ones([2, 3]))
        >>> y.shape, h.shape
        ([2, 4], [2, 4])
    """

    @checked_with_words
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: Literal["tanh", "relu"] = "tanh",
        weight_ih_attr: WeightAttr = None,
        weight_hh_attr: WeightAttr = None,
        bias_ih_attr: BiasAttr = None,
        bias_hh_attr: BiasAttr = None,
        name: str | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))
        self.activation = activation

    def forward(self, inputs: AnyTensor, states: AnyTensor | None = None) -> tuple[AnyTensor, AnyTensor]:
        """Compute a step.

        Args:
            inputs: floats [batch, input_size].
            states: [batch, hidden_size]; zeros unless given.

        Returns:
            The output and the state after the step, which are the same: [batch, hidden_size].
        """
        h: Any = self.get_initial_states(inputs) if states is None else states
        a, b = self._products(inputs, h)
        h = F.tanh(a + b) if self.activation == "tanh" else F.relu(a + b)
        return h, h


class LSTMCell(_Cell):
    """Compute a step of long short-term memory. Hochreiter and Schmidhuber 1997.

    Args:
        input_size: features of the input.
        hidden_size: features of the states.
        weight_ih_attr: attributes of the weight of the input, uniform in 1 / sqrt(hidden_size) at first: a ParamAttr, an
            initializer or a name.
        weight_hh_attr: the same for the weight of the states.
        bias_ih_attr: the same for the bias of the input; False for none.
        bias_hh_attr: the same for the bias of the states; False for none.
        proj_size: must be 0: no runtime's LSTM projects its state.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or a hidden size below 1.

    Example:
        >>> y, (h, c) = paddle.nn.LSTMCell(3, 4)(paddle.ones([2, 3]))
        >>> y.shape, c.shape
        ([2, 4], [2, 4])
    """

    gates = 4

    @checked_with_words
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: WeightAttr = None,
        weight_hh_attr: WeightAttr = None,
        bias_ih_attr: BiasAttr = None,
        bias_hh_attr: BiasAttr = None,
        proj_size: int = 0,
        name: str | None = None,
    ) -> None:
        if proj_size:
            raise NotOffered("LSTMCell: proj_size is not offered: no LSTM of ONNX projects its state. Put a Linear behind it.")
        super().__init__(input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))

    @property
    def state_shape(self) -> StateShape:  # type: ignore[override]
        """The shapes of the two states without the batch."""
        return ((self.hidden_size,), (self.hidden_size,))

    def forward(
        self, inputs: AnyTensor, states: Sequence[AnyTensor] | None = None
    ) -> tuple[AnyTensor, tuple[AnyTensor, AnyTensor]]:
        """Compute a step.

        Args:
            inputs: floats [batch, input_size].
            states: the two states, each [batch, hidden_size]; zeros unless given.

        Returns:
            The output [batch, hidden_size], and the two states after the step.
        """
        pair: Any = self.get_initial_states(inputs) if states is None else states
        h, c = pair
        a, b = self._products(inputs, h)
        i, f, g, o = split(a + b, 4, -1)
        c = F.sigmoid(f) * c + F.sigmoid(i) * F.tanh(g)
        h = F.sigmoid(o) * F.tanh(c)
        return h, (h, c)


class GRUCell(_Cell):
    """Compute a step of a gated recurrent unit. Cho et al. 2014, with the reset gate after the product.

    Args:
        input_size: features of the input.
        hidden_size: features of the states.
        weight_ih_attr: attributes of the weight of the input, uniform in 1 / sqrt(hidden_size) at first: a ParamAttr, an
            initializer or a name.
        weight_hh_attr: the same for the weight of the states.
        bias_ih_attr: the same for the bias of the input; False for none.
        bias_hh_attr: the same for the bias of the states; False for none.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or a hidden size below 1.

    Example:
        >>> y, h = paddle.nn.GRUCell(3, 4)(paddle.ones([2, 3]))
        >>> y.shape, h.shape
        ([2, 4], [2, 4])
    """

    gates = 3

    @checked_with_words
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: WeightAttr = None,
        weight_hh_attr: WeightAttr = None,
        bias_ih_attr: BiasAttr = None,
        bias_hh_attr: BiasAttr = None,
        name: str | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))

    def forward(self, inputs: AnyTensor, states: AnyTensor | None = None) -> tuple[AnyTensor, AnyTensor]:
        """Compute a step.

        Args:
            inputs: floats [batch, input_size].
            states: [batch, hidden_size]; zeros unless given.

        Returns:
            The output and the state after the step, which are the same: [batch, hidden_size].
        """
        h: Any = self.get_initial_states(inputs) if states is None else states
        a, b = self._products(inputs, h)
        (xr, xz, xc), (hr, hz, hc) = split(a, 3, -1), split(b, 3, -1)
        z = F.sigmoid(xz + hz)
        c = F.tanh(xc + F.sigmoid(xr + hr) * hc)
        h = (h - c) * z + c
        return h, h


class RNN(Layer):
    """Run a cell over the steps of a sequence, whose number must be known.

    Args:
        cell: computes one step.
        is_reverse: begin at the last step.
        time_major: the steps are the first axis, rather than the second.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> y, h = paddle.nn.RNN(paddle.nn.GRUCell(3, 4))(paddle.ones([2, 5, 3]))
        >>> y.shape, h.shape
        ([2, 5, 4], [2, 4])
    """

    @checked_with_words
    def __init__(self, cell: Layer, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell: Any = cell
        self.is_reverse, self.time_major = is_reverse, time_major

    def forward(
        self, inputs: Variable, initial_states: Any = None, sequence_length: Variable | None = None, **kwargs: Any
    ) -> tuple[Variable, Any]:
        """Compute all steps.

        Args:
            inputs: [batch, steps, ...], or [steps, batch, ...] if ``time_major``.
            initial_states: those of the cell; its ``get_initial_states`` unless given.
            sequence_length: integers [batch]: later steps give zeros and leave the states.
            kwargs: passed to the cell.

        Returns:
            The outputs of all steps, in the layout of ``inputs``, and the states after the last.

        Raises:
            ArgumentError: if the number of steps is not known.
        """
        axis = 0 if self.time_major else 1
        steps = inputs.shape[axis]
        if steps < 0:
            raise ArgumentError("RNN: a cell of your own takes a known number of steps. Declare it, or use LSTM, GRU, SimpleRNN.")
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
    return where(reshape(alive, [-1] + [1] * (new.ndim - 1)), new, old)


class BiRNN(Layer):
    """Run one cell forwards and one backwards over a sequence; the outputs are joined along the last axis.

    Args:
        cell_fw: computes a step forwards.
        cell_bw: computes a step backwards.
        time_major: the steps are the first axis, rather than the second.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.

    Example:
        >>> y, (ahead, back) = paddle.nn.BiRNN(paddle.nn.GRUCell(3, 4), paddle.nn.GRUCell(3, 4))(paddle.ones([2, 5, 3]))
        >>> y.shape, back.shape
        ([2, 5, 8], [2, 4])
    """

    @checked_with_words
    def __init__(self, cell_fw: Layer, cell_bw: Layer, time_major: bool = False) -> None:
        super().__init__()
        self.cell_fw, self.cell_bw = cell_fw, cell_bw
        # In a tuple, so that the cells are members once, under Paddle's paths.
        self._directions = RNN(cell_fw, False, time_major), RNN(cell_bw, True, time_major)

    def forward(
        self, inputs: Variable, initial_states: Any = None, sequence_length: Variable | None = None, **kwargs: Any
    ) -> tuple[Variable, tuple[Any, Any]]:
        """Compute all steps.

        Args:
            inputs: [batch, steps, ...], or [steps, batch, ...] if ``time_major``.
            initial_states: two, those of each cell; their ``get_initial_states`` unless given.
            sequence_length: integers [batch]: later steps give zeros and leave the states.
            kwargs: passed to the cells.

        Returns:
            The outputs of all steps, in the layout of ``inputs``, and the last states of both cells.
        """
        first, second = (None, None) if initial_states is None else initial_states
        ahead, last = self._directions[0](inputs, first, sequence_length, **kwargs)
        back, begin = self._directions[1](inputs, second, sequence_length, **kwargs)
        return concat([ahead, back], -1), (last, begin)


class Recurrent(Layer):
    """Base of layers of one kind over a whole sequence, by ONNX's operator."""

    cell: ClassVar[Any]
    op_type = ""
    order: tuple[int, ...] = ()
    """The gates of ONNX's weights, by their number in Paddle's."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        direction: Direction,
        time_major: bool,
        dropout: float,
        attrs: CellAttrs,
        *options: str,
        **attributes: int,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.time_major, self.dropout = time_major, dropout
        self.num_directions = 1 if direction == "forward" else 2
        self._attributes: dict[str, Any] = {**attributes}
        for layer in range(num_layers):
            size = input_size if layer == 0 else hidden_size * self.num_directions
            cells = [self.cell(size, hidden_size, *options, *attrs) for _ in range(self.num_directions)]
            for suffix, cell in zip(("", "_reverse"), cells, strict=False):
                for parameter_name, parameter in cell._parameters.items():
                    self._parameters[f"{parameter_name}_l{layer}{suffix}"] = parameter
            # Paddle's files hold the weights by the paths of the cells too.
            first, *others = cells
            whole: Layer = BiRNN(first, others[0], time_major) if others else RNN(first, False, time_major)
            self.add_sublayer(str(layer), whole)

    def _run(self, inputs: Variable, initial_states: Sequence[Variable], lengths: Variable | None) -> tuple[Any, list[Any]]:
        """Outputs and last states of all layers, from the states of each kind or from zeros."""
        if inputs.is_eager and inputs.shape[-1] != self.input_size:
            raise Mismatch(f"{self.op_type}: the last axis of {inputs!r} is not input_size={self.input_size}.")
        x = inputs if self.time_major else transpose(inputs, [1, 0, 2])
        lengths = None if lengths is None else cast(lengths, "int32")
        last = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, training=self.training)
            at = slice(layer * self.num_directions, (layer + 1) * self.num_directions)
            x, *ends = self._layer(x, layer, lengths, [state[at] for state in initial_states])
            last.append(ends)
        finals = [ends[0] if len(ends) == 1 else concat(ends, 0) for ends in zip(*last, strict=True)]
        return (x if self.time_major else transpose(x, [1, 0, 2])), finals

    def _layer(self, x: Variable, layer: int, lengths: Variable | None, states: list[Variable]) -> list[Variable]:
        op, count = LayerHelper(self.op_type.lower(), x).op, self.num_directions
        blank = zeros([len(self.order) * self.hidden_size], self._dtype)
        directions = []
        for suffix in ("", "_reverse")[:count]:
            names = [f"{name}_l{layer}{suffix}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            w, r, *biases = (self._ordered(self._parameters.get(name, blank)) for name in names)
            directions.append((w, r, concat(biases, 0)))
        weights = [stack(each, 0) for each in zip(*directions, strict=True)]
        attrs = {"hidden_size": self.hidden_size, "direction": "bidirectional" if count == 2 else "forward", **self._attributes}
        outputs = 3 if self.op_type == "LSTM" else 2
        y, *ends = op.emit(self.op_type, [x, *weights, lengths, *states], attrs, outputs=outputs)
        y = op.Transpose(y, perm=[0, 2, 1, 3])
        return [op.Reshape(y, np.array([0, 0, count * self.hidden_size])), *ends]

    def _ordered(self, weight: Any) -> Any:
        if self.order == tuple(range(len(self.order))):
            return weight
        gates = split(weight, len(self.order), 0)
        return concat([gates[at] for at in self.order], 0)

    def extra_repr(self) -> str:
        options = {"num_layers": (self.num_layers, 1), "time_major": (self.time_major, False), "dropout": (self.dropout, 0)}
        shown = [f", {name}={value}" for name, (value, usual) in options.items() if value != usual]
        return f"{self.input_size}, {self.hidden_size}{''.join(shown)}"


class _OneState(Recurrent):
    """A recurrent layer whose state is one tensor."""

    def forward(
        self, inputs: AnyTensor, initial_states: AnyTensor | None = None, sequence_length: Variable | None = None
    ) -> tuple[AnyTensor, AnyTensor]:
        """Compute all steps.

        Args:
            inputs: floats [batch, steps, input_size], or steps first if ``time_major``.
            initial_states: [layers * directions, batch, hidden_size]; zeros unless given.
            sequence_length: integers [batch]: later steps give zeros and leave the states.

        Returns:
            The outputs [batch, steps, directions * hidden_size], or steps first, and the last state of each layer and direction.
        """
        y, (h,) = self._run(inputs, [] if initial_states is None else [initial_states], sequence_length)
        return y, h


class SimpleRNN(_OneState):
    """Compute h = act(W x + U h + b) over a sequence. Elman 1990.

    Args:
        input_size: features of the input.
        hidden_size: features of the states.
        num_layers: how many layers are stacked.
        direction: 'forward', or 'bidirect' (or 'bidirectional') for a second layer that reads backwards.
        time_major: the steps are the first axis, rather than the second.
        dropout: that of the input of each layer but the first, from 0 to 1.
        activation: 'tanh' or 'relu'.
        weight_ih_attr: attributes of the weight of the input, uniform in 1 / sqrt(hidden_size) at first: a ParamAttr, an
            initializer or a name.
        weight_hh_attr: the same for the weight of the states.
        bias_ih_attr: the same for the bias of the input; False for none.
        bias_hh_attr: the same for the bias of the states; False for none.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or a hidden size below 1.

    Example:
        >>> y, h = paddle.nn.SimpleRNN(3, 4)(paddle.ones([2, 5, 3]))
        >>> y.shape, h.shape
        ([2, 5, 4], [1, 2, 4])
    """

    cell, op_type, order = SimpleRNNCell, "RNN", (0,)

    @checked_with_words
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: Direction = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: Literal["tanh", "relu"] = "tanh",
        weight_ih_attr: WeightAttr = None,
        weight_hh_attr: WeightAttr = None,
        bias_ih_attr: BiasAttr = None,
        bias_hh_attr: BiasAttr = None,
        name: str | None = None,
    ) -> None:
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(input_size, hidden_size, num_layers, direction, time_major, dropout, attrs, activation)
        self._attributes["activations"] = [activation.capitalize()] * self.num_directions


class LSTM(Recurrent):
    """Compute long short-term memory over a sequence. Hochreiter and Schmidhuber 1997.

    Args:
        input_size: features of the input.
        hidden_size: features of the states.
        num_layers: how many layers are stacked.
        direction: 'forward', or 'bidirect' (or 'bidirectional') for a second layer that reads backwards.
        time_major: the steps are the first axis, rather than the second.
        dropout: that of the input of each layer but the first, from 0 to 1.
        weight_ih_attr: attributes of the weight of the input, uniform in 1 / sqrt(hidden_size) at first: a ParamAttr, an
            initializer or a name.
        weight_hh_attr: the same for the weight of the states.
        bias_ih_attr: the same for the bias of the input; False for none.
        bias_hh_attr: the same for the bias of the states; False for none.
        proj_size: must be 0: no runtime's LSTM projects its state.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or a hidden size below 1.

    Example:
        >>> y, (h, c) = paddle.nn.LSTM(3, 4, direction="bidirect")(paddle.to_tensor(np.ones((2, 5, 3), np.float32)))
        >>> y.shape, h.shape
        ([2, 5, 8], [2, 2, 4])
    """

    cell, op_type, order = LSTMCell, "LSTM", (0, 3, 1, 2)

    @checked_with_words
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: Direction = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: WeightAttr = None,
        weight_hh_attr: WeightAttr = None,
        bias_ih_attr: BiasAttr = None,
        bias_hh_attr: BiasAttr = None,
        proj_size: int = 0,
        name: str | None = None,
    ) -> None:
        if proj_size:
            raise NotOffered("LSTM: proj_size is not offered: no LSTM of ONNX projects its state. Put a Linear behind it.")
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(input_size, hidden_size, num_layers, direction, time_major, dropout, attrs)

    def forward(
        self, inputs: AnyTensor, initial_states: Sequence[AnyTensor] | None = None, sequence_length: Variable | None = None
    ) -> tuple[AnyTensor, tuple[AnyTensor, AnyTensor]]:
        """Compute all steps.

        Args:
            inputs: floats [batch, steps, input_size], or steps first if ``time_major``.
            initial_states: two of [layers * directions, batch, hidden_size]; zeros unless given.
            sequence_length: integers [batch]: later steps give zeros and leave the states.

        Returns:
            The outputs [batch, steps, directions * hidden_size], or steps first, and two last states of each layer and direction.
        """
        y, (h, c) = self._run(inputs, [] if initial_states is None else initial_states, sequence_length)
        return y, (h, c)


class GRU(_OneState):
    """Compute gated recurrent units over a sequence. Cho et al. 2014.

    Args:
        input_size: features of the input.
        hidden_size: features of the states.
        num_layers: how many layers are stacked.
        direction: 'forward', or 'bidirect' (or 'bidirectional') for a second layer that reads backwards.
        time_major: the steps are the first axis, rather than the second.
        dropout: that of the input of each layer but the first, from 0 to 1.
        weight_ih_attr: attributes of the weight of the input, uniform in 1 / sqrt(hidden_size) at first: a ParamAttr, an
            initializer or a name.
        weight_hh_attr: the same for the weight of the states.
        bias_ih_attr: the same for the bias of the input; False for none.
        bias_hh_attr: the same for the bias of the states; False for none.
        name: accepted as in Paddle.

    Raises:
        ArgumentTypeError: if an argument has the wrong type.
        ArgumentError: for an unknown word, or a hidden size below 1.

    Example:
        >>> y, h = paddle.nn.GRU(3, 4, num_layers=2)(paddle.ones([2, 5, 3]))
        >>> y.shape, h.shape
        ([2, 5, 4], [2, 2, 4])
    """

    cell, op_type, order = GRUCell, "GRU", (1, 0, 2)

    @checked_with_words
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: Direction = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: WeightAttr = None,
        weight_hh_attr: WeightAttr = None,
        bias_ih_attr: BiasAttr = None,
        bias_hh_attr: BiasAttr = None,
        name: str | None = None,
    ) -> None:
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(input_size, hidden_size, num_layers, direction, time_major, dropout, attrs, linear_before_reset=1)
