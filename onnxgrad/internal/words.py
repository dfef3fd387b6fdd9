"""The words that options of the Trainer, of exports and of the command line are.

They stand here as types, so that a checker knows them and the command line lists them without loading what they name.
"""

# Tests: tests/training/test_names.py.

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = [
    "EPOCH_METRICS", "BatchMetric", "Compression", "LoggerName", "LossName", "OptimizerName", "OutputLayout", "Provider",
    "QuantizedMode", "ScheduleName",
]  # fmt: skip

LossName: TypeAlias = Literal[
    "bce_with_logits", "causal_lm", "cosine", "cross_entropy", "ctc", "huber", "kl", "l1", "mse", "smooth_l1", "triplet"
]
"""The names of losses."""

OptimizerName: TypeAlias = Literal[
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "lamb", "momentum", "nadam", "radam", "rmsprop", "rprop", "sgd"
]
"""The names of optimizers."""

ScheduleName: TypeAlias = Literal["constant", "cosine", "linear", "one-cycle", "plateau", "step"]
"""The names of schedules."""

BatchMetric: TypeAlias = Literal["accuracy", "mae", "mse", "top5"]
"""Metrics that are means over examples; ``top`` goes with any number."""

EPOCH_METRICS = ("auc", "average_precision", "cer", "dice", "f1", "iou", "perplexity", "precision", "r2", "recall", "rmse", "wer:N")
"""Metrics of all examples together; N is the label of the space."""

OutputLayout: TypeAlias = Literal["NTC", "TNC", "NCT"]
"""Axes of an output: N batch, T steps, C classes; the first two for ``ctc``, the first and the last for ``cross_entropy``."""

QuantizedMode: TypeAlias = Literal["learned", "fixed", "integers", "frozen"]
"""What trains of a file with integer weights."""

Compression: TypeAlias = Literal["bfloat16", "float16", "top-k"]
"""How gradients travel in fewer bytes."""

LoggerName: TypeAlias = Literal["mlflow", "tensorboard"]
"""Programs that a run is logged for."""

Provider: TypeAlias = Literal["cpu", "cuda", "openvino", "openvino_bf16", "webgpu"]
"""Execution providers that have forms of their own."""
