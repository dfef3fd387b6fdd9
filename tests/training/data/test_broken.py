"""Examples that cannot be read: refused by name, or left out and listed."""

import shutil

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.data.broken import Broken, flaws_in, skip_broken
from onnxgrad.training.data.opening import open_data
from onnxgrad.training.data.spec import DataSpec
from onnxgrad.training.data.tables import Table
from tests.training.data.annotated.sets import SETS, boxes, wanted
from tests.training.data.test_images import folder, net  # noqa: F401

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("pyarrow")

ROWS = ["1,2,cat", "3,n/a,dog", "5,6,cat", "7,8,", "9,10", "11,12,dog", "13,1.5.2,cat"]


def table(path, rows=ROWS):
    path.write_text("\n".join(["a,b,target", *rows]) + "\n")
    return path


def classes(*inputs):
    return DataSpec([*inputs, "target"], targets=["target"], losses={"target": "cross_entropy"})


def test_rows_of_a_table_are_refused_by_name_or_left_out(tmp_path):
    path = table(tmp_path / "t.csv")
    with pytest.raises(DataError, match="row 5 has 2 cells"):
        open_data(path, classes("a", "b"))
    with skip_broken() as broken:
        rows = open_data(path, classes("a", "b"))
    batch = rows.take(np.arange(len(rows)))
    assert batch["a"].tolist() == [1, 5, 11] and batch["b"].tolist() == [2, 6, 12] and batch["target"].tolist() == [0, 0, 1]
    assert list(broken.reasons) == ["t.csv, row 5", "t.csv, row 2", "t.csv, row 4", "t.csv, row 7"]
    assert "column 'b' holds 'n/a', which is not a value" in broken.reasons["t.csv, row 2"]
    assert "row 4, column 'target' is empty" in broken.reasons["t.csv, row 4"]
    assert "holds '1.5.2', which is not a number" in broken.reasons["t.csv, row 7"]


def test_a_block_ends_and_the_next_data_is_refused_again(tmp_path):
    path = table(tmp_path / "t.csv")
    with skip_broken():
        open_data(path, classes("a", "b"))
    with pytest.raises(DataError, match="row 5"):
        open_data(path, classes("a", "b"))
    with skip_broken(False) as broken, pytest.raises(DataError, match="row 5"):
        open_data(path, classes("a", "b"))
    assert not len(broken)


def test_cells_that_only_others_explain_are_no_flaws(tmp_path):
    """Alone, 1,250 may be 1250 or 1.25; the other rows show which. A filled gap is a value."""
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a;b;target", "1,250;1;x", "2,5;;y", "what;3;x", "4,125;4;y"]))
    with skip_broken() as broken:
        rows = open_data(Table(path, fill="median"), classes("a", "b"))
    assert list(broken.reasons) == ["t.csv, row 3"]
    batch = rows.take(np.arange(3))
    assert batch["a"].tolist() == [1.25, 2.5, 4.125] and batch["b"].tolist() == [1, 2.5, 4]


def test_words_among_numbers_are_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,target", *(f"{i},{i % 3}" for i in range(30)), "30,n/a", "31,?", "32,1"]))
    with skip_broken() as broken:
        rows = open_data(path, classes("a"))
    assert list(broken.reasons) == ["t.csv, row 31", "t.csv, row 32"] and len(rows) == 31


def test_lines_of_json_keep_their_numbers(tmp_path):
    lines = ['{"a": 1, "target": "x"}', "{broken", "", '{"a": "what", "target": "y"}', '{"a": 4, "target": "y"}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    with skip_broken() as broken:
        rows = open_data(tmp_path / "t.jsonl", classes("a"))
    assert rows.take(np.arange(len(rows)))["a"].tolist() == [1, 4]
    assert list(broken.reasons) == ["t.jsonl, line 2", "t.jsonl, row 3"]


def test_a_table_of_which_nothing_is_left_is_refused(tmp_path):
    path = table(tmp_path / "t.csv", ["x,1,cat", "y,2,dog", "1,z,cat"])
    reading = {"a": ["a"], "b": ["b"]}
    with skip_broken(), pytest.raises(DataError, match=r"none of the 3 examples of t.csv can be read. The first: t.csv, row 1"):
        open_data(Table(path, columns=reading), classes("a", "b"))


def test_a_stream_leaves_out_nothing(tmp_path):
    with skip_broken(), pytest.raises(DataError, match="read piece by piece"):
        open_data(Table(table(tmp_path / "t.csv"), stream=True), classes("a", "b"))


def ruin(path, keep=60):
    path.write_bytes(path.read_bytes()[:keep])


def pictures(folder, tmp_path):  # noqa: F811
    import onnxgrad

    program = onnxgrad.from_onnx(net(size="24, 24"))
    target = next(v for v in wanted("target", (None,), "int64").variables.values() if v.name == "target")
    return DataSpec.of(program.inputs, [target], program=program, losses={"target": "cross_entropy"})


def test_pictures_of_class_folders(folder, tmp_path):  # noqa: F811
    spec, data = pictures(folder, tmp_path), folder
    files = sorted(data.rglob("*.png"))
    count = len(open_data(data, spec))
    ruin(files[0])
    files[-1].write_text("no image")
    with skip_broken() as broken:
        rows = open_data(data, spec)
    assert sorted(broken.reasons) == sorted([str(files[0]), str(files[-1])])
    assert all(reason.startswith("cannot read the image") for reason in broken.reasons.values())
    assert len(rows) == count - 2 and len(rows.take(np.arange(len(rows)))["target"]) == count - 2
    assert {rows.file(row) for row in range(len(rows))}.isdisjoint({files[0], files[-1]})
    assert rows.record is not None and rows.record.classes["target"] == ["blue", "red"]


def test_masks_and_boxes(tmp_path):
    shutil.copytree(SETS / "masks", tmp_path / "masks")
    spec = wanted("target", (None, 64, 64), "int64")
    count = len(open_data(tmp_path / "masks", spec))
    pictures, masks = (sorted((tmp_path / "masks" / name).iterdir()) for name in ("images", "masks"))
    ruin(masks[0])
    masks[1].unlink()
    ruin(pictures[2])
    with pytest.raises(DataError, match="has no mask of its name"):
        open_data(tmp_path / "masks", spec)
    with skip_broken() as broken:
        rows = open_data(tmp_path / "masks", spec)
    assert sorted(broken.reasons) == [str(file) for file in pictures[:3]] and len(rows) == count - 3
    expected = open_data(SETS / "masks", spec).take(np.arange(3, count))
    batch = rows.take(np.arange(len(rows)))
    assert all((batch[name] == expected[name]).all() for name in expected)


def test_pictures_that_a_list_of_boxes_names_and_nobody_has(tmp_path):
    shutil.copytree(SETS / "coco", tmp_path / "coco")
    gone, *_ = sorted((tmp_path / "coco" / "images").rglob("*.*"))
    count = len(open_data(tmp_path / "coco", boxes()))
    gone.unlink()
    with pytest.raises(DataError, match="there is no file"):
        open_data(tmp_path / "coco", boxes())
    with skip_broken() as broken:
        rows = open_data(tmp_path / "coco", boxes())
    (reason,) = broken.reasons.values()
    assert gone.name in reason and len(rows) == count - 1 and len(rows.take(np.arange(count - 1))["boxes"]) == count - 1


def test_what_was_looked_at_is_not_read_again():
    broken, seen = Broken(), []

    def read():
        seen.append(1)
        raise DataError("no")

    assert broken.flaw("a", read) == broken.flaw("a", read) == "no" and len(seen) == 1


@pytest.mark.parametrize("seed", range(5))
def test_flaws_are_found_by_few_reads(seed):
    rng = np.random.default_rng(seed)
    bad, reads = set(rng.choice(1000, 5, replace=False).tolist()), []

    def read(rows):
        reads.append(len(rows))
        if bad & set(rows.tolist()):
            raise DataError(f"row {min(bad & set(rows.tolist()))}")

    assert flaws_in(read, 1000) == {row: f"row {row}" for row in bad}
    assert len(reads) <= 5 * 21  # each bad row ends a path of 10 halvings, whose other halves are read, too
