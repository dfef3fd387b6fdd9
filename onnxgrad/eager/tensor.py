"""Tensor: a value that is checked and typed when it is made and computed when somebody reads it.

Tests: tests/eager/test_tensors.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.tensor import TensorValue as Array
from onnxgrad.core.ir.types import Entries, TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace, Place
from onnxgrad.core.state.inputs import Door, Given, as_array, converted
from onnxgrad.core.state.scope import Scope
from onnxgrad.dtypes import DType, DTypeLike, dtype_of
from onnxgrad.eager.entering import enter
from onnxgrad.eager.evaluate import evaluate
from onnxgrad.eager.node import GradNode, HookHandle, Meta, TapeNode, kind_of_array
from onnxgrad.eager.printing import INDENT, format_array
from onnxgrad.eager.record import BLOCK, number_node, plain_signatures, record, record_one, set_tensor_class, wrap
from onnxgrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    BadBackward,
    InPlaceOnLeaf,
    Mismatch,
    OutOfRange,
    ProviderError,
    UnsupportedGradient,
    WrongKind,
)
from onnxgrad.internal import state

__all__ = ["Shape", "Tensor", "full_like", "leaf"]

_NOTHING: dict[str, Any] = {}
_VALUE = Door("the", "the tensor")


class Shape(list):  # type: ignore[type-arg]
    """Dimensions as a list, as Paddle gives them, that also compares with and adds to tuples."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, tuple)) and list.__eq__(self, list(other)) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __add__(self, other: Any) -> Any:
        return [*self, *other]

    def __radd__(self, other: Any) -> Any:
        return type(other)([*other, *self])


class Tensor(Variable):
    """A tensor of the eager mode, with the functions and operators of a static Variable.

    Operators on it are recorded, and computed together by onnxruntime when a value is read: by ``numpy``, printing,
    ``bool``, ``float``, ``item`` or ``backward``. Make one with ``to_tensor``.

    Args:
        value: a number, nested lists, an array or a tensor; no elements unless given.
        dtype: element type; that of the value unless given.
        place: accepted for compatibility.
        stop_gradient: set False to compute gradients with respect to it.

    Example:
        >>> x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
        >>> (x * x).backward()
        >>> x.grad
        Tensor(shape=[2, 2], dtype=float32, place=Place(cpu), stop_gradient=False,
               [[2., 4.],
                [6., 8.]])
    """

    __slots__ = ("_node",)
    _node: TapeNode
    is_eager = True
    block = BLOCK
    op = None
    is_data = False
    declared = None
    doc = ""
    metadata = None
    place: Place = CPUPlace()

    def __init__(
        self,
        value: Given | Variable | None = None,
        dtype: DTypeLike | None = None,
        place: Place | None = None,
        stop_gradient: bool = True,
    ) -> None:
        self._node = _leaf_node(np.zeros(0, np.float32) if value is None else value, dtype)
        self._own()
        self._node.stop = bool(stop_gradient)

    def _own(self) -> None:
        self._node.handle = weakref.ref(self)

    # What a Variable has ---------------------------------------------------------------------------------------------

    @property
    def type(self) -> TensorType:  # type: ignore[override]
        return self._node.kind.type  # type: ignore[return-value]

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._node.kind.type.dtype  # type: ignore[union-attr]

    @property
    def dims(self) -> tuple[int, ...]:
        type = self._node.kind.type
        return type.dims if isinstance(type, TensorType) else None  # type: ignore[return-value]

    @property
    def shape(self) -> list[int]:  # type: ignore[override]
        """Dimensions as a list."""
        return Shape(self.dims)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(np.prod(self.dims, dtype=np.int64))

    @property
    def entries(self) -> Entries | None:  # type: ignore[override]
        return self._node.kind.entries

    @property
    def value(self) -> Array | None:  # type: ignore[override]
        array = self._node.kind.array
        return None if array is None else Array.of(array)

    @property
    def is_float(self) -> bool:
        return self._node.kind.is_float

    @property
    def name(self) -> str:
        """A name for messages and optimizer state, made when first asked for."""
        meta = self._meta()
        if not meta.name:
            meta.name = state.generate_name("generated_tensor")
        return meta.name

    @name.setter
    def name(self, new: str) -> None:
        self._meta().name = new

    @property
    def persistable(self) -> bool:
        meta = self._node.meta
        return meta is not None and meta.persistable

    @persistable.setter
    def persistable(self, persistable: bool) -> None:
        self._meta().persistable = bool(persistable)

    def _meta(self) -> Meta:
        meta = self._node.meta
        if meta is None:
            if self._node.kind.array is not None:
                self._replace(TapeNode(kind_of_array(self._node.kind.array), self._node.array, stop=self._node.stop))
            meta = self._node.meta = Meta()
        return meta

    def _replace(self, node: TapeNode) -> None:
        """Let this tensor stand for another value; what was recorded before keeps the old one."""
        if self._node.meta is None and not self._node.stop:
            self._node.meta = Meta()
        node.meta = self._node.meta
        self._node = node
        self._own()

    # Gradients -------------------------------------------------------------------------------------------------------

    @property
    def stop_gradient(self) -> bool:
        """Whether gradients stop here. The result of an operator stops them when all its operands do.

        Set False on a tensor that no gradient leads to, such as ``ones([3])`` or a cast array, it becomes a leaf, whose ``grad``
        backward passes fill: of its own type, for integers rounded towards zero.
        """
        return self._node.stop

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        if not isinstance(stop, (bool, np.bool_)):
            raise ArgumentTypeError(f"stop_gradient is True or False, not {type(stop).__name__}.")
        node = self._node
        if stop:
            if node.call is not None and not node.stop:
                self._meta().cut = True
            node.stop = True
        elif node.stop and node.call is not None and not (node.meta is not None and node.meta.cut):
            array = self._array()
            self._replace(TapeNode(kind_of_array(array), array, stop=False))
        elif node.kind.array is not None:
            self._replace(TapeNode(kind_of_array(node.kind.array), node.array, stop=False))
        else:
            node.stop = False

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed with respect to it: the opposite of ``stop_gradient``."""
        return not self.stop_gradient

    @requires_grad.setter
    def requires_grad(self, requires_grad: bool) -> None:
        self.stop_gradient = not requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether gradients are computed with respect to it.

        Args:
            requires_grad: True to compute them.

        Returns:
            The tensor.
        """
        self.stop_gradient = not requires_grad
        return self

    @property
    def data(self) -> Tensor:
        """The tensor itself; assign to it to set its value."""
        return self

    @data.setter
    def data(self, value: Tensor) -> None:
        self.set_value(value)

    @property
    def _stop(self) -> bool:  # type: ignore[override]
        return self._node.stop

    @property
    def cuts(self) -> bool:
        return self._node.stop

    @property
    def is_leaf(self) -> bool:
        """Whether it was not computed by operators that gradients flow through."""
        return self._node.call is None or self._node.stop

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have added up so far; None before the first."""
        meta = self._holder()
        return None if meta is None else meta.grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        if gradient is not None and not isinstance(gradient, Tensor):
            raise WrongKind(f"a gradient is a Tensor or None, not {type(gradient).__name__}.")
        if gradient is not None and gradient.dims != self.dims:
            raise ArgumentError(f"a gradient of shape {gradient.shape} does not fit a tensor of shape {self.shape}.")
        self._meta().grad, self._meta().earlier = gradient, None

    @property
    def grad_fn(self) -> GradNode | None:
        """What a gradient goes through first, with ``name()`` and ``next_functions``; None where gradients stop."""
        return None if self._node.stop else GradNode(self._node)

    def _holder(self) -> Meta | None:
        """The tape metadata that holds the gradient: of the present value, or of one that was changed in place."""
        meta = self._node.meta
        while meta is not None and meta.grad is None and meta.earlier is not None:
            meta = meta.earlier
        return meta

    def gradient(self) -> np.ndarray[Any, Any] | None:
        """The gradient as numpy, or None."""
        return None if self.grad is None else self.grad.numpy()

    def clear_gradient(self, set_to_zero: bool = True) -> None:
        """Fill the gradient with zeros, or with ``set_to_zero=False`` forget it.

        Args:
            set_to_zero: whether zeros remain, or None.
        """
        meta = self._holder()
        if meta is None or meta.grad is None:
            return
        if set_to_zero:
            meta.grad = full_like(meta.grad, 0, meta.grad.stop_gradient)
            meta.cleared = meta.grad._node
        else:
            meta.grad = None

    def clear_grad(self) -> None:
        """Fill the gradient with zeros."""
        self.clear_gradient()

    def backward(
        self,
        grad_tensor: Tensor | None = None,
        retain_graph: bool = False,
        dump_backward_graph_path: str | None = None,
    ) -> None:
        """Add the gradients of this tensor to ``.grad`` of the leaves behind it.

        Args:
            grad_tensor: what to multiply with, of this tensor's shape; ones by default.
            retain_graph: keep the recorded graph for another backward pass.
            dump_backward_graph_path: a folder that receives pictures of both graphs, as of ``autograd.backward``.
        """
        from onnxgrad.eager.tape import backward

        if grad_tensor is not None and not isinstance(grad_tensor, Tensor):
            raise BadBackward(f"backward: grad_tensor is a Tensor or None, not {type(grad_tensor).__name__}.")
        if dump_backward_graph_path is not None:
            from onnxgrad.eager.dump import dump

            dump([self], dump_backward_graph_path)
        backward([self], None if grad_tensor is None else [grad_tensor], retain_graph)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
        """Call ``hook`` with the gradient of this tensor in each backward pass; its result replaces the gradient.

        Args:
            hook: takes the gradient; gives another in its place, or None.

        Raises:
            HookOnStopped: if gradients stop at this tensor.
        """
        from onnxgrad.errors import HookOnStopped

        if self.stop_gradient:
            raise HookOnStopped("cannot hook a tensor whose stop_gradient is True. Set it False first.")
        if not callable(hook):
            raise ArgumentTypeError(f"a hook is a function of the gradient, not {type(hook).__name__}.")
        return HookHandle(self._meta().hooks, hook)

    def retain_grads(self) -> None:
        """Let backward passes store ``.grad`` here too, although this is not a leaf: as the hooks registered so far leave it."""
        meta = None if self.is_leaf else self._meta()
        if meta is not None and meta.retain is None:
            meta.retain = frozenset(meta.hooks)

    def detach(self) -> Tensor:
        """The same value, through which no gradient flows."""
        node = self._node
        if node.array is not None:
            return wrap(TapeNode(node.kind, node.array))
        detached = TapeNode(node.kind, None, node.call, node.index, depth=node.depth)
        if node.call is not None and node.call.others is not None:
            node.call.others.append(weakref.ref(detached))
        return wrap(detached)

    def detach_(self) -> Tensor:
        """Cut this tensor off from its inputs."""
        self._replace(self.detach()._node)
        return self

    def clone(self) -> Tensor:
        """A copy that gradients flow through."""
        return record("Identity", (self,), _NOTHING)

    def enter(self, program: Program) -> Variable:
        """Add this tensor to a static program: a parameter with its value, one for all uses, if it is persistable, as
        the parameters of layers are; else a constant.

        Args:
            program: where it is added.

        Raises:
            ArgumentTypeError: if it is not persistable, but trained.
        """
        return enter(self, program)

    # Reading ---------------------------------------------------------------------------------------------------------

    def _array(self) -> np.ndarray[Any, Any]:
        node = self._node
        if node.array is None:
            evaluate([node])
        return node.array  # type: ignore[return-value]

    def numpy(self, blocking: bool = True) -> np.ndarray[Any, Any]:
        """The elements, as an array of their own.

        Args:
            blocking: accepted for compatibility.
        """
        return np.array(self._array())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def item(self, *args: int) -> Any:
        """One element as a Python number: the only one, or the one at an index.

        Args:
            args: the index: one number into the flattened tensor, or one for each axis.
        """
        array = self._array()
        if not args and array.size != 1:
            raise Mismatch(f"item() needs a tensor of one element, or an index; this one has shape {self.shape}.")
        try:
            return array.item(*args)
        except IndexError as error:
            raise OutOfRange(f"item{args}: {error}.") from error

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self._array().tolist()

    def get_value(self, scope: Scope | None = None) -> np.ndarray[Any, Any]:
        return self.numpy()

    def numel(self, name: str | None = None) -> Tensor:
        """How many elements there are, as a tensor."""
        return leaf(np.array(self.size, np.int64))

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.numpy.itemsize)

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.is_float:
            raise ArgumentTypeError(f"a tensor of {self.dtype.name} cannot be an index. Use a tensor of integers.")
        return int(self.item())

    def __len__(self) -> int:
        if not self.dims:
            raise ArgumentTypeError("a tensor without axes has no length.")
        return int(self.dims[0])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(self._array() == (item._array() if isinstance(item, Tensor) else item)))

    def __repr__(self) -> str:
        text = format_array(self._array())
        described = f"shape={list(self.dims)}, dtype={self.dtype.name}, place={self.place!r}, stop_gradient={self.stop_gradient}"
        return f"Tensor({described},\n{INDENT}{text})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec or self.ndim == 0 else str(self)

    def __deepcopy__(self, memo: Any) -> Tensor:
        if not self.is_leaf:
            raise ArgumentError("only leaves can be copied deeply; use clone() or detach() on a computed tensor.")
        copy = type(self).__new__(type(self))
        copy._node = TapeNode(kind_of_array(self._array()), self.numpy(), stop=self.stop_gradient)
        copy._own()
        return copy

    def __reduce__(self) -> Any:
        return leaf, (self.numpy(), None, self.stop_gradient)

    __hash__ = object.__hash__

    # Operators -------------------------------------------------------------------------------------------------------

    def _binary(self, op_type: str, other: Any, swap: bool = False, force_float: bool = False) -> Any:
        node = self._node
        kind = node.kind
        if kind.is_float and state.current.autocast is not None:
            if other.__class__ is float and op_type != "Pow":  # A number takes the type that is cast to.
                return record(op_type, (other, self) if swap else (self, other), _NOTHING)
        elif kind.is_float:
            # Of one floating-point type nothing is promoted.
            operand: TapeNode | None = None
            if isinstance(other, Tensor):
                operand = other._node
            elif other.__class__ is float or other.__class__ is int:
                operand = number_node(other, kind)
            if operand is not None and operand.kind.type.dtype is kind.type.dtype:  # type: ignore[union-attr]
                signature = plain_signatures.get((op_type, operand.kind, kind) if swap else (op_type, kind, operand.kind))
                if signature is not None:
                    return record_one(signature, (operand, node) if swap else (node, operand))
        if isinstance(other, Variable) and not isinstance(other, Tensor):
            return NotImplemented
        return super()._binary(op_type, other, swap, force_float)

    def _unary(self, op_type: str, **attrs: Any) -> Any:
        signature = None if attrs else plain_signatures.get((op_type, self._node.kind))
        if signature is not None and state.current.autocast is None:
            return record_one(signature, (self._node,))
        result = record(op_type, (self,), attrs)
        if op_type == "Cast" and not self._node.stop and result._node.call is not None and state.current.gradients:
            result._node.stop = False  # What the user casts carries gradients, to integers too.
        return result

    # Changing --------------------------------------------------------------------------------------------------------

    def set_value(self, value: Given, scope: Scope | None = None) -> None:
        """Take another value of the same shape and element type.

        Args:
            value: an array, a number, nested lists or a tensor.
            scope: accepted for compatibility.

        Raises:
            ArgumentError: if the shape or element type differs.
            FeedError: if the element type does not hold a number that was given.
        """
        self.hold(self.fitting(value))

    def fitting(self, value: Given) -> np.ndarray[Any, Any]:
        """Convert a value for ``set_value`` to an array, with the same errors.

        Args:
            value: an array, a number, nested lists or a tensor.
        """
        array: np.ndarray[Any, Any] = value.numpy() if isinstance(value, Tensor) else as_array(value, self.name, _VALUE)
        if not isinstance(value, (Tensor, np.ndarray)):
            array = converted(array, self.dtype, self.name, _VALUE)
        if array.shape != self.dims or array.dtype != self.dtype.numpy:
            raise Mismatch(
                f"set_value: {array.dtype}{list(array.shape)} does not fit {self.dtype.name}{list(self.dims)}. "
                "Reshape or cast the value first."
            )
        return array

    def hold(self, array: np.ndarray[Any, Any]) -> None:
        """Take a value of any shape and element type.

        Args:
            array: of any shape and element type.
        """
        self._replace(TapeNode(kind_of_array(array), np.array(array, order="C"), stop=self.stop_gradient))

    def copy_(self, other: Tensor, blocking: bool = True) -> Tensor:
        """Take the value of another tensor.

        Args:
            other: of this tensor's shape and element type.
            blocking: accepted for compatibility.
        """
        self.set_value(other)
        return self

    def apply(self, func: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a Python function to the array of this tensor.

        Args:
            func: takes this tensor and gives another.

        Raises:
            UnsupportedGradient: if gradients are recorded for it.
        """
        if not self.stop_gradient:
            raise UnsupportedGradient(
                "apply: a function of Python has no gradient. Call the function on the tensor, or set stop_gradient."
            )
        return func(self)

    def apply_(self, func: Callable[[Tensor], Tensor]) -> Tensor:
        """Replace this tensor by the result of a Python function, as ``apply``.

        Args:
            func: takes this tensor and gives one of its shape.
        """
        return self.become(self.apply(func))

    def turn_into(self, result: Tensor) -> Tensor:
        """Become the result of an operator, of any shape and element type, as ``out=`` asks for.

        Args:
            result: the tensor.
        """
        self._node = result._node
        self._own()
        return self

    def become(self, result: Tensor, reshapes: bool = False) -> Tensor:
        """Turn into the result of an operator, in place; its shape may differ where the operator ``reshapes``.

        Args:
            result: the tensor.
            reshapes: whether it may have another shape.

        Raises:
            InPlaceOnLeaf: if this is a leaf that gradients are recorded for.
        """
        if self.is_leaf and not self.stop_gradient and state.current.gradients:
            raise InPlaceOnLeaf(
                "a leaf with stop_gradient=False cannot be changed in place. Use the function without the underscore, or no_grad()."
            )
        if result.dims != self.dims and not reshapes:
            raise ArgumentError(f"in place, the result of shape {result.shape} must have the tensor's shape {self.shape}.")
        if result.dtype != self.dtype:
            result = result.astype(self.dtype)
        if result.stop_gradient and not self.is_leaf and state.current.gradients:
            # Still a result of what it was computed from, with a gradient of zero.
            result = record("Where", (np.array(False), self, result), _NOTHING)
        if result.stop_gradient or not state.current.gradients:
            node = result.detach()._node
            node.stop = self.stop_gradient
            if self.is_leaf and not node.stop:
                evaluate([node])
                node.call = None
            self._replace(node)
        else:
            earlier, self._node = self._node.meta, result._node
            self._own()
            if earlier is not None:
                meta = self._node.meta = Meta()
                meta.name, meta.persistable, meta.earlier = earlier.name, earlier.persistable, earlier
        return self

    def __setitem__(self, item: Any, value: Any) -> None:
        """Replace some elements. Gradients flow to the kept elements and to the new ones."""
        item = _plain_index(item)
        taken = np.arange(self.size).reshape(self.dims)[item]
        source = value if isinstance(value, Tensor) else leaf(value, self.dtype)
        if source.dtype != self.dtype:
            source = source.astype(self.dtype)
        spread = record("Expand", (source, np.array(taken.shape, np.int64)), _NOTHING)
        flat = record("Reshape", (spread, np.array([-1])), _NOTHING)
        old = record("Reshape", (self, np.array([-1])), _NOTHING)
        new = record("ScatterElements", (old, leaf(np.array(taken.reshape(-1))), flat), {"axis": 0})
        self.become(record("Reshape", (new, np.array(self.dims, np.int64)), {"allowzero": 1}))

    # Devices ---------------------------------------------------------------------------------------------------------

    def cpu(self) -> Tensor:
        """This tensor, which is in main memory already."""
        return self

    def cuda(self, device_id: int | None = None, blocking: bool = True) -> Tensor:
        """Refused: eager tensors live in main memory.

        Args:
            device_id: of no effect.
            blocking: of no effect.

        Raises:
            ProviderError: always. Run a program with ``Executor(CUDAPlace(0))`` instead.
        """
        raise ProviderError("eager tensors live in main memory. Run a program with Executor(CUDAPlace(0)) instead.")

    def to(
        self,
        *args: DTypeLike | Place | Tensor | Literal["cpu"] | bool | None,
        **kwargs: DTypeLike | Place | Tensor | Literal["cpu"] | bool | None,
    ) -> Tensor:
        """This tensor in another element type; it is on the CPU always.

        Args:
            args, kwargs: a dtype, a tensor whose dtype is taken, and a place or ``"cpu"``, in any order or by name.

        Raises:
            ProviderError: for any other place.
        """
        result = self
        for item in [*args, *(value for name, value in kwargs.items() if name in ("device", "dtype", "other"))]:
            if item is None or isinstance(item, bool) or (isinstance(item, str) and item == "cpu") or isinstance(item, CPUPlace):
                continue
            if isinstance(item, Tensor):
                item = item.dtype
            if isinstance(item, CUDAPlace) or (isinstance(item, str) and item.startswith(("gpu", "cuda"))):
                return self.cuda()
            result = result.astype(item)  # type: ignore[arg-type]
        return result

    @property
    def device(self) -> Place:
        """Where its value is: ``place`` under torch's name."""
        return self.place

    def get_device(self) -> int:
        """-1: its value is in main memory."""
        return -1

    @property
    def is_cuda(self) -> bool:
        return False

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.element_size()

    def is_sparse(self) -> bool:
        return False

    def is_sparse_coo(self) -> bool:
        return False

    def is_sparse_csr(self) -> bool:
        return False

    def is_contiguous(self) -> bool:
        return True

    def contiguous(self) -> Tensor:
        return self

    def is_dense(self) -> bool:
        return True

    def is_dist(self) -> bool:
        return False


def _plain_index(item: Any) -> Any:
    if isinstance(item, Tensor):
        return item.numpy()
    if isinstance(item, tuple):
        return tuple(_plain_index(entry) for entry in item)
    return item


def _leaf_node(value: Any, dtype: Any) -> TapeNode:
    wanted = None if dtype is None else dtype_of(dtype).numpy
    if isinstance(value, Tensor):
        value = value._array()
    elif dtype is not None:
        value = converted(as_array(value, "value", _VALUE), dtype_of(dtype), "value", _VALUE)
    elif not isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        if wanted is None and value.dtype == np.float64:
            wanted = np.dtype(np.float32)
        elif wanted is None and value.dtype == np.complex128:
            wanted = np.dtype(np.complex64)
    array = np.array(value, wanted, order="C")
    return TapeNode(kind_of_array(array), array)


def leaf(value: Any, dtype: Any = None, stop_gradient: bool = True) -> Tensor:
    """A tensor that holds a copy of ``value``."""
    node = _leaf_node(value, dtype)
    node.stop = stop_gradient
    tensor: Tensor = wrap(node)
    return tensor


def full_like(like: Any, value: float, stop_gradient: bool = True) -> Tensor:
    """One number everywhere, in the shape and element type of a tensor, or of the type of one."""
    return leaf(np.full(like.dims, value, like.dtype.numpy), stop_gradient=stop_gradient)


set_tensor_class(Tensor)
