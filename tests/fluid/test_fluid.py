"""Scripts of Paddle 1: the documents' examples with another import line, and the old functions."""

import inspect

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import fluid
from onnxgrad.errors import NotOffered

layers = fluid.layers
RNG = np.random.default_rng(5)


def given(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def run(fetches, **feed):
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    return executor.run(fluid.default_main_program(), feed=feed, fetch_list=fetches)


def names(pairs):
    return [(p.name, g.name) for p, g in pairs]


class TestExamplesOfTheDocuments:
    def test_append_backward_fit_a_line(self):
        x = fluid.layers.data(name="x", shape=[13], dtype="float32")
        y = fluid.layers.data(name="y", shape=[1], dtype="float32")

        y_predict = fluid.layers.fc(input=x, size=1, act=None)
        loss = fluid.layers.square_error_cost(input=y_predict, label=y)

        avg_loss = fluid.layers.mean(loss)
        param_grad_list = fluid.backward.append_backward(loss=avg_loss)
        assert names(param_grad_list) == [("fc_0.w_0", "fc_0.w_0@GRAD"), ("fc_0.b_0", "fc_0.b_0@GRAD")]

    def test_append_backward_with_embedding(self):
        x = fluid.data(name="x", shape=[None, 13], dtype="int64")
        y = fluid.data(name="y", shape=[None, 1], dtype="float32")
        x_emb = fluid.embedding(x, size=[100, 256])
        y_predict = fluid.layers.fc(input=x_emb, size=1, act=None, name="my_fc")
        loss = fluid.layers.square_error_cost(input=y_predict, label=y)
        avg_loss = fluid.layers.mean(loss)

        all_weights = [param for param in fluid.default_main_program().block(0).all_parameters() if "w_" in param.name]
        all_weights_name = [w.name for w in all_weights]

        def forward(pairs):
            return [p.name for p, _ in pairs]

        everything = ["embedding_0.w_0", "my_fc.w_0", "my_fc.b_0"]
        assert forward(fluid.backward.append_backward(loss=avg_loss)) == everything
        assert forward(fluid.backward.append_backward(loss=avg_loss, parameter_list=all_weights)) == everything[:2]
        assert forward(fluid.backward.append_backward(loss=avg_loss, parameter_list=all_weights_name)) == everything[:2]
        assert forward(fluid.backward.append_backward(loss=avg_loss, no_grad_set={x_emb})) == everything[1:]
        assert forward(fluid.backward.append_backward(loss=avg_loss, no_grad_set={"my_fc.b_0"})) == everything[:2]
        last = fluid.backward.append_backward(loss=avg_loss, parameter_list=all_weights, no_grad_set={*all_weights})
        assert last == []

    def test_gradients(self):
        x = fluid.data(name="x", shape=[None, 2, 8, 8], dtype="float32")
        x.stop_gradient = False
        y = fluid.layers.conv2d(x, 4, 1, bias_attr=False)
        y = fluid.layers.relu(y)
        y = fluid.layers.conv2d(y, 4, 1, bias_attr=False)
        y = fluid.layers.relu(y)
        z = fluid.gradients([y], x)
        assert [v.name for v in z] == ["x@GRAD"]
        assert z[0].shape == (-1, 2, 8, 8)
        assert fluid.backward.gradients([y], x)[0].name == "grad/grad/x@GRAD"

    def test_training_a_line(self):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.layers.data(name="x", shape=[3], dtype="float32")
            y = fluid.layers.data(name="y", shape=[1], dtype="float32")
            predict = fluid.layers.fc(input=x, size=1, param_attr=fluid.ParamAttr(name="w"))
            loss = fluid.layers.mean(fluid.layers.square_error_cost(input=predict, label=y))
            test = main.clone(for_test=True)
            fluid.optimizer.SGDOptimizer(learning_rate=0.1).minimize(loss)
        executor = fluid.Executor(fluid.CPUPlace())
        executor.run(startup)
        feeder = fluid.DataFeeder(feed_list=[x, y], place=fluid.CPUPlace())
        w = np.array([1.0, -2.0, 0.5])
        for _ in range(200):
            rows = RNG.normal(size=(16, 3))
            executor.run(main, feed=feeder.feed([(row, [row @ w + 3.0]) for row in rows]), fetch_list=[loss])
        np.testing.assert_allclose(np.array(fluid.global_scope().find_var("w").get_tensor())[:, 0], w, atol=1e-3)
        (last,) = executor.run(test, feed=feeder.feed([([0, 0, 0], [3.0])]), fetch_list=[loss.name])
        assert last < 1e-5


class TestLayers:
    def test_data_gets_a_batch_axis(self):
        assert layers.data("a", [3, 4]).shape == (-1, 3, 4)
        assert layers.data("b", [-1, 4]).shape == (-1, 4)
        assert layers.data("c", [3, 4], append_batch_size=False).shape == (3, 4)
        assert layers.data("d", [3], stop_gradient=False).stop_gradient is False

    def test_cross_entropy_takes_probabilities(self):
        x, label = layers.data("x", [5]), layers.data("label", [1], dtype="int64")
        probabilities = layers.softmax(x)
        one = layers.cross_entropy(input=probabilities, label=label)
        two, again = layers.softmax_with_cross_entropy(x, label, return_softmax=True)
        logits, rows = given(3, 5), np.array([[1], [0], [4]])
        found = run([probabilities, one, two, again], x=logits, label=rows)
        wanted = -np.log(np.take_along_axis(found[0], rows, 1))
        for value in found[1:3]:
            np.testing.assert_allclose(value, wanted, rtol=1e-4)
        np.testing.assert_allclose(found[3], found[0])

    def test_elementwise_functions_align_axes(self):
        x, y = layers.data("x", [3, 4]), layers.data("y", [3], append_batch_size=False)
        a, b = given(2, 3, 4), given(3)
        found = run([layers.elementwise_add(x, y, axis=1, act="relu"), layers.elementwise_mul(x, x)], x=a, y=b)
        np.testing.assert_allclose(found[0], np.maximum(a + b[:, None], 0))
        np.testing.assert_allclose(found[1], a * a)
        with pytest.raises(ValueError, match="axes"):
            layers.elementwise_add(y, x, axis=0)

    def test_mathematics(self):
        x, i = layers.data("x", [3, 4]), layers.data("i", [3], dtype="int64")
        a, b = given(2, 3, 4), np.array([[5, -7, 2], [1, 8, -3]])
        two = layers.fill_constant([1], "int64", 3)
        table = {
            layers.reduce_sum(x, dim=[1, 2]): a.sum((1, 2)),
            layers.reduce_max(x, dim=1, keep_dim=True): a.max(1, keepdims=True),
            layers.reduce_prod(x): a.prod(),
            layers.scale(x, 2.0, 1.0, bias_after_scale=False): 2 * (a + 1),
            layers.mul(x, layers.assign(np.eye(12, 5, dtype=np.float32))): a.reshape(2, 12)[:, :5],
            layers.matmul(x, x, transpose_y=True, alpha=0.5): 0.5 * a @ a.transpose(0, 2, 1),
            layers.square(x): a * a,
            layers.clip(x, -0.5, 0.5): a.clip(-0.5, 0.5),
            layers.sums([x, x, x]): 3 * a,
            layers.elementwise_mod(i, two): b % 3,
            layers.not_equal(i, two): b != 3,
            layers.logical_not(layers.less_than(i, two)): b >= 3,
            layers.topk(x, k=2)[0]: -np.sort(-a, -1)[..., :2],
            layers.argmax(x, axis=1): a.argmax(1),
            layers.increment(x, 2.0, in_place=False): a + 2,
            layers.relu6(x, 1.0): a.clip(0, 1),
            layers.swish(x, 2.0): a / (1 + np.exp(-2 * a)),
            layers.leaky_relu(x): np.where(a > 0, a, 0.02 * a),
            layers.l2_normalize(x, axis=1): a / np.sqrt((a * a).sum(1, keepdims=True)),
            layers.label_smooth(x): 0.9 * a + 0.1 / 4,
            layers.one_hot(layers.data("j", [1], dtype="int64"), 4): np.eye(4)[[2, 0]],
        }
        for value, wanted in zip(run(list(table), x=a, i=b, j=np.array([[2], [0]])), table.values(), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-6)

    def test_old_arguments_have_their_order_their_defaults_and_their_meaning(self):
        assert str(inspect.signature(layers.softmax)) == (
            "(input: 'Variable', use_cudnn: 'bool' = False, name: 'str | None' = None, axis: 'int' = -1) -> 'Variable'"
        )
        assert list(inspect.signature(layers.elementwise_pow).parameters) == ["x", "y", "axis", "act", "name"]
        assert inspect.signature(layers.zeros).parameters["dtype"].default is inspect.Parameter.empty  # may be left out today
        assert "``alpha * x``" in layers.leaky_relu.__doc__ and "alpha: the slope" in layers.leaky_relu.__doc__
        assert "use_cudnn: accepted" in layers.softmax.__doc__
        x = layers.data("x", [3, 4])
        with pytest.raises(TypeError, match=r"softmax\(\) got an unexpected keyword argument 'x'"):
            layers.softmax(x, x=x)
        with pytest.raises(TypeError, match=r"zeros\(\) missing a required argument: 'dtype'"):
            layers.zeros([2])
        assert layers.softmax(x, True, "named", 1).name.startswith("named")

    def test_shapes(self):
        x = layers.data("x", [3, 4])
        a = given(2, 3, 4)
        table = {
            layers.reshape(x, [0, -1], act="relu"): np.maximum(a.reshape(2, 12), 0),
            layers.flatten(x, axis=2): a.reshape(6, 4),
            layers.concat([x, x], axis=1): np.concatenate([a, a], 1),
            layers.stack([x, x], axis=1): np.stack([a, a], 1),
            layers.split(x, [1, -1], dim=1)[1]: a[:, 1:],
            layers.split(x, 2)[0]: a[..., :2],
            layers.unstack(x, axis=1)[2]: a[:, 2],
            layers.squeeze(layers.unsqueeze(x, [0]), [0]): a,
            layers.expand(x, [1, 2, 1]): np.tile(a, (1, 2, 1)),
            layers.slice(x, [1, 2], [0, 1], [2, 3]): a[:, 0:2, 1:3],
            layers.gather(x, layers.assign(np.array([[1], [0]]))): a[[1, 0]],
            layers.pad(x, [0, 0, 1, 2, 0, 0], 7.0): np.pad(a, ((0, 0), (1, 2), (0, 0)), constant_values=7.0),
            layers.transpose(x, [1, 0, 2]): a.transpose(1, 0, 2),
            layers.shape(x): np.array([2, 3, 4]),
        }
        for value, wanted in zip(run(list(table), x=a), table.values(), strict=True):
            np.testing.assert_allclose(value, wanted)

    def test_losses(self):
        x, y = layers.data("x", [4]), layers.data("y", [4])
        a, b = given(3, 4), (RNG.random((3, 4)) > 0.5).astype(np.float32)
        d = a - b
        entropy = np.logaddexp(0, a) - a * b
        smooth = np.where(np.abs(d) < 0.25, 2 * d * d, np.abs(d) - 0.125).sum(1, keepdims=True)
        table = {
            layers.sigmoid_cross_entropy_with_logits(x, y): entropy,
            layers.sigmoid_cross_entropy_with_logits(x, y, ignore_index=0, normalize=True): entropy * b / b.sum(),
            layers.smooth_l1(x, y, sigma=2.0): smooth,
            layers.mse_loss(x, y): np.mean(d * d),
        }
        for value, wanted in zip(run(list(table), x=a, y=b), table.values(), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-6)

    def test_pooling(self):
        x = layers.data("x", [2, 4, 4])
        a = given(1, 2, 4, 4)
        blocks = a.reshape(1, 2, 2, 2, 2, 2)
        found = run(
            [
                layers.pool2d(x, 2, "max", pool_stride=2),
                layers.pool2d(x, 2, "avg", pool_stride=2),
                layers.pool2d(x, pool_type="avg", global_pooling=True),
            ],
            x=a,
        )
        np.testing.assert_allclose(found[0], blocks.max((3, 5)))
        np.testing.assert_allclose(found[1], blocks.mean((3, 5)), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(found[2], a.mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-7)

    def test_dropout_is_scaled_down_in_inference(self):
        x = layers.data("x", [1000])
        y = layers.dropout(x, 0.25)
        ones = np.ones((1, 1000), np.float32)
        (trained,) = run([y], x=ones)
        assert set(np.unique(trained)) == {0.0, 1.0} and abs(trained.mean() - 0.75) < 0.06
        executor, test = fluid.Executor(), fluid.default_main_program().clone(for_test=True)
        np.testing.assert_allclose(executor.run(test, feed={"x": ones}, fetch_list=[y.name])[0], 0.75 * ones)

    def test_attention_and_groups(self):
        q = layers.data("q", [5, 8])
        found = fluid.nets.scaled_dot_product_attention(q, q, q, num_heads=2)
        a = given(2, 5, 8)
        h = a.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
        scores = np.exp(h @ h.transpose(0, 1, 3, 2) / 2)
        wanted = (scores / scores.sum(-1, keepdims=True) @ h).transpose(0, 2, 1, 3).reshape(2, 5, 8)
        np.testing.assert_allclose(run([found], q=a)[0], wanted, rtol=1e-4, atol=1e-6)
        half = fluid.nets.scaled_dot_product_attention(q, q, q, num_heads=2, dropout_rate=0.5)
        inference = q.block.program.clone(for_test=True)
        (found,) = fluid.Executor().run(inference, {"q": a}, [half.name])
        np.testing.assert_allclose(found, wanted / 2, rtol=1e-4, atol=1e-6)
        image = layers.data("image", [3, 8, 8])
        assert fluid.nets.img_conv_group(image, [4, 5], 2, conv_act="relu", conv_with_batchnorm=True, pool_stride=2).shape[1:] == (
            5,
            4,
            4,
        )

    def test_outputs_are_written(self):
        x = layers.data("x", [3])
        total, flag, filled = layers.zeros([1], "float32"), layers.zeros([1], "bool"), layers.zeros([2], "float32")
        layers.increment(total, 2.0)
        other = layers.increment(total, 5.0, in_place=False)
        layers.sums([total, total, total], out=total)
        layers.less_than(total, layers.zeros([1], "float32"), cond=flag)
        layers.fill_constant([2], "float32", 3.0, out=filled)
        layers.assign(layers.reduce_sum(x), output=x)
        found = run([total, other, flag, filled, x, "x"], x=np.ones((2, 3), np.float32))
        assert [value.tolist() for value in found] == [[6.0], [7.0], [False], [3.0, 3.0], 6.0, 6.0]

    def test_loops_that_overwrite_variables_are_refused(self):
        with pytest.raises(NotOffered, match="while_loop"):
            layers.While(cond=None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda: fluid.optimizer.SGD(0.1), lambda: paddle.optimizer.SGD(0.1)),
        (lambda: fluid.optimizer.Momentum(0.1, 0.8), lambda: paddle.optimizer.Momentum(0.1, 0.8)),
        (lambda: fluid.optimizer.Adagrad(0.1), lambda: paddle.optimizer.Adagrad(0.1)),
        (lambda: fluid.optimizer.Adam(0.1), lambda: paddle.optimizer.Adam(0.1)),
        (lambda: fluid.optimizer.Adamax(0.1), lambda: paddle.optimizer.Adamax(0.1)),
        (lambda: fluid.optimizer.Adadelta(0.3), lambda: paddle.optimizer.Adadelta(1.0)),
        (lambda: fluid.optimizer.RMSPropOptimizer(0.1, momentum=0.5), lambda: paddle.optimizer.RMSProp(0.1, momentum=0.5)),
        (lambda: fluid.optimizer.LambOptimizer(0.1), lambda: paddle.optimizer.Lamb(0.1)),
        (
            lambda: fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(regularization_coeff=0.2)),
            lambda: paddle.optimizer.SGD(0.1, weight_decay=0.2),
        ),
        (
            lambda: fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1)),
            lambda: paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1)),
        ),
    ],
)
def test_optimizers_are_those_of_paddle_2(old, new):
    a = given(4, 3)

    def trained(make):
        paddle.state.current = paddle.state.State()
        x = layers.data("x", [3])
        start = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.ones((3, 2), np.float32)))
        make().minimize(layers.mean(layers.square(layers.fc(x, 2, param_attr=start))))
        executor = fluid.Executor()
        executor.run(fluid.default_startup_program())
        return [executor.run(feed={"x": a}, fetch_list=["fc_0.w_0"])[0] for _ in range(3)][-1]

    np.testing.assert_array_equal(trained(old), trained(new))


@pytest.mark.parametrize(
    ("rate", "wanted"),
    [
        (lambda: layers.exponential_decay(1.0, 2, 0.5), [0.5 ** (i / 2) for i in range(5)]),
        (lambda: layers.exponential_decay(1.0, 2, 0.5, staircase=True), [0.5 ** (i // 2) for i in range(5)]),
        (lambda: layers.natural_exp_decay(1.0, 2, 0.5), [np.exp(-0.25 * i) for i in range(5)]),
        (lambda: layers.inverse_time_decay(1.0, 2, 0.5), [1 / (1 + 0.25 * i) for i in range(5)]),
        (lambda: layers.polynomial_decay(1.0, 4, 0.0), [1.0, 0.75, 0.5, 0.25, 0.0]),
        (lambda: layers.piecewise_decay([2, 3], [1.0, 0.5, 0.1]), [1.0, 1.0, 0.5, 0.1, 0.1]),
        (lambda: layers.noam_decay(4, 2), [0.5 * min(n**-0.5, n * 2**-1.5) for n in range(1, 6)]),
        (lambda: layers.cosine_decay(1.0, 2, 4), [0.5 * (np.cos(i // 2 * np.pi / 4) + 1) for i in range(5)]),
        (lambda: layers.linear_lr_warmup(1.0, 4, 0.0, 0.8), [0.0, 0.2, 0.4, 0.6, 1.0]),
    ],
)
def test_rates_move_on_with_every_run(rate, wanted):
    x = layers.data("x", [1])
    fluid.optimizer.SGD(rate()).minimize(layers.mean(layers.fc(x, 1)))
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    found = [executor.run(feed={"x": given(1, 1)}, fetch_list=["learning_rate_0"])[0] for _ in range(5)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def test_saving_into_a_folder(tmp_path):
    x = layers.data("x", [3])
    y = layers.fc(x, 2)
    fluid.optimizer.Adam(0.1).minimize(layers.mean(y))
    executor, folder = fluid.Executor(), str(tmp_path / "model")
    executor.run(fluid.default_startup_program())
    a = given(2, 3)
    test = fluid.default_main_program().clone(for_test=True)
    (wanted,) = executor.run(test, feed={"x": a}, fetch_list=[y.name])
    fluid.io.save_persistables(executor, folder)
    assert fluid.io.save_inference_model(folder, ["x"], [y], executor) == [y.name]
    executor.run(fluid.default_startup_program())
    fluid.io.load_params(executor, folder)
    fluid.io.load_persistables(executor, folder)
    np.testing.assert_array_equal(executor.run(test, feed={"x": a}, fetch_list=[y.name])[0], wanted)
    program, feeds, fetches = fluid.io.load_inference_model(folder, executor)
    np.testing.assert_allclose(executor.run(program, feed={feeds[0]: a}, fetch_list=fetches)[0], wanted, rtol=1e-6)
    fluid.io.save_params(executor, folder, filename="weights")
    with pytest.raises(ValueError, match="no value for"):
        fluid.io.load_persistables(executor, folder, filename="weights")


@pytest.mark.parametrize(
    "make",
    [
        lambda: fluid.initializer.Normal(loc=0.0, scale=0.1),
        lambda: fluid.initializer.TruncatedNormal(scale=0.1),
        lambda: fluid.initializer.Uniform(-0.1, 0.1, seed=3),
        lambda: fluid.initializer.Xavier(uniform=False),
        lambda: fluid.initializer.MSRA(),
        lambda: fluid.initializer.Constant(0.01),
    ],
)
def test_initializers(make):
    layers.create_parameter([200, 100], "float32", name="p", default_initializer=make())
    fluid.Executor().run(fluid.default_startup_program())
    value = np.array(fluid.global_scope().find_var("p").get_tensor())
    assert 0 < np.sqrt(np.mean(value**2)) < 0.2


def test_recomputation_gives_the_same_update():
    a = given(4, 3)

    def trained(wrap):
        paddle.state.current = paddle.state.State()
        paddle.seed(3)
        h = layers.fc(layers.data("x", [3]), 4, act="tanh")
        loss = layers.mean(layers.fc(layers.fc(h, 4, act="tanh"), 1))
        wrap(fluid.optimizer.SGD(0.5), h).minimize(loss)
        return run(["fc_0.w_0"], x=a)[0]

    def recomputed(optimizer, h):
        optimizer = fluid.optimizer.RecomputeOptimizer(optimizer)
        optimizer._set_checkpoints([h])
        return optimizer

    np.testing.assert_allclose(trained(recomputed), trained(lambda optimizer, h: optimizer), rtol=1e-5)


def test_cos_sim_is_the_cosine_of_the_angle_between_rows():
    rng = np.random.default_rng(0)
    rows, others = rng.normal(size=(4, 3)).astype("float32"), rng.normal(size=(1, 3)).astype("float32")
    x, y = fluid.data("x", [4, 3]), fluid.data("y", [1, 3])
    (cosines,) = fluid.Executor(fluid.core.CPUPlace()).run(feed=[{"x": rows, "y": others}], fetch_list=[fluid.layers.cos_sim(x, y)])
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others)
    np.testing.assert_allclose(cosines[:, 0], rows @ others[0] / lengths, rtol=1e-5)


def test_a_loader_of_what_a_generator_yields_feeds_a_program():
    x = fluid.data("x", [None, 2])
    y = fluid.layers.reduce_sum(x)
    rows = np.arange(10, dtype="float32").reshape(5, 2)
    for kind, sizes in (("sample", [2, 2]), ("sample_list", [3, 2]), ("batch", [5])):
        loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=4)
        readers = {
            "sample": lambda: ((row,) for row in rows),
            "sample_list": lambda: iter([[(row,) for row in rows[:3]], [(row,) for row in rows[3:]]]),
            "batch": lambda: iter([[rows]]),
        }
        options = {"batch_size": 2} if kind == "sample" else {}
        getattr(loader, f"set_{kind}_generator")(readers[kind], **options)
        assert [len(feed[0]["x"]) for feed in loader] == sizes
        totals = [fluid.Executor().run(feed=feed, fetch_list=[y])[0] for feed in loader()]
        assert float(sum(totals)) == rows[: sum(sizes)].sum()
