"""onnxgrad: training for every ONNX model.

Take a forward program, built here or loaded from an .onnx file, append its backward pass and an optimizer as standard ONNX
operators, and run it with stock onnxruntime.
"""

import builtins

from onnxgrad import compat, errors, fluid, nn, optimizer, regularizer, rules, state, static, tensor, utils
from onnxgrad.autodiff.api import append_backward, gradients
from onnxgrad.autodiff.registry import expansion, gradient, stops_gradient, unsupported
from onnxgrad.dtypes import dtype_of
from onnxgrad.interop.onnx_export import save_onnx, to_onnx, to_training_step
from onnxgrad.interop.onnx_import import explain_parameters, from_onnx
from onnxgrad.ir.program import Program
from onnxgrad.ir.scope import Scope
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.nn.param_attr import ParamAttr
from onnxgrad.runtime.executor import Executor
from onnxgrad.runtime.places import CPUPlace, CUDAPlace
from onnxgrad.runtime.places import cuda_is_available as is_compiled_with_cuda
from onnxgrad.static.input import create_parameter
from onnxgrad.tensor.manipulation import (
    concat,
    expand,
    flatten,
    full,
    reshape,
    split,
    squeeze,
    stack,
    transpose,
    unsqueeze,
)
from onnxgrad.tensor.math import (
    abs,
    add,
    add_n,
    cast,
    clip,
    divide,
    exp,
    log,
    matmul,
    max,
    maximum,
    mean,
    min,
    minimum,
    multiply,
    pow,
    scale,
    sqrt,
    square,
    subtract,
    sum,
    tanh,
)

__version__ = "0.1.0"

__all__ = [
    "CPUPlace",
    "CUDAPlace",
    "Executor",
    "ParamAttr",
    "Parameter",
    "Program",
    "Scope",
    "Variable",
    "abs",
    "add",
    "add_n",
    "append_backward",
    "bfloat16",
    "bool",
    "cast",
    "clip",
    "compat",
    "concat",
    "create_parameter",
    "disable_static",
    "divide",
    "enable_static",
    "errors",
    "exp",
    "expand",
    "expansion",
    "explain_parameters",
    "flatten",
    "float16",
    "float32",
    "float64",
    "fluid",
    "from_onnx",
    "full",
    "gradient",
    "gradients",
    "in_dynamic_mode",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_compiled_with_cuda",
    "log",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "nn",
    "optimizer",
    "pow",
    "regularizer",
    "reshape",
    "rules",
    "save_onnx",
    "scale",
    "seed",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "state",
    "static",
    "stops_gradient",
    "subtract",
    "sum",
    "tanh",
    "tensor",
    "to_onnx",
    "to_training_step",
    "transpose",
    "uint8",
    "unsqueeze",
    "unsupported",
    "utils",
]

float16, float32, float64, bfloat16 = (dtype_of(name) for name in ("float16", "float32", "float64", "bfloat16"))
int8, int16, int32, int64, uint8 = (dtype_of(name) for name in ("int8", "int16", "int32", "int64", "uint8"))
bool = dtype_of("bool")


def enable_static() -> None:
    """Let functions without tensor arguments build static programs. The static API itself never needs it."""
    state.current.static_mode = True


def disable_static() -> None:
    """Leave the static mode."""
    state.current.static_mode = False


def in_dynamic_mode() -> builtins.bool:
    """Whether ``enable_static`` is not in force."""
    return not state.current.static_mode


def seed(value: int) -> None:
    """Make the initial values of all parameters made from now on reproducible."""
    state.current.seed = int(value)
