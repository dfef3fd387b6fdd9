"""Fine-tuning of model files: the Trainer, its losses, data, checkpoints and history, and choosing what trains."""

from onnxgrad.training.adapters import load_adapters, save_adapters
from onnxgrad.training.batch_norm import fold_batch_norm, insert_batch_norm
from onnxgrad.training.callbacks import Callback
from onnxgrad.training.checkpoint import load_checkpoint, save_checkpoint
from onnxgrad.training.curves import plot_history
from onnxgrad.training.distillation import Distillation
from onnxgrad.training.loggers import MLflow, TensorBoard
from onnxgrad.training.lora import add_lora, merge_lora
from onnxgrad.training.losses import Term
from onnxgrad.training.quantization import train_quantized
from onnxgrad.training.quantizing import quantize
from onnxgrad.training.rate_finder import find_learning_rate
from onnxgrad.training.report import Report
from onnxgrad.training.schedules import Planned
from onnxgrad.training.sources import Images, Shuffled, Table, Texts
from onnxgrad.training.surgery import cut_at, insert_dropout, replace_head
from onnxgrad.training.text import Text
from onnxgrad.training.ties import find_ties, tie, untie
from onnxgrad.training.trainer import Trainer

__all__ = [
    "Callback",
    "Distillation",
    "Images",
    "MLflow",
    "Planned",
    "Report",
    "Shuffled",
    "Table",
    "TensorBoard",
    "Term",
    "Text",
    "Texts",
    "Trainer",
    "add_lora",
    "cut_at",
    "find_learning_rate",
    "find_ties",
    "fold_batch_norm",
    "insert_batch_norm",
    "insert_dropout",
    "load_adapters",
    "load_checkpoint",
    "merge_lora",
    "plot_history",
    "quantize",
    "replace_head",
    "save_adapters",
    "save_checkpoint",
    "tie",
    "train_quantized",
    "untie",
]
