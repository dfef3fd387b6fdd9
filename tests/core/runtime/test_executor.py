"""The Executor: feeds, fetches, state, startup, devices."""

import ctypes
import os

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import errors, static
from onnxgrad.core.state.values import array_of, value_of

ONES = np.ones((2, 3), np.float32)


@pytest.fixture
def line():
    """A linear model with its loss: (program, startup, loss)."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 3])
        loss = paddle.mean(static.nn.fc(x, 1, name="line"))
    return main, startup, loss


class TestFeeds:
    def run(self, feed):
        x = static.data("x", [None, 3])
        return static.Executor().run(feed=feed, fetch_list=[x * 2.0])

    def test_missing(self):
        with pytest.raises(errors.FeedError, match="'x' is not fed"):
            self.run({})

    def test_wrong_dtype(self):
        with pytest.raises(ValueError, match="'x' is float64, the program takes float32"):
            self.run({"x": np.ones((2, 3))})

    def test_wrong_shape(self):
        with pytest.raises(ValueError, match=r"'x' has shape \[2, 4\]"):
            self.run({"x": np.ones((2, 4), np.float32)})

    def test_wrong_rank(self):
        with pytest.raises(ValueError, match=r"'x' has shape \[3\]"):
            self.run({"x": np.ones(3, np.float32)})

    def test_list_is_converted_and_extra_names_are_ignored(self):
        (found,) = self.run({"x": [[1, 2, 3]], "other": 5})
        np.testing.assert_array_equal(found, [[2.0, 4.0, 6.0]])

    def test_batch_of_zero(self):
        assert self.run({"x": np.ones((0, 3), np.float32)})[0].shape == (0, 3)

    def test_must_be_a_dict(self):
        with pytest.raises(TypeError, match="dict"):
            self.run([ONES])


class TestFetches:
    def test_single_name_order_and_duplicates(self):
        x = static.data("x", [2, 3])
        y = x * 2.0
        executor = static.Executor()
        assert len(executor.run(feed={"x": ONES}, fetch_list=y)) == 1
        a, b, c = executor.run(feed={"x": ONES}, fetch_list=[y.name, x, y])
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, ONES)

    def test_unknown_name(self):
        with pytest.raises(RuntimeError, match="'nothing'"):
            static.Executor().run(static.Program(), fetch_list=["nothing"])

    def test_number_is_refused(self):
        with pytest.raises(TypeError, match="int"):
            static.Executor().run(static.Program(), fetch_list=[3])

    def test_scalar_has_no_axes(self, line):
        main, startup, loss = line
        executor = static.Executor()
        executor.run(startup)
        assert executor.run(main, {"x": ONES}, [loss])[0].shape == ()

    def test_values_can_stay_on_the_device(self):
        x = static.data("x", [2, 3])
        (found,) = static.Executor().run(feed={"x": ONES}, fetch_list=[x * 2.0], return_numpy=False)
        assert isinstance(found, onnxruntime.OrtValue)


class TestState:
    def test_startup_must_run_first(self, line):
        main, _, loss = line
        with pytest.raises(RuntimeError, match=r"line\.\w_0 has no value.*startup"):
            static.Executor().run(main, {"x": ONES}, [loss])

    def test_startup_is_reproducible_with_a_seed(self):
        values = []
        for _ in range(2):
            paddle.seed(11)
            startup_again, again = static.Program(), static.Program()
            with paddle.state.fresh_names(), static.program_guard(again, startup_again):
                static.nn.fc(static.data("x", [None, 3]), 4, name="line")
            with static.scope_guard(static.Scope()):
                executor = static.Executor()
                executor.run(startup_again)
                first = np.array(static.global_scope().find_var("line.w_0").get_tensor())
                executor.run(startup_again)
                np.testing.assert_array_equal(np.array(static.global_scope().find_var("line.w_0").get_tensor()), first)
                values.append(first)
        np.testing.assert_array_equal(*values)
        assert np.abs(values[0]).max() <= np.sqrt(6 / 7)

    def test_two_parameters_draw_different_numbers(self):
        paddle.seed(3)
        x = static.data("x", [None, 4])
        static.nn.fc(static.nn.fc(x, 4), 4)
        static.Executor().run(static.default_startup_program())
        a, b = (static.global_scope().get(f"fc_{i}.w_0") for i in (0, 1))
        assert not np.allclose(a, b)

    def test_parameters_are_replaced_and_stay_ortvalues(self, line):
        main, startup, loss = line
        with static.program_guard(main, startup):
            paddle.optimizer.SGD(0.1).minimize(loss)
        executor = static.Executor()
        executor.run(startup)
        before = static.global_scope().get("line.w_0").copy()
        executor.run(main, {"x": ONES})
        after = static.global_scope().get("line.w_0")
        np.testing.assert_allclose(after, before - 0.1 * np.full((3, 1), 1.0), rtol=1e-6)
        assert isinstance(static.global_scope().values["line.w_0"], onnxruntime.OrtValue)

    def test_scope_writes_are_seen(self, line):
        main, startup, loss = line
        executor = static.Executor()
        executor.run(startup)
        static.global_scope().find_var("line.w_0").get_tensor().set(np.zeros((3, 1), np.float32), None)
        assert executor.run(main, {"x": ONES}, [loss])[0] == 0.0

    def test_scopes_are_separate(self, line):
        main, startup, loss = line
        scope = static.Scope()
        executor = static.Executor()
        executor.run(startup, scope=scope)
        assert executor.run(main, {"x": ONES}, [loss], scope=scope)
        with pytest.raises(errors.NotInitialized):
            executor.run(main, {"x": ONES}, [loss])

    def test_failed_run_leaves_the_state(self, line):
        main, startup, loss = line
        with static.program_guard(main, startup):
            paddle.optimizer.SGD(0.1).minimize(loss)
        executor = static.Executor()
        executor.run(startup)
        before = static.global_scope().get("line.w_0").copy()
        with pytest.raises(errors.FeedError):
            executor.run(main, {})
        np.testing.assert_array_equal(static.global_scope().get("line.w_0"), before)

    def test_sessions_are_cached_until_the_program_changes(self, line, monkeypatch):
        main, startup, loss = line
        executor = static.Executor()
        executor.run(startup)
        opened = []
        real = onnxruntime.InferenceSession
        monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *a, **k: opened.append(1) or real(*a, **k))
        for _ in range(3):
            executor.run(main, {"x": ONES}, [loss])
        assert len(opened) == 1
        doubled = loss * 2.0
        executor.run(main, {"x": ONES}, [doubled])
        assert len(opened) == 2

    def test_closed_executor_refuses(self, line):
        executor = static.Executor()
        executor.close()
        with pytest.raises(RuntimeError, match="closed"):
            executor.run(line[0])


def test_program_must_be_a_program():
    with pytest.raises(TypeError, match="Program"):
        static.Executor().run("main")


def test_place_must_be_a_place():
    with pytest.raises(TypeError, match="CPUPlace"):
        static.Executor(0)
    with pytest.raises(ValueError, match="'tpu:0'"):
        static.Executor("tpu:0")


def test_a_place_may_be_named():
    assert static.Executor("cpu").place == static.CPUPlace()
    assert paddle.set_device("cpu") == static.CPUPlace()
    assert paddle.get_device() == "cpu"


@pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="onnxruntime has CUDA here")
def test_missing_cuda_names_the_package():
    x = static.data("x", [2])
    with pytest.raises(errors.ProviderError, match="onnxruntime-gpu"):
        static.Executor(static.CUDAPlace(0)).run(feed={"x": np.ones(2, np.float32)}, fetch_list=[x * 2.0])


@pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="onnxruntime has CUDA here")
def test_cuda_that_does_not_start_is_not_replaced_by_the_cpu_silently(monkeypatch):
    """onnxruntime falls back where CUDA's libraries are missing"""
    session = onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda model, options, providers, **passes: session(model, options))
    x = static.data("x", [2])
    with pytest.raises(errors.ProviderError, match="could not start CUDA"):
        static.Executor(static.CUDAPlace(0)).run(feed={"x": np.ones(2, np.float32)}, fetch_list=[x * 2.0])


def test_missing_cudnn_is_found_when_the_place_is_made(monkeypatch):
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)

    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(errors.ProviderError, match="cuDNN"):
        static.CUDAPlace(0)


def test_options_of_a_place_reach_the_provider_and_tell_places_apart(monkeypatch):
    plain, fast = static.CUDAPlace(1), static.CUDAPlace(1, use_tf32=True, gpu_mem_limit=2**30)
    assert plain != fast and plain == static.CUDAPlace(1, use_tf32=False) and len({plain, fast, static.CUDAPlace(1)}) == 2
    first = static.CUDAPlace(0)
    assert first != plain
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None, raising=False)
    assert plain.providers() == [("CUDAExecutionProvider", {"device_id": "1", "use_tf32": "0"}), "CPUExecutionProvider"]
    assert fast.providers()[0][1] == {"device_id": "1", "use_tf32": "1", "gpu_mem_limit": str(2**30)}
    # onnxruntime 1.31 prints a warning for each session that is given a number.
    assert first.providers()[0][1] == {"use_tf32": "0"}
    with pytest.raises(errors.ArgumentError, match="no option 'tf32'"):
        static.CUDAPlace(0, tf32=True)


def test_a_seed_gives_the_same_weights_on_every_device(monkeypatch):
    from onnxgrad.core.runtime import executor

    def recorded(program, fetches, place, threads):
        places.append(place)
        return opened(program, fetches, static.CPUPlace(), threads)

    places, opened = [], executor.prepare
    monkeypatch.setattr(executor, "prepare", recorded)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        static.nn.fc(static.data("x", [2, 3]), 4)
    static.Executor(static.CUDAPlace(1)).run(startup)
    assert places == [static.CPUPlace()]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
def test_ortvalues_are_fed_as_they_are(dtype):
    x = static.data("x", [None, 2], dtype)
    y = paddle.cast(x, "float32") + 1.0
    array = np.array([[1, 2], [3, 4]]).astype(x.dtype.numpy)
    value = value_of(array)
    (found,) = static.Executor().run(feed={"x": value}, fetch_list=[y])
    np.testing.assert_array_equal(found, array.astype(np.float32) + 1)
    np.testing.assert_array_equal(array_of(value), array)
    with pytest.raises(errors.FeedError, match="takes"):
        static.Executor().run(feed={"x": value_of(np.zeros((2, 2), np.float64))}, fetch_list=[y])
    with pytest.raises(errors.FeedError, match="shape"):
        static.Executor().run(feed={"x": value_of(array[0])}, fetch_list=[y])


needs_cuda = pytest.mark.skipif(not paddle.is_compiled_with_cuda(), reason="needs a CUDA device and onnxruntime-gpu")


@needs_cuda
def test_training_on_cuda_agrees_with_the_cpu():
    losses = {}
    for place in (static.CPUPlace(), static.CUDAPlace(0)):
        paddle.seed(5)
        main, startup = static.Program(), static.Program()
        with paddle.state.fresh_names(), static.program_guard(main, startup), static.scope_guard(static.Scope()):
            x = static.data("x", [None, 3, 8, 8])
            y = static.nn.batch_norm(static.nn.conv2d(x, 4, 3, padding=1), act="relu")
            loss = F.cross_entropy(static.nn.fc(y, 5), static.data("label", [None, 1], "int64"))
            paddle.optimizer.Adam(0.01).minimize(loss)
            executor = static.Executor(place)
            executor.run(startup)
            rng = np.random.default_rng(0)
            feed = {"x": rng.normal(size=(4, 3, 8, 8)).astype(np.float32), "label": rng.integers(0, 5, (4, 1))}
            losses[place] = [float(executor.run(main, feed, [loss])[0]) for _ in range(5)]
    cpu, cuda = losses.values()
    np.testing.assert_allclose(cuda, cpu, rtol=1e-3)


@pytest.mark.parametrize("narrow", [False, True], ids=["float32", "float16"])
def test_written_out_batch_normalization_computes_what_the_kernel_does(narrow):
    """What CUDA gets instead of the training-mode kernel, run on the CPU."""
    from onnxgrad.core.compile import compile
    from onnxgrad.core.interop.onnx_export import write_model

    rng = np.random.default_rng(0)
    x = static.data("x", [None, 3, 4, 4])
    y = static.nn.batch_norm(x)
    if narrow:
        paddle.amp.to_mixed_precision(x.block.program, lists=static.amp.AutoMixedPrecisionLists(custom_white_list={"batch_norm"}))
    static.Executor().run(static.default_startup_program())
    feed = {"x": rng.normal(2.0, 3.0, (5, 3, 4, 4)).astype(np.float32)}
    program = x.block.program
    results = []
    for lower in (False, True):
        graph = compile(program, [y], "cuda" if lower else None, state_as_inputs=True)
        if lower:
            assert not any(op.type == "BatchNormalization" for op in graph.operators)
        session = onnxruntime.InferenceSession(write_model(graph).SerializeToString())
        state = {v.name: v.get_value() for v in graph.inputs if v.persistable}
        results.append(session.run(None, {**feed, **state}))
    for kernel, written_out in zip(*results, strict=True):
        # Results in float16 are rounded to 1e-3.
        np.testing.assert_allclose(written_out, kernel, rtol=2e-3 if narrow else 1e-4, atol=2e-3 if narrow else 1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_import_survives_fork():
    child = os.fork()
    if child == 0:
        try:
            x = static.data("x", [2])
            found = static.Executor().run(feed={"x": np.ones(2, np.float32)}, fetch_list=[x + 1.0])
            os._exit(0 if found[0].tolist() == [2.0, 2.0] else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_fetched_state_keeps_its_value_when_the_state_is_replaced():
    """OrtValue.numpy() of onnxruntime is a view that dies with the OrtValue."""
    rate = paddle.optimizer.lr.LambdaDecay(1.0, float)
    loss = paddle.mean(static.nn.fc(static.data("x", [None, 1]), 1))
    paddle.optimizer.SGD(rate).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    found = []
    for _ in range(10):
        found.append(executor.run(feed={"x": np.ones((1, 1), np.float32)}, fetch_list=["learning_rate_0"])[0])
        rate.step()
    assert found == list(range(10))


@pytest.mark.parametrize(("length", "reuses"), [(10, True), (2000, False)])
def test_large_graphs_open_without_the_planner_that_compares_all_buffers(length, reuses, monkeypatch):
    opened = []
    session = onnxruntime.InferenceSession

    def note(message, options, **further):
        opened.append(options)
        return session(message, options, **further)

    monkeypatch.setattr(onnxruntime, "InferenceSession", note)
    y = static.data("x", [None])
    for _ in range(length):
        y = paddle.tanh(y)
    value = static.Executor().run(feed={"x": np.zeros(2, np.float32)}, fetch_list=[y])[0]
    assert value.tolist() == [0.0, 0.0]
    assert [options.enable_mem_reuse for options in opened] == [reuses]
