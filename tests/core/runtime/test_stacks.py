"""Moments of a weight as one input and one output: the values of plain steps, and memory that only its holders change."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.errors import ProviderError
from onnxgrad.static import CPUPlace, OpenVINOPlace


class StackingPlace(CPUPlace):
    """The CPU provider with state as OpenVINO's provider reads it."""

    stacks_state = True

    def _key(self):
        return ("stacking",)


def net(optimizer="AdamW", **options):
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 5
    with static.program_guard(main, startup):
        x, label = static.data("x", [8, 12]), static.data("label", [8], "int64")
        loss = F.cross_entropy(static.nn.fc(F.relu(static.nn.fc(x, 20)), 5), label)
        getattr(paddle.optimizer, optimizer)(0.01, **options).minimize(loss)
    return main, startup, loss


def feed(step):
    draw = np.random.default_rng(step)
    return {"x": draw.normal(size=(8, 12)).astype(np.float32), "label": draw.integers(0, 5, 8)}


def start(place, optimizer="AdamW", **options):
    main, startup, loss = net(optimizer, **options)
    executor, scope = static.Executor(place, threads=1), static.Scope()
    with static.scope_guard(scope):
        static.Executor().run(startup)
    return lambda step, fetches=(): executor.run(main, feed(step), [loss, *fetches], scope=scope), scope, main, executor


def values(scope):
    """In the order in which they were made: two programs give them other names"""
    return [scope.get(name) for name in scope.local_var_names()]


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def stacks(executor):
    (step,) = [prepared for one in executor._sessions._by_program.values() for prepared in one.prepared.values()]
    return [[v.name for v in stack.state] for stack in step.stacks], [v.name for v in step.session.get_inputs()]


@pytest.mark.parametrize("optimizer", ["AdamW", "Adam", "NAdam", "Lamb", "Adamax", "Momentum", "SGD"])
def test_steps_are_those_of_state_apart(optimizer):
    plain, before, _, _ = start(CPUPlace(), optimizer)
    step, scope, main, executor = start(StackingPlace(), optimizer)
    for number in range(4):
        assert float(step(number)[0]) == float(plain(number)[0])
    assert_equal(values(scope), values(before))
    found, inputs = stacks(executor)
    moments = {"Momentum": 1, "SGD": 0}.get(optimizer, 2)
    assert len(found) == (len(main.all_parameters()) if moments == 2 else 0)
    assert all(len(stack) > 1 for stack in found)
    # Of a stack the session reads nothing apart, and of a weight nothing else.
    assert not {name for stack in found for name in stack} & set(inputs)
    assert {p.name for p in main.all_parameters()} <= set(inputs)


def test_a_moment_that_is_fetched_is_no_part_of_a_stack():
    plain, _, _, _ = start(CPUPlace())
    step, scope, main, executor = start(StackingPlace())
    name = next(name for name in scope.local_var_names() if name.endswith("w_0_moment1_0"))
    new = next(new for v, new in main.updates.items() if v.name == name)
    fetched = next(v for v in main.updates if v.name == name)
    for number in range(3):
        found = step(number, [main.updates[fetched]])
        plain(number)
        np.testing.assert_array_equal(found[1], scope.get(name))
    assert all(name not in stack for stack in stacks(executor)[0]) and new is main.updates[fetched]


def test_whoever_sets_takes_back_or_holds_state_sees_what_plain_steps_give():
    plain, before, _, _ = start(CPUPlace())
    step, scope, _, _ = start(StackingPlace())
    at = next(at for at, name in enumerate(scope.local_var_names()) if name.endswith("w_0_moment2_0"))
    moment = scope.local_var_names()[at]

    def both(function):
        for run, state in ((plain, before), (step, scope)):
            function(run, state)
        assert_equal(values(scope), values(before))

    def undone(run, state):
        def change():
            run(7), run(8)
            raise KeyError("undone")

        with pytest.raises(KeyError):
            state.change(change)

    both(lambda run, state: (run(0), run(1), run(2)))
    both(
        lambda run, state: state.set(
            state.local_var_names()[at], np.full(state.get(state.local_var_names()[at]).shape, 0.25, np.float32)
        )
    )
    both(lambda run, state: (run(3), run(4)))
    both(undone)
    handle, held = scope.values[moment], scope.get(moment)
    copy = scope.copy()
    kept = values(copy)
    both(lambda run, state: (run(5), run(6), run(7), run(8)))
    np.testing.assert_array_equal(handle.numpy(), held)
    assert_equal(values(copy), kept)
    assert not np.array_equal(scope.get(moment), held)
    both(
        lambda run, state: (
            state.take(copy) if state is scope else state.put_all(dict(zip(state.local_var_names(), kept, strict=True)))
        )
    )
    both(lambda run, state: (run(9), run(10), run(11)))


def test_steps_of_both_places_take_turns_on_one_scope():
    """Each reads and writes over what the other has left"""
    main, startup, loss = net()
    scopes = static.Scope(), static.Scope()
    places = [CPUPlace()] * 6, [StackingPlace(), CPUPlace(), CPUPlace(), StackingPlace(), StackingPlace(), CPUPlace()]
    for scope, order in zip(scopes, places, strict=True):
        executors = {place: static.Executor(place, threads=1) for place in order}
        with static.scope_guard(scope):
            static.Executor().run(startup)
        for number, place in enumerate(order):
            executors[place].run(main, feed(number), [loss], scope=scope)
    assert_equal(values(scopes[1]), values(scopes[0]))


def test_no_memory_is_made_after_the_second_step(monkeypatch):
    rooms = []
    place = StackingPlace()
    room = CPUPlace.room
    monkeypatch.setattr(StackingPlace, "room", lambda self, shape, dtype: rooms.append(tuple(shape)) or room(self, shape, dtype))
    step, _, _, _ = start(place)
    step(0), step(1)
    assert Counter(rooms)[24, 20] == 2  # 12 x 20 twice, and a step writes to other memory than it reads
    rooms.clear()
    for number in range(4):
        step(number)
    assert not rooms


def test_the_update_of_a_weight_is_one_pass_in_openvino(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime_ep_openvino", reason="onnxruntime-ep-openvino is not installed: OpenVINO was not tried")
    try:
        place = OpenVINOPlace()
    except ProviderError as error:
        pytest.skip(f"OpenVINO was not tried: {error}")
    passes, real = {}, onnxruntime.InferenceSession
    for stacks_state in (False, True):
        monkeypatch.setattr(OpenVINOPlace, "stacks_state", stacks_state)
        sessions = []

        def session(message, options, *rest, sessions=sessions, **known):
            options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
            sessions.append(real(message, options, *rest, **known))
            return sessions[-1]

        def add_to(self, options, threads, saved):
            settings = {"NUM_STREAMS": "1", "PERF_COUNT": "YES", "INFERENCE_NUM_THREADS": 1}
            device = next(d for d in onnxruntime.get_ep_devices() if d.ep_metadata.get("ov_device") == "CPU")
            options.add_provider_for_devices([device], {"load_config": json.dumps({"CPU": settings})})

        step, _, main, _ = start(place)
        with monkeypatch.context() as patched:
            patched.setattr(onnxruntime, "InferenceSession", session)
            patched.setattr(OpenVINOPlace, "add_to", add_to)
            step(0)
        events = json.loads(Path(sessions[-1].end_profiling()).read_text())
        passes[stacks_state] = [e["name"] for e in events if "UPDATE" in e["name"] and e["args"].get("ov_node_type") == "Subgraph"]
    weights = len(main.all_parameters())
    assert len(passes[True]) <= weights + 1 and len(passes[False]) >= 3 * weights
