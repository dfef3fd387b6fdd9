"""Layers as objects for the eager mode: they hold parameters, and compute when called.

Tests: tests/nn/test_layers_as_paddle.py.
"""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

import numpy as np

from onnxgrad.core.runtime.places import Place
from onnxgrad.core.state.inputs import GivenByName
from onnxgrad.dtypes import DTypeLike, dtype_of
from onnxgrad.eager.node import HookHandle
from onnxgrad.eager.parameter import EagerParameter
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import ArgumentTypeError, Mismatch, ProviderError
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_text
from onnxgrad.nn.types import BiasAttr, WeightAttr
from onnxgrad.tensor.initializer import Initializer, chosen_initializer
from onnxgrad.tensor.options import Device, require_cpu
from onnxgrad.tensor.param_attr import ParamAttr
from onnxgrad.tensor.parameter import eager_parameter

__all__ = ["Layer"]

Call = TypeVar("Call", covariant=True)
AnyParameter = TypeVar("AnyParameter", bound=EagerParameter | None)
AnyLayer = TypeVar("AnyLayer", bound="Layer | None")


class _Forward(Protocol[Call]):
    """What has a ``forward``: a call of a layer takes its arguments and returns its result, also to a type checker."""

    @property
    def forward(self) -> Call: ...


class Layer:
    """Hold parameters, buffers and other layers, which are set as attributes; derive from it and write ``forward``.

    Args:
        name_scope: first part of the names of its parameters, which is counted; the name of the class in lower case unless given.
        dtype: element type of the parameters; that of ``set_default_dtype``, float32, unless given.

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
    _parameters: dict[str, EagerParameter | None]
    _sub_layers: dict[str, Layer]
    _buffers: dict[str, Tensor | None]
    _transient: set[str]
    _pre_hooks: dict[int, Callable[..., Any]]
    _post_hooks: dict[int, Callable[..., Any]]
    _dtype: Any
    _full_name: str

    def __init__(self, name_scope: str | None = None, dtype: DTypeLike | None = None) -> None:
        name_scope = as_text(self, "name_scope", name_scope)
        own, stores = self.__dict__, ("_parameters", "_sub_layers", "_buffers", "_pre_hooks", "_post_hooks")
        own.update({store: {} for store in stores}, _transient=set(), training=True)
        own["_dtype"] = state.current.default_dtype if dtype is None else dtype
        own["_full_name"] = state.generate_name(name_scope or _in_snake_case(type(self).__name__))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Compute the result of the layer.

        Args:
            inputs: what the layer takes.
            kwargs: likewise, by name.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward().")

    if TYPE_CHECKING:  # as a property, since mypy does not see through a call to one whose result has the class of its argument

        @property
        def __call__(self: _Forward[Call]) -> Call: ...

    else:

        def __call__(self, *inputs: object, **kwargs: object) -> object:
            for hook in list(self._pre_hooks.values()):
                changed = hook(self, inputs)
                if changed is not None:
                    inputs = changed if isinstance(changed, tuple) else (changed,)
            result = self.forward(*inputs, **kwargs)
            for hook in list(self._post_hooks.values()):
                changed = hook(self, inputs, result)
                result = result if changed is None else changed
            return result

    def register_forward_pre_hook(self, hook: Callable[[Self, tuple[Any, ...]], object]) -> HookHandle:
        """Call a function before each ``forward``.

        Args:
            hook: takes the layer and a tuple of the inputs; what it returns, if anything, replaces the inputs.

        Returns:
            A handle, whose ``remove`` takes the hook off again.
        """
        return HookHandle(self._pre_hooks, hook)

    def register_forward_post_hook(self, hook: Callable[[Self, tuple[Any, ...], Any], object]) -> HookHandle:
        """Call a function after each ``forward``.

        Args:
            hook: takes the layer, a tuple of the inputs and the result; what it returns, if anything, replaces the result.

        Returns:
            A handle, whose ``remove`` takes the hook off again.
        """
        return HookHandle(self._post_hooks, hook)

    def full_name(self) -> str:
        """The counted name of this layer, such as ``layer_norm_0`` of a ``LayerNorm``."""
        return str(self._full_name)

    # Members ---------------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = (
            (EagerParameter, "_parameters", "a parameter"),
            (Layer, "_sub_layers", "a Layer"),
            (Tensor, "_buffers", "a Tensor"),
        )
        for member_type, store, wanted in kinds:
            members = self.__dict__.get(store)
            if members is None:
                raise ArgumentTypeError(f"call super().__init__() before setting {name!r} of {type(self).__name__}.")
            if isinstance(value, member_type) and (member_type is not Tensor or name in members):
                for _, other, _ in kinds:
                    if other != store:
                        self.__dict__[other].pop(name, None)
                members[name] = value
                return
            if name in members and value is not None:
                raise ArgumentTypeError(
                    f"{name!r} of {type(self).__name__} is {wanted} or None, not {type(value).__name__}. Delete it first, or "
                    "change its values by set_value."
                )
            members.pop(name, None)
        object.__setattr__(self, name, value)

    if not TYPE_CHECKING:  # so that a checker knows a misspelt member

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

    @overload
    def create_parameter(
        self,
        shape: Sequence[int],
        attr: WeightAttr = None,
        dtype: DTypeLike | None = None,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
    ) -> EagerParameter: ...

    @overload
    def create_parameter(
        self,
        shape: Sequence[int],
        attr: BiasAttr = None,
        dtype: DTypeLike | None = None,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
    ) -> EagerParameter | None: ...

    def create_parameter(
        self,
        shape: Sequence[int],
        attr: BiasAttr = None,
        dtype: DTypeLike | None = None,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
    ) -> EagerParameter | None:
        """Make a parameter, named after this layer, which the layer holds once it is set as an attribute.

        Args:
            shape: its sizes.
            attr: its attributes, its initial values, or its name; False for none.
            dtype: its element type; that of the layer unless given.
            is_bias: whether it starts as a bias does, with zeros.
            default_initializer: initial values where ``attr`` says none; Xavier's, or zeros for a bias, unless given.

        Returns:
            The parameter, or None if ``attr`` is False.

        Raises:
            ArgumentTypeError: if ``attr`` is something else.
        """
        chosen = ParamAttr.of(attr)
        if chosen is None:
            return None
        default = chosen_initializer(default_initializer, is_bias)
        name = chosen.name_in(self.full_name(), "b" if is_bias else "w")
        return eager_parameter(chosen, list(shape), dtype or self._dtype, default, name)

    def _make_in(self, device: Device, dtype: DTypeLike | None) -> None:
        """Make the parameters on a device, which is checked, and in an element type, unless None."""
        require_cpu(type(self).__name__, device)
        if dtype is not None:
            self._dtype = dtype_of(dtype).name

    def create_tensor(self, name: str | None = None, persistable: bool | None = None, dtype: DTypeLike | None = None) -> Tensor:
        """Make a tensor without elements, to be set later.

        Args:
            name: its name; a counted one unless given.
            persistable: whether it is state.
            dtype: its element type; that of the layer unless given.
        """
        tensor = Tensor(np.zeros(0, dtype_of(dtype or self._dtype).numpy))
        tensor.persistable = bool(persistable)
        if name is not None:
            tensor.name = name
        return tensor

    create_variable = create_tensor

    def add_parameter(self, name: str, parameter: AnyParameter) -> AnyParameter:
        """Hold a parameter under a name.

        Args:
            name: the attribute that it becomes.
            parameter: the parameter, or None.

        Returns:
            The parameter.

        Raises:
            TypeError: if the name is no string, or it is no parameter.
            KeyError: if the name is empty, has a dot, or is taken.
        """
        self._hold(name, parameter, self._parameters, EagerParameter, "add_parameter takes a parameter")
        return parameter

    def add_sublayer(self, name: str, sublayer: AnyLayer) -> AnyLayer:
        """Hold a layer under a name.

        Args:
            name: the attribute that it becomes.
            sublayer: the layer, or None.

        Returns:
            The layer.

        Raises:
            Mismatch: if it is none.
        """
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise Mismatch(f"add_sublayer takes a Layer or None, not {type(sublayer).__name__}.")
        self._sub_layers[name] = sublayer  # type: ignore[assignment]
        return sublayer

    def _hold(self, name: Any, member: Any, members: dict[str, Any], member_type: type, takes: str) -> None:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a member's name is a string, not {type(name).__name__}.")
        if not name or "." in name or (hasattr(self, name) and name not in members):
            raise KeyError(f"{name!r} cannot name a member of {type(self).__name__}. Use another name.")
        if member is not None and not isinstance(member, member_type):
            raise ArgumentTypeError(f"{takes}, not {type(member).__name__}.")
        members[name] = member

    def register_buffer(self, name: str, tensor: Tensor | None, persistable: bool = True) -> None:
        """Hold a tensor that is state but no parameter.

        Args:
            name: the attribute that it becomes.
            tensor: the tensor, or None.
            persistable: False to leave it out of ``state_dict``.

        Raises:
            TypeError: if the name is no string, or it is no tensor.
            KeyError: if the name is empty, has a dot, or is taken.
        """
        self._hold(name, tensor, self._buffers, Tensor, "register_buffer takes a Tensor")
        self._transient.discard(name)
        if tensor is not None and persistable:
            tensor.persistable = True
        if not persistable:
            self._transient.add(name)

    def named_sublayers(
        self, prefix: str = "", include_self: bool = False, layers_set: set[Layer] | None = None
    ) -> Iterator[tuple[str, Layer]]:
        """Go through all layers inside, with their paths, each once.

        Args:
            prefix: stands in front of the paths.
            include_self: begin with this layer.
            layers_set: layers that are left out; those that are gone through are added.
        """
        seen = set() if layers_set is None else layers_set
        if self in seen:
            return
        seen.add(self)
        if include_self:
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                yield from layer.named_sublayers(f"{prefix}.{name}" if prefix else name, True, seen)

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """List all layers inside.

        Args:
            include_self: begin with this layer.
        """
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """The layers directly inside, with their names."""
        seen: set[Layer | None] = {None}
        for name, layer in self._sub_layers.items():
            if layer not in seen:
                seen.add(layer)
                yield name, layer

    def children(self) -> Iterator[Layer]:
        """The layers directly inside."""
        return (layer for _, layer in self.named_children())

    def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, EagerParameter]]:
        """Go through the parameters, each once, with their paths.

        Args:
            prefix: stands in front of the paths.
            include_sublayers: with those of the layers inside.
        """
        return self._named("_parameters", prefix, include_sublayers)

    def _named(self, store: str, prefix: str, include_sublayers: bool) -> Iterator[tuple[str, Any]]:
        seen: set[Tensor] = set()
        for path, layer in self.named_sublayers(prefix, include_self=True) if include_sublayers else [(prefix, self)]:
            for name, member in layer.__dict__[store].items():
                if member is not None and member not in seen:
                    seen.add(member)
                    yield f"{path}.{name}" if path else name, member

    def parameters(self, include_sublayers: bool = True) -> list[EagerParameter]:
        """List the parameters, each once.

        Args:
            include_sublayers: with those of the layers inside.
        """
        return [parameter for _, parameter in self.named_parameters("", include_sublayers)]

    def named_buffers(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Go through the buffers, each once, with their paths.

        Args:
            prefix: stands in front of the paths.
            include_sublayers: with those of the layers inside.
        """
        return self._named("_buffers", prefix, include_sublayers)

    def buffers(self, include_sublayers: bool = True) -> list[Tensor]:
        """List the buffers, each once.

        Args:
            include_sublayers: with those of the layers inside.
        """
        return [buffer for _, buffer in self.named_buffers("", include_sublayers)]

    # State -----------------------------------------------------------------------------------------------------------

    def state_dict(
        self,
        destination: dict[str, Tensor] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Tensor]:
        """Collect parameters and persistable buffers by path.

        Args:
            destination: a dict that they are added to; a new one unless given.
            include_sublayers: with those of the layers inside.
            structured_name_prefix: stands in front of the paths.
            use_hook: accepted as in Paddle.

        Returns:
            Tensors by path, in order.
        """
        entries = OrderedDict() if destination is None else destination
        for path, layer in self._paths() if include_sublayers else [("", self)]:
            lead = structured_name_prefix + (f"{path}." if path else "")
            for name, tensor in [*layer._parameters.items(), *layer._buffers.items()]:
                if tensor is not None and name not in layer._transient:
                    entries[lead + name] = tensor
        return entries

    def _paths(self, lead: str = "") -> Iterator[tuple[str, Layer]]:
        """This layer and those inside, by each path that leads to one: a layer that is held twice has two, as in a file."""
        yield lead, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                yield from layer._paths(f"{lead}.{name}" if lead else name)

    to_static_state_dict = state_dict

    def set_state_dict(self, state_dict: GivenByName, use_structured_name: bool = True) -> tuple[list[str], list[str]]:
        """Set parameters and buffers; values that are missing, or have another shape, are left as they are, with a warning.

        Args:
            state_dict: tensors or arrays by path.
            use_structured_name: keys are paths such as ``0.weight``; False for the parameters' own names.

        Returns:
            The names that are missing, and those that are not expected; one whose shape is another is among both.

        Raises:
            ArgumentError: if a value does not have the element type of what it is for; then nothing is set.

        Example:
            >>> net, pretrained = paddle.nn.Linear(4, 2), {"weight": np.ones([4, 2], "float32"), "bias": np.ones(9, "float32")}
            >>> with warnings.catch_warnings(action="ignore"):
            ...     net.set_state_dict(pretrained)
            (['bias'], ['bias'])
        """
        own = Layer.state_dict(self)  # a subclass may write its own under other names
        if not use_structured_name:
            own = {tensor.name: tensor for tensor in own.values()}
        given = {n: v if isinstance(v, Tensor) else np.asarray(v) for n, v in state_dict.items() if n in own}
        for name, shape in [(name, list(value.shape)) for name, value in given.items()]:
            if shape != (expected := list(own[name].shape)):
                del given[name]
                skipped = f"Skip loading for {name}. It receives a shape {shape}, but the expected shape is {expected}."
                warnings.warn(skipped, stacklevel=2)
        reached = {id(own[name]) for name in given}
        for name in own:
            if name not in state_dict and id(own[name]) not in reached:
                warnings.warn(f"Skip loading for {name}. {name} is not found in the provided dict.", stacklevel=2)
        arrays = [(own[name], own[name].fitting(value)) for name, value in given.items()]

        def hold() -> None:
            for tensor, array in arrays:
                tensor.hold(array)

        try:
            hold()
        except KeyboardInterrupt:
            hold()
            raise
        missing = [name for name in own if name not in given and id(own[name]) not in reached]
        return missing, [name for name in state_dict if name not in given]

    load_dict = set_dict = set_state_dict

    def train(self) -> Self:
        """Switch this layer and those inside to training."""
        return self._switch(True)

    def eval(self) -> Self:
        """Switch this layer and those inside to inference."""
        return self._switch(False)

    def _switch(self, training: bool) -> Self:
        for layer in self.sublayers(include_self=True):
            layer.__dict__["training"] = training
        return self

    def apply(self, fn: Callable[[Layer], object]) -> Self:
        """Call a function on each layer inside, then on this one.

        Args:
            fn: takes a layer.

        Returns:
            This layer.
        """
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def to(self, device: str | Place | None = None, dtype: DTypeLike | None = None, blocking: bool | None = None) -> Self:
        """Cast parameters and buffers to another element type; they are on the CPU always.

        Args:
            device: 'cpu', or None.
            dtype: the element type; None to leave them.
            blocking: accepted as in Paddle.

        Returns:
            This layer.

        Raises:
            ProviderError: for another device.
        """
        if isinstance(device, str) and not device.startswith("cpu"):
            raise ProviderError("eager tensors live in main memory. Run a program with Executor(CUDAPlace(0)) instead.")
        return self if dtype is None else self.astype(dtype)

    def astype(self, dtype: DTypeLike | None = None) -> Self:
        """Cast parameters and buffers to another element type.

        Args:
            dtype: the element type.

        Returns:
            This layer.
        """
        return self._cast(dtype, only_floats=False)

    def float(self, excluded_layers: type[Layer] | Sequence[type[Layer]] | None = None) -> Self:
        """Cast floating-point parameters and buffers to float32.

        Args:
            excluded_layers: a class, or a list of classes, of layers that are left as they are.

        Returns:
            This layer.
        """
        return self._cast("float32", excluded_layers)

    def float16(self, excluded_layers: type[Layer] | Sequence[type[Layer]] | None = None) -> Self:
        """As ``float``, in float16.

        Args:
            excluded_layers: classes of layers that stay as they are.
        """
        return self._cast("float16", excluded_layers)

    def bfloat16(self, excluded_layers: type[Layer] | Sequence[type[Layer]] | None = None) -> Self:
        """As ``float``, in bfloat16.

        Args:
            excluded_layers: classes of layers that stay as they are.
        """
        return self._cast("bfloat16", excluded_layers)

    def _cast(self, dtype: Any, excluded: Any = None, only_floats: bool = True) -> Self:
        target, left = dtype_of(dtype), tuple(excluded) if isinstance(excluded, (list, tuple)) else excluded or ()
        for layer in self.sublayers(include_self=True):
            if isinstance(layer, left):
                continue
            layer.__dict__["_dtype"] = target.name
            for tensor in (*layer._parameters.values(), *layer._buffers.values()):
                if tensor is not None and (tensor.is_float or not only_floats):
                    tensor.hold(tensor.numpy().astype(target.numpy))
        return self

    def clear_gradients(self) -> None:
        """Fill the gradients of all parameters with zeros."""
        for parameter in self.parameters():
            parameter.clear_gradient()

    def extra_repr(self) -> str:
        """Return the text in parentheses of the printed form."""
        return ""

    def __repr__(self) -> str:
        inner = "".join(f"\n  ({name}): " + repr(layer).replace("\n", "\n  ") for name, layer in self._sub_layers.items())
        return f"{type(self).__name__}({self.extra_repr()}{inner}{chr(10) if inner else ''})"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._parameters, *self._sub_layers, *self._buffers]


def _in_snake_case(name: str) -> str:
    """``conv1d_transpose`` of ``Conv1DTranspose``, ``bce_loss`` of ``BCELoss``: users choose what decays by such names."""
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", name).lower()
