"""Cases whose results Paddle's own are compared with, for a whole grid of options at once.

Each section is a function of the library, Paddle or this one, that gives functions by the name of the case; these compute plain
values, and where they raise, the result is "refused". ``scripts/record_paddle`` writes what Paddle gives to tests/data/paddle_grid.json, and
tests/paddle_suite/test_grid.py compares.
"""

import inspect
import itertools
from contextlib import contextmanager

import numpy as np

REFUSED = "refused"

# Optimizers ----------------------------------------------------------------------------------------------------------

OPTIMIZERS = {
    "SGD": {}, "Momentum": {}, "Momentum nesterov": {"use_nesterov": True}, "Adam": {}, "Adam amsgrad": {"amsgrad": True}, "AdamW": {},
    "Adamax": {}, "Adagrad": {}, "Adadelta": {}, "RMSProp": {"momentum": 0.5}, "RMSProp centered": {"centered": True},
    "Lamb": {}, "NAdam": {}, "RAdam": {}, "Rprop": {"learning_rate_range": (1e-5, 50.0)}, "ASGD": {"batch_num": 2},
}  # fmt: skip


def _attributes(paddle):
    decay = paddle.regularizer
    return {
        "plain": {},
        "learning_rate": {"learning_rate": 0.25},
        "learning_rate 0": {"learning_rate": 0.0},
        "L2": {"regularizer": decay.L2Decay(0.5)},
        "L1": {"regularizer": decay.L1Decay(0.5)},
        "L2 0": {"regularizer": decay.L2Decay(0.0)},
        "need_clip": {"need_clip": False},
        "trainable": {"trainable": False},
        "do_model_average": {"do_model_average": False},
    }


def _settings(paddle):
    decay, nn = paddle.regularizer, paddle.nn
    return {
        "plain": {},
        "number": {"weight_decay": 0.3},
        "L1": {"weight_decay": decay.L1Decay(0.3)},
        "L2": {"weight_decay": decay.L2Decay(0.3)},
        "by value": {"grad_clip": nn.ClipGradByValue(0.05)},
        "by norm": {"grad_clip": nn.ClipGradByNorm(0.05)},
        "by global norm": {"grad_clip": nn.ClipGradByGlobalNorm(0.05)},
    }


def _groups(paddle):
    decay, nn = paddle.regularizer, paddle.nn
    return {
        "plain": {},
        "learning_rate": {"learning_rate": 0.25},
        "number": {"weight_decay": 0.5},
        "L1": {"weight_decay": decay.L1Decay(0.5)},
        "L2": {"weight_decay": decay.L2Decay(0.5)},
        "by value": {"grad_clip": nn.ClipGradByValue(0.02)},
        "by norm": {"grad_clip": nn.ClipGradByNorm(0.02)},
        "by global norm": {"grad_clip": nn.ClipGradByGlobalNorm(0.02)},
        "beta1": {"beta1": 0.5},
        "beta2": {"beta2": 0.5},
        "epsilon": {"epsilon": 0.1},
        "momentum": {"momentum": 0.5},
        "rho": {"rho": 0.5},
    }


def _optimizer(paddle, name, parameters=None, **settings):
    kind = name.split()[0]
    options = {"learning_rate": 0.1, **OPTIMIZERS[name], **settings}
    return getattr(paddle.optimizer, kind)(parameters=parameters, **options)


def _value(seed, *shape):
    return np.round(np.random.RandomState(seed).randn(*shape), 3).astype(np.float32)


STEPS = [_value(10 + step, 3, 2) for step in range(3)]


def _two_parameters(paddle, options):
    """One with the options, which decays and moves as they say, and one without."""
    made = []
    for name, seed, extra in (("w", 1, options), ("v", 2, {})):
        attr = paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Assign(_value(seed, 3, 2)), **extra)
        made.append(paddle.create_parameter([3, 2], "float32", attr=attr))
    return made


def _loss(paddle, w, v, x):
    return paddle.mean(w * x + v * x + v * v * w)


def _numbers(array):
    return [float(f"{number:.7g}") for number in np.asarray(array, np.float64).reshape(-1)]


def outcome(paddle, compute):
    """The result of a case, as it is recorded."""
    try:
        with paddle.utils.unique_name.guard():
            return compute()
    except Exception:
        return REFUSED


def _eager_steps(paddle, optimizer, w, v, steps):
    for x in steps:
        _loss(paddle, w, v, paddle.to_tensor(x)).backward()
        optimizer.step()
        optimizer.clear_grad()
    return _numbers(w.numpy()) + _numbers(v.numpy())


def eager_options(paddle):
    """Every optimizer x every option of ParamAttr x decay and clipping, eager: values of both parameters after the steps."""
    cases = {}
    for name, attribute, setting in itertools.product(OPTIMIZERS, _attributes(paddle), _settings(paddle)):

        def compute(name=name, attribute=attribute, setting=setting):
            w, v = _two_parameters(paddle, _attributes(paddle)[attribute])
            return _eager_steps(paddle, _optimizer(paddle, name, [w, v], **_settings(paddle)[setting]), w, v, STEPS)

        cases[f"{name} / {attribute} / {setting}"] = compute
    return cases


@contextmanager
def _static(paddle):
    paddle.enable_static()
    try:
        static, names = paddle.static, paddle.utils.unique_name
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup), names.guard(), static.scope_guard(static.Scope()):
            yield main, startup
    finally:
        paddle.disable_static()


def _started(paddle, startup):
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    return executor


def _held(paddle, name):
    return np.asarray(paddle.static.global_scope().find_var(name).get_tensor())


def static_options(paddle):
    """The same in programs."""
    cases = {}
    for name, attribute, setting in itertools.product(OPTIMIZERS, _attributes(paddle), _settings(paddle)):

        def compute(name=name, attribute=attribute, setting=setting):
            with _static(paddle) as (main, startup):
                w, v = _two_parameters(paddle, _attributes(paddle)[attribute])
                loss = _loss(paddle, w, v, paddle.static.data("x", [3, 2]))
                _optimizer(paddle, name, **_settings(paddle)[setting]).minimize(loss)
                executor = _started(paddle, startup)
                for x in STEPS:
                    executor.run(main, feed={"x": x}, fetch_list=[loss])
                return _numbers(_held(paddle, "w")) + _numbers(_held(paddle, "v"))

        cases[f"{name} / {attribute} / {setting}"] = compute
    return cases


def eager_groups(paddle):
    """Every optimizer x every option of a group x decay and clipping of the optimizer, eager."""
    cases = {}
    for name, group, setting in itertools.product(OPTIMIZERS, _groups(paddle), ("plain", "L2", "by global norm")):
        kind = getattr(paddle.optimizer, name.split()[0])
        if not _groups(paddle)[group].keys() <= {"learning_rate", "weight_decay", "grad_clip", *inspect.signature(kind).parameters}:
            continue  # Paddle ignores what the optimizer lacks, which is refused here

        def compute(name=name, group=group, setting=setting):
            w, v = _two_parameters(paddle, {})
            groups = [{"params": [w], **_groups(paddle)[group]}, {"params": [v]}]
            return _eager_steps(paddle, _optimizer(paddle, name, groups, **_settings(paddle)[setting]), w, v, STEPS)

        cases[f"{name} / {group} / {setting}"] = compute
    return cases


def eager_resumed(paddle):
    """Every optimizer: names and shapes of its state, and the steps after it was set before the first one."""
    cases = {}
    for name, scheduled in itertools.product(OPTIMIZERS, (False, True)):

        def compute(name=name, scheduled=scheduled):
            def made(w, v):
                rate = {"learning_rate": paddle.optimizer.lr.ExponentialDecay(0.1, 0.5)} if scheduled else {}
                return _optimizer(paddle, name, [w, v], **rate)

            w, v = _two_parameters(paddle, {})
            first = made(w, v)
            _eager_steps(paddle, first, w, v, STEPS[:2])
            if scheduled:
                first._learning_rate.step()
            state = first.state_dict()
            with paddle.utils.unique_name.guard():
                again = made(w, v)
                again.set_state_dict(state)
                return _eager_steps(paddle, again, w, v, STEPS[2:])

        cases[f"{name} / {'scheduled' if scheduled else 'plain'}"] = compute
    return cases


def eager_state_names(paddle):
    """Names and shapes of every optimizer's state after a step."""
    cases = {}
    for name in OPTIMIZERS:

        def compute(name=name):
            w, v = _two_parameters(paddle, {})
            optimizer = _optimizer(paddle, name, [w, v])
            _eager_steps(paddle, optimizer, w, v, STEPS[:1])
            return {key: list(value.shape) for key, value in sorted(optimizer.state_dict().items()) if hasattr(value, "shape")}

        cases[name] = compute
    return cases


# Tables of which a batch looks up some rows --------------------------------------------------------------------------

TABLE_OPTIMIZERS = {
    "SGD": {}, "Momentum": {}, "Adam": {}, "Adam lazy": {"lazy_mode": True}, "Adam amsgrad lazy": {"lazy_mode": True, "amsgrad": True},
    "Adagrad": {}, "RMSProp": {}, "Lamb": {},
}  # fmt: skip
LOOKED_UP = [[1, 3, 3], [0, 1, 1], [4, 4, 4]]


def _table_cases(paddle):
    attributes = {"plain": {}, "learning_rate": {"learning_rate": 0.25}, "L2": {"regularizer": paddle.regularizer.L2Decay(0.5)}}
    settings = {"plain": {}, "by global norm": {"grad_clip": paddle.nn.ClipGradByGlobalNorm(0.05)}}
    grid = itertools.product(TABLE_OPTIMIZERS, (True, False), (1, 2, 3), (None, 1), attributes, settings)
    for name, sparse, width, padding, attribute, setting in grid:
        if sparse and padding is not None:
            continue  # Paddle's sparse gradient moves the row of the padding, its dense one does not
        key = f"{name} / {'sparse' if sparse else 'dense'} / width {width} / padding {padding} / {attribute} / {setting}"
        attr = {"name": "table", "initializer": paddle.nn.initializer.Assign(_value(3, 6, width)), **attributes[attribute]}
        options = {"learning_rate": 0.1, **TABLE_OPTIMIZERS[name], **settings[setting]}
        yield key, getattr(paddle.optimizer, name.split()[0]), options, sparse, width, padding, attr


def _table_result(kind, sparse, tables):
    """The last table; or where Adam's gradient is sparse, which rows moved in each step.

    Paddle's sparse Adam takes the powers of beta of the next step, unlike its dense one, and its values are thus no measure.
    """
    if sparse and kind.__name__ == "Adam":
        moved = [(after != before).any(1) for before, after in itertools.pairwise(tables)]
        return [np.flatnonzero(rows).tolist() for rows in moved]
    return _numbers(tables[-1])


def eager_tables(paddle):
    """Every optimizer that takes sparse gradients x lazy_mode x width x padding x option of ParamAttr x clipping, eager."""
    cases = {}
    for key, kind, options, sparse, width, padding, attr in _table_cases(paddle):

        def compute(kind=kind, options=options, sparse=sparse, width=width, padding=padding, attr=attr):
            table = paddle.nn.Embedding(6, width, padding, sparse=sparse, weight_attr=paddle.ParamAttr(**attr))
            table.weight.set_value(paddle.to_tensor(_value(3, 6, width)))
            optimizer, tables = kind(parameters=[table.weight], **options), [table.weight.numpy()]
            for ids in LOOKED_UP:
                rows = table(paddle.to_tensor(np.array(ids)))
                paddle.mean(rows * rows * 0.5 + rows).backward()
                optimizer.step()
                optimizer.clear_grad()
                tables.append(table.weight.numpy())
            return _table_result(kind, sparse, tables)

        cases[key] = compute
    return cases


def static_tables(paddle):
    """The same in programs."""
    cases = {}
    for key, kind, options, sparse, width, padding, attr in _table_cases(paddle):

        def compute(kind=kind, options=options, sparse=sparse, width=width, padding=padding, attr=attr):
            with _static(paddle) as (main, startup):
                ids = paddle.static.data("ids", [3], "int64")
                rows = paddle.static.nn.embedding(
                    ids, [6, width], is_sparse=sparse, padding_idx=padding, param_attr=paddle.ParamAttr(**attr)
                )
                loss = paddle.mean(rows * rows * 0.5 + rows)
                kind(**options).minimize(loss)
                executor = _started(paddle, startup)
                tables = [np.array(_held(paddle, "table"))]
                for batch in LOOKED_UP:
                    executor.run(main, feed={"ids": np.array(batch)}, fetch_list=[loss])
                    tables.append(np.array(_held(paddle, "table")))
                return _table_result(kind, sparse, tables)

        cases[key] = compute
    return cases


# Averages ------------------------------------------------------------------------------------------------------------


def static_averages(paddle):
    """ExponentialMovingAverage x decay x what is left out: every value that the program keeps, inside ``apply`` and after it."""
    cases = {}
    for decay, attribute, steps in itertools.product((0.9, 0.5), ("plain", "do_model_average", "trainable"), (1, 3)):

        def compute(decay=decay, attribute=attribute, steps=steps):
            with _static(paddle) as (main, startup):
                w, v = _two_parameters(paddle, _attributes(paddle)[attribute])
                x = paddle.static.data("x", [3, 2])
                y = paddle.static.nn.batch_norm(w * x + v, momentum=0.7)
                loss = paddle.mean(y * x + w * v)
                paddle.optimizer.SGD(0.1).minimize(loss)
                average = paddle.static.ExponentialMovingAverage(decay)
                average.update()
                executor = _started(paddle, startup)
                for x in STEPS[:steps]:
                    executor.run(main, feed={"x": x}, fetch_list=[loss])
                kept = sorted(p.name for p in main.all_parameters())
                with average.apply(executor):
                    inside = {name: _numbers(_held(paddle, name)) for name in kept}
                return {"inside": inside, "after": {name: _numbers(_held(paddle, name)) for name in kept}}

        cases[f"{decay} / {attribute} / {steps} steps"] = compute
    return cases


# Names of layers -----------------------------------------------------------------------------------------------------

_LAYER_ARGUMENTS = {
    "AdaptiveAvgPool1D": (1,), "AdaptiveAvgPool2D": (1,), "AdaptiveAvgPool3D": (1,), "AdaptiveLogSoftmaxWithLoss": (4, 6, [2, 4]),
    "AdaptiveMaxPool1D": (1,), "AdaptiveMaxPool2D": (1,), "AdaptiveMaxPool3D": (1,), "AlphaDropout": (), "AvgPool1D": (2,),
    "AvgPool2D": (2,), "AvgPool3D": (2,), "BatchNorm": (3,), "BatchNorm1D": (3,), "BatchNorm2D": (3,), "BatchNorm3D": (3,),
    "BeamSearchDecoder": None, "BiRNN": None, "Bilinear": (2, 3, 4), "CircularPad1D": (1,), "CircularPad2D": (1,),
    "CircularPad3D": (1,), "ConstantPad1D": (1, 0.0), "ConstantPad2D": (1, 0.0), "ConstantPad3D": (1, 0.0),
    "ReflectionPad1D": (1,), "ReflectionPad2D": (1,), "ReflectionPad3D": (1,), "ReplicationPad1D": (1,),
    "ReplicationPad2D": (1,), "ReplicationPad3D": (1,), "ChannelShuffle": (3,), "Conv1D": (2, 3, 3),
    "Conv1DTranspose": (2, 3, 3), "Conv2D": (2, 3, 3), "Conv2DTranspose": (2, 3, 3), "Conv3D": (2, 3, 3),
    "Conv3DTranspose": (2, 3, 3), "Embedding": (5, 3), "Fold": ([4, 4], 2), "FractionalMaxPool2D": (2,),
    "FractionalMaxPool3D": (2,), "GRU": (2, 3), "GRUCell": (2, 3), "GroupNorm": (1, 3), "HSigmoidLoss": (3, 4),
    "InstanceNorm1D": (3,), "InstanceNorm2D": (3,), "InstanceNorm3D": (3,), "LSTM": (2, 3), "LSTMCell": (2, 3), "LayerNorm": (3,),
    "LPPool1D": (2, 2), "LPPool2D": (2, 2), "Linear": (2, 3), "LocalResponseNorm": (3,), "MaxPool1D": (2,), "MaxPool2D": (2,),
    "MaxPool3D": (2,), "MaxUnPool1D": (2,), "MaxUnPool2D": (2,), "MaxUnPool3D": (2,), "Maxout": (2,),
    "MultiHeadAttention": (4, 2), "Pad1D": (1,), "Pad2D": (1,), "Pad3D": (1,), "PixelShuffle": (2,), "PixelUnshuffle": (2,),
    "RMSNorm": (3,), "RNN": None, "SimpleRNN": (2, 3), "SimpleRNNCell": (2, 3), "SpectralNorm": ([3, 4],), "SyncBatchNorm": (3,),
    "Transformer": (4, 2, 1, 1, 8), "TransformerDecoder": None, "TransformerDecoderLayer": (4, 2, 8), "TransformerEncoder": None,
    "TransformerEncoderLayer": (4, 2, 8), "Unflatten": (1, [1, 2]), "Unfold": (2,), "UpsamplingBilinear2D": ([4, 4],),
    "UpsamplingNearest2D": ([4, 4],), "ZeroPad1D": (1,), "ZeroPad2D": (1,), "ZeroPad3D": (1,),
}  # fmt: skip


def _layer(nn, name):
    if name in ("RNN", "BiRNN"):
        cells = [nn.SimpleRNNCell(2, 3), nn.SimpleRNNCell(2, 3)]
        return getattr(nn, name)(*cells[: 2 if name == "BiRNN" else 1])
    if name in ("TransformerEncoder", "TransformerDecoder"):
        return getattr(nn, name)(getattr(nn, f"{name}Layer")(4, 2, 8), 2)
    if name == "BeamSearchDecoder":
        return getattr(nn, name)(nn.GRUCell(2, 3), 0, 1, 2)
    return getattr(nn, name)(*_LAYER_ARGUMENTS.get(name, ()))


def layer_names(paddle):
    """Every class of ``nn`` that is a layer: its own name, and those of its parameters and running statistics by path."""
    cases = {}
    for name in sorted(dir(paddle.nn)):
        kind = getattr(paddle.nn, name)
        if not isinstance(kind, type) or not issubclass(kind, paddle.nn.Layer) or kind is paddle.nn.Layer or kind.__name__ != name:
            continue

        def compute(name=name):
            layer = _layer(paddle.nn, name)
            members = [*layer.named_parameters(), *layer.named_buffers()]  # running statistics are the former in Paddle
            named = {
                path: [p.name, list(p.shape), bool(p.stop_gradient)] for path, p in members if ".w_" in p.name or ".b_" in p.name
            }
            return {"name": layer.full_name(), "members": named}

        cases[name] = compute
    for name in ("Net", "MyNet", "myNet", "ABCNet", "My_Net", "Net2D", "N", "XMLHttpNet3"):
        cases[f"class {name}"] = lambda name=name: type(name, (paddle.nn.Layer,), {})().full_name()
        cases[f"scope {name}"] = lambda name=name: paddle.nn.Layer(name_scope=name).full_name()
    return cases


# Default element type ------------------------------------------------------------------------------------------------


def _creations(paddle):
    wide, whole, narrow = np.ones(2), np.ones(2, np.int64), np.ones(2, np.float32)
    like, p = (lambda: paddle.to_tensor(narrow)), paddle
    calls = {
        "to_tensor float": lambda: p.to_tensor(1.0),
        "to_tensor list": lambda: p.to_tensor([1.0, 2.0]),
        "to_tensor tuple": lambda: p.to_tensor((1.0, 2.0)),
        "to_tensor nested": lambda: p.to_tensor([[1.0], [2.0]]),
        "to_tensor mixed": lambda: p.to_tensor([1, 2.5]),
        "to_tensor int": lambda: p.to_tensor(1),
        "to_tensor ints": lambda: p.to_tensor([1, 2]),
        "to_tensor bool": lambda: p.to_tensor(True),
        "to_tensor bools": lambda: p.to_tensor([True, False]),
        "to_tensor complex": lambda: p.to_tensor(1 + 2j),
        "to_tensor complexes": lambda: p.to_tensor([1 + 2j, 1.0]),
        "to_tensor float64 array": lambda: p.to_tensor(wide),
        "to_tensor float32 array": lambda: p.to_tensor(narrow),
        "to_tensor float16 array": lambda: p.to_tensor(narrow.astype(np.float16)),
        "to_tensor int array": lambda: p.to_tensor(whole),
        "to_tensor float64 number": lambda: p.to_tensor(np.float64(1.0)),
        "to_tensor float32 number": lambda: p.to_tensor(np.float32(1.0)),
        "to_tensor list of arrays": lambda: p.to_tensor([wide, wide]),
        "to_tensor list of float32 arrays": lambda: p.to_tensor([narrow, narrow]),
        "to_tensor list of numbers": lambda: p.to_tensor([np.float64(1.0), np.float64(2.0)]),
        "to_tensor list of tensors": lambda: p.to_tensor([like(), like()]),
        "to_tensor tensor": lambda: p.to_tensor(like()),
        "to_tensor with dtype": lambda: p.to_tensor([1.0], dtype="float32"),
        "full": lambda: p.full([2], 1.5), "full int": lambda: p.full([2], 1), "full bool": lambda: p.full([2], True),
        "zeros": lambda: p.zeros([2]), "ones": lambda: p.ones([2]), "empty": lambda: p.empty([2]), "eye": lambda: p.eye(2),
        "zeros with dtype": lambda: p.zeros([2], "int32"),
        "full_like": lambda: p.full_like(like(), 2.0), "zeros_like": lambda: p.zeros_like(like()),
        "ones_like": lambda: p.ones_like(like()), "empty_like": lambda: p.empty_like(like()),
        "arange int": lambda: p.arange(3), "arange float": lambda: p.arange(3.0), "arange step": lambda: p.arange(0, 1, 0.5),
        "linspace": lambda: p.linspace(0, 1, 3), "linspace float": lambda: p.linspace(0.0, 1.0, 3),
        "logspace": lambda: p.logspace(0, 1, 3),
        "rand": lambda: p.rand([2]), "randn": lambda: p.randn([2]), "uniform": lambda: p.uniform([2]),
        "standard_normal": lambda: p.standard_normal([2]), "normal": lambda: p.normal(0.0, 1.0, [2]),
        "normal like": lambda: p.normal(like(), 1.0), "randint": lambda: p.randint(0, 5, [2]), "randperm": lambda: p.randperm(3),
        "log_normal": lambda: p.log_normal(0.0, 1.0, [2]), "gaussian": lambda: p.tensor.random.gaussian([2]),
        "assign float": lambda: p.assign(1.0), "assign list": lambda: p.assign([1.0, 2.0]),
        "assign ints": lambda: p.assign([1, 2]), "assign float64 array": lambda: p.assign(wide),
        "assign float32 array": lambda: p.assign(narrow), "assign bools": lambda: p.assign([True]),
        "tril_indices": lambda: p.tril_indices(2, 2, 0), "triu_indices": lambda: p.triu_indices(2, 2, 0),
        "create_parameter": lambda: p.create_parameter([2, 2], "float32"),
        "Linear": lambda: p.nn.Linear(2, 2).weight, "Conv2D": lambda: p.nn.Conv2D(2, 2, 1).weight,
        "Embedding": lambda: p.nn.Embedding(2, 2).weight, "LayerNorm": lambda: p.nn.LayerNorm(2).weight,
        "BatchNorm1D": lambda: p.nn.BatchNorm1D(2).weight, "BatchNorm1D mean": lambda: p.nn.BatchNorm1D(2)._mean,
        "GroupNorm": lambda: p.nn.GroupNorm(1, 2).weight, "PReLU": lambda: p.nn.PReLU()._weight, "LSTM": lambda: p.nn.LSTM(2, 2).weight_ih_l0,
        "Layer.create_parameter": lambda: p.nn.Layer().create_parameter([2]),
        "bernoulli": lambda: p.bernoulli(p.full([2], 0.5)),
        "vander": lambda: p.vander(p.to_tensor([1.0, 2.0]), 2), "diag": lambda: p.diag(p.to_tensor([1.0, 2.0])),
        "one_hot": lambda: p.nn.functional.one_hot(p.to_tensor([1]), 2),
        "label_smooth": lambda: p.nn.functional.label_smooth(like()), "sequence_mask": lambda: p.nn.functional.sequence_mask(p.to_tensor([1])),
        "int / int": lambda: p.to_tensor([1]) / p.to_tensor([2]), "int * float": lambda: p.to_tensor([1]) * 1.5,
        "int + float": lambda: p.to_tensor([1]) + 1.5, "int ** float": lambda: p.to_tensor([2]) ** 0.5,
        "int mean": lambda: p.to_tensor([1, 2]).astype("float32").mean(),
        "fftfreq": lambda: p.fft.fftfreq(4), "rfftfreq": lambda: p.fft.rfftfreq(4), "data": lambda: p.static.data(p.utils.unique_name.generate("d"), [2]),
        "sqrt of int": lambda: p.sqrt(p.to_tensor([4])), "exp of int": lambda: p.exp(p.to_tensor([1])), "sin of int": lambda: p.sin(p.to_tensor([1])),
        "set_value list": lambda: p.create_parameter([2], "float32"), "cumsum": lambda: p.cumsum(p.to_tensor([1.0])),
    }  # fmt: skip
    return calls


def _dtype_of(tensor):
    return (
        str(tensor.dtype).rsplit(".", 1)[-1].lower().replace("vartype.", "").replace("fp32", "float32").replace("fp64", "float64")
    )


def _with_default(paddle, default, compute):
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(default)
    try:
        return compute()
    finally:
        paddle.set_default_dtype(before)


def eager_default_types(paddle):
    """Every function that makes tensors x default element type: the type of its result, eager."""
    cases = {}
    for default, (name, call) in itertools.product(("float32", "float64", "float16", "bfloat16"), _creations(paddle).items()):
        cases[f"{default} / {name}"] = lambda d=default, c=call: _with_default(paddle, d, lambda: _dtype_of(c()))
    return cases


def static_default_types(paddle):
    """The same in programs."""
    cases = {}
    for default, (name, call) in itertools.product(("float32", "float64", "float16", "bfloat16"), _creations(paddle).items()):

        def compute(default=default, call=call):
            with _static(paddle):
                return _with_default(paddle, default, lambda: _dtype_of(call()))

        cases[f"{default} / {name}"] = compute
    return cases


# What gradients are asked for ----------------------------------------------------------------------------------------


def static_asked(paddle):
    """What append_backward, gradients and minimize return for variables with and without stop_gradient, given as lists."""
    cases = {}
    sources = ("data", "open data", "parameter", "frozen parameter", "stopped parameter", "result", "stopped result", "loss")

    def program(paddle):
        data, opened = paddle.static.data("data", [3, 2]), paddle.static.data("opened", [3, 2])
        opened.stop_gradient = False
        w, v = _two_parameters(paddle, {})
        frozen = paddle.create_parameter([3, 2], "float32", attr=paddle.ParamAttr(name="frozen", trainable=False))
        stopped = paddle.create_parameter([3, 2], "float32", attr=paddle.ParamAttr(name="stopped"))
        stopped.stop_gradient = True
        result = w * data
        closed = v * opened
        closed.stop_gradient = True
        loss = paddle.mean(result + closed + frozen * w + stopped * v + opened)
        return loss, dict(zip(sources, (data, opened, v, frozen, stopped, result, closed, loss), strict=True))

    def asked(ask, *chosen):
        with _static(paddle):
            loss, variables = program(paddle)
            named = {v.name: key for key, v in variables.items()}
            return ask(loss, [variables[name] for name in chosen], named)

    def backward(loss, chosen, named, by_name=False):
        pairs = paddle.static.append_backward(loss, parameter_list=[v.name if by_name else v for v in chosen])
        return [named.get(p.name, p.name) for p, g in pairs if g is not None]

    def gradients(loss, chosen, named):
        return [g is not None for g in paddle.static.gradients([loss], chosen)] or [False]

    def minimized(loss, chosen, named):
        _, pairs = paddle.optimizer.SGD(0.1).minimize(loss, parameters=chosen)
        return [named.get(p.name, p.name) for p, g in pairs if g is not None]

    def given(loss, chosen, named):
        _, pairs = paddle.optimizer.SGD(0.1, parameters=chosen).minimize(loss)
        return [named.get(p.name, p.name) for p, g in pairs if g is not None]

    asks = {"append_backward": backward, "append_backward by name": lambda *a: backward(*a, by_name=True), "gradients": gradients}
    asks.update({"minimize": minimized, "optimizer": given})
    for (label, ask), source in itertools.product(asks.items(), sources):
        cases[f"{label} / {source}"] = lambda a=ask, s=source: asked(a, s)
        if source != "parameter" and label != "gradients":
            cases[f"{label} / {source} and parameter"] = lambda a=ask, s=source: asked(a, s, "parameter")
    return cases


# Printing ------------------------------------------------------------------------------------------------------------


def eager_printing(paddle):
    """What str() of a tensor gives, by its values and element type."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=60)
    values = {
        "halves": [1.5, 2, 3], "whole": [1.0, 2, 300], "wide": [0.1, 1e-5, 100.25], "tiny": [1e-9, 1], "large": [1e8, 1.5],
        "larger": [12345678.0], "negative": [-1.5, 2.25], "whole negative": [-1.0, 2], "not finite": [np.nan, 1.0, np.inf, -np.inf],
        "not finite halves": [np.nan, 1.5, np.inf], "one": 1.5, "one whole": 2.0, "normal": normal[:6].reshape(2, 3),
        "three axes": normal[:8].reshape(2, 2, 2), "line": normal[:30], "whole line": np.arange(30.0),
        "long": np.arange(1200.0), "long matrix": np.arange(2000.0).reshape(20, 100), "long normal": np.tile(normal, 40).reshape(6, 4, 100),
        "no rows": np.zeros((0, 3)), "no columns": np.zeros((2, 0)), "empty rows": np.zeros((2, 2, 0)), "row": normal[:8].reshape(1, 8),
    }  # fmt: skip
    integers = {"few": [1, -20, 3], "none negative": [7, 12, 3], "one": 3, "long": range(1200), "line": range(60)}
    cases = {}
    for name, value in values.items():
        cases[f"float32 / {name}"] = lambda v=value: str(paddle.to_tensor(np.array(v, np.float32)))
    for dtype in ("float64", "float16", "bfloat16"):
        cases[f"{dtype} / normal"] = lambda t=dtype: str(paddle.to_tensor(normal[:6].astype("float32").reshape(3, 2)).astype(t))
    for name, value in integers.items():
        cases[f"int64 / {name}"] = lambda v=value: str(paddle.to_tensor(np.array(v)))
    cases["bool"] = lambda: str(paddle.to_tensor([[True, False], [False, False]]))
    cases["with gradient"] = lambda: str(paddle.to_tensor([1.0, 2.5], stop_gradient=False) * 2)
    cases["parameter"] = lambda: str(
        paddle.create_parameter([2, 2], "float32", default_initializer=paddle.nn.initializer.Constant(0.5))
    )
    return cases


def layer_printing(paddle):
    """What str() of each layer gives."""
    nn = paddle.nn
    cases = {}
    for name in sorted(dir(nn)):
        kind = getattr(nn, name)
        if isinstance(kind, type) and issubclass(kind, nn.Layer) and kind is not nn.Layer and kind.__name__ == name:
            cases[name] = lambda name=name: str(_layer(nn, name))
    cases["nested"] = lambda: str(nn.Sequential(("a", nn.Linear(2, 3)), ("b", nn.Sequential(nn.ReLU(), nn.Dropout(0.2)))))
    cases["list"] = lambda: str(nn.LayerList([nn.Conv2D(3, 4, 3, padding=1), nn.BatchNorm2D(4)]))
    with_options = {
        "conv": lambda: nn.Conv2D(4, 6, [3, 5], stride=2, padding=[1, 2], dilation=2, groups=2, bias_attr=False),
        "conv same": lambda: nn.Conv2D(4, 6, 3, padding="SAME", data_format="NHWC"),
        "conv reflect": lambda: nn.Conv1D(4, 6, 3, 2, 1, padding_mode="reflect"),
        "transposed": lambda: nn.Conv2DTranspose(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
        "lstm": lambda: nn.LSTM(2, 3, num_layers=2, direction="bidirect", dropout=0.5, time_major=True),
        "gru": lambda: nn.GRU(2, 3, direction="bidirect"),
        "rnn": lambda: nn.SimpleRNN(2, 3, activation="relu"),
        "cell": lambda: nn.SimpleRNNCell(2, 3, activation="relu"),
        "pool": lambda: nn.MaxPool2D(2, 2, 1, ceil_mode=True, return_mask=True),
        "adaptive": lambda: nn.AdaptiveMaxPool2D(1, return_mask=True),
        "embedding": lambda: nn.Embedding(5, 3, padding_idx=1, sparse=True),
        "batch norm": lambda: nn.BatchNorm2D(3, data_format="NHWC", name="x"),
        "pad": lambda: nn.Pad2D([1, 2, 3, 4], mode="reflect", name="p"),
        "zero pad": lambda: nn.ZeroPad2D([1, 2, 3, 4]),
        "upsample": lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
        "bilinear": lambda: nn.UpsamplingBilinear2D(scale_factor=2),
        "dropout": lambda: nn.Dropout(0.3, axis=0),
        "unpool": lambda: nn.MaxUnPool2D(2, output_size=[3, 3]),
        "product": lambda: nn.Bilinear(2, 3, 4, name="b"),
        "windows": lambda: nn.Unfold(2, strides=3),
        "lp": lambda: nn.LPPool2D(2, 2, 3),
        "group norm": lambda: nn.GroupNorm(2, 4),
    }
    cases.update({name: lambda make=make: str(make()) for name, make in with_options.items()})
    return cases


# Names of 3.3 -------------------------------------------------------------------------------------------------------


def eager_spellings(paddle):
    """Functions and layers under the names that 3.3 has for torch's authors, and messages of graphs: shape, type, values, gradient."""
    rng = np.random.default_rng(11)
    matrix, other = rng.normal(size=(3, 4)).astype("float32"), rng.uniform(0.5, 2.0, (3, 4)).astype("float32")
    rows, columns = np.array([[0, 2], [1, 1], [3, 0]]), rng.normal(size=(3, 2)).astype("float32")
    images = rng.normal(size=(2, 3, 4, 5)).astype("float32")
    right = np.array([[0, 2, -1, -1], [3, -1, 1, 0], [-1, 0, 1, 2]])
    sources, targets = np.array([0, 1, 2, 0, 2]), np.array([1, 1, 0, 3, 1])
    edges = rng.normal(size=(5, 4)).astype("float32")

    def case(compute, *arrays):
        def run():
            tensors = [paddle.to_tensor(array, stop_gradient=array.dtype.kind != "f") for array in arrays]
            result = compute(*tensors)
            leaves = [tensor for tensor in tensors if not tensor.stop_gradient]
            record = {"shape": list(result.shape), "values": _numbers(result.astype("float64").numpy())}
            if leaves and result.dtype == leaves[0].dtype:
                (result * result).sum().backward()
                record["gradients"] = [number for leaf in leaves if leaf.grad is not None for number in _numbers(leaf.grad.numpy())]
            return record

        return run

    cases = {}
    nn, functional, tensor = paddle.nn, paddle.nn.functional, paddle.to_tensor
    of_one = {
        "clamp": lambda x: paddle.clamp(x, -0.5, 0.5),
        "softmax": lambda x: paddle.softmax(x, 0),
        "swapdims": lambda x: paddle.swapdims(x, 0, 1),
        "swapdims as a list": lambda x: paddle.swapdims(x, [1, 0]),
        "narrow": lambda x: paddle.narrow(x, 1, 1, 2),
        "msort": paddle.msort,
        "argwhere": lambda x: paddle.argwhere(x > 0),
        "method clamp": lambda x: x.clamp(min=0.1),
        "method long": lambda x: x.long(),
        "method double": lambda x: x.double(),
        "method repeat": lambda x: x.repeat(2, 1),
        "method new_full": lambda x: x.new_full([2, 2], 3.0),
        "method split_with_sizes": lambda x: x.split_with_sizes([1, 3], 1)[1],
        "logsigmoid": functional.logsigmoid,
        "SiLU": lambda x: nn.SiLU()(x),
    }
    cases.update({name: case(compute, matrix) for name, compute in of_one.items()})
    of_two = {
        "cat": lambda x, y: paddle.cat([x, y], 1), "concatenate": lambda x, y: paddle.concatenate([x, y]), "div": paddle.div,
        "div floor": lambda x, y: paddle.div(x, y, rounding_mode="floor"),
        "div trunc": lambda x, y: paddle.div(x, y, rounding_mode="trunc"), "true_divide": paddle.true_divide, "mul": paddle.mul,
        "sub": paddle.sub, "sub alpha": lambda x, y: paddle.sub(x, y, alpha=2), "eq": paddle.eq, "ne": paddle.ne, "lt": paddle.lt,
        "le": paddle.le, "gt": paddle.gt, "ge": paddle.ge, "greater": paddle.greater,
        "method type_as": lambda x, y: x.type_as(y.astype("int32")), "ger": lambda x, y: paddle.ger(x[0], y[1]),
    }  # fmt: skip
    cases.update({name: case(compute, matrix, other) for name, compute in of_two.items()})
    cases["scatter_add"] = case(lambda x, i, s: paddle.scatter_add(x, 1, i, s), matrix, rows, columns)
    for reduce, includes in itertools.product(("sum", "prod", "mean", "amax", "amin"), (True, False)):
        cases[f"scatter_reduce {reduce} {includes}"] = case(
            lambda x, i, s, r=reduce, own=includes: paddle.scatter_reduce(x, 1, i, s, r, include_self=own), matrix, rows, columns
        )
    cases["take_along_dim"] = case(lambda x, i: paddle.take_along_dim(x, i, 1), matrix, rows)
    cases["range"] = case(lambda: paddle.range(0, 1, 0.25))
    cases["broadcast_shapes"] = lambda: list(paddle.broadcast_shapes([2, 1], [3], [5, 1, 1]))
    for reduction in ("mean", "sum", "none"):
        cases[f"multi_label_margin_loss {reduction}"] = case(
            lambda x, i, r=reduction: functional.multi_label_margin_loss(x, i, r), matrix, right
        )
    for kind in ("ConstantPad2D", "ReflectionPad2D", "ReplicationPad2D", "CircularPad2D", "ReflectionPad2d"):
        arguments = ([1, 2, 1, 0], 0.5) if kind[0:2] == "Co" else ([1, 2, 1, 0],)
        cases[kind] = case(lambda x, k=kind, a=arguments: getattr(nn, k)(*a)(x), images)
    for name, kind in itertools.product(("sum", "mean", "max", "min"), ("segment", "incubate segment")):
        home = paddle.incubate if kind.startswith("incubate") else paddle.geometric
        cases[f"{kind}_{name}"] = case(lambda x, h=home, n=name: getattr(h, f"segment_{n}")(x, tensor(np.array([0, 0, 2]))), matrix)
    for reduce in ("sum", "mean", "max", "min"):
        cases[f"send_u_recv {reduce}"] = case(
            lambda x, r=reduce: paddle.geometric.send_u_recv(x, tensor(sources), tensor(targets), r, out_size=4), matrix
        )
        cases[f"graph_send_recv {reduce}"] = case(
            lambda x, r=reduce: paddle.incubate.graph_send_recv(x, tensor(sources), tensor(targets), r, 4), matrix
        )
        for message in ("add", "sub", "mul", "div"):
            cases[f"send_ue_recv {message} {reduce}"] = case(
                lambda x, y, m=message, r=reduce: paddle.geometric.send_ue_recv(x, y, tensor(sources), tensor(targets), m, r, 4),
                matrix,
                edges,
            )
    for message in ("add", "sub", "mul", "div"):
        cases[f"send_uv {message}"] = case(
            lambda x, y, m=message: paddle.geometric.send_uv(x, y, tensor(sources[:3]), tensor(np.array([2, 1, 1])), m),
            matrix,
            other,
        )
    return cases


SECTIONS = [
    eager_options, static_options, eager_groups, eager_resumed, eager_state_names, eager_tables, static_tables, static_averages,
    layer_names, eager_default_types, static_default_types, static_asked, eager_spellings,
    eager_printing, layer_printing,
]  # fmt: skip
