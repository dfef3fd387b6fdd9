"""Losses of detectors and of masks, as formulas in the graph.

Each is a sum over elements and a weight that the sum is divided by, both of which add up over the parts of a batch, so that
micro-batches and ranks give the loss of the whole batch. Terms that share one ``divisor`` take one backward pass where gradients
are accumulated. What needs the whole picture, such as which anchor answers for which object, is computed on the host and fed as
columns (``onnxgrad.training.detection.assignment``).
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np

from onnxgrad.core.ir.builder import Builder
from onnxgrad.core.ir.variable import Variable
from onnxgrad.dtypes import dtype_of
from onnxgrad.errors import ArgumentError
from onnxgrad.internal.losses import bounded_logistic, focal, overlap

__all__ = [
    "BoxForm", "balanced_bce_loss", "boundary_loss", "box_iou_loss", "dice_loss", "distribution_focal_loss", "divisor_of",
    "focal_loss", "masked_l1_loss", "signed_distances", "varifocal_loss",
]  # fmt: skip

Array = np.ndarray[Any, Any]
BoxForm: TypeAlias = Literal["iou", "giou", "diou", "ciou"]
"""Ways to compare boxes."""

_EPSILON = 1e-7


def divisor_of(weights: Variable) -> Variable:
    """Sum weights over each example, take those that are below 1 for 1, and sum over the examples.

    A picture without an object has a loss, too: what is predicted where nothing is. So it counts as one.

    Args:
        weights: [batch, ...] of floating point, such as the targets of classes.

    Returns:
        A scalar of at least the number of examples.

    Example:
        >>> divisor_of(static.data("targets", [None, 8400, 80])).shape
        ()
    """
    op = Builder(weights.block, key="divisor")
    weights = _wide(op, weights)
    each = op.ReduceSum(weights, _behind_batch(weights, "divisor_of"), keepdims=0) if weights.rank != 1 else weights
    total: Variable = op.ReduceSum(op.Max(each, 1.0), keepdims=0)
    return total


def focal_loss(
    logits: Variable, targets: Variable, alpha: float = 0.25, gamma: float = 2.0, divisor: Variable | None = None
) -> Variable:
    """Compute the logistic loss with less weight for what is right already, over the number of positive targets.

    Lin et al., "Focal Loss for Dense Object Detection", 2017.

    Args:
        logits: [batch, ...]; the sigmoid is applied here.
        targets: 0 or 1 for each.
        alpha: weight of positive targets, 1 - alpha of negative ones; 0 for none.
        gamma: the power by which sure elements lose weight.
        divisor: a scalar; None for ``divisor_of(targets)``.

    Example:
        >>> focal_loss(static.data("x", [None, 100, 3]), static.data("t", [None, 100, 3])).shape
        ()
    """
    op = Builder(logits.block, key="focal_loss")
    logits, targets = _wide(op, logits), _wide(op, targets)
    each = focal(op, bounded_logistic(op, logits, targets), logits, targets, alpha, gamma)
    return _quotient(op, each, divisor_of(targets) if divisor is None else divisor)


def varifocal_loss(
    logits: Variable, scores: Variable, alpha: float = 0.75, gamma: float = 2.0, divisor: Variable | None = None
) -> Variable:
    """Compute the logistic loss weighed by the score where it is above 0, and by alpha p^gamma where it is 0.

    Zhang et al., "VarifocalNet", 2021.

    Args:
        logits: [batch, ...]; p is their sigmoid.
        scores: targets from 0 to 1 of that shape: how well the box fits that an anchor gives for the class.
        alpha: weight of what has the score 0.
        gamma: the power by which what is surely nothing loses weight.
        divisor: a scalar; None for ``divisor_of(scores)``.

    Example:
        >>> varifocal_loss(static.data("x", [None, 100, 3]), static.data("q", [None, 100, 3])).shape
        ()
    """
    op = Builder(logits.block, key="varifocal_loss")
    logits, scores = _wide(op, logits), _wide(op, scores)
    # p^gamma by the logarithm of p, which is exact for small p and has a gradient at p = 0
    background = op.Mul(op.Exp(op.Mul(op.Softplus(op.Neg(logits)), -float(gamma))), float(alpha))
    weight = op.Where(op.Greater(scores, 0.0), scores, background)
    each = op.Mul(bounded_logistic(op, logits, scores), weight)
    return _quotient(op, each, divisor_of(scores) if divisor is None else divisor)


def box_iou_loss(
    boxes: Variable,
    targets: Variable,
    weights: Variable | None = None,
    form: BoxForm = "ciou",
    divisor: Variable | None = None,
) -> Variable:
    """Compute 1 - overlap of boxes with their targets, as a weighted mean.

    ``iou`` is the intersection over the union. ``giou`` takes away the share of the box around both that neither covers
    (Rezatofighi et al. 2019), ``diou`` the squared distance of the centres over the squared diagonal of that box, ``ciou`` also
    the difference of the angles of the diagonals (Zheng et al. 2020); its factor counts as a constant in the gradient. A side
    that is negative counts as 0; where boxes touch, are equal or have no area, the gradient is finite.

    Args:
        boxes: [..., 4], as left, top, right, bottom in any unit.
        targets: of that shape.
        weights: [...], 0 for boxes that do not count; None for 1 each.
        form: ``"iou"``, ``"giou"``, ``"diou"`` or ``"ciou"``.
        divisor: a scalar; None for the sum of the weights.

    Raises:
        ArgumentError: for another form, or if the last axis is known and is not 4.

    Example:
        >>> box_iou_loss(static.data("x", [None, 100, 4]), static.data("t", [None, 100, 4]), form="giou").shape
        ()
    """
    if form not in ("iou", "giou", "diou", "ciou"):
        raise ArgumentError(f"box_iou_loss: form is 'iou', 'giou', 'diou' or 'ciou', not {form!r}.")
    for name, v in (("boxes", boxes), ("targets", targets)):
        if v.dims is not None and (not v.dims or (v.dims[-1] not in (4, None) and isinstance(v.dims[-1], int))):
            raise ArgumentError(f"box_iou_loss: {name} are [..., 4], left, top, right, bottom; not {v!r}. Reshape them.")
    op = Builder(boxes.block, key="box_iou_loss")
    each = op.Sub(1.0, _box_overlap(op, _wide(op, boxes), _wide(op, targets), form))
    return _weighted(op, each, weights, divisor)


def _box_overlap(op: Builder, boxes: Variable, targets: Variable, form: str) -> Variable:
    """The overlap of each pair of boxes [..., 4], as [...]"""
    x1, y1, x2, y2 = (op.Squeeze(v, [-1]) for v in op.Split(boxes, axis=-1, num_outputs=4, outputs=4))
    u1, v1, u2, v2 = (op.Squeeze(v, [-1]) for v in op.Split(targets, axis=-1, num_outputs=4, outputs=4))
    width, height = op.Max(op.Sub(x2, x1), 0.0), op.Max(op.Sub(y2, y1), 0.0)
    wide, high = op.Max(op.Sub(u2, u1), 0.0), op.Max(op.Sub(v2, v1), 0.0)
    across = op.Max(op.Sub(op.Min(x2, u2), op.Max(x1, u1)), 0.0)
    down = op.Max(op.Sub(op.Min(y2, v2), op.Max(y1, v1)), 0.0)
    common = op.Mul(across, down)
    union = op.Sub(op.Add(op.Mul(width, height), op.Mul(wide, high)), common)
    iou: Variable = op.Div(common, op.Add(union, _EPSILON))
    if form == "iou":
        return iou
    around_x, around_y = op.Sub(op.Max(x2, u2), op.Min(x1, u1)), op.Sub(op.Max(y2, v2), op.Min(y1, v1))
    if form == "giou":
        around = op.Mul(around_x, around_y)
        giou: Variable = op.Sub(iou, op.Div(op.Sub(around, union), op.Add(around, _EPSILON)))
        return giou
    diagonal = op.Add(op.Add(op.Mul(around_x, around_x), op.Mul(around_y, around_y)), _EPSILON)
    aside = op.Mul(op.Sub(op.Add(x1, x2), op.Add(u1, u2)), 0.5)
    below = op.Mul(op.Sub(op.Add(y1, y2), op.Add(v1, v2)), 0.5)
    diou: Variable = op.Sub(iou, op.Div(op.Add(op.Mul(aside, aside), op.Mul(below, below)), diagonal))
    if form == "diou":
        return diou
    turned = op.Sub(_angle(op, wide, high), _angle(op, width, height))
    shape = op.Mul(op.Mul(turned, turned), 4 / math.pi**2)
    factor = op.Div(shape, op.Add(op.Add(op.Sub(1.0, iou), shape), _EPSILON))
    factor.stop_gradient = True
    ciou: Variable = op.Sub(diou, op.Mul(factor, shape))
    return ciou


def _angle(op: Builder, width: Variable, height: Variable) -> Any:
    """atan(width / height), 0 where both are 0; the smaller side over the larger one, so that nothing is divided by 0.

    Where chooses the sides: Min and Max would share the gradients of equal sides among both, which is none at all for a square.
    """
    is_wide = op.Greater(width, height)
    smaller, larger = op.Where(is_wide, height, width), op.Where(is_wide, width, height)
    angle = op.Atan(op.Div(smaller, op.Max(larger, _EPSILON)))
    return op.Where(is_wide, op.Sub(math.pi / 2, angle), angle)


def distribution_focal_loss(
    logits: Variable, targets: Variable, weights: Variable | None = None, divisor: Variable | None = None
) -> Variable:
    """Compute the cross-entropy of distances with the two bins around each, as a weighted mean over boxes.

    Li et al., "Generalized Focal Loss", 2020: the target y between the bins l and l + 1 has the share l + 1 - y of l and y - l of
    l + 1.

    Args:
        logits: [..., sides, bins], over the distances 0, 1, ..., bins - 1; softmax is applied here.
        targets: [..., sides], distances in that unit; what lies beyond the first or last bin counts as that.
        weights: [...], one for each box, whose loss is the mean over its sides; None for 1 each.
        divisor: a scalar; None for the sum of the weights.

    Raises:
        ArgumentError: if the number of bins is not known, or is below 2.

    Example:
        >>> distribution_focal_loss(static.data("x", [None, 100, 4, 16]), static.data("t", [None, 100, 4])).shape
        ()
    """
    bins = logits.dims[-1] if logits.dims else None
    if not isinstance(bins, int) or bins < 2:
        raise ArgumentError(f"distribution_focal_loss needs the number of bins, 2 or more, as the last axis; not {logits!r}.")
    op = Builder(logits.block, key="distribution_focal_loss")
    log_p = op.LogSoftmax(_wide(op, logits), axis=-1)
    y = op.Clip(_wide(op, targets), 0.0, float(bins - 1))
    left = op.Min(op.Floor(y), float(bins - 2))
    at = op.Unsqueeze(op.Cast(left, to=dtype_of("int64").number), [-1])
    log_left = op.Squeeze(op.GatherElements(log_p, at, axis=-1), [-1])
    log_right = op.Squeeze(op.GatherElements(log_p, op.Add(at, 1), axis=-1), [-1])
    share = op.Sub(y, left)
    each = op.Neg(op.Add(op.Mul(op.Sub(1.0, share), log_left), op.Mul(share, log_right)))
    return _weighted(op, op.ReduceMean(each, [-1], keepdims=0), weights, divisor)


def dice_loss(probabilities: Variable, targets: Variable, mask: Variable | None = None, epsilon: float = 1e-5) -> Variable:
    """Compute 1 - 2 sum(p t) / (sum(p) + sum(t)) over the pixels of each class of each example, and its mean.

    Milletari et al., "V-Net", 2016. A class that is not there and was not predicted has the loss 0. ``nn.functional.dice_loss``
    takes class numbers, and sums over the classes as well.

    Args:
        probabilities: [batch, classes, ...].
        targets: of that shape, 0 or 1, or shares.
        mask: 1 for pixels that count and 0 for others, of a shape that broadcasts to that; None for all.
        epsilon: added to dividend and divisor.

    Raises:
        ArgumentError: if the rank is not known, or is below 3.

    Example:
        >>> dice_loss(static.data("p", [None, 1, 64, 64]), static.data("t", [None, 1, 64, 64])).shape
        ()
    """
    if probabilities.rank is None or probabilities.rank < 3:
        raise ArgumentError(f"dice_loss needs probabilities of shape [batch, classes, ...], not {probabilities!r}. Reshape them.")
    op = Builder(probabilities.block, key="dice_loss")
    p, t = _wide(op, probabilities), _wide(op, targets)
    if mask is not None:
        mask = op.Cast(mask, to=p.dtype.number) if mask.dtype != p.dtype else mask
        p, t = op.Mul(p, mask), op.Mul(t, mask)
    score = overlap(op, p, t, list(range(2, probabilities.rank)), epsilon, of_nothing=1.0)
    loss: Variable = op.ReduceMean(op.Sub(1.0, score), keepdims=0)
    return loss


def boundary_loss(probabilities: Variable, distances: Variable) -> Variable:
    """Compute the mean of probability times signed distance from the boundary of the target.

    Kervadec et al., "Boundary loss for highly unbalanced segmentation", 2019; it is added to a loss of regions, such as dice.

    Args:
        probabilities: [batch, classes, ...].
        distances: of that shape, from ``signed_distances``.

    Example:
        >>> boundary_loss(static.data("p", [None, 2, 64, 64]), static.data("d", [None, 2, 64, 64])).shape
        ()
    """
    op = Builder(probabilities.block, key="boundary_loss")
    loss: Variable = op.ReduceMean(op.Mul(_wide(op, probabilities), _wide(op, distances)), keepdims=0)
    return loss


def signed_distances(labels: Array, classes: int) -> Array:
    """Compute the distance of each pixel from the boundary of each class: positive outside, in pixels, and 0 or negative inside.

    Args:
        labels: integer classes [batch, height, width]; -100 belongs to none.
        classes: how many there are.

    Returns:
        float32 [batch, classes, height, width]. Inside it is 1 - the distance from the next pixel outside. A class that an example
        lacks, or that fills it, has 0 everywhere: it has no boundary.

    Raises:
        ArgumentError: if the labels have not three axes.

    Example:
        >>> signed_distances(np.array([[[0, 1, 1, 1, 0, 0]]]), 2)[0, 1]
        array([[ 1.,  0., -1.,  0.,  1.,  2.]], dtype=float32)
    """
    labels = np.asarray(labels)
    if labels.ndim != 3:
        raise ArgumentError(f"signed_distances takes classes of shape [batch, height, width], not {list(labels.shape)}.")
    maps = np.zeros((len(labels), classes, *labels.shape[1:]), np.float32)
    for i, picture in enumerate(labels):
        for k in range(classes):
            inside = picture == k
            if inside.any() and not inside.all():
                maps[i, k] = np.where(inside, 1 - _distances(~inside), _distances(inside))
    return maps


def _distances(mask: Array) -> Array:
    """Euclidean distance of each pixel from the nearest one of a mask that is not empty; by scipy, which is faster, where it is

    Else along columns, then along rows.
    """
    try:
        from scipy.ndimage import distance_transform_edt
    except ImportError:
        return _distances_by_rows(mask)
    return np.asarray(distance_transform_edt(~mask))


def _distances_by_rows(mask: Array) -> Array:
    height, width = mask.shape
    rows = np.arange(height, dtype=np.float64)[:, None]
    above = np.maximum.accumulate(np.where(mask, rows, -np.inf), axis=0)
    below = np.minimum.accumulate(np.where(mask, rows, np.inf)[::-1], axis=0)[::-1]
    square = np.minimum(rows - above, below - rows) ** 2
    columns = np.arange(width, dtype=np.float64)
    apart = (columns[:, None] - columns) ** 2
    nearest: Array = np.sqrt(np.stack([(row + apart).min(axis=1) for row in square]))
    return nearest


def balanced_bce_loss(logits: Variable, targets: Variable, mask: Variable | None = None, negative_ratio: float = 3.0) -> Variable:
    """Compute the logistic loss of all positive pixels of a picture and of the negative ones with the largest loss.

    Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", 2020, who choose the negative pixels from the
    whole batch; here each picture has its own, so that its loss does not depend on the others.

    Args:
        logits: [batch, ...] of a map; the sigmoid is applied here.
        targets: 0 or 1 for each.
        mask: 1 for pixels that count and 0 for others, of that shape; None for all.
        negative_ratio: how many negative pixels count for each positive one; a picture without any counts as one with one.

    Returns:
        A scalar, the mean over the pixels that were chosen.

    Raises:
        ArgumentError: if the rank is not known, or is below 2.

    Example:
        >>> balanced_bce_loss(static.data("x", [None, 1, 64, 64]), static.data("t", [None, 1, 64, 64])).shape
        ()
    """
    op = Builder(logits.block, key="balanced_bce_loss")
    _behind_batch(logits, "balanced_bce_loss")
    x, t = (op.Flatten(_wide(op, v), axis=1) for v in (logits, targets))
    each = bounded_logistic(op, x, t)
    counts = op.Cast(op.Greater(t, 0.5), to=each.dtype.number)
    negative = op.Sub(1.0, counts)
    if mask is not None:
        kept = op.Flatten(_wide(op, mask), axis=1)
        counts, negative = op.Mul(counts, kept), op.Mul(negative, kept)
    positives = op.ReduceSum(counts, [1], keepdims=1)
    wanted = op.Floor(op.Mul(op.Max(positives, 1.0), float(negative_ratio)))
    chosen = op.Min(wanted, op.ReduceSum(negative, [1], keepdims=1))
    size = op.Shape(each, start=1, end=2)
    hardest, _ = op.TopK(op.Mul(each, negative), size, axis=1, outputs=2)
    place = op.Cast(
        op.Range(op.constant(0, dtype_of("int64")), op.Squeeze(size, [0]), op.constant(1, dtype_of("int64"))), to=each.dtype.number
    )
    hard = op.Mul(hardest, op.Cast(op.Less(op.Unsqueeze(place, [0]), chosen), to=each.dtype.number))
    total = op.ReduceSum(op.Add(op.Mul(each, counts), hard), keepdims=0)
    return _over(op, total, op.ReduceSum(op.Add(positives, chosen), keepdims=0))


def masked_l1_loss(values: Variable, targets: Variable, mask: Variable) -> Variable:
    """Compute the mean distance of values from their targets where a mask is 1, and 0 where it is 1 nowhere.

    Args:
        values: [batch, ...].
        targets: of that shape.
        mask: 1 for elements that count and 0 for others, of that shape.

    Example:
        >>> maps = [static.data(name, [None, 1, 64, 64]) for name in ("t", "wanted", "border")]
        >>> masked_l1_loss(*maps).shape
        ()
    """
    op = Builder(values.block, key="masked_l1_loss")
    return _weighted(op, op.Abs(op.Sub(_wide(op, values), _wide(op, targets))), _wide(op, mask), None)


def _wide(op: Builder, v: Variable) -> Any:
    """The variable in float32 where its type is narrower: an area of a picture is beyond what 16 bits hold"""
    return op.Cast(v, to=dtype_of("float32").number) if v.dtype.name in ("float16", "bfloat16") or not v.is_float else v


def _behind_batch(v: Variable, name: str) -> list[int]:
    """All axes but the first"""
    if v.rank is None or v.rank < 2:
        raise ArgumentError(f"{name} needs a tensor of shape [batch, ...] whose rank is known, not {v!r}. Reshape it.")
    return list(range(1, v.rank))


def _weighted(op: Builder, each: Variable, weights: Variable | None, divisor: Variable | None) -> Variable:
    """sum(weights each) / divisor, or / sum(weights)"""
    if weights is None and divisor is None:
        mean: Variable = op.ReduceMean(each, keepdims=0)
        return mean
    if weights is not None:
        weights = weights if weights.dtype == each.dtype else op.Cast(weights, to=each.dtype.number)
        each = op.Mul(each, weights)
        divisor = op.ReduceSum(weights, keepdims=0) if divisor is None else divisor
    assert divisor is not None
    return _quotient(op, each, divisor)


def _quotient(op: Builder, each: Variable, divisor: Variable) -> Variable:
    divisor = divisor if divisor.dtype == each.dtype else op.Cast(divisor, to=each.dtype.number)
    return _over(op, op.ReduceSum(each, keepdims=0), divisor)


def _over(op: Builder, total: Variable, divisor: Variable) -> Variable:
    """A sum over its weight, and 0 where nothing counts"""
    loss: Variable = op.Div(total, op.Where(op.Equal(divisor, 0.0), op.constant(1.0, divisor.dtype), divisor))
    return loss
