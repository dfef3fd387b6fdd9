"""The words that checkers know are those that are accepted."""

from typing import get_args

from onnxgrad.training.losses.formulas import LOSSES, LossName
from onnxgrad.training.optimizers import OptimizerName, optimizer_names
from onnxgrad.training.run.schedules import SHAPES, ScheduleName


def test_words_of_types_are_those_of_tables():
    assert sorted(get_args(LossName)) == sorted(LOSSES)
    assert sorted(get_args(OptimizerName)) == optimizer_names()
    assert sorted(get_args(ScheduleName)) == sorted(SHAPES)
