"""Several labels, several numbers and masks by the commands: the task is said, figures before and after, answers as files."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from onnxgrad.cli.data import data_named
from onnxgrad.training.data.changes import Changes
from tests.cli.command import command
from tests.training.data.annotated.scenes import KINDS, drawn, write_masks, write_table

pytest.importorskip("pyarrow")
MODELS = Path(__file__).parent.parent / "data" / "annotated" / "models"
TRAIN = ("--no-report", "--threads", "1", "--batch-size", "16", "--seed", "1")


def train(model, folder, *more):
    said = command("train", MODELS / model, "--data", folder / "train", "--out", folder / "run", *TRAIN, *more)
    return said.splitlines()[0]


def figures(target, folder, *more):
    return json.loads(command("evaluate", target, "--data", folder / "val", "--json", *more))


def words(kinds, boxes):
    return [";".join(KINDS[kind] for kind in sorted(kinds))]


@pytest.mark.parametrize("model", ["labels", "labels_sigmoid"])
def test_several_labels(tmp_path, model):
    for part, seed, count in (("train", 0, 192), ("val", 1, 64)):
        write_table(tmp_path / part, drawn(seed, count), ["tags"], words)
    before = figures(MODELS / f"{model}.onnx", tmp_path, "--loss", "bce_with_logits", "--metric", "f1")
    said = train(f"{model}.onnx", tmp_path, "--epochs", "8", "--lr", "0.003")
    output = "logits" if model == "labels" else "probabilities"
    assert said == (
        "the task is multilabel, as the column 'tags' of table.csv holds several labels; "
        f"the loss is bce_with_logits of {output} (--task, --loss)."
    )
    after = figures(tmp_path / "run", tmp_path)
    assert before["f1"] < 0.6 and after["f1"] > 0.93, (before, after)
    command("predict", tmp_path / "run", "--data", tmp_path / "val", "--out", tmp_path / "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    expected = [words({kind for kind, *_ in boxes}, boxes)[0] for _, _, boxes in drawn(1, 64)]
    assert np.mean([row[f"{output}.labels"] == answer for row, answer in zip(rows, expected, strict=True)]) > 0.85
    for row in rows:  # a column with the probability of each label by its name
        sure = [kind for kind in sorted(KINDS) if float(row[f"{output}.{kind}"]) > 0.5]
        assert ";".join(sure) == row[f"{output}.labels"]
        assert all(0 <= float(row[f"{output}.{kind}"]) <= 1 for kind in KINDS)
    command("predict", tmp_path / "run", "--data", tmp_path / "val", "--out", tmp_path / "a.json", "--draw", tmp_path / "drawn")
    for entry, row in zip(json.loads((tmp_path / "a.json").read_text()), rows, strict=True):
        assert ";".join(entry[output]["labels"]) == row[f"{output}.labels"]
        assert entry[output]["probabilities"] == pytest.approx({kind: float(row[f"{output}.{kind}"]) for kind in KINDS})
    assert len(list((tmp_path / "drawn").iterdir())) == len(rows)


def test_several_numbers(tmp_path):
    def place(kinds, boxes):
        x1, y1, x2, y2 = (boxes or [(0, 0, 0, 0, 0)])[0][1:]
        return [round((x1 + x2) / 64, 4), round((y1 + y2) / 64, 4)]

    for part, seed, count in (("train", 0, 256), ("val", 1, 64)):
        write_table(tmp_path / part, drawn(seed, count), ["target.0", "target.1"], place)
    before = figures(MODELS / "numbers.onnx", tmp_path, "--loss", "mse", "--metric", "r2")
    said = train("numbers.onnx", tmp_path, "--epochs", "20", "--lr", "0.003")
    assert said.startswith("the task is regress, as table.csv holds 2 numbers each; the loss is mse of place")
    after = figures(tmp_path / "run", tmp_path)
    assert before["r2"] < 0.1 and after["r2"] > 0.7, (before, after)
    command("predict", tmp_path / "run", "--data", tmp_path / "val", "--out", tmp_path / "a.csv")
    command("predict", tmp_path / "run", "--data", tmp_path / "val", "--out", tmp_path / "a.json")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert list(rows[0]) == ["example", "file", "place.0", "place.1"]
    for entry, row in zip(json.loads((tmp_path / "a.json").read_text()), rows, strict=True):
        assert entry["place"] == pytest.approx({str(i): float(row[f"place.{i}"]) for i in range(2)}, rel=1e-6)


def test_masks(tmp_path):
    for part, seed, count in (("train", 0, 96), ("val", 1, 32)):
        write_masks(tmp_path / part, drawn(seed, count))
    before = figures(MODELS / "masks.onnx", tmp_path, "--loss", "cross_entropy", "--metric", "iou")
    said = train("masks.onnx", tmp_path, "--epochs", "6", "--lr", "0.01", "--flip", "--scale", "0.2")
    assert said == "the task is segment, as train holds masks (masks); the loss is cross_entropy of logits (--task, --loss)."
    after = figures(tmp_path / "run", tmp_path)
    assert before["iou"] < 0.15 and after["iou"] > 0.9, (before, after)
    command("predict", tmp_path / "run", "--data", tmp_path / "val" / "images", "--out", tmp_path / "masks")
    for number, (_, mask, _) in enumerate(drawn(1, 32)):
        with Image.open(tmp_path / "masks" / f"{number:03}.png") as image:
            assert image.mode == "P" and image.size == (32, 32)
            assert (np.asarray(image) == mask).mean() > 0.9
    # Drawn over pictures of another size, whose masks come back to it.
    (tmp_path / "large").mkdir()
    for number, (picture, *_) in enumerate(drawn(1, 4)):
        Image.fromarray(picture).resize((960, 640), 0).save(tmp_path / "large" / f"{number}.png")
    command("predict", tmp_path / "run", "--data", tmp_path / "large", "--draw", tmp_path / "drawn")
    for number, (_, mask, _) in enumerate(drawn(1, 4)):
        with Image.open(tmp_path / "drawn" / f"{number}.png") as after, Image.open(tmp_path / "large" / f"{number}.png") as before:
            assert after.width == 960 and after.height >= 640
            painted = np.abs(np.asarray(after, int)[:640] - np.asarray(before.convert("RGB"), int)).max(axis=2) > 20
        thing = np.asarray(Image.fromarray((mask > 0).astype(np.uint8)).resize((960, 640), 0)) > 0
        assert (painted == thing).mean() > 0.85


def test_mean_iou_is_that_of_the_masks_that_are_written(tmp_path):
    """Of all classes that occur, from all pixels together, over masks that predict writes, counted here"""
    for part, seed, count in (("train", 0, 32), ("val", 1, 16)):
        write_masks(tmp_path / part, drawn(seed, count))
    train("masks.onnx", tmp_path, "--epochs", "3", "--lr", "0.01")
    judged = figures(tmp_path / "run", tmp_path, "--metric", "mean_iou")
    command("predict", tmp_path / "run", "--data", tmp_path / "val" / "images", "--out", tmp_path / "masks")
    counts = np.zeros((256, 256), np.int64)
    for number, (_, mask, _) in enumerate(drawn(1, 16)):
        with Image.open(tmp_path / "masks" / f"{number:03}.png") as image:
            np.add.at(counts, (mask[1:].ravel(), np.asarray(image)[1:].ravel()), 1)  # the upper row does not count
    shared, union = np.diag(counts), counts.sum(0) + counts.sum(1) - np.diag(counts)
    assert 0 < judged["mean_iou"] < 1 and judged["mean_iou"] == pytest.approx((shared / np.maximum(union, 1))[union > 0].mean())


def test_boundary_by_the_command(tmp_path):
    for part, seed, count in (("train", 0, 32), ("val", 1, 16)):
        write_masks(tmp_path / part, drawn(seed, count))
    terms = ("--term", "cross_entropy", "logits", "target", "1", "--term", "boundary", "logits", "target", "0.01")
    train("masks.onnx", tmp_path, "--epochs", "2", "--lr", "0.01", *terms)
    assert figures(tmp_path / "run", tmp_path, "--metric", "iou")["iou"] > 0


def test_outlines_of_coco_train_a_segmenter_and_say_so(tmp_path):
    sets = Path(__file__).parent.parent / "data" / "annotated" / "sets" / "coco"
    arguments = ("--data", sets, "--epochs", "1", "--image-size", "32x32", *TRAIN)
    said = command("train", MODELS / "masks.onnx", *arguments, "--out", tmp_path / "run")
    assert said.startswith("the task is segment, as coco holds boxes and outlines (COCO); the loss is cross_entropy of logits")
    judged = json.loads(command("evaluate", tmp_path / "run", "--data", sets, "--metric", "mean_iou", "--json"))
    assert 0 <= judged["mean_iou"] <= 1


def test_masks_of_one_probability(tmp_path):
    for part, seed, count in (("train", 0, 64), ("val", 1, 32)):
        write_masks(tmp_path / part, drawn(seed, count))
        for file in (tmp_path / part / "masks").iterdir():
            with Image.open(file) as image:
                pixels = np.asarray(image)
            Image.fromarray(np.where((pixels > 0) & (pixels < 255), 255, 0).astype(np.uint8)).save(file)
    said = train("masks_sigmoid.onnx", tmp_path, "--epochs", "6", "--lr", "0.01")
    assert said.startswith("the task is segment, as train holds masks (masks); the loss is bce_with_logits of probabilities")
    assert figures(tmp_path / "run", tmp_path)["iou"] > 0.9
    command("predict", tmp_path / "run", "--data", tmp_path / "val" / "images", "--out", tmp_path / "masks")
    with Image.open(tmp_path / "masks" / "000.png") as image:
        assert set(np.unique(np.asarray(image))) <= {0, 1}


def test_what_does_not_fit_is_refused(tmp_path):
    write_masks(tmp_path / "train", drawn(0, 4))
    arguments = ("train", MODELS / "masks.onnx", "--data", tmp_path / "train", "--out", tmp_path / "run")
    assert "train holds masks (masks), which is for segment, not for classify" in command(*arguments, "--task", "classify", code=2)
    said = command("train", MODELS / "masks.onnx", "--data", MODELS / "masks.onnx", "--out", tmp_path / "run", code=2)
    assert "the task is not known. Name the task (--task)" in said
    write_table(tmp_path / "t", drawn(0, 4), ["tags"], words)
    said = command("predict", MODELS / "labels.onnx", "--data", tmp_path / "t", "--out", tmp_path / "masks", code=2)
    assert "are not masks, and only masks are written to a folder" in said


def test_a_folder_of_classes_says_its_task(tmp_path):
    for number, (picture, _, boxes) in enumerate(drawn(0, 40)):
        folder = tmp_path / "train" / KINDS[boxes[0][0] if boxes else 0]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{number}.png")
    said = train("labels.onnx", tmp_path, "--epochs", "1")
    assert said.startswith(
        "the task is classify, as train holds a folder for each of 3 classes; the loss is cross_entropy of logits"
    )
    said = command(
        "train", MODELS / "labels_sigmoid.onnx", "--data", tmp_path / "train", "--out", tmp_path / "r", "--epochs", "1", *TRAIN
    )
    assert said.startswith("the task is multilabel, as train holds a folder for each of 3 classes; the loss is bce_with_logits")


def test_four_pictures_in_one(tmp_path):
    for part, seed, count in (("train", 0, 16), ("val", 1, 8)):
        write_masks(tmp_path / part, drawn(seed, count))
    plain = figures(MODELS / "masks.onnx", tmp_path, "--loss", "cross_entropy", "--metric", "iou")
    options = ("--lr", "0", "--mosaic", "1", "--epochs", "20")
    train("masks.onnx", tmp_path, "--val", tmp_path / "val", "--metric", "iou", *options)
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["mosaic"] == 1 and data_named(settings, "val").reading.changes == Changes()
    assert data_named(settings, "data").reading.changes == Changes(mosaic=1.0, mosaic_epochs=18)
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    by_epoch = {row["epoch"]: row for row in rows}
    alone = by_epoch[20]["loss"]  # of the same pictures in another order
    for epoch in range(1, 20):
        assert (by_epoch[epoch]["loss"] == pytest.approx(alone, rel=1e-5)) == (epoch > 18)
    for row in rows:
        assert row["val_iou"] == pytest.approx(plain["iou"], rel=1e-12)
