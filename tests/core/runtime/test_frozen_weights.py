"""Frozen weights are constants of a step's session, and what is set, loaded or trained elsewhere counts from the next run."""

import threading

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as paddle
from onnxgrad import from_onnx, static
from onnxgrad.core.ir.tensor import TensorValue
from onnxgrad.core.runtime import frozen_weights as module, session_cache
from onnxgrad.core.runtime.frozen_weights import HeldWeights, frozen_weights
from onnxgrad.core.runtime.places import CPUPlace
from onnxgrad.core.state.buffers import Buffer
from onnxgrad.core.state.values import view_of
from onnxgrad.distributed import Strategy, run_local
from onnxgrad.distributed.environment import using
from onnxgrad.dtypes import dtype_of
from onnxgrad.training import Trainer, add_lora
from onnxgrad.training.run.checkpoint import load_checkpoint, save_checkpoint

WIDTH = 128
X = np.random.default_rng(5).normal(size=(3, 8, WIDTH)).astype("float32")


def build(trained=(), optimizer=None, scope=None):
    """Two frozen layers with a branch beside each, as LoRA has; a weight is trained where it is named."""
    program, startup = static.Program(), static.Program()
    program.random_seed = 3
    with static.program_guard(program, startup), paddle.utils.unique_name.guard():
        h = static.data("x", [None, 8, WIDTH])
        for i in range(2):
            w = paddle.create_parameter([WIDTH, WIDTH], "float32", name=f"w{i}")
            w.stop_gradient = w.name not in trained
            w.trainable = w.name in trained
            a = paddle.create_parameter([WIDTH, 2], "float32", name=f"a{i}")
            b = paddle.create_parameter([2, WIDTH], "float32", name=f"b{i}")
            h = paddle.tanh(paddle.matmul(h, w) + paddle.matmul(paddle.matmul(h, a), b))
        loss = paddle.mean(paddle.square(h - 0.5))
        (optimizer or paddle.optimizer.SGD(0.1)).minimize(loss)
    kept = {} if scope is None else {p.name: scope.get(p.name) for p in program.all_parameters()}
    program.scope = startup.scope = scope or paddle.Scope()
    static.Executor().run(startup)
    program.set_state_dict({**program.state_dict(), **kept})
    if scope is None:
        draw = np.random.default_rng(7)
        for p in sorted(program.all_parameters(), key=lambda p: p.name):
            p.set_value(draw.normal(0, 0.1, p.shape).astype("float32"))
    return program, loss


def run(executor, program, loss, x=X, scope=None):
    return executor.run(program, {"x": x}, [loss], scope=scope)[0].item()


def held_names(executor, program, loss):
    return {name for phase in executor.step(program, [loss]).phases for name in phase.holds}


def other_value(seed=11):
    return np.random.default_rng(seed).normal(0, 0.3, (WIDTH, WIDTH)).astype("float32")


# What is held ------------------------------------------------------------------------------------------------------------


def test_weights_that_no_run_replaces_are_constants_of_the_session():
    program, loss = build()
    executor = static.Executor(memory=None)
    assert held_names(executor, program, loss) == {"w0", "w1"}
    (phase,) = executor.step(program, [loss]).phases
    assert not {"w0", "w1"} & set(phase.reads)
    assert "holds w" in str(phase)
    inputs = {v.name for v in next(iter(executor._sessions._by_program[program].prepared.values())).session.get_inputs()}
    assert not {"w0", "w1"} & inputs
    assert {"x", "a0", "b1"} <= inputs


@pytest.mark.parametrize("options", [{"memory": "low"}, {"cache": "graphs"}])
def test_one_copy_of_state_and_kept_graphs_leave_them_inputs(options, tmp_path):
    program, loss = build()
    if "cache" in options:
        options = {"cache": tmp_path / options["cache"]}
    assert held_names(static.Executor(**options), program, loss) == set()


def test_larger_weights_stay_inputs_where_copies_take_too_much(monkeypatch):
    program, _ = build()
    size = 4 * WIDTH * WIDTH
    assert {v.name for v in frozen_weights(program, None)} == {"w0", "w1"}
    # Forward and backward pass pack w1; no gradient goes on from w0's layer.
    assert {v.name for v in frozen_weights(program, size)} == {"w0"}
    assert frozen_weights(program, size - 1) == []
    monkeypatch.setattr(session_cache, "MOST_BYTES", size)
    assert held_names(static.Executor(), *build()) == {"w0"}
    assert held_names(static.Executor(memory=None), *build()) == {"w0", "w1"}


def test_what_more_than_products_reads_stays_an_input():
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup), paddle.utils.unique_name.guard():
        x = static.data("x", [None, WIDTH])
        weights = [paddle.create_parameter([WIDTH, WIDTH], "float32", name=name) for name in ("plain", "scaled", "table", "left")]
        for w in weights:
            w.stop_gradient, w.trainable = True, False
        plain, scaled, table, left = weights
        rows = paddle.gather(table, static.data("rows", [8], "int64"))
        y = paddle.matmul(paddle.matmul(static.nn.fc(x, WIDTH), plain), scaled * 2.0)
        y = paddle.matmul(y, table, transpose_y=True) + paddle.mean(rows)
        y = paddle.matmul(left, paddle.transpose(y, [1, 0]))
        paddle.optimizer.SGD(0.1).minimize(paddle.mean(y))
    assert {v.name for v in frozen_weights(program, None)} == {"plain", "table"}


def test_a_program_that_trains_nothing_holds_no_weights():
    program, loss = build()
    evaluation = program.clone(for_test=True)
    assert frozen_weights(evaluation, None) == []
    executor = static.Executor(memory=None)
    assert held_names(executor, evaluation, loss.name) == set()


def test_steps_are_those_of_a_session_that_reads_inputs():
    expected, found = ({}, {})
    for values, memory in ((expected, "low"), (found, None)):
        program, loss = build(optimizer=paddle.optimizer.Adam(0.01))
        executor = static.Executor(memory=memory)
        losses = [run(executor, program, loss) for _ in range(4)]
        values.update({v.name: np.asarray(v.get_value()) for v in program.list_vars() if v.persistable}, losses=np.array(losses))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


# Doors: what is set counts from the next run --------------------------------------------------------------------------------


def by_variable(program, executor, loss, tmp_path):
    program.find("w1").set_value(other_value())


def by_scope(program, executor, loss, tmp_path):
    program.scope.set("w1", other_value())


def by_scope_tensor(program, executor, loss, tmp_path):
    program.scope.find_var("w1").get_tensor().set(other_value(), CPUPlace())


def by_scope_values(program, executor, loss, tmp_path):
    program.scope.values["w1"] = other_value()


def by_state_dict(program, executor, loss, tmp_path):
    program.set_state_dict({**program.state_dict(), "w1": other_value()})


def by_feed(program, executor, loss, tmp_path):
    executor.run(program, {"x": X, "w1": other_value()}, [loss])


def by_change(program, executor, loss, tmp_path):
    program.scope.change(lambda: program.scope.set("w1", other_value()))


def by_take(program, executor, loss, tmp_path):
    other = program.scope.copy()
    other.set("w1", other_value())
    program.scope.take(other)


def by_checkpoint(program, executor, loss, tmp_path):
    kept = program.scope.get("w1")
    program.scope.set("w1", other_value())
    save_checkpoint(program, tmp_path / "state.safetensors")
    program.scope.set("w1", kept)
    run(executor, program, loss)
    load_checkpoint(program, tmp_path / "state.safetensors")


def by_static_load(program, executor, loss, tmp_path):
    other = program.scope.copy()
    other.set("w1", other_value())
    kept, program.scope = program.scope, other
    static.save(program, str(tmp_path / "state"))
    program.scope = kept
    static.load(program, str(tmp_path / "state"), executor)


def by_training_elsewhere(program, executor, loss, tmp_path):
    other, its_loss = build(trained=["w1"], optimizer=paddle.optimizer.SGD(50.0), scope=program.scope)
    run(executor, other, its_loss)


DOORS = [
    by_variable,
    by_scope,
    by_scope_tensor,
    by_scope_values,
    by_state_dict,
    by_feed,
    by_change,
    by_take,
    by_checkpoint,
    by_static_load,
    by_training_elsewhere,
]


@pytest.mark.parametrize("memory", [None, "auto"])
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_frozen_weight_that_is_set_counts_from_the_next_run(door, memory, tmp_path):
    """Also a second and a third time; the run that reads inputs says what is right."""
    losses = {}
    for kind in (memory, "low"):
        program, loss = build()
        executor = static.Executor(memory=kind)
        before = [run(executor, program, loss) for _ in range(2)]
        if kind != "low":
            assert "w1" in held_names(executor, program, loss)
        after = []
        for _ in range(3):
            door(program, executor, loss, tmp_path)
            after += [run(executor, program, loss) for _ in range(2)]
            program.scope.set("w1", other_value(13))
            after.append(run(executor, program, loss))
        losses[kind] = [*before, *after]
        assert abs(after[0] - before[-1]) > 0.01, "the door must change the loss, or the test shows nothing"
    np.testing.assert_allclose(losses[memory], losses["low"], rtol=1e-4)


def test_a_weight_that_is_unfrozen_trains_from_the_next_run():
    program, loss = build()
    executor = static.Executor(memory=None)
    run(executor, program, loss)
    assert held_names(executor, program, loss) == {"w0", "w1"}
    w, second = program.find("w1"), static.Program()
    w.stop_gradient, w.trainable = False, True
    with static.program_guard(program, second):
        paddle.optimizer.SGD(0.5).minimize(loss, parameters=[w])
    static.Executor().run(second, scope=program.scope)
    before = program.scope.get("w1")
    run(executor, program, loss)
    assert held_names(executor, program, loss) == {"w0"}
    assert np.abs(program.scope.get("w1") - before).max() > 0


def test_what_a_change_sets_is_undone_with_it():
    program, loss = build()
    executor = static.Executor(memory=None)
    expected = run(executor, program, loss)
    state = {name: program.scope.get(name) for name in program.scope.local_var_names()}

    def fails():
        program.scope.set("w1", other_value())
        assert abs(run(executor, program, loss) - expected) > 0.01
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program.scope.change(fails)
    for name, value in state.items():
        np.testing.assert_array_equal(program.scope.get(name), value, err_msg=name)
    again, its_loss = build()
    low = static.Executor(memory="low")
    assert run(low, again, its_loss) == pytest.approx(expected, rel=1e-5)
    assert run(executor, program, loss) == pytest.approx(run(low, again, its_loss), rel=1e-5)


def test_each_scope_has_its_own_values():
    program, loss = build()
    executor, low = static.Executor(memory=None), static.Executor(memory="low")
    other = program.scope.copy()
    other.set("w1", other_value())
    scopes = [program.scope, other, program.scope, other, program.scope]
    copies = {id(scope): scope.copy() for scope in scopes}
    found = [run(executor, program, loss, scope=scope) for scope in scopes]
    expected = [run(low, program, loss, scope=copies[id(scope)]) for scope in scopes]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


# Sessions -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch):
    """How many sessions hold weights, and which"""
    sets = []

    class Counted(HeldWeights):
        def __init__(self, scope, weights, place):
            sets.append([v.name for v in weights])
            super().__init__(scope, weights, place)

    monkeypatch.setattr(session_cache, "HeldWeights", Counted)
    return sets


def test_values_of_the_same_content_keep_the_session(opened):
    program, loss = build()
    executor = static.Executor(memory=None)
    run(executor, program, loss)
    for _ in range(3):
        program.find("w1").set_value(program.find("w1").get_value())
        run(executor, program, loss)
        run(executor, program, loss, scope=program.scope.copy())
    assert opened == [["w0", "w1"]]
    program.scope.set("w1", np.full((WIDTH, WIDTH), np.nan, "float32"))
    assert np.isnan(run(executor, program, loss))
    program.scope.set("w1", np.full((WIDTH, WIDTH), np.nan, "float32"))
    run(executor, program, loss)
    assert len(opened) == 2


def test_weights_that_change_again_and_again_become_inputs(opened):
    program, loss = build()
    executor = static.Executor(memory=None)
    for seed in range(6):
        program.find("w1").set_value(other_value(seed))
        run(executor, program, loss)
    assert len(opened) == 2
    assert held_names(executor, program, loss) == set()


def test_content_is_compared_only_where_the_object_is_another(monkeypatch):
    program, loss = build()
    executor = static.Executor(memory=None)
    run(executor, program, loss)
    monkeypatch.setattr(module, "_takes", lambda *arguments: pytest.fail("content is compared"))
    for _ in range(3):
        run(executor, program, loss)


def test_nobody_writes_over_the_memory_of_a_session():
    program, loss = build()
    executor = static.Executor(memory=None)
    run(executor, program, loss)
    buffer = program.scope.present("w1")
    assert isinstance(buffer, Buffer)
    assert not buffer.is_held_by(1)
    executor.close()
    assert buffer.is_held_by(1)


def test_the_constants_of_a_program_lie_where_it_has_them_and_are_never_written_over():
    program, loss = build()
    w = program.find("w1")
    w.value = TensorValue(dtype_of("float32"), (WIDTH, WIDTH), other_value())
    del program.scope.values["w1"]
    executor = static.Executor(memory=None)
    run(executor, program, loss)
    buffer = program.scope.present("w1")
    assert np.shares_memory(view_of(buffer.value), w.value.numpy())
    executor.close()
    assert not buffer.is_held_by(1)


# Trainers, ranks ------------------------------------------------------------------------------------------------------------


def layers():
    """Two layers of float32 matrices, w0 and w1, and a head"""
    draw = np.random.default_rng(3)
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> net (float[N, {WIDTH}] x) => (float[N, 3] y) {{
        a = MatMul(x, w0)  b = Tanh(a)  c = MatMul(b, w1)  d = Tanh(c)  y = MatMul(d, head) }}"""
    )
    for name, shape in {"w0": (WIDTH, WIDTH), "w1": (WIDTH, WIDTH), "head": (WIDTH, 3)}.items():
        model.graph.initializer.append(numpy_helper.from_array(draw.normal(0, 0.1, shape).astype("float32"), name))
    return model


def rows(count=24):
    draw = np.random.default_rng(9)
    return {"x": draw.normal(size=(count, WIDTH)).astype("float32"), "target": draw.integers(0, 3, count)}


def adapted(**options):
    program = from_onnx(layers())
    program.random_seed = 4
    add_lora(program, rank=2)
    return Trainer(program, loss="cross_entropy", optimizer="sgd", learning_rate=0.1, **options)


def headed(**options):
    return Trainer(layers(), loss="cross_entropy", freeze="w*", learning_rate=0.01, **options)


def holds(trainer):
    step = trainer.executor.step(trainer.program, [trainer.loss], trainer.program.active_scope())
    return {name for phase in step.phases for name in phase.holds}


def state_of(trainer):
    return {v.name: np.asarray(v.get_value()) for v in trainer.program.list_vars() if v.persistable}


def assert_near(found, expected, **tolerances):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, err_msg=name, **{"rtol": 1e-4, "atol": 1e-6, **tolerances})


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"ema": 0.9}, {"checkpoints": "auto", "sizes": {"N": 8}}], ids=str)
def test_a_trainer_of_adapters_trains_the_same_with_layers_that_are_held(options):
    held, low = adapted(**options), adapted(memory="low", **options)
    for trainer in (held, low):
        trainer.fit(rows(), 2, rows(), batch_size=8, verbose=False)
    assert holds(held) == {"w0", "w1"}
    assert holds(low) == set()
    assert_near(state_of(held), state_of(low))
    for name, value in held.predict(rows()).items():
        np.testing.assert_allclose(value, low.predict(rows())[name], rtol=1e-4)


def test_exports_know_nothing_of_it(tmp_path):
    files = []
    for memory in ("auto", "low"):
        trainer, folder = headed(memory=memory), tmp_path / memory
        assert holds(trainer) == ({"w0", "w1"} if memory == "auto" else set())
        folder.mkdir()
        trainer.export(folder / "model.onnx")
        trainer.save_training_step(folder / "step")
        files.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len(files[0]) == 4
    assert files[0] == files[1]


def test_a_run_of_a_head_is_resumed_to_the_bit(tmp_path):
    whole, part, again = headed(), headed(), headed()
    whole.fit(rows(), 4, batch_size=8, verbose=False)
    part.fit(rows(), 2, batch_size=8, verbose=False, out=tmp_path / "run")
    again.fit(rows(), total_epochs=4, batch_size=8, verbose=False, out=tmp_path / "run", resume=True)
    assert "w1" in holds(again)
    for name, value in state_of(whole).items():
        np.testing.assert_array_equal(state_of(again)[name], value, err_msg=name)


def test_integers_of_frozen_layers_leave_the_backward_pass_its_constants():
    found, expected = headed(frozen="int8", trainable="head"), headed(frozen="int8", memory="low")
    for trainer in (found, expected):
        trainer.fit(rows(), 1, batch_size=8, verbose=False)
    assert_near(state_of(found), state_of(expected))


@pytest.mark.parametrize("overlap", [1, 2])
def test_ranks_hold_the_frozen_weights_of_the_first(overlap):
    """Each rank begins with others."""
    lock = threading.Lock()

    def trained(transport):
        with using(transport), lock:
            trainer = adapted(distributed=Strategy(overlap=overlap))
            if transport.rank:
                trainer.program.find("w1").set_value(other_value())
        with using(transport):
            trainer.fit(rows(), 2, batch_size=8, shuffle=False, verbose=False)
            return state_of(trainer), holds(trainer)

    alone = adapted(memory="low")
    alone.fit(rows(), 2, batch_size=8, shuffle=False, verbose=False)
    for state, held in run_local(2, trained):
        assert held >= {"w0", "w1"}
        assert_near(state, state_of(alone))
