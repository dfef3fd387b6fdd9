"""Arguments of a wrong kind are refused where they are passed, with the class's name, the argument's, and what it takes."""

import inspect
import re

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import distributed, static
from onnxgrad.errors import ArgumentError, ArgumentTypeError
from onnxgrad.internal import refusals
from onnxgrad.internal.arguments import as_flag, as_int, as_number, as_numbers, as_text, as_word, checked, parameter_names
from onnxgrad.optimizer import lr

optimizer, initializer, metric, amp = paddle.optimizer, paddle.nn.initializer, paddle.metric, paddle.amp


def w():
    return paddle.to_tensor([1.0], stop_gradient=False)


WRONG = [
    (lambda: optimizer.Adam("0.1"), "Adam: learning_rate is a number or an LRScheduler, not str"),
    (lambda: optimizer.Adam(0.1, beta1="0.9"), "Adam: beta1 is a number, not str"),
    (lambda: optimizer.Adam(0.1, epsilon=[1e-8]), "Adam: epsilon is a number, not list"),
    (lambda: optimizer.Adam(0.1, lazy_mode="no"), "Adam: lazy_mode is True or False, not str"),
    (lambda: optimizer.Adam(0.1, grad_clip=1.0), "Adam: grad_clip is a ClipGradBy... object, not float"),
    (lambda: optimizer.Adam(0.1, weight_decay="l2"), "Adam: weight_decay is a number, an L1Decay or an L2Decay, not str"),
    (lambda: optimizer.Adam(0.1, parameters=w()), "Adam: parameters is a list of Variables, names or groups, not Tensor"),
    (lambda: optimizer.Adam(0.1, parameters="w"), "Adam: parameters is a list of Variables, names or groups, not str"),
    (lambda: optimizer.Adam(0.1, parameters=3), "Adam: parameters is a list of Variables, names or groups, not int"),
    (lambda: optimizer.Adam(0.1, parameters=[3]), "Adam: parameters is a list of Variables or names, not int"),
    (lambda: optimizer.Adam(0.1, parameters=[{"params": 3}]), "Adam: params of a group is a list of Variables or names, not int"),
    (lambda: optimizer.Adam(0.1, parameters=[{"params": [w()], "beta1": "0.9"}]), "Adam: beta1 of a group is a number, not str"),
    (lambda: optimizer.Adam(0.1, parameters=[{"params": [w()], "amsgrad": "x"}]), "Adam: amsgrad of a group is True or False, not str"),
    (lambda: optimizer.ASGD(0.1, parameters=[{"params": [w()], "batch_num": 1.5}]), "ASGD: batch_num of a group is an int, not float"),
    (lambda: optimizer.Adam(0.1, parameters=[{"params": [w()], "learning_rate": "2"}]), "Adam: learning_rate of a group is a number"),
    (lambda: optimizer.Adam(0.1, parameters=[{"params": [w()], "grad_clip": 2}]), "Adam: grad_clip is a ClipGradBy... object, not int"),
    (lambda: optimizer.Adam(0.1, name=3), "Adam: name is a str, not int"),
    (lambda: optimizer.AdamW(0.1, apply_decay_param_fun=True), "AdamW: apply_decay_param_fun is a function, not bool"),
    (lambda: optimizer.AdamW(0.1, lr_ratio=0.5), "AdamW: lr_ratio is a function, not float"),
    (lambda: optimizer.Momentum(0.1, use_nesterov="yes"), "Momentum: use_nesterov is True or False, not str"),
    (lambda: optimizer.Momentum(0.1, momentum="0.9"), "Momentum: momentum is a number, not str"),
    (lambda: optimizer.ASGD(0.1, batch_num=2.5), "ASGD: batch_num is an int, not float"),
    (lambda: optimizer.Rprop(0.1, etas=0.5), "Rprop: etas is a list of numbers, not float"),
    (lambda: optimizer.Rprop(0.1, learning_rate_range="12"), "Rprop: learning_rate_range is a list of numbers, not str"),
    (lambda: optimizer.RMSProp(0.1, centered="c"), "RMSProp: centered is True or False, not str"),
    (lambda: optimizer.Lamb(0.1, exclude_from_weight_decay_fn=["b"]), "Lamb: exclude_from_weight_decay_fn is a function, not list"),
    (lambda: optimizer.LBFGS(max_iter="5"), "LBFGS: max_iter is an int, not str"),
    (lambda: lr.NoamDecay("64", 10), "NoamDecay: d_model is a number, not str"),
    (lambda: lr.PiecewiseDecay(3, [0.1]), "PiecewiseDecay: boundaries is a list of numbers, not int"),
    (lambda: lr.PiecewiseDecay([3], [0.1, "0.2"]), "PiecewiseDecay: an element of values is a number, not str"),
    (lambda: lr.NaturalExpDecay(0.1, "0.1"), "NaturalExpDecay: gamma is a number, not str"),
    (lambda: lr.InverseTimeDecay(0.1, None), "InverseTimeDecay: gamma is a number, not None"),
    (lambda: lr.PolynomialDecay(0.1, "9"), "PolynomialDecay: decay_steps is a number, not str"),
    (lambda: lr.PolynomialDecay(0.1, 9, cycle="no"), "PolynomialDecay: cycle is True or False, not str"),
    (lambda: lr.LinearWarmup("0.1", 5, 0.0, 0.1), "LinearWarmup: learning_rate is a number or an LRScheduler, not str"),
    (lambda: lr.LinearWarmup(0.1, "5", 0.0, 0.1), "LinearWarmup: warmup_steps is a number, not str"),
    (lambda: lr.ExponentialDecay(0.1, "0.9"), "ExponentialDecay: gamma is a number, not str"),
    (lambda: lr.MultiStepDecay(0.1, 3), "MultiStepDecay: milestones is a list or tuple, not int"),
    (lambda: lr.StepDecay("0.1", 2), "StepDecay: learning_rate is a number, not str"),
    (lambda: lr.StepDecay(0.1, 2.0), "StepDecay: step_size is an int, not float"),
    (lambda: lr.StepDecay(0.1, 2, last_epoch="3"), "StepDecay: last_epoch is an int, not str"),
    (lambda: lr.StepDecay(0.1, 2, verbose="no"), "StepDecay: verbose is True or False, not str"),
    (lambda: lr.LambdaDecay(0.1, 0.9), "LambdaDecay: lr_lambda is a function, not float"),
    (lambda: lr.ReduceOnPlateau(0.1, mode=3), "ReduceOnPlateau: mode is 'min' or 'max', not int"),
    (lambda: lr.ReduceOnPlateau(0.1, patience="3"), "ReduceOnPlateau: patience is a number, not str"),
    (lambda: lr.ReduceOnPlateau(0.1).step("0.5"), "ReduceOnPlateau: metrics is a number or an array of one element, not str"),
    (lambda: lr.CosineAnnealingDecay(0.1, "5"), "CosineAnnealingDecay: T_max is an int, not str"),
    (lambda: lr.CosineAnnealingWarmRestarts(0.1, "5"), "CosineAnnealingWarmRestarts: T_0 is an int, not str"),
    (lambda: lr.OneCycleLR("1", 5), "OneCycleLR: max_learning_rate is a number, not str"),
    (lambda: lr.OneCycleLR(0.1, 5, three_phase="no"), "OneCycleLR: three_phase is True or False, not str"),
    (lambda: lr.CyclicLR(0.1, 1.0, 2.5), "CyclicLR: step_size_up is an int, not float"),
    (lambda: lr.CyclicLR(0.1, 1.0, 2, scale_fn=0.5), "CyclicLR: scale_fn is a function, not float"),
    (lambda: lr.LinearLR(0.1, "5"), "LinearLR: total_steps is a number, not str"),
    (lambda: initializer.Constant("0"), "Constant: value is a number, not str"),
    (lambda: initializer.Assign("zeros"), "Assign: value is an array of numbers, not str"),
    (lambda: initializer.Uniform("0"), "Uniform: low is a number, not str"),
    (lambda: initializer.Normal(std="1"), "Normal: std is a number, not str"),
    (lambda: initializer.TruncatedNormal(b="1"), "TruncatedNormal: b is a number, not str"),
    (lambda: initializer.XavierUniform("3"), "XavierUniform: fan_in is a number or None, not str"),
    (lambda: initializer.KaimingNormal(nonlinearity=3), "KaimingNormal: nonlinearity is 'linear', 'sigmoid', 'tanh', 'relu', 'leaky_relu', 'selu', 'conv1d', "),
    (lambda: initializer.Orthogonal("2"), "Orthogonal: gain is a number, not str"),
    (lambda: initializer.Dirac(name=3), "Dirac: name is a str, not int"),
    (lambda: paddle.ParamAttr(name=3), "ParamAttr: name is a str, not int"),
    (lambda: paddle.ParamAttr(initializer=0.5), "ParamAttr: initializer is an Initializer, not float"),
    (lambda: paddle.ParamAttr(regularizer=0.5), "ParamAttr: regularizer is an L1Decay or an L2Decay, not float"),
    (lambda: paddle.ParamAttr(trainable="no"), "ParamAttr: trainable is True or False, not str"),
    (lambda: static.WeightNormParamAttr(dim="0"), "WeightNormParamAttr: dim is an int, not str"),
    (lambda: paddle.regularizer.L2Decay("0.1"), "L2Decay: coeff is a number, not str"),
    (lambda: paddle.nn.ClipGradByValue("1"), "ClipGradByValue: max is a number, not str"),
    (lambda: paddle.nn.ClipGradByNorm("1"), "ClipGradByNorm: clip_norm is a number, not str"),
    (lambda: paddle.nn.ClipGradByGlobalNorm(None), "ClipGradByGlobalNorm: clip_norm is a number, not None"),
    (lambda: metric.Accuracy(topk=5), "Accuracy: topk is a tuple of ints, not int"),
    (lambda: metric.Accuracy(name=5), "Accuracy: name is a str, not int"),
    (lambda: metric.Precision(5), "Precision: name is a str, not int"),
    (lambda: metric.Auc(num_thresholds=9.5), "Auc: num_thresholds is an int, not float"),
    (lambda: static.CUDAPlace(0, gpu_mem_limit=2.5), "CUDAPlace: gpu_mem_limit is True, False or an int, not float"),
    (lambda: static.Executor(threads="2"), "Executor: threads is an int, not str"),
    (lambda: static.CompiledProgram(static.Program(), "fast"), "CompiledProgram: build_strategy is a BuildStrategy or None, not str"),
    (lambda: static.ExponentialMovingAverage("0.9"), "ExponentialMovingAverage: decay is a number, not str"),
    (lambda: static.ExponentialMovingAverage(0.9, 3), "ExponentialMovingAverage: thres_steps is a Variable or None, not int"),
    (lambda: distributed.Strategy(pipeline="2"), "Strategy: pipeline is an int, not str"),
    (lambda: distributed.Strategy(bucket_megabytes="2"), "Strategy: bucket_megabytes is a number, not str"),
    (lambda: distributed.Strategy(pipeline=2, cuts="a"), "Strategy: cuts is a tuple of names, not str"),
    (lambda: amp.GradScaler("yes"), "GradScaler: enable is True or False, not str"),
    (lambda: amp.GradScaler(incr_ratio="2"), "GradScaler: incr_ratio is a number, not str"),
    (lambda: amp.GradScaler(incr_every_n_steps=2.5), "GradScaler: incr_every_n_steps is an int, not float"),
    (lambda: amp.auto_cast(enable="no"), "auto_cast: enable is True or False, not str"),
    (lambda: paddle.io.DataLoader(3), "DataLoader: dataset is a Dataset, or samples by number, not int"),
    (lambda: paddle.io.DataLoader([3], batch_size="2"), "DataLoader: batch_size is an int, not str"),
    (lambda: paddle.io.DataLoader([3], shuffle="no"), "DataLoader: shuffle is True or False, not str"),
    (lambda: paddle.io.DataLoader([3], collate_fn=3), "DataLoader: collate_fn is a function, not int"),
    (lambda: paddle.io.TensorDataset(3), "TensorDataset: tensors is a list of tensors, not int"),
    (lambda: paddle.io.ConcatDataset(3), "ConcatDataset: datasets is a list of data sets, not int"),
    (lambda: paddle.io.Subset(3, [1]), "Subset: dataset is a Dataset, or samples by number, not int"),
    (lambda: paddle.io.Subset([3], "1"), "Subset: indices is a list of numbers, not str"),
    (lambda: paddle.io.SequenceSampler(3), "SequenceSampler: data_source is a Dataset, or samples by number, not int"),
    (lambda: paddle.io.WeightedRandomSampler("ab", 3), "WeightedRandomSampler: weights is a list of numbers, not str"),
    (lambda: paddle.io.BatchSampler(sampler=3), "BatchSampler: sampler is a Sampler, or numbers of samples, not int"),
    (lambda: static.InputSpec(["2"]), "InputSpec: a dimension is an int, not str"),
    (lambda: static.InputSpec([2], name=3), "InputSpec: name is a str, not int"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message.partition(" is")[0].replace(": ", "-") for _, message in WRONG])
def test_arguments_of_a_wrong_kind_are_refused_where_they_are_passed(make, message):
    with pytest.raises(ArgumentTypeError, match=f"^{re.escape(message)}"):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optimizer.Adam(0.1, beta1=None), "Adam: beta1 is a number, not None"),
        (lambda: optimizer.Adam(0.1, epsilon=-1.0), "Adam: epsilon is at least 0"),
        (
            lambda: optimizer.Adam(0.1, parameters=[{"params": [w()], "beta2": 1.5}]),
            "Adam: beta2 of a group is at least 0 and below 1, not 1.5",
        ),
        (
            lambda: optimizer.RMSProp(0.1, parameters=[{"params": [w()], "rho": -1.0}]),
            "RMSProp: rho of a group is at least 0, not -1.0",
        ),
        (lambda: optimizer.Rprop(0.1, etas=(0.5,)), "two numbers each"),
        (lambda: lr.NoamDecay(64, 0), "NoamDecay: warmup_steps is above 0, not 0"),
        (lambda: lr.StepDecay(0.1, 0), "StepDecay: step_size is above 0"),
        (lambda: lr.CosineAnnealingDecay(0.1, 0), "CosineAnnealingDecay: T_max is above 0"),
        (lambda: lr.CosineAnnealingWarmRestarts(0.1, 2.0), "CosineAnnealingWarmRestarts: T_0 is an int, not float 2.0"),
        (lambda: lr.PolynomialDecay(0.1, 0), "PolynomialDecay: decay_steps is above 0"),
        (lambda: lr.OneCycleLR(0.1, 9, divide_factor=0), "OneCycleLR: divide_factor is above 0"),
        (lambda: lr.ReduceOnPlateau(0.1, mode="least"), "ReduceOnPlateau: mode is 'min' or 'max', not 'least'"),
        (lambda: paddle.nn.ClipGradByNorm(-1.0), "ClipGradByNorm: clip_norm is at least 0"),
        (lambda: metric.Accuracy(topk=()), "Accuracy: topk holds numbers from 1"),
        (lambda: metric.Auc("PR"), "Auc: curve is 'ROC', not 'PR'"),
        (lambda: metric.Auc(num_thresholds=0), "Auc: num_thresholds is above 0"),
        (lambda: static.CUDAPlace(0, cudnn_conv_algo_search="FAST"), "cudnn_conv_algo_search is 'EXHAUSTIVE', 'HEURISTIC' or"),
    ],
)
def test_numbers_and_words_that_make_no_sense_are_refused_where_they_are_passed(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_numbers_of_numpy_are_taken_and_become_those_of_python():
    assert optimizer.Adam(np.float32(0.5), beta1=np.float64(0.5)).get_lr() == 0.5
    assert type(as_number(None, "x", np.float32(2))) is float and type(as_int(None, "x", np.int64(2))) is int
    assert as_flag(None, "x", np.bool_(True)) is True and as_flag(None, "x", 0) is False
    assert as_numbers(None, "x", np.array([1, 2])) == [1.0, 2.0]
    assert as_text(None, "x", None) is None and as_word(None, "x", "a", ("a", "b")) == "a"


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: paddle.full([2], True),
        lambda x: paddle.full_like(x, False),
        lambda x: paddle.where(x > 0, True, x),
        lambda x: paddle.clip(x, False, True),
        lambda x: paddle.add(x, True),
        lambda x: paddle.masked_fill(x, x > 0, True),
        lambda x: paddle.scale(x, True, bias=np.bool_(True)),
        lambda x: paddle.scale(x, np.array(2.0), bias=np.array(1)),
        lambda x: paddle.clip(x, np.array(0.0), np.array(1)),
        lambda x: paddle.full([2], np.array(1.0)),
    ],
)
def test_functions_take_flags_and_arrays_without_axes_for_numbers(compute):
    assert compute(paddle.ones([2])).shape == [2]


def test_flags_and_fractions_are_no_ints():
    for number in (True, np.array(1.0), np.array(True), 1.0):
        with pytest.raises(ArgumentTypeError, match=r"^argsort: axis is an int, not "):
            paddle.argsort(paddle.ones([2]), number)
    with pytest.raises(ArgumentTypeError, match=r"^roll: axis is an int, a list of ints or None, not ndarray"):
        paddle.roll(paddle.ones([2]), 1, np.array(0))


def test_entries_of_lists_are_checked():
    x = paddle.ones([2, 3])
    assert paddle.reshape(x, [3, np.int64(2)]).shape == [3, 2] and paddle.reshape(x, (6, paddle.to_tensor(1))).shape == [6, 1]
    for entry in (2.0, "2", None, True):
        with pytest.raises(ArgumentTypeError, match=r"^reshape: shape is "):
            paddle.reshape(x, [3, entry])


def test_a_group_may_name_one_parameter():
    x = static.data("x", [2, 3])
    loss = paddle.mean(static.nn.fc(x, 1, weight_attr="w", bias_attr=False))
    _, pairs = optimizer.SGD(0.1, parameters=[{"params": "w", "learning_rate": 0.5}]).minimize(loss)
    assert [p.name for p, _ in pairs] == ["w"]


def test_options_of_a_group_are_read_as_those_of_the_optimizer():
    made = optimizer.Adam(0.1, parameters=[{"params": [w()], "beta1": np.float32(0.5), "amsgrad": 1}])
    assert made._groups[0].options == {"_beta1": 0.5, "_amsgrad": True}
    assert [type(value) for value in made._groups[0].options.values()] == [float, bool]


def test_names_of_parameters_are_those_of_inspect():
    def own(a, /, b, c=1, *rest, d, e=2, **more): ...

    for function in (own, checked(own), paddle.max, paddle.quantile, paddle.nn.functional.softmax):
        parameters = inspect.signature(function).parameters.values()
        positional = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        by_name = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        assert parameter_names(function) == (positional, by_name)


def test_numpy_reads_a_tensor_without_the_reasons_of_absent_names(monkeypatch):
    """It asks for several attributes that tensors have not, each time: 280 us where each looked for a reason, 2 where none does."""

    def asked(*_):
        raise AssertionError("a reason was looked for")

    tensor = paddle.to_tensor([1.0, 2.0])
    np.asarray(tensor)
    monkeypatch.setattr(refusals, "fnmatchcase", asked)
    assert np.asarray(tensor).tolist() == [1.0, 2.0]
    assert not hasattr(tensor, "__array_struct__")
    with pytest.raises(AssertionError, match="a reason was looked for"):
        _ = tensor.no_such_name
