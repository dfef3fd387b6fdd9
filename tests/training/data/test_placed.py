"""Tables with paths of masks, with a row for each box, and the record of boxes and masks."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from onnxgrad.errors import DataError, ModelError
from onnxgrad.training import Images, Trainer
from onnxgrad.training.data import open_data
from onnxgrad.training.data.annotated.masks import read_masks
from onnxgrad.training.data.opening import open_both
from onnxgrad.training.data.record import DataRecord
from tests.training.data.annotated.scenes import drawn, write_masks, write_table
from tests.training.data.annotated.sets import SETS, boxes, wanted

MODELS = SETS.parent / "models"
MASKS = wanted("target", (None, 32, 32), "int64", size="32, 32")


def mask_table(folder, scenes, name="mask"):
    write_masks(folder, scenes)
    lines = [f"images/{number:03}.png,masks/{number:03}.png" for number in range(len(scenes))]
    (folder / "t.csv").write_text("\n".join([f"path,{name}", *lines]))
    return folder / "t.csv"


@pytest.mark.parametrize("name", ["mask", "target", "segmentation"])
def test_a_column_of_paths_of_masks(tmp_path, name):
    path = mask_table(tmp_path, drawn(0, 6), name)
    rows, folder = open_data(path, MASKS), open_data(SETS / "masks", wanted("target", (None, 64, 64), "int64"))
    batch = rows.take(np.arange(6), (0, 0))
    expected = np.stack([mask for _, mask, _ in drawn(0, 6)]).astype(np.int64)
    expected[:, 0] = -1
    assert np.array_equal(batch["target"], expected) and rows.record.columns["target"].kind == "mask"
    assert folder.record.columns["target"].kind == "mask" and rows.view(0).size == (32, 32)


def test_masks_move_as_their_pictures_do(tmp_path):
    source = Images(mask_table(tmp_path, drawn(0, 8)), flip=True, crop=True, scale=0.3)
    batch = open_data(source, MASKS).take(np.arange(8), (3, 1))
    for image, mask in zip(batch["x"], batch["target"], strict=True):
        inside = (mask == 1).any() and image[0][mask == 1].mean() > image[2][mask == 1].mean()  # a bus is red
        assert inside or not (mask == 1).any()
    plain = open_data(source, MASKS).plain().take(np.arange(8), (3, 1))
    assert not np.array_equal(plain["target"], batch["target"])


def test_a_row_for_each_box(tmp_path):
    folder, scenes = tmp_path / "t", drawn(1, 5)
    write_table(folder, scenes, ["n"], lambda kinds, boxes: [0])
    lines = ["path,class,x1,y1,x2,y2"]
    for number, (_, _, things) in enumerate(scenes):
        lines += [",".join(map(str, (f"{number:03}.png", *thing))) for thing in things] or [f"{number:03}.png,,,,,"]
    (folder / "table.csv").write_text("\n".join(lines))
    spec = boxes(size="32, 32")
    for path in (folder / "table.csv", folder):
        rows = open_data(path, spec)
        assert len(rows) == 5 and rows.classes == {"boxes": ["0", "1"]}
        batch = rows.take(np.arange(5))["boxes"]
        for row, (_, _, things) in zip(batch, scenes, strict=True):
            assert row[row[:, 0] >= 0].tolist() == [list(map(float, thing)) for thing in things]
    predicted = open_data(folder / "table.csv", replace(spec, names=["x"], targets=[], variables={"x": spec.variables["x"]}))
    assert len(predicted) in (5, len(lines) - 1)


def test_pixels_that_do_not_count_change_neither_loss_nor_weights(tmp_path):
    """A mask with -1 gives what the same mask gives with another class there that -100 takes out"""
    x = np.random.default_rng(0).normal(size=(4, 3, 32, 32)).astype(np.float32)
    target = np.random.default_rng(1).integers(0, 4, (4, 32, 32))
    void, hundred = target.copy(), target.copy()
    void[:, :10], hundred[:, :10] = -1, -100
    before = void.copy()
    rows = []
    for mask in (void, hundred):
        trainer = Trainer(MODELS / "masks.onnx", loss="cross_entropy", metrics=["accuracy"], learning_rate=0.01, threads=1)
        rows.append((trainer.step({"images": x, "target": mask}), trainer.evaluate({"images": x, "target": mask})))
    assert rows[0] == rows[1] and np.array_equal(void, before)
    with pytest.raises(DataError, match="holds the label -2"):
        trainer.step({"images": x, "target": np.full_like(target, -2)})


class TestRecord:
    def test_boxes_and_their_letterbox(self):
        rows = open_data(SETS / "coco", boxes())
        record = DataRecord.parsed(rows.record.as_text(), "m")
        assert record == rows.record and record.columns["x"].fit == "letterbox" and record.columns["x"].around == 114
        assert record.columns["boxes"].classes == ("car", "bus", "tree")
        again = open_data(SETS / "voc", replace(boxes(), record=record))
        assert again.classes == {"boxes": ["car", "bus", "tree"]} and again.view(0).place == (0, 8, 64, 48)
        other = open_data(SETS / "yolo", replace(boxes(), record=record))  # whose data.yaml names bus before car
        assert other.classes == rows.classes
        classes = rows.take(np.arange(2))["boxes"][..., 0]
        assert classes[0, 3] == -4 and (classes[:, :3] >= -1).all()  # the crowd of trees, which YOLO's files cannot say
        np.testing.assert_array_equal(other.take(np.arange(2))["boxes"][..., 0], classes[:, :3])

    def test_what_255_means_is_that_of_the_training_data(self, tmp_path):
        train, held_out = (write_masks(tmp_path / name, drawn(seed, 4)) for seed, name in enumerate(("train", "val")))
        for file in (held_out / "masks").iterdir():
            Image.new("L", (32, 32), 255).save(file)
        _, val, _ = open_both(str(train), str(held_out), MASKS)
        assert (val.take(np.arange(4))["target"] == -1).all()
        assert (open_data(held_out, MASKS).take(np.arange(4))["target"] == 1).all()  # two classes, where nothing else is known

    def test_colours(self, tmp_path):
        folder = tmp_path / "t"
        write_masks(folder, drawn(0, 3))
        for number, (_, mask, _) in enumerate(drawn(0, 3)):
            Image.fromarray(np.stack([mask * 10, mask, mask], axis=2)).save(folder / "masks" / f"{number:03}.png")
        colours = {name: (10 * number, number, number) for number, name in enumerate(("ground", "bus", "car", "tree"))}
        rows = open_data(Images(folder, colours=colours), MASKS)
        record = DataRecord.parsed(rows.record.as_text(), "m")
        again = open_data(folder, replace(MASKS, record=record))
        assert np.array_equal(again.take(np.arange(3))["target"], rows.take(np.arange(3))["target"])
        assert again.classes == {"target": ["ground", "bus", "car", "tree"]} and record.columns["target"].colours[:6] == (
            0,
            0,
            0,
            10,
            1,
            1,
        )
        assert read_masks(folder, colours).classes == list(colours)

    @pytest.mark.parametrize(
        "entry",
        [
            {"kind": "mask", "colours": [1, 2]},
            {"kind": "mask", "colours": [1, 2, 300]},
            {"kind": "mask", "binary": 1},
            {"kind": "boxes", "classes": [1]},
            {"kind": "picture", "fit": "squash"},
            {"kind": "picture", "around": -1},
            {"kind": "picture", "around": 256},
        ],
    )
    def test_damaged_records_are_refused(self, entry):
        import json

        with pytest.raises(ModelError, match="the record of the data in m is damaged: 'a' has "):
            DataRecord.parsed(json.dumps({"columns": {"a": entry}}), "m")
