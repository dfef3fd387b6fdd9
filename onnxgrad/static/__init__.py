"""Static graphs: building, differentiating and running programs."""

from onnxgrad.autodiff.api import append_backward, gradients
from onnxgrad.ir.defaults import default_main_program, default_startup_program, program_guard
from onnxgrad.ir.program import Program
from onnxgrad.ir.scope import Scope
from onnxgrad.ir.variable import Parameter, Variable
from onnxgrad.nn.param_attr import ParamAttr
from onnxgrad.runtime.executor import Executor
from onnxgrad.runtime.places import CPUPlace, CUDAPlace
from onnxgrad.static import nn
from onnxgrad.static.input import create_parameter, data
from onnxgrad.static.scope import global_scope, scope_guard
from onnxgrad.tensor.indexing import setitem

__all__ = [
    "CPUPlace",
    "CUDAPlace",
    "Executor",
    "ParamAttr",
    "Parameter",
    "Program",
    "Scope",
    "Variable",
    "append_backward",
    "create_parameter",
    "data",
    "default_main_program",
    "default_startup_program",
    "global_scope",
    "gradients",
    "nn",
    "program_guard",
    "scope_guard",
    "setitem",
]
