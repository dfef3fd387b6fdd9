"""Ten small programs as Paddle's documentation writes them; only the import line is ours."""

import numpy as np
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import nn, static
from onnxgrad.training import Trainer


@pytest.fixture(autouse=True)
def seeded():
    paddle.seed(7)
    np.random.seed(7)


@pytest.fixture
def static_mode():
    paddle.enable_static()
    with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
        yield
    paddle.disable_static()


def normal(*shape):
    return paddle.to_tensor(np.random.randn(*shape).astype("float32"))


def test_regression_in_a_training_loop():
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = paddle.optimizer.Adam(learning_rate=0.02, parameters=model.parameters())
    x = normal(64, 3)
    y = (x[:, 0:1] * x[:, 1:2]).detach()
    losses = []
    for _ in range(120):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.2 * losses[0]


def test_gan_with_two_optimizers():
    generator, critic = nn.Linear(2, 1), nn.Sequential(nn.Linear(1, 8), nn.LeakyReLU(), nn.Linear(8, 1))
    first = paddle.optimizer.Adam(0.02, parameters=generator.parameters())
    second = paddle.optimizer.Adam(0.02, parameters=critic.parameters())
    loss_of = nn.BCEWithLogitsLoss()
    ones, zeros = paddle.ones([32, 1]), paddle.zeros([32, 1])
    for _ in range(60):
        real, fake = normal(32, 1) * 0.5 + 3.0, generator(normal(32, 2))
        loss = loss_of(critic(real), ones) + loss_of(critic(fake.detach()), zeros)
        loss.backward()
        second.step()
        second.clear_grad()
        loss_of(critic(fake), ones).backward()
        first.step()
        first.clear_grad()
        second.clear_grad()
    assert float(generator(normal(256, 2)).mean()) > 0.5


def test_gradient_penalty():
    critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = paddle.optimizer.SGD(0.1, parameters=critic.parameters())
    x = normal(16, 2)
    x.stop_gradient = False
    penalties = []
    for _ in range(20):
        (gradient,) = paddle.grad(critic(x).sum(), [x], create_graph=True)
        penalty = ((gradient.norm(2, axis=1) - 1.0) ** 2).mean()
        penalty.backward()
        opt.step()
        opt.clear_grad()
        penalties.append(float(penalty))
    assert penalties[-1] < 0.5 * penalties[0]


def test_pylayer():
    class Clipped(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return paddle.clip(x, -1.0, 1.0)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensor()
            return gradient * (x.abs() < 2.0).astype("float32")

    x = paddle.to_tensor([0.5, 1.5, 2.5], stop_gradient=False)
    Clipped.apply(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.usefixtures("static_mode")
def test_while_and_cond_with_gradients():
    x = static.data("x", [2], "float32")
    x.stop_gradient = False
    i = paddle.full([1], 0, "int64")
    _, y = static.nn.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [i, x])
    z = static.nn.cond(paddle.sum(y) > 1.0, lambda: y * 2.0, lambda: y)
    (gradient,) = static.gradients([paddle.sum(z)], [x])
    feed = np.array([1.0, 2.0], np.float32)
    found = static.Executor("cpu").run(feed={"x": feed}, fetch_list=[z, gradient])
    np.testing.assert_allclose(found[0], 2 * feed**4)
    np.testing.assert_allclose(found[1], 8 * feed**3)


def test_lstm_language_model():
    class Model(nn.Layer):
        def __init__(self, words, size):
            super().__init__()
            self.embedding = nn.Embedding(words, size)
            self.lstm = nn.LSTM(size, size, num_layers=2)
            self.out = nn.Linear(size, words)

        def forward(self, ids):
            hidden, _ = self.lstm(self.embedding(ids))
            return self.out(hidden)

    model = Model(5, 12)
    opt = paddle.optimizer.AdamW(0.03, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0))
    ids = paddle.to_tensor(np.tile(np.arange(5), 3)[None, :].repeat(2, 0))
    losses = []
    for _ in range(40):
        loss = F.cross_entropy(model(ids[:, :-1]).reshape([-1, 5]), ids[:, 1:].reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.3 * losses[0]


def test_save_and_load(tmp_path):
    model = nn.Sequential(nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    x = normal(4, 1, 4, 4)
    model(x)
    path = tmp_path / "folder" / "model.pdparams"
    paddle.save(model.state_dict(), path)
    other = nn.Sequential(nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    assert other.set_state_dict(paddle.load(path)) == ([], [])
    model.eval()
    other.eval()
    np.testing.assert_array_equal(model(x).numpy(), other(x).numpy())


def test_to_static_and_export(tmp_path):
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(4, 6)
            self.out = nn.utils.weight_norm(nn.Linear(6, 2))

        @paddle.jit.to_static(input_spec=[static.InputSpec([None, 4], "float32", "x")])
        def forward(self, x):
            return F.softmax(self.out(F.gelu(self.hidden(x))))

    net, x = Net(), normal(3, 4)
    expected = net(x).numpy()
    paddle.jit.save(net, str(tmp_path / "net"))
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "net"))(x).numpy(), expected, rtol=1e-6)


def test_an_exported_layer_trains_as_any_file(tmp_path):
    spec = [static.InputSpec([None, 4], "float32", "x")]
    paddle.onnx.export(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), str(tmp_path / "net"), input_spec=spec)
    x = np.random.randn(32, 4).astype("float32")
    trainer = Trainer(tmp_path / "net.onnx", loss="cross_entropy", target="label", learning_rate=0.05)
    rows = trainer.fit({"x": x, "label": (x[:, 0] > 0).astype(int)}, epochs=10, batch_size=8)
    assert rows[-1]["loss"] < 0.5 * rows[0]["loss"]


@pytest.mark.usefixtures("static_mode")
def test_layers_in_a_static_program():
    x, label = static.data("x", [None, 1, 6, 6]), static.data("label", [None, 1], "int64")
    net = nn.Sequential(nn.Conv2D(1, 3, 3), nn.BatchNorm2D(3), nn.ReLU(), nn.AdaptiveAvgPool2D(2), nn.Flatten(), nn.Linear(12, 2))
    loss = F.cross_entropy(net(x), label)
    paddle.optimizer.Momentum(0.1, parameters=net.parameters()).minimize(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    feed = {"x": np.random.randn(8, 1, 6, 6).astype("float32"), "label": np.arange(8)[:, None] % 2}
    losses = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    (mean,) = exe.run(feed=feed, fetch_list=[net[1]._mean])
    assert np.abs(mean).max() > 0


def test_data_loader_and_metric():
    class Numbers(paddle.io.Dataset):
        def __getitem__(self, index):
            return np.array([index], np.float32), index % 2

        def __len__(self):
            return 10

    loader = paddle.io.DataLoader(Numbers(), batch_size=4, num_workers=2)
    metric = paddle.metric.Accuracy()
    seen = []
    for x, label in loader:
        seen += x.numpy()[:, 0].tolist()
        scores = paddle.stack([1.0 - label.astype("float32"), label.astype("float32")], axis=1)
        metric.update(metric.compute(scores, label))
    assert seen == list(range(10))
    assert metric.accumulate() == 1.0


def test_random_numbers_that_take_gradients_get_one():
    with static.program_guard(static.Program(), static.Program()):
        x = paddle.rand([3])
        x.stop_gradient = False
        static.append_backward(paddle.sum(x * x))
        found, gradient = static.Executor().run(fetch_list=[x, f"{x.name}@GRAD"])
    np.testing.assert_allclose(gradient, 2 * found, rtol=1e-6)


def test_tensors_outside_of_a_program_are_refused_by_what_changes_programs():
    x = paddle.ones([2])
    x.stop_gradient = False
    with pytest.raises(TypeError, match="needs a Variable as loss, not Tensor; a Tensor has backward"):
        static.append_backward(paddle.sum(x * x))
    for function in (static.gradients, paddle.vjp, paddle.jacobian):
        with pytest.raises(TypeError, match="holds Tensor; every member must be a Variable of a program"):
            function(paddle.sum(x * x), x)


def test_operators_are_read_as_callbacks_of_paddle_do(static_mode):
    x = static.data("x", [None, 3])
    loss = paddle.mean(static.nn.fc(F.relu(x), 2))
    seen = []

    def note(block, context):
        desc = block.desc.op(block.desc.op_size() - 1)
        seen.append([name for name in desc.output_arg_names() if name in context])

    pairs = static.append_backward(loss, callbacks=[note])
    assert any(seen)
    ops = static.default_main_program().global_block().ops
    relu, last = ops[0], ops[-1]
    assert (relu.desc.type(), relu.desc.input_arg_names(), relu.attr("op_role"), relu.attr("op_role_var")) == ("Relu", ["x"], 0, [])
    assert last.attr("op_role") == 1
    of_parameters = [names for op in ops if (names := op.attr("op_role_var"))]
    assert sorted(name for names in of_parameters for name in names) == sorted(v.name for pair in pairs for v in pair)
    paddle.optimizer.SGD(0.1).apply_gradients(pairs)
    assert static.default_main_program().global_block().ops[-1].attr("op_role") == 2


def test_an_operator_of_paddle_is_refused_by_what_writes_it(static_mode):
    block = static.default_main_program().global_block()
    with pytest.raises(ValueError, match=r"no operator 'conv2d'.*Programs consist of ONNX's operators.*functions of"):
        block.append_op(type="conv2d", inputs={"Input": [static.data("x", [1, 1, 3, 3])]}, outputs={"Output": []})
    relu = F.relu(static.data("y", [2])).op
    with pytest.raises(ValueError, match=r"no attribute 'paddings'\. Attributes are those of the ONNX operator"):
        relu.attr("paddings")
