"""Which task follows from data and outputs, what is said of it, and what overrules it."""

import numpy as np
import pytest
from onnx.parser import parse_model
from PIL import Image

import onnxgrad as og
from onnxgrad.errors import ArgumentError
from onnxgrad.training import Images, Table
from onnxgrad.training.tasks import TASKS, held_by, plan_task, task_line
from tests.training.data.annotated.scenes import drawn, write_table
from tests.training.data.annotated.sets import SETS


def output(shape="N, 3", operator="Tanh"):
    text = f'<ir_version: 8, opset_import: ["": 17]> f (float[{shape}] x) => (float[{shape}] y) {{ y = {operator}(x) }}'
    return og.from_onnx(parse_model(text)).outputs[0]


def table(tmp_path, *lines):
    (tmp_path / "t.csv").write_text("\n".join(lines))
    return tmp_path / "t.csv"


class TestHeld:
    @pytest.mark.parametrize(
        ("path", "kind", "what"),
        [
            ("coco", "outlines", "coco holds boxes and outlines (COCO)"),
            ("yolo/data.yaml", "boxes", "data.yaml holds boxes (YOLO)"),
            ("voc", "boxes", "voc holds boxes (VOC)"),
            ("masks", "mask", "masks holds masks (masks)"),
            ("regions/icdar", "regions", "icdar holds regions (ICDAR)"),
        ],
    )
    def test_sets_of_pictures(self, path, kind, what):
        assert held_by(SETS / path) == held_by(Images(SETS / path)) == (kind, what, False)

    @pytest.mark.parametrize(
        ("lines", "kind", "may_be_class"),
        [
            (["x,target", "1,cat", "2,dog"], "class", False),
            (["x,target", "1,cat;dog", "2,", "3,dog"], "labels", False),
            (["x,target", "1,0", "2,4"], "number", True),
            (["x,target", "1,0.5", "2,4"], "number", False),
            (["x,label", "1,-3", "2,4"], "number", False),
            (["x,target.0,target.1", "1,0,1", "2,1,1"], "labels", False),
            (["x,target.0,target.1", "1,0.5,1", "2,1,1"], "numbers", False),
            (["x,target", "1,1.5 2", "2,3 4"], "numbers", False),
        ],
    )
    def test_tables(self, tmp_path, lines, kind, may_be_class):
        for source in (table(tmp_path, *lines), Table(table(tmp_path, *lines))):
            found = held_by(source)
            assert (found.kind, found.may_be_class) == (kind, may_be_class)

    def test_tables_of_pictures(self, tmp_path):
        path = write_table(tmp_path / "a", drawn(0, 3), ["mask"], lambda kinds, boxes: ["a.png"])
        assert held_by(path).kind == "mask" and held_by(tmp_path / "a").kind == "mask"
        path = write_table(tmp_path / "b", drawn(0, 3), ["class", "x", "y", "w", "h"], lambda kinds, boxes: ["a", 1, 1, 2, 2])
        assert held_by(path).kind == "boxes"
        path = write_table(tmp_path / "c", drawn(0, 3), ["animal"], lambda kinds, boxes: ["cat"])
        assert held_by(path).kind == "class"

    def test_class_folders_and_arrays(self, tmp_path):
        for name in ("cats", "dogs"):
            (tmp_path / "p" / name).mkdir(parents=True)
            Image.new("RGB", (4, 4)).save(tmp_path / "p" / name / "a.png")
        assert held_by(tmp_path / "p") == ("class", "p holds a folder for each of 2 classes", False)
        arrays = {"x": np.zeros((4, 3)), "target": np.array([[0.0, 1], [1, 1]])}
        np.savez(tmp_path / "a.npz", **arrays)
        assert held_by(arrays) == held_by(tmp_path / "a.npz") == ("labels", "the column 'target' holds 2 labels each", False)
        assert (
            held_by({"boxes": np.zeros((2, 4, 5), "f4")}).kind == "boxes"
            and held_by({"y": np.zeros((2, 8, 8), int)}).kind == "mask"
        )
        assert held_by({"z": np.zeros((2, 3))}, target="z").kind == "labels" and held_by({"z": np.zeros(2)}) is None
        assert held_by(lambda epoch: []) is None and held_by(tmp_path / "gone") is None


class TestPlans:
    @pytest.mark.parametrize(
        ("kind", "shape", "operator", "task", "loss"),
        [
            ("class", "N, 3", "Tanh", "classify", "cross_entropy"),
            ("class", "N, 3", "Softmax", "classify", "cross_entropy"),
            ("class", "N, 1", "Tanh", "classify", "bce_with_logits"),
            ("class", "N, 3", "Sigmoid", "multilabel", "bce_with_logits"),
            ("labels", "N, 3", "Tanh", "multilabel", "bce_with_logits"),
            ("numbers", "N, 3", "Tanh", "regress", "mse"),
            ("number", "N, 1", "Tanh", "regress", "mse"),
            ("whole", "N, 3", "Tanh", "classify", "cross_entropy"),
            ("whole", "N, 1", "Tanh", "regress", "mse"),
            ("whole", "N, 1", "Sigmoid", "classify", "bce_with_logits"),
            ("mask", "N, 4, 8, 8", "Tanh", "segment", "cross_entropy"),
            ("mask", "N, 1, 8, 8", "Sigmoid", "segment", "bce_with_logits"),
            ("mask", "N, 1, 8, 8", "Tanh", "segment", "bce_with_logits"),
            ("boxes", "N, 84, 100", "Tanh", "detect", "detection"),
        ],
    )
    def test_what_follows(self, kind, shape, operator, task, loss):
        from onnxgrad.training.tasks import Held

        held = Held("number" if kind == "whole" else kind, "t.csv holds answers", kind == "whole")
        plan = plan_task(held, output(shape, operator))
        assert (plan.task, plan.loss) == (task, loss)
        assert task_line(plan) == f"the task is {task}, as t.csv holds answers; the loss is {loss} of y (--task, --loss)."

    def test_the_user_overrules(self):
        held = held_by({"target": np.arange(4)})
        assert plan_task(held, output()).task == "classify" and plan_task(held, output(), "regress").loss == "mse"
        assert plan_task(None, output("N, 3, 4, 4"), "segment").metrics == ["iou"]
        assert "as given" in plan_task(held, output(), "regress").line

    def test_what_does_not_fit_is_refused(self):
        held = held_by(SETS / "coco")
        with pytest.raises(ArgumentError, match=r"coco holds boxes and outlines \(COCO\), which is for detect, not for classify"):
            plan_task(held, output(), "classify")
        with pytest.raises(
            ArgumentError, match=r"there is no task 'detection'. Use one of classify, multilabel, regress, segment, detect"
        ):
            plan_task(held, output(), "detection")
        with pytest.raises(ArgumentError, match=r"the task is not known. Name the task \(--task\)"):
            plan_task(None, output())
        assert len(TASKS) == 5
