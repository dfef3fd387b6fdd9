"""BatchNormalization by the statistics of a batch of which each rank holds a part: the step of the whole batch."""

import json

import numpy as np
import onnx
import pytest

import onnxgrad as paddle
import onnxgrad.nn.functional as F
from onnxgrad import static
from onnxgrad.core.passes.modes import attach_training
from onnxgrad.errors import ArgumentError
from tests.distributed.staged import Ranks, stored

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.normal(size=(12, 3, 6, 6)).astype(np.float32) * 2 + 5
LABELS = RANDOM.integers(0, 4, 12)


def network(dtype="float32", loss=F.cross_entropy, optimizer=None, shape=("N", 3, 6, 6)):
    """Two convolutions with BatchNormalization, the first of the images themselves"""
    x = static.data("x", list(shape), dtype)
    label = static.data("label", ["N"], "int64")
    h = static.nn.batch_norm(x) if len(shape) == 4 else x
    for _ in range(2):
        h = static.nn.batch_norm(static.nn.conv2d(h, 4, 3), act="relu")
    h = static.nn.batch_norm(static.nn.fc(h, 5))
    found = loss(static.nn.fc(h, 4), label)
    optimizer = optimizer or paddle.optimizer.Momentum(0.1, 0.9, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5))
    optimizer.minimize(found)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    return found, executor


def check(loss, executor, parts, feeds, steps=4, **tolerance):
    """Ranks of these rows take the steps of one process with all of them"""
    program = loss.block.program
    first, second, manifest = paddle.to_split_training_step(program, [loss], batch_norm="sync")
    assert all(node.domain == "" for model in [*first, second] for node in model.graph.node)
    ranks = Ranks(first, second, manifest, len(parts))
    for _ in range(steps):
        results = ranks.step([{k: v[rows] for k, v in feeds.items()} for rows in parts])
        (expected,) = executor.run(program, feeds, [loss])
        np.testing.assert_allclose(sum(r[loss.name] for r in results), expected, **tolerance)
    for p in program.all_parameters():
        for state in ranks.states:
            np.testing.assert_allclose(state[p.name], p.get_value(), err_msg=p.name, **tolerance)


PARTS = {
    "two": [slice(0, 6), slice(6, 12)],
    "uneven": [slice(0, 1), slice(1, 5), slice(5, 12)],
    "one": [slice(0, 12)],
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_ranks_take_the_step_of_the_whole_batch(parts):
    loss, executor = network()
    check(loss, executor, parts, {"x": IMAGES, "label": LABELS}, rtol=2e-4, atol=2e-5)


def test_in_float64_they_do_so_to_rounding():
    loss, executor = network("float64")
    check(loss, executor, PARTS["uneven"], {"x": IMAGES.astype(np.float64), "label": LABELS}, rtol=1e-11, atol=1e-12)


def test_a_part_that_weighs_nothing_counts_in_the_statistics():
    labels = LABELS.copy()
    labels[:5] = 9
    loss, executor = network("float64", lambda y, label: F.cross_entropy(y, label, ignore_index=9))
    check(loss, executor, PARTS["uneven"], {"x": IMAGES.astype(np.float64), "label": labels}, rtol=1e-11, atol=1e-12)


def test_sums_are_added():
    loss, executor = network("float64", lambda y, label: 0.1 * F.cross_entropy(y, label, reduction="sum"))
    check(loss, executor, PARTS["uneven"], {"x": IMAGES.astype(np.float64), "label": LABELS}, rtol=1e-11, atol=1e-12)


def test_one_process_computes_the_same_in_fewer_stages_than_there_are_sums():
    """Two values that do not wait for each other are reduced together: here the weight with the first statistics"""
    loss, _ = network()
    manifest = paddle.to_split_training_step(loss.block.program, [loss], batch_norm="sync")[2]
    stages = manifest["gradients"]["stages"]
    layers = 4
    # Forward one for each layer; backward as many less one, as the images need no gradient; then what is left.
    assert len(stages) == layers + (layers - 1) + 1
    assert sum(len(stage["reduce"]) for stage in stages) == 1 + layers + 2 * (layers - 1)
    reduced = [entry for stage in stages for entry in stage["reduce"]]
    assert {entry["dtype"] for entry in reduced} == {"float64"}
    assert max(np.prod(entry["shape"], dtype=int) for entry in reduced) == 1 + 2 * 5


def test_images_of_any_size():
    h = static.nn.batch_norm(static.data("x", ["N", 3, "H", "W"], "float64"))
    h = static.nn.batch_norm(static.nn.conv2d(h, 4, 3), act="relu")
    loss = F.cross_entropy(static.nn.fc(paddle.mean(h, axis=[2, 3]), 4), static.data("label", ["N"], "int64"))
    paddle.optimizer.Momentum(0.05, 0.9).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    check(loss, executor, PARTS["uneven"], {"x": IMAGES.astype(np.float64), "label": LABELS}, rtol=1e-11, atol=1e-12)


def test_recomputed_layers_use_the_statistics_that_were_reduced():
    h, kept = static.data("x", ["N", 3, 6, 6], "float64"), []
    for _ in range(3):
        h = static.nn.batch_norm(static.nn.conv2d(h, 4, 3, padding=1), act="relu")
        kept.append(h)
    loss = F.cross_entropy(static.nn.fc(h, 4), static.data("label", ["N"], "int64"))
    paddle.optimizer.Momentum(0.1, 0.9).minimize(loss, checkpoints=kept[1:2])
    executor = static.Executor()
    executor.run(static.default_startup_program())
    again = [op.type for op in loss.block.ops if "subprog" in op.outputs[0].name]
    assert again == ["Conv", "Relu", "Conv"]
    check(loss, executor, PARTS["uneven"], {"x": IMAGES.astype(np.float64), "label": LABELS}, rtol=1e-11, atol=1e-12)


def test_files_say_what_to_reduce_and_where_it_enters(tmp_path):
    loss, executor = network("float64")
    program = loss.block.program
    paddle.save_split_training_step(program, tmp_path / "step", [loss], batch_norm="sync")
    manifest = json.loads((tmp_path / "step.json").read_text())
    first = [onnx.load(tmp_path / stage["model"]) for stage in manifest["gradients"]["stages"]]
    second = onnx.load(tmp_path / manifest["apply"]["model"])
    ranks = Ranks(first, second, manifest, 2, stored(manifest, tmp_path))
    images = IMAGES.astype(np.float64)
    for _ in range(3):
        results = ranks.step([{"x": images[rows], "label": LABELS[rows]} for rows in (slice(5), slice(5, None))])
        (expected,) = executor.run(program, {"x": images, "label": LABELS}, [loss])
        np.testing.assert_allclose(sum(r[loss.name] for r in results), expected, rtol=1e-11)


def test_what_it_is_to_be_must_be_said():
    loss, _ = network()
    program = loss.block.program
    with pytest.raises(ArgumentError, match=r"BatchNormalization.*batch_norm='sync'.*batch_norm='local'"):
        paddle.to_split_training_step(program, [loss])
    with pytest.raises(ArgumentError, match="batch_norm='frozen'"):
        paddle.to_split_training_step(program, [loss], batch_norm="frozen")
    with pytest.raises(ArgumentError, match="not 'global'"):
        paddle.to_split_training_step(program, [loss], batch_norm="global")


def test_frozen_layers_are_no_matter():
    program = static.Program()
    with static.program_guard(program, static.Program()):
        x = static.data("x", ["N", 3, 6, 6])
        h = static.nn.batch_norm(x, use_global_stats=True)
        loss = F.cross_entropy(static.nn.fc(h, 4), static.data("label", ["N"], "int64"))
        paddle.optimizer.SGD(0.1).minimize(loss)
        static.Executor().run(static.default_startup_program())
    for chosen in ("frozen", "sync", "local", None):
        first, _, manifest = paddle.to_split_training_step(program, [loss], batch_norm=chosen)
        assert not isinstance(first, list) and "stages" not in manifest["gradients"]


def test_a_layer_that_is_used_twice_has_statistics_for_each_use():
    x = static.data("x", ["N", 3, 6, 6], "float64")
    h = static.nn.batch_norm(x)
    again = h.block.build.BatchNormalization(static.nn.conv2d(h, 3, 3), *h.op.inputs[1:])
    attach_training([again.op])
    loss = F.cross_entropy(static.nn.fc(again, 4), static.data("label", ["N"], "int64"))
    paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    check(loss, executor, PARTS["uneven"], {"x": IMAGES.astype(np.float64), "label": LABELS}, rtol=1e-11, atol=1e-12)


SPOILT = {
    "mean over other axes": ("ReduceMean", 0, lambda op, build: op.inputs.__setitem__(1, build.constant(np.array([0, 2])))),
    "a mean that loses its axes": ("ReduceMean", 0, lambda op, build: op.attrs.update(keepdims=0)),
    "a mean of something else": ("ReduceMean", 0, lambda op, build: op.inputs.__setitem__(0, op.block.find("images"))),
    "a variance of a product": ("ReduceMean", 1, lambda op, build: op.inputs.__setitem__(0, op.block.find("images"))),
    "another divisor": ("Div", 0, lambda op, build: op.inputs.__setitem__(1, build.constant(np.float32(7)))),
    "not a sum": ("Div", 0, lambda op, build: op.inputs.__setitem__(0, build.constant(np.ones(3, np.float32)))),
    "another result": ("ReduceMean", 0, lambda op, build: setattr(op, "origin", op.origin._replace(of=None))),
}


@pytest.mark.parametrize(("op_type", "number", "spoil"), SPOILT.values(), ids=SPOILT)
def test_an_operator_that_is_not_what_its_origin_says_is_refused(op_type, number, spoil):
    images = static.data("images", [4, 3, 6, 6])
    loss = paddle.mean(paddle.square(static.nn.batch_norm(static.nn.conv2d(images, 3, 1))) * images)
    paddle.optimizer.SGD(0.1).minimize(loss)
    static.Executor().run(static.default_startup_program())
    pieces = [op for op in loss.block.ops if op.origin is not None and op.origin.piece.startswith("batch") and op.type == op_type]
    paddle.to_split_training_step(loss.block.program, [loss], batch_norm="sync")
    spoil(pieces[number], loss.block.build)
    with pytest.raises(ArgumentError, match="is something else"):
        paddle.to_split_training_step(loss.block.program, [loss], batch_norm="sync")
