"""A user's own loss gets its target as the data has it, whoever sees the data first."""

import json
from contextlib import suppress

import numpy as np
import pytest
from onnx.parser import parse_model

import onnxgrad as paddle
from onnxgrad.errors import ArgumentError, DataError, ModelError, OnnxGradError, TrainingError
from onnxgrad.internal.tensor_file import read_tensors, write_tensors
from onnxgrad.nn import functional as F
from onnxgrad.training import Term, Trainer
from onnxgrad.training.data.shuffled import Shuffled
from onnxgrad.training.run.rate_finder import find_learning_rate
from tests.distributed.test_trainer import on_ranks
from tests.training.small import assert_equal, data, line, model, weights

DATA = data()


class Noted:
    """A loss that notes the type and shape of its target"""

    def __init__(self, function=lambda y, t: paddle.mean(y * y) + 0.0 * paddle.sum(paddle.cast(t, "float32"))):
        self.function, self.types = function, []

    def __call__(self, y, t):
        self.types.append((t.dtype.name, t.shape))
        return self.function(y, t)


def entropy(y, t):
    return paddle.mean(F.cross_entropy(y, t))


def trainer(loss=entropy, **options):
    return Trainer(model(), loss=loss, **{"learning_rate": 0.02, **options})


COLUMNS = {
    "class numbers": (np.zeros(8, np.int64), ("int64", (-1,))),
    "short integers": (np.zeros((8, 2), np.int16), ("int16", (-1, 2))),
    "unsigned": (np.zeros(8, np.uint8), ("uint8", (-1,))),
    "a mask": (np.zeros((8, 3), bool), ("bool", (-1, 3))),
    "another rank": (np.zeros((8, 2, 5), np.int32), ("int32", (-1, 2, 5))),
    "numbers in the type of the output": (np.zeros((8, 3), np.float64), ("float32", (-1, 3))),
    "half precision": (np.zeros((8, 1, 2), np.float16), ("float32", (-1, 1, 2))),
    "lists": ([[1, 2]] * 8, ("int64", (-1, 2))),
}


@pytest.mark.parametrize(("column", "expected"), COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("first", ["fit", "evaluate", "find_learning_rate", "sample"])
def test_a_target_is_typed_by_the_first_data(column, expected, first):
    """Without a sample it was float32 in the shape of the scores"""
    loss, columns = Noted(), {"x": DATA["x"][:8], "target": column}
    kept = {name: np.array(array) for name, array in columns.items()}
    t = trainer(loss, **({"sample": columns} if first == "sample" else {}))
    if first == "find_learning_rate":
        with suppress(TrainingError):  # eight examples need not show a rate
            find_learning_rate(t, columns, steps=10)
    elif first != "sample":
        getattr(t, first)(columns)
    assert loss.types == [expected]
    t.fit(columns, 1, columns)
    assert len(loss.types) == 1
    for name, array in kept.items():
        np.testing.assert_array_equal(columns[name], array)
        assert np.asarray(columns[name]).dtype == array.dtype


def test_a_model_of_doubles_gets_doubles():
    text = """<ir_version: 8, opset_import: ["": 17]> f (double[N, 2] x) => (double[N, 1] y)
        <double[2, 1] w = {0.5, -0.25}> { y = MatMul(x, w) }"""
    loss = Noted(lambda y, t: paddle.mean((y - t) ** 2))
    t = Trainer(parse_model(text), loss=loss)
    t.step({"x": np.ones((3, 2)), "target": np.ones((3, 1), np.float32)})
    assert loss.types == [("float64", (-1, 1))]


def test_a_function_trains_like_the_loss_of_that_name():
    a, b = trainer(seed=3), trainer("cross_entropy", seed=3)
    rows = [t.fit(DATA, 2, DATA, batch_size=8) for t in (a, b)]
    assert [row["val_loss"] for row in rows[0]] == pytest.approx([row["val_loss"] for row in rows[1]], rel=1e-5)
    for name, value in weights(b).items():
        np.testing.assert_allclose(weights(a)[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def batches(epoch):
    for start in range(0, 40, 8):
        yield {name: array[start : start + 8] for name, array in DATA.items()}


SOURCES = {
    "a generator, used once": lambda: batches(0),
    "a list": lambda: list(batches(0)),
    "a function of the epoch": lambda: batches,
    "tuples": lambda: [(batch["x"], batch["target"]) for batch in batches(0)],
    "arrays": lambda: (DATA["x"], DATA["target"]),
    "mixed in a buffer": lambda: Shuffled(batches, buffer=20),
    "mixed, of a generator": lambda: Shuffled(batches(0), buffer=20),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_no_batch_is_lost_by_looking_at_the_first(source):
    a, b = trainer(seed=3), trainer(seed=3, sample=DATA)
    for t in (a, b):
        t.fit(source(), 1, batch_size=8, shuffle=False)
    assert a.step_number == 5
    assert_equal(weights(a), weights(b))


def test_a_file_is_read_with_a_loss_that_waits(tmp_path):
    np.savez(tmp_path / "d.npz", **DATA)
    (tmp_path / "d.csv").write_text(
        "x.0,x.1,x.2,x.3,kind\n" + "".join(f"{','.join(map(str, x))},{'abc'[t]}\n" for x, t in zip(*DATA.values(), strict=True))
    )
    a, b = trainer(seed=3), trainer(seed=3)
    a.fit(str(tmp_path / "d.npz"), 1, 0.25)
    b.fit(DATA, 1, 0.25)
    assert_equal(weights(a), weights(b))
    c = trainer(seed=3, target="kind")
    c.fit(str(tmp_path / "d.csv"), 1)
    assert c.targets[0].dtype.name == "int64" and any("classes of 'kind'" in remark for remark in c.remarks)


def test_batches_of_other_lengths_go_on():
    """Labels of a language model are as long as the longest text of a batch"""
    text = """<ir_version: 8, opset_import: ["": 17]> f (float[N, S, 2] x) => (float[N, S, 3] y)
        <float[2, 3] w = {0.5, -0.25, 0.1, 0.2, 0.3, 0.4}> { y = MatMul(x, w) }"""
    loss = Noted(entropy)
    t = Trainer(parse_model(text), loss=loss)
    for steps in (4, 7, 1):
        t.step({"x": np.ones((2, steps, 2), np.float32), "target": np.zeros((2, steps), np.int64)})
    assert loss.types == [("int64", (-1, -1))]
    loss = Noted()
    t = trainer(loss)
    t.step({"x": DATA["x"], "target": np.zeros((40, 3, 2), bool)})
    assert loss.types == [("bool", (-1, 3, -1))]  # 3 is the size of the scores there


def test_a_target_without_axes():
    loss = Noted()
    trainer(loss).step({"x": DATA["x"], "target": np.array(3)})
    assert loss.types == [("int64", ())]


def test_what_a_term_says_goes_before_the_data():
    for options, expected in ({"dtype": "int32"}, ("int32", (-1,))), ({"shape": [None]}, ("int64", (-1,))):
        loss = Noted()
        trainer(Term(loss, **options)).step(DATA)
        assert loss.types == [expected]
    loss = Noted()
    t = trainer(Term(loss, dtype="int32", shape=[None]))
    assert loss.types == [("int32", (-1,))] and len(t.trained) == 6


def test_several_terms_wait_together():
    first, second = Noted(), Noted()
    terms = [Term("cross_entropy"), Term(first, target="a"), Term(second, target="b", weight=0.5)]
    t = trainer(terms)
    assert t.columns == ["x", "target", "a", "b"]
    t.fit({**DATA, "a": np.zeros(40, bool), "b": np.zeros((40, 2), np.int8)}, 1)
    assert (first.types, second.types) == ([("bool", (-1,))], [("int8", (-1, 2))])


class TestBeforeData:
    @pytest.mark.parametrize(
        "use",
        [
            lambda t, path: t.summary(),
            lambda t, path: t.save(path),
            lambda t, path: t.to_training_step(),
            lambda t, path: t.save_training_step(path),
            lambda t, path: t.save_training_step(path, split=True),
            lambda t, path: t.watch_gradients(),
            lambda t, path: t.trained,
            lambda t, path: t.loss,
            lambda t, path: t.model,
            lambda t, path: t.metrics,
        ],
    )
    def test_what_needs_the_loss_names_the_sample(self, use, tmp_path):
        with pytest.raises(TrainingError, match=r"'target' is a function.*Trainer\(sample=\), or Term\(dtype=, shape=\)"):
            use(trainer(), tmp_path / "f")
        assert not list(tmp_path.iterdir())

    def test_what_needs_no_loss_works(self, tmp_path):
        t = trainer()
        assert "waits for data" in repr(t) and t._repr_html_() is None
        assert t.columns == ["x", "target"] and t.step_number == 0 and t.history == []
        np.testing.assert_array_equal(t.predict(DATA)["scores"], trainer("cross_entropy").predict(DATA)["scores"])
        t.export(tmp_path / "a.onnx")
        trainer("cross_entropy").export(tmp_path / "b.onnx")
        assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = t.nothing

    def test_data_that_does_not_fit_leaves_the_trainer_waiting(self):
        t = trainer()
        for wrong, error, message in [
            ({"x": DATA["x"]}, DataError, "no column 'target'"),
            ({**DATA, "target": ["a"] * 40}, DataError, "a loss that is a function takes numbers"),
            ({**DATA, "target": [[1]] * 39 + [[1, 2]]}, DataError, "All lists of one level"),
            ({**DATA, "target": np.zeros((40, 7, 3))}, OnnxGradError, "cross_entropy|Shape|shape"),
        ]:
            with pytest.raises(error, match=message):
                t.step(wrong)
            assert "waits for data" in repr(t)
        other = trainer()
        t.step(DATA)
        other.step(DATA)
        assert_equal(weights(t), weights(other))


class TestCheckpoints:
    def test_one_is_loaded_before_any_data(self, tmp_path):
        a, b = trainer(seed=3), trainer(seed=3)
        a.fit(DATA, 1, batch_size=8)
        a.save(tmp_path / "c")
        b.load(tmp_path / "c")
        assert_equal(weights(a), weights(b))
        assert b.targets[0].dtype.name == "int64" and b.targets[0].shape == (-1,)
        for t in (a, b):
            t.fit(DATA, 1, batch_size=8)
        assert_equal(weights(a), weights(b))

    def test_a_run_is_resumed(self, tmp_path):
        a = trainer(seed=3)
        a.fit(DATA, 2, batch_size=8, out=tmp_path / "a")
        b = trainer(seed=3)
        b.fit(DATA, 2, batch_size=8, out=tmp_path / "b", max_steps=7)
        b = trainer(seed=3)
        b.fit(DATA, 2, batch_size=8, out=tmp_path / "b", resume=True)
        assert_equal(weights(a), weights(b))

    def test_a_foreign_one_changes_nothing(self, tmp_path):
        a, b = trainer(lambda y, t: paddle.mean(y * y)), trainer()
        a.step(DATA)
        a.save(tmp_path / "c")
        before = {p.name: np.array(p.get_value()) for p in b.program.parameters}
        with pytest.raises(TrainingError, match="another model, loss or optimizer"):
            b.load(tmp_path / "c")
        assert "waits for data" in repr(b)
        assert_equal({p.name: p.get_value() for p in b.program.parameters}, before)
        b.step(DATA)

    def test_one_that_knows_no_type_names_the_sample(self, tmp_path):
        a = trainer(Term(entropy, dtype="int64", shape=[None]))
        a.step(DATA)
        a.save(tmp_path / "c")
        with pytest.raises(TrainingError, match=r"Trainer\(sample=\)"):
            trainer().load(tmp_path / "c")

    @pytest.mark.parametrize(
        "damage", ["", "[]", "{}x", '{"target": 3}', '{"target": {"dtype": "int65", "dims": [], "any_sizes": 0}}']
    )
    def test_a_damaged_type_is_refused(self, damage, tmp_path):
        a = trainer()
        a.step(DATA)
        a.save(tmp_path / "c")
        tensors = read_tensors(tmp_path / "c")
        assert json.loads(tensors.metadata["targets"]) == {"target": {"dtype": "int64", "dims": [None], "any_sizes": True}}
        write_tensors(tmp_path / "d", dict(tensors.arrays), {**tensors.metadata, "targets": damage})
        with pytest.raises(ModelError, match="'targets' holds no types"):
            trainer().load(tmp_path / "d")


def test_examples_are_not_spread_over_each_other():
    """Scores [N, 1] less targets [N] are [N, N]"""
    columns = {"x": np.ones((6, 2), np.float32), "target": np.arange(6.0)}

    def square(y, t):
        return paddle.mean((y - t) ** 2)

    t = Trainer(line(), loss=square)
    with pytest.raises(ArgumentError, match=r"mixes examples: .*Sub.*Term\(dtype=, shape=\)"):
        t.fit(columns)
    for loss in (lambda y, t: square(paddle.squeeze(y, -1), t), Term(square, dtype="float32", shape=[None, 1])):
        assert Trainer(line(), loss=loss).evaluate(columns)["loss"] == pytest.approx(
            float(((0.5 - 0.25 + 0.1 - np.arange(6.0)) ** 2).mean()), rel=1e-5
        )


def test_ranks_see_the_same_type():
    def work(transport):
        loss = Noted(entropy)
        t = trainer(loss, distributed=True, batch_norm="frozen", learning_rate=0.1, optimizer="sgd")
        t.fit(DATA, 2, batch_size=8, verbose=False)
        return loss.types, weights(t)

    alone = trainer(batch_norm="frozen", learning_rate=0.1, optimizer="sgd", sample=DATA)
    alone.fit(DATA, 2, batch_size=8)
    for types, values in on_ranks(2, work):
        assert types == [("int64", (-1,))]
        for name, value in weights(alone).items():
            np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


# Names -----------------------------------------------------------------------------------------------------------------


def priced(name="price"):
    """A model whose output is called as people call the column of its targets"""
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[N, 2] x) => (float[N, 1] {name}) <float[2, 1] w = {{1, 2}}>
        {{ {name} = MatMul(x, w) }}"""
    return parse_model(text)


def prices(name="price", count=40):
    x = np.random.default_rng(0).normal(0, 1, (count, 2)).astype(np.float32)
    return {"x": x, name: 3 * x[:, :1] - x[:, 1:]}


def test_a_target_may_have_the_name_of_the_output(tmp_path):
    own = Trainer(priced(), loss="mse", target="price", learning_rate=0.1, metrics=["r2"])
    other = Trainer(priced("answer"), loss="mse", target="price", learning_rate=0.1, metrics=["r2"])
    options = {"epochs": 3, "batch_size": 8, "verbose": False}
    rows = own.fit(prices(), validation=0.25, **options)
    assert rows == other.fit(prices(), validation=0.25, **options) and own.columns == ["x", "price"]
    assert own.evaluate(prices()) == other.evaluate(prices())
    (answer,) = other.predict({"x": prices()["x"]}).values()
    assert_equal(own.predict({"x": prices()["x"]}), {"price": answer})
    own.export(tmp_path / "m.onnx")
    (output,) = paddle.from_onnx(tmp_path / "m.onnx").outputs
    assert output.name == "price"
    own.save(tmp_path / "c.safetensors")
    again = Trainer(priced(), loss="mse", target="price", learning_rate=0.1, metrics=["r2"])
    again.load(tmp_path / "c.safetensors")
    assert_equal(weights(again), weights(own))


def test_several_terms_read_the_output_that_a_target_is_named_after():
    terms = [Term("mse", "price", "price"), Term("l1", "price.reshape(-1)", "price2", 0.5)]
    columns = {**prices(), "price2": prices()["price"][:, 0]}
    renamed = [Term("mse", "answer", "price"), Term("l1", "answer.reshape(-1)", "price2", 0.5)]
    losses = [Trainer(m, loss=t).evaluate(columns)["loss"] for m, t in ((priced(), terms), (priced("answer"), renamed))]
    assert losses[0] == losses[1]


def test_a_target_has_no_name_of_a_weight_or_an_input():
    for name in ("w", "x"):
        with pytest.raises(ArgumentError, match=f"target column '{name}' has the name of another tensor"):
            Trainer(priced(), loss="mse", target=name)


def test_what_is_wrong_with_validation_shows_before_the_first_step():
    bad = data(40)
    bad["target"] = bad["target"].copy()
    bad["target"][11] = 7
    run = trainer("cross_entropy")
    before = {name: array.copy() for name, array in weights(run).items()}
    with pytest.raises(DataError, match="7"):
        run.fit(DATA, 1, bad, batch_size=8, verbose=False)
    assert run.step_number == 0
    assert_equal(weights(run), before)
