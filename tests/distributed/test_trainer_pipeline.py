"""Trainer(distributed=Strategy(pipeline=...)): the run of one process, whose layers lie on several ranks."""

import numpy as np
import pytest

from onnxgrad.core.interop.onnx_import import from_onnx
from onnxgrad.distributed import Strategy
from onnxgrad.errors import ArgumentError, TrainingError
from onnxgrad.training import Report
from tests.distributed.test_trainer import assert_close, assert_same_run, on_ranks, trainer
from tests.distributed.test_trainer_shares import _is_nothing, fitted, small_pieces, whole  # noqa: F401 (a fixture)
from tests.training.small import assert_equal, data, line, weights

TWO = Strategy(pipeline=2, micro_batches=3)
CLOSE = {"rtol": 1e-3, "atol": 3e-5}


OPTIONS = [
    {},
    {"optimizer": "sgd", "clip_norm": 0.1},
    {"loss_scale": 1024.0},
    {"loss_scale": 1024.0, "clip_norm": 0.1, "ema": 0.8},
    {"schedule": "cosine", "weight_decay": 0.1},
    {"ema": 0.8, "optimizer": "adam"},
    {"accumulate": 3, "optimizer": "sgd", "learning_rate": 0.2},
    {"accumulate": 2, "loss_scale": 1024.0, "clip_norm": 0.1, "ema": 0.8},
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ", ".join(options) or "as it is")
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_pipeline_gives_the_weights_of_one_process(ranks, options):
    """Batches of 7 and a last one of 5; the second rank of each row has Dropout, whose masks are those of the whole batch"""
    assert_same_run(on_ranks(ranks, fitted(TWO, **options)), fitted(**options)(), **CLOSE)


def test_rows_without_an_example_stand_by():
    """40 examples in batches of 13 leave one, which the first of three rows has"""
    assert_same_run(on_ranks(6, fitted(TWO, batch_size=13)), fitted(batch_size=13)(), **CLOSE)


def test_cuts_may_be_named():
    strategy = Strategy(pipeline=3, micro_batches=2, cuts=("hidden", "active"))

    def work(transport):
        t = trainer(distributed=strategy)
        history = t.fit(data(), 2, data(10), batch_size=7)
        return history, whole(t), sorted(t.ranks.step._step.stage.parameters)

    found = on_ranks(3, work)
    assert [names for *_, names in found] == [
        ["body.bias", "body.weight"],
        ["body.scale", "body.shift"],
        ["head.bias", "head.weight"],
    ]
    assert_same_run([run[:2] for run in found], fitted()(), **CLOSE)


def test_a_rank_holds_the_state_of_its_stage_until_it_is_evaluated():
    def work(transport):
        t = trainer(distributed=TWO, optimizer="adam")
        scope = t.program.active_scope()
        t.step({k: v[:8] for k, v in data().items()})
        names = [v.name for v in t.program.list_vars() if v.persistable and v.static_shape and np.prod(v.static_shape) > 4]
        held = {name for name in names if not _is_nothing(scope.present(name))}
        t.evaluate(data(10))
        read = {name for name in names if not _is_nothing(scope.present(name))}
        t.step({k: v[:8] for k, v in data().items()})
        again = {name for name in names if not _is_nothing(scope.present(name))}
        return held, read, again, set(names), t.ranks.step._step.bytes_of_state()

    (first, read, again, names, bytes_first), (second, *_, bytes_second) = on_ranks(2, work)
    assert first == again and first | second == names and not first & second
    assert {"body.weight", "head.weight"} <= read and {name for name in first if "body.weight" in name} >= {"body.weight"}
    one = trainer(optimizer="adam")
    total = sum(v.get_value().nbytes for v in one.program.list_vars() if v.persistable)
    assert max(bytes_first, bytes_second) < 0.75 * total


@pytest.mark.parametrize(
    "options",
    [{"schedule": "cosine"}, {"ema": 0.8, "loss_scale": 256.0}, {"accumulate": 2, "schedule": "cosine"}],
    ids=", ".join,
)
def test_a_checkpoint_resumes_on_another_number_of_ranks(tmp_path, options):
    """Eight steps alone; three on two stages, three on two rows of two stages, two on one process"""
    batches = [{k: v[a : a + 5] for k, v in data().items()} for a in range(0, 40, 5)]
    alone = trainer(**options)
    for batch in batches:
        alone.step(batch)

    def some(first, last, source):
        def work(transport=None):
            t = trainer(distributed=TWO if transport else False, **options)
            if source:
                t.load(source)
            rows, row = (1, 0) if transport is None else (transport.world_size // 2, transport.rank // 2)
            for batch in batches[first:last]:
                t.step({k: np.array_split(v, rows)[row] for k, v in batch.items()})
            t.save(tmp_path / f"{last}.safetensors")
            return weights(t)

        return work

    on_ranks(2, some(0, 3, None))
    on_ranks(4, some(3, 6, tmp_path / "3.safetensors"))
    assert_close(some(6, 8, tmp_path / "6.safetensors")(), weights(alone), **CLOSE)


def test_a_run_goes_on_from_its_folder(tmp_path):
    def work(out, *epochs):
        def run(transport):
            for number, total in enumerate(epochs):
                t = trainer(distributed=TWO)
                t.fit(data(), total_epochs=total, batch_size=8, out=out, resume=number > 0, callbacks=[Report()])
            return whole(t)

        return on_ranks(2, run)

    straight, resumed = work(tmp_path / "a", 3), work(tmp_path / "b", 1, 3)
    for one, other in zip(straight, resumed, strict=True):
        assert_equal(one, other)


def test_what_is_exported_has_the_weights_of_all_stages(tmp_path):
    def work(transport=None):
        t = trainer(distributed=TWO if transport else False)
        t.fit(data(), 1, batch_size=8)
        t.step({k: v[:8] for k, v in data().items()}) if transport is None or transport.world_size == 2 else None
        model, _ = t.to_training_step()
        t.export(tmp_path / f"{transport is None}.onnx")
        return model, t.predict({"x": data(10)["x"]})["scores"]

    found, (expected, scores) = on_ranks(2, work), work()
    for model, predicted in found:
        np.testing.assert_allclose(predicted, scores, rtol=1e-3, atol=1e-5)
        initial = [{t.name: from_bytes(t) for t in one.graph.initializer} for one in (model, expected)]
        assert_close(
            {k: initial[0][k] for k in ("body.weight", "head.weight")},
            {k: initial[1][k] for k in ("body.weight", "head.weight")},
            **CLOSE,
        )
    exported = [{p.name: p.get_value() for p in from_onnx(tmp_path / f"{one}.onnx").parameters} for one in (False, True)]
    assert_close(*exported, **CLOSE)


def from_bytes(tensor):
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def test_a_nan_and_an_overflow_are_those_of_all_ranks():
    def work(transport):
        options = {"loss": "mse", "metrics": [], "distributed": Strategy(pipeline=2, cuts=("k",))}
        t = trainer(line("y = Relu(k)"), loss_scale=1024.0, **options)
        before = whole(t)
        x = np.full((1, 2), 1e18, "f4")
        t.step({"x": x, "target": np.zeros((1, 1), "f4")})
        after = whole(t)
        assert_equal({name: after[name] for name in "wb"}, {name: before[name] for name in "wb"})
        (scale,) = [value for name, value in after.items() if name.startswith("loss_scaling")]
        t = trainer(line("y = Log(k)"), **options)
        before = whole(t)
        with pytest.raises(TrainingError, match=r"loss is nan at step 1.*Log"):
            t.step({"x": np.array([[-3.0, 0.0]], "f4"), "target": np.ones((1, 1), "f4")})
        assert_equal(whole(t), before)
        return float(scale[0])

    assert on_ranks(2, work) == [512.0, 512.0]


def test_what_a_pipeline_has_no_place_for_is_refused_by_name():
    def work(transport):
        for options, said in [
            ({"checkpoints": "auto"}, "checkpoints does not work with pipeline: .*micro_batches"),
            ({"memory_budget": 10**9}, "memory_budget does not work with pipeline"),
            ({"frozen": "int8"}, "frozen does not work with pipeline"),
            ({"batch_norm": "train"}, "Pass batch_norm='sync'"),
            ({"distributed": Strategy(pipeline=3)}, "2 ranks do not divide into rows of 3 stages"),
        ]:
            with pytest.raises(ArgumentError, match=said):
                t = trainer(**{"distributed": TWO, **options})
                t.step({k: v[:8] for k, v in data().items()})

    on_ranks(2, work)
    for options, said in [
        ({"pipeline": 2, "sharding": 1}, "Leave sharding"),
        ({"pipeline": 2, "sharding": 2}, "Leave sharding"),
        ({"pipeline": 2, "batch_norm": "sync"}, "first goes back"),
        ({"pipeline": 2, "compress": "float16"}, "Leave compress"),
        ({"micro_batches": 2}, "are for a pipeline"),
        ({"pipeline": 2, "cuts": ("a", "b")}, "2 stages have 1 cuts, not 2"),
        ({"pipeline": 0}, "at least 1"),
    ]:
        with pytest.raises(ArgumentError, match=said):
            Strategy(**options)
