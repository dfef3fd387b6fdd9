"""Layers as objects: each is its function with the options given when it is made; names, values and gradients as Paddle's."""

import copy
import re

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import errors, nn, static
from onnxgrad.nn import functional_layers

RNG = np.random.default_rng(3)


def tensor(*shape, grad=False):
    return paddle.to_tensor(RNG.normal(size=shape).astype("float32"), stop_gradient=not grad)


SHAPES = {"1D": (2, 4, 6), "2D": (2, 4, 6, 6), "3D": (2, 4, 6, 6, 6)}
ARGUMENTS = {
    "Maxout": (2,), "Unflatten": (1, [2, 2]), "PixelShuffle": (2,), "PixelUnshuffle": (2,), "ChannelShuffle": (2,), "ZeroPad2D": (1,),
    "LocalResponseNorm": (3,), "Upsample": ([12, 12],), "UpsamplingNearest2D": ([12, 12],), "UpsamplingBilinear2D": ([12, 12],),
    "Unfold": (2,), "Fold": ([3, 3], 2), "LPPool1D": (2, 2), "LPPool2D": (2, 2),
}  # fmt: skip
LOSSES = {
    "BCELoss",
    "BCEWithLogitsLoss",
    "HingeEmbeddingLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "MultiLabelSoftMarginLoss",
}
MODES = {"Constant": "constant", "Reflection": "reflect", "Replication": "replicate", "Circular": "circular"}  # fmt: skip


def operands(name):
    if name == "Fold":
        return [tensor(2, 16, 4)]
    if name in LOSSES:
        return [paddle.nn.functional.sigmoid(tensor(3, 4)), paddle.to_tensor((RNG.random((3, 4)) > 0.5).astype("float32"))]
    if name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"):
        return [F.log_softmax(tensor(3, 4)), paddle.to_tensor(np.array([0, 1, 3]))]
    if name == "MultiLabelMarginLoss":
        return [tensor(3, 4), paddle.to_tensor(np.array([[0, 2, -1, -1], [3, -1, 1, 0], [-1, 0, 1, 2]]))]
    if name == "CTCLoss":
        return [tensor(6, 2, 4), *(paddle.to_tensor(np.array(v)) for v in ([[1, 2], [3, 0]], [6, 5], [2, 1]))]
    if name in ("CosineSimilarity", "PairwiseDistance"):
        return [tensor(3, 4), tensor(3, 4)]
    if name == "CosineEmbeddingLoss":
        return [tensor(3, 4), tensor(3, 4), paddle.to_tensor(np.array([1.0, -1.0, 1.0], np.float32))]
    if name == "GaussianNLLLoss":
        return [tensor(3, 4), tensor(3, 4), tensor(3, 4).abs()]
    if name in ("MarginRankingLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss"):
        return [tensor(3, 4), tensor(3, 4), tensor(3, 4).sign()]
    return [tensor(*SHAPES.get(name[-2:], SHAPES["2D"]))]


@pytest.mark.parametrize("name", functional_layers.__all__)
def test_a_layer_gives_what_its_function_gives(name):
    kind = getattr(functional_layers, name)
    function = re.search(r"The layer of ``(?:nn\.functional|paddle)\.(\w+)``", kind.__doc__)[1]
    if name.startswith("MaxUnPool"):
        pooled, at = getattr(F, f"max_pool{name[-2:].lower()}")(tensor(*SHAPES[name[-2:]]), 2, return_mask=True)
        np.testing.assert_array_equal(kind(2)(pooled, at).numpy(), getattr(F, function)(pooled, at, 2).numpy())
        return
    pools = "Pool" in name and name not in ARGUMENTS
    border = name[:-5] if name[:-5] in MODES else ""
    args = ARGUMENTS.get(name, (2,) if pools or border or (name.startswith(("Pad", "ZeroPad"))) else ())
    args = (2, 0.5) if border == "Constant" else args
    given = operands(name)
    layer = kind(*args)
    layer.eval()
    assert getattr(nn, name) is kind
    found = layer(*given)
    if "Dropout" in name or name == "RReLU":
        expected = getattr(F, function)(*given, training=False)
    elif border:
        layout = {"1D": "NCL", "2D": "NCHW", "3D": "NCDHW"}[name[-2:]]
        expected = F.pad(given[0], 2, mode=MODES[border], value=0.5 if border == "Constant" else 0.0, data_format=layout)
    elif name.startswith(("Pad", "ZeroPad1", "ZeroPad3")):
        expected = F.pad(given[0], 2, data_format={"1D": "NCL", "2D": "NCHW", "3D": "NCDHW"}[name[-2:]])
    elif name.startswith("Upsampling"):
        options = {"mode": "bilinear", "align_corners": True} if "Bilinear" in name else {}
        expected = F.interpolate(given[0], *args, **options)
    elif name == "Flatten":
        expected = paddle.flatten(given[0], 1)
    elif name == "Unflatten":
        expected = paddle.unflatten(given[0], *args)
    else:
        expected = getattr(F, function)(*given, *args)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_a_reduction_is_checked_when_a_layer_is_made():
    with pytest.raises(ValueError, match="reduction"):
        nn.BCELoss(reduction="median")
    with pytest.raises(TypeError):
        nn.ReLU(threshold=3)


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        (nn.Conv1D, (2, 4, 8), [2, 6, 8]),
        (nn.Conv2D, (2, 4, 8, 8), [2, 6, 8, 8]),
        (nn.Conv3D, (2, 4, 5, 5, 5), [2, 6, 5, 5, 5]),
        (nn.Conv1DTranspose, (2, 4, 8), [2, 6, 8]),
        (nn.Conv2DTranspose, (2, 4, 8, 8), [2, 6, 8, 8]),
        (nn.Conv3DTranspose, (2, 4, 5, 5, 5), [2, 6, 5, 5, 5]),
    ],
)
def test_convolutions(kind, shape, expected):
    layer = kind(4, 6, 3, padding=1, groups=2)
    y = layer(tensor(*shape))
    y.sum().backward()
    assert y.shape == expected
    assert layer.weight.grad.shape == layer.weight.shape
    with pytest.raises(ValueError, match="groups"):
        kind(4, 6, 3, groups=4)


@pytest.mark.parametrize("pads", [[3, 4, 0, 0], [7, 8, 5, 1]])
def test_a_circle_may_be_longer_than_the_axis(pads):
    x = paddle.to_tensor(np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3), stop_gradient=False)
    y = paddle.nn.functional.pad(x, pads, mode="circular")
    left, right, top, bottom = pads
    np.testing.assert_array_equal(y.numpy(), np.pad(x.numpy(), [(0, 0), (0, 0), (top, bottom), (left, right)], mode="wrap"))
    weights = np.random.default_rng(0).normal(size=y.shape).astype(np.float32)
    (y * weights).sum().backward()
    expected = np.zeros((2, 3), np.float32)
    rows, columns = np.indices(weights.shape[2:])
    np.add.at(expected, ((rows - top) % 2, (columns - left) % 3), weights[0, 0])
    np.testing.assert_allclose(x.grad.numpy()[0, 0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_a_border_of_another_kind(mode):
    layer, x = nn.Conv2D(1, 1, 3, padding=(1, 2), padding_mode=mode, bias_attr=False), tensor(1, 1, 5, 6)
    rows = np.pad(
        x.numpy(), ((0, 0), (0, 0), (1, 1), (2, 2)), {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    )
    np.testing.assert_allclose(layer(x).numpy(), F.conv2d(paddle.to_tensor(rows), layer.weight).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "cell"), [(nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell), (nn.SimpleRNN, nn.SimpleRNNCell)])
@pytest.mark.parametrize("lengths", [None, [5, 3]])
def test_a_sequence_is_what_its_cell_gives_step_by_step(kind, cell, lengths):
    whole, one, x = kind(3, 4), cell(3, 4), tensor(2, 5, 3, grad=True)
    one.set_state_dict({name.removesuffix("_l0"): value for name, value in whole.state_dict().items()})
    lengths = None if lengths is None else paddle.to_tensor(np.array(lengths))
    y, states = whole(x, sequence_length=lengths)
    expected, last = nn.RNN(one)(x, sequence_length=lengths)
    np.testing.assert_allclose(y.numpy(), expected.numpy(), atol=1e-6)
    pairs = zip(states, last, strict=True) if kind is nn.LSTM else [(states, last)]
    for found, end in pairs:
        np.testing.assert_allclose(found.numpy()[0], end.numpy(), atol=1e-6)
    (y * y).sum().backward()
    gradient = x.grad.numpy()
    x.clear_gradient(False)
    (expected * expected).sum().backward()
    np.testing.assert_allclose(gradient, x.grad.numpy(), atol=1e-5)
    np.testing.assert_allclose(whole.weight_hh_l0.grad.numpy(), one.weight_hh.grad.numpy(), atol=1e-5)


def test_both_directions_and_layers():
    model, x = nn.GRU(3, 4, num_layers=2, direction="bidirect"), tensor(2, 5, 3)
    y, last = model(x)
    assert (y.shape, last.shape) == ([2, 5, 8], [4, 2, 4])
    assert [name for name, _ in model.named_parameters()][4:6] == ["weight_ih_l0_reverse", "weight_hh_l0_reverse"]
    forward, backward = nn.GRUCell(3, 4), nn.GRUCell(3, 4)
    state = model.state_dict()
    forward.set_state_dict({name: state[f"{name}_l0"] for name in forward.state_dict()})
    backward.set_state_dict({name: state[f"{name}_l0_reverse"] for name in backward.state_dict()})
    one = nn.GRU(3, 4, direction="bidirect")
    one.set_state_dict({name: value for name, value in state.items() if "_l0" in name})
    np.testing.assert_allclose(one(x)[0].numpy(), nn.BiRNN(forward, backward)(x)[0].numpy(), atol=1e-6)


def test_a_decoder_with_a_cache_gives_what_a_mask_gives():
    model = nn.Transformer(8, 2, 2, 2, 16)
    model.eval()
    memory, target = tensor(2, 4, 8), tensor(2, 3, 8)
    expected = model.decoder(target, memory, model.generate_square_subsequent_mask(3)).numpy()
    cache, found = model.decoder.gen_cache(memory), []
    for t in range(3):
        y, cache = model.decoder(target[:, t : t + 1], memory, cache=cache)
        found.append(y.numpy())
    np.testing.assert_allclose(np.concatenate(found, 1), expected, atol=1e-5)
    mask = paddle.to_tensor(np.tril(np.ones((3, 3), bool)))
    np.testing.assert_allclose(model.decoder(target, memory, mask).numpy(), expected, atol=1e-5)


def test_attention_is_softmax_of_scaled_products():
    layer, x = nn.MultiHeadAttention(6, 2), tensor(2, 3, 6)
    q, k, v = (getattr(layer, f"{name}_proj")(x).numpy().reshape(2, 3, 2, 3).transpose(0, 2, 1, 3) for name in ("q", "k", "v"))
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(3)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    joined = (weights @ v).transpose(0, 2, 1, 3).reshape(2, 3, 6)
    expected = layer.out_proj(paddle.to_tensor(joined.astype("float32")))
    np.testing.assert_allclose(layer(x).numpy(), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_loss_sums_over_all_alignments(blank):
    logits, labels, steps, words = RNG.normal(size=(4, 2, 3)), np.array([[1, 0], [0, 0]]), np.array([4, 3]), np.array([2, 1])
    labels = np.where(labels >= blank, labels + 1, labels) if blank == 0 else labels
    given = [paddle.to_tensor(v) for v in (logits.astype("float32"), labels, steps, words)]
    given[0].stop_gradient = False
    found = F.ctc_loss(*given, blank=blank, reduction="none")
    np.testing.assert_allclose(found.numpy(), alignments(logits, labels, steps, words, blank), rtol=1e-5)
    F.ctc_loss(*given, blank=blank, reduction="sum").backward()
    wanted = differences(lambda x: alignments(x, labels, steps, words, blank).sum(), logits)
    np.testing.assert_allclose(given[0].grad.numpy(), wanted, atol=1e-4)
    mean = F.ctc_loss(*given, blank=blank)
    np.testing.assert_allclose(float(mean), (found.numpy() / words).mean(), rtol=1e-5)


def test_ctc_loss_is_0_where_no_alignment_fits():
    logits, steps, words = RNG.normal(size=(3, 3, 4)).astype("float32"), np.array([3, 3, 1]), np.array([2, 2, 2])
    labels = np.array([[1, 2], [1, 1], [2, 3]])
    given = [paddle.to_tensor(v) for v in (logits, labels, steps, words)]
    given[0].stop_gradient = False
    found = F.ctc_loss(*given, reduction="none")
    np.testing.assert_allclose(found.numpy()[:2], alignments(logits[:, :2], labels[:2], steps, words, 0), rtol=1e-5)
    assert found.numpy()[2] == 0
    F.ctc_loss(*given, reduction="sum").backward()
    assert np.isfinite(given[0].grad.numpy()).all()
    assert not given[0].grad.numpy()[:, 2].any()
    assert np.abs(given[0].grad.numpy()[:, :2]).max() > 0.1


def differences(function, x, step=1e-5):
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[at] = step
        found[at] = (function(x + moved) - function(x - moved)) / (2 * step)
    return found


def alignments(logits, labels, steps, words, blank):
    """The loss by trying every path."""
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    totals = []
    for row in range(logits.shape[1]):
        total = 0.0
        for path in np.ndindex(*[logits.shape[2]] * int(steps[row])):
            merged = [c for at, c in enumerate(path) if c != blank and (at == 0 or path[at - 1] != c)]
            if merged == list(labels[row, : words[row]]):
                total += np.prod([p[t, row, c] for t, c in enumerate(path)])
        totals.append(-np.log(total))
    return np.array(totals)


def test_weight_and_spectral_norm():
    layer = nn.utils.weight_norm(nn.Linear(3, 4), dim=1)
    x, before = tensor(2, 3), layer.weight.numpy()
    layer(x).sum().backward()
    assert sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight_g", "weight_v"]
    assert layer.weight_g.grad.shape == [4]
    layer.weight_g.set_value(layer.weight_g.numpy() * 2)
    np.testing.assert_allclose(layer(x).numpy() - layer.bias.numpy(), x.numpy() @ before * 2, rtol=1e-5)
    nn.utils.remove_weight_norm(layer)
    np.testing.assert_allclose(layer.weight.numpy(), before * 2, rtol=1e-6)
    with pytest.raises(errors.ArgumentError):
        nn.utils.remove_weight_norm(layer)
    normed = nn.utils.spectral_norm(nn.Linear(3, 4), n_power_iterations=30)
    normed(x)
    np.testing.assert_allclose(np.linalg.norm(normed.weight.numpy(), 2), 1.0, rtol=1e-3)


def test_gradients_clipped_by_hand():
    layer = nn.Linear(3, 4)
    layer(tensor(2, 3)).sum().backward()
    parameters = layer.parameters()
    before = np.sqrt(sum((p.grad.numpy() ** 2).sum() for p in parameters))
    np.testing.assert_allclose(float(nn.utils.clip_grad_norm_(parameters, 0.5)), before, rtol=1e-5)
    np.testing.assert_allclose(np.sqrt(sum((p.grad.numpy() ** 2).sum() for p in parameters)), 0.5, rtol=1e-4)
    nn.utils.clip_grad_value_(parameters, 0.01)
    assert max(np.abs(p.grad.numpy()).max() for p in parameters) <= 0.01
    vector = nn.utils.parameters_to_vector(parameters)
    nn.utils.vector_to_parameters(vector * 0.0, parameters)
    assert not layer.weight.numpy().any()


def test_hooks_containers_and_state():
    layer, called = nn.Linear(2, 2), []
    before = layer.register_forward_pre_hook(lambda layer, inputs: called.append("before"))
    layer.register_forward_post_hook(lambda layer, inputs, y: y * 0.0)
    assert layer(tensor(1, 2)).numpy().tolist() == [[0.0, 0.0]]
    before.remove()
    layer(tensor(1, 2))
    assert called == ["before"]
    layers = nn.LayerList([nn.Linear(2, 2), nn.ReLU()])
    layers.insert(1, nn.Tanh())
    layers[0] = nn.Linear(2, 3)
    assert [type(one).__name__ for one in layers] == ["Linear", "Tanh", "ReLU"]
    named = nn.LayerDict({"a": nn.Linear(2, 2)})
    named["b"] = nn.ReLU()
    assert list(named.keys()) == ["a", "b"]
    assert sorted(named.state_dict()) == ["a.bias", "a.weight"]
    weights = nn.ParameterDict({"w": paddle.create_parameter([2], "float32")})
    assert [name for name, _ in weights.named_parameters()] == ["w"]
    assert len(nn.ParameterList([paddle.create_parameter([2], "float32")]).parameters()) == 1
    with pytest.raises(KeyError):
        layer.register_buffer("a.b", tensor(1))


def test_two_layers_of_one_name_do_not_share_weights():
    from onnxgrad.utils import unique_name

    with static.program_guard(static.Program()):
        x = static.data("x", [None, 2])
        with unique_name.guard():
            first = nn.Linear(2, 2)
        with unique_name.guard():
            second = nn.Linear(2, 2)
        y = first(x)
        first(y)
        with pytest.raises(errors.DuplicateName, match="linear"):
            second(y)


def test_options_of_a_group_are_its_own():
    def trained(**options):
        a, b = (paddle.create_parameter([2], "float32", default_initializer=nn.initializer.Constant(1.0)) for _ in range(2))
        opt = paddle.optimizer.Adam(0.1, parameters=[{"params": [a], **options}, {"params": [b]}])
        for x in (1.0, -0.3, 0.1):
            (a * x + b * x).sum().backward()
            opt.step()
            opt.clear_grad()
        return a.numpy(), b.numpy()

    plain, other = trained(), trained(beta1=0.5, epsilon=1e-3)
    assert np.abs(plain[0] - other[0]).max() > 1e-3
    np.testing.assert_array_equal(plain[1], other[1])
    np.testing.assert_array_equal(plain[0], plain[1])


def test_a_name_that_is_not_here_says_why():
    for module, name, said in ((paddle, "vision", "package of its own"), (nn, "RNNTLoss", "")):
        assert not hasattr(module, name)
        with pytest.raises(AttributeError, match=f"{name}.*{said}"):
            getattr(module, name)


@pytest.mark.parametrize(("layer", "layout"), [(nn.Pad1D, "NCHW"), (nn.Pad2D, "NCL"), (nn.Pad3D, "NCHW")])
def test_a_pad_takes_the_layouts_of_its_rank(layer, layout):
    with pytest.raises(AssertionError, match="data_format is"):
        layer(1, data_format=layout)


def test_a_deep_copy_of_a_layer_trains_as_the_layer_does():
    layer = paddle.nn.Linear(2, 2, weight_attr=paddle.ParamAttr(name="w", learning_rate=0.5, need_clip=False))
    twin = copy.deepcopy(layer)
    assert twin.weight.name != layer.weight.name
    assert (twin.weight.optimize_attr, twin.weight.need_clip, twin.weight.persistable) == ({"learning_rate": 0.5}, False, True)
    optimizer = paddle.optimizer.Adam(0.1, parameters=[*layer.parameters(), *twin.parameters()])
    before = layer.weight.numpy()
    x = paddle.ones([1, 2])
    (layer(x).sum() + twin(x).sum()).backward()
    optimizer.step()
    assert not np.array_equal(layer.weight.numpy(), before)
    np.testing.assert_array_equal(twin.weight.numpy(), layer.weight.numpy())


def test_a_layer_may_keep_its_state_under_other_names():
    class Turned(nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def state_dict(self, *args, **kwargs):
            found = super().state_dict(*args, **kwargs)
            found["turned"] = paddle.transpose(found.pop("linear.weight"), [1, 0])
            return found

        def set_state_dict(self, state_dict, use_structured_name=True):
            given = dict(state_dict)
            given["linear.weight"] = paddle.transpose(given.pop("turned"), [1, 0])
            return super().set_state_dict(given, use_structured_name)

    first, second = Turned(), Turned()
    assert second.set_state_dict(first.state_dict()) == ([], [])
    np.testing.assert_array_equal(second.linear.weight.numpy(), first.linear.weight.numpy())


class Shared(nn.Layer):
    """A table that is read twice, and a layer that is never called"""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.mix = nn.LSTM(4, 5)
        self.norm = nn.BatchNorm1D(5)
        self.unused = nn.Linear(2, 2)

    def forward(self, words, more):
        states, _ = self.mix(self.table(words) + self.table(more))
        return self.norm(states[:, -1])


def test_summary(capsys):
    net = Shared()
    net.mix.weight_ih_l0.stop_gradient = True
    net.table.eval()
    expected = 7 * 4 + 4 * 5 * (4 + 5) + 8 * 5 + 4 * 5 + 6
    counted = paddle.summary(net, [(None, 3), paddle.static.InputSpec([-1, 3], "int64")], "int64")
    assert counted == {"total_params": expected, "trainable_params": expected - 4 * 5 * 4 - 2 * 5}
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[3:6]] == ["Embedding-1", "LSTM-1", "BatchNorm1D-1"]
    assert "[[1, 3, 5], [[1, 1, 5], [1, 1, 5]]]" in printed[4]
    assert (net.training, net.table.training, net.norm.training) == (True, False, True)
    words = paddle.zeros([2, 3], "int64")
    assert paddle.summary(net, input={"words": words, "more": words}) == counted
    assert "[2, 3]" in capsys.readouterr().out
    with pytest.raises(ValueError, match="summary: the shape of the input is not known"):
        paddle.summary(net)
    with pytest.raises(ValueError, match="summary has 1 dtypes for 2 inputs"):
        paddle.summary(net, [(2, 3), (2, 3)], ["int64"])


def test_run_check_trains_here(capsys):
    paddle.utils.run_check()
    assert "trains on Place(cpu) by onnxruntime" in capsys.readouterr().out


def test_flops_are_those_that_paddle_counts(capsys):
    """Numbers and rows of Paddle 2.6.2: 3.3.1 does not count with numpy 2."""

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2D(3, 4, 3, bias_attr=False, padding=1), nn.Conv2DTranspose(4, 2, 2, 2), nn.LeakyReLU()
            )
            self.rest = nn.Sequential(nn.PReLU(2), nn.Dropout(), nn.ReLU6(), nn.Softmax(), nn.BatchNorm2D(2), nn.AvgPool2D(2))
            self.pool, self.norm, self.head = nn.AdaptiveAvgPool2D(2), nn.LayerNorm([2, 2, 2]), nn.Linear(2, 3)
            self.unused = nn.Conv1D(4, 4, 3)

        def forward(self, x):
            return self.head(self.norm(self.pool(self.rest(self.body(x)))).mean([2, 3]))

    with paddle.utils.unique_name.guard():
        net = Net()
    assert paddle.flops(net, (2, 3, 8, 8), print_detail=True) == 34844 and net.training
    printed = capsys.readouterr().out
    assert "\n|        conv2d_0       |  [2, 3, 8, 8]  |  [2, 4, 8, 8]  |  108   | 13824 |\n" in printed
    assert "\n|     leaky_re_lu_0     | [2, 2, 16, 16] | [2, 2, 16, 16] |   0    |  1024 |\n" in printed
    assert "Total Flops: 34844     Total Params: 177" in printed and printed.count("Cannot find suitable count function") == 3

    def sevens(layer, inputs, output):
        layer.total_ops += 7

    assert paddle.flops(nn.Sequential(nn.Linear(3, 4)), [2, 3], {nn.Linear: sevens}) == 7
    assert paddle.flops(nn.Linear(3, 4), [2, 3]) == 0 and paddle.flops(3, [1]) == -1
