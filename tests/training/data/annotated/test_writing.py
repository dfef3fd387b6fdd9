"""Masks and labels as files and words."""

import numpy as np
import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.data import open_data
from onnxgrad.training.data.annotated.masks import MaskFiles
from onnxgrad.training.data.annotated.writing import answer_files, labels_in, mask_classes, mask_palette, write_masks
from onnxgrad.training.data.kinds.column import Reading
from onnxgrad.training.data.kinds.picture import LazyPictures, PictureColumn, PictureFiles
from onnxgrad.training.data.lazy_rows import LazyRows
from onnxgrad.training.data.rows import Columns
from tests.training.data.annotated.sets import SETS, wanted

Image = pytest.importorskip("PIL.Image")


def test_masks_come_back_in_the_size_of_their_pictures(tmp_path):
    rows = open_data(SETS / "masks", wanted("target", (None, 64, 64), "int64"))
    masks = rows.take(np.arange(4))["target"]
    files = write_masks(tmp_path / "out", np.where(masks < 0, 0, masks), rows)
    for row, file in enumerate(files):
        assert file.name == f"{row:03}.png"
        expected = rows.original("target", row)
        written = MaskFiles()(file)
        assert written.shape == expected.shape
        assert (written == expected)[expected >= 0].mean() > 0.97


def test_files_of_equal_names_and_of_many_classes(tmp_path):
    rows = open_data(SETS / "masks", wanted("target", (None, 64, 64), "int64"))
    twice = rows.select(np.array([1, 1]))
    files = write_masks(tmp_path, np.full((2, 64, 64), 300), twice)
    assert [file.name for file in files] == ["001.png", "001_000001.png"]
    assert (MaskFiles()(files[0]) == 300).all()


def pictures_in(folder, names):
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(folder / name)
    files = sorted(path for path in folder.rglob("*.*"))
    return LazyRows(
        {"x": LazyPictures(PictureFiles(files), "x", PictureColumn(size=(8, 8)), wanted("y", (None,)), Reading(), "t")}, {}, 2
    )


def test_files_are_named_after_pictures_in_their_folders(tmp_path):
    rows = pictures_in(tmp_path / "in", ["a/x.jpg", "a/x.png", "b/x.bmp"])
    rows.length = 3
    names = [str(file.relative_to(tmp_path / "out")) for file in answer_files(tmp_path / "out", rows)]
    assert names == ["a/x.png", "a/x_000001.png", "b/x.png"] and not (tmp_path / "out").exists()


def test_no_picture_is_written_over(tmp_path):
    rows = pictures_in(tmp_path / "in", ["x.png", "y.jpg"])
    with pytest.raises(DataError, match="is an image of the data"):
        answer_files(tmp_path / "in", rows)
    with pytest.raises(DataError, match="is an image of the data"):
        write_masks(tmp_path / "in", np.zeros((2, 8, 8), int), rows)


def test_scores_of_one_class_are_compared_with_the_threshold():
    scores = np.array([[[[0.4, 0.6]]]])
    assert mask_classes(scores).tolist() == [[[1, 1]]] and mask_classes(scores, 0.5).tolist() == [[[0, 1]]]
    assert mask_classes(np.array([[[3, 1]]])).tolist() == [[[3, 1]]]
    with pytest.raises(DataError, match=r"of shape \[2, 3\] is not a mask"):
        mask_classes(np.zeros((2, 3)))


def test_the_palette_is_that_of_voc():
    palette = np.reshape(mask_palette(256), (256, 3))
    assert palette[[0, 1, 2, 3, 15, 255]].tolist() == [
        [0, 0, 0],
        [128, 0, 0],
        [0, 128, 0],
        [128, 128, 0],
        [192, 128, 128],
        [224, 224, 192],
    ]
    assert len(np.unique(palette, axis=0)) == 256


def test_data_without_pictures(tmp_path):
    with pytest.raises(DataError, match="has no image files"):
        write_masks(tmp_path, np.zeros((1, 2, 2)), Columns({"x": np.zeros(1)}))


def test_labels_by_threshold():
    assert labels_in(np.array([[0.6, 0.4]]), ["a", "b"], 0.5) == ["a"] and labels_in(np.array([[0.6, 0.4]]), ["a", "b"]) == ["a;b"]
