"""Static graphs: building, differentiating, running, saving and measuring programs."""

from typing import TYPE_CHECKING

from onnxgrad.core.autodiff.api import append_backward, gradients
from onnxgrad.core.ir.defaults import default_main_program, default_startup_program, program_guard
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.openvino import OpenVINOPlace
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace
from onnxgrad.core.state.scope import Scope
from onnxgrad.internal.refusals import says_why_absent
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.static import amp, nn
from onnxgrad.static.input import InputSpec, create_global_var, create_parameter, data
from onnxgrad.static.io import *  # noqa: F403
from onnxgrad.static.io import __all__ as _io
from onnxgrad.static.metric import Print, accuracy, auc, ctr_metric_bundle
from onnxgrad.static.nn.refused import py_func
from onnxgrad.static.scope import global_scope, scope_guard
from onnxgrad.static.strategy import *  # noqa: F403
from onnxgrad.static.strategy import __all__ as _strategy
from onnxgrad.tensor.indexing import setitem
from onnxgrad.tensor.param_attr import ParamAttr, WeightNormParamAttr

__all__ = [
    "CPUPlace", "CUDAPlace", "Executor", "ExponentialMovingAverage", "InputSpec", "OpenVINOPlace", "ParamAttr", "Parameter",
    "Print", "Program", "Scope", "Variable", "WeightNormParamAttr", "accuracy", "amp", "append_backward", "auc",
    "create_global_var", "create_parameter", "ctr_metric_bundle", "data", "default_main_program", "default_startup_program",
    "global_scope", "gradients", "nn", "program_guard", "py_func", "scope_guard", "setitem",
]  # fmt: skip
__all__ += [*_io, *_strategy]

if not TYPE_CHECKING:  # which would take every name for one
    __getattr__ = says_why_absent(__name__)
