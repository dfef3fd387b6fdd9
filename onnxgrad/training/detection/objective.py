"""The loss of a detector: what it gives is compared with what an assignment on the host says that each of its anchors is to give.

Before each step the network runs once, in inference mode; each picture's objects are assigned to its anchors by what these give now
(``assignment.py``), and the answers are a column of the data, as those of a teacher are. No gradient passes through them.

Tests: tests/training/detection/test_objective.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.program import Program
from onnxgrad.core.ir.types import TensorType
from onnxgrad.core.ir.variable import Variable
from onnxgrad.core.runtime.executor import Executor
from onnxgrad.core.state.scope import Scope
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import DataError, OnnxGradError
from onnxgrad.internal.losses import bounded_logistic
from onnxgrad.training.data.preparing import image_input
from onnxgrad.training.data.rows import Batch
from onnxgrad.training.detection.assignment import detr_costs, hungarian, match_anchors, match_priors, task_aligned
from onnxgrad.training.detection.batches import open_detector
from onnxgrad.training.detection.boxes import centre_form, overlaps, paired_overlaps
from onnxgrad.training.detection.classes import class_names
from onnxgrad.training.detection.decoding import detections_of
from onnxgrad.training.detection.geometry import Geometry, Probe
from onnxgrad.training.detection.heads import Channels, DetectorHead, MapHead, require_head
from onnxgrad.training.losses.detection import (
    balanced_bce_loss,
    box_iou_loss,
    dice_loss,
    distribution_focal_loss,
    divisor_of,
    focal_loss,
    masked_l1_loss,
    varifocal_loss,
)
from onnxgrad.training.losses.terms import Term

__all__ = ["ASSIGNED", "BOXES", "DetectionLoss", "region_borders", "shrunk_regions"]

Array = np.ndarray[Any, Any]

BOXES = "boxes"
"""The data's column: float32 [batch, objects, 5], class, left, top, right, bottom in pixels of the model's input; a class of -1 is
no object."""
ASSIGNED = "assigned"
"""The column that the program reads, of the answers of the assignment."""
_NEGATIVES = 3.0
_NO_OBJECT = 0.1
_SHRINK = 0.4
_LOW, _HIGH = 0.3, 0.7
_OVERLAP = 0.6
_LEAST_FIT = 0.01
"""The score of the class of a box that answers for an object, however little it overlaps it."""


class _Raw(NamedTuple):
    """What the network gives, in the program: logits [batch, anchors, channels], objectness [batch, anchors, 1], boxes as the file
    holds them, and as corners, [batch, anchors, 4], and logits of bins [batch, anchors, 4, bins]"""

    logits: Variable
    objectness: Variable | None
    boxes: Variable
    corners: Variable
    bins: Variable | None


class DetectionLoss:
    """The loss of a detector whose kind is recognised.

    Classes, boxes and distances have the weights 0.5, 7.5 and 1.5 (YOLOv8); classes, boxes and objectness 0.5, 7.5 and 1 for
    anchors and cells; classes and boxes 1 and 2 for default boxes; classes, distances and overlaps 1, 5 and 2 for queries (DETR);
    probabilities twice (logistic, dice) 1, thresholds 2 and the binary map 1 for text (DBNet has 5, 10 and 1 without the dice).

    Args:
        program: of the detector, before its loss is attached; one that takes a single picture ends at its head then.
        column: name of the data's column of boxes.
        executor: that runs the forward pass for the assignment.

    Raises:
        ArgumentError: if the outputs are of no detector that is known here.
    """

    def __init__(self, program: Program, column: str | None, executor: Executor) -> None:
        self.head = require_head(program)
        opened = open_detector(program, self.head) if isinstance(self.head, DetectorHead) else []
        self.column, self.executor = column or BOXES, executor
        self.names: dict[str, str] = {}
        """The tensors that the assignment reads, by what they are."""
        self._maps: dict[tuple[int, int], tuple[int, int]] = {}
        """Height and width of a map of text by those of images."""
        self.image, self.layout, _ = image_input(program.inputs)
        if isinstance(self.head, MapHead):
            self.probe = None
            dims = self.head.logits.dims
            assert dims is not None
            shape: tuple[Any, ...] = (dims[0], 1 if self.head.thresholds is None else 3, *dims[2:])
            output = self.head.logits.name
        else:
            self.probe = Probe(program, self.head, executor)
            shape = (None, None, self.head.classes + 10)
            output = self.head.scores[0].tensor.name
        self.term = Term(self._loss, output, ASSIGNED, dtype="float32", shape=shape)
        names = class_names(program)
        fits = isinstance(self.head, DetectorHead) and names is not None and len(names) == self.head.classes
        self.classes = tuple(names) if fits and names is not None else None
        """The names of the classes that the file has, if it says them: data with names takes its numbers."""
        self.remarks = [f"the model is {self.head.description}.", *opened]
        if isinstance(self.head, MapHead) and self.head.thresholds is None:
            self.remarks.append(
                "the file holds the map of probabilities alone, so DBNet's losses of thresholds and of the binary map are left out."
            )

    @property
    def variable(self) -> Variable:
        """The data's column, as readers of data take it."""
        v = Variable(Program().global_block(), self.column, TensorType(dtype_of("float32"), (None, None, 5)))
        v.is_data = True
        return v

    @property
    def reads(self) -> list[str]:
        """Names of what ``answer`` and ``detections`` read of the program."""
        return list(self.names.values())

    def _size(self, feed: Batch) -> tuple[int, int]:
        """Height and width of the images of a batch"""
        shape = feed[self.image.name].shape
        return (shape[2], shape[3]) if self.layout == "CHW" else (shape[1], shape[2])

    # The host ----------------------------------------------------------------------------------------------------------

    def answer(self, feed: Batch, boxes: Array, program: Program, scope: Scope | None = None) -> Array:
        """What the anchors are to give for a batch: the column ``assigned``.

        Args:
            feed: the inputs.
            boxes: [batch, objects, 5].
            program: with the loss, for inference.
            scope: where the weights are.

        Raises:
            DataError: if an object has a class that the model has not, or a box without extent.
        """
        if self.probe is None:
            check_boxes(boxes, 1, self.column)
            size = self._size(feed)
            if size not in self._maps:
                (logits,) = self.executor.run(program, feed, self.reads, scope=scope)
                self._maps[size] = (logits.shape[2], logits.shape[3])
            height, width = self._maps[size]
            own = boxes * [1, *[width / size[1], height / size[0]] * 2]
            maps = shrunk_regions(own, (height, width))
            if isinstance(self.head, MapHead) and self.head.thresholds is not None:
                maps = np.concatenate([maps, region_borders(own, (height, width))], axis=1)
            return maps
        assert isinstance(self.head, DetectorHead)
        check_boxes(boxes, self.head.classes, self.column)
        fetched = self.executor.run(program, feed, self.reads, scope=scope)
        raw = dict(zip(self.names, fetched, strict=True))
        size = self._size(feed)
        geometry = self.probe.geometry(size)
        scale = np.array([geometry.unit[0] / size[1], geometry.unit[1] / size[0]] * 2)
        rows = []
        for i, targets in enumerate(boxes):
            own = targets[targets[:, 0] >= 0].astype(np.float64)
            own[:, 1:] *= scale
            rows.append(self._assigned({name: array[i] for name, array in raw.items()}, own, geometry))
        answers: Array = np.stack(rows).astype(np.float32)
        return answers

    def _assigned(self, raw: dict[str, Array], targets: Array, geometry: Geometry) -> Array:
        """The answers of one picture: classes, box, distances, weight of the box, weight of the classes or the objectness"""
        head = self.head
        assert isinstance(head, DetectorHead)
        logits, corners = raw["logits"].astype(np.float64), raw["corners"].astype(np.float64)
        answers = np.zeros((len(logits), head.classes + 10))
        classes, box, distances = answers[:, : head.classes], answers[:, head.classes : head.classes + 4], answers[:, -6:-2]
        answers[:, -1] = 1
        if head.family == "anchors":
            objects = _anchored_objects(targets, geometry)
            at = np.flatnonzero(objects >= 0)
            own = targets[objects[at]]
            classes[at, own[:, 0].astype(np.int64)] = 1
            box[at], answers[at, -2] = own[:, 1:], 1
            answers[:, -1] = 0
            answers[at, -1] = paired_overlaps(corners[at], own[:, 1:])
        elif head.family in ("distances", "cells"):
            p = _sigmoid(logits)
            if "objectness" in raw:
                p = p * _sigmoid(raw["objectness"].astype(np.float64))
            aligned = task_aligned(p, corners, geometry.points, targets)
            classes[:], box[:], answers[:, -2] = aligned.target_scores, aligned.target_boxes, aligned.weights
            answers[:, -1] = aligned.weights
            if head.bins:
                sides = np.concatenate([geometry.points - box[:, :2], box[:, 2:] - geometry.points], axis=1)
                distances[:] = sides / geometry.strides[:, None]
        elif head.family == "default boxes":
            match = match_priors(targets, geometry.defaults, background=0.4 if head.background is None else None)
            at = np.flatnonzero(match.objects >= 0)
            classes[at, match.classes[at]] = 1
            box[:], answers[at, -2] = match.boxes, 1
            answers[:, -1] = match.objects != -2
            if head.background is not None:
                answers[:, -1] = _counted(logits, head.background, match.objects)
        else:
            relative = np.concatenate([targets[:, :1], targets[:, 1:]], axis=1)
            own = logits if head.background is None else _background_last(logits, head.background)
            costs = detr_costs(own, raw["boxes"], relative, sigmoid=head.background is None)
            queries, objects = hungarian(costs)
            fit = 1.0 if head.background is not None else paired_overlaps(corners[queries], targets[objects, 1:])
            classes[queries, targets[objects, 0].astype(np.int64)] = np.maximum(fit, _LEAST_FIT)
            box[queries], answers[queries, -2] = targets[objects, 1:], 1
            if head.background is not None:
                answers[:, -1] = np.where(answers[:, -2] > 0, 1.0, _NO_OBJECT)
        return answers

    @property
    def metrics(self) -> list[str]:
        """The metrics of evaluation unless others are named."""
        return ["map50", "map"]

    def detections(self, raw: Sequence[Array], feed: Batch, most: int = 100) -> list[Array]:
        """Rows [detections, 6] of class, score, left, top, right, bottom in pixels, for each picture.

        Args:
            raw: what ``reads`` names, of a batch.
            feed: the inputs of that batch.
            most: detections of a picture.
        """
        arrays = dict(zip(self.names, raw, strict=True))
        size = self._size(feed)
        if self.probe is None:
            maps = _sigmoid(arrays["logits"])
            factors = [1, 1, *[size[1] / maps.shape[3], size[0] / maps.shape[2]] * 2]
            return [regions_of(p[0]) * factors for p in maps]
        head = self.head
        assert isinstance(head, DetectorHead)
        unit = self.probe.geometry(size).unit
        scale = np.array([size[1] / unit[0], size[0] / unit[1]] * 2)
        pictures = []
        for i, logits in enumerate(arrays["logits"].astype(np.float64)):
            p = _sigmoid(logits) if head.background is None else np.delete(_softmax(logits), head.background, axis=1)
            if "objectness" in arrays:
                p = p * _sigmoid(arrays["objectness"][i].astype(np.float64))
            corners = arrays["corners"][i].astype(np.float64) * scale
            pictures.append(detections_of(corners, p, 1.0 if head.family == "queries" else _OVERLAP, most=most))
        return pictures

    # The graph ---------------------------------------------------------------------------------------------------------

    def _loss(self, output: Variable, target: Variable) -> Variable:
        """The weighted sum of the family's terms"""
        op = Builder(output.block, key="detection")
        if isinstance(self.head, MapHead):
            self.names = {"logits": output.name}
            p, program = op.Sigmoid(output), output.block.program
            parts: Any = [target] if self.head.thresholds is None else op.Split(target, axis=1, num_outputs=3, outputs=3)
            shrunk = parts[0]
            total: Variable = op.Add(balanced_bce_loss(output, shrunk), dice_loss(p, shrunk))
            if self.head.thresholds is not None and self.head.binary is not None:
                apart = masked_l1_loss(program.find(self.head.thresholds.name), parts[1], parts[2])
                binary = dice_loss(program.find(self.head.binary.name), shrunk)
                total = op.Add(total, op.Add(op.Mul(apart, 2.0), binary))
            return total
        raw = self._raw(op, output.block.program)
        self.names = {"logits": raw.logits.name, "corners": raw.corners.name}
        if raw.objectness is not None:
            self.names["objectness"] = raw.objectness.name
        if self.head.family == "queries":
            self.names["boxes"] = raw.boxes.name
        c = self.head.classes
        parts = op.Split(target, [c, 4, 4, 1, 1], axis=-1, outputs=5)
        classes, boxes, distances = parts[:3]
        weight, counts = (op.Squeeze(v, [-1]) for v in parts[3:])
        form = {"default boxes": _matched_loss, "queries": _query_loss}.get(self.head.family, _aligned_loss)
        return form(op, self.head, raw, classes, boxes, distances, weight, counts)

    def _raw(self, op: Builder, program: Program) -> _Raw:
        assert isinstance(self.head, DetectorHead) and self.probe is not None
        head = self.head

        def joined(levels: Sequence[Channels]) -> Variable:
            rows = [_rows(op, program.find(c.tensor.name), c) for c in levels]
            whole: Variable = rows[0] if len(rows) == 1 else op.Concat(*rows, axis=1)
            return op.Cast(whole, to=dtype_of("float32").number) if whole.dtype.name != "float32" else op.Identity(whole)

        logits = joined(head.scores)
        objectness = joined(head.objectness) if head.objectness else None
        bins = None
        if head.bins:
            levels = [_bins(op, program.find(b.tensor.name), b.bins_axis, b.sides_axis, b.bins) for b in head.bins]
            bins = levels[0] if len(levels) == 1 else op.Concat(*levels, axis=1)
        geometry = self.probe.geometry()
        if head.boxes is not None:
            boxes = joined([head.boxes])
        elif bins is None:
            boxes = _decoded(op, head, geometry, joined(head.numbers))
        else:
            steps = np.arange(head.bins[0].bins, dtype=np.float32)[:, None]
            distances = op.Squeeze(op.MatMul(op.Softmax(bins, axis=-1), steps), [-1])
            signs, stride = np.array([-1, -1, 1, 1], np.float32), geometry.strides[:, None].astype(np.float32)
            boxes = op.Add(op.Mul(op.Mul(distances, signs), stride), geometry.defaults.astype(np.float32))
        corners = boxes
        if geometry.is_centred:
            middle, sides = op.Split(boxes, axis=-1, num_outputs=2, outputs=2)
            half = op.Mul(sides, 0.5)
            corners = op.Concat(op.Sub(middle, half), op.Add(middle, half), axis=-1)
        return _Raw(logits, objectness, boxes, op.Identity(corners), bins)


def _aligned_loss(
    op: Builder,
    head: DetectorHead,
    raw: _Raw,
    classes: Variable,
    boxes: Variable,
    distances: Variable,
    weight: Variable,
    counts: Variable,
) -> Variable:
    """Logistic loss of classes, CIoU, cross-entropy of distances; with anchors and cells an objectness"""
    divisor = divisor_of(weight)

    def over(each: Variable, factor: float) -> Variable:
        return op.Mul(op.Div(op.ReduceSum(each, keepdims=0), divisor), factor)

    if raw.objectness is None:
        total = over(bounded_logistic(op, raw.logits, classes), 0.5)
    else:
        total = over(bounded_logistic(op, op.Squeeze(raw.objectness, [-1]), counts), 1.0)
        share = op.Unsqueeze(weight, [-1])
        label = op.Div(classes, op.Max(share, 1e-6))
        total = op.Add(total, over(op.Mul(bounded_logistic(op, raw.logits, label), share), 0.5))
    total = op.Add(total, op.Mul(box_iou_loss(raw.corners, boxes, weight, "ciou", divisor), 7.5))
    if raw.bins is not None:
        total = op.Add(total, op.Mul(distribution_focal_loss(raw.bins, distances, weight, divisor), 1.5))
    return total


def _matched_loss(
    op: Builder,
    head: DetectorHead,
    raw: _Raw,
    classes: Variable,
    boxes: Variable,
    distances: Variable,
    weight: Variable,
    counts: Variable,
) -> Variable:
    """Cross-entropy, or the focal loss of classes without a background, and GIoU of boxes"""
    divisor = divisor_of(weight)
    if head.background is None:
        weighed = op.Sub(op.Mul(raw.logits, op.Unsqueeze(counts, [-1])), op.Mul(op.Unsqueeze(op.Sub(1.0, counts), [-1]), 30.0))
        total = focal_loss(weighed, classes, divisor=divisor)
    else:
        each = _cross_entropy(op, head, raw, classes, weight)
        total = op.Div(op.ReduceSum(op.Mul(each, counts), keepdims=0), divisor)
    return op.Add(total, op.Mul(box_iou_loss(raw.corners, boxes, weight, "giou", divisor), 2.0))


def _query_loss(
    op: Builder,
    head: DetectorHead,
    raw: _Raw,
    classes: Variable,
    boxes: Variable,
    distances: Variable,
    weight: Variable,
    counts: Variable,
) -> Variable:
    """Cross-entropy or varifocal loss of classes, L1 of centre and sides, GIoU"""
    divisor = divisor_of(weight)
    if head.background is None:
        total = varifocal_loss(raw.logits, classes, divisor=divisor)
    else:
        each = op.Mul(_cross_entropy(op, head, raw, classes, weight), counts)
        total = op.Div(op.ReduceSum(each, keepdims=0), op.ReduceSum(counts, keepdims=0))
    low, high = op.Split(boxes, axis=-1, num_outputs=2, outputs=2)
    wanted = op.Concat(op.Mul(op.Add(low, high), 0.5), op.Sub(high, low), axis=-1)
    apart = op.Mul(op.ReduceSum(op.Abs(op.Sub(raw.boxes, wanted)), [-1], keepdims=0), weight)
    total = op.Add(total, op.Mul(op.Div(op.ReduceSum(apart, keepdims=0), divisor), 5.0))
    return op.Add(total, op.Mul(box_iou_loss(raw.corners, boxes, weight, "giou", divisor), 2.0))


def _cross_entropy(op: Builder, head: DetectorHead, raw: _Raw, classes: Variable, weight: Variable) -> Variable:
    """-log p of the class of each anchor, which is the background where it answers for no object: [batch, anchors]"""
    none = op.Unsqueeze(op.Sub(1.0, weight), [-1])
    at = head.background
    assert at is not None
    if at == 0:
        wanted = op.Concat(none, classes, axis=-1)
    elif at == head.classes:
        wanted = op.Concat(classes, none, axis=-1)
    else:
        before, behind = op.Split(classes, [at, head.classes - at], axis=-1, outputs=2)
        wanted = op.Concat(before, none, behind, axis=-1)
    each: Variable = op.Neg(op.ReduceSum(op.Mul(op.LogSoftmax(raw.logits, axis=-1), wanted), [-1], keepdims=0))
    return each


def _decoded(op: Builder, head: DetectorHead, geometry: Geometry, numbers: Variable) -> Variable:
    """Centre and sides of the boxes that a file leaves to its readers to decode: [batch, anchors, 4]"""
    middles, sides = (v.astype(np.float32) for v in np.split(centre_form(geometry.defaults), 2, axis=1))
    cells = geometry.cells.astype(np.float32)
    moves, grows = op.Split(numbers, axis=-1, num_outputs=2, outputs=2)
    if head.family == "cells":
        move, grow = op.Sub(moves, 0.5), op.Exp(grows)
    elif head.sides == "exp":
        move, grow = op.Sub(op.Sigmoid(moves), 0.5), op.Exp(grows)
    else:
        double = op.Mul(op.Sigmoid(grows), 2.0)
        move, grow = op.Sub(op.Mul(op.Sigmoid(moves), 2.0), 1.0), op.Mul(double, double)
    boxes: Variable = op.Concat(op.Add(op.Mul(move, cells), middles), op.Mul(grow, sides), axis=-1)
    return boxes


def _anchored_objects(targets: Array, geometry: Geometry) -> Array:
    """The number of the object that each anchor answers for, or -1; of several the one that the anchor's box overlaps most"""
    sides = geometry.defaults[:, 2:] - geometry.defaults[:, :2]
    match = match_anchors(targets, sides, geometry.points, geometry.cells, neighbours=geometry.reaches)
    if not len(targets):
        return np.full(len(sides), -1)
    best = np.where(match, overlaps(geometry.defaults, targets[:, 1:]), -1.0).argmax(axis=1)
    objects: Array = np.where(match.any(axis=1), best, -1)
    return objects


def _rows(op: Builder, v: Variable, channels: Channels) -> Variable:
    """Some channels of a tensor as [batch, anchors, channels]"""
    if channels.groups > 1:
        assert v.dims is not None and isinstance(v.dims[1], int)
        v = op.Reshape(v, [0, channels.groups, v.dims[1] // channels.groups, -1])
        channels = channels._replace(axis=2, groups=1)
    rank, axis = v.rank, channels.axis
    assert rank is not None and v.dims is not None
    if rank == 2:
        v, rank, axis = op.Unsqueeze(v, [0]), 3, axis + 1
    width = channels.stop - channels.start
    if v.dims is None or v.dims[axis] != width:
        v = op.Slice(v, [channels.start], [channels.stop], [axis])
    if axis != rank - 1:
        v = op.Transpose(v, perm=[*(i for i in range(rank) if i != axis), axis])
    rows: Variable = v if rank == 3 else op.Reshape(v, [0, -1, width])
    return rows


def _bins(op: Builder, v: Variable, bins_axis: int, sides_axis: int, count: int) -> Variable:
    """Logits of bins as [batch, anchors, 4, bins]"""
    if bins_axis == sides_axis:
        v = op.Reshape(op.Slice(v, [0], [4 * count], [1]), [0, 4, count, -1])
        bins_axis, sides_axis = 2, 1
    rank = v.rank
    assert rank is not None
    others = [i for i in range(1, rank) if i not in (bins_axis, sides_axis)]
    moved = op.Transpose(v, perm=[0, *others, sides_axis, bins_axis])
    rows: Variable = moved if rank == 4 else op.Reshape(moved, [0, -1, 4, count])
    return op.Cast(rows, to=dtype_of("float32").number) if rows.dtype.name != "float32" else rows


def check_boxes(boxes: Array, classes: int, column: str) -> None:
    """Check that objects have classes of the model and boxes with an extent.

    Raises:
        DataError: naming the example.
    """
    objects = boxes[..., 0] >= 0
    wrong = np.argwhere(objects & (boxes[..., 0] >= classes))
    if len(wrong):
        example, row = wrong[0]
        raise DataError(
            f"column {column!r} holds an object of class {int(boxes[example, row, 0])} (example {example} of the batch); the model "
            f"has classes 0 to {classes - 1}. Give it new ones (set_classes, --classes), or number them from 0."
        )
    flat = np.argwhere(objects & ((boxes[..., 3] <= boxes[..., 1]) | (boxes[..., 4] <= boxes[..., 2])))
    if len(flat):
        example, row = flat[0]
        values = ", ".join(f"{v:g}" for v in boxes[example, row, 1:])
        raise DataError(
            f"column {column!r} holds a box without extent, {values} (example {example} of the batch). Boxes are left, top, right, "
            "bottom in pixels; leave it out."
        )


def _counted(logits: Array, background: int, objects: Array) -> Array:
    """1 for priors with an object and for those without one that are hardest, three for each with one (Liu et al. 2016)"""
    shifted = logits - logits.max(axis=1, keepdims=True)
    loss = np.log(np.exp(shifted).sum(axis=1)) - shifted[:, background]
    counts = (objects >= 0).astype(np.float64)
    negative = np.flatnonzero(objects == -1)
    count = int(_NEGATIVES * max(counts.sum(), 1))
    counts[negative[np.argsort(-loss[negative], kind="stable")[:count]]] = 1
    return counts


def _background_last(logits: Array, background: int) -> Array:
    return np.concatenate([np.delete(logits, background, axis=1), logits[:, background : background + 1]], axis=1)


def _sigmoid(x: Array) -> Array:
    p: Array = 1 / (1 + np.exp(-np.clip(x, -80, 80)))
    return p


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p: Array = e / e.sum(axis=-1, keepdims=True)
    return p


# Maps of text ----------------------------------------------------------------------------------------------------------


def shrunk_regions(boxes: Array, size: tuple[int, int]) -> Array:
    """Draw a map of regions that are shrunk so that neighbours do not touch: by area (1 - 0.4^2) / perimeter on each side.

    Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", 2020.

    Args:
        boxes: [batch, regions, 5], class, left, top, right, bottom in pixels; a class below 0 fills up.
        size: height and width of the map.

    Returns:
        float32 [batch, 1, height, width], 1 in the regions.

    Example:
        >>> shrunk_regions(np.array([[[0, 1, 1, 9, 7]]]), (8, 10))[0, 0].sum(axis=1).tolist()
        [0.0, 0.0, 6.0, 6.0, 6.0, 6.0, 0.0, 0.0]
    """
    maps = np.zeros((len(boxes), 1, *size), np.float32)
    for i, rows in enumerate(boxes):
        for kind, left, top, right, bottom in rows:
            width, height = right - left, bottom - top
            if kind < 0 or width <= 0 or height <= 0:
                continue
            inward = width * height * (1 - _SHRINK**2) / (2 * (width + height))
            x = (int(np.ceil(left + inward - 0.5)), int(np.ceil(right - inward - 0.5)))
            y = (int(np.ceil(top + inward - 0.5)), int(np.ceil(bottom - inward - 0.5)))
            maps[i, 0, max(y[0], 0) : max(y[1], y[0] + 1), max(x[0], 0) : max(x[1], x[0] + 1)] = 1
    return maps


def region_borders(boxes: Array, size: tuple[int, int]) -> Array:
    """Draw what the thresholds of pixels are to be, and where they count: in regions and around them, as far as these were shrunk.

    Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", 2020: 0.7 on the border of a region, 0.3 where
    it is as far as the region was shrunk, or farther.

    Args:
        boxes: [batch, regions, 5], class, left, top, right, bottom in pixels; a class below 0 fills up.
        size: height and width of the maps.

    Returns:
        float32 [batch, 2, height, width]: thresholds, and 1 where they count.

    Example:
        >>> region_borders(np.array([[[0, 2, 2, 8, 6]]]), (8, 10))[0, :, 4].astype(float).round(2)[:, :4].tolist()
        [[0.3, 0.5, 0.5, 0.3], [0.0, 1.0, 1.0, 1.0]]
    """
    maps = np.zeros((len(boxes), 2, *size), np.float32)
    maps[:, 0] = _LOW
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    for own, rows in zip(maps, boxes, strict=True):
        for kind, left, top, right, bottom in rows:
            width, height = right - left, bottom - top
            if kind < 0 or width <= 0 or height <= 0:
                continue
            reach = width * height * (1 - _SHRINK**2) / (2 * (width + height))
            across, along = np.maximum(left - x, x - right), np.maximum(top - y, y - bottom)
            outside = np.hypot(np.maximum(across, 0), np.maximum(along, 0))
            far = np.where(outside > 0, outside, -np.maximum(across, along))
            own[0] = np.maximum(own[0], np.where(outside <= reach, _LOW + (_HIGH - _LOW) * (1 - np.minimum(far / reach, 1)), 0))
            own[1][outside <= reach] = 1
    return maps


def regions_of(probabilities: Array, threshold: float = 0.3, least: int = 4) -> Array:
    """Find the regions of a map of shrunk ones, and grow them again.

    Args:
        probabilities: [height, width].
        threshold: above which a pixel belongs to a region.
        least: pixels of a region.

    Returns:
        float64 [regions, 6]: class 0, the mean probability, left, top, right, bottom.
    """
    try:
        from scipy.ndimage import label
    except ImportError as error:
        raise OnnxGradError("regions of a map need the package scipy. Install onnxgrad[detection].") from error
    labels, count = label(probabilities > threshold)
    rows = []
    for number in range(1, count + 1):
        y, x = np.nonzero(labels == number)
        if len(y) < least:
            continue
        left, right, top, bottom = x.min(), x.max() + 1.0, y.min(), y.max() + 1.0
        width, height = right - left, bottom - top
        outward = _outward(width, height)
        score = float(probabilities[y, x].mean())
        rows.append((0.0, score, left - outward, top - outward, right + outward, bottom + outward))
    return np.array(rows, np.float64).reshape(-1, 6)


def _outward(width: float, height: float) -> float:
    """How far a side lay before it was shrunk: d with d = (w + 2d)(h + 2d)(1 - 0.4^2) / (2 (w + h + 4d))"""
    d, k = 0.0, 1 - _SHRINK**2
    for _ in range(40):
        d = (width + 2 * d) * (height + 2 * d) * k / (2 * (width + height + 4 * d))
    return float(d)
