"""Tensor functions of paddle.*, one module per family. All of them append operators through one gate, ``LayerHelper``.

A family is imported when the first of its functions is used: all of them take three times as long as those of a usual program.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnxgrad.internal.refusals import REFUSED, refusals
from onnxgrad.tensor.homes import HOMES
from onnxgrad.tensor.methods import function_of

if TYPE_CHECKING:  # editors follow these from the stub to a function's source
    from onnxgrad.tensor.creation import *  # noqa: F403
    from onnxgrad.tensor.elementwise import *  # noqa: F403
    from onnxgrad.tensor.indexing import *  # noqa: F403
    from onnxgrad.tensor.inplace import *  # noqa: F403
    from onnxgrad.tensor.joining import *  # noqa: F403
    from onnxgrad.tensor.linalg import *  # noqa: F403
    from onnxgrad.tensor.logic import *  # noqa: F403
    from onnxgrad.tensor.manipulation import *  # noqa: F403
    from onnxgrad.tensor.math import *  # noqa: F403
    from onnxgrad.tensor.random import *  # noqa: F403
    from onnxgrad.tensor.reduction import *  # noqa: F403
    from onnxgrad.tensor.search import *  # noqa: F403
    from onnxgrad.tensor.solvers import *  # noqa: F403
    from onnxgrad.tensor.special import *  # noqa: F403
    from onnxgrad.tensor.spellings import *  # noqa: F403
    from onnxgrad.tensor.stat import *  # noqa: F403
    from onnxgrad.tensor.types import *  # noqa: F403

_METHODS_ONLY = ("new_empty", "new_full", "new_ones", "new_zeros", "repeat", "split_with_sizes", "type_as")
# Not by assignment: a type checker would take a list that is computed for an empty one.
_functions = [name for names in HOMES.values() for name in names if name not in _METHODS_ONLY]
globals().update(refusals("paddle", REFUSED["paddle"]), __all__=[*_functions, *REFUSED["paddle"]])


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return import_module(f"onnxgrad.tensor.{name}")
    function = function_of(name)
    if function is None:
        raise AttributeError(f"module 'onnxgrad.tensor' has no attribute {name!r}", name=name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return list(globals()["__all__"])
