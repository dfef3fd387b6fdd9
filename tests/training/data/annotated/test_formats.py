"""Which format lies at a path."""

import json
import shutil

import pytest
from PIL import Image

from onnxgrad.errors import ArgumentError, DataError, TrainingError
from onnxgrad.training import Images
from onnxgrad.training.data import open_data
from onnxgrad.training.data.annotated.formats import format_at
from onnxgrad.training.data.fingerprints import check_unchanged, fingerprints_of
from onnxgrad.training.data.opening import for_validation, open_both, source_at
from tests.training.data.annotated.sets import NAMES, SETS, boxes

pytest.importorskip("yaml")


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("coco", "COCO", "boxes"),
        ("coco/annotations/instances_train.json", "COCO", "boxes"),
        ("yolo", "YOLO", "boxes"),
        ("yolo/data.yaml", "YOLO", "boxes"),
        ("voc", "VOC", "boxes"),
        ("masks", "masks", "mask"),
        ("regions/icdar", "ICDAR", "regions"),
        ("regions/paddle", "Label.txt", "regions"),
        ("regions/paddle/Label.txt", "Label.txt", "regions"),
    ],
)
def test_formats_are_recognised(path, name, kind):
    found = format_at(SETS / path)
    assert (found.name, found.kind) == (name, kind) and found.read(None).answers.kind == kind
    assert isinstance(source_at(str(SETS / path)), Images)
    other = "mask" if kind != "mask" else "boxes"
    assert format_at(SETS / path, kind=kind) is not None
    outlines = format_at(SETS / path, kind=other)  # which COCO has besides boxes
    assert outlines is None if name != "COCO" else outlines.read(None).answers.kind == "mask"


def test_class_folders_and_plain_pictures_are_none(tmp_path):
    for name in ("cats", "dogs"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / name / "a.png")
    (tmp_path / "settings.json").write_text(json.dumps({"images": 3}))
    (tmp_path / "conda.yaml").write_text("name: env\n")
    assert format_at(tmp_path) is None and format_at(tmp_path / "cats") is None and format_at(tmp_path / "gone") is None


def test_one_of_several_files_of_coco(tmp_path):
    shutil.copytree(SETS / "coco", tmp_path / "coco")
    folder = tmp_path / "coco" / "annotations"
    shutil.copy(folder / "instances_train.json", folder / "instances_val.json")
    assert format_at(tmp_path / "coco", "val").path.name == "instances_val.json"
    shutil.copy(folder / "instances_train.json", folder / "instances_train_small.json")
    with pytest.raises(DataError, match=r"holds several \.json files"):
        format_at(tmp_path / "coco", "train")


def test_answers_in_other_files_are_part_of_the_fingerprint(tmp_path):
    """A run that is resumed with other boxes is refused, though data.yaml is the same"""
    shutil.copytree(SETS / "yolo", tmp_path / "yolo")
    path = tmp_path / "yolo" / "data.yaml"
    before = fingerprints_of(data=open_data(path, boxes()))
    assert before == fingerprints_of(data=open_data(path, boxes()))
    (tmp_path / "yolo" / "labels" / "train" / "001.txt").write_text("1 0.5 0.5 0.25 0.25\n")
    after = fingerprints_of(data=open_data(path, boxes()))
    with pytest.raises(TrainingError, match=r"'data\.yaml' \(data\) has changed since the run"):
        check_unchanged(before, after)


def test_validation_reads_its_part():
    for path in (SETS / "yolo" / "data.yaml", SETS / "voc"):
        train, held_out, _ = open_both(str(path), str(path), boxes())
        assert (len(train), len(held_out)) == (6, 2) and held_out.classes == train.classes == {"boxes": NAMES}
    assert for_validation(Images(SETS / "voc", part="train")).part == "train" and for_validation(0.5) == 0.5
    assert for_validation(Images(SETS / "voc")).part == "val" and for_validation(str(SETS / "yolo")).part == "val"


def test_functions_are_not_run_to_look_for_parts(tmp_path):
    (tmp_path / "data.py").write_text(
        "from pathlib import Path\n\nwith Path(__file__).with_suffix('.log').open('a') as f:\n    f.write('x')\n"
    )
    assert for_validation(str(tmp_path / "data.py:batches")) == str(tmp_path / "data.py:batches")
    assert not (tmp_path / "data.log").exists()


def test_words_that_are_no_part_or_fit():
    with pytest.raises(ArgumentError, match="part is 'train', 'val', 'test' or None, not 'valid'"):
        Images("a", part="valid")
    with pytest.raises(ArgumentError, match="fit is 'stretch', 'letterbox', 'corner' or None, not 'pad'"):
        Images("a", fit="pad")
