"""Files with a fixed batch, and files with steps first, on ranks: the run of one process."""

import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.parser import parse_model

from onnxgrad.core.ir.examples import batch_axes
from onnxgrad.distributed import Strategy, run_local
from onnxgrad.distributed.environment import using
from onnxgrad.errors import DataError
from onnxgrad.training import Trainer
from tests.training.small import data, weights

_BUILDING = threading.Lock()
ROOT = Path(__file__).parents[2]
PLAIN = "h = Gemm<transB = 1> (x, w, b)  a = Tanh(h)  y = Gemm<transB = 1> (a, u, c)"
RESHAPED = "s = Constant<value_ints = [BATCH, 2, 2]>()  r = Reshape(x, s)  f = Flatten(r)  " + PLAIN.replace("(x,", "(f,")
STEPS = """<ir_version: 10, opset_import: ["": 21]> f (float[T, N, 3] x) => (float[N, 3] y)
           <float[3, 3] v = {0.1, 0.2, 0.3, -0.1, 0.2, 0.4, 0.3, -0.2, 0.1},
            float[3, 3] z = {0.3, 0.1, 0.2, 0.2, -0.1, 0.2, 0.1, 0.4, -0.2}, int64[1] steps = {0}> {
           h = MatMul(x, v)  t = Tanh(h)  m = ReduceMean<keepdims = 0> (t, steps)  y = MatMul(m, z) }"""


SEQUENCES = """<ir_version: 10, opset_import: ["": 21]> f (float[T, N, 3] x) => (float[T, N, 3] y)
               <float[3, 3] v = {0.1, 0.2, 0.3, -0.1, 0.2, 0.4, 0.3, -0.2, 0.1},
                float[3, 3] z = {0.3, 0.1, 0.2, 0.2, -0.1, 0.2, 0.1, 0.4, -0.2}> {
               h = MatMul(x, v)  t = Tanh(h)  y = MatMul(t, z) }"""


def fixed(batch, body=PLAIN):
    """A file that takes so many examples at a time"""
    text = f'<ir_version: 8, opset_import: ["": 17]> f (float[BATCH, 4] x) => (float[BATCH, 3] y) {{ {body} }}'
    file = parse_model(text.replace("BATCH", str(batch)))
    rng = np.random.default_rng(5)
    for name, shape in {"w": (6, 4), "b": (6,), "u": (3, 6), "c": (3,)}.items():
        file.graph.initializer.append(numpy_helper.from_array(rng.normal(0, 0.5, shape).astype(np.float32), name))
    return file


def fitted(source, rows, held_out=None, transport=None, strategy=True, **options):
    with _BUILDING:
        trainer = Trainer(
            source,
            loss="cross_entropy",
            metrics=["accuracy"],
            learning_rate=0.05,
            threads=1,
            distributed=strategy if transport is not None else False,
        )
    history = trainer.fit(rows, 2, held_out, verbose=False, **options)
    if strategy is not True and transport is not None:
        trainer.ranks.step.gather(everywhere=True)
    return history, weights(trainer)


def on_ranks(count, work):
    def one(transport):
        with using(transport):
            return work(transport)

    return run_local(count, one)


def assert_same_run(ranks, alone):
    for history, state in ranks:
        for row, expected in zip(history, alone[0], strict=True):
            assert row == pytest.approx(expected, rel=1e-5)
        for name, value in alone[1].items():
            np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("body", [PLAIN, RESHAPED], ids=["opened", "as it is"])
def test_a_file_with_a_fixed_batch(count, body):
    """Where the file computes each example by itself, ranks have parts of any size; else one rank has what the file takes at a time,
    and others stand by, or as many such parts as the batch has"""
    options = {"batch_size": 8, "drop_last": True}
    alone = fitted(fixed(8, body), data(40), **options)
    assert_same_run(on_ranks(count, lambda transport: fitted(fixed(8, body), data(40), transport=transport, **options)), alone)
    larger = {"batch_size": 8 * count, "drop_last": True}
    alone = fitted(fixed("N"), data(48), **larger)
    assert_same_run(on_ranks(count, lambda transport: fitted(fixed(8, body), data(48), transport=transport, **larger)), alone)


def test_a_batch_that_a_file_cannot_take_in_parts_is_refused():
    with pytest.raises(DataError, match=r"8 examples stay together on a rank.* a batch has 12. Use batches of 16 \(--batch-size\)"):
        on_ranks(2, lambda transport: fitted(fixed(8, RESHAPED), data(24), transport=transport, batch_size=12))


@pytest.mark.parametrize("count", [2, 3])
def test_a_file_with_steps_first(count):
    """Also batches of as many examples as steps, and one of fewer examples than ranks"""
    rng = np.random.default_rng(2)
    batches = [(rng.normal(size=(4, n, 3)).astype(np.float32), rng.integers(0, 3, n)) for n in (6, 4, 5, 2)]
    alone = fitted(parse_model(STEPS), batches, batches)
    assert_same_run(on_ranks(count, lambda transport: fitted(parse_model(STEPS), batches, batches, transport)), alone)


def test_a_file_with_steps_first_in_a_pipeline():
    """On 2 stages and on 2 rows of them, also batches of fewer examples than micro-batches; and losses of many elements each, which
    count by those in the mean of an epoch"""
    rng = np.random.default_rng(2)
    batches = [(rng.normal(size=(4, n, 3)).astype(np.float32), rng.integers(0, 3, n)) for n in (6, 4, 5, 2)]
    strategy = Strategy(pipeline=2, micro_batches=3)
    for text, pairs in ((STEPS, batches), (SEQUENCES, [(x, rng.integers(0, 3, x.shape[:2])) for x, _ in batches])):
        fit = partial(fitted, rows=pairs, held_out=pairs, strategy=strategy)
        alone = fit(parse_model(text))
        for count in (2, 4):
            assert_same_run(
                on_ranks(count, lambda transport, fit=fit, text=text: fit(parse_model(text), transport=transport)), alone
            )


def test_columns_of_other_lengths_are_refused():
    batches = [(np.ones((4, 6, 3), np.float32), np.zeros(5, np.int64))]
    with pytest.raises(
        DataError, match="ranks cut a batch along the axis that counts examples, which is 5 long in column 'target'"
    ):
        on_ranks(2, lambda transport: fitted(parse_model(STEPS), batches, None, transport))


def test_the_axis_of_examples_is_that_of_the_output_by_name():
    """Nothing follows from names that inputs share: exporters give dimensions that are equal names of their own"""
    trainer = Trainer(parse_model(STEPS), loss="cross_entropy")
    assert {v.name: axis for v, axis in batch_axes(trainer.program).items()} == {"x": 1, "target": 0}
    file = ROOT / "tests" / "data" / "real_models" / "torch" / "bert-dyn18" / "model.onnx"
    program = Trainer(file, loss="cross_entropy").program
    assert program.inputs[0].dims[1] == program.inputs[1].dims[1]
    assert set(batch_axes(program).values()) == {0}
