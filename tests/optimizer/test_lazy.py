"""Adam(lazy_mode=True): rows of an embedding that no batch looked up, and their averages, stay as they are."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.optimizer.rows import with_sparse_gradient

ROWS, WIDTH = 9, 4
BATCHES = [[[1, 3, 3]], [[0, 3, 8]], [[8, 8, 1]]]


def trained(make, tmp_path=None, sparse=True, padding=None, also_read=False, batches=BATCHES):
    """The table, the gradients of each step and the table after some steps."""
    paddle.seed(2)
    ids = static.data("ids", [None, 3], "int64")
    rows = static.nn.embedding(ids, [ROWS, WIDTH], is_sparse=sparse, padding_idx=padding, param_attr="table")
    (table,) = static.default_main_program().all_parameters()
    loss = paddle.sum(paddle.tanh(rows) * paddle.tanh(rows))
    if also_read:
        loss = loss + paddle.sum(table * table)
    program, startup = static.default_main_program(), static.default_startup_program()
    if tmp_path is not None:
        executor = static.Executor()
        executor.run(startup)
        paddle.save_onnx(program, tmp_path / "model.onnx", [loss])
        program, startup = paddle.from_onnx(tmp_path / "model.onnx"), static.Program()
        (table,), (loss,) = program.all_parameters(), program.outputs
    with static.program_guard(program, startup):
        optimizer = make()
        _, [(_, g)] = optimizer.minimize(loss)
    executor = static.Executor()
    executor.run(startup)
    start, gradients = table.get_value().copy(), []
    for batch in batches:
        gradients.append(executor.run(program, {"ids": np.array(batch)}, [g])[0])
    return start, gradients, table.get_value(), program


def expected(start, gradients, batches=BATCHES, decay=0.0, rate=0.1, amsgrad=False):
    p, m, v, highest = start.astype(np.float64), *np.zeros((3, *start.shape))
    for step, (g, batch) in enumerate(zip(gradients, batches, strict=True), 1):
        rows = np.unique(np.array(batch) % ROWS)
        m[rows] = 0.9 * m[rows] + 0.1 * g[rows]
        v[rows] = 0.8 * v[rows] + 0.2 * g[rows] ** 2
        highest[rows] = np.maximum(highest[rows], v[rows])
        root = np.sqrt((highest if amsgrad else v)[rows] / (1 - 0.8**step))
        p[rows] = p[rows] * (1 - rate * decay) - rate * m[rows] / (1 - 0.9**step) / (root + 1e-3)
    return p


MAKERS = {
    "Adam": (lambda: paddle.optimizer.Adam(0.1, beta2=0.8, epsilon=1e-3, lazy_mode=True), {}),
    "AMSGrad": (lambda: paddle.optimizer.Adam(0.1, beta2=0.8, epsilon=1e-3, lazy_mode=True, amsgrad=True), {"amsgrad": True}),
    "AdamW": (lambda: paddle.optimizer.AdamW(0.1, beta2=0.8, epsilon=1e-3, weight_decay=0.3, lazy_mode=True), {"decay": 0.3}),
}


@pytest.mark.parametrize(("make", "options"), MAKERS.values(), ids=MAKERS)
def test_rows_that_are_looked_up_follow_the_formula_and_others_stay(make, options):
    start, gradients, end, _ = trained(make)
    np.testing.assert_allclose(end, expected(start, gradients, **options), rtol=2e-6, atol=1e-7)
    never = [2, 4, 5, 6, 7]
    assert np.array_equal(end[never], start[never])


def test_negative_indices_are_rows_from_the_end():
    batches = [[[-1, 8, 2]], [[-9, 0, -1]]]
    start, gradients, end, _ = trained(MAKERS["Adam"][0], batches=batches)
    np.testing.assert_allclose(end, expected(start, gradients, batches), rtol=2e-6, atol=1e-7)


def test_lookups_of_a_loaded_file_are_sparse(tmp_path):
    start, gradients, end, _ = trained(MAKERS["Adam"][0], tmp_path)
    np.testing.assert_allclose(end, expected(start, gradients), rtol=2e-6, atol=1e-7)


def test_padding_rows_get_a_gradient_of_zero():
    start, gradients, end, _ = trained(MAKERS["Adam"][0], padding=3)
    assert not any(g[3].any() for g in gradients)
    np.testing.assert_allclose(end, expected(start, gradients), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("options", [{"sparse": False}, {"also_read": True}])
def test_other_tables_are_updated_as_a_whole(options):
    start, gradients, end, _ = trained(MAKERS["Adam"][0], **options)
    everywhere = [list(range(ROWS))] * len(BATCHES)
    np.testing.assert_allclose(end, expected(start, gradients, everywhere), rtol=2e-6, atol=1e-7)
    assert not np.array_equal(end, expected(start, gradients).astype(np.float32))


def test_no_operator_of_the_update_computes_on_the_whole_table():
    *_, program = trained(MAKERS["Adam"][0])
    whole = [op.type for op in program.global_block().ops if op.role.name == "OPTIMIZE" and op.outputs[0].dims == (ROWS, WIDTH)]
    assert whole == ["ScatterND"] * 3


@pytest.mark.parametrize("lookups", [1, 2])
@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("shape", [(), (1,), (2,), (2, 1), (2, 3)], ids=str)
def test_tables_of_every_width_clipped_and_looked_up_twice(shape, clip, lookups):
    """A table whose rows have one element lost its Expand, and with that moved rows that no batch looked up"""
    table = paddle.create_parameter([ROWS, *shape], "float32", attr="table")
    ids = static.data("ids", [3], "int64")
    rows = [with_sparse_gradient(paddle.gather(table, ids), True) for _ in range(lookups)]
    loss = paddle.sum(paddle.tanh(rows[0]) * paddle.tanh(rows[-1]))
    bound = None if clip is None else paddle.nn.ClipGradByValue(clip)
    optimizer = paddle.optimizer.Adam(0.1, beta2=0.8, epsilon=1e-3, lazy_mode=True, grad_clip=bound)
    pairs = optimizer.backward(loss)
    ((_, g),) = pairs
    raw = paddle.assign(g)
    optimizer.apply_gradients(pairs)
    executor = static.Executor()
    executor.run(static.default_startup_program())
    start, gradients = table.get_value().copy(), []
    for (batch,) in BATCHES:
        (g,) = executor.run(feed={"ids": np.array(batch)}, fetch_list=[raw])
        gradients.append(g if clip is None else np.clip(g, -clip, clip))
    np.testing.assert_allclose(table.get_value(), expected(start, gradients), rtol=1e-5, atol=1e-6)
    never = [row for row in range(ROWS) if row not in np.array(BATCHES)]
    np.testing.assert_array_equal(table.get_value()[never], start[never])
