"""Eager operators in float16 where that is safe: operands are cast as an operator is recorded.

Tests: tests/amp/test_eager.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeVar, overload

from onnxgrad.autograd.modes import _Switch
from onnxgrad.core.passes.precision_lists import AutoMixedPrecisionLists, Level, LowDtype, low_dtype
from onnxgrad.dtypes import dtype_of
from onnxgrad.eager.record import record
from onnxgrad.eager.tensor import Tensor
from onnxgrad.errors import NotOffered
from onnxgrad.internal import state
from onnxgrad.internal.arguments import as_flag, as_kind, checked

__all__ = [
    "amp_guard", "auto_cast", "autocast", "decorate", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
    "is_autocast_enabled", "is_bfloat16_supported", "is_float16_supported",
]  # fmt: skip

Models = TypeVar("Models")
Optimizers = TypeVar("Optimizers")
_FLOAT16, _FLOAT32 = dtype_of("float16"), dtype_of("float32")


class auto_cast(_Switch):  # noqa: N801
    """Compute the operators of the white list in float16 inside a ``with`` block, or in each call of a decorated function.

    Operators of the black list compute in float32, all others in the widest type among their operands. Only eager tensors are
    concerned; programs have ``static.amp.decorate``. Weights stay in float32, and so do their gradients.

    Args:
        enable: False leaves all as it is.
        custom_white_list, custom_black_list: as in ``AutoMixedPrecisionLists``.
        level: ``'O1'`` by the lists, ``'O2'`` all but the black list in float16, ``'OD'`` the white list alone, ``'O0'`` nothing.
        dtype: ``'float16'``, or ``'bfloat16'``, which changes nothing: eager tensors are computed on the CPU, in float32 then.
        use_promote: at O2, operators with a float32 operand compute in float32.

    Raises:
        ArgumentTypeError: if ``enable`` or ``use_promote`` is of a wrong kind.
        ArgumentError: if a level or dtype makes no sense.

    Example:
        >>> x = paddle.ones([2, 2])
        >>> with paddle.amp.auto_cast():
        ...     y = paddle.matmul(x, x)
        ...     z = paddle.exp(y)
        >>> y.dtype, z.dtype
        (onnxgrad.float16, onnxgrad.float32)
    """

    def __init__(
        self,
        enable: bool = True,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        level: Level = "O1",
        dtype: LowDtype = "float16",
        use_promote: bool = True,
    ) -> None:
        self.enabled = as_flag(self, "enable", enable) and as_kind(self, "level", level, Level) != "O0"
        if low_dtype(dtype) == "bfloat16":
            self.enabled = False  # as in Paddle: the CPU computes float32 where bfloat16 is asked for
        self.level = level
        self.use_promote = as_flag(self, "use_promote", use_promote)
        self.lists = AutoMixedPrecisionLists(custom_white_list, custom_black_list)

    def __enter__(self) -> None:
        state.enter_guard(autocast=self.cast if self.enabled else None)

    def __exit__(self, *error: Any) -> None:
        state.leave_guard()

    def cast(self, op_type: str, args: Sequence[object], kwargs: dict[str, object]) -> tuple[Sequence[object], dict[str, object]]:
        """The arguments of an operator in the type that it is to compute in.

        Args:
            op_type: of ONNX.
            args: operands.
            kwargs: operands by name.
        """
        present = [item for item in (*args, *kwargs.values()) if isinstance(item, Tensor) and item._node.kind.is_float]
        wanted = self._type_of(op_type, {item.dtype for item in present})
        if wanted is None:
            return args, kwargs
        other = _FLOAT32 if wanted is _FLOAT16 else _FLOAT16

        def fitting(item: Any) -> Any:
            if not isinstance(item, Tensor) or not item._node.kind.is_float or item.dtype is not other:
                return item
            return record("Cast", (item,), {"to": wanted.number})

        return tuple([fitting(item) for item in args]), {name: fitting(item) for name, item in kwargs.items()}

    def _type_of(self, op_type: str, present: set[Any]) -> Any:
        """float16, float32, or None where nothing is to be cast"""
        if op_type in _TAKES_ANY or not present & {_FLOAT16, _FLOAT32} or dtype_of("float64") in present:
            return None
        if op_type in self.lists.white_list:
            return _FLOAT16
        if self.level == "OD" or op_type in (self.lists.unsupported_list if self.level == "O2" else self.lists.black_list):
            return _FLOAT32
        if self.level == "O2" and not (self.use_promote and _FLOAT32 in present) and op_type in _HALF:
            return _FLOAT16
        return _FLOAT32 if _FLOAT32 in present else None


_TAKES_ANY = ("Cast", "CastLike", "Identity", "Shape", "Size")
_HALF = AutoMixedPrecisionLists().gray_list | AutoMixedPrecisionLists().black_list
amp_guard = autocast = auto_cast


@checked
def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether operators are computed in float16 where that is safe.

    Args:
        device_type: accepted for compatibility.
    """
    return state.current.autocast is not None


@checked
def get_autocast_dtype(device_type: str | None = None) -> str:
    """The element type that ``auto_cast`` computes in.

    Args:
        device_type: accepted for compatibility.

    Example:
        >>> paddle.get_autocast_dtype()
        'float16'
    """
    return "float16"


get_autocast_cpu_dtype = get_autocast_gpu_dtype = get_autocast_dtype


@overload
def decorate(
    models: Models,
    optimizers: None = None,
    level: Literal["O1", "O2"] = "O1",
    dtype: LowDtype = "float16",
    master_weight: bool | None = None,
    save_dtype: None = None,
    master_grad: bool = False,
    excluded_layers: None = None,
) -> Models: ...


@overload
def decorate(
    models: Models,
    optimizers: Optimizers,
    level: Literal["O1", "O2"] = "O1",
    dtype: LowDtype = "float16",
    master_weight: bool | None = None,
    save_dtype: None = None,
    master_grad: bool = False,
    excluded_layers: None = None,
) -> tuple[Models, Optimizers]: ...


@checked
def decorate(
    models: Models,
    optimizers: Optimizers | None = None,
    level: Literal["O1", "O2"] = "O1",
    dtype: LowDtype = "float16",
    master_weight: bool | None = None,
    save_dtype: None = None,
    master_grad: bool = False,
    excluded_layers: None = None,
) -> Models | tuple[Models, Optimizers]:
    """Models and optimizers for training under ``auto_cast``: the same ones, since weights stay in float32 at every level.

    Args:
        models: a Layer or a list of them.
        optimizers: an optimizer, a list of them, or None.
        level: ``'O1'`` or ``'O2'``, of which ``auto_cast`` knows by itself.
        dtype: ``'float16'`` or ``'bfloat16'``.
        master_weight, master_grad: accepted; each weight is its own master weight.
        save_dtype, excluded_layers: not offered.

    Returns:
        The models, or (models, optimizers) if there are any.

    Raises:
        ArgumentError: if a level or dtype makes no sense.
        NotOffered: for the two arguments that say so.
    """
    as_kind("decorate", "level", level, Literal["O1", "O2"])
    low_dtype(dtype)
    if save_dtype is not None or excluded_layers is not None:
        raise NotOffered("weights are never cast, so there is no save_dtype and no excluded layer. Cast the state_dict instead.")
    return models if optimizers is None else (models, optimizers)


@checked
def is_float16_supported(device: str | None = None) -> bool:
    """Whether float16 computes; on the CPU it does, between Casts, and is not faster.

    Args:
        device: changes nothing: eager tensors are computed on the CPU.
    """
    return True


@checked
def is_bfloat16_supported(device: str | None = None) -> bool:
    """Whether eager tensors compute in bfloat16, which onnxruntime's CPU provider does not.

    Args:
        device: changes nothing: eager tensors are computed on the CPU.
    """
    return False
