"""Values of a program: Variable, and Parameter for those that training changes.

Tests: tests/core/ir/test_variables.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from onnxgrad.core.ir.arithmetic import Arithmetic
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.ir.types import Dims, Entries, TensorType, Type, shown_type
from onnxgrad.dtypes import DType
from onnxgrad.errors import ArgumentTypeError, NotInitialized, ProgramError

if TYPE_CHECKING:
    from onnxgrad.core.ir.block import Block
    from onnxgrad.core.ir.operator import Operator
    from onnxgrad.core.ir.tensor_methods import TensorMethods
    from onnxgrad.core.state.inputs import Given
    from onnxgrad.core.state.scope import Scope
else:

    class TensorMethods:
        """The functions of tensors as methods, which ``onnxgrad.tensor.methods`` sets."""

        __slots__ = ()


__all__ = ["LEARNING_RATE", "Parameter", "Variable", "present_value", "set_values"]

LEARNING_RATE = "learning rate"  # the ``doc`` of a variable that holds one: a training step says which input it is


class Variable(Arithmetic, TensorMethods):
    """One value of a program: an input, a constant, a weight, or the output of an operator.

    ``op`` is the operator that computes it, or None. ``value`` is the array of a constant, and the initial value of a
    parameter. ``entries`` says what is known of the elements of a small integer tensor. ``default`` is what a graph input has in a
    run that does not feed it; nothing may be concluded from it.

    Args:
        block: where it is.
        name: one that no other variable of the program has.
        type: its element type and shape, where they are known.
        op: the operator that computes it, or None.
    """

    __slots__ = (
        "__weakref__",
        "_name",
        "_persistable",
        "_stop",
        "block",
        "declared",
        "default",
        "doc",
        "entries",
        "is_data",
        "metadata",
        "op",
        "type",
        "value",
    )
    is_eager = False

    def __init__(self, block: Block, name: str, type: Type | None = None, op: Operator | None = None) -> None:
        self.block = block
        self._name = name
        self.type = type
        self.op = op
        self.value: TensorValue | None = None
        self.default: TensorValue | None = None
        self.entries: Entries | None = None
        self._stop: bool | None = None
        self._persistable = False
        self.is_data = False
        self.declared: Any = None
        self.doc = ""
        self.metadata: dict[str, str] | None = None

    def blank_copy(self, block: Block, name: str) -> Variable:
        """A variable like this one in a block, under another name, which no operator computes yet.

        This is the one list of what every copier keeps.

        Args:
            block: of the other program.
        """
        copy = Variable.__new__(Variable)  # each field is set once
        copy.block, copy._name, copy.type, copy.op = block, name, self.type, None
        self._give_to(copy)
        return copy

    def _give_to(self, copy: Variable) -> None:
        copy.value, copy.entries, copy._stop, copy._persistable = self.value, self.entries, self._stop, self._persistable
        copy.is_data, copy.declared, copy.doc, copy.metadata = self.is_data, self.declared, self.doc, self.metadata
        copy.default = self.default

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, new: str) -> None:
        if new == self._name:
            return
        if self.block.vars.get(self._name) is self:
            self.block.rename(self, new)
        self._name = new

    @property
    def dtype(self) -> DType:
        """Element type.

        Raises:
            ProgramError: if it is unknown, or the value is not a tensor.
        """
        if isinstance(self.type, TensorType):
            return self.type.dtype
        raise ProgramError(f"{self.name} has no known element type. Declare it in the model's value_info.")

    @property
    def dims(self) -> Dims | None:
        """Dimensions as numbers, symbols or None; None when the rank is unknown."""
        return self.type.dims if isinstance(self.type, TensorType) else None

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions with -1 for each that is not known.

        Raises:
            ProgramError: if the rank is unknown.
        """
        dims = self.dims
        if dims is None:
            raise ProgramError(f"the rank of {self.name} is not known. Use .dims to test for that.")
        return tuple(dim if isinstance(dim, int) else -1 for dim in dims)

    @property
    def persistable(self) -> bool:
        """Whether the value lives in the scope between runs. Setting it on a computed or fed variable has no effect: any value can
        be fetched without it.
        """
        return self._persistable

    @persistable.setter
    def persistable(self, persistable: bool) -> None:
        if self.value is not None or (self.op is None and not self.is_data):
            self._persistable = bool(persistable)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape when every dimension is a number, else None."""
        dims = self.dims
        if dims is None:
            return None
        for dim in dims:
            if not isinstance(dim, int):
                return None
        return tuple(dims)  # type: ignore[arg-type]

    @property
    def rank(self) -> int | None:
        dims = self.dims
        return None if dims is None else len(dims)

    @property
    def is_float(self) -> bool:
        return isinstance(self.type, TensorType) and self.type.dtype.is_float

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    def dim(self) -> int:
        return self.ndim

    ndimension = dim

    @property
    def lod_level(self) -> int:
        return 0

    @property
    def is_parameter(self) -> bool:
        return isinstance(self, Parameter)

    @property
    def is_leaf(self) -> bool:
        """Whether no operator computes it."""
        return self.op is None or self.value is not None

    @property
    def grad_name(self) -> str:
        return f"{self.name}@GRAD"

    @property
    def stop_gradient(self) -> bool:
        """Whether gradients stop here.

        A leaf carries the flag; an inner variable has it when it was set, or when every leaf behind it has it.
        """
        if self._stop is not None or self.is_leaf:
            return self._stop is not False
        seen: set[Variable] = set()
        stack: list[Variable] = [self]
        while stack:
            variable = stack.pop()
            if variable in seen:
                continue
            seen.add(variable)
            if variable._stop:
                continue
            if variable.is_leaf:
                if variable._stop is False:
                    return False
            elif variable.op is not None:
                stack.extend(v for v in variable.op.operands() if v is not None)
        return True

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self._stop = bool(stop)
        self.block.program.version += 1

    @property
    def cuts(self) -> bool:
        """Whether the flag was set here, so that a path through this variable ends."""
        return self._stop is True

    def get_value(self, scope: Scope | None = None) -> np.ndarray[Any, Any]:
        """The value in a scope (default: the one the program uses) as a numpy array of its own.

        Args:
            scope: where it is looked up.

        Raises:
            NotInitialized: if neither the scope nor the program holds one.
        """
        scope = scope or self.block.program.active_scope()
        held = scope.get(self.name)
        return np.array(present_value(scope, self)) if held is None else held

    def set_value(self, value: Given, scope: Scope | None = None) -> None:
        """Set the value in a scope; the shape and dtype must be the variable's.

        Args:
            value: of the variable's shape; numbers that its element type holds.
            scope: where it is set; the one the program uses unless given.
        """
        (scope or self.block.program.active_scope()).set(self.name, value, like=self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        """The variable of this name in a copy of its program."""
        deepcopy(self.block.program, memo)
        copy: Variable | None = memo.get(id(self))
        if copy is None:
            raise ArgumentTypeError(f"{self.name} is not copied by itself. Copy its program: Program.clone().")
        return copy

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(f"{self.name} belongs to a program, and is not pickled. Keep its name and Program.state_dict().")

    def __repr__(self) -> str:
        if self.type is None:
            described = "unknown type"
        elif isinstance(self.type, TensorType):
            shown = cast(TensorType, shown_type(self.type))
            dims = "..." if shown.dims is None else ", ".join("?" if d is None else str(d) for d in shown.dims)
            described = f"{shown.dtype.name}[{dims}]"
        else:
            described = type(self.type).__name__.removesuffix("Type").lower()
        return f"{type(self).__name__}({self.name}: {described})"

    # `==` appends an operator, but sets and dicts of variables never call it: they look at the identity first, and at `==` only
    # where whole hashes are equal, which the addresses of two live objects are not.
    __hash__ = object.__hash__


def set_values(values: Iterable[tuple[Variable, object]], scope: Scope | None = None) -> None:
    """Set several variables at once, after all of them are checked: where one is refused, none is set.

    Args:
        scope: where; None for that of each variable's program.

    Raises:
        ArgumentError: if a value does not have its variable's shape.
    """
    chosen: dict[Any, list[tuple[str, Any, Any]]] = {}
    for v, value in values:
        chosen.setdefault(scope or v.block.program.active_scope(), []).append((v.name, value, v))
    for where, entries in chosen.items():
        where.set_all(entries)


def present_value(scope: Scope, v: Variable) -> np.ndarray[Any, Any]:
    """The value of a state variable: what the scope holds, or its initial value.

    Raises:
        NotInitialized: if there is neither.
    """
    array = scope.get(v.name)
    if array is None and v.value is not None:
        array = v.value.numpy()
    if array is None:
        raise NotInitialized(f"{v.name} has no value. Run the startup program first: exe.run(default_startup_program()).")
    return np.asarray(array)


class Parameter(Variable):
    """A weight. ``trainable`` and ``stop_gradient`` decide together whether it receives a gradient by default.

    Args:
        block: where it is.
        name: one that no other variable of the program has.
        type: its element type and shape.
        trainable: whether it receives a gradient by default.
    """

    __slots__ = ("do_model_average", "need_clip", "optimize_attr", "reason", "regularizer", "trainable")

    def __init__(self, block: Block, name: str, type: Type | None, trainable: bool = True) -> None:
        super().__init__(block, name, type)
        self.persistable = True
        self.trainable = trainable
        self._stop = not trainable
        self.optimize_attr: dict[str, Any] = {"learning_rate": 1.0}
        self.regularizer: Any = None
        self.need_clip = True
        self.do_model_average = True
        self.reason = ""

    def blank_copy(self, block: Block, name: str) -> Parameter:
        copy = Parameter(block, name, self.type, self.trainable)
        self._give_to(copy)
        copy.optimize_attr = dict(self.optimize_attr)
        copy.regularizer, copy.need_clip, copy.reason = self.regularizer, self.need_clip, self.reason
        copy.do_model_average = self.do_model_average
        return copy
