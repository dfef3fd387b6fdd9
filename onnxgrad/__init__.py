"""onnxgrad: training for every ONNX model.

Take a forward program, built here or loaded from an .onnx file, append its backward pass and an optimizer as standard ONNX
operators, and run it with stock onnxruntime.
"""

import builtins

from onnxgrad import (
    amp,
    autograd,
    compat,
    errors,
    fft,
    fluid,
    func,
    incubate,
    linalg,
    nn,
    optimizer,
    regularizer,
    rules,
    state,
    static,
    tensor,
    utils,
)
from onnxgrad.autodiff.api import append_backward, gradients
from onnxgrad.autodiff.explain import explain
from onnxgrad.autodiff.registry import expansion, gradient, stops_gradient, unsupported
from onnxgrad.autodiff.training_operators import expand_training_operators as _fills_a_table  # noqa: F401
from onnxgrad.autodiff.transforms import hessian, hvp, jacobian, jvp, per_example_gradients, vjp
from onnxgrad.autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from onnxgrad.dtypes import DType, dtype_of
from onnxgrad.eager.creation import is_tensor, to_tensor
from onnxgrad.eager.tensor import Tensor
from onnxgrad.func import value_and_grad
from onnxgrad.interop.onnx_export import save_onnx, to_onnx
from onnxgrad.interop.onnx_import import explain_parameters, from_onnx
from onnxgrad.interop.split_step import save_split_training_step, to_split_training_step
from onnxgrad.interop.training_info import from_training_info, to_training_info
from onnxgrad.interop.training_step import save_training_step, to_training_step
from onnxgrad.ir.program import Program
from onnxgrad.ir.scope import Scope
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.nn.param_attr import ParamAttr
from onnxgrad.nn.parameter import create_parameter
from onnxgrad.runtime.executor import Executor
from onnxgrad.runtime.places import CPUPlace, CUDAPlace
from onnxgrad.runtime.places import cuda_is_available as is_compiled_with_cuda
from onnxgrad.state import straight_through
from onnxgrad.tensor import *  # noqa: F403
from onnxgrad.tensor import __all__ as _tensor_functions

__version__ = "0.1.0"

__all__ = [
    "CPUPlace",
    "CUDAPlace",
    "Executor",
    "ParamAttr",
    "Parameter",
    "Program",
    "Scope",
    "Tensor",
    "Variable",
    "amp",
    "append_backward",
    "autograd",
    "bfloat16",
    "bool",
    "compat",
    "create_parameter",
    "disable_static",
    "dtype",
    "enable_grad",
    "enable_static",
    "errors",
    "expansion",
    "explain",
    "explain_parameters",
    "fft",
    "float16",
    "float32",
    "float64",
    "fluid",
    "from_onnx",
    "from_training_info",
    "func",
    "grad",
    "gradient",
    "gradients",
    "hessian",
    "hvp",
    "in_dynamic_mode",
    "incubate",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_compiled_with_cuda",
    "is_grad_enabled",
    "is_tensor",
    "jacobian",
    "jvp",
    "linalg",
    "nn",
    "no_grad",
    "optimizer",
    "per_example_gradients",
    "regularizer",
    "rules",
    "save_onnx",
    "save_split_training_step",
    "save_training_step",
    "seed",
    "set_grad_enabled",
    "state",
    "static",
    "stops_gradient",
    "straight_through",
    "tensor",
    "to_onnx",
    "to_split_training_step",
    "to_tensor",
    "to_training_info",
    "to_training_step",
    "uint8",
    "unsupported",
    "utils",
    "value_and_grad",
    "vjp",
]
__all__ += _tensor_functions

dtype = DType
float16, float32, float64, bfloat16 = (dtype_of(name) for name in ("float16", "float32", "float64", "bfloat16"))
int8, int16, int32, int64, uint8 = (dtype_of(name) for name in ("int8", "int16", "int32", "int64", "uint8"))
bool = dtype_of("bool")


def enable_static() -> None:
    """Let functions without tensor arguments build static programs. The static API itself never needs it."""
    state.current.static_mode = True


def disable_static() -> None:
    """Let functions without tensor arguments compute eagerly, which is how it starts."""
    state.current.static_mode = False


def in_dynamic_mode() -> builtins.bool:
    """Whether ``enable_static`` is not in force."""
    return not state.current.static_mode


def seed(value: int) -> None:
    """Make the initial values of parameters, and the random numbers of eager functions, reproducible from now on."""
    state.current.seed = int(value)
    state.current.generator = None
