"""What Paddle gives at the rim of its surface: options of functions, state, files, distributions, constants, refusals.

Each section is a function of the library, Paddle or this one, that gives functions by the name of the case; these compute plain
values. Where they raise, the result is the builtin class of the error. ``scripts/record_paddle`` writes what Paddle gives to
tests/data/paddle_surface.json, and tests/paddle_suite/test_surface.py compares.
"""

import contextlib
import io
import itertools
import tempfile
import warnings

import numpy as np

from tests.paddle_grid import _numbers as numbers, _static as static_program


def outcome(paddle, compute):
    """The result of a case, or the builtin classes of the error that it raises, the nearest first."""
    try:
        with paddle.utils.unique_name.guard(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            paddle.seed(7)
            return compute()
    except Exception as error:
        return {"error": [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"][:-2]}


def plain(value):
    """A tensor, or several, as lists with shape and type."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "numpy"):
        name = str(value.dtype).rpartition(".")[2].lower()
        named = {"fp32": "float32", "fp64": "float64", "fp16": "float16"}.get(name, name)
        return {"shape": list(value.shape), "dtype": named, "values": numbers(value.astype("float64").numpy())}
    return value


def _shuffled(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype("float32")


# Options of functions ------------------------------------------------------------------------------------------------


def options(paddle):
    """``out``, ``device``, ``requires_grad``, ``alpha``, ``dtype`` and the other arguments that 3.3 has."""
    x = lambda: paddle.to_tensor([1.0, -2.0, 3.0], stop_gradient=False)  # noqa: E731
    matrix = lambda: paddle.to_tensor(_shuffled(3, 4), stop_gradient=False)  # noqa: E731
    cases = {}

    def into(compute, *shape):
        def run():
            out, operand = paddle.zeros(list(shape) or [7]), matrix()
            compute(operand, out)
            if out.stop_gradient or "int" in str(out.dtype):
                return plain(out)
            (out * out).sum().backward()
            return [plain(out), plain(operand.grad)]

        return run

    writes = {
        "abs": lambda m, o: paddle.abs(m, out=o), "sin": lambda m, o: paddle.sin(m, out=o), "add": lambda m, o: paddle.add(m, m, out=o),
        "multiply": lambda m, o: paddle.multiply(m, m, out=o), "sum": lambda m, o: paddle.sum(m, out=o),
        "mean": lambda m, o: paddle.mean(m, 1, out=o), "amax": lambda m, o: paddle.amax(m, 0, out=o),
        "matmul": lambda m, o: paddle.matmul(m, m, transpose_y=True, out=o), "concat": lambda m, o: paddle.concat([m, m], out=o),
        "stack": lambda m, o: paddle.stack([m, m], out=o), "where": lambda m, o: paddle.where(m > 0, m, m * 2, out=o),
        "gather": lambda m, o: paddle.gather(m, paddle.to_tensor([1, 1]), out=o), "clip": lambda m, o: paddle.clip(m, -0.5, 0.5, out=o),
        "cumsum": lambda m, o: paddle.cumsum(m, 1, out=o), "tril": lambda m, o: paddle.tril(m, out=o),
        "equal": lambda m, o: paddle.equal(m, m, out=o), "nonzero": lambda m, o: paddle.nonzero(m > 0, out=o),
        "logical_and": lambda m, o: paddle.logical_and(m > 0, m > 1, out=o), "softmax": lambda m, o: paddle.nn.functional.softmax(m, out=o),
        "topk": lambda m, o: paddle.topk(m, 2, out=(o, paddle.zeros([1], "int64"))),
        "zeros": lambda m, o: paddle.zeros([2, 2], out=o), "arange": lambda m, o: paddle.arange(3, out=o),
        "full": lambda m, o: paddle.full([2], 1.5, out=o), "eye": lambda m, o: paddle.eye(2, out=o),
        "linspace": lambda m, o: paddle.linspace(0, 1, 3, out=o), "median": lambda m, o: paddle.median(m, 1, out=o),
        "var": lambda m, o: paddle.var(m, out=o), "norm": lambda m, o: paddle.linalg.norm(m, out=o),
    }  # fmt: skip
    cases.update({f"out {name}": into(compute) for name, compute in writes.items()})
    makes = {
        "zeros": lambda **k: paddle.zeros([2], **k), "ones": lambda **k: paddle.ones([2], **k), "full": lambda **k: paddle.full([2], 3.0, **k),
        "eye": lambda **k: paddle.eye(2, **k), "arange": lambda **k: paddle.arange(3.0, **k), "linspace": lambda **k: paddle.linspace(0, 1, 3, **k),
        "zeros_like": lambda **k: paddle.zeros_like(x(), **k), "rand": lambda **k: paddle.rand([2], **k), "randn": lambda **k: paddle.randn([2], **k),
        "new_zeros": lambda **k: x().new_zeros([2], **k), "fftfreq": lambda **k: paddle.fft.fftfreq(4, **k),
    }  # fmt: skip
    given = {
        "requires_grad": {"requires_grad": True},
        "cpu": {"device": "cpu"},
        "nonsense": {"device": "nonsense"},
        "number": {"device": 0},
    }
    for (name, make), (option, arguments) in itertools.product(makes.items(), given.items()):
        cases[f"{option} {name}"] = lambda m=make, a=arguments: [m(**a).stop_gradient, m(**a).is_leaf]
    cases["requires_grad is trained"] = lambda: _trained(paddle, paddle.ones([3], requires_grad=True))
    q = lambda h: paddle.to_tensor(_shuffled(2, 3, h, 4, seed=h))  # noqa: E731
    attention = paddle.nn.functional.scaled_dot_product_attention
    resize = paddle.nn.functional.interpolate
    image = lambda: paddle.to_tensor(_shuffled(1, 1, 4, 6))  # noqa: E731
    others = {
        "add alpha": lambda: paddle.add(x(), x(), alpha=2), "subtract alpha": lambda: paddle.subtract(x(), x(), alpha=0.5),
        "add alpha of ints": lambda: paddle.add(paddle.to_tensor([3]), paddle.to_tensor([4]), alpha=2),
        "add alpha that no int holds": lambda: paddle.add(paddle.to_tensor([3]), paddle.to_tensor([3]), alpha=1.7),
        "method add_ alpha": lambda: paddle.to_tensor([1.0]).add_(paddle.to_tensor([2.0]), alpha=3),
        "divide floor": lambda: paddle.divide(x(), paddle.to_tensor(2.0), rounding_mode="floor"),
        "divide trunc of ints": lambda: paddle.divide(paddle.to_tensor([7, -7]), paddle.to_tensor([2, 2]), rounding_mode="trunc"),
        "divide otherwise": lambda: paddle.divide(x(), x(), rounding_mode="up"),
        "mean dtype": lambda: paddle.mean(paddle.to_tensor([1, 2]), dtype="float64"), "norm dtype": lambda: paddle.linalg.norm(x(), dtype="float64"),
        "vector_norm dtype": lambda: paddle.linalg.vector_norm(x(), dtype="float64"),
        "var correction": lambda: paddle.var(matrix(), 1, correction=2), "var correction 0": lambda: paddle.var(matrix(), correction=0),
        "var unbiased": lambda: paddle.var(matrix(), 1, False), "var both": lambda: paddle.var(matrix(), unbiased=True, correction=2),
        "index_add alpha": lambda: paddle.index_add(matrix(), paddle.to_tensor([0]), 0, paddle.ones([1, 4]), alpha=3),
        "searchsorted side": lambda: paddle.searchsorted(paddle.to_tensor([1.0, 3.0, 3.0]), paddle.to_tensor([3.0]), side="right"),
        "searchsorted sorter": lambda: paddle.searchsorted(paddle.to_tensor([3.0, 1.0, 2.0]), paddle.to_tensor([3.0, 1.5]), sorter=paddle.to_tensor([1, 2, 0])),
        "unique sorted": lambda: paddle.unique(paddle.to_tensor([3, 1, 3, 2]), sorted=False),
        "repeat_interleave size": lambda: paddle.repeat_interleave(matrix(), 2, axis=0, output_size=6),
        "permute dims": lambda: paddle.permute(matrix(), dims=[1, 0]), "uniform": lambda: bool((paddle.uniform([500]) >= 0).all()),
        "bernoulli_": lambda: float(paddle.full([4000], 0.9).bernoulli_().mean()) < 0.6,
        "attention scale": lambda: attention(q(2), q(2), q(2), scale=0.3), "attention groups": lambda: attention(q(4), q(2), q(2)),
        "attention without groups": lambda: attention(q(4), q(2), q(2), enable_gqa=False),
        "resize again": lambda: resize(image(), scale_factor=[1.3, 1.3], mode="bilinear", recompute_scale_factor=True),
        "resize by a factor": lambda: resize(image(), scale_factor=[1.3, 1.3], mode="bilinear"),
        "resize a size again": lambda: resize(image(), size=[2, 2], mode="bilinear", recompute_scale_factor=True),
        "resize smoothly": lambda: resize(image(), size=[2, 3], mode="bilinear", antialias=True),
        "resize cubic smoothly": lambda: resize(image(), size=[2, 3], mode="bicubic", antialias=True),
        "resize corners smoothly": lambda: resize(image(), size=[2, 3], mode="bilinear", antialias=True, align_corners=True),
        "resize larger smoothly": lambda: resize(image(), scale_factor=1.5, mode="bilinear", antialias=True),
        "resize nearest smoothly": lambda: resize(image(), size=[2, 3], mode="nearest", antialias=True),
        "one_hot": lambda: paddle.nn.functional.one_hot(paddle.to_tensor([0, 2])), "pad a line": lambda: paddle.nn.functional.pad(paddle.ones([1, 1, 3]), [1, 1]),
        "pad a line in another layout": lambda: paddle.nn.functional.pad(paddle.ones([1, 1, 3]), [1, 1], data_format="NCHW"),
        "device of a tensor": lambda: paddle.device.get_device(x()),
    }  # fmt: skip
    cases.update({name: lambda c=compute: plain(c()) for name, compute in others.items()})
    nn = paddle.nn
    layers = {
        "Conv2D bias": lambda: nn.Conv2D(2, 3, 3, bias=False, dtype="float64"), "Conv1D dtype": lambda: nn.Conv1D(2, 3, 3, dtype="float64"),
        "LayerNorm plain": lambda: nn.LayerNorm(3, elementwise_affine=False), "LayerNorm bias": lambda: nn.LayerNorm(3, bias=False),
        "GroupNorm plain": lambda: nn.GroupNorm(1, 3, affine=False), "Embedding dtype": lambda: nn.Embedding(3, 2, dtype="float64"),
        "Embedding frozen": lambda: nn.Embedding(2, 2, _weight=paddle.eye(2), _freeze=True),
        "Embedding of another shape": lambda: nn.Embedding(3, 2, _weight=paddle.eye(2)),
    }  # fmt: skip
    for name, make in layers.items():
        cases[f"layer {name}"] = lambda m=make: {key: str(value.dtype)[-7:] for key, value in m().state_dict().items()}
    kaiming = paddle.nn.initializer.KaimingUniform
    cases["KaimingUniform mode"] = lambda: bool(
        abs(paddle.create_parameter([8, 2000], "float32", default_initializer=kaiming(mode="fan_out")).numpy()).max() < 0.06
    )
    cases["KaimingUniform otherwise"] = lambda: plain(
        paddle.create_parameter([2, 2], "float32", default_initializer=kaiming(mode="x"))
    )
    return cases


def _trained(paddle, w):
    (w * w).sum().backward()
    return plain(w.grad)


# State ---------------------------------------------------------------------------------------------------------------


def _net(paddle, classes=2):
    nn = paddle.nn
    return nn.Sequential(nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, classes))


def state(paddle):
    """``parameters``, ``state_dict`` and ``set_state_dict`` with statistics, and with another head."""
    cases = {
        "parameters": lambda: [[list(p.shape), p.stop_gradient] for p in _net(paddle).parameters()],
        "named_parameters": lambda: [name for name, _ in _net(paddle).named_parameters()],
        "named_buffers": lambda: [name for name, _ in _net(paddle).named_buffers()],
        "state_dict": lambda: list(_net(paddle).state_dict()),
        "trainable": lambda: len([p for p in _net(paddle).parameters() if not p.stop_gradient]),
        "count": lambda: sum(int(np.prod(p.shape)) for p in _net(paddle).parameters()),
    }

    def another_head():
        net, other = _net(paddle, 2), _net(paddle, 5)
        missing, unexpected = net.set_state_dict(other.state_dict())
        kept = net.state_dict()
        same = [name for name, value in other.state_dict().items() if kept[name].shape == value.shape]
        return [list(missing), list(unexpected), [bool((kept[name] == other.state_dict()[name]).all()) for name in same]]

    def warned():
        with warnings.catch_warnings(record=True) as messages:
            warnings.simplefilter("always")
            _net(paddle).set_state_dict({**_net(paddle, 5).state_dict(), "more": paddle.ones([1])})
        return len([message for message in messages if "4.weight" in str(message.message) or "4.bias" in str(message.message)])

    def less():
        state = _net(paddle).state_dict()
        state.pop("0.bias")
        state["other"] = paddle.ones([2])
        missing, unexpected = _net(paddle).set_state_dict(state)
        return [list(missing), list(unexpected)]

    def trains():
        net, other = _net(paddle), _net(paddle)
        before = [p.numpy() for p in net.parameters()]
        optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        net(paddle.to_tensor(_shuffled(3, 1, 4, 4))).sum().backward()
        optimizer.step()
        moved = [not np.array_equal(a, p.numpy()) for a, p in zip(before, net.parameters(), strict=True)]
        other.set_state_dict(net.state_dict())
        return [moved, [bool((a == b).all()) for a, b in zip(other.parameters(), net.parameters(), strict=True)]]

    cases.update({"another head": another_head, "another head warns": warned, "less and more": less, "training": trains})
    return cases


# Constants and small things ------------------------------------------------------------------------------------------


def small(paddle):
    """Constants, and calls that differed from Paddle in whole programs."""
    t, f = paddle.to_tensor, paddle.nn.functional
    m = lambda: t(_shuffled(3, 4))  # noqa: E731
    cases = {
        "pi": lambda: paddle.pi, "e": lambda: paddle.e, "inf": lambda: paddle.inf, "nan": lambda: str(paddle.nan),
        "newaxis": lambda: list(m()[:, paddle.newaxis].shape),
        "index_put of nothing": lambda: paddle.index_put(m(), (t(np.zeros((3, 4), bool)),), t(1.0)),
        "index_put_ of nothing": lambda: m().index_put_((t(np.zeros((3, 4), bool)),), t(1.0)),
        "index by nothing": lambda: m()[t(np.zeros((3, 4), bool))],
        "sum over a tensor": lambda: paddle.sum(m(), axis=t(1)), "mean over tensors": lambda: paddle.mean(m(), axis=t([0, 1])),
        "max over a tensor": lambda: paddle.max(m(), axis=t(1)), "concat over a tensor": lambda: paddle.concat([m(), m()], axis=t(1)),
        "split over a tensor": lambda: paddle.split(m(), 2, axis=t(1)), "squeeze over a tensor": lambda: paddle.squeeze(paddle.ones([2, 1, 3]), axis=t(1)),
        "unsqueeze over a tensor": lambda: paddle.unsqueeze(m(), axis=t(1)), "gather over a tensor": lambda: paddle.gather(m(), t([0, 2]), axis=t(1)),
        "cumsum over a tensor": lambda: paddle.cumsum(m(), axis=t(1)), "argmax over a tensor": lambda: paddle.argmax(m(), axis=t(1)),
        "isclose with tensors": lambda: paddle.isclose(m(), m() + 0.1, rtol=t([0.5], dtype="float64"), atol=t([0.0], dtype="float64")),
        "allclose with tensors": lambda: paddle.allclose(m(), m(), rtol=t([1e-5], dtype="float64"), atol=t([0.0], dtype="float64")),
        "pad by a tensor": lambda: f.pad(paddle.ones([1, 1, 2, 2]), t([1, 0, 2, 1])),
        "quantile of a tensor": lambda: paddle.quantile(m(), t([0.25, 0.5]), axis=1), "quantile of one": lambda: paddle.quantile(m(), t(0.5), axis=1),
        "unsqueeze repeated axes": lambda: paddle.unsqueeze(m(), [0, 0]), "unsqueeze several axes": lambda: paddle.unsqueeze(m(), [1, 0]),
        "unsqueeze negative axes": lambda: paddle.unsqueeze(m(), [-1, 0]),
        "celu in float64": lambda: f.celu(t([-1.0, 2.0], dtype="float64"), 0.5), "CELU in float64": lambda: paddle.nn.CELU(0.5)(t([-1.0, 2.0], dtype="float64")),
        "one_hot in a default of float64": lambda: _with_default(paddle, "float64", lambda: f.one_hot(t([0, 2]), 3)),
        "shape": lambda: str(m().shape), "shape of nothing": lambda: str(t(1.0).shape), "shape repr": lambda: repr(m().shape),
        "shape sliced": lambda: [list(m().shape[1:]), list(m().shape + [1])],
        "detach shares": lambda: _shared(paddle),
        "enable_to_static": lambda: paddle.jit.enable_to_static(True),
        "assign to output": lambda: _assigned(paddle),
    }  # fmt: skip
    cases = {name: lambda c=compute: plain(c()) for name, compute in cases.items()}

    def loss_without_parameters():
        with static_program(paddle):
            x = paddle.static.data("x", [2])
            x.stop_gradient = False
            return len(paddle.optimizer.SGD(0.1).minimize(paddle.mean(x))[1])

    def assigned_in_a_program():
        with static_program(paddle) as (main, startup):
            held = paddle.static.create_global_var([2], 1.5, "float32", persistable=True, name="held")
            x = paddle.static.data("x", [2])
            paddle.assign(held + x, output=held)
            executor = paddle.static.Executor(paddle.CPUPlace())
            executor.run(startup)
            for _ in range(2):
                executor.run(main, feed={"x": np.array([1, 2], "float32")})
            return numbers(np.asarray(paddle.static.global_scope().find_var("held").get_tensor()))

    def fed_lists():
        with static_program(paddle) as (main, startup):
            x = paddle.static.data("x", [2, 2])
            y = paddle.sum(x * 2)
            executor = paddle.static.Executor(paddle.CPUPlace())
            executor.run(startup)
            return numbers(executor.run(main, feed={"x": [[1.0, 2.0], [3.0, 4.0]]}, fetch_list=[y])[0])

    def fed_a_list_of_one():
        with static_program(paddle) as (main, startup):
            x = paddle.static.data("x", [2])
            executor = paddle.static.Executor(paddle.CPUPlace())
            executor.run(startup)
            return numbers(executor.run(main, feed=[{"x": np.ones(2, "float32")}], fetch_list=[x * 2])[0])

    def loaded(*arrays, **options):
        data = paddle.io.TensorDataset([t(array) for array in arrays])
        return [
            type(batch).__name__ if not isinstance(batch, list) else len(batch)
            for batch in paddle.io.DataLoader(data, batch_size=2, **options)
        ]

    class Single(paddle.io.Dataset):
        def __getitem__(self, index):
            return np.full([3], index, "float32")

        def __len__(self):
            return 4

    class Numbers(Single):
        def __getitem__(self, index):
            return index

    class Named(Single):
        def __getitem__(self, index):
            return {"a": np.float32(index), "b": [index, index]}

    class Pairs(Single):
        def __getitem__(self, index):
            return np.full([3], index, "float32"), index

    def batches(dataset):
        def shown(batch):
            if isinstance(batch, dict):
                return {key: shown(value) for key, value in batch.items()}
            if isinstance(batch, (list, tuple)):
                return [type(batch).__name__, *map(shown, batch)]
            return [type(batch).__name__.replace("EagerTensor", "Tensor"), plain(batch)]

        return [shown(batch) for batch in paddle.io.DataLoader(dataset(), batch_size=2)]

    class Stream(paddle.io.IterableDataset):
        def __iter__(self):
            return iter(np.arange(3))

    kinds = (Single, Numbers, Named, Pairs, Stream)
    cases.update({f"loader of {kind.__name__}": lambda k=kind: batches(k) for kind in kinds})
    cases["a loss without parameters"] = loss_without_parameters
    cases["assign to what a program holds"] = assigned_in_a_program
    cases["fed lists"] = fed_lists
    cases["fed a list of one"] = fed_a_list_of_one
    return cases


def _with_default(paddle, default, compute):
    paddle.set_default_dtype(default)
    try:
        return compute()
    finally:
        paddle.set_default_dtype("float32")


def _shared(paddle):
    x = paddle.to_tensor([1.0, 2.0])
    y = x.detach()
    y[0] = 5.0
    return x.tolist()


def _assigned(paddle):
    out = paddle.zeros([2])
    paddle.assign(paddle.to_tensor([1.0, 2.0]), output=out)
    return out


# Refusals ------------------------------------------------------------------------------------------------------------


def refusals(paddle):
    """Calls that Paddle refuses: the class of the error."""
    t, f, nn = paddle.to_tensor, paddle.nn.functional, paddle.nn
    m = lambda: paddle.ones([3, 4])  # noqa: E731
    calls = {
        "reshape": lambda: m().reshape([5, 5]), "matmul": lambda: paddle.matmul(m(), m()), "add": lambda: m() + paddle.ones([5]),
        "concat of other sizes": lambda: paddle.concat([m(), paddle.ones([3, 5])]), "concat of nothing": lambda: paddle.concat([]),
        "stack of other sizes": lambda: paddle.stack([m(), paddle.ones([3, 5])]), "index": lambda: m()[7], "index deep": lambda: m()[0, 0, 0],
        "squeeze": lambda: paddle.squeeze(m(), 5), "transpose": lambda: paddle.transpose(m(), [0]), "split": lambda: paddle.split(m(), 3, 1),
        "sum": lambda: paddle.sum(m(), axis=5), "topk": lambda: paddle.topk(m(), 9), "gather": lambda: paddle.gather(m(), t([9])),
        "Linear": lambda: nn.Linear(3, 2)(m()), "Conv2D rank": lambda: nn.Conv2D(3, 2, 3)(m()),
        "Conv2D channels": lambda: nn.Conv2D(3, 2, 3)(paddle.ones([1, 4, 8, 8])), "Conv2D groups": lambda: nn.Conv2D(3, 2, 3, groups=2),
        "Conv2D mode": lambda: nn.Conv2D(3, 2, 3, padding_mode="x"), "Embedding padding": lambda: nn.Embedding(3, 2, padding_idx=7),
        "Embedding float": lambda: nn.Embedding(3, 2)(paddle.ones([2])), "Dropout": lambda: nn.Dropout(1.5)(m()),
        "cross_entropy reduction": lambda: f.cross_entropy(m(), t([0, 1, 2]), reduction="x"),
        "mse_loss reduction": lambda: f.mse_loss(m(), m(), reduction="x"), "mse_loss shapes": lambda: f.mse_loss(m(), paddle.ones([2])),
        "to_tensor str": lambda: t("abc"), "to_tensor ragged": lambda: t([[1], [1, 2]]), "to_tensor dtype": lambda: t([1], dtype="x"),
        "astype": lambda: m().astype("nonsense"), "zeros str": lambda: paddle.zeros("abc"), "zeros negative": lambda: paddle.zeros([-2, 3]),
        "ones float": lambda: paddle.ones([1.5]), "full without value": lambda: paddle.full([2]), "arange step": lambda: paddle.arange(0, 1, 0),
        "backward twice": lambda: _backward_twice(paddle), "SGD without parameters": lambda: paddle.optimizer.SGD(0.1),
        "SGD of a tensor": lambda: paddle.optimizer.SGD(0.1, parameters=paddle.ones([2])), "SGD rate": lambda: paddle.optimizer.SGD("x", parameters=[_w(paddle)]),
        "Adam beta": lambda: paddle.optimizer.Adam(beta1=2.0, parameters=[_w(paddle)]), "StepDecay gamma": lambda: paddle.optimizer.lr.StepDecay(0.1, 2, gamma=2.0),
        "ParamAttr": lambda: paddle.ParamAttr(initializer=3), "data_format": lambda: f.conv2d(paddle.ones([1, 1, 3, 3]), paddle.ones([1, 1, 1, 1]), data_format="x"),
        "pool": lambda: f.max_pool2d(m(), 2), "interpolate both": lambda: f.interpolate(paddle.ones([1, 1, 2, 2]), size=[2, 2], scale_factor=2.0, mode="x"),
        "pad mode": lambda: f.pad(m(), [1, 1, 1, 1], mode="x"), "one_hot": lambda: f.one_hot(paddle.ones([2]), 3), "eye": lambda: paddle.eye(-1),
        "where": lambda: paddle.where(m() > 0, m()), "item": lambda: m().item(), "item index": lambda: m().item(99), "bool": lambda: bool(m()),
        "float": lambda: float(m()), "len": lambda: len(t(1.0)), "set_value": lambda: m().set_value(np.ones([2], "float32")),
        "norm p": lambda: paddle.norm(m(), p="x"), "cholesky": lambda: paddle.linalg.cholesky(paddle.ones([2, 3])), "inv": lambda: paddle.inverse(paddle.ones([2, 3])),
        "dot": lambda: paddle.dot(paddle.ones([2]), paddle.ones([3])), "bmm": lambda: paddle.bmm(m(), m()), "einsum": lambda: paddle.einsum("ij,jk->ik", m()),
        "broadcast_to": lambda: paddle.broadcast_to(m(), [2, 4]), "expand": lambda: m().expand([2, 4]), "tile": lambda: paddle.tile(m(), "x"),
        "state of a layer": lambda: nn.Linear(2, 2).set_state_dict(3), "Sequential": lambda: nn.Sequential(3), "add_sublayer": lambda: nn.Layer().add_sublayer("x", 3),
        "add_parameter": lambda: nn.Layer().add_parameter("x", 3), "attribute of a layer": lambda: nn.Layer().nothing, "attribute of a tensor": lambda: m().nothing,
        "LayerNorm": lambda: nn.LayerNorm(5)(m()), "BatchNorm": lambda: nn.BatchNorm1D(5)(m()), "GroupNorm": lambda: nn.GroupNorm(2, 3),
        "MultiHeadAttention": lambda: nn.MultiHeadAttention(5, 2), "LSTM direction": lambda: nn.LSTM(2, 2, direction="x"), "load": lambda: paddle.load("/nothing/here"),
        "Normal": lambda: paddle.create_parameter([2], "float32", default_initializer=nn.initializer.Normal("x")), "set_default_dtype": lambda: paddle.set_default_dtype("int32"),
        "set_device": lambda: paddle.set_device("nothing"), "seed": lambda: paddle.seed("x"), "grad unused": lambda: paddle.grad(_w(paddle).sum(), paddle.ones([2], requires_grad=True)),
        "DataLoader": lambda: paddle.io.DataLoader(3), "BatchSampler": lambda: paddle.io.BatchSampler(), "Subset": lambda: paddle.io.Subset([1], [3])[0],
        "random_split": lambda: paddle.io.random_split([1, 2], [1, 3]), "clip grad": lambda: paddle.optimizer.SGD(0.1, parameters=[_w(paddle)], grad_clip=3),
        "weight_decay": lambda: paddle.optimizer.SGD(0.1, parameters=[_w(paddle)], weight_decay="x"), "auto_cast": lambda: paddle.amp.auto_cast(level="O7").__enter__(),
    }  # fmt: skip

    def judged(call):
        result = call()
        if hasattr(result, "numpy"):
            result.numpy()
        return "accepted"

    return {name: lambda c=call: judged(c) for name, call in calls.items()}


def _w(paddle):
    return paddle.create_parameter([2], "float32")


def _backward_twice(paddle):
    x = paddle.ones([2], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()


# Distributions -------------------------------------------------------------------------------------------------------


def distributions(paddle):
    """Densities, moments, entropies and divergences of each distribution, and the shape and the mean of its samples."""
    if not hasattr(paddle, "distribution"):
        return {}
    d = paddle.distribution
    t = lambda *v: paddle.to_tensor(list(v), dtype="float32")  # noqa: E731
    made = {
        "Normal": (lambda: d.Normal(t(0.5, -1.0), t(1.0, 2.0)), t(0.3, 0.4)), "Normal of numbers": (lambda: d.Normal(0.0, 2.0), t(0.3, 0.4)),
        "Uniform": (lambda: d.Uniform(t(0.0, -1.0), t(1.0, 2.0)), t(0.3, 1.4)), "LogNormal": (lambda: d.LogNormal(t(0.5, -1.0), t(1.0, 2.0)), t(0.3, 0.4)),
        "Laplace": (lambda: d.Laplace(t(0.5, -1.0), t(1.0, 2.0)), t(0.3, 0.4)), "Gumbel": (lambda: d.Gumbel(t(0.5, -1.0), t(1.0, 2.0)), t(0.3, 0.4)),
        "Cauchy": (lambda: d.Cauchy(t(0.5, -1.0), t(1.0, 2.0)), t(0.3, 0.4)), "Exponential": (lambda: d.Exponential(t(0.5, 2.0)), t(0.3, 0.4)),
        "Bernoulli": (lambda: d.Bernoulli(t(0.3, 0.9)), t(1.0, 0.0)), "Geometric": (lambda: d.Geometric(t(0.3, 0.9)), t(2.0, 0.0)),
        "Categorical": (lambda: d.Categorical(paddle.to_tensor([[0.3, 0.9, 0.2], [1.0, 0.4, 2.0]])), paddle.to_tensor([[2], [0]])),
        "Multinomial": (lambda: d.Multinomial(4, t(0.3, 0.5, 0.2)), t(1.0, 2.0, 1.0)), "Beta": (lambda: d.Beta(t(0.5, 2.0), t(1.0, 3.0)), t(0.3, 0.4)),
        "Gamma": (lambda: d.Gamma(t(0.5, 2.0), t(1.0, 3.0)), t(0.3, 0.4)), "Chi2": (lambda: d.Chi2(t(2.0, 3.0)), t(0.3, 0.4)),
        "Dirichlet": (lambda: d.Dirichlet(t(0.5, 2.0, 1.0)), t(0.2, 0.3, 0.5)), "Poisson": (lambda: d.Poisson(t(0.5, 2.0)), t(1.0, 4.0)),
        "Binomial": (lambda: d.Binomial(t(5.0, 6.0), t(0.3, 0.8)), t(1.0, 4.0)), "StudentT": (lambda: d.StudentT(t(3.0, 5.0), t(0.5, -1.0), t(1.0, 2.0)), t(0.3, 0.4)),
        "ContinuousBernoulli": (lambda: d.ContinuousBernoulli(t(0.3, 0.9)), t(0.3, 0.4)),
        "MultivariateNormal": (lambda: d.MultivariateNormal(t(0.5, -1.0), covariance_matrix=paddle.to_tensor([[2.0, 0.3], [0.3, 1.0]])), t(0.3, 0.4)),
        "Independent": (lambda: d.Independent(d.Normal(t(0.5, -1.0), t(1.0, 2.0)), 1), t(0.3, 0.4)),
        "TransformedDistribution": (lambda: d.TransformedDistribution(d.Normal(t(0.5, -1.0), t(1.0, 2.0)), [d.ExpTransform(), d.AffineTransform(t(1.0), t(2.0))]), t(3.3, 4.4)),
    }  # fmt: skip
    cases = {}
    for name, (make, value) in made.items():
        for question in ("mean", "variance", "stddev", "batch_shape", "event_shape"):
            cases[f"{name} {question}"] = lambda m=make, q=question: _shown(getattr(m(), q))
        for question in ("log_prob", "prob", "cdf", "icdf"):
            argument = value if question != "icdf" else t(0.3, 0.6)
            cases[f"{name} {question}"] = lambda m=make, q=question, v=argument: _shown(getattr(m(), q)(v))
        cases[f"{name} entropy"] = lambda m=make: _shown(m().entropy())
        cases[f"{name} sample"] = lambda m=make: list(m().sample([3, 2]).shape)
        cases[f"{name} rsample"] = lambda m=make: list(m().rsample([3]).shape)
    pairs = {
        "Normal": lambda a: d.Normal(t(a, -1.0), t(1.0, 2.0 * a)), "Uniform": lambda a: d.Uniform(t(0.0, -1.0), t(2.0 * a, 2.0)),
        "Laplace": lambda a: d.Laplace(t(a, -1.0), t(1.0, 2.0 * a)), "LogNormal": lambda a: d.LogNormal(t(a, -1.0), t(1.0, 2.0 * a)),
        "Exponential": lambda a: d.Exponential(t(a, 2.0)), "Bernoulli": lambda a: d.Bernoulli(t(a / 2, 0.9)), "Geometric": lambda a: d.Geometric(t(a / 2, 0.9)),
        "Categorical": lambda a: d.Categorical(t(a, 0.9, 0.2)), "Beta": lambda a: d.Beta(t(a, 2.0), t(1.0, 3.0)), "Gamma": lambda a: d.Gamma(t(a, 2.0), t(1.0, 3.0)),
        "Dirichlet": lambda a: d.Dirichlet(t(a, 2.0, 1.0)), "Poisson": lambda a: d.Poisson(t(a, 2.0)), "Binomial": lambda a: d.Binomial(t(5.0), t(a / 2)),
        "Cauchy": lambda a: d.Cauchy(t(a, -1.0), t(1.0, 2.0 * a)), "ContinuousBernoulli": lambda a: d.ContinuousBernoulli(t(a / 2, 0.9)),
        "MultivariateNormal": lambda a: d.MultivariateNormal(t(a, -1.0), covariance_matrix=paddle.to_tensor([[2.0, 0.3], [0.3, a]])),
    }  # fmt: skip
    for name, make in pairs.items():
        cases[f"{name} kl"] = lambda m=make: _shown(d.kl_divergence(m(0.6), m(1.3)))
        cases[f"{name} kl_divergence"] = lambda m=make: _shown(m(0.6).kl_divergence(m(1.3)))
    transforms = {
        "Abs": lambda: d.AbsTransform(), "Affine": lambda: d.AffineTransform(t(1.0), t(-2.0)), "Exp": lambda: d.ExpTransform(),
        "Power": lambda: d.PowerTransform(t(2.0)), "Sigmoid": lambda: d.SigmoidTransform(), "Tanh": lambda: d.TanhTransform(),
        "Softmax": lambda: d.SoftmaxTransform(), "StickBreaking": lambda: d.StickBreakingTransform(), "Reshape": lambda: d.ReshapeTransform((2,), (1, 2)),
        "Chain": lambda: d.ChainTransform([d.ExpTransform(), d.AffineTransform(t(1.0), t(2.0))]), "Independent": lambda: d.IndependentTransform(d.ExpTransform(), 1),
        "Stack": lambda: d.StackTransform([d.ExpTransform(), d.TanhTransform()], 0),
    }  # fmt: skip
    for name, make in transforms.items():
        cases[f"{name}Transform forward"] = lambda m=make: _shown(m().forward(t(0.3, 0.4)))
        cases[f"{name}Transform inverse"] = lambda m=make: _shown(m().inverse(m().forward(t(0.3, 0.4))))
        cases[f"{name}Transform forward_log_det"] = lambda m=make: _shown(m().forward_log_det_jacobian(t(0.3, 0.4)))
        cases[f"{name}Transform inverse_log_det"] = lambda m=make: _shown(m().inverse_log_det_jacobian(m().forward(t(0.3, 0.4))))
        cases[f"{name}Transform shapes"] = lambda m=make: [
            list(m().forward_shape((2,))),
            list(m().inverse_shape(m().forward_shape((2,)))),
        ]

    def in_a_program():
        with static_program(paddle) as (main, startup):
            mu, sigma = paddle.static.data("mu", [2]), paddle.static.data("sigma", [2])
            normal, other = d.Normal(mu, sigma), d.Normal(0.0, 1.0)
            fetched = [normal.log_prob(paddle.full([2], 0.3)), normal.entropy(), d.kl_divergence(normal, other), normal.sample([3])]
            executor = paddle.static.Executor(paddle.CPUPlace())
            executor.run(startup)
            feed = {"mu": np.array([0.5, 1.0], "float32"), "sigma": np.array([1.0, 2.0], "float32")}
            results = executor.run(main, feed=feed, fetch_list=fetched)
            return [*map(numbers, results[:3]), list(results[3].shape)]

    def learned():
        mu = paddle.to_tensor([0.5, 1.0], stop_gradient=False)
        (-d.Normal(mu, t(1.0, 1.0)).log_prob(t(0.0, 3.0))).sum().backward()
        return plain(mu.grad)

    cases["in a program"], cases["gradient"] = in_a_program, learned
    return cases


def _shown(value):
    if isinstance(value, (list, tuple)) and not hasattr(value, "numpy"):
        return [plain(item) for item in value]
    return plain(value)


# Optimizers around others --------------------------------------------------------------------------------------------


def around(paddle):
    """LookAhead, ModelAverage and recompute: the parameters after some steps."""

    def steps(wrap, count=4, after=lambda optimizer, inner: None):
        w = paddle.create_parameter(
            [2], "float32", default_initializer=paddle.nn.initializer.Assign(np.array([0.5, -1.0], "float32"))
        )
        inner = paddle.optimizer.SGD(0.1, parameters=[w])
        optimizer = wrap(inner, w)
        record = []
        for step in range(count):
            loss = (w * w * (step + 1)).sum() + w.sum()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            record.append(numbers(w.numpy()))
        return record

    cases = {
        f"LookAhead {alpha} {k}": lambda a=alpha, k=k: steps(lambda inner, w: paddle.incubate.optimizer.LookAhead(inner, a, k))
        for alpha, k in ((0.5, 2), (0.2, 3), (0.8, 1))
    }
    cases["LookAhead alpha"] = lambda: steps(lambda inner, w: paddle.incubate.optimizer.LookAhead(inner, alpha=2.0))
    cases["LookAhead of nothing"] = lambda: paddle.incubate.optimizer.LookAhead(None)

    def averaged(rate, minimum, maximum, count=6):
        w = paddle.create_parameter(
            [2], "float32", default_initializer=paddle.nn.initializer.Assign(np.array([0.5, -1.0], "float32"))
        )
        inner = paddle.optimizer.SGD(0.1, parameters=[w])
        average = paddle.incubate.optimizer.ModelAverage(
            rate, parameters=[w], min_average_window=minimum, max_average_window=maximum
        )
        record = []
        for step in range(count):
            (w * w * (step + 1)).sum().backward()
            inner.step()
            average.step()
            inner.clear_grad()
            average.clear_grad()
            record.append(numbers(w.numpy()))
        with average.apply(need_restore=True):
            record.append(numbers(w.numpy()))
        record.append(numbers(w.numpy()))
        average.apply(need_restore=False)
        record.append(numbers(w.numpy()))
        average.restore()
        return [*record, numbers(w.numpy())]

    for settings in ((0.15, 2, 10), (0.5, 1, 3), (1.0, 4, 4)):
        cases[f"ModelAverage {settings}"] = lambda s=settings: averaged(*s)

    def recomputed(**options):
        paddle.seed(3)
        net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 2))
        for p, seed in zip(net.parameters(), range(9), strict=False):
            p.set_value(_shuffled(*p.shape, seed=seed))
        x = paddle.to_tensor(_shuffled(5, 3), stop_gradient=False)
        from importlib import import_module

        recompute = import_module(f"{paddle.__name__}.distributed.fleet.utils").recompute
        y = recompute(net, x, **options)
        (y * y).sum().backward()
        return [plain(y), plain(x.grad), *(plain(p.grad) for p in net.parameters())]

    cases["recompute"] = recomputed
    cases["recompute without seeds"] = lambda: recomputed(preserve_rng_state=False)
    cases["recompute reentrant"] = lambda: recomputed(use_reentrant=False)

    def cast():
        with paddle.amp.auto_cast(dtype="bfloat16"):
            y = paddle.matmul(paddle.ones([2, 3]), paddle.ones([3, 2]))
            z = paddle.nn.functional.softmax(y)
        return [plain(y), plain(z)]

    cases["bfloat16 on the CPU"] = cast
    cases["dumped"] = lambda: _dumped(paddle)
    return cases


def _dumped(paddle):
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        x = paddle.ones([2], requires_grad=True)
        (x * x).sum().backward(dump_backward_graph_path=folder)
        return len(list(Path(folder).iterdir()))


def model(paddle):
    """``paddle.Model``: what its methods give, and the parameters after them."""
    nn = paddle.nn
    inputs, labels = _shuffled(10, 3), np.arange(10).reshape(10, 1) % 2

    def made(metrics=True, steps=True):
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        for p, seed in zip(net.parameters(), range(9), strict=False):
            p.set_value(_shuffled(*p.shape, seed=seed))
        wrapped = paddle.Model(
            net, paddle.static.InputSpec([None, 3], "float32", "x"), paddle.static.InputSpec([None, 1], "int64", "y")
        )
        optimizer = paddle.optimizer.Adam(0.1, parameters=wrapped.parameters())
        wrapped.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy() if metrics else None)
        return wrapped

    def data():
        return paddle.io.TensorDataset([paddle.to_tensor(inputs), paddle.to_tensor(labels)])

    def weights(wrapped):
        return [numbers(p.numpy()) for p in wrapped.parameters()]

    def fitted(**options):
        wrapped = made()
        result = wrapped.fit(data(), batch_size=4, epochs=2, shuffle=False, verbose=0, **options)
        return [result, *weights(wrapped)]

    def evaluated(metrics=True):
        return {name: numbers(value) for name, value in made(metrics).evaluate(data(), batch_size=4, verbose=0).items()}

    def predicted(**options):
        result = made().predict(paddle.io.TensorDataset([paddle.to_tensor(inputs)]), batch_size=4, verbose=0, **options)
        return [[len(output), *map(numbers, output)] for output in result]

    def batch():
        wrapped = made()
        results = [wrapped.train_batch([inputs], [labels]), wrapped.eval_batch([inputs], [labels])]
        return [[numbers(losses), numbers(metrics)] for losses, metrics in results] + [numbers(made().predict_batch([inputs])[0])]

    def without_metrics():
        wrapped = made(False)
        return [
            numbers(wrapped.train_batch([inputs], [labels], update=False)),
            numbers(wrapped.train_batch([inputs], [labels])),
            *weights(wrapped),
        ]

    def saved():
        with tempfile.TemporaryDirectory() as folder:
            wrapped, other = made(), made()
            wrapped.train_batch([inputs], [labels])
            wrapped.save(f"{folder}/net")
            other.load(f"{folder}/net")
            return weights(other)

    return {
        "fit": fitted, "fit in part": lambda: fitted(num_iters=4), "fit in twos": lambda: fitted(accumulate_grad_batches=2),
        "evaluate": evaluated, "evaluate without metrics": lambda: evaluated(False), "predict": predicted,
        "predict stacked": lambda: predicted(stack_outputs=True), "batch": batch, "batch without metrics": without_metrics, "saved": saved,
        "no Layer": lambda: paddle.Model(3), "no metric": lambda: made().prepare(metrics=3), "not prepared": lambda: paddle.Model(nn.Linear(3, 2)).train_batch(inputs),
    }  # fmt: skip


# Files ---------------------------------------------------------------------------------------------------------------


def trained(paddle):
    """A network and its optimizer, after three steps."""
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1D(4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(0.1, 2), parameters=net.parameters())
    return net, optimizer


def train(paddle, net, optimizer, steps):
    """The loss of each step."""
    x, losses = paddle.to_tensor(_shuffled(5, 3)), []
    for _ in range(steps):
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        optimizer._learning_rate.step()
        losses.append(float(loss))
    return losses


def write_files(paddle, folder):
    """What Paddle saves of three steps, the losses of the next two, and other things in one file."""
    net, optimizer = trained(paddle)
    train(paddle, net, optimizer, 3)
    x = paddle.to_tensor(_shuffled(2, 3))
    paddle.save(net.state_dict(), str(folder / "net.pdparams"))
    paddle.save(net.state_dict(), str(folder / "protocol2.pdparams"), protocol=2)
    paddle.save(optimizer.state_dict(), str(folder / "net.pdopt"))
    nested = {"epoch": 3, "names": ["a", ("b", 2)], "x": x, "half": x.astype("float16"), "short": x.astype("bfloat16")}
    paddle.save({**nested, "none": None, "flag": True, "rate": 0.5, "net": net.state_dict()}, str(folder / "nested.pdparams"))
    return {"losses": train(paddle, net, optimizer, 2), "x": numbers(x.numpy())}


SECTIONS = [options, state, small, refusals, distributions, around, model]
