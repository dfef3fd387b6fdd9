"""Cells as people write them: numbers with commas, other encodings, empty cells, words; each works or is named."""

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.training import Table, Trainer
from onnxgrad.training.data.kinds import kind_of
from onnxgrad.training.data.kinds.numbers import number_in
from onnxgrad.training.data.record import record_in
from tests.cli.command import command

pytest.importorskip("pyarrow")


def net(width=2, classes=1):
    zeros = ", ".join(["0"] * width * classes)
    return parse_model(f"""<ir_version: 8, opset_import: ["": 17]> f (float[N, {width}] x) => (float[N, {classes}] y)
        <float[{width}, {classes}] w = {{{zeros}}}> {{ y = MatMul(x, w) }}""")


def trainer(loss="mse", **shape):
    return Trainer(net(**shape), loss=loss)


def opened(path, text, encoding="utf-8", options=None, **model):
    path.write_bytes(text.encode(encoding))
    t = trainer(**model)
    source, _ = t.open(Table(path, **(options or {})))
    return source, t.remarks


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.csv"


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "decimal", "number"),
        [
            ("12", ".", 12),
            (" -1.5e3 ", ".", -1500.0),
            (".5", ".", 0.5),
            ("1,250.00", ".", 1250.0),
            ("1,250", ".", 1250.0),
            ("1,250", ",", 1.25),
            ("1.250,5", ",", 1250.5),
            ("-3,5", ",", -3.5),
            ("True", ".", 1),
            ("false", ".", 0),
            ("12,5", ".", None),
            ("1.5", ",", None),
            ("1,25,000", ".", None),
            ("2024-01-31", ".", None),
            ("120 €", ".", None),
            ("1_000", ".", None),
            ("١٢", ".", 12),
            ("", ".", None),
        ],
    )
    def test_text_as_numbers(self, text, decimal, number):
        assert number_in(text, decimal) == number

    @pytest.mark.parametrize("stream", [False, True])
    def test_decimal_commas_between_semicolons(self, path, stream):
        text = "a;b;target\n1,5;2;0,25\n-2,5;3;1.000,5\n"
        source, _ = opened(path, text, options={"stream": stream})
        batch = next(source.batches(2, shuffle=False))
        np.testing.assert_array_equal(batch["x"], [[1.5, 2], [-2.5, 3]])
        np.testing.assert_array_equal(batch["target"].reshape(-1), [0.25, 1000.5])

    def test_a_comma_that_may_be_either_is_named(self, path):
        text = "a;b;target\n1,5;1,250;0\n2,5;2;1\n"
        with pytest.raises(DataError, match=r"row 1, column 'b' holds '1,250', which is 1250.0 or 1.25.*--decimal"):
            opened(path, text)
        source, _ = opened(path, text, options={"decimal": ","})
        np.testing.assert_array_equal(source.column("x"), [[1.5, 1.25], [2.5, 2]])
        with pytest.raises(ArgumentError, match="decimal is"):
            opened(path, text, options={"decimal": "x"})

    def test_lists_in_cells(self, path):
        for cell in ("[1, 2]", "1 2", "1;2"):
            source, _ = opened(path, f'x,target\n"{cell}",3\n"{cell}",4\n')
            np.testing.assert_array_equal(source.column("x"), [[1, 2], [1, 2]])

    def test_truth_is_one(self, path):
        source, _ = opened(path, "a,b,target\nTrue,1,2\nFALSE,0,3\n")
        np.testing.assert_array_equal(source.column("x"), [[1, 1], [0, 0]])

    @pytest.mark.parametrize("cell", ["2024-01-31", "inf", "1e400", "0x1F"])
    def test_what_is_no_number_is_named(self, path, cell):
        rows = ["1,2,3"] * 30
        rows[20] = f"1,{cell},3"
        with pytest.raises(DataError, match=rf"t\.csv, row 21, column 'b' holds '{cell}', which is not a number"):
            opened(path, "\n".join(["a,b,target", *rows]))

    def test_a_column_of_dates_or_words_is_named_where_the_input_lacks_it(self, path):
        with pytest.raises(DataError, match=r"1 other columns of numbers; the input takes 2.*'city', 'day' hold text"):
            opened(path, "a,city,day,target\n1,Rome,2024-01-31,3\n2,Oslo,2024-02-01,4\n")

    def test_an_index_without_a_name_is_no_input(self, path):
        for name in ("", "Unnamed: 0"):
            source, _ = opened(path, f"{name},a,b,target\n0,1,2,3\n1,2,3,4\n")
            np.testing.assert_array_equal(source.column("x"), [[1, 2], [2, 3]])


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
    @pytest.mark.parametrize("stream", [False, True])
    def test_words_and_names(self, path, encoding, stream):
        text = "größe,b,class\n1,2,Müller\n2,3,Übel\n"
        source, remarks = opened(path, text, encoding, {"stream": stream}, loss="cross_entropy", classes=2)
        assert source.classes == {"target": ["Müller", "Übel"]} and source.record.columns["x"].parts == ("größe", "b")
        assert any("not written in UTF-8" in line for line in remarks) == (encoding in ("latin-1", "cp1252"))

    def test_what_is_no_text_is_refused(self, path):
        path.write_bytes(b"\0\1\2\3")
        with pytest.raises(DataError, match="not text of a known encoding"):
            trainer().open(path)


class TestEmptyCells:
    TEXT = "a,b,target\n,2,1\n3,n/a,2\n5,4,3\n1,6,4\n"

    @pytest.mark.parametrize("stream", [False, True])
    def test_one_in_the_first_row_is_named(self, path, stream):
        with pytest.raises(DataError, match=r"t\.csv, row 1, column 'a' is empty.*--fill median"):
            opened(path, self.TEXT, options={"stream": stream})[0].batches(4).__next__()

    @pytest.mark.parametrize(("fill", "a", "b"), [("median", 3, 4), ("mean", 3, 4), (7.0, 7, 7)])
    @pytest.mark.parametrize("stream", [False, True])
    def test_filled_and_recorded(self, path, fill, a, b, stream):
        source, remarks = opened(path, self.TEXT, options={"fill": fill, "stream": stream})
        batch = next(source.batches(4, shuffle=False))
        np.testing.assert_array_equal(batch["x"], [[a, 2], [3, b], [5, 4], [1, 6]])
        assert source.record.columns["x"].fill == (a, b)
        assert f"empty cells are filled: a = {a:g}, b = {b:g}." in remarks

    def test_other_data_is_filled_as_training_data_was(self, path, tmp_path):
        path.write_text(self.TEXT)
        (tmp_path / "v.csv").write_text("b,a,target\n,100,0\n50,,0\n")
        t = trainer()
        _, held_out = t.open(Table(path, fill="median"), tmp_path / "v.csv")
        np.testing.assert_array_equal(held_out.column("x"), [[100, 4], [3, 50]])

    def test_validation_data_of_the_command_is_filled_as_training_data(self, path, tmp_path):
        path.write_text(self.TEXT)
        (tmp_path / "v.csv").write_text("a,b,target\n100,,0\n,100,0\n")
        onnx.save(net(), tmp_path / "m.onnx")
        what = ["--data", path, "--val", tmp_path / "v.csv", "--loss", "mse", "--epochs", "1", "--fill", "median"]
        command("train", tmp_path / "m.onnx", *what, "--out", tmp_path / "run")
        command("predict", tmp_path / "run", "--data", tmp_path / "v.csv", "--out", tmp_path / "s.npz")
        assert record_in(tmp_path / "run").columns["x"].fill == (3, 4)

    def test_targets_are_not_filled(self, path):
        with pytest.raises(DataError, match=r"row 2, column 'target' is empty. Fill it in, or leave the row out"):
            opened(path, "a,b,target\n1,2,3\n1,2,\n", options={"fill": "median"})

    def test_other_ways_are_refused(self, path):
        with pytest.raises(ArgumentError, match="fill is 'median', 'mean' or a number, not 'mode'"):
            opened(path, self.TEXT, options={"fill": "mode"})

    def test_parquet_and_json(self, tmp_path):
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = pa.table({"a": [None, 1.0, 3.0], "b": [2.0, float("nan"), 4.0], "target": [1.0, 2.0, 3.0]})
        pq.write_table(table, tmp_path / "t.parquet")
        (tmp_path / "t.jsonl").write_text(
            '{"a": null, "b": 2, "target": 1}\n{"a": 1, "target": 2}\n{"a": 3, "b": 4, "target": 3}\n'
        )
        for name in ("t.parquet", "t.jsonl"):
            source, _ = trainer().open(Table(tmp_path / name, fill="mean"))
            np.testing.assert_array_equal(source.column("x"), [[2, 2], [1, 3], [3, 4]])
            with pytest.raises(DataError, match=r"row 1, column 'a' is empty"):
                trainer().open(tmp_path / name)


class TestKindsOfCells:
    @pytest.mark.parametrize(
        ("cells", "kind"),
        [
            (["", None, "3"], "number"),
            ([3, 4.5], "number"),
            (["1", "2", "oops"], "number"),
            (["1,5", "2"], "number"),
            (["True", "False"], "number"),
            (["cat", "dog", "3"], "words"),
            (["2024-01-31"], "words"),
            (["a.png", "b/c.JPG"], "picture"),
            (["[1, 2]", "[3, 4]"], "numbers"),
            (["a b c"], "words"),
            ([None, ""], None),
        ],
    )
    def test_most_cells_decide(self, cells, kind):
        assert kind_of(cells) == kind

    def test_classes_follow_from_the_loss(self, path):
        text = "a,b,target\n1,2,True\n2,3,False\n"
        assert opened(path, text)[0].column("target").tolist() == [1, 0]
        assert opened(path, text, loss="cross_entropy", classes=2)[0].column("target").tolist() == [1, 0]

    def test_words_for_what_was_trained_with_numbers(self, path, tmp_path):
        path.write_text("a,b,target\n1,2,1\n2,3,0\n")
        (tmp_path / "v.csv").write_text("a,b,target\n1,2,cat\n2,3,dog\n")
        with pytest.raises(DataError, match=r"column 'target': the model was trained with numbers, this is a column of text"):
            trainer(loss="cross_entropy", classes=2).open(path, tmp_path / "v.csv")

    def test_words_of_a_table_that_is_read_in_pieces_are_counted_in_all_of_them(self, path):
        rows = [f"1,2,{'low' if i < 70_000 else 'high'}" for i in range(70_001)]
        source, _ = opened(path, "\n".join(["a,b,target", *rows]), options={"stream": True}, loss="cross_entropy", classes=2)
        assert source.classes == {"target": ["high", "low"]}
        rows[70_000] = "1,2,"
        with pytest.raises(DataError, match="row 70001, column 'target' is empty"):
            opened(path, "\n".join(["a,b,target", *rows]), options={"stream": True}, loss="cross_entropy", classes=2)
