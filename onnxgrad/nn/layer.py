"""Layers as objects for the eager mode: they hold parameters, and compute when called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from onnxgrad import state
from onnxgrad.eager.tensor import EagerParameter, Tensor
from onnxgrad.errors import ArgumentTypeError
from onnxgrad.nn.parameter import eager_parameter
from onnxgrad.tensor.initializer import Initializer, usual_initializer
from onnxgrad.tensor.param_attr import ParamAttr

__all__ = ["Layer", "LayerList", "Sequential"]


class Layer:
    """Base of layers. Parameters, buffers and layers that are set as attributes belong to it; write ``forward``.

    Example:
        >>> class Scale(paddle.nn.Layer):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = self.create_parameter([1], default_initializer=paddle.nn.initializer.Constant(2.0))
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> Scale()(paddle.to_tensor([3.0])).tolist()
        [6.0]
    """

    training: bool
    _sub_layers: dict[str, Layer]

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        own = self.__dict__
        own["_parameters"], own["_sub_layers"], own["_buffers"] = {}, {}, {}
        own["_transient"] = set()
        own["training"] = True
        own["_dtype"] = dtype
        own["_full_name"] = state.generate_name(name_scope or type(self).__name__.lower())

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the layer computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward().")

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.forward(*inputs, **kwargs)

    def full_name(self) -> str:
        """The counted name of this layer, such as ``linear_0``."""
        return str(self._full_name)

    # Members ---------------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        for kind, store in ((EagerParameter, "_parameters"), (Layer, "_sub_layers"), (Tensor, "_buffers")):
            members = self.__dict__.get(store)
            if members is None:
                raise ArgumentTypeError(f"call super().__init__() before setting {name!r} of {type(self).__name__}.")
            if isinstance(value, kind) and (kind is not Tensor or name in members):
                members[name] = value
                return
            if name in members and (value is None or kind is not Tensor):
                del members[name]
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for store in ("_parameters", "_sub_layers", "_buffers"):
            if name in self.__dict__.get(store, ()):
                return self.__dict__[store][name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def __delattr__(self, name: str) -> None:
        for store in ("_parameters", "_sub_layers", "_buffers"):
            if name in self.__dict__[store]:
                del self.__dict__[store][name]
                return
        object.__delattr__(self, name)

    def create_parameter(
        self,
        shape: Sequence[int],
        attr: Any = None,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
    ) -> Any:
        """A new parameter, named after this layer; None if ``attr`` is False."""
        chosen = ParamAttr.of(attr)
        if chosen is None:
            return None
        default = default_initializer or usual_initializer(is_bias)
        name = chosen.name_in(self.full_name(), "b" if is_bias else "w")
        return eager_parameter(chosen, list(shape), dtype or self._dtype, default, name)

    def add_parameter(self, name: str, parameter: Any) -> Any:
        """Hold a parameter under a name."""
        setattr(self, name, parameter)
        return parameter

    def add_sublayer(self, name: str, sublayer: Layer) -> Layer:
        """Hold a layer under a name."""
        self._sub_layers[name] = sublayer
        return sublayer

    def register_buffer(self, name: str, tensor: Any, persistable: bool = True) -> None:
        """Hold a tensor that is state but no parameter; ``state_dict`` leaves it out unless it is persistable."""
        self._buffers[name] = tensor
        if not persistable:
            self._transient.add(name)

    def named_sublayers(self, prefix: str = "", include_self: bool = False) -> Iterator[tuple[str, Layer]]:
        """All layers inside, with their paths."""
        if include_self:
            yield prefix, self
        for name, layer in self._sub_layers.items():
            yield from layer.named_sublayers(f"{prefix}.{name}" if prefix else name, include_self=True)

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """All layers inside."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """The layers directly inside, with their names."""
        yield from self._sub_layers.items()

    def children(self) -> Iterator[Layer]:
        """The layers directly inside."""
        yield from self._sub_layers.values()

    def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Any]]:
        """Each parameter once, with its path."""
        seen: set[Tensor] = set()
        for path, layer in self.named_sublayers(prefix, include_self=True) if include_sublayers else [(prefix, self)]:
            for name, parameter in layer._parameters.items():
                if parameter not in seen:
                    seen.add(parameter)
                    yield f"{path}.{name}" if path else name, parameter

    def parameters(self, include_sublayers: bool = True) -> list[Any]:
        """Each parameter once."""
        return [parameter for _, parameter in self.named_parameters("", include_sublayers)]

    def named_buffers(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """The buffers, with their paths."""
        for path, layer in self.named_sublayers(prefix, include_self=True):
            for name, buffer in layer._buffers.items():
                yield f"{path}.{name}" if path else name, buffer

    def buffers(self) -> list[Any]:
        """The buffers."""
        return [buffer for _, buffer in self.named_buffers()]

    # State -----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Parameters and persistable buffers by path."""
        found = dict(self.named_parameters())
        for path, layer in self.named_sublayers(include_self=True):
            for name, buffer in layer._buffers.items():
                if name not in layer._transient:
                    found[f"{path}.{name}" if path else name] = buffer
        return found

    def set_state_dict(self, state_dict: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Set parameters and buffers from tensors or arrays; returns the missing and the unexpected names."""
        own = self.state_dict()
        for name in own.keys() & state_dict.keys():
            own[name].set_value(state_dict[name] if isinstance(state_dict[name], Tensor) else np.asarray(state_dict[name]))
        return [name for name in own if name not in state_dict], [name for name in state_dict if name not in own]

    load_dict = set_state_dict

    def train(self) -> Layer:
        """Switch this layer and those inside to training."""
        return self._switch(True)

    def eval(self) -> Layer:
        """Switch this layer and those inside to inference."""
        return self._switch(False)

    def _switch(self, training: bool) -> Layer:
        for layer in self.sublayers(include_self=True):
            layer.__dict__["training"] = training
        return self

    def apply(self, fn: Callable[[Layer], Any]) -> Layer:
        """Call a function on each layer inside, then on this one."""
        for layer in self.sublayers():
            fn(layer)
        fn(self)
        return self

    def clear_gradients(self) -> None:
        """Fill the gradients of all parameters with zeros."""
        for parameter in self.parameters():
            parameter.clear_gradient()

    def extra_repr(self) -> str:
        """What the printed form says in parentheses."""
        return ""

    def __repr__(self) -> str:
        inner = "".join(f"\n  ({name}): " + repr(layer).replace("\n", "\n  ") for name, layer in self._sub_layers.items())
        return f"{type(self).__name__}({self.extra_repr()}{inner}{chr(10) if inner else ''})"


class Sequential(Layer):
    """Layers applied one after another, given as arguments, or as (name, layer) pairs.

    Example:
        >>> model = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.ReLU())
        >>> model(paddle.to_tensor([[1.0, 2.0]])).shape
        [1, 3]
    """

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        for at, item in enumerate(layers):
            name, layer = item if isinstance(item, (tuple, list)) else (str(at), item)
            self.add_sublayer(name, layer)

    def __getitem__(self, at: int) -> Layer:
        return list(self._sub_layers.values())[at]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def forward(self, input: Any) -> Any:
        """The last layer's result."""
        for layer in self.children():
            input = layer(input)
        return input


class LayerList(Layer):
    """A list of layers that belong to the layer that holds it."""

    def __init__(self, sublayers: Sequence[Layer] | None = None) -> None:
        super().__init__()
        for layer in sublayers or ():
            self.append(layer)

    def append(self, layer: Layer) -> LayerList:
        """Add one at the end."""
        self.add_sublayer(str(len(self._sub_layers)), layer)
        return self

    def __getitem__(self, at: int) -> Layer:
        return list(self._sub_layers.values())[at]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return self.children()
