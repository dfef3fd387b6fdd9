"""Tensor functions of paddle.*, one module per family. All of them append operators through one gate, ``LayerHelper``."""

from onnxgrad.reasons import REFUSED
from onnxgrad.refusals import refusals
from onnxgrad.tensor import (
    creation,
    elementwise,
    indexing,
    inplace,
    joining,
    linalg,
    logic,
    manipulation,
    math,
    methods,
    random,
    reduction,
    search,
    solvers,
    special,
    stat,
    types,
)
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
from onnxgrad.tensor.stat import *  # noqa: F403
from onnxgrad.tensor.types import *  # noqa: F403

__all__: list[str] = []
__all__ += creation.__all__
__all__ += elementwise.__all__
__all__ += indexing.__all__
__all__ += inplace.__all__
__all__ += joining.__all__
__all__ += linalg.__all__
__all__ += logic.__all__
__all__ += manipulation.__all__
__all__ += math.__all__
__all__ += random.__all__
__all__ += reduction.__all__
__all__ += search.__all__
__all__ += solvers.__all__
__all__ += special.__all__
__all__ += stat.__all__
__all__ += types.__all__

globals().update(refusals("paddle", REFUSED["paddle"]))
__all__ += [*REFUSED["paddle"]]
assert methods.METHODS
