"""The public names of Paddle's documented API (2.6 to 3.x, and 1.x for fluid), by namespace."""

from __future__ import annotations

__all__ = ["NAMES"]

_PADDLE = """
abs abs_ acos acos_ acosh acosh_ add add_ add_n addmm addmm_ all allclose amax amin amp angle any arange argmax argmin argsort
as_complex as_real as_strided asin asin_ asinh asinh_ assign atan atan2 atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d
batch bernoulli bernoulli_ bfloat16 bincount binomial bitwise_and bitwise_and_ bitwise_invert bitwise_invert_
bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift
bitwise_right_shift_ bitwise_xor bitwise_xor_ block_diag bmm bool broadcast_shape broadcast_tensors broadcast_to bucketize cast
cast_ cauchy_ cdist ceil ceil_ cholesky chunk clip clip_ clone column_stack combinations complex complex128 complex64 concat
conj copysign copysign_ cos cos_ cosh cosh_ count_nonzero CPUPlace create_parameter cross crop CUDAPinnedPlace CUDAPlace
cummax cummin cumprod cumprod_ cumsum cumsum_ cumulative_trapezoid DataParallel deg2rad diag diag_embed diagflat diagonal
diagonal_scatter diff digamma digamma_ disable_signal_handler disable_static dist divide divide_ dot dsplit dstack dtype einsum
empty empty_like enable_grad enable_static equal equal_ equal_all erf erf_ erfinv erfinv_ exp exp_ expand expand_as expm1
expm1_ eye finfo flatten flatten_ flip float16 float32 float64 float8_e4m3fn float8_e5m2 floor floor_ floor_divide
floor_divide_ floor_mod floor_mod_ flops fmax fmin frac frac_ frexp from_dlpack full full_like gammainc gammainc_ gammaincc
gammaincc_ gammaln gammaln_ gather gather_nd gcd gcd_ geometric_ get_cuda_rng_state get_default_dtype get_device get_flags
get_rng_state grad greater_equal greater_equal_ greater_than greater_than_ heaviside histogram histogram_bin_edges histogramdd
hsplit hstack hypot hypot_ i0 i0_ i0e i1 i1e iinfo imag in_dynamic_mode increment index_add index_add_ index_fill index_fill_
index_put index_put_ index_sample index_select inner int16 int32 int64 int8 is_complex is_empty is_floating_point is_grad_enabled
is_integer is_tensor isclose isfinite isin isinf isnan isneginf isposinf isreal kron kthvalue LazyGuard lcm lcm_ ldexp ldexp_
lerp lerp_ less less_ less_equal less_equal_ less_than less_than_ lgamma lgamma_ linspace load log log10 log10_ log1p log1p_
log2 log2_ log_ log_normal log_normal_ logaddexp logcumsumexp logical_and logical_and_ logical_not logical_not_ logical_or
logical_or_ logical_xor logical_xor_ logit logit_ logspace logsumexp masked_fill masked_fill_ masked_scatter masked_scatter_
masked_select matmul matrix_transpose max maximum mean median meshgrid min minimum mm mod mod_ mode Model moveaxis multigammaln
multigammaln_ multinomial multiplex multiply multiply_ mv nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum neg neg_
negative nextafter no_grad nonzero norm normal normal_ not_equal not_equal_ numel ones ones_like outer ParamAttr pdist
permute poisson polar polygamma polygamma_ positive pow pow_ prod put_along_axis put_along_axis_ quantile rad2deg rand randint
randint_like randn randperm rank ravel real reciprocal reciprocal_ reduce_as remainder remainder_ renorm renorm_
repeat_interleave reshape reshape_ reverse roll rot90 round round_ row_stack rsqrt rsqrt_ save scale scale_ scatter scatter_
scatter_nd scatter_nd_add searchsorted seed select_scatter set_cuda_rng_state set_default_dtype set_device set_flags
set_grad_enabled set_printoptions set_rng_state sgn shape shard_index sign signbit sin sin_ sinc sinc_ sinh sinh_ slice
slice_scatter sort split sqrt sqrt_ square square_ squeeze squeeze_ stack standard_gamma standard_normal stanh std strided_slice
subtract subtract_ sum summary t t_ take take_along_axis tan tan_ tanh tanh_ tensor tensor_split tensordot Tensor tile to_dlpack
to_tensor tolist topk trace transpose transpose_ trapezoid tril tril_ tril_indices triu triu_ triu_indices trunc trunc_ uint8
unbind unflatten unfold uniform unique unique_consecutive unsqueeze unsqueeze_ unstack vander var vecdot version view view_as
vsplit vstack where where_ zeros zeros_like is_compiled_with_cuda static nn optimizer regularizer autograd linalg fft fluid utils
"""

_TENSOR = """
abs acos add add_n addmm all allclose amax amin any argmax argmin argsort asin astype atan atanh backward bmm broadcast_to cast
ceil cholesky chunk clear_grad clear_gradient clip clone concat conj cos cosh cpu cross cuda cumprod cumsum detach diag diagonal
diff digamma dim dist divide dot dtype element_size equal equal_all erf erfinv exp expand expand_as expm1 exponential_ fill_
fill_diagonal_ flatten flip floor floor_divide floor_mod fmax fmin frac gather gather_nd get_tensor grad gradient greater_equal
greater_than histogram increment index_add index_sample index_select inner inplace_version inverse is_leaf is_tensor isclose
isfinite isinf isnan item kron kthvalue less_equal less_than lerp lgamma log log10 log1p log2 logical_and logical_not logical_or
logical_xor logit logsumexp masked_fill masked_select matmul max maximum mean median min minimum mm mod mode moveaxis multiplex
multiply mv name nan_to_num nansum ndim ndimension neg nonzero norm not_equal numel numpy outer persistable pin_memory place pow
prod put_along_axis quantile rank reciprocal register_hook remainder repeat_interleave reshape reshape_ retain_grads reverse roll
rot90 round rsqrt scale scatter scatter_nd_add set_value shape shard_index sign sin sinh size slice sort split sqrt square
squeeze stack std stanh stop_gradient strided_slice subtract sum T t take_along_axis tan tanh tile to tolist topk trace transpose
tril triu trunc type unbind uniform_ unique unsqueeze unstack value var where zero_
"""

_STATIC = """
accuracy append_backward auc BuildStrategy CompiledProgram cpu_places create_global_var create_parameter ctr_metric_bundle
cuda_places data default_main_program default_startup_program deserialize_persistables deserialize_program device_guard
ExecutionStrategy Executor ExponentialMovingAverage global_scope gradients InputSpec ipu_shard_guard IpuCompiledProgram
IpuStrategy load load_from_file load_inference_model load_program_state name_scope normalize_program Print Program program_guard
py_func save save_inference_model save_to_file scope_guard serialize_persistables serialize_program set_ipu_shard
set_program_state setitem Variable WeightNormParamAttr xpu_places nn amp quantization
"""

_STATIC_NN = """
batch_norm bilinear_tensor_product case cond conv2d conv2d_transpose conv3d conv3d_transpose data_norm deform_conv2d embedding fc
group_norm instance_norm layer_norm nce prelu py_func row_conv sequence_conv sequence_expand sequence_first_step
sequence_last_step sequence_pool sequence_softmax sparse_embedding spectral_norm static_pylayer switch_case while_loop
"""

_PROGRAM = """
all_parameters block blocks clone current_block global_block list_vars num_blocks parse_from_string random_seed set_state_dict
state_dict to_string
"""

_VARIABLE = """
astype block clone detach dim dtype get_value grad_name is_parameter lod_level name ndim ndimension op persistable set_value shape
size stop_gradient T to_string type
"""

_FUNCTIONAL = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_log_softmax_with_loss adaptive_max_pool1d
adaptive_max_pool2d adaptive_max_pool3d affine_grid alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear
binary_cross_entropy binary_cross_entropy_with_logits celu channel_shuffle class_center_sample conv1d conv1d_transpose conv2d
conv2d_transpose conv3d conv3d_transpose cosine_embedding_loss cosine_similarity cross_entropy ctc_loss diag_embed dice_loss
dropout dropout2d dropout3d elu elu_ embedding feature_alpha_dropout flash_attention flash_attn_qkvpacked fold
fractional_max_pool2d fractional_max_pool3d gather_tree gaussian_nll_loss gelu glu grid_sample gumbel_softmax hardshrink
hardsigmoid hardswish hardtanh hardtanh_ hinge_embedding_loss hsigmoid_loss instance_norm interpolate kl_div l1_loss label_smooth
layer_norm leaky_relu leaky_relu_ linear local_response_norm log_loss log_sigmoid log_softmax lp_pool1d lp_pool2d
margin_cross_entropy margin_ranking_loss max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d maxout mish
mse_loss multi_label_soft_margin_loss multi_margin_loss nll_loss normalize npair_loss one_hot pad pairwise_distance pixel_shuffle
pixel_unshuffle poisson_nll_loss prelu relu relu6 relu_ rnnt_loss rrelu scaled_dot_product_attention selu sequence_mask sigmoid
sigmoid_focal_loss silu smooth_l1_loss soft_margin_loss softmax softmax_ softmax_with_cross_entropy softplus softshrink softsign
sparse_attention square_error_cost swish tanh tanh_ tanhshrink temporal_shift thresholded_relu thresholded_relu_
triplet_margin_loss triplet_margin_with_distance_loss unfold upsample zeropad2d
"""

_NN = """
AdaptiveAvgPool1D AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1D AdaptiveMaxPool2D
AdaptiveMaxPool3D AlphaDropout AvgPool1D AvgPool2D AvgPool3D BatchNorm BatchNorm1D BatchNorm2D BatchNorm3D BCELoss
BCEWithLogitsLoss BeamSearchDecoder Bilinear BiRNN CELU ChannelShuffle ClipGradByGlobalNorm ClipGradByNorm ClipGradByValue Conv1D
Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose CosineEmbeddingLoss CosineSimilarity CrossEntropyLoss CTCLoss
Dropout Dropout2D Dropout3D dynamic_decode ELU Embedding FeatureAlphaDropout Flatten Fold FractionalMaxPool2D FractionalMaxPool3D
functional GaussianNLLLoss GELU GLU GroupNorm GRU GRUCell Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss
HSigmoidLoss Identity initializer InstanceNorm1D InstanceNorm2D InstanceNorm3D KLDivLoss L1Loss Layer LayerDict LayerList
LayerNorm LeakyReLU Linear LocalResponseNorm LogSigmoid LogSoftmax LPPool1D LPPool2D LSTM LSTMCell MarginRankingLoss MaxPool1D
MaxPool2D MaxPool3D Maxout MaxUnPool1D MaxUnPool2D MaxUnPool3D Mish MSELoss MultiHeadAttention MultiLabelSoftMarginLoss
MultiMarginLoss NLLLoss Pad1D Pad2D Pad3D PairwiseDistance ParameterDict ParameterList PixelShuffle PixelUnshuffle PoissonNLLLoss
PReLU ReLU ReLU6 RNN RNNCellBase RNNTLoss RReLU SELU Sequential Sigmoid Silu SimpleRNN SimpleRNNCell SmoothL1Loss SoftMarginLoss
Softmax Softmax2D Softplus Softshrink Softsign SpectralNorm Swish SyncBatchNorm Tanh Tanhshrink ThresholdedReLU Transformer
TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss
TripletMarginWithDistanceLoss Unflatten Unfold Upsample UpsamplingBilinear2D UpsamplingNearest2D ZeroPad1D ZeroPad2D ZeroPad3D
"""

_INITIALIZER = """
Assign Bilinear calculate_gain Constant Dirac Initializer KaimingNormal KaimingUniform Normal Orthogonal set_global_initializer
TruncatedNormal Uniform XavierNormal XavierUniform
"""

_OPTIMIZER = """
Adadelta Adagrad Adam Adamax AdamW ASGD Lamb LBFGS lr Momentum NAdam Optimizer RAdam RMSProp Rprop SGD
"""

_LR = """
CosineAnnealingDecay CosineAnnealingWarmRestarts CyclicLR ExponentialDecay InverseTimeDecay LambdaDecay LinearLR LinearWarmup
LRScheduler MultiplicativeDecay MultiStepDecay NaturalExpDecay NoamDecay OneCycleLR PiecewiseDecay PolynomialDecay
ReduceOnPlateau StepDecay
"""

_AUTOGRAD = "backward hessian jacobian PyLayer PyLayerContext saved_tensors_hooks"
_INCUBATE_AUTOGRAD = "vjp jvp Jacobian Hessian"

_LINALG = """
cholesky cholesky_inverse cholesky_solve cond corrcoef cov cross det diagonal eig eigh eigvals eigvalsh householder_product inv
lstsq lu lu_solve lu_unpack matmul matrix_exp matrix_norm matrix_power matrix_rank matrix_transpose multi_dot norm ormqr pca_lowrank
pinv qr slogdet solve svd svd_lowrank svdvals triangular_solve vecdot vector_norm
"""

_FFT = """
fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2
rfftfreq rfftn
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

NAMES: dict[str, list[str]] = {
    namespace: sorted(text.split(), key=str.lower)
    for namespace, text in {
        "paddle": _PADDLE,
        "paddle.Tensor": _TENSOR,
        "paddle.static": _STATIC,
        "paddle.static.Program": _PROGRAM,
        "paddle.static.Variable": _VARIABLE,
        "paddle.static.nn": _STATIC_NN,
        "paddle.amp": "auto_cast autocast debugging decorate GradScaler is_bfloat16_supported is_float16_supported",
        "paddle.static.amp": (
            "AutoMixedPrecisionLists bf16 cast_model_to_fp16 cast_parameters_to_fp16 CustomOpLists debugging decorate fp16_guard"
        ),
        "paddle.static.amp.bf16": (
            "AutoMixedPrecisionListsBF16 bf16_guard cast_model_to_bf16 cast_parameters_to_bf16 convert_float_to_uint16 "
            "decorate_bf16 rewrite_program_bf16"
        ),
        "paddle.nn": _NN,
        "paddle.nn.functional": _FUNCTIONAL,
        "paddle.nn.initializer": _INITIALIZER,
        "paddle.regularizer": "L1Decay L2Decay",
        "paddle.optimizer": _OPTIMIZER,
        "paddle.optimizer.lr": _LR,
        "paddle.autograd": _AUTOGRAD,
        "paddle.incubate.autograd": _INCUBATE_AUTOGRAD,
        "paddle.linalg": _LINALG,
        "paddle.fft": _FFT,
        "paddle.utils.unique_name": "generate guard switch",
        "paddle.fluid": _FLUID,
        "paddle.fluid.layers": _FLUID_LAYERS,
        "paddle.fluid.backward": "append_backward gradients",
        "paddle.fluid.optimizer": _FLUID_OPTIMIZER,
        "paddle.fluid.regularizer": "L1Decay L1DecayRegularizer L2Decay L2DecayRegularizer",
        "paddle.fluid.clip": ("ErrorClipByValue GradientClipByGlobalNorm GradientClipByNorm GradientClipByValue set_gradient_clip"),
        "paddle.fluid.initializer": (
            "Bilinear BilinearInitializer Constant ConstantInitializer MSRA MSRAInitializer Normal NormalInitializer "
            "NumpyArrayInitializer set_global_initializer TruncatedNormal TruncatedNormalInitializer Uniform UniformInitializer "
            "Xavier XavierInitializer"
        ),
        "paddle.fluid.io": (
            "load load_inference_model load_params load_persistables load_program_state load_vars save save_inference_model "
            "save_params save_persistables save_vars set_program_state"
        ),
        "paddle.fluid.nets": "glu img_conv_group scaled_dot_product_attention sequence_conv_pool simple_img_conv_pool",
    }.items()
}
