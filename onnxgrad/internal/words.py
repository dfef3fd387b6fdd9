"""The words that options of the Trainer, of exports and of the command line are.

They stand here as types, so that a checker knows them and the command line lists them without loading what they name.
"""

# Tests: tests/training/test_names.py.

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = [
    "DETECTION", "EPOCH_METRICS", "BatchMetric", "Compression", "DataPart", "ImageFit", "LoggerName", "LossName", "OptimizerName",
    "OutputLayout", "Provider", "QuantizedMode", "ScheduleName", "SoundJoin", "TaskName",
]  # fmt: skip

LossName: TypeAlias = Literal[
    "bce_with_logits", "boundary", "bradley_terry", "causal_lm", "cosine", "cosine_pairs", "cross_entropy", "ctc", "dice", "dpo",
    "focal", "huber", "info_nce", "kl", "l1", "mse", "smooth_l1", "triplet",
]  # fmt: skip
"""The names of losses of one output."""

DETECTION = "detection"
"""The name of the loss of all outputs of a detector together."""

TaskName: TypeAlias = Literal["classify", "multilabel", "regress", "segment", "detect"]
"""What can be learned of pictures."""

ImageFit: TypeAlias = Literal["stretch", "letterbox", "corner"]
"""How a picture of another size gets into the input: stretched to it; scaled by one factor, with equal bars on both sides; the same
with the picture in the upper left corner."""

DataPart: TypeAlias = Literal["train", "val", "test"]
"""Parts of data that holds several."""

SoundJoin: TypeAlias = Literal["mean", "max"]
"""What stands for the windows of one sound, where it is judged."""

OptimizerName: TypeAlias = Literal[
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "lamb", "momentum", "nadam", "radam", "rmsprop", "rprop", "sgd"
]
"""The names of optimizers."""

ScheduleName: TypeAlias = Literal["constant", "cosine", "linear", "one-cycle", "plateau", "step"]
"""The names of schedules."""

BatchMetric: TypeAlias = Literal["accuracy", "mae", "mse", "top5"]
"""Metrics that are means over examples; ``top`` goes with any number."""

EPOCH_METRICS = (
    "auc", "average_precision", "cer", "dice", "f1", "false_accepts@P", "iou", "map", "map50", "mean_iou", "misses@P", "mrr",
    "perplexity", "precision", "r2",
    "recall", "recall@K", "rmse", "spearman", "wer:N",
)  # fmt: skip
"""Metrics of all examples together; N is the label of the space, K how many neighbours, P a probability."""

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
