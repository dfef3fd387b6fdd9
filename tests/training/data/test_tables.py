"""Tables: which columns become which inputs, what is refused by file, row and column, and runs that go on bitwise the same."""

import json

import numpy as np
import pytest
from onnx.parser import parse_model

from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Shuffled, Table, Trainer
from tests.training.small import assert_equal, data, model, weights

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LABELS = np.array(["low", "middle", "high"])


def trainer(**options):
    return Trainer(model(), **{"loss": "cross_entropy", "learning_rate": 0.02, "seed": 4, **options})


def write_csv(path, count=60, columns=("a", "b", "c", "d"), separator=",", words=False):
    found = data(count)
    labels = LABELS[found["target"]] if words else found["target"]
    rows = [separator.join([*(f"{v:.9g}" for v in x), str(y)]) for x, y in zip(found["x"], labels, strict=True)]
    path.write_text("\n".join([separator.join([*columns, "target"]), *rows]) + "\n")
    return found


class TestColumns:
    @pytest.mark.parametrize("columns", [("a", "b", "c", "d"), ("x.0", "x.1", "x.2", "x.3"), ("x_3", "x_0", "x_1", "x_2")])
    def test_csv_trains_as_arrays_do(self, tmp_path, columns):
        arrays = write_csv(tmp_path / "t.csv", columns=columns)
        if columns[0] == "x_3":
            arrays["x"] = arrays["x"][:, [1, 2, 3, 0]]
        a, b = trainer(), trainer()
        a.fit(tmp_path / "t.csv", 2, batch_size=16)
        b.fit(arrays, 2, batch_size=16)
        assert_equal(weights(a), weights(b))

    def test_guesses_are_stated(self, tmp_path):
        write_csv(tmp_path / "t.csv", words=True)
        t = trainer()
        t.open(tmp_path / "t.csv")
        assert "the input 'x' is made of 4 columns of t.csv, in this order: a, b, c, d." in t.remarks
        assert "classes of 'target': high = 0, low = 1, middle = 2." in t.remarks

    def test_words_of_validation_have_the_numbers_of_training(self, tmp_path):
        write_csv(tmp_path / "t.csv", words=True)
        rows = (tmp_path / "t.csv").read_text().splitlines()
        (tmp_path / "v.csv").write_text("\n".join([rows[0], *(row for row in rows[1:] if not row.endswith("high"))]))
        source, held_out = trainer().open(tmp_path / "t.csv", tmp_path / "v.csv")
        assert set(held_out.column("target")) == {1, 2} and set(source.column("target")) == {0, 1, 2}
        (tmp_path / "v.csv").write_text(rows[0] + "\n1,2,3,4,huge\n")
        with pytest.raises(DataError, match=r"v.csv, row 1, column 'target': the class 'huge' is not a class of the training data"):
            trainer().open(tmp_path / "t.csv", tmp_path / "v.csv")

    def test_words_of_data_to_judge_have_the_numbers_of_training(self, tmp_path):
        write_csv(tmp_path / "t.csv", words=True)
        rows = (tmp_path / "t.csv").read_text().splitlines()
        (tmp_path / "v.csv").write_text("\n".join([rows[0], *(row for row in rows[1:] if row.endswith("middle"))]))
        t = trainer()
        t.fit(tmp_path / "t.csv", 1)
        arrays = data(60)
        kept = arrays["target"] == 1
        by_number = {"x": arrays["x"][kept], "target": np.full(kept.sum(), 2)}
        assert t.evaluate(tmp_path / "v.csv")["loss"] == pytest.approx(t.evaluate(by_number)["loss"], rel=1e-6)

    @pytest.mark.parametrize("separator", [";", "\t"])
    def test_other_separators(self, tmp_path, separator):
        arrays = write_csv(tmp_path / "t.csv", separator=separator)
        source, _ = trainer().open(tmp_path / "t.csv")
        np.testing.assert_allclose(source.take(np.arange(60))["x"], arrays["x"], rtol=1e-7)

    @pytest.mark.parametrize("stream", [False, True])
    def test_parquet_with_lists(self, tmp_path, stream):
        arrays = data(50)
        pq.write_table(
            pa.table({"x": arrays["x"].tolist(), "label": LABELS[arrays["target"]]}), tmp_path / "t.parquet", row_group_size=7
        )
        t = trainer()
        source, _ = t.open(Table(tmp_path / "t.parquet", stream=stream))
        assert source.count(8) == 7 and "the column 'label' of t.parquet is taken as 'target'." in t.remarks
        found = np.concatenate([batch["x"] for batch in source.batches(8, shuffle=False)])
        np.testing.assert_allclose(found, arrays["x"], rtol=1e-7)

    def test_lines_of_json(self, tmp_path):
        arrays = data(20)
        lines = [json.dumps({"x": x.tolist(), "target": int(y)}) for x, y in zip(*arrays.values(), strict=True)]
        (tmp_path / "t.jsonl").write_text("\n".join(lines))
        a, b = trainer(), trainer()
        a.fit(tmp_path / "t.jsonl", 1, batch_size=5)
        b.fit(arrays, 1, batch_size=5)
        assert_equal(weights(a), weights(b))

    def test_lists_that_are_written_into_cells(self, tmp_path):
        arrays = data(20)
        rows = [f'"{json.dumps(x.tolist())}",{y}' for x, y in zip(arrays["x"], arrays["target"], strict=True)]
        (tmp_path / "t.csv").write_text("\n".join(["x,target", *rows]) + "\n")
        source, _ = trainer().open(tmp_path / "t.csv")
        np.testing.assert_array_equal(source.column("x"), arrays["x"])

    def test_folder_of_npy(self, tmp_path):
        for name, array in data(20).items():
            np.save(tmp_path / f"{name}.npy", array)
        a, b = trainer(), trainer()
        a.fit(tmp_path, 1, batch_size=5)
        b.fit(data(20), 1, batch_size=5)
        assert_equal(weights(a), weights(b))

    def test_several_inputs_by_name(self, tmp_path):
        two = parse_model("""<ir_version: 8, opset_import: ["": 17]> f (float[N, 1] a, float[N, 2] b) => (float[N, 1] y)
            <float[1, 1] u = {1}, float[2, 1] w = {1, 1}> { p = MatMul(a, u)  q = MatMul(b, w)  y = Add(p, q) }""")
        (tmp_path / "t.csv").write_text("b.1,a,b.0,out,extra\n1,2,3,6,x\n4,5,6,15,y\n")
        t = Trainer(two, loss="mse", target="out")
        with pytest.warns(UserWarning, match="nothing reads the data's 'extra'"):
            rows = t.fit(tmp_path / "t.csv", 1, batch_size=2, shuffle=False)
        assert rows[0]["loss"] == 0


class TestRefused:
    """One line that names the file, the row and the column."""

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("1,2,3", r"t.csv, row 41 has 3 cells, the header has 5"),
            ("1,2,oops,4,0", r"t.csv, row 41, column 'c' holds 'oops', which is not a number"),
            ("1,2,,4,0", r"t.csv, row 41, column 'c' is empty"),
        ],
    )
    def test_a_bad_row(self, tmp_path, line, said, stream):
        write_csv(tmp_path / "t.csv", 40)
        with (tmp_path / "t.csv").open("a") as file:
            file.write(line + "\n")
        with pytest.raises(DataError, match=said):
            trainer().fit(Table(tmp_path / "t.csv", stream=stream), 1)

    def test_a_bad_row_far_below_the_first(self, tmp_path):
        write_csv(tmp_path / "t.csv", 40_000)
        with (tmp_path / "t.csv").open("a") as file:
            file.write("1,2,oops,4,0\n")
        with pytest.raises(DataError, match=r"row 40001, column 'c' holds 'oops'"):
            trainer().open(tmp_path / "t.csv")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "is empty"),
            ("a,b,c,d,target\n", "a header and no rows"),
            ("1,2,3,4,0\n1,2,3,4,1\n", "begins with numbers"),
            ("a,b,c,e,f,target\n1,2,3,4,5,0\n", "has no column 'x', and 5 other columns of numbers; the input takes 4"),
            ("a,b,c,d,kind\n1,2,3,4,0\n", "has no column 'target'; it has"),
            ("a,a,c,d,target\n1,2,3,4,0\n", "has two columns 'a'"),
        ],
    )
    def test_a_bad_header(self, tmp_path, text, said):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(DataError, match=said):
            trainer().open(tmp_path / "t.csv")

    def test_a_line_that_is_no_json(self, tmp_path):
        (tmp_path / "t.jsonl").write_text('{"x": [1, 2, 3, 4], "target": 0}\n{"x": [1\n')
        with pytest.raises(DataError, match=r"line 2 of .* is not valid JSON"):
            trainer().open(tmp_path / "t.jsonl")
        (tmp_path / "t.jsonl").write_text('{"x": [1, 2, 3, 4], "target": 0}\n{"x": [1, 2], "target": 1}\n')
        with pytest.raises(DataError, match=r"t.jsonl, row 2, column 'x' has shape \[2\], but row 1 has \[4\]"):
            trainer().open(tmp_path / "t.jsonl")

    def test_other_suffixes(self):
        with pytest.raises(ArgumentError, match=r"a table is one of .csv"):
            Table("t.xlsx")


class TestStreams:
    def test_each_example_comes_once_an_epoch_in_another_order(self):
        pieces = [{"x": np.arange(start, min(start + 13, 100))} for start in range(0, 100, 13)]
        source = Shuffled(pieces, buffer=20)
        epochs = [np.concatenate([b["x"] for b in source.batches(8, seed=1, epoch=e)]) for e in (0, 1)]
        for found in epochs:
            assert sorted(found) == list(range(100))
        assert (epochs[0] != epochs[1]).any() and (epochs[0] != np.arange(100)).any()
        again = np.concatenate([b["x"] for b in source.batches(8, seed=1, epoch=0, skip=3)])
        np.testing.assert_array_equal(again, epochs[0][24:])

    def test_a_share_is_held_out_and_never_trained_on(self):
        source = Shuffled([{"x": np.arange(1000)}], buffer=100, length=1000)
        train, held_out = source.parts(0.2, seed=3)
        found = [np.concatenate([b["x"] for b in part.batches(32, epoch=5)]) for part in (train, held_out)]
        assert sorted(np.concatenate(found)) == list(range(1000))
        assert len(found[1]) == held_out.examples(32) and 150 < len(found[1]) < 250

    @pytest.mark.parametrize("kind", ["csv", "streamed csv", "parquet", "jsonl", "python"])
    def test_a_run_that_is_cut_off_goes_on_bitwise_the_same(self, tmp_path, kind):
        arrays = write_csv(tmp_path / "t.csv")
        if kind == "parquet":
            pq.write_table(pa.table({"x": arrays["x"].tolist(), "target": arrays["target"]}), tmp_path / "t.parquet")
        elif kind == "jsonl":
            rows = zip(arrays["x"].tolist(), arrays["target"].tolist(), strict=True)
            (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"x": x, "target": y}) for x, y in rows))
        (tmp_path / "t.py").write_text(
            "import numpy as np\ndef batches(epoch):\n    rng = np.random.default_rng(epoch)\n    for _ in range(6):\n"
            "        x = rng.normal(0, 1, (10, 4)).astype('f4')\n        yield {'x': x, 'target': (x[:, 0] > 0).astype('i8')}\n"
        )
        source = {
            "csv": tmp_path / "t.csv",
            "streamed csv": Table(tmp_path / "t.csv", stream=True, buffer=30),
            "parquet": Table(tmp_path / "t.parquet", stream=True, buffer=30),
            "jsonl": Table(tmp_path / "t.jsonl", stream=True, buffer=30),
            "python": tmp_path / "t.py",
        }[kind]
        whole = trainer()
        whole.fit(source, 3, batch_size=10)

        cut = trainer()
        steps = cut.step

        def step(batch):
            if cut.step_number == 9:
                cut.interrupt.requested = True
            return steps(batch)

        cut.step = step
        cut.fit(source, 3, batch_size=10, out=tmp_path / "run")
        assert cut.step_number == 10 and cut.batch == 4
        resumed = trainer()
        resumed.fit(source, 3, batch_size=10, out=tmp_path / "run", resume=True)
        assert resumed.step_number == whole.step_number == 18
        assert_equal(weights(whole), weights(resumed))


class TestSplits:
    def test_classes_keep_their_shares(self):
        arrays = {"x": np.zeros((200, 4), "f4"), "target": np.array([0] * 170 + [1] * 20 + [2] * 10)}
        t = trainer()
        source, held_out = t.open(arrays, 0.1)
        assert np.bincount(held_out.column("target")).tolist() == [17, 2, 1]
        assert np.bincount(source.column("target")).tolist() == [153, 18, 9]
        assert any("stratified by 'target'" in said for said in t.remarks)
        assert any("170 examples of class 0, 10 of class 2" in said for said in t.remarks)

    def test_fit_evaluates_what_it_does_not_train_on(self):
        rows = trainer().fit(data(100), 1, validation=0.2, batch_size=16)
        assert rows[0]["step"] == 5 and "val_loss" in rows[0]

    @pytest.mark.parametrize("share", [0.0, 1.5])
    def test_shares_that_are_none(self, share):
        with pytest.raises((ArgumentError, DataError), match="share"):
            Trainer(model(), loss="cross_entropy").open({"x": np.zeros((9, 4), "f4"), "target": np.arange(9) % 3 * 0 + 100}, share)
