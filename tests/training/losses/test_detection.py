"""Losses of detectors and masks: against torchvision's values, numpy formulas and finite differences in float64."""

import json
import math
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

import onnxgrad as og
from onnxgrad import static
from onnxgrad.core.interop.onnx_export import to_onnx
from onnxgrad.core.ir.builder import Builder
from onnxgrad.distributed import run_local
from onnxgrad.distributed.environment import using
from onnxgrad.errors import ArgumentError, DataError
from onnxgrad.testing import evaluate
from onnxgrad.training import Term, Trainer
from onnxgrad.training.losses.detection import (
    balanced_bce_loss,
    boundary_loss,
    box_iou_loss,
    dice_loss,
    distribution_focal_loss,
    divisor_of,
    focal_loss,
    masked_l1_loss,
    signed_distances,
    varifocal_loss,
)

BUILDING = threading.Lock()
RNG = np.random.default_rng(7)
RECORDED = json.loads((Path(__file__).parents[2] / "data" / "detection.json").read_text())


def computed(loss, columns, *, of="x", dims=None, engine=None):
    """Value of a loss, and its gradient by one column; the other axes than the last are free"""
    program = og.static.Program()
    with og.static.program_guard(program, og.static.Program()):
        variables = {}
        for name, array in columns.items():
            shape = dims[name] if dims and name in dims else [*[None] * (array.ndim - 1), *array.shape[-1:]]
            variables[name] = static.data(name, shape, str(array.dtype))
        variables[of].stop_gradient = False
        value = loss(**variables)
        (gradient,) = og.gradients([value], [variables[of]])
    program.is_oracle = engine is None
    if engine is not None:
        return og.static.Executor(og.static.CPUPlace()).run(program, columns, [value, gradient])
    return evaluate(to_onnx(program, [value, gradient]), columns)


def differences(formula, x, step=1e-5):
    gradient = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[i] = step
        gradient[i] = (formula(x + moved) - formula(x - moved)) / (2 * step)
    return gradient


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def logistic(x, t):
    return np.logaddexp(0, x) - x * t


# Boxes ---------------------------------------------------------------------------------------------------------------

BOXES, TARGETS = (np.array(RECORDED["boxes"][name]) for name in ("boxes", "targets"))


@pytest.mark.parametrize("form", ["giou", "diou", "ciou"])
def test_box_losses_and_their_gradients_are_torchvisions(form):
    """The last two pairs lie apart, the first of them a square, and one within the other"""
    recorded = RECORDED["boxes"][form]
    for i, (value, gradient) in enumerate(zip(recorded["values"], recorded["gradients"], strict=True)):
        columns = {"x": BOXES[i : i + 1], "t": TARGETS[i : i + 1]}
        loss, found = computed(lambda x, t: box_iou_loss(x, t, form=form), columns)
        assert loss == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(found[0], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", ["iou", "giou", "diou"])
def test_gradients_of_boxes_match_differences(form):
    weights = RNG.uniform(0, 2, len(BOXES))
    columns = {"x": BOXES, "t": TARGETS, "w": weights}

    def loss(x, t, w):
        return box_iou_loss(x, t, w, form)

    value, gradient = computed(loss, columns)
    each = [
        computed(lambda x, t: box_iou_loss(x, t, form=form), {"x": BOXES[i : i + 1], "t": TARGETS[i : i + 1]})[0] for i in range(14)
    ]
    assert value == pytest.approx(np.average(each, weights=weights), rel=1e-12)
    expected = differences(lambda x: float(computed(loss, {**columns, "x": x})[0]), BOXES)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=2e-9)


SPECIAL = {
    "equal": ([1, 1, 4, 5], [1, 1, 4, 5]),
    "beside": ([0, 0, 2, 2], [2, 0, 4, 2]),
    "corner to corner": ([0, 0, 2, 2], [2, 2, 4, 4]),
    "a point within": ([3, 3, 3, 3], [1, 1, 5, 5]),
    "a line within": ([3, 2, 3, 4], [1, 1, 5, 5]),
    "a target without area": ([1, 1, 5, 5], [2, 2, 2, 2]),
    "two points": ([2, 2, 2, 2], [2, 2, 2, 2]),
    "two points apart": ([2, 2, 2, 2], [7, 2, 7, 2]),
    "all zeros": ([0, 0, 0, 0], [0, 0, 0, 0]),
    "sides below zero": ([4, 4, 1, 2], [1, 1, 5, 5]),
    "a target with sides below zero": ([1, 1, 5, 5], [4, 4, 1, 2]),
    "far away": ([0, 0, 1, 1], [1e6, 1e6, 1e6 + 1, 1e6 + 2]),
    "tiny": ([0, 0, 1e-20, 1e-20], [0, 0, 1, 1]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["iou", "giou", "diou", "ciou"])
@pytest.mark.parametrize("case", SPECIAL)
def test_boxes_that_touch_are_equal_or_have_no_area_have_finite_gradients(case, form, dtype):
    box, target = (np.array([v], dtype) for v in SPECIAL[case])
    value, gradient = computed(lambda x, t: box_iou_loss(x, t, form=form), {"x": box, "t": target}, engine=True)
    assert np.isfinite(value) and np.isfinite(gradient).all()
    assert -1e-6 <= value <= 2.5
    if case == "equal":
        assert value == pytest.approx(0, abs=1e-6)


def test_giou_and_diou_pull_together_what_lies_apart_and_iou_does_not():
    columns = {"x": np.array([[0.0, 0, 1, 1]]), "t": np.array([[5.0, 0, 6, 1]])}
    for form, moves in {"iou": False, "giou": True, "diou": True, "ciou": True}.items():
        _, gradient = computed(lambda x, t, form=form: box_iou_loss(x, t, form=form), columns)
        assert (gradient[0, 2] < 0) == moves


def test_boxes_in_half_precision_are_compared_in_float32():
    """The area of this box is beyond what float16 holds"""
    columns = {"x": np.array([[0, 0, 600, 600]], np.float16), "t": np.array([[0, 0, 600, 300]], np.float16)}
    value, gradient = computed(lambda x, t: box_iou_loss(x, t, form="iou"), columns, engine=True)
    assert value == pytest.approx(0.5) and gradient.dtype == np.float16 and np.isfinite(gradient).all()


def test_a_form_or_a_shape_that_is_none_is_refused():
    x, t = static.data("x", [None, 4]), static.data("t", [None, 4])
    with pytest.raises(ArgumentError, match="'siou'"):
        box_iou_loss(x, t, form="siou")
    with pytest.raises(ArgumentError, match="targets are"):
        box_iou_loss(x, static.data("five", [None, 5]))


# Classes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", RECORDED["focal"]["cases"], ids=lambda case: f"{case['alpha']}, {case['gamma']}")
def test_focal_loss_and_its_gradient_are_torchvisions(case):
    logits, targets = np.array(RECORDED["focal"]["logits"]), np.array(RECORDED["focal"]["targets"])
    divisor = np.maximum(targets.sum(axis=1), 1).sum()
    value, gradient = computed(lambda x, t: focal_loss(x, t, case["alpha"], case["gamma"]), {"x": logits, "t": targets})
    assert value == pytest.approx(np.sum(case["values"]) / divisor, rel=1e-12)
    np.testing.assert_allclose(gradient, np.array(case["gradients"]) / divisor, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_sure_logits_have_finite_gradients(gamma):
    x = np.array([[-200.0, 200, -200, 200, 0]], np.float32)
    t = np.array([[0.0, 1, 1, 0, 1]], np.float32)
    for loss in (lambda x, t: focal_loss(x, t, 0.25, gamma), lambda x, t: varifocal_loss(x, t, 0.75, gamma)):
        value, gradient = computed(loss, {"x": x, "t": t}, engine=True)
        assert np.isfinite(value) and np.isfinite(gradient).all()


def test_varifocal_loss_is_its_formula_and_its_gradient_matches_differences():
    x = RNG.normal(0, 2, (3, 6, 2))
    q = np.where(RNG.uniform(size=x.shape) < 0.3, RNG.uniform(0, 1, x.shape), 0.0)
    q[2] = 0  # a picture of nothing counts as one

    def formula(x):
        weight = np.where(q > 0, q, 0.6 * sigmoid(x) ** 1.5)
        return (weight * logistic(x, q)).sum() / np.maximum(q.sum(axis=(1, 2)), 1).sum()

    value, gradient = computed(lambda x, t: varifocal_loss(x, t, 0.6, 1.5), {"x": x, "t": q})
    assert value == pytest.approx(formula(x), rel=1e-12)
    np.testing.assert_allclose(gradient, differences(formula, x), rtol=1e-5, atol=1e-9)


def test_divisor_counts_a_picture_without_objects_as_one():
    scores = np.array([[[0.5, 2.0]], [[0.0, 0.0]], [[0.0, 0.25]]])
    value, _ = computed(lambda x: divisor_of(x), {"x": scores})
    assert value == 2.5 + 1 + 1


# Distances -----------------------------------------------------------------------------------------------------------


def test_distribution_focal_loss_is_its_formula_and_its_gradient_matches_differences():
    x, weights = RNG.normal(0, 2, (2, 3, 4, 6)), RNG.uniform(0, 1, (2, 3))
    y = RNG.uniform(0, 5, (2, 3, 4))
    y[0, 0] = [0, 5, 2, 7.5]  # on bins, on the last one, beyond it
    y[0, 1, 0] = -1

    def formula(x):
        log = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
        inside = np.clip(y, 0, 5)
        total = 0
        for i in np.ndindex(y.shape):
            left = min(math.floor(inside[i]), 4)
            share = inside[i] - left
            total -= weights[i[:2]] / 4 * ((1 - share) * log[i][left] + share * log[i][left + 1])
        return total / weights.sum()

    value, gradient = computed(distribution_loss, {"x": x, "t": y, "w": weights})
    assert value == pytest.approx(formula(x), rel=1e-12)
    np.testing.assert_allclose(gradient, differences(formula, x), rtol=1e-5, atol=1e-9)


def distribution_loss(x, t, w):
    return distribution_focal_loss(x, t, w)


def test_distributions_need_a_known_number_of_bins():
    with pytest.raises(ArgumentError, match="number of bins"):
        distribution_focal_loss(static.data("x", [None, 4, None]), static.data("t", [None, 4]))


def test_what_does_not_count_at_all_has_loss_and_gradient_zero():
    none = {"w": np.zeros((2, 3))}
    x = RNG.normal(0, 1, (2, 3, 4, 6))
    value, gradient = computed(distribution_loss, {"x": x, "t": np.ones((2, 3, 4)), **none})
    assert value == 0 and not gradient.any()
    boxes = {"x": RNG.uniform(0, 1, (2, 3, 4)), "t": np.zeros((2, 3, 4)), **none}
    value, gradient = computed(lambda x, t, w: box_iou_loss(x, t, w), boxes)
    assert value == 0 and not gradient.any()


# Masks ---------------------------------------------------------------------------------------------------------------


def test_dice_loss_is_its_formula_and_its_gradient_matches_differences():
    p = RNG.uniform(0, 1, (2, 3, 4, 5))
    t = (RNG.uniform(size=p.shape) < 0.4).astype(np.float64)
    mask = (RNG.uniform(size=(2, 1, 4, 5)) < 0.8).astype(np.float64)
    t[1, 2] = 0  # a class that is not there

    def formula(p):
        common, whole = (p * t * mask).sum(axis=(2, 3)), ((p + t) * mask).sum(axis=(2, 3))
        return np.mean(1 - (2 * common + 1e-5) / (whole + 1e-5))

    value, gradient = computed(lambda x, t, m: dice_loss(x, t, m), {"x": p, "t": t, "m": mask}, dims={"m": [None, 1, None, 5]})
    assert value == pytest.approx(formula(p), rel=1e-12)
    np.testing.assert_allclose(gradient, differences(formula, p), rtol=1e-5, atol=1e-9)


def test_dice_of_a_class_that_is_neither_there_nor_predicted_is_0():
    nothing = np.zeros((1, 1, 3, 3))
    value, gradient = computed(lambda x, t: dice_loss(x, t), {"x": nothing, "t": nothing})
    assert value == 0 and np.isfinite(gradient).all()


@pytest.mark.parametrize("scipy", [True, False])
def test_signed_distances_are_those_by_brute_force(scipy, monkeypatch):
    if not scipy:
        monkeypatch.setitem(sys.modules, "scipy.ndimage", None)
    labels = RNG.integers(0, 3, (3, 7, 9))
    labels[0, :2] = -100
    labels[1], labels[2, 3:, 4:] = 1, 2
    maps = signed_distances(labels, 4)
    rows, columns = np.indices(labels.shape[1:])
    for i, k in np.ndindex(3, 4):
        inside = labels[i] == k
        if not inside.any() or inside.all():
            assert not maps[i, k].any()
            continue
        for y, x in np.ndindex(inside.shape):
            other = inside != inside[y, x]
            nearest = np.sqrt((rows - y) ** 2 + (columns - x) ** 2)[other].min()
            assert maps[i, k, y, x] == pytest.approx(1 - nearest if inside[y, x] else nearest, rel=1e-6)


def test_masked_l1_loss_is_a_mean_over_what_counts_and_0_where_nothing_does():
    v, t = RNG.normal(0, 1, (2, 1, 3, 4)), RNG.normal(0, 1, (2, 1, 3, 4))
    for mask in ((RNG.random((2, 1, 3, 4)) < 0.5).astype(np.float64), np.zeros((2, 1, 3, 4))):
        value, gradient = computed(masked_l1_loss, {"values": v, "targets": t, "mask": mask}, of="values")
        count = max(mask.sum(), 1)
        np.testing.assert_allclose(value, (np.abs(v - t) * mask).sum() / count, rtol=1e-12)
        expected = differences(lambda moved, mask=mask, count=count: (np.abs(moved - t) * mask).sum() / count, v)
        np.testing.assert_allclose(gradient, expected, atol=1e-8)


def test_boundary_loss_is_the_mean_product():
    p, d = RNG.uniform(0, 1, (2, 2, 3, 4)), RNG.normal(0, 3, (2, 2, 3, 4))
    value, gradient = computed(lambda x, t: boundary_loss(x, t), {"x": p, "t": d})
    assert value == pytest.approx((p * d).mean(), rel=1e-12)
    np.testing.assert_allclose(gradient, d / d.size, rtol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_balanced_loss_takes_the_hardest_negative_pixels_of_each_picture(masked):
    x = RNG.normal(0, 2, (4, 1, 5, 6))
    t = (RNG.uniform(size=x.shape) < 0.15).astype(np.float64)
    t[1], t[2] = 0, RNG.uniform(size=x.shape[1:]) < 0.6  # a picture of nothing, and one with fewer negatives than three each
    mask = (RNG.uniform(size=x.shape) < 0.7).astype(np.float64) if masked else np.ones_like(x)

    def formula(x):
        total = count = 0
        for each, target, kept in zip(logistic(x, t), t, mask, strict=True):
            positive, negative = each[(target == 1) & (kept == 1)], each[(target == 0) & (kept == 1)]
            hard = np.sort(negative)[::-1][: int(3 * max(len(positive), 1))]
            total, count = total + positive.sum() + hard.sum(), count + len(positive) + len(hard)
        return total / count

    columns = {"x": x, "t": t, **({"m": mask} if masked else {})}
    value, gradient = computed(lambda x, t, m=None: balanced_bce_loss(x, t, m), columns)
    assert value == pytest.approx(formula(x), rel=1e-12)
    np.testing.assert_allclose(gradient, differences(formula, x), rtol=1e-5, atol=1e-9)


# Parts of a batch ----------------------------------------------------------------------------------------------------

HEAD = """
<ir_version: 10, opset_import: ["": 21]>
head (float[N, 5] image) => (float[N, 6, 4] boxes, float[N, 6, 3] classes, float[N, 6, 4, 5] sides, float[N, 1, 4, 5] map) {
    s1 = Constant<value = int64[3] {-1, 6, 4}>()
    s2 = Constant<value = int64[3] {-1, 6, 3}>()
    s3 = Constant<value = int64[4] {-1, 6, 4, 5}>()
    s4 = Constant<value = int64[4] {-1, 1, 4, 5}>()
    p = MatMul(image, a)
    boxes = Reshape(p, s1)
    q = MatMul(image, b)
    classes = Reshape(q, s2)
    r = MatMul(image, c)
    sides = Reshape(r, s3)
    u = MatMul(image, d)
    map = Reshape(u, s4)
}
"""


def head():
    """Four outputs of a detector: boxes, classes, distributions of sides, a map"""
    model, rng = parse_model(HEAD), np.random.default_rng(5)
    for name, n in (("a", 24), ("b", 18), ("c", 120), ("d", 20)):
        model.graph.initializer.append(numpy_helper.from_array(rng.normal(0, 1, (5, n)).astype(np.float32), name))
    return model


def uneven_batch(rng):
    """Six pictures, of which the first two have no object at all, and the others very different numbers of them"""
    scores = np.where(rng.uniform(size=(6, 6, 3)) < 0.4, rng.uniform(0, 1, (6, 6, 3)), 0).astype(np.float32)
    scores[:2], scores[2] = 0, rng.uniform(0.5, 1, (6, 3))
    corner = rng.uniform(0, 2, (6, 6, 2))
    return {
        "image": rng.normal(0, 1, (6, 5)).astype(np.float32),
        "scores": scores,
        "boxes_": np.concatenate([corner, corner + 1], -1).astype(np.float32),
        "sides_": rng.uniform(0, 4, (6, 6, 4)).astype(np.float32),
        "map_": (rng.uniform(size=(6, 1, 4, 5)) < np.array([0, 0, 0.9, 0.2, 0.1, 0.5])[:, None, None, None]).astype(np.float32),
    }


def detector_terms():
    def weights_of(y):
        """The sum of an anchor's scores, a column of another term"""
        scores = y.block.program.find("scores")
        return scores, Builder(y.block, key="weights").ReduceSum(scores, [2], keepdims=0)

    def boxes(y, t):
        scores, weights = weights_of(y)
        return box_iou_loss(y, t, weights, "giou", divisor_of(scores))

    def sides(y, t):
        return distribution_focal_loss(y, t, weights_of(y)[1])

    return {
        "varifocal": [Term(varifocal_loss, "classes", "scores")],
        "focal": [Term(lambda y, t: focal_loss(y, t), "classes", "scores")],
        "boxes": [Term(varifocal_loss, "classes", "scores"), Term(boxes, "boxes", "boxes_")],
        "sides": [Term(varifocal_loss, "classes", "scores"), Term(sides, "sides", "sides_", shape=[None, 6, 4])],
        "balanced": [Term(lambda y, t: balanced_bce_loss(y, t), "map", "map_")],
    }


@pytest.mark.parametrize("kind", list(detector_terms()))
def test_micro_batches_make_the_update_of_the_whole_batch(kind):
    """Parts that hold nothing count for what they are, and no mean of means is taken"""
    batch = uneven_batch(np.random.default_rng(4))
    weights = []
    for parts in (1, 3):
        trainer = Trainer(head(), loss=detector_terms()[kind], optimizer="sgd", learning_rate=0.1, accumulate=parts)
        size = 6 // parts
        columns = {name: batch[name] for name in trainer.columns}
        for i in range(parts):
            trainer.step({name: array[i * size : (i + 1) * size] for name, array in columns.items()})
        weights.append({p.name: p.get_value() for p in trainer.trained})
        whole, cut = (trainer.evaluate(columns, batch_size=n)["loss"] for n in (6, 1))
        assert whole == pytest.approx(cut, rel=1e-5)
    start = {p.name: p.get_value() for p in Trainer(head(), loss=detector_terms()[kind]).inference.parameters}
    for name, value in weights[0].items():
        np.testing.assert_allclose(weights[1][name], value, rtol=2e-5, atol=1e-6)
        assert np.abs(value - start[name]).max() > 1e-4


@pytest.mark.parametrize("kind", list(detector_terms()))
def test_ranks_make_the_update_of_the_whole_batch(kind):
    """Of three ranks with two pictures each, one at least has pictures of nothing alone"""
    batch = uneven_batch(np.random.default_rng(8))
    for name in ("scores", "map_"):
        batch[name][:2], batch[name][4:] = 0, 0

    def trained(transport=None):
        with nullcontext() if transport is None else using(transport):
            with BUILDING:
                options = {"optimizer": "sgd", "learning_rate": 0.1, "threads": 1, "distributed": transport is not None}
                trainer = Trainer(head(), loss=detector_terms()[kind], **options)
            columns = {name: batch[name] for name in trainer.columns}
            history = trainer.fit(columns, 2, batch_size=6, verbose=False)
            return history[-1]["loss"], {p.name: p.get_value() for p in trainer.trained}

    loss, weights = trained()
    for rank_loss, rank_weights in run_local(3, trained, 60):
        assert rank_loss == pytest.approx(loss, rel=1e-4)
        for name, value in weights.items():
            np.testing.assert_allclose(rank_weights[name], value, rtol=5e-5, atol=2e-6)


# By name -------------------------------------------------------------------------------------------------------------


def mask_model(channels, activation):
    """Masks [batch, channels, 4, 5] of 3 numbers, and the activation behind them"""
    text = f"""
    <ir_version: 10, opset_import: ["": 21]>
    masks (float[N, 3] image) => (float[N, {channels}, 4, 5] y) {{
        s = Constant<value = int64[4] {{-1, {channels}, 4, 5}}>()
        p = MatMul(image, w)
        z = Reshape(p, s)
        y = {activation}(z)
    }}
    """
    model = parse_model(text)
    weight = np.random.default_rng(6).normal(0, 1, (3, channels * 20)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


MASKS = [(1, "Identity"), (1, "Sigmoid"), (3, "Identity"), (3, "Softmax<axis = 1>"), (3, "LogSoftmax<axis = 1>"), (3, "Sigmoid")]


@pytest.mark.parametrize("channels, activation", MASKS)
@pytest.mark.parametrize("name", ["dice", "boundary"])
def test_losses_of_masks_by_name_read_probabilities_whatever_made_them(name, channels, activation):
    rng = np.random.default_rng(9)
    model, image = mask_model(channels, activation), rng.normal(0, 1, (6, 3)).astype(np.float32)
    weight = numpy_helper.to_array(model.graph.initializer[0])
    z = (image @ weight).astype(np.float64).reshape(6, channels, 4, 5)
    exclusive = channels > 1 and activation != "Sigmoid"
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) if exclusive else sigmoid(z)
    labels = rng.integers(0, 3, (6, 4, 5))
    labels[rng.uniform(size=labels.shape) < 0.1] = -100
    if name == "boundary":
        target = rng.normal(0, 2, p.shape).astype(np.float32)
        expected = (p * target).mean()
    elif exclusive:
        target, kept = labels, (labels != -100)[:, None]
        t = (labels[:, None] == np.arange(3)[:, None, None]) * 1.0
        expected = np.mean(1 - (2 * (p * t * kept).sum((2, 3)) + 1e-5) / (((p + t) * kept).sum((2, 3)) + 1e-5))
    else:
        target = (rng.uniform(size=p.shape) < 0.4).astype(np.float32)
        expected = np.mean(1 - (2 * (p * target).sum((2, 3)) + 1e-5) / ((p + target).sum((2, 3)) + 1e-5))
    trained = []
    for parts in (1, 3):
        trainer = Trainer(model, loss=name, optimizer="sgd", learning_rate=1.0, accumulate=parts)
        for size in (6, 4):
            assert trainer.evaluate({"image": image, "target": target}, batch_size=size)["loss"] == pytest.approx(
                expected, rel=1e-5
            )
        for i in range(0, 6, 6 // parts):
            trainer.step({"image": image[i : i + 6 // parts], "target": target[i : i + 6 // parts]})
        trained.append(trainer.trained[0].get_value())
    np.testing.assert_allclose(trained[0], trained[1], rtol=1e-4, atol=1e-6)
    assert np.abs(trained[0] - weight).max() > 1e-4


def test_focal_by_name_reads_logits_whatever_made_them():
    rng = np.random.default_rng(9)
    image, target = rng.normal(0, 1, (6, 3)).astype(np.float32), (rng.uniform(size=(6, 1, 4, 5)) < 0.1).astype(np.float32)
    losses = []
    for activation in ("Identity", "Sigmoid"):
        model = mask_model(1, activation)
        losses.append(Trainer(model, loss="focal").evaluate({"image": image, "target": target}, batch_size=4)["loss"])
    z = (image @ numpy_helper.to_array(model.graph.initializer[0])).reshape(target.shape).astype(np.float64)
    p = sigmoid(z)
    each = np.where(target == 1, 0.25 * (1 - p) ** 2, 0.75 * p**2) * logistic(z, target)
    assert losses == pytest.approx([each.sum() / np.maximum(target.sum((1, 2, 3)), 1).sum()] * 2, rel=1e-5)


def test_masks_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match=r"focal does not fit y: it comes from Softmax"):
        Trainer(mask_model(3, "Softmax<axis = 1>"), loss="focal")
    with pytest.raises(ArgumentError, match="normalises along another"):
        Trainer(mask_model(3, "Softmax<axis = 2>"), loss="dice")
    with pytest.raises(ArgumentError, match="masks of shape"):
        Trainer(mask_model(3, "Flatten"), loss="dice")
    labels = np.full((2, 4, 5), 3)
    with pytest.raises(DataError, match="label 3; the output has classes 0 to 2"):
        Trainer(mask_model(3, "Identity"), loss="dice").step({"image": np.zeros((2, 3), np.float32), "target": labels})
