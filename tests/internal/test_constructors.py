"""Constructors have the arguments, in the order and with the defaults, that are written here: Paddle's, and what is our own."""

import inspect
import pickle
from functools import reduce

import pytest

import onnxgrad as paddle

SIGNATURES = """
optimizer.ASGD(learning_rate=0.001, batch_num=1, parameters=None, weight_decay=None, grad_clip=None, multi_precision=False, name=None)
optimizer.Adadelta(learning_rate=0.001, epsilon=1e-06, rho=0.95, parameters=None, weight_decay=None, grad_clip=None, name=None)
optimizer.Adagrad(learning_rate, epsilon=1e-06, parameters=None, weight_decay=None, grad_clip=None, name=None, initial_accumulator_value=0.0)
optimizer.Adam(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, parameters=None, weight_decay=None, grad_clip=None, lazy_mode=False, multi_precision=False, use_multi_tensor=False, amsgrad=False, name=None)
optimizer.AdamW(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, parameters=None, weight_decay=0.01, use_lowprecision_moment=False, lr_ratio=None, apply_decay_param_fun=None, grad_clip=None, lazy_mode=False, multi_precision=False, amsgrad=False, name=None)
optimizer.Adamax(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, parameters=None, weight_decay=None, grad_clip=None, name=None)
optimizer.LBFGS(learning_rate=1.0, max_iter=20, max_eval=None, tolerance_grad=1e-07, tolerance_change=1e-09, history_size=100, line_search_fn=None, parameters=None, weight_decay=None, grad_clip=None, name=None)
optimizer.Lamb(learning_rate=0.001, lamb_weight_decay=0.01, beta1=0.9, beta2=0.999, epsilon=1e-06, parameters=None, grad_clip=None, exclude_from_weight_decay_fn=None, multi_precision=False, always_adapt=False, name=None)
optimizer.Momentum(learning_rate=0.001, momentum=0.9, parameters=None, use_nesterov=False, weight_decay=None, grad_clip=None, multi_precision=False, rescale_grad=1.0, use_multi_tensor=False, name=None)
optimizer.NAdam(learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-08, momentum_decay=0.004, parameters=None, weight_decay=None, grad_clip=None, name=None)
optimizer.Optimizer(learning_rate=0.001, parameters=None, weight_decay=None, grad_clip=None, name=None)
optimizer.RAdam(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-08, parameters=None, weight_decay=None, grad_clip=None, name=None)
optimizer.RMSProp(learning_rate, rho=0.95, epsilon=1e-06, momentum=0.0, centered=False, parameters=None, weight_decay=None, grad_clip=None, name=None)
optimizer.Rprop(learning_rate=0.001, learning_rate_range=(1e-05, 50), parameters=None, etas=(0.5, 1.2), grad_clip=None, multi_precision=False, name=None)
optimizer.SGD(learning_rate=0.001, parameters=None, weight_decay=None, grad_clip=None, multi_precision=False, name=None)
optimizer.lr.CosineAnnealingDecay(learning_rate, T_max, eta_min=0.0, last_epoch=-1, verbose=False)
optimizer.lr.CosineAnnealingWarmRestarts(learning_rate, T_0, T_mult=1, eta_min=0.0, last_epoch=-1, verbose=False)
optimizer.lr.CyclicLR(base_learning_rate, max_learning_rate, step_size_up, step_size_down=None, mode='triangular', exp_gamma=1.0, scale_fn=None, scale_mode='cycle', last_epoch=-1, verbose=False)
optimizer.lr.ExponentialDecay(learning_rate, gamma, last_epoch=-1, verbose=False)
optimizer.lr.InverseTimeDecay(learning_rate, gamma, last_epoch=-1, verbose=False)
optimizer.lr.LRScheduler(learning_rate=0.1, last_epoch=-1, verbose=False)
optimizer.lr.LambdaDecay(learning_rate, lr_lambda, last_epoch=-1, verbose=False)
optimizer.lr.LinearLR(learning_rate, total_steps, start_factor=0.3333333333333333, end_factor=1.0, last_epoch=-1, verbose=False)
optimizer.lr.LinearWarmup(learning_rate, warmup_steps, start_lr, end_lr, last_epoch=-1, verbose=False)
optimizer.lr.MultiStepDecay(learning_rate, milestones, gamma=0.1, last_epoch=-1, verbose=False)
optimizer.lr.MultiplicativeDecay(learning_rate, lr_lambda, last_epoch=-1, verbose=False)
optimizer.lr.NaturalExpDecay(learning_rate, gamma, last_epoch=-1, verbose=False)
optimizer.lr.NoamDecay(d_model, warmup_steps, learning_rate=1.0, last_epoch=-1, verbose=False)
optimizer.lr.OneCycleLR(max_learning_rate, total_steps, divide_factor=25.0, end_learning_rate=0.0001, phase_pct=0.3, anneal_strategy='cos', three_phase=False, last_epoch=-1, verbose=False)
optimizer.lr.PiecewiseDecay(boundaries, values, last_epoch=-1, verbose=False)
optimizer.lr.PolynomialDecay(learning_rate, decay_steps, end_lr=0.0001, power=1.0, cycle=False, last_epoch=-1, verbose=False)
optimizer.lr.ReduceOnPlateau(learning_rate, mode='min', factor=0.1, patience=10, threshold=0.0001, threshold_mode='rel', cooldown=0, min_lr=0, epsilon=1e-08, verbose=False)
optimizer.lr.StepDecay(learning_rate, step_size, gamma=0.1, last_epoch=-1, verbose=False)
nn.initializer.Assign(value, name=None)
nn.initializer.Bilinear()
nn.initializer.Constant(value=0.0)
nn.initializer.Dirac(groups=1, name=None)
nn.initializer.Initializer()
nn.initializer.KaimingNormal(fan_in=None, negative_slope=0.0, nonlinearity='relu', mode='fan_in', name=None)
nn.initializer.KaimingUniform(fan_in=None, negative_slope=0.0, nonlinearity='relu', mode='fan_in', name=None)
nn.initializer.Normal(mean=0.0, std=1.0, name=None)
nn.initializer.Orthogonal(gain=1.0, name=None)
nn.initializer.TruncatedNormal(mean=0.0, std=1.0, a=-2.0, b=2.0, name=None)
nn.initializer.Uniform(low=-1.0, high=1.0, name=None)
nn.initializer.XavierNormal(fan_in=None, fan_out=None, gain=1.0, name=None)
nn.initializer.XavierUniform(fan_in=None, fan_out=None, gain=1.0, name=None)
amp.AmpScaler(enable=True, init_loss_scaling=65536.0, incr_ratio=2.0, decr_ratio=0.5, incr_every_n_steps=2000, decr_every_n_nan_or_inf=1, use_dynamic_loss_scaling=True)
amp.AutoMixedPrecisionLists(custom_white_list=None, custom_black_list=None, custom_black_varnames=None, dtype='float16')
amp.GradScaler(enable=True, init_loss_scaling=65536.0, incr_ratio=2.0, decr_ratio=0.5, incr_every_n_steps=2000, decr_every_n_nan_or_inf=1, use_dynamic_loss_scaling=True)
amp.amp_guard(enable=True, custom_white_list=None, custom_black_list=None, level='O1', dtype='float16', use_promote=True)
amp.auto_cast(enable=True, custom_white_list=None, custom_black_list=None, level='O1', dtype='float16', use_promote=True)
amp.autocast(enable=True, custom_white_list=None, custom_black_list=None, level='O1', dtype='float16', use_promote=True)
io.BatchSampler(dataset=None, sampler=None, shuffle=False, batch_size=1, drop_last=False)
io.ChainDataset(datasets)
io.ComposeDataset(datasets)
io.ConcatDataset(datasets)
io.DataLoader(dataset, feed_list=None, places=None, return_list=True, batch_sampler=None, batch_size=1, shuffle=False, drop_last=False, collate_fn=None, num_workers=0, use_buffer_reader=True, reader_buffer_size=2, prefetch_factor=2, use_shared_memory=True, timeout=0, worker_init_fn=None, persistent_workers=False)
io.Dataset()
io.DistributedBatchSampler(dataset, batch_size, num_replicas=None, rank=None, shuffle=False, drop_last=False)
io.IterableDataset()
io.RandomSampler(data_source, replacement=False, num_samples=None, generator=None)
io.Sampler(data_source=None)
io.SequenceSampler(data_source=None)
io.Subset(dataset, indices)
io.SubsetRandomSampler(indices)
io.TensorDataset(tensors)
io.WeightedRandomSampler(weights, num_samples, replacement=True)
metric.Accuracy(topk=(1,), name=None)
metric.Auc(curve='ROC', num_thresholds=4095, name='auc')
metric.Metric(name='')
metric.Precision(name='precision')
metric.Recall(name='recall')
static.BuildStrategy()
static.CPUPlace()
static.CUDAPlace(index=0, **options)
static.CompiledProgram(program_or_graph, build_strategy=None)
static.ExecutionStrategy()
static.Executor(place=None, threads=None, cache=None, shapes=4, precision='full', memory='auto')
static.ExponentialMovingAverage(decay=0.999, thres_steps=None, name=None)
static.InputSpec(shape, dtype='float32', name=None, stop_gradient=False)
static.OpenVINOPlace(precision='f32', device='CPU')
static.ParamAttr(name=None, initializer=None, learning_rate=1.0, regularizer=None, trainable=True, do_model_average=True, need_clip=True)
static.WeightNormParamAttr(dim=None, name=None, initializer=None, learning_rate=1.0, regularizer=None, trainable=True, do_model_average=False, need_clip=True)
regularizer.L1Decay(coeff=0.0)
regularizer.L2Decay(coeff=0.0)
regularizer.WeightDecay(coeff=0.0)
distributed.Strategy(bucket_megabytes=25.0, compress=None, top_k=0.01, batch_norm=None, sharding=0, overlap=None, pipeline=1, micro_batches=1, cuts=())
nn.ClipGradByNorm(clip_norm)
nn.ClipGradByValue(max, min=None)
nn.ClipGradByGlobalNorm(clip_norm, group_name='default_group', auto_skip_clip=False)
"""
LINES = SIGNATURES.strip().splitlines()


def signature(name):
    parameters = inspect.signature(reduce(getattr, name.split("."), paddle)).parameters.values()
    return f"({', '.join(str(p.replace(annotation=p.empty)) for p in parameters)})"


@pytest.mark.parametrize("line", LINES, ids=[line.partition("(")[0] for line in LINES])
def test_arguments_are_as_they_were(line):
    name, _, arguments = line.partition("(")
    assert signature(name) == f"({arguments}"


@pytest.mark.parametrize("line", LINES, ids=[line.partition("(")[0] for line in LINES])
def test_each_argument_has_a_type(line):
    made = reduce(getattr, line.partition("(")[0].split("."), paddle)
    assert [p.name for p in inspect.signature(made).parameters.values() if p.annotation is p.empty] == []


@pytest.mark.parametrize("line", LINES, ids=[line.partition("(")[0] for line in LINES])
def test_each_argument_is_in_the_docstring(line):
    made = reduce(getattr, line.partition("(")[0].split("."), paddle)
    text = inspect.getdoc(made)
    assert [name for name, p in inspect.signature(made).parameters.items() if p.kind != p.VAR_KEYWORD and name not in text] == []


@pytest.mark.parametrize(
    "made",
    [
        paddle.optimizer.lr.LinearWarmup(paddle.optimizer.lr.StepDecay(0.5, 3), 2, 0.0, 0.5),
        paddle.optimizer.lr.ReduceOnPlateau(0.5),
        paddle.nn.initializer.KaimingNormal(),
        paddle.ParamAttr(name="w", regularizer=paddle.regularizer.L2Decay(0.5)),
        paddle.nn.ClipGradByValue(1.0),
        paddle.amp.GradScaler(),
        paddle.distributed.Strategy(compress="bfloat16"),
        paddle.static.CUDAPlace(1, use_tf32=True),
    ],
    ids=lambda made: type(made).__name__,
)
def test_what_is_made_travels_between_processes(made):
    def attributes(value):
        return {key: attributes(item) if hasattr(item, "__dict__") else item for key, item in vars(value).items()}

    assert attributes(pickle.loads(pickle.dumps(made))) == attributes(made)
