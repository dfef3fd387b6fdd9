"""Several labels: words between semicolons, none in an empty cell."""

import json
from dataclasses import replace

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training import Images
from onnxgrad.training.data import open_data
from onnxgrad.training.data.kinds.labels import LabelsColumn
from onnxgrad.training.data.record import DataRecord
from tests.training.data.annotated.scenes import KINDS, drawn, write_table
from tests.training.data.annotated.sets import wanted


def table(tmp_path, *cells, name="t.csv"):
    path = tmp_path / name
    path.write_text("x,target\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    return path


def opened(path, record=None, dims=(None, 3), loss="bce_with_logits"):
    spec = wanted("target", dims, loss=loss)
    names = [name for name in spec.names if name == "target"]
    return open_data(path, replace(spec, names=names, record=record or DataRecord()))


def test_words_between_semicolons(tmp_path):
    rows = opened(table(tmp_path, "bus;tree", "", "car", " tree ; bus;", "tree"))
    assert rows.take(np.arange(5))["target"].tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 1]]
    assert rows.take(np.arange(1))["target"].dtype == np.float32
    assert rows.classes == {"target": ["bus", "car", "tree"]} and rows.record.columns["target"].kind == "labels"
    assert any("bus = 0, car = 1, tree = 2" in line for line in rows.remarks)


def test_one_word_each_where_the_loss_reads_several(tmp_path):
    rows = opened(table(tmp_path, "bus", "car", "tree"))
    assert rows.take(np.arange(3))["target"].tolist() == np.eye(3).tolist()


def test_lists_of_words_in_lines_of_json(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"x": i, "target": v}) + "\n" for i, v in enumerate((["bus", "car"], [], ["tree"], None))))
    assert opened(path).take(np.arange(4))["target"].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_the_record_keeps_the_numbers_of_labels(tmp_path):
    record = opened(table(tmp_path, "bus;tree", "car")).record
    assert DataRecord.parsed(record.as_text(), "m") == record
    rows = opened(table(tmp_path, "tree", "", name="u.csv"), record)
    assert rows.take(np.arange(2))["target"].tolist() == [[0, 0, 1], [0, 0, 0]]
    with pytest.raises(
        DataError, match=r"u\.csv, row 2, column 'target': the label 'boat' is not a label of the training data: bus, car"
    ):
        opened(table(tmp_path, "tree", "car;boat", name="u.csv"), record)


def test_another_number_of_labels_than_outputs(tmp_path):
    with pytest.raises(DataError, match="has 2 labels, the model 3 outputs for them: bus, car"):
        opened(table(tmp_path, "bus;car", "car"))
    with pytest.raises(DataError, match="has no labels: all its cells are empty"):
        opened(table(tmp_path, ";", ";"))


@pytest.mark.parametrize("header", [["target.0", "target.1", "target.2"], ["target[0]", "target[1]", "target[2]"]])
def test_a_column_for_each_label(tmp_path, header):
    path = write_table(tmp_path, drawn(0, 6), header, lambda kinds, boxes: [int(kind in kinds) for kind in range(3)])
    rows = open_data(path, wanted("target", (None, 3), loss="bce_with_logits"))
    labels = rows.take(np.arange(6))["target"]
    assert labels.tolist() == [[int(k in {kind for kind, *_ in boxes}) for k in range(3)] for _, _, boxes in drawn(0, 6)]


def test_numbers_are_not_moved_with_their_images(tmp_path):
    path = write_table(tmp_path, drawn(0, 6), ["target.0", "target.1"], lambda kinds, boxes: [0.5, len(boxes)])
    said = "the numbers of 'target' stay as they are where images are moved: if they are places, leave these changes out."
    for changes, warned in (({"flip": True}, True), ({"translate": 0.1}, True), ({"color": 0.2}, False), ({}, False)):
        assert (said in open_data(Images(path, **changes), wanted("target", (None, 2))).remarks) is warned


def test_other_losses_take_no_labels(tmp_path):
    """Words are mistakes of a regression, and a semicolon may stand in the name of a class"""
    with pytest.raises(DataError, match=r"t\.csv, row 1, column 'target' holds 'bus;tree', which is not a number"):
        opened(table(tmp_path, "bus;tree", "car"), loss="mse")
    with pytest.raises(DataError, match=r"t\.csv, row 1, column 'target' holds 'bus', which is not a number"):
        opened(table(tmp_path, "bus", "car"), loss="mse")
    spec = wanted("target", (None,), "int64", loss="cross_entropy")
    rows = open_data(table(tmp_path, "bus;tree", "car"), replace(spec, names=["target"]))
    assert rows.classes == {"target": ["bus;tree", "car"]} and rows.take(np.arange(2))["target"].tolist() == [0, 1]
    assert opened(table(tmp_path, "bus;tree", "car"), loss="").record.columns["target"].kind == "labels"


def test_words_of_pictures(tmp_path):
    path = write_table(tmp_path, drawn(0, 8), ["tags"], lambda kinds, boxes: [";".join(KINDS[kind] for kind in sorted(kinds))])
    rows = open_data(path, wanted("target", (None, 3), loss="bce_with_logits"))
    assert rows.classes == {"target": list(KINDS)} and rows.take(np.arange(8))["target"].sum() == sum(
        len(b) for *_, b in drawn(0, 8)
    )


def test_cells_that_are_labels():
    assert LabelsColumn.recognises(["a;b"]) and LabelsColumn.recognises([["a"]]) and not LabelsColumn.recognises(["a"])
