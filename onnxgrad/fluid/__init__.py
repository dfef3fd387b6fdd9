"""paddle.fluid, the interface of Paddle 1: static programs under their old names."""

from onnxgrad.core.autodiff.api import gradients
from onnxgrad.core.ir.defaults import default_main_program, default_startup_program, program_guard
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.variable import Parameter, Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.runtime.places import CPUPlace, CUDAPlace, cuda_is_available as is_compiled_with_cuda
from onnxgrad.core.state.scope import Scope
from onnxgrad.fluid import backward, clip, core, initializer, io, layers, nets, optimizer, regularizer
from onnxgrad.fluid.feeder import DataFeeder
from onnxgrad.fluid.layers import one_hot
from onnxgrad.internal.refusals import absence_hooks
from onnxgrad.static.input import data
from onnxgrad.static.io import load, save
from onnxgrad.static.nn import embedding
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
from onnxgrad.tensor.param_attr import ParamAttr, WeightNormParamAttr
from onnxgrad.utils import unique_name

__all__ = [
    "BuildStrategy", "CPUPlace", "CUDAPlace", "CompiledProgram", "DataFeeder", "ExecutionStrategy", "Executor", "ParamAttr",
    "Parameter", "Program", "Scope", "Variable", "WeightNormParamAttr", "backward", "clip", "core", "cpu_places",
    "cuda_places", "data", "default_main_program", "default_startup_program", "device_guard", "embedding", "global_scope",
    "gradients", "initializer", "io", "is_compiled_with_cuda", "layers", "load", "name_scope", "nets", "one_hot", "optimizer",
    "program_guard", "regularizer", "save", "scope_guard", "unique_name",
]  # fmt: skip


globals().update(absence_hooks(__name__))
