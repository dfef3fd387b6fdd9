"""Masks of the parts of a batch: those of the whole batch, however many parts there are."""

import numpy as np
import pytest

import onnxgrad as paddle
from onnxgrad import static
from onnxgrad.core.passes.modes import PART, take_parts
from onnxgrad.errors import ProgramError

F = paddle.nn.functional


def masks(example, shaped=None, transposed=False, late=False):
    """A function of x and of the part that gives two Dropouts of ones in a row."""
    program = static.Program()
    with static.program_guard(program, static.Program()):
        x = static.data("x", [None, *example])
        if not late:
            take_parts(program)
        read = paddle.transpose(x, [1, 0, *range(2, 1 + len(example))]) if transposed else x
        y = F.dropout(read if shaped is None else paddle.reshape(read, shaped), 0.5)
        z = F.dropout(y, 0.25)
        if late:
            take_parts(program)
    program.scope = paddle.Scope()
    executor = paddle.Executor(threads=1)

    def run(x, first):
        program.scope.set("dropout_step", np.array(4, np.int64))
        feed = {"x": x, PART: np.array([first, len(x)], np.int64)}
        return executor.run(program, feed, [y, z])

    return run, program


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("example", "shaped"), [((5,), None), ((3, 700), None), ((512,), None), ((2, 512), [-1, 512]), ((6, 4), [-1, 8])]
)
def test_the_parts_of_a_batch_have_the_masks_of_the_batch(example, shaped, late):
    run, _ = masks(example, shaped, late=late)
    x = np.ones((11, *example), np.float32)
    for whole, *parts in zip(run(x, 0), *(run(x[a:b], a) for a, b in ((0, 1), (1, 7), (7, 11)))):
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert 0.2 < (whole == 0).mean() < 0.8


def test_where_the_batch_is_another_axis_parts_differ():
    run, _ = masks((64,), transposed=True)
    x = np.ones((4, 64), np.float32)
    first, second = run(x, 0)[0], run(x, 4)[0]
    assert (first != second).mean() > 0.3


def test_examples_of_whole_rows_are_not_cut():
    """A mask that begins in a row of the generator is made one row longer, and cut"""
    for example, cuts in (((512,), 0), ((510,), 2)):
        _, program = masks(example)
        assert [op.type for op in program.global_block().ops].count("Slice") == cuts


def test_a_program_with_a_backward_pass_is_refused():
    program = static.Program()
    with static.program_guard(program, static.Program()):
        x = static.data("x", [None, 3])
        loss = paddle.mean(F.dropout(static.nn.fc(x, 2), 0.5))
        static.append_backward(loss)
    with pytest.raises(ProgramError, match="before its backward pass"):
        take_parts(program)
    assert PART not in program.global_block().vars
