"""The words that checkers know are those that are accepted."""

from typing import get_args

import pytest

from onnxgrad.core.providers.registry import PROVIDERS
from onnxgrad.errors import OnnxGradError
from onnxgrad.internal.words import EPOCH_METRICS, BatchMetric, LoggerName, LossName, OptimizerName, Provider
from onnxgrad.training.losses.formulas import LOSSES
from onnxgrad.training.metrics.batch import METRICS, check_metrics
from onnxgrad.training.optimizers import optimizer_names
from onnxgrad.training.run.loggers import loggers


def test_words_of_types_are_those_of_tables():
    assert sorted(get_args(LossName)) == sorted(LOSSES)
    assert sorted(get_args(OptimizerName)) == optimizer_names()
    assert sorted(get_args(BatchMetric)) == sorted(METRICS)
    assert sorted(get_args(Provider)) == sorted(PROVIDERS)


def test_listed_metrics_are_there():
    pytest.importorskip("sklearn")
    pytest.importorskip("rapidfuzz")
    check_metrics(
        [*get_args(BatchMetric), *(name.replace(":N", ":3").replace("@K", "@3").replace("@P", "@0.5") for name in EPOCH_METRICS)]
    )
    with pytest.raises(OnnxGradError):
        check_metrics(["nothing"])


def test_each_logger_has_a_class_of_its_own(monkeypatch):
    for name in ("TensorBoard", "MLflow"):
        monkeypatch.setattr(f"onnxgrad.training.run.loggers.{name}", lambda *_, name=name: name.lower())
    assert loggers(get_args(LoggerName), "run") == [*get_args(LoggerName)]
