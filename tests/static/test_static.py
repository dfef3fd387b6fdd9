"""Saving, loading, averages, measures, printing and what is only accepted."""

import pickle

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.errors import ModelError, NotOffered
from tests.static.test_layers import run

RNG = np.random.default_rng(3)
X = RNG.normal(size=(4, 3)).astype(np.float32)


def model(optimizer=None):
    """An executor after one step, the input, the output and the loss."""
    x = static.data("x", [None, 3])
    y = static.nn.fc(static.nn.batch_norm(static.nn.fc(x, 5, activation="relu")), 2)
    loss = paddle.mean(y * y)
    (optimizer or paddle.optimizer.Adam(0.1)).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    executor.run(feed={"x": X}, fetch_list=[loss])
    return executor, x, y, loss


class TestSaving:
    def test_state_is_saved_and_loaded(self, tmp_path):
        executor, _, _, loss = model()
        program, prefix = static.default_main_program(), str(tmp_path / "folder" / "net")
        static.save(program, prefix)
        wanted = [executor.run(feed={"x": X}, fetch_list=[loss])[0] for _ in range(2)]
        executor.run(static.default_startup_program())
        static.load(program, prefix)
        np.testing.assert_array_equal([executor.run(feed={"x": X}, fetch_list=[loss])[0] for _ in range(2)], wanted)
        with open(prefix + ".pdparams", "rb") as file:
            assert list(pickle.load(file)) == [p.name for p in program.all_parameters()]
        with open(prefix + ".pdopt", "rb") as file:
            assert "learning_rate_0" in pickle.load(file)

    def test_files_with_code_are_refused(self, tmp_path):
        model()
        (tmp_path / "net.pdparams").write_bytes(pickle.dumps({"x": print}))
        with pytest.raises(ModelError, match="print"):
            static.load(static.default_main_program(), str(tmp_path / "net"))

    def test_wrong_files_and_paths(self, tmp_path):
        model()
        program = static.default_main_program()
        with pytest.raises(FileNotFoundError):
            static.load(program, str(tmp_path / "absent"))
        (tmp_path / "net.pdparams").write_bytes(pickle.dumps({"fc_0.w_0": np.zeros(3)}))
        with pytest.raises(ValueError, match=r"fc_0\.w_0"):
            static.load(program, str(tmp_path / "net"))
        (tmp_path / "cut.pdparams").write_bytes(pickle.dumps({"a": np.zeros(9)})[:20])
        with pytest.raises(ModelError):
            static.load_program_state(str(tmp_path / "cut"))
        with pytest.raises(ValueError, match="prefix"):
            static.save(program, str(tmp_path) + "/")

    def test_state_dict_by_mode(self):
        model()
        program = static.default_main_program()
        parameters, others = program.state_dict("param"), program.state_dict("opt")
        assert "batch_norm_0.w_2" in parameters and "fc_0.w_0_moment1_0" in others
        assert program.state_dict().keys() == parameters.keys() | others.keys()
        program.set_state_dict({"fc_0.b_0": np.full(5, 2.0, np.float32), "other": 1})
        assert program.state_dict()["fc_0.b_0"][0] == 2.0
        with pytest.raises(ValueError, match="mode"):
            program.state_dict("some")


class TestInferenceModels:
    def test_saved_and_loaded(self, tmp_path):
        executor, x, y, _ = model()
        (wanted,) = executor.run(static.default_main_program().clone(for_test=True), feed={"x": X}, fetch_list=[y.name])
        prefix = str(tmp_path / "net")
        static.save_inference_model(prefix, [x], [y], executor)
        program, names, fetches = static.load_inference_model(prefix, executor)
        assert names == ["x"]
        np.testing.assert_allclose(executor.run(program, feed={"x": X}, fetch_list=fetches)[0], wanted, rtol=1e-5)

    def test_normalized_program_holds_only_what_is_needed(self):
        _, x, y, _ = model()
        program = static.normalize_program(static.default_main_program(), x, y)
        assert [op.role.name for op in program.global_block().ops] == ["FORWARD"] * len(program.global_block().ops)
        assert not any("GRAD" in name or "moment" in name for name in program.global_block().vars)
        with pytest.raises(ValueError, match="'x'"):
            static.normalize_program(static.default_main_program(), [], [y])
        for kind in (TypeError, ValueError):
            with pytest.raises(kind):
                static.save_inference_model("net", ["x"], [y])

    def test_program_and_weights_as_bytes(self, tmp_path):
        executor, x, y, _ = model()
        program_bytes = static.serialize_program([x], [y])
        weights = static.serialize_persistables([x], [y], executor)
        (wanted,) = executor.run(static.default_main_program().clone(for_test=True), feed={"x": X}, fetch_list=[y.name])
        static.save_to_file(str(tmp_path / "weights"), weights)
        with static.scope_guard(static.Scope()):
            program = static.deserialize_program(program_bytes)
            static.deserialize_persistables(program, static.load_from_file(str(tmp_path / "weights")))
            np.testing.assert_allclose(executor.run(program, feed={"x": X}, fetch_list=[y.name])[0], wanted, rtol=1e-5)

    def test_training_program_as_bytes_goes_on_training(self):
        executor, _, _, loss = model(paddle.optimizer.Momentum(0.1))
        program = static.default_main_program()
        state = program.state_dict()
        wanted = [executor.run(feed={"x": X}, fetch_list=[loss])[0] for _ in range(2)]
        parsed = static.Program.parse_from_string(program.desc.serialize_to_string())
        assert [p.name for p in parsed.all_parameters()] == [p.name for p in program.all_parameters()]
        parsed.set_state_dict(state)
        found = [executor.run(parsed, feed={"x": X}, fetch_list=[loss.name])[0] for _ in range(2)]
        np.testing.assert_allclose(found, wanted, rtol=1e-5)

    def test_bytes_of_something_else(self):
        with pytest.raises(ModelError):
            static.Program.parse_from_string(b"nothing")
        with pytest.raises(TypeError):
            static.save_to_file("path", "text")


class TestAverage:
    def test_average_is_applied_and_taken_back(self):
        x = static.data("x", [None, 3])
        p = static.create_parameter([3], "float32", name="p", default_initializer=paddle.nn.initializer.Constant(1.0))
        paddle.optimizer.SGD(1.0).minimize(paddle.sum(x * p))
        ema = static.ExponentialMovingAverage(0.9)
        ema.update()
        executor = static.Executor()
        executor.run(static.default_startup_program())
        value, average = np.ones(3), np.zeros(3)
        for _ in range(3):
            executor.run(feed={"x": X})
            value = value - X.sum(0)
            average = 0.9 * average + 0.1 * value
        with ema.apply(executor):
            np.testing.assert_allclose(p.get_value(), average / (1 - 0.9**3), rtol=1e-5)
        np.testing.assert_allclose(p.get_value(), value, rtol=1e-5)
        with ema.apply(executor, need_restore=False):
            pass
        np.testing.assert_allclose(p.get_value(), average / (1 - 0.9**3), rtol=1e-5)
        ema.restore(executor)
        np.testing.assert_allclose(p.get_value(), value, rtol=1e-5)

    def test_decay_grows_with_the_steps(self):
        steps = static.create_global_var([1], 2, "int64", persistable=True)
        p = static.create_parameter([1], "float32", name="p", default_initializer=paddle.nn.initializer.Constant(4.0))
        ema = static.ExponentialMovingAverage(0.999, thres_steps=steps)
        ema.update()
        run([])
        static.Executor().run()
        value = static.global_scope().find_var("p.ema_0").get_tensor()
        rate = 3 / 12
        np.testing.assert_allclose(np.array(value), (1 - rate) * 4.0 * (1 + rate), rtol=1e-5)
        with ema.apply():
            np.testing.assert_allclose(p.get_value(), 4.0, rtol=1e-5)

    def test_update_comes_first(self):
        with pytest.raises(ValueError, match="update"), static.ExponentialMovingAverage(0.9).apply():
            pass


class TestMeasures:
    @pytest.mark.parametrize("k", [1, 2])
    def test_accuracy(self, k):
        scores, label = RNG.random((50, 4)).astype(np.float32), RNG.integers(0, 4, (50, 1))
        a, b = static.data("a", [None, 4]), static.data("b", [None, 1], "int64")
        (found,) = run([static.accuracy(a, b, k=k)], a=scores, b=label)
        assert found == pytest.approx(np.mean([row in np.argsort(s)[-k:] for s, row in zip(scores, label[:, 0], strict=True)]))

    @pytest.mark.parametrize("slide", [0, 1, 2])
    def test_auc_over_runs(self, slide):
        a, b = static.data("a", [None, 2]), static.data("b", [None, 1], "int64")
        whole, last, states = static.auc(a, b, num_thresholds=99, slide_steps=slide)
        assert [v.shape for v in states[2:]] == [(100,), (100,)]
        executor = static.Executor()
        executor.run(static.default_startup_program())
        batches = []
        for _ in range(3):
            label = RNG.integers(0, 2, (40, 1))
            score = (np.clip(label[:, 0] * 0.3 + RNG.random(40), 0, 1) * 99).round() / 99
            batches.append((score, label[:, 0]))
            feed = {"a": np.stack([1 - score, score], 1).astype(np.float32) + np.float32(1e-4), "b": label}
            found, recent = executor.run(feed=feed, fetch_list=[whole, last])

        def exact(parts):
            score, label = (np.concatenate(part) for part in zip(*parts, strict=True))
            up, down = score[label == 1][:, None], score[label == 0][None]
            return np.mean((up > down + 1e-6) + 0.5 * (np.abs(up - down) < 1e-6))

        assert found == pytest.approx(exact(batches), abs=1e-6)
        assert recent == pytest.approx(exact(batches[-slide:] if slide else batches), abs=1e-6)

    def test_auc_of_one_class_is_zero(self):
        a, b = static.data("a", [None, 2]), static.data("b", [None, 1], "int64")
        found = run(list(static.auc(a, b)[:2]), a=RNG.random((5, 2)).astype(np.float32), b=np.ones((5, 1), np.int64))
        assert found == [0.0, 0.0]


def test_print_shows_a_value_whenever_it_is_computed(capsys):
    x = static.data("x", [None, 3])
    y = static.Print(x * 2.0, first_n=2, message="look", summarize=2)
    z = y + 1.0
    executor = static.Executor()
    for _ in range(3):
        executor.run(feed={"x": np.ones((1, 3), np.float32)}, fetch_list=[z])
    text = capsys.readouterr().out
    assert text.count("look") == 2
    assert "shape: [1, 3]" in text and "data: [2.0 2.0 ...]" in text
    with pytest.raises(ValueError, match="branch"):
        static.nn.cond(paddle.mean(x) > 0.0, lambda: static.Print(x), lambda: x)


def test_input_spec():
    spec = static.InputSpec.from_numpy(X, "x")
    assert spec == static.InputSpec([4, 3], "float32", "x") and spec != static.InputSpec([4, 3], "float32", "y")
    assert spec.batch(2).shape == (2, 4, 3) and spec.unbatch().shape == (4, 3)
    assert static.InputSpec.from_tensor(static.data("v", [None, 2], "int64")).shape == (-1, 2)
    for make, kind in ((lambda: static.InputSpec(3), TypeError), (lambda: static.InputSpec([-2]), ValueError)):
        with pytest.raises(kind):
            make()


def test_what_only_steers_paddles_compiler_is_accepted():
    x = static.data("x", [None, 3])
    strategy = static.BuildStrategy()
    strategy.fuse_all_optimizer_ops = True
    strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    with static.name_scope("block"), static.device_guard("gpu:0"):
        y = x + 1.0
    compiled = static.CompiledProgram(static.default_main_program(), build_strategy=strategy)
    np.testing.assert_allclose(static.Executor(static.cpu_places(1)[0]).run(compiled, feed={"x": X}, fetch_list=[y])[0], X + 1)
    assert static.cuda_places([0, 1])[1].index == 1
    for make, kind in (
        (lambda: static.CompiledProgram("program"), TypeError),
        (lambda: static.device_guard("wheel").__enter__(), ValueError),
        (lambda: static.name_scope(3).__enter__(), TypeError),
        (lambda: static.py_func(print, x, x), NotOffered),
        (lambda: static.IpuStrategy(), NotOffered),
    ):
        with pytest.raises(kind):
            make()
