"""fluid.layers: the functions of Paddle 1, with their old argument names."""

from onnxgrad.fluid.layers.control import *  # noqa: F403
from onnxgrad.fluid.layers.control import __all__ as _control
from onnxgrad.fluid.layers.inputs import *  # noqa: F403
from onnxgrad.fluid.layers.inputs import __all__ as _inputs
from onnxgrad.fluid.layers.math import *  # noqa: F403
from onnxgrad.fluid.layers.math import __all__ as _math
from onnxgrad.fluid.layers.nn import *  # noqa: F403
from onnxgrad.fluid.layers.nn import __all__ as _nn
from onnxgrad.fluid.layers.rates import *  # noqa: F403
from onnxgrad.fluid.layers.rates import __all__ as _rates
from onnxgrad.fluid.layers.reshaping import *  # noqa: F403
from onnxgrad.fluid.layers.reshaping import __all__ as _reshaping

__all__ = [*_control, *_inputs, *_math, *_nn, *_rates, *_reshaping]
