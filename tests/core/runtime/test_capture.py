"""Steps that are captured and replayed: the CPU provider behind a session that replays as a CUDA graph does, from recorded addresses."""

import threading
import time

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import Executor, static
from onnxgrad.core.runtime import capture, session_cache
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.state.scope import Scope


class ReplayPlace(CPUPlace):
    captures = wants_shapes = True

    def plain(self):
        return CPUPlace()

    def _key(self):
        return ("replay",)


class Binding:
    """Remembers what is bound, as an IOBinding does not tell."""

    def __init__(self, session):
        self.session, self.inputs, self.outputs = session, {}, {}

    def bind_ortvalue_input(self, name, value):
        self.inputs[name] = value

    def bind_ortvalue_output(self, name, value):
        self.outputs[name] = value


class ReplayingSession:
    """The first run of a graph's number records what was bound; later ones read and write that, whatever is bound then."""

    def __init__(self, session):
        self._session = session
        self.graphs, self.replays, self.plain_runs = {}, 0, 0
        self.alone = threading.Lock()

    def io_binding(self):
        return Binding(self)

    def get_outputs(self):
        return self._session.get_outputs()

    def run_with_iobinding(self, binding, options):
        number = int(options.get_run_config_entry("gpu_graph_id"))
        bound = (dict(binding.inputs), dict(binding.outputs))
        if number < 0:
            self.plain_runs += 1
        elif number in self.graphs:
            self.replays += 1
            bound = self.graphs[number]
        else:
            self.graphs[number] = bound
        real = self._session.io_binding()
        for name, value in bound[0].items():
            real.bind_ortvalue_input(name, value)
        for name, value in bound[1].items():
            real.bind_ortvalue_output(name, value)
        # Runs that overlap would write into each other's results on the way.
        assert self.alone.acquire(blocking=False)
        self._session.run_with_iobinding(real)
        time.sleep(0.002)
        self.alone.release()


@pytest.fixture
def sessions(monkeypatch):
    found, opened = [], session_cache.open_graph

    def open_one(graph, place, *arguments, **named):
        session = opened(graph, place, *arguments, **named)
        if place.captures:
            session = ReplayingSession(session)
            found.append(session)
        return session

    monkeypatch.setattr(session_cache, "open_graph", open_one)
    monkeypatch.setattr(session_cache, "host_operators", lambda session: [])
    return found


class Net:
    """A step with Dropout, Adam and a schedule, on two places from the same weights."""

    def __init__(self, batch=None):
        paddle.seed(3)
        self.main, startup = static.Program(), static.Program()
        with paddle.state.fresh_names(), static.program_guard(self.main, startup):
            self.x, y = static.data("x", [batch, 6]), static.data("y", [batch, 3])
            self.hidden = F.dropout(F.relu(static.nn.fc(self.x, 8)), 0.3)
            self.loss = paddle.mean(paddle.square(static.nn.fc(self.hidden, 3) - y))
            self.rate = paddle.optimizer.lr.ExponentialDecay(0.1, 0.9)
            paddle.optimizer.Adam(self.rate).minimize(self.loss)
        self.scope = Scope()
        self.executor, plain = Executor(ReplayPlace()), Executor()
        plain.run(startup, scope=self.scope)
        self.draw = np.random.default_rng(0)
        self.other = self.scope.copy()
        self.plain = plain

    def feed(self, rows=4):
        return {name: self.draw.normal(size=(rows, width)).astype(np.float32) for name, width in (("x", 6), ("y", 3))}

    def step(self, feed=None, numpy=True, fetches=()):
        """What both give, compared bitwise"""
        feed = feed or self.feed()
        wanted = [self.loss, *fetches]
        found = self.executor.run(self.main, feed, wanted, scope=self.scope, return_numpy=numpy)
        expected = self.plain.run(self.main, feed, wanted, scope=self.other)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a if numpy else a.numpy(), b)
        self.rate.step()
        return found

    def same_state(self):
        for name in self.scope.local_var_names():
            np.testing.assert_array_equal(self.scope.get(name), self.other.get(name), err_msg=name)


def test_a_step_is_captured_once_for_each_side_and_replayed(sessions):
    net = Net()
    for _ in range(7):
        net.step(fetches=[net.hidden])
    net.same_state()
    (session,) = sessions
    assert len(session.graphs) == 2 and session.replays == 5 and session.plain_runs == 0


def test_state_that_is_set_between_steps_is_read(sessions):
    net = Net(4)
    name = net.main.all_parameters()[0].name
    for step in range(8):
        net.step()
        if step % 3 == 1:
            for scope in (net.scope, net.other):
                scope.set(name, scope.get(name) * 0.5)
    net.same_state()
    assert sessions[0].replays


def test_state_that_somebody_holds_is_not_written_over(sessions):
    net = Net(4)
    net.step()
    kept, values = net.scope.copy(), {name: net.scope.get(name) for name in net.scope.local_var_names()}
    for _ in range(4):
        net.step()
    for name, value in values.items():
        np.testing.assert_array_equal(kept.get(name), value)
    net.same_state()


def test_fetches_that_stay_on_the_device_keep_their_values(sessions):
    net = Net(4)
    net.step()
    ((held),) = net.step(numpy=False)
    before = held.numpy().copy()
    for _ in range(4):
        net.step()
    np.testing.assert_array_equal(held.numpy(), before)
    assert sessions[0].plain_runs == 1


def test_values_on_the_device_are_fed_where_they_lie(sessions):
    net = Net(4)
    arrays = [net.feed() for _ in range(2)]
    values = [{name: onnxruntime.OrtValue.ortvalue_from_numpy(a) for name, a in feed.items()} for feed in arrays]
    for step in range(9):
        feed = [*values, *arrays][step % 4] if step < 8 else net.feed()
        net.step(feed)
    net.same_state()
    assert sessions[0].replays


def test_each_shape_has_graphs_of_its_own_and_further_shapes_none(sessions):
    net = Net()
    with pytest.warns(UserWarning, match="is not known"):
        for rows in (4, 2, 4, 2, 3, 5, 6, 4, 2):
            net.step(net.feed(rows))
    net.same_state()
    assert len(sessions) == 4


def test_after_a_few_graphs_runs_are_plain(sessions):
    net, held = Net(4), []
    for _ in range(14):
        held.append(net.scope.copy())
        net.step()
    net.same_state()
    assert len(sessions[0].graphs) == capture._MOST and sessions[0].plain_runs == 14 - capture._MOST


def test_threads_on_scopes_of_their_own_wait_for_each_other(sessions):
    net = Net(4)
    net.step()
    scopes, feed, failed = [net.scope.copy() for _ in range(3)], net.feed(), []

    def train(scope):
        try:
            for _ in range(6):
                net.executor.run(net.main, feed, [net.loss], scope=scope)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=train, args=(scope,)) for scope in scopes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for name in scopes[0].local_var_names():
        np.testing.assert_array_equal(scopes[0].get(name), scopes[1].get(name))


def test_control_flow_and_random_operators_run_plainly(sessions):
    x = static.data("x", [2, 3])
    for build in (
        lambda h: static.nn.cond(paddle.sum(h) > 0, lambda: h * 2.0, lambda: h * 3.0),
        lambda h: h + h.block.build.RandomNormalLike(h),
    ):
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            x = static.data("x", [2, 3])
            loss = paddle.mean(build(static.nn.fc(x, 3)))
            paddle.optimizer.SGD(0.1).minimize(loss)
        executor = Executor(ReplayPlace())
        executor.run(startup)
        with pytest.warns(UserWarning, match="not replayed as a CUDA graph"):
            executor.run(main, {"x": np.ones((2, 3), np.float32)}, [loss])
    assert not sessions


def test_an_operand_that_is_read_on_the_host_is_no_input(sessions):
    """A replay would go on with the bounds of the capture"""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x, bound = static.data("x", [2, 3]), static.data("bound", [])
        loss = paddle.mean(x.block.build.Clip(static.nn.fc(x, 3), bound))
        paddle.optimizer.SGD(0.1).minimize(loss)
    executor = Executor(ReplayPlace())
    executor.run(startup)
    with pytest.warns(UserWarning, match="Clip reads an input on the host"):
        executor.run(main, {"x": np.ones((2, 3), np.float32), "bound": np.array(0.5, np.float32)}, [loss])


def test_cuda_places_differ_by_capture():
    place = static.CUDAPlace(0, enable_cuda_graph=True)
    assert place.captures and place != static.CUDAPlace(0) and place.plain() == static.CUDAPlace(0)
    assert not static.CUDAPlace(0, enable_cuda_graph=False).captures
