"""Tensor functions of paddle.*, one module per family. All of them append operators through one gate, ``LayerHelper``."""

from onnxgrad.internal.refusals import REFUSED, refusals
from onnxgrad.tensor import types
from onnxgrad.tensor.creation import *  # noqa: F403
from onnxgrad.tensor.elementwise import *  # noqa: F403
from onnxgrad.tensor.indexing import *  # noqa: F403
from onnxgrad.tensor.inplace import *  # noqa: F403
from onnxgrad.tensor.joining import *  # noqa: F403
from onnxgrad.tensor.linalg import *  # noqa: F403
from onnxgrad.tensor.logic import *  # noqa: F403
from onnxgrad.tensor.manipulation import *  # noqa: F403
from onnxgrad.tensor.math import *  # noqa: F403
from onnxgrad.tensor.methods import MODULES
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
_functions = [name for module in (*MODULES, types) for name in module.__all__ if name not in _METHODS_ONLY]
globals().update(refusals("paddle", REFUSED["paddle"]), __all__=[*_functions, *REFUSED["paddle"]])


def __dir__() -> list[str]:
    return list(globals()["__all__"])
