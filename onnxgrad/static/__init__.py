"""Static graphs: building, differentiating, running, saving and measuring programs."""

from onnxgrad.core.autodiff.api import append_backward, gradients
from onnxgrad.core.ir.defaults import default_main_program, default_startup_program, program_guard
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.openvino import OpenVINOPlace
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace
from onnxgrad.core.state.scope import Scope
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.optimizer.average import ExponentialMovingAverage
from onnxgrad.static import amp, nn
from onnxgrad.static.input import InputSpec, create_global_var, create_parameter, data
from onnxgrad.static.io import (
    deserialize_persistables,
    deserialize_program,
    load,
    load_from_file,
    load_inference_model,
    load_program_state,
    normalize_program,
    prune_unread,
    save,
    save_inference_model,
    save_to_file,
    serialize_persistables,
    serialize_program,
    set_program_state,
)
from onnxgrad.static.metric import Print, accuracy, auc
from onnxgrad.static.scope import global_scope, scope_guard
from onnxgrad.static.strategy import (
    BuildStrategy,
    CompiledProgram,
    ExecutionStrategy,
    cpu_places,
    cuda_places,
    device_guard,
    name_scope,
)
from onnxgrad.tensor.indexing import setitem
from onnxgrad.tensor.param_attr import ParamAttr, WeightNormParamAttr

__all__ = [
    "BuildStrategy", "CPUPlace", "CUDAPlace", "CompiledProgram", "ExecutionStrategy", "Executor", "ExponentialMovingAverage",
    "InputSpec", "OpenVINOPlace", "ParamAttr", "Parameter", "Print", "Program", "Scope", "Variable", "WeightNormParamAttr",
    "accuracy", "amp", "append_backward", "auc", "cpu_places", "create_global_var", "create_parameter", "cuda_places", "data",
    "default_main_program", "default_startup_program", "deserialize_persistables", "deserialize_program", "device_guard",
    "global_scope", "gradients", "load", "load_from_file", "load_inference_model", "load_program_state", "name_scope", "nn",
    "normalize_program", "program_guard", "prune_unread", "save", "save_inference_model", "save_to_file", "scope_guard",
    "serialize_persistables", "serialize_program", "set_program_state", "setitem",
]  # fmt: skip


globals().update(absence_hooks(__name__))
