"""The public names of Paddle's API, by namespace: those that Paddle 3.3.1 lists, and those of earlier releases and of modules.

``names.json`` is written by ``scripts/record_paddle`` where Paddle is installed, with the kind and the signature of each name.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["NAMES", "RECORD"]

RECORD: dict[str, dict[str, dict[str, str]]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))["names"]
"""Kind and signature of each name of Paddle 3.3.1, by namespace."""

_PADDLE = """
acosh_ add_ amp asin_ asinh_ atanh_ autograd ceil_ cholesky clip_ cosh_ erfinv_ exp_ fft floor_ fluid get_device
is_compiled_with_cuda lerp_ linalg log1p_ logical_xor_ nn norm not_equal_ optimizer put_along_axis_ reciprocal_ regularizer
round_ rsqrt_ scale_ set_device sqrt_ static tensor utils version
"""

_PROGRAM = """
all_parameters block blocks clone current_block global_block list_vars num_blocks parse_from_string random_seed set_state_dict
state_dict to_string
"""

_VARIABLE = """
astype block clone detach dim dtype get_value grad_name is_parameter lod_level name ndim ndimension op persistable set_value shape
size stop_gradient T to_string type
"""

_FLUID = """
backward BuildStrategy clip CompiledProgram core cpu_places CPUPlace create_lod_tensor cuda_pinned_places cuda_places CUDAPlace
data DataFeeder default_main_program default_startup_program device_guard dygraph embedding ExecutionStrategy Executor
global_scope gradients initializer io is_compiled_with_cuda layers load LoDTensor memory_optimize metrics name_scope nets one_hot
optimizer ParallelExecutor ParamAttr Program program_guard regularizer release_memory require_version save Scope scope_guard
unique_name Variable WeightNormParamAttr
"""

_FLUID_LAYERS = """
abs accuracy acos argmax argmin argsort array_length array_read array_write asin assign atan auc batch_norm
bilinear_tensor_product case cast ceil clip concat cond conv2d conv2d_transpose conv3d conv3d_transpose cos cosine_decay
create_array create_global_var create_parameter crf_decoding cross_entropy data data_norm dropout dynamic_gru dynamic_lstm
DynamicRNN edit_distance elementwise_add elementwise_div elementwise_floordiv elementwise_max elementwise_min elementwise_mod
elementwise_mul elementwise_pow elementwise_sub elu embedding equal exp expand expand_as exponential_decay eye fc fill_constant
flatten floor gather gather_nd gelu greater_equal greater_than group_norm hard_sigmoid hard_swish IfElse image_resize increment
instance_norm inverse_time_decay l2_normalize label_smooth layer_norm leaky_relu less_equal less_than linear_chain_crf
linear_lr_warmup linspace log log_softmax logical_and logical_not logical_or logical_xor lrn matmul maxout mean mse_loss mul
natural_exp_decay nce noam_decay not_equal one_hot ones ones_like pad pad2d piecewise_decay polynomial_decay pool2d pow prelu
Print py_func range rank reciprocal reduce_all reduce_any reduce_max reduce_mean reduce_min reduce_prod reduce_sum relu relu6
reshape resize_bilinear resize_nearest reverse round row_conv rsqrt scale scatter selu sequence_conv sequence_expand
sequence_first_step sequence_last_step sequence_pool sequence_softmax shape shuffle_channel sigmoid
sigmoid_cross_entropy_with_logits sign sin size slice smooth_l1 softmax softmax_with_cross_entropy softplus softsign
spectral_norm split sqrt square square_error_cost squeeze stack StaticRNN strided_slice sum sums swish Switch switch_case tanh
topk transpose unsqueeze unstack where While while_loop zeros zeros_like
"""

_FLUID_OPTIMIZER = """
Adadelta AdadeltaOptimizer Adagrad AdagradOptimizer Adam Adamax AdamaxOptimizer AdamOptimizer DecayedAdagrad
DecayedAdagradOptimizer DGCMomentumOptimizer Dpsgd DpsgdOptimizer ExponentialMovingAverage Ftrl FtrlOptimizer LambOptimizer
LarsMomentum LarsMomentumOptimizer LookaheadOptimizer ModelAverage Momentum MomentumOptimizer PipelineOptimizer
RecomputeOptimizer RMSPropOptimizer SGD SGDOptimizer
"""

_EARLIER: dict[str, list[str]] = {
    namespace: text.split()
    for namespace, text in {
        "paddle": _PADDLE,
        "paddle.static": "amp ExecutionStrategy nn quantization setitem",
        "paddle.static.nn": "data_norm",
        "paddle.amp": "autocast debugging",
        "paddle.static.amp": (
            "AutoMixedPrecisionLists bf16 cast_model_to_fp16 cast_parameters_to_fp16 CustomOpLists debugging decorate fp16_guard"
        ),
        "paddle.nn": "functional initializer",
        "paddle.nn.functional": "diag_embed flash_attention",
        "paddle.nn.initializer": "Initializer",
        "paddle.optimizer": "lr",
        "paddle.static.Program": _PROGRAM,
        "paddle.static.Variable": _VARIABLE,
        "paddle.static.amp.bf16": (
            "AutoMixedPrecisionListsBF16 bf16_guard cast_model_to_bf16 cast_parameters_to_bf16 convert_float_to_uint16 "
            "decorate_bf16 rewrite_program_bf16"
        ),
        "paddle.utils.unique_name": "generate guard switch",
        "paddle.fluid": _FLUID,
        "paddle.fluid.layers": _FLUID_LAYERS,
        "paddle.fluid.backward": "append_backward gradients",
        "paddle.fluid.optimizer": _FLUID_OPTIMIZER,
        "paddle.fluid.regularizer": "L1Decay L1DecayRegularizer L2Decay L2DecayRegularizer",
        "paddle.fluid.clip": "ErrorClipByValue GradientClipByGlobalNorm GradientClipByNorm GradientClipByValue set_gradient_clip",
        "paddle.fluid.initializer": (
            "Bilinear BilinearInitializer Constant ConstantInitializer MSRA MSRAInitializer Normal NormalInitializer "
            "NumpyArrayInitializer set_global_initializer TruncatedNormal TruncatedNormalInitializer Uniform "
            "UniformInitializer Xavier XavierInitializer"
        ),
        "paddle.fluid.io": (
            "load load_inference_model load_params load_persistables load_program_state load_vars save save_inference_model "
            "save_params save_persistables save_vars set_program_state"
        ),
        "paddle.fluid.nets": "glu img_conv_group scaled_dot_product_attention sequence_conv_pool simple_img_conv_pool",
    }.items()
}
"""Names of 2.x and 1.x that 3.3.1 does not list, and modules that it has without listing them."""

NAMES: dict[str, list[str]] = {
    namespace: sorted({*RECORD.get(namespace, ()), *_EARLIER.get(namespace, ())}, key=lambda name: (name.lower(), name))
    for namespace in dict.fromkeys([*RECORD, *_EARLIER])
}
