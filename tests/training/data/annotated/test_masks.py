"""Masks in palettes, numbers, colours and channels."""

import shutil

import numpy as np
import pytest
from PIL import Image

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.masks import MaskFiles, mask_folders, read_colours, read_masks
from onnxgrad.training.data.picture_files import size_of
from onnxgrad.training.data.views import view_of
from tests.training.data.annotated.sets import REFERENCE, SETS

MASKS = SETS / "masks"


def with_masks(tmp_path, kind):
    shutil.copytree(MASKS / "images", tmp_path / "images")
    shutil.copytree(MASKS / kind, tmp_path / "masks")
    return tmp_path


def classes(listing, row):
    return listing.answers.original(row, size_of(listing.paths[row]))


def test_palette_numbers_are_classes_and_255_does_not_count():
    listing = read_masks(MASKS)
    values, counts = np.unique(np.concatenate([classes(listing, row).ravel() for row in range(4)]), return_counts=True)
    expected = {int(value): count for value, count in REFERENCE["masks"]["pixels"].items()}
    expected[-1] = expected.pop(255)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == expected
    assert listing.classes == ["0", "1", "2", "3"] and listing.remarks == ["255 in the masks of masks is ignored."]


def test_numbers_and_colours_say_the_same(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    numbers, coloured = read_masks(with_masks(tmp_path / "a", "numbers")), with_masks(tmp_path / "b", "coloured")
    with pytest.raises(DataError, match=r"is in colours, and there is no table of classes. Write class_dict.csv"):
        classes(read_masks(coloured), 0)
    shutil.move(coloured / "masks" / "class_dict.csv", coloured)
    listing = read_masks(coloured)
    assert listing.classes == ["background", "bus", "car", "tree"]
    for row in range(4):
        assert np.array_equal(classes(listing, row), classes(numbers, row))
    given = read_masks(coloured, {"ground": (0, 0, 0), "car": (30, 30, 200), "bus": (200, 30, 30), "tree": (30, 160, 30)})
    assert np.array_equal(classes(given, 0) == 2, classes(numbers, 0) == 1)


def test_a_colour_that_is_no_class_is_named_with_its_place():
    image = Image.new("RGB", (4, 3))
    image.putpixel((2, 1), (9, 8, 7))
    with pytest.raises(DataError, match=r"'m.png' has the colour \(9, 8, 7\) at x 2, y 1, which no class has"):
        MaskFiles({"a": (0, 0, 0)}).classes_of(image, "m.png")


def test_0_and_255_alone_are_two_classes(tmp_path):
    folder = with_masks(tmp_path, "numbers")
    for file in (folder / "masks").iterdir():
        array = np.asarray(Image.open(file))
        Image.fromarray(np.where(array > 0, 255, 0).astype(np.uint8)).save(file)
    listing = read_masks(folder)
    assert listing.classes == ["0", "1"] and set(np.unique(classes(listing, 0))) == {0, 1}
    assert listing.remarks == [f"masks of {folder.name} hold 0 and 255 alone: these are the classes 0 and 1."]


def test_a_folder_for_each_class_gives_channels(tmp_path):
    numbers = read_masks(with_masks(tmp_path, "numbers"))
    expected = [classes(numbers, row) for row in range(4)]
    for number, name in enumerate(("bus", "car"), 1):
        (tmp_path / "masks" / name).mkdir()
        for mask, path in zip(expected, numbers.paths, strict=True):
            Image.fromarray((mask == number).astype(np.uint8) * 255).save(tmp_path / "masks" / name / path.name)
    listing = read_masks(tmp_path)
    assert listing.classes == ["bus", "car"] and listing.answers.channels == 2
    for row, mask in enumerate(expected):
        channels = classes(listing, row)
        assert channels.dtype == np.float32 and np.array_equal(channels, np.stack([mask == 1, mask == 2]))


def test_bars_of_a_letterbox_do_not_count():
    listing = read_masks(MASKS)
    mask = listing.answers.moved(0, view_of((64, 48), (32, 32), "letterbox"))
    assert mask.dtype == np.int64 and mask.shape == (32, 32) and (mask[:4] == -1).all() and (mask[-4:] == -1).all()
    assert (mask[6:26] >= 0).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "masks" / "001.png").unlink(), r"001.png' has no mask of its name in"),
        (lambda f: (f / "masks" / "000.png").write_bytes(b"no"), r"cannot read the mask .*000.png'"),
        (lambda f: Image.new("L", (5, 5)).save(f / "masks" / "000.png"), r"000.png' has 5 x 5 pixels, its image 64 x 48"),
        (lambda f: Image.new("F", (64, 48)).save(f / "masks" / "000.tiff"), None),
    ],
)
def test_damaged_masks_are_named(tmp_path, change, said):
    folder = with_masks(tmp_path, "numbers")
    change(folder)
    if said is None:
        (folder / "masks" / "000.png").unlink()
        said = "000.tiff' holds float32 values, which number no classes"
    with pytest.raises(DataError, match=said):
        classes(read_masks(folder), 0)


def test_folders_that_are_none(tmp_path):
    assert mask_folders(tmp_path) is None and mask_folders(MASKS) == (MASKS / "images", MASKS / "masks")
    with pytest.raises(DataError, match="has no folders 'images' and 'masks'"):
        read_masks(tmp_path)


def test_colour_tables(tmp_path):
    file = tmp_path / "labelmap.txt"
    file.write_text("# label:color_rgb:parts:actions\nbackground:0,0,0::\nbus:200,30,30::\n")
    assert read_colours(file) == {"background": (0, 0, 0), "bus": (200, 30, 30)}
    (tmp_path / "a.csv").write_text("bus,200,30,30\n\ncar,1,2,3\n")
    assert list(read_colours(tmp_path / "a.csv")) == ["bus", "car"]
    for text, said in (
        ("bus:300,0,0::\n", "line 1 is not a name and red, green and blue"),
        ("bus:1,2::\n", "line 1 is not a name"),
        ("bus:1,2,3::\ncar:1,2,3::\n", "line 2 has a name or a colour that an earlier line has"),
        ("", "names no colours"),
    ):
        file.write_text(text)
        with pytest.raises(DataError, match=said):
            read_colours(file)
