"""Layers and parameters held in order or by name.

Tests: tests/nn/test_layers_as_paddle.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, SupportsIndex, cast, overload

from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentTypeError, Mismatch
from onnxgrad.nn.layer import Layer

if TYPE_CHECKING:
    # Only those of typing_extensions have defaults, which stand for a container that is made without members.
    from typing_extensions import TypeVar

    Member = TypeVar("Member", default=Any)
    LayerType = TypeVar("LayerType", bound=Layer, default=Layer)
else:
    from typing import TypeVar

    Member = TypeVar("Member")
    LayerType = TypeVar("LayerType", bound=Layer)

__all__ = ["LayerDict", "LayerList", "ParameterDict", "ParameterList", "Sequential"]


class _NoMember(ArgumentTypeError, AssertionError):
    """Something stands where a container takes a layer or a parameter."""


class _Held(Layer, Generic[Member]):
    """Base of containers: members of one kind."""

    _store: ClassVar[str] = "_sub_layers"
    _kind: ClassVar[type] = Layer

    @property
    def _members(self) -> dict[str, Member]:
        members: dict[str, Member] = self.__dict__[self._store]
        return members

    def _checked(self, member: Any) -> Member:
        if not isinstance(member, self._kind):
            raise _NoMember(f"{type(self).__name__}: a member is a {self._kind.__name__}, not {member!r:.60}.")
        return cast(Member, member)

    def __len__(self) -> int:
        return len(self._members)


class _Listed(_Held[Member]):
    """Base of containers whose members have positions."""

    def _fill(self, members: Iterable[Any]) -> None:
        kept = [self._checked(member) for member in members]
        self._members.clear()
        self._members.update((str(at), member) for at, member in enumerate(kept))

    def _position(self, at: SupportsIndex) -> int:
        position = at.__index__()
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} lies outside a list of {len(self)}.")
        return position % len(self)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Member: ...

    @overload
    def __getitem__(self, at: slice) -> Self: ...

    def __getitem__(self, at: Any) -> Any:
        members = list(self)
        layer_type: Any = type(self)
        return layer_type(members[at]) if isinstance(at, slice) else members[self._position(at)]

    def __setitem__(self, at: SupportsIndex, member: Member) -> None:
        members = list(self)
        members[self._position(at)] = member
        self._fill(members)

    def __delitem__(self, at: SupportsIndex | slice) -> None:
        members = list(self)
        del members[at]
        self._fill(members)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def append(self, member: Member) -> Self:
        """Add one at the end.

        Args:
            member: a layer, or a parameter of a ParameterList.

        Raises:
            ArgumentTypeError: for something else.
        """
        self._fill([*self, member])
        return self

    def insert(self, index: int, member: Member) -> None:
        """Add one before a position.

        Args:
            index: the position; a negative one counts from the end.
            member: a layer, or a parameter of a ParameterList.

        Raises:
            ArgumentTypeError: for something else.
        """
        members = list(self)
        members.insert(index, member)
        self._fill(members)

    def extend(self, members: Iterable[Member]) -> Self:
        """Add several at the end.

        Args:
            members: layers, or parameters of a ParameterList.

        Raises:
            ArgumentTypeError: for something else.
        """
        self._fill([*self, *members])
        return self


class Sequential(_Listed[Layer]):
    """Apply layers one after another.

    Args:
        layers: the layers, or (name, layer) pairs, as arguments or in one list.

    Raises:
        ArgumentTypeError: for something else.

    Example:
        >>> model = paddle.nn.Sequential(paddle.nn.Linear(2, 3), paddle.nn.ReLU())
        >>> model(paddle.to_tensor([[1.0, 2.0]])).shape
        [1, 3]
    """

    def __init__(self, *layers: Layer | tuple[str, Layer] | list[Layer] | list[tuple[str, Layer]]) -> None:
        super().__init__()
        listed: Iterable[Any] = layers[0] if len(layers) == 1 and isinstance(layers[0], list) else layers
        for at, item in enumerate(listed):
            name, layer = item if isinstance(item, (tuple, list)) else (str(at), item)
            self.add_sublayer(str(name), self._checked(layer))

    @overload
    def __getitem__(self, at: SupportsIndex | str) -> Layer: ...

    @overload
    def __getitem__(self, at: slice) -> Sequential: ...

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            return self._sub_layers[at]
        if isinstance(at, slice):
            return Sequential(*list(self)[at])
        return super().__getitem__(at)

    def __setitem__(self, at: SupportsIndex | str, layer: Layer) -> None:
        self._sub_layers[at if isinstance(at, str) else list(self._sub_layers)[self._position(at)]] = self._checked(layer)

    def __delitem__(self, at: SupportsIndex | slice | str) -> None:
        names = list(self._sub_layers)
        chosen = names[at] if isinstance(at, slice) else [at if isinstance(at, str) else names[self._position(at)]]
        for name in chosen:
            del self._sub_layers[name]

    def forward(self, input: Any) -> Any:
        """Apply the layers.

        Args:
            input: what the first layer takes.

        Returns:
            What the last layer returns.
        """
        for layer in self:
            input = layer(input)
        return input


class LayerList(_Listed[LayerType]):
    """Hold a list of layers, which belong to the layer that holds it.

    Args:
        sublayers: the layers; none unless given.

    Raises:
        ArgumentTypeError: if one is not a layer.

    Example:
        >>> layers = paddle.nn.LayerList([paddle.nn.Linear(2, 3)])
        >>> len(layers.append(paddle.nn.Linear(3, 4))), layers[1].out_features
        (2, 4)
    """

    def __init__(self, sublayers: Iterable[LayerType] | None = None) -> None:
        super().__init__()
        self._fill(sublayers or ())


class ParameterList(_Listed[EagerParameter]):
    """Hold a list of parameters, which belong to the layer that holds it.

    Args:
        parameters: the parameters; none unless given.

    Raises:
        ArgumentTypeError: if one is no tensor.

    Example:
        >>> weights = paddle.nn.ParameterList([paddle.create_parameter([2], "float32")])
        >>> weights[0].shape
        [2]
    """

    _store, _kind = "_parameters", Tensor

    def __init__(self, parameters: Iterable[EagerParameter] | None = None) -> None:
        super().__init__()
        self._fill(parameters or ())


class _Named(_Held[Member], MutableMapping[str, Member]):
    """Base of containers whose members have names."""

    def __init__(self, sublayers: Mapping[str, Member] | Iterable[tuple[str, Member]] | None = None) -> None:
        super().__init__()
        if sublayers is not None:
            self.update(sublayers)

    def update(self, sublayers: Mapping[str, Member] | Iterable[tuple[str, Member]]) -> None:  # type: ignore[override]
        """Add or replace members.

        Args:
            sublayers: members by name, or (name, member) pairs.

        Raises:
            Mismatch: if it is neither.
            ArgumentTypeError: for a member of another kind.
        """
        if not isinstance(sublayers, (Mapping, Iterable)):
            raise Mismatch(f"{type(self).__name__} takes a mapping or pairs, not {type(sublayers).__name__}.")
        pairs: Any = sublayers.items() if hasattr(sublayers, "items") else sublayers
        for name, member in pairs:
            self[name] = member

    def __getitem__(self, key: str) -> Member:
        return self._members[key]

    def __setitem__(self, key: str, member: Member) -> None:
        self._members[key] = self._checked(member)

    def __delitem__(self, key: str) -> None:
        del self._members[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    __eq__, __hash__ = object.__eq__, object.__hash__


class LayerDict(_Named[LayerType]):
    """Hold layers by name, which belong to the layer that holds it.

    Args:
        sublayers: layers by name, or (name, layer) pairs; none unless given.

    Raises:
        ArgumentTypeError: if one is not a layer.

    Example:
        >>> layers = paddle.nn.LayerDict({"up": paddle.nn.Linear(2, 3)})
        >>> layers["up"].out_features
        3
    """


class ParameterDict(_Named[EagerParameter]):
    """Hold parameters by name, which belong to the layer that holds it.

    Args:
        sublayers: parameters by name, or (name, parameter) pairs; none unless given.

    Raises:
        ArgumentTypeError: if one is no tensor.

    Example:
        >>> weights = paddle.nn.ParameterDict({"scale": paddle.create_parameter([2], "float32")})
        >>> weights["scale"].shape
        [2]
    """

    _store, _kind = "_parameters", Tensor
