"""Fine-tuning of model files: the Trainer, its losses, data, checkpoints and history, and the choice of trained weights."""

from onnxgrad.training.data import Images, Shuffled, Sounds, Table, Texts
from onnxgrad.training.data.preferences import Preferences
from onnxgrad.training.data.record import DataRecord
from onnxgrad.training.data.text import Text
from onnxgrad.training.generation import Generator
from onnxgrad.training.losses.distillation import Distillation
from onnxgrad.training.losses.terms import Term
from onnxgrad.training.quantized.calibration import quantize
from onnxgrad.training.quantized.learned import train_quantized
from onnxgrad.training.report.curves import plot_history
from onnxgrad.training.report.report import Report
from onnxgrad.training.run.callbacks import Callback
from onnxgrad.training.run.checkpoint import load_checkpoint, save_checkpoint
from onnxgrad.training.run.loggers import MLflow, TensorBoard
from onnxgrad.training.run.rate_finder import find_learning_rate
from onnxgrad.training.run.schedules import Planned
from onnxgrad.training.surgery.adapters import load_adapters, save_adapters
from onnxgrad.training.surgery.batch_norm import fold_batch_norm, insert_batch_norm
from onnxgrad.training.surgery.heads import cut_at, insert_dropout, replace_head
from onnxgrad.training.surgery.lora import add_lora, merge_lora
from onnxgrad.training.surgery.packing import mask_packed_texts
from onnxgrad.training.surgery.peft import load_peft, save_peft
from onnxgrad.training.surgery.streams import unroll
from onnxgrad.training.surgery.ties import find_ties, tie, untie
from onnxgrad.training.trainer import Trainer

__all__ = [
    "Callback",
    "DataRecord",
    "Distillation",
    "Generator",
    "Images",
    "MLflow",
    "Planned",
    "Preferences",
    "Report",
    "Shuffled",
    "Sounds",
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
    "load_peft",
    "mask_packed_texts",
    "merge_lora",
    "plot_history",
    "quantize",
    "replace_head",
    "save_adapters",
    "save_checkpoint",
    "save_peft",
    "tie",
    "train_quantized",
    "unroll",
    "untie",
]


def __dir__() -> list[str]:
    return __all__
