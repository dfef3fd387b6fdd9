"""Layers and parameters held in order or by name.

Tests: tests/nn/test_layers_as_paddle.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from onnxgrad.errors import Mismatch
from onnxgrad.nn.layer import Layer

__all__ = ["LayerDict", "LayerList", "ParameterDict", "ParameterList", "Sequential"]


class _Held(Layer):
    """Members of one kind."""

    _store = "_sub_layers"

    @property
    def _members(self) -> dict[str, Any]:
        members: dict[str, Any] = self.__dict__[self._store]
        return members

    def __len__(self) -> int:
        return len(self._members)


class _Listed(_Held):
    """Members by their position."""

    def _fill(self, members: Iterable[Any]) -> None:
        kept = list(members)
        self._members.clear()
        self._members.update((str(at), member) for at, member in enumerate(kept))

    def _position(self, at: int) -> int:
        if not -len(self) <= at < len(self):
            raise IndexError(f"index {at} lies outside a list of {len(self)}.")
        return at % len(self)

    def __getitem__(self, at: Any) -> Any:
        members: Any = list(self)
        layer_type: Any = type(self)
        return layer_type(members[at]) if isinstance(at, slice) else members[self._position(at)]

    def __setitem__(self, at: int, member: Any) -> None:
        members = list(self)
        members[self._position(at)] = member
        self._fill(members)

    def __delitem__(self, at: Any) -> None:
        members = list(self)
        del members[at]
        self._fill(members)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._members.values()))

    def append(self, member: Any) -> Any:
        """Add one at the end."""
        self._fill([*self, member])
        return self

    def insert(self, index: int, member: Any) -> None:
        """Add one before a position."""
        members = list(self)
        members.insert(index, member)
        self._fill(members)

    def extend(self, members: Sequence[Any]) -> Any:
        """Add several at the end."""
        self._fill([*self, *members])
        return self


class Sequential(_Listed):
    """Layers applied one after another, given as arguments, or as (name, layer) pairs.

    Example:
        >>> model = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.ReLU())
        >>> model(paddle.to_tensor([[1.0, 2.0]])).shape
        [1, 3]
    """

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], list):
            layers = tuple(layers[0])
        for at, item in enumerate(layers):
            name, layer = item if isinstance(item, (tuple, list)) else (str(at), item)
            self.add_sublayer(str(name), layer)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            return self._sub_layers[at]
        if isinstance(at, slice):
            return Sequential(*list(self)[at])
        return super().__getitem__(at)

    def __setitem__(self, at: Any, layer: Layer) -> None:
        self._sub_layers[at if isinstance(at, str) else list(self._sub_layers)[self._position(at)]] = layer

    def __delitem__(self, at: Any) -> None:
        del self._sub_layers[at if isinstance(at, str) else list(self._sub_layers)[self._position(at)]]

    def forward(self, input: Any) -> Any:
        """The last layer's result."""
        for layer in self:
            input = layer(input)
        return input


class LayerList(_Listed):
    """A list of layers that belong to the layer that holds it."""

    def __init__(self, sublayers: Iterable[Layer] | None = None) -> None:
        super().__init__()
        self._fill(sublayers or ())


class ParameterList(_Listed):
    """A list of parameters that belong to the layer that holds it."""

    _store = "_parameters"

    def __init__(self, parameters: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._fill(parameters or ())


class _Named(_Held, MutableMapping[str, Any]):
    """Members by name."""

    def __init__(self, sublayers: Any = None) -> None:
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def update(self, sublayers: Any) -> None:  # type: ignore[override]
        """Add or replace members, from a mapping or from pairs."""
        if not isinstance(sublayers, (Mapping, Iterable)):
            raise Mismatch(f"{type(self).__name__} takes a mapping or pairs, not {type(sublayers).__name__}.")
        self._members.update(sublayers.items() if hasattr(sublayers, "items") else sublayers)

    def __getitem__(self, key: str) -> Any:
        return self._members[key]

    def __setitem__(self, key: str, member: Any) -> None:
        self._members[key] = member

    def __delitem__(self, key: str) -> None:
        del self._members[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    __eq__, __hash__ = object.__eq__, object.__hash__


class LayerDict(_Named):
    """Layers by name that belong to the layer that holds it."""


class ParameterDict(_Named):
    """Parameters by name that belong to the layer that holds it."""

    _store = "_parameters"
