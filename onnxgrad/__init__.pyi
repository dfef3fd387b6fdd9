"""What ``onnxgrad`` offers. The package reads this file: a name is imported from its home when it is first asked for."""

from math import e as e, inf as inf, nan as nan, pi as pi

from numpy import newaxis as newaxis

from onnxgrad import (
    amp as amp,
    autograd as autograd,
    compat as compat,
    device as device,
    distributed as distributed,
    distribution as distribution,
    errors as errors,
    fft as fft,
    fluid as fluid,
    func as func,
    geometric as geometric,
    incubate as incubate,
    io as io,
    jit as jit,
    linalg as linalg,
    metric as metric,
    nn as nn,
    onnx as onnx,
    optimizer as optimizer,
    reader as reader,
    regularizer as regularizer,
    static as static,
    tensor as tensor,
    testing as testing,
    training as training,
    utils as utils,
)
from onnxgrad.amp import (
    get_autocast_cpu_dtype as get_autocast_cpu_dtype,
    get_autocast_dtype as get_autocast_dtype,
    get_autocast_gpu_dtype as get_autocast_gpu_dtype,
    is_autocast_enabled as is_autocast_enabled,
)
from onnxgrad.amp.device_autocast import autocast as autocast
from onnxgrad.autograd import (
    enable_grad as enable_grad,
    grad as grad,
    is_grad_enabled as is_grad_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from onnxgrad.core import rules as rules
from onnxgrad.core.autodiff.api import append_backward as append_backward, gradients as gradients
from onnxgrad.core.autodiff.explain import explain as explain
from onnxgrad.core.autodiff.transforms import (
    hessian as hessian,
    hvp as hvp,
    jacobian as jacobian,
    jvp as jvp,
    per_example_gradients as per_example_gradients,
    vjp as vjp,
)
from onnxgrad.core.interop.onnx_export import save_onnx as save_onnx, to_onnx as to_onnx
from onnxgrad.core.interop.onnx_import import explain_parameters as explain_parameters, from_onnx as from_onnx
from onnxgrad.core.ir.program import Program as Program
from onnxgrad.core.ir.variable import Parameter as Parameter, Variable as Variable
from onnxgrad.core.rules.registry import (
    expansion as expansion,
    gradient as gradient,
    stops_gradient as stops_gradient,
    unsupported as unsupported,
)
from onnxgrad.core.runtime.executor import Executor as Executor
from onnxgrad.core.runtime.openvino import OpenVINOPlace as OpenVINOPlace
from onnxgrad.core.runtime.places import (
    CPUPlace as CPUPlace,
    CUDAPlace as CUDAPlace,
    get_device as get_device,
    is_compiled_with_cuda as is_compiled_with_cuda,
    set_device as set_device,
)
from onnxgrad.core.state.scope import Scope as Scope
from onnxgrad.core.step.export import save_training_step as save_training_step, to_training_step as to_training_step
from onnxgrad.core.step.split import (
    save_split_training_step as save_split_training_step,
    to_split_training_step as to_split_training_step,
)
from onnxgrad.core.step.training_info import from_training_info as from_training_info, to_training_info as to_training_info
from onnxgrad.distributed.parallel import DataParallel as DataParallel
from onnxgrad.dtypes import (
    DType as DType,
    bfloat16 as bfloat16,
    bool as bool,
    double as double,
    dtype as dtype,
    float as float,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint32 as uint32,
    uint64 as uint64,
)
from onnxgrad.eager.creation import (
    as_tensor as as_tensor,
    asarray as asarray,
    from_numpy as from_numpy,
    is_tensor as is_tensor,
    to_tensor as to_tensor,
)
from onnxgrad.eager.tensor import Tensor as Tensor
from onnxgrad.func import value_and_grad as value_and_grad
from onnxgrad.hapi import Model as Model
from onnxgrad.internal import state as state
from onnxgrad.internal.saving import load as load, save as save
from onnxgrad.internal.state import (
    disable_static as disable_static,
    enable_static as enable_static,
    in_dynamic_mode as in_dynamic_mode,
    manual_seed as manual_seed,
    seed as seed,
    straight_through as straight_through,
)
from onnxgrad.nn.functional import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    group_norm as group_norm,
    layer_norm as layer_norm,
)
from onnxgrad.nn.summary import flops as flops, summary as summary
from onnxgrad.reader import batch as batch
from onnxgrad.tensor import *  # noqa: F403
from onnxgrad.tensor.param_attr import ParamAttr as ParamAttr
from onnxgrad.tensor.parameter import create_parameter as create_parameter

__version__: str
